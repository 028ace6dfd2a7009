"""`evaluate` gives each row of the labels its own row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import daskrf
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score

NO_LABEL = "it has no label"
NO_MOLECULE = "its molecule is not in the library, or cannot be read"
FIRST = "there are no earlier labels to learn from"


@pytest.fixture
def table() -> pd.DataFrame:
    """Repeats among others, a row without a label, and one without a molecule, by names."""
    smiles = ReactionLibrary().smiles(0, 40)
    given = pd.DataFrame({"smiles": smiles, "y": score(smiles)}, index=[f"i{k}" for k in range(40)])
    given = pd.concat([given[:5], given[2:4].assign(y=-3.0), given[5:]])
    given.iloc[1, 1] = np.nan
    given.iloc[9, 0] = "bad("
    return given


def _evaluated(table: Any, **options: Any) -> pd.DataFrame:
    report = daskrf.evaluate(table, quick=True, folds=3, drop_non_numbers=True, **options)
    frame: pd.DataFrame = report.to_pandas()
    return frame


def _assert_in_order(found: pd.DataFrame, table: pd.DataFrame) -> None:
    """Molecules are called by an index of names, else by their row."""
    assert found.row.tolist() == list(range(len(table)))
    plain = [f"row-{k}" for k in range(len(table))]
    named = "input_index" in found and isinstance(table.index[0], str)
    assert found.id.tolist() == (list(table.index) if named else plain)
    reasons = dict.fromkeys(range(len(table))) | {1: NO_LABEL, 9: NO_MOLECULE}
    assert [None if pd.isna(reason) else reason for reason in found.reason] == list(reasons.values())
    assert (found["mean"].isna() == found.reason.notna()).all()
    assert (found["fold"].isna() == found.reason.notna()).all()


def test_each_row_has_its_own_in_order(table: pd.DataFrame) -> None:
    found = _evaluated(table)
    _assert_in_order(found, table)
    assert found.input_index.tolist() == table.index.tolist()
    assert found.smiles.tolist() == table.smiles.tolist()
    there = found.reason.isna()
    np.testing.assert_array_equal(found.y[there], table.y.to_numpy()[there])
    for first, second in ((2, 5), (3, 6)):
        assert found["mean"][first] == found["mean"][second]


def test_one_label_of_each_molecule(table: pd.DataFrame) -> None:
    """Rows of a molecule have its mean."""
    found = _evaluated(table, repeats="mean")
    _assert_in_order(found, table)
    assert found.y[2] == found.y[5] == pytest.approx((table.y.iloc[2] - 3) / 2)
    assert found.y[0] == table.y.iloc[0]


def test_files_have_them_by_option(table: pd.DataFrame, tmp_path: Path) -> None:
    """Without it, a line for each label; `row` is that of the molecule."""
    table.to_csv(tmp_path / "labels.csv", index=False)
    every, plain = tmp_path / "every.csv", tmp_path / "plain.csv"
    _evaluated(tmp_path / "labels.csv", accept_rejects=True, every_row=True, output=every)
    _assert_in_order(pd.read_csv(every), table)
    _evaluated(tmp_path / "labels.csv", accept_rejects=True, output=plain)
    found = pd.read_csv(plain)
    assert len(found) == len(table) - 2
    assert "reason" not in found


def test_ids_are_those_of_the_file(table: pd.DataFrame, tmp_path: Path) -> None:
    """Without a library, whose IDs they would be."""
    named = table.assign(**{"Compound ID": [f"CPD-{k}" for k in range(len(table))]})
    named.to_csv(tmp_path / "y.csv", index=False)
    options: dict[str, Any] = {"quick": True, "folds": 2, "drop_non_numbers": True, "accept_rejects": True}
    every = daskrf.evaluate(tmp_path / "y.csv", every_row=True, **options).to_pandas()
    assert every.id.tolist() == named["Compound ID"].tolist()
    some = daskrf.evaluate(tmp_path / "y.csv", **options).to_pandas()
    first = dict(zip(named.smiles[::-1], named["Compound ID"][::-1], strict=True))
    assert some.id.tolist() == [first[smiles] for smiles in some.smiles]


def test_labels_of_a_library(table: pd.DataFrame, tmp_path: Path) -> None:
    """The rows are those of the labels, whichever the library has."""
    known = table.drop_duplicates("smiles").drop(index="i20")
    named = known.assign(id=known.index).loc[lambda rows: rows.smiles != "bad("]
    named[["smiles", "id"]].to_csv(tmp_path / "library.csv", index=False)
    daskrf.fingerprint(tmp_path / "library.csv", tmp_path / "fp")
    labels = pd.DataFrame({"id": [*table.index[::-1], "nobody"], "y": [*table.y[::-1], -1.0]})
    report = daskrf.evaluate(tmp_path / "fp", labels, quick=True, folds=3, drop_non_numbers=True)
    found = report.to_pandas()
    assert found.id.tolist() == labels.id.tolist()
    there = found.reason.isna()
    assert set(found.id[~there]) == {"i1", "i7", "i20", "nobody"}
    assert found.reason[found.id == "i1"].tolist() == [NO_LABEL]
    assert found.reason[found.id == "i20"].tolist() == [NO_MOLECULE]
    np.testing.assert_array_equal(found.y[there], labels.y[there])


def test_the_first_labels_in_an_order_are_predicted_from_none(table: pd.DataFrame) -> None:
    found = _evaluated(table.assign(date=np.arange(len(table)) // 6), target="y", split="date")
    first = found.reason == FIRST
    assert first.any()
    assert found["mean"][first].isna().all()
    assert (found["mean"].isna() == found.reason.notna()).all()


def test_an_index_is_no_label(table: pd.DataFrame) -> None:
    """Numbers that are left of a larger table."""
    numbers = 10 * np.arange(len(table)) ** 2 % 997
    found = _evaluated(table.set_axis(numbers))
    _assert_in_order(found, table.set_axis(numbers))
    assert found.input_index.tolist() == numbers.tolist()


def test_several_targets(table: pd.DataFrame) -> None:
    """A row with one of two labels has its row; each prediction stands under its name."""
    other = table.y.to_numpy() * 2
    other[:4] = np.nan
    found = _evaluated(table.assign(z=other), target=["y", "z"])
    assert pd.isna(found.reason[0])
    assert np.isfinite(found.mean_y[0])
    assert np.isnan(found.z[0])
    assert found.reason[1] == NO_LABEL
    np.testing.assert_array_equal(found.z[10:], other[10:])


@pytest.mark.parametrize("name", ["mean", "fold", "nearest", "id_", "row", "reason", "fold_change"])
def test_a_target_may_be_called_as_a_column_of_ours(name: str, table: pd.DataFrame, tmp_path: Path) -> None:
    named = table.rename(columns={"y": name}).reset_index(drop=True)
    named.to_csv(tmp_path / "y.csv", index=False)
    options: dict[str, Any] = {"target": name, "output": tmp_path / "out.csv"}
    for every in (False, True):
        found = _evaluated(
            tmp_path / "y.csv", accept_rejects=True, every_row=every, overwrite=True, **options
        )
        label = name if name in ("id_", "fold_change") else f"{name}_label"
        there = found[label].notna()
        assert sorted(found[label][there]) == pytest.approx(
            sorted(named[name].dropna().drop(index=9, errors="ignore"))
        )
        assert not np.allclose(found[label][there], found["mean"][there])
        if every:
            assert found.reason.isna().tolist() == there.tolist()


def test_labels_of_a_library_have_no_index_of_their_own_rows(table: pd.DataFrame, tmp_path: Path) -> None:
    """`row` is one of the library unless every row is asked for."""
    daskrf.fingerprint(
        table.dropna().drop(index="i8", errors="ignore")[["smiles"]].iloc[::-1],
        tmp_path / "fp",
        accept_rejects=True,
    )
    options: dict[str, Any] = {
        "key": "structure",
        "accept_rejects": True,
        "quick": True,
        "folds": 3,
        "drop_non_numbers": True,
    }
    plain = daskrf.evaluate(tmp_path / "fp", table, every_row=False, **options).to_pandas()
    assert "input_index" not in plain
    assert plain.index.tolist() == list(range(len(plain)))
    every = daskrf.evaluate(tmp_path / "fp", table, **options).to_pandas()
    assert every.input_index.tolist() == table.index.tolist()
