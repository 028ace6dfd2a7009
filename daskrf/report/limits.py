"""Labels that are limits, beside predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daskrf.gp.likelihoods.censored import Censored
from daskrf.quantities import amount
from daskrf.report.evaluation import MEAN, MODEL

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """Limits among labels.

    Attributes
    ----------
    bound : float64 array, shape (n,)
        The limits; other values count for nothing.
    side : int8 array, shape (n,)
        1 for lower and -1 for upper limits, 0 for labels that are none.
    """

    bound: Array
    side: npt.NDArray[np.int8]

    def words(self) -> list[str | None]:
        """Return each limit in words, None for other labels.

        Examples
        --------
        >>> Limits(np.array([5.0, 2.0]), np.array([-1, 0], np.int8)).words()
        ['< 5', None]
        """
        pairs = zip(self.bound.tolist(), self.side.tolist(), strict=True)
        return [f"{'>' if side > 0 else '<'} {bound:.6g}" if side else None for bound, side in pairs]

    def judged(self, predictions: Mapping[str, Array]) -> str:
        """Return how probable their sides are by the model, and by the mean of known labels.

        Parameters
        ----------
        predictions : dict of str to float64 array, shape (2, n)
            Means and standard deviations of measurements; NaN where there are none.
        """
        mean = predictions[MODEL][0]
        rows = np.flatnonzero((self.side != 0) & np.isfinite(mean))
        labels = Censored(self.bound, self.side).take(rows)
        values = [
            labels.log_probability(each[0, rows], each[1, rows])
            for each in (predictions[MODEL], predictions[MEAN])
        ]
        ours, plain = (float(each.mean()) if len(each) else float("nan") for each in values)
        right = float((self.side[rows] * (mean[rows] - self.bound[rows]) > 0).mean()) if len(rows) else 0.0
        return (
            f"{amount(len(rows), 'limits')} besides, which the figures above leave out: the log probability "
            f"of a side is {ours:.3f} on average ({plain:.3f} by the mean of the labels), and {right:.0%} of "
            "the predicted means lie on it"
        )
