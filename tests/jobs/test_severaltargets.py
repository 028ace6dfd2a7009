"""Weighted sums of targets, and several targets improved at once, choose as the predictions say."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen

import daskrf
from daskrf import fit, found, screen, suggest
from daskrf.acquisition.improvement import ExpectedImprovement, ProbabilityOfImprovement
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, OptionError
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import SummedProcess, WeightedSum
from daskrf.models.models import feature_map_of, read_model
from daskrf.models.targets import formula_of, parsed_formula, ranked_target
from daskrf.molecules import Fingerprinter
from daskrf.screens import choosers
from tests.jobs.job import FEATURES
from tests.naive import hypervolume as naive_volume
from tests.naive import suggest as naive

FORMULA = "size - 4 logP"
N_LABELS = 100
FARTHEST = "adds nothing in any draw, but reaches farthest of the rest"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sums") / "library.csv"
    smiles = list(dict.fromkeys(map(Chem.CanonSmiles, ReactionLibrary().smiles(0, 400))))
    frame = pd.DataFrame({"smiles": smiles, "id": [f"m{i}" for i in range(len(smiles))]})
    frame.to_csv(path, index=False)
    return path


def labels(library: Path) -> pd.DataFrame:
    """Size of all labelled molecules, and logP of all but the last 30."""
    some = pd.read_csv(library)[: 2 * N_LABELS : 2]
    sizes = [float(len(text)) for text in some.smiles]
    logp = [Crippen.MolLogP(Chem.MolFromSmiles(text)) for text in some.smiles]
    return some.assign(size=sizes, logP=[*logp[:-30], *[np.nan] * 30])


@pytest.fixture(scope="module")
def models(library: Path) -> Path:
    both: dict[str, Any] = {"target": ["size", "logP"], "drop_non_numbers": True}
    both["direction"] = {"size": "maximize", "logP": "minimize"}
    out = library.parent
    fit(labels(library), output=out / "exact", quick=True, together=False, **both)
    fit(labels(library), output=out / "features", feature_map=FEATURES, **both)
    return out


def combined(models: Path, model: str, smiles: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of the sum at each molecule, from the predictions of its targets."""
    mean, std = daskrf.load(models / model).predict(smiles, return_std=True, of="f")
    return mean[:, 0] - 4 * mean[:, 1], np.sqrt(std[:, 0] ** 2 + 16 * std[:, 1] ** 2)


@pytest.mark.parametrize("rule", ["greedy", "ucb", "ei", "pi"])
@pytest.mark.parametrize("model", ["exact", "features"])
def test_the_batch_is_the_best_by_the_sum(
    rule: str, model: str, models: Path, library: Path, tmp_path: Path
) -> None:
    table = pd.read_csv(library)
    report = suggest(
        *(models / model, library, tmp_path / "batch.csv"),
        n=15,
        target=FORMULA,
        acquisition=rule,
        **({"kappa": 0.5} if rule == "ucb" else {}),
    )
    batch = pd.read_csv(tmp_path / "batch.csv")
    mean, std = combined(models, model, list(table.smiles))
    np.testing.assert_allclose(batch["mean"], mean[batch.row], rtol=1e-5)
    np.testing.assert_allclose(batch["std"], std[batch.row], rtol=1e-4)
    np.testing.assert_allclose(batch["mean"], batch.mean_size - 4 * batch.mean_logP, rtol=1e-6)
    np.testing.assert_allclose(batch["std"], np.hypot(batch.std_size, 4 * batch.std_logP), rtol=1e-6)
    known = labels(library).dropna()
    best = float((known["size"] - 4 * known.logP).max())
    scores = {
        "greedy": mean,
        "ucb": mean + 0.5 * std,
        "ei": ExpectedImprovement(best=best, maximize=True)(mean, std),
        "pi": ProbabilityOfImprovement(best=best, maximize=True)(mean, std),
    }
    means = np.argsort(-mean)[: 10 * 15 + N_LABELS]  # candidates of rules that need deviations
    score = np.full(len(mean), -np.inf)
    score[means] = scores[rule][means]
    picks = naive.batch(list(table.smiles), score.tolist(), 15, excluded=list(known.smiles))
    assert batch.row.tolist() == picks
    text = str(report)
    assert f"maximizing '{FORMULA}'" in text
    assert "is in the units of the labels, with standard deviations of" in text
    assert "70 molecules have labels of all its targets and count as labelled; 30 with labels" in text


