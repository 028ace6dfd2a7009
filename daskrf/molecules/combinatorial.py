"""Whether molecules are products of a few building blocks, and which ones, as their substituents tell."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from daskrf import seeds
from daskrf.molecules.isolation import Lost, each

FEWEST = 100
"""Molecules: of fewer, a block that several share may be chance."""

_SOME = 500  # molecules looked at
_LEAST_ATOMS = 4  # of a substituent: smaller ones are common everywhere
_OFTEN = 4  # molecules with the same substituent
_LEAST_PRODUCTS = 4  # of a block, to see what they have in common
_PRODUCTS = 12  # of a block that are looked at: more share less by chance
_MOST_BLOCKS = 500  # of a slot: positions are counted from the bond to one of few
_ONE_FRAGMENT = 0.95  # of the products with a block's substituent, the share that are of the block
_SHARE = 0.9  # of the molecules with such a one: 0.64 to 0.83 in libraries of vendors and of ChEMBL


def are_combinatorial(smiles: Sequence[str]) -> bool:
    """Return whether nearly all molecules share a large substituent with several others.

    In a space with a slot of few blocks, each molecule has one of these as a substituent. Of 500 random
    molecules, 90 % have to have a substituent of at least four heavy atoms that three others have, too.

    Parameters
    ----------
    smiles : sequence of str
        Of fewer than 100, False is returned. Those that cannot be read, or have no such substituent, do not
        count.

    Examples
    --------
    >>> amines = [f"CCC(=O)N{chain * 'C'}c1ccc{ring}1" for chain in range(5) for ring in ("cc", "nc", "s")]
    >>> acids = [f"{'C' * n}C(=O)" for n in range(1, 12)]
    >>> are_combinatorial([acid + amine.removeprefix("CCC(=O)") for acid in acids for amine in amines])
    True
    """
    if len(smiles) < FEWEST:
        return False
    order = np.argsort(seeds.words(0, "molecules/combinatorial", len(smiles)), kind="stable")
    texts = [smiles[place] for place in order[:_SOME].tolist()]
    results = each(f"{__name__}:finder", (), texts)
    molecules = [set(sides) for sides in results if not isinstance(sides, Lost) and sides]
    number = Counter(side for sides in molecules for side in sides)
    n_shared = sum(any(number[side] >= _OFTEN for side in sides) for sides in molecules)
    return bool(molecules) and n_shared >= _SHARE * len(molecules)


def blocks_as_substituents(smiles: Sequence[str], blocks: Sequence[str]) -> dict[str, int]:
    """Return the substituent of each block that its products have in common.

    It is the largest one that all products of the block share, of those looked at: at most twelve, spread
    over all of them. Blocks with fewer than four products are left out, and so are those whose substituent is
    also the largest that products of other blocks share with any block.

    Parameters
    ----------
    smiles : sequence of str
        Products.
    blocks : sequence of str
        The block of each product, in one slot. The 500 blocks with the most products are looked at.

    Returns
    -------
    dict of str to int
        Identifiers of substituents, see `daskrf.molecules.counts.substituents`, by block.

    Examples
    --------
    >>> acids = [f"{'C' * n}C(=O)" for n in range(1, 5)]
    >>> products = [acid + amine for amine in ("NCc1ccccc1", "N1CCOCC1") for acid in acids]
    >>> {block: f"{number:08x}" for block, number in blocks_as_substituents(products, [*"aaaabbbb"]).items()}
    {'a': '8fdbd15f', 'b': '50c021b9'}
    """
    products: dict[str, list[int]] = {}
    for place, block in enumerate(blocks):
        products.setdefault(block, []).append(place)
    enough = [block for block in products if len(products[block]) >= _LEAST_PRODUCTS]
    enough = sorted(enough, key=lambda block: (-len(products[block]), block))[:_MOST_BLOCKS]
    spread = {
        block: [products[block][i] for i in _spread(len(products[block]), _PRODUCTS)] for block in enough
    }
    texts = [smiles[place] for block in enough for place in spread[block]]
    sizes_of = iter(each(f"{__name__}:sizer", (), texts))
    sides = {block: [next(sizes_of) for _ in places] for block, places in spread.items()}
    read = {
        block: [dict(one) for one in several if not isinstance(one, Lost) and one]
        for block, several in sides.items()
    }
    common = {block: _largest_common(several) for block, several in read.items()}
    fragment = {block: identifier for block, identifier in common.items() if identifier is not None}
    identifiers = set(fragment.values())
    seen, right = Counter[int](), Counter[int]()
    for block, several in read.items():
        for sizes in several:
            present = [(sizes[identifier], identifier) for identifier in sizes.keys() & identifiers]
            if present:
                _, largest = max(present)
                seen[largest] += 1
                right[largest] += largest == fragment.get(block)
    return {
        block: identifier
        for block, identifier in fragment.items()
        if right[identifier] and right[identifier] >= _ONE_FRAGMENT * seen[identifier]
    }


def _spread(n: int, most: int) -> list[int]:
    """Return at most `most` of n places, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64)).tolist()


def _largest_common(molecules: Sequence[dict[int, int]]) -> int | None:
    """Return the largest substituent that all molecules have, if there is one, from the sizes of each's."""
    if len(molecules) < _LEAST_PRODUCTS:
        return None
    common = functools.reduce(lambda some, one: some & one.keys(), molecules[1:], {*molecules[0]})
    return max(common, key=lambda identifier: (molecules[0][identifier], identifier), default=None)


def finder() -> Callable[[str], list[int]]:
    """Return the function from a SMILES to its large substituents; it runs in a helper process.

    Examples
    --------
    >>> len(finder()("CCCCCCCC"))
    8
    """
    sizes = sizer()
    return lambda text: [identifier for identifier, size in sizes(text) if size >= _LEAST_ATOMS]


def sizer() -> Callable[[str], list[list[int]]]:
    """Return the function from a SMILES to its substituents and their numbers of heavy atoms.

    Of a SMILES that cannot be read there are none. It runs in a helper process.

    Examples
    --------
    >>> sorted(size for _, size in sizer()("CCO"))
    [1, 1, 2, 2]
    """
    from rdkit import Chem, rdBase

    from daskrf.molecules.counts.costs import refusal_of_rings, refusal_of_text
    from daskrf.molecules.counts.substituents import Substituents

    silence = rdBase.BlockLogs()

    def find(text: str) -> list[list[int]]:
        assert silence is not None  # for the lifetime of the function
        refused = refusal_of_text(text, "keep") or refusal_of_rings(text)
        molecule = None if refused else Chem.MolFromSmiles(text)
        if molecule is None:
            return []
        return [[identifier, len(atoms)] for identifier, atoms in Substituents(molecule).occurrences()]

    return find
