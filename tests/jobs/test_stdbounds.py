"""Rules with standard deviations of all molecules: bounds leave most of them out, and never a hit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daskrf
from daskrf import TanimotoMinMaxFeatures
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.features import LandmarkFeatures
from daskrf.screens import libraryranking
from daskrf.screens.searches import Search
from daskrf.screens.shortlist import BoundSample, Pairs, Threshold

N = 1200
SMILES = list(ReactionLibrary().smiles(0, N))
Y = np.array([text.count("N") - 0.05 * len(text) for text in SMILES])
Y += 0.1 * np.random.default_rng(0).standard_normal(N)
MAPS = {"bits": TanimotoMinMaxFeatures(256), "landmarks": LandmarkFeatures(40)}


@pytest.fixture(scope="module", params=MAPS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fingerprint store, and a model of a quarter of its molecules."""
    folder = tmp_path_factory.mktemp("bounds")
    lines = [f"{text} m{i}" for i, text in enumerate(SMILES)]
    (folder / "library.smi").write_text("\n".join(lines) + "\n")
    daskrf.fingerprint(folder / "library.smi", folder / "fp", rows_per_partition=200)
    labels = [f"m{i},{y}" for i, y in enumerate(Y[: N // 4])]
    (folder / "y.csv").write_text("id,y\n" + "\n".join(labels) + "\n")
    options: dict[str, Any] = {"feature_map": MAPS[request.param], "direction": "maximize"}
    daskrf.fit(folder / "fp", folder / "y.csv", folder / "model", **options)
    return folder


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of molecules whose exact scores are computed after the threshold has been chosen."""
    numbers: list[int] = []
    scores = Search.scores

    def counting(search: Search, model: Any, block: Any) -> Any:
        if search.least > -np.inf:
            numbers.append(len(block.rows))
        return scores(search, model, block)

    monkeypatch.setattr(Search, "scores", counting)
    monkeypatch.setattr(libraryranking, "_LEAST_LIBRARY", 0)
    return numbers


def screened(made: Path, output: Path, **options: Any) -> daskrf.commands.screen.ScreenReport:
    return daskrf.screen(made / "model", made / "fp", output, std="all", **{"k": 5, **options})


@pytest.mark.parametrize(
    ("rule", "options"),
    [("ucb", {}), ("ei", {}), ("pi", {"exclude_labelled": True}), ("ucb", {"where": "weight < 480"})],
    ids=str,
)
def test_bounds_change_no_hit(
    made: Path, counted: list[int], tmp_path: Path, monkeypatch: Any, rule: str, options: dict[str, Any]
) -> None:
    some = screened(made, tmp_path / "some.csv", acquisition=rule, **options)
    assert any("upper bounds of their standard deviations" in note for note in some.notes)
    assert 0 < sum(counted) < N / 2
    monkeypatch.setattr(libraryranking, "_LEAST_LIBRARY", N + 1)
    every = screened(made, tmp_path / "every.csv", acquisition=rule, **options)
    assert some.table["row"].to_pylist() == every.table["row"].to_pylist()
    assert some.rows == every.rows
    for name in ("mean", "std", "std_y", "acquisition"):
        np.testing.assert_allclose(some.table[name], every.table[name], rtol=1e-6)


def test_a_threshold_that_is_too_high_is_noticed(
    made: Path, counted: list[int], tmp_path: Path, monkeypatch: Any
) -> None:
    best = screened(made, tmp_path / "first.csv", acquisition="ucb").table
    high = float(best["acquisition"][1].as_py())
    monkeypatch.setattr(BoundSample, "finalize", lambda *_: Threshold(high, 0.01, 1.0, 1, 100))
    counted.clear()
    again = screened(made, tmp_path / "again.csv", acquisition="ucb")
    assert sum(counted) < N / 10  # and then all, without a threshold
    assert again.table["row"].to_pylist() == best["row"].to_pylist()
    assert any("too few molecules reached the threshold" in note for note in again.notes)


def test_means_and_candidates_are_ranked_as_before(made: Path, counted: list[int], tmp_path: Path) -> None:
    for number, options in enumerate(
        [{"acquisition": "greedy"}, {"acquisition": "ucb", "std": "candidates"}]
    ):
        report = daskrf.screen(made / "model", made / "fp", tmp_path / f"{number}.csv", k=5, **options)
        assert not any("bounds" in note for note in report.notes)
    assert not counted


def test_a_threshold_leaves_enough_of_the_library() -> None:
    """In 99.9 % of samples: then fewer than 396 of 400 have a probability of 7e-5."""
    rng, n_rows, wanted, enough = np.random.default_rng(1), 20_000, 50, 0
    for _ in range(400):
        scores = rng.standard_normal(n_rows)
        sample = BoundSample(None, 1.0, wanted / n_rows, None)
        pairs = np.repeat(scores[:2000, None], 2, axis=1)
        cut = sample.finalize(Pairs(pairs), iter(()))
        enough += bool((scores >= cut.least).sum() >= wanted)
        assert cut.fraction < 0.02
    assert enough >= 396


def test_without_enough_sampled_rows_there_is_no_threshold() -> None:
    for n in (0, 1, 5):
        cut = BoundSample(None, 1.0, 0.5, None).finalize(Pairs(np.zeros((n, 2))), iter(()))
        assert cut.least == -np.inf
        assert "every molecule" in str(cut)
