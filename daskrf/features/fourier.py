"""Random Fourier features of radial kernels: cosines and sines of random projections."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import ndtri

from daskrf import seeds
from daskrf.arrays import MatrixLike, as_csr, check_finite
from daskrf.engine import Rows, engine
from daskrf.errors import InputError
from daskrf.estimators import clone
from daskrf.features.featuremap import FeatureMap, MapFacts
from daskrf.features.sketches.projections import Products, ScaledRows
from daskrf.kernels import Gaussian, MetricGaussian, RadialKernel
from daskrf.kernels.metric import known_columns
from daskrf.quantities import format_bytes
from daskrf.seeds import RandomState

LARGEST_NORM = 1e5
"""Length scales that a row may be long: its phases, in single precision, are then exact to a hundredth."""

LARGEST_TABLE = 4 * 2**30
"""Bytes of directions that `RandomFourierFeatures` may hold."""

LARGEST_KEPT = 2**30
"""Bytes up to which a worker caches the directions of two maps; else only those that were used last."""

LARGEST_WORK = 2**44
"""Multiplications that make directions orthogonal, at most: about an hour of one core."""

DENSE = 0.3
"""Share of non-zeros of dense rows from which it costs less to multiply the zeros, too, than to find them."""

_BLOCK = 64 * 2**20
_PHASES = 2**20

# Threads that begin together would each make the tables that one of them keeps.
_MAKING = Lock()

Array = npt.NDArray[np.floating]


class Projection(Protocol):
    """What turns rows into phases: built once per worker for a map and a number of columns."""

    n_phases: int
    """Columns of the phases."""

    def __call__(self, rows: Rows | npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None:
        """Write the phases of some rows, one frequency after the other, to `out`, float32 (n, n_phases).

        Sparse rows have int64 pointers, int32 columns (int64 of more than 2**31 - 1) and float32 values.
        """


class FourierFeatures(FeatureMap):
    """Base of maps of cosines and sines: phi(x) = (cos w_1.x, sin w_1.x, ..., sin w_p.x) / sqrt(p).

    p = M // 2 pairs; with an odd M the last feature is 0. So |phi(x)|^2 = 1 exactly, up to rounding: for any
    M and any row, the prior variance of a Gaussian process on the features is its signal variance.

    Phases, in turns, are rounded to single precision. Features of a row agree to 1e-6 of the row's length in
    length scales, whichever rows share a call and however rows are stored. Rows longer than 100,000 length
    scales are refused, because their phases would have no digits left.
    """

    kernel: RadialKernel

    @property
    def kernel_(self) -> RadialKernel:
        return self.kernel

    @property
    def seconds_per_component(self) -> float:
        return 3e-9

    @abstractmethod
    def _projection(self, n_columns: int) -> Projection:
        """Return the projection of rows of `n_columns` columns, cached in this worker."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.kernel, RadialKernel):
            raise InputError(
                f"kernel must be a radial kernel such as Gaussian() or Matern(), not {self.kernel!r}."
            )
        if self.n_components < 2:
            raise InputError("n_components must be at least 2: a cosine and a sine.")

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        rows = _checked(X)
        n, n_columns = rows.shape
        self.check_columns(n_columns)
        self._check_lengths(rows)
        with _MAKING:
            projection = self._projection(n_columns)
        out = np.empty((n, self.n_components), np.float32)
        scale = 1.0 / math.sqrt(self.n_components // 2)
        size = max(1, _PHASES // projection.n_phases)
        phases = np.empty((min(size, n), projection.n_phases), np.float32)
        for start, chunk in _parts(rows, size, scale_of(self.kernel)[0]):
            count = min(size, n - start)
            projection(chunk, phases[:count])
            engine().cosines(phases[:count], scale, out[start : start + count])
        return out

    def check_columns(self, n_columns: int) -> None:
        """Raise InputError if there are no columns."""
        if n_columns < 1:
            raise InputError("The rows have no columns; a distance kernel needs at least one.")

    def _check_lengths(self, rows: Any) -> None:
        """Raise InputError for the first row that is too long for its phases to have digits."""
        values = rows.data if sp.issparse(rows) else rows
        most = float(self.kernel.length_scale) * LARGEST_NORM
        largest = max(float(values.max(initial=0)), -float(values.min(initial=0)))
        metric = self.kernel.learned if isinstance(self.kernel, MetricGaussian) else None
        stretch = metric.stretch if metric else 1.0
        if largest * math.sqrt(rows.shape[1]) * stretch <= most:
            return
        if metric:
            rows = metric.moved(as_csr(rows).astype(np.float64))
            values = rows.data
        with np.errstate(over="ignore"):
            if sp.issparse(rows):
                squares = np.square(values.astype(np.float64) / most)
                number = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
                norms = np.bincount(number, squares, rows.shape[0])
            else:
                norms = np.array([np.square(row.astype(np.float64) / most).sum() for row in rows])
        if norms.max() > 1.0:
            row = int(np.argmax(norms > 1.0))
            raise InputError(
                f"Row {row} is {LARGEST_NORM * math.sqrt(norms[row]):.3g} length scales long, but phases "
                f"are accurate only up to {LARGEST_NORM:,.0f}; scale the columns, or use a longer length "
                "scale."
            )


@dataclass(eq=False, repr=False)
class RandomFourierFeatures(FourierFeatures):
    """Random Fourier features of a radial kernel, with independent or orthogonal directions.

    phi(x) . phi(y) = 1/p sum_j cos(w_j . (x - y)) over p = M // 2 random frequencies w_j: an unbiased
    estimate of k(x, y), with variance (1 + k(2 x, 2 y) - 2 k(x, y)^2) / (2 p) for independent frequencies.
    For a Gaussian kernel and close rows, orthogonal directions (of the same lengths) have a smaller variance.

    The directions take 4 d p bytes, and a row takes the time of a product with them, in proportion to its
    nonzeros. `FastfoodFeatures` avoids both; which one is faster depends on d and the nonzeros. If the
    directions would take more than 4 GiB, as with unfolded fingerprints, they are not stored: the numbers of
    a column follow from its identifier, and each direction is taken to have its expected length, with a
    relative error of about 1 / sqrt(2 d).

    Parameters
    ----------
    kernel : RadialKernel, default Gaussian()
        A radial kernel. In Python ``Gaussian(l)``, ``Matern(l, nu=...)``, ``UnitBalls(l, degree=...)``,
        ``RadialSpectrum(radii, l)``, or ``MetricGaussian(l, metric)``.
    n_components : int, default 4096
        Number M of features, at least 2. The first features of a larger map are those of a smaller one with
        the same seed (up to their scale).
    orthogonal : bool, default False
        Make the directions orthogonal, d at a time. This takes d p min(d, p) multiplications in double
        precision in each worker, and is refused if it would take hours. For thousands of columns,
        `FastfoodFeatures` has orthogonal directions without this cost.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Notes
    -----
    Source: Rahimi & Recht 2007 and 2009 ("random kitchen sinks"); Yu, Suresh, Choromanski, Holtmann-Rice &
    Kumar 2016 (orthogonal). There is a cosine and a sine for each frequency, instead of a cosine with a
    random shift: |phi(x)| is then 1 for every row and seed, and the variance is smaller.

    Examples
    --------
    >>> X = np.array([[2.0, 0.0, 1.0], [2.0, 0.0, 1.0], [0.0, 9.0, 0.0]])
    >>> Phi = RandomFourierFeatures(Gaussian(length_scale=2.0), 2000).fit_transform(X)
    >>> np.abs(np.round(Phi @ Phi.T, 1)).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    facts = MapFacts(
        name="fourier",
        kernel="Gaussian, Matern, any radial",
        rows="reals",
        features="floats",
        cost="z M",
        holds="2 d M, or 0",
        learns="nothing",
        reference="Rahimi & Recht 2007; orthogonal: Yu et al. 2016",
        use=(
            "same uses as fastfood, for rows with few columns or few nonzeros and for unfolded "
            "fingerprints; orthogonal directions reduce the error"
        ),
        example="--kernel matern --nu 2.5 --length-scale 25",
    )

    kernel: RadialKernel = Gaussian()  # noqa: RUF009, kernels are immutable
    n_components: int = 4096
    _: KW_ONLY
    orthogonal: bool = False
    random_state: RandomState = 0

    def words(self) -> str:
        how = ", orthogonal directions" if self.orthogonal else ""
        return (
            f"random Fourier features of the {self.kernel.words()}{how}, {self.size_words}: unbiased, "
            "prior variance 1"
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.orthogonal and isinstance(self.kernel, MetricGaussian):
            raise InputError(
                "Directions in a learned metric are not orthogonal; leave out orthogonal (--orthogonal), or "
                "use the Gaussian kernel."
            )

    def check_columns(self, n_columns: int) -> None:
        super().check_columns(n_columns)
        n_pairs = self.n_components // 2
        size, work = 4 * n_columns * n_pairs, _orthogonal_work(n_columns, n_pairs)
        if self.orthogonal and (size > LARGEST_TABLE or work > LARGEST_WORK):
            hours, size = work / LARGEST_WORK, self.table_bytes(n_columns)
            raise InputError(
                f"Orthogonal directions for {self.n_components:,} features of {n_columns:,} columns would "
                f"take each worker about {hours:,.0f} hours and {format_bytes(size)} to make; use "
                "independent directions, or FastfoodFeatures (--map fastfood), which makes orthogonal ones "
                "by fast transforms, or fold the fingerprints (--size 1024, say)."
            )

    def table_bytes(self, n_columns: int) -> int:
        """Return the bytes of the directions, and of those made at a time; see `FeatureMap`."""
        n_pairs, of_metric = self.n_components // 2, 0
        if isinstance(self.kernel, MetricGaussian):
            # Normal numbers while they are made; or they, and a table in double and in single precision.
            c, rank = self.kernel.learned.directions.shape
            of_metric = max(32 * rank, 8 * rank + 12 * c) * n_pairs + 8 * c * rank
        if self._is_hashed(n_columns):
            return of_metric
        step = _step(n_columns, orthogonal=bool(self.orthogonal))
        # Arrays of doubles: three while numbers become normal, two of earlier ones, and two for QR.
        arrays = 3 + 2 * (n_pairs > step) + 2 * bool(self.orthogonal)
        making = arrays * 8 * n_columns * min(n_pairs, step)
        return 4 * n_columns * n_pairs + max(making, of_metric)

    def _is_hashed(self, n_columns: int) -> bool:
        return 4 * n_columns * (self.n_components // 2) > LARGEST_TABLE and not self.orthogonal

    def _projection(self, n_columns: int) -> Projection:
        n_pairs = self.n_components // 2
        orthogonal, seed = bool(self.orthogonal), self.seed_
        if isinstance(kernel := self.kernel, MetricGaussian):
            return self._once(lambda: self._in_metric(kernel, n_columns), n_columns)
        if self._is_hashed(n_columns):
            return self._once(lambda: _Hashed(self.kernel, n_columns, n_pairs, seed), n_columns)
        return _kept_directions(self.kernel, n_columns, n_pairs, orthogonal, seed)

    def _in_metric(self, kernel: MetricGaussian, n_columns: int) -> Projection:
        """Return the projection for frequencies N(0, (rest I + B B^T) / l^2): sqrt(rest) w + B v."""
        metric, length = kernel.learned, scale_of(kernel)[1]
        usual = Gaussian(length / math.sqrt(metric.rest))
        every = clone(self).set_params(kernel=usual, random_state=self.seed_)._projection(n_columns)
        rank = metric.directions.shape[1]
        if not rank:
            return every
        n_pairs = self.n_components // 2
        normals = ndtri(uniform(self.seed_, "fourier/metric", rank * n_pairs)).reshape(-1, rank)
        normals /= 2.0 * math.pi * length
        table = metric.directions.astype(np.float64) @ normals.T
        return _InMetric(every, metric.columns, np.ascontiguousarray(table, np.float32), n_columns)


class _Directions:
    """Projection on directions held in memory, `columns` float32 of shape (d, n_phases)."""

    def __init__(self, columns: npt.NDArray[np.float32]) -> None:
        self.columns = columns
        self.n_phases = columns.shape[1]

    def __call__(self, rows: Rows | npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None:
        if isinstance(rows, Rows):
            engine().project(rows, self.columns, out)
        elif np.count_nonzero(rows) < DENSE * rows.size:
            csr = sp.csr_matrix(rows)
            parts = Rows(csr.indptr.astype(np.int64), csr.indices, csr.data)
            engine().project(parts, self.columns, out)
        else:
            np.matmul(rows, self.columns, out=out)


class _Hashed:
    """Projection on directions that are never stored: their numbers follow from columns' identifiers."""

    def __init__(self, kernel: RadialKernel, d: int, n_pairs: int, seed: int) -> None:
        scales = _radii(kernel, d, n_pairs, seed) / math.sqrt(d)
        ones = np.ones(n_pairs, np.int64)
        self._products = Products(ones, scales, seed, "fourier/hashed", normal=True)
        self.n_phases = n_pairs

    def __call__(self, rows: Rows | npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None:
        if not isinstance(rows, Rows):
            csr = sp.csr_matrix(rows)
            rows = Rows(csr.indptr, csr.indices, csr.data)
        pointer, values = (
            rows.pointer.astype(np.int64, copy=False),
            rows.values.astype(np.float32, copy=False),
        )
        ones = np.ones(len(out), np.float32)
        self._products.write(ScaledRows(pointer, rows.columns, values, ones, ones), out)


class _InMetric:
    """The sum of a projection of all columns, and of another one of those that a metric knows."""

    def __init__(
        self, every: Projection, columns: npt.NDArray[np.int64], table: npt.NDArray[np.float32], d: int
    ) -> None:
        self._every, self._columns, self._table, self._d = every, columns, _Directions(table), d
        self.n_phases = table.shape[1]

    def __call__(self, rows: Rows | npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None:
        self._every(rows, out)
        if isinstance(rows, Rows):
            span = slice(int(rows.pointer[0]), int(rows.pointer[-1]))
            entries = rows.values[span], rows.columns[span], rows.pointer - span.start
            restricted = known_columns(sp.csr_matrix(entries, shape=(len(out), self._d)), self._columns)
        else:
            restricted = known_columns(sp.csr_matrix(rows), self._columns)
        along = np.empty_like(out)
        parts = (
            restricted.indptr.astype(np.int64),
            restricted.indices.astype(np.int32),
            restricted.data.astype(np.float32),
        )
        self._table(Rows(*parts), along)
        out += along


def _radii(kernel: RadialKernel, d: int, n_pairs: int, seed: int) -> npt.NDArray[np.float64]:
    """Return the lengths of the random frequencies, in turns."""
    radii = kernel.radii(lambda name: uniform(seed, f"fourier/{name}", n_pairs), d)
    radii /= 2.0 * math.pi * scale_of(kernel)[1]
    return radii


def _step(d: int, *, orthogonal: bool) -> int:
    """Return how many directions are made at a time: a set of orthogonal ones, or what fits in a block."""
    return d if orthogonal else max(1, _BLOCK // (8 * d))


def _orthogonal_work(d: int, n_pairs: int) -> int:
    """Return how many multiply-adds it takes to make directions orthogonal, d at a time."""
    whole, rest = divmod(n_pairs, d)
    return d * (whole * d * d + rest * rest)


_CACHE: OrderedDict[tuple[object, ...], _Directions] = OrderedDict()
_KEEPING = Lock()  # a worker's threads look up, make and drop directions one after another


def _kept_directions(kernel: RadialKernel, d: int, n_pairs: int, orthogonal: bool, seed: int) -> _Directions:
    """Return `_directions` for these arguments, made only once while they are cached."""
    key = kernel, d, n_pairs, orthogonal, seed
    with _KEEPING:
        if key not in _CACHE:
            size = 4 * d * n_pairs
            for old, directions in list(_CACHE.items()):  # drop them before making others
                if len(_CACHE) > 1 or directions.columns.nbytes + size > LARGEST_KEPT:
                    del _CACHE[old]
            _CACHE[key] = _directions(*key)
        _CACHE.move_to_end(key)
        return _CACHE[key]


def _directions(kernel: RadialKernel, d: int, n_pairs: int, orthogonal: bool, seed: int) -> _Directions:
    """Return the random frequencies, in turns."""
    radii = _radii(kernel, d, n_pairs, seed)
    table = np.empty((d, n_pairs), np.float32)
    step = _step(d, orthogonal=orthogonal)
    for first in range(0, n_pairs, step):
        last = min(first + step, n_pairs)
        normals = ndtri(uniform(seed, "fourier/directions", (last - first) * d, first * d))
        columns = np.ascontiguousarray(normals.reshape(-1, d).T)
        if orthogonal:
            columns, triangle = np.linalg.qr(columns)
            columns *= np.where(np.diag(triangle) < 0.0, -1.0, 1.0)
        else:
            # Row by row: a length must not depend on how many directions are made together.
            squares = np.zeros(last - first)
            for row in columns:
                squares += row * row
            columns /= np.sqrt(squares)
        columns *= radii[first:last]
        table[:, first:last] = columns
    table.setflags(write=False)
    return _Directions(table)


def uniform(seed: int, name: str, count: int, start: int = 0) -> npt.NDArray[np.float64]:
    """Return numbers `start` to `start + count - 1` of a stream, uniform between 0 and 1, both excluded.

    Examples
    --------
    >>> uniform(0, "example", 2, start=1).tolist() == uniform(0, "example", 3).tolist()[1:]
    True
    """
    words = seeds.words(seed, name, count, start)
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def scale_of(kernel: RadialKernel) -> tuple[int, float]:
    """Return a power of two to divide rows by, and the length scale that then remains.

    Rows become single precision, which numbers near the ends of double precision would not fit.

    Examples
    --------
    >>> scale_of(Gaussian(3.0)), scale_of(Gaussian(1.5 * 2.0**300))
    ((0, 3.0), (301, 0.75))
    """
    rest, exponent = math.frexp(kernel.length_scale)
    return (0, kernel.length_scale) if abs(exponent) <= 60 else (exponent, rest)


def _checked(X: MatrixLike) -> Any:
    """Return `X` as canonical CSR or as a dense array of finite real numbers."""
    if sp.issparse(X) or hasattr(X, "tocsr") or hasattr(X, "to_scipy_sparse"):
        return check_finite(as_csr(X))
    array = np.asarray(X)
    kind = array.dtype
    if array.ndim != 2 or kind.kind not in "buif" or kind == np.float16 or not _is_finite(array):
        # Whatever is wrong, the message is that for sparse rows.
        return check_finite(as_csr(array))
    return array


def _is_finite(array: npt.NDArray[np.floating]) -> bool:
    """Tell whether all numbers are finite, in most cases without an array of flags."""
    if array.dtype.kind != "f" or not array.size:
        return True
    return bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def _parts(rows: Any, size: int, shift: int) -> Iterator[tuple[int, Any]]:
    """Yield the first row and the rows of each part, divided by 2**shift, in the form projections take."""
    if not sp.issparse(rows):
        for start in range(0, len(rows), size):
            chunk = rows[start : start + size]
            yield start, np.ascontiguousarray(_shifted(chunk, shift), dtype=np.float32)
        return
    # Compiled code reads by address: entries must be contiguous, which SciPy does not promise.
    pointer = np.ascontiguousarray(rows.indptr, np.int64)
    small: type[np.signedinteger] = np.int32 if rows.shape[1] < 2**31 else np.int64
    columns = np.ascontiguousarray(rows.indices, small)
    values = np.ascontiguousarray(_shifted(rows.data, shift), np.float32)
    for start in range(0, rows.shape[0], size):
        yield start, Rows(pointer[start : start + size + 1], columns, values)


def _shifted(values: Array, shift: int) -> Array:
    return np.ldexp(values.astype(np.float64), -shift) if shift else values
