"""RDKit's sparse count vectors as bytes, and many of them as arrays, without a Python dict for each."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["packed", "unpacked", "width_of"]

_VERSION = 1
_HEADER = struct.Struct("<II")


def width_of(size: int) -> int:
    """Return how many bytes an identifier has in vectors that are folded to `size` columns (0: unfolded)."""
    return 4 if size else 8


def packed(vector: Any, width: int) -> bytes:
    """Return the entries of a ``SparseIntVect``: (identifier: `width` bytes, count: int32), ascending.

    ``GetNonzeroElements`` makes a dict of Python integers, and turning dicts into arrays costs as much again
    as counting. ``ToBinary`` is the vector's pickle: little-endian uint32 version (1), uint32 width w of an
    identifier in bytes, the length (w bytes), the number of entries (w bytes), then the entries. Should
    another RDKit write another version, the dict is read.
    """
    binary: bytes = vector.ToBinary()
    if _HEADER.unpack_from(binary) == (_VERSION, width):
        return binary[8 + 2 * width :]
    return np.array(sorted(vector.GetNonzeroElements().items()), dtype=_entry(width)).tobytes()


def unpacked(
    bodies: Sequence[bytes], width: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return indptr (int64, n + 1), identifiers (uint64, ascending in a row) and counts (int64).

    Examples
    --------
    >>> from rdkit import Chem
    >>> from rdkit.Chem import rdFingerprintGenerator
    >>> from daskrf.molecules.countvectors import packed, unpacked
    >>> generator = rdFingerprintGenerator.GetMorganGenerator(radius=0)
    >>> vector = generator.GetSparseCountFingerprint(Chem.MolFromSmiles("CCO"))
    >>> indptr, identifiers, counts = unpacked([packed(vector, 8)], 8)
    >>> indptr.tolist(), counts.tolist()
    ([0, 3], [1, 1, 1])
    """
    entry = _entry(width)
    sizes = np.fromiter(map(len, bodies), dtype=np.int64, count=len(bodies))
    indptr = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes // entry.itemsize, out=indptr[1:])
    entries = np.frombuffer(b"".join(bodies), dtype=entry)
    return indptr, entries["id"].astype(np.uint64), entries["count"].astype(np.int64)


def _entry(width: int) -> np.dtype[np.void]:
    return np.dtype([("id", f"<u{width}"), ("count", "<i4")])
