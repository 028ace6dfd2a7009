"""One flipped bit, anywhere in anything that a job leaves: one sentence, or the very same result.

`DASKRF_FLIPS=10000 pytest -s tests/jobs/test_flips.py` flips as many and prints what came of each kind of
file; a failure names the file, the byte and the bit.
"""

from __future__ import annotations

import bz2
import dataclasses
import hashlib
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from daskrf import TanimotoDotProductFeatures, featurize, fingerprint, fit, predict, screen
from daskrf.errors import DaskrfError, StoreError
from daskrf.jobs.job import Run
from daskrf.jobs.shards import PLAN, Shard, Share, agree
from daskrf.measurements import Reading
from daskrf.models.joinedlabels import kept_arrays, labels_of
from daskrf.models.models import read_model
from daskrf.models.modelsource import source_for
from daskrf.sources.inputs import Input
from daskrf.sources.mapreference import MapReference
from daskrf.sources.smiles import planned_library
from daskrf.storage.lock import StoreLock
from daskrf.storage.model import load_model, read_checkpoint, write_checkpoint
from daskrf.storage.outputs import earlier_output
from daskrf.storage.runlog import job_of
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from daskrf.storage.stores.store import Store
from daskrf.tables import Library, read_partition, scan
from tests.jobs.job import FEATURES

FLIPS = int(os.environ.get("DASKRF_FLIPS", "400"))
ROWS = 80
WORK = ".work.daskrf"  # what runs on the output `work` leave to each other
LABELS = Reading()
STATE = {"class": "Any", "parameters": {"text": "x" * 5_000}}  # so long that tasks do not carry it


@dataclass(frozen=True)
class Kind:
    """Files of one kind, below the folder of the job, and what returns all that is read of them."""

    pattern: str
    read: Callable[[Path], Any]
    shown_only: bool = False  # nothing depends on it: what is read may differ
    unread: bool = False  # what is read need not depend on it


def of_store(store: Store, p: int) -> list[Any]:
    record = store.record(p)
    return [
        store.kind,
        store.spec,
        store.spec_hash,
        store.partitions,
        store.provenance,
        record,
        store.counts(),
    ]


def fingerprints(root: Path) -> list[Any]:
    store = FingerprintStore.open(root / "fp")
    found: list[Any] = []
    for p in range(store.n_partitions):
        rows = store.read_fingerprints(p)
        found += [rows.shape, rows.indptr, rows.indices, rows.data, store.read_rows(p), store.read_rejects(p)]
        found += of_store(store, p)
    return found


def features(name: str) -> Callable[[Path], list[Any]]:
    def read(root: Path) -> list[Any]:
        store = FeatureStore.open(root / name)
        found: list[Any] = [store.source().spec_hash]
        for p in range(store.n_partitions):
            found += [store.read(p), *store.blocks(p), store.read_rows(p), *of_store(store, p)]
        return found

    return read


def predictions(root: Path) -> list[Any]:
    store = PredictionStore.open(root / "pred")
    found: list[Any] = []
    for p in range(store.n_partitions):
        found += [store.read(p), store.read_rejects(p), *of_store(store, p)]
    return found


def model(name: str) -> Callable[[Path], list[Any]]:
    def read(root: Path) -> list[Any]:
        found, stored = read_model(root / name), load_model(root / name)
        return [found.metadata, found.gp.state(), found.gp.mean_, stored.arrays, stored.provenance]

    return read


def checkpoint(root: Path) -> list[Any]:
    found = read_checkpoint(root / WORK / "draw", "draw")
    if found is None:
        raise StoreError("it is made again")
    return [found.metadata, found.arrays]


def labels(root: Path) -> list[Any]:
    (folder,) = (root / WORK).glob("labels-*")
    found = labels_of(root / "labels.csv", FingerprintStore.open(root / "fp"), root / WORK, LABELS)
    return [str(found.joined), found.joined.digest, *kept_arrays(folder)]


def smiles(root: Path) -> list[Any]:
    planned = planned_library(root / WORK)
    run = Run(root / "work", Share(Shard(0, 1)))
    source = source_for(run, read_model(root / "model"), Input(root / "library.smi.bz2"))
    run.agree({"rows": 3, "seed": 0})
    tables = [source.rejects(p) for p in range(len(source.partition_rows))]
    return [planned and planned.state(), source.partition_rows, tables]


