"""Maps that keep some of the rows they are fitted to, and sparse rows as compact JSON-able text."""

from __future__ import annotations

import base64
import zlib
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MAX_COUNT, MatrixLike
from daskrf.errors import InputError
from daskrf.features.featuremap import FeatureMap


class SampleMap(FeatureMap):
    """A map that is fitted to a sample of rows, and keeps some of them or means: landmarks or centroids."""

    learns_from = "sample"

    kept_rows: ClassVar[str]
    """Name of the kept rows: in the state, and, with an underscore added, as an attribute."""

    def is_fitted(self) -> bool:
        return hasattr(self, f"{self.kept_rows}_")

    def fit(self, X: MatrixLike | None = None, y: object = None) -> Self:
        """Learn from a sample of the rows of `X`, shape (n, d); None keeps what is known.

        Raises
        ------
        InputError
            If a parameter is out of range, or `X` is not what the map serves.
        """
        if X is not None:
            self._fit(X)
        return self

    @abstractmethod
    def _fit(self, X: MatrixLike) -> None:
        """Learn from the rows of `X`, and call `_keep`."""

    def _keep(self, rows: sp.csr_matrix, text: dict[str, Any] | None = None) -> None:
        """Keep the rows, and their text in a state if there is one."""
        setattr(self, f"{self.kept_rows}_", rows)
        self.n_features_in_ = int(rows.shape[1])
        self._text = text
        self._cached = None

    def _fitted_state(self) -> dict[str, object]:
        fitted = super()._fitted_state()
        if not self.is_fitted():
            return fitted
        # Keep the text instead of making it again: another zlib may compress the same rows to other bytes.
        if self._text is None:
            self._text = encode_rows(getattr(self, f"{self.kept_rows}_"))
        return {**fitted, self.kept_rows: self._text}

    def _restore(self, fitted: dict[str, Any]) -> None:
        if fitted:
            self._keep(decode_rows(fitted[self.kept_rows]), fitted[self.kept_rows])


def compact(csr: sp.csr_matrix) -> sp.csr_matrix:
    """Return a canonical CSR matrix as a copy with data of uint16, or of float64 if they do not fit.

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


def encode_rows(csr: sp.csr_matrix) -> dict[str, object]:
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
    """Rebuild a matrix exactly from :func:`encode_rows`.

    Raises
    ------
    InputError
        If the text was not made by that function.
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
            f"The stored rows of the feature map cannot be read ({error}); make it again."
        ) from None


def _matrix(parts: tuple[npt.NDArray[np.number], ...], shape: tuple[int, int]) -> sp.csr_matrix:
    matrix = sp.csr_matrix(parts, shape=shape)
    matrix.has_canonical_format = True
    return matrix


def pack(values: npt.NDArray[np.floating]) -> str:
    """Return numbers as text: zlib, base64."""
    # All first bytes, then all second bytes, and so on: most high bytes are zero.
    planes = np.ascontiguousarray(values).view(np.uint8).reshape(-1, values.itemsize).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()


def unpack(text: str, kind: str) -> npt.NDArray[np.floating]:
    """Rebuild numbers of dtype `kind` exactly from :func:`pack`."""
    raw = zlib.decompress(base64.b64decode(text))
    planes = np.frombuffer(raw, np.uint8).reshape(np.dtype(kind).itemsize, -1)
    return np.ascontiguousarray(planes.T).view(kind).reshape(-1)
