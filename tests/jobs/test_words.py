"""SMILES as words and on standard input: read as files are, and printed where there is no output."""

from __future__ import annotations

import csv
import io
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem

import daskrf
from daskrf import fit, load, predict
from daskrf.commands.predict import MOST_PRINTED
from daskrf.errors import InputError, OptionError
from daskrf.jobs.shards import run_shard
from daskrf.sources.given import as_files


@pytest.fixture(scope="module")
def model(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of labels that bring their own SMILES."""
    out = tmp_path_factory.mktemp("given")
    lines = inputs[0].read_text().splitlines()
    smiles = {name: text for text, _, name in (line.partition(" ") for line in lines)}
    labels = [line.split(",") for line in inputs[1].read_text().splitlines()[1:]]
    rows = [f"{name},{smiles[name]},{y}\n" for name, y in labels if name in smiles]
    (out / "labels.csv").write_text("id,smiles,score\n" + "".join(rows[:60]))
    fit(out / "labels.csv", output=out / "model")
    return out / "model"


def give(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))


def test_words_are_predicted_as_the_model_predicts_them(model: Path) -> None:
    report = predict(model, ["CCO", "c1ccccc1"])
    mean, std = load(model).predict(["CCO", "c1ccccc1"], return_std=True)
    assert report.table["smiles"].to_pylist() == ["CCO", "c1ccccc1"]
    np.testing.assert_allclose(report.table["mean"].to_numpy(), mean, rtol=1e-9)
    np.testing.assert_allclose(report.table["std_y"].to_numpy(), std, rtol=1e-9)
    lines = str(report).splitlines()
    assert lines[0].split() == ["smiles", "mean", "std", "std_y"]
    assert lines[1].split() == [
        "CCO",
        *(f"{report.table[name][0].as_py():.4f}" for name in ("mean", "std", "std_y")),
    ]
    assert lines[-1] == "of 'score'; std is of the function, and std_y of a new measurement"
    alone = predict(model, "CCO").table
    np.testing.assert_allclose(alone["mean"].to_numpy(), report.table["mean"].to_numpy()[:1], rtol=1e-9)


def test_standard_input_may_be_a_table(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, b"smiles,name\nCCO,eth\nC(C)(C)(C)(C)C,bad\nCCN,am\nCCC,pr\n")
    report = predict(model, "-")
    assert report.table["id"].to_pylist() == ["eth", "am", "pr"]
    assert report.left_out["line"].to_pylist() == [3]
    text = str(report)
    assert text.split()[:4] == ["id", "smiles", "mean", "std"]
    assert "left out: line 3, 'C(C)(C)(C)(C)C': RDKit cannot parse" in text


def test_words_and_files_go_together(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_text("CCN am\n")
    found = predict(model, [tmp_path / "a.smi", "CCO"]).table
    assert found["smiles"].to_pylist() == ["CCN", "CCO"]


@pytest.mark.parametrize("word", ["nofile.smi", "", " ", "CC)", "folder/CCO", "molecules-*.csv"])
def test_a_word_that_is_nothing_is_refused_in_one_sentence(word: str, model: Path, tmp_path: Path) -> None:
    for output in (None, tmp_path / "p.csv"):
        with pytest.raises(InputError, match=r"exist|a path is empty"):
            predict(model, [word], output)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("word", ["aspirin", "acetic acid", "no-store"])
def test_a_name_is_neither_a_file_nor_a_structure(word: str, model: Path) -> None:
    for given in (word, [word]):
        with pytest.raises(InputError) as error:
            predict(model, given)
        assert str(error.value).startswith(
            f"'{word}' is neither a file nor a SMILES; names of molecules are not looked up, so give the"
        )


@pytest.mark.parametrize("word", ["nofile.smi", "molecules-*.csv"])
def test_a_file_that_does_not_exist_is_refused_among_structures(word: str, model: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist and is not a SMILES"):
        predict(model, ["CCO", word])


@pytest.mark.parametrize("word", ["", "CC)", "folder/CCO"])
def test_a_wrong_structure_among_others_is_left_out_and_shown(word: str, model: Path) -> None:
    report = predict(model, ["CCO", word, "CCN"])
    assert report.table["smiles"].to_pylist() == ["CCO", word, "CCN"]
    assert [math.isnan(mean) for mean in report.table["mean"].to_pylist()] == [False, True, False]
    assert report.left_out["line"].to_pylist() == [2]
    assert "left out" in str(report)


def test_a_large_input_needs_an_output(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_text("CCO\n" * (MOST_PRINTED + 1))
    with pytest.raises(InputError, match=r"1,001 molecules are too many to print \(at most 1,000\); give an"):
        predict(model, tmp_path / "a.smi")
    with pytest.raises(OptionError, match=r"A shard needs an output"):
        run_shard(predict, "0/2", model, "CCO")


def test_words_and_standard_input_can_be_written_to_a_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for again in (False, True):
        give(monkeypatch, b"CCO\nCCN\n")
        report = predict(model, ["-", "CCC"], tmp_path / "p.csv")
        assert bool(report.notes) == again  # the same command finds them there
    with (tmp_path / "p.csv").open(newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    assert [row["smiles"] for row in rows] == ["CCO", "CCN", "CCC"]
    assert report.inputs[1:] == ("the 1 SMILES given",)
    assert report.inputs[0].startswith("standard input: UTF-8 text")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["CCO", "CCN"], "the 2 SMILES given"),
        (pd.DataFrame({"smiles": ["CCO", "CCN"]}), "the table given"),
        ([Chem.MolFromSmiles("CCO"), Chem.MolFromSmiles("CCN")], "the 2 molecules given"),
    ],
)
def test_what_was_given_is_named_in_words(given: Any, words: str, model: Path, tmp_path: Path) -> None:
    """Reports do not name the file that daskrf wrote it to, which the user has never seen."""
    hits = tmp_path / "hits.csv"
    report = daskrf.screen(model, given, hits, k=1, maximize=True)
    assert report.inputs[0].split(":")[0] == words
    assert report.table["source"].to_pylist() == [words]
    batch = daskrf.suggest(model, ["CCC", "CCCC"], tmp_path / "b.csv", n=1, exclude=given, maximize=True)
    assert f"{words} to leave out by tautomer" in str(batch)
    assert ".given" not in str(report) + str(batch) + hits.read_text() + (tmp_path / "b.csv").read_text()


def test_files_and_patterns_stay_as_they_are(tmp_path: Path) -> None:
    for name in ("a.smi", "C"):
        (tmp_path / name).write_text("CCO\n")
    given = [str(tmp_path / "*.smi"), tmp_path / "absent", "s3://bucket/a.smi", str(tmp_path / "C")]
    assert as_files(given, tmp_path / "own") == given
    assert not (tmp_path / "own").exists()
