"""How labels are to be read from a table: which columns, as what, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daskrf.errors import InputError
from daskrf.molecules.structures import LEVELS
from daskrf.tables.formats import Column
from daskrf.tables.values.classes import ClassWords
from daskrf.tables.values.notation import CENSORED, DROPPED, NO_LIMIT
from daskrf.tables.values.repeats import check_repeats
from daskrf.tables.values.values import Limits, Scale

KEYS = {
    "id": "IDs",
    "smiles": "SMILES",
    "structure": "SMILES, joined by structure,",
    "parent": "SMILES, joined by structure without salts and charges,",
    "tautomer": "SMILES, joined by structure without salts and charges, in any tautomeric form,",
    "skeleton": "SMILES, joined by structure without salts, charges, stereochemistry and isotopes,",
    "inchikey": "InChIKeys",
    "row": "row numbers",
}
BY_SMILES = ("smiles", *LEVELS, "inchikey")
CENSORED_AS = ("limit", "drop", "value")


@dataclass(frozen=True)
class Reading:
    """How labels are read from a table.

    Parameters
    ----------
    key : {"id", "smiles", "structure", "parent", "tautomer", "skeleton", "inchikey", "row"}
        The key that joins labels to the library; see `daskrf.fit`.
    key_column : str or int, optional
        Column of the key, by name or by position from 0; by default found by its usual names (for IDs, those
        in `daskrf.tables.values.names`), else the first column.
    targets : sequence of str or int, optional
        Columns of the values; by default the only other numeric column.
    drop_non_numbers : bool
        Drop values that are missing, not finite or not numbers, and rows left without any; all are counted.
    censored : {"limit", "drop", "value"}, optional
        What to do with censored values, such as ">10000"; by default they are limits.
    transform, unit : str, or dict of str to str, optional
        See `daskrf.fit`.
    replicates, replicate_std, replicate_sem : str or int, optional
        Columns with the number of measurements averaged in each value, and with their standard deviation or
        the standard error of their mean; see `as_measured`.
    drop_outside, drop_value, accept_outliers
        See `daskrf.fit`.
    limits : sequence of Limits, optional
        Further labels to leave out, for each target.
    scales : sequence of Scale, optional
        Scales of the model's existing labels, one for each target; values are converted to their units.
    accept_rejects : bool
        Leave out rows that cannot be read, such as broken records of an SD file; they are counted.
    repeats : {"all", "best", "mean", "median"}
        Whether all labels of a molecule count, or one in their place; applied when labels are joined.
    best : str, or mapping of str to str, optional
        For "best": the direction of all targets, or of each by name.
    positive : str, or sequence of str
        Words of the positive class in columns that hold words; all others there mean the other class. Words
        whose meaning is known, such as active and inactive, need not be named.
    classes : bool
        Whether labels that are all 0 or 1 are classes; else they are numbers.
    existing_classes : sequence of ClassWords or None, optional
        For each target, the words of the model's existing labels, if it has classes.
    """

    key: str = "id"
    key_column: Column | None = None
    targets: Sequence[Column] | None = None
    drop_non_numbers: bool = False
    censored: str | None = None
    transform: str | Mapping[str, str] | None = None
    unit: str | Mapping[str, str] | None = None
    replicates: Column | None = None
    replicate_std: Column | None = None
    replicate_sem: Column | None = None
    drop_outside: str | tuple[float, float] | Mapping[str, object] | None = None
    drop_value: float | Sequence[float] | Mapping[str, object] | None = None
    accept_outliers: bool = False
    limits: Sequence[Limits] | None = None
    scales: Sequence[Scale] | None = None
    accept_rejects: bool = False
    repeats: str = "all"
    best: str | Mapping[str, str] | None = None
    positive: str | Sequence[str] = ()
    classes: bool = True
    existing_classes: Sequence[ClassWords | None] | None = None

    def __post_init__(self) -> None:
        words = (self.positive,) if isinstance(self.positive, str) else tuple(map(str, self.positive))
        object.__setattr__(self, "positive", words)
        if self.replicate_std is not None and self.replicate_sem is not None:
            raise InputError(
                "give the standard deviation of replicates or the standard error of their mean, not both"
            )
        if self.replicate_std is not None and self.replicates is None:
            raise InputError("the standard deviation of replicates needs their number; give replicates, too")
        if self.replicate_sem is not None and self.replicates is None:
            raise InputError(
                "the standard error of a mean needs the number of measurements; give replicates, too"
            )
        check_repeats(self.repeats)
        if self.repeats != "all" and self.replicates is not None:
            raise InputError(
                "with --replicates each row is the mean of several measurements, and all rows are "
                "used; leave out --repeats"
            )
        if self.key not in KEYS:
            raise InputError(f"labels are joined by {', '.join(KEYS)}, not by {self.key!r}")
        if self.censored not in (None, *CENSORED_AS):
            raise InputError(f"censored is one of {', '.join(CENSORED_AS)}, not {self.censored!r}")
        if self.targets is not None:
            targets = [self.targets] if isinstance(self.targets, str) else list(self.targets)
            object.__setattr__(self, "targets", targets)

    def drops(self, kind: int) -> bool:
        """Return whether values of a kind are left out instead of refused."""
        if kind == DROPPED:
            return True
        if kind in (CENSORED, NO_LIMIT):
            return kind == NO_LIMIT or self.censored == "drop"
        return self.drop_non_numbers

    @property
    def limits_count(self) -> bool:
        """Whether censored values are used as limits."""
        return self.censored in (None, "limit")
