"""What processes take at most, as the kernel counts it, is what was predicted: never more, hardly less."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import textwrap
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from distributed import Client
from scipy import sparse

from daskrf import (
    FingerprintSpec,
    TanimotoMinMaxFeatures,
    featurize,
    fingerprint,
    fit,
    fit_map,
    local_cluster,
    predict,
    screen,
)
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import MemoryLimitError
from daskrf.features import LandmarkFeatures, LocalGaussianFeatures, TanimotoDotProductFeatures
from daskrf.fitting.costs import need_of_solve
from daskrf.gp import LocalGaussianGP
from daskrf.gp.sums.shapes import SumsShape
from daskrf.gp.sums.sums import Summation
from daskrf.jobs import memory
from daskrf.quantities import format_bytes
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from tests.memory import least_peak

N_PARTITIONS, ROWS, M = 2, 10_000, 3_072
SLACK = 1.25  # a prediction is at most this much above what was measured


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fingerprint store of 20,000 made-up molecules, and labels for all of them."""
    directory = tmp_path_factory.mktemp("memory")
    spec = FingerprintSpec("morgan")
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
        ids = (rng.zipf(1.3, (ROWS, 40)) % 50_000).astype(np.int64)
        counts = sparse.csr_matrix(
            (np.ones(ids.size, np.uint16), ids.ravel(), np.arange(0, ids.size + 1, 40)), shape=(ROWS, 2**32)
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


@pytest.fixture
def needs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[memory.MemoryNeed, str]]:
    """What drivers have predicted, and for which process."""
    needs: list[tuple[memory.MemoryNeed, str]] = []
    check = memory.check

    def recorded(need: memory.MemoryNeed, limit: int, where: str) -> None:
        needs.append((need, where))
        check(need, limit, where)

    monkeypatch.setattr(memory, "check", recorded)
    return needs


