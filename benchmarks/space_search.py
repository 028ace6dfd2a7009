"""Searches of a make-on-demand space by similarity and by patterns, beside RDKit's SynthonSpaceSearch.

The space is one amide reaction of a real space, as a table of synthons: 10^9 products with all blocks.
"similarity" looks for the 100 products most similar to each of --queries random products. "patterns" counts
the products that contain each of `PATTERNS`, and lists 1,000 of them. Seconds, CPU seconds and memory are
from the table to the products, by `daskrf search` on --workers processes, and by RDKit on as many threads,
which reads the table and, for similarities, makes fingerprints of the synthons first. Memory is what all
processes of a search share and hold together, at most.

RDKit's similarity is Tanimoto of Morgan bits of radius 2, folded to 2,048, that of daskrf Tanimoto of Morgan
counts of radius 2. RDKit needs a cutoff: for each query it gets the hundredth similarity of daskrf's
products, by bits and less 0.02, which nobody knows beforehand; its other settings are its own. It does not
count the products of a pattern, but gives a number that is not exceeded.

"recall" makes a list of all products of a part of the space, every --listed th block, and compares both
searches with it: how many of the 100 nearest products each finds, each judged by its own similarity (where
several products are as near as the hundredth, any of them counts), and for each pattern how many of the
products that contain it, and how many that do not. RDKit decides on each product of the list.

    python benchmarks/space_search.py [--parts similarity patterns recall] [--every 1] [--listed 120]
                                      [--queries 10] [--patterns indoles] [--workers 2]

``--every 10`` takes each tenth block in "similarity" and "patterns".
"""

from __future__ import annotations

import importlib
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow.csv as pc
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import parser, print_header, table, write_results
from benchmarks.space import sub_space
from daskrf import FingerprintSpec, local_cluster, search
from daskrf.errors import InputError
from daskrf.spaces import CutSpace, cut, read_space

REACTION = "22"
PARTS = ("similarity", "patterns", "recall")
K = 100
SHOWN = 1000  # products of a pattern that are listed; RDKit's own limit
CLOSER = 0.02
BLOCK = 5000  # products of the list that are molecules at a time
PATTERNS = {
    "all amides": "[CX3](=O)N",
    "sulfonamides": "S(=O)(=O)[NX3]",
    "indoles": "c1ccc2[nH]ccc2c1",
    "amides of arylpiperazines": "C(=O)N1CCN(c2ccccc2)CC1",
    "alkyl nicotinamides": "[CX4]NC(=O)c1ccncc1",
    "furfuryl amides of 2-halobenzoic acids": "[F,Cl,Br]c1ccccc1C(=O)NCc1ccco1",
}
FORMATS = {
    "search": "",
    "products": ",",
    "query": "",
    "hits": ",",
    "s": ".1f",
    "cpu_s": ".1f",
    "peak_gib": ".2f",
    "query_s": ".2f",
    "recall": ".4f",
    "wrong": "",
}


# What a search costs ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds of a call in a fresh process, and the most memory of it and its workers in GiB."""

    s: float
    cpu_s: float
    peak_gib: float


