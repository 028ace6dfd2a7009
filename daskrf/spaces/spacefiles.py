"""Spaces in any of their file formats."""

from __future__ import annotations

import os
import zlib
from pathlib import PurePath

from daskrf.errors import InputError
from daskrf.files.backend import as_path, backend
from daskrf.files.disk import file_errors
from daskrf.spaces.reagentfolders import has_reagents, read_reagents
from daskrf.spaces.spacetables import Space, has_tables, read_tables
from daskrf.spaces.synthontables import is_synthon_table, read_synthons
from daskrf.spaces.texttable import TextTable

_HEAD = 1 << 16  # bytes that show the header of a table


def space_among(source: object) -> PurePath | None:
    """Return the path of a space if `source` is one; None if it is something else, such as SMILES files.

    Raises
    ------
    InputError
        If there are several paths, and one of them is a space.
    """
    paths = list(source) if isinstance(source, (list, tuple)) else [source]
    named = (path for path in paths if isinstance(path, (str, os.PathLike)))
    places = [path if isinstance(path, PurePath) else as_path(path) for path in named]
    spaces = [place for place in places if _holds_space(place)]
    if spaces and len(paths) > 1:
        raise InputError(f"{spaces[0]} is a space; screen one space at a time, without other inputs.")
    return spaces[0] if spaces else None


def is_space(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path holds a space: a folder of tables or of reagents, or a table of synthons."""
    return _holds_space(as_path(path))


def _holds_space(place: PurePath) -> bool:
    try:
        if (size := backend(place).size(place)) is None:
            names = backend(place).names(place)
            return has_tables(names) or has_reagents(names)
        return size > 0 and is_synthon_table(TextTable(place, _head(place)).header)
    except OSError:
        return False


def read_space(path: str | os.PathLike[str]) -> Space:
    """Read a space.

    It is one of

    - a folder of three tables, comma- or tab-separated: ``reactions`` (columns reaction, reactants, product:
      SMARTS), ``blocks`` (block, smiles) and ``slots`` (reaction, slot, block: which blocks fit which
      slot, from 0), with the ending ``.csv``, ``.tsv``, ``.csv.gz`` or ``.tsv.gz``;
    - a folder with the SMARTS of one reaction in a file ``*.smarts``, and a file ``*.smi`` of reagents for
      each slot, in the order of their names;
    - one table of synthons, with the columns SMILES, synton_id, synton# and reaction_id.

    Raises
    ------
    InputError
        If a file or a column is missing, a block or reaction is unknown or given twice, or a slot has no
        blocks.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> amide = "[N:1]([H])[*:2].[OH][C:3]=[O:4]>>[*:2][N:1][C:3]=[O:4]"
    >>> _ = (folder / "amide.smarts").write_text(amide)
    >>> _ = (folder / "1_amines.smi").write_text("CN methylamine")
    >>> _ = (folder / "2_acids.smi").write_text("CC(=O)O ethanoic_acid")
    >>> space = read_space(folder)
    >>> space.reactions[0].name, space.slots_of(0), space.blocks
    ('amide', [array([0], dtype=int32), array([1], dtype=int32)], ['methylamine', 'ethanoic_acid'])
    """
    place = as_path(path)
    with file_errors("read", place):
        size, names = backend(place).size(place), backend(place).names(place)
    if size is not None:
        header = TextTable(place, _head(place)).header
        if not is_synthon_table(header):
            raise InputError(
                f"{place} is not a space: a table of synthons has the columns SMILES, synton_id, synton# and "
                f"reaction_id, and this one has {', '.join(header) or 'none'}."
            )
        return read_synthons(place)
    if has_tables(names):
        return read_tables(place)
    if has_reagents(names):
        return read_reagents(place)
    raise InputError(
        f"{place} is not a space: it has neither a table of reactions (reactions.csv or .tsv) nor the SMARTS "
        "of one reaction (*.smarts)."
    )


def _head(path: PurePath) -> bytes:
    """Return the beginning of a file, uncompressed."""
    data = backend(path).read(path, most=_HEAD)
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return zlib.decompressobj(wbits=31).decompress(data)
    except zlib.error:
        return b""
