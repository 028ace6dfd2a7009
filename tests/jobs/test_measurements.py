"""Molecules that were measured several times, and targets that were measured of different molecules."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from daskrf import TanimotoMinMaxFeatures, fingerprint, fit, fit_map, predict, screen, status
from daskrf.errors import InputError
from daskrf.features import FeatureMap, LandmarkFeatures, LocalGaussianFeatures, NystromFeatures
from daskrf.fitting.totals import of_labels
from daskrf.gp import SeparateGP, gp_for
from daskrf.gp.sums.chunks import sum_rows
from daskrf.models.models import read_model
from daskrf.sources.sources import Block
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from tests.jobs.job import data_digests, model_arrays
from tests.jobs.test_shards_of_job import sharded, small_groups

Gaps = tuple[Path, np.ndarray, dict[str, np.ndarray]]

ONE_BIT = TanimotoMinMaxFeatures(203, random_state=5)
MAPS: dict[str, FeatureMap] = {
    "one-bit": ONE_BIT,
    "gaussian": TanimotoMinMaxFeatures(60, distribution="gaussian", random_state=3),
    "landmarks": LandmarkFeatures(70, random_state=3),
    "nystrom": NystromFeatures(50, random_state=3),
    "local": LocalGaussianFeatures(75, length_scale=6.0, n_centroids=3, random_state=3),
}


@pytest.fixture(scope="module")
def store(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("measurements") / "fp"
    fingerprint(inputs[0], path, rows_per_partition=50)
    return path


def _read(path: Path) -> tuple[np.ndarray, sparse.csr_array]:
    """Return row numbers and fingerprints of a library."""
    store = FingerprintStore.open(path)
    rows = [store.read_rows(p, ["row"])["row"].to_numpy() for p in range(store.n_partitions)]
    found = [store.read_fingerprints(p) for p in range(store.n_partitions)]
    return np.concatenate(rows), sparse.vstack(found, format="csr")


def _table(path: Path, rows: np.ndarray, **targets: np.ndarray) -> Path:
    """Write labels by row number; NaN is an empty field."""
    lines = ["row," + ",".join(targets)]
    for row, *values in zip(rows.tolist(), *(v.tolist() for v in targets.values()), strict=True):
        lines.append(f"{row}," + ",".join("" if np.isnan(value) else repr(value) for value in values))
    path.write_text("\n".join(lines) + "\n")
    return path


def _predicted(path: Path) -> pa.Table:
    opened = PredictionStore.open(path)
    return pa.concat_tables([opened.read(p) for p in range(opened.n_partitions)])


def _score(X: sparse.csr_array, rng: np.random.Generator) -> np.ndarray:
    """Return a linear function of each fingerprint, of unit variance."""
    weights = rng.standard_normal(997)[X.indices % 997]
    found = np.add.reduceat(weights * X.data, X.indptr[:-1])
    return found / found.std()


def _measured(store: Path, seed: int, n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of which each was measured one to six times, one of them 300 times, in no order."""
    rng, (rows, X) = np.random.default_rng(seed), _read(store)
    score = _score(X, rng)
    chosen = rng.choice(len(rows), n, replace=False)
    times = rng.integers(1, 7, n)
    times[0] = 300
    which = rng.permutation(np.repeat(chosen, times))
    return rows[which], score[which] + 0.7 * rng.standard_normal(len(which))


