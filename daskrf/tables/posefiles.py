"""Files of poses, mostly one per molecule, as one table of scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

import pyarrow as pa

from daskrf.errors import InputError
from daskrf.files.backend import size_of
from daskrf.tables.formats import Head, Purpose, TableFormat, View, open_table, reader_of, whole
from daskrf.tables.formats.sequential import FAULT, FILE, NAME, POSES
from daskrf.tables.values.docking import molecule_of_file

_AT_ONCE = 1_000  # files whose poses are in memory together
_LONGEST = 1 << 22  # bytes per line
_PURPOSE = Purpose(
    fit=lambda rows: 0,
    is_header=lambda first, below: True,
    fmt=TableFormat(),
    longest=_LONGEST,
    strict=True,
    extensions=False,
    accepts=True,
)


def pose_tables(files: Sequence[PurePath]) -> Iterator[pa.Table]:
    """Yield the poses in files, as text; a file without any is one molecule without a score.

    Such a molecule is called like its file, since programs leave an empty file where they failed. A pose that
    cannot be read has the reason in the column `FAULT`, by which readers of the table count it, and that of
    its file in `FILE`. The schema says how the files were read, under `POSES`.

    Parameters
    ----------
    files : sequence of path
        At least one. All have the same format and columns, which is not that of plain tables.

    Raises
    ------
    InputError
        If the formats differ, or a file is a plain table, or cannot be read at all.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> text = "REMARK VINA RESULT:    -7.100      0.000      0.000\\nROOT\\nATOM\\nENDROOT\\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = [pathlib.Path(folder, f"{name}_out.pdbqt") for name in ("A", "B")]
    ...     sizes = [file.write_text(text if file == files[0] else "") for file in files]
    ...     [table] = pose_tables(files)
    >>> table["name"].to_pylist(), table["REMARK VINA RESULT"].to_pylist()
    (['A', 'B'], ['-7.100', None])
    """
    heads = {file: open_table(file, _PURPOSE) if size_of(file) else None for file in files}
    full = {file: head for file, head in heads.items() if head is not None}
    names = _columns(full)
    table = next(iter(full.values())).table
    schema = pa.schema([(name, pa.string()) for name in dict.fromkeys((*names, FILE, FAULT))])
    schema = schema.with_metadata({POSES: reader_of(table).words(table)})
    for first in range(0, len(files), _AT_ONCE):
        columns: dict[str, list[str | None]] = {name: [] for name in schema.names}
        for file in files[first : first + _AT_ONCE]:
            _add(columns, file, heads[file])
        yield pa.table(columns, schema)


def _add(columns: dict[str, list[str | None]], file: PurePath, head: Head | None) -> None:
    """Add the poses of a file to columns."""
    n_rows = 0
    if head is not None:
        view = View(file, head.table, range(len(head.names)), _PURPOSE)
        for rows in reader_of(head.table).read(view, [whole(head.table)]):
            n_rows += len(rows.row) + len(rows.faults)
            n = len(rows.row)
            by_name: dict[str, Sequence[str | None]] = {
                **dict(zip(head.names, rows.columns, strict=True)),
                FILE: [str(file)] * n,
            }
            for name, values in columns.items():
                values += by_name.get(name, [None] * n)
            for fault in rows.faults:
                place = reader_of(head.table).place(file, head.table, fault.line)
                faulty = {FILE: str(file), FAULT: f"{place}: {fault.reason}"}
                for name, values in columns.items():
                    values.append(faulty.get(name))
    if not n_rows:
        for name, values in columns.items():
            values.append({NAME: molecule_of_file(file), FILE: str(file)}.get(name))


def _columns(heads: dict[PurePath, Head]) -> tuple[str, ...]:
    """Return the columns of all files, or refuse files that are no poses of one program."""
    kinds = Counter(head.table.kind for head in heads.values())
    example = {head.table.kind: file for file, head in heads.items()}
    if plain := [kind for kind in kinds if not reader_of(heads[example[kind]].table).holds_poses]:
        raise InputError(
            f"{example[plain[0]]} is one of {len(heads):,} files and holds no poses of a docking program; "
            "name the files of poses with a pattern, such as 'docked/*_out.pdbqt', or join tables into one."
        )
    if len(kinds) > 1:
        counts = [f"{n:,} of the format {kind} (such as {example[kind]})" for kind, n in kinds.items()]
        raise InputError(
            f"There are {' and '.join(counts)}; name those with the scores by a pattern, such as "
            "'docked/*_out.pdbqt'."
        )
    if not heads:
        raise InputError("All files of poses are empty; dock again, or name others.")
    return tuple(dict.fromkeys(name for head in heads.values() for name in head.names))
