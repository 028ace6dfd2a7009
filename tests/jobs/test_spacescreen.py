"""Screens of spaces: their hits are those that a list of all products would give."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import Descriptors, rdFingerprintGenerator

from daskrf import (
    FastfoodFeatures,
    FingerprintSpec,
    Gaussian,
    Matern,
    RandomFourierFeatures,
    fingerprint,
    fit,
    screen,
    suggest,
)
from daskrf.cli.app import run
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.jobs.shards import run_shard
from daskrf.models.models import feature_map_of, read_model
from daskrf.molecules import Fingerprinter
from daskrf.molecules.alerts import catalog_of
from daskrf.screening import TopK
from daskrf.screens.space import cutspaces, productranking
from daskrf.screens.space.search import Chosen, SpaceSearch
from daskrf.screens.space.similarsearch import SimilaritySearch
from daskrf.spaces import cut, ranking, read_space
from daskrf.spaces.families import families
from tests.naive.spaces import Made, best_products, every_product
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, SPACES, write_space

# Two reactions alike, which share blocks; a molecule that the boc reaction makes in two ways; two and three
# slots; several sites a block.
REACTIONS = {
    **{name: SPACES[name] for name in ("amide", "boc", "urea", "imide")},
    "amide2": (AMIDE, [AMINES[3:], [*ACIDS[:4], "OC(=O)CCN"]]),
}
SPECS = {
    "radius 1": FingerprintSpec("morgan"),
    "radii 1 and 2": FingerprintSpec(["morgan:1", "morgan:2"], size=4096),
}
MAPS = {
    "radius 1": RandomFourierFeatures(Gaussian(4.0), n_components=151),
    "radii 1 and 2": FastfoodFeatures(Matern(9.0), n_components=128),
}


@pytest.fixture(scope="module", params=SPECS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space, a model of labels of some of its products, and two small pieces for each."""
    out = tmp_path_factory.mktemp("space")
    spec = SPECS[request.param]
    space = cut(read_space(write_space(out / "space", REACTIONS)), spec)
    smiles = [one.smiles for one in every_product(space, lambda smiles: np.zeros(len(smiles)))][::7]
    random = np.random.default_rng(5)
    (out / "lib.smi").write_text("".join(f"{s} m{i}\n" for i, s in enumerate(smiles)))
    scores = [f"m{i},{s.count('N') - 0.1 * len(s) + random.normal()}\n" for i, s in enumerate(smiles)]
    (out / "y.csv").write_text("id,score\n" + "".join(scores))
    fingerprint(out / "lib.smi", out / "fp", spec=spec)
    fit(out / "fp", out / "y.csv", out / "model", feature_map=MAPS[request.param], direction="maximize")
    return out


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the small space into many pieces and tiles."""
    monkeypatch.setattr(cutspaces, "COMPARED", 2)
    monkeypatch.setattr(ranking, "PIECE_FLOP", 1.0)
    monkeypatch.setattr(ranking, "LEAST_ROWS", 9)
    monkeypatch.setattr(ranking, "LEADING", 2)
    monkeypatch.setattr(ranking, "TILE", (3, 4))


@pytest.fixture(params=[False, True], ids=["all products scored", "most left out by bounds"])
def bounds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use bounds for small families, too."""
    if request.param:
        monkeypatch.setattr(ranking, "LARGE", 0)
        monkeypatch.setattr(ranking, "_MOST", 5)


