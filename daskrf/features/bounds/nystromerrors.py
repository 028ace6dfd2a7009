"""Bounds on the error of SCISSORS and Nystroem features: theorems 1 to 6 of Haque & Pande 2011.

They hold for every kernel and distribution, so they are loose: for a few thousand landmarks the three bounds
on matrices usually exceed the kernel itself (benchmarks/nystrom.py shows by how much). They show how the
error can fall with l, k and n; to learn the error itself, take a sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.kernels.kernel import as_number, as_positive

__all__ = [
    "Extremes",
    "excess_2_norm",
    "excess_frobenius",
    "excess_rms",
    "expected_product_error",
    "expected_residual",
    "extremes_of",
]

Array = npt.NDArray[np.float64]


def expected_residual(
    eigenvalues: npt.ArrayLike,
    n_components: int,
    self_products: npt.ArrayLike,
    *,
    delta: float,
    largest: float | None = None,
) -> float:
    """Return theorem 2: a bound on the mean of k(x, x) - |phi(x)|^2, which k features leave out of k(x, x).

    It holds with probability at least 1 - delta.

    Assumptions: x and the l landmarks are independent samples of one distribution (landmarks drawn at random
    from the library; `selection="random"` leaves out equal rows); k is positive semidefinite, its values are
    exact, and k(x, x) < R^2 everywhere.

    Parameters
    ----------
    eigenvalues : array_like, shape (l,)
        Eigenvalues of the kernel matrix among the landmarks.
    n_components : int
        k, from 1 to l.
    self_products : array_like, shape (l,)
        k(s, s) of each landmark.
    delta : float
        Between 0 and 1.
    largest : float, optional
        R^2. Default: the largest of `self_products`, which is right where k(x, x) is constant.

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Notes
    -----
    Equation 5, min over d <= k of [sum_{i > d} lambda_i / l + (1 + sqrt d) / sqrt l sqrt(2/l sum k(s, s)^2)]
    + R^2 sqrt(18/l log(2l / delta)), after Shawe-Taylor et al. 2005. The paper prints k(s, s) where their
    theorem has its square, as the units demand; where k(x, x) = 1 it makes no difference. It also puts the
    sum over i > k under the minimum over d.

    Examples
    --------
    >>> round(expected_residual(np.full(1000, 1.0), 100, np.ones(1000), delta=0.05), 3)
    1.525
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1]
    l = values.size
    diagonal = _self_products(values, self_products)
    _check(n_components, l, None, delta)
    tails = values.sum() - np.cumsum(values)
    d = np.arange(1, n_components + 1)
    spread = math.sqrt(2.0 / l * np.square(diagonal).sum())
    projected = tails[:n_components] / l + (1.0 + np.sqrt(d)) / math.sqrt(l) * spread
    r2 = _square_of_radius(diagonal, largest)
    return float(projected.min() + r2 * math.sqrt(18.0 / l * math.log(2.0 * l / delta)))


def expected_product_error(
    eigenvalues: npt.ArrayLike,
    n_components: int,
    self_products: npt.ArrayLike,
    *,
    delta: float,
    largest: float | None = None,
) -> float:
    """Return theorem 1: how far the approximate kernel of two random molecules can fall below k, on average.

    0 <= E[k(x, y) - phi(x).phi(y)] <= the bound, with probability at least (1 - delta)^2. Assumptions,
    parameters and errors are those of `expected_residual`, whose bound it is, plus R^2 / 4.

    Notes
    -----
    Equation 4; see `expected_residual` for two misprints. The term R^2 / 4 does not depend on l, so the bound
    cannot fall below it.

    Examples
    --------
    >>> round(expected_product_error(np.full(1000, 1.0), 100, np.ones(1000), delta=0.05), 3)
    1.775
    """
    residual = expected_residual(eigenvalues, n_components, self_products, delta=delta, largest=largest)
    diagonal = np.asarray(self_products, dtype=np.float64)
    return residual + 0.25 * _square_of_radius(diagonal, largest)


@dataclass(frozen=True)
class Extremes:
    """What theorem 6 asks of a kernel matrix.

    Parameters
    ----------
    largest : float
        K_max, the largest K_ii.
    distance : float
        d_max, the largest sqrt(K_ii + K_jj - 2 K_ij).
    """

    largest: float
    distance: float


def extremes_of(K: npt.ArrayLike) -> Extremes:
    """Return the largest element of the diagonal of a kernel matrix, and the largest distance of two rows.

    Parameters
    ----------
    K : array_like of float, shape (n, n)
        Symmetric. Those of a sample of the rows are at most those of all.

    Raises
    ------
    InputError
        If K is not a square matrix of finite numbers.

    Examples
    --------
    >>> extremes_of([[1.0, 0.5], [0.5, 1.0]])
    Extremes(largest=1.0, distance=1.0)
    """
    values = np.asarray(K, dtype=np.float64)
    if values.ndim != 2 or not values.size or values.shape[0] != values.shape[1]:
        raise InputError(f"a kernel matrix must be square, not of shape {values.shape}.")
    if not np.isfinite(values).all():
        raise InputError("a kernel matrix must have finite values.")
    diagonal = values.diagonal()
    # Row by row: a second matrix of this size may not fit.
    square = max(
        float((entry + diagonal - 2.0 * row).max()) for entry, row in zip(diagonal, values, strict=True)
    )
    return Extremes(float(diagonal.max()), math.sqrt(square))


