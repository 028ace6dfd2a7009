"""Which molecules of a library may be chosen: tasks test filters and excluded structures."""

from __future__ import annotations

import functools
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daskrf.errors import InputError, OptionError, printable
from daskrf.files.backend import absolute
from daskrf.models.labelled import smiles_array
from daskrf.molecules.comparisons import Comparison
from daskrf.molecules.filters import Filters
from daskrf.molecules.similarto import LEAST_SIMILARITY, SimilarTo
from daskrf.molecules.structures import RULES, KnownStructures, Level
from daskrf.sources.smiles import SmilesSource
from daskrf.sources.sources import Source, StoreSource
from daskrf.storage.model import made_once, needed_checkpoint
from daskrf.storage.stores.store import hash_of
from daskrf.tables.values.notation import Notation

PASSED, UNTESTED = -1, -2
_SHOWN = 40  # characters of a cell in a message
_NOTATIONS = 100  # kept at most, one for each column
_PARTITIONS = 100  # searched for a column's first text
_LATER = threading.local()


Texts = str | Sequence[str]


class PatternTexts(NamedTuple):
    """SMARTS that molecules must contain, and must not contain."""

    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]


@dataclass(frozen=True)
class FilterTexts:
    """Filters as the user writes them; see `daskrf.molecules.filters.Filters.of`, and `SimilarTo`."""

    where: Texts = ()
    smarts: Texts = ()
    without_smarts: Texts = ()
    alerts: Texts = ()
    similar_to: Texts = ()
    least_similarity: float | None = None
    nearest: int | None = None

    @property
    def texts(self) -> dict[str, list[str]]:
        """The filters in use, by name."""
        options: dict[str, Texts] = {
            "where": self.where,
            "smarts": self.smarts,
            "without_smarts": self.without_smarts,
            "alerts": self.alerts,
        }
        if (similar := self.similar) is not None:
            least, nearest = similar.least, similar.nearest
            options |= {
                "similar_to": similar.smiles,
                "least_similarity": () if least is None else repr(float(least)),
                "nearest": () if nearest is None else str(nearest),
            }
        texts = {name: [text] if isinstance(text, str) else list(text) for name, text in options.items()}
        return {name: some for name, some in texts.items() if some}

    @property
    def similar(self) -> SimilarTo | None:
        """The molecules that a molecule must be similar to."""
        return SimilarTo.of(self.similar_to, self.least_similarity, self.nearest)

    @property
    def patterns(self) -> PatternTexts:
        """The patterns alone, each once."""
        texts = self.texts
        return PatternTexts(
            *(tuple(dict.fromkeys(texts.get(name, ()))) for name in ("smarts", "without_smarts"))
        )

    def of(self, columns: Collection[str]) -> Filters:
        """Return the filters of molecules with these columns."""
        return Filters.of(
            self.where, self.smarts, self.without_smarts, self.alerts, columns, similar_to=self.similar
        )

    @property
    def of_products(self) -> FilterTexts:
        """The same without the number of nearest products, which the search of a space has listed."""
        if self.nearest is None:
            return self
        similar_to = () if self.least_similarity is None else self.similar_to
        return replace(self, similar_to=similar_to, nearest=None)

    def of_list(self, columns: Collection[str]) -> Filters:
        """Return the filters of molecules of a list, with these columns.

        Raises
        ------
        OptionError
            If they are the nearest to a molecule, as only products of a space can be.
        """
        if self.nearest is not None:
            raise OptionError(
                "--nearest is for the products of a space; for a library set a threshold, such as "
                f"--least-similarity {LEAST_SIMILARITY}."
            )
        return self.of(columns)

    def of_library(self, source: Source) -> Filters:
        """Return the filters of a library, after checking that they fit its columns."""
        filters = self.of_list(columns_of(source))
        check_columns(filters, source)
        return filters


