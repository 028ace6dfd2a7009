"""Kernels of the distance: values against definitions, spectra against values, bad parameters."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from scipy import integrate
from sklearn.gaussian_process import kernels as sklearn

from daskrf.errors import InputError
from daskrf.kernels import Gaussian, Matern, RadialKernel, RadialSpectrum, UnitBalls, from_state
from tests.floats import assert_agree
from tests.jit import jit_disabled
from tests.kernels.values import REALS, limits
from tests.memory import least_peak

X = np.random.default_rng(0).normal(size=(9, 4))
Y = np.random.default_rng(1).normal(size=(7, 4)) * [[0.001], [0.1], [1], [1], [10], [100], [0]]


@pytest.mark.parametrize("length_scale", [0.2, 1.0, 30.0])
@pytest.mark.parametrize("nu", [0.3, 0.5, 1.0, 1.5, 2.5, 7.7, 50.0, None])
def test_values_are_those_of_scikit_learn(nu: float | None, length_scale: float) -> None:
    kernel = Gaussian(length_scale) if nu is None else Matern(length_scale, nu=nu)
    other = sklearn.RBF(length_scale) if nu is None else sklearn.Matern(length_scale, nu=nu)
    np.testing.assert_allclose(kernel(X, Y), other(X, Y), rtol=1e-10, atol=1e-12)


def naive_bessel(v: Fraction, r: Fraction) -> float:
    """Return 0F1(; v; -r^2 / 4) by its series, in fractions."""
    total, term, k = Fraction(1), Fraction(1), 0
    while abs(term) > Fraction(1, 10**25) or k < 5:
        term *= -r * r / 4 / ((k + 1) * (v + k))
        k += 1
        total += term
    return float(total)


@pytest.mark.parametrize("d", [1, 2, 3, 20, 37, 41, 300, 4001])
@pytest.mark.parametrize("share", [0, 0.01, 0.3, 1, 3])
def test_bessel_kernels_are_their_series(d: int, share: float) -> None:
    r = Fraction(share).limit_denominator(100) * math.isqrt(d + 3)
    x = [[float(r)] + [0.0] * (d - 1)]
    zero = [[0.0] * d]
    ball, sphere = UnitBalls()(x, zero)[0, 0], RadialSpectrum([1.0])(x, zero)[0, 0]
    assert ball == pytest.approx(naive_bessel(Fraction(d, 2) + 1, r), abs=1e-11)
    assert sphere == pytest.approx(naive_bessel(Fraction(d, 2), r), abs=1e-11)


def test_known_forms() -> None:
    r = np.array([[0.1], [1.0], [7.0], [50.0], [1e7]])
    one = RadialSpectrum([2.0])(r[:4], [[0.0]])
    np.testing.assert_allclose(one, np.cos(2 * r[:4]), atol=1e-12)
    line = np.pad(r, ((0, 0), (0, 2)))
    three = RadialSpectrum([1.0])(line, np.zeros((1, 3)))
    np.testing.assert_allclose(three, np.sin(r) / r, atol=1e-9)
    # A sum of t draws of an interval: the t-th power of sin(r) / r.
    np.testing.assert_allclose(UnitBalls(degree=3)(r, [[0.0]]), (np.sin(r) / r) ** 3, atol=1e-9)


@given(REALS)
@limits
def test_equal_rows_are_exactly_one(rows: np.ndarray) -> None:
    rows = np.clip(rows, -1e140, 1e140)
    for kernel in (Gaussian(0.5), Matern(0.5, nu=0.7), UnitBalls(0.5)):
        gram = kernel(rows)
        assert (np.diag(gram) == 1.0).all()
        assert (gram == gram.T).all()
        assert (np.abs(gram) <= 1.0 + 1e-12).all()
        assert (kernel.distance(rows)[np.eye(len(rows), dtype=bool)] == 0.0).all()


@pytest.mark.parametrize("d", [1, 2, 5, 40])
@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(1.0),
        Matern(1.0, nu=0.5),
        Matern(1.0, nu=4.2),
        Matern(1.0, nu=0.05),
        Matern(1.0, nu=1e-3),
        UnitBalls(1.0, degree=1),
        UnitBalls(1.0, degree=4),
        RadialSpectrum([0.2, 1.0, 3.0]),
    ],
    ids=repr,
)
def test_the_spectrum_is_that_of_the_kernel(kernel: RadialKernel, d: int) -> None:
    """The mean of Omega_d(radius r) over random radii is k(r), by the law of large numbers."""
    n = 20_000
    rng = np.random.default_rng(d)
    streams: dict[str, np.ndarray] = {}
    radii = kernel.radii(lambda name: streams.setdefault(name, rng.random(n)), d)
    # One coordinate of each frequency.
    direction = rng.normal(size=(n, d))
    coordinate = radii * direction[:, 0] / np.linalg.norm(direction, axis=1)
    for r in (0.3, 1.0, 2.5):
        cosines = np.cos(r * coordinate)
        x = np.zeros((1, d))
        x[0, 0] = r
        # 4.5 standard errors: one failure in 150,000 for a case.
        assert abs(cosines.mean() - kernel(x, 0 * x)[0, 0]) < 4.5 * cosines.std() / math.sqrt(n)


def test_spectral_density_of_the_matern_kernel() -> None:
    """The characteristic function of Student's t is the kernel, by quadrature."""
    from scipy.stats import t

    for nu in (0.5, 1.7):
        for r in (0.2, 1.3):
            value, _ = integrate.quad(
                lambda w, nu=nu: 2 * t.pdf(w, 2 * nu), 0, np.inf, weight="cos", wvar=r, limlst=200
            )
            assert Matern(1.0, nu=nu)([[r]], [[0.0]])[0, 0] == pytest.approx(value, abs=1e-7)


