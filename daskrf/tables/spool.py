"""A cache of the rows of a long compressed file, in which one cannot seek."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import PurePath

import zstandard

from daskrf.errors import InputError
from daskrf.files.backend import as_path, backend, exists, is_file, staging
from daskrf.tables.streams import text_blocks

CHUNK_ROWS = 20_000  # a task unpacks the whole of each chunk in which it has rows


class SpoolWriter(contextlib.ExitStack):
    """Copies rows into zstd files of 20,000; a file that has no more is read from its start.

    The files appear under their final name, the digest of the source, only when all of them are written;
    those bound for object storage wait in a local temporary directory until then.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: PurePath) -> None:
        super().__init__()
        self._folder = folder
        backend(folder).make(folder)
        self._partial = self.enter_context(staging(folder, "spool"))
        self._chunk = -1
        self._writer = self.enter_context(contextlib.ExitStack())  # of the current chunk

    def add(self, row: int, piece: bytes) -> None:
        """Copy rows of one chunk starting at row `row`; calls must come in order."""
        chunk = row // CHUNK_ROWS
        if not piece:
            return
        if chunk != self._chunk:
            self._writer.close()
            compressor = zstandard.ZstdCompressor(level=1, write_checksum=True)
            path = _chunk_path(self._partial, chunk)
            self._file = self._writer.enter_context(zstandard.open(path, "wb", cctx=compressor))
            self._chunk = chunk
        self._file.write(piece)

    def publish(self, sha256: str) -> None:
        """Rename the files to their final name, unless one chunk is all or another worker has done it."""
        self._writer.close()
        final = Spool(self._folder, sha256).folder
        if self._chunk > 0:
            try:  # the last file comes last: it tells a reader that the others exist
                backend(final).move({final: self._partial})
            except OSError:
                if not exists(final):
                    raise


class Spool:
    """The cached rows of one compressed file, in a folder shared by all files.

    Parameters
    ----------
    folder : Path
        Folder of all cached files.
    sha256 : str
        Digest of the source file.
    """

    def __init__(self, folder: PurePath, sha256: str) -> None:
        self.folder = as_path(folder) / f"{sha256[:32]}-{CHUNK_ROWS}"

    def blocks(self, first: int, last: int) -> Iterator[bytes] | None:
        """Return the text of chunks `first` to `last` (counted from 0), or None if any is missing.

        Raises
        ------
        InputError
            If a chunk is damaged.
        """
        paths = [_chunk_path(self.folder, chunk) for chunk in range(first, last + 1)]
        if not all(is_file(path) for path in paths):
            return None
        return itertools.chain.from_iterable(map(_content, paths))

    def holds(self, n_rows: int) -> bool:
        """Return whether the rows of a file of `n_rows` are here, or are so few that they need not be."""
        last = (n_rows - 1) // CHUNK_ROWS  # written last
        return n_rows <= CHUNK_ROWS or self.blocks(last, last) is not None


def _content(path: PurePath) -> Iterator[bytes]:
    """Return the text of a chunk; it is read twice, since a reader may stop before the Zstandard checksum."""
    try:
        size = sum(map(len, text_blocks(path, "zstd")))  # no chunk is empty
    except InputError as error:
        if error.errno is not None:
            raise
        size = 0
    if not size:
        raise InputError(f"{path} is damaged; delete its folder and run the same command again.")
    return text_blocks(path, "zstd")


def _chunk_path(folder: PurePath, chunk: int) -> PurePath:
    return folder / f"{chunk:06d}.zst"
