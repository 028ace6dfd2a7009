"""Plain-text tables."""

from __future__ import annotations

from collections.abc import Sequence


def shorten(text: str, width: int) -> str:
    """Return `text`, cut to `width` characters with an ellipsis if it is longer.

    Examples
    --------
    >>> shorten("CC(=O)Nc1ccccc1", 8)
    'CC(=O)N…'
    """
    return text if len(text) <= width else text[: width - 1] + "…"


def text_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return an aligned table; columns of numbers are right-aligned.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of sequences, each as long as `header`

    Examples
    --------
    >>> print(text_table(["ID", "score"], [["AC-1", 7.25], ["AC-20", 11.5]]))
    ID     score
    AC-1    7.25
    AC-20  11.50
    """
    cells = [[_cell(value) for value in row] for row in rows]
    right = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(header))]
    widths = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    lines = []
    for line in [list(header), *cells]:
        padded = [
            text.rjust(width) if flush else text.ljust(width)
            for text, width, flush in zip(line, widths, right, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