def test_a_screen_ranks_by_the_sum_and_by_its_draws(models: Path, library: Path, tmp_path: Path) -> None:
    smiles = pd.read_csv(library).smiles.tolist()
    mean, _ = combined(models, "exact", smiles)
    hits = screen(models / "exact", library, tmp_path / "hits.parquet", k=20, target=FORMULA).table
    assert hits["row"].to_pylist() == np.argsort(-mean, kind="stable")[:20].tolist()
    again = screen(
        *(models / "exact", library, tmp_path / "hits.parquet"), k=20, target={"size": 1.0, "logP": -4}
    )
    assert "already holds exactly these hits" in str(again)
    drawn = screen(
        *(models / "exact", library, tmp_path / "drawn.parquet"),
        k=20,
        target=FORMULA,
        acquisition="thompson",
        seed=3,
    ).table
    model = read_model(models / "exact")
    process, own = process_of(model.gp, ranked_target(model, FORMULA))
    function = process.drawn(process.weights_of_draw(3, own), 3, own)
    values = function.predict(Fingerprinter()(smiles).fingerprints)
    order = np.argsort(-values, kind="stable")[:20]
    np.testing.assert_allclose(drawn["acquisition"].to_numpy(), values[order], rtol=1e-4)


def test_draws_and_believers_choose_batches(models: Path, library: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"n": 10, "target": FORMULA}
    thompson = suggest(models / "exact", library, tmp_path / "a.csv", acquisition="thompson", **options)
    assert "the best molecules of 10 posterior samples, one each" in str(thompson)
    believer = suggest(models / "features", library, tmp_path / "b.csv", batch="believer", **options)
    table = believer.table.to_pandas()
    smiles = pd.read_csv(library).smiles.tolist()
    mean, std = combined(models, "features", smiles)
    known = {Chem.CanonSmiles(text) for text in labels(library).dropna().smiles}
    free = [i for i, text in enumerate(smiles) if text not in known]
    first = max(free, key=lambda i: mean[i] + std[i])
    assert table.row[0] == first
    assert table.acquisition[0] == pytest.approx(mean[first] + std[first], rel=1e-5)
    assert table.acquisition.is_monotonic_decreasing
    page = suggest(models / "exact", library, tmp_path / "batch.html", n=3, target=FORMULA)
    html = (tmp_path / "batch.html").read_text()
    above = html[: html.index('id="table"')]
    assert FORMULA in above
    assert f"Chosen from {page.rows:,} molecules of {library.name} by ucb" in above
    assert {"mean_size", "std_logP"} <= set(page.table.column_names)


def test_another_target_is_required(models: Path, library: Path, tmp_path: Path) -> None:
    """Also one that is part of the sum."""
    report = suggest(models / "exact", library, tmp_path / "a.csv", n=5, target=FORMULA, require="logP > 1")
    assert "probability of logP > 1" in str(report)


def test_labels_of_a_molecule_may_stand_in_several_rows(library: Path, models: Path, tmp_path: Path) -> None:
    """Its targets are measured one after the other, and its SMILES written differently."""
    known = labels(library)
    late = known[-30:].copy()
    late["logP"] = [Crippen.MolLogP(Chem.MolFromSmiles(text)) for text in late.smiles]
    late["smiles"] = [Chem.MolToSmiles(Chem.MolFromSmiles(t), rootedAtAtom=2) for t in late.smiles]
    late.loc[late.index[1:], "size"] = np.nan
    late = late[["smiles", "size", "logP"]]
    daskrf.add(
        *(models / "exact", late),
        output=tmp_path / "model",
        drop_non_numbers=True,
    )
    report = suggest(tmp_path / "model", library, tmp_path / "a.csv", n=15, target=FORMULA)
    assert "count as labelled" not in str(report)  # all do
    rest = set(pd.read_csv(tmp_path / "a.csv").smiles)
    assert not rest & set(known.smiles)


