"""Slow, readable fingerprints: one molecule at a time, through RDKit's dicts and Python integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rdkit import Chem, RDLogger
from rdkit.Chem import rdFingerprintGenerator, rdMolDescriptors

from daskrf.molecules import FingerprintSpec
from tests.naive.nystrom import lingos

MASK = 2**64 - 1


def mixed(word: int) -> int:
    """Return the finalizer of SplitMix64."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK
    return word ^ (word >> 31)


def generator(spec: FingerprintSpec) -> object:
    """Return RDKit's generator with each option written out."""
    size = spec.size or 2048
    if spec.kind == "morgan":
        invariants = rdFingerprintGenerator.GetMorganFeatureAtomInvGen() if spec.features else None
        return rdFingerprintGenerator.GetMorganGenerator(
            radius=spec.radius,
            countSimulation=False,
            includeChirality=spec.chirality,
            atomInvariantsGenerator=invariants,
            fpSize=size,
        )
    name, _, distance = str(spec.kind).partition(":")
    if name == "atompair":
        return rdFingerprintGenerator.GetAtomPairGenerator(
            maxDistance=int(distance or 30),
            includeChirality=spec.chirality,
            countSimulation=False,
            fpSize=size,
        )
    if spec.kind == "torsion":
        return rdFingerprintGenerator.GetTopologicalTorsionGenerator(
            includeChirality=spec.chirality, countSimulation=False, fpSize=size
        )
    return rdFingerprintGenerator.GetRDKitFPGenerator(countSimulation=False, fpSize=size, numBitsPerFeature=1)


def largest_fragment(smiles: str) -> str:
    """Return the dot-separated part with most heavy atoms, then most atoms, then the first."""
    parts = smiles.split(".")

    def size(part: str) -> tuple[int, int]:
        molecule = Chem.MolFromSmiles(part)
        return molecule.GetNumHeavyAtoms(), molecule.GetNumAtoms()

    best = parts[0]
    for part in parts[1:]:
        if size(part) > size(best):
            best = part
    return best


def lingo_columns(molecule: Chem.Mol, spec: FingerprintSpec) -> dict[int, int]:
    """Return the LINGO counts by column."""
    columns: dict[int, int] = {}
    for text, count in lingos(Chem.MolToSmiles(molecule, isomericSmiles=spec.chirality)).items():
        word = int.from_bytes(text.encode(), "big")
        column = (mixed(word) >> 32) % spec.size if spec.size else word
        columns[column] = columns.get(column, 0) + count
    return dict(sorted(columns.items())) if spec.counts else dict.fromkeys(sorted(columns), 1)


def fingerprint(smiles: str, spec: FingerprintSpec) -> dict[int, int] | None:
    """Return the counts by column, or None if RDKit cannot parse `smiles`, or would read a part of it."""
    columns: dict[int, int] = {}
    for number, kind in enumerate(spec.kinds):
        own = fingerprint_of(smiles, kind)
        if own is None:
            return None
        columns |= {column + number * (spec.size or 2**32): count for column, count in own.items()}
    return columns


def fingerprint_of(smiles: str, spec: FingerprintSpec) -> dict[int, int] | None:
    """Return the same of one kind."""
    if any(not " " < letter <= "~" for letter in smiles.strip(" ").partition(" ")[0]):
        return None
    RDLogger.DisableLog("rdApp.error")
    try:
        molecule = Chem.MolFromSmiles(smiles)
    finally:
        RDLogger.EnableLog("rdApp.error")
    if molecule is None or not molecule.GetNumAtoms():
        return None
    if spec.kind == "lingo":
        return lingo_columns(molecule, spec)
    if spec.kind == "torsion" and not spec.size and not spec.chirality:
        features = torsions(molecule)
    else:
        molecule = Chem.RenumberAtoms(molecule, sorted_atoms(molecule, spec.chirality))
        rdkit = generator(spec)
        vector = (
            rdkit.GetCountFingerprint(molecule) if spec.size else rdkit.GetSparseCountFingerprint(molecule)
        )
        features = vector.GetNonzeroElements()
    columns: dict[int, int] = {}
    for feature, count in features.items():
        column = mixed(feature) >> 32 if spec.kind == "torsion" and not spec.size else feature
        columns[column] = columns.get(column, 0) + count
    return {column: min(count, 65_535) if spec.counts else 1 for column, count in columns.items()}


def sorted_atoms(molecule: Chem.Mol, chirality: bool = False) -> list[int]:
    """Return the numbers of atoms, sorted by their codes: RDKit begins a path around three at the first."""
    codes = [
        rdMolDescriptors.GetAtomPairAtomCode(atom, includeChirality=chirality) for atom in molecule.GetAtoms()
    ]
    return sorted(range(len(codes)), key=codes.__getitem__)


