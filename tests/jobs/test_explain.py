"""The explanation of a prediction: shares that add up, atoms, and what is said of unlike molecules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from daskrf import Gaussian, TanimotoMinMax, TanimotoMinMaxFeatures, explain, fit, load
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.molecules import FingerprintSpec
from daskrf.molecules.counts.environments import without_atoms
from daskrf.storage.inspection import status, verify

SMILES = ReactionLibrary().smiles(0, 90)
Y = score(SMILES)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exact process, one of two targets with gaps, and one of features."""
    out = tmp_path_factory.mktemp("explain")
    data = {"smiles": SMILES[:60], "score": Y[:60].tolist()}
    gaps = [float("nan") if i % 3 == 0 else -y for i, y in enumerate(data["score"])]
    fit(data, output=out / "exact", target="score")
    fit(data, output=out / "tanimoto", target="score", kernel=TanimotoMinMax())
    both = {"target": ["score", "other"], "drop_non_numbers": True, "together": False}
    fit({**data, "other": gaps}, output=out / "two", **both)
    fit(data, output=out / "features", target="score", feature_map=TanimotoMinMaxFeatures(n_components=128))
    return out


def spec_of(path: Path) -> FingerprintSpec:
    return FingerprintSpec.from_state(load(path).metadata["fingerprint"])


def test_shares_of_an_exact_process_add_up_to_its_mean(models: Path) -> None:
    for smiles in (SMILES[3], SMILES[80], "CCO"):
        report = explain(models / "exact", smiles, n=7)
        mean, std = load(models / "exact").predict([smiles], return_std=True, of="f")
        shares = report.labelled["share"].to_numpy()
        assert len(shares) == 7
        assert report.n_rest == 53
        total = report.constant + shares.sum() + report.rest
        np.testing.assert_allclose([total, report.mean, report.std], [mean[0], mean[0], std[0]], rtol=1e-9)
        kernel = report.labelled["kernel"].to_numpy()
        assert (np.diff(kernel) <= 0).all()
        label = dict(zip(SMILES, Y, strict=True))
        rows = report.labelled.to_pylist()
        assert all(row["label"] == label[row["smiles"]] for row in rows)
    known = explain(models / "exact", SMILES[3]).labelled.to_pylist()[0]
    assert known["smiles"] == SMILES[3]
    assert known["similarity"] == 1


def test_shares_that_cancel_are_said_to(models: Path, tmp_path: Path) -> None:
    assert "cancel" not in str(explain(models / "tanimoto", SMILES[70]))
    data = {"smiles": SMILES[:60], "score": Y[:60].tolist()}
    fit(data, output=tmp_path / "smooth", target="score", kernel=Gaussian(100.0), noise_variance=1e-4)
    report = explain(tmp_path / "smooth", SMILES[70], n=60)
    largest = np.abs(report.labelled["share"].to_numpy()).max()
    assert largest > np.ptp(Y[:60])
    assert f"shares reach {largest:.3g}, more than the range of the labels, and cancel each other" in str(
        report
    )


def test_atoms_are_differences_of_predictions(models: Path) -> None:
    for name in ("exact", "features"):
        report = explain(models / name, SMILES[70])
        rows = without_atoms(SMILES[70], spec_of(models / name), "keep")
        model = load(models / name)
        expected = [report.mean - model.predict(rows[k])[0] for k in range(1, rows.shape[0])]
        np.testing.assert_allclose(report.atoms, expected, rtol=1e-6, atol=1e-9)


def test_targets_with_gaps_have_their_own_labels(models: Path) -> None:
    with pytest.raises(InputError, match="target"):
        explain(models / "two", SMILES[70])
    report = explain(models / "two", SMILES[70], target="other", n=100)
    assert report.labelled.num_rows == 40
    label = dict(zip(SMILES, -Y, strict=True))
    assert all(row["label"] == label[row["smiles"]] for row in report.labelled.to_pylist())
    total = report.constant + sum(report.labelled["share"].to_pylist()) + report.rest
    np.testing.assert_allclose(total, report.mean, rtol=1e-9)


def test_a_model_of_features_shows_the_nearest_labels_without_shares(models: Path) -> None:
    report = explain(models / "features", SMILES[5])
    assert report.constant is None
    assert report.labelled.column_names == ["label", "similarity", "smiles"]
    assert report.labelled["smiles"][0].as_py() == SMILES[5]
    assert "only an exact process has shares of labels in the mean" in str(report)


