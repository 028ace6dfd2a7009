"""Targets that were not measured of the same rows: a process for each set of rows, behind one interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.gp.exact import ExactGP
from daskrf.gp.process import PER_TARGET, FeatureSpaceGP

__all__ = ["Process", "SeparateGP", "process_of", "processes_of"]

Process = FeatureSpaceGP | ExactGP
"""What a model of targets with the same rows is."""


class SeparateGP:
    """Processes of one feature map or kernel, each for its own targets and the rows with labels of these.

    Targets of one process share one Gram matrix: that of the rows which have labels of all of them. Where
    targets have gaps, each set of rows has sums of its own, so that no label is lost. It predicts as its
    processes do.

    Parameters
    ----------
    parts : sequence of FeatureSpaceGP or ExactGP
        Fitted, with one feature map or kernel.
    targets : sequence of sequence of int
        Numbers of the targets of each part: together all from 0 on, each once.

    Attributes
    ----------
    mean_, signal_variance_, noise_variance_, left_out_, log_marginal_likelihoods_, at_bound_ : arrays
        Of shape (n_targets,).
    weights_ : float64 array, shape (M, n_targets)
        Of features; as `left_out_`, exact processes have none.
    one_bit_, jitter_ : as of the processes; the largest jitter

    Raises
    ------
    InputError
        If the numbers of the targets do not fit.

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
        self.targets = tuple(tuple(int(t) for t in own) for own in targets)
        sizes, numbers = [len(part.mean_) for part in self.parts], [t for own in self.targets for t in own]
        if [len(own) for own in self.targets] != sizes or sorted(numbers) != list(range(sum(sizes))):
            raise InputError(f"the targets {self.targets} are not those of processes of {sizes} targets.")
        self._order = np.argsort(numbers)
        whose = (part for part, size in zip(self.parts, sizes, strict=True) for _ in range(size))
        within = (own for size in sizes for own in range(size))
        self._places = dict(zip(numbers, zip(whose, within, strict=True), strict=True))
        for name in (*PER_TARGET, "left_out_", "weights_"):
            if all(hasattr(part, name) for part in self.parts):
                values = np.concatenate([getattr(part, name) for part in self.parts], axis=-1)
                setattr(self, name, values[..., self._order])
        self.one_bit_ = self.parts[0].one_bit_
        self.jitter_ = max(getattr(part, "jitter_", 0.0) for part in self.parts)

    @property
    def feature_map_(self) -> Any:
        """The map of all processes; with None, they take features instead of rows."""
        return getattr(self.parts[0], "feature_map_", None)

    @feature_map_.setter
    def feature_map_(self, feature_map: Any) -> None:
        for part in self.parts:
            part.feature_map_ = feature_map

    @property
    def statistics_(self) -> Any:
        """The sums of each process, or None where the model was stored without."""
        sums = tuple(part.statistics_ for part in self.parts)
        return None if None in sums else sums

    @property
    def means_only(self) -> bool:
        """Whether the model was read without what deviations and draws take."""
        return any(part.means_only for part in self.parts)

    def process_of(self, target: int) -> tuple[Process, int]:
        """Return the process of a target, and the target's number in it."""
        return self._places[target]

    def cautions(self, target: int = 0) -> list[str]:
        """Return why deviations of one target cannot be trusted; see `FeatureSpaceGP.cautions`."""
        part, own = self.process_of(target)
        return part.cautions(own)

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        *,
        of: Literal["y", "f", "both"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
    ) -> Any:
        """Return means and, on request, deviations of all targets or of one; as `FeatureSpaceGP.predict`.

        Returns
        -------
        mean, std : float64 arrays, shape (n, n_targets), or (n,) of one target
            Two deviations, of f and of y, for ``of="both"``.
        """
        options: dict[str, Any] = {"of": of} | ({} if diagonal is None else {"diagonal": diagonal})
        if target is not None:
            part, own = self.process_of(target)
            return part.predict(X, return_std, **options, target=own)
        found = [part.predict(X, return_std, **options) for part in self.parts]
        if not return_std:
            return self._columns(found)
        return tuple(self._columns(values) for values in zip(*found, strict=True))

    def draw(self, seed: int, target: int = 0) -> Any:
        """Return one posterior draw of one target; see `FeatureSpaceGP.draw` and `ExactGP.draw`."""
        part, own = self.process_of(target)
        return part.draw(seed, own)

    def state(self) -> dict[str, Any]:
        """Return what describes the fitted model, JSON-able; with `arrays` it rebuilds the model."""
        parts = [part.state() for part in self.parts]
        feature_map = parts[0].get("feature_map")
        alone = [{**part, "feature_map": None} for part in parts]
        return {
            "class": type(self).__name__,
            "targets": self.targets,
            "parts": alone,
            "feature_map": feature_map,
        }

    def arrays(self, *, statistics: bool = True) -> dict[str, npt.NDArray[Any]]:
        """Return the weights of all targets and, behind its number, the statistics of each process."""
        arrays = {"weights": self.weights_} if hasattr(self, "weights_") else {}
        for number, part in enumerate(self.parts):
            own = part.arrays(statistics=statistics)
            arrays |= {f"{number}/{name}": array for name, array in own.items() if name not in arrays}
        return arrays

    @staticmethod
    def stored_parts(
        state: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> Iterator[tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]]:
        """Yield state and arrays of each process, from those of all."""
        for number, (part, targets) in enumerate(zip(state["parts"], state["targets"], strict=True)):
            prefix = f"{number}/"
            own = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
            if "weights" in arrays:
                own["weights"] = arrays["weights"][:, targets]
            yield {**part, "feature_map": state["feature_map"]}, own

    def _columns(self, values: Iterable[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return what each process predicts as one array, in the order of the targets."""
        return np.column_stack(list(values))[:, self._order]


def process_of(gp: Process | SeparateGP, target: int) -> tuple[Process, int]:
    """Return the process that predicts a target, and the target's number in it."""
    return gp.process_of(target) if isinstance(gp, SeparateGP) else (gp, target)


def processes_of(gp: Process | SeparateGP) -> tuple[Process, ...]:
    """Return the processes with sums of their own."""
    return gp.parts if isinstance(gp, SeparateGP) else (gp,)
