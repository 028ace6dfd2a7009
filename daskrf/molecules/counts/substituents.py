"""Substituents of molecules: each side of each single bond outside rings, as a whole.

A molecule with a phenyl group has the substituent phenyl, and, seen from the other side of the same bond, all
the rest. Two products of one building block share the block and everything within it that does not depend on
what it is bound to; two of a congeneric series share the scaffold with all but one of its substituents. The
fragments are those of matched molecular pairs by single cuts (Hussain & Rea 2010, J. Chem. Inf. Model. 50,
339), without stereochemistry.

The hash of a side is made from the outside in. An atom has the hash of its element, hydrogens, charge,
aromaticity, number of neighbours and isotope, of its distance in a ring system from the atom at the bond, and
the sum of the hashes of the sides that its other bonds outside rings lead to. If the atom at the bond is in a
ring system, hashes of neighbours in it are added in as many rounds as it takes to reach its last bond
(Weisfeiler & Leman 1968). The hash of the atom at the bond is that of the side; the upper 32 bits are its
identifier.

Positions say which atoms are how far from the bond between two building blocks. In a product, this is the
bond to a substituent that is known to be a block: to the largest such one, or to each of several of that
size. Each atom is hashed with its side of the bond, and with its distance from the atom at the bond there. So
the last residue of a peptide differs from the one before it, and no hash depends on what is across the bond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from rdkit import Chem

_MASK = 2**64 - 1
_VALUE, _RESULT = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9  # odd multipliers
_SINGLE = int(Chem.BondType.SINGLE)


class _Link(NamedTuple):
    """A bond as seen from one of its atoms."""

    atom: int
    bond: int
    kind: int


class Substituents:
    """The substituents of a molecule.

    Parameters
    ----------
    molecule : rdkit.Chem.Mol

    Examples
    --------
    >>> toluene = Substituents(Chem.MolFromSmiles("Cc1ccccc1"))
    >>> sorted(len(atoms) for _, atoms in toluene.occurrences())
    [1, 6]
    """

    def __init__(self, molecule: Chem.Mol) -> None:
        self._types = [_type_of(atom) for atom in molecule.GetAtoms()]
        self._links: list[list[_Link]] = [[] for _ in self._types]
        self._in_ring = [bond.IsInRing() for bond in molecule.GetBonds()]
        for bond in molecule.GetBonds():
            i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            number, kind = bond.GetIdx(), int(bond.GetBondType())
            self._links[i].append(_Link(j, number, kind))
            self._links[j].append(_Link(i, number, kind))

    @property
    def steps(self) -> int:
        """How many times atoms of ring systems are hashed: much more than once in large ones."""
        entries = Counter(
            link.atom for links in self._links for link in links if not self._in_ring[link.bond]
        )
        systems = ((self._system(root), times) for root, times in entries.items())
        return sum(times * len(system) * (1 + max(system.values())) for system, times in systems)

    def occurrences(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the identifier and the atoms of each substituent."""
        for identifier, origin, link in self._identified():
            yield identifier, tuple(sorted(self._beyond(origin, link)))

    def counts(self, size: int = 0) -> Counter[int]:
        """Return how often each identifier occurs, or each column if they are folded to `size` columns."""
        return _counter((identifier for identifier, _, _ in self._identified()), size)

    def positions(self, blocks: Collection[int]) -> Iterator[tuple[int, tuple[int]]]:
        """Yield the identifier and the number of each atom as seen from the bond to a block, if there is one.

        Parameters
        ----------
        blocks : collection of int
            Identifiers of substituents.
        """
        ends = [
            (origin, link, len(self._beyond(origin, link)))
            for identifier, origin, link in self._identified()
            if identifier in blocks
        ]
        most = max((size for _, _, size in ends), default=0)
        for origin, link, size in ends:
            if size == most:
                for within, start, across in ((0, origin, link.atom), (1, link.atom, origin)):
                    for atom, distance in self._distances(start, across).items():
                        yield _mix(_mix(self._types[atom], distance), within) >> 32, (atom,)

    def counts_of_positions(self, blocks: Collection[int], size: int = 0) -> Counter[int]:
        """Return how often each identifier of :meth:`positions` occurs, or each of `size` columns."""
        return _counter((identifier for identifier, _ in self.positions(blocks)), size)

    def _identified(self) -> Iterator[tuple[int, int, _Link]]:
        """Yield each identifier, the atom on the near side of the bond, and the link to the far side."""
        outward = list(self._outward())
        inward = [
            (link.atom, next(back for back in self._links[link.atom] if back.bond == link.bond))
            for _, link in outward
        ]
        hashes: dict[tuple[int, int], int] = {}
        for origin, link in [*outward[::-1], *inward]:
            hashes[origin, link.bond] = self._hash(link, hashes)
            if link.kind == _SINGLE:
                yield hashes[origin, link.bond] >> 32, origin, link

    def _outward(self) -> Iterator[tuple[int, _Link]]:
        """Yield the links over bridges that lead away from a first atom, with the atom they come from."""
        entered = set[int]()
        for start in range(len(self._links)):
            queue = [] if start in entered else [start]
            for root in queue:
                system = self._system(root)
                entered |= system.keys()
                for i in system:
                    for link in self._links[i]:
                        if not self._in_ring[link.bond] and link.atom not in entered:
                            queue.append(link.atom)
                            yield i, link

    def _system(self, root: int) -> dict[int, int]:
        """Return the atoms joined to the root by bonds of rings, with their distances, in this order."""
        depth = {root: 0}
        for i in (queue := [root]):
            for link in self._links[i]:
                if self._in_ring[link.bond] and link.atom not in depth:
                    depth[link.atom] = depth[i] + 1
                    queue.append(link.atom)
        return depth

    def _hash(self, entry: _Link, hashes: dict[tuple[int, int], int]) -> int:
        """Return the hash of the side to which a link leads, from those of the sides beyond it."""
        system, links, in_ring = self._system(entry.atom), self._links, self._in_ring
        colours = {}
        for i, depth in system.items():
            beyond = sum(
                _mix(link.kind, hashes[i, link.bond])
                for link in links[i]
                if not in_ring[link.bond] and link.bond != entry.bond
            )
            colours[i] = _mix(_mix(self._types[i], depth), beyond & _MASK)
        rounds = 1 + max(system.values()) if len(system) > 1 else 0
        for _ in range(rounds):
            colours = {
                i: _mix(
                    colour,
                    sum(_mix(link.kind, colours[link.atom]) for link in links[i] if in_ring[link.bond])
                    & _MASK,
                )
                for i, colour in colours.items()
            }
        return colours[entry.atom]

    def _beyond(self, origin: int, link: _Link) -> set[int]:
        """Return the atoms on the far side of a bond."""
        return set(self._distances(link.atom, origin))

    def _distances(self, start: int, across: int) -> dict[int, int]:
        """Return the distances from an atom to all on its side of the bond to the atom across."""
        distances = {start: 0}
        for i in (queue := [start]):
            for link in self._links[i]:
                if link.atom not in distances and not (i == start and link.atom == across):
                    distances[link.atom] = distances[i] + 1
                    queue.append(link.atom)
        return distances


def _counter(identifiers: Iterable[int], size: int) -> Counter[int]:
    """Count identifiers, or the columns that they are folded to."""
    return Counter(identifier % size if size else identifier for identifier in identifiers)


def _mix(hashed: int, value: int) -> int:
    """Return the 64-bit hash of a hash and a value."""
    mixed = (hashed ^ (value * _VALUE & _MASK)) * _RESULT & _MASK
    return mixed ^ (mixed >> 32)


def _type_of(atom: Chem.Atom) -> int:
    """Return the hash of what is known of an atom by itself."""
    hashed = atom.GetAtomicNum()
    for value in (
        atom.GetTotalNumHs(),
        atom.GetFormalCharge() & 0xFF,
        int(atom.GetIsAromatic()),
        atom.GetDegree(),
        atom.GetIsotope(),
    ):
        hashed = _mix(hashed, value)
    return hashed
