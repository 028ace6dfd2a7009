"""A model with labels added is the model of all labels; nothing is lost on the way."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from rdkit import Chem

import daskrf
from daskrf import add, fingerprint, fit, screen, status, suggest, verify
from daskrf.commands import add as adding
from daskrf.errors import InputError, StoreError
from daskrf.features import FeatureMap
from daskrf.features.landmarks import LandmarkFeatures
from daskrf.models.models import read_model
from daskrf.storage import model as storage
from tests.jobs.job import FEATURES, data_digests


@pytest.fixture(scope="module")
def made(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, and its labels: 150 in one file and 100 in another, with SMILES."""
    out = tmp_path_factory.mktemp("add")
    fingerprint(inputs[0], out / "fp", rows_per_partition=150)
    lines = [line.split() for line in inputs[0].read_text().splitlines()]
    smiles = {words[1]: words[0] for words in lines if len(words) == 2}
    labels = pd.read_csv(inputs[1])
    labels.insert(1, "smiles", labels["id"].map(smiles))
    labels.sample(frac=1, random_state=0).to_csv(out / "all.csv", index=False)
    labels = pd.read_csv(out / "all.csv")
    labels[:150].to_csv(out / "first.csv", index=False)
    labels[150:][["smiles", "score"]].to_csv(out / "new.csv", index=False)
    return out


def fitted(made: Path, path: Path, labels: str = "first.csv", **options: Any) -> Path:
    if "feature_map" not in options:
        options = {"quick": True} | options
    fit(made / "fp", made / labels, path, key_column="id", direction="minimize", **options)
    return path


def predicted(path: Path, made: Path) -> npt.NDArray[np.float64]:
    smiles = list(pd.read_csv(made / "all.csv").smiles)
    return np.column_stack(daskrf.load(path).predict(smiles, return_std=True))


KINDS: dict[str, tuple[dict[str, Any], float]] = {
    "exact": ({}, 1e-4),
    "conjugate gradients": ({"solver": "cg", "n_draws": 8, "n_features": 256}, 0.05),
    "bits": ({"feature_map": FEATURES}, 1e-4),
    "landmarks": ({"feature_map": LandmarkFeatures(n_components=60)}, 0.3),
}


@pytest.mark.parametrize("kind", KINDS)
def test_added_labels_are_as_if_they_had_been_there(kind: str, made: Path, tmp_path: Path) -> None:
    options, tolerance = KINDS[kind]
    model = fitted(made, tmp_path / "model", **options)
    report = add(model, made / "new.csv")
    assert (report.n_added, report.n_labels, report.added) == (100, 250, True)
    whole = fitted(made, tmp_path / "whole", "all.csv", **options)
    scale = np.ptp(predicted(whole, made)[:, 0])
    difference = np.abs(predicted(model, made) - predicted(whole, made)) / scale
    # Landmarks are those that the map had learned from; draws are in another order.
    assert difference[:, 0].max() < tolerance
    found, expected = read_model(model).metadata, read_model(whole).metadata
    np.testing.assert_allclose(found["range"], expected["range"])
    assert found["labels"]["matched"] == expected["labels"]["matched"] == 250
    assert verify(model).sound


def test_the_old_model_is_judged_by_what_it_predicted(made: Path, tmp_path: Path) -> None:
    model = fitted(made, tmp_path / "model")
    new = pd.read_csv(made / "new.csv")
    mean, std = daskrf.load(model).predict(list(new.smiles), return_std=True)
    z = (new.score - mean) / std
    found = add(model, made / "new.csv").agreement[0]
    assert found is not None
    assert found.n == found.n_tested == 100
    assert found.within_95 == pytest.approx((abs(z) < 1.96).mean())
    assert found.mean_z2 == pytest.approx((z**2).mean())

    wrong = tmp_path / "wrong.csv"
    new.assign(score=new.score * 3 + 20).to_csv(wrong, index=False)
    other = fitted(made, tmp_path / "other")
    with pytest.raises(
        InputError, match="of 'score' are impossible according to the model, whose labels are from"
    ):
        add(other, wrong)
    report = add(other, wrong, accept_outliers=True)
    assert "They contradict the error bars: standard deviations were too small" in str(report)


