"""Input of Gaussian processes: checked rows, their features in blocks, and sums over these blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import Matrix, MatrixLike, advice_on_rows, as_csr, as_matrix
from daskrf.errors import InputError
from daskrf.features.featuremap import FeatureMap, map_key
from daskrf.gp.sums.limitrows import LimitRows
from daskrf.gp.sums.statistics import Precision, SufficientStatistics, enough_precision
from daskrf.gp.sums.sums import GramStrip, Statistics, Summation, SummationOptions, Sums, precision_for

_BLOCK_ENTRIES = 1 << 25  # features held in memory at a time


class FeatureBlock(NamedTuple):
    """Packed bits or features of some rows, and k(x, x) of each row if features leave part of it out.

    `rows` are the rows themselves, if known.
    """

    phi: npt.NDArray[np.number]
    diagonal: npt.NDArray[np.float64] | None
    rows: Matrix | None = None


def check_of(of: str, *more: str) -> None:
    """Raise InputError if `of` is neither "y" nor "f" nor in `more`."""
    if of not in ("y", "f", *more):
        others = "".join(f", or {name!r}" for name in more)
        raise InputError(f"of must be 'y' (with noise) or 'f' (without){others}, not {of!r}.")


def check_n_samples(n_samples: int) -> None:
    """Raise InputError if a number of samples is not an integer of at least 0."""
    if isinstance(n_samples, bool) or not isinstance(n_samples, (int, np.integer)):
        raise InputError(f"n_samples must be an integer, not {n_samples!r}.")
    if n_samples < 0:
        raise InputError(f"n_samples must not be negative, but is {n_samples}.")


def check_rows(X: MatrixLike, feature_map: object) -> Matrix:
    """Return X as a two-dimensional array or CSR matrix whose rows can be sliced.

    Raises
    ------
    InputError
        If X is not two-dimensional or not numeric, or is sparse although there is no feature map.
    """
    X = as_matrix(X)
    if sp.issparse(X) or hasattr(X, "to_scipy_sparse") or hasattr(X, "tocsr"):
        if feature_map is None:
            raise InputError(
                "X is sparse, as fingerprints are, but this model has no feature_map: pass one, or give "
                "dense features."
            )
        return as_csr(X)
    X = X if hasattr(X, "shape") and hasattr(X, "dtype") else np.asarray(X)
    if len(X.shape) != 2 or X.dtype.kind not in "buif":
        raise InputError(
            f"X must be numbers of shape (n, n_columns), not {X.dtype} of shape {X.shape}."
            f"{advice_on_rows(len(X.shape), X.dtype)}"
        )
    return X


def refuse_unpacked_bits(X: Matrix) -> None:
    """Refuse uint8 rows of only 0 and 1: packed bits would have all 256 values.

    Raises
    ------
    InputError
        If X looks like fingerprints with one byte per bit.
    """
    if X.dtype == np.uint8 and np.max(X, initial=0) <= 1:
        raise InputError(
            "X is uint8, which stands for packed bits, but holds only 0 and 1, like unpacked fingerprints: "
            "pass a feature_map for fingerprints, or n_components if these are packed bits."
        )


def feature_blocks(
    X: Matrix,
    feature_map: FeatureMap | None,
    transform: Callable[[Matrix], npt.NDArray[np.floating]] | None = None,
    diagonal: npt.ArrayLike | None = None,
    rows: MatrixLike | None = None,
) -> Iterator[FeatureBlock]:
    """Yield packed bits or features of consecutive rows of X, in bounded memory.

    `transform` replaces the `transform` method of a map of dense features. `diagonal` is k(x, x) of each row,
    and `rows` are the rows themselves; pass them if X holds features, because they cannot be computed without
    a map.

    Raises
    ------
    InputError
        If X does not consist of rows, or `diagonal` does not have one number for each.
    """
    diagonals = None if diagonal is None else _diagonal(diagonal, len(X))
    kernel = None if feature_map is None else feature_map.projected_kernel
    X = check_rows(X, feature_map)
    if feature_map is None:
        width = X.shape[1] * (8 if X.dtype == np.uint8 else 1)
    else:
        width = feature_map.n_components
    step = max(1, _BLOCK_ENTRIES // max(int(width), 1))
    rows = None if rows is None else _rows_of(rows, X.shape[0])
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        values = diagonals[start : start + step] if diagonals is not None else None
        if feature_map is None:
            block = np.asarray(block)
            is_features = block.dtype.kind == "f" or block.dtype == np.uint8
            phi = block if is_features else block.astype(np.float64)
            yield FeatureBlock(phi, values, None if rows is None else rows[start : start + step])
        elif feature_map.one_bit:
            yield FeatureBlock(feature_map.transform_bits(block), None, block)
        else:
            phi = (transform or feature_map.transform)(block)
            yield FeatureBlock(phi, None if kernel is None else kernel.diag(block), block)


def _rows_of(rows: MatrixLike, n: int) -> sp.csr_matrix:
    """Return the rows that features belong to, checked."""
    matrix = as_csr(rows)
    if matrix.shape[0] != n:
        raise InputError(f"rows must be those of the {n} rows of features, not {matrix.shape[0]} rows.")
    return matrix


def _diagonal(values: npt.ArrayLike, n_rows: int) -> npt.NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n_rows,) or not (np.isfinite(array) & (array >= 0)).all():
        raise InputError(
            f"diagonal must be k(x, x) of each of {n_rows} rows, finite and at least 0, not numbers of shape "
            f"{array.shape}."
        )
    return array


def sum_rows(
    X: Matrix,
    targets: npt.NDArray[np.float64],
    feature_map: FeatureMap | None,
    *,
    n_components: int | None,
    exponents: npt.NDArray[np.int64] | None,
    precision: Precision | None = None,
    rows_before: int = 0,
    side: npt.NDArray[np.int8] | None = None,
) -> Statistics:
    """Return the statistics of at least one row; `n_components` and `exponents` are for packed bits.

    `precision` is for floats; the default depends on the number of rows, including the `rows_before` of the
    statistics to which these will be added. `side` is 0 for measured labels of one target, 1 for lower and
    -1 for upper limits, which are `targets`; None if all are measured.

    Raises
    ------
    InputError
        If X and `targets` differ in their number of rows, or are invalid.
    """
    if X.shape[0] != len(targets):
        raise InputError(f"X has {X.shape[0]} rows, but y has {len(targets)}: they must be the same.")
    total: Sums | None = None
    start = 0
    for phi, diagonal, _ in feature_blocks(X, feature_map):
        if total is None:
            one_bit, n_rows = phi.dtype == np.uint8, rows_before + len(targets)
            kind: SummationOptions = {"one_bit": one_bit}
            if one_bit and exponents is not None:
                kind["y_exponents"] = tuple(int(exponent) for exponent in exponents)
            if feature_map is None:
                size = phi.shape[1]
                if one_bit:
                    size = size * 8 if n_components is None else n_components
                enough = "double" if phi.dtype == np.float64 else enough_precision(n_rows, size)
                kind["precision"] = precision or enough
                total = Summation(size, targets.shape[1], **kind).zero()
            else:
                kind["map_key"] = map_key(feature_map.state())
                kind["precision"] = precision or precision_for(feature_map, n_rows)
                total = Summation.of_map(feature_map, targets.shape[1], **kind).zero()
        y = targets[start : start + len(phi)]
        if side is None:
            total.update(phi, y, diagonal)
        else:
            sides = side[start : start + len(phi)]
            measured, limits = np.flatnonzero(sides == 0), np.flatnonzero(sides)
            total.update(phi[measured], y[measured], None if diagonal is None else diagonal[measured])
            rows = LimitRows.of(phi[limits], y[limits, 0], sides[limits])
            assert isinstance(total, SufficientStatistics)
            total.add_limits(rows)
        start += len(phi)
    assert total is not None
    assert not isinstance(total, GramStrip)
    return total
