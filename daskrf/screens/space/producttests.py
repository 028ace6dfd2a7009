"""Filters that the synthons of a space do not decide: RDKit tests products, the best first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from daskrf.molecules.filters import Filters
from daskrf.screens.passing import PASSED, reason_of
from daskrf.screens.space.productscores import Scored


@dataclass
class ProductTests:
    """What RDKit tests on products, each molecule once.

    Attributes
    ----------
    filters : Filters
    """

    filters: Filters
    _codes: dict[str, int] = field(default_factory=dict)

    def codes(self, scores: Scored, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return, for the product at each place, `PASSED` or the number of the first filter that it fails."""
        names = scores.named(places.tolist())
        new = [name for name in dict.fromkeys(names) if name not in self._codes]
        self._codes.update(zip(new, self.filters.first_failed(new), strict=True))
        return np.array([self._codes[name] for name in names], np.int64)

    def passes(self, scores: Scored, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the products at some places pass."""
        return self.codes(scores, places) == PASSED

    def reasons(self, codes: npt.NDArray[np.int64]) -> Counter[str]:
        """Return how many products fail, by the reason."""
        words = self.filters.words
        return Counter(
            reason_of(words[code]) if code >= 0 else "cannot be computed by RDKit"
            for code in codes.tolist()
            if code != PASSED
        )
