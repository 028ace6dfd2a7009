"""Model + library -> the next batch of molecules to measure."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from distributed import Client

from daskrf.acquisition import Acquisition, acquisition_for
from daskrf.acquisition.believer import Believer
from daskrf.acquisition.hypervolume import (
    HypervolumeGain,
    directions,
    on_front,
    reference_point,
    scalarized,
)
from daskrf.acquisition.requirement import Requirement, weighed
from daskrf.blas import ONE_BLAS_THREAD
from daskrf.commands import READING
from daskrf.commands.screen import (
    FILTERING,
    Found,
    PassingSearch,
    ScreenJob,
    Search,
    asked_for,
    check_library_options,
    predictions_of,
    read_fraction,
    space_screen,
    table_of_rows,
    tested_words,
)
from daskrf.errors import InputError, OptionError, printable
from daskrf.files.backend import as_list, as_path, backend
from daskrf.files.disk import file_errors
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import SummedProcess, Target, WeightedSum, joint_prediction, targets_in
from daskrf.jobs.job import Need, Run, run
from daskrf.jobs.memory import PIECES, MemoryNeed, peak
from daskrf.jobs.pieces import Pieces
from daskrf.jobs.shards import AnyShard, ShardReport
from daskrf.models.directions import maximizes, target_of, words
from daskrf.models.models import Model, read_model
from daskrf.models.modelsource import source_for
from daskrf.models.targets import measured_of, names_in
from daskrf.molecules.counts.fingerprints import equal_fingerprints
from daskrf.molecules.counts.similarity import nearest
from daskrf.molecules.counts.spec import FingerprintSpec, Fragments
from daskrf.molecules.diversity import REASONS, TAKEN, Diversity
from daskrf.molecules.filters import Limit, limits_of
from daskrf.molecules.structures import LEVEL_WORDS, LEVELS, KnownStructures, Level
from daskrf.parameters import Command, Option
from daskrf.quantities import amount, listed
from daskrf.report.hitspage import write_hits_page
from daskrf.report.notebook import OfInput
from daskrf.report.webpage import ENDING, check_rows
from daskrf.screening import TopK
from daskrf.screens.draws import drawn_values
from daskrf.screens.passing import Excluded, FilterTexts, Passing, columns_of, reason_of
from daskrf.screens.request import ScreenRequest, SpaceOptions
from daskrf.screens.shortlist import n_candidates
from daskrf.screens.space.hits import Candidates as Products
from daskrf.screens.space.screen import SpaceScreen
from daskrf.screens.space.surrogate import ranks_itself
from daskrf.sources.given import Data
from daskrf.sources.inputs import Input, inputs_of, source_words
from daskrf.sources.sources import Block, Source
from daskrf.sources.wholefile import smiles_in
from daskrf.spaces.limits import ranges_of_texts
from daskrf.spaces.spacefiles import space_among
from daskrf.storage.hits import refuse_foreign, rejects_of, write_hits, write_rejects
from daskrf.storage.outputs import guarded, refuse_others
from daskrf.storage.tablefiles import PARQUET, beside, check_ending, write_molecules
from daskrf.tables import TableFormat, given_words
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
    found: dict[str, int] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.strip().isdecimal():
            raise ValueError(f"give a column and a number, such as amine=3, not {text!r}.")
        found[name.strip()] = int(number)
    return found


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
        "per_value": Option(
            metavar="COLUMN=N", repeated=True, convert=caps_of_texts, section=_DIFFERENT.section
        ),
        "within": Option(metavar="NAME=LOW:HIGH", repeated=True, convert=ranges_of_texts, section=_SPACES),
        "per_block": Option(least=1, section=_SPACES),
        "rough": Option(section=_SPACES),
        "rough_components": Option(least=2, section=_SPACES),
        "fragments": READING,
        "accept_rejects": READING,
    },
    without=("format__extra",),
    resumable=True,
)

_SIGNS = ("<", "<=", ">", ">=")
_LEAST_LOG = -700.0  # logarithm of a probability that is not 0 in double precision
_TAKEN = ("mean", "std", "std_y", "acquisition")  # of the candidates, and given again for the batch
_DEEPER = 4  # times as many candidates, where those there are do not make a batch
_MOST_DRAWS = 100  # of Thompson sampling: each costs additions at every molecule
_PER_DRAW = 8  # candidates of a draw for each of its picks: draws often agree on the best
_AT_ONCE = (2, 3)  # targets
_WAYS = 16  # directions in which candidates for several targets are looked for
_JOINT_DRAWS = 64  # of which the expected hypervolume is the mean
_LEAST_SPREAD = 1e-9
_JOINT = 4000  # candidates whose covariance is computed, if 2 n are not more
_JOINT_SOLVED = 1000  # the same, where each takes a solution by conjugate gradients
_MOST_COMPARED = 100_000  # labelled molecules that a batch is compared with
_DEEPEST = 64  # times the products that a space is first asked for: more would take hours
_PER_PICK = 10  # products of a space, among which draws or other targets choose
_LEAST_DRAWN = 1000  # products of a space that draws are compared on, or that are asked for other targets
_DRAWN_KAPPA = 2.0  # of the ucb that chooses them: where a draw is best, mean or deviation are large


@dataclass(frozen=True)
class SuggestReport(OfInput):
    """What `suggest` chose.

    Attributes
    ----------
    batch : Path
        The file: rank, smiles, id, mean, std, std_y, acquisition, similarity_to_labelled, nearest_labelled,
        why, row, source, line. Of a space, there are reaction, blocks and properties in place of source and
        line.
    table : pyarrow.Table
        The same.
    rows, rejected : int
        Molecules scored, and rejected rows of SMILES files.
    acquisition : str
    target : str
    direction : {"maximize", "minimize", "each"}
        Each where several targets are improved at once: `target` says how.
    left_out : dict of str to int
        Molecules that scored well enough to be tested, by the first demand that they did not meet, and
        candidates left out because of a pick.
    seconds : float
    notes : tuple of str
        What was assumed, left out or counted.
    inputs : tuple of str
        How SMILES files were read: one line for each layout.
    """

    batch: PurePath
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

    def __str__(self) -> str:
        how = f"{words(self.direction == 'maximize')} '{printable(self.target, 60)}'"
        if self.direction == "each":
            how = f"for {printable(self.target, 200)}"
        lines = [
            f"batch of {amount(self.table.num_rows, 'molecules')} from {self.rows:,} by {self.acquisition}, "
            f"{how}, in {self.batch} ({self.seconds:.1f} s)"
        ]
        lines += [f"  {line}" for line in self.inputs]
        if self.rejected:
            lines.append(f"  rejected: {amount(self.rejected, 'rows')}; see {rejects_of(self.batch)}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def suggest(
    model: Paths,
    source: Data | Sequence[Data],
    output: Paths,
    *,
    n: int = 500,
    acquisition: Acquisition | str | None = None,
    batch: Batch = "ranked",
    std: Std = "candidates",
    maximize: bool | None = None,
    where: str | Sequence[str] = (),
    smarts: str | Sequence[str] = (),
    without_smarts: str | Sequence[str] = (),
    alerts: str | Sequence[str] = (),
    require: str | Sequence[str] = (),
    exclude: Data | Sequence[Data] = (),
    exclude_by: Level = "tautomer",
    same_fingerprint: bool = False,
    max_similarity: float | None = None,
    per_scaffold: int | None = None,
    per_value: Mapping[str, int] | None = None,
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
    shard: AnyShard = None,
    prepare: bool = False,
    **settings: Any,
) -> SuggestReport | ShardReport:
    """Choose the next molecules to measure.

    Predicts every molecule of a library, and ranks the candidates that pass all filters: the molecules with
    the best means, or all of them (see --std). Labelled molecules, however their SMILES are written, and
    copies are left out. If the candidates run out, it screens again for more. Measure the batch, add the
    results to the model with `daskrf add`, and ask for the next batch. Of a make-on-demand space, the batch
    is chosen from the best products of a screen.

    Parameters
    ----------
    model : path
        Directory of the model, as written by fit or add.
    source : path, or sequence of paths
        A fingerprint store, a feature store, SMILES files, or a make-on-demand space (see `check_space`),
        whose products are never listed. Features made here are not stored.
    output : path
        The batch. Its ending decides how it is written: .csv, .parquet, .sdf or .smi, also with .gz, or
        .html, a page to look at, as `page` makes.
    n : int
        Number of molecules.
    acquisition : Acquisition or str, optional
        Rank by the mean (greedy), the confidence bound (ucb), expected improvement (ei), the probability of
        improvement (pi), or draws of the whole function from the posterior (thompson): each pick is the best
        molecule of another draw, as long as the model has draws. Default: ucb. In Python also the rule
        itself.
    batch : {"ranked", "believer"}
        How ucb, ei and pi choose a batch: by their scores (ranked), or one by one, where each pick counts as
        measured at its mean, so that molecules like it become less interesting (believer).
    std : {"candidates", "all"}
        Which molecules ucb, ei and pi rank: the 10 n with the best means, at least 5,000 (candidates), or all
        (all), which takes a standard deviation of each molecule, at M^2 / 2 multiply-adds. Of a library with
        fewer molecules than candidates, all are ranked in any case.
    maximize : bool, optional
        As in `screen`.
    where : str or sequence of str
        What to ask for, such as "weight < 450 and 1 < logp < 4". Names are columns that the library keeps
        (--keep-columns) or a file has, or weight, logp, tpsa, rotatable bonds, donors, acceptors, rings,
        aromatic rings, heavy atoms, charge, and fraction sp3. Columns may also be compared with texts, as in
        'supplier == "Enamine"' or 'supplier not in ("A", "B")'; an empty cell is no text that is named. Put a
        name that holds a comma or a sign in quotes, as in '"Price, USD" < 90'.
    smarts : str or sequence of str
        A pattern that each molecule must contain.
    without_smarts : str or sequence of str
        A pattern that no molecule may contain.
    alerts : str or sequence of str
        Leave out molecules with structural alerts of these catalogs of RDKit: pains, brenk, nih, zinc.
    require : str or sequence of str
        What other targets of the model should be, such as "logD < 3 and hERG < 5". The probability that a
        molecule meets it multiplies its score: what it is better than the mean of the target, for ucb and
        greedy, and the expected or probable improvement for ei and pi. All molecules get standard deviations
        then, which costs more.
    exclude : path or sequence of paths
        Files of molecules to leave out, such as earlier batches, or fingerprint stores. They may hold none.
    exclude_by : {"structure", "parent", "tautomer", "skeleton"}
        What counts as the same molecule as a labelled one, one of a file to leave out, or a better pick: the
        structure, however its SMILES is written; the parent, its largest fragment that is no usual
        counter-ion or solvent, without charges, so that salts and anions are the same; the tautomer, which is
        the parent whatever the tautomer; or the skeleton, which is that without stereochemistry and isotopes.
        Above 200,000 labelled molecules these are compared by structure, and the report says so.
    same_fingerprint : bool
        Pick several molecules with the same fingerprint, too, such as stereoisomers that the fingerprint does
        not tell apart. Default: the first of them.
    max_similarity : float, optional
        Leave out molecules with a Tanimoto similarity above this to a better pick (ECFP4), such as 0.7.
    per_scaffold : int, optional
        Take at most so many molecules with the same Murcko scaffold.
    per_value : dict of str to int, optional
        Take at most so many molecules with the same value of a column of the library, such as a building
        block or a supplier: on the command line amine=3. Molecules without a value are not capped.
    shortlist : float, optional
        As in `screen`.
    seed : int, optional
        Seed of the draws of thompson. Default: 0. An exact process fitted by conjugate gradients has draws
        of its own.
    target : str, int, dict of str to float, or sequence of str, optional
        Target to rank by; needed only if the model has several. Or a weighted sum of targets, written as
        "pIC50 - 0.5 logD", in the units of the labels, with --maximize or --minimize where the directions of
        the targets do not say which. Or give --target two or three times, to improve several targets at once:
        the batch is what adds most to the hypervolume of the best trade-offs. A molecule counts as labelled
        if it has labels of all of them.
    reference : str or sequence of str
        What molecules must reach to count where several targets are improved, such as "pIC50 > 6 and logD <
        3". Default: the worst values among the best trade-offs measured so far, and a tenth less.
    overwrite : bool
        Replace a batch at the output.
    within : dict of str to (float or None, float or None), optional
        As in `screen`. These limits hold during the search; filters test the best products that are left.
    per_block : int, optional
        Of a space, take at most so many molecules with the same building block, in any slot.
    rough, rough_components
        As in `screen`.
    format, fragments
        As in `predict`.
    accept_rejects, client, progress, shard, prepare
        As in `fingerprint`. Shards score; the last command chooses.
    **settings
        Settings of the rule that `acquisition` names, such as ``kappa=3.0`` for "ucb".

    Returns
    -------
    SuggestReport, or ShardReport with `shard` or `prepare`

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
    candidates. So with greedy, thompson and an exact ranking of the whole library, the batch is what one
    would get by testing every molecule. With ucb, ei and pi, it is the best of the candidates, which are the
    10 n with the best means that pass, or 5,000 if these are more: so a smaller batch is the beginning of one
    of up to 500 molecules. With ``std="all"`` it is the best of all. Believer chooses from the 4,000 best of
    these, or 2 n if these are more.

    Of a space, the candidates are the best products by the rule, as `screen` ranks them; filters, demands on
    other targets and draws see these only. Draws are compared on the 10 n products (at least 1,000) with the
    largest ucb of kappa 2, since each draw of a whole space would take a search of its own.

    Source of the batch rules: see `daskrf.acquisition.believer`, `daskrf.molecules.diversity` and, for
    Thompson sampling, Hernandez-Lobato et al. 2017 (ICML).
    """
    output = as_path(output)
    several = not (target is None or isinstance(target, (str, int, Mapping)))
    usual = {"batch": (batch, "ranked"), "std": (std, "candidates")}
    given = {name: value for name, (value, default) in usual.items() if value != default}
    _check_several(
        several, {"acquisition": acquisition, **given, "shortlist": shortlist, **settings}, reference
    )
    named = "thompson" if several else acquisition or "ucb"  # which draws, too
    rule, maximize = asked_for(named, maximize, settings)
    _check_std(std, rule, several)
    _check(n, rule, batch, max_similarity, per_scaffold, seed, output)
    demands = Demands(
        filters=FilterTexts(where, smarts, without_smarts, alerts),
        exclude=tuple(as_list(exclude)),
        max_similarity=max_similarity,
        per_scaffold=per_scaffold,
        per_value=dict(per_value or {}),
        require=_as_texts(require),
        per_block=per_block,
        exclude_by=exclude_by,
        same_fingerprint=same_fingerprint,
    )
    request = SuggestRequest(
        model=as_path(model),
        input=Input(source, format, fragments, accept_rejects),
        output=output,
        k=n,
        rule=rule,
        maximize=maximize,
        target=target,
        std=std,
        seed=seed or 0,
        shortlist=shortlist,
        overwrite=overwrite,
        products=SpaceOptions(within, per_block, rough, rough_components),
        batch=batch,
        demands=demands,
        reached=_as_texts(reference),
    )
    report = run(_job_of(request, several=several), client, progress, shard, prepare)
    assert isinstance(report, SuggestReport | ShardReport)
    return report


def _job_of(request: SuggestRequest, *, several: bool) -> SuggestJob:
    """Return the job for a library or a space, and for one target or several."""
    space = space_among(request.input.source)
    if space is None:
        check_library_options(request)
        return (FrontJob if several else SuggestJob).of_batch(request)
    if several:
        raise OptionError(
            "Several targets are improved at once in a library, not in a space; give a weighted sum, such as "
            "--target 'pIC50 - 0.5 logD'."
        )
    if request.std != "candidates":
        raise OptionError(
            "Standard deviations of all products of a space would take too long; leave out --std all: the "
            "best products get them."
        )
    screen = space_screen(screen_below(request, accept_rejects=bool(request.demands.exclude)), space)
    # The shortlist is that of the screen: its products are all candidates.
    return SpaceSuggestJob.of_batch(replace(request, shortlist=None), screen=screen)


def screen_below(request: ScreenRequest, *, accept_rejects: bool = False) -> ScreenRequest:
    """Return what is asked of the screen of a space whose best products are then chosen from.

    With `accept_rejects`, that option is not asked of the space: it may be meant for files to leave out.
    """
    drawn = acquisition_for("ucb", kappa=_DRAWN_KAPPA)  # draws are compared on some products only
    return ScreenRequest(
        model=request.model,
        input=replace(request.input, accept_rejects=False) if accept_rejects else request.input,
        output=request.output,
        k=request.k,
        rule=drawn if request.rule.needs_sample else request.rule,
        maximize=request.maximize,
        target=request.target,
        std="none",
        shortlist=request.shortlist,
        overwrite=request.overwrite,
        products=replace(request.products, per_block=None),
    )


@dataclass(frozen=True)
class Demands:
    """What the molecules of a batch have to meet."""

    filters: FilterTexts = field(default_factory=FilterTexts)
    exclude: tuple[Paths, ...] = ()
    max_similarity: float | None = None
    per_scaffold: int | None = None
    per_value: Mapping[str, int] = field(default_factory=dict)
    require: tuple[str, ...] = ()
    per_block: int | None = None
    exclude_by: Level = "tautomer"
    same_fingerprint: bool = False

    def check(self, columns: Sequence[str]) -> None:
        """Refuse caps that are none, or of columns that the library lacks."""
        if self.exclude_by not in LEVELS:
            raise OptionError(f"exclude_by is one of {', '.join(LEVELS)}, not {self.exclude_by!r}.")
        if self.per_block is not None and self.per_block < 1:
            raise OptionError(f"per_block must be at least 1, not {self.per_block}.")
        for name, most in self.per_value.items():
            if name not in columns:
                there = f"has {listed(columns, chr(39))}" if columns else "keeps no further columns"
                raise InputError(
                    f"There is no column '{name}' in the library to cap by; it {there}. A fingerprint store "
                    "keeps those named by --keep-columns."
                )
            if most < 1:
                raise OptionError(f"per_value must be at least 1 for each column, not {most} for '{name}'.")

    @property
    def different(self) -> bool:
        """Whether picks leave out other molecules than copies."""
        capped = self.per_scaffold or self.per_value or self.per_block
        return bool(self.max_similarity is not None or capped)

    def caps(self, described: pa.Table) -> list[tuple[list[Any], int]]:
        """Return the values to cap of each candidate, and how many picks may have the same."""
        caps = [(described[name].to_pylist(), n) for name, n in self.per_value.items()]
        if self.per_block:
            slots = (described[name].to_pylist() for name in described.column_names if _is_slot(name))
            caps.append((list(zip(*slots, strict=True)), self.per_block))
        return caps


@dataclass(frozen=True, kw_only=True)
class SuggestRequest(ScreenRequest):
    """What `suggest` asks for: a batch of `k` molecules.

    Attributes
    ----------
    batch : {"ranked", "believer"}
        How the batch is chosen.
    demands : Demands
    reached : tuple of str
        What molecules must reach to count, of several targets.
    """

    batch: str = "ranked"
    demands: Demands = field(default_factory=Demands)
    reached: tuple[str, ...] = ()


@dataclass
class SuggestJob(ScreenJob):
    """The job of `suggest`: a screen for `k` candidates of each draw, and the choice of `n` of them."""

    n: int = 0
    batch: str = "ranked"
    demands: Demands = field(default_factory=Demands)
    passing: Passing = field(init=False)
    reached: tuple[str, ...] = ()
    smiles: list[str] = field(default_factory=list)
    requirements: tuple[Requirement, ...] = ()

    name = "suggest"
    taken: ClassVar[tuple[str, ...]] = _TAKEN  # columns of the candidates for the table

    @classmethod
    def of_batch(cls, request: SuggestRequest, **more: Any) -> Self:
        """Return the job of a request for a batch."""
        return cls.of(
            request,
            n=request.k,
            batch=request.batch,
            demands=request.demands,
            reached=request.reached,
            **more,
        )

    @property
    def deviations(self) -> bool:
        """Probabilities take deviations of all molecules."""
        return super().deviations or bool(self.requirements)

    @property
    def one_by_one(self) -> bool:
        """Whether picks depend on those before them."""
        return self.batch == "believer"

    @property
    def n_kept(self) -> int:
        """Candidates are counted in `k` already."""
        return self.k * self.n_draws

    @property
    def n_looked_at(self) -> int:
        """How many candidates are looked at."""
        return self.n_kept

    def plan(self, run: Run) -> None:
        """Read the model, and what may be chosen."""
        refuse_others(self.output, run.work, overwrite=self.overwrite)
        refuse_foreign(rejects_of(self.output))
        self.read()
        self.requirements = tuple(_requirements(self.demands.require, self.model, self.target))
        self.n_draws, self.k = 1, self._first_depth()
        if self.rule.needs_sample:
            own = process_of(self.model.gp, self.target)[0].most_draws() or _MOST_DRAWS
            self.n_draws = min(self.n, own)
            self.k = _PER_DRAW * max(2, math.ceil(self.n / self.n_draws))
        self.open(run)
        if self.rule.needs_sample:
            self.notes = (*self.notes, self._draw_words())

    def open(self, run: Run) -> None:
        """Open what is chosen from."""
        self.features = source_for(run, self.model, self.input, keep_columns=True)
        self.exclude_labelled = self.features.library_hash == self.model.metadata["library"]
        self.demands.check(columns_of(self.features))
        filters = self.demands.filters.of_library(self.features)
        self.passing = Passing(self.features, filters, tuple(self._excluded(run, self.features)))

    def _first_depth(self) -> int:
        """Return how many candidates to look for first."""
        demands = self.demands
        if self.batch == "believer":
            process, _ = process_of(self.model.gp, self.target)
            solves = getattr(process, "solver_", "") == "cg"  # one for each candidate
            most = n_candidates(self.n)
            return max(2 * self.n, min(most, _JOINT_SOLVED if solves else _JOINT))
        if self.shortlisted:
            return n_candidates(self.n)
        return self.n * (4 if demands.different else 1) + self.n // 4 + 8

    def _draw_words(self) -> str:
        each = "one each" if self.n_draws == self.n else f"{-(-self.n // self.n_draws)} or fewer each"
        return (
            f"the picks are the best molecules of {amount(self.n_draws, 'draws')} from the posterior, {each}"
        )

    def _excluded(self, run: Run, source: Source | None) -> Iterator[Excluded]:
        """Yield the labelled molecules, and those of files, to exclude by structure."""
        self.measured = measured_of(self.model, self.path, self.target, source)
        self.smiles, reason = self.measured.known, self.measured.reason
        yield from self._excluded_labelled(run, self.smiles, reason, self.demands.exclude_by)
        for path in self.demands.exclude:
            found, lost = smiles_in(as_path(path), run.progress, accept_rejects=self.input.accept_rejects)
            name = given_words(path) or as_path(path).name
            how = LEVEL_WORDS[self.level]
            self._note(run, f"{amount(len(found), 'molecules')} of {name} to leave out by {how}")
            if lost:
                self._note(run, f"not left out: {lost}")
            yield Excluded.of(f"a molecule of {name}", found, run.work, self.level)

    @property
    def spec(self) -> dict[str, Any]:
        """What the candidates depend on."""
        filters = self.passing.state
        asked = {"require": list(map(str, self.requirements))} if self.requirements else {}
        return {**super().spec, "filters": filters, "draws": self.n_draws, "cut": self.shortlist, **asked}

    def need(self) -> Need:
        """Return what the screen needs, and the joint choice."""
        need = super().need()
        if self.batch != "believer":
            return need
        size = 3 * 8 * self.k**2
        joint = peak("choose jointly", {"the covariance of the candidates": size, "pieces": PIECES})
        more: MemoryNeed = joint if need.here is None or need.here.total < joint.total else need.here
        return Need(need.worker, need.held, more, need.finish, need.disk)

    def search(self, run: Run) -> Search:
        """Candidates that pass."""
        plain = super().search(run)
        own = {**vars(plain), "k": self.k, "name": self.name}
        return Candidates(**own, requirements=self.requirements, usual=self.usual)

    @property
    def usual(self) -> float:
        """The score of the mean of the process."""
        process, own = process_of(self.model.gp, self.target)
        return self.rule.sign * float(process.mean_[own])

    def _weighed(self, score: npt.NDArray[np.float64], columns: Mapping[str, Any]) -> npt.NDArray[np.float64]:
        """Return the scores of candidates, weighed by the probability that they meet what is required."""
        if not self.requirements:
            return score
        return weighed(self.rule, score, np.log(columns["meets"]), self.usual)

    def finish(self, run: Run, made: int) -> Any:
        """Choose the batch, from more candidates if it takes more, and write it."""
        while True:
            found: Found = self.tree.result()
            columns = self._columns(found)
            diverse = self._chosen(columns)
            if len(diverse.picks) == self.n or not self.deepen(found):
                break
            there = f"{len(diverse.picks):,} of {self.n:,} could be chosen"
            run.progress.note(f"{there}; looking at {self.n_looked_at:,} candidates")
            run.check(self.need())
            self.look(run)
        left_out = self._left_out(found, columns, diverse)
        if len(diverse.picks) < self.n:
            self._refuse(found, len(diverse.picks), left_out)
        rejected, _ = write_rejects(
            map(self.features.rejects, range(len(self.features.partition_rows))), self.output
        )
        table, similar = self._table(columns, diverse.picks)
        counts = [f"left out, {name}: {number:,}" for name, number in left_out.items() if number]
        marked = self.features.note_on_groups()
        some = [*marked, *self.ranked_words(found), *tested_words(found, self.passing)]
        twins = self._twins(table)
        notes = (*self.notes, *some, *counts, *self._required(table), *twins, similar)
        self._write(run, table, self._about(found, rejected, notes))
        rule, target, direction = self.words
        return SuggestReport(
            batch=self.output,
            table=table,
            rows=self.n_ranked(found),
            rejected=rejected,
            acquisition=rule,
            target=target,
            direction=direction,
            left_out=left_out,
            seconds=run.seconds,
            notes=notes,
            inputs=self.inputs,
        )

    @property
    def ranked_by(self) -> str | list[str]:
        """The target for a page, or all that are improved at once."""
        return self.model.name_of(self.target)

    @property
    def words(self) -> tuple[str, str, str]:
        """The rule, the target and the direction for the report."""
        direction = "maximize" if self.rule.maximize else "minimize"
        return _words_of(self.rule), self.model.name_of(self.target), direction

    @property
    def inputs(self) -> tuple[str, ...]:
        """How files were read."""
        return inputs_of(self.features)

    def n_ranked(self, found: Found) -> int:
        """Return how many molecules the batch is the best of."""
        return found.n_scored

    def ranked_words(self, found: Found) -> list[str]:
        """Return what was ranked by deviations."""
        if not self.rule.needs_std:
            return []
        if all(len(top) < top.k for top in found.tops):
            return [f"chosen by {self.words[0]} from all {len(found.tops[0]):,} that pass"]
        by = "means" if self.shortlisted else "scores"
        more = "; --std all ranks all" if self.shortlisted else ""
        best = f"the {self.k:,} molecules with the best {by} that pass"
        return [f"chosen by {self.words[0]} from {best}{more}"] if self.shortlisted or self.one_by_one else []

    def deepen(self, found: Found) -> bool:
        """Ask for more candidates, and return True, unless there are no more."""
        whole = all(len(top) < top.k for top in found.tops)
        if whole and (not self.rough or self.shortlist == 1):
            return False
        if whole:
            self.shortlist = 1.0
        else:
            self.k *= _DEEPER
        return True

    def look(self, run: Run) -> None:
        """Find the candidates."""
        self.tree = self.tree_of(run, self.search(run))
        self.tree.make(client=run.client, progress=run.progress)

    def _required(self, table: pa.Table) -> list[str]:
        """Return how probably the batch meets what is required."""
        if not self.requirements:
            return []
        return [
            f"probability of {' and '.join(map(str, self.requirements))}: median "
            f"{np.median(table['meets'].to_numpy()):.0%} in the batch"
        ]

    def _about(self, found: Found, rejected: int, notes: Sequence[str]) -> dict[str, Any]:
        """Return what the file of the batch says of itself."""
        rule, target, direction = self.words
        source, library = self.chosen_from
        n_rows, several = self.n_ranked(found), not isinstance(self.ranked_by, str)
        way = f"for {target}" if several else f"{direction.removesuffix('e')}ing '{target}'"
        return {
            "made": f"batch of {amount(self.n, 'molecules')} from {n_rows:,} by {rule}",
            "chosen": f"Chosen from {amount(n_rows, 'molecules')} of {source} by {rule}, {way}.",
            "model": self.model.metadata["spec_hash"],
            "model_name": self.path.name,
            "library": library,
            "source": source,
            "target": self.ranked_by,
            "direction": None if direction == "each" else direction,
            "rejected": rejected,
            "notes": list(notes),
        }

    @property
    def chosen_from(self) -> tuple[str, str]:
        """The library in words, and its hash."""
        return source_words(self.input.source), self.features.spec_hash

    def _write(self, run: Run, table: pa.Table, about: dict[str, Any]) -> None:
        """Write the batch as its ending says."""
        title = f"{amount(self.n, 'molecules')} to measure next"

        def write(table: pa.Table, file: Path) -> None:
            write_hits_page(table, file, about, self.model, self.path, title=title)

        page = write if self.output.suffix.lower() == ENDING else None
        before = guarded(self.output, run.work, overwrite=self.overwrite)
        write_hits(table, self.output, about, page, kind="batch", before=before)

    def _columns(self, found: Found) -> dict[str, Any]:
        """Return the columns of all candidates, by row; deviations are computed here."""
        whole = TopK(sum(len(top) for top in found.tops) or 1)
        for top in found.tops:
            whole = whole.combine(TopK(whole.k, top.score, top.row, top.columns))
        columns = self._ranked(whole)
        table = table_of_rows(self.features, columns)
        columns |= {"smiles": table["smiles"], "described": table}
        places = {row: place for place, row in enumerate(columns["row"].tolist())}
        columns["lists"] = [[places[row] for row in top.row.tolist()] for top in found.tops]
        return columns

    def _ranked(self, top: TopK) -> dict[str, Any]:
        """All candidates are kept, with what a joint choice takes."""
        columns, own = top.arrays(), {}
        score = columns.pop("score")
        own["phi"], own["diagonal"] = columns.pop("phi", None), columns.pop("diagonal", None)
        own["fingerprints"] = None
        if not len(score):
            names = *_TAKEN, *self._own_columns
            return columns | dict.fromkeys(names, np.empty(0)) | own
        if self.features.raw:
            own["phi"] = self._fingerprints(columns["row"])
        elif self.one_by_one and process_of(self.model.gp, self.target)[0].draws_take_rows:
            own["fingerprints"] = self._fingerprints(columns["row"])
        with ONE_BLAS_THREAD:
            columns |= predictions_of(self.model, self.target, own["phi"], own["diagonal"], std=True)
            columns |= self._each(own["phi"], own["diagonal"])
        if self.rule.needs_std:
            score = self._weighed(self.rule(columns["mean"], columns["std"]), columns)
        return columns | {"acquisition": score} | own

    @property
    def _own_columns(self) -> list[str]:
        """The columns on each target of a sum."""
        if not isinstance(self.target, WeightedSum):
            return []
        names = names_in(self.model, self.target)
        found = [(f"{kind}_{name}", f"{kind} of {name}") for name in names for kind in ("mean", "std")]
        return [other if plain in _TAKEN else plain for plain, other in found]  # "std_y" of a target "y"

    def _each(self, phi: Any, diagonal: npt.NDArray[np.float64] | None) -> dict[str, Any]:
        """Return mean and standard deviation of each target of a sum, as `predict` names them."""
        if not isinstance(self.target, WeightedSum):
            return {}
        found = (predictions_of(self.model, t, phi, diagonal, std=True) for t in self.target.targets)
        values = [each[kind] for each in found for kind in ("mean", "std")]
        return dict(zip(self._own_columns, values, strict=True))

    def _chosen(self, columns: dict[str, Any]) -> Diversity:
        """Return the picks, in order, and what they leave out."""
        demands = self.demands
        smiles = columns["smiles"].to_pylist()
        alike = None if demands.same_fingerprint else self._alike(smiles)
        diverse = Diversity(
            smiles,
            max_similarity=demands.max_similarity,
            per_scaffold=demands.per_scaffold,
            caps=demands.caps(columns["described"]),
            level=demands.exclude_by,
            alike=alike,
        )
        columns["order"] = np.lexsort((columns["row"], -columns["acquisition"]))
        if not len(columns["row"]):
            return diverse
        if self.rule.needs_sample and self.n_draws > 1:
            columns["draw"] = _by_draws(columns["lists"], diverse, self.n)
        elif self.one_by_one:
            columns["acquisition"] = self._chosen_jointly(columns, diverse)
        else:
            for i in columns["order"].tolist():
                if len(diverse.picks) == self.n:
                    break
                diverse.take(i)
        return diverse

    def _twins(self, table: pa.Table) -> list[str]:
        """Return how many molecules of the batch the model cannot tell apart, if they were asked for."""
        if not self.demands.same_fingerprint:
            return []
        _, times = np.unique(self._alike(table["smiles"].to_pylist()), return_counts=True)
        n = int(times[times > 1].sum())
        what = "the same fingerprint as another, so that the model cannot tell them apart"
        return [f"{n:,} of the batch have {what}"] if n else []

    def _alike(self, smiles: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return numbers that are equal for molecules with the same fingerprint."""
        metadata = self.model.metadata
        return equal_fingerprints(
            smiles, FingerprintSpec.from_state(metadata["fingerprint"]), metadata["fragments"]
        )

    def _chosen_jointly(self, columns: dict[str, Any], diverse: Diversity) -> npt.NDArray[np.float64]:
        """Choose one by one, each pick counting as measured; return the score of each when it was picked."""
        process, own = process_of(self.model.gp, self.target)
        mean, covariance = joint_prediction(
            process, own, columns["phi"], columns["diagonal"], columns["fingerprints"]
        )
        believer = Believer(self.rule, mean, covariance, float(process.noise_variance_[own]))
        scores = columns["acquisition"].copy()
        while len(diverse.picks) < self.n and diverse.free.any():
            now = np.where(diverse.free, self._weighed(believer.scores(), columns), -np.inf)
            pick = int(np.lexsort((columns["row"], -now))[0]) if np.isinf(now).all() else int(now.argmax())
            scores[pick] = now[pick]
            diverse.take(pick)
            believer.take(pick)
        return scores

    def _left_out(self, found: Found, columns: dict[str, Any], diverse: Diversity) -> dict[str, int]:
        """Return how many molecules each demand has left out; of candidates, those better than a pick."""
        counts = dict(zip(self.passing.words, found.left_out.tolist(), strict=True))
        score, state = columns["acquisition"], diverse.state
        worst = score[state == TAKEN].min(initial=np.inf) if len(diverse.picks) == self.n else -np.inf
        for code, name in REASONS.items():
            counts[name] = int(((state == code) & (score >= worst)).sum())
        if self.exclude_labelled:
            known = "is not a labelled molecule"
            counts = {known: found.n_labelled + counts.pop(known, 0), **counts}
        own = REASONS.values()
        return {name if name in own else reason_of(name): number for name, number in counts.items()}

    def _refuse(self, found: Found, n_picks: int, left_out: Mapping[str, int]) -> None:
        """Say that there are too few molecules."""
        why = "; ".join(f"{number:,} left out, {name}" for name, number in left_out.items() if number)
        there = f"only {n_picks:,} can" if n_picks else "none can"
        advice = f"ask for -n {n_picks}, or" if n_picks else "ask for"
        raise InputError(
            f"{amount(self.n, 'molecules')} were asked for, but of {self.refused_words(found)} {there} be "
            f"chosen ({why or 'all of them'}); {advice} {'demand less' if n_picks else 'less'}."
        )

    def refused_words(self, found: Found) -> str:
        """Return what there was to choose from."""
        return f"{found.n_scored:,} in the library"

    def _table(self, columns: dict[str, Any], picks: list[int]) -> tuple[pa.Table, str]:
        """Return the batch, and a sentence on how near it is to labelled molecules."""
        take = pa.array(picks)
        smiles, described = columns["smiles"].take(take), columns["described"].take(take)
        rank = np.empty(len(columns["row"]), np.int64)
        rank[columns["order"]] = np.arange(1, len(rank) + 1)
        table = pa.table({"rank": np.arange(1, len(picks) + 1), "smiles": smiles})
        table = table.append_column("id", described["id"])
        for name in (*self.taken, *self._own_columns, *(["meets"] if self.requirements else [])):
            table = table.append_column(name, pa.array(columns[name][picks]))
        words, labelled = (
            "there are too many labelled molecules to compare with",
            list(dict.fromkeys(self.smiles)),
        )
        if not labelled:
            words = "the labelled molecules are not known, so that there is nothing to compare with"
        elif len(labelled) <= _MOST_COMPARED:
            similarity, index = nearest(smiles.to_pylist(), labelled)
            middle = float(np.median(similarity))
            words = f"similarity to the nearest labelled molecule: median {middle:.2f} (Tanimoto, ECFP4)"
            table = table.append_column("similarity_to_labelled", pa.array(similarity.round(4)))
            table = table.append_column("nearest_labelled", pa.array([labelled[i] for i in index.tolist()]))
        table = table.append_column("why", pa.array([self._why(columns, rank, i) for i in picks]))
        table = table.append_column("source", described["source"].cast(pa.string()))
        for name in ("line", "row"):
            table = table.append_column(name, described[name])
        return beside(table, described.drop_columns([*_TAKEN, "rank"])), words

    def _why(self, columns: dict[str, Any], rank: npt.NDArray[np.int64], pick: int) -> str:
        """Return why a candidate was picked."""
        if "draw" in columns:
            draw, place = columns["draw"][pick]
            return f"number {place} of draw {draw}"
        place = f"number {rank[pick]:,} by {self.rule.name}"
        return f"{place} alone; best after the picks before it" if self.batch == "believer" else place


