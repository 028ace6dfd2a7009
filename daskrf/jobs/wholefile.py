"""A file of molecules as one table in memory."""

from __future__ import annotations

from pathlib import PurePath

import pyarrow as pa

from daskrf.jobs.progress import Progress
from daskrf.jobs.smiles import rows_table
from daskrf.molecules import (
    TableFormat,
    check_first_lines,
    lay_out,
    read_partition,
    scan_files,
    table_words,
)
from daskrf.molecules.formats import EVERY
from daskrf.quantities import amount

__all__ = ["molecules_in"]


def molecules_in(path: PurePath, progress: Progress) -> pa.Table:
    """Return the molecules of a file with all of its columns: id and smiles first; its rejects are counted.

    Columns that daskrf wrote keep their names.
    """
    files = lay_out(path, TableFormat(extra=(EVERY,)))
    for line in (*table_words(files), *check_first_lines(files)):
        progress.note(line)
    library = scan_files(files)
    batches = [batch for p in range(len(library.partitions)) for batch in read_partition(library, p)]
    lost = sum(len(batch.rejects) for batch in batches)
    if lost:
        progress.note(f"{path}: {amount(lost, 'rows')} left out: they could not be read.")
    tables = [rows_table(batch, library, range(len(batch.row))) for batch in batches]
    table = pa.concat_tables(tables).unify_dictionaries()
    own = {"row", "source", "line", "id_input", "smiles_input"}
    kept = [name for name in table.column_names if name not in own]
    return table.select(kept).rename_columns([_written(name) for name in kept])


def _written(name: str) -> str:
    """Return the name that a column had: those of rows of a library are called so when they are read."""
    plain = name.removesuffix("_input")
    return plain if plain in ("row", "source", "line") else name
