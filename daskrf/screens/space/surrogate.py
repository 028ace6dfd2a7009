"""What ranks all products of a space: the model itself, or a surrogate trained on its scores.

A model can rank all products only if its mean is a function of Fourier features of counts that are sums over
synthons. For any other model, a surrogate is fitted to the scores of random products, which the model
computes from their SMILES. The surrogate ranks all products roughly, and the model ranks the best of them.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import lsqr

from daskrf.blas import ONE_BLAS_THREAD
from daskrf.errors import InputError
from daskrf.features import from_state
from daskrf.features.featuremap import FeatureMap
from daskrf.features.fourier import FourierFeatures
from daskrf.gp import choose_length_scale
from daskrf.gp.choice.metricchoice import MetricChoice, choose_metric
from daskrf.gp.processes.priordraws import map_of
from daskrf.gp.processes.process import RandomFeatureGP
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import Target
from daskrf.jobs.job import Run
from daskrf.kernels import Gaussian, Kernel, Mean, MetricGaussian
from daskrf.models.models import Model, feature_map_of
from daskrf.molecules import FingerprintSpec
from daskrf.quantities import amount
from daskrf.spaces.sumranking import Linear
from daskrf.spaces.synthons import check_spec
from daskrf.storage.model import Contents, made_once

ROUGH_SPEC = FingerprintSpec("morgan:1")
"""Fingerprint of a Fourier surrogate; as good as radius 2 with as many features, and faster."""

LINEAR_SPEC = FingerprintSpec("morgan:2")
"""Fingerprint of a linear surrogate, which has to tell more environments apart."""

COMPONENTS = 1024
SAMPLE = 20_000
"""Random products that are scored: three quarters for training, the others for testing."""

_LEARNED = 0.75
_ROWS, _TRIALS = 4000, 8  # of the search for a length scale
_LEAST = 4.0  # scores are cut off this many times the spread of the better half below the median
_BEST = 0.01  # of the test products: the best, which should be found
_AMONG = 0.95
_FLAT = 1e-12
_RIDGES = (1.0, 3.0, 10.0)  # of a linear function
_ITERATIONS = 200


@dataclass(frozen=True)
class Ranking:
    """A function of counts that ranks all products: offset + features . weights, larger is better.

    Attributes
    ----------
    feature_map : FourierFeatures
    weights : float64 array, shape (M,), or (M, n_draws) of several draws
    offset : float
    deviation : float
        The scale of its values.
    """

    feature_map: FourierFeatures
    weights: npt.NDArray[np.float64]
    offset: float
    deviation: float

    @classmethod
    def of_model(
        cls, model: Model, target: Target, sign: float, seed: int | None, n_draws: int = 1
    ) -> Ranking:
        """Return the mean of a model that `ranks_itself`, or draws of it if there is a seed."""
        gp, place = process_of(model.gp, target)
        feature_map = feature_map_of(model)
        assert isinstance(gp, RandomFeatureGP)
        assert isinstance(feature_map, FourierFeatures)
        with ONE_BLAS_THREAD:  # the same on any number of processors
            if seed is None:
                weights = gp.weights_[:, place]
            elif n_draws == 1:
                weights = gp.weights_of_draw(seed, place)[:, 0]
            else:
                weights = gp.weights_of_draws(n_draws, seed, place)
        deviation = math.sqrt(float(gp.signal_variance_[place]))
        return cls(feature_map, sign * weights, sign * float(gp.mean_[place]), deviation)

    def values(self, counts: sparse.csr_matrix) -> npt.NDArray[np.float64]:
        """Return the value of each row of counts, shape (n,), or (n, n_draws) of several draws."""
        parts = [np.empty((0, *self.weights.shape[1:]))]
        for start in range(0, counts.shape[0], _ROWS):
            features = self.feature_map.transform(counts[start : start + _ROWS])
            parts.append(self.offset + features.astype(np.float64) @ self.weights)
        return np.concatenate(parts)


@dataclass(frozen=True)
class Rough:
    """A ranking that was learned, and how it agrees with the model.

    Attributes
    ----------
    ranking : Ranking or Linear
        A linear function if no number of features is given.
    words : str
    """

    ranking: Ranking | Linear
    words: str


def ranks_itself(model: Model, target: Target) -> FingerprintSpec | None:
    """Return the fingerprint of a model that can rank all products of a space, else None."""
    gp, _ = process_of(model.gp, target)
    if not isinstance(gp, RandomFeatureGP) or not isinstance(feature_map_of(model), FourierFeatures):
        return None
    spec = FingerprintSpec.from_state(model.metadata["fingerprint"])
    try:
        check_spec(spec)
    except InputError:
        return None
    return spec


def in_metric(model: Model, target: Target) -> bool:
    """Return whether the kernel of a model has a learned metric: its labels depend on few directions."""
    gp, _ = process_of(model.gp, target)
    kernel: Kernel | None = getattr(gp, "kernel", None) or getattr(feature_map_of(model), "kernel", None)
    kernels = kernel.kernels if isinstance(kernel, Mean) else (kernel,)
    return any(isinstance(each, MetricGaussian) for each in kernels)


def learned(
    run: Run,
    counts: sparse.csr_matrix,
    score: npt.NDArray[np.float64],
    n_components: int | None,
    key: str,
    spec: FingerprintSpec = ROUGH_SPEC,
    *,
    metric: bool = False,
    of: str = "all products",
) -> Rough:
    """Return a ranking trained on the scores of random products; one that an earlier run left is reused.

    Parameters
    ----------
    run : Run
    counts : csr_matrix, shape (n, n_columns)
        Of random products, in random order.
    score : float64 array, shape (n,)
    n_components : int or None
        Number of Fourier features; None for a linear function of the counts.
    key : str
        Hash of everything that determines the ranking.
    spec : FingerprintSpec
        Fingerprint of the counts, for the note.
    metric : bool
        Whether to learn a metric from the scores, as they are likely to depend on few directions.
    of : str
        What it ranks, for the note.
    """

    def make() -> Contents:
        made = _learn(counts, score, n_components, spec, metric=metric, of=of)
        ranking, state = made.ranking, dict[str, object](words=made.words)
        if isinstance(ranking, Linear):
            return {"weights": ranking.weights, "columns": ranking.columns}, state
        state |= {
            "map": ranking.feature_map.state(),
            "offset": ranking.offset,
            "deviation": ranking.deviation,
        }
        return {"weights": ranking.weights}, state

    checkpoint = made_once(run.work / f"ranking-{key[:16]}", key, make)
    meta, weights = checkpoint.metadata, checkpoint.arrays["weights"]
    if n_components is None:
        return Rough(Linear(checkpoint.arrays["columns"], weights), meta["words"])
    feature_map = from_state(meta["map"])
    assert isinstance(feature_map, FourierFeatures)
    return Rough(Ranking(feature_map, weights, meta["offset"], meta["deviation"]), meta["words"])


def _learn(
    counts: sparse.csr_matrix,
    score: npt.NDArray[np.float64],
    n_components: int | None,
    spec: FingerprintSpec = ROUGH_SPEC,
    *,
    metric: bool = False,
    of: str = "all products",
) -> Rough:
    if n_components is None:
        return _learn_linear(counts, score, of)
    n = max(1, int(_LEARNED * len(score))) if len(score) > 1 else len(score)
    y = _clipped(score)
    feature_map: FeatureMap = map_of(Gaussian(1.0), n_components, 0)
    if len(score) < 2 or np.ptp(y[:n]) <= _FLAT * max(1.0, float(np.abs(y).max())) or _all_equal(counts[:n]):
        fitted = feature_map.fit(counts)
        assert isinstance(fitted, FourierFeatures)
        flat = Ranking(fitted, np.zeros(n_components), float(y.mean()) if len(y) else 0.0, 1.0)
        return Rough(flat, "the scores of random products do not differ, so all products rank alike")
    with ONE_BLAS_THREAD, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its standard deviations are not used
        learned = choose_metric(counts[:n], y[:n], n_rows=_ROWS) if metric else MetricChoice(MetricGaussian())
        if learned.rounds:
            feature_map, kernel = map_of(learned.kernel, n_components, 0), learned.kernel.words()
        else:
            search = choose_length_scale(feature_map, counts[:n], y[:n], n_rows=_ROWS, n_trials=_TRIALS)
            feature_map, kernel = (
                search.feature_map,
                f"Gaussian kernel, length scale {search.length_scale:.3g}",
            )
        gp = RandomFeatureGP(feature_map).fit(counts[:n], y[:n])
        scale = math.sqrt(float(gp.signal_variance_[0]))
        assert isinstance(gp.feature_map_, FourierFeatures)
        ranking = Ranking(gp.feature_map_, gp.weights_[:, 0].copy(), float(gp.mean_[0]), scale)
        rough = ranking.values(counts[n:])
    what = (
        f"{of} are pre-ranked by a surrogate "
        f"({n_components:,} Fourier features of {spec.name} counts; {kernel}) trained on the model's scores "
        f"of {amount(n, 'random products')}"
    )
    return Rough(ranking, what + _agreement(rough, y[n:]))


def _learn_linear(counts: sparse.csr_matrix, score: npt.NDArray[np.float64], of: str) -> Rough:
    """Fit the linear function by ridge regression, with the ridge that predicts best."""
    n = max(1, int(_LEARNED * len(score)))
    y = _clipped(score)
    columns = np.unique(counts[:n].indices).astype(np.int64)
    place = np.searchsorted(columns, counts[:n].indices).astype(np.int64)
    shape = n, max(1, len(columns))
    X = sparse.csr_matrix((counts[:n].data.astype(np.float64), place, counts[:n].indptr), shape=shape)
    n_fitted, middle = max(1, 3 * n // 4), float(y[:n].mean())

    def fitted(rows: int, ridge: float) -> npt.NDArray[np.float64]:
        centred = y[:rows] - middle
        return lsqr(X[:rows], centred, damp=math.sqrt(ridge), iter_lim=_ITERATIONS)[0][: len(columns)]

    def error(ridge: float) -> float:
        predicted = X[n_fitted:, : len(columns)] @ fitted(n_fitted, ridge)
        return float(np.square(y[n_fitted:n] - middle - predicted).sum())

    with ONE_BLAS_THREAD:
        ranking = Linear(columns, fitted(n, min(_RIDGES, key=error)))
    what = (
        f"{of} are pre-ranked by a surrogate (a linear function of {LINEAR_SPEC.name} counts) "
        f"trained on the model's scores of {amount(n, 'random products')}"
    )
    return Rough(ranking, what + _agreement(ranking(counts[n:]), y[n:]))


def _clipped(score: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Cut off the long tail of bad scores that logarithms have, as no smooth function can follow it."""
    if not len(score):
        return score
    score = np.maximum(score, score[np.isfinite(score)].min(initial=0.0))
    middle, high = np.quantile(score, [0.5, 0.95])
    return np.maximum(score, middle - _LEAST * (high - middle)) if high > middle else score


def _all_equal(counts: sparse.csr_matrix) -> bool:
    return (counts != counts[np.zeros(counts.shape[0], np.int64)]).nnz == 0


def _agreement(rough: npt.NDArray[np.float64], score: npt.NDArray[np.float64]) -> str:
    """Return how well the surrogate agrees with scores, in words; nothing for few products.

    Examples
    --------
    >>> score = np.arange(1000.0)
    >>> _agreement(score, score)
    '; on 1,000 others it correlates 1.000 with them, and 95 % of the best 10 of these are among its best 10'
    """
    n_best = math.ceil(_BEST * len(score))
    if n_best < 2 or not np.ptp(score) or not np.ptp(rough):
        return ""
    best = np.argsort(-score, kind="stable")[:n_best]
    rank = np.empty(len(score), np.int64)
    rank[np.argsort(-rough, kind="stable")] = np.arange(1, len(score) + 1)
    last = int(np.sort(rank[best])[math.ceil(_AMONG * n_best) - 1])
    return (
        f"; on {len(score):,} others it correlates {np.corrcoef(rough, score)[0, 1]:.3f} with them, and "
        f"{_AMONG * 100:.0f} % of the best {n_best:,} of these are among its best {last:,}"
    )
