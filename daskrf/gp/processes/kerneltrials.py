"""The record of a kernel choice in an exact model: the kernels that were tried, and the chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NotRequired, TypedDict

from daskrf.gp.processes.trials import ChoiceByLabelsLeftOut
from daskrf.kernels.kernel import Kernel, KernelState, from_state
from daskrf.quantities import POSITIONS, SUBSTITUENTS


class TrialState(TypedDict):
    """A trial in a `KernelChoiceState`; without its kernel if that is the chosen one: a metric is long."""

    kernel: KernelState | None
    name: str
    log_probability: float
    r2: float


class KernelChoiceState(TypedDict):
    """What `KernelChoice.state` returns, without what does not apply."""

    kernel: KernelState
    trials: list[TrialState]
    n_rows: int
    n_left_out: int
    asked: NotRequired[KernelState]
    n_learned: NotRequired[int]
    variances: NotRequired[dict[str, float]]
    evidence: NotRequired[list[tuple[int, float]]]
    weighs_descriptors: NotRequired[bool]
    first: NotRequired[int]
    weightless: NotRequired[tuple[str, ...]]
    without_blocks: NotRequired[bool]


@dataclass(frozen=True)
class Trial:
    """How well a kernel predicts labels that were left out.

    Attributes
    ----------
    kernel : Kernel
    name : str
        The kernel in words; numbers in it refer to other trials, from 1.
    log_probability : float
        Mean log probability of a label that was left out, in nats.
    r2 : float
        Share of the variance of these labels that the mean explains.
    """

    kernel: Kernel
    name: str
    log_probability: float
    r2: float


@dataclass(frozen=True)
class KernelChoice(ChoiceByLabelsLeftOut):
    """The kernel that was chosen, and the kernels that were tried.

    Attributes
    ----------
    kernel : Kernel
    trials : tuple of Trial
        In the order in which they were tried; empty if there were too few labels.
    n_rows, n_left_out : int
        Labels that were used, and how many of them were left out; both are the same if one was left out at a
        time.
    asked : Kernel or None
        The given kernel, if only its length scale was chosen.
    n_learned : int
        Labels that the metric of the last kernel was learned from; 0 if none was tried.
    variances : dict of str to float
        "signal_variance" and "noise_variance" for a kernel in a learned metric, estimated from labels that
        the metric has not seen, since labels that it was learned from look less noisy than they are. Empty
        for other kernels: the evidence of all labels determines their variances.
    evidence : dict of int to float
        If some labels are limits, the log evidence of labels and limits for some of the trials, by their
        place; see `daskrf.gp.choice.limitchoice`.
    weighs_descriptors : bool
        Whether the last kernel but that in a learned metric is a weighted mean with terms of descriptors,
        which is taken if it is not worse than the kernel taken from those before it.
    first : int
        The place of the kernel that others had to be clearly better than: that of the Tanimoto kernels of all
        kinds, of substituents and of positions, if the evidence gives one of the latter a weight.
    weightless : tuple of str
        Kinds that tell products of a space apart, such as substituents, that the evidence gives no weight.
    without_blocks : bool
        Whether positions are counted, and no label is of a product with one of their building blocks.
    together : Kernel, optional
        The kernel of all targets, if they are modelled together.
    """

    _candidate: ClassVar[str] = "kernel"

    kernel: Kernel
    trials: tuple[Trial, ...] = ()
    n_rows: int = 0
    n_left_out: int = 0
    asked: Kernel | None = None
    n_learned: int = 0
    variances: dict[str, float] = field(default_factory=dict)
    evidence: dict[int, float] = field(default_factory=dict)
    weighs_descriptors: bool = False
    first: int = 0
    weightless: tuple[str, ...] = ()
    without_blocks: bool = False
    together: Kernel | None = None

    def _too_few(self) -> str:
        if self.together is not None and self.together != self.kernel:
            return f"too few labels to compare kernels: all targets have {self.together.words()}"
        return f"too few labels to compare kernels: took {self.kernel.words()}"

    def _name(self, number: int, trial: Trial) -> str:
        return f"{number:2}  {trial.name}"

    def _is_taken(self, trial: Trial) -> bool:
        return trial.kernel == self.kernel

    def _mark(self, trial: Trial) -> str:
        if self.together is None or self.together == self.kernel:
            return super()._mark(trial)
        if trial.kernel == self.together:
            return "taken for all targets"
        return "best for this target alone" if self._is_taken(trial) else ""

    def _comparable(self) -> Sequence[Trial]:
        """Return the trials judged by the same labels: all but that of a learned metric."""
        return (
            () if self.variances or self.evidence else self.trials[: len(self.trials) - bool(self.n_learned)]
        )

    def _notes(self) -> list[str]:
        learned = (
            f"The metric was learned from {self.n_learned:,} of the labels; its figures are for others, left "
            "out then."
        )
        notes = super()._notes()
        if notes and self.weighs_descriptors:
            notes.append(
                "The weighted mean with descriptors is taken if it is not worse, since evidence prefers it."
            )
        if self.together is not None and self.together not in [trial.kernel for trial in self.trials]:
            notes.append(f"All targets together have {self.together.words()}, tried for another of them.")
        if self.without_blocks:
            notes.append(
                "None of the labels is of a product with a building block that positions are counted from: "
                "positions change no prediction."
            )
        weightless = [kind for kind in self.weightless if kind != POSITIONS or not self.without_blocks]
        if weightless:
            kinds = " and ".join(weightless).capitalize()
            notes.append(f"{kinds} get no weight by the evidence, and so change no prediction.")
        if self.first:
            name = self.trials[self.first].name
            of_blocks = " and ".join(kind for kind in (SUBSTITUENTS, POSITIONS) if kind in name)
            notes.append(f"With {of_blocks}, {self.first + 1} is taken unless another is clearly better.")
        if self.evidence:
            values = ", ".join(
                f"{value:.1f} for {place + 1}" for place, value in sorted(self.evidence.items())
            )
            notes.append(f"Log evidence of labels and limits together: {values}.")
        return [learned] * bool(self.n_learned) + notes + self._doubts()

    def state(self) -> KernelChoiceState:
        """Return a JSON-able description."""
        state: KernelChoiceState = {
            "kernel": self.kernel.state(),
            "trials": [self._state_of(trial) for trial in self.trials],
            "n_rows": self.n_rows,
            "n_left_out": self.n_left_out,
        }
        if self.asked is not None:
            state["asked"] = self.asked.state()
        if self.n_learned:
            state["n_learned"], state["variances"] = self.n_learned, self.variances
        if self.evidence:
            state["evidence"] = sorted(self.evidence.items())
        if self.weighs_descriptors:
            state["weighs_descriptors"] = True
        if self.first:
            state["first"] = self.first
        if self.weightless:
            state["weightless"] = self.weightless
        if self.without_blocks:
            state["without_blocks"] = True
        return state

    def _state_of(self, trial: Trial) -> TrialState:
        return {
            "kernel": None if trial.kernel == self.kernel else trial.kernel.state(),
            "name": trial.name,
            "log_probability": trial.log_probability,
            "r2": trial.r2,
        }

    @classmethod
    def from_state(cls, state: KernelChoiceState) -> KernelChoice:
        """Rebuild a choice from its `state`."""
        kernel = from_state(state["kernel"])
        trials = tuple(
            Trial(
                from_state(each["kernel"]) if each["kernel"] else kernel,
                each["name"],
                each["log_probability"],
                each["r2"],
            )
            for each in state["trials"]
        )
        return cls(
            kernel,
            trials,
            state["n_rows"],
            state["n_left_out"],
            from_state(state["asked"]) if "asked" in state else None,
            state.get("n_learned", 0),
            state.get("variances", {}),
            evidence={int(place): float(value) for place, value in state.get("evidence", ())},
            weighs_descriptors=bool(state.get("weighs_descriptors")),
            first=int(state.get("first", 0)),
            weightless=tuple(state.get("weightless", ())),
            without_blocks=bool(state.get("without_blocks")),
        )
