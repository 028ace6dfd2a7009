"""What RDKit computes from one SMILES: its feature counts for each kind, or why it is rejected.

This runs in the helper processes of `daskrf.molecules.isolation`, which are single-threaded.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator, rdMolDescriptors

from daskrf.molecules.counts.costs import (
    MAX_HEAVY_ATOMS,
    refusal_of_counting,
    refusal_of_rings,
    refusal_of_size,
    refusal_of_text,
)
from daskrf.molecules.counts.descriptors import described
from daskrf.molecules.counts.spec import FingerprintSpec
from daskrf.molecules.counts.substituents import Substituents
from daskrf.molecules.stereogroups import canonical, unspecified, written
from daskrf.quantities import DESCRIPTORS, POSITIONS, SUBSTITUENTS

_MAX_BONDS = 127  # of one atom, the limit of RDKit's counter
_TITLES = ("Violation", "Range Error")  # of a failed condition in RDKit's log


class Counter:
    """Function from a SMILES to its features: bytes for each kind, or a string saying why it is rejected.

    The bytes are those of `packed`, or the canonical SMILES for LINGOs. The molecule is parsed once. RDKit's
    log stays off for the lifetime of this object.

    Examples
    --------
    >>> from daskrf.molecules import FingerprintSpec
    >>> from daskrf.molecules.counts.counter import Counter
    >>> counter = Counter(FingerprintSpec("lingo"), "largest")
    >>> counter("OCC.[Na+]"), counter("CC)")
    ([b'CCO'], 'RDKit cannot parse: extra close parentheses at position 3')
    """

    def __init__(self, spec: FingerprintSpec, fragments: str) -> None:
        self._kinds = [kind.family for kind in spec.kinds]
        self._fragments = fragments
        self._features = [_features(kind) for kind in spec.kinds]
        self._silence = rdBase.BlockLogs()
        self("CCO")  # load tables before the first real molecule

    def __call__(self, text: str) -> list[bytes] | str:
        """Return the features of `text`, or why it has none."""
        try:
            return self._of(text)
        except MemoryError:
            raise
        except Exception as error:  # a failure of RDKit concerns this line alone
            return f"RDKit failed: {sentence(error)}"

    def _of(self, text: str) -> list[bytes] | str:
        reason = refusal_of_text(text, self._fragments) or refusal_of_rings(text)
        if reason:
            return reason
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            return explain(text)
        molecule = unspecified(molecule)
        if self._fragments != "keep" and "." in text:
            molecule, reason = self._fragment(molecule)
        return reason or _unfit(molecule, self._kinds) or [make(molecule) for make in self._features]

    def _fragment(self, molecule: Chem.Mol) -> tuple[Chem.Mol, str]:
        """Apply the fragment rule; return the molecule, and why it is rejected, or an empty string."""
        fragments = Chem.GetMolFrags(molecule, asMols=True)
        if len(fragments) < 2:
            return molecule, ""
        if self._fragments == "reject":
            return molecule, f"{len(fragments)} fragments"
        return _largest(fragments), ""


def largest_fragment(molecule: Chem.Mol) -> Chem.Mol:
    """Return the fragment with the most heavy atoms, then the most atoms, then the first."""
    return _largest(Chem.GetMolFrags(molecule, asMols=True))


def _largest(fragments: tuple[Chem.Mol, ...]) -> Chem.Mol:
    return max(fragments, key=lambda fragment: (fragment.GetNumHeavyAtoms(), fragment.GetNumAtoms()))


def _unfit(molecule: Chem.Mol, kinds: list[str]) -> str:
    """Return why a parsed molecule is rejected, or an empty string."""
    atoms = molecule.GetNumAtoms()
    if atoms == 0:
        return "no atoms"
    too_large = refusal_of_size(molecule.GetNumHeavyAtoms()) if atoms > MAX_HEAVY_ATOMS else ""
    return too_large or next(filter(None, (refusal_of_counting(kind, molecule) for kind in kinds)), "")


def _features(spec: FingerprintSpec) -> Callable[[Chem.Mol], bytes]:
    """Return the function that computes the features of a molecule, as bytes."""
    if spec.kind == "lingo":
        return lambda molecule: Chem.MolToSmiles(molecule, isomericSmiles=spec.chirality).encode("ascii")
    if spec.kind == DESCRIPTORS:
        return lambda molecule: described(molecule, spec.width)
    if spec.kind == SUBSTITUENTS:
        return lambda molecule: _packed(Substituents(molecule).counts(spec.size), spec.width)
    if spec.family == POSITIONS:
        blocks = frozenset(spec.blocks)
        return lambda molecule: _packed(
            Substituents(molecule).counts_of_positions(blocks, spec.size), spec.width
        )
    generator = generator_of(spec)
    count = generator.GetCountFingerprint if spec.size else generator.GetSparseCountFingerprint
    if spec.kind == "torsion":
        return lambda molecule: packed(count(in_order(molecule, chirality=spec.chirality)[0]), spec.width)
    return lambda molecule: packed(count(molecule), spec.width)


def in_order(molecule: Chem.Mol, *, chirality: bool) -> tuple[Chem.Mol, list[int] | None]:
    """Return a molecule whose torsions do not depend on the order of its atoms, and the atoms' old numbers.

    Around a ring of three, RDKit counts one closed path, which begins at the atom of the lowest number. Atoms
    are therefore sorted by what torsions see of them; where they are equal, so are the paths. Without such a
    ring, the molecule is returned as it is, with None.

    Examples
    --------
    >>> from rdkit import Chem
    >>> molecule, numbers = in_order(Chem.MolFromSmiles("OCC1CO1"), chirality=False)
    >>> Chem.MolToSmiles(molecule), numbers
    ('OCC1CO1', [1, 3, 2, 0, 4])
    """
    if not any(len(ring) == 3 for ring in molecule.GetRingInfo().AtomRings()):
        return molecule, None
    codes = [
        rdMolDescriptors.GetAtomPairAtomCode(atom, includeChirality=chirality) for atom in molecule.GetAtoms()
    ]
    numbers = sorted(range(len(codes)), key=codes.__getitem__)
    return Chem.RenumberAtoms(molecule, numbers), numbers


def packed(vector: Any, width: int) -> bytes:
    """Return the entries of a ``SparseIntVect``: (identifier: `width` bytes, count: int32), ascending.

    ``GetNonzeroElements`` makes a dict of Python integers, and converting dicts to arrays costs as much again
    as counting. ``ToBinary`` is the vector's pickle: little-endian uint32 version (1), uint32 width w of an
    identifier in bytes, the length (w bytes), the number of entries (w bytes), then the entries. If an RDKit
    release writes another version, the dict is read instead.
    """
    binary: bytes = vector.ToBinary()
    if struct.unpack_from("<II", binary) == (1, width):
        return binary[8 + 2 * width :]
    return _packed(vector.GetNonzeroElements(), width)


def _packed(counts: Mapping[int, int], width: int) -> bytes:
    """Return counts by identifier in the same form."""
    entry = struct.Struct("<Ii" if width == 4 else "<Qi")
    return b"".join(entry.pack(*item) for item in sorted(counts.items()))


def generator_of(spec: FingerprintSpec) -> Any:
    """Return RDKit's generator for `spec`, with count simulation off."""
    options: dict[str, Any] = {"countSimulation": False}
    if spec.size:
        options["fpSize"] = spec.size
    if spec.kind == "rdkit":
        return rdFingerprintGenerator.GetRDKitFPGenerator(numBitsPerFeature=1, **options)
    options["includeChirality"] = spec.chirality
    if spec.family == "atompair":
        return rdFingerprintGenerator.GetAtomPairGenerator(maxDistance=spec.distance, **options)
    if spec.kind == "torsion":
        return rdFingerprintGenerator.GetTopologicalTorsionGenerator(**options)
    if spec.features:
        options["atomInvariantsGenerator"] = rdFingerprintGenerator.GetMorganFeatureAtomInvGen()
    return rdFingerprintGenerator.GetMorganGenerator(radius=spec.radius, **options)


