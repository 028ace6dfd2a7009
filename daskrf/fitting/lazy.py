"""Feature maps and sufficient statistics as lazy Dask collections, for scripts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Protocol, Self, TypeGuard, TypeVar

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import tokenize
from dask.delayed import Delayed

from daskrf.arrays import MatrixLike, as_matrix, check_columns_of, narrowed
from daskrf.errors import InputError
from daskrf.features.featuremap import FeatureMap, check_feature_map
from daskrf.fitting.totals import LabelledBlock, Sums
from daskrf.gp import Summation, choose_exponent, enough_precision
from daskrf.gp.sums.statistics import Precision
from daskrf.gp.sums.sums import SummationOptions, precision_for
from daskrf.jobs.tree import lazy
from daskrf.kernels import Kernel
from daskrf.sources.mapreference import MapReference

_Data = TypeVar("_Data")


def featurize_array(rows: object, feature_map: FeatureMap, *, dtype: str = "bits") -> da.Array:
    """Map a lazy array of fingerprints to a lazy Dask array of features; see `daskrf.featurize`."""
    array = _as_dask(rows)
    if not isinstance(array, da.Array):
        raise InputError(
            "The source is a dask array or the path of a fingerprint store, not "
            f"{type(array).__name__}; the map's own transform takes arrays in memory."
        )
    array = _whole_rows(array)
    if not feature_map.is_fitted():
        raise InputError(
            f"{type(feature_map).__name__} learns from the rows, which would compute the dask array: fit it "
            "first, by its own fit on some rows, or by daskrf.fit_map on a fingerprint store."
        )
    check_columns_of(feature_map, rows)
    width = -(-feature_map.n_components // 8) if dtype == "bits" else feature_map.n_components
    kind = np.uint8 if dtype == "bits" else np.dtype(dtype)
    reference = MapReference.of(feature_map.state())
    # A graph node that each worker fetches once: landmarks are too large to send with every task.
    shared = dask.delayed(reference, name=f"map-{reference.digest}")
    return da.map_blocks(
        _block_features,
        array,
        shared,
        dtype,
        dtype=kind,
        chunks=(array.chunks[0], (width,)),
        meta=np.empty((0, 0), dtype=kind),
    )


def _block_features(block: MatrixLike, reference: MapReference, dtype: str) -> np.ndarray:
    feature_map = reference.feature_map
    if dtype == "bits":
        return feature_map.transform_bits(block)
    return narrowed(feature_map.transform(block), dtype)


def gram(
    phi: da.Array,
    y: da.Array | np.ndarray | None = None,
    *,
    n_components: int | None = None,
    y_exponents: Sequence[int] | None = None,
    precision: Precision | None = None,
    feature_map: FeatureMap | None = None,
) -> Delayed:
    """Return the sufficient statistics of features and targets, lazily.

    Parameters
    ----------
    phi : dask.array.Array of shape (n, M) float, or (n, ceil(M / 8)) uint8
        Features; uint8 blocks are packed one-bit features. A DataArray of xarray that holds such an array
        will do, too.
    y : array of shape (n,) or (n, n_targets), optional
        Targets in memory, or lazy: a Dask array, a DataArray of xarray, or a column of a Dask DataFrame with
        as many rows in each partition as `phi` has in each chunk.
    n_components : int, optional
        M; needed for packed bits without `feature_map` if it is not a multiple of 8.
    y_exponents : sequence of int, optional
        Binary exponents of the fixed-point targets (one-bit features only); needed when `y` is a Dask array,
        because choosing them (`daskrf.gp.choose_exponent` of all labels) would compute it.
    precision : {"single", "double"}, optional
        Precision of floating-point products; default: what `feature_map` and the number of rows need
        (`daskrf.gp.enough_precision`).
    feature_map : FeatureMap, optional
        The map of the features, for the sums its process needs. Required for landmarks and maps of centroids.

    Returns
    -------
    dask.delayed.Delayed
        A `daskrf.gp.SufficientStatistics`, or `daskrf.gp.StackedStatistics` for a map of centroids, once you
        call ``.compute()``.

    Raises
    ------
    InputError
        If shapes do not match, exponents are needed but not given, or the precision is unknown.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from daskrf import gram
    >>> phi = da.from_array(np.eye(6, 3, dtype=np.float32), chunks=(2, 3))
    >>> statistics = gram(phi, np.arange(6.0))
    >>> statistics.compute().n
    6
    """
    if feature_map is not None:
        check_feature_map(feature_map)
    phi = _as_dask(phi)
    if not isinstance(phi, da.Array):
        raise InputError(
            f"The features must be a dask array, not {type(phi).__name__}; SufficientStatistics.from_chunk "
            "takes arrays in memory."
        )
    phi = _whole_rows(phi, "features")
    targets = _targets(phi, y)
    sums = Sums(_summation(phi, targets, n_components, y_exponents, precision, feature_map))
    if isinstance(targets, np.ndarray):
        bounds = np.concatenate([[0], np.cumsum(phi.chunks[0])])
        y_blocks = [targets[a:b] for a, b in itertools.pairwise(bounds)]
    else:
        y_blocks = list(targets.to_delayed().ravel())
    parts = zip(phi.to_delayed().ravel(), y_blocks, strict=True)
    return lazy(sums, [LabelledBlock(block, y, None) for block, y in parts])


def _summation(
    phi: da.Array,
    targets: da.Array | np.ndarray,
    n_components: int | None,
    y_exponents: Sequence[int] | None,
    precision: Precision | None,
    feature_map: FeatureMap | None,
) -> Summation:
    """Return the sums to compute; the parameters are those of `gram`."""
    if precision not in ("single", "double", None):
        raise InputError(f"precision must be 'single' or 'double', not {precision!r}.")
    one_bit = phi.dtype == np.uint8
    width = phi.shape[1] * 8 if one_bit else phi.shape[1]
    if n_components is None:
        n_components = width if feature_map is None else feature_map.n_components
    if not (width - 8 < n_components <= width if one_bit else n_components == width):
        raise InputError(f"{n_components} components do not fit features of width {phi.shape[1]}.")
    exponents = None
    if one_bit:
        exponents = _exponents(targets) if y_exponents is None else tuple(y_exponents)
    kind: SummationOptions = {"one_bit": one_bit, "y_exponents": exponents}
    n_targets = targets.shape[1]
    if feature_map is None:
        kind["precision"] = precision or enough_precision(phi.shape[0], n_components)
        return Summation(n_components, n_targets, **kind)
    if phi.dtype == np.float16:
        feature_map.check_dtype("float16")
    kind["precision"] = precision or precision_for(feature_map, phi.shape[0])
    return Summation.of_map(feature_map, n_targets, **kind)


def _targets(phi: da.Array, y: da.Array | npt.ArrayLike | None) -> da.Array | np.ndarray:
    """Return the targets as (n, T), chunked like the rows of `phi` if they are lazy."""
    if np.isnan(phi.shape[0]):
        raise InputError("The number of rows is unknown; call phi.compute_chunk_sizes() first.")
    if y is None:
        return np.zeros((phi.shape[0], 0))
    y = _as_dask(y)
    targets = y if isinstance(y, da.Array) else np.asarray(y, dtype=np.float64)
    targets = targets[:, None] if targets.ndim == 1 else targets
    if np.isnan(targets.shape[0]):
        raise InputError(
            "The number of targets is unknown; call y.compute_chunk_sizes() first, or, for a column of a "
            "DataFrame, give y.to_dask_array(lengths=True)."
        )
    if targets.ndim != 2 or targets.shape[0] != phi.shape[0]:
        raise InputError(f"There are {phi.shape[0]} rows of features but targets of shape {targets.shape}.")
    if isinstance(targets, da.Array):
        targets = targets.rechunk((phi.chunks[0], (targets.shape[1],)))
    return targets


def _exponents(targets: da.Array | np.ndarray) -> tuple[int, ...]:
    if isinstance(targets, da.Array):
        raise InputError(
            "One-bit features take fixed-point targets, and y is a dask array: pass y_exponents, which "
            "daskrf.gp.choose_exponent makes from all labels."
        )
    return tuple(int(e) for e in choose_exponent(targets)) if targets.size else (0,) * targets.shape[1]


def kernel_matrix(kernel: Kernel, X: MatrixLike, Y: MatrixLike | None = None) -> da.Array:
    """Return the kernel matrix of Dask arrays of fingerprints, lazily.

    Parameters
    ----------
    kernel : daskrf.kernels.Kernel
    X : dask.array.Array, shape (n, d)
        Blocks are NumPy, scipy.sparse or pydata/sparse arrays. A DataArray of xarray, a Dask DataFrame of
        numbers, and an array that the kernel takes will do, too: the last is one block.
    Y : as `X`, shape (m, d), optional
        Default: `X`. An in-memory array becomes one block of columns and is sent with the graph.

    Returns
    -------
    dask.array.Array of float64, shape (n, m)
        Chunks follow the row chunks of `X` and `Y`; a task computes one and keeps nothing else. The same
        arguments give the same names of tasks. With real weights (not counts), the last bits depend on the
        chunks of `Y`.

    Raises
    ------
    InputError
        If an array is not two-dimensional, or the numbers of columns differ; when computed, if the kernel
        does not support a value.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from daskrf.kernels import TanimotoMinMax
    >>> X = da.from_array(np.array([[2, 0, 1], [1, 1, 1]]), chunks=(1, 3))
    >>> kernel_matrix(TanimotoMinMax(), X).compute().tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel must be a kernel of daskrf.kernels, not {kernel!r}.")
    rows = _row_blocks(X)
    columns = rows if Y is None else _row_blocks(Y)
    d, right_d = rows.shape[1], columns.shape[1]
    if d != right_d and not np.isnan([d, right_d]).any():  # unknown ones are checked by the kernel
        raise InputError(
            f"Kernel arguments must have the same columns, not {d} and {right_d}; fingerprint both in the "
            "same way."
        )
    # "k" is not in the result, so Dask does not fuse tasks that make the blocks of X and Y into this layer,
    # where each would run once for every block of the other array.
    return da.blockwise(
        _kernel_block,
        "ij",
        rows,
        "ik",
        columns,
        "jk",
        kernel=_shared(kernel, "kernel"),
        dtype=np.float64,
        meta=np.empty((0, 0)),
        align_arrays=False,  # rows and columns are independent, and their numbers may be unknown
    )


