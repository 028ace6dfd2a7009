"""Keep RDKit's log off the user's terminal, and turn its complaints into one short sentence."""

from __future__ import annotations

import re

from rdkit import Chem, rdBase

__all__ = ["explain", "sentence"]

_MAX_BONDS = 127  # of one atom, as RDKit counts them


def explain(smiles: str) -> str:
    """Return why RDKit does not take `smiles`, in one line that begins with "RDKit cannot parse".

    Its log is switched off meanwhile, and what it says is caught; not for several threads at once.

    Examples
    --------
    >>> from daskrf.molecules.quiet import explain
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
    """Return what an error says, in one line; of a violated condition within RDKit, which one it is.

    Examples
    --------
    >>> from daskrf.molecules.quiet import sentence
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
    """Return the parser's complaint; it reaches Python through the log alone."""
    capture = getattr(rdBase, "CaptureErrorLog", None)  # absent from older RDKit
    if capture is None:
        return "syntax error"
    with capture() as log:
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
