"""The target that ranks molecules: one of the model, or a weighted sum of several, written as a formula."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daskrf.acquisition import Acquisition
from daskrf.errors import InputError, OptionError
from daskrf.gp.processes.coregionalized import CoregionalizedGP
from daskrf.gp.processes.weightedsum import Target, WeightedSum, targets_in, values_of
from daskrf.models.directions import target_of
from daskrf.models.labelled import labelled_smiles
from daskrf.models.models import Model
from daskrf.molecules.structures import canonical_smiles
from daskrf.quantities import amount, listed
from daskrf.sources.sources import Source

_SIGN = re.compile(r"\s*([-+\N{MINUS SIGN}\N{EN DASH}])\s*")
_WEIGHT = re.compile(
    r"((?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|(?:inf|nan)\b)\s*[*\N{MIDDLE DOT}\N{MULTIPLICATION SIGN}]?\s*", re.I
)
_NEXT = re.compile(r"\s+[-+\N{MINUS SIGN}\N{EN DASH}]|$")
_HARDLY = 0.05  # a term with less than this share of the largest standard deviation hardly counts
_MOST_MERGED = 1_000_000  # labels whose molecules are compared by structure: RDKit takes minutes for them


def ranked_target(
    model: Model, target: str | int | Mapping[str, float] | Sequence[str | int] | None
) -> Target:
    """Return the requested target, by name or number, or a sum, given as a formula or as weights by name.

    Raises
    ------
    InputError
        If there is no such target, there are several and none is named, a weight is 0 or not finite, or a sum
        has a target twice, or only one.
    """
    if isinstance(target, str) and target not in model.targets:
        weights = parsed_formula(target, model.targets)
    elif isinstance(target, Mapping):
        weights = [(name, _number(name, weight)) for name, weight in target.items()]
    else:
        if target is None and len(model.targets) > 1:
            raise InputError(
                f"The model has several targets, {listed(model.targets, chr(39))}; choose one by --target "
                f"NAME (target=NAME), or a weighted sum, such as --target '{_example(model)}'."
            )
        return target_of(model, target)
    text = target if isinstance(target, str) else formula_of(weights)
    names = [name for name, _ in weights]
    for name, weight in weights:
        if names.count(name) > 1:
            raise OptionError(f"'{name}' occurs {names.count(name)} times in '{text}'; give it one weight.")
        if not math.isfinite(weight) or weight == 0:
            raise OptionError(f"The weight of '{name}' must be finite and not 0, but is {weight:g}.")
    places = tuple(target_of(model, str(name)) for name in names)
    if len(places) < 2:
        raise OptionError(
            f"'{text}' has one target only; give --target '{names[0]}' with --maximize or --minimize, or add "
            "another target."
            if names
            else "A sum of no targets cannot rank molecules; name two or more."
        )
    return WeightedSum(places, tuple(weight for _, weight in weights), formula_of(weights))


def _number(name: str, weight: object) -> float:
    """Return a weight that was given by name."""
    if isinstance(weight, bool) or not isinstance(weight, (int, float, np.number)):
        raise OptionError(f"The weight of '{name}' must be a number, not {weight!r}.")
    return float(weight)


def names_in(model: Model, target: Target) -> list[str]:
    """Return the names of a target, or of all targets of a sum."""
    return [model.targets[t] for t in targets_in(target)]


def parsed_formula(text: str, names: Sequence[str]) -> list[tuple[str, float]]:
    """Return the targets and weights of a formula.

    A weight precedes its target, with or without a multiplication sign. If several names match, the longest
    is taken, so names may contain spaces, digits and hyphens.

    Raises
    ------
    InputError
        If a part is not a target of the model.

    Examples
    --------
    >>> parsed_formula("pIC50 - 0.5 logD", ["pIC50", "logD"])
    [('pIC50', 1.0), ('logD', -0.5)]
    >>> parsed_formula("-2*docking score+A-1", ["docking", "docking score", "A-1"])
    [('docking score', -2.0), ('A-1', 1.0)]
    """
    at, there = 0, listed(list(names), "'")
    terms: list[tuple[str, float]] = []
    text = text.strip()
    while at < len(text) or not terms:
        sign = _SIGN.match(text, at)
        if sign is None and terms:
            raise InputError(
                f"'{text}' cannot be read from '{text[at:].strip()}' on; write weights and targets of the "
                f"model ({there}), with + or - between them."
            )
        at = sign.end() if sign else at
        weight, name = 1.0, _name_at(text, at, names)
        if name is None and (number := _WEIGHT.match(text, at)) is not None:
            weight, at = float(number.group(1)), number.end()
            name = _name_at(text, at, names)
        if name is None:
            other = text[at : _NEXT.search(text, at).start()].strip()  # type: ignore[union-attr]
            raise InputError(f"The model has no target {other!r}; it has {there}.")
        terms.append((name, weight if sign is None or sign.group(1) == "+" else -weight))
        at += len(name)
    return terms


def _name_at(text: str, at: int, names: Sequence[str]) -> str | None:
    """Return the longest name that begins at a position of a text and is not continued there."""
    fit = [name for name in names if text.startswith(name, at) and not _goes_on(text, at + len(name))]
    return max(fit, key=len, default=None)


def _goes_on(text: str, end: int) -> bool:
    return end < len(text) and (text[end].isalnum() or text[end] == "_")


def _example(model: Model) -> str:
    """Return a sum of the first and the last target, with the sign that their directions suggest."""
    first, last = model.targets[0], model.targets[-1]
    alike = model.directions.get(first) == model.directions.get(last) is not None
    return formula_of([(first, 1.0), (last, 0.5 if alike else -0.5)])


def formula_of(weights: Sequence[tuple[str, float]]) -> str:
    """Return a sum as a formula, which `parsed_formula` reads to the same weights.

    Examples
    --------
    >>> formula_of([("pIC50", 1.0), ("logD", -0.5)]), formula_of([("a", -1), ("b", 2)])
    ('pIC50 - 0.5 logD', '-a + 2 b')
    """
    parts = []
    for place, (name, weight) in enumerate(weights):
        size = repr(float(abs(weight))).removesuffix(".0")
        sign = "-" if weight < 0 else "+"
        before = ("-" if weight < 0 else "") if place == 0 else f" {sign} "
        parts.append(f"{before}{'' if size == '1' else f'{size} '}{name}")
    return "".join(parts)


@dataclass(frozen=True)
class Measured:
    """The labels of the target or sum that ranks molecules.

    Attributes
    ----------
    smiles : list of str
        Of each label, or of each molecule with labels; empty if not known.
    values : float64 array, shape (n,)
        NaN where a label is missing; for a sum, where that of any of its targets is.
    parts : float64 array, shape (n, n_targets of the model)
    labelled : bool array, shape (n,)
        Where there is a label, or a limit in its place; for a sum, where each of its targets has one.
    reason : str
        Why some or all of the SMILES are not known.
    """

    smiles: list[str]
    values: npt.NDArray[np.float64]
    parts: npt.NDArray[np.float64]
    labelled: npt.NDArray[np.bool_]
    reason: str

    @property
    def labelled_molecules(self) -> list[str]:
        """SMILES of the molecules that have a label, or a limit."""
        there = self.labelled.tolist()
        return [text for text, is_there in zip(self.smiles, there, strict=False) if text and is_there]


def measured_of(model: Model, target: Target, source: Source | None = None) -> Measured:
    """Return the labels of a target, or of a sum for each molecule that has labels of all its targets.

    The targets of a molecule may have been measured at different times. So labels of a sum are combined by
    structure, if structures are known; several labels of a target are averaged.

    Parameters
    ----------
    model : Model
    target : int or WeightedSum
    source : Source, optional
        A library that may be the one that the model was fitted to.
    """
    smiles, reason = labelled_smiles(model, source)
    (y,) = model.arrays("labels")
    there = np.isfinite(y)
    for t in range(y.shape[1]):
        if (limits := model.limits_of(t)) is not None:
            there[:, t] |= limits[1] != 0
    if isinstance(target, WeightedSum) and len(smiles) == len(y) <= _MOST_MERGED:
        smiles, y, there = _by_molecule(smiles, y, there)
    return Measured(smiles, values_of(y, target), y, there[:, list(targets_in(target))].all(axis=1), reason)


def _by_molecule(
    smiles: Sequence[str], y: npt.NDArray[np.float64], labelled: npt.NDArray[np.bool_]
) -> tuple[list[str], npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return one SMILES for each molecule, the mean of its labels of each target, and whether it has any."""
    names = [text or f"?{place}" for place, text in enumerate(canonical_smiles(smiles))]
    _, first, index = np.unique(names, return_index=True, return_inverse=True)
    there = np.isfinite(y)
    counts, sums = np.zeros((len(first), y.shape[1])), np.zeros((len(first), y.shape[1]))
    np.add.at(counts, index, there)
    np.add.at(sums, index, np.where(there, y, 0.0))
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    any_label = np.zeros(means.shape, bool)
    np.logical_or.at(any_label, index, labelled)
    return [smiles[place] for place in first.tolist()], means, any_label


