"""Hits of a space: distinct molecules, best first, and their table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.arrays import NamedArrays
from daskrf.molecules.structures import KnownStructures
from daskrf.screens.passing import PASSED
from daskrf.screens.space.productscores import Scored
from daskrf.screens.space.producttests import ProductTests
from daskrf.spaces import CutSpace
from daskrf.spaces.families import Product, decoded, identifiers
from daskrf.spaces.limits import SUMS

_FRACTIONAL = ("weight", "polar_surface")


@dataclass(frozen=True)
class Candidates:
    """Products with scores: distinct molecules, best first; ties are ordered by number.

    Attributes
    ----------
    cut : CutSpace
    row : int64 array
        Numbers of the products.
    smiles : list of str
        As of `Scored`: canonical for the `best`.
    columns : dict of arrays
        As of `Scored`.
    repeats : int
        Number of products that are the same molecule as a better one.
    n_excluded : int
        Number of excluded molecules that were left out.
    n_failed : Counter of str
        Number of molecules that failed tests, by the reason.
    n_looked_at : int or None
        To how many of the best products these numbers apply; None for all.
    """

    cut: CutSpace
    row: npt.NDArray[np.int64]
    smiles: list[str]
    columns: NamedArrays
    repeats: int
    n_excluded: int
    n_looked_at: int | None = None
    n_failed: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(
        cls,
        cut: CutSpace,
        row: npt.NDArray[np.int64],
        scores: Scored,
        per_block: int | None,
        excluded: KnownStructures | None = None,
        size: int | None = None,
        tests: ProductTests | None = None,
    ) -> Candidates:
        """Return the distinct molecules of some products.

        Parameters
        ----------
        cut : CutSpace
        row : int64 array
            Numbers of the products.
        scores : Scored
            Their scores by the model.
        per_block : int or None
            At most this many molecules have the same block.
        excluded : KnownStructures, optional
            Molecules to leave out.
        size : int, optional
            How many of the best products are looked at; by default all.
        tests : ProductTests, optional
            What molecules must pass.
        """
        best = np.lexsort((row, -scores.columns["score"]))[:size]
        order = best[_distinct(scores, best)] if len(best) else best
        n_distinct = len(order)
        if excluded is not None:
            order = order[scores.free(excluded, order)]
        n_free, n_failed = len(order), Counter[str]()
        if tests is not None:
            codes = tests.codes(scores, order)
            order, n_failed = order[codes == PASSED], tests.reasons(codes)
        if per_block is not None:
            blocks = [product.blocks for product in decoded(cut, row[order].tolist())]
            order = order[capped(blocks, per_block)]
        return cls(
            cut=cut,
            row=row[order],
            smiles=[scores.smiles[i] for i in order.tolist()],
            columns={name: values[order] for name, values in scores.columns.items()},
            repeats=len(best) - n_distinct,
            n_excluded=n_distinct - n_free,
            n_looked_at=len(best) if len(best) < len(row) else None,
            n_failed=n_failed,
        )

    def __len__(self) -> int:
        return len(self.row)

    def best(self, k: int) -> Candidates:
        """Return the best k, with canonical SMILES."""
        columns = {name: values[:k] for name, values in self.columns.items()}
        smiles = Scored(self.smiles[:k]).named(range(min(k, len(self))))
        return replace(self, row=self.row[:k], smiles=smiles, columns=columns)

    def table(self, deviations: Scored | None) -> pa.Table:
        """Return the table of hits; `deviations` adds means and standard deviations to the scores."""
        products = decoded(self.cut, self.row.tolist())
        table: dict[str, object] = {"rank": pa.array(np.arange(1, len(products) + 1)), "row": self.row}
        table |= product_columns(self.cut, products, self.smiles)
        columns = self.columns if deviations is None else {**deviations.columns, **self.columns}
        for name in ("mean", "std", "std_y", "probability"):
            if name in columns:
                table[name] = np.asarray(columns[name], np.float64)
        table["acquisition"] = np.asarray(self.columns["score"], np.float64)
        return pa.table(table)


def _distinct(scores: Scored, order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the places in `order` of the first product of each molecule.

    Equal molecules have equal fingerprints, so only products that share theirs need canonical SMILES.
    """
    _, place, times = np.unique(scores.columns["key"][order], return_inverse=True, return_counts=True)
    scores.named(order[times[place] > 1].tolist())
    texts = np.array([scores.smiles[i] for i in order.tolist()], object)
    return np.sort(np.unique(texts, return_index=True)[1])


def product_columns(cut: CutSpace, products: Sequence[Product], smiles: Sequence[str]) -> dict[str, object]:
    """Return the columns that describe products: id, smiles, reaction, blocks, and the sums of `SUMS`."""
    names, space = [reaction.name for reaction in cut.space.reactions], cut.space
    table: dict[str, object] = {
        "id": pa.array(identifiers(cut, products), pa.string()),
        "smiles": pa.array(smiles, pa.string()),
        "reaction": pa.array([names[p.reaction] for p in products], pa.string()),
    }
    for slot in range(max((len(slots) for slots in cut.entries), default=2)):
        blocks = [space.blocks[p.blocks[slot]] if slot < len(p.blocks) else None for p in products]
        table[f"block_{slot}"] = pa.array(blocks, pa.string())
    sums = np.array([cut.sums[list(p.synthons)].sum(axis=0) for p in products])
    for name, values in zip(SUMS, sums.reshape(-1, len(SUMS)).T, strict=True):
        table[name] = values.round(3) if name in _FRACTIONAL else values.astype(np.int64)
    return table


def capped(blocks: Sequence[tuple[int, ...]], most: int) -> list[int]:
    """Return the places of products to take, in order, with no block in more than `most` of them.

    Examples
    --------
    >>> capped([(0, 7), (0, 8), (1, 7), (1, 9)], 1)
    [0, 3]
    """
    seen, taken = Counter[int](), []
    for i, combination in enumerate(blocks):
        if all(seen[block] < most for block in combination):
            seen.update(set(combination))
            taken.append(i)
    return taken
