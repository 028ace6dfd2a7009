#!/usr/bin/env bash
# RDKit 2026.9.1 ships type stubs (rdkit-stubs). Those of rdkit.Chem.rdSynthonSpaceSearch are not valid Python: in
# two signatures a parameter without a default follows one with a default. mypy 2.4 does not skip such a stub: one
# import of the module ends the check of the whole program, and no other error is reported. The module itself can
# be imported, and mypy checks the same program once it is imported by name (importlib).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet rdkit==2026.9.1 mypy==2.4.0
wrong='number: int = "a word"'
printf 'from rdkit.Chem import rdSynthonSpaceSearch\n%s\n' "$wrong" > stubbed.py
printf 'import importlib\nspaces = importlib.import_module("rdkit.Chem.rdSynthonSpaceSearch")\n%s\n' "$wrong" > named.py
venv/bin/python -c 'from rdkit.Chem import rdSynthonSpaceSearch; rdSynthonSpaceSearch.SynthonSpace()'
venv/bin/mypy stubbed.py | tee stubbed.txt || true
venv/bin/mypy named.py | tee named.txt || true
grep -q 'rdSynthonSpaceSearch.pyi:.*\[syntax\]' stubbed.txt
grep -q 'errors prevented further checking' stubbed.txt
if grep -q 'stubbed.py:2' stubbed.txt; then
    echo "mypy goes on after the stub now"
    exit 1
fi
grep -q 'named.py:3: error: Incompatible types in assignment' named.txt
echo "as described: the stub ends the check, the program's own error is not reported"
