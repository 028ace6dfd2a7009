"""Dask arrays of counts in sparse blocks, on which sums and products work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import dask.array as da
import numpy as np
import numpy.typing as npt
import sparse as pydata
from dask.array.core import BlockView
from scipy import sparse

from daskrf.errors import InputError

_REDUCTIONS = ("sum", "mean", "std", "var", "max", "min", "prod", "any", "all")
_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
_ELEMENTWISE = (
    *(f"__{side}{name}__" for name in _OPERATORS for side in ("", "r")),
    *(f"__{name}__" for name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "abs", "invert")),
    *("clip", "round"),
)
_OF_ELEMENTS = (
    *("argmax", "argmin", "cumsum", "cumprod", "topk", "argtopk", "nonzero", "moment", "trace"),
    *("ravel", "flatten", "reshape", "repeat", "swapaxes", "squeeze"),
)
_MOST_MULTIPLIED = 1 << 28  # columns of a block in a product: each takes 8 bytes
_MOST_DENSE = 1 << 26  # elements of a block of NumPy


class CountArray(da.Array):
    """A Dask array with blocks of `scipy.sparse.csr_matrix`, which NumPy's functions do not accept.

    Sums, means, extremes and matrix products use pydata/sparse. They are exact, since counts are converted to
    64-bit integers. Results whose blocks have up to 2^26 elements, as with folded fingerprints, are NumPy
    arrays; larger ones have blocks of `sparse.COO`. Elementwise operations are NumPy's, and exact likewise:
    those of SciPy's matrices are others, ``x * x`` being a matrix product. Results that are zero where the
    counts are, such as ``x > 0``, have blocks of `sparse.COO`. Others, such as ``x + 1``, are NumPy arrays
    with blocks of up to 2^26 elements, and refused beyond.

    Methods, operators and NumPy's functions know this, and so do universal functions of `dask.array`, such as
    ``dask.array.multiply``. Others, such as ``dask.array.sum``, hand the blocks to NumPy unseen, and fail.
    """

    @classmethod
    def of(cls, array: Any) -> Self:
        """Return a Dask array as a `CountArray`."""
        return cls(array.dask, array.name, array.chunks, dtype=array.dtype, meta=array._meta)

    def _pydata(self) -> da.Array:
        """Return the array with blocks of pydata/sparse."""
        plain: Any = da.Array(self.dask, self.name, self.chunks, dtype=self.dtype, meta=self._meta)
        return plain if isinstance(self._meta, pydata.COO) else plain.map_blocks(_coo, meta=_coo(self._meta))

    def _result(self, result: Any) -> da.Array:
        """Return the result of a reduction or product with blocks of NumPy, if they are not too large."""
        if math.prod(max(sizes, default=0) for sizes in result.chunks) > _MOST_DENSE:
            return result
        return result.map_blocks(_dense, dtype=result.dtype, meta=np.empty((0,) * result.ndim, result.dtype))

    @property
    def T(self) -> CountArray:
        """The transposed array."""
        return self.transpose()

    def transpose(self, *axes: object) -> CountArray:
        """Return the transposed array."""
        return CountArray.of(self._pydata().transpose(*axes))

    def __getitem__(self, index: object) -> da.Array:
        selected = super().__getitem__(index)
        if selected.ndim == self.ndim:
            return CountArray.of(selected)
        return self._result(_wide(self)[index])  # blocks of SciPy stay matrices

    def rechunk(self, *arguments: object, **options: object) -> CountArray:
        return CountArray.of(super().rechunk(*arguments, **options))

    def astype(self, *arguments: Any, **options: Any) -> CountArray:
        return CountArray.of(super().astype(*arguments, **options))

    def __matmul__(self, other: object) -> da.Array:
        return self._product(self, other)

    def __rmatmul__(self, other: object) -> da.Array:
        return self._product(other, self)

    def dot(self, other: object) -> da.Array:
        """Return the matrix product."""
        return self @ other

    def __array_ufunc__(self, numpy_ufunc: object, method: str, *inputs: object, **kwargs: object) -> object:
        if numpy_ufunc is np.matmul and method == "__call__":
            return self._product(*inputs)
        # NumPy then asks the blocks' own dask array, as if the user had given it.
        return _applied(partial(getattr(numpy_ufunc, method), **kwargs), inputs)

    def _elemwise(self, operation: object, *inputs: object, **kwargs: object) -> object:
        """Apply a ufunc of `dask.array`, which asks its arguments for this method, as that of NumPy."""
        return self.__array_ufunc__(operation, "__call__", *inputs, **kwargs)

    def __array_function__(self, function: Any, types: object, arguments: Any, options: Any) -> object:
        if function.__name__ in _REDUCTIONS and arguments and arguments[0] is self:
            return getattr(self, function.__name__)(*arguments[1:], **options)
        if any(isinstance(each, CountArray) for each in arguments):
            return _applied(partial(function, **options), arguments)
        return _counts(super().__array_function__(function, types, arguments, options))

    @property
    def blocks(self) -> BlockView:
        """Its blocks by number, of which some are a `CountArray`, too."""
        return _Blocks(self)

    def copy(self) -> CountArray:
        """Return the same array: Dask's arrays do not change."""
        return CountArray.of(super().copy())

    def __copy__(self) -> CountArray:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, object]) -> CountArray:
        return self.copy()

    def __reduce__(self) -> tuple[object, ...]:
        _, arguments = super().__reduce__()
        return _rebuilt, arguments

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None, **options: object
    ) -> np.ndarray:
        return np.asarray(self._whole().compute(), self.dtype if dtype is None else dtype)

    def _whole(self) -> da.Array:
        """Return the array with blocks of NumPy and its own type, if they are not too large."""
        if math.prod(max(sizes, default=0) for sizes in self.chunks) > _MOST_DENSE:
            raise _unfit(self)
        return _as_numpy(self).astype(self.dtype)

    @property
    def real(self) -> CountArray:
        """The array itself."""
        return self

    @property
    def vindex(self) -> object:
        """Its elements by row and column, as `dask.array.Array.vindex`."""
        return self._whole().vindex

    def __dask_postpersist__(self) -> Any:
        rebuild, arguments = super().__dask_postpersist__()
        return partial(_persisted, rebuild), arguments

    def _product(self, one: object, other: object) -> da.Array:
        """Return a matrix product; refuse unfolded fingerprints, for which it would not fit into memory."""
        if (widest := max(max(sizes, default=0) for sizes in self.chunks)) > _MOST_MULTIPLIED:
            raise InputError(
                f"A matrix product of {widest:,} columns does not fit into memory: use a store of folded "
                "fingerprints (`daskrf fingerprint --size 2048`)."
            )
        return self._result(da.matmul(*map(_wide, (one, other))))


