"""The benchmark of large libraries: what it puts in place of RDKit and of real stores is true to them."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskrf import fingerprint
from daskrf.molecules.enumerate import ReactionLibrary
from daskrf.stores.fingerprints import FingerprintStore

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the function that imports a module of the folder, as if a script of it were run."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


def test_composed_fingerprints_are_those_of_rdkit(script):
    synthesis, library = script("synthesis"), ReactionLibrary(3)
    composer = synthesis.Composer.build(3)
    starts = np.linspace(0, len(library) - 100, 5).astype(np.int64)
    assert synthesis.check(composer, library, starts, 100) == 500
    composer.environments[:] += 1
    with pytest.raises(AssertionError):
        synthesis.check(composer, library, starts, 100)


def test_the_store_of_many_partitions_is_complete_until_one_is_damaged(script, tmp_path):
    resume = script("resume")
    (tmp_path / "a.smi").write_text("".join(f"{'C' * n}O m{n}\n" for n in range(1, 30)))
    fingerprint(tmp_path / "a.smi", tmp_path / "one")
    store = resume.multiply(FingerprintStore.open(tmp_path / "one"), tmp_path / "many", 40)
    assert store.pending() == []
    assert store.counts()["kept"] == 40 * 29
    assert store.verify(17) == []
    found = resume.scan_times(store)
    assert found["partitions"] == 40
    assert found["objects_per_partition"] > 4
    shutil.rmtree(store.partition_path(17))
    store.record_path(30).unlink()
    assert store.pending() == [17, 30]
