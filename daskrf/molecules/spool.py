"""A cache of the rows that lie deep in a compressed file, which cannot be sought."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, cast

import google_crc32c
import numpy as np
import zstandard

from daskrf.errors import InputError
from daskrf.molecules.library import Source
from daskrf.molecules.streams import raw_blocks, text_blocks
from daskrf.paths import ObjectPath, as_path, each, private_folder

__all__ = ["CHUNK_ROWS", "SpoolWriter", "is_spooled", "spooled_blocks"]

CHUNK_ROWS = 50_000
_SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00"  # the head of a skippable frame of 4 bytes
_END_BYTES = len(_SKIPPED) + 4


class SpoolWriter:
    """Copies a stream of text into zstd files of 50,000 rows, all but the first, which is near the start.

    The files appear under their final name, that of the digest of the source, only when all are written;
    those that go to an object storage wait in a local temporary directory until then.

    Parameters
    ----------
    folder : Path
    header : int
        Number of lines to leave out at the beginning.
    """

    def __init__(self, folder: Path, header: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        # Named as the temporary files of stores are and, beside an object storage, in their local folder, so
        # that what a killed process leaves is deleted with theirs.
        beside = folder
        if isinstance(folder, ObjectPath):
            beside = private_folder()
        writer = f".tmp-spool~{socket.gethostname()}~{os.getpid()}~"
        self._partial = Path(tempfile.mkdtemp(prefix=writer, dir=beside))
        self._left = header + CHUNK_ROWS  # lines until the next chunk begins
        self._chunk = 0
        self._writer: zstandard.ZstdCompressionWriter | None = None

    def __enter__(self) -> SpoolWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish_chunk()
        shutil.rmtree(self._partial, ignore_errors=True)

    def through(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield `blocks` as they are, and write their chunks."""
        for block in blocks:
            self._add(block)
            yield block
        self._finish_chunk()

    def _add(self, block: bytes) -> None:
        count = block.count(b"\n")
        begin = 0
        if count >= self._left:
            ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")) + 1
            used = 0
            while count - used >= self._left:
                used += self._left
                end = int(ends[used - 1])
                self._keep(block[begin:end])
                self._finish_chunk()
                self._chunk += 1
                self._left = CHUNK_ROWS
                begin = end
            count -= used
        self._left -= count
        self._keep(block[begin:])

    def _keep(self, part: bytes) -> None:
        if self._chunk and part:
            if self._writer is None:
                file = _ChunkFile(_chunk_path(self._partial, self._chunk))
                self._writer = zstandard.ZstdCompressor(level=1).stream_writer(cast(IO[bytes], file))
            self._writer.write(part)

    def _finish_chunk(self) -> None:
        if self._writer is not None:
            self._writer.close()  # and the file with it
            self._writer = None

    def publish(self, sha256: str) -> None:
        """Give the files their final name, unless nothing was written or another process has done it."""
        final = _folder_of(self._folder, sha256)
        if isinstance(final, ObjectPath):
            *files, last = sorted(self._partial.iterdir()) or [None]
            each(lambda file: (final / file.name).upload(file), files)
            if last is not None:  # by which `is_spooled` knows that the others are there
                (final / last.name).upload(last)
        elif any(self._partial.iterdir()):
            try:
                os.replace(self._partial, final)
            except OSError:
                if not final.exists():
                    raise


class _ChunkFile:
    """A file that ends in the CRC32C of what was written to it, in a frame that Zstandard passes over."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._checksum = 0

    def write(self, data: bytes) -> int:
        self._checksum = google_crc32c.extend(self._checksum, bytes(data))
        return self._file.write(data)

    def close(self) -> None:
        if not self._file.closed:
            self._file.write(_end(self._checksum))
        self._file.close()


def spooled_blocks(spool: Path, source: Source, chunk: int) -> Iterator[bytes] | None:
    """Return the text of chunk number `chunk` (from 1) of `source`, or None if it is not there.

    Raises
    ------
    InputError
        It is damaged; readers that stop early would not see that from Zstandard's own checksum.
    """
    path = _chunk_path(_folder_of(as_path(spool), source.sha256), chunk)
    if not path.is_file():
        return None
    checksum, held = 0, b""
    for block in raw_blocks(path):
        block = held + block
        checksum, held = google_crc32c.extend(checksum, block[:-_END_BYTES]), block[-_END_BYTES:]
    if held != _end(checksum):
        raise InputError(f"{path} is damaged; delete its folder and run the same command again.")
    return text_blocks(path, "zstd")


def _end(checksum: int) -> bytes:
    return _SKIPPED + checksum.to_bytes(4, "little")


def is_spooled(spool: Path, source: Source) -> bool:
    """Return whether all that lies deep in `source` is in the folder, or nothing does."""
    if not source.layout.compression or source.rows <= CHUNK_ROWS:
        return True
    last = (source.rows - 1) // CHUNK_ROWS  # written last
    return _chunk_path(_folder_of(as_path(spool), source.sha256), last).is_file()


def _folder_of(spool: Path, sha256: str) -> Path:
    return spool / sha256[:32]


def _chunk_path(folder: Path, chunk: int) -> Path:
    return folder / f"{chunk:06d}.zst"
