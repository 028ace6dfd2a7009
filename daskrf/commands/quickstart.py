"""The whole pipeline on a library made on the spot, and how many of the best molecules it found."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client

from daskrf import seeds
from daskrf.commands.featurize import featurize
from daskrf.commands.fingerprint import fingerprint
from daskrf.commands.fit import FitReport, fit
from daskrf.commands.predict import predict
from daskrf.commands.screen import ScreenReport, screen
from daskrf.demo import objective
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.features import default_map
from daskrf.files.backend import as_path
from daskrf.gp import Calibration, calibration_report
from daskrf.molecules import FingerprintSpec
from daskrf.parameters import Command, Option
from daskrf.report.notebook import Shown
from daskrf.report.plots import HeldOut, plot_screen
from daskrf.report.recovery import Recovery, recovery
from daskrf.report.tabulation import shorten, text_table
from daskrf.storage.differences import differences
from daskrf.storage.hits import write_recorded
from daskrf.storage.outputs import guarded
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from daskrf.workers.execution import Task, run_tasks
from daskrf.workers.progress import Progress

_N_BEST = 100
_MOLECULES, _LABELLED = 20_000, 2_000


def check_sizes(molecules: int | None, labelled: int | None) -> None:
    """Refuse a quickstart that is too small to tell how many of the best molecules were found."""
    molecules = _MOLECULES if molecules is None else molecules
    labelled = _LABELLED if labelled is None else labelled
    if labelled < 20 or molecules - labelled < 2 * _N_BEST:
        raise InputError(
            f"A quickstart needs at least 20 labelled molecules and {2 * _N_BEST} others, "
            f"not {labelled} labelled of {molecules}."
        )


CLI = Command(
    "daskrf quickstart",
    step=0,
    options={
        "molecules": Option("-n", least=100),
        "labelled": Option(least=20),
        "n_components": Option(least=1),
        "seed": Option(least=0),
    },
    resumable=True,
    check=check_sizes,
)
_SELECTED = (100, 500, 1000)
_MOLECULES_PER_TASK = 1000


@dataclass(frozen=True)
class QuickstartReport(Shown):
    """What :func:`quickstart` did and found; print it to see the whole report.

    Attributes
    ----------
    directory : Path
        Where everything is.
    n, n_labelled : int
        Molecules in the library, and how many of them had a label.
    hits : list of dict
        The top of the hit list: ``id``, ``smiles``, ``mean``, ``std_y``, ``truth``.
    recovery : Recovery
        How many of the best 100 molecules without a label are found along the model's ranking.
    calibration : Calibration
        Errors and error bars for the molecules without a label.
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
        recovered = self.recovery
        hits = [
            (i, hit["id"], hit["mean"], hit["std_y"], hit["truth"], shorten(hit["smiles"], 60))
            for i, hit in enumerate(self.hits, start=1)
        ]
        lines = [
            f"The best {len(hits)} of {recovered.n:,} molecules without a label, predicted from "
            f"{self.n_labelled:,} labels (lower is better):",
            text_table(["", "ID", "predicted", "± std", "truth", "SMILES"], hits),
            "",
            f"Of the truly best {recovered.n_best} of the {recovered.n:,} molecules without a label,",
        ]
        lines += [
            f"  {recovered.fraction(k) * recovered.n_best:3.0f} are among the first {k:,} of the ranking "
            f"({recovered.enrichment(k):.0f} times as many as by chance)"
            for k in _SELECTED
            if k < recovered.n
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
    molecules: int = _MOLECULES,
    labelled: int = _LABELLED,
    n_components: int = 4096,
    seed: int = 0,
    client: Client | None = None,
    progress: Progress | None = None,
) -> QuickstartReport:
    """Run the whole pipeline on a demonstration library.

    Makes a library by reactions of building blocks, as make-on-demand vendors do, and scores a random part of
    it with a computed objective that stands in for docking (lower is better). Runs fingerprint, featurize,
    fit, predict and screen on it. Then scores all molecules, to show how many of the truly best ones were
    found. A second run keeps what is done.

    Parameters
    ----------
    directory : path
        Directory for all output: library.smi, labels.csv, the stores, the model, hits.parquet, truth.parquet
        and hits.png.
    molecules : int
        Size of the library.
    labelled : int
        How many of the molecules to score.
    n_components : int
        Number of features, one bit each.
    seed : int
        Seed of every random choice.
    client, progress
        As in `fingerprint`.

    Raises
    ------
    InputError
        If `labelled` leaves fewer than 200 molecules without a label, or `directory` holds a quickstart
        with other parameters.

    Examples
    --------
    >>> from daskrf import quickstart
    >>> print(quickstart("demo", molecules=2000, labelled=500))  # doctest: +SKIP
    """
    check_sizes(molecules, labelled)
    as_path(directory)  # refuses a name that no store could hold
    run = _Run(Path(directory), client, progress or Progress())
    run.begin({"molecules": molecules, "labelled": labelled, "n_components": n_components, "seed": seed})
    run.make_library(molecules, seed)
    store, labels, model, features = map(run.path, ("fingerprints", "labels.csv", "model", "features"))
    here: dict[str, Any] = {"client": client, "progress": run.progress}
    with run.timed("fingerprint"):
        # For features this kind is better than the default; see docs/maps.md.
        fingerprint([run.path("library.smi")], store, spec=FingerprintSpec("morgan"), **here)
    with run.timed("featurize"):
        feature_map = default_map().set_params(n_components=n_components, random_state=seed)
        featurize(store, feature_map, features, **here)
    with run.timed("label"):
        library = _whole(FingerprintStore.open(store), ["row", "id", "smiles"])
        chosen = run.label(library, labelled, seed)
    with run.timed("fit"):
        fitted = fit(features, labels, model, target="score", direction="minimize", **here)
        assert isinstance(fitted, FitReport)
        run.progress.note(
            str(replace(fitted, inputs=()))
        )  # how the labels were read has been printed already
    with run.timed("screen"):
        best = screen(model, features, run.path("hits.parquet"), k=1000, exclude_labelled=True, **here)
        assert isinstance(best, ScreenReport)
    with run.timed("predict"):
        predict(model, features, run.path("predictions"), **here)
    return run.evaluate(library, chosen, best.table.slice(0, 10).to_pylist())