def _reduction(name: str) -> Callable[..., object]:
    def method(self: CountArray, *arguments: object, **options: object) -> da.Array:
        return self._result(getattr(_wide(self), name)(*arguments, **options))

    method.__name__, method.__doc__ = name, f"See `dask.array.Array.{name}`."
    return method


def _elementwise(name: str) -> Callable[..., object]:
    def method(self: CountArray, *arguments: object, **options: object) -> object:
        return _applied(lambda array, *others: getattr(array, name)(*others, **options), (self, *arguments))

    method.__name__, method.__doc__ = name, f"See `dask.array.Array.{name}`."
    return method


def _of_elements(name: str) -> Callable[..., object]:
    def method(self: CountArray, *arguments: object, **options: object) -> object:
        return getattr(self._whole(), name)(*arguments, **options)

    method.__name__, method.__doc__ = name, f"See `dask.array.Array.{name}`; for folded fingerprints."
    return method


for _name in _REDUCTIONS:
    setattr(CountArray, _name, _reduction(_name))
for _name in _ELEMENTWISE:
    setattr(CountArray, _name, _elementwise(_name))
for _name in _OF_ELEMENTS:
    setattr(CountArray, _name, _of_elements(_name))


class _Blocks(BlockView):
    def __getitem__(self, index: object) -> CountArray:
        return CountArray.of(super().__getitem__(index))


def _rebuilt(*arguments: Any) -> CountArray:
    return CountArray(*arguments)


def _persisted(rebuild: Callable[..., Any], graph: Any, *arguments: Any, **options: Any) -> Any:
    return CountArray.of(rebuild(graph, *arguments, **options))


def _applied(function: Callable[..., object], arguments: Sequence[object]) -> object:
    """Return a function of arrays, of which some are a `CountArray`.

    Blocks of pydata/sparse cannot be summed if they differ in size and have something else than zeros where
    nothing is stored, nor do they take NumPy arrays where that would make them dense.
    """
    result = function(*map(_plain, arguments))
    meta = getattr(result, "_meta", None)
    counts = [each for each in arguments if isinstance(each, CountArray)]
    others: list[Any] = [each for each in arguments if not isinstance(each, CountArray)]
    is_mixed = any(np.shape(each) for each in others)
    if isinstance(meta, pydata.COO) and meta.fill_value == 0 and not is_mixed:
        return CountArray.of(result)
    if not any(math.prod(max(sizes, default=0) for sizes in each.chunks) > _MOST_DENSE for each in counts):
        return function(*map(_as_numpy, arguments))
    if isinstance(meta, pydata.COO) and meta.fill_value != 0:
        raise _unfit(*counts)
    return _counts(result)


def _unfit(*counts: CountArray) -> InputError:
    """Return the error for a dense result of unfolded fingerprints."""
    return InputError(
        f"The result would hold a number for each of {max(each.shape[1] for each in counts):,} columns: use "
        "a store of folded fingerprints (`daskrf fingerprint --size 2048`)."
    )


def _counts(result: object) -> object:
    """Return a Dask array with sparse blocks as a `CountArray`, and anything else unchanged."""
    meta = getattr(result, "_meta", None)
    return CountArray.of(result) if isinstance(meta, pydata.COO) or sparse.issparse(meta) else result


def _coo(block: object) -> object:
    return pydata.COO.from_scipy_sparse(block)


def _dense(block: object) -> object:
    return block.todense() if isinstance(block, pydata.SparseArray) else np.asarray(block)


def _wide(array: Any, kinds: str = "iub") -> Any:
    """Return an array whose sums and products do not overflow; types of other kinds stay as they are."""
    if not isinstance(array, CountArray):
        return array
    counts = array._pydata()
    return counts.astype(np.int64) if counts.dtype.kind in kinds else counts


def _as_numpy(value: Any) -> da.Array:
    """Return a `CountArray` as a Dask array with blocks of NumPy."""
    if not isinstance(value, CountArray):
        return value
    plain = _plain(value)
    return plain.map_blocks(_dense, dtype=plain.dtype, meta=np.empty((0,) * plain.ndim, plain.dtype))


def _plain(value: Any) -> Any:
    """Return a `CountArray` as a Dask array with blocks of pydata/sparse, whose truth values stay such."""
    return _wide(value, "iu")
