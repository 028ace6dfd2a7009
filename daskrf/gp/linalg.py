"""Cholesky factors of G + shift I for many shifts, in the memory of one M x M matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from daskrf.errors import InputError

__all__ = ["NotPositiveError", "ShiftedCholesky"]

_TILE = 1024


class NotPositiveError(InputError):
    """A matrix that has to be positive definite is not, whatever jitter is added."""


class ShiftedCholesky:
    """Cholesky factors of G + shift I.

    The upper triangle of the work matrix keeps G for ever; each factor overwrites the lower triangle, so
    that one M x M float64 matrix serves all shifts.

    Parameters
    ----------
    gram : float64 array, shape (M, M), C order
        Its upper triangle holds G. The matrix is taken over: its lower triangle is overwritten.

    Attributes
    ----------
    shift : float
        Shift of the present factor.
    jitter : float
        What had to be added to the shift so that the factorization succeeded, usually 0.

    Examples
    --------
    >>> factor = ShiftedCholesky(np.array([[2.0, 1.0], [0.0, 2.0]])).factorize(1.0)
    >>> factor.solve(np.array([[4.0], [4.0]])).ravel().round(9).tolist()
    [1.0, 1.0]
    """

    def __init__(self, gram: npt.NDArray[np.float64]) -> None:
        self._work = gram
        self.diagonal = gram.diagonal().copy()
        self.shift = np.nan
        self.jitter = 0.0

    def factorize(self, shift: float) -> ShiftedCholesky:
        """Factorize G + shift I = U^T U with the smallest jitter that works, and return self.

        Raises
        ------
        InputError
            If no jitter up to 1e-4 of the mean diagonal makes the matrix positive definite.
        """
        if shift == self.shift:
            return self
        self.shift = np.nan  # until the factor is complete
        scale = float(self.diagonal.mean()) + shift
        for jitter in (0.0, *(scale * 10.0**k for k in range(-15, -3))):
            self._restore(shift + jitter)
            # The lower triangle in C order is the upper one in LAPACK's Fortran order.
            _, info = lapack.dpotrf(self._work.T, lower=0, overwrite_a=1, clean=0)
            if info == 0:
                self.shift, self.jitter = shift, jitter
                return self
        raise NotPositiveError(
            "the Gram matrix is not positive semi-definite: make the statistics anew and fit again."
        )

    def log_det(self) -> float:
        """Return log det(G + shift I)."""
        return 2.0 * float(np.log(self._work.diagonal()).sum())

    def half_solve(self, right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return U^-T right, whose squared norm is right^T (G + shift I)^-1 right."""
        if right.shape[1] == 0:
            return right.copy()
        return lapack.dtrtrs(self._work.T, right, lower=0, trans=1)[0]

    def solve(self, right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return (G + shift I)^-1 right for right of shape (M, k)."""
        if right.shape[1] == 0:
            return right.copy()
        return lapack.dpotrs(self._work.T, right, lower=0)[0]

    def inverse_factor(self, *, keep: bool = True) -> npt.NDArray[np.float64]:
        """Return U^-1 in Fortran order: only the upper triangle is meaningful.

        The squared norm of x^T U^-1 is x^T (G + shift I)^-1 x. Costs M^3 / 3 multiply-adds. With
        ``keep=False`` it takes the place of the factor, in the same memory, and this object is spent.
        """
        factor = self._work.T.copy(order="F") if keep else self._work.T
        self.shift = self.shift if keep else np.nan
        return lapack.dtrtri(factor, lower=0, overwrite_c=1)[0]

    def inverse_trace(self) -> float:
        """Return tr (G + shift I)^-1 = the squared Frobenius norm of U^-1."""
        inverse = self.inverse_factor()
        return sum(float(np.square(inverse[: j + 1, j]).sum()) for j in range(len(inverse)))

    def _restore(self, shift: float) -> None:
        """Copy G + shift I from the upper to the lower triangle, by tiles."""
        work = self._work
        for row in range(0, len(work), _TILE):
            rows = slice(row, row + _TILE)
            for column in range(0, row, _TILE):
                columns = slice(column, column + _TILE)
                work[rows, columns] = work[columns, rows].T
            tile = work[rows, rows]
            tile[:] = np.triu(tile) + np.triu(tile, 1).T
        work.flat[:: len(work) + 1] = self.diagonal + shift