def measured(function: Callable[..., Any], *arguments: Any) -> tuple[Any, dict[str, float]]:
    """Call a function in a fresh process; return its result and its `Cost`, as a dict.

    Memory is looked at twice a second, with what processes share counted once.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        future = pool.submit(_timed, function, arguments)
        peak = 0.0
        while wait([future], timeout=0.5).not_done:
            peak = max(peak, sum(map(_memory, psutil.Process().children(recursive=True))))
        result, seconds, cpu = future.result()
    return result, vars(Cost(seconds, cpu, peak / 2**30))


def _timed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, float, float]:
    before, start = _cpu_seconds(), time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start, _cpu_seconds() - before


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _memory(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss)
    except psutil.Error:  # it has ended
        return 0.0


# The space -------------------------------------------------------------------------------------------------


def synthons(folder: Path, every: int) -> CutSpace:
    """Return one reaction of the real space, cut to synthons."""
    whole = sub_space(folder, every, triples=False)
    lines = (whole / "reactions.tsv").read_text().splitlines()
    (whole / "reactions.tsv").write_text(
        "\n".join([lines[0], *(line for line in lines[1:] if line.split("\t")[0] == REACTION)]) + "\n"
    )
    slots = (whole / "slots.csv").read_text().splitlines()
    (whole / "slots.csv").write_text(
        "\n".join([slots[0], *(line for line in slots[1:] if line.split(",")[0] == REACTION)]) + "\n"
    )
    return cut(read_space(whole), FingerprintSpec("morgan:2"))


def written(space: CutSpace, path: Path) -> Path:
    """Write the synthons of the first reaction as a table."""
    lines = ["SMILES\tsynton_id\tsynton#\treaction_id"]
    for slot, entries in enumerate(space.entries[0]):
        lines += [
            f"{space.smiles[number]}\ts{number}\t{slot + 1}\t{REACTION}"
            for number in np.unique(entries.synthon).tolist()
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def n_products(space: CutSpace) -> int:
    """Return the number of combinations of different synthons of the first reaction."""
    return int(np.prod([len(np.unique(slot.synthon)) for slot in space.entries[0]], dtype=np.int64))


# Searches by RDKit -----------------------------------------------------------------------------------------


def _module() -> Any:
    # Its type stubs are not valid Python, so mypy must not follow the import.
    return importlib.import_module("rdkit.Chem.rdSynthonSpaceSearch")


def _bits() -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)


def by_bits(query: str, smiles: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the similarities that RDKit's search takes."""
    one, *others = (_bits().GetFingerprint(Chem.MolFromSmiles(text)) for text in [query, *smiles])
    return np.array(DataStructs.BulkTanimotoSimilarity(one, others))


def nearest_by_rdkit(
    path: Path, queries: list[str], cutoffs: list[float], workers: int
) -> tuple[list[list[str]], float]:
    """Return the 100 nearest products of each query, and the median seconds of a query."""
    space = _module().SynthonSpace()
    space.ReadTextFile(str(path))
    space.BuildSynthonFingerprints(_bits())
    params = _module().SynthonSpaceSearchParams()
    params.maxHits, params.numThreads = -1, workers
    every, seconds = [], []
    for query, cutoff in zip(queries, cutoffs, strict=True):
        params.similarityCutoff = cutoff
        start = time.perf_counter()
        hits = space.FingerprintSearch(Chem.MolFromSmiles(query), _bits(), params).GetHitMolecules()
        seconds.append(time.perf_counter() - start)
        smiles = list(dict.fromkeys(Chem.MolToSmiles(hit) for hit in hits))
        best = np.argsort(-by_bits(query, smiles), kind="stable")[:K]
        every.append([smiles[i] for i in best.tolist()])
    return every, float(np.median(seconds))


def with_pattern_by_rdkit(path: Path, pattern: str, most: int, workers: int) -> tuple[set[str], int]:
    """Return products that contain a pattern, and a number that all of them do not exceed."""
    space = _module().SynthonSpace()
    space.ReadTextFile(str(path))
    params = _module().SynthonSpaceSearchParams()
    params.maxHits, params.numThreads = most, workers
    result = space.SubstructureSearch(Chem.MolFromSmarts(pattern), params=params)
    smiles = {Chem.MolToSmiles(hit) for hit in result.GetHitMolecules()}
    return smiles, int(result.GetMaxNumResults())


# Searches by daskrf ----------------------------------------------------------------------------------------


def nearest_by_daskrf(path: Path, queries: list[str], workers: int, output: Path) -> list[list[str]]:
    """Return the 100 nearest products of each query."""
    with local_cluster(n_workers=workers, dashboard=False) as client:
        search(path, output, similar_to=queries, k=K, client=client)
    hits = pc.read_csv(output)
    of, smiles = hits["query"].to_pylist(), hits["smiles"].to_pylist()
    return [[s for s, q in zip(smiles, of, strict=True) if q == query] for query in queries]


