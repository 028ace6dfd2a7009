"""Predictions of molecules from the labels of all others are those of processes fitted without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from daskrf.errors import InputError
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.validation.leaveoneout import LeftOut, leave_one_out
from daskrf.kernels import Gaussian, TanimotoMinMax

GIVEN: dict[str, Any] = {"mean": 0.3, "signal_variance": 1.5, "noise_variance": 0.2}
KERNELS = [TanimotoMinMax(), Gaussian(5.0)]


def labelled(n: int, repeats: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    rng = np.random.default_rng(n)
    X = rng.poisson(1.0, (n, 12))
    X = np.concatenate([X, X[:repeats], X[: repeats // 2]])
    return X, np.sin(X @ rng.standard_normal(12)) + 0.3 * rng.standard_normal(len(X))


def naive(gp: ExactGP, X: Any, y: Any) -> LeftOut:
    """Fit without each molecule in turn."""
    mean, std = np.empty(len(y)), np.empty(len(y))
    for i, row in enumerate(X):
        others = (row != X).any(axis=1)
        fitted = ExactGP(gp.kernel, **GIVEN).fit(X[others], y[others])
        (mean[i],), (std[i],) = fitted.predict(X[[i]], return_std=True)
    return LeftOut(y, mean, std, len(np.unique(X, axis=0)), np.arange(len(y)))


@pytest.mark.parametrize("kernel", KERNELS, ids=["T", "G"])
@pytest.mark.parametrize("repeats", [0, 9])
def test_it_is_what_fits_without_each_molecule_say(kernel: Any, repeats: int) -> None:
    X, y = labelled(40, repeats)
    gp = ExactGP(kernel, **GIVEN).fit(X, y)
    found, want = leave_one_out(gp), naive(gp, X, y)
    np.testing.assert_allclose(found.mean, want.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.std, want.std, rtol=1e-5)
    assert found.n_molecules == want.n_molecules
    np.testing.assert_array_equal(found.y, y)
    np.testing.assert_array_equal(found.rows, want.rows)


def test_conjugate_gradients_are_refused() -> None:
    X, y = labelled(60, 0)
    with pytest.raises(InputError, match="need a factorization"):
        leave_one_out(ExactGP(TanimotoMinMax(), solver="cg", **GIVEN).fit(X, y))


def test_of_many_some_are_left_out() -> None:
    X, y = labelled(60, 20)
    gp = ExactGP(TanimotoMinMax(), **GIVEN).fit(X, y)
    found, whole = leave_one_out(gp, most=10), leave_one_out(gp)
    assert 10 <= len(found.y) <= 30
    assert found.n_molecules == whole.n_molecules
    assert set(found.mean.tolist()) <= set(whole.mean.tolist())
    np.testing.assert_array_equal(found.y, y[found.rows])
