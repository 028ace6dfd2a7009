"""A weighted sum of targets as a target of its own, and the model that predicts it.

Here the models of different targets are independent. The mean of a sum is the weighted sum of the means, its
variance the sum of the variances times the squared weights, and a sample of it a sum of independent samples.
Where targets correlate, a sum is `CoregionalizedGP.of_sum`; only samples of each target are taken here, with
one seed, so that they are those of one joint sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import MatrixLike
from daskrf.gp.processes.coregionalized import CoregionalizedGP, CoregionalizedTarget
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.process import FeatureSpaceGP
from daskrf.gp.processes.regressor import RowFunction

Array = npt.NDArray[np.float64]

Process = FeatureSpaceGP | ExactGP | CoregionalizedGP
"""A model of one or several targets, as it is fitted and stored."""

TargetProcess = FeatureSpaceGP | ExactGP | CoregionalizedTarget
"""A model that predicts one target; on features it may be that of several with the same labelled rows."""


@dataclass(frozen=True)
class WeightedSum:
    """A weighted sum of some targets of a model.

    Attributes
    ----------
    targets : tuple of int
    weights : tuple of float
        In units of the labels of each target.
    name : str
        As a formula.

    Examples
    --------
    >>> values_of(np.array([[6.0, 2.0], [7.0, np.nan]]), WeightedSum((0, 1), (1.0, -0.5), "pIC50 - 0.5 logD"))
    array([ 5., nan])
    """

    targets: tuple[int, ...]
    weights: tuple[float, ...]
    name: str = ""


Target = int | WeightedSum
"""The quantity that ranks molecules: a target by its position in a model, or a weighted sum."""


def targets_in(target: Target) -> tuple[int, ...]:
    """Return the targets of a sum, or a single target."""
    return target.targets if isinstance(target, WeightedSum) else (target,)


def values_of(y: Array, target: Target) -> Array:
    """Return the labels of a target, NaN where a label is missing.

    Parameters
    ----------
    y : float64 array, shape (n, n_targets)
    target : int or WeightedSum

    Returns
    -------
    float64 array, shape (n,)

    Examples
    --------
    >>> values_of(np.array([[6.0, 2.0], [7.0, 3.0]]), 1)
    array([2., 3.])
    """
    if isinstance(target, WeightedSum):
        return np.asarray(y[:, list(target.targets)] @ np.array(target.weights))
    return y[:, target]


def joint_prediction(
    process: TargetProcess | Process | SummedProcess,
    place: int,
    X: MatrixLike,
    diagonal: npt.ArrayLike | None = None,
    rows: MatrixLike | None = None,
    *,
    of: Literal["y", "f", "both"] = "f",
) -> tuple[Array, Array]:
    """Return mean and joint covariance at some rows, for one target of a model.

    Parameters
    ----------
    process : Process or SummedProcess
    place : int
        Position of the target in the model.
    X : rows, shape (m, n_columns)
    diagonal : float64 array, shape (m,), optional
        k(x, x) of each row, for features that do not determine it.
    rows : optional
        The rows of which X holds features, for features that leave out a part of the kernel.
    of : {"f", "y"}
        Whether of the function or of new measurements, with noise.

    Returns
    -------
    mean : float64 array, shape (m,)
    covariance : float64 array, shape (m, m)
    """
    if rows is None or isinstance(process, (ExactGP, CoregionalizedGP, CoregionalizedTarget)):
        mean, covariance = process.predict(X, return_cov=True, of=of, diagonal=diagonal)
    else:
        mean, covariance = process.predict(X, return_cov=True, of=of, diagonal=diagonal, rows=rows)
    return (mean[:, place], covariance[:, :, place]) if covariance.ndim == 3 else (mean, covariance)


@dataclass(frozen=True)
class SummedFunction:
    """A sum of functions of rows."""

    functions: tuple[RowFunction, ...]
    weights: tuple[float, ...]

    def predict(self, X: MatrixLike, *, rows: MatrixLike | None = None) -> Array:
        """Return the values, shape (m,), or (m, D) for D functions at once; `rows` are for each function."""
        parts = [w * values_at(f, X, rows=rows) for f, w in zip(self.functions, self.weights, strict=True)]
        return np.asarray(sum(parts[1:], start=parts[0]))


def values_at(function: RowFunction, X: MatrixLike, *, rows: MatrixLike | None = None) -> Array:
    """Return the values of a function at rows; if X holds features, some need the `rows` as well."""
    if rows is None:
        return function.predict(X)
    assert isinstance(function, (FeatureSpaceGP, SummedFunction))
    return function.predict(X, rows=rows)


@dataclass(frozen=True)
class _MeanOf:
    """The mean of one target of a process, as a function of rows."""

    process: TargetProcess
    place: int

    def predict(self, X: MatrixLike) -> Array:
        return np.asarray(self.process.predict(X, target=self.place))


@dataclass(frozen=True)
class SummedProcess:
    """A model of a weighted sum of targets, which can be used like a model of one target.

    Parameters
    ----------
    parts : sequence of (process, int)
        The model of each target, and the position of the target in it.
    weights : sequence of float

    Attributes
    ----------
    mean_, noise_variance_ : float64 arrays, shape (1,)

    Examples
    --------
    >>> from daskrf.gp import RandomFeatureGP
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 2))
    >>> gp = RandomFeatureGP().fit(X, X @ [[1.0, 0.0], [0.0, 2.0]] + 0.1 * rng.standard_normal((60, 2)))
    >>> both = SummedProcess(((gp, 0), (gp, 1)), (1.0, -0.5))
    >>> bool(np.allclose(both.predict(X), X[:, 0] - X[:, 1], atol=0.2))
    True
    """

    parts: tuple[tuple[TargetProcess, int], ...]
    weights: tuple[float, ...]
    mean_: Array = field(init=False)
    noise_variance_: Array = field(init=False)

    def __post_init__(self) -> None:
        of_parts = [(gp.mean_[place], gp.noise_variance_[place]) for gp, place in self.parts]
        means, noises = np.array(of_parts).T
        w = np.array(self.weights)
        object.__setattr__(self, "mean_", np.array([w @ means]))
        object.__setattr__(self, "noise_variance_", np.array([w**2 @ noises]))

    @property
    def means_only(self) -> bool:
        """Whether a model was loaded without the arrays that standard deviations and samples need."""
        return any(gp.means_only for gp, _ in self.parts)

    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        *,
        of: Literal["y", "f", "both"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
        rows: MatrixLike | None = None,
    ) -> Array: ...
    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        of: Literal["y", "f", "both"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
        rows: MatrixLike | None = None,
    ) -> tuple[Array, ...]: ...
    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        of: Literal["y", "f", "both"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
        rows: MatrixLike | None = None,
    ) -> Array | tuple[Array, ...]:
        """Return means and, on request, standard deviations or the joint covariance.

        `target` may be 0 or None: there is only the sum.
        """
        w = np.array(self.weights)
        if return_cov:
            joint = [joint_prediction(gp, place, X, diagonal, rows, of=of) for gp, place in self.parts]
            mean = np.asarray(w @ [m for m, _ in joint])
            covariance = np.zeros((len(mean), len(mean)))
            for (_, term), weight in zip(joint, self.weights, strict=True):
                covariance += weight**2 * term
            return mean, covariance
        if not return_std:
            return w @ [gp.predict(X, target=place, diagonal=diagonal) for gp, place in self.parts]
        predictions = [
            gp.predict(X, True, of=of, target=place, diagonal=diagonal) for gp, place in self.parts
        ]
        means, *deviations = zip(*predictions, strict=True)
        return (w @ means, *(np.sqrt(w**2 @ np.square(each)) for each in deviations))

    @property
    def draws_take_rows(self) -> bool:
        """Whether samples and covariances need the rows themselves, besides their features."""
        return any(gp.draws_take_rows for gp, _ in self.parts)

    def rough(self) -> SummedFunction | None:
        """Return a cheap approximation of the mean, or None if the means of all targets are cheap."""
        approximations = [gp.rough() for gp, _ in self.parts]
        if all(each is None for each in approximations):
            return None
        cheap = (each or _MeanOf(*pair) for each, pair in zip(approximations, self.parts, strict=True))
        return SummedFunction(tuple(cheap), self.weights)

    def most_draws(self) -> int | None:
        """Return the number of posterior samples, or None for any."""
        numbers = [n for gp, _ in self.parts if (n := gp.most_draws()) is not None]
        return min(numbers, default=None)

    def weights_of_draw(self, seed: int, target: int = 0) -> npt.NDArray[np.floating]:
        """Return the weights of one sample of all targets, one after the other, shape (sum of sizes, 1)."""
        seeded = zip(self.parts, self._seeds(seed), strict=True)
        return np.concatenate([gp.weights_of_draw(own_seed, place) for (gp, place), own_seed in seeded])

    def weights_of_draws(self, n: int, seed: int, target: int = 0) -> npt.NDArray[np.floating]:
        """Return the weights of n samples of all targets, shape (sum of sizes, n)."""
        n = min(n, self.most_draws() or n)
        seeded = zip(self.parts, self._seeds(seed), strict=True)
        return np.concatenate([gp.weights_of_draws(n, own_seed, place) for (gp, place), own_seed in seeded])

    def drawn(self, weights: npt.NDArray[np.floating], seed: int, target: int = 0) -> SummedFunction:
        """Return the sum of samples with the weights from `weights_of_draw` or `weights_of_draws`."""
        ends = np.cumsum([_size(gp) for gp, _ in self.parts])[:-1]
        seeded = zip(self.parts, np.split(weights, ends), self._seeds(seed), strict=True)
        functions = (gp.drawn(own_weights, own_seed, place) for (gp, place), own_weights, own_seed in seeded)
        return SummedFunction(tuple(functions), self.weights)

    def _seeds(self, seed: int) -> list[int]:
        """Return a seed for each target; the first is `seed`.

        Models with the same seed would use the same prior function. For models fitted by conjugate gradients
        the seed is the number of a sample, and different numbers are returned. Targets that correlate have
        the same seed.
        """
        if all(isinstance(gp, CoregionalizedTarget) for gp, _ in self.parts):
            return [seed] * len(self.parts)
        result = [seed]
        for place, (gp, _) in enumerate(self.parts[1:], start=1):
            most = gp.most_draws()
            if most is None:
                result.append(seeds.key(seed, f"gp/sum/{place}") >> 1)
            else:
                result.append((seed + place * max(1, most // len(self.parts))) % most)
        return result


def _size(gp: TargetProcess) -> int:
    """Return the number of weights of a posterior sample."""
    return len(gp.weights_) if isinstance(gp, FeatureSpaceGP) else gp.n_rows_
