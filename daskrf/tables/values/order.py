"""Numbers and dates of a column, by which molecules are put in order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError


def ordinals(texts: Iterable[str], column: str = "") -> npt.NDArray[np.float64]:
    """Return numbers in the order of texts that are all numbers, or all dates, float64 of shape (n,).

    Dates are those of ISO 8601, such as 2021-03-15 or 2021-03-15T12:30; without a time zone they are UTC, and
    their number is that of seconds since 1970.

    Parameters
    ----------
    texts : iterable of str
    column : str
        Name of the column, for messages.

    Raises
    ------
    InputError
        If a text is neither, or some are numbers and others are dates.

    Examples
    --------
    >>> ordinals(["2021-03-15", "2020-12-31T23:00"]).argsort().tolist()
    [1, 0]
    >>> ordinals(["2020", "7e2"]).tolist()
    [2020.0, 700.0]
    """
    texts = [text.strip() for text in texts]
    numbers = np.array([_number(text) for text in texts], dtype=np.float64)
    if np.isnan(numbers).any():
        dates = np.array([_seconds(text) for text in texts], dtype=np.float64)
        numbers = dates if np.isnan(dates).sum() < np.isnan(numbers).sum() else numbers
    if np.isnan(numbers).any():
        text = texts[int(np.isnan(numbers).argmax())]
        what = f"holds {text!r}" if text else "is empty for some labels"
        raise InputError(
            f"the column '{column}' {what}; labels are ordered by numbers or by dates, such as 2021-03-15"
        )
    return numbers


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _seconds(text: str) -> float:
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