def excess_2_norm(
    n: int, l: int, largest: float = 1.0, *, delta: float, distance: float | None = None
) -> float:
    """Return theorem 3, or 6: |K - K'|_2 <= |K - K_k|_2 + this, with probability at least 1 - delta.

    K' is the approximation of the n x n kernel matrix K, K_k the best one of rank k.

    Assumptions, here and in the other two: the l landmarks are rows of K, drawn uniformly at random without
    replacement; K is positive semidefinite, its values exact; K_ii <= R^2.

    Parameters
    ----------
    n, l : int
        Molecules and landmarks, 1 <= l < n.
    largest : float
        R^2, or K_max if it is known (`extremes_of`).
    delta : float
        Probability that the bound fails: 0.05 for 95 % confidence.
    distance : float, optional
        d_max, the largest distance of two molecules, for theorem 6; at most 2 R, which is taken by default
        and gives theorem 3. For a kernel without negative values d_max is at most sqrt(2) R.

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Notes
    -----
    2 n / sqrt(l) R^2 [1 + 2 sqrt((n - l) / (n - 1/2) / beta log(1 / delta))] with beta = 1 - 1 / (2 max(l, n
    - l)). For l <= n / 2 this is what the paper prints. Theorem 6 has d_max / sqrt(K_max) in place of the
    factor 2 before the root. The paper prints that under the root, which theorem 3 contradicts, and the
    distance of two molecules as sqrt(K_ii + K_jj - K_ij), where it must be 2 K_ij.

    Examples
    --------
    >>> round(excess_2_norm(50_000, 3_000, delta=0.05) / 50_000, 3)
    0.159
    >>> round(excess_2_norm(50_000, 3_000, delta=0.05, distance=math.sqrt(2)) / 50_000, 3)
    0.123
    """
    _check(1, l, n, delta)
    r2 = as_positive("largest", largest)
    return 2.0 * n / math.sqrt(l) * r2 * _deviation(n, l, delta, _ratio(r2, distance))


def excess_frobenius(
    n: int,
    l: int,
    n_components: int,
    largest: float = 1.0,
    *,
    delta: float,
    distance: float | None = None,
) -> float:
    """Return theorem 4, or 6: |K - K'|_F <= |K - K_k|_F + this, with probability at least 1 - delta.

    (64 k / l)^(1/4) n R^2 [the bracket of theorem 3 or 6]^(1/2); assumptions and parameters as for
    :func:`excess_2_norm`.

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Examples
    --------
    >>> round(excess_frobenius(50_000, 3_000, 256, delta=0.05) / 50_000, 3)
    3.191
    """
    return n * excess_rms(n, l, n_components, largest, delta=delta, distance=distance)


def excess_rms(
    n: int,
    l: int,
    n_components: int,
    largest: float = 1.0,
    *,
    delta: float,
    distance: float | None = None,
) -> float:
    """Return theorem 5: RMS(K - K') <= RMS(K - K_k) + this, with probability at least 1 - delta.

    The root of the mean square over all elements: theorem 4 divided by n, assumptions and parameters as for
    :func:`excess_2_norm`.

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Notes
    -----
    For the paper's example, n = 50,000, k = 256, l = 3,000 at 95 %, it prints 1.8 R^2. That is the value for
    delta = 0.95, the confidence instead of the probability of failure. For delta = exp(-3), as the text says,
    it is 3.19 R^2. (The formula there has log exp(-3), which is negative, for log(1 / delta).)

    Examples
    --------
    >>> [round(excess_rms(50_000, 3_000, 256, delta=delta), 2) for delta in (0.95, math.exp(-3))]
    [1.83, 3.19]
    """
    _check(n_components, l, n, delta)
    r2 = as_positive("largest", largest)
    return (64.0 * n_components / l) ** 0.25 * r2 * math.sqrt(_deviation(n, l, delta, _ratio(r2, distance)))


def _deviation(n: int, l: int, delta: float, ratio: float) -> float:
    """Return 1 + d_max / sqrt(K_max) sqrt((n - l) / (n - 1/2) / beta log(1 / delta))."""
    beta = 1.0 - 1.0 / (2.0 * max(l, n - l))
    return 1.0 + ratio * math.sqrt((n - l) / (n - 0.5) / beta * math.log(1.0 / delta))


def _ratio(largest: float, distance: float | None) -> float:
    """Return d_max / sqrt(K_max), 2 if the distance is not known."""
    if distance is None:
        return 2.0
    number = as_number(distance)
    most = 2.0 * math.sqrt(largest)
    if not 0.0 <= number <= most * (1.0 + 1e-9):  # what rounding adds
        raise InputError(f"distance must be from 0 to 2 sqrt(largest) = {most:g}, not {distance!r}.")
    return number / math.sqrt(largest)


def _self_products(values: Array, self_products: npt.ArrayLike) -> Array:
    diagonal = np.asarray(self_products, dtype=np.float64)
    finite = np.isfinite(values).all() and np.isfinite(diagonal).all()
    if values.ndim != 1 or diagonal.shape != values.shape or not finite:
        raise InputError("eigenvalues and self_products must be finite numbers, one per landmark each.")
    return diagonal


def _square_of_radius(self_products: Array, largest: float | None) -> float:
    return float(self_products.max()) if largest is None else as_positive("largest", largest)


def _check(n_components: int, l: int, n: int | None, delta: Any) -> None:
    if not 1 <= n_components <= l or (n is not None and not l < n):
        more = "" if n is None else f" < n = {n}"
        raise InputError(f"1 <= n_components = {n_components} <= l = {l}{more} must hold.")
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta must be between 0 and 1, not {delta!r}.")
