"""How a truncated series of the Gaussian kernel vanishes: theorem 3.1 of Wacker & Filippone 2022."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc, gammaincc

from daskrf.errors import InputError
from daskrf.kernels.powerseries import check_degree
from daskrf.kernels.truncated import check_length_scale

__all__ = ["truncated_size", "truncation_error"]

Array = npt.NDArray[np.float64]


def truncated_size(
    x: npt.ArrayLike, y: npt.ArrayLike, degree: int, *, length_scale: float = 1.0
) -> npt.NDArray[np.float64]:
    """Return theorem 3.1: the largest size of the truncated kernel k_p at these distances from its centre.

    |k_p(x, y)| <= exp(-s) sum_{n <= p} s^n / n!, s = (|x|^2 + |y|^2) / (2 l^2), which falls to 0 as s grows.

    Parameters
    ----------
    x, y : array_like of float, shapes that broadcast
        Lengths |x| and |y| of rows, measured from the centre of the series.
    degree : int
        p, from 0 to 1000.
    length_scale : float, default 1.0
        l, above 0.

    Returns
    -------
    float64 array, from 0 to 1
        To be multiplied by the variance sigma^2 of the kernel.

    Raises
    ------
    InputError
        If a length is negative or not finite, or a parameter is out of its range.

    Notes
    -----
    Source: Wacker & Filippone 2022, theorem 3.1 and appendix B, which print |x|^2 + |y|^2 / 2 for (|x|^2 +
    |y|^2) / 2. The sum is Q(p + 1, s), the upper incomplete gamma function, regularized. It is reached where
    x = y. `TruncatedGaussian` is the kernel; `LocalGaussianFeatures` have a centre near every row.

    Examples
    --------
    A series of degree 8 is of use up to some four length scales from its centre:

    >>> truncated_size([2.0, 4.0, 6.0], [2.0, 4.0, 6.0], 8).round(4).tolist()
    [0.9786, 0.022, 0.0]
    """
    left, right, p = _checked(x, y, degree, length_scale)
    return np.asarray(gammaincc(p + 1, 0.5 * (left**2 + right**2)))


def truncation_error(
    x: npt.ArrayLike, y: npt.ArrayLike, degree: int, *, length_scale: float = 1.0
) -> npt.NDArray[np.float64]:
    """Return theorem 3.1: the largest error |k(x, y) - k_p(x, y)| at these distances from the centre.

    It is exp(-(|x|^2 + |y|^2) / (2 l^2)) sum_{n > p} (|x| |y| / l^2)^n / n!, the error for parallel rows; the
    error for orthogonal ones is 0. Parameters, result and errors as for :func:`truncated_size`.

    Notes
    -----
    Source: Wacker & Filippone 2022, theorem 3.1 and appendix B. With t = |x| |y| / l^2 it is exp(-(|x| -
    |y|)^2 / (2 l^2)) P(p + 1, t), P being the lower incomplete gamma function, regularized.

    Examples
    --------
    >>> truncation_error([1.0, 2.0, 3.0], 2.0, 8).round(6).tolist()
    [0.000144, 0.021363, 0.092655]
    """
    left, right, p = _checked(x, y, degree, length_scale)
    return np.asarray(np.exp(-0.5 * (left - right) ** 2) * gammainc(p + 1, left * right))


def _checked(x: Any, y: Any, degree: Any, length_scale: Any) -> tuple[Array, Array, int]:
    """Return the lengths in units of the length scale, and the degree."""
    scale = check_length_scale(length_scale)
    lengths = [np.asarray(each, dtype=np.float64) for each in (x, y)]
    if not all(np.isfinite(each).all() and (each >= 0.0).all() for each in lengths):
        raise InputError("lengths of rows must be finite numbers of at least 0.")
    return lengths[0] / scale, lengths[1] / scale, check_degree(degree)
