"""The page of explained molecules: drawings with a number at each atom, in one file."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOST = 1_000
"""Molecules that a page shows at most."""

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 84em; padding: 0 1em; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22em), 1fr)); gap: 1em; }
figure { margin: 0; padding: .6em; border: 1px solid #ddd; border-radius: 6px; }
figure svg { width: 100%; height: auto; } figcaption { overflow-wrap: anywhere; } small { color: #555; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class ExplainedCard:
    """What a page shows of a molecule.

    Attributes
    ----------
    name : str
    drawing : str
        SVG.
    lines : sequence of str
        Text below it.
    """

    name: str
    drawing: str
    lines: Sequence[str]


def write_explain_page(
    path: Path, title: str, summary: Sequence[str], cards: Sequence[ExplainedCard]
) -> None:
    """Write the page.

    Parameters
    ----------
    path : Path
    title : str
    summary : sequence of str
        Paragraphs below the title.
    cards : sequence of ExplainedCard
        At most `MOST`.
    """
    figures = "\n".join(
        f"<figure>{card.drawing}<figcaption><b>{html.escape(card.name)}</b><br>"
        f"{'<br>'.join(f'<small>{html.escape(line)}</small>' for line in card.lines)}</figcaption></figure>"
        for card in cards
    )
    paragraphs = "\n".join(f"<p>{html.escape(text)}</p>" for text in summary)
    path.write_text(
        f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{html.escape(title)}</h1>
{paragraphs}
<main>
{figures}
</main>
</body>
</html>
""",
        encoding="utf-8",
    )
