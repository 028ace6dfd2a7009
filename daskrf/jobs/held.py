"""Objects that a worker keeps from task to task, such as an open model, until its memory is measured."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Value = TypeVar("Value")

_held: dict[str, tuple[Hashable, Any]] = {}  # the type of an object is that of its `make`


def held(what: str, key: Hashable, make: Callable[[], Value]) -> Value:
    """Return the result of `make`, or of the previous call with this key; one object of each name is kept.

    Examples
    --------
    >>> first = held("an example", 1, list)
    >>> held("an example", 1, list) is first, held("an example", 2, list) is first
    (True, False)
    """
    cached = _held.get(what)
    if cached is None or cached[0] != key:
        _held.pop(what, None)  # before the next one is read: both together may not fit
        cached = _held[what] = key, make()
    return cached[1]


def forget() -> None:
    """Drop all objects that are held."""
    _held.clear()
