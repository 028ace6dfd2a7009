"""What a process keeps from task to task, such as an open model, and gives up when its memory is measured."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Kept = TypeVar("Kept")

_held: dict[str, tuple[Hashable, Any]] = {}


def held(what: str, key: Hashable, make: Callable[[], Kept]) -> Kept:
    """Return what `make` gives, from the call before if that had this key: one thing of each name is kept.

    Examples
    --------
    >>> first = held("an example", 1, list)
    >>> held("an example", 1, list) is first, held("an example", 2, list) is first
    (True, False)
    """
    known = _held.get(what)
    if known is None or known[0] != key:
        _held.pop(what, None)  # before the next one is read: two may not fit
        known = _held[what] = key, make()
    return known[1]


def forget() -> None:
    """Give up what is held."""
    _held.clear()
