"""Fixtures of the feature maps' tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def folded(data_dir: Path) -> dict[str, np.ndarray]:
    """The set-up of reference/tripp2023_mse.json: 1,000 molecules, Morgan radius 2 counts, id modulo 1024."""
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2)
    counts = np.zeros((1000, 1024))
    with (data_dir / "guacamol_10k.smiles").open() as file:
        for row, line in zip(counts, file, strict=False):
            fingerprint = generator.GetSparseCountFingerprint(Chem.MolFromSmiles(line.split()[0]))
            for identifier, count in fingerprint.GetNonzeroElements().items():
                row[identifier % 1024] += count
    return {"binary": np.minimum(counts, 1), "count": counts}