def _high_water() -> int:
    """Return the peak of this process since `_forget`, and of its helpers, as the kernel has counted it."""
    peaks = []
    for process in (psutil.Process(), *psutil.Process().children()):
        with suppress(OSError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            peaks += re.findall(r"VmHWM:\s+(\d+)", status)
    return 1024 * sum(map(int, peaks))


def _resident(process: psutil.Process) -> int:
    """Return what a process and its helpers take.

    A child that has not begun its own program yet uses the memory of its parent, which would count twice.
    """
    total: int = process.memory_info().rss
    with suppress(psutil.NoSuchProcess):
        helpers = [child for child in process.children() if child.cmdline() != process.cmdline()]
        total += sum(helper.memory_info().rss for helper in helpers)
    return total


def _forget() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return os.getpid()


@contextmanager
def _measured(client: Client) -> Iterator[Callable[[], int]]:
    """Yield what tells the largest resident size of any worker: of samples every 2 ms, and of the kernel."""
    sampled, stop = 0, threading.Event()
    workers = [psutil.Process(pid) for pid in client.run(_forget).values()]

    def sample() -> None:
        nonlocal sampled
        while not stop.wait(0.002):
            sampled = max([sampled, *map(_resident, workers)])

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield lambda: max([sampled, *client.run(_high_water).values()])
    finally:
        stop.set()
        thread.join()


def _assert_near(measured: int, need: memory.MemoryNeed) -> None:
    assert measured <= need.total <= SLACK * measured, (format_bytes(measured), str(need))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    with local_cluster(n_workers=2, memory_limit="6GiB", dashboard=False) as client:
        yield client


@pytest.fixture
def fresh(cluster: Client) -> Client:
    """Workers that have done nothing yet, so that nothing is left in their memory."""
    cluster.restart()
    return cluster


def _dense(M: int) -> TanimotoMinMaxFeatures:
    return TanimotoMinMaxFeatures(M, distribution="gaussian")


STAGES: dict[str, Callable[[Path, Path, Client], Any]] = {
    "map by summaries": lambda data, out, client: fit_map(
        TanimotoDotProductFeatures(256), data / "fp", client=client
    ),
    "map by a sample": lambda data, out, client: fit_map(LandmarkFeatures(512), data / "fp", client=client),
    "bits": lambda data, out, client: featurize(
        data / "fp", TanimotoMinMaxFeatures(M), out / "phi", client=client
    ),
    "floats": lambda data, out, client: featurize(data / "fp", _dense(1_024), out / "phi", client=client),
    "dense fit": lambda data, out, client: fit(
        data / "fp", data / "labels.csv", out / "model", feature_map=_dense(1_024), client=client
    ),
}


@pytest.mark.parametrize("stage", STAGES)
def test_stage_takes_what_was_predicted(
    stage: str, library: Path, fresh: Client, needs: list[tuple[memory.MemoryNeed, str]], tmp_path: Path
) -> None:
    with _measured(fresh) as peak:
        STAGES[stage](library, tmp_path, fresh)
        (need,) = {need for need, where in needs if where == "a worker"}
        _assert_near(peak(), need)


def test_job_takes_what_was_predicted(
    library: Path, fresh: Client, needs: list[tuple[memory.MemoryNeed, str]], tmp_path: Path
) -> None:
    store, model, smiles = library / "fp", tmp_path / "model", tmp_path / "library.smi"
    smiles.write_text("".join(f"{text} m{i}\n" for i, text in enumerate(ReactionLibrary().smiles(0, 10_000))))
    job: list[Callable[[], Any]] = [
        lambda: fit(
            store, library / "labels.csv", model, feature_map=TanimotoMinMaxFeatures(M), client=fresh
        ),
        lambda: screen(model, store, tmp_path / "hits.parquet", k=10_000, client=fresh, maximize=False),
        lambda: predict(model, store, tmp_path / "pred", client=fresh),
        lambda: screen(
            model,
            store,
            tmp_path / "ucb.parquet",
            k=1_000,
            acquisition="ucb",
            std="all",
            client=fresh,
            maximize=False,
        ),
        lambda: screen(model, smiles, tmp_path / "smiles.parquet", k=1_000, client=fresh, maximize=False),
    ]
    for stage in job:
        fresh.restart()
        needs.clear()
        with _measured(fresh) as peak:
            stage()
            (need,) = {need for need, where in needs if where == "a worker"}
            _assert_near(peak(), need)


def test_fingerprints_take_what_was_predicted(
    fresh: Client, needs: list[tuple[memory.MemoryNeed, str]], tmp_path: Path
) -> None:
    """Real SMILES in a compressed file, which is read through a spool."""
    smiles = ReactionLibrary().smiles(0, 10_000)
    with gzip.open(tmp_path / "library.smi.gz", "wt", compresslevel=1) as file:
        file.writelines(f"{text} m{i}\n" for i, text in enumerate(smiles))
    with _measured(fresh) as peak:
        fingerprint(tmp_path / "library.smi.gz", tmp_path / "fp", rows_per_partition=5_000, client=fresh)
        _assert_near(peak(), needs[0][0])


def _in_a_process(code: str) -> list[tuple[int, int]]:
    """Run stages in a process of their own; return the peak of each and the largest need that it foresaw."""
    head = """
        import re
        from pathlib import Path
        from daskrf import TanimotoMinMaxFeatures, fit, fit_map, screen
        from daskrf.jobs import memory
        from daskrf.features import LandmarkFeatures, NystromFeatures
        needs, check = [], memory.check
        def recorded(need, *rest):
            needs.append(need.total)
            check(need, *rest)
        memory.check = recorded
        def tell():
            peak = re.findall(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[0]
            print("peak", 1024 * int(peak), max(needs))
            Path("/proc/self/clear_refs").write_text("5")
            needs.clear()
        if __name__ == "__main__":
    """
    script = textwrap.dedent(head) + textwrap.indent(textwrap.dedent(code), "    ")
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    return [(int(peak), int(need)) for peak, need in re.findall(r"peak (\d+) (\d+)", out)]


def test_solving_takes_what_was_predicted(library: Path, tmp_path: Path) -> None:
    """A process of its own sums and solves, and takes deviations of hits, as a driver does."""
    peaks = _in_a_process(f"""
        fit({str(library / "fp")!r}, {str(library / "labels.csv")!r}, {str(tmp_path / "model")!r},
            feature_map=TanimotoMinMaxFeatures({M}))
        tell()
    """)
    ((peak, need),) = peaks
    assert peak <= need <= SLACK * peak


def test_landmarks_take_what_was_predicted(library: Path, tmp_path: Path) -> None:
    """A process of its own learns, sums, solves, takes deviations, and a draw with what landmarks miss."""
    labels, model = tmp_path / "labels.csv", str(tmp_path / "model")
    labels.write_text("".join((library / "labels.csv").read_text().splitlines(keepends=True)[:3_001]))
    peaks = _in_a_process(f"""
        fit({str(library / "fp")!r}, {str(labels)!r}, {model!r}, feature_map=LandmarkFeatures(2_048))
        tell()
        screen({model!r}, {str(library / "fp")!r}, {str(tmp_path / "hits.parquet")!r}, k=500, maximize=False)
        tell()
        screen({model!r}, {str(library / "fp")!r}, {str(tmp_path / "draw.parquet")!r}, k=500, maximize=False,
               acquisition="thompson")
        tell()
    """)
    assert len(peaks) == 3
    assert all(peak <= need <= SLACK * peak for peak, need in peaks), peaks


def test_a_decomposition_takes_what_was_predicted(library: Path) -> None:
    """A process of its own decomposes the kernel among landmarks."""
    ((peak, need),) = _in_a_process(f"""
        fit_map(NystromFeatures(256, n_landmarks=2_500), {str(library / "fp")!r})
        tell()
    """)
    assert peak <= need <= SLACK * peak


@pytest.mark.parametrize(("n_components", "n_centroids"), [(1_200, 1), (2_400, 8)])
def test_matrices_of_a_local_process_take_what_was_predicted(n_components: int, n_centroids: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (700, 3))  # fewer than a quarter of the features take less
    chosen = LocalGaussianFeatures(n_components, n_centroids=n_centroids).fit(X)
    making = memory.Making(n_components, 300, False, SumsShape.of(chosen))
    needs = need_of_solve(making), memory.need_of_scores(making, 0, std=True)
    (solve,), (deviations,) = (
        [size for name, size in need.parts if name.startswith("statistics and")] for need in needs
    )
    phi = chosen.transform(X)

    def fitted() -> LocalGaussianGP:
        statistics = Summation.of_map(chosen, one_bit=False).zero().update(phi, X.sum(axis=1))
        tracemalloc.reset_peak()
        return LocalGaussianGP(chosen).fit_statistics(statistics, chosen)

    def predict() -> None:
        gp = fitted()
        gp.feature_map_ = None
        tracemalloc.reset_peak()
        gp.predict(phi[:3], return_std=True)

    peak = least_peak(fitted)
    assert peak <= solve <= SLACK * peak
    peak = least_peak(predict)
    assert peak <= deviations <= 1.7 * peak  # as of one matrix of all features


def test_a_job_that_just_fits_runs(library: Path, tmp_path: Path) -> None:
    """At a limit that is just above the prediction tasks run to their end; just below, they are refused."""
    labels, model = tmp_path / "labels.csv", tmp_path / "model"
    labels.write_text("".join((library / "labels.csv").read_text().splitlines(keepends=True)[:5_001]))
    fit(library / "fp", labels, model, feature_map=TanimotoMinMaxFeatures(2_048))
    nonzeros = max(r.counts["nonzeros"] for r in FingerprintStore.open(library / "fp").records().values())
    making = memory.Making(2_048, ROWS, one_bit=True, nonzeros=nonzeros)
    with local_cluster(n_workers=1, dashboard=False) as client:
        libraries = memory.libraries_of(client)
    need = memory.need_of_scores(making, 0, std=True).beside(libraries).total
    with local_cluster(n_workers=1, memory_limit=int((need + 2**23) / 0.95), dashboard=False) as client:
        assert predict(model, library / "fp", tmp_path / "pred", client=client).rows == N_PARTITIONS * ROWS
    fewer = replace(making, rows=2_000, nonzeros=nonzeros // 5)
    few = memory.need_of_scores(fewer, 0, std=True).beside(libraries).total
    with (
        local_cluster(n_workers=1, memory_limit=int((need + few) / 2 / 0.95), dashboard=False) as client,
        pytest.raises(
            MemoryLimitError, match=r"of which Dask lets it use 95%; \d,000 rows a partition .* fit"
        ),
    ):
        predict(model, library / "fp", tmp_path / "refused", client=client)
