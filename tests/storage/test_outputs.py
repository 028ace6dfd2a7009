"""A file is never replaced by accident, and one that a killed run left does not stop the next run."""

from __future__ import annotations

from pathlib import Path

import pytest

from daskrf.errors import StoreError
from daskrf.storage.outputs import refuse_others, writing


def write(path: Path, work: Path, text: str, overwrite: bool = False) -> None:
    refuse_others(path, work, overwrite=overwrite)
    with writing(path, work, overwrite=overwrite) as staged:
        staged.write_text(text)


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


@pytest.mark.parametrize("how", ["finished", "changed", "damaged", "of somebody else"])
def test_what_others_have_written_stays(how: str, tmp_path: Path, work: Path) -> None:
    path = tmp_path / "batch.csv"
    write(path, work, "a,b\n")
    match how:
        case "finished":
            (work / "written-batch.csv").unlink()
        case "changed":
            path.write_text("a,b,and what I think of it\n")
        case "damaged":
            (work / "written-batch.csv").write_bytes(b"{}")
        case _:
            path.unlink()
            path.mkdir()
    with pytest.raises(StoreError, match="exists; give another path"):
        refuse_others(path, work, overwrite=False)
    refuse_others(path, work, overwrite=True)


def test_a_file_that_came_meanwhile_stays(tmp_path: Path, work: Path) -> None:
    path = tmp_path / "batch.csv"

    def write_late() -> None:
        with writing(path, work, overwrite=False) as staged:
            staged.write_text("a,b\n")
            path.write_text("mine\n")

    with pytest.raises(StoreError, match="exists"):
        write_late()
    assert path.read_text() == "mine\n"
    assert [p.name for p in tmp_path.iterdir() if "~" in p.name] == []
