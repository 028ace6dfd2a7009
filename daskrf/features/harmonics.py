"""Fastfood for dot-product kernels: polynomials of projections on directions made by fast transforms."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from daskrf import seeds
from daskrf.arrays import MatrixLike, squared_norms
from daskrf.engine import Blocks, Rows, engine
from daskrf.errors import InputError
from daskrf.features.fastfood import BLOCKS, LEAST, SCRATCH, check_width
from daskrf.features.featuremap import MapFacts
from daskrf.features.maclaurin import DotProductMap, degree_measure, draw_degrees
from daskrf.features.sketches.projections import refuse_overflow, scale_rows
from daskrf.kernels.powerseries import DotProductKernel, Polynomial
from daskrf.seeds import RandomState

_PHASES = 2**16  # few enough to stay in the cache
_LARGEST_VALUE = 1e70  # of a kernel: features are its root, times polynomials of some orders of magnitude
_NOTHING = 2.0**-60  # shares of a kernel's value below this get no features

Array = npt.NDArray[np.float64]


def legendre_coefficients(degree: int, d: int) -> Array:
    """Return c_nk of t^n = sum_k c_nk L_k(t), L_k the Legendre polynomials in d dimensions, L_k(1) = 1.

    All are at least 0, and those of each n sum to 1, because t^n is positive definite on the sphere.

    Parameters
    ----------
    degree : int
        Largest n.
    d : int
        At least 3.

    Returns
    -------
    float64 array, shape (degree + 1, degree + 1)

    Examples
    --------
    >>> legendre_coefficients(2, 3).round(3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.333, 0.0, 0.667]]
    """
    coefficients = np.zeros((degree + 1, degree + 1))
    coefficients[0, 0] = 1.0
    k = np.arange(degree + 1)
    up, down = (k + d - 2) / (2 * k + d - 2), k / (2 * k + d - 2)
    for n in range(degree):
        # t L_k = up_k L_{k+1} + down_k L_{k-1}
        coefficients[n + 1, 1:] = (up * coefficients[n])[:-1]
        coefficients[n + 1, :-1] += (down * coefficients[n])[1:]
    return coefficients


def monomial_shares(weights: Array, d: int) -> Array:
    """Return b_p of sum_k weights_k L_k(t) = sum_p b_p m_p(t) / m_p(1), m_p the mean of <x, v>^p <y, v>^p.

    Here x and y are unit vectors, t = x.y, and v is uniform on the sphere of d dimensions. Every m_p is a
    positive sum of L_p, L_{p-2}, ... (from u^p = sum_k c_pk L_k the reproducing property gives c_pk^2 / N_k),
    so the b_p follow from the largest degree down. They may be negative.

    Examples
    --------
    >>> monomial_shares(legendre_coefficients(2, 8)[2], 8).round(3).tolist()
    [-0.5, 0.0, 1.5]
    """
    degree = weights.size - 1
    with np.errstate(divide="ignore"):
        logarithms = 2.0 * np.log(legendre_coefficients(degree, d)) - np.log(_multiplicities(degree, d))
    shares = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    left, result = weights.copy(), np.zeros_like(weights)
    for p in range(degree, -1, -1):
        if left[p] != 0.0:
            result[p] = left[p] / shares[p, p]
            left -= result[p] * shares[p]
    return result


def _multiplicities(degree: int, d: int) -> Array:
    """Return N_k, the number of independent spherical harmonics of each degree k in d dimensions."""
    k = np.arange(degree + 1)
    first = np.log(2 * k + d - 2) - math.log(d - 2)
    with np.errstate(over="ignore"):
        return np.exp(first + gammaln(k + d - 2) - gammaln(d - 2) - gammaln(k + 1))


def _recurrence(expansion: str, degree: int, d: int) -> npt.NDArray[np.float32]:
    """Return a_k and b_k in the recurrence P_{k+1} = a_k x P_k - b_k P_{k-1}, with E P_k(x)^2 = 1."""
    k = np.arange(degree, dtype=np.float64)
    if expansion == "monomials":
        return np.stack([np.sqrt((d + 2 * k) / (2 * k + 1)), np.zeros_like(k)]).astype(np.float32)
    growth = np.sqrt((2 * k + d) / (2 * k + d - 2) * (k + d - 2) / (k + 1))  # sqrt(N_{k+1} / N_k)
    before = np.concatenate([[1.0], growth[:-1]])[: k.size]
    a = (2 * k + d - 2) / (k + d - 2) * growth
    b = k / (k + d - 2) * growth * before
    return np.stack([a, b]).astype(np.float32)


class _Cells(NamedTuple):
    """Parts of a kernel's value, sorted by their polynomial: degree k, power n of the length, and share."""

    degree: npt.NDArray[np.int64]
    power: npt.NDArray[np.int64]
    share: Array


