"""What becomes of one SMILES in RDKit: the counts of its features, or the reason why it has none.

For the helper processes of `daskrf.molecules.isolation`; RDKit's log is off as long as a `Counter` is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator

from daskrf.molecules.costs import (
    MAX_HEAVY_ATOMS,
    refusal_of_counting,
    refusal_of_rings,
    refusal_of_size,
    refusal_of_text,
)
from daskrf.molecules.countvectors import packed, width_of
from daskrf.molecules.rdkitlog import explain, sentence
from daskrf.molecules.spec import FingerprintSpec

__all__ = ["Counter", "canonizer", "explainer", "syntax_checker"]


class Counter:
    """Function from a SMILES to its features: bytes, or a string that says why it is rejected.

    The bytes are those of `daskrf.molecules.countvectors.packed`, or for LINGOs the canonical SMILES.

    Examples
    --------
    >>> from daskrf.molecules import FingerprintSpec
    >>> from daskrf.molecules.counter import Counter
    >>> counter = Counter(FingerprintSpec("lingo"), "largest")
    >>> counter("OCC.[Na+]"), counter("CC)")
    (b'CCO', 'RDKit cannot parse: extra close parentheses at position 3')
    """

    def __init__(self, spec: FingerprintSpec, fragments: str) -> None:
        self._spec = spec
        self._fragments = fragments
        self._features = _features(spec)
        self._silence = rdBase.BlockLogs()
        self("CCO")  # tables are loaded before the first molecule that counts

    def __call__(self, text: str) -> bytes | str:
        """Return the features of `text`, or why there are none."""
        try:
            return self._of(text)
        except MemoryError:
            raise
        except Exception as error:  # whatever RDKit makes of a line, it is about that line alone
            return f"RDKit failed: {sentence(error)}"

    def _of(self, text: str) -> bytes | str:
        reason = refusal_of_text(text, self._fragments) or refusal_of_rings(text)
        if reason:
            return reason
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            return explain(text)
        if self._fragments != "keep" and "." in text:
            molecule, reason = self._fragment(molecule)
        return reason or _unfit(molecule, self._spec.kind) or self._features(molecule)

    def _fragment(self, molecule: Chem.Mol) -> tuple[Chem.Mol, str]:
        """Return what the fragment rule leaves of `molecule`, and why it is rejected, if it is."""
        fragments = Chem.GetMolFrags(molecule, asMols=True)
        if len(fragments) < 2:
            return molecule, ""
        if self._fragments == "reject":
            return molecule, f"{len(fragments)} fragments"
        return max(fragments, key=lambda part: (part.GetNumHeavyAtoms(), part.GetNumAtoms())), ""


def _unfit(molecule: Chem.Mol, kind: str) -> str:
    """Return why a parsed molecule is rejected, or an empty string."""
    atoms = molecule.GetNumAtoms()
    if atoms == 0:
        return "no atoms"
    too_large = refusal_of_size(molecule.GetNumHeavyAtoms()) if atoms > MAX_HEAVY_ATOMS else ""
    return too_large or refusal_of_counting(kind, molecule)


def _features(spec: FingerprintSpec) -> Callable[[Chem.Mol], bytes]:
    """Return what makes the features of a molecule, as bytes."""
    if spec.kind == "lingo":
        return lambda molecule: Chem.MolToSmiles(molecule, isomericSmiles=spec.chirality).encode("ascii")
    generator = _generator(spec)
    count = generator.GetCountFingerprint if spec.size else generator.GetSparseCountFingerprint
    width = width_of(spec.size)
    return lambda molecule: packed(count(molecule), width)


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


def syntax_checker() -> Callable[[str], bool]:
    """Return the function that says whether a text is written as a SMILES is, whatever its chemistry."""
    silence = rdBase.BlockLogs()

    def is_smiles(text: str) -> bool:
        assert silence is not None  # as long as the function is there
        return not refusal_of_text(text, "keep") and Chem.MolFromSmiles(text, sanitize=False) is not None

    return is_smiles


def explainer() -> Callable[[str], str]:
    """Return the function that says why RDKit does not take a text; see `rdkitlog.explain`."""
    return explain


def canonizer() -> Callable[[str], str]:
    """Return the function from a SMILES to RDKit's canonical one, or to itself if RDKit does not take it."""
    silence = rdBase.BlockLogs()

    def canonical(text: str) -> str:
        assert silence is not None  # as long as the function is there
        refused = refusal_of_text(text, "keep") or refusal_of_rings(text)
        molecule = None if refused else Chem.MolFromSmiles(text)
        return text if molecule is None else str(Chem.MolToSmiles(molecule))

    return canonical
