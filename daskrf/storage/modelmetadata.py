"""What a model holds as JSON, besides its arrays."""

from __future__ import annotations

from typing import NotRequired, Required, TypedDict

from daskrf.documents import State


class RoundRecord(TypedDict):
    """A summary of the labels that one run added, or of those of the fit.

    `best` is the best label of each target so far, None if its direction is not known, and `agreement` the
    state of an `Agreement` for each target, of added labels only.
    """

    labels: int
    total: int
    digest: str
    best: list[float | None]
    agreement: NotRequired[list[State | None]]


class DescribedTargets(TypedDict, total=False):
    """What of a model may change while its labels stay: how its targets are described."""

    scales: list[State]
    limits: list[State]
    repeats: list[str]
    classes: list[State | None]


class ModelMetadata(DescribedTargets, total=False):
    """The metadata of a model; older models lack some of them."""

    gp: Required[State]
    targets: Required[list[str]]
    labels: Required[dict[str, int]]
    spec: Required[State]
    spec_hash: Required[str]
    range: Required[list[list[float]]]
    library: Required[str]
    library_path: str | None
    fingerprint: Required[State]
    fragments: Required[str]
    toolkit: State
    map: Required[State | None]
    search: State | None
    choices: list[str | None]
    directions: dict[str, str]
    together: str
    rounds: list[RoundRecord]
