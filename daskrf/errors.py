"""The errors that a user can act on: each message is one sentence saying what, where and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = [
    "ROW",
    "CalibrationWarning",
    "DaskrfError",
    "InputError",
    "MemoryLimitError",
    "OptionError",
    "StoreError",
    "WorkerError",
    "check_type",
    "printable",
    "renumbered",
]

ROW = re.compile(r"\b([Rr]ow) (\d+)\b")
"""A row as messages name it: by its position in what a function was given."""


def printable(text: object, limit: int = 500) -> str:
    r"""Return text of a file, or of a user, as a terminal may show it: on one line, and of bounded length.

    Whoever wrote a file that is read here may be anybody, and a terminal obeys what it is shown: it renames
    its window, overwrites lines that it has shown, turns the direction of what follows.

    Parameters
    ----------
    text : object
        Anything; ``str()`` of it is shown.
    limit : int
        At most so many characters; what is longer ends in ``...``.

    Returns
    -------
    str
        With control characters (C0, C1, line ends), marks and overrides of the direction of writing, and all
        else that `str.isprintable` refuses as Python's escapes. What is printable, a backslash too, stays as
        it is, so that to call it twice does no harm.

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
    """Return the text with what a terminal would obey, or not show, as Python's escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class DaskrfError(Exception):
    """Base of every error that the command line prints as one sentence instead of a traceback.

    Its text is `printable`, of any length: messages name paths, and quote what files hold.
    """

    def __str__(self) -> str:
        return _escaped(super().__str__())


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


class OptionError(InputError):
    """An option does not exist, does not go with another one, or has an impossible value: wrong usage."""


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


class CalibrationWarning(UserWarning):
    """The standard deviations of a model cannot be trusted; the message says why, and what to do."""


class WorkerError(DaskrfError, RuntimeError):
    """The cluster lost a task more often than the retry budget allows, or has no workers."""


def check_type(name: str, given: object, kind: type, example: str) -> None:
    """Refuse an argument that is not of a type; None is let through.

    Examples
    --------
    >>> check_type("limit", "3", int, "3")
    Traceback (most recent call last):
    daskrf.errors.InputError: limit must be of the type int, such as 3, not '3'.
    """
    if given is not None and not isinstance(given, kind):
        raise InputError(f"{name} must be of the type {kind.__name__}, such as {example}, not {given!r}.")


def renumbered(error: InputError, number: Callable[[int], int]) -> InputError:
    """Return an error about one row of a part, which names that row by its number in the whole.

    Examples
    --------
    >>> renumbered(InputError("The features of row 2 are too large."), lambda row: row + 100)
    InputError('The features of row 102 are too large.')
    """
    return InputError(ROW.sub(lambda found: f"{found[1]} {number(int(found[2]))}", str(error), count=1))
