"""Model + library -> how much of the best of the library has been measured already."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import Client
from scipy.special import ndtri

from daskrf import seeds
from daskrf.acquisition import acquisition_for
from daskrf.commands import READING
from daskrf.commands.screen import ScreenJob, Search, one_target
from daskrf.commands.suggest import Candidates, Found, SuggestJob
from daskrf.errors import InputError, OptionError, printable
from daskrf.gp.posterior import normal_of
from daskrf.gp.separate import process_of
from daskrf.gp.weightedsum import targets_in
from daskrf.jobs.directions import words
from daskrf.jobs.inputs import inputs_of, source_for
from daskrf.jobs.job import Need, Run, run
from daskrf.jobs.models import Model
from daskrf.jobs.passing import Passing
from daskrf.jobs.progress import Progress
from daskrf.jobs.rounds import rounds_of
from daskrf.jobs.sources import Block
from daskrf.jobs.targets import Measured
from daskrf.molecules import TableFormat
from daskrf.molecules.spec import Fragments
from daskrf.molecules.structures import canonical_smiles
from daskrf.parameters import Command, Option
from daskrf.quantities import amount
from daskrf.report.notebook import Shown
from daskrf.storage.backend import as_path

__all__ = ["FoundReport", "found"]

Paths = str | os.PathLike[str]

CLI = Command(
    "daskrf found docking.model real.fingerprints -k 500",
    step=5,
    options={
        "k": Option(least=1),
        "n_draws": Option(least=2),
        "maximize": Option("--maximize/--minimize"),
        "target": Option(metavar="NAME|SUM", repeated=True, convert=one_target),
        "fragments": READING,
        "accept_rejects": READING,
    },
    without=("format__extra",),
    resumable=True,
)

_INTERVAL = (0.025, 0.975)
_DOUBT = 0.1  # standard deviation of the logarithm of what all deviations should be multiplied by
_MANY_BETTER = 0.1  # times k: molecules better than the best label
_FEWEST = 20  # labels of batches that tell what it is


@dataclass(frozen=True)
class FoundReport(Shown):
    """How much of the best of a library has been measured, by draws from the posterior.

    Attributes
    ----------
    k : int
    n_labelled, rows : int
        Labelled molecules, and molecules of the library.
    share : float
        Of the k best, the share that has labels: the mean over the draws.
    low, high : float
        95 % interval of the share.
    draws : tuple of float
        The share by each draw.
    target : str
    direction : {"maximize", "minimize"}
    seconds : float
    notes, inputs : tuple of str
        As of `SuggestReport`.
    """

    k: int
    n_labelled: int
    rows: int
    share: float
    low: float
    high: float
    draws: tuple[float, ...]
    target: str
    direction: str
    seconds: float
    notes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        how = f"{words(self.direction == 'maximize')} '{printable(self.target, 60)}'"
        lines = [
            f"of the best {self.k:,} of {amount(self.rows, 'molecules')}, {how}, an estimated "
            f"{self.share:.0%} have labels (95 % interval {self.low:.0%} - {self.high:.0%}, from "
            f"{len(self.draws)} draws from the posterior; {self.seconds:.1f} s)",
            f"  {amount(self.n_labelled, 'molecules')} have labels",
        ]
        return "\n".join([*lines, *(f"  {line}" for line in (*self.inputs, *self.notes))])


def found(
    model: Paths,
    source: Paths | Sequence[Paths],
    *,
    k: int = 500,
    n_draws: int = 32,
    maximize: bool | None = None,
    target: str | int | Mapping[str, float] | None = None,
    format: TableFormat | None = None,
    fragments: Fragments | None = None,
    accept_rejects: bool = False,
    client: Client | None = None,
    progress: Progress | None = None,
) -> FoundReport:
    """Estimate how much of the best of a library has been measured.

    Draws the values of all molecules without labels from the posterior, noise included, and counts how many
    of the k best have labels, those drawn and those measured taken together. So it says when a campaign may
    stop. It takes as long as a screen by thompson.

    Parameters
    ----------
    model : path
        Directory of the model, as written by fit or add.
    source : path, or sequence of paths
        As in `suggest`.
    k : int
        How many molecules count as the best.
    n_draws : int
        Draws from the posterior. A model fitted by conjugate gradients has draws of its own, of which at most
        so many are taken.
    maximize : bool, optional
        As in `screen`.
    target : str, int, or dict of str to float, optional
        As in `screen`.
    format, fragments
        As in `predict`.
    accept_rejects, client, progress
        As in `fingerprint`.

    Returns
    -------
    FoundReport

    Raises
    ------
    InputError
        If the labelled molecules are not known, it is not known whether large or small values are good, or
        the library's fingerprints or features are not those of the model.

    Notes
    -----
    The molecules that count are the outer tail of what is drawn, so that deviations too small by a twentieth
    make an estimate too hopeful by several percent. So the deviations of a draw from the mean are multiplied
    by a factor of its own: the root mean square error of the batches added so far, in standard deviations
    predicted for them (`daskrf add`; 1 if there are fewer than 20 labels), times a factor whose logarithm has
    a standard deviation of 0.1. `benchmarks/campaign.py --found` compares the intervals with the truth.
    """
    if n_draws < 2 or k < 1:
        raise OptionError("found needs at least two draws, and one molecule that counts as the best.")
    path, rule = as_path(model), acquisition_for("thompson")
    files = (source, format, fragments, accept_rejects)
    job = _Found(path, files, path, k, "none", 0, rule, maximize, target, False, False, 1.0, n=n_draws)
    report = run(job, client, progress)
    assert isinstance(report, FoundReport)
    return report


@dataclass
class _Found(SuggestJob):
    """The job of `found`: a screen by draws; `n` is their number."""

    name = "found"

    @property
    def locked(self) -> PurePath:
        """The model: nobody may add labels meanwhile."""
        return self.output

    def plan(self, run: Run) -> None:
        """Read the model, and leave out what has labels."""
        self.shortlist = None  # that of the rough ranking, which does not know the draws
        self.read()
        self.shortlist = 1.0
        self.features = source_for(run, self.model, *self.files)
        self.exclude_labelled = self.features.library_hash == self.model.metadata["library"]
        excluded = tuple(self._excluded(run, self.features))
        if not excluded:
            raise InputError("The labelled molecules of this model are not known, so they cannot be counted.")
        self.passing = Passing(self.features, excluded=excluded)
        most = process_of(self.model.gp, self.target)[0].most_draws()
        self.n_draws = min(self.n, most or self.n)

    def need(self) -> Need:
        """See `ScreenJob`."""
        return ScreenJob.need(self)

    def search(self, run: Run) -> Search:
        """Return what draws the values of the library."""
        plain = ScreenJob.search(self, run)
        process, own = process_of(self.model.gp, self.target)
        noise = math.sqrt(float(process.noise_variance_[own]))
        given = {**vars(plain), "k": self.k, "name": self.name, "keep_features": False}
        given |= {"passing": self.passing, "n_draws": self.n_draws}
        return DrawnValues(**given, noise=noise, factors=self._factors(run))

    def _factors(self, run: Run) -> tuple[float, ...]:
        """Return what the deviations of each draw are multiplied by."""
        rounds = rounds_of(self.model)  # of a sum, what its worst target showed
        factor, n_labels = max(shown_by_batches(rounds, target) for target in targets_in(self.target))
        said = (
            f"deviations are taken {factor:.2f} times as large, as {amount(n_labels, 'labels')} of batches "
            f"showed, and as uncertain by {_DOUBT:.0%}"
            if n_labels
            else f"deviations are taken as uncertain by {_DOUBT:.0%}; no batch has shown yet whether they "
            "are right"
        )
        self._note(run, said)
        return tuple((factor * np.exp(_DOUBT * _spread(self.n_draws))).tolist())

    def finish(self, run: Run, made: int) -> Any:
        """Count."""
        values: Found = self.tree.result()
        assert self.measured is not None
        labels = self.rule.sign * _values(self.measured)
        shares = [_share(labels, top.score, self.k) for top in values.tops]
        low, high = np.quantile(shares, _INTERVAL)
        better = [int((top.score > labels.max()).sum()) for top in values.tops]
        self.notes = (*self.notes, *_doubts(float(np.mean(better)), self.k))
        return FoundReport(
            self.k,
            len(labels),
            values.n_scored,
            float(np.mean(shares)),
            float(low),
            float(high),
            tuple(shares),
            self.model.name_of(self.target),
            "maximize" if self.rule.maximize else "minimize",
            run.seconds,
            self.notes,
            inputs_of(self.features),
        )


def _values(measured: Measured) -> npt.NDArray[np.float64]:
    """Return the label of each molecule; the mean where one has several."""
    y = measured.values[np.isfinite(measured.values)]
    if len(y) != len(measured.known):
        return y
    _, index = np.unique(canonical_smiles(measured.known), return_inverse=True)
    return np.bincount(index, y) / np.bincount(index)


def _doubts(better: float, k: int) -> list[str]:
    """Return what speaks against the draws, if they have so many molecules better than the best label."""
    if better <= _MANY_BETTER * k:
        return []
    return [
        f"in a draw, {better:,.0f} molecules without labels are better than the best label; if batches find "
        "hardly any, the target has an end that the model does not know, and the estimate is too low"
    ]


def shown_by_batches(rounds: Sequence[Mapping[str, Any]], target: int) -> tuple[float, int]:
    """Return how far labels of batches were from their means, in predicted deviations, and their number.

    1 and 0 if the batches are not known or have too few labels; see `daskrf.gp.agreement`.

    Examples
    --------
    >>> batch = {"agreement": [{"n": 50, "mean_z2": 1.44}]}
    >>> shown_by_batches([{"labels": 100}, batch, batch], 0), shown_by_batches([{"labels": 100}], 0)
    ((1.2, 100), (1.0, 0))
    """
    known = [each["agreement"][target] for each in rounds if each.get("agreement")]
    found = [(each["n"], each["mean_z2"]) for each in known if each is not None]
    n_labels = sum(n for n, _ in found)
    if n_labels < _FEWEST:
        return 1.0, 0
    return math.sqrt(sum(n * z2 for n, z2 in found) / n_labels), n_labels


def _spread(n: int) -> npt.NDArray[np.float64]:
    """Return the quantiles of a standard normal distribution for n draws, in an order without meaning."""
    order = np.argsort(seeds.words(0, "found/factor", n), kind="stable")
    return np.asarray(ndtri((order + 0.5) / n))


def _share(measured: npt.NDArray[np.float64], others: npt.NDArray[np.float64], k: int) -> float:
    """Return the share of the k largest of both that was measured.

    Examples
    --------
    >>> _share(np.array([5.0, 1.0, 3.0]), np.array([4.0, 2.0]), 3)
    0.6666666666666666
    """
    k = min(k, len(measured) + len(others))
    own = np.zeros(len(measured) + len(others), bool)
    own[: len(measured)] = True
    best = np.argsort(-np.concatenate([measured, others]), kind="stable")[:k]
    return float(own[best].sum() / k)


@dataclass(frozen=True)
class DrawnValues(Candidates):
    """Draws new measurements of all rows: draws of the function, and noise that depends on row and draw.

    Their deviations from the mean are multiplied by a factor for each draw.
    """

    noise: float = 0.0
    factors: tuple[float, ...] = ()

    def scores(self, model: Model, block: Block) -> tuple[npt.NDArray[np.float64], dict[str, Any]]:
        drawn, columns = super().scores(model, block)
        mean = self.rule.sign * columns["mean"]
        drawn = drawn.reshape(len(block.rows), -1)
        for draw in range(drawn.shape[1]):
            words = seeds.words_at(self.seed, f"found/noise/{draw}", block.rows)
            drawn[:, draw] += self.noise * normal_of(words)
            drawn[:, draw] = mean + self.factors[draw] * (drawn[:, draw] - mean)
        return drawn, {}