def means(path: Path, smiles: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the means of molecules by the model, from their SMILES."""
    model = read_model(path)
    spec = FingerprintSpec.from_state(model.metadata["fingerprint"])
    # One by one: equal fingerprints get exactly equal means.
    distinct = sorted(set(smiles))
    rows = Fingerprinter(spec)(distinct).fingerprints
    first: dict[bytes, float] = {}
    found = {}
    for i, text in enumerate(distinct):
        key = rows[i].indices.tobytes() + rows[i].data.tobytes()
        if key not in first:
            first[key] = float(model.gp.predict(feature_map_of(model).transform(rows[i])).ravel()[0])
        found[text] = first[key]
    return np.array([found[text] for text in smiles])


@pytest.fixture(scope="module")
def every(made: Path) -> list[Made]:
    """All products, scored by their means."""
    spec = FingerprintSpec.from_state(read_model(made / "model").metadata["fingerprint"])
    space = cut(read_space(made / "space"), spec)
    return every_product(space, lambda smiles: means(made / "model", smiles))


@pytest.mark.usefixtures("bounds")
def test_hits_are_those_of_a_list(
    made: Path, every: list[Made], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    maximize = "bounds" in request.node.callspec.id  # each way once
    if not maximize:
        every = [one._replace(score=-one.score) for one in every]
    for k in (1, 40, 10_000):
        report = screen(made / "model", made / "space", tmp_path / f"{k}.parquet", k=k, maximize=maximize)
        expected, table = best_products(every, k), report.table.to_pydict()
        assert table["smiles"] == [one.smiles for one in expected]
        assert table["row"] == [one.number for one in expected]
        assert table["reaction"] == [one.reaction for one in expected]
        blocks = zip(table["block_0"], table["block_1"], table["block_2"], strict=True)
        assert [tuple(filter(None, own)) for own in blocks] == [one.blocks for one in expected]
        np.testing.assert_allclose(
            table["acquisition"], [one.score for one in expected], rtol=1e-9, atol=1e-9
        )
        assert len(set(table["smiles"])) == len(set(table["id"])) == len(expected)
    assert 500 < len(expected) < len(every)
    assert f"these are all: {len(expected):,} molecules" in str(report)
    assert "left out as the same molecule as a better one: " in str(report)
    spec = FingerprintSpec.from_state(read_model(made / "model").metadata["fingerprint"])
    space, distinct = cut(read_space(made / "space"), spec), set()
    for reaction, slots in zip(space.space.reactions, space.entries, strict=True):
        for synthons in itertools.product(*(own.synthon.tolist() for own in slots)):
            distinct.add((reaction.smarts, synthons))
    assert report.rows == len(distinct)


def test_scores_of_all_products_are_those_of_their_smiles(made: Path, every: list[Made]) -> None:
    model = read_model(made / "model")
    spec = FingerprintSpec.from_state(model.metadata["fingerprint"])
    space = cut(read_space(made / "space"), spec)
    feature_map: Any = feature_map_of(model)
    beta = ranking.amplitudes(model.gp.weights_[:, 0])
    own = families(space)
    scores: dict[int, float] = {}

    class All:
        def __init__(self, number: Any) -> None:
            self.number = number

        def look(self, found: npt.NDArray[np.float32], rows_of: ranking.RowsOf) -> None:
            numbers = self.number(rows_of(np.arange(len(found))))
            scores.update((n, s) for n, s in zip(numbers.tolist(), found.tolist(), strict=True) if n >= 0)

    for piece in ranking.pieces_of(own, feature_map.n_components):
        family = own[piece.family]
        search = ranking.Search(beta, All(family.number))
        ranking.score_piece(piece, family, space.own, feature_map, [], [search])
    # Of products that can be made in several ways, families have the first number.
    assert set(scores) <= {one.number for one in every}
    assert {every[n].smiles for n in scores} == {one.smiles for one in every}
    expected = np.array([every[n].score for n in scores])
    error = np.abs(np.array(list(scores.values())) + model.gp.mean_[0] - expected)
    assert error.max() < 1e-5 * np.ptp(expected)


@pytest.mark.parametrize("k", [1, 7, 100])
def test_bounds_leave_out_products_and_none_of_the_best(
    made: Path, every: list[Made], monkeypatch: pytest.MonkeyPatch, k: int
) -> None:
    monkeypatch.setattr(ranking, "LARGE", 0)
    model = read_model(made / "model")
    spec = FingerprintSpec.from_state(model.metadata["fingerprint"])
    space = cut(read_space(made / "space"), spec)
    feature_map: Any = feature_map_of(model)
    beta = ranking.amplitudes(model.gp.weights_[:, 0])
    shown = 0

    class Counted(Chosen):
        def look(self, scores: npt.NDArray[np.float32], rows_of: ranking.RowsOf) -> None:
            nonlocal shown
            shown += len(scores)
            super().look(scores, rows_of)

    found, scored = [], []
    for with_bounds in (False, True):
        shown, tops = 0, []
        for family in families(space):
            basis = ranking.balanced_basis(family, space.own, feature_map, beta) if with_bounds else None
            assert (basis is not None) == with_bounds
            best = Counted(family, TopK(k))
            whole = ranking.Piece(0, tuple((0, size) for size in family.shape))
            search = ranking.Search(beta, best, basis)
            ranking.score_piece(whole, family, space.own, feature_map, [], [search])
            tops.append(best.top())
        found.append(tops)
        scored.append(shown)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one.score, other.score, rtol=0, atol=1e-5)
        inner = one.score > one.score[-1] + 1e-5  # those beside the last are equal, or nearly
        assert set(one.row[inner].tolist()) <= set(other.row.tolist())
    assert scored[1] < scored[0] / 2 or k == 100


@pytest.mark.usefixtures("bounds")
def test_a_draw_is_maximized(made: Path, every: list[Made], tmp_path: Path) -> None:
    model = read_model(made / "model")
    smiles = [one.smiles for one in every]
    spec = FingerprintSpec.from_state(model.metadata["fingerprint"])
    rows = feature_map_of(model).transform(Fingerprinter(spec)(smiles).fingerprints)
    values = model.gp.draw(3).predict(rows)
    report = screen(
        made / "model", made / "space", tmp_path / "h.parquet", k=5, acquisition="thompson", seed=3
    )
    best = np.sort(np.unique(values.round(9)))[::-1]
    np.testing.assert_allclose(report.table["acquisition"].to_numpy()[0], best[0], rtol=1e-5)
    means_of = dict(zip(smiles, (one.score for one in every), strict=True))
    hits = report.table.to_pydict()
    np.testing.assert_allclose(hits["mean"], [means_of[s] for s in hits["smiles"]], rtol=1e-6)


def test_rules_with_deviations_rank_the_best_means(made: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"k": 12, "acquisition": "ucb", "kappa": 3.0}
    report = screen(made / "model", made / "space", tmp_path / "h.parquet", **options)
    table = report.table.to_pydict()
    np.testing.assert_allclose(table["acquisition"], np.array(table["mean"]) + 3.0 * np.array(table["std"]))
    assert table["acquisition"] == sorted(table["acquisition"], reverse=True)
    assert "ranked among the 5,000 best means" in str(report)


def test_shards_and_a_resumed_run_give_the_same_hits(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = screen(made / "model", made / "space", tmp_path / "whole.parquet", k=30).table
    for shard in ("0/2", "1/2"):
        run_shard(screen, shard, made / "model", made / "space", tmp_path / "shards.parquet", k=30)
    found = screen(made / "model", made / "space", tmp_path / "shards.parquet", k=30).table
    assert found.equals(whole)
    add, left = SpaceSearch.add, [3]

    def interrupted(self: SpaceSearch, total: Any, block: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        add(self, total, block)

    with monkeypatch.context() as patch:
        patch.setattr(SpaceSearch, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            screen(made / "model", made / "space", tmp_path / "again.parquet", k=30)
    with monkeypatch.context() as patch:
        patch.setattr("daskrf.screens.space.cutspaces.cut", None)  # what is cut stays
        patch.setattr("daskrf.screens.space.cutspaces.family_of", None)
        resumed = screen(made / "model", made / "space", tmp_path / "again.parquet", k=30).table
    assert resumed.equals(whole)
    assert sorted(p.name for p in tmp_path.glob("*.parquet")) == [
        "again.parquet",
        "shards.parquet",
        "whole.parquet",
    ]


def damage(paths: Iterable[Path]) -> None:
    for path in [path for path in paths if path.is_file()]:
        path.write_bytes(b"")


def test_tables_of_a_space_stay_for_later_searches(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = write_space(tmp_path / "space", {"amide": SPACES["amide"]})
    screen(made / "model", own, tmp_path / "first.parquet", k=5)
    with monkeypatch.context() as patch:
        patch.setattr(cutspaces, "cut", None)
        patch.setattr(cutspaces, "family_of", None)
        later = screen(made / "model", own, tmp_path / "later.parquet", k=9).table
    (tmp_path / "elsewhere").mkdir()
    alone = screen(made / "model", own, tmp_path / "elsewhere" / "h.parquet", k=9).table
    assert later.equals(alone)
    damage((tmp_path / ".daskrf-spaces").rglob("*"))  # damaged tables are made again
    assert screen(made / "model", own, tmp_path / "again.parquet", k=9).table.equals(alone)
    damage((tmp_path / ".daskrf-spaces").glob("*/space-cut/**/*"))  # the families are as they were
    options = ["-o", str(tmp_path / "cut.parquet"), "-k", "9", "--workers", "0"]
    capsys.readouterr()
    assert run(["screen", str(made / "model"), str(own), *options]) == 0
    assert "stay for later searches" in capsys.readouterr().err
    assert pq.read_table(tmp_path / "cut.parquet").equals(alone)
    other = write_space(tmp_path / "space", {"amide": (AMIDE, [AMINES[:3], ACIDS[:3]])})
    report = screen(made / "model", other, tmp_path / "other.parquet", k=9)
    assert set(report.table["block_0"].to_pylist()) <= {"b0", "b1", "b2"}


def test_the_same_search_finds_its_hits_and_another_is_refused(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    first = screen(made / "model", made / "space", path, k=5)
    again = screen(made / "model", made / "space", path, k=5)
    assert again.table.equals(first.table)
    assert f"{path} already holds exactly these hits" in again.notes
    with pytest.raises(StoreError, match="another search"):
        screen(made / "model", made / "space", path, k=6)


def test_more_is_kept_where_many_products_are_one_molecule(
    made: Path, every: list[Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(productranking, "MORE", 1)  # at first too few
    report = screen(made / "model", made / "space", tmp_path / "h.parquet", k=200)
    expected = best_products(every, 200)
    assert report.table["smiles"].to_pylist() == [one.smiles for one in expected]


def test_reactions_that_differ_from_rdkit_are_left_out(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = cutspaces.compare

    def compare(found: Any, reaction: int, n: int) -> Any:
        done = real(found, reaction, n)
        return done._replace(difference="it differs") if reaction == 0 else done

    monkeypatch.setattr(cutspaces, "compare", compare)
    report = screen(made / "model", made / "space", tmp_path / "h.parquet", k=9999)
    assert set(report.table["reaction"].to_pylist()) == set(REACTIONS) - {"amide"}
    assert "left out: 1 reaction (amide)" in str(report)
    alone = write_space(tmp_path / "alone", {"amide": SPACES["amide"]})
    for _ in range(2):  # what was found the first time is not forgotten
        with pytest.raises(InputError, match=r"no products: amide .it differs"):
            screen(made / "model", alone, tmp_path / "none.parquet", k=5)


def test_a_model_that_ranks_itself_needs_no_shortlist(made: Path, tmp_path: Path) -> None:
    for options in ({"shortlist": 100}, {"rough_components": 64}):
        with pytest.raises(OptionError, match="ranks all products of a space itself"):
            screen(made / "model", made / "space", tmp_path / "h.parquet", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"std": "all"}, "leave out --std all"),
        ({"shortlist": 0.5}, "is a number of products, such as 50000, not 0.5"),
        ({"fragments": "keep"}, "leave out --fragments"),
    ],
)
def test_options_of_libraries_are_refused(
    made: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        screen(made / "model", made / "space", tmp_path / "h.parquet", **options)


def test_bad_spaces_are_refused(made: Path, tmp_path: Path) -> None:
    hits = tmp_path / "h.parquet"
    with pytest.raises(InputError, match="screen one space at a time"):
        screen(made / "model", [made / "space", made / "lib.smi"], hits)
    nothing = write_space(tmp_path / "nothing", {"amide": (AMIDE, [["CCO"], ["CC(=O)O"]])})
    with pytest.raises(InputError, match="has no products: no block matches its slot"):
        screen(made / "model", nothing, hits)
    one = write_space(tmp_path / "one", {"amide": (AMIDE, [["CN"], ["CC(=O)O"]])})
    report = screen(made / "model", one, hits)
    assert report.table["smiles"].to_pylist() == ["CNC(C)=O"]
    assert "these are all: 1 molecule" in str(report)


def test_the_command(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "h.parquet"
    arguments = ["screen", str(made / "model"), str(made / "space"), "-o", str(path), "-k", "3"]
    assert run([*arguments, "--workers", "0"]) == 0
    printed = capsys.readouterr().out
    assert "best 3 of" in printed
    assert "products of 5 reactions" in printed


def test_blocks_are_in_few_hits(made: Path, every: list[Made], tmp_path: Path) -> None:
    expected: list[Made] = []
    seen = Counter[str]()
    for one in best_products(every, len(every)):
        if all(seen[block] < 2 for block in one.blocks):
            seen.update(set(one.blocks))
            expected.append(one)
    report = screen(made / "model", made / "space", tmp_path / "h.parquet", k=15, per_block=2)
    assert report.table["smiles"].to_pylist() == [one.smiles for one in expected[:15]]
    report = screen(made / "model", made / "space", tmp_path / "all.parquet", k=999, per_block=2)
    assert report.table["smiles"].to_pylist() == [one.smiles for one in expected]


@pytest.mark.usefixtures("bounds")
def test_limits_hold_during_the_search(made: Path, every: list[Made], tmp_path: Path) -> None:
    def allowed(one: Made) -> bool:
        molecule = Chem.MolFromSmiles(one.smiles)
        return 9 <= molecule.GetNumHeavyAtoms() <= 12 and Descriptors.MolWt(molecule) <= 160

    within = {"heavy_atoms": (9, 12), "weight": (None, 160.0)}
    report = screen(made / "model", made / "space", tmp_path / "h.parquet", k=25, within=within)
    expected = best_products(list(filter(allowed, every)), 25)
    assert report.table["smiles"].to_pylist() == [one.smiles for one in expected]
    assert report.table["smiles"].to_pylist() != [one.smiles for one in best_products(every, 25)]
    with pytest.raises(StoreError, match=r"--within \(was heavy_atoms=9:12 weight=:160, now not given\)"):
        screen(made / "model", made / "space", tmp_path / "h.parquet", k=25)
    options = ["--within", "rings=7:", "--within", "donors=:2", "--workers", "0"]
    arguments = ["screen", str(made / "model"), str(made / "space"), "-o", str(tmp_path / "none.parquet")]
    assert run([*arguments, *options]) == 0  # nothing is left
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


# In one block, across the new bonds, and missing: with limits, one reaction alone, and hardly any product.
PATTERNS: dict[str, dict[str, Any]] = {
    "across": {"smarts": "[CX4]NC(=O)[#6]"},
    "missing": {"without_smarts": ["C1CC1", "NCCN"]},
    "both": {"smarts": ["NC=O", "[R]"], "without_smarts": "c", "within": {"heavy_atoms": (None, 12)}},
    "few": {"smarts": "[nH]"},
    "alerts": {"alerts": "brenk"},
    "further": {"smarts": "[N;$(NC=O);!$(N(C=O)C=O)]", "where": "donors > 0"},
}


def matches(
    text: str,
    smarts: Any = (),
    without_smarts: Any = (),
    within: Any = None,
    where: str = "donors > -1",
    alerts: Any = (),
) -> bool:
    molecule = Chem.MolFromSmiles(text)
    catalogs = [alerts] if isinstance(alerts, str) else alerts
    if any(catalog_of(name).HasMatch(molecule) for name in catalogs):
        return False
    if Descriptors.NumHDonors(molecule) <= int(where.split()[-1]):
        return False
    lists = ([each] if isinstance(each, str) else each for each in (smarts, without_smarts))
    there, absent = ([molecule.HasSubstructMatch(Chem.MolFromSmarts(s)) for s in each] for each in lists)
    return all(there) and not any(absent) and (within is None or molecule.GetNumHeavyAtoms() <= 12)


@pytest.mark.usefixtures("bounds")
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_hold_during_the_search(name: str, made: Path, every: list[Made], tmp_path: Path) -> None:
    options = PATTERNS[name]
    passing = [one for one in every if matches(one.smiles, **options)]
    expected = best_products(passing, 25)
    assert expected
    assert len(passing) < len(every)
    report = screen(made / "model", made / "space", tmp_path / "h.parquet", k=25, **options)
    assert report.table["smiles"].to_pylist() == [one.smiles for one in expected]
    assert re.search(
        r"products (contain|do not contain|have no alerts of) |tests of single products", str(report)
    )
    with pytest.raises(StoreError, match=r"--(without-smarts|smarts|alerts) \(was"):
        screen(made / "model", made / "space", tmp_path / "h.parquet", k=25)


QUERIES = ["CC(C)NC(=O)c1ccccc1C(=O)O", "CNC(=O)NCC"]


def similarities(smiles: Sequence[str], queries: Sequence[str] = QUERIES) -> npt.NDArray[np.float64]:
    """Return the similarity of each molecule to the nearest of some queries, by RDKit."""
    counts = rdFingerprintGenerator.GetMorganGenerator(radius=2).GetSparseCountFingerprint
    rows = [counts(Chem.MolFromSmiles(text)) for text in smiles]
    to = [DataStructs.BulkTanimotoSimilarity(counts(Chem.MolFromSmiles(query)), rows) for query in queries]
    return np.max(to, axis=0)


def test_similarity_holds_during_the_search(
    made: Path, every: list[Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hits are the best of all products that are similar enough, with other filters and without."""
    similarity = similarities([one.smiles for one in every])
    limit = float(np.sort(similarity)[-400])  # reached exactly
    options: dict[str, Any] = {"similar_to": QUERIES, "least_similarity": limit}
    for others in ({}, {"without_smarts": "C1CC1", "within": {"heavy_atoms": (None, 12)}}):
        passing = [
            one
            for one, value in zip(every, similarity, strict=True)
            if value >= limit and (not others or matches(one.smiles, **others))
        ]
        report = screen(made / "model", made / "space", tmp_path / f"{len(others)}.csv", **options, **others)
        assert report.table["row"].to_pylist() == [one.number for one in best_products(passing, 1000)]
        assert f"similarity to {' or '.join(QUERIES)} >= {limit:g} (Tanimoto" in str(report)
        assert len({one.smiles for one in passing}) <= report.rows <= len(passing) < len(every)
    with pytest.raises(StoreError, match=r"--least-similarity \(was"):
        screen(made / "model", made / "space", tmp_path / "0.csv", similar_to=QUERIES)
    nearest: dict[str, Any] = {"similar_to": QUERIES[0], "nearest": 40}
    report = screen(made / "model", made / "space", tmp_path / "n.csv", **nearest)
    names = report.table["smiles"].to_pylist()
    assert len(names) <= report.rows <= 40
    assert f"counts); these are {len(names)} different molecules" in str(report)
    monkeypatch.setattr(SimilaritySearch, "add", None)  # what the first search has left is enough
    batch = suggest(made / "model", made / "space", tmp_path / "b.csv", n=5, acquisition="greedy", **nearest)
    assert set(batch.table["smiles"].to_pylist()) <= set(names)
    assert 20 < len(names) <= 40  # molecules that are made in several ways count for each
    distinct = sorted({one.smiles for one in every})
    to_first = dict(zip(distinct, similarities(distinct, QUERIES[:1]).tolist(), strict=True))
    assert min(map(to_first.get, names)) >= max(to_first[text] for text in set(distinct) - set(names))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"smarts": "[Xe]"}, r"None of the .* products of .* contain \[Xe\]"),
        ({"without_smarts": "C("}, r"RDKit cannot read the SMARTS 'C\('"),
        ({"alerts": "pain"}, "no alert catalog 'pain'"),
        ({"where": "reaction == amide"}, "'reaction'"),
        ({"similar_to": "C1CC"}, "The molecule to compare with, 'C1CC', cannot be used"),
        ({"similar_to": "CCCCCCCCCCCCCCCC(=O)NCCCC"}, "No product of .* passes: similarity to"),
        ({"nearest": 10}, "add --similar-to"),
        ({"similar_to": "C", "least_similarity": 0.0}, "above 0 and up to 1"),
        ({"similar_to": "C", "nearest": 0}, "at least 1"),
        ({"similar_to": "C", "nearest": 10**7}, "at most 1,000,000"),
    ],
)
def test_filters_that_cannot_hold_are_one_sentence(
    made: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        screen(made / "model", made / "space", tmp_path / "h.parquet", **options)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "h.parquet").exists()


