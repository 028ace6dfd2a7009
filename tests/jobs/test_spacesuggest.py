"""Batches from spaces: what a list of all products would give, and what is refused."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import Crippen, Descriptors, rdFingerprintGenerator

from daskrf import FingerprintSpec, Gaussian, RandomFourierFeatures, add, fingerprint, fit, load, suggest
from daskrf.cli.app import run
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.jobs.shards import prepare_shards, run_shard
from daskrf.models.models import feature_map_of, read_model
from daskrf.molecules import Fingerprinter
from daskrf.screens import aim
from daskrf.screens.batch import SuggestJob
from daskrf.screens.space import bestproducts, cutspaces, productranking
from daskrf.screens.space import surrogate as spaceranking
from daskrf.screens.space.productranking import ProductRanking
from daskrf.screens.space.search import SpaceSearch
from daskrf.spaces import cut, ranking, read_space
from tests.naive import suggest as naive
from tests.naive.spaces import Made, every_product
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, SPACES, write_space

# Two reactions alike, which make molecules in two ways; two and three slots; blocks in several slots.
REACTIONS = {
    **{name: SPACES[name] for name in ("amide", "boc", "imide")},
    "amide2": (AMIDE, [AMINES[3:], [*ACIDS[:4], "OC(=O)CCN"]]),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space; labels of some products; an exact model, and one that ranks all products itself."""
    out = tmp_path_factory.mktemp("suggest")
    write_space(out / "space", REACTIONS)
    smiles = sorted({one.smiles for one in products(out, lambda smiles: np.zeros(len(smiles)))})[::9]
    random = np.random.default_rng(5)
    score = [s.count("N") - 0.1 * len(s) + 0.2 * random.normal() for s in smiles]
    labels = pd.DataFrame({"smiles": smiles, "score": score, "length": [float(len(s)) for s in smiles]})
    labels[["smiles", "score"]].to_csv(out / "y.csv", index=False)
    labels.to_csv(out / "two.csv", index=False)
    fit(out / "y.csv", output=out / "exact", direction="maximize", quick=True)
    (out / "lib.smi").write_text("".join(f"{s} m{i}\n" for i, s in enumerate(smiles)))
    fingerprint(out / "lib.smi", out / "fp", spec=FingerprintSpec("morgan:1"))
    options: dict[str, Any] = {"direction": "maximize", "key": "smiles"}
    feature_map = RandomFourierFeatures(Gaussian(5.0), n_components=128)
    fit(out / "fp", out / "y.csv", out / "fourier", feature_map=feature_map, **options)
    return out


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare and learn from few products, so that a small space is screened as a large one is."""
    monkeypatch.setattr(cutspaces, "COMPARED", 2)
    monkeypatch.setattr(productranking, "SAMPLE", 300)
    monkeypatch.setattr(productranking, "LISTED", 0)
    monkeypatch.setattr(productranking, "BELOW", 50)
    monkeypatch.setattr(spaceranking, "_TRIALS", 3)


def products(folder: Path, score: Any) -> list[Made]:
    return every_product(cut(read_space(folder / "space"), FingerprintSpec("morgan")), score)


@functools.cache
def distinct(folder: Path, model: str, kappa: float = 0.0) -> tuple[list[Made], npt.NDArray[np.float64]]:
    """Return the different molecules of the space, each as its first product, and mean + kappa std."""
    first: dict[str, Made] = {}
    for one in products(folder, lambda smiles: np.zeros(len(smiles))):
        first.setdefault(one.smiles, one)
    mean, std = load(folder / model).predict(list(first), return_std=True, of="f")
    return list(first.values()), mean + kappa * std


@functools.cache
def labelled(folder: Path) -> list[str]:
    return pd.read_csv(folder / "y.csv")["smiles"].tolist()


SIMILAR: dict[str, Any] = {"similar_to": "CCNC(=O)C1CC1", "least_similarity": 0.3}


def similar(text: str) -> bool:
    counts = rdFingerprintGenerator.GetMorganGenerator(radius=2).GetSparseCountFingerprint
    to, of = (counts(Chem.MolFromSmiles(each)) for each in ("CCNC(=O)C1CC1", text))
    return float(DataStructs.TanimotoSimilarity(to, of)) >= 0.3


def light(text: str) -> bool:
    molecule = Chem.MolFromSmiles(text)
    return bool(Descriptors.MolWt(molecule) < 190 and Crippen.MolLogP(molecule) > -1)


CASES: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "plain": ({}, lambda text: True, {}),
    "different": (
        {"max_similarity": 0.5, "per_scaffold": 2},
        lambda text: True,
        {"max_similarity": 0.5, "per_scaffold": 2},
    ),
    "filters": ({"where": "weight < 190 and logp > -1", "smarts": "C=O"}, light, {}),
    "similar": (SIMILAR, similar, {}),
}


@pytest.mark.parametrize(("model", "kappa"), [("exact", 0.0), ("exact", 0.5), ("fourier", 0.0)])
@pytest.mark.parametrize("name", CASES)
def test_the_batch_is_that_of_a_list(name: str, model: str, kappa: float, made: Path, tmp_path: Path) -> None:
    options, passes, different = CASES[name]
    rule: dict[str, Any] = {"acquisition": "ucb", "kappa": kappa} if kappa else {"acquisition": "greedy"}
    every, score = distinct(made, model, kappa)
    report = suggest(made / model, made / "space", tmp_path / "batch.csv", n=25, **rule, **options)
    smiles, known = [one.smiles for one in every], labelled(made)
    picks = naive.batch(smiles, score.tolist(), 25, passes, known, **different)
    found = pd.read_csv(tmp_path / "batch.csv")
    # Means are computed again for the candidates, so that equal ones may come in another order.
    np.testing.assert_allclose(found.acquisition, score[picks], rtol=1e-5, atol=1e-6)
    assert len({score[i] for i in picks}) == 25
    assert found.smiles.tolist() == [smiles[i] for i in picks]
    assert found.row.tolist() == [every[i].number for i in picks]
    assert found.reaction.tolist() == [every[i].reaction for i in picks]
    blocks = zip(found.block_0, found.block_1, found.block_2, strict=True)
    expected = [every[i].blocks for i in picks]
    assert [tuple(b for b in own if isinstance(b, str)) for own in blocks] == expected
    weights = [Descriptors.MolWt(Chem.MolFromSmiles(text)) for text in found.smiles]
    np.testing.assert_allclose(found.weight, weights, atol=2e-3)
    near = [max(naive.similarity(text, other) for other in known) for text in found.smiles[:3]]
    np.testing.assert_allclose(found.similarity_to_labelled[:3], near, atol=1e-4)
    assert report.table["smiles"].to_pylist() == found.smiles.tolist()
    assert report.rows >= sum(map(passes, smiles))  # of a space, those that synthons rule out do not count
    assert not {"source", "line"} & set(found.columns)


@pytest.mark.parametrize("model", ["exact", "fourier"])
@pytest.mark.parametrize("rule", ["greedy", "thompson"])
def test_rare_patterns_are_found_in_one_search(
    model: str, rule: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hardly any of the best products contains them, so that filters alone would have to look deeper."""
    monkeypatch.setattr(productranking, "LEAST_SHORTLIST", 60)
    asked, best = [], ProductRanking.best

    def counted(self: ProductRanking, run: Any) -> Any:
        asked.append(self.k)
        return best(self, run)

    monkeypatch.setattr(ProductRanking, "best", counted)
    options: dict[str, Any] = {"smarts": ["NCCNC=O", "[N;$(NC=O)]"], "without_smarts": "c"}
    report = suggest(made / model, made / "space", tmp_path / "b.csv", n=4, acquisition=rule, **options)
    assert len(asked) == 1
    assert any("products contain NCCNC=O and do not contain" in note for note in report.notes)
    names = report.table["smiles"].to_pylist()
    assert len(names) == 4
    for text in names:
        molecule = Chem.MolFromSmiles(text)
        assert all(molecule.HasSubstructMatch(Chem.MolFromSmarts(each)) for each in options["smarts"])
    if rule == "greedy":
        every, score = distinct(made, model)
        smiles = [one.smiles for one in every]

        def passes(text: str) -> bool:
            found = [
                Chem.MolFromSmiles(text).HasSubstructMatch(Chem.MolFromSmarts(pattern))
                for pattern in (*options["smarts"], options["without_smarts"])
            ]
            return all(found[:2]) and not found[2]

        picks = naive.batch(smiles, score.tolist(), 4, passes, labelled(made))
        assert names == [smiles[i] for i in picks]


