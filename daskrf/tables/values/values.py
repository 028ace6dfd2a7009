"""Values of labels: what the cells of a table say, and the scale on which they are learned."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict, cast

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError, printable
from daskrf.tables.values.names import normalised
from daskrf.tables.values.notation import (
    CENSORED,
    DROPPED,
    EMPTY,
    HUGE,
    LOGARITHM,
    NO_LIMIT,
    NUMBER,
    UNIT,
    WEIGHT,
    WORDS,
)
from daskrf.tables.values.units import (
    DECADES,
    concentration_unit,
    grams_per_litre,
    mass_unit,
    plain_unit,
    unit_in_name,
)

Floats = npt.NDArray[np.float64]
Kinds = npt.NDArray[np.uint8]

LARGEST: Final = 1e100
"""Values beyond this are not labels: sums of their squares would not be finite."""

LEFT_OUT: Final = {
    EMPTY: "empty, NaN or infinite",
    WORDS: "not a number",
    CENSORED: "censored",
    UNIT: "in another unit",
    LOGARITHM: "without a logarithm",
    HUGE: "too large",
    DROPPED: "to be dropped",
    NO_LIMIT: "limits without a number",
    WEIGHT: "without a molecular weight",
}
"""Why a cell has no value, in words."""

AS_VALUES = "censored, and taken as if they were measured"
LOWER_LIMITS, UPPER_LIMITS = "lower limits", "upper limits"
APPROXIMATE = "approximate, and taken as measured"
BY_WEIGHT = "in mass per volume, made molar by the average molecular weight of the SMILES, salts included"
USED = (AS_VALUES, LOWER_LIMITS, UPPER_LIMITS, APPROXIMATE, BY_WEIGHT)
"""What is not plain numbers, and is used all the same, in words."""
BY_CELLS, BY_NAME = " (by its cells)", " (by its name)"
"""How a unit is known that stands beside the numbers, or in the name of their column; see `Scale.found`."""

_CONCENTRATION = re.compile(
    r"(?<![A-Za-z])(?:[IEDALX]C_?50|[IE]C_?(?:[1-9][05]|99)|K_?[idD](?:_?app)?|GI_?50|MIC)"
    r"(?:[munpfMUNPF]M)?(?![A-Za-z])"
)
_LOGARITHM = re.compile(
    r"(?<![a-z])(?:log|l[ng])(?:10|2)?(?![a-z\d]|-\d)|"  # LN-229 is a line of cells
    r"(?<![a-z])(?:neg|minus)?(?:log|l[ng])(?:10|2)?[\W_]*(?:[a-z]{2}[\W_]*[59]0|k[\W_]*[idb](?![a-z])|mic(?![a-z]))|"
    r"(?<![a-z])p(?:ic50|ec50|k[id])(?![a-z\d])"
)
_P = re.compile(r"p[A-Z]\w*")
LOGARITHMS = {"log10": np.log10, "ln": np.log, "log2": np.log2}


def as_measured(
    means: Floats, times: npt.NDArray[np.int64], std: Floats
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return measurements that have given means, numbers and standard deviations.

    A Gaussian likelihood depends on repeated measurements through these three alone, so a fit to any such
    measurements equals the fit to the true ones.

    Parameters
    ----------
    means : float64 array, shape (n,)
    times : int64 array, shape (n,)
        At least 1.
    std : float64 array, shape (n,)
        Of a sample, with n - 1 in the denominator; not used of one measurement.

    Returns
    -------
    index : int64 array, shape (sum of times,)
        Of which mean each is one.
    values : float64 array of the same shape
        Evenly spaced about each mean.

    Examples
    --------
    >>> index, values = as_measured(np.array([5.0, 1.0]), np.array([3, 1]), np.array([0.5, 0.0]))
    >>> index.tolist(), values.tolist()
    ([0, 0, 0, 1], [4.5, 5.0, 5.5, 1.0])
    """
    index = np.repeat(np.arange(len(means)), times)
    place = np.arange(len(index)) - np.repeat(np.cumsum(times) - times, times)
    # The sum of squares of n numbers 1 apart, about their mean, is n (n^2 - 1) / 12.
    step = std * np.sqrt(12.0 / (times * (times + 1.0)))
    return index, means[index] + step[index] * (place - (times[index] - 1) / 2)


def is_concentration(name: str, unit: str) -> bool:
    """Return whether values are concentrations by their unit or name.

    Examples
    --------
    >>> is_concentration("IC50_nM", ""), is_concentration("pIC50", ""), is_concentration("dose", "uM")
    (True, False, True)
    """
    return _CONCENTRATION.search(name) is not None or concentration_unit(unit) is not None


