"""The Gaussian kernel in a metric: values against the definition, the text of a metric, bad parameters."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf.errors import InputError
from daskrf.kernels import Gaussian, Mean, MetricGaussian, from_state
from daskrf.kernels.metric import Metric, known_columns
from tests.kernels.values import METRIC, ugly_rows
from tests.naive.metric import metric_gaussian

KERNEL = MetricGaussian(3.0, METRIC.text)
PARTS = METRIC.rest, METRIC.columns.tolist(), METRIC.directions


def metric(*directions: list[float], rest: float = 1.0, columns: list[int] | None = None) -> Metric:
    named = np.arange(len(directions)) if columns is None else np.array(columns)
    return Metric(rest, named, np.array(directions, np.float32))


def packed(columns: list[int], directions: list[float]) -> str:
    arrays = np.array(columns, "<i8"), np.array(directions, "<f4")
    return ":".join(["1.0", *(base64.b64encode(each.tobytes()).decode() for each in arrays)])


@pytest.mark.parametrize("n_columns", [1, 4, 8, 100])
def test_values_are_those_of_the_definition(n_columns: int) -> None:
    rng = np.random.default_rng(n_columns)
    X, Y = rng.poisson(1.0, (9, n_columns)), rng.normal(size=(7, n_columns))
    for left, right in ((X, Y), (Y, X), (X, X)):
        expected = metric_gaussian(left, right, 3.0, *PARTS)
        np.testing.assert_allclose(KERNEL(left, right), expected, rtol=1e-12)
        single = KERNEL.against_single(right)(left, dtype=np.float32)
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, expected, atol=2e-5)


def test_random_metrics_are_those_of_the_definition() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        d, rank = int(rng.integers(1, 9)), int(rng.integers(0, 5))
        columns = np.sort(rng.choice(12, int(rng.integers(0, 9)), replace=False))
        learned = Metric(
            float(rng.exponential()), columns, rng.normal(size=(len(columns), rank)).astype(np.float32)
        )
        X = rng.normal(size=(6, d)) * (rng.random((6, d)) < 0.6)
        kernel = MetricGaussian(float(rng.exponential() + 0.3), learned.text)
        expected = metric_gaussian(
            X, X, kernel.length_scale, learned.rest, columns.tolist(), learned.directions
        )
        np.testing.assert_allclose(kernel(X), expected, rtol=1e-11)


def test_no_metric_is_that_of_usual_distances() -> None:
    X = ugly_rows()
    assert (MetricGaussian(3.0)(X) == Gaussian(3.0)(X)).all()
    empty = Metric(4.0, np.empty(0, np.int64), np.empty((0, 0), np.float32))
    np.testing.assert_allclose(MetricGaussian(6.0, empty.text)(X), Gaussian(3.0)(X), rtol=1e-12)
    assert MetricGaussian(3.0).words() == "Gaussian kernel (length scale 3)"


def test_rows_far_from_the_origin_keep_their_distances() -> None:
    X = np.random.default_rng(0).normal(size=(20, 8))
    np.testing.assert_allclose(KERNEL(X + 1e6), KERNEL(X), rtol=1e-7)
    assert (np.diag(KERNEL(X + 1e6)) == 1.0).all()


def test_columns_may_be_any_of_billions_in_any_order() -> None:
    columns = [3, 2**31 + 1, 2**32 - 2]
    learned = metric([1.0, 0.0], [0.5, -1.0], [2.0, 1.0], rest=0.5, columns=columns)
    near = np.array([[1, 2, 0, 0], [0, 1, 3, 2], [0, 0, 0, 1], [0, 0, 0, 0]])
    kernel = MetricGaussian(2.0, learned.text)
    places = np.array([3, 2**31 + 1, 2**32 - 2, 7])
    rows = sp.csr_matrix(near)
    far = sp.csr_matrix((rows.data, places[rows.indices], rows.indptr), shape=(4, 2**32))
    expected = metric_gaussian(near, near, 2.0, 0.5, [0, 1, 2], learned.directions)
    np.testing.assert_allclose(kernel(far), expected, rtol=1e-12)
    turned = sp.csr_matrix(
        (
            np.concatenate([far.data[a:b][::-1] for a, b in zip(far.indptr, far.indptr[1:], strict=False)]),
            np.concatenate(
                [far.indices[a:b][::-1] for a, b in zip(far.indptr, far.indptr[1:], strict=False)]
            ),
            far.indptr,
        ),
        shape=far.shape,
    )
    assert (kernel(turned, far) == kernel(far)).all()
    assert known_columns(turned, learned.columns).toarray().tolist() == near[:, :3].tolist()
    assert known_columns(far[:0], learned.columns).shape == (0, 3)
    assert known_columns(sp.csr_matrix((2, 2**32)), learned.columns).nnz == 0


def test_the_text_of_a_metric_stays_the_same() -> None:
    """Models hold it: a change here needs a new version."""
    golden = (
        "0.25:AAAAAAAAAAACAAAAAAAAAAUAAAAAAAAAJwAAAAAAAABNAAAAAAAAAA==:"
        "AACAPwAAAD8AAAC/AAAAQAAAgD4AAAAAAAAAAAAAgL8AAEBAAACAPw=="
    )
    assert METRIC.text == golden
    actual = Metric.of_text(golden)
    assert actual.rest == METRIC.rest
    assert actual.columns.tolist() == METRIC.columns.tolist()
    assert actual.directions.tobytes() == METRIC.directions.tobytes()
    turned = Metric(METRIC.rest, METRIC.columns, np.asfortranarray(METRIC.directions))
    assert turned.text == golden
    for array in (actual.columns, actual.directions):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3


def test_the_state_keeps_what_is_shown_in_brief() -> None:
    rng = np.random.default_rng(0)
    first, other = (
        MetricGaussian(5.0, Metric(0.1, np.arange(2048), rng.normal(size=(2048, 64)).astype(np.float32)).text)
        for _ in range(2)
    )
    again = from_state(json.loads(json.dumps(first.state())))
    assert again == first
    assert hash(again) == hash(first)
    assert first != other
    assert hash(first) != hash(other)
    assert first.parameters()["metric"] == first.metric
    assert first.words() == "Gaussian kernel (length scale 5) in a learned metric of 64 directions"
    for shown in (repr(first), str(first), repr(Mean((1, 2), (first, other), None))):
        assert len(shown) < 500


@pytest.mark.parametrize(
    "text",
    [
        "x", ":", "::", "1.0", "nan::", "0::", "-1::", "one::", METRIC.text[:-5], METRIC.text[5:],
        METRIC.text + ":", METRIC.text.replace("A", "\u00e9"), METRIC.text.replace("=", "!"),
        packed([5, 2], [1.0, 2.0]), packed([2, 2], [1.0, 2.0]), packed([-1, 2], [1.0, 2.0]),
        packed([1, 2], [1.0, 2.0, 3.0]), packed([], [1.0]), packed([1, 2], [np.nan, 2.0]),
    ],
)  # fmt: skip
def test_text_that_is_no_metric_is_refused(text: str) -> None:
    with pytest.raises(InputError) as error:
        MetricGaussian(2.0, text)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MetricGaussian(0.0), "length_scale must be a finite number above 0"),
        (lambda: MetricGaussian(2.0, METRIC), "metric must be text, as Metric writes it"),  # type: ignore[arg-type]
        (lambda: MetricGaussian(2.0, None), "metric must be text, as Metric writes it, not None"),  # type: ignore[arg-type]
        (lambda: MetricGaussian(2.0, "auto"), "chosen together with the metric"),
        (lambda: MetricGaussian("auto", "auto")([[1]]), "The metric is not known yet"),
        (lambda: MetricGaussian("auto", "auto").learned, "The metric is not known yet"),
        (lambda: MetricGaussian("auto", METRIC.text)([[1]]), "The length scale is not known yet"),
        (lambda: MetricGaussian("auto", "auto").with_length_scale(3.0), "The metric is not known yet"),
        (lambda: metric([1.0], [2.0], columns=[3, 3]), "ascending columns"),
        (lambda: metric([1.0], [2.0], columns=[5, 3]), "ascending columns"),
        (lambda: metric([1.0], columns=[-1]), "ascending columns"),
        (lambda: metric([1.0], columns=[1, 2]), "a row of directions for each"),
        (lambda: metric([np.inf]), "must be finite"),
        (lambda: metric([1.0], rest=0.0), "rest must be a finite number above 0"),
    ],
)
def test_bad_parameters(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_a_length_scale_may_be_found_for_a_known_metric() -> None:
    undecided = MetricGaussian("auto", METRIC.text)
    assert undecided.undecided
    assert undecided.with_length_scale(3.0) == KERNEL