def test_the_same_labels_are_added_once(made: Path, tmp_path: Path) -> None:
    model = fitted(made, tmp_path / "model")
    add(model, made / "new.csv")
    before = data_digests(model)
    shuffled = tmp_path / "again.csv"
    pd.read_csv(made / "new.csv").assign(note="x").to_csv(shuffled, index=False)
    again = add(model, shuffled)
    assert not again.added
    assert "holds these labels already, 250 in all; nothing was added" in str(again)
    assert data_digests(model) == before
    with pytest.raises(InputError, match=r"holds the labels of .*new\.csv already \(round 2\)"):
        add(model, made / "new.csv", output=tmp_path / "copy")


def test_another_output(made: Path, tmp_path: Path) -> None:
    model = fitted(made, tmp_path / "model")
    before = data_digests(model)
    add(model, made / "new.csv", output=tmp_path / "next")
    assert data_digests(model) == before
    assert not add(model, made / "new.csv", output=tmp_path / "next").added
    pd.read_csv(made / "new.csv")[:7].to_csv(tmp_path / "few.csv", index=False)
    with pytest.raises(StoreError, match="next holds another model"):
        add(model, tmp_path / "few.csv", output=tmp_path / "next")
    add(model, tmp_path / "few.csv", output=model)
    assert read_model(model).metadata["labels"]["matched"] == 157


