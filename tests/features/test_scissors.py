"""SCISSORS: vectors of any similarity, conversions there and back, and what is no similarity."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import daskrf
from daskrf.errors import InputError
from daskrf.features import NystromFeatures
from daskrf.features.scissors import SCISSORS, product_to_tanimoto, tanimoto_to_product
from daskrf.kernels import Intersection, TanimotoDotProduct, TanimotoMinMax
from tests.floats import assert_agree
from tests.jit import jit_disabled
from tests.naive import nystrom as naive

PROPERTY = settings(derandomize=True, deadline=None, max_examples=15 if jit_disabled() else 60)


def test_it_is_found_where_the_maps_are() -> None:
    assert daskrf.SCISSORS is SCISSORS
    assert "SCISSORS" in daskrf.__all__


def similarities(n: int = 12, seed: int = 0) -> np.ndarray:
    """Tanimoto coefficients of vectors of 40 dimensions, all of one length."""
    X = np.abs(np.random.default_rng(seed).normal(size=(n, 40)))
    return TanimotoDotProduct()(X / np.linalg.norm(X, axis=1)[:, None])


@PROPERTY
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9))
def test_conversions_undo_each_other(seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, 5)), rng.normal(size=(m, 5)) * 10.0 ** rng.integers(-3, 3)
    G, left, right = X @ Y.T, np.square(X).sum(axis=1), np.square(Y).sum(axis=1)
    T = product_to_tanimoto(G, left, right)
    np.testing.assert_allclose(tanimoto_to_product(T, left, right), G, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(T, TanimotoDotProduct()(X, Y), rtol=1e-9, atol=1e-12)


def test_zero_vectors_are_alike() -> None:
    assert product_to_tanimoto([[0.0, 0.0]], [0.0], [0.0, 2.0]).tolist() == [[1.0, 0.0]]


def test_what_is_no_number_is_like_nothing() -> None:
    assert np.isnan(SCISSORS().similarities([[np.nan, 1.0]])).all()
    assert np.isnan(product_to_tanimoto([[1.0]], [np.nan], [2.0])).all()


@PROPERTY
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_vectors_are_the_least_squares_solutions(seed: int, k: int) -> None:
    S, L = similarities(12, seed), similarities(20, seed)[12:, :12]
    scissors = SCISSORS(k).fit(S)
    G, products = 2 * S / (1 + S), 2 * L / (1 + L)
    expected = naive.scissors_vectors(G, products, k)
    actual = scissors.transform(L)
    np.testing.assert_allclose(actual @ actual.T, expected @ expected.T, atol=1e-8)
    np.testing.assert_allclose(np.abs(actual), np.abs(expected), atol=1e-6)  # signs are free


def test_opposite_vectors_are_served() -> None:
    """-1/3, as rounded, is the Tanimoto coefficient of x and -x."""
    T = TanimotoDotProduct()([[0.1, 0.7], [-0.1, -0.7]])
    scissors = SCISSORS(2).fit(T)
    assert scissors.rank_ == 1
    np.testing.assert_allclose(scissors.similarities(scissors.transform(T)), T, atol=1e-9)


def test_all_dimensions_give_the_similarities_back() -> None:
    S = similarities()
    scissors = SCISSORS(12).fit(S)
    vectors = scissors.transform(S)
    np.testing.assert_allclose(scissors.similarities(vectors), S, atol=1e-9)
    np.testing.assert_allclose(scissors.similarities(vectors[:2], vectors[5:]), S[:2, 5:], atol=1e-9)
    few = SCISSORS(4).fit(S).transform(S)
    np.testing.assert_allclose(few, vectors[:, :4], atol=1e-12)
    assert scissors.n_features_in_ == 12
    assert repr(scissors.negative_) == "(0.0, 0.0)"  # and not -0.0


def test_unequal_self_products_make_it_exact() -> None:
    X = np.abs(np.random.default_rng(3).normal(size=(15, 40))) * np.linspace(1, 4, 15)[:, None]
    T, diagonal = TanimotoDotProduct()(X), np.square(X).sum(axis=1)
    exact = SCISSORS(10).fit(T[:10, :10], self_products=diagonal[:10])
    vectors = exact.transform(T[:, :10], self_products=diagonal)
    np.testing.assert_allclose(vectors[:10] @ vectors[:10].T, (X @ X.T)[:10, :10], rtol=1e-8)
    basis = clone(exact).fit_transform(T[:10, :10], self_products=diagonal[:10])
    assert_agree(basis, vectors[:10], 1e-12)
    G = X @ X.T
    np.testing.assert_allclose(
        vectors @ vectors.T, naive.approximation(G[:, :10], G[:10, :10], 10), rtol=1e-7
    )


def test_a_function_of_any_objects_and_a_kernel_of_rows() -> None:
    words = ["benzene", "toluene", "phenol", "aniline", "ethanol"]
    matrix = [[len(set(a) & set(b)) / len(set(a) | set(b)) for b in words] for a in words]
    by_call = SCISSORS(
        3, similarity=lambda A, B: [[matrix[words.index(a)][words.index(b)] for b in B] for a in A]
    )
    vectors = by_call.fit(words).transform(words)
    assert vectors.tobytes() == SCISSORS(3).fit(matrix).transform(matrix).tobytes()

    X = np.random.default_rng(1).integers(0, 4, (40, 12))
    feature_map = NystromFeatures(9, n_landmarks=20, kernel=Intersection()).fit(X)
    ours = SCISSORS(9, similarity=Intersection(), measure="product").fit(feature_map.landmarks_)
    V, Phi = ours.transform(X), feature_map.transform(X).astype(float)
    np.testing.assert_allclose(Phi @ Phi.T, V @ V.T, atol=1e-4)
    for step in (1, 7):
        parts = [ours.transform(X[i : i + step]) for i in range(0, 40, step)]
        assert_agree(np.concatenate(parts), V, 1e-12)


def test_an_indefinite_similarity_is_taken_for_the_nearest_kernel() -> None:
    S = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
    values = np.linalg.eigvalsh(S)
    assert values[0] < 0
    scissors = SCISSORS(3, measure="product").fit(S)
    assert scissors.rank_ == 2
    assert scissors.negative_ == pytest.approx((-values[0], -values[0]))
    vectors = scissors.transform(S)
    assert (vectors[:, 2] == 0).all()
    np.testing.assert_allclose(np.linalg.norm(S - vectors @ vectors.T), -values[0])


@pytest.mark.parametrize(
    ("S", "message"),
    [
        (np.eye(4)[:3], "must be a square matrix, .* not 3 x 4"),
        (np.zeros((0, 0)), "not 0 x 0"),
        ([[1, 0.5], [0.4, 1]], "not symmetric: 0.5 in row 0, column 1, but 0.4 the other way"),
        ([[1, np.nan], [np.nan, 1]], "similarity nan in row 0, column 1 is not a finite"),
        ([[1, 1.5], [1.5, 1]], "similarity 1.5 in row 0, column 1 is not a Tanimoto"),
        ([[1, -1], [-1, 1]], "similarity -1 in row 0, column 1 is not a Tanimoto"),
        ([[1, -0.4], [-0.4, 1]], "similarity -0.4 in row 0, column 1 is not a Tanimoto"),
        (1.0 - np.eye(3), "Molecule 0 of the basis has the similarity 0 with itself, but"),
        ([1, 2], "must be a matrix of numbers"),
        ([["a", "b"]], "must be a matrix of numbers"),
        (np.eye(1), "2 dimensions need as many basis molecules, but there are 1"),
    ],
)
def test_what_is_no_similarity_is_refused(S: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SCISSORS(2).fit(S)


def test_bad_parameters_and_rows_are_refused() -> None:
    S = similarities()
    for scissors, message in (
        (SCISSORS(0), "n_components"),
        (SCISSORS(2, measure="distance"), "measure must be tanimoto or product"),
    ):
        with pytest.raises(InputError, match=message):
            scissors.fit(S)
    with pytest.raises(InputError, match="not fitted"):
        SCISSORS(2).transform(S)
    for changed in ({"n_components": 3}, {"measure": "product"}, {"similarity": TanimotoMinMax()}):
        with pytest.raises(InputError, match="has changed since the last fit: call fit again"):
            SCISSORS(2).fit(S).set_params(**changed).transform(S)
    copied = pickle.loads(pickle.dumps(SCISSORS(2, similarity=TanimotoMinMax()).fit(S)))
    assert copied.transform(S).shape == (12, 2)
    with pytest.raises(InputError, match="inner products hold them already"):
        SCISSORS(2, measure="product").fit(S, self_products=np.ones(12))
    for products in ([1.0], np.zeros(12), np.full(12, np.inf)):
        with pytest.raises(InputError, match="12 finite numbers above 0"):
            SCISSORS(2).fit(S, self_products=products)
    with pytest.raises(InputError, match="Similarities with 11 molecules were given, but the basis has 12"):
        SCISSORS(2).fit(S).transform(S[:, :11])
    with pytest.raises(InputError, match="row 1, column 3"):
        SCISSORS(2).fit(S).transform(np.where(np.arange(24).reshape(2, 12) == 15, np.inf, S[:2]))


def test_lingo_similarities_by_a_kernel() -> None:
    """T_minmax of counts is a kernel itself, and close to what vectors of all dimensions say."""
    X = np.random.default_rng(5).integers(0, 3, (30, 25))
    scissors = SCISSORS(30, similarity=TanimotoMinMax()).fit(X)
    np.testing.assert_allclose(scissors.similarities(scissors.transform(X)), TanimotoMinMax()(X), atol=1e-6)


def test_a_molecule_of_the_basis_is_like_itself() -> None:
    """Its product with itself is the self product, also where a program finds it a little unlike itself."""
    S, diagonal = similarities(), np.full(12, 1.5)
    exact = SCISSORS(12).fit(S, self_products=diagonal)
    vectors = exact.transform(S, self_products=diagonal)
    np.testing.assert_allclose(np.square(vectors).sum(axis=1), diagonal, rtol=1e-6)
    S[np.diag_indices(12)] = 0.995
    np.testing.assert_allclose(SCISSORS(12).fit(S, self_products=diagonal).projection_, exact.projection_)
