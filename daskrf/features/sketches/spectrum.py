"""The eigendecomposition that SCISSORS vectors and Nystroem features come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FLOOR = 2.0**-24
"""Eigenvalues below this fraction of the largest are 0 as far as single precision can tell."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Spectrum:
    """The spectrum of a symmetric matrix W = V D V^T of inner products.

    Attributes
    ----------
    eigenvalues : float64 array, shape (l,)
        In descending order.
    projection : float64 array, shape (l, r)
        V_r D_r^(-1/2) for the r largest eigenvalues that are kept.
    """

    eigenvalues: Array
    projection: Array

    @property
    def rank(self) -> int:
        """Number r of eigenvalues that are kept."""
        return int(self.projection.shape[1])

    def negative(self) -> tuple[float, float]:
        """Return |W - W'|_2 and |W - W'|_F, with W' the positive semidefinite matrix nearest to W.

        They are the largest absolute value of a negative eigenvalue, and the root of the sum of squares of
        all negative eigenvalues (Haque & Pande 2011, assumption 2, print the sum). Values that rounding can
        explain count as 0.
        """
        largest = float(np.abs(self.eigenvalues).max(initial=0.0))
        limit = 4.0 * self.eigenvalues.size * np.finfo(np.float64).eps * largest
        below = self.eigenvalues[self.eigenvalues < -limit]
        return float(np.abs(below).max(initial=0.0)), float(np.sqrt(np.square(below).sum()))


def decompose(W: Array, n_components: int, floor: float = FLOOR) -> Spectrum:
    """Return the spectrum of a symmetric matrix, and the projection of at most `n_components` columns.

    Negative eigenvalues are left out, as are those below `floor` times the largest: W is replaced by the
    nearest positive semidefinite matrix (Haque & Pande 2011, assumption 2).

    Parameters
    ----------
    W : float64 array, shape (l, l)
        Its upper triangle is not read.
    n_components : int
    floor : float

    Examples
    --------
    >>> spectrum = decompose(np.array([[1.0, 2.0], [2.0, 1.0]]), 2)
    >>> spectrum.eigenvalues.round(6).tolist(), spectrum.rank, spectrum.negative()[0]
    ([3.0, -1.0], 1, 1.0)
    """
    values, vectors = np.linalg.eigh(W)
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = max(float(values[0]), 0.0)
    rank = min(n_components, int(np.count_nonzero(values > floor * largest)))
    return Spectrum(values, vectors[:, :rank] / np.sqrt(values[:rank]))
