"""Zarr version 3 arrays, written and read one chunk at a time.

Zarr makes the metadata. Chunks are encoded here, with the same codecs, because Zarr passes each call to
another thread, which takes longer than encoding a small chunk. Every chunk ends in a CRC32C, and every chunk
is written, including those of fill values only.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import EllipsisType
from typing import TYPE_CHECKING, Protocol

import google_crc32c
import numpy as np
import numpy.typing as npt
from numcodecs import blosc
from numcodecs.zstd import Zstd

from daskrf.documents import JsonObject
from daskrf.errors import MemoryLimitError, StoreError, printable
from daskrf.files.disk import file_errors, make_folders
from daskrf.storage.integrity import DAMAGE, FileList

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer

BLOCK_BYTES = 8 << 20  # per chunk; must never be reduced: readers reject arrays larger than this allows
METADATA = "zarr.json"
blosc.use_threads = False  # as in Zarr: with threads, the bytes would depend on which one ends first


class _Codec(Protocol):
    """A codec of numcodecs."""

    def encode(self, buf: npt.NDArray[np.generic]) -> bytes: ...

    def decode(self, buf: bytes | memoryview) -> bytes: ...


# By name. "bits" groups bits of the same position (bit shuffling), so that small integers take only the bits
# they need.
_COMPRESSORS: dict[str, _Codec] = {
    "zstd": Zstd(level=3),
    "fast": Zstd(level=1),
    "bits": blosc.Blosc("zstd", clevel=1, shuffle=blosc.BITSHUFFLE),
}


@dataclass(frozen=True)
class Layout:
    """Shape, chunks and encoding of a Zarr array.

    Attributes
    ----------
    shape, chunks : tuple of int
        Shapes of the array and of a chunk; the last chunk along an axis is padded.
    dtype : dtype
        Little-endian.
    compressor : {"zstd", "fast", "bits"}, optional
        By default chunks are not compressed.
    separator : {".", "/"}
        Separator of the numbers in a chunk name; with "." all chunks are in one folder.
    dimension_names : tuple of str, optional
    fill_value : float
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype
    compressor: str | None = None
    separator: str = "."
    dimension_names: tuple[str, ...] | None = None
    fill_value: float = 0

    def metadata(self) -> bytes:
        """Return the content of ``zarr.json``."""
        options = (self.compressor, self.separator, self.dimension_names, self.fill_value)
        grid = {"name": "regular", "configuration": {"chunk_shape": self.chunks}}
        template = _template(self.dtype.str, len(self.shape), *options)
        return json.dumps({**template, "shape": self.shape, "chunk_grid": grid}, indent=2).encode()

    def regions(self) -> Iterator[tuple[tuple[int, ...], tuple[slice | EllipsisType, ...]]]:
        """Yield the number of each chunk and the index of its region of the array."""
        axes = [range(-(-n // step)) for n, step in zip(self.shape, self.chunks, strict=True)]
        for number in itertools.product(*axes):
            parts = zip(number, self.chunks, strict=True)
            yield number, (*(slice(i * n, (i + 1) * n) for i, n in parts), ...)

    def key(self, number: tuple[int, ...]) -> str:
        """Return the name of a chunk."""
        return self.separator.join(["c", *map(str, number)])

    def decoded(self, data: bytes) -> np.ndarray:
        """Return the values of a whole chunk as a read-only array."""
        body: bytes | memoryview = memoryview(data)[:-4]
        if self.compressor:
            body = _COMPRESSORS[self.compressor].decode(body)
        return np.frombuffer(body, self.dtype).reshape(self.chunks)


def blocks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the shape of chunks of at most `BLOCK_BYTES` each.

    Examples
    --------
    >>> blocks((5000, 4096), 8), blocks((7,), 8)
    ((256, 4096), (7,))
    """
    sizes = [math.prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape))]
    return tuple(max(1, min(n, BLOCK_BYTES // max(1, size))) for n, size in zip(shape, sizes, strict=True))


@functools.lru_cache
def _template(
    dtype: str,
    n_axes: int,
    compressor: str | None,
    separator: str,
    dimension_names: tuple[str, ...] | None,
    fill_value: float,
) -> JsonObject:
    """Return the metadata that Zarr makes for an array with one entry."""
    import zarr  # slow, and only for writers
    from zarr.abc.codec import BytesBytesCodec
    from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, ZstdCodec

    compressors: dict[str | None, list[BytesBytesCodec]] = {
        None: [],
        "zstd": [ZstdCodec(level=3)],
        "fast": [ZstdCodec(level=1)],
        "bits": [BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle")],
    }
    files: dict[str, Buffer] = {}
    zarr.create_array(
        files,
        shape=(1,) * n_axes,
        chunks=(1,) * n_axes,
        dtype=dtype,
        serializer=BytesCodec() if np.dtype(dtype).itemsize == 1 else BytesCodec(endian="little"),
        compressors=[*compressors[compressor], Crc32cCodec()],
        chunk_key_encoding={"name": "default", "separator": separator},
        dimension_names=dimension_names,
        fill_value=fill_value,
    )
    return dict(json.loads(files[METADATA].to_bytes()))


def create_group(folder: Path, attributes: dict[str, object] | None = None) -> Path:
    """Create the local folder of a Zarr group, in one that exists, and return it."""
    folder.mkdir(exist_ok=True)
    (folder / METADATA).write_bytes(group_metadata(attributes or {}))
    return folder


def group_metadata(attributes: dict[str, object]) -> bytes:
    """Return the content of the ``zarr.json`` of a group."""
    return json.dumps({"attributes": attributes, "zarr_format": 3, "node_type": "group"}, indent=2).encode()


def write_chunk(folder: Path, layout: Layout, number: tuple[int, ...], values: np.ndarray) -> None:
    """Write one chunk into the local folder of its array, which is created if needed."""
    whole = np.asarray(values, layout.dtype, order="C")
    if whole.shape != layout.chunks:
        whole = np.full(layout.chunks, layout.fill_value, layout.dtype)
        whole[tuple(map(slice, values.shape))] = values
    body: npt.NDArray[np.uint8] = whole.reshape(-1).view(np.uint8)
    if layout.compressor:
        body = np.frombuffer(_COMPRESSORS[layout.compressor].encode(whole), np.uint8)
    path = folder / layout.key(number)
    make_folders(folder.parent, path.parent)
    with path.open("wb") as file:
        file.write(body.data)
        file.write(google_crc32c.value(body).to_bytes(4, "little"))


def read_chunk(
    root: PurePath, path: str, layout: Layout, number: tuple[int, ...], record: FileList
) -> np.ndarray:
    """Read a whole chunk of the array `path` below `root`, checked against the digests in `record`."""
    return layout.decoded(record.read(root, f"{path}/{layout.key(number)}"))


def write_array(group: Path, name: str, values: np.ndarray, layout: Layout | None = None) -> None:
    """Write a whole array; without a layout, as one Zstandard chunk, which is the default of `read_array`."""
    if layout is None:
        chunks = tuple(max(1, n) for n in values.shape)
        layout = Layout(values.shape, chunks, values.dtype, "zstd", "/")
    (group / name).mkdir()
    (group / name / METADATA).write_bytes(layout.metadata())
    for number, region in layout.regions():
        write_chunk(group / name, layout, number, values[region])


def read_array(
    root: PurePath,
    path: str,
    record: FileList,
    layout: Layout | None = None,
    dtype: npt.DTypeLike | None = None,
) -> np.ndarray:
    """Read a whole array, converted to `dtype` if given; omit the layout if it was written without one."""
    if layout is None:
        metadata = json.loads(record.read(root, f"{path}/{METADATA}"))
        shape = tuple(map(int, metadata["shape"]))
        layout = Layout(shape, tuple(max(1, n) for n in shape), np.dtype(metadata["data_type"]), "zstd", "/")
    values = np.empty(layout.shape, dtype or layout.dtype)
    for number, region in layout.regions():
        target = values[region]
        target[...] = read_chunk(root, path, layout, number, record)[tuple(map(slice, target.shape))]
    return values


@contextmanager
def read_errors(path: PurePath, partition: int) -> Iterator[None]:
    """Turn errors of Zarr and Arrow on damaged data into one `StoreError` sentence.

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
                if error.errno is None:  # how Arrow reports damaged content
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