@pytest.mark.parametrize("model", ["exact", "fourier"])
def test_a_block_is_in_few_picks(model: str, made: Path, tmp_path: Path) -> None:
    """In whatever slot it stands, and by slot."""
    every, score = distinct(made, model)
    order, seen, expected = np.argsort(-score, kind="stable"), dict[str, int](), list[str]()
    for one in (every[i] for i in order if every[i].smiles not in labelled(made)):
        if len(expected) < 14 and all(seen.get(block, 0) < 2 for block in one.blocks):
            seen.update({block: seen.get(block, 0) + 1 for block in set(one.blocks)})
            expected.append(one.smiles)
    options: dict[str, Any] = {"n": 14, "acquisition": "greedy", "overwrite": True}
    report = suggest(made / model, made / "space", tmp_path / "b.csv", per_block=2, **options)
    assert report.table["smiles"].to_pylist() == expected
    assert report.left_out["with a value of a column that has enough picks"] > 0
    report = suggest(made / model, made / "space", tmp_path / "b.csv", per_value={"block_0": 1}, **options)
    names = [one.smiles for one in every]
    caps = [([one.blocks[0] for one in every], 1)]
    picks = naive.batch(names, score.tolist(), 14, excluded=labelled(made), caps=caps)
    assert report.table["smiles"].to_pylist() == [names[i] for i in picks]


