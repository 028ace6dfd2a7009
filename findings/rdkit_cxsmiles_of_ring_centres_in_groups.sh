#!/usr/bin/env bash
# RDKit 2026.9.1: reading a CXSMILES and writing it again makes another molecule of it, where an enhanced stereo
# group holds one of two centres of a ring that depend on each other (cis and trans) and a centre outside:
# where C[C@H](F)[C@H]1CC[C@@H](CC1)O |&1:1,3| is a mixture of two isomers, what MolToCXSmiles writes of it is
# that of the two others, cis and trans exchanged. No call between the two; nothing is raised.
#
# The writer turns the centres of a group over for a canonical form. For a ring that has no effect on the text,
# as after Atom.InvertChirality(), while the centre outside is turned over. A group of the ring's own two centres
# is written right.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet rdkit==2026.9.1
cat > groups.py <<'PYTHON'
from rdkit import Chem


def isomers(text: str) -> set[str]:
    """Return both isomers of a CXSMILES with one group: as drawn, and with its centres turned over."""
    molecule = Chem.MolFromSmiles(text)
    (group,) = molecule.GetStereoGroups()
    centres = [atom.GetIdx() for atom in group.GetAtoms()]
    found = set()
    for turned in ([], centres):
        own = Chem.RWMol(molecule)
        own.SetStereoGroups([])
        for centre in turned:
            own.GetAtomWithIdx(centre).InvertChirality()
        Chem.AssignStereochemistry(own, cleanIt=True, force=True)
        found.add(Chem.CanonSmiles(Chem.CanonSmiles(Chem.MolToSmiles(own))))
    return found


CASES = {
    "C[C@H](F)[C@H]1CC[C@@H](CC1)O |&1:1,3|": False,
    "C[C@H](F)[C@H]1CC[C@H](CC1)O |&1:1,3|": False,
    "O[C@H]1CC[C@@H](CC1)[C@H](F)Br |&1:4,7|": False,
    "C[C@H](F)[C@H]1CC[C@@H](CC1)O |&1:3,6|": True,
    "C[C@H](F)[C@H](Cl)Br |&1:1,3|": True,
}
for text, same in CASES.items():
    written = Chem.MolToCXSmiles(Chem.MolFromSmiles(text))
    print(f"{text}\n  stands for  {' and '.join(sorted(isomers(text)))}")
    print(f"  is written  {written}\n  stands for  {' and '.join(sorted(isomers(written)))}")
    assert (isomers(written) == isomers(text)) is same
PYTHON
venv/bin/python groups.py
