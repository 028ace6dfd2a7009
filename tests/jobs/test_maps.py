"""Every feature map through the same drivers; what maps learn from a library, and how tasks carry them."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from daskrf import (
    featurize,
    fingerprint,
    fit,
    fit_map,
    gram,
    plan,
    predict,
    screen,
    status,
    verify,
)
from daskrf.errors import InputError, StoreError
from daskrf.features import (
    CompositionFeatures,
    FeatureMap,
    LandmarkFeatures,
    LocalGaussianFeatures,
    NystromFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.fitting.learner import sampled_rows
from daskrf.gp import (
    LocalGaussianGP,
    RandomFeatureGP,
    SparseGP,
    SufficientStatistics,
    choose_exponent,
    gp_for,
)
from daskrf.gp.sums.sums import Summation
from daskrf.kernels import Exponential, Intersection, TanimotoDotProduct
from daskrf.models.models import read_model
from daskrf.sources.mapreference import MapReference
from daskrf.sources.sources import FingerprintSource
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from tests.floats import assert_agree
from tests.jobs.job import N_LABELS, data_digests, model_arrays

MAPS: dict[str, FeatureMap] = {
    "gaussian": TanimotoMinMaxFeatures(60, distribution="gaussian", random_state=3),
    "cws": TanimotoMinMaxFeatures(67, hashing="cws", random_state=3),
    "composition": CompositionFeatures(Exponential(1.5), n_components=70, random_state=3),
    "dot-product": TanimotoDotProductFeatures(72, bias_correction="residual", random_state=3),
    "landmarks": LandmarkFeatures(80, random_state=3),
    "nystrom": NystromFeatures(40, n_landmarks=60, kernel=Intersection(), random_state=3),
    "medoids": LandmarkFeatures(
        40, kernel=TanimotoDotProduct("sqrt"), selection="kmedoids", n_candidates=200, random_state=3
    ),
}
MAPS["local"] = LocalGaussianFeatures(75, length_scale=6.0, n_centroids=3, random_state=3)
LEARNING = ["dot-product", "landmarks", "medoids", "nystrom", "local"]


@pytest.fixture(scope="module")
def stores(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Fingerprint stores of one library, by rows of a partition."""
    directory = tmp_path_factory.mktemp("maps")
    paths = {rows: directory / f"fp{rows}" for rows in (70, 41, 604)}
    for rows, path in paths.items():
        fingerprint(inputs[0], path, rows_per_partition=rows)
    return paths


@pytest.fixture(scope="module")
def store(stores: dict[int, Path]) -> Path:
    return stores[70]


def _fingerprints(path: Path) -> Any:
    store = FingerprintStore.open(path)
    return sparse.vstack([store.read_fingerprints(p) for p in range(store.n_partitions)], format="csr")


def _predictions(path: Path) -> pa.Table:
    opened = PredictionStore.open(path)
    return pa.concat_tables([opened.read(p) for p in range(opened.n_partitions)])


def _one_sentence(error: pytest.ExceptionInfo[BaseException]) -> str:
    """Return the message, which shows no landmarks."""
    text = str(error.value)
    assert "\n" not in text
    assert len(re.sub(r"/\S*/", "", text)) < 640  # without folders, whose names are as long as they are
    return text


