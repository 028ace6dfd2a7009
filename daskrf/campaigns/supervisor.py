"""Run a command, and end it with all that it has started when the program that waits for it is gone.

It runs as a program of its own, with the standard library alone: a worker may be killed at any time, and
what it has started would go on without it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import FrameType

_POLL = 0.1  # seconds
_NOT_STARTED = 127


def supervise(waiting: int, command: list[str]) -> int:
    """Run a command while the process `waiting` is the parent; return the exit code of the command."""
    ending = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ending
        ending = True

    signal.signal(signal.SIGTERM, end)
    try:
        process = subprocess.Popen(command, start_new_session=True)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", flush=True)
        return _NOT_STARTED
    pause = _POLL / 64
    while process.poll() is None:
        if ending or os.getppid() != waiting:
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, _POLL)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


if __name__ == "__main__":
    sys.exit(supervise(int(sys.argv[1]), sys.argv[2:]))
