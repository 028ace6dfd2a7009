"""A space of peptides with a score like that of a docking program.

The small slot has 40 amines and diamines (one end protected), the large one 12,500 dipeptides and
tripeptides, capped, with the acid free: 500,000 amides. Here are its blocks, and the score of every product.

The score is made to be as hard as those of docking programs. A product has four groups: the amine, and the
residues beside it (the last, the one before, and all that is farther, the cap included). A pocket has sites;
in each of three poses the groups lie in other ones. In a pose, a site rewards a group by its size,
lipophilicity, aromatic rings, donors, acceptors and rotatable bonds: linear and with an optimum. The amine
and the last residue share a room: pairs of them fit or clash. The score is the soft minimum over the poses.
It grows less than in proportion to the size. On top come what is particular to a block, which no structure
explains (of amines with heavy tails), the scatter of single dockings, and some that miss the best pose, with
scores that are much worse. Kilocalories per mole, small is good.

The weights were chosen by three figures of a space of this kind that was really docked: of the best 100
products, the best 5,000 by the true additive model of blocks hold 76 (79 here), and Thompson sampling over
reagents finds 6 to 14 with 5,000 scores (6 to 15 here) and about 30 with 10,000 (24 here). By the score
without scatter and missed poses, which no model can know, the best 5,000 hold 98.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rdkit import Chem
from rdkit.Chem import Crippen, rdMolDescriptors
from spacetruth import ListedSpace, write_space

from daskrf.demo.building_blocks import load_blocks

Array = npt.NDArray[np.float64]

REACTION = "[N;H1,H2;!$(NC=[O,S]);!$(NS=O);!$(N-N):1].[OH][C:2]=[O:3]>>[N:1][C:2]=[O:3]"
SIZES = 40, 12_500
SMALL = 10, 60
SEED = 2
SCORE_SEED = 14
POSES = 3
# Files of the package's blocks, and their shares of the small slot.
AMINES = {"amines_primary": 0.35, "amines_secondary": 0.25, "anilines": 0.15, "diamines": 0.25}

# Side chains of alpha-amino acids, N[C@@H](...)C(=O); reactive ones are protected.
SIDE_CHAINS = {
    "Ala": "C",
    "Abu": "CC",
    "Nva": "CCC",
    "Nle": "CCCC",
    "Val": "C(C)C",
    "Leu": "CC(C)C",
    "Ile": "[C@@H](C)CC",
    "Tle": "C(C)(C)C",
    "Nep": "CC(C)(C)C",
    "Met": "CCSC",
    "Met(O2)": "CCS(=O)(=O)C",
    "Cys(Me)": "CSC",
    "Cys(Bn)": "CSCc1ccccc1",
    "Ser": "CO",
    "Ser(Me)": "COC",
    "Ser(Bn)": "COCc1ccccc1",
    "Thr": "[C@@H](C)O",
    "Hse": "CCO",
    "Asn": "CC(N)=O",
    "Gln": "CCC(N)=O",
    "Asp(Me)": "CC(=O)OC",
    "Glu(Me)": "CCC(=O)OC",
    "Cyano": "CC#N",
    "Lys(Ac)": "CCCCNC(C)=O",
    "Lys(Me3)": "CCCC[N+](C)(C)C",
    "Orn(Ac)": "CCCNC(C)=O",
    "Cit": "CCCNC(N)=O",
    "Phe": "Cc1ccccc1",
    "Phe(4F)": "Cc1ccc(F)cc1",
    "Phe(4Cl)": "Cc1ccc(Cl)cc1",
    "Phe(34Cl2)": "Cc1ccc(Cl)c(Cl)c1",
    "Phe(4Br)": "Cc1ccc(Br)cc1",
    "Phe(4CN)": "Cc1ccc(C#N)cc1",
    "Phe(4NO2)": "Cc1ccc([N+](=O)[O-])cc1",
    "Phe(4CF3)": "Cc1ccc(C(F)(F)F)cc1",
    "Phe(3Me)": "Cc1cccc(C)c1",
    "Phe(4tBu)": "Cc1ccc(C(C)(C)C)cc1",
    "Hph": "CCc1ccccc1",
    "Phg": "c1ccccc1",
    "Tyr": "Cc1ccc(O)cc1",
    "Tyr(Me)": "Cc1ccc(OC)cc1",
    "Bip": "Cc1ccc(cc1)-c1ccccc1",
    "1Nal": "Cc1cccc2ccccc12",
    "2Nal": "Cc1ccc2ccccc2c1",
    "Trp": "Cc1c[nH]c2ccccc12",
    "Trp(Me)": "Cc1cn(C)c2ccccc12",
    "His(Me)": "Cc1cncn1C",
    "2Pal": "Cc1ccccn1",
    "3Pal": "Cc1cccnc1",
    "Thi": "Cc1cccs1",
    "Thz": "Cc1cscn1",
    "Fur": "Cc1ccco1",
    "Cpa": "CC1CC1",
    "Cha": "CC1CCCCC1",
    "Chg": "C1CCCCC1",
    "Cpg": "C1CCCC1",
    "Thp": "C1CCOCC1",
    "Tfa": "CC(F)(F)F",
    "Pra": "CC#C",
    "Alg": "CC=C",
}
# Residues without such a side chain.
OTHERS = {
    "Gly": "NCC(=O)",
    "Aib": "NC(C)(C)C(=O)",
    "Pro": "N1CCC[C@H]1C(=O)",
    "Aze": "N1CC[C@H]1C(=O)",
    "Pip": "N1CCCC[C@H]1C(=O)",
    "Hyp(Me)": "N1C[C@H](OC)C[C@H]1C(=O)",
    "Tic": "N1Cc2ccccc2C[C@H]1C(=O)",
    "bAla": "NCCC(=O)",
    "Abz": "Nc1cccc(c1)C(=O)",
    "Sar": "N(C)CC(=O)",
}
CAPS = {
    "Ac": "CC(=O)",
    "iBu": "CC(C)C(=O)",
    "Piv": "CC(C)(C)C(=O)",
    "cPr": "C1CC1C(=O)",
    "Bz": "c1ccccc1C(=O)",
    "PhAc": "c1ccccc1CC(=O)",
    "Nic": "c1cnccc1C(=O)",
    "Ms": "CS(=O)(=O)",
    "Boc": "CC(C)(C)OC(=O)",
    "Cbz": "c1ccccc1COC(=O)",
    "MeOAc": "COCC(=O)",
    "Fur": "c1ccoc1C(=O)",
}


# What each cause adds to a score, as a standard deviation in kcal/mol.
WEIGHTS = {
    "amine": 1.2,
    "last": 0.8,
    "before": 0.5,
    "far": 0.5,
    "pairs": 0.8,
    "pose": 0.2,
    "block": 0.25,
    "scatter": 0.7,
}
FAILED = 0.08  # share of products whose docking misses the best pose


@dataclass(frozen=True)
class Peptide:
    """A capped peptide acid: the cap and its residues, the last one with the free acid."""

    cap: str
    residues: tuple[str, ...]

    @property
    def smiles(self) -> str:
        return CAPS[self.cap] + "".join(map(residue, self.residues)) + "O"

    @property
    def name(self) -> str:
        return "-".join([self.cap, *self.residues])


def residue(name: str) -> str:
    """Return the SMILES of a residue, from its nitrogen to its carbonyl."""
    return OTHERS.get(name) or f"N[C@@H]({SIDE_CHAINS[name]})C(=O)"


def amines(n: int, random: np.random.Generator) -> list[str]:
    """Return random amines, anilines and mono-protected diamines of the package."""
    chosen: list[str] = []
    for name, share in AMINES.items():
        blocks = list(dict.fromkeys(load_blocks(name)))
        chosen += [blocks[i] for i in random.choice(len(blocks), round(share * n), replace=False)]
    return chosen


def peptides(n: int, random: np.random.Generator) -> list[Peptide]:
    """Return different random peptides, half of two residues and half of three."""
    caps, names = list(CAPS), [*SIDE_CHAINS, *OTHERS]
    chosen: dict[Peptide, None] = {}
    while len(chosen) < n:
        residues = random.choice(names, 2 + len(chosen) % 2)
        chosen[Peptide(str(random.choice(caps)), tuple(map(str, residues)))] = None
    return list(chosen)


def peptide_space(folder: Path, sizes: tuple[int, int] = SIZES) -> ListedSpace:
    """Write a space of peptides, and score all products: the same with each call."""
    random = np.random.default_rng(SEED)
    amine, peptide = amines(sizes[0], random), peptides(sizes[1], random)
    slots = {f"a{i}": smiles for i, smiles in enumerate(amine)}, {one.name: one.smiles for one in peptide}
    blocks = write_space(folder, REACTION, slots)
    table = scores(amine, peptide, np.random.default_rng((SEED, SCORE_SEED)))
    return ListedSpace(blocks, "minimize", table)


# The score -------------------------------------------------------------------------------------------------


def scores(amine: list[str], peptide: list[Peptide], random: np.random.Generator) -> Array:
    """Return the score of every product in kcal/mol, shape (n_amines, n_peptides)."""
    names = [*SIDE_CHAINS, *OTHERS]
    place = {name: i for i, name in enumerate(names)}
    residues = descriptors([residue(name) + "O" for name in names])
    caps = dict(zip(CAPS, descriptors([text + "N" for text in CAPS.values()]), strict=True))
    cores = descriptors(amine)
    last = np.array([place[one.residues[-1]] for one in peptide])
    before = np.array([place[one.residues[-2]] for one in peptide])
    far = np.array(
        [sum((residues[place[name]] for name in one.residues[:-2]), caps[one.cap]) for one in peptide]
    )
    poses = []
    for _ in range(POSES):
        rows = WEIGHTS["amine"] * site(cores, random)
        columns = WEIGHTS["last"] * site(residues, random)[last]
        columns += WEIGHTS["before"] * site(residues, random)[before]
        columns += WEIGHTS["far"] * site(far, random)
        pairs = WEIGHTS["pairs"] * room(cores, residues, random)[:, last]
        poses.append(WEIGHTS["pose"] * random.standard_normal() + rows[:, None] + columns + pairs)
    fit = -np.logaddexp.reduce([-2.0 * pose for pose in poses], axis=0) / 2.0
    size = heavy_atoms(amine)[:, None] + heavy_atoms([one.smiles for one in peptide]) - 1.0
    particular = 0.6 * random.standard_t(3, (len(amine), 1)) + random.standard_normal(len(peptide))
    scatter = WEIGHTS["scatter"] * random.standard_normal(fit.shape)
    failed = random.exponential(1.5, fit.shape) * (random.random(fit.shape) < FAILED)
    return np.asarray(-1.3 * np.sqrt(size) + fit + WEIGHTS["block"] * particular + scatter + failed)


def heavy_atoms(smiles: list[str]) -> Array:
    """Return numbers of heavy atoms."""
    return np.array([Chem.MolFromSmiles(text).GetNumHeavyAtoms() for text in smiles], np.float64)


def descriptors(smiles: list[str]) -> Array:
    """Return heavy atoms, logP, aromatic rings, donors, acceptors and rotatable bonds, standardized."""
    functions: list[Callable[[Chem.Mol], float]] = [
        Chem.Mol.GetNumHeavyAtoms,
        Crippen.MolLogP,
        rdMolDescriptors.CalcNumAromaticRings,
        rdMolDescriptors.CalcNumHBD,
        rdMolDescriptors.CalcNumHBA,
        rdMolDescriptors.CalcNumRotatableBonds,
    ]
    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    values = np.array([[function(one) for function in functions] for one in molecules], np.float64)
    return np.asarray((values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 0.1))


def site(x: Array, random: np.random.Generator) -> Array:
    """Return what a site of the pocket rewards in groups of these descriptors: standardized, shape (n,)."""
    value = x @ random.standard_normal(x.shape[1])
    optimum = ((x - 0.7 * random.standard_normal(x.shape[1])) ** 2) @ random.uniform(0.0, 0.5, x.shape[1])
    return standardized(value + optimum)


def room(a: Array, b: Array, random: np.random.Generator) -> Array:
    """Return how pairs of groups fit into a room that they share, beyond what each does by itself.

    Returns
    -------
    float64 array, shape (n_a, n_b)
        With a standard deviation of 1; the mean of each row and of each column is 0.
    """
    width = a.shape[1]
    likes = a @ random.standard_normal((width, width)) @ b.T
    clash = np.maximum(0.0, a[:, :1] + b[:, 0] - 0.5) ** 2
    both = standardized(likes) + standardized(clash)
    both -= both.mean(axis=0)
    return standardized(both - both.mean(axis=1, keepdims=True))


def standardized(values: Array) -> Array:
    return np.asarray((values - values.mean()) / values.std())
