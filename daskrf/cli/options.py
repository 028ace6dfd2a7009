"""Options that several commands share, and what they become."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

import click

if TYPE_CHECKING:
    from daskrf.molecules.fingerprints import FingerprintSpec
    from daskrf.molecules.formats import TableFormat

__all__ = [
    "Command",
    "SectionOption",
    "Session",
    "cluster_options",
    "column",
    "debug_option",
    "fingerprint_options",
    "fingerprint_spec",
    "library",
    "option",
    "output_option",
    "shard_options",
    "stack",
    "table_format",
    "table_options",
]

Function = TypeVar("Function", bound=Callable[..., Any])

FEATURES = "Random features"
READING = "Reading the files"
FINGERPRINT = "Fingerprints"
CLUSTER = "Where it runs (default: every processor of this machine)"


@dataclass
class Session:
    """What the handling of errors and signals must know about the command that is running."""

    debug: bool = False
    resumable: bool = False
    progress: Any = None


class SectionOption(click.Option):
    """An option that --help lists under a heading of its own."""

    def __init__(self, *arguments: Any, section: str = "Options", **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.section = section


class Command(click.Command):
    """A command whose --help groups the options and ends in an example."""

    def __init__(self, *arguments: Any, example: str = "", resumable: bool = False, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.example = example
        self.resumable = resumable

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
        for title in sorted(sections, key=lambda name: (name == CLUSTER, name != "Options")):
            with formatter.section(title):
                formatter.write_dl(sections[title])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Example"):
            for line in self.example.splitlines():
                formatter.write(f"  {line}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Click takes the last value of an option that is given twice, and drops the others without a word.
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, times in Counter(given).items():
            if times > 1 and isinstance(parameter, click.Option) and _takes_one_value(parameter):
                names = "/".join((*parameter.opts[-1:], *parameter.secondary_opts[-1:]))
                raise click.UsageError(f"{names} is given {times} times; give it once.", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        ctx.ensure_object(Session).resumable = self.resumable
        return super().invoke(ctx)


def _takes_one_value(parameter: click.Option) -> bool:
    """Return whether an option means something else if it is given once more."""
    return not parameter.multiple and (not parameter.is_flag or bool(parameter.secondary_opts))


class _MemorySize(click.ParamType[int]):
    """A size in bytes: a number and a unit."""

    name = "size"

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):  # click converts defaults, too
            return value
        found = re.fullmatch(r"(\d+|\d*\.\d+)\s*([kmgt])(i?)b?", value.strip().lower())
        size = 0
        if found:
            number, unit, binary = found.groups()
            size = int(float(number) * (1024 if binary else 1000) ** (1 + "kmgt".index(unit)))
        if not size:
            self.fail(f"{value!r} is not a size such as 4GiB or 500MiB.", parameter, ctx)
        return size


class _WorkerCount(click.ParamType[Any]):
    """A number of worker processes, or the least and the most of them."""

    name = "number"

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value).strip()
        if not re.fullmatch(r"\d+(-\d+)?", text):
            self.fail(f"{value!r} is not a number such as 8, nor a range such as 1-64.", parameter, ctx)
        return text if "-" in text else int(text)


class _ShardType(click.ParamType[Any]):
    """A share i/n of a job."""

    name = "shard"

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> Any:
        from daskrf.errors import InputError
        from daskrf.jobs.shards import shard_of

        try:
            return shard_of(value)
        except InputError as error:
            self.fail(str(error), parameter, ctx)


def option(*declarations: str, section: str = "Options", **keywords: Any) -> Callable[[Function], Function]:
    """Return `click.option` with a heading for --help; defaults are shown."""
    keywords.setdefault("show_default", "default" in keywords and keywords["default"] is not None)
    return click.option(*declarations, cls=SectionOption, section=section, **keywords)


def _set_debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Session).debug = True


debug_option = option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_set_debug,
    show_default=False,
    help="Show the whole traceback of an error.",
)


def output_option(what: str) -> Callable[[Function], Function]:
    """Return the option --output of a command that writes `what`."""
    return option("-o", "--output", required=True, type=click.Path(), help=f"Where to write {what}.")


def stack(*decorators: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Return one decorator that adds several options, in their order."""

    def decorate(function: Function) -> Function:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def _split_names(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for text in value for name in text.split(",") if name.strip())


table_options = stack(
    option(
        "--smiles-column",
        metavar="COLUMN",
        section=READING,
        help="Column of the SMILES: a name, or a position counted from 0. Detected when left out.",
    ),
    option(
        "--id-column",
        metavar="COLUMN",
        section=READING,
        help="Column of the ID, by name or position. Detected when left out; rows without an ID are called "
        "row-0, row-1, ...",
    ),
    option(
        "--header/--no-header",
        default=None,
        section=READING,
        help="Whether the first line names the columns. Detected when left out.",
    ),
    option(
        "--delimiter",
        metavar="CHARACTER",
        section=READING,
        help="What separates the columns, such as ',' or 'tab' or 'space'. Detected when left out.",
    ),
    option(
        "--accept-rejects",
        is_flag=True,
        default=None,
        show_default=False,
        section=READING,
        help="Go on even if more than half of a file's first 1,000 lines are no molecules.",
    ),
)