@dataclass(frozen=True)
class Excluded:
    """Molecules that must not be chosen, in a file that tasks read.

    Attributes
    ----------
    words : str
        What they are, such as "labelled".
    path, key : str
        The file, and the hash of its content.
    level : {"structure", "parent", "tautomer", "skeleton"}
        What counts as the same molecule.
    """

    words: str
    path: str
    key: str
    level: Level = "structure"

    @classmethod
    def of(cls, words: str, smiles: Iterable[str], folder: PurePath, level: Level) -> Excluded:
        """Write the molecules to a file in `folder`."""
        structures = KnownStructures.of(dict.fromkeys(smiles), level)
        key = hash_of([words, structures.names, level, RULES])
        path = folder / f"excluded-{key[:16]}"
        graphs = np.array(structures.graphs, np.int64)
        names = smiles_array(structures.names)
        made_once(path, key, lambda: ({"smiles": names, "graphs": graphs}, {}))
        return cls(words, absolute(path), key, level)

    @property
    def structures(self) -> KnownStructures:
        """The molecules, read once per process."""
        return _structures(self.path, self.key, self.level)


@functools.lru_cache(maxsize=8)
def _structures(path: str, key: str, level: Level) -> KnownStructures:
    arrays = needed_checkpoint(path, key).arrays
    graphs = arrays["graphs"].tolist()
    names = arrays["smiles"].tobytes().decode().split("\n") if graphs else []
    return KnownStructures(names, level, graphs)


