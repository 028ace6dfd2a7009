"""How a batch is chosen from candidates: by score, from posterior samples in turn, or one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.acquisition import Acquisition
from daskrf.acquisition.believer import Believer
from daskrf.acquisition.hypervolume import HypervolumeGain
from daskrf.acquisition.requirement import weighed
from daskrf.arrays import Matrix
from daskrf.blas import ONE_BLAS_THREAD
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import SummedProcess, Target, joint_prediction
from daskrf.models.models import Model
from daskrf.molecules.diversity import Diversity
from daskrf.screens.draws import drawn_values
from daskrf.sources.sources import Block

Array = npt.NDArray[np.float64]

_JOINT_DRAWS = 256  # the expected hypervolume is a mean over these


@dataclass(frozen=True)
class Chosen:
    """Scores of the candidates, and reasons for the picks.

    Attributes
    ----------
    scores : float64 array
        Of all candidates; a pick has the score that it had when it was picked.
    why : dict of int to str
        Why each candidate was picked.
    """

    scores: Array
    why: Mapping[int, str]


Columns: TypeAlias = dict[str, Any]
"""Columns of candidates by name: arrays, tables, and the lists of posterior samples."""


class CandidateColumns(TypedDict):
    """The columns of candidates that choosers use.

    `lists` are the places of the candidates of each posterior sample, best first; `phi`, `diagonal` and
    `fingerprints` the inputs of a joint choice, and `meets` the probability of meeting all requirements.
    """

    row: npt.NDArray[np.int64]
    acquisition: Array
    lists: NotRequired[list[list[int]]]
    phi: NotRequired[Matrix]
    diagonal: NotRequired[Array | None]
    fingerprints: NotRequired[sparse.csr_matrix | None]
    meets: NotRequired[Array]


class Chooser(ABC):
    """Picks up to n candidates that a `Diversity` accepts."""

    @abstractmethod
    def choose(self, candidates: CandidateColumns, diverse: Diversity, n: int) -> Chosen:
        """Choose.

        Parameters
        ----------
        candidates : dict of str to array
            Columns of the candidates: row, acquisition and, for some choosers, the inputs of a posterior
            (phi, diagonal, fingerprints), lists (the candidates of each posterior sample, best first) and
            meets (the probability of meeting the requirements).
        diverse : Diversity
            Collects the picks.
        n : int
        """


def ranks(candidates: CandidateColumns) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the candidates from the best to the worst, and the rank of each, from 1."""
    order = np.lexsort((candidates["row"], -candidates["acquisition"]))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    return order, rank


@dataclass(frozen=True)
class Ranked(Chooser):
    """In the order of their scores."""

    rule: Acquisition

    def choose(self, candidates: CandidateColumns, diverse: Diversity, n: int) -> Chosen:
        order, rank = ranks(candidates)
        for i in order.tolist():
            if len(diverse.picks) == n:
                break
            diverse.take(i)
        why = {i: f"number {rank[i]:,} by {self.rule.name}" for i in diverse.picks}
        return Chosen(candidates["acquisition"], why)


@dataclass(frozen=True)
class ByDraws(Chooser):
    """The best free candidate of each posterior sample in turn."""

    def choose(self, candidates: CandidateColumns, diverse: Diversity, n: int) -> Chosen:
        picks = self._picks(candidates["lists"], diverse, n)
        why = {i: f"number {place} of draw {draw}" for i, (draw, place) in picks.items()}
        return Chosen(candidates["acquisition"], why)

    @staticmethod
    def _picks(lists: Sequence[Sequence[int]], diverse: Diversity, n: int) -> dict[int, tuple[int, int]]:
        """Return the sample and the place of each pick, from 1."""
        at, picks = [0] * len(lists), {}
        while len(diverse.picks) < n and any(a < len(best) for a, best in zip(at, lists, strict=True)):
            for draw, best in enumerate(lists):
                while at[draw] < len(best) and len(diverse.picks) < n:
                    candidate = best[at[draw]]
                    at[draw] += 1
                    if diverse.take(candidate):
                        picks[candidate] = (draw + 1, at[draw])
                        break
                else:
                    if at[draw] >= len(best) and len(best):
                        return picks  # this sample has run out: more candidates are needed
        return picks


