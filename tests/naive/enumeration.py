"""Slow readable oracles of the reaction library: reactions run step by step, and products taken apart."""

from __future__ import annotations

from collections import Counter

from rdkit import Chem
from rdkit.Chem import rdChemReactions

from daskrf.demo.building_blocks import LINKAGES

_AMINE = "[NX3;H1,H2;!$(N[C,S]=O):9]"

# Each reaction takes the electrophile (or the boronic acid) first.
REACTIONS = {
    "amide": f"[CX3;!R:1](=[O:2])[OX2H1].{_AMINE}>>[C:1](=[O:2])[N:9]",
    "sulfonamide": f"[SX4:1](=[O:2])(=[O:3])Cl.{_AMINE}>>[S:1](=[O:2])(=[O:3])[N:9]",
    "urea": f"[NX3;H2;!$(N[C,S]=O):1].{_AMINE}>>[N:1]C(=O)[N:9]",
    "reductive": f"[c:1][CX3H1:2]=O.{_AMINE}>>[c:1][C:2][N:9]",
    "snar": f"[c;$(c:n),$(c1aanaa1):1]Cl.{_AMINE}>>[c:1][N:9]",
    "suzuki": "[c:1]B(O)O.[c:2]Br>>[c:1]-[c:2]",
    "deprotect": "[N:1]C(=O)OC([CH3])([CH3])[CH3]>>[N:1]",
}

# Left and right reaction of the recipes whose middle piece is a Boc amino acid, a Boc diamine, an aryl acid.
AMINO_ACID = {
    "amide-amide": "amide",
    "urea-amide": "urea",
    "sulfonyl-amide": "sulfonamide",
    "reductive-amide": "reductive",
    "snar-amide": "snar",
}
DIAMINE = {
    "amide-sulfonyl": "sulfonamide",
    "amide-reductive": "reductive",
    "amide-snar": "snar",
    "amide-urea": "urea",
}


def run(reaction: str, *reactants: Chem.Mol) -> Chem.Mol:
    """Run one reaction; it must give exactly one product, whichever way the reactants match."""
    products = {}
    for (mol,) in rdChemReactions.ReactionFromSmarts(REACTIONS[reaction]).RunReactants(reactants):
        Chem.SanitizeMol(mol)
        products[Chem.MolToSmiles(mol)] = mol
    assert len(products) == 1, (reaction, sorted(products))
    # Through SMILES, so that nothing of the reaction's bookkeeping stays on the molecule.
    return Chem.MolFromSmiles(next(iter(products)))


def synthesise(recipe: str, blocks: tuple[str, ...]) -> str:
    """Make a product from its building blocks by RunReactants; canonical SMILES."""
    mols = [Chem.MolFromSmiles(block) for block in blocks]
    if recipe in AMINO_ACID:
        right = run("deprotect", run("amide", mols[1], mols[2]))
        product = run(AMINO_ACID[recipe], mols[0], right)
    elif recipe in DIAMINE:
        left = run("deprotect", run("amide", mols[0], mols[1]))
        product = run(DIAMINE[recipe], mols[2], left)
    elif recipe == "suzuki-amide":
        product = run("amide", run("suzuki", mols[0], mols[1]), mols[2])
    elif recipe == "amine-aryl-amide":
        product = run("amide", run("snar", mols[1], mols[0]), mols[2])
    else:
        product = run(recipe, mols[0], mols[1])
    return Chem.MolToSmiles(product)


def take_apart(mol: Chem.Mol) -> Counter[str]:
    """Cut every linkage bond of a molecule (or of a synthon) and count the pieces."""
    bonds = set()
    for kind, smarts in LINKAGES.items():
        for match in mol.GetSubstructMatches(Chem.MolFromSmarts(smarts)):
            one, other = {"acyl-N": (0, 2), "sulfonyl-N": (0, 3)}.get(kind, (0, 1))
            bonds.add(mol.GetBondBetweenAtoms(match[one], match[other]).GetIdx())
    if bonds:
        labels = [(0, 0)] * len(bonds)
        mol = Chem.FragmentOnBonds(mol, sorted(bonds), addDummies=True, dummyLabels=labels)
    return Counter(piece_smiles(piece) for piece in Chem.GetMolFrags(mol, asMols=True))


def piece_smiles(mol: Chem.Mol) -> str:
    """Write a piece with its dummy atoms all alike."""
    plain = Chem.RWMol(mol)
    for atom in plain.GetAtoms():
        if atom.GetAtomicNum() == 0:
            atom.SetIsotope(0)
            atom.SetAtomMapNum(0)
    return Chem.MolToSmiles(plain)
