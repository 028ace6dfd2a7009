"""How many of the best products of a make-on-demand space are found by scoring 5,000 of them.

The space has one reaction of three components and 10^8 products (two amides on a diamine that is protected on
one side): random blocks of a real space, 480 cores and 460 and 455 acids, each with exactly one synthon. Two
scores, larger is better; either can be computed for all products, so that the best 100 molecules are known.

"properties" is no similarity. Seven numbers are summed over the three synthons of a product (attachment
points left out): heavy atoms n, aromatic atoms a, halogens x, donors d, logP P (Crippen), polar surface T and
rotatable bonds r, and

    E = 0.15 n + 0.1 a + 0.25 x + 0.35 d,
    score = 12 tanh(E / 12) - 0.3 (P - 3)^2 - 0.0005 (T - 90)^2 - 0.1 max(0, r - 8)^2.

"similarity" is the Tanimoto similarity to a random product of the space, sum min / sum max of Morgan counts
of radius 2, those of a product being the sums of those of its three synthons with their attachment points.

daskrf begins with --first random products (`daskrf sample`), fits a model to the scores of all SMILES so far
(`fit`), asks for --batch more (`suggest`), and so on, up to 5,000. "default" is the model of `daskrf fit`
without options. "fourier" is a process on --components Fourier features of Morgan counts of --radius, which
ranks all products itself, and "metric" the same in a learned metric (`--map fourier --kernel metric`).

Beside it Thompson sampling over reagents (Klarich, Goldman, Kramer, Riley & Walters 2024, J. Chem. Inf.
Model. 64), in a plain implementation of our own: each block has a normal distribution of the score of its
products, with the mean and deviation of all scores of a warm-up, in which each block is in three random
products; then each step draws a number for each block, takes the block with the largest one in each slot
(slots give way in random order where that product was scored before), scores the product, and updates the
distributions of its blocks, with the variance of the warm-up as that of a score. It gets 5,000 evaluations,
and its published budget, a thousandth of the space; the warm-up counts.

    python benchmarks/space_learning.py [--seeds 0 1] [--scores properties similarity]
                                        [--models default fourier metric] [--rule default]
                                        [--components 2048] [--radius 1] [--batch 500] [--small]

--small takes 10,000 products of blocks that the package has, and 300 evaluations.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from common import parser, print_header, table, write_results
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator, rdMolDescriptors
from space import sub_space

import daskrf
from daskrf import FingerprintSpec, Gaussian, RandomFourierFeatures
from daskrf.demo.building_blocks import load_blocks
from daskrf.kernels import MetricGaussian, RadialKernel
from daskrf.spaces import cut, read_space

Array = npt.NDArray[np.float64]

BEST = 100
LOOKED_AT = 3000  # best products among which the best molecules are: few molecules are made in several ways
BLOCKS = 480, 460, 455
SMALL = 16, 25, 25
KERNELS: dict[str, RadialKernel] = {
    "fourier": Gaussian("auto"),
    "metric": MetricGaussian("auto", "auto"),
}
NEW = "default", *KERNELS
WARM_UP = 3  # products of each block
PUBLISHED = 1000  # products for each evaluation, in the published budget


@dataclass(frozen=True)
class Blocks:
    """A space of one reaction: its folder, and IDs and synthons of the blocks of each slot."""

    folder: Path
    ids: list[list[str]]
    synthons: list[list[str]]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.ids))

    def places(self, products: dict[str, list[Any]]) -> npt.NDArray[np.int64]:
        """Return the places of the blocks of products in a table with the columns block_0, block_1, ..."""
        place = [{name: i for i, name in enumerate(own)} for own in self.ids]
        rows = [[own[str(b)] for b in products[f"block_{slot}"]] for slot, own in enumerate(place)]
        return np.array(rows).T


def blocks_of(folder: Path, small: bool) -> Blocks:
    """Write a space of random blocks that have exactly one synthon each."""
    whole, random = folder / "whole", np.random.default_rng(0)
    if small:
        _own_space(whole)
    else:
        sub_space(whole, 2, triples=True)
    found = cut(read_space(whole), FingerprintSpec("morgan:1"))
    names = found.space.blocks
    ids, synthons = [], []
    for own, size in zip(found.entries[0], SMALL if small else BLOCKS, strict=True):
        block, first, times = np.unique(own.block, return_index=True, return_counts=True)
        chosen = np.sort(random.choice(np.flatnonzero(times == 1), size, replace=False))
        ids.append([names[b] for b in block[chosen].tolist()])
        synthons.append([found.smiles[own.synthon[i]] for i in first[chosen].tolist()])
    space = folder / "space"
    space.mkdir()
    for name in ("reactions.tsv", "blocks.csv", "blocks.csv.gz"):
        if (whole / name).exists():
            (space / name).write_bytes((whole / name).read_bytes())
    reaction = found.space.reactions[0].name
    rows = [f"{reaction},{slot},{name}" for slot, own in enumerate(ids) for name in own]
    (space / "slots.csv").write_text("\n".join(["reaction,slot,block", *rows]) + "\n")
    return Blocks(space, ids, synthons)


def _own_space(folder: Path) -> None:
    """Write the same reaction with blocks of the package."""
    folder.mkdir(parents=True)
    acids = load_blocks("acids")
    slots = load_blocks("diamines")[:200], acids[:300], acids[150:450]
    number = {text: f"b{i}" for i, text in enumerate(dict.fromkeys(text for own in slots for text in own))}
    lines = ["block,smiles", *(f"{name},{text}" for text, name in number.items())]
    (folder / "blocks.csv").write_text("\n".join(lines) + "\n")
    rows = [f"boc,{slot},{number[text]}" for slot, own in enumerate(slots) for text in own]
    (folder / "slots.csv").write_text("\n".join(["reaction,slot,block", *rows]) + "\n")
    reactants = (
        "(CC(C)(C)OC(=O)[N:1]([*:2])[*:3].[*:4][N:5]([H])[*:6]).([OH1][C:7]([*:8])=[O:9])."
        "([OH1][C:10]([*:11])=[O:12])"
    )
    product = "([*:4][N:5]([*:6])[C:7](=[O:9])[*:8].[*:3][N:1]([*:2])[C:10](=[O:12])[*:11])"
    (folder / "reactions.tsv").write_text(f"reaction\treactants\tproduct\nboc\t{reactants}\t{product}\n")


# Scores: each is a function of sums over synthons ----------------------------------------------------------


class Properties:
    """The score "properties"."""

    def __init__(self, blocks: Blocks, seed: int) -> None:
        self.of = [np.array([_properties(text) for text in own]) for own in blocks.synthons]

    def score(self, sums: Array) -> Array:
        """Return the score of products from the sums of their synthons' properties."""
        n, a, x, d, P, T, r = np.moveaxis(sums, -1, 0)
        E = 0.15 * n + 0.1 * a + 0.25 * x + 0.35 * d
        far = 0.3 * (P - 3) ** 2 + 0.0005 * (T - 90) ** 2 + 0.1 * np.maximum(0, r - 8) ** 2
        return np.asarray(12 * np.tanh(E / 12) - far)


