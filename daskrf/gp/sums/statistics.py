"""Sufficient statistics of a Gaussian process in feature space: sums over rows, added in any order."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from daskrf.arrays import NamedArrays
from daskrf.engine import engine
from daskrf.errors import InputError
from daskrf.gp.sums.fixedpoint import (
    check_targets,
    choose_exponent,
    exact_cross_products,
    integers_from_bytes,
    integers_to_bytes,
    to_fixed,
)
from daskrf.gp.sums.limitrows import LimitRows, joined, without

Precision = Literal["single", "double"]
Array = npt.NDArray[np.float64]

_COUNTS = ("n", "kernel_trace")
_SUMS = ("gram", "phi_sum", "phi_y", "y_sum", "yy")
_ROWS = 16_384  # rows per block: bounds the memory that `update` needs besides the Gram matrix
_DOUBLE_ROWS = 2_048  # the same for double precision
_SUM_LIMIT = 1 << 62
_RESOLVED_UNITS = (
    1e3  # least standard deviation of y in fixed-point units that gives the noise to 1e-3 or better
)
_RESOLVED_EPSILONS = 1e4  # for the same: least variance of y in machine epsilons of its mean square
_SINGLE_ROWS = 5  # rows per feature; above, products in single precision are enough for most labels
# Standard deviation of the rounding error of an entry of the Gram matrix of a block of rows, relative to the
# root of the product of its two diagonal entries: measured 0.6 to 4.5 units of half a step of float32.
_ENTRY_ERROR = 4.5 * 2.0**-24


def enough_precision(n_rows: int, n_components: int) -> Precision:
    """Return the precision needed to sum products of float32 features over `n_rows` rows.

    With n rows and M features, Phi^T Phi has eigenvalues at or near 0 if n <= M or n is not much larger.
    Products in single precision shift them by about 1e-7 of the largest eigenvalue, and the evidence would
    mistake that rounding for signal: at n = 80, M = 2,048 a log marginal likelihood of -3e18 was once
    reported as +1,437. Up to 5 M rows, products are computed in double precision, so hyperparameters,
    evidence and predictions have that precision. Above, single precision is enough unless the noise of the
    labels is tiny; `daskrf.gp.solve.roundoff` detects that case, and fits repeat the sums.

    Examples
    --------
    >>> enough_precision(80, 2048), enough_precision(10**6, 4096)
    ('double', 'single')
    """
    return "single" if n_rows > _SINGLE_ROWS * n_components else "double"


@dataclass
class Moments:
    """Statistics as float64, with scaled features and targets relative to `shift` (close to their means).

    Attributes
    ----------
    n : int
        Number of rows.
    gram : float64 array, shape (M, M), or (C, D, D)
        Phi^T Phi; only the upper triangle is filled. (C, D, D): its diagonal blocks, if the others are 0.
    trace : float
        Trace of `gram`, which solvers overwrite.
    phi_sum : float64 array, shape (M,)
        Column sums of Phi.
    phi_y : float64 array, shape (M, n_targets)
        Phi^T (y - shift).
    y_sum, yy : float64 arrays, shape (n_targets,)
        Sums of (y - shift) and of its square.
    yy_error : float64 array, shape (n_targets,)
        If `yy` is below this, it is indistinguishable from rounding of y (fixed point) or its sums (float64).
    shift : float64 array, shape (n_targets,)
    gram_error : float
        Standard deviation of the rounding error of an entry of `gram`, relative to the root of the product of
        its two diagonal entries; 0 for sums of integers.
    deficit : float
        Sum over the rows of k(x, x) - |phi(x)|^2, the variance of f that features leave out, if the bound on
        the evidence is wanted instead of the evidence; otherwise 0.
    """

    n: int
    gram: npt.NDArray[np.float64]
    trace: float
    phi_sum: npt.NDArray[np.float64]
    phi_y: npt.NDArray[np.float64]
    y_sum: npt.NDArray[np.float64]
    yy: npt.NDArray[np.float64]
    yy_error: npt.NDArray[np.float64]
    shift: npt.NDArray[np.float64]
    gram_error: float = 0.0
    deficit: float = 0.0


@dataclass(kw_only=True)
class SufficientStatistics(ABC):
    """The sums over rows that a feature-space Gaussian process is fitted to; it needs nothing else of rows.

    They are a commutative monoid over rows: `zero`, `update`, `combine`. `BitStatistics` are for one-bit
    features, `FloatStatistics` for dense ones; `zero`, `from_chunk` and `from_arrays` return the right class.

    Attributes
    ----------
    n : int
        Number of rows.
    gram : int64 or float64 array, shape (M, M)
        Phi^T Phi; only the upper triangle is filled, the rest is zero.
    phi_sum : int64 or float64 array, shape (M,)
    phi_y : int64 or float64 array, shape (M, n_targets)
    y_sum, yy : arrays of object (exact Python integers) or float64
        Shapes (n_targets,) and (n_targets, n_targets).
    y_exponents : int64 array, shape (n_targets,), or None for floats
        Targets are stored as round(y * 2**exponent).
    map_key : str or None
        Name of the feature map (a hash of its state); statistics of different maps cannot be combined.
    kernel_trace : float
        Sum of k(x, x) over the rows, for features that leave part of it out (`Moments.deficit`).
    precision : {"single", "double"}
        Precision of products of float16 and float32 features. "single" takes half the time; use it for many
        more rows than features: see `enough_precision`. Combined statistics have the lower precision of both.
    limits : LimitRows or None
        Rows whose labels are limits, which no sum includes; only of one target.

    Examples
    --------
    >>> phi = np.array([[1.0, -1.0], [1.0, 1.0]])
    >>> left = SufficientStatistics.zero(2, 1, one_bit=False).update(phi[:1], [2.0])
    >>> right = SufficientStatistics.zero(2, 1, one_bit=False).update(phi[1:], [3.0])
    >>> (left.combine(right).n, left.combine(right).phi_y.ravel().tolist())
    (2, [5.0, 1.0])
    """

    n: int = 0
    gram: npt.NDArray[np.floating]
    phi_sum: npt.NDArray[np.floating]
    phi_y: npt.NDArray[np.floating]
    y_sum: npt.NDArray[np.float64] | npt.NDArray[np.object_]
    yy: npt.NDArray[np.float64] | npt.NDArray[np.object_]
    y_exponents: npt.NDArray[np.int64] | None = None
    map_key: str | None = None
    kernel_trace: float = 0.0
    precision: Precision = "double"
    limits: LimitRows | None = None

    one_bit: ClassVar[bool]

    @staticmethod
    def zero(
        n_components: int,
        n_targets: int = 1,
        one_bit: bool = True,
        y_exponents: npt.ArrayLike | None = None,
        *,
        map_key: str | None = None,
        precision: Precision = "double",
        gram: bool = True,
    ) -> SufficientStatistics:
        """Return the statistics of no rows.

        Parameters
        ----------
        n_components, n_targets : int
        one_bit : bool
        y_exponents : int array, shape (n_targets,)
            Required for one-bit maps with targets: `choose_exponent` of all labels.
        map_key : str, optional
        precision : {"single", "double"}
            For floats; sums of bits are exact.
        gram : bool
            False omits the Gram matrix, which then has shape (0, 0): see `GramStrip`.

        Raises
        ------
        InputError
            If the exponents are missing or have the wrong length, or the precision is invalid.
        """
        if precision not in ("single", "double"):
            raise InputError(f"precision must be 'single' or 'double', not {precision!r}.")
        kind, wide = (np.int64, object) if one_bit else (np.float64, np.float64)
        size = n_components if gram else 0
        sums = functools.partial(
            BitStatistics if one_bit else FloatStatistics,
            gram=np.zeros((size, size), dtype=kind),
            phi_sum=np.zeros(n_components, dtype=kind),
            phi_y=np.zeros((n_components, n_targets), dtype=kind),
            y_sum=np.zeros(n_targets, dtype=wide),
            yy=np.zeros((n_targets, n_targets), dtype=wide),
            map_key=map_key,
        )
        if not one_bit:
            return sums(precision=precision)
        exponents = np.array([] if y_exponents is None else y_exponents, dtype=np.int64).reshape(-1)
        if len(exponents) != n_targets:
            raise InputError(
                f"one-bit statistics of {n_targets} targets need as many y_exponents, not "
                f"{len(exponents)}: pass choose_exponent(y) of all labels."
            )
        return sums(y_exponents=exponents)

    @staticmethod
    def from_chunk(
        phi: npt.NDArray[np.number],
        y: npt.ArrayLike,
        *,
        n_components: int | None = None,
        y_exponents: npt.ArrayLike | None = None,
        map_key: str | None = None,
        precision: Precision = "double",
        diagonal: npt.ArrayLike | None = None,
    ) -> SufficientStatistics:
        """Return the statistics of one chunk: packed bits (uint8) or dense features.

        Parameters
        ----------
        phi : uint8 array, shape (n, ceil(M / 8)), or float array, shape (n, M)
        y : float array, shape (n,) or (n, n_targets)
        n_components : int, optional
            M; for packed bits the default is 8 times the number of bytes.
        y_exponents : int array, optional
            Fixed-point exponents; default `choose_exponent(y)`. Chunks to be combined must share them.
        map_key : str, optional
        precision : {"single", "double"}
        diagonal : float array, shape (n,), optional
            As for `update`.
        """
        one_bit = phi.dtype == np.uint8
        columns = phi.shape[1] * (8 if one_bit else 1)
        exponents = choose_exponent(y) if y_exponents is None else np.asarray(y_exponents)
        return SufficientStatistics.zero(
            columns if n_components is None else n_components,
            check_targets(y).shape[1],
            one_bit=one_bit,
            y_exponents=exponents if one_bit else None,
            map_key=map_key,
            precision=precision,
        ).update(phi, y, diagonal)

    @property
    def n_components(self) -> int:
        """Number of features M."""
        return len(self.phi_sum)

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return self.phi_y.shape[1]

    @property
    def n_rows(self) -> int:
        """Number of rows in the sums, and of limits."""
        return self.n + (0 if self.limits is None else len(self.limits))

    @property
    def scale(self) -> float:
        """Factor from `gram` to the Gram matrix of the scaled features: 1/M for one-bit maps, else 1."""
        return 1.0 / self.n_components if self.one_bit else 1.0

    def update(
        self,
        phi: npt.NDArray[np.number],
        y: npt.ArrayLike | None = None,
        diagonal: npt.ArrayLike | None = None,
    ) -> SufficientStatistics:
        """Add rows in place and return self; needs extra memory for one block of rows.

        Parameters
        ----------
        phi : uint8 array, shape (n, ceil(M / 8)), or float array, shape (n, M)
            Packed bits where `one_bit`, otherwise dense features.
        y : float array, shape (n,) or (n, n_targets), optional when there are no targets
        diagonal : float array, shape (n,), optional
            k(x, x) of each row; default 1.

        Raises
        ------
        InputError
            If shapes or dtypes do not match, y is not finite, or a sum would overflow; nothing is then added.
        """
        targets = np.zeros((len(phi), 0)) if y is None else check_targets(y)
        self._check_rows(phi, targets)
        trace = float(len(phi)) if diagonal is None else _total(diagonal, len(phi))
        self._own_sums()
        self._add(phi, targets)
        self.n += len(phi)
        self.kernel_trace += trace
        return self

    def add_limits(self, limits: LimitRows) -> SufficientStatistics:
        """Add rows whose labels are limits, in place, and return self.

        Raises
        ------
        InputError
            If there are several targets, or the features have another width or kind.
        """
        if self.n_targets != 1:
            raise InputError(f"limits are of one target, and these statistics have {self.n_targets}.")
        self._check_rows(limits.phi, limits.bound[:, None])
        self.limits = joined(self.limits, limits if len(limits) else None)
        return self

    def combine(self, other: object) -> SufficientStatistics:
        """Return the statistics of both sets of rows; commutative, and exact for one-bit maps.

        Raises
        ------
        InputError
            If `other` is no statistics, or of other features, targets or maps.
        """
        return self.copy().__iadd__(other)

    def subtract(self, other: SufficientStatistics) -> SufficientStatistics:
        """Return the statistics without the rows of `other`, which must be among these rows."""
        self._partner(other)
        if other.n > self.n:
            raise InputError(f"cannot remove {other.n} rows from statistics of {self.n} rows.")
        sums = {name: getattr(self, name) - getattr(other, name) for name in (*_COUNTS, *_SUMS)}
        limits = without(self.limits, other.limits)
        return replace(self, precision=_common_precision(self, other), limits=limits, **sums)

    def copy(self) -> SufficientStatistics:
        """Return an independent copy."""
        return replace(self, **{name: getattr(self, name).copy() for name in _SUMS})

    def __add__(self, other: object) -> SufficientStatistics:
        return self.combine(other)

    def __iadd__(self, other: object) -> SufficientStatistics:
        other = self._partner(other)
        self._check_sums(self.n + other.n, self.yy + other.yy)
        self.precision = _common_precision(self, other)
        self.limits = joined(self.limits, other.limits)
        for name in (*_COUNTS, *_SUMS):
            total = getattr(self, name)
            total += getattr(other, name)  # in place, where it is an array
            setattr(self, name, total)
        self.map_key = self.map_key or other.map_key
        return self

    def moments(self, *, gram: bool = True) -> Moments:
        """Return float64 sums of scaled features and of targets shifted by roughly their means.

        For bits the shift is an integer and the subtraction is exact, so a large mean of y only takes up a
        part of the fixed-point range. For floats it costs digits: see `yy_error`. With ``gram=False`` the
        Gram matrix is left empty (shape (0, 0)).
        """
        root = math.sqrt(self.scale)
        shift, unit, yy_error, gram_error = self._resolution()
        y_sum = self.y_sum - self.n * shift
        yy = np.diag(self.yy) - 2 * shift * self.y_sum + self.n * shift * shift
        phi_y = self.phi_y - self.phi_sum[:, None] * shift.astype(self.phi_y.dtype)
        return Moments(
            n=self.n,
            gram=np.multiply(self.gram, self.scale, dtype=np.float64) if gram else np.zeros((0, 0)),
            trace=float(np.trace(self.gram)) * self.scale,
            phi_sum=np.multiply(self.phi_sum, root),
            phi_y=phi_y.astype(np.float64) * (root * unit),
            y_sum=y_sum.astype(np.float64) * unit,
            yy=np.maximum(yy.astype(np.float64), 0.0) * unit**2,
            yy_error=yy_error,
            shift=shift.astype(np.float64) * unit,
            gram_error=gram_error,
        )

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return everything as plain arrays (int64, float64, uint8, bool) for storing; no copies."""
        wide = integers_to_bytes if self.one_bit else np.asarray
        arrays = {
            "n": np.array(self.n, dtype=np.int64),
            "one_bit": np.array(self.one_bit),
            "gram": self.gram,
            "phi_sum": self.phi_sum,
            "phi_y": self.phi_y,
            "y_sum": wide(self.y_sum),
            "yy": wide(self.yy),
        }
        if self.y_exponents is not None:
            arrays["y_exponents"] = self.y_exponents
        else:
            arrays["kernel_trace"] = np.array(self.kernel_trace)
            arrays["double"] = np.array(self.precision == "double")
        if self.map_key is not None:
            arrays["map_key"] = np.frombuffer(self.map_key.encode(), dtype=np.uint8)
        return arrays if self.limits is None else arrays | self.limits.arrays()

    @staticmethod
    def from_arrays(arrays: Mapping[str, npt.NDArray[np.generic]]) -> SufficientStatistics:
        """Undo `arrays` exactly.

        Raises
        ------
        InputError
            If an array is missing.
        """
        stored: NamedArrays = arrays
        try:
            one_bit = bool(stored["one_bit"])
            wide = integers_from_bytes if one_bit else np.asarray
            key = stored.get("map_key")
            return (BitStatistics if one_bit else FloatStatistics)(
                n=int(stored["n"]),
                gram=stored["gram"],
                phi_sum=stored["phi_sum"],
                phi_y=stored["phi_y"],
                y_sum=wide(stored["y_sum"]),
                yy=wide(stored["yy"]),
                y_exponents=np.asarray(stored["y_exponents"]) if one_bit else None,
                map_key=None if key is None else np.asarray(key).tobytes().decode(),
                # One-bit features, and statistics stored before this entry was added, have k(x, x) = 1.
                kernel_trace=float(stored.get("kernel_trace", stored["n"])),
                precision="double" if stored.get("double", False) else "single",
                limits=LimitRows.from_arrays(stored),
            )
        except KeyError as error:
            raise InputError(f"stored statistics lack the array {error}: fit again.") from None

    @abstractmethod
    def _add(self, phi: npt.NDArray[np.number], targets: npt.NDArray[np.float64]) -> None:
        """Add rows that have already been checked."""

    @abstractmethod
    def _resolution(self) -> tuple[npt.NDArray[np.floating], Array, Array, float]:
        """Return approximate means of y, its unit, and the `yy_error` and `gram_error` of `Moments`."""

    def _own_sums(self) -> None:
        """Copy sums that cannot be added to in place: those stored read-only or in another order."""
        for name in ("gram", "phi_sum", "phi_y"):
            array = getattr(self, name)
            if not (array.flags.writeable and array.flags.c_contiguous):
                setattr(self, name, array.copy(order="C"))

    def _check_rows(self, phi: npt.NDArray[np.number], targets: Array) -> None:
        width = -(-self.n_components // 8) if self.one_bit else self.n_components
        wanted = "packed bits (uint8)" if self.one_bit else "dense features (floating point)"
        right_kind = phi.dtype == np.uint8 if self.one_bit else phi.dtype.kind == "f"
        if phi.ndim != 2 or phi.shape[1] != width or not right_kind:
            raise InputError(
                f"these statistics take {wanted} with {width} columns (M = {self.n_components}), "
                f"not {phi.dtype} of shape {phi.shape}."
            )
        if targets.shape != (len(phi), self.n_targets):
            raise InputError(
                f"y has shape {targets.shape}, but {len(phi)} rows and {self.n_targets} targets are expected."
            )

    def _partner(self, other: object) -> SufficientStatistics:
        """Return other statistics, which must be of the same features and targets."""
        if not isinstance(other, SufficientStatistics):
            raise InputError("sums about centroids cannot be combined with others: make both with one map.")
        mine = (self.n_components, self.n_targets, self.one_bit)
        theirs = (other.n_components, other.n_targets, other.one_bit)
        if mine != theirs:
            raise InputError(
                f"statistics of (M, targets, one-bit) = {mine} and {theirs} cannot be combined: use one map."
            )
        exponents = [[] if s.y_exponents is None else s.y_exponents.tolist() for s in (self, other)]
        if exponents[0] != exponents[1]:
            raise InputError(
                f"statistics with y exponents {exponents[0]} and {exponents[1]} cannot be combined: "
                "choose them once, from all labels."
            )
        if self.map_key and other.map_key and self.map_key != other.map_key:
            raise InputError(
                f"statistics of the maps {self.map_key} and {other.map_key} cannot be combined: use one map."
            )
        return other

    def _check_sums(self, n: int, yy: npt.NDArray[np.floating]) -> None:  # noqa: B027  # floats need none
        """Raise InputError if sums over n rows would overflow."""


class BitStatistics(SufficientStatistics):
    """Integer sums over packed one-bit features, identical to the last bit in any order and grouping.

    Features are +1 and -1, not yet scaled by 1/sqrt(M); targets are fixed-point numbers.

    Examples
    --------
    >>> rows = np.packbits([[0, 1, 1], [0, 0, 1]], axis=1, bitorder="little")
    >>> SufficientStatistics.from_chunk(rows, [2.0, 3.0], n_components=3).gram.tolist()
    [[2, 0, -2], [0, 2, 0], [0, 0, 2]]
    """

    one_bit = True

    def _add(self, phi: npt.NDArray[np.number], targets: npt.NDArray[np.float64]) -> None:
        assert self.y_exponents is not None
        fixed = to_fixed(targets, self.y_exponents)
        yy = self.yy + exact_cross_products(fixed)
        self._check_sums(self.n + len(phi), yy)
        for rows in _blocks(len(phi)):
            block = np.ascontiguousarray(phi[rows])
            if len(self.gram):
                engine().bit_gram(block, self.n_components, self.gram)
            weights = np.column_stack([np.ones(len(block), np.int64), fixed[rows]])
            sums = engine().bit_sums(block, weights, self.n_components)
            self.phi_sum += sums[:, 0]
            self.phi_y += sums[:, 1:]
        self.y_sum = self.y_sum + fixed.sum(axis=0).astype(object)  # int64 holds it: see _check_sums
        self.yy = yy

    def _resolution(self) -> tuple[npt.NDArray[np.floating], Array, Array, float]:
        assert self.y_exponents is not None
        shift = np.array([_nearest(total, self.n) for total in self.y_sum], dtype=object)
        unit = np.ldexp(1.0, -self.y_exponents.astype(np.int32))
        return shift, unit, self.n * np.square(_RESOLVED_UNITS * unit), 0.0

    def _check_sums(self, n: int, yy: npt.NDArray[np.floating]) -> None:
        """Refuse sums that int64 cannot hold: |sum of +-y| <= sqrt(n * sum of y^2) by Cauchy-Schwarz."""
        if any(4 * n * int(v) >= _SUM_LIMIT**2 for v in np.diag(yy)):
            raise InputError(
                f"the sums over {n} rows would overflow 64-bit integers: take smaller y_exponents."
            )


class FloatStatistics(SufficientStatistics):
    """Sums over dense features, in float64, accumulated over blocks of rows."""

    one_bit = False

    def _add(self, phi: npt.NDArray[np.number], targets: npt.NDArray[np.float64]) -> None:
        single = phi.dtype != np.float64 and self.precision == "single"
        kind = np.float32 if single else np.float64
        for rows in _blocks(len(phi), _ROWS if single else _DOUBLE_ROWS):
            block = np.ascontiguousarray(phi[rows], dtype=kind)
            # The lower triangle in Fortran order is the upper one in C order.
            if not len(self.gram):
                pass
            elif single:
                self.gram += blas.ssyrk(1.0, block.T, lower=1).T
            else:
                blas.dsyrk(1.0, block.T, beta=1.0, c=self.gram.T, lower=1, overwrite_c=1)
            for some in _blocks(len(block), _DOUBLE_ROWS):
                wide = block[some].astype(np.float64, copy=False)
                self.phi_sum += wide.sum(axis=0)
                self.phi_y += wide.T @ targets[rows][some]
        self.y_sum = self.y_sum + targets.sum(axis=0)
        self.yy = self.yy + targets.T @ targets

    def _resolution(self) -> tuple[npt.NDArray[np.floating], Array, Array, float]:
        error = (self.n + _RESOLVED_EPSILONS) * np.finfo(np.float64).eps * np.diag(self.yy).astype(np.float64)
        # Blocks are summed in double precision, and their errors are independent.
        blocks = max(1.0, self.n / _ROWS)
        unit = 1.0 if self.precision == "single" else 2.0**-29
        gram_error = _ENTRY_ERROR * unit / math.sqrt(blocks)
        return self.y_sum / max(self.n, 1), np.ones(self.n_targets), error, gram_error

    def _check_rows(self, phi: npt.NDArray[np.number], targets: Array) -> None:
        super()._check_rows(phi, targets)
        if not np.isfinite(phi.sum(dtype=np.float64)):
            raise InputError("features hold NaN or infinity: check the feature map and its input.")


def _blocks(n: int, step: int = _ROWS) -> Iterator[slice]:
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def _common_precision(*several: SufficientStatistics) -> Precision:
    """Return the precision of combined sums: the lowest among the sums with rows."""
    precisions = [sums.precision for sums in several if sums.n] or [several[0].precision]
    return "single" if "single" in precisions else "double"


def _total(diagonal: npt.ArrayLike, n: int) -> float:
    values = np.asarray(diagonal, dtype=np.float64)
    if values.shape != (n,) or not (np.isfinite(values) & (values >= 0)).all():
        raise InputError(f"diagonal must be {n} finite numbers of at least 0, k(x, x) of each row.")
    return math.fsum(values)


def _nearest(total: int, n: int) -> int:
    """Return total / n rounded to an integer, in exact arithmetic."""
    return (2 * total + n) // (2 * n) if n else 0
