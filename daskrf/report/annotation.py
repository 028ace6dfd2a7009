"""What a page shows for each molecule: properties, scaffold, nearest labelled molecule, nearest active."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskrf.molecules.counts.similarity import nearest
from daskrf.molecules.diversity import scaffolds
from daskrf.molecules.isolation import Lost, each

PROPERTIES = ("weight", "logp", "tpsa")
"""Names of `daskrf.molecules.conditions.PROPERTIES` that are shown."""


@dataclass(frozen=True)
class Reference:
    """Molecules that others are compared with.

    Attributes
    ----------
    smiles : sequence of str
    values : sequence of str, of the same length
        The text shown for each: its label, or its ID.
    """

    smiles: Sequence[str] = field(default_factory=list)
    values: Sequence[str] = field(default_factory=list)


def annotated(smiles: Sequence[str], labelled: Reference, actives: Reference) -> dict[str, list[Any]]:
    """Return the columns of a page that are computed from SMILES.

    They are weight, logp and tpsa (None where RDKit fails); scaffold (SMILES of the Murcko scaffold, empty
    without rings); and, for `labelled` and `actives` unless empty, the similarity to the nearest one
    (Tanimoto on Morgan fingerprints of radius 2 without counts), its SMILES, and its value.

    Examples
    --------
    >>> page = annotated(["CCO"], Reference(["CCCO", "c1ccccc1"], ["-7.25", "-9"]), Reference())
    >>> page["nearest_labelled"], page["its_label"], [round(s, 2) for s in page["similarity_to_labelled"]]
    (['CCCO'], ['-7.25'], [0.56])
    """
    first = list(dict.fromkeys(smiles))
    if len(first) < len(smiles):  # each molecule is computed once
        place = {text: number for number, text in enumerate(first)}
        unique = annotated(first, labelled, actives)
        return {name: [values[place[text]] for text in smiles] for name, values in unique.items()}
    columns: dict[str, list[Any]] = dict(zip(PROPERTIES, properties_of(smiles), strict=True))
    columns["scaffold"] = scaffolds(smiles).tolist()
    for reference, name, value in ((labelled, "labelled", "its_label"), (actives, "active", "its_id")):
        if len(reference.smiles):
            similarity, index = nearest(smiles, list(reference.smiles))
            columns[f"similarity_to_{name}"] = [round(float(s), 4) for s in similarity]
            columns[f"nearest_{name}"] = [reference.smiles[i] for i in index.tolist()]
            columns[value] = [reference.values[i] for i in index.tolist()]
    return columns


def properties_of(smiles: Sequence[str]) -> list[list[float | None]]:
    """Return each of `PROPERTIES` for all molecules; None where RDKit fails."""
    results = each("daskrf.report.annotation:measurer", (), list(smiles))
    lost = [None] * len(PROPERTIES)
    rows = [lost if isinstance(row, Lost) else row for row in results]
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in PROPERTIES]


def measurer() -> Callable[[str], list[float]]:
    """Return the function from a SMILES to its properties; it runs in a helper program."""
    from daskrf.molecules.properties import property_of

    return lambda text: [round(float(np.float64(property_of(name, text))), 2) for name in PROPERTIES]
