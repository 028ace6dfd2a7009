"""Arguments for classes that contract tests find by themselves, from the signature alone."""

from __future__ import annotations

import inspect
from typing import Any

from daskrf.features import FeatureMap, default_map
from daskrf.kernels import Kernel
from daskrf.kernels.kernel import AUTO, known_kernels
from daskrf.parameters import Parameter, parameters_of

LENGTH = 4.0
"""In place of a length scale that only labels determine."""


def choices_of(cls: Any) -> dict[str, tuple[Any, ...]]:
    """Return the values that type hints list for the parameters of a class."""
    found: dict[str, tuple[Any, ...]] = {}
    for each in parameters_of(cls):
        if each.kind is bool:
            found[each.name] = (False, True)
        elif each.choices and not each.kinds:
            found[each.name] = (*each.choices, *([None] if each.optional else []))
    return found


def arguments(cls: Any) -> dict[str, Any]:
    """Return arguments for the parameters of a class that have no default, or one that only labels can tell.

    Raises
    ------
    ValueError
        If the type of such a parameter does not tell a value.
    """
    defaults = {name: each.default for name, each in inspect.signature(cls).parameters.items()}
    found = {}
    for each in parameters_of(cls):
        if defaults[each.name] is inspect.Parameter.empty:
            found[each.name] = _value(each)
        elif isinstance(defaults[each.name], str) and defaults[each.name] == AUTO and float in each.kinds:
            found[each.name] = LENGTH
    return found


def _value(parameter: Parameter) -> Any:
    if parameter.optional:
        return None
    if parameter.choices:
        return parameter.choices[0]
    if kernel := parameter.class_below(Kernel):
        return next(iter(known_kernels(kernel).values()))()
    if parameter.class_below(FeatureMap):
        return default_map()
    simple = {bool: False, int: 2, float: 1.0}
    if parameter.kind not in simple:
        raise ValueError(f"the type of {parameter.name} tells no value")
    return simple[parameter.kind]
