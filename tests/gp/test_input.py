"""What a Gaussian process may be given, and what it refuses in one sentence; what survives storing."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator, rdMolDescriptors
from sklearn.base import clone

from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.features import (
    LandmarkFeatures,
    LocalGaussianFeatures,
    NystromFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.features.featuremap import map_key
from daskrf.gp import ExactGP, LocalGaussianGP, RandomFeatureGP, SparseGP, SufficientStatistics
from daskrf.gp.processes.posterior import standard_normal
from daskrf.kernels import Gaussian, TanimotoMinMax
from tests.memory import least_peak

FP = rdFingerprintGenerator.GetMorganGenerator()
FOLDED = rdFingerprintGenerator.GetMorganGenerator(fpSize=1024)


def counts_and_targets(n=40):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, (n, 30))
    return counts, counts[:, 0] + rng.random(n)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"noise_variance": 0.3},
        {"mean": [1.0, 2.0], "signal_variance": 1.5},
        {"mean": 0.5, "signal_variance": np.array([1.0, 3.0]), "noise_variance": np.float64(0.1)},
    ],
)
def test_given_hyperparameters_survive_storing(given):
    rng = np.random.default_rng(1)
    phi, y = rng.standard_normal((50, 6)), rng.standard_normal((50, 2))
    gp = RandomFeatureGP(**given).fit(phi[:30], y[:30])
    again = RandomFeatureGP.from_state(json.loads(json.dumps(gp.state())), gp.arrays())
    more = SufficientStatistics.from_chunk(phi[30:], y[30:])
    for model in (gp, again):
        model.add_statistics(more)
    assert again.state() == gp.state()
    assert again.weights_.tobytes() == gp.weights_.tobytes()
    for name, value in given.items():
        np.testing.assert_allclose(getattr(again, f"{name}_"), np.broadcast_to(value, 2), rtol=1e-14)


@pytest.mark.parametrize(
    "kind", ["Int64", "UInt8", "Float32", "boolean", "int64[pyarrow]", "double[pyarrow]", "bool[pyarrow]"]
)
def test_columns_of_pandas_own_types_are_the_usual_ones(kind):
    """As scikit-learn takes them; each frame also has a column of NumPy's."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 2 if "bool" in kind else 5, (40, 4))
    y = counts[:, 0] + rng.random(40)
    plain = pd.DataFrame(counts, columns=list("abcd"))
    own = plain.astype(dict.fromkeys("abc", kind))
    maps = [TanimotoMinMaxFeatures(32)] + [LandmarkFeatures(16, kernel=Gaussian(2.0))] * ("bool" not in kind)
    for feature_map in maps:
        assert np.array_equal(
            clone(feature_map).fit(own).transform(own), clone(feature_map).fit(plain).transform(plain)
        )
    for make in (lambda: ExactGP(Gaussian(2.0)), lambda: RandomFeatureGP(TanimotoMinMaxFeatures(32))):
        gp = make().fit(own, y)
        assert list(gp.feature_names_in_) == list("abcd")
        assert np.array_equal(gp.predict(own), make().fit(plain, y).predict(plain))
        with pytest.raises(InputError, match="another order"):
            gp.predict(own[list("bacd")])


def test_a_missing_value_of_pandas_is_named_by_its_row():
    frame = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [1.0, 2.0, 3.0]})
    for estimator in (ExactGP(Gaussian(2.0)), RandomFeatureGP(LandmarkFeatures(2, kernel=Gaussian(1.0)))):
        with pytest.raises(InputError, match=r"row 1.* is not a finite number"):
            estimator.fit(frame, [1.0, 2.0, 3.0])
    words = pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), "b": ["x", "y"]})
    with pytest.raises(InputError, match="numbers"):
        ExactGP(Gaussian(2.0)).fit(words, [1.0, 2.0])