@dataclass
class FrontJob(SuggestJob):
    """Improves two or three targets at once.

    Candidates are the molecules whose means reach farthest above a reference point, in many directions; of
    these the batch is the one that is expected to add most to the hypervolume, by joint draws. `rule` ranks
    the former; `target` stands for the labels and columns of all targets.
    """

    places: tuple[int, ...] = ()
    signs: tuple[float, ...] = ()
    floor: npt.NDArray[np.float64] = field(init=False)  # the reference point; larger is better
    front: npt.NDArray[np.float64] = field(init=False)  # what has been measured, likewise

    taken: ClassVar[tuple[str, ...]] = ("acquisition", "on_front")

    @property
    def rough(self) -> bool:
        """The landmarks of one target do not know the others."""
        return False

    def read(self) -> None:
        self.model = read_model(self.path, statistics=True)
        assert isinstance(self.asked, Sequence)
        self.places = _places(self.model, self.asked)
        found = [maximizes(self.model, t, self.maximize) for t in self.places]
        self.signs = tuple(1.0 if up else -1.0 for up, _ in found)
        self.target = WeightedSum(self.places, self.signs)  # only for labels and columns of each
        self.notes = (*(note for _, notes in found for note in notes), *self.model.scales_of(self.names))
        self.rule = acquisition_for("greedy", maximize=True)
        self.measured = measured_of(self.model, self.path, self.target)
        values = self.measured.parts[:, list(self.places)] * self.signs
        self.front = values[np.isfinite(values).all(axis=1)]
        self._set_reference(values)

    @property
    def names(self) -> list[str]:
        """The targets."""
        return names_in(self.model, self.target)

    ranked_by = names

    def _set_reference(self, values: npt.NDArray[np.float64]) -> None:
        """Set what molecules must reach to count, and say so."""
        self.floor = reference_point(self.front) if len(self.front) else np.nanmedian(values, axis=0)
        given = dict(_reached(self.reached, self.model, self.places, self.signs))
        for place, number in given.items():
            self.floor[self.places.index(place)] = number
        signs = zip(self.names, self.floor * self.signs, self.signs, strict=True)
        told = " and ".join(f"{name} {'>' if sign > 0 else '<'} {value:.4g}" for name, value, sign in signs)
        whence = (
            f"the worst of the {amount(int(on_front(self.front).sum()), 'best trade-offs')} measured so far, "
            "and a tenth of their range less"
            if len(self.front)
            else "the median labels, as no molecule has labels of all targets"
        )
        asked = "as asked for" if len(given) == len(self.places) else whence
        self.notes = (
            *self.notes,
            f"only what reaches the reference point counts, {told} ({asked}"
            f"{'' if given else '; --reference sets another'})",
            "errors of the targets are taken as independent",
        )

    def plan(self, run: Run) -> None:
        super().plan(run)
        self.n_draws = _WAYS + len(self.places)
        self.k = math.ceil(n_candidates(self.n) / self.n_draws) + 8

    @property
    def spec(self) -> dict[str, Any]:
        return {**super().spec, "targets": self.names, "signs": self.signs, "reference": self.floor.tolist()}

    @property
    def usual(self) -> float:
        """That of the reference point, which is zero."""
        return 0.0

    def search(self, run: Run) -> Search:
        """Candidates that reach far in many directions."""
        assert self.measured is not None
        best = self.front.max(axis=0, initial=-np.inf) - self.floor
        spread = np.nanstd(self.measured.parts[:, list(self.places)], axis=0)
        extent = np.where(best > 0, best, np.maximum(spread, _LEAST_SPREAD))
        more: dict[str, Any] = {"signs": self.signs, "floor": tuple(self.floor), "extent": tuple(extent)}
        return FrontCandidates(**vars(super().search(run)), **more)

    @property
    def one_by_one(self) -> bool:
        return True

    def _ranked(self, top: TopK) -> dict[str, Any]:
        """Also whether each candidate is on the predicted front of the library.

        What dominates a candidate reaches farther in every direction, so that it is a candidate itself.
        """
        columns = super()._ranked(top)
        means = np.column_stack([columns[f"mean_{name}"] for name in self.names]) * self.signs
        return columns | {"on_front": np.where(on_front(means), "yes", "no"), "round": {}}

    def _chosen_jointly(self, columns: dict[str, Any], diverse: Diversity) -> npt.NDArray[np.float64]:
        """Choose what adds most to the hypervolume, one by one; return what each added.

        Where nothing adds anything to the picks in any draw, another round begins with what is measured.
        """
        gain = HypervolumeGain(self._draws(columns), self.front, self.floor, columns.get("meets"))
        scores, number, n_before = gain.gains.copy(), 1, 0
        while len(diverse.picks) < self.n and diverse.free.any():
            pick = gain.best(diverse.free)
            if gain.gains[pick] > 0:
                scores[pick] = gain.gains[pick]
                columns["round"][pick] = number
                diverse.take(pick)
                gain.take(pick)
            elif len(diverse.picks) > n_before:
                gain.forget()
                number, n_before = number + 1, len(diverse.picks)
            else:
                break
        for i in columns["order"].tolist():
            if len(diverse.picks) < self.n:
                diverse.take(i)
        return scores

    def _draws(self, columns: dict[str, Any]) -> npt.NDArray[np.float64]:
        """Return independent draws of the targets at all candidates, shape (n_draws, m, d)."""
        parts = tuple(process_of(self.model.gp, t) for t in self.places)
        process = SummedProcess(parts, self.signs)  # which draws its parts independently
        n = min(_JOINT_DRAWS, process.most_draws() or _JOINT_DRAWS)
        with ONE_BLAS_THREAD:  # the same on any number of processors
            drawn = process.drawn(process.weights_of_draws(n, self.seed), self.seed)
            block = Block(columns["row"], columns["phi"], columns["diagonal"], columns["fingerprints"])
            values = [drawn_values(f, block).reshape(-1, n).T for f in drawn.functions]
        return np.stack(values, axis=-1) * self.signs

    @property
    def words(self) -> tuple[str, str, str]:
        aims = (f"{'large' if s > 0 else 'small'} {n}" for n, s in zip(self.names, self.signs, strict=True))
        return "expected hypervolume improvement", " and ".join(aims), "each"

    def _required(self, table: pa.Table) -> list[str]:
        """Also how many molecules are on the predicted front."""
        n = table["on_front"].to_pylist().count("yes")
        said = (
            f"on the predicted front: {n:,} of the batch (on_front); no other molecule without labels is "
            "predicted to be as good in all targets and better in one"
        )
        among = f"chosen among the {self.k:,} that reach farthest in each of {self.n_draws} directions"
        return [among, *super()._required(table), said]

    def _why(self, columns: dict[str, Any], rank: npt.NDArray[np.int64], pick: int) -> str:
        number = columns["round"].get(pick)
        if number is None:
            return "adds nothing in any draw, but reaches farthest of the rest"
        return "adds most to the picks before it" if number == 1 else f"adds most in round {number}"


