"""Named, counter-based random streams: every random number follows from (seed, name, index).

Two programs that ask for word 17 of stream ``"minhash/a"`` of seed 3 get the same word, whatever
they asked for before, and on any machine; nothing here keeps state.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
"""What scikit-learn takes as `random_state`; None is a seed that nobody knows before."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_DRAWN_BITS = 31  # of seeds that are drawn: short enough to be typed again


def check_seed(seed: object) -> int:
    """Return `seed` as a Python int.

    Raises
    ------
    InputError
        If `seed` is not an integer in [0, 2**63).
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= int(seed) < 2**63:
        raise InputError(f"random_state must be an integer from 0 to 2**63 - 1, not {seed!r}.")
    return int(seed)


def is_drawn(random_state: object) -> bool:
    """Tell whether a seed has to be drawn: for None and for generators of NumPy."""
    return random_state is None or isinstance(random_state, (np.random.RandomState, np.random.Generator))


def seed_of(random_state: RandomState) -> int:
    """Return a seed: an integer as it is, else one drawn from the generator, or by the operating system.

    Drawing advances the generator, so that equal estimators that share one are different.

    Raises
    ------
    InputError
        If it is none of these, or an integer that is not in [0, 2**63).

    Examples
    --------
    >>> seed_of(7)
    7
    >>> shared = np.random.default_rng(0)
    >>> seed_of(shared) == seed_of(shared)
    False
    """
    if random_state is None:
        return secrets.randbits(_DRAWN_BITS)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**_DRAWN_BITS, dtype=np.int64))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**_DRAWN_BITS))
    return check_seed(random_state)


def _digest(seed: int, name: str, size: int) -> bytes:
    return hashlib.blake2b(f"{check_seed(seed)}:{name}".encode(), digest_size=size).digest()


def key(seed: int, name: str) -> int:
    """Return the 64-bit key of the stream `name` of `seed`."""
    return int.from_bytes(_digest(seed, name, 8), "little")


def splitmix64(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix 64-bit words with the bijective finalizer of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def words(seed: int, name: str, count: int, start: int = 0) -> npt.NDArray[np.uint64]:
    """Return words `start` to `start + count - 1` of the stream `name`: uniform 64-bit integers.

    Examples
    --------
    >>> from daskrf import seeds
    >>> long = seeds.words(0, "example", 5)
    >>> bool((seeds.words(0, "example", 3, start=2) == long[2:]).all())
    True
    """
    index = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    return splitmix64(np.uint64(key(seed, name)) + index * _GOLDEN)


def words_at(seed: int, name: str, places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return the words of the stream `name` at the given positions."""
    index = places.astype(np.uint64) + np.uint64(1)
    return splitmix64(np.uint64(key(seed, name)) + index * _GOLDEN)


def generator(seed: int, name: str, index: int = 0) -> np.random.Generator:
    """Return a NumPy generator (Philox) for the stream `name` of `seed`; `index` selects a substream."""
    philox_key = np.frombuffer(_digest(seed, f"{name}#{index}", 16), dtype="<u8")
    return np.random.Generator(np.random.Philox(key=philox_key))


@dataclass
class RandomSample:
    """A random choice of `size` items of any number that arrive in order, some at a time.

    Item i is chosen if word i of the stream `name` of `seed` is among the smallest, so that the choice does
    not depend on how many arrive at once.

    Attributes
    ----------
    chosen : int64 array
        At most `size` items of those that arrived, in their order.

    Examples
    --------
    >>> sample = RandomSample(0, "example", size=3)
    >>> sample.offer(np.arange(50))
    >>> sample.offer(np.arange(50, 100))
    >>> at_once = RandomSample(0, "example", size=3)
    >>> at_once.offer(np.arange(100))
    >>> bool((sample.chosen == at_once.chosen).all()), len(sample.chosen)
    (True, 3)
    """

    seed: int
    name: str
    size: int
    chosen: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), init=False)
    _words: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64), init=False)
    _n_offered: int = field(default=0, init=False)

    def offer(self, items: npt.NDArray[np.int64]) -> None:
        """Choose among those chosen so far and more items; of equal words the first counts."""
        random = np.append(self._words, words(self.seed, self.name, len(items), self._n_offered))
        self._n_offered += len(items)
        least = np.sort(np.argsort(random, kind="stable")[: self.size])
        self.chosen, self._words = np.append(self.chosen, items)[least], random[least]