def syntax_checker() -> Callable[[str], bool]:
    """Return a function that tells whether a text follows SMILES syntax, whatever its chemistry."""
    silence = rdBase.BlockLogs()

    def is_smiles(text: str) -> bool:
        assert silence is not None  # for the lifetime of the function
        return not refusal_of_text(text, "keep") and Chem.MolFromSmiles(text, sanitize=False) is not None

    return is_smiles


def refuser() -> Callable[[str], str]:
    """Return a function from a SMILES to the reason why RDKit rejects it, "" if it does not.

    Examples
    --------
    >>> refuser()("OCC"), refuser()("CC)")
    ('', 'RDKit cannot parse: extra close parentheses at position 3')
    """
    silence = rdBase.BlockLogs()

    def why(text: str) -> str:
        assert silence is not None  # for the lifetime of the function
        refused = refusal_of_text(text, "keep") or refusal_of_rings(text)
        return refused or ("" if Chem.MolFromSmiles(text) is not None else explain(text))

    return why


def radical_finder() -> Callable[[str], bool]:
    """Return a function that tells whether a molecule has unpaired electrons.

    Examples
    --------
    >>> radical_finder()("C[CH2]"), radical_finder()("[CH3][CH3]")
    (True, False)
    """
    silence = rdBase.BlockLogs()

    def is_radical(text: str) -> bool:
        assert silence is not None  # for the lifetime of the function
        refused = refusal_of_text(text, "keep") or refusal_of_rings(text)
        molecule = None if refused else Chem.MolFromSmiles(text)
        return molecule is not None and any(atom.GetNumRadicalElectrons() for atom in molecule.GetAtoms())

    return is_radical


