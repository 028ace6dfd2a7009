"""Bad input ends in one sentence, and interrupted or damaged work can be mended."""

from __future__ import annotations

import os
import re
from pathlib import Path

import dask.array as da
import pytest

from daskrf import (
    Gaussian,
    PolynomialSketch,
    RandomFourierFeatures,
    TanimotoMinMaxFeatures,
    featurize,
    fingerprint,
    fit,
    fit_map,
    plan,
    predict,
    screen,
    status,
    verify,
)
from daskrf.errors import DaskrfError, InputError, MemoryLimitError, StoreError
from daskrf.features import (
    CompositionFeatures,
    FastfoodDotProductFeatures,
    FeatureMap,
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    LocalGaussianFeatures,
    NystromFeatures,
    RandomMaclaurinFeatures,
    TanimotoDotProductFeatures,
)
from daskrf.fitting.costs import need_of_solve, need_of_sums
from daskrf.jobs import job, memory
from daskrf.kernels import Polynomial
from daskrf.molecules import FingerprintSpec
from daskrf.storage.lock import StoreLock
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import CommitRecord
from daskrf.tables import TableFormat
from tests.jobs.job import FEATURES, FLAWS, data_digests


@pytest.fixture
def store(inputs: tuple[Path, Path], tmp_path: Path) -> Path:
    fingerprint(inputs[0], tmp_path / "fp", rows_per_partition=150)
    return tmp_path / "fp"


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _one_sentence(error: pytest.ExceptionInfo[DaskrfError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert "Traceback" not in text
    return text


def test_empty_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no rows") as error:
        fingerprint(_write(tmp_path / "empty.smi", ""), tmp_path / "fp")
    _one_sentence(error)


def test_one_row(tmp_path: Path) -> None:
    report = fingerprint(_write(tmp_path / "one.smi", "CCO"), tmp_path / "fp")
    assert (report.rows, report.kept) == (1, 1)
    featurize(tmp_path / "fp", FEATURES, tmp_path / "phi")
    labels = _write(tmp_path / "labels.csv", "id,y\nrow-0,1.5\n")
    with pytest.raises(InputError, match="signal and noise variance cannot be fitted"):
        fit(tmp_path / "phi", labels, tmp_path / "model")
    fit(tmp_path / "phi", labels, tmp_path / "model", signal_variance=1.0, noise_variance=0.5, mean=0.0)
    table = screen(
        tmp_path / "model", tmp_path / "phi", tmp_path / "hits.parquet", maximize=False
    ).table.to_pylist()
    assert [hit["id"] for hit in table] == ["row-0"]
    assert table[0]["mean"] == pytest.approx(1.5 * 1.0 / (1.0 + 0.5))  # one observation of variance 1
    assert table[0]["std"] ** 2 == pytest.approx(1.0 - 1.0 / 1.5, rel=1e-5)


def test_all_rows_rejected(tmp_path: Path) -> None:
    path = _write(tmp_path / "names.smi", "ethanol\nwater\n")
    with pytest.raises(InputError, match=r"^2 of the first 2 lines .* could not be read as") as error:
        fingerprint(path, tmp_path / "fp")
    _one_sentence(error)
    assert not (tmp_path / "fp").exists()
    with pytest.raises(InputError, match="rows could be used") as error:
        fingerprint(path, tmp_path / "fp", format=TableFormat(header=False), accept_rejects=True)
    assert str(tmp_path / "fp") in _one_sentence(error)
    assert FingerprintStore.open(tmp_path / "fp").read_rejects(0)["text"].to_pylist() == ["ethanol", "water"]


def test_strict_names_file_and_line(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"library\.smi, line {min(FLAWS) + 1}:") as error:
        fingerprint(inputs[0], tmp_path / "fp", strict=True)
    _one_sentence(error)


def test_strict_holds_for_a_store_made_without(inputs: tuple[Path, Path], store: Path) -> None:
    with pytest.raises(InputError, match=rf"library\.smi, line {min(FLAWS) + 1}:"):
        fingerprint(inputs[0], store, rows_per_partition=150, strict=True)


def test_unknown_column(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", "smiles,name\nCC,x\n")
    with pytest.raises(InputError, match="structure") as error:
        fingerprint(path, tmp_path / "fp", format=TableFormat(smiles="structure"))
    assert "name" in _one_sentence(error)


def test_other_options_are_refused_before_work(inputs: tuple[Path, Path], store: Path) -> None:
    before = data_digests(store)
    with pytest.raises(
        StoreError, match=r"--kind \(was morgan:2 \+ morgan:2:features \+ atompair:4, now morgan:3\)"
    ) as error:
        fingerprint(inputs[0], store, spec=FingerprintSpec(radius=3), rows_per_partition=150)
    _one_sentence(error)
    assert data_digests(store) == before


def test_another_dtype_is_refused_before_work(store: Path, tmp_path: Path) -> None:
    featurize(store, FEATURES, tmp_path / "phi", dtype="float16")
    before = data_digests(tmp_path / "phi")
    for dtype in ("float32", "bits"):
        with pytest.raises(StoreError, match="dtype") as error:
            featurize(store, FEATURES, tmp_path / "phi", dtype=dtype)
        _one_sentence(error)
    assert data_digests(tmp_path / "phi") == before


def test_too_many_columns_are_refused_before_an_output_is_begun(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path
) -> None:
    for feature_map in (
        LocalGaussianFeatures(method="tensorsrht"),  # its process is not that of folded features
        RandomMaclaurinFeatures(n_components=128, h01=True),  # nor does it serve 2,048 columns a kind
    ):
        for begin in (
            lambda: featurize(store, feature_map, tmp_path / "out"),  # noqa: B023, called at once
            lambda: fit(store, inputs[1], tmp_path / "out", feature_map=feature_map),  # noqa: B023
            lambda: plan(inputs[0], feature_map=feature_map),  # noqa: B023
        ):
            with pytest.raises(InputError, match=r"12,884,901,888 (columns|features).*fold the\b") as error:
                begin()
            _one_sentence(error)
    assert not (tmp_path / "out").exists()


BAD_MAPS: dict[str, FeatureMap] = {
    "9 terms need at least one feature each": TanimotoDotProductFeatures(8, n_terms=9),
    "degree_measure must be": RandomMaclaurinFeatures(Polynomial(2), degree_measure="even"),
    r"takes 1 \+ 192 features": RandomMaclaurinFeatures(n_components=193, h01=True),
    "n_landmarks must be": NystromFeatures(64, n_landmarks=9),
    "length_scale must be": GaussianMaclaurinFeatures(length_scale=-1.0),
    "is not a sum of powers": FastfoodDotProductFeatures(
        Polynomial(2, c=0.0, normalize=True), expansion="monomials"
    ),
    "inner maps of 64 features each": CompositionFeatures(inner=TanimotoDotProductFeatures(n_terms=99)),
    "outer is a power series": CompositionFeatures(Polynomial(2, normalize=True)),
}


@pytest.mark.parametrize("message", BAD_MAPS)
def test_bad_maps_are_refused_before_an_output_is_begun(
    message: str, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint(inputs[0], tmp_path / "fp", spec=FingerprintSpec(size=64))
    bad, out = BAD_MAPS[message], tmp_path / "out"
    monkeypatch.setattr(FingerprintStore, "read_fingerprints", lambda *_: pytest.fail("rows were read"))
    for begin in (
        lambda: featurize(tmp_path / "fp", bad, out),
        lambda: fit(tmp_path / "fp", inputs[1], out, feature_map=bad),
    ):
        with pytest.raises(InputError, match=message) as error:
            begin()
        _one_sentence(error)
    assert not out.exists()


def test_a_row_within_a_sentence_is_named(store: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^The features of row [\d,]+ of the library, from 0 \("):
        featurize(store, PolynomialSketch(40, 64), tmp_path / "phi")


def test_features_that_half_precision_cannot_hold_are_refused(store: Path, tmp_path: Path) -> None:
    large = PolynomialSketch(6, 64)
    with pytest.raises(InputError, match=r"features of row [\d,]+ do not fit in float16.*float32") as error:
        featurize(store, large, tmp_path / "phi", dtype="float16")
    _one_sentence(error)
    lazy = featurize(da.full((3, 8), 9, chunks=2), large, dtype="float16")
    with pytest.raises(InputError, match="row 0 do not fit"):
        lazy.compute(scheduler="synchronous")


def test_changed_input_is_refused(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    path = _write(tmp_path / "copy.smi", inputs[0].read_text())
    fingerprint(path, tmp_path / "fp")
    path.write_text(path.read_text().replace("m7\n", "m8\n"))
    with pytest.raises(StoreError, match="the content of the input files has changed"):
        fingerprint(path, tmp_path / "fp")


def test_second_driver_is_refused_by_name(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    FingerprintStore.open(store).discard(1)
    with (
        StoreLock(store, "somebody else"),
        pytest.raises(
            StoreError, match=rf"somebody else.*{os.getpid()}|{os.getpid()}.*somebody else"
        ) as error,
    ):
        fingerprint(inputs[0], store, rows_per_partition=150)
    assert "somebody else" in _one_sentence(error)
    assert fingerprint(inputs[0], store, rows_per_partition=150).made == 1


def test_incomplete_store_is_not_used(store: Path, tmp_path: Path) -> None:
    FingerprintStore.open(store).discard(2)
    with pytest.raises(StoreError, match="1 of 5 partitions") as error:
        featurize(store, FEATURES, tmp_path / "phi")
    _one_sentence(error)


def test_another_map_is_refused(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    featurize(store, FEATURES, tmp_path / "phi")
    with pytest.raises(InputError, match="another map"):
        fit(tmp_path / "phi", inputs[1], tmp_path / "m", feature_map=TanimotoMinMaxFeatures(64))
    fit(tmp_path / "phi", inputs[1], tmp_path / "model", direction="minimize")
    fingerprint(inputs[0], tmp_path / "fp2", spec=FingerprintSpec(radius=2))
    words = r"fp2 holds other .* fitted to: --kind \(was morgan:2 \+ .* \+ atompair:4, now morgan:2\); make a"
    for function in (predict, screen):
        with pytest.raises(InputError, match=words) as error:
            function(tmp_path / "model", tmp_path / "fp2", tmp_path / "out.parquet")
        _one_sentence(error)


@pytest.mark.parametrize(
    "fixed",
    [
        {"mean": float("nan")},
        {"noise_variance": 0.0},
        {"noise_variance": -1.0},
        {"signal_variance": float("inf")},
    ],
)
def test_impossible_hyperparameters_are_refused_before_the_pass(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path, fixed: dict[str, float]
) -> None:
    with pytest.raises(InputError, match=f"--{next(iter(fixed)).replace('_', '-')} must be") as error:
        fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES, **fixed)
    _one_sentence(error)
    assert not (tmp_path / "model").exists()


def test_model_of_other_labels_is_kept(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES)
    labels = _write(tmp_path / "labels.csv", inputs[1].read_text().replace("\nm2,-", "\nm2,-1"))
    with pytest.raises(StoreError, match="labels"):
        fit(store, labels, tmp_path / "model", feature_map=FEATURES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,y\nzz,1\nyy,2\n", "none of the 2 labels"),
        ("id,y\nm1,1\nm2,1\n", "signal and noise variance cannot be fitted"),
        ("id,y\nm1,1\nm2,nan\n", "line 3"),
        ("id,y\n", "label"),
    ],
)
def test_bad_labels(store: Path, tmp_path: Path, text: str, message: str) -> None:
    labels = _write(tmp_path / "labels.csv", text)
    with pytest.raises(InputError, match=message) as error:
        fit(store, labels, tmp_path / "model", feature_map=FEATURES)
    _one_sentence(error)


def test_more_components_than_memory(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitError, match="GiB") as error:
        fit(store, inputs[1], tmp_path / "model", feature_map=TanimotoMinMaxFeatures(1_000_000))
    assert "components would fit" in _one_sentence(error)
    with pytest.raises(MemoryLimitError):
        plan(inputs[0], feature_map=TanimotoMinMaxFeatures(1_000_000))


def test_more_landmarks_than_memory(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decomposition of their kernel is counted, whatever the number of features."""
    limit = memory.libraries_of(None) + 2**29
    monkeypatch.setattr(job, "worker_memory", lambda client: limit)
    with pytest.raises(MemoryLimitError, match=r"fitting the map 3\.7 GiB") as error:
        fit_map(NystromFeatures(64, n_landmarks=10_000), store)
    found = re.search(r"; ([\d,]+) landmarks would fit", _one_sentence(error))
    assert found is not None
    assert 1_000 < int(found[1].replace(",", "")) < 4_000


def test_plan_counts_landmarks(inputs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which there may be more than features, and more than half of the rows that are timed at least."""
    large = NystromFeatures(16, n_landmarks=80)
    report = plan(inputs[0], feature_map=large, sample=100)
    learning = next(need for need in report.memory if need.stage == "map")
    assert dict(learning.parts)["fitting the map"] == large.fit_bytes(0)
    tables = {dict(need.parts).get("tables of the map", 0) for need in report.memory}
    assert max(tables) > large.table_bytes(2**32)  # with the landmarks, which are known from the sample
    monkeypatch.setattr(job, "worker_memory", lambda client: 2**30)
    with pytest.raises(MemoryLimitError, match=r"fitting the map.* landmarks would fit"):
        plan(inputs[0], feature_map=NystromFeatures(16, n_landmarks=10_000))


def test_full_disk_is_foreseen(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitError, match="free"):
        job.check_disk(tmp_path / "a" / "b", 10**18, "the features")
    job.check_disk(tmp_path / "a" / "b", 10, "the features")


def test_screen_options(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES)
    run = (tmp_path / "model", store, tmp_path / "hits.parquet")
    for options, message in [
        ({"k": 0}, "at least 1"),
        ({"acquisition": "best"}, "unknown"),
        ({"acquisition": "ucb", "std": "none"}, "standard deviations"),
        ({"std": "some"}, "candidates, all, none"),
        ({"target": "affinity"}, "score"),
    ]:
        with pytest.raises(InputError, match=message):
            screen(*run, **options, maximize=False)
    precious = _write(tmp_path / "precious.parquet", "not hits")
    for output, message in (
        (precious, "not hold hits of daskrf"),
        (tmp_path / "hits.docx", "give it one of .*for example .*hits.csv"),
        (tmp_path, "give it one of"),
    ):
        with pytest.raises(InputError, match=message):
            screen(tmp_path / "model", store, output, maximize=False)
    assert precious.read_text() == "not hits"
    with pytest.raises(InputError, match="one store"):
        screen(tmp_path / "model", [store, store], tmp_path / "hits.parquet", maximize=False)
    with pytest.raises(StoreError, match="no model"):
        screen(store.parent / "nothing", store, tmp_path / "hits.parquet", maximize=False)


def test_verify_repairs_only_what_is_damaged(store: Path, tmp_path: Path) -> None:
    featurize(store, FEATURES, tmp_path / "phi")
    for kind, path, part in ((FeatureStore, tmp_path / "phi", 1), (FingerprintStore, store, 3)):
        before = data_digests(path)
        times = {p: p.stat().st_mtime_ns for p in path.rglob("*") if p.is_file()}
        damaged = kind.open(path)
        own = {path / item.path for item in damaged.record(part).objects}
        victim = max(own, key=lambda file: file.stat().st_size)
        data = bytearray(victim.read_bytes())
        data[len(data) // 2] ^= 4
        victim.write_bytes(data)
        found = verify(path)
        assert list(found.damaged) == [part]
        assert str(victim.relative_to(path)) in str(found)
        assert verify(path, repair=True).repaired == (part,)
        assert data_digests(path) == before
        assert not verify(path).damaged
        touched = {p for p, t in times.items() if p.stat().st_mtime_ns != t}
        assert touched
        assert touched <= {*own, damaged.record_path(part)}


def test_repair_wants_the_old_input(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    path = _write(tmp_path / "copy.smi", inputs[0].read_text())
    fingerprint(path, tmp_path / "fp", rows_per_partition=300)
    FingerprintStore.open(tmp_path / "fp").discard(1)
    for text in (path.read_text().replace("m7\n", "m8\n"), None):
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        with pytest.raises(InputError, match=r"copy\.smi") as error:
            verify(tmp_path / "fp", repair=True)
        _one_sentence(error)
    _write(path, inputs[0].read_text())
    assert verify(tmp_path / "fp").missing == (1,)
    assert verify(tmp_path / "fp", repair=True).repaired == (1,)


def test_status_says_what_is_missing(store: Path) -> None:
    FingerprintStore.open(store).discard(2)
    text = str(status(store))
    assert "4 of 5 done, 1 missing" in text


def test_progress_of_an_interrupted_run_is_kept(
    inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle: what is committed stays, and the second run does the rest."""
    from daskrf.commands.fingerprint import FingerprintStage

    process = FingerprintStage.make

    def interrupted(self: FingerprintStage, partition: int) -> CommitRecord:
        if partition == 2:
            raise KeyboardInterrupt
        return process(self, partition)

    monkeypatch.setattr(FingerprintStage, "make", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fingerprint(inputs[0], tmp_path / "fp", rows_per_partition=150)
    monkeypatch.undo()
    report = fingerprint(inputs[0], tmp_path / "fp", rows_per_partition=150)
    assert (report.made, report.partitions) == (3, 5)


def test_plan_prints_what_the_job_needs(inputs: tuple[Path, Path]) -> None:
    report = plan(inputs[0], feature_map=FEATURES, sample=200, labels=100)
    text = str(report)
    assert report.rows == 604
    assert report.n_labels == 100
    assert len(report.stages) == 6
    assert all(s.seconds > 0 for s in report.stages)
    for word in ("core-hours", "disk", "memory", "rows/s", "604 rows"):
        assert word in text
    assert "screen --std all" in report.stages[5].note
    bytes_each = report.stages[1].bytes
    assert bytes_each == -(-FEATURES.n_components // 8)


def test_tables_of_a_map_are_counted(
    inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every stage that makes features, and in none that reads them."""
    needs: list[memory.MemoryNeed] = []
    monkeypatch.setattr(memory, "check", lambda need, *_: needs.append(need))
    library, labels = inputs
    store, phi, model, tables = tmp_path / "fp", tmp_path / "phi", tmp_path / "model", "tables of the map"
    fingerprint(library, store, spec=FingerprintSpec(size=64))
    large = RandomFourierFeatures(Gaussian(5.0), 256)
    featurize(store, large, phi)
    fit(store, labels, model, feature_map=large)
    for source in (store, library):
        predict(model, source, tmp_path / f"p-{source.name}")
        screen(model, source, tmp_path / f"{source.name}.parquet", maximize=False)
    predicted = plan(library, feature_map=large, spec=FingerprintSpec(size=64), sample=100).memory
    for stages in (needs, predicted):
        counted = {need.stage for need in stages if dict(need.parts).get(tables) == large.table_bytes(192)}
        assert {"featurize", "fit", "screen", "standard deviations"} <= counted
    learning = LandmarkFeatures(64)
    for begin in (
        lambda: featurize(store, learning, tmp_path / "psi"),
        lambda: fit(store, labels, tmp_path / "sparse", feature_map=learning),
    ):
        needs.clear()
        begin()
        size = fit_map(learning, store).table_bytes(64)
        assert size in {dict(need.parts).get(tables) for need in needs}
    needs.clear()
    screen(model, phi, tmp_path / "read.parquet", maximize=False)
    assert not any(dict(need.parts).get(tables) for need in needs)


def test_memory_prediction_grows_as_it_should() -> None:
    small, large = (
        need_of_sums(memory.Making(M, 100_000, one_bit=True, usual=40), 10_000) for M in (4096, 8192)
    )
    assert large.total - small.total >= 2 * 8 * (8192**2 - 4096**2)
    memory.check(small, small.total, "here")
    with pytest.raises(MemoryLimitError):
        memory.check(small, small.total - 1, "here")
    assert need_of_solve(memory.Making(32_768, 0, one_bit=True)).total < 24 * 2**30


def test_damaged_predictions_are_made_again_by_predict(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path
) -> None:
    fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES)
    run = (tmp_path / "model", store, tmp_path / "pred")
    predict(*run)
    before = data_digests(tmp_path / "pred")
    victim = tmp_path / "pred" / "000002.parquet"
    data = bytearray(victim.read_bytes())
    data[len(data) // 3] ^= 1
    victim.write_bytes(data)
    found = verify(tmp_path / "pred")
    assert list(found.damaged) == [2]
    assert "`daskrf predict` makes them again" in str(found)
    with pytest.raises(StoreError, match="predict command again"):
        verify(tmp_path / "pred", repair=True)
    assert predict(*run).made == 1
    assert data_digests(tmp_path / "pred") == before