class _Run(NamedTuple):
    """Features `first` to `stop` - 1: weight r^power P_degree(x), with x the projection on a direction."""

    first: int
    stop: int
    degree: int
    power: int
    weight: np.float32


class _Plan(NamedTuple):
    """What `transform` needs for rows of a given number of columns."""

    blocks: Blocks
    runs: list[_Run]
    recurrence: npt.NDArray[np.float32]
    most: int
    """Largest power of a row's length."""


@dataclass(eq=False, repr=False)
class FastfoodDotProductFeatures(DotProductMap):
    """Features of a dot-product kernel f(x.y): Legendre polynomials of products with random directions.

    On the sphere of d dimensions f(t) = sum_k lambda_k L_k(t), and the mean of L_k(x.v) L_k(y.v) over
    directions v is L_k(x.y) / N_k, where N_k is the number of spherical harmonics of degree k. Since t^n =
    sum_k c_nk L_k(t) with c_nk >= 0, this works for every f with coefficients a_n >= 0 and for rows of any
    length: a feature has a random power n and degree k, and is proportional to |x|^n L_k(x.v / |x|). Inner
    products are unbiased if directions are uniform. Directions come from fast transforms, as in
    `FastfoodFeatures`: a row takes O(M log d) time, and the map O(M) memory, 16 bytes a feature. The constant
    a_0 is one feature, and exact.

    Use it for degrees 1 and 2. Polynomials of one direction have heavy tails, the more so the higher the
    degree. On molecules' counts folded to 1,024 columns, with M = 1,024, the root mean squared error of cos^n
    was 0.04, 0.10, 0.17 and 0.21 for n = 2, 3, 4 and 6, and that of k(x, x) = 1 was 0.07, 0.22, 0.5 and 1.4.
    `PolynomialSketch` with TensorSketch had 0.03 to 0.06, and 0.06 to 0.27. For higher degrees use that, or
    `RandomMaclaurinFeatures`.

    Parameters
    ----------
    kernel : DotProductKernel, default Polynomial(2, c=1, normalize=True)
        `Polynomial`, `Exponential` or `DotProduct`. The variance grows with the lengths of the rows; with
        `normalize` every row has the length 1.
    n_components : int, default 4096
        Number M of features.
    expansion : {"legendre", "monomials"}, default "legendre"
        "monomials" writes f as a sum of means of <x, v>^p <y, v>^p, without Legendre polynomials. It needs a
        kernel with `normalize` whose coefficients in this sum are all at least 0. Few kernels qualify: (x.y +
        1)^2 does, powers of t and exp(t) do not. The variance is larger. For a row of zeros only the constant
        of that sum remains, which is not a_0.
    projection : {"orthogonal", "hadamard"}, default "orthogonal"
        As for `FastfoodFeatures`: orthogonal directions, with a smaller variance and a bias of the order 1 /
        d^2 (d at least 64), or the paper's H G Pi H B, in which each direction is exactly uniform.
    radius : float, optional
        Row length R for which powers are sampled. Default: 1 for a kernel with `normalize`, else the
        length of the longest row in the fit.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    radius_ : float
        R.
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Notes
    -----
    Source: Le, Sarlos & Smola 2013, theorem 3, corollary 4 and section 4.5 (Legendre), equations 28 to 32
    (monomials). Corrections: N(d, n) must be the number of harmonics, not of homogeneous polynomials;
    equation 18 lacks the factor sum_n lambda_n N(d, n); |x|^n |y|^n L_n (equation 16) is f(x.y) only for unit
    vectors, which is why power and degree are two numbers here; the last factor of equation 30 is (1 -
    x_1^2)^((d-3)/2). Degrees are drawn in proportion to their part of f(R^2), not to lambda_n N(d, n): as
    N(d, n) is about d^n / n!, the paper's odds would nearly always pick the highest degrees. Rows are padded
    with zeros to d, a power of two of at least 64.

    Examples
    --------
    >>> X = np.array([[2, 0, 1], [0, 5, 0]])
    >>> Phi = FastfoodDotProductFeatures(Polynomial(2, normalize=True), 4000).fit_transform(X)
    >>> np.abs(Phi @ Phi.T - [[4, 1], [1, 4]]).max() < 0.25
    np.True_
    """

    facts = MapFacts(
        name="fastfood-dot-product",
        kernel="power series of cos or x.y",
        rows="reals",
        features="floats",
        cost="M log d",
        holds="16 M + 32 d",
        learns="nothing, or the longest row",
        reference="Le, Sarlos & Smola 2013, sections 2.2, 4.5",
        use="for degrees 1 and 2, on folded or dense rows with many values; at higher degrees its features "
        "have heavy tails, and polynomial and maclaurin are far more accurate at equal M",
        example="--kernel polynomial --degree 2 --c 0",
    )

    kernel: DotProductKernel = Polynomial(2, normalize=True)  # noqa: RUF009, kernels are immutable
    n_components: int = 4096
    _: KW_ONLY
    expansion: Literal["legendre", "monomials"] = "legendre"
    projection: Literal["orthogonal", "hadamard"] = "orthogonal"
    radius: float | None = None
    random_state: RandomState = 0

    def words(self) -> str:
        how = "by monomials" if self.expansion == "monomials" else "by Legendre polynomials"
        return f"Fastfood features of k = {self.kernel.words()} {how}, {self.size_words}"

    @property
    def kernel_(self) -> DotProductKernel:
        return self.kernel

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        csr, rows = scale_rows(X, normalize=True)
        self.check_columns(csr.shape[1])
        length = _length(csr.shape[1])
        plan = self._once(lambda: self._plan(length), length, self.radius_)
        columns = rows.columns.astype(np.int32, copy=False)
        out = np.zeros((csr.shape[0], self.n_components), np.float32)
        size = max(1, _PHASES // self.n_components)
        products = np.empty((min(size, len(out)), self.n_components), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            powers = self._powers(csr, plan.most)
            for start in range(0, len(out), size):
                chunk = slice(start, min(start + size, len(out)))
                projected = products[: chunk.stop - start]
                block = Rows(rows.pointer[start : chunk.stop + 1], columns, rows.values)
                engine().project_blocks(block, plan.blocks, projected)
                projected *= rows.factors[chunk, None]
                for run in plan.runs:
                    values = _polynomials(projected[:, run.first : run.stop], run.degree, plan.recurrence)
                    np.multiply(
                        values,
                        run.weight * powers[chunk, run.power, None],
                        out=out[chunk, run.first : run.stop],
                    )
        refuse_overflow(out, "divide all rows by a length, or use a kernel with normalize=True")
        return out

    def check_columns(self, n_columns: int) -> None:
        """Raise InputError if there are too many columns for the transforms, or too few for monomials."""
        check_width(n_columns)
        if self.expansion == "monomials":  # which needs a kernel with `normalize`: rows of length 1
            self._cells(self._measure(1.0)[2], _length(n_columns))

    def table_bytes(self, n_columns: int) -> int:
        """Return the bytes that it takes to make the transforms' diagonals; see `FeatureMap`."""
        length = _length(n_columns)
        return 40 * length * -(-self.n_components // length) + SCRATCH * length

    def _powers(self, csr: Any, most: int) -> npt.NDArray[np.float32]:
        """Return (|x| / R)^n of each row, n = 0 .. most; lengths are 1 or 0 for a kernel with normalize."""
        if self.kernel.normalize:
            ratios = (np.diff(csr.indptr) > 0).astype(np.float64)
        else:
            ratios = np.sqrt(squared_norms(csr.indptr, csr.data)) / self.radius_
        powers = np.ones((csr.shape[0], most + 1))
        for n in range(most):
            powers[:, n + 1] = powers[:, n] * ratios
        return powers.astype(np.float32)

    def _plan(self, length: int) -> _Plan:
        value, _, odds = self._measure(self.radius_)
        cells = self._cells(odds, length)
        seed, size = self.seed_, self.n_components
        runs = _draw(cells, value, size, int(seeds.words(seed, "harmonics/degrees", 1)[0]))
        blocks, lengths = BLOCKS[self.projection](seed, -(-size // length), length)
        blocks = blocks._replace(scales=(1.0 / lengths).astype(np.float32))
        recurrence = _recurrence(self.expansion, int(cells.degree.max()), length)
        return _Plan(blocks, runs, recurrence, int(cells.power.max()))

    def _cells(self, odds: Array, length: int) -> _Cells:
        """Return the parts of the kernel's value for rows of length R; those of the constant come first."""
        shares = odds[:, None] * legendre_coefficients(odds.size - 1, length)
        if self.expansion == "monomials":
            coefficients = monomial_shares(shares.sum(axis=0), length)
            if coefficients.min() < -1e-12:
                raise InputError(
                    f"{self.kernel!r} is not a sum of powers <x, v>^p with coefficients of at least 0 (that "
                    f'of degree {int(coefficients.argmin())} is negative); use expansion="legendre".'
                )
            shares = np.diag(np.maximum(coefficients, 0.0))
        degree, power = np.nonzero(shares.T > _NOTHING)
        share = shares[power, degree]
        return _Cells(degree, power, share / math.fsum(share))

    def _measure(self, radius: float) -> tuple[float, Array, Array]:
        """Return f(R^2), the coefficients of the series, and the odds of its powers for rows of length R."""
        coefficients, odds = degree_measure(self.kernel, "proportional", radius=radius)
        with np.errstate(over="ignore"):
            value = float(self.kernel.of_products(np.array([radius * radius]))[0])
        if not value < _LARGEST_VALUE:
            what = "divide its coefficients by a number, or take a smaller gamma or degree"
            if not self.kernel.normalize:
                what = "divide all rows by a length, or use a kernel with normalize=True"
            raise InputError(
                f"The value {value:.3g} of {self.kernel!r} for rows of length {radius:g} is too large for "
                f"features in single precision; {what}."
            )
        return value, coefficients, odds

    def _uses_radius(self) -> bool:
        return not getattr(self.kernel, "normalize", True)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.expansion == "monomials" and not self.kernel.normalize:
            raise InputError('expansion="monomials" needs a kernel with normalize=True; use "legendre".')
        if not self._needs_radius():
            self._measure(self.radius_)


def _length(n_columns: int) -> int:
    """Return the number of dimensions that rows are padded to."""
    return max(LEAST, 1 << (n_columns - 1).bit_length())


def _draw(cells: _Cells, value: float, size: int, word: int) -> list[_Run]:
    """Return the runs of features with the same polynomial: the constant once, the rest at random."""
    exact = int(size > 1 and cells.degree[0] == 0 and cells.power[0] == 0)
    runs = [_Run(0, 1, 0, 0, np.float32(math.sqrt(value * cells.share[0])))] if exact else []
    odds = cells.share.copy()
    odds[:exact] = 0.0
    rest = math.fsum(odds)
    if rest > 0.0:
        drawn = draw_degrees(odds / rest, size - exact, word)
        edges = np.flatnonzero(np.diff(drawn, prepend=-1, append=-1))
        weight = np.float32(math.sqrt(value * rest / (size - exact)))
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            degree, power = int(cells.degree[drawn[first]]), int(cells.power[drawn[first]])
            runs.append(_Run(first + exact, last + exact, degree, power, weight))
    return runs


def _polynomials(
    x: npt.NDArray[np.float32], degree: int, recurrence: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Return P_degree(x): P_0 = 1, P_{k+1}(x) = a_k x P_k(x) - b_k P_{k-1}(x)."""
    before, now = np.zeros_like(x), np.ones_like(x)
    for a, b in recurrence.T[:degree]:
        after = a * x
        after *= now
        after -= b * before
        before, now = now, after
    return now
