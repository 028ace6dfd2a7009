"""The lines of a report: what was made, how files were read, what was rejected, and notes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from daskrf.quantities import amount


def report_text(
    first: str,
    inputs: Iterable[str] = (),
    *,
    made: Iterable[str] = (),
    rejected: int = 0,
    rejects: PurePath | None = None,
    notes: Iterable[str] = (),
) -> str:
    """Return a report as text.

    Parameters
    ----------
    first : str
        The first line: what was made, where, and how long it took.
    inputs : iterable of str
        How files were read.
    made : iterable of str
        Lines on work that was already done, indented.
    rejected : int
        Number of rows that are not molecules.
    rejects : Path, optional
        The file that lists them.
    notes : iterable of str

    Examples
    --------
    >>> print(report_text("3 hits in hits.csv (0.1 s)", ["a.smi: no header"], notes=["all molecules pass"]))
    3 hits in hits.csv (0.1 s)
      a.smi: no header
      all molecules pass
    """
    lines = [first, *(f"  {line}" for line in inputs), *made]
    if rejected:
        where = f"; file, line, text and reason are in {rejects}" if rejects is not None else ""
        lines.append(f"  rejected: {amount(rejected, 'rows')}{where}")
    return "\n".join([*lines, *(f"  {note}" for note in notes)])
