"""Memory and disk that a job lacks are found out before it starts, and counted once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskrf import fingerprint, fit, predict, screen
from daskrf.errors import MemoryLimitError
from daskrf.fitting.costs import size_of_sums
from daskrf.gp.sums.sums import GramStrip, strip_columns
from daskrf.jobs import job, memory
from daskrf.storage.model import write_checkpoint
from tests.jobs.job import FEATURES


@pytest.fixture
def store(inputs: tuple[Path, Path], tmp_path: Path) -> Path:
    fingerprint(inputs[0], tmp_path / "fp", rows_per_partition=150)
    return tmp_path / "fp"


def test_libraries_are_measured_before_anything_is_read(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or what was read would be counted as libraries, and then once more."""
    resident, has_read = memory._resident, [False]

    def measured() -> int:
        assert not has_read[0]
        return resident()

    def reading(name: str) -> None:
        module, function = name.rsplit(".", 1)
        plain = getattr(__import__(module, fromlist=[function]), function)

        def read(*arguments: Any, **options: Any) -> Any:
            has_read[0] = True
            return plain(*arguments, **options)

        monkeypatch.setattr(name, read)

    monkeypatch.setattr(memory, "_resident", measured)
    for name in ("fitting.training.labels_of", "screens.aim.read_model", "commands.predict.read_model"):
        reading(f"daskrf.{name}")
    model = tmp_path / "model"
    fit(store, inputs[1], model, feature_map=FEATURES)
    has_read[0] = False
    screen(model, store, tmp_path / "hits.parquet", k=5, maximize=False)
    has_read[0] = False
    predict(model, store, tmp_path / "pred")
    assert has_read[0]


def test_partial_sums_and_predictions_that_do_not_fit_the_disk_are_refused(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000))
    with pytest.raises(MemoryLimitError, match=r"The partial sums would take .* KiB in .*other.* free; make"):
        fit(store, inputs[1], tmp_path / "other", feature_map=FEATURES)
    with pytest.raises(MemoryLimitError, match=r"The predictions would take .* KiB in .*pred.* free; make"):
        predict(tmp_path / "model", store, tmp_path / "pred")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "part").write_bytes(bytes(5_000))
    job.check_disk(tmp_path / "there", 6_000, "the features")  # of which an earlier run has left most


@pytest.mark.parametrize("one_bit", [True, False])
def test_partial_sums_take_no_more_disk_than_was_foreseen(one_bit: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = strip_columns(300, 8 * 64 * 200)
    found = []
    for first, stop in ((0, 300), *columns):
        strip = GramStrip.zero(300, (first, stop), one_bit=one_bit)
        rows = rng.integers(0, 256, (200, 38), dtype=np.uint8) if one_bit else rng.standard_normal((200, 300))
        path = tmp_path / f"{first}-{stop}"
        write_checkpoint(path, strip.update(rows).arrays(), {}, "hash")
        found.append(sum(file.stat().st_size for file in path.glob("arrays-*/gram/c*")))

    leaves, largest, roots = size_of_sums(columns, [200], one_bit=one_bit)
    assert 0.5 * leaves < sum(found[1:]) < 1.05 * leaves
    assert max(found[1:]) < 1.05 * largest < 1.05 * leaves
    assert roots == leaves  # of one group


def test_labels_that_do_not_fit_are_refused_before_they_are_read(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("id,y\n" + "m0,1\n" * 1_000 + "no number,at all\n" * 4_000_000)
    monkeypatch.setattr(memory, "_resident", lambda: 2**28)  # whatever the tests before have loaded
    monkeypatch.setattr("daskrf.jobs.job.worker_memory", lambda client: 2**29)
    with pytest.raises(MemoryLimitError, match=r"^labels: .*read and joined .*; .* labels would fit"):
        fit(store, labels, tmp_path / "model", feature_map=FEATURES)
