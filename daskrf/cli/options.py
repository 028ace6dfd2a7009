"""Click commands and options made from parameters, and the options for where a command runs."""

from __future__ import annotations

import re
import textwrap
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from daskrf.parameters import REQUIRED, Option, Parameter, without_python

CLUSTER = "Where it runs (default: every processor of this machine)"
_SHORT = {"output": "-o", "n_components": "-M"}


@dataclass
class Session:
    """The state of the running command for error and signal handling."""

    debug: bool = False
    resumable: bool = False
    progress: Any = None


class SectionOption(click.Option):
    """An option that --help lists under the heading of its section."""

    def __init__(self, *arguments: Any, section: str = "Options", **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.section = section


class Argument(click.Argument):
    """A positional parameter, with its help."""

    def __init__(self, parameter: Parameter) -> None:
        needed = parameter.default is REQUIRED
        kind = click.Path() if parameter.is_path else None
        super().__init__([parameter.name], nargs=-1 if parameter.repeated else 1, required=needed, type=kind)
        self.description = _help_of(parameter, "")


def typed(command: str, width: int) -> str:
    r"""Return an example of a command, indented, on as many lines as it needs.

    Examples
    --------
    >>> print(typed("daskrf fit real.fingerprints docking.csv -o docking.model", 50), end="")
      daskrf fit real.fingerprints docking.csv \
        -o docking.model
    """
    whole = re.sub(" (?!-)", "\0", command)  # an option stays with its value
    lines = textwrap.wrap(whole, width - 6, break_on_hyphens=False, break_long_words=False)
    return "  " + " \\\n    ".join(lines).replace("\0", " ") + "\n"


class Command(click.Command):
    """A command whose --help describes the arguments, groups the options and ends with an example."""

    def __init__(self, *arguments: Any, example: str = "", resumable: bool = False, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.example = example
        self.resumable = resumable

    def sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Return what --help says of arguments and options, by heading: how each is written, and its help."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, Argument):
                sections.setdefault("Arguments", []).append(
                    (parameter.make_metavar(ctx), parameter.description)
                )
            elif record is not None:
                sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
        order = ["Arguments", "Options", *sorted(sections.keys() - {CLUSTER}), CLUSTER]
        return {title: sections[title] for title in sorted(sections, key=order.index)}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, records in self.sections(ctx).items():
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Example"):
            for line in self.example.splitlines():
                formatter.write(typed(line, formatter.width))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # If an option is given twice, Click silently uses the last value.
        _, _, values = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, times in Counter(values).items():
            if times > 1 and isinstance(parameter, click.Option) and _takes_one_value(parameter):
                names = "/".join((*parameter.opts[-1:], *parameter.secondary_opts[-1:]))
                raise click.UsageError(f"{names} was given {times} times; give it once.", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        ctx.ensure_object(Session).resumable = self.resumable
        return super().invoke(ctx)


def _takes_one_value(parameter: click.Option) -> bool:
    """Return whether giving an option a second time would override the first."""
    return not parameter.multiple and (not parameter.is_flag or bool(parameter.secondary_opts))


class Converted(click.ParamType):
    """A value converted from text by a function, whose ValueError is reported as a usage error."""

    def __init__(self, convert: Callable[[str], Any], name: str) -> None:
        self.made, self.name = convert, name

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.made(value)
        except ValueError as error:
            self.fail(str(error), parameter, ctx)


def option_of(
    parameter: Parameter,
    more: Option | None = None,
    *,
    name: str = "",
    flag: str = "",
    choices: Iterable[str] = (),
    **keywords: object,
) -> SectionOption:
    """Return the option for a parameter; it is None if not given, so that the function's default applies.

    Parameters
    ----------
    parameter : Parameter
    more : Option, optional
        Settings that the parameter itself does not have.
    name : str
        Click's name for the value; default: the parameter's name.
    flag : str
        Default: made from the parameter's name.
    choices : iterable of str
        Names of the components allowed as the value.
    **keywords
        For `click.Option`.
    """
    more = more or Option()
    word = parameter.name.replace("_", "-")
    flag = flag or (f"--{word}" if len(word) > 1 else f"-{word}")
    short = more.flags if not more.flags.startswith("--") else ""
    long = more.flags if more.flags.startswith("--") else flag
    if parameter.kind is bool and "/" not in long and parameter.default is not False:
        long = f"{long}/--no-{long[2:]}"
    settings: dict[str, Any] = {"show_default": False, "required": parameter.default is REQUIRED}
    if parameter.kind is bool:
        settings |= {"is_flag": True, "default": None}
    elif more.convert is not None and not more.repeated:
        settings |= {"type": Converted(more.convert, parameter.name), "metavar": more.metavar or word.upper()}
    else:
        settings |= _type_of(parameter, more, list(choices))
    if more.repeated or (parameter.repeated and more.convert is None):
        convert = more.convert or (columns if parameter.is_column else list)
        settings |= {"multiple": True, "callback": _together(convert)}
    settings |= {"help": _help_of(parameter, long), "section": more.section} | keywords
    flags = [each for each in (_SHORT.get(parameter.name, short), long) if each]
    return SectionOption([*flags, name or parameter.name], **settings)


def _type_of(parameter: Parameter, more: Option, choices: list[str]) -> dict[str, object]:
    """Return the type and metavar of an option that takes a value."""
    kind = parameter.kind
    if more.convert is not None:  # from texts
        return {"metavar": more.metavar or "TEXT"}
    if choices or (parameter.choices and not parameter.kinds):
        return {"type": click.Choice(choices or [*map(str, parameter.choices)])}
    if typing.get_origin(kind) is tuple and ... not in typing.get_args(kind):
        return {"nargs": len(typing.get_args(kind)), "type": float, "metavar": "LOW HIGH"}
    if kind is int:
        at_least = click.IntRange(min=more.least) if more.least is not None else int
        return {"type": at_least, "metavar": more.metavar or "N"}
    if kind is float and parameter.choices:
        words = [str(choice) for choice in parameter.choices]
        metavar = "|".join(["X", *words])
        return {"type": Converted(lambda text: _number_or(text, words), parameter.name), "metavar": metavar}
    if kind is float:
        return {"type": float, "metavar": more.metavar or "X"}
    if parameter.is_path:
        return {"type": click.Path()}
    if parameter.is_column or parameter.repeated or more.repeated:
        several = more.repeated or parameter.repeated
        return {"type": str if several else Converted(column, "column"), "metavar": more.metavar or "COLUMN"}
    return {"metavar": more.metavar or ("TEXT" if kind is str else "A,B,...")}


def _help_of(parameter: Parameter, long: str) -> str:
    """Return the help of a parameter with its default in brackets, in Click's format."""
    default = parameter.default
    if default is True:
        default = long.partition("/")[0].removeprefix("--")
    silent = default is REQUIRED or default is None or default is False or default == ()
    text = re.sub(r"`+([^`\s]+)`+", r"\1", without_python(parameter.help))  # not the commands in it
    return text + ("" if silent else f"  [default: {default}]")


def _together(convert: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback that makes one value from all given texts, or None if there are none."""

    def callback(ctx: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> Any:
        try:
            return convert(texts) if texts else None
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, parameter) from None

    return callback


def column(text: str) -> str | int:
    """Return a column given on the command line: a name or, if it is a number, a position from 0.

    Examples
    --------
    >>> column("smiles"), column("2")
    ('smiles', 2)
    """
    return int(text) if text.isdecimal() else text


def columns(texts: Sequence[str]) -> list[str | int]:
    """Return several columns."""
    return [column(text) for text in texts]


def _number_or(text: str, words: Sequence[str]) -> float | str:
    """Return a number, or one of the words that may be given in its place."""
    if text in words:
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a valid float, nor {' or '.join(words)}.") from None


def _size(text: str) -> int:
    """Return a size in bytes from a number and a unit."""
    match = re.fullmatch(r"(\d+|\d*\.\d+)\s*([kmgt])(i?)b?", text.strip().lower())
    size = 0
    if match:
        number, unit, binary = match.groups()
        size = int(float(number) * (1024 if binary else 1000) ** (1 + "kmgt".index(unit)))
    if not size:
        raise ValueError(f"{text!r} is not a size such as 4GiB or 500MiB.")
    return size


def _worker_count(text: str) -> int | str:
    """Return a number of worker processes, or their minimum and maximum."""
    if not re.fullmatch(r"\d+(-\d+)?", text.strip()):
        raise ValueError(f"{text!r} is not a number such as 8, nor a range such as 1-64.")
    return text.strip() if "-" in text else int(text)


def _shard(text: str) -> Any:
    """Return a shard i/n of a job."""
    from daskrf.errors import InputError
    from daskrf.jobs.shards import shard_of

    try:
        return shard_of(text)
    except InputError as error:
        raise ValueError(str(error)) from None


def _set_debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Session).debug = True


def debug_option() -> SectionOption:
    """Return the --debug option, which every command has."""
    text = "Show the full traceback of an error."
    flag: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _set_debug}
    return SectionOption(["--debug"], show_default=False, help=text, **flag)


_WHERE = {
    "workers": Option(metavar="N", convert=_worker_count),
    "memory_limit": Option(metavar="SIZE", convert=_size),
    "cluster": Option(metavar="NAME", convert=str),
    "scheduler": Option(metavar="ADDRESS", convert=str),
    "scheduler_file": Option(),
    "tls_ca_file": Option(),
    "tls_cert": Option(),
    "tls_key": Option(),
    "shard": Option(metavar="I/N", convert=_shard),
    "prepare": Option(),
}


def where_option(parameter: Parameter) -> SectionOption:
    """Return the option for a parameter of `daskrf.workers.clients.client_of`, or for one on job shares."""
    return option_of(parameter, replace(_WHERE[parameter.name], section=CLUSTER))