def explainer() -> Callable[[str], str]:
    """Return `explain`."""
    return explain


def canonizer() -> Callable[[str], str]:
    """Return a function from a SMILES to RDKit's canonical one, or to itself if RDKit rejects it."""
    silence = rdBase.BlockLogs()

    def name(text: str) -> str:
        assert silence is not None  # for the lifetime of the function
        refused = refusal_of_text(text, "keep") or refusal_of_rings(text)
        molecule = None if refused else Chem.MolFromSmiles(text)
        return text if molecule is None else canonical(molecule)

    return name


def unmarker() -> Callable[[str], str]:
    """Return a function from a SMILES with enhanced stereo groups to one with their centres unspecified.

    Examples
    --------
    >>> unmarker()("C[C@H](F)Cl |&1:1|")
    'CC(F)Cl'
    """
    silence = rdBase.BlockLogs()

    def without_marks(text: str) -> str:
        assert silence is not None  # for the lifetime of the function
        molecule = Chem.MolFromSmiles(text)
        return text.partition(" ")[0] if molecule is None else str(Chem.MolToSmiles(unspecified(molecule)))

    return without_marks


def inchikeyer() -> Callable[[str], str]:
    """Return a function from a SMILES to its standard InChIKey, or to "" if there is none.

    Standard InChI has no enhanced stereo groups: their centres are unspecified.

    Examples
    --------
    >>> inchikeyer()("OCC")
    'LFQSCWFLJHTTHZ-UHFFFAOYSA-N'
    """
    silence = rdBase.BlockLogs()

    def key(text: str) -> str:
        assert silence is not None  # for the lifetime of the function
        refused = refusal_of_text(text, "keep") or refusal_of_rings(text)
        molecule = None if refused else Chem.MolFromSmiles(text)
        return "" if molecule is None else str(Chem.MolToInchiKey(unspecified(molecule)))

    return key


def mol_reader() -> Callable[[str], list[str] | str]:
    """Return a function from a MOL block to its SMILES, in a list, or to the reason why RDKit rejects it.

    Examples
    --------
    >>> from rdkit import Chem
    >>> from daskrf.molecules.counts.counter import mol_reader
    >>> read = mol_reader()
    >>> read(Chem.MolToMolBlock(Chem.MolFromSmiles("OCC"))), read("no MOL block")
    (['CCO'], 'RDKit cannot read the MOL block: it is damaged')
    """
    silence = rdBase.BlockLogs()

    def read(block: str) -> list[str] | str:
        assert silence is not None  # for the lifetime of the function
        try:
            molecule = Chem.MolFromMolBlock(block, sanitize=False)
            if molecule is None:
                return f"RDKit cannot read the MOL block: {_mol_message(block)}"
            atoms = molecule.GetNumAtoms()
            if reason := refusal_of_size(molecule.GetNumHeavyAtoms()) if atoms > MAX_HEAVY_ATOMS else "":
                return reason
            if any(bond.HasQuery() for bond in molecule.GetBonds()) or any(
                map(_is_query, molecule.GetAtoms())
            ):
                return "a query, not a molecule"
            molecule = Chem.MolFromMolBlock(block)
            if molecule is None:
                why = _chemistry_message(Chem.MolFromMolBlock(block, sanitize=False))
                return f"RDKit cannot read the MOL block: {why}"
            return [written(molecule)]
        except MemoryError:
            raise
        except Exception as error:  # a failure of RDKit concerns this record alone
            return f"RDKit cannot read the MOL block: {sentence(error)}"

    return read


