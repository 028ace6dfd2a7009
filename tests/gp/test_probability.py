"""Probabilities of classes: what is left of a label, the fitted link, and shares that hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import norm

from daskrf.errors import InputError
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.process import RandomFeatureGP
from daskrf.gp.sums.folds import equal_rows
from daskrf.gp.validation.probability import ProbabilityLink, fit_link, without_own_label
from daskrf.kernels import TanimotoMinMax

GIVEN: dict[str, Any] = {"mean": 0.3, "signal_variance": 0.4, "noise_variance": 0.1}

Array = npt.NDArray[np.float64]


def rows(n: int, copies: int) -> tuple[npt.NDArray[np.int64], Array]:
    rng = np.random.default_rng(n)
    X = rng.poisson(1.0, (n, 8))
    X = np.concatenate([X, X[:copies], X[: copies // 2]])
    return X, (rng.random(len(X)) < 0.3) * 1.0


@pytest.mark.parametrize("copies", [0, 9])
@pytest.mark.parametrize("exact", [True, False])
def test_predictions_without_a_label_are_those_of_a_fit_without_it(copies: int, exact: bool) -> None:
    X, y = rows(30, copies)

    def fitted(some: npt.NDArray[np.bool_]) -> Any:
        if exact:
            return ExactGP(TanimotoMinMax(), **GIVEN).fit(X[some], y[some])
        return RandomFeatureGP(**GIVEN).fit(X[some] / 3.0, y[some])

    scaled = X if exact else X / 3.0
    mean, std = fitted(np.ones(len(X), bool)).predict(scaled, return_std=True, of="f")
    mean, std = without_own_label(y, np.ravel(mean), np.ravel(std), 0.1, equal_rows(X))
    for i, row in enumerate(X):
        gp = fitted((row != X).any(axis=1))
        (there,), (spread,) = map(np.ravel, gp.predict(scaled[[i]], return_std=True, of="f"))
        assert mean[i] == pytest.approx(there, rel=1e-6, abs=1e-8)
        assert std[i] == pytest.approx(spread, rel=1e-6)


def likelihood(link: ProbabilityLink, mean: Array, std: Array, positive: npt.NDArray[np.bool_]) -> float:
    """By the definition, an average over the posterior, with each class counted once more."""
    f = mean[:, None] + std[:, None] * norm.ppf((np.arange(2000) + 0.5) / 2000)
    p = ndtr(link.offset + link.slope * f).mean(axis=1).clip(1e-300, 1 - 1e-16)
    n = int(positive.sum())
    wanted = np.where(positive, (n + 1) / (n + 2), 1 / (len(mean) - n + 2))
    return float((wanted * np.log(p) + (1 - wanted) * np.log1p(-p)).sum())


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_the_link_has_the_largest_likelihood(share: float) -> None:
    rng = np.random.default_rng(3)
    mean, std = rng.standard_normal(120), rng.uniform(0.1, 1.0, 120)
    positive = rng.random(120) < ndtr(norm.ppf(share) + mean)
    link = fit_link(mean, std, positive)
    best = likelihood(link, mean, std, positive)
    for step in (0.97, 1.03):
        for other in (
            ProbabilityLink(link.offset + step - 1, link.slope),
            ProbabilityLink(link.offset, link.slope * step),
        ):
            assert likelihood(other, mean, std, positive) < best


@pytest.mark.parametrize(("share", "n"), [(0.5, 2000), (0.02, 20_000)])
def test_probabilities_of_new_labels_are_shares(share: float, n: int) -> None:
    """Of ten groups, none has a share that differs by 4 standard errors, from rare labels too."""
    rng = np.random.default_rng(5)
    mean, std = rng.standard_normal(2 * n), rng.uniform(0.1, 2.0, 2 * n)
    f = mean + std * rng.standard_normal(2 * n)
    positive = rng.random(2 * n) < ndtr(norm.ppf(share) + 0.7 * f)
    p = fit_link(mean[:n], std[:n], positive[:n])(mean[n:], std[n:])
    for group in np.array_split(np.argsort(p), 10):
        expected, seen = p[group].sum(), positive[n:][group].sum()
        assert abs(seen - expected) < 4 * np.sqrt((p[group] * (1 - p[group])).sum()) + 1


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e3), st.booleans()),
        min_size=1,
        max_size=30,
    )
)
def test_any_labels_have_finite_probabilities(data: list[tuple[float, float, bool]]) -> None:
    """Separated classes, one class only, equal means: probabilities are in [0, 1] and rise with the mean."""
    mean, std, positive = map(np.array, zip(*data, strict=True))
    link = fit_link(mean, std, positive)
    assert ProbabilityLink.from_state(link.state()) == link
    p = link(np.sort(mean), np.full(len(mean), 0.5))
    assert ((p >= 0) & (p <= 1)).all()
    assert (np.diff(p) >= 0).all()


def test_bad_input() -> None:
    with pytest.raises(InputError, match="one length"):
        fit_link([1.0], [1.0, 2.0], [True])
    with pytest.raises(ValueError, match="not a number"):
        ProbabilityLink.from_state({"offset": float("nan"), "slope": 1.0})
