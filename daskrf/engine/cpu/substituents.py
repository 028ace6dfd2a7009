"""Substituents of molecules that were read from SMILES: each side of each single bond outside rings.

Beside them positions: the atoms of a molecule by their distances from the bond to one of some substituents.

Source: Hussain & Rea 2010 (J. Chem. Inf. Model. 50), whose fragments by single cuts these are.
`daskrf.molecules.counts.substituents` says how they are hashed, and does it with RDKit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from daskrf.engine import BondKind, Molecules, Rows
from daskrf.engine.cpu.jit import jit

Array = npt.NDArray[np.generic]
Keys = npt.NDArray[np.uint64]

_NUMBER, _HYDROGENS, _CHARGE, _RING, _AROMATIC, _DEGREE = 0, 1, 2, 3, 4, 5
_SINGLE = 1
_NO_ISOTOPE = 0
_VALUE, _RESULT = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9  # odd multipliers


@jit
def _mix(hashed: np.uint64, value: np.uint64) -> np.uint64:
    """Return the 64-bit hash of a hash and a value."""
    mixed = (np.uint64(hashed) ^ (np.uint64(value) * np.uint64(_VALUE))) * np.uint64(_RESULT)
    return mixed ^ (mixed >> np.uint64(32))


@jit
def _types(atoms: Array, out: Array) -> None:
    """Write the hash of what is known of each atom by itself."""
    for i in range(out.size):
        seed = _mix(np.uint64(atoms[i, _NUMBER]), np.uint64(atoms[i, _HYDROGENS]))
        seed = _mix(seed, np.uint64(int(atoms[i, _CHARGE]) & 0xFF))
        seed = _mix(seed, np.uint64(atoms[i, _AROMATIC] != 0))
        seed = _mix(seed, np.uint64(atoms[i, _DEGREE]))
        out[i] = _mix(seed, np.uint64(_NO_ISOTOPE))


@jit
def _reach(links: Array, first: Array, root: int, passable: Array, members: Array, depth: Array) -> int:
    """List the atoms that are joined to the root by bonds that can be passed; return their number.

    `depth` is their distance from the root, and -1 for all other atoms. It has to be cleared afterwards.
    """
    members[0], depth[root] = root, 0
    n, place = 1, 0
    while place < n:
        i = members[place]
        place += 1
        for e in range(first[i], first[i + 1]):
            j = links[e, 0]
            if passable[links[e, 1]] and depth[j] < 0:
                depth[j] = depth[i] + 1
                members[n] = j
                n += 1
    return n


@jit
def _clear(members: Array, n: int, depth: Array) -> None:
    for k in range(n):
        depth[members[k]] = -1


@jit
def _find_bridges(
    links: Array, first: Array, ring: Array, in_ring: Array, members: Array, depth: Array
) -> None:
    """Write which bonds are in a ring: without them, their atoms are still joined."""
    for i in range(ring.size):
        for e in range(first[i], first[i + 1]):
            in_ring[links[e, 1]] = ring[i] and ring[links[e, 0]]
    for i in range(ring.size):
        for e in range(first[i], first[i + 1]):
            j, bond = links[e, 0], links[e, 1]
            if j < i or not in_ring[bond]:
                continue
            in_ring[bond] = False
            n = _reach(links, first, i, in_ring, members, depth)
            in_ring[bond] = depth[j] >= 0
            _clear(members, n, depth)


@jit
def _side(
    links: Array,
    first: Array,
    types: Array,
    in_ring: Array,
    reverse: Array,
    e: int,
    hashes: Array,
    colours: Array,
    following: Array,
    members: Array,
    depth: Array,
) -> np.uint64:
    """Return the hash of the side to which a link leads, from those of the sides beyond it."""
    root = links[e, 0]
    n = _reach(links, first, root, in_ring, members, depth)
    for k in range(n):
        i = members[k]
        beyond = np.uint64(0)
        for f in range(first[i], first[i + 1]):
            if not in_ring[links[f, 1]] and f != reverse[e]:
                beyond += _mix(np.uint64(links[f, 2]), hashes[f])
        colours[i] = _mix(_mix(types[i], np.uint64(depth[i])), beyond)
    rounds = depth[members[n - 1]] + 1 if n > 1 else 0
    for _ in range(rounds):
        for k in range(n):
            i = members[k]
            around = np.uint64(0)
            for f in range(first[i], first[i + 1]):
                if in_ring[links[f, 1]]:
                    around += _mix(np.uint64(links[f, 2]), colours[links[f, 0]])
            following[i] = _mix(colours[i], around)
        for k in range(n):
            colours[members[k]] = following[members[k]]
    _clear(members, n, depth)
    return colours[root]


@jit
def _outward(
    links: Array,
    first: Array,
    in_ring: Array,
    order: Array,
    entered: Array,
    members: Array,
    depth: Array,
) -> int:
    """List the links over bridges that lead away from the first atom of each fragment, the nearest first."""
    n_links, entered[:] = 0, False
    for start in range(entered.size):
        if entered[start]:
            continue
        place, root = n_links, start
        while True:
            n = _reach(links, first, root, in_ring, members, depth)
            for k in range(n):
                entered[members[k]] = True
            for k in range(n):
                for e in range(first[members[k]], first[members[k] + 1]):
                    if not in_ring[links[e, 1]] and not entered[links[e, 0]]:
                        order[n_links] = e
                        n_links += 1
            _clear(members, n, depth)
            if place == n_links:
                break
            root = links[order[place], 0]
            place += 1
    return n_links


@jit
def _first_links(molecules: Molecules, start: int, stop: int) -> Array:
    """Return where the links of each atom of a molecule begin, and where the last one's end."""
    first = np.zeros(stop - start + 1, np.int64)
    for i in range(stop - start):
        first[i + 1] = first[i] + molecules.atoms[start + i, _DEGREE]
    return first


