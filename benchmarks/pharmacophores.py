"""Spaces of real building blocks, scored by pharmacophores and by shape.

"pharmacophores" scores products by the similarity of their extended reduced graphs (ErG: pairs of
pharmacophoric points by their distance along bonds; Stiefl, Watson, Baumann & Zaliani 2006, J. Chem. Inf.
Model. 46, 208) to those of a drug, the fuzzy Tanimoto coefficient x.y / (x.x + y.y - x.y): 1,000 amines and
250 acids, or 40 diamines (protected at one end) and 75 acids on either side. "shape" scores them by USRCAT
(Schreyer & Blundell 2012, J. Cheminform. 4, 27), moments of the distances of atoms of five classes, from one
conformer of ETKDG, 1 / (1 + mean absolute difference) to that of a drug: 200 amines and 60 acids. The
conformer is a random one, so that the score of a product is uncertain, as that of a docking program is. All
are maximized, and none is a sum over blocks.

The blocks are random ones of the real space of the shared data with exactly one synthon. Scores of all
products take one to five minutes of one core, and are kept in the temporary folder.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import itertools
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from common import data_folder
from rdkit import Chem
from rdkit.Chem import rdDistGeom, rdMolDescriptors, rdReducedGraphs
from spacetruth import Blocks, ListedSpace, single_blocks

from daskrf.molecules import rdkit_version

Array = npt.NDArray[np.float64]

DRUG = "Cc1ccc(NC(=O)c2ccc(CN3CCN(C)CC3)cc2)cc1Nc1nccc(-c2cccnc2)n1"  # imatinib


@dataclass(frozen=True)
class Query:
    """What products are compared with.

    Attributes
    ----------
    describe : callable
        Returns the descriptors of a molecule.
    similarity : callable
        Returns the similarity of rows of descriptors to those of the query.
    smiles : str
        The query.
    """

    describe: Callable[[Chem.Mol], Array]
    similarity: Callable[[Array, Array], Array]
    smiles: str = DRUG

    def scores(self, smiles: Sequence[str]) -> Array:
        """Return the similarity of molecules to the query, shape (n,)."""
        query = self.describe(Chem.MolFromSmiles(self.smiles))
        rows = [self.describe(Chem.MolFromSmiles(text)) for text in smiles]
        return self.similarity(np.array(rows), query)


def reduced_graph(molecule: Chem.Mol) -> Array:
    """Return the fuzzy counts of pairs of pharmacophoric points."""
    return np.asarray(rdReducedGraphs.GetErGFingerprint(molecule), np.float64)


def fuzzy_tanimoto(rows: Array, query: Array) -> Array:
    common = rows @ query
    return np.asarray(common / ((rows**2).sum(axis=1) + query @ query - common))


def moments(molecule: Chem.Mol) -> Array:
    """Return USRCAT of one conformer; zeros where none can be made."""
    molecule = Chem.AddHs(molecule)
    settings = rdDistGeom.ETKDGv3()
    settings.randomSeed, settings.maxIterations = 1, 20
    if rdDistGeom.EmbedMolecule(molecule, settings):
        return np.zeros(60)
    return np.array(rdMolDescriptors.GetUSRCAT(molecule))


def near_in_moments(rows: Array, query: Array) -> Array:
    return np.asarray(1 / (1 + np.abs(rows - query).mean(axis=1)) * rows.any(axis=1))


@dataclass(frozen=True)
class Setting:
    """A reaction of the real space, the number of blocks of each slot, and the score of products."""

    reaction: str
    sizes: tuple[int, ...]
    query: Query


PHARMACOPHORES = Query(reduced_graph, fuzzy_tanimoto)
SPACES = {
    "pharmacophores-2": Setting("22", (1000, 250), PHARMACOPHORES),
    "pharmacophores-3": Setting("275592", (40, 75, 75), PHARMACOPHORES),
    "shape": Setting("22", (200, 60), Query(moments, near_in_moments)),
}
SPARE = 3  # times the blocks needed are cut, as some have several synthons


def real_space(name: str, folder: Path, *, small: bool = False) -> ListedSpace:
    """Write a space of random real blocks, and score all products, or take the scores from an earlier run.

    Parameters
    ----------
    name : str
        One of `SPACES`.
    folder : Path
        Is made, with the space in it.
    small : bool
        Take a fifth of the blocks of each slot.
    """
    setting, random = SPACES[name], np.random.default_rng(0)
    if small:
        setting = replace(setting, sizes=tuple(size // 5 for size in setting.sizes))
    folder.mkdir()
    _write_reaction(folder / "whole", setting, random)
    blocks, _ = single_blocks(folder / "whole", folder / "space", setting.sizes, random)
    return ListedSpace(blocks, "maximize", kept_scores(name, blocks, setting.query))


def _write_reaction(folder: Path, setting: Setting, random: np.random.Generator) -> None:
    """Write one reaction of the real space with random blocks, more than are needed."""
    source = data_folder() / "real_space"
    header, *lines = (source / "reactions.tsv").read_text().splitlines()
    with gzip.open(source / "slots.csv.gz", "rt") as file:
        head, *rows = csv.reader(file)
    slots: list[list[str]] = []
    for slot, size in enumerate(setting.sizes):
        blocks = [
            block for reaction, place, block in rows if (reaction, place) == (setting.reaction, str(slot))
        ]
        slots.append([blocks[i] for i in random.choice(len(blocks), SPARE * size, replace=False)])
    wanted = set(itertools.chain.from_iterable(slots))
    with gzip.open(source / "blocks.csv.gz", "rt") as file:
        first, *texts = csv.reader(file)
    folder.mkdir()
    kept = [line for line in lines if line.split("\t")[0] == setting.reaction]
    (folder / "reactions.tsv").write_text("\n".join([header, *kept]) + "\n")
    (folder / "blocks.csv").write_text(
        "\n".join([",".join(first), *(",".join(row) for row in texts if row[0] in wanted)]) + "\n"
    )
    entries = [f"{setting.reaction},{slot},{block}" for slot, own in enumerate(slots) for block in own]
    (folder / "slots.csv").write_text("\n".join([",".join(head), *entries]) + "\n")


def kept_scores(name: str, blocks: Blocks, query: Query) -> Array:
    """Return the scores of all products, one axis a slot, from a file of the temporary folder if there."""
    digest = hashlib.blake2b(repr((blocks.ids, query.smiles)).encode(), digest_size=6).hexdigest()
    path = Path(tempfile.gettempdir()) / f"daskrf-rdkit-{rdkit_version()}-{name}-{digest}.npy"
    if not path.exists():
        places = np.array(list(np.ndindex(*blocks.sizes)))
        table = query.scores(blocks.smiles(places)).reshape(blocks.sizes)
        written = path.with_suffix(f".{os.getpid()}.npy")  # two processes may score at once
        np.save(written, table)
        written.replace(path)
    return np.asarray(np.load(path), np.float64)
