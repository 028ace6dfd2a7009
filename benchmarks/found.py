"""How often the 95 % intervals of `daskrf found` hold the truth, in simulated campaigns in one process.

Random molecules get labels, then batches by ucb (kappa 1). After the first labels and after each batch the
share of the k best that has labels is estimated as `daskrf found` does: by draws from the posterior, noise
included, where each molecule counts as `daskrf.gp.validation.tailcounts` says. The process is exact, with the
Tanimoto kernel on default fingerprints (`fit --quick`). Draws are those of the whole library, by one Cholesky
factor.

    python benchmarks/found.py [--sets docking qed logp assay] [--seeds 0 ... 9] [--rows 5280]

Sets: docking scores; QED and logP; an assay of known structure whose noise is half of its spread; and any
file of measured values (--sets file --file labels.csv --target NAME, with a column smiles). Where equal
values may count or not, the truth is held if any value of it lies within the interval.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import RESULTS, data_folder, print_header, table, write_results
from rdkit import Chem
from rdkit.Chem import QED, Crippen, Descriptors
from scipy.linalg import lapack, solve_triangular
from scipy.special import ndtri

import daskrf
from daskrf.gp.validation.tailcounts import tail_counts
from daskrf.molecules import Fingerprinter
from daskrf.screens.labelledshare import labelled_share

DRAWS, ROUNDS, JITTER = 32, (0, 1, 3, 5), 1e-4


def computed(name: str) -> tuple[list[str], np.ndarray]:
    """Return molecules and a computed property, or a noisy assay."""
    texts = (data_folder() / "guacamol_10k.smiles").read_text().split()
    pairs = [(text, mol) for text in texts if (mol := Chem.MolFromSmiles(text)) is not None]
    smiles, mols = [text for text, _ in pairs], [mol for _, mol in pairs]
    if name == "qed":
        return smiles, np.array([QED.qed(mol) for mol in mols])
    logp = np.array([Crippen.MolLogP(mol) for mol in mols])
    if name == "logp":
        return smiles, logp
    polar = np.array([Descriptors.TPSA(mol) / 40 + Descriptors.NumRotatableBonds(mol) / 4 for mol in mols])
    y = -np.abs(logp - 3) - np.abs(polar - 3)
    return smiles, (y - y.mean()) / y.std() + np.random.default_rng(5).normal(0, 0.5, len(y))


def molecules(name: str, file: Path | None, target: str) -> tuple[list[str], np.ndarray]:
    """Return the molecules of a set and their values; large ones are good."""
    if name == "docking":
        frame = pd.read_csv(data_folder() / "Enamine50k_scores.csv.gz").drop_duplicates("smiles")
        frame = frame.iloc[np.random.default_rng(99).choice(len(frame), 10_560, replace=False)]
        return frame["smiles"].tolist(), -frame["score"].to_numpy(float)
    if name == "file":
        frame = pd.read_csv(file).dropna(subset=[target])
        return frame["smiles"].tolist(), frame[target].to_numpy(float)
    return computed(name)


@dataclass
class Campaign:
    """A library whose values are known, and draws of its prior."""

    X: Any
    y: np.ndarray
    first: int
    batch: int
    k: int

    def __post_init__(self) -> None:
        kernel = daskrf.TanimotoMinMax()
        self.K = np.asarray(kernel(self.X), np.float32)
        factor = self.K.copy()
        factor[np.diag_indices(len(factor))] += JITTER
        factor, info = lapack.spotrf(factor, lower=1, overwrite_a=1, clean=1)
        assert info == 0
        normal = np.random.default_rng(7).standard_normal((len(factor), DRAWS)).astype(np.float32)
        self.prior = (factor @ normal).astype(np.float64)

    def run(self, seed: int) -> list[dict[str, float]]:
        """Return truth and estimate after the first labels and each batch."""
        labelled = np.random.default_rng(seed).choice(len(self.y), self.first, replace=False)
        found: list[dict[str, float]] = []
        for number in range(max(ROUNDS) + 1):
            y, own = self.y[labelled], np.ix_(labelled, labelled)
            gp = daskrf.ExactGP(daskrf.TanimotoMinMax()).fit(self.X[labelled], y)
            a, v, m = (float(each[0]) for each in (gp.signal_variance_, gp.noise_variance_, gp.mean_))
            factor = np.linalg.cholesky(a * self.K[own].astype(float) + v * np.eye(len(y)))
            half = solve_triangular(factor, a * self.K[labelled].astype(float), lower=True)
            mean = m + half.T @ solve_triangular(factor, y - m, lower=True)
            std = np.sqrt(np.maximum(a - np.square(half).sum(axis=0), 0))
            free = np.ones(len(self.y), bool)
            free[labelled] = False
            if number in ROUNDS:
                rng = np.random.default_rng([seed, number])
                drawn = np.sqrt(a) * self.prior
                noise = np.sqrt(v) * rng.standard_normal((len(y), DRAWS))
                error = (y - m)[:, None] - drawn[labelled] - noise
                drawn += m + half.T @ solve_triangular(factor, error, lower=True)
                drawn += np.sqrt(v) * rng.standard_normal(drawn.shape)
                tails = tail_counts(gp, self.first, [self.batch] * number, 1.0)
                found.append({"round": number, **self.estimate(tails, y, drawn[free], rng, free)})
            score = np.where(free, mean + std, -np.inf)
            labelled = np.concatenate([labelled, np.argsort(-score)[: self.batch]])
        return found

    def estimate(
        self, tails: Any, y: np.ndarray, drawn: np.ndarray, rng: np.random.Generator, free: np.ndarray
    ) -> dict[str, float]:
        """Return the interval and the truth."""
        grid = np.linspace(min(y.min(), drawn.min()), max(y.max(), drawn.max()), 256)
        parts = rng.permutation((np.arange(DRAWS) + 0.5) / DRAWS)
        spread = rng.permutation(ndtri((np.arange(DRAWS) + 0.5) / DRAWS))
        shares = []
        for d in range(DRAWS):
            ratio = tails.ratio(grid, parts[d], spread[d])
            weight = partial(np.interp, xp=grid, fp=ratio)
            shares.append(labelled_share(y, drawn[:, d], self.k, ratio=weight)[0])
        low, high = np.quantile(shares, (0.025, 0.975))
        most = labelled_share(y, self.y[free], self.k)[0]
        others = np.argsort(-np.concatenate([self.y[free], y]), kind="stable")[: self.k]
        least = float((others >= free.sum()).mean())
        held = low <= most + 1e-9 and high >= least - 1e-9
        return {"held": float(held), "width": high - low, "share": float(np.mean(shares)), "truth": most}


def main() -> None:
    """Run the campaigns and print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--sets", nargs="+", default=["docking", "qed", "logp", "assay"])
    options.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    options.add_argument("--rows", type=int, default=5280, help="molecules of each library, at most")
    options.add_argument("--first", type=int, default=200)
    options.add_argument("--batch", type=int, default=48)
    options.add_argument("--best", type=int, default=50)
    options.add_argument("--file", type=Path, default=None, help="labels of the set 'file'")
    options.add_argument("--target", default="")
    options.add_argument("--output", type=Path, default=RESULTS, help="folder of the results (%(default)s)")
    settings: argparse.Namespace = options.parse_args()
    print_header(settings.seeds)
    lines: list[dict[str, Any]] = []
    for name in settings.sets:
        smiles, y = molecules(name, settings.file, settings.target)
        block = Fingerprinter(daskrf.FingerprintSpec())(smiles)
        y = y[block.kept]
        some = np.flatnonzero(np.random.default_rng(3).permutation(len(y)) < settings.rows)
        sizes = settings.first, settings.batch, settings.best
        campaign = Campaign(block.fingerprints[some], y[some], *sizes)
        runs = pd.DataFrame([row for seed in settings.seeds for row in campaign.run(seed)])
        for number, own in runs.groupby("round"):
            means = own[["width", "share", "truth"]].mean()
            counts = {"held": int(own["held"].sum()), "of": len(own)}
            lines.append({"set": name, "round": int(number), **counts, **means})
            print(lines[-1], flush=True)
    told = {name: str(value) for name, value in vars(settings).items() if name not in ("output", "seeds")}
    write_results(settings.output, "found", seed=settings.seeds, settings=told, results=lines)
    shown = {"set": "s", "round": "d", "held": "d", "of": "d", "width": ".2f", "share": ".2f", "truth": ".2f"}
    print(table(lines, shown))


if __name__ == "__main__":
    main()
