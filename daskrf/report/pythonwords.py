"""Arguments of Python for the options of the command line that a message names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

from daskrf.parameters import Option, Parameter, parameters_of
from daskrf.workers.clients import client_of

_COMMAND = re.compile(r"`[^`]*`")
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*|-[a-zA-Z])(?![\w-])(?:[ =]('[^']*'|[^\s,;:()'`]+))?")
_VALUE = re.compile(r"'.*'|[-+]?\d[\w.:]*|\w*[A-Z:=]\S*")  # no word of a sentence
_MAPS = {"--map": "feature_map=...", "-M": "n_components of the feature map"}


def in_python(message: str, function: Callable[..., Any]) -> str:
    """Return a message with the arguments of a function for options that it names, if it does not say them.

    Options in commands, between backquotes, stay what they are.

    Examples
    --------
    >>> def screen(output: str, *, k: int = 9, std: bool = True, overwrite: bool = False) -> None: ...
    >>> in_python("hits.csv exists; replace it by --overwrite, or run `daskrf verify --repair`.", screen)
    'hits.csv exists; replace it by --overwrite, or run `daskrf verify --repair`; in Python overwrite=True.'
    >>> in_python("replace it by --overwrite (overwrite=True)", screen)
    'replace it by --overwrite (overwrite=True)'
    >>> in_python("ucb needs deviations: leave out --no-std; ask for -k 5", screen)
    'ucb needs deviations: leave out --no-std; ask for -k 5; in Python std=False and k=5'
    >>> in_python("The hits of another search: -k (was 3, now 4)", screen)
    'The hits of another search: -k (was 3, now 4); in Python k=...'
    """
    plain, known = _COMMAND.sub("``", message), _arguments(function)
    said = list(dict.fromkeys(_said(known, *found) for found in _OPTION.findall(plain)))
    said = [words for words in said if words and not re.search(rf"(?<![\w-]){_name(words)}\b *[=)]", plain)]
    if not said:
        return message
    end = "." if message.endswith(".") else ""
    listed = " and ".join(filter(None, [", ".join(said[:-1]), said[-1]]))
    return f"{message.removesuffix('.')}; in Python {listed}{end}"


def _name(words: str) -> str:
    """Return the argument that words name."""
    return re.split(r"\W", words)[0]


def _said(known: dict[str, str], option: str, value: str) -> str:
    """Return an argument, with the value that an option has in a message; empty if it is not known."""
    words, value = known.get(option, ""), value.rstrip(".")
    if not words.endswith("="):
        return words
    if not _VALUE.fullmatch(value):
        return f"{words}..."
    plain = re.fullmatch(r"'.*'|[-+]?\d+(\.\d+)?|[A-Z]+", value)
    return f"{words}{value if plain else repr(value)}"


def _arguments(function: Callable[..., Any]) -> dict[str, str]:
    """Return what is said of each option of the command of a function; those with a value end in "="."""
    found: dict[str, str] = {}
    for parameter in parameters_of(function):
        part: Any = next((kind for kind in parameter.kinds if dataclasses.is_dataclass(kind)), None)
        if hasattr(part, "options") and hasattr(part, "section"):
            for own in parameters_of(part):
                for option, _ in _options(own, part.options.get(own.name)):
                    found[option] = f"{parameter.name}={part.__name__}({own.name}=...)"
        elif parameter.name == "feature_map":
            found |= _MAPS
        elif parameter.name == "client":
            found |= {f"--{own.name.replace('_', '-')}": "client=..." for own in parameters_of(client_of)}
        else:
            found |= dict(_options(parameter, None))
    if "maximize" in {parameter.name for parameter in parameters_of(function)}:
        found["--minimize"] = "maximize=False"
    return found


def _options(parameter: Parameter, more: Option | None) -> Iterator[tuple[str, str]]:
    """Yield the options of a parameter, and what is said of each."""
    name, word = parameter.name, parameter.name.replace("_", "-")
    if parameter.kind is bool:
        yield f"--{word}", f"{name}=True"
        yield f"--no-{word}", f"{name}=False"
    else:
        yield (f"--{word}" if len(word) > 1 else f"-{word}"), f"{name}="
    for flag in (more.flags if more else "").split("/"):
        if flag.startswith("-"):
            yield flag, f"{name}="
