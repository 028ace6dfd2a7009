"""The common base of acquisition rules. Larger scores are always better.

A rule is a frozen dataclass in a file of this folder, derived from `Acquisition`. It states its name, what it
needs from the posterior, its parameters with their defaults, and `score`. It is registered nowhere else.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError, OptionError
from daskrf.exports import declared
from daskrf.parameters import Parameter, parameters_of
from daskrf.quantities import either

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Acquisition(ABC):
    """One acquisition rule with its settings; the parameters of a rule are the fields that it adds.

    Parameters
    ----------
    maximize : bool
        Whether large y is good. By default, small y is good, as for docking scores.

    Raises
    ------
    OptionError
        If a number is not finite, or impossible.
    """

    name: ClassVar[str]
    """The name by which users choose the rule."""
    needs_std: ClassVar[bool] = False
    """Whether it uses standard deviations (of f)."""
    needs_sample: ClassVar[bool] = False
    """Whether it ranks by a posterior sample of f in place of its mean."""
    logarithmic: ClassVar[bool] = False
    """Whether its scores are logarithms."""
    of_model: ClassVar[tuple[str, ...]] = ()
    """Fields that the model determines, and not the user."""

    maximize: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise OptionError(f"{field.name} of the acquisition must be finite, not {value}.")

    @property
    def sign(self) -> float:
        """1 if large y is good, else -1."""
        return 1.0 if self.maximize else -1.0

    def with_best(self, best: float) -> Self:
        """Return the rule for labels whose best value is `best`, unless the rule has a value already."""
        return self

    def state(self) -> dict[str, object]:
        """Return name and settings, JSON-able: ``acquisition_for(**state)`` rebuilds the rule."""
        return {"rule": self.name, **asdict(self)}

    @abstractmethod
    def score(self, gain: Array, std: Array | None) -> Array:
        """Return the score of each row.

        Parameters
        ----------
        gain : float64 array, shape (n,)
            Posterior mean (or sample) of f if large y is good, else its negative.
        std : float64 array, shape (n,), or None
            Posterior standard deviation of f; not None if the rule needs it. With the same gain, the score
            must only rise or only fall with it (see `bound`).
        """

    def bound(self, mean: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> Array:
        """Return the largest score of each row whose standard deviation is between `low` and `high`.

        Examples
        --------
        >>> acquisition_for("ucb").bound([-9.0, -8.0], [0.0, 0.5], [0.1, 1.0]).tolist()
        [9.1, 9.0]
        """
        return np.maximum(self(mean, low), self(mean, high))

    def __call__(self, mean: npt.ArrayLike, std: npt.ArrayLike | None = None) -> Array:
        """Return the score of each row.

        Parameters
        ----------
        mean : float array, shape (n,)
            Posterior mean of f, or the values of one posterior sample if `needs_sample`.
        std : float array, shape (n,), optional
            Posterior standard deviation of f, zero allowed; required if `needs_std`.

        Returns
        -------
        float64 array, shape (n,)

        Raises
        ------
        InputError
            If `std` is missing although the rule needs it, or is negative.
        """
        gain = self.sign * np.asarray(mean, dtype=np.float64)
        if not self.needs_std:
            return self.score(gain, None)
        if std is None:
            raise InputError(f"acquisition {self.name!r} needs standard deviations: predict them as well.")
        deviation = np.asarray(std, dtype=np.float64)
        if (deviation < 0).any():
            raise InputError("a standard deviation is negative: check the predictions.")
        return self.score(gain, deviation)


def rules() -> dict[str, type[Acquisition]]:
    """Return the class of every rule by its name, sorted by name.

    Examples
    --------
    >>> rules()["ucb"].__name__
    'ConfidenceBound'
    """
    classes = declared(__package__, Acquisition).values()
    return {
        rule.name: rule for rule in sorted((r for r in classes if "name" in vars(r)), key=lambda r: r.name)
    }


def parameters_of_rules() -> list[Parameter]:
    """Return the parameters that only some rules have, with the names of these rules in the help text.

    Examples
    --------
    >>> {parameter.name: parameter.help for parameter in parameters_of_rules()}["kappa"]
    'Weight of the standard deviation in the score, 0 or more (ucb).'
    """
    common = tuple(field.name for field in fields(Acquisition))
    parameters: dict[str, Parameter] = {}
    names: dict[str, list[str]] = {}
    for name, rule in rules().items():
        for parameter in parameters_of(rule, without=(*common, *rule.of_model)):
            parameters.setdefault(parameter.name, parameter)
            names.setdefault(parameter.name, []).append(name)
    return [
        replace(p, help=f"{p.help.rstrip('.')} ({', '.join(names[p.name])}).") for p in parameters.values()
    ]


def acquisition_for(rule: str, **settings: object) -> Acquisition:
    """Return the rule with the given name and settings.

    Raises
    ------
    OptionError
        If there is no such rule, or the rule lacks one of the settings.

    Examples
    --------
    >>> acquisition_for("ucb", kappa=2.0)([-9.0, -8.0], [0.1, 1.0]).tolist()
    [9.2, 10.0]
    """
    if rule not in rules():
        raise OptionError(f"acquisition {rule!r} is unknown: choose one of {', '.join(rules())}.")
    for name in settings:
        having = [other for other, cls in rules().items() if name in {field.name for field in fields(cls)}]
        if not having:
            raise OptionError(f"no acquisition rule has a setting {name!r}; leave it out.")
        if rule not in having:
            raise OptionError(
                f"--{name} goes with {either('--acquisition', having)}, not with {rule}; leave it out, or "
                "use such a rule."
            )
    make: Callable[..., Acquisition] = rules()[rule]
    return make(**settings)
