"""Make-on-demand spaces: the exact top of all products of 13 reactions of a real space.

A process on Fourier features (Morgan counts, radius 1, Gaussian kernel) of 40,000 docking scores ranks all
pairs of the 12 two-component reactions by `daskrf screen`, everything included: cutting blocks, tables of
counts, search, SMILES and standard deviations of the hits. "default": the same by a default model, an exact
process of --labels scores, with its rough ranking and its shortlist. Of the three-component reaction, a part
of the pieces is searched and the whole extrapolated. "means": means of random products of each reaction, as
the search finds them, beside predictions from their SMILES. "brute": the hits of a sub-space of some 10^8
pairs, of each sixth block, beside the best of a plain formula that scores every product. "composed": the rate
at which fingerprints of random products are added up from those of their synthons, beside RDKit's.

    python benchmarks/space.py [--components 1024] [--radius 1]
                               [--parts pairs default triples means brute composed]
                               [--workers 2] [--every 1] [--share 0.01] [--labels 10000]

``--every 10`` takes each tenth block; "brute" and "composed" take each sixth one or fewer. CPU seconds count
all processes.
"""

from __future__ import annotations

import csv
import gzip
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import data_folder, parser, peak_gib, print_header, write_results
from benchmarks.everyproduct import best_of_every_product, compared
from benchmarks.fingerprint import plain_generator, plain_loop
from daskrf import FingerprintSpec, Gaussian, RandomFourierFeatures, fingerprint, fit, screen
from daskrf.files.backend import as_path
from daskrf.models.models import feature_map_of, read_model
from daskrf.molecules import Fingerprinter
from daskrf.screening import TopK
from daskrf.screens.space.search import Chosen
from daskrf.spaces import cut, read_space
from daskrf.spaces.families import families
from daskrf.spaces.ranking import Search, amplitudes, balanced_basis, pieces_of, score_piece
from daskrf.spaces.spacetables import Space

TRIPLES = "275592"
PARTS = ("pairs", "default", "triples", "means", "brute", "composed")
LENGTH_SCALE = {1: 16.0, 2: 25.0}


def sub_space(folder: Path, every: int, *, triples: bool) -> Path:
    """Write a space of the two-component reactions, or of the three-component one, with some blocks."""
    source = data_folder() / "real_space"
    folder.mkdir(parents=True)
    (folder / "blocks.csv.gz").write_bytes((source / "blocks.csv.gz").read_bytes())
    header, *lines = (source / "reactions.tsv").read_text().splitlines()
    kept = [line for line in lines if line.startswith(TRIPLES) == triples]
    (folder / "reactions.tsv").write_text("\n".join([header, *kept]) + "\n")
    with gzip.open(source / "slots.csv.gz", "rt") as file:
        head, *rows = csv.reader(file)
    rows = [row for row in rows if (row[0] == TRIPLES) == triples][::every]
    (folder / "slots.csv").write_text("\n".join(map(",".join, [head, *rows])) + "\n")
    return folder


def fitted(folder: Path, n_components: int, radius: int) -> Path:
    """Fit to 40,000 docking scores of Enamine50k; return the model."""
    with gzip.open(data_folder() / "Enamine50k_scores.csv.gz", "rt") as file:
        rows = [line.rsplit(",", 1) for line in file.read().splitlines()[1:]]
    order = np.random.default_rng(0).permutation(len(rows))[:40_000]
    (folder / "lib.smi").write_text("".join(f"{rows[i][0]} m{i}\n" for i in order))
    (folder / "y.csv").write_text("id,score\n" + "".join(f"m{i},{rows[i][1]}\n" for i in order))
    fingerprint(folder / "lib.smi", folder / "fp", spec=FingerprintSpec(f"morgan:{radius}"))
    feature_map = RandomFourierFeatures(Gaussian(LENGTH_SCALE[radius]), n_components=n_components)
    fit(folder / "fp", folder / "y.csv", folder / "model", feature_map=feature_map, direction="minimize")
    return folder / "model"


