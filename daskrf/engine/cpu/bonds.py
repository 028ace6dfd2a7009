"""Features of each bond of molecules read from SMILES: chains of atoms about it, its sides, or all atoms."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from daskrf.engine import Molecules, Rows
from daskrf.engine.cpu.counting import torsion_counts
from daskrf.engine.cpu.substituents import position_counts, substituent_counts


def bond_counts(
    molecules: Molecules, kind: str, *, size: int, blocks: npt.NDArray[Any] | None = None
) -> Rows:
    """Count features of bonds; see `Engine`."""
    if blocks is not None:
        return position_counts(molecules, blocks, size=size)
    counts = {"torsion": torsion_counts, "substituents": substituent_counts}
    return counts[kind](molecules, size=size)