@dataclass(frozen=True)
class Believing(Chooser):
    """One by one; each pick then counts as measured, with its mean as the label.

    With `usual`, scores are weighted by the probability of meeting the requirements; see
    `daskrf.acquisition.requirement.weighed`.
    """

    model: Model
    target: Target
    rule: Acquisition
    usual: float | None = None

    def choose(self, candidates: CandidateColumns, diverse: Diversity, n: int) -> Chosen:
        process, place = process_of(self.model.gp, self.target)
        mean, covariance = joint_prediction(
            process, place, candidates["phi"], candidates["diagonal"], candidates["fingerprints"]
        )
        believer = Believer(self.rule, mean, covariance, float(process.noise_variance_[place]))
        scores = candidates["acquisition"].copy()
        _, rank = ranks(candidates)
        while len(diverse.picks) < n and diverse.free.any():
            now = np.where(diverse.free, self._weighed(believer.scores(), candidates), -np.inf)
            best = np.lexsort((candidates["row"], -now))[0] if np.isinf(now).all() else now.argmax()
            pick = int(best)
            scores[pick] = now[pick]
            diverse.take(pick)
            believer.take(pick)
        alone = f"by {self.rule.name} alone; best after the picks before it"
        return Chosen(scores, {i: f"number {rank[i]:,} {alone}" for i in diverse.picks})

    def _weighed(self, scores: Array, candidates: CandidateColumns) -> Array:
        if self.usual is None:
            return scores
        return weighed(self.rule, scores, np.log(candidates["meets"]), self.usual)


@dataclass(frozen=True)
class Hypervolume(Chooser):
    """One by one, the candidate that adds most to the hypervolume of several targets over joint samples.

    When no candidate adds anything in any sample, another round starts from the measured molecules alone.

    Attributes
    ----------
    model : Model
    places : tuple of int
        The targets.
    signs : tuple of float
        Multiply the targets, so that larger is better.
    front : float64 array, shape (n_labelled, d)
        Labels of the molecules that have all targets, multiplied by the signs.
    reference : float64 array, shape (d,)
        The reference point, multiplied by the signs.
    seed : int
        Of the posterior samples.
    """

    model: Model
    places: tuple[int, ...]
    signs: tuple[float, ...]
    front: Array
    reference: Array
    seed: int

    def choose(self, candidates: CandidateColumns, diverse: Diversity, n: int) -> Chosen:
        gain = HypervolumeGain(self._draws(candidates), self.front, self.reference, candidates.get("meets"))
        scores, number, n_before = gain.gains.copy(), 1, 0
        why: dict[int, str] = {}
        while len(diverse.picks) < n and diverse.free.any():
            pick = gain.best(diverse.free)
            if gain.gains[pick] > 0:
                scores[pick] = gain.gains[pick]
                why[pick] = (
                    "adds most to the picks before it" if number == 1 else f"adds most in round {number}"
                )
                diverse.take(pick)
                gain.take(pick)
            elif len(diverse.picks) > n_before:
                gain.forget()
                number, n_before = number + 1, len(diverse.picks)
            else:
                break
        order, _ = ranks(candidates)
        for i in order.tolist():
            if len(diverse.picks) < n and diverse.take(i):
                why[i] = "adds nothing in any draw, but reaches farthest of the rest"
        return Chosen(scores, why)

    def _draws(self, candidates: CandidateColumns) -> Array:
        """Return posterior samples of the targets at all candidates, shape (n_draws, m, d)."""
        processes = tuple(process_of(self.model.gp, t) for t in self.places)
        process = SummedProcess(processes, self.signs)  # which samples each target
        n = min(_JOINT_DRAWS, process.most_draws() or _JOINT_DRAWS)
        with ONE_BLAS_THREAD:  # the same on any number of processors
            drawn = process.drawn(process.weights_of_draws(n, self.seed), self.seed)
            block = Block(
                candidates["row"], candidates["phi"], candidates["diagonal"], candidates["fingerprints"]
            )
            values = [drawn_values(f, block).reshape(-1, n).T for f in drawn.functions]
        return np.stack(values, axis=-1) * self.signs
