"""What a command imports: seconds and hundreds of megabytes that it does not need are not spent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daskrf.cli.commands import command_of

_SCRIPT = """
import sys
from daskrf.cli.app import run
code = run(sys.argv[2:])
print(code, *sorted(set(sys.argv[1].split(",")) & sys.modules.keys()), file=sys.stderr)
"""
RARE = ("dask.array", "dask.dataframe", "matplotlib", "numba", "pandas", "scipy.stats", "sklearn", "xarray")
HEAVY = (*RARE, "distributed", "rdkit", "scipy.optimize")


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        ("--help", (*HEAVY, "dask", "numpy", "pyarrow", "scipy", "zarr")),
        ("status {folder}", HEAVY),
        ("fit --help", RARE),
        ("verify --help", RARE),
    ],
)
def test_commands_import_only_what_they_need(command: str, unwanted: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    arguments = command.format(folder=tmp_path).split()
    result = subprocess.run(
        [sys.executable, "-c", _SCRIPT, ",".join(unwanted), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr.splitlines()[-1] == "0"


@pytest.mark.parametrize("name", ["commands.fit", "commands.screen", "commands.suggest", "workers.batch"])
def test_what_a_worker_imports(name: str) -> None:
    """Each worker process would load scikit-learn, and SciPy's statistics with it."""
    script = f"import sys, daskrf.{name}; print(*sorted(set({RARE}) & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", ["fit", "evaluate"])
def test_small_files_of_labels_start_no_workers(name: str, tmp_path: Path) -> None:
    small, large = tmp_path / "small.csv", tmp_path / "large.csv"
    small.write_text("smiles,score\nC,1\n")
    large.touch()
    os.truncate(large, 3 * 2**20)
    workers_for = command_of(name).cli.workers_for
    assert [workers_for(file, None) for file in (small, large, tmp_path / "none.csv")] == [False, True, False]
    assert workers_for(tmp_path, small)  # a store has its own size
