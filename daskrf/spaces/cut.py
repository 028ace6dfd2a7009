"""A space whose blocks are cut to synthons, and fingerprints of its products as sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.arrays import MAX_COUNT
from daskrf.blas import processors
from daskrf.errors import InputError
from daskrf.molecules.counts.spec import FingerprintSpec
from daskrf.molecules.isolation import Lost, each
from daskrf.spaces.closures import Closure, Ring, clashes
from daskrf.spaces.limits import SUMS
from daskrf.spaces.reactions import Half
from daskrf.spaces.spacetables import Space
from daskrf.spaces.synthons import Reach, Synthon, check_spec

_BATCH = 2048  # texts that a helper gets at a time, at most, and...
_LEAST, _TURNS = 64, 4  # ...at least, and how many batches each helper gets: all end at about the same time

_ROWS = 2**14  # products whose counts are summed at a time, mostly in the cache
_LARGE = 2**22  # a table of this many entries is made faster than a few codes are sorted

Integers = npt.NDArray[np.int64]


class Entries(NamedTuple):
    """Entries of a slot of a reaction: pairs of a block and one of its synthons.

    Attributes
    ----------
    block, synthon : int32 arrays of the same length
        Positions, sorted by block.
    refused : dict of str to list of int
        Blocks without any synthon, by the reason.
    """

    block: npt.NDArray[np.int32]
    synthon: npt.NDArray[np.int32]
    refused: dict[str, list[int]]

    def of_block(self, block: int) -> list[int]:
        """Return the synthons of a block."""
        start, stop = np.searchsorted(self.block, [block, block + 1])
        return [int(synthon) for synthon in self.synthon[start:stop]]


class Overlap(NamedTuple):
    """Counts of environments over the cuts, around the atoms of one slot of some products.

    Attributes
    ----------
    counts : csr_matrix of int64
        Distinct rows of counts.
    row : int64 array, shape (n,)
        Which row of `counts` each product has.
    view : int64 array, shape (n,)
        Number, from 0, of what the slot sees of its partners (`CutSpace.view`): with the synthon, it
        determines `row`.
    """

    counts: sparse.csr_matrix
    row: Integers
    view: Integers


@dataclass(frozen=True)
class CutSpace:
    """A space whose blocks have been cut to synthons. A product is one entry of each slot of a reaction.

    Attributes
    ----------
    space : Space
    spec : FingerprintSpec
    smiles : list of str
        Of each distinct synthon.
    own : csr_matrix of int64
        Counts of the environments of each synthon that do not reach over its cuts.
    edge : int64 array
        Hash of the part of each synthon that determines environments over its cuts; see
        `daskrf.spaces.synthons.Synthon`.
    reaches : list of Reach
        The distinct reaches of synthons.
    reach : int32 array
        Position of each synthon's reach in `reaches`.
    sums : float64 array, shape (n_synthons, 5)
        The properties `daskrf.spaces.limits.SUMS` of each synthon.
    entries : list of list of Entries
        By reaction and slot; empty if the reaction is refused.
    """

    space: Space
    spec: FingerprintSpec
    smiles: list[str]
    own: sparse.csr_matrix
    edge: Integers
    reaches: list[Reach]
    reach: npt.NDArray[np.int32]
    sums: npt.NDArray[np.float64]
    entries: list[list[Entries]]

    @cached_property
    def _edge_number(self) -> Integers:
        """The position of each synthon's edge among the distinct ones."""
        return np.unique(self.edge, return_inverse=True)[1].ravel()

    @property
    def sizes(self) -> list[int]:
        """Number of products of each reaction; 0 if it is refused."""
        shapes = [[len(slot.block) for slot in slots] or [0] for slots in self.entries]
        return [int(np.prod(shape, dtype=object)) for shape in shapes]

    def product_smiles(self, synthons: npt.NDArray[np.integer]) -> list[str]:
        """Return the canonical SMILES of products.

        Parameters
        ----------
        synthons : integer array, shape (n, slots)
            The synthons of each product.
        """
        return [
            str(smiles) for smiles in in_helpers("daskrf.spaces.synthons:joiner", (), self._texts(synthons))
        ]

    def fingerprints(self, synthons: npt.NDArray[np.integer]) -> sparse.csr_matrix:
        """Return the fingerprints of products as sums, without making the products.

        Parameters
        ----------
        synthons : integer array, shape (n, slots)
            The synthons of each product.

        Returns
        -------
        csr_matrix
            The same as `daskrf.molecules.Fingerprinter` gives for the SMILES of the products.
        """
        return summed(self.own, list(synthons.T), self.overlaps(synthons))

    def overlaps(
        self, synthons: npt.NDArray[np.integer], tell: Callable[[float], None] = lambda _: None
    ) -> list[Overlap]:
        """Return the counts of environments over the cuts, around the atoms of each slot.

        Synthons with the same edge, and partners that look the same from there, give the same counts, so each
        such case is counted once.

        Parameters
        ----------
        synthons : integer array, shape (n, slots)
            The synthons of each product.
        tell : callable, optional
            Called with the share of the work just done.

        Returns
        -------
        list of Overlap
            By slot.
        """
        places, firsts, seen = [], [], []
        codes = np.zeros(len(synthons), np.int64)
        for reach in self.reach[synthons].T:
            codes = codes * len(self.reaches) + reach
        shown, of = _distinct(codes)
        classes = self.reach[synthons[shown]].tolist()
        for slot in range(synthons.shape[1]):
            views: dict[tuple[int, ...], int] = {}
            view = np.array([views.setdefault(self.view(slot, row), len(views)) for row in classes], np.int64)
            seen.append(view[of])
            first, place = _distinct(self._edge_number[synthons[:, slot]] * len(views) + seen[-1])
            firsts.append(first)
            places.append(place)
        joined, sources = _covering(places, firsts)
        counts = in_helpers(
            "daskrf.spaces.synthons:Edges",
            (self.spec,),
            self._texts(synthons[np.array(joined, int)]),
            tell=lambda n: tell(n / len(joined)),
        )
        tables = (
            _counts_matrix([counts[j][slot] for j in source], self.spec)
            for slot, source in enumerate(sources)
        )
        return list(map(Overlap, tables, places, seen))

    def view(self, slot: int, classes: Sequence[int]) -> tuple[int, ...]:
        """Return what determines, in the partners of a slot, environments around the slot's atoms.

        Parameters
        ----------
        slot : int
        classes : sequence of int
            The position of each synthon's reach in `reaches`, by slot.
        """
        every = [self.reaches[c] for c in classes]
        views = []
        for number in every[slot].cuts:
            partner = next(r for s, r in enumerate(every) if s != slot and number in r.cuts)
            if partner.shared:
                return tuple(classes)
            views.append(partner.seen[partner.cuts.index(number)])
        return tuple(views)

    def _texts(self, synthons: npt.NDArray[np.integer]) -> list[str]:
        return [" ".join(self.smiles[synthon] for synthon in row) for row in synthons.tolist()]


