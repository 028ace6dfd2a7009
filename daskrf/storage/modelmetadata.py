"""What a model holds as JSON, besides its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NotRequired, Required, TypedDict

from daskrf.molecules.counts.spec import FingerprintState
from daskrf.tables.values.classes import ClassWordsState
from daskrf.tables.values.values import DescribedValues

if TYPE_CHECKING:  # they take long to import
    from daskrf.features.featuremap import MapState
    from daskrf.gp.validation.agreement import AgreementState
    from daskrf.gp.validation.probability import LinkState
    from daskrf.kernels.kernel import KernelState


class ClassTargetState(ClassWordsState):
    """A target that is two classes: its words, how many labels are 1, and the link, if it has one."""

    n_positive: int
    n_labels: int
    link: LinkState | None


class RoundRecord(TypedDict):
    """A summary of the labels that one run added, or of those of the fit.

    `best` is the best label of each target so far, None if its direction is not known, and `agreement` the
    state of an `Agreement` for each target, of added labels only.
    """

    labels: int
    total: int
    digest: str
    best: list[float | None]
    agreement: NotRequired[list[AgreementState | None]]


class DescribedTargets(DescribedValues, total=False):
    """What of a model may change while its labels stay: how its targets are described."""

    repeats: list[str]
    classes: list[ClassTargetState | None]


class ProcessSpec(TypedDict, total=False):
    """The map of a process on features, or the kernel of an exact one."""

    process: str
    kernel: KernelState | None
    map: object


class ModelSpec(ProcessSpec):
    """What determines a model: its process, its rows and their labels."""

    source: str
    targets: list[str]
    rows: int
    labels: str


class SearchRecord(TypedDict):
    """What determined a map, and the state of its `MapChoice`, `MetricChoice` or `LengthScaleSearch`."""

    key: str


class ModelMetadata(DescribedTargets, total=False):
    """The metadata of a model; older models lack some of them."""

    gp: Required[Mapping[str, object]]
    targets: Required[list[str]]
    labels: Required[dict[str, int]]
    spec: Required[ModelSpec]
    spec_hash: Required[str]
    range: Required[list[list[float]]]
    library: Required[str]
    library_path: str | None
    fingerprint: Required[FingerprintState]
    fragments: Required[str]
    toolkit: Mapping[str, str]
    map: Required[MapState | None]
    search: SearchRecord | None
    choices: list[str | None]
    directions: dict[str, str]
    together: str
    rounds: list[RoundRecord]
