"""Which SMILES are the same molecule, however they are written; only what may be the same is parsed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from rdkit import Chem

from daskrf.molecules.quiet import Quiet

__all__ = ["Known", "canonical_smiles", "n_repeats"]

_BRACKETS = re.compile(r"\[[^\]]*\]")
_RING = re.compile(r"%\(\d+\)|%\d\d|\d")
_STEREO = re.compile(r"@(?:TH|AL|SP|TB|OH)\d*")


def canonical_smiles(smiles: Iterable[str]) -> list[str]:
    """Return RDKit's canonical SMILES, stereochemistry included; one that it cannot parse stays as it is.

    Examples
    --------
    >>> canonical_smiles(["OCC", "C1=CC=CC=C1", "?"])
    ['CCO', 'c1ccccc1', '?']
    """
    canonical = []
    with Quiet():
        for text in smiles:
            molecule = Chem.MolFromSmiles(text)
            canonical.append(text if molecule is None else Chem.MolToSmiles(molecule))
    return canonical


def composition(smiles: str) -> tuple[int, ...]:
    """Return numbers that are equal in all SMILES of a molecule, from the text alone.

    They are the letters of its elements but hydrogen, which may be implicit, in upper case, because aromatic
    atoms may be written either way; and twice its ring closures less its dots, the rings.

    Examples
    --------
    >>> composition("c1ccccc1[NH3+]") == composition("[H][N+]([H])([H])C=1C=CC=CC=1")
    True
    """
    upper = smiles.upper()
    if "@" in upper:
        upper = _STEREO.sub("", upper)
    bare = _BRACKETS.sub("", smiles) if "[" in smiles else smiles
    rings = len(_RING.findall(bare)) - 2 * smiles.count(".")
    return (*(upper.count(letter) for letter in "CNOSPFILBR"), rings)


def n_repeats(smiles: Sequence[str]) -> int:
    """Return how many of the SMILES are the same molecule as an earlier one.

    Examples
    --------
    >>> n_repeats(["OCC", "CCO", "CC=O", "C(C)O"])
    2
    """
    compositions = [composition(text) for text in smiles]
    often = Counter(compositions)
    alike = [text for text, key in zip(smiles, compositions, strict=True) if often[key] > 1]
    return len(alike) - len(set(canonical_smiles(alike)))


class Known:
    """Counts which of some SMILES are among others that come in batches.

    Parameters
    ----------
    smiles : sequence of str
        Of the molecules to be found again.
    most : int
        Others that are parsed at most; see `exhausted`.

    Examples
    --------
    >>> known = Known(["OCC", "CC", "CCO"])
    >>> known.look(["C(C)O", "CCCC"])
    >>> known.n_found
    2
    """

    def __init__(self, smiles: Sequence[str], most: int = 50_000) -> None:
        self._left = most
        self._compositions = {composition(text) for text in smiles}
        self._smiles = smiles
        self._copies: Counter[str] = Counter()  # made when there is something to compare with
        self._found: set[str] = set()

    @property
    def exhausted(self) -> bool:
        """Whether more others would have had to be parsed than were allowed, so that the count is none."""
        return self._left < 0

    @property
    def n_found(self) -> int:
        """How many of the SMILES are among the others that were looked at."""
        return sum(self._copies[text] for text in self._found)

    def look(self, others: Iterable[str]) -> None:
        """Look at some others."""
        alike = [text for text in others if composition(text) in self._compositions]
        self._left -= len(alike)
        if not alike or self.exhausted:
            return
        if not self._copies:
            self._copies = Counter(canonical_smiles(self._smiles))
        self._found.update(self._copies.keys() & set(canonical_smiles(alike)))
