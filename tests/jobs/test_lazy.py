"""Feature maps and statistics of dask arrays: lazy, right for every kind of block."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
import sparse
from dask.sizeof import sizeof
from scipy import sparse as sp

from daskrf import SufficientStatistics, TanimotoMinMaxFeatures, featurize, gram
from daskrf.errors import InputError
from daskrf.features import LandmarkFeatures
from daskrf.fitting.lazy import kernel_matrix
from daskrf.gp import SparseGP, choose_exponent
from daskrf.kernels import TanimotoDotProduct, TanimotoMinMax

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


def test_kernel_matrix_on_workers(client, counts: np.ndarray) -> None:  # type: ignore[no-untyped-def]
    lazy = kernel_matrix(TanimotoMinMax(), da.from_array(counts, chunks=(9, 17)), counts[:5])
    result = client.compute(lazy).result()
    assert result.tobytes() == TanimotoMinMax()(counts, counts[:5]).tobytes()


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
