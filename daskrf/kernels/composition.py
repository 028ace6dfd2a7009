"""Compositional kernels: a power series, with coefficients of at least 0, of another kernel."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from daskrf.arrays import MatrixLike
from daskrf.errors import InputError
from daskrf.kernels.kernel import Kernel, KernelState, Prepared, from_state
from daskrf.kernels.powerseries import DotProductKernel, Polynomial, finite_values
from daskrf.kernels.tanimoto import TanimotoMinMax

Array = npt.NDArray[np.float64]


class Composition(Kernel):
    """k(x, y) = f(K(x, y)) / f(1), f the power series of a dot-product kernel and K any kernel.

    Sums and products of positive definite kernels are positive definite (Schur), so k is, too. k(x, x) = 1 if
    K(x, x) = 1. Source: Kar & Karnick 2012, supplement, section 10.

    Parameters
    ----------
    outer : DotProductKernel, default Polynomial(2, c=0)
        The series f. Its `normalize` has no meaning here.
    inner : Kernel, default TanimotoMinMax()
        K.

    Raises
    ------
    InputError
        If `outer` is not a dot-product kernel, `inner` is not a kernel, or f(1) is too large for float64;
        when called, if k is.

    Examples
    --------
    >>> Composition(Polynomial(2, c=1.0), TanimotoMinMax())([[2, 0, 1]], [[1, 1, 1]]).tolist()
    [[0.5625]]
    """

    name = "composition"

    def __init__(
        self,
        outer: DotProductKernel | KernelState = Polynomial(2, c=0.0),  # noqa: B008, kernels are immutable
        inner: Kernel | KernelState = TanimotoMinMax(),  # noqa: B008
    ) -> None:
        series = from_state(outer) if isinstance(outer, dict) else outer
        kernel = from_state(inner) if isinstance(inner, dict) else inner
        if not isinstance(series, DotProductKernel):
            raise InputError(f"outer must be a Polynomial, Exponential or DotProduct, not {series!r}.")
        if not isinstance(kernel, Kernel):
            raise InputError(f"inner must be a kernel of daskrf.kernels, not {kernel!r}.")
        self.outer = series
        self.inner = kernel
        if not np.isfinite(series.relative(np.ones(1))).all():
            raise InputError(f"The series of {series!r} at 1 is too large for a floating-point number.")

    def words(self) -> str:
        return f"{self.outer.series_words('K')} (over its value at 1), K {self.inner.words()}"

    def __repr__(self) -> str:
        return f"Composition({self.outer!r}, {self.inner!r})"

    @property
    def positive_rows(self) -> bool:
        return self.inner.positive_rows

    def against(self, Y: MatrixLike) -> Prepared:
        inner = self.inner.against(Y)

        def composed(X: MatrixLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
            return finite_values(self.outer.relative(inner(X).astype(np.float64, copy=False)), self).astype(
                dtype, copy=False
            )

        return composed

    @property
    def has_unit_diagonal(self) -> bool:
        """Whether k(x, x) = 1 for every row: if K(x, x) = 1."""
        return self.inner.has_unit_diagonal

    def diag(self, X: MatrixLike) -> Array:
        return self.of_similarities(self.inner.diag(X))

    def of_similarities(self, K: npt.ArrayLike) -> Array:
        """Return f(K) / f(1) for values of K, float64 of their shape."""
        return finite_values(self.outer.relative(np.array(K, dtype=np.float64)), self)
