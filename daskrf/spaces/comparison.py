"""Compare joined synthons and summed fingerprints with RDKit's products of the same blocks."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy import sparse

from daskrf import seeds
from daskrf.molecules.counts.fingerprints import Fingerprinter
from daskrf.spaces.cut import CutSpace, in_helpers


class Comparison(NamedTuple):
    """Result of the comparison of a reaction.

    Attributes
    ----------
    combinations : int
        Random combinations of blocks.
    products : int
        Their products: several if a block has several sites.
    difference : str
        The first difference, or an empty string.
    """

    combinations: int
    products: int
    difference: str


def compare(cut: CutSpace, reaction: int, n: int, seed: int = 0) -> Comparison:
    """Compare random products of a reaction with RDKit's.

    All products of a combination of blocks are compared: the set of their SMILES with that of RDKit's
    ``RunReactants``, and the fingerprint of each with that of its SMILES. A table of synthons has no
    reactions to run, so there only the fingerprints are compared.

    Parameters
    ----------
    cut : CutSpace
    reaction : int
        One that has products.
    n : int
        Number of combinations.
    seed : int, default 0

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from daskrf.molecules import FingerprintSpec
    >>> from daskrf.spaces.cut import cut
    >>> from daskrf.spaces.spacefiles import read_space
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> amide = "[N:1]([H])[*:2].[OH][C:3]=[O:4],[*:2][N:1][C:3]=[O:4]"
    >>> _ = (folder / "reactions.csv").write_text(f"reaction,reactants,product\\namide,{amide}\\n")
    >>> _ = (folder / "blocks.csv").write_text("block,smiles\\na,NCCNC\\nb,CC(=O)O\\n")
    >>> _ = (folder / "slots.csv").write_text("reaction,slot,block\\namide,0,a\\namide,1,b\\n")
    >>> compare(cut(read_space(folder), FingerprintSpec(radius=2)), 0, 1)
    Comparison(combinations=1, products=2, difference='')
    """
    space, entries = cut.space, cut.entries[reaction]
    random = seeds.generator(seed, "space", reaction)
    drawn = [slot.block[random.integers(len(slot.block), size=n)].tolist() for slot in entries]
    combinations = list(zip(*drawn, strict=True))
    synthons: list[tuple[int, ...]] = []
    of: list[int] = []
    for place, blocks in enumerate(combinations):
        several = itertools.product(*(slot.of_block(b) for slot, b in zip(entries, blocks, strict=True)))
        synthons += several
        of += [place] * (len(synthons) - len(of))
    chosen = np.array(synthons, np.int32)
    smiles = cut.product_smiles(chosen)
    if not space.reactions[reaction].smarts:  # a table of synthons has no reaction to run
        return Comparison(n, len(smiles), _different(cut, chosen, smiles))
    joined: list[set[str]] = [set() for _ in combinations]
    for place, one in zip(of, smiles, strict=True):
        joined[place].add(one)
    texts = [" ".join(space.smiles[block] for block in blocks) for blocks in combinations]
    maker = "daskrf.spaces.synthons:Reactor"
    made = in_helpers(maker, (space.reactions[reaction],), texts, lambda reason: [reason])
    for text, ours, rdkit in zip(texts, joined, made, strict=True):
        if ours != set(rdkit):
            only, more = _words(set(rdkit) - ours), _words(ours - set(rdkit))
            what = f"from {text} RDKit makes {only}, but joined synthons make {more}"
            return Comparison(n, len(smiles), what)
    return Comparison(n, len(smiles), _different(cut, chosen, smiles))


def _different(cut: CutSpace, chosen: np.ndarray, smiles: list[str]) -> str:
    """Name a product whose fingerprint is not the sum of those of its synthons, or return an empty string."""
    whole = Fingerprinter(cut.spec)(smiles)
    if whole.rejects:
        place, reason = whole.rejects[0]
        return f"{smiles[place]} has no fingerprint: {reason}"
    summed = cut.fingerprints(chosen)
    for row, one in enumerate(smiles):
        if not _same(summed[row], whole.fingerprints[row]):
            return f"the fingerprint of {one} is not the sum of those of its synthons"
    return ""


def _same(a: sparse.csr_matrix, b: sparse.csr_matrix) -> bool:
    return np.array_equal(a.indices, b.indices) and np.array_equal(a.data, b.data) and a.dtype == b.dtype


def _words(smiles: set[str]) -> str:
    more = f" and {len(smiles) - 1} more" if len(smiles) > 1 else ""
    return min(smiles, default="nothing else") + more
