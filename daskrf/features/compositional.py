"""One-bit random features of power series of the min-max Tanimoto kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import unpack_bits
from daskrf.engine import TILE, engine
from daskrf.errors import InputError
from daskrf.features.base import check_n_components, register
from daskrf.features.facts import MapFacts
from daskrf.features.hashing import HashedFeatures, TanimotoHash, leading_bits
from daskrf.kernels.compositional import CompositionalTanimoto

__all__ = ["CompositionalTanimotoFeatures"]

_PART = 1 << 14
"""Factors that are held at a time: 2 KiB a row."""


@register
class CompositionalTanimotoFeatures(HashedFeatures):
    """One-bit features whose inner product is an unbiased estimate of f(T) / f(1), f a power series.

    f(T) = sum_n a_n T^n with all a_n >= 0, and T the min-max Tanimoto kernel. Feature m has a random degree N
    with P(N = n) = a_n / f(1), and is the product of N independent one-bit features of T: the XOR of their
    bits, and +1 for the degree 0. So E[phi(x) . phi(y)] = k(x, y) = f(T) / f(1), with variance
    (1 - k^2) / M, the smallest that features of this kind can have. The cost is that of E[N] features of T.

    Parameters
    ----------
    kernel : CompositionalTanimoto, default T^2
        The kernel to approximate.
    n_components : int, default 4096
        Number M of features, any positive integer. The first features of a larger map are those of a smaller
        one with the same seed (up to the scale 1/sqrt(M)).
    hashing : {"minwise", "cws"}, default "minwise"
        Min-wise hashing for integer counts, or consistent weighted sampling for real weights; see
        `TanimotoMinMaxFeatures`.
    random_state : int, default 0
        Seed of every random number of the map.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Notes
    -----
    Source: Kar & Karnick 2012, section 6 (random features of compositional kernels), with degrees drawn by
    a_n / f(1): since the factors are +1 or -1, all features then have the same weight, and each is one bit.
    Factors are those of Tripp et al. 2023, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2, 0, 1], [2, 0, 1], [0, 5, 0]])
    >>> Phi = CompositionalTanimotoFeatures(n_components=1000).fit_transform(X)
    >>> np.round(Phi @ Phi.T, 0).astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """

    facts = MapFacts(
        name="compositional",
        kernel="power series of T",
        rows="counts, weights",
        features="bits",
        cost="N z M",
        holds="12 N M",
        learns="nothing",
        reference="Kar & Karnick 2012, section 6; Tripp et al. 2023, section 3",
    )

    def __init__(
        self,
        kernel: CompositionalTanimoto = CompositionalTanimoto(),  # noqa: B008, kernels are immutable
        n_components: int = 4096,
        *,
        hashing: str = "minwise",
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.hashing = hashing
        self.random_state = random_state

    @property
    def seconds_per_component(self) -> float:
        """Rough cost of one feature of one molecule on one core: that of its expected number of factors."""
        probabilities = self.kernel.degree_probabilities()
        factors = float(probabilities @ np.arange(probabilities.size))
        return super().seconds_per_component * max(1.0, factors)

    @property
    def one_bit(self) -> bool:
        """True: every feature is +1/sqrt(M) or -1/sqrt(M)."""
        return True

    @property
    def kernel_(self) -> CompositionalTanimoto:
        """The exact kernel that the features approximate."""
        return self.kernel

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the features of each row of `X`.

        Parameters
        ----------
        X : scipy.sparse, pydata/sparse or dense array, shape (n, d)
            Counts for `hashing` "minwise", weights for "cws".

        Returns
        -------
        float32 array, shape (n, n_components), entries +1/sqrt(M) or -1/sqrt(M)

        Raises
        ------
        InputError
            If a value is negative or not finite, or, with "minwise", not an integer or above 65,535; a
            parameter is bad; or d is not that of `fit`.
        """
        bits = self.transform_bits(X)
        signs = unpack_bits(bits, self.n_components)
        signs *= np.float32(1.0 / np.sqrt(self.n_components))
        return signs

    def transform_bits(self, X: Any) -> npt.NDArray[np.uint8]:
        """Return the features of each row of `X` as packed bits: bit 1 is -1/sqrt(M), bit 0 is +1/sqrt(M).

        Parameters
        ----------
        X : scipy.sparse, pydata/sparse or dense array, shape (n, d)
            Counts for `hashing` "minwise", weights for "cws".

        Returns
        -------
        uint8 array, shape (n, ceil(n_components / 8)), little-endian bit order, padding bits zero

        Raises
        ------
        InputError
            As `transform`.
        """
        csr = self._checked(self._hashes(), X)
        words = np.zeros((csr.shape[0], -(-self.n_components // TILE)), np.uint64)
        starts = np.concatenate([[0], np.cumsum(self.degrees())])
        for part in self._parts(int(starts[-1])):
            inside = np.clip(starts - part.start, 0, part.n_hashes)
            engine().add_parities(part.words(csr), inside, words)
        return leading_bits(words, self.n_components)

    def degrees(self) -> npt.NDArray[np.int64]:
        """Return the degree of each feature: of how many features of T it is the product.

        Returns
        -------
        int64 array, shape (n_components,)

        Raises
        ------
        InputError
            If a parameter is bad.
        """
        self._hashes()
        probabilities = self.kernel.degree_probabilities()
        drawn = seeds.words(self.random_state, "compositional/degrees", self.n_components)
        uniform = (drawn >> np.uint64(11)) * 2.0**-53
        found = np.searchsorted(np.cumsum(probabilities), uniform, side="right")
        # What the sum lacks of 1 goes to the largest degree.
        return np.minimum(found, probabilities.size - 1)

    def _parts(self, n_factors: int) -> Iterator[TanimotoHash]:
        for start in range(0, n_factors, _PART):
            yield TanimotoHash(self.hashing, min(_PART, n_factors - start), self.random_state, start)

    def _hashes(self) -> TanimotoHash:
        """Return a first hash, or raise InputError if a parameter is bad."""
        if not isinstance(self.kernel, CompositionalTanimoto):
            raise InputError(f"kernel must be a CompositionalTanimoto, not {self.kernel!r}.")
        check_n_components(self.n_components)
        return TanimotoHash(self.hashing, 1, seeds.check_seed(self.random_state))
