"""Means of several measurements, with their number and standard deviation, in the place of measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import multivariate_normal

import daskrf
from daskrf import FingerprintSpec, LandmarkFeatures, TanimotoMinMax, TanimotoMinMaxFeatures
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.measurements import read_labels
from daskrf.molecules import Fingerprinter
from daskrf.tables.values.values import as_measured

N = 50
SMILES = list(ReactionLibrary().smiles(0, N))

PROCESSES: dict[str, dict[str, Any]] = {
    "exact": {"quick": True},
    "bits": {"feature_map": TanimotoMinMaxFeatures(200, random_state=1)},
    "floats": {"feature_map": TanimotoMinMaxFeatures(60, distribution="gaussian", random_state=1)},
    "landmarks": {"feature_map": LandmarkFeatures(30, random_state=1)},
}


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 8).flatmap(lambda n: st.tuples(
    arrays(float, n, elements=st.floats(-1e3, 1e3)), arrays(int, n, elements=st.integers(1, 9)),
    arrays(float, n, elements=st.floats(0, 100)))))  # fmt: skip
def test_measurements_have_these_means_and_deviations(
    drawn: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    means, times, std = drawn
    index, values = as_measured(means, times, std)
    for k in range(len(means)):
        own = values[index == k]
        assert len(own) == times[k]
        np.testing.assert_allclose(own.mean(), means[k], rtol=1e-9, atol=1e-9)
        if times[k] > 1:
            np.testing.assert_allclose(own.std(ddof=1), std[k], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", PROCESSES)
def test_a_fit_to_means_is_that_to_measurements(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    f = np.array([text.count("c") - 2.0 * text.count("N") for text in SMILES]) / 3
    times = rng.integers(1, 5, N)
    measured = [f[k] + 0.6 * rng.standard_normal(times[k]) for k in range(N)]
    every = [f"m{k},{value!r}\n" for k in range(N) for value in measured[k].tolist()]
    (tmp_path / "every.csv").write_text("id,y\n" + "".join(every))
    rows = [
        f"m{k},{float(own.mean())!r},{len(own)},{repr(float(own.std(ddof=1))) if len(own) > 1 else ''}\n"
        for k, own in enumerate(measured)
    ]
    (tmp_path / "means.csv").write_text("id,y,n,sd\n" + "".join(rows))
    (tmp_path / "lib.smi").write_text("".join(f"{text} m{k}\n" for k, text in enumerate(SMILES)))
    daskrf.fingerprint(tmp_path / "lib.smi", tmp_path / "store")
    options = PROCESSES[name]
    one = daskrf.fit(tmp_path / "store", tmp_path / "every.csv", tmp_path / "one", **options)
    other = daskrf.fit(
        tmp_path / "store", tmp_path / "means.csv", tmp_path / "other",
        replicates="n", replicate_std="sd", **options,
    )  # fmt: skip
    assert other.labels.matched == one.labels.matched == times.sum()
    assert other.labels.n_molecules == N
    assert other.labels.equal_repeats == 0
    assert (
        "'n' gives the number of measurements that each is the mean of, 'sd' gives their standard"
        in other.inputs[0]
    )
    for attribute in ("mean", "signal_variance", "noise_variance", "log_marginal_likelihood"):
        np.testing.assert_allclose(getattr(other, attribute), getattr(one, attribute), rtol=1e-3)
    for found, want in zip(
        daskrf.load(tmp_path / "other").predict(SMILES),
        daskrf.load(tmp_path / "one").predict(SMILES),
        strict=True,
    ):
        np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-3)


def test_means_in_evaluations_and_added(tmp_path: Path) -> None:
    """Folds keep the measurements of a molecule together, and errors are those of measurements."""
    rng = np.random.default_rng(4)
    f = np.array([text.count("c") - 2.0 * text.count("N") for text in SMILES]) / 3
    measured = f[:, None] + 0.6 * rng.standard_normal((N, 3))
    every = "".join(f"{SMILES[k]},{value!r}\n" for k in range(N) for value in measured[k].tolist())
    (tmp_path / "every.csv").write_text("smiles,y\n" + every)
    means, std = measured.mean(1).tolist(), measured.std(1, ddof=1).tolist()
    rows = [f"{text},{mean!r},3,{s!r}\n" for text, mean, s in zip(SMILES, means, std, strict=True)]
    (tmp_path / "means.csv").write_text("smiles,y,n,sd\n" + "".join(rows))
    columns = {"replicates": "n", "replicate_std": "sd"}
    fixed: dict[str, Any] = {"quick": True, "mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.36}
    one = daskrf.evaluate(tmp_path / "every.csv", folds=3, **fixed)
    other = daskrf.evaluate(tmp_path / "means.csv", folds=3, **columns, **fixed)
    assert other.table.num_rows == one.table.num_rows == 3 * N
    assert other.n_molecules == N
    errors = [
        np.square(np.subtract(*(report.table[name].to_numpy() for name in ("y", "mean")))).mean()
        for report in (one, other)
    ]
    np.testing.assert_allclose(errors[1], errors[0], rtol=1e-6)
    head, *lines = (tmp_path / "means.csv").read_text().splitlines(keepends=True)
    for name, part in {"first": lines[:40], "rest": lines[40:]}.items():
        (tmp_path / f"{name}.csv").write_text(head + "".join(part))
    daskrf.fit(tmp_path / "first.csv", output=tmp_path / "model", **columns, **fixed)
    daskrf.fit(tmp_path / "means.csv", output=tmp_path / "all", **columns, **fixed)
    with pytest.raises(InputError, match="--replicates and --replicate-std or --replicate-sem go together"):
        daskrf.add(tmp_path / "model", tmp_path / "rest.csv", replicates="n")
    daskrf.add(tmp_path / "model", tmp_path / "rest.csv", **columns)
    found, want = (daskrf.load(tmp_path / path).predict(SMILES) for path in ("model", "all"))
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-3)


GIVEN: dict[str, Any] = {"mean": 0.3, "signal_variance": 1.7, "noise_variance": 0.36}
SOLVED: dict[str, tuple[dict[str, Any], float]] = {
    "cholesky": ({"kernel": TanimotoMinMax(), "solver": "cholesky"}, 1e-8),
    "conjugate gradients": ({"kernel": TanimotoMinMax(), "solver": "cg", "tolerance": 1e-4}, 2e-3),
    "bits": ({"feature_map": TanimotoMinMaxFeatures(200, random_state=1)}, 1e-6),
    "floats": ({"feature_map": TanimotoMinMaxFeatures(60, distribution="gaussian", random_state=1)}, 1e-5),
}


@pytest.mark.parametrize("name", SOLVED)
def test_each_mean_has_its_own_noise(name: str, tmp_path: Path) -> None:
    """The dense formula with K + diag(s_i^2), where s_i^2 is the noise variance divided by n_i."""
    rng = np.random.default_rng(8)
    y = np.array([text.count("c") - 2.0 * text.count("N") for text in SMILES]) / 3 + rng.standard_normal(N)
    times = rng.integers(1, 6, N)
    rows = [
        f"{text},{value!r},{n}\n" for text, value, n in zip(SMILES, y.tolist(), times.tolist(), strict=True)
    ]
    (tmp_path / "means.csv").write_text("smiles,y,n\n" + "".join(rows[:-10]))
    (tmp_path / "more.csv").write_text("smiles,y,n,sem\n" + "".join(f"{r[:-1]},0\n" for r in rows[-10:]))
    options, tolerance = SOLVED[name]
    daskrf.fit(tmp_path / "means.csv", output=tmp_path / "model", replicates="n", **options, **GIVEN)
    for known in (N - 10, N):
        if known == N:
            columns = {"replicates": "n", "replicate_sem": "sem"}
            daskrf.add(tmp_path / "model", tmp_path / "more.csv", **columns)
        model = daskrf.load(tmp_path / "model")
        X = Fingerprinter(FingerprintSpec.from_state(model.metadata["fingerprint"]))(SMILES).fingerprints
        K = TanimotoMinMax()(X)
        if "feature_map" in options:
            features = options["feature_map"].fit(X).transform(X).astype(float)
            K = features @ features.T
        K = GIVEN["signal_variance"] * K
        C = K[:known, :known] + np.diag(GIVEN["noise_variance"] / times[:known])
        mean = GIVEN["mean"] + K[:, :known] @ np.linalg.solve(C, y[:known] - GIVEN["mean"])
        variance = np.diag(K) - np.einsum("ij,ji->i", K[:, :known], np.linalg.solve(C, K[:known]))
        found, std = model.predict(SMILES, return_std=True, of="f")
        np.testing.assert_allclose(found, mean, rtol=0, atol=tolerance * np.ptp(mean))
        if name != "conjugate gradients":
            np.testing.assert_allclose(std, np.sqrt(variance), rtol=0, atol=1e-4)


@pytest.mark.parametrize("command", [daskrf.fit, daskrf.evaluate])
def test_standard_errors_in_place_of_deviations(command: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    times = rng.integers(1, 5, N)
    std, y = rng.uniform(0.1, 0.5, N), rng.standard_normal(N)
    rows = zip(SMILES, y.tolist(), times.tolist(), std.tolist(), (std / np.sqrt(times)).tolist(), strict=True)
    lines = [f"{text},{mean!r},{n},{s!r},{error!r}\n" for text, mean, n, s, error in rows]
    (tmp_path / "y.csv").write_text("smiles,y,n,sd,sem\n" + "".join(lines))
    found = []
    for name, column in (("replicate_std", "sd"), ("replicate_sem", "sem")):
        options: dict[str, Any] = {"target": "y", "replicates": "n", name: column, "quick": True}
        if command is daskrf.fit:
            report = command(tmp_path / "y.csv", output=tmp_path / name, **options)
            found.append([report.noise_variance[0], report.log_marginal_likelihood[0]])
            how = {"sd": "gives their standard deviation", "sem": "gives the standard error of each mean"}
            assert f"'{column}' {how[column]}" in report.inputs[0]
        else:
            found.append(command(tmp_path / "y.csv", folds=3, **options).table["mean"].to_numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-7)


def test_replicates_that_cannot_be(tmp_path: Path) -> None:
    def read(text: str, **options: Any) -> Any:
        (tmp_path / "labels.csv").write_text(f"id,y,n,sd\n{text}")
        return read_labels(tmp_path / "labels.csv", **({"replicates": "n", "replicate_std": "sd"} | options))

    assert read("A,1,2,0.5\nB,2,1,\n").y.ravel().tolist() == pytest.approx(
        [1 - 0.125**0.5, 1 + 0.125**0.5, 2]
    )
    for text, message in {
        "A,1,0,0.5\n": r"line 2: 'n' holds '0', not a whole number of at least 1",
        "A,1,1.5,0.5\n": "'n' holds '1.5', not a whole number",
        "A,1,x,0.5\n": "'n' holds 'x', not a whole number",
        "A,1,2,\n": r"'sd' holds '', not a standard deviation",
        "A,1,2,-1\n": r"'sd' holds '-1', not a standard deviation",
    }.items():
        with pytest.raises(InputError, match=message):
            read(text)
    assert len(read("A,NA,0,\nB,2,2,0\n", drop_non_numbers=True)) == 2  # no value, no replicates
    with pytest.raises(InputError, match="standard deviation of replicates needs their number"):
        read("A,1,2,1\n", replicates=None)
    with pytest.raises(InputError, match="the standard error of a mean needs the number"):
        read("A,1,2,1\n", replicates=None, replicate_std=None, replicate_sem="sd")
    with pytest.raises(InputError, match="the standard error of their mean, not both"):
        read("A,1,2,1\n", replicate_sem="n")
    with pytest.raises(InputError, match="'sd' holds '', not a standard error"):
        read("A,1,2,\n", replicate_std=None, replicate_sem="sd")
    with pytest.raises(InputError, match="several targets, and it is unclear which of them the replicates"):
        read("A,1,2,1\n", replicate_std=None, targets=["y", "sd"])
    with pytest.raises(InputError, match="must be distinct columns other than the key"):
        read("A,1,2,1\n", targets=["n"])
    with pytest.raises(InputError, match="needs --replicate-std, --replicate-sem or --noise-variance"):
        daskrf.fit(tmp_path / "labels.csv", output=tmp_path / "model", replicates="n")


def test_the_evidence_of_means_alone_is_that_of_the_means(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    y = np.array([text.count("c") - 2.0 * text.count("N") for text in SMILES]) / 3 + rng.standard_normal(N)
    times = rng.integers(1, 5, N)
    rows = [f"{SMILES[k]},{float(y[k])!r},{times[k]}\n" for k in range(N)]
    (tmp_path / "means.csv").write_text("smiles,y,n\n" + "".join(rows))
    fixed = {"mean": 0.3, "signal_variance": 1.4, "noise_variance": 0.5}
    report = daskrf.fit(tmp_path / "means.csv", output=tmp_path / "m", replicates="n", quick=True, **fixed)
    K = TanimotoMinMax()(Fingerprinter(FingerprintSpec())(SMILES).fingerprints)
    C = 1.4 * K + np.diag(0.5 / times)
    expected = multivariate_normal(np.full(N, 0.3), C).logpdf(y)
    assert report.log_marginal_likelihood[0] == pytest.approx(expected, rel=1e-3)
    assert "exactly the value" not in str(report)
