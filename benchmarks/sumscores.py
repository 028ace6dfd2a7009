"""A space of 10^8 products of three components, with two scores that are functions of sums over synthons.

One reaction (two amides on a diamine that is protected on one side) of random blocks of a real space, 480
cores and 460 and 455 acids, each with exactly one synthon. Either score can be computed for all products, so
that the best 100 molecules are known. Both are maximized.

"properties" is no similarity. Seven numbers are summed over the three synthons of a product (attachment
points left out): heavy atoms n, aromatic atoms a, halogens x, donors d, logP P (Crippen), polar surface T and
rotatable bonds r, and

    E = 0.15 n + 0.1 a + 0.25 x + 0.35 d,
    score = 12 tanh(E / 12) - 0.3 (P - 3)^2 - 0.0005 (T - 90)^2 - 0.1 max(0, r - 8)^2.

"similarity" is the Tanimoto similarity to a random product of the space, sum min / sum max of Morgan counts
of radius 2, those of a product being the sums of those of its three synthons with their attachment points.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator, rdMolDescriptors
from space import sub_space
from spacetruth import Array, Places, ScoredSpace, single_blocks

from daskrf.demo.building_blocks import load_blocks

SIZES = 480, 460, 455
SMALL = 16, 25, 25


@dataclass(frozen=True)
class SummedSpace(ScoredSpace):
    """A space of three slots whose scores are a function of sums over synthons.

    Attributes
    ----------
    function : Properties or Similarity
    """

    function: Properties | Similarity

    def scores(self, places: Places) -> Array:
        sums = sum(rows[places[:, slot]] for slot, rows in enumerate(self.function.of))
        return np.asarray(self.function.score(sums), np.float64)

    def _best_places(self, n: int) -> Places:
        top: Array = np.empty(0)
        at: Places = np.empty((0, 3), np.int64)
        first, second, third = self.function.of
        pairs = second[:, None, :] + third[None, :, :]
        for core, row in enumerate(first):
            scores = self.function.score(row + pairs).ravel()
            least = top[n - 1] if len(top) >= n else -np.inf
            some = np.flatnonzero(scores > least)
            if len(some) > n:
                some = some[np.argpartition(-scores[some], n)[:n]]
            places = np.column_stack([np.full(len(some), core), *divmod(some, len(third))])
            top, at = np.concatenate([top, scores[some]]), np.concatenate([at, places])
            order = np.argsort(-top, kind="stable")[:n]
            top, at = top[order], at[order]
        return at


def summed_space(name: str, folder: Path, seed: int, *, small: bool = False) -> SummedSpace:
    """Write the space, with one of `SCORES`.

    Parameters
    ----------
    name : str
        One of `SCORES`.
    folder : Path
        Is made, with the space in it.
    seed : int
        Of the target of "similarity".
    small : bool
        Take 10,000 products of blocks that the package has.
    """
    folder.mkdir()
    whole = folder / "whole"
    if small:
        _packaged_space(whole)
    else:
        sub_space(whole, 2, triples=True)
    sizes = SMALL if small else SIZES
    blocks, synthons = single_blocks(whole, folder / "space", sizes, np.random.default_rng(0))
    return SummedSpace(blocks, "maximize", SCORES[name](synthons, seed))


def _packaged_space(folder: Path) -> None:
    """Write the same reaction with blocks of the package."""
    folder.mkdir(parents=True)
    acids = load_blocks("acids")
    slots = load_blocks("diamines")[:200], acids[:300], acids[150:450]
    number = {
        text: f"b{i}" for i, text in enumerate(dict.fromkeys(text for texts in slots for text in texts))
    }
    lines = ["block,smiles", *(f"{name},{text}" for text, name in number.items())]
    (folder / "blocks.csv").write_text("\n".join(lines) + "\n")
    rows = [f"boc,{slot},{number[text]}" for slot, texts in enumerate(slots) for text in texts]
    (folder / "slots.csv").write_text("\n".join(["reaction,slot,block", *rows]) + "\n")
    reactants = (
        "(CC(C)(C)OC(=O)[N:1]([*:2])[*:3].[*:4][N:5]([H])[*:6]).([OH1][C:7]([*:8])=[O:9])."
        "([OH1][C:10]([*:11])=[O:12])"
    )
    product = "([*:4][N:5]([*:6])[C:7](=[O:9])[*:8].[*:3][N:1]([*:2])[C:10](=[O:12])[*:11])"
    (folder / "reactions.tsv").write_text(f"reaction\treactants\tproduct\nboc\t{reactants}\t{product}\n")


class Properties:
    """The score "properties"."""

    def __init__(self, synthons: list[list[str]], seed: int) -> None:
        self.of = [np.array([_properties(text) for text in texts]) for texts in synthons]

    def score(self, sums: Array) -> Array:
        """Return the score of products from the sums of their synthons' properties."""
        n, a, x, d, P, T, r = np.moveaxis(sums, -1, 0)
        E = 0.15 * n + 0.1 * a + 0.25 * x + 0.35 * d
        far = 0.3 * (P - 3) ** 2 + 0.0005 * (T - 90) ** 2 + 0.1 * np.maximum(0, r - 8) ** 2
        return np.asarray(12 * np.tanh(E / 12) - far)


def _properties(smiles: str) -> list[float]:
    """Return the seven numbers of a synthon."""
    molecule = Chem.MolFromSmiles(smiles)
    atoms = [atom for atom in molecule.GetAtoms() if atom.GetAtomicNum()]
    logp = rdMolDescriptors._CalcCrippenContribs(molecule)
    return [
        len(atoms),
        sum(atom.GetIsAromatic() for atom in atoms),
        sum(atom.GetAtomicNum() in (9, 17, 35, 53) for atom in atoms),
        rdMolDescriptors.CalcNumHBD(molecule),
        sum(logp[atom.GetIdx()][0] for atom in atoms),
        rdMolDescriptors.CalcTPSA(molecule),
        rdMolDescriptors.CalcNumRotatableBonds(molecule),
    ]


class Similarity:
    """The score "similarity"; columns are the environments of the target, and the number of all counts."""

    def __init__(self, synthons: list[list[str]], seed: int) -> None:
        generator = rdFingerprintGenerator.GetMorganGenerator(radius=2)
        counts = [
            [
                generator.GetSparseCountFingerprint(Chem.MolFromSmiles(text)).GetNonzeroElements()
                for text in texts
            ]
            for texts in synthons
        ]
        random = np.random.default_rng(1000 + seed)
        target = [rows[random.integers(len(rows))] for rows in counts]
        names = sorted(set[int]().union(*target))
        self.of = [
            np.array([[*(one.get(name, 0) for name in names), sum(one.values())] for one in rows], np.int32)
            for rows in counts
        ]
        self.target = np.array([sum(one.get(name, 0) for one in target) for name in names])

    def score(self, sums: Array) -> Array:
        """Return the similarity of products from the sums of their synthons' counts."""
        common = np.minimum(sums[..., :-1], self.target).sum(axis=-1)
        return np.asarray(common / (sums[..., -1] + self.target.sum() - common))


SCORES = {"properties": Properties, "similarity": Similarity}
