"""Array types that the package accepts, and the checks applied once to every input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.errors import InputError
from daskrf.quantities import MAX_COUNT


class HasShape(Protocol):
    """Rows of any library: matrices of SciPy, arrays of Dask and of pydata/sparse, tables of pandas."""

    @property
    def shape(self) -> tuple[int, ...]: ...


class HasArray(Protocol):
    """What NumPy can make an array of."""

    def __array__(self) -> npt.NDArray[np.generic]: ...


MatrixLike: TypeAlias = HasShape | HasArray | Sequence[object]
"""Rows as users give them: what :func:`as_matrix` takes. Sequences hold rows, or RDKit fingerprints."""

Matrix: TypeAlias = npt.NDArray[np.number] | sp.csr_matrix
"""Rows as :func:`as_rows` returns them."""

NamedArrays: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Arrays as a file holds them, by name; whoever reads one knows its dtype."""

_Number = TypeVar("_Number", bound=np.number)
_Scalar = TypeVar("_Scalar", bound=np.generic)

_BITS = 2**32  # that RDKit's vectors have at most


def as_csr(X: MatrixLike) -> sp.csr_matrix:
    """Return `X` as a canonical CSR matrix: sorted unique indices, no explicit zeros.

    Duplicate entries are summed. The input is never modified; if it is already canonical, it is returned
    itself or shares its arrays with the result.

    Parameters
    ----------
    X : scipy.sparse matrix or array, pydata/sparse array (COO, GCXS) or array_like
        Two-dimensional, shape (n, n_columns).

    Returns
    -------
    scipy.sparse.csr_matrix
        Shape (n, n_columns), with the input's dtype, except uint8 for bool, float32 for float16, and float64
        for longer floats. If duplicates are summed or zeros dropped, the dtype is int64 for integers of fewer
        than 64 bits, else float64.

    Raises
    ------
    InputError
        If `X` is not two-dimensional, not an array of real numbers, or a sparse array whose fill value is not
        zero.

    Examples
    --------
    >>> as_csr([[0, 2], [0, 0]]).indices.tolist()
    [1]
    """
    csr = _to_csr(X)
    _check_dtype(csr.dtype)
    if csr.dtype == np.bool_:
        csr = csr.astype(np.uint8)
    if not _is_canonical(csr):
        csr = _canonical(csr)
    return csr


def as_rows(X: MatrixLike) -> Matrix:
    """Return a dense array unchanged, and anything else as :func:`as_csr` does.

    Raises
    ------
    InputError
        As in :func:`as_csr`.
    """
    X = as_matrix(X)
    if not isinstance(X, np.ndarray) or X.ndim != 2:
        return as_csr(X)
    _check_dtype(X.dtype)
    return _usual(X)


def check_rows_to_fit(X: MatrixLike) -> None:
    """Raise if there are no rows, no columns, or values that are not finite.

    Values of lazy arrays are not checked.

    Raises
    ------
    InputError
    """
    X = as_matrix(X)
    shape = shape_of(X)
    if len(shape) == 2 and 0 in shape:
        what, in_words = ("row", "sample") if shape[0] == 0 else ("column", "feature")
        raise InputError(
            f"There is no {what} to fit to: 0 {in_words}(s) (shape={tuple(shape)}) while a minimum of 1 is "
            "required."
        )
    if not hasattr(X, "dask"):
        rows = as_rows(X)
        _finite_dense(rows) if isinstance(rows, np.ndarray) else check_finite(rows)


def refuse_negative(X: MatrixLike, name: str, advice: str = "(give counts or weights of at least 0)") -> None:
    """Raise if rows for the estimator of this name have a negative value; lazy arrays are not looked at.

    Raises
    ------
    InputError
        The message names the row and the column.
    """
    X = as_matrix(X)
    rows = None if hasattr(X, "dask") else as_rows(X)
    if rows is not None and np.min(rows if isinstance(rows, np.ndarray) else rows.data, initial=0) < 0:
        csr = as_csr(rows)
        try:
            _refuse(csr, csr.data < 0, f"is negative {advice}")
        except InputError as error:
            raise InputError(f"Negative values in data passed to {name}. {error}") from None


