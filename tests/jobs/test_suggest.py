"""The next batch is the one that testing every molecule of the library would give."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors, FilterCatalog, rdMolDescriptors
from scipy.stats import norm

import daskrf
from daskrf import fingerprint, fit, predict, screen, suggest
from daskrf.acquisition import acquisition_for
from daskrf.acquisition.improvement import ExpectedImprovement
from daskrf.acquisition.rule import parameters_of_rules
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.gp import ExactGP
from daskrf.jobs.shards import prepare_shards, run_shard
from daskrf.models.models import read_model
from daskrf.molecules import Fingerprinter
from daskrf.molecules.filters import Filters
from daskrf.screens import libraryranking, searches, shortlist
from daskrf.screens.libraryranking import LibraryRanking
from daskrf.screens.passing import Passing
from daskrf.sources import smiles as reading
from daskrf.storage.hits import record_of
from daskrf.storage.inspection import status, verify
from daskrf.storage.kinds import stored_library
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from tests.jobs.job import FEATURES
from tests.naive import suggest as naive


@pytest.fixture(scope="module")
def made(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a column of prices, where every 5th molecule stands twice, an exact model and features."""
    out = tmp_path_factory.mktemp("suggest")
    lines = [line.split() for line in inputs[0].read_text().splitlines()]
    molecules = [words for words in lines if len(words) == 2 and Chem.MolFromSmiles(words[0]) is not None]
    turned = [
        (Chem.MolToSmiles(m, rootedAtAtom=m.GetNumAtoms() - 1), f"{name}-again")
        for text, name in molecules[::5]
        if (m := Chem.MolFromSmiles(text)) is not None
    ]
    rows = [(*words, i % 97) for i, words in enumerate([*molecules, *turned])]
    pd.DataFrame(rows, columns=["smiles", "id", "price"]).to_csv(out / "library.csv", index=False)
    fingerprint(
        out / "library.csv",
        out / "fp",
        rows_per_partition=150,
        format=daskrf.TableFormat(extra=("price",)),
    )
    fit(out / "fp", inputs[1], out / "exact", direction="minimize", quick=True)
    fit(out / "fp", inputs[1], out / "features", feature_map=FEATURES, direction="minimize")
    return out


@pytest.fixture(scope="module")
def library(made: Path) -> pd.DataFrame:
    return pd.read_csv(made / "library.csv")


@pytest.fixture(scope="module")
def labelled(inputs: tuple[Path, Path], library: pd.DataFrame) -> list[str]:
    known = set(pd.read_csv(inputs[1])["id"])
    return [text for text, name in zip(library.smiles, library.id, strict=True) if name in known]


def names(library: pd.DataFrame, rows: list[int]) -> list[str]:
    return [Chem.CanonSmiles(text) for text in library.smiles[rows]]


def gains(made: Path, library: pd.DataFrame, model: str) -> list[float]:
    return (-daskrf.load(made / model).predict(list(library.smiles))).tolist()


PAINS = FilterCatalog.FilterCatalogParams()
PAINS.AddCatalog(FilterCatalog.FilterCatalogParams.FilterCatalogs.BRENK)
ALERTS = FilterCatalog.FilterCatalog(PAINS)

CASES: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "plain": ({}, lambda m: True, {}),
    "similar": ({"max_similarity": 0.45}, lambda m: True, {"max_similarity": 0.45}),
    "scaffold": ({"per_scaffold": 1}, lambda m: True, {"per_scaffold": 1}),
    "properties": (
        {"where": ["weight < 430 and 1 < logp", "tpsa<=100"], "max_similarity": 0.5, "per_scaffold": 2},
        lambda m: (
            Descriptors.MolWt(m) < 430 and Crippen.MolLogP(m) > 1 and rdMolDescriptors.CalcTPSA(m) <= 100
        ),
        {"max_similarity": 0.5, "per_scaffold": 2},
    ),
    "patterns": (
        {"smarts": "c1ccccc1", "without_smarts": ["[F]", "S"], "alerts": "brenk"},
        lambda m: (
            m.HasSubstructMatch(Chem.MolFromSmarts("c1ccccc1"))
            and not m.HasSubstructMatch(Chem.MolFromSmarts("[F]"))
            and not m.HasSubstructMatch(Chem.MolFromSmarts("S"))
            and not ALERTS.HasMatch(m)
        ),
        {},
    ),
}


