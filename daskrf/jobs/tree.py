"""Reduce a library to one small result by a checkpointed tree.

Partitions are cut into groups by a rule that does not depend on the workers. A task reduces its whole group
to one partial sum and checkpoints it; tasks of the next level combine `FAN_IN` partial sums, one at a time: a
worker holds at most two of them. Every node of the tree is a durable file with the hash of the specification:
a second run resumes where the first one ended. The grouping, hence the result, is the same on any number of
workers.

A tree may have several roots, such as the strips of a large Gram matrix. Each is summed from its own leaves,
one root after another; only one root at a time has its leaves on disk.

For scripts, `lazy` offers the same tree as a lazy Dask graph, without checkpoints.
"""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Generic, Protocol, Self, TypeVar

import dask
import numpy as np
from dask.delayed import Delayed
from distributed import Client

from daskrf.arrays import NamedArrays
from daskrf.blas import ONE_BLAS_THREAD
from daskrf.files.backend import absolute, backend
from daskrf.jobs.pieces import submit
from daskrf.jobs.shards import WHOLE, Counts, Share
from daskrf.storage.model import find_checkpoint, read_checkpoint, write_checkpoint
from daskrf.storage.stores.store import hash_of
from daskrf.workers.execution import Task
from daskrf.workers.progress import Progress

FAN_IN = 8


class Partial(Protocol):
    """An element of a commutative monoid that can be written as arrays."""

    def __iadd__(self, other: Self) -> Self:
        """Combine `other` into this one."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `Reduction.restore` needs."""


Block = TypeVar("Block")
Total = TypeVar("Total", bound=Partial)
Result = TypeVar("Result")


class Reduction(ABC, Generic[Block, Total, Result]):
    """How the blocks of a library are reduced, in a durable tree or in a lazy Dask graph.

    A small frozen object sent with each task.

    Attributes
    ----------
    name : str
        Name in progress bars and task keys.
    """

    name: str

    @abstractmethod
    def zero(self) -> Total:
        """Return the partial for no blocks."""

    @abstractmethod
    def add(self, total: Total, block: Block) -> None:
        """Add a block to a partial."""

    @abstractmethod
    def restore(self, arrays: NamedArrays) -> Total:
        """Rebuild a partial from its arrays."""

    def from_chunk(self, chunk: Iterable[Block], onto: Total | None = None) -> Total:
        """Reduce the blocks of a chunk; if `onto` is given, they are added to it in place."""
        total = self.zero() if onto is None else onto
        for block in chunk:
            self.add(total, block)
            del block  # free it before the next one is made
        return total

    def combine(self, total: Total, other: Total) -> Total:
        """Combine `other` into `total` in place, and return `total`."""
        combined: Total = operator.iadd(total, other)
        return combined

    @abstractmethod
    def finalize(self, total: Total, rest: Iterator[Total]) -> Result:
        """Return the result from the total of all chunks and the totals of the tree's other roots."""


