"""The quickstart, small: what it writes, what it says, and that it goes on where it stopped."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from daskrf.cli import session
from daskrf.cli.app import run
from daskrf.commands.quickstart import quickstart
from daskrf.demo import objective
from daskrf.errors import InputError

SMALL = {"molecules": 800, "labelled": 300, "n_components": 512}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    directory = tmp_path_factory.mktemp("quickstart") / "demo"
    return quickstart(directory, **SMALL)


def test_it_writes_library_labels_hits_and_picture(done):
    assert len((done.directory / "library.smi").read_text().splitlines()) == 801
    assert len((done.directory / "labels.csv").read_text().splitlines()) == 301
    assert (done.directory / "hits.png").read_bytes().startswith(b"\x89PNG")
    hits = pq.read_table(done.directory / "hits.parquet")
    assert hits.num_rows == 500  # every molecule without a label


def test_hits_are_the_ranking_and_their_truth_is_true(done):
    assert len(done.hits) == 10
    means = [hit["mean"] for hit in done.hits]
    assert means == sorted(means)
    truth = objective.score([hit["smiles"] for hit in done.hits])
    np.testing.assert_array_equal([hit["truth"] for hit in done.hits], truth)
    labelled = {line.split(",")[0] for line in (done.directory / "labels.csv").read_text().splitlines()}
    assert not labelled & {hit["id"] for hit in done.hits}


def test_it_learns_something(done):
    assert (done.n, done.n_labelled, done.recovery.n) == (800, 300, 500)
    assert done.calibration.r2 > 0.2
    assert 0.85 < done.calibration.coverage_95 < 0.995
    assert done.recovery.enrichment(100) > 1.5


def test_it_says_where_everything_is(done):
    shown = str(done)
    assert str(done.directory / "hits.parquet") in shown
    assert str(done.directory / "hits.png") in shown
    assert "truly best 100 of the 500" in shown
    assert all(hit["id"] in shown for hit in done.hits)


def test_again_gives_the_same(done):
    again = quickstart(done.directory, **SMALL)
    assert again.hits == done.hits
    np.testing.assert_array_equal(again.recovery.found, done.recovery.found)
    assert again.calibration == done.calibration


def test_other_parameters_are_refused(done):
    with pytest.raises(InputError, match="another directory"):
        quickstart(done.directory, **{**SMALL, "n_components": 256})


def test_a_directory_of_the_user_is_refused(tmp_path):
    (tmp_path / "labels.csv").write_text("do not touch")
    with pytest.raises(InputError, match="holds other files; name another directory"):
        quickstart(tmp_path, **SMALL)
    assert [item.read_text() for item in tmp_path.iterdir()] == ["do not touch"]


def test_too_few_molecules_are_refused(tmp_path):
    with pytest.raises(InputError, match="200 others"):
        quickstart(tmp_path / "demo", molecules=300, labelled=200)
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("sizes", [["--molecules", "300"], ["-n", "300", "--labelled", "200"]])
def test_too_few_molecules_are_refused_before_workers_start(tmp_path, capsys, monkeypatch, sizes):
    monkeypatch.setattr(session, "client_of", lambda **_: pytest.fail("workers were started"))
    assert run(["quickstart", str(tmp_path / "demo"), *sizes]) == 1
    assert "200 others" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_first_model_of_the_documentation(done, tmp_path, monkeypatch, capsys):
    """What the page says to type after quickstart, with the Tanimoto kernel at once."""
    shutil.copytree(done.directory, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).resolve().parents[1] / "docs" / "first-model.md").read_text()
    Path("measure.py").write_text(re.search(r"```py\n(# measure\.py\n.*?)```", page, flags=re.DOTALL)[1])
    lines = "".join(re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL)).splitlines()
    assert lines[:2] == ["daskrf quickstart", "cd daskrf-quickstart"]
    for line in lines[2:]:
        _, name, *arguments = shlex.split(line)
        if name in ("fit", "evaluate"):
            arguments.append("--quick")
        if name == "add":
            runpy.run_path("measure.py")
        assert run([name, *arguments, "--workers", "0"]) == 0, line
    assert "20 labels added, 320 in all" in capsys.readouterr().out
    assert Path("batch.html").stat().st_size > Path("batch.csv").stat().st_size


def test_command_line_on_a_cluster(tmp_path, capsys):
    arguments = ["quickstart", str(tmp_path / "demo"), "-n", "500", "--labelled", "200", "-M", "128"]
    assert run([*arguments, "--workers", "2"]) == 0
    captured = capsys.readouterr()
    assert "Started 2 worker processes on this machine" in captured.err
    assert "hits.parquet" in captured.out
