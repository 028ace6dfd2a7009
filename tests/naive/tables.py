"""Slow, readable reading of text tables: the whole file at once, one character or line at a time."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path

import zstandard

from daskrf.tables.library import Layout


def content(path: Path) -> bytes:
    """Return the uncompressed content of `path`."""
    data = path.read_bytes()
    if path.name.endswith(".gz"):
        return gzip.decompress(data)
    if path.name.endswith(".bz2"):
        return bz2.decompress(data)
    if path.name.endswith(".zst"):
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True).read()
    return data


def data_lines(path: Path, header: int) -> list[bytes]:
    """Return the lines of `path` after the header, without line ends."""
    text = content(path).removeprefix(b"\xef\xbb\xbf")
    lines = text.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return [line.rstrip(b"\r") for line in lines[header:]]


def quoted_fields(line: str, delimiter: str) -> list[str] | None:
    """Return the fields of a line with quotes, character by character; None if the quotes do not fit."""
    fields = []
    position = 0
    while True:
        field = ""
        if line[position : position + 1] == '"':
            position += 1
            while True:
                if position >= len(line):
                    return None
                if line[position] == '"':
                    if line[position + 1 : position + 2] != '"':
                        break
                    position += 1
                field += line[position]
                position += 1
            position += 1
            if position < len(line) and line[position] != delimiter:
                return None
        else:
            while position < len(line) and line[position] != delimiter:
                field += line[position]
                position += 1
        fields.append(field)
        if position >= len(line):
            return fields
        position += 1


def with_extension(words: list[str], smiles: int) -> list[str] | None:
    """Join the words from one that starts with a bar to one that ends with one to the SMILES before them."""
    before, after = words[: smiles + 1], words[smiles + 1 :]
    if not after or after[0][0] != "|":
        return words
    for count in range(1, len(after) + 1):
        extension = " ".join(after[:count])
        if len(extension) > 1 and extension[-1] == "|":
            return [*before[:-1], f"{before[-1]} {extension}", *after[count:]]
    return None


def with_groups(smiles: str, extension: str) -> str:
    """Return a SMILES with the groups of stereocentres of its extension, which has no labels or coordinates.

    A group is a name, a colon and a number, and the numbers that follow.
    """
    groups: list[str] = []
    open_group = False
    for part in extension[1:].partition("|")[0].split(","):
        name, colon, number = part.partition(":")
        starts = colon and name[:1] in ("&", "o") and (name[1:].isdigit() or not name[1:])
        if starts and number.isdigit():
            groups.append(part)
        elif part.isdigit() and open_group:
            groups[-1] += f",{part}"
        open_group = bool(starts and number.isdigit()) or (part.isdigit() and open_group)
    return f"{smiles} |{','.join(groups)}|" if groups and "@" in smiles else smiles


def reason_of(raw: bytes, layout: Layout) -> str:
    """Return why a line is rejected before it is split, or an empty string."""
    if 0 in raw:
        return "longer than 10,000 bytes" if len(raw) > 10_000 else "NUL byte in the line"
    try:
        line = raw.decode(layout.encoding or "utf-8")
    except UnicodeDecodeError:
        return "longer than 10,000 bytes" if len(raw) > 10_000 else "not UTF-8 text"
    if len(line.encode()) > 10_000:
        return "longer than 10,000 bytes"
    if "\r" in line:
        return "carriage return within the line"
    return "" if line.split() else "empty line"


def read_line(raw: bytes, layout: Layout) -> tuple[str, str] | str:
    """Return (SMILES, ID) of a line, or the reason of its reject."""
    reason = reason_of(raw, layout)
    if reason:
        return reason
    line = raw.decode(layout.encoding or "utf-8")
    fields: list[str] | None
    if layout.delimiter == " ":
        fields = with_extension(line.split(), layout.smiles)
        if fields is None:
            return "CXSMILES extension without end"
    elif layout.exact:
        fields = quoted_fields(line, layout.delimiter)
        if fields is None:
            return "unbalanced quote, or a line break within quotes"
        if len(fields) != layout.n_columns:
            return f"{len(fields)} columns where {layout.n_columns} are expected"
    else:
        fields = line.split(layout.delimiter)
    fields = fields + [""] * (max(layout.smiles, layout.id or 0) + 1 - len(fields))
    smiles = fields[layout.smiles].strip(" \t")
    for k in range(1, len(smiles)):
        if smiles[k] == "|" and smiles[k - 1] in " \t":
            smiles = with_groups(smiles[:k].strip(" \t"), smiles[k:])
            break
    name = "" if layout.id is None else fields[layout.id].strip()
    return (smiles, name) if smiles else "no SMILES"