@dataclass
class SpaceSuggestJob(SuggestJob):
    """The job of `suggest` for a space: the best products of a screen are the library to choose from.

    Attributes
    ----------
    screen : SpaceScreen
    products : spacehits.Candidates
        What the screen has found, best first, at most as many as it was asked for.
    whole : bool
        Whether these are all that may be chosen.
    """

    screen: SpaceScreen = field(kw_only=True)
    products: Products = field(init=False)
    whole: bool = False
    excluded: tuple[Excluded, ...] = ()
    asked_first: int = 0
    n_asked: int = 0
    of_screen: tuple[str, ...] = ()

    def open(self, run: Run) -> None:
        """Cut the space."""
        screen = self.screen
        if self.maximizes_draws:
            screen.rule, screen.seed, screen.n_draws = self.rule, self.seed, self.n_draws
        screen.k = self.asked_first = self._first_products()
        screen.read(self.model)
        self.demands.check(self._columns_of_space())
        self.demands.filters.of(self._columns_of_space())
        self.excluded = tuple(self._excluded(run, None))
        structures = (each.structures for each in self.excluded)
        screen.excluded = KnownStructures.union(structures, self.level)
        screen.prepare(run)
        self.notes, screen.notes = tuple(dict.fromkeys((*self.notes, *screen.notes))), ()

    @property
    def maximizes_draws(self) -> bool:
        """Whether each draw ranks all products itself."""
        return self.rule.needs_sample and ranks_itself(self.model, self.target) is not None

    def _columns_of_space(self) -> tuple[str, ...]:
        """Return the columns that the products have."""
        space = self.screen.space
        there = [len(space.slots_of(r)) for r, own in enumerate(space.reactions) if not own.refusal]
        return ("reaction", *(f"block_{slot}" for slot in range(max(there, default=0))))

    def _first_products(self) -> int:
        """Return how many products to ask for first."""
        if self.maximizes_draws:
            return self.k
        if self.rule.needs_sample:
            return max(_LEAST_DRAWN, _PER_PICK * self.n)
        if self.batch == "believer":
            return self.k
        if self.requirements:
            return max(_LEAST_DRAWN, _PER_PICK * self.n)
        return self.n * (4 if self.demands.different else 1) + self.n // 4 + 8

    def need(self) -> Need:
        """What the screen needs; `look` checks what the choice does."""
        return self.screen.need()

    def pieces(self, run: Run) -> list[Pieces]:
        """Those of the screen."""
        return self.screen.pieces(run)

    def finish(self, run: Run, made: int) -> Any:
        self.look(run)
        return super().finish(run, made)

    def look(self, run: Run) -> None:
        """The best products become a file, the library to choose from."""
        if self.n_asked != self.screen.k:
            if self.n_asked:
                for pieces in self.screen.pieces(run):
                    run.make(pieces)
            self.n_asked = self.screen.k
            self._screened(run)
        if self.n_draws == 1:
            self.k = max(self.k, len(self.products))
        run.check(super().need())
        super().look(run)

    def _screened(self, run: Run) -> None:
        """Take the best products of the screen."""
        found, whole, notes = self.screen.best(run)
        self.of_screen = (*notes, *self.screen.counted(found, whole))
        most = len(found) if self.screen.n_draws > 1 else self.screen.k  # of every draw
        self.products, self.whole = found.best(most), whole and len(found) <= most
        if not len(found):
            raise InputError(
                f"No product of {self.screen.source} can be chosen: none lies within the limits, or all are "
                "labelled or to be left out."
            )
        table = self.products.table(None)
        texts = [name for name in table.column_names if name in ("id", "smiles", *self._columns_of_space())]
        self.features = listed_products(run, self.model, table.select(texts), str(self.screen.k))
        self.passing = Passing(self.features, self.demands.filters.of_library(self.features))

    def deepen(self, found: Found) -> bool:
        full = any(len(top) == top.k for top in found.tops)
        if self.maximizes_draws and full and not self.whole and self.k < _DEEPEST * self.asked_first:
            self.k = self.screen.k = _DEEPER * self.k
        elif self.n_draws > 1 and full:
            self.k *= _DEEPER
        elif self.whole or self.screen.k >= _DEEPEST * self.asked_first:
            return False
        else:
            self.screen.k *= _DEEPER
        return True

    @property
    def chosen_from(self) -> tuple[str, str]:
        """The space."""
        return self.screen.source.name, self.screen.space.digest

    @property
    def n_looked_at(self) -> int:
        return self.screen.k

    @property
    def inputs(self) -> tuple[str, ...]:
        """A space is not a file of molecules."""
        return ()

    def n_ranked(self, found: Found) -> int:
        """All products."""
        return self.screen.n_distinct

    def ranked_words(self, found: Found) -> list[str]:
        by = f"the best {len(self.products):,} products by {_words_of(self.screen.rule)}"
        if self.rule.needs_sample and (self.whole or (self.maximizes_draws and self.k <= self.screen.k)):
            how = "each draw was maximized over all products"
            if self.passing.filters.words and not self.whole:
                how += f"; the filters were asked of the best {self.screen.k:,} of each draw"
        elif self.rule.needs_sample:
            how = f"each draw was maximized over {by}, and not over the whole space"
        else:
            how = f"chosen from {'all products' if self.whole else by}"
        weighed = ["what is required was asked of these only"] if self.requirements else []
        return [*dict.fromkeys(self.screen.notes), *self.of_screen, how, *weighed]

    def refused_words(self, found: Found) -> str:
        number = len(self.products)
        return f"all {number:,} of the space" if self.whole else f"the best {number:,} of the space"

    def _left_out(self, found: Found, columns: dict[str, Any], diverse: Diversity) -> dict[str, int]:
        """The screen has left out structures."""
        others = ", or of a file to leave out" if self.demands.exclude else ""
        own = {f"a labelled molecule{others}": self.products.n_excluded}
        return {**own, **super()._left_out(found, columns, diverse)}

    def _table(self, columns: dict[str, Any], picks: list[int]) -> tuple[pa.Table, str]:
        """With the columns of products."""
        table, words = super()._table(columns, picks)
        own = self.products.table(None).take(table["row"])
        table = table.select(range(table.column_names.index("why") + 1))
        for name in own.column_names:
            if name not in table.column_names:
                table = table.append_column(name, own[name])
        return table, words


