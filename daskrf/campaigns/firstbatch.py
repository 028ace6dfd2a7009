"""The first batch of a campaign: random molecules of a library, or different ones, that pass the filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf import seeds
from daskrf.errors import InputError
from daskrf.files.backend import as_list, as_path
from daskrf.molecules.counts.similarity import Similarities
from daskrf.molecules.diversity import Diversity
from daskrf.molecules.filters import Filters
from daskrf.molecules.structures import KnownStructures, Level, refusals
from daskrf.quantities import amount
from daskrf.screens.passing import FilterTexts
from daskrf.sources.smiles import rows_table
from daskrf.sources.sources import planned_rows
from daskrf.sources.wholefile import smiles_in
from daskrf.storage.kinds import kind_of, stored_library
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.tables import (
    Library,
    TableFormat,
    check_first_lines,
    lay_out,
    sample_rows,
    scan_files,
    table_words,
)
from daskrf.tables.formats import EVERY
from daskrf.tables.values.notation import Notation
from daskrf.workers.progress import Progress

By = Literal["diverse", "random"]

_POOL = 20  # times the molecules that are chosen: random ones, among which different ones are
_LEAST_POOL = 1_000
_GROWTH = 4  # times as many are drawn where too few pass


@dataclass(frozen=True)
class FirstBatch:
    """How the first molecules are chosen.

    Attributes
    ----------
    n : int
    by : {"diverse", "random"}
        Random molecules; or, of random molecules, 20 times as many and at least 1,000, a first one and again
        and again the one least similar to all picks before it (MaxMin).
    seed : int
    filters : FilterTexts
    exclude : sequence of paths
        Files of molecules to leave out.
    level : {"structure", "parent", "tautomer", "skeleton"}
        What counts as the same molecule.
    max_similarity : float, optional
    per_scaffold : int, optional
        As in `daskrf.suggest`.

    Notes
    -----
    Source: Ashton et al. 2002, Identification of diverse database subsets using property-based and
    fragment-based molecular descriptions (Quant. Struct.-Act. Relat. 21).
    """

    n: int
    by: By = "diverse"
    seed: int = 0
    filters: FilterTexts = field(default_factory=FilterTexts)
    exclude: Sequence[Any] = ()
    level: Level = "tautomer"
    max_similarity: float | None = None
    per_scaffold: int | None = None

    @property
    def pool(self) -> int:
        """Number of random molecules to choose from."""
        return max(_LEAST_POOL, _POOL * self.n)

    def choose(self, rows: Rows, progress: Progress) -> pa.Table:
        """Return the first batch: rank, smiles, id, why, and further columns of the library.

        Raises
        ------
        InputError
            If too few molecules pass.
        """
        excluded = [text for path in self.exclude for text in smiles_in(as_path(path), progress)[0]]
        structures = KnownStructures.of(dict.fromkeys(excluded), self.level) if excluded else None
        drawn = self.pool
        while True:
            table = rows.draw(drawn, self.seed)
            passing = self._passing(table, structures)
            picks = self._picks(passing["smiles"].to_pylist())
            if len(picks) == self.n:
                break
            if drawn >= rows.total:
                raise InputError(
                    f"The first batch has {amount(self.n, 'molecules')}, but of {rows.total:,} only "
                    f"{len(picks):,} can be chosen; ask for fewer by first, or demand less."
                )
            drawn *= _GROWTH
        chosen = passing.take(pa.array(picks))
        batch = pa.table({"rank": np.arange(1, self.n + 1), "smiles": chosen["smiles"], "id": chosen["id"]})
        batch = batch.append_column("why", pa.array([self.by] * self.n))
        for name in chosen.column_names:
            if name not in (*batch.column_names, "row", "source", "line"):
                batch = batch.append_column(name, chosen[name])
        return batch

    def _passing(self, table: pa.Table, excluded: KnownStructures | None) -> pa.Table:
        """Return the molecules that RDKit can read and that pass all filters, in random order."""
        order = seeds.generator(self.seed, "campaign/order").permutation(table.num_rows)
        table = table.take(pa.array(order))
        filters = self.filters.of_list(table.column_names)
        smiles = table["smiles"].to_pylist()
        passes = np.array([not why for why in refusals(smiles)], bool) & _in_limits(filters, table)
        at = np.flatnonzero(passes)
        failed = np.array(filters.first_failed([smiles[i] for i in at.tolist()]), np.int64)
        at = at[failed == -1]
        if excluded is not None:
            there = np.array(excluded.among([smiles[i] for i in at.tolist()]), bool)
            at = at[~there]
        return table.take(pa.array(at))

    def _picks(self, smiles: Sequence[str]) -> list[int]:
        """Return the positions of the picks; fewer than `n` if no more can be taken."""
        diverse = Diversity(smiles, self.max_similarity, self.per_scaffold, level=self.level)
        if self.by == "random":
            for at in range(len(smiles)):
                if len(diverse.picks) < self.n:
                    diverse.take(at)
            return diverse.picks
        return maxmin(Similarities(smiles), diverse, self.n) if smiles else []


def maxmin(similarities: Similarities, diverse: Diversity, n: int) -> list[int]:
    """Take the first candidate, and then again and again the one least similar to all taken before.

    Examples
    --------
    >>> smiles = ["CCCO", "CCCCO", "c1ccccc1", "CCO"]
    >>> maxmin(Similarities(smiles), Diversity(smiles), 3)
    [0, 2, 3]
    """
    nearest: npt.NDArray[np.float64] = np.zeros(len(diverse.state))
    while len(diverse.picks) < n and diverse.free.any():
        pick = int(np.argmin(np.where(diverse.free, nearest, np.inf)))
        diverse.take(pick)
        nearest = np.maximum(nearest, similarities.to(pick))
    return diverse.picks


def _in_limits(filters: Filters, table: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which rows meet the limits on columns of the library."""
    holds = np.ones(table.num_rows, bool)
    for limit in filters.limits:
        if limit.column:
            texts = [None if text is None else str(text) for text in table[limit.name].to_pylist()]
            values: Sequence[object] = texts
            if not limit.text:
                name = f"the column {limit.name!r} of the library"
                values = Notation.of(filter(None, texts), name).numbers(texts).tolist()
            holds &= np.array([limit.holds(value) for value in values], bool)
    return holds


