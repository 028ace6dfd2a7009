"""Enhanced stereo groups: centres of racemates (&), or of enantiomers of unknown configuration (o).

This runs in the helper processes of `daskrf.molecules.isolation`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rdkit import Chem

from daskrf.molecules.extensions import clean_smiles

_MOST = 6  # groups whose centres are inverted in all combinations
_MOST_WAYS = 256  # symmetries, and choices of interdependent centres, that are tried
_RING = "_ringStereoAtoms"  # RDKit's list of the other ring centres on which one depends

_Group = tuple[Chem.StereoGroupType, list[int]]


def written(molecule: Chem.Mol) -> str:
    """Return the canonical SMILES of a molecule, followed by its groups as an extension, if it has any.

    Examples
    --------
    >>> written(Chem.MolFromSmiles("Cl[C@@H](F)C |o1:1|")), written(Chem.MolFromSmiles("OCC |$;;$|"))
    ('C[C@H](F)Cl |o1:1|', 'CCO')
    """
    groups = _groups(molecule)
    if not groups:
        return str(Chem.MolToSmiles(molecule))
    if _over_rings(molecule, groups):
        text, place = _placed(_with(molecule, []))
        return _marked(text, [(kind, [place[atom] for atom in atoms]) for kind, atoms in groups])
    enhanced = Chem.CXSmilesFields.CX_ENHANCEDSTEREO
    return clean_smiles(Chem.MolToCXSmiles(molecule, Chem.SmilesWriteParams(), enhanced))


def canonical(molecule: Chem.Mol) -> str:
    """Return the SMILES with stereo groups that all notations of a molecule share.

    The centres of a group may be drawn either way round, groups may be numbered in any order, and a group
    that leaves the molecule as it is, such as one of all centres of a meso compound, is dropped.

    Examples
    --------
    >>> canonical(Chem.MolFromSmiles("C[C@@H](F)Cl |&1:1|")), canonical(Chem.MolFromSmiles("C[C@@H](F)Cl"))
    ('C[C@H](F)Cl |&1:1|', 'C[C@@H](F)Cl')
    >>> canonical(Chem.MolFromSmiles("O[C@H](C)[C@H](C)O |&1:1,3|"))
    'C[C@H](O)[C@@H](C)O'
    """
    groups = _groups(molecule)
    if not groups:
        return str(Chem.MolToSmiles(molecule))
    if len(groups) > _MOST:
        return _steady(_with(molecule, groups))
    meant, fewer = _mixtures(molecule, groups), {tuple(range(len(groups)))}
    while fewer:  # drop one more group as long as the mixtures stay the same
        enough = [[groups[at] for at in places] for places in sorted(fewer)]
        one_less = {c for subset in fewer if subset for c in itertools.combinations(subset, len(subset) - 1)}
        fewer = {subset for subset in one_less if _mixtures(molecule, [groups[at] for at in subset]) == meant}
    return min(_named(molecule, subset) for subset in enough)


def _named(molecule: Chem.Mol, groups: list[_Group]) -> str:
    """Return the first of the SMILES with these groups, however they are drawn."""
    if _over_rings(molecule, groups):
        return _of_first_isomer(molecule, groups)
    return min(_steady(_with(molecule, groups, turn)) for turn in _turns(groups))


def _over_rings(molecule: Chem.Mol, groups: list[_Group]) -> bool:
    """Return whether a group holds a ring centre that depends on another one, and a further centre.

    RDKit inverts the centres of a group to write it. If it does not perceive such a ring anew afterwards, it
    writes the ring as it was, which is another isomer.
    """
    return any(
        len(atoms) > 1 and any(molecule.GetAtomWithIdx(atom).HasProp(_RING) for atom in atoms)
        for _, atoms in groups
    )


def _of_first_isomer(molecule: Chem.Mol, groups: list[_Group]) -> str:
    """Return the first SMILES of all isomers, with the first of all notations of the groups.

    Symmetry and interdependent centres leave several notations.
    """
    isomers = [_placed(_with(molecule, [], turn)) for turn in _turns(groups)]
    text = min(smiles for smiles, _ in isomers)
    first = Chem.MolFromSmiles(text)
    meant = _mixtures(molecule, groups)
    alike = first.GetSubstructMatches(first, uniquify=False, useChirality=True, maxMatches=_MOST_WAYS)
    instead = [_instead(atom) for atom in first.GetAtoms()]
    ways: set[str] = set()
    for smiles, place in isomers:
        if smiles != text:
            continue
        for match in alike or [range(first.GetNumAtoms())]:
            placed = [(kind, [match[place[atom]] for atom in atoms]) for kind, atoms in groups]
            choices = [itertools.product(*(instead[atom] for atom in atoms)) for _, atoms in placed]
            for chosen in itertools.islice(itertools.product(*choices), _MOST_WAYS):
                if all(len(set(atoms)) == len(atoms) for atoms in chosen):
                    kinds = [kind for kind, _ in placed]
                    ways.add(_marked(text, list(zip(kinds, map(list, chosen), strict=True))))
    for way in sorted(ways):
        again = Chem.MolFromSmiles(way)
        if again is not None and _mixtures(again, _groups(again)) == meant:
            return way
    return written(_with(molecule, groups))  # depends on the notation, but denotes this mixture


def _instead(atom: Chem.Atom) -> list[int]:
    """Return an atom and the atoms on which its configuration depends."""
    others = [abs(k) - 1 for k in atom.GetPropsAsDict(True, True)[_RING]] if atom.HasProp(_RING) else []
    return [atom.GetIdx(), *others]


def _placed(molecule: Chem.Mol) -> tuple[str, list[int]]:
    """Return steady SMILES of a molecule without groups, and the place of each atom in them."""
    text = str(Chem.MolToSmiles(molecule))
    order = list(molecule.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"])
    again = Chem.MolFromSmiles(text)
    if again is not None:
        text = str(Chem.MolToSmiles(again))
        order = [order[atom] for atom in again.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]]
    place = [0] * molecule.GetNumAtoms()
    for position, atom in enumerate(order):
        place[atom] = position
    return text, place


def _marked(text: str, groups: list[_Group]) -> str:
    """Return SMILES with an extension for groups of the atoms at these places."""
    signs = {Chem.StereoGroupType.STEREO_AND: "&", Chem.StereoGroupType.STEREO_OR: "o"}
    numbers = {sign: itertools.count(1) for sign in signs.values()}
    parts = []
    for kind, atoms in sorted((signs[kind], sorted(atoms)) for kind, atoms in groups):
        parts.append(f"{kind}{next(numbers[kind])}:{','.join(map(str, atoms))}")
    return clean_smiles(f"{text} |{','.join(parts)}|") if parts else text


def unspecified(molecule: Chem.Mol) -> Chem.Mol:
    """Return a molecule with its marked centres unspecified; the order of atoms stays.

    Examples
    --------
    >>> Chem.MolToSmiles(unspecified(Chem.MolFromSmiles("C[C@H](F)[C@H](Cl)Br |o1:3|")))
    'C[C@H](F)C(Cl)Br'
    >>> Chem.MolToSmiles(unspecified(Chem.MolFromSmiles("C[C@H](F)CC[C@H](Cl)Br |o1:5|")))
    'C[C@H](F)CCC(Cl)Br'
    """
    groups = _groups(molecule)
    if not groups:
        return molecule
    bare = _with(molecule, [])
    for _, atoms in groups:
        for atom in atoms:
            bare.GetAtomWithIdx(atom).SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    Chem.AssignStereochemistry(bare, cleanIt=True, force=True)
    return bare


def _mixtures(molecule: Chem.Mol, groups: list[_Group]) -> set[frozenset[str]]:
    """Return the mixtures that a molecule may be, as the SMILES of the isomers in each."""
    either = [group for group in groups if group[0] == Chem.StereoGroupType.STEREO_OR]
    racemic = [group for group in groups if group[0] == Chem.StereoGroupType.STEREO_AND]
    return {
        frozenset(_steady(_with(molecule, [], [*unknown, *turn])) for turn in _turns(racemic))
        for unknown in _turns(either)
    }


def _turns(groups: list[_Group]) -> list[list[int]]:
    """Return the atoms of each selection of groups."""
    return [
        list(itertools.chain.from_iterable(atoms for _, atoms in itertools.compress(groups, chosen)))
        for chosen in itertools.product([False, True], repeat=len(groups))
    ]


def _steady(molecule: Chem.Mol) -> str:
    """Return steady SMILES: at first, RDKit may write centres that depend on each other in two ways."""
    text = written(molecule)
    again = Chem.MolFromSmiles(text)
    return text if again is None else written(again)


def _groups(molecule: Chem.Mol) -> list[_Group]:
    """Return the groups of a molecule that are not absolute, with their atoms."""
    return [
        (group.GetGroupType(), [atom.GetIdx() for atom in group.GetAtoms()])
        for group in molecule.GetStereoGroups()
        if group.GetGroupType() != Chem.StereoGroupType.STEREO_ABSOLUTE
    ]


def _with(molecule: Chem.Mol, groups: list[_Group], turn: Sequence[int] = ()) -> Chem.Mol:
    """Return a molecule with these groups only, and some centres inverted."""
    edited = Chem.RWMol(molecule)
    for atom in turn:
        edited.GetAtomWithIdx(atom).InvertChirality()
    if turn:  # otherwise ring centres would be written as they were
        Chem.AssignStereochemistry(edited, cleanIt=True, force=True)
    edited.SetStereoGroups([Chem.CreateStereoGroup(kind, edited, atoms) for kind, atoms in groups])
    return edited.GetMol()
