"""Products with a kernel matrix that is made tile by tile."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf.gp.solve import kernelmatrix
from daskrf.gp.solve.kernelmatrix import KernelMatrix, Products, Squares
from daskrf.kernels import Gaussian, TanimotoMinMax

N = 83


def rows(n: int = N, seed: int = 0) -> sp.csr_matrix:
    rng = np.random.default_rng(seed)
    return sp.csr_matrix(rng.poisson(0.3, (n, 40)).astype(np.uint8))


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernelmatrix, "_TILE", 16)
    monkeypatch.setattr(kernelmatrix, "_LEFT", 10)


@pytest.mark.parametrize("kernel", [TanimotoMinMax(), Gaussian(2.0)])
@pytest.mark.parametrize("kept", [0.0, 0.4, 1.0])
def test_products_are_those_of_the_whole_matrix(kernel, kept) -> None:
    X, vectors = rows(), np.random.default_rng(1).standard_normal((N, 5)).astype(np.float32)
    matrix = KernelMatrix(kernel, X, keep_bytes=int(kept * KernelMatrix.bytes_of(N)))
    np.testing.assert_allclose(matrix.product(vectors), kernel(X) @ vectors, atol=2e-5)
    whole = matrix.product(np.eye(N, dtype=np.float32)).astype(np.float64)
    large = 1e8 * vectors.astype(np.float64)
    np.testing.assert_allclose(matrix.product(large), whole @ large, rtol=0, atol=1e-6)  # in double precision
    others, found = rows(37, 2), np.full((37, 5), np.nan)

    def use(part: slice, values: np.ndarray) -> None:
        found[part] = values

    matrix.cross(others, vectors, use)
    np.testing.assert_allclose(found, kernel(others, X) @ vectors, atol=2e-5)


@pytest.mark.parametrize("kernel", [TanimotoMinMax(), Gaussian(2.0)])
@pytest.mark.parametrize("kept", [0.0, 0.4])
@pytest.mark.parametrize("low", [0.5, 2])  # of scales that differ, and of equal ones
def test_the_largest_and_the_sum_of_squares_are_those_of_the_whole_matrix(kernel, kept, low) -> None:
    X, scales = rows(), np.random.default_rng(1).uniform(low, 2, N).astype(np.float32)
    vectors = np.ones((N, 2), np.float32)
    matrix = KernelMatrix(kernel, X, keep_bytes=int(kept * KernelMatrix.bytes_of(N)))
    own = (kernel(X) * scales) ** 2
    np.fill_diagonal(own, 0)
    largest, total = matrix.own_squares(scales)
    np.testing.assert_allclose(largest, own.max(axis=1), rtol=1e-5)
    np.testing.assert_allclose(total, own.sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(matrix.product(vectors), kernel(X) @ vectors, atol=2e-5)  # tiles are as before
    others = rows(37, 2)
    squares = (kernel(others, X) * scales) ** 2
    found = np.full((37, 4), np.nan)

    def use(part: slice, values: np.ndarray, largest: np.ndarray, total: np.ndarray) -> None:
        found[part] = np.column_stack([values, largest, total])

    matrix.cross(others, vectors, use, scales=scales)
    expected = np.column_stack([kernel(others, X) @ vectors, squares.max(axis=1), squares.sum(axis=1)])
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("terms", [Products, Squares])
@pytest.mark.parametrize("cuts", [[0, 6], [0, 1, 2, 3, 4, 5, 6], [0, 4, 6]])
def test_blocks_add_up_to_the_total(terms, cuts) -> None:
    shape = (N, 3) if terms is Products else N
    one = terms(np.random.default_rng(3).uniform(0.5, 2, shape).astype(np.float32))
    matrix = KernelMatrix(TanimotoMinMax(), rows())
    found = one.zero(N)
    for i, (start, stop) in enumerate(itertools.pairwise(cuts)):
        for first, last in list(itertools.pairwise(cuts))[: i + 1]:
            panels = range(start, stop), range(first, last)
            for part, total in zip(panels, matrix.between(one, *panels), strict=True):
                own = slice(16 * part.start, 16 * part.start + one.n_rows(total))
                one.add(one.rows_of(found, own), total)
    np.testing.assert_allclose(found, matrix.total(one), rtol=1e-5)


def test_products_do_not_depend_on_threads() -> None:
    vectors = np.random.default_rng(1).standard_normal((N, 5)).astype(np.float32)
    found = [KernelMatrix(TanimotoMinMax(), rows(), n_threads=n).product(vectors) for n in (1, 2, 7)]
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


def test_no_tile_is_made_that_is_kept_and_no_more_are_kept_than_allowed(monkeypatch) -> None:
    made = []
    own = KernelMatrix._made
    monkeypatch.setattr(KernelMatrix, "_made", lambda self, p, q: made.append((p, q)) or own(self, p, q))
    vectors = np.ones((N, 1), np.float32)
    n_tiles = -(-N // 16) * (-(-N // 16) + 1) // 2  # of the lower triangle: one serves both sides
    whole = KernelMatrix(TanimotoMinMax(), rows(), keep_bytes=KernelMatrix.bytes_of(N))
    whole.product(vectors)
    assert len(made) == n_tiles
    made.clear()
    whole.product(vectors)
    assert not made
    allowed = 4 * 16 * 16 * 5
    part = KernelMatrix(TanimotoMinMax(), rows(), keep_bytes=allowed)
    part.product(vectors)
    assert len(made) == n_tiles
    made.clear()
    part.product(vectors)
    assert 4 <= n_tiles - len(made) <= 5
    part.forget()
    made.clear()
    part.product(vectors)
    assert len(made) == n_tiles


@pytest.mark.parametrize("n", [0, 1, 16, 17, 32, 40, 64, 80])
def test_every_number_of_tiles(n) -> None:
    X, vectors = rows(n), np.random.default_rng(1).standard_normal((n, 3)).astype(np.float32)
    for matrix in (KernelMatrix(TanimotoMinMax(), X), KernelMatrix(TanimotoMinMax(), X, keep_bytes=10**6)):
        np.testing.assert_allclose(matrix.product(vectors), TanimotoMinMax()(X) @ vectors, atol=2e-5)
        if n:
            every = range(matrix.n_panels)
            found, _ = matrix.between(Products(vectors), every, every)
            np.testing.assert_allclose(matrix.product(vectors), found, atol=2e-5)


def test_rows_of_their_own_kind() -> None:
    X = rows().toarray().astype(np.float64)
    vectors = np.ones((N, 1), np.float32)
    np.testing.assert_allclose(
        KernelMatrix(Gaussian(2.0), X).product(vectors), Gaussian(2.0)(X) @ vectors, rtol=1e-5
    )
