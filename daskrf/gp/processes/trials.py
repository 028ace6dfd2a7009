"""The common parts of the choices of a kernel, a feature map, a length scale and a metric.

Each choice tries candidates on some labels, takes one of them, and reports a table of the trials. Three of
the choices leave labels out, and take a later candidate only if it predicts these labels clearly better.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError

Double = npt.NDArray[np.float64]

_LITTLE = 0.1  # R2: the mean of the labels predicts them nearly as well
WORTH = 0.01
"""Gain in nats per label that a later candidate needs; it corresponds to errors about 1 % smaller."""


def clearly_better(log_probability: Double, before: Double) -> bool:
    """Return whether log probabilities of labels left out are larger by `WORTH` and by a standard error.

    Examples
    --------
    >>> before = np.array([-1.0, -0.5, -0.7])
    >>> clearly_better(before + 0.02, before), clearly_better(before + [0.3, -0.2, -0.01], before)
    (True, False)
    """
    gain = log_probability - before
    mean = float(gain.mean())
    return math.isfinite(mean) and mean > max(WORTH, float(gain.std()) / math.sqrt(len(gain)))


def first_of_the_best(scores: Sequence[Double]) -> int:
    """Return the index of the model to take: a later one replaces the one taken so far if clearly better.

    Parameters
    ----------
    scores : sequence of float64 arrays, shape (n,)
        Log probabilities of the labels left out, by each model.

    Examples
    --------
    >>> first = np.array([-1.0, -0.5, -0.7])
    >>> first_of_the_best([first, first + 0.2, first + 0.205])
    1
    """
    taken = 0
    for i, score in enumerate(scores):
        if clearly_better(score, scores[taken]):
            taken = i
    return taken


def labels_by_target(y: npt.ArrayLike, n_rows: int) -> Double:
    """Return labels as an array of shape (n, n_targets).

    Raises
    ------
    InputError
        If there is not one label, or one row of labels, for each of `n_rows` rows.

    Examples
    --------
    >>> labels_by_target([1.0, 2.0], 2).shape
    (2, 1)
    """
    labels = np.asarray(y, dtype=np.float64)
    if labels.ndim not in (1, 2) or len(labels) != n_rows:
        raise InputError(
            f"X has {n_rows} rows, but y has the shape {labels.shape}; give one label, or one row of labels, "
            "for each row."
        )
    return labels[:, None] if labels.ndim == 1 else labels


class Row(NamedTuple):
    """A line of a table of trials."""

    name: str
    figures: tuple[str, ...]
    mark: str


class Choice(ABC):
    """The candidates that were tried and the one that was taken, printed as a table.

    Subclasses are frozen dataclasses.
    """

    _headers: ClassVar[tuple[str, ...]]

    def __str__(self) -> str:
        rows = list(self._rows())
        if not rows:
            return self._too_few()
        title = self._title()
        width = max(len(title) - 2, *(len(row.name) for row in rows))
        columns = zip(self._headers, *(row.figures for row in rows), strict=True)
        widths = [max(map(len, column)) for column in columns]

        def line(name: str, figures: Sequence[str]) -> str:
            return "  ".join([name, *(f"{each:>{size}}" for each, size in zip(figures, widths, strict=True))])

        header = line(f"{title:<{width + 2}}", self._headers)
        lines = (f"{line(f'  {row.name:<{width}}', row.figures)}  {row.mark}".rstrip() for row in rows)
        return "\n".join([header, *lines, *(f"  {note}" for note in self._notes())])

    @abstractmethod
    def _title(self) -> str:
        """Return the head of the column of names."""

    @abstractmethod
    def _rows(self) -> Iterator[Row]:
        """Yield the lines of the table."""

    @abstractmethod
    def _too_few(self) -> str:
        """Return the sentence to print if nothing was tried."""

    def _notes(self) -> list[str]:
        """Return the sentences below the table."""
        return []


class Judged(Protocol):
    """A candidate that was judged by labels left out."""

    @property
    def name(self) -> str: ...
    @property
    def log_probability(self) -> float: ...
    @property
    def r2(self) -> float: ...


JudgedTrial = TypeVar("JudgedTrial", bound=Judged)


class ChoiceByLabelsLeftOut(Choice, Generic[JudgedTrial]):
    """Candidates judged by labels that were left out; a later one is taken if it is clearly better.

    Attributes
    ----------
    trials : tuple
        Each with a `name`, `log_probability` and `r2`.
    n_rows, n_left_out : int
        Labels that were used, and how many of them were left out; both are the same if one was left out at a
        time.
    """

    _headers: ClassVar[tuple[str, ...]] = ("R2", "log probability")
    _candidate: ClassVar[str]
    trials: tuple[JudgedTrial, ...]
    n_rows: int
    n_left_out: int

    def _title(self) -> str:
        left_out = (
            f"each of {self.n_rows:,} labels left out in turn"
            if self.n_rows == self.n_left_out
            else f"{self.n_left_out:,} of {self.n_rows:,} labels left out"
        )
        return f"{self._candidate}s tried, {left_out}"

    def _rows(self) -> Iterator[Row]:
        for number, trial in enumerate(self.trials, 1):
            figures = (f"{trial.r2:6.3f}", f"{trial.log_probability:.3f}", *self._more_figures(trial))
            yield Row(self._name(number, trial), figures, self._mark(trial))

    def _notes(self) -> list[str]:
        trials = self._comparable()
        if not trials or self._is_taken(max(trials, key=lambda trial: trial.log_probability)):
            return []
        return [
            f"A {self._candidate} further down is taken if it is clearly better: by {WORTH:g} and a standard "
            "error."
        ]

    def _doubts(self) -> list[str]:
        """Return a sentence if the candidate that was taken predicts labels hardly better than their mean."""
        if not any(self._is_taken(trial) and trial.r2 < _LITTLE for trial in self.trials):
            return []
        return [
            f"Labels left out are predicted hardly better than by their mean (R2 below {_LITTLE:g}): "
            "`daskrf evaluate` says whether such a model is of use."
        ]

    def _name(self, number: int, trial: JudgedTrial) -> str:
        return str(trial.name)

    def _more_figures(self, trial: JudgedTrial) -> tuple[str, ...]:
        return ()

    def _mark(self, trial: JudgedTrial) -> str:
        """Return the last word of the line of a trial."""
        return "taken" if self._is_taken(trial) else ""

    @abstractmethod
    def _is_taken(self, trial: JudgedTrial) -> bool:
        """Return whether a trial is the one that was taken."""

    def _comparable(self) -> Sequence[JudgedTrial]:
        """Return the trials that were judged by the same labels; none if another rule was used."""
        return self.trials
