"""Find SMILES of the same molecule, however written; only those that may be the same are parsed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from daskrf.molecules.extensions import clean_smiles, has_groups
from daskrf.molecules.isolation import Lost, each

Level = Literal["structure", "parent", "tautomer", "skeleton"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""What counts as the same molecule; each level includes the one before it.

- structure: RDKit's canonical SMILES are equal, with stereochemistry, isotopes, charges and all fragments.
  Racemates (&1), an enantiomer of unknown configuration (o1) and each enantiomer differ, and so do
  sulfoxides drawn with charges, S+ and O-, and with a double bond.
- parent: so are those of the fragments with most atoms, metals cut off, without charges that hydrogens can
  neutralize, or double bonds in sulfoxides, phosphine oxides and ylides: salts, solvates, anions and cations.
  Fragments without carbon, and known counter-ions and solvents, count only where there is no other one: see
  `daskrf.molecules.counterions`.
- tautomer: so are their canonical tautomers. Stereocentres count, but not at double bonds that move.
- skeleton: so are these without stereochemistry and isotopes.
"""

RULES = 2
"""Version of these rules, part of cache keys; it changes with what counts as the same molecule."""

LEVEL_WORDS = {
    "structure": "structure",
    "parent": "parent (ignoring salts and charges)",
    "tautomer": "tautomer (ignoring salts, charges and tautomers)",
    "skeleton": "skeleton (ignoring salts, charges, tautomers, stereochemistry and isotopes)",
}

_MOST_KEPT = 200_000  # cached tautomers of a set

_BRACKETS = re.compile(r"\[[^\]]*\]")
_RING = re.compile(r"%\(\d+\)|%\d\d|\d")
_INCHIKEY = re.compile(r"[A-Z]{14}-[A-Z]{10}-[A-Z]")
_SALT = re.compile(  # several fragments, or an atom that may be cut off as a metal
    r"\.|\[\d*(?!(?:H|B|C|N|O|F|Si|P|S|Cl|As|Se|Br|Te|I|b|c|n|o|p|s|as|se|te|si)(?![a-z]))"
)
_STEREO = re.compile(r"@(?:TH|AL|SP|TB|OH)\d*")


def level_of(key: str) -> Level:
    """Return the level of equality that a key of labels stands for; "structure" for others, such as IDs."""
    return next((level for level in LEVELS if level == key), "structure")


def canonical_smiles(smiles: Iterable[str]) -> list[str]:
    """Return RDKit's canonical SMILES, with stereochemistry; those that it cannot parse are left unchanged.

    Examples
    --------
    >>> canonical_smiles(["OCC", "C1=CC=CC=C1", "?"])
    ['CCO', 'c1ccccc1', '?']
    """
    texts = list(smiles)
    results = each("daskrf.molecules.counts.counter:canonizer", (), texts)
    return [text if isinstance(name, Lost) else name for text, name in zip(texts, results, strict=True)]


def refusals(smiles: Sequence[str]) -> list[str]:
    """Return why RDKit rejects each SMILES; "" for those that it reads.

    Examples
    --------
    >>> refusals(["OCC", "C1CC"])
    ['', 'RDKit cannot parse: unclosed ring']
    """
    results = each("daskrf.molecules.counts.counter:refuser", (), smiles)
    return [f"RDKit {why.reason}" if isinstance(why, Lost) else why for why in results]


def unmarked(smiles: Iterable[str]) -> list[str]:
    """Return SMILES in which the centres of enhanced stereo groups are unspecified.

    Examples
    --------
    >>> unmarked(["C[C@H](F)Cl |&1:1|", "C[C@H](F)Cl"])
    ['CC(F)Cl', 'C[C@H](F)Cl']
    """
    texts = [clean_smiles(text) for text in smiles]
    marked = [at for at, text in enumerate(texts) if has_groups(text)]
    results = each("daskrf.molecules.counts.counter:unmarker", (), [texts[at] for at in marked])
    for at, text in zip(marked, results, strict=True):
        texts[at] = texts[at].partition(" ")[0] if isinstance(text, Lost) else text
    return texts


