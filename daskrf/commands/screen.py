"""Model + library -> the best k molecules by an acquisition function."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Literal, get_args

import pyarrow as pa
from distributed import Client

from daskrf.acquisition import Acquisition, acquisition_for
from daskrf.commands import READING
from daskrf.errors import InputError, OptionError, check_type, printable
from daskrf.files.backend import as_path
from daskrf.gp.validation.intervals import checked_levels, levels_of
from daskrf.jobs.job import run
from daskrf.jobs.shards import current_share
from daskrf.models.directions import words
from daskrf.models.models import Model
from daskrf.molecules.counts.spec import Fragments
from daskrf.molecules.structures import LEVELS, Level
from daskrf.parameters import Command, Option
from daskrf.quantities import amount
from daskrf.report.hitspage import screen_command, write_hits_page
from daskrf.report.lines import report_text
from daskrf.report.notebook import OfInput
from daskrf.report.webpage import ENDING, check_rows
from daskrf.screens.libraryscreen import ScreenJob
from daskrf.screens.passing import FilterTexts
from daskrf.screens.request import ScreenRequest, SpaceOptions
from daskrf.screens.space.productranking import shortlist_of_space
from daskrf.screens.space.screen import SpaceScreenJob
from daskrf.sources.given import Data
from daskrf.sources.inputs import Input
from daskrf.spaces.limits import ranges_of, ranges_of_texts
from daskrf.spaces.spacefiles import space_among
from daskrf.storage.outputs import output_or_temporary, rejects_beside
from daskrf.storage.tablefiles import check_ending
from daskrf.tables import TableFormat
from daskrf.workers.progress import Progress

Paths = str | os.PathLike[str]
Std = Literal["candidates", "all", "none"]


def one_target(texts: Sequence[str]) -> str:
    """Return the one target that is named."""
    if len(texts) > 1:
        names = " and ".join(f"'{name}'" for name in texts)
        raise ValueError(
            f"a screen ranks by one target, and not by {names}; a weighted sum counts as one target, such as "
            f"'{' + '.join(texts)}'."
        )
    return texts[0]


def read_fraction(text: str) -> float:
    """Return a fraction of the library, or a number of products; "none" means all of a library."""
    return 1.0 if text == "none" else float(text)


FILTERING: dict[str, Option] = {
    name: Option(metavar=word, section="Which molecules may be chosen")
    for name, word in (
        ("where", "CONDITION"),
        ("smarts", "SMARTS"),
        ("without_smarts", "SMARTS"),
        ("alerts", "NAME"),
        ("similar_to", "SMILES"),
    )
}
FILTERING["least_similarity"] = Option(section=FILTERING["where"].section)
FILTERING["nearest"] = Option(least=1, section="Spaces")

CLI = Command(
    "daskrf screen docking.model real.fingerprints -o hits.parquet -k 1000 --acquisition ucb --minimize",
    step=5,
    options={
        "k": Option(least=1),
        "shortlist": Option(metavar="FRACTION|none|N", convert=read_fraction),
        "intervals": Option(metavar="50,80,95", convert=levels_of),
        "maximize": Option("--maximize/--minimize"),
        "seed": Option(least=0),
        "target": Option(metavar="NAME|SUM", repeated=True, convert=one_target),
        **FILTERING,
        "within": Option(metavar="NAME=LOW:HIGH", repeated=True, convert=ranges_of_texts, section="Spaces"),
        "per_block": Option(least=1, section="Spaces"),
        "rough": Option(section="Spaces"),
        "rough_components": Option(least=2, section="Spaces"),
        "fragments": READING,
        "accept_rejects": READING,
    },
    resumable=True,
    shards=True,
)


@dataclass(frozen=True)
class ScreenReport(OfInput):
    """What `screen` found.

    Attributes
    ----------
    hits : Path or None
        The file: rank, row, id, smiles, source, line, mean, std, std_y, acquisition, columns of the input.
        None if there is no output.
    table : pyarrow.Table
        The same.
    rows, rejected : int
        Molecules scored, and rejected rows of SMILES files.
    rejects : Path or None
    acquisition : str
    seconds : float
    target : str
        The target that was predicted.
    direction : {"maximize", "minimize"}
        Whether large or small values of the target are good.
    notes : tuple of str
        What was assumed, left out or counted.
    inputs : tuple of str
        How SMILES files were read: one line for each layout.
    left_out : pyarrow.Table or None
        The rejected rows, if there is no output: row, source, line, text and reason.
    """

    hits: PurePath | None
    table: pa.Table = field(repr=False)
    rows: int
    rejected: int
    rejects: PurePath | None
    acquisition: str
    seconds: float
    target: str
    direction: str
    notes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    left_out: pa.Table | None = field(default=None, repr=False)

    def __str__(self) -> str:
        how = f"{words(self.direction == 'maximize')} '{printable(self.target, 60)}'"
        where = "" if self.hits is None else f", in {self.hits}"
        first = (
            f"best {self.table.num_rows:,} of {amount(self.rows, 'molecules')} by {self.acquisition}, {how}"
            f"{where} ({self.seconds:.1f} s)"
        )
        rejects = self.rejects
        return report_text(first, self.inputs, rejected=self.rejected, rejects=rejects, notes=self.notes)


def screen(
    model: Paths,
    source: Data | Sequence[Data],
    output: Paths | None = None,
    *,
    k: int = 1000,
    acquisition: Acquisition | str = "greedy",
    maximize: bool | None = None,
    std: Std = "candidates",
    intervals: float | Sequence[float] | None = None,
    shortlist: float | None = None,
    seed: int | None = None,
    target: str | int | Mapping[str, float] | None = None,
    where: str | Sequence[str] = (),
    smarts: str | Sequence[str] = (),
    without_smarts: str | Sequence[str] = (),
    alerts: str | Sequence[str] = (),
    similar_to: str | Sequence[str] = (),
    least_similarity: float | None = None,
    nearest: int | None = None,
    exclude_labelled: bool = False,
    exclude_by: Level | None = None,
    overwrite: bool = False,
    within: Mapping[str, Sequence[float | None]] | None = None,
    per_block: int | None = None,
    rough: Literal["fourier", "linear"] | None = None,
    rough_components: int | None = None,
    format: TableFormat | None = None,
    fragments: Fragments | None = None,
    accept_rejects: bool = False,
    client: Client | None = None,
    progress: Progress | None = None,
    **settings: object,
) -> ScreenReport:
    """Find the best molecules of a library.

    Scores every molecule of a library of any size, in bounded memory. The hits come best first, with these
    columns::

      rank, row, id, smiles  rank, from 1; row number in the library, from 0
      source, line           the file, and the line in it, from 1
      mean, std              of the predicted function
      std_y                  of a new measurement, noise included
      probability            of the positive class, for two classes
      acquisition            the score that ranks, larger is better: minus the
                             mean for greedy with --minimize, logarithms for ei
                             and pi
      further columns        of the input, as text

    Parameters
    ----------
    model : path
        Directory of the model, as written by fit.
    source : path, or sequence of paths
        A fingerprint store, a feature store, SMILES files, or a make-on-demand space (see `check_space`),
        whose products are never listed. Features made here are not stored. In Python also a DataFrame, a list
        of SMILES, or a list of RDKit molecules.
    output : path, optional
        File of the hits, best first; its ending chooses the format: .csv, .parquet, .sdf or .smi, also
        .csv.gz and so on, .xlsx (with openpyxl), or .html, a page as `page` makes. The model, library and
        options of the hits are recorded in the metadata of a Parquet file, and in a hidden file beside any
        other. In Python it may be left out: nothing is kept then but the report, whose `to_pandas()` returns
        the hits.
    k : int
        Number of molecules to keep.
    acquisition : Acquisition or str
        Rank by the mean (greedy), the confidence bound (ucb), expected improvement (ei), the probability of
        improvement (pi), one posterior sample of the whole function (thompson), or for two classes by the
        probability of the positive one (probability, which takes the place of greedy). In Python also the
        rule itself, with its settings; if its `maximize` is true, that counts.
    maximize : bool, optional
        Whether large or small values are good. Not needed if the model was fitted with a direction.
    std : {"candidates", "all", "none"}
        Which molecules get a standard deviation, at M^2 / 2 multiply-adds each. With all, rules that need it
        are exact; by a model on features, molecules that cannot be hits by an upper bound get none. With
        candidates, only the hits get one, and such rules rank the 10 k molecules with the best means (at
        least 5,000), which is an approximation.
    intervals : float or sequence of float, optional
        Levels in percent, such as 50,80,95: columns low_95 and high_95, as in `predict`. For one target.
    shortlist : float, optional
        For an exact process: the fraction of the library to rank in full, above 0 and up to 1. The molecules
        are chosen by a surrogate on landmarks, which costs far less. Default: large enough to keep 99 % of
        the best molecules of a sample; all molecules in a library of fewer than 100,000.
    seed : int, optional
        Seed of the posterior sample of thompson. Default: 0. For an exact process, the number of the sample.
        Other rules refuse a seed, because they are not random.
    target : str, int, or dict of str to float, optional
        Target to rank by; needed only if the model has several. Or a weighted sum of targets, written as
        "pIC50 - 0.5 logD", in the units of the labels, with --maximize or --minimize if the directions of the
        targets do not determine it. In Python also a dict of weights by name.
    where, smarts, without_smarts, alerts, similar_to, least_similarity, nearest
        As in `suggest`. The report says how many of the best molecules each filter left out. In a space,
        similarity holds during the search, and so do patterns and alerts where synthons decide them: the
        report says how many products pass. The best of these are tested for the others, until k pass.
    exclude_labelled : bool
        Leave out the molecules that have labels, in any library or space.
    exclude_by : {"structure", "parent", "tautomer", "skeleton"}, optional
        What counts as a labelled molecule, as in `suggest`. Default: the tautomer.
    overwrite : bool
        Replace the hits of another search at the output.
    within : dict of str to (float or None, float or None), optional
        Limits on the products of a space: lower and upper limit of heavy_atoms, weight, donors (of hydrogen
        bonds), rings or polar_surface. Products outside are left out during the search. Without limits, the
        molecules with the best means are often larger than any labelled one.
    per_block : int, optional
        For a space, take at most this number of hits with the same building block: the best ones.
    rough : {"fourier", "linear"}, optional
        Surrogate that ranks all products of a space if the model cannot: Fourier features, which are better,
        or a linear function of counts, which takes minutes for 5 10^11 products. Default: linear above 2
        10^10 products.
    rough_components : int, optional
        Number of Fourier features of the surrogate of a space. Default: 1,024. With more, the search takes
        longer in proportion, and the shortlist holds more of the best products.
    format, fragments
        As in `predict`.
    accept_rejects, client, progress
        As in `fingerprint`.
    **settings
        Settings of the rule that `acquisition` names, such as ``kappa=3.0`` for "ucb" and ``best=-9.0`` for
        "ei".

    Returns
    -------
    ScreenReport

    Raises
    ------
    InputError
        If options contradict each other, it is not known whether large or small values are good or which of
        several targets is meant, or the library's fingerprints or features are not those of the model.
    StoreError
        If `output` holds the hits of another search; the message names what differs.
    """
    _check_options(k, std, output)
    rule, maximize = asked_for(acquisition, maximize, settings)
    if rule.needs_std and std == "none":
        raise OptionError(f"{rule.name} needs standard deviations to rank by: do not set --std none.")
    if seed is not None and not rule.needs_sample:
        raise OptionError(f"--seed is for a random draw, but {rule.name} draws nothing; leave it out.")
    filters = FilterTexts(where, smarts, without_smarts, alerts, similar_to, least_similarity, nearest)
    level = _level_of(exclude_by, exclude_labelled=exclude_labelled)
    with output_or_temporary(output, "hits.parquet", shared=not current_share().whole) as place:
        request = ScreenRequest(
            model=as_path(model),
            input=Input(source, format, fragments, accept_rejects),
            output=place,
            k=k,
            rule=rule,
            maximize=maximize,
            target=target,
            std=std,
            intervals=() if intervals is None else checked_levels(intervals),
            seed=seed or 0,
            shortlist=shortlist,
            overwrite=overwrite,
            filters=filters,
            exclude_labelled=exclude_labelled,
            exclude_by=level,
            products=SpaceOptions(within, per_block, rough, rough_components),
        )
        report = run(_job_of(request), client, progress)
        if output is None:
            return replace(report, hits=None, rejects=None, left_out=rejects_beside(place))
        return report


def _job_of(request: ScreenRequest) -> ScreenJob | SpaceScreenJob:
    """Return the job that screens a library or a space."""
    space = space_among(request.input.paths)
    if space is None:
        check_library_options(request)
        return ScreenJob(request, ScreenReport, _page_of)
    request.filters.of(())  # refuses what cannot be read, and columns, which products do not have
    check_space_options(request)
    return SpaceScreenJob(request, space, ScreenReport, _page_of)


def _level_of(level: Level | None, *, exclude_labelled: bool) -> Level:
    """Return the level that is asked for; refuse an unknown one, and one that nothing is compared by."""
    if level is None:
        return "tautomer"
    if level not in LEVELS:
        raise OptionError(f"exclude_by is one of {', '.join(LEVELS)}, not {level!r}.")
    if not exclude_labelled:
        raise OptionError("--exclude-by goes with --exclude-labelled; leave it out.")
    return level


def _check_options(k: int, std: str, output: Paths | None) -> None:
    """Refuse impossible options."""
    if k < 1:
        raise OptionError(f"The number of hits must be at least 1, not {k}.")
    if std not in get_args(Std):
        raise OptionError(f"std is one of candidates, all, none, not {std!r}.")
    if output is not None:
        check_output_of(as_path(output), k)


def check_output_of(output: PurePath, n: int) -> None:
    """Refuse an output that is neither a table of molecules nor a page, and a page of too many molecules."""
    check_ending(output, others=(ENDING,), n_rows=n)
    if output.suffix.lower() == ENDING:
        check_rows(n)


def check_library_options(request: ScreenRequest) -> None:
    """Refuse options of spaces, and an impossible shortlist of a library."""
    shortlist = request.shortlist
    if any(vars(request.products).values()):
        raise OptionError(
            "--within, --per-block, --rough and --rough-components are for the products of a space; leave "
            "them out."
        )
    if shortlist is not None and not 0 < shortlist <= 1:
        raise OptionError(
            f"shortlist must be a fraction above 0 and up to 1 (1 means no shortlist), not {shortlist}."
        )


def check_space_options(request: ScreenRequest) -> None:
    """Refuse options that are for libraries only, and impossible ones."""
    input = request.input
    options = {
        "--fragments": input.fragments is not None,
        "--accept-rejects": input.accept_rejects,
        "options on how to read SMILES files": input.format is not None and input.format != TableFormat(),
    }
    for name, is_given in options.items():
        if is_given:
            raise OptionError(f"A space is not a library of SMILES or of rows: leave out {name}.")
    ranges_of(request.products.within)
    shortlist_of_space(request)


def asked_for(
    acquisition: Acquisition | str, maximize: bool | None, settings: dict[str, object]
) -> tuple[Acquisition, bool | None]:
    """Return the rule that is asked for, and whether large values are said to be good, if known."""
    if isinstance(acquisition, str):
        chosen = {name: value for name, value in settings.items() if value is not None}
        return acquisition_for(acquisition, **chosen), maximize
    check_type("acquisition", acquisition, Acquisition, '"ucb"')
    if settings:
        raise InputError(f"Give {', '.join(settings)} to the acquisition itself, or name its rule instead.")
    if acquisition.maximize and maximize is False:
        raise InputError("The acquisition has maximize=True, but maximize is False; leave one of them out.")
    return acquisition, acquisition.maximize or maximize


def _page_of(
    output: PurePath, about: dict[str, object], model: Model, path: PurePath
) -> Callable[[pa.Table, Path], None] | None:
    """Return the function that writes the hits as a page, if that is what the output is."""
    if output.suffix.lower() != ENDING:
        return None
    command = screen_command(about, output.name)
    return functools.partial(write_hits_page, about=about, model=model, model_path=path, command=command)
