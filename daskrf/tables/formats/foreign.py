"""Recognize files that no reader here accepts by their first bytes, and reject them by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath

from daskrf.errors import InputError

_SIFTED = 1 << 16  # bytes examined
_STRAY_NULS = 64  # allowed in text: each line with one is rejected on its own
_TO_SMILES = "convert it to SMILES, with RDKit or with Open Babel (obabel IN -O OUT.smi)"
_MOL2 = (
    f"{_TO_SMILES}; scores in its comments, such as DOCK's Grid_Score, are lost in this: give them as a table"
)
_AS_TABLE = "save it as CSV or Parquet"
_UNPACK = "unpack it and give the tables in it"

# Files that begin with these bytes, and what to do with them.
_MAGIC = (
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel workbook, or another old Office file", _AS_TABLE),
    (b"ARROW1", "an Arrow (Feather) file", _AS_TABLE),
    (b"\x89HDF\r\n", "an HDF5 file", _AS_TABLE),
    (b"SQLite format 3\0", "an SQLite database", "export its table as CSV"),
    (b"\x80\x04\x95", "a Python pickle", _AS_TABLE),
    (b"%PDF-", "a PDF document", "give a table of SMILES"),
    (b"\xfd7zXZ\0", "xz-compressed", "decompress it with xz -d, or compress it with gzip, bzip2 or zstd"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
)
_BOM = b"\xef\xbb\xbf"

_PDB_LINE = re.compile(
    rb"(?:HEADER|TITLE |COMPND|SOURCE|KEYWDS|EXPDTA|AUTHOR|REVDAT|JRNL  |REMARK|SEQRES|HETNAM|CRYST1|MODEL "
    rb"|ATOM  |HETATM|CONECT|ROOT|BRANCH|TORSDOF)"
)
_JSON = re.compile(rb"\s*(?:\[\s*)*(?:\{\s*[\"}]|\[\s*[\"\[])")
_WEB = re.compile(rb"\s*<(?:!doctype html|html|head|body)\b", re.IGNORECASE)


def refuse_foreign(path: PurePath, head: bytes) -> None:
    """Raise if a file is not text, or not a table, and say what to do with it.

    Parameters
    ----------
    path : Path
        Path shown in the message.
    head : bytes
        Its first bytes, uncompressed.

    Raises
    ------
    InputError
        If the file is not text, or not a table.

    Examples
    --------
    >>> from pathlib import Path
    >>> refuse_foreign(Path("a.smi"), b"CCO ethanol\\n")
    >>> refuse_foreign(Path("a.smi"), b"PK\\x03\\x04mimetype")
    Traceback (most recent call last):
    daskrf.errors.InputError: a.smi is a zip archive; unpack it and give the tables in it.
    """
    head = head[:_SIFTED]
    text = head.removeprefix(_BOM)
    for is_one, what, advice in _KINDS:
        if is_one(text):
            raise InputError(f"{path} is {what}; {advice}.")
    for magic, what, advice in _MAGIC:
        if head.startswith(magic):
            raise InputError(f"{path} is {what}; {advice}.")
    if head.count(b"\0") > max(_STRAY_NULS, len(head) // 10):
        raise InputError(
            f"{path} is neither text nor Parquet; give SMILES as text in UTF-8, plain or compressed with "
            "gzip, bzip2 or zstd, or as Parquet."
        )


def _is_pdb(head: bytes) -> bool:
    lines = [line for line in head.split(b"\n")[:25] if line.strip()]
    return bool(lines) and 2 * sum(_PDB_LINE.match(line) is not None for line in lines) > len(lines)


_KINDS: tuple[tuple[Callable[[bytes], object], str, str], ...] = (
    (lambda head: head.startswith(b"PK\x03\x04"), "a zip archive", _UNPACK),
    (lambda head: head[257:262] == b"ustar", "a tar archive", _UNPACK),
    (lambda head: b"@<TRIPOS>MOLECULE" in head, "a MOL2 file", _MOL2),
    (_is_pdb, "a PDB file", _TO_SMILES),
    (_JSON.match, "JSON", _AS_TABLE),
    (_WEB.match, "a web page (HTML): the download has probably failed", "fetch the file again"),
    (lambda head: head.lstrip().startswith(b"<?xml"), "XML", _AS_TABLE),
)