@pytest.mark.parametrize(
    ("name", "model"), [*((name, "exact") for name in CASES), ("properties", "features")]
)
def test_the_batch_is_that_of_testing_everything(
    name: str, model: str, made: Path, library: pd.DataFrame, labelled: list[str], tmp_path: Path
) -> None:
    options, passes, different = CASES[name]
    options = {"n": 25, "acquisition": "greedy", **options}
    report = suggest(made / model, made / "fp", tmp_path / "batch.csv", **options)
    picks = naive.batch(
        list(library.smiles),
        gains(made, library, model),
        25,
        lambda text: passes(Chem.MolFromSmiles(text)),
        labelled,
        **different,
    )
    found = pd.read_csv(tmp_path / "batch.csv")
    # Copies have the same mean up to rounding, so that either of them may come first.
    assert names(library, found.row.tolist()) == names(library, picks)
    assert found.smiles.tolist() == library.smiles[found.row].tolist()
    assert found["rank"].tolist() == list(range(1, 26))
    assert report.table["row"].to_pylist() == found.row.tolist()
    nearest = [max(naive.similarity(text, other) for other in labelled) for text in found.smiles[:3]]
    np.testing.assert_allclose(found.similarity_to_labelled[:3], nearest, atol=1e-4)


def test_caps_by_columns(made: Path, library: pd.DataFrame, labelled: list[str], tmp_path: Path) -> None:
    """At most 2 of each value of a column of a file, as if every molecule had been looked at in turn."""
    blocks = library.assign(block=[f"B{k % 7}" for k in range(len(library))], vendor=library.price % 3)
    blocks.to_csv(tmp_path / "library.csv", index=False)
    report = suggest(
        *(made / "exact", tmp_path / "library.csv", tmp_path / "batch.csv"),
        n=12,
        acquisition="greedy",
        per_value={"block": 2, "vendor": 5},
    )
    caps = [(blocks.block.tolist(), 2), (blocks.vendor.tolist(), 5)]
    picks = naive.batch(list(library.smiles), gains(made, library, "exact"), 12, excluded=labelled, caps=caps)
    found = pd.read_csv(tmp_path / "batch.csv")
    assert names(library, found.row.tolist()) == names(library, picks)
    assert found.block.value_counts().max() == 2
    assert report.left_out["with a value of a column that has enough picks"] > 0
    with pytest.raises(InputError, match="There is no column 'amine' in the library to cap by; it has '"):
        suggest(made / "exact", tmp_path / "library.csv", tmp_path / "b.csv", n=3, per_value={"amine": 1})
    with pytest.raises(OptionError, match="at least 1 for each column, not 0 for 'block'"):
        suggest(made / "exact", tmp_path / "library.csv", tmp_path / "b.csv", n=3, per_value={"block": 0})