def pairs(folder: Path, model: Path, every: int, k: int, workers: int) -> dict[str, Any]:
    """Screen the two-component reactions by the command; return figures."""
    space = folder / "pairs"
    if not space.exists():
        sub_space(space, every, triples=False)
    command = [str(Path(sys.executable).with_name("daskrf")), "screen", str(model), str(space)]
    command += ["-o", str(folder / f"{model.name}.parquet"), "-k", str(k), "--workers", str(workers)]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stdout, done.stderr if done.returncode else "", sep="\n")
    return {
        "wall_s": time.perf_counter() - start,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_gib_of_a_process": after.ru_maxrss / 2**20,
        "exit": done.returncode,
    }


def fitted_to_few(folder: Path, n_labels: int) -> Path:
    """Fit the default model to some docking scores of Enamine50k; return it."""
    with gzip.open(data_folder() / "Enamine50k_scores.csv.gz", "rt") as file:
        header, *rows = file.read().splitlines()
    order = np.random.default_rng(0).permutation(len(rows))[:n_labels]
    (folder / "few.csv").write_text("\n".join([header, *(rows[i] for i in order)]) + "\n")
    fit(folder / "few.csv", output=folder / "default", direction="minimize")
    return folder / "default"


def triples(folder: Path, model: Path, every: int, share: float, k: int) -> dict[str, Any]:
    """Search a part of the three-component reaction; return figures, and the whole extrapolated."""
    found = read_model(as_path(model))
    gp: Any = found.gp
    spec = FingerprintSpec.from_state(found.metadata["fingerprint"])
    clock = Clock()
    space = cut(read_space(sub_space(folder / "triples", every, triples=True)), spec)
    cutting = clock.lap()
    (family,) = families(space)
    tables = clock.lap()
    feature_map: Any = feature_map_of(found)
    pieces = pieces_of([family], feature_map.n_components)
    chosen = pieces[:: max(1, round(1 / share))]
    top, beta, done = TopK(k), amplitudes(-gp.weights_[:, 0]), 0
    clock.lap()
    basis = balanced_basis(family, space.own, feature_map, beta)
    making = clock.lap()
    for piece in chosen:
        best = Chosen(family, top)
        score_piece(piece, family, space.own, feature_map, [], [Search(beta, best, basis)])
        top, done = best.top(), done + piece.size
    search = clock.lap()
    total = space.sizes[0]
    return {
        "cut": cutting,
        "tables": tables,
        "basis": making,
        "search": search,
        "products": done,
        "of": total,
        "products_a_cpu_s": done / search["cpu_s"],
        "extrapolated_cpu_h": search["cpu_s"] * total / done / 3600,
        "peak_gib": peak_gib(),
    }


class Clock:
    """Wall and CPU seconds since the last look."""

    def __init__(self) -> None:
        self._last = self._now()

    def _now(self) -> tuple[float, float]:
        own, others = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return time.perf_counter(), own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime

    def lap(self) -> dict[str, float]:
        """Return the seconds, and start again. Children count when they have ended."""
        last, self._last = self._last, self._now()
        return {"wall_s": self._last[0] - last[0], "cpu_s": self._last[1] - last[1]}


def means(folder: Path, model: Path, every: int, n: int) -> dict[str, Any]:
    """Compare means of random products, as sums over synthons, with those of their SMILES."""
    found = read_model(as_path(model))
    gp, feature_map = found.gp, feature_map_of(found)
    spec = FingerprintSpec.from_state(found.metadata["fingerprint"])
    random, worst, rates = np.random.default_rng(0), 0.0, []
    for which in (False, True):
        read: Space = read_space(sub_space(folder / f"means-{which}", every, triples=which))
        space = cut(read, spec)
        for entries in space.entries:
            rows = np.column_stack(
                [own.synthon[random.integers(len(own.synthon), size=n)] for own in entries]
            )
            start = time.process_time()
            composed = space.fingerprints(rows)
            rates.append(n / (time.process_time() - start))
            smiles = Fingerprinter(spec)(space.product_smiles(rows)).fingerprints
            one, other = (gp.predict(feature_map.transform(x)).ravel() for x in (composed, smiles))
            worst = max(worst, float(np.abs(one - other).max() / np.ptp(other)))
    return {
        "products_a_reaction": n,
        "largest_error_of_the_spread": worst,
        "composed_a_cpu_s": float(np.median(rates)),
    }


