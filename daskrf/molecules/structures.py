"""Tell which SMILES are the same molecule, however written, parsing only those that may be the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from daskrf.molecules.isolation import Lost, each

__all__ = ["KnownStructures", "Molecules", "canonical_smiles", "inchikeys", "same_structures"]

_BRACKETS = re.compile(r"\[[^\]]*\]")
_RING = re.compile(r"%\(\d+\)|%\d\d|\d")
_INCHIKEY = re.compile(r"[A-Z]{14}-[A-Z]{10}-[A-Z]")
_STEREO = re.compile(r"@(?:TH|AL|SP|TB|OH)\d*")


def canonical_smiles(smiles: Iterable[str], parent: bool = False) -> list[str]:
    """Return RDKit's canonical SMILES, stereochemistry included; one that it cannot parse is left unchanged.

    With `parent`, those of the largest fragment, neutralized.

    Examples
    --------
    >>> canonical_smiles(["OCC", "C1=CC=CC=C1", "?"])
    ['CCO', 'c1ccccc1', '?']
    >>> canonical_smiles(["C[NH3+].[Cl-]", "CC(=O)[O-].[Na+]"], parent=True)
    ['CN', 'CC(=O)O']
    """
    texts = list(smiles)
    found = each("daskrf.molecules.counter:canonizer", (parent,), texts)
    return [text if isinstance(name, Lost) else name for text, name in zip(texts, found, strict=True)]


def inchikeys(smiles: Iterable[str]) -> list[str]:
    """Return standard InChIKeys; a text that is one already, or has none, is left unchanged.

    Examples
    --------
    >>> inchikeys(["OCC", "LFQSCWFLJHTTHZ-UHFFFAOYSA-N", "?"])
    ['LFQSCWFLJHTTHZ-UHFFFAOYSA-N', 'LFQSCWFLJHTTHZ-UHFFFAOYSA-N', '?']
    """
    texts = list(smiles)
    asked = [at for at, text in enumerate(texts) if text and not _INCHIKEY.fullmatch(text)]
    keys = each("daskrf.molecules.counter:inchikeyer", (), [texts[at] for at in asked])
    for at, key in zip(asked, keys, strict=True):
        texts[at] = texts[at] if isinstance(key, Lost) or not key else key
    return texts


def composition(smiles: str) -> tuple[int, ...]:
    """Return numbers that are equal for all SMILES of a molecule, from the text alone.

    They are the letters of its elements except hydrogen, which may be implicit, in upper case, since aromatic
    atoms may be written either way; and twice the number of rings, which is ring closures less dots.

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


def same_structures(known: Sequence[str], others: Sequence[str], parent: bool = False) -> list[str | None]:
    """Return the canonical SMILES of each of `others` that may be one of `known`, else None.

    Parameters
    ----------
    known : sequence of str
        Canonical SMILES; with `parent`, of parents.
    others : sequence of str
    parent : bool
        As in `canonical_smiles`.

    Examples
    --------
    >>> same_structures(["CCO"], ["C(C)O", "CCCC"])
    ['CCO', None]
    """
    wanted = set(map(composition, known))
    alike = [at for at, text in enumerate(others) if composition(text) in wanted or (parent and "." in text)]
    found: list[str | None] = [None] * len(others)
    for at, name in zip(alike, canonical_smiles([others[at] for at in alike], parent), strict=True):
        found[at] = name
    return found


class KnownStructures:
    """A fixed set of structures, to find which of many SMILES are among them; few of these are parsed.

    Parameters
    ----------
    canonical : iterable of str
        Canonical SMILES.

    Attributes
    ----------
    names : frozenset of str
        The same.

    Examples
    --------
    >>> KnownStructures(["CCO"]).among(["C(C)O", "CCCC"])
    [True, False]
    """

    def __init__(self, canonical: Iterable[str]) -> None:
        self.names = frozenset(canonical)
        self._compositions = frozenset(map(composition, self.names))

    def __len__(self) -> int:
        return len(self.names)

    def among(self, smiles: Sequence[str]) -> list[bool]:
        """Return whether each of the SMILES is one of the structures."""
        alike = [at for at, text in enumerate(smiles) if composition(text) in self._compositions]
        found = [False] * len(smiles)
        for at, name in zip(alike, canonical_smiles([smiles[at] for at in alike]), strict=True):
            found[at] = name in self.names
        return found


class Molecules:
    """A set of molecules given by SMILES: counts repeats, and those found among others.

    RDKit canonicalizes SMILES only where different texts have the same composition.

    Parameters
    ----------
    smiles : sequence of str
    most : int
        Maximum number of others to parse; see `exhausted`.

    Examples
    --------
    >>> molecules = Molecules(["OCC", "CC", "CCO", "CC=O"])
    >>> molecules.n_repeats()
    1
    >>> molecules.look(["C(C)O", "CCCC"])
    >>> molecules.n_found()
    2
    """

    def __init__(self, smiles: Sequence[str], most: int = 50_000) -> None:
        self._left = most
        self._times = Counter(smiles)
        self._alike: dict[tuple[int, ...], set[str]] = {}
        for text in self._times:
            self._alike.setdefault(composition(text), set()).add(text)
        self._canonical: dict[str, str] = {}
        self._found: set[str] = set()

    @property
    def exhausted(self) -> bool:
        """Whether more others needed parsing than allowed, so that `n_found` is too small."""
        return self._left < 0

    def n_repeats(self) -> int:
        """Return how many of the molecules repeat an earlier one."""
        groups = [group for group in self._alike.values() if len(group) > 1]
        names = self._names(text for group in groups for text in group)
        same = sum(len(group) - len({names[text] for text in group}) for group in groups)
        return self._times.total() - len(self._times) + same

    def look(self, others: Iterable[str]) -> None:
        """Search for the molecules among some others."""
        met: dict[tuple[int, ...], set[str]] = {}
        for text in others:
            if (key := composition(text)) in self._alike:
                met.setdefault(key, set()).add(text)
        asked: list[tuple[set[str], set[str]]] = []
        for key, texts in met.items():
            group = self._alike[key]
            self._found |= group & texts
            if (missing := group - self._found) and not self.exhausted:
                self._left -= len(texts)
                asked.append((missing, texts))
        if self.exhausted:
            return
        names = self._names(text for missing, _ in asked for text in missing)
        parsed = list({text for _, texts in asked for text in texts})
        theirs = dict(zip(parsed, canonical_smiles(parsed), strict=True))
        for missing, texts in asked:
            there = {theirs[text] for text in texts}
            self._found.update(text for text in missing if names[text] in there)

    def n_found(self) -> int:
        """Return how many of the molecules are among the others searched so far."""
        return sum(self._times[text] for text in self._found)

    def _names(self, texts: Iterable[str]) -> dict[str, str]:
        """Return the canonical SMILES of some of the molecules, each computed once, all in one batch."""
        new = [text for text in texts if text not in self._canonical]
        self._canonical.update(zip(new, canonical_smiles(new), strict=True))
        return self._canonical
