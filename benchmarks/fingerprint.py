"""Rate of fingerprinting beside a plain loop over RDKit, and what threads and processes add.

The plain loop, for each SMILES: ``generator.GetSparseCountFingerprint(Chem.MolFromSmiles(smiles))
.GetNonzeroElements()``, kept in a list. It makes no matrix, no rejects and no check; daskrf does all these,
and reads most molecules without RDKit. The ring systems of the molecules are known to it beforehand.
Both run in turn, timed by the CPU time of this process and of the helper in which RDKit works for daskrf, so
that other work on the machine does not matter much; each ratio is the median of the ratios of the rounds.
Files are timed so too, threads and processes by the wall clock: leave the machine to them.

    python benchmarks/fingerprint.py [FILE.smi] [--molecules 5000] [--rounds 7]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from common import processor_time
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.isolation import end_idle
from daskrf.tables import read_partition, sample_rows, scan

SPECS = {
    "default": FingerprintSpec(),
    "Morgan radius 1": FingerprintSpec(radius=1),
    "Morgan radius 2": FingerprintSpec(radius=2),
    "atom pairs": FingerprintSpec("atompair"),
    "torsions": FingerprintSpec("torsion"),
    "RDKit paths": FingerprintSpec("rdkit"),
    "r. 1 + torsions": FingerprintSpec(["morgan:1", "torsion"]),
}


def plain_generator(spec: FingerprintSpec) -> object:
    """Return RDKit's generator for the plain loop."""
    if spec.kind == "morgan":
        invariants = rdFingerprintGenerator.GetMorganFeatureAtomInvGen() if spec.features else None
        return rdFingerprintGenerator.GetMorganGenerator(
            radius=spec.radius, atomInvariantsGenerator=invariants
        )
    if spec.family == "atompair":
        return rdFingerprintGenerator.GetAtomPairGenerator(maxDistance=spec.distance)
    if spec.kind == "torsion":
        return rdFingerprintGenerator.GetTopologicalTorsionGenerator()
    return rdFingerprintGenerator.GetRDKitFPGenerator(numBitsPerFeature=1)


def plain_loop(smiles: list[str], generators: list[Any]) -> list[dict[int, int]]:
    """Return the counts of each molecule, as most scripts make them."""
    found = []
    for text in smiles:
        molecule = Chem.MolFromSmiles(text)
        found += [each.GetSparseCountFingerprint(molecule).GetNonzeroElements() for each in generators]
    return found


def seconds(function: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long one call takes."""
    start = clock()
    function()
    return clock() - start


def compare(name: str, spec: FingerprintSpec, smiles: list[str], rounds: int) -> None:
    """Print the rates of both, and their ratio."""
    generators, fingerprinter = [plain_generator(kind) for kind in spec.kinds], Fingerprinter(spec)
    fingerprinter.prepare(smiles)
    plain: list[float] = []
    ours: list[float] = []
    for k in range(rounds):
        tasks = [(plain, lambda: plain_loop(smiles, generators)), (ours, lambda: fingerprinter(smiles))]
        for times, task in tasks if k % 2 else reversed(tasks):
            end_idle()  # a helper remembers its latest answers
            fingerprinter(["[Fe]"])  # starts another: the engine leaves metals to RDKit
            times.append(seconds(task, processor_time))
    ratio = statistics.median(a / b for a, b in zip(plain, ours, strict=True))
    rates = [len(smiles) / statistics.median(times) for times in (plain, ours)]
    print(f"{name:16s} plain loop {rates[0]:7,.0f}/s   daskrf {rates[1]:7,.0f}/s   ratio {ratio:.2f}")


def count_features(smiles: list[str]) -> int:
    """Fingerprint `smiles`; return little, so that a process has little to send back."""
    return int(Fingerprinter()(smiles).fingerprints.nnz)


def run_in(executor: Executor, smiles: list[str], workers: int) -> None:
    """Fingerprint `smiles` on `workers` threads or processes."""
    parts = [smiles[k::workers] for k in range(workers)]
    for _ in executor.map(count_features, parts):
        pass


def compare_workers(smiles: list[str], workers: int, rounds: int) -> None:
    """Print what threads and processes add to one thread; each has a helper, where RDKit holds the GIL."""
    alone: list[float] = []
    threads: list[float] = []
    processes: list[float] = []
    with ThreadPoolExecutor(workers) as pool, ProcessPoolExecutor(workers) as others:
        run_in(others, smiles[: 10 * workers], workers)
        for _ in range(rounds):
            alone.append(seconds(lambda: count_features(smiles)))
            threads.append(seconds(lambda: run_in(pool, smiles, workers)))
            processes.append(seconds(lambda: run_in(others, smiles, workers)))
    for name, times in ((f"{workers} threads", threads), (f"{workers} processes", processes)):
        ratio = statistics.median(a / b for a, b in zip(alone, times, strict=True))
        print(f"{name:16s} {ratio:.2f} times one thread")


def show_lock() -> None:
    """Print whether another thread gets anything done while RDKit parses one long SMILES."""
    steps = 0
    stop = threading.Event()

    def count_steps() -> None:
        nonlocal steps
        while not stop.is_set():
            steps += 1
            time.sleep(0)

    other = threading.Thread(target=count_steps)
    other.start()
    before = steps
    parsing = seconds(lambda: Chem.MolFromSmiles("C" * 100_000))
    during, before = steps - before, steps
    time.sleep(parsing)
    free = steps - before
    stop.set()
    other.join()
    print(f"another thread makes {during:,} steps in {parsing:.2f} s of parsing, {free:,} in as long a sleep")


def measure_reading(smiles: list[str], rows: int) -> None:
    """Print how fast a file is scanned and read."""
    with tempfile.TemporaryDirectory() as folder:
        for ending, delimiter in ((".smi", "\t"), (".csv", ",")):
            path = Path(folder, "library" + ending)
            with path.open("w") as file:
                for k in range(rows):
                    file.write(f"{smiles[k % len(smiles)]}{delimiter}ID{k:012d}\n")
            scanning = seconds(lambda path=path: scan(path), processor_time)  # type: ignore[misc]
            library = scan(path)
            reading = seconds(
                lambda library=library: [  # type: ignore[misc]
                    None for p in range(len(library.partitions)) for _ in read_partition(library, p)
                ],
                processor_time,
            )
            print(f"{ending:5s} scan {rows / scanning:12,.0f} rows/s   read {rows / reading:12,.0f} rows/s")


def main() -> None:
    """Parse the arguments and print every figure."""
    folder = os.environ.get("DASKRF_DATA", "../shared/data")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=Path(folder, "guacamol_10k.smiles"))
    parser.add_argument("--molecules", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the files for the reading rates")
    options = parser.parse_args()
    if not options.file.exists():
        sys.exit(f"{options.file} does not exist; name a file of SMILES, or set DASKRF_DATA")
    batches = sample_rows(scan(options.file), options.molecules)
    smiles = [text for batch in batches for text in batch.smiles if Chem.MolFromSmiles(text) is not None]
    for name, spec in SPECS.items():
        compare(name, spec, smiles, options.rounds)
    show_lock()
    compare_workers(smiles, options.workers, options.rounds)
    measure_reading(smiles, options.rows)


if __name__ == "__main__":
    main()
