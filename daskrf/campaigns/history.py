"""What the files of a campaign say about its rounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.sources.wholefile import molecules_in
from daskrf.workers.progress import Progress

BATCH, SCORES, ESTIMATE, CALLS = "batch-{}.csv", "scores-{}.csv", "found-{}.json", "scoring-{}"
FAILURE = "failure"
_INTERVAL = 1.96  # standard deviations: 95 %

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CampaignRound:
    """One round of a campaign.

    Attributes
    ----------
    number : int
        From 1, the first batch.
    n_asked : int
        Molecules of the batch.
    smiles, ids : tuple of str
        Of the molecules with a score.
    scores : ndarray of float64, shape (n,)
        In the order of the batch.
    mean, std : ndarray of float64, shape (n,)
        What the model predicted for a measurement, before the scores were known; NaN in the first round.
    estimate : mapping, optional
        What `found` said after the round: k, share, low and high.
    failures : mapping of str to int
        Number of molecules without a score, by the reason.
    """

    number: int
    n_asked: int
    smiles: tuple[str, ...]
    ids: tuple[str, ...]
    scores: Floats
    mean: Floats
    std: Floats
    estimate: Mapping[str, Any] | None = None
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def n_failed(self) -> int:
        """Number of molecules without a score."""
        return self.n_asked - len(self.scores)

    @property
    def within_95(self) -> float:
        """Share of the scores within their predicted 95 % intervals; NaN in the first round."""
        error = np.abs(self.scores - self.mean)
        return float((error <= _INTERVAL * self.std).mean()) if self.is_predicted else math.nan

    @property
    def is_predicted(self) -> bool:
        """Whether a model predicted the scores."""
        return bool(len(self.mean)) and bool(np.isfinite(self.mean).all())


@dataclass(frozen=True)
class History:
    """The rounds of a campaign whose scores are complete.

    Attributes
    ----------
    rounds : tuple of CampaignRound
    target : str
    maximize : bool
    hit : float or None
        A score that is this good is a hit. None: one that is better than all of the first batch.
    """

    rounds: tuple[CampaignRound, ...]
    target: str
    maximize: bool
    hit: float | None = None

    @property
    def scores(self) -> Floats:
        """All scores in the order of the rounds."""
        return np.concatenate([each.scores for each in self.rounds])

    @property
    def best_so_far(self) -> Floats:
        """The best score after each molecule."""
        return np.maximum.accumulate(self.scores) if self.maximize else np.minimum.accumulate(self.scores)

    @property
    def best_by_round(self) -> list[float]:
        """The best score after each round."""
        ends = np.cumsum([len(each.scores) for each in self.rounds])
        return [float(self.best_so_far[end - 1]) for end in ends.tolist()]

    @property
    def is_hit(self) -> npt.NDArray[np.bool_]:
        """Whether each score is that of a hit."""
        y, first = self.scores, self.rounds[0].scores
        if self.hit is not None:
            return y >= self.hit if self.maximize else y <= self.hit
        return y > first.max() if self.maximize else y < first.min()

    @property
    def hit_words(self) -> str:
        """What a hit is, in words."""
        sign = (">=" if self.maximize else "<=") if self.hit is not None else (">" if self.maximize else "<")
        limit = self.best_by_round[0] if self.hit is None else self.hit
        what = "" if self.hit is not None else ", the best of the first batch"
        return f"{self.target} {sign} {limit:.6g}{what}"

    @property
    def hits_by_round(self) -> list[int]:
        """Number of hits of each round."""
        ends = np.cumsum([len(each.scores) for each in self.rounds])[:-1]
        return [int(hits.sum()) for hits in np.split(self.is_hit, ends)]

    @property
    def n_asked(self) -> int:
        """Number of molecules in all batches."""
        return sum(each.n_asked for each in self.rounds)

    @property
    def table(self) -> pa.Table:
        """The molecules with scores, the best first: smiles, id, the target and round."""
        order = np.argsort(-self.scores if self.maximize else self.scores, kind="stable")
        columns = {
            "smiles": [text for each in self.rounds for text in each.smiles],
            "id": [name for each in self.rounds for name in each.ids],
            self.target: self.scores.tolist(),
            "round": [each.number for each in self.rounds for _ in each.smiles],
        }
        return pa.table(columns).take(pa.array(order))

    @property
    def failures(self) -> Counter[str]:
        """Number of molecules without a score, by the reason."""
        return sum((Counter(each.failures) for each in self.rounds), Counter())

    @property
    def rounds_without_improvement(self) -> int:
        """Number of last rounds after which the best score was that of the round before them."""
        best = self.best_by_round
        return next((n for n, value in enumerate(reversed(best[:-1])) if value != best[-1]), len(best) - 1)


def read_round(
    folder: Path, number: int, target: str, estimate: Mapping[str, object] | None
) -> CampaignRound:
    """Return a round from its batch and its scores."""
    batch = molecules_in(folder / BATCH.format(number), Progress())
    scored = molecules_in(folder / SCORES.format(number), Progress())
    y = _numbers(scored[target].to_pylist())
    there = np.isfinite(y)
    n = len(y)
    mean, std = (
        _numbers(batch[name].to_pylist()) if name in batch.column_names else np.full(n, np.nan)
        for name in ("mean", "std_y")
    )
    smiles, ids = scored["smiles"].to_pylist(), scored["id"].to_pylist()
    places = np.flatnonzero(there).tolist()
    return CampaignRound(
        number=number,
        n_asked=n,
        smiles=tuple(smiles[i] for i in places),
        ids=tuple(ids[i] for i in places),
        scores=y[there],
        mean=mean[there] if number > 1 else np.full(len(places), np.nan),
        std=std[there] if number > 1 else np.full(len(places), np.nan),
        estimate=estimate,
        failures=Counter(scored[FAILURE][i].as_py() for i in np.flatnonzero(~there).tolist()),
    )


def _numbers(texts: Sequence[Any]) -> Floats:
    return np.array([float(text) if text not in (None, "") else np.nan for text in texts], np.float64)
