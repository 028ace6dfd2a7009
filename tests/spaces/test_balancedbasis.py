"""Tests of upper bounds of the scores of pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from daskrf.spaces.balancedbasis import BalancedBasis, bounding

Single = npt.NDArray[np.float32]
N, M = 300, 64


def smooth(random: np.random.Generator, n: int) -> Single:
    """Return rows that are mostly determined by a few coordinates."""
    scale = 1 / (1 + np.arange(M)) ** 2
    mixed = np.linalg.qr(np.random.default_rng(7).standard_normal((M, M)))[0]
    return ((random.standard_normal((n, M)) * scale) @ mixed).astype(np.float32)


ROWS: dict[str, Callable[[np.random.Generator, int], Single]] = {
    "smooth": smooth,
    "independent": lambda random, n: random.standard_normal((n, M)).astype(np.float32),
    "of rank one": lambda random, n: np.outer(random.standard_normal(n), np.ones(M)).astype(np.float32),
    "all zero": lambda random, n: np.zeros((n, M), np.float32),
    "one large": lambda random, n: (np.eye(n, M) * 1e6 + 1e-3).astype(np.float32),
    "equal": lambda random, n: np.ones((n, M), np.float32),
    "of many sizes": lambda random, n: (
        random.standard_normal((n, M)) * 10.0 ** random.integers(-8, 8, (n, 1))
    ).astype(np.float32),
}


@pytest.mark.parametrize("right", ROWS)
@pytest.mark.parametrize("left", ROWS)
def test_bounds_hold(left: str, right: str) -> None:
    random = np.random.default_rng(0)
    A, B = ROWS[left](random, N), ROWS[right](random, N)
    sampled = [rows[:40].astype(float) for rows in (A, B)]
    basis = BalancedBasis.of(*(rows.T @ rows for rows in sampled))
    a, b = basis.left(A), basis.right(B)
    assert a.shape == b.shape == (N, M // 8 + 1)
    exact = A.astype(float) @ B.T.astype(float)
    assert (a.astype(float) @ b.T.astype(float) >= exact).all()
    assert (a @ b.T >= A @ B.T).all()
    assert (bounding(A, M) @ bounding(B, M).T >= A @ B.T).all()


def test_bounds_of_smooth_rows_are_close() -> None:
    random = np.random.default_rng(1)
    A, B = smooth(random, N), smooth(random, N)
    basis = BalancedBasis.of(A.T.astype(float) @ A, B.T.astype(float) @ B)
    exact = A @ B.T
    above = basis.left(A) @ basis.right(B).T - exact
    assert above.mean() < 0.05 * exact.std()
    plain = bounding(A, M // 8) @ bounding(B, M // 8).T - exact  # the first coordinates as they are
    assert above.mean() < 0.2 * plain.mean()


def test_both_gram_matrices_become_the_same_diagonal() -> None:
    random = np.random.default_rng(2)
    A, B = (smooth(random, N).astype(float) + random.standard_normal((N, M)) for _ in range(2))
    basis = BalancedBasis.of(A.T @ A, B.T @ B)
    for rows, basis_matrix in ((A, basis.P), (B, basis.Q)):
        turned = rows @ basis_matrix
        gram = turned.T @ turned
        scale = gram[0, 0]
        np.testing.assert_allclose(gram / scale, np.diag(np.diag(gram)) / scale, atol=1e-5)
    np.testing.assert_allclose(np.square(A @ basis.P).sum(0), np.square(B @ basis.Q).sum(0), rtol=1e-3)
    np.testing.assert_allclose(basis.P @ basis.Q.T, np.eye(M), atol=1e-4)
