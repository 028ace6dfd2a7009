"""The checkpointed tree: right for any shape, resumable, and deaf to checkpoints of other work."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.jobs import pieces, tree
from daskrf.jobs.pieces import group_by_rows
from daskrf.jobs.shards import Shard, Share
from daskrf.jobs.tree import FAN_IN, Reduction, Root, Tree, parents
from daskrf.workers.execution import Task, run_tasks
from daskrf.workers.progress import Progress


@dataclass
class Total:
    value: int

    def __iadd__(self, other: Total) -> Total:
        self.value += other.value
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        return {"value": np.array(self.value)}


@dataclass(frozen=True)
class SumOfSquares(Reduction):
    """Sums the squares of partition numbers; leaves a mark for every group it folds, and may fail at one."""

    marks: str
    fail_at: int = -1
    name: str = "sum"

    def from_chunk(self, chunk: Iterable[int], onto: Total | None = None) -> Total:
        partitions = list(chunk)
        if self.fail_at in partitions:
            raise RuntimeError("killed")
        with open(self.marks, "a") as file:
            file.write(f"{partitions[0]}\n")
        return super().from_chunk(partitions, onto)

    def finalize(self, total: Total, rest: Iterator[Total]) -> Total:
        for other in rest:
            total += other
        return total

    def zero(self) -> Total:
        return Total(0)

    def add(self, total: Total, block: int) -> None:
        total.value += block * block

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Total:
        return Total(int(arrays["value"]))


def fold(
    reduction: SumOfSquares,
    groups: Sequence[tuple[int, ...]],
    rows: Sequence[int],
    directory: Path,
    spec: str,
    progress: Progress | None = None,
) -> Total:
    """Make the tree of one root, and return its result."""
    whole = Tree([Root(reduction, _same, directory, spec)], groups, rows)
    whole.make(progress=progress)
    total: Total = whole.result()
    return total


def _same(partitions: tuple[int, ...]) -> tuple[int, ...]:
    return partitions


def _run(
    directory: Path, n_groups: int, size: int = 2, fail_at: int = -1, spec: str = "spec"
) -> tuple[int, list[int]]:
    groups = [tuple(range(i * size, (i + 1) * size)) for i in range(n_groups)]
    marks = directory / "marks"
    marks.write_text("")
    result = fold(SumOfSquares(str(marks), fail_at), groups, [size] * n_groups, directory / "tree", spec)
    assert isinstance(result, Total)
    return result.value, [int(line) for line in marks.read_text().split()]


@pytest.mark.parametrize("n_groups", [1, 2, FAN_IN, FAN_IN + 1, FAN_IN**2 + 3])
def test_any_number_of_groups(tmp_path: Path, n_groups: int) -> None:
    value, made = _run(tmp_path, n_groups)
    assert value == sum(p * p for p in range(2 * n_groups))
    assert made == [2 * i for i in range(n_groups)]


def test_only_the_root_is_left(tmp_path: Path) -> None:
    _run(tmp_path, 70)
    assert [p.name for p in (tmp_path / "tree").iterdir()] == ["level-3-00000"]


@pytest.mark.parametrize("fail_at", [0, 7, 38])
def test_second_run_does_what_is_left(tmp_path: Path, fail_at: int) -> None:
    with pytest.raises(RuntimeError):
        _run(tmp_path, 20, fail_at=fail_at)
    value, made = _run(tmp_path, 20)
    assert value == sum(p * p for p in range(40))
    assert made == list(range(fail_at - fail_at % 2, 40, 2))


def test_third_run_makes_nothing(tmp_path: Path) -> None:
    _run(tmp_path, 20)
    assert _run(tmp_path, 20) == (sum(p * p for p in range(40)), [])


def test_tasks_may_be_run_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask runs a task again if its worker dies before the result is taken; by then children may be gone."""
    again = []

    def twice(function: Callable[..., Any], tasks: Iterable[Task], *rest: Any) -> Iterator[tuple[Task, Any]]:
        for task, result in run_tasks(function, tasks, *rest):
            yield task, result  # after which the driver deletes what the task has read
            again.append(function(*task.arguments) == result)

    monkeypatch.setattr(pieces, "run_tasks", twice)
    value, made = _run(tmp_path, 11)
    assert value == sum(p * p for p in range(22))
    assert made == [2 * i for i in range(11)], "what is there is not made again"
    assert again == [True] * (11 + 2 + 1)


