"""Data given in place of files: tables and molecules in memory, SMILES, and standard input."""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import os
import re
import shutil
import sys
import tempfile
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any

import numpy as np
import pyarrow as pa

from daskrf.errors import DaskrfError, InputError, printable
from daskrf.files.backend import (
    absent_parents,
    absolute,
    as_path,
    backend,
    exists,
    is_file,
    matching,
    remove_empty,
    remove_quietly,
)
from daskrf.files.disk import file_errors, private_folder
from daskrf.jobs.shards import current_share
from daskrf.molecules.isolation import each
from daskrf.parameters import OUTPUTS, TABLES, parameters_of
from daskrf.storage.hits import rejects_of
from daskrf.storage.kinds import kind_of
from daskrf.storage.stores.rowstore import write_parquet
from daskrf.storage.tablefiles import write_molecules
from daskrf.tables import given_words, lay_out, read_partition, scan_files
from daskrf.tables.frames import (
    NOT_ARROW,
    InputIndex,
    index_of,
    is_molecule,
    is_partitioned,
    is_table,
    molecule_table,
    table_of,
)
from daskrf.tables.posefiles import pose_tables

Data = str | os.PathLike[str] | Any
"""A path, or data in its place: a table or molecules; see `as_files`."""

STDIN = "-"
"""Stands for standard input in place of a file."""

_LABELS = ("labels", "hits")  # tables that have other columns besides structures
_LOOKED_AT = 100  # words of a longer list that are looked at as paths
_SHOWN = 60  # characters of a word in a message
_LIKE_A_NAME = re.compile(r"[^\W\d_][\w' -]*")
_LIKE_A_FILE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,9}$")


