"""Holds every partition and every leaf of a sum until the test opens the gate; workers preload this file.

In the directory DASKRF_GATE, ``begun-N`` is left when partition N, or the leaf that begins with it, is begun,
and ``told-PID`` when a worker has been told that the run stops. The file ``open`` opens the gate.
"""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path

from daskrf.commands.fingerprint import FingerprintStage
from daskrf.fitting import parts as fitting
from daskrf.fitting.totals import Sums
from daskrf.workers import calls

_DIRECTORY = Path(os.environ["DASKRF_GATE"])
fitting._GROUP_ROWS = (20, 40)


def _held(function):
    @functools.wraps(function)
    def hold(self, what):
        (_DIRECTORY / f"begun-{what if isinstance(what, int) else what.partitions[0]}").touch()
        give_up = time.monotonic() + 300
        while not (_DIRECTORY / "open").exists() and time.monotonic() < give_up:
            time.sleep(0.005)
        return function(self, what)

    return hold


FingerprintStage.make = _held(FingerprintStage.make)
Sums.from_chunk = _held(Sums.from_chunk)


class _StoppedRuns(set):
    def add(self, run):
        super().add(run)
        (_DIRECTORY / f"told-{os.getpid()}").touch()


calls._stopped_runs = _StoppedRuns()