def learn_columns(estimator: Any, X: MatrixLike) -> None:
    """Record the columns of a fit: `n_features_in_`, and `feature_names_in_` for a DataFrame.

    Raises
    ------
    InputError
        If some column names are strings and others are not.
    """
    names = _column_names(X)
    estimator.n_features_in_ = int(np.shape(as_matrix(X))[1])
    if names is not None:
        estimator.feature_names_in_ = names
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_width_of(estimator: Any, X: MatrixLike) -> None:
    """Raise if rows have not as many columns as those of the fit.

    Raises
    ------
    InputError
    """
    shape = np.shape(as_matrix(X))
    if len(shape) == 2 and shape[1] != getattr(estimator, "n_features_in_", shape[1]):
        width = estimator.n_features_in_
        raise InputError(
            f"X has {shape[1]} features, but {type(estimator).__name__} is expecting {width} features as "
            f"input: rows have {shape[1]:,} columns, and at fit they had {width:,}; fingerprint both in the "
            "same way."
        )


def check_columns_of(estimator: object, X: object) -> None:
    """Raise if the columns have other names, or another order, than at fit.

    Rows without column names are accepted unchecked.

    Raises
    ------
    InputError
        Names the first columns that differ.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> fitted = SimpleNamespace(feature_names_in_=np.array(["logP", "weight"], dtype=object))
    >>> check_columns_of(fitted, SimpleNamespace(columns=["weight", "logP"]))
    Traceback (most recent call last):
    daskrf.errors.InputError: The columns come in another order than at fit: 'weight' is where 'logP' was.
    """
    fitted, names = getattr(estimator, "feature_names_in_", None), _column_names(X)
    if fitted is None or names is None or np.array_equal(fitted, names):
        return
    missing, added = (sorted(set(a) - set(b)) for a, b in ((fitted, names), (names, fitted)))
    shown = _listed(fitted)
    if missing or added:
        what = [
            f"{verb} {_listed(group)}" for group, verb in ((missing, "without"), (added, "with")) if group
        ]
        raise InputError(f"The columns differ from those at fit: {' and '.join(what)}; give {shown}.")
    if len(names) != len(fitted):
        raise InputError(f"The column names repeat: there are {len(names)}, but fit saw {shown}.")
    place = int(np.argmax(fitted != names))
    raise InputError(
        f"The columns come in another order than at fit: {names[place]!r} is where {fitted[place]!r} was."
    )


def _listed(names: Iterable[str], most: int = 5) -> str:
    """Return the first names as a list, for messages."""
    first = list(names)
    return f"{first[:most]}" if len(first) <= most else f"{first[:most]} and {len(first) - most} more"


def _column_names(X: object) -> npt.NDArray[np.object_] | None:
    """Return the column names of a DataFrame, if all of them are strings."""
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    names = np.array(list(columns), dtype=object)
    are_text = [isinstance(name, str) for name in names]
    if any(are_text) and not all(are_text):
        raise InputError("Either all column names must be text, or none: rename some.")
    return names if len(names) and all(are_text) else None


def as_dense(X: MatrixLike) -> npt.NDArray[np.float64]:
    """Return `X` as a C-contiguous float64 array of finite numbers, shape (n, d).

    Raises
    ------
    InputError
        As in :func:`as_csr` and :func:`check_finite`.

    Examples
    --------
    >>> as_dense(as_csr([[0, 2]])).tolist()
    [[0.0, 2.0]]
    """
    rows = as_rows(X)
    if not isinstance(rows, np.ndarray):
        return np.ascontiguousarray(check_finite(rows).toarray(), dtype=np.float64)
    return _finite_dense(np.ascontiguousarray(rows, dtype=np.float64))


