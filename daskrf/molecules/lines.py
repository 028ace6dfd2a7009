"""Lines of a text table into fields: fast where a batch is regular, line by line where it is not."""

from __future__ import annotations

import csv
import re

import numpy as np

from daskrf.molecules.library import Layout, Reject, RowBatch

__all__ = ["MAX_LINE_BYTES", "MAX_TEXT", "clean_smiles", "fields_of", "parse_lines", "row_batch"]

MAX_LINE_BYTES = 10_000
MAX_TEXT = 500

_BOM = b"\xef\xbb\xbf"
_BLANKS = " \t"
_EXTENSION = re.compile(r"[ \t]+\|.*", re.DOTALL)

Fields = tuple[str, str, list[str | None]]  # SMILES, ID, extra columns


def clean_smiles(text: str) -> str:
    """Return `text` without blanks around it and without a CXSMILES extension.

    Examples
    --------
    >>> from daskrf.molecules.lines import clean_smiles
    >>> clean_smiles(" C[C@H](F)Cl |&1:1| ")
    'C[C@H](F)Cl'
    """
    return _EXTENSION.sub("", text.strip(_BLANKS))


def parse_lines(buffer: bytes, source: int, first_row: int, first_line: int, layout: Layout) -> RowBatch:
    """Return the rows in `buffer`, whole lines of the file number `source`, each ended by a newline.

    Parameters
    ----------
    buffer : bytes
    source : int
        Index of the file in the library.
    first_row, first_line : int
        Global number of the first row, and its line in the file counted from 1.
    layout : Layout

    Returns
    -------
    RowBatch
    """
    if first_line == 1:
        buffer = buffer.removeprefix(_BOM)
    columns = _regular(buffer, layout)
    if columns is not None:
        smiles, ids, extra = columns
        position = np.arange(len(smiles), dtype=np.int64)
        return row_batch(source, first_row, first_line, position, smiles, ids, extra, [])
    position_list: list[int] = []
    kept: list[Fields] = []
    rejects = []
    for position_in_batch, raw in enumerate(buffer.split(b"\n")[:-1]):
        fields = fields_of(raw.rstrip(b"\r"), layout)
        if isinstance(fields, str):
            text = raw[: 4 * MAX_TEXT].decode(errors="replace").rstrip("\r")[:MAX_TEXT]
            row, line = first_row + position_in_batch, first_line + position_in_batch
            rejects.append(Reject(row, source, line, text, fields))
        else:
            position_list.append(position_in_batch)
            kept.append(fields)
    extra = {key: [fields[2][k] for fields in kept] for k, (key, _) in enumerate(layout.extra)}
    smiles, ids = [fields[0] for fields in kept], [fields[1] for fields in kept]
    position = np.array(position_list, dtype=np.int64)
    return row_batch(source, first_row, first_line, position, smiles, ids, extra, rejects)


def row_batch(
    source: int,
    first_row: int,
    first_line: int,
    position: np.ndarray,
    smiles: list[str],
    ids: list[str] | None,
    extra: dict[str, list[str | None]],
    rejects: list[Reject],
) -> RowBatch:
    """Return the batch of the rows at `position` after the first one; a missing ID becomes row-<n>."""
    row = first_row + position
    if ids is None or not all(ids):
        given = ids or [""] * len(smiles)
        ids = [name or f"row-{number}" for name, number in zip(given, row.tolist(), strict=True)]
    source_index = np.full(len(position), source, dtype=np.int32)
    return RowBatch(row, first_line + position, source_index, ids, smiles, extra, rejects)


