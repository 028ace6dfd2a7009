"""Synthons of building blocks, their joining, and the counts of their Morgan environments.

This module runs in the helper processes of `daskrf.molecules.isolation`.

Why counts of products are exact sums: a cut is a single bond outside of rings, so joining changes neither
rings nor aromaticity, nor the charges or hydrogen counts of atoms. An environment of radius r around an atom
of one synthon depends on that synthon alone, unless it reaches over the cut, as it does around atoms fewer
than r bonds from the attachment point. Such environments depend on the `Reach` of the partner: for r = 1, the
invariant of the atom behind the cut, and for r = 2, also the bonds and invariants of its neighbours. RDKit
drops an environment with the same bonds as another one. Environments around atoms of two synthons can have
the same bonds only for r = 2, when every bond lies next to the cut (and for r = 1, when the product has two
atoms); whether this can happen is part of the reach, too.

Where two slots are joined by two bonds, or three slots to each other, these may be in a ring of all of these
synthons (`daskrf.spaces.closures`). Then environments that see an atom which only this ring makes a ring atom
depend on the partners as well: they count as if the atom lay behind a cut. In rings of up to six atoms,
environments around atoms of several synthons can have the same bonds, so that the reach of a short path is
all of its surroundings. Whether three slots close a ring depends on two partners of each, so that their
environments depend on the reaches of both.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from rdkit import Chem, rdBase
from rdkit.Chem import rdChemReactions, rdFingerprintGenerator

from daskrf.errors import InputError
from daskrf.molecules.counts.spec import FingerprintSpec
from daskrf.spaces.closures import Closure, Ring, closed, closure_of, rings_of
from daskrf.spaces.limits import SUMS, sums_of
from daskrf.spaces.reactions import Half, Reaction

LARGEST_RADIUS = 2
_SHORT = 3  # atoms of a path whose ring of two slots may be so small that its reach is all around it
_REMEMBERED = 4096  # synthons that a process has read
_LINKER = 2  # atoms that stand for a partner which closes a ring
_URANIUM = 92  # and the three elements after it: attachment points in tables that avoid dummy atoms


class Reach(NamedTuple):
    """What environments around atoms of its partners depend on in a synthon.

    Attributes
    ----------
    cuts : tuple of int
        The numbers of its cuts, ascending.
    seen : tuple of int
        Hash of what is seen over each cut: equal hashes give equal counts.
    shared : bool
        Whether several cuts are at one atom, so that an environment of one partner may reach to another one;
        or whether a ring that one partner closes is seen by another one, or passes through all slots.
    """

    cuts: tuple[int, ...]
    seen: tuple[int, ...]
    shared: bool


class Synthon(NamedTuple):
    """The part of a block that stays in the product.

    Attributes
    ----------
    smiles : str
        With a dummy atom at each cut, whose isotope is the number of the cut.
    inner : dict of int to int
        Counts of the environments that end before the cuts, by column.
    edge : int
        Hash of what determines, in this synthon, the environments around its atoms that reach over a cut:
        equal hashes give equal counts.
    reach : Reach
        What determines, in this synthon, the environments around atoms of its partners.
    sums : tuple of float
        See `daskrf.spaces.limits`; the sums of a product are those of its synthons, added up.
    closure : Closure, optional
        What it is between the two cuts of a ring.
    """

    smiles: str
    inner: dict[int, int]
    edge: int
    reach: Reach
    sums: tuple[float, ...]
    closure: Closure | None = None


def check_spec(spec: FingerprintSpec) -> None:
    """Raise InputError unless fingerprints of products are sums over their synthons.

    Examples
    --------
    >>> check_spec(FingerprintSpec(["morgan:1", "morgan:2"]))
    >>> check_spec(FingerprintSpec("atompair"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    daskrf.errors.InputError: Fingerprints of the kind 'atompair' are not sums over synthons; ...
    """
    take = f"use counts of Morgan environments of radius 1 or {LARGEST_RADIUS}, such as --kind morgan:2"
    for kind in spec.kinds:
        if kind.kind != "morgan" or kind.radius > LARGEST_RADIUS or kind.features:
            raise InputError(f"Fingerprints of the kind {kind.name!r} are not sums over synthons; {take}.")
    if spec.chirality or not spec.counts:
        what = "Chiral" if spec.chirality else "Binary"
        raise InputError(f"{what} fingerprints are not sums over synthons; {take}.")


class Cutter:
    """Function from the SMILES of a block to its distinct synthons, or the reason why it has none.

    Examples
    --------
    >>> from daskrf.spaces.reactions import Half
    >>> acid = Half("([O&H1][C:1]([*:2])=[O:3])>>([C:1]([*:2])(=[O:3])-[1*])", False, (1,))
    >>> cut = Cutter(acid, FingerprintSpec("morgan"))
    >>> [synthon.smiles for synthon in cut("CC(=O)O")], cut("CCO")
    (['[1*]C(C)=O'], 'it does not match its slot')
    """

    def __init__(self, half: Half, spec: FingerprintSpec) -> None:
        self._silence = rdBase.BlockLogs()
        self._half, self._environments = half, _Environments(spec)
        self._donated = dict(half.donated)
        self._reaction = rdChemReactions.ReactionFromSmarts(half.smarts)
        self._reaction.Initialize()

    def __call__(self, text: str) -> list[Synthon] | str:
        """Return the synthons of a block."""
        block = Chem.MolFromSmiles(text)
        if block is None:
            return "RDKit cannot read it"
        if "." in text:
            return "it has several fragments; strip salts and solvents"
        if any(atom.GetAtomicNum() == 0 for atom in _atoms(block)):
            return "it has a dummy atom"
        synthons: dict[str, Chem.Mol] = {}
        for outcome in outcomes(self._reaction, [block], [self._half.hydrogens]):
            left = Chem.RWMol(outcome) if self._donated else outcome
            if self._donated and (reason := _cut_off(left, self._donated, block)):
                return reason
            if smiles := finished(left):
                synthons.setdefault(smiles, Chem.MolFromSmiles(smiles))
        if not synthons:
            return "it does not match its slot"
        return _described(sorted(synthons.items()), self._environments, self._half.ring)


class Opener:
    """Function from the SMILES of a synthon in a table to a list with the synthon, or to why it is invalid.

    Examples
    --------
    >>> from daskrf.spaces.reactions import Half
    >>> opened = Opener(Half("", False, (1,)), FingerprintSpec("morgan"))
    >>> [synthon.smiles for synthon in opened("CC(=O)[U]")], opened("CC=[1*]")
    (['[1*]C(C)=O'], 'its attachment point 1 is not at the end of a single bond')
    """

    def __init__(self, half: Half, spec: FingerprintSpec) -> None:
        self._silence = rdBase.BlockLogs()
        self._half, self._environments = half, _Environments(spec)

    def __call__(self, text: str) -> list[Synthon] | str:
        """Return the synthon."""
        read = Chem.MolFromSmiles(text)
        if read is None:
            return "RDKit cannot read it"
        if "." in text:
            return "it has several fragments"
        molecule, points = Chem.RWMol(read), []
        for atom in molecule.GetAtoms():
            if number := _point(atom):
                if [bond.GetBondType() for bond in atom.GetBonds()] != [Chem.BondType.SINGLE]:
                    return f"its attachment point {number} is not at the end of a single bond"
                if atom.GetNeighbors()[0].GetAtomicNum() == 1:  # RDKit would count it with its neighbour
                    return f"its attachment point {number} is at a hydrogen atom, which joins nothing"
                points.append(number)
                atom.SetAtomicNum(0)
                atom.SetIsotope(number)
                atom.SetAtomMapNum(0)
                atom.SetNoImplicit(False)
            elif atom.GetAtomicNum() == 0:
                return "it has a dummy atom without a number"
        if tuple(sorted(points)) != self._half.cuts:
            expected = ", ".join(map(str, self._half.cuts))
            return f"its attachment points are not those of most of its slot ({expected})"
        smiles = canonical(molecule)
        return _described([(smiles, Chem.MolFromSmiles(smiles))], self._environments, self._half.ring)


def _described(
    synthons: list[tuple[str, Chem.Mol]], environments: _Environments, ring: Ring | None
) -> list[Synthon] | str:
    """Return the synthons of a block from their SMILES and molecules, or why it has none."""
    described = []
    for smiles, molecule in synthons:
        sums, closure = sums_of(molecule), _closure_between(molecule, ring)
        if isinstance(closure, str):
            return closure
        if ring and closure:
            sums = _with_ring(sums, len(Chem.GetMolFrags(molecule)), ring.slots)
        described.append(Synthon(smiles, *environments.of_synthon(molecule, ring, closure), sums, closure))
    return described


def _closure_between(molecule: Chem.Mol, ring: Ring | None) -> Closure | str | None:
    """Return what a synthon is between the cuts of a ring, or why it cannot be; None without a ring."""
    if ring is None:
        return None
    return closure_of(molecule, _dummies(molecule, ring))


def _dummies(molecule: Chem.Mol, ring: Ring) -> tuple[int, int]:
    """Return the dummy atoms at the two cuts of a ring."""
    at = {_number(atom): atom.GetIdx() for atom in _atoms(molecule)}
    return at[ring.cuts[0]], at[ring.cuts[1]]


def _with_ring(sums: tuple[float, ...], n_fragments: int, n_slots: int) -> tuple[float, ...]:
    """Return sums whose rings add up to those of products in which slots may close a ring.

    A product has as many rings as bonds more than atoms, plus 1. Each of n synthons has an n-th of the bond
    that may close the ring; one of two fragments takes the place of a ring.
    """
    place = SUMS.index("rings")
    return (*sums[:place], sums[place] + (n_slots + 1) / n_slots - n_fragments, *sums[place + 1 :])


class Reactor:
    """Function from the SMILES of blocks, separated by spaces, to the SMILES of all their products by RDKit.

    Examples
    --------
    >>> from daskrf.spaces.reactions import Reaction
    >>> amide = Reaction("amide", "[N:1]([H])[*:2].[OH][C:3]=[O:4]>>[*:2][N:1][C:3]=[O:4]")
    >>> Reactor(amide)("NCCNC CC(=O)O")
    ['CNCCNC(C)=O', 'CC(=O)N(C)CCN']
    """

    def __init__(self, reaction: Reaction) -> None:
        self._silence = rdBase.BlockLogs()
        self._reaction = reaction

    def __call__(self, text: str) -> list[str]:
        """Return the products, each once."""
        blocks = [Chem.MolFromSmiles(block) for block in text.split()]
        made = map(finished, outcomes(self._reaction.rdkit, blocks, self._reaction.hydrogens))
        return sorted({smiles for smiles in made if smiles}, reverse=True)


def outcomes(
    reaction: rdChemReactions.ChemicalReaction, blocks: list[Chem.Mol], hydrogens: list[bool]
) -> Iterator[Chem.Mol]:
    """Yield the products of some blocks by RDKit, before sanitization."""
    molecules = [Chem.AddHs(b) if needed else b for b, needed in zip(blocks, hydrogens, strict=True)]
    met = set()
    for (product,) in reaction.RunReactants(molecules, maxProducts=0):
        if len(blocks) == 1:  # equivalent hydrogen atoms give the same product again
            origins = frozenset(_origin(atom) for atom in _atoms(product) if not _is_plain_hydrogen(atom))
            if origins in met:
                continue
            met.add(origins)
        yield product


def finished(product: Chem.Mol) -> str:
    """Return the canonical SMILES of an outcome; empty if it is not a molecule, such as for a bad valence."""
    try:
        Chem.SanitizeMol(product)
        return canonical(Chem.RemoveHs(product))
    except (ValueError, RuntimeError):
        return ""


def _cut_off(product: Chem.RWMol, donated: Mapping[int, int], block: Chem.Mol) -> str:
    """Replace atoms that a block donates to other slots by dummy atoms; return why it cannot, or ""."""
    atoms = [atom for atom in _atoms(product) if _origin(atom)[1] in donated]
    for atom in atoms:
        source, number = _origin(atom)
        block_atom = block.GetAtomWithIdx(source)
        # RDKit copies these to the product. It may keep hydrogens that are written, as in [CH2].
        if (
            block_atom.GetIsotope()
            or block_atom.GetChiralTag()
            or block_atom.GetNoImplicit()
            or atom.GetFormalCharge()
        ):
            return "it gives a ring an atom with a charge, isotope, stereocentre or written hydrogens"
        bonds = [
            (bond.GetBondType(), _origin(bond.GetOtherAtom(atom))[1] in donated) for bond in atom.GetBonds()
        ]
        if bonds != ([(Chem.BondType.SINGLE, False)] if donated[number] else []):
            return "it gives a ring an atom with other bonds than its template has"
        if donated[number] and atom.GetNeighbors()[0].GetAtomicNum() == 1:  # which the ring atom would count
            return "it has a hydrogen atom where the ring should be bound to the rest of it"
    product.BeginBatchEdit()
    for atom in atoms:
        if cut := donated[_origin(atom)[1]]:
            atom.SetAtomicNum(0)
            atom.SetIsotope(cut)
            atom.SetIsAromatic(False)
            atom.SetNumExplicitHs(0)
            atom.SetNoImplicit(False)
        else:
            product.RemoveAtom(atom.GetIdx())
    product.CommitBatchEdit()
    return ""


def _is_plain_hydrogen(atom: Chem.Atom) -> bool:
    """Whether this is a hydrogen atom without isotope, equivalent to any other."""
    return atom.GetAtomicNum() == 1 and not atom.GetIsotope()


def _origin(atom: Chem.Atom) -> tuple[int, int]:
    """Return the atom of the block that an atom of a product comes from, and its number in the reaction."""
    number = atom.GetIntProp("old_mapno") if atom.HasProp("old_mapno") else 0
    return atom.GetIntProp("react_atom_idx") if atom.HasProp("react_atom_idx") else -1, number


def canonical(molecule: Chem.Mol) -> str:
    """Return canonical SMILES that do not change when read and written again."""
    smiles = str(Chem.MolToSmiles(molecule))
    # Interdependent stereocentres may be written in two ways at first.
    return str(Chem.CanonSmiles(smiles)) if set(smiles) & set("@/\\") else smiles


def join(synthons: list[str]) -> Chem.Mol:
    """Return the product of some synthons; each atom has its origin as properties "slot" and "atom".

    Examples
    --------
    >>> Chem.MolToSmiles(join(["[1*]C(C)=O", "[1*]NC"]))
    'CNC(C)=O'
    """
    return _zipped([_marked(slot, smiles) for slot, smiles in enumerate(synthons)])


def _marked(slot: int, smiles: str) -> Chem.Mol:
    """Return a synthon with the origin of each atom as properties."""
    molecule = Chem.MolFromSmiles(smiles)
    for atom in _atoms(molecule):
        atom.SetIntProp("slot", slot)
        atom.SetIntProp("atom", atom.GetIdx())
    return molecule


def _zipped(synthons: Sequence[Chem.Mol]) -> Chem.Mol:
    """Return the product of some synthons, which stay as they are."""
    whole = functools.reduce(Chem.CombineMols, synthons)
    settings = Chem.MolzipParams()
    settings.label = Chem.MolzipLabel.Isotope
    joined = Chem.molzip(whole, settings)
    Chem.SanitizeMol(joined)
    return joined


def joiner() -> object:
    """Return a function from synthons, separated by spaces, to the canonical SMILES of their product."""
    silence = rdBase.BlockLogs()

    def joined(text: str) -> str:
        assert silence is not None  # for the lifetime of the function
        return canonical(join(text.split()))

    return joined


class Edges:
    """Function from synthons, separated by spaces, to the counts of environments over cuts.

    It returns one dict per synthon: counts of the environments around its atoms, by column.
    """

    def __init__(self, spec: FingerprintSpec) -> None:
        self._silence = rdBase.BlockLogs()
        self._environments = _Environments(spec)
        # A synthon is joined to many others, and reading it takes as long as joining it.
        self._synthon = functools.lru_cache(_REMEMBERED)(_marked)
        self._near = functools.lru_cache(_REMEMBERED)(self._near_cuts)

    def __call__(self, text: str) -> list[dict[int, int]]:
        """Return the counts of each synthon."""
        synthons = text.split()
        every = [self._synthon(slot, synthon) for slot, synthon in enumerate(synthons)]
        molecule = _zipped(every)
        several = sum(synthon.count("*]") > 1 for synthon in synthons) > 1  # what most products have not
        rings = rings_of([_cuts(synthon) for synthon in every]) if several else [None] * len(every)
        near = [
            self._near(slot, synthons[slot]) if ring is None else _nearest(one, _closure_between(one, ring))
            for slot, (one, ring) in enumerate(zip(every, rings, strict=True))
        ]
        places = [(atom.GetIntProp("slot"), atom.GetIntProp("atom")) for atom in _atoms(molecule)]
        totals = [Counter[int]() for _ in synthons]
        for identifier, atom, radius in self._environments.counted(molecule):
            slot, place = places[atom]
            if near[slot].get(place, radius) < radius:
                totals[slot].update(self._environments.columns(identifier, radius))
        return [dict(counts) for counts in totals]

    def _near_cuts(self, slot: int, synthon: str) -> dict[int, int]:
        return _nearest(self._synthon(slot, synthon), None)


class _Environments:
    """The Morgan environments of molecules, one by one, and their columns."""

    def __init__(self, spec: FingerprintSpec) -> None:
        check_spec(spec)
        self.radius = max(kind.radius for kind in spec.kinds)
        self._kinds = [
            (k.radius, first) for k, (first, _) in zip(spec.kinds, spec.columns.values(), strict=True)
        ]
        self._size = spec.size
        make = rdFingerprintGenerator.GetMorganGenerator
        self._counted = make(radius=self.radius, countSimulation=False)
        self._all = make(radius=self.radius, countSimulation=False, includeRedundantEnvironments=True)

    def columns(self, identifier: int, radius: int) -> list[int]:
        """Return the columns of an environment, one for each kind that includes its radius."""
        column = identifier % self._size if self._size else identifier
        return [first + column for largest, first in self._kinds if radius <= largest]

    def counted(self, molecule: Chem.Mol) -> Iterator[tuple[int, int, int]]:
        """Yield identifier, centre and radius of each environment that RDKit counts."""
        return self._each(self._counted, molecule)

    def _each(self, generator: Any, molecule: Chem.Mol) -> Iterator[tuple[int, int, int]]:
        output = rdFingerprintGenerator.AdditionalOutput()
        output.AllocateBitInfoMap()
        generator.GetSparseCountFingerprint(molecule, additionalOutput=output)
        for identifier, places in output.GetBitInfoMap().items():
            for atom, radius in places:
                yield identifier, atom, radius

    def of_synthon(
        self, molecule: Chem.Mol, ring: Ring | None = None, closure: Closure | None = None
    ) -> tuple[dict[int, int], int, Reach]:
        """Return the attributes `inner`, `edge` and `reach` of a synthon.

        `ring` is one that may pass through it, and `closure` what it is between the cuts of this ring.
        """
        near = _near(molecule, closure)
        counted = {(atom, radius): identifier for identifier, atom, radius in self.counted(molecule)}
        numbers = {atom.GetIdx(): number for atom in _atoms(molecule) if (number := _number(atom))}
        cuts, inner = tuple(sorted(numbers.values())), Counter[int]()
        for (atom, radius), identifier in counted.items():
            if atom not in numbers and (atom not in near or min(near[atom]) >= radius):
                inner.update(self.columns(identifier, radius))
        ends = _ends(molecule)
        shared = len(set(ends)) < len(ends)
        every = self._identifiers(molecule)
        seen = [self._seen(molecule, end, every) for end in ends]
        edge: list[Any] = _edge(near, every, counted)
        if ring and closure:
            edge = [edge]
            shared |= ring.slots > 2
            short = _SHORT + ring.slots - 2
            if closure.length:
                other = closed(molecule, _dummies(molecule, ring), _LINKER)
                every = self._identifiers(other)
                places = {(atom, radius) for _, atom, radius in self.counted(other)}
                edge.append(_edge(near, every, places))
                in_ring = [self._seen(other, end, every) for end in ends]
                shared |= any(
                    a != b for c, a, b in zip(cuts, seen, in_ring, strict=True) if c not in ring.cuts
                )
                seen = [_digest(*both) for both in zip(seen, in_ring, strict=True)]
            around = (edge, _surroundings(molecule, near)) if 0 < closure.length <= short else ()
            what = closure.length > 0, around
            seen = [_digest(a, what) if c in ring.cuts else a for c, a in zip(cuts, seen, strict=True)]
        reach = Reach(cuts, tuple(seen), shared)
        return dict(inner), _digest(edge, reach), reach

    def _identifiers(self, molecule: Chem.Mol) -> dict[tuple[int, int], int]:
        """Return the identifier of the environment of each atom and radius, counted or not."""
        return {(atom, radius): identifier for identifier, atom, radius in self._each(self._all, molecule)}

    def _seen(self, molecule: Chem.Mol, end: int, every: dict[tuple[int, int], int]) -> int:
        """Return a hash of what environments of a partner see behind the cut at atom `end`."""
        if self.radius < LARGEST_RADIUS:
            return _digest(every[end, 0])
        atom = molecule.GetAtomWithIdx(end)
        star = all(n.GetDegree() == 1 for n in atom.GetNeighbors())
        return _digest(every[end, 0], every.get((end, 1)), star)


def _edge(
    near: Mapping[int, tuple[int, ...]],
    every: Mapping[tuple[int, int], int],
    counted: Collection[tuple[int, int]],
) -> list[tuple[tuple[int, ...], int, int, bool]]:
    """Return the environments that reach over a cut, and those next to one, by atom and radius."""
    return sorted(
        (near[atom], radius, identifier, (atom, radius) in counted)
        for (atom, radius), identifier in every.items()
        if atom in near and min(near[atom]) < max(radius, 1)
    )


def _atoms(molecule: Chem.Mol) -> list[Chem.Atom]:
    """Return the atoms of a molecule; RDKit's own sequence takes several times as long."""
    return [molecule.GetAtomWithIdx(i) for i in range(molecule.GetNumAtoms())]


def _number(atom: Chem.Atom) -> int:
    """Return the number of the cut that a dummy atom stands for; 0 for other atoms."""
    return atom.GetIsotope() if atom.GetAtomicNum() == 0 else 0


def _point(atom: Chem.Atom) -> int:
    """Return the number of the attachment point that an atom of a table of synthons stands for, or 0."""
    if atom.GetAtomicNum() == 0:
        return atom.GetIsotope() or atom.GetAtomMapNum()
    return atom.GetAtomicNum() - _URANIUM + 1 if _URANIUM <= atom.GetAtomicNum() < _URANIUM + 4 else 0


def _cuts(molecule: Chem.Mol) -> tuple[int, ...]:
    """Return the numbers of the cuts of a synthon, ascending."""
    return tuple(sorted(number for atom in _atoms(molecule) if (number := _number(atom))))


def _ends(molecule: Chem.Mol) -> list[int]:
    """Return the atom at each cut of a synthon, in the order of the cuts."""
    dummies = [(number, atom) for atom in _atoms(molecule) if (number := _number(atom))]
    return [atom.GetNeighbors()[0].GetIdx() for _, atom in sorted(dummies, key=itemgetter(0))]


def _near(molecule: Chem.Mol, closure: Closure | str | None) -> dict[int, tuple[int, ...]]:
    """Return, for atoms less than `LARGEST_RADIUS` bonds from a cut, the number of bonds to each cut.

    If a partner may close a ring, the last number is that of bonds to an atom that is in a ring only then,
    less one: as if it lay behind a cut.
    """
    starts = [({end}, 0) for end in _ends(molecule)]
    if isinstance(closure, Closure):
        starts.append((set(closure.in_ring), -1))
    distances: dict[int, list[int]] = {}
    for place, (layer, first) in enumerate(starts):
        for distance in range(first, LARGEST_RADIUS):
            for atom in layer:
                far = distances.setdefault(atom, [LARGEST_RADIUS] * len(starts))
                far[place] = min(far[place], distance)
            around = (n for atom in layer for n in molecule.GetAtomWithIdx(atom).GetNeighbors())
            layer = {n.GetIdx() for n in around if not _number(n)}
    return {atom: tuple(far) for atom, far in distances.items()}


def _nearest(molecule: Chem.Mol, closure: Closure | str | None) -> dict[int, int]:
    """Return the least of the numbers of bonds from `_near`, by atom."""
    return {atom: min(far) for atom, far in _near(molecule, closure).items()}


def _surroundings(molecule: Chem.Mol, near: Mapping[int, tuple[int, ...]]) -> str:
    """Return the SMILES of the atoms near the cuts, and of their neighbours."""
    atoms = {n.GetIdx() for atom in near for n in molecule.GetAtomWithIdx(atom).GetNeighbors()}
    return str(Chem.MolFragmentToSmiles(molecule, sorted(atoms | set(near))))


def _digest(*values: object) -> int:
    """Return a 63-bit hash of some values, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(repr(values).encode(), digest_size=8).digest(), "little") >> 1
