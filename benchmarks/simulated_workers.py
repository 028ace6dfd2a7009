"""Workers whose tasks sleep, a hundred in a process, and what they are sent: for ``simulation.py``.

python -m simulated_workers --scheduler-file FILE --workers 125 --away 20
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import math
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import dask
import numpy as np
from distributed import Worker, get_worker

from daskrf import seeds
from daskrf.files.backend import as_path
from daskrf.jobs import pieces, tree
from daskrf.storage.stores.store import CommitRecord, Store

# Loaded before the first worker starts: tasks refer to them.
_NEEDED = (pieces, tree)

__all__ = ["Draws", "SleepFold", "SleepPartial", "SleepStage"]


@dataclass(frozen=True)
class Draws:
    """How long tasks sleep, and what befalls them: all of it follows from the seed and the task's number.

    Attributes
    ----------
    seed : int
    mean, spread : float
        Seconds, and the standard deviation of their logarithm.
    kills, errors : float
        Shares of tasks that kill their worker, and that raise OSError, the first time they are run.
    folder : str
        Where it is noted which have done so.
    """

    seed: int
    mean: float
    spread: float
    kills: float
    errors: float
    folder: str

    def seconds(self, number: int) -> float:
        """Return how long task `number` sleeps: lognormal, of the given mean."""
        normal = float(seeds.generator(self.seed, "simulation/seconds", number).standard_normal())
        return self.mean * math.exp(self.spread * normal - self.spread**2 / 2)

    def fate(self, number: int) -> str:
        """Return "kill", "error" or "" for the first run of task `number`."""
        drawn = float(seeds.generator(self.seed, "simulation/fate", number).random())
        return "kill" if drawn < self.kills else "error" if drawn < self.kills + self.errors else ""

    def sleep(self, number: int) -> None:
        """Sleep as task `number`, or meet its fate in the middle of it."""
        seconds, fate = self.seconds(number), self.fate(number)
        if fate and self._first_time(number):
            time.sleep(seconds / 2)
            if fate == "error":
                raise OSError(errno.EIO, "simulated")
            get_worker().die()  # type: ignore[attr-defined]
            time.sleep(5.0)  # what it returns comes too late
            return
        time.sleep(seconds)

    def _first_time(self, number: int) -> bool:
        try:
            Path(self.folder, f"fate-{number}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@cache
def _store(path: str) -> Store:
    return Store.open(as_path(path))


@dataclass(frozen=True)
class SleepStage:
    """Makes an empty partition of a real store, with a real commit record, after a sleep."""

    path: str
    draws: Draws
    seconds_per_row: float
    name: str = "simulated"

    def make(self, partition: int) -> CommitRecord:
        """See `daskrf.jobs.pieces.Maker`."""
        self.draws.sleep(partition)
        store = _store(self.path)
        rows = store.partition_rows(partition)
        return store.publish(partition, {}, {"read": rows, "kept": rows, "rejected": 0})


@dataclass
class SleepPartial:
    """A sum of M x M statistics whose arithmetic and files are sleeps; `n` counts the rows."""

    n: int
    combine_s: float
    write_s: float

    def __iadd__(self, other: SleepPartial) -> SleepPartial:
        time.sleep(self.combine_s)
        self.n += other.n
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        """See `daskrf.jobs.tree.Partial`."""
        time.sleep(self.write_s)
        return {"n": np.array(self.n)}


@dataclass(frozen=True)
class SleepFold(tree.Reduction[int, SleepPartial, SleepPartial]):
    """A reduction of `daskrf.jobs.tree` whose leaves, sums, and checkpoints are sleeps."""

    draws: Draws
    combine_s: float
    read_s: float
    write_s: float
    name: str = "simulated"

    def zero(self) -> SleepPartial:
        """See `daskrf.jobs.tree.Reduction`."""
        return SleepPartial(0, self.combine_s, self.write_s)

    def add(self, total: SleepPartial, block: int) -> None:
        """See `daskrf.jobs.tree.Reduction`; a block is the number of a partition."""
        self.draws.sleep(block)
        total.n += 1

    def restore(self, arrays: Mapping[str, np.ndarray]) -> SleepPartial:
        """See `daskrf.jobs.tree.Reduction`."""
        time.sleep(self.read_s)
        return SleepPartial(int(arrays["n"]), self.combine_s, self.write_s)

    def finalize(self, total: SleepPartial, rest: Iterator[SleepPartial]) -> SleepPartial:
        """See `daskrf.jobs.tree.Reduction`; there is one root."""
        return total


class _Mortal(Worker):
    """A worker that can go like one whose process is killed: the scheduler sees its connection break."""

    def die(self) -> None:
        """Break off, from any thread."""
        self.loop.add_callback(self._die)

    async def _die(self) -> None:
        self.batched_stream.comm.abort()
        await self.close(timeout=0, executor_wait=False, nanny=False, reason="simulated")


async def _keep(address: str, folder: str, away: float) -> None:
    """Run one worker after the other, with `away` seconds between two."""
    while True:
        worker = _Mortal(
            address,
            nthreads=1,
            memory_limit=0,
            local_directory=folder,
            dashboard=False,
            # A thread that still sleeps must not keep the next worker waiting.
            executor=ThreadPoolExecutor(1),
        )
        await worker
        await worker.finished()
        await asyncio.sleep(away)


# A worker looks at itself fifty times a second: a thousand of them leave two processors to nobody else.
_QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.cycle": "10s",
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}


async def serve(address: str, folder: str, workers: int, away: float) -> None:
    """Keep so many workers until the process is ended."""
    await asyncio.gather(*(_keep(address, folder, away) for _ in range(workers)))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scheduler-file", type=Path, required=True)
    options.add_argument("--folder", required=True)
    options.add_argument("--workers", type=int, required=True)
    options.add_argument("--away", type=float, required=True)
    given = options.parse_args()
    where = json.loads(given.scheduler_file.read_text())["address"]
    with dask.config.set(_QUIET):
        asyncio.run(serve(where, given.folder, given.workers, given.away))
