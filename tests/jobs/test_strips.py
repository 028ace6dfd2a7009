"""Fits whose Gram matrix is summed in strips: the bytes of one strip, from any store, after any fault."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil
import pytest
from distributed import Client

from daskrf import featurize, fingerprint, fit, local_cluster
from daskrf.errors import MemoryLimitError
from daskrf.features import LandmarkFeatures
from daskrf.fitting.costs import need_of_solve, need_of_sums
from daskrf.fitting.totals import Labelled, Sums
from daskrf.gp.sums.shapes import SumsShape
from daskrf.gp.sums.sums import strip_columns
from daskrf.jobs import memory
from daskrf.sources.sources import FingerprintSource
from daskrf.storage.stores.store import ARRAYS_FILE
from tests.jobs.job import FEATURES, model_arrays

LIMIT = 8 * 64 * 128  # bytes of a strip: four of them for the 203 features of the test job


@pytest.fixture(scope="module")
def store(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("strips") / "fp"
    fingerprint(inputs[0], path, rows_per_partition=50)
    return path


@pytest.fixture(scope="module")
def whole(inputs: tuple[Path, Path], store: Path) -> dict[str, np.ndarray]:
    """The arrays of the model whose statistics were summed in one strip."""
    fit(store, inputs[1], store.parent / "whole", feature_map=FEATURES)
    return model_arrays(store.parent / "whole")


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    """Cut small matrices into strips, and take one partition a task, so that trees have inner nodes."""
    with (
        patch("daskrf.fitting.parts._STRIP_BYTES", LIMIT),
        patch("daskrf.fitting.parts._GROUP_ROWS", (1, 1)),
    ):
        yield


def _assert_same(path: Path, expected: dict[str, np.ndarray]) -> None:
    found = model_arrays(path)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), name
    assert sorted(p.name[:7] for p in path.iterdir()) == [
        "_arrays",
        "arrays-",
    ]  # neither strips nor bits are left


def test_four_strips() -> None:
    assert len(strip_columns(FEATURES.n_components, LIMIT)) == 4


def test_strips_give_the_bytes_of_one(
    inputs: tuple[Path, Path], store: Path, whole: dict[str, np.ndarray], client: Client, tmp_path: Path
) -> None:
    fit(store, inputs[1], tmp_path / "here", feature_map=FEATURES)
    _assert_same(tmp_path / "here", whole)
    fit(store, inputs[1], tmp_path / "workers", feature_map=FEATURES, client=client)
    _assert_same(tmp_path / "workers", whole)
    featurize(store, FEATURES, tmp_path / "phi")
    fit(tmp_path / "phi", inputs[1], tmp_path / "stored", client=client)
    _assert_same(tmp_path / "stored", whole)


def test_dense_strips_agree_up_to_rounding(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    landmarks = LandmarkFeatures(203, random_state=1)
    fit(store, inputs[1], tmp_path / "strips", feature_map=landmarks)
    with patch("daskrf.fitting.parts._STRIP_BYTES", 2**30):
        fit(store, inputs[1], tmp_path / "one", feature_map=landmarks)
    strips, one = model_arrays(tmp_path / "strips"), model_arrays(tmp_path / "one")
    assert strips.keys() == one.keys()
    for name in ("gram", "phi_sum", "phi_y", "yy", "n"):
        found, expected = (arrays[f"statistics/{name}"] for arrays in (strips, one))
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize(("strip", "leaf"), [(0, 2), (1, 0), (2, 4)])
def test_second_run_goes_on_in_mid_strip(
    inputs: tuple[Path, Path],
    store: Path,
    whole: dict[str, np.ndarray],
    tmp_path: Path,
    strip: int,
    leaf: int,
) -> None:
    """The run ends in a leaf of a strip; the next one makes the leaves that lack, and no bits anew."""
    made: list[tuple[int, int]] = []
    featurized: list[int] = []
    starts = [first for first, _ in strip_columns(FEATURES.n_components, LIMIT)]
    plain_sum, plain_blocks = Sums.from_chunk, FingerprintSource.blocks

    def counted(self: Sums, chunk: Labelled) -> Any:
        if self.summation.columns is None:
            return plain_sum(self, chunk)
        at = starts.index(self.summation.columns[0])
        if (at, chunk.partitions[0]) == ends_at:
            raise RuntimeError("killed")
        made.append((at, chunk.partitions[0]))
        return plain_sum(self, chunk)

    def blocks(self: FingerprintSource, partition: int, rows: np.ndarray | None = None) -> Iterator:
        featurized.append(partition)
        return plain_blocks(self, partition, rows)

    with (
        patch.object(Sums, "from_chunk", counted),
        patch.object(FingerprintSource, "blocks", blocks),
    ):
        ends_at = (strip, leaf)
        with pytest.raises(RuntimeError, match="killed"):
            fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES)
        ends_at = (-1, -1)
        fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES)
    n_leaves = len(featurized)
    assert n_leaves > 8  # more than the fan-in of a tree
    assert sorted(featurized) == sorted(set(featurized))
    assert sorted(made) == [(at, p) for at in range(len(starts)) for p in sorted(featurized)]
    _assert_same(tmp_path / "model", whole)


def test_damaged_bits_are_made_again(
    inputs: tuple[Path, Path], store: Path, whole: dict[str, np.ndarray], tmp_path: Path
) -> None:
    plain = Sums.from_chunk

    def damaging(self: Sums, chunk: Labelled) -> Any:
        if self.summation.columns is None:
            return plain(self, chunk)
        held = tmp_path / ".model.daskrf" / f"bits-{chunk.partitions[0]:08d}"
        path = next(held.glob("arrays-*/bits/c.*"), held / ARRAYS_FILE)  # few bits stand in the record
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        return plain(self, chunk)

    with patch.object(Sums, "from_chunk", damaging):
        fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES)
    _assert_same(tmp_path / "model", whole)


def _is_worker(process: psutil.Process) -> bool:
    try:
        server = process.parent()  # that of all workers, a copy of which each of them is
        return server is not None and "forkserver" in " ".join(server.cmdline()) and not process.children()
    except psutil.Error:  # it has ended, and may still be listed
        return False


def test_killed_workers_change_nothing(
    inputs: tuple[Path, Path], store: Path, whole: dict[str, np.ndarray], tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill() -> None:
        for pattern in ("vectors/level-0-*", "strip-001/level-0-*", "strip-003/level-0-*"):
            while not list((tmp_path / ".model.daskrf").glob(pattern)):
                time.sleep(0.002)
            while not (workers := [p for p in psutil.Process().children(recursive=True) if _is_worker(p)]):
                time.sleep(0.002)  # both have just been killed, and new ones are started
            workers[-1].send_signal(signal.SIGKILL)
            killed.append(workers[-1].pid)

    with local_cluster(n_workers=2, memory_limit="3GiB", dashboard=False) as client:
        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES, client=client)
        thread.join(timeout=240)
    assert len(killed) == 3
    _assert_same(tmp_path / "model", whole)


def test_an_eigendecomposition_that_does_not_fit_is_refused_and_the_sums_stay(
    inputs: tuple[Path, Path], store: Path, whole: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """Labels that are all but free of noise, and a machine whose memory holds the Cholesky factors only."""
    making = memory.Making(FEATURES.n_components, 0, one_bit=True)
    need, room = need_of_solve(making, eigen=True).beside(memory.LIBRARIES), [2**40]
    with (
        patch("daskrf.gp.processes.process.EIGEN_LIMIT", 0),
        patch("daskrf.gp.solve.solvers.CholeskySolver.loses_digits", lambda self, ratio: True),
        patch("daskrf.jobs.memory._resident", lambda: memory.LIBRARIES),  # whatever tests have loaded
        patch("daskrf.jobs.job.worker_memory", lambda client: room[-1]),
        patch("daskrf.fitting.parts.check_eigen_size", lambda M: room.append(need.total - 1)),
        pytest.raises(MemoryLimitError, match="solve by eigendecomposition"),
    ):
        fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES)
    with patch.object(Sums, "from_chunk", side_effect=AssertionError("sums are made again")):
        fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES)
    _assert_same(tmp_path / "model", whole)


@pytest.mark.parametrize(("one_bit", "double"), [(True, False), (False, False), (False, True)])
def test_needs_grow_with_features_and_a_task_holds_two_strips(one_bit: bool, double: bool) -> None:
    sizes = (1_024, 2_048, 4_096, 8_192, 12_288, 16_384, 24_576, 32_768, 65_536)
    solves = [need_of_solve(memory.Making(m, 50_000, one_bit, SumsShape(double))).total for m in sizes]
    assert solves == sorted(solves)
    fits = [need_of_sums(memory.Making(m, 50_000, one_bit, SumsShape(double)), 10**6).total for m in sizes]
    assert fits[:4] == sorted(fits[:4])
    assert max(fits) + memory.LIBRARIES < 3.5 * 2**30
    few = memory.Making(16_384, 5_000, one_bit=True)
    by_labels = [need_of_sums(few, n).total for n in (10, 10**4, 10**6)]
    assert by_labels == sorted(by_labels)
