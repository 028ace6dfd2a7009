"""Posteriors by conjugate gradients and pathwise samples, against the formulas."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf import ExactGP
from daskrf.errors import InputError
from daskrf.gp import model_from_state
from daskrf.gp.processes import pathwise
from daskrf.gp.processes.pathwise import ProcessParameters, fit_pathwise
from daskrf.gp.processes.priordraws import PriorDraws
from daskrf.gp.solve.landmarkpreconditioner import LandmarkPreconditioner
from daskrf.kernels import (
    Composition,
    DotProduct,
    Gaussian,
    Intersection,
    Mean,
    Polynomial,
    TanimotoDotProduct,
    TanimotoMinMax,
)

GIVEN = ProcessParameters(0.3, 1.4, 0.2)
FREE = (None, None, None)


def rows(n: int, seed: int = 0) -> sp.csr_matrix:
    """Rows like fingerprints: each has the counts of one of a dozen families, and some of its own."""
    rng = np.random.default_rng(seed)
    families = np.random.default_rng(9).poisson(0.5, (12, 60))
    counts = families[rng.integers(0, 12, n)] * rng.integers(0, 2, (n, 60)) + rng.poisson(0.2, (n, 60))
    return sp.csr_matrix(counts.astype(np.uint8))


def labels(X: Any, kernel: Any, found: ProcessParameters = GIVEN, seed: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    covariance = found.signal_variance * kernel(X) + found.noise_variance * np.eye(X.shape[0])
    return found.mean + np.linalg.cholesky(covariance) @ rng.standard_normal(X.shape[0])


def fitted(X: Any, y: np.ndarray, kernel: Any = TanimotoMinMax(), **options: Any) -> Any:  # noqa: B008
    keywords: dict[str, Any] = {
        "start": GIVEN, "fixed": tuple(GIVEN), "n_draws": 32, "n_features": 8192, "n_landmarks": 40,
        "tolerance": 1e-4, "max_iterations": 500, "keep_bytes": 0, "random_state": 0,
    }  # fmt: skip
    return fit_pathwise(kernel, X, y, **{**keywords, **options})


def exact(X: Any, y: np.ndarray, kernel: Any = TanimotoMinMax()) -> ExactGP:  # noqa: B008
    m, a, s = GIVEN
    return ExactGP(kernel, mean=m, signal_variance=a, noise_variance=s).fit(X, y)


KERNELS = {
    "minmax": TanimotoMinMax(),
    "gaussian": Gaussian(4.0),
    "dot-product": TanimotoDotProduct(),
    "composition": Composition(Polynomial(2, c=0.5), TanimotoMinMax()),
    "polynomial": Polynomial(2, c=1.0),
    "mean": Mean((3, 1), columns=30),
    "mean of T and Gaussian": Mean((2, 1), (TanimotoMinMax(), Gaussian(4.0)), ((0, 30), (20, 60))),
}


@pytest.mark.parametrize("name", KERNELS)
def test_means_are_those_of_a_factorization(name: str) -> None:
    kernel, X, new = KERNELS[name], rows(150), rows(40, 1)
    if name == "polynomial":
        X, new = X.multiply(0.2).tocsr(), new.multiply(0.2).tocsr()
    y = labels(X, kernel)
    gp, found = exact(X, y, kernel), fitted(X, y, kernel)
    noise = GIVEN.noise_variance**0.5
    np.testing.assert_allclose(found.mean(new), gp.predict(new), rtol=0, atol=1e-3 * noise)
    np.testing.assert_allclose(found.deviations(new)[0], found.mean(new), rtol=0, atol=1e-4)


def test_draws_have_the_covariance_of_the_posterior() -> None:
    X, new, n_draws = rows(60), rows(6, 1), 6000
    y = labels(X, TanimotoMinMax())
    found = fitted(X, y, n_draws=n_draws, n_features=65536)
    _, deviations = found.deviations(new)
    _, covariance = exact(X, y).predict(new, return_cov=True, of="f")
    sampled = deviations.astype(np.float64) @ deviations.T / n_draws
    diagonal = np.diag(covariance)
    # Standard errors: of n_draws draws, and of the kernel by 65,536 bits, which is below 1 / 256.
    error = np.sqrt((np.outer(diagonal, diagonal) + covariance**2) / n_draws) + GIVEN.signal_variance / 256
    assert (np.abs(sampled - covariance) < 5 * error).all()
    # The bound can fail: the draws of the prior are far from it.
    prior = found.prior(new).astype(np.float64)
    assert (np.abs(GIVEN.signal_variance * prior @ prior.T / n_draws - covariance) > 5 * error).any()


@pytest.mark.parametrize("fixed", [(), (0,), (1,), (2,), (0, 1)])
def test_hyperparameters_maximize_the_evidence(fixed: tuple[int, ...]) -> None:
    X, kernel = rows(500), TanimotoMinMax()
    y = labels(X, kernel)
    given = tuple(GIVEN[i] if i in fixed else None for i in range(3))
    m, a, s = given
    best = ExactGP(kernel, mean=m, signal_variance=a, noise_variance=s).fit(X, y)
    for start in (ProcessParameters(0.0, 1.0, 0.01), ProcessParameters(0.0, 1.0, 3.0)):
        found = fitted(X, y, fixed=given, start=start, n_draws=64).hyperparameters
        for i in fixed:
            assert found[i] == GIVEN[i]
        lost = best.log_marginal_likelihood_value_ - best.log_marginal_likelihood(*found)
        assert -1e-6 < lost < 0.5


def test_a_search_that_begins_with_some_rows_ends_at_the_same_place_with_fewer_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = TanimotoMinMax()
    options: dict[str, Any] = {"fixed": FREE, "start": ProcessParameters(0.0, 1.0, 0.02), "tolerance": 1e-3}
    n_products = np.zeros(2)
    for seed in range(8):
        X = rows(1200, seed)
        y = labels(X, kernel, seed=seed)
        monkeypatch.setattr(pathwise, "_MANY", 16_000)
        whole = fitted(X, y, **options)
        monkeypatch.setattr(pathwise, "_MANY", 1000)
        some = fitted(X, y, **options)
        n_products += whole.n_iterations, some.n_iterations
        best = exact(X, y, kernel)
        lost = [best.log_marginal_likelihood(*each.hyperparameters) for each in (whole, some)]
        assert abs(lost[0] - lost[1]) < 0.5
    assert n_products[1] < 0.9 * n_products[0]


def test_labels_without_noise_of_a_smooth_function_are_fitted() -> None:
    """The kernel matrix is nearly of one value, and the noise as small as it may be."""
    X = np.random.default_rng(0).poisson(3.0, (1000, 6)).astype(np.uint8)
    y = np.sin(X @ [0.2, 0.1, 0.0, -0.2, 0.3, 0.1])
    gp = ExactGP(Gaussian(30.0), solver="cg", n_draws=16, n_features=1024).fit(X[:900], y[:900])
    assert gp.residual_ < 1e-3
    assert gp.at_bound_[0]
    found = {name: float(getattr(gp, f"{name}_")[0]) for name in ProcessParameters._fields}
    factored = ExactGP(Gaussian(30.0), solver="cholesky", **found).fit(X[:900], y[:900])
    np.testing.assert_allclose(gp.predict(X[900:]), factored.predict(X[900:]), rtol=0, atol=2e-3)


def test_results_follow_from_the_seed() -> None:
    X, new = rows(150), rows(20, 1)
    y = labels(X, TanimotoMinMax())
    first, again, other = (fitted(X, y, random_state=seed).deviations(new)[1] for seed in (0, 0, 1))
    assert first.tobytes() == again.tobytes()
    assert not np.allclose(first, other, atol=0.01)


def test_what_does_not_converge_is_no_model() -> None:
    X = rows(150)
    with pytest.raises(InputError, match=r"residual of .*, not 1\.0e-04, in all .* max_iterations"):
        fitted(X, labels(X, TanimotoMinMax()), max_iterations=3)


def test_a_kernel_without_random_features_has_no_draws() -> None:
    X = rows(50)
    with pytest.raises(InputError, match="cholesky"):
        fitted(X, np.arange(50.0), Intersection())


def test_repeated_rows_and_few_rows() -> None:
    X = rows(3)
    many = sp.vstack([X] * 20).tocsr()
    y = labels(many, TanimotoMinMax())
    found = fitted(many, y, n_landmarks=60)
    np.testing.assert_allclose(found.mean(X), exact(many, y).predict(X), atol=1e-3)
    for n in (1, 2, 3):
        found = fitted(X[:n], y[:n], n_landmarks=n)
        np.testing.assert_allclose(found.mean(X), exact(X[:n], y[:n]).predict(X), atol=1e-3)
        assert np.isfinite(found.std(X)[1]).all()


def test_all_rows_as_landmarks_make_an_exact_preconditioner() -> None:
    X, kernel, ratio = rows(60), TanimotoMinMax(), 0.3
    preconditioner = LandmarkPreconditioner(kernel, X, 60, 0)
    preconditioner.set_ratio(ratio)
    found = preconditioner(np.eye(60, dtype=np.float32))
    np.testing.assert_allclose(found, np.linalg.inv(kernel(X) + ratio * np.eye(60)), atol=1e-3)


@pytest.mark.parametrize("name", KERNELS)
def test_draws_of_the_prior_have_the_covariance_of_the_kernel(name: str) -> None:
    kernel, X, n_draws = KERNELS[name], rows(8), 4000
    if name == "polynomial":
        X = X.multiply(0.2).tocsr()
    draws = PriorDraws(kernel, X, n_draws, 16384, 3)(X).astype(np.float64)
    sampled, expected = draws @ draws.T / n_draws, kernel(X)
    diagonal = np.diag(expected)
    error = np.sqrt((np.outer(diagonal, diagonal) + expected**2) / n_draws)
    assert (np.abs(sampled - expected) < 5 * error + 0.05 * diagonal.max()).all()


@pytest.mark.parametrize("name", ["minmax", "gaussian"])
def test_draws_of_the_prior_do_not_depend_on_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(50)
    draws = PriorDraws(KERNELS[name], X, 3, 512, 3)
    whole = draws(X)
    monkeypatch.setattr("daskrf.gp.processes.priordraws._BLOCK_ENTRIES", 7 * 512)
    np.testing.assert_allclose(draws(X), whole, atol=1e-5)


def public(X: Any, y: np.ndarray, **options: Any) -> ExactGP:
    m, a, s = GIVEN
    fixed: dict[str, Any] = {"mean": m, "signal_variance": a, "noise_variance": s, "solver": "cg"}
    return ExactGP(TanimotoMinMax(), **{**fixed, **options}).fit(X, y)


def test_the_public_process_predicts_as_that_of_a_factorization() -> None:
    X, new = rows(300), rows(25, 1)
    y = labels(X, TanimotoMinMax())
    gp, reference = public(X, y, n_draws=200), exact(X, y)
    noise = GIVEN.noise_variance**0.5
    np.testing.assert_allclose(gp.predict(new), reference.predict(new), rtol=0, atol=1e-3 * noise)
    for of in ("y", "f"):
        mean, std = gp.predict(new, return_std=True, of=of)
        np.testing.assert_allclose(mean, gp.predict(new), rtol=0, atol=1e-4)
        np.testing.assert_allclose(std, reference.predict(new, return_std=True, of=of)[1], rtol=0.25)
        _, covariance = gp.predict(new, return_cov=True, of=of)
        expected = reference.predict(new, return_cov=True, of=of)[1]
        np.testing.assert_allclose(covariance, expected, rtol=0, atol=1e-3 * GIVEN.signal_variance)
    assert gp.solver_ == "cg"
    assert gp.residual_ <= 1e-3
    assert gp.n_iterations_ > 1
    assert not gp.at_bound_[0]


def test_public_draws_are_those_of_the_fit() -> None:
    X, new = rows(150), rows(8, 1)
    gp = public(X, labels(X, TanimotoMinMax()), n_draws=16)
    draws = gp.sample_y(new, 16, of="f")
    assert (gp.sample_y(new, 5, of="f") == draws[:, :5]).all()
    others = gp.sample_y(new, 16, random_state=1, of="f")
    assert (others != draws).any()
    assert (np.sort(others, axis=1) == np.sort(draws, axis=1)).all()
    noise = gp.sample_y(new, 16) - draws
    assert noise.std() == pytest.approx(GIVEN.noise_variance**0.5, rel=0.3)
    with pytest.raises(InputError, match="n_draws=17"):
        gp.sample_y(new, 17)
    with pytest.raises(InputError, match="cholesky"):
        gp.log_marginal_likelihood()


def test_a_model_that_was_pickled_predicts_the_same() -> None:
    X, new = rows(150), rows(20, 1)
    gp = public(X, labels(X, TanimotoMinMax()))
    again = pickle.loads(pickle.dumps(gp))
    for own, other in zip(gp.predict(new, return_std=True), again.predict(new, return_std=True), strict=True):
        assert own.tobytes() == other.tobytes()
    np.testing.assert_allclose(again.predict(new, return_cov=True)[1], gp.predict(new, return_cov=True)[1])


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_a_model_rebuilt_from_its_state_predicts_the_same(solver: Any) -> None:
    X, new = rows(150), rows(20, 1)
    gp = public(X, labels(X, TanimotoMinMax()), solver=solver)
    again = model_from_state(json.loads(json.dumps(gp.state())), gp.arrays())
    for own, other in zip(gp.predict(new, return_std=True), again.predict(new, return_std=True), strict=True):
        assert own.tobytes() == other.tobytes()
    assert again.state() == gp.state()
    assert again.words() == gp.words()
    means_only = model_from_state(gp.state(), gp.arrays(statistics=False))
    assert means_only.predict(new).tobytes() == gp.predict(new).tobytes()


def test_few_rows_are_factorized_and_many_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(80)
    y = labels(X, TanimotoMinMax())
    assert ExactGP(TanimotoMinMax()).fit(X, y).solver_ == "cholesky"
    monkeypatch.setattr("daskrf.gp.processes.exact._LARGEST_FACTOR", 50)
    assert ExactGP(TanimotoMinMax()).fit(X, y).solver_ == "cg"
    assert ExactGP(TanimotoMinMax(), n_subset=50).fit(X, y).solver_ == "cholesky"


def test_tiles_that_are_kept_do_not_show() -> None:
    X, new = rows(150), rows(20, 1)
    y = labels(X, TanimotoMinMax())
    none, all_of_them = (public(X, y, cache_bytes=size).predict(new) for size in (0, 2**30))
    np.testing.assert_allclose(none, all_of_them, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "qr"}, "solver must be"),
        ({"n_draws": 0}, "n_draws must be a positive integer"),
        ({"n_features": 2.5}, "n_features must be a positive integer"),
        ({"n_landmarks": 0}, "n_landmarks must be a positive integer"),
        ({"tolerance": 0.0}, "tolerance must be a number between 0 and 1"),
        ({"tolerance": float("nan")}, "tolerance must be a number between 0 and 1"),
        ({"tolerance": "a"}, "tolerance must be a number"),
        ({"cache_bytes": -1}, "cache_bytes must be"),
        ({"cache_bytes": "4GB"}, "cache_bytes must be"),
        ({"cache_bytes": 1.5}, "cache_bytes must be"),
        ({"max_iterations": 1, "n_landmarks": 5}, "conjugate gradients reached"),
        ({"noise_variance": 0.0}, "noise_variance must be positive"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    X = rows(60)
    with pytest.raises(InputError, match=message):
        public(X, labels(X, TanimotoMinMax()), **options)


@pytest.mark.parametrize("unit", [1e-24, 1e24])
def test_labels_of_any_unit(unit: float) -> None:
    X, new = rows(120), rows(20, 1)
    y = labels(X, TanimotoMinMax())
    given = {"mean": 0.3, "signal_variance": 1.4, "noise_variance": 0.2}
    scaled = {"mean": 0.3 * unit, "signal_variance": 1.4 * unit**2, "noise_variance": 0.2 * unit**2}
    mean, std = ExactGP(TanimotoMinMax(), solver="cg", **given).fit(X, y).predict(new, return_std=True)
    gp = ExactGP(TanimotoMinMax(), solver="cg", **scaled).fit(X, y * unit)
    other, spread = gp.predict(new, return_std=True)
    np.testing.assert_allclose(other / unit, mean, rtol=0, atol=1e-4)
    np.testing.assert_allclose(spread / unit, std, rtol=1e-3)
    np.testing.assert_allclose(gp.predict(new) / unit, mean, rtol=0, atol=1e-4)


def test_what_does_not_fit_into_memory_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("daskrf.gp.processes.exact.fit_pathwise", too_large)
    X = rows(60)
    with pytest.raises(InputError, match="60 rows do not fit into memory"):
        public(X, labels(X, TanimotoMinMax()))


@pytest.mark.parametrize("where", ["labelled", "one count away", "new", "far from all"])
@pytest.mark.parametrize("noise_variance", [0.2, 0.01])
def test_deviations_are_those_of_a_factorization_wherever_a_row_is(where: str, noise_variance: float) -> None:
    X = rows(600)
    y = labels(X, TanimotoMinMax())
    if where == "labelled":
        new = X[:200]
    elif where == "one count away":
        new = X[:200].copy()
        new.data[new.indptr[:-1][np.diff(new.indptr) > 0]] += 1
    else:
        new = rows(200, 1)
    if where == "far from all":  # columns that no label has
        X = sp.hstack([X, sp.csr_matrix((600, 60), dtype=np.uint8)]).tocsr()
        new = sp.hstack([sp.csr_matrix((200, 60), dtype=np.uint8), new]).tocsr()
        new = new[np.diff(new.indptr) > 0]
    given = {"mean": 0.3, "signal_variance": 1.4, "noise_variance": noise_variance}
    found = ExactGP(TanimotoMinMax(), solver="cg", n_draws=64, tolerance=1e-4, **given).fit(X, y)
    expected = ExactGP(TanimotoMinMax(), **given).fit(X, y)
    off = np.log(
        found.predict(new, return_std=True, of="f")[1] / expected.predict(new, return_std=True, of="f")[1]
    )
    # 64 draws tell a deviation to 1 / sqrt(128) = 9 %; rows share them, so that their mean may be off, too.
    assert abs(off.mean()) < 0.15
    assert off.std() < 0.15


def test_nothing_of_another_solver_is_left() -> None:
    X = rows(150)
    y = labels(X, TanimotoMinMax())
    gp = ExactGP(TanimotoMinMax()).fit(X[:50], y[:50])
    gp.set_params(solver="cg").fit(X, y)
    assert not hasattr(gp, "log_marginal_likelihood_value_")
    assert not hasattr(gp, "jitter_")
    gp.set_params(solver="cholesky").fit(X, y)
    assert not hasattr(gp, "n_iterations_")
    assert gp.log_marginal_likelihood() == pytest.approx(gp.log_marginal_likelihood_value_)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_kernels_of_any_size_are_fitted(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskrf.gp.processes.exact._FIRST_GUESS", 100)  # so that there is a search
    X = rows(400).multiply(0.2).tocsr()
    kernel = DotProduct((0.0, 0.0, size), normalize=True)
    y = labels(X, DotProduct((0.0, 0.0, 1.0), normalize=True))
    found = ExactGP(kernel, solver="cg").fit(X, y)
    best = ExactGP(kernel).fit(X, y)
    own = found.mean_[0], found.signal_variance_[0], found.noise_variance_[0]
    assert best.log_marginal_likelihood_value_ - best.log_marginal_likelihood(*own) < 1.0
    assert not found.at_bound_[0]


def test_labels_of_noise_alone_and_rare_hits_have_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskrf.gp.processes.exact._FIRST_GUESS", 60)
    X = rows(600)
    noise = np.random.default_rng(3).standard_normal(600)
    hits = np.zeros(600)
    hits[[17, 401]] = 1.0
    for seed in range(3):
        for y, options in ((noise, {"noise_variance": 1.0}), (noise, {}), (hits, {})):
            gp = ExactGP(TanimotoMinMax(), solver="cg", random_state=seed, **options).fit(X, y)
            assert np.isfinite(gp.predict(X[:5], return_std=True)).all()


def test_kernels_without_features_are_factorized_however_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskrf.gp.processes.exact._LARGEST_FACTOR", 50)
    X = rows(80)
    gp = ExactGP(Intersection(), noise_variance=1.0, signal_variance=1.0).fit(X, np.arange(80.0))
    assert gp.solver_ == "cholesky"
