"""What `chirality` tells apart: the table of docs/maps.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.structures import same_names

PAIRS = {
    "alanine (enantiomers)": ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"),
    "threonine (diastereomers)": ("C[C@H](O)[C@H](N)C(=O)O", "C[C@H](O)[C@@H](N)C(=O)O"),
    "butane-2,3-diol (meso)": ("C[C@H](O)[C@H](O)C", "C[C@H](O)[C@@H](O)C"),
    "2-methylcyclohexanol (cis, trans)": ("C[C@H]1CCCC[C@@H]1O", "C[C@H]1CCCC[C@H]1O"),
    "tranexamic acid (cis, trans across a ring)": (
        "NC[C@H]1CC[C@H](C(=O)O)CC1",
        "NC[C@H]1CC[C@@H](C(=O)O)CC1",
    ),
    "3-methylcyclobutanol (cis, trans across a ring)": ("O[C@H]1C[C@@H](C)C1", "O[C@H]1C[C@H](C)C1"),
    "1-chloro-2-fluoroethene (E, Z)": ("F/C=C/Cl", "F/C=C\\Cl"),
    "acetophenone oxime (E, Z)": ("C/C(=N\\O)c1ccccc1", "C/C(=N/O)c1ccccc1"),
    "ethyl methyl sulfoxide": ("C[S@](=O)CC", "C[S@@](=O)CC"),
    "ethyl methyl phosphinic acid": ("C[P@](=O)(O)CC", "C[P@@](=O)(O)CC"),
    "ethyl methyl phenyl phosphine": ("C[P@](CC)c1ccccc1", "C[P@@](CC)c1ccccc1"),
    "penta-2,3-diene (allene)": ("CC=[C@]=CC", "CC=[C@@]=CC"),
}
COLUMNS = {
    "`morgan:1` and wider": ("morgan:1", "morgan:2", "morgan:3"),
    "`morgan:2:features`": ("morgan:2:features",),
    "`atompair`": ("atompair", "atompair:4"),
    "`torsion`": ("torsion",),
    "`lingo`": ("lingo",),
}
TEXTS = [text for pair in PAIRS.values() for text in pair]


def apart(kind: str, *, chirality: bool = True) -> list[bool]:
    """Return of which pairs a kind tells the molecules apart."""
    block = Fingerprinter(FingerprintSpec(kind, chirality=chirality))(TEXTS)
    assert not block.rejects
    return (np.diff((block.fingerprints[::2] != block.fingerprints[1::2]).indptr) > 0).tolist()


@pytest.fixture(scope="module")
def documented() -> dict[str, list[bool]]:
    """The table of the documentation, by column."""
    text = (Path(__file__).parents[2] / "docs" / "maps.md").read_text()
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    start = next(i for i, row in enumerate(rows) if row[0].strip() == "stereoisomers of")
    head = [name.strip() for name in rows[start][1:]]
    body = [[cell.strip() for cell in row] for row in rows[start + 1 : start + 1 + len(PAIRS)]]
    assert [row[0] for row in body] == [*PAIRS]
    return {name: [row[1 + i] == "yes" for row in body] for i, name in enumerate(head)}


@pytest.mark.parametrize("column", COLUMNS)
def test_the_table_says_what_each_kind_tells_apart(column: str, documented: dict[str, list[bool]]) -> None:
    for kind in COLUMNS[column]:
        assert apart(kind) == documented[column], kind


@pytest.mark.parametrize("kind", ["morgan:0", "descriptors"])
def test_other_kinds_tell_none_apart(kind: str) -> None:
    assert not any(apart(kind))


def test_without_chirality_no_kind_tells_stereoisomers_apart() -> None:
    kinds = ["morgan:3", "morgan:3:features", "atompair", "torsion", "rdkit", "lingo", "descriptors"]
    assert not any(any(apart(kind, chirality=False)) for kind in kinds)


def test_structures_tell_apart_what_fingerprints_do_not() -> None:
    names = same_names(TEXTS)
    assert [a != b for a, b in zip(names[::2], names[1::2], strict=True)] == [True] * 11 + [False]
