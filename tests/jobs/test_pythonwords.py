"""In Python errors name data as what they are, and arguments beside options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import daskrf
from daskrf.cli.app import run
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
from daskrf.errors import DaskrfError
from tests.jobs.job import FEATURES

N = 60


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    smiles = ReactionLibrary().smiles(0, N)
    return pd.DataFrame({"smiles": smiles, "y": score(smiles)})


@pytest.fixture(scope="module")
def model(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m"
    daskrf.fit(table, output=path, feature_map=FEATURES, direction="maximize")
    return path


Call = Callable[[Path, pd.DataFrame, Path], Any]
CASES: dict[str, tuple[Call, str]] = {
    "a label that is no number": (
        lambda m, t, out: daskrf.evaluate(t.assign(y=["abc", *t.y[1:].astype(str)])),
        "The table given, row 1: 'y' holds 'abc', which is not a number; correct it, or leave out values "
        "that are not numbers with --drop-non-numbers; in Python drop_non_numbers=True",
    ),
    "labels of another column": (
        lambda m, t, out: daskrf.add(m, t.rename(columns={"y": "z"})),
        "The table given has no column 'y', the target of the model {m}, but smiles, z; if one of them is "
        "the same quantity, name it with --target (target=...).",
    ),
    "no molecules": (
        lambda m, t, out: daskrf.screen(m, t.iloc[:0][["smiles"]], out, k=3),
        "The table given holds no rows; check that the right files are given.",
    ),
    "no such column": (
        lambda m, t, out: daskrf.fit(t, output=out, target="q"),
        "The table given has no column 'q'; its columns are smiles, y.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_data_are_named_as_what_they_are(case: str, model: Path, table: pd.DataFrame, tmp_path: Path) -> None:
    call, sentence = CASES[case]
    with pytest.raises(DaskrfError) as caught:
        call(model, table, tmp_path / "hits.csv")
    assert str(caught.value) == sentence.format(m=model)
    assert list(tmp_path.iterdir()) == []


def test_hits_of_another_search(
    model: Path, table: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python is told its argument; the command line, which calls the same function, its option alone."""
    hits, smiles = tmp_path / "hits.csv", tmp_path / "library.smi"
    smiles.write_text("\n".join(table.smiles) + "\n")
    daskrf.screen(model, smiles, hits, k=3)
    with pytest.raises(DaskrfError, match=r"overwrite=True\); in Python k=\.\.\.$"):
        daskrf.screen(model, smiles, hits, k=4)
    assert run(["screen", str(model), str(smiles), "-o", str(hits), "-k", "4"]) == 1
    message = capsys.readouterr().err
    assert "-k (was 3, now 4)" in message
    assert "in Python" not in message
