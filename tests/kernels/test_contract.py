"""What every kernel promises, over all kernels that there are."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from inspect import isabstract

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sparse

from daskrf.errors import InputError
from daskrf.exports import declared
from daskrf.kernels import (
    Composition,
    DotProduct,
    Exponential,
    Gaussian,
    Intersection,
    Kernel,
    Matern,
    Mean,
    MetricGaussian,
    Polynomial,
    RadialSpectrum,
    Ratio,
    TanimotoDotProduct,
    TanimotoMinMax,
    TruncatedGaussian,
    UnitBalls,
    from_state,
)
from daskrf.kernels.radial import RadialKernel
from tests.discovery import arguments
from tests.kernels.values import METRIC, ugly_rows

TABLE: list[Kernel] = [
    TanimotoMinMax(),
    Intersection(),
    TanimotoDotProduct(),
    TanimotoDotProduct(transform="sqrt"),
    TanimotoDotProduct(transform="sqrt", n_terms=4),
    Composition(Polynomial(3, c=0.0)),
    Composition(Exponential(2.0)),
    Composition(Ratio()),
    Composition(DotProduct((1, 0, 2))),
    Gaussian(3.0),
    Matern(2.0, nu=0.5),
    Matern(2.0, nu=1.5),
    Matern(9.0, nu=2.5),
    Matern(9.0, nu=3.1),
    UnitBalls(0.7, degree=2),
    MetricGaussian(3.0, METRIC.text),
    MetricGaussian(4.0),
    RadialSpectrum([0.0, 0.5, 2.5]),
    Polynomial(2, c=1.0),
    Polynomial(3, c=0.0, normalize=True),
    Exponential(2.0, normalize=True),
    DotProduct((1.0, 0.0, 2.0)),
    Ratio(normalize=True),
    Composition(Polynomial(2, c=0.5), TanimotoMinMax()),
    Composition(Exponential(2.0), TanimotoDotProduct()),
    TruncatedGaussian(3.0, 5, ((0, 2), (0.5, 1.0))),
    Mean((0.4, 0.3, 0.3), columns=((0, 2), (1, 5), (2, 9))),
    Mean((3, 0, 1, 2), (TanimotoMinMax(), Intersection(), Gaussian(3.0), Matern(9.0)), None),
    Mean((0.1, 0.7), (TanimotoDotProduct(), Mean((1, 2), (Gaussian(3.0), TanimotoMinMax()), None)), None),
]
"""Kernels with other parameters than their defaults, or with defaults that do not suit counts of any size."""

APART = {
    "Folded": "takes unfolded fingerprints alone: tests/features/test_folded.py",
    "Coregionalized": "takes rows that end with a target: tests/kernels/test_coregionalized.py",
}
"""Kernels that the rows here do not suit, and where else they are tested."""


def derived(classes: Iterable[type[Kernel]], table: Iterable[Kernel]) -> tuple[list[Kernel], list[str]]:
    """Return kernels of the classes that are not in a table, made as their signatures say.

    What cannot be made so is in the second list: what to write, and where.
    """
    listed, made, missing = {type(kernel) for kernel in table}, [], []
    for cls in classes:
        if cls in listed or cls.__name__ in APART:
            continue
        try:
            made.append(cls(**arguments(cls)))
        except Exception as error:
            missing.append(
                f"{cls.__name__} cannot be made as its signature says ({error}): add one, with parameters "
                "that suit counts, to TABLE in tests/kernels/test_contract.py."
            )
    return made, missing


OURS = [
    cls
    for cls in declared("daskrf.kernels", Kernel).values()
    if cls.__module__.startswith("daskrf.") and not isabstract(cls)
]
_DERIVED, MISSING = derived(OURS, TABLE)
KERNELS = [*TABLE, *_DERIVED]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
INPUTS = [ugly_rows(), ugly_rows(1) * 0.1, np.random.default_rng(2).lognormal(0, 4, (20, 3)), np.eye(15, 4)]


def scale(kernel: Kernel, X: np.ndarray) -> float:
    """Return the largest k(x, x): rounding errors are in proportion."""
    return max(1.0, float(kernel.diag(X).max()))


@each_kernel
@pytest.mark.parametrize("X", INPUTS, ids=range(len(INPUTS)))
def test_positive_semidefinite(kernel: Kernel, X: np.ndarray) -> None:
    gram = kernel(X)
    assert (gram == gram.T).all()
    size = scale(kernel, X)
    if size == 1.0:
        assert (np.diag(gram) == kernel.diag(X)).all()
    else:
        # The order of a sum depends on all rows.
        np.testing.assert_allclose(np.diag(gram), kernel.diag(X), rtol=1e-12, atol=1e-300)
    assert np.linalg.eigvalsh(gram / size).min() > -1e-13 * len(X)


@each_kernel
@pytest.mark.parametrize("X", INPUTS, ids=range(len(INPUTS)))
def test_the_distance_is_a_metric(kernel: Kernel, X: np.ndarray) -> None:
    distance = kernel.distance(X)
    assert (distance == distance.T).all()
    assert (np.diag(distance) == 0.0).all()
    assert np.isfinite(distance).all()
    # A square root makes an error of 1e-16 one of 1e-8.
    through = distance[:, :, None] + distance[None, :, :]
    assert (distance[:, None, :] <= through + 3e-8 * np.sqrt(scale(kernel, X))).all()
    if type(kernel).distance is Kernel.distance:
        diagonal = kernel.diag(X) / scale(kernel, X)
        squares = (diagonal[:, None] + diagonal) / 2 - kernel(X) / scale(kernel, X)
        np.testing.assert_allclose(distance**2 / scale(kernel, X), squares, atol=1e-12)


CONTAINERS = {
    "dense": np.asarray,
    "columns first": np.asfortranarray,
    "lists": lambda X: X.tolist(),
    "CSR matrix": sp.csr_matrix,
    "CSR array": sp.csr_array,
    "CSC": sp.csc_array,
    "COO": sp.coo_array,
    "LIL": sp.lil_array,
    "sparse.COO": sparse.COO,
    "sparse.GCXS": sparse.GCXS,
    "sparse.DOK": lambda X: sparse.DOK(sparse.COO(X)),
    "DataFrame": pd.DataFrame,
}
DTYPES = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
DTYPES += [np.float16, np.float32, np.float64, np.longdouble]


@each_kernel
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_values_of_any_number_type_in_any_container(kernel: Kernel, dtype: type) -> None:
    """They are those of the same numbers in double precision, the largest of each type included."""
    X, Y = np.minimum(ugly_rows(), 60), np.minimum(ugly_rows(1), 60)
    if np.dtype(dtype).kind in "iu":
        X[9, 1] = min(2**31, np.iinfo(dtype).max)
    X = X.astype(dtype)
    wide = X.astype(np.float64)
    expected, turned = kernel(wide, Y), kernel(Y, wide)
    tolerance: dict[str, float] = {"rtol": 1e-13, "atol": 1e-13 * scale(kernel, wide)}
    for name, make in CONTAINERS.items():
        if dtype in (np.float16, np.longdouble) and "sparse" in name:  # which do not take them
            continue
        try:
            same = make(X)
        except ValueError:  # of float16, as SciPy says
            assert dtype is np.float16
            continue
        np.testing.assert_allclose(kernel(same, Y), expected, **tolerance)
        np.testing.assert_allclose(kernel(Y, same), turned, **tolerance)
        np.testing.assert_allclose(kernel.diag(same), kernel.diag(wide), **tolerance)
    assert kernel(X, X.astype(np.int64)).tobytes() == kernel(wide).tobytes()


@each_kernel
def test_blocks_are_rows_of_the_whole(kernel: Kernel) -> None:
    X, Y = sp.csr_matrix(ugly_rows()), ugly_rows(4)
    whole = kernel(X, Y)
    for rows in (1, 7, None):
        parts = list(kernel.blocks(X, Y, rows=rows))
        assert all(block.shape == (chunk.stop - chunk.start, len(Y)) for chunk, block in parts)
        assert np.vstack([block for _, block in parts]).tobytes() == whole.tobytes()


@each_kernel
def test_blocks_take_what_a_call_takes_and_name_the_row(kernel: Kernel) -> None:
    X = ugly_rows()
    for same in (X.tolist(), sp.coo_matrix(X), sp.csc_array(X)):
        assert np.vstack([block for _, block in kernel.blocks(same, rows=9)]).tobytes() == kernel(X).tobytes()
    bad = X.copy()
    bad[20, 3] = np.nan
    with pytest.raises(InputError, match=r"row 2, column 3 .* counted from row 18 of X"):
        list(kernel.blocks(bad, X, rows=9))
    with pytest.raises(InputError, match="row 20, column 3"):
        list(kernel.blocks(bad, rows=9))
    with pytest.raises(InputError, match="rows must be at least 1, not 0"):
        list(kernel.blocks(X, rows=0))


@each_kernel
def test_single_precision_is_the_rounded_result(kernel: Kernel) -> None:
    X = ugly_rows()
    prepared = kernel.against(X)
    single = prepared(X, dtype=np.float32)
    assert single.dtype == np.float32
    assert (single == kernel(X).astype(np.float32)).all()


@each_kernel
def test_threads_may_share_what_is_prepared(kernel: Kernel) -> None:
    X = ugly_rows()
    prepared = kernel.against(X)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(prepared, [X] * 8))
    assert all((result == kernel(X)).all() for result in results)


@each_kernel
def test_rows_of_zeros_and_single_and_no_rows(kernel: Kernel) -> None:
    assert kernel([[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0, 3, 0]]).flat[0] == kernel.diag([[0, 0, 0]])[0]
    if kernel.has_unit_diagonal or isinstance(kernel, (TanimotoDotProduct, Mean)):
        assert kernel.diag([[0, 0]])[0] == 1.0
    assert kernel([[2, 1, 0]]).shape == (1, 1)
    assert kernel([[2, 1, 0]])[0, 0] == kernel.diag([[2, 1, 0]])[0]
    nothing = np.zeros((0, 3))
    assert kernel(nothing, [[1, 2, 0]]).shape == (0, 1)
    assert kernel([[1, 2, 0]], nothing).shape == (1, 0)


@each_kernel
def test_unfolded_identifiers(kernel: Kernel) -> None:
    counts, pointer = np.array([1, 2, 1, 1]), np.array([0, 2, 4])
    far, near = (
        sp.csr_matrix((counts, np.array(columns), pointer), shape=(2, 2**32))
        for columns in ([5, 2**32 - 1, 5, 7], [0, 2, 0, 1])
    )
    if isinstance(kernel, TruncatedGaussian):
        kernel = TruncatedGaussian(kernel.length_scale, kernel.degree)
    if isinstance(kernel, Mean):
        kernel = Mean(kernel.weights, kernel.kernels, None)
    if isinstance(kernel, MetricGaussian):
        kernel = MetricGaussian(kernel.length_scale)
    assert (kernel(far) == kernel(near)).all()
    # Other radial kernels depend on the number of columns.
    if not isinstance(kernel, RadialKernel) or kernel.any_columns or isinstance(kernel, MetricGaussian):
        assert (kernel(far) == kernel([[1, 0, 2], [1, 1, 0]])).all()


@each_kernel
def test_bad_input_is_refused(kernel: Kernel) -> None:
    with pytest.raises(InputError, match="same columns, not 4 and 3"):
        kernel([[1, 2, 0, 0]], [[1, 2, 0]])
    for wrong in (np.eye(3) * 1j, np.eye(3).astype(object), np.eye(3).astype(str)):
        with pytest.raises(InputError, match="must be an array of real numbers"):
            kernel(wrong, np.eye(3))
    with pytest.raises(InputError, match="row 1, column 0 is not a finite"):
        kernel([[1, 2, 0]], [[1, 0, 0], [np.inf, 0, 0]])
    if (
        "Tanimoto" in repr(kernel) or isinstance(kernel, Intersection)
    ) and "TanimotoDotProduct(transform=None" not in repr(kernel):
        with pytest.raises(InputError, match="row 1, column 1 is negative"):
            kernel([[1, 2], [0, -1]], [[1, 0]])


@each_kernel
def test_state_and_pickle(kernel: Kernel) -> None:
    assert from_state(json.loads(json.dumps(kernel.state()))) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert hash(from_state(kernel.state())) == hash(kernel)
    assert sum(kernel == other for other in KERNELS) == 1


def test_no_kernel_is_forgotten() -> None:
    assert not MISSING, "\n".join(MISSING)
    assert set(APART) <= {cls.__name__ for cls in OURS}
