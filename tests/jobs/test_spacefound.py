"""What has been found of a space: as by a list of its products, and honest where the model is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem

import daskrf
from daskrf import FingerprintSpec, Gaussian, RandomFourierFeatures, fingerprint, fit, found
from daskrf.cli.app import run
from daskrf.errors import InputError, OptionError
from daskrf.gp import ExactGP
from daskrf.kernels import TanimotoMinMax
from daskrf.screens import found as finding
from daskrf.screens.space import cutspaces, productranking
from daskrf.screens.space import found as spacefound
from daskrf.screens.space import surrogate as spaceranking
from daskrf.spaces import cut, read_space
from tests.naive.spaces import every_product
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, SPACES, write_space

K = 40
PRIOR: dict[str, Any] = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.1}
REACTIONS = {
    **{name: SPACES[name] for name in ("amide", "boc", "imide")},
    "amide2": (AMIDE, [AMINES[3:], [*ACIDS[:4], "OC(=O)CCN"]]),
}


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], Any]:
    """A folder with a space, all of its molecules, and their fingerprints."""
    out = tmp_path_factory.mktemp("found")
    write_space(out / "space", REACTIONS)
    read = cut(read_space(out / "space"), FingerprintSpec("morgan"))
    smiles = sorted({one.smiles for one in every_product(read, lambda smiles: np.zeros(len(smiles)))})
    pd.DataFrame({"smiles": smiles}).to_csv(out / "all.csv", index=False)
    fingerprint(out / "all.csv", out / "fp")
    return out, smiles, daskrf.open_library(out / "fp").fingerprints.compute()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw, learn from and look at few products, so that a small space is treated as a large one is."""
    monkeypatch.setattr(cutspaces, "COMPARED", 2)
    monkeypatch.setattr(productranking, "SAMPLE", 300)
    monkeypatch.setattr(productranking, "LISTED", 0)
    monkeypatch.setattr(productranking, "LEAST_SHORTLIST", 100)
    monkeypatch.setattr(productranking, "_ROUGHLY", 1)
    monkeypatch.setattr(productranking, "DEEPEST", 4)
    monkeypatch.setattr(spacefound, "BELOW", 60)
    monkeypatch.setattr(spacefound, "_ANYWHERE", 400)
    monkeypatch.setattr(spaceranking, "_TRIALS", 3)


def labelled(folder: Path, smiles: list[str], X: Any, seed: int) -> tuple[pd.DataFrame, float]:
    """Return labels drawn from a prior, of random molecules and of the best means, and what was found."""
    prior = ExactGP(TanimotoMinMax(), **PRIOR)
    y = prior.sample_y(X, 1, seed)[:, 0]
    y += np.sqrt(PRIOR["noise_variance"]) * np.random.default_rng([seed, 1]).standard_normal(len(y))
    chosen = np.random.default_rng(seed).choice(len(y), 60, replace=False)
    means = prior.fit(X[chosen], y[chosen]).predict(X)
    means[chosen] = -np.inf
    chosen = np.concatenate([chosen, np.argsort(-means)[:60]])
    frame = pd.DataFrame({"smiles": [smiles[i] for i in chosen], "y": y[chosen]})
    return frame, float(np.isin(np.argsort(-y)[:K], chosen).mean())


def test_estimates_are_honest_and_those_of_a_list(space: tuple[Path, list[str], Any], tmp_path: Path) -> None:
    folder, smiles, X = space
    inside, differences, z = 0, [], []
    for seed in range(6):
        labels, truth = labelled(folder, smiles, X, seed)
        model = tmp_path / f"{seed}.model"
        fit(labels, output=model, target="y", direction="maximize", quick=True, **PRIOR)
        report, listed = found(model, folder / "space", k=K), found(model, folder / "fp", k=K)
        assert "random ones stand for all others, counted as normally" in str(report)
        inside += report.low <= truth <= report.high
        differences.append(report.share - listed.share)
        z.append((truth - report.share) / np.std(report.draws))
    assert inside >= 5
    assert np.abs(differences).max() < 0.1
    assert abs(np.mean(differences)) < 0.05
    assert np.sqrt(np.mean(np.square(z))) < 1.7


def test_a_model_that_ranks_all_products_itself(space: tuple[Path, list[str], Any], tmp_path: Path) -> None:
    folder, smiles, X = space
    labels, _ = labelled(folder, smiles, X, 1)
    labels.to_csv(tmp_path / "y.csv", index=False)
    fingerprint(folder / "all.csv", tmp_path / "fp", spec=FingerprintSpec("morgan:1"))
    feature_map = RandomFourierFeatures(Gaussian(5.0), n_components=256)
    options: dict[str, Any] = {"direction": "maximize", "key": "smiles", "target": "y"}
    fit(tmp_path / "fp", tmp_path / "y.csv", tmp_path / "model", feature_map=feature_map, **options, **PRIOR)
    report, listed = (found(tmp_path / "model", path, k=K) for path in (folder / "space", tmp_path / "fp"))
    assert "molecules without labels by means were sampled; " in str(report)
    assert abs(report.share - listed.share) < 0.12


