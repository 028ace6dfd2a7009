"""Sizes, slopes and uniform convergence of Maclaurin features: Kar & Karnick 2012, lemmas 12 to 15."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from daskrf.errors import InputError
from daskrf.features.featuremap import check_count
from daskrf.kernels.kernel import as_number, as_positive
from daskrf.kernels.powerseries import DotProductKernel

__all__ = [
    "SeriesConstants",
    "composition_constants",
    "largest_error_odds",
    "product_error",
    "projection_constants",
]


@dataclass(frozen=True)
class SeriesConstants:
    """How large the estimate of f(K) by one feature is, and how steep f(K) and its estimate are.

    Parameters
    ----------
    largest : float
        C_1: |Z(x) Z(y)| of a single feature Z is at most this (lemma 12).
    kernel_slope : float
        Bound on the gradient of f(K(x, y)) in x, or in y (lemma 13).
    estimate_slope : float
        Bound on the mean gradient of Z(x) Z(y) in x, or in y (lemma 14).
    """

    largest: float
    kernel_slope: float
    estimate_slope: float

    @property
    def error_slope(self) -> float:
        """L_1: bound on the mean gradient of the error of the estimate."""
        return self.kernel_slope + self.estimate_slope


def composition_constants(
    kernel: DotProductKernel,
    *,
    feature_square: float,
    kernel_slope: float,
    feature_slope: float,
    kernel_size: float | None = None,
    p: float | None = None,
) -> SeriesConstants:
    """Return the constants of lemmas 12 to 14 for features of f(K), made from features W of K.

    Parameters
    ----------
    kernel : DotProductKernel
        The power series f.
    feature_square : float
        C_W: the largest W(x)^2 of a feature of K whose mean is K, so 1 for features of +1 and -1. Above 0.
    kernel_slope : float
        L_K: bound on the gradient of K(x, y) in x.
    feature_slope : float
        L_W: bound on the mean length of the gradient of W. Infinite for features that jump, such as one-bit
        ones; `largest` is right all the same.
    kernel_size : float, optional
        C_K: bound on |K|. Default: C_W, which always is one.
    p : float, optional
        Degrees are drawn with odds in proportion to p^-(n+1), p above 1 (`degree_measure="geometric"`).
        Default: in proportion to a_n C_W^n, the weight of each power, as "proportional" does.

    Returns
    -------
    SeriesConstants

    Raises
    ------
    InputError
        If a number is out of its range, or the series too large for it.

    Notes
    -----
    Source: Kar & Karnick 2012, supplement, lemmas 12 to 14. Odds of p^-(n+1), as printed, sum to 1 / (p - 1):
    scaled to 1, C_1 is p / (p - 1) f(p C_W) in place of p f(p C_W). With proportional odds all features have
    one size, and C_1 is f(C_W), which no odds make smaller. The mean over degrees of N a_N / q_N C_W^(N -
    1/2) is sqrt(C_W) f'(C_W), whatever the odds q_N: lemma 14 takes the largest in place of the mean, which
    gives p^2 sqrt(C_W) f'(p C_W).

    Examples
    --------
    >>> from daskrf.kernels import Exponential
    >>> bits = {"feature_square": 1.0, "kernel_slope": np.inf, "feature_slope": np.inf}
    >>> round(composition_constants(Exponential(), **bits).largest, 3)
    2.718
    >>> round(composition_constants(Exponential(), **bits, p=2.0).largest, 3)
    14.778
    """
    square = as_positive("feature_square", feature_square)
    size = square if kernel_size is None else as_positive("kernel_size", kernel_size)
    slopes = [as_number(slope) for slope in (kernel_slope, feature_slope)]
    if not all(slope >= 0.0 for slope in slopes):
        raise InputError(f"slopes must be numbers of at least 0, not {kernel_slope!r} and {feature_slope!r}.")
    largest = _value(kernel, square)
    if p is not None:
        if not 1.0 < as_number(p) < math.inf:
            raise InputError(f"p must be a finite number above 1, not {p!r}.")
        largest = p / (p - 1.0) * _value(kernel, p * square)
    return SeriesConstants(
        largest=largest,
        kernel_slope=slopes[0] * _derivative(kernel, size),
        estimate_slope=slopes[1] * math.sqrt(square) * _derivative(kernel, square),
    )


def projection_constants(
    kernel: DotProductKernel, radius: float, n_columns: int, *, p: float | None = None
) -> SeriesConstants:
    """Return the constants for features of f(x.y), products of projections on random signs.

    Parameters
    ----------
    kernel : DotProductKernel
        The power series f.
    radius : float
        R: the largest sum of absolute values |x|_1 of a row, above 0.
    n_columns : int
        d, at least 1.
    p : float, optional
        As for `composition_constants`.

    Returns
    -------
    SeriesConstants

    Raises
    ------
    InputError
        As `composition_constants`.

    Notes
    -----
    Source: Kar & Karnick 2012, supplement, lemmas 8, 10 and 11 (4, 6 and 7 of the paper): those for
    compositions with C_W = C_K = R^2, L_K = R and L_W = sqrt(d). Lemma 10 prints f'(R^2) for the slope of the
    kernel, which is right for R <= 1 only: its proof leaves out the factor |y|, so it is R f'(R^2).

    Examples
    --------
    >>> from daskrf.kernels import Polynomial
    >>> projection_constants(Polynomial(2, c=0.0), 2.0, 9).kernel_slope  # 2 (x.y) |y| for |x| = |y| = 2
    16.0
    """
    square = as_positive("radius", radius) ** 2
    check_count("n_columns", n_columns)
    slopes = {"kernel_slope": math.sqrt(square), "feature_slope": math.sqrt(n_columns)}
    return composition_constants(kernel, feature_square=square, **slopes, p=p)


def product_error(largest: float, n_components: int, *, delta: float) -> float:
    """Return how far phi(x).phi(y) is from f(K(x, y)) at most, with probability at least 1 - delta.

    C_1 sqrt(2 log(2 / delta) / M), Hoeffding's bound, for each pair of rows on its own.

    Parameters
    ----------
    largest : float
        C_1 (`SeriesConstants.largest`), above 0.
    n_components : int
        M independent features.
    delta : float
        Probability that the bound fails, between 0 and 1.

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Notes
    -----
    Source: Kar & Karnick 2012, supplement, section 10, after lemma 12, where the probability of an error
    above epsilon is 2 exp(-M epsilon^2 / (8 C_1^2)): that is the one of an error above epsilon / 2.

    Examples
    --------
    >>> round(product_error(1.0, 4096, delta=0.05), 4)
    0.0424
    """
    _check_delta(delta)
    check_count("n_components", n_components)
    return as_positive("largest", largest) * math.sqrt(2.0 * math.log(2.0 / delta) / n_components)


def largest_error_odds(
    constants: SeriesConstants, n_components: int, *, error: float, radius: float, n_columns: int
) -> float:
    """Return theorem 15: a bound on the probability that some pair of rows has more than this error.

    Rows x and y are any with |x|_1 and |y|_1 of at most `radius`.

    Parameters
    ----------
    constants : SeriesConstants
        Of which `estimate_slope` must bound the mean of the largest gradient of all rows.
    n_components : int
        M independent features.
    error : float
        epsilon, above 0.
    radius : float
        R, above 0.
    n_columns : int
        d, at least 1.

    Returns
    -------
    float, from 0 to 1
        1 where the bound says nothing: it needs M of the order of d (C_1 / epsilon)^2 log(R L_1 / epsilon).

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Notes
    -----
    Source: Kar & Karnick 2012, supplement, theorem 15, with the proof's steps mended. The net has (4 R /
    r)^d centres for x and as many for y, so (4 R / r)^(2 d) pairs, where the paper counts (4 R / r)^d. Errors
    of at most epsilon / 2 at the centres and slopes of at most epsilon / (4 r) make errors of at most
    epsilon; the paper takes epsilon / (2 r). So the probability is at most 2 (4 R / r)^(2 d) exp(-M epsilon^2
    / (8 C_1^2)) + 4 L_1 r / epsilon, for the best r. The printed exponent, -M epsilon^2 / (8 C_1^2 d), does
    not follow even from the paper's own count, which gives d + 1 in place of d; here it is 2 d + 1.

    Examples
    --------
    >>> constants = SeriesConstants(largest=1.0, kernel_slope=1.0, estimate_slope=1.0)
    >>> options = {"error": 0.1, "radius": 1.0, "n_columns": 10}
    >>> [round(largest_error_odds(constants, M, **options), 4) for M in (50_000, 200_000)]
    [1.0, 0.0021]
    """
    check_count("n_components", n_components)
    check_count("n_columns", n_columns)
    epsilon, R, twice = as_positive("error", error), as_positive("radius", radius), 2 * n_columns
    slope = 4.0 * constants.error_slope / epsilon
    exponent = n_components * epsilon**2 / (8.0 * constants.largest**2)
    if not slope < math.inf:
        return 1.0
    if slope == 0.0:
        return min(1.0, 2.0 * math.exp(-exponent))
    # The r at which the sum is smallest, but no larger than the ball, which one centre covers.
    logarithm = math.log(2.0) + twice * math.log(4.0 * R) - exponent
    log_r = min((math.log(twice / slope) + logarithm) / (twice + 1), math.log(4.0 * R))
    centres = math.exp(min(0.0, logarithm - twice * log_r))
    return min(1.0, centres + slope * math.exp(log_r))


def _value(kernel: DotProductKernel, t: float) -> float:
    with np.errstate(over="ignore"):
        value = float(kernel.of_products(np.array([t]))[0])
    if not value < math.inf:
        raise InputError(f"{kernel!r} is too large at {t:g} for double precision; divide rows by a length.")
    return value


def _derivative(kernel: DotProductKernel, t: float) -> float:
    """Return f'(t), the mean of the degrees by the weights of powers times f(t) / t."""
    weights = kernel.probabilities(math.sqrt(t))
    return _value(kernel, t) * float(weights @ np.arange(weights.size)) / t


def _check_delta(value: float) -> None:
    if not 0.0 < value < 1.0:
        raise InputError(f"delta must be between 0 and 1, not {value!r}.")