def _kernel_block(x: list[MatrixLike], y: list[MatrixLike], kernel: Kernel) -> np.ndarray:
    (left,), (right,) = x, y
    return kernel(left, right)


def _row_blocks(X: MatrixLike) -> da.Array:
    """Return rows as a Dask array with blocks of whole rows; rows in memory are one block."""
    array = _as_dask(X)
    if isinstance(array, da.Array):
        return _whole_rows(array)
    array = as_matrix(array)
    if getattr(array, "ndim", None) != 2:
        array = np.asarray(array)
        if array.ndim != 2:
            raise InputError(f"The fingerprints must be a 2-dimensional array, not {array.ndim}-dimensional.")
    dtype = getattr(array, "dtype", np.float64)
    return da.from_delayed(_shared(array, "rows"), array.shape, dtype, meta=np.empty((0, 0), dtype))


def _shared(value: object, prefix: str) -> Delayed:
    """Return a graph node, named by what it holds, that each worker fetches once."""
    return dask.delayed(value, name=f"{prefix}-{tokenize(value)}", traverse=False)


def _whole_rows(array: da.Array, what: str = "fingerprints") -> da.Array:
    """Return an array with one chunk along the columns: features and kernels need whole rows."""
    if array.ndim != 2:
        raise InputError(f"The {what} must be a 2-dimensional array, not {array.ndim}-dimensional.")
    if len(array.chunks[1]) == 1:
        return array
    if np.isnan(array.shape[1]):
        raise InputError(
            f"The {what} have several chunks of columns, whose numbers are unknown: call "
            "compute_chunk_sizes() first, or rechunk({1: -1}) before columns are selected."
        )
    return array.rechunk({1: -1})


