"""What is the same molecule as a labelled one is not bought again; of those with one fingerprint, one is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from daskrf import fingerprint, fit, predict, suggest
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, OptionError

LABELLED = ["Oc1ccccn1", "CC(=O)O", "C[C@H](N)C(=O)Nc1ccccc1", "CCN(CC)CCO", *ReactionLibrary().smiles(0, 40)]
LIBRARY = {
    "spelling": "OC(C)=O",
    "salt": "CC(=O)[O-].[Na+]",
    "covalent": "CC(=O)O[K]",
    "hydrochloride": "CC[NH+](CC)CCO.[Cl-]",
    "tautomer": "O=c1cccc[nH]1",
    "anion": "[O-]c1ccccn1",
    "enantiomer": "C[C@@H](N)C(=O)Nc1ccccc1",
    "deuterated": "[2H]C([2H])([2H])C(=O)O",
    "other": "CCCCCCCCN",
    "twin 1": "C[C@H](O)CCN1CCOCC1",
    "twin 2": "C[C@@H](O)CCN1CCOCC1",
    "again 1": "Cc1cc(O)[nH]n1",
    "again 2": "Cc1cc(=O)[nH][nH]1",
}
FREE = {
    "structure": {*LIBRARY} - {"spelling", "twin 2"},
    "parent": {"tautomer", "enantiomer", "deuterated", "other", "twin 1", "again 1", "again 2"},
    "tautomer": {"enantiomer", "deuterated", "other", "twin 1", "again 1"},
    "skeleton": {"other", "twin 1", "again 1"},
}
N_LABELLED = {"structure": 1, "parent": 5, "tautomer": 6, "skeleton": 8}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alike") / "model"
    y = np.random.default_rng(0).normal(size=len(LABELLED))
    fit(pd.DataFrame({"smiles": LABELLED, "y": y}), output=path, direction="maximize", quick=True)
    return path


def library() -> pd.DataFrame:
    return pd.DataFrame({"smiles": list(LIBRARY.values()), "id": list(LIBRARY)})


@pytest.mark.parametrize("level", [*FREE, None])
def test_the_level_decides_what_is_left_out(model: Path, tmp_path: Path, level: str | None) -> None:
    by = {} if level is None else {"exclude_by": level}
    free = FREE[level or "tautomer"]
    report = suggest(model, library(), tmp_path / "b.csv", n=len(free), **by)
    found = {name.rstrip(" 12") for name in report.table["id"].to_pylist()}
    assert found == {name.rstrip(" 12") for name in free}
    assert f"labelled molecules are left out by {level or 'tautomer'}" in str(report)
    assert report.left_out["a labelled molecule"] == N_LABELLED[level or "tautomer"]


def test_files_to_leave_out_are_compared_alike(model: Path, tmp_path: Path) -> None:
    unwanted = pd.DataFrame({"smiles": ["CCCCCCCC[NH3+].[Br-]", "OC1=NNC(C)=C1"]})
    report = suggest(model, library(), tmp_path / "b.csv", n=3, exclude=unwanted)
    assert {name.rstrip(" 12") for name in report.table["id"].to_pylist()} == {
        "enantiomer",
        "deuterated",
        "twin",
    }


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("Z123\nZ456\n", r"2 of the first 2 lines of .*unwanted\.csv .* line 1 \('Z123': RDKit cannot parse"),
        ("CCO\nCCCCCCCCN\nZ1\nZ2\nZ3\n", r"3 of the first 5 lines .* line 3 \('Z1'"),
        ("smiles,name\n,failed1\n", r"1 of the first 1 lines .* line 2 \(',failed1': no SMILES\)"),
    ],
)
def test_files_to_leave_out_that_hold_no_molecules_are_refused(
    model: Path, tmp_path: Path, text: str, example: str
) -> None:
    unwanted = tmp_path / "unwanted.csv"
    unwanted.write_text(text)
    with pytest.raises(InputError, match=example):
        suggest(model, library(), tmp_path / "b.csv", n=1, exclude=unwanted)
    report = suggest(model, library(), tmp_path / "b.csv", n=1, exclude=unwanted, accept_rejects=True)
    assert "not left out: " in str(report)


def test_rows_to_leave_out_that_cannot_be_read_are_counted(model: Path, tmp_path: Path) -> None:
    """One has no syntax of SMILES, and one a carbon with five bonds."""
    (tmp_path / "unwanted.smi").write_text("CCCCCCCCN\nZ123\nOC1=NNC(C)=C1\nC(C)(C)(C)(C)C\n")
    report = suggest(model, library(), tmp_path / "b.csv", n=3, exclude=tmp_path / "unwanted.smi")
    assert {name.rstrip(" 12") for name in report.table["id"].to_pylist()} == {
        "enantiomer",
        "deuterated",
        "twin",
    }
    assert "2 molecules of unwanted.smi to leave out by tautomer" in str(report)
    assert "not left out: 2 rows could not be read as molecules, such as line 2 of " in str(report)
    assert "unwanted.smi ('Z123': RDKit cannot parse" in str(report)


@pytest.mark.parametrize("text", ["smiles,name\n", ""])
def test_files_to_leave_out_may_be_empty(model: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "failed.csv").write_text(text)
    free = FREE["tautomer"]
    report = suggest(model, library(), tmp_path / "b.csv", n=len(free), exclude=tmp_path / "failed.csv")
    assert report.table.num_rows == len(free)
    assert "0 molecules of failed.csv to leave out by tautomer" in str(report)


def test_stores_are_left_out(model: Path, store: Path, tmp_path: Path) -> None:
    others = ["CCCCCCCCCCO", *library().smiles]
    report = suggest(model, others, tmp_path / "b.csv", n=1, exclude=store)
    assert report.table["smiles"].to_pylist() == ["CCCCCCCCCCO"]
    assert "13 molecules of fp to leave out by tautomer" in str(report)


def test_twins_by_fingerprint_are_all_taken_on_request(model: Path, tmp_path: Path) -> None:
    only = library()[lambda table: table.id.str.startswith(("twin", "other"))]
    mean = predict(model, only).to_pandas()["mean"].tolist()
    assert mean[1] == mean[2]
    assert suggest(model, only, tmp_path / "a.csv", n=2).table.num_rows == 2
    report = suggest(model, only, tmp_path / "b.csv", n=3, same_fingerprint=True)
    assert sorted(report.table["id"].to_pylist()) == ["other", "twin 1", "twin 2"]
    assert "2 of the batch have the same fingerprint as another" in str(report)


def test_unknown_levels_are_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="structure, parent, tautomer, skeleton, not 'salt'"):
        suggest(model, library(), tmp_path / "b.csv", n=1, exclude_by="salt")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "fp"
    fingerprint(library(), path)
    return path


@pytest.mark.parametrize(
    ("key", "joined"), [("structure", 4), ("parent", 6), ("tautomer", 7), ("skeleton", 8)]
)
def test_labels_join_by_each_level(store: Path, tmp_path: Path, key: str, joined: int) -> None:
    exact = [LIBRARY[name] for name in ("other", "twin 1", "twin 2")] + ["CC(O)=O"]
    by_parent, tautomer, skeleton = ["CCN(CC)CCO", "Oc1ccccn1"], "CC1=NNC(=O)C1", "C[C@H](N)C(=O)Nc1ccccc1"
    labels = pd.DataFrame({"smiles": [*exact, *by_parent, tautomer, skeleton, "CCCCC"], "y": np.arange(9.0)})
    report = fit(store, labels, tmp_path / "m", key=key, key_column="smiles", target="y", quick=True)
    assert report.labels.matched == joined