def _properties(smiles: str) -> list[float]:
    """Return the seven numbers of a synthon."""
    molecule = Chem.MolFromSmiles(smiles)
    atoms = [atom for atom in molecule.GetAtoms() if atom.GetAtomicNum()]
    logp = rdMolDescriptors._CalcCrippenContribs(molecule)
    return [
        len(atoms),
        sum(atom.GetIsAromatic() for atom in atoms),
        sum(atom.GetAtomicNum() in (9, 17, 35, 53) for atom in atoms),
        rdMolDescriptors.CalcNumHBD(molecule),
        sum(logp[atom.GetIdx()][0] for atom in atoms),
        rdMolDescriptors.CalcTPSA(molecule),
        rdMolDescriptors.CalcNumRotatableBonds(molecule),
    ]


class Similarity:
    """The score "similarity"; columns are the environments of the target, and the number of all counts."""

    def __init__(self, blocks: Blocks, seed: int) -> None:
        generator = rdFingerprintGenerator.GetMorganGenerator(radius=2)
        counts = [
            [
                generator.GetSparseCountFingerprint(Chem.MolFromSmiles(text)).GetNonzeroElements()
                for text in own
            ]
            for own in blocks.synthons
        ]
        random = np.random.default_rng(1000 + seed)
        target = [own[random.integers(len(own))] for own in counts]
        names = sorted(set[int]().union(*target))
        self.of = [
            np.array([[*(one.get(name, 0) for name in names), sum(one.values())] for one in own], np.int32)
            for own in counts
        ]
        self.target = np.array([sum(one.get(name, 0) for one in target) for name in names])

    def score(self, sums: Array) -> Array:
        """Return the similarity of products from the sums of their synthons' counts."""
        common = np.minimum(sums[..., :-1], self.target).sum(axis=-1)
        return np.asarray(common / (sums[..., -1] + self.target.sum() - common))


