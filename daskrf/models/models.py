"""Models on disk, as `fit` writes them, and predictors that workers rebuild once per process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from daskrf.arrays import MatrixLike
from daskrf.errors import InputError, StoreError
from daskrf.features.featuremap import FeatureMap
from daskrf.files.backend import as_path
from daskrf.gp import model_from_state
from daskrf.gp.processes.coregionalized import CoregionalizedGP
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.process import PER_TARGET, FeatureSpaceGP
from daskrf.gp.processes.separate import SeparateGP, process_of, processes_of
from daskrf.gp.processes.weightedsum import Process, Target, WeightedSum
from daskrf.gp.validation.probability import ProbabilityLink
from daskrf.jobs.held import held
from daskrf.jobs.memory import (
    EXACT_BLOCKS,
    HELPER,
    RDKIT,
    ROW_BYTES,
    Making,
    MemoryNeed,
    need_of_scores,
    peak,
)
from daskrf.models.classtargets import ClassTarget, classes_in
from daskrf.molecules.counts.spec import FingerprintSpec
from daskrf.sources.mapreference import rebuild
from daskrf.storage.integrity import as_damage
from daskrf.storage.model import Saved, check_numbers, load_model, more_arrays
from daskrf.storage.modelmetadata import ModelMetadata
from daskrf.tables.values.values import scales_in

LIMITS, LIMIT_SIDES = "limits", "limit_sides"
"""Arrays of a model some of whose labels are limits, NaN and 0 for others; `labels` is NaN for limits."""

_ON_REQUEST = ("labelled_rows", "labels", "labelled_smiles", "residuals", LIMITS, LIMIT_SIDES)
"""Arrays that only some users of a model need."""

# Metadata that is used as it is.
_METADATA = {
    **{"gp": dict, "map": dict | None, "spec": dict, "labels": dict, "fingerprint": dict},
    **{"spec_hash": str, "library": str, "fragments": str},
    **{"targets": list, "range": list},
}


@dataclass(frozen=True)
class Model:
    """A fitted model and a record of how it was made.

    Attributes
    ----------
    gp : RandomFeatureGP, SparseGP, LocalGaussianGP, ExactGP, CoregionalizedGP or SeparateGP
        Without its statistics (means only) unless they were requested.
    metadata : dict
        ``gp`` (its state), ``targets``, ``directions`` (of targets, if given), ``scales`` (their
        units and transforms: see `daskrf.tables.values.values.Scale`), ``labels`` (counts),
        ``spec_hash``, ``library`` and ``library_path`` (spec hash and path of the fingerprint store),
        ``fingerprint`` (specification), ``fragments``, ``map`` (None for an exact process).
    path : path
        Where it was read.
    saved : Saved
        Its record; `arrays` reads those of its arrays that were not loaded.
    """

    gp: Process | SeparateGP
    metadata: ModelMetadata
    path: PurePath = field(repr=False)
    saved: Saved = field(repr=False, compare=False)

    def arrays(self, *names: str) -> list[np.ndarray]:
        """Return further arrays of this model, such as its labels; see `daskrf.storage.model.more_arrays`.

        Raises
        ------
        StoreError
            They are damaged, or another model has taken its place.
        """
        return list(more_arrays(self.path, self.saved, names).values())

    def limits_of(self, target: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return limits and sides of the labels of a target, NaN and 0 for values; None without limits."""
        if LIMITS not in self.saved.entries:
            return None
        bound, side = self.arrays(LIMITS, LIMIT_SIDES)
        return bound[:, target], side[:, target]

    @property
    def targets(self) -> list[str]:
        """Names of the targets."""
        return list(self.metadata["targets"])

    def name_of(self, target: Target) -> str:
        """Return the name of a target, or a sum of targets as a formula."""
        return target.name if isinstance(target, WeightedSum) else self.targets[target]

    def scales_of(self, targets: Sequence[str]) -> tuple[str, ...]:
        """Describe those of some targets whose units or transforms are known."""
        scales = scales_in(self.metadata)
        return tuple(scale.words() for scale in scales if scale.worth_stating and scale.name in targets)

    @property
    def classes(self) -> list[ClassTarget | None]:
        """The classes of each target; None for a target of numbers."""
        return classes_in(self.metadata)

    def link_of(self, target: Target) -> ProbabilityLink | None:
        """Return what gives the probability of the positive class of a target; None if it has none."""
        if isinstance(target, WeightedSum) or (classes := self.classes[target]) is None:
            return None
        return classes.link

    @property
    def directions(self) -> dict[str, str]:
        """Whether to "maximize" or "minimize" each target, by name, if given at the fit."""
        return dict(self.metadata.get("directions", {}))


def read_model(path: PurePath, *, statistics: bool = True) -> Model:
    """Read a model written by `fit`; without `statistics` it is small and predicts means only.

    Raises
    ------
    StoreError
        If there is no model, or it is damaged or from another version.
    """
    saved = load_model(path, ())
    names = [name for name in saved.entries if name not in _ON_REQUEST]
    arrays = more_arrays(path, saved, names if statistics else [n for n in names if "statistics/" not in n])
    with as_damage(path, advice := "restore it from a copy, or fit again"), _of_model(path, advice):
        check_numbers(saved.metadata["gp"])
        gp = model_from_state({**saved.metadata["gp"], "feature_map": saved.metadata["map"]}, arrays)
        metadata = _checked_metadata(gp, saved)
    gp.feature_map_ = None  # sources pass features to the model
    return Model(gp, metadata, path, saved)


