"""Filters of a screen: the hits are the best of all that pass, and what was left out is counted."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator
from rdkit.Chem.Descriptors import MolWt

import daskrf
from daskrf import ExactGP, TableFormat, TanimotoMinMax, TanimotoMinMaxFeatures
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, StoreError

N = 240
SMILES = list(ReactionLibrary().smiles(0, N + 60))
RNG = np.random.default_rng(0)
LIBRARY = pd.DataFrame(
    {
        "smiles": SMILES[:N],
        "id": [f"m{k}" for k in range(N)],
        "price": [f"{k % 50},50" for k in range(N)],
        "Supplier": [["Enamine", "WuXi", ""][k % 3] for k in range(N)],
    }
)
LABELS = pd.DataFrame({"smiles": SMILES[N:], "y": RNG.standard_normal(60)})
WEIGHT = np.array([MolWt(Chem.MolFromSmiles(text)) for text in SMILES[:N]])
PRICE, SUPPLIER = np.arange(N) % 50 + 0.5, LIBRARY["Supplier"].to_numpy()
RING = np.array([Chem.MolFromSmiles(t).HasSubstructMatch(Chem.MolFromSmarts("c1ccccc1")) for t in SMILES[:N]])
COUNTS = [
    rdFingerprintGenerator.GetMorganGenerator(radius=2).GetSparseCountFingerprint(Chem.MolFromSmiles(text))
    for text in SMILES[:N]
]
SIMILAR = np.max([DataStructs.BulkTanimotoSimilarity(each, COUNTS) for each in COUNTS[:2]], axis=0)
GIVEN: dict[str, Any] = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.1, "direction": "minimize"}
MEDIAN = float(np.median(WEIGHT).round(1))
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "property": ({"where": f"weight < {MEDIAN}"}, WEIGHT < MEDIAN),
    "column": ({"where": "price < 20 and price > 2"}, (PRICE < 20) & (PRICE > 2)),
    "text": ({"where": "Supplier == 'Enamine'"}, SUPPLIER == "Enamine"),
    "fragment": ({"where": "Supplier ~ 'ENAM' and not price > 40"}, (SUPPLIER == "Enamine") & (PRICE <= 40)),
    "missing": ({"where": "Supplier missing, price present"}, SUPPLIER == ""),
    "several": (
        {"where": ["Supplier in ('WuXi', 'x')", f"weight < {MEDIAN}"]},
        (SUPPLIER == "WuXi") & (WEIGHT < MEDIAN),
    ),
    "smarts": ({"smarts": "c1ccccc1"}, RING),
    "similar": ({"similar_to": SMILES[:2], "least_similarity": 0.3}, SIMILAR >= 0.3),
    "without": ({"without_smarts": "c1ccccc1", "where": "price < 40"}, ~RING & (PRICE < 40)),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filters")
    LIBRARY.to_csv(folder / "library.csv", sep=";", index=False)
    extra = TableFormat(extra=("*",))
    daskrf.fingerprint(folder / "library.csv", folder / "fp", rows_per_partition=50, format=extra)
    daskrf.fit(LABELS, output=folder / "model", feature_map=TanimotoMinMaxFeatures(64), **GIVEN)
    return folder


def ranked(made: Path, passing: Any, rule: str) -> list[int]:
    """Return the rows that pass, best first, by predictions of all."""
    mean, std = daskrf.load(made / "model").predict(SMILES[:N], return_std=True, of="f")
    score = -mean + (0.0 if rule == "greedy" else 1.0 * std)
    order = np.lexsort((np.arange(N), -score))
    return [row for row in order.tolist() if passing[row]]


@pytest.mark.parametrize("rule", ["greedy", "ucb"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("library", ["fp", "library.csv"])
def test_hits_are_the_best_of_all_that_pass(
    library: str, case: str, rule: str, made: Path, tmp_path: Path
) -> None:
    filters, passing = CASES[case]
    options: dict[str, Any] = {"acquisition": rule, **filters}
    hits = daskrf.screen(made / "model", made / library, tmp_path / "h.csv", k=9, **options)
    want = ranked(made, passing, rule)
    assert hits.table["row"].to_pylist() == want[:9]
    assert hits.rows == N
    again = daskrf.screen(made / "model", made / library, tmp_path / "h.csv", k=9, **options)
    assert "already holds exactly these hits" in again.notes[-1]


def test_what_is_left_out_is_counted_as_by_suggest(made: Path, tmp_path: Path) -> None:
    """With as many hits as pass, all molecules are tested, by the first filter that they fail."""
    passing = (SUPPLIER == "Enamine") & (WEIGHT < MEDIAN) & RING
    filters = {"where": ["Supplier == 'Enamine'", f"weight < {MEDIAN}"], "smarts": "c1ccccc1"}
    n = int(passing.sum())
    hits = daskrf.screen(made / "model", made / "fp", tmp_path / "h.csv", k=n + 5, **filters)
    others, heavy = (
        int((SUPPLIER != "Enamine").sum()),
        int(((SUPPLIER == "Enamine") & (WEIGHT >= MEDIAN)).sum()),
    )
    counts = {
        "left out, not Supplier == 'Enamine' (column)": others,
        f"left out, not weight < {MEDIAN:g}": heavy,
        "left out, has no c1ccccc1": N - n - others - heavy,
    }
    assert hits.table.num_rows == n
    assert f"only {n} molecules pass" in hits.notes
    assert f"{N} of the best molecules were tested, until enough passed" in hits.notes
    said = dict(note.rsplit(": ", 1) for note in hits.notes if note.startswith("left out"))
    assert {name.replace('"', "'"): int(count) for name, count in said.items()} == counts
    some = {"n": n, "acquisition": "greedy", "same_fingerprint": True, "exclude_by": "structure"}
    batch = daskrf.suggest(made / "model", made / "fp", tmp_path / "b.csv", **some, **filters)
    shared = [note for note in batch.notes if note in hits.notes]
    assert set(said) <= {note.rsplit(": ", 1)[0] for note in shared}


def test_filters_are_part_of_what_hits_are(made: Path, tmp_path: Path) -> None:
    daskrf.screen(made / "model", made / "fp", tmp_path / "h.csv", k=3, where="price < 20")
    with pytest.raises(StoreError, match="--where"):
        daskrf.screen(made / "model", made / "fp", tmp_path / "h.csv", k=3, where="price < 21")
    with pytest.raises(StoreError, match="--where"):
        daskrf.screen(made / "model", made / "fp", tmp_path / "h.csv", k=3)
    again = daskrf.screen(made / "model", made / "fp", tmp_path / "h.csv", k=3, overwrite=True)
    assert again.table["row"].to_pylist() == ranked(made, np.ones(N, bool), "greedy")[:3]
    with pytest.raises(InputError, match=rf"None of {N} molecules passes .*left out, not weight < 5: {N}"):
        daskrf.screen(made / "model", made / "fp", tmp_path / "none.csv", k=3, where="weight < 5")
    where = "price > 3 and Supplier ~ 'mcule'"
    for command, n in ((daskrf.screen, {"k": 3}), (daskrf.suggest, {"n": 3})):
        with pytest.raises(InputError, match=r"most of them fail .Supplier ~ .mcule.. at character 15 of"):
            command(made / "model", made / "fp", tmp_path / "none.csv", where=where, **n)
    with pytest.raises(InputError, match=r"'Supplier <= 7' at character 13 of .*, but texts such as"):
        daskrf.screen(made / "model", made / "fp", tmp_path / "none.csv", where="weight < 5, Supplier <= 7")
    assert not (tmp_path / "none.csv").exists()
    with pytest.raises(
        InputError,
        match="'wieght' is neither a column kept by the library nor a property, at character 1",
    ):
        daskrf.screen(made / "model", made / "fp", tmp_path / "none.csv", k=3, where="wieght < 5")
    daskrf.screen(made / "model", made / "fp", tmp_path / "h.html", k=3, where="price < 20")
    page = html.unescape((tmp_path / "h.html").read_text())
    assert "--where 'price < 20'" in page
    assert "Only molecules that pass these filters: price < 20." in page


def test_a_shortlist_in_which_too_few_pass_is_left(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daskrf.screens.libraryranking._LEAST_LIBRARY", 0)
    monkeypatch.setattr("daskrf.screens.shortlist._BEST", 5)
    monkeypatch.setattr("daskrf.screens.shortlist._MOST", 1.0)
    monkeypatch.setattr(ExactGP, "rough", lambda self: self)
    daskrf.fit(LABELS, output=tmp_path / "exact", process="exact", kernel=TanimotoMinMax(), **GIVEN)
    mean = daskrf.load(tmp_path / "exact").predict(SMILES[:N])
    passing = mean > np.median(mean)  # none of the best
    names = LIBRARY.assign(good=np.where(passing, "yes", "no"))
    names.to_csv(tmp_path / "named.csv", index=False)
    hits = daskrf.screen(
        tmp_path / "exact", tmp_path / "named.csv", tmp_path / "h.csv", k=100, where="good == 'yes'"
    )
    order = [row for row in np.lexsort((np.arange(N), mean)).tolist() if passing[row]]
    assert hits.table["row"].to_pylist() == order[:100]
