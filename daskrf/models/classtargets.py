"""Targets of a model that are two classes: their words, and the links that give probabilities."""

from __future__ import annotations

from dataclasses import dataclass

from daskrf.errors import printable
from daskrf.gp.validation.probability import ProbabilityLink
from daskrf.storage.modelmetadata import ClassTargetState, ModelMetadata
from daskrf.tables.values.classes import ClassWords


@dataclass(frozen=True)
class ClassTarget:
    """A target that is two classes.

    Attributes
    ----------
    words : ClassWords
        Which words of the labels stand for 1, the positive class, and 0.
    n_positive, n_labels : int
    link : ProbabilityLink or None
        Gives the probability of the positive class; None if the model has none.
    """

    words: ClassWords
    n_positive: int
    n_labels: int
    link: ProbabilityLink | None

    def line(self, name: str) -> str:
        """Return the classes in words, for reports.

        Examples
        --------
        >>> ClassTarget(ClassWords(("active",), ("inactive",)), 35, 1000, None).line("HIV")
        "HIV: 2 classes, 1 = 'active' (3.5 %)"
        """
        positive = "" if self.words.are_numbers else f" = '{printable(self.words.name, 60)}'"
        share = 100 * self.n_positive / self.n_labels
        return f"{printable(name, 60)}: 2 classes, 1{positive} ({share:.3g} %)"

    def state(self) -> ClassTargetState:
        """Return a dict for JSON that rebuilds it."""
        return {
            **self.words.state(),
            "n_positive": self.n_positive,
            "n_labels": self.n_labels,
            "link": None if self.link is None else self.link.state(),
        }

    @classmethod
    def from_state(cls, state: ClassTargetState) -> ClassTarget:
        """Return the target with a `state`."""
        link = None if state["link"] is None else ProbabilityLink.from_state(state["link"])
        counts = int(state["n_positive"]), int(state["n_labels"])
        return cls(ClassWords.from_state(state), *counts, link)


def classes_in(metadata: ModelMetadata) -> list[ClassTarget | None]:
    """Return the classes of each target of a model, from its metadata; None for a target of numbers."""
    states = metadata.get("classes") or [None] * len(metadata["targets"])
    return [None if state is None else ClassTarget.from_state(state) for state in states]


def links_state(metadata: ModelMetadata) -> dict[str, object]:
    """Return what probabilities depend on besides the process, for outputs that hold some; else nothing."""
    links = [each and each.link and each.link.state() for each in classes_in(metadata)]
    return {"links": links} if any(links) else {}
