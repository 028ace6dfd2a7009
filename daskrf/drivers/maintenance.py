"""Look into stores, and mend them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from distributed import Client

from daskrf.drivers.featurizing import FeaturizeStage
from daskrf.drivers.fingerprinting import FingerprintStage
from daskrf.drivers.partitions import PartitionStage, complete
from daskrf.drivers.progress import Progress
from daskrf.drivers.sources import FingerprintSource, planned_rows, rebuild
from daskrf.errors import StoreError
from daskrf.stores import inspect
from daskrf.stores.features import FeatureStore
from daskrf.stores.fingerprints import FingerprintStore
from daskrf.stores.predictions import PredictionStore
from daskrf.stores.store import Store

__all__ = ["VerifyReport", "status", "verify"]

Paths = str | os.PathLike[str]


def status(store: Paths) -> inspect.StoreStatus:
    """Say what a store or model holds: partitions, rows, rejects, bytes, and the map in words.

    Raises
    ------
    StoreError
        If there is no store, or it is of an unknown format version.
    """
    return inspect.status(store)


@dataclass(frozen=True)
class VerifyReport:
    """What `verify` found, and which partitions it made again."""

    found: inspect.VerifyReport
    repaired: tuple[int, ...] = ()

    @property
    def damaged(self) -> dict[int, list[str]]:
        """Partitions whose digests do not match, and what is wrong with each."""
        return self.found.damaged

    def __str__(self) -> str:
        lines = [str(self.found)]
        if self.repaired:
            lines.append(f"{len(self.repaired)} partitions were made again and are whole now.")
        return "\n".join(lines)


def verify(
    store: Paths, *, repair: bool = False, client: Client | None = None, progress: Progress | None = None
) -> VerifyReport:
    """Check every digest of a store; with `repair`, make the damaged partitions again, and only those.

    Raises
    ------
    StoreError
        If there is no store, or, with `repair`, something else has to be run: a model is fitted again, and
        predictions are made again from the model and the library, which they do not know.
    """
    found = inspect.verify(store)
    if not repair or not found.damaged:
        return VerifyReport(found)
    if inspect.kind_of(store) == "predictions":
        _take_out(PredictionStore.open(store), found.damaged)
        raise StoreError(
            f"The {len(found.damaged)} damaged partitions of {store} were taken out; run the same daskrf "
            "predict command again, which makes just those."
        )
    stage, opened, rows = _repair_stage(Path(store))
    _take_out(opened, found.damaged)
    complete(stage, opened, rows, client=client, progress=progress)
    again = inspect.verify(store)
    if again.damaged:
        raise StoreError(f"{store} is still damaged after the repair; look for a failing disk: {again}")
    return VerifyReport(found, tuple(sorted(found.damaged)))


def _take_out(store: Store, partitions: Iterable[int]) -> None:
    for partition in partitions:
        store.discard(partition)


def _repair_stage(path: Path) -> tuple[PartitionStage, FingerprintStore | FeatureStore, list[int]]:
    """Return what makes partitions of the store at `path`."""
    kind = inspect.kind_of(path)
    if kind == "fingerprints":
        fingerprints = FingerprintStore.open(path)
        stage = FingerprintStage(str(path.resolve()), fingerprints.spec_hash, strict=False)
        return stage, fingerprints, planned_rows(fingerprints)
    if kind == "features":
        features = FeatureStore.open(path)
        origin = features.source()
        source = FingerprintSource.of(origin, rebuild(features.spec["map"]), features.spec["dtype"] == "bits")
        return (
            FeaturizeStage(source, str(path.resolve()), features.spec["dtype"]),
            features,
            planned_rows(origin),
        )
    raise StoreError(f"{path} is a damaged model, which is one piece; delete it and fit again.")
