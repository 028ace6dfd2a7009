"""Screens of spaces by any model: a surrogate chooses what the model ranks."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors

from daskrf import (
    FingerprintSpec,
    Gaussian,
    LandmarkFeatures,
    RandomFourierFeatures,
    TanimotoMinMax,
    TanimotoMinMaxFeatures,
    fingerprint,
    fit,
    load,
    screen,
)
from daskrf.acquisition import acquisition_for
from daskrf.errors import OptionError, StoreError
from daskrf.jobs.shards import run_shard
from daskrf.models.models import read_model
from daskrf.molecules import Fingerprinter
from daskrf.molecules.alerts import catalog_of
from daskrf.molecules.structures import KnownStructures
from daskrf.screens.space import cutspaces, productranking, stdbounds
from daskrf.screens.space import surrogate as spaceranking
from daskrf.screens.space.missed import Missed
from daskrf.screens.space.productpool import Pool
from daskrf.screens.space.productscores import ProductScores, Scored
from daskrf.spaces import cut, ranking, read_space
from daskrf.spaces.families import decoded
from tests.naive.spaces import Made, best_products, every_product
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, SPACES, write_space

REACTIONS = {
    **{name: SPACES[name] for name in ("amide", "boc", "imide")},
    "amide2": (AMIDE, [AMINES[3:], [*ACIDS[:4], "OC(=O)CCN"]]),
}
# Fingerprints that do not compose, kernels without random features of their own, bits, landmarks, counts of
# radius 1 that compose but in bits, and several targets.
MODELS: dict[str, dict[str, Any]] = {
    "Tanimoto": {"kernel": TanimotoMinMax()},
    "Gaussian": {"kernel": Gaussian(5.0)},
    "conjugate gradients": {"kernel": TanimotoMinMax(), "solver": "cg", "n_features": 512},
    "bits": {"feature_map": TanimotoMinMaxFeatures(256)},
    "landmarks": {"feature_map": LandmarkFeatures(40)},
    "Fourier": {"feature_map": RandomFourierFeatures(Gaussian(6.0), n_components=128)},
}


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space, and labels of two targets of some of its products."""
    out = tmp_path_factory.mktemp("any")
    write_space(out / "space", REACTIONS)
    read = cut(read_space(out / "space"), FingerprintSpec("morgan"))
    smiles = [one.smiles for one in every_product(read, lambda smiles: np.zeros(len(smiles)))][::9]
    random = np.random.default_rng(5)
    lines = [f"{s},{s.count('N') - 0.1 * len(s) + 0.2 * random.normal()},{len(s)}\n" for s in smiles]
    (out / "y.csv").write_text("smiles,score,length\n" + "".join(lines))
    (out / "lib.smi").write_text("".join(f"{s} m{i}\n" for i, s in enumerate(smiles)))
    fingerprint(out / "lib.smi", out / "fp")
    return out


@pytest.fixture(scope="module", params=MODELS)
def made(request: pytest.FixtureRequest, space: Path) -> Path:
    """A model of the space."""
    path = space / request.param.replace(" ", "-")
    options = {"direction": "maximize", "key": "smiles", "target": "score", **MODELS[request.param]}
    fit(space / "fp", space / "y.csv", path, **options)
    return path


