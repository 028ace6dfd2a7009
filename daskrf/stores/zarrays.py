"""Zarr v3 groups of whole arrays: every chunk ends in a CRC32C, and every chunk is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import ByteRequest, Store
from zarr.codecs import BytesCodec, Crc32cCodec, ZstdCodec
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore, ObjectStore, WrapperStore

from daskrf.errors import StoreError
from daskrf.paths import ObjectPath
from daskrf.stores.files import file_errors

__all__ = ["create_array", "create_group", "open_array", "read_array", "read_errors", "write_array"]


class _Gone(Exception):
    """An object that its record lists, and that was there when the record was checked."""


class _Whole(WrapperStore[Store]):
    """A store in which a chunk that is not there is an error: Zarr would fill it with zeros."""

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes of an object."""
        data = await super().get(key, prototype, byte_range)
        if data is None and "/c/" in key:
            raise _Gone(key)
        return data


def create_group(path: Path, attributes: dict[str, Any]) -> zarr.Group:
    """Make a new Zarr v3 group with attributes; its parent directory exists, and it does not."""
    return zarr.create_group(LocalStore(path), zarr_format=3, attributes=attributes)


def open_array(path: Path, name: str) -> zarr.Array[Any]:
    """Open one array of the group at `path` for reading only, in which no chunk may be missing."""
    store: Store
    if isinstance(path, ObjectPath):
        store, name = ObjectStore(path.store, read_only=True), f"{path.key}/{name}"
    else:
        store = LocalStore(path, read_only=True)
    try:
        return zarr.open_array(_Whole(store), path=name, mode="r", zarr_format=3)
    except FileNotFoundError as error:
        if error.errno is not None:  # Zarr's own, of an array without metadata, have none
            raise
        raise _Gone(name) from error


def read_array(path: Path, name: str) -> np.ndarray:
    """Read one whole array of the group at `path`."""
    return np.asarray(open_array(path, name)[...])


def create_array(
    group: zarr.Group, name: str, shape: tuple[int, ...], dtype: np.dtype, chunks: tuple[int, ...], level: int
) -> zarr.Array[Any]:
    """Make an empty array whose chunks are compressed (not where `level` is 0) and end in a CRC32C.

    Parameters
    ----------
    group : zarr.Group
        Group that takes it.
    name : str
        Name in the group.
    shape, dtype, chunks
        As in NumPy and Zarr; axes of length 0 are fine.
    level : int
        Zstandard level; 0 for no compression.

    Returns
    -------
    zarr.Array
    """
    codecs: list[Any] = [ZstdCodec(level=level)] if level else []
    return group.create_array(
        name,
        shape=shape,
        dtype=dtype,
        chunks=tuple(max(1, size) for size in chunks),
        serializer=BytesCodec() if np.dtype(dtype).itemsize == 1 else BytesCodec(endian="little"),
        compressors=[*codecs, Crc32cCodec()],
        fill_value=0,
        # A chunk of zeros is data too: only chunks on disk have a digest that can be checked.
        config={"write_empty_chunks": True},
    )


def write_array(group: zarr.Group, name: str, values: np.ndarray, level: int) -> None:
    """Write one array as one chunk."""
    create_array(group, name, values.shape, values.dtype, values.shape, level)[...] = values


@contextmanager
def read_errors(path: Path, partition: int) -> Iterator[None]:
    """Turn what Zarr and Arrow raise on damaged data into one `StoreError` sentence.

    Raises
    ------
    StoreError
    """
    try:
        with file_errors("read", path):
            try:
                with path.errors() if isinstance(path, ObjectPath) else nullcontext():
                    yield
            except OSError as error:
                if error.errno is None:  # Arrow's way of saying that the content is wrong
                    raise ValueError(str(error)) from error
                raise
    except StoreError:
        raise
    except _Gone as error:
        raise StoreError(
            f"partition {partition} of {path} was removed or damaged while it was read ({error} is missing); "
            f"run `daskrf verify {path}`"
        ) from error
    # zarr: ValueError, KeyError, RuntimeError (zstd); pyarrow: ArrowInvalid is a ValueError.
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise StoreError(
            f"partition {partition} of {path} is damaged ({error}); run `daskrf verify --repair {path}`"
        ) from error
