"""The SMILES of labelled molecules, as a model stores them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from daskrf.models import labelled
from daskrf.models.labelled import smiles_array, smiles_array_of_rows, smiles_of_rows
from tests.storage.strategies import full_store


def test_smiles_are_stored_as_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of no label, of one, of several of a molecule, with partitions between that have none."""
    store = full_store(tmp_path / "s", n_partitions=5, rows=20)
    there = np.concatenate([store.read_rows(p, ["row"])["row"].to_numpy() for p in range(5)])
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 30, 200):
        for few in (2, len(there)):
            rows = np.sort(rng.choice(rng.choice(there, few, replace=False), n))
            texts = smiles_of_rows(store, rows)
            stored = smiles_array_of_rows(store, rows)
            assert texts is not None
            assert stored is not None
            assert len(texts) == n
            assert stored.tobytes() == smiles_array(texts).tobytes()
    monkeypatch.setattr(labelled, "_MOST_ROWS", 10)
    assert smiles_array_of_rows(store, rows) is None
