"""The share of the best k molecules that has labels, if others have the values of a posterior sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Ratio = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]


def labelled_share(
    measured: npt.NDArray[np.float64],
    others: npt.NDArray[np.float64],
    k: int,
    beyond: Callable[[float], float] = lambda value: 0.0,
    ratio: Ratio = np.ones_like,
) -> tuple[float, float, float]:
    """Return the measured share of the k largest, the share that is only counted, and the last of the k.

    `beyond` takes a value and returns the number of larger molecules that are only counted, not sampled.
    `ratio` takes values, and returns how many molecules an unmeasured one of each value counts as.

    Examples
    --------
    >>> labels, others = np.array([5.0, 1.0, 3.0]), np.array([4.0, 2.0])
    >>> labelled_share(labels, others, 3)
    (0.6666666666666666, 0.0, 3.0)
    >>> labelled_share(labels, others, 3, ratio=lambda values: 0 * values + 2)
    (0.3333333333333333, 0.0, 4.0)
    >>> labelled_share(labels, others, 3, beyond=lambda value: 900.0)
    (0.0, 1.0, 5.0)
    """
    values = np.concatenate([measured, others])
    order = np.argsort(-values, kind="stable")
    ranked = values[order]
    is_label = order < len(measured)
    n_labels, weights = np.cumsum(is_label), ratio(ranked)
    n_others = np.cumsum(~is_label)

    def total(i: int) -> float:
        return float(n_labels[i] + weights[i] * (n_others[i] + beyond(float(ranked[i]))))

    last = next((i for i in range(len(order)) if total(i) >= k), len(order) - 1)
    # The last of the k may lie above a label, among molecules that are only counted.
    n = int(n_labels[last]) - bool(is_label[last] and total(last) >= k + 1)
    of_all = min(total(last), float(k))
    more = float(weights[last]) * beyond(float(ranked[last]))
    return min(1.0, n / of_all), min(more, max(0.0, of_all - n)) / of_all, float(ranked[last])
