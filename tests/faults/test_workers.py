"""Workers die at chosen moments of every stage: equal bytes, and only what was in hand is made again."""

from __future__ import annotations

from pathlib import Path

import pytest
from distributed import Client

from tests.drivers.job import assert_same_job, run_job
from tests.faults.injection import (
    CHECKPOINT,
    COMMIT,
    FEATURIZE,
    FINGERPRINT,
    FIT,
    PREDICT,
    PUBLISH,
    RECORD,
    SCREEN,
    WORK,
    Fault,
    Injector,
    on_workers,
)

# The job has 13 partitions a store and 13 leaves and 3 inner nodes a tree. Calls of stores are counted through
# all three stores and both trees, so that the numbers below fall into fingerprint, featurize and predict, and into
# leaves and inner nodes of fit and screen.
BEFORE_THE_RECORD = [
    Fault(FINGERPRINT, call=2),
    Fault(PUBLISH, call=4),
    Fault(COMMIT, call=7),
    Fault(RECORD, call=11),
    Fault(FEATURIZE, call=3),
    Fault(COMMIT, call=22),
    Fault(FIT, call=3),
    Fault(CHECKPOINT, call=6),
    Fault(CHECKPOINT, call=17),
    Fault(PREDICT, call=5),
    Fault(SCREEN, call=8),
]


def _left_over(out: Path) -> list[str]:
    """Temporary files, work directories and locks that a finished job must not leave."""
    return [str(path.relative_to(out)) for path in out.rglob(".*")]


def test_sigkill(done: Path, inputs: tuple[Path, Path], client: Client, tmp_path: Path) -> None:
    with on_workers(client, tmp_path / "marks", *BEFORE_THE_RECORD) as injector:
        run_job(inputs, tmp_path / "out", client)
    print({w: (len(injector.calls(w)), injector.redone(w)) for w in WORK}, injector.struck())
    assert_same_job(done, tmp_path / "out")
    assert injector.struck() == len(BEFORE_THE_RECORD)
    assert _left_over(tmp_path / "out") == []
