"""Faults at a chosen call of a chosen function, in any process: not by the luck of timing.

An `Injector` replaces functions of the package in the process where it is armed. Each counts its
calls over all processes together, by files in a directory, so that a test can say "the third
partition that any worker commits" and, afterwards, how often every group was made.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from distributed import Client, WorkerPlugin, get_worker

FINGERPRINT = "daskrf.commands.fingerprint:FingerprintStage.make"
FEATURIZE = "daskrf.commands.featurize:FeaturizeStage.make"
PREDICT = "daskrf.commands.predict:PredictStage.make"
FIT = "daskrf.fitting.totals:Sums.from_chunk"
SCREEN = "daskrf.screens.searches:Search.from_chunk"
WORK = (FINGERPRINT, FEATURIZE, FIT, PREDICT, SCREEN)  # the bodies of all tasks, in the order of the job
PUBLISH = "daskrf.storage.stores.store:Store.publish"  # a partition is staged, under no final name
COMMIT = "daskrf.files.backend:sync_files"  # its files have their names, nothing is forced to the disk
RECORD = "daskrf.storage.stores.store:atomic_write"  # all is on the disk but the record
CHECKPOINT = "daskrf.jobs.tree:write_checkpoint"


class Crash(BaseException):
    """The end of a process, as far as the code in it can tell."""


@dataclass(frozen=True)
class Fault:
    """What happens at one call, or at every so many.

    Parameters
    ----------
    target : str
        "module:name" or "module:class.name", of a function of the package.
    action : str, int, float or Path
        "SIGKILL" or "SIGTERM" (of the calling process), "SIGINT twice", "SIGSTOP" (it goes on at SIGCONT),
        "SIGKILL 123" (of process 123), "all" (SIGKILL of all workers of its cluster), "retire" (of the
        calling worker, as when a cluster shrinks; another comes in its place), "crash" (`Crash` is raised),
        the number of an `OSError`, seconds that the call takes longer (a float), or a directory whose file
        system is filled to the last page.
    call : int
        The first call that it strikes, from 1, counted over all processes.
    times : int
        How many calls from there on.
    every : int
        Strikes each `every`-th call: of 3, calls 3, 6, 9, ... with ``call=3``.
    after : bool
        Strikes when the function has done its work, and its result is lost.
    """

    target: str
    action: str | int | float | Path = "SIGKILL"
    call: int = 1
    times: int = 1
    every: int = 1
    after: bool = False

    def strikes(self, number: int) -> bool:
        """Whether call `number` is struck."""
        step, rest = divmod(number - self.call, self.every)
        return 0 <= step < self.times and rest == 0


@dataclass
class Injector:
    """Faults, and the counting of calls; the same object serves any number of processes."""

    marks: str
    faults: tuple[Fault, ...] = ()
    counted: tuple[str, ...] = WORK
    _undo: list[Callable[[], None]] = field(default_factory=list, repr=False)

    def arm(self) -> None:
        """Replace the functions in this process."""
        for target in dict.fromkeys([*self.counted, *(fault.target for fault in self.faults)]):
            owner, name = _resolve(target)
            original = getattr(owner, name)
            setattr(owner, name, self._wrapped(target, original))
            self._undo.append(functools.partial(setattr, owner, name, original))

    def disarm(self) -> None:
        """Put the functions back."""
        while self._undo:
            self._undo.pop()()

    def __enter__(self) -> Injector:
        self.arm()
        return self

    def __exit__(self, *_: object) -> None:
        self.disarm()

    def _wrapped(self, target: str, original: Callable[..., Any]) -> Callable[..., Any]:
        faults = [fault for fault in self.faults if fault.target == target]

        @functools.wraps(original)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            number = self._count(target, arguments)
            struck = [fault for fault in faults if fault.strikes(number)]
            for fault in struck:
                if not fault.after:
                    self._strike(fault)
            result = original(*arguments, **options)
            for fault in struck:
                if fault.after:
                    self._strike(fault)
            return result

        return wrapped

    def _count(self, target: str, arguments: tuple[Any, ...]) -> int:
        """Leave a mark of this call, and return its number."""
        folder = Path(self.marks) / _file_name(target)
        folder.mkdir(parents=True, exist_ok=True)
        number = 1 + sum(1 for _ in folder.iterdir())
        while True:
            try:
                descriptor = os.open(folder / f"{number:06d}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                number += 1
                continue
            about = arguments[1] if "." in target.partition(":")[2] and len(arguments) > 1 else arguments[0]
            os.write(descriptor, repr(about).encode())
            os.close(descriptor)
            return number

    def _strike(self, fault: Fault) -> None:
        struck = Path(self.marks) / "struck"
        struck.mkdir(exist_ok=True)
        (struck / uuid.uuid4().hex).write_text(f"{fault.target} {fault.action}")
        if isinstance(fault.action, float):
            time.sleep(fault.action)
            return
        if isinstance(fault.action, int):
            raise OSError(fault.action, os.strerror(fault.action))
        if fault.action == "retire":
            worker = get_worker()
            worker.loop.add_callback(worker.close_gracefully, restart=True)
            time.sleep(1.0)  # it is gone for the scheduler before the call is made
            return
        if fault.action == "crash":
            raise Crash(fault.target)
        if isinstance(fault.action, Path):
            fill_up(fault.action)
            return
        if fault.action == "SIGINT twice":
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
            return
        signal_name, _, pid = fault.action.partition(" ")
        if pid:
            os.kill(int(pid), getattr(signal, signal_name))
            return
        if fault.action == "SIGSTOP":
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        if fault.action == "all":
            for process in (
                psutil.Process().parent().children()
            ):  # of the server that all workers are forked from
                if process.pid != os.getpid():
                    process.kill()
        os.kill(os.getpid(), signal.SIGTERM if fault.action == "SIGTERM" else signal.SIGKILL)
        time.sleep(60)  # the signal may be on its way

    def calls(self, target: str) -> list[str]:
        """What each call of a counted function was about, in order."""
        folder = Path(self.marks) / _file_name(target)
        return [path.read_text() for path in sorted(folder.iterdir())] if folder.is_dir() else []

    def redone(self, *targets: str) -> int:
        """How many calls were about what an earlier call had been about."""
        return sum(n - 1 for target in targets for n in Counter(self.calls(target)).values())

    def struck(self) -> int:
        """How many times a fault has struck."""
        folder = Path(self.marks) / "struck"
        return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


class _Plugin(WorkerPlugin):
    """Arms an injector in every worker, the replacements of killed ones too."""

    def __init__(self, injector: Injector) -> None:
        self.injector = injector
        self.name = f"faults-{uuid.uuid4().hex}"

    def setup(self, worker: Any) -> None:
        self.injector.arm()

    def teardown(self, worker: Any) -> None:
        self.injector.disarm()


@contextmanager
def on_workers(
    client: Client, marks: Path, *faults: Fault, counted: Sequence[str] = WORK
) -> Iterator[Injector]:
    """Arm all workers of a cluster, those still to come too, while the block runs."""
    injector = Injector(str(marks), faults, tuple(counted))
    plugin = _Plugin(injector)
    client.register_plugin(plugin)
    try:
        yield injector
    finally:
        # The scheduler may be gone, its client closed, and a new worker not have it yet.
        with suppress(OSError, RuntimeError, KeyError):
            client.unregister_worker_plugin(plugin.name)


def fill_up(directory: Path) -> None:
    """Write a file called ``filler`` until the file system of `directory` takes no more."""
    with open(directory / "filler", "wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass


def _file_name(target: str) -> str:
    return target.replace(":", ".")


def _resolve(target: str) -> tuple[Any, str]:
    """The module or class that holds a function, and its name there."""
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for attribute in outer:
        owner = getattr(owner, attribute)
    return owner, name
