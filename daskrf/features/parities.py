"""One-bit features of products of min-max Tanimoto kernels: the XOR of several bits each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.engine import TILE, engine
from daskrf.features.hashing import TanimotoHash, leading_bits

__all__ = ["TanimotoParities"]

_PART = 1 << 14
"""Factors that are held at a time: 2 KiB a row."""


class TanimotoParities:
    """Bits whose signs have the mean product sum_n p_n T^n, T the min-max Tanimoto kernel.

    Feature m has a random degree N, P(N = n) = p_n, and is the product of N independent one-bit features of
    T: the XOR of their bits, and +1 for the degree 0. The variance, 1 - k^2, is the smallest that features of
    this kind can have. The first features of more are those of fewer, of one seed.

    Parameters
    ----------
    probabilities : float64 array
        p_0, p_1, ...
    hashing : "minwise" or "cws"
    n_features : int
    seed : int
    """

    def __init__(
        self, probabilities: npt.NDArray[np.float64], hashing: str, n_features: int, seed: int
    ) -> None:
        self._hash = TanimotoHash(hashing, 1, seed)
        self._hashing, self._n_features, self._seed = hashing, n_features, seed
        drawn = seeds.words(seed, "compositional/degrees", n_features)
        uniform = (drawn >> np.uint64(11)) * 2.0**-53
        found = np.searchsorted(np.cumsum(probabilities), uniform, side="right")
        # What the sum lacks of 1 goes to the largest degree.
        self.degrees = np.minimum(found, probabilities.size - 1)

    def bits(self, X: Any) -> npt.NDArray[np.uint8]:
        """Return packed bits, uint8 of shape (n, ceil(n_features / 8)), padding bits zero."""
        csr = self._hash.check(X)
        words = np.zeros((csr.shape[0], -(-self._n_features // TILE)), np.uint64)
        starts = np.concatenate([[0], np.cumsum(self.degrees)])
        n_factors = int(starts[-1])
        for start in range(0, n_factors, _PART):
            part = TanimotoHash(self._hashing, min(_PART, n_factors - start), self._seed, start)
            inside = np.clip(starts - start, 0, part.n_hashes)
            engine().add_parities(part.words(csr), inside, words)
        return leading_bits(words, self._n_features)
