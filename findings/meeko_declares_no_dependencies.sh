#!/usr/bin/env bash
# Meeko 0.8.0 and dockstring 0.3.4 declare no dependencies in their wheels, so pip installs each alone. "import
# meeko" then fails for want of RDKit; with RDKit, NumPy and SciPy it fails for want of gemmi. The receptors of
# dockstring's 58 targets are plain files of its wheel, and need no import.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet meeko==0.8.0 dockstring==0.3.4
cat > declared.py <<'PYTHON'
from importlib.metadata import requires

for name in ("meeko", "dockstring"):
    print(name, [each for each in requires(name) or [] if "extra ==" not in each])
PYTHON
cat > missing.py <<'PYTHON'
try:
    import meeko
except ModuleNotFoundError as error:
    print("import meeko lacks", error.name)
else:
    print("import meeko works", meeko.__version__)
PYTHON
venv/bin/python declared.py | tee seen.txt
venv/bin/python missing.py | tee -a seen.txt
venv/bin/pip install --quiet rdkit==2026.9.1 numpy scipy
venv/bin/python missing.py | tee -a seen.txt
venv/bin/pip install --quiet gemmi
venv/bin/python missing.py | tee -a seen.txt
find venv/lib -path '*dockstring*' -name '*_target.pdbqt' | wc -l | tee -a seen.txt
diff seen.txt - <<'SEEN'
meeko []
dockstring []
import meeko lacks rdkit
import meeko lacks gemmi
import meeko works 0.8.0
58
SEEN
echo "as described"
