"""Exact Tanimoto kernels against scikit-learn and SciPy pairwise formulations, on Morgan counts, one thread.

    python benchmarks/kernels.py [SMILES_FILE] [--rows 20000] [--landmarks 2000] [--repeats 3] [--quick]

A block of `rows` x `landmarks` kernel values, from fingerprints to float64 coefficients, the quotient
included. Without a file the molecules are those of Enamine50k_library.csv.gz in the folder DASKRF_DATA.
daskrf gets unfolded 32-bit identifiers. The others get what suits them, made outside the timing:

- expanded: the binary expansion (column, level) of the counts, in only the columns that occur, where the
  kernel is |x & y| / |x | y|, so that a matrix product does the work; exact, as daskrf is;
- folded dense or sparse: counts folded to 1024 or 2048 columns (another kernel: folding merges columns).

Programs whose time is proportional to the rows, and that are slow, get fewer rows; the time is scaled up. The
time is CPU time, and the programs take turns.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp
import sklearn
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances
from threadpoolctl import threadpool_limits

import daskrf
from daskrf.kernels import TanimotoDotProduct, TanimotoMinMax
from daskrf.molecules import Fingerprinter, FingerprintSpec

Program = Callable[[sp.csr_matrix, sp.csr_matrix], Callable[[], object]]


def read_fingerprints(path: Path, molecules: int, radius: int) -> sp.csr_matrix:
    """Return unfolded Morgan counts of the first molecules of a file of SMILES, or of the Enamine library."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        lines = itertools.islice(file, 1 if path.suffix == ".gz" else 0, None)  # the library has a header
        smiles = [
            line.split(",")[0].split()[0] for line in itertools.islice(lines, molecules) if line.strip()
        ]
    return Fingerprinter(FingerprintSpec(radius=radius))(smiles).fingerprints


def expanded(*parts: sp.csr_matrix) -> list[sp.csr_matrix]:
    """Return the binary expansions of counts, float32, in the columns (identifier, level) that occur."""
    made = []
    for X in parts:
        counts = X.data.astype(np.int64)
        levels = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        made.append(np.repeat(X.indices, counts) * 65_536 + levels)
    columns, numbers = np.unique(np.concatenate(made), return_inverse=True)
    splits = np.split(numbers.ravel(), np.cumsum([part.size for part in made])[:-1])
    result = []
    for X, own in zip(parts, splits, strict=True):
        ends = np.concatenate([[0], np.cumsum(X.data, dtype=np.int64)])[X.indptr]
        ones = np.ones(own.size, np.float32)
        result.append(sp.csr_matrix((ones, own, ends), shape=(X.shape[0], columns.size)))
    return result


def folded(X: sp.csr_matrix, columns: int) -> sp.csr_matrix:
    """Return counts folded to `columns` columns, float64."""
    found = sp.csr_matrix((X.data.astype(float), X.indices % columns, X.indptr), shape=(X.shape[0], columns))
    found.sum_duplicates()
    return found


