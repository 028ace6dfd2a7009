"""Count and report how many hits are the same molecule as a better hit or a labelled molecule."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from daskrf.errors import StoreError
from daskrf.models.labelled import SMILES, labelled_batches, labelled_smiles, library_of_model
from daskrf.models.models import Model
from daskrf.molecules.structures import Molecules
from daskrf.sources.sources import Source

_MOST_HITS = 100_000  # hits compared at most: RDKit takes some 15 s for them
_MOST_ROWS = 5_000_000  # rows read at most, in partitions with labelled molecules, for their SMILES
_MOST_PARSED = 50_000  # labelled molecules with the same composition as a hit: 7 s


def duplicates(
    smiles: pa.ChunkedArray,
    model: Model,
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
    source : Source or None
        The screened library; None for a space.
    labelled : bool
        Whether labelled molecules themselves may be among the hits.
    """
    compared = smiles[:_MOST_HITS].to_pylist()
    best = "best " if len(compared) < len(smiles) else ""
    hits = Molecules(compared, most=_MOST_PARSED)
    n_repeats, which = hits.n_repeats(), f"the {best}{len(compared):,} hits"
    repeats = f"{n_repeats:,} of {which} are the same molecule as a better hit"
    if not n_repeats:
        repeats = f"{which} are different molecules"
    what = "labelled molecules or copies of them" if labelled else "copies of labelled molecules"
    try:
        n_copies, reason = _count(hits, model, source)
    except StoreError as error:  # damage elsewhere must not cost the hits
        n_copies, reason = 0, str(error)
    if reason:
        return f"{repeats}; the number of {what} was not counted: {reason}"
    copies = f"and {n_copies:,} are {what}" if n_copies else "and none has a label"
    return f"{repeats}, {copies}"


def _count(hits: Molecules, model: Model, source: Source | None) -> tuple[int, str]:
    """Return how many hits are labelled molecules, or why they were not counted."""
    store, n_labels = library_of_model(model, source), int(model.metadata["labels"]["matched"])
    if n_labels > _MOST_ROWS:
        return 0, f"the model has {n_labels:,} labels"
    batches: Iterable[list[str]]
    if SMILES in model.saved.entries:
        labelled, unknown = labelled_smiles(model)
        if unknown:
            return 0, unknown
        batches = [labelled]
    elif store is None:
        return 0, "the library that the model was fitted to is not where it was"
    else:
        (rows,) = model.arrays("labelled_rows")
        n_rows, batches = labelled_batches(store, np.unique(rows))
        if n_rows > _MOST_ROWS:
            return 0, f"{n_rows:,} rows would have to be read from {store.path}"
    for batch in batches:
        hits.look(batch)
        if hits.exhausted:
            return 0, f"more than {_MOST_PARSED:,} of the {n_labels:,} labelled molecules may be among them"
    return hits.n_found(), ""
