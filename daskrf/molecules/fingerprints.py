"""Count fingerprints of SMILES, as CSR matrices, through RDKit's fingerprint generators."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.arrays import MAX_COUNT
from daskrf.errors import InputError
from daskrf.molecules.isolation import Lost, each
from daskrf.molecules.lingo import Features, lingos, sum_equal
from daskrf.molecules.spec import FRAGMENTS, FingerprintSpec
from daskrf.seeds import splitmix64

__all__ = ["FingerprintBlock", "FingerprintSpec", "Fingerprinter", "rdkit_version"]


@dataclasses.dataclass(frozen=True)
class FingerprintBlock:
    """The fingerprints of some SMILES, and what happened to the others.

    Attributes
    ----------
    fingerprints : scipy.sparse.csr_matrix
        Shape (n_kept, n_columns), uint16 counts, sorted unique column indices (int64 if unfolded, else
        int32).
    kept : ndarray of int64, shape (n_kept,)
        Positions in the input of the rows of `fingerprints`, ascending.
    rejects : list of (int, str)
        Position and reason of every other input, ascending.
    saturated : int
        Number of counts above 65,535, which are stored as 65,535.
    empty : int
        Number of rows without any feature; they are kept.
    """

    fingerprints: sparse.csr_matrix
    kept: npt.NDArray[np.int64]
    rejects: list[tuple[int, str]]
    saturated: int
    empty: int


class Fingerprinter:
    """Function from SMILES to count fingerprints.

    RDKit works in a helper process (`daskrf.molecules.isolation`), one for each thread that calls at the same
    time: a SMILES that it takes too long for, or crashes on, is rejected as any other that it cannot read.

    Parameters
    ----------
    spec : FingerprintSpec, optional
        What to count.
    fragments : {"keep", "largest", "reject"}
        Molecules of several fragments (salts, mixtures): all of it as one molecule; the fragment with most
        heavy atoms (then with most atoms, then the first); or a reject.

    Raises
    ------
    InputError
        If `fragments` is none of these.

    Examples
    --------
    >>> from daskrf.molecules import Fingerprinter
    >>> block = Fingerprinter()(["CCO", "C1CC", "CC(=O)[O-].[Na+]"])
    >>> block.fingerprints.shape, block.kept.tolist()
    ((2, 4294967296), [0, 2])
    >>> block.rejects
    [(1, 'RDKit cannot parse: unclosed ring')]
    """

    def __init__(self, spec: FingerprintSpec | None = None, fragments: str = "keep") -> None:
        if fragments not in FRAGMENTS:
            raise InputError(f"fragments must be one of {', '.join(FRAGMENTS)}, not {fragments!r}.")
        self.spec = spec or FingerprintSpec()
        self.fragments = fragments

    def __call__(self, smiles: Sequence[str]) -> FingerprintBlock:
        """Return the fingerprints of `smiles`."""
        kept: list[int] = []
        rejects: list[tuple[int, str]] = []
        bodies: list[bytes] = []
        counter = "daskrf.molecules.counter:Counter"
        for position, found in enumerate(each(counter, (self.spec, self.fragments), smiles)):
            if isinstance(found, bytes):
                kept.append(position)
                bodies.append(found)
            else:
                rejects.append((position, f"RDKit {found.reason}" if isinstance(found, Lost) else found))
        matrix, saturated = self._matrix(*self._features(bodies))
        empty = int(np.count_nonzero(np.diff(matrix.indptr) == 0))
        return FingerprintBlock(matrix, np.array(kept, dtype=np.int64), rejects, saturated, empty)

    def _features(self, bodies: list[bytes]) -> Features:
        """Return the features of molecules from what helpers have sent."""
        if self.spec.kind == "lingo":
            return lingos(body.decode() for body in bodies)
        entries = np.frombuffer(b"".join(bodies), [("id", f"<u{self.spec.width}"), ("count", "<i4")])
        sizes = np.fromiter(map(len, bodies), dtype=np.int64, count=len(bodies))
        indptr = np.concatenate([[0], np.cumsum(sizes // entries.itemsize)])
        return indptr, entries["id"].astype(np.uint64), entries["count"].astype(np.int64)

    def _matrix(
        self, indptr: npt.NDArray[np.int64], ids: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64]
    ) -> tuple[sparse.csr_matrix, int]:
        """Return the CSR matrix of the features, and how many counts did not fit."""
        kind, size = self.spec.kind, self.spec.size
        if (kind, bool(size)) in (("torsion", False), ("lingo", True)):
            hashed = splitmix64(ids) >> np.uint64(32)
            indptr, ids, counts = sum_equal(indptr, hashed % np.uint64(size) if size else hashed, counts)
        if not self.spec.counts:
            counts = np.minimum(counts, 1)
        saturated = int(np.count_nonzero(counts > MAX_COUNT))
        data = np.minimum(counts, MAX_COUNT).astype(np.uint16)
        dtype = np.int32 if self.spec.size else np.int64
        shape = (len(indptr) - 1, self.spec.n_columns)
        matrix = sparse.csr_matrix(shape, dtype=np.uint16)
        # The constructor would spend a pass on choosing index dtypes and checking what is right already.
        matrix.data, matrix.indices, matrix.indptr = data, ids.astype(dtype), indptr.astype(dtype)
        matrix.has_canonical_format = True
        return matrix, saturated


def rdkit_version() -> str:
    """Return the version of RDKit, on which the bytes of fingerprints depend."""
    import rdkit  # here alone: helper processes do the rest

    return str(rdkit.__version__)