def inchikeys(smiles: Iterable[str]) -> list[str]:
    """Return standard InChIKeys; texts that are InChIKeys already, or have none, are left unchanged.

    Examples
    --------
    >>> inchikeys(["OCC", "LFQSCWFLJHTTHZ-UHFFFAOYSA-N", "?"])
    ['LFQSCWFLJHTTHZ-UHFFFAOYSA-N', 'LFQSCWFLJHTTHZ-UHFFFAOYSA-N', '?']
    """
    texts = list(smiles)
    pending = [at for at, text in enumerate(texts) if text and not _INCHIKEY.fullmatch(text)]
    keys = each("daskrf.molecules.counts.counter:inchikeyer", (), [texts[at] for at in pending])
    for at, key in zip(pending, keys, strict=True):
        texts[at] = texts[at] if isinstance(key, Lost) or not key else key
    return texts


def composition(smiles: str) -> tuple[int, ...]:
    """Return numbers that are equal for all SMILES of a molecule, without parsing them.

    They are the counts of the letters of its elements, in upper case, since aromatic atoms may be written
    either way, and without hydrogen, which may be implicit; and twice the number of rings, which is that of
    ring-closure digits less two per dot.

    Examples
    --------
    >>> composition("c1ccccc1[NH3+]") == composition("[H][N+]([H])([H])C=1C=CC=CC=1")
    True
    """
    smiles = smiles.partition(" |")[0]
    upper = smiles.upper()
    if "@" in upper:
        upper = _STEREO.sub("", upper)
    bare = _BRACKETS.sub("", smiles) if "[" in smiles else smiles
    rings = len(_RING.findall(bare)) - 2 * smiles.count(".")
    return (*(upper.count(letter) for letter in "CNOSPFILBR"), rings)