class _Frame(Protocol):
    """A DataFrame of Dask, or a column of one."""

    ndim: int
    name: str
    dtype: object
    dtypes: Mapping[str, object]

    def astype(self, dtype: npt.DTypeLike) -> Self: ...

    def to_dask_array(self) -> da.Array: ...


def _is_frame(data: object) -> TypeGuard[_Frame]:
    return hasattr(data, "to_dask_array")


def _as_dask(data: _Data) -> _Data | da.Array:
    """Return a DataArray of xarray as the array that it holds, a DataFrame of Dask as a Dask array.

    Anything else is unchanged.

    Raises
    ------
    InputError
        If a column of a DataFrame holds no numbers.
    """
    if hasattr(data, "dims") and hasattr(data, "data") and hasattr(data, "coords"):
        return data.data
    if not _is_frame(data):
        return data
    kinds = dict(data.dtypes) if data.ndim == 2 else {data.name: data.dtype}
    plain: dict[str, np.dtype[np.generic]] = {}
    for name, kind in kinds.items():
        of_numpy: object = getattr(kind, "numpy_dtype", kind)
        if not isinstance(of_numpy, np.dtype) or of_numpy.kind not in "buif":
            raise InputError(
                f"The column {name!r} of the dask DataFrame holds {kind}, not numbers; of SMILES, "
                "daskrf.SmilesFingerprints makes fingerprints."
            )
        plain[name] = of_numpy
    # Types of pandas or Arrow may have missing values, which only floats can show.
    lacks = any(plain[name] is not kinds[name] for name in kinds)
    common = np.result_type(*plain.values(), *([np.float64] if lacks else []))
    return data.astype(common).to_dask_array()