def _is_slot(name: str) -> bool:
    """Return whether a column of products holds the blocks of a slot."""
    return name.startswith("block_") and name.removeprefix("block_").isdecimal()


def listed_products(run: Run, model: Model, table: pa.Table, name: str) -> Source:
    """Write products to a file, and return it as the library to choose from."""
    path = run.work / f"candidates-{name}{PARQUET}"
    with file_errors("write", path), backend(path).writing(path) as staged:
        write_molecules(table, staged, path)
    # Nobody gave this file: nothing is said of it, and shards, which agree on files, do not know it.
    own = replace(run, output=run.work / "products", progress=Progress())
    return source_for(own, model, Input(path, accept_rejects=True), keep_columns=True)


def _by_draws(lists: Sequence[Sequence[int]], diverse: Diversity, n: int) -> dict[int, tuple[int, int]]:
    """Take the best free candidate of each draw in turn; return draw and place of each pick, from 1."""
    at, found = [0] * len(lists), {}
    while len(diverse.picks) < n and any(a < len(own) for a, own in zip(at, lists, strict=True)):
        for draw, own in enumerate(lists):
            while at[draw] < len(own) and len(diverse.picks) < n:
                candidate = own[at[draw]]
                at[draw] += 1
                if diverse.take(candidate):
                    found[candidate] = (draw + 1, at[draw])
                    break
            else:
                if at[draw] >= len(own) and len(own):
                    return found  # its next ones are not known: more candidates are needed
    return found