def test_progress_counts_the_rows_of_leaves_alone(tmp_path: Path) -> None:
    """And those of leaves that are there as done, when it starts."""

    class Counting(Progress):
        total = done = 0

        def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
            self.total, self.done, self.first = total, done, done

        def advance(self, amount: int) -> None:
            self.done += amount

    groups, rows, marks = [(p,) for p in range(10)], [3 + p for p in range(10)], str(tmp_path / "marks")
    for fail_at, first, done in ((4, 0, 3 + 4 + 5 + 6), (-1, 18, 75), (-1, 75, 75)):
        counting = Counting()
        with nullcontext() if fail_at < 0 else pytest.raises(RuntimeError):
            fold(SumOfSquares(marks, fail_at), groups, rows, tmp_path / "t", "spec", progress=counting)
        assert (counting.total, counting.first, counting.done) == (75, first, done)


def test_a_result_that_is_gone_is_made_again(tmp_path: Path) -> None:
    first = _run(tmp_path, 11)
    (root,) = (tmp_path / "tree").iterdir()
    shutil.rmtree(root)
    assert _run(tmp_path, 11) == first
    assert _run(tmp_path, 11) == (first[0], [])


def test_checkpoints_of_other_work_are_not_taken(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        _run(tmp_path, 20, fail_at=30)
    _, made = _run(tmp_path, 20, spec="other")
    assert len(made) == 20


def test_checkpoints_of_another_cut_are_not_taken(tmp_path: Path) -> None:
    """Another version may group the same partitions otherwise: a leaf's number is not what it holds."""
    tree = tmp_path / "tree"
    # Of leaves 0 and 1 of the first cut and leaf 2 of the second, 2 would be in twice.
    first, second = [(0, 1), (2,), (3,)], [(0,), (1,), (2, 3)]
    with pytest.raises(RuntimeError):
        fold(SumOfSquares(str(tmp_path / "marks"), fail_at=3), first, [1] * 3, tree, "spec")
    assert len(list(tree.iterdir())) == 2
    result = fold(SumOfSquares(str(tmp_path / "marks")), second, [1] * 3, tree, "spec")
    assert isinstance(result, Total)
    assert result.value == 0 + 1 + 4 + 9


def test_checkpoints_of_another_fan_in_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's number is not what is below it, either."""
    monkeypatch.setattr(tree, "FAN_IN", 2)
    _run(tmp_path, 8)
    inner = tmp_path / "tree" / "level-1-00000"
    (tmp_path / "tree" / "level-3-00000").rename(inner)  # the sum of all
    monkeypatch.setattr(tree, "FAN_IN", 4)
    assert _run(tmp_path, 8) == (sum(p * p for p in range(16)), [2 * i for i in range(8)])


@pytest.mark.parametrize("where", [0.0, 0.2, 0.5, 0.9])
def test_damaged_checkpoints_are_made_again(tmp_path: Path, where: float) -> None:
    with pytest.raises(RuntimeError):
        _run(tmp_path, 6, fail_at=8)
    files = [path for path in (tmp_path / "tree" / "level-0-00002").rglob("*") if path.is_file()]
    read = sorted(path for path in files if path.name != "zarr.json")  # which is for other readers
    path = read[int(where * len(read))]
    data = bytearray(path.read_bytes())
    data[int(where * len(data))] ^= 1
    path.write_bytes(data)
    value, made = _run(tmp_path, 6)
    assert value == sum(p * p for p in range(12))
    assert sorted(made) == [4, 8, 10]


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 60))
def test_groups_keep_order_and_size(sizes: list[int], target: int) -> None:
    groups = group_by_rows(list(enumerate(sizes)), target)
    assert [p for group in groups for p in group] == list(range(len(sizes)))
    for group in groups:
        assert len(group) == 1 or sum(sizes[p] for p in group) <= target
    for left, right in itertools.pairwise(groups):
        assert sum(sizes[p] for p in left) + sizes[right[0]] > target


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 50), st.integers(2, 9))
def test_every_node_has_one_parent(n: int, fan_in: int) -> None:
    cut = parents(n, fan_in)
    assert [i for children in cut for i in children] == list(range(n))
    assert all(0 < len(children) <= fan_in for children in cut)


@pytest.mark.parametrize("n_groups", [1, 11])
def test_roots_have_leaves_and_checkpoints_of_their_own(tmp_path: Path, n_groups: int) -> None:
    marks = tmp_path / "marks"
    roots = [Root(SumOfSquares(str(marks)), _same, tmp_path / f"{i}", f"spec-{i}") for i in range(3)]
    whole = Tree(roots, [(p,) for p in range(n_groups)], [1] * n_groups)
    shards = [whole.make(Share(Shard(i, 2))) for i in (1, 0)]
    assert [shard.made for shard in shards] == [3 * (n_groups // 2), 3 * -(-n_groups // 2)]
    assert shards[-1].missing == 0
    assert whole.make().made == 0
    assert whole.result().value == 3 * sum(p * p for p in range(n_groups))
    assert sorted(int(line) for line in marks.read_text().split()) == sorted(3 * list(range(n_groups)))
    assert all(len(list((tmp_path / f"{i}").iterdir())) == 1 for i in range(3))
