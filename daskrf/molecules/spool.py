"""A cache of the rows that lie deep in a compressed file, which cannot be sought."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import zstandard

from daskrf.molecules.library import Source
from daskrf.molecules.streams import text_blocks
from daskrf.paths import ObjectPath, as_path, each, private_folder

__all__ = ["CHUNK_ROWS", "SpoolWriter", "is_spooled", "spooled_blocks"]

CHUNK_ROWS = 50_000


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
                file = _chunk_path(self._partial, self._chunk).open("wb")
                self._writer = zstandard.ZstdCompressor(level=1).stream_writer(file)
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


def spooled_blocks(spool: Path, source: Source, chunk: int) -> Iterator[bytes] | None:
    """Return the text of chunk number `chunk` (from 1) of `source`, or None if it is not there."""
    path = _chunk_path(_folder_of(as_path(spool), source.sha256), chunk)
    return text_blocks(path, "zstd") if path.is_file() else None


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
