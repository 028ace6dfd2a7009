"""Features of bonds of molecules read from SMILES: chains of atoms about them, their sides, or all atoms."""

from __future__ import annotations

from collections.abc import Sequence

from daskrf.engine import BondKind, Molecules, Rows
from daskrf.engine.cpu.counting import torsion_counts
from daskrf.engine.cpu.substituents import side_counts, sides


def bond_counts(molecules: Molecules, kinds: Sequence[BondKind]) -> list[Rows]:
    """Count features of bonds; see `Engine`."""
    of_sides = sides(molecules) if any(kind.name != "torsion" for kind in kinds) else None
    return [
        torsion_counts(molecules, size=kind.size)
        if of_sides is None or kind.name == "torsion"
        else side_counts(molecules, kind, of_sides)
        for kind in kinds
    ]
