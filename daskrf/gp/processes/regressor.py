"""Checks and results that Gaussian process regressors on features and on exact kernels share."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from daskrf import estimators
from daskrf.arrays import MatrixLike, check_columns_of
from daskrf.errors import InputError
from daskrf.features.featuremap import FeatureMap
from daskrf.gp.processes.evidence import check_positive
from daskrf.gp.sums.chunks import check_of
from daskrf.gp.sums.sums import Statistics

Array = npt.NDArray[np.float64]


class RowFunction(Protocol):
    """A function of rows: a posterior sample, or an approximation of a mean."""

    def predict(self, X: MatrixLike, /) -> Array:
        """Return the values, float64 of shape (m,), or (m, D) for D functions at once."""


class Regressor(estimators.Regressor):
    """Base class of regressors whose targets each have a mean, a signal and a noise variance."""

    _weights_name: ClassVar[str]  # of the attribute that a fit sets last
    mean_: Array
    signal_variance_: Array
    noise_variance_: Array
    n_features_in_: int

    # Of processes on features: the fitted map, or None where they take features; sums over rows; weights.
    feature_map_: FeatureMap | None
    statistics_: Statistics | None
    weights_: Array

    def _check_fitted(self) -> None:
        if not hasattr(self, self._weights_name):
            raise estimators.not_fitted(self)

    def _check_request(self, X: MatrixLike, of: str, *, return_std: bool, return_cov: bool) -> None:
        """Raise InputError if `predict` cannot return what is requested."""
        self._check_fitted()
        check_columns_of(self, X)
        check_of(of, *(["both"] if return_std else []))
        if return_std and return_cov:
            raise InputError("ask for return_std or return_cov, not both.")

    def _hyperparameters(
        self, mean: float | None, signal_variance: float | None, noise_variance: float | None, target: int = 0
    ) -> tuple[float, float, float]:
        """Return the hyperparameters of one target: checked values, or the fitted ones in place of None."""
        values = [mean, signal_variance, noise_variance]
        fitted = [self.mean_[target], self.signal_variance_[target], self.noise_variance_[target]]
        m, a, s = (float(f if v is None else v) for v, f in zip(values, fitted, strict=True))
        check_positive("signal_variance", a)
        check_positive("noise_variance", s)
        return m, a, s


def mean_and_std(mean: Array, std_f: Array, std_y: Array, of: str) -> tuple[Array, ...]:
    """Return the mean with the standard deviation of f, of y, or both."""
    return (mean, std_f, std_y) if of == "both" else (mean, std_f if of == "f" else std_y)
