"""Sums over common columns, whatever is dense or listed, in one block or in many."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf.engine.cpu import sharedcolumns
from daskrf.kernels import TanimotoDotProduct, TanimotoMinMax
from tests.jit import jit_disabled
from tests.kernels.values import ugly_rows
from tests.naive.tanimoto import tanimoto_dot_product, tanimoto_minmax


@pytest.mark.parametrize("sparsest", [0, 2, 4, 1000], ids=["all listed", "many", "few", "all dense"])
@pytest.mark.parametrize("width", [1, 7, 2048])
@pytest.mark.parametrize("scale", [1.0, 30.0, 0.3], ids=["narrow", "wide", "real"])
def test_the_layout_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, sparsest: int, width: int, scale: float
) -> None:
    monkeypatch.setattr(sharedcolumns, "_SPARSEST", dict.fromkeys((1, 2, 8), sparsest))
    monkeypatch.setattr(sharedcolumns, "_WIDTH", dict.fromkeys((1, 2, 8), width))
    monkeypatch.setattr(sharedcolumns, "_POINTERS", 1000)
    X, Y = scale * ugly_rows(0), scale * ugly_rows(1, 30)
    for kernel, naive in ((TanimotoMinMax(), tanimoto_minmax), (TanimotoDotProduct(), tanimoto_dot_product)):
        np.testing.assert_allclose(kernel(X, Y), naive(X, Y), rtol=1e-14)
        gram = kernel(X)
        assert (np.diag(gram) == 1.0).all()
        assert (gram == gram.T).all()
        if scale >= 1.0 and naive is tanimoto_minmax:  # sums of squares are above 2**53
            assert (kernel(X, Y) == naive(X, Y)).all()


@pytest.mark.parametrize("sparsest", [0, 4, 1000], ids=["all listed", "some", "all dense"])
@pytest.mark.parametrize("largest", [1, 3, 85, 255, 256], ids=str)
def test_sums_of_bytes_that_a_byte_cannot_hold(
    monkeypatch: pytest.MonkeyPatch, sparsest: int, largest: int
) -> None:
    monkeypatch.setattr(sharedcolumns, "_SPARSEST", dict.fromkeys((1, 2, 8), sparsest))
    rng = np.random.default_rng(largest)
    X = rng.integers(0, largest + 1, (12, 240)) * (rng.random((12, 240)) < 0.7)
    X[0] = largest
    Y = np.vstack([X[:3], X[3:] * rng.integers(0, 3, (9, 240))])
    actual = TanimotoMinMax()(X, Y)
    assert (actual == tanimoto_minmax(X, Y)).all()
    assert (np.diag(actual)[:3] == 1.0).all()


@pytest.mark.skipif(jit_disabled(), reason="too many pairs for plain Python")
def test_many_rows_and_rare_columns() -> None:
    rng = np.random.default_rng(5)
    columns = np.where(
        rng.random((5000, 6)) < 0.5, rng.integers(0, 4, (5000, 6)), rng.integers(0, 900, (5000, 6))
    )
    ones = np.ones(30_000, np.uint16)
    Y = sp.csr_matrix((ones, (np.repeat(np.arange(5000), 6), columns.ravel())), shape=(5000, 1000))
    X = Y[:40]
    actual = TanimotoMinMax()(X, Y)
    assert (np.diag(actual) == 1.0).all()
    assert (actual[:, ::97] == tanimoto_minmax(X.toarray(), Y[::97].toarray())).all()
    roots = np.sqrt(Y.toarray().astype(np.float64))
    products, norms = roots[:40] @ roots.T, np.square(roots).sum(axis=1)
    expected = products / (norms[:40, None] + norms - products)
    dot = TanimotoDotProduct(transform="sqrt")(X, Y)
    np.testing.assert_allclose(dot, expected, rtol=1e-13)
    assert (np.diag(dot) == 1.0).all()
