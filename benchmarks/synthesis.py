"""Morgan fingerprints of the enumerated library without RDKit: composed from those of the building blocks.

A product of `daskrf.demo.enumeration` is a chain of two or three pieces joined by single bonds that are
in no ring. So the invariant of each atom, and the Morgan environment of radius 1 of each atom that is not at
a new bond, are those that it has in its piece. What remains is one environment on either side of each new
bond, which depends on the piece and on the invariant of the atom beyond the bond, one of a few dozen. All
of it is tabled once; a fingerprint is then a merge of two or three sorted lists, and equal to RDKit's to the
last count, which `check` verifies on a sample.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors
from scipy import sparse

from daskrf.demo.building_blocks import Synthon, load_slot
from daskrf.demo.enumeration import RECIPES, Permutation, ReactionLibrary
from daskrf.engine.cpu.jit import jit
from daskrf.molecules import Fingerprinter, FingerprintSpec

__all__ = ["Composer", "check"]

_WORD = 0xFFFFFFFF
_SINGLE = int(Chem.BondType.SINGLE)


def _combine(seed: int, value: int) -> int:
    """Mix a value into a hash, as RDKit does."""
    return (seed ^ (value + 0x9E3779B9 + ((seed << 6) & _WORD) + (seed >> 2))) & _WORD


def _environment(invariant: int, neighbours: list[tuple[int, int]]) -> int:
    """Return RDKit's identifier of the environment of radius 1 of an atom.

    `neighbours` are (type of the bond, invariant of the atom beyond it).
    """
    found = _combine(0, invariant)
    for bond, beyond in sorted(neighbours):
        found = _combine(found, _combine(_combine(0, bond), beyond))
    return found


@dataclass(frozen=True)
class _Side:
    """The atom of a piece at a new bond: its invariant, and its neighbours within the piece."""

    invariant: int
    neighbours: list[tuple[int, int]]


def _cut_open(synthon: Synthon, left: bool, right: bool) -> tuple[Counter[int], list[_Side | None]]:
    """Return the identifiers that a piece brings along, and its atoms at the left and the right bond."""
    # Isotopes tell the two dummy atoms apart; no piece has an isotope of its own.
    text = f"{'[1*]' * left}{synthon.head}{'[2*]' * right}{synthon.tail}"
    molecule = Chem.MolFromSmiles(text)
    invariants = list(rdMolDescriptors.GetConnectivityInvariants(molecule))
    ids: Counter[int] = Counter()
    sides: list[_Side | None] = [None, None]
    for atom in molecule.GetAtoms():
        if not atom.GetAtomicNum():
            continue
        invariant = invariants[atom.GetIdx()]
        ids[invariant] += 1
        beyond = [(int(b.GetBondType()), b.GetOtherAtom(atom)) for b in atom.GetBonds()]
        inside = [(bond, invariants[a.GetIdx()]) for bond, a in beyond if a.GetAtomicNum()]
        dummies = [a.GetIsotope() for _, a in beyond if not a.GetAtomicNum()]
        if not dummies:
            ids[_environment(invariant, inside)] += 1
        elif len(dummies) > 1:
            raise ValueError(f"{text}: two new bonds at one atom")
        else:
            sides[dummies[0] - 1] = _Side(invariant, inside)
    return ids, sides


@dataclass(frozen=True)
class Composer:
    """Tables from which fingerprints of any range of the library are composed; arrays alone.

    Attributes
    ----------
    seed : int
        Of the `ReactionLibrary`.
    starts : int64 array, shape (n_recipes + 1,)
        First product of each recipe before the permutation.
    shapes : int64 array, shape (n_recipes, 3)
        Blocks of each slot, 1 where there is no third slot.
    pieces : int64 array, shape (n_recipes, 3)
        Position of the first piece of each slot, -1 where there is none.
    indptr, ids, counts : arrays
        Identifiers of each piece, sorted, and how often each occurs.
    kinds : int64 array, shape (n_pieces, 2)
        Number of the invariant of the atom at the left and the right bond.
    environments : int64 array, shape (n_pieces, 2, n_kinds)
        Identifier of that atom's environment, by the kind of the atom beyond the bond.
    """

    seed: int
    starts: npt.NDArray[np.int64]
    shapes: npt.NDArray[np.int64]
    pieces: npt.NDArray[np.int64]
    indptr: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int64]
    counts: npt.NDArray[np.uint16]
    kinds: npt.NDArray[np.int64]
    environments: npt.NDArray[np.int64]

    @classmethod
    def build(cls, seed: int) -> Composer:
        """Table the pieces of all recipes by RDKit: some seconds."""
        found: dict[Any, int] = {}
        opened: list[tuple[Counter[int], list[_Side | None]]] = []
        pieces = np.full((len(RECIPES), 3), -1, dtype=np.int64)
        shapes = np.ones((len(RECIPES), 3), dtype=np.int64)
        for r, recipe in enumerate(RECIPES):
            for i, slot in enumerate(recipe.slots):
                right = i + 1 if i + 1 < len(recipe.slots) else 0
                synthons = load_slot(slot, i, right)
                if (slot, i, right) not in found:
                    found[slot, i, right] = len(opened)
                    opened += [_cut_open(s, i > 0, right > 0) for s in synthons]
                pieces[r, i], shapes[r, i] = found[slot, i, right], len(synthons)
        starts = np.cumsum([0, *shapes.prod(axis=1)])
        return cls(seed, starts, shapes, pieces, *_tabled(opened))

    def save(self, path: Path) -> None:
        """Write the tables, for processes that need not make them."""
        np.savez(path, **asdict(self))

    @classmethod
    def load(cls, path: Path | str) -> Composer:
        """Read what `save` wrote."""
        with np.load(path) as found:
            return cls(int(found["seed"]), *(found[name] for name in cls.__annotations__ if name != "seed"))

    def __call__(self, start: int, stop: int) -> sparse.csr_matrix:
        """Return the fingerprints of products `start` to `stop - 1`: uint16 counts, 2**32 columns."""
        image = Permutation(int(self.starts[-1]), self.seed)(np.arange(start, stop, dtype=np.uint64))
        image = image.astype(np.int64)
        recipe = np.searchsorted(self.starts, image, side="right") - 1
        local, shape = image - self.starts[recipe], self.shapes[recipe]
        numbers = np.stack(
            [local // (shape[:, 1] * shape[:, 2]), local // shape[:, 2] % shape[:, 1], local % shape[:, 2]],
            axis=1,
        )
        first = self.pieces[recipe]
        chosen = np.where(first < 0, -1, first + numbers)
        lengths = np.where(chosen < 0, 0, np.diff(self.indptr)[chosen])
        room = int(lengths.sum()) + 4 * len(chosen)
        matrix = sparse.csr_matrix((len(chosen), 2**32), dtype=np.uint16)
        indptr, ids = np.zeros(len(chosen) + 1, dtype=np.int64), np.empty(room, dtype=np.int64)
        counts = np.empty(room, dtype=np.uint16)
        _merge(
            chosen,
            self.indptr,
            self.ids,
            self.counts,
            self.kinds,
            self.environments,
            indptr,
            ids,
            counts,
        )
        # Assigned, because the constructor would read every index to find a smaller type for them.
        matrix.indptr, matrix.indices, matrix.data = indptr, ids[: indptr[-1]], counts[: indptr[-1]]
        matrix.has_canonical_format = True
        return matrix


def _tabled(opened: list[tuple[Counter[int], list[_Side | None]]]) -> tuple[Any, ...]:
    """Return indptr, ids, counts, kinds and environments of the pieces."""
    invariants = sorted({side.invariant for _, sides in opened for side in sides if side})
    kinds = np.zeros((len(opened), 2), dtype=np.int64)
    environments = np.zeros((len(opened), 2, len(invariants)), dtype=np.int64)
    for p, (_, sides) in enumerate(opened):
        for s, side in enumerate(sides):
            if side is None:
                continue
            kinds[p, s] = invariants.index(side.invariant)
            for k, beyond in enumerate(invariants):
                environments[p, s, k] = _environment(side.invariant, [*side.neighbours, (_SINGLE, beyond)])
    lists = [sorted(ids.items()) for ids, _ in opened]
    indptr = np.cumsum([0, *map(len, lists)])
    ids, counts = (np.array([pair[i] for pairs in lists for pair in pairs]) for i in (0, 1))
    return indptr, ids.astype(np.int64), counts.astype(np.uint16), kinds, environments


@jit
def _merge(chosen, indptr, ids, counts, kinds, environments, out_indptr, out_ids, out_counts):  # type: ignore[no-untyped-def]
    """Merge the lists of the pieces of each product, with the environments at its new bonds."""
    written = 0
    for row in range(chosen.shape[0]):
        begin = written
        for slot in range(3):
            piece = chosen[row, slot]
            if piece < 0:
                continue
            for i in range(indptr[piece], indptr[piece + 1]):
                written = _insert(out_ids, out_counts, begin, written, ids[i], counts[i])
            if slot > 0:
                before = chosen[row, slot - 1]
                here = environments[piece, 0, kinds[before, 1]]
                there = environments[before, 1, kinds[piece, 0]]
                written = _insert(out_ids, out_counts, begin, written, here, 1)
                written = _insert(out_ids, out_counts, begin, written, there, 1)
        out_indptr[row + 1] = written


@jit
def _insert(ids, counts, begin, end, key, count):  # type: ignore[no-untyped-def]
    """Add `count` to `key` in the sorted list between `begin` and `end`; return its new end."""
    at = end
    while at > begin and ids[at - 1] > key:
        at -= 1
    if at > begin and ids[at - 1] == key:
        counts[at - 1] += count
        return end
    for i in range(end, at, -1):
        ids[i], counts[i] = ids[i - 1], counts[i - 1]
    ids[at], counts[at] = key, count
    return end + 1


def check(composer: Composer, library: ReactionLibrary, starts: npt.NDArray[np.int64], n: int) -> int:
    """Compare composed fingerprints with RDKit's: `n` products from each of `starts` on; return how many.

    Raises
    ------
    AssertionError
        If any count differs.
    """
    for start in starts.tolist():
        expected = Fingerprinter(FingerprintSpec("morgan"))(library.smiles(start, start + n)).fingerprints
        found = composer(start, start + n)
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    return len(starts) * n