def quotient(s: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return s / (x + y - s) with as few passes as NumPy allows."""
    union = np.add.outer(x, y)
    union -= s
    return np.divide(s, union)


def by_l1(distances: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the kernel by equation 34 of Tripp et al. 2023."""
    both = np.add.outer(x, y)
    above = both - distances
    both += distances
    above /= both
    return above


def _sums(X: sp.csr_matrix) -> np.ndarray:
    return np.asarray(X.sum(axis=1), dtype=np.float64).ravel()


def ours(X: sp.csr_matrix, Y: sp.csr_matrix) -> Callable[[], object]:
    """TanimotoMinMax, the preparation of the right side included."""
    return lambda: TanimotoMinMax()(X, Y)


def sparse_dense(X: sp.csr_matrix, Y: sp.csr_matrix) -> Callable[[], object]:
    """SciPy CSR times dense, float32, of the expansions."""
    A, B = expanded(X, Y)
    right = np.ascontiguousarray(B.T.toarray())
    return lambda: quotient(A @ right, _sums(A), _sums(B))


def sparse_sparse(X: sp.csr_matrix, Y: sp.csr_matrix) -> Callable[[], object]:
    """SciPy CSR times CSR of the expansions."""
    A, B = expanded(X, Y)
    right = B.T.tocsr()
    return lambda: quotient((A @ right).toarray(), _sums(A), _sums(B))


def blas(X: sp.csr_matrix, Y: sp.csr_matrix) -> Callable[[], object]:
    """Dense float32 matrix product (BLAS) of the expansions."""
    A, B = expanded(X, Y)
    left, right = A.toarray(), B.toarray()
    return lambda: quotient(left @ right.T, _sums(A), _sums(B))


def scipy_cdist(columns: int) -> Program:
    """SciPy cdist, cityblock, on dense folded counts, and equation 34."""

    def program(X: sp.csr_matrix, Y: sp.csr_matrix) -> Callable[[], object]:
        A, B = folded(X, columns), folded(Y, columns)
        left, right = A.toarray(), B.toarray()
        return lambda: by_l1(cdist(left, right, "cityblock"), _sums(A), _sums(B))

    return program


def sklearn_manhattan(X: sp.csr_matrix, Y: sp.csr_matrix) -> Callable[[], object]:
    """scikit-learn manhattan_distances on sparse folded counts, and equation 34."""
    A, B = folded(X, 2048), folded(Y, 2048)
    return lambda: by_l1(manhattan_distances(A, B), _sums(A), _sums(B))


def our_dot_product(X: sp.csr_matrix, Y: sp.csr_matrix) -> Callable[[], object]:
    """TanimotoDotProduct of square roots."""
    return lambda: TanimotoDotProduct(transform="sqrt")(X, Y)


def _roots(X: sp.csr_matrix, Y: sp.csr_matrix) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    columns, numbers = np.unique(np.concatenate([X.indices, Y.indices]), return_inverse=True)
    splits = np.split(numbers.ravel(), [X.nnz])
    return tuple(
        sp.csr_matrix((np.sqrt(A.data.astype(float)), own, A.indptr), shape=(A.shape[0], columns.size))
        for A, own in zip((X, Y), splits, strict=True)
    )


def dot_sparse_dense(X: sp.csr_matrix, Y: sp.csr_matrix) -> Callable[[], object]:
    """SciPy CSR times dense of square roots, float64, in the columns that occur."""
    A, B = _roots(X, Y)
    right = np.ascontiguousarray(B.T.toarray())
    return lambda: quotient(A @ right, _sums(A.multiply(A)), _sums(B.multiply(B)))


def dot_sparse_sparse(X: sp.csr_matrix, Y: sp.csr_matrix) -> Callable[[], object]:
    """SciPy CSR times CSR of square roots."""
    A, B = _roots(X, Y)
    right = B.T.tocsr()
    return lambda: quotient((A @ right).toarray(), _sums(A.multiply(A)), _sums(B.multiply(B)))


# Each group is compared with its first program; the number is the share of the rows that a program gets.
GROUPS: dict[str, dict[str, tuple[Program, float]]] = {
    "T_minmax": {
        "daskrf": (ours, 1.0),
        "SciPy CSR @ dense, expanded": (sparse_dense, 1.0),
        "SciPy CSR @ CSR, expanded": (sparse_sparse, 0.25),
        "BLAS float32, expanded": (blas, 0.1),
        "SciPy cdist, folded dense 1024": (scipy_cdist(1024), 0.02),
        "SciPy cdist, folded dense 2048": (scipy_cdist(2048), 0.02),
        "scikit-learn manhattan, folded sparse": (sklearn_manhattan, 0.05),
    },
    "T_dp of square roots": {
        "daskrf": (our_dot_product, 1.0),
        "SciPy CSR @ dense": (dot_sparse_dense, 1.0),
        "SciPy CSR @ CSR": (dot_sparse_sparse, 0.25),
    },
}


def measure(X: sp.csr_matrix, Y: sp.csr_matrix, repeats: int) -> dict[str, dict[str, list[float]]]:
    """Return CPU seconds for all rows by group and program."""
    runs = {}
    for group, programs in GROUPS.items():
        for name, (build, share) in programs.items():
            rows = X[: max(1, int(share * X.shape[0]))]
            build(X[:10], Y)()  # compiles, where there is something to compile
            runs[group, name] = build(rows, Y), X.shape[0] / rows.shape[0]
    seconds: dict[str, dict[str, list[float]]] = {group: {} for group in GROUPS}
    for _ in range(repeats):
        for (group, name), (run, scale) in runs.items():
            start = time.process_time()
            run()
            seconds[group].setdefault(name, []).append(scale * (time.process_time() - start))
    return seconds


def main() -> None:
    """Parse the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    data = Path(os.environ.get("DASKRF_DATA") or Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("smiles", type=Path, nargs="?", default=data / "Enamine50k_library.csv.gz")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--landmarks", type=int, default=2000)
    parser.add_argument("--radius", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="2,000 x 500, one repeat")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.landmarks, options.repeats = 2000, 500, 1
    fingerprints = read_fingerprints(options.smiles, options.rows + options.landmarks, options.radius)
    X, Y = fingerprints[: -options.landmarks], fingerprints[-options.landmarks :]
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    print(
        f"daskrf {daskrf.__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}"
    )
    print(
        f"Block {X.shape[0]:,} x {Y.shape[0]:,}, Morgan radius {options.radius}: {X.nnz / X.shape[0]:.1f} "
        f"columns and {X.sum() / X.shape[0]:.1f} set elements a row; one thread; CPU seconds, median of "
        f"{options.repeats}"
    )
    with threadpool_limits(1):
        measured = measure(X, Y, options.repeats)
    for group, programs in measured.items():
        print(group)
        for name, times in programs.items():
            ratio = statistics.median(times) / statistics.median(programs["daskrf"])
            print(f"  {name:40s} {statistics.median(times):9.3f} s   {ratio:8.1f} times daskrf's time")


if __name__ == "__main__":
    main()
