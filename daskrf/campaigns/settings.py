"""The file that describes a campaign: TOML whose fields are the options of commands, by the same names."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from daskrf.errors import InputError, printable
from daskrf.files.backend import backend, is_file
from daskrf.files.disk import file_errors
from daskrf.parameters import Option, Parameter
from daskrf.quantities import either, listed

_MOST_BYTES = 1 << 20
_OPTION = re.compile(
    r"(?<![\w-])-(?:-([a-z][a-z-]*)|([a-zA-Z]))(?![\w-])(?: ('[^']*'|[-+]?\d[\w.:]*|[A-Z]\w*))?"
)
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


@dataclass(frozen=True)
class Section:
    """The fields of one table of the file.

    Attributes
    ----------
    command : str
        The command whose options they are.
    parameters : mapping of str to Parameter
    options : mapping of str to Option
        What signatures do not say, such as how a text becomes a value.
    """

    command: str
    parameters: Mapping[str, Parameter]
    options: Mapping[str, Option]


def read_settings(path: PurePath, sections: Mapping[str, Section]) -> dict[str, dict[str, Any]]:
    """Return the fields of each section, with the values that the functions of the commands take.

    Parameters
    ----------
    path : path
    sections : mapping of str to Section
        By the names of tables; "" for the fields before the first table.

    Raises
    ------
    InputError
        If the file is missing or no TOML, a field is unknown, or its value has another type.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> rounds = Parameter("rounds", (int,), (), False, 10, "")
    >>> sections = {"": Section("campaign", {"rounds": rounds}, {})}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "campaign.toml")
    ...     _ = path.write_text("rounds = 5")
    ...     read_settings(path, sections)
    {'': {'rounds': 5}}
    """
    content = _parsed(path)
    names = [name for name in sections if name]
    for name, value in content.items():
        if isinstance(value, dict) and name not in names and name not in sections[""].parameters:
            raise InputError(
                f"{path} has a table [{printable(name, 60)}], which does not exist{_near(name, names)}."
            )
    tables = {name: content.pop(name, {}) for name in names}
    values = {}
    for name, fields in {"": content, **tables}.items():
        where = f"{path}, [{name}]" if name else str(path)
        if not isinstance(fields, dict):
            raise InputError(f"{path}: {name} is a table; write [{name}] on a line, and its fields below it.")
        values[name] = _values(where, fields, sections[name])
    return values


def _parsed(path: PurePath) -> dict[str, object]:
    """Return the content of a TOML file."""
    if not is_file(path):
        raise InputError(f"{path} does not exist; give the TOML file that describes the campaign.")
    with file_errors("read", path):
        data = backend(path).read(path, most=_MOST_BYTES)
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not TOML ({printable(error, 200)}); correct it.") from None


def _near(name: str, names: Sequence[str]) -> str:
    """Return the nearest name, or all names if none is near, as the end of a sentence."""
    plain = {each.replace("_", "-"): each for each in names}
    near = difflib.get_close_matches(name.replace("_", "-"), plain, 1, 0.6)
    if near:
        return f"; perhaps you mean '{plain[near[0]]}'"
    return f"; there are {listed(sorted(names))}"


def _values(where: str, fields: Mapping[str, object], section: Section) -> dict[str, object]:
    """Return the values of the fields of a table, by the names of parameters."""
    values: dict[str, object] = {}
    for name, value in fields.items():
        plain = name.replace("-", "_")
        parameter = section.parameters.get(plain)
        if parameter is None:
            raise InputError(
                f"{where} has a field '{printable(name, 60)}', which is no option of "
                f"`daskrf {section.command}` for campaigns{_near(name, list(section.parameters))}."
            )
        if plain in values:
            raise InputError(f"{where} has the field '{printable(name, 60)}' twice; leave one out.")
        try:
            values[plain] = value_of(value, parameter, section.options.get(plain, Option()))
        except ValueError as error:
            raise InputError(
                f"{where}: {printable(name, 60)} = {printable(repr(value), 80)}: {error}"
            ) from None
    return values


def value_of(value: object, parameter: Parameter, option: Option) -> object:
    """Return a value of TOML as the function of the command takes it.

    Raises
    ------
    ValueError
        If it has another type; the message says which it should have.

    Examples
    --------
    >>> n = Parameter("n", (int,), (), False, 500, "")
    >>> value_of(50, n, Option())
    50
    >>> value_of("many", n, Option())
    Traceback (most recent call last):
    ValueError: it must be a whole number.
    """
    texts = [value] if isinstance(value, str) else value
    if (
        option.convert is not None
        and isinstance(texts, list)
        and all(isinstance(text, str) for text in texts)
    ):
        return option.convert(texts if option.repeated else value)
    if parameter.choices and value in parameter.choices and not isinstance(value, bool):
        return value
    for kind in parameter.kinds:
        if _has_kind(value, kind):
            if option.least is not None and isinstance(value, int) and value < option.least:
                raise ValueError(f"it must be at least {option.least}.")
            return value
    words = [either("", [repr(choice) for choice in parameter.choices]).strip()] if parameter.choices else []
    words += dict.fromkeys(filter(None, map(_kind_words, parameter.kinds)))
    raise ValueError(f"it must be {' or '.join(words)}.")


def _has_kind(value: object, kind: object) -> bool:
    """Return whether a value of TOML may stand for a type of a signature."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, (int, float))
    if kind in (int, str):
        return isinstance(value, kind)
    if kind is os.PathLike or origin is os.PathLike:
        return isinstance(value, str)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, dict)
    if isinstance(origin, type) and issubclass(origin, (Sequence, tuple)):
        return isinstance(value, list) and all(
            any(_has_kind(v, a) for a in _members(arguments)) for v in value
        )
    return False


