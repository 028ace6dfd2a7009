"""A make-on-demand library of more than 10^9 distinct products, addressed by index and never stored.

A recipe is a chain of two or three building blocks joined by the reactions of medicinal chemistry (amide
coupling, urea and sulfonamide formation, reductive amination, Suzuki coupling, nucleophilic aromatic
substitution). Each block is cut to its synthon once (`daskrf.demo.building_blocks`); a product is
then a concatenation of two or three strings, equal to what RDKit's ``RunReactants`` gives step by step.

Why no two indices give the same molecule:

1. A block has each reactive group of its slot exactly once (checked at load), so the blocks determine the
   product, and the blocks of a slot have distinct canonical SMILES.
2. No synthon contains a bond of the kinds in `LINKAGES` (checked at load), and joining pieces by acyclic
   single bonds changes neither rings nor aromaticity. So the linkage bonds of a product are exactly those
   that were formed, and cutting them gives back its synthons with their attachment points.
3. No two recipes can make the same chain of pieces, read from either end: at some position they use
   disjoint sets of synthons (a test compares all pairs). So the pieces determine recipe and blocks. For
   this reason a urea of two amines has the primary one on the left, and the aryl groups of the bromides are
   not among those of the boronic acids.
4. Indices map to (recipe, blocks) by a bijection.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rdkit import Chem

from daskrf import seeds
from daskrf.demo.building_blocks import Slot, load_slot
from daskrf.errors import InputError

_CHUNK = 4096
_ROUNDS = 6
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Product(NamedTuple):
    """A molecule of the library: SMILES, and a name made from the recipe and its block numbers."""

    smiles: str
    name: str


class Reactants(NamedTuple):
    """The recipe of a product and the SMILES of its building blocks, in the order of the slots."""

    recipe: str
    blocks: tuple[str, ...]


@dataclass(frozen=True)
class Recipe:
    """A named chain of reactants; each is joined to the next."""

    name: str
    slots: tuple[Slot, ...]


_AMINE_CLASSES = ("amines_primary", "amines_secondary", "anilines")
_AMINE = Slot(_AMINE_CLASSES, ("amine",))
_RING_AMINE = Slot(("amines_secondary",), ("amine",), "[NX3;H1;R;!$(N-a)]")
_ISOCYANATE = Slot(("amines_primary", "anilines"), ("isocyanate",))
_ACID = Slot(("acids",), ("acid",))
_SULFONYL = Slot(("sulfonyl_chlorides",), ("sulfonyl chloride",))
_ALDEHYDE = Slot(("aldehydes",), ("aldehyde",))
_BORONIC = Slot(("boronic_acids",), ("boronic acid",))
_CHLORIDE = Slot(("chloro_heteroaryls",), ("chloride",))
_AMINO_ACID = Slot(("amino_acids",), ("boc", "acid"))
_RING_AMINO_ACID = Slot(("amino_acids",), ("boc", "acid"), "[N;R;!$(N-a)]C(=O)OC(C)(C)C")
_DIAMINE = Slot(("diamines",), ("amine", "boc"))

RECIPES: tuple[Recipe, ...] = (
    Recipe("amide", (_ACID, _AMINE)),
    Recipe("sulfonamide", (_SULFONYL, _AMINE)),
    Recipe("urea", (_ISOCYANATE, Slot(("amines_secondary",), ("amine",)))),
    Recipe("reductive", (_ALDEHYDE, _RING_AMINE)),
    Recipe("suzuki", (_BORONIC, Slot(("aryl_bromides",), ("bromide",)))),
    Recipe("snar", (_CHLORIDE, _RING_AMINE)),
    Recipe("amide-amide", (_ACID, _AMINO_ACID, _AMINE)),
    Recipe("urea-amide", (_ISOCYANATE, _AMINO_ACID, _AMINE)),
    Recipe("sulfonyl-amide", (_SULFONYL, _AMINO_ACID, _AMINE)),
    Recipe("reductive-amide", (_ALDEHYDE, _RING_AMINO_ACID, _AMINE)),
    Recipe("snar-amide", (_CHLORIDE, _RING_AMINO_ACID, _AMINE)),
    Recipe("suzuki-amide", (_BORONIC, Slot(("bromo_acids",), ("bromide", "acid")), _AMINE)),
    Recipe("amine-aryl-amide", (_RING_AMINE, Slot(("chloro_acids",), ("chloride", "acid")), _AMINE)),
    Recipe("amide-sulfonyl", (_ACID, _DIAMINE, _SULFONYL)),
    Recipe("amide-reductive", (_ACID, _DIAMINE, _ALDEHYDE)),
    Recipe("amide-snar", (_ACID, _DIAMINE, _CHLORIDE)),
    Recipe("amide-urea", (_ACID, _DIAMINE, _ISOCYANATE)),
)


class _Table:
    """The strings of one recipe, by slot and block number."""

    def __init__(self, recipe: Recipe) -> None:
        self.name = recipe.name
        n = len(recipe.slots)
        slots = [load_slot(slot, i, (i + 1) % n) for i, slot in enumerate(recipe.slots)]
        self.blocks = [[synthon.block for synthon in slot] for slot in slots]
        self.heads = [[synthon.head for synthon in slot] for slot in slots]
        self.tails = [[synthon.tail for synthon in slot] for slot in slots]
        self.shape = tuple(len(slot) for slot in self.blocks)
        self.size = math.prod(self.shape)

    def numbers(self, local: npt.NDArray[np.uint64]) -> list[list[int]]:
        """Split indices within the recipe into block numbers, one list per slot."""
        columns = np.unravel_index(local.astype(np.int64), self.shape)
        return [column.tolist() for column in columns]

    def smiles(self, numbers: list[list[int]]) -> list[str]:
        """Join the strings of the given blocks."""
        heads, tails = self.heads, self.tails
        if len(heads) == 2:
            rows = zip(numbers[0], numbers[1], strict=True)
            return [f"{heads[0][i]}{heads[1][j]}{tails[0][i]}" for i, j in rows]
        triples = zip(numbers[0], numbers[1], numbers[2], strict=True)
        return [f"{heads[0][i]}{heads[1][j]}{heads[2][k]}{tails[1][j]}{tails[0][i]}" for i, j, k in triples]

    def names(self, numbers: list[list[int]]) -> list[str]:
        """Name the products of the given blocks."""
        return [self.name + "".join(f"-{j:04d}" for j in row) for row in zip(*numbers, strict=True)]


@cache
def _tables() -> tuple[_Table, ...]:
    return tuple(_Table(recipe) for recipe in RECIPES)


class Permutation:
    """A seeded bijection of 0 ... size - 1 that can be evaluated at any index independently.

    An unbalanced Feistel network on a rectangle a x b that just holds `size` points, walked until the
    point is inside (Black & Rogaway 2002, Ciphers with arbitrary finite domains).

    Parameters
    ----------
    size
        Number of points, 1 to 2**62.
    seed
        Chooses the bijection.

    Examples
    --------
    >>> import numpy as np
    >>> from daskrf.demo.enumeration import Permutation
    >>> sorted(Permutation(5, seed=1)(np.arange(5, dtype=np.uint64)).tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(self, size: int, seed: int = 0) -> None:
        if not 1 <= size <= 2**62:
            raise InputError(f"A permutation needs a size from 1 to 2**62, not {size}.")
        self.size = size
        self._a = math.isqrt(size - 1) + 1
        self._b = -(-size // self._a)
        self._keys = seeds.words(seed, "library/permutation", _ROUNDS)

    def __call__(self, index: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Return the images of `index` (uint64 array with values below `size`)."""
        image = self._rounds(index)
        outside = np.flatnonzero(image >= self.size)
        while outside.size:
            image[outside] = self._rounds(image[outside])
            outside = outside[image[outside] >= self.size]
        return image

    def inverse(self, image: int) -> int:
        """Return the index whose image is `image`."""
        a, b = self._a, self._b
        while True:
            left, right = image % a, image // a
            for j in range(_ROUNDS - 2, -1, -2):
                right = (right - self._word(left, j + 1) % b) % b
                left = (left - self._word(right, j) % a) % a
            image = left + a * right
            if image < self.size:
                return image

    def _word(self, value: int, j: int) -> int:
        return int(self._words(np.array([value], dtype=np.uint64), j)[0])

    def _words(self, values: npt.NDArray[np.uint64], j: int) -> npt.NDArray[np.uint64]:
        return seeds.splitmix64(values * _GOLDEN + self._keys[j])

    def _rounds(self, index: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        a, b = np.uint64(self._a), np.uint64(self._b)
        left, right = index % a, index // a
        for j in range(0, _ROUNDS, 2):
            left = (left + self._words(right, j) % a) % a
            right = (right + self._words(left, j + 1) % b) % b
        return left + a * right


class ReactionLibrary:
    """All products of the recipes, in a random order chosen by `seed`.

    Any index can be computed independently, on any worker; a prefix of the order is a fair sample of recipes
    and blocks. Loading the blocks takes a few seconds, once per worker.

    Parameters
    ----------
    seed
        Chooses the order of the products, not which products there are.

    Examples
    --------
    >>> from daskrf.demo.enumeration import ReactionLibrary
    >>> library = ReactionLibrary(seed=0)
    >>> len(library) > 10**9
    True
    >>> [product] = library.iterate(10**9, 10**9 + 1)
    >>> product == library.product(10**9)
    True
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seeds.check_seed(seed)
        self._tables = _tables()
        self._starts = np.cumsum([0] + [table.size for table in self._tables]).astype(np.uint64)
        self._permutation = Permutation(int(self._starts[-1]), self.seed)

    def __reduce__(self) -> tuple[type[ReactionLibrary], tuple[int]]:
        return ReactionLibrary, (self.seed,)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def sizes(self) -> dict[str, int]:
        """Number of products of each recipe."""
        return {table.name: table.size for table in self._tables}

    def product(self, index: int, *, canonical: bool = True) -> Product:
        """Return product number `index`.

        Parameters
        ----------
        index
            0 to ``len(self) - 1``.
        canonical
            Write RDKit's canonical SMILES (about 0.4 ms); otherwise the joined string, which is valid
            SMILES of the same molecule.

        Raises
        ------
        InputError
            If `index` is out of range.
        """
        return next(self.iterate(index, index + 1, canonical=canonical))

    def iterate(
        self, start: int = 0, stop: int | None = None, *, canonical: bool = True
    ) -> Iterator[Product]:
        """Stream products `start` to `stop - 1` (to the end if `stop` is None); nothing is stored.

        Raises
        ------
        InputError
            When the first product is requested, if the range is not within the library.
        """
        for numbers, names in self._chunks(start, stop):
            for smiles, name in zip(numbers, names, strict=True):
                yield Product(Chem.CanonSmiles(smiles) if canonical else smiles, name)

    def smiles(self, start: int, stop: int) -> list[str]:
        """Return the joined strings (not canonical) of a range as a list: the fastest way."""
        return [text for strings, _ in self._chunks(start, stop, named=False) for text in strings]

    def reactants(self, index: int) -> Reactants:
        """Return the recipe and the building blocks of product number `index`."""
        self.check_range(index, index + 1)
        image = self._permutation(np.array([index], dtype=np.uint64))
        which = int(np.searchsorted(self._starts, image, side="right")[0]) - 1
        table = self._tables[which]
        numbers = table.numbers(image - self._starts[which])
        blocks = (slot[chosen[0]] for slot, chosen in zip(table.blocks, numbers, strict=True))
        return Reactants(table.name, tuple(blocks))

    def check_range(self, start: int, stop: int) -> None:
        """Raise InputError unless `start` to `stop - 1` are within the library."""
        if not 0 <= start <= stop <= len(self):
            raise InputError(
                f"Products {start} to {stop} do not lie in the library: give a range within 0 to {len(self)}."
            )

    def _chunks(
        self, start: int, stop: int | None, named: bool = True
    ) -> Iterator[tuple[list[str], list[str]]]:
        """Yield (joined strings, names) of at most `_CHUNK` indices at a time."""
        stop = len(self) if stop is None else stop
        self.check_range(start, stop)
        for first in range(start, stop, _CHUNK):
            index = np.arange(first, min(first + _CHUNK, stop), dtype=np.uint64)
            image = self._permutation(index)
            which = np.searchsorted(self._starts, image, side="right") - 1
            strings = np.empty(index.size, dtype=object)
            names = np.empty(index.size, dtype=object)
            for w in np.unique(which):
                chosen = np.flatnonzero(which == w)
                numbers = self._tables[w].numbers(image[chosen] - self._starts[w])
                strings[chosen] = self._tables[w].smiles(numbers)
                if named:
                    names[chosen] = self._tables[w].names(numbers)
            yield strings.tolist(), names.tolist()


def enumerate_to_file(
    path: str | os.PathLike[str],
    n: int,
    seed: int = 0,
    start: int = 0,
    *,
    canonical: bool = True,
    header: bool = True,
) -> Path:
    """Write `n` products, starting at index `start`, as lines "SMILES name" under the header "smiles name".

    Ranges can be written in parallel, each to its own file. The file appears under its final name once it is
    complete.

    Parameters
    ----------
    path
        File to write; an existing one is replaced.
    n
        Number of products.
    seed
        Order of the library, see `ReactionLibrary`.
    start
        First index.
    canonical
        Canonical SMILES (about 0.4 ms per molecule on one core) or joined strings (about 2 us).
    header
        Write the header line.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If the range is not within the library.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from daskrf.demo.enumeration import enumerate_to_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = enumerate_to_file(pathlib.Path(folder, "a.smi"), 3).read_text().splitlines()
    >>> lines[0], len(lines)
    ('smiles name', 4)
    """
    target = Path(path)
    partial = target.with_name(f"{target.name}.partial")
    library = ReactionLibrary(seed)
    library.check_range(start, start + n)
    products = library.iterate(start, start + n, canonical=canonical)
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        if header:
            file.write("smiles name\n")
        file.writelines(f"{smiles} {name}\n" for smiles, name in products)
    partial.replace(target)
    return target
