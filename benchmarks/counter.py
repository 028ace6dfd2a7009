"""What a scheduler counts for the benchmarks; a module of its own, so that it loads nothing but this."""

from __future__ import annotations

from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

__all__ = ["TaskCounter", "counts"]


class TaskCounter(SchedulerPlugin):
    """Counts tasks finished, tasks given up, and workers gone."""

    name = "task-counter"

    def __init__(self) -> None:
        self.finished = 0
        self.erred = 0
        self.gone = 0

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """See `SchedulerPlugin`."""
        self.finished += finish == "memory"
        self.erred += finish == "erred"

    def remove_worker(self, *args: Any, **kwargs: Any) -> None:
        """See `SchedulerPlugin`."""
        self.gone += 1


def counts(dask_scheduler: Any) -> dict[str, int]:
    """Return what the `TaskCounter` of a scheduler has counted, and how many tasks the scheduler holds."""
    counter = dask_scheduler.plugins[TaskCounter.name]
    found = {name: getattr(counter, name) for name in ("finished", "erred", "gone")}
    return {**found, "held": len(dask_scheduler.tasks)}
