"""The whole job: equal bytes however it is run, and results equal to those of a direct computation."""

from __future__ import annotations

import bz2
import errno
import multiprocessing
import os
import shutil
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client

from daskrf import RandomFeatureGP, featurize, fingerprint, fit, local_cluster, predict, screen
from daskrf.acquisition import acquisition_for
from daskrf.errors import InputError, StoreError
from daskrf.jobs.shards import prepare_shards
from daskrf.models.models import read_model
from daskrf.screens import libraryranking as screening
from daskrf.sources.sources import open_source
from daskrf.storage.kinds import stored_library
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from daskrf.storage.stores.store import read_plan
from daskrf.workers.progress import Progress
from tests.jobs.job import FEATURES, FLAWS, N_LABELS, N_MOLECULES, assert_same_job, model_arrays, run_job


@pytest.fixture(scope="module")
def done(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job, run in this process."""
    out = tmp_path_factory.mktemp("here")
    run_job(inputs, out, None)
    return out


@pytest.fixture(scope="module")
def raw(done: Path) -> tuple[np.ndarray, pa.Table]:
    """Features and rows of the whole library, made directly."""
    store = FingerprintStore.open(done / "fp")
    phi = [FEATURES.transform_bits(store.read_fingerprints(p)) for p in range(store.n_partitions)]
    return np.concatenate(phi), pa.concat_tables([store.read_rows(p) for p in range(store.n_partitions)])


def test_counts_add_up(done: Path) -> None:
    counts = FingerprintStore.open(done / "fp").counts()
    assert counts["read"] == N_MOLECULES + len(FLAWS)
    assert counts["rejected"] == len(FLAWS)
    assert counts["kept"] == N_MOLECULES


def test_a_finished_store_keeps_nothing_of_workers_killed_elsewhere(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    """No process of another host can be looked at, so that a run before the end lets it live."""
    prepare_shards(fingerprint, inputs[0], tmp_path / "fp")
    left = tmp_path / "fp" / "_staging" / ".tmp-000000~elsewhere~1~0123abcd"
    left.mkdir(parents=True)
    (left / "half").touch()
    fingerprint(inputs[0], tmp_path / "fp")
    assert not left.exists()


def test_a_complete_store_on_a_read_only_disk_is_found_complete(
    inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library.smi.bz2"  # of which pieces would be kept beside the output
    library.write_bytes(bz2.compress(inputs[0].read_bytes()))
    monkeypatch.setattr("daskrf.tables.spool.CHUNK_ROWS", 100)
    made = fingerprint(library, tmp_path / "fp", rows_per_partition=100)
    before = sorted(tmp_path.rglob("*"))
    notes: list[str] = []

    class Notes(Progress):
        def note(self, text: str) -> None:
            notes.append(text)

    with monkeypatch.context() as patch:
        read_only(patch)
        report = fingerprint(library, tmp_path / "fp", rows_per_partition=100, progress=Notes())
        with pytest.raises(StoreError, match="with other options"):
            fingerprint(library, tmp_path / "fp", rows_per_partition=100, fragments="largest")
        with pytest.raises(StoreError, match=r"cannot lock .* read-only; give another path"):
            fingerprint(library, tmp_path / "other", rows_per_partition=100)
    assert (report.made, report.kept, report.partitions) == (0, made.kept, made.partitions)
    assert [note for note in notes if "7 partitions are done already" in note]
    assert sorted(tmp_path.rglob("*")) == before


def read_only(patch: pytest.MonkeyPatch) -> None:
    """Let every call fail that would change a file, as on a disk that is mounted for reading."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def opened(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            refuse()
        return original(path, flags, *arguments, **options)

    original = os.open
    patch.setattr(os, "open", opened)
    for name in ("mkdir", "replace", "rename", "unlink", "rmdir", "link", "utime"):
        patch.setattr(os, name, refuse)


def test_names_of_hits_are_refused_before_the_work_or_written(done: Path, tmp_path: Path) -> None:
    hits = tmp_path / ("h" * 237 + ".parquet")
    assert screen(done / "model", done / "phi", hits, k=3, maximize=True).hits == hits
    assert pq.read_table(hits).num_rows == 3
    for name in ("h" * 241 + ".parquet", "h" * 300 + ".parquet"):
        with (
            patch.object(screening.Tree, "make", side_effect=AssertionError("the work has begun")),
            pytest.raises(StoreError, match="the name is too long; give a shorter one"),
        ):
            screen(done / "model", done / "phi", tmp_path / name, k=3, maximize=True)


def test_rejects_do_not_replace_a_file_of_the_user(
    done: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    mine = tmp_path / "hits.rejects.parquet"
    for content in (b"do not touch", b"PAR1" + b"\0" * 40 + b"PAR1"):
        mine.write_bytes(content)
        with pytest.raises(InputError, match=r"hits\.rejects\.parquet exists and was not written"):
            screen(done / "model", inputs[0], tmp_path / "hits.parquet", k=3)
        assert mine.read_bytes() == content
    mine.unlink()
    os.mkfifo(mine)
    with pytest.raises(InputError, match="was not written by daskrf"):
        screen(done / "model", done / "phi", tmp_path / "hits.parquet", k=3)
    assert [item.name for item in tmp_path.iterdir()] == [mine.name]


def test_a_folder_of_the_user_is_left_as_it_was(
    done: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    for name in ("partials/level-0-00000", ".model.work/draft", ".lock"):
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_text("do not touch")
    with pytest.raises(StoreError, match="is not a lock file of daskrf"):
        fit(done / "phi", inputs[1], tmp_path / "model")
    (tmp_path / "model" / ".lock").unlink()
    with pytest.raises(StoreError, match="holds other files and is not a daskrf model"):
        fit(done / "phi", inputs[1], tmp_path / "model")
    assert (tmp_path / "model" / "partials" / "level-0-00000").read_text() == "do not touch"
    shutil.rmtree(tmp_path / "model" / "partials")
    fit(done / "phi", inputs[1], tmp_path / "model")
    files = {item.relative_to(tmp_path).as_posix() for item in tmp_path.rglob("*") if item.is_file()}
    assert files >= {"model/.model.work/draft", "model/_arrays.json"}
    assert not [name for name in files if name.startswith(".")]


def test_plans_are_read_once_a_process_and_not_once_a_partition(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan has a line for each partition, so that it would cost the square of their number."""
    read, paths = read_plan, []

    def counted(path: Path) -> dict[str, Any]:
        paths.append(path.name)
        return read(path)

    monkeypatch.setattr("daskrf.storage.stores.store.read_plan", counted)
    featurize(done / "fp", FEATURES, tmp_path / "phi")  # 13 partitions in four tasks
    predict(done / "model", done / "phi", tmp_path / "pred")
    assert max(paths.count(name) for name in ("phi", "pred")) < 13, paths


def test_same_bytes_on_workers(done: Path, inputs: tuple[Path, Path], client: Client, tmp_path: Path) -> None:
    run_job(inputs, tmp_path, client)
    assert_same_job(done, tmp_path)


def test_same_bytes_on_one_and_four_workers(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    for n_workers in (1, 4):
        with local_cluster(n_workers=n_workers, memory_limit="3GiB", dashboard=False) as client:
            run_job(inputs, tmp_path / str(n_workers), client)
        assert_same_job(done, tmp_path / str(n_workers))


def test_same_statistics_for_any_partitions(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    run_job(inputs, tmp_path, None, rows_per_partition=37)
    left, right = model_arrays(done / "model"), model_arrays(tmp_path / "model")
    for name in left:
        assert left[name].tobytes() == right[name].tobytes(), name


def _say_ready_and_run(ready: Connection, inputs: tuple[Path, Path], out: Path) -> None:
    ready.send("ready")
    run_job(inputs, out, None)


def test_killed_driver_resumes(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """Kill the whole run again and again, each time a little later, until one run gets through."""
    context = multiprocessing.get_context("forkserver")
    kills, patience = 0, 0.05
    while True:
        ready, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_say_ready_and_run, args=(theirs, inputs, tmp_path))
        process.start()
        theirs.close()
        with ready:
            assert ready.recv() == "ready"
        process.join(patience)
        if process.exitcode is not None:
            assert process.exitcode == 0
            break
        process.kill()
        process.join()
        kills, patience = kills + 1, patience * 1.7
    assert kills >= 3
    assert_same_job(done, tmp_path)


def test_finished_job_is_not_done_again(done: Path, inputs: tuple[Path, Path]) -> None:
    files = [
        p for p in done.rglob("*") if p.is_file() and p.parent.name != "model" and p.name != "hits.parquet"
    ]
    before = {p: p.stat().st_mtime_ns for p in files}
    start = time.time_ns()
    run_job(inputs, done, None)
    assert all(p.stat().st_mtime_ns == t < start for p, t in before.items())


def test_model_is_that_of_a_direct_fit(done: Path, raw: tuple[np.ndarray, pa.Table]) -> None:
    phi, rows = raw
    joined = model_arrays(done / "model")
    position = np.searchsorted(rows["row"].to_numpy(), joined["labelled_rows"])
    assert len(position) == N_LABELS
    direct = RandomFeatureGP(n_components=FEATURES.n_components).fit(phi[position], joined["labels"][:, 0])
    fitted = read_model(done / "model").gp
    assert np.array_equal(fitted.weights_, direct.weights_)
    assert fitted.noise_variance_ == direct.noise_variance_


def test_predictions_are_those_of_the_model(done: Path, raw: tuple[np.ndarray, pa.Table]) -> None:
    phi, rows = raw
    store = PredictionStore.open(done / "pred")
    table = pa.concat_tables([store.read(p) for p in range(store.n_partitions)])
    gp = read_model(done / "model").gp
    mean, std = gp.predict(phi, return_std=True, of="f")
    assert table["id"].to_pylist() == rows["id"].to_pylist()
    np.testing.assert_allclose(table["mean"].to_numpy(), mean, rtol=1e-12)
    np.testing.assert_allclose(table["std"].to_numpy(), std, rtol=1e-5)
    np.testing.assert_allclose(table["std_y"].to_numpy(), np.sqrt(std**2 + gp.noise_variance_[0]), rtol=1e-5)


@pytest.mark.parametrize("rule", ["greedy", "ucb", "ei", "pi", "thompson"])
@pytest.mark.parametrize("maximize", [False, True])
def test_hits_are_those_of_sorting_everything(
    done: Path, raw: tuple[np.ndarray, pa.Table], tmp_path: Path, rule: str, maximize: bool
) -> None:
    phi, rows = raw
    model = read_model(done / "model")
    labels = model_arrays(done / "model")["labels"]
    best = float(labels.max() if maximize else labels.min())
    mean, std = model.gp.predict(phi, return_std=True, of="f")
    values = model.gp.draw(7).predict(phi) if rule == "thompson" else mean
    settings = {"kappa": 1.5} if rule == "ucb" else {}
    acquisition = acquisition_for(rule, maximize=maximize, **settings).with_best(best)(values, std)
    order = np.lexsort((rows["row"].to_numpy(), -acquisition))[:25]
    report = screen(
        done / "model",
        done / "fp",
        tmp_path / "hits.parquet",
        k=25,
        acquisition=rule,
        maximize=maximize,
        **settings,
        std="all",
        seed=7 if rule == "thompson" else None,
    )
    table = pq.read_table(tmp_path / "hits.parquet")
    assert table.equals(report.table)
    np.testing.assert_allclose(table["acquisition"].to_numpy(), acquisition[order], rtol=1e-4, atol=1e-5)
    # Deviations are float32 products of blocks, so near-ties may change places.
    assert len(set(table["row"].to_pylist()) & set(rows["row"].to_numpy()[order].tolist())) >= 24
    assert table["rank"].to_pylist() == list(range(1, 26))
    by_row = dict(zip(rows["row"].to_pylist(), rows.to_pylist(), strict=True))
    for hit in table.to_pylist():
        assert {name: hit[name] for name in ("id", "smiles", "line")} == {
            name: by_row[hit["row"]][name] for name in ("id", "smiles", "line")
        }


def test_hits_are_equal_from_any_source(
    done: Path, inputs: tuple[Path, Path], client: Client, tmp_path: Path
) -> None:
    tables = []
    for name, source in (
        ("fp", done / "fp"),
        ("phi", done / "phi"),
        ("smi", inputs[0]),
        ("list", [inputs[0]]),
    ):
        report = screen(
            done / "model", source, tmp_path / f"{name}.parquet", k=30, client=client, maximize=False
        )
        assert report.rows == N_MOLECULES
        tables.append(report.table)
        assert report.rejected == (len(FLAWS) if name in ("smi", "list") else 0)
    for table in tables[1:]:
        for name in ("row", "id", "smiles", "line", "mean", "acquisition"):
            assert table[name].to_pylist() == tables[0][name].to_pylist()
    rejects = pq.read_table(tmp_path / "smi.rejects.parquet")
    assert sorted(rejects["line"].to_pylist()) == [p + 1 for p in FLAWS]
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_predictions_are_equal_from_smiles(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    report = predict(done / "model", inputs[0], tmp_path / "pred", std=False)
    assert (report.rows, report.rejected) == (N_MOLECULES, len(FLAWS))
    store, other = PredictionStore.open(tmp_path / "pred"), PredictionStore.open(done / "pred")
    left = pa.concat_tables([store.read(p) for p in range(store.n_partitions)])
    right = pa.concat_tables([other.read(p) for p in range(other.n_partitions)])
    assert left["id"].to_pylist() == right["id"].to_pylist()
    assert left["mean"].to_pylist() == right["mean"].to_pylist()
    assert "std" not in left.column_names
    for again in (0, 1):
        for p in range(again):
            store.discard(p)
        report = predict(done / "model", inputs[0], tmp_path / "pred", std=False)
        assert (report.made, report.rows, report.rejected) == (again, N_MOLECULES, len(FLAWS))
    rejects = pa.concat_tables([store.read_rejects(p) for p in range(store.n_partitions)])
    assert sorted(rejects["line"].to_pylist()) == [p + 1 for p in FLAWS]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pred", "pred.log"]


def test_labelled_molecules_can_be_left_out(done: Path, tmp_path: Path) -> None:
    labelled = set(model_arrays(done / "model")["labelled_rows"].tolist())
    report = screen(
        done / "model", done / "phi", tmp_path / "hits.parquet", k=600, exclude_labelled=True, maximize=False
    )
    assert set(report.table["row"].to_pylist()).isdisjoint(labelled)
    assert report.table.num_rows == N_MOLECULES - N_LABELS


def test_no_hits_have_the_columns_of_hits(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """A library of which every molecule is labelled and left out."""
    lines = [
        line
        for line in inputs[0].read_text().splitlines()
        if line.endswith((" m0", " m2", " m4", " m6", " m8"))
    ]
    (tmp_path / "few.smi").write_text("\n".join(lines[:5]))
    fingerprint(tmp_path / "few.smi", tmp_path / "fp")
    fit(tmp_path / "fp", inputs[1], tmp_path / "model", feature_map=FEATURES)
    hits = tmp_path / "hits.parquet"
    some = screen(tmp_path / "model", tmp_path / "fp", hits, maximize=False).table
    report = screen(
        tmp_path / "model", tmp_path / "fp", hits, exclude_labelled=True, maximize=False, overwrite=True
    )
    none = report.table
    assert none.num_rows == 0
    assert none.schema.names == some.schema.names


def test_candidates_of_ucb_are_the_best_of_the_shortlist(done: Path, tmp_path: Path) -> None:
    exact = screen(
        done / "model",
        done / "fp",
        tmp_path / "a.parquet",
        k=60,
        acquisition="ucb",
        std="all",
        maximize=False,
    )
    # 5,000 candidates are the whole library, so that the shortlist loses nothing.
    short = screen(
        done / "model", done / "fp", tmp_path / "b.parquet", k=60, acquisition="ucb", maximize=False
    )
    np.testing.assert_allclose(
        exact.table["acquisition"].to_numpy(), short.table["acquisition"].to_numpy(), rtol=1e-5
    )
    assert any("5,000 best means" in note for note in short.notes)


def test_hyperparameters_can_be_changed_without_a_pass(
    done: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    first = fit(done / "fp", inputs[1], tmp_path / "m", feature_map=FEATURES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("daskrf.jobs.tree.Tree.make", None)  # the sums of the model serve
        again = fit(done / "fp", inputs[1], tmp_path / "m", feature_map=FEATURES, noise_variance=0.3)
    assert again.noise_variance == (0.3,)
    written = (tmp_path / "m" / "_arrays.json").stat().st_mtime_ns
    third = fit(done / "fp", inputs[1], tmp_path / "m", feature_map=FEATURES, noise_variance=0.3)
    assert third.noise_variance == again.noise_variance
    assert (tmp_path / "m" / "_arrays.json").stat().st_mtime_ns == written
    assert again.noise_variance != first.noise_variance
    assert read_model(tmp_path / "m").gp.noise_variance_ == 0.3
    assert not (tmp_path / ".m.daskrf").exists()


def test_source_of_a_store_knows_its_rows(done: Path) -> None:
    source = open_source(stored_library(done / "fp"), FEATURES)
    wanted = np.array([0, 3, 5, 6, 40, 300])  # row 3 was rejected, row 300 is elsewhere
    rows = np.concatenate([block.rows for block in source.blocks(0, wanted)])
    assert rows.tolist() == [0, 5, 6, 40]
    assert source.describe(0, rows)["row"].to_pylist() == [0, 5, 6, 40]
