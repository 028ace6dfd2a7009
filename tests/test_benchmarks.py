"""The benchmarks: every script parses its command line, tables are read rightly, published figures agree."""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from rdkit import Chem

from daskrf import (
    FingerprintSpec,
    Gaussian,
    LandmarkFeatures,
    RandomFourierFeatures,
    TanimotoMinMax,
    fit,
    search,
)
from daskrf.errors import InputError
from daskrf.features.featuremap import known_maps
from daskrf.screens.space.missed import Missed
from daskrf.spaces import cut, read_space
from tests.jit import jit_disabled
from tests.naive import gp as naive_gp
from tests.spaces.helpers import ACIDS, AMINES, PRIMARY, QUINAZOLINONE, SPACES, write_space

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
NAMES = sorted(path.stem for path in BENCHMARKS.glob("*.py"))
FAMILIES = {"T_MM": ["RFGP-Gaussian", "RFGP-Rademacher"]}
FAMILIES["T_DP"] = ["RFGP-none", "RFGP-normalize", "RFGP-sketch_error"]
SMILES = ["C" * n + end for n in range(1, 16) for end in ("O", "N", "C(=O)O", "c1ccccc1")]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the function that imports a script of the folder, as if it were run from there."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if name in NAMES:
            del sys.modules[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_script_answers_to_help(name, script, monkeypatch, capsys):
    module = script(name)
    assert module.__doc__
    if hasattr(module, "main"):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
        with pytest.raises(SystemExit) as done:
            module.main()
        assert done.value.code == 0
        assert "usage" in capsys.readouterr().out


def test_every_script_is_in_the_table_of_commands():
    page = (BENCHMARKS / "README.md").read_text()
    for name in NAMES:
        if "def main" in (BENCHMARKS / f"{name}.py").read_text():
            assert f"benchmarks/{name}.py" in page


def test_published_regression_figures_are_of_the_expected_form():
    content = json.loads((BENCHMARKS / "published" / "tripp2023_dockstring.json").read_text())
    assert "Tripp" in content["source"]
    assert "MIT" in content["source"]
    assert sorted(content["table"]) == ["ESR2", "F2", "KIT", "PARP1", "PGR"]
    for kernels in content["table"].values():
        for kernel, methods in kernels.items():
            assert sorted(methods) == sorted([*FAMILIES[kernel], "RSGP", "SVGP"])
            for entry in methods.values():
                (r2, r2_sd), (probability, probability_sd) = entry["R2"], entry["avg_log_prob"]
                assert 0.3 < r2 < 0.9
                assert -1.3 < probability < -0.4
                assert 0 < r2_sd < 0.02
                assert 0 < probability_sd < 0.05


def test_published_errors_are_of_the_expected_form():
    content = json.loads((BENCHMARKS / "published" / "tripp2023_mse.json").read_text())
    assert "MIT" in content["source"]
    for family in ("tmm", "tdp_R4_p-1"):
        assert sorted(content["mse_median_of_5"][family]) == ["binary", "count"]
        for variants in content["mse_median_of_5"][family].values():
            for by_size in variants.values():
                assert list(by_size) == ["100", "1000", "10000"]
                for entry in by_size.values():
                    assert 0 < entry["q25"] <= entry["median"] <= entry["q75"] < 0.03


def test_every_published_method_has_one_of_ours(script):
    ours = {(method.kernel, method.published) for method in script("methods").METHODS}
    names = {"T_MM": "T_minmax", "T_DP": "T_dp"}
    for kernel, methods in FAMILIES.items():
        assert {(names[kernel], name) for name in [*methods, "RSGP", "SVGP"]} <= ours


def test_the_right_grid_of_the_prefactor_is_exact_where_the_published_one_errs(script):
    """Ten times the points make the published grid 100 times better, and the right one exact to rounding."""
    x = np.arange(5.0, 86.0, 4.0)[:, None]  # only the norms matter; these range as those of molecules do
    found = script("errors").prefactor_results(x, [64, 640], 16, 5, 0)
    for r in (1, 3):
        few, many = (np.median(found["published grid"][r][m]) for m in (64, 640))
        assert 80 < few / many < 125
        assert max(found["right grid"][r][640]) < 1e-24


def test_scalar_features_of_the_prefactor_are_unbiased(script):
    """Equation 8 for independent points: the mean is right, and its error is far above that of the grid."""
    x = np.arange(5.0, 86.0, 20.0)[:, None]
    errors = script("errors")
    norms, _, zeta = errors.squared_norms(x)
    exact = norms[:, None] + norms
    rng = np.random.default_rng(0)
    for r in (1, 3):
        estimates = np.array(
            [
                phi @ phi.T
                for phi in (
                    errors.prefactor(norms, r, r * zeta, 2 * zeta**2, rng.random(16)) for _ in range(2000)
                )
            ]
        )
        standard_error = estimates.std(axis=0, ddof=1) / np.sqrt(2000)
        # 15 pairs: beyond 4.5 standard errors for one choice of the seed in 10,000.
        assert (np.abs(estimates.mean(axis=0) - exact ** -float(r)) <= 4.5 * standard_error).all()
    found = errors.prefactor_results(x, [64], 4, 9, 0)
    assert np.median(found["independent"][1][64]) > 1e6 * np.median(found["right grid"][1][64])


def svgp_problem() -> tuple[Any, np.ndarray, np.ndarray, dict[str, float]]:
    """Return a map with 12 landmarks, counts, labels and hyperparameters."""
    rng = np.random.default_rng(8)
    X = rng.poisson(0.8, (60, 15))
    y = 1.0 + X[:, 0] - 0.5 * X[:, 3] + 0.2 * rng.normal(size=60)
    options = {"mean": 1.2, "signal_variance": 2.0, "noise_variance": 0.3}
    return LandmarkFeatures(12, selection="kmeans"), X, y, options


def test_one_whole_step_of_the_stochastic_process_is_the_optimum(script):
    """A step of length 1 with all rows reaches Titsias' bound, and the process that it is the bound of."""
    feature_map, X, y, options = svgp_problem()
    gp = script("svgp").StochasticSparseGP(feature_map, **options, step=1.0, batch=60).fit(X, y)
    kernel, Z, new = TanimotoMinMax(), gp.map_.landmarks_, X[:7] + 1
    matrices = kernel(Z), kernel(Z, X)
    expected = naive_gp.titsias_bound(*matrices, kernel.diag(X), y, *options.values())
    assert gp.bound(X, y) == pytest.approx(expected, rel=1e-4)  # the jitter
    mean, covariance = naive_gp.projected_posterior(
        *matrices, kernel(Z, new), kernel(new), y, *options.values()
    )
    found, std = gp.predict(new, return_std=True)
    np.testing.assert_allclose(found, mean, atol=1e-4)
    np.testing.assert_allclose(std, np.sqrt(covariance.diagonal() + 0.3), atol=1e-4)


def test_minibatches_estimate_the_bound_and_approach_it(script):
    feature_map, X, y, options = svgp_problem()
    make = script("svgp").StochasticSparseGP
    best = make(feature_map, **options, step=1.0, batch=60).fit(X, y).bound(X, y)
    bounds = []
    for passes in (0, 1, 3, 10):
        gp = make(feature_map, **options, batch=15, passes=passes, seed=1).fit(X, y)
        bounds.append(gp.bound(X, y))
        parts = [gp.bound(X[i : i + 15], y[i : i + 15], 60) for i in range(0, 60, 15)]
        assert np.mean(parts) == pytest.approx(bounds[-1])
    assert bounds == sorted(bounds)
    assert bounds[0] < best - 100  # the prior
    assert best - 0.1 < bounds[-1] < best


@pytest.fixture
def dockstring(tmp_path: Path) -> Path:
    """A made table of the form of dockstring-dataset.tsv, beside its split in another order.

    Row 0 has no label of F2, row 1 a failed docking.
    """
    keys = [f"KEY{i:03d}" for i in range(len(SMILES))]
    scores = [-5 - 0.1 * len(text) for text in SMILES]
    labels = ["", "97.5", *(f"{score:.2f}" for score in scores[2:])]
    rows = zip(keys, SMILES, labels, scores, strict=True)
    lines = ["inchikey\tsmiles\tF2\tKIT", *(f"{k}\t{s}\t{a}\t{b}" for k, s, a, b in rows)]
    (tmp_path / "dockstring-dataset.tsv").write_text("\n".join(lines) + "\n")
    split = [f"{key}\t{'test' if i % 5 == 0 else 'train'}" for i, key in enumerate(keys)]
    (tmp_path / "cluster_split.tsv").write_text("\n".join(["inchikey\tsplit", *split[::-1]]) + "\n")
    return tmp_path / "dockstring-dataset.tsv"


def test_dockstring_is_read_as_published(dockstring, script):
    methods = script("methods")
    smiles, y, train = methods.read_labelled(dockstring, "F2", dockstring.with_name("cluster_split.tsv"))
    assert smiles == SMILES[1:]
    assert y[0] == 5.0
    np.testing.assert_allclose(y[1:], [-5 - 0.1 * len(text) for text in SMILES[2:]], atol=0.006)
    assert train.tolist() == [i % 5 != 0 for i in range(1, len(SMILES))]


def test_tables_without_a_split_are_cut_at_random_and_not_clipped(dockstring, script):
    methods = script("methods")
    smiles, y, train = methods.read_labelled(dockstring, "F2", None)
    assert len(smiles) == len(y) == len(SMILES) - 1
    assert y[0] == 97.5
    assert train.sum() == int(0.8 * len(y))


def test_bad_tables_are_refused(dockstring, script):
    methods = script("methods")
    split = dockstring.with_name("cluster_split.tsv")
    with pytest.raises(InputError, match=r"no column 'ESR2'; it has inchikey, smiles, F2, KIT"):
        methods.read_labelled(dockstring, "ESR2", split)
    with pytest.raises(InputError, match=r"absent\.tsv does not exist"):
        methods.read_labelled(dockstring.with_name("absent.tsv"), "F2", split)
    split.write_text(split.read_text().replace("KEY007\ttrain", "KEY007\tvalid"))
    with pytest.raises(InputError, match=r"row 8 of dockstring-dataset.tsv \(KEY007\) is valid"):
        methods.read_labelled(dockstring, "F2", split)


def test_dockstring_gets_the_folding_of_the_paper(dockstring, script):
    regression = script("regression")
    options = regression.arguments().parse_args(["--data", str(dockstring), "--target", "F2"])
    source = regression.choose_source(options)
    assert source.split == dockstring.with_name("cluster_split.tsv")
    assert (source.size, source.radius) == (1024, 1)


@pytest.mark.skipif(jit_disabled(), reason="every method of the paper: too slow without the JIT")
def test_the_whole_table_on_a_made_file(dockstring, script, monkeypatch, capsys):
    common, methods, regression = script("common"), script("methods"), script("regression")
    here = lambda function, *arguments: (function(*arguments), common.Cost(0.0, 0.0, 0.0))  # noqa: E731
    monkeypatch.setattr(methods, "run_fresh", here)
    monkeypatch.setattr(regression, "run_fresh", here)
    output = dockstring.parent / "results"
    regression.main(
        [
            "--data",
            str(dockstring),
            "--target",
            "F2",
            "--components",
            "24",
            "--subset",
            "30",
            "--output",
            str(output),
        ]
    )
    content = json.loads((output / "regression-dockstring-dataset-F2.json").read_text())
    assert set(content) == {"machine", "versions", "seed", "settings", "results"}
    assert (
        len(content["results"]) == 4 * 3 + 7 * 2 + 2
    )  # sparse GPs have three protocols, stochastic ones have one
    for row in content["results"]:
        assert np.isfinite(row["mean_log_probability"])
        assert row["r2"] <= 1
    printed = capsys.readouterr().out
    assert "0.838 ± 0.001" in printed  # published: T_minmax, Rademacher, F2
    assert "machine:" in printed
    assert str(dockstring.parent) not in json.dumps(content)


@pytest.mark.skipif(jit_disabled(), reason="every method of the picture: too slow without the JIT")
def test_the_pareto_picture_of_a_made_file(dockstring, script, monkeypatch):
    common, methods, regression = script("common"), script("methods"), script("regression")
    here = lambda function, *arguments: (function(*arguments), common.Cost(0.0, 0.0, 0.0))  # noqa: E731
    monkeypatch.setattr(methods, "run_fresh", here)
    monkeypatch.setattr(regression, "run_fresh", here)
    small = [replace(series, sizes=(16, 24), further=()) for series in regression.SERIES]
    monkeypatch.setattr(regression, "SERIES", small)
    output = dockstring.parent / "results"
    regression.main(
        ["--pareto", "--data", str(dockstring), "--target", "KIT", "--size", "0", "--output", str(output)]
    )
    rows = json.loads((output / "pareto-dockstring-dataset-KIT.json").read_text())["results"]
    assert len(rows) == 2 * 6
    assert {row["bytes_per_molecule"] for row in rows} == {2, 3, 64, 96, None}
    assert (output / "pareto-dockstring-dataset-KIT.png").stat().st_size > 10_000


def test_every_map_is_measured(script):
    """A new map is measured as its class makes it, or has a reason not to be."""
    maps, enamine = script("maps"), script("maps_enamine")
    counts, rows = sp.csr_matrix(np.eye(4)), np.random.default_rng(0).normal(size=(9, 3))
    panels = maps.all_panels(counts, rows)
    classes = {type(make(n_components=64)) for panel in panels.values() for make in panel.maps.values()}
    ours = {cls.facts.name: cls for cls in known_maps() if cls.__module__.startswith("daskrf.")}
    assert classes == {cls for name, cls in ours.items() if name not in maps.LEFT_OUT}
    assert set(enamine.MAPS) == set(ours) - set(enamine.LEFT_OUT) == set(enamine.LOOKS)
    assert {*maps.LEFT_OUT, *enamine.LEFT_OUT} <= set(ours)

    # As if these two were new.
    new = [ours["fourier"], ours["minmax"]]
    found = maps.other_panels(counts, rows, [], new)
    assert list(found) == ["k of fourier", "k of minmax"]
    assert [list(panel.maps.values()) for panel in found.values()] == [[cls] for cls in new]
    assert [panel.kernel for panel in found.values()] == [cls().kernel_ for cls in new]
    assert maps.other_panels(counts, rows, found.values(), new) == {}
    for name in ("fourier", "minmax"):
        del enamine.MAPS[name]
    lines = enamine.others(new)
    assert {name: type(make(8, random_state=1)) for name, (_, make, _) in lines.items()} == {
        "fourier": ours["fourier"],
        "minmax": ours["minmax"],
    }


def test_maps_are_compared_with_their_peers(script):
    maps = script("maps")
    panel = maps.Panel(None, {}, {"fourier": None}, {"RBFSampler": None}, {"fourier": "RBFSampler"})
    own = {"kernel": "k", "map": "fourier", "M": 8, "error": 0.2, "least": 0.1, "most": 0.3, "rows_s": 60.0}
    peer = {**own, "map": "scikit-learn RBFSampler", "error": 0.1, "rows_s": 10.0, "most": 0.15}
    (line,) = maps.compared([own, peer], {"k": panel})
    assert (line["error / peer's"], line["rate / peer's"]) == (2.0, 6.0)
    assert (line["as accurate"], line["3 times"]) == ("within seeds", "yes")


@pytest.mark.skipif(jit_disabled(), reason="a thousand features: too slow without the JIT")
def test_the_large_fit_on_few_molecules(script, monkeypatch, capsys):
    common, large = script("common"), script("large")
    here = lambda function, *arguments: (function(*arguments), common.Cost(0.0, 0.0, 1.0))  # noqa: E731
    monkeypatch.setattr(large, "run_fresh", here)
    large.main(["--small", "--workers", "0"])
    printed = capsys.readouterr().out
    for text in ("fit-strip-3-of-3", "solve", "1.00 GiB, 0.", "test: 400 molecules, R2 0.", "in 3 strips"):
        assert text in printed


@pytest.fixture
def small_space(tmp_path: Path) -> Path:
    """A space of two and of three slots, and a model of labels of some small molecules beside it."""
    reactions = {name: SPACES[name] for name in ("amide", "boc", "urea")}
    texts = [text for text in (*AMINES, *ACIDS, *SMILES) if "." not in text]
    rows = [f"{text},{text.count('N') - 0.1 * len(text)}\n" for text in texts]
    (tmp_path / "y.csv").write_text("smiles,score\n" + "".join(rows))
    feature_map = RandomFourierFeatures(Gaussian(4.0), n_components=64)
    fit(
        tmp_path / "y.csv",
        output=tmp_path / "model",
        spec=FingerprintSpec("morgan:1"),
        feature_map=feature_map,
        direction="minimize",
    )
    return write_space(tmp_path / "space", reactions)


@pytest.mark.parametrize("k", [5, 60])
def test_hits_of_a_space_are_those_of_brute_force(small_space, script, k):
    folder = small_space.parent
    found = script("space").brute(small_space, folder / "model", k, folder / "hits.parquet")
    assert found["products"] == 625
    assert found["same_set"]
    assert found["largest_error_of_the_formula"] < 1e-5
    assert found["largest_difference_of_a_score"] < 1e-5


def test_other_hits_are_not_those_of_brute_force(script):
    every = script("everyproduct")
    best = every.Best(list("abcde"), np.array([5.0, 4.0, 3.0, 3.0, 1.0]), 9, 0.0, False)
    same = lambda hits: every.compared(list(hits), np.zeros(len(hits)), best, 1e-6)["same_set"]  # noqa: E731
    assert [same(hits) for hits in ("abc", "bad", "abe", "acd", "abb", "abx")] == [True, True, *4 * [False]]
    with pytest.raises(ValueError, match="only 5 of the best 6"):
        same("abcdef")


def test_summed_fingerprints_are_timed_beside_rdkit(small_space, script):
    found = script("space").composed(small_space, FingerprintSpec("morgan:2"), 500, 20, 2)
    assert found["fingerprints"] == 1000
    assert found["ratio"] > 0


def test_the_best_of_a_space_are_those_of_a_list(script, monkeypatch, tmp_path):
    """Also where products have equal scores, or are the same molecule."""
    truth, sums = script("spacetruth"), script("sumscores")
    monkeypatch.setattr(sums, "SMALL", (5, 9, 8))
    monkeypatch.setattr(truth, "BEST", 20)
    for name in sums.SCORES:
        space = sums.summed_space(name, tmp_path / name, 0, small=True)
        every = np.array(list(np.ndindex(*space.blocks.sizes)))
        smiles = space.blocks.smiles(every)
        listed = truth.ListedSpace(space.blocks, "maximize", space.scores(every).reshape(space.blocks.sizes))
        values: dict[str, float] = {}
        for one in (space, listed):
            evaluations = truth.Evaluations(one)
            for text, value in zip(smiles, evaluations(every).tolist(), strict=True):
                assert values.setdefault(text, value) == pytest.approx(value)
            assert (evaluations.n, len(evaluations.hits)) == (len(every), 20)
            best = sorted((values[text] for text in evaluations.hits), reverse=True)
            assert best == sorted(values.values(), reverse=True)[:20]
            assert set(one.best.values()) == evaluations.hits
        if name == "properties":
            heavy = sum(rows[every[:, slot], 0] for slot, rows in enumerate(space.function.of))
            assert heavy.tolist() == [Chem.MolFromSmiles(text).GetNumHeavyAtoms() for text in smiles]


def test_peptides_are_scored_alike_each_time_and_react_once(script, tmp_path):
    peptides = script("peptides")
    sizes = 20, 30
    first, again = (peptides.peptide_space(tmp_path / name, sizes) for name in "ab")
    assert (first.table == again.table).all()
    assert first.table.shape == sizes
    assert np.isfinite(first.table).all()
    assert first.blocks.ids == again.blocks.ids
    space = cut(read_space(first.blocks.folder), FingerprintSpec("morgan:1"))
    assert [len(entry.block) for entry in space.entries[0]] == list(sizes)
    assert len({peptide.smiles for peptide in peptides.peptides(300, np.random.default_rng(1))}) == 300
    # Small is good: the best is the least, whatever its blocks.
    best = np.array(list(first.best))
    assert first.scores(best)[0] == first.table.min()
    assert first.sign == -1.0


def test_the_docked_space_has_a_score_for_each_product(script, tmp_path):
    docked = script("docked")
    space = docked.docked_space(tmp_path / "space")
    assert space.table.shape == space.blocks.sizes
    assert len(space.table) == sum(docked.AMINES.values())
    assert space.table.max() < 0.0  # kcal/mol
    assert len(np.unique(space.table)) > 0.5 * space.table.size
    cut_space = cut(read_space(space.blocks.folder), FingerprintSpec("morgan:1"))
    assert [len(entry.block) for entry in cut_space.entries[0]] == list(space.table.shape)  # each reacts once
    small = docked.docked_space(tmp_path / "small", 6)
    assert (small.table == space.table[:, :6]).all()
    assert len(set(small.best.values())) == round(0.02 * small.table.size)
    assert small.scores(np.array(list(small.best)))[0] == small.table.min()


def test_interactions_are_beyond_what_each_group_does(script):
    peptides, random = script("peptides"), np.random.default_rng(0)
    pairs = peptides.room(random.standard_normal((7, 6)), random.standard_normal((9, 6)), random)
    assert pairs.mean(axis=0) == pytest.approx(np.zeros(9), abs=1e-12)
    assert pairs.mean(axis=1) == pytest.approx(np.zeros(7), abs=1e-12)
    assert pairs.std() == pytest.approx(1.0)


def test_similarity_of_pharmacophores_and_of_shape_is_one_to_the_query_alone(script):
    """Fuzzy Tanimoto as its formula says, and all scores from 0 to 1."""
    own = script("pharmacophores")
    smiles = [own.DRUG, *SMILES[:5], "CC(=O)Nc1ccc(O)cc1"]
    for query in {id(s.query): s.query for s in own.SPACES.values()}.values():
        scores = query.scores(smiles)
        assert scores[0] == pytest.approx(1.0)
        assert (scores[1:] < 1.0).all()
        assert (scores >= 0.0).all()
    rows, query = np.array([[1.0, 0.0, 2.0]]), np.array([0.5, 1.0, 2.0])
    assert own.fuzzy_tanimoto(rows, query)[0] == pytest.approx(4.5 / (5.0 + 5.25 - 4.5))
    assert not own.near_in_moments(np.zeros((1, 60)), np.ones(60))[0]


def test_searches_of_a_space_are_compared_with_the_list_of_its_products(script, tmp_path, monkeypatch):
    own, truth = script("space_search"), script("spacetruth")
    monkeypatch.setattr(own, "BLOCK", 7)
    monkeypatch.setattr(own, "K", 3)
    slots = (
        {f"{slot}{i}": text for i, text in enumerate(texts)} for slot, texts in (("a", PRIMARY), ("b", ACIDS))
    )
    blocks = truth.write_space(tmp_path / "space", script("peptides").REACTION, list(slots))
    space = cut(read_space(blocks.folder), FingerprintSpec("morgan:2"))
    query, pattern = "CCNC(=O)c1ccccc1", "[CX4]NC(=O)c"
    listed = own.Listed.of(space, [query], [pattern])
    assert 10 < len(listed.smiles) == own.n_products(space)
    assert listed.similarities["RDKit"][0] == pytest.approx(own.by_bits(query, listed.smiles))
    with_pattern = {
        text
        for text in listed.smiles
        if Chem.MolFromSmiles(text).HasSubstructMatch(Chem.MolFromSmarts(pattern))
    }
    assert 0 < len(with_pattern) < len(listed.smiles)
    assert listed.with_pattern(0) == with_pattern
    table = own.written(space, tmp_path / "table.tsv")
    assert own.with_pattern_by_rdkit(table, pattern, -1, 1)[0] == with_pattern
    report = search(table, tmp_path / "hits.csv", smarts=pattern, k=1000)
    assert set(report.table["smiles"].to_pylist()) == with_pattern
    assert own.counted(report.notes) == len(with_pattern)
    nearest = search(table, tmp_path / "near.csv", similar_to=query, k=3).table["smiles"].to_pylist()
    assert listed.recall("daskrf", [nearest]) == 1.0
    assert listed.recall("daskrf", [nearest[:1]]) == pytest.approx(1 / 3)


def test_the_share_of_a_shortlist_is_read_from_the_report(script):
    looked = ((101, 200, 50, 2),)
    missed = Missed(100, 100, looked)
    values = script("space_shortlists").estimate(("another note", str(missed)))
    assert values["estimate"] == round(missed.recall, 2)
    assert (values["low"], values["high"]) == tuple(round(end, 2) for end in missed.interval)


def test_a_space_is_learned(script, tmp_path, capsys):
    learning = script("space_learning")
    settings = ["--small", "--seeds", "0", "--spaces", "similarity", "--models", "default", "metric"]
    settings += ["--first", "200", "--batch", "100", "--rule", "greedy"]
    learning.main([*settings, "--output", str(tmp_path)])
    rows = json.loads((tmp_path / "space_learning.json").read_text())["results"]["similarity"]
    plain = [row for row in rows if not row["way"].startswith("daskrf")]
    assert [row["way"] for row in plain] == list(script("baselines").BASELINES)
    for row in plain:
        assert [one["evaluations"] for one in row["rounds"]] == [300]
        assert row["rounds"][-1]["found"] > 30
    for row in rows[len(plain) :]:
        first, last = row["rounds"]
        assert (first["evaluations"], last["evaluations"]) == (200, 300)
        assert last["found"] > max(30, first["found"])  # chance finds 3
        assert "within" not in first
        assert 0.0 < last["within"] <= 1.0
    printed = capsys.readouterr().out
    assert "10,000 products of 16 x 25 x 25 blocks" in printed
    assert "| similarity | daskrf, default" in printed
    assert "| similarity | daskrf, metric" in printed


def test_estimates_of_what_has_been_found_stand_beside_the_truth(script, tmp_path, capsys):
    learning = script("space_learning")
    settings = ["--small", "--seeds", "0", "--spaces", "peptides", "--first", "12", "--batch", "6"]
    learning.main([*settings, "--estimates", "--output", str(tmp_path)])
    rows = json.loads((tmp_path / "space_learning.json").read_text())["results"]["peptides"]
    rounds = rows[-1]["rounds"]
    assert [one["evaluations"] for one in rounds] == [12, 18]
    for one in rounds:
        assert 0.0 <= one["estimate_low"] <= one["estimate"] <= one["estimate_high"] <= 1.0
        assert 0 <= one["found"] <= one["evaluations"]
    assert "600 products of 10 x 60 blocks" in capsys.readouterr().out


def test_the_published_space_is_learned(script, tmp_path, capsys):
    """A small space of the same reaction, and the best of all its products."""
    reagents = {"1": ["Nc1ccccc1C(=O)O", "Nc1sccc1C(O)=O", "Nc1cc(C)ccc1C(=O)O"], "2": PRIMARY, "3": ACIDS}
    (tmp_path / "space").mkdir()
    (tmp_path / "space" / "one.smarts").write_text(QUINAZOLINONE)
    for slot, blocks in reagents.items():
        lines = [f"{text} {slot}-{i}" for i, text in enumerate(blocks)]
        (tmp_path / "space" / f"{slot}.smi").write_text("\n".join(lines))
    space = cut(read_space(tmp_path / "space"), FingerprintSpec("morgan:1"))
    slots = [own.synthon.tolist() for own in space.entries[0]]
    smiles = sorted(set(space.product_smiles(np.array(list(itertools.product(*slots))))))
    own = script("space_published")
    (tmp_path / "best.csv").write_text("SMILES,score\n")
    scores = own.Similarity(tmp_path / "space", tmp_path / "best.csv", smiles[0])
    best = sorted(smiles, key=scores.score, reverse=True)[:10]
    lines = [f"{text},{scores.score(text)!r}\n" for text in best]
    (tmp_path / "best.csv").write_text("SMILES,score\n" + "".join(lines))
    files = ["--space", tmp_path / "space", "--best", tmp_path / "best.csv", "--output", tmp_path / "out"]
    plan = ["--first", "60", "--batch", "30", "--most", "120", "--seeds", "0", "--models", "default"]
    own.main([*map(str, files), "--query", smiles[0], *plan])
    (result,) = json.loads((tmp_path / "out" / "space_published.json").read_text())["results"]
    assert result["rounds"][-1]["found"] >= 9
    assert "| similarity | daskrf, default | 60" in capsys.readouterr().out
    (tmp_path / "best.csv").write_text(f"SMILES,score\n{smiles[0]},0.5\n")
    with pytest.raises(SystemExit, match=r"has the score 1.0, and 0.5 in "):
        own.main([*map(str, files), "--query", smiles[0], *plan])


def test_searches_that_have_found_all_count_as_such_later_too(script):
    rounds = [{"evaluations": 1000, "found": 40, "s": 1.0}, {"evaluations": 1500, "found": 100, "s": 2.0}]
    longer = [rounds[0], {**rounds[1], "found": 90}, {"evaluations": 2000, "found": 95, "s": 4.0}]
    rows = [{"space": "s", "way": "w", "seed": i, "rounds": r} for i, r in enumerate((rounds, longer))]
    lines = script("space_learning").summary(rows, 1000)
    assert [(own["evaluations"], own["found"], own["least"]) for own in lines] == [
        (1000, 40.0, 40),
        (1500, 95.0, 90),
        (2000, 97.5, 95),
    ]


def test_distributions_of_blocks_follow_bayes_rule(script):
    slot = script("baselines").Normal(2, 1.0, 2.0)
    for score in (3.0, 4.0, 8.0):
        slot.update(1, score)
    assert slot.mean.tolist() == pytest.approx([1.0, (1.0 + 3 + 4 + 8) / 4])
    assert slot.variance.tolist() == pytest.approx([4.0, 4.0 / 4])


@pytest.mark.parametrize("name", ["Thompson sampling", "top-two sampling", "roulette wheel"])
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_searches_by_blocks_score_no_product_twice_and_beat_chance(script, tmp_path, name, direction):
    """In a sum over blocks with some noise, in either direction: chance finds 3 of the best 100."""
    truth, baselines = script("spacetruth"), script("baselines")
    random = np.random.default_rng(0)
    table = random.standard_normal((30, 1, 1)) + random.standard_normal((20, 1)) + random.standard_normal(20)
    table += 0.3 * random.standard_normal(table.shape)
    ids = [[f"{slot}-{i}" for i in range(size)] for slot, size in enumerate(table.shape)]
    space = truth.ListedSpace(truth.Blocks(tmp_path, ids), direction, table)
    best = space._best_places(100)
    vars(space)["best"] = {tuple(place): str(place) for place in best.tolist()}  # without making molecules
    scored: list[tuple[int, ...]] = []

    class Counted(truth.Evaluations):
        def __call__(self, places):
            scored.extend(map(tuple, places.tolist()))
            return super().__call__(places)

    evaluations = Counted(space)
    baselines.BASELINES[name](evaluations, 360, 0)
    assert evaluations.n == len(scored) == len(set(scored)) == 360
    assert len(evaluations.hits) > 20


def test_a_search_by_blocks_ends_when_all_products_are_taken(script):
    baselines, random = script("baselines"), np.random.default_rng(0)
    slots, seen = [baselines.Normal(n, 0.0, 1.0) for n in (2, 3, 2)], set()
    for _ in range(12):
        seen.add(baselines.first_new([np.argsort(-slot.draw(random)) for slot in slots], seen, random))
    assert len(seen) == 12
    with pytest.raises(ValueError, match="All products"):
        baselines.first_new([np.arange(n) for n in (2, 3, 2)], seen, random)


def test_pairs_of_a_warm_up_try_blocks_of_a_slot_equally_often(script):
    baselines = script("baselines")
    places = baselines._paired((7, 40), 10**6, np.random.default_rng(0))
    times = np.bincount(places[:, 1], minlength=40)
    assert times.max() <= baselines.PAIRED
    assert np.bincount(places[:, 0], minlength=7).min() >= 0.8 * len(places) / 7
    assert len(baselines._paired((7, 40), 20, np.random.default_rng(0))) == 10


def test_a_campaign_over_a_large_library_in_small(script, monkeypatch, tmp_path, capfd):
    common, large = script("common"), script("campaign_large")
    here = lambda function, *arguments: (function(*arguments), common.Cost(0.0, 0.0, 0.0))  # noqa: E731
    monkeypatch.setattr(large, "run_fresh", here)
    large.main(["--small", "--output", str(tmp_path), "--work", str(tmp_path)])
    content = json.loads((tmp_path / "campaign_large.json").read_text())
    first, *rounds = content["results"]["rounds"]
    assert len(rounds) == 2
    assert all(told["mean"] < first["mean"] - 1 for told in rounds)  # batches are better than chance
    assert rounds[-1]["best"] < first["best"]
    stages = content["results"]["stages"]
    assert list(stages) == ["fingerprint", "fit", "suggest 1", "add 1", "suggest 2", "add 2"]
    processes = {"driver", "scheduler", "worker 0", "worker 1"}
    for stage in stages.values():
        assert set(stage["cpu_s"]) == set(stage["peak_mib"]) == processes
    assert str(tmp_path) not in json.dumps(content)
    printed = capfd.readouterr().out
    assert "batch of 50 molecules from 5,000" in printed
    assert "| add 2 " in printed


def test_a_fresh_process_is_measured(script):
    common = script("common")
    result, cost = common.run_fresh(abs, -1)
    assert result == 1
    assert 0.01 < cost.peak_gib < 8
    assert 0 <= cost.cpu_s < 10