def is_logarithm(name: str) -> bool:
    """Return whether values are logarithms by their name, which have no unit of concentration.

    Examples
    --------
    >>> is_logarithm("pIC50"), is_logarithm("logD"), is_logarithm("IC50")
    (True, True, False)
    """
    prefixes = ("log", "pic50", "pki", "pkd", "pec50", "pchembl")
    return normalised(name).startswith(prefixes) or _LOGARITHM.search(name.lower()) is not None


class ScaleState(TypedDict):
    """What `Scale.state` returns."""

    column: str
    name: str
    transform: str
    unit: str
    found: str
    units: str


class LimitsState(TypedDict):
    """What `Limits.state` returns; an end that is None is infinite."""

    low: float | None
    high: float | None
    values: list[float]
    plain: list[float]


@dataclass(frozen=True)
class Scale:
    """The scale on which the values of one column are learned.

    Attributes
    ----------
    column : str
        Name of the column.
    name : str
        Name of the target.
    transform : str
        "" for the values as they are, "log10", "ln" or "log2", or a name such as "pIC50": the negative
        decimal logarithm of a concentration in mol/L.
    unit : str
        Unit of the values in the column; "" if it is not known.
    found : str
        How the unit is known, in words, if it was not given.
    units : str
        Name of the column that holds the unit of each value; "" if there is none.

    Examples
    --------
    >>> scale = Scale("IC50", "pIC50", "pIC50", "nM")
    >>> values, kinds = scale.apply(np.array([10_000.0, 0.0]))
    >>> values.tolist(), kinds.tolist()
    ([5.0, nan], [0, 5])
    >>> print(scale.words())
    pIC50 = 9 - log10 of 'IC50' in nM
    """

    column: str
    name: str
    transform: str = ""
    unit: str = ""
    found: str = ""
    units: str = ""

    @property
    def is_p(self) -> bool:
        """Whether the scale is the negative logarithm of a concentration."""
        return bool(self.transform) and self.transform not in LOGARITHMS

    @property
    def is_molar(self) -> bool:
        """Whether values are, or become, amounts per volume."""
        return self.is_p or self.unit in DECADES

    @property
    def is_weighed(self) -> bool:
        """Whether values of the column are mass per volume and become molar by molecular weights."""
        return self.is_p and not self.units and mass_unit(self.unit) is not None

    @property
    def worth_stating(self) -> bool:
        """Whether it has a transform or a unit to report."""
        return bool(self.transform or self.unit)

    def apply(self, values: Floats, units: Sequence[str] | None = None) -> tuple[Floats, Kinds]:
        """Return values on this scale, and what each of them was.

        Parameters
        ----------
        values : float64 array, shape (n,)
            NaN stays NaN, and counts as a number here.
        units : sequence of str, length n, optional
            Unit of each value, if there is a column of units.

        Returns
        -------
        values : float64 array, shape (n,)
        kinds : uint8 array, shape (n,)
            `NUMBER`; `UNIT`, `LOGARITHM` or `HUGE` where the value is NaN for this reason.
        """
        kinds = np.where(np.abs(values) > LARGEST, HUGE, NUMBER).astype(np.uint8)
        decades = np.full(len(values), float(DECADES.get(self.unit, 0)))
        if units is not None:
            decades_of = {text: self._decades(text) for text in set(units)}
            decades = np.array([decades_of[text] for text in units])
            kinds[np.isnan(decades) & np.isfinite(values)] = UNIT
            if not self.is_p:
                values = self.in_its_unit(values, units)
        if not self.transform:
            kinds[(kinds == NUMBER) & (np.abs(values) > LARGEST)] = HUGE
            return np.where(kinds == NUMBER, values, np.nan), kinds
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = decades - np.log10(values) if self.is_p else LOGARITHMS[self.transform](values)
        lost = ~np.isfinite(scaled)
        kinds[lost & np.isfinite(values) & (kinds == NUMBER)] = LOGARITHM
        scaled[lost | (kinds != NUMBER)] = np.nan
        return scaled, kinds

    def masses(self, n: int, units: Sequence[str] | None) -> Floats | None:
        """Return the grams per litre of one unit of each of `n` values; None if none is to become molar.

        Those that are no mass per volume are NaN.
        """
        if not self.is_molar or (units is None and not self.is_weighed):
            return None
        texts = units or [self.unit] * n
        factors = {text: grams_per_litre(text) for text in set(texts)}
        grams = np.array([factors[text] for text in texts], dtype=np.float64)
        return None if np.isnan(grams).all() else grams

    def in_its_unit(self, values: Floats, units: Sequence[str] | None) -> Floats:
        """Return values in the unit of the scale, mol/L if it has none; NaN where one cannot be converted."""
        if units is None:
            return values
        decades_of = {text: self._decades(text) for text in set(units)}
        decades = np.array([decades_of[text] for text in units])
        return values * 10.0 ** (DECADES.get(self.unit, 0) - decades)

    def _decades(self, unit: str) -> float:
        """Return by how many decades a unit is smaller than mol/L; NaN if it cannot be converted."""
        concentration = concentration_unit(unit)
        if concentration is None:  # the same unit, whatever it is, needs no conversion
            return 0.0 if not self.is_p and plain_unit(unit) == plain_unit(self.unit) else math.nan
        return float(DECADES[concentration]) if self.is_p or self.unit in DECADES else math.nan

    def to(self, old: Scale) -> Scale:
        """Return this scale of new labels in the unit of the existing ones, which are on the scale `old`.

        Raises
        ------
        InputError
            If it is not known that both units are the same, and values cannot be converted.

        Examples
        --------
        >>> print(Scale("IC50", "IC50", "", "uM").to(Scale("IC50", "IC50", "", "nM")).words())
        'IC50' in nM (converted from uM)
        """
        if old.is_p or old.transform != self.transform or plain_unit(self.unit) == plain_unit(old.unit):
            return self  # in mol/L, or on the scale already
        weighed = mass_unit(self.unit) is not None and old.unit in DECADES
        if weighed or {self.unit, old.unit} <= DECADES.keys():
            source = self.found if self.units else f" (converted from {self.unit})"
            return replace(self, unit=old.unit, found=source)
        new, model = f"'{printable(self.column, 60)}'", f"the model's '{printable(old.name, 60)}'"
        if not self.unit:
            raise InputError(
                f"the unit of {new} is not known, and {model} is in {old.unit}; give it, for example --unit "
                f"{old.unit}"
            )
        if old.unit:
            raise InputError(f"{new} is in {self.unit}, and {model} in {old.unit}; convert the values")
        if self.column == old.column and self.found == BY_NAME:
            return self
        raise InputError(
            f"{new} is in {self.unit}, and the unit of {model} is not known; fit the model again with "
            "--unit, or give the values in the unit of the fit, in a column that names no unit"
        )

    def words(self) -> str:
        """Return what the scale is, in words."""
        unit = "mol/L" if self.is_p and self.units else self.unit
        by = f" (converted from the units in '{printable(self.units, 60)}')" if self.units else self.found
        source = f"'{printable(self.column, 60)}'{f' in {unit}' if unit else ''}{by}"
        if not self.transform:
            return source
        if self.is_weighed:
            source += ", made molar by the average molecular weight of the SMILES, salts included"
        decades = 0 if self.units else DECADES.get(self.unit)
        how = f"{decades} - log10" if self.is_p and decades else "-log10" if self.is_p else self.transform
        return f"{printable(self.name, 60)} = {how} of {source}"

    def state(self) -> ScaleState:
        """Return a dict for JSON that rebuilds it."""
        return cast(ScaleState, {name: getattr(self, name) for name in self.__dataclass_fields__})


