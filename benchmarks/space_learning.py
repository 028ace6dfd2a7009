"""How many of the best products of a make-on-demand space are found by scoring few of them.

The true score of each product is known, so the best 100 molecules are, too. Spaces:

- peptides: 500,000 amides of 40 amines and 12,500 peptides, and a score like that of docking (`peptides.py`);
- pharmacophores-2, pharmacophores-3, shape: real blocks, scored by RDKit (`pharmacophores.py`);
- docked: 1,380 amides, all docked by Vina, of which the best 2 % count (`docked.py`);
- properties, similarity: 10^8 products of three components, and functions of sums (`sumscores.py`).

daskrf begins with random products (`daskrf sample`), fits a model to all scores so far (`fit`), asks for the
next batch (`suggest`), and so on. First products and batches are a tenth of the largest budget each, or
--first and --batch. "default" is the model of `daskrf fit` without options. "fourier" is a process on
--components Fourier features of Morgan counts of --radius, which ranks all products itself, and "metric" the
same in a learned metric (`--map fourier --kernel metric`). Of each batch, the share of scores within the 95 %
intervals of its predictions (mean +- 1.96 std_y) is printed, with the seconds of `fit` and `suggest` that led
to it, on --workers processes (0: in the program itself). With --estimates, the share of the best 100 that has
been scored, as `daskrf found` estimates it, is printed beside the true number.

Beside it searches by what single blocks are worth (`baselines.py`): Thompson sampling, top-two sampling, and
roulette-wheel selection. Each budget is a search of its own.

Budgets are shares of a space: 0.1 %, 0.5 % and 1 %, or 2 %, 5 % and 10 % of fewer than 10,000 products, of
which 0.1 % would be a few. In spaces of more than 10^6 products, daskrf makes --most scores, from --first
(1,000) in batches of --batch (500); the others make these, too, and a thousandth of the space, the published
budget.

    python benchmarks/space_learning.py [--seeds 0 1] [--spaces peptides properties] [--estimates]
                                        [--budgets 0.001 0.005] [--models default fourier metric]
                                        [--rule default] [--components 2048] [--radius 1] [--first N]
                                        [--batch N] [--most 5000] [--workers N] [--small]

--small takes small spaces of blocks that the package has, and 3 % of them.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv
from baselines import BASELINES
from common import parser, print_header, table, write_results
from dask.distributed import Client
from docked import SMALL as SMALL_ACIDS
from docked import docked_space
from peptides import SMALL, peptide_space
from pharmacophores import SPACES as REAL
from pharmacophores import real_space
from spacetruth import Array, Evaluations, ScoredSpace
from sumscores import SCORES, summed_space

import daskrf
from daskrf import FingerprintSpec, Gaussian, RandomFourierFeatures, local_cluster
from daskrf.kernels import MetricGaussian, RadialKernel

SPACES = "peptides", *REAL, "docked", *SCORES
KERNELS: dict[str, RadialKernel] = {
    "fourier": Gaussian("auto"),
    "metric": MetricGaussian("auto", "auto"),
}
NEW = "default", *KERNELS
BUDGETS = [0.001, 0.005, 0.01]
OF_FEW = [0.02, 0.05, 0.1]  # of fewer products than FEW
FEW = 10_000
PUBLISHED = 0.001  # of a space of many products
MANY = 1_000_000
ROUNDS = 10
HALF_WIDTH = 1.96  # of 95 % intervals of a normal distribution, in standard deviations


def space_of(name: str, folder: Path, seed: int, *, small: bool) -> ScoredSpace:
    """Write one of `SPACES`; the seed chooses the target of "similarity"."""
    if name == "peptides":
        return peptide_space(folder, SMALL) if small else peptide_space(folder)
    if name in REAL:
        return real_space(name, folder, small=small)
    if name == "docked":
        return docked_space(folder, SMALL_ACIDS if small else None)
    return summed_space(name, folder, seed, small=small)


class Scorer(Protocol):
    """Scores products of a space, and counts them; see `spacetruth.Evaluations`."""

    n: int
    hits: set[str]

    @property
    def n_best(self) -> int: ...

    @property
    def folder(self) -> Path: ...

    @property
    def direction(self) -> Literal["minimize", "maximize"]: ...

    def scores_of(self, products: Mapping[str, Sequence[Any]]) -> Array: ...


# Campaigns of daskrf ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How a campaign goes: random products first, then batches up to a number of evaluations."""

    first: int
    batch: int
    most: int
    rule: str
    components: int
    radius: int
    estimates: bool = False

    @classmethod
    def of(cls, options: argparse.Namespace) -> Plan:
        """Return the plan of a command line by `campaign_parser`, whose numbers are given."""
        names = ("first", "batch", "most", "rule", "components", "radius")
        return cls(**{name: getattr(options, name) for name in names})

    def fit_options(self, model: str) -> dict[str, Any]:
        """Return the options of `fit` for a model."""
        if model not in KERNELS:
            return {}
        feature_map = RandomFourierFeatures(KERNELS[model], n_components=self.components)
        return {"spec": FingerprintSpec(f"morgan:{self.radius}"), "feature_map": feature_map}


