"""Upper bounds on the scores of pairs, from a few coordinates; they suffice to discard most pairs.

The score of a pair is the product a . b of rows of two matrices A and B. If P Q^T is the identity, a . b =
(a P) . (b Q). By Cauchy and Schwarz, the coordinates from r on add no more than the product of their norms.
In the basis in which both Gram matrices are the same diagonal matrix, the first few coordinates hold most of
all scores. With the symmetric roots R_A and R_B of A^T A and B^T B, and the singular value decomposition
R_A R_B = U S V^T, this basis is P = R_A^-1 U S^(1/2), Q = R_A U S^(-1/2), and both Gram matrices become S
(balanced truncation: Moore 1981, IEEE Trans. Autom. Control 26).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SHARE = 8  # one in this many coordinates is kept
SLACK = 1e-4
"""Slack, relative to squared norms: rounding of products of some thousand numbers in single precision is far
smaller."""
_LEAST = 1e-7  # of the largest eigenvalue: smaller eigenvalues are raised to this

Single = npt.NDArray[np.float32]
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BalancedBasis:
    """A basis for the rows of two matrices; see the module.

    Attributes
    ----------
    P, Q : float32 arrays, shape (M, M)
    rank : int
        Number of leading coordinates.
    """

    P: Single
    Q: Single
    rank: int

    @classmethod
    def of(cls, left: Array, right: Array) -> BalancedBasis:
        """Return the basis for two Gram matrices of shape (M, M), which may be of a sample of the rows.

        Bounds hold for any matrices; they are close if these are similar to the matrices of all rows.
        """
        (root, inverse), (other, _) = _roots(left), _roots(right)
        U, S, _ = np.linalg.svd(root @ other)
        scale = np.sqrt(S)
        P, Q = (inverse @ U) * scale, (root @ U) / scale
        return cls(P.astype(np.float32), Q.astype(np.float32), max(1, len(S) // SHARE))

    def left(self, rows: Single) -> Single:
        """Return bounding rows for rows of A: their products with those for B are upper bounds.

        Examples
        --------
        >>> A, B = np.random.default_rng(0).standard_normal((2, 50, 16), dtype=np.float32)
        >>> basis = BalancedBasis.of(A.T @ A, B.T @ B)
        >>> basis.left(A).shape, bool((basis.left(A) @ basis.right(B).T >= A @ B.T).all())
        ((50, 3), True)
        """
        return bounding(rows @ self.P, self.rank)

    def right(self, rows: Single) -> Single:
        """Return bounding rows for rows of B."""
        return bounding(rows @ self.Q, self.rank)


def bounding(rows: Single, rank: int) -> Single:
    """Return the first coordinates of rows and, as the last one, the norm of the others; shape (n, rank + 1).

    Products of bounding rows are never below those of the rows themselves, despite rounding.
    """
    bounds = np.empty((len(rows), rank + 1), np.float32)
    bounds[:, :rank] = rows[:, :rank]
    rest: Single = np.einsum("ij,ij->i", rows[:, rank:], rows[:, rank:])
    leading: Single = np.einsum("ij,ij->i", rows[:, :rank], rows[:, :rank])
    bounds[:, rank] = np.sqrt(rest + SLACK * (rest + leading))
    return bounds


def _roots(gram: Array) -> tuple[Array, Array]:
    """Return the symmetric root of a Gram matrix and its inverse."""
    values, vectors = np.linalg.eigh(gram)
    least = max(_LEAST * float(values[-1]), float(np.finfo(np.float32).tiny))
    root = np.sqrt(np.maximum(values, least))
    return (vectors * root) @ vectors.T, (vectors / root) @ vectors.T
