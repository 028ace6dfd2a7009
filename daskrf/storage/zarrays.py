"""Zarr v3 groups of whole arrays: every chunk ends in a CRC32C, and every chunk is written."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import ByteRequest
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, ZstdCodec
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import MemoryStore, WrapperStore

from daskrf.errors import MemoryLimitError, StoreError, printable
from daskrf.storage.files import file_errors
from daskrf.storage.integrity import DAMAGE
from daskrf.storage.records import FileList

__all__ = [
    "create_array",
    "create_blocks",
    "open_array",
    "read_blocks",
    "read_errors",
    "write_array",
    "write_blocks",
]

BLOCK_BYTES = 4 << 20  # of a chunk of an array that is written and read chunk by chunk
FLAT = {"chunk_key_encoding": {"name": "default", "separator": "."}}  # all chunks of an array in one folder
# Bits of the same place stand together, so that a matrix of small integers takes as many as they have.
_SHUFFLED = BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle")


class _Recorded(WrapperStore[MemoryStore]):
    """The files below `root` that a record names: each is checked against it when it is read.

    What a record does not name is an error, metadata as well as chunks, which Zarr would fill in. Only
    metadata that are known otherwise are not read, but taken from the store within.
    """

    def __init__(self, root: PurePath, record: FileList, known: MemoryStore | None = None) -> None:
        super().__init__(MemoryStore(read_only=True) if known is None else known.with_read_only(True))
        self._root, self._record, self._known = root, record, known is not None

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes of a file."""
        if byte_range is not None:
            raise ValueError("its arrays are not stored as daskrf stores them")
        if self._known and key.endswith("zarr.json"):
            return await super().get(key, prototype)
        return prototype.buffer.from_bytes(await asyncio.to_thread(self._record.read, self._root, key))


def open_array(
    root: PurePath, path: str, record: FileList, known: MemoryStore | None = None
) -> zarr.Array[Any]:
    """Open an array below `root` to read it: its chunks, and unless `known` its metadata, are in `record`."""
    return zarr.open_array(_Recorded(root, record, known), path=path, mode="r", zarr_format=3)


def create_array(
    group: zarr.Group,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    chunks: tuple[int, ...],
    codecs: Sequence[Any],
    **options: Any,
) -> zarr.Array[Any]:
    """Make an empty array whose chunks end in a CRC32C.

    Parameters
    ----------
    group : zarr.Group
        Group that takes it.
    name : str
        Name in the group.
    shape, dtype, chunks
        As in NumPy and Zarr; axes of length 0 are fine.
    codecs : sequence of zarr codecs
        That compress a chunk.
    **options
        Of ``zarr.create_array``.

    Returns
    -------
    zarr.Array
    """
    return group.create_array(
        name,
        shape=shape,
        dtype=dtype,
        chunks=tuple(max(1, size) for size in chunks),
        serializer=BytesCodec() if np.dtype(dtype).itemsize == 1 else BytesCodec(endian="little"),
        compressors=[*codecs, Crc32cCodec()],
        # A chunk of zeros is data too: only chunks on disk have a digest that can be checked.
        config={"write_empty_chunks": True},
        **{"fill_value": 0, **options},
    )


def write_array(group: zarr.Group, name: str, values: np.ndarray, level: int) -> None:
    """Write one array as one chunk."""
    codecs = [ZstdCodec(level=level)]
    create_array(group, name, values.shape, values.dtype, values.shape, codecs)[...] = values


def create_blocks(group: zarr.Group, name: str, shape: tuple[int, ...], dtype: np.dtype) -> zarr.Array[Any]:
    """Make an empty array, of chunks of at most 4 MiB each, for `write_blocks`."""
    sizes = [math.prod(shape[axis + 1 :]) * dtype.itemsize for axis in range(len(shape))]
    chunks = tuple(min(n, BLOCK_BYTES // max(1, size)) for n, size in zip(shape, sizes, strict=True))
    codec = _SHUFFLED if dtype.kind in "iu" else ZstdCodec(level=1)
    return create_array(group, name, shape, dtype, chunks, [codec], **FLAT)


def write_blocks(array: zarr.Array[Any], values: np.ndarray) -> None:
    """Write a whole array chunk by chunk, so that little memory is needed beside it."""
    for block in _blocks(array):
        array[block] = values[block]


def read_blocks(array: zarr.Array[Any]) -> np.ndarray:
    """Read a whole array chunk by chunk."""
    values = np.empty(array.shape, array.dtype)
    for block in _blocks(array):
        values[block] = array[block]
    return values


def _blocks(array: zarr.Array[Any]) -> Iterator[tuple[slice, ...]]:
    axes = zip(array.shape, array.chunks, strict=True)
    return itertools.product(*([slice(i, i + step) for i in range(0, n, step)] for n, step in axes))


@contextmanager
def read_errors(path: PurePath, partition: int) -> Iterator[None]:
    """Turn what Zarr and Arrow raise on damaged data into one `StoreError` sentence.

    Raises
    ------
    StoreError
    MemoryLimitError
        The partition does not fit.
    """
    try:
        with file_errors("read", path):
            try:
                yield
            except OSError as error:
                if error.errno is None:  # Arrow's way of saying that the content is wrong
                    raise ValueError(str(error)) from error
                raise
    except (StoreError, MemoryLimitError):
        raise
    except MemoryError as error:
        raise MemoryLimitError(
            f"partition {partition} of {path} does not fit into memory ({printable(error, 200)}); read it "
            "where there is more, or make the store again with smaller partitions"
        ) from error
    except DAMAGE as error:
        raise StoreError(
            f"partition {partition} of {path} is damaged ({printable(error, 200)}); run "
            f"`daskrf verify --repair {path}`"
        ) from error
