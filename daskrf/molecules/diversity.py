"""A batch of different molecules, taken one by one: no copies, none too similar, few of a scaffold.

Sphere exclusion: a candidate closer to a pick than a given similarity is left out (Gobbi & Lee 2003, DISE:
directed sphere exclusion, J. Chem. Inf. Comput. Sci. 43).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from daskrf.molecules.isolation import Lost, each
from daskrf.molecules.similarity import Similarities
from daskrf.molecules.structures import canonical_smiles

__all__ = ["REASONS", "Diversity", "scaffolds"]

FREE, TAKEN, COPY, SIMILAR, CROWDED = range(5)
REASONS = {
    COPY: "the same molecule as a pick",
    SIMILAR: "too similar to a pick",
    CROWDED: "of a scaffold that has enough picks",
}


class Diversity:
    """Which candidates are still free, as picks are taken.

    Parameters
    ----------
    smiles : sequence of str
        Of the candidates.
    max_similarity : float, optional
        Candidates with a larger Tanimoto similarity to a pick are left out; see `Similarities`.
    per_scaffold : int, optional
        Picks with the same Murcko scaffold, at most; molecules without rings have none, and are not capped.

    Attributes
    ----------
    state : int8 array, shape (n,)
        0 if a candidate is free, else 1 if it was taken, or a key of `REASONS`.
    picks : list of int

    Examples
    --------
    >>> diversity = Diversity(["CCO", "OCC", "CCCO", "c1ccccc1O", "c1ccccc1N"], 0.4, 1)
    >>> [diversity.take(i) for i in range(5)], diversity.state.tolist()
    ([True, False, False, True, False], [1, 2, 3, 1, 4])
    """

    def __init__(
        self, smiles: Sequence[str], max_similarity: float | None = None, per_scaffold: int | None = None
    ) -> None:
        self.state = np.zeros(len(smiles), np.int8)
        self.picks: list[int] = []
        self._names = np.unique(canonical_smiles(smiles), return_inverse=True)[1]
        self._similar = None if max_similarity is None else Similarities(smiles)
        self._most_similar, self._most = max_similarity, per_scaffold
        self._scaffold = None if per_scaffold is None else scaffolds(smiles)
        self._times: Counter[str] = Counter()

    @property
    def free(self) -> npt.NDArray[np.bool_]:
        """Whether each candidate is free."""
        return self.state == FREE

    def take(self, pick: int) -> bool:
        """Take a candidate, unless it is not free; return whether it was taken."""
        if self.state[pick] != FREE:
            return False
        self.picks.append(pick)
        self.state[pick] = TAKEN
        self._leave(self._names == self._names[pick], COPY)
        if self._similar is not None and self._most_similar is not None:
            self._leave(self._similar.to(pick) > self._most_similar, SIMILAR)
        if self._scaffold is not None and (own := str(self._scaffold[pick])):
            self._times[own] += 1
            if self._times[own] == self._most:
                self._leave(self._scaffold == own, CROWDED)
        return True

    def _leave(self, which: npt.NDArray[np.bool_], reason: int) -> None:
        self.state[which & self.free] = reason


def scaffolds(smiles: Sequence[str]) -> npt.NDArray[np.str_]:
    """Return the Murcko scaffold of each molecule; empty without rings, and where RDKit fails.

    Examples
    --------
    >>> scaffolds(["CCO", "Cc1ccccc1"]).tolist()
    ['', 'c1ccccc1']
    """
    found = each("daskrf.molecules.properties:scaffolder", (), list(smiles))
    return np.array(["" if isinstance(name, Lost) else name for name in found], dtype=np.str_)
