#!/usr/bin/env bash
# RDKit 2026.9.1: Atom.InvertChirality() of one centre of a 1,4-disubstituted ring changes the molecule, and
# MolToSmiles writes the isomer that it was before. After AssignStereochemistry(cleanIt=True, force=True) the
# same molecule is written as the other one, cis for trans. Centres of chains are written right at once.
#
# Which ring centres are written how depends on notes that the molecule carries since it was parsed, which
# inverting a centre leaves as they were. Enumerations of stereoisomers made in this way hold one ring isomer
# twice and the other not at all.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet rdkit==2026.9.1
cat > invert.py <<'PYTHON'
from rdkit import Chem

RING = {"N[C@H]1CC[C@H](Br)CC1": (1, 4), "C[C@H]1CC[C@H](O)CC1": (1, 4), "O[C@H]1CC[C@@H](F)CC1": (1, 4)}
CHAIN = {"C[C@H](F)Cl": (1,), "C[C@H](F)[C@H](F)C": (1, 3)}


def written(smiles: str, centre: int) -> tuple[str, str, str]:
    molecule = Chem.MolFromSmiles(smiles)
    before = Chem.MolToSmiles(molecule)
    molecule.GetAtomWithIdx(centre).InvertChirality()
    at_once = Chem.MolToSmiles(molecule)
    Chem.AssignStereochemistry(molecule, cleanIt=True, force=True)
    return before, at_once, Chem.MolToSmiles(molecule)


for smiles, centres in {**RING, **CHAIN}.items():
    for centre in centres:
        before, at_once, assigned = written(smiles, centre)
        print(f"{smiles}, centre {centre} inverted: {at_once}; stereochemistry assigned again: {assigned}")
        assert assigned != before
        assert (at_once == before) is (smiles in RING)
PYTHON
venv/bin/python invert.py
