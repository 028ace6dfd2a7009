"""What a fingerprint counts, by name; without RDKit, which only the helper processes import."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Literal, TypedDict, cast, get_args

from daskrf.errors import InputError
from daskrf.parameters import Option
from daskrf.quantities import DESCRIPTORS, POSITIONS, SUBSTITUENTS

Fragments = Literal["keep", "largest", "reject"]
_MOST, _RADIUS = 10, 1  # bonds in a radius: the most, and if none is given
_FARTHEST = 30  # bonds between the atoms of a pair: RDKit's limit, and if none is given
FRAGMENTS = get_args(Fragments)
KINDS = ("morgan", "atompair", "torsion", "rdkit", "lingo", SUBSTITUENTS, DESCRIPTORS)
_LAST = (SUBSTITUENTS, POSITIONS, DESCRIPTORS)  # their order at the end of a row, after all other kinds
DEFAULT_KINDS = ("morgan:2", "morgan:2:features", "atompair:4")
"""The kinds counted by default; docs/maps.md has the comparison."""
WIDE = "wide"
WIDE_KINDS = ("morgan:3", "morgan:3:features", "atompair", "rdkit", DESCRIPTORS)
"""The kinds that "wide" stands for: together they predict measured values best; benchmarks/README.md."""
# Features of drug-like molecules, about a third more than the mean of three libraries; for Morgan
# environments, per bond of the radius plus once more.
_PAIRS = 25  # atom pairs at each distance, as far as there are
_USUAL = {
    "morgan": 20,
    "atompair": 220,
    "torsion": 45,
    "rdkit": 750,
    "lingo": 50,
    SUBSTITUENTS: 16,
    POSITIONS: 35,
    DESCRIPTORS: 14,
}
_NOT_HASHES = ("atompair", "lingo")
_N_DESCRIPTORS = 14
_WITHOUT_CHIRALITY = {
    "rdkit": "RDKit path fingerprints",
    SUBSTITUENTS: "Substituents",
    POSITIONS: "Positions",
}
_DIGITS = 8  # of the identifier of a block, in hexadecimal
_FEATURES = "features"  # suffix of a kind that uses pharmacophoric atom classes


class KindState(TypedDict, total=False):
    """The parameters of one kind of fingerprint in a `FingerprintState`; its columns if there are several."""

    kind: str
    radius: int
    counts: bool
    size: int
    features: bool
    chirality: bool
    columns: list[int]


class FingerprintState(KindState, total=False):
    """What `FingerprintSpec.state` returns: the parameters of one kind, or only `kinds`."""

    kinds: list[KindState]


@dataclasses.dataclass(frozen=True)
class FingerprintSpec:
    """What a fingerprint counts.

    Parameters
    ----------
    kind : str or sequence of str, optional
        "morgan" (circular environments), "atompair" (pairs of atoms; "atompair:4" are those up to four bonds
        apart, half as many), "torsion" (topological torsions),
        "rdkit" (RDKit's linear and branched paths of 1 to 7 bonds), "lingo" (windows of four characters of
        RDKit's canonical SMILES, see `daskrf.molecules.counts.lingo`), "substituents" (each side of each
        single bond outside rings, as a whole, by which products of the same building block are known; for a
        kernel of their own beside the other kinds, see `daskrf.molecules.counts.substituents`), "positions"
        (each atom by its distance from the bond between two building blocks; "positions:" is followed by the
        identifiers of the substituents that are blocks, which `fit` finds in labels of products), or
        "descriptors" (weight, logP, polar surface and others, in fixed units, for a Gaussian kernel of their
        own beside the other kinds, see `daskrf.molecules.counts.descriptors`). Substituents, positions and
        descriptors come last in a row. A Morgan kind may have its own radius,
        as in "morgan:2", and feature classes, as in "morgan:2:features"; "wide" are "morgan:3",
        "morgan:3:features", "atompair", "rdkit" and "descriptors", which predict most measured values better
        than the default and take longer. Several kinds (repeat --kind) are
        concatenated, each in its own columns. Default: "morgan:2",
        "morgan:2:features" and "atompair:4", or "morgan" if `radius` or `features` is given.
    radius : int, optional
        Radius of Morgan environments, unless the kind gives one. Default: 1. Other kinds have no radius.
    counts : bool, default True
        Count how often a feature occurs, or only record whether it does (0 or 1).
    size : int, default 0
        Number of columns to fold each kind to. 0 does not fold: each of the 2**32 identifiers has a column,
        which predicts slightly better. Folding is RDKit's (``GetCountFingerprint`` with ``fpSize=size`` and
        count simulation off): counts of features that share a column add up.
    chirality : bool, default False
        Distinguish stereoisomers, as far as the kind sees them: Morgan sees centres of carbon and double
        bonds, pairs and torsions see centres of every element and no double bonds, "lingo" sees both and
        isotopes. Only "lingo" sees cis and trans in 1,4-disubstituted cyclohexanes and the like; none
        sees allenes and atropisomers, and centres of enhanced stereo groups (racemates) are not specified.
        docs/maps.md has the table. Not for "rdkit", "substituents" and "positions"; "descriptors" ignores it.
    features : bool, default False
        Use pharmacophoric atom classes instead of atom types (FCFP) in all Morgan environments.

    Raises
    ------
    InputError
        If a parameter is out of range or does not apply to the kind, or a kind is given twice.

    Notes
    -----
    Unfolded Morgan, atom-pair and path identifiers are RDKit's own. Those of torsions have up to 45 bits and
    are hashed to 32 by the finalizer of SplitMix64; two of a molecule's n features collide with a probability
    of about n**2 / 2**33, and then their counts are summed. Identifiers of LINGOs are their four bytes;
    folding takes the same hash modulo `size`, since the last letters alone would carry little information.

    Examples
    --------
    >>> from daskrf.molecules import FingerprintSpec
    >>> FingerprintSpec().name, FingerprintSpec(radius=2).name
    ('morgan:2 + morgan:2:features + atompair:4', 'morgan:2')
    >>> FingerprintSpec(radius=2, size=2048).n_columns
    2048
    >>> several = FingerprintSpec(["morgan:1", "torsion"])
    >>> FingerprintSpec.from_state(several.state()).columns
    {'morgan:1': (0, 4294967296), 'torsion': (4294967296, 8589934592)}
    """

    section: ClassVar[str] = "Fingerprints"
    options: ClassVar[Mapping[str, Option]] = {
        "kind": Option(metavar="KIND[:BONDS]"),
        "radius": Option(least=0),
        "size": Option(least=0),
        "counts": Option("--counts/--binary"),
    }

    kind: str | Sequence[str] = cast(str, None)  # set in __post_init__
    radius: int = cast(int, None)
    counts: bool = True
    size: int = 0
    chirality: bool = False
    features: bool = False

    def __post_init__(self) -> None:
        limits = [("size", 0, 2**31 - 1), *([] if self.radius is None else [("radius", 0, _MOST)])]
        for name, low, high in limits:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InputError(
                    f"fingerprint {name} must be an integer from {low} to {high}, not {value!r}."
                )
        requested = sorted(self._requested_kinds(), key=_order)
        if len(requested) == 1:
            self._take(*_parsed(requested[0], self.radius, self.features))
            self._check_kind()
            return
        affected = {text for text in requested if text.partition(":")[0] == "morgan"} or set(requested)
        kinds = [
            dataclasses.replace(
                self,
                kind=text,
                radius=self.radius if text in affected else cast(int, None),
                features=text in affected and self.features,
            )
            for text in requested
        ]
        names = tuple(kind.name for kind in kinds)
        if len(set(names)) < len(names) or not names:
            raise InputError(f"fingerprint kinds must differ, not be {', '.join(names) or 'none'}.")
        self._take(tuple(kind.text for kind in kinds), None, False)  # with radius and features, or blocks

    def _requested_kinds(self) -> list[str]:
        """Return the requested kinds, or the default ones."""
        if self.kind is None:
            return [*DEFAULT_KINDS] if self.radius is None and not self.features else ["morgan"]
        texts = [str(text) for text in (self.kind if isinstance(self.kind, (list, tuple)) else [self.kind])]
        return [kind for text in texts for kind in (WIDE_KINDS if text == WIDE else (text,))]

    def _take(self, kind: str | tuple[str, ...], radius: int | None, features: bool) -> None:
        for name, value in (("kind", kind), ("radius", radius), ("features", features)):
            object.__setattr__(self, name, value)

    def _check_kind(self) -> None:
        if self.kind != "morgan" and (self.features or self.radius != 1):
            option = "features" if self.features else "radius"
            raise InputError(
                f"option {option!r} applies to Morgan fingerprints only; leave it out for {self.kind!r}."
            )
        if self.kind == DESCRIPTORS and (not self.counts or 0 < self.size < _N_DESCRIPTORS):
            raise InputError(
                f"Descriptors are counts in {_N_DESCRIPTORS} columns: leave out --binary, and any --size "
                f"below {_N_DESCRIPTORS}."
            )
        if self.family in _WITHOUT_CHIRALITY and self.chirality:
            raise InputError(
                f"{_WITHOUT_CHIRALITY[self.family]} have no chirality; choose another kind, or leave it out."
            )

    @cached_property
    def kinds(self) -> tuple[FingerprintSpec, ...]:
        """The specification of each kind by itself."""
        if isinstance(self.kind, str):
            return (self,)
        return tuple(dataclasses.replace(self, kind=name) for name in self.kind)

    @property
    def family(self) -> str:
        """The kind without radius and options, one of `KINDS` or "positions"; of several, their names."""
        return self.kind.partition(":")[0] if isinstance(self.kind, str) else self.name

    @property
    def distance(self) -> int:
        """The largest number of bonds between the atoms of a pair."""
        return int(self.name.partition(":")[2] or _FARTHEST) if self.family == "atompair" else 0

    @property
    def blocks(self) -> tuple[int, ...]:
        """The identifiers of the substituents from whose bonds positions are counted, ascending."""
        if not isinstance(self.kind, str) or not self.kind.startswith(f"{POSITIONS}:"):
            return ()
        return tuple(int(text, 16) for text in self.kind.partition(":")[2].split("-"))

    @property
    def text(self) -> str:
        """The kind as in `kind`, with its radius and blocks; of several kinds, their names."""
        return str(self.kind) if self.blocks else self.name

    @property
    def name(self) -> str:
        """The name of the kind as in `kind`, with its radius, but without blocks."""
        if not isinstance(self.kind, str):
            return " + ".join(kind.name for kind in self.kinds)
        if self.kind != "morgan":
            return POSITIONS if self.blocks else self.kind
        return f"morgan:{self.radius}" + (f":{_FEATURES}" if self.features else "")

    @property
    def columns(self) -> dict[str, tuple[int, int]]:
        """The first column of each kind, and the one after its last, keyed by the kind's name."""
        width = self.size or 2**32
        return {kind.name: (i * width, (i + 1) * width) for i, kind in enumerate(self.kinds)}

    @property
    def n_structural(self) -> int | None:
        """Number of columns before the descriptors, if they are beside other kinds; else None."""
        columns = self.columns
        return columns[DESCRIPTORS][0] if DESCRIPTORS in columns and len(columns) > 1 else None

    @property
    def n_columns(self) -> int:
        """Number of columns of the matrix: `size`, or 2**32 when unfolded, for each kind."""
        return len(self.kinds) * (self.size or 2**32)

    @property
    def hashed(self) -> tuple[int, ...]:
        """Positions of the kinds whose unfolded identifiers are not hashes; see `daskrf.kernels.Folded`."""
        return tuple(i for i, kind in enumerate(self.kinds) if kind.family in _NOT_HASHES)

    @property
    def nonzeros(self) -> int:
        """Typical number of features of a drug-like molecule, used to predict memory and disk use."""
        if not isinstance(self.kind, str):
            return sum(kind.nonzeros for kind in self.kinds)
        usual = _USUAL[self.family] * (1 + self.radius if self.kind == "morgan" else 1)
        if self.family == "atompair":
            usual = min(usual, _PAIRS * self.distance)
        return min(usual, self.size or usual)

    @property
    def width(self) -> int:
        """Bytes per identifier in RDKit's count vectors."""
        return 4 if self.size else 8

    def state(self) -> FingerprintState:
        """Return the parameters as a dict for JSON; for several kinds, those of each kind and its columns."""
        if isinstance(self.kind, str):
            return cast(FingerprintState, dataclasses.asdict(self))
        columns = zip(self.kinds, self.columns.values(), strict=True)
        return {"kinds": [{**cast(KindState, kind.state()), "columns": list(span)} for kind, span in columns]}

    @classmethod
    def from_state(cls, state: FingerprintState) -> FingerprintSpec:
        """Return the specification described by a dict from :meth:`state`."""
        if "kinds" not in state:
            return cls._of(state)
        if not state["kinds"]:
            raise InputError("there are no kinds of fingerprints.")
        kinds = [cls._of({k: v for k, v in entry.items() if k != "columns"}) for entry in state["kinds"]]
        texts = [kind.text for kind in kinds]
        spec = dataclasses.replace(kinds[0], kind=texts, radius=cast(int, None), features=False)
        if spec.state() != state:
            raise InputError(
                "fingerprint kinds are arranged in a way that is unknown to this version of daskrf."
            )
        return spec

    @classmethod
    def _of(cls, state: Mapping[str, object]) -> FingerprintSpec:
        unknown = sorted(set(state) - {field.name for field in dataclasses.fields(cls)})
        if unknown:
            raise InputError(f"fingerprint parameter {unknown[0]!r} is unknown to this version of daskrf.")
        make: Callable[..., FingerprintSpec] = cls
        return make(**state)