def torsions(molecule: Chem.Mol) -> dict[int, int]:
    """Return topological torsions: paths of four atoms, and one around each ring of three.

    Source: Nilakantan et al. 1987 (J. Chem. Inf. Comput. Sci. 27, 82).
    """
    codes = [rdMolDescriptors.GetAtomPairAtomCode(atom) for atom in molecule.GetAtoms()]
    bonded = [[other.GetIdx() for other in atom.GetNeighbors()] for atom in molecule.GetAtoms()]
    paths, closed = set(), set()
    for a, near in enumerate(bonded):
        for path in ((a, b, c, d) for b in near for c in bonded[b] if c != a for d in bonded[c] if d != b):
            (closed if path[3] == a else paths).add(min(path, path[::-1]))
    rings = {tuple(sorted(path[:3], key=codes.__getitem__)) for path in closed}
    found: dict[int, int] = {}
    for path in [*paths, *({frozenset(ring): (*ring, ring[0]) for ring in sorted(rings)}.values())]:
        own = [codes[atom] - (1 if place in (0, 3) else 2) for place, atom in enumerate(path)]
        feature = sum(code << 9 * place for place, code in enumerate(min(own, own[::-1])))
        found[feature] = found.get(feature, 0) + 1
    return found


def count_paths(bonds: list[tuple[int, int]], longest: int) -> int:
    """Return the number of connected sets of 1 to `longest` bonds, by growing them bond by bond."""
    found = {frozenset([k]) for k in range(len(bonds))}
    total = len(found)
    for _ in range(longest - 1):
        found = {
            grown | {k}
            for grown in found
            for k, bond in enumerate(bonds)
            if k not in grown and any(set(bond) & set(bonds[other]) for other in grown)
        }
        total += len(found)
    return total


def folded(
    row: dict[int, int], size: int, hashed: Sequence[int] = (), binary: bool = False
) -> dict[int, int]:
    """Return one unfolded row, {column: count}, folded to `size` columns a kind."""
    counts: dict[int, int] = {}
    for column, count in row.items():
        kind, identifier = divmod(column, 2**32)
        if kind in hashed:
            identifier = mixed(identifier) >> 32
        place = kind * size + identifier % size
        counts[place] = counts.get(place, 0) + count
    return {place: 1 if binary else min(count, 65_535) for place, count in sorted(counts.items())}


def substituents(molecule: Chem.Mol) -> Counter[str]:
    """Return the sides of all single bonds outside rings, as canonical SMILES without stereochemistry."""
    sides: Counter[str] = Counter()
    for bond in molecule.GetBonds():
        if bond.GetBondType() == Chem.BondType.SINGLE and not bond.IsInRing():
            halves = Chem.FragmentOnBonds(molecule, [bond.GetIdx()], dummyLabels=[(0, 0)])
            for atoms in Chem.GetMolFrags(halves):
                if any(not halves.GetAtomWithIdx(i).GetAtomicNum() for i in atoms):
                    sides[Chem.MolFragmentToSmiles(halves, atoms, isomericSmiles=False)] += 1
    return sides


def positions(molecule: Chem.Mol, blocks: set[str]) -> list[tuple[Any, ...]]:
    """Return atom, whether the block has it, distance, and type, of each atom about each bond to a block.

    `blocks` are canonical SMILES without stereochemistry, with a dummy at the bond. Of several blocks in a
    molecule only the largest counts, each time that it occurs.
    """
    cuts: list[tuple[set[int], Any, Any]] = []
    for bond in molecule.GetBonds():
        if bond.GetBondType() == Chem.BondType.SINGLE and not bond.IsInRing():
            halves = Chem.FragmentOnBonds(molecule, [bond.GetIdx()], dummyLabels=[(0, 0)])
            for side in Chem.GetMolFrags(halves):
                atoms = {i for i in side if i < molecule.GetNumAtoms()}
                text = Chem.MolFragmentToSmiles(halves, side, isomericSmiles=False)
                if len(atoms) < len(side) and text in blocks:
                    cuts.append((atoms, bond, Chem.GetDistanceMatrix(halves)))
    rows: list[tuple[Any, ...]] = []
    for block, bond, distances in cuts:
        if len(block) == max(len(other) for other, _, _ in cuts):
            for atom in molecule.GetAtoms():
                i = atom.GetIdx()
                distance = min(distances[i, bond.GetBeginAtomIdx()], distances[i, bond.GetEndAtomIdx()])
                if distance < molecule.GetNumAtoms():  # else it is in another fragment
                    kind = (atom.GetSymbol(), atom.GetTotalNumHs(), atom.GetFormalCharge())
                    rows.append((i, i in block, distance, *kind, atom.GetIsAromatic(), atom.GetDegree()))
    return rows
