"""Rows whose labels are limits: what a likelihood that is not Gaussian needs of them, beside the sums.

The factor of a limit depends on the predictions of all others, so that no sum over limits holds what they
say. Their features are kept instead, one bit or one number a feature and row.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daskrf.arrays import NamedArrays
from daskrf.errors import InputError

Array = npt.NDArray[np.float64]

_NAMES = ("phi", "bound", "side")
_PREFIX = "limits/"


@dataclass(frozen=True)
class LimitRows:
    """Features and limits of some rows, in an order that does not depend on how they were put together.

    Attributes
    ----------
    phi : uint8 array, shape (m, ceil(M / 8)), or float array, shape (m, M)
        Packed bits, or dense features.
    bound : float64 array, shape (m,)
    side : int8 array, shape (m,)
        1 where a measurement is at least the limit, -1 where it is at most the limit.

    Examples
    --------
    >>> one = LimitRows.of(np.array([[1.0, 2.0]]), np.array([5.0]), np.array([1]))
    >>> two = LimitRows.of(np.array([[3.0, 4.0]]), np.array([6.0]), np.array([-1]))
    >>> np.array_equal(one.combine(two).phi, two.combine(one).phi)
    True
    >>> one.combine(two).subtract(one).bound.tolist()
    [6.0]
    """

    phi: npt.NDArray[np.number]
    bound: Array
    side: npt.NDArray[np.int8]

    @classmethod
    def of(cls, phi: npt.NDArray[np.number], bound: npt.ArrayLike, side: npt.ArrayLike) -> LimitRows:
        """Return rows, ordered.

        Raises
        ------
        InputError
            If shapes do not match, or a limit or feature is not finite.
        """
        bounds, sides = np.asarray(bound, dtype=np.float64), np.asarray(side, dtype=np.int8)
        if not bounds.shape == sides.shape == (len(phi),) or not np.isin(sides, (-1, 1)).all():
            raise InputError(f"{len(phi)} rows of limits need a limit and a side, 1 or -1, each.")
        if not np.isfinite(bounds).all():
            raise InputError("a limit is NaN or infinity: leave that row out.")
        if phi.dtype.kind == "f" and not np.isfinite(phi.sum(dtype=np.float64)):
            raise InputError("features hold NaN or infinity: check the feature map and its input.")
        rows = cls(phi, bounds, sides)
        return rows.take(np.lexsort(rows._digests().T))

    def __len__(self) -> int:
        return len(self.bound)

    def take(self, rows: npt.NDArray[np.intp]) -> LimitRows:
        """Return some of the rows."""
        return LimitRows(np.ascontiguousarray(self.phi[rows]), self.bound[rows], self.side[rows])

    def combine(self, other: LimitRows) -> LimitRows:
        """Return the rows of both."""
        if (self.phi.shape[1:], self.phi.dtype.kind) != (other.phi.shape[1:], other.phi.dtype.kind):
            raise InputError("limits with other features cannot be combined: use one map.")
        pairs = ((getattr(self, name), getattr(other, name)) for name in _NAMES)
        return LimitRows.of(*(np.concatenate(pair) for pair in pairs))

    def subtract(self, other: LimitRows) -> LimitRows:
        """Return the rows without those of `other`, which must be among them.

        Raises
        ------
        InputError
            If one of them is not.
        """
        left: dict[bytes, list[int]] = {}
        for row, digest in enumerate(self._digests()):
            left.setdefault(digest.tobytes(), []).append(row)
        try:
            for digest in other._digests():
                left[digest.tobytes()].pop()
        except (KeyError, IndexError):
            raise InputError("cannot remove limits that are not among these.") from None
        return self.take(np.array(sorted(row for rows in left.values() for row in rows), dtype=np.intp))

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return everything as plain arrays for storing."""
        return {f"{_PREFIX}{name}": getattr(self, name) for name in _NAMES}

    @classmethod
    def from_arrays(cls, arrays: NamedArrays) -> LimitRows | None:
        """Undo `arrays`; None if there are no limits among them."""
        if f"{_PREFIX}phi" not in arrays:
            return None
        return cls(*(np.asarray(arrays[f"{_PREFIX}{name}"]) for name in _NAMES))

    def _digests(self) -> npt.NDArray[np.uint64]:
        """Return a digest of each row, shape (m, 2)."""
        if not len(self):
            return np.empty((0, 2), dtype=np.uint64)
        phi = np.ascontiguousarray(self.phi)
        more = (self.bound.tobytes(), self.side.tobytes())
        digests = b"".join(
            hashlib.blake2b(
                row.tobytes() + more[0][8 * i : 8 * i + 8] + more[1][i : i + 1], digest_size=16
            ).digest()
            for i, row in enumerate(phi)
        )
        return np.frombuffer(digests, dtype="<u8").reshape(len(phi), 2)


def joined(first: LimitRows | None, second: LimitRows | None) -> LimitRows | None:
    """Return the limits of both, of which there may be none."""
    if first is None or second is None:
        return second if first is None else first
    return first.combine(second)


def without(rows: LimitRows | None, other: LimitRows | None) -> LimitRows | None:
    """Return the limits without some of them; none if none are left.

    Raises
    ------
    InputError
        If these are not among them.
    """
    if other is None or not len(other):
        return rows
    if rows is None:
        raise InputError("cannot remove limits that are not among these.")
    return left if len(left := rows.subtract(other)) else None
