"""Exact processes as jobs: fitted from stores, stored, predicted, screened, and begun again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client
from scipy import sparse

from daskrf import ExactGP, featurize, fingerprint, fit, load, predict, screen
from daskrf.acquisition import acquisition_for
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.gp import choose_kernel
from daskrf.gp.solve.kernelmatrix import KernelMatrix
from daskrf.jobs.shards import run_shard
from daskrf.kernels import Gaussian, TanimotoMinMax
from daskrf.kernels.kernel import from_state as kernel_from_state
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.storage.inspection import status, verify
from daskrf.storage.model import load_model
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from tests.jobs.job import FEATURES, N_MOLECULES, model_arrays

EXACT: dict[str, Any] = {
    "process": "exact",
    "quick": True,
    "n_landmarks": 30,
    "n_features": 512,
    "n_draws": 4,
}
SOLVERS = ["cholesky", "cg"]


@pytest.fixture(scope="module")
def store(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exact") / "fp"
    fingerprint(inputs[0], path, rows_per_partition=50)
    return path


@pytest.fixture(scope="module")
def library(store: Path) -> tuple[Any, pa.Table]:
    """Fingerprints and rows of the whole library."""
    found = FingerprintStore.open(store)
    parts = range(found.n_partitions)
    fingerprints = sparse.vstack([found.read_fingerprints(p) for p in parts], format="csr")
    return fingerprints, pa.concat_tables([found.read_rows(p, ["row", "id"]) for p in parts])


@pytest.fixture(scope="module")
def labelled(inputs: tuple[Path, Path], library: tuple[Any, pa.Table]) -> tuple[Any, np.ndarray]:
    """Fingerprints and labels of the labelled molecules, in the order of the library."""
    lines = [line.split(",") for line in inputs[1].read_text().splitlines()[1:]]
    values = {name: float(value) for name, value in lines}
    ids = library[1]["id"].to_pylist()
    rows = [i for i, name in enumerate(ids) if name in values]
    return library[0][rows], np.array([values[ids[i]] for i in rows])


@pytest.fixture(scope="module", params=SOLVERS)
def solver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(solver: str, store: Path, inputs: tuple[Path, Path], tmp_path_factory: Any) -> Path:
    path = tmp_path_factory.mktemp("models") / solver
    fit(store, inputs[1], path, solver=solver, direction="minimize", **EXACT)
    return path


@pytest.fixture(scope="module")
def direct(solver: str, labelled: tuple[Any, np.ndarray]) -> ExactGP:
    """The same process, fitted to the same molecules directly."""
    options = {name: value for name, value in EXACT.items() if name not in ("process", "quick")}
    return ExactGP(TanimotoMinMax(), solver=solver, **options).fit(*labelled)


def predictions(path: Path) -> dict[str, np.ndarray]:
    store = PredictionStore.open(path)
    table = pa.concat_tables([store.read(p) for p in range(store.n_partitions)])
    return {name: table[name].to_numpy() for name in table.column_names}


def test_a_model_is_that_of_the_process(model: Path, direct: ExactGP, library: Any) -> None:
    loaded = load(model)
    for of in ("y", "f"):
        for found, expected in zip(
            loaded.predict(library[0], return_std=True, of=of),
            direct.predict(library[0], return_std=True, of=of),
            strict=True,
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert not verify(model).damaged
    assert "exact Gaussian process with Tanimoto (min-max)" in str(status(model))


def test_smiles_are_predicted_and_features_are_not(model: Path) -> None:
    assert load(model).predict(["CCO", "c1ccccc1"]).shape == (2,)
    assert load(model).predict([]).shape == (0,)
    with pytest.raises(InputError, match="takes SMILES or fingerprints"):
        load(model).predict(np.zeros((1, 8), np.uint8))


@pytest.mark.parametrize("std", [False, True])
def test_predictions_are_those_of_the_process(
    model: Path, direct: ExactGP, store: Path, library: Any, tmp_path: Path, client: Client, std: bool
) -> None:
    predict(model, store, tmp_path / "here", std=std)
    predict(model, store, tmp_path / "there", std=std, client=client)
    found, there = predictions(tmp_path / "here"), predictions(tmp_path / "there")
    mean, std_f, std_y = direct.predict(library[0], return_std=True, of="both")
    expected = {"mean": mean, **({"std": std_f, "std_y": std_y} if std else {})}
    assert set(found) == {"row", "id", "smiles", *expected}
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6)
        assert found[name].tobytes() == there[name].tobytes()


def test_files_of_smiles_are_predicted_as_their_store(
    model: Path, store: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    predict(model, store, tmp_path / "store")
    predict(model, inputs[0], tmp_path / "smiles")
    a, b = predictions(tmp_path / "store"), predictions(tmp_path / "smiles")
    assert (a["id"] == b["id"]).all()
    for name in ("mean", "std", "std_y"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-5)


@pytest.mark.parametrize("rule", ["greedy", "ucb", "thompson"])
def test_hits_are_the_best_of_all(
    rule: str, model: Path, direct: ExactGP, store: Path, library: Any, tmp_path: Path, client: Client
) -> None:
    seed: dict[str, Any] = {"seed": 2} if rule == "thompson" else {}
    reports = [
        screen(model, store, tmp_path / f"{i}.parquet", k=12, acquisition=rule, std="all", client=c, **seed)
        for i, c in enumerate((None, client))
    ]
    assert [r.table.num_rows for r in reports] == [12, 12]
    assert (tmp_path / "0.parquet").read_bytes() == (tmp_path / "1.parquet").read_bytes()
    mean, std = direct.predict(library[0], return_std=True, of="f")
    gain = {"thompson": direct.draw(2).predict(library[0])}.get(rule, mean)
    scores = acquisition_for(rule)(gain, std)
    table = pq.read_table(tmp_path / "0.parquet")
    np.testing.assert_allclose(table["acquisition"], np.sort(scores)[::-1][:12], rtol=1e-4)


def test_candidates_get_the_deviations_of_the_process(
    model: Path, direct: ExactGP, store: Path, library: Any, tmp_path: Path
) -> None:
    screen(model, store, tmp_path / "hits.parquet", k=7)
    table = pq.read_table(tmp_path / "hits.parquet")
    order = np.searchsorted(library[1]["row"].to_numpy(), table["row"].to_numpy())
    mean, std, std_y = direct.predict(library[0][order], return_std=True, of="both")
    for name, values in (("mean", mean), ("std", std), ("std_y", std_y)):
        np.testing.assert_allclose(table[name], values, rtol=1e-4)


def test_draws_are_functions_with_the_mean_of_the_posterior(solver: str, labelled: Any, library: Any) -> None:
    gp = ExactGP(
        TanimotoMinMax(), solver=solver, n_draws=200, n_features=2048, n_landmarks=30, tolerance=1e-4
    ).fit(*labelled)
    new = library[0][-40:]
    draws = np.column_stack([gp.draw(seed).predict(new) for seed in range(200)])
    mean, std = gp.predict(new, return_std=True, of="f")
    assert (np.abs(draws.mean(axis=1) - mean) < 5 * std / 200**0.5).all()
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.35)
    assert draws[:, 0].tolist() == gp.draw(0).predict(new).tolist()
    if solver == "cg":
        with pytest.raises(InputError, match="has 200 posterior samples"):
            gp.draw(200)


def test_targets_with_gaps_have_a_process_each(
    store: Path, inputs: tuple[Path, Path], labelled: Any, library: Any, tmp_path: Path
) -> None:
    lines = inputs[1].read_text().splitlines()[1:]
    other = [f"{line},{-float(line.split(',')[1]) if i % 3 else ''}" for i, line in enumerate(lines)]
    (tmp_path / "two.csv").write_text("id,a,b\n" + "\n".join(other) + "\n")
    report = fit(
        store, tmp_path / "two.csv", tmp_path / "model", target=["a", "b"], drop_non_numbers=True,
        solver="cg", together=False, **EXACT,
    )  # fmt: skip
    assert len(report.solved) == 2
    mean, std = load(tmp_path / "model").predict(library[0], return_std=True)
    assert mean.shape == std.shape == (library[0].shape[0], 2)
    options = {name: value for name, value in EXACT.items() if name not in ("process", "quick")}
    X, y = labelled
    some = np.arange(len(y)) % 3 > 0
    for column, gp in enumerate(ExactGP(TanimotoMinMax(), solver="cg", **options) for _ in range(2)):
        gp.fit(*((X, y) if column == 0 else (X[some], -y[some])))
        np.testing.assert_allclose(mean[:, column], gp.predict(library[0]), rtol=1e-5)
    predict(tmp_path / "model", store, tmp_path / "pred")
    np.testing.assert_allclose(predictions(tmp_path / "pred")["std_y_b"], std[:, 1], rtol=1e-5)
    screen(tmp_path / "model", store, tmp_path / "hits.parquet", k=3, target="b", maximize=True)
    best = pq.read_table(tmp_path / "hits.parquet")["mean"].to_numpy()
    np.testing.assert_allclose(best, np.sort(mean[:, 1])[::-1][:3], rtol=1e-5)


def test_targets_of_the_same_molecules_share_each_kernel_value(
    store: Path, inputs: tuple[Path, Path], labelled: Any, library: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    lines = inputs[1].read_text().splitlines()[1:]
    scale = [float(line.split(",")[1]) for line in lines]
    other = [f"{line},{-3 * y},{y * y}" for line, y in zip(lines, scale, strict=True)]
    (tmp_path / "three.csv").write_text("id,a,b,c\n" + "\n".join(other) + "\n")
    own, asked = KernelMatrix.total, []
    monkeypatch.setattr(
        KernelMatrix, "total", lambda self, terms: asked.append(terms.vectors.shape) or own(self, terms)
    )
    exact = {**EXACT, "solver": "cg", "tolerance": 1e-4, "together": False}
    report = fit(store, tmp_path / "three.csv", tmp_path / "model", target=["a", "b", "c"], **exact)
    together, n_products = (
        len(asked),
        [int(words.split(" products")[0].split()[-1]) for words in report.solved],
    )
    assert together == max(n_products) + 3  # the squares of each target are its own
    assert {shape[1:] for shape in asked} >= {(18,), ()}  # six right-hand sides of each
    mean, std = load(tmp_path / "model").predict(library[0], return_std=True)
    options = {name: value for name, value in exact.items() if name not in ("process", "quick", "together")}
    X, y = labelled
    for column, labels in enumerate((y, -3 * y, y * y)):
        alone = ExactGP(TanimotoMinMax(), **options).fit(X, labels)
        expected = alone.predict(library[0], return_std=True)
        np.testing.assert_allclose(mean[:, column], expected[0], rtol=1e-3, atol=1e-3 * np.std(labels))
        np.testing.assert_allclose(std[:, column], expected[1], rtol=1e-3)


def test_a_fit_that_was_killed_goes_on(
    store: Path, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"solver": "cg", **EXACT}
    fit(store, inputs[1], tmp_path / "whole", **options)
    own, made = KernelMatrix.total, []

    def total(self: Any, terms: Any) -> Any:
        made.append(1)
        if len(made) == 9:
            raise KeyboardInterrupt
        return own(self, terms)

    monkeypatch.setattr(KernelMatrix, "total", total)
    with pytest.raises(KeyboardInterrupt):
        fit(store, inputs[1], tmp_path / "model", **options)
    made.clear()
    made.extend([0] * 100)
    report = fit(store, inputs[1], tmp_path / "model", **options)
    n_products = int(report.solved[0].split(" products")[0].split()[-1])
    assert len(made) - 100 == n_products + 1 - 8  # and that of squares
    left, right = model_arrays(tmp_path / "whole"), model_arrays(tmp_path / "model")
    assert left.keys() == right.keys()
    assert all(left[name].tobytes() == right[name].tobytes() for name in left)


def test_shards_gather_and_the_last_command_solves(
    store: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    options = {"solver": "cg", **EXACT}
    with patch("daskrf.fitting.parts._GROUP_ROWS", (1, 1)):
        fit(store, inputs[1], tmp_path / "whole", **options)
        for shard in ("1/3", "0/3", "2/3"):
            run_shard(fit, shard, store, inputs[1], tmp_path / "model", **options)
        with patch.object(FingerprintStore, "read_fingerprints", None):
            fit(store, inputs[1], tmp_path / "model", **options)
    left, right = model_arrays(tmp_path / "whole"), model_arrays(tmp_path / "model")
    assert all(left[name].tobytes() == right[name].tobytes() for name in left)


def test_the_same_command_leaves_the_model_and_other_options_begin_from_it(
    store: Path, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"solver": "cg", "noise_variance": 0.1, **EXACT}
    first = fit(store, inputs[1], tmp_path / "model", **options)
    before = (tmp_path / "model" / "_arrays.json").read_bytes()
    again = fit(store, inputs[1], tmp_path / "model", **options)
    assert (tmp_path / "model" / "_arrays.json").read_bytes() == before
    assert again.solved == first.solved
    with monkeypatch.context() as patch:
        patch.setattr(FingerprintStore, "read_fingerprints", None)
        other = fit(store, inputs[1], tmp_path / "model", **{**options, "noise_variance": 0.11})
    assert other.noise_variance == (0.11,)
    with pytest.raises(StoreError, match="other options"):
        fit(store, inputs[1], tmp_path / "model", **{**options, "quick": False, "kernel": Gaussian(3.0)})


def test_what_cannot_be_is_refused(store: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    featurize(store, FEATURES, tmp_path / "phi")
    for source, options, message in (
        (tmp_path / "phi", {}, "give the fingerprint store"),
        (store, {"feature_map": FEATURES}, "has no features"),
        (store, {"criterion": "bound"}, "has no option criterion"),
        (store, {"n_draws": 0}, "n_draws must be a positive integer"),
        (store, {"n_subset": 100}, "has no option n_subset"),
        (store, {"cache_bytes": 2**60}, "has no option cache_bytes"),
        (store, {"process": "exakt"}, "process is one of"),
        (store, {"process": "features", "kernel": TanimotoMinMax()}, "of their map"),
        (store, {"solver": "cg", "max_iterations": 2, "n_landmarks": 5}, "give more of them"),
        (store, {"noise_variance": 0}, "--noise-variance must be positive|noise_variance must be"),
    ):
        with pytest.raises(InputError, match=message):
            fit(source, inputs[1], tmp_path / "model", **{"process": "exact", **options})
        assert not (tmp_path / "model").exists()


def test_the_kernel_is_chosen_printed_and_kept(
    store: Path, inputs: tuple[Path, Path], tmp_path: Path, labelled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = fit(store, inputs[1], tmp_path / "model", process="exact")
    expected = choose_kernel(*labelled, FingerprintSpec().columns)
    (choice,) = report.choices
    assert choice == expected
    assert report.kernel == expected.kernel.words()
    assert str(expected).splitlines()[0] in str(report)
    assert (
        list(status(tmp_path / "model").words[-len(str(expected).splitlines()) :])
        == str(expected).splitlines()
    )
    assert kernel_from_state(load_model(tmp_path / "model").metadata["gp"]["kernel"]) == expected.kernel
    monkeypatch.setattr("daskrf.fitting.exactsolve.choose_kernel", None)  # nothing is tried again
    again = fit(store, inputs[1], tmp_path / "model", process="exact", noise_variance=0.5)
    assert (again.choices, again.kernel) == (report.choices, report.kernel)
    quick = fit(store, inputs[1], tmp_path / "quick", process="exact", quick=True)
    assert quick.choices == (None,)
    for options in ({"kernel": TanimotoMinMax()}, {"process": "features"}, {"feature_map": FEATURES}):
        with pytest.raises(OptionError, match="--quick goes with an exact process"):
            fit(store, inputs[1], tmp_path / "none", quick=True, **options)


def test_a_fit_that_was_killed_keeps_its_choice(
    store: Path, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ExactGP, "fit", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fit(store, inputs[1], tmp_path / "model", process="exact")
    monkeypatch.setattr("daskrf.fitting.exactsolve.choose_kernel", None)
    report = fit(store, inputs[1], tmp_path / "model", process="exact")
    assert report.choices[0] is not None


def test_repeated_molecules_and_very_few_labels(solver: str, tmp_path: Path) -> None:
    molecules, y = tmp_path / "molecules.csv", [0.0, 2.0, 1.0, 0.5, 2.5, 1.5, 0.2, 1.8]
    molecules.write_text("smiles,id\n" + "".join(f"CCO,m{i}\n" for i in range(len(y))))
    fingerprint(molecules, tmp_path / "fp")
    for n in (2, 3, len(y)):
        labels, path = tmp_path / f"{n}.csv", tmp_path / f"model-{n}"
        labels.write_text("id,y\n" + "".join(f"m{i},{y[i]}\n" for i in range(n)))
        report = fit(tmp_path / "fp", labels, path, solver=solver, **EXACT)
        predict(path, tmp_path / "fp", tmp_path / f"predicted-{n}")
        found = predictions(tmp_path / f"predicted-{n}")
        np.testing.assert_allclose(found["mean"], np.mean(y[:n]), atol=1e-3)
        np.testing.assert_allclose(found["std_y"], np.std(y[:n]), rtol=0.05)
        assert "sees no signal" in str(report)
    labels.write_text("id,y\nm0,1.0\n")
    with pytest.raises(InputError, match="signal and noise variance cannot be fitted"):
        fit(tmp_path / "fp", labels, tmp_path / "model-1", solver=solver, **EXACT)


def test_labels_that_are_added_begin_from_the_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskrf.gp.processes.exact._FIRST_GUESS", 100)
    smiles = ReactionLibrary().smiles(0, N_MOLECULES)
    X = Fingerprinter(FingerprintSpec())(smiles).fingerprints
    y = score(smiles) + 0.3 * np.random.default_rng(0).standard_normal(N_MOLECULES)
    n, options = N_MOLECULES - 20, {"solver": "cg", "n_features": 2048, "n_landmarks": 60}
    before = ExactGP(TanimotoMinMax(), **options).fit(X[:n], y[:n])
    cold = ExactGP(TanimotoMinMax(), **options).fit(X, y)
    warm = ExactGP(TanimotoMinMax(), **options).fit(X, y, start=before)
    assert warm.n_iterations_ < 0.6 * cold.n_iterations_
    given = {"signal_variance": warm.signal_variance_[0], "noise_variance": warm.noise_variance_[0]}
    same = ExactGP(TanimotoMinMax(), **options, **given).fit(X, y)
    np.testing.assert_allclose(warm.predict(X), same.predict(X), atol=1e-3)
    scaled = ExactGP(TanimotoMinMax(), **options).fit(X, 10 * y, start=before)  # labels in other units
    np.testing.assert_allclose(scaled.noise_variance_, 100 * cold.noise_variance_, rtol=0.1)
    np.testing.assert_allclose(scaled.signal_variance_, 100 * cold.signal_variance_, rtol=0.1)
    with pytest.raises(InputError, match="X does not begin with its rows"):
        ExactGP(TanimotoMinMax(), **options).fit(X[::-1], y[::-1], start=before)


def test_a_shortlist_finds_the_same_hits(
    store: Path, inputs: tuple[Path, Path], library: Any, tmp_path: Path, client: Client, monkeypatch: Any
) -> None:
    options = {**EXACT, "n_landmarks": 120, "solver": "cg"}
    fit(store, inputs[1], tmp_path / "model", direction="minimize", **options)
    whole = screen(tmp_path / "model", store, tmp_path / "whole.parquet", k=5, shortlist=1.0)
    monkeypatch.setattr("daskrf.screens.libraryranking._LEAST_LIBRARY", 100)
    own, ranked = ExactGP.predict, []

    def counted(self: Any, X: Any, *arguments: Any, **keywords: Any) -> Any:
        ranked.append(X.shape[0])
        return own(self, X, *arguments, **keywords)

    monkeypatch.setattr(ExactGP, "predict", counted)
    found = screen(tmp_path / "model", store, tmp_path / "short.parquet", k=5)
    n_rows = library[0].shape[0]
    # Of 32 partitions all 12 are sampled, and all of their rows; then the shortlist, and its hits once more.
    assert sum(ranked) < 1.6 * n_rows
    assert found.table["row"].to_pylist() == whole.table["row"].to_pylist()
    assert found.rows == whole.rows == n_rows
    (note,) = (note for note in found.notes if "landmarks" in note)
    assert "include 99.0% of the best 100 of 600 sampled" in note or "include 100.0% of the best 100" in note
    there = screen(tmp_path / "model", store, tmp_path / "there.parquet", k=5, client=client, shortlist=0.4)
    here = screen(tmp_path / "model", store, tmp_path / "here.parquet", k=5, shortlist=0.4)
    assert there.table.equals(here.table)
    assert "ranks the best 40.00%" in " ".join(here.notes)
    with pytest.raises(StoreError, match="shortlist"):
        screen(tmp_path / "model", store, tmp_path / "here.parquet", k=5, shortlist=0.3)


def test_a_shortlist_that_would_be_most_of_the_library_is_none(
    store: Path, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(store, inputs[1], tmp_path / "model", direction="minimize", solver="cg", **EXACT)
    monkeypatch.setattr("daskrf.screens.libraryranking._LEAST_LIBRARY", 100)
    monkeypatch.setattr("daskrf.screens.shortlist._MOST", 0.01)
    found = screen(tmp_path / "model", store, tmp_path / "hits.parquet", k=5)
    whole = screen(tmp_path / "model", store, tmp_path / "whole.parquet", k=5, shortlist=1.0)
    assert found.table.equals(whole.table)
    assert any("ranks the whole library" in note for note in found.notes)
    for shortlist in (0.0, 1.5):
        with pytest.raises(InputError, match="above 0 and up to 1"):
            screen(tmp_path / "model", store, tmp_path / "no.parquet", shortlist=shortlist)
    fit(store, inputs[1], tmp_path / "features", feature_map=FEATURES, direction="minimize")
    with pytest.raises(InputError, match="for an exact process"):
        screen(tmp_path / "features", store, tmp_path / "no.parquet", shortlist=0.1)


MEMORY = """
import threading, time, psutil, numpy as np
from daskrf import ExactGP
from daskrf.kernels import TanimotoMinMax
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
smiles = ReactionLibrary().smiles(0, 6000)
X, y = Fingerprinter(FingerprintSpec())(smiles).fingerprints, score(smiles)
given = dict(mean=-7.0, signal_variance=0.6, noise_variance=0.2, solver="cg", cache_bytes=0, tolerance=1e-2)
ExactGP(TanimotoMinMax(), **given).fit(X[:200], y[:200])  # compiles
process, peak, at_work = psutil.Process(), [0], [True]
def watch():
    while at_work[0]:
        peak[0] = max(peak[0], process.memory_info().rss)
        time.sleep(0.002)
before = process.memory_info().rss
thread = threading.Thread(target=watch)
thread.start()
gp = ExactGP(TanimotoMinMax(), **given).fit(X, y)
at_work[0] = False
thread.join()
print(peak[0] - before, gp.memory(6000, X.nnz))
"""


def test_the_memory_of_a_fit_is_foreseen() -> None:
    found = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    measured, foreseen = map(int, found.stdout.split())
    assert measured < foreseen < 2 * measured
