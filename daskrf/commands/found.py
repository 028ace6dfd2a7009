"""Model + library -> how much of the best of the library has been measured already."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distributed import Client

from daskrf.acquisition import acquisition_for
from daskrf.commands import READING
from daskrf.commands.screen import FILTERING, check_library_options, check_space_options, one_target
from daskrf.errors import OptionError, printable
from daskrf.files.backend import as_path
from daskrf.jobs.job import run
from daskrf.models.directions import words
from daskrf.molecules.counts.spec import Fragments
from daskrf.molecules.structures import Level
from daskrf.parameters import Command, Option
from daskrf.quantities import amount
from daskrf.report.lines import report_text
from daskrf.report.notebook import Shown
from daskrf.screens.found import FoundJob, LibraryPopulation, Population
from daskrf.screens.passing import FilterTexts
from daskrf.screens.request import ScreenRequest, SpaceOptions
from daskrf.screens.space.bestproducts import screen_below
from daskrf.screens.space.found import SpacePopulation
from daskrf.sources.inputs import Input
from daskrf.spaces.limits import ranges_of_texts
from daskrf.spaces.spacefiles import space_among
from daskrf.tables import TableFormat
from daskrf.workers.progress import Progress

Paths = str | os.PathLike[str]

CLI = Command(
    "daskrf found docking.model real.fingerprints -k 500",
    step=5,
    options={
        "k": Option(least=1),
        "n_draws": Option(least=2),
        "maximize": Option("--maximize/--minimize"),
        "target": Option(metavar="NAME|SUM", repeated=True, convert=one_target),
        **{name: option for name, option in FILTERING.items() if name != "nearest"},
        "within": Option(metavar="NAME=LOW:HIGH", repeated=True, convert=ranges_of_texts),
        "fragments": READING,
        "accept_rejects": READING,
    },
    without=("format__extra",),
    resumable=True,
)


@dataclass(frozen=True)
class FoundReport(Shown):
    """How much of the best of a library has been measured, by posterior samples.

    Attributes
    ----------
    k : int
    n_labelled, rows : int
        Labelled molecules, and molecules of the library, or products of the space.
    share : float
        Share of the k best that has labels: the mean over the posterior samples.
    low, high : float
        95 % interval of the share.
    draws : tuple of float
        The share in each posterior sample.
    target : str
    direction : {"maximize", "minimize"}
    seconds : float
    notes, inputs : tuple of str
        As in `SuggestReport`.
    unit : {"molecules", "products"}
        What `rows` counts. Some products of a space may be the same molecule.
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
    unit: str = "molecules"

    def __str__(self) -> str:
        how = f"{words(self.direction == 'maximize')} '{printable(self.target, 60)}'"
        first = (
            f"of the best {self.k:,} of {amount(self.rows, self.unit)}, {how}, an estimated "
            f"{self.share:.0%} have labels (95 % interval {self.low:.0%} - {self.high:.0%}, from "
            f"{len(self.draws)} posterior samples; {self.seconds:.1f} s)"
        )
        labelled = f"{amount(self.n_labelled, 'molecules')} have labels"
        return report_text(first, [labelled, *self.inputs], notes=self.notes)


def found(
    model: Paths,
    source: Paths | Sequence[Paths],
    *,
    k: int = 500,
    n_draws: int = 32,
    maximize: bool | None = None,
    target: str | int | Mapping[str, float] | None = None,
    where: str | Sequence[str] = (),
    smarts: str | Sequence[str] = (),
    without_smarts: str | Sequence[str] = (),
    alerts: str | Sequence[str] = (),
    similar_to: str | Sequence[str] = (),
    least_similarity: float | None = None,
    within: Mapping[str, Sequence[float | None]] | None = None,
    exclude_by: Level = "tautomer",
    format: TableFormat | None = None,
    fragments: Fragments | None = None,
    accept_rejects: bool = False,
    client: Client | None = None,
    progress: Progress | None = None,
) -> FoundReport:
    """Estimate how much of the best of a library has been measured.

    Samples the values of all molecules without labels from the posterior, noise included, and counts how many
    of the k best, among measured and sampled values, have labels. So it shows when a campaign may stop. It
    takes as long as a screen by thompson. In a make-on-demand space, only the most promising products are
    sampled, and the number of better ones among the others is estimated.

    Parameters
    ----------
    model : path
        Directory of the model, as written by fit or add.
    source : path, or sequence of paths
        As in `suggest`.
    k : int
        How many molecules count as the best.
    n_draws : int
        Number of posterior samples. A model fitted by conjugate gradients has samples of its own, and at most
        this number of them is taken.
    maximize : bool, optional
        As in `screen`.
    target : str, int, or dict of str to float, optional
        As in `screen`.
    where, smarts, without_smarts, alerts, similar_to, least_similarity
        As in `suggest`: only molecules that pass these filters count, with labels and without. Conditions
        compare computed properties, as labelled molecules have no columns of a library.
    within : dict of str to (float or None, float or None), optional
        As in `screen`: in a space, only products within these limits count.
    exclude_by : {"structure", "parent", "tautomer", "skeleton"}
        As in `suggest`: what counts as a labelled molecule, which is not sampled again.
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
    The products of a space are ranked as in `screen`, by ucb with a kappa of 2, or by the mean if the model
    ranks all products itself. The best of them, 20 times k and at least 20,000, are sampled. Random products
    stand for the others: 1,000 from each range of lower places, and 20,000 from all products for those that
    were not kept. Each exceeds a value with the probability given by a normal distribution with its mean and
    standard deviation, so the number that they add to a posterior sample is an expectation. Duplicate
    molecules are assumed to be as frequent among them as among the best. The report says what share of the
    best k they are expected to be.

    The molecules that count are in the outer tail of the samples, where even a model with good error bars may
    be wrong. So each sampled molecule is weighted by a ratio, which differs between posterior samples: the
    number of labels as good as this, divided by the number expected without these labels
    (`daskrf.gp.validation.tailcounts`). The fewer such labels there are, the less certain is the ratio. A
    batch may be chosen in any way, as long as its labels were not known. The mean size of its errors, which
    is small if the batch was chosen among good means, is not used. `benchmarks/found.py` compares the
    intervals with the truth.
    """
    if n_draws < 2 or k < 1:
        raise OptionError(
            "found needs at least two posterior samples (n_draws), and one molecule that counts as the best "
            "(k)."
        )
    request = ScreenRequest(
        model=as_path(model),
        input=Input(source, format, fragments, accept_rejects),
        output=as_path(model),  # which is locked, so that nobody adds labels meanwhile
        k=k,
        rule=acquisition_for("thompson"),
        maximize=maximize,
        target=target,
        std="none",
        filters=FilterTexts(where, smarts, without_smarts, alerts, similar_to, least_similarity),
        products=SpaceOptions(within),
    )
    space = space_among(request.input.paths)
    population: Population = LibraryPopulation()
    if space is None:
        check_library_options(request)
    else:
        check_space_options(request)
        population = SpacePopulation(screen_below(request, request.filters), space)
    job = FoundJob(request, n_draws, exclude_by, population, FoundReport)
    return run(job, client, progress)
