"""How much of the best of a library a campaign finds: random 1 %, then batches by the commands themselves.

The protocol of Graff, Shakhnovich & Coley 2021 (Accelerating high-throughput virtual screening through
molecular pool-based active learning, Chemical Science 12) on Enamine50k: a random 1 % of 50,240 molecules is
scored, a model fitted, and five times it suggests 1 %, which is scored and added. The figure is the share of
the 500 best scores among those found, as a multiset: of molecules with equal scores, any will do. Molecules
without a score, all salts among them, stay in the library and cost their place in the batch, as there.

Published there (mean and standard deviation of 5): random forest greedy 59.1 (2.9), neural network greedy
74.8 (1.1), message-passing network greedy 72.9 (1.3) and ucb 72.7.

    python benchmarks/campaign.py [--seeds 0 1 2] [--rules default greedy ucb thompson]
                                  [--kinds morgan:1 morgan:2 torsion]
                                  [--batch 503] [--rounds 5] [--first 503] [--found]

Rules are those of `daskrf suggest --acquisition`, a rule and its kappa ("ucb:1"), "believer" for ucb one by
one, or "default". With --found, `daskrf found` estimates
after each round how much of the best has been found. Scores are read from the folder that DASKRF_DATA names.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, data_folder, print_header, table, write_results

import daskrf

BEST = 500
PUBLISHED = {"random forest, greedy": 59.1, "neural network, greedy": 74.8, "message passing, greedy": 72.9}


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a compressed CSV file."""
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


class Oracle:
    """Knows the score of each molecule, and how many of the best were asked for."""

    def __init__(self, folder: Path) -> None:
        self.library = [row["smiles"] for row in read(folder / "Enamine50k_library.csv.gz")]
        self.scores = {row["smiles"]: row["score"] for row in read(folder / "Enamine50k_scores.csv.gz")}
        self.best = Counter(sorted(self.scores.values(), key=float)[:BEST])
        self.asked: list[str] = []

    def score(self, smiles: list[str], labels: Path, unscored: Path) -> None:
        """Write the scores of some molecules to a file, and add those without one to another."""
        self.asked += smiles
        with labels.open("w") as file:
            file.write("smiles,score\n")
            file.writelines(f"{text},{self.scores[text]}\n" for text in smiles if text in self.scores)
        with unscored.open("a") as file:
            file.writelines(f"{text}\n" for text in smiles if text not in self.scores)

    @property
    def found(self) -> float:
        """Share of the best scores found, in percent."""
        there = Counter(self.scores[text] for text in self.asked if text in self.scores)
        return 100 * sum(min(times, there[score]) for score, times in self.best.items()) / BEST


def options_of(rule: str) -> dict[str, Any]:
    """Return the options of `daskrf.suggest` for a rule."""
    if rule == "default":
        return {}
    name, _, kappa = rule.partition(":")
    options: dict[str, Any] = {"batch": "believer"} if name == "believer" else {}
    options["acquisition"] = "ucb" if name == "believer" else name
    return options | ({"kappa": float(kappa)} if kappa else {})


