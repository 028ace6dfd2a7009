#!/usr/bin/env bash
# RDKit 2026.9.1: GetOnBits() of a SparseBitVect returns bits from 2**31 on as negative numbers.
#
# One expects the bits of a sparse fingerprint of 2**32 - 1 bits to be the keys of the sparse counts of the same
# molecule. Seen for ethanol: [-2049583024, -2048238559, -752510682, -276918910, 864662311, 1535166686] against
# keys 864662311 to 4018048386. Modulo 2**32 both are the same.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet rdkit==2026.9.1
"$work/venv/bin/python" - <<'PYTHON'
from rdkit import Chem, rdBase
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

ethanol = Chem.MolFromSmiles("CCO")
vector = GetMorganGenerator().GetSparseFingerprint(ethanol)
bits = list(vector.GetOnBits())
keys = sorted(GetMorganGenerator().GetSparseCountFingerprint(ethanol).GetNonzeroElements())
print("RDKit", rdBase.rdkitVersion)
print("size", vector.GetNumBits(), "bits", bits)
print("keys of counts", keys)
assert min(bits) < 0, "bits are no longer negative"
assert sorted(bit % 2**32 for bit in bits) == keys
PYTHON
