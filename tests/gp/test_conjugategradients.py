"""Conjugate gradients for many right-hand sides, against a direct solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.gp.solve.conjugategradients import BlockSystem, solve
from daskrf.gp.solve.solvers import NotPositiveError


def system(n: int, m: int, seed: int, smallest: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    vectors, _ = np.linalg.qr(rng.standard_normal((n, n)))
    a = (vectors * np.geomspace(smallest, 1.0, n)) @ vectors.T
    return ((a + a.T) / 2).astype(np.float32), rng.standard_normal((n, m)).astype(np.float32)


def plain(v: np.ndarray) -> np.ndarray:
    return v


@given(st.integers(1, 60), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_solutions_agree_with_those_of_a_direct_solver(n: int, m: int, seed: int) -> None:
    a, b = system(n, m, seed, 0.05)
    found = solve(lambda v: a @ v, b, plain, tolerance=1e-5, max_iterations=300)
    assert found.residuals.max() <= 1e-5
    exact = np.linalg.solve(a.astype(np.float64), b)
    np.testing.assert_allclose(found.x, exact, rtol=0, atol=1e-3 * np.abs(exact).max())


def test_residuals_are_those_of_the_solution() -> None:
    a, b = system(80, 3, 0, 1e-3)
    for steps in (1, 4, 20, 200):
        found = solve(lambda v: a @ v, b, plain, tolerance=1e-4, max_iterations=steps)
        own = np.linalg.norm(b - a.astype(np.float64) @ found.x, axis=0) / np.linalg.norm(b, axis=0)
        np.testing.assert_allclose(found.residuals, own, rtol=0.01, atol=1e-6)


def test_every_product_is_counted_and_none_is_made_beyond_the_limit() -> None:
    a, b = system(80, 3, 0, 1e-3)
    for start in (None, np.zeros_like(b)):
        made: list[Any] = []

        def multiply(v: np.ndarray, made: list[Any] = made) -> np.ndarray:
            made.append(v.shape)
            return a @ v

        found = solve(multiply, b, plain, start=start, tolerance=1e-9, max_iterations=10)
        assert found.n_iterations == len(made)
        assert len(made) <= 11  # the last one is of the residual that is returned
        assert found.residuals.max() > 1e-9


def test_a_good_preconditioner_and_a_good_start_save_products() -> None:
    a, b = system(200, 4, 1, 1e-3)
    inverse = np.linalg.inv(a.astype(np.float64)).astype(np.float32)
    exact = np.linalg.solve(a.astype(np.float64), b).astype(np.float32)
    none = solve(lambda v: a @ v, b, plain, tolerance=1e-3, max_iterations=999)
    good = solve(lambda v: a @ v, b, lambda v: inverse @ v, tolerance=1e-3, max_iterations=999)
    warm = solve(lambda v: a @ v, b, plain, start=exact, tolerance=1e-3, max_iterations=999)
    assert none.n_iterations > 50
    assert good.n_iterations <= 4
    assert warm.n_iterations == 1


def test_a_right_hand_side_of_zeros_is_solved_by_zeros_beside_others() -> None:
    a, b = system(30, 3, 2, 0.1)
    b[:, 1] = 0
    found = solve(lambda v: a @ v, b, plain, tolerance=1e-5, max_iterations=99)
    assert (found.x[:, 1] == 0).all()
    assert found.residuals.max() <= 1e-5


def test_what_single_precision_cannot_reach_ends() -> None:
    a, b = system(100, 2, 3, 1e-6)
    found = solve(lambda v: a @ v, b, plain, tolerance=1e-12, max_iterations=100_000)
    assert found.n_iterations < 100_000
    assert found.residuals.max() > 1e-12


def test_right_hand_sides_together_take_fewer_products_than_each_alone() -> None:
    a, b = system(400, 16, 4, 1e-3)
    together = solve(lambda v: a @ v, b, plain, tolerance=1e-3, max_iterations=999)
    alone = [
        solve(lambda v: a @ v, np.ascontiguousarray(b[:, [k]]), plain, tolerance=1e-3, max_iterations=999)
        for k in range(3)
    ]
    assert together.n_iterations < 0.6 * min(each.n_iterations for each in alone)


def test_more_right_hand_sides_than_share_directions_and_repeated_ones() -> None:
    a, b = system(300, 50, 5, 0.01)
    b = np.hstack([b, b, b[:, :3] * 1e-6])  # two blocks; in the first, some depend on others
    found = solve(lambda v: a @ v, b, plain, tolerance=1e-4, max_iterations=300)
    exact = np.linalg.solve(a.astype(np.float64), b)
    np.testing.assert_allclose(found.x, exact, rtol=0, atol=1e-3 * np.abs(exact).max())
    assert found.residuals.max() <= 1e-4


@pytest.mark.parametrize(("size", "ratio"), [(2, 1e-2), (2, 1e-3), (4, 1e-3)])
def test_terms_far_larger_than_their_sum_do_not_limit_the_residual(size: int, ratio: float) -> None:
    """A solution of up to 1000 times the right-hand side, and eigenvalues of up to 1000."""
    n, rng = 1000, np.random.default_rng(0)
    vectors, _ = np.linalg.qr(np.hstack([np.ones((n, 1)), rng.standard_normal((n, size - 1))]))
    values = np.geomspace(n, n / 10, size)
    a = ((vectors * values) @ vectors.T + ratio * np.eye(n)).astype(np.float32)
    b = rng.standard_normal((n, 8)).astype(np.float32)

    def inverse(v: np.ndarray) -> np.ndarray:
        inside = vectors.T @ v
        found = (v - vectors @ inside) / ratio + vectors @ (inside / (values + ratio)[:, None])
        return found.astype(np.float32)

    found = solve(lambda v: a @ v, b, inverse, tolerance=1e-4, max_iterations=30)
    residuals = np.linalg.norm(b - a.astype(np.float64) @ found.x, axis=0) / np.linalg.norm(b, axis=0)
    assert residuals.max() <= 1e-4
    np.testing.assert_allclose(found.residuals, residuals, rtol=1e-3)


@pytest.mark.parametrize("check", [True, False])
def test_a_solution_is_moved_to_other_labels_and_another_ratio(check: bool) -> None:
    a, b = system(300, 4, 6, 1e-3)
    c = b + 0.01 * np.random.default_rng(7).standard_normal(b.shape).astype(np.float32)
    made: list[Any] = []

    def multiply(v: np.ndarray) -> np.ndarray:
        made.append(v.shape)
        return a @ v

    equations = BlockSystem(multiply, plain, b, 0.02)
    first = equations.solve(1e-4, 300, check=check)
    equations.move(c, 0.0202)
    second = equations.solve(1e-4, 300, check=check)
    third = equations.solve(1e-5, 300)
    assert len(made) == first.n_iterations + second.n_iterations + third.n_iterations
    assert second.n_iterations < 0.8 * first.n_iterations
    whole = a.astype(np.float64) + 0.0202 * np.eye(300)
    residuals = np.linalg.norm(c - whole @ third.x, axis=0) / np.linalg.norm(c, axis=0)
    assert residuals.max() <= 1.1e-5
    np.testing.assert_allclose(third.residuals, residuals, rtol=0.1, atol=1e-6)


def test_a_matrix_that_is_not_positive_is_refused() -> None:
    a, b = system(50, 3, 8, 0.1)
    with pytest.raises(NotPositiveError):
        solve(lambda v: -(a @ v), b, plain, tolerance=1e-3, max_iterations=99)


@pytest.mark.parametrize("n", [0, 1])
def test_next_to_nothing(n: int) -> None:
    b = np.ones((n, 2), np.float32)
    found = solve(lambda v: 2 * v, b, plain, tolerance=1e-6, max_iterations=9)
    np.testing.assert_allclose(found.x, 0.5 * b)
