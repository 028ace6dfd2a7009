"""What molecules are ranked by: a rule on one target of a model, or on a weighted sum of targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.acquisition import Acquisition, acquisition_for
from daskrf.acquisition.requirement import Requirement, weighed
from daskrf.arrays import MatrixLike, NamedArrays
from daskrf.errors import InputError, OptionError, printable
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import SummedProcess, Target, TargetProcess, WeightedSum
from daskrf.models.directions import maximizes
from daskrf.models.models import Model, predictions_of, read_model
from daskrf.models.targets import Measured, best_of, measured_of, names_in, ranked_target, words_of_sum
from daskrf.molecules.comparisons import Limit
from daskrf.molecules.conditions import limits_of
from daskrf.quantities import amount, listed
from daskrf.screens.choosers import Believing, ByDraws, Chooser, Columns, Ranked
from daskrf.screens.request import ScreenRequest, SuggestRequest
from daskrf.screens.searches import Candidates, PassingSearch
from daskrf.screens.shortlist import n_candidates

SIGNS = ("<", "<=", ">", ">=")
SCORES = ("mean", "std", "std_y", "acquisition")
"""Columns of the candidates that the table of a batch repeats."""

_MOST_SAMPLES = 100  # of Thompson sampling: each sample adds work at every molecule
_PER_SAMPLE = 8  # candidates for each pick of a posterior sample: samples often agree on the best
_JOINT = 4000  # candidates whose covariance is computed, if 2 n are not more
_JOINT_SOLVED = 1000  # the same, if each candidate takes a solve by conjugate gradients


@dataclass(frozen=True)
class Depth:
    """Number of candidates of each posterior sample or direction, and number of samples or directions."""

    k: int
    n_draws: int = 1


@dataclass(frozen=True, kw_only=True)
class Aim:
    """A rule that ranks molecules, with its model and target.

    Attributes
    ----------
    model : Model
    target : int or WeightedSum
    rule : Acquisition
        With the direction, and the best label if the rule needs one.
    measured : Measured or None
        The labels of the target. For sums they are read at once, else when the library is known.
    requirements : tuple of Requirement
        Limits on other targets; scores are weighted by the probability of meeting them.
    notes : tuple of str
        What was assumed.
    """

    model: Model
    target: Target
    rule: Acquisition
    measured: Measured | None = None
    requirements: tuple[Requirement, ...] = ()
    notes: tuple[str, ...] = ()

    columns: ClassVar[tuple[str, ...]] = SCORES

    @classmethod
    def of(cls, request: ScreenRequest, model: Model | None = None) -> Aim:
        """Return what a request ranks by; the model is read if it is not given."""
        if model is None:
            # Tasks read the model themselves.
            statistics = request.std == "candidates" or request.rule.needs_sample
            model = read_model(request.model, statistics=statistics)
        target = ranked_target(model, request.target)
        up, notes = maximizes(model, target, request.maximize)
        notes = (*notes, *model.scales_of(names_in(model, target)))
        measured = None
        if isinstance(target, WeightedSum):
            measured = measured_of(model, target)
            notes = (*notes, *words_of_sum(model, target, measured))
        rule = best_of(model, target, measured, replace(request.rule, maximize=up))
        link = model.link_of(target)
        if rule.name == "probability" and link is None:
            raise OptionError(
                "--acquisition probability ranks a target that is two classes, and "
                f"'{model.name_of(target)}' has no probabilities; take another rule."
            )
        if link is not None and rule.name in ("greedy", "probability") and request.std != "none":
            if rule.name == "greedy":
                notes = (*notes, "ranked by the probability of the class, not by the mean")
            rule = acquisition_for("probability", maximize=up, **link.state())
        return cls(model=model, target=target, rule=rule, measured=measured, notes=notes)

    def with_rule(self, rule: Acquisition) -> Aim:
        """Return the aim with another rule, for the search that comes before a choice."""
        rule = best_of(self.model, self.target, self.measured, replace(rule, maximize=self.rule.maximize))
        return replace(self, rule=rule, requirements=())

    def with_requirements(self, texts: Sequence[str]) -> Self:
        """Return the aim with requirements on other targets, written as for `--require`."""
        return replace(self, requirements=tuple(_requirements(texts, self.model, self.target)))

    @property
    def process(self) -> tuple[TargetProcess | SummedProcess, int]:
        """The Gaussian process of the target, and the place of the target in it."""
        return process_of(self.model.gp, self.target)

    @property
    def link_state(self) -> dict[str, object]:
        """What probabilities of the target depend on; empty for a target of numbers."""
        link = self.model.link_of(self.target)
        return {} if link is None else {"link": link.state()}

    @property
    def has_surrogate(self) -> bool:
        """Whether the model can pre-rank a library, as a shortlist needs."""
        return self.process[0].rough() is not None

    @property
    def bounds_stds(self) -> bool:
        """Whether bounds of standard deviations cost far less than these, and the rule ranks by them."""
        process = self.process[0]
        return self.rule.needs_std and not self.requirements and getattr(process, "samples_variances", False)

    @property
    def target_name(self) -> str:
        """The target in words."""
        return self.model.name_of(self.target)

    @property
    def direction(self) -> str:
        """ "maximize" or "minimize"; "each" where every target has its own."""
        return "maximize" if self.rule.maximize else "minimize"

    # The rest is for batches only.

    @property
    def improved(self) -> str | list[str]:
        """The target that a page shows, or all targets that are improved at once."""
        return self.target_name

    @property
    def rule_name(self) -> str:
        """The rule with its settings."""
        return words_of_rule(self.rule)

    @property
    def state(self) -> dict[str, object]:
        """What candidates depend on, beside the rule and the target."""
        return {"require": list(map(str, self.requirements))} if self.requirements else {}

    def stds_of_all(self, std: str) -> bool:
        """Return whether all molecules get standard deviations, which requirements always need."""
        return std == "all" or bool(self.requirements)

    def shortlists(self, std: str) -> bool:
        """Return whether only the molecules with the best means get standard deviations, which rank them."""
        return self.rule.needs_std and not self.stds_of_all(std)

    def chooses_one_by_one(self, request: SuggestRequest) -> bool:
        """Return whether picks depend on those before them."""
        return request.batch == "believer"

    def depth(self, request: SuggestRequest) -> Depth:
        """Return how many candidates to find at first."""
        n, process = request.k, self.process[0]
        if self.rule.needs_sample:
            n_draws = min(n, process.most_draws() or _MOST_SAMPLES)
            return Depth(_PER_SAMPLE * max(2, math.ceil(n / n_draws)), n_draws)
        if request.batch == "believer":
            solves = getattr(process, "solver_", "") == "cg"  # one for each candidate
            return Depth(max(2 * n, min(n_candidates(n), _JOINT_SOLVED if solves else _JOINT)))
        if self.shortlists(request.std):
            return Depth(n_candidates(n))
        return Depth(n * (4 if request.demands.different else 1) + n // 4 + 8)

    def notes_on(self, depth: Depth, request: SuggestRequest) -> tuple[str, ...]:
        """Return how posterior samples choose."""
        if not self.rule.needs_sample:
            return ()
        n, n_draws = request.k, depth.n_draws
        each = "one each" if n_draws == n else f"{-(-n // n_draws)} or fewer each"
        return (f"the picks are the best molecules of {amount(n_draws, 'posterior samples')}, {each}",)

    @property
    def usual(self) -> float:
        """The score of a molecule whose mean is the mean of the process."""
        process, place = self.process
        return self.rule.sign * float(process.mean_[place])

    @property
    def search(self) -> Callable[..., PassingSearch]:
        """What makes the search for candidates that pass."""
        return partial(Candidates, requirements=self.requirements, usual=self.usual)

    def weighed(self, score: npt.NDArray[np.float64], columns: NamedArrays) -> npt.NDArray[np.float64]:
        """Return the scores of candidates, weighted by the probability that they meet the requirements."""
        if not self.requirements:
            return score
        return weighed(self.rule, score, np.log(columns["meets"]), self.usual)

    @property
    def columns_of_class(self) -> list[str]:
        """The column with the probability of the positive class, if the target is two classes."""
        return ["probability"] if self.link_state else []

    @property
    def columns_of_sum(self) -> list[str]:
        """The columns with the mean and standard deviation of each target of a sum."""
        if not isinstance(self.target, WeightedSum):
            return []
        names = names_in(self.model, self.target)
        pairs = [(f"{kind}_{name}", f"{kind} of {name}") for name in names for kind in ("mean", "std")]
        return [other if plain in SCORES else plain for plain, other in pairs]  # "std_y" of a target "y"

    def predicted(
        self, phi: MatrixLike, diagonal: npt.NDArray[np.float64] | None
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Return means and standard deviations of candidates; for a sum, also those of each target."""
        columns = predictions_of(self.model, self.target, phi, diagonal, std=True)
        if isinstance(self.target, WeightedSum):
            each = (predictions_of(self.model, t, phi, diagonal, std=True) for t in self.target.targets)
            values = [prediction[kind] for prediction in each for kind in ("mean", "std")]
            columns |= zip(self.columns_of_sum, values, strict=True)
        return columns

    def more_columns(self, columns: Columns) -> dict[str, object]:
        """Return further columns of candidates, from their means."""
        return {}

    def chooser(self, request: SuggestRequest, n_draws: int) -> Chooser:
        """Return what chooses the batch from the candidates."""
        if self.rule.needs_sample and n_draws > 1:
            return ByDraws()
        if request.batch == "believer":
            usual = self.usual if self.requirements else None
            return Believing(self.model, self.target, self.rule, usual)
        return Ranked(self.rule)

    def notes_on_batch(self, table: pa.Table, depth: Depth) -> list[str]:
        """Return the median probability that a molecule of the batch meets the requirements."""
        if not self.requirements:
            return []
        return [
            f"probability of {' and '.join(map(str, self.requirements))}: median "
            f"{np.median(table['meets'].to_numpy()):.0%} in the batch"
        ]


