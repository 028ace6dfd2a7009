"""What maps of dot-product kernels share: the length of rows that their degrees are drawn for."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Literal, Self

from daskrf.arrays import as_csr, check_finite, squared_norms
from daskrf.errors import InputError
from daskrf.features.featuremap import FeatureMap

__all__ = ["DotProductMap"]


class DotProductMap(FeatureMap):
    """A map that may have to know the length R of the longest row: given, 1, or learned by `fit`."""

    radius: float | None

    @abstractmethod
    def _uses_radius(self) -> bool:
        """Tell whether the degrees follow the length of the rows, which the kernel does not normalize."""

    @abstractmethod
    def _check_parameters(self) -> Any:
        """Raise InputError if a parameter is out of range."""

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

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Note the number of columns, and learn the length of the longest row where it is needed.

        Parameters
        ----------
        X : array of shape (n, d), optional
            None keeps what is known.
        y : ignored

        Raises
        ------
        InputError
            If a parameter is out of range, a value is not finite, or all rows are zero where a length is
            needed.
        """
        self._check_parameters()
        return self if X is None else self.fit_summaries([self.summarize(X)])

    def summarize(self, X: Any) -> dict[str, Any]:
        """Return the number of columns and the largest squared length of a row of `X`.

        Raises
        ------
        InputError
            If a parameter is out of range, or a value is not finite.
        """
        self._check_parameters()
        csr = check_finite(as_csr(X))
        norms = squared_norms(csr.indptr, csr.data)
        return {"n_features_in": csr.shape[1], "largest": float(norms.max(initial=0.0))}

    def fit_summaries(self, summaries: Iterable[dict[str, Any]]) -> Self:
        """Fit to the summaries of all parts of a library, in any order.

        Raises
        ------
        InputError
            As `fit`, and if the parts have different numbers of columns.
        """
        self._check_parameters()
        parts = list(summaries)
        widths = sorted({part["n_features_in"] for part in parts})
        if len(widths) > 1:
            raise InputError(
                f"The parts of the library have {' and '.join(f'{w:,}' for w in widths)} columns; "
                "fingerprint all of them in the same way."
            )
        if self.radius is None and self._uses_radius():
            largest = max((part["largest"] for part in parts), default=0.0)
            if not 0.0 < largest < math.inf:
                raise InputError(
                    "The degrees of features follow the length of the rows, which must not all be zero, and "
                    "whose squares must fit in a number; fit to other rows, give radius, or use a kernel "
                    "with normalize=True."
                )
            self._measure(math.sqrt(largest))
            self._learned = math.sqrt(largest)
        if widths:
            self.n_features_in_ = int(widths[0])
        return self

    def _needs_radius(self) -> bool:
        return self._uses_radius() and self.radius is None and not hasattr(self, "_learned")

    def _check_fitted(self) -> None:
        """Raise InputError if the length of the rows is needed, and not known."""
        if not self.is_fitted():
            raise InputError(
                f"{type(self).__name__} is not fitted: it has to know the length of the rows; call fit or "
                "fit_summaries, or give radius."
            )

    def _fitted_state(self) -> dict[str, Any]:
        fitted: dict[str, Any] = {}
        if hasattr(self, "n_features_in_"):
            fitted["n_features_in"] = self.n_features_in_
        if hasattr(self, "_learned"):
            fitted["radius"] = self._learned
        return fitted

    def _restore(self, fitted: dict[str, Any]) -> None:
        if "n_features_in" in fitted:
            self.n_features_in_ = fitted["n_features_in"]
        if "radius" in fitted:
            self._learned = fitted["radius"]

    def __getstate__(self) -> dict[str, Any]:
        # What an object keeps for its next call is made again by a copy.
        return {name: value for name, value in super().__getstate__().items() if name != "_kept"}
