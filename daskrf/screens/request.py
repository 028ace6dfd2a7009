"""What screens and batches are asked for: what to search, what to rank by, where to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np

from daskrf.acquisition import Acquisition
from daskrf.molecules.structures import Level
from daskrf.screens.demands import Demands
from daskrf.screens.passing import FilterTexts
from daskrf.screens.plates import Plates
from daskrf.sources.inputs import Input


@dataclass(frozen=True)
class SpaceOptions:
    """Options that apply only to the products of a space; see `screen`."""

    within: Mapping[str, Sequence[float | None]] | None = None
    per_block: int | None = None
    rough: str | None = None
    rough_components: int | None = None


@dataclass(frozen=True, kw_only=True)
class ScreenRequest:
    """What `screen`, `suggest` and `found` ask of a library or a space.

    Attributes
    ----------
    model : Path
    input : Input
        The library or the space.
    output : Path
    k : int
        Number of molecules.
    rule : Acquisition
        What ranks them.
    maximize : bool or None
        Whether large values are good; None: as the model says.
    target : str, int, dict, sequence of them, or None
        As in `screen`; `suggest` takes several.
    std : {"candidates", "all", "none"}
        Which molecules get standard deviations.
    seed : int
        Of posterior samples.
    shortlist : float or None
        Fraction of a library, or number of products, that is ranked in full.
    overwrite : bool
    filters : FilterTexts
    exclude_labelled : bool
    exclude_by : {"structure", "parent", "tautomer", "skeleton"}
    products : SpaceOptions
    intervals : tuple of float
        Levels of intervals in percent, ascending.
    """

    model: PurePath
    input: Input
    output: PurePath
    k: int
    rule: Acquisition
    maximize: bool | None = None
    target: str | int | Mapping[str, float] | Sequence[str | int] | None = None
    std: str = "candidates"
    seed: int = 0
    shortlist: float | None = None
    overwrite: bool = False
    filters: FilterTexts = field(default_factory=FilterTexts)
    exclude_labelled: bool = False
    exclude_by: Level = "tautomer"
    products: SpaceOptions = SpaceOptions()
    intervals: tuple[float, ...] = ()

    @property
    def improves_several(self) -> bool:
        """Whether several targets are improved at once, instead of ranking by one target or a sum."""
        return are_several(self.target)


def are_several(target: object) -> bool:
    """Return whether what `suggest` takes as its target is a list of targets.

    Examples
    --------
    >>> are_several(["pIC50", "logD"]), are_several("pIC50"), are_several({"pIC50": 1.0, "logD": -0.5})
    (True, False, False)
    """
    return (isinstance(target, Sequence) and not isinstance(target, (str, bytes))) or (
        isinstance(target, np.ndarray) and target.ndim == 1
    )


@dataclass(frozen=True, kw_only=True)
class SuggestRequest(ScreenRequest):
    """What `suggest` asks for: a batch of `k` molecules.

    Attributes
    ----------
    batch : {"ranked", "believer"}
        How the batch is chosen.
    demands : Demands
    reached : tuple of str
        The reference point, if several targets are improved.
    plates : Plates or None
        The plates that the batch is laid out on.
    """

    batch: str = "ranked"
    demands: Demands = field(default_factory=Demands)
    reached: tuple[str, ...] = ()
    plates: Plates | None = None
