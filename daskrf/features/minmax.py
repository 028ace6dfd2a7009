"""Random features of the min-max Tanimoto kernel: one-bit or Gaussian, of counts or of real weights."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from daskrf.arrays import MatrixLike, unpack_bits
from daskrf.features.featuremap import FeatureMap, MapFacts
from daskrf.features.sketches.hashing import Hashing, TanimotoHash, leading_bits
from daskrf.kernels.tanimoto import TanimotoMinMax
from daskrf.seeds import RandomState


@dataclass(eq=False, repr=False)
class TanimotoMinMaxFeatures(FeatureMap):
    """Features whose inner product is an unbiased estimate of the min-max Tanimoto kernel.

    T(x, y) = sum_k min(x_k, y_k) / sum_k max(x_k, y_k). A random hash h_m with P(h_m(x) = h_m(y)) = T(x, y)
    gives feature m: a random number xi_m(h_m(x)) / sqrt(M) of mean 0 and variance 1 / M. So E[phi(x) .
    phi(y)] = T(x, y), with variance (1 + T (E[xi^4] - 1 - T)) / M: (1 - T^2) / M for signs, (1 + 2 T - T^2) /
    M for normal numbers.
    A row without any feature has a hash of its own: T(0, 0) = 1, T(0, x) = 0.

    Parameters
    ----------
    n_components : int, default 4096
        Number M of features, any positive integer. The first features of a larger map are those of a smaller
        one with the same seed (up to the scale 1/sqrt(M)).
    distribution : {"rademacher", "gaussian"}, default "rademacher"
        Distribution of xi. rademacher: +1 or -1 with equal odds, which has the smallest variance and takes
        one bit a feature. gaussian: normal numbers (65,536 different ones, with E[xi^4] = 2.9992), which take
        a float32 each.
    hashing : {"minwise", "cws"}, default "minwise"
        minwise: min-wise hashing, for integer counts up to 65,535. cws: consistent weighted sampling, for any
        finite weights of at least 0. On counts both have the same distribution, and min-wise hashing is
        faster.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Notes
    -----
    Source: Tripp, Bacallado, Singh & Hernandez-Lobato 2023, section 3 (equation 4 and theorem 3.1). Min-wise
    hashing reads a row of counts as the set of elements (k, 1), ..., (k, x_k), whose Jaccard similarity is T
    (Broder 1997). Consistent weighted sampling is that of Ioffe 2010, with ln a = ln c - ln y - r (their
    equation 31 is misprinted). All its random numbers follow from the seed, the column's identifier and m, so
    identifiers need no folding. Hashes have 32 bits; chance collisions bias T by less than 1e-6.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2, 0, 1], [2, 0, 1], [0, 5, 0]])
    >>> Phi = TanimotoMinMaxFeatures(n_components=1000).fit_transform(X)
    >>> np.round(Phi @ Phi.T, 0).astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    >>> Phi = TanimotoMinMaxFeatures(n_components=1000, hashing="cws").fit_transform(X * 0.3)
    >>> np.round(Phi @ Phi.T, 0).astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """

    facts = MapFacts(
        name="minmax",
        kernel="T = sum min / sum max",
        rows="counts, weights",
        features="bits or floats",
        cost="z M",
        holds="12 M",
        learns="nothing",
        reference="Tripp et al. 2023, section 3",
        use="try it first: the most compact, the fastest to sum, and the same to the bit in any order",
        example="--hashing cws",
        is_default=True,
    )

    added_parameters: ClassVar[dict[str, object]] = {"hashing": "minwise"}

    n_components: int = 4096
    _: KW_ONLY
    distribution: Literal["rademacher", "gaussian"] = "rademacher"
    hashing: Hashing = "minwise"
    random_state: RandomState = 0

    @property
    def one_bit(self) -> bool:
        """True with `distribution` "rademacher": every feature is +1/sqrt(M) or -1/sqrt(M)."""
        return self.distribution == "rademacher"

    @property
    def kernel_(self) -> TanimotoMinMax:
        return TanimotoMinMax()

    @property
    def seconds_per_component(self) -> float:
        return 6e-8 if self.hashing == "cws" else 6e-9

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        scale = 1.0 / np.sqrt(self.n_components)
        if self.one_bit:
            signs = unpack_bits(self.transform_bits(X), self.n_components)
            signs *= np.float32(scale)
            return signs
        hashes = self._hashes()
        return hashes.normals(hashes.check(X), scale)

    def transform_bits(self, X: MatrixLike) -> npt.NDArray[np.uint8]:
        if not self.one_bit:
            return super().transform_bits(X)
        hashes = self._hashes()
        return leading_bits(hashes.words(hashes.check(X)), hashes.n_hashes)

    def words(self) -> str:
        if self.one_bit:
            kind, variance = "one-bit Tanimoto (min-max) features", "(1 - T^2)/M"
        else:
            kind, variance = "Gaussian Tanimoto (min-max) features", "(1 + 2T - T^2)/M"
        how = ", by consistent weighted sampling" if self.hashing == "cws" else ""
        return f"{kind}{how}, {self.size_words}: unbiased, variance {variance}"

    def _hashes(self) -> TanimotoHash:
        return TanimotoHash(self.hashing, int(self.n_components), self.seed_)