def _members(arguments: Sequence[object]) -> list[object]:
    """Return the types in unions among arguments of a type."""
    return [member for each in arguments for member in (typing.get_args(each) or (each,))] + list(arguments)


def _kind_words(kind: object) -> str:
    """Return a type in words; empty for what a file cannot hold."""
    origin = typing.get_origin(kind)
    if kind in _KINDS:
        return _KINDS[kind]
    if kind is os.PathLike or origin is os.PathLike:
        return "the path of a file in quotes"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a table"
    if isinstance(origin, type) and issubclass(origin, (Sequence, tuple)):
        return "a list"
    return ""


def section_of(
    command: str,
    parameters: Sequence[Parameter],
    options: Mapping[str, Option],
    without: Callable[[str], bool] = lambda name: False,
) -> Section:
    """Return the section of a command: its options that a file can hold."""
    fields = {
        each.name: each
        for each in parameters
        if not without(each.name) and (each.choices or any(map(_kind_words, each.kinds)))
    }
    return Section(command, fields, {name: option for name, option in options.items() if name in fields})


def with_fields(message: str, section: Section, where: str) -> str:
    """Return a message that names options of a command with the fields that stand for them in a file.

    Examples
    --------
    >>> budget = Parameter("budget", (float,), (), False, None, "")
    >>> section = Section("suggest", {"budget": budget}, {})
    >>> with_fields("A budget of 5 buys nothing; raise --budget.", section, "[suggest] of campaign.toml")
    'A budget of 5 buys nothing; raise budget in [suggest] of campaign.toml.'
    >>> with_fields("Give --budget 5, or --std.", section, "[suggest] of campaign.toml")
    'Give budget = 5, or --std, in [suggest] of campaign.toml.'
    """
    names = []

    def field(match: re.Match[str]) -> str:
        name = (match[1] or match[2]).replace("-", "_")
        if name not in section.parameters:
            return match[0]
        names.append(name)
        value = match[3]
        if value is None:
            return name
        return f"{name} = {repr(value) if value[0].isalpha() else value}"

    text = _OPTION.sub(field, message)
    if not names:
        return message
    text = text.removesuffix(".")
    return f"{text}{'' if text.endswith(names[-1]) else ','} in {where}."
