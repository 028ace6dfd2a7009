"""The labelled molecules of a model: their SMILES, stored with it or found in its library."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daskrf.arrays import GrowingArray
from daskrf.errors import InputError, StoreError
from daskrf.files.backend import as_path
from daskrf.models.models import Model
from daskrf.molecules.structures import KnownStructures, Level
from daskrf.sources.sources import Source, StoreSource, planned_rows, positions
from daskrf.storage.integrity import as_damage, release
from daskrf.storage.model import OrderedBytes
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.rowstore import RowStore

SMILES = "labelled_smiles"
"""Name of the array in a model that holds the SMILES of its labels, as bytes separated by line breaks."""

_LINE_BREAK = ord("\n")
MOST_KEPT = 1 << 20
"""Labels whose SMILES are read once, and kept in memory until they are saved."""
_MOST_ROWS = 100_000_000  # rows read at most, in partitions with labelled molecules: one or two minutes


def smiles_array(smiles: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Return SMILES as an array of bytes, for a model.

    Examples
    --------
    >>> smiles_array(["C", "O"]).tolist()
    [67, 10, 79]
    """
    return np.frombuffer("\n".join(smiles).encode(), np.uint8)


def smiles_of_rows(store: RowStore, rows: npt.NDArray[np.int64]) -> list[str] | None:
    """Return the SMILES of the ascending `rows` of a store, or None if too much would have to be read."""
    labelled, index = np.unique(rows, return_inverse=True)
    n_rows, batches = labelled_batches(store, labelled)
    if n_rows > _MOST_ROWS:
        return None
    smiles = [text for batch in batches for text in batch]
    return [smiles[i] for i in index.tolist()]


def smiles_array_of_rows(
    store: RowStore, rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8] | OrderedBytes | None:
    """Return `smiles_array` of the SMILES of the ascending `rows` of a store, or None as `smiles_of_rows`.

    More than a million are read twice, and only as they are written: first to know how many bytes they take.
    Memory is then that of the rows of one partition.
    """
    n_rows, _ = labelled_tables(store, rows, ())
    if n_rows > _MOST_ROWS:
        return None
    if len(rows) > MOST_KEPT:
        pieces = functools.partial(_smiles_pieces, store, rows)
        return OrderedBytes(sum(map(len, pieces())), pieces)
    text = GrowingArray(np.uint8)
    for piece in _smiles_pieces(store, rows):
        text.append(piece)
    return text.finish()


def _smiles_pieces(store: RowStore, rows: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the bytes of `smiles_array` of the ascending `rows`, those of one partition at a time."""
    _, tables = labelled_tables(store, rows, ("smiles",))
    for number, table in enumerate(tables):
        present = table["row"].to_numpy()
        times = np.searchsorted(rows, present, side="right") - np.searchsorted(rows, present)
        repeated = table["smiles"].take(pa.array(np.repeat(np.arange(len(present)), times))).combine_chunks()
        # Objects of Python would take more memory than the array.
        lines = pc.binary_join(pa.ListArray.from_arrays([0, len(repeated)], repeated), "\n")
        yield np.full(min(number, 1), _LINE_BREAK, np.uint8)
        yield np.frombuffer(lines[0].as_buffer(), np.uint8)
    release(rows)


def labelled_smiles(model: Model, source: Source | None = None) -> tuple[list[str], str]:
    """Return the SMILES of each label of the model, and why some are empty or there are none.

    Parameters
    ----------
    model : Model
    source : Source, optional
        A library that may be the one that the model was fitted to.
    """
    if SMILES in model.saved.entries:
        (stored,) = model.arrays(SMILES)
        with as_damage(model.path, "restore it from a copy, or fit again"):
            smiles = stored.tobytes().decode().split("\n")
        unknown = smiles.count("")
        return smiles, f"the SMILES of {unknown:,} of them are not known" if unknown else ""
    try:
        store = library_of_model(model, source)
        if store is None:
            return [], "the library that the model was fitted to is not where it was"
        (rows,) = model.arrays("labelled_rows")
        texts = smiles_of_rows(store, rows)
    except StoreError as error:
        return [], str(error)
    return ([], "they are spread over too much of the library") if texts is None else (texts, "")


def labelled_structures(model: Model, level: Level = "structure") -> KnownStructures:
    """Return the labelled molecules of the model, for comparison with others at a level.

    Raises
    ------
    InputError
        If they are not known.
    """
    smiles, reason = labelled_smiles(model)
    if not smiles or reason:
        raise InputError(
            f"The labelled molecules cannot be left out: {reason}; drop --exclude-labelled "
            "(exclude_labelled)."
        )
    return KnownStructures.of(dict.fromkeys(smiles), level)


def library_of_model(model: Model, source: Source | None = None) -> RowStore | None:
    """Return the store the model was fitted on: the screened one, or the one at its recorded path."""
    library = model.metadata["library"]
    if isinstance(source, StoreSource) and source.store.library_hash == library:
        return source.store
    path = model.metadata.get("library_path")
    if not isinstance(path, str) or ("://" in path and "://" not in str(model.path)):
        return None  # a model file may come from anybody, so it must not trigger network requests
    try:
        store = FingerprintStore.open(as_path(path))
    except StoreError:
        return None
    return store if store.spec_hash == library else None


def labelled_batches(store: RowStore, labelled: npt.NDArray[np.int64]) -> tuple[int, Iterator[list[str]]]:
    """Return how many rows must be read for the SMILES of the labelled rows, and the SMILES by partition."""
    n_rows, tables = labelled_tables(store, labelled, ("smiles",))
    return n_rows, (table["smiles"].to_pylist() for table in tables)


def labelled_tables(
    store: RowStore, labelled: npt.NDArray[np.int64], columns: Sequence[str]
) -> tuple[int, Iterator[pa.Table]]:
    """Return how many rows must be read for some columns of the labelled rows, and these columns in parts."""
    sizes = np.array(planned_rows(store))
    ends = np.searchsorted(labelled, store.row_bounds)
    touched = np.flatnonzero(np.diff(ends))

    def tables() -> Iterator[pa.Table]:
        for p in touched.tolist():
            table = store.read_rows(p, ["row", *columns])
            chosen = positions(table["row"].to_numpy(), np.unique(labelled[ends[p] : ends[p + 1]]))
            yield table.take(chosen)

    return int(sizes[touched].sum()), tables()