def cut(space: Space, spec: FingerprintSpec, tell: Callable[[int], None] = lambda _: None) -> CutSpace:
    """Cut all blocks of a space to synthons.

    Parameters
    ----------
    space : Space
    spec : FingerprintSpec
        Fingerprints that are sums over synthons; see `daskrf.spaces.synthons.check_spec`.
    tell : callable, optional
        Called with the number of blocks just cut, `n_cuts` in all.

    Raises
    ------
    InputError
        If the fingerprints are not sums over synthons.
    """
    check_spec(spec)
    table = _Table(spec)
    made = {
        half: table.cut(half, blocks, space.smiles, tell) for half, blocks in _blocks_to_cut(space).items()
    }
    entries = []
    for r, reaction in enumerate(space.reactions):
        outcomes = [made[half] for half in reaction.halves]
        if any(half.ring for half in reaction.halves):
            rings = [slot for slot, half in enumerate(reaction.halves) if half.ring]
            blocks = [space.slots[r, slot].tolist() for slot in rings]
            fitting = _fitting([outcomes[slot] for slot in rings], blocks, table.closures)
            for slot, of_slot in zip(rings, fitting, strict=True):
                outcomes[slot] = of_slot
        entries.append([_entries(of_slot, space.slots[r, slot]) for slot, of_slot in enumerate(outcomes)])
    return CutSpace(
        space=space,
        spec=spec,
        smiles=[smiles for smiles, _ in table.number],
        own=_counts_matrix(table.inner, spec),
        edge=np.array(table.edge, np.int64),
        reaches=list(table.reaches),
        reach=np.array(table.reach, np.int32),
        sums=np.array(table.sums).reshape(-1, len(SUMS)),
        entries=entries,
    )


