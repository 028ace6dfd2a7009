"""Polynomial sketches: random features of (x.y + c)^degree."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import MatrixLike
from daskrf.engine import Rows, engine
from daskrf.features.featuremap import FeatureMap, MapFacts
from daskrf.features.sketches.projections import (
    CONSTANT_COLUMN,
    Products,
    ScaledRows,
    refuse_overflow,
    scale_rows,
)
from daskrf.features.sketches.srht import SubsampledHadamard, check_dense
from daskrf.features.sketches.tensorsketch import fast_length, spectra
from daskrf.features.sketches.variances import padded_width
from daskrf.kernels.powerseries import Polynomial
from daskrf.seeds import RandomState

Method = Literal["rademacher", "gaussian", "tensorsrht", "tensorsketch", "complex"]

_COST = {"rademacher": 4e-9, "gaussian": 1e-8, "tensorsrht": 4e-9, "tensorsketch": 4e-9, "complex": 8e-9}


@dataclass(eq=False, repr=False)
class PolynomialSketch(FeatureMap):
    """Features whose inner product is an unbiased estimate of (x.y + c)^degree.

    There are five sketches, phi(x) = (W_1 x * ... * W_n x) / sqrt(M): elementwise products of n = `degree`
    independent projections. If c > 0, every row gets one more column with the value sqrt(c).

    Parameters
    ----------
    degree : int, default 2
        n, from 0 (the constant 1) to 1000.
    n_components : int, default 4096
        Number M of features.
    method : {"rademacher", "gaussian", "tensorsrht", "tensorsketch", "complex"}, default "rademacher"
        The matrices W_i. rademacher: random signs, hashed from the columns' identifiers, for any number of
        columns. gaussian: normal numbers; the variance is never smaller. tensorsrht: randomized Hadamard
        matrices, which make as many features in O(M log d) instead of O(M d), for dense rows of up to 2^20
        columns; for odd degrees the variance is smaller than with rademacher. tensorsketch: the circular
        convolution of n count sketches (Pham & Pagh 2013), O(nnz + M log M). complex: M / 2
        products of complex projections, of which the features are the real and imaginary parts; where no
        value is negative, the variance is smaller than with rademacher, at twice the time. For Morgan counts
        it is 0.77, 0.58 and 0.43 of that at degrees 2, 3 and 4, and about that of tensorsketch.
    c : float, default 0.0
        At least 0.
    normalize : bool, default False
        Divide every row by its length first, for (cos(x, y) + c)^degree. Without it, features grow as the
        degree-th power of the rows.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Notes
    -----
    Source: Wacker & Filippone 2022, section 2.3, table 1 and algorithm 2; complex projections, which the
    paper mentions, are of Wacker, Ohana & Filippone 2022. For the variances see
    `daskrf.features.sketch_variance`.

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
        use="for polynomial kernels; the method tensorsketch is the fastest",
        example="--degree 3 --c 0.5 --method tensorsketch",
    )

    option_defaults: ClassVar[dict[str, object]] = {"normalize": True}

    degree: int = 2
    n_components: int = 4096
    _: KW_ONLY
    method: Method = "rademacher"
    c: float = 0.0
    normalize: bool = False
    random_state: RandomState = 0

    def words(self) -> str:
        return f"polynomial sketch ({self.method}) of k = {self.kernel_.words()}, {self.size_words}"

    @property
    def seconds_per_component(self) -> float:
        return _COST[self.method] * max(1, self.degree)

    @property
    def kernel_(self) -> Polynomial:
        return Polynomial(self.degree, self.c, normalize=self.normalize)

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        csr, rows = scale_rows(X, normalize=self.normalize)
        self.check_columns(csr.shape[1])
        out = np.zeros((csr.shape[0], self.n_components), np.float32)
        if self.degree == 0:
            out[:] = np.float32(1.0 / math.sqrt(self.n_components))
        elif self.method == "tensorsketch":
            _write_tensorsketch(self._with_constant(rows), self._sketch_keys(), out)
        elif self.method == "tensorsrht":
            width = padded_width(csr.shape[1] + (self.c > 0.0))
            origin = np.zeros(width, np.float32)
            if self.c > 0.0:
                origin[csr.shape[1]] = -math.sqrt(self.c)
            self._once(lambda: self._hadamard(width), width).write(rows, origin, out)
        elif self.method == "complex":
            self._write_complex(rows, out)
        else:
            self._once(self._products).write(rows, out)
        refuse_overflow(out, "divide all rows by a length, or use normalize=True")
        return out

    def table_bytes(self, n_columns: int) -> int:
        """Return the bytes of the signs and places of "tensorsrht"; see `FeatureMap`."""
        if self.method != "tensorsrht":
            return 0
        width = padded_width(n_columns + (self.c > 0.0))
        return SubsampledHadamard.table_bytes([(self.n_components, self.degree)], width)

    def _products(self) -> Products:
        M = self.n_components
        return self._real_products(M, self.degree, 1.0 / math.sqrt(M), self.method)

    def _real_products(self, size: int, degree: int, weight: float, name: str) -> Products:
        # W (x, sqrt(c)) = W x - W (0, -sqrt(c)).
        origin = None
        if self.c > 0.0:
            origin = np.array([CONSTANT_COLUMN], np.uint64), np.array([-math.sqrt(self.c)])
        return Products(
            np.full(size, degree, np.int64),
            np.full(size, weight),
            self.seed_,
            f"polynomial/{name}",
            normal=self.method == "gaussian",
            origin=origin,
        )

    def _write_complex(self, rows: ScaledRows, out: npt.NDArray[np.float32]) -> None:
        """Write M // 2 complex features by their real and imaginary parts; if M is odd, a real one follows.

        A complex sign times exp(i pi / 4) is (s + i t) / sqrt(2) with two signs s and t, and no phase changes
        phi(x) conj(phi(y)): the projections are those of signs, two to a complex one.
        """
        factors, last = self._once(self._complex_factors)
        even = out.shape[1] // 2 * 2
        projections = out[:, :even].view(np.complex64)
        features = np.full_like(projections, math.sqrt(2.0 / out.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):  # refused by `transform`
            for factor in factors:
                factor.write(rows, out)
                features *= projections
        projections[:] = features
        if last is not None:
            last.write(rows, out, even)

    def _complex_factors(self) -> tuple[list[Products], Products | None]:
        """Return the signs of the factors, and the real feature of an odd number M."""
        M = self.n_components
        even, weight = M // 2 * 2, math.sqrt(0.5)
        factors = [self._real_products(even, 1, weight, f"complex/{j}") for j in range(self.degree)]
        return factors, self._real_products(1, self.degree, 1.0 / math.sqrt(M), "complex") if M % 2 else None

    def _hadamard(self, width: int) -> SubsampledHadamard:
        return SubsampledHadamard(self.n_components, self.degree, width, self.seed_, "polynomial")

    def _sketch_keys(self) -> list[npt.NDArray[np.uint64]]:
        """Return the keys of the count sketches of each block, whose lengths suit fast transforms."""
        keys: list[npt.NDArray[np.uint64]] = []
        rest = self.n_components
        while rest:
            rest -= fast_length(rest)
            names = [f"polynomial/tensorsketch/{len(keys)}/{j}" for j in range(self.degree)]
            keys.append(np.array([seeds.key(self.seed_, name) for name in names], np.uint64))
        return keys

    def _with_constant(self, rows: ScaledRows) -> Rows:
        """Return the scaled rows; if c is above 0, each ends with an entry sqrt(c)."""
        values, columns = rows.scaled(), rows.columns.astype(np.int64)
        if self.c == 0.0:
            return Rows(rows.pointer, columns, values)
        ends = rows.pointer[1:]
        values = np.insert(values, ends, np.float32(math.sqrt(self.c)))
        # The same 64 bits as this column's identifier has elsewhere.
        columns = np.insert(columns, ends, np.uint64(CONSTANT_COLUMN).astype(np.int64))
        return Rows(rows.pointer + np.arange(rows.pointer.size), columns, values)

    def check_columns(self, n_columns: int) -> None:
        if self.method == "tensorsrht":
            check_dense(n_columns + (self.c > 0.0))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _ = self.kernel_  # refuses the degree and c


def _write_tensorsketch(rows: Rows, keys: list[npt.NDArray[np.uint64]], out: npt.NDArray[np.float32]) -> None:
    """Write independent tensor sketches side by side, each weighted by the root of its share of features."""
    first, slots = 0, np.zeros(out.shape[0], np.int64)
    for sketch_keys in keys:
        length = fast_length(out.shape[1] - first)
        share = np.full((1, 1), math.sqrt(length / out.shape[1]), np.float32)
        constant = spectra(share, np.zeros(1, np.int64), length)
        engine().product_term(rows, sketch_keys, constant, slots, out[:, first : first + length])
        first += length
