"""Counts of molecules read from the bytes of their SMILES by the engine, which RDKit would count alike.

The engine reads what it knows for certain, and leaves the rest to RDKit, so that no count and no reject
depends on who has read a molecule.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from daskrf.engine import DONE, UNKNOWN, BondKind, Molecules, Rows, engine
from daskrf.molecules.counts.features import Features, joined
from daskrf.molecules.counts.ringsystems import RingSystems
from daskrf.molecules.counts.spec import FingerprintSpec
from daskrf.quantities import POSITIONS, SUBSTITUENTS

MOST_RADIUS = 3
"""Of Morgan environments that the engine counts."""

Integers = npt.NDArray[np.int64]

_AT_ONCE = 5_000  # SMILES: few enough that buffers stay in the cache, many enough to ask RDKit seldom
_ROUNDS = 4  # of reading with a growing table; what is unknown after the last one is left to RDKit
_LINE = 10
_OF_BONDS = "torsion", SUBSTITUENTS, POSITIONS


def is_read(spec: FingerprintSpec) -> bool:
    """Return whether the engine counts all kinds of a specification.

    Examples
    --------
    >>> is_read(FingerprintSpec()), is_read(FingerprintSpec(["morgan:1", "lingo"]))
    (True, False)
    """
    return all(
        not kind.chirality
        and (
            kind.family in ("atompair", "torsion", SUBSTITUENTS, POSITIONS)
            or (kind.family == "morgan" and kind.radius <= MOST_RADIUS)
        )
        for kind in spec.kinds
    )


def read(smiles: Sequence[str], spec: FingerprintSpec, *, dots: bool) -> tuple[Integers, list[Features]]:
    """Count the features of the SMILES that the engine reads.

    Parameters
    ----------
    smiles : sequence of str
    spec : FingerprintSpec
        Of kinds that the engine counts, see `is_read`.
    dots : bool
        Whether SMILES of several fragments are read.

    Returns
    -------
    int64 array and list of Features
        Positions of the SMILES that were read, in any order, and their features of each kind.

    Examples
    --------
    >>> spec = FingerprintSpec("morgan")
    >>> positions, ((pointer, identifiers, counts),) = read(["CCO", "CC)"], spec, dots=True)
    >>> positions.tolist(), pointer.tolist(), counts.tolist()
    ([0], [0, 6], [1, 1, 1, 1, 1, 1])
    """
    parts = [
        (start + positions, kinds)
        for start in range(0, len(smiles), _AT_ONCE)
        for positions, kinds in _parts(smiles[start : start + _AT_ONCE], spec, dots, _ROUNDS)
    ]
    positions = np.concatenate([np.zeros(0, np.int64), *(positions for positions, _ in parts)])
    return positions, [joined([kinds[i] for _, kinds in parts]) for i in range(len(spec.kinds))]


def _parts(
    smiles: Sequence[str], spec: FingerprintSpec, dots: bool, rounds: int
) -> Iterator[tuple[Integers, list[Features]]]:
    """Yield positions and features of what is read at once, and of what is read when the table knows more."""
    text = np.frombuffer("\n".join(smiles).encode("ascii", "replace") + b"\n", np.uint8)
    ends = np.flatnonzero(text == _LINE)
    if len(ends) != len(smiles):  # a text of several lines is no SMILES
        return
    stops = np.concatenate([[0], ends - np.arange(len(ends))])
    systems = _systems()
    readings = engine().read_smiles(text[text != _LINE], stops, systems.table, dots=dots)
    done = readings.status == DONE
    yield np.flatnonzero(done), _counted(readings.molecules, spec.kinds, done)
    if readings.unknown and rounds:
        systems.learn(readings.unknown)
        again = np.flatnonzero(readings.status == UNKNOWN)
        for positions, kinds in _parts([smiles[i] for i in again.tolist()], spec, dots, rounds - 1):
            yield again[positions], kinds


def _counted(
    molecules: Molecules, kinds: Sequence[FingerprintSpec], done: npt.NDArray[np.bool_]
) -> list[Features]:
    """Return the features of each kind of the molecules that were read; those not `done` are empty."""
    of_bonds = [kind for kind in kinds if kind.family in _OF_BONDS]
    several = [
        BondKind(kind.family, kind.size, np.array(kind.blocks, np.uint32) if kind.blocks else None)
        for kind in of_bonds
    ]
    rows = iter(engine().bond_counts(molecules, several))
    return [
        _features(next(rows) if kind.family in _OF_BONDS else _atom_counts(molecules, kind), kind, done)
        for kind in kinds
    ]


def _atom_counts(molecules: Molecules, kind: FingerprintSpec) -> Rows:
    if kind.family == "atompair":
        return engine().pair_counts(molecules, kind.distance, size=kind.size)
    return engine().environment_counts(molecules, kind.radius, classes=kind.features, size=kind.size)


def _features(rows: Rows, kind: FingerprintSpec, done: npt.NDArray[np.bool_]) -> Features:
    pointer = np.concatenate([[0], rows.pointer[1:][done]])
    values = rows.values.astype(np.int64, copy=False)
    counts = values if kind.counts else np.minimum(values, 1)
    return pointer, rows.columns.astype(np.uint64), counts


@functools.cache
def _systems() -> RingSystems:
    """Return the ring systems that this process knows."""
    return RingSystems()
