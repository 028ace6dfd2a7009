"""Helper processes that crash, hang, eat memory or are killed: one text is lost, nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from daskrf.errors import WorkerError
from daskrf.molecules import isolation
from daskrf.molecules.isolation import Lost, each, end_idle

REPOSITORY = Path(__file__).resolve().parents[2]
LONG = 60  # seconds: what takes longer hangs
PROGRAM = """
    import os, signal, sys, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    sys.path.insert(0, {repository!r})
    from daskrf.molecules.isolation import each
    def do(*texts): return each("tests.molecules.deeds:doer", (), texts)
"""


def do(*texts: str) -> list[Any]:
    return each("tests.molecules.deeds:doer", (), texts)


@pytest.fixture(autouse=True)
def own_helpers() -> Iterator[None]:
    """Helpers are started under the limits of the test."""
    isolation.end_idle()
    yield
    isolation.end_idle()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASKRF_MOLECULE_SECONDS", "0.3")


def start(body: str, **options: Any) -> subprocess.Popen[str]:
    """Start a program that can call `do`."""
    program = textwrap.dedent(PROGRAM.format(repository=str(REPOSITORY))) + textwrap.dedent(body)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", program], **{**pipes, **options})


def wait_until_gone(pid: int) -> None:
    end = time.monotonic() + LONG
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, "the helper is still there"
        time.sleep(0.05)


def test_results_are_in_the_order_of_the_texts() -> None:
    texts = [f"text {number}" for number in range(1000)]
    assert do(*texts) == [text.upper() for text in texts]
    assert do() == []


def test_surrogates_and_control_characters_go_through() -> None:
    assert do("\ud800\0\n", "é") == ["\ud800\0\n", "É"]


def test_one_helper_serves_all_calls() -> None:
    assert do("pid") == do("pid") != [os.getpid()]


def test_an_exception_is_about_its_text() -> None:
    assert do("a", "raise", "b") == ["A", Lost("IndexError: list index out of range"), "B"]


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("crash", "crashed (SIGSEGV), or needed more than 1.0 GiB of memory"),
        ("exit", "ended (exit code 5)"),
        ("kill", "ended (SIGKILL)"),
    ],
)
def test_a_crash_costs_its_text_alone(deed: str, reason: str) -> None:
    texts = ["a", deed, "b", *["c"] * 300, deed, deed, "d"]
    expected = [Lost(reason) if text == deed else text.upper() for text in texts]
    assert do(*texts) == expected


def test_a_text_that_crashes_is_tried_again_and_those_before_it_are_not_lost(tmp_path: Path) -> None:
    assert do(f"note {tmp_path / 'one'}", f"note-and-crash {tmp_path / 'two'}", "a") == [
        "noted",
        Lost("crashed (SIGABRT), or needed more than 1.0 GiB of memory"),
        "A",
    ]
    assert (tmp_path / "two").read_text() == "xxx"


def test_what_something_else_kills_loses_nothing(tmp_path: Path) -> None:
    texts = ["a", f"kill-once {tmp_path / 'one'}", "b", f"kill-once {tmp_path / 'two'}"]
    assert do(*texts) == ["A", "alive", "B", "alive"]


def test_an_idle_helper_that_was_killed_is_replaced() -> None:
    (pid,) = do("pid")
    os.kill(pid, signal.SIGKILL)
    assert do("a") == ["A"]
    assert do("pid") != [pid]


@pytest.mark.usefixtures("hurried")
def test_a_text_that_takes_too_long_is_lost() -> None:
    lost = Lost("took more than 0.3 s of processor time on this machine")
    assert do("a", "spin", "b", "spin") == ["A", lost, "B", lost]


@pytest.mark.usefixtures("hurried")
def test_time_is_that_of_the_processor_and_of_one_text() -> None:
    assert do("sleep 1", *["sleep 0.001"] * 10) == [None] * 11


def test_other_limits_hold_for_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    (pid,) = do("pid")
    monkeypatch.setenv("DASKRF_MOLECULE_SECONDS", "0.3")
    assert isinstance(do("spin")[0], Lost)
    wait_until_gone(pid)


@pytest.mark.parametrize(
    ("value", "seconds"), [("soon", 30), ("0", 30), ("-1", 30), ("nan", 30), ("inf", 1e6)]
)
def test_a_limit_that_is_none(value: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASKRF_MOLECULE_SECONDS", value)
    assert isolation.seconds_a_text() == seconds
    assert do("a") == ["A"]


def test_a_text_that_needs_too_much_memory_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "MEMORY", 1 << 26)
    assert do("a", "eat", "b") == ["A", Lost("needed more than 64.0 MiB of memory"), "B"]


def test_a_helper_that_stands_still_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "SILENCE", 5.0)
    assert do("a", "stop", "b") == ["A", Lost("did not come back within 5 s on this machine"), "B"]


def test_pipes_that_fill_up_are_no_deadlock(capfd: pytest.CaptureFixture) -> None:
    assert [len(text) for text in do(*["long 3000000"] * 5, "y" * 5_000_000)] == [3_000_000] * 5 + [5_000_000]
    assert do("print 1000000", "a") == ["printed", "A"]
    assert capfd.readouterr() == ("", "")


def test_threads_have_helpers_of_their_own() -> None:
    pids: list[int] = []
    barrier = threading.Barrier(3)

    def work() -> None:
        pids.extend(do("pid", "sleep 0.2"))
        barrier.wait(LONG)
        assert do(*map(str, range(1000))) == list(map(str, range(1000)))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    barrier.wait(LONG)
    for thread in threads:
        thread.join()
    assert len(set(pids) - {None}) == 2


def test_a_helper_of_a_thread_that_has_ended_goes_on() -> None:
    pids: list[int] = []
    thread = threading.Thread(target=lambda: pids.extend(do("pid")))
    thread.start()
    thread.join()
    assert do("pid") == pids


def test_an_idle_helper_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "IDLE", 0.1)
    (pid,) = do("pid")
    wait_until_gone(pid)
    assert do("a") == ["A"]


@pytest.mark.parametrize("at_work", [False, True])
def test_no_helper_survives_its_parent(at_work: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASKRF_MOLECULE_SECONDS", str(10 * LONG))
    parent = start(
        f"""
        print(do("pid")[0], flush=True)
        do(*["spin"] * {int(at_work)})
        sys.stdin.read()
        """
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        while at_work and psutil.Process(pid).cpu_times().user < 0.3:
            time.sleep(0.01)
        parent.kill()
        wait_until_gone(pid)


def test_a_program_that_ends_takes_its_helper_along() -> None:
    with start("print(do('pid')[0])") as parent:
        out, err = parent.communicate(timeout=LONG)
    assert err == ""
    assert not psutil.pid_exists(int(out))


def test_ctrl_c_is_for_the_parent(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    parent = start(
        f"""
        print(do("pid")[0], flush=True)
        try:
            do("note-and-sleep {mark}")
        except KeyboardInterrupt:
            print(do("a")[0])
        """,
        start_new_session=True,
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        while not mark.exists():  # or the helper might not be at work yet
            assert parent.poll() is None
            time.sleep(0.01)
        os.killpg(parent.pid, signal.SIGINT)
        out, err = parent.communicate(timeout=LONG)
    assert (out, err) == ("A\n", "")
    wait_until_gone(pid)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_to_all_processes_leave_the_helper_at_work(sign: signal.Signals) -> None:
    (pid,) = do("pid")
    os.kill(pid, sign)
    assert do("pid") == [pid]


def test_a_forked_process_has_its_own_helper() -> None:
    parent = start(
        """
        before = do("pid")
        child = os.fork()
        if not child:
            after = do("pid")
            os._exit(int(before == after))
        print(os.waitpid(child, 0)[1], do("pid") == before)
        """
    )
    with parent:
        out, err = parent.communicate(timeout=LONG)
    assert (out, err) == ("0 True\n", "")


def test_a_helper_that_cannot_be_started_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorkerError, match=r"cannot be started \(it ended with exit code 3\)"):
        each("tests.molecules.deeds:dead_doer", (), ["a"])
    with pytest.raises(WorkerError, match="No module named 'nowhere'"):
        each("nowhere:doer", (), ["a"])
    with pytest.raises(
        WorkerError, match=r"libXrender\.so\.1: .*; install this library.*apt-get install libx"
    ):
        each("tests.molecules.deeds:doer_without_library", (), ["a"])
    isolation.end_idle()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerError, match=r"cannot be started \(No such file"):
        do("a")


def test_a_helper_is_small() -> None:
    """It has neither arrays of tables nor Dask in memory, which count for every worker."""
    assert do("a") == ["A"]
    program = "import daskrf.molecules.isolation, daskrf.molecules.counts.counter, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert not {"pyarrow", "scipy", "dask", "distributed", "numba"} & set(loaded)


def test_helpers_work_without_files_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on systems other than Linux."""
    monkeypatch.delattr(os, "memfd_create")
    end_idle()
    assert each("operator:methodcaller", ("title",), ["one", "two"]) == ["One", "Two"]
    end_idle()


