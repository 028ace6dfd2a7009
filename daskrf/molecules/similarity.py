"""Tanimoto similarities of molecules, by Morgan fingerprints of radius 2 without counts (unfolded ECFP4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.molecules.fingerprints import Fingerprinter
from daskrf.molecules.spec import FingerprintSpec

__all__ = ["Similarities", "nearest"]

_BLOCK = 2048  # molecules compared at a time


class Similarities:
    """Similarities of some molecules to one of them at a time; 0 where there is no fingerprint.

    Source: Rogers & Hahn 2010, Extended-connectivity fingerprints (J. Chem. Inf. Model. 50).

    Parameters
    ----------
    smiles : sequence of str

    Examples
    --------
    >>> Similarities(["CCO", "CCCO", "c1ccccc1"]).to(0).round(2).tolist()
    [1.0, 0.56, 0.0]
    """

    def __init__(self, smiles: Sequence[str]) -> None:
        self._rows = _bits(smiles)
        self._sizes = np.diff(self._rows.indptr).astype(np.float64)

    def to(self, number: int) -> npt.NDArray[np.float64]:
        """Return the similarity of each molecule to the one with this number."""
        one = np.zeros(self._rows.shape[1], np.float32)
        one[self._rows.indices[self._rows.indptr[number] : self._rows.indptr[number + 1]]] = 1.0
        shared = (self._rows @ one).astype(np.float64)
        either = self._sizes + self._sizes[number] - shared
        return np.divide(shared, either, out=np.zeros_like(shared), where=either > 0)


def nearest(
    smiles: Sequence[str], others: Sequence[str]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the similarity of each molecule to the nearest of `others`, and which one that is.

    Examples
    --------
    >>> similarity, index = nearest(["CCO", "c1ccccc1"], ["CCCO", "OCC", "CC"])
    >>> similarity.round(2).tolist(), index.tolist()
    ([1.0, 0.0], [1, 0])
    """
    best, index = np.zeros(len(smiles)), np.zeros(len(smiles), np.int64)
    rows = _bits([*smiles, *others])
    sizes = np.diff(rows.indptr).astype(np.float64)
    own, own_sizes = rows[: len(smiles)], sizes[: len(smiles), None]
    for start in range(len(smiles), rows.shape[0], _BLOCK):
        part = slice(start, start + _BLOCK)
        shared = (own @ rows[part].T).toarray().astype(np.float64)
        either = own_sizes + sizes[part] - shared
        found = np.divide(shared, either, out=np.zeros_like(shared), where=either > 0)
        place = found.argmax(axis=1)
        value = found[np.arange(len(own_sizes)), place]
        better = value > best
        best[better], index[better] = value[better], place[better] + start - len(smiles)
    return best, index


def _bits(smiles: Sequence[str]) -> sparse.csr_matrix:
    """Return the fingerprints in columns that some molecule has, as ones; empty where there is none."""
    block = Fingerprinter(FingerprintSpec("morgan", radius=2, counts=False))(list(smiles))
    found = block.fingerprints
    columns, indices = np.unique(found.indices, return_inverse=True)
    sizes = np.zeros(len(smiles) + 1, np.int64)
    sizes[1 + block.kept] = np.diff(found.indptr)
    ones = np.ones(len(indices), np.float32)
    return sparse.csr_matrix((ones, indices, np.cumsum(sizes)), shape=(len(smiles), max(1, len(columns))))