@pytest.mark.parametrize("name", MAPS)
def test_every_map_runs_through_the_pipeline(
    name: str, inputs: tuple[Path, Path], store: Path, tmp_path: Path
) -> None:
    """The model and its predictions are those of a direct computation, with a feature store or without."""
    chosen = MAPS[name]
    before = chosen.state()
    featurize(store, chosen, tmp_path / "phi")
    report = fit(tmp_path / "phi", inputs[1], tmp_path / "model", feature_map=chosen)
    fit(store, inputs[1], tmp_path / "direct", feature_map=chosen)
    assert chosen.state() == before
    for array, value in model_arrays(tmp_path / "model").items():
        direct = model_arrays(tmp_path / "direct")[array]
        if chosen.one_bit:
            assert value.tobytes() == direct.tobytes(), array
        else:  # features of floats depend on the rows of a batch by a few units in the last place
            assert_agree(value, direct, tolerance=1e-5)
    predict(tmp_path / "model", store, tmp_path / "pred")
    table, X = _predictions(tmp_path / "pred"), _fingerprints(store)

    fitted = fit_map(chosen, store)
    phi = fitted.transform_bits(X) if chosen.one_bit else fitted.transform(X)
    joined = model_arrays(tmp_path / "model")
    rows = table["row"].to_numpy()
    labelled = np.searchsorted(rows, joined["labelled_rows"])
    exponents = choose_exponent(joined["labels"]) if chosen.one_bit else None
    sums = Summation.of_map(fitted, one_bit=chosen.one_bit, y_exponents=exponents).zero()
    kernel = fitted.projected_kernel
    diagonal = np.ones(len(phi)) if kernel is None else kernel.diag(X)
    sums.update(phi[labelled], joined["labels"], diagonal[labelled])
    gp = gp_for(fitted).fit_statistics(sums, fitted)
    gp.feature_map_ = None
    assert report.bound == (tuple(gp.bounds_) if isinstance(gp, SparseGP) else ())
    assert ("bound" in str(report)) == isinstance(gp, SparseGP)
    mean, std, std_y = gp.predict(phi, return_std=True, of="both", diagonal=diagonal)
    np.testing.assert_allclose(table["mean"].to_numpy(), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(table["std"].to_numpy(), std, rtol=1e-4)
    np.testing.assert_allclose(table["std_y"].to_numpy(), std_y, rtol=1e-4)

    best = rows[np.argsort(mean, kind="stable")[:5]].tolist()
    for source in (tmp_path / "phi", store, inputs[0]):
        report = screen(
            tmp_path / "model", source, tmp_path / "hits.parquet", k=5, maximize=False, overwrite=True
        )
        hits = report.table
        assert hits["row"].to_pylist() == best
    for acquisition in ("ucb", "thompson"):
        options = {"k": 5, "acquisition": acquisition, "std": "all", "maximize": False, "overwrite": True}
        draws = [
            screen(tmp_path / "model", s, tmp_path / "hits.parquet", **options)
            for s in (tmp_path / "phi", store)
        ]
        assert draws[0].table["row"].to_pylist() == draws[1].table["row"].to_pylist()
    for output in ("phi", "model", "pred"):
        assert "complete" in str(status(tmp_path / output))
        assert not verify(tmp_path / output).damaged
    assert len(str(status(tmp_path / "phi"))) < 1000
    made = sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".log")
    assert made == ["direct", "hits.parquet", "model", "phi", "pred"]


@pytest.mark.parametrize("name", LEARNING)
def test_what_is_learned_depends_on_the_rows_alone(
    name: str, stores: dict[int, Path], client: Client
) -> None:
    chosen = MAPS[name]
    states = [fit_map(chosen, path).state() for path in stores.values()]
    states.append(fit_map(chosen, stores[41], client=client).state())
    assert all(state == states[0] for state in states)
    assert not chosen.is_fitted()


