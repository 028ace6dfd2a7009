"""Fixed-point targets: y as integers, so that sums over y are exact and independent of order."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError

TARGET_BITS = 40  # max|y| becomes an integer just below 2**40, or a smaller one for many rows
_SUM_BITS = 58  # sum of |y| over the rows used to choose the exponent; int64 sums have three more bits
ENTRY_BITS = 52  # one entry must stay exact in float64 when it is rounded
_LIMB_BITS = 18  # three limbs hold an entry; 2**16 products of two limbs sum exactly in float64
_LIMB_ROWS = 1 << 16
_LARGEST_TARGET = 1e100
_WIDE_BYTES = 24  # a sum of 2**64 products of two entries fits in 192 bits


def choose_exponent(y: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Choose, for every target, the exponent e with max|y| * 2**e just below 2**40.

    Rounding y to multiples of 2**-e then changes it by less than max|y| * 2**-40 (one part in 10**12).
    Above 2**18 rows there are fewer bits, 58 - log2 n (31 for 10**8 rows), so that sums over these rows, and
    over 8 times as many, fit into 64-bit integers; with fewer rows the limit is at least 2**21 rows.

    Parameters
    ----------
    y : array of float, shape (n,) or (n, n_targets)

    Returns
    -------
    int64 array, shape (n_targets,)

    Raises
    ------
    InputError
        If y has the wrong number of dimensions, or holds NaN or infinity.

    Examples
    --------
    >>> choose_exponent([0.5, -3.0])
    array([38])
    """
    targets = check_targets(y)
    bits = min(TARGET_BITS, _SUM_BITS - (max(len(targets), 1) - 1).bit_length())
    largest = np.abs(targets).max(axis=0, initial=0.0)
    exponents = [bits - (math.frexp(v)[1] if v > 0 else 1) for v in largest.tolist()]
    # Outside these limits the square of the unit would exceed the range of float64.
    return np.clip(np.array(exponents, dtype=np.int64), -400, 400)


def check_targets(y: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return y as float64 of shape (n, n_targets).

    Raises
    ------
    InputError
        If y is not numeric, has the wrong number of dimensions, or holds NaN, infinity or values above
        1e100.
    """
    if y is None:
        raise InputError(
            "A fit requires y to be passed, but the target y is None: give a label for each row."
        )
    try:
        array = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"y must be an array of numbers ({error}).") from None
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise InputError(f"y must have shape (n,) or (n, n_targets), not {array.shape}.")
    bad = ~np.isfinite(array)
    if bad.any():
        row, target = (int(i[0]) for i in np.nonzero(bad))
        raise InputError(
            f"y holds NaN or infinity (first at row {row}, target {target}): drop these rows, or fit each "
            "target on its own complete rows, since all targets of one fit share one Gram matrix."
        )
    if np.abs(array).max(initial=0.0) > _LARGEST_TARGET:
        raise InputError(
            f"y is up to {np.abs(array).max():g}, whose squares cannot be summed: divide y by a constant."
        )
    return array


def to_fixed(y: npt.ArrayLike, exponents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Round y * 2**exponent to int64, shape (n, n_targets).

    Raises
    ------
    InputError
        If y is not finite, has the wrong number of targets, or an entry reaches 2**52.

    Examples
    --------
    >>> to_fixed([0.5, -3.0], np.array([2]))
    array([[  2],
           [-12]])
    """
    array = check_targets(y)
    if array.shape[1] != len(exponents):
        raise InputError(f"y has {array.shape[1]} targets, but these statistics hold {len(exponents)}.")
    scaled = np.rint(np.ldexp(array, np.asarray(exponents, dtype=np.int32)))
    if (np.abs(scaled) >= 2.0**ENTRY_BITS).any():
        target = int(np.nonzero((np.abs(scaled) >= 2.0**ENTRY_BITS).any(axis=0))[0][0])
        largest = np.abs(array[:, target]).max()
        raise InputError(
            f"y of target {target} is up to {largest:g}, too large for the fixed-point scale "
            f"2**-{int(exponents[target])} of these statistics: choose the exponent from all labels."
        )
    return scaled.astype(np.int64)


def exact_cross_products(y_fixed: npt.NDArray[np.int64]) -> npt.NDArray[np.object_]:
    """Return y^T y of integers below 2**52 as exact Python integers, shape (n_targets, n_targets).

    Every entry is split into three limbs of 18 bits (the top one signed), whose products are summed
    exactly by float64 BLAS.
    """
    n_targets = y_fixed.shape[1]
    total = np.zeros((n_targets, n_targets), dtype=object)
    mask = np.int64((1 << _LIMB_BITS) - 1)
    for start in range(0, len(y_fixed), _LIMB_ROWS):
        block = y_fixed[start : start + _LIMB_ROWS]
        limbs = [block & mask, (block >> _LIMB_BITS) & mask, block >> (2 * _LIMB_BITS)]
        parts = [limb.astype(np.float64) for limb in limbs]
        for i, left in enumerate(parts):
            for j, right in enumerate(parts):
                product = (left.T @ right).astype(np.int64).astype(object)
                total += product * (1 << (_LIMB_BITS * (i + j)))
    return total


def integers_to_bytes(values: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    """Store Python integers as little-endian two's complement: shape (..., 24) uint8."""
    raw = b"".join(int(v).to_bytes(_WIDE_BYTES, "little", signed=True) for v in values.ravel())
    return np.frombuffer(raw, dtype=np.uint8).reshape(*values.shape, _WIDE_BYTES).copy()


def integers_from_bytes(raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.object_]:
    """Undo `integers_to_bytes`."""
    flat = np.ascontiguousarray(raw).reshape(-1, _WIDE_BYTES)
    values = np.empty(len(flat), dtype=object)
    values[:] = [int.from_bytes(row.tobytes(), "little", signed=True) for row in flat]
    return values.reshape(raw.shape[:-1])