@pytest.mark.parametrize(
    ("within", "message"),
    [
        ({"logP": (0, 1)}, "no limit on 'logP'; choose from heavy_atoms, weight"),
        ({"rings": (2, 1)}, "from 2 to 1 is empty"),
        ({"rings": (2,)}, "must be LOW and HIGH"),
    ],
)
def test_impossible_limits_are_refused(made: Path, tmp_path: Path, within: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        screen(made / "model", made / "space", tmp_path / "h.parquet", within=within)
    with pytest.raises(OptionError, match="--rough-components are for the products of a space"):
        screen(made / "model", made / "lib.smi", tmp_path / "h.parquet", within=within)


def test_a_table_of_synthons_is_screened(made: Path, tmp_path: Path) -> None:
    slots = {
        "1": ["O=C([1*])C", "O=C([1*])c1ccccc1", "O=C([1*])/C=C/C"],
        "2": ["[1*]NC", "[1*]N1CCOCC1", "CN([1*])c1ncccn1"],
    }
    rows = [f"{s}\t{slot}-{i}\t{slot}\tr\n" for slot, own in slots.items() for i, s in enumerate(own)]
    table = tmp_path / "synthons.tsv"
    table.write_text("SMILES\tsynton_id\tsynton#\treaction_id\n" + "".join(rows))
    model = read_model(made / "model")
    space = cut(read_space(table), FingerprintSpec.from_state(model.metadata["fingerprint"]))
    expected = best_products(every_product(space, lambda smiles: means(made / "model", smiles)), 5)
    report = screen(made / "model", table, tmp_path / "h.parquet", k=5)
    assert report.table["smiles"].to_pylist() == [one.smiles for one in expected]
    assert report.table["id"].to_pylist() == ["-".join(["r", *one.blocks]) for one in expected]