def test_a_sampler_is_drawn_from_once_and_stored() -> None:
    kernel = RadialSpectrum(lambda generator, size: generator.gamma(2.0, size=size), 3.0)
    assert kernel.lengths.shape == (1024,)
    state = json.loads(json.dumps(kernel.state()))
    assert from_state(state) == kernel
    assert (from_state(state).lengths == kernel.lengths).all()
    np.testing.assert_array_equal(from_state(state)(X), kernel(X))


def test_distances_of_large_and_of_close_rows() -> None:
    far = 1e8 * X
    np.testing.assert_allclose(Gaussian(1e8)(far), Gaussian(1.0)(X), rtol=1e-12)
    close = 1.0 + 1e-6 * X
    np.testing.assert_allclose(Gaussian(1e-6)(close), np.exp(-0.5 * squares(X, X)), atol=1e-8)


def squares(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return squared distances number by number."""
    return np.array([[math.fsum((x - y) ** 2) for y in Y] for x in X])


def remote_rows(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of unit spread, a million away from the origin or from each other."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(60, 21))
    if kind == "all columns":
        rows += 1e6 * rng.normal(size=21)
    elif kind == "one column":
        rows[:, 4] += 1e6
    elif kind == "two groups":
        rows[::2] += 1e6
    else:  # mostly zeros
        rows *= rng.random((60, 21)) < 0.3
        rows[:, 4] = 1e6 + rng.normal(size=60)
    rows[40:44] = rows[:4]
    return rows[:40], rows[20:]


@pytest.mark.parametrize("kind", ["all columns", "one column", "two groups", "mostly zeros"])
@pytest.mark.parametrize("kernel", [Gaussian(5.0), Matern(5.0, nu=0.5), Matern(5.0, nu=2.5)], ids=repr)
def test_rows_far_from_the_origin_keep_their_distances(kernel: RadialKernel, kind: str) -> None:
    left, right = remote_rows(kind)
    r = np.sqrt(squares(left, right)) / 5.0
    actual = kernel(left, right)
    np.testing.assert_allclose(actual, kernel.of_distances(r.copy(), 21), rtol=1e-7, atol=1e-12)
    assert (actual[r == 0.0] == 1.0).all()
    assert (r == 0.0).any()
    assert actual.any(axis=1).all()
    prepared = kernel.against(right)
    for rows in (left[5:6], sp.csr_matrix(left[5:6]), left[3:9][2:3]):
        assert_agree(prepared(rows), actual[5:6], 1e-7)
    gram = kernel(right)
    assert (gram == gram.T).all()
    assert (np.diag(gram) == 1.0).all()


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "wide", None, True])
@pytest.mark.parametrize("make", [Gaussian, Matern, UnitBalls, lambda l: RadialSpectrum([1.0], l)])
def test_bad_length_scales(make, bad: object) -> None:
    with pytest.raises(
        InputError, match=re.escape(f"length_scale must be a finite number above 0, not {bad!r}")
    ):
        make(bad)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Matern(nu=0), "nu must be a finite number above 0"),
        (lambda: Matern(nu=51), "nu must be at most 50"),
        (lambda: UnitBalls(degree=0), "degree must be an integer from 1"),
        (lambda: UnitBalls(degree=1.5), "degree must be an integer from 1"),
        (lambda: RadialSpectrum([]), "radii must be a sequence"),
        (lambda: RadialSpectrum([1.0, -1.0]), "radii must be a sequence"),
        (lambda: RadialSpectrum([math.nan]), "radii must be a sequence"),
        (lambda: RadialSpectrum([[1.0]]), "radii must be a sequence"),
        (lambda: RadialSpectrum([1.0, 1e300]), "radii must be at most 1,000,000"),
        (lambda: RadialSpectrum(lambda generator, size: "x"), "cannot be read"),
        (lambda: RadialSpectrum("zz"), "cannot be read"),
        (lambda: Gaussian()([[1e200, 0]], [[0, 0]]), "row 0 is too large"),
        (lambda: Gaussian()([[0, 0]], [[0, 0], [1e200, 0]]), "row 1 is too large"),
    ],
)
def test_bad_parameters(make, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Matern(2.0, nu=1.5), Matern(2.0, nu=2.5)], ids=repr)
@pytest.mark.parametrize("d", [1, 5, 200])
def test_single_precision_is_close(kernel: RadialKernel, d: int) -> None:
    """Up to four length scales from the mean of the rows on the right, wherever that lies."""
    rng = np.random.default_rng(d)
    right = rng.normal(size=(50, d))
    right *= 7.5 / np.linalg.norm(right, axis=1).max()
    right += 300.0 * rng.normal(size=d)
    far = right.mean(axis=0) + np.array([[1e5], [1e200]])
    left = np.concatenate([right + 0.1 * rng.normal(size=right.shape), right, far])
    actual = kernel.against_single(right)(left, dtype=np.float32)
    assert actual.dtype == np.float32
    assert np.abs(actual[:100] - kernel(left[:100], right)).max() < 2e-5
    assert (actual[100:] == 0).all()
    assert_agree(kernel.against_single(right)(left[7:9]), actual[7:9], 2e-5)


@pytest.mark.parametrize(
    ("kernel", "Y"),
    [
        (Gaussian(0.5), X),  # rows far from their mean
        (Matern(5.0, nu=0.5), X),  # not smooth at 0
        (Gaussian(5.0), np.eye(9)),  # sparse
        (Gaussian(1e-20), 1e-20 * X),
        (UnitBalls(5.0), X),
    ],
)
def test_single_precision_is_rounded_double_where_it_would_not_do(
    kernel: RadialKernel, Y: np.ndarray
) -> None:
    actual = kernel.against_single(Y * 4.0)(Y, dtype=np.float32)
    assert (actual == kernel(Y, Y * 4.0).astype(np.float32)).all()


def test_dense_rows_have_the_kernel_of_sparse_ones() -> None:
    dense = np.random.default_rng(2).normal(size=(30, 11))
    wide = np.concatenate([dense, np.zeros((30, 40))], axis=1)  # mostly empty
    for kernel in (Gaussian(3.0), Matern(3.0, nu=0.5)):
        np.testing.assert_allclose(kernel(dense), kernel(wide), rtol=1e-12)
        assert (np.diag(kernel(dense)) == 1.0).all()


@pytest.mark.skipif(jit_disabled(), reason="plain code takes memory of its own")
@pytest.mark.parametrize("name", ["against", "against_single"])
def test_sparse_rows_are_not_made_dense_all_at_once(name: str) -> None:
    """Means of clusters, as landmarks, are mostly full; the rows of the library are not."""
    right = np.random.default_rng(0).random((8, 2000))
    rows = sp.random(4000, 2000, 0.01, random_state=1, format="csr")
    values = getattr(Gaussian(20.0), name)(right)
    small = values(rows[-7:])
    assert least_peak(lambda: values(rows)) < 8 * rows.shape[0] * rows.shape[1] // 2
    actual = values(rows)
    tolerance = 2e-5 if name == "against_single" else 1e-12
    assert_agree(actual[-7:], small, tolerance)
    assert_agree(values(rows.toarray()), actual, tolerance)
    bad = rows.copy()
    bad.data[-1] = np.inf
    with pytest.raises(InputError, match=rf"row {np.flatnonzero(np.diff(rows.indptr))[-1]}, column"):
        values(bad)


def test_spectra_in_thousands_of_columns_are_those_of_many_more() -> None:
    """From 4,000 columns on another formula holds, which is that of a Gaussian kernel in the end."""
    distances = np.linspace(0.0, 400.0, 30)[:, None]

    def at(d: int, scale: float) -> np.ndarray:
        rows = sp.csr_matrix((distances.ravel() * scale, (range(30), [0] * 30)), shape=(30, d))
        return RadialSpectrum([1.0])(rows, sp.csr_matrix((1, d))).ravel()

    np.testing.assert_allclose(at(4000, 1.0), at(4001, 4001**0.5 / 4000**0.5), atol=1e-6)
    far = at(2**32, 2.0**16)
    np.testing.assert_allclose(far, np.exp(-np.square(distances.ravel()) / 2), atol=1e-9)
    unfolded = UnitBalls(1.0, degree=3)(
        *(sp.csr_matrix(([x], ([0], [5])), shape=(1, 2**32)) for x in (1e4, 0))
    )
    np.testing.assert_allclose(unfolded, np.exp(-3 * 1e8 / (2 * 2**32)), rtol=1e-6)
