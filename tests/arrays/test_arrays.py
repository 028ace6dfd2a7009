"""Containers, canonical form, count checks and packed bits."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from daskrf.arrays import (
    as_csr,
    as_rows,
    check_bits,
    check_columns_of,
    check_counts,
    check_rows_to_fit,
    learn_columns,
    row_slice,
    unpack_bits,
)
from daskrf.errors import InputError
from tests.bits import pack_signs
from tests.naive import bits as naive

DENSE = np.array([[0, 3, 0, 1], [0, 0, 0, 0], [2, 0, 0, 7]])

CONTAINERS = {
    "list": lambda a: a.tolist(),
    "numpy": lambda a: a,
    "float": lambda a: a.astype(np.float64),
    "fortran": np.asfortranarray,
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "csc_matrix": sp.csc_matrix,
    "coo_array": sp.coo_array,
    "another library's": lambda a: SimpleNamespace(tocsr=lambda: sp.csr_matrix(a)),
    "sparse.COO": sparse.COO.from_numpy,
    "sparse.GCXS": sparse.GCXS.from_numpy,
    "sparse.GCXS by columns": lambda a: sparse.GCXS.from_numpy(a, compressed_axes=(1,)),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_canonical_csr(container: str) -> None:
    csr = as_csr(CONTAINERS[container](DENSE))
    assert isinstance(csr, sp.csr_matrix)
    assert (csr.toarray() == DENSE).all()
    assert csr.indices.tolist() == [1, 3, 0, 3]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (7, 5)])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int16, np.bool_])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_dense_rows_become_what_scipy_makes_of_them(shape: tuple, kind: type, share: float) -> None:
    rng = np.random.default_rng(1)
    X = (rng.integers(1, 9, shape) * (rng.random(shape) < share)).astype(kind)
    if X.dtype.kind == "f":
        X[X == 1] = -0.0
        X[X == 2] = np.nan
    for rows in (X, np.asfortranarray(X), X[::-1]):
        actual, expected = as_csr(rows), sp.csr_matrix(rows)
        for name in ("indptr", "indices"):
            assert getattr(actual, name).dtype == getattr(expected, name).dtype
            assert getattr(actual, name).tolist() == getattr(expected, name).tolist()
        np.testing.assert_array_equal(actual.data, expected.data)
        assert actual.shape == expected.shape


def test_unsorted_duplicates_and_zeros_are_put_right_and_the_input_is_kept() -> None:
    data = np.array([1, 200, 0, 100], np.uint8)
    X = sp.csr_matrix((data, np.array([3, 1, 2, 1]), np.array([0, 4])), shape=(1, 5))
    csr = as_csr(X)
    assert csr.indices.tolist() == [1, 3]
    # 200 + 100 does not fit into uint8.
    assert csr.data.tolist() == [300, 1]
    assert X.data.tolist() == [1, 200, 0, 100]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fractions_that_stand_twice_are_added(dtype: type) -> None:
    X = sp.csr_matrix(
        (np.array([0.5, 2.0, 0.25], dtype), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2)
    )
    assert as_csr(X).toarray().tolist() == [[2.0, 0.75]]


def test_a_stale_flag_of_canonical_format_is_not_believed() -> None:
    X = sp.csr_matrix((np.array([1, 2]), np.array([3, 1]), np.array([0, 2])), shape=(1, 5))
    X.has_canonical_format = True
    assert as_csr(X).indices.tolist() == [1, 3]


def test_a_descent_across_rows_is_canonical() -> None:
    X = sp.csr_matrix((np.array([1, 2]), np.array([3, 1]), np.array([0, 1, 1, 2, 2])), shape=(4, 5))
    assert as_csr(X) is X


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_sums_of_huge_duplicates_do_not_wrap_around(dtype: type) -> None:
    for data in ([2**62] * 4 + [5], [2**62, 2**62]):
        size = len(data)
        X = sp.csr_matrix((np.array(data, dtype), np.zeros(size, int), np.array([0, size])), shape=(1, 2))
        with pytest.raises(InputError, match=r"row 0, column 0 is above the largest count"):
            check_counts(as_csr(X))


def test_columns_beyond_32_bits_are_kept() -> None:
    column = 2**40 + 1
    X = sp.csr_matrix((np.array([2]), np.array([column]), np.array([0, 1])), shape=(1, 2**41))
    assert check_counts(as_csr(X)).indices.tolist() == [column]


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((1, 1, 1)), sparse.zeros((1, 1, 1))])
def test_wrong_dimensions_are_refused(bad: object) -> None:
    with pytest.raises(InputError, match="2 dimensions"):
        as_csr(bad)


@pytest.mark.parametrize(
    "bad", [[["a", "b"]], np.ones((1, 1), complex), sp.csr_matrix(np.ones((1, 1), complex))]
)
def test_wrong_dtypes_are_refused(bad: object) -> None:
    with pytest.raises(InputError, match="real numbers"):
        as_csr(bad)


def test_floats_that_sparse_matrices_lack_become_usual_ones() -> None:
    for unusual, kind in ((np.float16, np.float32), (np.longdouble, np.float64)):
        assert as_csr(np.ones((1, 1), unusual)).dtype == kind
        assert as_rows(np.ones((1, 1), unusual)).dtype == kind
    assert as_csr(sparse.COO(np.ones((1, 1), np.float16))).dtype == np.float32


@pytest.mark.parametrize("kind", [sparse.COO, sparse.GCXS])
@pytest.mark.parametrize("fill", [1, np.nan])
def test_another_fill_value_than_zero_is_refused(kind: type, fill: float) -> None:
    with pytest.raises(InputError, match=f"fill value 0, not {fill}"):
        as_csr(kind.from_numpy(np.full((2, 2), fill), fill_value=fill))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-1.0, "negative"),
        (np.nan, "finite"),
        (np.inf, "finite"),
        (0.5, "consistent weighted sampling"),
        (65_536.0, "65,535"),
    ],
)
def test_bad_counts_are_refused_by_row_and_column(value: float, words: str) -> None:
    X = np.zeros((4, 6))
    X[0, 0], X[2, 5] = 1.0, value
    with pytest.raises(InputError, match=f"row 2, column 5 .*{words}"):
        check_counts(as_csr(X))


def test_the_largest_count_and_booleans_pass() -> None:
    assert check_counts(as_csr([[65_535]])).data.tolist() == [65_535]
    assert check_counts(as_csr(np.array([[True, False]]))).data.tolist() == [1]
    assert check_counts(as_csr(np.zeros((0, 3)))).shape == (0, 3)


@given(hnp.arrays(np.uint8, st.tuples(st.integers(0, 5), st.integers(1, 5))), st.integers(0, 7))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_unpacking_agrees_with_the_oracle_and_packing_inverts_it(bits: np.ndarray, missing: int) -> None:
    n_components = 8 * bits.shape[1] - missing
    signs = unpack_bits(bits, n_components)
    assert signs.dtype == np.float32
    assert (signs == naive.signs(bits, n_components)).all()
    assert (unpack_bits(pack_signs(signs), n_components) == signs).all()


@pytest.mark.parametrize(
    "bad", [np.zeros((2, 2), np.int64), np.zeros((2, 3), np.uint8), np.zeros(2, np.uint8)]
)
def test_bits_of_another_shape_or_dtype_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(InputError, match="uint8 of shape"):
        check_bits(bad, 16)
    with pytest.raises(InputError, match="at least 1"):
        check_bits(bad, 0)


def test_columns_are_those_of_the_fit() -> None:
    fitted = SimpleNamespace()
    table = pd.DataFrame(np.eye(3), columns=["a", "b", "c"])
    learn_columns(fitted, table)
    assert (fitted.n_features_in_, fitted.feature_names_in_.tolist()) == (3, ["a", "b", "c"])
    check_columns_of(fitted, table)
    check_columns_of(fitted, table.to_numpy())  # without names they are taken as they are
    for wrong, message in (
        (table[["a", "c", "b"]], "another order than at fit: 'c' is where 'b' was"),
        (table[["a", "b"]], r"without \['c'\]; give \['a', 'b', 'c'\]"),
        (table.assign(d=0.0), r"with \['d'\]; give"),
        (table.rename(columns={"b": "B"}), r"without \['b'\] and with \['B'\]"),
        (table[["a", "b", "c", "c"]], "column names repeat: there are 4"),
    ):
        with pytest.raises(InputError, match=message):
            check_columns_of(fitted, wrong)
    with pytest.raises(InputError, match="column names must be text, or none"):
        learn_columns(fitted, table.rename(columns={"b": 1}))
    learn_columns(fitted, np.eye(2))
    assert not hasattr(fitted, "feature_names_in_")
    check_columns_of(fitted, table[["c", "a"]])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, pd.DataFrame, sparse.COO], ids=str)
def test_rows_to_fit_are_some_and_finite(make: Callable[[np.ndarray], object]) -> None:
    X = np.eye(4)
    check_rows_to_fit(make(X))
    for shape, what in (((0, 3), r"row to fit to: 0 sample"), ((3, 0), "column to fit to: 0 feature")):
        with pytest.raises(InputError, match=rf"no {what}\(s\) \(shape=\({shape[0]}, {shape[1]}\)\)"):
            check_rows_to_fit(make(np.zeros(shape)))
    X[2, 1] = np.nan
    with pytest.raises(InputError, match="Value nan in row 2, column 1 is not a finite number"):
        check_rows_to_fit(make(X))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_a_slice_of_rows_is_as_if_it_were_alone(make: Callable[[np.ndarray], Any]) -> None:
    for start, stop in ((0, 3), (1, 3), (1, 2), (2, 2), (0, 0)):
        block = row_slice(make(DENSE), start, stop)
        alone = make(DENSE[start:stop])
        assert block.shape == alone.shape
        assert block.tolist() == alone.tolist() if make is np.asarray else not (block != alone).nnz
