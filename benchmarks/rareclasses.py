"""Two classes with few labels: a calibrated link on a regression, expectation propagation, a random forest.

    python benchmarks/rareclasses.py hiv.csv HIV_active --sizes 300 1000 --seeds 3
    python benchmarks/rareclasses.py bace.csv Class --folds 5

The first command fits to random molecules of a table and predicts 3,000 others. The second one cuts the
training part of the scaffold split of `benchmarks/classes.py` into folds that share no scaffold; no test
molecule is seen. All have the Tanimoto kernel on the default fingerprints.

Expectation propagation is that of the process of the classification with a probit link: labels are the signs
of f plus a standard normal error, which are limits at 0 (`daskrf.gp.likelihoods.censored`) of a measurement
with a noise variance of 1. Its mean and signal variance have the largest approximate evidence.
"""

from __future__ import annotations

import csv
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri
from sklearn.ensemble import RandomForestClassifier

from benchmarks.classes import split_by_scaffold
from benchmarks.common import parser, print_header, write_results
from daskrf import TanimotoMinMax
from daskrf.gp.likelihoods.censored import Censored
from daskrf.gp.likelihoods.propagation import Propagated, propagate
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.sums.folds import equal_rows
from daskrf.gp.validation.baselines import forest_columns
from daskrf.gp.validation.probability import fit_link, without_own_label
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.diversity import scaffolds
from daskrf.report.merit import measured_classes

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Predictor = Callable[[Any, Array, Any], Array]

KERNEL = TanimotoMinMax()
TREES, N_TEST = 500, 3000
FIGURES = ("auc", "average_precision", "log_loss")


def main() -> None:
    """Fit, predict and compare."""
    options_of = parser(__doc__)
    options_of.add_argument("table", type=Path, help="a CSV file")
    options_of.add_argument("target", help="its column of 0 and 1")
    options_of.add_argument("--smiles", default="smiles", help="its column of SMILES (default: %(default)s)")
    options_of.add_argument("--sizes", type=int, nargs="*", default=[], help="numbers of random labels")
    options_of.add_argument("--seeds", type=int, default=3, help="random choices of each size")
    options_of.add_argument("--folds", type=int, help="folds of scaffolds of the training part")
    options = options_of.parse_args()
    print_header(options.seed)
    with options.table.open() as file:
        rows = list(csv.DictReader(file))
    results: dict[str, Any] = {}
    for name, X, y, splits in problems(rows, options):
        probability = {each: np.full(len(y), np.nan) for each in PREDICTORS}
        seconds = dict.fromkeys(PREDICTORS, 0.0)
        for train, test in splits:
            for each, predicted in PREDICTORS.items():
                begun = time.process_time()
                probability[each][test] = predicted(X[train], y[train], X[test])
                seconds[each] += time.process_time() - begun
        results[name] = {}
        for each, values in probability.items():
            there = np.isfinite(values)
            # A forest says 0 where no tree agrees: half a tree is the least probability, here for all.
            clipped = np.clip(values[there], 0.5 / TREES, 1 - 0.5 / TREES)
            figures = measured_classes(y[there], clipped, clipped)
            results[name][each] = {key: figures[key] for key in FIGURES} | {"cpu_seconds": seconds[each]}
            print(name, each, {key: round(v, 4) for key, v in results[name][each].items()}, flush=True)
    print(
        write_results(
            options.output,
            "rareclasses",
            seed=options.seed,
            settings={"trees": TREES, "n_test": N_TEST},
            results={options.table.stem: results},
            keep=True,
        )
    )


def problems(
    rows: list[dict[str, str]], options: Any
) -> Iterator[tuple[str, Any, Array, list[tuple[Rows, Rows]]]]:
    """Yield name, fingerprints, labels and the rows to fit and to test."""
    for size in options.sizes:
        for seed in range(options.seeds):
            order = np.random.default_rng(seed).permutation(len(rows))[: size + N_TEST]
            X, y, _ = read([rows[i] for i in order.tolist()], options)
            yield f"{size} labels, {seed}", X, y, [(np.arange(size), np.arange(size, len(y)))]
    if options.folds:
        kept = Fingerprinter(FingerprintSpec())([row[options.smiles] for row in rows]).kept
        training, _ = split_by_scaffold([rows[i] for i in kept.tolist()], options.smiles)
        X, y, smiles = read(training, options)
        fold = folds_of(smiles, options.folds)
        splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(options.folds)]
        yield f"{options.folds} folds of scaffolds", X, y, splits


