"""Deeds of a helper process, by the text that asks for them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path


def doer() -> Callable[[str], object]:
    """Return the function from a text to its result."""
    return _do


def dead_doer() -> Callable[[str], object]:
    """End before there is a function."""
    raise SystemExit(3)


def _do(text: str) -> object:
    deed, _, rest = text.partition(" ")
    return _DEEDS[deed](rest) if deed in _DEEDS else text.upper()


def _spin(_: str) -> None:
    while True:
        pass


def _eat(_: str) -> None:
    held = []
    while True:
        held.append(bytes(1 << 20))


def _kill_once(mark: str) -> str:
    """End as if something else had killed the helper; a mark tells the first time from the next."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def _note(path: str) -> str:
    with open(path, "a") as file:
        file.write("x")
    return "noted"


def _note_and_sleep(path: str) -> None:
    _note(path)
    time.sleep(100)


def _note_and_crash(path: str) -> None:
    _note(path)
    os.abort()


def _print(count: str) -> str:
    os.write(1, b"o" * int(count))
    os.write(2, b"e" * int(count))
    print("o" * int(count), flush=True)
    print("e" * int(count), file=sys.stderr, flush=True)
    return "printed"


_DEEDS: dict[str, Callable[[str], object]] = {
    "pid": lambda _: os.getpid(),
    "raise": lambda _: [][1],
    "crash": lambda _: os.kill(os.getpid(), signal.SIGSEGV),
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda _: os._exit(5),
    "stop": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "sleep": lambda seconds: time.sleep(float(seconds)),
    "long": lambda size: "x" * int(size),
    "spin": _spin,
    "eat": _eat,
    "kill-once": _kill_once,
    "note": _note,
    "note-and-crash": _note_and_crash,
    "note-and-sleep": _note_and_sleep,
    "print": _print,
}


def doer_without_library() -> Callable[[str], str]:
    """End as on a machine that lacks a library of the system."""
    raise ImportError("libXrender.so.1: cannot open shared object file: No such file or directory")
