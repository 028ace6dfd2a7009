"""Who gets signals, and when the time to stop in has an end."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import dask
import pytest

from daskrf.cli import session
from daskrf.cli.options import Session
from daskrf.cli.signals import Signals
from daskrf.workers import clusters
from daskrf.workers.clusters import local_cluster
from daskrf.workers.heldsignals import SignalsHeld
from daskrf.workers.progress import Progress


@pytest.mark.parametrize("in_time", [True, False])
def test_the_time_to_stop_is_over_when_the_driver_has_stopped(in_time: bool) -> None:
    """What comes after, closing the cluster and files, must not be broken off."""
    progress = Progress()
    progress.stoppable = True
    ended = False
    with dask.config.set({"daskrf.stop-within": 1.0}), Signals(Session(progress=progress)):
        os.kill(os.getpid(), signal.SIGTERM)
        assert progress.stopping
        progress.stoppable = not in_time
        try:
            time.sleep(3.0 if in_time else 240.0)
        except KeyboardInterrupt:
            ended = True
    assert ended is not in_time


@pytest.fixture
def pythons_handler() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, whatever a package that other tests imported has set."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_waits_until_workers_have_started(
    monkeypatch: pytest.MonkeyPatch, pythons_handler: None
) -> None:
    """Dask would leave workers that have not started, and print a traceback."""
    started, ended = [], []

    @contextmanager
    def start(*arguments: object) -> Iterator[None]:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        started.append(True)
        try:
            yield
        finally:
            ended.append(True)

    monkeypatch.setattr(clusters, "_started", start)
    before = signal.getsignal(signal.SIGTERM)
    with Signals(Session()) as signals, pytest.raises(KeyboardInterrupt), local_cluster(1, "1GiB"):
        started.append("not stopped")
    assert (started, ended, signals.first) == ([True], [True], signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
    with SignalsHeld(), pytest.raises(KeyboardInterrupt):  # a second one does not wait
        _interrupt_twice()
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_of_two_signals_the_first_is_handled() -> None:
    seen: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda number, frame: seen.append(number)) for number in numbers]
    try:
        with SignalsHeld():
            for number in numbers:
                signal.raise_signal(number)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    assert seen == [signal.SIGTERM]


def _interrupt_twice() -> None:
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
    time.sleep(1.0)


def test_workers_here_outlive_signals() -> None:
    called = []
    client = SimpleNamespace(
        register_worker_callbacks=called.append, nthreads=dict, dashboard_link="", scheduler_info=_no_workers
    )
    progress = session.LineProgress(io.StringIO())
    for address in (None, "tcp://10.0.0.1:8786"):
        session._introduce(client, progress, {"cluster": None, "scheduler": address})
    assert called == [session._outlive_signals]


def _no_workers(n_workers: int) -> dict:
    return {"workers": {}}