@pytest.mark.parametrize("name", MAPS)
def test_a_mean_of_r_measurements_has_an_rth_of_the_noise(name: str, store: Path, tmp_path: Path) -> None:
    """The model of all measurements is that of their means, each with the noise of a mean (by the dual)."""
    rows, y = _measured(store, 1)
    labels, noise = _table(tmp_path / "labels.csv", rows, y=y), 0.3
    with small_groups(), patch("daskrf.sources.sources.block_rows", lambda *_, **__: 32):
        report = fit(
            store, labels, tmp_path / "model", feature_map=MAPS[name], key="row",
            mean=0.5, signal_variance=2.0, noise_variance=noise,
        )  # fmt: skip
    joined = report.labels
    measured, times = np.unique(rows, return_counts=True)
    assert (joined.matched, joined.n_molecules) == (len(rows), 120)
    assert (joined.repeats, joined.equal_repeats) == (len(rows) - 120, 0)
    assert f"{len(rows):,} labels attached to 120 molecules" in str(report)
    assert (np.diff(joined.row) >= 0).all()
    for row in measured[[0, -1, int(np.argmax(times))]]:
        assert joined.y[joined.row == row].ravel().tolist() == y[rows == row].tolist()

    every, X = _read(store)
    predict(tmp_path / "model", store, tmp_path / "pred")
    found = _predicted(tmp_path / "pred")["mean"].to_numpy()
    fitted = fit_map(MAPS[name], store)
    if name == "local":  # another posterior at each molecule
        sums = sum_rows(
            X[np.searchsorted(every, rows)], y[:, None], fitted, n_components=None, exponents=None
        )
        gp = gp_for(fitted, mean=0.5, signal_variance=2.0, noise_variance=noise).fit_statistics(sums, fitted)
        np.testing.assert_allclose(found, gp.predict(X), rtol=1e-4, atol=1e-4)
        return
    if fitted.one_bit:
        bits = np.unpackbits(fitted.transform_bits(X), axis=1, bitorder="little")[:, : fitted.n_components]
        phi = (2.0 * bits - 1) / np.sqrt(fitted.n_components)
    else:
        phi = fitted.transform(X).astype(np.float64)
    if name == "landmarks":  # whose weights have the prior precision K_ZZ
        phi = phi @ np.linalg.inv(np.linalg.cholesky(fitted.prior_precision())).T
    own = phi[np.searchsorted(every, measured)]
    means = np.array([y[rows == row].mean() for row in measured])
    K = 2.0 * own @ own.T + np.diag(noise / times)
    expected = 0.5 + 2.0 * phi @ own.T @ np.linalg.solve(K, means - 0.5)
    # 300 measurements of one molecule make the last digits of float features count: 1e-3 of the spread is
    # what sums in single precision are held to. Bits are exact.
    tolerance = 1e-4 if fitted.one_bit else 1e-3 * float(expected.std())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=tolerance)


def test_noise_is_learned_from_measurements_of_the_same_molecule(store: Path, tmp_path: Path) -> None:
    """Features that explain nothing leave the noise to the scatter of each molecule's measurements."""
    rows, y = _measured(store, 2, n=200)
    mean = {row: y[rows == row].mean() for row in np.unique(rows).tolist()}
    within = float(np.mean([(value - mean[row]) ** 2 for row, value in zip(rows.tolist(), y, strict=True)]))
    labels = _table(tmp_path / "labels.csv", rows, y=y)
    report = fit(store, labels, tmp_path / "model", feature_map=TanimotoMinMaxFeatures(2048), key="row")
    assert report.noise_variance[0] == pytest.approx(within * len(y) / (len(y) - 200), rel=0.2)


def test_equal_measurements_are_counted(store: Path, tmp_path: Path) -> None:
    rows, _ = _read(store)
    chosen = np.concatenate([rows[:50], rows[:20], rows[:20], rows[:10]])
    y = np.random.default_rng(0).standard_normal(50)
    values = np.concatenate([y, y[:20], y[:20] + 1, y[:10]])
    labels = _table(tmp_path / "labels.csv", chosen, y=values)
    report = fit(store, labels, tmp_path / "model", feature_map=ONE_BIT, key="row")
    assert (report.labels.repeats, report.labels.equal_repeats) == (50, 30)
    assert "repeats with exactly the value of an earlier one: 30 (if they are copies" in str(report)
    assert "50 repeats, 30 equal repeats" in str(status(tmp_path / "model"))


