"""Features of weighted means of kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf import FingerprintSpec, fingerprint
from daskrf.arrays import unpack_bits
from daskrf.cli.app import run
from daskrf.errors import InputError
from daskrf.features import (
    LandmarkFeatures,
    MeanFeatures,
    RandomFourierFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.kernels import Gaussian, TanimotoMinMax
from daskrf.seeds import key
from daskrf.storage.stores.featurestore import FeatureStore
from tests.features.maps import counts
from tests.jit import jit_disabled

COLUMNS = ((0, 25), (20, 40))
compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")


def test_every_byte_is_of_one_kind_with_the_weights_as_odds() -> None:
    X = counts()
    for seed in range(3):
        feature_map = MeanFeatures((0.7, 0.3), columns=COLUMNS, n_components=4096, random_state=seed)
        bits = feature_map.transform_bits(X)
        separate = [
            TanimotoMinMaxFeatures(4096, random_state=key(seed, f"mean/{i}") >> 1).transform_bits(X[:, a:b])
            for i, (a, b) in enumerate(COLUMNS)
        ]
        taken = [0, 0]
        for byte in bits.T:
            first, second = ((byte == separate[i][:, taken[i] % 512]).all() for i in range(2))
            assert first or second
            taken[0 if first else 1] += 1
        assert sum(taken) == 512
        assert abs(taken[0] - 0.7 * 512) <= 2


def test_odds_are_the_weights_over_many_seeds() -> None:
    """Eight features are of one kind: which one is as likely as its weight."""
    X = np.array([[1, 0], [1, 1]])
    kinds = [MeanFeatures((3, 1), columns=1, n_components=8, random_state=s) for s in range(400)]
    equal = np.mean([(m.transform_bits(X)[0] == m.transform_bits(X)[1]).all() for m in kinds])
    # The first column is equal; the second, a quarter of all, differs in about half of the bits.
    assert abs(equal - 0.75) < 4.5 * np.sqrt(0.75 * 0.25 / 400)


@compiled_only
def test_the_variance_is_below_that_of_single_draws() -> None:
    X, M = counts(), 256
    kernel = MeanFeatures((0.7, 0.3), columns=COLUMNS).kernel_
    terms = [TanimotoMinMax()(block) for block in kernel.parts(X)]
    expected = (0.7 * (1 - terms[0] ** 2) + 0.3 * (1 - terms[1] ** 2)) / M
    errors = []
    for seed in range(300):
        Phi = MeanFeatures((0.7, 0.3), columns=COLUMNS, n_components=M, random_state=seed).transform(X)
        errors.append(np.square(Phi.astype(float) @ Phi.T - kernel(X)))
    assert abs(np.mean(errors) / expected.mean() - 1) < 0.1


def test_blocks_of_floats_are_scaled_by_the_root_of_the_weight() -> None:
    X = counts()
    inner = (TanimotoMinMaxFeatures(), RandomFourierFeatures(Gaussian(4.0)))
    feature_map = MeanFeatures((3, 1), inner, COLUMNS, 400).fit(X)
    Phi = feature_map.transform(X)
    fourier = RandomFourierFeatures(Gaussian(4.0), 100, random_state=key(0, "mean/1") >> 1)
    np.testing.assert_allclose(Phi[:, 300:], fourier.transform(X[:, 20:]) / 2, rtol=1e-5, atol=1e-7)
    assert np.unique(np.abs(Phi[:, :300])).size == 1
    few = MeanFeatures((1e-9, 1), columns=COLUMNS, inner=TanimotoMinMaxFeatures(distribution="gaussian"))
    assert few.set_params(n_components=5).transform(X).shape == (12, 5)


def test_errors_name_the_row_and_the_column_of_the_whole() -> None:
    X = counts(40).astype(float)
    X[31, 33] = -1.0
    for inner in (None, TanimotoMinMaxFeatures(distribution="gaussian")):
        with pytest.raises(InputError, match=r"Value -1\.0 in row 31, column 33 is negative"):
            MeanFeatures((3, 1), inner, COLUMNS, 64).transform(X)


@pytest.mark.parametrize(
    "bad",
    [
        {"weights": (1, -1)},
        {"inner": (TanimotoMinMaxFeatures(),)},
        {"inner": LandmarkFeatures()},
        {"inner": TanimotoMinMax()},
        {"inner": TanimotoMinMaxFeatures(hashing="none")},
        {"columns": ((0, 3),)},
        {"n_components": 1, "inner": TanimotoMinMaxFeatures(distribution="gaussian")},
    ],
)
def test_what_cannot_be_is_refused(bad: dict) -> None:
    with pytest.raises(InputError):
        MeanFeatures(**{"columns": COLUMNS, **bad}).fit(counts())


def test_a_number_of_weights_that_is_not_that_of_the_kinds_is_refused() -> None:
    X = sp.csr_matrix(([1], [2**33 - 1], [0, 1]), shape=(1, 2**33))
    with pytest.raises(InputError, match="give one weight for each kind of fingerprint"):
        MeanFeatures((1, 2, 3)).fit(X)
    assert MeanFeatures((1, 2)).fit(X).n_features_in_ == 2**33


def test_what_inner_maps_learn_is_kept_until_they_are_others() -> None:
    X = counts()
    feature_map = MeanFeatures((1, 2), TanimotoDotProductFeatures(bias_correction="normalize"), COLUMNS, 64)
    assert not feature_map.is_fitted()
    fitted = feature_map.fit(X).inner_
    assert [each.norm_range_ for each in fitted] != [fitted[0].norm_range_] * 2
    feature_map.set_params(inner=TanimotoDotProductFeatures())
    assert not feature_map.is_fitted()


def test_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_text("".join(f"{'C' * i}O m{i}\n" for i in range(1, 40)))
    fingerprint(tmp_path / "a.smi", tmp_path / "fp", spec=FingerprintSpec(["morgan", "torsion"]))
    common = ["featurize", str(tmp_path / "fp"), "--workers", "0", "-M", "128", "--map", "mean", "-o"]
    assert run([*common, str(tmp_path / "phi"), "--weights", "3,1"]) == 0
    store = FeatureStore.open(tmp_path / "phi")
    assert store.spec["dtype"] == "bits"
    assert unpack_bits(store.read(0), 128).shape == (39, 128)
    options = ["--weights", "3,1", "--inner", "dot-product", "--bias-correction", "normalize"]
    assert run([*common, str(tmp_path / "floats"), *options]) == 0
    assert run([*common, str(tmp_path / "no"), "--weights", "1,1,1"]) == 1
    assert run([*common, str(tmp_path / "no")]) == 2
