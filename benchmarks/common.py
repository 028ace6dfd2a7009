"""What the benchmarks share: data, the machine, the cost of a method in a fresh process, result files.

Scripts of this folder import it as ``common``: Python puts the folder of a script first on its path.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import scipy.sparse as sp
from threadpoolctl import threadpool_info

import daskrf
from daskrf.gp.validation.calibration import calibration_report
from daskrf.molecules import Fingerprinter, FingerprintSpec, rdkit_version

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
PUBLISHED = HERE / "published"
N_TRAIN_ENAMINE = 40_000
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "dask", "rdkit")

Array = npt.NDArray[np.float64]


# Data ------------------------------------------------------------------------------------------------------


def data_folder() -> Path:
    """Return the folder of the real data: DASKRF_DATA, or ../shared/data beside the repository.

    Raises
    ------
    SystemExit
        If there is none.
    """
    folder = Path(os.environ.get("DASKRF_DATA") or HERE.parents[1] / "shared" / "data")
    if not folder.is_dir():
        raise SystemExit(f"There are no data at {folder}: set DASKRF_DATA to the folder that holds them.")
    return folder


@dataclass(frozen=True)
class Regression:
    """Labelled molecules and their split.

    Attributes
    ----------
    name : str
    X : CSR matrix of uint16 counts, shape (n, d)
    y : float64 array, shape (n,)
    train, test : int arrays, row numbers
    """

    name: str
    X: sp.csr_matrix
    y: Array
    train: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]

    def describe(self) -> str:
        """Return one line for the eye."""
        return (
            f"{self.name}: {len(self.train):,} molecules for training, {len(self.test):,} for the test, "
            f"{self.X.nnz / self.X.shape[0]:.1f} features of {self.X.shape[1]:,} columns each"
        )


def cached_fingerprints(name: str, smiles: list[str], spec: FingerprintSpec) -> tuple[sp.csr_matrix, Array]:
    """Return fingerprints of SMILES and the positions kept, from a file of the temporary folder if there."""
    kind = "-".join(f"{kind.name}-{kind.counts}-{kind.size}-{kind.chirality}" for kind in spec.kinds)
    digest = hashlib.blake2b("\n".join(smiles).encode(), digest_size=6).hexdigest()
    cache = Path(tempfile.gettempdir()) / f"daskrf-rdkit-{rdkit_version()}-{name}-{digest}-{kind}.npz"
    if not cache.exists():
        block = Fingerprinter(spec)(smiles)
        x = block.fingerprints
        own = cache.with_suffix(f".{os.getpid()}.npz")  # two processes may fill the cache at once
        np.savez(own, data=x.data, indices=x.indices, indptr=x.indptr, shape=x.shape, kept=block.kept)
        own.replace(cache)
    found = np.load(cache)
    parts = (found["data"], found["indices"], found["indptr"])
    return sp.csr_matrix(parts, shape=tuple(found["shape"])), found["kept"]


def enamine50k(radius: int = 1, size: int = 0, spec: FingerprintSpec | None = None) -> Regression:
    """Return Enamine50k: 49,706 docking scores, split at random into 40,000 for training and the rest.

    Rows in file order, perm = numpy.random.default_rng(0).permutation(n), the first 40,000 for training.
    Morgan counts, unfolded unless `size` is given, or the fingerprints of `spec`.
    """
    with gzip.open(data_folder() / "Enamine50k_scores.csv.gz", "rt") as file:
        rows = [line.rsplit(",", 1) for line in file.read().splitlines()[1:]]
    smiles = [text for text, _ in rows]
    x, kept = cached_fingerprints("enamine50k", smiles, spec or FingerprintSpec(radius=radius, size=size))
    y = np.array([float(score) for _, score in rows])[kept]
    order = np.random.default_rng(0).permutation(len(y))
    return Regression("Enamine50k", x, y, order[:N_TRAIN_ENAMINE], order[N_TRAIN_ENAMINE:])


def guacamol(n: int = 1000) -> dict[str, Array]:
    """Return the set-up of the published errors: n molecules, Morgan radius 2, folded to 1,024 columns.

    "count" holds the counts (of identifiers that meet in a column, the sum), "binary" min(count, 1).
    """
    with (data_folder() / "guacamol_10k.smiles").open() as file:
        smiles = [line.split()[0] for line, _ in zip(file, range(n), strict=False)]
    x, _ = cached_fingerprints("guacamol", smiles, FingerprintSpec(radius=2, size=1024))
    counts = np.asarray(x.todense(), dtype=np.float64)
    return {"binary": np.minimum(counts, 1.0), "count": counts}


def published(name: str) -> dict[str, Any]:
    """Return the published figures of ``published/<name>.json``; each file names its source and licence."""
    return json.loads((PUBLISHED / f"{name}.json").read_text())


# The machine -----------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = dict(part.split(":", 1) for part in info.read_text().splitlines() if ":" in part)
        by_name = {key.strip(): value.strip() for key, value in lines.items()}
        name = by_name.get("model name", name)
        name += ", AVX-512" if "avx512f" in by_name.get("flags", "").split() else ""
    return {
        "cpu": name,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.system(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python, daskrf and what does its arithmetic."""
    blas = {
        f"{pool['internal_api']} {pool['version']}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    return {
        "daskrf": daskrf.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "blas": ", ".join(sorted(blas)) or "unknown",
    }


