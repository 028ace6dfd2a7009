"""Batches that improve two or three targets at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.acquisition import acquisition_for
from daskrf.acquisition.hypervolume import (
    on_front,
    reference_point,
)
from daskrf.errors import InputError, OptionError
from daskrf.gp.processes.weightedsum import WeightedSum
from daskrf.jobs.job import Run
from daskrf.models.directions import maximizes, target_of
from daskrf.models.models import Model, read_model
from daskrf.models.targets import measured_of, names_in
from daskrf.quantities import amount, listed
from daskrf.screening import TopK
from daskrf.screens.batch import SIGNS, SuggestJob, limits_of_targets
from daskrf.screens.choosers import Chooser, Hypervolume
from daskrf.screens.searches import (
    WAYS,
    FrontCandidates,
    Search,
)
from daskrf.screens.shortlist import n_candidates

_AT_ONCE = (2, 3)  # targets
_LEAST_SPREAD = 1e-9


@dataclass
class FrontJob(SuggestJob):
    """Improves two or three targets at once.

    Candidates are the molecules whose means reach farthest above a reference point, in many directions; of
    these the batch is the one that is expected to add most to the hypervolume, by joint draws. `rule` ranks
    the former; `target` stands for the labels and columns of all targets.
    """

    places: tuple[int, ...] = ()
    signs: tuple[float, ...] = ()
    floor: npt.NDArray[np.float64] = field(init=False)  # the reference point; larger is better
    front: npt.NDArray[np.float64] = field(init=False)  # what has been measured, likewise

    taken: ClassVar[tuple[str, ...]] = ("acquisition", "on_front")

    @property
    def rough(self) -> bool:
        """The landmarks of one target do not know the others."""
        return False

    def read(self) -> None:
        self.model = read_model(self.path, statistics=True)
        assert isinstance(self.asked, Sequence)
        self.places = _places(self.model, self.asked)
        found = [maximizes(self.model, t, self.maximize) for t in self.places]
        self.signs = tuple(1.0 if up else -1.0 for up, _ in found)
        self.target = WeightedSum(self.places, self.signs)  # only for labels and columns of each
        self.notes = (*(note for _, notes in found for note in notes), *self.model.scales_of(self.names))
        self.rule = acquisition_for("greedy", maximize=True)
        self.measured = measured_of(self.model, self.target)
        values = self.measured.parts[:, list(self.places)] * self.signs
        self.front = values[np.isfinite(values).all(axis=1)]
        self._set_reference(values)

    @property
    def names(self) -> list[str]:
        """The targets."""
        return names_in(self.model, self.target)

    ranked_by = names

    def _set_reference(self, values: npt.NDArray[np.float64]) -> None:
        """Set what molecules must reach to count, and say so."""
        self.floor = reference_point(self.front) if len(self.front) else np.nanmedian(values, axis=0)
        given = dict(_reached(self.reached, self.model, self.places, self.signs))
        for place, number in given.items():
            self.floor[self.places.index(place)] = number
        signs = zip(self.names, self.floor * self.signs, self.signs, strict=True)
        told = " and ".join(f"{name} {'>' if sign > 0 else '<'} {value:.4g}" for name, value, sign in signs)
        whence = (
            f"the worst of the {amount(int(on_front(self.front).sum()), 'best trade-offs')} measured so far, "
            "and a tenth of their range less"
            if len(self.front)
            else "the median labels, as no molecule has labels of all targets"
        )
        asked = "as asked for" if len(given) == len(self.places) else whence
        self.notes = (
            *self.notes,
            f"only what reaches the reference point counts, {told} ({asked}"
            f"{'' if given else '; --reference sets another'})",
            "errors of the targets are taken as independent",
        )

    def plan(self, run: Run) -> None:
        super().plan(run)
        self.n_draws = WAYS + len(self.places)
        self.k = math.ceil(n_candidates(self.n) / self.n_draws) + 8

    @property
    def spec(self) -> dict[str, Any]:
        return {**super().spec, "targets": self.names, "signs": self.signs, "reference": self.floor.tolist()}

    @property
    def usual(self) -> float:
        """That of the reference point, which is zero."""
        return 0.0

    def search(self, run: Run) -> Search:
        """Candidates that reach far in many directions."""
        assert self.measured is not None
        best = self.front.max(axis=0, initial=-np.inf) - self.floor
        spread = np.nanstd(self.measured.parts[:, list(self.places)], axis=0)
        extent = np.where(best > 0, best, np.maximum(spread, _LEAST_SPREAD))
        more: dict[str, Any] = {"signs": self.signs, "floor": tuple(self.floor), "extent": tuple(extent)}
        return FrontCandidates(**vars(super().search(run)), **more)

    @property
    def one_by_one(self) -> bool:
        return True

    def _ranked(self, top: TopK) -> dict[str, Any]:
        """Also whether each candidate is on the predicted front of the library.

        What dominates a candidate reaches farther in every direction, so that it is a candidate itself.
        """
        columns = super()._ranked(top)
        means = np.column_stack([columns[f"mean_{name}"] for name in self.names]) * self.signs
        return columns | {"on_front": np.where(on_front(means), "yes", "no")}

    @property
    def chooser(self) -> Chooser:
        return Hypervolume(self.model, self.places, self.signs, self.front, self.floor, self.seed)

    @property
    def words(self) -> tuple[str, str, str]:
        aims = (f"{'large' if s > 0 else 'small'} {n}" for n, s in zip(self.names, self.signs, strict=True))
        return "expected hypervolume improvement", " and ".join(aims), "each"

    def _required(self, table: pa.Table) -> list[str]:
        """Also how many molecules are on the predicted front."""
        n = table["on_front"].to_pylist().count("yes")
        said = (
            f"on the predicted front: {n:,} of the batch (on_front); no other molecule without labels is "
            "predicted to be as good in all targets and better in one"
        )
        among = f"chosen among the {self.k:,} that reach farthest in each of {self.n_draws} directions"
        return [among, *super()._required(table), said]


def _places(model: Model, names: Sequence[str | int]) -> tuple[int, ...]:
    """Return the positions of two or three different targets."""
    places = []
    for name in names:
        places.append(target_of(model, name))
        if places.count(places[-1]) > 1:
            raise OptionError(f"The target '{model.targets[places[-1]]}' is named twice; name it once.")
    if len(places) not in _AT_ONCE:
        raise OptionError(
            f"Two or three targets can be improved at once, not {len(places)}; weigh them in one sum, "
            f"such as --target '{' + '.join(map(str, names[:3]))}', or ask for the others by --require."
        )
    return tuple(places)


def _reached(
    texts: Sequence[str], model: Model, places: Sequence[int], signs: Sequence[float]
) -> Iterator[tuple[int, float]]:
    """Yield targets and what they must reach to count, multiplied by their signs."""
    there = listed([model.targets[place] for place in places], "'")
    for limit in (limit for text in texts for limit in limits_of_targets(text, model, there)):
        place = model.targets.index(limit.name) if limit.column else -1
        if place not in places:
            raise InputError(f"'{limit.name}' is none of the targets that are improved, {there}.")
        sign = signs[places.index(place)]
        if limit.sign not in SIGNS or (limit.sign[0] == ">") != (sign > 0):
            better = "large" if sign > 0 else "small"
            raise OptionError(
                f"{better.capitalize()} values of '{limit.name}' are good, so that '{limit}' is no end of "
                f"what counts; write '{limit.name} {'>' if sign > 0 else '<'} {limit.number:g}'."
            )
        yield place, sign * limit.number
