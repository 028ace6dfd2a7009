"""Who gets signals, and when the time to stop in has an end."""

from __future__ import annotations

import io
import os
import signal
import time
from types import SimpleNamespace

import dask
import pytest

from daskrf.cli import session
from daskrf.cli.options import Session
from daskrf.cli.signals import Signals
from daskrf.jobs.progress import Progress


@pytest.mark.parametrize("in_time", [True, False])
def test_the_time_to_stop_is_over_when_the_driver_has_stopped(in_time: bool) -> None:
    """What comes after, closing the cluster and files, must not be broken off."""
    progress = Progress()
    progress.stoppable = True
    ended = False
    with dask.config.set({"daskrf.stop-within": 0.2}), Signals(Session(progress=progress)):
        os.kill(os.getpid(), signal.SIGTERM)
        assert progress.stopping
        progress.stoppable = not in_time
        try:
            time.sleep(1.0)
        except KeyboardInterrupt:
            ended = True
    assert ended is not in_time


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