def best_of(model: Model, target: Target, measured: Measured | None, rule: Acquisition) -> Acquisition:
    """Return the rule with the best label, which some rules improve on.

    Raises
    ------
    InputError
        If the rule needs one, and no molecule has labels of all targets of a sum.
    """
    if not isinstance(target, WeightedSum):
        return rule.with_best(float((max if rule.maximize else min)(model.metadata["range"][target])))
    values = np.empty(0) if measured is None else measured.values[np.isfinite(measured.values)]
    if len(values):
        return rule.with_best(float((np.max if rule.maximize else np.min)(values)))
    if getattr(rule, "best", 0.0) is None:
        raise InputError(
            f"No molecule has labels of all targets of '{target.name}', so {rule.name} has no best value to "
            "improve on: give --best, or another --acquisition."
        )
    return rule


def _alike(names: Sequence[str], weights: Sequence[float], spreads: Sequence[float]) -> str:
    """Return the sum in which all targets would count as much as the first one."""
    if min(spreads) <= 0:
        return "all labels of a target are equal"
    sizes = [float(f"{weights[0] * spreads[0] / spread:.2g}") for spread in spreads]
    pairs = [(n, math.copysign(s, w)) for n, s, w in zip(names, sizes, weights, strict=True)]
    return f"all would count alike in '{formula_of(pairs)}'"