def parents(n: int, fan_in: int = FAN_IN) -> list[range]:
    """Divide `n` nodes of a tree among their parents.

    Examples
    --------
    >>> parents(5, 2)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return [range(i, min(i + fan_in, n)) for i in range(0, n, fan_in)]


@dataclass(frozen=True)
class _Node:
    """A node of the tree: a leaf reduces partitions, any other node combines its children."""

    level: int
    index: int
    partitions: tuple[int, ...] = ()
    children: tuple[_Node, ...] = ()

    def path(self, directory: PurePath) -> PurePath:
        return directory / f"level-{self.level}-{self.index:05d}"


def _levels(groups: Sequence[tuple[int, ...]]) -> list[list[_Node]]:
    """Return the levels of the tree over `groups`, from the leaves to the root."""
    levels = [[_Node(0, i, partitions=group) for i, group in enumerate(groups)]]
    while len(below := levels[-1]) > 1:
        cut = parents(len(below), FAN_IN)
        levels.append(
            [_Node(len(levels), i, children=tuple(below[c] for c in places)) for i, places in enumerate(cut)]
        )
    return levels


@dataclass(frozen=True)
class Root(Generic[Block, Total, Result]):
    """One sum over the groups of partitions of its tree; sent with each task.

    Parameters
    ----------
    reduction : Reduction
        How a group is reduced and partials are rebuilt.
    chunk : callable
        Returns the blocks of a group of partitions.
    directory : Path
        Folder of the checkpoints; it must be the same for a second run and visible to all workers.
    key : str
        Hash of the specification; checkpoints with another hash are ignored.
    """

    reduction: Reduction[Block, Total, Result]
    chunk: Callable[[tuple[int, ...]], Iterable[Block]]
    directory: PurePath
    key: str

    def leave(self, node: _Node) -> str:
        """Write the checkpoint of a node; return a value that identifies it."""
        path = node.path(self.directory)
        with ONE_BLAS_THREAD:
            if find_checkpoint(path, self.key) is None:
                self.partial(node)
            checkpoint = find_checkpoint(path, self.key)
            return checkpoint.group if checkpoint is not None else ""

    def partial(self, node: _Node) -> Total:
        """Return the partial sum of a node, from its checkpoint unless that is missing or damaged."""
        checkpoint = read_checkpoint(node.path(self.directory), self.key)
        if checkpoint is not None:
            return self.reduction.restore(checkpoint.arrays)
        if node.children:
            result = self.partial(node.children[0])
            for child in node.children[1:]:
                result = self.reduction.combine(result, self.partial(child))
        else:
            result = self.reduction.from_chunk(self.chunk(node.partitions))
        write_checkpoint(node.path(self.directory), result.arrays(), {}, self.key)
        return result

    def task(self, node: _Node, rows: int) -> Task:
        """Return the task that writes the checkpoint of a node."""
        digest = hash_of([absolute(self.directory), self.key, node.level, node.index])
        key = f"daskrf-{self.reduction.name}-{digest[:16]}-{node.level}-{node.index}"
        return Task(key, (self, node), rows)

    def existing(self, levels: Sequence[Sequence[_Node]]) -> set[_Node]:
        """Return the nodes that need no work: those with a checkpoint and all nodes below them."""
        done: set[_Node] = set()
        # One listing, because checking each file would take long.
        there = set(backend(self.directory).names(self.directory))
        for level in reversed(levels):
            for node in level:
                path = node.path(self.directory)
                if node in done or (path.name in there and find_checkpoint(path, self.key) is not None):
                    done.update((node, *node.children))
        return done


@dataclass(frozen=True)
class Tree(Generic[Block, Total, Result]):
    """Sums over the same groups of partitions, one per root; their leaves are the pieces of a job.

    Parameters
    ----------
    roots : sequence of Root
    groups, rows : sequence
        The groups of partitions and how many rows each stands for (for the progress bar).
    unit : str
        Plural name of a leaf in reports.
    """

    roots: Sequence[Root[Block, Total, Result]]
    groups: Sequence[tuple[int, ...]]
    rows: Sequence[int]
    unit: str = "parts of the sum"

    def make(
        self, share: Share = WHOLE, client: Client | None = None, progress: Progress | None = None
    ) -> Counts:
        """Make the leaves of all roots; a whole run makes the upper nodes too."""
        counts = (self._make(root, share, client, progress or Progress()) for root in self._keyed)
        return sum(counts, Counts())

    def result(self) -> Result:
        """Return the result of the first root's reduction from the totals of all roots, read one by one."""
        levels = _levels(self.groups)
        totals = (root.partial(levels[-1][0]) for root in self._keyed)
        return self.roots[0].reduction.finalize(next(totals), totals)

    @property
    def _keyed(self) -> list[Root[Block, Total, Result]]:
        """The roots, with the groups in their keys: trees over other groups have the same file names."""
        return [replace(root, key=hash_of([root.key, FAN_IN, self.groups])) for root in self.roots]

    def _make(
        self, root: Root[Block, Total, Result], share: Share, client: Client | None, progress: Progress
    ) -> Counts:
        """Make the missing nodes of one root that belong to the share."""
        backend(root.directory).make(root.directory)
        levels = _levels(self.groups)
        done = root.existing(levels)
        leaves = set(share.of_all(range(len(self.groups))))
        existing = {i for i in leaves if levels[0][i] in done}
        rows = [sum(self.rows[i] for i in some) for some in (leaves, existing)]
        progress.start(root.reduction.name, rows[0], "rows", rows[1])
        for level in levels if share.whole else levels[:1]:
            lacking = [node for node in level if node not in done and (node.level or node.index in leaves)]
            tasks = [root.task(node, 0 if node.level else self.rows[node.index]) for node in lacking]
            submit(Root.leave, tasks, client, progress, _forget_children)
        progress.finish()
        missing = []
        if not share.whole:
            done = root.existing(levels)
            missing = [node.index for node in levels[0] if node not in done]
        return share.counts(len(self.groups), len(leaves) - len(existing), missing)


def _forget_children(task: Task, _: object) -> None:
    """Delete the inputs of a finished task. Tasks do not do this: Dask may rerun one whose worker died."""
    root, node = task.arguments
    for child in node.children:
        backend(root.directory).remove(child.path(root.directory))


class Copied(Partial, Protocol):
    """A partial that can be copied."""

    def copy(self) -> Self:
        """Return an independent copy."""


AnyCopied = TypeVar("AnyCopied", bound=Copied)


def lazy(reduction: Reduction[Block, AnyCopied, Result], blocks: Sequence[object]) -> Delayed:
    """Return the sum of delayed blocks as a graph in which a task holds at most two partials.

    Each task adds a block or a partial to a copy of the previous task's result, because Dask may rerun a task
    on the same input. Partials need a `copy` method.
    """
    extended, combined = dask.delayed(_extended, pure=True), dask.delayed(_combined, pure=True)

    def partial(node: _Node) -> Delayed:
        if node.children:
            parts = map(partial, node.children)
            return functools.reduce(lambda one, other: combined(reduction, one, other), parts)
        addends = (blocks[i] for i in node.partitions)
        return functools.reduce(lambda total, block: extended(reduction, total, block), addends, None)

    levels = _levels([tuple(group) for group in parents(len(blocks))])
    return partial(levels[-1][0])


def _extended(
    reduction: Reduction[Block, AnyCopied, Result], total: AnyCopied | None, block: Block
) -> AnyCopied:
    return reduction.from_chunk([block], None if total is None else total.copy())


def _combined(
    reduction: Reduction[Block, AnyCopied, Result], total: AnyCopied, other: AnyCopied
) -> AnyCopied:
    return reduction.combine(total.copy(), other)
