"""SMILES to folded Morgan bits: daskrf beside RDKit's plain loop and other packages, in one run, on one core.

Each makes Morgan bits of radius 2 in 2,048 columns of the same molecules, in the form that it is used in:
RDKit and NumPy as most scripts do it (`GetFingerprintAsNumPy`), `skfp.fingerprints.ECFPFingerprint` (sparse),
and FPSim2's `load_molecule` and `build_fp`, which fill its files, with and without sanitization. All run in
turn; seconds are CPU seconds of the process and of the helper in which RDKit works for daskrf. "other" counts
the molecules whose bits are not those of RDKit. The molecules come as in the file, and as Kekule forms, which
some toolkits write.

    pip install fpsim2 scikit-fingerprints
    python benchmarks/readers.py [FILE.smi] [--molecules 5000] [--rounds 5]

Packages that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import parser, print_header, table, write_results
from fingerprint import processor_time, seconds
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.isolation import end_idle
from daskrf.tables import sample_rows, scan

RADIUS, SIZE = 2, 2048
Reader = Callable[[list[str]], Any]


def rdkit_reader() -> Reader:
    """Return what most scripts do: parse, fingerprint, and stack arrays."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=SIZE)

    def read(smiles: list[str]) -> Any:
        return np.array([generator.GetFingerprintAsNumPy(Chem.MolFromSmiles(text)) for text in smiles])

    return read


def skfp_reader() -> Reader:
    """Return scikit-fingerprints' transformer of SMILES."""
    fingerprints = importlib.import_module("skfp.fingerprints")
    return fingerprints.ECFPFingerprint(fp_size=SIZE, radius=RADIUS, sparse=True).transform  # type: ignore[no-any-return]


def fpsim2_reader(sanitized: bool) -> Reader:
    """Return the rows that FPSim2 writes to its files: 64 bits a number."""
    chem = importlib.import_module("FPSim2.io.chem")
    given = chem.FP_FUNC_DEFAULTS["Morgan"] | {"radius": RADIUS, "fpSize": SIZE}

    def read(smiles: list[str]) -> Any:
        rows = []
        for number, text in enumerate(smiles):
            molecule = chem.load_molecule(text, full_sanitization=sanitized)
            rows.append(chem.build_fp(molecule, "Morgan", given, number)[1:-1])
        return rows

    return read


def daskrf_reader() -> Reader:
    """Return daskrf's rows, without RDKit where it can."""
    count = Fingerprinter(FingerprintSpec(radius=RADIUS, counts=False, size=SIZE))

    def read(smiles: list[str]) -> Any:
        return count(smiles).fingerprints

    return read


READERS: dict[str, Callable[[], Reader]] = {
    "RDKit, NumPy": rdkit_reader,
    "scikit-fingerprints": skfp_reader,
    "FPSim2": lambda: fpsim2_reader(sanitized=True),
    "FPSim2, not sanitized": lambda: fpsim2_reader(sanitized=False),
    "daskrf": daskrf_reader,
}


def dense(rows: Any) -> Any:
    """Return bits as bytes of 0 and 1, shape (n, SIZE), from each reader's form."""
    if sp.issparse(rows):
        return (rows.toarray() > 0).astype(np.uint8)
    if isinstance(rows, list):  # FPSim2: the first bit is the highest of the first number
        words = np.array(rows, np.uint64).astype(">u8").view(np.uint8)
        return np.unpackbits(words.reshape(len(rows), -1), axis=1)
    return np.asarray(rows).astype(np.uint8)


def compare_readers(smiles: list[str], rounds: int) -> list[dict[str, Any]]:
    """Time all readers in turn; return a row for each."""
    readers: dict[str, Reader] = {}
    for name, make in READERS.items():
        try:
            readers[name] = make()
        except ImportError as error:
            print(f"left out: {name} ({error})")
    Fingerprinter(FingerprintSpec(radius=RADIUS, counts=False, size=SIZE)).prepare(smiles)
    expected = dense(readers["RDKit, NumPy"](smiles))
    differ = {name: (dense(read(smiles)) != expected).any(axis=1) for name, read in readers.items()}
    times: dict[str, list[float]] = {name: [] for name in readers}
    for number in range(rounds):
        for name in list(readers)[:: 1 if number % 2 else -1]:
            end_idle()  # a helper remembers its latest answers
            Fingerprinter(FingerprintSpec(radius=RADIUS))(["[Fe]"])  # starts another
            times[name].append(seconds(lambda name=name: readers[name](smiles), processor_time))  # type: ignore[misc]
    base = times["RDKit, NumPy"]
    return [
        {
            "reader": name,
            "molecules/s": len(smiles) / statistics.median(own),
            "of RDKit's rate": statistics.median(a / b for a, b in zip(base, own, strict=True)),
            "other": int(differ[name].sum()),
        }
        for name, own in times.items()
    ]


def kekule(text: str) -> str:
    """Return a SMILES with alternating bonds in place of aromatic ones."""
    molecule = Chem.MolFromSmiles(text)
    Chem.Kekulize(molecule, clearAromaticFlags=True)
    return str(Chem.MolToSmiles(molecule, kekuleSmiles=True))


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    folder = os.environ.get("DASKRF_DATA", "../shared/data")
    found = parser(__doc__)
    found.add_argument("file", nargs="?", type=Path, default=Path(folder, "guacamol_10k.smiles"))
    found.add_argument("--molecules", type=int, default=5_000, help="(%(default)s)")
    found.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    return found


def main(argv: list[str] | None = None) -> None:
    """Print and write the tables."""
    options = arguments().parse_args(argv)
    if not options.file.exists():
        sys.exit(f"{options.file} does not exist; name a file of SMILES, or set DASKRF_DATA")
    print_header(options.seed)
    packages = ("FPSim2", "scikit-fingerprints")
    versions = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    print("peers:    " + ", ".join(f"{name} {number}" for name, number in versions.items()))
    batches = sample_rows(scan(options.file), options.molecules)
    smiles = [text for batch in batches for text in batch.smiles if Chem.MolFromSmiles(text) is not None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        readers = {
            "as in the file": compare_readers(smiles, options.rounds),
            "Kekule forms": compare_readers([kekule(text) for text in smiles], options.rounds),
        }
    print(f"\n{len(smiles):,} molecules, Morgan bits of radius {RADIUS} in {SIZE:,} columns, one core")
    for form, rows in readers.items():
        print(f"\n{form}")
        print(table(rows, {"reader": "", "molecules/s": ",.0f", "of RDKit's rate": ".2f", "other": ",d"}))
    settings = {"molecules": len(smiles), "rounds": options.rounds, "peers": versions}
    write_results(options.output, "readers", seed=options.seed, settings=settings, results=readers)


if __name__ == "__main__":
    main()
