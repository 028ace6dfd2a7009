"""Probabilities of classes: the links of fitted processes, from labels predicted without their own values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import Matrix
from daskrf.estimators import clone
from daskrf.features.featuremap import FeatureMap
from daskrf.fitting.exactsolve import Equations, solve_exact
from daskrf.fitting.totals import of_labels
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.process import FeatureSpaceGP
from daskrf.gp.sums.folds import equal_rows
from daskrf.gp.validation.probability import ProbabilityLink, fit_link, without_own_label
from daskrf.jobs.job import Run
from daskrf.sources.sources import Source
from daskrf.storage.model import Contents, made_once
from daskrf.storage.stores.store import hash_of

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

NO_LINK = (
    "no probabilities, since these features are of a map on landmarks, which leave a part of the kernel out; "
    "read the means as scores, or take an exact process or another --map"
)

_MOST = 20_000  # labels that a link is fitted to: two numbers need no more
_PARTS = 5  # with conjugate gradients, one part of the labels is predicted from the others


def link_of_exact(run: Run, gp: ExactGP, folder: PurePath) -> ProbabilityLink:
    """Return the link of an exact process that was fitted to labels of 0 and 1.

    With a factorization, predictions without a label follow from those with it. With conjugate gradients, a
    fifth of the labels is predicted by a process with the same kernel and variances that is fitted to the
    others; unfinished work is kept in `folder`.
    """
    X, y = gp.X_train_, np.asarray(gp.y_train_, dtype=np.float64)
    groups = np.unique(equal_rows(X), return_inverse=True)[1]
    if gp.solver_ == "cholesky":
        mean, std = gp.predict(X, return_std=True, of="f")
        mean, std = without_own_label(y, mean, std, float(gp.noise_variance_[0]), groups)
        return fit_link(mean, std, y > 0.5)

    def make() -> Contents:
        words = seeds.words(gp.random_state, "fit/link", int(groups.max()) + 1)
        left = (words % np.uint64(_PARTS) == 0)[groups]
        rest: ExactGP = clone(gp).set_params(
            mean=float(gp.mean_[0]),
            signal_variance=float(gp.signal_variance_[0]),
            noise_variance=float(gp.noise_variance_[0]),
        )
        equations = Equations(X[~left], y[~left], folder / "without-a-part")
        (rest,) = solve_exact(run, rest, [equations])
        rows = np.flatnonzero(left)[:_MOST]
        mean, std = rest.predict(X[rows], return_std=True, of="f")
        return {}, {"link": fit_link(mean, std, y[rows] > 0.5).state()}

    key = hash_of([gp.kernel.state(), *map(float, gp.alpha_[:: max(1, len(y) // 100)]), len(y)])
    return ProbabilityLink.from_state(made_once(folder / "link", key, make).metadata["link"])


def link_of_features(process: FeatureSpaceGP, target: int, X: Matrix, y: Array) -> ProbabilityLink:
    """Return the link of a process on features, from some of the labels that it was fitted to.

    Parameters
    ----------
    process : FeatureSpaceGP
        Its features leave nothing out of the kernel.
    target : int
        Place of the target in the process.
    X : rows as the process takes them, shape (n, n_columns)
    y : float64 array, shape (n,)
    """
    groups = np.unique(equal_rows(X), return_inverse=True)[1]
    rank = np.argsort(np.argsort(seeds.words(0, "fit/link", int(groups.max()) + 1), kind="stable"))
    some = np.flatnonzero(rank[groups] < _MOST)
    mean, std = process.predict(X[some], return_std=True, of="f", target=target)
    noise_variance = float(process.noise_variance_[target])
    mean, std = without_own_label(y[some], mean, std, noise_variance, groups[some])
    return fit_link(mean, std, y[some] > 0.5)


def link_of_library(
    process: FeatureSpaceGP, target: int, source: Source, rows: Rows, y: Array
) -> ProbabilityLink:
    """Return the link of a process on the features of a library, from labels in a random part of it.

    Parameters
    ----------
    process, target : as for `link_of_features`; the process takes features
    source : Source
        The library.
    rows : int64 array, shape (n,)
        The row of each label, ascending.
    y : float64 array, shape (n,)
    """
    bounds = source.row_bounds
    sizes = np.diff(np.searchsorted(rows, bounds))
    order = np.argsort(seeds.words(0, "fit/link", len(sizes)), kind="stable")
    order = order[sizes[order] > 0]
    n_partitions = 1 + int(np.searchsorted(np.cumsum(sizes[order]), _MOST))
    means: list[npt.NDArray[np.float64]] = []
    stds: list[npt.NDArray[np.float64]] = []
    numbers: list[npt.NDArray[np.int64]] = []
    for p in np.sort(order[:n_partitions]).tolist():
        low, high = np.searchsorted(rows, bounds[p : p + 2]).tolist()
        labelled = rows[low : min(high, low + _MOST)]
        for whole in source.blocks(p, np.unique(labelled)):
            for block in of_labels(replace(whole, fingerprints=None), labelled, low):
                mean, std = process.predict(
                    block.phi, return_std=True, of="f", target=target, diagonal=block.diagonal
                )
                means.append(mean)
                stds.append(std)
                numbers.append(block.rows)
    mean, std, number = np.concatenate(means), np.concatenate(stds), np.concatenate(numbers)
    noise_variance = float(process.noise_variance_[target])
    mean, std = without_own_label(y[number], mean, std, noise_variance, rows[number])
    return fit_link(mean, std, y[number] > 0.5)


def links_from(feature_map: FeatureMap) -> bool:
    """Return whether the features of a map leave nothing out of their kernel, as a link of theirs needs."""
    return feature_map.projected_kernel is None