def parents(smiles: Sequence[str]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the SMILES of parents, and hashes of their graphs: see `daskrf.molecules.sameness`.

    Examples
    --------
    >>> parents(["C[NH3+].[Cl-]", "CC(=O)[O-].[Na+]"])[0]
    ['CN', 'CC(=O)O']
    """
    results = each("daskrf.molecules.sameness:parenter", (), smiles)
    pairs = [(text, 0) if isinstance(one, Lost) else one for text, one in zip(smiles, results, strict=True)]
    return [name for name, _ in pairs], np.array([graph for _, graph in pairs], np.int64)


def tautomers(parents: Sequence[str], *, plain: bool) -> list[str]:
    """Return the canonical tautomers of parents, as `daskrf.molecules.sameness.tautomerizer` makes them."""
    results = each("daskrf.molecules.sameness:tautomerizer", (plain,), parents)
    return [text if isinstance(one, Lost) else one for text, one in zip(parents, results, strict=True)]


def same_names(smiles: Iterable[str], level: Level = "structure") -> list[str]:
    """Return one canonical SMILES for all that are the same molecule at a level.

    Tautomers are compared only among molecules with the same graph of elements, since RDKit takes some 20 ms
    for each.

    Examples
    --------
    >>> same_names(["Oc1ccccn1", "O=c1cccc[nH]1", "OCC"], "tautomer")
    ['O=c1cccc[nH]1', 'O=c1cccc[nH]1', 'CCO']
    """
    texts = list(smiles)
    if level == "structure":
        return canonical_smiles(texts)
    names, graphs = parents(texts)
    if level == "parent":
        return names
    groups: dict[int, set[str]] = {}
    for name, graph in zip(names, graphs.tolist(), strict=True):
        groups.setdefault(graph, set()).add(name)
    several = sorted(
        name for graph, members in groups.items() if graph and len(members) > 1 for name in members
    )
    first: dict[str, str] = {}
    same = {
        name: first.setdefault(tautomer, name)
        for name, tautomer in zip(several, tautomers(several, plain=level == "skeleton"), strict=True)
    }
    return [same.get(name, name) for name in names]


def others(one: Sequence[str], two: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return whether each SMILES is certainly a different molecule from its counterpart in `two`.

    Parents with the same graph of elements do not count as different, whatever their tautomers and
    stereochemistry, nor do texts that RDKit cannot read.

    Examples
    --------
    >>> others(["OCC", "Oc1ccccn1", "CCO", "?"], ["CCO.Cl", "O=c1cccc[nH]1", "CCN", "CC"]).tolist()
    [False, False, True, False]
    """
    pairs = [(clean_smiles(a), clean_smiles(b)) for a, b in zip(one, two, strict=True)]
    texts = sorted({text for a, b in pairs if a != b for text in (a, b)})
    read = {
        text
        for text, valid in zip(
            texts, each("daskrf.molecules.counts.counter:syntax_checker", (), texts), strict=True
        )
        if valid is True
    }
    candidates = [at for at, (a, b) in enumerate(pairs) if a != b and a in read and b in read]
    different = np.zeros(len(pairs), bool)
    for at in candidates:  # most different molecules have different elements or rings
        a, b = pairs[at]
        different[at] = not (_SALT.search(a) or _SALT.search(b)) and composition(a) != composition(b)
    candidates = [at for at in candidates if not different[at]]
    names = [
        [max(name.split("."), key=len) for name in canonical_smiles([pairs[at][side] for at in candidates])]
        for side in (0, 1)
    ]
    differ = [i for i, (a, b) in enumerate(zip(*names, strict=True)) if a != b]
    graphs = [parents([column[i] for i in differ])[1] for column in names]
    different[[candidates[i] for i in differ]] = (graphs[0] != graphs[1]) & (graphs[0] > 0) & (graphs[1] > 0)
    return different


class KnownStructures:
    """A fixed set of molecules, to look up many SMILES in; few of these are parsed.

    Parameters
    ----------
    names : iterable of str
        Of `same_names` at this level.
    level : {"structure", "parent", "tautomer", "skeleton"}
        What counts as the same molecule; see `LEVELS`.
    graphs : sequence of int, optional
        Hashes of the graphs of `names` from `parents`, if already computed.

    Attributes
    ----------
    names : tuple of str
        Sorted, without repeats.
    level : str

    Examples
    --------
    >>> KnownStructures(["CCO"]).among(["C(C)O", "CCCC"])
    [True, False]
    >>> KnownStructures(["O=c1cccc[nH]1"], "tautomer").same_as(["[O-]c1ccccn1.[Na+]", "Oc1cccnc1"])
    ['O=c1cccc[nH]1', None]
    """

    def __init__(
        self, names: Iterable[str], level: Level = "structure", graphs: Sequence[int] | None = None
    ) -> None:
        texts = list(names)
        if level != "structure" and graphs is None:
            graphs = parents(texts)[1].tolist()
        pairs = dict(zip(texts, [0] * len(texts) if graphs is None else graphs, strict=True))
        self.names = tuple(sorted(pairs))
        self.graphs = tuple(pairs[name] for name in self.names)
        self.level = level
        self._name_set = frozenset(self.names)
        self._compositions = frozenset(map(composition, self.names))
        self._of_graph: dict[int, list[str]] = {}
        for name, graph in zip(self.names, self.graphs, strict=True):
            self._of_graph.setdefault(graph, []).append(name)
        self._tautomers: dict[str, str] = {}
        self._seen: dict[str, bool] = {}

    @classmethod
    def of(cls, smiles: Iterable[str], level: Level = "structure") -> KnownStructures:
        """Return the set of some molecules, however they are written."""
        names = same_names(smiles, level)
        if level == "structure":  # centres that depend on each other may be written in two ways at first
            names += canonical_smiles([name for name in names if set(name) & set("@/\\")])
        return cls(names, level)

    @classmethod
    def union(cls, sets: Iterable[KnownStructures], level: Level) -> KnownStructures:
        """Return the molecules of several sets of the same level."""
        pairs = {name: graph for group in sets for name, graph in zip(group.names, group.graphs, strict=True)}
        return cls(list(pairs), level, list(pairs.values()))

    def __len__(self) -> int:
        return len(self.names)

    def among(self, smiles: Sequence[str]) -> list[bool]:
        """Return whether each of the SMILES is one of the molecules."""
        return [name is not None for name in self.same_as(smiles)]

    def free(self, smiles: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return whether each of the SMILES is none of the molecules; answers are cached."""
        if not self._name_set:
            return np.ones(len(smiles), bool)
        new = [text for text in dict.fromkeys(smiles) if text not in self._seen]
        self._seen.update(zip(new, self.among(new), strict=True))
        return np.array([not self._seen[text] for text in smiles], bool)

    def may_hold(self, smiles: str) -> bool:
        """Return whether the SMILES may be one of the molecules: its composition is that of one of them."""
        if composition(smiles) in self._compositions:
            return True
        return self.level != "structure" and _SALT.search(smiles) is not None

    def same_as(self, smiles: Sequence[str]) -> list[str | None]:
        """Return the name of the molecule that each of the SMILES is, or None."""
        wide = self.level != "structure"
        alike = [at for at, text in enumerate(smiles) if self.may_hold(text)]
        matches: list[str | None] = [None] * len(smiles)
        texts = [smiles[at] for at in alike]
        names, graphs = parents(texts) if wide else (canonical_smiles(texts), np.zeros(0, np.int64))
        others: list[tuple[int, str, int]] = []
        for i, (at, name) in enumerate(zip(alike, names, strict=True)):
            if name in self._name_set:
                matches[at] = name
            elif wide and self.level != "parent" and (graph := int(graphs[i])) in self._of_graph and graph:
                others.append((at, name, graph))
        for at, name in self._by_tautomers(others):
            matches[at] = name
        return matches

    def _by_tautomers(self, others: Sequence[tuple[int, str, int]]) -> Iterator[tuple[int, str]]:
        """Yield place and name for each (place, parent, graph) that is a tautomer of a member."""
        new = {name for _, name, _ in others} | {
            name for _, _, graph in others for name in self._of_graph[graph]
        }
        pending = sorted(new - self._tautomers.keys())
        if len(self._tautomers) > _MOST_KEPT:
            self._tautomers, pending = {}, sorted(new)
        self._tautomers.update(zip(pending, tautomers(pending, plain=self.level == "skeleton"), strict=True))
        for at, name, graph in others:
            tautomer = self._tautomers[name]
            same = (
                candidate for candidate in self._of_graph[graph] if self._tautomers[candidate] == tautomer
            )
            if (first := next(same, None)) is not None:
                yield at, first


class Molecules:
    """A set of molecules given by SMILES: counts its repeats, and its molecules among others.

    RDKit canonicalizes SMILES only where different texts have the same composition.

    Parameters
    ----------
    smiles : sequence of str
    most : int
        Maximum number of other molecules to parse; see `exhausted`.

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
        self._hits: set[str] = set()

    @property
    def exhausted(self) -> bool:
        """Whether the maximum number of parsed molecules was exceeded, so that `n_found` is too small."""
        return self._left < 0

    def n_repeats(self) -> int:
        """Return how many of the molecules repeat an earlier one."""
        groups = [group for group in self._alike.values() if len(group) > 1]
        names = self._names(text for group in groups for text in group)
        same = sum(len(group) - len({names[text] for text in group}) for group in groups)
        return self._times.total() - len(self._times) + same

    def look(self, others: Iterable[str]) -> None:
        """Search for the molecules of the set among some others."""
        met: dict[tuple[int, ...], set[str]] = {}
        for text in others:
            if (key := composition(text)) in self._alike:
                met.setdefault(key, set()).add(text)
        pending: list[tuple[set[str], set[str]]] = []
        for key, texts in met.items():
            group = self._alike[key]
            self._hits |= group & texts
            if (missing := group - self._hits) and not self.exhausted:
                self._left -= len(texts)
                pending.append((missing, texts))
        if self.exhausted:
            return
        names = self._names(text for missing, _ in pending for text in missing)
        parsed = list({text for _, texts in pending for text in texts})
        theirs = dict(zip(parsed, canonical_smiles(parsed), strict=True))
        for missing, texts in pending:
            there = {theirs[text] for text in texts}
            self._hits.update(text for text in missing if names[text] in there)

    def n_found(self) -> int:
        """Return how many of the molecules are among the others searched so far."""
        return sum(self._times[text] for text in self._hits)

    def _names(self, texts: Iterable[str]) -> dict[str, str]:
        """Return the canonical SMILES of some of the molecules, each computed once, all in one batch."""
        new = [text for text in texts if text not in self._canonical]
        self._canonical.update(zip(new, canonical_smiles(new), strict=True))
        return self._canonical
