"""A table of molecules as one HTML file that needs no network: structures, error bars, neighbours, scaffolds.

The page holds its own style and script (`webpage.css`, `webpage.js`), and the table as JSON. Drawings are SVG
by RDKit, in compressed packets that the browser unpacks when their rows come into view: pages of thousands of
molecules stay small and quick.
"""

from __future__ import annotations

import base64
import html
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from daskrf.errors import OptionError
from daskrf.molecules.drawings import drawings
from daskrf.quantities import amount
from daskrf.report.annotation import Reference, annotated

ENDING = ".html"
MOST = 10_000
"""Maximum number of molecules on a page."""
_MARK = '<meta name="generator" content="daskrf">'
"""Every page has this mark, which tells that the file may be replaced."""

NORMAL = 1.96
"""Standard deviations that a 95 % interval of a normal distribution extends to either side."""

_PACKET = 100  # drawings in a packet
_SCAFFOLDS = 12  # drawn above the table
_LABELS = {"logp": "logP", "tpsa": "TPSA", "std_y": "std of a measurement", "id": "ID", "smiles": "SMILES"}
_LAST = ("row", "source", "line")
_NUMBER = re.compile(r"[-+]?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"


@dataclass(frozen=True)
class Words:
    """The text of a page around its table.

    Attributes
    ----------
    title : str
    summary : sequence of str
        Lines below the title.
    quantity : str
        Name of the predicted quantity.
    sections : dict of str to sequence of str
        Lines below the table, by heading.
    command : str
        Command that makes the page again.
    picture : bytes
        A PNG file, shown below the table under the heading "How good the model is".
    picture_words : str
        Its caption.
    factor : float
        Standard deviations of a measurement that error bars extend to either side.
    interval_words : str
        What these bars are.
    """

    title: str
    summary: Sequence[str] = ()
    quantity: str = ""
    sections: dict[str, Sequence[str]] = field(default_factory=dict)
    command: str = ""
    picture: bytes = b""
    picture_words: str = ""
    factor: float = NORMAL
    interval_words: str = "Bars are 95 % intervals, 1.96 standard deviations to either side."


def check_rows(n_rows: int) -> None:
    """Raise an error if a page would hold too many molecules."""
    if n_rows > MOST:
        raise OptionError(
            f"A page shows at most {MOST:,} molecules, not {n_rows:,}; ask for fewer, or write a table such "
            "as hits.csv."
        )


def write_page(
    table: pa.Table,
    path: Path,
    words: Words,
    labelled: Reference | None = None,
    actives: Reference | None = None,
) -> None:
    """Write a table of molecules as one HTML file.

    Parameters
    ----------
    table : pyarrow.Table
        At most `MOST` rows, with the columns id and smiles; mean, std and std_y get error bars, and a
        probability takes their place.
    path : Path
    words : Words
    labelled, actives : Reference, optional
        Molecules that those of the table are compared with.
    """
    check_rows(table.num_rows)
    smiles = table["smiles"].to_pylist()
    annotations = annotated(smiles, labelled or Reference(), actives or Reference())
    columns = {name: _values(table[name]) for name in table.column_names} | annotations
    if "source" in columns:
        columns["source"] = _without_folders(columns["source"])
    shown = _shown(columns)
    if "probability" in columns:  # of two classes, for which the mean of a regression says less
        columns["mean"] = columns["probability"]
        columns = {n: values for n, values in columns.items() if n not in ("std", "std_y", "probability")}
    if "similarity_to_labelled" in columns:
        columns.setdefault("its_label", [""] * len(smiles))
        columns.setdefault("nearest_labelled", [""] * len(smiles))
    order = [n for n in columns if n not in _LAST] + [n for n in columns if n in _LAST]
    scaffolds = Counter(annotations["scaffold"]).most_common(_SCAFFOLDS)
    drawn = {text: number for number, text in enumerate(dict.fromkeys(_drawn(columns, scaffolds)))}
    data = {
        "columns": [{"name": n, "label": _label(n), "kind": _kind(columns[n])} for n in order],
        "rows": list(zip(*(columns[n] for n in order), strict=True)),
        "drawing": [drawn[text] for text in smiles],
        "neighbours": [drawn[text] for text in columns.get("nearest_labelled", [])],
        "actives": [drawn[text] for text in columns.get("nearest_active", [])],
        "scaffolds": [(text, times, drawn.get(text)) for text, times in scaffolds],
        "packet": _PACKET,
        "factor": words.factor if "std_y" in columns else NORMAL,
        "mean": f"{words.quantity} ({shown})".lstrip(),
    }
    path.write_text(_html(words, data, _packets(list(drawn))), encoding="utf-8")


def _shown(columns: dict[str, list[object]]) -> str:
    """Return the heading of the column of means; a measurement varies more than the modelled function."""
    if "probability" in columns:
        return "probability of a 1"
    if "std_y" in columns:
        return "mean ± std of a measurement"
    return "mean ± std" if "std" in columns else "mean"


def _without_folders(paths: list[object]) -> list[object]:
    """Return names of files: a page that is passed on should not reveal folders.

    Examples
    --------
    >>> _without_folders(["/home/me/a.smi", "/home/me/b.smi", None])
    ['a.smi', 'b.smi', None]
    >>> _without_folders(["/data/x/a.smi", "/data/y/a.smi"])
    ['x/a.smi', 'y/a.smi']
    """
    parts = {path: PurePosixPath(path).parts for path in dict.fromkeys(paths) if isinstance(path, str)}
    depth = 1
    while len({tail[-depth:] for tail in parts.values()}) < len(parts):
        depth += 1
    return ["/".join(parts[path][-depth:]) if path in parts else path for path in paths]


def _drawn(columns: dict[str, list[Any]], scaffolds: list[tuple[str, int]]) -> list[str]:
    """Return the SMILES of all structures on the page, from top to bottom."""
    sources = [columns[n] for n in ("smiles", "nearest_labelled", "nearest_active") if n in columns]
    rows = [text for texts in zip(*sources, strict=True) for text in texts]
    return [*(text for text, _ in scaffolds if text), *rows]


def _values(column: pa.ChunkedArray) -> list[object]:
    """Return values for JSON; a column of text becomes numbers if all its values are numbers."""
    values = [None if isinstance(v, float) and not math.isfinite(v) else v for v in column.to_pylist()]
    kind = column.type.value_type if pt.is_dictionary(column.type) else column.type
    texts = [v for v in values if isinstance(v, str) and v.strip()]
    if pt.is_string(kind) and texts and all(map(_is_number, texts)):
        return [float(v) if isinstance(v, str) and v.strip() else None for v in values]
    return values


def _is_number(text: str) -> bool:
    """Return whether text is a number that JSON and floats can hold: `1e400` stays text."""
    return bool(_NUMBER.fullmatch(text.strip())) and math.isfinite(float(text))


def _kind(values: list[object]) -> str:
    there = [v for v in values if v is not None]
    return "number" if there and all(isinstance(v, int | float) for v in there) else "text"


def _label(name: str) -> str:
    return _LABELS.get(name, name.replace("_", " "))


def _packets(smiles: list[str]) -> list[str]:
    """Return the drawings in packets: JSON, deflated, in Base64."""
    drawn = drawings(smiles)
    parts = [drawn[at : at + _PACKET] for at in range(0, len(drawn), _PACKET)]
    return [base64.b64encode(zlib.compress(json.dumps(packet).encode(), 9)).decode() for packet in parts]


def _html(words: Words, data: dict[str, object], packets: list[str]) -> str:
    """Return the page; all text is escaped, so none can end the element that holds it."""
    module = Path(__file__)
    text = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    drawn = (
        f'<script type="text/plain" id="drawings-{number}">{packet}</script>'
        for number, packet in enumerate(packets)
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{_MARK}
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(words.title)}</title>
<style>
{module.with_suffix(".css").read_text()}</style>
</head>
<body>
<header>
<h1>{html.escape(words.title)}</h1>
{"".join(f"<p>{html.escape(line)}</p>" for line in words.summary)}
</header>
<div class="bar">
<input id="search" type="search" placeholder="search IDs, SMILES and text" aria-label="search">
<span id="count" role="status"></span>
<span id="wrong" role="alert"></span>
<button id="clear" type="button">Show all</button>
<button id="save" type="button">Save shown rows as CSV</button>
</div>
<div id="histograms"></div>
<div id="scaffolds" aria-label="scaffolds"></div>
<div id="table" tabindex="0">
<table><thead><tr id="headings"></tr></thead><tbody id="rows"></tbody></table>
</div>
<noscript><p>The table needs JavaScript: allow the script in this file to see it.</p></noscript>
<section class="notes">
{_notes(words, data)}
</section>
<script type="application/json" id="data">{text}</script>
{chr(10).join(drawn)}
<script>
{module.with_suffix(".js").read_text()}</script>
</body>
</html>
"""


def _notes(words: Words, data: dict[str, Any]) -> str:
    """Return the text below the table."""
    n_scaffolds = amount(len({row for row in _column(data, "scaffold") if row}), "Murcko scaffolds")
    shown = [f"{n_scaffolds}; the {len(data['scaffolds'])} most frequent groups are shown above the table."]
    if "similarity_to_labelled" in [column["name"] for column in data["columns"]]:
        shown.append("Similarity is Tanimoto on Morgan fingerprints of radius 2 without counts (ECFP4).")
    if "std" in [column["name"] for column in data["columns"]]:
        shown.append(words.interval_words)
    sections = {**words.sections, "About this page": shown}
    parts = []
    for heading, lines in sections.items():
        items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        parts += [f"<h2>{html.escape(heading)}</h2><ul>{items}</ul>"] if items else []
    if words.picture_words:
        parts.append(f"<h2>How good the model is</h2><p>{html.escape(words.picture_words)}</p>")
    if words.picture:
        png = base64.b64encode(words.picture).decode()
        alt = html.escape(words.picture_words, quote=True)
        parts.append(f'<img id="picture" src="data:image/png;base64,{png}" alt="{alt}">')
    if words.command:
        parts.append(f"<h2>How to repeat it</h2><pre>{html.escape(words.command)}</pre>")
    return "\n".join(parts)


def _column(data: dict[str, Any], name: str) -> list[object]:
    at = [column["name"] for column in data["columns"]].index(name)
    return [row[at] for row in data["rows"]]
