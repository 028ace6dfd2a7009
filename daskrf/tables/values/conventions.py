"""Conventions: whether large or small values of a known quantity are wanted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from daskrf.tables.values.docking import known_score
from daskrf.tables.values.units import concentration_unit
from daskrf.tables.values.values import Scale


@dataclass(frozen=True)
class Convention:
    """Which values of a quantity are usually wanted.

    Attributes
    ----------
    direction : str
        "maximize" or "minimize".
    why : str
        What such values mean, in words.
    """

    direction: str
    why: str


_POTENT: Final = Convention("maximize", "large values mean potent molecules")
_CONCENTRATION: Final = Convention("minimize", "small concentrations mean potent molecules")
_ENERGY: Final = Convention("minimize", "negative scores mean tight binding")
_INHIBITION: Final = Convention("maximize", "large values mean strong inhibition")
_RESIDUAL: Final = Convention("minimize", "small values mean strong inhibition")
_LEARNED: Final = Convention("maximize", "large values mean likely or tight binding")

# Both directions are common for these: toxicity, off-targets, solubility and permeability.
_EITHER = re.compile(r"herg|\bcyp|tox|\b(p|log)? ?[clt][cd] ?50|off ?target|counter|selectiv|solub|perme")
_NAME = (
    r"(?:(?:ic|ec|ac|xc|gi|ed|sc|dc) ?[59]0|[ie]c(?:[1-9][05]|99)|k ?[idb](?: ?app)?|mic(?: ?[59]0)?|"
    r"inhibition constant)"
)
_P = re.compile(rf"\b(?:p ?{_NAME}|pa2|p ?chembl|p ?(?:activity|affinity|potency))\b")
_MINUS_LOG = re.compile(rf"(?:neg|minus|-) ?log(?: ?10)? ?{_NAME}\b")
_INVERSE = re.compile(rf"(?<!\d)1 ?/ ?{_NAME}\b|\bk ?inact ?(?:/|over|per)? ?k ?i\b")
# A unit may be glued to it, but a quotient is another quantity.
_POTENCY = re.compile(
    rf"(?<!/)(?<!/ )\b(?:log(?: ?(?:10|2))? ?|l[ng] ?)?{_NAME}(?:[munp]m)?\b(?! ?/(?! ?[munpf]?m(?:ol|\b)))"
)
_REST = re.compile(r"(?:residual|remaining) activity|activity (?:residual|remaining)")
_PERCENT = r"(?:pct|percent(?:age)?|perc)\b"
_INHIBITED = re.compile(
    rf"(?:%|\b{_PERCENT}) ?inh(?:ib)?\b|\binh(?:ib)? ?(?:%|{_PERCENT})|\binhibition\b|"
    r"\b(?:pct|perc)inh(?:ib)?\b"
)
_CNN = re.compile(r"\bcnn ?(?:score|affinity|vs)(?! variance)")
_DOCKING = re.compile(
    r"vina|smina|glide|\bxp\b|g ?score|docking|\bdock ?scores?\b|chemgauss|autodock|affinity|"
    r"binding (?:free )?energy|free energy of binding|grid score|score inter|"
    r"\b(?:delta|d|δ) ?g\b|\bmm ?(?:gb|pb) ?sa\b|\bk(?:cal|j) ?(?:/ ?)?mol\b"
)
_GENERIC = re.compile(
    r"(?:standard|published|measured|exp|mean)? ?(?:values?|activity|results?|score|y|labels?)"
)
_POTENCIES = re.compile(r"(?:standard|published|measured|exp|mean)? ?(?:values?|activity|affinity|potency)")
_UNITS = re.compile(r"\b[munpf]?(?:m|mol ?/ ?l|molar)\b$")


def convention_of(scale: Scale, middle: float, file: str = "") -> Convention | None:
    """Return which values of a target are usually wanted, or None if nothing is known.

    Parameters
    ----------
    scale : Scale
        Of the target: its name, transform and unit.
    middle : float
        Median of the labels; scores of docking are known by their sign.
    file : str
        Name of the file of labels, which may say what a column called "value" does not.

    Examples
    --------
    >>> convention_of(Scale("IC50", "pIC50", "pIC50", "nM"), 6.0)
    Convention(direction='maximize', why='large values mean potent molecules')
    >>> convention_of(Scale("ic50_nM", "ic50_nM"), 300.0).direction
    'minimize'
    >>> convention_of(Scale("logD", "logD"), 2.0) is None
    True
    """
    name = _words(scale.column)
    last = _UNITS.search(name)
    bare = name[: last.start()].strip() if last else name
    text = f"{name} {_words(file.partition('.')[0])}" if _GENERIC.fullmatch(bare) else name
    form = _words(scale.transform)
    if _EITHER.search(f"{text} {form}"):
        return None
    if scale.is_p:
        return _POTENT if _P.search(form) else None
    if _INVERSE.search(text):
        return None if re.search(r"(?:neg|minus|-)[\s_]*log", scale.column.lower()) else _POTENT
    if _P.search(text) or _MINUS_LOG.search(scale.column.lower().replace("_", " ").replace("(", "")):
        return _POTENT
    if (score := known_score(scale.column)) is not None:
        return _LEARNED if score.larger else _ENERGY if middle < 0 else None
    if _CNN.search(text):
        return _LEARNED
    if _REST.search(text):
        return _RESIDUAL
    if _POTENCY.search(text):
        return _CONCENTRATION
    if _INHIBITED.search(text):
        return _INHIBITION
    unit = concentration_unit(scale.unit or (last[0] if last else ""))
    if (unit in ("nM", "pM", "fM") and _POTENCIES.fullmatch(bare)) or (unit and bare == "potency"):
        return _CONCENTRATION
    if middle < 0 and (_DOCKING.search(text) or _DOCKING.search(_words(scale.unit))):
        return _ENERGY
    return None


def _words(text: str) -> str:
    """Return lower-case words of a name: without punctuation, and cut where small letters meet capitals."""
    cut = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", text.replace("\N{INCREMENT}", "Δ"))
    return re.sub(r"\s+", " ", re.sub(r"[^\w%/]|_", " ", cut.lower())).strip()
