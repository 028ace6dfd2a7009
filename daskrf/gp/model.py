"""A Gaussian process with random features, in scikit-learn's manner."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy.typing as npt

from daskrf.gp.base import FeatureSpaceGP

__all__ = ["RandomFeatureGP"]


class RandomFeatureGP(FeatureSpaceGP):
    """Exact Gaussian process regression with the kernel amplitude * phi(x) . phi(x').

    y = mean + f(x) + noise, f ~ GP(0, amplitude phi . phi). Everything follows from sums over the rows
    (`SufficientStatistics`); hyperparameters that are not given maximize the evidence on all rows.
    Several targets share one Gram matrix and have their own hyperparameters.

    Parameters
    ----------
    feature_map : FeatureMap, optional
        Map from what `fit` and `predict` are given to features. Without it they are given features: a float
        array of shape (n, M), or packed bits (uint8, see `daskrf.arrays`) of shape (n, ceil(M / 8)).
    mean, amplitude, noise : float or array of shape (n_targets,), optional
        Hyperparameters to keep fixed: the mean of y, the variance of f where |phi| = 1, and the variance of
        the noise. Any combination; the others are optimized.
    method : {"auto", "eigh", "cholesky"}
        How the evidence is searched: one eigendecomposition and then O(M) a step, or about ten Cholesky
        factorizations. "auto" takes the first up to M = 1024; see benchmarks/README.md. Where "cholesky"
        would lose digits (fewer than 2 M rows, and noise below 1e-6 of the variance of f), an
        eigendecomposition follows.
    n_components : int, optional
        M for packed bits; default 8 times their number of bytes.

    Attributes
    ----------
    mean_, amplitude_, noise_ : float64 arrays, shape (n_targets,)
    weights_ : float64 array, shape (M, n_targets)
        Posterior mean of the feature weights.
    log_marginal_likelihood_value_ : float, or float64 array of shape (n_targets,) for several targets
    left_out_ : float64 array, shape (n_targets,)
        Variance of f outside of the features, for each unit of k(x, x) - |phi(x)|^2: the amplitude, unless
        the noise that was found leaves less room for it. It counts for maps that project their kernel, such
        as `NystromFeatures` (`FeatureMap.projected_kernel`).
    mean_left_ : float
        Mean of k(x, x) - |phi(x)|^2 over the rows, if the noise that was found includes it; else 0.
    at_bound_ : bool array, shape (n_targets,)
        Whether noise / amplitude ran into an end of its range: no noise, or no signal, can be seen.
    jitter_ : float
        Largest jitter that a Cholesky factorization needed (relative to Phi^T Phi), usually 0.
    statistics_ : SufficientStatistics
    feature_map_ : FeatureMap or None

    Notes
    -----
    Source: Rasmussen & Williams 2006, sections 2.1.2 and 2.2 (weight-space view) and eq. 5.8 (evidence).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Phi = rng.standard_normal((200, 3))
    >>> gp = RandomFeatureGP().fit(Phi, 5 + Phi @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(200))
    >>> mean, std = gp.predict(np.eye(3), return_std=True)
    >>> (mean.round(1).tolist(), std.round(1).tolist())
    ([6.0, 3.0, 5.5], [0.1, 0.1, 0.1])
    """

    def __init__(
        self,
        feature_map: Any = None,
        *,
        mean: npt.ArrayLike | None = None,
        amplitude: npt.ArrayLike | None = None,
        noise: npt.ArrayLike | None = None,
        method: Literal["auto", "eigh", "cholesky"] = "auto",
        n_components: int | None = None,
    ) -> None:
        self.feature_map = feature_map
        self.mean = mean
        self.amplitude = amplitude
        self.noise = noise
        self.method = method
        self.n_components = n_components

    @classmethod
    def _blank(cls, parameters: dict[str, Any], **given: Any) -> Self:
        return cls(method=parameters["method"], n_components=parameters["n_components"], **given)
