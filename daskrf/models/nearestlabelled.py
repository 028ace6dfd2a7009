"""The labelled molecule of a model that is nearest to each hit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from daskrf.gp.processes.weightedsum import Target
from daskrf.models.models import Model
from daskrf.models.targets import measured_of
from daskrf.molecules.counts.similarity import nearest

_MOST_HITS = 10_000
_MOST_COMPARED = 200_000


def nearest_labelled(smiles: Sequence[str], model: Model, target: Target) -> tuple[dict[str, object], str]:
    """Return columns on the labelled molecule that is nearest to each hit, and a sentence on them.

    Parameters
    ----------
    smiles : sequence of str
        Of the hits.
    model : Model
    target : int or WeightedSum
        Molecules without a label of this target do not count.

    Returns
    -------
    dict of arrays, str
        similarity_to_labelled (Tanimoto of Morgan fingerprints of radius 2 without counts, ECFP4),
        nearest_labelled (its SMILES) and its_label (the mean, if it has several). There are no columns if the
        labelled molecules are not known, or there are too many of them or of hits; the sentence then says so.
    """
    if len(smiles) > _MOST_HITS:
        return {}, f"more than {_MOST_HITS:,} hits are not compared with the labelled molecules"
    labels = measured_of(model, target)
    molecules, reason = labels.smiles, labels.reason
    if not molecules:
        return {}, f"the hits were not compared with the labelled molecules: {reason}"
    measured: dict[str, list[float]] = {}
    for text, value in zip(molecules, labels.values.tolist(), strict=True):
        if text and np.isfinite(value):
            measured.setdefault(text, []).append(value)
    if len(measured) > _MOST_COMPARED:
        return {}, f"{len(measured):,} labelled molecules are too many to compare the hits with"
    others = list(measured)
    similarity, index = nearest(list(smiles), others)
    near = [others[i] for i in index.tolist()]
    columns = {
        "similarity_to_labelled": pa.array(similarity.round(4)),
        "nearest_labelled": pa.array(near, pa.string()),
        "its_label": pa.array([float(np.mean(measured[text])) for text in near], pa.float64()),
    }
    middle = f"median {np.median(similarity):.2f}" if len(smiles) else "there are no hits"
    words = f"similarity of the hits to the nearest labelled molecule: {middle} (Tanimoto, ECFP4)"
    return columns, words + (f"; {reason}" if reason else "")