def test_limits_and_files_to_leave_out(made: Path, tmp_path: Path) -> None:
    every, score = distinct(made, "fourier")
    smiles = [one.smiles for one in every]
    unwanted = [Chem.MolToSmiles(Chem.MolFromSmiles(text), doRandom=True) for text in smiles[::3]]
    (tmp_path / "vendor.smi").write_text("\n".join(unwanted) + "\n")
    report = suggest(
        *(made / "fourier", made / "space", tmp_path / "b.csv"),
        n=20,
        acquisition="greedy",
        within={"heavy_atoms": (9, 12)},
        exclude=[tmp_path / "vendor.smi"],
    )
    sizes = [Chem.MolFromSmiles(text).GetNumHeavyAtoms() for text in smiles]
    passing = {text for text, size in zip(smiles, sizes, strict=True) if 9 <= size <= 12}
    excluded = [*labelled(made), *unwanted]
    picks = naive.batch(smiles, score.tolist(), 20, passing.__contains__, excluded)
    assert report.table["smiles"].to_pylist() == [smiles[i] for i in picks]
    assert report.left_out["a labelled molecule, or of a file to leave out"] > 0


def test_a_file_of_other_rows_to_leave_out_is_refused_and_goes_on_as_advised(
    made: Path, tmp_path: Path
) -> None:
    (tmp_path / "ids.txt").write_text("Z123\nZ456\nCCO\n")
    given = made / "fourier", made / "space", tmp_path / "b.csv"
    options: dict[str, Any] = {"n": 3, "acquisition": "greedy", "exclude": tmp_path / "ids.txt"}
    with pytest.raises(InputError, match=r"ids\.txt.*accept_rejects"):
        suggest(*given, **options)
    report = suggest(*given, **options, accept_rejects=True)
    assert "1 molecule of ids.txt to leave out by tautomer" in str(report)
    assert "not left out: 2 rows could not be read as molecules" in str(report)
    with pytest.raises(OptionError, match="accept"):  # without a file, it says nothing of a space
        suggest(made / "fourier", made / "space", tmp_path / "c.csv", n=3, accept_rejects=True)


