"""Dask arrays of counts in sparse blocks, on which sums and products work."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import dask.array as da
import numpy as np
import sparse as pydata

from daskrf.errors import InputError

_REDUCTIONS = ("sum", "mean", "std", "var", "max", "min", "prod", "any", "all")
_MOST_MULTIPLIED = 1 << 28  # columns of a block in a product: each takes 8 bytes
_MOST_DENSE = 1 << 26  # elements of a block of NumPy


class CountArray(da.Array):
    """A Dask array with blocks of `scipy.sparse.csr_matrix`, which NumPy's functions do not accept.

    Sums, means, extremes and matrix products use pydata/sparse. They are exact, since counts are converted to
    64-bit integers. Results whose blocks have up to 2^26 elements, as with folded fingerprints, are NumPy
    arrays; larger ones have blocks of `sparse.COO`. Elementwise operations are SciPy's.
    """

    @classmethod
    def of(cls, array: Any) -> Self:
        """Return a Dask array as a `CountArray`."""
        return cls(array.dask, array.name, array.chunks, dtype=array.dtype, meta=array._meta)

    def _pydata(self) -> Any:
        """Return the array with blocks of pydata/sparse."""
        plain: Any = da.Array(self.dask, self.name, self.chunks, dtype=self.dtype, meta=self._meta)
        return plain if isinstance(self._meta, pydata.COO) else plain.map_blocks(_coo, meta=_coo(self._meta))

    def _result(self, result: Any) -> Any:
        """Return the result of a reduction or product with blocks of NumPy, if they are not too large."""
        if math.prod(max(sizes, default=0) for sizes in result.chunks) > _MOST_DENSE:
            return result
        return result.map_blocks(_dense, dtype=result.dtype, meta=np.empty((0,) * result.ndim, result.dtype))

    @property
    def T(self) -> CountArray:
        """The transposed array."""
        return self.transpose()

    def transpose(self, *axes: Any) -> CountArray:
        """Return the transposed array."""
        return CountArray.of(self._pydata().transpose(*axes))

    def __getitem__(self, index: Any) -> Any:
        selected = super().__getitem__(index)
        return CountArray.of(selected) if selected.ndim == self.ndim else selected

    def rechunk(self, *arguments: Any, **options: Any) -> CountArray:
        return CountArray.of(super().rechunk(*arguments, **options))

    def __matmul__(self, other: Any) -> Any:
        return self._product(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._product(other, self)

    def dot(self, other: Any) -> Any:
        """Return the matrix product."""
        return self @ other

    def __array_ufunc__(self, numpy_ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any:
        if numpy_ufunc is np.matmul and method == "__call__":
            return self._product(*inputs)
        return super().__array_ufunc__(numpy_ufunc, method, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        if function.__name__ in _REDUCTIONS and arguments and arguments[0] is self:
            return getattr(self, function.__name__)(*arguments[1:], **options)
        return super().__array_function__(function, types, arguments, options)

    def _product(self, one: Any, other: Any) -> Any:
        """Return a matrix product; refuse unfolded fingerprints, for which it would not fit into memory."""
        if (widest := max(max(sizes, default=0) for sizes in self.chunks)) > _MOST_MULTIPLIED:
            raise InputError(
                f"A matrix product of {widest:,} columns does not fit into memory: use a store of folded "
                "fingerprints (`daskrf fingerprint --size 2048`)."
            )
        return self._result(da.matmul(*map(_wide, (one, other))))


def _reduction(name: str) -> Callable[..., Any]:
    def method(self: CountArray, *arguments: Any, **options: Any) -> Any:
        return self._result(getattr(_wide(self), name)(*arguments, **options))

    method.__name__, method.__doc__ = name, f"See `dask.array.Array.{name}`."
    return method


for _name in _REDUCTIONS:
    setattr(CountArray, _name, _reduction(_name))


def _coo(block: Any) -> Any:
    return pydata.COO.from_scipy_sparse(block)


def _dense(block: Any) -> Any:
    return block.todense() if isinstance(block, pydata.SparseArray) else np.asarray(block)


def _wide(array: Any) -> Any:
    """Return an array whose sums and products do not overflow."""
    if not isinstance(array, CountArray):
        return array
    counts = array._pydata()
    return counts.astype(np.int64) if counts.dtype.kind in "iub" else counts
