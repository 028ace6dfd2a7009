"""The parameters of a class, as its constructor and its docstring declare them."""

from __future__ import annotations

import inspect
import itertools
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Union

__all__ = ["GIVEN", "Parameter", "parameters_of", "summary_of"]

GIVEN: Final = object()
"""In place of a default: the user has to give a value."""

_ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .*)?$")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a constructor.

    Attributes
    ----------
    name : str
    kind : type or generic alias
        What a value is, apart from `choices` and None; `str` where there are choices alone.
    choices : tuple
        Values of which one is taken, without None.
    optional : bool
        Whether None is a value, too.
    default : object
        `GIVEN` where there is none.
    help : str
        What the docstring says of it.
    """

    name: str
    kind: Any
    choices: tuple[Any, ...]
    optional: bool
    default: Any
    help: str


def parameters_of(cls: type, *, without: Mapping[str, Any] | tuple[str, ...] = ()) -> list[Parameter]:
    """Return the parameters of the constructor of a class, but those `without`.

    A class may have `option_defaults`: values that take the place of its constructor's defaults on the
    command line, where rows are counts of molecules; `GIVEN` where none would make sense.

    Examples
    --------
    >>> from typing import Literal
    >>> class Series:
    ...     '''A series.
    ...
    ...     Parameters
    ...     ----------
    ...     degree : int
    ...         Of the last term.
    ...     '''
    ...     def __init__(self, degree: int, kind: Literal["even", "odd"] | None = None): ...
    >>> degree, kind = parameters_of(Series)
    >>> degree.kind, degree.default is GIVEN, degree.help
    (<class 'int'>, True, 'Of the last term.')
    >>> kind.choices, kind.optional, kind.default
    (('even', 'odd'), True, None)
    """
    hints, said = typing.get_type_hints(cls.__init__), _described(cls)  # type: ignore[misc]
    defaults: Mapping[str, Any] = getattr(cls, "option_defaults", {})
    found = []
    for name, declared in inspect.signature(cls).parameters.items():
        if name not in without:
            default = GIVEN if declared.default is declared.empty else declared.default
            kind = _kind(hints.get(name, str))
            found.append(Parameter(name, *kind, defaults.get(name, default), said.get(name, "")))
    return found


def summary_of(cls: type) -> str:
    """Return the first line of the docstring of a class."""
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def _kind(hint: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """Return the kind, the choices, and whether None is one of the values of a type hint."""
    members = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)
    choices: list[Any] = []
    kinds: list[Any] = []
    for member in members:
        if typing.get_origin(member) is Literal:
            choices += typing.get_args(member)
        elif typing.get_origin(member) is not dict:  # the state of what is meant
            kinds.append(member)
    optional = type(None) in kinds or None in choices
    kinds = [kind for kind in kinds if kind is not type(None)]
    return kinds[0] if kinds else str, tuple(c for c in choices if c is not None), optional


def _described(cls: type) -> dict[str, str]:
    """Return what the section Parameters of the docstring says of each parameter."""
    lines = (inspect.getdoc(cls) or "").splitlines()
    found: dict[str, str] = {}
    names: list[str] = []
    start = next((i + 2 for i, line in enumerate(lines) if line == "Parameters"), len(lines))
    for line, below in itertools.pairwise([*lines[start:], ""]):
        if below and not below.strip("-"):
            break  # the title of the next section
        entry = _ENTRY.match(line)
        if entry:
            names = entry[1].split(", ")
        elif line.strip():
            found |= {name: f"{found.get(name, '')} {line.strip()}".strip() for name in names}
    return found
