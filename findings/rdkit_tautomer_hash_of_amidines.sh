#!/usr/bin/env bash
# RDKit 2026.9.1: the newer tautomer hash (HetAtomTautomerv2) tells tautomers of N-methylguanidine apart, which the
# older one (HetAtomTautomer) joins.
#
# One expects the second version to join at least what the first does. Seen: NC(=N)NC is
# [CH3]-[NH]-[C](=[NH])-[NH2]_0_0 and NC(N)=NC is [CH3]-[N]=[C](-[NH2])-[NH2]_0_0; both are C[N][C]([N])[N]_4_0 by
# the older hash.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet rdkit==2026.9.1
"$work/venv/bin/python" - <<'PYTHON'
from rdkit import Chem, rdBase
from rdkit.Chem.rdMolHash import HashFunction, MolHash

print("RDKit", rdBase.rdkitVersion)
found = {}
for name in ("HetAtomTautomer", "HetAtomTautomerv2"):
    function = getattr(HashFunction, name)
    found[name] = [MolHash(Chem.MolFromSmiles(smiles), function) for smiles in ("NC(=N)NC", "NC(N)=NC")]
    print(name, found[name])
assert len(set(found["HetAtomTautomer"])) == 1
assert len(set(found["HetAtomTautomerv2"])) == 2, "the newer hash joins them now"
PYTHON
