"""Calls that may crash, hang or exhaust memory, made one text at a time in a replaceable helper process.

RDKit is C++: a line that it cannot finish (too many rings, too many paths, a bug of its own) cannot be
interrupted from Python, and a crash takes the whole program with it. So everything RDKit does with lines of
files is done in a helper process, which limits its own processor time and memory through the kernel and
records which text it is working on. When it dies, that text is given up and a new helper continues with the
next one.

The helper is a plain subprocess: Dask workers may not have `multiprocessing` children, and a
multi-threaded program should not fork. Requests and answers are exchanged through a file that both have open,
in memory where such files exist; pipes carry only their sizes, so that neither side ever waits for the other
to read. The helper ends when its parent is gone, even in the middle of its work, and by itself after some
idle time. This module imports only the standard library, to keep helpers small.
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

MEMORY = 1 << 30
"""Bytes that a helper may allocate beyond what it has at start."""

SILENCE = 300.0
"""Seconds without progress (it is stopped, or waits for a disk) after which a helper is replaced."""

IDLE = 30.0
"""Seconds without a request after which a helper ends."""

_SECONDS = 30.0
_CHUNK = 1024  # texts per request
_ANSWER_SECONDS = 0.5  # of work, or _ANSWER_BYTES, after which a helper sends what it has
_ANSWER_BYTES = 1 << 22
_ATTEMPTS = 3  # at a text on which a helper died, since something else may have killed it
_REMEMBERED = 8 << 20  # bytes of answers: a command asks for the molecules with labels several times
_STARTS = 3  # of helpers that die before beginning any text
_DRAWING = "RDKit draws with libXrender and libXext (on Debian: apt-get install libxrender1 libxext6)"
_OUT_OF_MEMORY = 77  # exit code
_CRASHES = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS)

_NONE = -1  # no text in progress
_WORD = struct.Struct("<q")  # sizes, and the index of the current text at the start of the shared file
_PROGRAM = (
    "import json, sys; path, *rest = json.loads(sys.argv[1]); sys.path[:] = path; "
    "from daskrf.molecules.isolation import serve; serve(*rest)"
)


class Lost(NamedTuple):
    """Stands for a result that could not be obtained, with the reason, e.g. "crashed (SIGSEGV)"."""

    reason: str


def seconds_a_text() -> float:
    """Return the processor time allowed per text: 30 s, or the variable DASKRF_MOLECULE_SECONDS."""
    try:
        seconds = float(os.environ.get("DASKRF_MOLECULE_SECONDS", _SECONDS))
    except ValueError:
        return _SECONDS
    return min(seconds, 1e6) if seconds > 0 else _SECONDS


def each(maker: str, arguments: Sequence[object], texts: Sequence[str]) -> list[Any]:
    """Return the results of a function for some texts, called in a helper process.

    Parameters
    ----------
    maker : str
        ``"module:name"`` of the factory that makes the function in the helper.
    arguments : tuple
        Arguments of the factory. They are pickled, and so are the results.
    texts : sequence of str

    Returns
    -------
    list
        One entry per text: the function's result, or `Lost`. A text is lost if the function raises; if the
        helper died on it three times, the last two with no other text in progress, as when it crashes or
        needs more than `MEMORY`; or if it takes longer than `seconds_a_text`. Nothing else depends on the
        machine.

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
        while batch := run.next_batch():
            helper = helper or _borrow()
            answer = helper.ask(task, batch)
            if isinstance(answer, _Death):
                helper.end()
                helper = None
                run.bury(answer)
            else:
                run.take(answer)
    except BaseException:
        if helper is not None:  # it may be in the middle of answering
            helper.end()
        raise
    if helper is not None:
        with _lock:
            _idle.append(helper)
    return run.results


class _Death(NamedTuple):
    """How a helper ended: index of its current text in the request, reason, and whether to retry."""

    begun: int
    reason: str
    again: bool


