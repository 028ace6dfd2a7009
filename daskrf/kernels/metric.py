"""The Gaussian kernel of distances in which directions count more if the labels change more along them."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MatrixLike
from daskrf.errors import InputError
from daskrf.kernels.distances import finite_rows
from daskrf.kernels.index import check_columns
from daskrf.kernels.kernel import AUTO, UNLEARNED, Prepared, as_positive, short
from daskrf.kernels.radial import Array, Gaussian, Length, RadialKernel, Uniform

_MARK = ":"
_CACHED = 8  # metrics cached at most, by their texts


@dataclass(frozen=True, eq=False)
class Metric:
    """Squared distances (x - y)^T (rest I + B B^T) (x - y), where B has rows for some columns only.

    Attributes
    ----------
    rest : float
        Weight of every column besides the directions, above 0.
    columns : int64 array, shape (c,)
        Ascending.
    directions : float32 array, shape (c, r)
        The rows of B for these columns; those of all others are 0.

    Raises
    ------
    InputError
        If these do not form a metric.

    Examples
    --------
    >>> metric = Metric(0.5, np.array([2]), np.array([[3.0]], np.float32))
    >>> Metric.of_text(metric.text).directions.tolist()
    [[3.0]]
    """

    rest: float
    columns: npt.NDArray[np.int64]
    directions: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        columns, directions = self.columns, self.directions
        ascending = columns.ndim == 1 and (np.diff(columns, prepend=-1) > 0).all()
        if not (ascending and directions.ndim == 2 and len(directions) == len(columns)):
            raise InputError("A metric has ascending columns, and a row of directions for each of them.")
        if not np.isfinite(directions).all():
            raise InputError("The directions of a metric must be finite numbers.")
        as_positive("rest", self.rest)

    @property
    def text(self) -> str:
        """The metric as text, exactly."""
        arrays = self.columns.astype("<i8"), self.directions.astype("<f4")
        packed = [base64.b64encode(each.tobytes()).decode() for each in arrays]
        return _MARK.join([repr(float(self.rest)), *packed])

    @property
    def stretch(self) -> float:
        """Upper bound on the length, in the metric, of a row whose Euclidean length is 1."""
        return math.sqrt(self.rest + float(np.square(self.directions, dtype=np.float64).sum()))

    @classmethod
    def of_text(cls, text: str) -> Metric:
        """Return the metric that `text` describes; an empty text means Euclidean distances.

        Raises
        ------
        InputError
            If it is not the text of a metric.
        """
        if not text:
            return cls(1.0, np.empty(0, np.int64), np.empty((0, 0), np.float32))
        return _of_text(text)

    def moved(self, rows: sp.csr_matrix) -> sp.csr_matrix:
        """Return rows whose Euclidean distances are those of the metric."""
        if not self.directions.size:
            return rows * math.sqrt(self.rest)
        along = known_columns(rows, self.columns) @ self.directions.astype(np.float64)
        return sp.hstack([rows * math.sqrt(self.rest), sp.csr_matrix(along)], format="csr")


def known_columns(rows: sp.csr_matrix, columns: npt.NDArray[np.int64]) -> sp.csr_matrix:
    """Return some columns of sparse rows, which may have billions of columns.

    Parameters
    ----------
    rows : csr_matrix, shape (n, d)
    columns : int64 array, shape (c,)
        Ascending.

    Returns
    -------
    csr_matrix of float64, shape (n, c)

    Examples
    --------
    >>> known_columns(sp.csr_matrix([[1, 2, 3], [4, 0, 0]]), np.array([0, 2])).toarray().tolist()
    [[1.0, 3.0], [4.0, 0.0]]
    """
    shape = rows.shape[0], len(columns)
    if not len(columns):
        return sp.csr_matrix(shape)
    place = np.minimum(np.searchsorted(columns, rows.indices), len(columns) - 1)
    there = columns[place] == rows.indices
    pointer = np.concatenate([[0], np.cumsum(there)])[rows.indptr]
    return sp.csr_matrix((rows.data[there].astype(np.float64), place[there], pointer), shape=shape)


@lru_cache(maxsize=_CACHED)
def _of_text(text: str) -> Metric:
    try:
        rest, *packed = text.split(_MARK)
        columns, values = (base64.b64decode(each, validate=True) for each in packed)
        indices = np.frombuffer(columns, "<i8").astype(np.int64)
        directions = np.frombuffer(values, "<f4").astype(np.float32)
        directions = directions.reshape(len(indices), -1 if len(indices) else 0)
        metric = Metric(float(rest), indices, directions)
    except ValueError:
        raise InputError(
            "The metric of the kernel is damaged or not a metric; give auto, or the text that fit has stored."
        ) from None
    indices.setflags(write=False)
    directions.setflags(write=False)
    return metric


class MetricGaussian(RadialKernel):
    """k(x, y) = exp(-(x - y)^T A (x - y) / (2 l^2)): a Gaussian kernel of distances in a metric A.

    A is learned from labels (`daskrf.gp.choose_metric`): directions along which they change count more. It
    suits labels that depend on a few sums over a molecule, such as its size or its lipophilicity: few labels
    suffice to distinguish these from thousands of other directions. Frequencies are normal, N(0, A / l^2).

    Source: Radhakrishnan, Beaglehole, Pandit & Belkin 2024, Mechanism for feature learning in neural networks
    and backpropagation-free machine learning models (Science 383); here A is a matrix of low rank plus a
    multiple of the unit matrix.

    Parameters
    ----------
    length_scale : float or "auto", default 1.0
        Length scale l, above 0, in the units of the columns. With auto, `fit` chooses it from the labels,
        together with the metric; all other commands need a number.
    metric : str, default ""
        The metric as text, such as one that was learned before. With auto, `fit` learns it from the labels.
        Empty: Euclidean distances.

    Raises
    ------
    InputError
        If the length scale is not a finite number above 0, if it is given but the metric is "auto", or if the
        text is not that of a metric.

    Examples
    --------
    >>> metric = Metric(1.0, np.array([0]), np.array([[1.0]], np.float32))
    >>> MetricGaussian(2.0, metric.text)([[2, 0, 1]], [[0, 0, 1], [2, 0, 3]]).round(4).tolist()
    [[0.3679, 0.6065]]
    """

    name = "metric"
    option_defaults: ClassVar[dict[str, object]] = {"length_scale": AUTO, "metric": AUTO}

    def __init__(self, length_scale: Length = 1.0, metric: str = "") -> None:
        super().__init__(length_scale)
        self.metric = metric
        if not isinstance(metric, str):
            raise InputError(f"metric must be text, as Metric writes it, not {short(metric)}.")
        if metric != AUTO:
            Metric.of_text(metric)
        elif self._length_scale != AUTO:
            raise InputError(
                "The length scale is chosen together with the metric: leave it out, or give the metric, too."
            )

    @property
    def learned(self) -> Metric:
        """A; InputError if it is not known yet."""
        if self.metric == AUTO:
            raise InputError(UNLEARNED)
        return Metric.of_text(self.metric)

    def words(self) -> str:
        length = AUTO if self._length_scale == AUTO else f"{self.length_scale:g}"
        if not self.metric:
            return f"Gaussian kernel (length scale {length})"
        rank = "" if self.metric == AUTO else f" of {self.learned.directions.shape[1]} directions"
        return f"Gaussian kernel (length scale {length}) in a learned metric{rank}"

    def against(self, Y: MatrixLike) -> Prepared:
        metric, right = self.learned, finite_rows(Y)
        inner = Gaussian(self.length_scale).against(metric.moved(right))

        def values(X: MatrixLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
            rows = finite_rows(X)
            check_columns(rows, right)
            return inner(metric.moved(rows), dtype)

        return values

    def against_single(self, Y: MatrixLike) -> Prepared:
        return self.against(Y)

    def of_distances(self, r: npt.NDArray[np.floating], n_columns: int) -> npt.NDArray[np.floating]:
        """Return exp(-r^2 / 2) for distances in the metric, overwriting `r`."""
        return Gaussian().of_distances(r, n_columns)

    def radii(self, uniform: Uniform, n_columns: int) -> Array:
        """Return the lengths of standard normal vectors, which the metric then stretches."""
        return Gaussian().radii(uniform, n_columns)
