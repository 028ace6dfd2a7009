"""Conditions as a chemist writes them, and molecules that are different."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors, rdMolDescriptors

from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import OptionError
from daskrf.molecules.conditions import PROPERTIES, limits_of
from daskrf.molecules.counts.similarity import Similarities, nearest
from daskrf.molecules.diversity import Diversity, scaffolds
from daskrf.molecules.filters import Filters
from daskrf.molecules.properties import property_of
from tests.naive import suggest as naive

SMILES = ReactionLibrary(seed=3).smiles(0, 60)

READ = {
    "weight<450": ["weight < 450"],
    " MW  <=  450.5 ": ["weight <= 450.5"],
    "450 > weight": ["weight < 450"],
    "1<logP<=4": ["logp > 1", "logp <= 4"],
    "tpsa <= 140 AND hbd<=5, HBA <= 1e1": ["tpsa <= 140", "donors <= 5", "acceptors <= 10"],
    "rotatable_bonds < 8 & charge == 0": ["rotatable bonds < 8", "charge == 0"],
    "Price_EUR <= 90 and fsp3 > .4": ["price eur <= 90", "fraction sp3 > 0.4"],
    "-2 < charge": ["charge > -2"],
    'Supplier == "Enamine"': ['Supplier == "Enamine"'],
    "supplier=Enamine Ltd and weight<9": ['Supplier == "Enamine Ltd"', "weight < 9"],
    "'WuXi, Inc.' != supplier": ['Supplier != "WuXi, Inc."'],
    "supplier in (A, 'b, c') and logp in [1]": ['Supplier in ("A", "b, c")', "logp in (1)"],
    'supplier NOT  IN (\'a and b\' , "say ""x""")': ['Supplier not in ("a and b", "say "x"")'],
    "supplier == '00123'": ['Supplier == "00123"'],
    '"Price, USD" < 90; 5 < `Price, USD`': ["Price, USD < 90", "Price, USD > 5"],
    "IC50 (nM) < 90, in stock = yes": ["IC50 (nM) < 90", 'in stock == "yes"'],
    "charge not in (-1, 1)": ["charge not in (-1, 1)"],
}
COLUMNS = ["price eur", "Supplier", "Price, USD", "IC50 (nM)", "in stock"]


@pytest.mark.parametrize("text", READ)
def test_conditions(text: str) -> None:
    assert [str(limit) for limit in limits_of(text, COLUMNS)] == READ[text]


def test_texts_that_cannot_be_compared() -> None:
    for text, message in {
        "weight == heavy": "compare 'weight' with a number; 'heavy' is not a number",
        "charge in (0, a)": "compare 'charge' with a number; 'a' is not a number",
        "supplier < 'A'": "write a number after the sign; 'A' is not a number",
        "supplier == in stock": "write a number or a text in quotes",
        "supplier == 'A": "close the quote '",
        "supplier in ('A'": "write a list such as",
        "supplier in ()": "write a list such as",
        "weight < nan": "write a number after the sign; 'nan' is not a number",
    }.items():
        with pytest.raises(OptionError) as error:
            limits_of(text, COLUMNS)
        refusal = str(error.value)
        assert f"The condition {text!r} cannot be read at character " in refusal
        assert f"; {message}" in refusal


def test_texts_are_compared_whole() -> None:
    (wanted,), (other,) = (limits_of(f"supplier {sign} 'Enamine'", COLUMNS) for sign in ("==", "!="))
    cells = pa.array(["Enamine", " Enamine ", "enamine", "Enamine Ltd", "", None])
    assert wanted.holds(cells).tolist() == [True, True, False, False, False, False]
    assert other.holds(cells).tolist() == [False, False, True, True, True, True]
    (numbers,) = limits_of("charge not in (0, 1)")
    assert [numbers.holds(value) for value in (0.0, 2.0, float("nan"))] == [False, True, False]


@pytest.mark.parametrize(
    "text",
    [
        *("", "weight", "weight <", "< 4", "weight 450", "weight < x", "1 < 2", "weight < logp"),
        *(
            "1 < weight > x",
            "weight << 450",
            "weight < 450 and",
            "weight < 450 or logp < 4",
            "1 < 2 < weight",
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str) -> None:
    with pytest.raises(OptionError, match=r"cannot be read at character \d+; |is neither a column") as error:
        limits_of(text)
    assert "\n" not in str(error.value)


def test_the_time_to_read_grows_with_the_length() -> None:
    """A million blanks: quadratic time would be hours."""
    blanks = " " * 1_000_000
    assert len(limits_of(f"weight{blanks}<{blanks}4{blanks}and logp < 3{blanks}")) == 2
    for text in (blanks, f"weight < 3{blanks}x", f"not{blanks}x", "'" * 1_000_001):
        with pytest.raises(OptionError, match="cannot be read"):
            limits_of(text)


def test_a_column_comes_before_a_property() -> None:
    (limit,) = limits_of("weight < 3", ["Weight"])
    assert (limit.name, limit.column) == ("Weight", True)
    assert not limit.holds(float("nan"))


def test_properties_are_those_of_rdkit() -> None:
    direct = {
        "weight": Descriptors.MolWt,
        "logp": Crippen.MolLogP,
        "tpsa": rdMolDescriptors.CalcTPSA,
        "rotatable bonds": rdMolDescriptors.CalcNumRotatableBonds,
    }
    for text in SMILES[:10]:
        for name, computed in direct.items():
            assert property_of(name, text) == pytest.approx(computed(Chem.MolFromSmiles(text)))
        assert all(np.isfinite(property_of(name, text)) for name in PROPERTIES)


def test_similarity_and_scaffolds() -> None:
    similarities = Similarities(SMILES)
    for i in (0, 7):
        expected = [naive.similarity(SMILES[i], other) for other in SMILES]
        np.testing.assert_allclose(similarities.to(i), expected)
    similarity, index = nearest(SMILES[:5], SMILES[20:])
    for i in range(5):
        expected = [naive.similarity(SMILES[i], other) for other in SMILES[20:]]
        assert similarity[i] == pytest.approx(max(expected))
        assert expected[index[i]] == pytest.approx(max(expected))
    assert scaffolds(SMILES).tolist() == list(map(naive.scaffold, SMILES))


@pytest.mark.parametrize("seed", range(4))
def test_different_molecules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    some = [SMILES[i] for i in rng.choice(60, 40)]  # with copies
    limit, cap = float(rng.uniform(0.2, 0.6)), int(rng.integers(1, 4))
    prices = rng.integers(0, 20, 40).astype(float)  # whole, so that sums are exact
    for budget in (np.inf, float(rng.integers(1, 60))):
        diversity = Diversity(some, limit, cap, prices=prices, budget=budget)
        picks = [i for i in range(40) if diversity.take(i)]
        options = {"max_similarity": limit, "per_scaffold": cap, "prices": prices.tolist(), "budget": budget}
        expected = naive.batch(some, list(range(40, 0, -1)), 40, **options)
        assert picks == diversity.picks == expected
        assert diversity.cost == prices[picks].sum() <= budget
        assert not diversity.free.any()


def test_what_rdkit_cannot_read_does_not_pass() -> None:
    filters = Filters.of("weight < 500", (), (), "pains")
    assert filters.first_failed(["CCO", "C1CC", "not SMILES"]) == [-1, -2, -2]
