"""Sparse rows as JSON-able text, exactly and small."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MAX_COUNT
from daskrf.errors import InputError

__all__ = ["compact", "decode_rows", "encode_rows", "pack", "unpack"]


def compact(csr: sp.csr_matrix) -> sp.csr_matrix:
    """Return a canonical CSR matrix as an own copy with data of uint16, or float64 where they do not fit.

    Examples
    --------
    >>> compact(sp.csr_matrix([[0.0, 2.0]])).dtype, compact(sp.csr_matrix([[0.5]])).dtype
    (dtype('uint16'), dtype('float64'))
    """
    data = csr.data
    counts = not data.size or (data.min() >= 0 and data.max() <= MAX_COUNT and (data == np.floor(data)).all())
    kind = np.uint16 if counts else np.float64
    parts = (data.astype(kind), csr.indices.astype(np.int64), csr.indptr.astype(np.int64))
    return _matrix(parts, csr.shape)


def encode_rows(csr: sp.csr_matrix) -> dict[str, Any]:
    """Return a matrix of :func:`compact` as a JSON-able dictionary: delta-coded, zlib, base64."""
    steps = np.diff(csr.indices.astype(np.int64), prepend=0)
    return {
        "shape": [int(size) for size in csr.shape],
        "dtype": csr.dtype.name,
        "counts": pack(np.diff(csr.indptr).astype("<i8")),
        "steps": pack(steps.astype("<i8")),
        "data": pack(csr.data.astype(csr.dtype.newbyteorder("<"))),
    }


def decode_rows(encoded: dict[str, Any]) -> sp.csr_matrix:
    """Undo :func:`encode_rows` exactly.

    Raises
    ------
    InputError
        If the text is not what that returns.
    """
    try:
        n, width = (int(size) for size in encoded["shape"])
        indptr = np.concatenate([[0], np.cumsum(unpack(encoded["counts"], "<i8"))]).astype(np.int64)
        indices = np.cumsum(unpack(encoded["steps"], "<i8")).astype(np.int64)
        kind = {"uint16": "<u2", "float64": "<f8"}[encoded["dtype"]]
        data = unpack(encoded["data"], kind).astype(np.dtype(kind).newbyteorder("="))
        return _matrix((data, indices, indptr), (n, width))
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise InputError(
            f"The stored rows of the feature map cannot be read ({error}); make it anew."
        ) from None


def _matrix(parts: tuple[npt.NDArray[Any], ...], shape: tuple[int, int]) -> sp.csr_matrix:
    matrix = sp.csr_matrix(parts, shape=shape)
    matrix.has_canonical_format = True
    return matrix


def pack(values: npt.NDArray[Any]) -> str:
    """Return numbers as text: zlib, base64."""
    # All first bytes, then all second bytes: most high bytes are zero.
    planes = np.ascontiguousarray(values).view(np.uint8).reshape(-1, values.itemsize).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()


def unpack(text: str, kind: str) -> npt.NDArray[Any]:
    """Undo :func:`pack` exactly, for numbers of the dtype `kind`."""
    raw = zlib.decompress(base64.b64decode(text))
    planes = np.frombuffer(raw, np.uint8).reshape(np.dtype(kind).itemsize, -1)
    return np.ascontiguousarray(planes.T).view(kind).reshape(-1)
