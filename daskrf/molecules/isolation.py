"""Calls that may crash, hang or eat all memory, made one text at a time in a process that can be replaced.

RDKit is C++: a line that it cannot get through (rings without number, paths without number, a fault of its
own) cannot be interrupted from Python, and takes the process with it when it crashes. So whatever it does
with lines of files, it does in a helper process, which limits its own processor time and memory by the
kernel's means, and notes which text it has in hand. When it dies, that text is given up and a new helper goes
on with the next one.

The helper is a plain child: workers of Dask may not have children of `multiprocessing`, and a process of
several threads should not fork. Requests and answers lie in a file that both have open, in memory where there
are such files; pipes carry nothing but their sizes, so that neither ever waits for the other to read. The
helper ends when its parent is gone, in the middle of its work too, and by itself after some idle time. This
module imports nothing but the standard library, so that a helper is small.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import importlib
import json
import os
import pickle
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple

from daskrf.errors import WorkerError
from daskrf.quantities import format_bytes

__all__ = ["IDLE", "MEMORY", "SILENCE", "Lost", "each", "end_idle", "seconds_a_text", "serve"]

MEMORY = 1 << 30
"""Bytes that a helper may take beyond what it has at its start."""

SILENCE = 300.0
"""Seconds without progress (it is stopped, or waits for a disk) after which a helper is replaced."""

IDLE = 30.0
"""Seconds without a request after which a helper ends."""

_SECONDS = 30.0
_CHUNK = 1024  # texts a request
_ANSWER_SECONDS = 0.5  # of work, or so many bytes, after which a helper answers what it has
_ANSWER_BYTES = 1 << 22
_ATTEMPTS = 3  # with a text that a helper has died of, since something else may have killed it
_STARTS = 3  # of helpers that die before they have begun with any text
_OUT_OF_MEMORY = 77  # exit code
_CRASHES = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS)

_NONE = -1  # no text is in hand
_WORD = struct.Struct("<q")  # the index of the text in hand, with which the shared file begins, and sizes
_PROGRAM = (
    "import json, sys; path, *rest = json.loads(sys.argv[1]); sys.path[:] = path; "
    "from daskrf.molecules.isolation import serve; serve(*rest)"
)


class Lost(NamedTuple):
    """Stands for the result of a text that could not be had, and says why: "crashed (SIGSEGV)", say."""

    reason: str


def seconds_a_text() -> float:
    """Return the processor time that one text may take: 30 s, or the variable DASKRF_MOLECULE_SECONDS."""
    try:
        seconds = float(os.environ.get("DASKRF_MOLECULE_SECONDS", _SECONDS))
    except ValueError:
        return _SECONDS
    return min(seconds, 1e6) if seconds > 0 else _SECONDS


def each(maker: str, arguments: tuple[Any, ...], texts: Sequence[str]) -> list[Any]:
    """Return what a function says of each text, called in a helper process.

    Parameters
    ----------
    maker : str
        ``"module:name"`` of what makes the function, in the helper.
    arguments : tuple
        Of the maker. They are pickled, and so are the results.
    texts : sequence of str

    Returns
    -------
    list
        One entry a text: the function's result, or `Lost`. A text is lost if the function raises; if the
        helper has died of it three times, the last two with nothing else in hand, as when it crashes or needs
        more than `MEMORY`; or if it takes more than `seconds_a_text`. Nothing else depends on the machine.

    Raises
    ------
    WorkerError
        If helpers cannot be started.

    Examples
    --------
    >>> from daskrf.molecules.isolation import each
    >>> each("operator:methodcaller", ("title",), ["one", "two"])
    ['One', 'Two']
    """
    run = _Run(texts)
    task = pickle.dumps((maker, arguments))
    helper: _Helper | None = None
    try:
        while part := run.part():
            helper = helper or _borrow()
            answer = helper.ask(task, part)
            if isinstance(answer, _Death):
                helper.end()
                helper = None
                run.bury(answer)
            else:
                run.take(answer)
    except BaseException:
        if helper is not None:  # it may be in the middle of an answer
            helper.end()
        raise
    if helper is not None:
        with _lock:
            _idle.append(helper)
    return run.results


class _Death(NamedTuple):
    """How a helper ended: the text of the request that it had in hand, why, and whether to try that again."""

    begun: int
    reason: str
    again: bool


class _Run:
    """The texts of one call: results of those before `at`, and which of the others have killed helpers."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.at = 0
        self.results: list[Any] = []
        self._deaths: dict[int, int] = {}
        self._settled: dict[int, str] = {}
        self._starts = 0

    def part(self) -> list[str]:
        """Return the next texts: as far as one that has killed a helper, or that one alone."""
        while self.at in self._settled:
            self.take([Lost(self._settled[self.at])])
        stop = min(self.at + _CHUNK, len(self.texts))
        suspects = [index for index in self._deaths if self.at <= index < stop]
        if suspects:
            stop = max(min(suspects), self.at + 1)
        return list(self.texts[self.at : stop])

    def take(self, answer: list[Any]) -> None:
        """Append the results of the next texts, which may be fewer than were asked for."""
        self.results += answer
        self.at += len(answer)
        self._starts = 0

    def bury(self, death: _Death) -> None:
        """Note the death of a helper; give up the text that it died of, if that is settled."""
        if death.begun == _NONE:
            self._starts += 1
            if self._starts == _STARTS:
                raise WorkerError(
                    f"The helper process that reads molecules cannot be started (it {death.reason}); check "
                    f"that {sys.executable} runs on this machine and can import daskrf and rdkit."
                )
            return
        # Results of the same request before it went with the helper, and are made again without it.
        index = self.at + death.begun
        self._deaths[index] = self._deaths.get(index, 0) + 1
        if not death.again or self._deaths[index] == _ATTEMPTS:
            self._settled[index] = death.reason


