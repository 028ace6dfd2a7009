"""Searches of a space by what single building blocks are worth, with the settings of their publications.

Each block has a normal distribution of the score of its products. In a warm-up, blocks are tried in products
with random partners; the mean and the variance of all its scores are the prior of each block, and its
variance that of a score. Then products are chosen, scored, and the distributions of their blocks updated:

- Thompson sampling over reagents (Klarich, Goldman, Kramer, Riley & Walters 2024, J. Chem. Inf. Model. 64,
  1158): a number is drawn for each block, and each slot takes the block with the largest one. Three products
  of each block in the warm-up.
- Top-two Thompson sampling (Russo 2016, COLT): with a probability of 1/2 a slot takes, in place of this
  block, the best of another draw that is a different one.
- Roulette-wheel selection with thermal cycling (Zhao, Nittinger & Tyrchan 2025): products are drawn 100 at a
  time; a slot takes a block with a probability proportional to exp(z / T), where z are the drawn numbers,
  standardized over the slot. Slots take turns to be heated (T = alpha); the others have T = beta. Both begin
  at 0.1; a cycle of fewer than 10 new products adds 0.01 to alpha, and one of none 0.001 to beta. Scores are
  taken in when 50 products or more wait, and 6,000 repeated products in a row end the search. Five
  products of each block of the largest slot in the warm-up, with partners in turn (as in the settings of the
  authors' files); top-two sampling takes the same warm-up.

A product is scored once. Where a slot has more blocks than a budget allows to try, the warm-up is a random
half of the budget, and the other blocks keep the prior.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from spacetruth import Array, Evaluations, Places

Product = tuple[int, ...]

WARM_UP = 3  # products of each block, in Thompson sampling
PAIRED = 5  # products of each block of the largest slot, in the others
CHALLENGED = 0.5
CYCLE, FEW, WAITING, REPEATED = 100, 10, 50, 6000
START, HEAT, WARM = 0.1, 0.01, 0.001


class Normal:
    """The normal distributions of the scores of the blocks of a slot; each score updates that of its block.

    Parameters
    ----------
    n : int
        Number of blocks.
    mean, deviation : float
        Of the prior; the deviation is that of a score, too.
    """

    def __init__(self, n: int, mean: float, deviation: float) -> None:
        self.mean, self.variance = np.full(n, mean), np.full(n, deviation**2)
        self.of_a_score = deviation**2

    def update(self, block: int, score: float) -> None:
        """Take in the score of a product of a block."""
        variance, of_a_score = self.variance[block], self.of_a_score
        self.mean[block] = (variance * score + of_a_score * self.mean[block]) / (variance + of_a_score)
        self.variance[block] = variance * of_a_score / (variance + of_a_score)

    def draw(self, random: np.random.Generator) -> Array:
        """Return a number drawn for each block."""
        return np.asarray(self.mean + np.sqrt(self.variance) * random.standard_normal(len(self.mean)))


class Search:
    """The products scored so far, and the distributions of blocks.

    Parameters
    ----------
    evaluations : Evaluations
        Scores products.
    places : int64 array, shape (n, slots)
        Products of the warm-up, which are scored.
    """

    def __init__(self, evaluations: Evaluations, places: Places) -> None:
        self.evaluations, self.sign = evaluations, evaluations.space.sign
        self.seen: set[Product] = set(map(tuple, places.tolist()))
        gains = self.sign * evaluations(places)
        self.slots = [
            Normal(size, float(gains.mean()), float(gains.std())) for size in evaluations.space.blocks.sizes
        ]
        self._update(places, gains)

    def score(self, products: Sequence[Product]) -> None:
        """Score products, and update the distributions of their blocks."""
        places = np.array(products, np.int64)
        self.seen |= set(products)
        self._update(places, self.sign * self.evaluations(places))

    def _update(self, places: Places, gains: Array) -> None:
        for place, gain in zip(places.tolist(), gains.tolist(), strict=True):
            for slot, block in zip(self.slots, place, strict=True):
                slot.update(block, gain)


def thompson(evaluations: Evaluations, budget: int, seed: int) -> None:
    """Spend a budget of evaluations by Thompson sampling over reagents."""
    random = np.random.default_rng(seed)
    search = Search(evaluations, _warm_up(evaluations.space.blocks.sizes, budget, random))
    while evaluations.n < budget:
        orders = [np.argsort(-slot.draw(random)) for slot in search.slots]
        search.score([first_new(orders, search.seen, random)])


def top_two(evaluations: Evaluations, budget: int, seed: int) -> None:
    """Spend a budget of evaluations by top-two Thompson sampling over reagents."""
    random = np.random.default_rng(seed)
    search = Search(evaluations, _paired(evaluations.space.blocks.sizes, budget, random))
    while evaluations.n < budget:
        orders = [_leader_or_challenger(slot, random) for slot in search.slots]
        search.score([first_new(orders, search.seen, random)])


def roulette(evaluations: Evaluations, budget: int, seed: int) -> None:
    """Spend a budget of evaluations by roulette-wheel selection, or stop where it finds nothing new."""
    random = np.random.default_rng(seed)
    search = Search(evaluations, _paired(evaluations.space.blocks.sizes, budget, random))
    alpha = beta = START
    waiting: list[Product] = []
    repeated, heated = 0, itertools.cycle(range(len(search.slots)))
    while evaluations.n < budget and repeated < REPEATED:
        hot = next(heated)
        columns = [
            random.choice(len(slot.mean), CYCLE, p=_wheel(slot.draw(random), alpha if i == hot else beta))
            for i, slot in enumerate(search.slots)
        ]
        new = 0
        for product in map(tuple, np.column_stack(columns).tolist()):
            if product in search.seen:
                repeated += 1
                continue
            search.seen.add(product)
            waiting.append(product)
            new, repeated = new + 1, 0
        alpha += HEAT * (new < FEW)
        beta += WARM * (new == 0)
        if len(waiting) >= WAITING or repeated >= REPEATED:
            search.score(waiting[: budget - evaluations.n])
            waiting = []


BASELINES: dict[str, Callable[[Evaluations, int, int], None]] = {
    "Thompson sampling": thompson,
    "top-two sampling": top_two,
    "roulette wheel": roulette,
}


def first_new(orders: Sequence[Array], seen: set[Product], random: np.random.Generator) -> Product:
    """Return the first new product by the orders of blocks; slots give way in random order."""
    turn = random.permutation(len(orders)).tolist()
    for blocks in itertools.product(*(orders[slot].tolist() for slot in turn)):
        product = tuple(blocks[turn.index(slot)] for slot in range(len(orders)))
        if product not in seen:
            return product
    raise ValueError("All products have been taken.")


def _leader_or_challenger(slot: Normal, random: np.random.Generator) -> Array:
    """Return an order of blocks: by a draw, or by a second one in which the best of the first is last."""
    draw = slot.draw(random)
    if len(draw) > 1 and random.random() < CHALLENGED:
        leader = int(draw.argmax())
        draw = slot.draw(random)
        draw[leader] = -np.inf
    return np.argsort(-draw)


def _wheel(draw: Array, temperature: float) -> Array:
    """Return the probabilities of blocks on a roulette wheel."""
    z = (draw - draw.mean()) / max(float(draw.std()), 1e-12) / temperature
    weights = np.exp(z - z.max())
    return np.asarray(weights / weights.sum())


def _warm_up(sizes: Sequence[int], budget: int, random: np.random.Generator) -> Places:
    """Return some products of each block with random partners, at most half of a budget."""
    tried = []
    for slot, size in enumerate(sizes):
        places = np.column_stack([random.integers(n, size=WARM_UP * size) for n in sizes])
        places[:, slot] = np.tile(np.arange(size), WARM_UP)
        tried.append(places)
    return _some(np.concatenate(tried), budget, random)


def _paired(sizes: Sequence[int], budget: int, random: np.random.Generator) -> Places:
    """Return some products of each block of the largest slot; in the others each block is tried as often."""
    most = max(sizes)
    tried = [
        np.column_stack([np.resize(random.permutation(size), most) for size in sizes]) for _ in range(PAIRED)
    ]
    return _some(np.concatenate(tried), budget, random)


def _some(places: Places, budget: int, random: np.random.Generator) -> Places:
    """Return different products, at most half of a budget, in random order."""
    places = np.unique(places, axis=0)
    return np.asarray(places[random.permutation(len(places))][: max(1, budget // 2)], np.int64)
