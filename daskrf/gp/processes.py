"""The Gaussian process of a feature map, which the map names."""

from __future__ import annotations

import importlib
from typing import Any

import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.features import known_maps
from daskrf.gp.exact import ExactGP
from daskrf.gp.process import FeatureSpaceGP
from daskrf.gp.separate import Process, SeparateGP

__all__ = ["gp_for", "model_from_state", "process_named"]


def process_named(name: str) -> type[FeatureSpaceGP]:
    """Return the class of a Gaussian process of the name ``module:class`` that a feature map has.

    Examples
    --------
    >>> process_named("daskrf.gp.sparse:SparseGP").__name__
    'SparseGP'
    """
    module, _, cls = name.partition(":")
    return getattr(importlib.import_module(module), cls)


def gp_for(feature_map: Any, **options: Any) -> FeatureSpaceGP:
    """Return the unfitted model for a feature map.

    The map names it (`FeatureMap.process`).

    Parameters
    ----------
    feature_map : FeatureMap
    **options : parameters of the model

    Raises
    ------
    InputError
        If there is no such option for that map, or its value is bad.

    Examples
    --------
    >>> from daskrf.features import LandmarkFeatures, TanimotoMinMaxFeatures
    >>> (type(gp_for(LandmarkFeatures(8))).__name__, type(gp_for(TanimotoMinMaxFeatures(8))).__name__)
    ('SparseGP', 'RandomFeatureGP')
    """
    kind = process_named(feature_map.process)
    unknown = set(options) - set(kind._get_param_names())
    if unknown:
        raise InputError(
            f"{kind.__name__}, the model for {type(feature_map).__name__}, has no option "
            f"{', '.join(sorted(unknown))}: leave it out, or take another map."
        )
    model = kind(feature_map, **options)
    model.check_parameters()
    return model


def model_from_state(state: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Process | SeparateGP:
    """Rebuild a fitted model of any class from its `state` and `arrays`.

    Raises
    ------
    InputError
        If the class is unknown or of another version, or the weights are missing.
    """
    if state.get("class") == SeparateGP.__name__:
        parts = (model_from_state(*part) for part in SeparateGP.stored_parts(state, arrays))
        return SeparateGP([part for part in parts if not isinstance(part, SeparateGP)], state["targets"])
    kinds = (process_named(name) for name in {cls.process for cls in known_maps()})
    classes: dict[Any, type[Process]] = {kind.__name__: kind for kind in kinds}
    classes[ExactGP.__name__] = ExactGP
    name = state.get("class")
    if name not in classes:
        raise InputError(f"model {name!r} is unknown here; known are: {', '.join(sorted(classes))}.")
    return classes[name].from_state(state, arrays)
