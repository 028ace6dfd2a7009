"""Every driver leaves a log whose tasks add up to its output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from daskrf import fingerprint, fit, predict, screen
from daskrf.errors import InputError
from daskrf.features import TanimotoDotProductFeatures
from daskrf.files.disk import crc32c_of
from daskrf.storage.runlog import log_directory, read_log
from daskrf.workers.progress import Progress
from tests.jobs.job import FLAWS, N_LABELS, N_MOLECULES

N_ROWS = N_MOLECULES + len(FLAWS)


def _stages(output: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the records of the only log of an output, by stage."""
    (path,) = log_directory(output).iterdir()
    records = read_log(path)
    assert records[-1]["event"] == "finish"
    stages: dict[str, list[dict[str, Any]]] = {}
    for record in records[:-1]:
        if record["event"] == "start":
            stage = record["stage"]
            stages[stage] = []
        stages[stage].append(record)
    return stages


def _rows(records: list[dict[str, Any]]) -> int:
    tasks = [record for record in records if record["event"] == "task"]
    assert len({task["key"] for task in tasks}) == len(tasks)
    return sum(task["rows"] for task in tasks)


def test_rows_add_up_and_digests_are_those_of_the_output(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    fingerprint(inputs[0], tmp_path / "fp", rows_per_partition=50)
    stages = _stages(tmp_path / "fp")
    assert list(stages) == ["scan", "fingerprint"]
    assert _rows(stages["fingerprint"]) == stages["fingerprint"][0]["total"] == N_ROWS
    for task in stages["fingerprint"][1:]:
        first, last = map(int, task["key"].split("-")[-2:])
        files = [tmp_path / "fp" / "_commits" / f"{p:06d}.json" for p in range(first, last + 1)]
        assert task["digest"] == crc32c_of(b"".join(file.read_bytes() for file in files))
        assert task["attempt"] == 1

    learned = TanimotoDotProductFeatures(n_components=64, random_state=0)
    fit(tmp_path / "fp", inputs[1], tmp_path / "model", feature_map=learned)
    stages = _stages(tmp_path / "model")
    assert list(stages) == ["map", "fit", "solve"]
    assert _rows(stages["map"]) == stages["map"][0]["total"] == N_MOLECULES
    assert _rows(stages["fit"]) == stages["fit"][0]["total"] == N_LABELS
    assert all(re.fullmatch("arrays-[0-9a-f]{16}", task["digest"]) for task in stages["fit"][1:])

    predict(tmp_path / "model", tmp_path / "fp", tmp_path / "pred", std=False)
    assert _rows(_stages(tmp_path / "pred")["predict"]) == N_ROWS
    screen(tmp_path / "model", tmp_path / "fp", tmp_path / "hits.parquet", k=5, maximize=False)
    assert _rows(_stages(tmp_path / "hits.parquet")["screen"]) == N_ROWS


def test_a_refused_run_leaves_no_log(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        fingerprint(tmp_path / "absent.smi", tmp_path / "fp")
    assert list(tmp_path.iterdir()) == []


def test_a_driver_goes_on_where_its_log_cannot_be_written(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    class Notes(Progress):
        notes: tuple[str, ...] = ()

        def note(self, text: str) -> None:
            self.notes += (text,)

    (tmp_path / "fp.log").write_text("in the way")
    progress = Notes()
    assert fingerprint(inputs[0], tmp_path / "fp", progress=progress).kept == N_MOLECULES
    assert len([text for text in progress.notes if "run log" in text]) == 1


def test_a_progress_that_is_told_to_stop(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    class Stops(Progress):
        def advance(self, amount: int) -> None:
            self.stopping = self.stoppable  # not while files are scanned

    with pytest.raises(KeyboardInterrupt):
        fingerprint(inputs[0], tmp_path / "fp", rows_per_partition=50, progress=Stops())
    made = len(list((tmp_path / "fp" / "_commits").iterdir()))
    assert 0 < made < 13
    assert fingerprint(inputs[0], tmp_path / "fp", rows_per_partition=50).made == 13 - made
