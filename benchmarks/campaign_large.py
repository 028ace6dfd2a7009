"""A campaign over 10^7 enumerated products with a computed score: what each round finds and costs.

Random products are scored and a model is fitted to them; then each round asks `daskrf.suggest` for a batch of
the whole library, scores it (`daskrf.demo.objective`, lower is better) and tells `daskrf.add`. All by
default: an exact process, whose kernel the labels choose, batches by an upper bound. Scheduler, workers and
driver are processes of their own, and CPU seconds and peak memory are those of each.

What a batch is worth is told by a random sample of the library: "better" counts the molecules of a batch with
scores better than the best thousandth of the sample; of random molecules it would be 1 in 1,000. Results are
written after each round, so that a run that is stopped leaves what it found.

Fingerprints are Morgan counts of radius 1.

    python benchmarks/campaign_large.py [--rows 10000000] [--first 1000] [--rounds 3] [--batch 1000] [--small]

--small takes 5,000 products and two batches of 50: it shows that all works.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, print_header, run_fresh, table, write_results
from processes import Cluster, Times, folders_first
from scale_stages import library_file, measured_cluster, timed, write_library

import daskrf
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
from daskrf.molecules import FingerprintSpec

FILE_ROWS = 1_000_000
ROWS_PER_PARTITION = 100_000  # the command's own choice for large libraries
QUANTILE = 1e-3
SMALL = {"rows": 5_000, "first": 100, "rounds": 2, "batch": 50, "sample": 500}


@dataclass(frozen=True)
class Settings:
    """How large the campaign is."""

    rows: int
    first: int
    rounds: int
    batch: int
    sample: int
    workers: int
    seed: int


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = parser(__doc__)
    found.add_argument("--rows", type=int, default=10_000_000, help="products of the library (%(default)s)")
    found.add_argument("--first", type=int, default=1000, help="random products labelled (%(default)s)")
    found.add_argument("--rounds", type=int, default=3, help="batches (%(default)s)")
    found.add_argument("--batch", type=int, default=1000, help="molecules of each (%(default)s)")
    found.add_argument("--sample", type=int, default=5000, help="random ones to compare with (%(default)s)")
    found.add_argument("--workers", type=int, default=2, help="processes of one thread (%(default)s)")
    found.add_argument("--small", action="store_true", help="for tests: few products, two rounds")
    found.add_argument("--work", type=Path, help="folder for what is made on the way (a temporary one)")
    return found


def main(argv: list[str] | None = None) -> None:
    """Run the campaign, print and write what was found."""
    options = arguments().parse_args(argv)
    if options.small:
        vars(options).update(SMALL)
    print_header(options.seed)
    settings = Settings(**{name: getattr(options, name) for name in Settings.__annotations__})
    with tempfile.TemporaryDirectory(dir=options.work, prefix="daskrf-campaign-") as folder, folders_first():
        results, _ = run_fresh(campaign, settings, Path(folder), options.output)
    print_results(results, settings)


def campaign(settings: Settings, work: Path, output: Path) -> dict[str, Any]:
    """Make the library, run all rounds on a fresh cluster; write and return what each cost and found."""
    write_library(work / "library", settings.rows, FILE_ROWS, settings.seed)
    products = ReactionLibrary(settings.seed)
    random = np.random.default_rng(settings.seed)
    chosen = random.choice(settings.rows, settings.first + settings.sample, replace=False)
    smiles = [text for i in chosen.tolist() for text in products.smiles(i, i + 1)]
    scores = score(smiles)
    first, sample = scores[: settings.first], scores[settings.first :]
    ids = [f"M{i:010d}" for i in chosen[: settings.first].tolist()]
    labels = work / "labels-0.csv"
    write_labels(labels, ids, smiles[: settings.first], first)
    limit = float(np.quantile(sample, QUANTILE))
    about = {"mean": float(sample.mean()), "best": float(sample.min()), "limit": limit}
    told = {name: value for name, value in vars(settings).items() if name != "seed"}
    with measured_cluster(work, settings.workers) as cluster:
        stages = Stages(cluster, settings, work)
        stages.library()
        stages.fit(labels)
        rounds = [found_in(first, limit, float(first.min()))]
        results = {"sample": about, "rounds": rounds, "stages": stages.costs}
        for number in range(1, settings.rounds + 1):
            batch = stages.suggest(number)
            values = score(batch["smiles"].to_pylist())
            labels = work / f"labels-{number}.csv"
            write_labels(labels, batch["id"].to_pylist(), batch["smiles"].to_pylist(), values)
            agreement = stages.add(number, labels)
            rounds.append(found_in(values, limit, rounds[-1]["best"]) | {"within_95": agreement})
            write_results(output, "campaign_large", seed=settings.seed, settings=told, results=results)
    return results


def write_labels(path: Path, ids: list[str], smiles: list[str], values: Iterable[float]) -> None:
    """Write scores with the IDs and the SMILES of their molecules."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "smiles", "score"])
        rows.writerows((*names, f"{value:.4f}") for *names, value in zip(ids, smiles, values, strict=True))


