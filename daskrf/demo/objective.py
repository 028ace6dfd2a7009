"""A computed objective that stands in for a docking score: lower is better, deterministic, no unit.

It models an invented pocket. Let n_t be the number of matches of the pattern of term t in `TERMS`
(overlapping matches count once per set of atoms) and s(n) = 2 (1 - 2^-n), so that a second match adds half
as much as the first, a third a quarter:

    score = -5.8                                        constant
            - 3.0 (1 - exp(-lipophilic / 12))           contacts, saturating; `lipophilic` counts atoms
            + sum over t of weight_t s(n_t)             single groups
            + sum over pairs of weight_pair             both groups present, whatever their numbers
            + sum over spans of weight_span             two groups d bonds apart (first atoms of their
              exp(-((d - best) / 1.5)^2)                patterns), for the two matches that fit best
            + 0.10 max(0, rotatable - 5)                entropy
            + 0.12 max(0, heavy - 31)                   size
            + 0.015 max(0, tpsa - 95)                   desolvation
            + 0.60 max(0, basic - 1)                    charge

Single groups are local, so a kernel on circular fingerprints learns them fast; pairs, the distance and the
saturations are not, so it does not learn everything. Rare molecules with several pairs form the tail of good
scores that a screen looks for. Over `daskrf.demo.enumeration.ReactionLibrary` the standard deviation is
about one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from daskrf.errors import InputError


@dataclass(frozen=True)
class Term:
    """A group that the pocket recognizes: weight of its first match (negative is good) and SMARTS pattern."""

    weight: float
    smarts: str


TERMS: dict[str, Term] = {
    "hinge": Term(-0.20, "[nX2;r6]"),
    "azole donor": Term(-0.30, "[nH]"),
    "hinge amine": Term(-0.25, "[nX2]:c-[NX3]"),
    "basic": Term(-0.20, "[NX3]([CX4])([CX4])[CX4]"),
    "sulfonyl": Term(-0.20, "[SX4](=O)(=O)-N"),
    "urea": Term(-0.20, "[NX3]-C(=O)-[NX3]"),
    "secondary amide": Term(-0.15, "[NX3;H1]-[CX3](=O)-[#6]"),
    "anilide": Term(0.15, "c-[NX3;H1]-C(=O)"),
    "fluoromethyl": Term(-0.20, "[CX4;$(C(F)F)]"),
    "chloroarene": Term(-0.20, "[Cl]-c"),
    "fluoroarene": Term(-0.10, "[F]-c"),
    "nitrile": Term(-0.15, "[CX2]#N"),
    "aryl ether": Term(-0.10, "c-[OX2]-[CX4]"),
    "biaryl": Term(-0.25, "c-!@c"),
    "fused arene": Term(-0.15, "[c;R2]"),
    "branched": Term(0.15, "[CX4;D3,D4;R0]([CX4])[CX4]"),
    "spiro": Term(0.20, "[CX4;D4;R2]"),
    "thio arene": Term(-0.20, "s"),
    "saturated ether": Term(0.10, "[OX2;$(O([CX4])[CX4])]"),
}

PAIRS: tuple[tuple[str, str, float], ...] = (
    ("hinge", "fluoromethyl", -0.60),
    ("azole donor", "chloroarene", -0.80),
    ("basic", "sulfonyl", -0.60),
    ("urea", "fluoromethyl", -0.60),
    ("hinge amine", "secondary amide", -0.50),
    ("biaryl", "basic", -0.60),
    ("nitrile", "sulfonyl", 0.50),
    ("urea", "anilide", 0.40),
    ("thio arene", "hinge", 0.50),
    ("chloroarene", "fluoroarene", -0.50),
)

# Two groups at the right number of bonds from each other: weight of a perfect fit, and that distance.
# The first atom of these patterns is the same one whichever way a match is found.
SPANS: tuple[tuple[str, str, float, float], ...] = (
    ("hinge", "basic", -1.6, 7.0),
    ("hinge", "chloroarene", -1.2, 9.0),
    ("secondary amide", "fluoromethyl", -1.2, 6.0),
    ("nitrile", "secondary amide", -1.0, 7.0),
    ("saturated ether", "fluoroarene", -1.0, 10.0),
    ("sulfonyl", "azole donor", -1.2, 8.0),
)
_SPAN_WIDTH = 1.5

_LIPOPHILIC = "[c,s,Cl,Br,$([CX4;!$(C-[!#6])]),$([F]-[#6])]"
_ROTATABLE = "[!D1;!$(*#*)]-!@[!D1;!$(*#*)]"


@cache
def _query(smarts: str) -> Chem.Mol:
    return Chem.MolFromSmarts(smarts)


def _fit(
    distances: npt.NDArray[np.float64],
    one: Sequence[tuple[int, ...]],
    other: Sequence[tuple[int, ...]],
    best: float,
) -> float:
    """Return how close the best pair of first atoms is to `best` bonds apart, 0 to 1."""
    between = [distances[a[0], b[0]] for a in one for b in other]
    return max(math.exp(-(((d - best) / _SPAN_WIDTH) ** 2)) for d in between)


def score_molecule(mol: Chem.Mol) -> float:
    """Return the objective of one RDKit molecule; see the module docstring for the formula."""
    matches = {name: mol.GetSubstructMatches(_query(term.smarts)) for name, term in TERMS.items()}
    counts = {name: len(sites) for name, sites in matches.items()}
    lipophilic = len(mol.GetSubstructMatches(_query(_LIPOPHILIC)))
    rotatable = len(mol.GetSubstructMatches(_query(_ROTATABLE)))
    value = -5.8 - 3.0 * (1.0 - math.exp(-lipophilic / 12.0))
    value += sum(term.weight * 2.0 * (1.0 - 0.5 ** counts[name]) for name, term in TERMS.items())
    value += sum(weight for one, other, weight in PAIRS if counts[one] and counts[other])
    distances = Chem.GetDistanceMatrix(mol)
    value += sum(
        weight * _fit(distances, matches[one], matches[other], best)
        for one, other, weight, best in SPANS
        if counts[one] and counts[other]
    )
    value += 0.10 * max(0, rotatable - 5)
    value += 0.12 * max(0, mol.GetNumHeavyAtoms() - 31)
    value += 0.015 * max(0.0, rdMolDescriptors.CalcTPSA(mol) - 95.0)
    value += 0.60 * max(0, counts["basic"] - 1)
    return value


def _parsed(smiles: str) -> Chem.Mol | None:
    try:
        return Chem.MolFromSmiles(smiles)
    except (RuntimeError, ValueError):  # an RDKit invariant violation, or a text that it cannot read
        return None


def score(molecules: Sequence[str | Chem.Mol]) -> npt.NDArray[np.float64]:
    """Return the objective of molecules given as SMILES or as RDKit molecules.

    Parameters
    ----------
    molecules
        n SMILES strings or RDKit molecules, or a mixture of both.

    Returns
    -------
    float64 array of shape (n,)
        Lower is better; about -8.1 on average over the library, standard deviation about 1.

    Raises
    ------
    InputError
        If an entry is not a molecule; the message gives its position.

    Examples
    --------
    >>> from daskrf.demo import objective
    >>> objective.score(["c1ccccc1", "O=C(Nc1ncccn1)c1ccc(Cl)cc1"]).round(2).tolist()
    [-6.98, -9.74]
    """
    values = np.empty(len(molecules), dtype=np.float64)
    for i, entry in enumerate(molecules):
        mol = _parsed(entry) if isinstance(entry, str) else entry
        if mol is None:
            raise InputError(f"Molecule {i} ({entry!r}) cannot be read as SMILES: remove it before scoring.")
        values[i] = score_molecule(mol)
    return values
