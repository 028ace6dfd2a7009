"""Whether large or small values of a target are good: stated at the fit or at the screen, never guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daskrf.errors import InputError, printable
from daskrf.gp.weightedsum import Target, WeightedSum
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


def maximizes(model: Model, target: Target, maximize: bool | None) -> tuple[bool, tuple[str, ...]]:
    """Return whether large values of a target are good, as given or recorded in the model, and notes on it.

    A sum has a direction if all of its targets have, and their weights agree with them.

    Raises
    ------
    InputError
        If the direction was never given, or the targets of a sum contradict each other.
    """
    name = printable(model.name_of(target), 60)
    known = _known(model, target, needed=maximize is None)
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


def _known(model: Model, target: Target, *, needed: bool) -> str | None:
    """Return the direction recorded in the model; of a sum, that of its targets if their weights agree."""
    if not isinstance(target, WeightedSum):
        return model.directions.get(model.targets[target])
    found: dict[str, str] = {}
    for place, weight in zip(target.targets, target.weights, strict=True):
        name = model.targets[place]
        if (own := model.directions.get(name)) is None:
            return None
        found.setdefault(own if weight > 0 else _DIRECTIONS[own == "maximize"], name)
    if len(found) == 1:
        return next(iter(found))
    if needed:
        up, down = found["maximize"], found["minimize"]
        raise InputError(
            f"'{printable(target.name, 60)}' is better when large as to '{up}', and when small as to "
            f"'{down}', by the directions given to fit; change a sign, or give --maximize or --minimize "
            "(maximize=True or maximize=False)."
        )
    return None


def words(maximize: bool) -> str:
    """Return "maximizing" or "minimizing"."""
    return "maximizing" if maximize else "minimizing"