def brute(space: Path, model: Path, k: int, output: Path) -> dict[str, Any]:
    """Screen a space, and score each of its products by a plain formula; return whether the hits agree."""
    found = read_model(as_path(model))
    sign = 1.0 if "maximize" in found.directions.values() else -1.0
    products = cut(read_space(space), FingerprintSpec.from_state(found.metadata["fingerprint"]))
    clock = Clock()
    best = best_of_every_product(products, found.gp, feature_map_of(found), sign, 8 * k)
    seconds = clock.lap()["cpu_s"]
    screen(model, space, output, k=k)
    hits = pq.read_table(output)
    score = sign * hits["mean"].to_numpy()
    return {
        "products": best.products,
        "cpu_s": seconds,
        "largest_error_of_the_formula": best.error,
        **compared(hits["smiles"].to_pylist(), score, best, 1e-6 * float(np.ptp(found.metadata["range"][0]))),
    }


def composed(space: Path, spec: FingerprintSpec, n: int, n_rdkit: int, rounds: int) -> dict[str, Any]:
    """Add up fingerprints of random products, and have RDKit make some of them; return both rates."""
    clock = Clock()
    products = cut(read_space(space), spec)
    family = max(families(products), key=lambda family: family.size)
    before = clock.lap()
    random, generators = np.random.default_rng(0), [plain_generator(spec)]
    rates: dict[str, list[float]] = {"composed": [], "rdkit": [], "ratio": []}
    family.fingerprints(products.own, [np.zeros(1, np.int64) for _ in family.shape])
    for _ in range(rounds):
        rows = [random.integers(size, size=n) for size in family.shape]
        smiles = products.product_smiles(
            np.column_stack([s.synthon[r[:n_rdkit]] for s, r in zip(family.sides, rows, strict=True)])
        )
        clock.lap()
        summed = family.fingerprints(products.own, rows)
        rates["composed"].append(n / clock.lap()["cpu_s"])
        counts = plain_loop(smiles, generators)
        rates["rdkit"].append(len(smiles) / clock.lap()["cpu_s"])
        rates["ratio"].append(rates["composed"][-1] / rates["rdkit"][-1])
        for i, own in enumerate(counts):
            row = summed[i]
            if spec.size == 0 and dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) != own:
                raise SystemExit(f"The counts of {smiles[i]} differ from RDKit's.")
    return {
        "fingerprints": n * rounds,
        "counts_a_fingerprint": summed.nnz / n,
        "cut_and_tables_cpu_s": before["cpu_s"],
        **{f"{name}_a_cpu_s": float(np.median(found)) for name, found in list(rates.items())[:2]},
        "ratio": float(np.median(rates["ratio"])),
        "ratios": rates["ratio"],
    }


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--components", type=int, default=1024)
    arguments.add_argument("--radius", type=int, default=1, choices=[1, 2])
    arguments.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    arguments.add_argument("--labels", type=int, default=10_000)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--every", type=int, default=1)
    arguments.add_argument("--share", type=float, default=0.01)
    arguments.add_argument("--products", type=int, default=1_000_000, help="of each repeat of composed")
    arguments.add_argument("-k", type=int, default=1000)
    given = arguments.parse_args()
    print_header(given.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = fitted(folder, given.components, given.radius)
        results: dict[str, Any] = {}
        if "pairs" in given.parts:
            results["pairs"] = pairs(folder, model, given.every, given.k, given.workers)
        if "default" in given.parts:
            few = fitted_to_few(folder, given.labels)
            results["default"] = pairs(folder, few, given.every, given.k, given.workers)
        if "triples" in given.parts:
            results["triples"] = triples(folder, model, given.every, given.share, given.k)
        if "means" in given.parts:
            results["means"] = means(folder, model, max(given.every, 20), 10_000)
        if {"brute", "composed"} & set(given.parts):
            sixth = sub_space(folder / "sixth", max(given.every, 6), triples=False)
        if "brute" in given.parts:
            results["brute"] = brute(sixth, model, given.k, folder / "brute.parquet")
        if "composed" in given.parts:
            spec = FingerprintSpec(f"morgan:{given.radius}")
            results["composed"] = composed(sixth, spec, given.products, 2000, 5)
    for part, figures in results.items():
        print(part, *(f"  {key}: {value}" for key, value in figures.items()), sep="\n")
    settings = {name: value for name, value in vars(given).items() if name not in ("output", "seed")}
    write_results(given.output, "space", seed=given.seed, settings=settings, results=results, keep=True)


if __name__ == "__main__":
    main()
