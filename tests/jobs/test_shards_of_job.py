"""All five stages by shards: the bytes are those of one driver, and what is prepared is not done again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from daskrf import LandmarkFeatures, featurize, fingerprint, fit, predict, screen
from daskrf.errors import InputError, StoreError
from daskrf.fitting import totals as fitting
from daskrf.gp.sums.sums import strip_columns
from daskrf.jobs.shards import prepare_shards, run_shard
from daskrf.measurements import Reading
from daskrf.models.joinedlabels import labels_of
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from tests.jobs.job import FEATURES, N_LABELS, assert_same_job, data_digests, model_arrays, run_job
from tests.jobs.test_shards import ended, start, wait_for

LANDMARKS = LandmarkFeatures(n_components=24, selection="random", random_state=3)


@contextmanager
def small_groups() -> Iterator[None]:
    """One partition a group, so that there is something to share."""
    with (
        patch("daskrf.fitting.parts._GROUP_ROWS", (1, 1)),
        patch("daskrf.screens.libraryranking._LEAST_ROWS", 1),
    ):
        yield


@contextmanager
def nothing_prepared_again() -> Iterator[None]:
    """Fail where a shard reads inputs from end to end, joins labels, learns a map or draws weights."""
    with ExitStack() as stack:
        for name in (
            "daskrf.sources.inputs.scan_files",
            "daskrf.models.joinedlabels.join_labels",
            "daskrf.fitting.learner._fitted",
            "daskrf.gp.processes.process.FeatureSpaceGP.draw",
        ):
            stack.enter_context(patch(name, side_effect=AssertionError(f"{name} was called again")))
        yield


@pytest.fixture(scope="module")
def done(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job, run by one driver."""
    out = tmp_path_factory.mktemp("done")
    run_job(inputs, out, None)
    return out


