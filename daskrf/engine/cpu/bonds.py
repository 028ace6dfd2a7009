"""Features of each bond of molecules read from SMILES: chains of atoms about it, or its two sides."""

from __future__ import annotations

from daskrf.engine import Molecules, Rows
from daskrf.engine.cpu.counting import torsion_counts
from daskrf.engine.cpu.substituents import substituent_counts


def bond_counts(molecules: Molecules, kind: str, *, size: int) -> Rows:
    """Count features of bonds; see `Engine`."""
    counts = {"torsion": torsion_counts, "substituents": substituent_counts}
    return counts[kind](molecules, size=size)
