"""Products of a space by number, and families of reactions, in which equal synthons give equal products."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.errors import InputError
from daskrf.spaces.cut import CutSpace, Overlap, summed
from daskrf.spaces.reactions import Half

Integers = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]


class Product(NamedTuple):
    """A product.

    Attributes
    ----------
    reaction : int
    blocks, synthons : tuple of int
        By slot.
    site : int
        Number of this product among those of the same blocks, from 0.
    """

    reaction: int
    blocks: tuple[int, ...]
    synthons: tuple[int, ...]
    site: int


@dataclass(frozen=True)
class Side:
    """The distinct synthons of a slot of a family, sorted by reach, then by edge.

    Attributes
    ----------
    synthon : int32 array, shape (n,)
    reach, edge : int32 arrays, shape (n,)
        Position of the reach in `CutSpace.reaches`, and row of the edge in `overlap`.
    overlap : int32 array, shape (n_edges, n_views)
        Row of `counts` for an edge and a view, -1 if they do not occur together.
    counts : csr_matrix of int64
        Counts of environments over the cuts.
    places : int32 array, shape (n_reactions, n)
        The first entry of each synthon in each reaction of the family; -1 if it has none.
    """

    synthon: Places
    reach: Places
    edge: Places
    overlap: Places
    counts: sparse.csr_matrix
    places: Places

    def __len__(self) -> int:
        return len(self.synthon)


@dataclass(frozen=True)
class Family:
    """Reactions that cut their blocks in the same way, so that equal synthons give equal products.

    Reactions with few synthons in common are separate families.

    Attributes
    ----------
    reactions : tuple of int
    starts : tuple of int
        Number of the first product of each reaction.
    shapes : tuple of tuple of int
        Entries by slot of each reaction.
    sides : list of Side
        By slot.
    groups : int32 array, shape (n_groups, n_slots)
        Combinations of reaches, by slot. In each of them, a slot has one view of the others.
    views : int32 array of the same shape
        Number of what each slot sees of the others: a column of `Side.overlap`.
    """

    reactions: tuple[int, ...]
    starts: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    sides: list[Side]
    groups: Places
    views: Places

    @property
    def shape(self) -> tuple[int, ...]:
        """Distinct synthons by slot."""
        return tuple(map(len, self.sides))

    @property
    def size(self) -> int:
        """Number of products; each combination of synthons counts once."""
        kinds = [
            np.unique((side.places >= 0).T, axis=0, return_counts=True) for side in self.sides
        ]  # by slot: which reactions have a synthon, and how many synthons are alike in this
        return sum(
            math.prod(int(n) for _, n in each)
            for each in itertools.product(*(zip(*kind, strict=True) for kind in kinds))
            if np.logical_and.reduce([of for of, _ in each]).any()
        )

    def fingerprints(
        self, inner: sparse.csr_matrix, rows: Sequence[npt.NDArray[np.integer]]
    ) -> sparse.csr_matrix:
        """Return the fingerprints of some products: about a million per second, since nothing is joined.

        Parameters
        ----------
        inner : csr_matrix
            `CutSpace.own`.
        rows : list of integer arrays, shape (n,)
            Rows of the sides, by slot.

        Returns
        -------
        csr_matrix of uint16
            As of `CutSpace.fingerprints`.
        """
        group = np.zeros(len(rows[0]), np.int64)
        for side, row in zip(self.sides, rows, strict=True):
            reach, of = np.unique(side.reach, return_inverse=True)
            group = group * len(reach) + of[row]  # as `groups` are in order
        overlaps = [
            Overlap(side.counts, side.overlap[side.edge[row], view[group]], view[group])
            for side, row, view in zip(self.sides, rows, self.views.T, strict=True)
        ]
        return summed(
            inner, [side.synthon[row] for side, row in zip(self.sides, rows, strict=True)], overlaps
        )

    def number(self, rows: Sequence[npt.NDArray[np.integer]]) -> Integers:
        """Return the lowest number of each product; -1 if no reaction has all of its synthons.

        Parameters
        ----------
        rows : list of integer arrays, shape (n,)
            Rows of the sides, by slot.
        """
        numbers = np.full(len(rows[0]), -1, np.int64)
        for r in reversed(range(len(self.reactions))):
            there, number = np.ones(len(numbers), bool), np.zeros(len(numbers), np.int64)
            for side, row, size in zip(self.sides, rows, self.shapes[r], strict=True):
                place = side.places[r, row].astype(np.int64)
                there &= place >= 0
                number = number * size + place
            numbers[there] = self.starts[r] + number[there]
        return numbers


def starts_of(cut: CutSpace) -> list[int]:
    """Return the number of the first product of each reaction, and of all products.

    Products are numbered by reaction, then by the entries of the first slot, then of the second, and so on.

    Raises
    ------
    InputError
        If there are 2**63 products or more.
    """
    starts = [0, *itertools.accumulate(cut.sizes)]
    if starts[-1] >= 2**63:
        raise InputError(f"{cut.space.path} has {starts[-1]:.1e} products; split it into several spaces.")
    return starts


def decoded(cut: CutSpace, numbers: Sequence[int]) -> list[Product]:
    """Return products by number.

    Raises
    ------
    InputError
        If there is no such product.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from daskrf.molecules import FingerprintSpec
    >>> from daskrf.spaces import cut, read_space
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> amide = "[N:1]([H])[*:2].[OH][C:3]=[O:4],[*:2][N:1][C:3]=[O:4]"
    >>> _ = (folder / "reactions.csv").write_text(f"reaction,reactants,product\\namide,{amide}\\n")
    >>> _ = (folder / "blocks.csv").write_text("block,smiles\\na,NCCNC\\nb,CC(=O)O\\n")
    >>> _ = (folder / "slots.csv").write_text("reaction,slot,block\\namide,0,a\\namide,1,b\\n")
    >>> space = cut(read_space(folder), FingerprintSpec("morgan"))
    >>> products = decoded(space, [0, 1])
    >>> products[1].blocks, products[1].site, identifiers(space, products)
    ((0, 1), 1, ['amide-a-b', 'amide-a-b.2'])
    """
    starts, products = starts_of(cut), []
    for number in map(int, numbers):
        if not 0 <= number < starts[-1]:
            raise InputError(f"There is no product {number}; {cut.space.path} has {starts[-1]:,}.")
        reaction = int(np.searchsorted(np.array(starts[1:]), number, side="right"))
        rest, entries = number - starts[reaction], cut.entries[reaction]
        places = []
        for slot in reversed(entries):
            rest, place = divmod(rest, len(slot.block))
            places.append(place)
        places.reverse()
        blocks = tuple(int(slot.block[p]) for slot, p in zip(entries, places, strict=True))
        synthons = tuple(int(slot.synthon[p]) for slot, p in zip(entries, places, strict=True))
        site = 0
        for slot, block, place in zip(entries, blocks, places, strict=True):
            first, stop = np.searchsorted(slot.block, [block, block + 1])
            site = site * int(stop - first) + place - int(first)
        products.append(Product(reaction, blocks, synthons, site))
    return products


def identifiers(cut: CutSpace, products: Sequence[Product]) -> list[str]:
    """Return the IDs of products: reaction, blocks and, if it is not the first of these blocks, a number."""
    names, blocks = [reaction.name for reaction in cut.space.reactions], cut.space.blocks
    return [
        "-".join([names[p.reaction], *(blocks[b] for b in p.blocks)]) + (f".{p.site + 1}" if p.site else "")
        for p in products
    ]


def families(cut: CutSpace) -> list[Family]:
    """Return the families of a space; reactions without products are left out."""
    return [family_of(cut, reactions) for reactions in grouped(cut)]


def grouped(cut: CutSpace) -> list[tuple[int, ...]]:
    """Return the reactions of each family."""
    alike: dict[tuple[tuple[Half, ...], str], list[int]] = {}
    for r, reaction in enumerate(cut.space.reactions):
        if cut.sizes[r]:
            # Reactions of a synthon table share few synthons: most pairs of a joint family would be of none.
            scope = "" if reaction.smarts else reaction.name
            alike.setdefault((tuple(reaction.halves), scope), []).append(r)
    return [some for reactions in alike.values() for some in _together(cut, reactions)]


def _together(cut: CutSpace, reactions: list[int]) -> list[tuple[int, ...]]:
    """Return which reactions to score together: those whose synthons are mostly the same.

    All combinations of the synthons of a family are scored. Reactions with other synthons would mostly add
    combinations that no reaction makes.
    """
    groups: list[tuple[list[int], list[Places]]] = []
    for reaction in sorted(reactions, key=lambda r: (-cut.sizes[r], r)):
        synthons = [np.unique(slot.synthon) for slot in cut.entries[reaction]]
        for members, sides in groups:
            union = [np.union1d(one, other) for one, other in zip(sides, synthons, strict=True)]
            if _combinations(union) <= _combinations(sides) + _combinations(synthons):
                members.append(reaction)
                sides[:] = union
                break
        else:
            groups.append(([reaction], synthons))
    return [tuple(sorted(members)) for members, _ in groups]


def _combinations(sides: list[Places]) -> int:
    return math.prod(map(len, sides))


def family_of(
    cut: CutSpace, reactions: tuple[int, ...], tell: Callable[[float], None] = lambda _: None
) -> Family:
    """Return the family of some reactions, one of `grouped`.

    Parameters
    ----------
    cut : CutSpace
    reactions : tuple of int
    tell : callable, optional
        Called with the share of the work just done: counting environments over the cuts takes most of it.
    """
    starts, n_slots = starts_of(cut), len(cut.entries[reactions[0]])
    of_slot = [[cut.entries[r][slot].synthon for r in reactions] for slot in range(n_slots)]
    synthons = []
    for every in of_slot:
        distinct = np.unique(np.concatenate(every))
        synthons.append(distinct[np.lexsort((distinct, cut.edge[distinct], cut.reach[distinct]))])
    edges = [
        np.unique(np.column_stack([cut.reach[ids], cut.edge[ids]]), axis=0, return_inverse=True)
        for ids in synthons
    ]
    groups = np.array(list(itertools.product(*(np.unique(cut.reach[ids]) for ids in synthons))), np.int32)
    views = np.empty_like(groups)
    for slot in range(n_slots):
        numbers: dict[tuple[int, ...], int] = {}
        views[:, slot] = [numbers.setdefault(cut.view(slot, g), len(numbers)) for g in groups.tolist()]
    tables = _overlaps(cut, synthons, [place.ravel() for _, place in edges], groups, views, tell)
    sides = [
        Side(
            ids.astype(np.int32),
            cut.reach[ids],
            place.ravel().astype(np.int32),
            overlap,
            counts,
            np.array([_first_places(entries, ids) for entries in every]),
        )
        for ids, (_, place), (overlap, counts), every in zip(synthons, edges, tables, of_slot, strict=True)
    ]
    shapes = tuple(tuple(len(slot.block) for slot in cut.entries[r]) for r in reactions)
    return Family(reactions, tuple(starts[r] for r in reactions), shapes, sides, groups, views)


def _first_places(entries: Places, synthons: npt.NDArray[np.integer]) -> Places:
    """Return the first position of each synthon in the entries of a slot; -1 if it has none."""
    there, first = np.unique(entries, return_index=True)
    at = np.minimum(np.searchsorted(there, synthons), len(there) - 1)
    return np.where(there[at] == synthons, first[at], -1).astype(np.int32)


def _overlaps(
    cut: CutSpace,
    synthons: Sequence[npt.NDArray[np.integer]],
    edges: list[npt.NDArray[np.intp]],
    groups: Places,
    views: Places,
    tell: Callable[[float], None],
) -> list[tuple[Places, sparse.csr_matrix]]:
    """Return `Side.overlap` and `Side.counts` of each slot, from one product for each edge and view."""
    lengths = np.array([len(smiles) for smiles in cut.smiles])
    shown = []  # by slot: the shortest synthon with each edge, as it is parsed fastest
    for ids, edge in zip(synthons, edges, strict=True):
        order = np.lexsort((lengths[ids], edge))
        shown.append(ids[order[np.unique(edge[order], return_index=True)[1]]])
    reach = [cut.reach[ids] for ids in shown]
    products, of = [], []
    met: list[set[tuple[int, int]]] = [set() for _ in shown]
    for g, (classes, seen) in enumerate(zip(groups.tolist(), views.tolist(), strict=True)):
        with_reach = [np.flatnonzero(r == c) for r, c in zip(reach, classes, strict=True)]
        new = [(c, v) not in pairs for c, v, pairs in zip(classes, seen, met, strict=True)]
        n = max((len(some) for some, first in zip(with_reach, new, strict=True) if first), default=0)
        products.append(np.column_stack([some[np.arange(n) % len(some)] for some in with_reach]))
        of.append(np.full(n, g))
        for c, v, pairs in zip(classes, seen, met, strict=True):
            pairs.add((c, v))
    chosen, group = np.concatenate(products), np.concatenate(of)
    overlaps = cut.overlaps(np.column_stack([ids[chosen[:, s]] for s, ids in enumerate(shown)]), tell)
    tables = []
    for slot, (counts, row, _) in enumerate(overlaps):
        overlap = np.full((len(shown[slot]), int(views[:, slot].max()) + 1), -1, np.int32)
        overlap[chosen[:, slot], views[group, slot]] = row
        tables.append((overlap, counts))
    return tables