@settings(derandomize=True, deadline=None, max_examples=200)
@given(times=st.lists(st.integers(1, 9), min_size=1, max_size=12), first=st.integers(0, 5), data=st.data())
def test_blocks_of_labels(times: list[int], first: int, data: st.DataObject) -> None:
    """Each label has the features of its molecule, in blocks that are no larger than those of the source."""
    rows = np.repeat(np.arange(len(times)) * 3 + 7, times)
    cut = data.draw(st.integers(1, len(times)))
    found: list[tuple[int, int, float]] = []
    for own in (slice(0, cut), slice(cut, len(times))):
        numbers = np.unique(rows)[own]
        phi = numbers[:, None] * np.ones((1, 2))
        for part in of_labels(Block(numbers, phi, numbers * 2.0), rows, first):
            assert len(part.rows) <= len(numbers)
            assert part.diagonal is not None
            found += zip(part.rows.tolist(), part.phi[:, 1].tolist(), part.diagonal.tolist(), strict=True)
    assert found == [(first + k, row, 2.0 * row) for k, row in enumerate(rows.tolist())]


@pytest.fixture(scope="module")
def gaps(
    store: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, np.ndarray, dict[str, np.ndarray]]:
    """Labels of four targets, of which the second and the last were measured of the same molecules."""
    rng, (rows, X) = np.random.default_rng(7), _read(store)
    chosen = rng.permutation(len(rows))[:240]
    targets = {}
    for name in "abcd":
        targets[name] = _score(X, rng)[chosen] + 0.3 * rng.standard_normal(len(chosen))
    targets["a"][:80] = np.nan
    targets["b"][100:160] = np.nan
    targets["c"][90:] = np.inf
    targets["d"][100:160] = np.nan
    for values in targets.values():
        values[200:] = np.nan
    path = tmp_path_factory.mktemp("gaps") / "labels.csv"
    return _table(path, rows[chosen], **targets), rows[chosen], targets


class Alone(NamedTuple):
    """What a fit to one target gives."""

    report: Any
    predictions: pa.Table
    hits: list[int]


def _hits(model: Path, store: Path, target: str, hits: Path) -> list[int]:
    report = screen(
        model, store, hits, k=9, target=target, acquisition="ucb" if target == "d" else "thompson",
        maximize=True, exclude_labelled=False, std="candidates",
    )  # fmt: skip
    return report.table["row"].to_pylist()


@pytest.fixture(scope="module")
def alone(
    gaps: Gaps, store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, Alone]]:
    """Fits to each target alone, in one strip, by the name of the map: made once."""
    _, rows, targets = gaps

    @cache
    def fitted(name: str) -> dict[str, Alone]:
        out, results = tmp_path_factory.mktemp("alone"), {}
        for target, values in targets.items():
            there, model = np.isfinite(values), out / target
            path = _table(out / f"{target}.csv", rows[there], **{target: values[there]})
            report = fit(store, path, model, feature_map=MAPS[name], key="row")
            predict(model, store, out / f"pred-{target}")
            hits = _hits(model, store, target, out / f"{target}.parquet")
            results[target] = Alone(report, _predicted(out / f"pred-{target}"), hits)
        return results

    return fitted


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("strips", [False, True])
def test_targets_with_gaps_keep_all_of_their_rows(
    name: str,
    strips: bool,
    gaps: Gaps,
    alone: Callable[[str], dict[str, Alone]],
    store: Path,
    tmp_path: Path,
) -> None:
    """Each target's model and predictions are those of a fit to it alone."""
    labels, _, _ = gaps
    with ExitStack() as stack:
        if strips:
            stack.enter_context(patch("daskrf.fitting.parts._STRIP_BYTES", 30_000))
            stack.enter_context(small_groups())
        report = fit(
            store, labels, tmp_path / "all", feature_map=MAPS[name], key="row", target=list("abcd"),
            drop_non_numbers=True,
        )  # fmt: skip
    assert report.labels.matched == 200
    assert report.labels.dropped == 40
    assert "; 120 with a, 140 with b, 90 with c, 140 with d; values left out: 470 empty, NaN" in str(report)
    assert "infinite, and so 40 rows" in str(report)
    assert isinstance(read_model(tmp_path / "all").gp, SeparateGP)
    predict(tmp_path / "all", store, tmp_path / "pred")
    table = _predicted(tmp_path / "pred")
    for t, (target, expected) in enumerate(alone(name).items()):
        for what in ("mean", "signal_variance", "noise_variance", "log_marginal_likelihood"):
            assert getattr(report, what)[t] == pytest.approx(getattr(expected.report, what)[0], rel=1e-5)
        assert report.bound[t : t + 1] == pytest.approx(expected.report.bound, rel=1e-7)
        for column in ("mean", "std", "std_y"):
            found = table[f"{column}_{target}"].to_numpy()
            np.testing.assert_allclose(found, expected.predictions[column].to_numpy(), rtol=1e-4, atol=1e-5)
        assert _hits(tmp_path / "all", store, target, tmp_path / f"{target}.parquet") == expected.hits
    assert "3 models in one, of targets that have gaps (SeparateGP)" in str(status(tmp_path / "all"))
    assert "targets: a, b, c, d" in str(status(tmp_path / "all"))


