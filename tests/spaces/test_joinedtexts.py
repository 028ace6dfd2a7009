"""SMILES joined from the texts of synthons: the molecules that RDKit joins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from rdkit import Chem

from daskrf.molecules import FingerprintSpec
from daskrf.molecules.counts.counter import Counter
from daskrf.molecules.counts.reading import read
from daskrf.molecules.counts.unpacking import unpacked
from daskrf.spaces.joinedtexts import joined_text
from daskrf.spaces.synthons import join, joiner

# Rings and bridges at the cut, aromatic ends, charges, isotopes, stereochemistry, two cuts at an atom.
ONE = [
    "[1*]c1cs/c(=N\\C)n1C",
    *(
        "[1*]N",
        "[1*]C(C)=O",
        "[1*]N1CC1",
        "[1*]c1ccc2[nH]ccc2c1",
        "[1*]n1cccc1",
        "[1*][C@@H](F)C",
        "[1*]/C=C/F",
    ),
    *(
        "[1*]C12CC(C1)C2",
        "[1*][C@@]1(F)CC1(C)Cl",
        "[1*][N+](C)(C)C",
        "[1*]C#N",
        "[1*]c1cc[13cH]cc1",
        "[1*]Br",
    ),
    *("[1*]C1=CC=CC2=C1C1CC2C1", "[1*]/N=C(\\C)c1nnn[nH]1", "[1*]S(=O)(=O)c1ccccc1-c1ccncc1"),
]
TWO = [
    *("[1*]N[2*]", "[1*]C([2*])=O", "[1*]c1ccc([2*])cc1", "[1*]N1CCC2(CC1)CN([2*])C2", "[2*]C1CC1[1*]"),
    *("[1*]O/N=C/c1cc([2*])no1", "[2*]N1C[C@H]2C[C@@H]1CN2[1*]", "[1*]C1CN([2*])c2ccccc21"),
]
UNUSUAL = [
    "[1*]N [1*]C([2H])=O",  # hydrogen as an atom
    "[1*]N C([1*])=O",  # not written from the cut on
    "[1*]N [2*]C",
    "[1*]N [1*]C%10CC%10",
    "[1*][2*] [1*]N [2*]C",
    "[1*][Pt@SP1](Cl)(F)Br [1*]N",
]


def products() -> list[str]:
    """Return texts of all pairs of synthons, and of all triples around those with two cuts."""
    pairs = [" ".join(pair) for pair in itertools.product(ONE, ONE)]
    far = [text.replace("[1*]", "[2*]") for text in ONE]
    return pairs + [
        " ".join(order)
        for near, middle in itertools.product(ONE, TWO)
        for order in ((near, middle, far[5]), (middle, far[3], near), (far[8], near, middle))
    ]


def flat(molecule: Chem.Mol) -> str:
    """Return the canonical SMILES without stereochemistry."""
    Chem.RemoveStereochemistry(molecule)
    return str(Chem.CanonSmiles(Chem.MolToSmiles(molecule)))


def test_products_are_the_molecules_that_rdkit_joins() -> None:
    for texts in products():
        text = joined_text(texts)
        assert text, texts
        assert flat(Chem.MolFromSmiles(text)) == flat(join(texts.split())), texts


@pytest.mark.parametrize("texts", UNUSUAL)
def test_unusual_synthons_are_left_to_rdkit(texts: str) -> None:
    assert joined_text(texts) == ""


def test_counts_are_those_of_canonical_smiles() -> None:
    spec = FingerprintSpec(["morgan:2", "morgan:2:features", "atompair:4", "torsion"], size=0)
    texts = products()
    positions, kinds = read([joined_text(text) for text in texts], spec, dots=True)
    assert len(positions) > 0.5 * len(texts)
    joined, count = joiner(), Counter(spec, "keep")
    bodies = [count(joined(texts[position])) for position in positions.tolist()]
    for number, (kind, features) in enumerate(zip(spec.kinds, kinds, strict=True)):
        assert all(map(np.array_equal, unpacked(kind, [body[number] for body in bodies]), features))
