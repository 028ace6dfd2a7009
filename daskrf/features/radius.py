"""What maps of dot-product kernels share: the length of rows that their degrees are drawn for."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Literal

from daskrf.arrays import as_csr, check_finite, squared_norms
from daskrf.errors import InputError
from daskrf.features.featuremap import FeatureMap, is_number
from daskrf.kernels.powerseries import DotProductKernel

__all__ = ["DotProductMap"]


class DotProductMap(FeatureMap):
    """A map that may have to know the length R of the longest row: given, 1, or learned by `fit`."""

    kernel: DotProductKernel
    radius: float | None
    instead_of_fit = "radius"

    @abstractmethod
    def _uses_radius(self) -> bool:
        """Tell whether the degrees follow the length of the rows, which the kernel does not normalize."""

    @abstractmethod
    def _measure(self, radius: float) -> Any:
        """Return what degrees are drawn by; raise InputError if they cannot be drawn for this R."""

    @property
    def learns_from(self) -> Literal["nothing", "summary", "sample"]:  # type: ignore[override]
        """Summaries, where the length of the longest row is needed; else nothing."""
        return "summary" if self.radius is None and self._uses_radius() else "nothing"

    @property
    def radius_(self) -> float:
        """Length of a row that degrees are drawn for: given, 1, or learned by `fit`."""
        if self.radius is not None:
            return float(self.radius)
        if not self._uses_radius():
            return 1.0
        if not hasattr(self, "_learned"):
            raise AttributeError("radius_")
        return self._learned

    def is_fitted(self) -> bool:
        """Tell whether the length of the rows is known, or not needed."""
        return not self._needs_radius()

    def summarize(self, X: Any) -> dict[str, Any]:
        """Return the number of columns and the largest squared length of a row of `X`; see `FeatureMap`."""
        self._check_parameters()
        csr = check_finite(as_csr(X))
        norms = squared_norms(csr.indptr, csr.data)
        return {"n_features_in": csr.shape[1], "largest": float(norms.max(initial=0.0))}

    def _learn(self, parts: list[dict[str, Any]]) -> None:
        if self.radius is not None or not self._uses_radius():
            return
        largest = max((part["largest"] for part in parts), default=0.0)
        if not 0.0 < largest < math.inf:
            raise InputError(
                "The degrees of features follow the length of the rows, which must not all be zero, and "
                "whose squares must fit in a number; fit to other rows, give radius, or use a kernel "
                "with normalize=True."
            )
        self._measure(math.sqrt(largest))
        self._learned = math.sqrt(largest)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.kernel, DotProductKernel):
            raise InputError(f"kernel must be a Polynomial, Exponential or DotProduct, not {self.kernel!r}.")
        if self.radius is not None and not (is_number(self.radius) and self.radius > 0.0):
            raise InputError(f"radius must be None or a finite number above 0, not {self.radius!r}.")

    def _needs_radius(self) -> bool:
        return self._uses_radius() and self.radius is None and not hasattr(self, "_learned")

    def _fitted_state(self) -> dict[str, Any]:
        learned = {"radius": self._learned} if hasattr(self, "_learned") else {}
        return super()._fitted_state() | learned

    def _restore(self, fitted: dict[str, Any]) -> None:
        super()._restore(fitted)
        if "radius" in fitted:
            self._learned = fitted["radius"]
