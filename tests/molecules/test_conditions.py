"""Conditions on texts, lists and presence: read as written, and decided by columns as cell by cell."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import OptionError
from daskrf.molecules.comparisons import BLANKS
from daskrf.molecules.conditions import limits_of
from daskrf.tables.values.notation import Notation
from tests.naive import conditions as naive
from tests.naive.conditions import Condition

COLUMNS = ["Supplier", "name", "Price", "CAS", "Price, USD", "not tested", "is missing", "present value"]

READ = {
    'Supplier in [Enamine, Mcule] and not name ~ "salt"': [
        'Supplier in ("Enamine", "Mcule")',
        'name !~ "salt"',
    ],
    "CAS missing and Price<100": ["CAS missing", "Price < 100"],
    "CAS is present; name !~ salt": ["CAS present", 'name !~ "salt"'],
    "not CAS missing & CAS is not missing, CAS not present": ["CAS present", "CAS present", "CAS missing"],
    "not Price < 100 and not 3 <= weight": ["Price >= 100", "weight < 3"],
    "NOT Supplier in (A) and not charge in (0, 1)": ['Supplier != "A"', "charge not in (0, 1)"],
    "not 'Price, USD' < 9 and not Supplier == 'A'": ["Price, USD >= 9", 'Supplier != "A"'],
    "name not ~ 'a and b' and name~hydro chloride": ['name !~ "a and b"', 'name ~ "hydro chloride"'],
    "not tested < 3 and not not tested < 3": ["not tested < 3", "not tested >= 3"],
    "is missing missing, present value present": ["is missing missing", "present value present"],
    "name == missing": ['name == "missing"'],
}
REFUSED = {
    "Suplier == 'A' and Price < 3": "nor a property, at character 1 of",
    "Price < 3 and Suplier ~ A": "nor a property, at character 15 of",
    "Price < 3 and name like 'A'": "at character 20; 'like' is no comparison; write one of <,",
    "Price < 3 or weight < 4": "at character 11; write 'name in [A, B]' for several values, as there",
    "Supplier == A or B": "at character 15; write 'name in [A, B]'",
    "name ~ A or B": "at character 10; write 'name in [A, B]'",
    "weight ~ 3": "at character 1; 'weight' is computed for every molecule; compare it with a number",
    "weight missing": "at character 1; 'weight' is computed",
    "name ~ ''": "at character 8; write the text to look for after ~",
    "name ~": "at character 7; write",
    "not 1 < Price < 3": "at character 1; write 'not' before one comparison, not before two limits",
    "not not Price < 3": "'not Price' is neither a column kept by the library nor a property, at character 5",
    "not": "'not'",
    "Price < 3 CAS missing": "at character 9; write a number after the sign",
    "not name ~ \u201csalt\u201d": 'at character 12; \u201c does not quote here; write " in its place',
    "Supplier in [A, \u2018B\u2019]": "at character 17; \u2018 does not quote here",
    "\u00abPrice\u00bb < 3": "at character 1; \u00ab does not quote here",
    "(Price < 3)": "cannot be read|nor a property, at character 1 of",
}


@pytest.mark.parametrize("text", READ)
def test_conditions_on_texts(text: str) -> None:
    assert [str(limit) for limit in limits_of(text, COLUMNS)] == READ[text]


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_name_the_character(text: str) -> None:
    with pytest.raises(OptionError) as error:
        limits_of(text, COLUMNS)
    assert any(message in str(error.value) for message in REFUSED[text].split("|"))
    assert "\n" not in str(error.value)


def test_arrow_removes_the_blanks_of_python() -> None:
    """All of them, so that a cell is compared as labels are read."""
    assert "".join(filter(str.isspace, map(chr, range(0x110000)))) == BLANKS


NUMBERS = st.sampled_from([0.0, 1.0, -2.5, 100.0, 1e300])
TEXTS = st.sampled_from(["A", "a", "Enamine", "salt", "b, c", 'say "x"', "Ä", "or", "and", "NA", "3", "1"])
CELLS = st.one_of(
    st.none(),
    st.sampled_from(
        ["", " ", "n/a", "NaN", "A ", "\u00a0a", "Sodium SALT", "ä", "inf", "3", "-2.5", "1e2", "1.0"]
    ),
    TEXTS,
)
SIGNS = st.sampled_from(["<", "<=", ">", ">=", "=="])
NAMES = st.sampled_from(["Supplier", "Price, USD", "not tested"])
CONDITIONS = st.one_of(
    st.builds(Condition, NAMES, SIGNS, st.tuples(NUMBERS), st.booleans()),
    st.builds(Condition, NAMES, st.just("in"), st.lists(NUMBERS, min_size=1).map(tuple), st.booleans()),
    st.builds(Condition, NAMES, st.just("in"), st.lists(TEXTS, min_size=1).map(tuple), st.booleans()),
    st.builds(Condition, NAMES, st.just("~"), st.tuples(TEXTS), st.booleans()),
    st.builds(Condition, NAMES, st.just("missing"), st.just(()), st.booleans()),
)
DRESSINGS = st.sampled_from([(" ", "'", "not {} {}"), ("  ", '"', "{} not {}"), ("\t", "`", "NOT {} {}")])


def written(condition: Condition, dressing: tuple[str, str, str]) -> str:
    """Return a condition as a user writes it."""
    blank, quote, negation = dressing

    def quoted(value: float | str) -> str:
        if isinstance(value, str):
            return quote + value.replace(quote, 2 * quote) + quote
        return f"{value!r}"

    name = quoted(condition.name)
    if condition.kind in ("in", "missing", "~"):
        values = ", ".join(map(quoted, condition.operands))
        rest = {"in": f"in [{values}]", "~": f"~{values}", "missing": "missing"}[condition.kind]
    else:
        rest = f"{condition.kind}{blank}{quoted(condition.operands[0])}"
        negation = "not {} {}"
    return negation.format(name, rest) if condition.negated else f"{name}{blank}{rest}"


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(CONDITIONS, DRESSINGS), min_size=1, max_size=4),
    st.lists(CELLS, min_size=1, max_size=8),
)
def test_columns_are_decided_as_cell_by_cell(
    conditions: list[tuple[Condition, tuple[str, str, str]]], cells: list[str | None]
) -> None:
    names = ["Supplier", "Price, USD", "not tested"]
    table = {name: cells[k:] + cells[:k] for k, name in enumerate(names)}
    text = " and ".join(written(*each) for each in conditions)
    passing = np.ones(len(cells), dtype=bool)
    for limit in limits_of(text, names):
        column = pa.array(table[limit.name], pa.string())
        passing &= limit.holds(column if limit.text else Notation().numbers_of_column(column))
    assert np.flatnonzero(passing).tolist() == naive.passing([each for each, _ in conditions], table)


WORDS = st.sampled_from(
    [
        *"(),;&<>=!~'\"` [",
        " and ",
        " in ",
        " not ",
        " missing",
        " is ",
        " or ",
        "name",
        "weight",
        "Price, USD",
        "3",
    ]
)


@settings(deadline=None, max_examples=300)
@given(st.lists(WORDS, max_size=14).map("".join) | st.text(max_size=30))
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    with suppress(OptionError):
        limits = limits_of(text, COLUMNS)
        assert limits
        for limit in limits:
            assert len(limit.holds(pa.array(["a"]) if limit.text else np.array([1.0]))) == 1
        return
    with pytest.raises(OptionError, match=r"^[^\n]* at character \d+[^\n]*$"):
        limits_of(text, COLUMNS)


@settings(deadline=None)
@given(st.lists(CELLS | st.sampled_from(["1,200.50", "$7", "7 EUR", "> 3", "1_0", "+3", "yes", "no"])))
def test_numbers_of_a_column_are_those_of_its_cells(cells: list[str | None]) -> None:
    notation = Notation.of([cell or "" for cell in cells], "'price'")
    column = notation.numbers_of_column(pa.array(cells, pa.string()))
    np.testing.assert_array_equal(column, notation.numbers(cells))


@pytest.mark.parametrize(
    "text",
    [
        "not ",
        "not 'a' ",
        "name ~ ",
        "is missing ",
        "is  not  missing  and ",
        "name ~ 'a' and ",
        "''",
        "[",
        "or ",
    ],
)
def test_the_time_to_read_is_linear(text: str) -> None:
    """50,000 repeats: quadratic time would be many minutes."""
    with suppress(OptionError):
        limits_of(text * 50_000, COLUMNS)
