"""Bytes of plain and compressed files, and lines of them, in bounded memory."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from daskrf.errors import InputError
from daskrf.storage.backend import backend

__all__ = ["LineStream", "compression_of", "decompressed", "first_bytes", "raw_blocks", "text_blocks"]

_PLAIN_BLOCK = 1 << 20
_COMPRESSED_BLOCK = 1 << 15
_CONTENT = 1 << 20  # of a compressed file, at a time: a block of it may hold a million times as much
_ZSTD_PIECE = 256  # bytes: zstandard gives all of their content at once, which is 8 MiB at most
_ENOUGH = 4096  # bytes that tell one format from another
_LONGEST = 1 << 14
_TAKEN = 1 << 23

_MAGIC = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "zstd": b"\x28\xb5\x2f\xfd"}
_SKIPPABLE = b"\x2a\x4d\x18"  # after one byte 0x50 - 0x5f: a frame with which pzstd and others begin


class _Decompressor:
    """One member, stream or frame of a compressed file."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def eof(self) -> bool:
        """Whether its end has been reached."""
        return bool(self._inner.eof)

    @property
    def unused_data(self) -> bytes:
        """What of the last block came after that."""
        return bytes(self._inner.unused_data)

    def contents(self, block: bytes) -> Iterator[bytes]:
        """Yield the content of a block, in pieces of bounded size."""
        raise NotImplementedError


class _Gzip(_Decompressor):
    def __init__(self) -> None:
        super().__init__(zlib.decompressobj(wbits=31))

    def contents(self, block: bytes) -> Iterator[bytes]:
        while block and not self.eof:  # what has gone in and not come out comes with the next one
            yield self._inner.decompress(block, _CONTENT)
            block = self._inner.unconsumed_tail


class _Bzip2(_Decompressor):
    def __init__(self) -> None:
        super().__init__(bz2.BZ2Decompressor())

    def contents(self, block: bytes) -> Iterator[bytes]:
        yield self._inner.decompress(block, _CONTENT)
        while not (self._inner.needs_input or self._inner.eof):
            yield self._inner.decompress(b"", _CONTENT)


class _Zstd(_Decompressor):
    def __init__(self) -> None:
        super().__init__(zstandard.ZstdDecompressor().decompressobj())
        self._left = b""

    @property
    def unused_data(self) -> bytes:
        return self._left

    def contents(self, block: bytes) -> Iterator[bytes]:
        held, size, at = [], 0, 0
        while at < len(block) and not self.eof:
            content = self._inner.decompress(block[at : at + _ZSTD_PIECE])
            at += _ZSTD_PIECE
            held.append(content)
            size += len(content)
            if size >= _CONTENT:
                yield b"".join(held)
                held, size = [], 0
        self._left = self._inner.unused_data + block[at:]
        yield b"".join(held)


_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {"gzip": _Gzip, "bzip2": _Bzip2, "zstd": _Zstd}


