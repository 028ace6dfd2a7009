"""Reduce a store to one small result by a checkpointed tree.

Partitions are cut into groups by a rule that knows nothing of workers. A task folds its whole
group into one partial and checkpoints it; tasks of the next level combine `FAN_IN` partials,
one at a time, so that a process holds two of them at most. Every node of the tree is a durable
file that carries the hash of the specification, so a second run starts where the first one
ended, and the grouping, hence the result, is the same on any number of workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from distributed import Client

from daskrf.jobs.execution import Task, run_tasks
from daskrf.jobs.progress import Progress
from daskrf.jobs.shards import Pieces, Share
from daskrf.jobs.threads import ONE_BLAS_THREAD
from daskrf.storage.files import digest_of, remove_quietly
from daskrf.storage.model import has_checkpoint, read_checkpoint, write_checkpoint
from daskrf.storage.plans import hash_of

__all__ = ["FAN_IN", "Fold", "Partial", "fold", "fold_share", "remove_checkpoints"]

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

    def from_partitions(self, partitions: Sequence[int]) -> Partial:
        """Reduce a group."""

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
    """Reduce `groups` of partitions to one partial; the caller holds the lock of the job.

    Parameters
    ----------
    reduction : Fold
        What is done to a group, and how partials are rebuilt.
    groups, rows : sequence
        The groups of partitions and how many rows each stands for (for the progress bar).
    directory : Path
        Where checkpoints live; it must be the same for a second run, and is visible to all workers.
    spec_hash : str
        Checkpoints of another specification, or of other groups, are not taken for this one's.
    """
    progress = progress or Progress()
    directory.mkdir(parents=True, exist_ok=True)
    levels, spec_hash = _tree(groups), _key_of(groups, spec_hash)
    root = levels[-1][0]
    done = _existing(levels, directory, spec_hash)
    finished = sum(rows[leaf.index] for leaf in levels[0] if leaf in done)
    progress.start(reduction.name, sum(rows), "rows", finished)
    for level in levels:
        tasks = [_task(reduction, node, rows, directory, spec_hash) for node in level if node not in done]
        for task, _ in run_tasks(_make_node, tasks, client, progress):
            node = task.arguments[1]
            for child in node.children:  # here, because Dask may run a task again whose worker has died
                child.path(directory).unlink(missing_ok=True)
            progress.advance(task.rows)
    progress.finish()
    return _partial(reduction, root, directory, spec_hash)


def fold_share(
    share: Share,
    reduction: Fold,
    groups: Sequence[tuple[int, ...]],
    rows: Sequence[int],
    directory: Path,
    spec_hash: str,
    *,
    progress: Progress,
) -> Pieces:
    """Make the leaves of `fold`'s tree that are a shard's, and lack; the arguments are those of `fold`."""
    directory.mkdir(parents=True, exist_ok=True)
    levels, spec_hash = _tree(groups), _key_of(groups, spec_hash)
    done = _existing(levels, directory, spec_hash)
    missing = {leaf.index: leaf for leaf in levels[0] if leaf not in done}
    mine = share.of_all(missing)
    progress.start(reduction.name, sum(rows[i] for i in mine), "rows")
    tasks = [_task(reduction, missing[i], rows, directory, spec_hash) for i in mine]
    for task, _ in run_tasks(_make_node, tasks, None, progress):
        progress.advance(task.rows)
    progress.finish()
    done = _existing(levels, directory, spec_hash)
    return share.pieces(len(groups), len(mine), [leaf.index for leaf in levels[0] if leaf not in done])


def _key_of(groups: Sequence[tuple[int, ...]], spec_hash: str) -> str:
    """Return what checkpoints are known by: another version may cut otherwise and number nodes alike."""
    return hash_of([spec_hash, FAN_IN, groups])


def _task(reduction: Fold, node: _Node, rows: Sequence[int], directory: Path, spec_hash: str) -> Task:
    digest = hash_of([str(directory.resolve()), spec_hash, node.level, node.index])
    key = f"daskrf-{reduction.name}-{digest[:16]}-{node.level}-{node.index}"
    return Task(key, (reduction, node, directory, spec_hash), 0 if node.level else rows[node.index])


def _existing(levels: Sequence[Sequence[_Node]], directory: Path, spec_hash: str) -> set[_Node]:
    """Return the nodes that need no work: those with a checkpoint, and all below them."""
    done: set[_Node] = set()
    # One call, where looking at each would take long.
    there = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    for level in reversed(levels):
        for node in level:
            path = node.path(directory)
            if node in done or (path.name in there and has_checkpoint(path, spec_hash)):
                done.update((node, *node.children))
    return done


def _make_node(reduction: Fold, node: _Node, directory: Path, spec_hash: str) -> str:
    """Leave the checkpoint of a node; return what tells it from others."""
    with ONE_BLAS_THREAD:
        if not has_checkpoint(node.path(directory), spec_hash):
            _partial(reduction, node, directory, spec_hash)
        return digest_of(node.path(directory))


def _partial(reduction: Fold, node: _Node, directory: Path, spec_hash: str) -> Partial:
    """Return the partial of a node: from its checkpoint, or, where that is missing or damaged, made again."""
    checkpoint = read_checkpoint(node.path(directory), spec_hash)
    if checkpoint is not None:
        return reduction.restore(checkpoint.arrays)
    if node.children:
        result = _partial(reduction, node.children[0], directory, spec_hash)
        for child in node.children[1:]:
            result += _partial(reduction, child, directory, spec_hash)
    else:
        result = reduction.from_partitions(node.partitions)
    write_checkpoint(node.path(directory), result.arrays(), {}, spec_hash)
    return result


def remove_checkpoints(directory: Path) -> None:
    """Delete the directory of checkpoints, once the result is safe elsewhere."""
    remove_quietly(directory)
