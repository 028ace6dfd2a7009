"""Refuse before the start what cannot fit on the disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePath

from daskrf.errors import MemoryLimitError
from daskrf.quantities import format_bytes
from daskrf.storage.backend import as_path, backend, free_bytes

__all__ = ["Disk", "check_disk"]


@dataclass(frozen=True)
class Disk:
    """Bytes that a job leaves at `path`: all its shards together, and a whole run; `what` they are."""

    path: PurePath
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
    free = free_bytes(path)  # None of a storage that does not say
    if free is not None and n_bytes > free and n_bytes - sum(backend(path).sizes(path).values()) > free:
        raise MemoryLimitError(
            f"{what.capitalize()} would take {format_bytes(n_bytes)} in {path}, where {format_bytes(free)} "
            "are free; make room, or give another output path."
        )
