"""Choosing the kernel of an exact process by how well each one predicts labels that were left out.

The evidence of a few rows is a poor guide: for docking scores it prefers Gaussian kernels by far, while with
ten times the labels Tanimoto kernels predict better. So each kernel is judged with as many labels as is
practical. Up to 4,000 labels are left out one at a time; of more labels, a part is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.linalg import blas, lapack
from scipy.optimize import minimize

from daskrf import seeds
from daskrf.arrays import Matrix, as_csr, column_slice
from daskrf.blas import blas_threads_for
from daskrf.errors import InputError
from daskrf.gp.choice.choicetime import Meter, Work
from daskrf.gp.choice.metricchoice import choose_metric
from daskrf.gp.processes.kerneltrials import KernelChoice, Trial
from daskrf.gp.processes.trials import clearly_better, first_of_the_best
from daskrf.gp.solve.conjugategradients import solve
from daskrf.gp.solve.kernelmatrix import KernelMatrix
from daskrf.gp.solve.landmarkpreconditioner import LandmarkPreconditioner
from daskrf.gp.sums.chunks import check_rows
from daskrf.kernels.kernel import AUTO, Kernel
from daskrf.kernels.metric import MetricGaussian
from daskrf.kernels.radial import Gaussian
from daskrf.kernels.tanimoto import TanimotoMinMax
from daskrf.kernels.weightedmean import Mean
from daskrf.quantities import DESCRIPTORS, POSITIONS, SUBSTITUENTS

Double = npt.NDArray[np.float64]
Range = tuple[int, int]

_ALL = "all kinds"
_OF_BLOCKS = SUBSTITUENTS, POSITIONS  # kinds that tell products of a space apart

FEWEST_LABELS = 20
"""The least number of labels that can tell kernels apart."""

_ORDER = "gp/kernelchoice"  # the name of the random order of rows
_ONE_BY_ONE = 4000  # up to here labels are left out one at a time: a trial takes seconds
_MOST = 12_000  # rows of a trial for more labels: it takes some ten seconds
_LEFT_OUT = 2000  # labels then left out in all, at most a fifth of the rows at a time
_RATIO = 0.1  # noise to signal variance at which the first search starts
_RATIO_STEP, _RATIOS = math.log(2.0), (1e-3, 1e3)
_LENGTH = 1.4  # the search starts at this times the root mean square distance of two molecules
_LENGTH_STEP, _LENGTH_STEPS = math.log(1.4), 3
_TURNS = 2  # of alternating searches for length scale and noise in a metric
_FAR = 12  # most steps for a given kernel, whose best length scale may be anywhere
_PAIRS = 2000
_LIMITS = math.log(1e-6), math.log(1e9)
_SOME = 200  # rows whose kernel values give the usual length scale
_USUAL = math.exp(-0.5 / _LENGTH**2)  # mean kernel value there: that of a Gaussian kernel in the first search
_WEIGHED, _FEWEST_WEIGHED = 1000, 50  # most and fewest rows whose evidence is used to find weights
_LEAST = 0.01  # share of the differences below which a term is not worth its time
_FEWEST_LEARN = 200  # fewest labels that a metric learns from: half of those that are left out one by one
_METRIC_RATIOS = 1e-4, 1e3  # for factorizations: with a metric, labels may show very little noise
_STEPS, _FLAT, _SCALES = 30, 1e-6, (-9.0, 5.0)  # of the search for weights; its unit is a nat per label
_SHARES_OF_LENGTH = 0.25, 0.5, 1.0  # length scales of descriptors that are weighed, in usual ones
_HEAVIEST = 8.0  # largest weight of descriptors relative to all other kinds
_SCALES_WORK = Work(8, 30)  # for the search for a length scale
_TOLERANCE, _MOST_PRODUCTS = 3e-3, 60


class _Score(NamedTuple):
    """For labels left out: the log probability of each, the errors of predictions, and two variances.

    The signal and noise variances are NaN if all errors are assumed to have the same size.
    """

    log_probability: Double
    errors: Double
    variances: tuple[float, float] = (math.nan, math.nan)

    @property
    def mean(self) -> float:
        """The mean log probability; minus infinity if a value is not finite."""
        value = float(self.log_probability.mean())
        return value if math.isfinite(value) else -math.inf


Scorer = Callable[[Kernel], Callable[[float], _Score]]
"""Prepares a kernel; the returned function takes the logarithm of the ratio of noise to signal variance."""


def choose_kernel(
    X: Matrix,
    y: npt.ArrayLike,
    columns: Mapping[str, Range] | None = None,
    *,
    kernel: Kernel | None = None,
    random_state: int = 0,
    cache_bytes: int = 2 * 2**30,
    on_progress: Callable[[str, float], None] | None = None,
) -> KernelChoice:
    """Return the kernel that best predicts labels that it has not seen.

    The candidates are, in this order:

    - the Tanimoto (min-max) kernel, on all columns and on those of each kind of fingerprint;
    - a Gaussian kernel with its best length scale, on all columns and on those of the kind for which the
      Tanimoto kernel is best;
    - the mean of the best Tanimoto and the best Gaussian kernel;
    - a weighted mean of the Tanimoto kernels of all kinds and the best Gaussian kernel;
    - if there are "substituents" or "positions" beside other kinds, which the kernels above do not see, and
      if the evidence gives them a weight: a weighted mean of the Tanimoto kernels of all other kinds
      together, of substituents and of positions, which then counts as the first candidate; and the weighted
      mean above with these among its terms;
    - if there are "descriptors", whose columns the kernels above do not see: the best of these plus a
      Gaussian kernel of the descriptors, with its best length scale and weight; and a weighted mean as above
      with three Gaussian kernels of the descriptors, from fine to coarse, among its terms.

    A candidate replaces an earlier one if its mean log probability is better by more than 0.01 and by more
    than a standard error. The weighted mean with descriptors, whose weights the evidence prefers to each
    kernel alone, is taken if it is not worse. With 400 labels or more, a Gaussian kernel in a learned metric
    follows. The metric is learned from half of the labels (at most 2,000). It is a candidate only if it
    predicts left-out labels of this half better than usual distances do (`choose_metric`). It is taken if it
    is clearly better for the other labels, from which its variances are then estimated. If a kernel with the
    length scale "auto" is given, only its length scales are tried, and the best is taken.

    Parameters
    ----------
    X : CSR or dense array, shape (n, n_columns)
        Fingerprints of labelled molecules.
    y : array, shape (n,)
    columns : dict of str to (int, int), optional
        First column of each kind of fingerprint and one past its last, as in
        `daskrf.FingerprintSpec.columns`; default: one kind.
    kernel : Kernel, optional
        Such as ``Gaussian("auto")``.
    random_state : int
        Seed of the choice of rows, if there are more than 4,000.
    cache_bytes : int
        Memory for tiles of a kernel matrix.
    on_progress : callable, optional
        Called with the kernel that is being tried, in words, and with the expected seconds for the rest of
        the choice, estimated from the cost of the kernels so far.

    Returns
    -------
    KernelChoice

    Raises
    ------
    InputError
        If shapes do not match or a value is not finite.

    Notes
    -----
    Up to 4,000 labels, each one is left out in turn (Rasmussen & Williams 2006, eqs. 5.10 - 5.12). Of more
    labels 2,000 are left out, at most a fifth of the rows at a time; their log probability assumes errors of
    one size. At most 12,000 rows are used. Each kernel has its best ratio of noise to signal variance.
    Weights maximize the evidence of 1,000 rows, found by its gradient (eq. 5.9). A term that contributes less
    than a hundredth of the differences between molecules is left out.

    Examples
    --------
    >>> X = np.random.default_rng(0).poisson(1.0, (60, 8))
    >>> choice = choose_kernel(X, X @ np.arange(8.0))
    >>> choice.kernel
    Gaussian(length_scale=15.0)
    """
    if kernel is not None and kernel.parameters().get("metric") == AUTO:
        raise InputError(
            "An exact process compares a metric with other kernels: leave the kernel out. To use a metric in "
            "any case, take Fourier features (--map fourier --kernel metric), or give a learned metric."
        )
    X, y = check_rows(X, TanimotoMinMax()), np.asarray(y, dtype=np.float64)
    if y.shape != (X.shape[0],):
        raise InputError(
            f"X has {X.shape[0]} rows, but y has the shape {y.shape}; give one label for each row."
        )
    if not np.isfinite(y).all():
        raise InputError("y has values that are not finite: leave these rows out.")
    if len(y) < FEWEST_LABELS or y.min() == y.max():
        tanimoto = _on(TanimotoMinMax(), next(_parts(columns or {}))[1])
        return KernelChoice(tanimoto if kernel is None else usual_kernel(kernel, X), asked=kernel)
    order = np.argsort(seeds.words(random_state, _ORDER, len(y)), kind="stable")
    if len(y) <= _ONE_BY_ONE:
        out = np.arange(len(y))
        scorer: Scorer = _OneByOne(X, y)
    else:
        order = order[:_MOST]
        out = order[:_LEFT_OUT]
        folds = np.array_split(out, -(-len(out) // (len(order) // 5)))
        scorer = _Folds(X, y, np.sort(order), folds, cache_bytes, random_state)
    some = X[np.sort(order[: 2 * _PAIRS])]
    few = np.sort(order[:_WEIGHED])
    ahead = (
        _ahead(columns or {}, len(order), by_folds=len(y) > _ONE_BY_ONE) if kernel is None else [_SCALES_WORK]
    )
    rows = 0 if len(y) > _ONE_BY_ONE else len(y)  # that are factorized
    meter = Meter(scorer, on_progress or (lambda words, seconds: None), ahead, rows)
    search = _Search(meter, some, _Evidence(X[few], y[few]))
    if kernel is None:
        search.run(columns or {})
        choice = search.choice(y[out], len(order))
        span = (columns or {}).get(POSITIONS)
        if span is not None and not column_slice(as_csr(X), *span).nnz:
            choice = replace(choice, without_blocks=True)
        return search.with_metric(choice, X, y, order, next(_parts(columns or {})))
    search.run_scales(kernel)
    return replace(search.choice(y[out], len(order), best=True), asked=kernel)


def rows_of_metric(choice: KernelChoice, n_rows: int, random_state: int) -> npt.NDArray[np.int64]:
    """Return the rows that the metric of the chosen kernel was learned from; none without a metric.

    Parameters
    ----------
    choice : KernelChoice
        From `choose_kernel` with this `random_state`.
    n_rows : int
        Number of all rows; more may have followed those of the choice.

    Examples
    --------
    >>> from daskrf.kernels import Gaussian
    >>> rows_of_metric(KernelChoice(Gaussian(2.0), n_rows=500), 500, 0).tolist()
    []
    """
    if not choice.variances:
        return np.empty(0, np.int64)
    n = choice.n_rows if choice.n_rows < _MOST else n_rows
    order = np.argsort(seeds.words(random_state, _ORDER, n), kind="stable")[:_MOST]
    return np.array_split(order[:_ONE_BY_ONE], 2)[1]


@dataclass
class _Search:
    """Tries kernels one after another; each search begins with the best noise of the kernel before."""

    meter: Meter[_Score]
    some: Matrix
    evidence: _Evidence
    log_ratio: float = math.log(_RATIO)
    trials: list[tuple[Kernel, str, _Score]] = field(default_factory=list)
    weighs_descriptors: bool = False  # whether descriptors are terms of the last trial, a weighted mean
    first: int = 0  # the trial that another has to be clearly better than
    weightless: tuple[str, ...] = ()  # kinds of blocks that the evidence gives no weight

    def run(self, columns: Mapping[str, Range]) -> None:
        """Try the short list."""
        parts = dict(_parts(columns))
        tanimoto = [self.add(_on(TanimotoMinMax(), span), name) for name, span in parts.items()]
        best = max(range(len(parts)), key=lambda i: tanimoto[i].mean)
        names = list(parts)
        chosen = dict.fromkeys((names[0], names[best]))
        scores = [self.add_gaussian(parts[name], name).mean for name in chosen]
        if len(chosen) == 1 < len(parts):
            self.meter.skip()  # there is no Gaussian kernel on a single kind
        smooth = len(parts) + scores.index(max(scores))
        self.meter.begin("the mean of two kernels")
        self.add(
            _half(self.trials[smooth][0], self.trials[best][0]),
            f"mean of {smooth + 1} and {best + 1}",
            begin=False,
        )
        kinds = [i for i, name in enumerate(names) if name in columns] or [0]  # the first has all columns
        places = [*kinds, smooth]
        self.add_weighted(places)
        apart = {name: span for name, span in columns.items() if name not in parts and parts[names[0]]}
        of_blocks = TanimotoMinMax()
        beside = [
            (f"{of_blocks.words()} on {name}", _on(of_blocks, apart[name]))
            for name in _OF_BLOCKS
            if name in apart
        ]
        weighed = set[str]()
        if beside:
            n_before = len(self.trials)
            weighed = self.add_weighted([0], beside)
            self.first = n_before if len(self.trials) > n_before else 0
            weighed |= self.add_weighted(places, beside)
        if DESCRIPTORS in apart:
            self.add_described(apart[DESCRIPTORS])
            weighed |= self.add_weighted(places, [*beside, *self._of_descriptors(apart[DESCRIPTORS])])
        if len(self.evidence.y) >= _FEWEST_WEIGHED:
            self.weightless = tuple(name for name in _OF_BLOCKS if name in apart and name not in weighed)

    def _of_descriptors(self, span: Range) -> list[tuple[str, Kernel]]:
        """Return Gaussian kernels of descriptors, from fine to coarse, and their names."""
        usual = _LENGTH * _distance(self.some, span)
        smooth = [Gaussian(_rounded(usual * share)) for share in _SHARES_OF_LENGTH]
        return [(f"{kernel.words()} on {DESCRIPTORS}", _on(kernel, span)) for kernel in smooth]

    def add_weighted(self, places: Sequence[int], beside: Sequence[tuple[str, Kernel]] = ()) -> set[str]:
        """Try the mean of some kernels, with weights that maximize the evidence; return what has a weight.

        Parameters
        ----------
        places : sequence of int
            Trials whose kernels are terms.
        beside : sequence of (str, Kernel)
            Further terms, of columns that no earlier kernel sees, and their names.
        """
        self.weighs_descriptors = False
        if len(self.evidence.y) < _FEWEST_WEIGHED:
            self.meter.skip()
            return set()
        self.meter.begin("weights of kernels")
        terms = [(f"{place + 1}", self.trials[place][0]) for place in places]
        terms += beside
        weights, shares = self.evidence.weights([kernel for _, kernel in terms])
        weighted = [
            (float(f"{weight:.2g}"), *term)
            for weight, share, term in zip(weights, shares, terms, strict=True)
            if share >= _LEAST
        ]
        names = {name.rpartition(" ")[2] for _, name, _ in weighted}
        if len(weighted) == 1 and names < {*_OF_BLOCKS}:
            (_, _, kernel), (kind,) = *weighted, names
            if all(kernel != tried for tried, _, _ in self.trials):
                self.add(kernel, kind, begin=False)
        elif len(weighted) > 1 and (not beside or names & {*_OF_BLOCKS, DESCRIPTORS}):
            words = ", ".join(f"{weight:g} of {name}" for weight, name, _ in weighted)
            mean = _mean([(weight, kernel) for weight, _, kernel in weighted])
            self.add(mean, f"weighted mean: {words}", begin=False)
            self.weighs_descriptors = DESCRIPTORS in names
        return names

    def run_scales(self, kernel: Kernel) -> None:
        """Try length scales of a kernel; they are listed from the smallest to the largest."""
        tried: dict[float, tuple[Kernel, str, _Score]] = {}

        self.meter.begin(kernel.words())

        def score(log_length: float) -> _Score:
            one = kernel.with_length_scale(_rounded(math.exp(log_length)))
            self.meter.rename(one.words())
            tried[log_length] = one, one.words(), self.scored(one)
            return tried[log_length][2]

        start = math.log(_usual_length(kernel, self.some))
        reach = _FAR * _LENGTH_STEP
        _line_search(score, start, _LENGTH_STEP, (start - reach, start + reach))
        self.trials = [tried[at] for at in sorted(tried)]

    def add_described(self, span: Range) -> None:
        """Try the best kernel so far plus a Gaussian one of descriptors; choose its length scale and weight.

        All kernels so far are means, since none of them sees the columns of descriptors.
        """
        place = max(range(len(self.trials)), key=lambda i: self.trials[i][2].mean)
        best = self.trials[place][0]
        assert isinstance(best, Mean)
        assert isinstance(best.columns, tuple)
        kernels, columns = best.kernels, (*best.columns, span)

        def kernel_at(log_length: float, log_weight: float) -> Mean:
            weight = float(f"{math.exp(log_weight):.2g}")
            length = float(f"{math.exp(log_length):.3g}")
            return Mean((*best.shares, weight), (*kernels, Gaussian(length)), columns)

        self.meter.begin("descriptors")
        start = math.log(_LENGTH * _distance(self.some, span))
        limits = start - _LENGTH_STEPS * _LENGTH_STEP, start + _LENGTH_STEPS * _LENGTH_STEP
        length, _ = _line_search(
            lambda at: self.meter(kernel_at(at, 0.0))(self.log_ratio), start, _LENGTH_STEP, limits
        )
        heavy = math.log(_HEAVIEST)
        weight, _ = _line_search(
            lambda at: self.meter(kernel_at(length, at))(self.log_ratio), 0.0, math.log(2.0), (-heavy, heavy)
        )
        kernel = kernel_at(length, weight)
        score = self.scored(kernel)
        words = f"{kernel.weights[-1]:g} times {kernel.kernels[-1].words()}"
        self.trials.append((kernel, f"{place + 1} + {words} on descriptors", score))

    def add(self, kernel: Kernel, name: str, *, begin: bool = True) -> _Score:
        """Try a kernel with its best noise, as a new trial or, without `begin`, in the current one."""
        if not isinstance(kernel, Mean) or len(kernel.weights) == 1:
            name = _words(kernel, name)
        (self.meter.begin if begin else self.meter.rename)(name)
        score = self.scored(kernel)
        self.trials.append((kernel, name, score))
        return score

    def add_gaussian(self, span: Range | None, name: str) -> _Score:
        """Try a Gaussian kernel with its best length scale."""
        start = math.log(_LENGTH * _distance(self.some, span))
        self.meter.begin(f"Gaussian{name and ' on '}{name}")

        def kernel_at(log_length: float) -> Kernel:
            return _on(Gaussian(_rounded(math.exp(log_length))), span)

        self.scored(kernel_at(start))  # finds the noise that goes with it
        limits = start - _LENGTH_STEPS * _LENGTH_STEP, start + _LENGTH_STEPS * _LENGTH_STEP
        at, _ = _line_search(
            lambda at: self.meter(kernel_at(at))(self.log_ratio), start, _LENGTH_STEP, limits
        )
        kernel = kernel_at(at)
        score = self.scored(kernel)
        self.trials.append((kernel, _words(kernel, name), score))
        return score

    def with_metric(
        self,
        choice: KernelChoice,
        X: Matrix,
        y: Double,
        order: npt.NDArray[np.int64],
        columns: tuple[str, Range | None],
    ) -> KernelChoice:
        """Return the choice, or a Gaussian kernel in a learned metric if that is clearly better.

        It is judged by labels that it has not learned from; its variances are also estimated from these.

        Parameters
        ----------
        choice : KernelChoice
            The choice among the kernels tried so far.
        X, y : rows and labels
        order : int64 array
            Rows to use, in random order.
        columns : (str, (int, int) or None)
            Columns that the kernel sees, and their name.
        """
        name, span = columns
        some = order[:_ONE_BY_ONE]
        unseen, seen = np.array_split(some, 2)
        if len(seen) < _FEWEST_LEARN:
            return choice
        seen_columns = X if span is None else X[:, span[0] : span[1]]
        self.meter.begin("a learned metric")
        learned = choose_metric(seen_columns[seen], y[seen], on_trial=self.meter.rename)
        if not learned.rounds:
            return choice
        self.meter.rename(_words(learned.kernel, name))
        scorer = _OneByOne(X[some], y[some], len(unseen), np.float64)
        many = isinstance(self.meter.scorer, _Folds)  # if so, the rows that folds leave out are unseen
        kernel, score = _best_in_metric(scorer, learned.kernel, span, _RATIOS if many else _METRIC_RATIOS)
        before = next(each for one, _, each in self.trials if one == choice.kernel).log_probability
        if many:
            new = self.scored(kernel).log_probability
        else:
            new, before = score.log_probability, before[unseen]
        labels = y[unseen]
        r2 = 1.0 - float(score.errors @ score.errors / np.square(labels - labels.mean()).sum())
        trial = Trial(kernel, _words(kernel, name), float(new.mean()), r2)
        choice = replace(choice, trials=(*choice.trials, trial), n_learned=len(seen))
        if not clearly_better(new, before):
            return choice
        variances = dict(zip(("signal_variance", "noise_variance"), score.variances, strict=True))
        return replace(choice, kernel=kernel, variances=variances)

    def scored(self, kernel: Kernel) -> _Score:
        """Return the score of a kernel with its best ratio of noise to signal variance."""
        limits = math.log(_RATIOS[0]), math.log(_RATIOS[1])
        at, score = _line_search(self.meter(kernel), self.log_ratio, _RATIO_STEP, limits)
        self.log_ratio = at
        return score

    def choice(self, labels: Double, n_rows: int, *, best: bool = False) -> KernelChoice:
        """Return the first kernel, or a later one that is clearly better; or simply the best one."""
        total = float(((labels - labels.mean()) ** 2).sum())
        scores = [score for _, _, score in self.trials]
        if best:
            taken = max(range(len(scores)), key=lambda i: scores[i].log_probability.mean())
        else:
            order = sorted(range(len(scores)), key=lambda i: i != self.first)
            taken = order[first_of_the_best([scores[i].log_probability for i in order])]
            if self.weighs_descriptors and scores[-1].mean >= scores[taken].mean:
                taken = len(scores) - 1  # the evidence prefers it already, and labels left out do not object
        trials = [
            Trial(kernel, name, score.mean, 1.0 - float(score.errors @ score.errors) / total)
            for kernel, name, score in self.trials
        ]
        return KernelChoice(
            self.trials[taken][0],
            tuple(trials),
            n_rows,
            len(labels),
            weighs_descriptors=self.weighs_descriptors,
            first=self.first,
            weightless=self.weightless,
        )


def _ahead(columns: Mapping[str, Range], n_rows: int, *, by_folds: bool) -> list[Work]:
    """Return the expected work of each trial of `_Search`, in order, as measured on docking scores."""
    n_parts = len(dict(_parts(columns)))
    gaussian = Work(6, 10)
    weighed = min(n_rows, _WEIGHED)
    work = [Work(1, 4)] * n_parts + [gaussian, *([gaussian] if n_parts > 1 else []), Work(2, 4)]
    weights = Work(1 + n_parts, 4, seconds=2.7e-9 * weighed**3)
    work.append(weights)
    n_of_blocks = len(columns.keys() & set(_OF_BLOCKS)) if n_parts < len(columns) else 0
    if n_of_blocks:
        work += [
            replace(weights, matrices=2 + n_of_blocks),
            replace(weights, matrices=weights.matrices + n_of_blocks),
        ]
    if DESCRIPTORS in columns and len(columns) > 1:
        work.append(Work(11 * (2 + n_parts), 14))
        work.append(replace(weights, matrices=weights.matrices + len(_SHARES_OF_LENGTH)))
    seen = min(n_rows, _ONE_BY_ONE) // 2
    if seen >= _FEWEST_LEARN:
        of_unseen = Work(8, 8) if not by_folds else Work(1, 4, seconds=16 * 2.5e-11 * _ONE_BY_ONE**3)
        work.append(replace(of_unseen, seconds=of_unseen.seconds + 0.01 * seen))
    return work


def _best_in_metric(
    scorer: _OneByOne, kernel: MetricGaussian, span: Range | None, ratios: tuple[float, float]
) -> tuple[Kernel, _Score]:
    """Return a kernel with the best length scale and noise for the labels, and its score."""
    noise, length = math.log(_RATIO), math.log(kernel.length_scale)
    lengths = length - _LENGTH_STEPS * _LENGTH_STEP, length + _LENGTH_STEPS * _LENGTH_STEP
    limits = math.log(ratios[0]), math.log(ratios[1])

    def kernel_at(log_length: float) -> Kernel:
        return _on(kernel.with_length_scale(_rounded(math.exp(log_length))), span)

    def score_at(log_length: float, log_ratio: float) -> _Score:
        return scorer(kernel_at(log_length))(log_ratio)

    for _ in range(_TURNS):
        length, _ = _line_search(partial(score_at, log_ratio=noise), length, _LENGTH_STEP, lengths)
        noise, score = _line_search(scorer(kernel_at(length)), noise, _RATIO_STEP, limits)
    return kernel_at(length), score


def usual_kernel(kernel: Kernel, X: Matrix) -> Kernel:
    """Return a kernel with a length scale that suits most labels, for use if there are too few to find one.

    The mean similarity of molecules is then that of the Gaussian kernel from which searches start.

    Examples
    --------
    >>> usual_kernel(Gaussian("auto"), np.eye(4))
    Gaussian(length_scale=1.98)
    """
    return kernel.with_length_scale(_rounded(_usual_length(kernel, X)))


def _usual_length(kernel: Kernel, X: Matrix) -> float:
    rows = X[:_SOME]
    n = rows.shape[0]

    def similarity(log_length: float) -> float:
        matrix = kernel.with_length_scale(math.exp(log_length))(rows)
        return float((matrix.sum() - matrix.trace()) / max(1, n * (n - 1)))

    low, high = _LIMITS
    if n < 2 or similarity(low) > _USUAL:  # all rows are equal
        return 1.0
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if similarity(middle) < _USUAL else (low, middle)
    return math.exp((low + high) / 2)


def _rounded(length_scale: float) -> float:
    """Return a length scale with three digits: no more are worth showing."""
    return float(f"{length_scale:.3g}")


def _line_search(
    score: Callable[[float], _Score], start: float, step: float, limits: tuple[float, float]
) -> tuple[float, _Score]:
    """Return the position of a local maximum of the score among start + i step, and the score there."""
    seen: dict[int, _Score] = {}

    def at(i: int) -> float:
        if i not in seen and limits[0] - 1e-9 <= start + i * step <= limits[1] + 1e-9:
            seen[i] = score(start + i * step)
        return seen[i].mean if i in seen else -math.inf

    best = 0
    while (better := max((best, best + 1, best - 1), key=at)) != best:
        best = better
    return start + best * step, seen[best]


def _parts(columns: Mapping[str, Range]) -> Iterator[tuple[str, Range | None]]:
    """Yield ranges of columns for kernels, by name: all, and those of each kind if there are several.

    Descriptors, substituents and positions beside other kinds are left out: they have their own kernels.
    """
    counts = {name: span for name, span in columns.items() if name != DESCRIPTORS}
    kinds = {name: span for name, span in counts.items() if name not in _OF_BLOCKS} or counts or columns
    several, apart = len(kinds) > 1, len(kinds) < len(columns)
    whole = (0, max(stop for _, stop in kinds.values())) if apart else None
    yield _ALL if several else next(iter(kinds)) if apart else "", whole
    yield from kinds.items() if several else ()


def _on(kernel: Kernel, span: Range | None) -> Kernel:
    """Return a kernel that sees only some columns."""
    return kernel if span is None else Mean((1.0,), (kernel,), (span,))


def _half(first: Kernel, second: Kernel) -> Kernel:
    """Return the mean of two kernels, each on its own columns."""
    return _mean([(1.0, first), (1.0, second)])


def _mean(terms: Sequence[tuple[float, Kernel]]) -> Kernel:
    """Return the mean of some kernels with weights, each kernel on its own columns."""
    kernels = [
        (each.kernels[0], each.columns[0])
        if isinstance(each, Mean) and isinstance(each.columns, tuple)
        else (each, (0, 2**63 - 1))
        for _, each in terms
    ]
    weights = tuple(weight for weight, _ in terms)
    return Mean(weights, tuple(kernel for kernel, _ in kernels), tuple(span for _, span in kernels))


def _words(kernel: Kernel, name: str) -> str:
    inner = kernel.kernels[0] if isinstance(kernel, Mean) else kernel
    return f"{inner.words()}{name and ' on '}{name}"


def _distance(X: Matrix, span: Range | None) -> float:
    """Return the root mean square distance of pairs of rows, always above 0."""
    rows = (X if span is None else X[:, span[0] : span[1]]).astype(np.float64)
    half = rows.shape[0] // 2
    difference = rows[:half] - rows[half : 2 * half]
    # Of sparse rows their values: SciPy 1.15 sums a matrix by a vector of ones for all of its columns.
    values = difference.data if hasattr(difference, "multiply") else difference
    return max(math.sqrt(float(np.square(values).sum()) / half), 1e-3)


@dataclass(frozen=True)
class _Evidence:
    """Finds the weights of a sum of kernels by the evidence of some rows."""

    X: Matrix
    y: Double

    def weights(self, kernels: Sequence[Kernel]) -> tuple[Double, Double]:
        """Return the weights with the largest evidence, and each term's share of the differences.

        Both sum to 1. Under a smooth kernel all molecules are similar, so it may have much of the weight but
        contribute little to the differences.

        For each set of weights, the mean and the scale of the covariance are optimal (eq. 5.8 there). So only
        the log determinant and the quadratic form contribute to the gradient.
        """
        matrices = [kernel(self.X) for kernel in kernels]
        sizes = np.array([max(float(matrix.diagonal().mean()), 1e-300) for matrix in matrices])
        n, y, ones = len(self.y), self.y, np.ones(len(self.y))
        matrices = [matrix / size for matrix, size in zip(matrices, sizes, strict=True)]

        def lack(logarithms: Double) -> tuple[float, Double]:
            scales = np.exp(logarithms)
            covariance = np.zeros((n, n))
            for scale, matrix in zip(scales, matrices, strict=False):
                covariance += scale * matrix
            covariance.flat[:: n + 1] += scales[-1]
            root = scipy.linalg.cholesky(covariance.T, lower=True, overwrite_a=True, check_finite=False)
            determinant = 2.0 * float(np.log(root.diagonal()).sum())
            lower = lapack.dpotri(root, lower=1, overwrite_c=1)[0]  # of the inverse; the rest is 0
            one = blas.dsymv(1.0, lower, ones, lower=1)
            alpha = blas.dsymv(1.0, lower, y - one @ y / one.sum(), lower=1)
            variance = float(alpha @ y) / n
            diagonal = lower.diagonal()
            slopes = []
            for matrix in matrices:
                # The trace of the product with the inverse, from half of the inverse.
                trace = 2.0 * np.vdot(lower.T, matrix) - diagonal @ matrix.diagonal()
                slopes.append(alpha @ (matrix @ alpha) / variance - trace)
            slopes.append(alpha @ alpha / variance - diagonal.sum())
            return 0.5 * (math.log(variance) + determinant / n), -0.5 * scales * np.array(slopes) / n

        start = np.log([*np.full(len(kernels), 1.0 / len(kernels)), _RATIO])
        options = {"maxiter": _STEPS, "ftol": _FLAT}
        bounds = [_SCALES] * len(start)
        try:
            with blas_threads_for(n):
                logarithms = minimize(
                    lack, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
                ).x
        except np.linalg.LinAlgError:  # a kernel is not positive definite, whatever its weight
            logarithms = start
        scales = np.exp(logarithms[:-1])
        parts = scales * [1.0 - (matrix.sum() - n) / max(1, n * (n - 1)) for matrix in matrices]
        weights = scales / sizes
        return weights / weights.sum(), parts / max(parts.sum(), 1e-300)


@dataclass(frozen=True)
class _OneByOne:
    """Leaves out one label at a time; only the first `n_judged` labels count, or all.

    Single precision is enough if the noise of the labels is far above its rounding.
    """

    X: Matrix
    y: Double
    n_judged: int | None = None
    dtype: type[np.float32] | type[np.float64] = np.float32

    def __call__(self, kernel: Kernel) -> Callable[[float], _Score]:
        matrix: npt.NDArray[np.floating] = kernel(self.X).astype(self.dtype)
        n, y, judged = len(self.y), self.y, slice(self.n_judged)
        size, ones = float(matrix.diagonal().mean()), np.ones(n).astype(self.dtype)
        failed = _Score(np.full(len(y[judged]), -math.inf), (y - y.mean())[judged])
        invert = lapack.get_lapack_funcs("trtri", (matrix,))

        def score(log_ratio: float) -> _Score:
            with blas_threads_for(n):
                return score_at(size * math.exp(log_ratio))

        def score_at(ratio: float) -> _Score:
            shifted = matrix.copy()
            shifted.flat[:: n + 1] += self.dtype(ratio)
            try:
                # Its transpose is in the order of LAPACK.
                root = scipy.linalg.cholesky(shifted.T, lower=True, overwrite_a=True, check_finite=False)
            except np.linalg.LinAlgError:  # not positive definite
                return failed
            # The diagonal of L^-T L^-1 takes two thirds of the time of the whole inverse.
            half, _ = invert(root, lower=1, overwrite_c=1)
            one = (half.T @ (half @ ones)).astype(np.float64)
            mean = float(one @ y / one.sum())
            alpha = (half.T @ (half @ (y - mean).astype(self.dtype))).astype(np.float64)[judged]
            precision = np.einsum("ij,ij->j", half, half).astype(np.float64)[judged]
            errors = alpha / precision
            signal = float(np.mean(alpha * errors))
            return _Score(_log_density(errors, signal / precision), errors, (signal, signal * ratio))

        return score


@dataclass(frozen=True)
class _Folds:
    """Leaves out folds of the rows, and predicts them from the other rows by conjugate gradients."""

    X: Matrix
    y: Double
    rows: npt.NDArray[np.int64]
    folds: list[npt.NDArray[np.int64]]
    cache_bytes: int
    random_state: int

    def __call__(self, kernel: Kernel) -> Callable[[float], _Score]:
        scorers = [self._scorer(kernel, fold) for fold in self.folds]

        def score(log_ratio: float) -> _Score:
            errors = np.concatenate([errors_of(log_ratio) for errors_of in scorers])
            return _Score(_log_density(errors, np.full(len(errors), np.mean(errors**2))), errors)

        return score

    def _scorer(self, kernel: Kernel, fold: npt.NDArray[np.int64]) -> Callable[[float], Double]:
        """Return the function that gives the errors at a fold for the logarithm of the ratio."""
        training = np.setdiff1d(self.rows, fold)
        X, n, shift = self.X[training], len(training), float(self.y[training].mean())
        matrix = KernelMatrix(kernel, X, keep_bytes=min(self.cache_bytes, KernelMatrix.bytes_of(n)))
        preconditioner = LandmarkPreconditioner(kernel, X, min(n, max(500, n // 20)), self.random_state)
        right = np.column_stack([self.y[training] - shift, np.ones(n)]).astype(np.float32)
        size, solution = float(np.mean(kernel.diag(X))), None

        def errors_of(log_ratio: float) -> Double:
            nonlocal solution
            ratio = size * math.exp(log_ratio)
            preconditioner.set_ratio(ratio)

            def multiply(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
                product = matrix.product(vectors)
                product += ratio * vectors
                return product

            solution = solve(
                multiply,
                right,
                preconditioner,
                start=solution,
                tolerance=_TOLERANCE,
                max_iterations=_MOST_PRODUCTS,
            ).x
            sums = solution.sum(axis=0)
            mean = float(sums[0] / sums[1])
            alpha = (solution[:, :1] - mean * solution[:, 1:]).astype(np.float32)
            return self.y[fold] - shift - mean - matrix.cross_product(self.X[fold], alpha)[:, 0]

        return errors_of


def _log_density(errors: Double, variances: Double) -> Double:
    """Return the log probability density of each error."""
    return -0.5 * (np.log(2 * math.pi * variances) + errors**2 / variances)
