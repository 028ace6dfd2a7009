"""Feature maps and statistics of dask arrays: lazy, right for every kind of block."""

from __future__ import annotations

import pickle
import warnings
from inspect import signature

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import sparse
import xarray
from dask.base import tokenize
from dask.sizeof import sizeof
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from scipy import sparse as sp

from daskrf import SufficientStatistics, TanimotoMinMaxFeatures, featurize, gram
from daskrf.errors import InputError
from daskrf.estimators import clone
from daskrf.features import FeatureMap, LandmarkFeatures, from_state, known_maps
from daskrf.features.sparserows import SampleMap
from daskrf.fitting.lazy import kernel_matrix
from daskrf.gp import SparseGP, choose_exponent
from daskrf.kernels import Gaussian, Kernel, Mean, TanimotoDotProduct, TanimotoMinMax

FEATURES = TanimotoMinMaxFeatures(n_components=45, random_state=2)


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    rng = np.random.default_rng(1)
    counts = rng.poisson(0.4, (40, 17)).astype(np.float32)
    counts[7] = 0
    return counts


def _blocks(counts: np.ndarray, kind: str) -> da.Array:
    x = da.from_array(counts, chunks=(13, 17))
    make = {
        "numpy": lambda b: b,
        "csr_matrix": sp.csr_matrix,
        "csr_array": sp.csr_array,
        "COO": sparse.COO.from_numpy,
        "GCXS": lambda b: sparse.GCXS.from_numpy(b, compressed_axes=(0,)),
    }[kind]
    meta = (
        make(np.zeros((0, 0), np.float32))
        if kind != "GCXS"
        else sparse.GCXS.from_numpy(np.zeros((1, 1), np.float32))
    )
    return x.map_blocks(make, meta=meta, dtype=np.float32)


@pytest.mark.parametrize("kind", ["numpy", "csr_matrix", "csr_array", "COO", "GCXS"])
@pytest.mark.parametrize("dtype", ["bits", "float32", "float16"])
def test_every_kind_of_block(counts: np.ndarray, kind: str, dtype: str) -> None:
    lazy = featurize(_blocks(counts, kind), FEATURES, dtype=dtype)
    expected = (
        FEATURES.transform_bits(counts) if dtype == "bits" else FEATURES.transform(counts).astype(dtype)
    )
    assert lazy.shape == expected.shape
    assert lazy.dtype == expected.dtype
    assert lazy.chunks[0] == (13, 13, 13, 1)
    assert isinstance(lazy._meta, np.ndarray)
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), expected)
    np.testing.assert_array_equal(lazy[5:30].compute(scheduler="threads"), expected[5:30])


def test_columns_in_several_chunks(counts: np.ndarray) -> None:
    lazy = featurize(da.from_array(counts, chunks=(20, 5)), FEATURES)
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), FEATURES.transform_bits(counts))


def test_nothing_is_computed_behind_the_back(counts: np.ndarray) -> None:
    def refuse(block: np.ndarray) -> np.ndarray:
        raise AssertionError("computed")

    x = da.from_array(counts, chunks=(10, 17)).map_blocks(refuse, meta=np.zeros((0, 0), np.float32))
    statistics = gram(featurize(x, FEATURES), np.arange(40.0))
    with pytest.raises(AssertionError, match="computed"):
        statistics.compute(scheduler="synchronous")


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_gram_of_bits_is_exact(counts: np.ndarray, rows: int) -> None:
    y = np.column_stack([np.linspace(-3, 5, 40), np.arange(40.0)])
    bits = featurize(da.from_array(counts, chunks=(rows, 17)), FEATURES)
    direct = SufficientStatistics.from_chunk(FEATURES.transform_bits(counts), y, n_components=45)
    for targets, exponents in ((y, None), (da.from_array(y, chunks=(7, 1)), choose_exponent(y))):
        sums = gram(bits, targets, n_components=45, y_exponents=exponents).compute(scheduler="synchronous")
        expected = direct.arrays()
        assert {k: v.tobytes() for k, v in sums.arrays().items()} == {
            k: v.tobytes() for k, v in expected.items()
        }


