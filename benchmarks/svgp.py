"""The stochastic sparse process that Tripp et al. 2023 compare with: minibatches and natural gradients.

Hensman, Fusi & Lawrence, *Gaussian Processes for Big Data* (UAI 2013). The values of f at the landmarks have
the distribution q(u) = N(m, S), whose parameters follow a lower bound on the evidence, batch by batch. With
normal noise the optimum is known (Titsias 2009) and `daskrf.SparseGP` computes it from sums over all rows, in
one pass as well: the minibatches only approach it. So they are a baseline here, and no part of daskrf.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from daskrf import seeds

Array = npt.NDArray[np.float64]

JITTER = 1e-6  # relative, as a GPyTorch user would set it


class StochasticSparseGP:
    """Sparse variational regression by minibatches, with given hyperparameters and landmarks.

    Parameters
    ----------
    feature_map : LandmarkFeatures
        Unfitted; chooses the landmarks Z.
    mean, signal_variance, noise_variance : float
        a is the signal variance, s the noise variance.
    step : float
        Length of natural-gradient steps, gamma; 0.1 in the paper.
    batch : int, optional
        Rows of a batch; by default twice the landmarks, as in the paper.
    passes : int
        Passes over the rows, in a new random order each; 1 in the paper.
    seed : int
    """

    def __init__(
        self,
        feature_map: Any,
        *,
        mean: float,
        signal_variance: float,
        noise_variance: float,
        step: float = 0.1,
        batch: int | None = None,
        passes: int = 1,
        seed: int = 0,
    ) -> None:
        self.feature_map, self.step, self.batch = feature_map, step, batch
        self.mean_, self.signal_variance_, self.noise_variance_ = mean, signal_variance, noise_variance
        self.passes, self.seed = passes, seed

    def fit(self, X: Any, y: npt.ArrayLike) -> Self:
        """Choose landmarks from the rows of X, and follow the bound from the prior on."""
        values = np.asarray(y, dtype=np.float64).ravel() - self.mean_
        self.map_ = self.feature_map.fit(X)
        K = self.map_.prior_precision()
        self._root = np.linalg.cholesky(K + JITTER * np.mean(np.diag(K)) * np.eye(len(K)))
        # Natural parameters of q in whitened coordinates, where the prior is N(0, a I): it comes first.
        self.precision_, self.shift_ = np.eye(len(K)) / self.signal_variance_, np.zeros(len(K))
        rng = seeds.generator(self.seed, "benchmarks/svgp")
        size = min(self.batch or 2 * len(K), len(values))
        for _ in range(self.passes):
            order = rng.permutation(len(values))
            for first in range(0, len(order), size):
                rows = np.sort(order[first : first + size])
                self._step(self._whitened(X[rows]), values[rows], len(values))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return means, and on request standard deviations of y."""
        phi, factor = self._whitened(X), cho_factor(self.precision_, lower=True)
        mean = self.mean_ + phi @ cho_solve(factor, self.shift_)
        if not return_std:
            return mean
        spread = np.einsum("ij,ij->i", phi, cho_solve(factor, phi.T).T)
        return mean, np.sqrt(self.noise_variance_ + self._left_out(X, phi) + spread)

    def bound(self, X: Any, y: npt.ArrayLike, n_rows: int | None = None) -> float:
        """Return the lower bound on log p(y), or its unbiased estimate from some of `n_rows` rows."""
        values = np.asarray(y, dtype=np.float64).ravel() - self.mean_
        phi, s = self._whitened(X), self.noise_variance_
        covariance = np.linalg.inv(self.precision_)
        m = covariance @ self.shift_
        expected = np.square(values - phi @ m) + np.einsum("ij,jk,ik->i", phi, covariance, phi)
        fit = -0.5 * (len(values) * math.log(2 * math.pi * s) + (expected + self._left_out(X, phi)).sum() / s)
        _, logarithm = np.linalg.slogdet(covariance / self.signal_variance_)
        divergence = 0.5 * ((np.trace(covariance) + m @ m) / self.signal_variance_ - len(m) - logarithm)
        return float(fit * (n_rows or len(values)) / len(values) - divergence)

    def _step(self, phi: Array, values: Array, n_rows: int) -> None:
        """Move by gamma towards the best q for `n_rows` rows like these: the natural gradient."""
        weight = n_rows / len(values) / self.noise_variance_
        best = weight * phi.T @ phi
        best[np.diag_indices_from(best)] += 1.0 / self.signal_variance_
        self.precision_ += self.step * (best - self.precision_)
        self.shift_ += self.step * (weight * phi.T @ values - self.shift_)

    def _whitened(self, X: Any) -> Array:
        phi = self.map_.transform(X).astype(np.float64)
        return solve_triangular(self._root, phi.T, lower=True).T

    def _left_out(self, X: Any, phi: Array) -> Array:
        """Return the variance of f given its values at the landmarks."""
        left = self.map_.kernel.diag(X) - np.einsum("ij,ij->i", phi, phi)
        return self.signal_variance_ * np.maximum(left, 0.0)