class Rows:
    """The rows of a library, to draw random ones of.

    Parameters
    ----------
    source : path, or sequence of paths
        SMILES files, or a store.
    format : TableFormat, optional
    progress : Progress
        Is told how files are read.
    """

    def __init__(self, source: Any, format: TableFormat | None, progress: Progress) -> None:
        paths = [as_path(path) for path in as_list(source)]
        self._library: Library | FingerprintStore | FeatureStore
        if len(paths) == 1 and kind_of(paths[0], missing_ok=True) is not None:
            self._library = stored_library(paths[0])
            self._library.require_complete()
            self._bounds = np.cumsum([0, *planned_rows(self._library)])
            self.total = int(self._bounds[-1])
            return
        format = format or TableFormat()
        every = TableFormat(format.smiles, format.id, (EVERY,), format.header, format.delimiter)
        files = lay_out(paths, every)
        for line in (*table_words(files), *check_first_lines(files, every)):
            progress.note(line)
        self._library = scan_files(files)
        self.total = self._library.n_rows

    def draw(self, n: int, seed: int) -> pa.Table:
        """Return about `n` random rows that could be read, or all if there are no more, in row order."""
        library = self._library
        if isinstance(library, Library):
            batches = sample_rows(library, n, seed)
            tables = [rows_table(batch, library, range(len(batch.row))) for batch in batches if batch.smiles]
            if not tables:
                raise InputError("None of the rows of the library that were looked at can be read.")
            return pa.concat_tables(tables).unify_dictionaries()
        rows = np.arange(self.total)
        if n < self.total:
            rows = np.sort(seeds.generator(seed, "campaign/rows").choice(self.total, n, replace=False))
        partition = np.searchsorted(self._bounds, rows, side="right") - 1
        tables = []
        for p in np.unique(partition).tolist():
            table = library.read_rows(p)
            places = rows[partition == p] - self._bounds[p]
            tables.append(table.take(pa.array(places[places < table.num_rows])))  # others were rejected
        return pa.concat_tables(tables).unify_dictionaries()
