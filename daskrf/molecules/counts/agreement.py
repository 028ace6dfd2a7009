"""Whether the engine counts molecules as the RDKit that is installed here."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from importlib import resources
from typing import cast

import numpy as np

from daskrf.molecules.counts.reading import is_read, read
from daskrf.molecules.counts.spec import FingerprintSpec, with_positions
from daskrf.molecules.counts.unpacking import unpacked
from daskrf.molecules.isolation import Lost, each

# Built-in molecules have no blocks: positions are compared with methyl, methoxy, phenyl, cyclohexyl and
# dimethylamino groups in their place.
_PROBES = with_positions([0x9DEB0387, 0xD6647904, 0x1F5F19E2, 0x0E5C5652, 0xE32ECC4A])
_LEAST_SHARE = 0.5  # of the built-in molecules that the engine must read: drugs, cages, ions are hard ones


@functools.lru_cache(maxsize=64)
def agrees(spec: FingerprintSpec) -> bool:
    """Return whether the engine and RDKit count some thousand built-in molecules alike.

    The molecules are compared as written, as Kekule forms, and in a random order.

    Examples
    --------
    >>> agrees(FingerprintSpec("morgan")), agrees(FingerprintSpec("lingo"))
    (True, False)
    """
    if not is_read(spec):
        return False
    if any(kind.blocks and kind.text != _PROBES for kind in spec.kinds):
        names = [_PROBES if kind.blocks else kind.text for kind in spec.kinds]
        return agrees(dataclasses.replace(spec, kind=names, radius=cast(int, None), features=False))
    texts = built_in()
    forms = each("daskrf.molecules.counts.agreement:rewriter", (), texts)
    texts = [*texts, *(form for several in forms if not isinstance(several, Lost) for form in several)]
    counted = each("daskrf.molecules.counts.counter:Counter", (spec, "keep"), texts)
    positions, kinds = read(texts, spec, dots=True)
    if len(positions) < _LEAST_SHARE * len(texts):
        return False
    bodies = [counted[position] for position in positions.tolist()]
    if not all(isinstance(body, list) for body in bodies):
        return False
    for number, (kind, features) in enumerate(zip(spec.kinds, kinds, strict=True)):
        expected = unpacked(kind, [body[number] for body in bodies])
        if not all(map(np.array_equal, features, expected)):
            return False
    return True


@functools.cache
def built_in() -> list[str]:
    """Return drugs, cages, small rings, stereocentres, ions and products of a library."""
    return (resources.files("daskrf.molecules.counts") / "probes.smi").read_text("utf-8").split()


def rewriter() -> Callable[[str], list[str]]:
    """Return the function from a SMILES to its Kekule form and one in a random order, if RDKit reads it.

    Examples
    --------
    >>> sorted(map(len, rewriter()("c1ccccc1")))
    [8, 11]
    """
    from rdkit import Chem, rdBase

    silence = rdBase.BlockLogs()

    def rewrite(text: str) -> list[str]:
        assert silence is not None  # for the lifetime of the function
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            return []
        (other,) = Chem.MolToRandomSmilesVect(molecule, 1, randomSeed=1)
        Chem.Kekulize(molecule, clearAromaticFlags=True)
        return [Chem.MolToSmiles(molecule, kekuleSmiles=True), other]

    return rewrite