@pytest.mark.parametrize("name", ["dot-product", "landmarks", "local"])
def test_same_bytes_on_workers(
    name: str, inputs: tuple[Path, Path], store: Path, client: Client, tmp_path: Path
) -> None:
    for out, at in ((tmp_path / "here", None), (tmp_path / "workers", client)):
        out.mkdir()
        featurize(store, MAPS[name], out / "phi", client=at)
        with patch("daskrf.fitting.parts._GROUP_ROWS", (1, 1)):
            fit(store, inputs[1], out / "model", feature_map=MAPS[name], client=at)
        predict(out / "model", store, out / "pred", client=at)
        with patch("daskrf.screens.libraryranking._LEAST_ROWS", 1):
            screen(
                out / "model", store, out / "hits.parquet", k=9, acquisition="ucb", client=at, maximize=False
            )
    here, there = tmp_path / "here", tmp_path / "workers"
    assert data_digests(here / "phi") == data_digests(there / "phi")
    left, right = model_arrays(here / "model"), model_arrays(there / "model")
    assert all(left[name].tobytes() == right[name].tobytes() for name in left)
    sums = read_model(here / "model").gp.statistics_  # through the checkpoints of many groups
    assert sums is not None
    assert sums.precision == "double"  # there are fewer labels than five for each feature
    if name != "nystrom":  # whose kernel is not 1 between a row and itself
        assert sums.kernel_trace == N_LABELS
    assert _predictions(here / "pred").equals(_predictions(there / "pred"))
    assert pq.read_table(here / "hits.parquet").equals(pq.read_table(there / "hits.parquet"))