def test_gram_of_floats(counts: np.ndarray) -> None:
    phi = featurize(da.from_array(counts, chunks=(9, 17)), FEATURES, dtype="float32")
    sums = gram(phi).compute(scheduler="synchronous")
    expected = FEATURES.transform(counts).astype(np.float64)
    np.testing.assert_allclose(np.triu(sums.gram), np.triu(expected.T @ expected), rtol=1e-5, atol=1e-6)
    assert sums.n == 40
    assert sums.n_targets == 0


def test_gram_of_landmarks_in_double_precision(counts: np.ndarray) -> None:
    landmarks = LandmarkFeatures(12).fit(counts)
    phi = featurize(da.from_array(counts, chunks=(9, 17)), landmarks, dtype="float32")
    sums = gram(phi, np.arange(40.0), precision=landmarks.gram_precision).compute(scheduler="synchronous")
    expected = landmarks.transform(counts).astype(np.float64)
    assert sums.precision == "double"
    np.testing.assert_allclose(sums.gram, np.triu(expected.T @ expected), rtol=1e-14)
    assert gram(phi).compute(scheduler="synchronous").precision == "double"  # few rows
    assert gram(phi[:, :7]).compute(scheduler="synchronous").precision == "single"  # many for the features
    single = gram(phi, np.arange(40.0), precision="single").compute(scheduler="synchronous")
    assert np.abs(single.gram - sums.gram).max() > 1e-8  # single precision is another sum
    model = SparseGP(landmarks).fit_statistics(sums)
    assert np.corrcoef(model.predict(counts), np.arange(40.0))[0, 1] > 0.3
    with pytest.raises(InputError, match="'single' or 'double', not 'half'"):
        gram(phi, precision="half")  # type: ignore[arg-type]


def test_gram_on_workers_survives_recomputation(client, counts: np.ndarray) -> None:  # type: ignore[no-untyped-def]
    phi = featurize(da.from_array(counts, chunks=(2, 17)), FEATURES)
    expected = SufficientStatistics.from_chunk(
        FEATURES.transform_bits(counts), np.arange(40.0), n_components=45
    )
    for _ in range(2):
        sums = client.compute(gram(phi, np.arange(40.0), n_components=45)).result()
        assert sums.gram.tobytes() == expected.gram.tobytes()
        assert sums.phi_y.tobytes() == expected.phi_y.tobytes()


def test_refusals(counts: np.ndarray) -> None:
    x = da.from_array(counts, chunks=(10, 17))
    bits = featurize(x, FEATURES)
    with pytest.raises(InputError, match="no output path"):
        featurize(x, FEATURES, "somewhere")
    with pytest.raises(InputError, match="float32, float16"):
        featurize(x, FEATURES, dtype="int8")
    with pytest.raises(InputError, match="y_exponents"):
        gram(bits, da.zeros(40, chunks=10), n_components=45)
    with pytest.raises(InputError, match="do not fit"):
        gram(bits, n_components=99)
    with pytest.raises(InputError, match="40 rows"):
        gram(bits, np.zeros(39), n_components=45)
    with pytest.raises(InputError, match="2-dimensional"):
        featurize(x[:, 0], FEATURES)
    with pytest.raises(InputError, match="dask array or the path"):
        featurize(counts, FEATURES)


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "csc_array", "coo_array", "COO", "GCXS"])
def test_dask_knows_the_size_of_sparse_blocks(kind: str) -> None:
    dense = np.zeros((1000, 200))
    dense[:, ::4] = 1.0
    if kind in ("COO", "GCXS"):
        block = getattr(sparse, kind).from_numpy(dense)
        true = block.nbytes
    else:
        block = getattr(sp, kind)(dense)
        parts = block.coords if kind == "coo_array" else (block.indices, block.indptr)
        true = block.data.nbytes + sum(piece.nbytes for piece in parts)
    assert true <= sizeof(block) <= 1.1 * true + 2000
    assert dask.sizeof.sizeof(block) > 400_000


