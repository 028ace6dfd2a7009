"""The history of a model in its metadata: a summary of each round of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from daskrf.models.models import Model
from daskrf.storage.modelmetadata import ModelMetadata, RoundRecord
from daskrf.storage.stores.store import hash_of


def rounds_of(model: Model) -> list[RoundRecord]:
    """Return the rounds of a model; one without added labels has one round."""
    return list(model.metadata.get("rounds") or [first_round(model)])


def first_round(model: Model) -> RoundRecord:
    """Return the round of the fit."""
    n_labels = int(model.metadata["labels"]["matched"])
    best = [
        {"maximize": high, "minimize": low}.get(model.directions.get(name, ""))
        for name, (low, high) in zip(model.targets, model.metadata["range"], strict=True)
    ]
    return {"labels": n_labels, "total": n_labels, "digest": model.metadata["spec"]["labels"], "best": best}


def identity_after(identity: str, rounds: Sequence[RoundRecord]) -> str:
    """Return the identity of a model with the labels of all `rounds`, given its identity after the fit."""
    for each in rounds[1:]:
        identity = hash_of([identity, each["digest"]])
    return identity


def redirected(
    metadata: ModelMetadata, y: npt.NDArray[np.float64], directions: Mapping[str, str]
) -> ModelMetadata:
    """Return the metadata of a model with other directions, and with the best labels of rounds by these.

    `y` are all labels of the model, in the order in which they were added.
    """
    changed: ModelMetadata = {**metadata, "directions": dict(directions)}
    if rounds := metadata.get("rounds"):
        targets = metadata["targets"]
        changed["rounds"] = [
            {**each, "best": best_of(y[: each["total"]], targets, directions)} for each in rounds
        ]
    return changed


def best_of(
    y: npt.NDArray[np.float64], targets: Sequence[str], directions: Mapping[str, str]
) -> list[float | None]:
    """Return the best label of each target; None if its direction is not known.

    Examples
    --------
    >>> best_of(np.array([[1.0, 4.0], [2.0, np.nan]]), ["a", "b"], {"a": "maximize"})
    [2.0, None]
    """
    best: list[float | None] = []
    for t, name in enumerate(targets):
        values = y[np.isfinite(y[:, t]), t]
        direction = directions.get(name)
        has_best = direction is not None and len(values) > 0
        best.append(float(values.max() if direction == "maximize" else values.min()) if has_best else None)
    return best