def with_pattern_by_daskrf(
    path: Path, pattern: str, most: int, workers: int, output: Path
) -> tuple[set[str], int]:
    """Return products that contain a pattern, and the number of all of them."""
    try:
        with local_cluster(n_workers=workers, dashboard=False) as client:
            report = search(path, output, smarts=pattern, k=most, client=client)
    except InputError as error:
        if not str(error).startswith("None of the "):  # products contain it
            raise
        return set(), 0
    return set(report.table["smiles"].to_pylist()), counted(report.notes)


def counted(notes: Sequence[str]) -> int:
    """Return the number of products with a pattern from the notes of a search."""
    (n,) = (found[1] for note in notes if (found := re.match(r"([\d,]+) of [\d,]+ products contain ", note)))
    return int(n.replace(",", ""))


# The list of all products ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Listed:
    """All products of a space, as different molecules.

    Attributes
    ----------
    smiles : list of str
    similarities : dict of str to float64 array, shape (queries, n)
        By counts ("daskrf") and by folded bits ("RDKit").
    contain : bool array, shape (patterns, n)
    """

    smiles: list[str]
    similarities: dict[str, npt.NDArray[np.float64]]
    contain: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, space: CutSpace, queries: Sequence[str], patterns: Sequence[str]) -> Listed:
        """Make all products of the first reaction, and compare them, some thousand molecules at a time."""
        grids = np.meshgrid(*(np.unique(slot.synthon) for slot in space.entries[0]), indexing="ij")
        smiles = sorted(set(space.product_smiles(np.column_stack([grid.ravel() for grid in grids]))))
        counts = rdFingerprintGenerator.GetMorganGenerator(radius=2).GetSparseCountFingerprint
        ways = {"daskrf": counts, "RDKit": _bits().GetFingerprint}
        asked = {
            way: [function(Chem.MolFromSmiles(text)) for text in queries] for way, function in ways.items()
        }
        similarities = {way: np.empty((len(queries), len(smiles))) for way in ways}
        contain = np.empty((len(patterns), len(smiles)), bool)
        wanted = [Chem.MolFromSmarts(pattern) for pattern in patterns]
        for start, molecules in _molecules(smiles):
            stop = start + len(molecules)
            for way, function in ways.items():
                others = [function(molecule) for molecule in molecules]
                for row, query in zip(similarities[way], asked[way], strict=True):
                    row[start:stop] = DataStructs.BulkTanimotoSimilarity(query, others)
            for row, pattern in zip(contain, wanted, strict=True):
                row[start:stop] = [molecule.HasSubstructMatch(pattern) for molecule in molecules]
        return cls(smiles, similarities, contain)

    def recall(self, way: str, hits: list[list[str]]) -> float:
        """Return the mean share of the 100 nearest products of each query that a search found."""
        shares = []
        for row, products in zip(self.similarities[way], hits, strict=True):
            values = dict(zip(self.smiles, row.tolist(), strict=True))
            last = np.sort(row)[-K]
            shares.append(sum(values[product] >= last - 1e-12 for product in set(products)) / K)
        return float(np.mean(shares))

    def with_pattern(self, number: int) -> set[str]:
        """Return the products that contain a pattern."""
        return {self.smiles[i] for i in np.flatnonzero(self.contain[number]).tolist()}


def _molecules(smiles: list[str]) -> Iterator[tuple[int, list[Chem.Mol]]]:
    """Yield some molecules at a time, with the number of the first."""
    for start in range(0, len(smiles), BLOCK):
        yield start, [Chem.MolFromSmiles(text) for text in smiles[start : start + BLOCK]]


