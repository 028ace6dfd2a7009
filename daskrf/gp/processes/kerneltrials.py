"""The kernels tried for an exact process, and the one that was chosen: what a model keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from daskrf.kernels.kernel import Kernel, from_state


@dataclass(frozen=True)
class Trial:
    """How well a kernel predicts labels that were left out.

    Attributes
    ----------
    kernel : Kernel
    name : str
        The kernel in words; numbers are those of other trials, from 1.
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
class KernelChoice:
    """The kernel that was chosen, and what was tried.

    Attributes
    ----------
    kernel : Kernel
    trials : tuple of Trial
        In the order in which they were tried; empty if there were too few labels.
    n_rows, n_left_out : int
        Labels that were used, and how many of them were left out; both are the same if one was left out at a
        time.
    asked : Kernel or None
        The kernel whose length scale was chosen, if that was all.
    n_learned : int
        Labels that the metric of the last kernel was learned from; 0 if none was tried.
    variances : dict of str to float
        "signal_variance" and "noise_variance" that go with a kernel in a learned metric, by labels that it
        has not seen: those that it was learned from look less noisy than they are. Else empty, since the
        evidence of all labels finds them.
    """

    kernel: Kernel
    trials: tuple[Trial, ...] = ()
    n_rows: int = 0
    n_left_out: int = 0
    asked: Kernel | None = None
    n_learned: int = 0
    variances: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.trials:
            return f"too few labels to compare kernels: took {self.kernel.words()}"
        how = (
            f"each of {self.n_rows:,} labels left out in turn"
            if self.n_rows == self.n_left_out
            else f"{self.n_left_out:,} of {self.n_rows:,} labels left out"
        )
        names = [f"{number:2}  {trial.name}" for number, trial in enumerate(self.trials, 1)]
        header = f"kernels tried, {how}"
        width = max(len(header) - 2, *map(len, names))
        lines = [f"{header:<{width + 2}}    R2  log probability"]
        for name, trial in zip(names, self.trials, strict=True):
            taken = "  taken" if trial.kernel == self.kernel else ""
            lines.append(f"  {name:<{width}}  {trial.r2:6.3f}  {trial.log_probability:8.3f}{taken}")
        if self.n_learned:
            lines.append(
                f"  The metric was learned from {self.n_learned:,} of the labels; its figures are of others, "
                "left out then."
            )
        best = max(self.trials[: len(self.trials) - bool(self.n_learned)], key=lambda t: t.log_probability)
        if not self.variances and best.kernel != self.kernel:
            lines.append(
                "  A kernel further down is taken if it is clearly better: by 0.01 and a standard error."
            )
        return "\n".join(lines)

    def state(self) -> dict[str, Any]:
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
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> KernelChoice:
        """Rebuild a choice from its `state`."""
        names = ("name", "log_probability", "r2")
        kernel = from_state(state["kernel"])
        trials = tuple(
            Trial(from_state(trial["kernel"]) if trial["kernel"] else kernel, **{n: trial[n] for n in names})
            for trial in state["trials"]
        )
        asked = from_state(state["asked"]) if "asked" in state else None
        learned = state.get("n_learned", 0), state.get("variances", {})
        return cls(kernel, trials, state["n_rows"], state["n_left_out"], asked, *learned)
