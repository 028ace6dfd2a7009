"""Ctrl-C in a terminal reaches the program and all of its workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from daskrf.cli.app import run

PROGRAM = [sys.executable, "-c", "from daskrf.cli import main; main()"]


def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(tmp_path, capsys):
    arguments = ["quickstart", str(tmp_path / "demo"), "-n", "600", "--labelled", "200", "-M", "64"]
    process = subprocess.Popen(
        [*PROGRAM, *arguments, "--workers", "1"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("scan: done"):
            os.killpg(process.pid, signal.SIGINT)
            break
    errors = process.stderr.read()
    assert process.wait(timeout=240) == 130
    assert "Traceback" not in errors
    assert "run the same command again" in errors
    assert run([*arguments, "--workers", "0"]) == 0
    captured = capsys.readouterr()
    assert "make library" not in captured.err
    assert "hits.parquet" in captured.out