def campaign(
    oracle: Oracle, library: Path, work: Path, rule: str, seed: int, settings: Any
) -> tuple[list[float], list[tuple[float, ...]]]:
    """Return the share of the best found after each round, the random one first, and estimates of it."""
    oracle.asked = []
    labels, unscored, model = work / "labels.csv", work / "unscored.smi", work / "model"
    first = np.random.default_rng(seed).choice(len(oracle.library), settings.first, replace=False)
    oracle.score([oracle.library[i] for i in first.tolist()], labels, unscored)
    daskrf.fit(library, labels, model, key="smiles", direction="minimize")
    shares, estimates = [oracle.found], []
    for number in range(settings.rounds):
        batch = work / f"batch-{number}.parquet"
        tried = unscored if unscored.stat().st_size else ()  # molecules without a score: not again
        found = daskrf.suggest(
            model,
            library,
            batch,
            n=settings.batch,
            exclude=tried,
            **options_of(rule),
        )
        oracle.score(found.table["smiles"].to_pylist(), labels, unscored)
        report = daskrf.add(model, labels)
        shares.append(oracle.found)
        agreement = report.agreement[0]
        assert agreement is not None
        print(
            f"  {rule}, seed {seed}, round {number + 1}: {shares[-1]:.1f} %; of the new labels "
            f"{agreement.within_95:.0%} within 95 % intervals",
            flush=True,
        )
        if settings.found:
            estimate = daskrf.found(model, library, k=BEST)
            estimates.append(tuple(100 * v for v in (estimate.share, estimate.low, estimate.high)))
            print("    estimated {:.1f} % ({:.1f} - {:.1f})".format(*estimates[-1]), flush=True)
    return shares, estimates


def coverage_words(rows: list[dict[str, Any]]) -> str:
    """Return how many of the 95 % intervals of `daskrf found` held the truth, and the mean error."""
    pairs = [pair for row in rows for pair in zip(row["shares"][1:], row["estimates"], strict=True)]
    held = sum(low <= truth <= high for truth, (_, low, high) in pairs)
    error = float(np.mean([estimate - truth for truth, (estimate, _, _) in pairs]))
    return f"found: {held} of {len(pairs)} 95 % intervals held the truth; mean error {error:+.1f} %"


def main() -> None:
    """Run the campaigns and print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--rules", nargs="+", default=["default", "greedy"])
    options.add_argument("--kinds", nargs="+", default=None, help="kinds of fingerprints (default: daskrf's)")
    options.add_argument("--batch", type=int, default=503)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--first", type=int, default=503, help="random molecules to begin with")
    options.add_argument("--found", action="store_true", help="also estimate what has been found")
    options.add_argument("--output", type=Path, default=RESULTS, help="folder of the results (%(default)s)")
    settings: argparse.Namespace = options.parse_args()
    print_header(settings.seeds)
    oracle, rows = Oracle(data_folder()), []
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "library")
        spec = None if settings.kinds is None else daskrf.FingerprintSpec(settings.kinds)
        daskrf.fingerprint(data_folder() / "Enamine50k_library.csv.gz", library, spec=spec)
        for rule in settings.rules:
            for seed in settings.seeds:
                work, start = Path(folder, f"{rule}-{seed}".replace(":", "-")), time.perf_counter()
                work.mkdir()
                shares, estimates = campaign(oracle, library, work, rule, seed, settings)
                seconds = time.perf_counter() - start
                row = {"rule": rule, "seed": seed, "shares": shares, "estimates": estimates}
                rows.append({**row, "seconds": round(seconds, 1)})
    told = {name: value for name, value in vars(settings).items() if name not in ("output", "seeds")}
    results = {"published": PUBLISHED, "campaigns": rows}
    write_results(settings.output, "campaign", seed=settings.seeds, settings=told, results=results)
    lines: list[dict[str, Any]] = []
    for rule in settings.rules:
        own = np.array([row["shares"] for row in rows if row["rule"] == rule])
        seconds = float(np.mean([row["seconds"] for row in rows if row["rule"] == rule]))
        shares = {f"round {number}": share for number, share in enumerate(own.mean(axis=0))}
        spread = float(own[:, -1].std(ddof=1)) if len(own) > 1 else None
        lines.append({"rule": rule, **shares, "sd": spread, "seconds": seconds})
    rounds = {f"round {number}": ".1f" for number in range(settings.rounds + 1)}
    shown = dict(list(rounds.items())[:: max(1, settings.rounds // 10)] + list(rounds.items())[-1:])
    print(table(lines, {"rule": "s", **shown, "sd": ".1f", "seconds": ".0f"}))
    if settings.found:
        print(coverage_words(rows))


if __name__ == "__main__":
    main()
