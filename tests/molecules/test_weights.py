"""Labels in mass per volume, which molecular weights make molar."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors

from daskrf import add, evaluate, fit
from daskrf.errors import InputError
from daskrf.measurements import Labels, label_words, read_labels
from daskrf.models.models import read_model
from daskrf.molecules.weights import molecular_weights
from daskrf.tables.values.units import grams_per_litre, mass_unit
from daskrf.tables.values.values import BY_WEIGHT, Scale, scales_of

SMILES = ["CCO", "CCN.Cl", "c1ccccc1", "CC(=O)[O-].[Na+]", "[2H]C([2H])([2H])O"]


def read(folder: Path, text: str, **options) -> Labels:
    path = folder / "labels.csv"
    path.write_text(text)
    return read_labels(path, **{"key": "smiles", **options})


def weight(smiles: str) -> float:
    return Descriptors.MolWt(Chem.MolFromSmiles(smiles))


def test_weights_are_those_of_rdkit_for_whole_records():
    want = [weight(smiles) for smiles in SMILES]
    assert np.allclose(molecular_weights([*SMILES, SMILES[0]]), [*want, want[0]])
    assert np.isnan(molecular_weights(["C1CC", "", "not a molecule"])).all()


@pytest.mark.parametrize(
    ("text", "unit", "grams"),
    [
        *(("ug/mL", "ug/mL", 1e-3), ("µg/ml", "ug/mL", 1e-3), ("ug.mL-1", "ug/mL", 1e-3)),
        *(("ug·mL\N{MINUS SIGN}1", "ug/mL", 1e-3), ("µg·mL⁻¹", "ug/mL", 1e-3), ("ug⋅ml^-1", "ug/mL", 1e-3)),
        *(("mg/dL", "mg/dL", 1e-2), ("ug dL-1", "ug/dL", 1e-5), ("g/dl", "g/dL", 10.0)),
        *(("mcg/mL", "ug/mL", 1e-3), ("ng/mL", "ng/mL", 1e-6), ("mg/L", "mg/L", 1e-3)),
        *(("mg/mL", "mg/mL", 1.0), ("pg ml^-1", "pg/mL", 1e-9), ("g/L", "g/L", 1.0)),
        *(("pg/dL", "pg/dL", 1e-11), ("pg/L", "pg/L", 1e-12)),
        *(("mg/kg", None, None), ("nM", None, None), ("mL", None, None), ("mg", None, None)),
    ],
)
def test_units_of_mass_per_volume(text, unit, grams):
    assert (mass_unit(text), grams_per_litre(text)) == (unit, grams)


@pytest.mark.parametrize(
    ("header", "cell", "options"),
    [
        ("smiles,IC50 (ug/mL)", "{s},{v}", {}),
        ("smiles,IC50", "{s},{v}", {"unit": "ug/mL"}),
        ("smiles,IC50", "{s},{v} ug/mL", {}),
        ("smiles,IC50,Standard Units", "{s},{v},ug.mL-1", {}),
        ("name,smiles,IC50", "m,{s},{v}", {"unit": "ug/mL", "key": "id"}),
    ],
)
def test_mass_per_volume_becomes_molar_by_the_weight_of_each_record(tmp_path, header, cell, options):
    values = [3.0, 500.0, 0.02, 7.5, 11.0]
    rows = [cell.format(s=s, v=v) for s, v in zip(SMILES, values, strict=True)]
    text = "\n".join([header, *rows]) + "\n"
    labels = read(tmp_path, text, transform="pIC50", **options)
    want = [-np.log10(v * 1e-3 / weight(s)) for s, v in zip(SMILES, values, strict=True)]
    assert np.allclose(labels.y[:, 0], want, atol=1e-12)
    assert labels.unusual[BY_WEIGHT][0] == 5
    words = label_words(tmp_path / "labels.csv", **{"key": "smiles", "transform": "pIC50", **options})
    assert any(how in words for how in ("salts included", "in M (by its cells)", "in mol/L (converted"))
    plain = read(tmp_path, text, **{**options, "unit": options.get("unit")})
    assert np.allclose(plain.y[:, 0], values)  # no molar scale was requested
    assert BY_WEIGHT not in plain.unusual


def test_units_of_rows_mix_and_limits_turn_with_the_scale(tmp_path):
    text = "smiles,IC50,units\nCCO,46.07,ug/mL\nCCC,10,nM\nCCN.Cl,>81.54,mg/L\nCCF,<1,uM\n"
    labels = read(tmp_path, text, transform="pIC50")
    assert labels.bound is not None
    assert labels.side is not None
    assert np.allclose(labels.y[:2, 0], [3.0, 8.0], atol=1e-4)
    assert np.allclose(labels.bound[2:, 0], [3.0, 6.0], atol=1e-4)
    assert labels.side[:, 0].tolist() == [0, 0, -1, 1]
    molar = read(tmp_path, text, unit="nM")
    assert np.allclose(molar.y[:2, 0], [1e6, 10.0], rtol=1e-4)
    dropped = read(tmp_path, text, transform="pIC50", drop_value=1e-8)  # in mol/L, as the report says
    assert np.isfinite(dropped.y[:, 0]).sum() == 1


def test_what_has_no_weight_is_refused_in_a_sentence(tmp_path):
    text = "smiles,IC50 (ug/mL)\nCCO,5\nc1ccccc,6\nCCC,7\n"
    with pytest.raises(InputError, match=r"line 3: .*no molecular weight could be computed from its SMILES"):
        read(tmp_path, text, transform="pIC50")
    left = read(tmp_path, text, transform="pIC50", drop_non_numbers=True)
    assert np.isfinite(left.y).sum() == 2
    with pytest.raises(InputError, match=r"'MIC' is in mass per volume.*add a column of SMILES"):
        read(tmp_path, "name,MIC\na,1\nb,2\n", transform="pMIC", unit="ug/mL", key="id")
    with pytest.raises(InputError, match=r"another unit; convert it \(with a column of SMILES daskrf does\)"):
        read(tmp_path, "name,MIC\na,1 ug/mL\nb,2 nM\n", transform="pMIC", key="id")
    text = "smiles,IC50 (ug/mL)\nCCO,5\nCCC,999\n"
    assert read(tmp_path, text, transform="pIC50", drop_value=999).n_labels == 1
    with pytest.raises(InputError, match="another one for each molecular weight"):
        read(tmp_path, text, transform="pIC50", drop_outside="0:100")


def test_new_labels_are_converted_to_the_scale_of_the_model(tmp_path):
    text = "smiles,IC50\nCCO,46.07\nCCN.Cl,>81.54\n"
    nanomolar, mass = Scale("IC50", "IC50", "", "nM"), Scale("IC50", "IC50", "", "ug/mL")
    labels = read(tmp_path, text, scales=[nanomolar], unit="ug/mL")
    assert labels.bound is not None
    assert np.allclose([labels.y[0, 0], labels.bound[1, 0]], 1e6, rtol=1e-3)
    assert read(tmp_path, text, scales=[mass], unit="µg/ml").y[0, 0] == 46.07


def test_fit_add_and_evaluate_agree_on_the_scale(tmp_path):
    chains = ["C" * k + tail for k in range(1, 9) for tail in ("O", "N", "F")]
    molar = {s: 10 ** (-4 - 0.2 * len(s)) for s in chains}
    path = tmp_path / "mass.csv"
    rows = "".join(f"{s},{1e3 * weight(s) * m:.8g}\n" for s, m in molar.items())
    path.write_text("smiles,IC50 (ug/mL)\n" + rows)
    report = str(fit(path, output=tmp_path / "m", transform="pIC50", quick=True))
    assert "24 in mass per volume, made molar by the average molecular weight" in report
    new = tmp_path / "new.csv"
    new.write_text("smiles,IC50 (nM)\nCCCCCCCCCO,1000\nCCCCCCCCCN,<3000\n")
    add(tmp_path / "m", new, target="IC50 (nM)")
    (labels,) = read_model(tmp_path / "m").arrays("labels")
    assert np.allclose(sorted(labels[:24, 0]), sorted(-np.log10(list(molar.values()))), atol=1e-6)
    assert labels[24, 0] == pytest.approx(6.0)
    other = tmp_path / "other.csv"
    other.write_text("smiles,IC50 (ug/mL)\nCCCCCCCCCCO,1\nCCCCCCCCCF,20\nCCCOC,30\n")
    (target,) = evaluate(tmp_path / "m", other).targets
    assert target.n_predicted == 3


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *(("IC50 (ug/mL)", "nM"), ("IC50 (nM)", "ug/mL"), ("IC50 (uM)", "nM"), ("IC50_uM", "nM")),
        *(("IC50 (M)", "nM"), ("MIC (mg/L)", "ug/mL")),
    ],
)
@pytest.mark.parametrize("transform", ["pIC50", None])
def test_a_name_that_contradicts_the_unit_is_refused(name: str, unit: str, transform: str | None) -> None:
    with pytest.raises(
        InputError, match=f"says {unit}; leave --unit out, or rename the column if its values"
    ):
        scales_of([name], transform, unit)
    assert scales_of([name], "pIC50")[0].transform == "pIC50"


@pytest.mark.parametrize(
    ("name", "unit"), [("IC50 (uM)", "µmol/L"), ("IC50_M", "nM"), ("IC50", "nM"), ("MIC (µg/mL)", "ug.mL-1")]
)
def test_a_name_that_agrees_with_the_unit_or_says_none_is_taken(name: str, unit: str) -> None:
    (scale,) = scales_of([name], "pIC50", unit)
    assert scale.unit in {"uM", "nM", "ug/mL"}


def test_values_with_units_beside_them_are_converted_to_another_than_the_name_says() -> None:
    (scale,) = scales_of(["IC50 (uM)"], None, "nM", ("units", ["uM", "nM"]))
    assert scale.apply(np.array([1.0, 5.0]), ["uM", "nM"])[0].tolist() == [1000.0, 5.0]
    assert scales_of(["IC50 (uM)"], None, "nM", beside=["uM"])[0].unit == "nM"
    assert scales_of(["IC50 (uM)"], None, "nM", of_model=True)[0].unit == "nM"
