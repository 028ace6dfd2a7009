"""The keys of labels: numbered and found by hashes, and kept as compressed text for messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from daskrf.arrays import GrowingArray
from daskrf.engine import engine

TEXT = pa.large_string()
"""Type of keys that are text: its offsets have 64 bits, so that those of one array may take over 2 GiB."""

_SMALL = 2**31  # numbers below that take 4 bytes
_NO_WORDS = np.empty((0, 2), np.uint64)


@dataclass(frozen=True)
class HashTable:
    """Keys as hashes of 128 bits, numbered by first appearance.

    Attributes
    ----------
    number : int32 or int64 array, shape (n,)
        The number of each key.
    n_keys : int
        How many are distinct.
    """

    number: npt.NDArray[np.signedinteger]
    n_keys: int
    _hashes: npt.NDArray[np.uint64] = field(repr=False)
    _slots: npt.NDArray[np.signedinteger] = field(repr=False)

    @classmethod
    def of(cls, hashes: npt.NDArray[np.uint64]) -> Self:
        """Return the table of some hashes, shape (n, 2), which are overwritten."""
        small: type[np.signedinteger] = np.int32 if len(hashes) < _SMALL else np.int64
        # Twice as many slots as keys, so that a search meets two or three of them on average.
        slots, number = np.full(2 * len(hashes) + 1, -1, small), np.empty(len(hashes), small)
        n = engine().number_keys(hashes, slots, number)
        return cls(number, n, hashes[:n], slots)

    def find(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the number of each of some hashes; -1 for those not there."""
        return engine().find_keys(self._hashes, self._slots, hashes)

    def closed(self) -> Self:
        """Return the numbers without what finds them."""
        return replace(self, _hashes=_NO_WORDS, _slots=np.empty(0, np.int32))


@dataclass(frozen=True)
class KeyTable:
    """The distinct keys among some, numbered by first appearance.

    Memory is 28 bytes a key while keys can be found, later 4, and that of the compressed texts.

    Attributes
    ----------
    kind : pyarrow.DataType
        large_string, or int64.
    bytes_per_key : float
        Bytes of text on average; 0 for int64.
    """

    kind: pa.DataType
    bytes_per_key: float
    _table: HashTable = field(repr=False)
    _blocks: Sequence[bytes] = field(repr=False)
    _stops: npt.NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.number)

    @property
    def number(self) -> npt.NDArray[np.signedinteger]:
        """The number of each key: int32 or int64 array, shape (n,)."""
        return self._table.number

    @property
    def n_keys(self) -> int:
        """How many are distinct."""
        return self._table.n_keys

    def find(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """Return the number of each of some keys of the same kind; -1 for those not there, and for nulls."""
        number = self._table.find(hashes_of(keys))
        if keys.null_count:
            number[keys.is_null().to_numpy(zero_copy_only=False)] = -1
        return number

    def closed(self) -> Self:
        """Return the keys without what finds them."""
        return replace(self, _table=self._table.closed())

    def distinct(self) -> Iterator[pa.Array]:
        """Yield the distinct keys in order, some thousand at a time."""
        n = 0
        for at in range(len(self._blocks)):
            number = self.number[self._stops[at] : self._stops[at + 1]]
            # Where a number exceeds all before it, its key is new.
            highest = np.maximum.accumulate(np.concatenate([[n - 1], number]))
            block = self._read(at).filter(pa.array(highest[1:] > highest[:-1]))
            n += len(block)
            yield block

    def keys(self) -> pa.Array:
        """Return the distinct keys in order."""
        return pa.concat_arrays([pa.nulls(0, self.kind), *self.distinct()])

    def keys_of(self, numbers: npt.NDArray[np.int64]) -> list[object]:
        """Return some keys by their numbers."""
        places = numbers
        if self.n_keys < len(self.number):
            places = np.searchsorted(np.maximum.accumulate(self.number), numbers)
        blocks = np.searchsorted(self._stops, places, side="right") - 1
        keys: list[object] = [None] * len(places)
        for at in np.unique(blocks).tolist():
            block = self._read(at)
            for k in np.flatnonzero(blocks == at).tolist():
                keys[k] = block[int(places[k] - self._stops[at])].as_py()
        return keys

    def _read(self, at: int) -> pa.Array:
        (column,) = pq.read_table(pa.BufferReader(self._blocks[at])).columns
        return column.combine_chunks()


class KeyColumn:
    """Keys of one kind, added some at a time.

    Examples
    --------
    >>> column = KeyColumn(TEXT)
    >>> column.append(pa.array(["B", "A", "B"], TEXT))
    >>> table = column.finish()
    >>> table.number.tolist(), table.keys().to_pylist(), table.find(pa.array(["A", "C"], TEXT)).tolist()
    ([0, 1, 0], ['B', 'A'], [1, -1])
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._hashes = GrowingArray(np.uint64, 2)
        self._blocks: list[bytes] = []
        self._stops, self._bytes = [0], 0

    def append(self, keys: pa.Array) -> None:
        """Add some keys, without nulls."""
        if len(keys):
            self._hashes.append(hashes_of(keys))
            if self._kind == TEXT:
                self._bytes += pc.sum(pc.binary_length(keys)).as_py()
            self._blocks.append(_compressed(keys))
            self._stops.append(len(self._hashes))

    def finish(self) -> KeyTable:
        """Return the table of all keys."""
        hashes = self._hashes.finish()
        return KeyTable(
            kind=self._kind,
            bytes_per_key=self._bytes / max(1, len(hashes)),
            _table=HashTable.of(hashes),
            _blocks=self._blocks,
            _stops=np.array(self._stops),
        )


def table_of(keys: pa.Array) -> KeyTable:
    """Return the table of some keys."""
    column = KeyColumn(keys.type)
    column.append(keys)
    return column.finish()


def hashes_of(keys: pa.Array) -> npt.NDArray[np.uint64]:
    """Return words that are equal for equal keys: hashes of texts, or the numbers themselves."""
    if pa.types.is_integer(keys.type):
        numbers = keys.fill_null(-1).to_numpy().astype(np.int64, copy=False)
        return np.column_stack([numbers.view(np.uint64), np.zeros(len(numbers), np.uint64)])
    if not len(keys):
        return _NO_WORDS
    _, offsets, text = keys.buffers()
    wide = pa.types.is_large_string(keys.type)
    every: Any = np.frombuffer(offsets, np.int64 if wide else np.int32)
    stops = every[keys.offset : keys.offset + len(keys) + 1].astype(np.int64, copy=False)
    data = np.empty(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
    return cast("npt.NDArray[np.uint64]", engine().hash_texts(data, stops))


def _compressed(keys: pa.Array) -> bytes:
    """Return keys as Parquet, which keeps the lengths of texts as differences: IDs take 4 or 5 bytes each."""
    sink, encoding = pa.BufferOutputStream(), "DELTA_BINARY_PACKED"
    if not pa.types.is_integer(keys.type):
        encoding = "DELTA_LENGTH_BYTE_ARRAY"
    pq.write_table(
        pa.table({"key": keys}), sink, compression="zstd", use_dictionary=False, column_encoding=encoding
    )
    return cast(bytes, sink.getvalue().to_pybytes())
