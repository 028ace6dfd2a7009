"""What the cells of tables of labels say: numbers, limits, words; their units and transforms."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.measurements import Labels, label_words, read_labels
from daskrf.tables.values.values import AS_VALUES, LEFT_OUT, is_concentration, scales_of
from tests.naive.values import IN_MOL, value_of

WHY = {"empty": 1, "word": 2, "censored": 3, "unit": 4, "logarithm": 5, "no limit": 9}


def write(folder: Path, text: str, name: str = "labels.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def values(labels: Labels) -> dict[str, float]:
    keys = [labels.keys[int(at)].as_py() for at in labels.index]
    return dict(zip(keys, labels.y[:, 0].tolist(), strict=True))


def counts(labels: Labels) -> dict[str, int]:
    return {kind: n for kind, (n, _) in labels.unusual.items()}


CELLS = st.one_of(
    st.floats(1e-3, 1e6).map(lambda v: f"{v:.6g}"),
    st.sampled_from(
        ["0", "-3", " 12 ", "1e3", "NA", "nan", "inf", "", "inactive", "n.d.", "-", "5 apples", "5±1"]
    ),
    st.tuples(st.sampled_from([">", "<", ">=", "<= ", "~", "= "]), st.floats(1, 1e5)).map(
        lambda pair: f"{pair[0]}{pair[1]:.4g}"
    ),
)
ROWS = st.lists(
    st.tuples(CELLS, st.sampled_from(["", "=", ">", "'<'"]), st.sampled_from([*IN_MOL, "%", "ug.mL-1"])),
    min_size=1,
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.sampled_from(["", "log10", "ln", "pIC50"]), st.sampled_from(["drop", "value"]), st.booleans())
def test_cells_are_what_they_say(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str]],
    transform: str,
    censored: str,
    beside: bool,
) -> None:
    """As read one by one; relations stand in a column of their own or nowhere, units too."""
    p = transform.startswith("p")
    rows = [("1", "=", "nM"), *[(cell, sign if beside else "", unit) for cell, sign, unit in rows]]
    table = "id,value,relation,units\n" if beside and p else "id,value,relation\n" if beside else "id,value\n"
    for k, (cell, sign, unit) in enumerate(rows):
        table += (
            ",".join([f"m{k}", cell, *([sign] if beside else []), *([unit] if beside and p else [])]) + "\n"
        )
    path = write(tmp_path_factory.mktemp("values"), table)
    unit = {} if beside or not p else {"unit": "nM"}
    options = {
        "targets": ["value"],
        "drop_non_numbers": True,
        "censored": censored,
        "transform": transform or None,
    }
    labels = read_labels(path, **options, **unit)
    expected, reasons = {}, Counter[str]()
    for k, (cell, sign, own_unit) in enumerate(rows):
        value, why = value_of(cell, sign.strip("'"), own_unit if beside else "nM", transform)
        if why == "censored" and censored == "value":
            reasons[AS_VALUES] += 1
            expected[f"m{k}"] = value
        elif why == "number":
            expected[f"m{k}"] = value
        else:
            reasons[LEFT_OUT[WHY[why]]] += 1
    assert values(labels) == pytest.approx(expected)
    assert counts(labels) == dict(reasons)
    assert (labels.read, labels.dropped) == (len(rows), len(rows) - len(expected))


CHEMBL = (
    '"Molecule ChEMBL ID";"Smiles";"Standard Type";"Standard Relation";"Standard Value";"Standard Units"\n'
    '"CHEMBL1";"CCO";"IC50";"\'=\'";"12";"nM"\n'
    '"CHEMBL2";"CCN";"IC50";"\'>\'";"10000.0";"nM"\n'
    '"CHEMBL3";"CCC";"IC50";"\'=\'";"1.2";"µM"\n'
    '"CHEMBL4";"CCCl";"IC50";"";"";""\n'
)


def test_relations_of_several_targets_are_not_used(tmp_path: Path) -> None:
    path = write(tmp_path, "id,a,b,relation\nx,1,2,>\ny,2,3,=\n")
    words = label_words(path, targets=["a", "b"])
    assert words.endswith("targets 'a', 'b'; 'relation' unused: it is unclear which target it belongs to")
    assert "'relation' marks censored values" in label_words(path, targets=["a"])


def test_an_export_of_chembl(tmp_path: Path) -> None:
    path = write(tmp_path, CHEMBL)
    options = {"targets": ["Standard Value"], "transform": "pIC50"}
    limits = read_labels(path, drop_non_numbers=True, **options)
    assert (limits.bound.ravel().tolist()[1], limits.side.ravel().tolist()) == (5.0, [0, -1, 0])
    with pytest.raises(InputError, match=r"line 5: 'Standard Value' is empty; .*--drop-non-numbers"):
        read_labels(path, censored="value", **options)
    labels = read_labels(path, censored="value", drop_non_numbers=True, **options)
    expected = {"CHEMBL1": 7.920818753952375, "CHEMBL2": 5.0, "CHEMBL3": 5.920818753952375}
    assert values(labels) == pytest.approx(expected, abs=1e-14)
    assert labels.names == ("pIC50",)
    words = label_words(path, **options)
    assert "'Standard Relation' marks censored values" in words
    assert (
        "pIC50 = -log10 of 'Standard Value' in mol/L (converted from the units in 'Standard Units')" in words
    )
    labels = read_labels(path, censored="drop", drop_non_numbers=True, targets=["Standard Value"])
    assert values(labels) == pytest.approx({"CHEMBL1": 12.0, "CHEMBL3": 1200.0})
    assert labels.scales[0].words().startswith("'Standard Value' in nM (converted")
    labels = read_labels(path, censored="drop", drop_non_numbers=True, targets=["Standard Value"], unit="pM")
    assert values(labels) == pytest.approx({"CHEMBL1": 12_000.0, "CHEMBL3": 1_200_000.0})
    words = label_words(path, targets=["Standard Value"], unit="pM")
    assert words.endswith("'Standard Value' in pM (converted from the units in 'Standard Units')")


@pytest.mark.parametrize(
    ("value", "option", "message"),
    [
        ("inactive", "drop_non_numbers", "holds 'inactive', which is not a number; correct it, or leave out"),
        ("-", "drop_non_numbers", "holds '-', which is not a number"),
        ("", "drop_non_numbers", "is empty; fill it in"),
        ("0", "drop_non_numbers", "holds '0', which has no logarithm"),
        ("-1", "drop_non_numbers", "holds '-1', which has no logarithm"),
    ],
)  # fmt: skip
def test_each_is_refused_with_its_option(value: str, option: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"id,IC50_nM,note\nA,10,x\nB,{value},x\nC,1000,x\n")
    with pytest.raises(InputError) as caught:
        read_labels(path, targets=["IC50_nM"], transform="pIC50")
    assert f"labels.csv, line 3: 'IC50_nM' {message}" in str(caught.value)
    labels = read_labels(path, targets=["IC50_nM"], transform="pIC50", **{option: True})
    assert values(labels) == {"A": 8.0, "C": 6.0}
    ((_, (n, example)),) = labels.unusual.items()
    assert (n, example) == (1, value)


def test_relations_stand_before_numbers_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "id,y,relation\nA,1,=\nB,NA,=\nC,n.d.,>\nD,<3,=\nE,nan,>\n")
    labels = read_labels(path, censored="drop", drop_non_numbers=True)
    assert values(labels) == {"A": 1.0}
    assert counts(labels) == {LEFT_OUT[1]: 2, LEFT_OUT[2]: 1, LEFT_OUT[3]: 1}


def test_decimal_commas_of_limits(tmp_path: Path) -> None:
    labels = read_labels(write(tmp_path, "id;y\nA;>1,5\nB;2,5\n"), censored="value")
    assert values(labels) == {"A": 1.5, "B": 2.5}
    assert counts(labels) == {AS_VALUES: 1}


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            ["y"],
            {"transform": "pIC50"},
            "the unit of 'y' is not known, and pIC50 depends on it; .* --unit nM",
        ),
        (
            ["y"],
            {"transform": "pIC50", "unit": "%"},
            "pIC50 is computed from concentrations, and '%' is not a unit",
        ),
        (
            ["y"],
            {"transform": "sqrt"},
            "'sqrt' is not a transform; choose log10, ln, log2, or a name such as pIC50",
        ),
        (["pIC50"], {"transform": "pIC50", "unit": "nM"}, "'pIC50' is a logarithm, judging by its name"),
        (["logD"], {"transform": "log10"}, "'logD' is a logarithm, judging by its name"),
        *(
            (
                [name],
                {"transform": form, "unit": "nM"},
                "is a logarithm, judging by its name; leave out the transform",
            )
            for form in ("pIC50", "ln")
            for name in [
                *("Ln IC50 (nM)", "lnIC50", "lgIC50 (nM)", "lg(IC50)", "IC50_log_nM", "IC50 log(M)"),
                *("log IC50 (nM)", "-log IC50 (M)", "logKi_nM", "Ki_ln", "minuslogKi", "mean pIC50"),
            ]
        ),
        (
            ["a", "b"],
            {"transform": {"c": "log10"}},
            "a transform is given for 'c', which is not a target; the columns are 'a', 'b'",
        ),
        (["a", "b"], {"unit": {"c": "nM"}}, "a unit is given for 'c', which is not a target"),
    ],
)
def test_scales_that_are_none(columns: list[str], options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        scales_of(columns, **options)


@pytest.mark.parametrize(
    "name",
    [
        *("analog IC50 (nM)", "catalog_Ki_nM", "LN-229 IC50 (nM)", "LN229 IC50 (nM)", "LNCaP IC50 (nM)"),
        *("IC50 (nM)", "Kids (nM)", "inhibition lag (nM)", "plasma Ki (nM)"),
    ],
)
def test_names_of_no_logarithms(name: str) -> None:
    (scale,) = scales_of([name], "pIC50")
    assert (scale.transform, scale.unit) == ("pIC50", "nM")


def test_names_of_concentrations() -> None:
    for name in ["IC50", "IC50nM", "IC50_uM", "KiNM", "IC80", "EC20 (nM)", "Kdapp", "Ki_app"]:
        assert is_concentration(name, "")
    for name in ["Kids", "kinase", "pIC50", "KiosM", "EC1"]:
        assert not is_concentration(name, "")


def test_names_of_scales() -> None:
    def words(columns: list[str], **options: object) -> list[str]:
        return [scale.words() for scale in scales_of(columns, **options)]  # type: ignore[arg-type]

    assert words(["y"], transform="log10") == ["log10_y = log10 of 'y'"]
    assert words(["a", "b"], transform="pKi", unit="uM") == [
        "pKi_a = 6 - log10 of 'a' in uM",
        "pKi_b = 6 - log10 of 'b' in uM",
    ]
    named = {"transform": {"a": "pKi"}, "unit": {"a": "M", "b": "kcal/mol"}}
    assert words(["a", "b"], **named) == ["pKi = -log10 of 'a' in M", "'b' in kcal/mol"]
    assert words(["IC50 [µM]"], transform="pIC50") == ["pIC50 = 6 - log10 of 'IC50 [µM]' in uM (by its name)"]
    assert words(["ic50_nm"], transform="pIC50") == ["pIC50 = 9 - log10 of 'ic50_nm' in nM (by its name)"]
    assert words(["item_m", "dose (uM)"]) == ["'item_m'", "'dose (uM)' in uM (by its name)"]
    assert [scale.worth_stating for scale in scales_of(["item_m", "score"])] == [False, False]


@pytest.mark.parametrize(
    ("cells", "expected", "words"),
    [
        (["1.200,50", "7,5", "1.234"], [1200.5, 7.5, 1234], "decimal commas, thousands separated by points"),
        (["1,200.50", "90", "1,200"], [1200.5, 90, 1200], "thousands separated by commas"),
        (["1 234,5", "\N{MINUS SIGN}7,5"], [1234.5, -7.5], "decimal commas, thousands separated by spaces"),
        (["1'234.5", "0.5"], [1234.5, 0.5], "thousands separated by spaces or apostrophes"),
        (["1,234,567", "12"], [1234567, 12], "thousands separated by commas"),
        (
            ["$90", "US$ 1,200.50", "90 USD"],
            [90, 1200.5, 90],
            "thousands separated by commas, 'v' in USD (by its cells)",
        ),
        (["90 EUR", "€7,5", "-€3"], [90, 7.5, -3], "decimal commas, 'v' in EUR (by its cells)"),
        (["12 nM", "1.5 µM", "2e-6 M"], [12, 1500, 2000], "'v' in nM (by its cells)"),
        (["45 %", "7.5%"], [45, 7.5], "'v' in % (by its cells)"),
        (["TRUE", "false", "True"], [1, 0, 1], "'TRUE' read as 1 and 'false' as 0"),
        (["active", "inactive"], [1, 0], "'active' read as 1 and 'inactive' as 0"),
    ],
)
def test_numbers_are_read_in_any_notation(
    cells: list[str], expected: list[float], words: str, tmp_path: Path
) -> None:
    path = write(tmp_path, "id\tv\n" + "".join(f"m{k}\t{cell}\n" for k, cell in enumerate(cells)), "a.tsv")
    assert values(read_labels(path)) == pytest.approx({f"m{k}": v for k, v in enumerate(expected)})
    assert f"target 'v', {words}" in label_words(path)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1,200", "3"], "holds '1,200', which may mean 1.200 or 1200; write it as one of them"),
        (
            ["7,5", "1.5"],
            "holds '1.5' and '7,5', with decimal points and commas; use one notation throughout",
        ),
        (["90 EUR", "90 EUR", "$90"], "line 4: 'v' holds '$90', which is in another unit; convert it"),
        (["90 EUR", "90 EUR", "90"], "line 4: 'v' holds '90', which is in another unit; convert it"),
        (["90", "90", "5 mM"], "line 4: 'v' holds '5 mM', which is in another unit; convert it"),
        (["TRUE", "FALSE", "maybe"], "no numeric column besides the key"),
    ],
)
def test_numbers_that_may_mean_others_are_refused(cells: list[str], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, "id\tv\n" + "".join(f"m{k}\t{cell}\n" for k, cell in enumerate(cells)), "a.tsv")
    with pytest.raises(InputError) as caught:
        read_labels(path)
    assert message in str(caught.value)


def test_a_notation_holds_for_the_whole_column(tmp_path: Path) -> None:
    """It is found in the first 10,000 rows; a number further down that is written otherwise is refused."""
    rows = "".join(f"m{k};{k % 90},5\n" for k in range(10_100))
    path = write(tmp_path, f"id;v\n{rows}last;1.5\n")
    with pytest.raises(InputError, match=r"line 10102: 'v' holds '1.5', but others have decimal commas"):
        read_labels(path, drop_non_numbers=True)
    whole = write(tmp_path, "id\tv\n" + "".join(f"m{k}\t{k % 90}\n" for k in range(10_100)) + "last\t1,200\n")
    with pytest.raises(InputError, match=r"holds '1,200', but others have decimal points; use one notation"):
        read_labels(whole, drop_non_numbers=True)


def test_a_column_of_numbers_comes_before_one_of_truth_values(tmp_path: Path) -> None:
    path = write(tmp_path, "id,active,score\nA,TRUE,-7.5\nB,FALSE,-8\n")
    assert read_labels(path).names == ("score",)
    assert values(read_labels(path, targets=["active"])) == {"A": 1.0, "B": 0.0}


RELATIONS = ["lt", "Less than", "&lt;", "<", "'<'", "\u2266", "left"]


@pytest.mark.parametrize("relation", RELATIONS)
def test_relations_have_several_names(relation: str, tmp_path: Path) -> None:
    rows = f"smiles,qualifier,pIC50\nCCO,=,5\nCCC,,6\nCCN,{relation},4\nCCS,exact,7\nCCF,n/a,8\n"
    (tmp_path / "y.csv").write_text(rows)
    limits = read_labels(tmp_path / "y.csv", key="structure")
    assert limits.side.ravel().tolist() == [0, 0, -1, 0, 0]
    labels = read_labels(tmp_path / "y.csv", key="structure", censored="drop")
    assert labels.y.ravel().tolist() == [5.0, 6.0, 7.0, 8.0]


UNKNOWN = "is not a known relation"


@pytest.mark.parametrize(
    ("column", "relation", "of_flags"),
    [("qualifier", "maybe", UNKNOWN), ("censor", "1", "marks a limit but does not say")],
)
def test_relations_that_nobody_knows_are_refused(
    column: str, relation: str, of_flags: str, tmp_path: Path
) -> None:
    for first, why in (("=", UNKNOWN), (relation, of_flags)):
        rows = f"smiles,{column},pIC50\nCCO,{first},5\nCCC,,6\nCCN,{relation},4\nCCS,{relation},4.5\n"
        (tmp_path / "y.csv").write_text(rows)
        with pytest.raises(InputError, match=f"'{column}' holds '{relation}', which {why}"):
            read_labels(tmp_path / "y.csv", key="structure", censored="drop", targets=["pIC50"])


def test_an_operator_may_be_a_person(tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text("smiles,operator,pIC50\nCCO,Ann,5\nCCC,Bob,6\nCCN,Ann,4\n")
    assert read_labels(tmp_path / "y.csv", key="structure").y.ravel().tolist() == [5.0, 6.0, 4.0]
    assert label_words(tmp_path / "y.csv", key="structure").endswith(
        "; 'operator' unused: it holds no relations such as >"
    )


def test_of_several_targets_words_of_a_qualifier_are_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text("smiles,qualifier,a,b\nCCO,good,5,1\nCCC,poor,6,2\nCCN,good,4,3\n")
    labels = read_labels(tmp_path / "y.csv", key="structure", targets=["a", "b"])
    assert labels.y.tolist() == [[5.0, 1.0], [6.0, 2.0], [4.0, 3.0]]


@pytest.mark.parametrize(
    "name",
    [
        *("IC50_relation", "IC50 qualifier", "IC50_operator", "Activity Relation", "Sign", "relationship"),
        *("IC50_mod", "inequality", "IC50 Prefix", "value_qualifier", "op", "relation (IC50)"),
        *("standard_relation.1", "Relation type", "censored", "is_censored"),
    ],
)
def test_relations_are_found_by_content(name: str, tmp_path: Path) -> None:
    rows = f"smiles,{name},IC50 (nM),note\nCCO,=,5,a\nCCC,,6,b\nCCN,>,10000,c\nCCF,less than,1,d\n"
    path = write(tmp_path, rows)
    assert f"'{name}' marks censored values" in label_words(path, key="structure")
    limits = read_labels(path, key="structure")
    assert limits.side.ravel().tolist() == [0, 0, 1, -1]
    labels = read_labels(path, key="structure", censored="drop")
    assert labels.y.ravel().tolist() == [5.0, 6.0]
    assert counts(labels) == {LEFT_OUT[3]: 2}


def test_relations_in_tags_of_an_sd_file(tmp_path: Path) -> None:
    block = (
        "\n  x\n\n  1  0  0  0  0  0            999 V2000\n    0.0000    0.0000    0.0000 C   0  0\nM  END\n"
    )
    pairs = [("=", 5), (">", 10000), ("=", 7)]
    tags = [f">  <IC50 qualifier>\n{sign}\n\n>  <IC50>\n{value}\n\n$$$$\n" for sign, value in pairs]
    path = write(tmp_path, "".join(block + tag for tag in tags), "a.sdf")
    labels = read_labels(path, key="structure", censored="drop")
    assert labels.y.ravel().tolist() == [5.0, 7.0]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("IC50,IC50_op,Ki,Ki_op", [5.0]),  # each has its own
        ("IC50,relation,Ki,Ki_op", [5.0]),  # a usual name comes first
        ("IC50,side,Ki,hand", [5.0, 6.0, 7.0]),  # none holds relations
        ("IC50,note,Ki,Ki_op", [5.0, 6.0, 7.0]),  # that of the other one is not taken
    ],
)
def test_of_several_columns_of_relations_that_of_the_target_is_taken(
    columns: str, expected: list[float], tmp_path: Path
) -> None:
    first = ["left", "right", "left"] if "side" in columns else ["", "x", "y"] if "note" in columns else "=<>"
    second = ["right", "left", "left"] if "side" in columns else ">=="
    cells = zip("CNO", "567", first, "123", second, strict=True)
    rows = "".join(f"{smiles},{y},{a},{z},{b}\n" for smiles, y, a, z, b in cells)
    path = write(tmp_path, f"smiles,{columns}\n{rows}")
    options = {"key": "structure", "targets": ["IC50"]}
    assert read_labels(path, censored="drop", **options).y.ravel().tolist() == expected
    unused = "'Ki_op' unused: its name refers to 'Ki'"
    assert (unused in label_words(path, **options)) is ("note" in columns)


def test_two_columns_of_relations_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "id,IC50,op,rel\nA,5,=,<\nB,6,<,=\n")
    with pytest.raises(InputError, match=r"'op', 'rel' hold relations, and it is unclear which of them"):
        read_labels(path, censored="drop")


@pytest.mark.parametrize(
    ("name", "no", "yes"),
    [
        *(("censored", "0", "1"), ("is_censored", "False", "True"), ("IC50_censor", "no", "yes")),
        *(("censor", "0", "1"), ("uncensored", "1", "0")),
    ],
)
def test_flags_of_limits_without_a_side_are_refused(name: str, no: str, yes: str, tmp_path: Path) -> None:
    """If one is set, wherever it stands: the first rows have none."""
    rows = f"id,IC50,{name}\n" + "".join(f"m{k},{k},{no}\n" for k in range(1, 40))
    options = {"targets": ["IC50"], "censored": "drop"}
    assert len(read_labels(write(tmp_path, rows), **options)) == 39
    path = write(tmp_path, f"{rows}last,10000,{yes}\n")
    with pytest.raises(InputError, match=rf"line 41: '{name}' holds '{yes}', .*write a relation such as <"):
        read_labels(path, **options)
    rows = f"id,IC50,{name},op\nA,5,{no},=\nB,6,{yes},<\nC,7,{no},=\n"  # the side stands there
    assert read_labels(write(tmp_path, rows), **options).y.ravel().tolist() == [5.0, 7.0]


@pytest.mark.parametrize(
    "name",
    [
        *("IC50_units", "IC50 unit", "Unit of measurement", "UOM", "concentration_unit", "activity unit"),
        *("unit_IC50", "Units (IC50)", "note"),
    ],
)
def test_units_are_found_by_name_and_content(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"id,IC50,{name}\nA,500,nM\nB,7,uM\nC,30,nmol/L\n")
    assert label_words(path).endswith(f"'IC50' in nM (converted from the units in '{name}')")
    assert values(read_labels(path)) == pytest.approx({"A": 500.0, "B": 7000.0, "C": 30.0})
    y = values(read_labels(path, transform="pIC50"))
    assert y == pytest.approx({"A": 6.301029995663981, "B": 5.154901959985743, "C": 7.522878745280337})


@pytest.mark.parametrize(
    ("name", "cells"),
    [("sex", "MMM"), ("sex", "MFM"), ("chain", "KLM"), ("time", ["PM", "PM", "PM"]), ("subunit", "KLM"),
     ("statistic", ["min"] * 3), ("business unit", ["x", "y", "x"]), ("currency", ["EUR"] * 3)],
)  # fmt: skip
def test_letters_are_no_units(name: str, cells: list[str], tmp_path: Path) -> None:
    rows = "".join(f"m{k},{k + 1},{cell}\n" for k, cell in enumerate(cells))
    path = write(tmp_path, f"id,IC50,{name}\n{rows}")
    assert label_words(path).endswith("IDs in 'id', target 'IC50'")
    assert values(read_labels(path)) == {"m0": 1.0, "m1": 2.0, "m2": 3.0}


def test_units_of_another_column_and_of_logarithms_are_not_taken(tmp_path: Path) -> None:
    path = write(
        tmp_path, "id,pIC50,IC50,dose,dose_unit,units\nA,6,1,5,mg/kg,uM\nB,9,1,6,mg/L,nM\nC,5,10,7,g/L,uM\n"
    )
    assert values(read_labels(path, targets=["pIC50"])) == {"A": 6.0, "B": 9.0, "C": 5.0}
    unused = "'units' unused: 'pIC50' is a logarithm, judging by its name"
    assert label_words(path, targets=["pIC50"]).endswith(unused)
    path = write(tmp_path, "id,IC50,dose,dose_unit\nA,6,5,mg/kg\nB,9,6,mg/L\nC,5,7,g/L\n")
    assert values(read_labels(path, targets=["IC50"])) == {"A": 6.0, "B": 9.0, "C": 5.0}
    assert label_words(path, targets=["IC50"]).endswith("'dose_unit' unused: its name refers to 'dose'")


def test_a_unit_that_is_given_is_that_of_the_result(tmp_path: Path) -> None:
    """Rows with units of their own are converted to it; it is the unit of rows that have none."""
    path = write(tmp_path, "id,IC50,units\nA,500,nM\nB,0.57,uM\nC,3,\nD,4 pM,nM\n")
    for unit, scale in (("nM", 1.0), ("uM", 1e-3)):
        expected = {"A": 500 * scale, "B": 570 * scale, "C": 3.0, "D": 0.004 * scale}
        assert values(read_labels(path, unit=unit)) == pytest.approx(expected)
    y = values(read_labels(path, unit="uM", transform="pIC50"))
    assert y == pytest.approx({"A": 6.301029995663981, "B": 6.244125144327509, "C": 5.522878745280337,
                                   "D": 11.397940008672037})  # fmt: skip
    with pytest.raises(InputError, match=r"line 4: 'IC50' holds '3', which is in another unit"):
        read_labels(path)
    with pytest.raises(InputError, match=r"line 2: 'IC50' holds '500 nM', which is in another unit; convert"):
        read_labels(path, unit="%")


def test_units_far_down_count(tmp_path: Path) -> None:
    rows = "".join(f"m{k},{k},\n" for k in range(1, 40))
    path = write(tmp_path, f"id,IC50,units\n{rows}last,1,uM\n")
    with pytest.raises(InputError, match=r"line 41: 'IC50' holds '1 uM', which is in another unit"):
        read_labels(path)
    assert values(read_labels(path, unit="nM"))["last"] == 1000.0
