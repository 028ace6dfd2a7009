"""The kernel of several targets: covariances of targets times a kernel of rows, entry by entry."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf.errors import InputError
from daskrf.kernels import Coregionalized, Gaussian, Intersection, Kernel, TanimotoMinMax, from_state
from daskrf.kernels.coregionalized import runs, with_target
from tests.kernels.values import ugly_rows

FACTOR = [[1.0, 0.0], [0.6, 0.8], [-2.0, 0.5], [0.0, 0.0]]
COVARIANCE = np.array(FACTOR) @ np.array(FACTOR).T


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ugly rows, most of which follow an equal one, and their targets."""
    rng = np.random.default_rng(seed)
    X = np.repeat(ugly_rows(seed), rng.integers(0, 4, len(ugly_rows(seed))), axis=0)
    return X, rng.integers(0, 4, len(X))


@pytest.mark.parametrize("inner", [TanimotoMinMax(), Intersection(), Gaussian(3.0)], ids=repr)
def test_values_are_products_in_any_container(inner: Kernel) -> None:
    kernel = Coregionalized(inner, FACTOR)
    (X, s), (Y, t) = rows(0), rows(1)
    expected = COVARIANCE[s][:, t] * inner(X, Y)
    with_s, with_t = with_target(X, s), with_target(Y, t)
    for make in (np.asarray, sp.csr_matrix, sp.coo_array):
        np.testing.assert_allclose(
            kernel(make(with_s.toarray()), make(with_t.toarray())), expected, rtol=1e-12, atol=1e-12
        )
    whole = kernel(with_s, with_t)
    assert (kernel.against(with_t)(with_s, dtype=np.float32) == whole.astype(np.float32)).all()
    parts = [block for _, block in kernel.blocks(with_s, with_t, rows=7)]
    np.testing.assert_allclose(np.vstack(parts), whole, rtol=1e-14)
    np.testing.assert_allclose(kernel.diag(with_s), COVARIANCE[s, s] * inner.diag(X), rtol=1e-14)
    gram = kernel(with_s)
    assert (gram == gram.T).all()
    assert kernel(with_s[:0], with_t).shape == (0, len(Y))
    assert kernel.positive_rows == inner.positive_rows


def test_each_molecule_is_computed_once() -> None:
    X, target = rows(2)
    first, run = runs(sp.csr_matrix(X))
    assert (X[first][run] == X).all()
    changes = (X[1:] != X[:-1]).any(axis=1)
    assert len(first) == 1 + np.count_nonzero(changes)
    sizes = []

    class Counting(TanimotoMinMax):
        def against(self, Y):  # type: ignore[no-untyped-def]
            sizes.append(Y.shape[0])
            return super().against(Y)

    Coregionalized(Counting(), FACTOR)(with_target(X, target))
    assert sizes == [len(first)]


def test_unfolded_identifiers() -> None:
    X = sp.csr_matrix((np.array([1, 2], np.uint16), [5, 2**32 - 1], [0, 1, 2]), shape=(2, 2**32))
    stacked = with_target(X, [0, 2])
    assert stacked.shape == (2, 2**32 + 1)
    assert stacked.dtype == np.uint16
    kernel = Coregionalized(TanimotoMinMax(), FACTOR)
    np.testing.assert_allclose(kernel(stacked), np.diag([1.0, 4.25]))


def test_state_and_bad_input() -> None:
    kernel = Coregionalized(Gaussian(2.0), FACTOR)
    assert from_state(json.loads(json.dumps(kernel.state()))) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    for factor in ([[1.0], [1.0, 2.0]], [[np.nan]], []):
        with pytest.raises(InputError, match="a row of finite numbers for each target"):
            Coregionalized(Gaussian(2.0), factor)
    for number in (0, 5, -1, 1.5):
        with pytest.raises(InputError, match=r"row 1 must hold its target, a number from 1 to 4"):
            kernel([[1.0, 1], [1.0, number]])