@dataclass(frozen=True)
class Candidates(PassingSearch):
    """Keeps the best k rows of each draw that pass, by scores that may be weighed by what is required."""

    requirements: tuple[Requirement, ...] = ()
    usual: float = 0.0

    def scores(self, model: Model, block: Block) -> tuple[npt.NDArray[np.float64], dict[str, Any]]:
        """Weighed by the probability of what is required, which is a column."""
        scores, columns = self.unweighed(model, block)
        if not self.requirements:
            return scores, columns
        log_probability = np.zeros(len(block.rows))
        for each in self.requirements:
            found = predictions_of(model, each.target, block.phi, block.diagonal, std=True)
            log_probability += each.log_probability(found["mean"], found["std"])
        log_probability = np.maximum(log_probability, _LEAST_LOG)
        columns["meets"] = np.exp(log_probability)
        return weighed(self.rule, scores, log_probability, self.usual), columns

    def unweighed(self, model: Model, block: Block) -> tuple[npt.NDArray[np.float64], dict[str, Any]]:
        """Return the score of each row, or several, and the columns to keep."""
        return super().scores(model, block)


@dataclass(frozen=True)
class FrontCandidates(Candidates):
    """Keeps the rows whose means reach farthest above a reference point, in each of many directions.

    The last directions are the targets alone. Values are multiplied by `signs`, so that larger is better.
    """

    signs: tuple[float, ...] = ()
    floor: tuple[float, ...] = ()
    extent: tuple[float, ...] = ()

    @property
    def ranks_by_draws(self) -> bool:
        """False: draws compare the candidates."""
        return False

    def unweighed(self, model: Model, block: Block) -> tuple[npt.NDArray[np.float64], dict[str, Any]]:
        """A score for each direction."""
        means = [
            predictions_of(model, target, block.phi, block.diagonal, std=False)["mean"]
            for target in targets_in(self.target)
        ]
        values = (np.column_stack(means) * self.signs - self.floor) / self.extent
        ways = directions(_WAYS, len(self.signs))
        return np.column_stack([scalarized(values, ways), values]), self.kept(block)


