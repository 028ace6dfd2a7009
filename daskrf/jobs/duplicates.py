"""Count and report how many hits are the same molecule as a better hit or a labelled molecule."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.errors import StoreError
from daskrf.jobs.models import Model
from daskrf.jobs.sources import Source, StoreSource, planned_rows, positions
from daskrf.molecules.structures import Molecules
from daskrf.storage.backend import as_path
from daskrf.storage.fingerprintstore import FingerprintStore
from daskrf.storage.model import load_model
from daskrf.storage.rowstore import RowStore

__all__ = ["duplicates"]

_MOST_HITS = 100_000  # hits compared at most: RDKit takes some 15 s for them
_MOST_ROWS = 5_000_000  # of partitions with labelled molecules, read for their SMILES
_MOST_PARSED = 50_000  # labelled molecules with the same composition as a hit: 7 s


def duplicates(
    smiles: pa.ChunkedArray,
    model: Model,
    path: str | os.PathLike[str],
    source: Source | None,
    *,
    labelled: bool,
) -> str:
    """Return one sentence on the hits that are the same molecule as a better hit or a labelled molecule.

    Molecules are the same if RDKit writes the same canonical SMILES for them, stereochemistry included.

    Parameters
    ----------
    smiles : pyarrow.ChunkedArray of strings
        Of the hits, best first. The first 100,000 are compared, and the sentence says so if there are more.
    model : Model
    path : path
        Of the model.
    source : Source or None
        The screened library; None for a space.
    labelled : bool
        Whether labelled molecules themselves may be among the hits.
    """
    compared = smiles[:_MOST_HITS].to_pylist()
    best = "best " if len(compared) < len(smiles) else ""
    hits = Molecules(compared, most=_MOST_PARSED)
    repeats = (
        f"{hits.n_repeats():,} of the {best}{len(compared):,} hits are the same molecule as a better hit"
    )
    what = "labelled molecules or copies of them" if labelled else "copies of labelled molecules"
    try:
        n_copies, reason = _count(hits, model, path, source)
    except StoreError as error:  # damage elsewhere must not cost the hits
        n_copies, reason = 0, str(error)
    if reason:
        return f"{repeats}; the number of {what} was not counted: {reason}"
    return f"{repeats}, and {n_copies:,} are {what}"


def _count(
    hits: Molecules, model: Model, path: str | os.PathLike[str], source: Source | None
) -> tuple[int, str]:
    """Return how many hits are labelled molecules, or why they were not counted."""
    store, n_labels = _library(model, path, source), int(model.metadata["labels"]["matched"])
    if store is None:
        return 0, "the library that the model was fitted to is not where it was"
    if n_labels > _MOST_ROWS:
        return 0, f"the model has {n_labels:,} labels"
    n_rows, batches = _labelled_smiles(
        store, np.unique(load_model(path, names=["labelled_rows"]).arrays["labelled_rows"])
    )
    if n_rows > _MOST_ROWS:
        return 0, f"{n_rows:,} rows would have to be read from {store.path}"
    for batch in batches:
        hits.look(batch)
        if hits.exhausted:
            return 0, f"more than {_MOST_PARSED:,} of the {n_labels:,} labelled molecules may be among them"
    return hits.n_found(), ""


def _library(model: Model, model_path: str | os.PathLike[str], source: Source | None) -> RowStore | None:
    """Return the store the model was fitted on: the screened one, or the one at its recorded path."""
    library = model.metadata["library"]
    if isinstance(source, StoreSource) and source.store.library_hash == library:
        return source.store
    path = model.metadata.get("library_path")
    if not isinstance(path, str) or ("://" in path and "://" not in str(model_path)):
        return None  # a model file may come from anybody, so it must not trigger network requests
    try:
        store = FingerprintStore.open(as_path(path))
    except StoreError:
        return None
    return store if store.spec_hash == library else None


def _labelled_smiles(store: RowStore, labelled: npt.NDArray[np.int64]) -> tuple[int, Iterator[list[str]]]:
    """Return how many rows must be read for the SMILES of the labelled rows, and these by partition."""
    sizes = np.array(planned_rows(store))
    ends = np.searchsorted(labelled, store.row_bounds)
    touched = np.flatnonzero(np.diff(ends))

    def batches() -> Iterator[list[str]]:
        for p in touched.tolist():
            table = store.read_rows(p, ["row", "smiles"])
            chosen = positions(table["row"].to_numpy(), labelled[ends[p] : ends[p + 1]])
            yield table["smiles"].take(chosen).to_pylist()

    return int(sizes[touched].sum()), batches()
