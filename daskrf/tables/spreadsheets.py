"""Text that a spreadsheet would take for a formula, made harmless in tables and restored on reading."""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
# Numbers are no formulas, nor are a dash for "nothing" and a relation without an operand.
_PLAIN = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)*|[.,]\d+)(?:[eE][+-]?\d+)?%?|[-+=]|[<>]?=[<>]?'?")
_RELATION = re.compile(r"'[<>]?=[<>]?'")  # as ChEMBL writes it


def harmless(text: str) -> str:
    r"""Return a text as it is written to a table: with an apostrophe before what may be a formula.

    Spreadsheets run a cell that begins with =, +, -, @, a tab or a carriage return. Numbers stay as they are.

    Examples
    --------
    >>> [harmless(text) for text in ("=1+1", "-7.1", "@x", "-", "CCO", "'=x")]
    ["'=1+1", '-7.1', "'@x", '-', 'CCO', "''=x"]
    """
    if not _FORMULA.match(text) or _PLAIN.fullmatch(text) or _RELATION.fullmatch(text):
        return text
    return f"'{text}"


def restored(text: str) -> str:
    """Return the text that was written by `harmless`.

    Examples
    --------
    >>> texts = ["=1+1", "-7.1", "'=x", "'='", "'quoted'", "-", "''"]
    >>> [restored(harmless(text)) for text in texts] == texts
    True
    """
    if text[:1] != "'" or not _FORMULA.match(text) or _RELATION.fullmatch(text):
        return text
    return text[1:]
