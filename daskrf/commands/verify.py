"""Check outputs, and repair stores."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from distributed import Client

from daskrf.commands.featurize import FeaturizeStage
from daskrf.commands.fingerprint import FingerprintStage
from daskrf.errors import InputError, StoreError
from daskrf.files.backend import absolute, as_path, backend, is_file
from daskrf.jobs.job import Job, Run, run
from daskrf.jobs.pieces import Partitions, Pieces
from daskrf.models.models import read_model
from daskrf.parameters import Command
from daskrf.report.notebook import Shown
from daskrf.sources.mapreference import rebuild
from daskrf.sources.sources import FingerprintSource, planned_rows
from daskrf.storage import inspection
from daskrf.storage.integrity import as_damage
from daskrf.storage.kinds import kind_of
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from daskrf.storage.stores.store import KIND_NAMES, Store
from daskrf.tables import Library
from daskrf.workers.progress import Progress

Paths = str | os.PathLike[str]

CLI = Command("daskrf verify real.fingerprints --repair", step=7, workers_for=lambda repair: bool(repair))


def _partitions(numbers: tuple[int, ...]) -> str:
    """Partitions in words, as "partition 0" or "partitions 1, 4"."""
    return f"partition{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


@dataclass(frozen=True)
class VerifyReport(Shown, inspection.VerifyReport):
    """What `verify` found in the end, and which partitions it made again.

    Attributes
    ----------
    repaired : tuple of int
        Partitions.
    """

    repaired: tuple[int, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 if something is damaged or missing, else 0."""
        return int(bool(self.damaged or self.missing))

    def __str__(self) -> str:
        made = f"made again: {_partitions(self.repaired)}\n" if self.repaired else ""
        return made + super().__str__()


def verify(
    store: Paths, *, repair: bool = False, client: Client | None = None, progress: Progress | None = None
) -> VerifyReport:
    """Check every byte of an output against its digests.

    Works on everything that a command has written. The exit code is 1 if something is damaged or missing and
    was not made again.

    Parameters
    ----------
    store : path
        A store, a model, or a file that a command has written.
    repair : bool
        Make damaged and missing partitions of fingerprints and features again, and only those. Damaged
        predictions are only removed; run predict again to make them.
    client, progress
        As in `fingerprint`.

    Raises
    ------
    StoreError
        If there is nothing at `store`. With `repair`, also if another command must be run: fit for a model,
        predict for predictions, screen for hits.
    """
    progress = progress or Progress()
    path = as_path(store)
    checked = _checked(path, progress)
    if not repair or not (checked.damaged or checked.missing):
        return VerifyReport(**vars(checked))
    if checked.kind == "predictions":
        _take_out(PredictionStore.open(path), checked.damaged)
        raise StoreError(
            f"{store}: {len(checked.damaged):,} damaged (now removed) and {len(checked.missing):,} missing "
            "partitions; run the same daskrf predict command again, which makes only these."
        )
    if checked.kind not in ("fingerprints", "features"):
        what = f"{KIND_NAMES[checked.kind]} and damaged"
        raise StoreError(
            f"{path} is {what}, which --repair cannot fix; {inspection.remedy(checked.kind, path)}."
        )
    return run(_Repair(path, checked), client, progress)


@dataclass
class _Repair(Job[VerifyReport]):
    """The job of a repair: removes damaged partitions and makes them again."""

    output: PurePath
    checked: inspection.VerifyReport
    partitions: Partitions = field(init=False)

    name = "verify --repair"

    def plan(self, run: Run) -> None:
        path = absolute(self.output)
        if kind_of(self.output) == "fingerprints":
            store = FingerprintStore.open(self.output)
            _check_inputs(store)
            stage = FingerprintStage(path, store.spec_hash, strict=False)
            self.partitions = Partitions(stage, store, planned_rows(store))
            return
        features = FeatureStore.open(self.output)
        origin, dtype = features.source(), features.spec["dtype"]
        source = FingerprintSource.of(origin, rebuild(features.spec["map"]), dtype == "bits")
        maker = FeaturizeStage(source.carried(run.work), path, features.spec_hash, dtype)
        self.partitions = Partitions(maker, features, planned_rows(features))

    def pieces(self, run: Run) -> list[Pieces]:
        _take_out(self.partitions.store, self.checked.damaged)
        return [self.partitions]

    def finish(self, run: Run, made: int) -> VerifyReport:
        """Check everything again."""
        again = _checked(self.output, run.progress)
        if again.damaged:
            raise StoreError(f"{self.output} is still damaged after the repair; look for a failing disk.")
        repaired = tuple(sorted({*self.checked.damaged, *self.checked.missing}))
        return VerifyReport(**vars(again), repaired=repaired)


def _checked(store: PurePath, progress: Progress) -> inspection.VerifyReport:
    try:
        there = inspection.status(store)
    except StoreError as error:
        if kind_of(store, missing_ok=True) != "model":
            raise
        return inspection.VerifyReport(store, 1, {0: [str(error)]}, kind="model")
    if isinstance(there, inspection.FolderStatus):
        raise InputError(
            f"{store} is a folder; name one of its outputs, which `daskrf status {store}` lists."
        )
    progress.start("verify", there.n_partitions, "partitions" if there.kind in inspection.STORES else "files")
    report = inspection.verify(store, on_partition=lambda _: progress.advance(1))
    progress.finish()
    if report.kind == "model" and report.sound:
        try:
            read_model(store)  # what has the right digests may still make no sense
        except StoreError as error:
            return replace(report, damaged={0: [str(error)]})
    return report


def _check_inputs(store: FingerprintStore) -> None:
    """Refuse to repair if the input files are no longer those that the store was made from."""
    with as_damage(store.path):
        sources = Library.from_state(store.spec["library"]).sources
    for source in sources:
        path = as_path(source.path)
        if not is_file(path):
            raise InputError(f"{path}, from which {store.path} was made, no longer exists; restore it.")
        with backend(path).open(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != source.sha256:
            raise InputError(f"{path} has changed since {store.path} was made from it; restore the old file.")


def _take_out(store: Store, partitions: Iterable[int]) -> None:
    for partition in partitions:
        store.discard(partition)
