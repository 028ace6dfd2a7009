"""Who is at work on an output and how the last run ended, told from logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from daskrf.errors import StoreError
from daskrf.storage.inspection import status
from daskrf.storage.runlog import RunLog, job_of, log_directory


@pytest.fixture(scope="module")
def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def write_log(output, number, end=None, age=0.0, tasks=3, rows=10, total=100, **origin):
    """Write the log of a run that made `tasks` tasks, one a second, and was last seen `age` seconds ago."""
    now = time.time() - age
    whole = {"command": "fingerprint", "shard": None, "dashboard": None, "host": os.uname().nodename}
    whole |= {"pid": os.getpid(), "stage": "fingerprint", "unit": "rows", "total": total, "done": 5} | origin
    records = [{"time": now - tasks, "event": "start", **whole}]
    for i in range(tasks):
        task = {"key": f"k{i}", "rows": rows, "seconds": 1.0, "host": "n", "digest": "0", "attempt": 1}
        records.append({"time": now - tasks + i + 1, "event": "task", **task})
    records += [{"time": now, **end}] if end else []
    path = log_directory(output) / f"{number:04d}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    os.utime(path, (now, now))
    return path


def states(output):
    return [(run.shard, run.state) for run in job_of(output).runs]


def test_no_log_is_no_job(tmp_path):
    assert job_of(tmp_path / "out") is None
    (tmp_path / "out.log").mkdir()
    (tmp_path / "out.log" / "empty.jsonl").touch()
    assert job_of(tmp_path / "out") is None
    with pytest.raises(StoreError):
        status(tmp_path / "out")


def test_a_run_at_work(tmp_path):
    write_log(tmp_path / "out", 0, {"event": "finish"}, age=50)
    path = write_log(tmp_path / "out", 1, {"event": "lost", "key": "k9", "attempt": 1, "sentence": "Gone."})
    with path.open("a") as file:
        failed = {"event": "error", "key": "k8", "attempt": 1, "sentence": "OSError: no more"}
        file.write(json.dumps({"time": time.time(), **failed}) + "\n")
        file.write(json.dumps({"time": time.time(), "event": "workers", "n": 2}) + "\n")
        file.write('{"time": 1, "event": "ta')
    (run,) = job_of(tmp_path / "out").runs
    assert (run.state, run.done, run.total, run.tasks, run.retries, run.workers) == (
        "running",
        35,
        100,
        3,
        2,
        2,
    )
    assert run.seconds_left == pytest.approx(65 / run.rate)
    assert 0 < run.rate <= 10  # 30 rows in 3 s or more
    shown = str(status(tmp_path / "out"))
    assert "a fingerprint store, at work" in shown
    assert f"process {os.getpid()}" in shown
    assert "35 of 100 rows (35 %)" in shown
    assert "2 workers; 3 tasks finished, 2 lost or failed and tried again" in shown
    assert "Gone. Task k9." in shown
    assert "OSError: no more. Task k8." in shown


def test_the_rate_is_of_the_last_minutes(tmp_path):
    path = write_log(tmp_path / "out", 1, age=0)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records[:2]:
        record["time"] -= 3600
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    (run,) = job_of(tmp_path / "out").runs
    assert run.rate == pytest.approx(20 / 300)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"event": "finish"}, "finished at"),
        ({"event": "stop", "sentence": "It was interrupted."}, "It was interrupted"),
    ],
)
def test_how_a_run_ended(tmp_path, end, words):
    write_log(tmp_path / "hits.parquet", 0, end, command="screen", age=7200)
    shown = str(status(tmp_path / "hits.parquet"))
    assert "last run: daskrf screen" in shown
    assert words in shown
    assert "running" not in shown
    assert "run `daskrf screen` again" in shown


def test_dead_runs_are_known(tmp_path, dead_pid):
    write_log(tmp_path / "a", 0, pid=dead_pid)  # on this host
    write_log(tmp_path / "b", 0, host="elsewhere", age=600)
    write_log(tmp_path / "c", 0, host="elsewhere", age=60)
    assert [states(tmp_path / name) for name in "abc"] == [
        [(None, "dead")],
        [(None, "dead")],
        [(None, "running")],
    ]
    assert "ended without a word" in str(status(tmp_path / "a"))


def test_a_run_that_was_refused_does_not_hide_the_one_at_work(tmp_path):
    write_log(tmp_path / "out", 0)
    write_log(tmp_path / "out", 1, {"event": "stop", "sentence": "StoreError: in use"})
    assert states(tmp_path / "out") == [(None, "running")]


def test_shards_add_up_and_a_dead_one_is_named(tmp_path, dead_pid):
    out = tmp_path / "out"
    write_log(out, 0, {"event": "finish"}, shard="0/4", age=500)
    write_log(out, 1, {"event": "finish"}, shard="1/4", age=400)
    write_log(out, 2, shard="2/4", pid=dead_pid)
    write_log(out, 3, shard="3/4")
    write_log(out, 4, shard="0/4", total=300)
    assert states(out) == [("3/4", "running"), ("0/4", "running"), ("2/4", "dead")]
    shown = str(status(out))
    assert "2 shards of daskrf fingerprint (3/4, 0/4)" in shown
    assert "70 of 400 rows" in shown
    assert "dead: daskrf fingerprint --shard 2/4" in shown
    write_log(out, 5, shard="2/4")  # started again
    assert states(out) == [("3/4", "running"), ("0/4", "running"), ("2/4", "running")]


def test_the_last_command_has_done_with_dead_shards(tmp_path, dead_pid):
    write_log(tmp_path / "out", 0, shard="0/2", pid=dead_pid, age=900)
    write_log(tmp_path / "out", 1, shard="1/2", age=800)
    write_log(tmp_path / "out", 2, {"event": "finish"}, age=700)
    assert states(tmp_path / "out") == [(None, "finished")]


def test_json_holds_the_same(tmp_path):
    write_log(tmp_path / "out", 0)
    found = json.loads(status(tmp_path / "out").to_json())
    assert found["job"]["runs"][0]["done"] == 35
    assert found["kind"] == "fingerprints"


def test_a_writer_is_alive_by_its_own_log(tmp_path):
    log = RunLog(tmp_path / "out", "fit")
    log.start("scan", 1000, "bytes")
    log.done(10)
    assert states(tmp_path / "out") == [(None, "running")]
    assert job_of(tmp_path / "out").runs[0].done == 10
    log.finish()
    log.close()
    assert states(tmp_path / "out") == [(None, "finished")]


VALUES = [None, True, -1, 1e300, 10**400, float("nan"), "x", [], {}, [[]], "\x1b[2J\u202e\n all is well"]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_log_of_wrong_types_is_no_error_and_obeys_no_escape(tmp_path, value):
    write_log(tmp_path / "out", 0, {"event": "stop", "sentence": "It was interrupted."})
    path = write_log(tmp_path / "out", 1, {"event": "error", "key": "k", "attempt": 1, "sentence": "OSError"})
    records = [json.loads(line) for line in path.read_text().splitlines()]
    places = [(i, name) for i in (0, 1, -1) for name in records[i]]
    for i, name in places:
        changed = [dict(record) for record in records]
        changed[i][name] = value
        path.write_text("".join(json.dumps(record) + "\n" for record in changed))
        for mtime in (time.time(), 1e12, -1e9):
            os.utime(path, (mtime, mtime))
            lines = job_of(tmp_path / "out").lines()
            assert all(line.isprintable() for line in lines)
            assert len(lines) < 20
        del changed[i][name]
        path.write_text("".join(json.dumps(record) + "\n" for record in changed))
        assert len(job_of(tmp_path / "out").lines()) < 20


def test_what_is_no_log_is_left_out(tmp_path):
    write_log(tmp_path / "out", 0, {"event": "finish"})
    known = job_of(tmp_path / "out").lines()
    folder = log_directory(tmp_path / "out")
    (folder / "1.jsonl").write_text("[" * 100_000)
    (folder / "2.jsonl").write_bytes(b"\xff\n\xfe")
    (folder / "3.jsonl").mkdir()
    os.mkfifo(folder / "4.jsonl")
    (folder / "5.jsonl").symlink_to(next(folder.iterdir()))
    (folder / "6.jsonl").symlink_to(tmp_path / "absent")
    assert job_of(tmp_path / "out").lines() == known
