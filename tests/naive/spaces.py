"""The best products of a small space, by making all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from daskrf.spaces import CutSpace


class Made(NamedTuple):
    """A product: its number, the reaction and the blocks by name, SMILES and score."""

    number: int
    reaction: str
    blocks: tuple[str, ...]
    smiles: str
    score: float


def every_product(space: CutSpace, score: Callable[[Sequence[str]], npt.NDArray[np.float64]]) -> list[Made]:
    """Return all products in order of their numbers: by reaction, then by the entry of each slot."""
    names, blocks, synthons = [], [], []
    smiles: list[str] = []
    for reaction, slots in zip(space.space.reactions, space.entries, strict=True):
        entries = [list(zip(own.block.tolist(), own.synthon.tolist(), strict=True)) for own in slots]
        combinations = list(itertools.product(*entries)) if entries else []
        names += [reaction.name] * len(combinations)
        blocks += [tuple(space.space.blocks[block] for block, _ in one) for one in combinations]
        synthons = [[synthon for _, synthon in one] for one in combinations]
        smiles += space.product_smiles(np.array(synthons)) if synthons else []
    scores = score(smiles)
    return [Made(i, *own) for i, own in enumerate(zip(names, blocks, smiles, scores.tolist(), strict=True))]


def best_products(every: Sequence[Made], k: int) -> list[Made]:
    """Return the best k distinct molecules; ties go to the lower number."""
    found: dict[str, Made] = {}
    for one in sorted(every, key=lambda one: (-one.score, one.number)):
        found.setdefault(one.smiles, one)
    return list(found.values())[:k]
