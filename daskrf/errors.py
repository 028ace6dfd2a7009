"""Errors that a user can act on: each message is one sentence saying what, where and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ROW = re.compile(r"\b([Rr]ow) (\d+)\b")
"""How messages name a row: by its position in the input of a function."""

_COLUMN = re.compile(r"\b([Cc]olumn) (\d+)\b")


def printable(text: object, limit: int = 500) -> str:
    r"""Return text from a file or a user in a form safe for a terminal: on one line, and of bounded length.

    Files may come from anyone, and a terminal obeys control sequences in what it prints: they can rename its
    window, overwrite earlier lines, or reverse the direction of the text that follows.

    Parameters
    ----------
    text : object
        Any object; ``str()`` of it is shown.
    limit : int
        Maximum number of characters; longer text ends in ``...``.

    Returns
    -------
    str
        The text with control characters (C0, C1, line ends), directional marks and overrides, and everything
        else that `str.isprintable` rejects as Python escapes. Printable characters, including the backslash,
        are unchanged, so calling it twice does no harm.

    Examples
    --------
    >>> print(printable("score\x1b]0;gone\x07\u202e of Z1\n"))
    score\x1b]0;gone\x07\u202e of Z1\n
    >>> printable("C" * 1000, limit=8)
    'CCCCC...'
    """
    shown = _escaped(str(text)[: limit + 1])
    return shown if len(shown) <= limit else f"{shown[: max(0, limit - 3)]}..."


def _escaped(text: str) -> str:
    """Return the text with everything that a terminal would obey, or not show, as Python escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class DaskrfError(Exception):
    """Base of all errors that the command line prints as one sentence instead of a traceback.

    Its text is made `printable`, at any length: messages name paths and quote file content.
    """

    def __str__(self) -> str:
        return _escaped(super().__str__())


class _FileError(DaskrfError):
    """An error that may result from a failed operating system call; `errno` as in `StoreError`."""

    def __init__(self, *args: object, errno: int | None = None) -> None:
        super().__init__(*args)
        # An instance attribute, which pickle keeps: errors of workers reach the driver complete.
        self.errno = errno


class InputError(_FileError, ValueError):
    """An input file, array, label or option cannot be used as given.

    Parameters
    ----------
    *args
        The message.
    errno : int, optional
        As in `StoreError`.
    """


class NoLabelsError(InputError):
    """A file of labels can be read, but holds none.

    Parameters
    ----------
    *args
        The message.
    cells : str
        Which cells it has in place of labels, in words.
    """

    def __init__(self, *args: object, cells: str = "") -> None:
        super().__init__(*args)
        self.cells = cells


class OptionError(InputError):
    """An option does not exist, conflicts with another one, or has an impossible value: wrong usage."""


class StoreError(_FileError):
    """A store is missing, damaged, of another format version, or made for another specification.

    Parameters
    ----------
    *args
        The message.
    errno : int, optional
        Number of the underlying ``OSError``, which distinguishes transient errors (``EIO``, ``ESTALE``) from
        persistent ones (``ENOSPC``); None if no operating system call failed.

    Examples
    --------
    >>> import errno
    >>> StoreError("cannot read store/plan.json: stale file handle", errno=errno.ESTALE).errno == errno.ESTALE
    True
    """


class OtherPlanError(StoreError):
    """An output was made from other input, or with other options.

    Parameters
    ----------
    message : str
    path : path
        Of the output.
    """

    def __init__(self, message: str, path: Any = None) -> None:
        super().__init__(message)
        self.path = path


class MemoryLimitError(DaskrfError, MemoryError):
    """The predicted memory or disk use exceeds what is available."""


class CalibrationWarning(UserWarning):
    """The standard deviations of a model cannot be trusted; the message says why and what to do."""


class ClientWarning(UserWarning):
    """There is a default client of Dask, and the work is done in this process, since none was given."""


class RejectWarning(UserWarning):
    """Molecules given in memory cannot be read and have no prediction; the message says which."""


class WorkerError(DaskrfError, RuntimeError):
    """The cluster lost a task more often than the retry budget allows, or has no workers."""


def check_type(name: str, value: object, kind: type, example: str) -> None:
    """Raise if an argument is not of the given type; None is accepted.

    Examples
    --------
    >>> check_type("limit", "3", int, "3")
    Traceback (most recent call last):
    daskrf.errors.InputError: limit must be of the type int, such as 3, not '3'.
    """
    if value is not None and not isinstance(value, kind):
        raise InputError(f"{name} must be of the type {kind.__name__}, such as {example}, not {value!r}.")


def renumbered(error: InputError, number: Callable[[int], int], what: re.Pattern[str] = ROW) -> InputError:
    """Return a copy of an error about one row of a part that gives the row's number in the whole.

    Examples
    --------
    >>> renumbered(InputError("The features of row 2 are too large."), lambda row: row + 100)
    InputError('The features of row 102 are too large.')
    """
    return InputError(what.sub(lambda match: f"{match[1]} {number(int(match[2]))}", str(error), count=1))


@contextmanager
def counted_from(row: int, column: int) -> Iterator[None]:
    """Make errors about a part of an array, starting at this row and column, use positions in the whole.

    Examples
    --------
    >>> with counted_from(100, 8):
    ...     raise InputError("Value -1 in row 2, column 0 is negative.")
    Traceback (most recent call last):
    daskrf.errors.InputError: Value -1 in row 102, column 8 is negative.
    """
    try:
        yield
    except InputError as error:
        named = renumbered(error, lambda number: number + row)
        raise renumbered(named, lambda number: number + column, _COLUMN) from None
