"""Drawings of molecules as SVG, by RDKit in the helpers of `daskrf.molecules.isolation`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from daskrf.molecules.extensions import has_groups
from daskrf.molecules.isolation import Lost, each

WIDTH, HEIGHT = 240, 140
_IDLE = re.compile(
    r" class='[^']*'|stroke-linecap:butt;|stroke-linejoin:miter;|stroke-opacity:1;?|fill-rule:evenodd;"
    "|font-style:normal;|font-weight:normal;|fill-opacity:1;|(?<=;)stroke:none;"
)
_PATH = re.compile(r"<path d='([^']*)' style='([^']*)' ?/>")
_PRECISION = re.compile(r"(\d+\.\d)\d+")


def drawings(smiles: Sequence[str], width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    """Return a drawing of each molecule, an SVG element without scripts or links.

    Parameters
    ----------
    smiles : sequence of str
    width, height : int
        In pixels.

    Returns
    -------
    list of str
        Empty for molecules that RDKit cannot read or draw.

    Examples
    --------
    >>> ethanol, nothing = drawings(["CCO", "?"])
    >>> ethanol[:4], nothing
    ('<svg', '')
    """
    results = each("daskrf.molecules.drawings:drawer", (width, height), smiles)
    return ["" if isinstance(svg, Lost) else svg for svg in results]


def drawer(width: int, height: int) -> Callable[[str], str]:
    """Return the function from a SMILES to its drawing; it runs in a helper process."""
    from rdkit import Chem, rdBase
    from rdkit.Chem.Draw import rdMolDraw2D

    silence = rdBase.BlockLogs()

    def draw(text: str) -> str:
        assert silence is not None  # for the lifetime of the function
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            raise ValueError("RDKit cannot read it")
        canvas = rdMolDraw2D.MolDraw2DSVG(width, height, -1, -1, True)  # letters as text: half the bytes
        options: Any = canvas.drawOptions()
        options.clearBackground = False
        options.fixedBondLength = 24
        options.bondLineWidth = 1.5  # thinner ones make hashed wedges hard to see
        options.minFontSize = 9
        options.padding = 0.02
        options.addStereoAnnotation = has_groups(text)  # "and1", "or1"
        options.annotationFontScale = 1.0  # of minFontSize: by default, half of it, which nobody can read
        rdMolDraw2D.PrepareAndDrawMolecule(canvas, molecule)
        canvas.FinishDrawing()
        return _compact(canvas.GetDrawingText(), width, height)

    return draw


def _compact(svg: str, width: int, height: int) -> str:
    """Shorten an SVG: a page of thousands need not repeat headers and styles."""
    body = svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")]
    body = _IDLE.sub("", re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL))
    body = _PRECISION.sub(r"\1", " ".join(body.split()))
    lines: dict[str, list[str]] = {}  # all paths of one style become one
    for path, style in _PATH.findall(body):
        lines.setdefault(style, []).append(path)
    paths = "".join(f"<path d='{' '.join(several)}' style='{style}'/>" for style, several in lines.items())
    rest = _PATH.sub("", body).replace("> <", "><").strip()
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}">{paths}{rest}</svg>'