@dataclass(frozen=True)
class Limits:
    """Labels of a target that are left out, on its scale.

    Attributes
    ----------
    low, high : float
        Smaller and larger labels are left out.
    values : tuple of float
        So are these.
    plain : tuple of float
        And these values as they stand in the file, which have no place on the scale, such as a logarithm.

    Examples
    --------
    >>> limits = Limits.of(Scale("IC50", "pIC50", "pIC50", "nM"), "1:10000", [0.0])
    >>> limits
    Limits(low=5.0, high=9.0, values=(), plain=(0.0,))
    >>> limits.drops(np.array([4.0, 5.0, math.nan]), np.array([1e5, 1e4, 0.0])).tolist()
    [True, False, True]
    """

    low: float = -math.inf
    high: float = math.inf
    values: tuple[float, ...] = ()
    plain: tuple[float, ...] = ()

    @classmethod
    def of(cls, scale: Scale, outside: str | tuple[float, float], values: Sequence[float]) -> Limits:
        """Return the limits for a range LOW:HIGH and single values, as they stand in the file.

        Raises
        ------
        InputError
            If `outside` is no range.
        """
        if scale.is_weighed:
            if outside:
                raise InputError(
                    f"a range of '{printable(scale.column, 60)}' in {scale.unit} is another one for each "
                    "molecular weight; leave out single values with --drop-value, or convert the column."
                )
            return cls(plain=tuple(float(value) for value in values))
        texts = outside.split(":") if isinstance(outside, str) else list(map(str, outside))
        ends = [text.strip() for text in texts] if outside else ["", ""]
        try:
            first, last = ends
            low, high = float(first or "-inf"), float(last or "inf")
        except ValueError:
            low = high = math.nan
        if not low < high:
            raise InputError(
                f"{outside!r} is not a range of values to keep; give LOW:HIGH, such as -15:0, or one end."
            )
        scaled = _scaled(scale, [low, high])
        bounds = [end if math.isfinite(end) else None for end in scaled]
        if scale.is_p:
            bounds.reverse()
        images = _scaled(scale, list(values))
        return cls(
            -math.inf if bounds[0] is None else bounds[0],
            math.inf if bounds[1] is None else bounds[1],
            tuple(image for image in images if math.isfinite(image)),
            tuple(v for v, image in zip(values, images, strict=True) if not math.isfinite(image)),
        )

    def drops(self, y: Floats, plain: Floats) -> npt.NDArray[np.bool_]:
        """Return which labels are left out; `plain` are the values as they stand in the file."""
        out = (y < self.low - _rounding(self.low)) | (y > self.high + _rounding(self.high))
        for value in self.values:
            out |= np.abs(y - value) <= _rounding(value)
        return out | np.isin(plain, self.plain)

    def __or__(self, other: Limits) -> Limits:
        """Return limits that leave out what either does."""
        values, plain = {*self.values, *other.values}, {*self.plain, *other.plain}
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Limits(low, high, tuple(sorted(values)), tuple(sorted(plain)))

    def state(self) -> LimitsState:
        """Return a dict for JSON that rebuilds it."""
        ends = [end if math.isfinite(end) else None for end in (self.low, self.high)]
        return {"low": ends[0], "high": ends[1], "values": list(self.values), "plain": list(self.plain)}

    @classmethod
    def from_state(cls, state: LimitsState) -> Limits:
        """Return the limits with a `state`."""
        low, high = state["low"], state["high"]
        return cls(
            -math.inf if low is None else float(low),
            math.inf if high is None else float(high),
            tuple(map(float, state["values"])),
            tuple(map(float, state["plain"])),
        )


