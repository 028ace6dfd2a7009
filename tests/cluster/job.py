"""The main job on real molecules, as commands and as functions, for any place where it can run."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from distributed import Client

from daskrf import TanimotoMinMaxFeatures, featurize, fingerprint, fit, predict, screen
from daskrf.workers.progress import Progress
from tests.jobs.job import assert_same_job, data_digests, model_arrays

__all__ = ["Job", "assert_same_job", "assert_same_part", "await_true", "write_inputs"]

# DASKRF_LAB=full: all 50,240 molecules of Enamine50k at 4,096 features; else some of them.
FULL = os.environ.get("DASKRF_LAB") == "full"
N_MOLECULES, N_FEATURES, ROWS_PER_PARTITION = (None, 4096, 2000) if FULL else (2000, 512, 200)

FEATURES = TanimotoMinMaxFeatures(n_components=N_FEATURES)


@dataclass(frozen=True)
class Job:
    """The commands of the main job: `smiles` and `labels` to everything below `out`."""

    smiles: Path
    labels: Path
    out: Path

    def commands(self) -> list[list[str]]:
        """Return fingerprint, featurize, fit, predict and screen, without where they run."""
        fp, phi, model, pred, hits = (
            str(self.out / name) for name in ("fp", "phi", "model", "pred", "hits.parquet")
        )
        return [
            ["fingerprint", str(self.smiles), "-o", fp, "--rows-per-partition", str(ROWS_PER_PARTITION)],
            ["featurize", fp, "-o", phi, "-M", str(N_FEATURES)],
            ["fit", phi, str(self.labels), "-o", model, "--key", "smiles"],
            ["predict", model, phi, "-o", pred, "--no-std"],
            ["screen", model, phi, "-o", hits, "-k", "100", "--minimize"],
        ]

    def run(self, client: Client) -> None:
        """Do the same by the functions of the package."""
        fp, phi, model = self.out / "fp", self.out / "phi", self.out / "model"
        fingerprint([self.smiles], fp, rows_per_partition=ROWS_PER_PARTITION, client=client)
        featurize(fp, FEATURES, phi, client=client)
        with _a_leaf_a_partition():
            fit(phi, self.labels, model, key="smiles", client=client)
            predict(model, phi, self.out / "pred", std=False, client=client)
            screen(model, phi, self.out / "hits.parquet", k=100, client=client, maximize=False)

    def run_part(self, client: Client, progress: Progress | None = None) -> None:
        """Do fingerprint and fit only, which both write and fold."""
        fp, model = self.out / "fp", self.out / "model"
        work: dict[str, Any] = {"client": client, "progress": progress}
        fingerprint([self.smiles], fp, rows_per_partition=ROWS_PER_PARTITION, **work)
        with _a_leaf_a_partition():
            fit(fp, self.labels, model, key="smiles", feature_map=FEATURES, **work)


@contextmanager
def _a_leaf_a_partition() -> Iterator[None]:
    """Fold one partition a task, so that there are some to lose."""
    with (
        patch("daskrf.fitting.parts._GROUP_ROWS", (1, 1)),
        patch("daskrf.screens.libraryranking._LEAST_ROWS", 1),
    ):
        yield


def assert_same_part(a: Path, b: Path) -> None:
    """Assert that two runs left the same fingerprints and the same sums and weights."""
    assert data_digests(a / "fp") == data_digests(b / "fp")
    left, right = model_arrays(a / "model"), model_arrays(b / "model")
    assert set(left) == set(right)
    for name in left:
        assert left[name].tobytes() == right[name].tobytes(), name


def write_inputs(data: Path, directory: Path) -> tuple[Path, Path]:
    """Write the library, and the docking scores of its molecules, as plain CSV files."""
    library, labels = directory / "library.csv", directory / "labels.csv"
    with gzip.open(data / "Enamine50k_library.csv.gz", "rt") as file:
        lines = file.readlines()[: None if N_MOLECULES is None else N_MOLECULES + 1]
    library.write_text("".join(lines))
    listed = {line.strip() for line in lines}
    with gzip.open(data / "Enamine50k_scores.csv.gz", "rt") as file:
        header, *scores = file.readlines()
    labels.write_text(header + "".join(line for line in scores if line.partition(",")[0] in listed))
    return library, labels


def await_true(condition: Callable[[], object], seconds: float = 400) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)