def blas_threads() -> int:
    """Return how many threads linear algebra uses."""
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)


def print_header(seed: object) -> None:
    """Print the machine, the versions and the seed: the first lines of every benchmark."""
    m = machine()
    print(f"machine:  {m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB, {blas_threads()} BLAS threads")
    print(f"versions: {', '.join(f'{name} {value}' for name, value in versions().items())}")
    print(f"seed:     {seed}", flush=True)


# Costs and figures of merit --------------------------------------------------------------------------------


def processor_time() -> float:
    """Return the CPU time of this process and of its helpers."""
    helpers = [helper.cpu_times() for helper in psutil.Process().children()]
    return time.process_time() + sum(times.user + times.system for times in helpers)


@dataclass(frozen=True)
class Cost:
    """What a call cost: CPU seconds of all threads, wall seconds, and the process's peak memory in GiB."""

    cpu_s: float
    wall_s: float
    peak_gib: float


class Stopwatch:
    """CPU and wall seconds since it was made or last read."""

    def __init__(self) -> None:
        self.lap()

    def lap(self) -> dict[str, float]:
        """Return the seconds since the last reading, and start anew."""
        now = time.process_time(), time.perf_counter()
        last = getattr(self, "_last", now)
        self._last = now
        return {"cpu_s": now[0] - last[0], "wall_s": now[1] - last[1]}


def peak_gib() -> float:
    """Return the largest memory that this process has held (resident), in GiB."""
    status = Path("/proc/self/status")
    if status.exists():  # not ru_maxrss, which a child inherits from its parent
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 2**20
    import resource

    unit = 2**30 if platform.system() == "Darwin" else 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _measure(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Cost]:
    watch = Stopwatch()
    result = function(*arguments)
    return result, Cost(**watch.lap(), peak_gib=peak_gib())


def run_fresh(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Cost]:
    """Call a function of a module in a fresh process; return its result and its cost.

    The start of Python and the imports are not in the times, but in the memory; arguments and the result go
    through pickle, so that data are best loaded in the child.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, function, arguments).result()


def merit(y: Array, mean: Array, std: Array) -> dict[str, float]:
    """Return R2, mean log probability and coverage of predictions of y (noise included in std)."""
    report = calibration_report(y, mean, std)
    names = ("r2", "mean_log_probability", "rmse", "coverage_95", "z_std")
    return {name: float(getattr(report, name)) for name in names}


# Results ---------------------------------------------------------------------------------------------------


def parser(doc: str | None, *, seed: int = 0, full: str = "") -> argparse.ArgumentParser:
    """Return a parser that shows `doc` and knows --seed and --output, and --full where it means something."""
    found = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--seed", type=int, default=seed, help="of every random number (default: %(default)s)")
    found.add_argument("--output", type=Path, default=RESULTS, help="folder of the results (%(default)s)")
    if full:
        found.add_argument("--full", action="store_true", help=full)
    return found


def write_results(
    folder: Path, name: str, *, seed: object, settings: dict[str, Any], results: Any, keep: bool = False
) -> Path:
    """Write ``<name>.json``: machine, versions, seed, settings and results; no dates, no paths.

    With `keep`, parts of earlier results that were not run again stay as they were, and so do settings that
    are not given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    if keep and path.exists():
        earlier = json.loads(path.read_text())
        settings, results = earlier["settings"] | settings, earlier["results"] | results
    content = {
        "machine": machine(),
        "versions": versions(),
        "seed": seed,
        "settings": settings,
        "results": results,
    }
    text = json.dumps(json.loads(json.dumps(content, default=_plain), parse_float=_rounded), indent=1)
    # Lists of numbers on one line each.
    path.write_text(re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text) + "\n")
    print(f"written: {path}", flush=True)
    return path


def _rounded(text: str) -> float:
    return float(f"{float(text):.6g}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Cost):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def table(rows: list[dict[str, Any]], formats: dict[str, str]) -> str:
    """Return rows as a Markdown table, columns in the order of `formats`; a missing value is empty."""
    lines = [list(formats)] + [
        ["" if row.get(name) is None else format(row[name], spec) for name, spec in formats.items()]
        for row in rows
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(formats))]
    text = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(text)
