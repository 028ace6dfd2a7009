"""The record of a kernel choice in an exact model: the kernels that were tried, and the chosen one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from daskrf.documents import State
from daskrf.gp.processes.trials import ChoiceByLabelsLeftOut
from daskrf.kernels.kernel import Kernel, from_state
from daskrf.quantities import POSITIONS, SUBSTITUENTS


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
        if self.weightless:
            kinds = " and ".join(self.weightless).capitalize()
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

    def state(self) -> dict[str, object]:
        """Return a JSON-able description."""
        trials = [
            {**vars(trial), "kernel": None if trial.kernel == self.kernel else trial.kernel.state()}
            for trial in self.trials  # a metric is long
        ]
        return {
            "kernel": self.kernel.state(),
            "trials": trials,
            "n_rows": self.n_rows,
            "n_left_out": self.n_left_out,
            **({} if self.asked is None else {"asked": self.asked.state()}),
            **({"n_learned": self.n_learned, "variances": self.variances} if self.n_learned else {}),
            **({"evidence": sorted(self.evidence.items())} if self.evidence else {}),
            **({"weighs_descriptors": True} if self.weighs_descriptors else {}),
            **({"first": self.first} if self.first else {}),
            **({"weightless": self.weightless} if self.weightless else {}),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, object]) -> KernelChoice:
        """Rebuild a choice from its `state`."""
        entries: State = state
        names = ("name", "log_probability", "r2")
        kernel = from_state(entries["kernel"])
        trials = tuple(
            Trial(from_state(trial["kernel"]) if trial["kernel"] else kernel, **{n: trial[n] for n in names})
            for trial in entries["trials"]
        )
        requested = from_state(entries["asked"]) if "asked" in entries else None
        learned = entries.get("n_learned", 0), entries.get("variances", {})
        evidence = {int(place): float(value) for place, value in entries.get("evidence", ())}
        return cls(
            kernel,
            trials,
            entries["n_rows"],
            entries["n_left_out"],
            requested,
            *learned,
            evidence=evidence,
            weighs_descriptors=bool(entries.get("weighs_descriptors")),
            first=int(entries.get("first", 0)),
            weightless=tuple(entries.get("weightless", ())),
        )
