"""Random kills and damage, by a seed: whatever happens, the same commands end in the same bytes.

The environment variable DASKRF_CHAOS_SECONDS says for how long (default: 20); DASKRF_CHAOS_SEED where the
seeds begin (default: 0). A failure names its seed.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import time
from pathlib import Path

import pytest

from daskrf import verify
from daskrf.errors import StoreError
from daskrf.files.disk import temporary_name
from tests.faults.injection import CHECKPOINT, COMMIT, PUBLISH, RECORD, WORK, Crash, Fault, Injector
from tests.faults.test_drivers import run_in_process
from tests.faults.test_workers import left_over
from tests.jobs.job import assert_same_job, run_job

SECONDS = float(os.environ.get("DASKRF_CHAOS_SECONDS", "20"))
FIRST_SEED = int(os.environ.get("DASKRF_CHAOS_SEED", "0"))
TARGETS = (*WORK, PUBLISH, COMMIT, RECORD, CHECKPOINT, "os:replace", "os:fsync")
STORES = ("fp", "phi", "pred")


@pytest.mark.timeout(SECONDS + 600)
def test_chaos(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    begun, seed = time.monotonic(), FIRST_SEED
    while seed == FIRST_SEED or time.monotonic() - begun < SECONDS:
        try:
            _round(random.Random(seed), done, inputs, tmp_path / str(seed))
        except BaseException as error:
            error.add_note(f"DASKRF_CHAOS_SEED={seed}")
            raise
        seed += 1


def _round(chance: random.Random, done: Path, inputs: tuple[Path, Path], folder: Path) -> None:
    """Disturb one job several times, let it end, and compare."""
    out = folder / "out"
    for number in range(chance.randint(2, 5)):
        marks = folder / f"marks-{number}"
        _disturb(chance, inputs, out, marks)
        for _ in range(chance.randint(0, 2)):
            _damage(chance, out)
        _mend(out)
    run_job(inputs, out, None)
    assert_same_job(done, out)
    assert left_over(out) == []


def _disturb(chance: random.Random, inputs: tuple[Path, Path], out: Path, marks: Path) -> None:
    """Run the job into a fault at a random call of a random function; a late one may not come to pass."""
    action = chance.choice(["crash", "SIGKILL", errno.EIO, errno.ENOSPC])
    fault = Fault(
        chance.choice(TARGETS), action, call=int(2 ** chance.uniform(0, 6)), after=chance.random() < 0.3
    )
    injector = Injector(str(marks), (fault,))
    if action == "SIGKILL":
        assert run_in_process(inputs, out, injector) in (0, -signal.SIGKILL), fault
        return
    with injector:
        sentence, number = _end_of(inputs, out)
    assert number in (None, action), fault
    assert "\n" not in sentence, fault


def _end_of(inputs: tuple[Path, Path], out: Path) -> tuple[str, int | None]:
    """Run the job; return what it said when it failed, and the number of the error."""
    try:
        run_job(inputs, out, None)
    except Crash:
        return "", None
    except (StoreError, OSError) as error:
        return str(error), error.errno
    return "", None


def _damage(chance: random.Random, out: Path) -> None:
    """Flip a bit of some file of a store, cut it short, delete it, or leave the file of a dead writer."""
    files = [
        path
        for store in STORES
        for path in sorted((out / store).rglob("*"))
        if path.is_file() and path.name != "_plan.json"
    ]
    if not files:
        return
    victim = chance.choice(files)
    match chance.choice(["flip", "truncate", "zero", "delete", "stale"]):
        case "flip":
            data = bytearray(victim.read_bytes())
            data[chance.randrange(len(data) or 1)] ^= 1 << chance.randrange(8)
            victim.write_bytes(data)
        case "truncate":
            os.truncate(victim, chance.randrange(victim.stat().st_size))
        case "zero":
            victim.write_bytes(bytes(victim.stat().st_size))
        case "delete":
            victim.unlink()
        case "stale":
            name = temporary_name(victim.name).replace(f"~{os.getpid()}~", "~4194305~")  # beyond any process
            if victim.parent.name == "_commits":
                victim.with_name(name).write_bytes(b"half")


def _mend(out: Path) -> None:
    """Look for damage in every store, as a user would; of predictions it is taken out."""
    for store in STORES:
        if not (out / store / "_plan.json").exists():
            continue
        report = verify(out / store)
        if store == "pred" and (report.damaged or report.missing):
            with pytest.raises(StoreError, match="predict command again"):
                verify(out / store, repair=True)
        else:
            mended = verify(out / store, repair=True)
            assert not mended.damaged
            assert not mended.missing