# Parts of the benchmark ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A space to search, and how.

    Attributes
    ----------
    path : Path
        Table of its synthons; results are written beside it.
    products : int
    queries : list of str
    workers : int
    """

    path: Path
    products: int
    queries: list[str]
    workers: int

    @classmethod
    def of(cls, space: CutSpace, path: Path, n_queries: int, workers: int, seed: int) -> Setting:
        """Write the table of a space, and draw random products of it to look for."""
        random = np.random.default_rng(seed)
        chosen = [random.choice(slot.synthon, n_queries) for slot in space.entries[0]]
        queries = space.product_smiles(np.column_stack(chosen))
        return cls(written(space, path), n_products(space), queries, workers)

    def nearest(self) -> tuple[dict[str, list[list[str]]], list[dict[str, Any]]]:
        """Return the 100 nearest products of each query by both searches, and what it cost."""
        about = {"products": self.products, "query": f"{len(self.queries)} molecules"}
        output = self.path.with_suffix(".csv")
        ours, cost = measured(nearest_by_daskrf, self.path, self.queries, self.workers, output)
        cutoffs = [
            float(np.sort(by_bits(*both))[-K] - CLOSER) for both in zip(self.queries, ours, strict=True)
        ]
        rows: list[dict[str, Any]] = [{"search": "daskrf", **about, **cost}]
        (theirs, query_s), cost = measured(nearest_by_rdkit, self.path, self.queries, cutoffs, self.workers)
        rows.append({"search": "RDKit", **about, **cost, "query_s": query_s})
        return {"daskrf": ours, "RDKit": theirs}, rows

    def with_pattern(self, name: str, most: int) -> tuple[dict[str, set[str]], list[dict[str, Any]]]:
        """Return products with one of `PATTERNS` by both searches, and what it cost."""
        about = {"products": self.products, "query": name}
        arguments = self.path, PATTERNS[name], most, self.workers
        output = self.path.with_name("pattern.csv")
        output.unlink(missing_ok=True)
        (ours, n), cost = measured(with_pattern_by_daskrf, *arguments, output)
        rows = [{"search": "daskrf", **about, "hits": n, **cost}]
        (theirs, most_hits), cost = measured(with_pattern_by_rdkit, *arguments)
        rows.append({"search": "RDKit", **about, "hits": most_hits, **cost})
        return {"daskrf": ours, "RDKit": theirs}, rows


def recall(space: CutSpace, setting: Setting, names: list[str]) -> list[dict[str, Any]]:
    """Return how much of what a list of all products has each search finds, with what it cost."""
    listed, cost = measured(Listed.of, space, setting.queries, [PATTERNS[name] for name in names])
    rows = [{"search": "list", "products": len(listed.smiles), **cost}]
    nearest, costs = setting.nearest()
    rows += [{**row, "recall": listed.recall(row["search"], nearest[row["search"]])} for row in costs]
    for number, name in enumerate(names):
        truth = listed.with_pattern(number)
        hits, costs = setting.with_pattern(name, setting.products)
        for row in costs:
            right = hits[row["search"]] & truth
            shares = {
                "recall": len(right) / len(truth) if truth else None,
                "wrong": len(hits[row["search"]] - truth),
            }
            rows.append({**row, "hits": len(hits[row["search"]]), **shares})
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Print what searches cost and find."""
    reader = parser(__doc__)
    reader.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    reader.add_argument("--every", type=int, default=1)
    reader.add_argument("--listed", type=int, default=120)
    reader.add_argument("--queries", type=int, default=10)
    reader.add_argument("--patterns", nargs="+", default=list(PATTERNS), choices=list(PATTERNS))
    reader.add_argument("--workers", type=int, default=2)
    options = reader.parse_args(arguments)
    print_header(options.seed)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for part in options.parts:
            folder = Path(name) / part
            space = synthons(folder, options.listed if part == "recall" else options.every)
            path = folder / "synthons" / "table.tsv"
            path.parent.mkdir()
            setting = Setting.of(space, path, options.queries, options.workers, options.seed)
            if part == "recall":
                results[part] = recall(space, setting, options.patterns)
            elif part == "similarity":
                results[part] = setting.nearest()[1]
            else:
                results[part] = [
                    row for one in options.patterns for row in setting.with_pattern(one, SHOWN)[1]
                ]
            print(f"\n{part}\n{table(results[part], FORMATS)}", flush=True)
    names = "every", "listed", "queries", "patterns", "workers"
    settings = {part: {name: getattr(options, name) for name in names} for part in options.parts}
    write_results(
        options.output, "space_search", seed=options.seed, settings=settings, results=results, keep=True
    )


if __name__ == "__main__":
    main()