def compression_of(path: PurePath) -> str:
    """Return "gzip", "bzip2", "zstd" or "" for a plain file; the first bytes decide, not the name.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    head = next(raw_blocks(path, 4), b"")
    if head[1:] == _SKIPPABLE and head[0] >> 4 == 5:
        return "zstd"
    return next((name for name, magic in _MAGIC.items() if head.startswith(magic)), "")


def raw_blocks(path: PurePath, size: int = _PLAIN_BLOCK, offset: int = 0) -> Iterator[bytes]:
    """Yield the bytes of `path` from `offset` on, as they are on disk, in blocks of at most `size`."""
    try:
        with backend(path).open(path) as file:
            file.seek(offset)
            while block := file.read(size):
                yield block
    except IsADirectoryError:
        raise InputError(f"{path} is a directory; name its files, for example '{path}/*.smi'.") from None
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); check the path and its permissions.",
            errno=error.errno,
        ) from None


def decompressed(path: PurePath, blocks: Iterator[bytes], compression: str) -> Iterator[bytes]:
    """Yield the content of compressed `blocks`: gzip members, bzip2 streams or zstd frames one after another.

    No piece has more than 9 MiB, whatever the blocks hold; zstd takes its window besides, 128 MiB at most.

    Raises
    ------
    InputError
        If the content is damaged or ends too early; the message names `path`.
    """
    new = _DECOMPRESSORS[compression]
    current = new()
    fed = False
    try:
        for block in blocks:
            while block:
                if current.eof:
                    if not block.strip(b"\0"):  # padding, as tape archives have it
                        break
                    current = new()
                fed = True
                yield from current.contents(block)
                block = current.unused_data if current.eof else b""
    except InputError:  # of the blocks: a file that cannot be read is not damaged
        raise
    except (zlib.error, OSError, EOFError, ValueError, zstandard.ZstdError) as error:
        raise InputError(f"{path} is damaged {compression} data ({error}); fetch the file again.") from None
    if fed and not current.eof:
        raise InputError(f"{path} ends in the middle of its {compression} data; fetch the file again.")


def text_blocks(path: PurePath, compression: str, raw: Iterator[bytes] | None = None) -> Iterator[bytes]:
    """Yield the uncompressed content of `path` in blocks; `raw` overrides the bytes on disk."""
    if not compression:
        return raw_blocks(path) if raw is None else raw
    return decompressed(path, raw_blocks(path, _COMPRESSED_BLOCK) if raw is None else raw, compression)


def first_bytes(blocks: Iterator[bytes]) -> bytes:
    """Return the first blocks of a file, joined to as many bytes as tell one format from another.

    The first blocks of compressed files may be empty.
    """
    first = b""
    while len(first) < _ENOUGH and (block := next(blocks, None)) is not None:
        first += block
    return first


def block_size(compression: str) -> int:
    """Return the number of bytes on disk that are read at a time."""
    return _COMPRESSED_BLOCK if compression else _PLAIN_BLOCK


class LineStream:
    """Lines of a stream of blocks, skipped or taken many at a time; only one block is held.

    A line ends with a newline or with the stream. Of a line of more than `longest` bytes that lies in several
    blocks only the beginning is kept, and it stays longer than that.

    Attributes
    ----------
    offset : int
        Bytes before the first line that was neither skipped nor taken.

    Examples
    --------
    >>> from daskrf.molecules.streams import LineStream
    >>> lines = LineStream(iter([b"one\\ntw", b"o\\nthree"]))
    >>> lines.skip(1), lines.offset, lines.take(5)
    (1, 4, b'two\\nthree\\n')
    """

    def __init__(self, blocks: Iterator[bytes], longest: int = _LONGEST) -> None:
        self._blocks = blocks
        self._kept = longest + 2  # with a carriage return, it is still too long
        self._buffer = b""
        self._ends: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # positions after the newlines
        self._next = 0  # index of the end of the first line that is still here
        self._start = 0  # where that line begins
        self._before = 0  # bytes of the stream before the buffer

    @property
    def offset(self) -> int:
        return self._before + self._start

    def skip(self, count: int) -> int:
        """Pass over `count` lines; return how many there were."""
        skipped = 0
        while skipped < count and self._has_line():
            skipped += self._pass(count - skipped)
        return skipped

    def take(self, count: int) -> bytes:
        """Return the next `count` lines, each ended by a newline; fewer at the end, or where they are long.

        At least one comes back, if any is left, and no more than begin in some 8 MiB.
        """
        parts: list[bytes] = []
        taken = size = 0
        while taken < count and size < _TAKEN and self._has_line():
            start = self._start
            taken += self._pass(count - taken)
            parts.append(self._buffer[start : self._start])
            size += self._start - start
        return b"".join(parts)

    def _pass(self, count: int) -> int:
        """Advance by up to `count` lines of the buffer; return how many."""
        last = min(self._next + count, len(self._ends))
        lines = last - self._next
        self._next, self._start = last, int(self._ends[last - 1])
        return lines

    def _has_line(self) -> bool:
        while self._next == len(self._ends):
            rest = self._buffer[self._start :]
            block = next(self._blocks, None)
            if block is None:
                if not rest:
                    return False
                block = b"\n"
            kept = rest[: self._kept]
            self._before += self._start + len(rest) - len(kept)
            self._buffer = kept + block
            self._ends = np.flatnonzero(np.frombuffer(self._buffer, dtype=np.uint8) == ord("\n")) + 1
            self._next = self._start = 0
        return True
