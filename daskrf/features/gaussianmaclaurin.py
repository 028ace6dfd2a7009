"""Optimized Maclaurin features of the Gaussian kernel."""

from __future__ import annotations

import itertools
import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf import seeds
from daskrf.arrays import MatrixLike, as_csr, check_finite, squared_norms
from daskrf.errors import InputError
from daskrf.features.featuremap import MapFacts
from daskrf.features.sketches.allocation import Allocation, SeriesErrors, optimal_allocation
from daskrf.features.sketches.prefactor import exp
from daskrf.features.sketches.projections import Products, ScaledRows, refuse_overflow, scale_rows
from daskrf.features.sketches.srht import SubsampledHadamard, check_dense
from daskrf.features.sketches.variances import Moments, on_own_columns, padded_width
from daskrf.features.sparserows import SampleMap
from daskrf.kernels import Gaussian
from daskrf.kernels.kernel import AUTO
from daskrf.kernels.truncated import TruncatedGaussian, check_length_scale
from daskrf.seeds import RandomState

SAMPLE = 2000
"""Number of rows that the centre is the mean of."""

PAIRED = 256
"""How many of these rows form the pairs that errors are averaged over."""

MOST_CENTRE = 4096
"""Most columns of the centre that may differ from 0. Any centre is correct; this keeps the state small."""

FARTHEST = 1e4
"""Most length scales from the origin to the centre: differences from it then keep three digits."""

_ENTRIES = 1 << 21
"""Features in a part of the rows whose monomials are made together."""

Method = Literal["rademacher", "tensorsrht"]

Array = npt.NDArray[np.float64]


