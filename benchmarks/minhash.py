"""Molecules per second of the one-bit Tanimoto features against other min-hash programs, on one thread.

    python benchmarks/minhash.py SMILES_FILE [--molecules 10000] [--components 4096] [--repeats 5] [--quick]

Prints one line a program: median rate over the repeats and how many times slower than daskrf it is in this
run. rensa and datasketch are measured where they are installed; each gets its set elements hashed beforehand,
outside the timing. rensa gets the same molecules, since the rate of daskrf, which hashes an element once for
all molecules of a call, grows with their number; datasketch and NumPy, whose rates do not, get fewer. The
time is CPU time.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from daskrf import seeds
from daskrf.features import TanimotoMinMaxFeatures
from daskrf.molecules import Fingerprinter, FingerprintSpec


def read_fingerprints(path: Path, molecules: int, radius: int) -> sp.csr_matrix:
    """Return unfolded Morgan counts of the first `molecules` lines of a file of SMILES."""
    with path.open() as file:
        smiles = [line.split()[0] for line in itertools.islice(file, molecules) if line.strip()]
    return Fingerprinter(FingerprintSpec(radius=radius))(smiles).fingerprints


def expanded_hashes(X: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return 64-bit hashes of all set elements (column, level), and where each row's begin."""
    counts = X.data.astype(np.int64)
    columns = np.repeat(X.indices.astype(np.uint64), counts)
    levels = np.arange(columns.size) - np.repeat(np.cumsum(counts) - counts, counts)
    hashes = seeds.splitmix64(columns * np.uint64(65_536) + levels.astype(np.uint64))
    return hashes, np.concatenate([[0], np.cumsum(counts)])[X.indptr].astype(np.uint64)


def numpy_program(X: sp.csr_matrix, n_components: int) -> Callable[[], object]:
    """The plain NumPy formulation: all hashes of a molecule's elements at once, then a minimum."""
    hashes, starts = expanded_hashes(X)
    factors = seeds.words(0, "benchmark", n_components) | np.uint64(1)

    def run() -> np.ndarray:
        bits = np.empty((X.shape[0], n_components // 8), np.uint8)
        for row, (start, stop) in enumerate(itertools.pairwise(starts)):
            mixed = seeds.splitmix64(hashes[start:stop, None] * factors)
            lowest = mixed.min(axis=0) >> np.uint64(63) if stop > start else np.zeros(n_components)
            bits[row] = np.packbits(lowest.astype(np.uint8), bitorder="little")
        return bits

    return run


def rensa_program(X: sp.csr_matrix, n_components: int) -> Callable[[], object]:
    """rensa's bulk min-hash from hashed elements (32-bit signatures, not yet reduced to bits)."""
    os.environ["RAYON_NUM_THREADS"] = "1"
    from rensa import RMinHash

    hashes, starts = expanded_hashes(X)
    return lambda: RMinHash.digest_matrix_from_flat_token_hashes(hashes, starts, n_components, 42)


def datasketch_program(X: sp.csr_matrix, n_components: int) -> Callable[[], object]:
    """datasketch's MinHash, its NumPy batch update, from hashed elements."""
    from datasketch import MinHash

    hashes, starts = expanded_hashes(X)
    rows = [(hashes[a:b] >> np.uint64(32)).tolist() for a, b in itertools.pairwise(starts)]
    empty = MinHash(num_perm=n_components, hashfunc=int)

    def run() -> list[np.ndarray]:
        signatures = []
        for row in rows:
            sketch = empty.copy()
            sketch.update_batch(row)
            signatures.append(sketch.hashvalues)
        return signatures

    return run


def daskrf_program(X: sp.csr_matrix, n_components: int) -> Callable[[], object]:
    """TanimotoMinMaxFeatures.transform_bits."""
    feature_map = TanimotoMinMaxFeatures(n_components).fit()
    return lambda: feature_map.transform_bits(X)


PROGRAMS = {
    "daskrf": (daskrf_program, 1.0),
    "rensa": (rensa_program, 1.0),
    "datasketch": (datasketch_program, 0.02),
    "NumPy": (numpy_program, 0.01),
}


def measure(X: sp.csr_matrix, n_components: int, repeats: int) -> dict[str, float]:
    """Return median molecules/s by program; the programs take turns, so that load hits all of them."""
    programs = {}
    for name, (build, share) in PROGRAMS.items():
        rows = X[: max(1, int(share * X.shape[0]))]
        try:
            build(X[:2], n_components)()
            programs[name] = rows.shape[0], build(rows, n_components)
        except ImportError:
            print(f"{name:12s} not installed")
    rates: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, (n_rows, run) in programs.items():
            start = time.process_time()
            run()
            rates[name].append(n_rows / (time.process_time() - start))
    return {name: statistics.median(values) for name, values in rates.items()}


def main() -> None:
    """Parse the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("smiles", type=Path, help="file with one SMILES a line")
    parser.add_argument("--molecules", type=int, default=10_000)
    parser.add_argument("--components", type=int, default=4096, help="a multiple of 8")
    parser.add_argument("--radius", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="1,000 molecules, 3 repeats")
    options = parser.parse_args()
    if options.quick:
        options.molecules, options.repeats = 1000, 3
    X = read_fingerprints(options.smiles, options.molecules, options.radius)
    elements = X.data.sum() / X.shape[0]
    print(f"{X.shape[0]:,} molecules in a call, Morgan radius {options.radius} counts")
    print(
        f"{elements:.1f} set elements each, M = {options.components}; one thread; median of {options.repeats}"
    )
    rates = measure(X, options.components, options.repeats)
    for name, rate in rates.items():
        print(f"{name:12s} {rate:12,.0f} molecules/s   daskrf is {rates['daskrf'] / rate:8.1f} times as fast")


if __name__ == "__main__":
    main()
