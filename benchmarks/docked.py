"""A space of which all products were docked: amides of amines and acids that the package has.

The blocks are small and stiff (at most 12 heavy atoms and 2 rotatable bonds), as an amide of a peptide of
two or three residues takes Vina ten times as long or more. Amines and anilines are the small slot, acids the
large one. The scores are those of `examples/docking/dock.py`: AutoDock Vina, one search of exhaustiveness 1
with one seed, into KIT with the search box of DOCKSTRING, from the first conformer of RDKit. Kilocalories
per mole, small is good. A single short search does not always meet the best pose, so that a score has an
error, as those of large screens have.

`docked.csv` is the table: SMILES of amines are its header, those of acids its first column, and each row has
the scores of an acid with all amines, empty where none was found. It was made with vina 1.2.7, meeko 0.8.0,
dockstring 0.3.4 (Apache License 2.0), rdkit 2026.9.1 and numpy 2.4.6: 20 amines, 69 acids, 1,380 products,
1.4 CPU seconds each. To dock the acids that it lacks:

    python benchmarks/docked.py [--acids 69]
"""

from __future__ import annotations

import csv
import importlib
import sys
import tempfile
import time
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from peptides import REACTION
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors
from spacetruth import Blocks, ListedSpace, write_space

from daskrf.demo.building_blocks import load_blocks

HERE = Path(__file__).resolve().parent
TABLE = HERE / "docked.csv"
AMINES = {"amines_primary": 7, "amines_secondary": 7, "anilines": 6}
ACIDS = 69
SMALL = 6  # acids
BEST_SHARE = 0.02
MOST_ATOMS, MOST_ROTATABLE = 12, 2


def small_blocks(name: str, random: np.random.Generator) -> list[str]:
    """Return the small and stiff blocks of a file of the package, in random order."""
    blocks = [text for text in dict.fromkeys(load_blocks(name)) if _is_small(Chem.MolFromSmiles(text))]
    return [blocks[i] for i in random.permutation(len(blocks)).tolist()]


def _is_small(molecule: Chem.Mol) -> bool:
    rotatable = rdMolDescriptors.CalcNumRotatableBonds(molecule)
    return bool(molecule.GetNumHeavyAtoms() <= MOST_ATOMS and rotatable <= MOST_ROTATABLE)


@dataclass(frozen=True)
class DockedSpace(ListedSpace):
    """A docked space, whose best molecules are 2 % of all."""

    @property
    def n_best(self) -> int:
        return round(BEST_SHARE * self.blocks.n_products)


def docked_space(folder: Path, n_acids: int | None = None) -> DockedSpace:
    """Write the space of the acids that were docked with all amines, or of the first of them, with scores."""
    with TABLE.open() as file:
        (_, *amines), *rows = csv.reader(file)
    rows = [row for row in rows if all(row)][:n_acids]
    table = np.array([row[1:] for row in rows], np.float64).T
    return DockedSpace(_written(folder, amines, [row[0] for row in rows]), "minimize", table)


def _written(folder: Path, amines: list[str], acids: list[str]) -> Blocks:
    slots = [
        {f"amine{i}": text for i, text in enumerate(amines)},
        {f"acid{i}": text for i, text in enumerate(acids)},
    ]
    return write_space(folder, REACTION, slots)


def dock(folder: Path, n_acids: int) -> None:
    """Dock the products of the acids that the table lacks, and add a row for each acid."""
    random = np.random.default_rng(0)
    amines = [text for name, n in AMINES.items() for text in small_blocks(name, random)[:n]]
    acids = small_blocks("acids", random)[:n_acids]
    blocks = _written(folder, amines, acids)
    if not TABLE.exists():
        TABLE.write_text(",".join(["acid", *amines]) + "\n")
    with TABLE.open() as file:
        done = {row[0] for row in csv.reader(file)}
    sys.path.insert(0, str(HERE.parent / "examples" / "docking"))
    score = importlib.import_module("dock").score
    for number, acid in enumerate(acids):
        if acid in done:
            continue
        start = time.process_time()
        places = np.column_stack([np.arange(len(amines)), np.full(len(amines), number)])
        scores = score(blocks.smiles(places))
        with TABLE.open("a") as file:
            file.write(",".join([acid, *("" if one is None else f"{one:.3f}" for one in scores)]) + "\n")
        print(f"{number + 1} of {len(acids)}: {time.process_time() - start:.0f} CPU s", flush=True)


def main() -> None:
    reader = ArgumentParser(description=__doc__)
    reader.add_argument("--acids", type=int, default=ACIDS)
    with tempfile.TemporaryDirectory() as folder:
        dock(Path(folder) / "space", reader.parse_args().acids)


if __name__ == "__main__":
    main()
