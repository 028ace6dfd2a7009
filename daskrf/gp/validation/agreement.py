"""Whether new labels agree with their predictions, error bars included."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TypedDict, cast

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.special import chdtr, chdtrc

from daskrf import seeds
from daskrf.errors import InputError

_INTERVAL = 1.959963984540054  # standard deviations: 95 % of a normal distribution
_MOST = 1000  # labels tested jointly
_DOUBT = 1e-3  # probability below which the labels contradict the error bars
_FACTOR = 1.2  # standard deviations wrong by less than this factor cause no warning

_NEVER, _NEVER_OUTSIDE = 30.0, 6.0  # standard deviations of an error: of any label, and of one far outside
_FAR = 0.5  # a label this far outside the range of all labels, relative to the range, is far outside

Double = npt.NDArray[np.float64]


class AgreementState(TypedDict):
    """What `Agreement.state` returns."""

    n: int
    within_95: float
    mean_z2: float
    mean_error: float
    n_tested: int
    factor: float
    p_value: float


@dataclass(frozen=True)
class Agreement:
    """How new labels compare with their predictions.

    Attributes
    ----------
    n : int
    within_95 : float
        Share of the labels within their 95 % intervals.
    mean_z2 : float
        Mean of ((y - mean) / std)^2; 1 is expected.
    mean_error : float
        Mean of y - mean.
    n_tested : int
        Number of labels in the test: all, or a random 1,000.
    factor : float
        Factor by which all standard deviations would have to be multiplied to agree with the tested labels.
    p_value : float
        Probability of joint errors at least as extreme, too large or too small, if the model is right.
    """

    n: int
    within_95: float
    mean_z2: float
    mean_error: float
    n_tested: int
    factor: float
    p_value: float

    @property
    def contradicts(self) -> bool:
        """Whether the labels contradict the error bars, by chance in fewer than 1 of 1,000 cases."""
        return self.p_value < _DOUBT and not 1 / _FACTOR < self.factor < _FACTOR

    def __str__(self) -> str:
        text = (
            f"{self.within_95:.0%} of the {self.n:,} new labels lie within the 95 % intervals predicted for "
            f"them; mean z^2 {self.mean_z2:.2f}, mean error {self.mean_error:+.3g}"
        )
        if not self.contradicts:
            return text
        how = "small" if self.factor > 1 else "large"
        return (
            f"{text}. They contradict the error bars: standard deviations were too {how}, and would agree if "
            f"they were {self.factor:.2f} times as large (joint test, p = {self.p_value:.1g})"
        )

    def state(self) -> AgreementState:
        """Return a JSON-able description."""
        return cast(AgreementState, asdict(self))


def agreement(
    y: npt.ArrayLike,
    mean: npt.ArrayLike,
    std: npt.ArrayLike,
    covariance: Callable[[npt.NDArray[np.int64]], Double],
    most: int = _MOST,
) -> Agreement:
    """Compare labels with predictions that were made without them.

    Similar molecules have similar errors. So a test that treats each z as independent would find
    contradictions where there are none. Under the model the errors e are jointly normal with the predictive
    covariance C, and e^T C^-1 e has a chi-squared distribution. It does not matter how the molecules were
    chosen, as long as their labels were not known.

    Parameters
    ----------
    y, mean, std : float arrays, shape (n,)
        Labels, and their predictive means and standard deviations, noise included.
    covariance : callable
        Returns the predictive covariance of some of them, noise included, given their positions.
    most : int
        Largest number to test jointly; of more labels, a random subset of this size is tested.

    Raises
    ------
    InputError
        If there is no label, or shapes differ.

    Notes
    -----
    Source: Bastos & O'Hagan 2009, Diagnostics for Gaussian process emulators (Technometrics 51), section 3.2.

    Examples
    --------
    >>> z = np.array([0.5, -1.0, 1.5, 0.2])
    >>> result = agreement(z, np.zeros(4), np.ones(4), lambda rows: np.eye(len(rows)))
    >>> result.within_95, round(result.mean_z2, 3), round(result.p_value, 2), result.contradicts
    (1.0, 0.885, 0.94, False)
    """
    values, means, deviations = (np.asarray(v, dtype=np.float64) for v in (y, mean, std))
    if not len(values) or not values.shape == means.shape == deviations.shape:
        raise InputError("give one prediction for each label, and at least one label.")
    errors = values - means
    z = errors / deviations
    rows = np.arange(len(z))
    if len(z) > most:
        order = np.argsort(seeds.words(0, "gp/agreement", len(z)), kind="stable")
        rows = np.sort(order[:most])
    joint, tested = covariance(rows), errors[rows]
    statistic = float(tested @ cho_solve(cho_factor(joint, lower=True), tested))
    tails = chdtr(len(rows), statistic), chdtrc(len(rows), statistic)
    return Agreement(
        len(z),
        float((np.abs(z) <= _INTERVAL).mean()),
        float((z**2).mean()),
        float(errors.mean()),
        len(rows),
        math.sqrt(statistic / len(rows)),
        float(min(1.0, 2 * min(tails))),
    )


def impossible(
    y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike, earlier: npt.ArrayLike
) -> npt.NDArray[np.bool_]:
    """Return which labels cannot be values of the quantity that a model predicts.

    These are labels that lie outside the range of all earlier ones by more than half of that range, with an
    error above 6 standard deviations of the model. They are also labels whose error exceeds both twice the
    standard deviation of the earlier labels and 30 standard deviations of the model. For these 30, the
    model's standard deviations are first scaled up to the typical error, unless most errors are that large.

    Parameters
    ----------
    y, mean, std : float arrays, shape (n,)
        Labels, and their predictive means and standard deviations, noise included.
    earlier : float array, shape (m,)
        Labels that the model was fitted to.

    Examples
    --------
    >>> earlier = np.linspace(1, 6, 20)
    >>> impossible([3.4, 354.0, 6.5], [3.5, 3.6, 4.0], [0.2, 0.2, 0.3], earlier).tolist()
    [False, True, False]
    """
    values, means, deviations, labels = (np.asarray(v, dtype=np.float64) for v in (y, mean, std, earlier))
    errors = np.abs(values - means)
    z = errors / deviations
    low, high, spread = labels.min(), labels.max(), labels.std()
    outside = np.maximum(low - values, values - high)
    outlying = (outside > _FAR * (high - low)) & (z > _NEVER_OUTSIDE)
    typical = max(1.0, float(np.median(z)) / 0.6745)
    wild = errors > 2 * spread
    scale = 1.0 if 2 * (wild & (z > _NEVER)).sum() > len(z) else typical
    return outlying | (wild & (z > _NEVER * scale))
