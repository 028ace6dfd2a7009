"""Labels that are limits: how well each way to treat them predicts what was hidden.

The weakest 20, 40 and 60 % of the training labels of MoleculeACE (30 sets of ChEMBL; van Tilborg et al. 2022)
become limits, as in an assay with a highest concentration. Models are fitted with limits, without them, with
their numbers taken as measured, and with the true labels, and predict the test molecules and the hidden
labels. The wheel of MoleculeACE is downloaded from PyPI without its dependencies. With --features, processes
have that many random features of the kernel in place of the kernel itself.

Usage: python benchmarks/censored.py [--sets N] [--rows N] [--shares 0.2,0.4,0.6] [--features M]
                                     [--output FILE]
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import log_ndtr

from daskrf.features import TanimotoMinMaxFeatures
from daskrf.gp import ExactGP, RandomFeatureGP
from daskrf.kernels import TanimotoMinMax
from daskrf.molecules import Fingerprinter, FingerprintSpec

Process = ExactGP | RandomFeatureGP
WAYS = ("limit", "drop", "value", "all measured")
SHARES = (0.2, 0.4, 0.6)
WHEEL = "MoleculeACE==3.0.0"


def data_sets() -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name and the table of each set."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", WHEEL, "-d", folder]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                if "benchmark_data/CHEMBL" in name and name.endswith(".csv"):
                    yield Path(name).stem, pd.read_csv(io.BytesIO(archive.read(name)))


def fitted(way: str, gp: Process, X, y: np.ndarray, hidden: np.ndarray, limit: float) -> Process:
    """Return a model of labels of which those below a limit are hidden."""
    if way == "all measured":
        return gp.fit(X, y)
    if way == "drop":
        return gp.fit(X[~hidden], y[~hidden])
    shown = np.maximum(y, limit)
    return gp.fit(X, shown, side=np.where(hidden, -1, 0)) if way == "limit" else gp.fit(X, shown)


def figures(gp: Process, X, y: np.ndarray, limit: float) -> dict[str, float]:
    """Return errors, log probabilities and the coverage of 95 % intervals of labels."""
    mean, std = gp.predict(X, return_std=True)
    error = y - mean
    log_probability = -0.5 * (error / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    side = np.where(y < limit, -1.0, 1.0)
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "log probability": float(log_probability.mean()),
        "coverage": float((np.abs(error) < 1.959964 * std).mean()),
        "side": float(log_ndtr(side * (mean - limit) / std).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=30)
    parser.add_argument("--rows", type=int, default=1500, help="training labels at most")
    parser.add_argument("--shares", default=",".join(map(str, SHARES)))
    parser.add_argument("--features", type=int, help="random features; exact processes by default")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()

    def process() -> Process:
        if args.features is None:
            return ExactGP(TanimotoMinMax(), solver="cholesky")
        return RandomFeatureGP(TanimotoMinMaxFeatures(args.features))

    count, records = Fingerprinter(FingerprintSpec()), []
    for number, (name, table) in enumerate(data_sets()):
        if number >= args.sets:
            break
        block = count(table["smiles"].tolist())
        table = table.iloc[block.kept]
        y, test = -np.log10(table["exp_mean [nM]"].to_numpy() * 1e-9), (table["split"] == "test").to_numpy()
        train = np.flatnonzero(~test)
        train = np.sort(np.random.default_rng(0).permutation(train)[: args.rows])
        for share in map(float, args.shares.split(",")):
            limit = float(np.quantile(y[train], share))
            hidden = y[train] < limit
            rows = {"test": np.flatnonzero(test), "hidden": train[hidden]}
            for way in WAYS:
                clock = time.process_time()
                gp = fitted(way, process(), block.fingerprints[train], y[train], hidden, limit)
                seconds = time.process_time() - clock
                for what, those in rows.items():
                    values = figures(gp, block.fingerprints[those], y[those], limit)
                    records.append(
                        {"set": name, "share": share, "way": way, "of": what, "seconds": seconds, **values}
                    )
        print(f"{name}: {len(train)} labels", file=sys.stderr, flush=True)
        if args.output is not None:
            pd.DataFrame(records).to_csv(args.output, index=False)
    table = pd.DataFrame(records)
    names = ["rmse", "log probability", "coverage", "side", "seconds"]
    print(table.groupby(["of", "share", "way"], sort=False)[names].mean().round(3).to_string())
    whole = table.pivot_table(index=["of", "share", "set"], columns="way", values=["rmse", "log probability"])
    for figure, sign in (("rmse", 1), ("log probability", -1)):
        for way in ("drop", "value"):
            better = sign * (whole[figure][way] - whole[figure]["limit"]) > 0
            counts = better.groupby(level=["of", "share"]).sum()
            print(f"\nlimit has the better {figure} than {way}, sets:\n{counts.to_string()}")


if __name__ == "__main__":
    main()