def sharded(stage: Callable[..., Any], count: int, *arguments: Any, trees: int = 1, **keywords: Any) -> Any:
    """Prepare a stage, run all but the first of its shards in falling order, and then the last command."""
    prepared = prepare_shards(stage, *arguments, **keywords)
    assert prepared.made == 0
    assert prepared.missing == prepared.total > 0
    with nothing_prepared_again():
        for index in reversed(range(1, count)):
            report = run_shard(stage, f"{index}/{count}", *arguments, **keywords)
            assert report.made == trees * len(range(index, report.total // trees, count))
        if count > 1:
            again = run_shard(stage, f"1/{count}", *arguments, **keywords)
            first = trees * len(range(0, again.total // trees, count))
            assert (again.made, again.missing) == (0, first)
    return stage(*arguments, **keywords)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_the_job_by_shards_has_the_same_bytes(
    done: Path, inputs: tuple[Path, Path], tmp_path: Path, count: int
) -> None:
    def share(stage: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **keywords: Any) -> Any:
            keywords.pop("client")
            return sharded(stage, count, *arguments, **keywords)

        return run

    with ExitStack() as stack:
        for stage in (fingerprint, featurize, fit, predict, screen):
            stack.enter_context(patch(f"tests.jobs.job.{stage.__name__}", share(stage)))
        run_job(inputs, tmp_path, None)
    assert_same_job(done, tmp_path)
    names = [p.name for p in tmp_path.iterdir() if not p.name.endswith(".log")]
    assert sorted(names) == ["fp", "hits.parquet", "model", "phi", "pred"]
    assert sorted(p.name[:7] for p in (tmp_path / "model").iterdir()) == ["_arrays", "arrays-"]


def test_smiles_by_shards(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """Files are scanned by the preparation and by the last command, and rejects of all shards are kept."""
    for stage, name, keywords in (
        (predict, "pred", {"std": False}),
        (screen, "hits.parquet", {"k": 20, "acquisition": "thompson", "seed": 3, "maximize": False}),
    ):
        with (
            small_groups(),
            patch("daskrf.tables.scanning.usual_rows", lambda _: 100),
            patch("daskrf.sources.inputs.usual_rows", lambda _: 100),
        ):
            stage(done / "model", inputs[0], tmp_path / name, **keywords)
            sharded(stage, 2, done / "model", inputs[0], tmp_path / f"by-shards-{name}", **keywords)
    left, right = (data_digests(tmp_path / name) for name in ("pred", "by-shards-pred"))
    rows = {path: digest for path, digest in left.items() if path.endswith(".parquet")}
    assert len(rows) > 7
    assert rows.items() <= right.items()
    for name in ("hits.parquet", "hits.rejects.parquet"):
        assert (tmp_path / name).read_bytes() == (tmp_path / f"by-shards-{name}").read_bytes()


def test_a_map_is_learned_once_for_all_shards(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    with small_groups():
        for stage, arguments in (
            (featurize, (done / "fp", LANDMARKS)),
            (partial(fit, done / "fp", inputs[1], feature_map=LANDMARKS), ()),
        ):
            name = "phi" if stage is featurize else "model"
            stage(*arguments, tmp_path / name)
            sharded(stage, 3, *arguments, tmp_path / f"by-shards-{name}")
    assert data_digests(tmp_path / "phi") == data_digests(tmp_path / "by-shards-phi")
    left, right = model_arrays(tmp_path / "model"), model_arrays(tmp_path / "by-shards-model")
    assert {k: v.tobytes() for k, v in left.items()} == {k: v.tobytes() for k, v in right.items()}


def test_strips_by_shards(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    with small_groups(), patch("daskrf.fitting.parts._STRIP_BYTES", 100_000):
        fit(done / "fp", inputs[1], tmp_path / "model", feature_map=FEATURES)
        strips = len(strip_columns(FEATURES.n_components, 100_000))
        assert strips > 2
        arguments = (done / "fp", inputs[1], tmp_path / "by-shards")
        sharded(fit, 3, *arguments, feature_map=FEATURES, trees=1 + strips)
    left, right = model_arrays(tmp_path / "model"), model_arrays(tmp_path / "by-shards")
    assert {k: v.tobytes() for k, v in left.items()} == {k: v.tobytes() for k, v in right.items()}


def test_processes_that_start_at_once_agree(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """Shards without a preparation, of which one of fit is killed in mid-work, and the last commands here."""
    fitted = ("fit", done / "fp", inputs[1], "-o", tmp_path / "model", "--map", "landmarks", "-M", 24)
    command = (*fitted, "--selection", "random", "--random-state", 3)
    processes = [start(*command, "--shard", f"{i}/3") for i in range(3)]
    wait_for(tmp_path, ".model.daskrf/level-0-*/_arrays.json")
    processes[0].send_signal(signal.SIGKILL)
    for process in processes[1:]:
        ended(process)
    processes[0].communicate()
    hits = ("screen", done / "model", inputs[0], "-o", tmp_path / "hits.parquet", "-k", 20)
    command = (*hits, "--minimize", "--acquisition", "thompson", "--seed", 3)
    processes = [start(*command, "--shard", f"{i}/2") for i in range(2)]
    with small_groups():
        for name in ("model", "alone"):
            fit(done / "fp", inputs[1], tmp_path / name, feature_map=LANDMARKS)
        for process in processes:
            ended(process)
        for name in ("hits", "alone"):
            path = tmp_path / f"{name}.parquet"
            screen(done / "model", inputs[0], path, k=20, acquisition="thompson", seed=3, maximize=False)
    left, right = model_arrays(tmp_path / "model"), model_arrays(tmp_path / "alone")
    assert {k: v.tobytes() for k, v in left.items()} == {k: v.tobytes() for k, v in right.items()}
    assert (tmp_path / "hits.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()


def test_other_options_of_a_shard_are_refused(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    cases: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = [
        (featurize, (done / "fp", FEATURES), {"dtype": "float16"}, "dtype"),
        (
            fit,
            (done / "phi", inputs[1]),
            {"drop_non_numbers": True, "labels": "other"},
            "the labels are others",
        ),
        (predict, (done / "model", done / "phi"), {"std": False}, "std"),
        (screen, (done / "model", done / "phi"), {"k": 7}, r"-k \(was 1000, now 7\)"),
        (screen, (done / "model", inputs[0]), {"fragments": "largest"}, "fragments"),
    ]
    other = tmp_path / "labels.csv"
    other.write_text("\n".join(inputs[1].read_text().splitlines()[:-9]) + "\n")
    for number, (stage, arguments, options, words) in enumerate(cases):
        output = tmp_path / f"{number}.parquet"
        always = {"maximize": True} if stage is screen else {}
        prepare_shards(stage, *arguments, output, **always)
        if options.pop("labels", None):
            arguments = (arguments[0], other)
        with pytest.raises(StoreError, match=words):
            run_shard(stage, "0/2", *arguments, output, **options, **always)
        if stage in (featurize, predict):  # nothing was made: it is made now
            stage(*arguments, output, **options)
            continue
        with pytest.raises(StoreError, match=words):
            stage(*arguments, output, **options, **always)


def test_a_shard_after_the_job_changes_nothing(done: Path, inputs: tuple[Path, Path]) -> None:
    stores = ("fp", "phi", "pred", "model")
    before = [data_digests(done / name) for name in stores], (done / "hits.parquet").read_bytes()
    with small_groups():
        reports = [
            run_shard(fingerprint, "1/2", inputs[0], done / "fp", rows_per_partition=50),
            run_shard(featurize, "1/2", done / "fp", FEATURES, done / "phi"),
            run_shard(fit, "1/2", done / "phi", inputs[1], done / "model"),
            run_shard(predict, "1/2", done / "model", done / "phi", done / "pred"),
            run_shard(
                screen, "1/2", done / "model", done / "phi", done / "hits.parquet", k=20, maximize=False
            ),
        ]
    for report in reports:
        assert (report.made, report.missing, report.found) == (0, 0, report.total // 2), report
    assert ([data_digests(done / name) for name in stores], (done / "hits.parquet").read_bytes()) == before
    assert not [p for p in done.iterdir() if p.name.startswith(".")]


def test_no_stage_takes_a_client_with_a_shard(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    for stage, arguments in (
        (featurize, (done / "fp", FEATURES, tmp_path / "x")),
        (fit, (done / "fp", inputs[1], tmp_path / "x")),
        (predict, (done / "model", done / "fp", tmp_path / "x")),
        (partial(screen, maximize=False), (done / "model", done / "fp", tmp_path / "x.parquet")),
    ):
        with pytest.raises(InputError, match="A shard runs without a cluster"):
            run_shard(stage, "0/2", *arguments, client=object())
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_fit_does_not_join_again(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    with patch.object(fitting.Sums, "from_chunk", side_effect=Killed), pytest.raises(Killed):
        fit(done / "phi", inputs[1], tmp_path / "model")
    with patch("daskrf.models.joinedlabels.join_labels", None):
        report = fit(done / "phi", inputs[1], tmp_path / "model")
    assert report.labels.matched == N_LABELS
    for name, array in model_arrays(done / "model").items():
        assert array.tobytes() == model_arrays(tmp_path / "model")[name].tobytes(), name


@pytest.mark.parametrize("damage", ["rows.npy", "labels.npy", "joined.json"])
def test_damaged_labels_are_joined_again(
    done: Path, inputs: tuple[Path, Path], tmp_path: Path, damage: str
) -> None:
    options = Reading()
    store = FingerprintStore.open(done / "fp")
    first = labels_of(inputs[1], store, tmp_path, options)
    assert list(tmp_path.iterdir()) == []
    first.keep()
    again = labels_of(inputs[1], store, tmp_path, options)
    assert again.there
    assert again.joined.digest == first.joined.digest
    assert str(again.joined) == str(first.joined)
    data = bytearray((first.folder / damage).read_bytes())
    data[-5] ^= 1
    (first.folder / damage).write_bytes(data)
    mended = labels_of(inputs[1], store, tmp_path, options)
    assert not mended.there
    mended.keep()
    assert np.array_equal(labels_of(inputs[1], store, tmp_path, options).joined.y, first.joined.y)
    assert labels_of(inputs[1], store, tmp_path, options).there
