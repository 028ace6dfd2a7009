"""Tables of molecules as files: CSV, Parquet, SD files, SMILES and Excel workbooks, by their ending."""

from __future__ import annotations

import gzip
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from daskrf.errors import OptionError
from daskrf.molecules.molblocks import mol_blocks
from daskrf.storage.stores.rowstore import LEVEL
from daskrf.tables.spreadsheets import harmless
from daskrf.tables.workbooks import check_workbook, write_workbook

PARQUET, WORKBOOK = ".parquet", ".xlsx"
_GZIP = ".gz"
_ROWS = 2_000  # written at once
_SPECIAL = re.compile(r'[",\r\n]')

Tables = Iterable[pa.Table]


def ending_of(path: PurePath) -> str:
    """Return the ending of a path that gives the format of a table, without ``.gz``; empty if it is unknown.

    Examples
    --------
    >>> from pathlib import Path
    >>> ending_of(Path("hits.SDF.gz")), ending_of(Path("hits.parquet")), ending_of(Path("hits.v2"))
    ('.sdf', '.parquet', '')
    """
    name = path.name.lower()
    plain = name.removesuffix(_GZIP)
    ending = PurePath(plain).suffix
    is_known = ending in ENDINGS and not (ending in (PARQUET, WORKBOOK) and plain != name)
    return ending if is_known else ""


def holds_any_rows(path: PurePath) -> bool:
    """Return whether the format of a table, by its ending, holds rows without a molecule, too.

    Examples
    --------
    >>> from pathlib import Path
    >>> holds_any_rows(Path("batch.xlsx")), holds_any_rows(Path("batch.sdf"))
    (True, False)
    """
    return ending_of(path) in (".csv", PARQUET, WORKBOOK)


def check_ending(path: PurePath, others: Iterable[str] = (), n_rows: int = 0) -> None:
    """Raise an error if a table of molecules cannot be written to `path`.

    Parameters
    ----------
    path : Path
    others : iterable of str
        Further endings that are accepted.
    n_rows : int
        Number of molecules: a sheet of Excel holds some million.

    Raises
    ------
    OptionError
        Names the known endings; or a workbook cannot be written, and the message says why.
    """
    if ending_of(path) == WORKBOOK:
        check_workbook(path, n_rows)
    if ending_of(path) or path.suffix.lower() in others:
        return
    *names, last = [*ENDINGS, *others]
    raise OptionError(
        f"The ending of {path} does not say how to write a table of molecules; give it one of "
        f"{', '.join(names)} and {last}, for example {path.parent / f'{path.stem}.csv'}."
    )


def beside(table: pa.Table, rows: pa.Table) -> pa.Table:
    """Return `table` with the further columns of the same rows of a library.

    The row number, ID, SMILES, source and line of the library are not added. If the name of a further column
    is taken, ``_input`` is appended to it.

    Examples
    --------
    >>> rows = pa.table({"id": ["m1"], "smiles": ["CCO"], "price": ["12"], "mean": ["low"]})
    >>> beside(pa.table({"id": ["m1"], "mean": [-7.25]}), rows).column_names
    ['id', 'mean', 'price', 'mean_input']
    """
    for name in rows.column_names:
        if name not in ("row", "id", "smiles", "source", "line"):
            free = name
            while free in table.column_names:
                free += "_input"
            table = table.append_column(free, rows[name])
    return table


def write_molecules(tables: pa.Table | Tables, path: Path, name: PurePath | None = None) -> None:
    r"""Write a table of molecules with columns smiles and id, in the format given by the ending of `path`.

    ======================  =================================================================================
    .csv, .csv.gz           all columns; formulas are made harmless (`daskrf.tables.spreadsheets`)
    .parquet                all columns
    .sdf, .sdf.gz           structures drawn in the plane; the ID is the title, all columns are properties
    .smi, .smi.gz           SMILES and ID, with a tab between them
    .xlsx                   all columns, if openpyxl is installed
    ======================  =================================================================================

    Parameters
    ----------
    tables : pyarrow.Table, or iterable of them
        Parts of one table, which need not be in memory together.
    path : Path
    name : Path, optional
        Path with the ending that gives the format, if `path` has another.

    Raises
    ------
    OptionError
        The ending is not known.

    Examples
    --------
    >>> import tempfile
    >>> table = pa.table({"id": ["m1"], "smiles": ["CCO"], "mean": [-7.25]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_molecules(table, Path(folder, "hits.csv"))
    ...     Path(folder, "hits.csv").read_text()
    'id,smiles,mean\nm1,CCO,-7.25\n'
    """
    name = name or path
    check_ending(name)
    parts = [tables] if isinstance(tables, pa.Table) else tables
    with _opened(path, packed=name.name.lower().endswith(_GZIP)) as file:
        _WRITERS[ending_of(name)](parts, file)


