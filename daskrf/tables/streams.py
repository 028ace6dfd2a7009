"""Read the bytes and lines of plain and compressed files in bounded memory."""

from __future__ import annotations

import bz2
import codecs
import re
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from daskrf.errors import InputError
from daskrf.files.backend import backend
from daskrf.tables.bzip2blocks import Contents as Bzip2Contents
from daskrf.tables.bzip2blocks import IrregularError

_PLAIN_BLOCK = 1 << 20
_COMPRESSED_BLOCK = 1 << 15
_CONTENT = 1 << 20  # bytes decompressed at a time: a block may expand a million times
_ZSTD_PIECE = 256  # bytes: zstandard returns all of their content at once, at most 8 MiB
_LONGEST = 1 << 14
_TAKEN = 1 << 23

ENCODINGS = {"utf-16": "UTF-16", "cp1252": "Windows-1252 (Latin-1)"}
"""Encodings other than UTF-8, with their names in messages; their text is read as UTF-8."""
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f\x7f]")

CUT_OFF = b"$$$$\t \t\r\n"
"""Line that stands in the place of the end of a record that has none, and that no program writes."""

Contents = Generator[bytes, None, bytes]
"""The content of a block, in pieces of bounded size; returns what follows the end of the member."""


def _gzip(inner: Any, block: bytes) -> Contents:
    while block and not inner.eof:  # input not yet decompressed comes out with the next block
        yield inner.decompress(block, _CONTENT)
        block = inner.unconsumed_tail
    return inner.unused_data


def _bzip2(inner: Any, block: bytes) -> Contents:
    yield inner.decompress(block, _CONTENT)
    while not (inner.needs_input or inner.eof):
        yield inner.decompress(b"", _CONTENT)
    return inner.unused_data


def _zstd(inner: Any, block: bytes) -> Contents:
    held, size, at = [], 0, 0
    while at < len(block) and not inner.eof:
        held.append(inner.decompress(block[at : at + _ZSTD_PIECE]))
        at += _ZSTD_PIECE
        size += len(held[-1])
        if size >= _CONTENT:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)
    return inner.unused_data + block[at:]


_COMPRESSIONS: dict[str, tuple[bytes, Callable[[], object], Callable[[object, bytes], Contents]]] = {
    "gzip": (b"\x1f\x8b", lambda: zlib.decompressobj(wbits=31), _gzip),
    "bzip2": (b"BZh", bz2.BZ2Decompressor, _bzip2),
    "zstd": (b"\x28\xb5\x2f\xfd", lambda: zstandard.ZstdDecompressor().decompressobj(), _zstd),
}
"""Each one's first bytes, decompressor of one member, stream or frame, and function that yields pieces."""
_SKIPPABLE = b"\x2a\x4d\x18"  # after one byte 0x50 - 0x5f: a zstd frame that pzstd and others write first


