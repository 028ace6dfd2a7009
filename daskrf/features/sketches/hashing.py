"""Random hashes of weighted sets that collide with the probability of their min-max Tanimoto similarity."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import ndtri

from daskrf import seeds
from daskrf.arrays import MatrixLike, as_csr, check_counts, check_weights, n_bytes
from daskrf.engine import TILE, Hashes, Rows, engine

Hashing = Literal["minwise", "cws"]

_STREAMS = {"minwise": "minmax", "cws": "cws"}
_N_LEVELS = 1 << 16
_FACTORS = 1 << 14  # factors of products held at a time: 2 KiB a row


class TanimotoHash:
    """`n_hashes` independent hashes of non-negative vectors, each with P(h(x) = h(y)) = T(x, y).

    Hash m depends only on (hashing, seed, m). A row of zeros has a hash of its own.

    Parameters
    ----------
    hashing : "minwise" (integer counts) or "cws" (real weights)
    n_hashes : int
    seed : int
    start : int, default 0
        Number of the first hash.
    """

    def __init__(self, hashing: str, n_hashes: int, seed: int, start: int = 0) -> None:
        self.hashing = hashing
        self.n_hashes = n_hashes
        self.start = start
        self._seed = seed
        element = np.uint64(seeds.key(seed, f"{_STREAMS[hashing]}/elements"))
        self._hashes = Hashes(hashing == "cws", element, *self._stream("features"), self._stream("empty")[0])

    def _stream(self, name: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return the low and the high halves of one random word for each hash, up to whole tiles."""
        padded = -(-self.n_hashes // TILE) * TILE
        words = seeds.words(self._seed, f"{_STREAMS[self.hashing]}/{name}", padded, self.start)
        return words.astype(np.uint32), (words >> np.uint64(32)).astype(np.uint32)

    def check(self, X: MatrixLike) -> sp.csr_matrix:
        """Return `X` as canonical CSR of uint16 counts or float64 weights, or raise InputError."""
        csr = as_csr(X)
        if self.hashing == "minwise":
            return check_counts(csr)
        if csr.dtype != np.float64:
            parts = csr.data.astype(np.float64), csr.indices, csr.indptr
            # Check again: tiny numbers of a longer type have become zero.
            csr = as_csr(sp.csr_matrix(parts, shape=csr.shape))
        return check_weights(csr)

    def words(self, csr: sp.csr_matrix) -> npt.NDArray[np.uint64]:
        """Return a random bit for each hash of each row, 64 a word: uint64 (n, ceil(n_hashes / 64))."""
        return engine().hash_bits(Rows(csr.indptr, csr.indices, csr.data), self._hashes)

    def normals(self, csr: sp.csr_matrix, scale: float) -> npt.NDArray[np.float32]:
        """Return a normal number for each hash of each row, times `scale`: float32 (n, n_hashes)."""
        out = np.empty((csr.shape[0], self.n_hashes), np.float32)
        rows, levels = Rows(csr.indptr, csr.indices, csr.data), normal_levels() * np.float32(scale)
        engine().hash_levels(rows, self._hashes, *self._stream("levels"), levels, out)
        return out


class TanimotoParities:
    """Bits whose signs have the mean product sum_n p_n T^n, where T is the min-max Tanimoto kernel.

    Feature m has a random degree N, P(N = n) = p_n, and is the product of N independent one-bit features of
    T: the XOR of their bits. For degree 0 it is +1. The variance, 1 - k^2, is the smallest that features of
    this kind can have. With the same seed, the first features of a larger number are those of a smaller one.

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
        degrees = np.searchsorted(np.cumsum(probabilities), uniform, side="right")
        # Whatever is missing to a sum of 1 goes to the largest degree.
        self.degrees = np.minimum(degrees, probabilities.size - 1)

    def bits(self, X: MatrixLike) -> npt.NDArray[np.uint8]:
        """Return packed bits, uint8 of shape (n, ceil(n_features / 8)), padding bits zero."""
        csr = self._hash.check(X)
        words = np.zeros((csr.shape[0], -(-self._n_features // TILE)), np.uint64)
        starts = np.concatenate([[0], np.cumsum(self.degrees)])
        n_factors = int(starts[-1])
        for start in range(0, n_factors, _FACTORS):
            hashes = TanimotoHash(self._hashing, min(_FACTORS, n_factors - start), self._seed, start)
            inside = np.clip(starts - start, 0, hashes.n_hashes)
            engine().add_parities(hashes.words(csr), inside, words)
        return leading_bits(words, self._n_features)


def leading_bits(words: npt.NDArray[np.uint64], n_bits: int) -> npt.NDArray[np.uint8]:
    """Return the first `n_bits` bits of each row of 64-bit words as bytes, with zero padding."""
    bits = words.astype("<u8", copy=False).view(np.uint8)[:, : n_bytes(n_bits)]
    bits = np.ascontiguousarray(bits)
    if n_bits % 8:
        bits[:, -1] &= np.uint8((1 << n_bits % 8) - 1)
    return bits


@cache
def normal_levels() -> npt.NDArray[np.float32]:
    """Return 65,536 equally likely numbers that stand for a standard normal variable; float32, ascending.

    They are the normal quantiles at the midpoints (i + 1/2) / 65,536, scaled to variance 1 and symmetric
    about 0. Their fourth moment is 2.9992, instead of 3.

    Examples
    --------
    >>> levels = normal_levels().astype(float)
    >>> [round(float(np.mean(levels**power)), 4) for power in (1, 2, 3, 4)]
    [0.0, 1.0, 0.0, 2.9992]
    """
    upper = ndtri((np.arange(_N_LEVELS // 2, _N_LEVELS) + 0.5) / _N_LEVELS)
    upper /= np.sqrt(np.mean(upper**2))
    levels = np.concatenate([-upper[::-1], upper]).astype(np.float32)
    levels.setflags(write=False)
    return levels