@contextmanager
def _opened(path: Path, *, packed: bool) -> Iterator[IO[bytes]]:
    """Yield a file to write to; compressed bytes do not depend on the time or the name."""
    with path.open("wb") as file:
        if packed:
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packer:
                yield packer  # type: ignore[misc]
        else:
            yield file


def _slices(tables: Tables) -> Iterator[pa.Table]:
    return (table.slice(at, _ROWS) for table in tables for at in range(0, max(table.num_rows, 1), _ROWS))


def _write_csv(tables: Tables, file: IO[bytes]) -> None:
    """Write all columns; missing values and NaN are empty fields."""
    for number, table in enumerate(_slices(tables)):
        rows = [table.column_names] if number == 0 else []
        rows += zip(*(column.to_pylist() for column in table.columns), strict=True)
        file.write("".join(",".join(map(_quoted, row)) + "\n" for row in rows).encode())


def _quoted(value: object) -> str:
    """Return a value as a field; the csv module leaves a carriage return without quotes."""
    if (value := _plain(value)) is None:
        return ""
    text = repr(value) if isinstance(value, float) else harmless(str(value))
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


def _plain(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value


def _write_parquet(tables: Tables, file: IO[bytes]) -> None:
    parts = iter(tables)
    first = next(parts)
    options: dict[str, object] = {
        "compression": "zstd",
        "compression_level": LEVEL,
        "write_page_checksum": True,
    }
    with pq.ParquetWriter(file, first.schema, **options) as writer:
        for table in itertools.chain([first], parts):
            writer.write_table(table)


_SD_END = "$$$$"


def _write_sdf(tables: Tables, file: IO[bytes]) -> None:
    """Write SD records: the structure, and every column as a property."""
    for table in _slices(tables):
        columns = {name: table[name].to_pylist() for name in table.column_names}
        names = {name: _line(name).replace("<", "(").replace(">", ")") for name in columns}
        for at, block in enumerate(mol_blocks([text or "" for text in columns["smiles"]])):
            lines = [_sd_line(columns["id"][at]), block.rstrip("\n")]
            for name, values in columns.items():
                if (value := _plain(values[at])) is not None and _line(value):
                    lines.append(f">  <{names[name]}>\n{_sd_line(value)}\n")
            file.write(("\n".join([*lines, _SD_END]) + "\n").encode())


def _sd_line(value: object) -> str:
    """Return a value as a line of an SD record; one like the end of a record gets a blank before it."""
    line = _line(value)
    return f" {line}" if line.startswith(_SD_END) else line


def _write_smiles(tables: Tables, file: IO[bytes]) -> None:
    """Write SMILES and ID, with a tab between them."""
    for table in _slices(tables):
        rows = zip(table["smiles"].to_pylist(), table["id"].to_pylist(), strict=True)
        file.write("".join(f"{smiles or ''}\t{_line(name)}\n" for smiles, name in rows).encode())


def _write_xlsx(tables: Tables, file: IO[bytes]) -> None:
    """Write all columns as a sheet; missing values, NaN and infinity are empty cells."""
    parts = _slices(tables)
    first = next(parts)
    rows = (
        [None if isinstance(value, float) and not math.isfinite(value) else value for value in row]
        for table in itertools.chain([first], parts)
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
    )
    write_workbook(first.column_names, rows, file)


def _line(value: object) -> str:
    """Return a value as text in one line without tabs: a line end would end a title or a property."""
    return " ".join(str(value).split())


_WRITERS: dict[str, Callable[[Tables, IO[bytes]], None]] = {
    ".csv": _write_csv,
    PARQUET: _write_parquet,
    ".sdf": _write_sdf,
    ".smi": _write_smiles,
    WORKBOOK: _write_xlsx,
}
ENDINGS = tuple(_WRITERS)
"""The known endings; all but those of Parquet and Excel also with ``.gz``."""
