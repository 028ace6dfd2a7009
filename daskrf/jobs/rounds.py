"""The history of a model: what each round of labels brought, kept in its metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.jobs.models import Model

__all__ = ["best_of", "first_round", "rounds_of"]


def rounds_of(model: Model) -> list[dict[str, Any]]:
    """Return the rounds of a model; one that was only fitted has one."""
    return list(model.metadata.get("rounds") or [first_round(model)])


def first_round(model: Model) -> dict[str, Any]:
    """Return the round of the fit."""
    n_labels = int(model.metadata["labels"]["matched"])
    best = [
        {"maximize": high, "minimize": low}.get(model.directions.get(name, ""))
        for name, (low, high) in zip(model.targets, model.metadata["range"], strict=True)
    ]
    return {"labels": n_labels, "total": n_labels, "digest": model.metadata["spec"]["labels"], "best": best}


def best_of(
    y: npt.NDArray[np.float64], targets: Sequence[str], directions: Mapping[str, str]
) -> list[float | None]:
    """Return the best label of each target; None if its direction is not known.

    Examples
    --------
    >>> best_of(np.array([[1.0, 4.0], [2.0, np.nan]]), ["a", "b"], {"a": "maximize"})
    [2.0, None]
    """
    found: list[float | None] = []
    for t, name in enumerate(targets):
        values = y[np.isfinite(y[:, t]), t]
        direction = directions.get(name)
        known = direction is not None and len(values) > 0
        found.append(float(values.max() if direction == "maximize" else values.min()) if known else None)
    return found
