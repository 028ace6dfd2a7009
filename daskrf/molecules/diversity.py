"""Pick a diverse batch of molecules one by one: no copies, none too similar, few per scaffold.

Sphere exclusion: a candidate closer to a pick than a given similarity is left out (Gobbi & Lee 2003, DISE:
directed sphere exclusion, J. Chem. Inf. Comput. Sci. 43).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.molecules.counts.similarity import Similarities
from daskrf.molecules.isolation import Lost, each
from daskrf.molecules.structures import Level, same_names

FREE, TAKEN, COPY, SIMILAR, CROWDED, CAPPED, ALIKE, COSTLY = range(8)
_ROUNDING = 1e-12  # of a sum of prices, relative
REASONS = {
    COPY: "the same molecule as a pick",
    SIMILAR: "too similar to a pick",
    CROWDED: "of a scaffold that has enough picks",
    ALIKE: "with the same fingerprint as a pick, such as a stereoisomer",
    CAPPED: "with a value of a column that has enough picks",
    COSTLY: "dearer than what is left of the budget",
}


class Diversity:
    """Keeps track of the candidates that are still free while picks are taken.

    Parameters
    ----------
    smiles : sequence of str
        Of the candidates.
    max_similarity : float, optional
        Candidates with a larger Tanimoto similarity to a pick are left out; see `Similarities`.
    per_scaffold : int, optional
        Maximum number of picks with the same Murcko scaffold; molecules without rings have none, and are not
        capped.
    caps : sequence of (sequence of str, int), or (sequence of sequences of str, int)
        Values of a column, one per candidate, and the maximum number of picks with the same value; empty
        values are not capped. Columns that hold the same kind of value, such as the building blocks of all
        slots, are given together, with several values per candidate: the maximum then applies to a value in
        any of them.
    level : {"structure", "parent", "tautomer", "skeleton"}
        What counts as the same molecule; each molecule is picked once at most.
    alike : array of int, shape (n,), optional
        Equal for candidates that the model cannot tell apart; only one of them may be picked.
    prices : float64 array, shape (n,), optional
        What each candidate costs; not negative.
    budget : float
        What all picks may cost together.

    Attributes
    ----------
    state : int8 array, shape (n,)
        0 if a candidate is free, else 1 if it was taken, or a key of `REASONS`.
    picks : list of int
    cost : float
        What the picks cost together.

    Examples
    --------
    >>> diversity = Diversity(["CCO", "OCC", "CCCO", "c1ccccc1O", "c1ccccc1N"], 0.4, 1)
    >>> [diversity.take(i) for i in range(5)], diversity.state.tolist()
    ([True, False, False, True, False], [1, 2, 3, 1, 4])
    >>> amines = Diversity(["CCO", "CCCO", "CCCCO"], caps=[(["A1", "A1", "A2"], 1)])
    >>> [amines.take(i) for i in range(3)], amines.state.tolist()
    ([True, False, True], [1, 5, 1])
    >>> cheap = Diversity(["CCO", "CCCO", "CCCCO"], prices=np.array([60.0, 50.0, 40.0]), budget=100.0)
    >>> [cheap.take(i) for i in range(3)], cheap.cost
    ([True, False, True], 100.0)
    >>> blocks = Diversity(["CCO", "CCCO", "CCCCO"], caps=[([("A1", "B1"), ("B1", None), ("B2", "B3")], 1)])
    >>> [blocks.take(i) for i in range(3)], blocks.state.tolist()
    ([True, False, True], [1, 5, 1])
    """

    def __init__(
        self,
        smiles: Sequence[str],
        max_similarity: float | None = None,
        per_scaffold: int | None = None,
        caps: Sequence[tuple[Sequence[str | Sequence[str | None] | None], int]] = (),
        level: Level = "structure",
        alike: npt.NDArray[np.int64] | None = None,
        *,
        prices: npt.NDArray[np.float64] | None = None,
        budget: float = math.inf,
    ) -> None:
        self.state = np.zeros(len(smiles), np.int8)
        self.picks: list[int] = []
        self._names = np.unique(same_names(smiles, level), return_inverse=True)[1]
        self._alike = alike
        self._similar = None if max_similarity is None else Similarities(smiles)
        self._most_similar = max_similarity
        groups = [] if per_scaffold is None else [(_table(scaffolds(smiles)), per_scaffold, CROWDED)]
        self._groups = [*groups, *((_table(values), n, CAPPED) for values, n in caps)]
        self._times: Counter[tuple[int, str]] = Counter()
        self.prices = np.zeros(len(smiles)) if prices is None else prices
        self.cost, self._budget = 0.0, budget * (1 + _ROUNDING)
        self._leave(self.prices > self._budget, COSTLY)

    @property
    def free(self) -> npt.NDArray[np.bool_]:
        """Whether each candidate is free."""
        return self.state == FREE

    @property
    def is_spent(self) -> bool:
        """Whether what is left of the budget buys no candidate, not even one that is left out."""
        return bool(self.picks) and self.cost + self.prices.min() > self._budget

    def take(self, pick: int) -> bool:
        """Take a candidate, unless it is not free; return whether it was taken."""
        if self.state[pick] != FREE:
            return False
        self.picks.append(pick)
        self.cost += float(self.prices[pick])
        self.state[pick] = TAKEN
        self._leave(self._names == self._names[pick], COPY)
        if self._alike is not None:
            self._leave(self._alike == self._alike[pick], ALIKE)
        if self._similar is not None and self._most_similar is not None:
            self._leave(self._similar.to(pick) > self._most_similar, SIMILAR)
        for number, (values, most, reason) in enumerate(self._groups):
            for value in set(values[pick].tolist()) - {""}:
                self._times[number, value] += 1
                if self._times[number, value] == most:
                    self._leave((values == value).any(axis=1), reason)
        if self._budget < math.inf:
            self._leave(self.cost + self.prices > self._budget, COSTLY)
        return True

    def _leave(self, which: npt.NDArray[np.bool_], reason: int) -> None:
        self.state[which & self.free] = reason


def _table(values: Iterable[Any]) -> npt.NDArray[np.str_]:
    """Return the values of each candidate as a row of texts, empty where there is no value."""
    rows = [[value] if value is None or isinstance(value, str) else value for value in values]
    table = np.array([[text or "" for text in row] for row in rows], dtype=np.str_)
    return table.reshape(len(rows), len(rows[0]) if rows else 1)


def scaffolds(smiles: Sequence[str]) -> npt.NDArray[np.str_]:
    """Return the Murcko scaffold of each molecule; empty if it has no rings or RDKit fails.

    Examples
    --------
    >>> scaffolds(["CCO", "Cc1ccccc1"]).tolist()
    ['', 'c1ccccc1']
    """
    results = each("daskrf.molecules.properties:scaffolder", (), list(smiles))
    return np.array(["" if isinstance(name, Lost) else name for name in results], dtype=np.str_)