@pytest.mark.parametrize("model", ["exact", "fourier"])
def test_looks_deeper_until_there_are_enough(
    model: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, best = [], ProductRanking.best

    def told(self: ProductRanking, run: Any) -> Any:
        asked.append(self.k)
        return best(self, run)

    monkeypatch.setattr(ProductRanking, "best", told)
    options: dict[str, Any] = {"n": 20, "acquisition": "greedy", "where": "weight < 110"}
    report = suggest(made / model, made / "space", tmp_path / "b.csv", **options)
    every, score = distinct(made, model)
    names = [one.smiles for one in every]

    def passes(text: str) -> bool:
        return bool(Descriptors.MolWt(Chem.MolFromSmiles(text)) < 110)

    picks = naive.batch(names, score.tolist(), 20, passes, labelled(made))
    assert report.table["smiles"].to_pylist() == [names[i] for i in picks]
    assert asked == [33 * 4**i for i in range(len(asked))]
    assert len(asked) > 1


def test_a_shortlist_is_ranked_by_an_exact_model(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a space that is too large for the model: the picks are the best of the shortlist."""
    monkeypatch.setattr(productranking, "LEAST_SHORTLIST", 150)
    report = suggest(made / "exact", made / "space", tmp_path / "b.csv", n=5)
    assert "trained on the model's scores of" in str(report)
    assert "of the surrogate, and random ones" in str(report)
    assert "chosen from the best 14 products by ucb (kappa 1)" in str(report)
    every, score = distinct(made, "exact", 1.0)
    of = {one.smiles: value for one, value in zip(every, score.tolist(), strict=True)}
    found = report.table.to_pandas()
    np.testing.assert_allclose(found.acquisition, [of[text] for text in found.smiles], rtol=1e-5)
    free = sorted((v for text, v in of.items() if text not in labelled(made)), reverse=True)
    assert found.acquisition.iloc[-1] >= free[30]  # a surrogate of so few is good, not perfect


def test_each_pick_is_the_best_of_a_draw(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"n": 8, "acquisition": "thompson", "seed": 4, "overwrite": True}
    report = suggest(made / "exact", made / "space", tmp_path / "b.csv", **options)
    assert "each posterior sample was maximized over all products" in report.notes
    gp = read_model(made / "exact").gp
    every, _ = distinct(made, "exact")
    known = set(labelled(made))
    names = [one.smiles for one in every if one.smiles not in known]
    spec = FingerprintSpec.from_state(read_model(made / "exact").metadata["fingerprint"])
    drawn = gp.drawn(gp.weights_of_draws(8, 4), 4).predict(Fingerprinter(spec)(names).fingerprints)  # type: ignore[union-attr]
    taken: list[int] = []
    for draw in range(8):
        order = np.argsort(-drawn[:, draw])
        taken.append(next(i for i in order.tolist() if i not in taken))
    assert report.table["smiles"].to_pylist() == [names[i] for i in taken]
    monkeypatch.setattr(bestproducts, "_LEAST_SAMPLED", 10)
    report = suggest(made / "exact", made / "space", tmp_path / "b.csv", **options)
    words = (
        "each posterior sample was maximized over the best 80 products by ucb (kappa 2), not over the whole "
        "space"
    )
    assert words in report.notes


@pytest.mark.parametrize(
    ("n", "kept", "filters"), [(1, 2, {}), (9, 2, {}), (1, 8, {}), (9, 8, {}), (9, 2, SIMILAR)]
)
def test_each_draw_of_a_model_that_ranks_itself_is_maximized_over_the_whole_space(
    n: int, kept: int, filters: dict[str, Any], made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aim, "_PER_SAMPLE", kept)
    monkeypatch.setattr(productranking, "MORE", 1)
    monkeypatch.setattr(ranking, "PIECE_FLOP", 1.0)
    monkeypatch.setattr(ranking, "LEAST_ROWS", 9)
    rule: dict[str, Any] = {"acquisition": "thompson", "seed": 4}
    report = suggest(made / "fourier", made / "space", tmp_path / "b.csv", n=n, **rule, **filters)
    assert any(note.startswith("each posterior sample was maximized over all") for note in report.notes)
    model, names = read_model(made / "fourier", statistics=True), set(labelled(made))
    free = [one.smiles for one in distinct(made, "fourier")[0] if one.smiles not in names]
    free = [text for text in free if not filters or similar(text)]
    spec = FingerprintSpec.from_state(model.metadata["fingerprint"])
    rows = feature_map_of(model).transform(Fingerprinter(spec)(free).fingerprints)
    gp = model.gp
    value = gp.drawn(gp.weights_of_draws(n, 4), 4).predict(rows).reshape(len(free), n)  # type: ignore[union-attr]
    picks = [free.index(text) for text in report.table["smiles"].to_pylist()]
    assert len(set(picks)) == n
    for draw, pick in enumerate(picks):
        there = np.delete(value[:, draw], picks[:draw])
        assert value[pick, draw] == pytest.approx(there.max(), abs=1e-5)  # equal ones in any order
    assert len(set(value.argmax(axis=0).tolist())) > 1 or n == 1  # draws differ


def test_believer_and_other_targets(made: Path, tmp_path: Path) -> None:
    """They work on the candidates as on a library."""
    both: dict[str, Any] = {"direction": "maximize", "target": ["score", "length"], "quick": True}
    fit(made / "two.csv", output=tmp_path / "two", **both)
    options: dict[str, Any] = {"n": 6, "target": "score", "overwrite": True}
    report = suggest(tmp_path / "two", made / "space", tmp_path / "b.csv", require="length < 14", **options)
    assert "the requirements were applied to these only" in report.notes
    assert report.table["meets"].to_numpy().mean() > 0.3
    report = suggest(tmp_path / "two", made / "space", tmp_path / "b.csv", batch="believer", **options)
    assert "best after the picks before it" in report.table["why"][0].as_py()
    weights = {"score": 1.0, "length": -0.2}
    options |= {"maximize": True, "acquisition": "greedy"}
    report = suggest(tmp_path / "two", made / "space", tmp_path / "b.csv", **options | {"target": weights})
    gp, (every, _) = load(tmp_path / "two"), distinct(made, "exact")
    means = gp.predict([one.smiles for one in every]) @ list(weights.values())
    known = set(labelled(made))
    best = np.sort([mean for one, mean in zip(every, means, strict=True) if one.smiles not in known])[::-1]
    found = gp.predict(report.table["smiles"].to_pylist()) @ list(weights.values())
    np.testing.assert_allclose(found, best[:6], rtol=1e-4)
    with pytest.raises(OptionError, match="improved at once in a library, not in a space; give a weighted"):
        suggest(tmp_path / "two", made / "space", tmp_path / "b.csv", n=6, target=["score", "length"])


def test_the_loop(made: Path, tmp_path: Path) -> None:
    """Ask, score, tell, ask again: no molecule twice."""
    fit(made / "y.csv", output=tmp_path / "model", direction="maximize", quick=True)
    seen = set(labelled(made))
    for number in range(2):
        path = tmp_path / f"{number}.csv"
        suggest(tmp_path / "model", made / "space", path, n=10)
        batch = pd.read_csv(path)
        assert not seen & set(batch.smiles)
        seen |= set(batch.smiles)
        scores = batch[["smiles"]].assign(score=[s.count("N") - 0.1 * len(s) for s in batch.smiles])
        add(tmp_path / "model", scores)


def test_one_process_and_two_workers_choose_the_same(made: Path, client: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"n": 10, "max_similarity": 0.6, "where": "logp < 2"}
    here = suggest(made / "fourier", made / "space", tmp_path / "a.csv", **options)
    there = suggest(made / "fourier", made / "space", tmp_path / "b.csv", client=client, **options)
    assert here.table.equals(there.table)
    assert here.left_out == there.left_out


def test_an_interrupted_choice_goes_on(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = suggest(made / "fourier", made / "space", tmp_path / "a.csv", n=10).table

    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SuggestJob, "_choose", interrupted)
        with pytest.raises(KeyboardInterrupt):
            suggest(made / "fourier", made / "space", tmp_path / "b.csv", n=10)
    with monkeypatch.context() as patch:
        patch.setattr("daskrf.screens.space.search.SpaceSearch.add", interrupted)  # what was searched stays
        patch.setattr("daskrf.screens.space.cutspaces.cut", interrupted)
        assert suggest(made / "fourier", made / "space", tmp_path / "b.csv", n=10).table.equals(whole)
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith(".") and path.is_dir()} <= {
        ".daskrf-spaces"
    }


SHARDED: dict[str, tuple[str, dict[str, Any]]] = {
    "means": ("fourier", {"n": 12, "acquisition": "greedy", "where": "logp < 2", "max_similarity": 0.6}),
    "draws": ("fourier", {"n": 8, "acquisition": "thompson"}),
    "shortlist": ("exact", {"n": 10, "where": "logp < 0.5", "max_similarity": 0.5}),
    "draws of a shortlist": ("exact", {"n": 6, "acquisition": "thompson"}),
}


@pytest.mark.parametrize("name", SHARDED)
def test_shards_search_and_the_last_command_chooses(
    name: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is that of one process; what shards have searched is not searched again."""
    monkeypatch.setattr(ranking, "PIECE_FLOP", 1.0)  # many pieces
    monkeypatch.setattr(ranking, "LEAST_ROWS", 4)
    monkeypatch.setattr(productranking, "LEAST_SHORTLIST", 30)
    monkeypatch.setattr(productranking, "_ROUGHLY", 1)
    monkeypatch.setattr(bestproducts, "_LEAST_SAMPLED", 10)
    searched: list[int] = []
    add = SpaceSearch.add
    monkeypatch.setattr(SpaceSearch, "add", lambda *a: (searched.append(a[0].k), add(*a))[1])
    model, options = SHARDED[name]
    whole = suggest(made / model, made / "space", tmp_path / "whole.csv", **options)
    first = searched[0]
    paths = made / model, made / "space", tmp_path / "shards.csv"
    prepared = prepare_shards(suggest, *paths, **options)
    assert prepared.missing == prepared.total > 3
    reports = [run_shard(suggest, f"{i}/3", *paths, **options) for i in (2, 0, 1)]
    assert all(report.made for report in reports)
    assert reports[-1].missing == 0
    assert not (tmp_path / "shards.csv").exists()
    with pytest.raises(StoreError, match="was prepared for shards with other options"):
        run_shard(suggest, "1/3", *paths, **options | {"n": options["n"] + 8})
    searched.clear()
    found = suggest(*paths, **options)
    assert found.table.equals(whole.table)
    assert found.left_out == whole.left_out
    assert first not in searched  # only deeper
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith(".") and path.is_dir()} <= {
        ".daskrf-spaces"
    }


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "cap": ({"per_value": {"amine": 1}}, "no column 'amine'.* it has 'reaction', 'block_0', 'block_1'"),
    "cap of none": ({"per_block": 0}, "per_block must be at least 1, not 0"),
    "where": ({"where": "price < 3"}, "'price' is neither a column"),
    "fraction": ({"shortlist": 0.5}, "is a number of products, such as 50000, not 0.5"),
    "short": ({"shortlist": 3}, "cannot hold"),
    "limits": ({"within": {"logP": (0, 1)}}, "no limit on 'logP'"),
    "fragments": ({"fragments": "keep"}, "leave out --fragments"),
    "features": ({"rough": "linear", "rough_components": 64}, "A linear surrogate has no Fourier features"),
    "seed": ({"seed": 1}, "--seed is for random draws"),
    "too many": ({"n": 5000}, r"only (\d+) can be chosen.*ask for -n \1, or"),
    "nothing": ({"where": "weight < 10"}, r"of all \d+ of the space none can be chosen \(.*not weight < 10"),
    "no product": ({"within": {"rings": (7, None)}}, "none lies within the limits, or all are labelled"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, made: Path, tmp_path: Path) -> None:
    options, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        suggest(made / "exact", made / "space", tmp_path / "b.csv", **options)
    assert not (tmp_path / "b.csv").exists()


def test_options_of_spaces_are_for_spaces(made: Path, tmp_path: Path) -> None:
    for options in ({"per_block": 2}, {"within": {"rings": (0, 1)}}, {"rough": "linear"}):
        with pytest.raises(OptionError, match="are for the products of a space"):
            suggest(made / "exact", made / "lib.smi", tmp_path / "b.csv", n=3, **options)
    with pytest.raises(InputError, match="one space at a time"):
        suggest(made / "exact", [made / "space", made / "lib.smi"], tmp_path / "b.csv", n=3)
    (tmp_path / "b.csv").write_text("scores that somebody has filled in\n")
    with pytest.raises(InputError, match="was not written by daskrf, and is never replaced"):
        suggest(made / "exact", made / "space", tmp_path / "b.csv", n=3, overwrite=True)


def test_the_search_for_what_passes_ends(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that nothing passes does not list a space of 10^10 products."""
    monkeypatch.setattr(bestproducts, "_DEEPEST", 4)
    with pytest.raises(InputError, match=r"of the best \d+ of the space none can be chosen"):
        suggest(made / "fourier", made / "space", tmp_path / "b.csv", n=3, where="weight < 10")


def test_the_command(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["suggest", str(made / "fourier"), str(made / "space"), "-n", "4", "--workers", "0"]
    for name in ("b.csv", "b.html"):
        assert run([*given, "-o", str(tmp_path / name), "--per-block", "2", "--within", "rings=:1"]) == 0
        assert "batch of 4 molecules from" in capsys.readouterr().out
    assert len(pd.read_csv(tmp_path / "b.csv")) == 4
    assert "amide" in (tmp_path / "b.html").read_text()
