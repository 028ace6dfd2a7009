"""Importing this lets no file be forced to the disk: no test cuts the power, and many would wait for disks.

A file descriptor that is not open is still an error, and faults are injected as into the real function.
"""

from __future__ import annotations

import os


def _fsync(fd: int) -> None:
    os.fstat(fd)


vars(os)["fsync"] = _fsync
