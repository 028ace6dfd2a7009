"""Evaluate, suggest and found as jobs of a real SLURM: the files and words are those of one process."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from cluster.slurm_lab.lab import Lab
from daskrf import evaluate, fit, found, jobqueue_cluster, suggest
from tests.cluster.job import FEATURES, Job, await_true
from tests.cluster.test_scripts import SCRIPTS, WAITING, state_of
from tests.cluster.test_slurm import Strikes, cluster_file, jobs_of
from tests.spaces.helpers import SPACES, write_space

LIBRARY = {"n": 40, "where": "logp < 3", "max_similarity": 0.6}
SPACE = {"n": 6, "where": "logp < 1", "max_similarity": 0.6, "shortlist": 60}
STRUCK = [(".predicted.csv.daskrf/*/level-0-*", 1), (".batch.csv.daskrf/partials/level-0-*", 1)]


@pytest.fixture(scope="module")
def made(done: Path, inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of some labels, and a space."""
    out = tmp_path_factory.mktemp("batches")
    lines = inputs[1].read_text().splitlines(keepends=True)
    (out / "y.csv").write_text("".join(lines[:301]))
    fit(done / "fp", out / "y.csv", out / "model", key="smiles", direction="minimize", quick=True)
    write_space(out / "space", {name: SPACES[name] for name in ("amide", "boc")})
    return out


def choose(made: Path, store: Path, labels: Path, out: Path, client: Client | None = None) -> list[str]:
    """Evaluate, choose from the library and from the space, and estimate what was found."""
    out.mkdir()
    options: dict[str, Any] = {"client": client}
    table = {"output": out / "predicted.csv", "key": "smiles", "folds": 3, "feature_map": FEATURES}
    reports = [
        evaluate(store, labels, **table, **options),
        suggest(made / "model", store, out / "batch.csv", **LIBRARY, **options),
        suggest(made / "model", store, out / "drawn.csv", n=20, acquisition="thompson", **options),
        suggest(made / "model", made / "space", out / "products.csv", **SPACE, **options),
        found(made / "model", store, k=20, n_draws=8, **options),
        found(made / "model", made / "space", k=3, n_draws=8, **options),
    ]
    return [re.sub(r"[(;] ?[\d,]+\.\d s\)", "", str(report)).replace(str(out), "") for report in reports]


def files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.glob("*.csv") if path.is_file()}


def test_a_batch_is_chosen_though_jobs_are_cancelled(
    done: Path, made: Path, job: Job, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As of a large space and a large library; only this process says how many.
    monkeypatch.setattr("daskrf.screens.space.productranking.LEAST_SHORTLIST", 60)
    monkeypatch.setattr("daskrf.screens.space.productranking.LISTED", 0)
    monkeypatch.setattr("daskrf.screens.space.productranking._ROUGHLY", 1)
    monkeypatch.setattr("daskrf.screens.libraryranking._LEAST_ROWS", 1)

    def strike(i: int) -> None:
        await_true(lambda: jobs_of(lab))
        lab.run("scancel", "--signal=KILL", "--full", jobs_of(lab)[0])

    with (
        jobqueue_cluster(cluster_file(tmp_path)) as client,
        Strikes(job.out, STRUCK, strike) as strikes,
    ):
        there = choose(made, done / "fp", job.labels, job.out, client)
    assert strikes.count == len(STRUCK)
    assert choose(made, done / "fp", job.labels, tmp_path / "here") == there
    assert files(job.out) == files(tmp_path / "here")


def test_arrays_of_shards_choose_the_same_batches(
    done: Path, made: Path, job: Job, lab: Lab, tmp_path: Path
) -> None:
    """A library and a space at once: two shards each, and a job that chooses."""
    text = (SCRIPTS / "daskrf-array.sbatch").read_text()
    text = text.replace("--mem=4G", "--mem=1G").replace("--cpus-per-task=8 --mem=32G", "--mem=1G")
    (tmp_path / "array.sbatch").write_text(text)
    last = []
    for source, name, options in ((done / "fp", "batch", LIBRARY), (made / "space", "products", SPACE)):
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in options.items() if key != "n"]
        command = ["suggest", made / "model", source, "-o", f"{name}.csv", "-n", str(options["n"]), *flags]
        last.append(
            subprocess.run(
                ["bash", "array.sbatch", "2", *map(str, command)],
                env=os.environ | {"AFTER": ""},
                text=True,
                capture_output=True,
                check=True,
            ).stdout.strip()
        )
        suggest(made / "model", source, tmp_path / f"here-{name}.csv", **options)
    await_true(lambda: all(state_of(lab, number) not in WAITING for number in last), 500)
    printed = [path.read_text() for path in sorted(tmp_path.glob("daskrf-*.out"))]
    assert [state_of(lab, number) for number in last] == ["COMPLETED"] * 2, printed
    for name in ("batch", "products"):
        assert (tmp_path / f"{name}.csv").read_bytes() == (tmp_path / f"here-{name}.csv").read_bytes()
