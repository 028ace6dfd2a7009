"""Learning a metric from labels: directions in which they change count more.

A Gaussian process is fitted with usual distances. With g the gradient of its mean, the mean of g g^T over the
labelled rows is the next metric, and so on. Radhakrishnan, Beaglehole, Pandit & Belkin 2024 (Science 383)
call this a recursive feature machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from daskrf import seeds
from daskrf.arrays import Matrix, as_csr, check_finite
from daskrf.blas import blas_threads_for
from daskrf.errors import InputError
from daskrf.features import FeatureMap, from_state
from daskrf.gp.processes.trials import ChoiceByLabelsLeftOut, first_of_the_best, labels_by_target
from daskrf.gp.solve.solvers import TridiagonalForm
from daskrf.kernels.kernel import AUTO, KernelState
from daskrf.kernels.kernel import from_state as kernel_from_state
from daskrf.kernels.metric import Metric, MetricGaussian, known_columns

Double = npt.NDArray[np.float64]

_MOST = 4000  # rows at most: an exact process of these takes seconds
_LEFT_OUT = 800  # rows left out at most, and at most a fifth
_ROUNDS = 2  # more rounds gain little
_FEWEST = 50  # the least number of labels that can tell directions apart
_COLUMNS = 2048  # the columns that differ most
_DIRECTIONS = 64  # at most
_ENOUGH = 0.999  # share of the mean squared gradient along the directions that are kept
_REST = 0.01  # share of the unit matrix in the metric, for columns that no labelled row has
_SOME = 1000  # rows whose evidence is used to find a length scale
_LENGTHS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)  # times the root mean square distance of two rows
_RATIOS = np.logspace(-5, 0, 11)  # of noise to signal variance
_ROUNDING = 1e-20  # of the square of a mean: a variance below this is that of equal numbers


class MetricTrial(NamedTuple):
    """How well labels that were left out are predicted after some rounds of learning."""

    rounds: int
    log_probability: float
    r2: float

    @property
    def name(self) -> str:
        """The rounds in words."""
        return f"learned in {_rounds(self.rounds)}" if self.rounds else "usual distances"


class MetricChoiceState(TypedDict):
    """What `MetricChoice.state` returns."""

    kernel: KernelState
    rounds: int
    trials: list[MetricTrial]
    n_rows: int
    n_left_out: int
    noise: Sequence[float]


@dataclass(frozen=True)
class MetricChoice(ChoiceByLabelsLeftOut):
    """The metric that was learned, and the trials.

    Attributes
    ----------
    kernel : MetricGaussian
        The kernel, with its metric and length scale.
    rounds : int
        Number of rounds in which the metric was learned; 0 if usual distances predict as well.
    trials : tuple of MetricTrial
        Empty if there were too few labels, or if all labels or all rows are equal.
    n_rows, n_left_out : int
        Labels that were used, and how many of them were left out in trials.
    noise : tuple of float
        Noise variance of each target over the variance of its labels, estimated from labels left out, since
        labels that a metric was learned from look less noisy than they are. Empty if no metric was learned.
    """

    _candidate: ClassVar[str] = "metric"

    kernel: MetricGaussian
    rounds: int = 0
    trials: tuple[MetricTrial, ...] = ()
    n_rows: int = 0
    n_left_out: int = 0
    noise: tuple[float, ...] = ()

    def _too_few(self) -> str:
        return f"the labels are too few or too alike to learn a metric: took the {self.kernel.words()}"

    def _is_taken(self, trial: MetricTrial) -> bool:
        return trial.rounds == self.rounds

    def _notes(self) -> list[str]:
        notes = [*super()._notes(), f"took the {self.kernel.words()}"]
        if self.noise:
            shares = ", ".join(f"{100.0 * share:.2g} %" for share in self.noise)
            notes.append(f"noise by the labels left out: {shares} of the variance of the labels")
        return notes

    def noise_variances(self, labels: Iterable[Double]) -> list[float] | None:
        """Return the noise variance of each target, from its labels; None if the evidence has to find it."""
        if not self.noise:
            return None
        return [share * float(np.var(y)) for share, y in zip(self.noise, labels, strict=True)]

    def state(self) -> MetricChoiceState:
        """Return a JSON-able description."""
        return {
            "kernel": self.kernel.state(),
            "rounds": self.rounds,
            "trials": list(self.trials),
            "n_rows": self.n_rows,
            "n_left_out": self.n_left_out,
            "noise": self.noise,
        }

    @classmethod
    def from_state(cls, state: MetricChoiceState) -> MetricChoice:
        """Rebuild a choice from its `state`."""
        kernel = kernel_from_state(state["kernel"])
        assert isinstance(kernel, MetricGaussian)
        trials = tuple(MetricTrial(*trial) for trial in state["trials"])
        counts = state["n_rows"], state["n_left_out"]
        return cls(kernel, state["rounds"], trials, *counts, tuple(state["noise"]))


def learns_metric(value: object) -> bool:
    """Return whether labels have to determine the metric of a map or of a kernel.

    Examples
    --------
    >>> from daskrf import RandomFourierFeatures
    >>> learns_metric(RandomFourierFeatures(MetricGaussian("auto", "auto"))), learns_metric(MetricGaussian())
    (True, False)
    """
    kernel = getattr(value, "kernel", value)
    return isinstance(kernel, MetricGaussian) and kernel.metric == AUTO


def with_kernel(feature_map: FeatureMap, kernel: MetricGaussian) -> FeatureMap:
    """Return an unfitted copy of a map with another kernel."""
    state = feature_map.state()
    parameters = {**state["parameters"], "kernel": kernel.state()}
    return from_state({**state, "parameters": parameters, "fitted": {}})


def choose_metric(
    X: Matrix,
    y: npt.ArrayLike,
    *,
    n_rows: int = _MOST,
    random_state: int = 0,
    on_trial: Callable[[str], None] | None = None,
) -> MetricChoice:
    """Learn the metric and the length scale of a Gaussian kernel from labels.

    A fifth of the labels are left out, and predicted by an exact process of the others: with usual distances,
    and with metrics learned in one and in two rounds. More rounds are taken if they are clearly better, as in
    `choose_kernel`; then the metric is learned from all labels. It has at most 64 directions in the 2,048
    columns that differ most; besides, all columns count a little. The noise variance is the one with which
    the labels left out are predicted best.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array, shape (n,) or (n, n_targets)
        NaN where a row has no value of a target. One metric serves all targets.
    n_rows : int
        At most this many rows are used, chosen at random.
    random_state : int
        Seed of the choice of rows.
    on_trial : callable, optional
        Called with words before each trial.

    Raises
    ------
    InputError
        If rows and labels do not match, or a value is not finite.

    Examples
    --------
    >>> X = np.random.default_rng(0).poisson(2.0, (300, 12))
    >>> choice = choose_metric(X, np.sin(X[:, 0] - X[:, 1]))
    >>> choice.rounds > 0, choice.kernel.learned.columns.size
    (True, 12)
    """
    rows = check_finite(as_csr(X))
    targets = labels_by_target(y, rows.shape[0])
    if np.isinf(targets).any():
        raise InputError("y has values that are infinite: leave these rows out.")
    report = on_trial or (lambda words: None)
    told_of = [t for t, each in enumerate(targets.T) if _tells(each)]
    standard = _standardized(targets[:, told_of])
    labelled = np.flatnonzero(np.isfinite(standard if told_of else targets).any(axis=1))
    words = seeds.words(random_state, "gp/metric", len(labelled))
    order = labelled[np.argsort(words, kind="stable")[:n_rows]]
    learner = _Learner.of(rows[order], standard[order])
    if not told_of or learner is None:
        return MetricChoice(MetricGaussian(_usual(learner)), n_rows=len(order))
    with blas_threads_for(len(order)):
        choice, variances = learner.choice(report)
    if not choice.rounds:
        return choice
    noise = np.full(targets.shape[1], np.nanmean(variances))
    noise[told_of] = np.where(np.isfinite(variances), variances, np.nanmean(variances))
    return replace(choice, noise=tuple(float(f"{share:.3g}") for share in noise))


def metric_bytes(n_rows: int) -> int:
    """Return the most bytes that `choose_metric` takes by default for some number of rows.

    Examples
    --------
    >>> metric_bytes(1000) < metric_bytes(4000) == metric_bytes(10**6)
    True
    """
    n, c = min(n_rows, _MOST), _COLUMNS
    distances, rows, squares = 8 * n * n, 8 * n * c, 8 * c * c
    return max(4 * distances + rows, 3 * distances + 4 * rows + 3 * squares)


class _Fitted(NamedTuple):
    """A metric rest I + B B^T, a length scale, and an exact process with both."""

    rest: float
    B: Double
    length_scale: float
    alpha: list[Double]

    def values(self, X: Double, Y: Double) -> Double:
        """Return the kernel matrix."""
        squares = _squares(X @ self.B, Y @ self.B)
        squares += self.rest * _squares(X, Y)
        squares /= -2.0 * self.length_scale**2
        return np.exp(squares, out=squares)


@dataclass(frozen=True)
class _Learner:
    """Rows, restricted to the columns that differ, and their labels; in random order."""

    columns: npt.NDArray[np.int64]
    X: Double
    y: Double
    size: float

    @classmethod
    def of(cls, rows: sp.csr_matrix, y: Double) -> _Learner | None:
        """Return the learner, or None if all rows are equal."""
        names, place = np.unique(rows.indices, return_inverse=True)
        n, values = max(1, rows.shape[0]), rows.data.astype(np.float64)
        mean = np.bincount(place, values, len(names)) / n
        zeros = n - np.bincount(place, minlength=len(names))
        variance = (np.bincount(place, np.square(values - mean[place]), len(names)) + zeros * mean**2) / n
        best = np.argsort(-variance, kind="stable")[:_COLUMNS]
        columns = np.sort(names[best[variance[best] > _ROUNDING * mean[best] ** 2]]).astype(np.int64)
        if not len(columns):
            return None
        X = known_columns(rows, columns).toarray()
        X -= X.mean(axis=0)  # so that distances keep their digits if values are far from 0
        return cls(columns, X, y, math.sqrt(2.0 * float(X.var(axis=0).sum())))

    def without(self, n_out: int) -> _Learner:
        """Return the learner without the first `n_out` rows."""
        return replace(self, X=self.X[n_out:], y=self.y[n_out:])

    def kernel(self, fitted: _Fitted) -> MetricGaussian:
        """Return the kernel with the learned metric and length scale."""
        length = float(f"{fitted.length_scale:.3g}")
        if not fitted.B.size:
            return MetricGaussian(length)
        return MetricGaussian(length, Metric(fitted.rest, self.columns, fitted.B.astype(np.float32)).text)

    def choice(self, report: Callable[[str], None]) -> tuple[MetricChoice, Double]:
        """Return the choice, and the noise variance of each target if a metric was learned."""
        n, n_out = len(self.X), min(_LEFT_OUT, len(self.X) // 5)
        tried = list(self.without(n_out).rounds(_ROUNDS, report))
        trials, scores = [], []
        for rounds, fitted in enumerate(tried):
            score, r2 = self.score(fitted, n_out)
            trials.append(MetricTrial(rounds, float(score.mean()), r2))
            scores.append(score)
        taken = first_of_the_best(scores)
        *_, last = self.rounds(taken, report)
        variances = self.noise(tried[taken], n_out) if taken else np.empty(0)
        return MetricChoice(self.kernel(last), taken, tuple(trials), n, n_out), variances

    def rounds(self, n: int, report: Callable[[str], None]) -> Iterator[_Fitted]:
        """Yield the process with usual distances, and after each of `n` rounds."""
        rest, B = 1.0, np.empty((self.X.shape[1], 0))
        usual = _squares(self.X, self.X)
        for i in range(n + 1):
            report(f"a metric learned in {_rounds(i)}" if i else "usual distances")
            Z = self.X @ B
            K = _squares(Z, Z)
            K += rest * usual
            length, ratio = self._evidence(K)
            K /= -2.0 * length**2
            np.exp(K, out=K)
            alphas = []
            for t, rows in self._targets():
                A = K[np.ix_(rows, rows)].T  # in the order that LAPACK can overwrite
                A[np.diag_indices(len(A))] += ratio
                alpha = np.zeros(len(K))
                if len(rows):
                    alpha[rows] = scipy.linalg.solve(A, self.y[rows, t], assume_a="pos", overwrite_a=True)
                alphas.append(alpha)
            yield _Fitted(rest, B, length, alphas)
            if i < n:
                rest, B = self._next(rest, B, K, alphas)

    def _next(self, rest: float, B: Double, K: Double, alphas: list[Double]) -> tuple[float, Double]:
        """Return the metric from the gradients of the means at the rows."""
        c, gradients = self.X.shape[1], []
        for alpha in alphas:
            # grad m(x) = A sum_i alpha_i k(x, x_i) (x_i - x) / l^2
            weights = K * alpha
            G = weights @ self.X
            G -= weights.sum(axis=1)[:, None] * self.X
            turned = (G @ B) @ B.T
            G *= rest
            G += turned
            gradients.append(G / math.sqrt(max(float(np.vdot(G, G)), 1e-300)))
        values, vectors = _main_directions(np.concatenate(gradients))
        enough = np.cumsum(values[::-1]) - values[::-1] < _ENOUGH
        values, vectors = values[::-1][enough], vectors[:, ::-1][:, enough]
        B = vectors * np.sqrt((1.0 - _REST) * values)
        rest = _REST / c
        # On average, distances are as large as usual ones, so that length scales are comparable.
        scale = self.size**2 / 2.0 / (rest * self.size**2 / 2.0 + float((self.X @ B).var(axis=0).sum()))
        return rest * scale, B * math.sqrt(scale)

    def _evidence(self, squares: Double) -> tuple[float, float]:
        """Return the length scale and noise to signal ratio with the largest evidence of some rows."""
        best, chosen = -math.inf, (self.size, 0.1)
        for times in _LENGTHS:
            total = np.zeros(len(_RATIOS))
            for t, rows in self._targets():
                if not len(some := rows[:_SOME]):
                    continue
                K = np.exp(squares[np.ix_(some, some)] / (-2.0 * (times * self.size) ** 2))
                with blas_threads_for(len(some)):
                    form = TridiagonalForm(K, self.y[None, some, t])
                (y,) = form.rotated
                squares_of_y = np.array([y @ form.solve(ratio, y) for ratio in _RATIOS])
                signal = np.maximum(squares_of_y / len(some), 1e-300)
                determinants = np.log(form.values + _RATIOS[:, None]).sum(axis=1)
                total -= 0.5 * (len(some) * np.log(signal) + determinants)
            i = int(total.argmax())
            if total[i] > best:
                best, chosen = float(total[i]), (times * self.size, float(_RATIOS[i]))
        return chosen

    def score(self, fitted: _Fitted, n_out: int) -> tuple[Double, float]:
        """Return the log probability of each of the first labels, assuming errors of one size, and R2."""
        K, parts, errors, total = fitted.values(self.X[:n_out], self.X[n_out:]), [], 0.0, 0.0
        for t, alpha in enumerate(fitted.alpha):
            labelled = np.isfinite(self.y[:n_out, t])
            if not labelled.any():
                continue
            y = self.y[:n_out, t][labelled]
            squared = np.square(y - (K @ alpha)[labelled])
            size = max(float(squared.mean()), 1e-300)
            parts.append(-0.5 * (math.log(2.0 * math.pi * size) + squared / size))
            errors, total = errors + float(squared.sum()), total + float(np.square(y - y.mean()).sum())
        return np.concatenate(parts), 1.0 - errors / max(total, 1e-300)

    def noise(self, fitted: _Fitted, n_out: int) -> Double:
        """Return the noise variance of each target that predicts the first labels best, or NaN."""
        rest, variances = self.without(n_out), np.full(self.y.shape[1], np.nan)
        K, across = fitted.values(rest.X, rest.X), fitted.values(rest.X, self.X[:n_out])
        for t, rows in rest._targets():
            out, best = np.flatnonzero(np.isfinite(self.y[:n_out, t])), -math.inf
            if not (len(out) and len(rows)):
                continue
            y = self.y[out, t]
            for ratio in _RATIOS[::-1]:
                A = K[np.ix_(rows, rows)].T
                A[np.diag_indices(len(A))] += ratio
                L = scipy.linalg.cholesky(A, lower=True, overwrite_a=True)
                w = scipy.linalg.solve_triangular(L, rest.y[rows, t], lower=True)
                V = scipy.linalg.solve_triangular(L, across[np.ix_(rows, out)], lower=True)
                # The signal variance with the largest evidence, and the resulting variance of a new label.
                signal = float(np.square(w).mean())
                variance = signal * np.maximum(1.0 + ratio - np.square(V).sum(axis=0), ratio)
                score = -0.5 * float((np.log(variance) + np.square(y - w @ V) / variance).mean())
                if not score > best:
                    break
                best, variances[t] = score, ratio * signal
        return variances

    def _targets(self) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
        """Yield each target and the rows that have a value for it."""
        for t in range(self.y.shape[1]):
            yield t, np.flatnonzero(np.isfinite(self.y[:, t]))


def _main_directions(G: Double) -> tuple[Double, Double]:
    """Return the largest eigenvalues of G^T G over its trace, ascending, and their eigenvectors."""
    few = len(G) < G.shape[1]  # then G G^T is smaller, and has the same eigenvalues above 0
    E = G @ G.T if few else G.T @ G
    n = len(E)
    E /= max(float(np.trace(E)), 1e-300)
    values, vectors = scipy.linalg.eigh(E, overwrite_a=True, subset_by_index=(max(0, n - _DIRECTIONS), n - 1))
    if few:
        vectors = G.T @ vectors
        vectors /= np.maximum(np.sqrt(np.square(vectors).sum(axis=0)), 1e-300)
    return np.maximum(values, 0.0), vectors


def _rounds(n: int) -> str:
    return f"{n} round{'s' * (n > 1)}"


def _usual(learner: _Learner | None) -> float:
    return 1.0 if learner is None else float(f"{learner.size:.3g}")


def _tells(y: Double) -> bool:
    """Return whether a target has enough labels, and they are not all equal."""
    return bool(np.isfinite(y).sum() >= _FEWEST and np.nanmin(y) < np.nanmax(y))


def _standardized(y: Double) -> Double:
    """Return labels with mean 0 and standard deviation 1."""
    return (y - np.nanmean(y, axis=0)) / np.nanstd(y, axis=0)


def _squares(X: Double, Y: Double) -> Double:
    """Return squared distances."""
    if not X.shape[1]:
        return np.zeros((len(X), len(Y)))
    squares = -2.0 * (X @ Y.T)
    squares += np.square(X).sum(axis=1)[:, None]
    squares += np.square(Y).sum(axis=1)
    return np.maximum(squares, 0.0, out=squares)
