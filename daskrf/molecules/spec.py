"""What a fingerprint counts, by name; without RDKit, which only the processes that count import."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from daskrf.errors import InputError
from daskrf.parameters import Option

__all__ = ["FRAGMENTS", "KINDS", "FingerprintSpec", "Fragments"]

Kind = Literal["morgan", "atompair", "torsion", "rdkit", "lingo"]
Fragments = Literal["keep", "largest", "reject"]
KINDS, FRAGMENTS = get_args(Kind), get_args(Fragments)


@dataclasses.dataclass(frozen=True)
class FingerprintSpec:
    """What a fingerprint counts.

    Parameters
    ----------
    kind : {"morgan", "atompair", "torsion", "rdkit", "lingo"}
        Morgan (circular) environments, atom pairs, topological torsions, RDKit's paths of 1 to 7 bonds
        (branched ones too, one identifier a path), or LINGOs: windows of four characters of RDKit's canonical
        SMILES (see `daskrf.molecules.lingo`).
    radius : int, default 1
        Radius of the Morgan environments; the other kinds have none and take the default only.
    counts : bool, default True
        Count how often a feature occurs, or only whether it does (0 or 1).
    size : int, default 0
        Number of columns to fold to; 0 keeps a column for each of the 2**32 identifiers, which predicts
        slightly better. RDKit folds, the same as ``GetCountFingerprint`` with ``fpSize=size`` and count
        simulation off, and the counts of features that meet in a column add up.
    chirality : bool, default False
        Tell stereoisomers apart (not for "rdkit"); for "lingo" isotopes, too.
    features : bool, default False
        Pharmacophoric atom classes in place of atom types (FCFP; "morgan" only).

    Raises
    ------
    InputError
        If a parameter is out of range, or does not apply to the kind.

    Notes
    -----
    Unfolded Morgan, atom-pair and path identifiers are RDKit's own. Those of torsions have up to 45 bits and
    are hashed to 32 by the finalizer of SplitMix64; two of n features of a molecule meet with a probability
    of about n**2 / 2**33, and then their counts add up. Those of LINGOs are their four bytes;
    folded, the same hash modulo `size`, since the last letters alone would tell little.

    Examples
    --------
    >>> from daskrf.molecules import FingerprintSpec
    >>> FingerprintSpec(radius=2, size=2048).n_columns
    2048
    >>> FingerprintSpec.from_state(FingerprintSpec("torsion").state()).kind
    'torsion'
    """

    section: ClassVar[str] = "Fingerprints"
    options: ClassVar[Mapping[str, Option]] = {
        "radius": Option(least=0),
        "size": Option(least=0),
        "counts": Option("--counts/--binary"),
    }

    kind: Kind = "morgan"
    radius: int = 1
    counts: bool = True
    size: int = 0
    chirality: bool = False
    features: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"fingerprint kind {self.kind!r} is unknown; choose one of {', '.join(KINDS)}.")
        for name, low, high in (("radius", 0, 10), ("size", 0, 2**31 - 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InputError(
                    f"fingerprint {name} must be an integer from {low} to {high}, not {value!r}."
                )
        if self.kind != "morgan" and (self.features or self.radius != 1):
            option = "features" if self.features else "radius"
            raise InputError(
                f"option {option!r} belongs to Morgan fingerprints; leave it out for {self.kind!r}."
            )
        if self.kind == "rdkit" and self.chirality:
            raise InputError(
                "RDKit path fingerprints know no chirality; choose another kind or leave it out."
            )

    @property
    def n_columns(self) -> int:
        """Number of columns of the matrix: `size`, or 2**32 when unfolded."""
        return self.size or 2**32

    @property
    def width(self) -> int:
        """Bytes of an identifier in RDKit's count vectors."""
        return 4 if self.size else 8

    def state(self) -> dict[str, Any]:
        """Return the parameters as a dict for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> FingerprintSpec:
        """Return the specification that :meth:`state` described."""
        unknown = sorted(set(state) - {field.name for field in dataclasses.fields(cls)})
        if unknown:
            raise InputError(f"fingerprint parameter {unknown[0]!r} is unknown to this version of daskrf.")
        return cls(**state)
