"""Classes by scaffold: probabilities of daskrf beside those of a random forest on the same fingerprints.

    python benchmarks/classes.py hiv.csv HIV_active

reads a table with SMILES and a column of two classes. The scaffolds, from the largest to the smallest, fill
the training set up to 80 % of the molecules; the others are the test set (the scaffold split of MoleculeNet,
with its validation set in the test set). daskrf fits and predicts with its defaults. The forest has 500
trees of scikit-learn, with its defaults, on the same counts. Nothing is chosen by the test set.

    python benchmarks/classes.py bace.csv Class --kind wide --splits 5

counts other kinds, and draws further splits: the scaffolds in random order fill the training set. Differences
between daskrf and the forest are then shown with their standard error.
"""

from __future__ import annotations

import csv
import functools
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sklearn.ensemble import RandomForestClassifier

from benchmarks.common import parser, print_header, write_results
from daskrf import fit, predict
from daskrf.gp.validation.baselines import forest_columns
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.diversity import scaffolds
from daskrf.report.merit import measured_classes

TREES, SHARE = 500, 0.8
FIGURES = ("auc", "average_precision", "bedroc", "log_loss", "brier", "enrichment_1", "enrichment_5")

Rows = list[dict[str, str]]


def main() -> None:
    """Split, fit, predict and compare."""
    options_of = parser(__doc__)
    options_of.add_argument("table", type=Path, help="a CSV file")
    options_of.add_argument("target", help="its column of 0 and 1")
    options_of.add_argument("--smiles", default="smiles", help="its column of SMILES (default: %(default)s)")
    options_of.add_argument("--without-forest", action="store_true", help="the forest takes long")
    options_of.add_argument("--kind", nargs="*", default=[], help="fingerprint kinds, such as wide")
    options_of.add_argument("--splits", type=int, default=0, help="further splits by scaffold, at random")
    options_of.add_argument("--process", choices=["auto", "exact", "features"], default="auto")
    options = options_of.parse_args()
    print_header(options.seed)
    with options.table.open() as file:
        rows = list(csv.DictReader(file))
    kept = Fingerprinter(FingerprintSpec())([row[options.smiles] for row in rows]).kept
    rows = [rows[i] for i in kept.tolist()]
    ours = functools.partial(by_daskrf, process=options.process)
    predictors: dict[str, Any] = {"daskrf": ours} | ({} if options.without_forest else {"forest": by_forest})
    spec = FingerprintSpec(options.kind) if options.kind else FingerprintSpec()
    settings = {"trees": TREES, "share": SHARE}
    name = "-".join([options.table.stem, *options.kind])
    of_splits = []
    for split in range(1 + options.splits):
        random_state = options.seed + split if split else None
        train, test = split_by_scaffold(rows, options.smiles, random_state)
        problem = Problem(train, test, options.smiles, options.target, spec, options.seed)
        print(f"{name}, {f'random split {split}' if split else 'largest scaffolds to fit'}: ", end="")
        of_splits.append(compared(problem, predictors))
        whole = {f"{name}-split{split}" if split else name: of_splits[-1]}
        print(
            write_results(
                options.output, "classes", seed=options.seed, settings=settings, results=whole, keep=True
            )
        )
    if options.splits and not options.without_forest:
        for figure in ("auc", "log_loss"):
            difference = np.array([each["daskrf"][figure] - each["forest"][figure] for each in of_splits])
            error = difference.std(ddof=1) / np.sqrt(len(difference))
            print(f"{figure}: daskrf less forest {difference.mean():.4f}, standard error {error:.4f}")


@dataclass(frozen=True)
class Problem:
    """A training and a test set, the columns of SMILES and classes, and what is counted."""

    train: Rows
    test: Rows
    smiles: str
    target: str
    spec: FingerprintSpec
    seed: int


def compared(problem: Problem, predictors: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of each predictor on the test set."""
    truth = np.array([float(row[problem.target]) for row in problem.test])
    results: dict[str, Any] = {"n_train": len(problem.train), "n_test": len(truth), "positive": truth.mean()}
    print(f"{len(problem.train):,} + {len(truth):,} molecules, {truth.mean():.2%} positive")
    for name, predicted in predictors.items():
        begun = time.process_time()
        probability = predicted(problem)
        cpu_seconds = time.process_time() - begun
        # A forest says 0 where no tree agrees: half a tree is the least probability, here for both.
        probability = np.clip(probability, 0.5 / TREES, 1 - 0.5 / TREES)
        figures = measured_classes(truth, probability, probability)
        results[name] = {figure: figures[figure] for figure in FIGURES} | {"cpu_seconds": cpu_seconds}
        print(name, {key: round(value, 4) for key, value in results[name].items()}, flush=True)
    return results


def split_by_scaffold(rows: Rows, smiles: str, random_state: int | None = None) -> tuple[Rows, Rows]:
    """Return the molecules of the largest scaffolds, or of random ones, up to a share, and the others."""
    _, group, size = np.unique(
        scaffolds([row[smiles] for row in rows]), return_inverse=True, return_counts=True
    )
    order = np.lexsort([np.arange(len(size)), -size])
    if random_state is not None:
        order = np.random.default_rng(random_state).permutation(len(size))
    filled = np.cumsum(size[order])
    training = np.zeros(len(size), bool)
    training[order[filled <= SHARE * len(rows)]] = True
    return [r for r, g in zip(rows, group, strict=True) if training[g]], [
        r for r, g in zip(rows, group, strict=True) if not training[g]
    ]


def by_daskrf(problem: Problem, *, process: Any = "auto") -> npt.NDArray[np.float64]:
    """Return probabilities by daskrf, with its defaults except for the process and the kinds."""
    smiles, target, spec = problem.smiles, problem.target, problem.spec
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, rows in (("train", problem.train), ("test", problem.test)):
            with (place / f"{name}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["smiles", target])
                writer.writerows([row[smiles], row[target]] for row in rows)
        print(fit(place / "train.csv", output=place / "a.model", process=process, spec=spec), flush=True)
        predict(place / "a.model", place / "test.csv", place / "predicted.parquet")
        table = pq.read_table(place / "predicted.parquet")
        assert table["row"].to_pylist() == list(range(len(problem.test)))
        return np.asarray(table["probability"].to_numpy())


def by_forest(problem: Problem) -> npt.NDArray[np.float64]:
    """Return the shares of the trees of a random forest on the same fingerprints."""
    X, X_test = (
        Fingerprinter(problem.spec)([row[problem.smiles] for row in rows]).fingerprints
        for rows in (problem.train, problem.test)
    )
    seen = np.unique(X.indices)
    forest = RandomForestClassifier(TREES, n_jobs=-1, random_state=problem.seed)
    forest.fit(forest_columns(X, seen), [float(row[problem.target]) for row in problem.train])
    return np.asarray(forest.predict_proba(forest_columns(X_test, seen))[:, 1])


if __name__ == "__main__":
    main()