def _places(model: Model, names: Sequence[str | int]) -> tuple[int, ...]:
    """Return the positions of two or three different targets."""
    places = []
    for name in names:
        places.append(target_of(model, name))
        if places.count(places[-1]) > 1:
            raise OptionError(f"The target '{model.targets[places[-1]]}' is named twice; name it once.")
    if len(places) not in _AT_ONCE:
        raise OptionError(
            f"Two or three targets can be improved at once, not {len(places)}; weigh them in one sum, "
            f"such as --target '{' + '.join(map(str, names[:3]))}', or ask for the others by --require."
        )
    return tuple(places)


def _reached(
    texts: Sequence[str], model: Model, places: Sequence[int], signs: Sequence[float]
) -> Iterator[tuple[int, float]]:
    """Yield targets and what they must reach to count, multiplied by their signs."""
    there = listed([model.targets[place] for place in places], "'")
    for limit in (limit for text in texts for limit in _limits_of_targets(text, model, there)):
        place = model.targets.index(limit.name) if limit.column else -1
        if place not in places:
            raise InputError(f"'{limit.name}' is none of the targets that are improved, {there}.")
        sign = signs[places.index(place)]
        if limit.sign not in _SIGNS or (limit.sign[0] == ">") != (sign > 0):
            better = "large" if sign > 0 else "small"
            raise OptionError(
                f"{better.capitalize()} values of '{limit.name}' are good, so that '{limit}' is no end of "
                f"what counts; write '{limit.name} {'>' if sign > 0 else '<'} {limit.number:g}'."
            )
        yield place, sign * limit.number


