"""The SLURM lab stops nothing but itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.slurm_lab import lab
from cluster.slurm_lab.lab import Lab, LabError


@pytest.fixture(autouse=True)
def _own_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "_HOSTS", tmp_path / "hosts")


def test_a_folder_of_others_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "missing", lambda: "")
    base = tmp_path / "work"
    base.mkdir()
    (base / "results").touch()
    with pytest.raises(LabError, match="is no lab: name another folder"):
        Lab(base).start()
    Lab(base).stop()
    (base / "slurm.conf").write_text("ClusterName=production\n")
    Lab(base).stop()
    assert (base / "results").exists()


def test_a_process_that_has_got_the_number_of_a_daemon_is_left_alone(tmp_path: Path) -> None:
    base = tmp_path / "lab"
    (base / "pid").mkdir(parents=True)
    (base / "munge").mkdir()
    Lab(base)._configure()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        for name in ("munged", "slurmctld", "slurmd.n1"):
            (base / "pid" / name).write_text(f"{other.pid}\n")
        Lab(base).stop()
        assert other.poll() is None
        other.communicate(b"\n")
    assert not base.exists()