def test_an_unlike_molecule_is_called_so(models: Path) -> None:
    assert not explain(models / "tanimoto", SMILES[3]).unlike
    report = explain(models / "tanimoto", "[Xe]")
    assert report.unlike
    assert "this molecule is unlike all labelled ones: std is" in str(report)


def test_the_drawing_is_written_and_nothing_else_replaced(models: Path, tmp_path: Path) -> None:
    for overwrite in (False, True):
        report = explain(models / "exact", SMILES[3], tmp_path / "why.svg", overwrite=overwrite)
        assert report.drawing in (tmp_path / "why.svg").read_text()
    assert str(tmp_path / "why.svg") in str(report)
    assert verify(tmp_path / "why.svg").sound
    assert "model: exact, hash " in str(status(tmp_path / "why.svg"))
    with pytest.raises(StoreError, match="replace it by --overwrite"):
        explain(models / "exact", SMILES[4], tmp_path / "why.svg")
    (tmp_path / "mine.svg").write_text("precious")
    with pytest.raises(InputError, match="was not written by daskrf, and is never replaced"):
        explain(models / "exact", SMILES[3], tmp_path / "mine.svg")
    picture = explain(models / "exact", SMILES[3], tmp_path / "why.png")
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")
    assert verify(tmp_path / "why.png").sound
    assert picture.output == tmp_path / "why.png"
    with pytest.raises(OptionError, match=r"in \.svg or \.png, for example .*why\.svg"):
        explain(models / "exact", SMILES[3], tmp_path / "why.pdf")
    with pytest.raises(InputError, match="is not a molecule"):
        explain(models / "exact", "CC)")
    assert report._repr_html_().count("<svg") == 1


def test_many_are_explained_as_each_is_alone(models: Path, tmp_path: Path) -> None:
    texts = [SMILES[70], "CC)", SMILES[3], "[Xe]", ""]
    (tmp_path / "some.csv").write_text("smiles,id\n" + "".join(f"{s},m{i}\n" for i, s in enumerate(texts)))
    for name in ("exact", "features"):
        report = explain(models / name, tmp_path / "some.csv", tmp_path / f"{name}.parquet")
        assert report.molecules["id"].to_pylist() == ["m0", "m2", "m3"]
        assert len(report.rejects) == 2
        assert report.rejects[0].startswith("line 6: ")
        assert report.rejects[1].startswith("m1: 'CC)' is not a molecule: RDKit")
        assert "2 molecules left out, such as line 6" in str(report)
        assert pq.read_table(tmp_path / f"{name}.parquet").equals(report.table)
        for row in report.molecules.to_pylist():
            alone = explain(models / name, row["smiles"])
            of_atoms = [each for each in report.table.to_pylist() if each["id"] == row["id"]]
            found = [row["mean"], row["std"], *(each["contribution"] for each in of_atoms)]
            np.testing.assert_allclose(found, [alone.mean, alone.std, *alone.atoms], rtol=1e-5, atol=1e-9)
            assert (row["lowest"], row["highest"]) == (min(found[2:]), max(found[2:]))
            nearest = max(alone.labelled.to_pylist(), key=lambda each: each["similarity"])
            assert row["similarity"] == pytest.approx(nearest["similarity"])
    assert "".join(each["symbol"] for each in of_atoms) == "Xe"
    frame = pd.DataFrame({"smiles": [SMILES[70], None], "n": [1, 2]})
    assert explain(models / "exact", frame).rejects == ("row 1: no SMILES",)
    with pytest.raises(InputError, match=r"'absent\.csv' does not exist and is not a SMILES"):
        explain(models / "exact", "absent.csv")
    with pytest.raises(InputError, match=r"None of the molecules given can be explained, such as row-0"):
        explain(models / "exact", ["CC)"])


def test_the_page_of_many_draws_each(models: Path, tmp_path: Path) -> None:
    page = tmp_path / "why.html"
    report = explain(models / "exact", [SMILES[70], "C1CC", SMILES[3]], page)
    text = page.read_text()
    assert text.count("<svg") == 2
    assert "1 molecule left out, such as row-1: &#x27;C1CC&#x27; is not a molecule" in text
    assert f"score = {report.molecules['mean'][1].as_py():.4g} ±" in text
    assert verify(page).sound
    with pytest.raises(StoreError, match="replace it by --overwrite"):
        explain(models / "exact", [SMILES[70]], page)
    for ending in (".svg", ".smi"):
        with pytest.raises(
            OptionError, match=r"page or a table of atoms; end .* in \.html, .* example .*why\.html"
        ):
            explain(models / "exact", [SMILES[70]], tmp_path / f"why{ending}")