class _Run:
    """The texts of one call: the results before position `at`, and which later texts killed helpers."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.at = 0
        self.results: list[Any] = []
        self._deaths: dict[int, int] = {}
        self._settled: dict[int, str] = {}
        self._starts = 0

    def next_batch(self) -> list[str]:
        """Return the texts up to the next one that has killed a helper, or that one alone."""
        while self.at in self._settled:
            self.take([Lost(self._settled[self.at])])
        stop = min(self.at + _CHUNK, len(self.texts))
        suspects = [index for index in self._deaths if self.at <= index < stop]
        if suspects:
            stop = max(min(suspects), self.at + 1)
        return list(self.texts[self.at : stop])

    def take(self, answer: list[object]) -> None:
        """Append the results of the next texts, which may be fewer than requested."""
        self.results += answer
        self.at += len(answer)
        self._starts = 0

    def bury(self, death: _Death) -> None:
        """Record the death of a helper; give up the text that it died on once that text is to blame."""
        if death.begun == _NONE:
            self._starts += 1
            if self._starts == _STARTS:
                advice = f"check that {sys.executable} runs on this machine and can import daskrf and rdkit"
                if "cannot open shared object file" in death.reason:
                    advice = f"install this library of the system; {_DRAWING}"
                raise WorkerError(
                    f"The helper process that reads molecules cannot be started (it {death.reason}); "
                    f"{advice}."
                )
            return
        # Earlier results of the same request died with the helper, and are recomputed without this text.
        index = self.at + death.begun
        self._deaths[index] = self._deaths.get(index, 0) + 1
        if not death.again or self._deaths[index] == _ATTEMPTS:
            self._settled[index] = death.reason


def _scratch(name: str) -> IO[bytes]:
    """Return an unnamed empty file, in memory where possible, since a disk may be full."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create(name), "wb", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _put(shared: int, data: bytes) -> bytes:
    """Write a request or an answer to the shared file; return the message to send through the pipe."""
    os.pwrite(shared, data, _WORD.size)
    return _WORD.pack(len(data))


def _get(shared: int, message: bytes) -> Any:
    """Return the request or the answer that a pipe message announces."""
    (size,) = _WORD.unpack(message)
    return pickle.loads(os.pread(shared, size, _WORD.size))


