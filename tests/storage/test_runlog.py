"""The log of a run: whole records whatever happens, and never an error."""

from __future__ import annotations

import json
import os

import pytest

from daskrf.storage.runlog import RunLog, log_directory, read_log


@pytest.fixture
def log(tmp_path):
    log = RunLog(tmp_path / "out", "fingerprint", shard="1/4", dashboard="http://here:8787/status")
    yield log
    log.close()


def test_records_are_lines_of_json_and_are_there_at_once(log, tmp_path):
    assert not log_directory(tmp_path / "out").exists()  # a run that is refused leaves none
    log.start("fingerprint", 100, "rows", 20)
    log.task("a-0", 30, 1.23456, "node7", "89abcdef", 2)
    log.lost("a-1", 1, "tcp://10.0.0.1:4000")
    log.error("a-1", 2, OSError(5, "Input/output error"))
    log.workers(3)
    log.workers(3)
    log.workers(2)
    records = read_log(log.path)  # its writer is still at it
    assert log.path.parent == tmp_path / "out.log"
    assert [r.pop("event") for r in records] == [
        "start",
        "task",
        "lost",
        "error",
        "workers",
        "workers",
    ]
    assert all(r.pop("time") > 1.7e9 for r in records)
    assert records[0] == {
        "stage": "fingerprint",
        "total": 100,
        "unit": "rows",
        "done": 20,
        "command": "fingerprint",
        "shard": "1/4",
        "dashboard": "http://here:8787/status",
        "host": os.uname().nodename,
        "pid": os.getpid(),
    }
    assert records[1] == {
        "key": "a-0",
        "rows": 30,
        "seconds": 1.235,
        "host": "node7",
        "digest": "89abcdef",
        "attempt": 2,
    }
    assert records[2] == {
        "key": "a-1",
        "attempt": 1,
        "sentence": "The worker tcp://10.0.0.1:4000 was lost.",
    }
    assert records[3]["sentence"] == "OSError: [Errno 5] Input/output error"
    assert [r["n"] for r in records[4:]] == [3, 2]


def test_torn_lines_are_left_out(log):
    log.start("fingerprint", 2, "rows")
    log.task("a-0", 1, 1.0, "n", None, 1)
    log.task("a-1", 1, 1.0, "n", None, 1)
    whole = log.path.read_bytes()
    for cut in range(len(whole)):
        log.path.write_bytes(whole[:cut])
        found = read_log(log.path)
        assert len(found) - whole[:cut].count(b"\n") in (0, 1)  # 1: only the end of the line is missing
    log.path.write_bytes(b'3\n"text"\n{}\n\xff\xfe\n' + whole)
    assert [r["event"] for r in read_log(log.path)] == ["start", "task", "task"]


def test_a_run_goes_on_where_the_log_cannot_be_written(tmp_path):
    (tmp_path / "out.log").write_text("in the way")
    notes = []
    log = RunLog(tmp_path / "out", "fit", on_failure=notes.append)
    log.start("fit", 2, "rows")
    log.task("a-0", 1, 1.0, "n", None, 1)
    log.finish()
    log.close()
    assert len(notes) == 1
    assert "out.log" in notes[0]
    assert "goes on" in notes[0]


def test_two_logs_of_one_process_are_two_files(tmp_path):
    logs = [RunLog(tmp_path / "out", "fit") for _ in range(5)]
    for log in logs:
        log.start("fit", 1, "rows")
        log.close()
    files = sorted(log_directory(tmp_path / "out").iterdir())
    assert files == [log.path for log in logs]
    assert all(len(file.read_text().splitlines()) == 1 for file in files)


def test_an_end_without_a_start_leaves_no_file(tmp_path):
    log = RunLog(tmp_path / "out", "fit")
    log.stop("InputError: There is no such file")
    log.finish()
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_a_record_is_one_line_whatever_is_in_it(log):
    log.start("fit", 1, "rows")
    log.error("k", 1, ValueError("first line\nsecond line"))
    log.stop("a\nb\u2028c")
    assert len(log.path.read_text().splitlines()) == 3
    assert json.loads(log.path.read_text().splitlines()[1])["sentence"] == "ValueError: first line"
