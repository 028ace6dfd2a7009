"""What is done with more labels than should be in memory at once is the same as for few."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from daskrf import FingerprintSpec, TanimotoMinMaxFeatures, fingerprint, fit, seeds
from daskrf.fitting.costs import need_of_solve
from daskrf.jobs.memory import Making
from daskrf.models import intervals, labelled
from daskrf.models.labelled import smiles_array_of_rows
from daskrf.storage.model import OrderedBytes, load_model, save_model
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


@pytest.mark.parametrize("n_labels", [5, 90, 4000])
def test_molecules_to_leave_out_are_picked_some_at_a_time(n_labels: int) -> None:
    rng = np.random.default_rng(n_labels)
    rows = np.sort(rng.integers(-30, 2 * n_labels, n_labels).clip(-1))
    labels = rng.normal(size=(n_labels, 2))
    labels[rng.random(n_labels) < 0.2, 1] = np.nan
    there = np.flatnonzero(np.isfinite(labels[:, 1]))
    starts = there[np.concatenate([[True], rows[there][1:] != rows[there][:-1]]) | (rows[there] < 0)]
    with patch.object(intervals, "MOST_MOLECULES", 50):
        order = np.argsort(seeds.words(0, "models/intervals", len(starts)), kind="stable")[:50]
        for at_once in (1, 7, 10_000):
            with patch.object(intervals, "_AT_ONCE", at_once):
                assert intervals._picked(labels, rows, 1).tolist() == sorted(starts[order].tolist())


def test_lines_are_read_some_bytes_at_a_time() -> None:
    rng = np.random.default_rng(0)
    lines = ["C" * int(n) for n in rng.integers(0, 9, 40)]
    text = np.frombuffer("\n".join(lines).encode(), np.uint8)
    ordered = OrderedBytes(len(text), lambda: iter([text[:7], text[7:7], text[7:90], text[90:]]))
    for block in (1, 3, 64, 10_000):
        with patch.object(intervals, "_BLOCK", block):
            for numbers in ([], [0], [39], [3, 4, 20, 39], [*range(40)]):
                for given in (text, ordered):
                    expected = [lines[n] for n in numbers]
                    assert intervals._lines(given, np.array(numbers, np.int64)) == expected


def test_a_fit_of_many_labels_has_intervals(tmp_path: Path, inputs: tuple[Path, Path]) -> None:
    library, labels = inputs
    store, models = tmp_path / "fp", []
    fingerprint(library, store, spec=FingerprintSpec("morgan"))
    for name, kept in (("few", 1 << 20), ("many", 0)):
        with patch.object(labelled, "MOST_KEPT", kept):
            fit(store, labels, output=tmp_path / name, feature_map=TanimotoMinMaxFeatures(64))
        models.append(load_model(tmp_path / name))
    few, many = (each.arrays[intervals.RESIDUALS].tobytes() for each in models)
    assert few == many
