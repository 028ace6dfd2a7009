"""The eigendecomposition that SCISSORS vectors and Nystroem features come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["FLOOR", "Spectrum", "decompose"]

FLOOR = 2.0**-24
"""Eigenvalues below this part of the largest are what single precision cannot tell from 0."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Spectrum:
    """What there is to know of a symmetric matrix W = V D V^T of inner products.

    Attributes
    ----------
    eigenvalues : float64 array, shape (l,)
        In descending order.
    projection : float64 array, shape (l, r)
        V_r D_r^(-1/2) of the r largest eigenvalues that are kept.
    """

    eigenvalues: Array
    projection: Array

    @property
    def rank(self) -> int:
        """Number r of eigenvalues that are kept."""
        return int(self.projection.shape[1])

    def negative(self) -> tuple[float, float]:
        """Return |W - W'|_2 and |W - W'|_F, W' the positive semidefinite matrix nearest to W.

        They are the largest of the absolute negative eigenvalues, and the root of the sum of their squares
        (where Haque & Pande 2011, assumption 2, print the sum). What rounding alone explains counts as 0.
        """
        largest = float(np.abs(self.eigenvalues).max(initial=0.0))
        limit = 4.0 * self.eigenvalues.size * np.finfo(np.float64).eps * largest
        below = self.eigenvalues[self.eigenvalues < -limit]
        return float(np.abs(below).max(initial=0.0)), float(np.sqrt(np.square(below).sum()))


def decompose(W: Array, n_components: int, floor: float = FLOOR) -> Spectrum:
    """Return the spectrum of a symmetric matrix, and the projection of at most `n_components` columns.

    Negative eigenvalues are left out, as those below `floor` times the largest one are: W is taken for the
    nearest positive semidefinite matrix (Haque & Pande 2011, assumption 2).

    Parameters
    ----------
    W : float64 array, shape (l, l)
        Its upper triangle is not read.
    n_components : int
    floor : float

    Examples
    --------
    >>> found = decompose(np.array([[1.0, 2.0], [2.0, 1.0]]), 2)
    >>> found.eigenvalues.round(6).tolist(), found.rank, found.negative()[0]
    ([3.0, -1.0], 1, 1.0)
    """
    values, vectors = np.linalg.eigh(W)
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = max(float(values[0]), 0.0)
    rank = min(n_components, int(np.count_nonzero(values > floor * largest)))
    return Spectrum(values, vectors[:, :rank] / np.sqrt(values[:rank]))