def n_cuts(space: Space) -> int:
    """Return the number of cuts to make: each block counts once for each way in which it is cut."""
    return sum(map(len, _blocks_to_cut(space).values()))


def _blocks_to_cut(space: Space) -> dict[Half, list[int]]:
    """Return the blocks to cut in each way."""
    blocks_of: dict[Half, set[int]] = {}
    for r, reaction in enumerate(space.reactions):
        for slot, half in enumerate(reaction.halves):
            blocks_of.setdefault(half, set()).update(space.slots[r, slot].tolist())
    return {half: sorted(blocks) for half, blocks in blocks_of.items()}


def _fitting(
    made: Sequence[Mapping[int, list[int] | str]],
    blocks: Sequence[list[int]],
    closures: Sequence[Closure | None],
) -> list[dict[int, list[int] | str]]:
    """Return the synthons of slots that a ring may pass through, without blocks that do not fit."""
    kinds = [
        {
            block: {closure.kind for synthon in result if (closure := closures[synthon])}
            for block in members
            if not isinstance(result := of[block], str)
        }
        for of, members in zip(made, blocks, strict=True)
    ]
    dropped = clashes([Counter(chain.from_iterable(of.values())) for of in kinds])
    outcomes = []
    for of, kinds_of, reasons in zip(made, kinds, dropped, strict=True):
        out = {block: reasons[min(bad)] for block, has in kinds_of.items() if (bad := has & reasons.keys())}
        outcomes.append({**of, **out})
    return outcomes


class _Table:
    """Collects distinct synthons."""

    def __init__(self, spec: FingerprintSpec) -> None:
        self.spec, self.number = spec, dict[tuple[str, Ring | None], int]()
        self.inner, self.edge, self.sums = list[dict[int, int]](), list[int](), list[tuple[float, ...]]()
        self.reaches, self.reach = dict[Reach, int](), list[int]()
        self.closures = list[Closure | None]()

    def cut(
        self, half: Half, blocks: list[int], smiles: Sequence[str], tell: Callable[[int], None]
    ) -> dict[int, list[int] | str]:
        """Return the synthons of each block, or why it has none."""
        texts = [smiles[block] for block in blocks]
        maker = "Cutter" if half.smarts else "Opener"
        results = in_helpers(f"daskrf.spaces.synthons:{maker}", (half, self.spec), texts, str, tell)
        return {
            block: result
            if isinstance(result, str)
            else [self._take(synthon, half.ring) for synthon in result]
            for block, result in zip(blocks, results, strict=True)
        }

    def _take(self, synthon: Synthon, ring: Ring | None) -> int:
        number = self.number.setdefault((synthon.smiles, ring), len(self.inner))
        if number == len(self.inner):
            self.inner.append(synthon.inner)
            self.edge.append(synthon.edge)
            self.reach.append(self.reaches.setdefault(synthon.reach, len(self.reaches)))
            self.sums.append(synthon.sums)
            self.closures.append(synthon.closure)
        return number


def summed(
    inner: sparse.csr_matrix, synthons: Sequence[npt.NDArray[np.integer]], overlaps: Sequence[Overlap]
) -> sparse.csr_matrix:
    """Return the counts of products: counts of their synthons, plus environments over the cuts.

    Parameters
    ----------
    inner : csr_matrix
        `CutSpace.own`.
    synthons : list of integer arrays of shape (n,)
        Of each slot.
    overlaps : list of Overlap
        Of each slot.

    Returns
    -------
    csr_matrix of uint16
    """
    terms, places = [], []
    for slot, (counts, row, view) in zip(synthons, overlaps, strict=True):
        # The counts of a synthon are summed once, however many products have it.
        number = _distinct(slot.astype(np.int64))[1]
        first, place = _distinct(number * (int(view.max(initial=0)) + 1) + view)
        terms.append(inner[slot[first]] + counts[row[first]])
        places.append(place)
    if sum(int(term.data.max(initial=0)) for term in terms) <= MAX_COUNT:
        terms = [term.astype(np.uint16) for term in terms]  # a quarter of the bytes
    parts = []
    for start in range(0, max(1, len(synthons[0])), _ROWS):
        total, *others = (
            term[place[start : start + _ROWS]] for term, place in zip(terms, places, strict=True)
        )
        for other in others:
            total = total + other
        if total.dtype != np.uint16:
            total.data = np.minimum(total.data, MAX_COUNT).astype(np.uint16)
        parts.append(total)
    return parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr")