def test_all_products_are_drawn_where_they_are_few(
    space: tuple[Path, list[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the estimate differs from that of a list by the noise alone."""
    folder, smiles, X = space
    monkeypatch.setattr(productranking, "LEAST_SHORTLIST", 100_000)
    labels, _ = labelled(folder, smiles, X, 2)
    fit(labels, output=tmp_path / "model", target="y", direction="maximize", quick=True, **PRIOR)
    report, listed = (found(tmp_path / "model", folder / path, k=K) for path in ("space", "fp"))
    assert f"the best {len(smiles) - len(labels):,} molecules without labels by" in str(report)
    assert ", which are all there are" in str(report)
    assert abs(report.share - listed.share) < 0.05


def test_limits(space: tuple[Path, list[str], Any], tmp_path: Path, capsys: Any) -> None:
    """Labels and products outside of them do not count."""
    folder, smiles, X = space
    labels, _ = labelled(folder, smiles, X, 3)
    foreign = pd.DataFrame({"smiles": ["CNC(=O)" + 57 * "C"], "y": [0.0]})
    labels = pd.concat([labels, foreign], ignore_index=True)
    fit(labels, output=tmp_path / "model", target="y", direction="maximize", quick=True, **PRIOR)
    sizes = [Chem.MolFromSmiles(text).GetNumHeavyAtoms() for text in smiles]
    some = [text for text, size in zip(smiles, sizes, strict=True) if 9 <= size <= 12]
    own = labels[labels.smiles.isin(some)]
    report = found(tmp_path / "model", folder / "space", k=K, within={"heavy_atoms": (9, 12)})
    assert report.n_labelled == len(own)
    assert f"{len(own)} of 121 labels lie within the limits, and count" in report.notes
    assert not any("are limits" in note for note in report.notes)
    with pytest.raises(InputError, match="No labelled molecule lies within the limits"):
        found(tmp_path / "model", folder / "space", k=K, within={"heavy_atoms": (90, None)})
    with pytest.raises(InputError, match=r"All products of .*space that pass have labels"):
        found(tmp_path / "model", folder / "space", similar_to=labels.smiles[0], least_similarity=1.0)
    for more in ({}, {"smarts": "C(=O)N"}):
        with pytest.raises(InputError, match=r"within the limits.*widen"):
            found(tmp_path / "model", folder / "space", k=K, within={"heavy_atoms": (60, 62)}, **more)
    with pytest.raises(OptionError, match="are for the products of a space"):
        found(tmp_path / "model", folder / "fp", k=K, within={"heavy_atoms": (9, 12)})
    code = run(
        ["found", str(tmp_path / "model"), str(folder / "space"), "-k", str(K), "--within", "rings=1:"]
    )
    assert code == 0
    assert "an estimated" in capsys.readouterr().out
    assert any(re.match(r"an estimated [\d,]+ of [\d,]+ products lie within", n) for n in report.notes)


def test_filters(space: tuple[Path, list[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels and products that do not pass do not count, whether synthons decide it or not."""
    folder, smiles, X = space
    labels, _ = labelled(folder, smiles, X, 2)
    fit(labels, output=tmp_path / "model", target="y", direction="maximize", quick=True, **PRIOR)
    alike: dict[str, Any] = {"similar_to": smiles[len(smiles) // 2], "least_similarity": 0.2}
    every, some = (found(tmp_path / "model", folder / name, k=20, **alike) for name in ("fp", "space"))
    assert some.n_labelled == every.n_labelled < len(labels)
    assert some.rows < every.rows == len(smiles)  # of a space, only those that pass count
    assert f" of {some.rows} products, " in str(some)
    assert f" of {every.rows} molecules, " in str(every)
    assert some.low <= every.share <= some.high
    filters: dict[str, Any] = {"where": "logp < 1", "without_smarts": "C1CC1", "alerts": "nih", "k": 20}
    listed = found(tmp_path / "model", folder / "fp", **filters)
    some = found(tmp_path / "model", folder / "space", **filters)
    assert some.n_labelled == listed.n_labelled < len(labels)
    assert some.low <= listed.share <= some.high
    monkeypatch.setattr(productranking, "LEAST_SHORTLIST", 100_000)
    report = found(tmp_path / "model", folder / "space", **filters)
    assert report.n_labelled == listed.n_labelled
    assert abs(report.share - listed.share) < 0.05
    assert "products do not contain C1CC1 and have no alerts of nih" in str(report)
    assert re.search(r"those that pass the filters, of the best [\d,]+ molecules without labels", str(report))


def test_an_interrupted_estimate_goes_on(
    space: tuple[Path, list[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, smiles, X = space
    labels, _ = labelled(folder, smiles, X, 4)
    fit(labels, output=tmp_path / "model", target="y", direction="maximize", quick=True, **PRIOR)
    whole = found(tmp_path / "model", folder / "space", k=K)

    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(finding, "labelled_share", interrupted)
        with pytest.raises(KeyboardInterrupt):
            found(tmp_path / "model", folder / "space", k=K)
    with monkeypatch.context() as patch:
        patch.setattr("daskrf.screens.space.search.SpaceSearch.add", interrupted)  # what was searched stays
        patch.setattr("daskrf.screens.space.cutspaces.cut", interrupted)
        again = found(tmp_path / "model", folder / "space", k=K)
    assert again.draws == whole.draws