def _scaled(scale: Scale, values: list[float]) -> list[float]:
    """Return values on a scale; those that have no place there are not finite."""
    return [float(v) for v in scale.apply(np.array(values, dtype=np.float64))[0]]


def _rounding(value: float) -> float:
    """Return by how much a label may differ from a value and still be the same."""
    return 1e-9 * abs(value) if math.isfinite(value) else 0.0


def limits_of(
    scales: Sequence[Scale],
    outside: str | tuple[float, float] | Mapping[str, Any] | None,
    values: float | Sequence[float] | Mapping[str, Any] | None,
) -> tuple[Limits, ...]:
    """Return the limits of each target, given for all or by the name of the column.

    Raises
    ------
    InputError
        If there is no such column, or no range is given.
    """
    columns = [scale.column for scale in scales]
    ranges: list[Any] = (
        [outside] * len(columns) if isinstance(outside, tuple) else _each(columns, outside, "range")
    )
    if isinstance(values, Mapping):
        _each(columns, dict.fromkeys(values, ""), "value to drop")
        dropped = [_several(values.get(column)) for column in columns]
    else:
        dropped = [_several(values)] * len(columns)
    return tuple(
        Limits.of(scale, text, dropped) for scale, text, dropped in zip(scales, ranges, dropped, strict=True)
    )


def _several(values: float | Sequence[float] | None) -> list[float]:
    """Return one value or several as a list."""
    if values is None:
        return []
    return [float(v) for v in ([values] if isinstance(values, (int, float)) else values)]


class DescribedValues(TypedDict, total=False):
    """How the values of the targets of a model are read."""

    scales: list[ScaleState]
    limits: list[LimitsState]


def limits_in(metadata: DescribedValues) -> list[Limits]:
    """Return the limits of the targets of a model, from its metadata."""
    return [Limits.from_state(state) for state in metadata.get("limits", ())]


def scales_in(metadata: DescribedValues) -> list[Scale]:
    """Return the scales of the targets of a model, from its metadata."""
    return [Scale(**state) for state in metadata.get("scales", ())]


