"""The best products of a space by brute force: the oracle of `benchmarks/space.py`.

Every product is scored by a plain formula in NumPy: its phases w_j . x are the sums of those of its synthons,
and its mean is m + sum_j r_j cos(w_j . x - p_j), a cosine for every product and frequency. There is no matrix
product, no threshold before a score is known, and nothing is taken together: a molecule that can be made in
five ways is scored five times. The best of all, and random ones, are then predicted by the model from their
SMILES, in double precision.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from daskrf.molecules import Fingerprinter
from daskrf.spaces import CutSpace

__all__ = ["Best", "best_of_every_product", "compared"]

Single = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

_AT_ONCE = 384  # products, whose cosines stay in the cache


class Best(NamedTuple):
    """The best molecules of a space.

    Attributes
    ----------
    smiles : list of str
        Distinct, best first.
    score : float64 array
        By the model from the SMILES; larger is better.
    products : int
        Products that were scored.
    error : float
        The largest difference of the formula from the model, of the best products and of random ones.
    whole : bool
        Whether no other product can be as good as the last one.
    """

    smiles: list[str]
    score: npt.NDArray[np.float64]
    products: int
    error: float
    whole: bool


def best_of_every_product(space: CutSpace, gp: Any, feature_map: Any, sign: float, n: int) -> Best:
    """Score all products of a space; return the molecules among the best `n` products."""
    weights = sign * gp.weights_[:, 0]
    pairs = weights[: len(weights) // 2 * 2].reshape(-1, 2)
    scale = (np.hypot(*pairs.T) / math.sqrt(len(pairs))).astype(np.float32)
    shift = np.arctan2(pairs[:, 1], pairs[:, 0]).astype(np.float32)
    offset = sign * float(gp.mean_[0])
    kept, products = _Kept(n), 0
    others: list[tuple[float, tuple[int, ...]]] = []
    random = np.random.default_rng(0)
    for slots in space.entries:
        for synthons, phases in _alike(space, feature_map, [own.synthon for own in slots]):
            phases[0] -= shift
            *heads, last = phases
            room = np.empty((_AT_ONCE, len(scale)), np.float32)
            for places in itertools.product(*(range(len(head)) for head in heads)):
                head = np.sum([own[i] for own, i in zip(heads, places, strict=True)], axis=0)
                first = tuple(int(own[i]) for own, i in zip(synthons[:-1], places, strict=True))
                for start in range(0, len(last), _AT_ONCE):
                    block = last[start : start + _AT_ONCE]
                    turns = np.add(block, head, out=room[: len(block)])
                    score = np.cos(turns, out=turns) @ scale
                    kept.look(score, first, synthons[-1][start : start + _AT_ONCE])
                products += len(last)
            i = int(random.integers(len(last)))
            others.append((float(np.cos(last[i] + head) @ scale), (*first, int(synthons[-1][i]))))
    scores, rows = kept.best()
    smiles = [space.product_smiles(np.array([row]))[0] for row in [*rows, *(row for _, row in others)]]
    found = Fingerprinter(space.spec)(smiles).fingerprints
    exact = sign * gp.predict(feature_map.transform(found)).ravel()
    error = float(np.abs(np.concatenate([scores, [s for s, _ in others]]) + offset - exact).max())
    distinct = dict(zip(smiles[: len(rows)], exact[: len(rows)].tolist(), strict=True))
    order = sorted(distinct, key=lambda text: (-distinct[text], text))
    least = float(scores.min()) + offset + 2 * error if products > len(scores) else -math.inf
    order = [text for text in order if distinct[text] > least]
    return Best(order, np.array([distinct[text] for text in order]), products, error, least == -math.inf)


def compared(
    hits: Sequence[str], score: npt.NDArray[np.float64], best: Best, tolerance: float
) -> dict[str, Any]:
    """Compare the hits of a search with the best molecules by brute force.

    Those better than the last hit must be the same; of those as good as the last one, within `tolerance`,
    either may take any.
    """
    k = len(hits)
    if len(best.smiles) < k and not best.whole:
        raise ValueError(f"only {len(best.smiles)} of the best {k} molecules are known for certain")
    edge = float(best.score[k - 1])
    clear = {text for text, own in zip(best.smiles, best.score, strict=True) if own > edge + tolerance}
    good = {text for text, own in zip(best.smiles, best.score, strict=True) if own >= edge - tolerance}
    known = dict(zip(best.smiles, best.score.tolist(), strict=True))
    return {
        "k": k,
        "same_set": len(set(hits)) == k and clear <= set(hits) <= good,
        "in_both": len(set(hits) & set(best.smiles[:k])),
        "as_good_as_the_last": len(good - clear),
        "places_of_these": k - len(clear),
        "largest_difference_of_a_score": max(
            (abs(known[text] - own) for text, own in zip(hits, score, strict=True) if text in known),
            default=math.nan,
        ),
    }


def _alike(
    space: CutSpace, feature_map: Any, slots: Sequence[npt.NDArray[np.integer]]
) -> Iterator[tuple[list[Integers], list[Single]]]:
    """Yield synthons of each slot that see the same of each other, and their phases w_j . x."""
    n_pairs = feature_map.n_components // 2
    by_reach = [[own[space.reach[own] == c] for c in np.unique(space.reach[own])] for own in slots]
    for members in itertools.product(*by_reach):
        phases = []
        for s, own in enumerate(members):
            rows = [own if t == s else np.full(len(own), other[0]) for t, other in enumerate(members)]
            counts, place, _ = space.overlaps(np.column_stack(rows))[s]
            waves = feature_map.transform(space.own[own] + counts[place])[:, : 2 * n_pairs]
            phases.append(np.arctan2(waves[:, 1::2], waves[:, ::2]).astype(np.float32))
        yield [own.astype(np.int64) for own in members], phases


class _Kept:
    """The best n products seen: scores and synthons."""

    def __init__(self, n: int) -> None:
        self._n, self._least = n, -math.inf
        self._found: list[tuple[float, tuple[int, ...]]] = []

    def look(self, score: Single, first: tuple[int, ...], last: Integers) -> None:
        at = np.flatnonzero(score > self._least)
        self._found += [(float(score[i]), (*first, int(last[i]))) for i in at.tolist()]
        if len(self._found) > 4 * self._n:
            self._found = sorted(self._found, reverse=True)[: self._n]
            self._least = self._found[-1][0]

    def best(self) -> tuple[npt.NDArray[np.float64], list[tuple[int, ...]]]:
        found = sorted(self._found, reverse=True)[: self._n]
        return np.array([score for score, _ in found]), [row for _, row in found]