def campaign_parser(text: str | None, seeds: list[int]) -> argparse.ArgumentParser:
    """Return a parser with the options that all campaigns have."""
    options = parser(text)
    options.add_argument("--seeds", type=int, nargs="+", default=seeds)
    options.add_argument("--models", nargs="*", default=["default", "metric"], choices=NEW)
    options.add_argument("--rule", default="default")
    options.add_argument("--components", type=int, default=2048)
    options.add_argument("--radius", type=int, default=1)
    options.add_argument("--first", type=int, default=1000)
    options.add_argument("--batch", type=int, default=500)
    options.add_argument("--most", type=int, default=5000)
    return options


def campaign(
    scorer: Scorer, model: str, plan: Plan, seed: int, folder: Path, client: Client | None = None
) -> Iterator[dict[str, Any]]:
    """Yield, after each round, evaluations, how many of the best were found, and seconds.

    It ends early if all of them have been found. From the first batch on, there is the share of the batch
    within its 95 % intervals, and with `Plan.estimates` the share of the best that `found` estimates.
    """
    start, chosen = time.perf_counter(), {}
    batch = daskrf.sample(scorer.folder, folder / "first.csv", n=plan.first, seed=seed).table
    labels: list[pa.Table] = []
    while True:
        scores = scorer.scores_of(batch.to_pydict())
        labels.append(_labels(batch, scores))
        line = {"evaluations": scorer.n, "found": len(scorer.hits), **_calibration(batch, scores), **chosen}
        begun = time.perf_counter()
        name = folder / f"{scorer.n}"
        done = scorer.n >= plan.most or len(scorer.hits) == scorer.n_best
        if not done or plan.estimates:
            pa.csv.write_csv(pa.concat_tables(labels), folder / "labels.csv")
            daskrf.fit(
                folder / "labels.csv",
                output=name,
                target="score",
                direction=scorer.direction,
                client=client,
                **plan.fit_options(model),
            )
        if plan.estimates:
            asked = time.perf_counter()
            share = daskrf.found(name, scorer.folder, k=scorer.n_best, client=client)
            line |= {"estimate": share.share, "estimate_low": share.low, "estimate_high": share.high}
            begun += time.perf_counter() - asked
        yield {**line, "s": time.perf_counter() - start}
        if done:
            return
        n = min(plan.batch, plan.most - scorer.n)
        rule = {} if plan.rule == "default" else {"acquisition": plan.rule}
        output = folder / f"{scorer.n}.csv"
        batch = daskrf.suggest(name, scorer.folder, output, n=n, client=client, **rule).table
        chosen = {"round_s": time.perf_counter() - begun}


def _labels(batch: pa.Table, scores: Array) -> pa.Table:
    """Return what a user sends back of a sample or a batch: the molecules, their blocks, and the scores."""
    names = [
        name for name in batch.column_names if name in ("smiles", "reaction") or name.startswith("block_")
    ]
    return batch.select(names).append_column("score", pa.array(scores))


def _calibration(batch: pa.Table, scores: Array) -> dict[str, float]:
    """Return the share of scores in the 95 % intervals of a batch; a random sample has none."""
    if "std_y" not in batch.column_names:
        return {}
    z = (scores - batch["mean"].to_numpy()) / batch["std_y"].to_numpy()
    return {"within": float(np.mean(np.abs(z) <= HALF_WIDTH))}


# Searches of one space -------------------------------------------------------------------------------------


