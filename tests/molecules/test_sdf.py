"""SD files: records of several lines, read by any range; broken ones are named like lost lines."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem

from daskrf.errors import InputError
from daskrf.measurements import label_words, read_labels
from daskrf.molecules.isolation import each
from daskrf.tables import (
    TableFormat,
    check_first_lines,
    lay_out,
    read_partition,
    sample_rows,
    scan,
    table_words,
)
from daskrf.tables.formats import sdf
from daskrf.tables.streams import RecordStream
from tests.molecules.helpers import COMPRESS, rejects_of, rows_of, write

BROKEN = {
    "end of record": (
        lambda text: text.replace("$$$$\n", ""),
        "2 MOL blocks in one record: the line $$$$ between them is missing",
    ),
    "end of block": (lambda text: text.replace("M  END\n", ""), "MOL block without end (M  END)"),
    "element": (
        lambda text: text.replace(" O ", " Xx"),
        "RDKit cannot read the MOL block: Element 'Xx' not found",
    ),
    "valence": (
        lambda text: text.replace("  1  2  1  0", "  1  2  3  0").replace("  2  3  1  0", "  2  3  3  0"),
        "RDKit cannot read the MOL block: Explicit valence for atom # 1 C, 6, is greater than permitted",
    ),
    "counts": (lambda text: text.replace("V2000", "V2"), "RDKit cannot read the MOL block: "),
    "NUL": (lambda text: text.replace("RDKit", "\0"), "NUL byte in the record"),
    "size": (lambda text: text.replace("$$$$", "x" * (3 << 20) + "\n$$$$"), "longer than 1,048,576 bytes"),
    "query": (lambda text: text.replace("  1  2  1  0", "  1  2  8  0"), "a query, not a molecule"),
}


def record(smiles: str, title: str, version: int = 2000, **properties: object) -> str:
    molecule = Chem.MolFromSmiles(smiles)
    molecule.SetProp("_Name", title)
    block = Chem.MolToMolBlock(molecule, forceV3000=version == 3000)
    return "".join([block, *(f">  <{k}>  (1)\n{v}\n\n" for k, v in properties.items()), "$$$$\n"])


def records(n: int, **properties: object) -> list[str]:
    return [record("C" * (k % 9 + 1) + "O", f"Z{k}", score=-k / 2, **properties) for k in range(n)]


@pytest.mark.parametrize("ending", ["", ".smi.gz", ".csv.bz2", ".zst"])
def test_any_range_of_records_is_read(ending: str, tmp_path: Path) -> None:
    parts = records(11_234)
    parts[7] = BROKEN["end of block"][0](parts[7])
    path, spool = write(tmp_path / f"a{ending}", "".join(parts)), tmp_path / "spool"
    library = scan(path, rows_per_partition=4_000, spool=spool)
    check_first_lines(lay_out(path))
    rows = rows_of(library, spool)
    expected = [(k, 0, k + 1, f"Z{k}", "C" * (k % 9 + 1) + "O") for k in range(len(parts)) if k != 7]
    assert rows == expected
    assert [(r.row, r.line, r.text, r.reason) for r in rejects_of(library, spool)] == [
        (7, 8, "Z7", BROKEN["end of block"][1])
    ]
    assert sum(batch.n_read for batch in sample_rows(library, 500)) == 500
    with_what = f", {library.sources[0].layout.compression}-compressed" if ending else ""
    assert table_words(lay_out(path)) == (
        f"{path}: SD file{with_what}; SMILES in 'structure', IDs in 'title'",
    )


def test_rdkit_sees_only_the_records_that_are_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = records(60)
    parts[7] = BROKEN["element"][0](parts[7])
    first, second = (write(tmp_path / f"{k}.sdf", "".join(parts)) for k in range(2))
    library = scan([first, second], rows_per_partition=80)  # the second partition begins within a file
    seen: list[str] = []

    def counted(name: str, arguments: tuple[object, ...], texts: list[str]) -> list[object]:
        seen.extend(texts)
        return each(name, arguments, texts)

    monkeypatch.setattr(sdf, "each", counted)
    wanted = np.array([3, 59, 60, 79])
    batches = list(read_partition(library, 0, rows=wanted))
    places = [(row, line) for batch in batches for row, line in zip(batch.row, batch.line, strict=True)]
    assert places == [(3, 4), (59, 60), (60, 1), (79, 20)]
    assert [name for batch in batches for name in batch.id] == ["Z3", "Z59", "Z0", "Z19"]
    assert not any(batch.rejects for batch in batches)
    assert len(seen) == len(wanted)
    assert [batch.row.tolist() for batch in read_partition(library, 1, rows=np.array([119]))][-1] == [119]
    some = list(read_partition(library, 0, rows=np.array([3, 7])))  # record 7 is none, as it was at the scan
    assert [row for batch in some for row in batch.row] == [3]


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("ending", COMPRESS)
def test_a_broken_record_is_named(fault: str, ending: str, tmp_path: Path) -> None:
    damage, reason = BROKEN[fault]
    parts = records(5)
    parts[2] = damage(record("CCO", "bad"))
    library = scan(write(tmp_path / f"a.sdf{ending}", "".join(parts)))
    rows, lost = rows_of(library), rejects_of(library)
    assert len(rows) + len(lost) == library.n_rows == (4 if fault == "end of record" else 5)
    assert [(r.line, r.text) for r in lost] == [(3, "bad")]
    assert lost[0].reason.startswith(reason)
    assert [row[3] for row in rows] == (
        ["Z0", "Z1", "Z4"] if library.n_rows == 4 else ["Z0", "Z1", "Z3", "Z4"]
    )


@pytest.mark.parametrize("text", ["\r\n", "V3000", "no end", "blank lines", "byte order mark", "MOL file"])
def test_dialects(text: str, tmp_path: Path) -> None:
    parts = [
        record(s, f"Z{k}", 3000 if text == "V3000" else 2000) for k, s in enumerate(("CCO", "C[C@H](F)Cl"))
    ]
    content = "".join(parts)
    if text == "\r\n":
        content = content.replace("\n", "\r\n")
    elif text in ("no end", "MOL file"):
        content = (parts[0] if text == "MOL file" else content).removesuffix("$$$$\n")
    elif text == "blank lines":
        content += "\n \n\n"
    elif text == "byte order mark":
        content = "\ufeff" + content
    library = scan(write(tmp_path / "a", content))
    rows = [(row[3], row[4]) for row in rows_of(library)]
    assert rows == [("Z0", "CCO"), ("Z1", "C[C@H](F)Cl")][: 1 if text == "MOL file" else 2]
    assert not rejects_of(library)


def test_properties_are_columns(tmp_path: Path) -> None:
    text = record("CCO", "", Catalog_ID="E1", SMILES="OCC", note="two\nlines") + record(
        "CC", "", Catalog_ID="E2", price=3
    )
    path = write(tmp_path / "a.sdf", text)
    library = scan(path, TableFormat(extra=("note", "price")))
    (batch,) = read_partition(library, 0)
    assert (batch.id, batch.smiles) == (["E1", "E2"], ["CCO", "CC"])
    assert batch.extra == {"note": ["two\nlines", None], "price": [None, "3"]}
    (batch,) = read_partition(scan(path, TableFormat(smiles="SMILES", id="title")), 0)
    assert (batch.id, batch.smiles, batch.rejects[0].reason) == (["row-0"], ["OCC"], "no SMILES")
    with pytest.raises(InputError, match="its columns are structure, title, Catalog_ID, SMILES, note, price"):
        lay_out(path, TableFormat(id="none"))


def test_three_dimensions_keep_stereochemistry(tmp_path: Path) -> None:
    from rdkit.Chem import AllChem

    molecule = Chem.AddHs(Chem.MolFromSmiles("C[C@H](F)Cl"))
    AllChem.EmbedMolecule(molecule, randomSeed=1)
    path = write(tmp_path / "a.sdf", Chem.MolToMolBlock(molecule, includeStereo=False) + "$$$$\n")
    assert [row[4] for row in rows_of(scan(path))] == ["C[C@H](F)Cl"]


def test_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sdf.gz", "".join(records(3)))
    labels = read_labels(path)
    assert (labels.keys.to_pylist(), labels.y.ravel().tolist()) == (["Z0", "Z1", "Z2"], [0, -0.5, -1])
    assert label_words(path) == f"{path}: SD file, gzip-compressed; IDs in 'title', target 'score'"
    assert read_labels(path, key="smiles").keys.to_pylist() == ["CO", "CCO", "CCCO"]
    write(path, "".join([*records(3), BROKEN["element"][0](record("CO", "bad", score=1))]))
    with pytest.raises(InputError, match=r"record 4 cannot be read .RDKit cannot read the MOL block"):
        read_labels(path, key="smiles")


@given(
    st.lists(st.sampled_from(["a", "$$$$", "$$$$x", " $$$$", "$$$", "", "M  END"]), max_size=12),
    st.sampled_from(["", "\n", "\n\n"]),
    st.integers(1, 9),
)
def test_records_do_not_depend_on_blocks(lines: list[str], end: str, size: int) -> None:
    text = "\n".join(lines) + end
    stream = RecordStream(iter([text[k : k + size].encode() for k in range(0, len(text), size)]))
    content = stream.take(100).decode()
    expected = re.findall(r"(?:(?!\$\$\$\$\n).*\n)*\$\$\$\$\n", text + "\n$$$$\n")
    if not "".join(expected[-1:]).removesuffix("$$$$\n").strip():
        expected.pop()
    assert RecordStream.ends(content.encode()).size == len(expected)
    assert re.sub(r"\s+", "", content) == re.sub(r"\s+", "", "".join(expected))


@pytest.mark.parametrize("symbol", ["A", "Q", "X", "L"])
def test_atoms_that_stand_for_several_are_no_molecules(symbol: str, tmp_path: Path) -> None:
    text = record("CCO", "bad").replace(" O  ", f" {symbol}  ")
    if symbol == "L":
        text = text.replace("M  END", "M  ALS   3  2 F N   O   \nM  END")
    library = scan(write(tmp_path / "a.sdf", record("CC", "good") + text))
    assert [row[4] for row in rows_of(library)] == ["CC"]
    assert [(r.text, r.reason) for r in rejects_of(library)] == [("bad", "a query, not a molecule")]
    assert rows_of(scan(write(tmp_path / "r.sdf", record("CCO", "").replace(" O  ", " R# "))))[0][4] == "*CC"


def test_values_are_kept_letter_by_letter(tmp_path: Path) -> None:
    text = record("CCO", "Z", note="one\x0cpage\u2028more") + record("CC", "Y", note="a\nb")
    for content in (text, text.replace("\n", "\r\n")):
        (batch,) = read_partition(scan(write(tmp_path / "a.sdf", content), TableFormat(extra=("note",))), 0)
        assert batch.extra == {"note": ["one\x0cpage\u2028more", "a\nb"]}


@pytest.mark.parametrize("end", ["$$$$", "$$$$ ", "$$$$\r", "$$$$\t"])
def test_only_a_line_of_the_mark_alone_ends_a_record(end: str, tmp_path: Path) -> None:
    """As RDKit reads it: values and titles may begin with the mark."""
    parts = [record("CC", "$$$$ A", p="$$$$ 3"), record("CCO", "B", p="in\n$$$$5"), record("C", "C", p=4)]
    content = "".join(block.removesuffix("$$$$\n") + f"{end}\n" for block in parts)
    library = scan(write(tmp_path / "a.sdf", content), TableFormat(extra=("p",)))
    (batch,) = read_partition(library, 0)
    assert (batch.id, batch.smiles) == (["$$$$ A", "B", "C"], ["CC", "CCO", "C"])
    assert batch.extra == {"p": ["$$$$ 3", "in\n$$$$5", "4"]}
    theirs = [(m.GetProp("_Name"), m.GetProp("p")) for m in Chem.SDMolSupplier(str(tmp_path / "a.sdf"))]
    assert theirs == list(zip(batch.id, batch.extra["p"], strict=True))
    assert not batch.rejects


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_file_that_is_cut_off_anywhere_gives_no_wrong_value(ending: str, tmp_path: Path) -> None:
    """Each of its values is whole, or its record is a reject."""
    whole = record("CC", "A", score=-1.5) + record("CCO", "B", score=-4.7, rank=12)
    last = whole.index("M  END", whole.index("$$$$")) + len("M  END\n")
    for at in range(last, len(whole) - 1):
        path = write(tmp_path / f"{at}.sdf{ending}", whole[:at])
        library = scan(path, TableFormat(extra=("score",)))
        (batch,) = read_partition(library, 0)
        cut = whole[last:at].strip() and not whole[:at].endswith("$$$$")
        assert batch.extra["score"] == (["-1.5"] if cut else ["-1.5", "-4.7" if at > last else None])
        assert [r.reason.startswith("record without end ($$$$)") for r in batch.rejects] == [True] * bool(cut)
    with pytest.raises(InputError, match=r"record 2 cannot be read \(record without end"):
        read_labels(write(tmp_path / "a.sdf", whole[: whole.rindex(".7")]), targets=["score"])


def test_targets_that_later_records_have_are_seen(tmp_path: Path) -> None:
    parts = [record("CC", f"Z{k}", weight=k) for k in range(40)] + [
        record("CCO", "last", activity=7, text="x")
    ]
    with pytest.raises(InputError, match=r"several numeric columns \(weight, activity\)"):
        read_labels(write(tmp_path / "a.sdf", "".join(parts)))
    parts = [record("CC", f"Z{k}", **{"score" if k % 2 else "note": k if k % 2 else "x"}) for k in range(40)]
    labels = read_labels(write(tmp_path / "a.sdf", "".join(parts)), drop_non_numbers=True)
    assert (labels.names, labels.read, labels.dropped) == (("score",), 40, 20)
    twice = record("CC", "Z", score=1).replace("$$$$", "> <score>\n2\n\n$$$$")
    with pytest.raises(InputError, match=r"record 1 cannot be read \(several values of 'score'\)"):
        read_labels(write(tmp_path / "a.sdf", twice), targets=["score"])


def test_a_property_that_stands_twice_makes_a_reject_where_it_is_asked_for(tmp_path: Path) -> None:
    parts = [record(text, name, score=1, note=2) for text, name in (("CC", "A"), ("CCO", "B"), ("CCC", "C"))]
    parts[1] = parts[1].replace("$$$$", "> <score>\n2\n\n$$$$")
    parts[2] = parts[2].replace("$$$$", "> <score>\n1\n\n$$$$")
    path = write(tmp_path / "a.sdf", "".join(parts))
    library = scan(path, TableFormat(extra=("score",)))
    assert [(r.text, r.reason) for r in rejects_of(library)] == [("B", "several values of 'score'")]
    assert [row[3] for row in rows_of(library)] == ["A", "C"]
    labels = read_labels(path, targets=["score"], accept_rejects=True)
    assert (labels.keys.to_pylist(), labels.y.ravel().tolist()) == (["A", "C"], [1, 1])
    assert read_labels(path, targets=["note"]).keys.to_pylist() == ["A", "B", "C"]


@pytest.mark.parametrize("name", ["title", "structure"])
def test_a_property_may_be_called_as_a_column_of_the_format(name: str, tmp_path: Path) -> None:
    block = Chem.MolToMolBlock(Chem.MolFromSmiles("CCO"))
    records = (f"m{k}{block}>  <{name}>\n{k}.5\n\n>  <pIC50>\n{k}\n\n$$$$\n" for k in range(1, 4))
    (tmp_path / "a.sdf").write_text("".join(records))
    labels = read_labels(tmp_path / "a.sdf", targets=["pIC50", f"{name} (property)"])
    assert labels.keys.to_pylist() == ["m1", "m2", "m3"]
    assert labels.y.tolist() == [[1.0, 1.5], [2.0, 2.5], [3.0, 3.5]]
