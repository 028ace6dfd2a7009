"""Tanimoto similarities of molecules, by Morgan fingerprints of radius 2 without counts (unfolded ECFP4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.kernels.tanimoto import TanimotoMinMax
from daskrf.molecules.counts.fingerprints import Fingerprinter
from daskrf.molecules.counts.spec import FingerprintSpec


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
        self._nonempty = np.diff(self._rows.indptr) > 0
        self._against = TanimotoMinMax().against(self._rows)

    def to(self, number: int) -> npt.NDArray[np.float64]:
        """Return the similarity of each molecule to the one with this number."""
        if not self._nonempty[number]:
            return np.zeros(len(self._nonempty))
        return self._against(self._rows[number])[0]


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
    nonempty = np.flatnonzero(np.diff(rows.indptr)[: len(smiles)])
    if not len(others) or not len(nonempty):
        return best, index
    for span, block in TanimotoMinMax().blocks(rows[nonempty], rows[len(smiles) :]):
        index[nonempty[span]] = block.argmax(axis=1)
        best[nonempty[span]] = block.max(axis=1)
    return best, index


def _bits(smiles: Sequence[str]) -> sparse.csr_matrix:
    """Return the fingerprints as ones; a row without any where there is no fingerprint."""
    block = Fingerprinter(FingerprintSpec("morgan", radius=2, counts=False))(list(smiles))
    fingerprints = block.fingerprints
    sizes = np.zeros(len(smiles) + 1, np.int64)
    sizes[1 + block.kept] = np.diff(fingerprints.indptr)
    parts = fingerprints.data, fingerprints.indices, np.cumsum(sizes)
    return sparse.csr_matrix(parts, shape=(len(smiles), fingerprints.shape[1]))
