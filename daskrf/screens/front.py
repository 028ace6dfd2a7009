"""Batches that improve two or three targets at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.acquisition import acquisition_for
from daskrf.acquisition.hypervolume import on_front, reference_point
from daskrf.errors import InputError, OptionError
from daskrf.gp.processes.weightedsum import WeightedSum
from daskrf.models.directions import maximizes, target_of
from daskrf.models.models import Model, read_model
from daskrf.models.targets import measured_of, names_in, words_of_errors
from daskrf.quantities import amount, listed
from daskrf.screens.aim import SIGNS, Aim, Depth, limits_of_targets
from daskrf.screens.choosers import Chooser, Columns, Hypervolume
from daskrf.screens.request import SuggestRequest
from daskrf.screens.searches import WAYS, FrontCandidates, PassingSearch
from daskrf.screens.shortlist import n_candidates

_AT_ONCE = (2, 3)  # targets
_LEAST_SPREAD = 1e-9


@dataclass(frozen=True, kw_only=True)
class FrontAim(Aim):
    """Improves two or three targets at once.

    Candidates are the molecules whose means reach farthest above a reference point, in many directions. The
    batch is chosen from them to add most to the expected hypervolume, by joint posterior samples. `rule`
    ranks the candidates; `target` stands for the labels and columns of all targets.

    Attributes
    ----------
    places : tuple of int
        The targets.
    signs : tuple of float
        Multiply the targets, so that larger is better.
    floor : float64 array, shape (d,)
        The reference point, multiplied by the signs.
    front : float64 array, shape (n_labelled, d)
        Labels of the molecules that have all targets, multiplied by the signs.
    """

    places: tuple[int, ...]
    signs: tuple[float, ...]
    floor: npt.NDArray[np.float64]
    front: npt.NDArray[np.float64]

    columns: ClassVar[tuple[str, ...]] = ("acquisition", "on_front")

    @classmethod
    def of_batch(cls, request: SuggestRequest) -> FrontAim:
        """Return the aim of a request for several targets."""
        model = read_model(request.model, statistics=True)
        assert isinstance(request.target, Iterable)
        places = _places(model, list(request.target))
        ways = [maximizes(model, t, request.maximize) for t in places]
        signs = tuple(1.0 if up else -1.0 for up, _ in ways)
        target = WeightedSum(places, signs)  # only for labels and columns of each
        names = names_in(model, target)
        notes = (*(note for _, notes in ways for note in notes), *model.scales_of(names))
        measured = measured_of(model, target)
        values = measured.parts[:, list(places)] * signs
        front = values[np.isfinite(values).all(axis=1)]
        floor = reference_point(front) if len(front) else np.nanmedian(values, axis=0)
        limits = dict(_reached(request.reached, model, places, signs))
        for place, number in limits.items():
            floor[places.index(place)] = number
        whence = "as asked for" if len(limits) == len(places) else _words_of_floor(front)
        how = f"{whence}{'' if limits else '; --reference sets another'}"
        point = " and ".join(
            f"{name} {'>' if sign > 0 else '<'} {value:.4g}"
            for name, value, sign in zip(names, floor * signs, signs, strict=True)
        )
        return cls(
            model=model,
            target=target,
            rule=acquisition_for("greedy", maximize=True),
            measured=measured,
            notes=(
                *notes,
                f"molecules below the reference point are ignored: {point} ({how})",
                words_of_errors(model),
            ),
            places=places,
            signs=signs,
            floor=floor,
            front=front,
        )

    @property
    def has_surrogate(self) -> bool:
        """False: the landmarks of one target say nothing of the others."""
        return False

    @property
    def improved(self) -> list[str]:
        """The targets."""
        return names_in(self.model, self.target)

    @property
    def rule_name(self) -> str:
        return "expected hypervolume improvement"

    @property
    def target_name(self) -> str:
        pairs = zip(self.improved, self.signs, strict=True)
        return " and ".join(f"{'large' if sign > 0 else 'small'} {name}" for name, sign in pairs)

    @property
    def direction(self) -> str:
        return "each"

    @property
    def state(self) -> dict[str, object]:
        front = {"targets": self.improved, "signs": self.signs, "reference": self.floor.tolist()}
        return {**super().state, **front}

    def chooses_one_by_one(self, request: SuggestRequest) -> bool:
        return True

    def depth(self, request: SuggestRequest) -> Depth:
        n_draws = WAYS + len(self.places)
        return Depth(math.ceil(n_candidates(request.k) / n_draws) + 8, n_draws)

    @property
    def usual(self) -> float:
        """The score of the reference point, which is zero."""
        return 0.0

    @property
    def search(self) -> Callable[..., PassingSearch]:
        """What makes the search for candidates that reach far in many directions."""
        assert self.measured is not None
        best = self.front.max(axis=0, initial=-np.inf) - self.floor
        spread = np.nanstd(self.measured.parts[:, list(self.places)], axis=0)
        extent = np.where(best > 0, best, np.maximum(spread, _LEAST_SPREAD))
        return partial(
            FrontCandidates,
            requirements=self.requirements,
            usual=self.usual,
            signs=self.signs,
            floor=tuple(self.floor),
            extent=tuple(extent),
        )

    def more_columns(self, columns: Columns) -> dict[str, object]:
        """Return whether each candidate is on the predicted front of the library.

        A molecule that dominates a candidate reaches farther in every direction, so it is a candidate itself.
        """
        means = np.column_stack([columns[f"mean_{name}"] for name in self.improved]) * self.signs
        return {"on_front": np.where(on_front(means), "yes", "no")}

    def chooser(self, request: SuggestRequest, n_draws: int) -> Chooser:
        return Hypervolume(self.model, self.places, self.signs, self.front, self.floor, request.seed)

    def notes_on_batch(self, table: pa.Table, depth: Depth) -> list[str]:
        """Return how the batch was chosen, and how many of its molecules are on the predicted front."""
        n = table["on_front"].to_pylist().count("yes")
        return [
            f"chosen among the {depth.k:,} that reach farthest in each of {depth.n_draws} directions",
            *super().notes_on_batch(table, depth),
            f"on the predicted front: {n:,} of the batch (on_front); no other molecule without labels is "
            "predicted to be as good in all targets and better in one",
        ]


def _words_of_floor(front: npt.NDArray[np.float64]) -> str:
    """Return how the reference point was found."""
    if not len(front):
        return "the median labels, as no molecule has labels of all targets"
    best = amount(int(on_front(front).sum()), "best trade-offs")
    return f"a tenth of their range below the worst of the {best} measured so far"


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
    """Yield targets and their values at the reference point, multiplied by their signs."""
    names = listed([model.targets[place] for place in places], "'")
    for limit in (limit for text in texts for limit in limits_of_targets(text, model, names)):
        place = model.targets.index(limit.name) if limit.column else -1
        if place not in places:
            raise InputError(f"'{limit.name}' is not one of the targets that are improved, {names}.")
        sign = signs[places.index(place)]
        if limit.sign not in SIGNS or (limit.sign[0] == ">") != (sign > 0):
            better = "large" if sign > 0 else "small"
            raise OptionError(
                f"{better.capitalize()} values of '{limit.name}' are good, so '{limit}' cannot be a "
                f"reference point; write '{limit.name} {'>' if sign > 0 else '<'} {limit.number:g}'."
            )
        yield place, sign * limit.number
