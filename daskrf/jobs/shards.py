"""One job as several independent runs, without a cluster: each shard makes its share, a last run the rest.

Each task of a job array runs the same command with its own ``--shard i/n``, in Python by `run_shard`; they do
not communicate. A shard makes partitions with commit records, and checkpoints of sums, as any other run
would. If it fails, only its own share is missing; the final command, the same one without ``--shard``, makes
what is missing before it combines, cleans up and reports.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import PurePath
from typing import ParamSpec, cast

from daskrf.errors import InputError, StoreError
from daskrf.files.backend import backend, is_file
from daskrf.parameters import Command
from daskrf.storage.differences import differences
from daskrf.storage.integrity import read_sealed, write_sealed
from daskrf.storage.lock import StoreLock

PLAN = "shards.json"  # the specification that all shards of a job without a store share, in its work folder


@dataclass(frozen=True)
class Shard:
    """Share `index` (from 0) of a job cut into `count` shares; as text ``"index/count"``, such as ``"0/64"``.

    Raises
    ------
    InputError
        If there is no such share.

    Examples
    --------
    >>> Shard.of("1/3")
    Shard(index=1, count=3)
    >>> [p for p in range(8) if Shard(1, 3).owns(p)]
    [1, 4, 7]
    """

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise _refusal(f"{self.index}/{self.count}")

    @classmethod
    def of(cls, shard: Shard | str) -> Shard:
        """Return the shard named by a text i/n; a `Shard` is returned as is."""
        if isinstance(shard, Shard):
            return shard
        is_text = isinstance(shard, str)
        match = re.fullmatch(r"\s*([0-9]+)\s*/\s*([0-9]+)\s*", shard) if is_text else None
        if match is None:
            raise _refusal(shard)
        return cls(int(match[1]), int(match[2]))

    def owns(self, number: int) -> bool:
        """Return whether this shard makes the partition, or the leaf of a sum, of this number."""
        return number % self.count == self.index

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def _refusal(text: object) -> InputError:
    return InputError(
        f"A shard is i/n with i from 0 to n - 1, such as 0/64 for the first and 63/64 for the last of 64, "
        f"not {text!r}."
    )


@dataclass(frozen=True)
class Counts:
    """Pieces of a share that were made now or already existed; pieces of all shares missing and in total."""

    made: int = 0
    found: int = 0
    missing: int = 0
    total: int = 0

    def __add__(self, other: Counts) -> Counts:
        mine, others = dataclasses.astuple(self), dataclasses.astuple(other)
        return Counts(*(a + b for a, b in zip(mine, others, strict=True)))


@dataclass(frozen=True)
class ShardReport:
    """What a shard, or the preparation of all shards, did.

    Attributes
    ----------
    output : Path
        Output of the job.
    shard : Shard or None
        None for the preparation.
    unit : str
        What the pieces of the job are: partitions, or parts of a sum.
    seconds : float
    made, found : int
        Pieces of this shard that were made now or already existed.
    missing, total : int
        Pieces of all shards that are still to be made, and in total.
    """

    output: PurePath
    shard: Shard | None
    unit: str
    seconds: float
    made: int
    found: int
    missing: int
    total: int

    def __str__(self) -> str:
        rest = f"{self.missing:,} of {self.total:,} {self.unit} of all shards are missing"
        if self.shard is None:
            return (
                f"{self.output} is prepared for shards ({self.seconds:.1f} s); {rest}\n"
                "  run the same command with --shard 0/n to n-1/n in place of --prepare, then without either"
            )
        when = "when all shards are done, " if self.missing else ""
        return (
            f"shard {self.shard} of {self.output}: {self.made:,} {self.unit} made, {self.found:,} already "
            f"done ({self.seconds:.1f} s); {rest}\n"
            f"  {when}run the same command without --shard: it makes any missing ones and finishes the job"
        )


@dataclass(frozen=True)
class Share:
    """The part of a job that one run does: all of it (share 0/1 plus the finish), a shard, or no pieces."""

    shard: Shard | None = None
    prepare: bool = False

    @property
    def whole(self) -> bool:
        """Whether this is a run without shards, which may delete and replace leftovers of other runs."""
        return self.shard is None and not self.prepare

    @property
    def name(self) -> str | None:
        """Name in the run log; None for a whole run."""
        return "prepare" if self.prepare else str(self.shard) if self.shard else None

    def of_all(self, numbers: Collection[int]) -> list[int]:
        """Return those of `numbers` that belong to this share."""
        if self.prepare:
            return []
        return [i for i in numbers if self.shard is None or self.shard.owns(i)]

    def part_of(self, size: int) -> int:
        """Return how many of `size` bytes this share writes; all of them if it prepares the shards."""
        return size // (1 if self.shard is None else self.shard.count)

    def lock(self, directory: PurePath, command: str, tell: Callable[[str], None]) -> StoreLock:
        """Return the lock of this share in `directory`."""
        if self.whole:
            return StoreLock(directory, f"daskrf {command}", tell=tell)
        name = "prepare" if self.shard is None else f"{self.shard.index}-of-{self.shard.count}"
        option = "--prepare" if self.shard is None else f"--shard {self.shard}"
        return StoreLock(directory, f"daskrf {command} {option}", name, tell=tell)

    def counts(self, total: int, made: int = 0, missing: Collection[int] = ()) -> Counts:
        """Return the counts of a share that made `made` pieces; `missing` lists the missing ones of all."""
        n_there = len(self.of_all(range(total))) - made - len(self.of_all(missing))
        return Counts(made, n_there, len(missing), total)

    def report(self, output: PurePath, unit: str, counts: Counts, seconds: float) -> ShardReport:
        """Return the report of a share that is not a whole run."""
        return ShardReport(output, self.shard, unit, seconds, **dataclasses.asdict(counts))


WHOLE = Share()
shard_of = Shard.of

_SHARE: ContextVar[Share] = ContextVar("share", default=WHOLE)
_Arguments = ParamSpec("_Arguments")


def current_share() -> Share:
    """Return the share that the next job makes: all of it, unless `sharing` says otherwise."""
    return _SHARE.get()


@contextmanager
def sharing(shard: Shard | str | None = None, prepare: bool = False) -> Iterator[None]:
    """Let a command that is called within the context make only a share of its job.

    The command then returns a `ShardReport` in place of its report: call it by `run_shard` and
    `prepare_shards`, which say so by their types.

    Parameters
    ----------
    shard : Shard or str, optional
        ``"i/n"``: make only shard i (counted from 0) of n, without workers, as a task of a job array does.
        Shards may run at the same time, on any hosts. When all have ended, run the command once more without
        this option: it makes what is missing and finishes the job.
    prepare : bool
        Do only what must come before the shards: read the inputs, fit the map and make the plan. All shards
        can then start at once.

    Raises
    ------
    InputError
        If both are given, or there is no such shard.
    """
    if (shard is not None and prepare) or not _SHARE.get().whole:
        raise InputError("Preparation serves all shards at once; give shard or prepare, not both.")
    token = _SHARE.set(Share(None if shard is None else Shard.of(shard), prepare))
    try:
        yield
    finally:
        _SHARE.reset(token)


@contextmanager
def taken_share() -> Iterator[Share]:
    """Yield the share that a job is to make, which jobs that it starts itself do not take over."""
    share = _SHARE.get()
    token = _SHARE.set(WHOLE)
    try:
        yield share
    finally:
        _SHARE.reset(token)


def run_shard(
    command: Callable[_Arguments, object],
    shard: Shard | str,
    /,
    *arguments: _Arguments.args,
    **named: _Arguments.kwargs,
) -> ShardReport:
    """Make one shard of the job of a command, as a task of a job array does; `--shard` in Python.

    Shards may run at the same time, on any hosts, each without workers. When all have ended, call the command
    itself: it makes what is missing and finishes the job.

    Parameters
    ----------
    command : function
        `fingerprint`, `featurize`, `fit`, `predict`, `screen`, `suggest`, `search` or `build_space`.
    shard : Shard or str
        ``"i/n"`` for shard i, counted from 0, of n.
    *arguments, **named
        Those of the command.

    Returns
    -------
    ShardReport

    Raises
    ------
    InputError
        If the command has no shards, there is no such shard, or a client is given; else as the command.

    Examples
    --------
    >>> import daskrf, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     library = ["CCO", "c1ccccc1O", "CC(=O)O"]
    ...     store = f"{folder}/fp"
    ...     for shard in ("0/2", "1/2"):
    ...         report = daskrf.run_shard(daskrf.fingerprint, shard, library, store, rows_per_partition=2)
    ...     (report.made, report.missing, daskrf.fingerprint(library, store, rows_per_partition=2).kept)
    (1, 0, 3)
    """
    _check_command(command)
    with sharing(shard):
        return cast(ShardReport, command(*arguments, **named))


def prepare_shards(
    command: Callable[_Arguments, object], /, *arguments: _Arguments.args, **named: _Arguments.kwargs
) -> ShardReport:
    """Do what must come before the shards of a job, so that all can start at once; `--prepare` in Python.

    It reads the inputs, fits the map and makes the plan.

    Parameters
    ----------
    command : function
        As in `run_shard`.
    *arguments, **named
        Those of the command; unlike shards it may have workers, given as `client`.

    Returns
    -------
    ShardReport

    Raises
    ------
    InputError
        If the command has no shards; else as the command.

    Examples
    --------
    >>> import daskrf, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = daskrf.prepare_shards(daskrf.fingerprint, ["CCO", "CCN"], f"{folder}/fp")
    >>> (report.shard, report.made, report.missing)
    (None, 0, 1)
    """
    _check_command(command)
    with sharing(prepare=True):
        return cast(ShardReport, command(*arguments, **named))


def has_shards(command: Callable[..., object]) -> bool:
    """Return whether the job of a function of `daskrf.commands` can be made in shards."""
    while isinstance(command, functools.partial):
        command = command.func
    settings = getattr(inspect.getmodule(inspect.unwrap(command)), "CLI", None)
    return isinstance(settings, Command) and settings.shards


def _check_command(command: Callable[..., object]) -> None:
    if not has_shards(command):
        name = getattr(command, "__name__", repr(command))
        raise InputError(f"{name} has no shards; call it as it is.")


def agree(share: Share, path: PurePath, spec: Mapping[str, object]) -> None:
    """Write `spec` to the file `path` for the other shards of a job, or refuse to go on if it differs.

    A whole run does not write the file, but compares `spec` with that of earlier shards.

    Raises
    ------
    StoreError
        If options differ; the error lists each of them.
    """
    spec = json.loads(json.dumps(spec))
    if not share.whole:
        backend(path).make(path.parent)
        write_sealed(path, spec, keep=True)
    elif not is_file(path):
        return
    plan = read_sealed(path, "delete that folder, and run all commands of the job again")
    if plan != spec:
        raise StoreError(
            f"{path.parent} was prepared for shards with other options: {differences(plan, spec)}; repeat "
            "them, give another output path, or delete that folder"
        )
