"""SMILES of products, joined from the texts of their synthons without a toolkit.

The molecule is the same as that of `daskrf.spaces.synthons.join`, except for stereochemistry, which is left
out: replacing a dummy atom by a branch changes the order of neighbours, and thus the meaning of "@".
"""

from __future__ import annotations

import functools
import re

_DUMMY = re.compile(r"-?\[(\d+)\*\]")
_STEREO = re.compile(r"[/\\]")
_FIRST = re.compile(r"(?:\[[^]*]+\]|Br|Cl|[BCNOPSFI]|[bcnops])(?:[-=#:]?\d)*")
_CLOSURE = re.compile(r"(\[[^]]*\])|(\d)")
_UNUSUAL = re.compile(  # explicit hydrogens, stereocentres that are no tetrahedra, closures above 9, dots
    r"\[\d*H|@[A-GI-Z]|@H\d|[%.]"
)
_SHIFT = 30  # between the numbers of ring closures in one synthon and in the next
_HELD = 2**16


def joined_text(texts: str) -> str:
    """Return a SMILES of the product of some synthons, without stereochemistry.

    Parameters
    ----------
    texts : str
        Canonical SMILES of the synthons, separated by spaces, with a dummy atom at each cut, whose isotope is
        the number of the cut.

    Returns
    -------
    str
        Empty if the texts are unusual: `daskrf.spaces.synthons.joiner` has to join these.

    Examples
    --------
    >>> joined_text("[1*]N1CC1 [1*]c1ccccc1"), joined_text("[1*]C[C@H](F)[2*] [1*]N [2*]O")
    ('N1(-c%31ccccc%31)CC1', 'C(-N)[CH](F)-O')
    >>> joined_text("[1*]N [1*]C([2*])=[2*]")
    ''
    """
    synthons = [_plain(text) for text in texts.split(" ")]
    cuts = [_DUMMY.findall(text) for text in synthons]
    core = max(range(len(cuts)), key=lambda slot: len(cuts[slot]))
    branches: dict[str, str] = {}
    for slot, numbers in enumerate(cuts):
        if slot != core:
            branch = _branch(synthons[slot], _SHIFT * (len(branches) + 1)) if len(numbers) == 1 else ""
            if not branch:
                return ""
            branches[numbers[0]] = branch
    if sorted(cuts[core]) != sorted(branches) or len(branches) != len(synthons) - 1:
        return ""
    text = synthons[core]
    if start := _DUMMY.match(text):
        text = text[start.end() :].removeprefix("-")
        first = _FIRST.match(text)
        if first is None:
            return ""
        text = f"{first[0]}({branches[start[1]]}){text[first.end() :]}"
    return _DUMMY.sub(lambda dummy: branches[dummy[1]], text)


@functools.lru_cache(_HELD)
def _plain(text: str) -> str:
    """Return a synthon without stereochemistry; empty if it is unusual."""
    # A directed bond is a single one, but between aromatic atoms: RDKit writes n1/c(=N/C)scc1.
    return "" if _UNUSUAL.search(text) else _STEREO.sub("", text.replace("@", ""))


@functools.lru_cache(_HELD)
def _branch(text: str, shift: int) -> str:
    """Return a synthon as a branch without its dummy atom; empty if the dummy atom is not its first atom."""
    start = _DUMMY.match(text)
    if start is None:
        return ""
    rest = text[start.end() :].removeprefix("-")
    return "-" + _CLOSURE.sub(lambda token: token[1] or f"%{int(token[2]) + shift}", rest)
