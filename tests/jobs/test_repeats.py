"""Labels of poses and protomers: said, and one of each molecule taken, by fit, evaluate and add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskrf import TanimotoMinMaxFeatures, add, evaluate, fingerprint, fit
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.storage.model import load_model

SMILES = ReactionLibrary().smiles(0, 40)
FIXED: dict[str, Any] = {"feature_map": TanimotoMinMaxFeatures(64), "signal_variance": 1.0}
POSES = np.tile([0.0, 0.9, 1.8], 30)
BEST = np.round(np.random.default_rng(1).normal(-8, 0.8, 30), 2)


def table(path: Path, column: str = "vina", ids: bool = False) -> Path:
    lines = [f"{'id' if ids else 'smiles'},{column}"]
    for place, pose in enumerate(POSES):
        molecule = place // 3
        lines.append(f"{f'm{molecule}' if ids else SMILES[molecule]},{BEST[molecule] + pose:.2f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def labels_of(model: Path) -> list[float]:
    return load_model(model).arrays["labels"].ravel().tolist()


def test_poses_are_said_and_the_best_is_taken(tmp_path: Path) -> None:
    labels = table(tmp_path / "poses.csv")
    report = fit(labels, output=tmp_path / "all", **FIXED)
    assert "90 labels of 'vina' are repeats of 30 molecules, and differ within a molecule by 0.9 " in str(
        report
    )
    assert len(labels_of(tmp_path / "all")) == 90
    report = fit(labels, output=tmp_path / "best", repeats="best", **FIXED)
    assert labels_of(tmp_path / "best") == pytest.approx(BEST.tolist())  # the lowest, by convention
    assert "further labels of these molecules: 60 (the best of each counts)" in str(report)
    assert "are repeats of" not in str(report)
    unusual = {"direction": "maximize", "confirm_direction": True}
    worst = fit(labels, output=tmp_path / "worst", repeats="best", **unusual, **FIXED)
    assert worst.labels.y.ravel() == pytest.approx(BEST + 1.8)
    found = evaluate(labels, repeats="median", folds=2, **FIXED)
    assert found.table["vina"].to_pylist() == pytest.approx((BEST + 0.9).tolist())
    assert "(the median of each counts)" in str(found)


def test_it_must_be_known_which_is_the_best(tmp_path: Path) -> None:
    labels = table(tmp_path / "poses.csv", "x")
    with pytest.raises(
        InputError, match=r"whether the best of several labels of 'x' is the largest.*--direction"
    ):
        fit(labels, output=tmp_path / "model", repeats="best", **FIXED)
    report = fit(labels, output=tmp_path / "model", repeats="best", direction="minimize", **FIXED)
    assert report.labels.y.ravel() == pytest.approx(BEST)


def test_protomers_are_one_molecule_by_parent(tmp_path: Path) -> None:
    acids = [f"OC(=O)C{'C' * n}N" for n in range(12)]
    lines = ["smiles,zinc_id,vina"]
    for n, acid in enumerate(acids):
        lines += [f"{acid},ZINC7{n}.0,{-6 - n / 7:.3f}"]
        lines += [f"{acid.replace('OC', '[O-]C').replace('N', '[NH3+]')},ZINC7{n}.1,{-7 - n / 7:.3f}"]
    labels = tmp_path / "protomers.csv"
    labels.write_text("\n".join(lines) + "\n")
    report = fit(labels, output=tmp_path / "all", **FIXED)
    assert report.labels.n_molecules == 24
    assert "IDs differ from others only in a number at their end, such as ZINC70.0 and ZINC70.1" in str(
        report
    )
    report = fit(labels, output=tmp_path / "model", key="parent", repeats="best", **FIXED)
    assert report.labels.y.ravel() == pytest.approx([-7 - n / 7 for n in range(12)], abs=1e-3)
    assert "only in a number" not in str(report)
    more = tmp_path / "more.csv"
    more.write_text("smiles,vina\nNCC1CC1C(=O)O,-7.5\n[NH3+]CC1CC1C(=O)[O-],-8.25\n")
    added = add(tmp_path / "model", more)
    assert (added.n_added, added.merged, added.repeats_as) == (1, 1, "best")
    assert labels_of(tmp_path / "model")[-1] == -8.25


def test_of_a_library_by_id_and_for_what_is_added(tmp_path: Path) -> None:
    library = tmp_path / "library.csv"
    library.write_text("smiles,id\n" + "".join(f"{smiles},m{i}\n" for i, smiles in enumerate(SMILES)))
    fingerprint(library, tmp_path / "store")
    labels = table(tmp_path / "poses.csv", ids=True)
    fit(tmp_path / "store", labels, tmp_path / "model", repeats="mean", **FIXED)
    assert labels_of(tmp_path / "model") == pytest.approx((BEST + 0.9).tolist())
    new = tmp_path / "new.csv"
    new.write_text("id,vina\nm35,-7\nm36,-9\nm35,-8\nm1,-7.7\n")
    added = add(tmp_path / "model", new)
    assert labels_of(tmp_path / "model")[-3:] == pytest.approx([-7.7, -7.5, -9.0])
    said = str(added)
    assert "further labels of these molecules: 1 (the mean of each counts)" in said
    assert (
        "new labels of molecules already labelled: 1; each counts; to take one of each, fit all labels again"
        in said
    )
    again = add(tmp_path / "model", new)
    assert not again.added


def test_products_that_differ_in_a_block_are_no_protomers(tmp_path: Path) -> None:
    for names, noted in (("reaction,slot_0", True), ("reaction,block_0", False)):
        labels = tmp_path / f"{names}.csv"
        rows = [
            f"{'C' * n}NC(=O)C{'O' * k},amide-{n}-c{k},{n + k}.5,amide,{n}"
            for n in range(1, 13)
            for k in (0, 1)
        ]
        labels.write_text("\n".join([f"smiles,id,vina,{names}", *rows]) + "\n")
        report = fit(labels, output=tmp_path / names, target="vina", **FIXED)
        assert ("only in a number at their end" in str(report)) == noted
