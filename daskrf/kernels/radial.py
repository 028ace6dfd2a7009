"""Kernels of the distance between two rows: Gaussian, Matern, and those of a radial spectrum."""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from inspect import signature
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, gammaincinv, gammaln, hyp0f1, kve, roots_gegenbauer

from daskrf import seeds
from daskrf.arrays import MatrixLike, as_rows
from daskrf.engine import engine
from daskrf.errors import InputError
from daskrf.kernels.distances import finite_rows, is_full, squares_from
from daskrf.kernels.index import dense_parts
from daskrf.kernels.kernel import AUTO, UNDECIDED, Kernel, Prepared, as_integer, as_positive

_LARGEST_NU = 50.0
_LARGEST_ORDER = 20.0  # of Bessel functions for which SciPy's gamma function and powers suffice
_NODES = 128
_MOST_OF_QUADRATURE = 2000.0  # for higher orders no nodes are found
_SHORTEST = 2.0**-12  # at shorter length scales a Matern spectrum cannot tell rows apart
_LARGEST_RADIUS = 1e6
_REACH = 4.0  # length scales from the mean, up to which squared distances may be in single precision
_FAR = 1000.0
_SMALLEST = 1e-12  # length scale whose square and inverse square are still ordinary float32 numbers
_DRAWS = 1024  # radii requested from a sampler

Array = npt.NDArray[np.float64]
Length = float | Literal["auto"]
Uniform = Callable[[str], Array]
"""Takes a name and returns a number between 0 and 1 for each radius; the numbers depend on the name."""


