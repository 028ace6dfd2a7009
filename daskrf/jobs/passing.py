"""Which molecules of a library may be chosen: filters, and structures that are excluded, tested in tasks."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.jobs.labelled import smiles_array
from daskrf.jobs.smiles import SmilesSource
from daskrf.jobs.sources import Source, StoreSource
from daskrf.molecules.filters import Filters
from daskrf.molecules.structures import KnownStructures
from daskrf.storage.backend import absolute
from daskrf.storage.model import made_once, needed_checkpoint
from daskrf.storage.store import hash_of

__all__ = ["PASSED", "UNTESTED", "Excluded", "Passing", "check_columns", "columns_of"]

PASSED, UNTESTED = -1, -2
_LATER = threading.local()


@dataclass(frozen=True)
class Excluded:
    """Canonical SMILES of molecules that must not be chosen, in a file that tasks read.

    Attributes
    ----------
    words : str
        What they are, such as "labelled".
    path, key : str
        The file, and the hash of its content.
    """

    words: str
    path: str
    key: str

    @classmethod
    def of(cls, words: str, canonical: Iterable[str], folder: PurePath) -> Excluded:
        """Write the structures to a file in `folder`."""
        names = sorted(set(canonical))
        text = smiles_array(names)
        key = hash_of([words, names])
        path = folder / f"excluded-{key[:16]}"
        made_once(path, key, lambda: ({"smiles": text}, {}))
        return cls(words, absolute(path), key)

    @property
    def structures(self) -> KnownStructures:
        """The structures, read once per process."""
        return _structures(self.path, self.key)


@functools.lru_cache(maxsize=8)
def _structures(path: str, key: str) -> KnownStructures:
    return KnownStructures(needed_checkpoint(path, key).arrays["smiles"].tobytes().decode().split("\n"))


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

    def codes(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
        """Return `PASSED`, or the first demand that is not met, for some rows of the library."""
        found = np.empty(len(rows), np.int16)
        partition = np.searchsorted(self.source.row_bounds, rows, side="right") - 1
        for p in np.unique(partition).tolist():
            own = partition == p
            found[own] = self._codes_of(p, rows[own])
        return found

    def _codes_of(self, partition: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
        numbers, smiles, columns = _texts(self.source, partition, self.filters.columns)
        at = np.searchsorted(numbers, rows)
        codes = np.full(len(rows), PASSED, np.int16)
        limits = [limit for limit in self.filters.limits if limit.column]
        unknown = len(self.words) - 2
        for i, limit in enumerate(limits):
            values = columns[limit.name][at]
            holds = np.array([limit.holds(value) for value in values.tolist()], dtype=bool)
            free = codes == PASSED
            codes[free & ~holds] = i
            codes[free & np.isnan(values)] = unknown
        left = np.flatnonzero(codes == PASSED)
        for i, excluded in enumerate(self.excluded):
            there = np.array(excluded.structures.among([smiles[a] for a in at[left].tolist()]), dtype=bool)
            codes[left[there]] = len(self.filters.words) + i
            left = left[~there]
        failed = self.filters.first_failed([smiles[a] for a in at[left].tolist()])
        shifted = {PASSED: PASSED, -2: unknown + 1}
        codes[left] = [shifted.get(code, len(limits) + code) for code in failed]
        return codes


def columns_of(source: Source) -> tuple[str, ...]:
    """Return the further columns of a library: those that a store keeps, or that files have."""
    if isinstance(source, SmilesSource):
        return source.library.extra
    return tuple(source.store.spec.get("extra", ())) if isinstance(source, StoreSource) else ()


Texts = tuple[npt.NDArray[np.int64], list[str], dict[str, npt.NDArray[np.float64]]]


def _texts(source: Source, partition: int, columns: tuple[str, ...]) -> Texts:
    """Return the rows of a partition, their SMILES and numbers; the last partition is kept, per thread."""
    key = (source.path, source.spec_hash, partition, columns)
    if getattr(_LATER, "key", None) != key:
        _LATER.key = None
        _LATER.texts = _read(source, partition, columns)
        _LATER.key = key
    found: Texts = _LATER.texts
    return found


def _read(source: Source, partition: int, columns: tuple[str, ...]) -> Texts:
    low, high = source.row_bounds[partition : partition + 2].tolist()
    if isinstance(source, StoreSource):
        table = source.store.read_rows(partition, ["row", "smiles", *columns])
    else:
        table = source.describe(partition, np.arange(low, high))
    numbers = {name: np.array(list(map(_value, table[name].to_pylist()))) for name in columns}
    return table["row"].to_numpy(), table["smiles"].to_pylist(), numbers


def _value(text: str | None) -> float:
    """Return a number, or NaN for anything else."""
    try:
        return float(text or "nan")
    except ValueError:
        return float("nan")


def check_columns(filters: Filters, source: Source) -> None:
    """Refuse limits of columns that hold no number at all.

    Raises
    ------
    InputError
    """
    if not filters.columns or not source.partition_rows:
        return
    _, _, numbers = _texts(source, 0, filters.columns)
    for name, values in numbers.items():
        if len(values) and np.isnan(values).all():
            raise InputError(f"The column '{name}' of the library holds no numbers; leave its limit out.")