def found_in(values: Any, limit: float, best: float) -> dict[str, Any]:
    """Return what the scores of some molecules are, and the best score so far, `best` before."""
    better = int((values < limit).sum())
    return {"best": min(best, float(values.min())), "mean": float(values.mean()), "better": better}


class Stages:
    """Runs the commands on a cluster, and keeps and prints what each costs."""

    def __init__(self, cluster: Cluster, settings: Settings, work: Path) -> None:
        self.cluster, self.settings, self.work = cluster, settings, work
        self.store, self.model = work / "fingerprints", work / "model"
        self.costs: dict[str, dict[str, Any]] = {}

    def library(self) -> None:
        """Make the store of fingerprints."""
        rows = self.settings.rows
        files = [library_file(self.work / "library", i) for i in range(-(-rows // FILE_ROWS))]
        given: dict[str, Any] = {"rows_per_partition": min(ROWS_PER_PARTITION, -(-rows // 4))}
        given |= {"spec": FingerprintSpec("morgan:1"), "client": self.cluster.client}
        made = lambda times: daskrf.fingerprint(files, self.store, progress=times, **given)  # noqa: E731
        print(self._timed("fingerprint", rows, made), flush=True)

    def fit(self, labels: Path) -> None:
        """Fit the first labels."""
        given: dict[str, Any] = {"direction": "minimize", "client": self.cluster.client}
        fitted = lambda times: daskrf.fit(self.store, labels, self.model, progress=times, **given)  # noqa: E731
        print(self._timed("fit", self.settings.first, fitted), flush=True)

    def suggest(self, number: int) -> Any:
        """Return the table of a batch."""
        output, client, n = self.work / f"batch-{number}.csv", self.cluster.client, self.settings.batch

        def suggested(times: Times) -> Any:
            return daskrf.suggest(self.model, self.store, output, n=n, client=client, progress=times)

        report = self._timed(f"suggest {number}", self.settings.rows, suggested)
        print(report, flush=True)
        return report.table

    def add(self, number: int, labels: Path) -> float:
        """Add the labels of a batch; return which share of them was in the 95 % intervals."""
        client = self.cluster.client
        added = lambda times: daskrf.add(self.model, labels, client=client, progress=times)  # noqa: E731
        report = self._timed(f"add {number}", self.settings.batch, added)
        print(report, flush=True)
        return float(report.agreement[0].within_95)

    def _timed(self, name: str, unit: int, call: Callable[[Times], Any]) -> Any:
        found: list[Any] = []
        self.costs[name] = cost = timed(self.cluster, unit, lambda times: found.append(call(times)))
        steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in cost["steps"].items())
        print(f"\n{name}: {cost['wall_s']:.1f} s ({steps})", flush=True)
        return found[0]


def print_results(results: dict[str, Any], settings: Settings) -> None:
    """Print what each round found, and what each stage cost."""
    sample = results["sample"]
    print(
        f"\n{settings.rows:,} products; a random sample of {settings.sample:,} has scores of "
        f"{sample['mean']:.2f} on average, {sample['best']:.2f} at best, and below {sample['limit']:.2f} in "
        "its best thousandth"
    )
    rounds = [{"round": number} | row for number, row in enumerate(results["rounds"])]
    formats = {"round": "d", "best": ".2f", "mean": ".2f", "better": ",d", "within_95": ".0%"}
    print(table(rounds, formats))
    rows = []
    for name, stage in results["stages"].items():
        cpu, peak = (_by_kind(stage[what], pick) for what, pick in (("cpu_s", sum), ("peak_mib", max)))
        own = {f"CPU s {role}": seconds for role, seconds in cpu.items()}
        rows.append({"stage": name, "s": stage["wall_s"], "tasks": stage["tasks"], **own})
        rows[-1] |= {f"MiB {role}": mib for role, mib in peak.items()}
    kinds = ("worker", "driver", "scheduler")
    formats = {"stage": "", "s": ".1f", "tasks": ",d", **{f"CPU s {role}": ".1f" for role in kinds}}
    print()
    print(table(rows, formats | {f"MiB {role}": ",.0f" for role in kinds}), flush=True)


def _by_kind(values: dict[str, float], pick: Callable[[list[float]], float]) -> dict[str, float]:
    """Return the sum, or the largest, of the values of the workers, beside those of driver and scheduler."""
    kinds: dict[str, list[float]] = {}
    for role, value in values.items():
        kinds.setdefault(role.split()[0], []).append(value)
    return {kind: pick(own) for kind, own in kinds.items()}


if __name__ == "__main__":
    main()
