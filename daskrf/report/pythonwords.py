"""Add the Python arguments to messages that name command-line options."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

from daskrf.jobs.shards import has_shards
from daskrf.parameters import Option, Parameter, parameters_of
from daskrf.workers.clients import client_of

_COMMAND = re.compile(r"`[^`]*`")
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*|-[a-zA-Z])(?![\w-])(?:[ =]('[^']*'|[^\s,;:()'`]+))?")
_VALUE = re.compile(r"'.*'|[-+]?\d[\w.:]*|\w*[A-Z:=]\S*")  # not the next word of the sentence
_MAPS = {"--map": "feature_map=...", "-M": "n_components of the feature map"}


def in_python(message: str, function: Callable[..., object]) -> str:
    """Return a message that names options with the function's arguments added, unless it has them already.

    Options in commands, between backquotes, are left alone.

    Examples
    --------
    >>> def screen(output: str, *, k: int = 9, std: bool = True, overwrite: bool = False) -> None: ...
    >>> in_python("hits.csv exists; replace it by --overwrite, or run `daskrf verify --repair`.", screen)
    'hits.csv exists; replace it by --overwrite, or run `daskrf verify --repair`; in Python overwrite=True.'
    >>> in_python("replace it by --overwrite (overwrite=True)", screen)
    'replace it by --overwrite (overwrite=True)'
    >>> in_python("ucb needs standard deviations: leave out --no-std; ask for -k 5", screen)
    'ucb needs standard deviations: leave out --no-std; ask for -k 5; in Python std=False and k=5'
    >>> in_python("The hits of another search: -k (was 3, now 4)", screen)
    'The hits of another search: -k (was 3, now 4); in Python k=...'
    """
    plain, arguments = _COMMAND.sub("``", message), _arguments(function)
    named = list(dict.fromkeys(_argument(arguments, *match) for match in _OPTION.findall(plain)))
    named = [words for words in named if words and not re.search(rf"(?<![\w-]){_name(words)}\b *[=)]", plain)]
    if not named:
        return message
    end = "." if message.endswith(".") else ""
    listed = " and ".join(filter(None, [", ".join(named[:-1]), named[-1]]))
    return f"{message.removesuffix('.')}; in Python {listed}{end}"


def _name(words: str) -> str:
    return re.split(r"\W", words)[0]


def _argument(arguments: dict[str, str], option: str, value: str) -> str:
    """Return the argument for an option, with its value in the message; empty if there is none."""
    words, value = arguments.get(option, ""), value.rstrip(".")
    if not words.endswith("="):
        return words
    if not _VALUE.fullmatch(value):
        return f"{words}..."
    plain = re.fullmatch(r"'.*'|[-+]?\d+(\.\d+)?|[A-Z]+", value)
    return f"{words}{value if plain else repr(value)}"


def _arguments(function: Callable[..., object]) -> dict[str, str]:
    """Return the argument for each option of a function's command; those that take a value end in "="."""
    arguments: dict[str, str] = {}
    for parameter in parameters_of(function):
        options_class: Any = next((kind for kind in parameter.kinds if dataclasses.is_dataclass(kind)), None)
        if hasattr(options_class, "options") and hasattr(options_class, "section"):
            for field in parameters_of(options_class):
                for option, _ in _options(field, options_class.options.get(field.name)):
                    arguments[option] = f"{parameter.name}={options_class.__name__}({field.name}=...)"
        elif parameter.name == "feature_map":
            arguments |= _MAPS
        elif parameter.name == "client":
            fields = (field.name.replace("_", "-") for field in parameters_of(client_of))
            arguments |= {f"--{name}": "client=..." for name in fields}
        else:
            arguments |= dict(_options(parameter, None))
    if has_shards(function):
        arguments |= {"--shard": "daskrf.run_shard(...)", "--prepare": "daskrf.prepare_shards(...)"}
    if "maximize" in {parameter.name for parameter in parameters_of(function)}:
        arguments["--minimize"] = "maximize=False"
    return arguments


def _options(parameter: Parameter, more: Option | None) -> Iterator[tuple[str, str]]:
    """Yield the options of a parameter, and the argument for each."""
    name, word = parameter.name, parameter.name.replace("_", "-")
    if parameter.kind is bool:
        yield f"--{word}", f"{name}=True"
        yield f"--no-{word}", f"{name}=False"
    else:
        yield (f"--{word}" if len(word) > 1 else f"-{word}"), f"{name}="
    for flag in (more.flags if more else "").split("/"):
        if flag.startswith("-"):
            yield flag, f"{name}="
