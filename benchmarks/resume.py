"""How long a driver looks at a store of many partitions before it goes on: a part of ``scale.py``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from daskrf import status
from daskrf.files.backend import as_path
from daskrf.molecules import rdkit_version
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import CommitRecord

__all__ = ["multiply", "scan_times"]


def multiply(template: FingerprintStore, path: Path, n: int) -> FingerprintStore:
    """Make a store of `n` partitions, each a copy of partition 0 of `template`, and return it.

    Files are hard links, which a scan cannot tell from files; commit records are written one by one, by
    `CommitRecord` itself. The rows of the partitions are counted on in the plan.
    """
    library = dict(template.spec["library"])
    first = template.partition_rows(0)
    library["partitions"] = [[first * p, first * (p + 1), library["partitions"][0][2]] for p in range(n)]
    store = FingerprintStore.new(
        path,
        library=library,
        fingerprint=template.spec["fingerprint"],
        n_columns=template.n_columns,
        partitions=[{"start": first * p, "stop": first * (p + 1)} for p in range(n)],
        rdkit_version=rdkit_version(),
    )
    record = template.record(0)
    for name in ("rows", "_commits"):
        (path / name).mkdir()
    for p in range(n):
        number = store.partition_name(p)
        objects = []
        for item in record.objects:
            target = item.path.replace("000000", number)
            (path / target).parent.mkdir(parents=True, exist_ok=True)
            os.link(template.path / item.path, path / target)
            objects.append(item._replace(path=target))
        mine = CommitRecord(tuple(objects), p, store.spec_hash, record.counts)
        store.record_path(p).write_bytes(mine.to_json())
    return store


def scan_times(store: FingerprintStore) -> dict[str, Any]:
    """Return the seconds of what a driver does to a store that is there already."""
    path = store.path
    objects = len(store.record(0).objects)
    return {
        "partitions": store.n_partitions,
        "objects_per_partition": objects,
        "plan_bytes": (path / "_plan.json").stat().st_size,
        "open_s": _seconds(lambda: FingerprintStore.open(as_path(path))),
        "pending_s": _seconds(store.pending),
        "counts_s": _seconds(store.counts),
        "clean_s": _seconds(store.clean),
        "status_s": _seconds(lambda: status(path)),
    }


def _seconds(call: Callable[[], object], rounds: int = 3) -> float:
    """Return the shortest of some calls: what the machine does besides only adds."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)