def test_gaps_by_shards_and_again(gaps: Gaps, store: Path, tmp_path: Path) -> None:
    """Shards share the sums of all sets of rows; other hyperparameters need no further pass."""
    labels, _, _ = gaps
    options = {"feature_map": ONE_BIT, "key": "row", "target": list("abcd"), "drop_non_numbers": True}
    with small_groups():
        fit(store, labels, tmp_path / "model", **options)
        sharded(fit, 3, store, labels, tmp_path / "by-shards", trees=3, **options)
        found, expected = (model_arrays(tmp_path / name) for name in ("by-shards", "model"))
        assert {k: v.tobytes() for k, v in found.items()} == {k: v.tobytes() for k, v in expected.items()}
        assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
        before = data_digests(tmp_path / "model")
        fit(store, labels, tmp_path / "model", **options)
        assert data_digests(tmp_path / "model") == before
        with patch("daskrf.jobs.tree.Tree.make", side_effect=AssertionError("another pass")):
            fit(store, labels, tmp_path / "model", noise_variance=0.2, **options)
        fit(store, labels, tmp_path / "fresh", noise_variance=0.2, **options)
    left, right = (model_arrays(tmp_path / name) for name in ("model", "fresh"))
    assert {k: v.tobytes() for k, v in left.items()} == {k: v.tobytes() for k, v in right.items()}


def test_a_target_without_values_is_refused(store: Path, tmp_path: Path) -> None:
    rows, _ = _read(store)
    y = np.random.default_rng(0).standard_normal(9)
    labels = _table(tmp_path / "labels.csv", rows[:9], a=y, b=np.full(9, np.nan))
    with pytest.raises(InputError, match="no labels of b left: none of its values is a finite number"):
        fit(store, labels, tmp_path / "model", key="row", target=["a", "b"], drop_non_numbers=True)
    labels = _table(tmp_path / "labels.csv", rows[:9], a=y, b=np.where(np.arange(9) > 4, 1.5, np.nan))
    with pytest.raises(InputError, match="All labels of b are the same"):
        fit(store, labels, tmp_path / "model", key="row", target=["a", "b"], drop_non_numbers=True)


def test_only_rows_with_labels_of_the_target_are_left_out(gaps: Gaps, store: Path, tmp_path: Path) -> None:
    labels, rows, targets = gaps
    options = {"feature_map": ONE_BIT, "key": "row", "target": list("abcd"), "drop_non_numbers": True}
    fit(store, labels, tmp_path / "model", **options)
    for target, values in targets.items():
        hits = screen(
            tmp_path / "model", store, tmp_path / f"{target}.parquet", k=1_000, target=target, maximize=True,
            exclude_labelled=True,
        )  # fmt: skip
        expected = set(_read(store)[0].tolist()) - set(rows[np.isfinite(values)].tolist())
        assert set(hits.table["row"].to_pylist()) == expected
