"""The Gaussian process class for a feature map, which the map names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypedDict, Unpack, cast

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError, OptionError
from daskrf.estimators import defaults_of
from daskrf.features import default_map, known_maps
from daskrf.features.featuremap import FeatureMap
from daskrf.gp.processes.coregionalized import CoregionalizedGP
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.local import LocalGaussianGP
from daskrf.gp.processes.process import FeatureSpaceGP, RandomFeatureGP
from daskrf.gp.processes.separate import SeparateGP, SeparateState
from daskrf.gp.processes.sparse import SparseGP
from daskrf.gp.processes.weightedsum import Process
from daskrf.quantities import either

PROCESSES: dict[str, type[FeatureSpaceGP]] = {
    "features": RandomFeatureGP,
    "sparse": SparseGP,
    "local": LocalGaussianGP,
}
"""The classes that a feature map may name as `FeatureMap.process`."""


class ProcessOptions(TypedDict, total=False):
    """Parameters of processes, on features and exact ones; each class has some of them."""

    mean: npt.ArrayLike | None
    signal_variance: npt.ArrayLike | None
    noise_variance: npt.ArrayLike | None
    method: Literal["auto", "eigh", "cholesky"]
    n_components: int | None
    criterion: Literal["evidence", "bound"]
    rows: Literal["all", "nearest"]
    residual: bool
    solver: Literal["auto", "cholesky", "cg"]
    n_draws: int
    n_features: int
    n_landmarks: int | None
    tolerance: float
    max_iterations: int
    random_state: int


def gp_for(feature_map: FeatureMap, **options: Unpack[ProcessOptions]) -> FeatureSpaceGP:
    """Return the unfitted model for a feature map.

    The map names its class (`FeatureMap.process`).

    Parameters
    ----------
    feature_map : FeatureMap
    **options : parameters of the model

    Raises
    ------
    InputError
        If the value of an option is invalid, or, as an OptionError, the map does not support the option.

    Examples
    --------
    >>> from daskrf.features import LandmarkFeatures, TanimotoMinMaxFeatures
    >>> (type(gp_for(LandmarkFeatures(8))).__name__, type(gp_for(TanimotoMinMaxFeatures(8))).__name__)
    ('SparseGP', 'RandomFeatureGP')
    """
    kind = PROCESSES[feature_map.process]
    if unknown := sorted(set(options) - set(defaults_of(kind))):
        raise OptionError(_misplaced(unknown[0], feature_map))
    make: Callable[..., FeatureSpaceGP] = kind
    model = make(feature_map, **options)
    model.check_parameters()
    return model


def _misplaced(option: str, feature_map: object) -> str:
    """Return the message for an option that the map does not support."""
    flag, map_class = f"--{option.replace('_', '-')}", type(feature_map)
    maps = [cls.facts.name for cls in known_maps() if option in defaults_of(PROCESSES[cls.process])]
    if not maps:
        return f"there is no option {flag}; leave it out"
    name = map_class.facts.name if map_class in known_maps() else map_class.__name__
    default = " (the default)" if map_class is type(default_map()) else ""
    return (
        f"{flag} goes with {either('--map', maps)}, not with the map {name}{default}; leave it out, or take "
        "such a map"
    )


def model_from_state(
    state: Mapping[str, object], arrays: Mapping[str, npt.NDArray[np.generic]]
) -> Process | SeparateGP:
    """Rebuild a fitted model of any class from its `state` and `arrays`.

    Raises
    ------
    InputError
        If the class is unknown, the state has another version, or the weights are missing.
    """
    if state.get("class") == SeparateGP.__name__:
        parts = (model_from_state(*each) for each in SeparateGP.stored_parts(state, arrays))
        targets = cast(SeparateState, state)["targets"]
        return SeparateGP([gp for gp in parts if not isinstance(gp, SeparateGP)], targets)
    exact: tuple[type[Process], ...] = ExactGP, CoregionalizedGP
    classes: dict[str, type[Process]] = {kind.__name__: kind for kind in (*PROCESSES.values(), *exact)}
    name = state.get("class")
    if name not in classes:
        raise InputError(f"unknown model class {name!r}; known classes: {', '.join(sorted(classes))}.")
    return classes[name].from_state(state, arrays)
