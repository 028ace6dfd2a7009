"""Reactions of synthon tables: synthons with numbered attachment points instead of SMARTS."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from daskrf.quantities import amount
from daskrf.spaces.closures import rings_of, unsupported
from daskrf.spaces.reactions import Half


@dataclass(frozen=True)
class Coupling:
    """Synthons of some slots, joined where their attachment points have the same number.

    Parameters
    ----------
    name : str
    points : tuple of tuple of int
        The numbers of the attachment points of each slot, ascending.

    Examples
    --------
    >>> Coupling("amide", ((1,), (1,))).refusal
    ''
    >>> Coupling("ring", ((1, 2), (1, 2))).refusal
    ''
    >>> Coupling("cage", ((1, 2, 3), (1, 2, 3))).refusal
    'two slots are joined by 3 bonds; one, or two of one pair of slots, are supported'
    """

    name: str
    points: tuple[tuple[int, ...], ...]

    smarts = ""  # as `Reaction` has: nothing is cut

    @property
    def slots(self) -> tuple[tuple[int, ...], ...]:
        """The attachment points of each slot."""
        return self.points

    @cached_property
    def refusal(self) -> str:
        """Why products of this reaction cannot be assembled from synthons, or an empty string."""
        if not 2 <= len(self.points) <= 3:
            return f"it has {amount(len(self.points), 'slots')}; two or three are supported"
        ends = Counter(number for slot in self.points for number in slot)
        for number, count in sorted(ends.items()):
            if count != 2:
                return f"attachment point {number} stands in {amount(count, 'slots')}, not in two"
        pairs = combinations(self.points, 2)
        shared = [len(set(a) & set(b)) for a, b in pairs]
        if any(len(set(slot)) < len(slot) for slot in self.points):
            return "a slot is joined to itself"
        return unsupported(shared, len(self.points))

    @cached_property
    def halves(self) -> list[Half]:
        """Halves that leave the synthons of each slot unchanged; empty if the reaction is refused."""
        if self.refusal:
            return []
        rings = rings_of(self.points)
        return [Half("", False, slot, ring=ring) for slot, ring in zip(self.points, rings, strict=True)]