class RadialKernel(Kernel):
    """k(x, y) = f(|x - y| / l), positive definite on vectors with as many columns as the rows.

    By Bochner's theorem k is the characteristic function of a random frequency vector with uniform direction,
    from which random Fourier features are made; `radii` samples its length. A subclass with `of_distances`
    and `radii` works with every feature map, store and model.

    Squared distances are exactly 0 for equal rows. For others they are accurate to about nine digits, however
    far from the origin the rows lie: columns may be dates or masses.

    Parameters
    ----------
    length_scale : float or "auto"
        l, in the units of the columns; with "auto", `fit` chooses it from the labels.

    Raises
    ------
    InputError
        If it is not a finite number above 0; when called, if a value is not finite or squares overflow.
    """

    option_defaults: ClassVar[dict[str, object]] = {"length_scale": AUTO}

    any_columns: ClassVar[bool] = False
    """True if f is the same function for any number of columns, so that rows may be padded with zeros and
    `radii` drawn for the padded number."""

    def __init__(self, length_scale: Length = 1.0) -> None:
        self._length_scale: Any = AUTO
        if length_scale != AUTO:
            self._length_scale = as_positive("length_scale", length_scale)

    @property
    def length_scale(self) -> float:
        """l, in the units of the columns; InputError if it is not known yet."""
        if self._length_scale == AUTO:
            raise InputError(UNDECIDED)
        return self._length_scale

    def parameters(self) -> dict[str, object]:
        names = (name for name in signature(type(self)).parameters if name != "length_scale")
        return {"length_scale": self._length_scale, **{name: getattr(self, name) for name in names}}

    @abstractmethod
    def of_distances(self, r: npt.NDArray[np.floating], n_columns: int) -> npt.NDArray[np.floating]:
        """Return f(r), exactly 1 at r = 0, for distances divided by the length scale; may overwrite `r`."""

    @abstractmethod
    def radii(self, uniform: Uniform, n_columns: int) -> Array:
        """Return lengths of random frequencies, in radians for a distance of one length scale.

        Parameters
        ----------
        uniform : callable
            ``uniform(name)`` returns independent numbers between 0 and 1, float64 of shape (n,), which depend
            only on the seed, the name and their position.
        n_columns : int
            Number of columns of the rows.

        Returns
        -------
        float64 array, shape (n,)
            Entry i depends only on entry i of the uniform numbers.
        """

    def against(self, Y: MatrixLike) -> Prepared:
        right = finite_rows(Y)
        squares, n_columns = squares_from(right), right.shape[1]
        smooth = self._single_form() is not None and self._usual

        def values(X: MatrixLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
            squared = squares(X, single=smooth and np.dtype(dtype) == np.float32)
            return self.of_squares(squared, n_columns).astype(dtype, copy=False)

        return values

    def against_single(self, Y: MatrixLike) -> Prepared:
        """Return the function X -> k(X, Y) in float32; see `Kernel`.

        If the rows of `Y` are mostly nonzero and lie within a few length scales of their mean, single
        precision keeps enough digits of squared distances for a kernel that is smooth at 0.
        """
        right, form = finite_rows(Y), self._single_form()
        if form is None or not is_full(right):
            return self.against(Y)
        rows = right.toarray()
        with np.errstate(over="ignore"):
            centre = rows.mean(axis=0)
            reach = math.sqrt(float(np.square(rows - centre).sum(axis=1).max()))
        if not (self._usual and reach <= _REACH * self.length_scale):
            return self.against(Y)
        # For larger distances the kernel is below the smallest float32.
        limit = (reach + _FAR * self.length_scale) ** 2
        landmarks, others = _centred(rows, centre, limit)
        factor, shape = form[0] / self.length_scale**2, form[1:]

        def values(X: MatrixLike, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[np.floating]:
            rows = as_rows(X)
            out = np.empty((rows.shape[0], others.size), np.float32)
            for chunk, left in dense_parts(rows, right):
                moved, norms = _centred(left, centre, limit)
                np.matmul(moved, landmarks.T, out=out[chunk])
                engine().radial_values(norms, others, factor, shape, out[chunk])
            return out

        return values

    @property
    def _usual(self) -> bool:
        return _SMALLEST <= self.length_scale <= 1.0 / _SMALLEST

    def _single_form(self) -> tuple[float, bool, float, float] | None:
        """Return f(r) as q(z) exp(-z), z = factor r^2 or its root: (factor, root, a, b), see `radial_values`.

        None if there is no such form, or f is not smooth at 0.
        """
        return None

    def of_squares(self, squares: npt.NDArray[np.floating], n_columns: int) -> npt.NDArray[np.floating]:
        """Return the kernel for squared distances of rows, overwriting `squares`."""
        np.sqrt(squares, out=squares)
        squares /= self.length_scale
        return self.of_distances(squares, n_columns)

    def words(self) -> str:
        settings = self.parameters().items()
        shown = [(key, f"{value:g}" if isinstance(value, (int, float)) else value) for key, value in settings]
        words = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in shown if key != "radii")
        return f"{type(self).__name__} kernel ({words})"


class Gaussian(RadialKernel):
    """k(x, y) = exp(-|x - y|^2 / (2 l^2)), the squared exponential or RBF kernel.

    Its frequencies are normal, N(0, I / l^2). Source: Rahimi & Recht 2007; Le, Sarlos & Smola 2013, section
    4.1 (their equation 13 prints 1 / (2 sigma^2) for sigma^2 / 2).

    Parameters
    ----------
    length_scale : float or "auto", default 1.0
        Length scale l, above 0, in the units of the columns. With auto, `fit` chooses it from the labels; all
        other commands need a number.

    Examples
    --------
    >>> Gaussian(length_scale=2.0)([[2, 0, 1]], [[2, 0, 1], [0, 0, 1]]).round(4).tolist()
    [[1.0, 0.6065]]
    """

    name = "gaussian"
    any_columns = True

    def _single_form(self) -> tuple[float, bool, float, float]:
        return 0.5, False, 0.0, 0.0

    def of_squares(self, squares: npt.NDArray[np.floating], n_columns: int) -> npt.NDArray[np.floating]:
        """Return exp(-squares / (2 l^2)), overwriting `squares`."""
        squares /= self.length_scale  # divide twice, because the square of a length scale may overflow
        squares /= -2.0 * self.length_scale
        return np.exp(squares, out=squares)

    def of_distances(self, r: npt.NDArray[np.floating], n_columns: int) -> npt.NDArray[np.floating]:
        """Return exp(-r^2 / 2), overwriting `r`."""
        np.square(r, out=r)
        r *= -0.5
        return np.exp(r, out=r)

    def radii(self, uniform: Uniform, n_columns: int) -> Array:
        """Return the lengths of standard normal vectors; see `RadialKernel`."""
        return _chi(uniform("length"), n_columns)


class Matern(RadialKernel):
    """k(x, y) = 2^(1 - nu) / Gamma(nu) z^nu K_nu(z), z = sqrt(2 nu) |x - y| / l, K_nu a Bessel function.

    nu = 1/2 is exp(-|x - y| / l); the larger nu, the smoother, up to the Gaussian kernel. Its frequencies
    have a multivariate t distribution of 2 nu degrees of freedom (Rasmussen & Williams 2006, section 4.2.1).

    Parameters
    ----------
    length_scale : float or "auto", default 1.0
        Length scale l, above 0, in the units of the columns. With auto, `fit` chooses it from the labels; all
        other commands need a number.
    nu : float, default 1.5
        Smoothness, above 0 and at most 50.

    Examples
    --------
    >>> Matern(2.0, nu=0.5)([[2, 0, 1]], [[2, 0, 1], [0, 0, 1]]).round(4).tolist()
    [[1.0, 0.3679]]
    """

    name = "matern"
    any_columns = True

    def __init__(self, length_scale: Length = 1.0, *, nu: float = 1.5) -> None:
        super().__init__(length_scale)
        self.nu = as_positive("nu", nu)
        if self.nu > _LARGEST_NU:
            raise InputError(f"nu must be at most {_LARGEST_NU:g}, not {nu!r}; use the Gaussian kernel.")

    def _single_form(self) -> tuple[float, bool, float, float] | None:
        linear_and_square = {1.5: (1.0, 0.0), 2.5: (1.0, 1.0 / 3.0)}.get(self.nu)
        return None if linear_and_square is None else (2.0 * self.nu, True, *linear_and_square)

    def of_distances(self, r: npt.NDArray[np.floating], n_columns: int) -> npt.NDArray[np.floating]:
        """Return the kernel for distances divided by the length scale."""
        r *= math.sqrt(2.0 * self.nu)
        factor = {0.5: lambda z: 1.0, 1.5: lambda z: 1.0 + z, 2.5: lambda z: 1.0 + z + z * z / 3.0}.get(
            self.nu
        )
        if factor is not None:
            # At distances where exp underflows, the polynomial could overflow.
            np.minimum(r, 1e6, out=r)
            return factor(r) * np.exp(-r)
        with np.errstate(all="ignore"):
            logarithm = (1.0 - self.nu) * math.log(2.0) - gammaln(self.nu) + self.nu * np.log(r)
            values = np.exp(logarithm + np.log(kve(self.nu, r)) - r)
        # Where the Bessel function overflows, k is 1 minus a term in z^2.
        near = 1.0 - np.square(r) / (4.0 * (self.nu - 1.0)) if self.nu > 1.0 else np.ones_like(r)
        return np.where(np.isfinite(values), np.minimum(values, 1.0), np.where(r < 1.0, near, 0.0))

    def radii(self, uniform: Uniform, n_columns: int) -> Array:
        """Return the lengths of multivariate t vectors; see `RadialKernel`.

        Their heavy tail is cut off at normal vectors with a standard deviation of 2^12, which phases in
        single precision can still resolve: for nu below 1/4 many frequencies would exceed every float32
        number.
        """
        tail = np.maximum(gammaincinv(self.nu, uniform("tail")), self.nu * _SHORTEST**2)
        return _chi(uniform("length"), n_columns) * np.sqrt(self.nu / tail)


class UnitBalls(RadialKernel):
    """k(x, y) = [Gamma(d/2 + 1) (2/r)^(d/2) J_{d/2}(r)]^t, r = |x - y| / l, J a Bessel function.

    The Matern kernel of Le, Sarlos & Smola 2013 (equation 37, here with k(x, x) = 1): a frequency is the sum
    of t random vectors in the unit ball in d dimensions, d being the number of columns. Frequencies are
    bounded, so k is smooth. It changes sign, and it depends on d: with another number of columns it is
    another kernel. For large d the length of the sum is about sqrt(t), so l corresponds to the length scale
    of a Gaussian kernel times sqrt(t / (d + 2)).

    Parameters
    ----------
    length_scale : float or "auto", default 1.0
        Length scale l, above 0, in the units of the columns. With auto, `fit` chooses it from the labels; all
        other commands need a number.
    degree : int, default 1
        t, from 1 to 1,000.

    Examples
    --------
    >>> UnitBalls(0.5)([[2, 0, 1]], [[2, 0, 1], [0, 0, 1]]).round(4).tolist()
    [[1.0, 0.0871]]
    """

    name = "unit-balls"

    def __init__(self, length_scale: Length = 1.0, *, degree: int = 1) -> None:
        super().__init__(length_scale)
        self.degree = as_integer("degree", degree, 1, 1000)

    def of_distances(self, r: npt.NDArray[np.floating], n_columns: int) -> npt.NDArray[np.floating]:
        """Return the kernel for distances divided by the length scale."""
        return _bessel(n_columns / 2.0 + 1.0, r) ** self.degree

    def radii(self, uniform: Uniform, n_columns: int) -> Array:
        """Return the lengths of sums of random vectors in the unit ball; see `RadialKernel`."""
        total = uniform("length 0") ** (1.0 / n_columns)
        for i in range(1, self.degree):
            radius = uniform(f"length {i}") ** (1.0 / n_columns)
            # The cosine of the angle to the sum so far is a coordinate of a uniform direction.
            u = uniform(f"angle {i}")
            half = (n_columns - 1) / 2.0
            cosine = np.sign(u - 0.5) if n_columns == 1 else 2.0 * betaincinv(half, half, u) - 1.0
            total = np.sqrt(np.maximum(total**2 + radius**2 + 2.0 * total * radius * cosine, 0.0))
        return total


class RadialSpectrum(RadialKernel):
    """The kernel of any radial spectrum: a frequency has uniform direction and a length drawn from `radii`.

    k(x, y) is the mean over the radii s of Omega(s |x - y| / l), Omega(z) = Gamma(d/2) (2/z)^(d/2 - 1) J_{d/2
    - 1}(z) (Schoenberg 1938): cos(z) for one column, sin(z) / z for three. Its cost grows with the number of
    radii; that of its features does not.

    Source: Le, Sarlos & Smola 2013, section 4.4: "we only need to be able to sample from the distribution".

    Parameters
    ----------
    radii : sequence of float, or callable
        Lengths from 0 to 1e6, with equal probabilities; or a sampler, ``sampler(generator, size)``, which is
        called once for 1,024 lengths, with a `numpy.random.Generator` of seed 0. The kernel keeps the
        lengths, so it can be stored and rebuilt without the sampler. Text is also accepted, in the form that
        `parameters` returns.
    length_scale : float or "auto", default 1.0
        Length scale l, above 0, in the units of the columns. With auto, `fit` chooses it from the labels; all
        other commands need a number.

    Examples
    --------
    >>> RadialSpectrum([1.0, 2.0])([[0.5]], [[0.5], [0.0]]).round(4).tolist()
    [[1.0, 0.7089]]
    >>> from daskrf.features import FastfoodFeatures
    >>> heavy = RadialSpectrum(lambda generator, size: generator.pareto(2.0, size))
    >>> FastfoodFeatures(heavy, 128).transform(np.ones((2, 5))).shape
    (2, 128)
    """

    def __init__(
        self, radii: Sequence[float] | Callable[..., npt.ArrayLike] | str, length_scale: Length = 1.0
    ) -> None:
        super().__init__(length_scale)
        drawn = radii(seeds.generator(0, "spectrum"), _DRAWS) if callable(radii) else radii
        lengths = _decoded(drawn) if isinstance(drawn, str) else _lengths(drawn)
        if lengths.ndim != 1 or not lengths.size or not np.isfinite(lengths).all() or lengths.min() < 0.0:
            raise InputError(
                "radii must be a sequence of finite numbers of at least 0, or a sampler of them."
            )
        if lengths.max() > _LARGEST_RADIUS:
            raise InputError(
                f"radii must be at most {_LARGEST_RADIUS:,.0f}, not {lengths.max():g}: phases would lose all "
                "digits; divide radii and length_scale by the same number, which gives the same kernel."
            )
        lengths.setflags(write=False)
        self.lengths = lengths

    def parameters(self) -> dict[str, object]:
        """Return the parameters of the constructor, JSON-able: the radii as base64 of compressed float64."""
        text = base64.b64encode(zlib.compress(self.lengths.astype("<f8").tobytes(), 9)).decode()
        return {"radii": text, "length_scale": self._length_scale}

    def of_distances(self, r: npt.NDArray[np.floating], n_columns: int) -> npt.NDArray[np.floating]:
        """Return the kernel for distances divided by the length scale."""
        total = np.zeros_like(r)
        for length in self.lengths:
            total += _bessel(n_columns / 2.0, length * r)
        total /= self.lengths.size
        return total

    def radii(self, uniform: Uniform, n_columns: int) -> Array:
        """Return some of the lengths, drawn at random; see `RadialKernel`."""
        return self.lengths[(uniform("length") * self.lengths.size).astype(np.int64)]


def _centred(
    rows: Array, centre: Array, limit: float
) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
    """Return rows minus the centre and their squared lengths, float32; beyond `limit`, 0 and infinity."""
    with np.errstate(all="ignore"):
        moved = rows - centre
        lengths = np.einsum("ij,ij->i", moved, moved)
        far = ~(lengths <= limit)
        moved[far], lengths[far] = 0.0, np.inf
        return moved.astype(np.float32), lengths.astype(np.float32)


def _lengths(radii: object) -> Array:
    try:
        return np.array(radii, dtype=np.float64)
    except (TypeError, ValueError):
        return np.empty(0)


def _decoded(text: str) -> Array:
    try:
        return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<f8").astype(np.float64)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise InputError(f"The stored radii of the kernel cannot be read ({error}); make it again.") from None


def _chi(u: Array, degrees: int) -> Array:
    """Return quantiles of the length of a standard normal vector."""
    return np.sqrt(2.0 * gammaincinv(degrees / 2.0, u))


def _bessel(v: float, r: npt.NDArray[np.floating]) -> Array:
    """Return 0F1(; v; -r^2 / 4) = Gamma(v) (2/r)^(v - 1) J_{v-1}(r), v >= 1/2; 1 at r = 0."""
    if v <= _LARGEST_ORDER:
        values = hyp0f1(v, -np.square(np.minimum(r, 1e8)) / 4.0)
        return np.where(np.isfinite(values), values, 0.0)
    if v > _MOST_OF_QUADRATURE:
        # The logarithm is -sum_k S_k (r^2 / 4)^k / k, with S_k the sums of powers of the inverse squares of
        # the function's zeros (Rayleigh; Watson 1944, 15.51). Terms beyond k = 4 are below 1e-11.
        q = np.square(r) / (4.0 * v)
        fourth = q * (5.0 * v + 6.0) / (4.0 * (v + 1.0) * (v + 3.0))
        return np.exp(-q * (1.0 + q / (v + 1.0) * (0.5 + q / (v + 2.0) * (2.0 / 3.0 + fourth))))
    # The characteristic function of a density proportional to (1 - s^2)^(v - 3/2) on [-1, 1], which is nearly
    # normal. Beyond the range of the quadrature it is below 1e-16.
    nodes, weights = _quadrature(v)
    out = np.zeros_like(r)
    inside = r <= max(0.8 * _NODES, 9.0 * math.sqrt(2.0 * v))
    near = r[inside]
    total = np.zeros_like(near)
    for node, weight in zip(nodes, weights, strict=True):
        total += weight * np.cos(node * near)
    out[inside] = np.where(near == 0.0, 1.0, total)
    return out


@cache
def _quadrature(v: float) -> tuple[list[float], list[float]]:
    """Return the nonnegative nodes and the weights of a quadrature of even functions."""
    nodes, weights = roots_gegenbauer(_NODES, v - 1.0)
    positive = nodes > 0.0
    return nodes[positive].tolist(), (weights[positive] / weights[positive].sum()).tolist()