@pytest.mark.parametrize("kind", ["numpy", "csr_matrix", "csr_array", "COO", "GCXS"])
@pytest.mark.parametrize("kernel", [TanimotoMinMax(), TanimotoDotProduct("sqrt")], ids=repr)
def test_kernel_matrix(counts: np.ndarray, kind: str, kernel: TanimotoMinMax | TanimotoDotProduct) -> None:
    x = _blocks(counts, kind)
    landmarks = counts[[7, 3, 20]]
    lazy = kernel_matrix(kernel, x, sp.csr_matrix(landmarks))
    assert (lazy.shape, lazy.dtype, lazy.chunks) == ((40, 3), np.float64, ((13, 13, 13, 1), (3,)))
    assert lazy.compute(scheduler="synchronous").tobytes() == kernel(counts, landmarks).tobytes()
    both = kernel_matrix(kernel, x)
    assert both.chunks == ((13, 13, 13, 1), (13, 13, 13, 1))
    assert both.compute(scheduler="threads").tobytes() == kernel(counts).tobytes()
    other = kernel_matrix(kernel, x, da.from_array(counts[:9], chunks=(4, 5)))
    assert (
        other[5:30].compute(scheduler="synchronous").tobytes() == kernel(counts[5:30], counts[:9]).tobytes()
    )


def test_kernel_matrix_of_unknown_numbers_of_rows(counts: np.ndarray) -> None:
    x = da.from_array(counts, chunks=(13, 17))
    some = x[x[:, 0] > 0]
    nonempty = counts[counts[:, 0] > 0]
    lazy = kernel_matrix(TanimotoMinMax(), some, x)
    assert lazy.compute(scheduler="synchronous").tobytes() == TanimotoMinMax()(nonempty, counts).tobytes()
    both = kernel_matrix(TanimotoMinMax(), some)
    assert both.compute(scheduler="synchronous").tobytes() == TanimotoMinMax()(nonempty).tobytes()
    assert kernel_matrix(TanimotoMinMax(), x[:0], x).compute(scheduler="synchronous").shape == (0, 40)


def test_kernel_matrix_is_one_layer_and_makes_each_block_of_rows_once(counts: np.ndarray) -> None:
    made: list[int] = []

    def make(block: np.ndarray) -> np.ndarray:
        if block.size:  # Dask also calls it with nothing, to see what it returns
            made.append(len(block))
        return block

    # Tasks that Dask would fuse, were these layers alike.
    x, y = (
        da.blockwise(make, "ij", da.from_array(a, chunks=(8, 17)), "ij", meta=a[:0])
        for a in (counts, counts[:16])
    )
    made.clear()
    lazy = kernel_matrix(TanimotoMinMax(), x, y)
    assert set(lazy.dask.layers) - set(x.dask.layers) - set(y.dask.layers) == {
        lazy.name, *(name for name in lazy.dask.layers if name.startswith("kernel-"))
    }  # fmt: skip
    assert lazy.compute(scheduler="synchronous").tobytes() == TanimotoMinMax()(counts, counts[:16]).tobytes()
    assert made == [8] * 7


def test_the_same_arguments_give_the_same_names(counts: np.ndarray) -> None:
    def names(kernel: object, feature_map: FeatureMap, rows: np.ndarray, y: np.ndarray) -> list[object]:
        x = da.from_array(rows, chunks=(9, 17))
        phi = featurize(x, feature_map)
        assert isinstance(kernel, Kernel)
        matrices = [kernel_matrix(kernel, x), kernel_matrix(kernel, x, sp.csr_matrix(rows[:3]))]
        return [phi.name, gram(phi, y, n_components=45).key, *(each.name for each in matrices)]

    def fresh() -> TanimotoMinMaxFeatures:
        return TanimotoMinMaxFeatures(n_components=45, random_state=2)

    y = np.arange(40.0)
    first = names(TanimotoMinMax(), FEATURES, counts, y)
    assert first == names(TanimotoMinMax(), fresh(), counts.copy(), y.copy())
    others = [
        names(TanimotoMinMax(), TanimotoMinMaxFeatures(n_components=45, random_state=3), counts, y)[:2],
        names(TanimotoMinMax(), FEATURES, counts, y + 1)[1:2],
        names(TanimotoDotProduct(), FEATURES, counts, y)[2:],
        names(TanimotoMinMax(), FEATURES, counts + 1, y),
    ]
    assert not set(first) & {name for group in others for name in group}


