"""The first Ctrl-C or SIGTERM lets work in hand be committed and begins nothing new; a second one stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from daskrf.cli.app import run
from daskrf.commands.status import status
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
from daskrf.files.disk import work_folder
from daskrf.storage.model import load_model
from daskrf.storage.runlog import log_directory, read_log

GATE = Path(__file__).with_name("gate.py")
PROGRAM = f"import runpy; runpy.run_path({str(GATE)!r}); from daskrf.cli import main; main()"
N = 240


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A library of 12 partitions, its labels, and the store and model of undisturbed runs."""
    directory = tmp_path_factory.mktemp("files")
    smiles = ReactionLibrary().smiles(0, N)
    (directory / "a.smi").write_text("".join(f"{text} m{i}\n" for i, text in enumerate(smiles)))
    labels = "".join(f"m{i},{y!r}\n" for i, y in enumerate(score(smiles).tolist()))
    (directory / "a.csv").write_text(f"id,score\n{labels}")
    assert run(fingerprint_arguments(directory, directory / "fp", 0)) == 0
    return directory


def fingerprint_arguments(files, out, workers):
    options = ["--rows-per-partition", "20", "--workers", str(workers)]
    return ["fingerprint", str(files / "a.smi"), "-o", str(out), *options]


def fit_arguments(files, out, workers):
    options = ["-M", "64", "--workers", str(workers)]
    return ["fit", str(files / "fp"), str(files / "a.csv"), "-o", str(out), *options]


class Program:
    """The program at work behind the gate."""

    def __init__(self, arguments, gate, **environment):
        gate.mkdir()
        self.gate = gate
        variables = {"DASKRF_GATE": str(gate), "DASK_DISTRIBUTED__WORKER__PRELOAD": str(GATE)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env={**os.environ, **variables, **environment},
        )

    def wait_for(self, pattern, count):
        give_up = time.monotonic() + 400
        while len(files := list(self.gate.glob(pattern))) < count:
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < give_up, f"no {pattern}"
            time.sleep(0.005)
        return files

    def wait_for_line(self, text):
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError(f"it never says {text!r}")

    def begun(self):
        return {int(path.name.removeprefix("begun-")) for path in self.gate.glob("begun-*")}

    def open(self):
        (self.gate / "open").touch()

    def end(self):
        """Return the exit code and what was said since."""
        errors = self.process.stderr.read()
        return self.process.wait(timeout=240), errors

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.open()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()


def committed(store):
    return {int(path.stem) for path in (store / "_commits").glob("*.json")}


def records(store):
    return [path.read_bytes() for path in sorted((store / "_commits").glob("*.json"))]


def test_sigterm_to_all_processes_commits_the_partitions_in_hand(files, tmp_path):
    out = tmp_path / "fp"
    with Program(fingerprint_arguments(files, out, 2), tmp_path / "gate") as program:
        program.wait_for("begun-*", 2)
        os.killpg(program.process.pid, signal.SIGTERM)  # as a batch system may: the workers get it, too
        program.wait_for_line("Stopping after the partitions in hand")
        program.wait_for("told-*", 2)
        program.open()
        code, errors = program.end()
        assert code == 143, errors
        assert "run the same command again" in errors
        assert "Traceback" not in errors
        assert len(program.begun()) == 2
        assert committed(out) == program.begun()
    assert read_log(next(log_directory(out).iterdir()))[-1]["event"] == "stop"
    assert "stopped at" in str(status(out))
    assert run(fingerprint_arguments(files, out, 0)) == 0
    assert records(out) == records(files / "fp")


def test_ctrl_c_checkpoints_the_leaves_in_hand(files, tmp_path, monkeypatch):
    out = tmp_path / "model"
    monkeypatch.setattr("daskrf.fitting.parts._GROUP_ROWS", (20, 40))
    assert run(fit_arguments(files, tmp_path / "whole", 0)) == 0
    with Program(fit_arguments(files, out, 2), tmp_path / "gate") as program:
        program.wait_for("begun-*", 2)
        os.killpg(program.process.pid, signal.SIGINT)
        program.wait_for_line("Stopping after the partitions in hand")
        program.wait_for("told-*", 2)
        program.open()
        code, errors = program.end()
        assert code == 130, errors
        assert "run the same command again" in errors
        assert len(program.begun()) == 2
        assert {int(path.name[-5:]) for path in work_folder(out).glob("level-0-*")} == program.begun()
        assert not list(work_folder(out).glob("level-1-*"))
    assert run(fit_arguments(files, out, 0)) == 0
    ours, whole = load_model(out).arrays, load_model(tmp_path / "whole").arrays
    assert sorted(ours) == sorted(whole)
    assert all(ours[name].tobytes() == whole[name].tobytes() for name in whole)


def test_without_workers_the_partition_in_hand_is_committed(files, tmp_path):
    out = tmp_path / "fp"
    with Program(fingerprint_arguments(files, out, 0), tmp_path / "gate") as program:
        program.wait_for("begun-*", 1)
        program.process.send_signal(signal.SIGINT)
        program.wait_for_line("Stopping after the partitions in hand")
        program.open()
        code, errors = program.end()
        assert code == 130, errors
        assert committed(out) == program.begun() == {0}


def test_a_second_signal_stops_at_once(files, tmp_path):
    out = tmp_path / "fp"
    with Program(fingerprint_arguments(files, out, 0), tmp_path / "gate") as program:
        program.wait_for("begun-*", 1)
        program.process.send_signal(signal.SIGTERM)
        program.wait_for_line("Stopping after the partitions in hand")
        program.process.send_signal(signal.SIGINT)
        code, errors = program.end()  # though the gate is shut
        assert code == 143, errors
        assert committed(out) == set()
        assert not (out / ".lock").exists()


@pytest.mark.parametrize("workers", [0, 2])
def test_the_time_to_stop_is_bounded(files, tmp_path, workers):
    out = tmp_path / "fp"
    arguments = fingerprint_arguments(files, out, workers)
    with Program(arguments, tmp_path / "gate", DASK_DASKRF__STOP_WITHIN="0.3") as program:
        program.wait_for("begun-*", max(1, workers))
        program.process.send_signal(signal.SIGTERM)
        code, errors = program.end()  # though the gate is shut
        assert code == 143, errors
        assert committed(out) == set()


def test_status_of_a_running_job_and_of_a_killed_one(files, tmp_path, capsys):
    out = tmp_path / "model"
    with Program(fit_arguments(files, out, 2), tmp_path / "gate") as program:
        program.wait_for("begun-*", 2)
        assert run(["status", str(out)]) == 0
        shown = capsys.readouterr().out
        assert "a model, at work" in shown
        assert f"daskrf fit (process {program.process.pid} on host {os.uname().nodename})" in shown
        assert f"fit: 0 of {N} rows" in shown
        assert "2 workers" in shown
        assert "dashboard: http" in shown
        program.open()
        directory = work_folder(out)
        while not list(directory.glob("level-0-*/_arrays.json")):
            assert program.process.poll() is None
            time.sleep(0.005)
        os.killpg(program.process.pid, signal.SIGKILL)
        program.process.wait()
        assert run(["status", str(out)]) == 0
        shown = capsys.readouterr().out
        assert "unfinished" in shown
        assert "ended without a word" in shown
        assert "run `daskrf fit` again" in shown
    assert run(fit_arguments(files, out, 0)) == 0
    assert "finished at" in str(status(out))
    assert status(out).complete
