"""Which values of known quantities are good: a table of names, transforms and units."""

from __future__ import annotations

import pytest

from daskrf.tables.values.conventions import convention_of
from daskrf.tables.values.values import Scale, scales_of

LARGE = [
    "pIC50",
    "pic50",
    "pKi",
    "pKd",
    "pEC50",
    "pEC50_mean",
    "pXC50",
    "pAC50",
    "pGI50",
    "pMIC",
    "pchembl_value",
    "pChEMBL Value",
    "pActivity",
    "-log10(IC50)",
    "neg_log_Ki",
    "p_ic50",
    "target pKi",
    "% inhibition",
    "Inhibition",
    "pct_inhibition",
    "percent_inhibition_at_10uM",
    "%inh",
    "inhibition (%)",
    "% Inhib.",
    "Inhib_pct",
    "perc_inhib",
    "Inh%",
    "pctInh",
    "log(1/IC50)",
    "log 1/Ki",
    "1/Kd (1/nM)",
    "kinact/KI",
    "kinact/Ki (1/M/s)",
    "log10(kinact/KI)",
    "CNNaffinity",
    "CNNscore",
    "CNN_VS",
]
SMALL = [
    "IC50",
    "ic50_nM",
    "IC50 (nM)",
    "IC50[uM]",
    "Ki",
    "K_i",
    "Ki (nM)",
    "Kd_pM",
    "EC50 (uM)",
    "EC50",
    "MIC",
    "MIC90",
    "MIC (uM)",
    "AC50",
    "GI50 (M)",
    "logIC50",
    "log10 Ki",
    "ln_IC50",
    "inhibition constant",
    "residual activity (%)",
    "activity (nM)",
    "standard_value (nM)",
    "Affinity [nM]",
    "potency_nM",
    "potency_uM",
    "IC50nM",
    "IC50uM",
    "KiNM",
    "IC50/nM",
    "IC50 (nmol/L)",
    "lgIC50",
    "IC80",
    "IC90 (nM)",
    "EC20_uM",
    "Kdapp",
    "Ki,app",
    "Ki_app_nM",
    "% activity remaining",
    "remaining_activity",
]
DOCKING = [
    "vina",
    "vina_score",
    "minimizedAffinity",
    "smina",
    "glide gscore",
    "r_i_glide_gscore",
    "r_i_docking_score",
    "docking_score",
    "docking",
    "dock_score",
    "DockScore",
    "affinity (kcal/mol)",
    "binding_energy",
    "dG",
    "deltaG",
    "ΔG",
    "\N{INCREMENT}G (kJ/mol)",
    "MM-GBSA dG Bind",
    "binding free energy",
    "Chemgauss4",
    "XP GScore",
    "score (kcal/mol)",
]
UNKNOWN = [
    "logP",
    "logD",
    "solubility (uM)",
    "solubility_nM",
    "score",
    "value",
    "y",
    "QED",
    "pKa",
    "TPSA",
    "activity",
    "hERG_IC50",
    "hERG pIC50",
    "CC50 (uM)",
    "LC50",
    "pLC50",
    "CYP3A4 IC50",
    "tox_IC50",
    "permeability",
    "MW",
    "clearance",
    "label",
    "rank",
    "tick",
    "kilo",
    "mice",
    "weight",
    "skinny",
    "value (uM)",
    "Km",
    "Kids",
    "kinase",
    "kinase_nM",
    "kinact",
    "kim",
    "IC",
    "IC500",
    "IC50/Ki",
    "IC50/LLE",
    "-log(1/IC50)",
    "inhibitor",
    "inhibited",
    "perc",
    "pct_yield",
    "activity (uM)",
    "stock remaining",
    "deltaglobin",
]


def scale(name: str) -> Scale:
    return scales_of([name])[0]


@pytest.mark.parametrize(
    ("names", "middle", "direction"),
    [(LARGE, 5.0, "maximize"), (SMALL, 100.0, "minimize"), (DOCKING, -8.0, "minimize")],
)
def test_what_is_good_is_known(names: list[str], middle: float, direction: str) -> None:
    conventions = {name: convention_of(scale(name), middle) for name in names}
    assert {name: each and each.direction for name, each in conventions.items()} == dict.fromkeys(
        names, direction
    )


@pytest.mark.parametrize("middle", [-8.0, 5.0])
def test_what_is_not_known_is_not_guessed(middle: float) -> None:
    conventions = {name: convention_of(scale(name), middle) for name in UNKNOWN}
    assert conventions == dict.fromkeys(UNKNOWN)


@pytest.mark.parametrize("middle", [0.5, 60.0])
def test_scores_of_docking_that_are_positive_have_another_sign_convention(middle: float) -> None:
    positive = [name for name in DOCKING if convention_of(scale(name), middle) is not None]
    assert positive == []


@pytest.mark.parametrize("form", ["pIC50", "pKi", "pKd", "pEC50", "pMIC", "pXC50", "pGI50"])
@pytest.mark.parametrize("column", ["IC50", "value", "standard_value", "activity"])
def test_a_transform_turns_the_direction(form: str, column: str) -> None:
    (transformed,) = scales_of([column], form, "nM")
    convention = convention_of(transformed, 6.0)
    assert convention is not None
    assert convention.direction == "maximize"


@pytest.mark.parametrize("form", ["log10", "ln", "log2"])
def test_a_logarithm_does_not(form: str) -> None:
    (transformed,) = scales_of(["IC50"], form, "nM")
    convention = convention_of(transformed, 2.0)
    assert convention is not None
    assert convention.direction == "minimize"


@pytest.mark.parametrize("form", ["pLC50", "pCC50", "pKa"])
def test_some_logarithms_are_wanted_large_or_small(form: str) -> None:
    (transformed,) = scales_of(["value"], form, "nM")
    assert convention_of(transformed, 6.0) is None


@pytest.mark.parametrize(
    ("file", "column", "middle", "direction"),
    [
        ("ic50_nM.csv", "value", 300.0, "minimize"),
        ("pIC50.csv.gz", "y", 6.0, "maximize"),
        ("docking.csv", "score", -8.0, "minimize"),
        ("docking.csv", "score", 60.0, None),
        ("vina_results.csv", "score", -8.0, "minimize"),
        ("docking.csv", "logP", -1.0, None),
        ("scores.csv", "score", -8.0, None),
        ("percent_inhibition.csv", "result", 40.0, "maximize"),
    ],
)
def test_the_name_of_the_file_helps_where_the_column_says_nothing(
    file: str, column: str, middle: float, direction: str | None
) -> None:
    convention = convention_of(scale(column), middle, file)
    assert (convention.direction if convention else None) == direction


def test_units_in_a_column_count() -> None:
    (mixed,) = scales_of(["standard_value"], None, None, ("standard_units", ["nM", "uM", "nM"]))
    convention = convention_of(mixed, 100.0)
    assert convention is not None
    assert convention.direction == "minimize"