@pytest.mark.parametrize(
    "cls", [cls for cls in known_maps() if issubclass(cls, SampleMap)], ids=lambda cls: cls.__name__
)
def test_dask_names_a_map_by_what_it_has_learned(cls: type[FeatureMap]) -> None:
    rng = np.random.default_rng(0)
    one, other = (rng.poisson(0.7, (24, 12)) + 1.0 for _ in range(2))

    def fitted(X: np.ndarray) -> FeatureMap:
        small = {"n_components": 8} | (
            {"n_centroids": 2} if "n_centroids" in signature(cls).parameters else {}
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cls(**small).fit(X)

    feature_map = fitted(one)
    token = tokenize(feature_map)
    feature_map.transform(other)  # fills caches
    assert (
        token == tokenize(feature_map) == tokenize(fitted(one)) == tokenize(from_state(feature_map.state()))
    )
    assert token != tokenize(fitted(other))
    assert tokenize(feature_map.transform) != tokenize(fitted(other).transform)
    assert token != tokenize(clone(feature_map).set_params(n_components=16))


def test_maps_that_draw_their_seeds_have_names_apart(counts: np.ndarray) -> None:
    one, other = (TanimotoMinMaxFeatures(45, random_state=None).fit(counts) for _ in range(2))
    assert tokenize(one) == tokenize(pickle.loads(pickle.dumps(one))) != tokenize(other)


def test_kernels_of_a_user_have_names_apart(counts: np.ndarray) -> None:
    """They may depend on more than their parameters, have the name of another, or hold arrays."""

    def scaled(factor: float) -> type[TanimotoMinMax]:
        class Scaled(TanimotoMinMax):
            def against(self, Y):  # type: ignore[no-untyped-def]
                inner = super().against(Y)
                return lambda X, **options: factor * inner(X, **options)

        return Scaled

    class Weighted(TanimotoMinMax):
        weights = np.arange(17.0)

    rows = da.from_array(counts, chunks=(9, 17))
    kernels = [scaled(1.0)(), scaled(2.0)(), Weighted(), TanimotoMinMax()]
    other = Weighted()
    other.weights = np.ones(17)
    kernels += [Gaussian(2.0), Gaussian(3.0), Mean((1, 1), (Gaussian(2.0), kernels[2]), None)]
    kernels += [Mean((1, 1), (Gaussian(2.0), other), None)]
    names = [kernel_matrix(kernel, rows).name for kernel in [*kernels, other]]
    assert len(set(names)) == len(names)
    assert kernel_matrix(Gaussian(2.0), rows).name == kernel_matrix(Gaussian(2.0), rows).name
    one, two = (
        kernel_matrix(scaled(factor)(), rows).compute(scheduler="synchronous") for factor in (1.0, 2.0)
    )
    np.testing.assert_array_equal(2 * one, two)


def test_kernel_matrix_of_fingerprints_of_rdkit() -> None:
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=128)
    fingerprints = [generator.GetCountFingerprint(Chem.MolFromSmiles(t)) for t in ("CCO", "CCN", "c1ccccc1O")]
    X = np.array([[each[bit] for bit in range(128)] for each in fingerprints])
    lazy = kernel_matrix(TanimotoMinMax(), da.from_array(X, chunks=(2, 128)), fingerprints)
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), TanimotoMinMax()(X))


def test_kernel_matrix_on_workers(client, counts: np.ndarray) -> None:  # type: ignore[no-untyped-def]
    lazy = kernel_matrix(TanimotoMinMax(), da.from_array(counts, chunks=(9, 17)), counts[:5])
    result = client.compute(lazy).result()
    assert result.tobytes() == TanimotoMinMax()(counts, counts[:5]).tobytes()


