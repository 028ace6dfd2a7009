"""Feature maps as sent with tasks: as a few numbers, or as the name and digest of a file.

Most maps are a handful of parameters. The landmarks of a sparse Gaussian process take up to some megabytes,
too much to send with every task: they are in a file beside the output, read once per process.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from daskrf.features import FeatureMap, from_state
from daskrf.features.featuremap import MapState, map_key
from daskrf.files.backend import absolute, as_path
from daskrf.storage.integrity import as_damage
from daskrf.storage.model import made_once, needed_checkpoint

_INLINE = 4_096  # maximum characters of a state sent inside a task


@dataclass(frozen=True)
class MapReference:
    """A reference to a feature map, small enough to send with each task; equal if the maps are equal.

    Attributes
    ----------
    digest : str
        SHA-256 of the state as text.
    text : str
        The state; empty if it is in the file `path`.
    path : str
        File that holds the state.
    """

    digest: str
    text: str = field(default="", compare=False, repr=False)
    path: str = field(default="", compare=False, repr=False)

    @classmethod
    def of(cls, state: MapState) -> MapReference:
        """Return a reference to the map of `state` that holds the state itself."""
        text = json.dumps(state, sort_keys=True)
        return cls(hashlib.sha256(text.encode()).hexdigest(), text)

    def carried(self, directory: PurePath) -> MapReference:
        """Return what is sent with tasks: this or, for a long state, a reference to a file in `directory`."""
        if len(self.text) <= _INLINE:
            return self
        path = as_path(absolute(directory)) / f"map-{self.digest[:16]}"
        made_once(path, self.digest, lambda: ({}, {"text": self.text}))
        return replace(self, text="", path=str(path))

    @property
    def state(self) -> MapState:
        """State of the map."""
        state: MapState = json.loads(self.text or self._read())
        return state

    @property
    def feature_map(self) -> FeatureMap:
        """The map, rebuilt once per process."""
        return _rebuilt(self)

    def _read(self) -> str:
        return needed_checkpoint(self.path, self.digest).metadata["text"]


@functools.lru_cache(maxsize=4)
def _rebuilt(reference: MapReference) -> FeatureMap:
    feature_map = from_state(reference.state)
    # Check the parameters of a map that learns nothing; others were checked when they were fitted.
    return feature_map.fit(None) if feature_map.learns_from == "nothing" else feature_map


def rebuild(state: MapState | None) -> FeatureMap:
    """Return the feature map of a state; within a process, the same object for the same state.

    Raises
    ------
    StoreError
        If no map has this state.
    """
    with as_damage("the feature map of a store or a model"):
        assert state is not None
        return MapReference.of(state).feature_map


def agrees(feature_map: FeatureMap, state: MapState) -> bool:
    """Return whether `state` is that of this map or, if the map is not fitted yet, of a possible fit of it.

    Examples
    --------
    >>> from daskrf import TanimotoMinMaxFeatures
    >>> [agrees(TanimotoMinMaxFeatures(64), TanimotoMinMaxFeatures(m).state()) for m in (64, 65)]
    [True, False]
    """
    mine = feature_map.state()
    with as_damage("the feature map of a store or a model"):
        if feature_map.is_fitted():
            return map_key(mine) == map_key(state)
        stored: Mapping[str, object] = state
        return all(value == stored.get(name) for name, value in mine.items() if name != "fitted")