@dataclass(frozen=True)
class Passing:
    """Tells which rows of a library pass all filters and are not excluded.

    Attributes
    ----------
    source : Source
        Where their SMILES and columns are read.
    filters : Filters
    excluded : tuple of Excluded
    """

    source: Source
    filters: Filters = field(default_factory=Filters)
    excluded: tuple[Excluded, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """What each code of `codes` from 0 on stands for: the demand that a molecule does not meet."""
        left_out = (f"is not {each.words}" for each in self.excluded)
        unknown = ("has numbers in the columns", "can be computed by RDKit")
        return (*self.filters.words, *left_out, *unknown)

    @property
    def state(self) -> list[list[str]]:
        """What a specification records of the filters and exclusions."""
        return [self.filters.state, [each.key for each in self.excluded]]

    def codes(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
        """Return `PASSED`, or the first demand that is not met, for some rows of the library."""
        codes = np.empty(len(rows), np.int16)
        partition = np.searchsorted(self.source.row_bounds, rows, side="right") - 1
        for p in np.unique(partition).tolist():
            here = partition == p
            codes[here] = self._codes_of(p, rows[here])
        return codes

    def _codes_of(self, partition: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
        cells = _cells(self.source, partition, self.filters.columns)
        at = pa.array(np.searchsorted(cells["row"].to_numpy(), rows))
        smiles = cells["smiles"].take(at)
        codes = np.full(len(rows), PASSED, np.int16)
        limits = [limit for limit in self.filters.limits if limit.column]
        unknown = len(self.words) - 2
        for i, limit in enumerate(limits):
            values = texts = cells[limit.name].take(at)
            free = codes == PASSED
            if not limit.text:
                values = numbers_of_column(self.source, limit.name, texts)
            codes[free & ~limit.holds(values)] = i
            if not limit.text:
                codes[free & np.isnan(values)] = unknown
        left = np.flatnonzero(codes == PASSED)
        for i, excluded in enumerate(self.excluded):
            there = np.array(excluded.structures.among(smiles.take(pa.array(left)).to_pylist()), dtype=bool)
            codes[left[there]] = len(self.filters.words) + i
            left = left[~there]
        failed = self.filters.first_failed(smiles.take(pa.array(left)).to_pylist())
        shifted = {PASSED: PASSED, -2: unknown + 1}
        codes[left] = [shifted.get(code, len(limits) + code) for code in failed]
        return codes

    def strictest(self, left_out: Sequence[int]) -> str:
        """Return which condition left out most of the molecules, and where it is written; "" if none did.

        Parameters
        ----------
        left_out : sequence of int
            How many molecules did not meet each demand of `words`.
        """
        ordered = sorted(self.filters.limits, key=lambda limit: not limit.column)
        counts = [*zip(left_out, ordered, strict=False)]
        n, worst = max(counts, key=lambda pair: pair[0], default=(0, None))
        if worst is None or 2 * n <= sum(left_out):
            return ""
        share = "all" if n == sum(left_out) else "most"
        return f"; {share} of them fail '{worst}'{_place_of(worst)}"


def reason_of(name: str) -> str:
    """Return the reason why a molecule that does not meet a demand is left out.

    Examples
    --------
    >>> reason_of("is not a labelled molecule"), reason_of("has no pains alert"), reason_of("logp < 4")
    ('a labelled molecule', 'has a pains alert', 'not logp < 4')
    """
    for start, other in (
        ("is not ", ""),
        ("has no ", "has a "),
        ("has ", "has no "),
        ("can be", "cannot be"),
    ):
        if name.startswith(start):
            return other + name.removeprefix(start)
    return f"not {name}"


def columns_of(source: Source) -> tuple[str, ...]:
    """Return the further columns of a library: those kept in its store, or present in its files."""
    if isinstance(source, SmilesSource):
        return source.library.extra
    return tuple(source.store.spec.get("extra", ())) if isinstance(source, StoreSource) else ()


def _cells(source: Source, partition: int, columns: tuple[str, ...]) -> pa.Table:
    """Return the rows of a partition, their SMILES and columns; the last partition is kept, per thread."""
    key = (source.path, source.spec_hash, partition, columns)
    if getattr(_LATER, "key", None) != key:
        _LATER.key = None
        table = _table(source, partition, columns)
        names = ("row", "smiles", *columns)
        _LATER.cells = pa.table({name: _plain(table[name]) for name in names})
        _LATER.key = key
    cells: pa.Table = _LATER.cells
    return cells


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, of texts if it is not of row numbers."""
    kind = column.type if pa.types.is_integer(column.type) else pa.string()
    return pc.cast(column, kind).combine_chunks()


def _table(source: Source, partition: int, columns: tuple[str, ...]) -> pa.Table:
    """Return rows, SMILES and columns of a partition, as text; rows without SMILES are left out."""
    if isinstance(source, StoreSource):
        return source.store.read_rows(partition, ["row", "smiles", *columns])
    low, high = source.row_bounds[partition : partition + 2].tolist()
    return source.describe(partition, np.arange(low, high))


def numbers_of_column(
    source: Source, column: str, texts: pa.Array | pa.ChunkedArray
) -> npt.NDArray[np.float64]:
    """Return the numbers in some cells of a column of a library, NaN where there is none."""
    return _notation(source, column).numbers_of_column(_plain(pa.chunked_array(texts)))


def smallest_number(source: Source, column: str) -> float | None:
    """Return the smallest number in a column of a library; None if it has none, or has many partitions."""
    if len(source.partition_rows) > _PARTITIONS:
        return None
    partitions = range(len(source.partition_rows))
    columns = (numbers_of_column(source, column, _table(source, p, (column,))[column]) for p in partitions)
    least = min((float(np.nanmin(values)) for values in columns if np.isfinite(values).any()), default=None)
    return least


def _notation(source: Source, column: str) -> Notation:
    """Return how a column writes its numbers, judged by its first cells; kept per thread."""
    key = (source.path, source.spec_hash, column)
    if key not in (notations := _LATER.__dict__.setdefault("notations", {})):
        texts = _first_texts(source, column)
        if len(notations) > _NOTATIONS:
            notations.clear()
        name = f"the column {column!r} of the library"
        notations[key] = Notation.of(texts, name)
    notation: Notation = notations[key]
    return notation


def _first_texts(source: Source, column: str) -> list[str]:
    """Return the non-empty cells of a column from the first partition that has any."""
    for partition in range(min(_PARTITIONS, len(source.partition_rows))):
        cells = _table(source, partition, (column,))[column].to_pylist()
        if texts := [text for text in cells if (text or "").strip()]:
            return texts
    return []


def check_columns(filters: Filters, source: Source) -> None:
    """Refuse to compare a column with a number if it holds no numbers at all."""
    compared = [limit for limit in filters.limits if limit.column and not limit.text]
    if not compared or not source.partition_rows:
        return
    for limit in compared:
        texts = _first_texts(source, limit.name)
        if not texts or np.isnan(_notation(source, limit.name).numbers(texts)).all():
            example = f', but texts such as "{printable(texts[0], _SHOWN)}"' if texts else ""
            raise InputError(
                f"The column '{printable(limit.name)}' of the library holds no numbers to compare with in "
                f"'{limit}'{_place_of(limit)}{example}; compare it with a text in quotes by == or !=, or "
                "leave this out."
            )


def _place_of(limit: Comparison) -> str:
    return "" if limit.place is None else f" {limit.place}"
