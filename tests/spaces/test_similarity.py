"""The products most similar to a molecule are those of a list of all products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daskrf import FingerprintSpec
from daskrf.molecules import Fingerprinter
from daskrf.screening import TopK
from daskrf.screens.space.search import Chosen
from daskrf.spaces import cut, read_space, similarity
from daskrf.spaces.families import decoded, families
from daskrf.spaces.ranking import Limit
from daskrf.spaces.sampling import counts_of, inside
from daskrf.spaces.similarity import Query, most_similar, pieces_of_similarity
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, SPACES, write_space

REACTIONS = {
    **{name: SPACES[name] for name in ("amide", "boc", "urea", "imide")},
    "amide2": (AMIDE, [AMINES[3:], [*ACIDS[:4], "OC(=O)CCN"]]),
}
QUERIES = ["CC(C)NC(=O)c1ccccc1C(=O)O", "C", "CCCCCCCCCCCCCCCCCCCC", "NCCNC(=O)C1CC1", "[18OH]C"]


@pytest.fixture(scope="module", params=["morgan:1", "morgan:2", "morgan:0"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A space that is cut, its families, numbers of all their products, and counts of these."""
    folder = write_space(tmp_path_factory.mktemp("similarity") / "space", REACTIONS)
    space = cut(read_space(folder), FingerprintSpec(request.param))
    members = families(space)
    numbers = []
    for family in members:
        rows = [grid.ravel() for grid in np.meshgrid(*(np.arange(n) for n in family.shape), indexing="ij")]
        of_family = family.number(rows)
        numbers.append(of_family[of_family >= 0])
    all_numbers = np.concatenate(numbers)
    return space, members, all_numbers, counts_of(space, decoded(space, all_numbers.tolist()))


def naive_similarities(counts: Any, query: Any) -> list[float]:
    """Return sums of minima over sums of maxima, molecule by molecule, from dictionaries."""
    (q,) = as_dicts(query)
    results = []
    for x in as_dicts(counts):
        columns = set(x) | set(q)
        minima, maxima = (sum(f(x.get(c, 0), q.get(c, 0)) for c in columns) for f in (min, max))
        results.append(minima / maxima)
    return results


def as_dicts(counts: Any) -> list[dict[int, int]]:
    return [
        dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        for row in map(counts.getrow, range(counts.shape[0]))
    ]


@pytest.mark.parametrize("k", [1, 7, 300])
@pytest.mark.parametrize("ranges", [[], [(0, 8.0, 14.0), (4, -np.inf, 60.0)]])
@pytest.mark.parametrize("text", QUERIES)
def test_most_similar_products_are_those_of_a_list(
    made: Any, k: int, ranges: list[Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, members, numbers, counts = made
    monkeypatch.setattr(similarity, "PIECE", 500)  # many pieces
    monkeypatch.setattr(similarity, "_SHOWN", 5)
    fingerprint = Fingerprinter(space.spec)([text]).fingerprints
    query = Query.of(fingerprint)
    limits = [Limit(space.sums[:, column], low, high) for column, low, high in ranges]
    top = TopK(k)
    for piece in pieces_of_similarity(members):
        best = Chosen(members[piece.family], top)
        most_similar(piece, members[piece.family], space.own, query, limits, best)
        top = best.top()
    truth = np.float32(naive_similarities(counts, fingerprint))
    np.testing.assert_array_equal(np.float32(query.similarities(counts)), truth)
    keep = inside(space, numbers, ranges)
    expected = TopK(k).from_chunk(truth[keep], numbers[keep])
    np.testing.assert_array_equal(top.row, expected.row)
    np.testing.assert_array_equal(top.score, expected.score)


def test_pieces_cover_each_product_once(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, members, _, _ = made
    monkeypatch.setattr(similarity, "PIECE", 100)
    pieces = pieces_of_similarity(members)
    assert len(pieces) > len(members)
    for number, family in enumerate(members):
        assert sum(piece.size for piece in pieces if piece.family == number) == np.prod(family.shape)
