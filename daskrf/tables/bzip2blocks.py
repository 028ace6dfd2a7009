"""The content of bzip2 files, unpacked block by block in several threads.

The blocks of a bzip2 stream (at most 900 kB each, before runs are expanded) do not depend on each other. They
follow each other without a byte boundary, and begin with a mark of 48 bits. So each block is cut out at the
marks, made a stream of its own, and unpacked by Python's bz2, which releases the interpreter lock and checks
the CRC of the block. The CRC of the whole stream follows from those of its blocks, and is checked, too.

Whatever is not exactly so is `IrregularError`, and is for a plain reader to judge: a damaged or truncated
file, bytes after the last stream, or a mark that stands within a block by chance (one in 2^48 positions).
"""

from __future__ import annotations

import bz2
import functools
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

BLOCK = 0x314159265359
"""What a block begins with."""
END = 0x177245385090
"""What follows the last block of a stream."""

_MARK_BITS, _CRC_BITS = 48, 32
_MARK_BYTES = 7  # that a mark is in, at most
_TRAILER_BITS = _MARK_BITS + _CRC_BITS
_HEADER = b"BZh"  # and a digit: the size of blocks
_READ = 1 << 18  # bytes in which marks are searched at once
_LONGEST = 4 << 20  # bytes between marks: a block takes about 1 MB if it cannot be compressed
_PIECE = 1 << 20  # bytes of content: a block may expand a thousand times


class IrregularError(Exception):
    """The bytes are not whole bzip2 streams of whole blocks, or seem not to be."""


class Block(NamedTuple):
    """One block: the offset of its stream in the file, and the block as a bzip2 stream of its own."""

    start: int
    packed: bytes


def marks(data: bytes, first: int = 0) -> list[tuple[int, bool]]:
    """Return the positions in bits of the marks from byte `first` on, ascending, and whether each is `END`.

    Examples
    --------
    >>> found = marks(bz2.compress(b"CCO"))
    >>> found[0], [is_end for _, is_end in found]
    ((32, False), [False, True])
    """
    pairs, places = _pairs(), []
    text = np.frombuffer(data, np.uint8)[first:].astype(np.uint16)
    candidates = np.flatnonzero(_is_pair()[(text[2:-1] << 8) | text[3:]])
    for byte in (candidates + first).tolist():
        for mark, shift in pairs[data[byte + 2 : byte + 4]]:
            if _bits(data, 8 * byte + shift, _MARK_BITS) == mark:
                places.append((8 * byte + shift, mark == END))
    return sorted(places)


@functools.cache
def _pairs() -> dict[bytes, list[tuple[int, int]]]:
    """Return marks, each with where it begins in a byte, by the third and fourth byte that hold it."""
    pairs: dict[bytes, list[tuple[int, int]]] = {}
    for mark in (BLOCK, END):
        for shift in range(8):
            pairs.setdefault((mark << (8 - shift)).to_bytes(7, "big")[2:4], []).append((mark, shift))
    return pairs


@functools.cache
def _is_pair() -> npt.NDArray[np.bool_]:
    """Return for each number of two bytes whether it is one of `_pairs`."""
    table = np.zeros(1 << 16, bool)
    table[[int.from_bytes(pair, "big") for pair in _pairs()]] = True
    return table


