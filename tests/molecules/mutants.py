"""Lines that somebody's file may hold: mutants of real SMILES, and bytes of any kind."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_ASCII = r"""
    [13CH4] [2H] [C@@H] [C@TB21] [Pt@OH25] [#119] [#0] [CH128] [NaH200] [Fe+99] [C-9999999999] [99999999999C]
    [C:99999999999] [Uuo] [*] * [] [ ] [[C]] [c] %00 %10 %99 %(100) %(99999) % 0 9 11 ( ) () (( )) . .. @ @@ /
    \ /C=C/ // = # $ ~ : - -> <- ^ _ ? > >> C>>C { } | 0x41 1e309 -1 nan
"""
_WORDS = [
    *_ASCII.split(),
    *("\t", " ", "  x", " |$R$|", "\r", "\0", "\x1b[31m", "\x7f", "\x85", "é", "ß", "Δ", "名"),
    *("\u202e", "\u2028", "\ufeff", "\ufffd", "\U0001d520", "e\u0301"),
]
_BRANCHES = (
    "[13CH3] [2H] [C@@H](F)Cl [Fe+2] [U] C(=O)O c1ccccc1 N1CC1 C#N S(=O)(=O)C P(F)(F)(F)(F)F [O-] [N+](C)(C)C"
)


def mutant(draw: random.Random, texts: Sequence[str]) -> str:
    """Return a real text that is changed one to four times, in half of all cases as chemistry allows."""
    text = draw.choice(texts)
    changes = draw.choice([_FAULTS, _DERIVATIVES])
    for _ in range(draw.randint(1, 4)):
        text = draw.choice(changes)(draw, text, draw.choice(texts))
    return text[:12_000]


def garbage(draw: random.Random) -> bytes:
    """Return any bytes but the end of a line."""
    letters = draw.choice([bytes(range(256)), bytes(range(128)), b"CNOPScnops[]()=#@/\\%.1234567890+-H"])
    return bytes(draw.choices(letters, k=draw.randint(0, 80))).replace(b"\n", b"")


def _cut(draw: random.Random, text: str) -> tuple[str, str, str]:
    one, other = sorted((draw.randint(0, len(text)), draw.randint(0, len(text))))
    return text[:one], text[one:other], text[other:]


def _splice(draw: random.Random, text: str, other: str) -> str:
    return _cut(draw, text)[0] + _cut(draw, other)[2]


def _repeat(draw: random.Random, text: str, other: str) -> str:
    head, middle, tail = _cut(draw, text)
    return head + middle * draw.choice([0, 2, 3, 20, 200]) + tail


def _insert(draw: random.Random, text: str, other: str) -> str:
    head, middle, tail = _cut(draw, text)
    return head + draw.choice(_WORDS) + draw.choice([middle, ""]) + tail


def _nest(draw: random.Random, text: str, other: str) -> str:
    depth = draw.choice([1, 5, 100, 1500])
    return f"{'C(' * depth}{other}{')' * depth}{text}" if draw.random() < 0.5 else f"{text}{'(C)' * depth}"


def _swap(draw: random.Random, text: str, other: str) -> str:
    letters = list(text)
    for _ in range(min(len(letters), draw.randint(1, 5))):
        letters[draw.randrange(len(letters))] = draw.choice(text or "C")
    return "".join(letters)


def _close_rings(draw: random.Random, text: str, other: str) -> str:
    """Join atoms of the text by rings that it does not have."""
    for label in range(60, 60 + draw.randint(1, 30)):
        for _ in range(2):
            places = [k for k, letter in enumerate(text, 1) if letter in "CNOcn"] or [0]
            at = draw.choice(places)
            text = f"{text[:at]}%{label}{text[at:]}"
    return text


def _metals(draw: random.Random, text: str, other: str) -> str:
    return text.replace(draw.choice("CNOcn"), draw.choice(["[U]", "[Fe]", "[Co+3]"]))


def _substitute(draw: random.Random, text: str, other: str) -> str:
    """Bind branches to atoms, most often of one bond too many."""
    for _ in range(draw.choice([1, 1, 3, 10])):
        places = [k for k, letter in enumerate(text, 1) if letter in "Cc" and text[k : k + 1].isalpha()] or [
            0
        ]
        at = draw.choice(places)
        text = f"{text[:at]}({draw.choice(_BRANCHES.split())}){text[at:]}"
    return text


def _lengthen(draw: random.Random, text: str, other: str) -> str:
    link = draw.choice(["C", "CCO", "C=C", "C([2H])([2H])", "C(C)(C)", "[U](C)(C)(C)", "c1ccc(cc1)", "."])
    return (text + link * draw.choice([1, 5, 50, 300])) * draw.choice([1, 2, 5])


def _wrap(draw: random.Random, text: str, other: str) -> str:
    rings = draw.choice([3, 8, 14, 18, 40])
    return draw.choice(
        ["c1%91ccc(cc1)" + "-c1ccc(cc1)" * rings + "-c1ccc%91cc1", f"C%92{'C1CC1' * rings}%92", f"C1{text}1"]
    )


_FAULTS: list[Callable[[random.Random, str, str], str]] = [
    *(_splice, _repeat, _insert, _insert, _nest, _swap, _close_rings, _metals),
    lambda draw, text, other: text[::-1],
    lambda draw, text, other: text.swapcase(),
]
_DERIVATIVES: list[Callable[[random.Random, str, str], str]] = [
    *(_substitute, _substitute, _lengthen, _wrap, _close_rings, _metals),
    lambda draw, text, other: text + "." + other,
]
