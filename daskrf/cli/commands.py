"""The commands: each parses its options, calls the function of the same name, prints the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import click

from daskrf.cli.mapoptions import MapCommand, MapName, map_options
from daskrf.cli.options import (
    FEATURES,
    READING,
    Command,
    cluster_options,
    column,
    debug_option,
    fingerprint_options,
    fingerprint_spec,
    library,
    option,
    output_option,
    shard_options,
    table_format,
    table_options,
)

__all__ = ["COMMANDS"]

COMMANDS: list[click.Command] = []
INPUTS = click.argument("inputs", nargs=-1, required=True, metavar="FILE...")


def _command(
    name: str, example: str, *, cls: type[Command] = Command, resumable: bool = True, **more: Any
) -> Callable[[Any], click.Command]:
    def register(function: Any) -> click.Command:
        command = click.command(name, cls=cls, example=example, resumable=resumable, **more)(function)
        COMMANDS.append(command)
        return command

    return register


def _print(report: Any) -> None:
    """Print a report; how files were read has been said when that began."""
    from daskrf.cli.console import shown

    told = any(field.name == "inputs" for field in dataclasses.fields(report))
    click.echo(shown(dataclasses.replace(report, inputs=()) if told else report))


def _set_only(options: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the user did not give, so that the function's own defaults hold."""
    return {name: value for name, value in options.items() if value is not None}


@_command("quickstart", "daskrf quickstart")
@click.argument("directory", default="daskrf-quickstart", type=click.Path())
@option(
    "-n",
    "--molecules",
    metavar="N",
    type=click.IntRange(min=100),
    default=20_000,
    help="Size of the library.",
)
@option(
    "--labelled", metavar="N", type=click.IntRange(min=20), default=2_000, help="How many of them are scored."
)
@option(
    "-M",
    "--n-components",
    metavar="N",
    type=click.IntRange(min=1),
    default=4096,
    help="Number of one-bit features.",
)
@option("--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Seed of every random choice.")
@cluster_options
def quickstart(
    directory: str, molecules: int, labelled: int, n_components: int, seed: int, **options: Any
) -> None:
    """See the whole pipeline work.

    Makes a make-on-demand library by reactions of building blocks, scores a random part
    of it by a computed objective, and runs fingerprint, featurize, fit, predict and screen on it.
    Then scores everything, to show how many of the truly best molecules were found.
    """
    from daskrf.cli.session import at_work
    from daskrf.demo import quickstart

    with at_work(options) as work:
        report = quickstart(
            directory, n=molecules, n_labelled=labelled, n_components=n_components, seed=seed, **work
        )
    _print(report)