def _scratch(name: str) -> IO[bytes]:
    """Return an empty file without a name; in memory where there are such, since a disk may be full."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create(name), "wb", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _put(shared: int, data: bytes) -> bytes:
    """Write a request or an answer to the shared file; return what to say of it through the pipe."""
    os.pwrite(shared, data, _WORD.size)
    return _WORD.pack(len(data))


def _get(shared: int, said: bytes) -> Any:
    """Return the request or the answer of which this was said."""
    (size,) = _WORD.unpack(said)
    return pickle.loads(os.pread(shared, size, _WORD.size))


class _Helper:
    """A helper process, seen from its parent."""

    def __init__(self) -> None:
        self._seconds = seconds_a_text()
        try:
            self._start()
        except OSError as error:
            raise WorkerError(
                f"The helper process that reads molecules cannot be started ({error.strerror}); check that "
                f"{sys.executable} runs on this machine, and how many processes, open files and how much "
                "memory you may have."
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()

    def _start(self) -> None:
        with contextlib.ExitStack() as files:
            shared = files.enter_context(_scratch("daskrf-texts"))
            errors = files.enter_context(_scratch("daskrf-errors"))
            self._shared, self._errors = shared.fileno(), errors.fileno()
            paths = [str(path) for path in sys.path]
            arguments = json.dumps([paths, self._shared, self._seconds, MEMORY, IDLE])
            self._process = subprocess.Popen(
                [str(sys.executable), "-P", "-c", _PROGRAM, arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                pass_fds=(self._shared,),
                bufsize=0,
                process_group=0,  # Ctrl-C in the terminal is for its parent
                env={**os.environ, **_ONE_THREAD},
            )
            self._files = files.pop_all()

    @property
    def usable(self) -> bool:
        """Whether the process runs, under the limits of today."""
        return self._process.poll() is None and self._seconds == seconds_a_text()

    def ask(self, task: bytes, texts: list[str]) -> list[Any] | _Death:
        """Return the results of the first of `texts`, one at least, or how the process ended."""
        os.pwrite(self._shared, _WORD.pack(_NONE), 0)
        try:
            os.write(self._input, _put(self._shared, pickle.dumps((task, texts))))
        except BrokenPipeError:
            return self._death(silent=False)
        silent = self._wait()
        said = os.read(self._output, _WORD.size)
        if not said:
            return self._death(silent)
        answer: list[Any] = _get(self._shared, said)
        return answer

    def _begun(self) -> int:
        """Return which text the process has in hand."""
        (index,) = _WORD.unpack(os.pread(self._shared, _WORD.size, 0))
        return int(index)

    def _wait(self) -> bool:
        """Wait for an answer or the end of the process; return whether it made no progress for too long."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        seen, moved, silent = _NONE, time.monotonic(), False
        while not poll.poll(1000 * min(1.0, SILENCE / 4)):
            if (index := self._begun()) != seen:
                seen, moved = index, time.monotonic()
            elif time.monotonic() > moved + SILENCE:
                self._process.kill()
                silent = True
        return silent

    def _death(self, silent: bool) -> _Death:
        """End the process, if it has not ended, and return why."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # it closes its pipes a moment before it ends
            self._process.wait(10)
        self._process.kill()
        code, begun = self._process.wait(), self._begun()
        if code == -signal.SIGPROF:
            took = f"took more than {self._seconds:g} s of processor time on this machine"
            return _Death(begun, took, again=False)
        if silent:
            return _Death(begun, f"did not come back within {SILENCE:g} s on this machine", again=True)
        if code == _OUT_OF_MEMORY:
            return _Death(begun, f"needed more than {format_bytes(MEMORY)} of memory", again=True)
        if begun == _NONE:
            words = os.pread(self._errors, 100_000, 0).decode(errors="replace").split("\n")
            last = next((line for line in reversed(words) if line.strip()), f"ended with exit code {code}")
            return _Death(begun, f"said: {last[:300]}" if any(words) else last, again=True)
        if code in _CRASHES:  # C and C++ may end so where they get no memory
            limit = f"or needed more than {format_bytes(MEMORY)} of memory"
            return _Death(begun, f"crashed ({signal.Signals(-code).name}), {limit}", again=True)
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return _Death(begun, f"ended ({how})", again=True)

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self.close()

    def close(self) -> None:
        """Let go of what belongs to the process; it ends with its pipes."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._files.close()
        self._process.returncode = self._process.returncode or 0  # a fork of the parent must not wait for it


