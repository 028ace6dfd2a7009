#!/usr/bin/env bash
# RDKit 2026.9.1: MolStandardize's Normalizer makes one notation of a sulfoxide drawn with a double bond or with
# charges, and it is the one with charges. The same two drawings of a phosphine oxide, a phosphorus ylide and an
# azide stay two molecules, also after Cleanup, FragmentParent and ChargeParent. A table of "parents" that is
# made with these functions thus holds triphenylphosphine oxide twice, and DMSO as C[S+](C)[O-].
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet rdkit==2026.9.1
cat > normalize.py <<'PYTHON'
from rdkit import Chem, rdBase
from rdkit.Chem.MolStandardize import rdMolStandardize as standardize

silence = rdBase.BlockLogs()
ONE = {"sulfoxide": ("CS(C)=O", "C[S+](C)[O-]")}
TWO = {
    "phosphine oxide": ("CP(C)(C)=O", "C[P+](C)(C)[O-]"),
    "ylide": ("CP(C)(C)=C", "C[P+](C)(C)[CH2-]"),
    "azide": ("CN=[N+]=[N-]", "C[N-][N+]#N"),
}
WAYS = {
    "Normalizer": standardize.Normalizer().normalize,
    "Cleanup": standardize.Cleanup,
    "FragmentParent": standardize.FragmentParent,
    "ChargeParent": standardize.ChargeParent,
}
for name, drawn in {**ONE, **TWO}.items():
    for way, function in WAYS.items():
        found = [Chem.MolToSmiles(function(Chem.MolFromSmiles(text))) for text in drawn]
        print(f"{name}, {way}: {found[0]} and {found[1]}")
        assert (found[0] == found[1]) is (name in ONE), (name, way)
        if name in ONE:
            assert found[0] == "C[S+](C)[O-]"
PYTHON
venv/bin/python normalize.py