def test_a_run_that_is_killed_leaves_the_old_model(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted(made, tmp_path / "model")
    before = predicted(model, made)
    for name in ("publish", "atomic_write"):
        with monkeypatch.context() as patch:

            def killed(*arguments: Any, **options: Any) -> None:
                raise KeyboardInterrupt

            patch.setattr(storage, name, killed)
            with pytest.raises(KeyboardInterrupt):
                add(model, made / "new.csv")
        np.testing.assert_array_equal(predicted(model, made), before)
    assert add(model, made / "new.csv").added


def test_history(made: Path, tmp_path: Path) -> None:
    model = fitted(made, tmp_path / "model")
    new = pd.read_csv(made / "new.csv")
    best = [pd.read_csv(made / "first.csv").score.min()]
    for i in range(2):
        part = new[50 * i : 50 * (i + 1)]
        part.to_csv(tmp_path / "part.csv", index=False)
        best.append(min(best[-1], part.score.min()))
        report = add(model, tmp_path / "part.csv")
    assert [each["total"] for each in report.rounds] == [150, 200, 250]
    assert [each["best"][0] for each in report.rounds] == pytest.approx(best)
    text = str(status(model))
    assert "round 1: 150 labels (fit), best so far" in text
    assert "round 3: 50 labels, best so far" in text
    assert "within 95 % intervals, mean z^2" in text


def test_the_loop_leaves_out_what_was_added(made: Path, tmp_path: Path) -> None:
    model = fitted(made, tmp_path / "model")
    known = pd.read_csv(made / "first.csv").smiles
    add(model, made / "new.csv")
    report = suggest(model, made / "fp", tmp_path / "batch.csv", n=60)
    names = {Chem.CanonSmiles(text) for text in [*known, *pd.read_csv(made / "new.csv").smiles]}
    assert not names & {Chem.CanonSmiles(text) for text in report.table["smiles"].to_pylist()}
    found = screen(model, made / "fp", tmp_path / "hits.parquet", k=60, exclude_labelled=True)
    assert not names & {Chem.CanonSmiles(text) for text in found.table["smiles"].to_pylist()}


def test_repeats_are_counted(made: Path, tmp_path: Path) -> None:
    model = fitted(made, tmp_path / "model")
    old = pd.read_csv(made / "first.csv")[:4]
    turned = [Chem.MolToSmiles(Chem.MolFromSmiles(text), doRandom=True) for text in old.smiles]
    old.assign(smiles=turned, score=[*old.score[:3], -6.5]).to_csv(tmp_path / "repeat.csv", index=False)
    report = add(model, tmp_path / "repeat.csv", key="smiles", target="score")
    assert (report.repeats, report.equal_repeats) == (4, 3)


@pytest.mark.parametrize("name", ["ligand", "mol", "compound"])
def test_the_column_of_smiles_is_found_by_content(name: str, made: Path, tmp_path: Path) -> None:
    """As in fit."""
    model, new = fitted(made, tmp_path / "model"), pd.read_csv(made / "new.csv")
    new[:20].rename(columns={"smiles": name}).to_csv(tmp_path / "new.csv", index=False)
    report = add(model, tmp_path / "new.csv")
    assert report.n_added == 20


@pytest.mark.parametrize("line", ['"CCO,-7', "CCO,-7,5", 'CCO,"-7'])
def test_a_line_that_cannot_be_read_is_left_out_on_request(line: str, made: Path, tmp_path: Path) -> None:
    """It alone: a quote without end takes no other line with it."""
    model, new = fitted(made, tmp_path / "model"), pd.read_csv(made / "new.csv")
    lines = new[:20].to_csv(index=False).splitlines()
    (tmp_path / "new.csv").write_text("\n".join([*lines[:3], line, *lines[3:]]) + "\n")
    with pytest.raises(InputError, match="line 4 cannot be read"):
        add(model, tmp_path / "new.csv")
    report = add(model, tmp_path / "new.csv", accept_rejects=True)
    assert (report.n_added, report.dropped) == (20, 0)
    assert "values left out: 1 in lines that cannot be read (such as 4: " in str(report)


def test_identifiers_of_the_library(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "fp", tmp_path / "fp")
    fit(tmp_path / "fp", made / "first.csv", tmp_path / "model", key_column="id", quick=True)
    labels = pd.read_csv(made / "all.csv")[150:160][["id", "score"]]
    extra = pd.DataFrame({"id": ["nobody"], "score": [0.0]})
    pd.concat([labels, extra]).to_csv(tmp_path / "ids.csv", index=False)
    report = add(tmp_path / "model", tmp_path / "ids.csv", output=tmp_path / "next")
    assert (report.n_added, report.unmatched) == (10, 1)
    assert (read_rows(tmp_path / "next") >= 0).all()
    shutil.move(tmp_path / "fp", tmp_path / "moved")
    with pytest.raises(InputError, match=r"IDs and no SMILES.*not where it was; .*--library"):
        add(tmp_path / "model", tmp_path / "ids.csv")
    with pytest.raises(StoreError, match=r"all.csv is a file, and a store is needed here; `daskrf fing"):
        add(tmp_path / "model", tmp_path / "ids.csv", library=made / "all.csv")
    assert add(tmp_path / "model", tmp_path / "ids.csv", library=tmp_path / "moved").n_added == 10


def test_ids_beside_smiles_of_other_molecules_are_said(made: Path, tmp_path: Path) -> None:
    fit(made / "fp", made / "first.csv", tmp_path / "model", key_column="id", quick=True)
    labels = pd.read_csv(made / "all.csv")[150:160][["id", "smiles", "score"]]
    labels.to_csv(tmp_path / "right.csv", index=False)
    labels["id"] = labels["id"].to_numpy()[::-1]
    labels.to_csv(tmp_path / "wrong.csv", index=False)
    said = "10 of 10 labels that are joined by ID have the SMILES of another molecule than the library has"
    report = add(tmp_path / "model", tmp_path / "wrong.csv", output=tmp_path / "next", key="id")
    assert said in str(report)
    assert "leave out --key id to take the SMILES" in str(report)
    report = add(tmp_path / "model", tmp_path / "right.csv", output=tmp_path / "other", key="id")
    assert "another molecule" not in str(report)


def read_rows(model: Path) -> npt.NDArray[np.int64]:
    return storage.load_model(model, ["labelled_rows"]).arrays["labelled_rows"]


REFUSED: dict[str, tuple[str, str]] = {
    "other target": ("smiles,IC50\nCCO,1\n", r"has no column 'score', the target of the model"),
    "nothing usable": ("smiles,score\nC1CC,-7\n", r"None of the 1 molecules .* 'C1CC' \(RDKit cannot parse"),
    "half an answer": ("smiles,score\nCCO,1\nCCC,\n", r"line 3: 'score' is empty"),
    "words": ("smiles,score\nCCO,failed\n", r"'failed'"),
    "no rows": ("smiles,score\n", "header but no rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_leave_the_model(name: str, made: Path, tmp_path: Path) -> None:
    text, message = REFUSED[name]
    shutil.copytree(shared(made), tmp_path / "model")
    before = data_digests(tmp_path / "model")
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        add(tmp_path / "model", tmp_path / "bad.csv")
    assert data_digests(tmp_path / "model") == before


def shared(made: Path) -> Path:
    if not (made / "shared").exists():
        fitted(made, made / "shared")
    return made / "shared"


def test_molecules_that_could_not_be_scored_are_left_out(made: Path, tmp_path: Path) -> None:
    shutil.copytree(shared(made), tmp_path / "model")
    new = pd.read_csv(made / "new.csv")[:10]
    new.loc[3, "score"] = None
    new.loc[12] = ["C1CC", -3.0]
    new.to_csv(tmp_path / "some.csv", index=False)
    report = add(tmp_path / "model", tmp_path / "some.csv", drop_non_numbers=True)
    assert (report.n_added, report.dropped, report.rejected) == (9, 1, 1)
    assert "the first unusable molecule is 'C1CC': RDKit cannot parse" in str(report)
    other = pd.read_csv(made / "new.csv")[20:30].rename(columns={"score": "docking"})
    other.to_csv(tmp_path / "named.csv", index=False)
    assert add(tmp_path / "model", tmp_path / "named.csv", target="docking").n_added == 10


@pytest.mark.parametrize("feature_map", [None, FEATURES])
def test_several_targets_with_gaps(feature_map: FeatureMap | None, made: Path, tmp_path: Path) -> None:
    labels = pd.read_csv(made / "all.csv")
    labels["weight"] = labels.smiles.str.len() / 10.0
    labels.loc[::3, "weight"] = None
    for name, part in (("first", labels[:150]), ("new", labels[150:]), ("all", labels)):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    options: dict[str, Any] = {"target": ["score", "weight"], "drop_non_numbers": True, "key_column": "id"}
    options |= {"quick": True} if feature_map is None else {"feature_map": feature_map}
    fit(made / "fp", tmp_path / "first.csv", tmp_path / "model", **options)
    fit(made / "fp", tmp_path / "all.csv", tmp_path / "whole", **options)
    with pytest.raises(InputError, match="is empty"):
        add(tmp_path / "model", tmp_path / "new.csv")
    report = add(tmp_path / "model", tmp_path / "new.csv", drop_non_numbers=True)
    counts = [found.n for found in report.agreement if found is not None]
    assert counts == [100, int(labels[150:].weight.notna().sum())]
    smiles = list(labels.smiles)
    a, b = (daskrf.load(tmp_path / name).predict(smiles) for name in ("model", "whole"))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-3 * np.ptp(b))
    with pytest.raises(InputError, match="give a column for each of them, or columns that are named like"):
        add(tmp_path / "model", tmp_path / "new.csv", target="smiles")


@pytest.mark.parametrize("feature_map", [None, FEATURES])
def test_labels_of_one_target_of_two(feature_map: FeatureMap | None, made: Path, tmp_path: Path) -> None:
    """A file without a column of the other one, or whose column is not named: as if it were empty."""
    labels = pd.read_csv(made / "all.csv")
    labels["weight"] = labels.smiles.str.len() / 10.0
    gaps = labels.copy()
    gaps.loc[::3, "weight"] = None
    gaps[:150].to_csv(tmp_path / "first.csv", index=False)
    gaps.loc[150:, "score"], gaps.loc[150:, "weight"] = None, labels["weight"][150:]
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    labels[150:][["smiles", "weight"]].to_csv(tmp_path / "one.csv", index=False)
    labels[150:].to_csv(tmp_path / "both.csv", index=False)
    options: dict[str, Any] = {"target": ["score", "weight"], "drop_non_numbers": True, "key_column": "id"}
    options |= {"quick": True, "together": False} if feature_map is None else {"feature_map": feature_map}
    fit(made / "fp", tmp_path / "first.csv", tmp_path / "model", **options)
    fit(made / "fp", tmp_path / "gaps.csv", tmp_path / "whole", **options)
    smiles = list(labels.smiles)
    before, whole = (daskrf.load(tmp_path / name).predict(smiles) for name in ("model", "whole"))
    for name, target in (("one", None), ("both", "weight")):
        made_here = tmp_path / f"with-{name}"
        report = add(tmp_path / "model", tmp_path / f"{name}.csv", output=made_here, target=target)
        assert "no labels of 'score', which stay as they were" in str(report)
        assert report.agreement[0] is None
        assert report.n_added == len(labels) - 150
        found = daskrf.load(made_here).predict(smiles)
        np.testing.assert_array_equal(found[:, 0], before[:, 0])
        np.testing.assert_allclose(found[:, 1], whole[:, 1], rtol=0, atol=1e-3 * np.ptp(whole[:, 1]))
        assert verify(made_here).sound
    labels[150:][["smiles"]].assign(other=1.0).to_csv(tmp_path / "none.csv", index=False)
    with pytest.raises(InputError, match="none of 'score', 'weight', the targets of the model"):
        add(tmp_path / "model", tmp_path / "none.csv")


def test_targets_that_share_sums_need_labels_of_all(made: Path, tmp_path: Path) -> None:
    labels = pd.read_csv(made / "all.csv").assign(weight=lambda frame: frame.smiles.str.len() / 10.0)
    labels[:150].to_csv(tmp_path / "first.csv", index=False)
    labels[150:][["smiles", "weight"]].to_csv(tmp_path / "one.csv", index=False)
    options: dict[str, Any] = {"target": ["score", "weight"], "key_column": "id"}
    fit(made / "fp", tmp_path / "first.csv", tmp_path / "exact", quick=True, **options)
    assert add(tmp_path / "exact", tmp_path / "one.csv").n_added == len(labels) - 150
    fit(made / "fp", tmp_path / "first.csv", tmp_path / "sums", feature_map=FEATURES, **options)
    before = data_digests(tmp_path / "sums")
    with pytest.raises(InputError, match=r"'score', 'weight' share the sums .* each molecule needs labels"):
        add(tmp_path / "sums", tmp_path / "one.csv")
    assert data_digests(tmp_path / "sums") == before


def test_the_kernel_is_chosen_again_when_labels_have_doubled(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted(made, tmp_path / "model", quick=False)
    first = read_model(model).gp.kernel_choice_  # type: ignore[union-attr]
    report = add(model, made / "new.csv", output=tmp_path / "same")
    assert not report.choices
    assert "chosen again" not in str(report)
    same = read_model(tmp_path / "same").gp
    assert same.kernel_choice_ == first  # type: ignore[union-attr]
    monkeypatch.setattr(adding, "_CHOOSE_AGAIN", 1.5)
    report = add(model, made / "new.csv")
    chosen = read_model(model).gp.kernel_choice_  # type: ignore[union-attr]
    assert chosen.n_rows == 250
    assert report.choices == (("score", chosen),)
    assert (
        "score: its labels have doubled since its kernel was chosen, so it was chosen again\n    kernels"
        in str(report)
    )


def test_the_transform_and_the_unit_of_the_fit_apply(made: Path, tmp_path: Path) -> None:
    """New labels in nM go to the model of pIC50, and so do those in uM, if their column says so."""
    labels = pd.read_csv(made / "all.csv")
    labels["IC50 (nM)"] = 10.0 ** (9 + labels.score.clip(-9, 0))
    labels["IC50 (uM)"], labels["pIC50"] = labels["IC50 (nM)"] / 1000, -labels.score.clip(-9, 0)
    labels[:150][["smiles", "IC50 (nM)"]].to_csv(tmp_path / "first.csv", index=False)
    fit(tmp_path / "first.csv", output=tmp_path / "model", transform="pIC50", quick=True)
    found = []
    for name in ("IC50 (nM)", "IC50 (uM)", "pIC50"):
        labels[150:][["smiles", name]].to_csv(tmp_path / "new.csv", index=False)
        model, options = tmp_path / name[-5:], {"target": name} if "uM" in name else {}
        add(tmp_path / "model", tmp_path / "new.csv", output=model, **options)
        y = storage.load_model(model, ["labels"]).arrays["labels"]
        np.testing.assert_allclose(y[150:, 0], labels.pIC50[150:], atol=1e-9)
        found.append(daskrf.load(model).predict(list(labels.smiles)))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-6)

    fit(tmp_path / "first.csv", output=tmp_path / "plain", quick=True)
    labels[150:][["smiles", "IC50 (uM)"]].to_csv(tmp_path / "new.csv", index=False)
    add(tmp_path / "plain", tmp_path / "new.csv", target="IC50 (uM)")
    y = storage.load_model(tmp_path / "plain", ["labels"]).arrays["labels"]
    np.testing.assert_allclose(y[150:, 0], labels["IC50 (nM)"][150:])


def test_a_data_frame(made: Path, tmp_path: Path) -> None:
    shutil.copytree(shared(made), tmp_path / "model")
    assert add(tmp_path / "model", pd.read_csv(made / "new.csv")).n_added == 100
    assert add(tmp_path / "model", made / "new.csv").added is False