def compression_of(path: PurePath) -> str:
    """Return "gzip", "bzip2", "zstd", or "" for a plain file, decided by the first bytes, not the name.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    head = next(raw_blocks(path, 4), b"")
    if head[1:] == _SKIPPABLE and head[0] >> 4 == 5:
        return "zstd"
    return next((name for name, (magic, *_) in _COMPRESSIONS.items() if head.startswith(magic)), "")


def raw_blocks(path: PurePath, size: int = _PLAIN_BLOCK, offset: int = 0) -> Iterator[bytes]:
    """Yield the raw bytes of `path` from `offset` on, in blocks of at most `size`."""
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
    """Yield the content of compressed `blocks`: consecutive gzip members, bzip2 streams or zstd frames.

    No piece exceeds 9 MiB, whatever the blocks hold; zstd also needs its window, at most 128 MiB.

    Raises
    ------
    InputError
        If the content is damaged or ends too early; the message names `path`.
    """
    _, new, contents = _COMPRESSIONS[compression]
    current: Any = None
    try:
        for block in blocks:
            while block:
                if current is None or current.eof:
                    if current is not None and not block.strip(b"\0"):  # padding, as in tape archives
                        break
                    current = new()
                block = yield from contents(current, block)
    except InputError:  # raised by the blocks: an unreadable file is not damaged
        raise
    except (zlib.error, OSError, EOFError, ValueError, zstandard.ZstdError) as error:
        raise InputError(f"{path} is damaged {compression} data ({error}); fetch the file again.") from None
    if current is not None and not current.eof:
        raise InputError(f"{path} ends in the middle of its {compression} data; fetch the file again.")


def _in_parallel(path: PurePath, blocks: Iterator[bytes], threads: int) -> Iterator[bytes]:
    """Yield the content of a bzip2 file as `decompressed` does, unpacked in several threads."""
    contents = Bzip2Contents(blocks, threads)
    try:
        yield from contents
        return
    except IrregularError:
        pass
    again = decompressed(path, raw_blocks(path, _COMPRESSED_BLOCK, contents.start), "bzip2")
    skip = contents.done
    for piece in again:
        if rest := piece[skip:]:
            yield rest
        skip = max(0, skip - len(piece))
    for _ in blocks:  # whoever watches them sees the whole file
        pass


def encoding_of(head: bytes) -> str:
    """Return the encoding of text that begins with `head`: one of `ENCODINGS`, or "" for UTF-8 or none.

    UTF-16 begins with a byte order mark. Windows-1252, of which Latin-1 is a part, is text without control
    characters in which no line with other than ASCII characters is UTF-8.

    Examples
    --------
    >>> [encoding_of("Säure\\n".encode(name)) for name in ("utf-8", "latin-1", "utf-16")]
    ['', 'cp1252', 'utf-16']
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if head.isascii() or head.startswith(codecs.BOM_UTF8) or _CONTROL.search(head):
        return ""
    lines = [line for line in head.split(b"\n")[: -1 if b"\n" in head else None] if not line.isascii()]
    return "cp1252" if lines and not any(map(_is_utf8, lines)) and all(map(_is_cp1252, lines)) else ""


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_cp1252(line: bytes) -> bool:
    try:
        line.decode("cp1252")
    except UnicodeDecodeError:  # five bytes have no character
        return False
    return True


