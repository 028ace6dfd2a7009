"""Limits of columns of a library, however its numbers are written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from daskrf import TableFormat, fingerprint
from daskrf.errors import InputError
from daskrf.molecules.comparisons import Limit
from daskrf.molecules.filters import Filters
from daskrf.screens.passing import PASSED, Passing, check_columns
from daskrf.sources.sources import open_source
from daskrf.storage.kinds import stored_library


def passing(folder: Path, cells: list[str], limit: Limit, step: int | None = None) -> Passing:
    rows = [f"{'C' * (k + 1)}\tm{k}\t{cell}\n" for k, cell in enumerate(cells)]
    (folder / "a.tsv").write_text("smiles\tid\tprice\n" + "".join(rows))
    made = folder / "fp"
    fingerprint(folder / "a.tsv", made, format=TableFormat(extra=("price",)), rows_per_partition=step)
    return Passing(open_source(stored_library(made), None, raw=True), Filters((limit,)))


@pytest.mark.parametrize(
    ("cells", "met"),
    [
        (["1.200,50", "90,5", "7,25", ""], [False, True, True, False]),
        (["1,200.50", "90", "7.25", "n/a"], [False, True, True, False]),
        (["$1,200.50", "$90", "USD 7", "7 EUR"], [False, True, True, False]),
        (["1e400", "90", "-inf", "nan"], [False, True, False, False]),
        (["TRUE", "FALSE", "TRUE", ""], [True, True, True, False]),
    ],
)
def test_numbers_of_a_column_are_those_that_labels_would_have(
    cells: list[str], met: list[bool], tmp_path: Path
) -> None:
    found = passing(tmp_path, cells, Limit("price", "<", 100.0, True)).codes(np.arange(len(cells)))
    assert (found == PASSED).tolist() == met


def test_the_notation_of_the_first_partition_is_that_of_all(tmp_path: Path) -> None:
    cells = ["7,25", "8,5", "1,200", "90"]
    limit = Limit("price", "<", 100.0, True)
    here = passing(tmp_path, cells, limit, step=2)
    assert (here.codes(np.array([2, 3])) == PASSED).tolist() == [True, True]  # 1.2, as commas are decimal


def test_numbers_that_may_mean_others_are_refused(tmp_path: Path) -> None:
    own = passing(tmp_path, ["1,200", "90"], Limit("price", "<", 100.0, True))
    with pytest.raises(InputError, match=r"the column 'price' .*'1,200', which may mean 1.200 or 1200"):
        check_columns(own.filters, own.source)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["", "cheap", "dear"], r"but texts such as \"cheap\"; compare it with a text in quotes"),
        (["", "", ""], r"to compare with in 'price < 100'; compare it"),
        (["", "cheap", "7.5"], None),
    ],
)
def test_a_column_without_numbers_is_refused_with_an_example(
    cells: list[str], said: str | None, tmp_path: Path
) -> None:
    own = passing(tmp_path, cells, Limit("price", "<", 100.0, True))
    if said is None:
        check_columns(own.filters, own.source)
        return
    with pytest.raises(InputError, match=said):
        check_columns(own.filters, own.source)


def test_numbers_may_begin_in_a_later_partition(tmp_path: Path) -> None:
    own = passing(tmp_path, ["", "", "1.200,50", "90,5"], Limit("price", "<", 100.0, True), step=2)
    check_columns(own.filters, own.source)
    assert (own.codes(np.arange(4)) == PASSED).tolist() == [False, False, False, True]
