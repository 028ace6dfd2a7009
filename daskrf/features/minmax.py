"""One-bit random features of the min-max Tanimoto kernel."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import as_csr, check_counts, n_bytes, unpack_bits
from daskrf.compiled.minhash import TILE, minhash_words
from daskrf.errors import InputError
from daskrf.features.base import FeatureMap, check_n_components, register
from daskrf.kernels.tanimoto import TanimotoMinMax

__all__ = ["TanimotoMinMaxFeatures"]


@register
class TanimotoMinMaxFeatures(FeatureMap):
    """One-bit features whose inner product is an unbiased estimate of the min-max Tanimoto kernel.

    For counts x and y, T(x, y) = sum_k min(x_k, y_k) / sum_k max(x_k, y_k). A row is read as the set of
    elements (k, 1), ..., (k, x_k), whose Jaccard similarity is T; feature m is the sign bit of a random
    min-hash of that set, so that E[phi(x) . phi(y)] = T(x, y) with variance (1 - T^2) / M.
    A row without any feature is a set with one element of its own: T(0, 0) = 1, T(0, x) = 0.

    Parameters
    ----------
    n_components : int, default 4096
        Number M of features, any positive integer. The first features of a larger map are those of a smaller
        one with the same seed (up to the scale 1/sqrt(M)).
    distribution : "rademacher"
        Distribution of the feature values: +1 or -1 with equal odds, which has the smallest variance.
    random_state : int, default 0
        Seed of every random number of the map.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Notes
    -----
    Source: Tripp, Bacallado, Singh & Hernandez-Lobato 2023, section 3 (random features from a random hash of
    the min-max kernel and Rademacher variables), with min-wise hashing of expanded sets in place of
    consistent weighted sampling, which is the same in distribution for integer counts.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2, 0, 1], [2, 0, 1], [0, 5, 0]])
    >>> Phi = TanimotoMinMaxFeatures(n_components=1000).fit_transform(X)
    >>> np.round(Phi @ Phi.T, 0).astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """

    def __init__(
        self, n_components: int = 4096, *, distribution: str = "rademacher", random_state: int = 0
    ) -> None:
        self.n_components = n_components
        self.distribution = distribution
        self.random_state = random_state

    @property
    def one_bit(self) -> bool:
        """True: every feature is +1/sqrt(M) or -1/sqrt(M)."""
        return True

    @property
    def kernel_(self) -> TanimotoMinMax:
        """The exact kernel that the features approximate."""
        return TanimotoMinMax()

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters and note the number of columns; nothing else depends on the input.

        Parameters
        ----------
        X : array of shape (n, d), optional
            `transform` then refuses another number of columns than d. Without any fit, or if X is None from
            the beginning, it takes any.
        y : ignored

        Raises
        ------
        InputError
            If a parameter is out of range, or X is not two-dimensional.
        """
        self._check_parameters()
        if X is not None:
            shape = np.shape(X)  # which computes nothing of a lazy array
            if len(shape) != 2:
                raise InputError(f"Fingerprints must have 2 dimensions, not {len(shape)}.")
            self.n_features_in_ = int(shape[1])
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the features of each row of `X`.

        Parameters
        ----------
        X : scipy.sparse, pydata/sparse or dense array of counts, shape (n, d)

        Returns
        -------
        float32 array, shape (n, n_components), entries +1/sqrt(M) or -1/sqrt(M)

        Raises
        ------
        InputError
            If a value is negative, not finite, not an integer or above 65,535, a parameter is bad, or d is
            not that of `fit`.
        """
        bits = self.transform_bits(X)
        signs = unpack_bits(bits, self.n_components)
        signs *= np.float32(1.0 / np.sqrt(self.n_components))
        return signs

    def transform_bits(self, X: Any) -> npt.NDArray[np.uint8]:
        """Return the features of each row of `X` as packed bits: bit 1 is -1/sqrt(M), bit 0 is +1/sqrt(M).

        Parameters
        ----------
        X : scipy.sparse, pydata/sparse or dense array of counts, shape (n, d)

        Returns
        -------
        uint8 array, shape (n, ceil(n_components / 8)), little-endian bit order, padding bits zero

        Raises
        ------
        InputError
            If a value is negative, not finite, not an integer or above 65,535, a parameter is bad, or d is
            not that of `fit`.
        """
        n_components, seed = self._check_parameters()
        csr = check_counts(as_csr(X))
        width = getattr(self, "n_features_in_", csr.shape[1])
        if csr.shape[1] != width:
            raise InputError(
                f"The fingerprints have {csr.shape[1]:,} columns, but the feature map was fitted to "
                f"{width:,}; fingerprint both in the same way."
            )
        padded = -(-n_components // TILE) * TILE
        words = minhash_words(
            csr.indptr,
            csr.indices,
            csr.data,
            seeds.key(seed, "minmax/elements"),
            seeds.words(seed, "minmax/empty", padded).astype(np.uint32),
            seeds.words(seed, "minmax/features", padded),
        )
        bits = words.astype("<u8", copy=False).view(np.uint8)[:, : n_bytes(n_components)]
        bits = np.ascontiguousarray(bits)
        if n_components % 8:
            bits[:, -1] &= np.uint8((1 << n_components % 8) - 1)
        return bits

    def empty_rows(self, X: Any) -> int:
        """Return how many rows of `X` have no feature at all."""
        return int(np.count_nonzero(np.diff(as_csr(X).indptr) == 0))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the output columns, as scikit-learn's `set_output` asks for."""
        return np.array([f"tanimotominmax{m}" for m in range(self.n_components)], dtype=object)

    def _fitted_state(self) -> dict[str, Any]:
        return {"n_features_in": self.n_features_in_} if hasattr(self, "n_features_in_") else {}

    def _restore(self, fitted: dict[str, Any]) -> None:
        if "n_features_in" in fitted:
            self.n_features_in_ = fitted["n_features_in"]

    def _check_parameters(self) -> tuple[int, int]:
        if self.distribution != "rademacher":
            raise InputError(f"distribution must be 'rademacher', not {self.distribution!r}.")
        return check_n_components(self.n_components), seeds.check_seed(self.random_state)
