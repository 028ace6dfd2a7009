"""Count fingerprints of SMILES, as CSR matrices, through RDKit's fingerprint generators.

RDKit holds the GIL while it parses and counts (``benchmarks/fingerprint.py`` shows it), so that more threads
of one process do not make more fingerprints; more processes do.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import rdkit
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from scipy import sparse

from daskrf.arrays import MAX_COUNT
from daskrf.errors import InputError
from daskrf.molecules.lingo import LingoReader, sum_equal
from daskrf.molecules.quiet import Quiet, explain
from daskrf.molecules.unpack import CountReader
from daskrf.seeds import splitmix64

__all__ = [
    "FRAGMENTS",
    "KINDS",
    "MAX_HEAVY_ATOMS",
    "FingerprintBlock",
    "FingerprintSpec",
    "Fingerprinter",
    "rdkit_version",
]

KINDS = ("morgan", "atompair", "torsion", "rdkit", "lingo")
FRAGMENTS = ("keep", "largest", "reject")

MAX_HEAVY_ATOMS = 1000
"""Larger molecules are rejected: path and pair fingerprints of a polymer or a protein would take minutes."""


@dataclasses.dataclass(frozen=True)
class FingerprintSpec:
    """What a fingerprint counts.

    Parameters
    ----------
    kind : {"morgan", "atompair", "torsion", "rdkit", "lingo"}
        Morgan (circular) environments, atom pairs, topological torsions, RDKit's paths of 1 to 7 bonds
        (branched ones too, one identifier a path), or LINGOs: windows of four characters of RDKit's canonical
        SMILES (see `daskrf.molecules.lingo`).
    radius : int, default 1
        Of the Morgan environments; the other kinds have none and take the default only.
    counts : bool, default True
        Count how often a feature occurs; if false, whether it does (0 or 1).
    size : int, default 0
        Number of columns. 0 is unfolded: a column for each of the 2**32 identifiers. Otherwise RDKit folds
        the identifiers to `size` columns, the same as ``GetCountFingerprint`` with ``fpSize=size`` and count
        simulation off, and the counts of features that meet in a column add up.
    chirality : bool, default False
        Tell stereoisomers apart (not for "rdkit"); for "lingo" isotopes, too.
    features : bool, default False
        Pharmacophoric atom classes in place of atom types (FCFP; "morgan" only).

    Raises
    ------
    InputError
        If a parameter is out of range, or does not apply to the kind.

    Notes
    -----
    Unfolded Morgan, atom-pair and path identifiers are RDKit's own. Those of torsions have up to 45 bits and
    are hashed to 32 by the finalizer of SplitMix64; two of n features of a molecule meet with a probability
    of about n**2 / 2**33, and then their counts add up. Those of LINGOs are their four bytes;
    folded, the same hash modulo `size`, since the last letters alone would tell little.

    Examples
    --------
    >>> from daskrf.molecules import FingerprintSpec
    >>> FingerprintSpec(radius=2, size=2048).n_columns
    2048
    >>> FingerprintSpec.from_state(FingerprintSpec("torsion").state()).kind
    'torsion'
    """

    kind: str = "morgan"
    radius: int = 1
    counts: bool = True
    size: int = 0
    chirality: bool = False
    features: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"fingerprint kind {self.kind!r} is unknown; choose one of {', '.join(KINDS)}.")
        for name, low, high in (("radius", 0, 10), ("size", 0, 2**31 - 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InputError(
                    f"fingerprint {name} must be an integer from {low} to {high}, not {value!r}."
                )
        if self.kind != "morgan" and (self.features or self.radius != 1):
            option = "features" if self.features else "radius"
            raise InputError(
                f"option {option!r} belongs to Morgan fingerprints; leave it out for {self.kind!r}."
            )
        if self.kind == "rdkit" and self.chirality:
            raise InputError(
                "RDKit path fingerprints know no chirality; choose another kind or leave it out."
            )

    @property
    def n_columns(self) -> int:
        """Number of columns of the matrix: `size`, or 2**32 when unfolded."""
        return self.size or 2**32

    def state(self) -> dict[str, Any]:
        """Return the parameters as a dict for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> FingerprintSpec:
        """Return the specification that :meth:`state` described."""
        unknown = sorted(set(state) - {field.name for field in dataclasses.fields(cls)})
        if unknown:
            raise InputError(f"fingerprint parameter {unknown[0]!r} is unknown to this version of daskrf.")
        return cls(**state)


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
        self._count: Callable[[Chem.Mol], Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # RDKit's generators cannot be pickled; each process makes its own.
        return {"spec": self.spec, "fragments": self.fragments, "_count": None}

    def __call__(self, smiles: Sequence[str]) -> FingerprintBlock:
        """Return the fingerprints of `smiles`; nothing that RDKit says reaches the terminal."""
        if self._count is None:
            self._count = _counter(self.spec)
        counter = LingoReader() if self.spec.kind == "lingo" else CountReader()
        kept: list[int] = []
        rejects: list[tuple[int, str]] = []
        parse, count, keep = Chem.MolFromSmiles, self._count, self.fragments == "keep"
        with Quiet():
            for position, text in enumerate(smiles):
                molecule = parse(text)
                reason = "" if molecule is not None else explain(text)
                if not keep and not reason and "." in text:
                    molecule, reason = self._fragment(molecule)
                reason = reason or _unfit(molecule)
                if reason:
                    rejects.append((position, reason))
                    continue
                counter.add(count(molecule))
                kept.append(position)
        matrix, saturated = self._matrix(*counter.arrays())
        empty = int(np.count_nonzero(np.diff(matrix.indptr) == 0))
        return FingerprintBlock(matrix, np.array(kept, dtype=np.int64), rejects, saturated, empty)

    def _fragment(self, molecule: Chem.Mol) -> tuple[Chem.Mol, str]:
        """Return what the fragment rule leaves of `molecule`, and why it is rejected, if it is."""
        fragments = Chem.GetMolFrags(molecule, asMols=True)
        if len(fragments) < 2:
            return molecule, ""
        if self.fragments == "reject":
            return molecule, f"{len(fragments)} fragments"
        return max(fragments, key=lambda part: (part.GetNumHeavyAtoms(), part.GetNumAtoms())), ""

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


def _unfit(molecule: Chem.Mol) -> str:
    """Return why a parsed molecule is rejected, or an empty string."""
    atoms = molecule.GetNumAtoms()
    if atoms == 0:
        return "no atoms"
    if atoms > MAX_HEAVY_ATOMS and molecule.GetNumHeavyAtoms() > MAX_HEAVY_ATOMS:
        return f"{molecule.GetNumHeavyAtoms():,} heavy atoms are more than {MAX_HEAVY_ATOMS:,}"
    return ""


def _counter(spec: FingerprintSpec) -> Callable[[Chem.Mol], Any]:
    """Return what makes of a molecule that which is counted: RDKit's count vector, or a SMILES."""
    if spec.kind == "lingo":
        return functools.partial(Chem.MolToSmiles, isomericSmiles=spec.chirality)
    generator = _generator(spec)
    return generator.GetCountFingerprint if spec.size else generator.GetSparseCountFingerprint


def _generator(spec: FingerprintSpec) -> Any:
    """Return RDKit's generator for `spec`, with count simulation off."""
    options: dict[str, Any] = {"countSimulation": False}
    if spec.size:
        options["fpSize"] = spec.size
    if spec.kind == "rdkit":
        return rdFingerprintGenerator.GetRDKitFPGenerator(numBitsPerFeature=1, **options)
    options["includeChirality"] = spec.chirality
    if spec.kind == "atompair":
        return rdFingerprintGenerator.GetAtomPairGenerator(**options)
    if spec.kind == "torsion":
        return rdFingerprintGenerator.GetTopologicalTorsionGenerator(**options)
    if spec.features:
        options["atomInvariantsGenerator"] = rdFingerprintGenerator.GetMorganFeatureAtomInvGen()
    return rdFingerprintGenerator.GetMorganGenerator(radius=spec.radius, **options)


def rdkit_version() -> str:
    """Return the version of RDKit, on which the bytes of fingerprints depend."""
    return str(rdkit.__version__)
