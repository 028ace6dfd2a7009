"""The contract of feature maps, and the registry that rebuilds them from their state."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from daskrf.errors import InputError

__all__ = ["FeatureMap", "check_n_components", "from_state", "register"]

_REGISTRY: dict[str, type[FeatureMap]] = {}


class FeatureMap(TransformerMixin, BaseEstimator):
    """A deterministic, row-wise map whose inner product approximates :attr:`kernel_`.

    The constructor only stores parameters; `fit` fixes what depends on the input; `transform` gives the same
    bytes for the same row whatever the chunking, process or machine.
    """

    state_version: ClassVar[int] = 1
    """Raised by a map whenever the same parameters begin to give other bytes."""

    @property
    def one_bit(self) -> bool:
        """True where every feature is +1 or -1 (over sqrt(M)) and `transform_bits` exists."""
        return False

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fix what depends on the input."""

    @abstractmethod
    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the features, float32 of shape (n, n_components)."""

    def transform_bits(self, X: Any) -> npt.NDArray[np.uint8]:
        """Return packed sign bits, uint8 of shape (n, ceil(n_components / 8)), of a one-bit map."""
        raise InputError(f"{type(self).__name__} has no one-bit features; use transform instead.")

    def state(self) -> dict[str, Any]:
        """Return the JSON-able dictionary from which :func:`from_state` rebuilds this map."""
        return {
            "class": type(self).__name__,
            "version": self.state_version,
            "parameters": {name: _plain(value) for name, value in self.get_params(deep=False).items()},
            "fitted": self._fitted_state(),
        }

    def _fitted_state(self) -> dict[str, Any]:
        """Return what `fit` learned, JSON-able; empty where nothing depends on the input."""
        return {}

    def _restore(self, fitted: dict[str, Any]) -> None:
        """Put back what :meth:`_fitted_state` returned."""


def register(cls: type[FeatureMap]) -> type[FeatureMap]:
    """Class decorator: make a feature map known to :func:`from_state`."""
    _REGISTRY[cls.__name__] = cls
    return cls


def from_state(state: dict[str, Any]) -> FeatureMap:
    """Rebuild the feature map whose :meth:`FeatureMap.state` is `state`.

    Raises
    ------
    InputError
        If the class is unknown or its bytes were made by another version of it.

    Examples
    --------
    >>> from daskrf.features import TanimotoMinMaxFeatures, from_state
    >>> from_state(TanimotoMinMaxFeatures(128).state()).n_components
    128
    """
    name = state.get("class")
    if name not in _REGISTRY:
        raise InputError(f"Feature map {name!r} is unknown here; known are: {', '.join(sorted(_REGISTRY))}.")
    cls = _REGISTRY[name]
    if state.get("version") != cls.state_version:
        raise InputError(
            f"Feature map {name} has state version {state.get('version')!r}, but this daskrf makes version "
            f"{cls.state_version}; use the daskrf that made it, or make the features anew."
        )
    parameters = state.get("parameters", {})
    unknown = sorted(set(parameters) - set(cls().get_params(deep=False)))
    if unknown:
        raise InputError(f"Feature map {name} has no parameters {', '.join(unknown)}; its state is damaged.")
    feature_map = cls(**parameters)
    feature_map._restore(state.get("fitted", {}))
    return feature_map


def check_n_components(n_components: object) -> int:
    """Return `n_components` as an int, or raise InputError if it is not a positive integer."""
    if isinstance(n_components, bool) or not isinstance(n_components, (int, np.integer)) or n_components < 1:
        raise InputError(f"n_components must be a positive integer, not {n_components!r}.")
    return int(n_components)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
