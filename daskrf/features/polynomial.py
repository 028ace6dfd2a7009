"""Polynomial sketches: random features of (x.y + c)^degree."""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.engine import Rows, engine
from daskrf.errors import InputError
from daskrf.features.facts import MapFacts
from daskrf.features.featuremap import FeatureMap, check_n_components
from daskrf.features.projections import CONSTANT_COLUMN, Products, ScaledRows, refuse_overflow, scale_rows
from daskrf.features.srht import MAX_WIDTH, SubsampledHadamard
from daskrf.features.tensorsketch import fast_length, spectra
from daskrf.features.variances import padded_width
from daskrf.kernels.powerseries import Polynomial

__all__ = ["PolynomialSketch"]

Method = Literal["rademacher", "gaussian", "tensorsrht", "tensorsketch"]
METHODS = get_args(Method)

_COST = {"rademacher": 4e-9, "gaussian": 1e-8, "tensorsrht": 4e-9, "tensorsketch": 4e-9}


class PolynomialSketch(FeatureMap):
    """Features whose inner product is an unbiased estimate of (x.y + c)^degree.

    Four sketches phi(x) = (W_1 x * ... * W_n x) / sqrt(M), elementwise products of n = `degree` independent
    projections. c > 0 is one column more, with the value sqrt(c) in every row.

    Parameters
    ----------
    degree : int, default 2
        n, from 0 (the constant 1) to 1000.
    n_components : int, default 4096
        Number M of features.
    method : {"rademacher", "gaussian", "tensorsrht", "tensorsketch"}, default "rademacher"
        The matrices W_i. rademacher: random signs, hashed from the columns' identifiers, for any number of
        columns. gaussian: normal numbers, whose variance is never smaller. tensorsrht: randomized Hadamard
        matrices, with the same features at O(M log d) in place of O(M d), for dense rows of up to 2^20
        columns; the variance is smaller than that of rademacher for odd degrees. tensorsketch: the circular
        convolution of n count sketches (Pham & Pagh 2013), O(nnz + M log M).
    c : float, default 0.0
        At least 0.
    normalize : bool, default False
        Divide every row by its length first: (cos(x, y) + c)^degree. Without it, features are as large as the
        degree-th power of the rows.
    random_state : int, default 0
        Seed of every random number of the map.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Notes
    -----
    Source: Wacker & Filippone 2022, section 2.3, table 1 and algorithm 2; `daskrf.features.sketch_variance`
    gives the variances.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2, 0, 1], [0, 5, 0]])
    >>> Phi = PolynomialSketch(3, 2000, normalize=True, method="tensorsrht").fit_transform(X)
    >>> np.abs(Phi @ Phi.T - np.eye(2)).max() < 0.3
    np.True_
    """

    facts = MapFacts(
        name="polynomial",
        kernel="(cos + c)^N or (x.y + c)^N",
        rows="reals",
        features="floats",
        cost="N z M",
        holds="4 N M",
        learns="nothing",
        reference="Wacker & Filippone 2022, table 1; Pham & Pagh 2013",
        use="where a polynomial is wanted; the method tensorsketch is the fastest",
        example="--degree 3 --c 0.5 --method tensorsketch",
    )

    option_defaults: ClassVar[dict[str, Any]] = {"normalize": True}

    def __init__(
        self,
        degree: int = 2,
        n_components: int = 4096,
        *,
        method: Method = "rademacher",
        c: float = 0.0,
        normalize: bool = False,
        random_state: int = 0,
    ) -> None:
        self.degree = degree
        self.n_components = n_components
        self.method = method
        self.c = c
        self.normalize = normalize
        self.random_state = random_state

    def words(self) -> str:
        """See `FeatureMap`."""
        return f"polynomial sketch ({self.method}) of k = {self.kernel_.words()}, {self.size_words}"

    @property
    def seconds_per_component(self) -> float:
        """Rough cost of one feature of one molecule on one core, from which tasks are sized."""
        return _COST[self.method] * max(1, self.degree)

    @property
    def kernel_(self) -> Polynomial:
        """The exact kernel that the features approximate."""
        return Polynomial(self.degree, self.c, normalize=self.normalize)

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters and note the number of columns; nothing else depends on the input.

        Parameters
        ----------
        X : array of shape (n, d), optional
            None keeps what is known.
        y : ignored

        Raises
        ------
        InputError
            If a parameter is out of range, or `X` has more columns than "tensorsrht" serves.
        """
        self._check_parameters()
        if X is not None:
            shape = np.shape(X)  # which computes nothing of a lazy array
            if len(shape) != 2:
                raise InputError(f"Fingerprints must have 2 dimensions, not {len(shape)}.")
            self.check_columns(int(shape[1]))
            self.n_features_in_ = int(shape[1])
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the features of each row of `X`.

        Parameters
        ----------
        X : scipy.sparse, pydata/sparse or dense array of real numbers, shape (n, d)

        Returns
        -------
        float32 array, shape (n, n_components)

        Raises
        ------
        InputError
            If a parameter is bad, a value is not finite, d is not that of `fit` or too large for
            "tensorsrht", or a feature is too large for single precision.
        """
        n_components, _ = self._check_parameters()
        csr, rows = scale_rows(X, normalize=self.normalize)
        self._check_width(csr.shape[1])
        self.check_columns(csr.shape[1])
        out = np.zeros((csr.shape[0], n_components), np.float32)
        if self.degree == 0:
            out[:] = np.float32(1.0 / math.sqrt(n_components))
        elif self.method == "tensorsketch":
            _write_tensorsketch(self._with_constant(rows), self._sketch_keys(), out)
        elif self.method == "tensorsrht":
            width = padded_width(csr.shape[1] + (self.c > 0.0))
            origin = np.zeros(width, np.float32)
            if self.c > 0.0:
                origin[csr.shape[1]] = -math.sqrt(self.c)
            self._hadamard(width).write(rows, origin, out)
        else:
            self._products().write(rows, out)
        refuse_overflow(out, "divide all rows by a length, or use normalize=True")
        return out

    def table_bytes(self, n_columns: int) -> int:
        """Return the bytes of the signs and places of "tensorsrht"; see `FeatureMap`."""
        if self.method != "tensorsrht":
            return 0
        width = padded_width(n_columns + (self.c > 0.0))
        return SubsampledHadamard.table_bytes([(self.n_components, self.degree)], width)

    def _products(self) -> Products:
        return self._once("products", self._make_products)

    def _make_products(self) -> Products:
        M = self.n_components
        weights = np.full(M, 1.0 / math.sqrt(M))
        # W (x, sqrt(c)) = W x - W (0, -sqrt(c)).
        origin = None
        if self.c > 0.0:
            origin = np.array([CONSTANT_COLUMN], np.uint64), np.array([-math.sqrt(self.c)])
        return Products(
            np.full(M, self.degree, np.int64),
            weights,
            self.random_state,
            f"polynomial/{self.method}",
            normal=self.method == "gaussian",
            origin=origin,
        )

    def _hadamard(self, width: int) -> SubsampledHadamard:
        return self._once(
            f"hadamard {width}",
            lambda: SubsampledHadamard(
                self.n_components, self.degree, width, self.random_state, "polynomial"
            ),
        )

    def _sketch_keys(self) -> list[npt.NDArray[np.uint64]]:
        """Return the keys of the count sketches of each block, of a length that transforms are fast for."""
        keys: list[npt.NDArray[np.uint64]] = []
        rest = self.n_components
        while rest:
            rest -= fast_length(rest)
            names = [f"polynomial/tensorsketch/{len(keys)}/{j}" for j in range(self.degree)]
            keys.append(np.array([seeds.key(self.random_state, name) for name in names], np.uint64))
        return keys

    def _with_constant(self, rows: ScaledRows) -> Rows:
        """Return the scaled rows, with an entry sqrt(c) at the end of each if c is above 0."""
        values, columns = rows.scaled(), rows.columns.astype(np.int64)
        if self.c == 0.0:
            return Rows(rows.pointer, columns, values)
        ends = rows.pointer[1:]
        values = np.insert(values, ends, np.float32(math.sqrt(self.c)))
        # The same 64 bits as the column's identifier elsewhere.
        columns = np.insert(columns, ends, np.uint64(CONSTANT_COLUMN).astype(np.int64))
        return Rows(rows.pointer + np.arange(rows.pointer.size), columns, values)

    def _once(self, name: str, make: Any) -> Any:
        """Return what `make` makes, once for each object, name and parameters."""
        given = (name, json.dumps(self.state()["parameters"], sort_keys=True))
        kept = getattr(self, "_kept", None)
        if kept is None or kept[0] != given:
            kept = (given, make())
            self._kept = kept
        return kept[1]

    def _fitted_state(self) -> dict[str, Any]:
        return {"n_features_in": self.n_features_in_} if hasattr(self, "n_features_in_") else {}

    def _restore(self, fitted: dict[str, Any]) -> None:
        if "n_features_in" in fitted:
            self.n_features_in_ = fitted["n_features_in"]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_kept"}

    def check_columns(self, n_columns: int) -> None:
        """Raise InputError if rows of so many columns are more than the transforms serve."""
        if self.method == "tensorsrht" and n_columns + (self.c > 0.0) > MAX_WIDTH:
            raise InputError(
                f"The fingerprints have {n_columns:,} columns, but tensorsrht makes rows of them dense and "
                f"serves {MAX_WIDTH:,}; fold the fingerprints, or use method='rademacher'."
            )

    def _check_parameters(self) -> tuple[int, int]:
        """Raise InputError if a parameter is out of range; return n_components and the seed."""
        n_components, seed = check_n_components(self.n_components), seeds.check_seed(self.random_state)
        if self.method not in METHODS:
            raise InputError(f"method must be one of {', '.join(METHODS)}, not {self.method!r}.")
        if not isinstance(self.normalize, (bool, np.bool_)):
            raise InputError(f"normalize must be True or False, not {self.normalize!r}.")
        _ = self.kernel_  # refuses the degree and c
        return n_components, seed


def _write_tensorsketch(rows: Rows, keys: list[npt.NDArray[np.uint64]], out: npt.NDArray[np.float32]) -> None:
    """Write independent tensor sketches side by side, each weighted by the root of its share of features."""
    first, slots = 0, np.zeros(out.shape[0], np.int64)
    for own in keys:
        length = fast_length(out.shape[1] - first)
        share = np.full((1, 1), math.sqrt(length / out.shape[1]), np.float32)
        constant = spectra(share, np.zeros(1, np.int64), length)
        engine().product_term(rows, own, constant, slots, out[:, first : first + length])
        first += length