def with_positions(blocks: Iterable[int]) -> str:
    """Return the kind that counts atoms by their distances from the bond to a block.

    Parameters
    ----------
    blocks : iterable of int
        Identifiers of the blocks as substituents, see `daskrf.molecules.counts.substituents`.

    Examples
    --------
    >>> with_positions([255, 16, 255])
    'positions:00000010-000000ff'
    """
    return f"{POSITIONS}:" + "-".join(f"{block:0{_DIGITS}x}" for block in sorted(set(blocks)))


def _order(text: str) -> int:
    """Return the place of a kind in a row among those that come last; 0 for all others."""
    family = text.partition(":")[0]
    return 1 + _LAST.index(family) if family in _LAST else 0


def _are_blocks(texts: Sequence[str]) -> bool:
    """Return whether these are identifiers of blocks, as `with_positions` writes them."""
    numbers = [text for text in texts if len(text) == _DIGITS and not set(text) - set("0123456789abcdef")]
    return bool(texts) and list(texts) == sorted(set(numbers))


def _parsed(text: str, radius: int | None, features: bool) -> tuple[str, int, bool]:
    """Return a kind, its radius, and whether it counts atom classes, from its name and the parameters."""
    kind, *words = text.split(":")
    if kind == POSITIONS:
        if len(words) != 1 or not _are_blocks(words[0].split("-")):
            raise InputError(
                "fingerprint kind 'positions' needs the building blocks that atoms are counted from: leave "
                "it out, and give fit labels of products with the columns reaction and block_0."
            )
        return text, _RADIUS if radius is None else radius, features
    if kind not in KINDS:
        raise InputError(f"fingerprint kind {kind!r} is unknown; choose one of {', '.join((*KINDS, WIDE))}.")
    if words[-1:] == [_FEATURES]:
        features = bool(words.pop())
    if words:
        limits = {"morgan": range(_MOST + 1), "atompair": range(1, _FARTHEST + 1)}
        if len(words) > 1 or not words[0].isdecimal() or int(words[0]) not in limits.get(kind, ()):
            raise InputError(
                f"fingerprint kind {text!r} is unknown; a kind may be followed by the radius of Morgan "
                f"environments, up to {_MOST} ('morgan:2'), by the word 'features' ('morgan:2:features'), or "
                f"by the maximum number of bonds between the atoms of a pair, up to {_FARTHEST} "
                "('atompair:4')."
            )
        if kind == "atompair":
            return f"{kind}:{int(words[0])}", _RADIUS if radius is None else radius, features
        if radius not in (None, int(words[0])):
            raise InputError(
                f"fingerprint radius is {radius}, but the kind is {text!r}; leave one of them out."
            )
        radius = int(words[0])
    return kind, _RADIUS if radius is None else radius, features
