"""The whole pipeline on a library that it makes itself, and an honest look at how well it worked."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.commands.featurize import featurize
from daskrf.commands.fingerprint import fingerprint
from daskrf.commands.fit import FitReport, fit
from daskrf.commands.predict import predict
from daskrf.commands.screen import screen
from daskrf.errors import InputError
from daskrf.features import default_map
from daskrf.gp import Calibration, calibration_report
from daskrf.jobs.execution import Task, run_tasks
from daskrf.jobs.progress import Progress
from daskrf.molecules import objective
from daskrf.molecules.enumeration import ReactionLibrary
from daskrf.report.evaluation import (
    LibraryPredictions,
    read_hits,
    read_molecules,
    read_predictions,
    write_table,
)
from daskrf.report.plots import HeldOut, plot_screen
from daskrf.report.recovery import Recovery, recovery
from daskrf.report.tabulation import shorten, text_table
from daskrf.storage.backend import as_path

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["QuickstartReport", "quickstart"]

_N_BEST = 100
_SELECTED = (100, 500, 1000)
_MOLECULES_PER_TASK = 1000


@dataclass(frozen=True)
class QuickstartReport:
    """What :func:`quickstart` did and found; printing it gives the whole story.

    Attributes
    ----------
    directory : Path
        Where everything is.
    n, n_labelled : int
        Molecules in the library, and how many of them had a label.
    hits : list of dict
        The top of the hit list: ``id``, ``smiles``, ``mean``, ``std_y``, ``truth``.
    recovery : Recovery
        The best 100 of the molecules without a label, along the model's ranking.
    calibration : Calibration
        Errors and error bars on the molecules without a label.
    seconds : dict of str to float
        Time of each stage.
    """

    directory: Path
    n: int
    n_labelled: int
    hits: list[dict[str, Any]]
    recovery: Recovery
    calibration: Calibration
    seconds: dict[str, float]

    def __str__(self) -> str:
        found = self.recovery
        hits = [
            (i, hit["id"], hit["mean"], hit["std_y"], hit["truth"], shorten(hit["smiles"], 60))
            for i, hit in enumerate(self.hits, start=1)
        ]
        lines = [
            f"The best {len(hits)} of {found.n:,} molecules without a label, predicted from "
            f"{self.n_labelled:,} labels (lower is better):",
            text_table(["", "ID", "predicted", "± std", "truth", "SMILES"], hits),
            "",
            f"Of the truly best {found.n_best} of the {found.n:,} molecules without a label,",
        ]
        lines += [
            f"  {found.fraction(k) * found.n_best:3.0f} are among the first {k:,} of the ranking "
            f"({found.enrichment(k):.0f} times more than by chance)"
            for k in _SELECTED
            if k < found.n
        ]
        stages = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in self.seconds.items())
        lines += [
            "",
            f"On those molecules: {self.calibration}.",
            f"Time: {stages}; {sum(self.seconds.values()):.0f} s in all.",
            "",
            f"Hits:    {self.directory / 'hits.parquet'}",
            f"Picture: {self.directory / 'hits.png'}",
            f"Labels:  {self.directory / 'labels.csv'}, library: {self.directory / 'library.smi'}",
        ]
        return "\n".join(lines)


def quickstart(
    directory: str | os.PathLike[str] = "daskrf-quickstart",
    *,
    n: int = 20_000,
    n_labelled: int = 2_000,
    n_components: int = 4096,
    seed: int = 0,
    client: Client | None = None,
    progress: Progress | None = None,
) -> QuickstartReport:
    """Make a library, label a random part of it, run the whole pipeline, and compare with the truth.

    The library is a random part of a make-on-demand space (:mod:`daskrf.molecules.enumeration`). The
    objective is computed (:mod:`daskrf.molecules.objective`): it stands in for a docking score, lower is
    better. Run again, it keeps what is done.

    Parameters
    ----------
    directory : path
        Where everything is written: ``library.smi``, ``labels.csv``, the stores, ``model``, ``hits.parquet``,
        ``truth.parquet`` and ``hits.png``.
    n, n_labelled : int
        Molecules in the library, and how many of them are labelled.
    n_components : int
        Number of one-bit features.
    seed : int
        Seed of the choice of molecules and labels, and of the features.
    client : distributed.Client, optional
        Where to run; in this process when left out.
    progress : Progress, optional
        Told what goes on.

    Raises
    ------
    InputError
        If `n_labelled` leaves fewer than 200 molecules without a label, or `directory` holds a quickstart
        with other parameters.

    Examples
    --------
    >>> from daskrf import quickstart
    >>> print(quickstart("demo", n=2000, n_labelled=500))  # doctest: +SKIP
    """
    if n_labelled < 20 or n - n_labelled < 2 * _N_BEST:
        raise InputError(
            f"A quickstart needs at least 20 labelled molecules and {2 * _N_BEST} others, "
            f"not {n_labelled} labelled of {n}."
        )
    as_path(directory)  # refuses a name that no store could hold
    run = _Run(Path(directory), n, n_labelled, n_components, seed, client, progress or Progress())
    run.prepare()
    run.label()
    run.learn()
    hits = run.screen()
    predictions = run.predict()
    return run.evaluate(hits, predictions)


@dataclass
class _Run:
    """The stages of one quickstart, in order."""

    directory: Path
    n: int
    n_labelled: int
    n_components: int
    seed: int
    client: Client | None
    progress: Progress
    seconds: dict[str, float] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        return self.directory / name

    @property
    def where(self) -> dict[str, Any]:
        return {"client": self.client, "progress": self.progress}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - begun

    def prepare(self) -> None:
        """Make the library, unless it is there."""
        names = ("n", "n_labelled", "n_components", "seed")
        wanted = {name: getattr(self, name) for name in names}
        settings = self.path("quickstart.json")
        if settings.exists():
            there = json.loads(settings.read_text())
            if there != wanted:
                raise InputError(
                    f"{self.directory} holds a quickstart with {there}, not {wanted}; "
                    "name another directory, or delete this one."
                )
            self.progress.note(f"{self.directory} is there already: what is done is kept.")
        self.directory.mkdir(parents=True, exist_ok=True)
        # One that was killed as it began has left its settings half written.
        own = (settings.name, f"{settings.name}.part")
        if not settings.exists() and any(item.name not in own for item in self.directory.iterdir()):
            raise InputError(f"{self.directory} holds other files; name another directory.")
        _write_text(settings, json.dumps(wanted, indent=1) + "\n")  # first, so that it is known again
        if not self.path("library.smi").exists():
            with self.timed("make library"):
                lines = self.in_parallel("make library", _library_lines, range(self.n), self.seed)
                _write_text(self.path("library.smi"), "smiles name\n" + "".join(lines))
        with self.timed("fingerprint"):
            fingerprint([self.path("library.smi")], self.path("fingerprints"), **self.where)
        with self.timed("featurize"):
            feature_map = default_map().set_params(n_components=self.n_components, random_state=self.seed)
            featurize(self.path("fingerprints"), feature_map, self.path("features"), **self.where)

    def label(self) -> None:
        """Score the labelled molecules, as if each score were expensive."""
        with self.timed("label"):
            molecules = read_molecules(self.path("fingerprints"))
            if len(molecules.id) < self.n_labelled + 2 * _N_BEST:
                raise InputError(
                    f"Only {len(molecules.id)} molecules of {self.path('library.smi')} could be read."
                )
            generator = seeds.generator(self.seed, "quickstart/labels")
            chosen = np.sort(generator.choice(len(molecules.id), self.n_labelled, replace=False))
            self.labelled = chosen
            scores = self.score("label", [molecules.smiles[i] for i in chosen])
            rows = (
                f"{molecules.id[i]},{score!r}\n" for i, score in zip(chosen, scores.tolist(), strict=True)
            )
            _write_text(self.path("labels.csv"), "id,score\n" + "".join(rows))

    def learn(self) -> None:
        """Fit the model to the labels."""
        with self.timed("fit"):
            report = fit(
                self.path("features"),
                self.path("labels.csv"),
                self.path("model"),
                targets=["score"],
                direction="minimize",
                **self.where,
            )
            assert isinstance(report, FitReport)
            self.progress.note(str(replace(report, inputs=())))  # how labels are read has been told

    def screen(self) -> list[dict[str, Any]]:
        """Find the hits; return the first ten."""
        with self.timed("screen"):
            hits = self.path("hits.parquet")
            screen(
                self.path("model"),
                self.path("features"),
                hits,
                k=1000,
                exclude_labelled=True,
                **self.where,
            )
            return read_hits(hits, 10)

    def predict(self) -> LibraryPredictions:
        """Predict every molecule."""
        with self.timed("predict"):
            predict(
                self.path("model"), self.path("features"), self.path("predictions"), std=True, **self.where
            )
            return read_predictions(self.path("predictions"))

    def evaluate(self, hits: list[dict[str, Any]], predictions: LibraryPredictions) -> QuickstartReport:
        """Score everything, and compare."""
        with self.timed("truth"):
            molecules = read_molecules(self.path("fingerprints"))
            truth = self.score("truth of the whole library", molecules.smiles)
            write_table(
                self.path("truth.parquet"), {"row": molecules.row, "id": molecules.id, "score": truth}
            )
        with self.timed("picture"):
            by_row = dict(zip(molecules.row.tolist(), truth.tolist(), strict=True))
            for hit in hits:
                hit["truth"] = by_row[hit["row"]]
            unseen = np.setdiff1d(np.arange(len(truth)), self.labelled)
            rest = HeldOut(truth[unseen], predictions.mean[unseen], predictions.std[unseen])
            found = recovery(-rest.truth, -rest.mean, _N_BEST)  # lower scores are better
            quality = calibration_report(rest.truth, rest.mean, rest.std)
            plot_screen(self.path("hits.png"), rest, found, quality.r2, "score (lower is better)")
        return QuickstartReport(
            directory=self.directory,
            n=len(truth),
            n_labelled=self.n_labelled,
            hits=hits,
            recovery=found,
            calibration=quality,
            seconds=self.seconds,
        )

    def score(self, stage: str, smiles: Sequence[str]) -> npt.NDArray[np.float64]:
        """Compute the objective of every SMILES string."""
        return np.asarray(self.in_parallel(stage, _scores, smiles))

    def in_parallel(
        self, stage: str, function: Callable[..., list[Any]], items: Any, *arguments: Any
    ) -> list[Any]:
        """Apply `function` to slices of `items` on the workers and join the lists it returns."""
        starts = range(0, len(items), _MOLECULES_PER_TASK)
        prefix = f"quickstart-{stage.replace(' ', '-')}-{time.time_ns()}"  # never a result of an earlier run
        tasks = [
            Task(f"{prefix}-{start}", (items[start : start + _MOLECULES_PER_TASK], *arguments))
            for start in starts
        ]
        results: dict[str, list[Any]] = {}
        self.progress.start(stage, len(items), "molecules")
        for task, result in run_tasks(function, tasks, self.client):
            results[task.key] = result
            self.progress.advance(len(result))
        self.progress.finish()
        return [item for task in tasks for item in results[task.key]]


def _library_lines(indexes: range, seed: int) -> list[str]:
    products = ReactionLibrary(seed).iterate(indexes.start, indexes.stop)
    return [f"{smiles} {name}\n" for smiles, name in products]


def _scores(smiles: Sequence[str]) -> list[float]:
    return objective.score(smiles).tolist()


def _write_text(path: Path, text: str) -> None:
    """Write `path` whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text)
    temporary.replace(path)