def _requirements(texts: Sequence[str], model: Model, target: Target) -> Iterator[Requirement]:
    """Yield the requirements on targets other than the one that ranks."""
    names = listed(model.targets, "'")
    if texts and len(model.targets) < 2:
        raise InputError(
            f"--require is for targets other than the one that ranks, but {names} is the only target of the "
            "model; use --where for properties and columns."
        )
    for limit in (limit for text in texts for limit in limits_of_targets(text, model, names)):
        if not limit.column:
            raise InputError(
                f"'{limit.name}' is not a target of the model, which has {names}; use --where for properties "
                "and columns."
            )
        if model.targets.index(limit.name) == target:
            raise InputError(f"'{limit.name}' is the target that ranks, and cannot be required as well.")
        if limit.sign not in SIGNS:
            raise OptionError(f"A target can be required to be above or below a number, not {limit}.")
        yield Requirement(model.targets.index(limit.name), limit.name, limit.sign[0] == ">", limit.number)


def limits_of_targets(text: str, model: Model, names: str) -> tuple[Limit, ...]:
    """Return the comparisons in a text; `names` lists the targets for the error message."""
    with suppress(OptionError):
        comparisons = limits_of(text, model.targets)
        limits = tuple(limit for limit in comparisons if isinstance(limit, Limit))
        if limits == comparisons:
            return limits
    raise OptionError(
        f"{printable(text)!r} cannot be read; write a target of the model ({names}), a sign and a number, "
        f"such as '{model.targets[-1]} < 5', joined by 'and'."
    )


def words_of_rule(rule: Acquisition) -> str:
    """Return a rule with its settings.

    Examples
    --------
    >>> from daskrf.acquisition import acquisition_for
    >>> words_of_rule(acquisition_for("ucb", kappa=0.5)), words_of_rule(acquisition_for("greedy"))
    ('ucb (kappa 0.5)', 'greedy')
    """
    others = ("rule", "maximize", *rule.of_model)
    state = {name: value for name, value in rule.state().items() if name not in others}
    settings = ", ".join(f"{name} {value:g}" for name, value in state.items() if value is not None)
    return f"{rule.name} ({settings})" if settings else rule.name
