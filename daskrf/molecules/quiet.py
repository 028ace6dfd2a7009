"""Keep RDKit's log off the user's terminal, and turn its complaints into one short sentence."""

from __future__ import annotations

import re
import threading
from types import TracebackType

from rdkit import Chem, rdBase

__all__ = ["Quiet", "explain"]

_capturing = threading.Lock()


class Quiet:
    """Context in which RDKit writes no log; the user's own log setting is back afterwards.

    ``rdBase.BlockLogs`` switches the channels of the whole process, so that the first of two overlapping
    blocks to end would switch them on again under the other. The contexts are counted instead: the first
    switches off, the last switches back on.

    Examples
    --------
    >>> from rdkit import Chem
    >>> from daskrf.molecules.quiet import Quiet
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
    >>> from daskrf.molecules.quiet import explain
    >>> explain("C(C)(C)(C)(C)C")
    'RDKit cannot parse: Explicit valence for atom # 0 C, 5, is greater than permitted'
    >>> explain("CC)")
    'RDKit cannot parse: extra close parentheses at position 3'
    """
    with Quiet():
        molecule = Chem.MolFromSmiles(smiles, sanitize=False)
        if molecule is not None:
            problems = [problem.Message() for problem in Chem.DetectChemistryProblems(molecule)]
            message = problems[0] if problems else "the molecule cannot be sanitized"
        else:
            message = _syntax_message(smiles)
    return f"RDKit cannot parse: {' '.join(message.split())[:200]}"


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
