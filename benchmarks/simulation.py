"""10^8 to 10^9 molecules by simulation: the real drivers and scheduler, and tasks that sleep.

`daskrf.jobs.pieces.Partitions` and `daskrf.jobs.tree.Tree`, a real store with its commit records, a real run
log, a real scheduler; only workers are simulated, a hundred or so in a process, each with one thread, and
what their tasks do, which is to sleep. Sleeps are drawn from a lognormal distribution of the mean printed and
the spread measured by ``scale.py``; 1 of 100 tasks kills its worker, which comes back after a while, and 1 of
1,000 raises OSError, each in the middle of its first run. 10^9 molecules in partitions of 100,000 rows are
10,000 tasks of about 15 s.

What is real and what is not: the costs of the scheduler and the driver a task are real, and so is what they
hold in memory. The simulated workers share this machine with them, so that what the machine cannot give
shows as idle time that a cluster would not have.
"""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, table, write_results
from figures import BLUE, GREY, ORANGE, label_axes, new_figure, save
from processes import Cluster, Times, start_cluster, tasks_counted
from simulated_workers import Draws, SleepFold, SleepStage

from daskrf import seeds
from daskrf.gp import SufficientStatistics
from daskrf.jobs.pieces import Partitions
from daskrf.jobs.tree import Root, Tree
from daskrf.storage.lock import StoreLock
from daskrf.storage.model import read_checkpoint, write_checkpoint
from daskrf.storage.runlog import RunLog
from daskrf.storage.stores.store import Store
from daskrf.workers.execution import Task, run_tasks

__all__ = ["simulate"]

ROWS = 100_000  # of a partition, the driver's own choice for large libraries
KILLS, ERRORS = 0.01, 0.001
SPREAD = 0.15  # of the logarithm of a task's seconds, where none was measured
MOST_IN_A_PROCESS = 125
FIT_LEAVES = 1_024  # of a fit to 10^8 labels
FOLD_SIZES = {"small": (4_096,), "default": (4_096, 8_192), "full": (4_096, 8_192, 16_384)}
ROLES = ("scheduler", "driver")
TIMED = 4_096  # features of the statistics that are timed


@dataclass(frozen=True)
class Case:
    """Workers, tasks and seconds a task of one simulated job."""

    workers: int
    tasks: int
    seconds: float


CASES = {
    "small": (Case(20, 100, 0.5),),
    "default": (Case(100, 1_000, 5.0), Case(300, 3_000, 5.0), Case(1_000, 5_000, 15.0)),
    "full": (
        Case(100, 1_000, 15.0),
        Case(300, 3_000, 15.0),
        Case(1_000, 10_000, 30.0),
        Case(1_000, 10_000, 15.0),
        Case(1_000, 10_000, 5.0),
    ),
}
EMPTY_TASKS = {"small": 200, "default": 10_000, "full": 100_000}
FOLDED = {"small": 32, "default": FIT_LEAVES, "full": FIT_LEAVES}


def simulate(folder: Path, mode: str, seed: int, output: Path) -> None:
    """Simulate the cases of a mode; print and write what was found."""
    spread = _measured_spread()
    costs = _checkpoint_costs(folder)
    print(
        f"\nTasks sleep (spread of the logarithm {spread:.2f}); {KILLS:.0%} kill their worker, {ERRORS:.1%} "
        f"raise OSError. Statistics of M = 4096 on this machine: added in {costs['combine_s']:.2f} s, "
        f"written in {costs['write_s']:.2f} s, read in {costs['read_s']:.2f} s; of other sizes by M^2.",
        flush=True,
    )
    rows, folds, empty = [], [], {}
    for workers, cases in itertools.groupby(CASES[mode], key=lambda case: case.workers):
        work = folder / f"workers-{workers}"
        work.mkdir()
        with _simulated(work, workers, away=2 * max(c.seconds for c in CASES[mode])) as cluster:
            for _ in _running((Task(f"first-{i}", (i,)) for i in range(4 * workers)), cluster):
                pass  # every process loads what tasks refer to
            for number, case in enumerate(cases):
                rows.append(_job(cluster, case, work / f"job-{number}", seed, spread))
                _print_jobs(rows[-1:])
            if workers == max(case.workers for case in CASES[mode]):
                folds = [_reduce(cluster, work, m, FOLDED[mode], seed, costs) for m in FOLD_SIZES[mode]]
                _print_folds(folds)
            if workers == CASES[mode][0].workers:
                empty = _empty(cluster, EMPTY_TASKS[mode])
                _print_empty(empty)
        shutil.rmtree(work)
    print("\nAll jobs:")
    _print_jobs(rows)
    results = {"spread": spread, "checkpoint": costs, "jobs": rows, "reductions": folds, "empty_tasks": empty}
    settings = {"kills": KILLS, "errors": ERRORS, "rows_per_task": ROWS}
    write_results(output, "scale-simulated", seed=seed, settings=settings, results=results)
    if len(rows) > 1:
        _draw(rows, output)