def _is_query(atom: Chem.Atom) -> bool:
    """Return whether an atom is a query, other than an R group, which is a dummy atom."""
    return bool(atom.HasQuery() and not atom.DescribeQuery().startswith("AtomNull"))


def _mol_message(block: str) -> str:
    """Return the parser's error message for a MOL block, which reaches Python only through the log."""
    capture = getattr(rdBase, "CaptureErrorLog", None)  # missing in older RDKit
    if capture is None:
        return "it is damaged"
    with capture() as log:
        Chem.MolFromMolBlock(block, sanitize=False)
    lines = [re.sub(r"^\[[\d:]+\]", "", line).strip() for line in log.messages.splitlines()[:9]]
    messages = [line for line in lines if line and set(line) != {"*"} and not line.endswith(_TITLES)]
    return " ".join(messages[0].split())[:200] if messages else "it is damaged"


def explain(smiles: str) -> str:
    """Return why RDKit rejects `smiles`, in one line that begins with "RDKit cannot parse".

    Examples
    --------
    >>> from daskrf.molecules.counts.counter import explain
    >>> explain("C(C)(C)(C)(C)C")
    'RDKit cannot parse: Explicit valence for atom # 0 C, 5, is greater than permitted'
    >>> explain("CC)")
    'RDKit cannot parse: extra close parentheses at position 3'
    >>> explain("[#119]")
    'RDKit cannot parse: Atomic number not found'
    """
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles, sanitize=False)
        message = _syntax_message(smiles) if molecule is None else _chemistry_message(molecule)
    return f"RDKit cannot parse: {' '.join(message.split())[:200]}"


def sentence(error: Exception) -> str:
    """Return an error's message in one line; for an RDKit invariant violation, the violated condition.

    Examples
    --------
    >>> from daskrf.molecules.counts.counter import sentence
    >>> sentence(RuntimeError("Pre-condition Violation\\n\\tno such ring\\n\\tViolation occurred on line 1"))
    'no such ring'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith("Violation"):
        del lines[0]
    return lines[0][:200] if lines else type(error).__name__


def _chemistry_message(molecule: Chem.Mol) -> str:
    """Return what is wrong with a molecule whose syntax is valid."""
    for atom in molecule.GetAtoms():
        bonds = atom.GetNumExplicitHs() + sum(bond.GetBondTypeAsDouble() for bond in atom.GetBonds())
        if bonds > _MAX_BONDS:  # RDKit's counter overflows, and its valence check with it
            return f"atom # {atom.GetIdx()} {atom.GetSymbol()} has more than {_MAX_BONDS} bonds"
    try:
        problems = [problem.Message() for problem in Chem.DetectChemistryProblems(molecule)]
    except (RuntimeError, ValueError, OverflowError) as error:
        return sentence(error)
    return problems[0] if problems else "the molecule cannot be sanitized"


def _syntax_message(smiles: str) -> str:
    """Return the parser's error message, which reaches Python only through the log."""
    capture = getattr(rdBase, "CaptureErrorLog", None)  # missing in older RDKit
    if capture is None:
        return "syntax error"
    with capture() as log:
        Chem.MolFromSmiles(smiles, sanitize=False)
    text = log.messages
    for ending in (f" while parsing: {smiles}", f" for input: '{smiles}'"):
        head, separator, tail = text.partition(ending)
        if separator:
            message = head.rsplit("SMILES Parse Error: ", 1)[-1].rsplit("] ", 1)[-1]
            position = re.match(
                r"\s*\[[\d:]+\] SMILES Parse Error: check for mistakes around position (\d+)", tail
            )
            return f"{message} at position {position[1]}" if position else message
    return "syntax error"