def _distinct(codes: Integers) -> tuple[Integers, Integers]:
    """Return the first position of each distinct code, ascending, and the place of each code among these.

    Codes are not negative. Small codes are not sorted, since sorting would take most of the time.
    """
    size = int(codes.max(initial=-1)) + 1
    if size > _LARGE + 4 * len(codes):
        _, first, place = np.unique(codes, return_index=True, return_inverse=True)
        return first.astype(np.int64), place.astype(np.int64).ravel()
    first = np.full(size, -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of equal codes, the first stays
    there = first >= 0
    return first[there], (np.cumsum(there) - 1)[codes]


def _covering(places: Sequence[Integers], firsts: Sequence[Integers]) -> tuple[list[int], list[Integers]]:
    """Return products that together have all keys of all slots, and by slot, which of them has each key.

    For each slot, `places` are the keys of the products, and `firsts` the first product with each key.
    """
    joined: list[int] = []
    for place, first in zip(places, firsts, strict=True):
        shown = np.zeros(len(first), bool)
        shown[place[joined]] = True
        joined += first[~shown].tolist()
    sources = [np.zeros(len(first), np.int64) for first in firsts]
    for place, source in zip(places, sources, strict=True):
        source[place[joined]] = np.arange(len(joined))
    return joined, sources


def _entries(made: Mapping[int, list[int] | str], blocks: npt.NDArray[np.int32]) -> Entries:
    """Return the entries of a slot."""
    refused: dict[str, list[int]] = {}
    pairs = []
    for block in blocks.tolist():
        if isinstance(result := made[block], str):
            refused.setdefault(result, []).append(block)
        else:
            pairs += [(block, synthon) for synthon in result]
    columns = np.array(pairs, np.int32).reshape(-1, 2)
    return Entries(columns[:, 0].copy(), columns[:, 1].copy(), refused)


def _counts_matrix(rows: Sequence[Mapping[int, int]], spec: FingerprintSpec) -> sparse.csr_matrix:
    """Return counts by column as a matrix with the columns of fingerprints."""
    dtype = np.int32 if spec.n_columns < 2**31 else np.int64
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    n_counts = int(sizes.sum())
    matrix = sparse.csr_matrix((len(rows), spec.n_columns), dtype=np.int64)
    matrix.indices = np.fromiter(_chained(sorted(row) for row in rows), dtype, n_counts)
    matrix.data = np.fromiter(_chained([row[c] for c in sorted(row)] for row in rows), np.int64, n_counts)
    matrix.indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(dtype)
    matrix.has_canonical_format = True
    return matrix


def _chained(groups: Iterable[Iterable[int]]) -> Iterable[int]:
    return (one for group in groups for one in group)


def in_helpers(
    maker: str,
    arguments: Sequence[Any],
    texts: Sequence[str],
    lost: Callable[[str], Any] | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> list[Any]:
    """Return the results of a function for some texts, from one helper process per processor.

    Parameters
    ----------
    maker, arguments, texts
        As in `daskrf.molecules.isolation.each`.
    lost : callable, optional
        Turns the reason why RDKit fails on a text into a result; default: raise an error.
    tell : callable, optional
        Called with the number of texts just done.

    Raises
    ------
    InputError
        If RDKit fails on a text.
    """
    size = min(_BATCH, max(_LEAST, -(-len(texts) // (_TURNS * processors()))))
    batches = [texts[start : start + size] for start in range(0, len(texts), size)]
    results: list[Any] = []
    with ThreadPoolExecutor(processors()) as pool:
        for answers in pool.map(lambda batch: each(maker, arguments, batch), batches):
            results += answers
            tell(len(answers))
    for i, one in enumerate(results):
        if isinstance(one, Lost):
            if lost is None:
                raise InputError(f"RDKit {one.reason} on {texts[i]}.")
            results[i] = lost(f"RDKit {one.reason}")
    return results