@contextmanager
def _of_model(path: PurePath, advice: str) -> Iterator[None]:
    """Name the model in errors about its content."""
    try:
        yield
    except InputError as error:
        raise StoreError(f"{path} is damaged, or of another version ({error}); {advice}") from error


def _checked_metadata(gp: Process | SeparateGP, saved: Saved) -> ModelMetadata:
    """Reject metadata that are not a model's, or that describe a different number of targets."""
    for name, kind in _METADATA.items():
        if not isinstance(saved.metadata.get(name), kind):
            raise ValueError(f"its {name} is missing or wrong")
    metadata = saved.of_model
    n_targets = len(metadata["targets"])
    names = (*PER_TARGET, "left_out_")  # only models on features have the last one
    numbers = [getattr(gp, name) for name in names if hasattr(gp, name)]
    shapes = {(n_targets,), *(array.shape for array in numbers)}
    if hasattr(gp, "weights_"):
        shapes.add(gp.weights_.shape[1:])
    ranges = np.array(metadata["range"], dtype=np.float64)
    texts = all(isinstance(name, str) for name in metadata["targets"])
    if len(shapes) > 1 or ranges.shape != (n_targets, 2) or not texts:
        raise ValueError("its arrays do not match the number of its targets")
    if len(classes_in(metadata)) != n_targets:
        raise ValueError("its classes do not match the number of its targets")
    FingerprintSpec.from_state(metadata["fingerprint"])
    return metadata


def open_model(path: str, spec_hash: str, *, statistics: bool) -> Model:
    """Return the model at `path`, read once per process; refuse it unless it has this `spec_hash`."""
    key = path, spec_hash, statistics
    return held("model", key, lambda: _checked(path, spec_hash, statistics=statistics))


def _checked(path: str, spec_hash: str, *, statistics: bool) -> Model:
    model = read_model(as_path(path), statistics=statistics)
    if model.metadata["spec_hash"] != spec_hash:
        raise StoreError(f"The model {path} was fitted again during the run; run the same command again.")
    return model


def feature_map_of(model: Model) -> FeatureMap | None:
    """Return the feature map that the model was fitted with, or None for an exact process."""
    state = model.metadata["map"]
    return None if state is None else rebuild(state)


def target_names(model: Model, prefix: str) -> list[str]:
    """Return a column name for each target; just the prefix if there is only one target."""
    names = model.targets
    return [prefix] if len(names) == 1 else [f"{prefix}_{name}" for name in names]


def predictions_of(
    model: Model,
    target: Target,
    phi: MatrixLike,
    diagonal: npt.NDArray[np.float64] | None,
    *,
    std: bool,
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the mean for a target and, if wanted, the standard deviations of f and of y.

    With standard deviations, a target that is two classes also has the probability of the positive one.
    """
    process, position = process_of(model.gp, target)
    if not std:
        return {"mean": process.predict(phi, target=position)}
    predictions = process.predict(phi, return_std=True, of="both", target=position, diagonal=diagonal)
    columns = dict(zip(("mean", "std", "std_y"), predictions, strict=True))
    if (link := model.link_of(target)) is not None:
        columns["probability"] = link(columns["mean"], columns["std"])
    return columns


def score_seconds(model: Model, n_components: int, *, std: bool, n_samples: int | None = None) -> float:
    """Return the rough cost of scoring a row on one core, without its features, used to size tasks.

    `n_components` is the number of features per row, and `n_samples` that of posterior samples, if standard
    deviations are approximate.
    """
    exact = [gp for gp in processes_of(model.gp) if isinstance(gp, (ExactGP, CoregionalizedGP))]
    if exact:
        return sum(gp.seconds_per_row(std=std) for gp in exact)
    share = 1.0 if n_samples is None else 2.0 * n_samples / n_components
    return std * 5e-4 * (n_components / 4096) ** 2 * share


def need_of_model(
    model: Model, making: Making, k: int, *, std: bool, all_targets: bool = False
) -> MemoryNeed:
    """Return the memory needed by a task that scores partitions with a model; see `need_of_scores`."""
    parts = processes_of(model.gp)
    exact = [gp for gp in parts if isinstance(gp, (ExactGP, CoregionalizedGP))]
    exact_bytes = sum(gp.memory_of_model(std=std) for gp in exact)
    if not exact_bytes:
        n_targets = len(model.targets) if all_targets else 1
        need = need_of_scores(making, k, std=std, n_targets=n_targets, n_sums=len(parts))
        n_limits = sum(gp.n_limits_ for gp in parts if isinstance(gp, FeatureSpaceGP)) if std else 0
        return need.plus("the features of limits", n_limits * making.row_bytes) if n_limits else need
    kernel = {
        "the model, ready for kernel values": exact_bytes,
        "a partition of fingerprints": making.partition,
    }
    need = peak(
        "standard deviations" if std else "screen",
        {**kernel, "decoding it": making.decoding_more, "the best k": 64 * k},
        {**kernel, "kernel values and draws": EXACT_BLOCKS, "the best k": 5 * 64 * k},
        {**kernel, "rows that are described": ROW_BYTES * making.rows if not k else 0},
    )
    return need.plus(RDKIT, HELPER) if making.nonzeros is None else need
