"""Who gets signals, and when the time to stop in has an end."""

from __future__ import annotations

import io
import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path
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


def test_workers_here_outlive_signals_whoever_named_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    @contextmanager
    def cluster(*_: object):
        yield SimpleNamespace(register_worker_callbacks=called.append)

    for name in ("local_cluster", "jobqueue_cluster"):
        monkeypatch.setattr(session, name, cluster)
    monkeypatch.setattr(session, "_introduce", lambda *_: None)
    (tmp_path / "local.yaml").write_text("kind: local\nworkers: 1\n")
    for file in (str(tmp_path / "local.yaml"), None):
        places = {"cluster": file, "scheduler": None, "scheduler_file": None}
        with session._cluster(None, None, places, session.LineProgress(io.StringIO())):
            pass
    assert called == [session._outlive_signals] * 2
