"""Look into stores, and mend them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from distributed import Client

from daskrf.commands.featurize import FeaturizeStage
from daskrf.commands.fingerprint import FingerprintStage
from daskrf.errors import InputError, StoreError
from daskrf.jobs.maps import rebuild
from daskrf.jobs.partitions import PartitionStage, complete
from daskrf.jobs.progress import Progress
from daskrf.jobs.sources import FingerprintSource, planned_rows
from daskrf.molecules import Library
from daskrf.paths import as_path
from daskrf.storage import inspect
from daskrf.storage.checked import believed
from daskrf.storage.features import FeatureStore
from daskrf.storage.files import remove_quietly, work_folder
from daskrf.storage.fingerprints import FingerprintStore
from daskrf.storage.lock import StoreLock
from daskrf.storage.plans import MODEL_FILE
from daskrf.storage.predictions import PredictionStore
from daskrf.storage.store import Store

__all__ = ["VerifyReport", "status", "verify"]

Paths = str | os.PathLike[str]


def _partitions(numbers: tuple[int, ...]) -> str:
    """Partitions in words, as "partition 0" or "partitions 1, 4"."""
    return f"partition{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def status(store: Paths) -> inspect.StoreStatus:
    """Say what a store, a model or hits hold, who is at work on them, and how far they are.

    Raises
    ------
    StoreError
        If there is no store, or it is of an unknown format version.
    """
    return inspect.status(store)


@dataclass(frozen=True)
class VerifyReport:
    """What `verify` found in the end, and which partitions it made again before.

    Attributes
    ----------
    found : daskrf.storage.inspect.VerifyReport
    repaired : tuple of int
    """

    found: inspect.VerifyReport
    repaired: tuple[int, ...] = ()

    @property
    def damaged(self) -> dict[int, list[str]]:
        """Partitions whose digests do not match, and what is wrong with each."""
        return self.found.damaged

    @property
    def missing(self) -> tuple[int, ...]:
        """Partitions that were never finished, or were taken out."""
        return self.found.missing

    def __str__(self) -> str:
        made = f"made again: {_partitions(self.repaired)}\n" if self.repaired else ""
        return made + str(self.found)


def verify(
    store: Paths, *, repair: bool = False, client: Client | None = None, progress: Progress | None = None
) -> VerifyReport:
    """Check every digest of a store; with `repair`, make what is damaged or missing again, and only that.

    Raises
    ------
    StoreError
        If there is no store, or, with `repair`, something else has to be run: a model is fitted again, and
        predictions are made again from the model and the library, which they do not know.
    """
    progress = progress or Progress()
    found = _checked(store, progress)
    if not repair or not (found.damaged or found.missing):
        return VerifyReport(found)
    if inspect.kind_of(store) == "predictions":
        _take_out(PredictionStore.open(store), found.damaged)
        raise StoreError(
            f"{len(found.damaged) + len(found.missing)} partitions of {store} are damaged (taken out now) or "
            "missing; run the same daskrf predict command again, which makes just those."
        )
    work = work_folder(as_path(store))
    with StoreLock(store, "daskrf verify --repair", tell=progress.note):
        stage, opened, rows = _repair_stage(as_path(store), work)
        _take_out(opened, found.damaged)
        complete(stage, opened, rows, client=client, progress=progress)
        remove_quietly(work)
    again = _checked(store, progress)
    if again.damaged:
        raise StoreError(f"{store} is still damaged after the repair; look for a failing disk.")
    return VerifyReport(again, tuple(sorted({*found.damaged, *found.missing})))


def _checked(store: Paths, progress: Progress) -> inspect.VerifyReport:
    progress.start("verify", inspect.status(store).n_partitions, "partitions")
    found = inspect.verify(store, on_partition=lambda _: progress.advance(1))
    progress.finish()
    return found


def _check_inputs(store: FingerprintStore) -> None:
    """Refuse to repair from input files that are not those that the store was made from."""
    with believed(store.path):
        sources = Library.from_state(store.spec["library"]).sources
    for source in sources:
        path = as_path(source.path)
        if not path.is_file():
            raise InputError(
                f"{path} is not there any more, and {store.path} was made from it; bring it back."
            )
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != source.sha256:
            raise InputError(
                f"{path} has changed since {store.path} was made from it; bring the old file back."
            )


def _take_out(store: Store, partitions: Iterable[int]) -> None:
    for partition in partitions:
        store.discard(partition)


def _repair_stage(
    path: Path, work: Path
) -> tuple[PartitionStage, FingerprintStore | FeatureStore, list[int]]:
    """Return what makes partitions of the store at `path`."""
    kind = inspect.kind_of(path)
    if kind == "fingerprints":
        fingerprints = FingerprintStore.open(path)
        _check_inputs(fingerprints)
        stage = FingerprintStage(str(path.resolve()), fingerprints.spec_hash, strict=False)
        return stage, fingerprints, planned_rows(fingerprints)
    if kind == "features":
        features = FeatureStore.open(path)
        origin = features.source()
        source = FingerprintSource.of(origin, rebuild(features.spec["map"]), features.spec["dtype"] == "bits")
        return (
            FeaturizeStage(
                source.carried(work), str(path.resolve()), features.spec_hash, features.spec["dtype"]
            ),
            features,
            planned_rows(origin),
        )
    raise StoreError(
        f"{path} is a damaged model, which is one file; delete {path / MODEL_FILE} and fit again."
    )
