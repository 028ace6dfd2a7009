"""The main job on the small library, and digests of what it leaves."""

from __future__ import annotations

import hashlib
from pathlib import Path
from unittest.mock import patch

import numpy as np
from distributed import Client

from daskrf import TanimotoMinMaxFeatures, featurize, fingerprint, fit, predict, screen
from daskrf.storage.model import load_model

N_MOLECULES = 600
N_LABELS = 250  # every other molecule, so that labels are in more partitions than a tree's fan-in
FLAWS = {3: "not-a-smiles bad1", 120: "", 301: "C1CC bad2", 599: "CC(C)(C)(C)C bad3"}
FEATURES = TanimotoMinMaxFeatures(n_components=203, random_state=5)


def run_job(
    inputs: tuple[Path, Path], out: Path, client: Client | None, rows_per_partition: int = 50
) -> None:
    """Fingerprint, featurize, fit, predict and screen into `out`."""
    library, labels = inputs
    fingerprint(library, out / "fp", rows_per_partition=rows_per_partition, client=client)
    featurize(out / "fp", FEATURES, out / "phi", client=client)
    # One partition a task, so that the trees of fit and screen have inner nodes.
    with (
        patch("daskrf.fitting.parts._GROUP_ROWS", (1, 1)),
        patch("daskrf.screens.libraryranking._LEAST_ROWS", 1),
    ):
        fit(out / "phi", labels, out / "model", client=client)
        predict(out / "model", out / "phi", out / "pred", client=client)
        screen(out / "model", out / "phi", out / "hits.parquet", k=20, client=client, maximize=False)


def data_digests(path: Path) -> dict[str, str]:
    """Return a digest of every data file of a store (not of its plan, which holds time and host)."""
    files = [p for p in path.rglob("*") if p.is_file() and p.name != "_plan.json"]
    return {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def model_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return all arrays of a model."""
    return load_model(path).arrays


def assert_same_job(a: Path, b: Path) -> None:
    """Assert that two runs of the job left the same bytes."""
    for store in ("fp", "phi"):
        assert data_digests(a / store) == data_digests(b / store), store
    left, right = model_arrays(a / "model"), model_arrays(b / "model")
    assert set(left) == set(right)
    for name in left:
        assert left[name].tobytes() == right[name].tobytes(), name
    assert (a / "hits.parquet").read_bytes() == (b / "hits.parquet").read_bytes()
    tables = [{k: v for k, v in data_digests(x / "pred").items() if k.endswith(".parquet")} for x in (a, b)]
    assert tables[0] == tables[1]
