"""Variances of polynomial sketches, in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MatrixLike, as_csr, check_finite
from daskrf.errors import InputError

Array = npt.NDArray[np.float64]


def padded_width(n_columns: int) -> int:
    """Return the smallest power of two of at least `n_columns`.

    Examples
    --------
    >>> padded_width(1), padded_width(5), padded_width(8)
    (1, 8, 8)
    """
    return 1 << max(0, n_columns - 1).bit_length()


def same_block_pairs(n_components: Any, width: int) -> Any:
    """Return c(D, d): the number of ordered pairs of different features that share a block of d."""
    whole, rest = divmod(n_components, width)
    return whole * width * (width - 1) + rest * (rest - 1)


def on_own_columns(*rows: sp.csr_matrix) -> list[sp.csr_matrix]:
    """Return canonical matrices restricted to the columns that occur in any of them, for fast products."""
    columns = np.unique(np.concatenate([csr.indices for csr in rows]))
    restricted = []
    for csr in rows:
        places = np.searchsorted(columns, csr.indices)
        parts = csr.data.astype(np.float64), places, csr.indptr
        restricted.append(sp.csr_matrix(parts, shape=(csr.shape[0], columns.size)))
    return restricted


class Moments:
    """Moments of pairs of rows, from which the variances of all sketches follow.

    Parameters
    ----------
    dot, norms, overlap : float64 arrays of one shape
        x.y, |x|^2 |y|^2 and sum_k x_k^2 y_k^2 of each pair.
    width : int
        Number of columns, padded to a power of two.

    Attributes
    ----------
    gaussian, rademacher : float64 arrays
        E[(w.x)^2 (w.y)^2], w of normal numbers or of signs.
    absolute, phase : float64 arrays
        E[|z|^2] and E[z^2] of z = (w.x) conj(w.y), w of complex signs.
    blocked : float64 array
        E[(v.x) (v.y) (w.x) (w.y)] for two different rows v, w of a randomized Hadamard matrix.
    """

    def __init__(self, dot: Array, norms: Array, overlap: Array, width: int) -> None:
        self.dot = dot
        self.gaussian = norms + 2.0 * dot**2
        self.rademacher = self.gaussian - 2.0 * overlap
        self.absolute = norms + dot**2 - overlap
        self.phase = 2.0 * dot**2 - overlap
        # A single column has no second row.
        rest = max(1, width - 1)
        self.blocked = dot**2 - (norms + dot**2 - 2.0 * overlap) / rest
        self.width = width

    @classmethod
    def of(cls, X: sp.csr_matrix, Y: sp.csr_matrix, c: float = 0.0) -> Moments:
        """Return moments of all pairs of rows of `X` and `Y`, with a column of sqrt(c) if c is above 0."""
        width = padded_width(X.shape[1] + (c > 0.0))
        X, Y = on_own_columns(X, Y)
        squares = [csr.multiply(csr).tocsr() for csr in (X, Y)]
        lengths = [np.asarray(square.sum(axis=1)).ravel() + c for square in squares]
        dot = (X @ Y.T).toarray() + c
        overlap = (squares[0] @ squares[1].T).toarray() + c * c
        return cls(dot, np.multiply.outer(*lengths), overlap, width)

    def variance(self, degree: int, n_components: int, method: str) -> Array:
        """Return the variance of phi(x) . phi(y); see :func:`sketch_variance`."""
        moment = self.gaussian if method == "gaussian" else self.rademacher
        squared = self.dot ** (2 * degree)
        variance = (moment**degree - squared) / n_components
        if method == "complex":
            real_part = 0.5 * (self.absolute**degree + self.phase**degree) - squared
            pairs, odd = divmod(n_components, 2)
            variance = pairs * (2.0 / n_components) ** 2 * real_part + odd * variance / n_components
        if method == "tensorsrht" and self.width > 1:
            pairs = same_block_pairs(n_components, self.width)
            variance -= pairs / n_components**2 * (squared - self.blocked**degree)
        return np.maximum(variance, 0.0)


def sketch_variance(
    X: MatrixLike,
    Y: MatrixLike | None = None,
    *,
    degree: int,
    n_components: int,
    method: str = "rademacher",
    c: float = 0.0,
) -> Array:
    """Return the variance of phi(x) . phi(y) of a polynomial sketch phi of (x.y + c)^degree.

    Parameters
    ----------
    X, Y : scipy.sparse, pydata/sparse or dense arrays, shapes (n, d) and (m, d)
        `Y` defaults to `X`. Their squares must fit in float64.
    degree : int
    n_components : int
    method : {"rademacher", "gaussian", "tensorsrht", "complex"}
    c : float, default 0.0

    Returns
    -------
    float64 array, shape (n, m)

    Raises
    ------
    InputError
        If there is no formula for the method, or a value is not finite.

    Notes
    -----
    Source: Wacker & Filippone 2022, table 1, with two corrections, which follow from the fourth moments. The
    Rademacher moment is |x|^2 |y|^2 + 2 (x.y)^2 - 2 sum x_k^2 y_k^2 (the paper has the sum only once, but for
    one column the moment must be x^2 y^2). The last term of TensorSRHT is (x.y)^2n minus the n-th power of
    (x.y)^2 - (|x|^2 |y|^2 + (x.y)^2 - 2 sum x_k^2 y_k^2) / (d - 1), with d the padded number of columns (in
    print the brackets are misplaced). Complex sketches: the real part of z = prod_i (w_i.x) conj(w_i.y) has
    the variance (E|z|^2 + E[z^2]) / 2 - (x.y)^2n, with the n-th powers of |x|^2 |y|^2 + (x.y)^2 - sum x_k^2
    y_k^2 and of 2 (x.y)^2 - sum x_k^2 y_k^2, and there are M / 2 of them.

    Examples
    --------
    >>> sketch_variance([[3.0]], degree=2, n_components=10, method="rademacher").tolist()
    [[0.0]]
    >>> sketch_variance([[1.0, 0.0]], [[0.0, 1.0]], degree=1, n_components=2, method="tensorsrht").tolist()
    [[0.0]]
    """
    if method not in ("rademacher", "gaussian", "tensorsrht", "complex"):
        raise InputError(f"method must be rademacher, gaussian, tensorsrht or complex, not {method!r}.")
    left = check_finite(as_csr(X)).astype(np.float64)
    right = left if Y is None else check_finite(as_csr(Y)).astype(np.float64)
    return Moments.of(left, right, c).variance(degree, n_components, method)
