"""A small library with flaws, its labels, and a cluster of two worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client

from daskrf import local_cluster
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
from tests.jobs.job import FLAWS, N_LABELS, N_MOLECULES


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A SMILES file with some unusable lines, and a CSV of labels."""
    directory = tmp_path_factory.mktemp("inputs")
    smiles = ReactionLibrary().smiles(0, N_MOLECULES)
    lines = [f"{text} m{i}" for i, text in enumerate(smiles)]
    for position, flaw in FLAWS.items():
        lines.insert(position, flaw)
    library, labels = directory / "library.smi", directory / "labels.csv"
    library.write_text("\n".join(lines) + "\n")
    values = score(smiles[: 2 * N_LABELS : 2])
    labels.write_text("id,score\n" + "".join(f"m{2 * i},{y!r}\n" for i, y in enumerate(values.tolist())))
    return library, labels


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    """Two worker processes."""
    with local_cluster(n_workers=2, memory_limit="3GiB", dashboard=False) as client:
        yield client
