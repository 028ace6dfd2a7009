"""What chemists try in their first week, one test for each: their files, words, tables, and what they share.

Most of it is tested more closely elsewhere: SD files in tests/molecules/test_sdf.py, labels as spreadsheets
save them in test_encodings.py and test_values.py, joins by structure in tests/jobs/test_structure_key.py,
labels without a library in test_alone.py, outputs by ending in test_outputs.py and test_page.py, words in
test_words.py, data in memory in test_given.py, batches in test_suggest.py, labels added in test_add.py, the
choice of a kernel in tests/gp/test_kernelchoice.py, notebooks in tests/report/test_notebook.py.
"""

from __future__ import annotations

import csv
import gzip
import io
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem

import daskrf
from daskrf.cli.app import run
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score

HERE = ["--workers", "0"]
N = 60
SMILES = list(ReactionLibrary(seed=5).smiles(0, 2 * N))
SCORES = score(SMILES)


def sdf(smiles: list[str]) -> str:
    """Return an SD file, with names and a property."""
    records = []
    for k, text in enumerate(smiles):
        molecule = Chem.MolFromSmiles(text)
        molecule.SetProp("_Name", f"VENDOR-{k}")
        records.append(f"{Chem.MolToMolBlock(molecule)}> <PRICE>\n{k}\n\n$$$$\n")
    return "".join(records)


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with scores as a spreadsheet saves them, a vendor's file, and a model of the scores alone."""
    folder = tmp_path_factory.mktemp("week")
    rows = "".join(
        f'"line\nbreak {k}";{text};{str(y).replace(".", ",")}\n'
        for k, (text, y) in enumerate(zip(SMILES[:N], SCORES[:N].tolist(), strict=True))
    )
    (folder / "scores.csv").write_text(f"comment;SMILES;score\n{rows}", encoding="utf-8-sig")
    (folder / "vendor.sdf.gz").write_bytes(gzip.compress(sdf(SMILES[N:]).encode()))
    command = ["fit", str(folder / "scores.csv"), "-o", str(folder / "model"), "--direction", "minimize"]
    assert run([*command, *HERE]) == 0
    return folder


def test_from_scores_and_a_vendors_file_to_a_page_in_three_commands(
    week: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Semicolons, decimal commas, line breaks within cells, SMILES beside labels; SDF.gz; a page."""
    assert daskrf.load(week / "model").metadata["labels"]["matched"] == N
    assert run(["evaluate", str(week / "scores.csv"), "--folds", "2", *HERE]) == 0
    assert "Is it good?" in capsys.readouterr().out
    page, table = tmp_path / "batch.html", tmp_path / "batch.csv"
    suggest = ["suggest", str(week / "model"), str(week / "vendor.sdf.gz"), "-n", "10"]
    assert run([*suggest, "-o", str(page), *HERE]) == 0
    assert "How good the model is" in page.read_text()
    assert run([*suggest, "-o", str(table), "--where", "PRICE < 30", "--max-similarity", "0.9", *HERE]) == 0
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    assert all(row["id"].startswith("VENDOR-") and float(row["PRICE"]) < 30 for row in rows)


def test_labels_of_smiles_written_differently_find_their_library(week: Path, tmp_path: Path) -> None:
    other = [Chem.MolToSmiles(Chem.MolFromSmiles(t), doRandom=True, kekuleSmiles=False) for t in SMILES[:N]]
    pd.DataFrame({"smiles": other, "y": SCORES[:N]}).to_csv(tmp_path / "y.csv", index=False)
    (tmp_path / "library.smi").write_text("\n".join(SMILES) + "\n")
    daskrf.fingerprint(tmp_path / "library.smi", tmp_path / "store")
    report = daskrf.fit(tmp_path / "store", tmp_path / "y.csv", tmp_path / "model", quick=True)
    assert (report.labels.matched, report.labels.unmatched) == (N, 0)


def test_words_and_standard_input_are_predicted_on_the_screen(
    week: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["predict", str(week / "model"), "CCO", "c1ccccc1", *HERE]) == 0
    shown = capsys.readouterr()
    assert shown.out.split()[:3] == ["smiles", "mean", "std"]
    assert "the 2 SMILES given" in shown.err
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"CCO ethanol\n")))
    assert run(["predict", str(week / "model"), "-", *HERE]) == 0
    assert "ethanol" in capsys.readouterr().out


def test_predictions_are_a_file_with_smiles_and_columns(week: Path, tmp_path: Path) -> None:
    output = tmp_path / "p.csv"
    assert run(["predict", str(week / "model"), str(week / "vendor.sdf.gz"), "-o", str(output), *HERE]) == 0
    with output.open() as file:
        rows = list(csv.DictReader(file))
    assert {"id", "smiles", "mean", "std", "PRICE"} <= rows[0].keys()
    assert len(rows) == N


def test_new_scores_are_added(week: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(week / "model", tmp_path / "model")
    new = pd.DataFrame({"smiles": SMILES[N : N + 20], "score": SCORES[N : N + 20]})
    new.to_csv(tmp_path / "new.csv", index=False)
    assert run(["add", str(tmp_path / "model"), str(tmp_path / "new.csv"), *HERE]) == 0
    assert f"20 labels added, {N + 20} in all" in capsys.readouterr().out
    assert run(["found", str(tmp_path / "model"), str(week / "vendor.sdf.gz"), "-k", "10", *HERE]) == 0
    assert "95 % interval" in capsys.readouterr().out


def test_words_in_a_column_of_labels_are_left_out_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = [*map(str, SCORES[:N]), "inactive", ">10000", "n.d."]
    pd.DataFrame({"smiles": SMILES[: N + 3], "y": cells}).to_csv(tmp_path / "y.csv", index=False)
    command = ["fit", str(tmp_path / "y.csv"), "-o", str(tmp_path / "model"), *HERE]
    assert run(command) != 0
    assert "--drop-non-numbers" in capsys.readouterr().err
    assert run([*command, "--drop-non-numbers", "--censored", "drop"]) == 0
    assert daskrf.load(tmp_path / "model").metadata["labels"]["matched"] == N


def test_a_folder_of_files_of_any_ending_and_encoding(
    week: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in" / "below").mkdir(parents=True)
    (tmp_path / "in" / "CID-SMILES.gz").write_bytes(gzip.compress(b"1\tCCO\n2\tCCN\n"))
    (tmp_path / "in" / "below" / "latin.txt").write_bytes("smiles,name\nCCCO,Müller\n".encode("latin-1"))
    assert run(["predict", str(week / "model"), str(tmp_path / "in"), *HERE]) == 0
    shown = capsys.readouterr()
    assert "Müller" in shown.out
    assert "1252" in shown.err


def test_data_in_memory_and_a_model_in_python(week: Path, tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": SMILES[:N], "score": SCORES[:N]})
    daskrf.fit(frame, output=tmp_path / "model", target="score", quick=True)
    mean, std = daskrf.load(tmp_path / "model").predict([Chem.MolFromSmiles("CCO"), "CCN"], return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_a_model_is_shared_without_its_library(week: Path, tmp_path: Path) -> None:
    shutil.copytree(week / "model", tmp_path / "elsewhere" / "model")
    theirs = daskrf.load(tmp_path / "elsewhere" / "model").predict(["CCO"])
    assert theirs.tolist() == daskrf.load(week / "model").predict(["CCO"]).tolist()


def test_one_prediction_is_explained(week: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", str(week / "model"), SMILES[N]]) == 0
    assert "label" in capsys.readouterr().out
