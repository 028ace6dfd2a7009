"""Parameters of classes and functions, from signature and docstring: the source of all options."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Union

REQUIRED: Final = object()
"""In place of a default: the user must give a value."""

TABLES: Final = ("inputs", "source", "labels", "exclude", "actives", "hits")
"""Parameters of commands that are tables: files, or data in their place."""

OUTPUTS: Final = ("output", "picture")
"""Parameters of commands that are files or folders to write."""

_ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .*)?$")
_SECTION = re.compile(r"^\w+\n-+$", re.MULTILINE)


@dataclass(frozen=True)
class Option:
    """What neither signature nor docstring says about a command-line option.

    Attributes
    ----------
    flags : str
        A short name (``"-n"``), which is added to the one made from the parameter; or long names that replace
        it, such as ``"--maximize/--minimize"`` for true and false.
    metavar : str
        Placeholder for the value in the help; made from the type if empty.
    least : int, optional
        Smallest allowed value of an integer.
    repeated : bool
        Whether it may be given several times; `convert` then gets all values as text.
    convert : callable, optional
        Converts the given text to the parameter's value; raises ValueError saying what is wrong with it.
    section : str
        Heading in the help under which the option is listed.
    """

    flags: str = ""
    metavar: str = ""
    least: int | None = None
    repeated: bool = False
    convert: Callable[[Any], Any] | None = None
    section: str = "Options"


@dataclass(frozen=True)
class Command:
    """What neither signature nor docstring of a function says about its command: `CLI` in a command's file.

    Attributes
    ----------
    example : str
        An example command line.
    step : int
        Position in the list of commands; commands without one come last.
    options : mapping of str to Option
        Keyed by parameter name, where a signature is not enough.
    without : tuple of str
        Options of a dataclass that make no sense here, such as ``"format__extra"``.
    resumable : bool
        Whether running the same command again resumes an interrupted run.
    shards : bool
        Whether its job can be made in shards; see `daskrf.run_shard`.
    workers_for : callable, optional
        Returns whether the command starts workers if the user does not say where to work, from the function
        arguments that it takes by name. Default: it does.
    prints : bool
        Whether the output may be left out: the report is all then.
    check : callable, optional
        Called before workers start, with the function arguments that it takes by name; raises on what cannot
        work.
    """

    example: str
    step: int = 99
    options: Mapping[str, Option] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    resumable: bool = False
    shards: bool = False
    workers_for: Callable[..., bool] | None = None
    prints: bool = False
    check: Callable[..., None] | None = None


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function or of a class constructor.

    Attributes
    ----------
    name : str
    kinds : tuple of types or generic aliases
        Types that a value may have, apart from `choices` and None.
    choices : tuple
        Allowed values, without None.
    optional : bool
        Whether None is allowed, too.
    default : object
        `REQUIRED` if there is none.
    help : str
        Its description in the docstring.
    positional : bool
        Whether it may be given by position.
    """

    name: str
    kinds: tuple[Any, ...]
    choices: tuple[Any, ...]
    optional: bool
    default: Any
    help: str
    positional: bool = False

    @property
    def kind(self) -> Any:
        """The first of `kinds`; `str` if there are only choices."""
        return self.kinds[0] if self.kinds else str

    @property
    def is_path(self) -> bool:
        """Whether it may be a path."""
        kinds = (typing.get_origin(kind) or kind for kind in self.kinds)
        return any(isinstance(kind, type) and issubclass(kind, os.PathLike) for kind in kinds)

    @property
    def is_column(self) -> bool:
        """Whether it is a column: a name or a position, or a sequence of them."""
        items = (item for kind in self.kinds for item in typing.get_args(kind))
        return {str, int} <= {*self.kinds, *(each for item in items for each in typing.get_args(item))}

    @property
    def repeated(self) -> bool:
        """Whether it may also be a sequence of its other kinds."""
        return any(typing.get_origin(kind) is Sequence for kind in self.kinds)

    def class_below(self, base: type) -> object:
        """Return the class among `kinds` that derives from `base`, or None."""
        return next((kind for kind in self.kinds if isinstance(kind, type) and issubclass(kind, base)), None)