@_command("fingerprint", "daskrf fingerprint 'REAL_*.cxsmiles.bz2' -o real.fingerprints")
@INPUTS
@output_option("the fingerprint store")
@table_options
@fingerprint_options
@option("--strict", is_flag=True, show_default=False, help="Stop at the first line that cannot be read.")
@option("--rows-per-partition", metavar="N", type=click.IntRange(min=1), help="Lines worked on at a time.")
@cluster_options
@shard_options
def fingerprint(inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Turn SMILES files into a fingerprint store.

    Reads tables of text, plain or compressed by gzip, bzip2 or zstd, and Parquet, whatever the names of the
    files, and prints which columns it takes. Lines that cannot be used are kept aside with file, line, text
    and reason. Run the same command again after an interruption and it finishes the job.
    """
    from daskrf.cli.session import at_work
    from daskrf.commands.fingerprint import fingerprint

    spec, table = fingerprint_spec(options), table_format(options)
    with at_work(options) as work:
        report = fingerprint(list(inputs), output, spec=spec, format=table, **_set_only(options), **work)
    _print(report)


@_command("featurize", "daskrf featurize real.fingerprints -o real.features -M 8192", cls=MapCommand)
@click.argument("source", metavar="FINGERPRINTS", type=click.Path())
@output_option("the feature store")
@map_options
@option(
    "--dtype",
    type=click.Choice(["bits", "float32", "float16"]),
    section=FEATURES,
    help="How features are stored. Bits take 1/32 of the space of float32 and lose nothing; float16 changes "
    "predicted means by up to about 1e-3 of their spread (landmarks 4e-3), unless the features are signs and "
    "the components a power of 4 (as 4096); local-gaussian refuses it.  "
    "[default: bits where features are signs, else float32]",
)
@cluster_options
@shard_options
def featurize(source: str, output: str, feature_map: Any, **options: Any) -> None:
    """Turn fingerprints into random features.

    Optional: fit, predict and screen also work straight from fingerprints. It pays when the
    same library is screened many times; bits take components/8 bytes a molecule. A map that learns
    from the library looks at it first: `daskrf maps` says what each learns.
    """
    from daskrf.cli.session import at_work
    from daskrf.commands.featurize import featurize
    from daskrf.jobs.sources import check_map_for

    check_map_for(feature_map, source)
    with at_work(options) as work:
        report = featurize(source, feature_map, output, **_set_only(options), **work)
    _print(report)


def _directions(
    ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> str | dict[str, str] | None:
    """Return one direction for all targets, or those of targets by name."""
    named = {name: direction for name, mark, direction in (text.rpartition("=") for text in value) if mark}
    if len(named) != len(value) and len(value) > 1:
        raise click.BadParameter("give one for all targets, or NAME=... for each.", ctx, parameter)
    if wrong := [text for text in value if text.rpartition("=")[2] not in ("maximize", "minimize")]:
        raise click.BadParameter(f"{wrong[0]!r} is neither maximize nor minimize.", ctx, parameter)
    if named:
        return named
    return value[0] if value else None


@_command(
    "fit",
    "daskrf fit real.fingerprints docking.csv -o docking.model --target score --direction minimize",
    cls=MapCommand,
    fits=True,
)
@click.argument("source", metavar="STORE", type=click.Path())
@click.argument("labels", metavar="LABELS", type=click.Path())
@output_option("the model")
@option(
    "--key",
    type=click.Choice(["id", "smiles", "row"]),
    default="id",
    help="What joins a label to its molecule: the ID, the text of the SMILES exactly as it stands in the "
    "library's files (not canonicalised), or the number of the row, from 0.",
)
@option(
    "--key-column",
    metavar="COLUMN",
    help="Column of LABELS that holds the key: a name, or a position counted from 0.",
)
@option(
    "--target",
    "targets",
    metavar="COLUMN",
    multiple=True,
    help="Column to predict, by name or position; give it several times for several targets.",
)
@option(
    "--drop-non-finite",
    is_flag=True,
    show_default=False,
    help="Leave out labels that are NaN or infinite, instead of refusing them.",
)
@option(
    "--direction",
    "directions",
    metavar="[NAME=]maximize|minimize",
    multiple=True,
    callback=_directions,
    help="Whether large or small values of the target are good, for screen to know; NAME=... for one target "
    "of several.",
)
@option("--mean", metavar="X", type=float, help="Prior mean, instead of the fitted one.")
@option(
    "--signal-variance",
    metavar="X",
    type=float,
    help="Prior variance of the objective, instead of the fitted one.",
)
@option("--noise-variance", metavar="X", type=float, help="Variance of the noise, instead of the fitted one.")
@map_options
@cluster_options
@shard_options
def fit(
    source: str,
    labels: str,
    output: str,
    targets: tuple[str, ...],
    feature_map: Any,
    model_options: dict[str, Any],
    **options: Any,
) -> None:
    """Fit a Gaussian process to labels.

    STORE is a fingerprint store or a feature store, LABELS a CSV, TSV or Parquet file. Prior mean,
    signal variance and noise variance are chosen by the evidence of all labels. The process is that of the
    map: `daskrf maps NAME` shows what options of fit it adds.
    """
    from daskrf.cli.session import at_work
    from daskrf.commands.fit import fit
    from daskrf.jobs.sources import check_map_for

    options["targets"] = [column(name) for name in targets] or None
    options["direction"] = options.pop("directions")
    options["key_column"] = column(options["key_column"])
    check_map_for(feature_map, source)
    with at_work(options) as work:
        report = fit(
            source, labels, output, feature_map=feature_map, **_set_only(options), **model_options, **work
        )
    _print(report)


def _one_target(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> str | None:
    """Return the target of a screen, if it is named."""
    if len(value) > 1:
        names = " and ".join(f"'{name}'" for name in value)
        raise click.BadParameter(f"a screen ranks by one target, and not by {names}.", ctx, parameter)
    return value[0] if value else None


_model = click.argument("model", type=click.Path())
_sources = click.argument("sources", nargs=-1, required=True, metavar="STORE|FILE...")
_fragments = option(
    "--fragments",
    type=click.Choice(["keep", "largest", "reject"]),
    section=READING,
    help="Salts and mixtures.  [default: as the model's library]",
)


@_command("predict", "daskrf predict docking.model real.fingerprints -o real.predictions")
@_model
@_sources
@output_option("the predictions (a folder of Parquet files)")
@option("--std/--no-std", default=True, help="Standard deviations too; they cost far more than means.")
@table_options
@_fragments
@cluster_options
@shard_options
def predict(model: str, sources: tuple[str, ...], output: str, **options: Any) -> None:
    """Predict every molecule of a library.

    The library is a fingerprint store, a feature store, or SMILES files as they are. Writes one Parquet
    file a partition: row, id, mean, std (of the function), std_y (of a new measurement, noise included);
    of several targets mean_NAME and so on.
    """
    from daskrf.cli.session import at_work
    from daskrf.commands.predict import predict

    source, table = library(sources, options), table_format(options)
    with at_work(options) as work:
        report = predict(model, source, output, format=table, **_set_only(options), **work)
    _print(report)


@_command(
    "screen",
    "daskrf screen docking.model real.fingerprints -o hits.parquet -k 1000 --acquisition ucb --minimize",
)
@_model
@_sources
@output_option("the hits (Parquet)")
@option("-k", metavar="N", type=click.IntRange(min=1), default=1000, help="How many molecules to keep.")
@option(
    "--acquisition",
    type=click.Choice(["greedy", "ucb", "ei", "pi", "thompson"]),
    default="greedy",
    help="Rank by the mean, a confidence bound, expected improvement, probability of improvement, or a "
    "sample of the posterior.",
)
@option(
    "--maximize/--minimize",
    default=None,
    help="Whether large or small values are good.  [default: as the model was fitted, if that was said]",
)
@option("--kappa", metavar="X", type=float, help="Standard deviations that ucb adds.  [default: 2.0]")
@option(
    "--std",
    type=click.Choice(["candidates", "all", "none"]),
    default="candidates",
    help="Which molecules get a standard deviation; all of them costs far more.",
)
@option("--best", metavar="X", type=float, help="What ei and pi improve on.  [default: the best label]")
@option("--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Seed of the sample for thompson.")
@option(
    "--target",
    metavar="NAME",
    multiple=True,
    callback=_one_target,
    help="Which target; needed only for a model of several.",
)
@option(
    "--exclude-labelled",
    is_flag=True,
    show_default=False,
    help="Leave out the rows that the model was fitted to; copies of them under other rows stay, and are "
    "counted.",
)
@option(
    "--overwrite", is_flag=True, show_default=False, help="Replace the hits of another search at the output."
)
@table_options
@_fragments
@cluster_options
@shard_options
def screen(model: str, sources: tuple[str, ...], output: str, **options: Any) -> None:
    """Find the best molecules of a library.

    The library is a fingerprint store, a feature store, or SMILES files as they are. The hits come
    best first, in these columns:

    \b
      rank, row, id, smiles    rank from 1; number of the row in the library, from 0
      source, line             the file it came from, and the line there, from 1
      mean, std                of the predicted function
      std_y                    of a new measurement: noise included
      acquisition              what was ranked by, larger is better: minus the mean for
                               greedy with --minimize; natural logarithms for ei and pi
    """
    from daskrf.cli.session import at_work
    from daskrf.commands.screen import screen

    source, table = library(sources, options), table_format(options)
    with at_work(options) as work:
        report = screen(model, source, output, format=table, **_set_only(options), **work)
    _print(report)


@_command("status", "daskrf status real.fingerprints", resumable=False)
@click.argument("store", type=click.Path())
@option("--json", "as_json", is_flag=True, show_default=False, help="Print everything as one object of JSON.")
@debug_option
def status(store: str, as_json: bool) -> None:
    """Say what an output holds, and how a job on it is doing.

    Works on every output, finished or being made: stores, models and hits. Looks at commit records, sizes of
    files and run logs, which is quick; verify reads every byte.
    """
    from daskrf.commands.status import status

    found = status(store)
    click.echo(found.to_json()) if as_json else _print(found)


@_command("verify", "daskrf verify real.fingerprints --repair", resumable=False)
@click.argument("store", type=click.Path())
@option("--repair", is_flag=True, show_default=False, help="Make damaged and missing partitions again.")
@cluster_options
def verify(store: str, repair: bool, **options: Any) -> int:
    """Check every byte of a store against its digests.

    Ends with exit code 1 if partitions are damaged or missing and were not made again. Damaged predictions
    are taken out by --repair; run predict again to make them.
    """
    from daskrf.cli.session import at_work
    from daskrf.commands.verify import verify

    if not repair and not any(options[name] for name in ("cluster", "scheduler", "scheduler_file")):
        options["workers"] = 0  # looking needs no workers, mending does
    with at_work(options) as work:
        report = verify(store, repair=repair, **work)
    _print(report)
    return 1 if report.damaged or report.missing else 0


@_command("maps", "daskrf maps landmarks", resumable=False)
@click.argument("name", required=False, type=MapName())
@option("--json", "as_json", is_flag=True, show_default=False, help="Print everything as one object of JSON.")
@debug_option
def maps(name: str | None, as_json: bool) -> None:
    """List every feature map, or describe one.

    Of all: the name that --map takes, the kernel that its features approximate, its input, what a row costs,
    what it holds and learns, and the paper. Of one: its own options and an example, too.
    """
    from daskrf.cli.components import known, map_page
    from daskrf.report.maptable import maps

    found = maps(name)
    if name is not None and not as_json:
        click.echo(map_page(known()[name]))
    else:
        click.echo(found.to_json()) if as_json else _print(found)


@_command(
    "plan",
    "daskrf plan 'REAL_*.cxsmiles.bz2' -M 8192 --labels 1000000",
    cls=MapCommand,
    resumable=False,
)
@INPUTS
@table_options
@fingerprint_options
@map_options
@option("--labels", "n_labels", metavar="N", type=click.IntRange(min=1), help="Labels.  [default: all rows]")
@option("--rows-per-partition", metavar="N", type=click.IntRange(min=1), help="As for fingerprint.")
@option("--sample", "n_sample", metavar="N", type=click.IntRange(min=100), default=2000, help="Rows timed.")
@debug_option
def plan(inputs: tuple[str, ...], **options: Any) -> None:
    """Say what a run would cost, before anything big starts.

    Times a random sample of the lines, here and on one core, and prints rows, bytes on disk,
    memory a worker, and core-hours by stage.
    """
    from daskrf.cli.console import make_progress
    from daskrf.commands.plan import plan

    spec, table = fingerprint_spec(options), table_format(options)
    with make_progress() as progress:
        report = plan(list(inputs), spec=spec, format=table, progress=progress, **_set_only(options))
    _print(report)
