"""Spaces of one reaction, with the true score of each product, and which are the best."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from daskrf import FingerprintSpec
from daskrf.spaces import cut, read_space

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

BEST = 100
LOOKED_AT = 3000  # best products among which the best molecules are: few molecules are made in several ways


@dataclass(frozen=True)
class Blocks:
    """The building blocks of a space of one reaction, each of which makes one synthon.

    Attributes
    ----------
    folder : Path
        The space, as daskrf reads it.
    ids : list of list of str
        IDs of the blocks of each slot. The place of a product is the places of its blocks in these lists.
    """

    folder: Path
    ids: list[list[str]]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.ids))

    @property
    def n_products(self) -> int:
        return int(np.prod(self.sizes))

    def places(self, products: Mapping[str, Sequence[Any]]) -> Places:
        """Return places from the columns block_0, block_1, ... of a sample or a batch, shape (n, slots)."""
        columns = []
        for slot, ids in enumerate(self.ids):
            place = {name: i for i, name in enumerate(ids)}
            columns.append([place[str(name)] for name in products[f"block_{slot}"]])
        return np.array(columns, np.int64).T

    def smiles(self, places: Places) -> list[str]:
        """Return the SMILES of products."""
        space = cut(read_space(self.folder), FingerprintSpec("morgan:1"))
        number = {name: i for i, name in enumerate(space.space.blocks)}
        columns = []
        for slot, (entry, ids) in enumerate(zip(space.entries[0], self.ids, strict=True)):
            synthon = dict(zip(entry.block.tolist(), entry.synthon.tolist(), strict=True))
            columns.append(np.array([synthon[number[name]] for name in ids])[places[:, slot]])
        return space.product_smiles(np.column_stack(columns))


@dataclass(frozen=True)
class ScoredSpace(ABC):
    """A space and the true score of each product."""

    blocks: Blocks
    direction: Literal["minimize", "maximize"]

    @abstractmethod
    def scores(self, places: Places) -> Array:
        """Return the scores of products at these places, shape (n,)."""

    @abstractmethod
    def _best_places(self, n: int) -> Places:
        """Return the places of the best n products, best first, shape (n, slots)."""

    @property
    def sign(self) -> float:
        """1.0 if large scores are good, else -1.0."""
        return 1.0 if self.direction == "maximize" else -1.0

    @property
    def n_best(self) -> int:
        """How many molecules are the best ones to be found."""
        return BEST

    @cached_property
    def best(self) -> dict[tuple[int, ...], str]:
        """The products that make the best molecules: place and SMILES, best first."""
        places = self._best_places(min(LOOKED_AT, self.blocks.n_products))
        best: dict[tuple[int, ...], str] = {}
        for place, smiles in zip(map(tuple, places.tolist()), self.blocks.smiles(places), strict=True):
            if smiles in best.values() or len(set(best.values())) < self.n_best:
                best[place] = smiles
        return best


@dataclass(frozen=True)
class ListedSpace(ScoredSpace):
    """A space whose scores are a table.

    Attributes
    ----------
    table : float64 array, one axis for each slot
    """

    table: Array

    def scores(self, places: Places) -> Array:
        return np.asarray(self.table[tuple(places.T)])

    def _best_places(self, n: int) -> Places:
        order = np.argsort(-self.sign * self.table, axis=None, kind="stable")[:n]
        return np.column_stack(np.unravel_index(order, self.table.shape)).astype(np.int64)


@dataclass
class Evaluations:
    """Scores products, and counts them.

    Attributes
    ----------
    n : int
        Products scored.
    hits : set of str
        The best molecules that have been scored.
    """

    space: ScoredSpace
    n: int = 0
    hits: set[str] = field(default_factory=set)

    def __call__(self, places: Places) -> Array:
        """Return the scores of products at these places."""
        self.n += len(places)
        best = self.space.best
        self.hits |= {best[place] for place in map(tuple, places.tolist()) if place in best}
        return self.space.scores(places)

    def scores_of(self, products: Mapping[str, Sequence[Any]]) -> Array:
        """Return the scores of products by the columns of a sample or a batch."""
        return self(self.space.blocks.places(products))

    @property
    def n_best(self) -> int:
        """Number of the best molecules."""
        return len(set(self.space.best.values()))

    @property
    def folder(self) -> Path:
        """The space."""
        return self.space.blocks.folder

    @property
    def direction(self) -> Literal["minimize", "maximize"]:
        return self.space.direction


def write_space(folder: Path, reaction: str, slots: Sequence[Mapping[str, str]]) -> Blocks:
    """Write a space as the SMARTS of its reaction and a file of reagents for each slot.

    Parameters
    ----------
    folder : Path
        Is made.
    reaction : str
        ``reactants>>product``.
    slots : sequence of mapping
        SMILES of the blocks of each slot, by ID.
    """
    folder.mkdir(parents=True)
    (folder / "reaction.smarts").write_text(reaction + "\n")
    for slot, blocks in enumerate(slots):
        lines = [f"{smiles} {name}\n" for name, smiles in blocks.items()]
        (folder / f"{slot}.smi").write_text("".join(lines))
    return Blocks(folder, [list(blocks) for blocks in slots])


def single_blocks(
    whole: Path, folder: Path, sizes: Sequence[int], random: np.random.Generator
) -> tuple[Blocks, list[list[str]]]:
    """Write a space of random blocks that have exactly one synthon; return it and the synthons' SMILES.

    Parameters
    ----------
    whole : Path
        A space of one reaction as three tables, which has these blocks.
    folder : Path
        Is made.
    sizes : sequence of int
        Number of blocks of each slot.
    random : numpy.random.Generator
    """
    space = cut(read_space(whole), FingerprintSpec("morgan:1"))
    names = space.space.blocks
    ids, synthons = [], []
    for entry, size in zip(space.entries[0], sizes, strict=True):
        block, first, times = np.unique(entry.block, return_index=True, return_counts=True)
        chosen = np.sort(random.choice(np.flatnonzero(times == 1), size, replace=False))
        ids.append([names[b] for b in block[chosen].tolist()])
        synthons.append([space.smiles[entry.synthon[i]] for i in first[chosen].tolist()])
    folder.mkdir()
    for name in ("reactions.tsv", "blocks.csv", "blocks.csv.gz"):
        if (whole / name).exists():
            (folder / name).write_bytes((whole / name).read_bytes())
    reaction = space.space.reactions[0].name
    rows = [f"{reaction},{slot},{name}" for slot, blocks in enumerate(ids) for name in blocks]
    (folder / "slots.csv").write_text("\n".join(["reaction,slot,block", *rows]) + "\n")
    return Blocks(folder, ids), synthons
