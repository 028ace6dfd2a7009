"""Searches of a make-on-demand space by similarity, beside RDKit's SynthonSpaceSearch on the same synthons.

The space is one amide reaction of a real space, as a table of synthons: 10^9 products with all blocks.
Queries are random products of it. "time": seconds from the table to the 100 products most similar to each
query, by `daskrf search` on --workers processes, and by RDKit on as many threads, which reads the table and
makes fingerprints of the synthons first. "recall": how many of the 100 nearest products each of them finds in
a part of the space whose products are all listed. Each is judged by its own similarity: Tanimoto of Morgan
counts of radius 2, and of bits folded to 2,048, which RDKit's search takes. RDKit needs a cutoff: for each
query it gets the hundredth similarity of daskrf's products, by bits and less 0.02, which nobody knows
beforehand; its other settings are its own. Where several products are as near as the hundredth, any of them
counts.

    python benchmarks/space_search.py [--parts time recall] [--every 1] [--queries 10] [--workers 2]

``--every 10`` takes each tenth block in "time"; "recall" takes each sixtieth.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pc
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import parser, print_header, table, write_results
from benchmarks.space import sub_space
from daskrf import FingerprintSpec, local_cluster, search
from daskrf.spaces import CutSpace, cut, read_space

# Its type stubs are not valid Python, so mypy must not follow the import.
rdSynthonSpaceSearch = importlib.import_module("rdkit.Chem.rdSynthonSpaceSearch")

REACTION = "22"
PARTS = ("time", "recall")
LISTED = 60  # each block of these, where all products are listed
K = 100
FORMATS = {"search": "", "products": ",", "ready_s": ".1f", "query_s": ".2f", "all_s": ".1f", "recall": ".3f"}
CLOSER = 0.02


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
    """Write the synthons as a table."""
    lines = ["SMILES\tsynton_id\tsynton#\treaction_id"]
    for slot, entries in enumerate(space.entries[0]):
        lines += [
            f"{space.smiles[number]}\ts{number}\t{slot + 1}\t{REACTION}"
            for number in np.unique(entries.synthon).tolist()
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def by_bits(query: str, smiles: list[str]) -> np.ndarray:
    """Return the similarities that RDKit's search takes."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    one, *others = (generator.GetFingerprint(Chem.MolFromSmiles(text)) for text in [query, *smiles])
    return np.array(DataStructs.BulkTanimotoSimilarity(one, others))


def by_rdkit(
    path: Path, queries: list[str], nearest: list[list[str]], workers: int
) -> tuple[list[list[str]], dict[str, float]]:
    """Return the 100 nearest products of each query by RDKit, and seconds for reading and for a query."""
    start = time.perf_counter()
    space = rdSynthonSpaceSearch.SynthonSpace()
    space.ReadTextFile(str(path))
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    space.BuildSynthonFingerprints(generator)
    ready = time.perf_counter() - start
    params = rdSynthonSpaceSearch.SynthonSpaceSearchParams()
    params.maxHits, params.numThreads = -1, workers
    every, seconds = [], []
    for query, others in zip(queries, nearest, strict=True):
        params.similarityCutoff = float(np.sort(by_bits(query, others))[-K] - CLOSER)
        start = time.perf_counter()
        hits = space.FingerprintSearch(Chem.MolFromSmiles(query), generator, params).GetHitMolecules()
        seconds.append(time.perf_counter() - start)
        smiles = list(dict.fromkeys(Chem.MolToSmiles(hit) for hit in hits))
        best = np.argsort(-by_bits(query, smiles), kind="stable")[:K]
        every.append([smiles[i] for i in best.tolist()])
    return every, {"ready_s": ready, "query_s": float(np.median(seconds)), "all_s": ready + sum(seconds)}


def by_daskrf(
    path: Path, queries: list[str], workers: int, folder: Path
) -> tuple[list[list[str]], dict[str, float]]:
    """Return the 100 nearest products of each query, and seconds for all, workers included."""
    start = time.perf_counter()
    with local_cluster(n_workers=workers, dashboard=False) as client:
        search(path, folder / f"{path.stem}.csv", similar_to=queries, k=K, client=client)
    seconds = time.perf_counter() - start
    hits = pc.read_csv(folder / f"{path.stem}.csv")
    of, smiles = hits["query"].to_pylist(), hits["smiles"].to_pylist()
    nearest = [[s for s, q in zip(smiles, of, strict=True) if q == query] for query in queries]
    return nearest, {"all_s": seconds}


def recall(space: CutSpace, nearest: dict[str, list[list[str]]], queries: list[str]) -> dict[str, float]:
    """Return the mean share of the 100 nearest products that each search found."""
    grids = np.meshgrid(*(np.unique(slot.synthon) for slot in space.entries[0]), indexing="ij")
    smiles = sorted(set(space.product_smiles(np.column_stack([grid.ravel() for grid in grids]))))
    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2)
    every = [generator.GetSparseCountFingerprint(molecule) for molecule in molecules]
    shares: dict[str, list[float]] = {name: [] for name in nearest}
    for place, query in enumerate(queries):
        counts = generator.GetSparseCountFingerprint(Chem.MolFromSmiles(query))
        truths = {
            "daskrf": np.array(DataStructs.BulkTanimotoSimilarity(counts, every)),
            "RDKit": by_bits(query, smiles),
        }
        for name, hits in nearest.items():
            values = dict(zip(smiles, truths[name].tolist(), strict=True))
            last = sorted(values.values())[-K]
            shares[name].append(sum(values[hit] >= last - 1e-12 for hit in set(hits[place])) / K)
    return {name: float(np.mean(share)) for name, share in shares.items()}


def main() -> None:
    """Print seconds and recalls."""
    arguments = parser(__doc__)
    arguments.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    arguments.add_argument("--every", type=int, default=1)
    arguments.add_argument("--queries", type=int, default=10)
    arguments.add_argument("--workers", type=int, default=2)
    options = arguments.parse_args()
    print_header(options.seed)
    random = np.random.default_rng(options.seed)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in options.parts:
            space = synthons(folder / part, options.every if part == "time" else LISTED)
            path = written(space, folder / f"{part}.tsv")
            chosen = [random.choice(slot.synthon, options.queries) for slot in space.entries[0]]
            queries = space.product_smiles(np.column_stack(chosen))
            ours, our_seconds = by_daskrf(path, queries, options.workers, folder)
            theirs, their_seconds = by_rdkit(path, queries, ours, options.workers)
            size = int(np.prod([len(np.unique(slot.synthon)) for slot in space.entries[0]], dtype=np.int64))
            rows = [
                {"part": part, "products": size, "search": "daskrf", **our_seconds},
                {"part": part, "products": size, "search": "RDKit", **their_seconds},
            ]
            if part == "recall":
                shares = recall(space, {"daskrf": ours, "RDKit": theirs}, queries)
                for row in rows:
                    row["recall"] = shares[str(row["search"])]
            results[part] = rows
            print(table(rows, FORMATS))
    settings = {name: getattr(options, name) for name in ("parts", "every", "queries", "workers")}
    write_results(options.output, "space_search", seed=options.seed, settings=settings, results=results)


if __name__ == "__main__":
    main()