SCORES = {"properties": Properties, "similarity": Similarity}


class Scores(Protocol):
    """What a campaign needs of scores: the space, and how many have been scored and which of the best."""

    found: set[str]
    n: int

    @property
    def n_best(self) -> int: ...

    @property
    def folder(self) -> Path: ...

    def scores_of(self, products: dict[str, list[Any]]) -> Array: ...


class Oracle:
    """Scores products, and knows the best molecules of all.

    Attributes
    ----------
    found : set of str
        The best molecules that have been scored.
    n : int
        Number of evaluations.
    """

    def __init__(self, blocks: Blocks, score: Any) -> None:
        self.blocks, self.function = blocks, score
        number, values = self._best_of_all()
        smiles = smiles_of(blocks, number)
        self.best: dict[tuple[int, ...], str] = {}
        kept: dict[str, float] = {}
        for text, place, value in zip(smiles, number.tolist(), values.tolist(), strict=True):
            if len(kept) < BEST or text in kept:
                kept.setdefault(text, value)
                self.best[tuple(place)] = text
        self.least, self.most = min(kept.values()), max(kept.values())
        self.found: set[str] = set()
        self.n = 0

    def _best_of_all(self) -> tuple[npt.NDArray[np.int64], Array]:
        """Return the places and the scores of the best products, from the scores of all."""
        top: Array = np.empty(0)
        at: npt.NDArray[np.int64] = np.empty((0, 3), np.int64)
        first, second, third = self.function.of
        pairs = second[:, None, :] + third[None, :, :]
        for core, own in enumerate(first):
            scores = self.function.score(own + pairs).ravel()
            least = top[LOOKED_AT - 1] if len(top) >= LOOKED_AT else -np.inf
            some = np.flatnonzero(scores > least)
            if len(some) > LOOKED_AT:
                some = some[np.argpartition(-scores[some], LOOKED_AT)[:LOOKED_AT]]
            places = np.column_stack([np.full(len(some), core), *divmod(some, len(third))])
            top, at = np.concatenate([top, scores[some]]), np.concatenate([at, places])
            order = np.argsort(-top, kind="stable")[:LOOKED_AT]
            top, at = top[order], at[order]
        return at, top

    @property
    def n_best(self) -> int:
        """Number of the best molecules."""
        return len(set(self.best.values()))

    @property
    def folder(self) -> Path:
        """The space."""
        return self.blocks.folder

    def scores_of(self, products: dict[str, list[Any]]) -> Array:
        """Return the scores of products by the columns of a sample or a batch, and count them."""
        return self.scores(self.blocks.places(products))

    def scores(self, places: npt.NDArray[np.int64]) -> Array:
        """Return the scores of products, and count them."""
        self.n += len(places)
        self.found |= {self.best[p] for p in map(tuple, places.tolist()) if p in self.best}
        sums = sum(own[places[:, slot]] for slot, own in enumerate(self.function.of))
        return np.asarray(self.function.score(sums), np.float64)


def smiles_of(blocks: Blocks, places: npt.NDArray[np.int64]) -> list[str]:
    """Return the SMILES of products."""
    space = cut(read_space(blocks.folder), FingerprintSpec("morgan:1"))
    entries = [dict(zip(own.block.tolist(), own.synthon.tolist(), strict=True)) for own in space.entries[0]]
    number = {name: i for i, name in enumerate(space.space.blocks)}
    synthon = [[own[number[name]] for name in ids] for own, ids in zip(entries, blocks.ids, strict=True)]
    rows = np.column_stack([np.array(own)[places[:, slot]] for slot, own in enumerate(synthon)])
    return space.product_smiles(rows)


