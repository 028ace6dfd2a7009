"""A file of molecules as one table, or as SMILES, in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

import pyarrow as pa

from daskrf.errors import printable
from daskrf.molecules.structures import refusals
from daskrf.quantities import amount
from daskrf.sources.smiles import rows_table
from daskrf.storage.kinds import kind_of
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.tables import (
    TableFormat,
    check_first_lines,
    file_words,
    lay_out,
    read_partition,
    scan_files,
    table_words,
)
from daskrf.tables.formats import EVERY, reader_of
from daskrf.workers.progress import Progress

_SHOWN = 60  # characters of a text in a message


def molecules_in(path: PurePath, progress: Progress) -> pa.Table:
    """Return the molecules of a file with all of its columns, id and smiles first; report how many are lost.

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
    bookkeeping = {"row", "source", "line", "id_input", "smiles_input"}
    names = [name for name in table.column_names if name not in bookkeeping]
    return table.select(names).rename_columns([_written(name) for name in names])


@dataclass(frozen=True)
class NamedMolecules:
    """The molecules of a file.

    Attributes
    ----------
    names, smiles : list of str
    rejects : list of str
        Where each row without a molecule is, and why it has none.
    """

    names: list[str]
    smiles: list[str]
    rejects: list[str]


def named_molecules_in(path: PurePath, progress: Progress) -> NamedMolecules:
    """Return the names and SMILES of a file, and its rows that hold none."""
    files = lay_out(path)
    for line in (*table_words(files), *check_first_lines(files)):
        progress.note(line)
    library = scan_files(files)
    names: list[str] = []
    smiles: list[str] = []
    rejects: list[str] = []
    for batch in (batch for p in range(len(library.partitions)) for batch in read_partition(library, p)):
        names += [text or "" for text in batch.id]
        smiles += batch.smiles
        rejects += [
            f"{reader_of(library.sources[each.source].layout).row_word} {each.line:,}: {each.reason}"
            for each in batch.rejects
        ]
    return NamedMolecules(names, smiles, rejects)


def smiles_in(path: PurePath, progress: Progress, *, accept_rejects: bool = False) -> tuple[list[str], str]:
    """Return the SMILES of a file or fingerprint store that RDKit can read, and a sentence on the other rows.

    There may be no SMILES. A file whose first lines are mostly not molecules is refused unless
    `accept_rejects` is set.
    """
    if kind_of(path, missing_ok=True) is not None:
        store = FingerprintStore.open(path)
        store.require_complete()
        parts = (store.read_rows(p, ["smiles"])["smiles"] for p in range(store.n_partitions))
        return [text for column in parts for text in column.to_pylist()], ""
    files = lay_out(path)
    for words in (*table_words(files), *check_first_lines(files, accept=accept_rejects)):
        progress.note(words)
    library = scan_files(files, empty_ok=True)
    smiles: list[str] = []
    lost: list[tuple[int, int, str, str]] = []
    for batch in (batch for p in range(len(library.partitions)) for batch in read_partition(library, p)):
        lost += [(each.source, each.line, each.text, each.reason) for each in batch.rejects]
        places = zip(batch.source.tolist(), batch.line.tolist(), batch.smiles, strict=True)
        for place, why in zip(places, refusals(batch.smiles), strict=True):
            if why:
                lost.append((*place, why))
            else:
                smiles.append(place[-1])
    if not lost:
        return smiles, ""
    source, line, text, why = min(lost)
    file = library.sources[source]
    where = f"{reader_of(file.layout).row_word} {line:,} of {file_words(file.path)}"
    example = f"such as {where} ('{printable(text, _SHOWN)}': {why})"
    return smiles, f"{amount(len(lost), 'rows')} could not be read as molecules, {example}"


def _written(name: str) -> str:
    """Return the name that a column had before reading, which renames columns such as row and source."""
    plain = name.removesuffix("_input")
    return plain if plain in ("row", "source", "line") else name
