"""Variance and concentration of Fastfood: theorem 9, corollary 10 and theorem 11 of Le, Sarlos & Smola 2013.

They are about the paper's directions, `FastfoodFeatures(projection="hadamard")`, for a Gaussian kernel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.features.featuremap import check_count
from daskrf.kernels.truncated import check_length_scale

__all__ = ["cosine_variance", "fastfood_error", "fastfood_variance"]

Array = npt.NDArray[np.float64]


def cosine_variance(distances: npt.ArrayLike, *, length_scale: float = 1.0) -> npt.NDArray[np.float64]:
    """Return the variance of cos(w.(x - y)), the estimate of a Gaussian kernel by one random frequency.

    (1 - exp(-v^2))^2 / 2 with v = |x - y| / l: theorem 9, first part. It holds for each single frequency of
    Fastfood, too. The mean of n independent frequencies has 1/n of it.

    Parameters
    ----------
    distances : array_like of float
        |x - y| of each pair of rows, at least 0.
    length_scale : float, default 1.0
        l, above 0.

    Returns
    -------
    float64 array, of the shape of `distances`

    Raises
    ------
    InputError
        If a distance is negative or not finite, or the length scale out of its range.

    Examples
    --------
    >>> cosine_variance([0.0, 1.0, 9.0]).round(3).tolist()
    [0.0, 0.2, 0.5]
    """
    return np.asarray(0.5 * np.expm1(-(_scaled(distances, length_scale) ** 2)) ** 2)


def fastfood_variance(
    distances: npt.ArrayLike, n_frequencies: int, *, length_scale: float = 1.0
) -> npt.NDArray[np.float64]:
    """Return theorem 9: a bound on the variance of the estimate of a Gaussian kernel by Fastfood.

    [(1 - exp(-v^2))^2 / 2 + C(v)] / n with C(v) = 6 v^4 (exp(-v^2) + v^2 / 3) and v = |x - y| / l.

    Parameters
    ----------
    distances : array_like of float
        |x - y| of each pair of rows, at least 0.
    n_frequencies : int
        n: a whole number of blocks, each of d frequencies. Features are two for each frequency.
    length_scale : float, default 1.0
        l, above 0.

    Returns
    -------
    float64 array, of the shape of `distances`

    Raises
    ------
    InputError
        As `cosine_variance`, and if `n_frequencies` is not an integer of at least 1.

    Notes
    -----
    Source: Le, Sarlos & Smola 2013, theorem 9, for a block of n = d frequencies; blocks are independent, so
    that their mean has the variance of corollary 10. That prints 2 / n in place of 1 / (2 n) for the first
    term, which theorem 9 does not need. The proof gives C with v^2 / 6 in place of v^2 / 3, as sinh(v^2)
    exp(-v^2) is at most 1 / 2; C is here as printed. For close rows the bound is 13 times the variance of n
    independent frequencies, and for distant ones it has no limit. Measured, it is at most 2.3 times.

    Examples
    --------
    >>> fastfood_variance([0.1, 0.5, 1.0], 1024).round(6).tolist()
    [1e-06, 0.00034, 0.004304]
    """
    v = _scaled(distances, length_scale)
    check_count("n_frequencies", n_frequencies)
    scaling = 6.0 * v**4 * (np.exp(-(v**2)) + v**2 / 3.0)
    return np.asarray((cosine_variance(v) + scaling) / n_frequencies)


def fastfood_error(
    distances: npt.ArrayLike, n_frequencies: int, *, delta: float, length_scale: float = 1.0
) -> npt.NDArray[np.float64]:
    """Return theorem 11: |estimate - k(x, y)| is below this with probability at least 1 - delta.

    2 v sqrt(log(4 / delta) log(4 n / delta) / n), v = |x - y| / l, for each pair of rows on its own.

    Parameters
    ----------
    distances, n_frequencies, length_scale
        As for `fastfood_variance`.
    delta : float
        Probability that the bound fails, between 0 and 1.

    Returns
    -------
    float64 array, of the shape of `distances`

    Raises
    ------
    InputError
        As `fastfood_variance`, and if `delta` is out of its range.

    Notes
    -----
    Source: Le, Sarlos & Smola 2013, theorem 11, which is for the directions H G Pi H B (lengths of rows as
    they come) and one block, n = d, and fails with probability 2 delta; here delta is the whole. For several
    blocks the same proof holds: the mean of b blocks is Lipschitz in all normal numbers with 1 / sqrt(b) of
    the constant of one, and the largest entry is taken over n = b d. Equation 52 prints sqrt(2 L log(2 /
    delta)) for L sqrt(2 log(2 / delta)).

    Examples
    --------
    >>> fastfood_error([0.1, 1.0], 4096, delta=0.05).round(3).tolist()
    [0.023, 0.233]
    """
    v = _scaled(distances, length_scale)
    check_count("n_frequencies", n_frequencies)
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta must be between 0 and 1, not {delta!r}.")
    logarithms = math.log(4.0 / delta) * math.log(4.0 * n_frequencies / delta)
    return np.asarray(2.0 * v * math.sqrt(logarithms / n_frequencies))


def _scaled(distances: Any, length_scale: Any) -> Array:
    values = np.asarray(distances, dtype=np.float64)
    if not (np.isfinite(values).all() and (values >= 0.0).all()):
        raise InputError("distances must be finite numbers of at least 0.")
    return values / check_length_scale(length_scale)
