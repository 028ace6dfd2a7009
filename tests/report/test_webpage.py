"""The page of molecules: what it holds, and what it does in a browser."""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors
from rdkit.Chem.Scaffolds import MurckoScaffold

from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import OptionError
from daskrf.molecules.drawings import drawings
from daskrf.report.annotation import Reference
from daskrf.report.webpage import MOST, Words, write_page
from daskrf.tables.spreadsheets import harmless
from tests.molecules.test_spreadsheets import FORMULAS, HARMLESS
from tests.report.browser import Tab, browser, needs_browser

N = 300
EVIL = '</script><script>alert(1)</script><b onclick="x">&amp;'
SMILES = ReactionLibrary().smiles(0, N)
LABELLED = Reference(ReactionLibrary().smiles(1000, 1040), [f"{-i / 4}" for i in range(40)])
ACTIVES = Reference(["c1ccccc1C(=O)NC", SMILES[7]], ["lead", EVIL])


def table() -> pa.Table:
    means = [-12 + i / 37 for i in range(N)]
    return pa.table(
        {
            "rank": range(1, N + 1),
            "row": [(7 * i) % 1000 for i in range(N)],
            "id": [EVIL if i == 3 else f"Z{i:03d}" for i in range(N)],
            "smiles": SMILES,
            "source": [f"/home/somebody/vendors/{'ab'[i % 2]}.csv" for i in range(N)],
            "line": range(2, N + 2),
            "mean": means,
            "std": [0.1 + (i % 5) / 10 for i in range(N)],
            "std_y": [0.2 + (i % 5) / 10 for i in range(N)],
            "price": [str((i * 37) % 101) if i % 10 else "" for i in range(N)],
            "note": [f"in stock, {i}" if i % 2 else "" for i in range(N)],
        }
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "hits.html"
    sections = {"What was assumed": [f"the model is {EVIL}"], "Nothing": []}
    words = Words("Hits <of> it", ["one", "two"], "score", sections, "daskrf screen 'a b' -o x.csv")
    write_page(table(), path, words, LABELLED, ACTIVES)
    return path


class Reader(HTMLParser):
    """Collects the elements of a page and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self._script: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self._script = str(dict(attrs).get("id", "code"))

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._script = None if tag == "script" else self._script


def drawings_of(scripts: dict[str, str]) -> list[str]:
    packets = sorted((name for name in scripts if name.startswith("drawings-")), key=lambda n: int(n[9:]))
    return [d for name in packets for d in json.loads(zlib.decompress(base64.b64decode(scripts[name])))]


def test_the_page_holds_the_table_and_a_drawing_of_every_molecule(path: Path) -> None:
    page = Reader(path.read_text())
    data = json.loads(page.scripts["data"])
    at = {column["name"]: k for k, column in enumerate(data["columns"])}
    kinds = {column["name"]: column["kind"] for column in data["columns"]}
    rows = data["rows"]
    for name in ("rank", "row", "id", "smiles", "mean", "std", "note"):
        assert [row[at[name]] for row in rows] == table()[name].to_pylist()
    assert (kinds["price"], kinds["note"], kinds["id"]) == ("number", "text", "text")
    assert [row[at["price"]] for row in rows][9:12] == [30.0, None, 3.0]
    drawn = drawings_of(page.scripts)
    assert all(text.startswith("<svg") and "<script" not in text for text in drawn)
    assert len(set(drawn)) > N
    for row, molecule in zip(rows[:20], map(Chem.MolFromSmiles, SMILES), strict=False):
        assert math.isclose(row[at["weight"]], Descriptors.MolWt(molecule), abs_tol=0.006)
        assert math.isclose(row[at["logp"]], Descriptors.MolLogP(molecule), abs_tol=0.006)
        assert math.isclose(row[at["tpsa"]], Descriptors.TPSA(molecule), abs_tol=0.006)
        Chem.RemoveStereochemistry(molecule)
        assert row[at["scaffold"]] == Chem.MolToSmiles(MurckoScaffold.GetScaffoldForMol(molecule))
    assert rows[7][at["similarity_to_active"]] == 1
    assert rows[7][at["its_id"]] == EVIL
    value = dict(zip(LABELLED.smiles, LABELLED.values, strict=True))
    assert all(value[row[at["nearest_labelled"]]] == row[at["its_label"]] for row in rows)


def test_the_page_does_not_tell_in_which_folders_files_lie(path: Path) -> None:
    assert "somebody" not in path.read_text()


def test_a_drawing_belongs_to_its_molecule(path: Path) -> None:
    from daskrf.molecules.drawings import drawings

    page = Reader(path.read_text())
    data, drawn = json.loads(page.scripts["data"]), drawings_of(page.scripts)
    assert [drawn[k] for k in data["drawing"]] == drawings(SMILES)
    at = [column["name"] for column in data["columns"]].index("nearest_labelled")
    assert [drawn[k] for k in data["neighbours"]] == drawings([row[at] for row in data["rows"]])
    shown = [(text, times) for text, times, _ in data["scaffolds"] if text]
    assert [drawn[k] for _, _, k in data["scaffolds"] if k is not None] == drawings([t for t, _ in shown])


def test_the_page_needs_no_network_and_no_text_becomes_markup(path: Path) -> None:
    text = path.read_text()
    page = Reader(text)
    assert not [attrs for _, attrs in page.tags if {"src", "href", "onclick"} & attrs.keys()]
    assert not re.findall(r"https?://(?!www\.w3\.org)", text)
    assert [tag for tag, _ in page.tags].count("b") == 0
    policy = next(attrs for _, attrs in page.tags if "http-equiv" in attrs)["content"]
    assert str(policy).startswith("default-src 'none'")
    assert "<h2>Nothing" not in text


def test_bonds_can_be_seen_in_a_table(tmp_path: Path) -> None:
    """RDKit draws them, wedges and hashes too, 1 pixel wide at this size."""
    (picture,) = drawings(["C[C@H](N)C(=O)O"])
    assert set(re.findall(r"stroke-width:([\d.]+)px", picture)) >= {"1.5"}


def test_numbers_that_no_float_holds_stay_text(tmp_path: Path) -> None:
    columns = {"id": ["a", "b"], "smiles": ["CCO", "CCC"], "price": ["1e400", "2"], "mass": ["1e40", "2"]}
    write_page(pa.table(columns), tmp_path / "page.html", Words("hits"))
    (text,) = re.findall(r'id="data">(.*?)</script>', (tmp_path / "page.html").read_text())
    data = json.loads(text)
    at = [column["name"] for column in data["columns"]]
    assert [row[at.index("price")] for row in data["rows"]] == ["1e400", "2"]
    assert [row[at.index("mass")] for row in data["rows"]] == [1e40, 2.0]


def test_too_many_molecules_are_refused(tmp_path: Path) -> None:
    many = pa.table({"id": ["a"] * (MOST + 1), "smiles": ["C"] * (MOST + 1)})
    with pytest.raises(OptionError, match=r"at most 10,000 molecules, not 10,001"):
        write_page(many, tmp_path / "x.html", Words("x"))


@pytest.fixture(scope="module")
def tab(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        tab.open(path)
        yield tab


@needs_browser
def test_a_browser_shows_it_without_faults_or_requests(tab: Tab, path: Path) -> None:
    tab.click("#clear")
    assert tab.faults == []
    assert tab.requests == []
    assert tab.run("document.title") == "Hits <of> it"
    assert tab.run("document.getElementById('count').textContent") == "300 of 300 molecules"
    assert tab.shown()[:4] == ["Z000", "Z001", "Z002", EVIL]
    assert len(tab.shown()) < 30  # only the rows in view
    assert tab.run("document.querySelectorAll('tr.molecule td.structure svg').length") == 3 * len(tab.shown())
    assert tab.run("document.querySelectorAll('#histograms figure').length") == 6
    cell = tab.run("document.querySelector('tr.molecule td.number:nth-child(3)').textContent")
    assert cell == "-12 ± 0.200"
    headings = tab.run("[...document.querySelectorAll('#headings button')].map(each => each.textContent)")
    assert headings[2] == "score (mean ± std of a measurement)"  # it shows std_y
    assert headings[-1] == "from"
    assert not {"source", "line", "row"} & set(headings)
    assert tab.run("document.querySelector('tr.molecule td:last-child').textContent") == "a.csv, line 2"
    assert "daskrf screen 'a b' -o x.csv" in tab.run("document.querySelector('pre').textContent")
    tab.picture(path.with_suffix(".png"))


@needs_browser
def test_sorting_goes_both_ways_and_empty_values_come_last(tab: Tab) -> None:
    tab.click("#clear")
    prices: list[tuple[float, int]] = [((i * 37) % 101, i) for i in range(N) if i % 10]
    up = [f"Z{i:03d}" for _, i in sorted(prices)]
    down = [f"Z{i:03d}" for _, i in sorted(prices, key=lambda pair: (-pair[0], pair[1]))]
    heading = "th[data-name='price'] button"
    for expected, state in ((up, "ascending"), (down, "descending")):
        tab.click(heading)
        assert tab.shown()[:5] == [EVIL if name == "Z003" else name for name in expected[:5]]
        assert tab.run("document.querySelector('th[data-name=price]').getAttribute('aria-sort')") == state
    tab.run("document.getElementById('table').scrollTop = 1e9")
    tab.run("new Promise(done => setTimeout(done, 100))")
    assert tab.shown()[-1] == "Z290"


def names_where(test: Any) -> list[str]:
    return [row["id"] for row in table().to_pylist() if test(row)]


@needs_browser
@pytest.mark.parametrize(
    ("column", "text", "test"),
    [
        ("mean", "< -11.5", lambda row: row["mean"] < -11.5),
        ("mean", "-11.9..-11.8", lambda row: -11.9 <= row["mean"] <= -11.8),
        ("price", ">= 95", lambda row: row["price"] and int(row["price"]) >= 95),
        ("price", "7", lambda row: row["price"] == "7"),
        ("note", "STOCK, 11", lambda row: "stock, 11" in row["note"]),
        ("id", "z29", lambda row: row["id"].startswith("Z29")),
    ],
)
def test_filters(column: str, text: str, test: Any, tab: Tab) -> None:
    tab.click("#clear")
    tab.type(f"th[data-name='{column}'] input", text)
    expected = names_where(test)
    assert tab.run("document.getElementById('count').textContent") == f"{len(expected)} of 300 molecules"
    assert tab.run("page.shown.map(k => page.rows[k][page.names.id])") == expected
    tab.type(f"th[data-name='{column}'] input", "")
    assert tab.run("page.shown.length") == N


@needs_browser
def test_a_condition_that_cannot_be_read_is_marked_and_hides_nothing(tab: Tab) -> None:
    tab.click("#clear")
    tab.type("th[data-name='mean'] input", "< much")
    assert tab.run("document.querySelector('th[data-name=mean] input').classList.contains('wrong')")
    assert tab.run("page.shown.length") == N
    message = tab.run("document.getElementById('wrong').textContent")
    assert message.startswith(
        'The filter "< much" of "score (mean ± std of a measurement)" is ignored: write '
    )
    assert "2..4" in message
    tab.click("#clear")
    assert tab.run("document.getElementById('wrong').textContent") == ""


@needs_browser
def test_search_scaffolds_and_saving(tab: Tab) -> None:
    tab.click("#clear")
    tab.type("#search", "stock, 2 z02")
    assert tab.run("page.shown.map(k => page.rows[k][page.names.id])") == [
        f"Z0{i}" for i in (21, 23, 25, 27, 29)
    ]
    text = tab.run("rules.csv(page.columns, page.rows, page.shown)")
    assert len(text.splitlines()) == 6
    assert '"in stock, 21"' in text
    tab.click("#clear")
    tab.click(".scaffold")
    smiles = tab.run("document.querySelector('.scaffold').dataset.smiles")
    scaffolds = tab.run("page.shown.map(k => page.rows[k][page.names.scaffold])")
    assert set(scaffolds) == {smiles}
    assert f"{len(scaffolds)} molecule" in tab.run("document.querySelector('.scaffold').textContent")
    tab.click(".scaffold")
    assert tab.run("page.shown.length") == N
    assert tab.faults == []


@needs_browser
def test_a_page_of_ten_thousand_stays_usable(tmp_path: Path) -> None:
    """Sorting, filtering and scrolling take a fraction of a second; few rows are in the document."""
    rows = MOST
    big = pa.table(
        {
            "id": [f"m{i}" for i in range(rows)],
            "smiles": [SMILES[i % N] for i in range(rows)],
            "mean": [math.sin(i) for i in range(rows)],
            "std": [0.1] * rows,
        }
    )
    write_page(big, tmp_path / "big.html", Words("big", quantity="score"), LABELLED)
    with browser(tmp_path / "profile") as tab:
        tab.open(tmp_path / "big.html")
        tab.click("th[data-name='mean'] button")
        order = sorted(range(rows), key=math.sin)
        assert tab.shown()[:3] == [f"m{i}" for i in order[:3]]
        tab.run("document.getElementById('table').scrollTop = 5000 * page.height")
        tab.run("new Promise(done => setTimeout(done, 100))")
        tab.settle()
        assert f"m{order[5000]}" in tab.shown()
        assert tab.run("document.querySelectorAll('tr.molecule').length") < 40
        drawn = tab.run("document.querySelectorAll('tr.molecule td.structure svg').length")
        assert drawn == 2 * len(tab.shown())
        tab.type("th[data-name='mean'] input", "> 0.999")
        assert tab.run("page.shown.length") == sum(math.sin(i) > 0.999 for i in range(rows))
        assert tab.faults == []


@needs_browser
def test_formulas_are_harmless_in_what_the_page_saves(tab: Tab) -> None:
    """By the same rule as in files that are written."""
    texts = [*FORMULAS, *HARMLESS, "'=x", "''+", "=<'"]
    assert tab.run(f"{json.dumps(texts)}.map(rules.harmless)") == list(map(harmless, texts))