def plan_of(space: ScoredSpace, options: argparse.Namespace) -> tuple[Plan, list[int]]:
    """Return how daskrf goes through a space, and the budgets of the others, in evaluations."""
    n = space.blocks.n_products
    if n > MANY:
        numbers = {"first": options.first or 1000, "batch": options.batch or 500, "most": options.most}
        budgets = [options.most, max(options.most, int(PUBLISHED * n))]
    else:
        shares = options.budgets or (OF_FEW if n < FEW else BUDGETS)
        budgets = sorted({max(2, round(share * n)) for share in shares})
        tenth = max(1, budgets[-1] // ROUNDS)
        numbers = {"first": options.first or tenth, "batch": options.batch or tenth, "most": budgets[-1]}
    settings = argparse.Namespace(**vars(options) | numbers)
    return replace(Plan.of(settings), estimates=options.estimates), budgets


def searches(name: str, seed: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row for each search of a space with one seed, with what it had found after each round."""
    workers = local_cluster(options.workers, dashboard=False) if options.workers else contextlib.nullcontext()
    with tempfile.TemporaryDirectory() as folder, workers as client:
        start = time.perf_counter()
        space = space_of(name, Path(folder) / "space", seed, small=options.small)
        plan, budgets = plan_of(space, options)
        best = space.scores(np.array(list(space.best)))
        n_best = len(set(space.best.values()))
        print(
            f"{name}, seed {seed}: {space.blocks.n_products:,} products of "
            f"{' x '.join(map(str, space.blocks.sizes))} blocks; best {best[0]:.4f}, number {n_best} "
            f"{best[-1]:.4f}, all in {time.perf_counter() - start:.0f} s",
            flush=True,
        )
        for way in BASELINES:
            rounds = baseline(space, way, budgets, seed)
            yield {"space": name, "way": way, "seed": seed, "rounds": followed(rounds, f"  {way}", n_best)}
        for model in options.models:
            scorer, work = Evaluations(space), Path(folder) / model
            work.mkdir()
            rounds = followed(campaign(scorer, model, plan, seed, work, client), f"  daskrf, {model}", n_best)
            yield {"space": name, "way": f"daskrf, {model}", "seed": seed, "rounds": rounds}


def baseline(space: ScoredSpace, way: str, budgets: list[int], seed: int) -> Iterator[dict[str, Any]]:
    """Yield, for each budget, how many of the best one of `BASELINES` finds."""
    for budget in budgets:
        start, evaluations = time.perf_counter(), Evaluations(space)
        BASELINES[way](evaluations, budget, seed)
        # By its budget: roulette-wheel selection may have stopped before.
        yield {"evaluations": budget, "found": len(evaluations.hits), "s": time.perf_counter() - start}


def followed(rounds: Iterable[dict[str, Any]], what: str, n_best: int) -> list[dict[str, Any]]:
    """Return the rounds of a search, and print each when it is over."""
    lines = []
    for one in rounds:
        lines.append(one)
        text = f"{one['found']} of {n_best} by {one['evaluations']:,}"
        if "within" in one:
            text += f", {one['within']:.0%} of the batch in 95 % intervals"
        if "round_s" in one:
            text += f", chosen in {one['round_s']:.0f} s"
        if "estimate" in one:
            text += (
                f", estimated {one['estimate']:.0%} ({one['estimate_low']:.0%} - {one['estimate_high']:.0%})"
            )
        print(f"{what}: {text}; {one['s']:.0f} s in all", flush=True)
    return lines


def summary(rows: list[dict[str, Any]], least: int) -> list[dict[str, Any]]:
    """Return mean and range over seeds of what was found, by space, way and evaluations from `least` on."""
    lines = []
    for space, way in dict.fromkeys((row["space"], row["way"]) for row in rows):
        seeds = [row["rounds"] for row in rows if (row["space"], row["way"]) == (space, way)]
        for at in sorted({one["evaluations"] for rounds in seeds for one in rounds}):
            if at < least:
                continue
            # A search that has found all has ended before.
            last = [[one for one in rounds if one["evaluations"] <= at][-1] for rounds in seeds]
            hits = [one["found"] for one in last]
            within = [one["within"] for one in last if "within" in one]
            lines.append(
                {
                    "space": space,
                    "way": way,
                    "evaluations": at,
                    "found": float(np.mean(hits)),
                    "least": min(hits),
                    "most": max(hits),
                    "in 95 %": float(np.mean(within)) if within else None,
                    "seeds": len(hits),
                    "s": float(np.mean([one["s"] for one in last])),
                }
            )
    return lines


FORMATS = {
    "space": "",
    "way": "",
    "evaluations": ",",
    "found": ".1f",
    "least": "",
    "most": "",
    "in 95 %": ".0%",
    "seeds": "",
    "s": ".0f",
}


def main(arguments: list[str] | None = None) -> None:
    reader = campaign_parser(__doc__, seeds=[0, 1])
    reader.set_defaults(first=None, batch=None, models=["default"])
    reader.add_argument("--spaces", nargs="+", default=list(SPACES), choices=SPACES)
    reader.add_argument("--budgets", type=float, nargs="+", help="shares of a space")
    reader.add_argument("--estimates", action="store_true", help="run `daskrf found` after each round, too")
    reader.add_argument("--workers", type=int, default=0)
    reader.add_argument("--small", action="store_true", help="small spaces")
    options = reader.parse_args(arguments)
    if options.small:
        options.components, options.budgets = 128, options.budgets or [0.03]
    print_header(options.seeds)
    rows = [row for seed in options.seeds for name in options.spaces for row in searches(name, seed, options)]
    print(table(summary(rows, 0), FORMATS))
    settings = {
        name: value for name, value in vars(options).items() if name not in ("output", "seed", "spaces")
    }
    results = {name: [row for row in rows if row["space"] == name] for name in options.spaces}
    write_results(
        options.output,
        "space_learning",
        seed=options.seeds,
        settings=dict.fromkeys(options.spaces, settings),  # those of other spaces stay
        results=results,
        keep=True,
    )


if __name__ == "__main__":
    main()