def read(rows: list[dict[str, str]], options: Any) -> tuple[Any, Array, list[str]]:
    """Return fingerprints, labels and SMILES."""
    smiles = [row[options.smiles] for row in rows]
    block = Fingerprinter(FingerprintSpec())(smiles)
    kept = block.kept.tolist()
    y = np.array([float(rows[i][options.target]) for i in kept])
    return block.fingerprints, y, [smiles[i] for i in kept]


def folds_of(smiles: list[str], n_folds: int) -> npt.NDArray[np.intp]:
    """Return the fold of each molecule: scaffolds, the largest first, go to the fold that is smallest."""
    _, group, size = np.unique(scaffolds(smiles), return_inverse=True, return_counts=True)
    order = np.random.default_rng(0).permutation(len(size))
    filled, fold = np.zeros(n_folds), np.zeros(len(size), np.intp)
    for each in order[np.argsort(-size[order], kind="stable")].tolist():
        fold[each] = filled.argmin()
        filled[fold[each]] += size[each]
    return fold[group]


def by_link(X: Any, y: Array, X_test: Any) -> Array:
    """Return probabilities as `daskrf fit` and `predict` make them for exact processes."""
    gp = ExactGP(KERNEL, solver="cholesky").fit(X, y)
    mean, std = gp.predict(X, return_std=True, of="f")
    left_out = without_own_label(y, mean, std, float(gp.noise_variance_[0]), equal_rows(X))
    return fit_link(*left_out, y > 0.5)(*gp.predict(X_test, return_std=True, of="f"))


def by_propagation(X: Any, y: Array, X_test: Any) -> Array:
    """Return probabilities of the process of the classification, by expectation propagation."""
    matrix, side = KERNEL(X), np.where(y > 0.5, 1, -1).astype(np.int8)
    labels, best, start = (
        Censored(np.zeros(len(y)), side),
        dict[float, tuple[float, float, Propagated]](),
        None,
    )

    def loss(x: Array) -> tuple[float, Array]:
        nonlocal start
        mean, signal = float(x[0]), math.exp(x[1])
        covariance = signal * matrix
        covariance.flat[:: len(y) + 1] += 1.0
        fit = propagate(labels, np.full(len(y), mean), covariance, start=start, tolerance=1e-3, max_sweeps=30)
        start = fit.sites if fit.converged else start
        best[-fit.log_evidence] = mean, signal, fit
        precision, alpha = fit.sites.precision, fit.by_mean
        of_noise = 0.5 * (alpha @ alpha - (precision - precision**2 * fit.variance).sum())
        return -fit.log_evidence, -np.array([alpha.sum(), fit.by_scale - of_noise])

    bounds = [(-8.0, 8.0), (math.log(0.05), math.log(400.0))]
    first = np.array([1.5 * ndtri(y.mean()), math.log(4.0)])
    minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 15, "ftol": 1e-5})
    mean, signal, fit = best[min(best)]
    stand_ins, noise = fit.sites.as_labels(np.full(len(y), signal + 1.0))
    covariance = signal * matrix
    covariance.flat[:: len(y) + 1] += 1.0 + noise
    factor, cross = cho_factor(covariance, lower=True), signal * KERNEL(X_test, X)
    means = mean + cross @ cho_solve(factor, stand_ins - mean)
    variance = signal * KERNEL.diag(X_test) - np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T))
    return np.asarray(ndtr(means / np.sqrt(1.0 + np.maximum(variance, 0.0))))


def by_forest(X: Any, y: Array, X_test: Any) -> Array:
    """Return the shares of the trees of a random forest."""
    seen = np.unique(X.indices)
    forest = RandomForestClassifier(TREES, random_state=0).fit(forest_columns(X, seen), y)
    return np.asarray(forest.predict_proba(forest_columns(X_test, seen))[:, 1])


PREDICTORS: dict[str, Predictor] = {"link": by_link, "propagation": by_propagation, "forest": by_forest}


if __name__ == "__main__":
    main()
