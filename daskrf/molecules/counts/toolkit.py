"""How RDKit counts: its version, and a digest of the fingerprints of some hundred molecules for each kind."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskrf.molecules.counts.agreement import built_in
from daskrf.molecules.counts.fingerprints import Fingerprinter, FingerprintSpec, rdkit_version

_COUNTED = ("RDKit cannot parse", "no atoms")  # reasons for which a molecule has no counts in any release


@dataclass(frozen=True)
class Toolkit:
    """The version of RDKit that counted the fingerprints of a store or a model, and its counts.

    Attributes
    ----------
    rdkit : str
        Version of RDKit; empty if unknown.
    counts : dict of str to str
        Digest of the counts of built-in molecules, by kind; empty if unknown.

    Examples
    --------
    >>> here = Toolkit.here(FingerprintSpec("morgan"))
    >>> Toolkit.from_state(here.state()).differing(here)
    []
    """

    rdkit: str = ""
    counts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls, spec: FingerprintSpec) -> Toolkit:
        """Return that of the RDKit that is installed here."""
        digests = {kind.name: _digest(kind) for kind in spec.kinds}
        return cls(rdkit_version(), digests if all(digests.values()) else {})

    @classmethod
    def from_state(cls, state: Any) -> Toolkit:
        """Return the toolkit that a dict from `state` describes; an unknown one for anything else."""
        if not isinstance(state, Mapping):
            return cls()
        pairs = (text.rpartition("=") for text in str(state.get("counts") or "").split())
        return cls(str(state.get("rdkit") or ""), {name: digest for name, _, digest in pairs})

    def state(self) -> dict[str, str]:
        """Return it as a dict of texts."""
        return {
            "rdkit": self.rdkit,
            "counts": " ".join(f"{name}={digest}" for name, digest in self.counts.items()),
        }

    def differing(self, other: Toolkit) -> list[str] | None:
        """Return the kinds that another one counts differently; None if that is unknown."""
        if not self.counts or self.counts.keys() != other.counts.keys():
            return None
        return [name for name, digest in self.counts.items() if other.counts[name] != digest]


@functools.lru_cache(maxsize=64)
def _digest(kind: FingerprintSpec) -> str:
    """Return a digest of the counts of the built-in molecules; empty if RDKit could not finish one."""
    block = Fingerprinter(kind)(built_in())
    if not all(reason.startswith(_COUNTED) for _, reason in block.rejects):
        return ""
    X = block.fingerprints
    arrays = (block.kept, X.indptr, X.indices, X.data)
    digest = hashlib.sha256(b"".join(np.asarray(array, "<i8").tobytes() for array in arrays))
    return digest.hexdigest()[:16]
