"""A scorer for `daskrf campaign`: AutoDock Vina, with ligands prepared by RDKit and Meeko.

The receptor is KIT of the DOCKSTRING benchmark, with its search box, from the package dockstring, which is
neither copied nor imported here (Apache License 2.0; Garcia-Ortegon et al. 2022, J. Chem. Inf. Model. 62). To
dock into another of its 58 targets set DOCKING_TARGET, and to search longer set DOCKING_EXHAUSTIVENESS.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from meeko import MoleculePreparation, PDBQTWriterLegacy
from rdkit import Chem
from rdkit.Chem import AllChem
from vina import Vina

SEED = 42


def score(smiles: list[str]) -> list[float | None]:
    """Return the score of each molecule's best pose in kcal/mol, or None if it cannot be docked."""
    dock = docking(os.environ.get("DOCKING_TARGET", "KIT"))
    exhaustiveness = int(os.environ.get("DOCKING_EXHAUSTIVENESS", "1"))
    scores: list[float | None] = []
    for text in smiles:
        ligand = prepared(text)
        if ligand is None:
            scores.append(None)
            continue
        dock.set_ligand_from_string(ligand)
        dock.dock(exhaustiveness=exhaustiveness, n_poses=1)
        scores.append(float(dock.energies(n_poses=1)[0][0]))
    return scores


def docking(target: str) -> Vina:
    """Return Vina with the receptor, and the maps of its search box."""
    package = find_spec("dockstring")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("the receptors are in the package dockstring; install it (pip install dockstring)")
    folder = Path(package.submodule_search_locations[0]) / "resources" / "targets"
    receptor, box = folder / f"{target}_target.pdbqt", folder / f"{target}_conf.txt"
    if not receptor.exists():
        raise SystemExit(f"there is no receptor {receptor}")
    lines = [line.split("=") for line in box.read_text().splitlines() if "=" in line]
    values = {name.strip(): float(value) for name, value in lines}
    dock = Vina(sf_name="vina", cpu=1, seed=SEED, verbosity=0)
    dock.set_receptor(str(receptor))
    center, size = ([values[f"{what}_{axis}"] for axis in "xyz"] for what in ("center", "size"))
    dock.compute_vina_maps(center=center, box_size=size)
    return dock


def prepared(smiles: str) -> str | None:
    """Return a molecule with charges and torsions as PDBQT, or None if it has no conformer."""
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    if AllChem.EmbedMolecule(molecule, randomSeed=SEED):
        return None
    AllChem.MMFFOptimizeMolecule(molecule)
    text, fine, _ = PDBQTWriterLegacy.write_string(MoleculePreparation().prepare(molecule)[0])
    return text if fine else None