@pytest.fixture(scope="module")
def model(space: Path) -> Path:
    """A quick model, which no test changes."""
    fit(space / "fp", space / "y.csv", space / "quick", key="smiles", target="score", quick=True)
    return space / "quick"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the small space into pieces, and learn from few products."""
    monkeypatch.setattr(cutspaces, "COMPARED", 2)
    monkeypatch.setattr(productranking, "SAMPLE", 300)
    monkeypatch.setattr(productranking, "LISTED", 0)
    monkeypatch.setattr(productranking, "BELOW", 50)
    monkeypatch.setattr(ranking, "PIECE_FLOP", 1.0)
    monkeypatch.setattr(ranking, "LEAST_ROWS", 60)
    monkeypatch.setattr(spaceranking, "_TRIALS", 3)


def every(model: Path, score: Any) -> list[Made]:
    """Return all products of the space, with their scores."""
    read = cut(read_space(model.parent / "space"), FingerprintSpec("morgan"))
    return every_product(read, score)


def means(model: Path) -> Any:
    """Return the function from SMILES to means, of distinct molecules."""

    def of(smiles: Any) -> npt.NDArray[np.float64]:
        first = list(dict.fromkeys(smiles))
        known = dict(zip(first, predicted(model, first)["mean"].tolist(), strict=True))
        return np.array([known[text] for text in smiles])

    return of


@functools.cache
def by_means(model: Path) -> list[Made]:
    """Return all products of the space, with the means of the model."""
    return every(model, means(model))


def predicted(model: Path, smiles: Sequence[str]) -> dict[str, npt.NDArray[np.float64]]:
    """Return what the model predicts of molecules."""
    predictor = load(model)
    mean, std = predictor.predict(smiles, return_std=True, of="f")
    return {"mean": mean, "std": std, "std_y": predictor.predict(smiles, return_std=True)[1]}


def test_a_long_shortlist_finds_what_a_list_would_give(made: Path, tmp_path: Path) -> None:
    report = screen(made, made.parent / "space", tmp_path / "all.parquet", k=40)
    assert "the model has ranked every product" in report.notes
    found, expected = report.table.to_pydict(), best_products(by_means(made), 40)
    scores = np.array([one.score for one in expected])
    np.testing.assert_allclose(found["acquisition"], scores, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["mean"], scores, rtol=1e-5, atol=1e-5)
    last = scores[-1] + 1e-4
    assert {one.smiles for one in expected if one.score > last} <= set(found["smiles"])
    values = predicted(made, found["smiles"])
    np.testing.assert_allclose(found["std"], values["std"], rtol=1e-4)
    np.testing.assert_allclose(found["std_y"], values["std_y"], rtol=1e-4)


@pytest.mark.parametrize("options", [{"exclude_labelled": True}, {"per_block": 1}])
def test_a_space_that_can_be_listed_has_no_shortlist(
    space: Path, model: Path, tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it has more products than a shortlist; the best are looked at until there are enough."""
    options = options | {"k": 6, "maximize": True}
    whole = screen(model, space / "space", tmp_path / "whole.parquet", shortlist=99_999, **options)
    monkeypatch.setattr(productranking, "LISTED", 10**6)
    monkeypatch.setattr(productranking, "LEAST_SHORTLIST", 40)
    monkeypatch.setattr(productranking, "_ROUGHLY", 1)
    report = screen(model, space / "space", tmp_path / "listed.parquet", **options)
    assert "the model has ranked every product" in report.notes
    assert report.table.equals(whole.table)
    monkeypatch.setattr(productranking, "_LIST_SECONDS", 1e-3)
    report = screen(model, space / "space", tmp_path / "ranked.parquet", **options)
    assert "the model has ranked every product" not in report.notes


