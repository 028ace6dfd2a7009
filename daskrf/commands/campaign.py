"""A file that describes a campaign -> rounds of suggesting, scoring and learning, until it is to stop."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path, PurePath
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from distributed import Client

from daskrf.acquisition.rule import parameters_of_rules
from daskrf.campaigns.calls import Scored, molecules_of, score_batch
from daskrf.campaigns.firstbatch import By, FirstBatch, Rows
from daskrf.campaigns.history import BATCH, CALLS, ESTIMATE, FAILURE, SCORES, History, read_round
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
from daskrf.errors import InputError, OptionError, printable
from daskrf.files.backend import as_path, atomic_write, backend, exists, is_file, matching
from daskrf.jobs.job import Job, Run, run
from daskrf.jobs.pieces import Pieces
from daskrf.parameters import Command, Option, parameters_of
from daskrf.quantities import amount, listed
from daskrf.report.campaignpage import write_campaign_page
from daskrf.report.campaignplot import plot_campaign
from daskrf.report.lines import report_text
from daskrf.report.notebook import Shown
from daskrf.report.tabulation import text_table
from daskrf.screens.passing import FilterTexts
from daskrf.sources.wholefile import molecules_in
from daskrf.spaces.spacefiles import space_among
from daskrf.storage.hits import write_hits, write_recorded
from daskrf.storage.kinds import kind_of
from daskrf.storage.outputs import guarded
from daskrf.tables import TableFormat
from daskrf.workers.progress import Once, Progress

Paths = str | os.PathLike[str]

RECORD, MODEL, PICTURE, PAGE = "campaign.json", "model", "rounds.png", "rounds.html"
_BEST = 100  # how many molecules count as the best of the library, where the file does not say

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


@dataclass(frozen=True)
class CampaignReport(Shown):
    """What a campaign has done so far.

    Attributes
    ----------
    folder : Path
        Where everything is.
    history : History
        Its rounds.
    stopped : str
        Why no other round begins.
    seconds : float
        Time of this run.
    notes : tuple of str
        What was assumed, left out or counted in this run.
    """

    folder: PurePath
    history: History
    stopped: str
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> pa.Table:
        """The molecules with scores, the best first."""
        history = self.history
        order = np.argsort(-history.scores if history.maximize else history.scores, kind="stable")
        columns = {
            "smiles": [text for each in history.rounds for text in each.smiles],
            "id": [name for each in history.rounds for name in each.ids],
            history.target: history.scores.tolist(),
            "round": [each.number for each in history.rounds for _ in each.smiles],
        }
        return pa.table(columns).take(pa.array(order))

    def __str__(self) -> str:
        history = self.history
        n = len(history.scores)
        scores = f"{amount(n, 'scores')} of {amount(history.n_asked, 'molecules')}"
        first = (
            f"{amount(len(history.rounds), 'rounds')} with {scores} in {self.folder}: best {history.target} "
            f"{history.best_by_round[-1]:.6g} ({self.seconds:.1f} s)"
        )
        table = text_table(
            ["round", "molecules", "failed", "best so far", "hits", "within 95 %", "found"],
            [
                (
                    each.number,
                    each.n_asked,
                    each.n_failed,
                    f"{best:.6g}",
                    hits,
                    f"{each.within_95:.0%}" if each.is_predicted else "",
                    _estimate_words(each.estimate),
                )
                for each, best, hits in zip(
                    history.rounds, history.best_by_round, history.hits_by_round, strict=True
                )
            ],
        )
        lines = [f"  {line}" for line in table.splitlines()]
        shown = (f"a hit is {history.hit_words}", *self.notes, f"stopped: {self.stopped}")
        places = f"picture: {self.folder / PICTURE}, page: {self.folder / PAGE}"
        return report_text(first, made=lines, notes=(*shown, places))


def _estimate_words(estimate: Mapping[str, Any] | None) -> str:
    """Return what `found` said about the best molecules of the library, in short."""
    if estimate is None:
        return ""
    return (
        f"{estimate['share']:.0%} of best {estimate['k']:,} ({estimate['low']:.0%} - {estimate['high']:.0%})"
    )


@dataclass(frozen=True, kw_only=True)
class _Options:
    """The options of a campaign; see `campaign`."""

    library: Any = None
    command: str | None = None
    function: str | None = None
    timeout: float | None = None
    per_call: int | None = None
    target: str | int | None = None
    direction: str | None = None
    first: int = 100
    first_by: By = "diverse"
    seed: int = 0
    rounds: int = 10
    molecules: int | None = None
    patience: int | None = None
    estimate: bool = True
    hit: float | None = None
    accept_failures: bool = False


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
_COMMANDS: Mapping[str, Callable[..., Any]] = {"fit": fit, "suggest": suggest, "add": add, "found": found}
_ALWAYS_DECIDED = {"client", "progress", "shard", "prepare"}


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
    values = read_settings(path, _sections())
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
    layout = _layout(in_file)
    if "library" in in_file:
        in_file["library"] = _beside(path, in_file["library"])
    if "exclude" in values["suggest"]:
        values["suggest"]["exclude"] = _beside(path, values["suggest"]["exclude"])
    named = {name: value for name, value in arguments.items() if value is not None}
    if named.keys() & {"command", "function"}:
        in_file = {name: value for name, value in in_file.items() if name not in ("command", "function")}
    options = _Options(**{**in_file, **named})
    _check(path, options)
    folder = path.with_suffix("") if output is None else as_path(output)
    check_folder(Path(folder))
    if folder == path:
        raise OptionError(
            f"{path} is the file of the campaign; give another name to its folder, or end it in .toml."
        )
    scorer = Scorer.of(options.command, options.function, str(Path(path).absolute().parent), options.timeout)
    report = run(_CampaignJob(folder, options, values, scorer, format or layout), client, progress)
    assert isinstance(report, CampaignReport)
    return report


def _layout(values: dict[str, Any]) -> TableFormat | None:
    """Take the fields on the layout of the library out of others, and return what they say."""
    flags = {
        option.flags.removeprefix("--").replace("-", "_") or name: name
        for name in (each.name for each in fields(TableFormat) if each.name != "extra")
        for option in [TableFormat.options.get(name, Option())]
    }
    named = {name: values.pop(flag) for flag, name in flags.items() if flag in values}
    return TableFormat(**named) if named else None


def _beside(path: PurePath, names: Any) -> Any:
    """Return paths that are relative to the folder of a file as paths that are valid here."""
    if not isinstance(names, str):
        return [_beside(path, name) for name in names]
    return names if "://" in names else str(Path(path).parent / names)


def _check(path: PurePath, options: _Options) -> None:
    """Refuse options that are missing or cannot be."""
    if options.library is None:
        raise InputError(f"{path} names no library; give library, the files, store or space to search.")
    if options.direction is None:
        raise InputError(
            f"{path} does not say which scores are good; give direction, maximize or minimize (docking "
            "scores in kcal/mol: minimize)."
        )
    if options.molecules is not None and options.molecules < options.first:
        raise OptionError(
            f"The campaign may score {amount(options.molecules, 'molecules')}, but its first batch has "
            f"{options.first:,}; give a smaller first."
        )
    names = [options.library] if isinstance(options.library, (str, os.PathLike)) else options.library
    for name in names:
        if not exists(as_path(name)) and not matching(as_path(name)):
            raise InputError(f"The library {name} of {path} does not exist; correct the path.")


@dataclass
class _CampaignJob(Job[CampaignReport]):
    """The job of `campaign`: it goes on where the files in its folder say that it stands."""

    output: PurePath
    options: _Options
    settings: Mapping[str, dict[str, Any]]
    scorer: Scorer
    format: TableFormat | None
    notes: list[str] = field(default_factory=list)

    name = "campaign"

    @property
    def folder(self) -> Path:
        """The folder of the campaign."""
        return Path(self.output)

    @property
    def target(self) -> str:
        """Name of the column of scores."""
        return self.options.target if isinstance(self.options.target, str) else "score"

    @property
    def maximize(self) -> bool:
        """Whether large scores are good."""
        return self.options.direction == "maximize"

    def plan(self, run: Run) -> None:
        """Check that the folder holds this campaign or nothing, and note what has changed."""
        record = self.folder / RECORD
        wanted = self._record()
        if not is_file(record):
            others = [name for name in backend(self.output).names(self.output) if not name.startswith(".")]
            if others:
                raise InputError(
                    f"{self.folder} holds other files ({listed(others)}) and no campaign; give "
                    "another output."
                )
            return
        try:
            earlier = json.loads(record.read_text())
            lasting = {name: earlier[name] for name in self._lasting(earlier)}
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{record} is damaged; give another output, or delete it if the settings are as they were."
            ) from None
        fixed = self._lasting(wanted)
        if differing := _changes(lasting, {name: wanted[name] for name in fixed if name in wanted}):
            raise InputError(
                f"{self.folder} holds a campaign with another {'; '.join(differing)}; give another "
                "output, or repeat what it was begun with."
            )
        if changed := _changes(earlier, wanted):
            self.notes.append(f"changed since the run before: {'; '.join(changed)}")

    def pieces(self, run: Run) -> Sequence[Pieces]:
        """Return none: each step is a command with its own."""
        return []

    def finish(self, run: Run, made: int) -> CampaignReport:
        """Do what is missing, round by round."""
        atomic_write(self.output / RECORD, (json.dumps(self._record(), indent=1) + "\n").encode())
        run = replace(run, progress=Once(run.progress))
        number = 1
        while True:
            self._suggest(run, number)
            self._score(run, number)
            if not exists(self._path(BATCH, number + 1)):
                self._learn(run, number)
                self._estimate(run, number)
                history = self._history(number)
                if stopped := self._stopped(history):
                    break
                self._show(history)
            number += 1
        self._show(history)
        return CampaignReport(self.output, history, stopped, run.seconds, tuple(self.notes))

    def _record(self) -> dict[str, Any]:
        """Return what the campaign is asked for, by field."""
        options = asdict(self.options)
        library = options.pop("library")
        files = [library] if isinstance(library, (str, os.PathLike)) else library
        tables = {f"[{table}] {name}": v for table, some in self.settings.items() for name, v in some.items()}
        layout = None if self.format is None else asdict(self.format)
        record = {"library": [PurePath(name).name for name in files], "layout": layout, **options, **tables}
        plain: dict[str, Any] = json.loads(json.dumps(record, default=str))
        return plain

    def _lasting(self, record: Mapping[str, Any]) -> list[str]:
        """Return the fields on which depends what is there, so that they cannot change any more."""
        names: list[str] = []
        if exists(self._path(BATCH, 1)):
            names += ["library", "layout", "first", "first_by", "seed"]
        if any(Path(self._path(CALLS, 1)).glob("call-*[0-9]/result.json")):
            names += ["target", "direction"]
        if kind_of(self.output / MODEL, missing_ok=True) is not None:
            names += [name for name in record if name.startswith("[fit] ")]
        return names

    def _path(self, name: str, number: int) -> PurePath:
        return self.output / name.format(number)

    def _suggest(self, run: Run, number: int) -> None:
        """Choose the batch of a round."""
        path = self._path(BATCH, number)
        if exists(path):
            return
        if number == 1:
            self._first(run, path)
            return
        options = dict(self.settings["suggest"])
        n_before = sum(self._n_asked(each) for each in range(1, number))
        n = options.pop("n", self.options.first)
        if self.options.molecules is not None:
            n = min(n, self.options.molecules - n_before)
        earlier = [self._path(BATCH, each) for each in range(1, number)]  # with those that failed
        exclude = options.pop("exclude", [])
        exclude = [exclude] if isinstance(exclude, str) else exclude
        report = suggest(
            self.output / MODEL,
            self.options.library,
            path,
            n=n,
            exclude=[*exclude, *earlier],
            format=self.format,
            client=run.client,
            progress=run.progress,
            **options,
        )
        run.progress.note(_in_round(number, report))

    def _first(self, run: Run, path: PurePath) -> None:
        """Choose the first batch."""
        options, chosen = self.settings["suggest"], self.options
        exclude = options.get("exclude", [])
        choice = FirstBatch(
            n=chosen.first,
            by=chosen.first_by,
            seed=chosen.seed,
            filters=FilterTexts(
                **{
                    name: options[name]
                    for name in ("where", "smarts", "without_smarts", "alerts")
                    if name in options
                }
            ),
            exclude=[exclude] if isinstance(exclude, str) else exclude,
            level=options.get("exclude_by", "tautomer"),
            max_similarity=options.get("max_similarity"),
            per_scaffold=options.get("per_scaffold"),
        )
        if space_among(chosen.library) is not None:
            within = options.get("within")
            drawn = sample(
                chosen.library, path, n=chosen.first, seed=chosen.seed, within=within, progress=run.progress
            )
            run.progress.note(f"Round 1: {drawn}")
            if choice.filters.texts:
                self.notes.append("the first batch, random products of the space, is not filtered")
            return
        table = choice.choose(Rows(chosen.library, self.format, run.progress), run.progress)
        about = {"made": f"first batch of {amount(table.num_rows, 'molecules')}, {chosen.first_by}"}
        write_hits(table, path, about, kind="sample", before=guarded(path, overwrite=True))
        run.progress.note(f"Round 1: {amount(table.num_rows, f'{chosen.first_by} molecules')} in {path}")

    def _n_asked(self, number: int) -> int:
        return molecules_in(self._path(BATCH, number), Progress()).num_rows

    def _score(self, run: Run, number: int) -> None:
        """Score the batch of a round, and write the scores."""
        path = self._path(SCORES, number)
        if exists(path):
            return
        batch = molecules_in(self._path(BATCH, number), Progress())
        smiles, ids = batch["smiles"].to_pylist(), batch["id"].to_pylist()
        molecules = molecules_of(smiles, ids)
        scored = score_batch(
            self.folder / CALLS.format(number),
            molecules,
            self.scorer,
            per_call=self.options.per_call,
            target=self.options.target,
            maximize=self.maximize,
            client=run.client,
            progress=run.progress,
            first=number == 1,
            accept_failures=self.options.accept_failures,
        )
        names = [each.name for each in molecules]
        table = pa.table(
            {
                "smiles": smiles,
                "id": ids,
                self.target: pa.array([scored.scores.get(name) for name in names], pa.float64()),
                FAILURE: [scored.failures.get(name, "") for name in names],
            }
        )
        about = {"made": f"scores of round {number}"}
        write_hits(table, path, about, kind="scores", before=guarded(path, overwrite=True))
        for note in scored.notes:
            run.progress.note(f"Round {number}: {note}")
        self.notes += [f"round {number}: {note}" for note in _worth_repeating(scored)]

    def _learn(self, run: Run, number: int) -> None:
        """Fit the model to the first scores, or add those of a round."""
        model, scores = self.output / MODEL, self._path(SCORES, number)
        here: dict[str, Any] = {"drop_non_numbers": True, "target": self.target}
        here |= {"client": run.client, "progress": run.progress}
        report: Any
        if number == 1:
            direction: Any = self.options.direction
            try:
                report = fit(scores, output=model, direction=direction, **here, **self.settings["fit"])
            except InputError as error:
                calls = self._path(CALLS, number)
                again = (
                    f"to score the first batch again, after mending the scorer, delete {scores} and {calls}"
                )
                raise InputError(f"{str(error).removesuffix('.')}; {again}.") from None
        else:
            if not len(read_round(self.folder, number, self.target, None).scores):
                self.notes.append(f"round {number}: no molecule has a score, so there is nothing to learn")
                return
            report = add(model, scores, **here, **self.settings["add"])
        run.progress.note(_in_round(number, report))

    def _estimate(self, run: Run, number: int) -> None:
        """Estimate how many of the best molecules have scores."""
        path = self._path(ESTIMATE, number)
        if not self.options.estimate or exists(path):
            return
        suggested = self.settings["suggest"]
        same: dict[str, Any] = {
            name: suggested[name] for name in ("exclude_by", "within") if name in suggested
        }
        options: dict[str, Any] = {"k": _BEST, **same, **self.settings["found"]}
        try:
            report = found(
                self.output / MODEL,
                self.options.library,
                format=self.format,
                client=run.client,
                progress=run.progress,
                **options,
            )
        except InputError as error:
            self.notes.append(f"no estimate of what was found after round {number}: {printable(error, 300)}")
            return
        content = {"k": report.k, "share": report.share, "low": report.low, "high": report.high}
        atomic_write(path, (json.dumps(content) + "\n").encode())
        run.progress.note(_in_round(number, report))

    def _history(self, last: int) -> History:
        """Return the rounds up to one."""
        rounds = []
        for number in range(1, last + 1):
            path = Path(self._path(ESTIMATE, number))
            estimate = json.loads(path.read_text()) if path.exists() else None
            rounds.append(read_round(self.folder, number, self.target, estimate))
        return History(tuple(rounds), self.target, self.maximize, self.options.hit)

    def _stopped(self, history: History) -> str:
        """Return why no other round begins; empty if one does."""
        options = self.options
        if len(history.rounds) >= options.rounds:
            return f"{amount(options.rounds, 'rounds')} done"
        if options.molecules is not None and history.n_asked >= options.molecules:
            return f"{amount(options.molecules, 'molecules')} have been scored"
        if options.patience is not None and history.rounds_without_improvement >= options.patience:
            return f"{amount(options.patience, 'rounds')} brought no better score"
        return ""

    def _show(self, history: History) -> None:
        """Write the picture and the page of all rounds."""
        rounds = f"picture of {amount(len(history.rounds), 'rounds')}"
        path = self.output / PICTURE
        write_recorded(
            path,
            lambda file: plot_campaign(file, history),
            {"made": rounds},
            "picture",
            guarded(path, overwrite=True),
        )
        report = CampaignReport(self.output, history, self._stopped(history) or "not yet", 0.0)
        page = self.output / PAGE
        write_recorded(
            page,
            lambda file: write_campaign_page(file, history, report.table, self.folder.name),
            {"made": rounds.replace("picture", "page")},
            "page",
            guarded(page, overwrite=True),
        )


def _in_round(number: int, report: Any) -> str:
    """Return the text of a report, without how files were read, which is printed once."""
    return f"Round {number}: {replace(report, inputs=())}"


def _worth_repeating(scored: Scored) -> tuple[str, ...]:
    """Return the notes on the scores of a round, without how the file was read."""
    return scored.notes[1:]


def _changes(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return in words which values differ."""
    names = [name for name in {**earlier, **now} if earlier.get(name) != now.get(name)]
    return [f"{name} ({_shown(earlier.get(name))}, now {_shown(now.get(name))})" for name in names]


def _shown(value: Any) -> str:
    return "none" if value is None else printable(value if isinstance(value, str) else json.dumps(value), 60)
