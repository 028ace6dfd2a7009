"""LINGO profiles: how often each window of four characters occurs in a SMILES."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MAX_COUNT
from daskrf.errors import InputError
from daskrf.molecules.counts.features import Features

"""Sparse rows: pointer (n + 1), identifiers (ascending in a row) and counts."""

WINDOW = 4

# Outside brackets a digit closes a ring; inside it is an isotope, a hydrogen count, a charge or a class.
_DIGITS_OR_BRACKET = re.compile(r"\[[^\]]*\]?|[1-9]")


def lingos(smiles: Iterable[str]) -> Features:
    """Return the LINGOs of SMILES as sparse rows.

    Ring-closure digits become 0, as in SIML (Haque, Pande & Walters 2010), so that ring numbering does not
    matter; digits within brackets stay, and Cl and Br stay two characters. A window's identifier is its four
    bytes, the first one highest, so it is unique. A SMILES of fewer than four characters has no LINGOs.

    Raises
    ------
    InputError
        If a character is not ASCII.
    """
    texts = []
    for text in smiles:
        if not text.isascii():
            raise InputError(f"{text[:50]!r} is not SMILES: a character is not ASCII; remove or repair it.")
        texts.append(_DIGITS_OR_BRACKET.sub(lambda match: match[0] if match[0][0] == "[" else "0", text))
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    sizes = np.maximum(lengths - (WINDOW - 1), 0)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    letters = np.frombuffer("".join(texts).encode() + bytes(WINDOW), np.uint8).astype(np.uint64)
    # Window w of a row begins at the row's start plus w.
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1] - indptr[:-1]
    at = np.arange(indptr[-1]) + np.repeat(starts, sizes)
    words = np.zeros(at.size, np.uint64)
    for place in range(WINDOW):
        words = words << np.uint64(8) | letters[at + place]
    return sum_equal(indptr, words, np.ones(at.size, np.int64))


def lingo_counts(smiles: Iterable[str]) -> sp.csr_matrix:
    """Return the LINGO counts of SMILES as written: nothing is parsed or canonicalized.

    Their min-max kernel, `daskrf.kernels.TanimotoMinMax`, is the LINGO similarity of Grant et al. 2006 and
    SIML; `daskrf.kernels.Intersection` is the size of the intersection, the SCISSORS kernel of figure 1.
    ``FingerprintSpec("lingo")`` computes the same from RDKit's canonical SMILES.

    Parameters
    ----------
    smiles : iterable of str
        Use canonical SMILES: another spelling of the same molecule has other windows.

    Returns
    -------
    CSR matrix of uint16, shape (n, 2**32)
        Counts above 65,535 are stored as 65,535.

    Raises
    ------
    InputError
        If a character is not ASCII.

    Notes
    -----
    Source: Vidal, Thormann & Pons 2005; see `lingos` for the treatment of digits. Figure 1 of Haque & Pande
    2011 lacks a '@' in both molecules: their intersections are 22 and 8, as for (S)-mandelate and the (2R)
    diol that their names denote. The 28 of mandelate with itself is the number of characters in its SMILES,
    which has 25 windows.

    Examples
    --------
    >>> from daskrf.kernels import Intersection
    >>> X = lingo_counts(["c1ccc(cc1)[C@@H](C(=O)[O-])O", "c1cc(ccc1OC[C@@H](CO)O)Cl"])
    >>> Intersection()(X).astype(int).tolist()
    [[25, 8], [8, 22]]
    """
    indptr, words, counts = lingos(smiles)
    data = np.minimum(counts, MAX_COUNT).astype(np.uint16)
    return sp.csr_matrix((data, words.astype(np.int64), indptr), shape=(indptr.size - 1, 2**32))


def sum_equal(
    indptr: npt.NDArray[np.int64], ids: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64]
) -> Features:
    """Sort the 32-bit identifiers of each row and sum the counts of equal ones."""
    row = np.repeat(np.arange(len(indptr) - 1, dtype=np.uint64), np.diff(indptr))
    keys = row << np.uint64(32) | ids
    order = np.argsort(keys)
    keys, first = np.unique(keys[order], return_index=True)
    if len(keys):
        counts = np.add.reduceat(counts[order], first)
    edges = np.arange(len(indptr), dtype=np.uint64) << np.uint64(32)
    return np.searchsorted(keys, edges).astype(np.int64), keys & np.uint64(0xFFFFFFFF), counts
