"""Whether large or small values of a target are good: stated at the fit or at the screen, never guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError, check_type, printable
from daskrf.gp.processes.weightedsum import Target, WeightedSum
from daskrf.models.classtargets import ClassTarget
from daskrf.models.models import Model
from daskrf.quantities import listed
from daskrf.tables.values.conventions import convention_of
from daskrf.tables.values.values import Scale, scales_in

_DIRECTIONS = ("maximize", "minimize")
_BEGIN = {"max": "maximize", "min": "minimize"}
_ENDS = ("", "imize", "imise", "imum", "imal", "imizing", "imising")


def direction_of(text: object) -> str:
    """Return "maximize" or "minimize" for a word that means it, such as "max", "Minimise" or "maximum".

    Raises
    ------
    InputError
        If it is no such word.

    Examples
    --------
    >>> direction_of("max"), direction_of(" Minimise"), direction_of("maximum")
    ('maximize', 'minimize', 'maximize')
    """
    word = text.strip().lower() if isinstance(text, str) else ""
    if (direction := _BEGIN.get(word[:3])) is not None and word[3:] in _ENDS:
        return direction
    like = get_close_matches(word, _DIRECTIONS, 1)
    hint = f"; did you mean {like[0]}?" if like else "."
    raise InputError(f"A direction is maximize or minimize, not {printable(repr(text), 60)}{hint}")


def directions_of(directions: str | Mapping[str, str] | None, targets: Sequence[str]) -> dict[str, str]:
    """Return "maximize" or "minimize" for each target whose direction is given, for all or by name.

    Raises
    ------
    InputError
        If a direction is neither of the two, or there is no such target.

    Examples
    --------
    >>> directions_of({"logD": "minimize"}, ["pIC50", "logD"]), directions_of("maximize", ["score"])
    ({'logD': 'minimize'}, {'score': 'maximize'})
    """
    by_name = dict(directions) if isinstance(directions, Mapping) else dict.fromkeys(targets, directions)
    by_target, there = {}, listed(targets, "'")
    for name, direction in by_name.items():
        if name not in targets:
            raise InputError(f"There is no target '{name}' to give a direction; the targets are {there}.")
        if direction is not None:
            by_target[name] = direction_of(direction)
    return by_target


def check_conventions(
    directions: Mapping[str, str],
    scales: Sequence[Scale],
    y: npt.NDArray[np.float64],
    source: PurePath,
    *,
    confirmed: bool,
) -> tuple[str, ...]:
    """Refuse directions that choose the worst molecules; if `confirmed`, return a line on each instead.

    Parameters
    ----------
    directions : mapping of str to str
        The given directions, by the name of the target.
    scales : sequence of Scale
        What each target is.
    y : float64 array, shape (n, n_targets)
        Labels, on these scales.
    source : path
        File of the labels; its name may say what they are.

    Raises
    ------
    InputError
        If a direction contradicts what is known of its target, and is not confirmed.
    """
    notes = []
    for scale, values in zip(scales, y.T, strict=True):
        direction = directions.get(scale.name)
        there = values[np.isfinite(values)]
        if direction is None or not len(there):
            continue
        usual = convention_of(scale, float(np.median(there)), source.name)
        if usual is None or usual.direction == direction:
            continue
        name = printable(scale.name, 60)
        what = f"'{name}'" if not scale.worth_stating else f"'{name}' ({scale.words()})"
        if not confirmed:
            raise InputError(
                f"To {direction} {what} would choose the worst molecules, since {usual.why}: give the "
                f"direction {usual.direction}, or confirm this one with --confirm-direction "
                "(confirm_direction=True)."
            )
        notes.append(f"to {direction} '{name}' was confirmed, though {usual.why}")
    return tuple(notes)


def largest_best(
    directions: Mapping[str, str],
    scales: Sequence[Scale],
    y: npt.NDArray[np.float64],
    source: PurePath,
) -> tuple[bool, ...]:
    """Return whether the best of a molecule's labels is the largest, for each target.

    If no direction is given, the conventional one is used. Parameters are as in `check_conventions`.

    Raises
    ------
    InputError
        If the direction of a target is neither given nor known by convention.
    """
    largest = []
    for scale, values in zip(scales, y.T, strict=True):
        middle = float(np.median(values[np.isfinite(values)]))
        usual = convention_of(scale, middle, source.name)
        way = directions.get(scale.name) or (usual.direction if usual is not None else None)
        if way is None:
            raise InputError(
                f"It is not known whether the best of several labels of '{printable(scale.name, 60)}' is the "
                "largest or the smallest: give --direction (direction='maximize' or 'minimize')."
            )
        largest.append(way == "maximize")
    return tuple(largest)


def target_of(model: Model, target: str | int | Sequence[str | int] | None) -> int:
    """Return the position of a target, which need not be named if the model has only one.

    Raises
    ------
    InputError
        If there is no such target, or there are several and none is named.
    """
    names = model.targets
    there = listed(names, "'")
    if target is None and len(names) == 1:
        return 0
    if isinstance(target, str) and target in names:
        return names.index(target)
    if isinstance(target, Integral) and not isinstance(target, bool) and 0 <= target < len(names):
        return int(target)
    if target is None:
        raise InputError(
            f"The model has several targets, {there}; choose one by --target NAME (target=NAME)."
        )
    raise InputError(f"The model has no target {target!r}; it has {there}.")


def maximizes(model: Model, target: Target, maximize: bool | None) -> tuple[bool, tuple[str, ...]]:
    """Return whether large values of a target are good, as given or recorded in the model, and notes on it.

    A sum has a direction if all of its targets have, and their weights agree with them.

    Raises
    ------
    InputError
        If the direction was never given, or the targets of a sum contradict each other.
    """
    check_type("maximize", maximize, bool, "True")
    name = printable(model.name_of(target), 60)
    stated = _stated_direction(model, target, needed=maximize is None)
    if maximize is None and stated is None and (classes := _classes(model, target)) is not None:
        positive = "1" if classes.words.are_numbers else f"'{printable(classes.words.name, 60)}'"
        note = f"maximizing the probability that '{name}' is {positive}; --minimize does the opposite"
        return True, (note,)
    if maximize is None and stated is None:
        raise InputError(
            f"It is not known whether large or small values of '{name}' are good: give --maximize or "
            "--minimize (maximize=True or maximize=False), or fit with --direction."
        )
    if maximize is None:
        return stated == "maximize", ()
    if stated is not None and maximize != (stated == "maximize"):
        note = (
            f"{words(maximize)} '{name}' as asked for here; the model was fitted with the direction {stated}"
        )
        return maximize, (note,)
    return maximize, _unusual(model, target, maximize) if stated is None else ()


def _classes(model: Model, target: Target) -> ClassTarget | None:
    """Return the classes of a target, or None of numbers and sums."""
    return None if isinstance(target, WeightedSum) else model.classes[target]


def _unusual(model: Model, target: Target, maximize: bool) -> tuple[str, ...]:
    """Return a line if the convention of a target is the other direction."""
    if isinstance(target, WeightedSum):
        return ()
    scales, (low, high) = scales_in(model.metadata), model.metadata["range"][target]
    usual = convention_of(scales[target], (low + high) / 2) if scales else None
    if usual is None or (usual.direction == "maximize") == maximize:
        return ()
    return (f"{words(maximize)} '{printable(model.name_of(target), 60)}' as asked for, though {usual.why}",)


def _stated_direction(model: Model, target: Target, *, needed: bool) -> str | None:
    """Return the direction recorded in the model; of a sum, that of its targets if their weights agree."""
    if not isinstance(target, WeightedSum):
        return model.directions.get(model.targets[target])
    signs: dict[str, str] = {}
    for place, weight in zip(target.targets, target.weights, strict=True):
        name = model.targets[place]
        if (direction := model.directions.get(name)) is None:
            return None
        signs.setdefault(direction if weight > 0 else _DIRECTIONS[direction == "maximize"], name)
    if len(signs) == 1:
        return next(iter(signs))
    if needed:
        up, down = signs["maximize"], signs["minimize"]
        raise InputError(
            f"By the directions given to fit, large values of '{printable(target.name, 60)}' are good for "
            f"'{up}', but small ones for '{down}'; change a sign, or give --maximize or --minimize "
            "(maximize=True or maximize=False)."
        )
    return None


def words(maximize: bool) -> str:
    """Return "maximizing" or "minimizing"."""
    return "maximizing" if maximize else "minimizing"
