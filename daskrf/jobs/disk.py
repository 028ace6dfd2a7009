"""Refuse before the start what cannot fit on the disk."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from daskrf.errors import MemoryLimitError
from daskrf.paths import ObjectPath, as_path
from daskrf.quantities import format_bytes

__all__ = ["Disk", "check_disk"]


@dataclass(frozen=True)
class Disk:
    """Bytes that a job leaves at `path`: all its shards together, and a whole run; `what` they are."""

    path: Path
    what: str
    shards: int
    whole: int


def check_disk(path: str | os.PathLike[str], n_bytes: int, what: str) -> None:
    """Refuse what would not fit on the disk of `path`, which need not exist yet.

    What an earlier run has left there counts as a part of it.

    Raises
    ------
    MemoryLimitError
        With the prediction and the free space.
    """
    path = as_path(path)
    if isinstance(path, ObjectPath):  # a storage does not say how much room it has
        return
    place = next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if n_bytes > free and n_bytes - _present(path) > free:
        raise MemoryLimitError(
            f"{what.capitalize()} would take {format_bytes(n_bytes)} in {path}, where {format_bytes(free)} "
            "are free; make room, or give another output path."
        )


def _present(path: Path) -> int:
    """Return the bytes of the files below `path`."""
    found = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                found += os.stat(os.path.join(folder, name)).st_size
            except FileNotFoundError:  # of another process that has just ended
                continue
    return found
