"""Advice on labels that do not suit a Gaussian process."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from daskrf.tables.values.values import Scale, is_concentration

_CLASS_LABELS = 10  # fewer labels of two values may be chance
_DECADES = 4.0  # quantities that suit a linear scale do not span more
_FEW_DECADES = 1.5  # a larger span, with a skewed distribution, hints at a quantity that suits a logarithm
_SKEWNESS = 1.5
_AT_ONCE = 1 << 20  # labels: there may be 10^8
_USUAL_P = (3.0, 12.0)  # medians of pIC50, from mM to pM


def advice_on(name: str, y: npt.NDArray[np.float64], scale: Scale | None) -> str:
    """Return advice on labels that do not suit a Gaussian process, or nothing."""
    low, high = float(y.min()), float(y.max())
    whole = low.is_integer() and high.is_integer() and len(y) >= _CLASS_LABELS
    if whole and low < high and bool(((y == low) | (y == high)).all()):
        return (
            f"{name}: all {len(y):,} labels are {low:g} or {high:g}; a Gaussian process regresses such "
            "classes, so read its predictions as scores, not as probabilities; --positive "
            f"{high:g} makes them classes"
        )
    if scale is not None and scale.is_p and not _USUAL_P[0] <= (middle := float(np.median(y))) <= _USUAL_P[1]:
        return (
            f"{name}: the median is {middle:.1f}, which is {10 ** (9 - middle):.2g} nM and unusual; check "
            f"the unit ({scale.unit or scale.units}), or give it with --unit"
        )
    above = y[y > 0]
    if low < 0 or high <= 0 or (scale is not None and scale.transform):
        return ""
    decades, unit = math.log10(high / (low := float(above.min()))), scale.unit if scale else ""
    concentrations = is_concentration(name, unit)
    if (
        decades > _DECADES
        or (decades > 1 and concentrations)
        or (decades > _FEW_DECADES and _is_skewed(above))
    ):
        return (
            f"{name}: labels span {decades:.1f} decades, from {low:g} to {high:g}; fit their logarithm "
            f"instead, for example with --transform pIC50 --unit {unit or 'nM'} for concentrations, or with "
            "--transform log10"
        )
    return ""


def _is_skewed(y: npt.NDArray[np.float64]) -> bool:
    """Return whether positive values have a long tail, and their logarithms a much shorter one."""

    def skewness(values: npt.NDArray[np.float64]) -> float:
        mean, cubes, squares = values.mean(), 0.0, 0.0
        for start in range(0, len(values), _AT_ONCE):
            centred = values[start : start + _AT_ONCE] - mean
            cubes, squares = cubes + (centred**3).sum(), squares + (centred**2).sum()
        return abs(float((cubes / len(values)) / (squares / len(values)) ** 1.5))

    return len(y) >= _CLASS_LABELS and skewness(y) > max(_SKEWNESS, 2 * skewness(np.log(y)))