def test_killed_fit_resumes_without_choosing_again(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path
) -> None:
    """A run is killed once it has folded two groups; the next one takes its landmarks and its sums."""
    code = textwrap.dedent(
        f"""
        from unittest.mock import patch
        from daskrf import fit
        from tests.jobs.test_maps import MAPS
        with patch("daskrf.fitting.parts._GROUP_ROWS", (1, 1)):
            chosen = MAPS["landmarks"]
            fit({str(store)!r}, {str(inputs[1])!r}, {str(tmp_path / "model")!r}, feature_map=chosen)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    partials = tmp_path / ".model.daskrf"
    while len(list(partials.glob("level-0-*/_arrays.json"))) < 2 and process.poll() is None:
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "model" / "_arrays.json").exists()
    assert len(list(partials.glob("level-0-*/_arrays.json"))) >= 2
    with (
        patch("daskrf.fitting.parts._GROUP_ROWS", (1, 1)),
        patch("daskrf.fitting.learner._fitted", None),
    ):
        fit(store, inputs[1], tmp_path / "model", feature_map=MAPS["landmarks"])
    with patch("daskrf.fitting.parts._GROUP_ROWS", (1, 1)):
        fit(store, inputs[1], tmp_path / "other", feature_map=MAPS["landmarks"])
    left, right = model_arrays(tmp_path / "model"), model_arrays(tmp_path / "other")
    assert all(left[name].tobytes() == right[name].tobytes() for name in left if name != "weights")
    np.testing.assert_allclose(left["weights"], right["weights"], rtol=1e-6)  # LAPACK's number of threads


def test_finished_work_is_not_done_again(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    chosen = MAPS["landmarks"]
    featurize(store, chosen, tmp_path / "phi")
    fit(store, inputs[1], tmp_path / "model", feature_map=chosen)
    FeatureStore.open(tmp_path / "phi").discard(2)
    with patch("daskrf.fitting.learner._fitted", None):
        assert featurize(store, chosen, tmp_path / "phi").made == 1
        with patch("daskrf.jobs.tree.Tree.make", None):
            again = fit(store, inputs[1], tmp_path / "model", feature_map=chosen, criterion="bound")
    assert read_model(tmp_path / "model").gp.criterion == "bound"  # type: ignore[attr-defined]
    assert again.bound[0] < again.log_marginal_likelihood[0]
    damaged = tmp_path / "phi" / "phi" / "c.1.0"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    repaired = verify(tmp_path / "phi", repair=True)
    assert repaired.repaired == (1,)
    assert str(repaired).startswith("made again: partition 1\n")


@pytest.mark.parametrize(
    "other",
    [LandmarkFeatures(81, random_state=3), LandmarkFeatures(80, random_state=4), MAPS["dot-product"]],
    ids=["size", "seed", "class"],
)
def test_a_changed_map_is_refused_before_it_learns(
    other: FeatureMap, inputs: tuple[Path, Path], store: Path, tmp_path: Path
) -> None:
    featurize(store, MAPS["landmarks"], tmp_path / "phi")
    fit(store, inputs[1], tmp_path / "model", feature_map=MAPS["landmarks"])
    with patch("daskrf.jobs.pieces.run_tasks", None):
        with pytest.raises(StoreError, match=r"--(random-state|n-components|map) \(was ") as error:
            featurize(store, other, tmp_path / "phi")
        _one_sentence(error)
        with pytest.raises(StoreError, match=r"--(random-state|n-components|map) \(was ") as error:
            fit(store, inputs[1], tmp_path / "model", feature_map=other)
        _one_sentence(error)
        with pytest.raises(InputError, match="another map is needed here") as refusal:
            fit(tmp_path / "phi", inputs[1], tmp_path / "m", feature_map=other)
        _one_sentence(refusal)


def test_other_landmarks_are_refused_without_showing_them(store: Path, tmp_path: Path) -> None:
    featurize(store, MAPS["landmarks"], tmp_path / "phi")
    fitted = LandmarkFeatures(80, random_state=3).fit(_fingerprints(store)[100:300])
    with pytest.raises(StoreError, match=r"what the map has learned has changed") as error:
        featurize(store, fitted, tmp_path / "phi")
    _one_sentence(error)


def test_a_fitted_map_is_taken_as_it_is(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    fitted = LandmarkFeatures(30).fit(_fingerprints(store)[:50])
    assert fit_map(fitted, store) is fitted
    fit(store, inputs[1], tmp_path / "model", feature_map=fitted)
    assert read_model(tmp_path / "model").metadata["map"] == fitted.state()


def test_a_long_state_lies_in_a_file(store: Path, tmp_path: Path) -> None:
    fitted = LandmarkFeatures(400).fit(_fingerprints(store))
    source = FingerprintSource.of(FingerprintStore.open(store), fitted)
    assert len(pickle.dumps(source)) > 20_000
    carried = source.carried(tmp_path / "work")
    assert len(pickle.dumps(carried)) < 1_000
    assert carried == source
    assert repr(carried) == repr(source)
    assert carried.map.state == fitted.state()
    folder = Path(carried.map.path)
    assert folder.parent == tmp_path / "work"
    file = folder / "_arrays.json"
    file.write_bytes(file.read_bytes().replace(b"landmarks", b"landmarkz"))
    with pytest.raises(StoreError, match="missing or damaged") as error:
        _ = carried.map.state
    _one_sentence(error)
    assert source.carried(tmp_path / "work").map.state == fitted.state()
    small = MapReference.of(TanimotoMinMaxFeatures(64).state())
    assert small.carried(tmp_path / "nothing") is small
    assert not (tmp_path / "nothing").exists()


def test_a_lazy_array_needs_a_fitted_map(store: Path) -> None:
    X = _fingerprints(store)[:40]
    array = da.from_array(X[:, :64].toarray(), chunks=(20, 64))
    for name in LEARNING:
        with pytest.raises(InputError, match="fit it first") as error:
            featurize(array, MAPS[name])
        _one_sentence(error)
    fitted = LandmarkFeatures(5).fit(np.eye(8, 64, dtype=int))
    phi = featurize(array, fitted)
    assert (phi.shape, phi.dtype) == ((40, 5), np.float32)
    assert np.array_equal(phi.compute(), fitted.transform(X[:, :64]))


def test_local_sums_of_lazy_arrays(client: Client) -> None:
    """One pass makes the sums about all centroids: the same bytes by one process and by two workers."""
    X = np.random.default_rng(0).uniform(-5, 5, (900, 2))
    y = np.sin(3 * X).sum(axis=1)
    fitted = LocalGaussianFeatures(240, n_centroids=8).fit(X)
    lazy = gram(featurize(da.from_array(X, chunks=(40, 2)), fitted), y, feature_map=fitted)
    here, there = lazy.compute(scheduler="sync"), client.compute(lazy).result()
    assert here.n == 900
    for name, array in here.arrays().items():
        assert array.tobytes() == there.arrays()[name].tobytes(), name
    given: dict[str, Any] = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.01}
    gp = LocalGaussianGP(fitted, **given).fit_statistics(there, fitted)
    np.testing.assert_allclose(
        gp.predict(X), LocalGaussianGP(fitted, **given).fit(X, y).predict(X), rtol=1e-5
    )


def test_landmarks_of_lazy_arrays(store: Path) -> None:
    """A graph holds the landmarks once; its sums serve the sparse model."""
    X = _fingerprints(store)
    fitted, y = fit_map(MAPS["landmarks"], store), np.arange(X.shape[0], dtype=float)
    blocks = [da.from_array(X[i : i + 20], chunks=-1, asarray=False) for i in range(0, 600, 20)]
    phi = featurize(da.concatenate(blocks), fitted)
    tasks = [v for k, v in dict(phi.__dask_graph__()).items() if str(k[0]).startswith("_block_features")]
    assert len(tasks) == 30
    assert max(len(pickle.dumps(task)) for task in tasks) < 2_000 < len(str(fitted.state()))
    sums = gram(phi, y, feature_map=fitted).compute(scheduler="sync")
    gp = SparseGP(fitted, mean=0.0, signal_variance=1.0, noise_variance=0.1).fit_statistics(sums, fitted)
    same = SparseGP(fitted, mean=0.0, signal_variance=1.0, noise_variance=0.1).fit_statistics(
        SufficientStatistics.from_chunk(fitted.transform(X), y, precision="double"), fitted
    )
    np.testing.assert_allclose(gp.predict(X[:9]), same.predict(X[:9]), rtol=1e-6)


def test_an_empty_library_teaches_nothing(tmp_path: Path) -> None:
    (tmp_path / "names.smi").write_text("ethanol e\nwater w\n")
    with pytest.raises(InputError, match="rows could be used"):
        fingerprint(tmp_path / "names.smi", tmp_path / "fp", accept_rejects=True)
    for name in LEARNING:
        with pytest.raises(InputError, match="no molecule") as error:
            featurize(tmp_path / "fp", MAPS[name], tmp_path / "phi")
        _one_sentence(error)


def test_more_landmarks_than_molecules_are_all_of_them(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path
) -> None:
    """The reports say so, of a second run, too; the model is that of as many landmarks as there are."""
    for make in (LandmarkFeatures, NystromFeatures):
        name = make.__name__
        for _ in range(2):
            report = fit(store, inputs[1], tmp_path / name, feature_map=make(601))
            assert report.warnings[0].startswith("there are ")
            assert "landmarks, not 601: the sample has no more distinct rows" in str(report)
        there = int(report.warnings[0].split()[2])
        fewer = fit(store, inputs[1], tmp_path / f"{name}-fewer", feature_map=make(there))
        np.testing.assert_allclose(report.log_marginal_likelihood, fewer.log_marginal_likelihood, rtol=1e-6)
        made = featurize(store, make(601), tmp_path / f"{name}-phi")
        assert made.warnings[0] in str(made)
        with pytest.warns(UserWarning, match="landmarks, not 601"):
            fit_map(make(601), store)


def test_a_criterion_is_for_landmarks(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="criterion") as error:
        fit(store, inputs[1], tmp_path / "m", feature_map=TanimotoMinMaxFeatures(64), criterion="bound")
    _one_sentence(error)


def test_local_options_need_no_further_pass(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    chosen, model = MAPS["local"], tmp_path / "model"
    fit(store, inputs[1], model, feature_map=chosen)
    whole = model_arrays(model)
    with patch("daskrf.jobs.tree.Tree.make", None):
        fit(store, inputs[1], model, feature_map=chosen, rows="nearest", residual=False)
    found = read_model(model).gp
    assert isinstance(found, LocalGaussianGP)
    assert (found.rows, found.residual) == ("nearest", False)
    assert not np.array_equal(found.weights_, whole["weights"])
    same = LocalGaussianGP(rows="nearest").fit_statistics(found.statistics_, found.local_map_)
    np.testing.assert_allclose(found.weights_, same.weights_, rtol=1e-6)
    with pytest.raises(InputError, match="--residual goes with --map local-gaussian, not") as error:
        fit(store, inputs[1], model, feature_map=MAPS["landmarks"], rows="nearest", residual=True)
    _one_sentence(error)


def test_a_row_outside_the_norms_is_named(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    """From files and from a store: its number counts the lines that were rejected."""
    heavy = TanimotoDotProductFeatures(72, norm_range=(50, 3000))
    fit(store, inputs[1], tmp_path / "model", feature_map=heavy, direction="minimize")
    strange, path = tmp_path / "strange.smi", tmp_path / "fp"
    strange.write_text(inputs[0].read_text().splitlines()[0] + "\nC1CC ring\nC methane\n")
    fingerprint(strange, path)
    for source in (strange, path):
        for work, output in (predict, f"{source.stem}-p"), (screen, f"{source.stem}.parquet"):
            with pytest.raises(InputError, match=r"has the squared norm 2, .* range from \d+") as error:
                work(tmp_path / "model", source, tmp_path / output)
            text = _one_sentence(error)
            assert text.startswith(f"Row 2 of the library, from 0 (C, ID methane, line 3 of {strange}) has")
            assert "--norm-range LOW HIGH" in text
    fit(store, inputs[1], tmp_path / "drugs", feature_map=MAPS["dot-product"])
    assert predict(tmp_path / "drugs", strange, tmp_path / "pred").rows == 2


@pytest.mark.parametrize(
    "bad",
    [
        TanimotoDotProductFeatures(64, norm_range=(100, 20)),
        TanimotoDotProductFeatures(3, norm_range=(20, 100)),
        TanimotoMinMaxFeatures(64, hashing="md5"),
        LandmarkFeatures(64, selection="best"),
    ],
    ids=["range", "components", "hashing", "selection"],
)
def test_bad_parameters_begin_no_output(
    bad: FeatureMap, inputs: tuple[Path, Path], store: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        featurize(store, bad, tmp_path / "phi")
    _one_sentence(error)
    with pytest.raises(InputError):
        fit(store, inputs[1], tmp_path / "model", feature_map=bad)
    assert all(path.suffix == ".log" for path in tmp_path.iterdir())


def test_no_signal_under_the_bound_says_so(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    few = LandmarkFeatures(2, random_state=3)
    shown = str(fit(store, inputs[1], tmp_path / "model", feature_map=few, criterion="bound"))
    assert "the bound sees no signal" in shown
    assert "more landmarks may help" in shown


def test_half_precision_of_landmarks(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    """Rounded kernel values change predicted means by less than a hundredth of their spread."""
    means = []
    for dtype in ("float32", "float16"):
        featurize(store, MAPS["landmarks"], tmp_path / dtype, dtype=dtype)
        fit(tmp_path / dtype, inputs[1], tmp_path / f"m-{dtype}")
        predict(tmp_path / f"m-{dtype}", tmp_path / dtype, tmp_path / f"p-{dtype}", std=False)
        means.append(_predictions(tmp_path / f"p-{dtype}")["mean"].to_numpy())
    assert 0 < np.std(means[1] - means[0]) < 0.01 * np.std(means[0])


@pytest.mark.parametrize("name", ["dot-product", "landmarks"])
def test_plan_fits_the_map_to_its_sample(name: str, inputs: tuple[Path, Path]) -> None:
    report = plan(inputs[0], feature_map=MAPS[name], sample=200)
    assert [stage.stage for stage in report.stages][:3] == ["fingerprint", "map", "featurize"]
    assert not MAPS[name].is_fitted()
    assert ("map" in [need.stage for need in report.memory]) == (name == "landmarks")


def test_a_plan_knows_that_local_sums_are_small_and_made_at_once(inputs: tuple[Path, Path]) -> None:
    """A matrix of 20,000 x 20,000 is 3.2 GB, two of 100 x 100 for each of 200 centroids 32 MB."""
    many = LocalGaussianFeatures(20_000, length_scale=6.0, n_centroids=200)
    with (
        patch("daskrf.jobs.job.worker_memory", return_value=2 << 30),
        patch("daskrf.commands.plan.scan_inputs", side_effect=KeyError("reached")),
        pytest.raises(KeyError, match="reached"),
    ):
        plan(inputs[0], feature_map=many)
    with patch("daskrf.gp.sums.shapes.strip_columns", return_value=[(0, 25), (25, 75)]):
        report = plan(inputs[0], feature_map=MAPS["local"], sample=200)
    assert [s.stage for s in report.stages][:4] == ["fingerprint", "map", "featurize", "nearest features"]
    assert "times" not in str(report)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(n_rows=st.integers(0, 300), size=st.integers(0, 350), seed=st.integers(0, 2**40))
def test_sampled_rows_are_distinct_and_as_many_as_asked(n_rows: int, size: int, seed: int) -> None:
    rows = sampled_rows(n_rows, size, seed)
    assert len(rows) == min(size, n_rows)
    assert (np.diff(rows) > 0).all()
    assert rows.tolist() == [] or 0 <= rows[0] <= rows[-1] < n_rows


def test_sampled_rows_are_uniform_and_for_ever_the_same() -> None:
    counts = np.zeros(40)
    for seed in range(2_000):
        counts[sampled_rows(40, 10, seed)] += 1
    # 500 expected of each, with a standard deviation of 19.4: 4.5 of them once in 4,000 choices of the seeds.
    assert np.abs(counts - 500).max() < 4.5 * 19.4
    assert sampled_rows(10**9, 4, 7).tolist() == GOLDEN
    assert sampled_rows(5, 3, 7).tolist() == GOLDEN_FEW


GOLDEN = [501622603, 611966454, 630023529, 907809210]
GOLDEN_FEW = [0, 1, 3]


NOT_MAPS = {
    "a name": ("landmarks", r"an object such as LandmarkFeatures\(\), not 'landmarks'"),
    "a class": (LandmarkFeatures, r"an object such as LandmarkFeatures\(\), not the class LandmarkFeatures"),
    "a number": (3, r"an object such as TanimotoMinMaxFeatures\(\), not 3"),
}


@pytest.mark.parametrize("case", NOT_MAPS)
def test_what_is_no_feature_map_is_one_sentence(
    case: str, inputs: tuple[Path, Path], store: Path, tmp_path: Path
) -> None:
    given, words = NOT_MAPS[case]
    bad: Any = given
    uses: list[Callable[[], object]] = [
        lambda: fit(store, inputs[1], tmp_path / "m", feature_map=bad),
        lambda: featurize(store, bad, tmp_path / "f"),
        lambda: fit_map(bad, store),
        lambda: plan(inputs[0], feature_map=bad),
        lambda: RandomFeatureGP(bad).fit(np.eye(3), np.arange(3.0)),
    ]
    for use in uses:
        with pytest.raises(InputError, match=f"^The feature map must be {words}") as error:
            use()
        _one_sentence(error)
    assert not list(tmp_path.iterdir())


def test_arguments_of_another_type_are_one_sentence(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path
) -> None:
    bad: Any = "morgan"
    uses: list[tuple[Callable[[], object], str]] = [
        (
            lambda: fingerprint(inputs[0], tmp_path / "fp", spec=bad),
            "spec must be of the type FingerprintSpec",
        ),
        (
            lambda: fingerprint(inputs[0], tmp_path / "fp", format=bad),
            "format must be of the type TableFormat",
        ),
        (lambda: plan(inputs[0], spec=bad), "spec must be of the type FingerprintSpec"),
    ]
    for use, words in uses:
        with pytest.raises(InputError, match=words) as error:
            use()
        _one_sentence(error)