def spool(root: Path) -> list[Any]:
    library = Library.from_state(FingerprintStore.open(root / "fp").spec["library"])
    batches = [b for p in (2, 3) for b in read_partition(library, p, root / "spool")]
    return [(b.row, b.line, b.id, b.smiles) for b in batches]


def hits(root: Path) -> list[Any]:
    found = earlier_output(root / "hits.parquet")
    assert found is not None
    if not found.about:
        found.refuse_other({}, "another library")
    return [found.about, found.table]


def lock(root: Path) -> list[Any]:
    try:
        with StoreLock(root / "locked"):
            return ["it was taken"]
    except StoreError:
        return ["it is held"]


def log(root: Path) -> list[Any]:
    job = job_of(root / "fp")
    lines = job.lines() if job is not None else []
    assert all(line.isprintable() for line in lines)
    return lines


def map_of_tasks(root: Path) -> list[Any]:
    (path,) = (root / WORK).glob("map-*")
    return [dataclasses.replace(MapReference.of(STATE), text="", path=str(path)).state]


KINDS = {
    "plan of fingerprints": Kind("fp/_plan.json", fingerprints),
    "record of fingerprints": Kind("fp/_commits/*.json", fingerprints),
    "metadata of fingerprints": Kind("fp/data/*/*/zarr.json", fingerprints),
    "metadata of groups": Kind("fp/data/*/zarr.json", fingerprints, unread=True),
    "chunks of fingerprints": Kind("fp/data/**/c/*", fingerprints),
    "rows": Kind("fp/rows/*.parquet", fingerprints),
    "rejects": Kind("fp/_rejects/*.parquet", fingerprints),
    "plan of features": Kind("phi/_plan.json", features("phi")),
    "record of features": Kind("phi/_commits/*.json", features("phi")),
    "metadata of bits": Kind("phi/**/zarr.json", features("phi"), unread=True),
    "chunks of bits": Kind("phi/phi/c.*", features("phi")),
    "rows of features": Kind("phi/rows/*.parquet", features("phi")),
    "metadata of floats": Kind("floats/**/zarr.json", features("floats"), unread=True),
    "chunks of floats": Kind("floats/phi/c.*", features("floats")),
    "plan of predictions": Kind("pred/_plan.json", predictions),
    "record of predictions": Kind("pred/_commits/*.json", predictions),
    "predictions": Kind("pred/*.parquet", predictions),
    "rejects of predictions": Kind("pred/_rejects/*.parquet", predictions),
    "record of a model": Kind("model/_arrays.json", model("model")),
    "metadata of a model": Kind("model/arrays-*/**/zarr.json", model("model"), unread=True),
    "chunks of a model": Kind("model/arrays-*/**/c*", model("model")),
    "record of an exact model": Kind("exact/_arrays.json", model("exact")),
    "chunks of an exact model": Kind("exact/arrays-*/**/c*", model("exact")),
    "record of a checkpoint": Kind(f"{WORK}/draw/_arrays.json", checkpoint),
    "chunks of a checkpoint": Kind(f"{WORK}/draw/arrays-*/**/c*", checkpoint),
    "map": Kind(f"{WORK}/map-*/_arrays.json", map_of_tasks),
    "joined labels": Kind(f"{WORK}/labels-*/*", labels),
    "library of SMILES files": Kind(f"{WORK}/library.json", smiles),
    "agreement of shards": Kind(f"{WORK}/shards.json", smiles),
    "rejects of SMILES files": Kind(f"{WORK}/rejects/*/**/[_c]*", smiles),
    "spool": Kind("spool/*/*.zst", spool),
    "hits": Kind("hits.parquet", hits),
    "lock": Kind("locked/.lock", lock, unread=True),
    "run log": Kind("fp.log/*.jsonl", log, shown_only=True, unread=True),
}


