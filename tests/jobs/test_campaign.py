"""The example of a campaign goes on from wherever it was interrupted, and ends as if it never was."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import daskrf
from daskrf.storage import model as storage

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "campaign.py"
SCORER = """
import pathlib, sys
import pandas as pd
from daskrf.demo.objective import score
batch, scores = map(pathlib.Path, sys.argv[2:])
fails = pathlib.Path(sys.argv[1])
rows = pd.read_csv(batch)[["smiles"]]
rows["score"] = score(list(rows.smiles))
if fails.exists():
    fails.unlink()
    scores.write_text("smiles,score\\nhalf a file")
    sys.exit(3)
rows[:-2].to_csv(scores, index=False)  # the last two cannot be scored
"""


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("campaign", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_resumes_anywhere(
    example: Any, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    scorer, fails = tmp_path / "scorer.py", tmp_path / "fails"
    scorer.write_text(SCORER)
    daskrf.fingerprint(inputs[0], tmp_path / "fp")
    daskrf.fit(tmp_path / "fp", inputs[1], tmp_path / "model", direction="minimize", quick=True)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
        shutil.copytree(tmp_path / "model", folder / "model")

    def run(folder: Path) -> None:
        command = [sys.executable, str(scorer), str(fails)]
        example.campaign(folder / "model", tmp_path / "fp", command, folder, rounds=2, n=12)

    run(whole)
    fails.touch()
    with pytest.raises(example.subprocess.CalledProcessError):
        run(broken)
    assert not (broken / "scores-1.csv").exists()
    with monkeypatch.context() as patch:

        def killed(*arguments: Any, **options: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(storage, "atomic_write", killed)
        with pytest.raises(KeyboardInterrupt):
            run(broken)
    assert (broken / "scores-1.csv").exists()
    run(broken)
    run(broken)
    for name in ("batch-1.csv", "batch-2.csv", "scores-1.csv", "scores-2.csv"):
        assert (whole / name).read_text() == (broken / name).read_text()
    first, second = (set(pd.read_csv(whole / f"batch-{i}.csv").smiles) for i in (1, 2))
    assert not first & second  # the two without a score are not asked for again
    smiles = sorted(first | second)
    a, b = (daskrf.load(folder / "model").predict(smiles) for folder in (whole, broken))
    np.testing.assert_array_equal(a, b)
    assert len(daskrf.add(broken / "model", broken / "scores-2.csv").rounds) == 3