def taking_data(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function that also takes tables and molecules in memory, SMILES and standard input.

    These data are written to a folder beside the output, where all workers can read them. File names depend
    on the content, so repeating the call resumes an interrupted job. The folder is deleted at the end.

    An output that is also an input is refused.

    Parameters
    ----------
    function : callable
        A command. Its parameters inputs, source, labels, exclude, actives and hits take data.
    """
    paths = [each for each in parameters_of(function) if each.is_path]
    taking = [each for each in paths if each.name in TABLES]
    signature = inspect.signature(function)

    @functools.wraps(function)
    def called(*arguments: object, **named: object) -> Any:
        bound = signature.bind(*arguments, **named)
        values = bound.arguments
        _check_outputs({each.name: values[each.name] for each in paths if values.get(each.name) is not None})
        rows = "source" if values.get("labels") is None else "labels"
        poses = _pose_files(values.get(rows)) if "labels" in signature.parameters else []
        data = [each for each in taking if not _is_path(values.get(each.name), each.name)]
        data = [each for each in data if not (poses and each.name == rows)]
        if not data and not poses:
            return function(*arguments, **named)
        keep = not current_share().whole  # other shards read it, too
        if (
            "every_row" in signature.parameters
            and values.get("every_row") is None
            and not poses
            and not _is_stdin(values[rows])
        ):
            values["every_row"] = True
            values.setdefault("accept_rejects", True)  # each row says what is wrong with it
        # The rows of an evaluation are those of a library, unless each row of the labels is asked for.
        in_order = "labels" not in signature.parameters or bool(values.get("every_row"))
        with _folder(values.get("output"), keep) as folder:
            index = None
            if poses:
                values[rows] = _written_poses(poses, folder)
            for each in data:
                shown = each.name == rows and _is_of_input(function) and in_order
                carried = shown and "labels" not in signature.parameters  # it would look like a label
                parts = _data_files(values[each.name], folder, what=each.name, carried=carried)
                index = _index(parts) if shown else index
                files = [item.file for item in parts]
                values[each.name] = files if each.repeated and len(files) != 1 else _only(files, each.name)
            with _in_words(folder):
                report = function(*bound.args, **bound.kwargs)
            return report if index is None else _indexed(report, index)

    return called


def as_files(
    data: Any,
    folder: str | os.PathLike[str],
    stdin: IO[bytes] | None = None,
    what: str = "source",
) -> list[object]:
    """Write data to files and return their paths; paths and patterns stay as they are.

    Parameters
    ----------
    given : object, or sequence of them
        Paths; ``-`` for standard input, of any format that files may have; tables: see
        `daskrf.tables.frames.table_of`; SMILES; and molecules of RDKit.
    folder : path
        Folder to write data to; it need not exist.
    stdin : binary file, optional
        Standard input.
    what : str
        Name of the argument, for messages.

    Raises
    ------
    InputError
        An object is of another kind, or a word is neither a file nor a SMILES.

    Examples
    --------
    >>> import pyarrow.parquet as pq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [file] = as_files(["CCO", "c1ccccc1"], folder)
    ...     pq.read_table(file).to_pydict()
    {'smiles': ['CCO', 'c1ccccc1']}
    """
    return [each.file for each in _data_files(data, folder, stdin, what)]


def molecules_given(data: Any) -> tuple[list[str], list[str | None]]:
    """Return the SMILES of data in memory, and for each row the reason why it has none, or None.

    Data are read as by commands, but texts are never paths.

    Raises
    ------
    InputError
        An object is none of those that `as_files` takes, or a table has no column of SMILES.

    Examples
    --------
    >>> molecules_given(["CCO ethanol", None, "c1ccccc1"])
    (['CCO', '', 'c1ccccc1'], [None, 'no SMILES', None])
    """
    items = _items(data, "X") if not isinstance(data, list) or data else []
    if path := next((item for item in items if isinstance(item, os.PathLike)), None):
        raise InputError(f"Give molecules, not the file {path}; `daskrf.predict` reads files.")
    if not any(is_table(item) or index_of(item) is not None for item in items):
        items = [molecule_table(items)]
    with _folder(None, False) as folder:
        files = [each.file for each in _data_files(items, folder)]
        library = scan_files(lay_out(files), empty_ok=True)
        smiles, reasons = [""] * library.n_rows, dict[int, str]()
        for partition in range(len(library.partitions)):
            for batch in read_partition(library, partition):
                for row, text in zip(batch.row.tolist(), batch.smiles, strict=True):
                    smiles[row] = text
                reasons |= {reject.row: reject.reason for reject in batch.rejects}
    return smiles, [reasons.get(row) for row in range(len(smiles))]


@dataclass(frozen=True)
class _DataFile:
    """A file of given data, and the index of its rows if they come from pandas."""

    file: Any
    n_rows: int | None = None
    index: InputIndex | None = None


def _data_files(
    data: Any, folder: Any, stdin: IO[bytes] | None = None, what: str = "source", *, carried: bool = False
) -> list[_DataFile]:
    """Return given data as files, in order; with `carried`, the index of the rows becomes a column."""
    items = _items(data, what)
    words = [item for item in items if isinstance(item, str) and item != STDIN]
    looked_at = words[:_LOOKED_AT]
    paths = {word for word in looked_at if _is_there(word)}
    if len(words) > _LOOKED_AT and len(paths) > len(looked_at) // 2:  # a long list of files
        paths = {word for word in words if _is_there(word)}
    _check_smiles([word for word in words if word not in paths])
    parts: list[_DataFile] = []
    place = as_path(folder)
    for kind, group in itertools.groupby(items, key=functools.partial(_kind, paths=paths)):
        if kind == "molecules":
            molecules = list(group)
            parts.append(_written(molecule_table(molecules), _name_of(molecules), place, parts))
            continue
        for item in group:
            if kind == "stdin":
                parts.append(_DataFile(_from_stdin(place, stdin or sys.stdin.buffer)))
            elif kind == "path":
                parts.append(_DataFile(item))
            elif kind == "partitions":
                parts.append(_written_by_partition(item, place, parts, carried=carried))
            else:
                table = table_of(item) if kind == "table" else molecule_table(item)
                name = "table" if kind == "table" else _name_of(item)
                labels = index_of(item)
                index = None if labels is None else InputIndex.of(labels, table.column_names)
                parts.append(_written(table, name, place, parts, index, carried=carried))
    return parts


def _kind(item: Any, paths: set[str]) -> str:
    """Return the kind of an item: standard input, path, table, partitions, series, or one of molecules."""
    if isinstance(item, str) and item == STDIN:
        return "stdin"
    if isinstance(item, os.PathLike) or (isinstance(item, str) and item in paths):
        return "path"
    if is_partitioned(item):
        return "partitions"
    if is_table(item):
        return "table"
    return "molecules" if index_of(item) is None else "series"


def _name_of(molecules: Any) -> str:
    what = "SMILES" if all(isinstance(each, str) for each in molecules) else "molecules"
    return f"{what}-{len(molecules)}"


def _index(parts: Sequence[_DataFile]) -> InputIndex | None:
    """Return the index of all rows; None if no part has one.

    Raises
    ------
    InputError
        There are indices, but not of all rows, or of several kinds.
    """
    indices = [each.index for each in parts if each.index is not None]
    levels = {each.index.labels.nlevels if each.index else 1 for each in parts}
    if not indices:
        return None
    plain = type(indices[0].labels[:0].to_series().reset_index(drop=True).index)  # RangeIndex
    if len(levels) > 1 or any(each.n_rows is None for each in parts):
        if all(each.labels.equals(plain(len(each.labels))) for each in indices):
            return None  # it numbers the rows, as the column row does
        others = "files" if len(levels) == 1 else "data with an index of another number of levels"
        raise InputError(
            f"A DataFrame with an index and {others} are given together, so that their rows have no common "
            "index; give them one by one, or call reset_index() first."
        )
    labels = [each.index.labels if each.index else plain(each.n_rows or 0) for each in parts]
    return InputIndex(functools.reduce(lambda one, other: one.append(other), labels), indices[0].names)


def _indexed(report: object, index: InputIndex) -> object:
    """Return a report with an index, if it has rows."""
    return report.with_index(index) if hasattr(report, "with_index") else report


def _is_of_input(function: Callable[..., object]) -> bool:
    """Return whether the report of a command has rows of its input."""
    made = typing.get_type_hints(function)["return"]
    return any(hasattr(kind, "with_index") for kind in (made, *typing.get_args(made)))


def _is_stdin(source: Any) -> bool:
    items = source if isinstance(source, (list, tuple)) else [source]
    return any(isinstance(each, str) and each == STDIN for each in items)


def is_given(paths: Sequence[PurePath]) -> bool:
    """Return whether files were written for data in memory, and not for standard input."""
    return all(given_words(path) not in ("", "standard input") for path in paths)


def _check_outputs(arguments: dict[str, Any]) -> None:
    """Refuse an output that is one of the inputs."""
    outputs = [
        as_path(arguments[name]) for name in OUTPUTS if isinstance(arguments.get(name), (str, os.PathLike))
    ]
    for output in outputs:
        for written in (output, rejects_of(output)):
            with file_errors("write", written):
                there = is_file(written)
            if not there:
                continue
            for name, value in arguments.items():
                if name not in OUTPUTS and any(_names(each, written) for each in _listed(value)):
                    raise InputError(
                        f"{written} is an input ({name}), and would be replaced; give another output path."
                    )


def _listed(data: Any) -> list[Any]:
    """Return the paths and patterns in the value of a parameter."""
    items = [data] if isinstance(data, (str, os.PathLike)) else data
    if not isinstance(items, (list, tuple)):
        return []
    return [each for each in items if isinstance(each, (str, os.PathLike)) and each != STDIN]


def _names(name: str | os.PathLike[str], file: PurePath) -> bool:
    """Return whether a path or a pattern names a given file."""
    with suppress(InputError, OSError, ValueError):
        path = as_path(name)
        if is_file(path):
            return absolute(path) == absolute(file) or _is_linked(path, file)
        return any(absolute(each) == absolute(file) for each in matching(path))
    return False


def _is_linked(one: PurePath, other: PurePath) -> bool:
    """Return whether two names refer to the same local file."""
    return backend(one).is_local and backend(other).is_local and os.path.samefile(one, other)


def _is_path(data: Any, what: str) -> bool:
    """Return whether an argument is left as it is: None, one path that may not exist, or existing paths."""
    if data is None or isinstance(data, os.PathLike):
        return True
    if isinstance(data, str):
        named = what not in _LABELS and _LIKE_A_NAME.fullmatch(data.strip())
        return data != STDIN and (_is_there(data) or not (named or _are_smiles([data])[0]))
    return isinstance(data, (list, tuple)) and all(map(_is_there, data))


def _items(data: Any, what: str) -> list[Any]:
    """Return an argument as a list of paths, tables and molecules."""
    if _is_item(data):
        return [data]
    listed = next((method for name in ("tolist", "to_pylist") if (method := getattr(data, name, None))), None)
    if listed is None and not isinstance(data, Iterable):
        raise InputError(_refusal(data, what))
    items = list(data) if listed is None else listed()
    if not isinstance(items, list):
        raise InputError(_refusal(data, what))
    for item in items:
        # A molecule that could not be read is None, or NaN or NA in a column of pandas.
        if not (_is_item(item) or isinstance(item, float) or type(item).__name__ in ("NoneType", "NAType")):
            raise InputError(_refusal(item, f"an element of {what}"))
    if not items:
        raise InputError(f"{what} is empty; give at least one molecule or file.")
    return items


def _is_item(data: Any) -> bool:
    is_file_or_molecule = isinstance(data, (str, os.PathLike)) or is_molecule(data) or is_table(data)
    return is_file_or_molecule or index_of(data) is not None or is_partitioned(data)


def _refusal(data: Any, what: str) -> str:
    return (
        f"{what} must be a path, a DataFrame, or a list of SMILES or of RDKit molecules, not "
        f"{type(data).__name__}."
    )


def _is_there(data: Any) -> bool:
    """Return whether a path, or a pattern, names something."""
    if isinstance(data, os.PathLike):
        return True
    if not isinstance(data, str) or data == STDIN:
        return False
    try:
        return "://" in data or exists(as_path(data)) or bool(matching(as_path(data)))
    except (InputError, OSError, ValueError):
        return False


def _are_smiles(words: Sequence[str]) -> list[bool]:
    """Return whether each word is a SMILES, with or without a name after it."""
    first = [(word.split() or [""])[0] for word in words]
    valid = each("daskrf.molecules.counts.counter:syntax_checker", (), first)
    return [bool(text) and is_smiles is True for text, is_smiles in zip(first, valid, strict=True)]


def _check_smiles(words: Sequence[str]) -> None:
    """Refuse a word that is neither a file nor a SMILES if it ends like a file name or most words are wrong.

    A wrong SMILES among many is a rejected row, as in a file.
    """
    words = [word for word in words if word.strip()] or words  # an empty cell is no word
    valid = _are_smiles(words)
    bad = [word for word, good in zip(words, valid, strict=True) if not good]
    wrong = next((word for word in bad if _LIKE_A_FILE.search(word) or 2 * len(bad) > len(words)), None)
    if wrong is not None:
        shown = f"'{printable(wrong, _SHOWN)}'"
        if _LIKE_A_NAME.fullmatch(wrong.strip()):
            raise InputError(
                f"{shown} is neither a file nor a SMILES; names of molecules are not looked up, so give the "
                "structure, or check the path."
            )
        raise InputError(f"{shown} does not exist and is not a SMILES; check the path or the structure.")


@contextmanager
def _folder(output: object, keep: bool) -> Iterator[PurePath]:
    """Yield the folder for the data of a command, beside its output, and delete it at the end."""
    if not isinstance(output, (str, os.PathLike)):  # no output, or one that the command will refuse
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


@contextmanager
def _in_words(folder: PurePath) -> Iterator[None]:
    """In error messages, name given data in words instead of the files that were written for them."""
    try:
        yield
    except DaskrfError as error:
        if error.args:
            error.args = (_without_files(str(error.args[0]), folder), *error.args[1:])
        raise


def _without_files(text: str, folder: PurePath) -> str:
    """Return a message with words in place of the files in the folder of data."""
    places = sorted({str(folder), absolute(folder)}, key=len, reverse=True)
    for place in places:
        file = re.compile(rf"{re.escape(place)}/((?:\d+\.given/)?[\w ]+-[\w-]+(?:\.parquet)?)")
        text = file.sub(lambda match: given_words(f"{folder}/{match[1]}") or match[0], text)
    return f"{text[:1].upper()}{text[1:]}" if text.startswith("the ") else text


def _only(files: list[Any], what: str) -> object:
    """Return the only file."""
    if len(files) != 1:
        raise InputError(f"{what} must be one file or table, not {len(files)}.")
    return files[0]


def _written(
    table: pa.Table,
    name: str,
    folder: PurePath,
    parts: Sequence[_DataFile],
    index: InputIndex | None = None,
    *,
    carried: bool = False,
) -> _DataFile:
    """Write a table as Parquet, under a name that depends on its content and is not among `parts`."""
    n_rows = table.num_rows
    if index is not None and carried:
        for level, values in index.columns(np.arange(n_rows)).items():
            table = table.append_column(level, values)
    with tempfile.TemporaryDirectory(prefix="daskrf-") as temporary:
        file = Path(temporary, "table")
        write_parquet(table, file)
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        path = folder / f"{name}-{digest[:12]}.parquet"
        if any(each.file == path for each in parts):  # the same data twice
            path = folder / f"{len(parts)}.given" / path.name
        return _DataFile(_moved(file, path), n_rows, index)


def _written_by_partition(
    data: Any, folder: PurePath, parts: Sequence[_DataFile], *, carried: bool
) -> _DataFile:
    """Write a DataFrame or Series of Dask as one Parquet file; one partition at a time is in memory."""
    labels: list[Any] = []

    def tables() -> Iterator[pa.Table]:
        schema: pa.Schema | None = None
        for number in range(data.npartitions):
            rows = data.partitions[number].compute()
            is_frame = is_table(rows)
            table = table_of(rows) if is_frame else molecule_table(rows)
            labels.append(rows.index)
            if carried:
                index = InputIndex.of(rows.index, table.column_names)
                for level, values in index.columns(np.arange(len(rows))).items():
                    table = table.append_column(level, values)
            if schema is None:
                schema, empty = table.schema, table.slice(0, 0)
            elif not len(rows):
                table = empty
            try:
                yield table.select(schema.names).cast(schema)
            except NOT_ARROW as error:
                raise InputError(
                    f"partition {number} of a {type(data).__name__} has other types than the first "
                    f"({str(error).strip(chr(39))}); make them alike, for example by astype."
                ) from None

    with tempfile.TemporaryDirectory(prefix="daskrf-") as temporary:
        file = Path(temporary, "table.parquet")
        write_molecules(tables(), file)
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        path = folder / f"table-{digest[:12]}.parquet"
        if any(each.file == path for each in parts):
            path = folder / f"{len(parts)}.given" / path.name
        every = functools.reduce(lambda one, other: one.append(other), labels)
        names = list(data.columns) if is_table(data) else ["smiles"]
        return _DataFile(_moved(file, path), len(every), InputIndex.of(every, names))


def _pose_files(data: Any) -> list[PurePath]:
    """Return the files of labels in a folder, behind a pattern or in a list; none if the labels are one file.

    A folder that holds a store or a model is none of files.
    """
    items = data if isinstance(data, (list, tuple)) else [data]
    if not items or not all(isinstance(each, (str, os.PathLike)) and _is_there(each) for each in items):
        return []
    files: list[PurePath] = []
    for item in items:
        path = as_path(item)
        if is_file(path):
            files.append(path)
        elif "://" in str(item) or (exists(path) and kind_of(path, missing_ok=True) is not None):
            return []
        else:
            files += matching(path)
    return [] if len(files) == 1 and files[0] == as_path(items[0]) else files


def _written_poses(files: Sequence[PurePath], folder: PurePath) -> PurePath:
    """Write the poses in files as one Parquet file, under a name that says what they are."""
    with tempfile.TemporaryDirectory(prefix="daskrf-") as temporary:
        file = Path(temporary, "table.parquet")
        write_molecules(pose_tables(files), file)
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        name = f"files of poses-{len(files)}-{digest[:12]}.parquet"
        return _moved(file, folder / name)


def _from_stdin(folder: PurePath, stdin: IO[bytes]) -> PurePath:
    """Write standard input to a file, whose name depends on the content, and return its path."""
    backend(folder).make(folder)
    scratch = folder if backend(folder).is_local else private_folder()
    with tempfile.NamedTemporaryFile(dir=scratch, prefix=".stdin-") as file:
        shutil.copyfileobj(stdin, file, 1 << 20)
        file.flush()
        with open(file.name, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        if not file.tell():
            raise InputError("standard input is empty; pipe a table or SMILES into the command.")
        return _moved(Path(file.name), folder / f"stdin-{digest[:12]}")


def _moved(file: Path, path: PurePath) -> PurePath:
    """Copy a file to a path and return the path; a file already there has the same content."""
    if not exists(path):
        backend(path).make(path.parent)
        with backend(path).writing(path) as staged:
            shutil.copyfile(file, staged)
    return path
