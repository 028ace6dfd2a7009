"""The rows that a model predicts: from a store, or from files read in the same way as its training files."""

from __future__ import annotations

import functools
from dataclasses import replace

from daskrf.errors import InputError
from daskrf.jobs.job import Run
from daskrf.models.models import Model, feature_map_of
from daskrf.models.toolkits import check_toolkit
from daskrf.sources.inputs import Input, library_of
from daskrf.sources.smiles import SmilesSource, planned_library
from daskrf.sources.sources import Source, open_source
from daskrf.storage.differences import differences
from daskrf.storage.kinds import find_library, kind_of
from daskrf.tables import TableFormat
from daskrf.tables.formats import EVERY


def source_for(
    run: Run,
    model: Model,
    input: Input,
    *,
    keep_columns: bool = False,
    empty_ok: bool = False,
) -> Source:
    """Return the source of the features of `input` under the map of `model`.

    Parameters
    ----------
    input : Input
        One store of fingerprints or features, or SMILES files, which are treated as the model's training
        files were. Their description and rejects go to the folder of unfinished work; a shard uses the
        description left by another one, and reads no file from end to end.
    keep_columns : bool
        Keep all columns of the files that every one of them has, unless the format names some.
    empty_ok : bool
        Whether there may be no rows, as in an empty table.

    Raises
    ------
    InputError
        If a store was made with a different fingerprint or map than the model.
    """
    inputs, format = input.paths, input.format
    library = find_library(inputs[0]) if len(inputs) == 1 else None
    if len(inputs) > 1 and any(kind_of(path, missing_ok=True) for path in inputs):
        raise InputError("Only one store can be scored at a time; SMILES files may be many.")
    if library is None:
        planned = functools.partial(planned_library, run.work)
        check_toolkit(model, note=run.progress.note)
        if keep_columns and not (format or TableFormat()).extra:
            format = replace(format or TableFormat(), extra=(EVERY,))
        return SmilesSource.of(
            run.share,
            library_of(run, planned, inputs, format, None, input.accept_rejects, empty_ok=empty_ok),
            run.work,
            model.metadata["fingerprint"],
            input.fragments or model.metadata["fragments"],
            feature_map_of(model),
            model.gp.one_bit_,
        )
    bits, feature_map = None if model.gp.one_bit_ else False, feature_map_of(model)
    source = open_source(library, feature_map, bits, predicts=True, raw=feature_map is None)
    store = source.store
    if store.spec["fingerprint"] != model.metadata["fingerprint"]:
        of_model, of_store = ({"fingerprint": state["fingerprint"]} for state in (model.metadata, store.spec))
        raise InputError(
            f"{store.path} holds other fingerprints than the model was fitted to: "
            f"{differences(of_model, of_store)}; "
            "make a store with the options of the model's fingerprints."
        )
    check_toolkit(model, store, run.progress.note)
    return source
