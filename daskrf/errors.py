"""The errors that a user can act on: each message is one sentence saying what, where and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["ROW", "DaskrfError", "InputError", "MemoryLimitError", "StoreError", "WorkerError", "renumbered"]

ROW = re.compile(r"\b([Rr]ow) (\d+)\b")
"""A row as messages name it: by its position in what a function was given."""


class DaskrfError(Exception):
    """Base of every error that the command line prints as one sentence instead of a traceback."""


class _FileError(DaskrfError):
    """An error that may come of a failed call of the operating system; `errno` as of `StoreError`."""

    def __init__(self, *args: object, errno: int | None = None) -> None:
        super().__init__(*args)
        # An attribute of the instance, which pickle keeps: errors of workers reach the driver whole.
        self.errno = errno


class InputError(_FileError, ValueError):
    """An input file, array, label or option cannot be used as given.

    Parameters
    ----------
    *args
        The message.
    errno : int, optional
        As of `StoreError`.
    """


class StoreError(_FileError):
    """A store is missing, damaged, of another format version, or was made for another specification.

    Parameters
    ----------
    *args
        The message.
    errno : int, optional
        Number of the ``OSError`` behind it, which tells errors that pass (``EIO``, ``ESTALE``) from ones
        that stay (``ENOSPC``); None where no call of the operating system failed.

    Examples
    --------
    >>> import errno
    >>> StoreError("cannot read store/plan.json: stale file handle", errno=errno.ESTALE).errno == errno.ESTALE
    True
    """


class MemoryLimitError(DaskrfError, MemoryError):
    """The predicted memory or disk does not fit into what there is."""


class WorkerError(DaskrfError, RuntimeError):
    """The cluster lost a task more often than the retry budget allows, or has no workers."""


def renumbered(error: InputError, number: Callable[[int], int]) -> InputError:
    """Return an error about one row of a part, which names that row by its number in the whole.

    Examples
    --------
    >>> renumbered(InputError("The features of row 2 are too large."), lambda row: row + 100)
    InputError('The features of row 102 are too large.')
    """
    return InputError(ROW.sub(lambda found: f"{found[1]} {number(int(found[2]))}", str(error), count=1))
