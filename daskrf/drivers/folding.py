"""Reduce a store to one small result by a checkpointed tree.

Partitions are cut into groups by a rule that knows nothing of workers. A task folds its whole
group into one partial and checkpoints it; tasks of the next level combine `FAN_IN` partials,
one at a time, so that a process holds two of them at most. Every node of the tree is a durable
file that carries the hash of the specification, so a second run starts where the first one
ended, and the grouping, hence the result, is the same on any number of workers.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from distributed import Client
from threadpoolctl import threadpool_limits

from daskrf.drivers.execution import Task, run_tasks
from daskrf.drivers.progress import Progress
from daskrf.errors import StoreError
from daskrf.stores.model import read_checkpoint, write_checkpoint

__all__ = ["FAN_IN", "Fold", "Partial", "fold", "remove_checkpoints"]

FAN_IN = 8


class Partial(Protocol):
    """An element of a commutative monoid that can be written as arrays."""

    def __iadd__(self, other: Any) -> Any:
        """Combine `other` into this one."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what `Fold.restore` needs."""


class Fold(Protocol):
    """A reduction over partitions; a small frozen object that travels in each task."""

    @property
    def name(self) -> str:
        """What the reduction is called in progress bars and task keys."""

    def from_partitions(self, partitions: Sequence[int], directory: Path) -> Partial:
        """Reduce a group; side products, if there are any, go to files in `directory`."""

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Partial:
        """Rebuild a partial from its arrays."""


@dataclass(frozen=True)
class _Node:
    """A node of the tree: a leaf folds partitions, any other combines the nodes of its children."""

    level: int
    index: int
    partitions: tuple[int, ...] = ()
    children: tuple[_Node, ...] = ()

    def path(self, directory: Path) -> Path:
        return directory / f"level-{self.level}-{self.index:05d}"

    def leaves(self) -> list[_Node]:
        return [self] if not self.children else [leaf for child in self.children for leaf in child.leaves()]


def _tree(groups: Sequence[tuple[int, ...]]) -> list[list[_Node]]:
    """Return the levels of the tree over `groups`, leaves first, the root last."""
    levels = [[_Node(0, i, partitions=group) for i, group in enumerate(groups)]]
    while len(levels[-1]) > 1:
        below = levels[-1]
        parents = [tuple(below[i : i + FAN_IN]) for i in range(0, len(below), FAN_IN)]
        levels.append([_Node(len(levels), i, children=c) for i, c in enumerate(parents)])
    return levels


def fold(
    reduction: Fold,
    groups: Sequence[tuple[int, ...]],
    rows: Sequence[int],
    directory: Path,
    spec_hash: str,
    *,
    client: Client | None = None,
    progress: Progress | None = None,
) -> Partial:
    """Reduce `groups` of partitions to one partial.

    Parameters
    ----------
    reduction : Fold
        What is done to a group, and how partials are rebuilt.
    groups, rows : sequence
        The groups of partitions and how many rows each stands for (for the progress bar).
    directory : Path
        Where checkpoints live; it must be the same for a second run, and is visible to all workers.
    spec_hash : str
        Checkpoints of another specification are not taken for this one's.
    """
    progress = progress or Progress()
    directory.mkdir(parents=True, exist_ok=True)
    levels = _tree(groups)
    root = levels[-1][0]
    done = _existing(levels, directory, spec_hash)
    progress.start(reduction.name, sum(rows), "rows")
    missing = [leaf.index for leaf in levels[0] if leaf not in done]
    progress.advance(sum(rows) - sum(rows[i] for i in missing))
    for level in levels:
        tasks = [
            Task(
                f"daskrf-{reduction.name}-{spec_hash[:12]}-{n.level}-{n.index}",
                (reduction, n, directory, spec_hash),
            )
            for n in level
            if n not in done
        ]
        for task, _ in run_tasks(_make_node, tasks, client):
            node = task.arguments[1]
            progress.advance(rows[node.index] if node.level == 0 else 0)
    progress.finish()
    return _restore(reduction, root, directory, spec_hash)


def _existing(levels: Sequence[Sequence[_Node]], directory: Path, spec_hash: str) -> set[_Node]:
    """Return the nodes that need no work: those with a valid checkpoint, and all below them."""
    done: set[_Node] = set()
    for level in reversed(levels):
        for node in level:
            if node in done or read_checkpoint(node.path(directory), spec_hash) is not None:
                done.update((node, *node.children))
    return done


def _make_node(reduction: Fold, node: _Node, directory: Path, spec_hash: str) -> None:
    with threadpool_limits(limits=1):  # workers share a host; and BLAS rounds by its number of threads
        if not node.children:
            result = reduction.from_partitions(node.partitions, directory)
        else:
            result = _restore(reduction, node.children[0], directory, spec_hash)
            for child in node.children[1:]:
                result += _restore(reduction, child, directory, spec_hash)
    write_checkpoint(node.path(directory), result.arrays(), {}, spec_hash)
    for child in node.children:
        child.path(directory).unlink(missing_ok=True)


def _restore(reduction: Fold, node: _Node, directory: Path, spec_hash: str) -> Partial:
    checkpoint = read_checkpoint(node.path(directory), spec_hash)
    if checkpoint is None:
        raise StoreError(
            f"The checkpoint {node.path(directory)} is missing or damaged; run the same command again, "
            "which makes it anew."
        )
    return reduction.restore(checkpoint.arrays)


def remove_checkpoints(directory: Path) -> None:
    """Delete the directory of checkpoints, once the result is safe elsewhere."""
    shutil.rmtree(directory, ignore_errors=True)
