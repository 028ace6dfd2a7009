"""Properties that are exact sums over the synthons of a product, and limits on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from daskrf.errors import InputError
from daskrf.molecules.counts.descriptors import n_rings

Range = tuple[int, float, float]
"""Column of `SUMS`, lower limit and upper limit."""

SUMS = ("heavy_atoms", "weight", "donors", "rings", "polar_surface")
"""Heavy atoms, molecular weight, donors of hydrogen bonds, rings, and topological polar surface area."""


def sums_of(molecule: Chem.Mol) -> tuple[float, ...]:
    """Return the sums of a molecule, or the share of a synthon, whose dummy atoms count as bonds only.

    Examples
    --------
    >>> sums_of(Chem.MolFromSmiles("CC(=O)NC"))[0]
    5.0
    >>> [sums_of(Chem.MolFromSmiles(synthon))[0] for synthon in ("[1*]C(C)=O", "[1*]NC")]
    [3.0, 2.0]
    """
    return (
        float(molecule.GetNumHeavyAtoms()),
        float(rdMolDescriptors._CalcMolWt(molecule)),
        float(rdMolDescriptors.CalcNumHBD(molecule)),
        float(n_rings(molecule)),
        float(rdMolDescriptors.CalcTPSA(molecule)),
    )


def lies_within(smiles: str, limits: Sequence[Range]) -> bool:
    """Tell whether a molecule lies in all ranges; one that RDKit cannot read lies in none.

    Examples
    --------
    >>> lies_within("CCO", ranges_of({"heavy_atoms": (None, 3), "rings": (0, 1)}))
    True
    """
    molecule = Chem.MolFromSmiles(smiles)
    sums = () if molecule is None else sums_of(molecule)
    return bool(sums) and all(low <= sums[column] <= high for column, low, high in limits)


def ranges_of(within: Mapping[str, Sequence[float | None]] | None) -> tuple[Range, ...]:
    """Return the ranges of sums given by name; None means no bound.

    Raises
    ------
    InputError
        If a name is not one of `SUMS`, or a range is invalid.

    Examples
    --------
    >>> ranges_of({"weight": (None, 450)})
    ((1, -inf, 450.0),)
    """
    ranges = []
    for name, bounds in (within or {}).items():
        if name not in SUMS:
            raise InputError(f"There is no limit on {name!r}; choose from {', '.join(SUMS)}.")
        if len(bounds) != 2:
            raise InputError(f"The range of {name} must be LOW and HIGH, not {tuple(bounds)!r}.")
        low, high = (
            float(none if b is None else b) for b, none in zip(bounds, (-math.inf, math.inf), strict=True)
        )
        if not low <= high:
            raise InputError(f"The range of {name} from {low:g} to {high:g} is empty.")
        ranges.append((SUMS.index(name), low, high))
    return tuple(sorted(ranges))


def ranges_of_texts(texts: Sequence[str]) -> dict[str, tuple[float | None, float | None]]:
    """Return the ranges given as NAME=LOW:HIGH, where LOW or HIGH may be left out.

    Raises
    ------
    ValueError
        If a text is not of this form, or a name is given twice.

    Examples
    --------
    >>> ranges_of_texts(["weight=:450", "rings=1:4"])
    {'weight': (None, 450.0), 'rings': (1.0, 4.0)}
    """
    ranges: dict[str, tuple[float | None, float | None]] = {}
    for text in texts:
        name, _, bounds = text.partition("=")
        low, mark, high = bounds.partition(":")
        try:
            limits = float(low) if low else None, float(high) if high else None
        except ValueError:
            mark = ""
        if not mark or name in ranges:
            raise ValueError(f"{text!r} must be NAME=LOW:HIGH, such as weight=:450, with each name once.")
        ranges[name] = limits
    return ranges


def range_words(limits: Sequence[Range]) -> str:
    """Return limits as text, as `ranges_of_texts` reads them.

    Examples
    --------
    >>> range_words(ranges_of({"heavy_atoms": (None, 35), "rings": (1, 4)}))
    'heavy_atoms=:35 rings=1:4'
    """
    return " ".join(f"{SUMS[column]}={_bound(low)}:{_bound(high)}" for column, low, high in limits)


def _bound(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else ""