@pytest.fixture(scope="module")
def job(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All that a small job leaves in the end, and on the way."""
    root = tmp_path_factory.mktemp("flips")
    lines = inputs[0].read_text().splitlines(keepends=True)[:ROWS]
    library = root / "library.smi.bz2"
    library.write_bytes(bz2.compress("".join([*lines, "C1CC bad"]).encode()))
    shutil.copy(inputs[1], root / "labels.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("daskrf.tables.spool.CHUNK_ROWS", 30)
        fingerprint(library, root / "fp", rows_per_partition=25)
        featurize(root / "fp", FEATURES, root / "phi")
        featurize(root / "fp", TanimotoDotProductFeatures(64, random_state=0), root / "floats")
        fit(root / "phi", root / "labels.csv", root / "model")
        fit(root / "fp", root / "labels.csv", root / "exact", process="exact", solver="cg", n_draws=4)
        predict(root / "model", library, root / "pred")
        screen(root / "model", root / "phi", root / "hits.parquet", k=5, maximize=True)
        scan(library, rows_per_partition=25, spool=root / "spool")
        labels_of(root / "labels.csv", FingerprintStore.open(root / "fp"), root / WORK, LABELS).keep()
        write_checkpoint(root / WORK / "draw", {"weights": np.arange(500.0)}, {}, "draw")
        source = source_for(
            Run(root / "work", Share(prepare=True)), read_model(root / "model"), Input(library)
        )
        for p in range(len(source.partition_rows)):
            list(source.blocks(p))
        agree(Share(Shard(0, 1)), root / WORK / PLAN, {"rows": 3, "seed": 0})
        MapReference.of(STATE).carried(root / WORK)
        held = StoreLock(root / "locked", "daskrf fit")
        held.__enter__()
        yield root
        held.__exit__(None, None, None)


def digest(value: Any) -> str:
    """A digest of nested lists of arrays, tables and plain values."""
    found = hashlib.sha256()

    def add(item: Any) -> None:
        if isinstance(item, np.ndarray):
            found.update(f"{item.shape} {item.dtype}".encode() + np.ascontiguousarray(item).tobytes())
        elif isinstance(item, pa.Table):
            found.update(f"{item.schema} {item.to_pydict()}".encode())
        elif isinstance(item, dict):
            [add(entry) for entry in sorted(item.items(), key=lambda entry: str(entry[0]))]
        elif isinstance(item, (list, tuple)):
            found.update(f"{len(item)} of".encode())
            [add(entry) for entry in item]
        else:
            found.update(repr(item).encode())

    add(value)
    return found.hexdigest()


def outcome(kind: Kind, root: Path, expected: str) -> str:
    """What comes of reading: "refused" in one sentence, "harmless", "silent", or the error that it was."""
    try:
        found = digest(kind.read(root))
    except DaskrfError as error:
        return "refused" if str(error).isprintable() and len(str(error)) < 3_000 else f"refused: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "harmless" if found == expected or kind.shown_only else "silent"


def test_no_flipped_bit_is_silent(job: Path) -> None:
    rng = random.Random(FLIPS)
    counts = {name: Counter[str]() for name in KINDS}
    wrong = []
    files = {name: sorted(p for p in job.glob(kind.pattern) if p.is_file()) for name, kind in KINDS.items()}
    assert all(files.values()), [name for name in files if not files[name]]
    expected = {name: digest(kind.read(job)) for name, kind in KINDS.items()}
    for i in range(FLIPS):
        name = list(KINDS)[i % len(KINDS)]
        path = rng.choice(files[name])
        data = path.read_bytes()
        position, bit = rng.randrange(len(data)), rng.randrange(8)
        flipped = bytearray(data)
        flipped[position] ^= 1 << bit
        replaced(path, bytes(flipped))
        found = outcome(KINDS[name], job, expected[name])
        counts[name][found] += 1
        if found not in ("refused", "harmless"):
            wrong.append(f"{path.relative_to(job)}, byte {position}, bit {bit}: {found}")
        replaced(path, data)
    for name, count in counts.items():
        print(f"{name:28}", ", ".join(f"{number} {what}" for what, number in sorted(count.items())))
    print(f"{FLIPS} flips:", dict(sum(counts.values(), Counter())))
    assert wrong == []
    assert [name for name, kind in KINDS.items() if not (kind.unread or counts[name]["refused"])] == []
    assert {name: digest(kind.read(job)) for name, kind in KINDS.items()} == expected


def replaced(path: Path, data: bytes) -> None:
    """Write other bytes, by another file: the old one may be mapped into memory."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_bytes(data)
    os.replace(temporary, path)
