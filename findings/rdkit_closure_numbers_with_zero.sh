#!/usr/bin/env bash
# RDKit 2026.9.1, Open Babel 3.1.1 and Indigo 1.46.0: a ring closure may be written with two digits, %01 as %10.
# RDKit refuses the SMILES if the first of them is 0, though it reads the same number as %(1) or 1, and closure 0
# as well. Open Babel and Indigo read %01. Indigo in turn refuses closure 0.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet rdkit==2026.9.1 openbabel-wheel==3.1.1.23 epam.indigo==1.46.0
cat > closures.py <<'PYTHON'
from indigo import Indigo, IndigoException
from openbabel import pybel
from rdkit import Chem, rdBase

rdBase.DisableLog("rdApp.*")


def read_by_indigo(text: str) -> bool:
    try:
        Indigo().loadMolecule(text)
    except IndigoException:
        return False
    return True


CASES = {  # read by RDKit, Open Babel, Indigo
    "C1CCC1": (True, True, True),
    "C%10CCC%10": (True, True, True),
    "C%01CCC%01": (False, True, True),
    "C0CCC0": (True, True, False),
}
for text, expected in CASES.items():
    ring = Chem.MolFromSmiles(text)
    babel = pybel.readstring("smi", text)
    read = (ring is not None, len(babel.atoms) == 4, read_by_indigo(text))
    print(f"{text:12} RDKit {read[0]!s:5}  Open Babel {read[1]!s:5}  Indigo {read[2]!s:5}")
    assert read == expected
assert Chem.MolFromSmiles("C%(1)CCC%(1)").GetNumBonds() == 4
PYTHON
venv/bin/python closures.py
