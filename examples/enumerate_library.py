"""Write part of the make-on-demand library, print its properties, and score it.

python examples/enumerate_library.py [number of molecules] [file]
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors, rdMolDescriptors

from daskrf.demo import objective
from daskrf.demo.enumeration import ReactionLibrary, enumerate_to_file

PROPERTIES = {
    "molecular weight": Descriptors.MolWt,
    "logP (Crippen)": Crippen.MolLogP,
    "polar surface area": rdMolDescriptors.CalcTPSA,
    "rotatable bonds": rdMolDescriptors.CalcNumRotatableBonds,
    "hydrogen-bond donors": rdMolDescriptors.CalcNumHBD,
}


def describe(lines: list[str]) -> None:
    """Print the recipes, the quartiles of some properties, and the best molecules of the objective."""
    smiles, names = zip(*(line.split() for line in lines), strict=True)
    recipes = Counter(name.rstrip("-0123456789") for name in names)
    print("recipes: " + ", ".join(f"{recipe} {count}" for recipe, count in recipes.most_common()))
    mols = [Chem.MolFromSmiles(text) for text in smiles]
    columns = {name: [compute(mol) for mol in mols] for name, compute in PROPERTIES.items()}
    columns["objective"] = objective.score(mols).tolist()
    print(f"{'':22}{'5 %':>9}{'25 %':>9}{'median':>9}{'75 %':>9}{'95 %':>9}")
    for name, values in columns.items():
        quantiles = np.percentile(values, [5, 25, 50, 75, 95])
        print(f"{name:22}" + "".join(f"{value:9.1f}" for value in quantiles))
    print("best by the objective:")
    for i in np.argsort(columns["objective"])[:5]:
        print(f"{columns['objective'][i]:8.2f}  {names[i]:28} {smiles[i]}")


def main(n: int, path: Path) -> None:
    """Enumerate, then describe the file."""
    print(f"{len(ReactionLibrary()):,} products in the library; {n:,} of them go to {path.name}")
    describe(enumerate_to_file(path, n).read_text().splitlines()[1:])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        target = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(folder, "library.smi")
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, target)
