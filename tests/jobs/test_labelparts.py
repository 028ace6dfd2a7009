"""Labels joined in parts are those that are joined in one process, with all that is told of them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daskrf.errors import DaskrfError
from daskrf.fitting.costs import need_of_solve
from daskrf.jobs.job import Run
from daskrf.jobs.memory import LIBRARIES, Making
from daskrf.measurements import Reading
from daskrf.models import joinedlabels, labelled, labelparts
from daskrf.models.joinedlabels import labels_of
from daskrf.models.labelled import smiles_array_of_rows
from daskrf.models.labelparts import need_of_part
from daskrf.storage.model import load_model, save_model
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import CommitRecord, Store
from daskrf.tables.formats import streamed
from tests.storage.strategies import UNFOLDED, csr_of, new_store, rows_table

SEGMENT = 40
N_ROWS = 90
NAMES = [*(f"M{k:03d}" for k in range(60)), "7", "007", "1e3", "é", 'q"t', "c,d", "=1", "nan", "-", "0x10"]
ABSENT = ["zz", "M1", "m001", "07", "", "M0011"]
LIMITS = [">-6", "<-8.5", ">=-7", "~-7", "> 10", "<-99"]
UGLY = ["nan", "inf", "", "x", "1e400", "-0.0", "n/a"]


@pytest.fixture(autouse=True)
def quick_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@contextmanager
def small_parts() -> Iterator[None]:
    """Cut even few labels into parts, by blocks of rows as a large file is."""
    sizes = {"SEGMENT_ROWS": SEGMENT, "GROUP_ROWS": 50, "_RANGE_ROWS": 40, "_AT_ONCE": 32}
    with patch.object(joinedlabels, "MOST_AT_ONCE", 0), patch.multiple(labelparts, **sizes):
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FingerprintStore:
    """A library of five partitions, in which some IDs and SMILES are repeated."""
    rng = np.random.default_rng(1)
    names = [NAMES[k] for k in rng.integers(0, len(NAMES), N_ROWS)]
    cuts = [0, 20, 40, 41, 70, N_ROWS]
    new = new_store(
        tmp_path_factory.mktemp("library") / "s",
        partitions=[{"start": a, "stop": b} for a, b in pairwise(cuts)],
    )
    for p, (start, stop) in enumerate(pairwise(cuts)):
        table = rows_table(start, stop - start, names[start:stop])
        smiles = pa.array(["C" * (1 + NAMES.index(name)) for name in names[start:stop]])
        table = table.set_column(2, "smiles", smiles)
        new.write_partition(p, csr_of([{}] * (stop - start), UNFOLDED), table)
    return new


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set('",\n') else text


def written(
    path: Path,
    seed: int,
    n: int = 190,
    ugly: float = 0.1,
    limits: float = 0.0,
    values: Any = None,
    key: str = "id",
    last: str = "n",
) -> Path:
    """Write labels of two targets: several of some molecules, limits, and cells that are no numbers."""
    rng = np.random.default_rng(seed)
    y = rng.normal(-7, 1, (n, 2)).round(2) if values is None else values(rng, n)
    cells = [[value if isinstance(value, str) else f"{value:g}" for value in row] for row in y.tolist()]
    for share, texts in ((ugly, UGLY), (limits, LIMITS)):
        for k in np.flatnonzero(rng.random(2 * n) < share).tolist():
            cells[k // 2][k % 2] = texts[int(rng.integers(len(texts)))]
    names = [(NAMES + ABSENT)[k] for k in rng.integers(0, len(NAMES + ABSENT), n)]
    if key == "smiles":
        names = ["C" * (1 + NAMES.index(name)) if name in NAMES else "[CH2]O" for name in names]
    if key == "row":
        names = [str(k) for k in rng.integers(0, N_ROWS + 20, n)]
    lines = [
        f"{key},a,b,{last}",
        *(",".join(map(quoted, (*row, "3"))) for row in zip(names, *zip(*cells, strict=True), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def outcome(path: Path, store: FingerprintStore, folder: Path, *, parts: bool, **options: Any) -> Any:
    """Return everything that is known of joined labels, with the bytes they leave, or the refusal."""
    how = {name: options.pop(name) for name in ("poses", "direction") if name in options}
    reading = Reading(**{"key_column": 0, "targets": ("a",), "drop_non_numbers": True, **options})
    folder.mkdir()
    with patch.object(streamed, "BATCH_ROWS", SEGMENT):
        try:
            if parts:
                with small_parts():
                    files = labels_of(path, store, folder, reading, run=Run(folder / "model"), **how)
                assert files.there
                assert [each.name for each in folder.iterdir()] == [files.folder.name] or path.suffix == ".gz"
            else:
                files = labels_of(path, store, folder, reading, **how)
                files.keep()
        except DaskrfError as error:
            return str(error)
    saved = {each.name: each.read_bytes() for each in files.folder.iterdir()}
    arrays = vars(files.joined.labels).items()
    state = vars(files.joined) | {name: None if a is None else (a.dtype, a.tobytes()) for name, a in arrays}
    return {**state, "words": str(files.joined), "digest": files.joined.digest, "saved": saved}


def poses(rng: np.random.Generator, n: int) -> Any:
    return rng.normal(-7, 1, (n, 2)).round(2) + rng.choice([0, 3], (n, 1))


def failures(rng: np.random.Generator, n: int) -> Any:
    y = rng.normal(-7, 1, (n, 2)).round(2)
    y[n // 2 :: 31] = 999
    return y


def of_texts(*texts: str) -> Any:
    return lambda rng, n: rng.choice(texts, (n, 2))


def late_numbers(rng: np.random.Generator, n: int) -> Any:
    y = rng.integers(0, 2, (n, 2)).astype(float)
    y[-1, 0] = 2
    return y


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gaps of two targets": ({"ugly": 0.3}, {"targets": ("b", "a")}),
    "rows": ({"key": "row"}, {"key": "row"}),
    "SMILES, some of radicals": ({"key": "smiles"}, {"key": "smiles"}),
    "best": ({}, {"repeats": "best", "best": "minimize"}),
    "medians of two targets": ({"ugly": 0.3}, {"repeats": "median", "targets": ("a", "b")}),
    "means of measurements": ({}, {"replicates": "n"}),
    "poses": ({"values": poses, "ugly": 0.0}, {}),
    "poses of which the best counts": (
        {"values": poses, "last": "pose", "limits": 0.2},
        {"poses": True, "direction": "minimize"},
    ),
    "poses of which the best is unknown": ({"values": poses, "last": "pose"}, {"poses": True}),
    "failures": ({"values": failures}, {}),
    "failures that are kept": ({"values": failures}, {"accept_outliers": True}),
    "limits": ({"limits": 0.4}, {}),
    "limits of two targets": ({"limits": 0.3, "ugly": 0.3}, {"targets": ("a", "b")}),
    "best of limits": ({"limits": 0.6}, {"repeats": "best", "best": "minimize"}),
    "limits that are left out": ({"limits": 0.3}, {"censored": "drop"}),
    "limits taken as values": ({"limits": 0.3}, {"censored": "value"}),
    "limits alone": ({"values": of_texts(">-6", "<=-8.5"), "ugly": 0.0}, {}),
    "limits of concentrations": (
        {"values": lambda rng, n: rng.lognormal(3, 2, (n, 2)), "limits": 0.3},
        {"transform": "pIC50", "unit": "nM"},
    ),
    "classes": ({"values": lambda rng, n: rng.integers(0, 2, (n, 2))}, {"targets": ("a", "b")}),
    "classes in words": ({"values": of_texts("active", "inactive")}, {}),
    "numbers that begin like classes": ({"values": late_numbers, "ugly": 0.0}, {}),
    "no labels": ({"values": of_texts("nan", ""), "ugly": 0.0}, {}),
    "no number in a later segment": ({"ugly": 0.01}, {"drop_non_numbers": False}),
    "logarithms": (
        {"values": lambda rng, n: rng.lognormal(3, 2, (n, 2))},
        {"transform": "pIC50", "unit": "nM"},
    ),
}


REFUSED = ("failures", "limits alone", "no labels", "no number in a later segment")


@pytest.mark.parametrize("case", CASES)
def test_parts_are_joined_as_in_one_process(case: str, store: FingerprintStore, tmp_path: Path) -> None:
    how, options = CASES[case]
    path = written(tmp_path / "labels.csv", 0, **how)
    one, parts = (
        outcome(path, store, tmp_path / word, parts=word == "parts", **options) for word in ("one", "parts")
    )
    assert parts == one
    assert isinstance(one, str) == (case in REFUSED)


def test_other_files_are_joined_as_in_one_process(store: FingerprintStore, tmp_path: Path) -> None:
    path = written(tmp_path / "labels.csv", 3)
    plain = outcome(path, store, tmp_path / "plain", parts=False)
    packed = tmp_path / "labels.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert (
        outcome(packed, store, tmp_path / "packed", parts=True)["saved"]["labels.npy"]
        == plain["saved"]["labels.npy"]
    )
    lines = path.read_text().splitlines()
    # A row that begins in one segment and ends in the next one.
    lines[SEGMENT] = '"two\nlines",-7,-7,3'
    path.write_text("\n".join(lines) + "\n")
    for accept_rejects in (False, True):
        one, parts = (
            outcome(
                path,
                store,
                tmp_path / f"{word}{accept_rejects}",
                parts=word == "parts",
                accept_rejects=accept_rejects,
            )
            for word in ("one", "parts")
        )
        assert parts == one
        assert "two\\nlines" in one["words"] or one["unmatched"] > 5
    table = pa.table({"id": ["M001", "7", "zz", "M001"] * 30, "a": np.arange(120) / 7})
    pq.write_table(table, tmp_path / "labels.parquet", row_group_size=50)
    one, parts = (
        outcome(tmp_path / "labels.parquet", store, tmp_path / f"{word}-parquet", parts=word == "parts")
        for word in ("one", "parts")
    )
    assert parts == one


def test_a_join_that_is_killed_anywhere_goes_on(store: FingerprintStore, tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    path = written(tmp_path / "labels.csv", 5)
    one = outcome(path, store, tmp_path / "one", parts=False, repeats="mean")
    reading = Reading("id", key_column=0, targets=("a",), drop_non_numbers=True, repeats="mean")
    made, folder, publish, write = [], tmp_path / "parts", Store.publish, joinedlabels._written
    folder.mkdir()
    left = 0

    def struck(*arguments: Any, **keywords: Any) -> CommitRecord:
        nonlocal left
        if not left:
            raise Killed
        left -= 1
        record = publish(*arguments, **keywords)
        made.append((str(arguments[0].path), arguments[1]))
        return record

    def struck_write(*arguments: Any, **keywords: Any) -> dict[str, str]:
        nonlocal left
        digests = write(*arguments, **keywords)
        if not left:
            raise Killed
        left -= 1
        return digests

    with (
        small_parts(),
        patch.object(streamed, "BATCH_ROWS", SEGMENT),
        patch.object(Store, "publish", struck),
        patch.object(joinedlabels, "_written", struck_write),
    ):
        for run in range(40):
            left = run // 3 if run % 3 else 0
            try:
                files = labels_of(path, store, folder, reading, run=Run(folder / "model"))
                break
            except Killed:
                continue
    assert run > 5
    assert len(made) == len(set(made)), "nothing is made twice"
    assert {each.name: each.read_bytes() for each in files.folder.iterdir()} == one["saved"]
    assert labels_of(path, store, folder, reading).there


def test_what_a_hundred_million_labels_take() -> None:
    assert need_of_part(10**8, 1, 100_000).beside(LIBRARIES).total < 4 << 30
    solving = need_of_solve(Making(4096, 100_000, one_bit=True), 10**8, mapped=True)
    assert solving.beside(LIBRARIES).total < 2 << 30


def test_smiles_are_saved_as_they_are_read(store: FingerprintStore, tmp_path: Path) -> None:
    rows = np.sort(np.random.default_rng(0).integers(0, N_ROWS, 3 * N_ROWS))
    kept = smiles_array_of_rows(store, rows)
    assert isinstance(kept, np.ndarray)
    with patch.object(labelled, "MOST_KEPT", 0):
        read = smiles_array_of_rows(store, rows)
    assert not isinstance(read, np.ndarray)
    with patch("daskrf.storage.stores.zarrays.BLOCK_BYTES", 1000):
        save_model(tmp_path / "kept", {"text": kept}, {})
        save_model(tmp_path / "read", {"text": read}, {})
    assert load_model(tmp_path / "read").group == load_model(tmp_path / "kept").group
    assert load_model(tmp_path / "read").arrays["text"].tobytes() == kept.tobytes()
