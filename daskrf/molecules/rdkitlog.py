"""Keep RDKit's log off the user's terminal, and turn its complaints into one short sentence."""

from __future__ import annotations

import re
import threading
from types import TracebackType

from rdkit import Chem, rdBase

__all__ = ["Quiet", "explain", "sentence"]

_MAX_BONDS = 127  # of one atom, as RDKit counts them

_capturing = threading.Lock()


class Quiet:
    """Context in which RDKit writes no log; the user's own log setting is back afterwards.

    ``rdBase.BlockLogs`` switches the channels of the whole process, so that the first of two overlapping
    blocks to end would switch them on again under the other. The contexts are counted instead: the first
    switches off, the last switches back on.

    Examples
    --------
    >>> from rdkit import Chem
    >>> from daskrf.molecules.rdkitlog import Quiet
    >>> with Quiet():
    ...     print(Chem.MolFromSmiles("not a SMILES"))
    None
    """

    _lock = threading.Lock()
    _depth = 0
    _block: rdBase.BlockLogs | None = None

    def __enter__(self) -> None:
        with Quiet._lock:
            if Quiet._depth == 0:
                Quiet._block = rdBase.BlockLogs()
            Quiet._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with Quiet._lock:
            Quiet._depth -= 1
            if Quiet._depth == 0:
                Quiet._block = None


def explain(smiles: str) -> str:
    """Return why RDKit does not take `smiles`, in one line that begins with "RDKit cannot parse".

    Examples
    --------
    >>> from daskrf.molecules.rdkitlog import explain
    >>> explain("C(C)(C)(C)(C)C")
    'RDKit cannot parse: Explicit valence for atom # 0 C, 5, is greater than permitted'
    >>> explain("CC)")
    'RDKit cannot parse: extra close parentheses at position 3'
    >>> explain("[#119]")
    'RDKit cannot parse: Atomic number not found'
    """
    with Quiet():
        molecule = Chem.MolFromSmiles(smiles, sanitize=False)
        message = _syntax_message(smiles) if molecule is None else _chemistry_message(molecule)
    return f"RDKit cannot parse: {' '.join(message.split())[:200]}"


def sentence(error: Exception) -> str:
    """Return what an error says, in one line; of a violated condition within RDKit, which one it is.

    Examples
    --------
    >>> from daskrf.molecules.rdkitlog import sentence
    >>> sentence(RuntimeError("Pre-condition Violation\\n\\tno such ring\\n\\tViolation occurred on line 1"))
    'no such ring'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith("Violation"):
        del lines[0]
    return lines[0][:200] if lines else type(error).__name__


def _chemistry_message(molecule: Chem.Mol) -> str:
    """Return what is wrong with a molecule whose text is none the worse."""
    for atom in molecule.GetAtoms():
        bonds = atom.GetNumExplicitHs() + sum(bond.GetBondTypeAsDouble() for bond in atom.GetBonds())
        if bonds > _MAX_BONDS:  # its counter overflows, and its check of valences with it
            return f"atom # {atom.GetIdx()} {atom.GetSymbol()} has more than {_MAX_BONDS} bonds"
    try:
        problems = [problem.Message() for problem in Chem.DetectChemistryProblems(molecule)]
    except (RuntimeError, ValueError, OverflowError) as error:
        return sentence(error)
    return problems[0] if problems else "the molecule cannot be sanitized"


def _syntax_message(smiles: str) -> str:
    """Return the parser's complaint; it reaches Python through the log alone.

    Another thread's complaint may land in the same capture, so a line counts only if it quotes `smiles`.
    """
    capture = getattr(rdBase, "CaptureErrorLog", None)  # absent from older RDKit
    if capture is None:
        return "syntax error"
    with _capturing, capture() as log:  # captures that overlap would restore each other's setting
        Chem.MolFromSmiles(smiles, sanitize=False)
    text = log.messages
    for ending in (f" while parsing: {smiles}", f" for input: '{smiles}'"):
        head, found, tail = text.partition(ending)
        if found:
            message = head.rsplit("SMILES Parse Error: ", 1)[-1].rsplit("] ", 1)[-1]
            position = re.match(
                r"\s*\[[\d:]+\] SMILES Parse Error: check for mistakes around position (\d+)", tail
            )
            return f"{message} at position {position[1]}" if position else message
    return "syntax error"