@jit
def _sides_of(
    links: Array, first: Array, types: Array, ring: Array, hashes: Array, opposite: Array, entries: Array
) -> int:
    """Hash the sides of all bonds outside rings of a molecule; return the number of sides."""
    n_atoms, n_links = types.size, links.shape[0]
    members, depth = np.zeros(n_atoms, np.int64), np.full(n_atoms, -1, np.int64)
    in_ring = np.zeros(n_links // 2, np.bool_)
    _find_bridges(links, first, ring, in_ring, members, depth)
    earlier = np.full(n_links // 2, -1, np.int64)
    for e in range(n_links):
        bond = links[e, 1]
        if earlier[bond] >= 0:
            opposite[e], opposite[earlier[bond]] = earlier[bond], e
        earlier[bond] = e
    order, entered = np.zeros(n_links, np.int64), np.zeros(n_atoms, np.bool_)
    n_bridges = _outward(links, first, in_ring, order, entered, members, depth)
    colours, following = np.zeros(n_atoms, np.uint64), np.zeros(n_atoms, np.uint64)
    for k in range(2 * n_bridges):  # outward, from the ends of the molecule, then inward
        e = order[n_bridges - 1 - k] if k < n_bridges else opposite[order[k - n_bridges]]
        entries[k] = e
        hashes[e] = _side(
            links, first, types, in_ring, opposite, e, hashes, colours, following, members, depth
        )
    return 2 * n_bridges


class Sides(NamedTuple):
    """The two sides of each bond outside rings, each by the link that leads to it.

    `hashes` (uint64) are those of the sides, and `opposite` (int64) the links in the other direction, by
    link; links are counted from the first of the molecule. `entries` (int64) are the links to sides, molecule
    by molecule, and `stops` (int64) where those of each molecule begin, and where the last one's end.
    """

    hashes: Array
    opposite: Array
    entries: Array
    stops: Array


@jit
def _all_sides(molecules: Molecules, types: Array, sides: Sides) -> None:
    """Write the sides of all bonds outside rings of all molecules."""
    n_sides = np.int64(0)
    for row in range(molecules.stops.size - 1):
        start, stop = molecules.stops[row], molecules.stops[row + 1]
        sides.stops[row] = n_sides
        if start < stop:
            first, begin = _first_links(molecules, start, stop), molecules.first_links[start]
            end = begin + first[stop - start]
            n_sides += _sides_of(
                molecules.links[begin:end],
                first,
                types[start:stop],
                molecules.atoms[start:stop, _RING] != 0,
                sides.hashes[begin:end],
                sides.opposite[begin:end],
                sides.entries[n_sides:],
            )
    sides.stops[molecules.stops.size - 1] = n_sides


def sides(molecules: Molecules) -> Sides:
    """Hash each side of each bond outside rings."""
    n_rows, n_atoms = molecules.stops.size - 1, int(molecules.stops[-1])
    last = n_atoms - 1
    n_links = int(molecules.first_links[last] + molecules.atoms[last, _DEGREE]) if n_atoms else 0
    made = Sides(
        hashes=np.zeros(n_links, np.uint64),
        opposite=np.zeros(n_links, np.int64),
        entries=np.zeros(n_links, np.int64),
        stops=np.zeros(n_rows + 1, np.int64),
    )
    with np.errstate(over="ignore"):
        _all_sides(molecules, _atom_types(molecules), made)
    return made


@jit
def _substituents(molecules: Molecules, sides: Sides, keys: Array) -> int:
    """Write row and hash of each side of each single bond outside rings; return their number."""
    n_keys = 0
    for row in range(molecules.stops.size - 1):
        if molecules.stops[row] == molecules.stops[row + 1]:
            continue
        begin = molecules.first_links[molecules.stops[row]]
        for place in range(sides.stops[row], sides.stops[row + 1]):
            e = begin + sides.entries[place]
            if molecules.links[e, 2] == _SINGLE:
                keys[n_keys] = np.uint64(row) << np.uint64(32) | sides.hashes[e] >> np.uint64(32)
                n_keys += 1
    return n_keys


class _Graph(NamedTuple):
    """One molecule and its sides: links, hashes and opposite links, and where those of each atom begin."""

    links: Array
    first: Array
    hashes: Array
    opposite: Array
    entries: Array


@jit
def _ends(graph: _Graph, blocks: Array, passable: Array, members: Array, depth: Array) -> Array:
    """Return the links to the largest side that is one of some substituents; several if it occurs often."""
    ends, n_ends, most = np.zeros(graph.entries.size, np.int64), 0, 0
    for e in graph.entries:
        identifier = graph.hashes[e] >> np.uint64(32)
        place = np.searchsorted(blocks, identifier)
        if graph.links[e, 2] != _SINGLE or place == blocks.size or blocks[place] != identifier:
            continue
        passable[graph.links[e, 1]] = False
        n = _reach(graph.links, graph.first, graph.links[e, 0], passable, members, depth)
        _clear(members, n, depth)
        passable[graph.links[e, 1]] = True
        if n > most:
            n_ends, most = 0, n
        if n == most:
            ends[n_ends] = e
            n_ends += 1
    return ends[:n_ends]


@jit
def _positions(molecules: Molecules, types: Array, sides: Sides, blocks: Array, keys: Keys) -> Keys:
    """Return row and hash of each atom as seen from the bond to a block."""
    n_keys = 0
    for row in range(molecules.stops.size - 1):
        start, stop = molecules.stops[row], molecules.stops[row + 1]
        if start == stop:
            continue
        first, begin = _first_links(molecules, start, stop), molecules.first_links[start]
        end = begin + first[stop - start]
        links, entries = molecules.links[begin:end], sides.entries[sides.stops[row] : sides.stops[row + 1]]
        graph = _Graph(links, first, sides.hashes[begin:end], sides.opposite[begin:end], entries)
        members, depth = np.zeros(stop - start, np.int64), np.full(stop - start, -1, np.int64)
        passable = np.ones(links.shape[0] // 2, np.bool_)
        ends = _ends(graph, blocks, passable, members, depth)
        if n_keys + ends.size * (stop - start) > keys.size:
            longer = np.empty(2 * (n_keys + ends.size * (stop - start)), np.uint64)
            longer[:n_keys] = keys[:n_keys]
            keys = longer
        for to_block in ends:
            passable[links[to_block, 1]] = False
            for within in range(2):
                e = to_block if within else graph.opposite[to_block]
                n = _reach(links, first, links[e, 0], passable, members, depth)
                for k in range(n):
                    i = members[k]
                    hashed = _mix(_mix(types[start + i], np.uint64(depth[i])), np.uint64(within))
                    keys[n_keys] = np.uint64(row) << np.uint64(32) | hashed >> np.uint64(32)
                    n_keys += 1
                _clear(members, n, depth)
            passable[links[to_block, 1]] = True
    return keys[:n_keys]


def side_counts(molecules: Molecules, kind: BondKind, sides: Sides) -> Rows:
    """Count substituents, or atoms by their distances from the bond to a block; see `Engine.bond_counts`."""
    with np.errstate(over="ignore"):
        if kind.blocks is None:
            keys = np.empty(sides.entries.size, np.uint64)
            keys = keys[: _substituents(molecules, sides, keys)]
        else:
            types = _atom_types(molecules)
            keys = _positions(molecules, types, sides, kind.blocks.astype(np.uint64), np.empty_like(types))
    return _rows(keys, molecules.stops.size - 1, kind.size)


def _atom_types(molecules: Molecules) -> Keys:
    """Return the hash of what is known of each atom by itself."""
    n_atoms = int(molecules.stops[-1])
    types = np.empty(n_atoms, np.uint64)
    with np.errstate(over="ignore"):
        _types(molecules.atoms, types)
    return types


def _rows(keys: Keys, n_rows: int, size: int) -> Rows:
    """Return counts by row of keys of a row and an identifier."""
    row, column = keys >> np.uint64(32), keys & np.uint64(0xFFFFFFFF)
    if size:
        keys = row << np.uint64(32) | column % np.uint64(size)
    keys, values = np.unique(keys, return_counts=True)
    pointer = np.searchsorted(keys, np.arange(n_rows + 1, dtype=np.uint64) << np.uint64(32))
    return Rows(pointer.astype(np.int64), (keys & np.uint64(0xFFFFFFFF)).astype(np.uint32), values)