def _recoded(path: PurePath, blocks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield text as UTF-8; bytes that are no characters become invalid UTF-8, for their line alone."""
    wrong = "surrogatepass" if encoding == "utf-16" else "surrogateescape"
    decoder = codecs.getincrementaldecoder(encoding)(wrong)
    try:
        for block in blocks:
            yield decoder.decode(block).encode("utf-8", wrong)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise InputError(f"{path} is damaged {ENCODINGS[encoding]} text; fetch the file again.") from None


def text_blocks(
    path: PurePath,
    compression: str,
    watch: Callable[[bytes], object] = lambda block: None,
    threads: int = 1,
) -> Iterator[bytes]:
    """Return the content of `path` in blocks, uncompressed and in UTF-8.

    `compression` may be followed by the name of an encoding. `watch` is called with each block on disk.
    Blocks of bzip2 are unpacked in so many threads.
    """

    def watched() -> Iterator[bytes]:
        for block in raw_blocks(path, _COMPRESSED_BLOCK if compression else _PLAIN_BLOCK):
            watch(block)
            yield block

    blocks = watched()
    for layer in compression.split():
        if layer in ENCODINGS:
            blocks = _recoded(path, blocks, layer)
        elif layer == "bzip2" and threads > 1:
            blocks = _in_parallel(path, blocks, threads)
        else:
            blocks = decompressed(path, blocks, layer)
    return blocks


class LineStream:
    """Lines of a stream of blocks, skipped or taken many at a time; only one block is held in memory.

    A line ends with a newline or at the end of the stream. A line of more than `longest` bytes that spans
    several blocks is truncated, but remains longer than `longest`.

    Attributes
    ----------
    offset : int
        Position in bytes of the first line that was neither skipped nor taken.

    Examples
    --------
    >>> from daskrf.tables.streams import LineStream
    >>> lines = LineStream(iter([b"one\\ntw", b"o\\nthree"]))
    >>> lines.skip(1), lines.offset, lines.take(5)
    (1, 4, b'two\\nthree\\n')
    """

    def __init__(self, blocks: Iterator[bytes], longest: int = _LONGEST) -> None:
        self._blocks = blocks
        self._limit = longest + 2  # still too long without a carriage return
        self._buffer = b""
        self._ends: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # positions after the newlines
        self._next = 0  # index of the end of the first remaining line
        self._start = 0  # where that line begins
        self._before = 0  # bytes of the stream before the buffer

    @property
    def offset(self) -> int:
        return self._before + self._start

    @staticmethod
    def ends(buffer: bytes) -> npt.NDArray[np.int64]:
        """Return the positions after the ends of lines."""
        return np.flatnonzero(np.frombuffer(buffer, dtype=np.uint8) == ord("\n")) + 1

    def _cut_off(self, rest: bytes) -> bytes:
        """Return what ends the last line, given all that is left; nothing if that is not a line."""
        return b"\n" if rest else b""

    def _truncated(self, rest: bytes) -> bytes:
        """Return what is kept of the beginning of a line that goes on in the next block."""
        return rest[: self._limit]

    def skip(self, count: int) -> int:
        """Skip `count` lines; return how many there were."""
        skipped = 0
        while skipped < count and self._has_line():
            skipped += self._pass(count - skipped)
        return skipped

    def take(self, count: int) -> bytes:
        """Return the next `count` lines, each ended by a newline; fewer at the end, or if lines are long.

        At least one line is returned, if any is left, and only lines that begin within about 8 MiB.
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
        """Advance by up to `count` lines in the buffer; return how many."""
        last = min(self._next + count, len(self._ends))
        lines = last - self._next
        self._next, self._start = last, int(self._ends[last - 1])
        return lines

    def _has_line(self) -> bool:
        while self._next == len(self._ends):
            rest = self._buffer[self._start :]
            block = next(self._blocks, None)
            if block is None and not (block := self._cut_off(rest)):
                return False
            carried = self._truncated(rest)
            self._before += self._start + len(rest) - len(carried)
            self._buffer = carried + block
            self._ends = self.ends(self._buffer)
            self._next = self._start = 0
        return True


class RecordStream(LineStream):
    """Records of an SD file, which end with a line "$$$$", in place of lines.

    Blanks may follow the mark; a line of data or a title that only begins with it ends nothing, as in RDKit
    and Open Babel. Blank lines after the last record are none. A last record without its end gets the line
    `CUT_OFF`.

    Examples
    --------
    >>> records = RecordStream(iter([b"a\\nM  END\\n$$", b"$$\\nb\\n$$$$ 5\\n"]))
    >>> records.take(1), records.offset, records.take(5).removesuffix(CUT_OFF)
    (b'a\\nM  END\\n$$$$\\n', 14, b'b\\n$$$$ 5\\n')
    """

    _END = np.frombuffer(b"$$$$", dtype=np.uint8)
    _EDGE = 16  # bytes kept of the end of a record that is too long, where its last line may begin

    def __init__(self, blocks: Iterator[bytes], longest: int = 1 << 20) -> None:
        super().__init__(blocks, longest)

    @staticmethod
    def ends(buffer: bytes) -> npt.NDArray[np.int64]:
        ends = LineStream.ends(buffer)
        text = np.frombuffer(buffer, dtype=np.uint8)
        begins = np.concatenate([[0], ends[:-1]])
        is_end = ends - begins > len(RecordStream._END)
        for at, mark in enumerate(RecordStream._END):
            is_end[is_end] = text[begins[is_end] + at] == mark
        bare = len(RecordStream._END) + 1
        for k in np.flatnonzero(is_end & (ends - begins > bare)).tolist():
            is_end[k] = not buffer[begins[k] + bare - 1 : ends[k]].strip(b" \t\r\n")
        return ends[is_end]

    def _cut_off(self, rest: bytes) -> bytes:
        if not rest.strip():
            return b""
        return CUT_OFF if rest.endswith(b"\n") else b"\n"

    def _truncated(self, rest: bytes) -> bytes:
        too_long = len(rest) > self._limit + self._EDGE
        return rest[: self._limit] + rest[-self._EDGE :] if too_long else rest