@pytest.fixture(scope="module")
def two(made: Path, library: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of two targets, of which one is logP."""
    out = tmp_path_factory.mktemp("two")
    some = library[:200:2]
    y = {
        "size": [float(len(t)) for t in some.smiles],
        "logP": [Crippen.MolLogP(Chem.MolFromSmiles(t)) for t in some.smiles],
    }
    frame = some[["id", "smiles"]].assign(**y)
    both = {"target": ["size", "logP"], "direction": {"size": "maximize"}}
    fit(frame, output=out / "exact", quick=True, **both)
    fit(frame, output=out / "features", feature_map=FEATURES, **both)
    return out


@pytest.mark.parametrize("rule", ["greedy", "ucb", "ei", "believer"])
@pytest.mark.parametrize("model", ["exact", "features"])
def test_other_targets_are_required(
    rule: str, model: str, two: Path, library: pd.DataFrame, tmp_path: Path
) -> None:
    """The score of each molecule of the library is weighed by the probability that it passes."""
    options: dict[str, Any] = {"batch": "believer"} if rule == "believer" else {"acquisition": rule}
    options |= {"kappa": 0.5} if rule == "ucb" else {}
    report = suggest(
        *(two / model, tmp_library(library, tmp_path), tmp_path / "batch.csv"),
        n=10,
        target="size",
        require="logP < 2.5 and logP > 0",
        **options,
    )
    found = pd.read_csv(tmp_path / "batch.csv")
    loaded = daskrf.load(two / model)
    mean, std = loaded.predict(list(library.smiles), return_std=True, of="f")
    p = norm.cdf((2.5 - mean[:, 1]) / std[:, 1]) * norm.cdf(mean[:, 1] / std[:, 1])
    np.testing.assert_allclose(found.meets, p[found.row], rtol=1e-4)
    assert f"probability of logP < 2.5 and logP > 0: median {found.meets.median():.0%}" in str(report)
    best = library.smiles[:200:2].str.len().max()
    kappa = {"greedy": 0.0, "ucb": 0.5}.get(rule)
    if rule == "ei":
        improvement = ExpectedImprovement(best=float(best), maximize=True)(mean[:, 0], std[:, 0])
        score = improvement + np.log(np.maximum(p, 1e-300))
    elif kappa is not None:
        gain = mean[:, 0] + kappa * std[:, 0] - loaded.gp.mean_[0]
        score = loaded.gp.mean_[0] + np.where(gain > 0, gain * p, gain / np.maximum(p, 1e-12))
    else:
        assert found.acquisition[0] == pytest.approx(found.acquisition.max())
        return
    labelled = list(library.smiles[:200:2])
    picks = naive.batch(list(library.smiles), score.tolist(), 10, excluded=labelled)
    assert names(library, found.row.tolist()) == names(library, picks)


def tmp_library(library: pd.DataFrame, folder: Path) -> Path:
    library.to_csv(folder / "library.csv", index=False)
    return folder / "library.csv"


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("size > 3", "is the target that ranks, and cannot be required as well"),
        ("weight < 300", "'weight' is not a target of the model, which has 'size', 'logP'"),
        ("hERG < 5", "cannot be read; write a target of the model"),
        ("logP = 2", "required to be above or below a number"),
    ],
)
def test_requirements_that_cannot_be(
    condition: str, message: str, two: Path, made: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        suggest(two / "exact", made / "fp", tmp_path / "b.csv", n=3, target="size", require=condition)


def test_prices_and_files(made: Path, library: pd.DataFrame, labelled: list[str], tmp_path: Path) -> None:
    """Columns of the library, and other files' molecules however written; from a store and from files."""
    unwanted = [Chem.MolToSmiles(Chem.MolFromSmiles(text), doRandom=True) for text in library.smiles[1::4]]
    (tmp_path / "vendor.smi").write_text("\n".join(unwanted) + "\n")
    report = suggest(
        made / "exact",
        made / "fp",
        tmp_path / "batch.parquet",
        n=30,
        acquisition="greedy",
        where="price < 40",
        exclude=[tmp_path / "vendor.smi"],
    )
    cheap = set(library.smiles[library.price < 40])
    picks = naive.batch(
        list(library.smiles),
        gains(made, library, "exact"),
        30,
        lambda text: text in cheap,
        [*labelled, *unwanted],
    )
    found = pq.read_table(tmp_path / "batch.parquet")["row"].to_pylist()
    assert names(library, found) == names(library, picks)
    assert report.left_out["not price < 40 (column)"] > 0
    assert report.left_out["a molecule of vendor.smi"] > 0
    assert "1,024" not in str(report)
    assert set(pq.read_table(tmp_path / "batch.parquet")["price"].to_pylist()) <= set(map(str, range(40)))
    with pytest.raises(OptionError, match="'cost' is neither a column kept by the library nor a property"):
        suggest(made / "exact", made / "library.csv", tmp_path / "other.csv", where="cost < 40")
    options: dict[str, Any] = {"n": 30, "acquisition": "greedy", "where": "price<40"}
    of_files = suggest(made / "exact", made / "library.csv", tmp_path / "other.csv", **options)
    picks = naive.batch(
        list(library.smiles),
        gains(made, library, "exact"),
        30,
        lambda text: text in cheap,
        excluded=labelled,
    )
    assert names(library, of_files.table["row"].to_pylist()) == names(library, picks)
    assert of_files.left_out["a labelled molecule"] > 0


def test_looks_deeper_until_there_are_enough(
    made: Path, library: pd.DataFrame, labelled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    depths = []
    plan = LibraryRanking.plan

    def planned(self: Any, run: Any, spec: Any) -> Any:
        depths.append(self.k)
        return plan(self, run, spec)

    monkeypatch.setattr(LibraryRanking, "plan", planned)
    options: dict[str, Any] = {"n": 20, "acquisition": "greedy", "max_similarity": 0.18}
    suggest(made / "exact", made / "fp", tmp_path / "batch.csv", **options)
    picks = naive.batch(
        list(library.smiles), gains(made, library, "exact"), 20, excluded=labelled, max_similarity=0.18
    )
    assert names(library, pd.read_csv(tmp_path / "batch.csv").row.tolist()) == names(library, picks)
    assert len(depths) > 1


@pytest.mark.parametrize("kappa", [0.5, 3.0])
def test_believer_conditions_on_each_pick(
    kappa: float, made: Path, labelled: list[str], library: pd.DataFrame, tmp_path: Path
) -> None:
    suggest(
        *(made / "exact", made / "fp", tmp_path / "batch.csv"),
        n=12,
        acquisition="ucb",
        batch="believer",
        kappa=kappa,
    )
    gp = read_model(made / "exact").gp
    assert isinstance(gp, ExactGP)
    names = {Chem.CanonSmiles(text) for text in labelled}
    free, seen = [], set()
    for i, text in enumerate(library.smiles):
        if (name := Chem.CanonSmiles(text)) not in names | seen:
            free.append(i)
            seen.add(name)
    from daskrf.molecules import Fingerprinter

    X = Fingerprinter()(list(library.smiles[free])).fingerprints
    mean, covariance = gp.predict(X, return_cov=True, of="f")
    picks = naive.as_damage((-mean).tolist(), covariance, float(gp.noise_variance_[0]), kappa, 12)
    found = pd.read_csv(tmp_path / "batch.csv")
    assert found.row.tolist() == [free[i] for i in picks]
    assert found.acquisition.is_monotonic_decreasing


def test_thompson_takes_the_best_of_each_draw(
    made: Path, labelled: list[str], library: pd.DataFrame, tmp_path: Path
) -> None:
    for model in ("exact", "features"):
        report = suggest(
            made / model, made / "fp", tmp_path / f"{model}.csv", n=15, acquisition="thompson", seed=4
        )
        found = pd.read_csv(tmp_path / f"{model}.csv")
        assert "the picks are the best molecules of 15 posterior samples, one each" in report.notes
        assert found.row.is_unique
        assert not {Chem.CanonSmiles(t) for t in found.smiles} & {Chem.CanonSmiles(t) for t in labelled}
        gp = read_model(made / model).gp
        weights = gp.weights_of_draws(15, 4)  # type: ignore[union-attr]
        np.testing.assert_allclose(weights[:, :1], gp.weights_of_draw(4), rtol=1e-6)  # type: ignore[union-attr]
        assert weights.shape[1] == 15
        assert found.why.str.fullmatch(r"number \d+ of draw \d+").all()
        assert sorted(found.why.str.extract(r"draw (\d+)")[0].astype(int)) == list(range(1, 16))


def test_draws_of_thompson_are_the_functions_ranked(made: Path, library: pd.DataFrame) -> None:
    from daskrf.molecules import Fingerprinter

    X = Fingerprinter()(list(library.smiles)).fingerprints
    gp = read_model(made / "exact").gp
    together = gp.drawn(gp.weights_of_draws(3, 7), 7).predict(X)  # type: ignore[union-attr]
    alone = gp.draw(7).predict(X)
    np.testing.assert_allclose(together[:, 0], alone, rtol=1e-5)
    assert together.shape == (len(library), 3)


@pytest.mark.parametrize(
    ("given", "kappa"), [({}, 1.0), ({"kappa": 0.25}, 0.25), ({"acquisition": "ucb"}, 1.0)]
)
def test_the_default_is_one_deviation(
    given: dict[str, Any], kappa: float, made: Path, tmp_path: Path
) -> None:
    store = made / "fp"
    found = suggest(made / "exact", store, tmp_path / "a.csv", n=10, **given)
    same = suggest(made / "exact", store, tmp_path / "b.csv", n=10, acquisition="ucb", kappa=kappa)
    assert found.table.equals(same.table)
    assert found.acquisition == f"ucb (kappa {kappa:g})"
    table = found.table.to_pandas()
    np.testing.assert_allclose(table.acquisition, -table["mean"] + kappa * table["std"])
    assert table.acquisition.is_monotonic_decreasing


@pytest.mark.parametrize("usual", [None, 30])
@pytest.mark.parametrize("rule", ["ucb", "ei", "believer"])
def test_a_small_batch_begins_a_large_one(
    rule: str, usual: int | None, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a library smaller than the candidates, and in a larger one (there are 300 candidates)."""
    if usual:
        monkeypatch.setattr(shortlist, "_USUAL", usual)
    options: dict[str, Any] = {"acquisition": "ei" if rule == "ei" else "ucb"}
    options |= {} if rule == "ei" else {"kappa": 5.0}  # which ranks molecules far below the best means
    options |= {"batch": "believer"} if rule == "believer" else {}
    large = suggest(made / "exact", made / "fp", tmp_path / "large.csv", n=30, **options)
    for n in (1, 3):
        small = suggest(made / "exact", made / "fp", tmp_path / f"{n}.csv", n=n, **options)
        assert small.table["row"].to_pylist() == large.table["row"].to_pylist()[:n]
    said = f"chosen by {small.acquisition} from {'the 300 molecules with the best means' if usual else 'all'}"
    assert sum(said in note for note in small.notes) == 1


def test_deviations_of_all_molecules(
    made: Path,
    library: pd.DataFrame,
    labelled: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With std="all", the batch is the best of the library, whatever the means are."""
    monkeypatch.setattr(shortlist, "_USUAL", 3)
    mean, std = daskrf.load(made / "exact").predict(list(library.smiles), return_std=True, of="f")
    picks = naive.batch(list(library.smiles), (-mean + 50 * std).tolist(), 3, excluded=labelled)
    options: dict[str, Any] = {"n": 3, "acquisition": "ucb", "kappa": 50.0}
    every = suggest(made / "exact", made / "fp", tmp_path / "all.csv", std="all", **options)
    assert names(library, every.table["row"].to_pylist()) == names(library, picks)
    assert not any("best means" in note for note in every.notes)
    few = suggest(made / "exact", made / "fp", tmp_path / "few.csv", **options)
    assert names(library, few.table["row"].to_pylist()) != names(library, picks)
    assert "from the 30 molecules with the best means that pass; --std all ranks all" in str(few)


def test_help_and_option_agree_on_kappa() -> None:
    (kappa,) = (each for each in parameters_of_rules() if each.name == "kappa")
    assert kappa.default == 1.0 == acquisition_for("ucb").state()["kappa"]
    assert "kappa of" not in (suggest.__doc__ or "").split("Returns")[0]


def test_help_promises_the_best_of_all_only_where_all_are_ranked() -> None:
    """By default the candidates have the best means, as `test_deviations_of_all_molecules` shows."""
    promised = " ".join((suggest.__doc__ or "").split("Parameters")[0].split())
    assert "the molecules with the best means, or all of them (see --std)" in promised
    assert "best of all" not in promised


def test_too_few_molecules(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "batch.csv"
    with pytest.raises(InputError, match=r"only (\d+) can be chosen.*ask for -n \1, or") as error:
        suggest(made / "exact", made / "fp", path, n=5000)
    assert "a labelled molecule" in str(error.value)
    assert "the same molecule as a pick" in str(error.value)
    with pytest.raises(InputError, match=r"none can be chosen \(.*not weight < 10"):
        suggest(made / "exact", made / "fp", path, n=5, where="weight < 10")
    assert not path.exists()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "n": ({"n": 0}, "at least 1"),
    "batch": ({"batch": "best"}, "batch is one of ranked, believer"),
    "std": ({"std": "none"}, "std is one of candidates, all, not 'none'"),
    "std of means": (
        {"std": "all", "acquisition": "greedy"},
        "greedy ranks all molecules without standard deviations; leave out --std all",
    ),
    "std of a front": ({"std": "all", "target": ["a", "b"]}, "leave out --std"),
    "believer": (
        {"acquisition": "greedy", "batch": "believer"},
        "greedy does not use standard deviations",
    ),
    "seed": ({"seed": 3}, "--seed is for random draws"),
    "similarity": ({"max_similarity": 70}, "from 0 to 1"),
    "scaffold": ({"per_scaffold": 0}, "at least 1"),
    "where": ({"where": "weight below 400"}, "'weight below 400' cannot be read"),
    "name": ({"where": "wieght < 400"}, "'wieght' is neither a column"),
    "smarts": ({"smarts": "C1CC"}, "RDKit cannot read the SMARTS 'C1CC'"),
    "alerts": ({"alerts": "pain"}, "no alert catalog 'pain'"),
    "kappa": ({"acquisition": "greedy", "kappa": 2.0}, "--kappa goes with"),
    "shortlist": ({"shortlist": 0.5}, "A shortlist works only for"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, made: Path, tmp_path: Path) -> None:
    options, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        suggest(made / "exact", made / "fp", tmp_path / "batch.csv", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_batch_is_not_written_over(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "batch.csv"
    path.write_text("scores that somebody has filled in\n")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"was not written by daskrf, and is never replaced"):
            suggest(made / "exact", made / "fp", path, overwrite=overwrite)
    assert path.read_text().startswith("scores")
    path.unlink()
    suggest(made / "exact", made / "fp", path, n=4)
    assert status(path).kind == "batch"
    for words in (
        "batch of 4 molecules from 720 by ucb",
        "minimizing 'score'",
        "model: exact, hash ",
        "library: fp, ",
    ):
        assert words in str(status(path))
    with pytest.raises(StoreError, match=r"exists; give another path, or replace it by --overwrite"):
        suggest(made / "exact", made / "fp", path, n=3)
    suggest(made / "exact", made / "fp", path, n=3, overwrite=True)
    assert len(pd.read_csv(path)) == 3
    path.write_text(path.read_text().replace("\n", ",-7.3\n"))  # scores are filled in
    with pytest.raises(InputError, match=r"was changed since daskrf wrote it, and is never replaced"):
        suggest(made / "exact", made / "fp", path, n=3, overwrite=True)
    assert "was changed since it was written" in str(verify(path))
    assert "a batch of molecules to measure, changed since it was written" in str(found := status(path))
    assert not found.complete
    assert f" bytes were written, and there are {path.stat().st_size:,}" in str(found)
    record = pq.read_table(record_of(path))
    damaged = record.schema.metadata | {b"daskrf.file": b"{}"}
    pq.write_table(record.replace_schema_metadata(damaged), record_of(path))
    assert f"its record, {record_of(path).name}, is damaged" in str(status(path))


def test_an_input_is_never_the_output(made: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    vendor = tmp_path / "vendor.smi"
    shutil.copy(inputs[0], vendor)
    before = vendor.read_bytes()
    (tmp_path / "link.smi").symlink_to(vendor)
    for source in (vendor, tmp_path / "v*.smi", [vendor], tmp_path / "link.smi"):
        for command in (suggest, screen, predict):
            options: dict[str, Any] = {} if command is predict else {"overwrite": True}
            with pytest.raises(
                InputError, match=r"vendor\.smi is an input \(source\), and would be replaced"
            ):
                command(made / "exact", source, vendor, **options)
    with pytest.raises(InputError, match=r"vendor\.smi is an input \(exclude\)"):
        suggest(made / "exact", made / "fp", vendor, exclude=vendor, overwrite=True)
    assert vendor.read_bytes() == before
    with pytest.raises(OptionError, match=r"ending of .*batch\.doc does not say"):
        suggest(made / "exact", made / "fp", tmp_path / "batch.doc")


def test_a_model_whose_library_is_gone(made: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """The model knows its molecules by itself."""
    shutil.copytree(made / "fp", tmp_path / "fp")
    fit(tmp_path / "fp", inputs[1], tmp_path / "model", direction="minimize", quick=True)
    shutil.rmtree(tmp_path / "fp")
    report = suggest(tmp_path / "model", made / "library.csv", tmp_path / "batch.csv", n=10)
    assert report.left_out["a labelled molecule"] > 0
    assert "similarity_to_labelled" in report.table.column_names


def test_candidates_from_a_file_alone_get_fingerprints_again(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    class Counting(Fingerprinter):
        def __call__(self, smiles: Any) -> Any:
            counted.append(len(smiles))
            return super().__call__(smiles)

    monkeypatch.setattr(reading, "Fingerprinter", Counting)
    monkeypatch.setattr(shortlist, "_USUAL", 5)
    n_rows = len(pd.read_csv(made / "library.csv"))
    stored = suggest(made / "exact", made / "fp", tmp_path / "stored.csv", n=5)
    found = suggest(made / "exact", made / "library.csv", tmp_path / "found.csv", n=5)
    assert sum(counted) == n_rows + 50  # ten candidates a pick
    assert found.table["smiles"].equals(stored.table["smiles"])
    assert found.table["mean"].to_pylist() == pytest.approx(stored.table["mean"].to_pylist())


def test_one_process_and_two_workers_choose_the_same(made: Path, client: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"n": 20, "where": "logp < 4", "alerts": "brenk", "max_similarity": 0.5}
    here = suggest(made / "features", made / "fp", tmp_path / "a.csv", **options)
    there = suggest(made / "features", made / "fp", tmp_path / "b.csv", client=client, **options)
    assert here.table.equals(there.table)
    assert here.left_out == there.left_out


def test_filters_say_which_demand_is_not_met(made: Path) -> None:
    from daskrf.sources.sources import open_source

    source = open_source(stored_library(made / "fp"), None, raw=True)
    filters = Filters.of("price < 40 and logp < 3", "c", (), (), columns=("price",))
    passing = Passing(source, filters)
    table = pd.read_csv(made / "library.csv")
    codes = passing.codes(np.arange(len(table)))
    for text, price, code in zip(table.smiles, table.price, codes.tolist(), strict=True):
        m = Chem.MolFromSmiles(text)
        met = [price < 40, Crippen.MolLogP(m) < 3, m.HasSubstructMatch(Chem.MolFromSmarts("c"))]
        assert code == (-1 if all(met) else met.index(False))


@pytest.mark.parametrize("rule", ["ucb", "thompson"])
def test_shards_score_and_the_last_command_chooses(
    rule: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is that of one process, and a shard that never came is made up for."""
    monkeypatch.setattr(libraryranking, "_LEAST_ROWS", 1)  # a partition a piece
    options: dict[str, Any] = {"n": 15, "acquisition": rule, "where": "price < 60", "max_similarity": 0.6}
    whole = suggest(made / "exact", made / "fp", tmp_path / "whole.csv", **options).table
    paths = made / "exact", made / "fp", tmp_path / "shards.csv"
    assert prepare_shards(suggest, *paths, **options).made == 0
    reports = [run_shard(suggest, f"{i}/3", *paths, **options) for i in (2, 0)]
    assert all(report.made for report in reports)
    assert not (tmp_path / "shards.csv").exists()
    with pytest.raises(StoreError, match="was prepared for shards with other options"):
        run_shard(suggest, "1/3", *paths, **options | {"where": "price < 59"})
    scored = []
    add = searches.Candidates.add
    monkeypatch.setattr(searches.Candidates, "add", lambda *a: (scored.append(a), add(*a))[1])
    found = suggest(*paths, **options).table
    assert found.equals(whole)
    assert 0 < len(scored) < FingerprintStore.open(made / "fp").n_partitions
