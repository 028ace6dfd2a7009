"""Model + library -> the next batch of molecules to measure."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Literal, get_args

import pyarrow as pa
from distributed import Client

from daskrf.acquisition import Acquisition
from daskrf.commands import READING
from daskrf.commands.screen import (
    FILTERING,
    asked_for,
    check_library_options,
    check_output_of,
    check_space_options,
    read_fraction,
)
from daskrf.errors import OptionError, printable
from daskrf.files.backend import as_list, as_path
from daskrf.gp.validation.intervals import checked_levels, levels_of
from daskrf.jobs.job import run
from daskrf.jobs.shards import current_share
from daskrf.models.directions import words
from daskrf.models.models import Model
from daskrf.molecules.counts.spec import Fragments
from daskrf.molecules.structures import Level
from daskrf.parameters import Command, Option
from daskrf.quantities import amount
from daskrf.report.hitspage import write_hits_page
from daskrf.report.lines import report_text
from daskrf.report.notebook import OfInput
from daskrf.report.webpage import ENDING
from daskrf.screens.batch import SuggestJob
from daskrf.screens.budget import Budget
from daskrf.screens.candidates import CandidateSource, LibraryCandidates
from daskrf.screens.demands import Demands
from daskrf.screens.passing import FilterTexts
from daskrf.screens.plates import Plates
from daskrf.screens.request import SpaceOptions, SuggestRequest, are_several
from daskrf.screens.space.bestproducts import SpaceCandidates, screen_below
from daskrf.sources.given import Data
from daskrf.sources.inputs import Input
from daskrf.spaces.limits import ranges_of_texts
from daskrf.spaces.spacefiles import space_among
from daskrf.storage.hits import rejects_of
from daskrf.storage.outputs import output_or_temporary, rejects_beside
from daskrf.tables import TableFormat
from daskrf.workers.progress import Progress

Paths = str | os.PathLike[str]
Batch = Literal["ranked", "believer"]
Std = Literal["candidates", "all"]


def caps_of_texts(texts: Sequence[str]) -> dict[str, int]:
    """Return caps by column.

    Examples
    --------
    >>> caps_of_texts(["amine=3", "acid name=2"])
    {'amine': 3, 'acid name': 2}
    """
    caps: dict[str, int] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.strip().isdecimal():
            raise ValueError(f"give a column and a number, such as amine=3, not {text!r}.")
        caps[name.strip()] = int(number)
    return caps


def some_targets(texts: Sequence[str]) -> str | tuple[str, ...]:
    """Return a target, or several to improve at once."""
    return texts[0] if len(texts) == 1 else tuple(texts)


_PASSING = Option(section=FILTERING["where"].section)
_DIFFERENT = Option(section="Different molecules")
_SPACES = "Spaces"

CLI = Command(
    "daskrf suggest docking.model real.fingerprints -o batch.csv -n 500 --where 'weight < 450 and logp < 4' "
    "--alerts pains --max-similarity 0.7",
    step=5,
    options={
        "n": Option(least=1),
        "shortlist": Option(metavar="FRACTION|none|N", convert=read_fraction),
        "intervals": Option(metavar="50,80,95", convert=levels_of),
        "maximize": Option("--maximize/--minimize"),
        "seed": Option(least=0),
        "target": Option(metavar="NAME|SUM", repeated=True, convert=some_targets),
        **FILTERING,
        "require": Option(metavar="CONDITION", section=_PASSING.section),
        "reference": Option(metavar="CONDITION"),
        "exclude": _PASSING,
        "exclude_by": _PASSING,
        "same_fingerprint": Option("--same-fingerprint", section=_DIFFERENT.section),
        "max_similarity": _DIFFERENT,
        "per_scaffold": Option(least=1, section=_DIFFERENT.section),
        "budget": Option(metavar="SUM", section=_PASSING.section),
        "price": Option(metavar="COLUMN", section=_PASSING.section),
        "per_value": Option(
            metavar="COLUMN=N", repeated=True, convert=caps_of_texts, section=_DIFFERENT.section
        ),
        "plate": Option(metavar="96|384", section="Plates"),
        "controls": Option(metavar="FILE", section="Plates"),
        "within": Option(metavar="NAME=LOW:HIGH", repeated=True, convert=ranges_of_texts, section=_SPACES),
        "per_block": Option(least=1, section=_SPACES),
        "rough": Option(section=_SPACES),
        "rough_components": Option(least=2, section=_SPACES),
        "fragments": READING,
        "accept_rejects": READING,
    },
    without=("format__extra",),
    resumable=True,
    shards=True,
)


@dataclass(frozen=True)
class SuggestReport(OfInput):
    """What `suggest` chose.

    Attributes
    ----------
    batch : Path or None
        The file: rank, smiles, id, mean, std, std_y, acquisition, similarity_to_labelled, nearest_labelled,
        why, row, source, line. For a space, reaction, blocks and properties take the place of source and
        line. None if there is no output.
    table : pyarrow.Table
        The same.
    rows, rejected : int
        Molecules scored, and rejected rows of SMILES files.
    acquisition : str
    target : str
    direction : {"maximize", "minimize", "each"}
        "each" if several targets are improved at once; `target` then says how.
    left_out : dict of str to int
        Number of molecules that were tested and left out, by the first condition that they failed, and of
        candidates left out because of a better pick.
    seconds : float
    notes : tuple of str
        What was assumed, left out or counted.
    inputs : tuple of str
        How SMILES files were read: one line for each layout.
    rejects : pyarrow.Table or None
        The rejected rows, if there is no output: row, source, line, text and reason.
    """

    batch: PurePath | None
    table: pa.Table = field(repr=False)
    rows: int
    rejected: int
    acquisition: str
    target: str
    direction: str
    left_out: Mapping[str, int]
    seconds: float
    notes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    rejects: pa.Table | None = field(default=None, repr=False)

    def __str__(self) -> str:
        how = f"{words(self.direction == 'maximize')} '{printable(self.target, 60)}'"
        if self.direction == "each":
            how = f"for {printable(self.target, 200)}"
        where = "" if self.batch is None else f", in {self.batch}"
        first = (
            f"batch of {amount(self.table.num_rows, 'molecules')} from {self.rows:,} by {self.acquisition}, "
            f"{how}{where} ({self.seconds:.1f} s)"
        )
        rejects = None if self.batch is None else rejects_of(self.batch)
        return report_text(first, self.inputs, rejected=self.rejected, rejects=rejects, notes=self.notes)


def suggest(
    model: Paths,
    source: Data | Sequence[Data],
    output: Paths | None = None,
    *,
    n: int = 500,
    acquisition: Acquisition | str | None = None,
    batch: Batch = "ranked",
    std: Std = "candidates",
    intervals: float | Sequence[float] | None = None,
    maximize: bool | None = None,
    where: str | Sequence[str] = (),
    smarts: str | Sequence[str] = (),
    without_smarts: str | Sequence[str] = (),
    alerts: str | Sequence[str] = (),
    similar_to: str | Sequence[str] = (),
    least_similarity: float | None = None,
    nearest: int | None = None,
    require: str | Sequence[str] = (),
    exclude: Data | Sequence[Data] = (),
    exclude_by: Level = "tautomer",
    same_fingerprint: bool = False,
    max_similarity: float | None = None,
    per_scaffold: int | None = None,
    per_value: Mapping[str, int] | None = None,
    budget: float | None = None,
    price: str | None = None,
    plate: int | None = None,
    controls: Paths | None = None,
    shortlist: float | None = None,
    seed: int | None = None,
    target: str | int | Mapping[str, float] | Sequence[str | int] | None = None,
    reference: str | Sequence[str] = (),
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
) -> SuggestReport:
    """Choose the next molecules to measure.

    Predicts every molecule of a library, and ranks the candidates that pass all filters: the molecules with
    the best means, or all of them (see --std). Labelled molecules and copies of them are left out, however
    their SMILES are written. If the candidates run out, it screens again for more. Measure the batch, add the
    results to the model with `daskrf add`, and ask for the next batch. For a make-on-demand space, the batch
    is chosen from the best products of a screen.

    Parameters
    ----------
    model : path
        Directory of the model, as written by fit or add.
    source : path, or sequence of paths
        A fingerprint store, a feature store, SMILES files, or a make-on-demand space (see `check_space`),
        whose products are never listed. Features made here are not stored.
    output : path, optional
        File of the batch; its ending chooses the format: .csv, .parquet, .sdf or .smi, also with .gz,
        .xlsx (with openpyxl), or .html, a page as `page` makes. In Python it may be left out, as in `screen`.
    n : int
        Number of molecules; with --budget the most there may be.
    acquisition : Acquisition or str, optional
        Rank by the mean (greedy), the confidence bound (ucb), expected improvement (ei), the probability of
        improvement (pi), or posterior samples of the whole function (thompson): each pick is the best
        molecule of a different sample, as long as the model has more samples. Default: ucb. In Python also
        the rule itself.
    batch : {"ranked", "believer"}
        How ucb, ei and pi choose a batch: by their scores (ranked), or one by one, where each pick counts as
        measured at its mean, so similar molecules become less interesting (believer).
    std : {"candidates", "all"}
        Which molecules ucb, ei and pi rank: the 10 n with the best means, at least 5,000 (candidates), or all
        (all), which takes a standard deviation of each molecule, at M^2 / 2 multiply-adds. If a library has
        fewer molecules than that, all are ranked in any case.
    intervals : float or sequence of float, optional
        As in `screen`.
    maximize : bool, optional
        As in `screen`.
    where : str or sequence of str
        Conditions that molecules must meet, such as "weight < 450 and 1 < logp < 4". Names are columns that
        the library keeps (--keep-columns) or a file has, or weight, logp, tpsa, rotatable bonds, donors,
        acceptors, rings, aromatic rings, heavy atoms, charge, and fraction sp3. Columns may also be compared
        with texts and lists, searched for a piece of text, or tested for presence, as in 'supplier in
        [Enamine, Mcule] and not name ~ "salt" and CAS present'; `docs/filters.md` has the grammar. An empty
        cell is not equal to any text. Put a name that holds a comma or a sign in quotes, as in '"Price, USD"
        < 90'.
    smarts : str or sequence of str
        A pattern that each molecule must contain.
    without_smarts : str or sequence of str
        A pattern that no molecule may contain.
    alerts : str or sequence of str
        Leave out molecules with structural alerts of these catalogs of RDKit: pains, brenk, nih, zinc.
    similar_to : str or sequence of str
        SMILES of a molecule that each molecule must be similar to; of several, to one of them. Similarity is
        the Tanimoto similarity of Morgan counts of radius 2, as in `search`.
    least_similarity : float, optional
        The least similarity to one of these molecules. Default: 0.5, unless the nearest are asked for.
    nearest : int, optional
        In a space, only this number of products can be chosen, the most similar to the molecule, or to each
        of several. Other filters then leave out some of these.
    require : str or sequence of str
        Conditions on other targets of the model, such as "logD < 3 and hERG < 5". The score of a molecule is
        multiplied by the probability that it meets them. For ucb and greedy, the score is then measured from
        the prior mean of the target; for ei and pi it is the expected improvement or its probability. All
        molecules then get standard deviations, which costs more.
    exclude : path or sequence of paths
        Files of molecules to leave out, such as earlier batches, or fingerprint stores. They may be empty.
    exclude_by : {"structure", "parent", "tautomer", "skeleton"}
        What counts as the same molecule as a labelled one, one of an excluded file, or a better pick: the
        structure, however its SMILES is written; the parent, which is the largest fragment that is not a
        usual counter-ion or solvent, without charges, so that salts and anions are the same; the tautomer,
        which is the parent in any tautomer; or the skeleton, which is the tautomer without stereochemistry
        and isotopes. Above 200,000 labelled molecules, these are compared by structure, and the report says
        so.
    same_fingerprint : bool
        Pick several molecules with the same fingerprint, too, such as stereoisomers that the fingerprint does
        not tell apart. Default: the first of them.
    max_similarity : float, optional
        Leave out molecules with a Tanimoto similarity above this to a better pick (ECFP4), such as 0.7.
    per_scaffold : int, optional
        Take at most this number of molecules with the same Murcko scaffold.
    per_value : dict of str to int, optional
        Take at most this number of molecules with the same value of a column of the library, such as a
        building block or a supplier: on the command line, amine=3. Molecules without a value are not limited.
    budget : float, optional
        What the batch may cost in all, by the column --price. Molecules are taken in the order of the rule;
        one that costs more than is left is passed over. The batch has `n` molecules at most, and ends when
        what is left buys no candidate. Molecules without a price are left out, and counted.
    price : str, optional
        Column of the library with the price of each molecule, for --budget.
    plate : {96, 384}, optional
        Lay the batch out on plates of this number of wells: columns plate, from 1, and well, from A01, row by
        row in the order of rank. A larger batch takes several plates.
    controls : path, optional
        Table, such as controls.csv, of wells that are left to controls: a column well, one of names if there
        is one, and plate for controls of one plate alone. The report names them, and files of rows (.csv,
        .xlsx, .parquet) have them among the molecules.
    shortlist : float, optional
        As in `screen`.
    seed : int, optional
        Seed of the posterior samples of thompson. Default: 0. An exact process fitted by conjugate gradients
        has samples of its own.
    target : str, int, dict of str to float, or sequence of str, optional
        Target to rank by; needed only if the model has several. Or a weighted sum of targets, written as
        "pIC50 - 0.5 logD", in the units of the labels, with --maximize or --minimize if the directions of the
        targets do not determine it. Or give --target two or three times to improve several targets at once:
        the batch then adds most to the hypervolume of the best trade-offs. A molecule counts as labelled if
        it has labels of all of them.
    reference : str or sequence of str
        If several targets are improved, the values that molecules must reach to count, such as "pIC50 > 6 and
        logD < 3". Default: the worst values among the best trade-offs measured so far, less a tenth of their
        range, or the median labels if no molecule has labels of all targets.
    overwrite : bool
        Replace a batch at the output.
    within : dict of str to (float or None, float or None), optional
        As in `screen`.
    per_block : int, optional
        For a space, take at most this number of molecules with the same building block, in any slot.
    rough, rough_components
        As in `screen`.
    format, fragments
        As in `predict`.
    accept_rejects, client, progress
        As in `fingerprint`. Shards score; the last command chooses.
    **settings
        Settings of the rule that `acquisition` names, such as ``kappa=3.0`` for "ucb".

    Returns
    -------
    SuggestReport

    Raises
    ------
    InputError
        If fewer molecules than asked for pass, options contradict each other, it is not known whether large
        or small values are good, or the library's fingerprints or features are not those of the model.
    StoreError
        If there is a file at `output`.

    Notes
    -----
    Filters run within the screening tasks, on the molecules that score well enough to be among the
    candidates. So with greedy, thompson and an exact ranking of the whole library, the batch is the same as
    if every molecule were tested. With ucb, ei and pi, it is the best of the candidates: the 10 n molecules
    with the best means that pass, and at least 5,000. Because of this minimum, a batch of up to 500 molecules
    begins with those of any smaller batch. With ``std="all"`` it is the best of all. Believer chooses from
    the best 4,000 of these, or the best 2 n if that is more.

    In a space, the candidates are the best products by the rule, as `screen` ranks them. Limits (`within`),
    patterns and alerts hold during this ranking, but patterns with $( ), ^ or z, which look beyond an atom
    and its bonds, and alerts that have these or count occurrences. These, other filters, conditions on other
    targets and posterior samples see only the candidates. A
    model that ranks all products itself maximizes each posterior sample over the whole space; samples of
    other models are compared on the 10 n products (at least 1,000) with the largest ucb of kappa 2.

    A budget keeps to the order of the rule: no molecule that could have been paid stands before a pick in the
    order in which picks were made. This is the greedy rule for a sum of scores under a limit on the sum of
    prices, by score and not by score per price: scores of most rules have no zero, so that their ratio to a
    price means nothing. To keep out the dear ones, add --where "Price < 200".

    Source of the batch rules: see `daskrf.acquisition.believer`, `daskrf.molecules.diversity` and, for
    Thompson sampling, Hernandez-Lobato et al. 2017 (ICML).
    """
    several = are_several(target)
    usual = {"batch": (batch, "ranked"), "std": (std, "candidates")}
    changed = {name: value for name, (value, default) in usual.items() if value != default}
    _check_several(
        several, {"acquisition": acquisition, **changed, "shortlist": shortlist, **settings}, reference
    )
    named = "thompson" if several else acquisition or "ucb"  # which draws, too
    rule, maximize = asked_for(named, maximize, settings)
    _check_std(std, rule, several)
    _check(n, rule, batch, max_similarity, per_scaffold, seed)
    if output is not None:
        check_output_of(as_path(output), n)
    plates = Plates.of(plate, controls)
    demands = Demands(
        filters=FilterTexts(where, smarts, without_smarts, alerts, similar_to, least_similarity, nearest),
        exclude=tuple(as_list(exclude)),
        max_similarity=max_similarity,
        per_scaffold=per_scaffold,
        per_value=dict(per_value or {}),
        require=_as_texts(require),
        per_block=per_block,
        exclude_by=exclude_by,
        same_fingerprint=same_fingerprint,
        budget=Budget.of(budget, price),
    )
    with output_or_temporary(output, "batch.parquet", shared=not current_share().whole) as place:
        request = SuggestRequest(
            model=as_path(model),
            input=Input(source, format, fragments, accept_rejects),
            output=place,
            k=n,
            rule=rule,
            maximize=maximize,
            target=target,
            std=std,
            intervals=() if intervals is None else checked_levels(intervals),
            seed=seed or 0,
            shortlist=shortlist,
            overwrite=overwrite,
            products=SpaceOptions(within, per_block, rough, rough_components),
            batch=batch,
            demands=demands,
            reached=_as_texts(reference),
            plates=plates,
        )
        candidates = _candidates_of(request)
        if isinstance(candidates, SpaceCandidates):
            request = replace(request, shortlist=None)  # that of the screen: its products are all candidates
        report = run(SuggestJob(request, candidates, SuggestReport, _page_of), client, progress)
        if output is None:
            return replace(report, batch=None, rejects=rejects_beside(place))
        return report


def _candidates_of(request: SuggestRequest) -> CandidateSource:
    """Return where candidates come from: a library or a space."""
    space = space_among(request.input.paths)
    if space is None:
        check_library_options(request)
        return LibraryCandidates()
    if request.improves_several:
        raise OptionError(
            "Several targets can be improved at once in a library, not in a space; give a weighted sum, "
            "such as --target 'pIC50 - 0.5 logD'."
        )
    if request.std != "candidates":
        raise OptionError(
            "Standard deviations of all products of a space would take too long; leave out --std all: the "
            "best products get them."
        )
    below = screen_below(request, request.demands.filters, accept_rejects=bool(request.demands.exclude))
    check_space_options(below)
    return SpaceCandidates(below, space)


def _page_of(
    output: PurePath, about: dict[str, object], model: Model, path: PurePath, title: str
) -> Callable[[pa.Table, Path], None] | None:
    """Return the function that writes the batch as a page, if that is what the output is."""
    if output.suffix.lower() != ENDING:
        return None
    return functools.partial(write_hits_page, about=about, model=model, model_path=path, title=title)


def _check_several(several: bool, options: Mapping[str, object], reference: str | Sequence[str]) -> None:
    """Refuse options that do not apply to several targets, or to one."""
    if not several and reference:
        raise OptionError("--reference is for several targets that are improved at once; leave it out.")
    named = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if several and named:
        raise OptionError(
            f"Several targets are improved at once by the expected hypervolume; leave out "
            f"{', '.join(named)}, or weigh the targets in one sum."
        )


def _as_texts(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _check(
    n: int,
    rule: Acquisition,
    batch: str,
    max_similarity: float | None,
    per_scaffold: int | None,
    seed: int | None,
) -> None:
    """Refuse impossible options."""
    if n < 1:
        raise OptionError(f"The number of molecules must be at least 1, not {n}.")
    if batch not in get_args(Batch):
        raise OptionError(f"batch is one of {', '.join(get_args(Batch))}, not {batch!r}.")
    if batch == "believer" and not rule.needs_std:
        raise OptionError(
            f"{rule.name} does not use standard deviations, so --batch believer changes nothing; take "
            "ucb, ei or pi, or leave it out."
        )
    if seed is not None and not rule.needs_sample:
        raise OptionError(f"--seed is for random draws, but {rule.name} draws nothing; leave it out.")
    if max_similarity is not None and not 0 <= max_similarity <= 1:
        raise OptionError(f"max_similarity must be from 0 to 1, not {max_similarity}.")
    if per_scaffold is not None and per_scaffold < 1:
        raise OptionError(f"per_scaffold must be at least 1, not {per_scaffold}.")


def _check_std(std: str, rule: Acquisition, several: bool) -> None:
    """Refuse deviations of all molecules where no rule ranks by them."""
    if std not in get_args(Std):
        raise OptionError(f"std is one of {', '.join(get_args(Std))}, not {std!r}.")
    if std == "all" and not rule.needs_std and not several:
        raise OptionError(
            f"{rule.name} ranks all molecules without standard deviations; leave out --std all, or take ucb, "
            "ei or pi."
        )
