"""Counts of molecules read from the bytes of their SMILES by the engine, which RDKit would count alike.

The engine reads what it knows for certain, and leaves the rest to RDKit, so that no count and no reject
depends on who has read a molecule.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from daskrf.engine import DONE, Molecules, Rows, engine
from daskrf.molecules.counts.lingo import Features
from daskrf.molecules.counts.ringsystems import RingSystems
from daskrf.molecules.counts.spec import FingerprintSpec

MOST_RADIUS = 3
"""Of Morgan environments that the engine counts."""

Integers = npt.NDArray[np.int64]

NOTHING: Features = (np.zeros(1, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.int64))
"""The features of no molecules."""

_AT_ONCE = 2_000  # SMILES, for buffers that stay in the cache
_ROUNDS = 4  # of reading with a growing table; what is unknown after the last one is left to RDKit
_LINE = 10


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
            kind.family in ("atompair", "torsion") or (kind.family == "morgan" and kind.radius <= MOST_RADIUS)
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
        Positions of the SMILES that were read, and their features of each kind.

    Examples
    --------
    >>> spec = FingerprintSpec("morgan")
    >>> positions, ((pointer, identifiers, counts),) = read(["CCO", "CC)"], spec, dots=True)
    >>> positions.tolist(), pointer.tolist(), counts.tolist()
    ([0], [0, 6], [1, 1, 1, 1, 1, 1])
    """
    positions, features = [], []
    for start in range(0, len(smiles), _AT_ONCE):
        places, kinds = _read_some(smiles[start : start + _AT_ONCE], spec, dots=dots)
        positions.append(places + start)
        features.append(kinds)
    if not positions:
        return np.zeros(0, np.int64), [NOTHING] * len(spec.kinds)
    return np.concatenate(positions), [_joined(several) for several in zip(*features, strict=True)]


def _read_some(
    smiles: Sequence[str], spec: FingerprintSpec, *, dots: bool
) -> tuple[Integers, list[Features]]:
    """Count the features of few SMILES; see `read`."""
    text = np.frombuffer("\n".join(smiles).encode("ascii", "replace") + b"\n", np.uint8)
    ends = np.flatnonzero(text == _LINE)
    if len(ends) != len(smiles):  # a text of several lines is no SMILES
        return np.zeros(0, np.int64), [NOTHING] * len(spec.kinds)
    stops = np.concatenate([[0], ends - np.arange(len(ends))])
    text = text[text != _LINE]
    systems = _systems()
    # Around a ring of three RDKit's torsions depend on the order of atoms; see `counter.in_order`.
    triangles = all(kind.family != "torsion" for kind in spec.kinds)
    readings = engine().read_smiles(text, stops, systems.table, dots=dots, triangles=triangles)
    for _ in range(_ROUNDS):
        if not readings.unknown:
            break
        systems.learn(readings.unknown)
        readings = engine().read_smiles(text, stops, systems.table, dots=dots, triangles=triangles)
    done = readings.status == DONE
    return np.flatnonzero(done), [_counted(readings.molecules, kind, done) for kind in spec.kinds]


def _joined(several: Sequence[Features]) -> Features:
    """Return the features of one batch of molecules after another."""
    if len(several) == 1:
        return several[0]
    sizes = np.concatenate([np.diff(pointer) for pointer, _, _ in several])
    identifiers = np.concatenate([identifiers for _, identifiers, _ in several])
    return (
        np.concatenate([[0], np.cumsum(sizes)]),
        identifiers,
        np.concatenate([counts for _, _, counts in several]),
    )


def _counted(molecules: Molecules, kind: FingerprintSpec, done: npt.NDArray[np.bool_]) -> Features:
    """Return the features of one kind of the molecules that were read."""
    rows: Rows
    if kind.family == "torsion":
        rows = engine().torsion_counts(molecules, size=kind.size)
    elif kind.family == "atompair":
        rows = engine().pair_counts(molecules, kind.distance, size=kind.size)
    else:
        rows = engine().environment_counts(molecules, kind.radius, classes=kind.features, size=kind.size)
    pointer = np.concatenate([[0], rows.pointer[1:][done]])  # the others are empty
    counts = rows.values if kind.counts else np.minimum(rows.values, 1)
    return pointer, rows.columns.astype(np.uint64), counts


@functools.cache
def _systems() -> RingSystems:
    """Return the ring systems that this process knows."""
    return RingSystems()
