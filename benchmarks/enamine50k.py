"""Accuracy on real docking scores (Enamine50k), and which criterion chooses the hyperparameters well.

49,706 scored molecules in file order; perm = numpy.random.default_rng(0).permutation(n); the first 40,000 are
for training, the rest for the test. Morgan counts, unfolded, one-bit Tanimoto features. Hyperparameters by
the evidence on all training rows, by 5-fold cross-validation from statistics, by a held-out fifth of the
training rows, and (what no method can know) by the test rows themselves.

    python benchmarks/enamine50k.py [--components 2048 4096 8192] [--seeds 0] [--radius 1] [--criteria all]

Fingerprints are kept in a file of the temporary folder between runs.
"""

from __future__ import annotations

import argparse
import gzip
import math
import os
import tempfile
import time
from collections.abc import Callable
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar

from daskrf.features import TanimotoMinMaxFeatures
from daskrf.gp import (
    RandomFeatureGP,
    SufficientStatistics,
    calibration_report,
    choose_by_cross_validation,
    choose_exponent,
)
from daskrf.gp.validation.calibration import mean_log_probability
from daskrf.molecules import Fingerprinter, FingerprintSpec, rdkit_version

N_TRAIN = 40_000
CRITERIA = ("evidence", "cross-validation", "held-out", "test rows")


def fingerprints(data: Path, radius: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return Morgan counts and scores, from a file of the temporary folder where there is one."""
    cache = Path(tempfile.gettempdir()) / f"daskrf-rdkit-{rdkit_version()}-enamine50k-morgan{radius}.npz"
    if not cache.exists():
        with gzip.open(data / "Enamine50k_scores.csv.gz", "rt") as file:
            rows = [line.rsplit(",", 1) for line in file.read().splitlines()[1:]]
        block = Fingerprinter(FingerprintSpec(radius=radius))([smiles for smiles, _ in rows])
        x, scores = block.fingerprints, np.array([float(score) for _, score in rows])[block.kept]
        np.savez(cache, data=x.data, indices=x.indices, indptr=x.indptr, shape=x.shape, scores=scores)
    found = np.load(cache)
    parts = (found["data"], found["indices"], found["indptr"])
    return sparse.csr_matrix(parts, shape=tuple(found["shape"])), found["scores"]


def best_on(
    statistics: SufficientStatistics, bits: np.ndarray, y: np.ndarray, start: float
) -> tuple[float, float]:
    """Return the signal variance and noise variance of the largest mean log probability of held-out rows."""

    def scaled(x: float) -> tuple[float, float]:
        ratio = math.exp(x)
        gp = RandomFeatureGP(signal_variance=1.0, noise_variance=ratio).fit_statistics(statistics)
        mean, std = gp.predict(bits, return_std=True)
        signal_variance = float(np.mean(np.square((y - mean) / std)))
        return -mean_log_probability(y, mean, math.sqrt(signal_variance) * std), signal_variance

    ends = math.log(start) - 2.0, math.log(start) + 2.0
    found = minimize_scalar(lambda x: scaled(x)[0], bounds=ends, method="bounded", options={"xatol": 0.05})
    signal_variance = scaled(float(found.x))[1]
    return signal_variance, signal_variance * math.exp(float(found.x))


def report(name: str, gp: RandomFeatureGP, bits: np.ndarray, y: np.ndarray, seconds: float) -> None:
    """Print one line of figures on the test rows."""
    mean, std = gp.predict(bits, return_std=True)
    c = calibration_report(y, mean, std)
    evidence = gp.log_marginal_likelihood_value_
    print(
        f"  {name:17s} mean {gp.mean_[0]:7.3f}  a {gp.signal_variance_[0]:.4f}  "
        f"noise {gp.noise_variance_[0]:.4f}  "
        f"log evidence {evidence:9.1f} | R2 {c.r2:.4f}  mlp {c.mean_log_probability:.4f}  "
        f"coverage {c.coverage_50:.3f} {c.coverage_80:.3f} {c.coverage_95:.3f}  z {c.z_std:.3f}  "
        f"ECE {c.calibration_error:.4f} ({seconds:.0f} s)",
        flush=True,
    )


def compare(x: sparse.csr_matrix, y: np.ndarray, n_components: int, seed: int, criteria: list[str]) -> None:
    """Fit by each criterion and print the figures on the test rows."""
    bits = TanimotoMinMaxFeatures(n_components, random_state=seed).fit(x).transform_bits(x)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:N_TRAIN], order[N_TRAIN:]
    exponents = choose_exponent(y[train])
    folds = [
        SufficientStatistics.from_chunk(bits[r], y[r], n_components=n_components, y_exponents=exponents)
        for r in np.array_split(train, 5)
    ]
    total = reduce(add, folds)
    start = time.perf_counter()
    evidence = RandomFeatureGP().fit_statistics(total)
    report("evidence", evidence, bits[test], y[test], time.perf_counter() - start)
    ratio = float(evidence.noise_variance_[0] / evidence.signal_variance_[0])
    held = np.array_split(train, 5)[0]

    def cross_validation() -> tuple[float, float]:
        best = choose_by_cross_validation(folds, start=ratio, tolerance=0.1)
        return best.signal_variance, best.noise_variance

    choices: dict[str, Callable[[], tuple[float, float]]] = {
        "cross-validation": cross_validation,
        "held-out": lambda: best_on(total.subtract(folds[0]), bits[held], y[held], ratio),
        "test rows": lambda: best_on(total, bits[test], y[test], ratio),
    }
    for name, choose in choices.items():
        if name in criteria:
            start = time.perf_counter()
            signal_variance, noise = choose()
            gp = RandomFeatureGP(signal_variance=signal_variance, noise_variance=noise).fit_statistics(total)
            report(name, gp, bits[test], y[test], time.perf_counter() - start)


def main() -> None:
    """Run the comparisons that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--components", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--radius", type=int, nargs="+", default=[1])
    parser.add_argument("--criteria", nargs="+", default=["all"], choices=["all", *CRITERIA])
    options = parser.parse_args()
    data = Path(os.environ.get("DASKRF_DATA") or Path(__file__).parents[2] / "shared" / "data")
    criteria = list(CRITERIA) if "all" in options.criteria else options.criteria
    for radius in options.radius:
        x, y = fingerprints(data, radius)
        for n_components in options.components:
            for seed in options.seeds:
                print(f"M = {n_components}, Morgan radius {radius}, seed {seed}, {len(y):,} molecules")
                compare(x, y, n_components, seed, criteria)


if __name__ == "__main__":
    main()
