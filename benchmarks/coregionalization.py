"""What a Gaussian process of several targets gains over one for each: six ADME endpoints.

    python benchmarks/coregionalization.py [--unseen] [--data FOLDER]

Sets and splits are those of `benchmarks/external.py adme`. Many test molecules of an endpoint are training
molecules of others. With `--unseen`, molecules in the test set of any endpoint are left out of all training
sets, so that nothing is known of a test molecule.

Both processes have the Tanimoto kernel on the default fingerprints: `daskrf.gp.ExactGP` for each endpoint,
and `daskrf.gp.CoregionalizedGP` for all. Nothing is chosen by test molecules.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from external import ADME, Data, adme
from scipy.stats import norm

from daskrf.gp import CoregionalizedGP, ExactGP
from daskrf.molecules import Fingerprinter, FingerprintSpec


def figures(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> tuple[float, float, float]:
    """Return R2, the mean log probability, and the share of labels in intervals of 95 %."""
    r2 = 1 - np.square(y - mean).sum() / np.square(y - y.mean()).sum()
    return r2, norm.logpdf(y, mean, std).mean(), (np.abs(y - mean) < 1.96 * std).mean()


def main() -> None:
    """Fit and compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--unseen", action="store_true", help="leave all test molecules out")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "daskrf-external-data")
    arguments = parser.parse_args()
    splits = {split.name: split for split in adme(Data(arguments.data), 1)}
    tested = set(pd.concat([split.test["smiles"] for split in splits.values()]))
    columns = []
    for name in ADME:
        train = splits[name].train
        train = train[~train["smiles"].isin(tested)] if arguments.unseen else train
        columns.append(train.groupby("smiles")["y"].mean().rename(name))
    labels = pd.concat(columns, axis=1)
    smiles = [*labels.index, *sorted(tested - set(labels.index))]
    block = Fingerprinter(FingerprintSpec())(smiles)
    if block.rejects:
        raise SystemExit(f"{len(block.rejects)} molecules cannot be read.")
    X, y = block.fingerprints[: len(labels)], labels.to_numpy()
    row_of = {text: row for row, text in enumerate(smiles)}
    start = time.process_time()
    together = CoregionalizedGP().fit(X, y)
    print(f"{np.isfinite(y).sum():,} labels together in {time.process_time() - start:.0f} CPU seconds")
    print(together.correlation_.round(2), together.words(), flush=True)
    gains = []
    for t, name in enumerate(ADME):
        there, test = np.isfinite(y[:, t]), splits[name].test
        X_test = block.fingerprints[[row_of[text] for text in test["smiles"]]]
        alone = ExactGP(solver="cholesky").fit(X[there], y[there, t])
        before = figures(test["y"].to_numpy(), *alone.predict(X_test, return_std=True))
        after = figures(test["y"].to_numpy(), *together.predict(X_test, return_std=True, target=t))
        gains.append(np.subtract(after, before))
        words = " to ".join(f"R2 {r2:.3f}, log p {p:.3f}, 95 % {c:.1%}" for r2, p, c in (before, after))
        print(f"{name}: {there.sum():,} labels, {words}", flush=True)
    print(f"mean gain of R2 {np.mean(gains, axis=0)[0]:.3f}, of log p {np.mean(gains, axis=0)[1]:.3f}")


if __name__ == "__main__":
    main()