def scales_of(
    columns: Sequence[str],
    transform: str | Mapping[str, str] | None = None,
    unit: str | Mapping[str, str] | None = None,
    units: tuple[str, Sequence[str]] | None = None,
    beside: Sequence[str] | None = None,
    *,
    of_model: bool = False,
) -> tuple[Scale, ...]:
    """Return the scale of each column of values.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns.
    transform, unit : str, or dict of str to str, optional
        For all columns, or for each by name; see `daskrf.fit`.
    units : (str, sequence of str), optional
        Name and first values of the column of units, if there is one. Values are converted from these units
        to the one that is given.
    beside : sequence of str, optional
        The unit that stands beside the numbers of each column, or "".
    of_model : bool, default False
        The columns have the names of a model's targets, whatever the unit of these values is.

    Raises
    ------
    InputError
        If a transform or a column is not known, a column is transformed already, or the unit of a
        concentration is not known, or is another one in its name.

    Examples
    --------
    >>> scales_of(["IC50 (nM)"], "pIC50")[0].words()
    "pIC50 = 9 - log10 of 'IC50 (nM)' in nM (by its name)"
    """
    forms, chosen_units = _each(columns, transform, "transform"), _each(columns, unit, "unit")
    forms = ["" if form.lower() == "none" else form for form in forms]
    return tuple(
        _scale(column, form, chosen_unit, units, inside, alone=forms.count(form) == 1, of_model=of_model)
        for column, form, chosen_unit, inside in zip(
            columns, forms, chosen_units, beside or [""] * len(columns), strict=True
        )
    )


def _scale(
    column: str,
    form: str,
    unit: str,
    units: tuple[str, Sequence[str]] | None,
    beside: str,
    *,
    alone: bool,
    of_model: bool,
) -> Scale:
    """Return the scale of a column; `alone` if no other one has the same transform."""
    _check_transform(column, form)
    is_p = bool(form) and form not in LOGARITHMS
    name = form if is_p and alone else f"{form}_{column}" if form else column
    if is_p and unit and concentration_unit(unit) is None and mass_unit(unit) is None:
        raise InputError(
            f"{form} is computed from concentrations, and {unit!r} is not a unit of concentration; choose "
            f"one of {', '.join(DECADES)}."
        )
    if unit:
        free = of_model or units is not None or bool(beside)
        if (named := _other_unit(column, unit, free=free)) is not None:
            raise InputError(
                f"the name of '{printable(column, 60)}' says {named}, and --unit (unit) says {unit}; leave "
                f"--unit out, or rename the column if its values are in {unit}."
            )
        return Scale(column, name, form, plain_unit(unit), units="" if units is None else units[0])
    if units is not None and (common := Counter(map(plain_unit, filter(str.strip, units[1])))):
        usual = max(common, key=common.__getitem__)
        return Scale(column, name, form, "M" if is_p and mass_unit(usual) else usual, units=units[0])
    if (inside := unit_in_name(column, sure=not is_p)) is not None:
        return Scale(column, name, form, inside, BY_NAME)
    if beside and not (is_p and concentration_unit(beside) is None and mass_unit(beside) is None):
        return Scale(column, name, form, "M" if is_p and mass_unit(beside) else beside, BY_CELLS)
    if is_p:
        raise InputError(
            f"the unit of '{column}' is not known, and {form} depends on it; give it, for example --unit nM"
        )
    return Scale(column, name, form)


def _other_unit(column: str, unit: str, *, free: bool) -> str | None:
    """Return the unit in the name of a column if values in `unit` cannot be meant, else None.

    Names that are `free` may have any unit of the same kind: those of a model, and those of values that are
    converted, from units of their own. M at the end of a name may be another word.
    """
    named = unit_in_name(column, sure=False)
    if named is None or plain_unit(named) == plain_unit(unit):
        return None
    same_kind = (mass_unit(named) is None) == (mass_unit(unit) is None)
    unsure = named == "M" and unit_in_name(column, sure=True) is None
    return None if same_kind and (free or unsure) else named


def _each(columns: Sequence[str], choice: str | Mapping[str, str] | None, what: str) -> list[str]:
    """Return what is given for each column, or an empty string."""
    if choice is None or isinstance(choice, str):
        return [choice or ""] * len(columns)
    if unknown := [name for name in choice if name not in columns]:
        there = ", ".join(f"'{name}'" for name in columns)
        raise InputError(
            f"a {what} is given for '{unknown[0]}', which is not a target; the columns are {there}."
        )
    return [choice.get(column, "") for column in columns]


def _check_transform(column: str, form: str) -> None:
    if form and form not in LOGARITHMS and not _P.fullmatch(form):
        choices = ", ".join(LOGARITHMS)
        raise InputError(
            f"{form!r} is not a transform; choose {choices}, or a name such as pIC50, pKi or pEC50."
        )
    if form and (is_logarithm(column) or normalised(column).startswith(normalised(form))):
        raise InputError(
            f"'{column}' is a logarithm, judging by its name; leave out the transform, or rename the column."
        )