def test_found_counts_the_best_by_the_sum(models: Path, library: Path) -> None:
    report = found(models / "exact", library, k=20, n_draws=8, target=FORMULA)
    assert report.target == FORMULA
    assert report.n_labelled == N_LABELS - 30
    assert 0 <= report.low <= report.share <= report.high <= 1


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({}, r"several targets, 'size', 'logP'; choose one by .*sum, such as --target 'size - 0.5 logP'"),
    "unknown": ({"target": "size - hERG"}, "The model has no target 'hERG'; it has 'size', 'logP'"),
    "unknown weighted": ({"target": "2 hERG + size"}, "no target 'hERG'"),
    "unknown alone": ({"target": "hERG"}, "no target 'hERG'"),
    "unknown name": ({"target": {"size": 1, "hERG": 1}}, "no target 'hERG'"),
    "twice": ({"target": "size + logP + 2 size"}, r"'size' occurs 2 times in 'size \+ logP \+ 2 size'"),
    "zero": ({"target": "size + 0 logP"}, "weight of 'logP' must be finite and not 0, but is 0"),
    "infinite": ({"target": "size + inf logP"}, "weight of 'logP' must be finite and not 0, but is inf"),
    "overflow": ({"target": "size + 1e999 logP"}, "must be finite and not 0, but is inf"),
    "nan": ({"target": {"size": 1.0, "logP": float("nan")}}, "must be finite and not 0, but is nan"),
    "text": ({"target": {"size": 1.0, "logP": "2"}}, "weight of 'logP' must be a number, not '2'"),
    "one": ({"target": "2 size"}, "'2 size' has one target only"),
    "no": ({"target": {}}, "sum of no targets"),
    "sign": ({"target": "size logP"}, "cannot be read from 'logP' on"),
    "quotient": ({"target": "size - logP / 2"}, "cannot be read from '/ 2' on"),
    "end": ({"target": "size - "}, "no target ''"),
    "fraction": ({"target": 1.5}, "no target 1.5; it has 'size', 'logP'"),
    "past the last": ({"target": np.int64(2)}, "no target np.int64"),
    "truth value": ({"target": True}, "no target True"),
    "bytes": ({"target": b"size"}, "no target b'size'"),
    "a set has no order": ({"target": {"size", "logP"}}, "The model has no target {"),
    "directions": ({"target": "size + logP"}, "are good for 'size', but small ones for 'logP'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, models: Path, library: Path, tmp_path: Path) -> None:
    options, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        suggest(models / "exact", library, tmp_path / "batch.csv", n=3, **options)
    with pytest.raises(InputError, match=message):
        screen(models / "exact", library, tmp_path / "hits.csv", k=3, **options)
    assert list(tmp_path.iterdir()) == []


def test_targets_may_be_numbers_and_arrays_of_numpy(models: Path, library: Path, tmp_path: Path) -> None:
    def batch(target: Any) -> Any:
        return suggest(
            models / "exact", library, tmp_path / "a.csv", n=3, target=target, overwrite=True
        ).table

    assert batch(np.int64(1)).equals(batch("logP"))
    assert batch(np.array(["size", "logP"])).equals(batch(["size", "logP"]))


def test_the_direction_may_be_given(models: Path, library: Path, tmp_path: Path) -> None:
    report = suggest(models / "exact", library, tmp_path / "a.csv", n=3, target="size + logP", maximize=True)
    assert "maximizing 'size + logP'" in str(report)
    turned = suggest(models / "exact", library, tmp_path / "b.csv", n=3, target=FORMULA, maximize=False)
    assert "the model was fitted with the direction maximize" in str(turned)
    turned = suggest(models / "exact", library, tmp_path / "c.csv", n=3, target="4 logP - size")
    assert turned.direction == "minimize"
    assert "logP hardly counts" not in str(turned)
    hardly = suggest(models / "exact", library, tmp_path / "d.csv", n=3, target="size - 1e-3 logP")
    assert "logP hardly counts in this sum; all would count alike in 'size - " in str(hardly)


def test_improvement_needs_molecules_with_all_labels(library: Path, tmp_path: Path) -> None:
    known = labels(library)
    known.loc[known.index[:60], "logP"] = np.nan
    known.loc[known.index[60:], "size"] = np.nan
    known = known.dropna(subset=["size", "logP"], how="all")
    options: dict[str, Any] = {"target": ["size", "logP"], "drop_non_numbers": True, "quick": True}
    fit(known, output=tmp_path / "model", direction={"size": "maximize", "logP": "minimize"}, **options)
    with pytest.raises(InputError, match=r"No molecule has labels of all targets of .*: give --best"):
        suggest(tmp_path / "model", library, tmp_path / "a.csv", n=3, target=FORMULA, acquisition="ei")
    report = suggest(tmp_path / "model", library, tmp_path / "a.csv", n=3, target=FORMULA)
    assert "0 molecules have labels of all its targets and count as labelled; 70 with labels" in str(report)


def front_of(points: np.ndarray) -> list[int]:
    """Return the rows that no other row dominates."""
    return [i for i, p in enumerate(points) if not any((q >= p).all() and (q > p).any() for q in points)]


def summed(models: Path, model: str) -> SummedProcess:
    gp = read_model(models / model).gp
    return SummedProcess((process_of(gp, 0), process_of(gp, 1)), (1.0, -1.0))


@pytest.mark.parametrize("model", ["exact", "features"])
def test_the_batch_adds_most_to_the_hypervolume(
    model: str, models: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found by testing every molecule in every direction, and every candidate for every pick."""
    monkeypatch.setattr(choosers, "_JOINT_DRAWS", 64)  # a quarter, since the oracle is slow
    n, smiles = 8, pd.read_csv(library).smiles.tolist()
    report = suggest(models / model, library, tmp_path / "batch.csv", n=n, target=["size", "logP"], seed=2)
    batch = pd.read_csv(tmp_path / "batch.csv")
    known = labels(library).dropna()
    values = known[["size", "logP"]].to_numpy() * [1, -1]
    best = values[front_of(values)]
    reference = best.min(axis=0) - 0.1 * np.ptp(best, axis=0)
    loaded = daskrf.load(models / model)
    means = loaded.predict(smiles) * [1, -1]
    free = [i for i, text in enumerate(smiles) if text not in set(known.smiles)]
    above = (means - reference) / (best.max(axis=0) - reference)
    angles = np.pi / 2 * (np.arange(16) + 0.5) / 16
    reach = [np.minimum(above[:, 0] / np.cos(a), above[:, 1] / np.sin(a)) for a in angles]
    k = -(-10 * n // 18) + 8
    lists = [sorted(free, key=lambda i: -score[i])[:k] for score in [*reach, *above.T]]
    candidates = sorted(set().union(*lists))
    X = Fingerprinter()([smiles[i] for i in candidates]).fingerprints
    phi = X if model == "exact" else feature_map_of(read_model(models / model)).fit(X).transform_bits(X)
    process = summed(models, model)
    drawn = process.drawn(process.weights_of_draws(64, 2), 2)
    draws = np.stack([f.predict(phi).T for f in drawn.functions], axis=-1) * [1, -1]

    def volume_of(points: np.ndarray) -> float:
        return naive_volume.of_two(np.vstack([best, points]), reference)

    picks: list[int] = []
    for _ in range(n):
        volume = [
            -1.0 if i in picks else np.mean([volume_of(own[[*picks, i]]) for own in draws])
            for i in range(len(candidates))
        ]
        picks.append(int(np.argmax(volume)))
    assert batch.row.tolist() == [candidates[i] for i in picks]
    whole = front_of(means[free])
    best_means = {free[i] for i in whole}
    assert batch.on_front.tolist() == ["yes" if row in best_means else "no" for row in batch.row]
    np.testing.assert_allclose(batch[["mean_size", "mean_logP"]], means[batch.row] * [1, -1], rtol=1e-5)
    text = str(report)
    assert "by expected hypervolume improvement, for large size and small logP" in text
    point = f"size > {reference[0]:.4g} and logP < {-reference[1]:.4g}"
    assert f"{point} (a tenth of their range below the worst of the {len(best)} best" in text
    assert f"on the predicted front: {sum(batch.on_front == 'yes')} of the batch" in text
    assert batch.acquisition.is_monotonic_decreasing
    assert set(batch.why) == {"adds most to the picks before it"}


def test_three_targets_different_molecules_and_a_reference(library: Path, tmp_path: Path) -> None:
    known = labels(library).assign(rings=lambda t: [float(text.count("1")) for text in t.smiles])
    names = ["size", "logP", "rings"]
    options: dict[str, Any] = {"drop_non_numbers": True, "feature_map": FEATURES, "direction": "maximize"}
    fit(known, output=tmp_path / "model", target=names, **options)
    report = suggest(
        *(tmp_path / "model", library, tmp_path / "batch.html"),
        n=60,
        target=names,
        reference="size > 30 and logP > 0",
        max_similarity=0.35,
        where="weight < 600",
    )
    table = report.table.to_pandas()
    assert "size > 30 and logP > 0 and rings > " in str(report)
    assert "; --reference" not in str(report)
    assert report.left_out["too similar to a pick"] > 0
    assert len(table) == 60
    for a, b in itertools.combinations(table.smiles[:15], 2):
        assert naive.similarity(a, b) <= 0.35
    assert table.why[0] == "adds most to the picks before it"
    assert "on_front" in (tmp_path / "batch.html").read_text()


def test_when_nothing_adds_to_the_picks_another_round_begins(
    models: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one draw, the picks of the first round are its front, and those of the second the next one."""
    monkeypatch.setattr(choosers, "_JOINT_DRAWS", 1)
    two: dict[str, Any] = {"n": 12, "target": ["size", "logP"]}
    table = suggest(models / "exact", library, tmp_path / "a.csv", **two).table.to_pandas()
    process = summed(models, "exact")
    drawn = process.drawn(process.weights_of_draws(1, 0), 0)
    X = Fingerprinter()(list(table.smiles)).fingerprints
    values = np.column_stack([f.predict(X) for f in drawn.functions]) * [1, -1]
    rounds = ["adds most to the picks before it", *(f"adds most in round {k}" for k in range(2, 13))]
    number = table.why.map({text: k for k, text in enumerate(rounds, start=1)})
    assert number.notna().is_monotonic_decreasing  # what no draw has above the reference comes last
    assert set(table.why[number.isna()]) <= {FARTHEST}
    assert number.dropna().is_monotonic_increasing
    assert number.max() > 1
    for k in range(1, int(number.max()) + 1):
        left = values[number >= k]
        assert set(np.flatnonzero(number[number >= k] == k)) <= set(front_of(left))
    far = suggest(models / "exact", library, tmp_path / "b.csv", reference="size > 999 and logP < -99", **two)
    assert set(far.table["why"].to_pylist()) == {FARTHEST}


def test_a_third_target_may_be_required_and_none_measured_together(library: Path, tmp_path: Path) -> None:
    known = labels(library).assign(rings=lambda t: [float(text.count("1")) for text in t.smiles])
    known.loc[known.index[:50], "size"] = np.nan
    known.loc[known.index[50:], "logP"] = np.nan
    options: dict[str, Any] = {"drop_non_numbers": True, "quick": True, "direction": "maximize"}
    fit(known, output=tmp_path / "model", target=["size", "logP", "rings"], **options)
    two = {"target": ["size", "logP"], "require": "rings < 3"}
    report = suggest(tmp_path / "model", library, tmp_path / "a.csv", n=5, **two)
    assert "the median labels, as no molecule has labels of all targets" in str(report)
    assert "probability of rings < 3: median" in str(report)
    gains = report.table["acquisition"].to_numpy()
    assert (gains > 0).all()


def test_workers_choose_the_same_front(models: Path, library: Path, client: Any, tmp_path: Path) -> None:
    two: dict[str, Any] = {"n": 6, "target": ["logP", "size"]}
    here = suggest(models / "features", library, tmp_path / "a.csv", **two)
    there = suggest(models / "features", library, tmp_path / "b.csv", client=client, **two)
    assert here.table.equals(there.table)


SEVERAL: dict[str, tuple[dict[str, Any], str]] = {
    "twice": ({"target": ["size", "size"]}, "'size' is named twice"),
    "unknown": ({"target": ["size", "hERG"]}, "no target 'hERG'; it has"),
    "none": ({"target": []}, "Two or three targets can be improved at once, not 0"),
    "one": ({"target": ["size"]}, "Two or three targets can be improved at once, not 1"),
    "sum": ({"target": ["size", "size - logP"]}, "no target 'size - logP'"),
    "rule": ({"acquisition": "ei"}, "leave out --acquisition, or weigh the targets"),
    "batch": ({"batch": "believer", "shortlist": 0.5}, "leave out --batch, --shortlist,"),
    "shortlist": ({"shortlist": 0.5}, "leave out --shortlist"),
    "reference name": ({"reference": "weight < 300"}, "'weight' is not one of the targets that are improved"),
    "reference sign": ({"reference": "logP > 3"}, r"Small values of 'logP' are good.*write 'logP < 3'"),
    "reference text": ({"reference": "logP below 3"}, "cannot be read; write a target"),
    "reference of one": ({"target": "size", "reference": "size > 3"}, "--reference is for several targets"),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_refusals_of_several(name: str, models: Path, library: Path, tmp_path: Path) -> None:
    options, message = SEVERAL[name]
    with pytest.raises(InputError, match=message):
        suggest(models / "exact", library, tmp_path / "a.csv", n=3, **{"target": ["size", "logP"], **options})
    assert list(tmp_path.iterdir()) == []


NAMES = ["pIC50", "logD", "docking score", "docking", "5HT2A", "A-1", "A", "naphthol", "x+y"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("pIC50 - logD", {"pIC50": 1, "logD": -1}),
        ("-pIC50+2*logD", {"pIC50": -1, "logD": 2}),
        (" 0.5 docking score + .25docking ", {"docking score": 0.5, "docking": 0.25}),
        ("5HT2A - 5 A", {"5HT2A": 1, "A": -5}),
        ("2 5HT2A + A-1", {"5HT2A": 2, "A-1": 1}),
        ("A - 1e-3 logD", {"A": 1, "logD": -1e-3}),
        ("naphthol \N{MINUS SIGN} 2 \N{MULTIPLICATION SIGN} x+y", {"naphthol": 1, "x+y": -2}),
    ],
)
def test_formulas(text: str, want: dict[str, float]) -> None:
    assert dict(parsed_formula(text, NAMES)) == want
    pairs = list(want.items())
    assert parsed_formula(formula_of(pairs), NAMES) == pairs


def test_a_name_that_looks_like_a_sum_is_a_name() -> None:
    model: Any = SimpleNamespace(targets=["a - b", "a", "b"])
    assert ranked_target(model, "a - b") == 0
    assert ranked_target(model, {"a": 1, "b": -0.1}) == WeightedSum((1, 2), (1.0, -0.1), "a - 0.1 b")
    with pytest.raises(OptionError, match="one target only"):
        ranked_target(model, "-a - b")


def test_a_target_called_y_has_deviations_of_its_own(library: Path, tmp_path: Path) -> None:
    """`std_y` is that of a measurement of the sum."""
    given = labels(library).dropna().rename(columns={"size": "y", "logP": "z"})
    options: dict[str, Any] = {"direction": "maximize", "quick": True, "together": False}
    fit(given, output=tmp_path / "m", target=["y", "z"], **options)
    batch = suggest(tmp_path / "m", library, tmp_path / "b.csv", n=3, target="y - z", maximize=True).table
    assert {"mean_y", "std of y", "mean_z", "std_z", "std", "std_y"} <= set(batch.column_names)
    both, own = batch["std"].to_numpy(), np.hypot(batch["std of y"].to_numpy(), batch["std_z"].to_numpy())
    np.testing.assert_allclose(both, own, rtol=1e-6)


def test_targets_whose_columns_would_have_one_name_are_refused(library: Path, tmp_path: Path) -> None:
    given = labels(library).dropna().rename(columns={"size": "x", "logP": "y_x"})
    with pytest.raises(InputError, match=r"'x' and 'y_x' .* would have the same column name; rename one"):
        fit(given, output=tmp_path / "m", target=["x", "y_x"], direction="maximize", quick=True)