def test_data_arrays_and_data_frames(counts: np.ndarray) -> None:
    lazy = da.from_array(counts, chunks=(13, 17))
    array = xarray.DataArray(lazy, dims=("molecule", "bit"), coords={"bit": np.arange(17) + 5})
    frame = pd.DataFrame(counts.astype(np.int64), columns=[f"bit{k}" for k in range(17)])
    y = pd.Series(np.arange(40.0), name="y")
    kinds = {"plain": frame, "nullable": frame.astype("Int64"), "mixed": frame.astype({"bit3": "float32"})}
    lazies = {"xarray": array} | {kind: dd.from_pandas(f, npartitions=3) for kind, f in kinds.items()}
    for name, rows in lazies.items():
        bits = featurize(rows, FEATURES)
        assert bits.compute(scheduler="synchronous").tobytes() == FEATURES.transform_bits(counts).tobytes(), (
            name
        )
        for other in (None, rows, counts[:4]):
            matrix = kernel_matrix(TanimotoMinMax(), rows, other).compute(scheduler="synchronous")
            assert (
                matrix.tobytes()
                == TanimotoMinMax()(
                    counts, counts[:4] if other is not None and other is not rows else None
                ).tobytes()
            )
    direct = gram(featurize(lazy, FEATURES), y, n_components=45).compute(scheduler="synchronous")
    phi = xarray.DataArray(featurize(array, FEATURES))
    sums = gram(phi, xarray.DataArray(y.to_numpy()), n_components=45).compute(scheduler="synchronous")
    assert sums.phi_y.tobytes() == direct.phi_y.tobytes()
    lazy_y = dd.from_pandas(y, npartitions=3)
    with pytest.raises(
        InputError, match=r"The number of targets is unknown; .* y\.to_dask_array\(lengths=True\)"
    ):
        gram(featurize(lazy, FEATURES), lazy_y, n_components=45)
    exponents = choose_exponent(y.to_numpy())
    targets = lazy_y.to_dask_array(lengths=True)
    sums = gram(featurize(lazy, FEATURES), targets, n_components=45, y_exponents=exponents)
    assert sums.compute(scheduler="synchronous").phi_y.tobytes() == direct.phi_y.tobytes()


def test_refusals_of_data_frames_and_unknown_columns(counts: np.ndarray) -> None:
    frame = pd.DataFrame(counts[:, :3], columns=["b", "a", "c"])
    fitted = TanimotoMinMaxFeatures(45, random_state=2).fit(frame)
    with pytest.raises(InputError, match="'a' is where 'b' was"):
        featurize(dd.from_pandas(frame[["a", "b", "c"]], npartitions=2), fitted)
    molecules = dd.from_pandas(pd.DataFrame({"smiles": ["C", "CC"], "n": [1, 2]}), npartitions=1)
    for function in (lambda x: featurize(x, FEATURES), lambda x: kernel_matrix(TanimotoMinMax(), x)):
        with pytest.raises(
            InputError,
            match=r"'smiles' of the dask DataFrame holds (str|object).* daskrf\.SmilesFingerprints",
        ):
            function(molecules)
    x = da.from_array(counts, chunks=(20, 6))
    some = x[:, x.sum(axis=0) > 9]  # as many columns as the values say
    with pytest.raises(
        InputError, match=r"several chunks of columns, whose numbers are unknown: call compute_chunk"
    ):
        featurize(some, FEATURES)
    whole = da.from_array(counts, chunks=(20, 17))[:, counts.sum(axis=0) > 9]
    unknown = da.from_array(counts, chunks=(20, 17))
    unknown = unknown[:, unknown.sum(axis=0) > 9]
    matrix = kernel_matrix(TanimotoMinMax(), unknown, whole)
    np.testing.assert_array_equal(
        *(m.compute(scheduler="synchronous") for m in (matrix, kernel_matrix(TanimotoMinMax(), whole)))
    )
    with pytest.raises(InputError, match="columns"):
        kernel_matrix(TanimotoMinMax(), unknown, counts).compute(scheduler="synchronous")
    with pytest.raises(InputError, match="features must be a dask array, not ndarray"):
        gram(counts)  # type: ignore[arg-type]


def test_kernel_matrix_refusals(counts: np.ndarray) -> None:
    x = da.from_array(counts, chunks=(10, 17))
    with pytest.raises(InputError, match="same columns, not 17 and 5"):
        kernel_matrix(TanimotoMinMax(), x, counts[:, :5])
    with pytest.raises(InputError, match="2-dimensional"):
        kernel_matrix(TanimotoMinMax(), x, counts[0])
    with pytest.raises(InputError, match="must be a kernel"):
        kernel_matrix("tanimoto", x)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="row 0, column 0 is negative"):
        kernel_matrix(TanimotoMinMax(), x, np.full((1, 17), -1)).compute(scheduler="synchronous")
