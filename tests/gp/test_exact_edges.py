"""Degenerate problems and bad input of the exact process, by both of its solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf.errors import InputError
from daskrf.gp import ExactGP
from daskrf.gp.solve.kernelmatrix import KernelMatrix
from daskrf.kernels import TanimotoMinMax
from tests.naive import gp as naive

GIVEN = {"mean": 0.5, "signal_variance": 1.4, "noise_variance": 0.1}


@pytest.fixture(params=["cholesky", "cg"])
def solver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def process(solver: str, kernel: Any = TanimotoMinMax(), **options: Any) -> ExactGP:  # noqa: B008
    small: dict[str, Any] = {"n_features": 1024, "n_draws": 64, "n_landmarks": 20, "tolerance": 1e-4}
    return ExactGP(kernel, solver=solver, **{**small, **options})  # type: ignore[arg-type]


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).poisson(0.7, (n, 12)).astype(np.uint16)


def values(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n)


def assert_posterior(gp: ExactGP, X: Any, y: np.ndarray, new: Any) -> None:
    """Assert that means are those of the textbook, and deviations to what draws allow."""
    mean, std = gp.predict(new, return_std=True, of="f")
    kernel = TanimotoMinMax()
    found = (float(gp.mean_[0]), float(gp.signal_variance_[0]), float(gp.noise_variance_[0]))
    expected, covariance = naive.kernel_posterior(kernel(X), y, kernel(new, X), kernel(new), *found)
    by_draws = gp.solver_ == "cg"
    np.testing.assert_allclose(mean, expected, atol=1e-3 if by_draws else 1e-8)
    np.testing.assert_allclose(std**2, np.diag(covariance), rtol=0.6 if by_draws else 1e-6, atol=1e-4)


@pytest.mark.parametrize("options", [{}, GIVEN])
def test_repeated_rows_with_different_labels(solver: str, options: dict[str, Any]) -> None:
    X, y = np.repeat(rows(20), 4, axis=0), np.repeat(values(20), 4) + 0.3 * values(80, 2)
    gp = process(solver, **options).fit(sp.csr_matrix(X), y)
    assert_posterior(gp, X, y, np.concatenate([X[:3], rows(5, 9)]))
    if not options:  # repeated measurements tell the noise
        assert 0.15 < gp.noise_variance_[0] ** 0.5 < 0.6
        assert not gp.cautions()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_labels(solver: str, n: int) -> None:
    X, y = rows(n), values(n)
    assert_posterior(process(solver, **GIVEN).fit(X, y), X, y, rows(5, 9))
    if n == 1:
        for options in ({}, {"noise_variance": 0.1}, {"signal_variance": 1.0}):
            with pytest.raises(InputError, match="cannot be estimated from one label"):
                process(solver, **options).fit(X, y)
    else:
        gp = process(solver).fit(X, y)
        assert np.isfinite(gp.predict(rows(5, 9), return_std=True)).all()
        assert ("sees no" in " ".join(gp.cautions())) == bool(gp.at_bound_[0])


def test_two_labels_at_the_end_of_the_search_are_told(solver: str) -> None:
    gp = process(solver).fit([[1, 0], [1, 1]], [0.0, 1.0])
    assert "sees no signal in these labels" in gp.cautions()[0]


@pytest.mark.parametrize("row", [[2, 0, 1], [0, 0, 0]])
def test_fingerprints_that_are_all_equal(solver: str, row: list[int]) -> None:
    X, y = np.repeat([row], 40, axis=0), values(40)
    new = np.array([row, [0, 3, 0]])
    assert_posterior(process(solver, **GIVEN).fit(X, y), X, y, new)
    gp = process(solver).fit(X, y)
    np.testing.assert_allclose(gp.predict(new), y.mean(), atol=1e-3)
    np.testing.assert_allclose(gp.predict(new, return_std=True)[1], y.std(), rtol=0.05)
    assert "sees no signal" in gp.cautions()[0]


class Altered(TanimotoMinMax):
    """Tanimoto values that a function has changed."""

    altered: Callable[[np.ndarray], np.ndarray]

    def against(self, Y: Any) -> Any:
        prepared = super().against(Y)
        return lambda X, dtype=np.float64: self.altered(prepared(X)).astype(dtype)


class Negative(Altered):
    altered = staticmethod(np.negative)


class Reversed(Altered):
    """1 for equal rows, and the less for others the more they have in common."""

    altered = staticmethod(lambda values: np.where(values == 1.0, 1.0, 1.0 - values))


@pytest.mark.parametrize("options", [{}, {"signal_variance": 1.0, "noise_variance": 0.1}])
@pytest.mark.parametrize("n_landmarks", [1, 2, 20])
@pytest.mark.parametrize("kernel", [Negative(), Reversed()])
def test_a_kernel_that_is_not_positive_definite_is_refused(
    solver: str, kernel: Altered, n_landmarks: int, options: dict[str, Any]
) -> None:
    gp = process(solver, kernel, n_landmarks=n_landmarks, **options)
    with pytest.raises(InputError, match="take a positive definite kernel") as caught:
        gp.fit(np.unique(rows(80), axis=0)[:60], values(60))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("noise_variance", [0, 0.0, -1.0, np.nan, np.inf])
def test_noise_that_cannot_be_is_refused(solver: str, noise_variance: float) -> None:
    with pytest.raises(InputError, match="noise_variance must be"):
        process(solver, noise_variance=noise_variance).fit(rows(30), values(30))


def test_hardly_any_noise_is_solved_or_refused(solver: str) -> None:
    X, y = np.unique(rows(40), axis=0)[:30], values(30)
    gp = process(solver, signal_variance=1.0, noise_variance=1e-9)
    if solver == "cg":
        with pytest.raises(InputError, match=r"give .* larger noise variance, or solver='cholesky'"):
            gp.fit(X, y)
    else:
        np.testing.assert_allclose(gp.fit(X, y).predict(X), y, atol=1e-6)


def test_a_subset_larger_than_all_rows_is_all_of_them(solver: str) -> None:
    X, y = rows(30), values(30)
    some, whole = (process(solver, n_subset=n, **GIVEN).fit(X, y) for n in (1000, None))
    assert some.subset_.tolist() == list(range(30))
    assert some.predict(X, return_std=True)[1].tobytes() == whole.predict(X, return_std=True)[1].tobytes()


@pytest.mark.parametrize("max_iterations", [1, 2, 3])
def test_too_few_iterations_are_no_model(max_iterations: int) -> None:
    gp = process("cg", n_landmarks=2, max_iterations=max_iterations, **GIVEN)
    with pytest.raises(InputError, match="max_iterations allows; give more of them"):
        gp.fit(rows(60), values(60))
    assert not hasattr(gp, "alpha_")


class Scarce(TanimotoMinMax):
    """Values for which there is no memory after some tiles."""

    left: int

    def against(self, Y: Any) -> Any:
        prepared = super().against(Y)

        def values(X: Any, dtype: Any = np.float64) -> np.ndarray:
            if Scarce.left == 0:
                Scarce.left = 1_000_000  # what was kept has been freed by then
                raise MemoryError
            Scarce.left -= 1
            return prepared(X, dtype=dtype)

        return values


def test_memory_for_kept_tiles_that_is_not_there_gives_the_same_product() -> None:
    X, vectors = sp.csr_matrix(rows(90)), np.random.default_rng(0).standard_normal((90, 3), dtype=np.float32)
    options: dict[str, Any] = {"keep_bytes": 2**60, "tile": 16, "n_threads": 1}
    expected = KernelMatrix(TanimotoMinMax(), X, **options).product(vectors)
    for tiles in (0, 1, 9):
        Scarce.left = tiles
        matrix = KernelMatrix(Scarce(), X, **options)
        for _ in range(2):
            assert matrix.product(vectors).tobytes() == expected.tobytes()