@dataclass
class _Run:
    """What the stages of one quickstart share."""

    directory: Path
    client: Client | None
    progress: Progress
    seconds: dict[str, float] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        return self.directory / name

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - begun

    def begin(self, wanted: dict[str, int]) -> None:
        """Make the directory, or check that it holds a quickstart with these parameters."""
        settings = self.path("quickstart.json")
        if settings.exists():
            there = json.loads(settings.read_text())
            if there != wanted:
                raise InputError(
                    f"{self.directory} holds a quickstart with other options: {differences(there, wanted)}; "
                    "name another directory, or delete this one."
                )
            self.progress.note(f"{self.directory} already exists; finished work is kept.")
        self.directory.mkdir(parents=True, exist_ok=True)
        # A run killed as it began has left its settings half written.
        unfinished = (settings.name, f"{settings.name}.part")
        if not settings.exists() and any(item.name not in unfinished for item in self.directory.iterdir()):
            raise InputError(f"{self.directory} holds other files; name another directory.")
        _write_text(settings, json.dumps(wanted, indent=1) + "\n")  # first, so that a second run knows it

    def make_library(self, n: int, seed: int) -> None:
        """Write random molecules of the make-on-demand space, unless they are there."""
        if not self.path("library.smi").exists():
            with self.timed("make library"):
                lines = self.in_parallel("make library", _library_lines, range(n), seed)
                text = "smiles name\n" + "".join(lines)
                self.write("library.smi", lambda file: file.write_text(text), "molecules of a quickstart")

    def label(self, library: pa.Table, n: int, seed: int) -> npt.NDArray[np.int64]:
        """Score some molecules, as if each score were expensive; return their positions."""
        if library.num_rows < n + 2 * _N_BEST:
            raise InputError(
                f"Only {library.num_rows} molecules of {self.path('library.smi')} could be read."
            )
        generator = seeds.generator(seed, "quickstart/labels")
        chosen = np.sort(generator.choice(library.num_rows, n, replace=False))
        scored = library.take(chosen)
        scores = self.score("label", scored["smiles"].to_pylist()).tolist()
        rows = (f"{name},{score!r}\n" for name, score in zip(scored["id"].to_pylist(), scores, strict=True))
        text = "id,score\n" + "".join(rows)
        self.write("labels.csv", lambda file: file.write_text(text), "scores of some of them")
        return chosen

    def evaluate(
        self, library: pa.Table, chosen: npt.NDArray[np.int64], hits: list[dict[str, Any]]
    ) -> QuickstartReport:
        """Score everything, and compare with the predictions for the molecules without a label."""
        predictions = _whole(PredictionStore.open(self.path("predictions")), ["mean", "std_y"])
        with self.timed("truth"):
            truth = self.score("truth of the whole library", library["smiles"].to_pylist())
            table = pa.table({"row": library["row"], "id": library["id"], "score": truth})
            contents = "scores of all molecules"
            self.write(
                "truth.parquet", lambda file: pq.write_table(table, file, compression="zstd"), contents
            )
        with self.timed("picture"):
            for hit in hits:
                hit["truth"] = float(truth[np.searchsorted(library["row"].to_numpy(), hit["row"])])
            rest = np.setdiff1d(np.arange(len(truth)), chosen)
            mean, std = (predictions[name].to_numpy()[rest] for name in ("mean", "std_y"))
            ranking = recovery(-truth[rest], -mean, _N_BEST)  # lower scores are better
            quality = calibration_report(truth[rest], mean, std)
            held_out = HeldOut(truth[rest], mean, std)

            def plot(file: Path) -> None:
                plot_screen(file, held_out, ranking, quality.r2, quantity="score (lower is better)")

            self.write("hits.png", plot, "picture of the screen")
        return QuickstartReport(self.directory, len(truth), len(chosen), hits, ranking, quality, self.seconds)

    def write(self, name: str, write: Callable[[Path], object], what: str) -> None:
        """Write a file, unless somebody has changed the one that is there."""
        path = self.path(name)
        before = guarded(path, overwrite=True)
        write_recorded(path, write, {"made": what}, "quickstart", before)

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
        results: dict[str, list[object]] = {}
        self.progress.start(stage, len(items), "molecules")
        for task, result in run_tasks(function, tasks, self.client):
            results[task.key] = result
            self.progress.advance(len(result))
        self.progress.finish()
        return [item for task in tasks for item in results[task.key]]


def _whole(store: FingerprintStore | PredictionStore, columns: list[str]) -> pa.Table:
    """Return some columns of all rows of a store."""
    read = store.read if isinstance(store, PredictionStore) else store.read_rows
    return pa.concat_tables([read(partition, columns) for partition in range(store.n_partitions)])


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