@pytest.mark.parametrize("listed", [True, False])
def test_bounds_of_deviations_leave_the_hits_as_they_are(
    space: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    """Of all products and of a shortlist: most need no standard deviation."""
    monkeypatch.setattr(productranking, "LISTED", 10**6 if listed else 0)
    monkeypatch.setattr(productranking, "LEAST_SHORTLIST", 40)
    monkeypatch.setattr(productranking, "_ROUGHLY", 1)
    monkeypatch.setattr(productranking, "SAMPLE", 50)
    options: dict[str, Any] = {"k": 6, "maximize": True, "acquisition": "ucb", "per_block": 2}
    plain = screen(model, space / "space", tmp_path / "plain.parquet", **options)
    monkeypatch.setattr(stdbounds, "LEAST_LABELS", 2)
    monkeypatch.setattr(stdbounds, "N_LABELS", 15)
    add, n = ProductScores.add, Counter[int | None]()

    def counted(self: ProductScores, total: Any, block: Any) -> None:
        n[self.n_labels] += len(block)
        add(self, total, block)

    monkeypatch.setattr(ProductScores, "add", counted)
    report = screen(model, space / "space", tmp_path / "bounded.parquet", **options)
    assert 0 < n[None] < n[0]
    assert 0 < n[15] <= n[0]
    assert report.table["smiles"].equals(plain.table["smiles"])
    for name in ("acquisition", "mean", "std", "std_y"):
        np.testing.assert_allclose(report.table[name].to_numpy(), plain.table[name].to_numpy(), rtol=1e-9)


def test_the_rough_ranking_finds_the_best(made: Path, tmp_path: Path) -> None:
    report = screen(made, made.parent / "space", tmp_path / "h.parquet", k=20, shortlist=400)
    assert any("trained on the model's scores of 225 random products" in note for note in report.notes)
    assert any("the model has ranked the best 400 of the surrogate" in note for note in report.notes)
    best = {one.smiles for one in best_products(by_means(made), 20)}
    found = report.table["smiles"].to_pylist()
    assert len(found) == len(set(found)) == 20
    assert len(best & set(found)) >= 16  # of 20, and a random shortlist would hold 5


@pytest.mark.parametrize("rule", ["ucb", "ei", "thompson"])
def test_every_rule_ranks(
    space: Path, model: Path, tmp_path: Path, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(productranking, "SAMPLE", 800)  # few tell little of the long tail of improvements
    options: dict[str, Any] = {"acquisition": rule, "k": 15, "maximize": True}
    report = screen(model, space / "space", tmp_path / "h.parquet", shortlist=300, **options)
    found = report.table.to_pydict()
    assert found["acquisition"] == sorted(found["acquisition"], reverse=True)
    values = predicted(model, found["smiles"])
    np.testing.assert_allclose(found["mean"], values["mean"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["std"], values["std"], rtol=1e-4)
    every_one = screen(model, space / "space", tmp_path / "all.parquet", shortlist=99_999, **options)
    both = set(every_one.table["smiles"].to_pylist()) & set(found["smiles"])
    assert len(both) >= 10  # of 15; a random shortlist would hold 5
    if rule == "thompson":
        rows = Fingerprinter()(found["smiles"]).fingerprints
        drawn = np.asarray(read_model(model).gp.draw(0).predict(rows)).ravel()
        np.testing.assert_allclose(found["acquisition"], drawn, rtol=1e-4, atol=1e-4)
    else:
        best = float(read_model(model).metadata["range"][0][1])
        score = acquisition_for(rule, maximize=True).with_best(best)(values["mean"], values["std"])
        np.testing.assert_allclose(found["acquisition"], score, rtol=1e-3, atol=1e-3)


def test_shards_and_a_resumed_run_give_the_same_hits(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"k": 10, "shortlist": 300}
    source = made.parent / "space"
    whole = screen(made, source, tmp_path / "whole.parquet", **options).table
    if made.name == "Tanimoto":
        for shard in ("0/2", "1/2"):
            run_shard(screen, shard, made, source, tmp_path / "shards.parquet", **options)
        assert screen(made, source, tmp_path / "shards.parquet", **options).table.equals(whole)
    add, left = ProductScores.add, [3]

    def interrupted(self: ProductScores, total: Any, block: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        add(self, total, block)

    with monkeypatch.context() as patch:
        patch.setattr(ProductScores, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            screen(made, source, tmp_path / "again.parquet", **options)
    left[0] = 999
    with monkeypatch.context() as patch:
        patch.setattr(spaceranking, "_learn", None)  # what was learned stays
        patch.setattr(ProductScores, "add", interrupted)
        assert screen(made, source, tmp_path / "again.parquet", **options).table.equals(whole)
    again = screen(made, source, tmp_path / "again.parquet", **options)
    assert any("already holds exactly these hits" in note for note in again.notes)
    with pytest.raises(StoreError, match=r"--shortlist \(was 300, now 301\)"):
        screen(made, source, tmp_path / "again.parquet", k=10, shortlist=301)


def test_a_linear_ranking_finds_the_best(
    space: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"k": 20, "shortlist": 400, "maximize": True}
    report = screen(model, space / "space", tmp_path / "h.parquet", rough="linear", **options)
    assert any("(a linear function of morgan:2 counts)" in note for note in report.notes)
    best = {one.smiles for one in best_products(by_means(model), 20)}
    assert len(best & set(report.table["smiles"].to_pylist())) >= 15
    monkeypatch.setattr(productranking, "_MOST_FOURIER", 10)  # more products are ranked so
    again = screen(model, space / "space", tmp_path / "again.parquet", **options)
    assert again.table.equals(report.table)
    for shard in ("0/2", "1/2"):
        run_shard(screen, shard, model, space / "space", tmp_path / "shards.parquet", **options)
    assert screen(model, space / "space", tmp_path / "shards.parquet", **options).table.equals(report.table)
    limits = {"heavy_atoms": (9, 12)}
    within = screen(model, space / "space", tmp_path / "w.parquet", rough="linear", within=limits, **options)
    assert set(within.table["heavy_atoms"].to_pylist()) <= {9, 10, 11, 12}
    with pytest.raises(OptionError, match="has no Fourier features"):
        screen(model, space / "space", tmp_path / "h.parquet", rough="linear", rough_components=8, **options)


def test_the_best_of_a_linear_ranking_are_ranked_again(
    space: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"k": 10, "shortlist": 100, "maximize": True, "rough": "linear"}
    monkeypatch.setattr(productranking, "_MOST_SIEVED", 300)
    monkeypatch.setattr(Pool, "search_neighbours", lambda *_: 0)  # ranks on its own
    ranked: list[int] = []
    missed = Missed.of

    def stopped(*arguments: Any, **settings: Any) -> Missed:
        raise KeyboardInterrupt

    monkeypatch.setattr(Missed, "of", stopped)
    with pytest.raises(KeyboardInterrupt):
        screen(model, space / "space", tmp_path / "h.parquet", **options)
    monkeypatch.setattr(Missed, "of", missed)
    monkeypatch.setattr(spaceranking.Ranking, "values", lambda *_: ranked.append(1))  # what was ranked stays
    report = screen(model, space / "space", tmp_path / "h.parquet", **options)
    assert not ranked
    notes = " ".join(report.notes)
    assert (
        "the best of these are pre-ranked by a surrogate (1,024 Fourier features of morgan:2 counts" in notes
    )
    assert "the linear function kept its best 300 of all products" in notes
    assert "the model has ranked the best 100 of the surrogate" in notes


def test_better_products_are_found_near_the_best(
    space: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = {one.smiles for one in best_products(by_means(model), 20)}
    monkeypatch.setattr(spaceranking.Ranking, "values", lambda self, counts: np.zeros(counts.shape[0]))
    monkeypatch.setattr(productranking, "_RECALL", 0.0)
    options: dict[str, Any] = {"k": 20, "shortlist": 30, "maximize": True, "rough": "linear"}

    def found(name: str) -> tuple[int, str]:
        report = screen(model, space / "space", tmp_path / name, **options)
        (note,) = [note for note in report.notes if "differ in one block" in note]
        return len(best & set(report.table["smiles"].to_pylist())), note

    with_neighbours, note = found("climbed.parquet")
    monkeypatch.setattr(Pool, "search_neighbours", lambda *_: 0)
    without, none = found("not.parquet")
    assert without < 5
    assert with_neighbours >= 16  # by a ranking that says nothing
    assert note.endswith("of the hits are from these")
    assert none.endswith("0 of the hits are from these")


def test_a_pool_scores_each_product_once(space: Path) -> None:
    asked: list[int] = []

    def predicted(numbers: npt.NDArray[np.int64]) -> Scored:
        asked.extend(numbers.tolist())
        score = -np.abs(numbers - 50.0)
        return Scored([f"m{n // 2}" for n in numbers.tolist()], {"score": score, "key": numbers})

    read = cut(read_space(space / "space"), FingerprintSpec("morgan"))
    pool = Pool(read, [predicted], excluded=KnownStructures(["m25"]))
    assert pool.add(np.array([3, 1, 2])) == 3
    assert pool.add(np.array([2, 3, 9, 8])) == 2
    assert asked == [3, 1, 2, 9, 8] == pool.row.tolist()
    assert pool.hits().row.tolist() == [9, 3, 1]  # one of each molecule
    assert pool.last_score(2) == -47.0
    assert pool.last_score(4) == -np.inf
    pool.add(np.array([50]))
    assert pool.last_score(1) == -41.0  # the best molecule is no hit
    capped = Pool(read, [predicted], per_block=1)
    capped.add(pool.row)
    blocks = [block for p in decoded(read, capped.hits().row.tolist()) for block in set(p.blocks)]
    assert len(blocks) == len(set(blocks)) > 0
    assert capped.last_score(len(capped.hits())) == capped.hits().columns["score"].min()


def test_the_estimate_is_of_the_hits_that_a_cap_leaves(space: Path, model: Path, tmp_path: Path) -> None:
    """Random products below the shortlist are compared with the last hit, not with the last of the best k."""
    bars = []
    of = Missed.of

    def seen(k: int, size: int, bar: float, *rest: Any, **settings: Any) -> Missed:
        bars.append(bar)
        return of(k, size, bar, *rest, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Missed, "of", seen)
        report = screen(
            *(model, space / "space", tmp_path / "h.parquet"), k=8, shortlist=300, maximize=True, per_block=2
        )
    assert bars == [pytest.approx(report.table["acquisition"].to_pylist()[-1])]


def test_hits_name_the_nearest_labelled_molecule(space: Path, model: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"k": 30, "maximize": True, "within": {"rings": (0, 5)}, "per_block": 9}
    found = screen(model, space / "space", tmp_path / "h.parquet", **options).table.to_pydict()
    labels = dict(line.split(",")[:2] for line in (space / "y.csv").read_text().splitlines()[1:])
    bits = {s: set(Fingerprinter(FingerprintSpec("morgan:2"))([s]).fingerprints.indices) for s in labels}
    for i, smiles in enumerate(found["smiles"]):
        own = set(Fingerprinter(FingerprintSpec("morgan:2"))([smiles]).fingerprints.indices)
        similarity = {s: len(own & other) / max(1, len(own | other)) for s, other in bits.items()}
        assert found["similarity_to_labelled"][i] == pytest.approx(max(similarity.values()), abs=1e-4)
        near = found["nearest_labelled"][i]
        assert similarity[near] == max(similarity.values())
        assert found["its_label"][i] == pytest.approx(float(labels[near]))
    report = screen(model, space / "space", tmp_path / "h.html", **options)
    assert any(note.startswith("similarity of the hits to the nearest") for note in report.notes)
    page = (tmp_path / "h.html").read_text()
    assert "--within rings=0:5 --per-block 9" in page


@pytest.mark.parametrize("kind", ["Tanimoto", "Fourier of radius 1"])
def test_labelled_molecules_are_left_out(space: Path, tmp_path: Path, kind: str) -> None:
    model = space / f"excluded-{kind[:3]}"
    options: dict[str, Any] = {"quick": True}
    if kind != "Tanimoto":
        options = {"spec": FingerprintSpec("morgan"), "feature_map": MODELS["Fourier"]["feature_map"]}
    fit(space / "y.csv", output=model, target="score", direction="maximize", **options)
    labelled = {line.split(",")[0] for line in (space / "y.csv").read_text().splitlines()[1:]}
    expected = [one for one in best_products(by_means(model), 9999) if one.smiles not in labelled]
    report = screen(model, space / "space", tmp_path / "h.csv", k=50, exclude_labelled=True)
    assert set(report.table["smiles"].to_pylist()).isdisjoint(labelled)
    scores = [one.score for one in expected[:50]]
    np.testing.assert_allclose(report.table["acquisition"].to_numpy(), scores, rtol=1e-5, atol=1e-5)
    assert any("left out: " in note and "labelled molecules" in note for note in report.notes)
    with pytest.raises(StoreError, match="exclude-labelled"):
        screen(model, space / "space", tmp_path / "h.csv", k=50)


def passes(text: str) -> bool:
    """Whether RDKit finds a molecule to pass the filters below."""
    molecule = Chem.MolFromSmiles(text)
    pattern = Chem.MolFromSmarts("[N;$(NC=O)]")
    return bool(
        Crippen.MolLogP(molecule) < 0
        and molecule.HasSubstructMatch(pattern)
        and not catalog_of("brenk").HasMatch(molecule)
    )


@pytest.mark.parametrize("how", [{}, {"shortlist": 1000}, {"shortlist": 1000, "rough": "linear"}])
def test_all_filters_hold_in_every_ranking(
    how: dict[str, Any], space: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Synthons decide most alerts; the best products are tested for the others, until there are enough."""
    monkeypatch.setattr(productranking, "LISTED", 0 if how else 10**6)
    filters: dict[str, Any] = {"where": "logp < 0", "smarts": "[N;$(NC=O)]", "alerts": "brenk"}
    report = screen(model, space / "space", tmp_path / "h.parquet", k=30, maximize=True, **filters, **how)
    expected = best_products([one for one in by_means(model) if passes(one.smiles)], 30)
    assert report.table["smiles"].to_pylist() == [one.smiles for one in expected]
    assert re.search(r"[\d,]+ of [\d,]+ products have no alerts of brenk", str(report))
    assert "5 of the 105 alerts of brenk look further than an atom and its bonds" in str(report)
    assert re.search(r"left out by tests of single products.*: .*[\d,]+ \(not logp < 0\)", str(report))


def test_filters_that_leave_too_few_say_so(space: Path, model: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"k": 30, "maximize": True, "shortlist": 100, "where": "weight > 290"}
    report = screen(model, space / "space", tmp_path / "h.parquet", **options)
    assert report.table.num_rows < 30
    assert f"only {report.table.num_rows} molecules of the best products pass all filters" in str(report)
    assert all(Descriptors.MolWt(Chem.MolFromSmiles(s)) > 290 for s in report.table["smiles"].to_pylist())


def test_limits_and_caps_hold(space: Path, model: Path, tmp_path: Path) -> None:
    for shortlist in (200, 99_999):
        report = screen(
            *(model, space / "space", tmp_path / f"{shortlist}.parquet"),
            k=15,
            maximize=False,
            shortlist=shortlist,
            within={"heavy_atoms": (9, 14)},
            per_block=3,
        )
        found = report.table.to_pydict()
        assert all(9 <= n <= 14 for n in found["heavy_atoms"])
        slots = zip(*(found[f"block_{s}"] for s in range(3)), strict=True)
        blocks = Counter(block for own in slots for block in set(filter(None, own)))
        assert max(blocks.values()) == 3
        assert found["acquisition"] == sorted(found["acquisition"], reverse=True)


def test_the_estimate_of_what_is_missed() -> None:
    scores = np.arange(100.0)
    missed = Missed.of(50, 1000, 89.0, iter([(1000, 2000, scores), (2000, 4000, scores - 50)]))
    assert missed.looked == ((1001, 2000, 100, 10), (2001, 4000, 100, 0))
    assert missed.recall == pytest.approx(50 / 150)
    assert "10 of 100 at places 1,001 to 2,000, none of 100 at places 2,001 to 4,000" in str(missed)
    words = r"33% \(95 % interval \d+% - \d+%\) of the best 50; beyond place 4,000 nothing is known$"
    assert re.search(words, str(missed))
    all_looked_at = Missed.of(50, 1000, 89.0, iter([(1000, 2000, scores)]), whole=True)
    assert str(all_looked_at).endswith("of the best 50")


def test_the_shortlist_grows_until_it_holds_enough(
    space: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(productranking, "LEAST_SHORTLIST", 40)
    monkeypatch.setattr(productranking, "_ROUGHLY", 1)
    monkeypatch.setattr(Pool, "search_neighbours", lambda *_: 0)  # finds them sooner
    report = screen(model, space / "space", tmp_path / "h.parquet", k=40, maximize=True)
    (note,) = [note for note in report.notes if note.startswith("the model has ranked")]
    assert "best 40 of the surrogate" not in note
    best = {one.smiles for one in best_products(by_means(model), 40)}
    assert len(best & set(report.table["smiles"].to_pylist())) >= 32


def test_scores_that_do_not_differ_rank_alike() -> None:
    counts = Fingerprinter(FingerprintSpec("morgan"))(["CCO", "CCN", "CCC"]).fingerprints
    found = spaceranking._learn(counts, np.zeros(3), 8)
    assert "do not differ" in found.words
    assert found.ranking.values(counts).tolist() == [0.0, 0.0, 0.0]
    low = spaceranking._clipped(np.array([-np.inf, -900.0, *np.linspace(0, 1, 98)]))
    assert low.min() > -3


def test_equal_fingerprints_get_equal_numbers() -> None:
    columns = {"key": np.array([5, 7, 5]), "score": np.array([1.0, 2.0, 1.0 + 1e-9])}
    assert Scored(["a", "b", "c"], columns).alike().columns["score"].tolist() == [1.0, 2.0, 1.0]


def test_a_shortlist_is_longer_than_the_hits(space: Path, model: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot hold the 1,000 to be found"):
        screen(model, space / "space", tmp_path / "h.parquet", maximize=True, shortlist=100)


def test_a_weighted_sum_of_targets_ranks(space: Path, tmp_path: Path) -> None:
    """With a long shortlist, the best are those that the sum of predictions says."""
    both: dict[str, Any] = {"target": ["score", "length"], "key": "smiles", "kernel": TanimotoMinMax()}
    fit(space / "fp", space / "y.csv", space / "sum", direction="maximize", **both)
    report = screen(
        *(space / "sum", space / "space", tmp_path / "h.parquet"),
        k=15,
        shortlist=99_999,
        target="score - 0.2 length",
        maximize=True,
    )

    def summed(smiles: Any) -> npt.NDArray[np.float64]:
        found = load(space / "sum").predict(list(smiles))
        return np.asarray(found[:, 0] - 0.2 * found[:, 1])

    best = best_products(every(space / "sum", summed), 15)
    np.testing.assert_allclose(report.table["mean"].to_numpy(), [one.score for one in best], rtol=1e-4)
    assert report.target == "score - 0.2 length"
    assert "is in the units of the labels" in str(report)
