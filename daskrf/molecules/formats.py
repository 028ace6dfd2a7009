"""Which files, and how a table in them is laid out."""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Iterable
from pathlib import Path

from daskrf.errors import InputError
from daskrf.paths import ObjectPath, as_list, as_path

__all__ = ["Column", "TableFormat", "delimiter_of", "expand"]

Column = str | int

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_COMPRESSED = (".gz", ".bz2", ".zst")


@dataclasses.dataclass(frozen=True)
class TableFormat:
    """How to read the rows of the input files; everything that is None is found out for each file.

    Parameters
    ----------
    smiles, id : str or int, optional
        Column by name (then the file, or an earlier one of the same layout, needs a header) or by position
        from 0.
    extra : sequence of str or int
        Further columns to keep, as text.
    header : bool, optional
        Whether the first line holds the names of the columns.
    delimiter : str, optional
        One character, or " " for any white space; by default the one of comma, semicolon, tab and white space
        by which most of the first lines have a valid SMILES. The ending of the file is only a hint, where
        several do equally well: comma for .csv, tab for .tsv, and for all others tab if the first lines have
        tabs, else white space.

    Raises
    ------
    InputError
        If a column or the delimiter cannot be one.

    Examples
    --------
    >>> from daskrf.molecules import TableFormat
    >>> TableFormat(smiles=1, id=0)
    TableFormat(smiles=1, id=0, extra=(), header=None, delimiter=None)
    """

    smiles: Column | None = None
    id: Column | None = None
    extra: tuple[Column, ...] = ()
    header: bool | None = None
    delimiter: str | None = None

    def __post_init__(self) -> None:
        extra = (self.extra,) if isinstance(self.extra, (str, int)) else tuple(self.extra)
        object.__setattr__(self, "extra", extra)
        for column in (self.smiles, self.id, *extra):
            is_position = isinstance(column, int) and not isinstance(column, bool) and column >= 0
            if not (column is None or is_position or (isinstance(column, str) and column)):
                raise InputError(f"column {column!r} must be a name, or a position counted from 0.")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '\n\r"'):
            raise InputError(
                f"delimiter {self.delimiter!r} must be one character other than a quote or line end."
            )
        if self.header is False and any(isinstance(column, str) for column in (self.smiles, self.id, *extra)):
            raise InputError("columns can be named only if there is a header; give their positions instead.")

    def state(self) -> dict[str, object]:
        """Return the parameters as a dict for JSON."""
        return {**dataclasses.asdict(self), "extra": list(self.extra)}

    @classmethod
    def from_state(cls, state: dict[str, object]) -> TableFormat:
        """Return the format that :meth:`state` described."""
        return cls(**{**state, "extra": tuple(state["extra"])})  # type: ignore[arg-type]


def expand(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the files that `paths` and glob patterns name: in the order given, sorted within a pattern.

    Raises
    ------
    InputError
        If a path does not exist, is a directory, or is given twice, or a pattern matches nothing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from daskrf.molecules import expand
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.smi", "a.smi"):
    ...         _ = pathlib.Path(folder, name).write_text("CCO\\n")
    ...     [path.name for path in expand(folder + "/*.smi")]
    ['a.smi', 'b.smi']
    """
    given = as_list(paths)
    if not given:
        raise InputError("no input files are given; name at least one file or pattern.")
    found: dict[Path, None] = {}
    for item in given:
        for path in _matches(item):
            as_path(path)  # refuses a name that no store could hold
            if path in found:
                raise InputError(f"{path} is given twice; its rows would be counted twice, so name it once.")
            found[path] = None
    return list(found)


def _matches(given: str | os.PathLike[str]) -> list[Path]:
    """Return the absolute paths of the files, or the objects, that a path or a pattern names."""
    path = as_path(given)
    if isinstance(path, ObjectPath):
        return _matching_objects(path)
    pattern = os.path.expanduser(path)
    path = Path(os.path.abspath(pattern))
    if path.is_dir():
        raise InputError(f"{pattern} is a directory; name its files, for example '{pattern}/*.smi'.")
    if path.exists():  # a file may have brackets in its name
        return [path]
    if not glob.has_magic(pattern):
        raise InputError(f"{pattern} does not exist; check the path.")
    files = [Path(os.path.abspath(name)) for name in sorted(glob.glob(pattern, recursive=True))]
    files = [file for file in files if not file.is_dir()]
    if not files:
        raise InputError(f"no file matches {pattern!r}; check the pattern, and quote it in the shell.")
    return files


def _matching_objects(path: ObjectPath) -> list[Path]:
    """Return the objects that a URL or a pattern names; ``**`` as a whole part stands for any parts."""
    try:
        if path.is_file():  # an object may have brackets in its name
            return [as_path(str(path))]
        if not glob.has_magic(path.key):
            what = "is no object but objects are below it" if path.is_dir() else "does not exist"
            raise InputError(f"{path} {what}; name its objects, for example '{path}/*.smi'.")
        files = path.matching()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    if not files:
        raise InputError(f"no object matches '{path}'; check the pattern, and quote it in the shell.")
    return files


def _suffix(path: Path) -> str:
    """Return the ending that tells the format, lower case, without that of the compression."""
    name = path.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return Path(name).suffix


def delimiter_of(path: Path, fmt: TableFormat) -> str:
    """Return the usual delimiter of a text file: a character, " " for white space, or "auto" for tab or that.

    The one that `fmt` gives, or else what the ending of the name tells, which the content may gainsay.
    """
    return fmt.delimiter or _DELIMITERS.get(_suffix(path), "auto")
