"""A cache of the rows that lie deep in a compressed file, which cannot be sought."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import PurePath
from types import TracebackType
from typing import IO, TYPE_CHECKING, cast

import google_crc32c
import zstandard

from daskrf.errors import InputError
from daskrf.molecules.streams import raw_blocks, text_blocks
from daskrf.storage.backend import as_path, backend, exists, is_file, staging

if TYPE_CHECKING:
    from daskrf.molecules.library import Source

__all__ = ["CHUNK_ROWS", "Spool", "SpoolWriter", "is_spooled"]

CHUNK_ROWS = 50_000
_SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00"  # the head of a skippable frame of 4 bytes
_END_BYTES = len(_SKIPPED) + 4


class SpoolWriter:
    """Copies rows into zstd files of 50,000, all but the first so many, which are near the start.

    The files appear under their final name, that of the digest of the source, only when all are written;
    those that go to an object storage wait in a local temporary directory until then.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: PurePath) -> None:
        self._folder = folder
        self._staging = staging(folder, "spool")
        self._partial = self._staging.__enter__()
        self._chunk = 0
        self._writer: zstandard.ZstdCompressionWriter | None = None

    def __enter__(self) -> SpoolWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish_chunk()
        self._staging.__exit__(None, None, None)

    def add(self, row: int, part: bytes) -> None:
        """Copy rows of one chunk, of which the first is `row`; they come one after another."""
        chunk = row // CHUNK_ROWS
        if not chunk or not part:
            return
        if chunk != self._chunk:
            self._finish_chunk()
        if self._writer is None:
            self._chunk = chunk
            file = _ChunkFile(_chunk_path(self._partial, chunk))
            self._writer = zstandard.ZstdCompressor(level=1).stream_writer(cast(IO[bytes], file))
        self._writer.write(part)

    def _finish_chunk(self) -> None:
        if self._writer is not None:
            self._writer.close()  # and the file with it
            self._writer = None

    def publish(self, sha256: str) -> None:
        """Give the files their final name, unless nothing was written or another process has done it."""
        self._finish_chunk()
        final = Spool(self._folder, sha256).folder
        if any(self._partial.iterdir()):
            try:  # the last one comes last, by which a reader may know that the others are there
                backend(final).move({final: self._partial})
            except OSError:
                if not exists(final):
                    raise


class _ChunkFile:
    """A file that ends in the CRC32C of what was written to it, in a frame that Zstandard passes over."""

    def __init__(self, path: PurePath) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self._checksum = 0

    def write(self, data: bytes) -> int:
        self._checksum = google_crc32c.extend(self._checksum, bytes(data))
        return self._file.write(data)

    def close(self) -> None:
        if not self._file.closed:
            self._file.write(_end(self._checksum))
        self._file.close()


class Spool:
    """The rows of one compressed file in a folder of such.

    Parameters
    ----------
    folder : Path
        That of all files.
    sha256 : str
        Digest of the file.
    """

    def __init__(self, folder: PurePath, sha256: str) -> None:
        self.folder = as_path(folder) / sha256[:32]

    def blocks(self, first: int, last: int) -> Iterator[bytes] | None:
        """Return the text of chunks `first` to `last` (counted from 1), or None if one is not there.

        Raises
        ------
        InputError
            One is damaged; readers that stop early would not see that from Zstandard's own checksum.
        """
        paths = [_chunk_path(self.folder, chunk) for chunk in range(first, last + 1)]
        if not all(is_file(path) for path in paths):
            return None
        return itertools.chain.from_iterable(map(_content, paths))


def _content(path: PurePath) -> Iterator[bytes]:
    """Return the text of a chunk, which is read twice."""
    checksum, held = 0, b""
    for block in raw_blocks(path):
        block = held + block
        checksum, held = google_crc32c.extend(checksum, block[:-_END_BYTES]), block[-_END_BYTES:]
    if held != _end(checksum):
        raise InputError(f"{path} is damaged; delete its folder and run the same command again.")
    return text_blocks(path, "zstd")


def _end(checksum: int) -> bytes:
    return _SKIPPED + checksum.to_bytes(4, "little")


def is_spooled(spool: PurePath, source: Source) -> bool:
    """Return whether all that lies deep in `source` is in the folder, or nothing does."""
    if not source.layout.compression or source.rows <= CHUNK_ROWS:
        return True
    last = (source.rows - 1) // CHUNK_ROWS  # written last
    return Spool(spool, source.sha256).blocks(last, last) is not None


def _chunk_path(folder: PurePath, chunk: int) -> PurePath:
    return folder / f"{chunk:06d}.zst"