def _bits(data: bytes, start: int, count: int) -> int:
    """Return `count` bits of some bytes as a number, or -1 if there are not so many."""
    stop = start + count
    if stop > 8 * len(data):
        return -1
    return (int.from_bytes(data[start // 8 : -(-stop // 8)], "big") >> (-stop % 8)) & ((1 << count) - 1)


def _alone(data: bytes, start: int, stop: int, level: bytes) -> bytes:
    """Return the block between two positions in bits as a stream of its own."""
    count = stop - start
    crc = _bits(data, start + _MARK_BITS, _CRC_BITS)  # of the block, and so of a stream that has no other
    stream = (_bits(data, start, count) << _TRAILER_BITS) | (END << _CRC_BITS) | crc
    count += _TRAILER_BITS
    return _HEADER + level + (stream << (-count % 8)).to_bytes(-(-count // 8), "big")


def blocks(raw: Iterator[bytes]) -> Iterator[Block]:
    """Yield the blocks of a bzip2 file, given all of its bytes in order.

    Raises
    ------
    IrregularError
        If anything else is in the file but zeros at its end.
    """
    cutter = _Cutter()
    held, size = [], 0
    for piece in raw:
        held.append(piece)
        size += len(piece)
        if size >= _READ:
            yield from cutter.cut(b"".join(held))
            held, size = [], 0
    yield from cutter.cut(b"".join(held))
    cutter.finish()


class _Cutter:
    """Cuts the bytes of a file into blocks as they come."""

    def __init__(self) -> None:
        self._data = b""
        self._base = 0  # offset of the data in the file
        self._searched = 0  # bytes of the data in which marks have been searched
        self._start = 0  # offset of the current stream in the file
        self._at = 0  # position in bits of the current block in the data; of a stream, between streams
        self._level = b""  # of the current stream; empty between streams
        self._crc = 0  # of the blocks of the stream so far

    def cut(self, more: bytes) -> Iterator[Block]:
        """Yield the blocks that end in more bytes of the file."""
        first = self._at // 8
        data = self._data = self._data[first:] + more
        self._base += first
        self._at %= 8
        begin, self._searched = max(0, self._searched - first - _MARK_BYTES), len(data)
        for at, is_end in marks(data, begin):
            if at < self._at:
                continue
            if not self._level:
                self._begin(at)
            if is_end and at + _TRAILER_BITS > 8 * len(data):
                self._searched = at // 8  # it is seen again with what follows
                return
            if at > self._at:
                yield self._block(at)
            self._at = at
            if is_end:
                self._end(at)
        if len(data) - self._at // 8 > _LONGEST:
            raise IrregularError

    def _begin(self, at: int) -> None:
        """Begin the stream whose first mark is at a position in bits."""
        first = self._at // 8
        header = self._data[first : first + 4]
        if at != self._at + 32 or not header.startswith(_HEADER) or header[3] not in b"123456789":
            raise IrregularError
        self._start, self._at, self._level, self._crc = self._base + first, at, header[3:], 0

    def _block(self, stop: int) -> Block:
        """Return the block that ends at a position in bits."""
        if stop - self._at < _TRAILER_BITS:
            raise IrregularError
        crc = _bits(self._data, self._at + _MARK_BITS, _CRC_BITS)
        self._crc = ((self._crc << 1 | self._crc >> 31) & 0xFFFFFFFF) ^ crc
        return Block(self._start, _alone(self._data, self._at, stop, self._level))

    def _end(self, at: int) -> None:
        """End the stream whose last mark is at a position in bits."""
        if _bits(self._data, at + _MARK_BITS, _CRC_BITS) != self._crc:
            raise IrregularError
        self._level, self._at = b"", -(-(at + _TRAILER_BITS) // 8) * 8

    def finish(self) -> None:
        """Check that the file ends here."""
        if self._level or self._data[self._at // 8 :].strip(b"\0"):
            raise IrregularError


class Contents:
    """Iterator over the content of a bzip2 file, in pieces of at most 1 MiB.

    Parameters
    ----------
    raw : iterator of bytes
        All bytes of the file, in order.
    threads : int

    Attributes
    ----------
    start : int
        Offset in the file of the stream that the last piece came from.
    done : int
        Bytes of content of that stream so far.

    Raises
    ------
    IrregularError
        While iterating: what has come before it is right.

    Examples
    --------
    >>> packed = bz2.compress(b"CCO ethanol\\n") + bz2.compress(b"CC ethane\\n")
    >>> b"".join(Contents(iter([packed]), threads=2))
    b'CCO ethanol\\nCC ethane\\n'
    """

    def __init__(self, raw: Iterator[bytes], threads: int) -> None:
        self._raw = raw
        self._threads = threads
        self.start = self.done = 0

    def __iter__(self) -> Iterator[bytes]:
        waiting: deque[tuple[int, Future[tuple[bytes, object]]]] = deque()
        with ThreadPoolExecutor(self._threads) as pool:
            for block in blocks(self._raw):
                waiting.append((block.start, pool.submit(_begun, block.packed)))
                if len(waiting) > self._threads + 1:
                    yield from self._next(*waiting.popleft())
            while waiting:
                yield from self._next(*waiting.popleft())

    def _next(self, start: int, block: Future[tuple[bytes, Any]]) -> Iterator[bytes]:
        """Yield the content of the next block."""
        try:
            content, rest = block.result()
            if start != self.start:
                self.start, self.done = start, 0
            self.done += len(content)
            yield content
            while rest is not None and not rest.eof:
                content = rest.decompress(b"", _PIECE)
                if rest.needs_input:  # the block is not complete
                    raise IrregularError
                self.done += len(content)
                yield content
        except (OSError, EOFError):
            raise IrregularError from None


def _begun(packed: bytes) -> tuple[bytes, object]:
    """Return the first piece of the content of a stream, and its decompressor if there is more."""
    inner = bz2.BZ2Decompressor()
    content = inner.decompress(packed, _PIECE)
    if inner.needs_input or inner.unused_data:
        raise IrregularError
    return content, None if inner.eof else inner