@dataclass(eq=False, repr=False)
class GaussianMaclaurinFeatures(SampleMap):
    """Features of the Gaussian kernel exp(-|x - y|^2 / (2 l^2)) by its power series about a mean.

    With u = (x - c) / l and c the mean of a sample, phi(x) = exp(-|u|^2 / 2) (1, phi_1(u), phi_2(u) /
    sqrt(2!), ..., phi_p(u) / sqrt(p!)), where phi_n is a sketch of (u.v)^n with D_n features. The degree p
    and the sizes D_n are those with the smallest mean squared error over pairs of the sample. The features
    are unbiased for the truncated series, `kernel_`.

    Parameters
    ----------
    n_components : int, default 4096
        Number M of features: 1 + D_1 + ... + D_p.
    length_scale : float or "auto", default 1.0
        Length scale l, above 0, in the units of the columns. With auto, `fit` chooses it from the labels; all
        other commands need a number.
    method : {"rademacher", "tensorsrht"}, default "rademacher"
        The sketches, as in `PolynomialSketch`; tensorsrht is for dense rows.
    explicit : bool, default True
        Use all monomials of the columns instead of a sketch for low degrees that have few enough of them: the
        linear term if there are few columns, all degrees if there is only one.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    allocation_ : Allocation
        p as `degree`, D_n as `sizes`, how many of the first degrees are explicit, and the predicted error.
    centre_ : CSR matrix of float64, shape (1, d)
        c.
    n_features_in_ : int
        Number of columns that `fit` saw.

    Notes
    -----
    Source: Wacker & Filippone 2022, sections 2.2 and 2.3; the allocation is the incremental algorithm of
    Wacker, Kanagawa & Filippone 2022, section 5.3, which is exact for "rademacher"; for "tensorsrht", whose
    variances are not convex, it is a dynamic program. The sum of equation 7 must start at n = 0, as in
    equation 6. The features vanish far from the centre (theorem 3.1): rows should be within a few length
    scales of the mean. Sparse rows stay sparse: the projections of c are subtracted from theirs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> Phi = GaussianMaclaurinFeatures(500, length_scale=4.0).fit_transform(X)
    >>> exact = np.exp(-np.square(X[:, None] - X).sum(axis=2) / 32)
    >>> np.abs(Phi @ Phi.T - exact).max() < 0.05
    np.True_
    """

    facts = MapFacts(
        name="gaussian-maclaurin",
        kernel="Gaussian, L not small",
        rows="reals",
        features="floats",
        cost="N z M",
        holds="4 N M",
        learns="the mean of 2,000 rows",
        reference="Wacker & Filippone 2022, sections 2.2 and 2.3",
        use="for folded or unfolded counts: more accurate than fourier at equal M if the length scale is at "
        "least the typical distance of a molecule from the mean of the counts; features of molecules far "
        "from the mean vanish",
        example="--length-scale 16",
    )

    option_defaults: ClassVar[dict[str, object]] = {"length_scale": AUTO}
    kept_rows = "centre"
    centre_: sp.csr_matrix = field(init=False)

    n_components: int = 4096
    _: KW_ONLY
    length_scale: float | Literal["auto"] = 1.0
    method: Method = "rademacher"
    explicit: bool = True
    random_state: RandomState = 0

    def words(self) -> str:
        degrees = f", degrees 0 to {len(self.allocation_.sizes)}" if self.is_fitted() else ""
        kernel = f"exp(-|x-y|^2 / (2 {self.length_scale}^2))"
        return f"optimized Maclaurin features ({self.method}) of k = {kernel}, {self.size_words}{degrees}"

    @property
    def _length(self) -> float:
        """l as a number; InputError if it is not known yet."""
        return check_length_scale(self.length_scale)

    @property
    def seconds_per_component(self) -> float:
        sizes = self.allocation_.sizes if self.is_fitted() else (1, 1, 1, 1)
        factors = sum(n * size for n, size in enumerate(sizes, start=1)) / max(1, sum(sizes))
        return 4e-9 * max(1.0, factors)

    @property
    def kernel_(self) -> TruncatedGaussian:
        """The exact kernel that the features estimate without bias: the series about c, up to degree p."""
        if not self.is_fitted():
            return TruncatedGaussian(self._length)
        centre = self.centre_.indices.tolist(), self.centre_.data.tolist()
        return TruncatedGaussian(self._length, self.allocation_.degree, centre)

    @property
    def projected_kernel(self) -> Gaussian:
        """The Gaussian kernel; the farther a row is from the centre, the more of it the series leaves out."""
        return Gaussian(self._length)

    def sample_size(self, n_rows: int) -> int:
        """Return how many random rows of `n_rows` to fit the map to: at most 2,000."""
        self._check_parameters()
        return min(n_rows, SAMPLE)

    def _fit(self, X: MatrixLike) -> None:
        csr = self._checked_rows(X)
        centre, some = sample_centre(csr, self.seed_)
        errors = pair_errors(some, centre, self._length, self.method)
        most = csr.shape[1] if self.explicit else self.n_components
        self._take(centre, optimal_allocation(errors, self.n_components - 1, most))

    def _checked_rows(self, X: MatrixLike) -> sp.csr_matrix:
        """Return the rows to learn from as float64, after checking them."""
        csr = check_finite(as_csr(X)).astype(np.float64)
        if not csr.shape[0]:
            raise InputError("There is no row to learn a centre from; fit to at least one row.")
        self.check_columns(csr.shape[1])
        return csr

    def _take(self, centre: sp.csr_matrix, allocation: Allocation) -> Self:
        """Set the centre and the sizes of all degrees; return the map itself."""
        self._check_centre(centre)
        self.allocation_ = allocation
        self._keep(centre)
        return self

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        """Return the features of each row of `X`; those of a row far from the centre are nearly 0."""
        n_components = self.n_components
        if 1 + sum(self.allocation_.sizes) > n_components:
            raise InputError(
                f"n_components is {n_components}, but fit has allocated {1 + sum(self.allocation_.sizes)} "
                "features: call fit again."
            )
        csr, rows = scale_rows(X, normalize=False, scale=1.0 / self._length)
        rows = rows._replace(starts=self._starts(csr))
        out = np.zeros((csr.shape[0], n_components), np.float32)
        out[:, 0] = rows.starts
        first = self._write_explicit(rows, out) if self.allocation_.n_explicit else 1
        with np.errstate(over="ignore", invalid="ignore"):
            for sketch in self._once(self._sketches):
                if isinstance(sketch, Products):
                    sketch.write(rows, out, first)
                else:
                    target = out[:, first : first + sketch.size]
                    sketch.write(rows, self._dense_centre(sketch.width), target, _root_scales(sketch.degree))
                first += sketch.size
        out[rows.starts == 0.0] = 0.0  # too far from the centre: the factor underflows
        refuse_overflow(out, "divide all rows by a length")
        return out

    def table_bytes(self, n_columns: int) -> int:
        """Return the bytes of the tables of "tensorsrht", when all sizes are known; see `FeatureMap`."""
        if self.method != "tensorsrht" or not self.is_fitted():
            return 0
        parts = [(size, n) for n, size in enumerate(self.allocation_.sizes, 1)]
        return SubsampledHadamard.table_bytes(parts[self.allocation_.n_explicit :], padded_width(n_columns))

    def _starts(self, csr: sp.csr_matrix) -> npt.NDArray[np.float32]:
        """Return exp(-|u|^2 / 2) of each row, with the same bits in any batch."""
        centre = np.zeros(csr.nnz)
        columns, values = self.centre_.indices, self.centre_.data
        data = csr.data.astype(np.float64)
        if columns.size:
            place = np.minimum(np.searchsorted(columns, csr.indices), columns.size - 1)
            centre = np.where(columns[place] == csr.indices, values[place], 0.0)
        row_of = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
        with np.errstate(over="ignore", invalid="ignore"):
            # Summed in the order of the entries.
            sums = np.bincount(row_of, data * (data - 2.0 * centre), minlength=csr.shape[0])
            squared = np.maximum(sums + float(squared_norms(self.centre_.indptr, values)[0]), 0.0)
            exponent = np.where(np.isfinite(squared), squared, 1e300) / (2.0 * self._length**2)
        return exp(-exponent).astype(np.float32)

    def _write_explicit(self, rows: ScaledRows, out: npt.NDArray[np.float32]) -> int:
        """Write all monomials of the first degrees from column 1 on; return the next free column."""
        d, values = self.n_features_in_, rows.scaled()
        centre, monomials = self._dense_centre(d), _monomials(d, self.allocation_.n_explicit)
        size = max(1, _ENTRIES // out.shape[1])
        for start in range(0, len(out), size):
            stop = min(start + size, len(out))
            entries = slice(rows.pointer[start], rows.pointer[stop])
            dense = np.zeros((stop - start, d), np.float32)
            row_of = np.repeat(np.arange(stop - start), np.diff(rows.pointer[start : stop + 1]))
            dense[row_of, rows.columns[entries]] = values[entries]
            dense -= centre
            first, powers = 1, rows.starts[start:stop, None]
            with np.errstate(over="ignore", invalid="ignore"):
                for each in monomials:
                    powers = powers[:, each.parent] * dense[:, each.variable] * each.weight
                    out[start:stop, first : first + each.weight.size] = powers
                    first += each.weight.size
        return 1 + sum(each.weight.size for each in monomials)

    def _dense_centre(self, width: int) -> npt.NDArray[np.float32]:
        centre = np.zeros(width, np.float32)
        centre[self.centre_.indices] = self.centre_.data / self._length
        return centre

    def _sketches(self) -> list[Products | SubsampledHadamard]:
        n_explicit, sizes = self.allocation_.n_explicit, self.allocation_.sizes
        degrees = range(n_explicit + 1, len(sizes) + 1)
        sketched = sizes[n_explicit:]
        if not sketched:
            return []
        if self.method == "tensorsrht":
            width = padded_width(self.n_features_in_)
            return [
                SubsampledHadamard(size, n, width, self.seed_, f"gaussianmaclaurin/{n}")
                for n, size in zip(degrees, sketched, strict=True)
            ]
        # Products expects the largest degrees first.
        repeated = np.repeat(np.array(degrees)[::-1], sketched[::-1]).astype(np.int64)
        weights = np.repeat(1.0 / np.sqrt(np.array(sketched[::-1], dtype=np.float64)), sketched[::-1])
        origin = self.centre_.indices.astype(np.uint64), self.centre_.data / self._length
        return [
            Products(
                repeated,
                weights,
                self.seed_,
                "gaussianmaclaurin",
                origin=origin,
                scales=_root_scales(len(sizes)),
            )
        ]

    def _fitted_state(self) -> dict[str, object]:
        fitted = super()._fitted_state()
        return {**fitted, "allocation": self.allocation_.state()} if self.is_fitted() else fitted

    def _restore(self, fitted: dict[str, Any]) -> None:
        super()._restore(fitted)
        if fitted:
            self.allocation_ = Allocation.from_state(fitted["allocation"])

    def _check_centre(self, centre: sp.csr_matrix) -> None:
        distance = math.hypot(*centre.data) / self._length
        if distance > FARTHEST:
            raise InputError(
                f"The centre is {distance:.3g} length scales away from 0, but differences from it are "
                f"accurate only up to {FARTHEST:,.0f}; subtract the mean from all rows, or raise "
                "length_scale."
            )

    def check_columns(self, n_columns: int) -> None:
        if self.method == "tensorsrht":
            check_dense(n_columns)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_length_scale(self.length_scale)


def sample_centre(csr: sp.csr_matrix, seed: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Return the mean of up to 2,000 random rows, and up to 256 of these rows, to take pairs from.

    Raises
    ------
    InputError
        If the squares of the values overflow.
    """
    words = seeds.words(seed, "gaussianmaclaurin/sample", csr.shape[0])
    chosen = np.argsort(words, kind="stable")[:SAMPLE]
    with np.errstate(over="ignore", invalid="ignore"):
        centre = _centre(csr[np.sort(chosen)])
        squares = squared_norms(csr.indptr, csr.data)
    if not (np.isfinite(centre.data).all() and np.isfinite(squares).all()):
        raise InputError("The squares of the values overflow; divide all rows by a length.")
    return centre, csr[chosen[:PAIRED]]


def pair_errors(
    csr: sp.csr_matrix,
    centres: sp.csr_matrix,
    length_scale: float,
    method: str,
    labels: npt.NDArray[np.intp] | None = None,
) -> SeriesErrors:
    """Return the errors over all pairs of different rows; a single row is paired with itself.

    `labels` says about which centre to take the pairs in which each row comes first. Default: the first
    centre.
    """
    first, second = np.triu_indices(csr.shape[0], 1 if csr.shape[0] > 1 else 0)
    centre_of = np.zeros(first.size, np.intp) if labels is None else labels[first]
    table = np.empty((4, first.size))
    with np.errstate(over="ignore", invalid="ignore"):
        for label in np.unique(centre_of):
            mask = centre_of == label
            pairs = first[mask], second[mask]
            moments, norms = _centred_moments(csr, centres[label], length_scale)
            table[:3, mask] = [moment[pairs] for moment in moments]
            table[3, mask] = (norms[pairs[0]] + norms[pairs[1]]) / 2
    dot, products, overlap, exponent = table
    return SeriesErrors(Moments(dot, products, overlap, padded_width(csr.shape[1])), exponent, method)


def _root_scales(degree: int) -> Array:
    """Return 1 / sqrt(1), 1 / sqrt(2), ...: their product is 1 / sqrt(n!), and no part of it underflows."""
    return 1.0 / np.sqrt(np.arange(1, degree + 1))


def _centre(csr: sp.csr_matrix) -> sp.csr_matrix:
    """Return the mean row, float64 of shape (1, d); of many columns, those with the largest means."""
    columns, places = np.unique(csr.indices, return_inverse=True)
    means = np.bincount(places.ravel(), csr.data, minlength=columns.size) / csr.shape[0]
    if columns.size > MOST_CENTRE:
        largest = np.sort(np.argsort(-np.abs(means), kind="stable")[:MOST_CENTRE])
        columns, means = columns[largest], means[largest]
    nonzero = np.flatnonzero(means)
    pointer = np.array([0, nonzero.size])
    parts = means[nonzero], columns[nonzero].astype(np.int64), pointer
    return sp.csr_matrix(parts, shape=(1, csr.shape[1]))


def _centred_moments(
    csr: sp.csr_matrix, centre: sp.csr_matrix, length_scale: float
) -> tuple[tuple[Array, Array, Array], Array]:
    """Return u.v, |u|^2 |v|^2 and sum u_k^2 v_k^2 of all pairs of u = (x - c) / l, and |u|^2.

    Rows stay sparse: (x_k - c_k)^2 = a_k + c_k^2 with a_k = x_k^2 - 2 x_k c_k, 0 where x_k is.
    """
    csr, centre = on_own_columns(csr, centre)
    pattern = csr.copy()
    pattern.data[:] = 1.0
    squared = centre.multiply(centre).tocsr()
    total, fourth = float(squared.sum()), float(squared.multiply(squared).sum())
    a = (csr.multiply(csr) - 2.0 * csr.multiply(pattern.multiply(centre))).tocsr()
    with_centre = (csr @ centre.T).toarray().ravel()
    dot = (csr @ csr.T).toarray() - with_centre[:, None] - with_centre + total
    of_a = (a @ squared.T).toarray().ravel()
    overlap = (a @ a.T).toarray() + of_a[:, None] + of_a + fourth
    norms = np.maximum(np.asarray(a.sum(axis=1)).ravel() + total, 0.0)
    s = length_scale**2
    return (dot / s, np.multiply.outer(norms, norms) / s**2, overlap / s**2), norms / s


@dataclass(frozen=True)
class Monomials:
    """The monomials of one degree, each its parent of one degree less times its last variable.

    The weight is 1 / sqrt(k), with k the multiplicity of the last variable: the product of a monomial's
    weights is the square root of its coefficient in exp(u.v).
    """

    parent: npt.NDArray[np.int64]
    variable: npt.NDArray[np.int64]
    weight: npt.NDArray[np.float32]


def _monomials(d: int, degree: int) -> list[Monomials]:
    """Return the monomials of d variables of each degree from 1 on, multisets in order."""
    tables = []
    before: dict[tuple[int, ...], int] = {(): 0}
    for n in range(1, degree + 1):
        monomials = list(itertools.combinations_with_replacement(range(d), n))
        tables.append(
            Monomials(
                parent=np.array([before[m[:-1]] for m in monomials]),
                variable=np.array([m[-1] for m in monomials]),
                weight=np.array([1.0 / math.sqrt(m.count(m[-1])) for m in monomials]).astype(np.float32),
            )
        )
        before = {m: i for i, m in enumerate(monomials)}
    return tables