def test_what_was_asked_is_remembered(tmp_path: Path) -> None:
    """By the function and the text; what is lost is tried again."""
    note = f"note {tmp_path / 'notes'}"
    assert do(note) == do("a", note)[1:] == ["noted"]
    assert (tmp_path / "notes").read_text() == "x"
    assert each("operator:methodcaller", ("title",), ["a b"]) == ["A B"]
    assert each("operator:methodcaller", ("swapcase",), ["a b"]) == ["A B"]
    assert each("operator:methodcaller", ("capitalize",), ["a b"]) == ["A b"]


def test_little_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of large molecules may not fill the memory of a helper with answers."""
    monkeypatch.setattr(isolation, "_REMEMBERED", 1_000)
    answers = isolation._Answers()
    answers.keep(b"one", ["a", "b"], ["A", Lost("crashed")], 500)
    assert answers.of(b"one") == {"a": "A"}
    answers.keep(b"two", ["c"], ["C"], 400)
    assert answers.of(b"one") == {"a": "A"}
    answers.keep(b"two", ["d"], ["D"], 400)
    assert (answers.of(b"one"), answers.of(b"two")) == ({}, {"d": "D"})
    answers.keep(b"two", ["e"], ["E"], 2_000)
    assert answers.of(b"two") == {}
