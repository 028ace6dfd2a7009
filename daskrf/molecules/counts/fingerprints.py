"""Count fingerprints of SMILES, as CSR matrices: those of RDKit's fingerprint generators."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.arrays import MAX_COUNT
from daskrf.engine import starts_soon
from daskrf.errors import InputError
from daskrf.molecules.counts.agreement import agrees
from daskrf.molecules.counts.features import NOTHING, Features, in_order, joined, side_by_side
from daskrf.molecules.counts.reading import read
from daskrf.molecules.counts.spec import FRAGMENTS, FingerprintSpec
from daskrf.molecules.counts.unpacking import unpacked
from daskrf.molecules.isolation import Lost, each

LEAST_READ = 20_000
"""Molecules that a process leaves to RDKit before the engine reads.

The engine is compiled first, if that was never done here: for fewer, that would take longer than it saves.
"""

LEAST_COMPILED = 2_000
"""The same if it has been compiled: then it is loaded only, and compared with RDKit."""

MANY = 100_000
"""Molecules of a job for which that counts for nothing: the engine reads the first of them, too."""

MANY_COMPILED = 10_000
"""The same if the engine has been compiled."""


@dataclasses.dataclass(frozen=True)
class FingerprintBlock:
    """The fingerprints of some SMILES, and the reasons why others were rejected.

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
        Number of rows without any features; they are kept.
    """

    fingerprints: sparse.csr_matrix
    kept: npt.NDArray[np.int64]
    rejects: list[tuple[int, str]]
    saturated: int
    empty: int


class Fingerprinter:
    """Function from SMILES to count fingerprints.

    After the first 2,000 molecules of a process (20,000 until the engine has been compiled), or from the
    first on if it is told that many follow (`expect`), the engine reads those that it counts as RDKit does
    (`daskrf.molecules.counts.reading`). RDKit reads the others in a helper process
    (`daskrf.molecules.isolation`), one per thread that calls at the same time: a SMILES that takes too long
    or crashes RDKit is rejected like one that RDKit cannot read.

    Parameters
    ----------
    spec : FingerprintSpec, optional
        The features to count.
    fragments : {"keep", "largest", "reject"}
        How to treat molecules with several fragments (salts, mixtures): keep all as one molecule; keep the
        fragment with the most heavy atoms (then the most atoms, then the first); or reject them.

    Raises
    ------
    InputError
        If `fragments` is none of these.

    Examples
    --------
    >>> from daskrf.molecules import Fingerprinter
    >>> block = Fingerprinter()(["CCO", "C1CC", "CC(=O)[O-].[Na+]"])
    >>> block.fingerprints.shape, block.kept.tolist()
    ((2, 12884901888), [0, 2])
    >>> block.rejects
    [(1, 'RDKit cannot parse: unclosed ring')]
    """

    def __init__(self, spec: FingerprintSpec | None = None, fragments: str = "keep") -> None:
        if fragments not in FRAGMENTS:
            raise InputError(f"fragments must be one of {', '.join(FRAGMENTS)}, not {fragments!r}.")
        self.spec = spec or FingerprintSpec()
        self.fragments = fragments

    def __call__(
        self, smiles: Sequence[str], rewritten: Callable[[list[int]], Sequence[str]] | None = None
    ) -> FingerprintBlock:
        """Return the fingerprints of `smiles`.

        `rewritten` returns the SMILES at some positions as RDKit is to read them, if the engine does not.
        """
        done, read_features = self._read(smiles)
        rest = np.setdiff1d(np.arange(len(smiles)), done)
        texts = [smiles[at] for at in rest.tolist()] if rewritten is None else rewritten(rest.tolist())
        accepted, counted, rejects = self._ask(texts, rest)
        positions = np.concatenate([done, accepted])
        order = np.argsort(positions)
        features = [in_order(order, joined(both)) for both in zip(read_features, counted, strict=True)]
        indptr, ids, counts = side_by_side(features, self.spec.size or 2**32)
        saturated = int(np.count_nonzero(counts > MAX_COUNT))
        dtype = np.int32 if self.spec.n_columns < 2**31 else np.int64
        matrix = sparse.csr_matrix((len(positions), self.spec.n_columns), dtype=np.uint16)
        # The constructor would spend a pass on index dtypes and checks that are not needed here.
        matrix.data = np.minimum(counts, MAX_COUNT).astype(np.uint16)
        matrix.indices, matrix.indptr = ids.astype(dtype), indptr.astype(dtype)
        matrix.has_canonical_format = True
        empty = int(np.count_nonzero(np.diff(indptr) == 0))
        return FingerprintBlock(matrix, positions[order], rejects, saturated, empty)

    def expect(self, n_molecules: int) -> None:
        """Tell how many molecules will follow, here and in other processes: of many, the engine reads all."""
        if n_molecules >= MANY or (n_molecules >= MANY_COMPILED and starts_soon()):
            _seen().number += LEAST_READ

    def prepare(self, smiles: Sequence[str]) -> None:
        """Do at once what is done once in a process, and ask about the ring systems of these SMILES."""
        self(["CCO"])
        self.expect(MANY)
        self._read(smiles)

    def _read(self, smiles: Sequence[str]) -> tuple[npt.NDArray[np.int64], list[Features]]:
        """Return the positions of the SMILES that the engine reads, and their features of each kind."""
        _seen().number += len(smiles)
        if not is_due(_seen().number) or not agrees(self.spec):
            return np.zeros(0, np.int64), [NOTHING] * len(self.spec.kinds)
        return read(smiles, self.spec, dots=self.fragments == "keep")

    def _ask(
        self, texts: Sequence[str], positions: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], list[Features], list[tuple[int, str]]]:
        """Return the positions of the SMILES that RDKit accepts, the features, and why it rejects others."""
        accepted: list[int] = []
        rejects: list[tuple[int, str]] = []
        bodies: list[list[bytes]] = []
        counter = "daskrf.molecules.counts.counter:Counter"
        results = each(counter, (self.spec, self.fragments), texts)
        for position, result in zip(positions.tolist(), results, strict=True):
            if isinstance(result, list):
                accepted.append(position)
                bodies.append(result)
            else:
                rejects.append((position, f"RDKit {result.reason}" if isinstance(result, Lost) else result))
        features = [unpacked(kind, [body[i] for body in bodies]) for i, kind in enumerate(self.spec.kinds)]
        return np.array(accepted, np.int64), features, rejects


def is_due(n_seen: int) -> bool:
    """Return whether the engine reads in a process that has counted so many molecules."""
    return n_seen >= LEAST_READ or (n_seen >= LEAST_COMPILED and starts_soon())


class _Seen:
    """How many molecules this process has counted."""

    number = 0


@functools.cache
def _seen() -> _Seen:
    return _Seen()


def equal_fingerprints(smiles: Sequence[str], spec: FingerprintSpec, fragments: str) -> npt.NDArray[np.int64]:
    """Return a number for each molecule, the same for molecules with the same fingerprint.

    Examples
    --------
    >>> equal_fingerprints(["C[C@H](N)O", "CCO", "C[C@@H](N)O"], FingerprintSpec("morgan"), "keep").tolist()
    [0, 1, 0]
    """
    block, numbers = Fingerprinter(spec, fragments)(smiles), np.arange(len(smiles))
    X, first = block.fingerprints, dict[bytes, int]()
    for row, place in enumerate(block.kept.tolist()):
        entries = slice(X.indptr[row], X.indptr[row + 1])
        numbers[place] = first.setdefault(X.indices[entries].tobytes() + X.data[entries].tobytes(), place)
    return numbers


def rdkit_version() -> str:
    """Return the version of RDKit, on which the bytes of fingerprints depend."""
    import rdkit  # imported only here: helper processes do the rest

    return str(rdkit.__version__)
