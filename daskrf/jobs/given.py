"""What is given in the place of files: tables and molecules in memory, SMILES, and standard input."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import IO, Any

import pyarrow as pa

from daskrf.errors import InputError, printable
from daskrf.molecules.frames import is_molecule, is_table, molecule_table, table_of
from daskrf.molecules.isolation import each
from daskrf.parameters import parameters_of
from daskrf.storage.backend import (
    absent_parents,
    as_path,
    backend,
    exists,
    matching,
    remove_empty,
    remove_quietly,
)
from daskrf.storage.files import private_folder
from daskrf.storage.rowstore import write_parquet

__all__ = ["STDIN", "Data", "as_files", "taking_data"]

Data = str | os.PathLike[str] | Any
"""A path, or data in its place: a table or molecules; see `as_files`."""

STDIN = "-"
"""In the place of a file: standard input."""

_DATA = ("inputs", "source", "labels", "exclude", "actives", "hits")  # parameters of commands that are tables
_LOOKED_AT = 100  # words of a longer list that are looked at as paths
_SHOWN = 60  # characters of a word in a message
_LIKE_A_FILE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,9}$")


def taking_data(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes tables and molecules in memory, SMILES and standard input, too.

    They are written to a folder beside the output, where all workers can read them, under names that depend
    on their content, so that the same call goes on with an interrupted job. The folder is deleted at the end.

    Parameters
    ----------
    function : callable
        A command. Its parameters inputs, source, labels, exclude, actives and hits take data.
    """
    taking = [each for each in parameters_of(function) if each.is_path and each.name in _DATA]
    signature = inspect.signature(function)

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        given = bound.arguments
        data = [each for each in taking if not _is_path(given.get(each.name))]
        if not data:
            return function(*arguments, **named)
        keep = bool(given.get("prepare")) or given.get("shard") is not None  # other shards read it, too
        with _folder(given.get("output"), keep) as folder:
            for each in data:
                files = as_files(given[each.name], folder, what=each.name)
                given[each.name] = files if each.repeated and len(files) != 1 else _only(files, each.name)
            return function(*bound.args, **bound.kwargs)

    return called


def as_files(
    given: Any,
    folder: str | os.PathLike[str],
    stdin: IO[bytes] | None = None,
    what: str = "source",
) -> list[Any]:
    """Return files in the place of data; paths and patterns stay as they are.

    Parameters
    ----------
    given : object, or sequence of them
        Paths; ``-`` for standard input, of any format that files may have; tables: see
        `daskrf.molecules.frames.table_of`; SMILES; and molecules of RDKit.
    folder : path
        Where data are written; it need not exist.
    stdin : binary file, optional
        Standard input.
    what : str
        Name of the argument, for messages.

    Raises
    ------
    InputError
        An object is none of these, or a word is neither a file nor a SMILES.

    Examples
    --------
    >>> import pyarrow.parquet as pq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [file] = as_files(["CCO", "c1ccccc1"], folder)
    ...     pq.read_table(file).to_pydict()
    {'smiles': ['CCO', 'c1ccccc1']}
    """
    items = _items(given, what)
    words = [item for item in items if isinstance(item, str) and item != STDIN]
    looked_at = words[:_LOOKED_AT]
    paths = {word for word in looked_at if _is_there(word)}
    if len(words) > _LOOKED_AT and len(paths) > len(looked_at) // 2:  # a long list of files
        paths = {word for word in words if _is_there(word)}
    smiles = [word for word in words if word not in paths]
    _check_smiles(smiles)
    files: list[Any] = []
    molecules: list[Any] = []
    place = as_path(folder)
    for item in items:
        if isinstance(item, str) and item == STDIN:
            files.append(_from_stdin(place, stdin or sys.stdin.buffer))
        elif isinstance(item, os.PathLike) or (isinstance(item, str) and item in paths):
            files.append(item)
        elif is_table(item):
            files.append(_written(table_of(item), place, "table"))
        else:
            molecules.append(item)
    if molecules:
        what = "SMILES" if all(isinstance(each, str) for each in molecules) else "molecules"
        files.append(_written(molecule_table(molecules), place, f"{what}-{len(molecules)}"))
    return files


def _is_path(given: Any) -> bool:
    """Return whether an argument is left as it is: none, or paths, which may not exist if they are one."""
    if given is None or isinstance(given, os.PathLike):
        return True
    if isinstance(given, str):
        return given != STDIN and (_is_there(given) or not _are_smiles([given])[0])
    return isinstance(given, (list, tuple)) and all(map(_is_there, given))


