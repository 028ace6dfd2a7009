"""Which products of a space contain a pattern, without making the products.

A pattern lies in one synthon; or some of its bonds are the new bonds, and each piece between them lies in one
synthon, at its cuts. A product contains the pattern if its synthons contain the pieces of one such way.
Synthons that contain the same pieces are one class, and classes are few.

Slots that are joined by two bonds, or three slots to each other, may have a ring in common. Whether its atoms
and bonds are in a ring then depends on all of their synthons, so pieces are looked for in synthons whose cuts
are joined, too. How large the ring is, and in how many rings an atom is, only the product tells.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase

from daskrf.errors import InputError
from daskrf.spaces.cut import CutSpace, in_helpers
from daskrf.spaces.families import Family, Side

_BEYOND = {  # words of RDKit's descriptions of queries, and what they are in SMARTS
    "Recursive": "$( )",
    "Hybridization": "^",
    "Heteroatom": "z or Z",
}

_RING_SIZES = re.compile(r"RingSize|AtomInNRings [1-9]")  # words of such queries

_MOST_PARTS = 32  # in which products of a group are scored; with more, they are small and slow
_WORD = 64  # bits

Way = Mapping[int, str]
"""A way to find a pattern: by slot, the SMARTS of the piece that its synthon contains."""

Bools = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp] | slice


@dataclass(frozen=True)
class PatternTable:
    """Which products of a family contain all wanted patterns, and none of the unwanted ones.

    Attributes
    ----------
    classes : list of int32 arrays
        Class of each synthon, by slot.
    allowed : bool array, shape (n classes of each slot, ...)
        Whether products of these classes are as asked for.
    """

    classes: list[npt.NDArray[np.int32]]
    allowed: Bools

    def holds(self, rows: Sequence[Integers]) -> Bools:
        """Return whether each of some products is as asked for, from the rows of its synthons by side."""
        where = tuple(of[each] for of, each in zip(self.classes, rows, strict=True))
        return np.asarray(self.allowed[where], bool)


def parts(patterns: PatternTable | None, rows: Sequence[Integers]) -> Iterator[list[Places]]:
    """Yield places in the rows of each side; together their products include all that are as asked for.

    Where few classes of synthons are combined, all products of the places are as asked for. Where many are,
    which would make many small parts, `PatternTable.holds` has to choose among the products. Without a table
    these are all places.

    Examples
    --------
    >>> allowed = np.array([[True, False], [True, True]])
    >>> table = PatternTable([np.array([0, 1]), np.array([0, 1, 1])], allowed)
    >>> [[at.tolist() for at in places] for places in parts(table, [np.arange(2), np.arange(3)])]
    [[[0, 1], [0]], [[1], [1, 2]]]
    """
    if patterns is None:
        yield [slice(None)] * len(rows)
        return
    classes = [of[each] for of, each in zip(patterns.classes, rows, strict=True)]
    free = int(np.argmax(patterns.allowed.shape))  # its classes are taken together
    allowed = np.moveaxis(patterns.allowed, free, -1)
    combinations = np.argwhere(allowed.any(axis=-1))
    if len(combinations) > _MOST_PARTS:
        axes = range(patterns.allowed.ndim)
        across = ([axis for axis in axes if axis != slot] for slot in axes)
        some = [np.asarray(patterns.allowed.any(axis=tuple(each))) for each in across]
        masks = [of_slot[each] for of_slot, each in zip(some, classes, strict=True)]
        if all(mask.any() for mask in masks):
            yield [np.flatnonzero(mask) for mask in masks]
        return
    others = [slot for slot in range(len(rows)) if slot != free]
    for chosen in combinations.tolist():
        of_slot = {slot: classes[slot] == c for slot, c in zip(others, chosen, strict=True)}
        of_slot[free] = allowed[tuple(chosen)][classes[free]]
        if all(mask.any() for mask in of_slot.values()):
            yield [np.flatnonzero(of_slot[slot]) for slot in range(len(rows))]


def read_pattern(smarts: str) -> Chem.Mol:
    """Return a pattern whose occurrences in products follow from those of its pieces in synthons.

    Raises
    ------
    InputError
        If it is no SMARTS, has several fragments, or asks for what lies beyond an atom and its bonds.

    Examples
    --------
    >>> read_pattern("c1ccccc1C(=O)N").GetNumAtoms()
    9
    >>> read_pattern("[N;$(NC=O)]")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    daskrf.errors.InputError: The pattern '[N;$(NC=O)]' asks by $( ) for what may lie in another block; ...
    """
    with rdBase.BlockLogs():
        pattern = Chem.MolFromSmarts(smarts)
    if pattern is None:
        raise InputError(f"{smarts!r} is not a SMARTS pattern that RDKit can read.")
    if not pattern.GetNumAtoms():
        raise InputError(f"The pattern {smarts!r} has no atoms.")
    if len(Chem.GetMolFrags(pattern)) > 1:
        raise InputError(f"The pattern {smarts!r} has several fragments; give each as a pattern of its own.")
    for atom in pattern.GetAtoms():
        words = [sign for word, sign in _BEYOND.items() if word in atom.DescribeQuery()]
        if words:
            raise InputError(
                f"The pattern {smarts!r} asks by {words[0]} for what may lie in another block; write it with "
                "the atoms that are meant."
            )
    return pattern


def is_decided(smarts: str, *, rings: bool = False) -> bool:
    """Return whether synthons decide which products contain a pattern, see `read_pattern`.

    With `rings`, also in reactions whose slots may close a ring together.

    Examples
    --------
    >>> is_decided("NC=O"), is_decided("[N;$(NC=O)]")
    (True, False)
    >>> is_decided("[C;r5]"), is_decided("[C;r5]", rings=True), is_decided("[C;R]", rings=True)
    (True, False, True)
    """
    try:
        pattern = read_pattern(smarts)
    except InputError:
        return False
    return not (rings and _asks_for_ring_sizes(pattern))


def _asks_for_ring_sizes(pattern: Chem.Mol) -> bool:
    """Whether a pattern asks how large a ring is, or in how many rings an atom is."""
    return any(_RING_SIZES.search(atom.DescribeQuery()) for atom in pattern.GetAtoms())


def ways(pattern: Chem.Mol, cuts: Sequence[Sequence[int]]) -> list[dict[int, str]]:
    """Return all ways to find a pattern in products.

    Parameters
    ----------
    pattern : rdkit.Chem.Mol
        From `read_pattern`.
    cuts : sequence of sequences of int
        The numbers of the cuts of each slot; each number is that of two slots.

    Examples
    --------
    >>> ways(read_pattern("CN"), [[1], [1]])  # doctest: +ELLIPSIS
    [{0: '[C&!#0][N&!#0]'}, {1: '[C&!#0][N&!#0]'}, {0: '[C&!#0][#0&1*]', 1: '[N&!#0][#0&1*]'}, ...]
    """
    joined = {
        number: [slot for slot, of in enumerate(cuts) if number in of] for each in cuts for number in each
    }
    every: list[dict[int, str]] = []
    for slot_of, new_bonds in _assigned(pattern, len(cuts), joined, [], {}):
        way = {}
        for slot in sorted(set(slot_of.values())):
            atoms = {atom for atom, of in slot_of.items() if of == slot}
            bonds = {index: pattern.GetBondWithIdx(index) for index in new_bonds}
            ends = {
                index: (atom, new_bonds[index])
                for index, bond in bonds.items()
                for atom in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
                if atom in atoms
            }
            way[slot] = _piece(pattern, atoms, ends)
        if way not in every:
            every.append(way)
    return sorted(every, key=len)


def _assigned(
    pattern: Chem.Mol,
    n_slots: int,
    joined: Mapping[int, Sequence[int]],
    slots: Sequence[tuple[int, int]],
    new_bonds: Mapping[int, int],
) -> Iterator[tuple[dict[int, int], dict[int, int]]]:
    """Yield all ways to give the atoms of a pattern to slots: by atom its slot, and by new bond its number.

    Bonds between atoms of different slots are new ones, and each new bond is at most one of them. `slots`
    and `new_bonds` say what is given so far, to atoms each of which is bound to an earlier one.
    """
    slot_of = dict(slots)
    around = [n.GetIdx() for atom in slot_of for n in pattern.GetAtomWithIdx(atom).GetNeighbors()]
    new = next((atom for atom in around if atom not in slot_of), None) if slot_of else 0
    if new is None:
        yield slot_of, dict(new_bonds)
        return
    bonds = [bond for bond in pattern.GetAtomWithIdx(new).GetBonds() if bond.GetOtherAtomIdx(new) in slot_of]
    for slot in range(n_slots):
        between = [
            (bond.GetIdx(), {slot, other})
            for bond in bonds
            if (other := slot_of[bond.GetOtherAtomIdx(new)]) != slot
        ]
        free = [number for number in joined if number not in new_bonds.values()]
        for numbers in itertools.permutations(free, len(between)):
            if all({*joined[number]} == pair for number, (_, pair) in zip(numbers, between, strict=True)):
                more = {index: number for number, (index, _) in zip(numbers, between, strict=True)}
                yield from _assigned(pattern, n_slots, joined, [*slots, (new, slot)], {**new_bonds, **more})


def _piece(pattern: Chem.Mol, atoms: set[int], ends: Mapping[int, tuple[int, int]]) -> str:
    """Return the SMARTS of some atoms of a pattern, none of them a dummy atom but those at the ends.

    `ends` gives, by bond, the atom of the piece and the number of the cut.
    """
    piece = Chem.RWMol(pattern)
    for atom in piece.GetAtoms():
        atom.ExpandQuery(Chem.AtomFromSmarts("[!#0]"))
    for bond, (end, number) in ends.items():
        dummy = piece.AddAtom(Chem.AtomFromSmarts(f"[#0&{number}*]"))
        piece.ReplaceBond(piece.AddBond(end, dummy, Chem.BondType.SINGLE) - 1, pattern.GetBondWithIdx(bond))
    piece.BeginBatchEdit()
    for index in set(range(pattern.GetNumAtoms())) - atoms:
        piece.RemoveAtom(index)
    piece.CommitBatchEdit()
    return str(Chem.MolToSmarts(piece))


class Matcher:
    """Function from the SMILES of a synthon to the numbers of the pieces of patterns in it, as text.

    Most pieces are ruled out by an atom, or a bond between two atoms, that the synthon lacks. Catalogs of
    alerts have thousands of pieces, which are made of hundreds of such bonds.

    Parameters
    ----------
    pieces : tuple of str
    ring : tuple of int
        Two cuts that may close a ring; else none. A synthon that does not fall apart between them has two
        texts, with a bar between: without the ring, and with it.

    Examples
    --------
    >>> Matcher(("[N&!#0]-[#0&1*]", "[O&!#0]", "[C&!#0]-[N&!#0]"))("[1*]NC")
    '0 2'
    >>> Matcher(("[N&!#0]-[#0&1*]", "[C&R&!#0]"), (1, 2))("[1*]NCC[2*]")
    '0|0 1'
    """

    def __init__(self, pieces: tuple[str, ...], ring: tuple[int, ...] = ()) -> None:
        self._ring = ring
        self._silence = rdBase.BlockLogs()
        self._pieces = [Chem.MolFromSmarts(piece) for piece in pieces]
        self._features: dict[str, int] = {}  # atoms, and bonds after their atoms
        self._atoms: list[tuple[int, ...]] = []  # of each feature that is a bond
        needed = [self._features_of(piece) for piece in self._pieces]
        self._queries = [Chem.MolFromSmarts(text) for text in self._features]
        self._needed = np.zeros((len(pieces), len(self._queries) // _WORD + 1), np.uint64)
        for row, features in zip(self._needed, needed, strict=True):
            for feature in features:
                row[feature // _WORD] |= np.uint64(1 << feature % _WORD)

    def _features_of(self, piece: Chem.Mol) -> set[int]:
        """Return the numbers of the atoms and bonds of a piece."""
        numbers = set()
        for bond in piece.GetBonds():
            ends = [bond.GetBeginAtom().GetSmarts(), bond.GetEndAtom().GetSmarts()]
            atoms = tuple(self._number(text, ()) for text in ends)
            text = bond.GetSmarts()  # type: ignore[call-arg]  # RDKit's stubs lack self
            numbers |= {*atoms, self._number(ends[0] + text + ends[1], atoms)}
        return numbers | {self._number(atom.GetSmarts(), ()) for atom in piece.GetAtoms()}

    def _number(self, text: str, atoms: tuple[int, ...]) -> int:
        if text not in self._features:
            self._features[text] = len(self._features)
            self._atoms.append(atoms)
        return self._features[text]

    def __call__(self, text: str) -> str:
        """Return the numbers, with spaces between."""
        molecule = Chem.MolFromSmiles(text)
        closed = _closed(molecule, self._ring) if self._ring else None
        return "|".join(self._there(each) for each in (molecule, closed) if each is not None)

    def _there(self, molecule: Chem.Mol) -> str:
        """Return the numbers of the pieces in a molecule."""
        lacking = np.zeros(self._needed.shape[1], np.uint64)
        there: list[bool] = []
        for feature, (query, atoms) in enumerate(zip(self._queries, self._atoms, strict=True)):
            there.append(all(there[atom] for atom in atoms) and molecule.HasSubstructMatch(query))
            if not there[-1]:
                lacking[feature // _WORD] |= np.uint64(1 << feature % _WORD)
        possible = np.flatnonzero(~(self._needed & lacking).any(axis=1)).tolist()
        return " ".join(str(i) for i in possible if molecule.HasSubstructMatch(self._pieces[i]))


def _closed(molecule: Chem.Mol, ring: Sequence[int]) -> Chem.Mol | None:
    """Return a synthon with a bond between the dummy atoms of two cuts; None if it falls apart there."""
    number_of = {atom.GetIdx(): atom.GetIsotope() for atom in molecule.GetAtoms() if not atom.GetAtomicNum()}
    dummies = [dummy for dummy, number in number_of.items() if number in ring]
    if not any({*dummies} <= {*atoms} for atoms in Chem.GetMolFrags(molecule)):
        return None
    joined = Chem.RWMol(molecule)
    joined.AddBond(dummies[0], dummies[1], Chem.BondType.SINGLE)
    Chem.FastFindRings(joined)
    return joined.GetMol()


def pattern_tables(
    cut: CutSpace,
    families: Sequence[Family],
    wanted: Sequence[str],
    unwanted: Sequence[str],
    tell: Callable[[int], None] = lambda _: None,
    *,
    unsearched: bool = False,
) -> list[PatternTable]:
    """Return which products of each family contain all wanted patterns, and none of the unwanted ones.

    Parameters
    ----------
    cut : CutSpace
    families : sequence of Family
    wanted, unwanted : sequence of str
        SMARTS.
    tell : callable, optional
        Called with the number of synthons just looked at; `n_looked_at` in all.
    unsearched : bool
        Whether the products of families that are not searched are allowed.

    Returns
    -------
    list of PatternTable
    """
    patterns = [read_pattern(smarts) for smarts in (*wanted, *unwanted)]
    tables, ways_of_cuts = [], dict[tuple[tuple[int, ...], ...], list[list[dict[int, str]]]]()
    for family in families:
        if not is_searched(cut, family, (*wanted, *unwanted)):
            none = [np.zeros(len(side), np.int32) for side in family.sides]
            tables.append(PatternTable(none, np.full((1,) * len(none), unsearched)))
            continue
        cuts = tuple(tuple(half.cuts) for half in cut.space.reactions[family.reactions[0]].halves)
        if cuts not in ways_of_cuts:
            ways_of_cuts[cuts] = [ways(pattern, cuts) for pattern in patterns]
        of_pattern = ways_of_cuts[cuts]
        first = family.reactions[0]
        slots = [_Slot.of(cut, first, slot, side, of_pattern, tell) for slot, side in enumerate(family.sides)]
        table = PatternTable(
            [np.zeros(len(slot.contained), np.int32) for slot in slots], np.ones((1,) * len(slots), bool)
        )
        for number, each in enumerate(of_pattern):
            table = _both(table, _table_of_pattern(each, slots, wanted=number < len(wanted)))
        classes = [of[slot.alike] for of, slot in zip(table.classes, slots, strict=True)]
        tables.append(PatternTable(classes, table.allowed))
    return tables


@dataclass(frozen=True)
class _Slot:
    """Which pieces of patterns the synthons of a slot contain.

    Attributes
    ----------
    alike : int array
        By synthon: synthons with the same number contain the same pieces.
    contained, in_ring : bool arrays, shape (n numbers, n pieces)
        Without a ring that several slots close together, and with it.
    closes : bool array, shape (n numbers,)
        Whether they may close such a ring.
    of_ring : bool
        Whether such a ring may pass through the slot.
    place : dict of str to int
        Place of each piece.
    """

    alike: npt.NDArray[np.intp]
    contained: Bools
    in_ring: Bools
    closes: Bools
    of_ring: bool
    place: Mapping[str, int]

    @classmethod
    def of(
        cls,
        cut: CutSpace,
        reaction: int,
        slot: int,
        side: Side,
        of_pattern: Sequence[Sequence[Way]],
        tell: Callable[[int], None],
    ) -> _Slot:
        """Look for the pieces of this slot in its synthons."""
        pieces = tuple(dict.fromkeys(way[slot] for each in of_pattern for way in each if slot in way))
        texts = [cut.smiles[synthon] for synthon in side.synthon.tolist()]
        ring = cut.space.reactions[reaction].halves[slot].ring
        cuts = ring.cuts if ring else ()
        marks = in_helpers("daskrf.spaces.patterns:Matcher", (pieces, cuts), texts, tell=tell)
        distinct, alike = np.unique(np.array(marks, str), return_inverse=True)
        contained, in_ring = (np.zeros((len(distinct), len(pieces)), bool) for _ in range(2))
        for number, mark in enumerate(distinct.tolist()):
            for row, some in zip((contained[number], in_ring[number]), 2 * mark.split("|"), strict=False):
                row[list(map(int, some.split()))] = True
        return cls(
            alike=alike.ravel(),
            contained=contained,
            in_ring=in_ring,
            closes=np.array(["|" in mark for mark in distinct.tolist()], bool),
            of_ring=ring is not None,
            place={piece: i for i, piece in enumerate(pieces)},
        )


def _table_of_pattern(every_way: Sequence[Way], slots: Sequence[_Slot], *, wanted: bool) -> PatternTable:
    """Return the table of one pattern, for all `_Slot.contained`."""
    classes, contained, in_ring, closes = [], [], [], []
    for number, slot in enumerate(slots):
        pieces = list(dict.fromkeys(way[number] for way in every_way if number in way))
        at = [slot.place[piece] for piece in pieces]
        columns = np.column_stack([slot.contained[:, at], slot.in_ring[:, at], slot.closes])
        distinct, of = np.unique(columns, axis=0, return_inverse=True)
        classes.append(of.ravel().astype(np.int32))
        contained.append(dict(zip(pieces, distinct.T[: len(at)], strict=True)))
        in_ring.append(dict(zip(pieces, distinct.T[len(at) : -1], strict=True)))
        closes.append({"": distinct[:, -1]})
    shape = tuple(int(of.max(initial=-1)) + 1 for of in classes)
    there, with_ring = (_any_of(every_way, pieces, shape) for pieces in (contained, in_ring))
    of_ring = {number: "" for number, slot in enumerate(slots) if slot.of_ring}
    if of_ring:
        there = np.where(_together(of_ring, closes, shape), with_ring, there)
    return PatternTable(classes, there if wanted else ~there)


def _any_of(
    every_way: Sequence[Way], contained: Sequence[Mapping[str, Bools]], shape: tuple[int, ...]
) -> Bools:
    """Return which combinations of classes contain the pieces of any way."""
    there = np.zeros(shape, bool)
    for way in every_way:
        there |= _together(way, contained, shape)
    return there


def _both(one: PatternTable, other: PatternTable) -> PatternTable:
    """Return the table of products that two tables allow; synthons with the same partners are one class."""
    pairs, places, classes = [], [], list[npt.NDArray[np.int32]]()
    for pair in zip(one.classes, other.classes, strict=True):
        distinct, of = np.unique(np.column_stack(pair), axis=0, return_inverse=True)
        pairs.append(of.ravel())
        places.append(distinct.T)
    allowed = (
        one.allowed[np.ix_(*(of for of, _ in places))] & other.allowed[np.ix_(*(of for _, of in places))]
    )
    for slot, of in enumerate(pairs):
        rows = np.moveaxis(allowed, slot, 0)
        _, first, merged = np.unique(
            rows.reshape(len(rows), -1), axis=0, return_index=True, return_inverse=True
        )
        allowed = np.moveaxis(rows[first], 0, slot)
        classes.append(merged.ravel()[of].astype(np.int32))
    return PatternTable(classes, allowed)


def is_searched(cut: CutSpace, family: Family, patterns: Sequence[str]) -> bool:
    """Tell whether some patterns are looked for in a family.

    They are not if one asks for sizes or numbers of rings, and slots may close a ring together.
    """
    return not closes_rings(cut, family) or all(is_decided(smarts, rings=True) for smarts in patterns)


def closes_rings(cut: CutSpace, family: Family) -> bool:
    """Tell whether slots of a family are joined so that they may close a ring together."""
    return any(half.ring for half in cut.space.reactions[family.reactions[0]].halves)


def by_rdkit(texts: Sequence[str], wanted: Sequence[str], unwanted: Sequence[str]) -> Bools:
    """Return which molecules contain all wanted patterns and none of the unwanted ones, one by one.

    Examples
    --------
    >>> by_rdkit(["CN", "CO"], ["C"], ["O"]).tolist()
    [True, False]
    """
    molecules = [Chem.MolFromSmiles(text) for text in texts]
    here, absent = (list(map(read_pattern, of)) for of in (wanted, unwanted))
    return np.array(
        [
            all(map(molecule.HasSubstructMatch, here)) and not any(map(molecule.HasSubstructMatch, absent))
            for molecule in molecules
        ],
        bool,
    )


def n_looked_at(cut: CutSpace, families: Sequence[Family], patterns: Sequence[str]) -> int:
    """Return the number of synthons that `pattern_tables` looks at."""
    searched = (family for family in families if is_searched(cut, family, patterns))
    return sum(len(side) for family in searched for side in family.sides)


def _together(way: Way, contained: Sequence[Mapping[str, Bools]], shape: tuple[int, ...]) -> Bools:
    """Return which combinations of classes contain the pieces of a way."""
    mask = np.ones(shape, bool)
    for slot, piece in way.items():
        along = [1] * len(shape)
        along[slot] = shape[slot]
        mask &= contained[slot][piece].reshape(along)
    return mask


class AllowedProducts:
    """The products that are as asked for, by place from 0: combinations of synthons of allowed classes.

    Parameters
    ----------
    families : sequence of Family
    tables : sequence of PatternTable
        One for each family.
    """

    def __init__(self, families: Sequence[Family], tables: Sequence[PatternTable]) -> None:
        self._families = families
        self._blocks: list[tuple[int, list[npt.NDArray[np.intp]]]] = []
        for number, table in enumerate(tables):
            members = [[np.flatnonzero(of == c) for c in range(of.max() + 1)] for of in table.classes]
            for chosen in np.argwhere(table.allowed).tolist():
                self._blocks.append((number, [rows[c] for rows, c in zip(members, chosen, strict=True)]))
        sizes = (math.prod(map(len, rows)) for _, rows in self._blocks)
        self._starts = [0, *itertools.accumulate(sizes)]

    def __len__(self) -> int:
        """Return the number of combinations, of which no reaction may make some."""
        return self._starts[-1]

    def numbers(self, places: Integers) -> Integers:
        """Return the numbers of the products at some places; -1 where no reaction makes one."""
        numbers = np.full(len(places), -1, np.int64)
        block = np.searchsorted(np.array(self._starts[1:], np.int64), places, side="right")
        for b in np.unique(block).tolist():
            family, members = self._blocks[b]
            at = np.flatnonzero(block == b)
            rest, rows = places[at] - self._starts[b], list[Integers]()
            for of_slot in reversed(members):
                rest, place = np.divmod(rest, len(of_slot))
                rows.append(of_slot[place])
            numbers[at] = self._families[family].number(rows[::-1])
        return numbers


def n_allowed(family: Family, table: PatternTable) -> int:
    """Return the number of products that are as asked for; each combination of synthons counts once."""
    kinds = [
        np.unique(np.column_stack([of, (side.places >= 0).T]), axis=0, return_counts=True)
        for side, of in zip(family.sides, table.classes, strict=True)
    ]  # by slot: class and which reactions have a synthon, and how many synthons are alike in this
    total = 0
    for each in itertools.product(*(zip(*kind, strict=True) for kind in kinds)):
        made = np.logical_and.reduce([row[1:] for row, _ in each]).any()
        if made and table.allowed[tuple(int(row[0]) for row, _ in each)]:
            total += int(np.prod([int(n) for _, n in each], dtype=object))
    return total