class _Helper:
    """A helper process, as seen from its parent."""

    def __init__(self) -> None:
        self._seconds = seconds_a_text()
        try:
            self._start()
        except OSError as error:
            raise WorkerError(
                f"The helper process that reads molecules cannot be started ({error.strerror}); check that "
                f"{sys.executable} runs on this machine, and your limits on processes, open files and "
                "memory."
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
                process_group=0,  # Ctrl-C in the terminal is meant for its parent
                env={**os.environ, **_ONE_THREAD},
            )
            self._files = files.pop_all()

    @property
    def usable(self) -> bool:
        """Whether the helper is running, with the limits currently in force."""
        return self._process.poll() is None and self._seconds == seconds_a_text()

    def ask(self, task: bytes, texts: list[str]) -> list[object] | _Death:
        """Return the results of the first of `texts`, at least one, or how the helper died."""
        os.pwrite(self._shared, _WORD.pack(_NONE), 0)
        try:
            os.write(self._input, _put(self._shared, pickle.dumps((task, texts))))
        except BrokenPipeError:
            return self._death(silent=False)
        silent = self._wait()
        message = os.read(self._output, _WORD.size)
        if not message:
            return self._death(silent)
        answer: list[object] = _get(self._shared, message)
        return answer

    def _begun(self) -> int:
        """Return the index of the text that the helper is working on."""
        (index,) = _WORD.unpack(os.pread(self._shared, _WORD.size, 0))
        return int(index)

    def _wait(self) -> bool:
        """Wait for an answer or the end of the helper; return whether it made no progress for too long."""
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
        """End the helper if it is still running; return why it died."""
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
        if code in _CRASHES:  # C and C++ may end this way when out of memory
            limit = f"or needed more than {format_bytes(MEMORY)} of memory"
            return _Death(begun, f"crashed ({signal.Signals(-code).name}), {limit}", again=True)
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return _Death(begun, f"ended ({how})", again=True)

    def end(self) -> None:
        """End the helper."""
        self._process.kill()
        self._process.wait()
        self.close()

    def close(self) -> None:
        """Release the resources of the helper, which ends when its pipes close."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._files.close()
        self._process.returncode = self._process.returncode or 0  # a fork of the parent must not wait for it


_idle: list[_Helper] = []
_lock = threading.Lock()
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def _borrow() -> _Helper:
    """Return a helper: an idle one, or a new one if all are in use by other threads."""
    while True:
        with _lock:
            helper = _idle.pop() if _idle else None
        if helper is None:
            return _Helper()
        if helper.usable:
            return helper
        helper.end()


def end_idle() -> None:
    """End the helpers that no call is using; the next call starts a new one."""
    while _idle:
        _idle.pop().end()


def _forget() -> None:
    """Leave the helpers to the parent after a fork."""
    global _lock
    _lock = threading.Lock()
    while _idle:
        _idle.pop().close()


atexit.register(end_idle)
os.register_at_fork(after_in_child=_forget)


def serve(shared: int, seconds: float, memory: int, idle: float) -> None:
    """Answer the parent's requests until there are no more: the main loop of a helper.

    Parameters
    ----------
    shared : int
        File descriptor of the shared file of requests and answers.
    seconds : float
        Processor time per text, after which the kernel ends the helper.
    memory : int
        Bytes that may be allocated beyond what the helper has now.
    idle : float
        Seconds without a request after which it ends.
    """
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # the parent gets them too, and decides
    for deadly in (signal.SIGPROF, signal.SIGIO):
        signal.signal(deadly, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {deadly})
    with contextlib.suppress(OSError):
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    output = os.dup(1)
    os.dup2(2, 1)  # output printed by a library is not an answer
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limited, remembered = False, _Answers()
    while select.select([0], [], [], idle)[0] and (message := os.read(0, _WORD.size)):
        task, texts = _get(shared, message)
        function = _function(task)
        if not limited:
            _limit_memory(memory)
            limited = True
        with _watching_parent():
            answer = _answer(function, remembered.of(task), texts, seconds, shared)
        data = pickle.dumps(answer)
        try:
            os.write(output, _put(shared, data))
        except BrokenPipeError:
            return
        remembered.keep(task, texts, answer, len(data))


@contextlib.contextmanager
def _watching_parent() -> Iterator[None]:
    """Have the kernel end the helper when the other end of its input closes: a call may take long."""
    flags = fcntl.fcntl(0, fcntl.F_GETFL)
    with contextlib.suppress(OSError):
        fcntl.fcntl(0, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:  # closed already
        os._exit(0)
    yield
    fcntl.fcntl(0, fcntl.F_SETFL, flags)


@functools.lru_cache(maxsize=4)
def _function(task: bytes) -> Callable[[str], object]:
    maker, arguments = pickle.loads(task)
    module, _, name = maker.partition(":")
    function: Callable[[str], object] = getattr(importlib.import_module(module), name)(*arguments)
    return function


class _Answers:
    """A cache of answers by function and text, of up to `_REMEMBERED` bytes."""

    def __init__(self) -> None:
        self._results: dict[bytes, dict[str, Any]] = {}
        self._size = 0

    def of(self, task: bytes) -> dict[str, Any]:
        """Return the cached answers of one function."""
        return self._results.get(task, {})

    def keep(self, task: bytes, texts: list[str], answer: list[object], size: int) -> None:
        """Cache an answer of `size` bytes; drop all others if there is no room for it."""
        size += sum(map(len, texts[: len(answer)]))
        if self._size + size > _REMEMBERED:
            self._results.clear()
            self._size = 0
        if size > _REMEMBERED:
            return
        self._size += size
        self._results.setdefault(task, {}).update(
            (text, one) for text, one in zip(texts, answer, strict=False) if not isinstance(one, Lost)
        )


def _answer(
    function: Callable[[str], object],
    cached: dict[str, object],
    texts: list[str],
    seconds: float,
    shared: int,
) -> list[object]:
    answer: list[object] = []
    start, size = time.monotonic(), 0
    for k, text in enumerate(texts):
        if answer and (size > _ANSWER_BYTES or time.monotonic() > start + _ANSWER_SECONDS):
            break
        os.pwrite(shared, _WORD.pack(k), 0)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            answer.append(cached[text] if text in cached else function(text))
            size += sys.getsizeof(answer[-1])
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)  # the state of the helper can no longer be trusted
        except Exception as error:
            answer.append(Lost(f"{type(error).__name__}: {error}"))
    signal.setitimer(signal.ITIMER_PROF, 0)
    return answer


def _limit_memory(memory: int) -> None:
    """Limit the memory that the helper may allocate beyond what it has, if the system reports that."""
    if not os.path.exists("/proc/self/status"):
        return
    with open("/proc/self/status") as file:
        used = sum(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData:"))
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [used + memory, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
