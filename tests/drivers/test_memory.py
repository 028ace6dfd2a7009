"""Worker memory, sampled while they work, stays below what was predicted."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from distributed import Client
from scipy import sparse

from daskrf import FingerprintSpec, TanimotoMinMaxFeatures, fit, local_cluster, predict, screen
from daskrf.drivers import memory
from daskrf.stores.fingerprints import FingerprintStore

N_PARTITIONS, ROWS, M = 3, 8_000, 4_096


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fingerprint store of 24,000 made-up molecules, and labels for all of them."""
    directory = tmp_path_factory.mktemp("memory")
    spec = FingerprintSpec()
    store = FingerprintStore.new(
        directory / "fp",
        library={},
        fingerprint=spec.state(),
        n_columns=spec.n_columns,
        partitions=[{"start": p * ROWS, "stop": (p + 1) * ROWS} for p in range(N_PARTITIONS)],
        rdkit_version="none",
    )
    rng = np.random.default_rng(0)
    for p in range(N_PARTITIONS):
        ids = (rng.zipf(1.3, (ROWS, 30)) % 50_000).astype(np.int64)
        counts = sparse.csr_matrix(
            (np.ones(ids.size, np.uint16), ids.ravel(), np.arange(0, ids.size + 1, 30)), shape=(ROWS, 2**32)
        )
        counts.sum_duplicates()
        number = np.arange(p * ROWS, (p + 1) * ROWS)
        rows = pa.table(
            {
                "row": number,
                "id": [f"m{i}" for i in number],
                "smiles": ["C" * 45] * ROWS,
                "source": pa.array(["made up"] * ROWS).dictionary_encode(),
                "line": number + 1,
            }
        )
        store.write_partition(p, counts, rows, counts={"empty": 0, "saturated": 0})
    y = rng.standard_normal(N_PARTITIONS * ROWS)
    (directory / "labels.csv").write_text("id,y\n" + "".join(f"m{i},{v}\n" for i, v in enumerate(y.tolist())))
    return directory


@contextmanager
def _sampled(client: Client) -> Iterator[Callable[[], int]]:
    """Sample the largest resident size of any worker process of `client`."""
    peak, stop = 0, threading.Event()
    workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()]

    def sample() -> None:
        nonlocal peak
        while not stop.wait(0.02):
            for process in workers:
                try:
                    peak = max(peak, process.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield lambda: peak
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def fresh() -> Iterator[Client]:
    """Workers that have done nothing yet, so that nothing is left in their memory."""
    with local_cluster(n_workers=2, memory_limit="6GiB", dashboard=False) as client:
        yield client


def test_solving_here_stays_below_the_prediction(library: Path, tmp_path: Path) -> None:
    """A process of its own sums and solves; its peak is what the kernel says."""
    code = f"""
        import resource
        from daskrf import TanimotoMinMaxFeatures, fit
        fit({str(library / "fp")!r}, {str(library / "labels.csv")!r}, {str(tmp_path / "model")!r},
            feature_map=TanimotoMinMaxFeatures({M}))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    need = memory.need_of_fit(M, ROWS, N_PARTITIONS * ROWS, one_bit=True).total
    assert 2 * 8 * M**2 < int(out) < max(need, memory.need_of_solve(M).total)


def test_stages_stay_below_the_prediction(library: Path, fresh: Client, tmp_path: Path) -> None:
    features = TanimotoMinMaxFeatures(M)
    store, model = library / "fp", tmp_path / "model"
    with _sampled(fresh) as peak:
        fit(store, library / "labels.csv", model, feature_map=features, client=fresh)
        need = memory.need_of_fit(M, ROWS, N_PARTITIONS * ROWS, one_bit=True).total
        assert 2 * 8 * M**2 < peak() < need
    fresh.restart()
    with _sampled(fresh) as peak:
        screen(model, store, tmp_path / "hits.parquet", k=1_000, std="candidates", client=fresh)
        assert peak() < memory.need_of_screen(M, ROWS, 1_000, one_bit=True, std=False).total
    fresh.restart()
    with _sampled(fresh) as peak:
        predict(model, store, tmp_path / "pred", std=True, client=fresh)
        assert 8 * M**2 < peak() < memory.need_of_screen(M, ROWS, 0, one_bit=True, std=True).total


def test_landmarks_stay_below_the_prediction(library: Path, tmp_path: Path) -> None:
    """A process of its own learns, sums, solves and takes deviations; its peaks are what the kernel says."""
    size, n_labels = 2_048, 3_000
    labels = tmp_path / "labels.csv"
    labels.write_text("".join((library / "labels.csv").read_text().splitlines(keepends=True)[: n_labels + 1]))
    fingerprints, model, hits = str(library / "fp"), str(tmp_path / "model"), str(tmp_path / "hits.parquet")
    code = f"""
        import re
        from pathlib import Path
        from daskrf import fit, screen
        from daskrf.features import LandmarkFeatures
        def peak():
            print(1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))
        peak()
        fit({fingerprints!r}, {str(labels)!r}, {model!r}, feature_map=LandmarkFeatures({size}))
        peak()
        screen({model!r}, {fingerprints!r}, {hits!r}, k=500)
        peak()
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    before, fitted, screened = (int(line) for line in out.split())
    need = memory.need_of_fit(size, ROWS, n_labels, one_bit=False, double=True)
    assert before + 3 * 8 * size**2 < fitted < max(need.total, memory.need_of_solve(size, double=True).total)
    assert screened < memory.need_of_screen(size, ROWS, 500, one_bit=False, std=True, double=True).total