def words_of_errors(model: Model) -> str:
    """Return how the errors of targets are taken to depend on each other."""
    if isinstance(model.gp, CoregionalizedGP):
        return "errors of the targets correlate as in the model"
    return "errors of the targets are taken as independent"


def words_of_sum(model: Model, target: WeightedSum, measured: Measured) -> tuple[str, ...]:
    """Return notes on the assumptions about a sum, and on how much each target counts in it."""
    names = [model.targets[t] for t in target.targets]
    spreads = [float(np.nanstd(measured.parts[:, t])) for t in target.targets]
    parts = [abs(weight) * spread for weight, spread in zip(target.weights, spreads, strict=True)]
    each = " and ".join(f"{spread:.3g} of {name}" for name, spread in zip(names, spreads, strict=True))
    notes = [
        f"'{target.name}' is in the units of the labels, with standard deviations of {each}, so its "
        f"terms vary by {' and '.join(f'{spread:.3g}' for spread in parts)}; {words_of_errors(model)}"
    ]
    if min(parts) < _HARDLY * max(parts):
        name = names[int(np.argmin(parts))]
        notes.append(f"{name} hardly counts in this sum; {_alike(names, target.weights, spreads)}")
    whole = measured.labelled
    some = np.isfinite(measured.parts[:, list(target.targets)]).any(axis=1) & ~whole
    if some.any():
        notes.append(
            f"{amount(int(whole.sum()), 'molecules')} have labels of all its targets and count as labelled; "
            f"{int(some.sum()):,} with labels of some do not"
        )
    return tuple(notes)
