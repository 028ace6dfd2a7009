"""The best products by a linear function of counts are those of a list of all products."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from daskrf import FingerprintSpec
from daskrf.screening import TopK
from daskrf.screens.space.search import Chosen
from daskrf.spaces import cut, read_space, sumranking
from daskrf.spaces.families import decoded, families
from daskrf.spaces.ranking import Limit
from daskrf.spaces.sampling import counts_of, inside
from daskrf.spaces.sumranking import Linear, best_sums, pieces_of_sums
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, SPACES, write_space

REACTIONS = {
    **{name: SPACES[name] for name in ("amide", "boc", "urea", "imide")},
    "amide2": (AMIDE, [AMINES[3:], [*ACIDS[:4], "OC(=O)CCN"]]),
}


@pytest.fixture(scope="module", params=["morgan:1", "morgan:2"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A space that is cut, its families, numbers of all their products, and counts of these."""
    folder = write_space(tmp_path_factory.mktemp("sums") / "space", REACTIONS)
    space = cut(read_space(folder), FingerprintSpec(request.param))
    members = families(space)
    numbers = []
    for family in members:
        rows = [grid.ravel() for grid in np.meshgrid(*(np.arange(n) for n in family.shape), indexing="ij")]
        of_family = family.number(rows)
        numbers.append(of_family[of_family >= 0])
    all_numbers = np.concatenate(numbers)
    return space, members, all_numbers, counts_of(space, decoded(space, all_numbers.tolist()))


def searched(made: Any, function: Linear, k: int, ranges: list[tuple[int, float, float]]) -> TopK:
    """Return the best k products by the search."""
    space, members, _, _ = made
    limits = [Limit(space.sums[:, column], low, high) for column, low, high in ranges]
    top = TopK(k)
    for piece in pieces_of_sums(members):
        best = Chosen(members[piece.family], top)
        best_sums(piece, members[piece.family], space.own, function, limits, best)
        top = best.top()
    return top


def linear(counts: Any, random: np.random.Generator, *, whole: bool) -> Linear:
    """Return random weights of most columns; small integers make many ties."""
    columns = np.unique(counts.indices).astype(np.int64)
    columns = columns[random.random(len(columns)) < 0.8]
    weights = (
        random.integers(-2, 3, len(columns)).astype(float) if whole else random.normal(size=len(columns))
    )
    return Linear(columns, weights)


@pytest.mark.parametrize("at_once", [1, 7, 2**20])
@pytest.mark.parametrize(
    "ranges",
    [[], [(0, 8.0, 12.0)], [(1, -np.inf, 170.0), (3, 1.0, 1.0)], [(3, 30.0, 40.0)]],
    ids=["no limits", "atoms", "weight and rings", "nothing"],
)
def test_the_best_are_those_of_a_list(
    made: Any, monkeypatch: pytest.MonkeyPatch, at_once: int, ranges: list[tuple[int, float, float]]
) -> None:
    monkeypatch.setattr(sumranking, "AT_ONCE", at_once)
    monkeypatch.setattr(sumranking, "LEADS", 3)
    space, _, numbers, counts = made
    for seed, k in enumerate((1, 30, 300)):
        function = linear(counts, np.random.default_rng(seed), whole=False)
        free = inside(space, numbers, ranges)
        score = function(counts)[free]
        order = np.argsort(-score)[:k]
        top = searched(made, function, k, ranges)
        np.testing.assert_allclose(top.score, score[order], rtol=1e-5, atol=1e-5)
        scores = dict(zip(numbers.tolist(), function(counts).tolist(), strict=True))
        np.testing.assert_allclose([scores[n] for n in top.row.tolist()], top.score, rtol=1e-5, atol=1e-5)


def test_ties_are_all_looked_at(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sumranking, "AT_ONCE", 5)
    _, _, numbers, counts = made
    for function in (
        linear(counts, np.random.default_rng(0), whole=True),
        Linear(np.empty(0, np.int64), np.empty(0)),
    ):
        score = function(counts)
        order = np.lexsort((numbers, -score))[:50]
        top = searched(made, function, 50, [])
        assert top.row.tolist() == numbers[order].tolist()
        assert top.score.tolist() == score[order].tolist()


def test_few_products_are_looked_at(made: Any) -> None:
    _, members, numbers, counts = made
    function, shown = linear(counts, np.random.default_rng(2), whole=False), 0

    class Counted(Chosen):
        def look(self, scores: npt.NDArray[np.float32], rows_of: Any) -> None:
            nonlocal shown
            shown += len(scores)
            super().look(scores, rows_of)

    top = TopK(1)
    for piece in pieces_of_sums(members):
        best = Counted(members[piece.family], top)
        best._least = -np.inf if not len(top) else best.least
        best_sums(piece, members[piece.family], made[0].own, function, [], best)
        top = best.top()
    assert shown < len(numbers)
