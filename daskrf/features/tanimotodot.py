"""Random features of the dot-product Tanimoto kernel."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf import seeds
from daskrf.arrays import MatrixLike, as_csr, check_finite, row_sums, squared_norms
from daskrf.engine import Rows
from daskrf.errors import InputError
from daskrf.features.featuremap import FeatureMap, MapFacts, check_count, is_number
from daskrf.features.sketches.tensorsketch import TensorSketchSeries, allocate
from daskrf.kernels import Kernel
from daskrf.kernels.dotproduct import TanimotoDotProduct
from daskrf.seeds import RandomState

TOLERANCE = 1e-4
"""Relative error of the prefactor above which a range of norms, or a row outside the range, is refused."""


@dataclass(eq=False, repr=False)
class TanimotoDotProductFeatures(FeatureMap):
    """Features whose inner product approximates the Tanimoto kernel T(x, y) = x.y / (|x|^2 + |y|^2 - x.y).

    T is the power series sum_r t^r in t = x.y / (|x|^2 + |y|^2). The features of its first `n_terms` terms
    stand side by side. Those of t^r are a TensorSketch of (x.y)^r and quasi-Monte-Carlo features of the
    prefactor (|x|^2 + |y|^2)^-r, sketched together. Rows without features share a vector of their own: T(0,
    0) = 1, and T(0, x) is 0 in expectation.

    The map must know the range of the squared norms of a library (of rows that are not zero); it gets it from
    `fit`, `fit_summaries` or `norm_range`. A row outside the range is accepted if the prefactor is exact to
    1e-4 there, too. With 64 prefactor features this holds from 1/500 of the largest squared norm (or 1/10 of
    the smallest) to ten times the largest, provided that these two differ by less than a factor of 200. The
    range of a library of drugs therefore covers methane as well. Where the prefactor is not exact enough, an
    InputError names the row.

    Parameters
    ----------
    n_components : int, default 4096
        Number M of features, at least one for each term.
    n_terms : int, default 4
        Number R of terms of the power series.
    allocation : float, default -1.0
        Term r gets features in proportion to r^allocation, rounded down to a length for which Fourier
        transforms are fast. The first term gets the remainder.
    bias_correction : None, "normalize" or "residual", default None
        How to correct for the rest of the series, sum_{r > R} t^r, which is largest for x = y, at 2^-R. None:
        not at all; the features are unbiased for the truncated series. "normalize": scale rows to length 1.
        "residual": append a sketch of t^(R + 1) (1 + k), with k the truncated series; it reuses the features
        of k, and takes the share of a term R + 1.
    n_prefactor : int, default 64
        Number of prefactor features for each term.
    polynomial : "tensorsketch"
        The sketch of (x.y)^r.
    input_transform : "sqrt" or None, default "sqrt"
        Transform applied to each value first. "sqrt" is for counts, which must not be negative (it does not
        change T of binary vectors); None is for any real vectors.
    norm_range : None or (float, float), default None
        Smallest and largest squared norm, after `input_transform`. If given, no `fit` is needed, and `fit`
        does not change it.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    norm_range_ : tuple of float
        Smallest and largest squared norm that the map is made for.
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Notes
    -----
    Source: Tripp, Bacallado, Singh & Hernandez-Lobato 2023, section 4; bias corrections: appendix E. The
    residual follows their E.2: all R terms and the residual of order R + 1. Their published code puts the
    residual in place of term R (R - 1 terms and t^R (1 + k_{R-1})), so that at R = 2 the expected diagonal is
    0.875 there and 0.969 here. The grid of prefactor features in their code repeats an end point; it needs
    10,000 of them for what 64 do here. `prefactor.PrefactorFeatures` explains two more differences: the
    constants s and c, and a reflection of the prefactor features, without which the mean squared error is 1.6
    to 1.8 times as large.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2, 0, 1], [2, 0, 1], [0, 5, 0]])
    >>> Phi = TanimotoDotProductFeatures(2000, bias_correction="normalize").fit_transform(X)
    >>> np.abs(np.round(Phi @ Phi.T, 0)).astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """

    positive_advice = "and has no square root: use input_transform=None"

    facts = MapFacts(
        name="dot-product",
        kernel="x.y / (|x|^2 + |y|^2 - x.y)",
        rows="counts, reals",
        features="floats",
        cost="z + M log M",
        holds="64 MiB",
        learns="the range of norms",
        reference="Tripp et al. 2023, section 4",
        use="more accurate than one-bit features at equal M, at 32 times the storage",
        example="--n-terms 4 --bias-correction normalize",
    )

    composed_width = 64

    learns_from: ClassVar[Literal["nothing", "summary", "sample"]] = "summary"

    n_components: int = 4096
    _: KW_ONLY
    n_terms: int = 4
    allocation: float = -1.0
    bias_correction: Literal["normalize", "residual"] | None = None
    n_prefactor: int = 64
    polynomial: Literal["tensorsketch"] = "tensorsketch"
    input_transform: Literal["sqrt"] | None = "sqrt"
    norm_range: tuple[float, float] | None = None
    random_state: RandomState = 0

    @property
    def seconds_per_component(self) -> float:
        """Rough cost of one feature of one molecule on one core, part of which does not grow with M."""
        return 6e-9 + 7e-6 / self.n_components

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel that the features approximate; without bias correction, the truncated series."""
        n_terms = self.n_terms if self.bias_correction is None else None
        return TanimotoDotProduct(transform=self.input_transform, n_terms=n_terms)

    instead_of_fit = "norm_range"

    @property
    def norm_range_(self) -> tuple[float, float]:
        """Smallest and largest squared norm: given, or learned by `fit`."""
        if self.norm_range is not None:
            return float(self.norm_range[0]), float(self.norm_range[1])
        if not hasattr(self, "_learned"):
            raise AttributeError("norm_range_")
        return self._learned

    def is_fitted(self) -> bool:
        """Tell whether the range of norms is known."""
        return self.norm_range is not None or hasattr(self, "_learned")

    def summarize(self, X: MatrixLike) -> dict[str, object]:
        """Return the number of columns, and the range of squared norms of the rows that are not zero.

        `smallest` and `largest` are norms after `input_transform`, or None if there is no such row. See
        `FeatureMap`.
        """
        self._check_parameters()
        csr, norms, _ = self._rows(X)
        norms = norms[norms > 0]
        ends = (float(norms.min()), float(norms.max())) if norms.size else (None, None)
        return {"n_features_in": csr.shape[1], "smallest": ends[0], "largest": ends[1]}

    def _learn(self, parts: list[dict[str, Any]]) -> None:
        if self.norm_range is not None:
            self._series(*self.norm_range_)
            return
        ranges = [summary for summary in parts if summary["smallest"] is not None]
        if not ranges:
            raise InputError(
                "None of the rows to fit to has a feature, so there is no range of norms; fit to other "
                "rows, or give norm_range."
            )
        learned = (
            min(summary["smallest"] for summary in ranges),
            max(summary["largest"] for summary in ranges),
        )
        self._series(*learned)
        self._learned = learned

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        n_components, seed = self.n_components, self.seed_
        csr, norms, values = self._rows(X)
        series = self._series(*self.norm_range_)
        zero = norms == 0
        # A row of zeros takes part with the norm of another row, and is overwritten at the end.
        with np.errstate(over="ignore"):  # a row that overflows is refused
            scaled = np.where(zero, 1.0, norms / self.norm_range_[1])
        self._refuse_strangers(series, norms, scaled)
        rows = Rows(csr.indptr.astype(np.int64), csr.indices.astype(np.int64), values)
        out = np.empty((norms.size, n_components), np.float32)
        series.features(rows, scaled, out)
        if self.bias_correction == "normalize":
            _normalise(out)
        if zero.any():
            signs = 1.0 - 2.0 * (seeds.words(seed, "dotproduct/empty", n_components) & np.uint64(1))
            out[zero] = (signs / math.sqrt(n_components)).astype(np.float32)
        return out

    def words(self) -> str:
        of = " of square roots of counts" if self.input_transform == "sqrt" else ""
        rest = {"normalize": ", rows scaled to length 1", "residual": " and a residual"}
        terms = f"{self.n_terms} terms{rest.get(self.bias_correction or '', '')}"
        norms = ""
        if self.is_fitted():
            norms = ", for squared norms of {:.6g} to {:.6g}".format(*self.norm_range_)
        return f"Tanimoto (dot-product) features{of}, {self.size_words}, {terms}{norms}"

    def table_bytes(self, n_columns: int) -> int:
        """Return the bytes kept for norms of counts, once their range is known; see `FeatureMap`.

        Squared norms of counts are whole numbers, with "sqrt" and without.
        """
        if not self.is_fitted():
            return 0
        smallest, largest = self.norm_range_
        return self._series(smallest, largest).table_bytes(int(largest - smallest) + 2)

    def _rows(self, X: MatrixLike) -> tuple[sp.csr_matrix, npt.NDArray[np.float64], npt.NDArray[np.float32]]:
        """Return `X` as checked CSR, the squared norms of its rows, and its values divided by the norms."""
        csr = check_finite(as_csr(X))
        root = self.input_transform == "sqrt"
        if root and csr.dtype.kind != "u" and csr.nnz and csr.data.min() < 0:
            position = int(np.argmax(csr.data < 0))
            row = int(np.searchsorted(csr.indptr, position, side="right")) - 1
            raise InputError(
                f"Value {csr.data[position]} in row {row}, column {int(csr.indices[position])} is negative "
                "and has no square root; counts start at 0, and other vectors need input_transform=None."
            )
        norms, values = unit_rows(csr.indptr, csr.data, root=root)
        bad = ~np.isfinite(norms) | ((norms < np.finfo(np.float64).tiny) & (np.diff(csr.indptr) > 0))
        if bad.any():
            raise InputError(
                f"The squared norm of row {int(np.argmax(bad))} is too large or too small for double "
                "precision; scale the vectors."
            )
        return csr, norms, values

    def _refuse_strangers(
        self, series: TensorSketchSeries, norms: npt.NDArray[np.float64], scaled: npt.NDArray[np.float64]
    ) -> None:
        """Raise InputError for the first row whose norm the prefactor features do not serve."""
        smallest, largest = self.norm_range_
        outside = np.nonzero((norms > 0) & ((norms < smallest) | (norms > largest)))[0]
        distinct, inverse = np.unique(scaled[outside], return_inverse=True)
        with np.errstate(all="ignore"):  # a norm far outside the range has an error of NaN
            served = series.prefactor.errors(distinct) <= TOLERANCE
        strangers = outside[~served[inverse]]
        if strangers.size:
            raise InputError(
                f"Row {strangers[0]} has the squared norm {norms[strangers[0]]:.6g}, too far outside the "
                f"range from {smallest:.6g} to {largest:.6g} that the map was made for; fit it to the "
                "whole library, or give norm_range."
            )

    def _series(self, smallest: float, largest: float) -> TensorSketchSeries:
        """Return the sketches for a range of squared norms, made once for each object.

        Raises InputError if they cannot serve the range.
        """
        return self._once(lambda: self._made_series(smallest, largest), smallest, largest)

    def _made_series(self, smallest: float, largest: float) -> TensorSketchSeries:
        with np.errstate(all="ignore"):  # a range that is far too wide has an error of NaN
            series = TensorSketchSeries(
                allocate(int(self.n_components), self._n_blocks(), float(self.allocation)),
                n_prefactor=int(self.n_prefactor),
                zeta=smallest / largest,
                seed=self.seed_,
                residual=self.bias_correction == "residual",
            )
            error = series.prefactor.largest_error()
        if not error <= TOLERANCE:
            size = f"{error:.1g}" if error < 1 else "more than 1"  # or NaN
            raise InputError(
                f"The squared norms range from {smallest:.6g} to {largest:.6g}, for which {self.n_prefactor} "
                f"prefactor features err by {size}; raise n_prefactor, or leave out the rows of extreme norm."
            )
        return series

    def _n_blocks(self) -> int:
        return int(self.n_terms) + (self.bias_correction == "residual")

    def _fitted_state(self) -> dict[str, object]:
        smallest, largest = getattr(self, "_learned", (None, None))
        learned = {} if smallest is None else {"smallest": smallest, "largest": largest}
        return super()._fitted_state() | learned

    def _restore(self, fitted: dict[str, Any]) -> None:
        super()._restore(fitted)
        if "smallest" in fitted:
            self._learned = fitted["smallest"], fitted["largest"]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_terms", "n_prefactor"):
            check_count(name, getattr(self, name))
        if not is_number(self.allocation):
            raise InputError(f"allocation must be a finite number, not {self.allocation!r}.")
        if self.n_components < self._n_blocks():
            what = " and the residual" if self.bias_correction == "residual" else ""
            raise InputError(
                f"n_components is {self.n_components}, but {self.n_terms} terms{what} need at least one "
                "feature each; raise n_components or lower n_terms."
            )
        self._check_norm_range()

    def _check_norm_range(self) -> None:
        limits = self.norm_range
        if limits is None:
            return
        if not isinstance(limits, (tuple, list, np.ndarray)) or len(limits) != 2:
            raise InputError(f"norm_range must be None or two squared norms, not {limits!r}.")
        if not (is_number(limits[0]) and is_number(limits[1]) and 0 < limits[0] <= limits[1]):
            raise InputError(
                f"norm_range must hold the smallest and the largest squared norm, both above 0, not "
                f"{limits!r}."
            )


def unit_rows(
    pointer: npt.NDArray[np.integer], data: npt.NDArray[np.number], *, root: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32]]:
    """Return the squared norms of sparse rows, float64, and their values divided by the norms, float32.

    With `root` their square roots replace the values. The squared norm is then the sum of the values, which
    is exact for counts.

    Examples
    --------
    >>> norms, values = unit_rows(np.array([0, 2]), np.array([9, 16]), root=True)
    >>> norms.tolist(), values.round(3).tolist()
    ([25.0], [0.6000000238418579, 0.800000011920929])
    """
    norms = row_sums(pointer, data) if root else squared_norms(pointer, data)
    values = data.astype(np.float64)
    with np.errstate(all="ignore"):
        values = np.sqrt(values) if root else values
        values /= np.repeat(np.sqrt(norms), np.diff(pointer))
        return norms, values.astype(np.float32)


def _normalise(features: npt.NDArray[np.float32]) -> None:
    """Scale every row to length 1, in place; a row of zeros stays as it is."""
    lengths = np.sqrt(np.einsum("ij,ij->i", features, features))
    features /= np.where(lengths > 0.0, lengths, np.float32(1.0))[:, None]
