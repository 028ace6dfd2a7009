"""The weighted mean of kernels of some columns each."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daskrf.arrays import column_slice
from daskrf.errors import InputError
from daskrf.kernels import Gaussian, Intersection, Kernel, Mean, TanimotoMinMax, from_state
from tests.kernels.values import limits, ugly_rows

TERMS: list[tuple[float, Kernel, tuple[int, int]]] = [
    (0.4, TanimotoMinMax(), (0, 3)),
    (0.0, Intersection(), (0, 8)),
    (0.5, Gaussian(3.0), (3, 8)),
    (1.1, TanimotoMinMax(), (2, 5)),
]
WEIGHTS, KERNELS, COLUMNS = zip(*TERMS, strict=True)


def test_it_is_the_weighted_mean_of_its_terms() -> None:
    X, Y = ugly_rows(), ugly_rows(1, 9)
    expected = sum(w * kernel(X[:, a:b], Y[:, a:b]) for w, kernel, (a, b) in TERMS) / sum(WEIGHTS)
    for rows in (X, sp.csr_matrix(X)):
        np.testing.assert_allclose(Mean(WEIGHTS, KERNELS, COLUMNS)(rows, Y), expected, rtol=1e-15, atol=1e-15)
    single = Mean(WEIGHTS, KERNELS, COLUMNS).against_single(Y)(X)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=3e-7, atol=3e-7)


def test_many_rows_are_those_of_few() -> None:
    rng = np.random.default_rng(5)
    X, Y = rng.poisson(0.7, (700, 8)), rng.poisson(0.7, (600, 8))
    kernel = Mean(WEIGHTS, KERNELS, COLUMNS)
    whole = kernel(X, Y)
    assert (whole == np.vstack([kernel(X[:300], Y), kernel(X[300:], Y)])).all()
    bad = X.astype(float)
    bad[650, 4] = -1.0
    with pytest.raises(InputError, match=r"Value -1\.0 in row 650, column 4 is negative"):
        kernel(bad, Y)
    with pytest.raises(InputError, match=r"Value -1\.0 in row 650, column 4 is negative"):
        kernel(Y, bad)


def test_fingerprints_side_by_side() -> None:
    X = ugly_rows()
    kernel = Mean((3, 1), columns=4)
    assert (kernel(X) == Mean((3, 1), columns=((0, 4), (4, 8)))(X)).all()
    far = sp.csr_matrix(([1, 2, 3], [7, 2**32 - 1, 2**32 + 7], [0, 3]), shape=(1, 2**33))
    near = sp.csr_matrix(([1, 2, 1], [7, 2**32 - 1, 2**32 + 7], [0, 3]), shape=(1, 2**33))
    assert Mean((3, 1))(far, near) == (3 + 1 / 3) / 4
    assert Mean((1, 0))(far, near) == 1
    with pytest.raises(InputError, match="8 columns, not 3 for each of 2 weights"):
        Mean((3, 1), columns=3)(X)
    with pytest.raises(InputError, match="8,589,934,592 columns, not 4,294,967,296 for each of 3"):
        Mean((3, 1, 1))(far)


@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=1, max_size=6).filter(any))
@limits
def test_equal_rows_have_one_exactly_whatever_the_weights(weights: list[float]) -> None:
    kernel = Mean(weights, columns=None)
    total = 0.0
    for share in kernel.shares:
        total += share
    assert total == 1.0
    np.testing.assert_allclose(kernel.shares, np.array(weights) / sum(weights), rtol=1e-12, atol=1e-15)
    assert (np.diag(kernel(ugly_rows())) == 1.0).all()


def test_parts_are_what_each_term_sees() -> None:
    X = ugly_rows()
    parts = Mean(WEIGHTS, KERNELS, COLUMNS).parts(X)
    assert all((block.toarray() == X[:, a:b]).all() for block, (a, b) in zip(parts, COLUMNS, strict=True))


def test_columns_of_sparse_rows() -> None:
    X = sp.csr_matrix(ugly_rows())
    for start, stop in ((0, 8), (0, 3), (2, 7), (8, 8), (3, 4)):
        block = column_slice(X, start, stop)
        assert block.has_canonical_format
        assert (block != X[:, start:stop]).nnz == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"weights": ()},
        {"weights": (0.0, 0.0)},
        {"weights": (1.0, -1.0)},
        {"weights": (1.0, np.inf)},
        {"weights": (1.0, "a")},
        {"weights": 3.0},
        {"kernels": (TanimotoMinMax(),)},
        {"kernels": (TanimotoMinMax(), "T")},
        {"columns": 0},
        {"columns": ((0, 3),)},
        {"columns": ((0, 3), (3, 3))},
        {"columns": ((0, 3), (-1, 3))},
    ],
)
def test_what_cannot_be_is_refused(bad: dict) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        Mean(**bad)


def test_one_kernel_stands_for_all_and_state_names_each() -> None:
    kernel = Mean((1, 2), Gaussian(2.0), columns=((0, 2), (1, 4)))
    assert kernel == Mean((1, 2), (Gaussian(2.0),) * 2, columns=((0, 2), (1, 4)))
    assert from_state(kernel.state()) == kernel
    assert kernel.parameters()["weights"] == [1.0, 2.0]
    assert "0.333 Gaussian kernel (length scale 2), 0.667 Gaussian" in kernel.words()