def _measured_spread() -> float:
    """Return the spread of the seconds of equal tasks that ``scale.py`` has measured, if it has."""
    path = RESULTS / "scale.json"
    if not path.exists():
        return SPREAD
    return float(json.loads(path.read_text())["results"]["sizes"][-1]["spread"])


def _checkpoint_costs(folder: Path) -> dict[str, float]:
    """Time the sum of two statistics of M = 4096, and their checkpoint, on this machine's disk."""
    one = SufficientStatistics.zero(TIMED, 1, y_exponents=[0])
    rng = seeds.generator(0, "simulation/statistics")
    one.gram[:] = rng.integers(-1000, 1000, one.gram.shape)
    other, path, found = SufficientStatistics.from_arrays(one.arrays()), folder / "checkpoint", {}

    def timed(name: str, call: Any) -> None:
        start = time.perf_counter()
        call()
        found[name] = time.perf_counter() - start

    timed("combine_s", lambda: one.__iadd__(other))
    timed("write_s", lambda: write_checkpoint(path, one.arrays(), {}, "0"))
    timed("read_s", lambda: read_checkpoint(path, "0"))
    found["bytes"] = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    shutil.rmtree(path)
    return found


def _simulated(work: Path, workers: int, away: float) -> AbstractContextManager[Cluster]:
    """Start a scheduler, and simulated workers in as few processes as is good."""
    processes = max(2, -(-workers // MOST_IN_A_PROCESS))
    share = [workers // processes + (i < workers % processes) for i in range(processes)]
    command = ["-m", "simulated_workers", "--folder", str(work), "--away", str(away)]
    return start_cluster(work, [[*command, "--workers", str(n)] for n in share], workers)


class _Ends(Times):
    """Times that also know when the last unit was done."""

    def __init__(self) -> None:
        super().__init__()
        self.last = 0.0

    def advance(self, amount: int) -> None:
        """Keep the time, where there is something to count."""
        if amount:
            self.last = time.perf_counter()


def _job(cluster: Cluster, case: Case, path: Path, seed: int, spread: float) -> dict[str, Any]:
    """Complete a store of as many partitions as there are tasks, and tell what it took."""
    partitions = [{"start": ROWS * p, "stop": ROWS * (p + 1)} for p in range(case.tasks)]
    store = Store.create(path, "predictions", {"simulated": True}, partitions)
    fates = path.with_name(f"{path.name}.fates")
    fates.mkdir()
    draws = Draws(seed, case.seconds, spread, KILLS, ERRORS, str(fates))
    # One partition a task, as fingerprints of 100,000 rows are.
    stage = SleepStage(str(store.path.resolve()), draws, 30.0 / ROWS)
    progress = _Ends()
    with _Observation(cluster, path, progress) as found, StoreLock(path, "simulation"):
        pieces = Partitions(stage, store, [ROWS] * case.tasks)
        made = pieces.make(client=cluster.client, progress=progress)
    assert made.made == case.tasks
    useful = sum(draws.seconds(p) for p in range(case.tasks))
    wasted = sum(draws.seconds(p) / 2 for p in range(case.tasks) if draws.fate(p))
    away = sum(draws.fate(p) == "kill" for p in range(case.tasks))
    found |= asdict(case) | {
        "idle": 1 - (useful + wasted) / (case.workers * found["wall_s"]),
        "least_s": useful / case.workers,
        "killed": away,
        "molecules": ROWS * case.tasks,
        "scan_s": _seconds(store.pending),
    }
    found["idle_before_tail"] = _idle_before_tail(path, case.workers, draws, case.tasks)
    return found


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _idle_before_tail(path: Path, workers: int, draws: Draws, tasks: int) -> float:
    """Return the idle share of workers until 98 of 100 tasks had begun, by the times of commit records."""
    ends = np.array([(path / "_commits" / f"{p:06d}.json").stat().st_mtime for p in range(tasks)])
    begun = ends - np.array([draws.seconds(p) for p in range(tasks)])
    stop = np.quantile(begun, 0.98)
    worked = np.maximum(np.minimum(ends, stop) - begun, 0).sum()
    return float(1 - worked / (workers * (stop - begun.min())))


class _Observation:
    """Measures a block in which the driver works: seconds, tasks, CPU of scheduler and driver, memory."""

    def __init__(self, cluster: Cluster, path: Path, progress: Times) -> None:
        self.cluster, self.progress, self.path = cluster, progress, path
        self.found: dict[str, Any] = {}

    def __enter__(self) -> dict[str, Any]:
        self.progress.log = self.log = RunLog(self.path, "simulated")
        self.before = tasks_counted(self.cluster.client)
        self.measuring = self.cluster.measured()
        self.costs = self.measuring.__enter__()
        self.start = time.perf_counter()
        return self.found

    def __exit__(self, *error: object) -> None:
        wall = time.perf_counter() - self.start
        self.measuring.__exit__(None, None, None)
        self.log.finish()
        self.log.close()
        after = tasks_counted(self.cluster.client)
        tasks = after["finished"] - self.before["finished"]
        self.found |= {
            "wall_s": wall,
            "finished": tasks,
            "workers_gone": after["gone"] - self.before["gone"],
            "erred": after["erred"] - self.before["erred"],
            "held": after["held"],
        }
        for role in ROLES:
            self.found[f"{role}_ms_a_task"] = 1e3 * self.costs[role].cpu_s / max(1, tasks)
            self.found[f"{role}_busy"] = self.costs[role].cpu_s / wall
            self.found[f"{role}_mib"] = self.costs[role].peak_mib


def _reduce(
    cluster: Cluster, work: Path, m: int, leaves: int, seed: int, costs: dict[str, float]
) -> dict[str, Any]:
    """Fold as `fit` does, with sums and checkpoints of M x M statistics; tell how long its end took."""
    scale = (m / TIMED) ** 2
    combine, read, write = (scale * costs[name] for name in ("combine_s", "read_s", "write_s"))
    path = work / f"fold-{m}"
    path.mkdir()
    draws = Draws(seed, 5.0 if leaves == FIT_LEAVES else 0.5, SPREAD, KILLS, ERRORS, str(path))
    reduction, progress = SleepFold(draws, combine, read, write), _Ends()
    groups = [(p,) for p in range(leaves)]
    with _Observation(cluster, path, progress) as found:
        tree = Tree([Root(reduction, tuple, path / "partials", "0")], groups, [1] * leaves)
        tree.make(client=cluster.client, progress=progress)
        result = tree.result()
        end = time.perf_counter()
    assert result.n == leaves
    return found | {"M": m, "leaves": leaves, "after_last_leaf_s": end - progress.last}


def _nothing(number: int) -> str:
    return str(number)


def _empty(cluster: Cluster, n: int) -> dict[str, Any]:
    """Run tasks that do nothing: what scheduler and driver can do at most, and whether they forget."""
    tasks = (Task(f"empty-{i}", (i,)) for i in range(n))
    before = tasks_counted(cluster.client)
    with cluster.measured() as costs:
        start = time.perf_counter()
        first = [_held(cluster) for _ in zip(range(n // 10), _running(tasks, cluster), strict=False)][-1:]
        for _ in _running(tasks, cluster):
            pass
        wall = time.perf_counter() - start
    after = tasks_counted(cluster.client)
    return {
        "tasks": n,
        "wall_s": wall,
        "tasks_per_s": n / wall,
        "scheduler_ms_a_task": 1e3 * costs["scheduler"].cpu_s / n,
        "driver_ms_a_task": 1e3 * costs["driver"].cpu_s / n,
        "scheduler_mib_after_a_tenth": first[0] if first else None,
        "scheduler_mib": _held(cluster),
        "held": after["held"] - before["held"],
    }


def _running(tasks: Iterator[Task], cluster: Cluster) -> Iterator[Any]:
    return run_tasks(_nothing, tasks, cluster.client)


def _held(cluster: Cluster) -> float:
    return cluster.processes["scheduler"].memory_info().rss / 2**20


def _print_jobs(rows: list[dict[str, Any]]) -> None:
    names = {
        "workers": ("workers", ",d"),
        "tasks": ("tasks", ",d"),
        "seconds": ("s a task", ".1f"),
        "wall_s": ("wall s", ".1f"),
        "least_s": ("at least", ".1f"),
        "idle": ("idle", ".1%"),
        "idle_before_tail": ("before the tail", ".1%"),
        "scheduler_ms_a_task": ("scheduler ms/task", ".1f"),
        "driver_ms_a_task": ("driver ms/task", ".1f"),
        "scheduler_busy": ("scheduler busy", ".0%"),
        "killed": ("killed", ",d"),
        "workers_gone": ("gone", ",d"),
        "finished": ("runs", ",d"),
        "scheduler_mib": ("scheduler MiB", ".0f"),
        "driver_mib": ("driver MiB", ".0f"),
    }
    _print(rows, names)


def _print_folds(rows: list[dict[str, Any]]) -> None:
    print("\nA fold of fit, fan-in 8: seconds from the end of the last leaf to the sum in the driver")
    names = {
        "M": ("M", ",d"),
        "leaves": ("leaves", ",d"),
        "wall_s": ("wall s", ".1f"),
        "after_last_leaf_s": ("after the last leaf", ".1f"),
    }
    _print(rows, names)


def _print_empty(found: dict[str, Any]) -> None:
    print(
        f"\n{found['tasks']:,} tasks that do nothing: {found['tasks_per_s']:,.0f} tasks/s, scheduler "
        f"{found['scheduler_ms_a_task']:.1f} ms and driver {found['driver_ms_a_task']:.1f} ms a task; the "
        f"scheduler holds {found['held']} of them in the end and has {found['scheduler_mib']:.0f} MiB, "
        f"{found['scheduler_mib_after_a_tenth'] or 0:.0f} after a tenth of them. By that CPU time 1,000 "
        f"workers can be fed with tasks of {max(found[f'{r}_ms_a_task'] for r in ROLES):.1f} s or more.",
        flush=True,
    )


def _print(rows: list[dict[str, Any]], names: dict[str, tuple[str, str]]) -> None:
    shown = [{title: row[name] for name, (title, _) in names.items()} for row in rows]
    print(table(shown, dict(names.values())), flush=True)


def _draw(rows: list[dict[str, Any]], folder: Path) -> None:
    figure, ax = new_figure(1, 1, width=5, height=3.6)
    names = [f"{row['workers']:,} workers,\n{row['seconds']:g} s a task" for row in rows]
    for name, label, color in (
        ("idle", "workers idle, in all", BLUE),
        ("idle_before_tail", "before the last round", ORANGE),
        ("scheduler_busy", "scheduler busy", GREY),
    ):
        ax.plot(names, [100 * row[name] for row in rows], "-o", color=color, label=label)
    ax.set_ylim(bottom=0)
    label_axes(ax, "simulated jobs, two processors for all of it", "", "per cent")
    ax.legend(frameon=False)
    save(figure, folder, "scale-simulated")
