"""Molecules that are given as words or on standard input, as files that commands read."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import IO, Any

from daskrf.errors import InputError, printable
from daskrf.molecules.isolation import each
from daskrf.storage.backend import as_list, as_path, exists, matching

__all__ = ["STDIN", "as_files"]

STDIN = "-"
"""In the place of a file: standard input."""
_SHOWN = 60  # characters of a word in a message


def as_files(
    given: Any, folder: str | os.PathLike[str], stdin: IO[bytes] | None = None
) -> list[str | os.PathLike[str]]:
    """Return files in the place of SMILES and of standard input; paths and patterns stay as they are.

    Parameters
    ----------
    given : str or path, or sequence of them
        Paths, SMILES, and ``-`` for standard input, of any format that files may have.
    folder : path
        Where SMILES and standard input are written; it need not exist.
    stdin : binary file, optional
        Standard input.

    Raises
    ------
    InputError
        A word is neither a file nor a SMILES.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [file] = as_files(["CCO", "c1ccccc1"], folder)
    ...     Path(file).read_text()
    'CCO\\nc1ccccc1\\n'
    """
    files: list[str | os.PathLike[str]] = []
    words: list[str] = []
    for item in as_list(given):
        if item == STDIN:
            with _made(folder, "stdin").open("wb") as file:
                shutil.copyfileobj(stdin or sys.stdin.buffer, file)
            files.append(Path(folder, "stdin"))
        elif isinstance(item, PurePath) or _is_there(item):
            files.append(item)
        else:
            words.append(item)
    if words:
        _check_smiles(words)
        _made(folder, "smiles.smi").write_text("".join(f"{word}\n" for word in words))
        files.append(Path(folder, "smiles.smi"))
    return files


def _made(folder: str | os.PathLike[str], name: str) -> Path:
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(folder, name)


def _is_there(text: str) -> bool:
    """Return whether a path, or a pattern, names something."""
    try:
        path = as_path(text)
        return "://" in text or (bool(text.strip()) and (exists(path) or bool(matching(path))))
    except (InputError, OSError, ValueError):
        return False


def _check_smiles(words: Sequence[str]) -> None:
    """Raise an error that names the first word that is no SMILES; a name may stand behind it."""
    first = [(word.split() or [""])[0] for word in words]
    for word, smiles, valid in zip(
        words, first, each("daskrf.molecules.counter:syntax_checker", (), first), strict=True
    ):
        if valid is not True or not smiles:
            shown = printable(word, _SHOWN)
            raise InputError(f"'{shown}' is neither a file nor a SMILES; check the path or the structure.")