def parameters_of(
    called: Callable[..., Any], *, without: Mapping[str, Any] | tuple[str, ...] = ()
) -> list[Parameter]:
    """Return the parameters of a function or of a class constructor, except those in `without`.

    A class may have `option_defaults`: values that replace its constructor's defaults on the command line,
    where rows are counts of molecules; `REQUIRED` if none would make sense. Parameters such as ``**options``
    are not included.

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
    >>> degree.kind, degree.default is REQUIRED, degree.help
    (<class 'int'>, True, 'Of the last term.')
    >>> kind.choices, kind.optional, kind.default
    (('even', 'odd'), True, None)
    """
    constructor = called.__init__ if isinstance(called, type) else called  # type: ignore[misc]
    hints, texts = typing.get_type_hints(constructor), _described(called)
    defaults: Mapping[str, object] = getattr(called, "option_defaults", {})
    parameters = []
    for name, declared in inspect.signature(called).parameters.items():
        if name not in without and declared.kind is not declared.VAR_KEYWORD:
            default = REQUIRED if declared.default is declared.empty else declared.default
            kinds = _kinds(hints.get(name, str))
            positional = declared.kind is declared.POSITIONAL_OR_KEYWORD
            parameters.append(
                Parameter(name, *kinds, defaults.get(name, default), texts.get(name, ""), positional)
            )
    return parameters


def summary_of(called: object) -> str:
    """Return the first line of the docstring of a class or function."""
    return (inspect.getdoc(called) or "").partition("\n")[0]


def without_python(text: str) -> str:
    """Return the part of a text before "In Python", which begins what the command line does not show.

    Examples
    --------
    >>> without_python("Name of the rule. In Python also the rule itself.")
    'Name of the rule.'
    """
    return re.split(r"\s+In Python\b", text, maxsplit=1)[0]


def description_of(called: object) -> str:
    """Return the docstring of a class or function up to its first section.

    Examples
    --------
    >>> description_of(description_of)
    'Return the docstring of a class or function up to its first section.'
    """
    text = inspect.getdoc(called) or ""
    section = _SECTION.search(text)
    return (text[: section.start()] if section else text).rstrip()


def _kinds(hint: object) -> tuple[tuple[object, ...], tuple[object, ...], bool]:
    """Return the kinds and choices of a type hint, and whether None is allowed."""
    members = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)
    if any(getattr(member, "__module__", "").startswith("numpy.random") for member in members):
        members = (int,)  # a random_state: generators, and None for any number, are for Python
    choices: list[object] = []
    kinds: list[object] = []
    for member in members:
        if typing.get_origin(member) is Literal:
            choices += typing.get_args(member)
        elif typing.get_origin(member) is not dict:  # a dict is the saved state of a kind
            kinds.append(member)
    optional = type(None) in kinds or None in choices
    return (
        tuple(kind for kind in kinds if kind is not type(None)),
        tuple(choice for choice in choices if choice is not None),
        optional,
    )


def _described(called: object) -> dict[str, str]:
    """Return the description of each parameter in the Parameters section of a docstring."""
    lines = (inspect.getdoc(called) or "").splitlines()
    texts: dict[str, str] = {}
    names: list[str] = []
    start = next((i + 2 for i, line in enumerate(lines) if line == "Parameters"), len(lines))
    for line, below in itertools.pairwise([*lines[start:], ""]):
        if below and not below.strip("-"):
            break  # the title of the next section
        entry = _ENTRY.match(line)
        if entry:
            names = entry[1].split(", ")
        elif line.strip():
            between = "\n\n" if line.lstrip().startswith("- ") else " "  # keep list items separate
            texts |= {name: f"{texts.get(name, '')}{between}{line.strip()}".strip() for name in names}
    return texts
