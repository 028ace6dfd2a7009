"""The job of a campaign: it goes on where the files in its folder say that it stands."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa

from daskrf.campaigns.calls import Scored, molecules_of, score_batch
from daskrf.campaigns.firstbatch import FirstBatch, Rows
from daskrf.campaigns.history import BATCH, CALLS, ESTIMATE, FAILURE, SCORES, History, read_round
from daskrf.campaigns.options import CampaignOptions
from daskrf.campaigns.record import MODEL, check_record, record_of, write_record
from daskrf.campaigns.scorer import Scorer
from daskrf.campaigns.settings import Section, with_fields
from daskrf.errors import InputError, OptionError, printable
from daskrf.files.backend import atomic_write, exists
from daskrf.jobs.job import Job, Run
from daskrf.jobs.pieces import Pieces
from daskrf.quantities import amount
from daskrf.screens.passing import FilterTexts
from daskrf.sources.wholefile import molecules_in
from daskrf.spaces.spacefiles import space_among
from daskrf.storage.hits import write_hits
from daskrf.storage.outputs import guarded
from daskrf.tables import TableFormat
from daskrf.workers.progress import Once, Progress

_FILTERS = (
    *("where", "smarts", "without_smarts", "alerts"),
    *("similar_to", "least_similarity", "nearest"),
)
_BEST = 100  # how many molecules count as the best of the library, where the file does not say


@dataclass(frozen=True)
class Steps:
    """What a round is made of, and what is above this part: commands, and the report of all rounds.

    Attributes
    ----------
    sample, fit, suggest, add, estimate : callable
        The commands, called by the names of their arguments; `estimate` is that of `found`.
    show : callable
        Writes the picture and the page of a history into the folder of the campaign.
    """

    sample: Callable[..., Any]
    fit: Callable[..., Any]
    suggest: Callable[..., Any]
    add: Callable[..., Any]
    estimate: Callable[..., Any]
    show: Callable[[PurePath, History], None]


@dataclass(frozen=True)
class Progressed:
    """How far a campaign has come.

    Attributes
    ----------
    history : History
    stopped : str
        Why no other round begins.
    seconds : float
        Time of this run.
    notes : tuple of str
        What was assumed, left out or counted in this run.
    """

    history: History
    stopped: str
    seconds: float
    notes: tuple[str, ...]


@dataclass
class CampaignJob(Job[Progressed]):
    """The job of `daskrf.campaign`.

    Attributes
    ----------
    output : Path
        The folder of the campaign.
    file : Path
        The file that describes it, for messages.
    options : CampaignOptions
    settings : mapping of str to dict
        The options of other commands, by the table of the file.
    sections : mapping of str to Section
        What fields these tables may have.
    scorer : Scorer
    format : TableFormat, optional
        How the library is laid out.
    steps : Steps
    """

    output: PurePath
    file: PurePath
    options: CampaignOptions
    settings: Mapping[str, dict[str, Any]]
    sections: Mapping[str, Section]
    scorer: Scorer
    format: TableFormat | None
    steps: Steps
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
        if changed := check_record(self.output, self._record()):
            self.notes.append(changed)

    def pieces(self, run: Run) -> Sequence[Pieces]:
        """Return none: each step is a command with its own."""
        return []

    def finish(self, run: Run, made: int) -> Progressed:
        """Do what is missing, round by round."""
        write_record(self.output, self._record())
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
                self.steps.show(self.output, history)
            number += 1
        self.steps.show(self.output, history)
        return Progressed(history, stopped, run.seconds, tuple(self.notes))

    def _record(self) -> dict[str, object]:
        return record_of(self.options, self.settings, self.format)

    @contextmanager
    def _fields_of(self, command: str) -> Iterator[None]:
        """Within: messages that name options of a command name the fields of the file in their place."""
        try:
            yield
        except InputError as error:
            where = f"[{command}] of {self.file}"
            error.args = (with_fields(str(error), self.sections[command], where), *error.args[1:])
            raise

    def _path(self, name: str, number: int) -> PurePath:
        return self.output / name.format(number)

    def _suggest(self, run: Run, number: int) -> None:
        """Choose the batch of a round."""
        path = self._path(BATCH, number)
        if exists(path):
            return
        if number == 1:
            with self._fields_of("suggest"):
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
        with self._fields_of("suggest"):
            report = self.steps.suggest(
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
            filters=FilterTexts(**{name: options[name] for name in _FILTERS if name in options}),
            exclude=[exclude] if isinstance(exclude, str) else exclude,
            level=options.get("exclude_by", "tautomer"),
            max_similarity=options.get("max_similarity"),
            per_scaffold=options.get("per_scaffold"),
        )
        if space_among(chosen.library) is not None:
            within = options.get("within")
            drawn = self.steps.sample(
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
        # The columns of products tell `fit` that these are of a space.
        products = [name for name in batch.column_names if re.fullmatch(r"reaction|block_\d+", name)]
        table = pa.table(
            {
                "smiles": smiles,
                "id": ids,
                **({name: batch[name] for name in products} if "block_0" in products else {}),
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
        here: dict[str, object] = {"drop_non_numbers": True, "target": self.target}
        here |= {"client": run.client, "progress": run.progress}
        report: object
        if number == 1:
            direction: object = self.options.direction
            try:
                with self._fields_of("fit"):
                    report = self.steps.fit(
                        scores, output=model, direction=direction, **here, **self.settings["fit"]
                    )
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
            with self._fields_of("add"):
                report = self.steps.add(model, scores, **here, **self.settings["add"])
        run.progress.note(_in_round(number, report))

    def _estimate(self, run: Run, number: int) -> None:
        """Estimate how many of the best molecules have scores."""
        path = self._path(ESTIMATE, number)
        if not self.options.estimate or exists(path):
            return
        try:
            report = self._estimated(run)
        except InputError as error:
            self.notes.append(f"no estimate of what was found after round {number}: {printable(error, 300)}")
            return
        content = {"k": report.k, "share": report.share, "low": report.low, "high": report.high}
        atomic_write(path, (json.dumps(content) + "\n").encode())
        run.progress.note(_in_round(number, report))

    def _estimated(self, run: Run) -> Any:
        """Return the estimate, among the molecules that the filters of [suggest] let pass where it can."""
        suggested, settings = self.settings["suggest"], {"k": _BEST, **self.settings["found"]}
        names, lacking = ["exclude_by", "within", *_FILTERS[:-1]], list[str]()
        if "nearest" in suggested:
            if "least_similarity" not in suggested:
                names.remove("similar_to")
            lacking.append("nearest")
        same = {name: suggested[name] for name in names if name in suggested}
        with self._fields_of("found"):
            estimate = functools.partial(
                self.steps.estimate,
                self.output / MODEL,
                self.options.library,
                format=self.format,
                client=run.client,
                progress=run.progress,
            )
            try:
                report = estimate(**{**same, **settings})
            except OptionError:
                if "where" in settings or "where" not in same:
                    raise
                # It may compare columns of the library, which labelled molecules from elsewhere do not have.
                lacking.append("where")
                del same["where"]
                report = estimate(**{**same, **settings})
        if lacking:
            note = (
                f"estimates of the best molecules count those that {' and '.join(lacking)} of [suggest] "
                f"{'leaves' if len(lacking) == 1 else 'leave'} out, too"
            )
            self.notes += [] if note in self.notes else [note]
        return report

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


def _in_round(number: int, report: Any) -> str:
    """Return the text of a report, without how files were read, which is printed once."""
    return f"Round {number}: {replace(report, inputs=())}"


def _worth_repeating(scored: Scored) -> tuple[str, ...]:
    """Return the notes on the scores of a round, without how the file was read."""
    return scored.notes[1:]
