"""Reads lines of any kind with numba's check of every index; run as a program by `test_reading`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np

from daskrf.engine import BondKind, engine
from tests.molecules.invented import ring_system, sentence
from tests.molecules.mutants import garbage, mutant


def main(folder: str, n: int) -> None:
    draw = random.Random(1)
    real = (Path(folder) / "guacamol_10k.smiles").read_text().split()
    lines = [mutant(draw, real).encode("utf-8", "replace") for _ in range(n)]
    lines += [garbage(draw) for _ in range(n)]
    lines += [text.encode() for text in real[: n // 4]]
    lines += [invent(draw).encode() for invent in (sentence, ring_system) for _ in range(n // 20)]
    text = np.frombuffer(b"".join(lines), np.uint8)
    stops = np.concatenate([[0], np.cumsum([len(line) for line in lines])])
    entries: dict[bytes, bytes] = {}
    for _ in range(3):
        readings = engine().read_smiles(text, stops, engine().ring_table(entries), dots=True)
        for classes in (False, True):
            engine().environment_counts(readings.molecules, 3, classes=classes, size=0)
        engine().pair_counts(readings.molecules, 30, size=7)
        methyl_and_phenyl = np.array([0x1F5F19E2, 0x9DEB0387], np.uint32)
        kinds = [BondKind("torsion", 0), BondKind("substituents", 0)]
        engine().bond_counts(readings.molecules, [*kinds, BondKind("positions", 0, methyl_and_phenyl)])
        for number, key in enumerate(sorted(readings.unknown)):
            n_atoms = key[0]
            n_bonds = (len(key) - 1 - 4 * n_atoms) // 3
            entries[key] = bytes([number % 5 == 0, *[129] * n_atoms, *[12] * n_bonds])
    print("read", np.bincount(readings.status).tolist(), len(entries))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
