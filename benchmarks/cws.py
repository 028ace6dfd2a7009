"""Molecules per second of min-max Tanimoto features: both hashings, both distributions, one thread, CPU time.

Counts are Morgan radius 1 counts; real weights are the counts times a log-normal number each, so that no two
are equal. "plain NumPy" is the formulation of the paper's code: tables of r, c and beta for all columns and
features made beforehand, outside the timing, then all ranks of a molecule at once, an argmin, and a hash of
the sample to one of 4,096 random numbers. The programs take turns, so that load hits all of them.

    python benchmarks/cws.py SMILES_FILE [--molecules 10000] [--components 5000] [--repeats 3]
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import parser, print_header, table, write_results
from minhash import read_fingerprints

from daskrf.features import TanimotoMinMaxFeatures

N_NUMPY = 50


def numpy_program(X: sp.csr_matrix, n_components: int, seed: int) -> Callable[[], object]:
    """The paper's way, with the right rank: ln a = ln c - ln y - r, ln y = r (t - beta)."""
    rng = np.random.default_rng(seed)
    columns, where = np.unique(X.indices, return_inverse=True)
    shape = columns.size, n_components
    r, log_c = rng.gamma(2, 1, shape), np.log(rng.gamma(2, 1, shape))
    beta, xi = rng.random(shape), rng.choice([-1.0, 1.0], 4096)

    def run() -> np.ndarray:
        Phi = np.empty((X.shape[0], n_components))
        for row, (start, stop) in enumerate(itertools.pairwise(X.indptr)):
            k = where[start:stop]
            t = np.floor(np.log(X.data[start:stop, None]) / r[k] + beta[k])
            rank = log_c[k] - r[k] * (t - beta[k]) - r[k]
            best = rank.argmin(axis=0)
            sample = zip(k[best].tolist(), t[best, np.arange(n_components)].tolist(), strict=True)
            Phi[row] = xi[[hash(pair) % 4096 for pair in sample]]
        return Phi

    return run


def programs(X: sp.csr_matrix, W: sp.csr_matrix, n_components: int, seed: int) -> dict[str, tuple]:
    """Return the rows of each program and the function that featurizes them."""
    found: dict[str, tuple] = {}
    for what, rows in (("counts", X), ("real weights", W)):
        for hashing in ("minwise", "cws") if what == "counts" else ("cws",):
            for distribution in ("rademacher", "gaussian"):
                feature_map = TanimotoMinMaxFeatures(
                    n_components, distribution=distribution, hashing=hashing, random_state=seed
                )
                call = feature_map.transform_bits if feature_map.one_bit else feature_map.transform
                call(rows[:2])
                found[f"{hashing}, {distribution}, {what}"] = rows.shape[0], lambda c=call, r=rows: c(r)
        few = rows[:N_NUMPY]
        found[f"plain NumPy, {what}"] = few.shape[0], numpy_program(few, n_components, seed)
    return found


def main() -> None:
    """Parse the arguments, measure and print."""
    options = parser(__doc__)
    options.add_argument("smiles", type=Path, help="file with one SMILES a line")
    options.add_argument("--molecules", type=int, default=10_000)
    options.add_argument("--components", type=int, default=5000)
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args()
    print_header(given.seed)
    X = read_fingerprints(given.smiles, given.molecules, radius=1)
    W = X.astype(np.float64)
    W.data *= np.exp(np.random.default_rng(given.seed).normal(size=W.nnz))
    print(
        f"{X.shape[0]:,} molecules in a call, {X.nnz / X.shape[0]:.1f} columns each, M = {given.components}"
    )
    measured = programs(X, W, given.components, given.seed)
    rates: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(given.repeats):
        for name, (n_rows, run) in measured.items():
            start = time.process_time()
            run()
            rates[name].append(n_rows / (time.process_time() - start))
    median = {name: statistics.median(values) for name, values in rates.items()}
    rows = [
        {"features": name, "molecules/s": rate, "times NumPy": rate / median[f"plain NumPy, {what}"]}
        for name, rate in median.items()
        for what in [name.split(", ")[-1]]
    ]
    print(table(rows, {"features": "", "molecules/s": ",.0f", "times NumPy": ".1f"}))
    settings = {key: getattr(given, key) for key in ("molecules", "components", "repeats")}
    write_results(given.output, "cws", seed=given.seed, settings=settings, results=rows)


if __name__ == "__main__":
    main()
