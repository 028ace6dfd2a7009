"""Random Maclaurin features of dot-product kernels."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import MatrixLike, as_csr, check_finite, squared_norms
from daskrf.errors import InputError
from daskrf.features.featuremap import FeatureMap, MapFacts, is_number
from daskrf.features.sketches.projections import Products, ScaledRows, refuse_overflow, scale_rows
from daskrf.kernels.powerseries import DotProduct, DotProductKernel, Polynomial, check_degree
from daskrf.seeds import RandomState

MEASURES = ("geometric", "proportional")
_MOST_DEGREES = 4096  # for the geometric measure with p near 1
_LOST = 2.0**-40

Array = npt.NDArray[np.float64]


def degree_measure(
    kernel: DotProductKernel,
    measure: str | Sequence[float],
    *,
    p: float = 2.0,
    radius: float = 1.0,
    degrees: tuple[int, int | None] = (0, None),
) -> tuple[Array, Array]:
    """Return the coefficients a_n of a kernel's series, and the odds q_n for drawing degrees of features.

    Parameters
    ----------
    kernel : DotProductKernel
    measure : "geometric", "proportional", or a sequence of float
        q_n is proportional to p^-(n+1), to a_n R^(2n), or to the given numbers. Degrees without a coefficient
        get 0.
    p : float, default 2.0
        Above 1.
    radius : float, default 1.0
        R.
    degrees : (int, int or None)
        Smallest and largest degree.

    Returns
    -------
    tuple of float64 arrays, shape (N + 1,)
        a_n, and q_n with sum 1; q_n is above 0 where a_n is, between the smallest and the largest degree.

    Raises
    ------
    InputError
        If a parameter is out of range, or a degree of the kernel would never be drawn.
    """
    first, last = degrees
    most = kernel.degree_ if last is None else last if kernel.degree_ is None else min(last, kernel.degree_)
    if isinstance(measure, str):
        if measure == "proportional":
            odds = kernel.probabilities(radius)
        else:
            # Higher degrees are drawn less than once in 2^53 features.
            size = min(_MOST_DEGREES, math.ceil(53 / math.log2(p)) + first + 1)
            size = size if most is None or kernel.degree_ is None else max(size, most + 1)
            logarithms = -np.arange(size) * math.log(p)
            odds = np.exp(np.maximum(logarithms, -700.0))
    elif most is None:
        raise InputError(
            f"degree_measure has {len(measure)} numbers, but {kernel!r} has infinitely many powers: set "
            "max_degree to truncate the series, or use 'proportional' or 'geometric'."
        )
    else:
        odds = np.array(measure, dtype=np.float64)
    size = odds.size if most is None else most + 1
    coefficients = kernel.maclaurin(size)
    odds = np.concatenate([odds[:size], np.zeros(max(0, size - odds.size))])
    odds[:first] = 0.0
    explicit = not isinstance(measure, str)
    lost = 0.0 if explicit or measure == "geometric" else float(odds[coefficients == 0.0].sum())
    odds[coefficients == 0.0] = 0.0
    if not odds.any() or lost > _LOST * odds.sum() or not np.isfinite(coefficients).all():
        if not (coefficients[first:] > 0.0).any():
            return coefficients, odds
        raise InputError(
            f"The degrees of {kernel!r} cannot be drawn for rows of length {radius:g}; divide all rows by a "
            "length, or use a kernel with normalize=True."
        )
    missing = np.flatnonzero((coefficients > 0.0) & (odds == 0.0) & (np.arange(size) >= first))
    if missing.size and explicit:
        raise InputError(
            f"degree_measure gives degree {missing[0]} the odds 0, but the kernel has this degree: give "
            "every degree of the kernel a number above 0."
        )
    return coefficients, odds / math.fsum(odds)


def draw_degrees(odds: Array, size: int, word: int) -> npt.NDArray[np.int64]:
    """Return `size` degrees, descending, each of which has `odds`: systematic sampling with one word.

    Degree n gets its expected number of features, rounded up or down at random. Unlike independent sampling,
    this adds next to no variance from the numbers of features.

    Examples
    --------
    >>> draw_degrees(np.array([0.5, 0.25, 0.25]), 8, word=2**63).tolist()
    [2, 2, 1, 1, 0, 0, 0, 0]
    """
    uniform = ((word >> 11) * 2.0**-53 + np.arange(size)) / max(size, 1)
    degrees = np.searchsorted(np.cumsum(odds), uniform, side="right")
    # Whatever is missing to a sum of 1 goes to the largest degree.
    return np.minimum(degrees, np.flatnonzero(odds)[-1])[::-1].astype(np.int64)


class DotProductMap(FeatureMap):
    """A map that may depend on the length R of the longest row: given, 1, or learned by `fit`."""

    kernel: DotProductKernel
    radius: float | None
    instead_of_fit = "radius"

    @abstractmethod
    def _uses_radius(self) -> bool:
        """Tell whether degrees depend on the lengths of rows, because the kernel does not normalize them."""

    @abstractmethod
    def _measure(self, radius: float) -> object:
        """Return what degrees are drawn with; raise InputError if they cannot be drawn for this R."""

    @property
    def learns_from(self) -> Literal["nothing", "summary", "sample"]:  # type: ignore[override]
        """Summaries if the map needs the length of the longest row, else nothing."""
        return "summary" if self.radius is None and self._uses_radius() else "nothing"

    @property
    def radius_(self) -> float:
        """The row length for which degrees are drawn: given, 1, or learned by `fit`."""
        if self.radius is not None:
            return float(self.radius)
        if not self._uses_radius():
            return 1.0
        if not hasattr(self, "_learned"):
            raise AttributeError("radius_")
        return self._learned

    def is_fitted(self) -> bool:
        """Tell whether the length of the rows is known or not needed."""
        return not self._needs_radius()

    def summarize(self, X: MatrixLike) -> dict[str, object]:
        """Return the number of columns and the largest squared length of a row of `X`; see `FeatureMap`."""
        self._check_parameters()
        csr = check_finite(as_csr(X))
        norms = squared_norms(csr.indptr, csr.data)
        return {"n_features_in": csr.shape[1], "largest": float(norms.max(initial=0.0))}

    def _learn(self, parts: list[dict[str, Any]]) -> None:
        if self.radius is not None or not self._uses_radius():
            return
        largest = max(summary["largest"] for summary in parts)
        if not 0.0 < largest < math.inf:
            raise InputError(
                "The degrees of features depend on the lengths of the rows, which must not all be zero, and "
                "whose squares must not overflow; fit to other rows, give radius, or use a kernel with "
                "normalize=True."
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

    def _fitted_state(self) -> dict[str, object]:
        learned = {"radius": self._learned} if hasattr(self, "_learned") else {}
        return super()._fitted_state() | learned

    def _restore(self, fitted: dict[str, Any]) -> None:
        super()._restore(fitted)
        if "radius" in fitted:
            self._learned = fitted["radius"]


@dataclass(eq=False, repr=False)
class RandomMaclaurinFeatures(DotProductMap):
    """Features whose inner product is an unbiased estimate of f(x.y), where f is a power series.

    f(t) = sum_n a_n t^n with all a_n >= 0. A feature has a random degree N, with odds q_N, and is sqrt(a_N /
    q_N) / sqrt(M) times the product of N projections of x, each on a vector of random signs. So E[phi(x) .
    phi(y)] = sum_n q_n (a_n / q_n) (x.y)^n = f(x.y). The signs are hashed from the column's identifier, 64 to
    a word, so any number of columns will do and no matrix of projections is stored.

    Parameters
    ----------
    kernel : DotProductKernel, default Polynomial(2, c=1, normalize=True)
        The kernel to approximate: `Polynomial`, `Exponential` or `DotProduct`. The variance grows with the
        lengths of the rows; with `normalize` every row has the length 1.
    n_components : int, default 4096
        Number M of features.
    degree_measure : {"proportional", "geometric"} or sequence of float, default "proportional"
        The odds q_n. "geometric": proportional to p^-(n+1), as in the paper. "proportional": to a_n R^(2n),
        the weight of each power for rows of length R, so that all features have the same size. Or the numbers
        q_0, q_1, ... themselves, scaled to the sum 1 (an infinite series then needs `max_degree`). Degrees
        that the kernel lacks are never drawn.
    p : float, default 2.0
        For the geometric measure; above 1.
    radius : float, optional
        R of the proportional measure. Default: 1 for a kernel with `normalize`, else the length of the
        longest row in the fit.
    h01 : bool, default False
        Make the constant and the linear term exact (the paper's H0/1 heuristic): the first 1 + d features are
        sqrt(a_0) and sqrt(a_1) x, the others are random features for the rest of the series.
    max_degree : int, optional
        Highest power of the series to keep. `daskrf.kernels.residual_bound` bounds the rest.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    radius_ : float
        R.
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Notes
    -----
    Source: Kar & Karnick 2012; section numbers are those of the supplement. P[N = n] = p^-(n+1), as printed,
    sums to 1 / (p - 1), which is 1 only for p = 2; here it is scaled to 1. The degrees of all features are
    drawn together by systematic sampling instead of independently: each feature has the same odds, and no
    variance comes from the number of features of a degree. For the truncated series see section 9.

    Examples
    --------
    >>> import numpy as np
    >>> from daskrf.kernels import Exponential
    >>> X = np.array([[2, 0, 1], [0, 5, 0]])
    >>> Phi = RandomMaclaurinFeatures(Exponential(normalize=True), 4000).fit_transform(X)
    >>> np.abs(Phi @ Phi.T - [[np.e, 1], [1, np.e]]).max() < 0.25
    np.True_
    """

    facts = MapFacts(
        name="maclaurin",
        kernel="power series of cos or x.y",
        rows="reals",
        features="floats",
        cost="N z M",
        holds="4 N M",
        learns="nothing, or the longest row",
        reference="Kar & Karnick 2012; supplement, section 9",
        use="for kernels that no other map approximates",
        example="--kernel exponential --gamma 2",
    )

    kernel: DotProductKernel = Polynomial(2, normalize=True)  # noqa: RUF009, kernels are immutable
    n_components: int = 4096
    _: KW_ONLY
    degree_measure: Literal["proportional", "geometric"] | Sequence[float] = "proportional"
    p: float = 2.0
    radius: float | None = None
    h01: bool = False
    max_degree: int | None = None
    random_state: RandomState = 0

    def words(self) -> str:
        rest = "" if self.max_degree is None else f", cut after power {self.max_degree}"
        rest += ", constant and linear term exact" if self.h01 else ""
        return f"random Maclaurin features of k = {self.kernel.words()}{rest}, {self.size_words}"

    @property
    def seconds_per_component(self) -> float:
        _, odds = self._measure(1.0 if self._needs_radius() else self.radius_)
        return 4e-9 * max(1.0, float(odds @ np.arange(odds.size)))

    @property
    def kernel_(self) -> DotProductKernel:
        """The exact kernel that the features approximate; with `max_degree`, the truncated series."""
        degree = self.kernel.degree_
        if self.max_degree is None or (degree is not None and degree <= self.max_degree):
            return self.kernel
        coefficients = self.kernel.maclaurin(self.max_degree + 1).tolist()
        return DotProduct(coefficients, normalize=self.kernel.normalize)

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        csr, rows = scale_rows(X, normalize=self.kernel.normalize)
        out = np.zeros((csr.shape[0], self.n_components), np.float32)
        first = self._write_exact(rows, csr.shape[1], out) if self.h01 else 0
        products = self._once(lambda: self._products(self.n_components - first), first, self.radius_)
        if products is not None:
            products.write(rows, out, first)
        refuse_overflow(out, "divide all rows by a length, or use a kernel with normalize=True")
        return out

    def check_columns(self, n_columns: int) -> None:
        """Raise InputError if there are fewer features than the linear term of `n_columns` columns needs."""
        if self.h01 and self.n_components < n_columns + 2:
            raise InputError(
                f"h01=True takes 1 + {n_columns:,} features for the constant and the linear term and at "
                f"least one more, but n_components is {self.n_components:,}; raise it, fold the "
                "fingerprints, or use h01=False."
            )

    def _write_exact(self, rows: ScaledRows, width: int, out: npt.NDArray[np.float32]) -> int:
        """Write sqrt(a_0) and sqrt(a_1) x to the first columns; return the number of these columns."""
        self.check_columns(width)
        constant, slope = np.sqrt(self.kernel_.maclaurin(2)).astype(np.float32)
        out[:, 0] = constant
        row_of = np.repeat(np.arange(out.shape[0]), np.diff(rows.pointer))
        with np.errstate(over="ignore", invalid="ignore"):
            out[row_of, rows.columns.astype(np.int64) + 1] = slope * rows.scaled()
        return width + 1

    def _products(self, size: int) -> Products | None:
        """Return the random features, or None if no power is left for them."""
        coefficients, odds = self._measure(self.radius_)
        if not odds.any():
            return None
        seed = self.seed_
        degrees = draw_degrees(odds, size, int(seeds.words(seed, "maclaurin/degrees", 1)[0]))
        return Products(degrees, np.sqrt(coefficients[degrees] / odds[degrees] / size), seed, "maclaurin")

    def _measure(self, radius: float) -> tuple[Array, Array]:
        first = 2 if self.h01 else 0
        return degree_measure(
            self.kernel,
            self.degree_measure,
            p=float(self.p),
            radius=radius,
            degrees=(first, self.max_degree),
        )

    def _uses_radius(self) -> bool:
        # Parameters are not checked yet: the measure may be an array, and the kernel anything.
        proportional = isinstance(self.degree_measure, str) and self.degree_measure == "proportional"
        return proportional and not getattr(self.kernel, "normalize", True)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.degree_measure, str):
            if self.degree_measure not in MEASURES:
                raise InputError(
                    f"degree_measure must be {' or '.join(map(repr, MEASURES))}, or numbers q_0, q_1, ..., "
                    f"not {self.degree_measure!r}."
                )
        else:
            _check_odds(self.degree_measure)
        if not (is_number(self.p) and 1.0 < self.p <= 1e6):
            raise InputError(f"p must be a number above 1 and at most 1e6, not {self.p!r}.")
        if self.max_degree is not None:
            check_degree(self.max_degree)
            if not self.kernel.maclaurin(self.max_degree + 1).any():
                raise InputError(f"The kernel has no power up to max_degree = {self.max_degree}; raise it.")
        if not self._needs_radius():
            self._measure(self.radius_)


def _check_odds(odds: Any) -> None:
    good = isinstance(odds, (list, tuple, np.ndarray)) and len(odds) > 0
    if not good or not all(is_number(q) and q >= 0.0 for q in odds) or not any(odds):
        raise InputError(
            "degree_measure must be 'geometric', 'proportional', or finite numbers q_0, q_1, ... of at least "
            f"0, not all 0, not {odds!r}."
        )
