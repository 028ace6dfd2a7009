"""Whether large or small values of a target are good: stated at the fit or at the screen, never guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daskrf.errors import InputError, printable
from daskrf.jobs.models import Model
from daskrf.molecules.names import listed

__all__ = ["directions_of", "maximizes", "target_of"]

_DIRECTIONS = ("maximize", "minimize")


def directions_of(given: str | Mapping[str, str] | None, targets: Sequence[str]) -> dict[str, str]:
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
    by_name = dict(given) if isinstance(given, Mapping) else dict.fromkeys(targets, given)
    found, there = {}, listed(targets, "'")
    for name, direction in by_name.items():
        if name not in targets:
            raise InputError(f"There is no target '{name}' to give a direction; the targets are {there}.")
        if direction is None:
            continue
        if direction not in _DIRECTIONS:
            raise InputError(f"A direction is maximize or minimize, not {direction!r}.")
        found[name] = direction
    return found


def target_of(model: Model, target: str | int | None) -> int:
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
    if isinstance(target, int) and not isinstance(target, bool) and 0 <= target < len(names):
        return target
    if target is None:
        raise InputError(
            f"The model has several targets, {there}; choose one by --target NAME (target=NAME)."
        )
    raise InputError(f"The model has no target {target!r}; it has {there}.")


def maximizes(model: Model, target: int, maximize: bool | None) -> tuple[bool, tuple[str, ...]]:
    """Return whether large values of a target are good, as given or recorded in the model, and notes on it.

    Raises
    ------
    InputError
        If the direction was never given.
    """
    name = printable(model.targets[target], 60)
    known = model.directions.get(model.targets[target])
    if maximize is None and known is None:
        raise InputError(
            f"It is not known whether large or small values of '{name}' are good: give --maximize or "
            "--minimize (maximize=True or maximize=False), or fit with --direction."
        )
    if maximize is None:
        return known == "maximize", ()
    if known is not None and maximize != (known == "maximize"):
        said = (
            f"{words(maximize)} '{name}' as asked for here; the model was fitted with the direction {known}"
        )
        return maximize, (said,)
    return maximize, ()


def words(maximize: bool) -> str:
    """Return "maximizing" or "minimizing"."""
    return "maximizing" if maximize else "minimizing"
