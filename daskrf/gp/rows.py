"""What a Gaussian process is given: rows, checked, as blocks of features and as sums over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import as_csr
from daskrf.errors import InputError
from daskrf.features.base import map_key
from daskrf.gp.stack import Statistics, zero_statistics
from daskrf.gp.statistics import SufficientStatistics

__all__ = ["check_of", "check_rows", "feature_blocks", "refuse_unpacked_bits", "sum_rows"]

_BLOCK_ENTRIES = 1 << 25  # features in memory at a time


def check_of(of: str) -> None:
    """Refuse to predict anything but y or f."""
    if of not in ("y", "f"):
        raise InputError(f"of must be 'y' (with noise) or 'f' (without), not {of!r}.")


def check_rows(X: Any, feature_map: Any) -> Any:
    """Return X as a two-dimensional array or CSR matrix whose rows can be sliced.

    Raises
    ------
    InputError
        If X is not two-dimensional or not of numbers, or is sparse and there is no map to take it.
    """
    if sp.issparse(X) or hasattr(X, "to_scipy_sparse") or hasattr(X, "tocsr"):
        if feature_map is None:
            raise InputError(
                "X is sparse, as fingerprints are, but this model has no feature_map: pass one, or give "
                "dense features."
            )
        return as_csr(X)
    X = X if hasattr(X, "shape") and hasattr(X, "dtype") else np.asarray(X)
    if len(X.shape) != 2 or X.dtype.kind not in "buif":
        raise InputError(f"X must be numbers of shape (n, n_columns), not {X.dtype} of shape {X.shape}.")
    return X


def refuse_unpacked_bits(X: Any) -> None:
    """Refuse uint8 rows of nothing but 0 and 1 as packed bits, which have all 256 values.

    Raises
    ------
    InputError
        If X looks like fingerprints with one byte a bit.
    """
    if X.dtype == np.uint8 and np.max(X, initial=0) <= 1:
        raise InputError(
            "X is uint8, which stands for packed bits, but holds only 0 and 1, like unpacked fingerprints: "
            "pass a feature_map for fingerprints, or n_components if these are packed bits."
        )


def feature_blocks(
    X: Any, feature_map: Any, transform: Callable[[Any], npt.NDArray[Any]] | None = None
) -> Iterator[npt.NDArray[Any]]:
    """Yield packed bits or features of consecutive rows of X, in bounded memory.

    `transform` takes the place of that of a map of dense features.
    """
    X = check_rows(X, feature_map)
    if feature_map is None:
        width = X.shape[1] * (8 if X.dtype == np.uint8 else 1)
    else:
        width = feature_map.n_components
    rows = max(1, _BLOCK_ENTRIES // max(int(width), 1))
    for start in range(0, X.shape[0], rows):
        block = X[start : start + rows]
        if feature_map is None:
            block = np.asarray(block)
            is_features = block.dtype.kind == "f" or block.dtype == np.uint8
            yield block if is_features else block.astype(np.float64)
        elif feature_map.one_bit:
            yield feature_map.transform_bits(block)
        else:
            yield (transform or feature_map.transform)(block)


def sum_rows(
    X: Any,
    targets: npt.NDArray[np.float64],
    feature_map: Any,
    *,
    n_components: int | None,
    exponents: npt.NDArray[np.int64] | None,
) -> Any:
    """Return the statistics of at least one row; `n_components` and `exponents` are for packed bits.

    Raises
    ------
    InputError
        If X and `targets` differ in their number of rows, or do not fit.
    """
    if X.shape[0] != len(targets):
        raise InputError(f"X has {X.shape[0]} rows, but y has {len(targets)}: they must be the same.")
    total: Statistics | None = None
    start = 0
    for phi in feature_blocks(X, feature_map):
        if total is None:
            one_bit = phi.dtype == np.uint8
            kind: Any = {"one_bit": one_bit, "y_exponents": exponents if one_bit else None}
            if feature_map is None:
                packed = phi.shape[1] * 8 if n_components is None else n_components
                total = SufficientStatistics.zero(
                    packed if one_bit else phi.shape[1], targets.shape[1], **kind
                )
            else:
                key = map_key(feature_map.state())
                total = zero_statistics(feature_map, targets.shape[1], map_key=key, **kind)
        total.update(phi, targets[start : start + len(phi)])
        start += len(phi)
    assert total is not None
    return total
