"""Targets measured for different rows: one model per set of rows, behind a common interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, cast, overload

import numpy as np
import numpy.typing as npt

from daskrf.arrays import MatrixLike, NamedArrays
from daskrf.documents import OfClass
from daskrf.errors import InputError
from daskrf.features.featuremap import FeatureMap, MapState
from daskrf.gp.processes.coregionalized import CoregionalizedGP
from daskrf.gp.processes.process import PER_TARGET
from daskrf.gp.processes.regressor import RowFunction
from daskrf.gp.processes.weightedsum import Process, SummedProcess, Target, TargetProcess, WeightedSum
from daskrf.gp.sums.sums import Statistics

Array = npt.NDArray[np.float64]


class SeparateState(OfClass):
    """What `SeparateGP.state` returns: the states of its parts share one map, which they do not hold."""

    targets: Sequence[Sequence[int]]
    parts: list[dict[str, object]]
    feature_map: MapState | None


class SeparateGP:
    """Models with a common feature map or kernel, each for some targets and the rows labelled with them.

    Targets of one model share the Gram matrix of the rows that have labels for all of them. If targets have
    gaps, each set of rows has its own sums, so no label is lost. Each target is predicted by its model.

    Parameters
    ----------
    parts : sequence of FeatureSpaceGP or ExactGP
        Fitted, with one feature map or kernel.
    targets : sequence of sequence of int
        Indices of the targets of each part: together all from 0 on, each once.

    Attributes
    ----------
    mean_, signal_variance_, noise_variance_, left_out_, log_marginal_likelihoods_, at_bound_ : arrays
        Of shape (n_targets,).
    weights_ : float64 array, shape (M, n_targets)
        Weights of features; exact models have neither these nor `left_out_`.
    one_bit_, jitter_ : as for the models; `jitter_` is the largest one

    Raises
    ------
    InputError
        If the indices of the targets do not match the parts.

    Examples
    --------
    >>> from daskrf.gp import RandomFeatureGP
    >>> X, rng = np.random.default_rng(0).standard_normal((60, 2)), np.random.default_rng(1)
    >>> y = X @ [[1.0, 0.0], [0.0, 2.0]] + 0.01 * rng.standard_normal((60, 2))
    >>> some = RandomFeatureGP().fit(X[:40], y[:40, 1])
    >>> gp = SeparateGP([some, RandomFeatureGP().fit(X, y[:, 0])], [[1], [0]])
    >>> np.abs(gp.predict(X) - y).max().round(1)
    np.float64(0.0)
    """

    mean_: npt.NDArray[np.float64]
    signal_variance_: npt.NDArray[np.float64]
    noise_variance_: npt.NDArray[np.float64]
    left_out_: npt.NDArray[np.float64]
    weights_: npt.NDArray[np.float64]
    log_marginal_likelihoods_: npt.NDArray[np.float64]
    at_bound_: npt.NDArray[np.bool_]

    def __init__(self, parts: Sequence[Process], targets: Sequence[Sequence[int]]) -> None:
        self.parts = tuple(parts)
        self.targets = tuple(tuple(int(t) for t in group) for group in targets)
        sizes, numbers = (
            [len(process.mean_) for process in self.parts],
            [t for group in self.targets for t in group],
        )
        if [len(group) for group in self.targets] != sizes or sorted(numbers) != list(range(sum(sizes))):
            raise InputError(f"the targets {self.targets} do not match models of {sizes} targets.")
        self._order = np.argsort(numbers)
        whose = (process for process, size in zip(self.parts, sizes, strict=True) for _ in range(size))
        within = (place for size in sizes for place in range(size))
        self._places = dict(zip(numbers, zip(whose, within, strict=True), strict=True))
        for name in (*PER_TARGET, "left_out_", "weights_"):
            if all(hasattr(process, name) for process in self.parts):
                values = np.concatenate([getattr(process, name) for process in self.parts], axis=-1)
                setattr(self, name, values[..., self._order])
        self.one_bit_ = self.parts[0].one_bit_
        self.jitter_ = max(getattr(process, "jitter_", 0.0) for process in self.parts)

    @property
    def feature_map_(self) -> FeatureMap | None:
        """The map of all models; if set to None, they take features instead of rows."""
        return getattr(self.parts[0], "feature_map_", None)

    @feature_map_.setter
    def feature_map_(self, feature_map: FeatureMap | None) -> None:
        for process in self.parts:
            process.feature_map_ = feature_map

    @property
    def statistics_(self) -> tuple[Statistics, ...] | None:
        """The sums of each model, or None if the model was stored without them."""
        sums = tuple(each for process in self.parts if (each := process.statistics_) is not None)
        return sums if len(sums) == len(self.parts) else None

    @property
    def means_only(self) -> bool:
        """Whether the model was loaded without the arrays that standard deviations and samples need."""
        return any(process.means_only for process in self.parts)

    def process_of(self, target: int) -> tuple[Process, int]:
        """Return the process of a target, and the index of the target within that process."""
        return self._places[target]

    def cautions(self, target: int = 0) -> list[str]:
        """Return the reasons not to trust standard deviations of one target; usually none."""
        process, place = self.process_of(target)
        return process.cautions(place)

    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[False] = False,
        *,
        of: Literal["y", "f", "both"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
    ) -> Array: ...
    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[True],
        *,
        of: Literal["y", "f"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[True],
        *,
        of: Literal["both"],
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
    ) -> tuple[Array, Array, Array]: ...
    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        *,
        of: Literal["y", "f", "both"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
    ) -> Array | tuple[Array, ...]: ...
    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        *,
        of: Literal["y", "f", "both"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
    ) -> Array | tuple[Array, ...]:
        """Return means and, on request, standard deviations of all targets or of one.

        Returns
        -------
        mean, std : float64 arrays, shape (n, n_targets), or (n,) for one target
            Two standard deviations, of f and of y, for ``of="both"``.
        """
        if target is not None:
            process, place = self.process_of(target)
            return process.predict(X, return_std, of=of, target=place, diagonal=diagonal)
        if not return_std:
            return self._columns(process.predict(X, of=of, diagonal=diagonal) for process in self.parts)
        predictions = [process.predict(X, True, of=of, diagonal=diagonal) for process in self.parts]
        return tuple(self._columns(values) for values in zip(*predictions, strict=True))

    def draw(self, seed: int, target: int = 0) -> RowFunction:
        """Return one posterior sample of one target; see `FeatureSpaceGP.draw` and `ExactGP.draw`."""
        process, place = self.process_of(target)
        return process.draw(seed, place)

    def state(self) -> SeparateState:
        """Return a JSON-able description of the fitted model; with `arrays` it rebuilds the model."""
        parts: list[Mapping[str, object]] = [process.state() for process in self.parts]
        return {
            "class": type(self).__name__,
            "targets": self.targets,
            "parts": [{**stored, "feature_map": None} for stored in parts],
            "feature_map": cast(MapState | None, parts[0].get("feature_map")),
        }

    def arrays(self, *, statistics: bool = True) -> dict[str, npt.NDArray[np.generic]]:
        """Return the weights of all targets and, prefixed with its index, the statistics of each process."""
        arrays: dict[str, npt.NDArray[np.generic]] = (
            {"weights": self.weights_} if hasattr(self, "weights_") else {}
        )
        for number, process in enumerate(self.parts):
            process_arrays = process.arrays(statistics=statistics)
            arrays |= {
                f"{number}/{name}": array for name, array in process_arrays.items() if name not in arrays
            }
        return arrays

    @staticmethod
    def stored_parts(
        state: Mapping[str, object], arrays: Mapping[str, npt.NDArray[np.generic]]
    ) -> Iterator[tuple[dict[str, object], dict[str, npt.NDArray[np.generic]]]]:
        """Yield the state and arrays of each process from those of the whole model."""
        entries, stored = cast(SeparateState, state), cast(NamedArrays, arrays)
        for number, (process_state, targets) in enumerate(
            zip(entries["parts"], entries["targets"], strict=True)
        ):
            prefix = f"{number}/"
            process_arrays = {k.removeprefix(prefix): v for k, v in stored.items() if k.startswith(prefix)}
            if "weights" in stored:
                process_arrays["weights"] = stored["weights"][:, targets]
            yield {**process_state, "feature_map": entries["feature_map"]}, process_arrays

    def _columns(self, values: Iterable[Array]) -> Array:
        """Return the predictions of all processes as one array, in the order of the targets."""
        return np.column_stack(list(values))[:, self._order]


@overload
def process_of(gp: Process | SeparateGP, target: int) -> tuple[TargetProcess, int]: ...
@overload
def process_of(gp: Process | SeparateGP, target: Target) -> tuple[TargetProcess | SummedProcess, int]: ...
def process_of(gp: Process | SeparateGP, target: Target) -> tuple[TargetProcess | SummedProcess, int]:
    """Return the process that predicts a target or a sum, and the index of the target within that process."""
    if isinstance(gp, CoregionalizedGP):
        if isinstance(target, WeightedSum):
            return gp.of_sum(target.targets, target.weights), 0
        return gp.of_target(target), 0
    if isinstance(target, WeightedSum):
        return SummedProcess(tuple(process_of(gp, t) for t in target.targets), target.weights), 0
    if isinstance(gp, SeparateGP):
        process, place = gp.process_of(target)
        return process_of(process, place)
    return gp, target


def processes_of(gp: Process | SeparateGP) -> tuple[Process, ...]:
    """Return the processes that have their own sums."""
    return gp.parts if isinstance(gp, SeparateGP) else (gp,)
