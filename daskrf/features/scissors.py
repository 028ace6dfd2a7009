"""SCISSORS: vectors of molecules from any similarity, and similarities from vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import numpy.typing as npt

from daskrf.arrays import MatrixLike
from daskrf.errors import InputError
from daskrf.estimators import Transformer
from daskrf.features.featuremap import check_count
from daskrf.features.sketches.spectrum import decompose

if TYPE_CHECKING:
    from sklearn.utils import Tags

_ASYMMETRY = 1e-6  # of the largest number: shape programs search twice for the best overlay of a pair
_FLOOR = 2.0**-40  # eigenvalues below this fraction of the largest are rounding errors
_LOWEST = -1.0 / 3.0  # least Tanimoto coefficient of real vectors: that of x and -x
_EXCESS = 1e-6  # by how much rounded Tanimotos may be out of range
_SELF = 0.01  # largest distance of a molecule from itself, by an approximate program

Array = npt.NDArray[np.float64]


def tanimoto_to_product(T: npt.ArrayLike, left: npt.ArrayLike, right: npt.ArrayLike) -> Array:
    """Return inner products from Tanimoto coefficients: T / (1 + T) (|x|^2 + |y|^2), step 1 of SCISSORS.

    Parameters
    ----------
    T : array_like, shape (n, m)
        Above -1.
    left, right : array_like, shapes (n,) and (m,), or numbers
        The inner product of each molecule with itself.

    Examples
    --------
    >>> tanimoto_to_product([[0.5]], [3.0], [6.0]).tolist()
    [[3.0]]
    """
    T = np.asarray(T, dtype=np.float64)
    return T / (1.0 + T) * _both(left, right)


def product_to_tanimoto(G: npt.ArrayLike, left: npt.ArrayLike, right: npt.ArrayLike) -> Array:
    """Return Tanimoto coefficients x.y / (|x|^2 + |y|^2 - x.y) from inner products, step 4 of SCISSORS.

    The coefficient of two zero vectors is 1. Parameters are those of :func:`tanimoto_to_product`.

    Examples
    --------
    >>> product_to_tanimoto([[3.0]], [3.0], [6.0]).tolist()
    [[0.5]]
    """
    G = np.asarray(G, dtype=np.float64)
    union = _both(left, right) - G
    return np.divide(G, union, out=np.ones_like(union + G), where=~(union <= 0.0))  # NaN stays NaN


class SCISSORS(Transformer):
    """Vectors of k dimensions whose Tanimoto coefficients approximate a similarity of molecules.

    The similarities of l basis molecules with each other become inner products (step 1). Their eigenvectors
    give the projection D_k^(-1/2) V_k^T, which turns any molecule's inner products with the basis into its
    vector; this is the least-squares solution (step 2, lemma 1). Tanimoto coefficients of vectors (steps 3
    and 4) are then the similarities of pairs that were never compared. A molecule costs l similarities once,
    and a pair k multiplications.

    If the similarity is a kernel of daskrf, `NystromFeatures` are the same vectors as a feature map, for
    Gaussian processes and stores.

    Parameters
    ----------
    n_components : int, default 100
        Number k of dimensions, at most the number of basis molecules.
    similarity : callable, optional
        ``similarity(A, B)`` returns the similarities of two sequences of molecules of any kind as a matrix of
        shape (len(A), len(B)). A kernel of daskrf is such a function. From a function f of two molecules make
        ``lambda A, B: [[f(a, b) for b in B] for a in A]``. Default: `fit` and `transform` take matrices.
    measure : {"tanimoto", "product"}
        What the similarities are: Tanimoto coefficients, or already inner products (the volume of an overlap,
        the size of an intersection). For inner products steps 1 and 4 are left out, except in `similarities`.

    Attributes
    ----------
    projection_ : float64 array, shape (l, k)
        V_k D_k^(-1/2); columns from `rank_` on are 0.
    eigenvalues_ : float64 array, shape (l,)
        Eigenvalues of the inner products of the basis, in descending order.
    rank_ : int
        Number of dimensions that are not 0. It is less than k if fewer than k eigenvalues exceed 2^-40 of the
        largest one, below which there are only rounding errors.
    negative_ : tuple of float
        |G - G'|_2 and |G - G'|_F, where G are the inner products and G' is the nearest positive semidefinite
        matrix, to which these vectors belong. They show how far the similarity is from a kernel (assumption
        2).
    n_features_in_ : int
        Number l of basis molecules.

    Notes
    -----
    Source: Haque & Pande, J. Chem. Inf. Model. 50, 1075 (2010); Haque & Pande 2011, whose equation 3 prints
    D^(+1/2) for D^(-1/2). Without self products every molecule has the inner product 1 with itself, as in the
    papers. This distorts pairs of molecules of very different size; give self products for these. Vectors of
    molecules outside the span of the basis are shorter than their self products.

    Examples
    --------
    >>> words = ["aspirin", "aspirins", "ibuprofen", "profen"]
    >>> def alike(A, B):
    ...     return [[len(set(a) & set(b)) / len(set(a) | set(b)) for b in B] for a in A]
    >>> scissors = SCISSORS(4, similarity=alike).fit(words)
    >>> vectors = scissors.transform(words)
    >>> bool(np.allclose(scissors.similarities(vectors), alike(words, words)))
    True
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        similarity: Callable[[MatrixLike, MatrixLike], npt.ArrayLike] | None = None,
        measure: Literal["tanimoto", "product"] = "tanimoto",
    ) -> None:
        self.n_components = n_components
        self.similarity = similarity
        self.measure = measure

    def fit(self, X: MatrixLike, y: object = None, *, self_products: npt.ArrayLike | None = None) -> Self:
        """Compute the projection.

        Parameters
        ----------
        X : sequence of l molecules, or array_like of shape (l, l)
            The basis; without a similarity function, its similarities.
        y : None
            Not used.
        self_products : array_like, shape (l,), optional
            Inner product of each molecule with itself, above 0. Default: 1. Not for measure="product", where
            the diagonal holds them.

        Raises
        ------
        InputError
            If a parameter is out of range; if the similarities are not square, symmetric and finite, or are
            not Tanimoto coefficients (a molecule's with itself is 1); or if there are fewer basis molecules
            than dimensions.
        """
        check_count("n_components", self.n_components)
        n_components = int(self.n_components)
        if self.measure not in ("tanimoto", "product"):
            raise InputError(f"measure must be tanimoto or product, not {self.measure!r}.")
        S = self._matrix(X if self.similarity is None else self.similarity(X, X))
        _check_symmetric(S)
        if S.shape[0] < n_components:
            raise InputError(
                f"{n_components} dimensions need as many basis molecules, but there are {S.shape[0]}: give "
                "more, or a smaller n_components."
            )
        diagonal = self._diagonal(self_products, S.shape[0])
        G = (S + S.T) / 2.0
        if self.measure == "tanimoto":
            _check_diagonal(S)
            G = tanimoto_to_product(G, diagonal, diagonal)
            np.fill_diagonal(G, diagonal)
        spectrum = decompose(G, n_components, _FLOOR)
        self.eigenvalues_, self.rank_, self.negative_ = (
            spectrum.eigenvalues,
            spectrum.rank,
            spectrum.negative(),
        )
        self.projection_ = np.zeros((S.shape[0], n_components))
        self.projection_[:, : spectrum.rank] = spectrum.projection
        self.n_features_in_ = S.shape[0]
        self._fitted_to = (n_components, self.measure, self.similarity)
        self._basis = X if self.similarity is not None else None
        self._basis_products = diagonal
        return self

    def fit_transform(
        self, X: MatrixLike, y: object = None, *, self_products: npt.ArrayLike | None = None
    ) -> Array:
        """Return the vectors of the basis itself: `fit`, then `transform` with the same self products."""
        fitted = self.fit(X, y, self_products=self_products)
        return fitted.transform(X, self_products=self_products)

    def transform(self, X: MatrixLike, *, self_products: npt.ArrayLike | None = None) -> Array:
        """Return the vectors of molecules, float64 of shape (n, n_components).

        Parameters
        ----------
        X : sequence of n molecules, or array_like of shape (n, l)
            The molecules; without a similarity function, their similarities with the basis.
        self_products : array_like, shape (n,), optional
            As for `fit`.

        Raises
        ------
        InputError
            If there is no fit yet, a parameter has changed since, or the similarities are not finite, do not
            have l columns, or are not Tanimoto coefficients.
        """
        if not hasattr(self, "projection_"):
            raise InputError("SCISSORS is not fitted: call fit with the basis molecules first.")
        if self._fitted_to != (self.n_components, self.measure, self.similarity):
            raise InputError("A parameter of SCISSORS has changed since the last fit: call fit again.")
        S = self._matrix(
            X if self.similarity is None or self._basis is None else self.similarity(X, self._basis)
        )
        if S.shape[1] != self.n_features_in_:
            raise InputError(
                f"Similarities with {S.shape[1]:,} molecules were given, but the basis has "
                f"{self.n_features_in_:,}: give one column for each of them."
            )
        diagonal = self._diagonal(self_products, S.shape[0])
        G = S if self.measure == "product" else tanimoto_to_product(S, diagonal, self._basis_products)
        vectors: Array = G @ self.projection_
        return vectors

    def similarities(self, A: npt.ArrayLike, B: npt.ArrayLike | None = None) -> Array:
        """Return the Tanimoto coefficients of vectors (steps 3 and 4), float64 of shape (n, m).

        Parameters
        ----------
        A, B : array_like, shapes (n, k) and (m, k)
            Results of `transform`. `B` defaults to `A`.
        """
        a = np.asarray(A, dtype=np.float64)
        b = a if B is None else np.asarray(B, dtype=np.float64)
        return product_to_tanimoto(a @ b.T, np.square(a).sum(axis=1), np.square(b).sum(axis=1))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64"]
        return tags

    def _matrix(self, S: object) -> Array:
        """Return similarities as a float64 matrix of finite numbers that the measure allows."""
        try:
            matrix = np.asarray(S, dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.empty(0)
        if matrix.ndim != 2:
            raise InputError("Similarities must be a matrix of numbers, one row per molecule.")
        bad = ~np.isfinite(matrix)
        reason = "is not a finite number"
        if self.measure == "tanimoto" and not bad.any():
            bad = (matrix < _LOWEST - _EXCESS) | (matrix > 1.0 + _EXCESS)
            reason = 'is not a Tanimoto coefficient; use measure="product" for inner products'
        if bad.any():
            i, j = np.argwhere(bad)[0]
            raise InputError(f"The similarity {matrix[i, j]:g} in row {i}, column {j} {reason}.")
        return matrix

    def _diagonal(self, self_products: npt.ArrayLike | None, n: int) -> Array:
        if self_products is None:
            return np.ones(n)
        if self.measure == "product":
            raise InputError('self_products are for measure="tanimoto": inner products hold them already.')
        products = np.asarray(self_products, dtype=np.float64)
        if products.shape != (n,) or not (np.isfinite(products).all() and (products > 0.0).all()):
            raise InputError(f"self_products must be {n} finite numbers above 0, one per molecule.")
        return products


def _both(left: npt.ArrayLike, right: npt.ArrayLike) -> Array:
    return np.asarray(left, dtype=np.float64)[..., None] + np.asarray(right, dtype=np.float64)


def _check_symmetric(S: Array) -> None:
    n, m = S.shape
    if n != m or n == 0:
        raise InputError(
            "The similarities of the basis must be a square matrix, one row and one column per molecule, "
            f"not {n} x {m}."
        )
    difference = np.abs(S - S.T)
    i, j = np.unravel_index(int(np.argmax(difference)), S.shape)
    if difference[i, j] > _ASYMMETRY * np.abs(S).max():
        raise InputError(
            f"The similarities of the basis are not symmetric: {S[i, j]:g} in row {i}, column {j}, but "
            f"{S[j, i]:g} the other way round; take their mean, if that is what they should be."
        )


def _check_diagonal(T: Array) -> None:
    """Refuse anything else, above all distances, which would otherwise pass."""
    off = np.abs(np.diag(T) - 1.0)
    i = int(np.argmax(off))
    if off[i] > _SELF:
        raise InputError(
            f"Molecule {i} of the basis has the similarity {T[i, i]:g} with itself, but a Tanimoto "
            'coefficient would be 1: give 1 - distance, or use measure="product" for inner products.'
        )
