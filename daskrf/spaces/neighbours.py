"""Products of a space that differ from others in one block."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

from daskrf.spaces.cut import CutSpace
from daskrf.spaces.sampling import places_by_reaction, random_numbers

Integers = npt.NDArray[np.int64]


def neighbours(cut: CutSpace, numbers: Integers, best: Integers, most: int, seed: int) -> Integers:
    """Return the products that differ in one slot from some products.

    A slot with more than `most` distinct synthons contributes `most` of them: up to half from the best
    products of its reaction, the others at random.

    Parameters
    ----------
    cut : CutSpace
    numbers : int64 array
        Numbers of the products.
    best : int64 array
        Numbers of good products of the space, best first.
    most : int
    seed : int
        Of the random synthons.

    Returns
    -------
    int64 array
        Ascending, each once, without `numbers`. Different blocks with equal synthons give one product.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from daskrf.molecules import FingerprintSpec
    >>> from daskrf.spaces import cut, read_space
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> amide = "[N:1]([H])[*:2].[OH][C:3]=[O:4],[*:2][N:1][C:3]=[O:4]"
    >>> _ = (folder / "reactions.csv").write_text(f"reaction,reactants,product\\namide,{amide}\\n")
    >>> _ = (folder / "blocks.csv").write_text("block,smiles\\na,NC\\nb,NCC\\nc,CC(=O)O\\nd,CCC(=O)O\\n")
    >>> slots = ["reaction,slot,block", "amide,0,a", "amide,0,b", "amide,1,c", "amide,1,d"]
    >>> _ = (folder / "slots.csv").write_text("\\n".join(slots) + "\\n")
    >>> space = cut(read_space(folder), FingerprintSpec("morgan"))
    >>> neighbours(space, np.array([0]), np.array([0]), 100, 0).tolist()
    [1, 2]
    """
    products, good = [np.empty(0, np.int64)], {r: places for r, _, places in places_by_reaction(cut, best)}
    for r, at, places in places_by_reaction(cut, numbers):
        sizes = [len(slot.block) for slot in cut.entries[r]]
        strides = [math.prod(sizes[slot + 1 :]) for slot in range(len(sizes))]
        for slot, (entries, stride) in enumerate(zip(cut.entries[r], strides, strict=True)):
            _, first, synthon = np.unique(entries.synthon, return_index=True, return_inverse=True)
            taken = np.arange(len(first))
            if len(first) > most:
                preferred = list(dict.fromkeys(synthon[good[r][slot]].tolist() if r in good else ()))[
                    : most // 2
                ]
                random = random_numbers(len(first), most, seed, f"space/neighbours/{r}/{slot}").tolist()
                taken = np.array(list(itertools.islice(dict.fromkeys([*preferred, *random]), most)))
            new = numbers[at][:, None] + (first[taken] - places[slot][:, None]) * stride
            same = synthon[places[slot]][:, None] == taken
            products.append(new[~same])
    return np.setdiff1d(np.concatenate(products), numbers)
