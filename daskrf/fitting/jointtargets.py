"""Whether targets of an exact process are modelled together, which the evidence of their labels decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import Matrix
from daskrf.errors import InputError, printable
from daskrf.estimators import defaults_of
from daskrf.gp.processes.coregionalized import FEWEST_ALONE, FOR_CORRELATIONS, CoregionalizedGP, some_labels
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.jointevidence import FixedParameters, JointParameters
from daskrf.gp.processes.separate import SeparateGP
from daskrf.jobs.job import Run
from daskrf.jobs.memory import LIBRARIES
from daskrf.kernels import Kernel
from daskrf.quantities import amount, format_bytes
from daskrf.storage.labels import JoinedLabels
from daskrf.workers.clusters import worker_memory

MOST_TOGETHER = 30_000
"""Labels of all targets, above which they are modelled separately: products would take minutes."""

_KERNELS = 3  # that are tried for all targets: those of the targets with most labels
_SHOWN = 3  # pairs of targets whose correlations are listed

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class JointTargets:
    """A process of one or several targets, and how these are modelled, in a sentence."""

    gp: ExactGP | SeparateGP | CoregionalizedGP
    words: str


def model_together(
    run: Run,
    requested: ExactGP,
    solved: Sequence[ExactGP],
    joined: JoinedLabels,
    X: sp.csr_matrix,
    *,
    together: bool | None,
) -> JointTargets:
    """Return one process of all targets if the evidence speaks for it, else those of each.

    With correlations of the targets, the evidence of some labels must grow by more than their number implies
    (the Bayesian information criterion), compared with the processes of each target, which may have different
    kernels.

    Parameters
    ----------
    run : Run
    requested : ExactGP
        With the options of the user.
    solved : sequence of ExactGP
        The process of each target.
    joined : JoinedLabels
    X : CSR matrix, shape (n, n_columns)
        Fingerprints of all labels.
    together : bool, optional
        Whether to model them together; None: by the evidence.

    Raises
    ------
    InputError
        If they are to be modelled together, and cannot.
    """
    separate = SeparateGP(solved, [[t] for t in range(len(solved))])
    if together is False:
        return JointTargets(separate, "Targets are modelled separately, as requested.")
    kernels = _kernels(solved, learned=together is True)
    reason = why_separate(requested, joined, X.nnz) or (
        "" if kernels else "a kernel was learned from the labels of one"
    )
    if reason and together:
        raise InputError(f"Targets cannot be modelled together, since {reason}: leave --together out.")
    if reason:
        return JointTargets(separate, f"Targets are modelled separately, since {reason}.")
    try:
        return _by_evidence(run, requested, separate, joined, X, kernels=kernels, always=together is True)
    except InputError as error:  # the labels of each target alone could be fitted
        if together:
            raise
        return JointTargets(
            separate, f"Targets are modelled separately, since one process of all fails: {error}"
        )


def _by_evidence(
    run: Run,
    requested: ExactGP,
    separate: SeparateGP,
    joined: JoinedLabels,
    X: Matrix,
    *,
    kernels: Sequence[Kernel],
    always: bool,
) -> JointTargets:
    """Return one process of all targets if the evidence speaks for it, or `always`, else those of each."""
    solved = [gp for gp in separate.parts if isinstance(gp, ExactGP)]
    run.progress.start("model targets together", len(kernels) + 1, "steps")
    y, trials = joined.y, list[tuple[float, Kernel, JointParameters]]()
    for kernel in kernels:
        gp, determined = _process(requested, kernel), _alone(solved, kernel)
        parameters = gp.find_parameters(X, y, alone=determined)
        trials.append((parameters.log_evidence, kernel, parameters))
        run.progress.advance(1)
    evidence, kernel, best = max(trials, key=lambda trial: trial[0])
    row, target = some_labels(y, FOR_CORRELATIONS, requested.random_state)
    alone = sum(_evidence(gp, X[row[target == t]], y[row[target == t], t]) for t, gp in enumerate(solved))
    n, n_pairs = len(row), len(solved) * (len(solved) - 1) // 2
    words = (
        f"log evidence of {'all' if n == np.isfinite(y).sum() else 'some'} {n:,} labels {evidence:,.1f} "
        f"together, {alone:,.1f} separately"
    )
    if not always and not evidence - alone > 0.5 * n_pairs * math.log(n):
        run.progress.advance(1)
        little = "" if evidence <= alone else f", too little for {amount(n_pairs, 'correlations')}"
        return JointTargets(separate, f"Targets are modelled separately: {words}{little}.")
    whole = _process(requested, kernel).fit(X, y, parameters=best)
    whole.at_bound_ |= [bool(gp.at_bound_[0]) and gp.kernel == kernel for gp in solved]
    whole.kernel_choices_ = tuple(gp.kernel_choice_ for gp in solved)
    run.progress.advance(1)
    correlations = _correlation_words(joined.names, best.correlation)
    return JointTargets(whole, f"Targets are modelled together: correlations {correlations}; {words}.")


def why_separate(requested: ExactGP, joined: JoinedLabels, n_nonzeros: int) -> str:
    """Return why targets cannot be modelled together, whatever their labels say; empty if they can."""
    for name, words in zip(joined.names, joined.classes, strict=False):
        if words is not None:
            return f"{printable(name, 60)} is two classes"
    if joined.side is not None and joined.side.any():
        return "some labels are limits"
    n = int(np.isfinite(joined.y).sum())
    if n > MOST_TOGETHER:
        return f"there are more than {MOST_TOGETHER:,} labels ({n:,})"
    nonzeros = int(n_nonzeros * n / max(1, len(joined.y)))
    size = _process(requested, requested.kernel).process_for(n).memory(n, nonzeros)
    if size + LIBRARIES > (most := worker_memory(None)):
        return f"that takes {format_bytes(size + LIBRARIES)}, and this machine has {format_bytes(most)}"
    return ""


def _process(requested: ExactGP, kernel: Kernel) -> CoregionalizedGP:
    """Return a process of several targets with the options of an exact process, not fitted yet."""
    options = {
        name: getattr(requested, name)
        for name in defaults_of(CoregionalizedGP)
        if name != "kernel" and hasattr(requested, name)
    }
    return CoregionalizedGP(kernel, **options)


def _kernels(solved: Sequence[ExactGP], *, learned: bool) -> list[Kernel]:
    """Return kernels to try for all targets: those of the targets with most labels.

    None if one is a metric that was learned from labels, unless `learned`: then the best others count.
    """
    kernels = []
    for gp in sorted(solved, key=lambda gp: -gp.n_rows_):
        kernel, choice = gp.kernel, gp.kernel_choice_
        if choice is not None and choice.variances:
            if not learned:
                return []
            others = [trial for trial in choice.trials if trial.kernel != kernel]
            kernel = max(others, key=lambda trial: trial.log_probability).kernel
        if kernel not in kernels:
            kernels.append(kernel)
    return kernels[:_KERNELS]


def _alone(solved: Sequence[ExactGP], kernel: Kernel) -> FixedParameters:
    """Return means and variances of the targets whose processes have a kernel, NaN for the others."""
    same = [gp.kernel == kernel and gp.n_rows_ >= FEWEST_ALONE for gp in solved]

    def values(name: str) -> Array:
        return np.array(
            [
                float(getattr(gp, name)[0]) if there else math.nan
                for gp, there in zip(solved, same, strict=True)
            ]
        )

    return FixedParameters(values("mean_"), values("signal_variance_"), values("noise_variance_"))


def _evidence(gp: ExactGP, X: Matrix, y: Array) -> float:
    """Return the log evidence of some labels under a fitted process of one target."""
    names = ("mean", "signal_variance", "noise_variance")
    process = ExactGP(gp.kernel, solver="cholesky")
    process.set_params(**{name: float(getattr(gp, f"{name}_")[0]) for name in names})
    return process.fit(X, y).log_marginal_likelihood_value_


def _correlation_words(names: Sequence[str], correlation: Array) -> str:
    """Return the strongest correlations in words."""
    first, second = np.triu_indices(len(names), 1)
    order = np.argsort(-np.abs(correlation[first, second]), kind="stable")
    shown = [
        f"{correlation[first[i], second[i]]:.2f} of '{printable(names[first[i]], 40)}' and "
        f"'{printable(names[second[i]], 40)}'"
        for i in order[:_SHOWN]
    ]
    rest = len(order) - len(shown)
    return ", ".join(shown) + (f", and {rest:,} weaker ones" if rest else "")
