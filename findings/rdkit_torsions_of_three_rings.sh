#!/usr/bin/env bash
# RDKit 2026.9.1: topological torsions of a molecule with a three-membered ring depend on the order of its atoms.
#
# One expects a fingerprint to be that of the molecule, however its SMILES is written. Seen for glycidol: five
# torsions with one count each for OCC1CO1, four with counts 2, 1, 1, 1 for C1OC1CO. A ring of four atoms does not.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet rdkit==2026.9.1
"$work/venv/bin/python" - <<'PYTHON'
from rdkit import Chem, rdBase
from rdkit.Chem.rdFingerprintGenerator import GetTopologicalTorsionGenerator

def torsions(smiles):
    generator = GetTopologicalTorsionGenerator()
    return generator.GetSparseCountFingerprint(Chem.MolFromSmiles(smiles)).GetNonzeroElements()

print("RDKit", rdBase.rdkitVersion)
for one, other in (("OCC1CO1", "C1OC1CO"), ("OCC1CCO1", "C1COC1CO")):
    assert Chem.CanonSmiles(one) == Chem.CanonSmiles(other)
    print(one, torsions(one), other, torsions(other))
assert torsions("OCC1CO1") != torsions("C1OC1CO"), "the order of atoms no longer matters"
assert torsions("OCC1CCO1") == torsions("C1COC1CO")
PYTHON