fingerprint_options = stack(
    option(
        "--keep-columns",
        metavar="NAMES",
        multiple=True,
        callback=_split_names,
        section=READING,
        help="Other columns to keep beside each molecule, by name or position, separated by commas.",
    ),
    option(
        "--kind",
        type=click.Choice(["morgan", "atompair", "torsion", "rdkit", "lingo"]),
        default="morgan",
        section=FINGERPRINT,
        help="Family of the fingerprint.",
    ),
    option(
        "--radius",
        metavar="N",
        type=click.IntRange(min=0),
        default=1,
        section=FINGERPRINT,
        help="Radius of the Morgan environments.",
    ),
    option(
        "--size",
        metavar="N",
        type=click.IntRange(min=0),
        default=0,
        section=FINGERPRINT,
        help="Fold to this many columns; 0 keeps all 32 bits, which predicts slightly better.",
    ),
    option(
        "--binary",
        is_flag=True,
        section=FINGERPRINT,
        show_default=False,
        help="Presence only, instead of counts.",
    ),
    option(
        "--chirality",
        is_flag=True,
        section=FINGERPRINT,
        show_default=False,
        help="Tell stereoisomers apart.",
    ),
    option(
        "--features",
        "pharmacophore",
        is_flag=True,
        section=FINGERPRINT,
        show_default=False,
        help="Pharmacophoric atom classes (donor, acceptor, ...) instead of elements, as in FCFP.",
    ),
    option(
        "--fragments",
        type=click.Choice(["keep", "largest", "reject"]),
        default="keep",
        section=FINGERPRINT,
        help="What to do with salts and mixtures.",
    ),
)

cluster_options = stack(
    option(
        "--workers",
        metavar="N",
        type=_WorkerCount(),
        section=CLUSTER,
        help="Number of worker processes to start; 0 runs everything in this process. Of jobs also the least "
        "and the most, as in 1-64.",
    ),
    option(
        "--memory-limit",
        metavar="SIZE",
        type=_MemorySize(),
        section=CLUSTER,
        help="Memory of one worker, such as 4GiB or 500MiB.",
    ),
    option(
        "--cluster",
        metavar="NAME",
        section=CLUSTER,
        help="Submit workers as jobs to a batch system (slurm, pbs, sge, lsf, ...), as Dask's configuration "
        "(jobqueue.yaml) or this file of its format says, such as cluster/slurm.yaml.",
    ),
    option(
        "--scheduler",
        metavar="ADDRESS",
        section=CLUSTER,
        help="Join a running Dask scheduler, such as tcp://10.0.0.1:8786.",
    ),
    option(
        "--scheduler-file",
        type=click.Path(),
        section=CLUSTER,
        help="Join the running Dask scheduler that wrote this file.",
    ),
    debug_option,
)

shard_options = stack(
    option(
        "--shard",
        metavar="I/N",
        type=_ShardType(),
        section=CLUSTER,
        help="Make only share I (from 0) of N, in this process: for job arrays; when all are done, the same "
        "command without --shard ends the job.",
    ),
    option(
        "--prepare",
        is_flag=True,
        show_default=False,
        section=CLUSTER,
        help="Do only what comes before the shares (reading the inputs, the plan), so that shards start at "
        "once.",
    ),
)

_DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}


@overload
def column(text: str) -> str | int: ...
@overload
def column(text: None) -> None: ...
def column(text: str | None) -> str | int | None:
    """Return a column given on the command line: a name, or a position from 0 if it is a number.

    Examples
    --------
    >>> column("smiles"), column("2"), column(None)
    ('smiles', 2, None)
    """
    return text if text is None or not text.isdecimal() else int(text)


def table_format(options: dict[str, Any]) -> TableFormat:
    """Take the options on how to read files out of `options` and return what they say."""
    from daskrf.molecules.formats import TableFormat

    delimiter = options.pop("delimiter")
    return TableFormat(
        smiles=column(options.pop("smiles_column")),
        id=column(options.pop("id_column")),
        extra=tuple(column(name) for name in options.pop("keep_columns", ())),
        header=options.pop("header"),
        delimiter=_DELIMITERS.get(delimiter, delimiter),
    )


def library(sources: tuple[str, ...], options: dict[str, Any]) -> str | list[str]:
    """Return the one store or file, or the list of files; a store leaves no choice of how to read files.

    Raises
    ------
    click.UsageError
        If `options` has some of the section :data:`READING` and `sources` has a store.
    """
    from daskrf.storage.inspection import kind_of

    given = [
        parameter.opts[0]
        for parameter in click.get_current_context().command.params
        if getattr(parameter, "section", "") == READING and options.get(str(parameter.name)) is not None
    ]
    stores = [path for path in sources if given and kind_of(path, missing_ok=True) is not None]
    if stores:
        raise click.UsageError(f"{given[0]} is about reading SMILES files, and {stores[0]} is a store.")
    return sources[0] if len(sources) == 1 else list(sources)


def fingerprint_spec(options: dict[str, Any]) -> FingerprintSpec:
    """Take the fingerprint's own options (not --fragments) out of `options` and return what they say."""
    from daskrf.molecules.fingerprints import FingerprintSpec

    return FingerprintSpec(
        kind=options.pop("kind"),
        radius=options.pop("radius"),
        counts=not options.pop("binary"),
        size=options.pop("size"),
        chirality=options.pop("chirality"),
        features=options.pop("pharmacophore"),
    )