_idle: list[_Helper] = []
_lock = threading.Lock()
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def _borrow() -> _Helper:
    """Return a helper: an idle one, or a new one where all are at work for other threads."""
    while True:
        with _lock:
            found = _idle.pop() if _idle else None
        if found is None:
            return _Helper()
        if found.usable:
            return found
        found.end()


def end_idle() -> None:
    """End the helpers that no call uses; the next call starts another."""
    while _idle:
        _idle.pop().end()


def _forget() -> None:
    """Leave the helpers to the process that this one was forked from."""
    global _lock
    _lock = threading.Lock()
    while _idle:
        _idle.pop().close()


atexit.register(end_idle)
os.register_at_fork(after_in_child=_forget)


def serve(shared: int, seconds: float, memory: int, idle: float) -> None:
    """Answer the requests of the parent until there are no more: the program of a helper.

    Parameters
    ----------
    shared : int
        Descriptor of the file of requests and answers.
    seconds : float
        Processor time of a text, after which the kernel ends this process.
    memory : int
        Bytes beyond what the process has now.
    idle : float
        Seconds without a request after which it ends.
    """
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # the parent gets them, too, and decides
    for deadly in (signal.SIGPROF, signal.SIGIO):
        signal.signal(deadly, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {deadly})
    with contextlib.suppress(OSError):
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    output = os.dup(1)
    os.dup2(2, 1)  # what a library prints is not an answer
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limited = False
    while select.select([0], [], [], idle)[0] and (said := os.read(0, _WORD.size)):
        task, texts = _get(shared, said)
        function = _function(task)
        if not limited:
            _limit_memory(memory)
            limited = True
        with _watching_parent():
            answer = _answer(function, texts, seconds, shared)
        try:
            os.write(output, _put(shared, pickle.dumps(answer)))
        except BrokenPipeError:
            return


@contextlib.contextmanager
def _watching_parent() -> Iterator[None]:
    """Have the kernel end this process when the other end of its input is closed: a call may take long."""
    flags = fcntl.fcntl(0, fcntl.F_GETFL)
    with contextlib.suppress(OSError):
        fcntl.fcntl(0, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:  # closed already
        os._exit(0)
    yield
    fcntl.fcntl(0, fcntl.F_SETFL, flags)


@functools.lru_cache(maxsize=4)
def _function(task: bytes) -> Callable[[str], Any]:
    maker, arguments = pickle.loads(task)
    module, _, name = maker.partition(":")
    function: Callable[[str], Any] = getattr(importlib.import_module(module), name)(*arguments)
    return function


def _answer(function: Callable[[str], Any], texts: list[str], seconds: float, shared: int) -> list[Any]:
    answer: list[Any] = []
    start, size = time.monotonic(), 0
    for k, text in enumerate(texts):
        if answer and (size > _ANSWER_BYTES or time.monotonic() > start + _ANSWER_SECONDS):
            break
        os.pwrite(shared, _WORD.pack(k), 0)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            answer.append(function(text))
            size += sys.getsizeof(answer[-1])
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)  # nothing may depend on what is left of it
        except Exception as error:
            answer.append(Lost(f"{type(error).__name__}: {error}"))
    signal.setitimer(signal.ITIMER_PROF, 0)
    return answer


def _limit_memory(memory: int) -> None:
    """Limit what this process may take beyond what it has, where the system tells."""
    if not os.path.exists("/proc/self/status"):
        return
    with open("/proc/self/status") as file:
        used = sum(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData:"))
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [used + memory, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
