"""What a Gaussian process of several targets gains over one for each: six ADME endpoints.

    python benchmarks/coregionalization.py [--unseen] [--data FOLDER]

Sets and splits are those of `benchmarks/external.py adme`. Many test molecules of an endpoint are training
molecules of others. With `--unseen`, molecules in the test set of any endpoint are left out of all training
sets, so that nothing is known of a test molecule.

The covariance of f of target s at x and of target t at x' is sqrt(a_s a_t) B_st k(x, x'), with the Tanimoto
kernel k on the default fingerprints and a signal variance a for each target (Bonilla, Chai & Williams 2008,
Multi-task Gaussian process prediction). Means, signal and noise variances are those of independent processes.
B_st maximizes the evidence of the two targets on at most 1,000 labels each, molecules with both first; then
the nearest positive semidefinite correlation matrix is taken. Nothing is chosen by test molecules.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from external import ADME, Data, adme
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize_scalar

from daskrf import TanimotoMinMax
from daskrf.gp.processes.exact import ExactGP
from daskrf.molecules import Fingerprinter, FingerprintSpec

Array = npt.NDArray[np.float64]

KERNEL = TanimotoMinMax()
MOST = 1000  # labels of each target for a correlation
LEAST_EIGENVALUE = 1e-3


@dataclass
class Part:
    """Fingerprints, labels and SMILES of the training or test molecules of an endpoint."""

    X: Any
    y: Array
    smiles: npt.NDArray[np.object_]

    def take(self, rows: npt.NDArray[np.intp]) -> Part:
        """Return some of the molecules."""
        return Part(self.X[rows], self.y[rows], self.smiles[rows])


@dataclass
class Endpoint:
    """An endpoint with its independent process."""

    train: Part
    test: Part
    gp: ExactGP

    @property
    def standardized(self) -> Array:
        """Training labels with a mean of 0 and a signal variance of 1."""
        return (self.train.y - self.gp.mean_[0]) / np.sqrt(self.gp.signal_variance_[0])

    @property
    def noise(self) -> float:
        """Noise to signal variance."""
        return float(self.gp.noise_variance_[0] / self.gp.signal_variance_[0])

    def r2(self, mean: Array) -> float:
        """Return R2 of predictions of the test molecules."""
        y = self.test.y
        return float(1 - np.square(y - mean).sum() / np.square(y - y.mean()).sum())


def read(data: Data, *, unseen: bool) -> dict[str, Endpoint]:
    """Return all endpoints, with their independent processes."""
    parts: dict[str, list[Part]] = {}
    for split in adme(data, 1):
        parts[split.name] = []
        for frame in (split.train, split.test):
            smiles = frame["smiles"].to_numpy(object)
            block = Fingerprinter(FingerprintSpec())(smiles.tolist())
            y = frame["y"].to_numpy(float)[block.kept]
            parts[split.name].append(Part(block.fingerprints, y, smiles[block.kept]))
    tested = np.concatenate([test.smiles for _, test in parts.values()])
    endpoints = {}
    for name, (train, test) in parts.items():
        some = train.take(np.flatnonzero(~np.isin(train.smiles, tested))) if unseen else train
        endpoints[name] = Endpoint(some, test, ExactGP(KERNEL, solver="cholesky").fit(some.X, some.y))
    return endpoints


def correlation(one: Endpoint, other: Endpoint) -> float:
    """Return the correlation of two targets with the largest evidence."""
    rows = []
    for this, that in ((one, other), (other, one)):
        shared = np.isin(this.train.smiles, that.train.smiles)
        random = np.random.default_rng(0).random(len(shared))
        order = np.lexsort([random, this.train.smiles.astype(str), ~shared])
        rows.append(np.sort(order[:MOST]))
    parts = one.train.take(rows[0]), other.train.take(rows[1])
    target = np.repeat([0, 1], [len(each) for each in rows])
    y = np.concatenate([one.standardized[rows[0]], other.standardized[rows[1]]])
    noise = np.array([one.noise, other.noise])[target]
    matrix = KERNEL(sp.vstack([part.X for part in parts]).tocsr())

    def loss(value: float) -> float:
        covariance = matrix * np.where(target[:, None] == target, 1.0, value)
        covariance.flat[:: len(y) + 1] += noise
        factor = cholesky(covariance, lower=True)
        white = solve_triangular(factor, y, lower=True)
        return float(0.5 * white @ white + np.log(factor.diagonal()).sum())

    return float(minimize_scalar(loss, bounds=(-0.98, 0.98), method="bounded", options={"xatol": 0.03}).x)


def correlations(endpoints: dict[str, Endpoint]) -> Array:
    """Return the positive semidefinite matrix of correlations."""
    names = list(endpoints)
    B = np.eye(len(names))
    for i, j in itertools.combinations(range(len(names)), 2):
        B[i, j] = B[j, i] = correlation(endpoints[names[i]], endpoints[names[j]])
    values, vectors = np.linalg.eigh(B)
    B = (vectors * np.maximum(values, LEAST_EIGENVALUE)) @ vectors.T
    return B / np.sqrt(np.outer(B.diagonal(), B.diagonal()))


def joint(endpoints: dict[str, Endpoint], B: Array) -> dict[str, Array]:
    """Return the means of test molecules by the process of all targets."""
    every = list(endpoints.values())
    target = np.repeat(np.arange(len(every)), [len(each.train.y) for each in every])
    X = sp.vstack([each.train.X for each in every]).tocsr()
    covariance = np.empty((len(target), len(target)))
    for rows, block in KERNEL.blocks(X):
        covariance[rows] = block * B[target[rows][:, None], target]
    covariance.flat[:: len(target) + 1] += np.array([each.noise for each in every])[target]
    y = np.concatenate([each.standardized for each in every])
    alpha = cho_solve(cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False), y)
    means = {}
    for t, (name, each) in enumerate(endpoints.items()):
        scale = np.sqrt(each.gp.signal_variance_[0])
        means[name] = each.gp.mean_[0] + scale * (KERNEL(each.test.X, X) @ (B[t, target] * alpha))
    return means


def main() -> None:
    """Fit and compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--unseen", action="store_true", help="leave all test molecules out")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "daskrf-external-data")
    arguments = parser.parse_args()
    endpoints = read(Data(arguments.data), unseen=arguments.unseen)
    B = correlations(endpoints)
    print(B.round(2), flush=True)
    means, gains = joint(endpoints, B), []
    for name in ADME:
        each = endpoints[name]
        alone, together = each.r2(each.gp.predict(each.test.X)), each.r2(means[name])
        gains.append(together - alone)
        print(f"{name}: {len(each.train.y):,} labels, R2 {alone:.3f} alone, {together:.3f} together")
    print(f"mean gain {np.mean(gains):.3f}")


if __name__ == "__main__":
    main()