def _check_several(several: bool, given: Mapping[str, Any], reference: str | Sequence[str]) -> None:
    """Refuse options that several targets have no use for, or one."""
    if not several and reference:
        raise OptionError("--reference is for several targets that are improved at once; leave it out.")
    named = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]
    if several and named:
        raise OptionError(
            f"Several targets are improved at once by the expected hypervolume; leave out "
            f"{', '.join(named)}, or weigh the targets in one sum."
        )


def _as_texts(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _requirements(texts: Sequence[str], model: Model, target: Target) -> Iterator[Requirement]:
    """Yield what is asked of targets other than the one that ranks."""
    there = listed(model.targets, "'")
    if texts and len(model.targets) < 2:
        raise InputError(
            f"--require asks for other targets than the one that ranks, and {there} is the only one of the "
            "model; --where asks for properties and columns."
        )
    for limit in (limit for text in texts for limit in _limits_of_targets(text, model, there)):
        if not limit.column:
            raise InputError(
                f"'{limit.name}' is no target of the model, which has {there}; --where asks for properties "
                "and columns."
            )
        if model.targets.index(limit.name) == target:
            raise InputError(f"'{limit.name}' is the target that ranks, and cannot be required as well.")
        if limit.sign not in _SIGNS:
            raise OptionError(f"A target is required to be above or below a number, not {limit}.")
        yield Requirement(model.targets.index(limit.name), limit.name, limit.sign[0] == ">", limit.number)


def _limits_of_targets(text: str, model: Model, there: str) -> tuple[Limit, ...]:
    """Return the comparisons in a text."""
    with suppress(OptionError):
        found = limits_of(text, model.targets)
        limits = tuple(limit for limit in found if isinstance(limit, Limit))
        if limits == found:
            return limits
    raise OptionError(
        f"{printable(text)!r} cannot be read; write a target of the model ({there}), a sign and a number, "
        f"such as '{model.targets[-1]} < 5', joined by 'and'."
    )


def _check(
    n: int,
    rule: Acquisition,
    batch: str,
    max_similarity: float | None,
    per_scaffold: int | None,
    seed: int | None,
    output: PurePath,
) -> None:
    """Refuse impossible options."""
    if n < 1:
        raise OptionError(f"The number of molecules must be at least 1, not {n}.")
    if batch not in get_args(Batch):
        raise OptionError(f"batch is one of {', '.join(get_args(Batch))}, not {batch!r}.")
    if batch == "believer" and not rule.needs_std:
        raise OptionError(
            f"{rule.name} does not use standard deviations, so that --batch believer changes nothing; take "
            "ucb, ei or pi, or leave it out."
        )
    if seed is not None and not rule.needs_sample:
        raise OptionError(f"--seed is for random draws, but {rule.name} draws nothing; leave it out.")
    if max_similarity is not None and not 0 <= max_similarity <= 1:
        raise OptionError(f"max_similarity must be from 0 to 1, not {max_similarity}.")
    if per_scaffold is not None and per_scaffold < 1:
        raise OptionError(f"per_scaffold must be at least 1, not {per_scaffold}.")
    check_ending(output, others=(ENDING,))
    if output.suffix.lower() == ENDING:
        check_rows(n)


def _check_std(std: str, rule: Acquisition, several: bool) -> None:
    """Refuse deviations of all molecules where no rule ranks by them."""
    if std not in get_args(Std):
        raise OptionError(f"std is one of {', '.join(get_args(Std))}, not {std!r}.")
    if std == "all" and not rule.needs_std and not several:
        raise OptionError(
            f"{rule.name} ranks all molecules without standard deviations; leave out --std all, or take ucb, "
            "ei or pi."
        )


def _words_of(rule: Acquisition) -> str:
    """Return a rule with its settings.

    Examples
    --------
    >>> from daskrf.acquisition import acquisition_for
    >>> _words_of(acquisition_for("ucb", kappa=0.5)), _words_of(acquisition_for("greedy"))
    ('ucb (kappa 0.5)', 'greedy')
    """
    state = {name: value for name, value in rule.state().items() if name not in ("rule", "maximize")}
    told = ", ".join(f"{name} {value:g}" for name, value in state.items() if value is not None)
    return f"{rule.name} ({told})" if told else rule.name
