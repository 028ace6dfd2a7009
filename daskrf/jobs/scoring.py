"""What `predict` and `screen` share: which features a model is shown, and where they come from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daskrf.errors import InputError
from daskrf.jobs.models import Model, feature_map_of
from daskrf.jobs.progress import Progress
from daskrf.jobs.scanning import library_of, tables_of
from daskrf.jobs.shards import Share
from daskrf.jobs.smiles import SmilesSource, planned_library
from daskrf.jobs.sources import Source, open_source, rows_store
from daskrf.molecules import TableFormat
from daskrf.paths import as_list, as_path
from daskrf.storage.inspect import kind_of

__all__ = ["inputs_of", "source_for", "source_words", "std_seconds", "target_names"]

Paths = str | os.PathLike[str]


def source_for(
    model: Model,
    inputs: Paths | Sequence[Paths],
    directory: Path,
    *,
    format: TableFormat | None = None,
    fragments: str | None = None,
    accept_rejects: bool = False,
    progress: Progress,
    share: Share,
) -> Source:
    """Return the features of `inputs` under the map of `model`.

    Parameters
    ----------
    inputs : path or sequence of paths
        One store of fingerprints or features, or SMILES files, which are then treated as the ones
        that the model was fitted to.
    directory : Path
        Where the description and the rejects of SMILES files go.
    share : Share
        A shard takes the description that another one has left, and reads no file from end to end.

    Raises
    ------
    InputError
        If a store was made with another fingerprint or another map than the model.
    """
    inputs = as_list(inputs)
    path = as_path(inputs[0]) if len(inputs) == 1 else None
    if path is None and any(kind_of(p, missing_ok=True) for p in inputs):
        raise InputError("Only one store can be scored at a time; SMILES files may be many.")
    if path is None or kind_of(path, missing_ok=True) is None:
        planned = None if share.whole else planned_library(directory)
        spool = directory / "spool"
        return SmilesSource.of(
            share,
            library_of(
                planned, inputs, format, None, spool, progress, unpacked=True, accept_rejects=accept_rejects
            ),
            directory,
            model.metadata["fingerprint"],
            fragments or model.metadata["fragments"],
            feature_map_of(model),
            model.gp.one_bit_,
        )
    bits = None if model.gp.one_bit_ else False
    source = open_source(path, feature_map_of(model), bits, predicts=True)
    store = rows_store(source)
    if store.spec["fingerprint"] != model.metadata["fingerprint"]:
        raise InputError(
            f"The model was fitted to fingerprints {model.metadata['fingerprint']}, but {store.path} holds "
            f"{store.spec['fingerprint']}; make a store with the model's options."
        )
    return source


def inputs_of(source: Source) -> tuple[str, ...]:
    """Return how the SMILES files of a source were read, for a report; nothing of a store."""
    return tables_of(source.library) if isinstance(source, SmilesSource) else ()


def source_words(inputs: Paths | Sequence[Paths]) -> str:
    """Return what is scored by its name alone, wherever that is: the same words for the same bytes."""
    paths = as_list(inputs)
    return f"{as_path(paths[0]).name}{f' and {len(paths) - 1:,} more' if len(paths) > 1 else ''}"


def target_names(model: Model, prefix: str) -> list[str]:
    """Return the names of a column of each target: the bare prefix if there is one target only."""
    names: list[Any] = model.targets
    return [prefix] if len(names) == 1 else [f"{prefix}_{name}" for name in names]


def std_seconds(n_components: int) -> float:
    """Return the rough cost of a standard deviation on one core, from which tasks are sized."""
    return 5e-4 * (n_components / 4096) ** 2