def _items(given: Any, what: str) -> list[Any]:
    """Return what is given as a list of paths, tables and molecules."""
    if _is_item(given):
        return [given]
    listed = next((own for name in ("tolist", "to_pylist") if (own := getattr(given, name, None))), None)
    if listed is None and not isinstance(given, Iterable):
        raise InputError(_refusal(given, what))
    items = list(given) if listed is None else listed()
    if not isinstance(items, list):
        raise InputError(_refusal(given, what))
    for item in items:
        # A molecule that could not be read is None, or NaN in a column of pandas.
        if not (_is_item(item) or item is None or isinstance(item, float)):
            raise InputError(_refusal(item, f"an element of {what}"))
    if not items:
        raise InputError(f"{what} is empty; give at least one molecule or file.")
    return items


def _is_item(given: Any) -> bool:
    return isinstance(given, (str, os.PathLike)) or is_molecule(given) or is_table(given)


def _refusal(given: Any, what: str) -> str:
    return (
        f"{what} must be a path, a DataFrame, or a list of SMILES or of RDKit molecules, not "
        f"{type(given).__name__}."
    )


def _is_there(given: Any) -> bool:
    """Return whether a path, or a pattern, names something."""
    if isinstance(given, os.PathLike):
        return True
    if not isinstance(given, str) or given == STDIN:
        return False
    try:
        return "://" in given or exists(as_path(given)) or bool(matching(as_path(given)))
    except (InputError, OSError, ValueError):
        return False


def _are_smiles(words: Sequence[str]) -> list[bool]:
    """Return whether each word is a SMILES; a name may stand behind it."""
    first = [(word.split() or [""])[0] for word in words]
    valid = each("daskrf.molecules.counter:syntax_checker", (), first)
    return [bool(text) and found is True for text, found in zip(first, valid, strict=True)]


def _check_smiles(words: Sequence[str]) -> None:
    """Refuse a word that is neither a file nor a SMILES, if most are none, or it ends as files do.

    A wrong SMILES among many is a rejected row, as in a file.
    """
    valid = _are_smiles(words)
    bad = [word for word, good in zip(words, valid, strict=True) if not good]
    wrong = next((word for word in bad if _LIKE_A_FILE.search(word) or 2 * len(bad) > len(words)), None)
    if wrong is not None:
        raise InputError(
            f"'{printable(wrong, _SHOWN)}' does not exist, and is no SMILES; check the path or the structure."
        )


@contextmanager
def _folder(output: Any, keep: bool) -> Iterator[PurePath]:
    """Yield the folder for the data of a command, beside its output, and delete it at the end."""
    if not isinstance(output, (str, os.PathLike)):  # none, or one that the command refuses
        with tempfile.TemporaryDirectory(prefix="daskrf-", suffix=".given") as temporary:
            yield Path(temporary)
        return
    path = as_path(output)
    folder = path.parent / f".{path.name}.given"
    absent = absent_parents(folder)
    try:
        yield folder
    finally:
        if not keep:
            remove_quietly(folder)
            remove_empty(absent)


def _only(files: list[Any], what: str) -> Any:
    """Return the only file."""
    if len(files) != 1:
        raise InputError(f"{what} must be one file or table, not {len(files)}.")
    return files[0]


def _written(table: pa.Table, folder: PurePath, name: str) -> PurePath:
    """Return the path of a table that is written as Parquet, which depends on its content."""
    with tempfile.TemporaryDirectory(prefix="daskrf-") as temporary:
        file = Path(temporary, "table")
        write_parquet(table, file)
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        return _moved(file, folder / f"{name}-{digest[:12]}.parquet")


def _from_stdin(folder: PurePath, stdin: IO[bytes]) -> PurePath:
    """Return the path of a file with the content of standard input, which its name depends on."""
    backend(folder).make(folder)
    own = folder if backend(folder).is_local else private_folder()
    with tempfile.NamedTemporaryFile(dir=own, prefix=".stdin-") as file:
        shutil.copyfileobj(stdin, file, 1 << 20)
        file.flush()
        with open(file.name, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        if not file.tell():
            raise InputError("standard input is empty; pipe a table or SMILES into the command.")
        return _moved(Path(file.name), folder / f"stdin-{digest[:12]}")


def _moved(file: Path, path: PurePath) -> PurePath:
    """Return the path where a copy of a file is now; one that is there is the same."""
    if not exists(path):
        backend(path).make(path.parent)
        with backend(path).writing(path) as staged:
            shutil.copyfile(file, staged)
    return path