def _finite_dense(X: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return a dense array after checking that all of its values are finite."""
    if not np.isfinite(X).all():
        check_finite(as_csr(X))
    return X


def shape_of(X: MatrixLike) -> tuple[int, ...]:
    """Return the shape of rows in any form, without computing a lazy array."""
    shape: tuple[int, ...] = np.shape(as_matrix(X))
    return shape


def as_matrix(X: MatrixLike) -> Any:
    """Return a table or a list of RDKit fingerprints as an array or matrix, and anything else unchanged.

    Columns of a DataFrame may have pandas types that NumPy lacks, such as Int64, boolean or int64[pyarrow]:
    they become NumPy types, with NaN where a value is missing.

    Parameters
    ----------
    X : object
        Anything that functions here take. RDKit fingerprints are its vectors of bits or of counts.

    Raises
    ------
    InputError
        If fingerprints differ in length, or are mixed with other objects.

    Examples
    --------
    >>> import pandas as pd
    >>> as_matrix(pd.DataFrame({"rings": pd.array([2, None], dtype="Int64")})).tolist()
    [[2.0], [nan]]
    >>> from rdkit import DataStructs
    >>> bits = DataStructs.CreateFromBitString("0110")
    >>> as_matrix([bits]).toarray().tolist()
    [[0, 1, 1, 0]]
    """
    if hasattr(X, "iloc") and hasattr(X, "dtypes") and hasattr(X, "columns") and not hasattr(X, "dask"):
        return _of_frame(X)
    if isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1):
        if len(X) and all(map(_is_fingerprint, X)):
            return _of_fingerprints(list(X))
        if any(map(_is_fingerprint, X)):
            other = next(type(each).__name__ for each in X if not _is_fingerprint(each))
            raise InputError(f"A list of RDKit fingerprints contains a {other}; leave it out.")
    return np.asarray(X) if hasattr(X, "__array__") and not hasattr(X, "shape") else X


def _of_frame(X: Any) -> object:
    """Return the numbers of a DataFrame of pandas; one with other columns is unchanged."""
    kinds = [getattr(kind, "numpy_dtype", kind) for kind in X.dtypes]
    new = any(hasattr(kind, "numpy_dtype") for kind in X.dtypes)
    if not new or not all(isinstance(kind, np.dtype) and kind.kind in "buif" for kind in kinds):
        return X
    common = np.result_type(*kinds)
    missing = any(bool(X.iloc[:, k].isna().any()) for k in range(X.shape[1]))
    wide = np.dtype(np.float64) if missing and common.kind != "f" else common
    return X.to_numpy(dtype=wide, na_value=np.nan) if missing else X.to_numpy(dtype=wide)


def _is_fingerprint(item: object) -> bool:
    return hasattr(item, "GetNonzeroElements") or hasattr(item, "GetOnBits")


def _of_fingerprints(vectors: list[Any]) -> sp.csr_matrix:
    """Return RDKit's vectors of bits or counts as rows."""
    pairs = [
        tuple(each.GetNonzeroElements().items())
        if hasattr(each, "GetNonzeroElements")
        else tuple((bit % _BITS, 1) for bit in each.GetOnBits())  # RDKit gives large ones as negative
        for each in vectors
    ]
    lengths = {each.GetLength() if hasattr(each, "GetLength") else each.GetNumBits() for each in vectors}
    if len(lengths) > 1:
        raise InputError(
            f"The fingerprints have {min(lengths):,} and {max(lengths):,} columns; make them all in the same "
            "way."
        )
    (length,) = lengths
    largest = np.iinfo(np.int64).max
    columns = [column for row in pairs for column, _ in row]
    if max(columns, default=0) >= largest:
        raise InputError(
            f"The fingerprints have {length:,} columns, more than can be numbered; fold them, say to "
            "2,048 columns with RDKit's GetCountFingerprint."
        )
    counts = np.array([count for row in pairs for _, count in row], dtype=np.int64)
    pointer = np.cumsum([0, *map(len, pairs)], dtype=np.int64)
    shape = (len(vectors), min(length, largest))
    matrix = sp.csr_matrix((counts, np.array(columns, dtype=np.int64), pointer), shape=shape)
    matrix.sort_indices()
    return matrix


def _to_csr(X: Matrix) -> sp.csr_matrix:
    """Convert any accepted container to CSR, without a copy where possible."""
    if isinstance(X, sp.csr_matrix):
        return X
    if hasattr(X, "to_coo") and not hasattr(X, "to_scipy_sparse"):  # pydata/sparse DOK
        X = X.to_coo()
    X = as_matrix(X)
    if hasattr(X, "dask") and not isinstance(getattr(X, "_meta", None), np.ndarray):
        raise InputError(
            "A dask array of sparse blocks is not computed here: give X.compute(), or give this function to "
            "X.map_blocks."
        )
    if not (sp.issparse(X) or hasattr(X, "to_scipy_sparse") or hasattr(X, "tocsr")):
        X = _usual(np.asarray(X))
        _check_dtype(X.dtype)
    if getattr(X, "ndim", 2) != 2:
        raise InputError(
            f"Fingerprints must have 2 dimensions, not {X.ndim}; pass one row per molecule."
            f"{advice_on_rows(X.ndim, X.dtype)}"
        )
    if getattr(X, "fill_value", 0) != 0:
        raise InputError(
            f"Fingerprints must have the fill value 0, not {X.fill_value}; make them dense first."
        )
    if hasattr(X, "to_scipy_sparse"):
        _check_dtype(X.dtype)
        X = _usual(X).to_scipy_sparse()
    elif not sp.issparse(X) and hasattr(X, "tocsr"):
        X = X.tocsr()
    return _dense_to_csr(X) if isinstance(X, np.ndarray) else sp.csr_matrix(X)


def advice_on_rows(n_dimensions: int, dtype: np.dtype[np.generic]) -> str:
    """Return what to do about an array that is no rows of numbers, as the end of a message."""
    if dtype.kind == "c":
        return " Complex data not supported."
    return "" if n_dimensions == 2 else " Reshape your data with X.reshape(1, -1) if it is one molecule."


def _dense_to_csr(X: npt.NDArray[np.number]) -> sp.csr_matrix:
    """Convert a dense array, several times faster than SciPy does by way of row and column lists."""
    n, d = X.shape
    kind = np.int32 if max(X.size, d) <= np.iinfo(np.int32).max else np.int64
    there = X != 0
    pointer = np.zeros(n + 1, kind)
    np.cumsum(np.count_nonzero(there, axis=1), out=pointer[1:])
    columns = np.arange(d, dtype=kind)
    if pointer[-1] == X.size:  # descriptors and embeddings have no zeros
        return sp.csr_matrix((X.flatten(), np.tile(columns, n), pointer), shape=X.shape)
    return sp.csr_matrix((X[there], np.broadcast_to(columns, X.shape)[there], pointer), shape=X.shape)


def _check_dtype(dtype: np.dtype[np.generic]) -> None:
    """Raise for arrays of text, objects or complex numbers.

    Raises
    ------
    InputError
    """
    if dtype.kind not in "buif":
        raise InputError(
            f"Fingerprints must be an array of real numbers, not of dtype {dtype}.{advice_on_rows(2, dtype)}"
        )


def _usual(X: Matrix) -> Any:
    """Return an array, converting float types that sparse matrices lack to the next common one."""
    if X.dtype.kind == "f" and X.dtype not in (np.float32, np.float64):
        return X.astype(np.float32 if X.dtype == np.float16 else np.float64)
    return X


def _is_canonical(csr: sp.csr_matrix) -> bool:
    """Return whether indices increase strictly within each row and no stored value is zero."""
    if csr.nnz != csr.data.size:
        return False
    if csr.nnz and not csr.data.all():
        return False
    increases = np.empty(csr.nnz, dtype=bool)
    if csr.nnz:
        increases[0] = True
        np.greater(csr.indices[1:], csr.indices[:-1], out=increases[1:])
        starts = csr.indptr[:-1]
        increases[starts[starts < csr.nnz]] = True
    return bool(increases.all())


def _canonical(csr: sp.csr_matrix) -> sp.csr_matrix:
    """Return a canonical copy; duplicates are summed in a type that can hold the sum."""
    # Sums of 64-bit integers could wrap around to small counts.
    wide = np.int64 if csr.dtype.kind in "ui" and csr.dtype.itemsize < 8 else np.float64
    copy = sp.csr_matrix((csr.data.astype(wide), csr.indices.copy(), csr.indptr.copy()), shape=csr.shape)
    # SciPy trusts cached flags; the arrays are new, so make it check again.
    copy.has_canonical_format = False
    copy.has_sorted_indices = False
    copy.sum_duplicates()
    copy.eliminate_zeros()
    return copy


def check_counts(csr: sp.csr_matrix) -> sp.csr_matrix:
    """Return `csr` with its data as uint16 counts; the indices are shared with the input.

    Parameters
    ----------
    csr : scipy.sparse.csr_matrix, shape (n, n_columns)
        Canonical, as :func:`as_csr` returns it.

    Returns
    -------
    scipy.sparse.csr_matrix of uint16, shape (n, n_columns)

    Raises
    ------
    InputError
        If a value is negative, not finite, not an integer or above 65,535; the message names the row.

    Examples
    --------
    >>> check_counts(as_csr([[0.0, 2.0]])).dtype
    dtype('uint16')
    """
    data = csr.data
    if data.dtype == np.uint16:
        return csr
    if data.size:
        if data.dtype.kind == "f":
            _refuse(csr, ~np.isfinite(data), "is not a finite number but NaN or inf; mend that row")
            _refuse(
                csr,
                data != np.floor(data),
                'is not an integer count; round it, or use a feature map with hashing="cws" (consistent '
                "weighted sampling), which takes real weights",
            )
        _refuse(csr, data < 0, "is negative; counts start at 0")
        _refuse(csr, data > MAX_COUNT, f"is above the largest count of {MAX_COUNT:,}; clip the counts")
    return sp.csr_matrix((data.astype(np.uint16), csr.indices, csr.indptr), shape=csr.shape)


def check_finite(csr: sp.csr_matrix) -> sp.csr_matrix:
    """Return `csr` itself after checking that all of its values are finite.

    Raises
    ------
    InputError
        If a value is not finite; the message names the row and the column.
    """
    if csr.dtype.kind == "f" and csr.data.size:
        _refuse(csr, ~np.isfinite(csr.data), "is not a finite number but NaN or inf; mend that row")
    return csr


def narrowed(
    features: npt.NDArray[np.number], dtype: str, rows: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.number]:
    """Return finite features of shape (n, M) as `dtype`, "float32" or "float16".

    Raises
    ------
    InputError
        If a feature does not fit the dtype; the message gives the row's number in `rows`, shape (n,), or else
        its position.

    Examples
    --------
    >>> narrowed(np.ones((1, 2), np.float32), "float16").dtype
    dtype('float16')
    """
    with np.errstate(over="ignore"):
        values = features.astype(dtype, copy=False)
    if values is not features and not np.isfinite(values).all():
        place = int(np.argmin(np.isfinite(values).all(axis=1)))
        row = place if rows is None else rows[place]
        raise InputError(
            f"The features of row {row:,} do not fit in {dtype}, whose largest "
            f"value is {np.finfo(dtype).max:,.0f}; store them as float32, or use a map with smaller features."
        )
    return values


def check_weights(csr: sp.csr_matrix) -> sp.csr_matrix:
    """Return `csr` itself after checking that all of its values are finite and nonnegative.

    Raises
    ------
    InputError
        If a value is negative or not finite; the message names the row and the column.

    Examples
    --------
    >>> check_weights(as_csr([[0.5, 2.0]])).data.tolist()
    [0.5, 2.0]
    """
    check_finite(csr)
    if csr.dtype.kind != "u" and csr.data.size and csr.data.min() < 0:
        _refuse(csr, csr.data < 0, "is negative; the min-max Tanimoto kernel needs weights of at least 0")
    return csr


def row_slice(rows: Any, start: int, stop: int) -> Any:
    """Return rows `start` to `stop` - 1 of a dense array or a canonical CSR matrix, sharing its memory.

    SciPy's own slicing copies indices and values, and temporarily holds the indices twice.

    Examples
    --------
    >>> row_slice(as_csr([[0, 2], [3, 0], [0, 1]]), 1, 3).toarray().tolist()
    [[3, 0], [0, 1]]
    """
    if isinstance(rows, np.ndarray):
        return rows[start:stop]
    pointer = rows.indptr[start : stop + 1]
    block = sp.csr_matrix((len(pointer) - 1, rows.shape[1]), dtype=rows.dtype)
    # Assigned, because the constructor would read every index to find a smaller type for them.
    block.indptr = pointer - pointer[0]
    block.indices, block.data = (array[pointer[0] : pointer[-1]] for array in (rows.indices, rows.data))
    block.has_canonical_format = True
    return block


def column_slice(rows: sp.csr_matrix, start: int, stop: int) -> sp.csr_matrix:
    """Return columns `start` to `stop` - 1 of a canonical CSR matrix, renumbered from 0.

    SciPy's own slicing allocates an array as long as the number of columns, which is billions here.

    Examples
    --------
    >>> column_slice(as_csr([[0, 2, 1], [3, 0, 4]]), 1, 3).toarray().tolist()
    [[2, 1], [0, 4]]
    """
    if start == 0 and stop == rows.shape[1]:
        return rows
    inside = (rows.indices >= start) & (rows.indices < stop)
    block = sp.csr_matrix((rows.shape[0], stop - start), dtype=rows.dtype)
    ends = np.concatenate([[0], np.cumsum(inside)])[rows.indptr]
    kind = np.int32 if max(stop - start, int(ends[-1])) < 2**31 else np.int64
    # Assigned, because the constructor would read every index to find a smaller type for them.
    block.indptr, block.data = ends.astype(kind), rows.data[inside]
    block.indices = (rows.indices[inside] - start).astype(kind)
    block.has_canonical_format = True
    return block


def squared_norms(pointer: npt.NDArray[np.integer], data: npt.NDArray[np.number]) -> npt.NDArray[np.float64]:
    """Return the squared norm of each sparse row, float64, from the pointer and values of a CSR matrix.

    Examples
    --------
    >>> squared_norms(np.array([0, 2, 2, 3]), np.array([3, 4, 2])).tolist()
    [25.0, 0.0, 4.0]
    """
    with np.errstate(over="ignore", under="ignore"):
        return row_sums(pointer, np.square(data, dtype=np.float64))


def row_sums(pointer: npt.NDArray[np.integer], values: npt.NDArray[np.number]) -> npt.NDArray[np.float64]:
    """Return the sum of each sparse row's values, float64, 0 for an empty row; exact for counts."""
    counts = np.diff(pointer)
    rows, entries = np.repeat(np.arange(counts.size), counts), values[pointer[0] : pointer[-1]]
    # Summed in the order of the entries.
    return np.bincount(rows, entries, counts.size).astype(np.float64, copy=False)


def scaled_values(
    pointer: npt.NDArray[np.integer], data: npt.NDArray[np.number], ordinary: int = 400
) -> tuple[npt.NDArray[np.float64] | None, npt.NDArray[np.int64]]:
    """Return the values of sparse rows scaled by powers of two, float64, and each row's binary exponent.

    A row whose largest value lies between 2^-ordinary and 2^ordinary is not scaled: its exponent is 0. The
    values of other rows are divided by 2^exponent, which brings the largest between 1/2 and 1. If no row
    needs scaling, the values are None.
    """
    exponents = np.zeros(pointer.size - 1, np.int64)
    sizes = np.abs(data.astype(np.float64, copy=False))
    if not sizes.size or (sizes.max() <= 2.0**ordinary and sizes.min() >= 2.0**-ordinary):
        return None, exponents
    counts = np.diff(pointer)
    filled = counts > 0
    # Skip empty rows: reduceat would give them a value of the next row.
    powers = np.frexp(np.maximum.reduceat(sizes, pointer[:-1][filled]))[1]
    exponents[filled] = np.where(np.abs(powers) > ordinary, powers, 0)
    shifts = np.repeat(exponents, counts).astype(np.int32)
    return np.ldexp(data.astype(np.float64, copy=False), -shifts), exponents


def _refuse(csr: sp.csr_matrix, bad: npt.NDArray[np.bool_], reason: str) -> None:
    if bad.any():
        position = int(np.argmax(bad))
        row = int(np.searchsorted(csr.indptr, position, side="right")) - 1
        column = int(csr.indices[position])
        raise InputError(f"Value {csr.data[position]} in row {row}, column {column} {reason}.")


def n_bytes(n_components: int) -> int:
    """Return the number of bytes that hold `n_components` packed bits, the last one padded.

    Examples
    --------
    >>> n_bytes(9)
    2
    """
    return -(-n_components // 8)


def check_bits(bits: npt.ArrayLike, n_components: int) -> npt.NDArray[np.uint8]:
    """Return packed bits as a C-contiguous array after checking them.

    Parameters
    ----------
    bits : uint8 array, shape (n, ceil(n_components / 8))
    n_components : int
        At least 1.

    Returns
    -------
    uint8 array, shape (n, ceil(n_components / 8))
        `bits` itself, if it is C-contiguous.

    Raises
    ------
    InputError
        If the shape or the dtype is wrong, or `n_components` is not positive.

    Examples
    --------
    >>> check_bits(np.zeros((3, 2), np.uint8), 16).shape
    (3, 2)
    """
    array = np.asarray(bits)
    if n_components < 1:
        raise InputError(f"n_components must be at least 1, not {n_components}.")
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != n_bytes(n_components):
        raise InputError(
            f"Packed features of {n_components} components must be uint8 of shape "
            f"(n, {n_bytes(n_components)}), not {array.dtype} of shape {array.shape}."
        )
    return np.ascontiguousarray(array)


@overload
def unpack_bits(bits: npt.ArrayLike, n_components: int) -> npt.NDArray[np.float32]: ...
@overload
def unpack_bits(
    bits: npt.ArrayLike, n_components: int, dtype: type[_Number] | np.dtype[_Number]
) -> npt.NDArray[_Number]: ...
@overload
def unpack_bits(bits: npt.ArrayLike, n_components: int, dtype: npt.DTypeLike) -> npt.NDArray[np.number]: ...
def unpack_bits(
    bits: npt.ArrayLike, n_components: int, dtype: npt.DTypeLike = np.float32
) -> npt.NDArray[np.generic]:
    """Return the +1/-1 array for packed bits: bit 0 gives +1, bit 1 gives -1.

    Parameters
    ----------
    bits : uint8 array, shape (n, ceil(n_components / 8))
    n_components : int
    dtype : dtype of the result, signed

    Returns
    -------
    array of shape (n, n_components)

    Raises
    ------
    InputError
        As in :func:`check_bits`.

    Examples
    --------
    >>> unpack_bits(np.array([[0b101]], dtype=np.uint8), 3).tolist()
    [[-1.0, 1.0, -1.0]]
    """
    ones = np.unpackbits(check_bits(bits, n_components), axis=1, count=n_components, bitorder="little")
    signs = ones.astype(dtype)
    signs *= -2
    signs += 1
    return signs


class GrowingArray(Generic[_Scalar]):
    """An array of some rows more at a time, which is never copied as a whole.

    Attributes
    ----------
    values : array
        The rows so far; it must not be kept while more are added.

    Examples
    --------
    >>> rows = GrowingArray(np.int64)
    >>> rows.append(np.arange(3))
    >>> rows.append(np.arange(2))
    >>> rows.values.tolist()
    [0, 1, 2, 0, 1]
    """

    def __init__(self, dtype: type[_Scalar] | np.dtype[_Scalar], *shape: int) -> None:
        self._rows: npt.NDArray[_Scalar] = np.empty((0, *shape), dtype)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def values(self) -> npt.NDArray[_Scalar]:
        return self._rows[: self._n]

    def append(self, rows: npt.NDArray[_Scalar]) -> None:
        """Add some rows."""
        stop = self._n + len(rows)
        if stop > len(self._rows):
            # Large memory is grown by moving pages, not by copying them.
            self._rows.resize((stop + stop // 8, *self._rows.shape[1:]), refcheck=False)
        self._rows[self._n : stop] = rows
        self._n = stop

    def finish(self) -> npt.NDArray[_Scalar]:
        """Return all rows, without room for more."""
        self._rows.resize((self._n, *self._rows.shape[1:]), refcheck=False)
        rows, self._rows, self._n = self._rows, self._rows[:0].copy(), 0
        return rows