# Searches --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How a campaign goes: random products first, then batches up to a number of evaluations."""

    first: int
    batch: int
    most: int
    rule: str
    components: int
    radius: int

    @classmethod
    def of(cls, given: argparse.Namespace) -> Plan:
        """Return the plan of a command line by `campaign_parser`."""
        return cls(**{field.name: getattr(given, field.name) for field in fields(cls)})


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


def campaign(oracle: Scores, model: str, plan: Plan, seed: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield, after each round, evaluations, how many of the best were found, and seconds.

    It ends early if all of them have been found.
    """
    space, start = oracle.folder, time.perf_counter()
    products = daskrf.sample(space, folder / "first.csv", n=plan.first, seed=seed).table.to_pydict()
    smiles: list[str] = []
    scores: list[float] = []
    while True:
        smiles += products["smiles"]
        scores += oracle.scores_of(products).tolist()
        yield {"evaluations": oracle.n, "found": len(oracle.found), "s": time.perf_counter() - start}
        if oracle.n >= plan.most or len(oracle.found) == oracle.n_best:
            return
        name = folder / f"{oracle.n}"
        lines = (f"{text},{score!r}" for text, score in zip(smiles, scores, strict=True))
        (folder / "labels.csv").write_text("\n".join(["smiles,score", *lines]) + "\n")
        options: dict[str, Any] = {}
        if model in KERNELS:
            feature_map = RandomFourierFeatures(KERNELS[model], n_components=plan.components)
            options = {"spec": FingerprintSpec(f"morgan:{plan.radius}"), "feature_map": feature_map}
        daskrf.fit(folder / "labels.csv", output=name, direction="maximize", **options)
        n = min(plan.batch, plan.most - oracle.n)
        rule = {} if plan.rule == "default" else {"acquisition": plan.rule}
        report = daskrf.suggest(name, space, folder / f"{oracle.n}.csv", n=n, **rule)
        products = report.table.to_pydict()


class Normal:
    """The normal distributions of the scores of some blocks; each score updates that of its block."""

    def __init__(self, n: int, mean: float, deviation: float) -> None:
        self.mean, self.variance = np.full(n, mean), np.full(n, deviation**2)
        self.of_a_score = deviation**2

    def update(self, block: int, score: float) -> None:
        """Take in the score of a product of a block."""
        variance, known = self.variance[block], self.of_a_score
        self.mean[block] = (variance * score + known * self.mean[block]) / (variance + known)
        self.variance[block] = variance * known / (variance + known)

    def draw(self, random: np.random.Generator) -> Array:
        """Return a number drawn for each block."""
        return np.asarray(self.mean + np.sqrt(self.variance) * random.standard_normal(len(self.mean)))


def _chosen(slots: list[Normal], seen: set[tuple[int, ...]], random: np.random.Generator) -> tuple[int, ...]:
    """Return the first new product, of the blocks with the largest draws; slots give way in random order."""
    orders = [np.argsort(-own.draw(random)).tolist() for own in slots]
    turn = random.permutation(len(slots)).tolist()
    for blocks in itertools.product(*(orders[slot] for slot in turn)):
        product = tuple(blocks[turn.index(slot)] for slot in range(len(slots)))
        if product not in seen:
            return product
    raise ValueError("All products have been taken.")


def thompson(oracle: Oracle, budgets: list[int], seed: int) -> Iterator[dict[str, Any]]:
    """Yield, at each budget, how many of the best Thompson sampling over reagents has found."""
    random, sizes, start = np.random.default_rng(seed), oracle.blocks.sizes, time.perf_counter()
    warm = []
    for slot, size in enumerate(sizes):
        places = np.column_stack([random.integers(own, size=WARM_UP * size) for own in sizes])
        places[:, slot] = np.tile(np.arange(size), WARM_UP)
        warm.append(places)
    places = np.unique(np.concatenate(warm), axis=0)
    places = places[random.permutation(len(places))][: budgets[0]]
    scores, seen = oracle.scores(places), set(map(tuple, places.tolist()))
    slots = [Normal(size, float(scores.mean()), float(scores.std())) for size in sizes]
    for place, score in zip(places.tolist(), scores.tolist(), strict=True):
        for own, block in zip(slots, place, strict=True):
            own.update(block, score)
    for budget in budgets:
        while oracle.n < budget:
            chosen = _chosen(slots, seen, random)
            seen.add(chosen)
            score = float(oracle.scores(np.array([chosen]))[0])
            for own, block in zip(slots, chosen, strict=True):
                own.update(block, score)
        yield {"evaluations": oracle.n, "found": len(oracle.found), "s": time.perf_counter() - start}


def searches(blocks: Blocks, given: Any, plan: Plan, name: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each search of one score and seed, with what it had found after each round."""
    function = SCORES[name](blocks, seed)
    start = time.perf_counter()
    truth = Oracle(blocks, function)
    where = (
        f"best {truth.most:.4f}, number {BEST} {truth.least:.4f}, all in {time.perf_counter() - start:.0f} s"
    )
    print(f"{name}, seed {seed}: {where}", flush=True)
    budgets = [plan.most, max(plan.most, int(np.prod(blocks.sizes)) // PUBLISHED)]
    ways: dict[str, Any] = {"Thompson sampling over reagents": lambda: thompson(truth, budgets, seed)}
    for model in given.models:
        ways[f"daskrf, {model}"] = lambda model=model: campaign(truth, model, plan, seed, Path(folder))
    for way, run in ways.items():
        truth.found, truth.n = set(), 0
        with tempfile.TemporaryDirectory() as folder:
            rounds = followed(run(), f"  {way}", truth.n_best)
        yield {"score": name, "way": way, "seed": seed, "rounds": rounds}


def followed(rounds: Iterable[dict[str, Any]], what: str, n_best: int) -> list[dict[str, Any]]:
    """Return the rounds of a search, and print each when it is over."""
    told = []
    for one in rounds:
        told.append(one)
        found = f"{one['found']} of {n_best} by {one['evaluations']:,}"
        print(f"{what}: {found}, {one['s']:.0f} s", flush=True)
    return told


def summary(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Return mean and range over seeds of what was found, by score, way and number of evaluations."""
    lines = []
    for score, way in dict.fromkeys((row["score"], row["way"]) for row in rows):
        own = [row["rounds"] for row in rows if (row["score"], row["way"]) == (score, way)]
        for at in sorted({told["evaluations"] for rounds in own for told in rounds}):
            if at < most // 5:
                continue
            # A search that has found all has ended before.
            last = [[told for told in rounds if told["evaluations"] <= at][-1] for rounds in own]
            found, seconds = ([told[name] for told in last] for name in ("found", "s"))
            lines.append(
                {
                    "score": score,
                    "way": way,
                    "evaluations": at,
                    "found": float(np.mean(found)),
                    "least": min(found),
                    "most": max(found),
                    "seeds": len(found),
                    "s": float(np.mean(seconds)),
                }
            )
    return lines


FORMATS = {
    "score": "",
    "way": "",
    "evaluations": ",",
    "found": ".1f",
    "least": "",
    "most": "",
    "seeds": "",
    "s": ".0f",
}


def main(arguments: list[str] | None = None) -> None:
    options = campaign_parser(__doc__, seeds=[0, 1])
    options.add_argument("--scores", nargs="+", default=list(SCORES), choices=list(SCORES))
    options.add_argument("--small", action="store_true", help="a small space, and few evaluations")
    given = options.parse_args(arguments)
    if given.small:
        given.components, given.first, given.batch, given.most = 128, 200, 100, 300
    print_header(given.seeds)
    plan = Plan.of(given)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        blocks = blocks_of(Path(name), given.small)
        print(
            f"{np.prod(blocks.sizes):,} products of {' x '.join(map(str, blocks.sizes))} blocks", flush=True
        )
        for seed in given.seeds:
            for score in given.scores:
                rows += searches(blocks, given, plan, score, seed)
    lines = summary(rows, given.most)
    print(table(lines, FORMATS))
    settings = {name: value for name, value in vars(given).items() if name not in ("output", "seed")}
    results = {score: [row for row in rows if row["score"] == score] for score in given.scores}
    write_results(
        given.output, "space_learning", seed=given.seeds, settings=settings, results=results, keep=True
    )


if __name__ == "__main__":
    main()
