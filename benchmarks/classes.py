"""Classes by scaffold: probabilities of daskrf beside those of a random forest on the same fingerprints.

    python benchmarks/classes.py hiv.csv HIV_active

reads a table with SMILES and a column of two classes. The scaffolds, from the largest to the smallest, fill
the training set up to 80 % of the molecules; the others are the test set (the scaffold split of MoleculeNet,
with its validation set in the test set). daskrf fits and predicts with its defaults. The forest has 500
trees of scikit-learn, with its defaults, on the same counts. Nothing is chosen by the test set.
"""

from __future__ import annotations

import csv
import functools
import sys
import tempfile
import time
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
    options_of.add_argument("--process", choices=["auto", "exact", "features"], default="auto")
    options = options_of.parse_args()
    print_header(options.seed)
    with options.table.open() as file:
        rows = list(csv.DictReader(file))
    kept = Fingerprinter(FingerprintSpec())([row[options.smiles] for row in rows]).kept
    rows = [rows[i] for i in kept.tolist()]
    train, test = split_by_scaffold(rows, options.smiles)
    truth = np.array([float(row[options.target]) for row in test])
    results: dict[str, Any] = {"n_train": len(train), "n_test": len(test), "positive": float(truth.mean())}
    print(f"{options.table.name}: {len(train):,} + {len(test):,} molecules, {truth.mean():.2%} positive")
    ours = functools.partial(by_daskrf, process=options.process)
    predictors: dict[str, Any] = {"daskrf": ours} | ({} if options.without_forest else {"forest": by_forest})
    for name, predicted in predictors.items():
        begun = time.process_time()
        probability = predicted(train, test, options.smiles, options.target, options.seed)
        cpu_seconds = time.process_time() - begun
        # A forest says 0 where no tree agrees: half a tree is the least probability, here for both.
        probability = np.clip(probability, 0.5 / TREES, 1 - 0.5 / TREES)
        figures = measured_classes(truth, probability, probability)
        results[name] = {figure: figures[figure] for figure in FIGURES} | {"cpu_seconds": cpu_seconds}
        print(name, {key: round(value, 4) for key, value in results[name].items()}, flush=True)
    settings = {"trees": TREES, "share": SHARE}
    whole = {options.table.stem: results}
    print(
        write_results(
            options.output, "classes", seed=options.seed, settings=settings, results=whole, keep=True
        )
    )


def split_by_scaffold(rows: Rows, smiles: str) -> tuple[Rows, Rows]:
    """Return the molecules of the largest scaffolds, up to a share of all, and the others."""
    _, group, size = np.unique(
        scaffolds([row[smiles] for row in rows]), return_inverse=True, return_counts=True
    )
    order = np.lexsort([np.arange(len(size)), -size])
    filled = np.cumsum(size[order])
    training = np.zeros(len(size), bool)
    training[order[filled <= SHARE * len(rows)]] = True
    return [r for r, g in zip(rows, group, strict=True) if training[g]], [
        r for r, g in zip(rows, group, strict=True) if not training[g]
    ]


def by_daskrf(
    train: Rows, test: Rows, smiles: str, target: str, seed: int, *, process: Any = "auto"
) -> npt.NDArray[np.float64]:
    """Return probabilities by daskrf, with its defaults except for the process."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, rows in (("train", train), ("test", test)):
            with (place / f"{name}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["smiles", target])
                writer.writerows([row[smiles], row[target]] for row in rows)
        print(fit(place / "train.csv", output=place / "a.model", process=process), flush=True)
        predict(place / "a.model", place / "test.csv", place / "predicted.parquet")
        table = pq.read_table(place / "predicted.parquet")
        assert table["row"].to_pylist() == list(range(len(test)))
        return np.asarray(table["probability"].to_numpy())


def by_forest(train: Rows, test: Rows, smiles: str, target: str, seed: int) -> npt.NDArray[np.float64]:
    """Return the shares of the trees of a random forest on the default fingerprints."""
    X, X_test = (
        Fingerprinter(FingerprintSpec())([row[smiles] for row in rows]).fingerprints for rows in (train, test)
    )
    seen = np.unique(X.indices)
    forest = RandomForestClassifier(TREES, n_jobs=-1, random_state=seed)
    forest.fit(forest_columns(X, seen), [float(row[target]) for row in train])
    return np.asarray(forest.predict_proba(forest_columns(X_test, seen))[:, 1])


if __name__ == "__main__":
    main()
