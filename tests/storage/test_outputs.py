"""A file that daskrf has not written is never replaced; what a killed run left does not stop the next one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from daskrf.errors import InputError, StoreError
from daskrf.storage import hits
from daskrf.storage.hits import hits_at, record_of, write_hits, write_predictions, write_recorded
from daskrf.storage.inspection import status, verify
from daskrf.storage.outputs import guarded, refuse_others

TABLE = pa.table({"id": ["a", "b"], "smiles": ["CCO", "CCN"], "mean": [1.5, -2.0]})
ABOUT = {
    "made": "batch of 2 molecules from 9 by ucb",
    "model": "0123456789abcdef",
    "model_name": "m",
    "library": "fedcba9876543210",
    "source": "lib.smi",
    "target": "pIC50",
    "direction": "maximize",
    "notes": [],
}
NAMES = ["b.csv", "b.csv.gz", "b.parquet", "b.sdf", "b.sdf.gz", "b.smi", "b.smi.gz"]


def write(path: Path, work: Path, text: str, overwrite: bool = False) -> None:
    refuse_others(path, work, overwrite=overwrite)
    before = guarded(path, work, overwrite=overwrite)
    write_recorded(path, lambda file: file.write_text(text), {"made": "notes"}, "drawing", before)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_the_same_is_written_again_before_the_run_has_finished(tmp_path: Path, work: Path) -> None:
    write(tmp_path / "batch.csv", work, "a,b\n")
    write(tmp_path / "batch.csv", work, "a,b\n")
    with pytest.raises(StoreError, match=r"batch\.csv exists; give another path"):
        write(tmp_path / "batch.csv", work, "another batch\n")  # as of a run with other options
    assert (tmp_path / "batch.csv").read_text() == "a,b\n"
    write(tmp_path / "batch.csv", work, "another batch\n", overwrite=True)
    assert (tmp_path / "batch.csv").read_text() == "another batch\n"


def changed(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def edited(path: Path) -> None:
    path.write_text("what I think of it\n")


def without_record(path: Path) -> None:
    record_of(path).unlink()


def damaged_record(path: Path) -> None:
    record_of(path).write_bytes(b"{}")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("change", [changed, edited, without_record, damaged_record, folder])
def test_what_others_have_written_stays(
    change: Callable[[Path], None], overwrite: bool, tmp_path: Path, work: Path
) -> None:
    path = tmp_path / "batch.csv"
    write(path, work, "a,b\n")
    (work / "written-batch.csv").unlink()  # the run has finished
    change(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(InputError, match=r"(not written|changed since).*never replaced; give another output"):
        refuse_others(path, work, overwrite=overwrite)
    with pytest.raises(InputError, match=r"never replaced"):
        write(path, work, "another\n", overwrite=overwrite)
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["batch", "sample", "evaluation", "rejects"])
def test_every_ending_is_known_until_it_is_changed(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write_hits(TABLE, path, ABOUT, kind=kind)
    found = hits_at(path)
    assert found is not None
    assert (found.kind, found.is_unchanged) == (kind, True)
    assert status(path).words == found.words()
    assert verify(path).sound
    if kind != "rejects":
        assert found.words() == (
            "batch of 2 molecules from 9 by ucb",
            "maximizing 'pIC50'",
            "model: m, hash 0123456789ab",
            "library: lib.smi, hash fedcba987654",
        )
    with pytest.raises(StoreError, match="exists; give another path"):
        refuse_others(path, overwrite=False)
    refuse_others(path, overwrite=True)
    write_hits(TABLE.slice(0, 1), path, ABOUT, kind=kind, before=guarded(path, overwrite=True))
    path.write_bytes(path.read_bytes()[:-1])
    assert hits_at(path) is None if name == "b.parquet" else not verify(path).sound
    with pytest.raises(InputError, match="never replaced"):
        refuse_others(path, overwrite=True)


def test_a_parquet_file_with_other_rows_is_the_users(tmp_path: Path) -> None:
    path = tmp_path / "b.parquet"
    write_hits(TABLE, path, ABOUT, kind="batch")
    import pyarrow.parquet as pq

    table = pq.read_table(path)  # with the metadata that daskrf has written
    pq.write_table(table, path)
    refuse_others(path, overwrite=True)  # the same rows, written by another program
    pq.write_table(table.slice(0, 1), path)
    with pytest.raises(InputError, match="was changed since daskrf wrote it"):
        refuse_others(path, overwrite=True)


@pytest.mark.parametrize("name", NAMES)
def test_predictions_do_not_replace_what_came_meanwhile(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    about = {"model": "0" * 64, "source": "a", "targets": ["y"], "rows": 2, "rejected": 0}

    def tables() -> list[pa.Table]:
        path.write_text("mine\n")
        return [TABLE]

    with pytest.raises(InputError, match="never replaced"):
        write_predictions((table for table in tables()), path, about)
    assert path.read_text() == "mine\n"


def test_a_file_that_came_meanwhile_stays(tmp_path: Path, work: Path) -> None:
    path = tmp_path / "batch.csv"

    def late(file: Path) -> None:
        file.write_text("a,b\n")
        path.write_text("mine\n")

    for overwrite in (False, True):
        with pytest.raises(InputError, match="never replaced"):
            write_recorded(path, late, {"made": "x"}, "page", guarded(path, work, overwrite=overwrite))
        assert path.read_text() == "mine\n"
    assert [p.name for p in tmp_path.iterdir() if "~" in p.name] == []


def test_a_crash_between_record_and_file_leaves_no_obstacle(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "batch.csv"
    write(path, work, "first\n")
    (work / "written-batch.csv").unlink()
    real = hits._write_record

    def killed(*arguments: object) -> None:
        real(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(hits, "_write_record", killed)
    with pytest.raises(KeyboardInterrupt):
        write(path, work, "second\n", overwrite=True)
    assert path.read_text() == "first\n"
    monkeypatch.undo()
    write(path, work, "second\n", overwrite=True)
    assert path.read_text() == "second\n"
    path.write_text("first, and more\n")
    with pytest.raises(InputError, match="changed since"):
        refuse_others(path, overwrite=True)