def _regular(
    buffer: bytes, layout: Layout
) -> tuple[list[str], list[str] | None, dict[str, list[str | None]]] | None:
    """Return SMILES, IDs and extra columns if nothing in `buffer` needs a second look, else None.

    Whatever comes back is what :func:`fields_of` says for each line.
    """
    if not buffer.isascii() or b"\0" in buffer:
        return None
    text = buffer.decode("ascii")
    lines = text.split("\n")
    lines.pop()
    if "\r" in text:
        lines = [line.rstrip("\r") for line in lines]
        if any("\r" in line for line in lines):
            return None
    if not lines or max(map(len, lines)) > MAX_LINE_BYTES or ('"' in text and _quotes(layout)):
        return None
    needed = [layout.smiles, *(at for _, at in layout.extra)]
    last = max([*needed, layout.id or 0])
    if layout.delimiter == " ":
        if "|" in text:
            return None
        rows = [line.split(None, last + 1) for line in lines]
    elif layout.exact:
        rows = [line.split(layout.delimiter) for line in lines]
        if set(map(len, rows)) != {layout.n_columns}:
            return None
    else:
        rows = [line.split(layout.delimiter, last + 1) for line in lines]
    name = layout.id
    if name is not None and name >= max(map(len, rows)):
        name = None  # no line has an ID
    if name is not None:
        needed.append(name)
    if min(map(len, rows)) <= max(needed):
        return None
    blanks = layout.delimiter != " " and (" " in text or (layout.delimiter != "\t" and "\t" in text))
    smiles = [row[layout.smiles] for row in rows]
    ids = None if name is None else [row[name] for row in rows]
    if blanks:
        smiles = [clean_smiles(field) for field in smiles]
        ids = ids and [field.strip(_BLANKS) for field in ids]
    if not all(smiles):
        return None
    extra: dict[str, list[str | None]] = {key: [row[at] for row in rows] for key, at in layout.extra}
    return smiles, ids, extra


def fields_of(raw: bytes, layout: Layout) -> Fields | str:
    """Return SMILES, ID ("" if missing) and extra columns of one line, or why it is rejected."""
    if len(raw) > MAX_LINE_BYTES:
        return f"longer than {MAX_LINE_BYTES:,} bytes"
    if b"\0" in raw:
        return "NUL byte in the line"
    try:
        line = raw.decode()
    except UnicodeDecodeError:
        return "not UTF-8 text"
    if "\r" in line:
        return "carriage return within the line"
    if not line.strip():
        return "empty line"
    fields = split_line(line, layout)
    if isinstance(fields, str):
        return fields
    if layout.exact and len(fields) != layout.n_columns:
        return f"{len(fields)} columns where {layout.n_columns} are expected"
    smiles = clean_smiles(fields[layout.smiles]) if layout.smiles < len(fields) else ""
    if not smiles:
        return "no SMILES"
    has_id = layout.id is not None and layout.id < len(fields)
    name = fields[layout.id].strip(_BLANKS) if has_id and layout.id is not None else ""
    return smiles, name, [fields[at] if at < len(fields) else None for _, at in layout.extra]


def split_line(line: str, layout: Layout) -> list[str] | str:
    """Return the fields of `line`, or why it has none."""
    if layout.delimiter == " ":
        return _without_extension(line.split(), layout.smiles)
    if '"' in line and _quotes(layout):
        try:
            return next(csv.reader([line], delimiter=layout.delimiter, strict=True))
        except csv.Error:
            return "unbalanced quote"
    return line.split(layout.delimiter)


def _quotes(layout: Layout) -> bool:
    """Return whether quotes have a meaning: in .csv and .tsv, not in .smi, where names may have them."""
    return layout.exact and layout.delimiter != " "


def _without_extension(words: list[str], smiles: int) -> list[str] | str:
    """Drop the words of a CXSMILES extension (it may hold blanks) that follow the SMILES."""
    begin = smiles + 1
    if len(words) <= begin or not words[begin].startswith("|"):
        return words
    if len(words[begin]) > 1 and words[begin].endswith("|"):
        return words[:begin] + words[begin + 1 :]
    for end in range(begin + 1, len(words)):
        if words[end].endswith("|"):
            return words[:begin] + words[end + 1 :]
    return "CXSMILES extension without end"
