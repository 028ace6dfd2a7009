"""Read many RDKit sparse count vectors at once, without a Python dict for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["CountReader"]

_VERSION = 1


class CountReader:
    """Collects RDKit ``SparseIntVect`` count vectors (all of one class) and gives their features as arrays.

    ``GetNonzeroElements`` makes a dict of Python integers for each molecule, and turning dicts into arrays
    costs as much again. ``ToBinary`` is the vector's pickle: little-endian uint32 version (1), uint32 width w
    of an identifier in bytes, the length (w bytes), the number of entries (w bytes), then (identifier: w
    bytes, count: int32) in ascending order of the identifier; NumPy reads a whole block of them in one pass.
    Should another RDKit write another version, the dicts are read.

    Examples
    --------
    >>> from rdkit import Chem
    >>> from rdkit.Chem import rdFingerprintGenerator
    >>> from daskrf.molecules.unpack import CountReader
    >>> reader = CountReader()
    >>> generator = rdFingerprintGenerator.GetMorganGenerator(radius=0)
    >>> reader.add(generator.GetSparseCountFingerprint(Chem.MolFromSmiles("CCO")))
    >>> indptr, identifiers, counts = reader.arrays()
    >>> indptr.tolist(), counts.tolist()
    ([0, 3], [1, 1, 1])
    """

    def __init__(self) -> None:
        self._bodies: list[bytes] = []
        self._width = 0  # of an identifier, in bytes; 0 until the first vector tells
        self._by_dict = False

    def add(self, vector: Any) -> None:
        """Append the features of one vector."""
        binary = vector.ToBinary()
        if not self._width:
            version, self._width = (int(word) for word in np.frombuffer(binary[:8], dtype="<u4"))
            self._by_dict = version != _VERSION or self._width not in (4, 8)
            self._width = 8 if self._by_dict else self._width
        if self._by_dict:
            elements = sorted(vector.GetNonzeroElements().items())
            self._bodies.append(np.array(elements, dtype=self._entry).tobytes())
        else:
            self._bodies.append(binary[8 + 2 * self._width :])

    @property
    def _entry(self) -> np.dtype[np.void]:
        return np.dtype([("id", f"<u{self._width or 8}"), ("count", "<i4")])

    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """Return indptr (int64, n + 1), identifiers (uint64, ascending in a row) and counts (int64)."""
        sizes = np.fromiter(map(len, self._bodies), dtype=np.int64, count=len(self._bodies))
        indptr = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes // self._entry.itemsize, out=indptr[1:])
        entries = np.frombuffer(b"".join(self._bodies), dtype=self._entry)
        return indptr, entries["id"].astype(np.uint64), entries["count"].astype(np.int64)
