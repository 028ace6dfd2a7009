"""Counts of the labels of a file, and of what is left out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NotRequired, TypedDict, cast

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError, NoLabelsError, printable
from daskrf.measurements.labels import UNREAD, LabelFile, without_numbers
from daskrf.measurements.labeltable import LabelTable
from daskrf.measurements.textrows import TextRows
from daskrf.tables.formats import Fault, reader_of
from daskrf.tables.values.classes import ClassWords
from daskrf.tables.values.notation import (
    CENSORED,
    EMPTY,
    HUGE,
    LOGARITHM,
    NUMBER,
    OTHERWISE,
    UNIT,
    WEIGHT,
    WORDS,
)
from daskrf.tables.values.units import may_hold_mass
from daskrf.tables.values.values import (
    APPROXIMATE,
    AS_VALUES,
    BY_WEIGHT,
    LEFT_OUT,
    LOWER_LIMITS,
    UPPER_LIMITS,
)


class LimitState(TypedDict):
    """A `FarLimit` in a `TargetState`."""

    side: int
    y: float
    value: float
    line: int


class TargetState(TypedDict):
    """What `TargetTally.state` returns."""

    zeros: bool
    ones: bool
    others: bool
    n_limits: int
    first_limit: str
    lowest: NotRequired[LimitState]
    highest: NotRequired[LimitState]


@dataclass(frozen=True)
class FarLimit:
    """The limit of a target that lies farthest on its side.

    Attributes
    ----------
    side : int
        1 for a lower limit, -1 for an upper one.
    y, value : float
        On the scale of the target, and as read.
    line : int
    """

    side: int
    y: float
    value: float
    line: int

    def farther(self, other: FarLimit | None) -> FarLimit:
        """Return this limit, or one that lies farther; of equal ones, `other`, which came first."""
        return self if other is None or self.side * self.y > self.side * other.y else other


@dataclass
class TargetTally:
    """What is counted of the labels of one target.

    Attributes
    ----------
    zeros, ones, others : bool
        Whether there are measured values 0, 1, and others.
    n_limits : int
    first_limit : str
        In words.
    lowest, highest : FarLimit or None
        The upper limit that lies lowest, and the lower limit that lies highest.
    """

    zeros: bool = False
    ones: bool = False
    others: bool = False
    n_limits: int = 0
    first_limit: str = ""
    lowest: FarLimit | None = None
    highest: FarLimit | None = None

    @property
    def farthest(self) -> tuple[FarLimit, ...]:
        """The limits that lie farthest on either side."""
        return tuple(limit for limit in (self.lowest, self.highest) if limit is not None)

    def state(self) -> TargetState:
        """Return the counts as a dict for JSON; without limits there is nothing of them."""
        far = {name: getattr(self, name) for name in ("lowest", "highest")}
        counts = {name: value for name, value in vars(self).items() if name not in far}
        limits = {name: vars(limit) for name, limit in far.items() if limit is not None}
        return cast(TargetState, counts | limits)

    @classmethod
    def from_state(cls, state: TargetState) -> TargetTally:
        """Undo `state`."""
        lowest = FarLimit(**state["lowest"]) if "lowest" in state else None
        highest = FarLimit(**state["highest"]) if "highest" in state else None
        make: Callable[..., TargetTally] = cls
        return make(**{**state, "lowest": lowest, "highest": highest})

    @property
    def is_measured(self) -> bool:
        """Whether there are measured values."""
        return self.zeros or self.ones or self.others

    @property
    def are_classes(self) -> bool:
        """Whether the measured values are two classes, as in `daskrf.tables.values.classes.are_classes`."""
        return self.zeros and self.ones and not self.others

    def see(self, y: npt.NDArray[np.float64], side: npt.NDArray[np.int8]) -> None:
        """Count labels that follow: values where `side` is 0, else limits."""
        limits = np.flatnonzero(side)
        if len(limits) and not self.n_limits:
            at = int(limits[0])
            self.first_limit = f"{'>' if side[at] > 0 else '<'} {y[at]:.6g}"
        measured = np.isfinite(y)
        measured[limits] = False
        zeros, ones = y == 0, y == 1
        self.add(
            TargetTally(
                bool((zeros & measured).any()),
                bool((ones & measured).any()),
                bool((measured & ~zeros & ~ones).any()),
                len(limits),
                self.first_limit,
            )
        )

    def add(self, other: TargetTally) -> None:
        """Count the labels of a tally that follow."""
        self.zeros, self.ones = self.zeros or other.zeros, self.ones or other.ones
        self.others, self.n_limits = self.others or other.others, self.n_limits + other.n_limits
        self.first_limit = self.first_limit or other.first_limit
        for limit in other.farthest:
            self.see_limit(limit)

    def see_limit(self, limit: FarLimit) -> None:
        """Keep a limit that lies farther than those before."""
        if limit.side > 0:
            self.highest = limit.farther(self.highest)
        else:
            self.lowest = limit.farther(self.lowest)


class TallyState(TypedDict):
    """What `Tally.state` returns."""

    n_read: int
    n_rows: int
    n_labels: int
    counts: dict[str, tuple[int, str]]
    targets: list[TargetState]


class Tally:
    """Counts of rows and labels, and of values that are not plain numbers, by kind; refuses some of these.

    Attributes
    ----------
    counts : dict of str to (int, str)
        As `LabelFile.unusual`.
    n_read, n_rows, n_labels : int
        Rows read, rows with a label, and labels.
    targets : list of TargetTally
    """

    def __init__(self, source: LabelTable) -> None:
        self._source = source
        self.counts: dict[str, tuple[int, str]] = {}
        self.n_read, self.n_rows, self.n_labels = 0, 0, 0
        self.targets = [TargetTally() for _ in source.targets]

    def state(self) -> TallyState:
        """Return the counts as a dict for JSON."""
        return {
            "n_read": self.n_read,
            "n_rows": self.n_rows,
            "n_labels": self.n_labels,
            "counts": self.counts,
            "targets": [target.state() for target in self.targets],
        }

    def merge(self, state: TallyState) -> None:
        """Add the `state` of the rows that follow."""
        self.n_read, self.n_rows = self.n_read + state["n_read"], self.n_rows + state["n_rows"]
        self.n_labels += state["n_labels"]
        for target, more in zip(self.targets, state["targets"], strict=True):
            target.add(TargetTally.from_state(more))
        for kind, (n, example) in state["counts"].items():
            self._add(kind, n, example)

    def see(self, y: npt.NDArray[np.float64], side: npt.NDArray[np.int8]) -> None:
        """Count labels: values, and limits where `side` is not 0."""
        self.n_labels += len(y)
        for t, target in enumerate(self.targets):
            target.see(y[:, t], side[:, t])

    def see_limits(
        self,
        y: npt.NDArray[np.float64],
        side: npt.NDArray[np.int8],
        values: npt.NDArray[np.float64],
        lines: npt.NDArray[np.int64],
    ) -> None:
        """Keep the farthest limits among labels of these lines; `values` are as read."""
        for t, target in enumerate(self.targets):
            for sign in (1, -1):
                places = np.flatnonzero(side[:, t] == sign)
                if len(places):
                    at = int(places[np.argmax(sign * y[places, t])])
                    target.see_limit(FarLimit(sign, float(y[at, t]), float(values[at, t]), int(lines[at])))

    def _add(self, kind: str, n: int, example: str) -> None:
        earlier, first = self.counts.get(kind, (0, example))
        self.counts[kind] = (earlier + n, first)

    def reject(self, fault: Fault) -> None:
        """Count a row that cannot be read, or refuse it."""
        source = self._source
        word = reader_of(source.table).row_word
        if not source.reading.accept_rejects:
            raise InputError(
                f"{source.place(fault.line)} cannot be read ({fault.reason}); correct or delete it, or leave "
                f"out such {word}s with --accept-rejects"
            )
        place = source.place_in(fault.line).removeprefix(f"{word} ")
        self._add(f"in {word}s {UNREAD}", 1, f"{place}: {fault.reason}")
        self.n_read += 1

    def count(self, block: TextRows, kinds: np.ndarray, side: np.ndarray) -> np.ndarray:
        """Count the unusual values of a block; return which are left out, bool of shape (rows, targets).

        `side` is that of limits, which are used.
        """
        relations, units = block.more.get("relations"), block.more.get("units")
        lines, columns = block.lines, block.columns
        left = (kinds != NUMBER) & ~((kinds == CENSORED) & (self._source.reading.censored != "drop"))
        refused = left & ~np.isin(kinds, [kind for kind in LEFT_OUT if self._source.reading.drops(kind)])

        def shown(at: int) -> str:
            i, t = divmod(at, kinds.shape[1])
            sign = relations[i].strip() if relations and kinds[i, t] == CENSORED else ""
            unit = f" {units[i].strip()}" if units and kinds[i, t] == UNIT else ""
            return f"{sign}{columns[t][i].strip()}{unit}".rstrip()

        if refused.any():
            at = int(np.argmax(refused))
            i, t = divmod(at, kinds.shape[1])
            raise InputError(f"{self._source.place(lines[i])}: {self._fault(int(kinds[i, t]), t, shown(at))}")
        for kind, why in LEFT_OUT.items():
            of_kind = kinds.ravel() == kind
            used = self._used(side.ravel()) if kind == CENSORED else {}
            for name, mask in {why: left.ravel(), **used}.items():
                places = np.flatnonzero(of_kind & mask)
                if len(places):
                    self._add(name, len(places), shown(int(places[0])))
        return left

    def count_weighed(self, n: int, example: str) -> None:
        """Count values that became molar by molecular weights."""
        if n:
            self._add(BY_WEIGHT, n, example)

    def _used(self, side: np.ndarray) -> dict[str, np.ndarray]:
        """Return which censored values are used, and as what."""
        if self._source.reading.censored == "drop":
            return {}
        if self._source.reading.censored == "value":
            return {AS_VALUES: np.ones(len(side), bool)}
        return {LOWER_LIMITS: side > 0, UPPER_LIMITS: side < 0, APPROXIMATE: side == 0}

    def _fault(self, kind: int, t: int, text: str) -> str:
        """Return what is wrong with a value, and what to do."""
        name = printable(self._source.names[self._source.targets[t]], 60)
        what = {
            EMPTY: f"holds {text!r}, which is not a finite number; correct it"
            if text
            else reader_of(self._source.table).no_value(self._source.table),
            WORDS: f"holds {text!r}, which is not a number; correct it"
            if (classes := self._source.notations[t].classes) is None
            else f"holds {text!r}, which is not a word of its two classes ({classes.words()}); correct it",
            HUGE: f"holds {text!r}, which is too large for a label; correct it",
            UNIT: f"holds {text!r}, which is in another unit; convert it"
            + (" (with a column of SMILES daskrf does)" if may_hold_mass(text) else ""),
            WEIGHT: f"holds {text!r}, and no molecular weight could be computed from its SMILES to make it "
            "molar; correct the SMILES",
            LOGARITHM: f"holds {text!r}, which has no logarithm; correct it",
            OTHERWISE: f"holds {text!r}, but others have decimal "
            f"{'commas' if self._source.notations[t].decimal == ',' else 'points'}; use one notation "
            "throughout",
        }[kind]
        if kind == OTHERWISE:
            return f"'{name}' {what}"
        return f"'{name}' {what}, or leave out values that are not numbers with --drop-non-numbers"

    def described(self, notes: tuple[str, ...] = (), *, has_scale: bool = False) -> LabelFile:
        """Return what is known of the file once all its labels are read.

        `has_scale` is whether other labels fix the scale of the targets, so that these may all be limits.

        Raises
        ------
        InputError
            If there are none, or none of one target, or only limits.
        """
        source, dropped = self._source, self.n_read - self.n_rows
        path = source.path
        if not self.n_rows:
            cells = without_numbers(self.counts)
            shown = f" ({cells})" if cells else ""
            raise NoLabelsError(
                f"{path} has no labels left: none of its {dropped:,} rows holds a finite number{shown}",
                cells=cells,
            )
        names = tuple(scale.name for scale in source.scales)
        for name, target in zip(names, self.targets, strict=True):
            if target.n_limits and not target.is_measured and not has_scale:
                raise InputError(
                    f"{path}: all {target.n_limits:,} labels of {name} are limits, such as "
                    f"{target.first_limit}, which do not fix a scale; give some measured values, too"
                )
            if not target.n_limits and not target.is_measured:
                raise InputError(
                    f"{path} has no labels of {name} left: none of its values is a finite number"
                )
        return LabelFile(
            names=names,
            key=source.reading.key,
            n_labels=self.n_labels,
            read=self.n_read,
            dropped=dropped,
            path=str(path),
            scales=source.scales,
            unusual=self.counts,
            limits=source.limits,
            notes=notes,
            means=source.has_times,
            classes=self._classes(),
            has_limits=any(target.n_limits for target in self.targets),
        )

    def _classes(self) -> tuple[ClassWords | None, ...]:
        """Return the words of each target whose labels are two classes, and none of them a limit."""
        classes: list[ClassWords | None] = []
        source = self._source
        for notation, scale, target in zip(source.notations, source.scales, self.targets, strict=True):
            words = notation.classes
            if words is None and not scale.transform and not target.n_limits and target.are_classes:
                words = ClassWords()
            classes.append(words if source.reading.classes else None)
        return tuple(classes)
