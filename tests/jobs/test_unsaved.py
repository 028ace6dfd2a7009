"""Screens and batches without an output: the same tables, and nothing is left behind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import daskrf
from daskrf import TanimotoMinMaxFeatures
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.jobs.shards import run_shard
from tests.spaces.helpers import SPACES, write_space

SMILES = list(ReactionLibrary().smiles(0, 100))
LABELS = {"smiles": SMILES[60:], "y": np.random.default_rng(0).standard_normal(40).tolist()}
LIBRARY = pd.DataFrame({"smiles": [*SMILES[:60], "no SMILES"], "id": [f"m{k}" for k in range(61)]})
GIVEN: dict[str, Any] = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.1, "direction": "minimize"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("unsaved") / "model"
    daskrf.fit(LABELS, output=made, feature_map=TanimotoMinMaxFeatures(64), **GIVEN)
    return made


@pytest.mark.parametrize("library", ["frame", "file", "space"])
@pytest.mark.parametrize(("command", "n"), [(daskrf.screen, {"k": 5}), (daskrf.suggest, {"n": 5})])
def test_the_table_is_that_of_the_file(
    command: Callable[..., Any],
    n: dict[str, int],
    library: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    LIBRARY.to_csv(tmp_path / "a.csv", index=False)
    source: Any = {"frame": LIBRARY, "file": tmp_path / "a.csv", "space": None}[library]
    options = n if library == "space" else n | {"accept_rejects": True}
    if source is None:
        source = write_space(tmp_path / "space", {"amide": SPACES["amide"]})
    saved = command(model, source, tmp_path / "saved.parquet", **options)
    empty, temporary = tmp_path / "here", tmp_path / "temporary"
    empty.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(empty)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    report = command(model, source, **options)
    pd.testing.assert_frame_equal(report.to_pandas(), saved.to_pandas())
    assert [*empty.iterdir(), *temporary.iterdir()] == []
    assert str(temporary) not in str(report) + str(report.notes)
    if library != "space":
        rejects = report.left_out if command is daskrf.screen else report.rejects
        assert rejects["text"].to_pylist() == ["no SMILES"]
        assert "rejected: 1 row" in str(report)


def test_a_shard_needs_an_output(model: Path) -> None:
    for command in (daskrf.screen, daskrf.suggest, daskrf.predict):
        with pytest.raises(InputError, match="A shard needs an output"):
            run_shard(command, "0/2", model, LIBRARY)
