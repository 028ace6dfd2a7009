"""What is done with more labels than should be in memory at once is the same as for few."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from daskrf import seeds
from daskrf.fitting import mapsearch
from daskrf.fitting.costs import need_of_solve
from daskrf.jobs.memory import Making
from daskrf.models import labelled
from daskrf.models.labelled import smiles_array_of_rows
from daskrf.storage.model import load_model, save_model
from daskrf.tables.values import repeats, suspicious
from daskrf.tables.values.repeats import notes_on_repeats
from tests.storage.strategies import UNFOLDED, csr_of, new_store, rows_table


def test_smiles_are_saved_as_they_are_read(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s", partitions=[{"start": k, "stop": k + 9} for k in range(0, 90, 9)])
    for p in range(10):
        store.write_partition(p, csr_of([{}] * 9, UNFOLDED), rows_table(9 * p, 9))
    rows = np.sort(np.random.default_rng(0).integers(0, 90, 200))
    kept = smiles_array_of_rows(store, rows)
    with patch.object(labelled, "MOST_KEPT", 0):
        read = smiles_array_of_rows(store, rows)
    assert isinstance(kept, np.ndarray)
    assert read is not None
    assert not isinstance(read, np.ndarray)
    with patch("daskrf.storage.stores.zarrays.BLOCK_BYTES", 300):
        save_model(tmp_path / "kept", {"text": kept}, {})
        save_model(tmp_path / "read", {"text": read}, {})  # type: ignore[dict-item]
    assert load_model(tmp_path / "read").group == load_model(tmp_path / "kept").group
    assert load_model(tmp_path / "read").arrays["text"].tobytes() == kept.tobytes()


@pytest.mark.parametrize("n", [1, 7, 50])
def test_labels_are_sampled_some_at_a_time(n: int) -> None:
    order = np.argsort(seeds.words(3, "fit/sample", n), kind="stable")
    for size in (1, 5, 60):
        with patch.object(mapsearch, "_WORDS_AT_ONCE", 8):
            assert mapsearch._first_words(3, n, size).tolist() == sorted(order[:size].tolist())


def test_repeats_are_judged_some_at_a_time() -> None:
    rng = np.random.default_rng(0)
    groups = np.sort(rng.integers(0, 60, 150))
    y = rng.normal(-7, 1, 60)[groups] + rng.choice([0.0, 2.0], 150)
    y[::11] = np.nan
    notes = notes_on_repeats(groups, y[:, None], ["score"], str)
    assert notes
    with patch.object(repeats, "_AT_ONCE", 7):
        assert notes_on_repeats(groups, y[:, None], ["score"], str) == notes


def test_quantiles_and_skewness_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 10, 101):
        values = np.sort(rng.lognormal(0, 1, n).round(2))
        shares = (0.02, 0.25, 0.5, 0.75, 0.98)
        assert suspicious._quantiles(values, shares) == np.quantile(values, shares).tolist()
        centred = values - values.mean()
        expected = (centred**3).mean() / centred.std() ** 3 if n > 1 and centred.any() else 0.0
        with patch.object(suspicious, "_AT_ONCE", 4):
            assert suspicious._skewness(values) == pytest.approx(expected, abs=1e-12)


def test_memory_for_smiles_is_predicted_where_they_are_held() -> None:
    def labels(*, holds_smiles: bool) -> int:
        need = need_of_solve(Making(64, 1_000, one_bit=True), 10**8, holds_smiles=holds_smiles)
        return dict(need.parts)["labels"]

    assert labels(holds_smiles=True) == 80 * 10**8
    assert labels(holds_smiles=False) < 2.7 * 2**30
