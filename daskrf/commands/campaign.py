"""A file that describes a campaign -> rounds of suggesting, scoring and learning, until it is to stop."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from distributed import Client

from daskrf.acquisition.rule import parameters_of_rules
from daskrf.campaigns.campaignjob import CampaignJob, Steps
from daskrf.campaigns.options import CampaignOptions, beside, check_options, layout_among
from daskrf.campaigns.scorer import Scorer, check_folder
from daskrf.campaigns.settings import Section, read_settings, section_of
from daskrf.commands.add import CLI as ADD
from daskrf.commands.add import add
from daskrf.commands.fit import CLI as FIT
from daskrf.commands.fit import Direction, fit
from daskrf.commands.found import CLI as FOUND
from daskrf.commands.found import found
from daskrf.commands.sample import sample
from daskrf.commands.suggest import CLI as SUGGEST
from daskrf.commands.suggest import suggest
from daskrf.errors import OptionError
from daskrf.files.backend import as_path
from daskrf.jobs.job import run
from daskrf.parameters import Command, Option, parameters_of
from daskrf.report.campaignreport import CampaignReport, show_rounds
from daskrf.tables import TableFormat
from daskrf.workers.progress import Progress

Paths = str | os.PathLike[str]

_OPTIONS: dict[str, Option] = {
    "timeout": Option(metavar="SECONDS"),
    "per_call": Option(least=1),
    "first": Option(least=2),
    "seed": Option(least=0),
    "rounds": Option(least=1),
    "molecules": Option(least=2),
    "patience": Option(least=1),
}
CLI = Command(
    "daskrf campaign campaign.toml",
    step=5,
    options=_OPTIONS,
    without=("format__extra",),
    resumable=True,
)


# Of other commands: what a campaign decides by itself, or cannot have.
_DECIDED = {
    "fit": {"source", "labels", "output", "key", "key_column", "target", "direction", "drop_non_numbers"},
    "suggest": {
        "model",
        "source",
        "output",
        "maximize",
        "target",
        "require",
        "reference",
        "overwrite",
        "format",
    },
    "add": {
        *("model", "labels", "output", "key", "key_column", "target", "direction", "confirm_direction"),
        *("library", "dry_run", "undo", "to_round", "drop_non_numbers"),
    },
    "found": {"model", "source", "maximize", "target", "format"},
}
_COMMANDS: Mapping[str, Callable[..., object]] = {"fit": fit, "suggest": suggest, "add": add, "found": found}
_ALWAYS_DECIDED = {"client", "progress"}


def _sections() -> dict[str, Section]:
    """Return the tables of the file, made from the commands."""
    options = {"fit": FIT.options, "suggest": SUGGEST.options, "add": ADD.options, "found": FOUND.options}
    sections = {}
    for name, function in _COMMANDS.items():
        parameters = parameters_of(function)
        parameters += parameters_of_rules() if name == "suggest" else []
        decided = _DECIDED[name] | _ALWAYS_DECIDED
        sections[name] = section_of(name, parameters, options[name], decided.__contains__)
    decided = {"settings", "output", "format"} | _ALWAYS_DECIDED
    layout = [
        replace(each, name=option.flags.removeprefix("--").replace("-", "_") or each.name)
        for each in parameters_of(TableFormat, without=("extra",))
        for option in [TableFormat.options.get(each.name, Option())]
    ]
    sections[""] = section_of("campaign", [*parameters_of(campaign), *layout], _OPTIONS, decided.__contains__)
    return sections


def campaign(
    settings: Paths,
    *,
    output: Paths | None = None,
    library: Paths | Sequence[Paths] | None = None,
    command: str | None = None,
    function: str | None = None,
    timeout: float | None = None,
    per_call: int | None = None,
    target: str | int | None = None,
    direction: Direction | None = None,
    first: int | None = None,
    first_by: Literal["diverse", "random"] | None = None,
    seed: int | None = None,
    rounds: int | None = None,
    molecules: int | None = None,
    patience: int | None = None,
    estimate: bool | None = None,
    hit: float | None = None,
    accept_failures: bool | None = None,
    format: TableFormat | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> CampaignReport:
    """Run rounds of suggesting, scoring and learning, as a file describes them.

    The first batch is diverse or random. Each batch is scored by your program, on the workers; its scores are
    fitted or added, and the next batch is suggested, until it is to stop. The file is TOML: its fields are
    the options of this command, and its tables [fit], [suggest], [add] and [found] have the options of these.
    Options on the command line replace those of the file. Killed at any time, the same command goes on.

    Parameters
    ----------
    settings : path
        The file that describes the campaign.
    output : path, optional
        Folder of the campaign. Default: beside the file, and called like it without its ending.
    library : path, or sequence of paths, optional
        As the source in `suggest`: files, a store, or a make-on-demand space. Needed here or in the file,
        where it is relative to the folder of the file.
    command : str, optional
        Command line of the scorer, run in the folder of the file, without a shell. {smiles} is a file with a
        SMILES and a name in each line, {scores} the file to write, in any format that `fit` reads, and
        {folder} a folder for anything else.
    function : str, optional
        In place of a command, a Python function, module:function, of a list of SMILES. It returns a score for
        each, NaN where there is none, or a dict by SMILES. It runs in a process of its own.
    timeout : float, optional
        Seconds after which a call of the scorer is ended; its molecules have failed then. Default: never.
    per_call : int, optional
        Number of molecules that the scorer gets at a time; calls run side by side, one on each worker.
        Default: the whole batch.
    target : str or int, optional
        Column of the scores. Default: the only one with numbers, or the one that a docking program ranks by.
    direction : {"maximize", "minimize"}, optional
        Whether large or small scores are good. Needed here or in the file.
    first : int, optional
        Number of molecules of the first batch. Default: 100.
    first_by : {"diverse", "random"}, optional
        How they are chosen, among those that pass the filters of [suggest]. Default: diverse, each the least
        similar to those before it, among 20 times as many random ones. The first batch of a space is random.
    seed : int, optional
        Seed of the first batch. Default: 0.
    rounds : int, optional
        Stop after this number of rounds; the first batch is round 1. Default: 10.
    molecules : int, optional
        Stop when this number of molecules has been scored; the last batch is smaller then.
    patience : int, optional
        Stop after this number of rounds without a better score.
    estimate : bool, optional
        Estimate after each round how many of the best molecules of the library have scores, as `found` does,
        with 100 best molecules where [found] does not say. Default: yes. It takes as long as a screen.
    hit : float, optional
        A score that is this good is a hit, in the report and the picture. Default: one better than all of the
        first batch.
    accept_failures : bool, optional
        Go on if the scorer fails in all calls of a batch after the first, and count their molecules as
        failed. By default, such a batch is scored again by the next run.
    format, client, progress
        As in `fit` and `suggest`.

    Returns
    -------
    CampaignReport

    Raises
    ------
    InputError
        If the file cannot be used, the folder holds a campaign with another library, direction or first
        batch, or the scorer gives no score at all.

    Notes
    -----
    The folder has, for each round, `batch-2.csv`, `scoring-2/` with a folder for each call of the scorer,
    `scores-2.csv` and `found-2.json`; and the model, `campaign.json`, `rounds.png` and `rounds.html`. A file
    that is there is not made again. A molecule without a score stands in `scores-2.csv` with the reason, and
    is not suggested again.
    """
    path = as_path(settings)
    sections = _sections()
    values = read_settings(path, sections)
    arguments = {
        "library": library,
        "command": command,
        "function": function,
        "timeout": timeout,
        "per_call": per_call,
        "target": target,
        "direction": direction,
        "first": first,
        "first_by": first_by,
        "seed": seed,
        "rounds": rounds,
        "molecules": molecules,
        "patience": patience,
        "estimate": estimate,
        "hit": hit,
        "accept_failures": accept_failures,
    }
    in_file = values.pop("")
    layout = layout_among(in_file)
    if "library" in in_file:
        in_file["library"] = beside(path, in_file["library"])
    if "exclude" in values["suggest"]:
        values["suggest"]["exclude"] = beside(path, values["suggest"]["exclude"])
    named = {name: value for name, value in arguments.items() if value is not None}
    if named.keys() & {"command", "function"}:
        in_file = {name: value for name, value in in_file.items() if name not in ("command", "function")}
    options = CampaignOptions(**{**in_file, **named})
    check_options(path, options)
    folder = path.with_suffix("") if output is None else as_path(output)
    check_folder(Path(folder))
    if folder == path:
        raise OptionError(
            f"{path} is the file of the campaign; give another name to its folder, or end it in .toml."
        )
    scorer = Scorer.of(options.command, options.function, str(Path(path).absolute().parent), options.timeout)
    job = CampaignJob(
        output=folder,
        file=path,
        options=options,
        settings=values,
        sections=sections,
        scorer=scorer,
        format=format or layout,
        steps=Steps(sample=sample, fit=fit, suggest=suggest, add=add, estimate=found, show=show_rounds),
    )
    progressed = run(job, client, progress)
    return CampaignReport(
        folder=folder,
        history=progressed.history,
        stopped=progressed.stopped,
        seconds=progressed.seconds,
        notes=progressed.notes,
    )