MOLECULES = [Chem.MolFromSmiles(text) for text in ReactionLibrary().smiles(0, 30)]
VECTORS = {
    "counts": [FP.GetCountFingerprint(m) for m in MOLECULES],
    "unfolded counts": [FP.GetSparseCountFingerprint(m) for m in MOLECULES],
    "bits": [FP.GetFingerprint(m) for m in MOLECULES],
    "unfolded bits": [FP.GetSparseFingerprint(m) for m in MOLECULES],
    "torsions": [
        rdMolDescriptors.GetTopologicalTorsionFingerprint(m) for m in MOLECULES
    ],  # LongSparseIntVect
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_of_rdkit_are_rows(name):
    vectors, y = VECTORS[name], np.random.default_rng(0).random(30)
    bits = [dict.fromkeys(v.GetOnBits(), 1) if "bits" in name else v.GetNonzeroElements() for v in vectors]
    columns = sorted({column for row in bits for column in row})
    dense = np.array([[row.get(column, 0) for column in columns] for row in bits])
    kernel = TanimotoMinMax()
    np.testing.assert_array_equal(kernel(vectors, vectors), kernel(dense, dense))
    gp = ExactGP(kernel, mean=0.0, signal_variance=1.0, noise_variance=0.1)
    want = clone(gp).fit(dense, y).predict(dense)
    for given in (vectors, tuple(vectors)):
        np.testing.assert_allclose(clone(gp).fit(given, y).predict(given), want, rtol=1e-12)
    features = TanimotoMinMaxFeatures(64).fit(vectors)
    assert features.transform(vectors[:3]).shape == (3, 64)
    fitted = RandomFeatureGP(TanimotoMinMaxFeatures(64)).fit(vectors, y)
    assert fitted.predict(vectors).shape == (30,)


def test_vectors_of_rdkit_that_differ_are_refused():
    with pytest.raises(InputError, match="have 1,024 and 2,048 columns; make them all in the same way"):
        TanimotoMinMax()([VECTORS["bits"][0], FOLDED.GetFingerprint(MOLECULES[0])], VECTORS["bits"])
    with pytest.raises(InputError, match="contains a NoneType; leave it out"):
        TanimotoMinMaxFeatures(64).fit([VECTORS["counts"][0], None])


@pytest.mark.parametrize("kind", [sp.coo_matrix, sp.csc_array, sp.csr_array, np.asarray, np.ndarray.tolist])
def test_every_container_of_fingerprints_gives_the_same(kind):
    counts, y = counts_and_targets()
    gp = RandomFeatureGP(TanimotoMinMaxFeatures(32)).fit(sp.csr_matrix(counts), y)
    other = RandomFeatureGP(TanimotoMinMaxFeatures(32)).fit(kind(counts), y)
    assert other.weights_.tobytes() == gp.weights_.tobytes()
    assert other.predict(kind(counts)).tobytes() == gp.predict(sp.csr_matrix(counts)).tobytes()


def test_input_that_is_no_features_is_refused():
    counts, y = counts_and_targets()
    gp = RandomFeatureGP()
    with pytest.raises(InputError, match="has no feature_map"):
        gp.fit(sp.csr_matrix(counts), y)
    with pytest.raises(InputError, match="like unpacked fingerprints"):
        gp.fit((counts > 0).astype(np.uint8), y)
    with pytest.raises(InputError, match="shape"):
        gp.fit(y, y)
    with pytest.raises(InputError, match="must be numbers"):
        gp.fit(counts.astype(str), y)
    gp = RandomFeatureGP(n_components=8, signal_variance=1.0, noise_variance=1.0).fit(
        np.eye(3, 1, dtype=np.uint8), y[:3]
    )
    assert gp.predict(np.zeros((2, 1), np.uint8)).shape == (2,)


def test_statistics_of_another_map_are_refused():
    counts, y = counts_and_targets()
    maps = [TanimotoMinMaxFeatures(32, random_state=seed) for seed in (0, 1)]
    one, two = (RandomFeatureGP(m).fit(counts, y) for m in maps)
    assert one.statistics_.map_key == map_key(maps[0].state()) == map_key(one.feature_map_.state())
    with pytest.raises(InputError, match="cannot be combined"):
        one.add_statistics(two.statistics_)
    with pytest.raises(InputError, match="the map that they were computed with"):
        RandomFeatureGP(maps[0]).fit_statistics(two.statistics_)
    with pytest.raises(InputError, match="the map that they were computed with"):
        RandomFeatureGP().fit_statistics(two.statistics_, maps[0])
    again = RandomFeatureGP().fit_statistics(two.statistics_, maps[1])
    assert again.predict(counts).tobytes() == two.predict(counts).tobytes()
    restored = RandomFeatureGP.from_state(two.state(), two.arrays())
    with pytest.raises(InputError, match="cannot be combined"):
        restored.add_statistics(one.statistics_)


def test_adding_no_rows_changes_nothing():
    counts, y = counts_and_targets()
    gp = RandomFeatureGP(TanimotoMinMaxFeatures(32)).fit(counts, y)
    before = gp.weights_.tobytes()
    assert gp.partial_fit(counts[:0], y[:0]) is gp
    assert (gp.n_rows_, gp.weights_.tobytes()) == (40, before)
    with pytest.raises(InputError, match="X has 0 rows, but y has 40"):
        gp.partial_fit(counts[:0], y)
    with pytest.raises(InputError, match="no row"):
        RandomFeatureGP().partial_fit(np.empty((0, 3)), [])


def test_statistics_changed_after_the_fit_are_refused():
    rng = np.random.default_rng(2)
    phi, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    statistics = SufficientStatistics.from_chunk(phi, y)
    gp = RandomFeatureGP(signal_variance=1.0, noise_variance=1.0).fit_statistics(statistics)
    statistics.update(phi, y)
    for use in (lambda: gp.predict(phi, return_std=True), lambda: gp.add_statistics(statistics)):
        with pytest.raises(InputError, match="30 rows when the model was fitted, and have 60 now"):
            use()
    assert gp.fit_statistics(statistics).predict(phi, return_std=True)[1].shape == (30,)


def test_what_of_means_is_checked():
    gp = RandomFeatureGP(signal_variance=1.0, noise_variance=1.0).fit(np.eye(3), [1.0, 2.0, 4.0])
    for use in (
        lambda: gp.predict(np.eye(3), return_std=True, of="g"),
        lambda: gp.predict(np.eye(3), return_cov=True, of="g"),
        lambda: gp.sample_y(np.eye(3), of="g"),
    ):
        with pytest.raises(InputError, match="of must be 'y'"):
            use()
    assert gp.predict(np.empty((0, 3)), return_cov=True)[1].shape == (0, 0)


def test_draws():
    gp = RandomFeatureGP(signal_variance=1.0, noise_variance=1.0).fit(np.eye(3), [1.0, 2.0, 4.0])
    assert gp.sample_weights(0, seed=1).shape == (3, 0)
    assert gp.sample_y(np.eye(3), 0, 1).shape == (3, 0)
    with pytest.raises(InputError, match="negative"):
        gp.sample_weights(-1, seed=1)
    assert np.array_equal(gp.sample_y(np.eye(3), 2, 7), gp.sample_y(np.eye(3), 5, 7)[:, :2])
    draw = gp.draw(7)
    with pytest.raises(InputError, match="store the model"):
        draw.state()
    for use in (draw.log_marginal_likelihood, lambda: draw.sample_weights(1, 0)):
        with pytest.raises(InputError, match="predicts means only"):
            use()
    with pytest.raises(InputError, match="predicts means only"):
        draw.predict(np.eye(3), return_std=True)


@pytest.mark.parametrize("of", ["std", "draws", "cov"])
def test_a_large_block_of_bits_is_expanded_in_parts(of, monkeypatch):
    """20,000 rows of 256 bits are 41 MB of float64; a part may take 1 MiB, with some copies."""
    monkeypatch.setattr("daskrf.gp.processes.posterior._EXPANDED_BYTES", 2**20)
    bits = np.random.default_rng(3).integers(0, 256, (20_000 if of != "cov" else 300, 32), dtype=np.uint8)
    y = bits[:, 0] / 256.0 + np.arange(len(bits)) % 2
    gp = RandomFeatureGP(signal_variance=1.0, noise_variance=1.0).fit(bits, y)
    use = {
        "std": lambda rows: gp.predict(rows, return_std=True)[1],
        "draws": lambda rows: gp.sample_y(rows, 2),
        "cov": lambda rows: gp.predict(rows, return_cov=True)[1],
    }[of]
    assert least_peak(lambda: use(bits)) < 6e6
    found = use(bits)
    monkeypatch.undo()
    np.testing.assert_allclose(use(bits), found, rtol=1e-12, atol=1e-12)


def test_normal_numbers_are_the_same_next_year():
    golden = [1.21478468, 1.57256209, -0.09310233, -0.61098341]
    other = [-1.10047349, -0.62895067, -1.89336185, -0.58847295]
    found = standard_normal(3, "gp/weights/0", 4, 2)
    np.testing.assert_allclose(found.T, [golden, other], atol=5e-9)
    assert np.array_equal(standard_normal(3, "gp/weights/0", 2, 1), found[:2, :1])


def test_normal_numbers_are_normal():
    """10^6 numbers: each moment within 5 standard errors, and the tail beyond 4 within 5 of its own."""
    x = standard_normal(0, "test", 1000, 1000).ravel()
    for power, moment, deviation in (
        (1, 0.0, 1.0),
        (2, 1.0, 2.0**0.5),
        (3, 0.0, 15.0**0.5),
        (4, 3.0, 96.0**0.5),
    ):
        assert abs((x**power).mean() - moment) < 5 * deviation / 1000
    assert abs((np.abs(x) > 4).sum() - 63.3) < 5 * 8


def test_targets_whose_squares_cannot_be_summed_are_refused():
    phi, y = np.random.default_rng(0).standard_normal((20, 3)), np.linspace(-1, 1, 20)
    gp = RandomFeatureGP().fit(phi, 1e100 * y)
    plain = RandomFeatureGP().fit(phi, y)
    np.testing.assert_allclose(gp.predict(phi), 1e100 * plain.predict(phi), rtol=1e-5)
    assert np.isfinite(gp.log_marginal_likelihood(eval_gradient=True)[1]).all()
    with pytest.raises(InputError, match=r"y is up to 1e\+150.*divide y by a constant"):
        RandomFeatureGP().fit(phi, 1e150 * y)
    with pytest.raises(InputError, match="y must be an array of numbers"):
        RandomFeatureGP().fit(phi, ["a"] * 20)


ROWS = np.random.default_rng(0).poisson(0.7, (30, 8)).astype(float)
LABELS = ROWS @ np.arange(8.0) + np.random.default_rng(1).normal(size=30)
PROCESSES = {
    "features": RandomFeatureGP,
    "bits": lambda: RandomFeatureGP(TanimotoMinMaxFeatures(64)),
    "floats": lambda: RandomFeatureGP(TanimotoDotProductFeatures(64)),
    "nystrom": lambda: RandomFeatureGP(NystromFeatures(10)),
    "sparse": lambda: SparseGP(LandmarkFeatures(10)),
    "local": lambda: LocalGaussianGP(LocalGaussianFeatures(20, n_centroids=2)),
    "exact": lambda: ExactGP(Gaussian(2.0)),
}


def calls(gp):
    """Return what takes rows of a fitted process."""
    with_std = partial(gp.predict, return_std=True)
    return (gp.predict, with_std, partial(gp.predict, return_cov=True), gp.sample_y)


def arrays(found):
    """Return one array or several as several."""
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("make", PROCESSES.values(), ids=PROCESSES.keys())
def test_columns_are_those_of_the_fit(make):
    table = pd.DataFrame(ROWS, columns=list("abcdefgh"))
    gp, plain = make().fit(table, LABELS), make().fit(ROWS, LABELS)
    assert (gp.n_features_in_, gp.feature_names_in_.tolist()) == (8, list("abcdefgh"))
    assert plain.n_features_in_ == 8
    for named, unnamed in zip(calls(gp), calls(plain), strict=True):
        for found, expected in zip(arrays(named(table)), arrays(unnamed(ROWS)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        with pytest.raises(InputError, match="another order than at fit"):
            named(table[list("bacdefgh")])
        with pytest.raises(InputError, match=r"without \['c'\]"):
            named(table.drop(columns="c"))
        with pytest.raises(InputError, match="7"):
            unnamed(ROWS[:, :-1])
    if hasattr(gp, "partial_fit"):
        with pytest.raises(InputError, match="another order than at fit"):
            gp.partial_fit(table[list("bacdefgh")], LABELS)


@pytest.mark.filterwarnings("ignore:there are 1 landmarks")
@pytest.mark.parametrize("make", PROCESSES.values(), ids=PROCESSES.keys())
def test_what_no_process_can_use_is_one_sentence(make):
    gp = make().fit(ROWS, LABELS)
    for value in (np.nan, np.inf):
        X, y = ROWS.copy(), LABELS.copy()
        X[4, 3] = y[3] = value
        with pytest.raises(InputError, match="row 4"):
            make().fit(X, LABELS)
        with pytest.raises(InputError, match="row 3"):
            make().fit(ROWS, y)
        for call in calls(gp):
            with pytest.raises(InputError, match="row 4"):
                call(X)
    for shape, what in (((0, 8), "row"), ((30, 0), "column")):
        with pytest.raises(InputError, match=f"no {what} to fit to"):
            make().fit(np.zeros(shape), LABELS[: shape[0]])
    with pytest.raises(InputError, match="one label"):
        make().fit(ROWS[:1], LABELS[:1])
    with pytest.raises(InputError, match="has no variance"):
        make().fit(ROWS, np.full(30, 2.5))
    assert len(gp.predict(ROWS[:0])) == 0
