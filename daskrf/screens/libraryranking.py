"""Rank a library by a model: tasks over its partitions find the best molecules that pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from daskrf.acquisition import acquisition_for
from daskrf.errors import InputError
from daskrf.files.backend import absolute
from daskrf.fitting.learner import sampled_rows
from daskrf.gp.processes.separate import processes_of
from daskrf.jobs.job import Need, Run
from daskrf.jobs.memory import MemoryNeed, held_by_model, need_of_scores
from daskrf.jobs.pieces import group_by_rows
from daskrf.jobs.tree import Root, Tree
from daskrf.models.models import Model, need_of_model, score_seconds
from daskrf.screens.aim import Aim
from daskrf.screens.draws import leave_draws, source_of_draws
from daskrf.screens.passing import Passing
from daskrf.screens.request import ScreenRequest
from daskrf.screens.searches import Blocks, Hits, PassingSearch, Search
from daskrf.screens.shortlist import SAMPLE, SAMPLED_PARTITIONS, BoundSample, Cut, Sample
from daskrf.sources.sources import Block, Source, making_of
from daskrf.storage.hits import write_rejects
from daskrf.storage.stores.store import hash_of

PIECES = "parts of the library"

_TASK_SECONDS = 30.0  # target time of a task
_LEAST_ROWS = 10_000  # in a task: fewer are not worth a checkpoint
_MOST_TASKS = 4_096  # unless tasks would then take longer than that
_LEAST_LIBRARY = 100_000  # rows: an exact process ranks a smaller library without a shortlist


@dataclass
class LibraryRanking:
    """Scores a library, and keeps the best k molecules of each posterior sample that pass.

    Attributes
    ----------
    aim : Aim
    features : Source
    k : int
        Number of molecules to keep until all have been scored.
    n_wanted : int
        How many of them are hits in the end.
    std : {"candidates", "all", "none"}
        As in `screen`.
    seed : int
        Of posterior samples.
    exclude_labelled : bool
        Whether the labelled rows are left out if this is the library of the model.
    passing : Passing or None
        Which molecules may be kept; None: all.
    shortlist : float or None
        Fraction of the library that an exact process ranks; None: chosen on a sample.
    bounds : bool
        Whether molecules that cannot be hits get no standard deviation, if all others would get one.
    n_draws : int
        Number of posterior samples or directions; each keeps its own best molecules.
    name : str
        Of the command, for the log of the run.
    search : callable
        Makes the search from the fields of `PassingSearch`.
    notes : tuple of str
        Size and recall of the shortlist, in words.
    """

    aim: Aim
    features: Source
    k: int
    n_wanted: int
    std: str
    seed: int
    exclude_labelled: bool = False
    passing: Passing | None = None
    shortlist: float | None = None
    bounds: bool = False
    n_draws: int = 1
    name: str = "screen"
    search: Callable[..., Search] = PassingSearch
    notes: tuple[str, ...] = ()
    tree: Tree = field(init=False)
    least: float = field(default=-math.inf, init=False)  # the threshold of the shortlist

    @property
    def model(self) -> Model:
        """The model that ranks."""
        return self.aim.model

    @property
    def by_rows(self) -> bool:
        """Whether the labelled rows are rows of this library, and left out."""
        return self.exclude_labelled and is_library_of(self.model, self.features)

    @property
    def n_kept(self) -> int:
        """How many molecules are kept in all."""
        return self.k * self.n_draws

    def keep(self, k: int) -> None:
        """Keep k molecules of each posterior sample from now on."""
        self.k = self.n_wanted = k

    def rank_all(self) -> None:
        """Use no shortlist from now on."""
        self.shortlist, self.least = 1.0, -math.inf

    @property
    def by_bounds(self) -> bool:
        """Whether the shortlist is of molecules that can be hits by the bounds of their scores."""
        return self.bounds and self.aim.bounds_stds and self.aim.stds_of_all(self.std)

    def need(self) -> Need:
        """Return the memory of the tasks, and that of this process for posterior samples and hits."""
        # This process holds the model's statistics only for samples and for the standard deviations of hits.
        # Tasks read the model themselves, even those that run in this process.
        making, n_sums = making_of(self.features), len(processes_of(self.model.gp))
        k = self.n_kept if self.std == "candidates" else 0
        std = self.aim.stds_of_all(self.std)

        def need_of(k: int) -> MemoryNeed:
            return making.need(lambda making: need_of_model(self.model, making, k, std=std), "rows")

        worker = need_of(k)
        worker = replace(worker, smaller={"hits": (k, 100, need_of), **worker.smaller})
        if self.model.gp.means_only:
            return Need(worker)
        if self.features.raw:
            return Need(worker, here=need_of_model(self.model, making, k, std=True))
        held = held_by_model(making, factors=self.aim.rule.needs_sample, n_sums=n_sums)
        hits = replace(making, rows=k, nonzeros=0)
        return Need(
            worker,
            held=("the model for hits and posterior samples", held),
            here=need_of_scores(hits, k, std=True, n_sums=n_sums),
        )

    def spec(self, request: ScreenRequest) -> dict[str, object]:
        """Return everything that determines the molecules found."""
        assert self.passing is not None
        return {
            **ranking_spec(
                self.aim,
                request,
                k=self.n_wanted,
                n_kept=self.n_kept,
                shortlist=self.shortlist,
                exclude_labelled=self.exclude_labelled,
            ),
            "library": self.features.spec_hash,
            "filters": self.passing.state,
            "draws": self.n_draws,
            "cut": self.shortlist,
        }

    def plan(self, run: Run, spec: Mapping[str, object]) -> Tree[Block, Hits, Hits]:
        """Choose the shortlist, and return the tree that ranks the library; `spec` identifies its results."""
        search, features = self._search(run), self.features
        if search.ranks_by_draws:
            features = source_of_draws(features, self.model, self.aim.target)
        chunk = Blocks(features.carried(run.work)).of
        search, fraction = self._with_shortlist(run, search, chunk, spec)
        stds = self.aim.stds_of_all(self.std)
        groups, rows = _grouped(features, self.model, std=stds, fraction=fraction)
        root = Root(search, chunk, run.work / "partials", hash_of(spec))
        self.tree = Tree([root], groups, rows, PIECES)
        return self.tree

    def run(self, run: Run, spec: Mapping[str, object]) -> Hits:
        """Rank the library, and return the result of the search."""
        self.plan(run, spec).make(client=run.client, progress=run.progress)
        return self.tree.result()

    def _search(self, run: Run) -> Search:
        """Return what scores the library."""
        aim, draw = self.aim, None
        if aim.rule.needs_sample:
            draw = leave_draws(self.model, aim.target, self.seed, run.work, self.n_draws)
        shortlists = aim.shortlists(self.std)
        search: Callable[..., Search] = Search
        if self.passing is not None:
            search = partial(self.search, passing=self.passing, n_draws=self.n_draws)
        return search(
            model=absolute(self.model.path),
            model_hash=self.model.metadata["spec_hash"],
            rule=acquisition_for("greedy", maximize=aim.rule.maximize) if shortlists else aim.rule,
            k=self.k,
            target=aim.target,
            draw=draw,
            exclude_labelled=self.by_rows,
            keep_features=self.std == "candidates" and not self.features.raw,
            std=aim.stds_of_all(self.std),
            bounds=self.by_bounds,
            seed=self.seed,
            name=self.name,
        )

    def _with_shortlist(
        self,
        run: Run,
        search: Search,
        chunk: Callable[[tuple[int, ...]], Iterable[Block]],
        spec: Mapping[str, object],
    ) -> tuple[Search, float]:
        """Return the search with its shortlist, and the fraction of the library that the model ranks."""
        rows, fraction = self.features.partition_rows, self.shortlist
        n_rows = sum(rows)
        shortlists = self.aim.has_surrogate or self.by_bounds
        if fraction == 1 or not shortlists or (fraction is None and n_rows < _LEAST_LIBRARY):
            return search, 1.0
        chosen = sampled_rows(len(rows), SAMPLED_PARTITIONS, 0).tolist()
        share = min(1.0, SAMPLE / max(1, sum(rows[p] for p in chosen)))
        kind = BoundSample if self.by_bounds else Sample
        sample = kind(search, share, self.n_wanted / max(1, n_rows), fraction)
        root = Root(sample, chunk, run.work / "sample", hash_of(spec))
        tree = Tree([root], [(p,) for p in chosen], [rows[p] for p in chosen], PIECES)
        tree.make(client=run.client, progress=run.progress)
        cut: Cut = tree.result()
        self.notes = (*self.notes, str(cut))
        run.progress.note(str(cut))
        self.least = cut.least
        return replace(search, least=cut.least), cut.fraction

    def fingerprints(self, rows: npt.NDArray[np.int64]) -> sparse.csr_matrix:
        """Read the fingerprints of some rows again."""
        features = source_of_draws(self.features, self.model, self.aim.target)
        ordered = np.sort(rows)
        ends = np.searchsorted(ordered, self.features.row_bounds)
        blocks = [
            block
            for p in np.flatnonzero(np.diff(ends)).tolist()
            for block in features.blocks(p, ordered[ends[p] : ends[p + 1]])
        ]
        row = np.concatenate([block.rows for block in blocks])
        fingerprints = [block.phi if features.raw else block.fingerprints for block in blocks]
        return sparse.vstack(fingerprints, format="csr")[np.searchsorted(row, rows)]

    def rejects(self) -> Iterator[pa.Table]:
        """Yield the rejected rows of each partition."""
        return map(self.features.rejects, range(len(self.features.partition_rows)))

    def write_rejects(self, output: PurePath) -> tuple[int, PurePath | None]:
        """Write the rejected rows beside an output, and return their number and the file."""
        return write_rejects(self.rejects(), output)


def check_shortlist(aim: Aim, shortlist: float | None) -> None:
    """Refuse a shortlist if the model has no surrogate."""
    if shortlist is not None and not aim.has_surrogate:
        raise InputError(
            "A shortlist works only for an exact process fitted by conjugate gradients, that is, to many "
            "labels; leave it out."
        )


def is_library_of(model: Model, features: Source) -> bool:
    """Return whether a library is the one whose rows a model was fitted to."""
    return bool(features.library_hash == model.metadata["library"])


def ranking_spec(
    aim: Aim, request: ScreenRequest, *, k: int, n_kept: int, shortlist: float | None, exclude_labelled: bool
) -> dict[str, object]:
    """Return everything that determines the ranking of a library, except the library.

    Parameters
    ----------
    aim : Aim
    request : ScreenRequest
    k, n_kept : int
        Number of hits, and of molecules kept until all have been scored.
    shortlist : float or None
    exclude_labelled : bool
    """
    return {
        "model": aim.model.metadata["spec_hash"],
        "acquisition": aim.rule.state(),
        "k": k,
        "std": request.std,
        **({"candidates": n_kept} if aim.shortlists(request.std) else {}),
        "target": aim.target_name,
        "seed": request.seed if aim.rule.needs_sample else None,
        "exclude_labelled": exclude_labelled,
        **({"exclude_by": request.exclude_by} if exclude_labelled else {}),
        **({"shortlist": shortlist} if aim.has_surrogate else {}),
        **aim.link_state,
    }


def _grouped(
    source: Source, model: Model, *, std: bool, fraction: float
) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return groups of partitions, and the number of rows in each group.

    The groups depend only on the size of the job, so a second run on other workers finds the checkpoints.
    """
    rows = source.partition_rows
    seconds = source.seconds_per_row + 2e-6 + fraction * score_seconds(model, source.block_size, std=std)
    target = min(int(_TASK_SECONDS / seconds), max(_LEAST_ROWS, sum(rows) // _MOST_TASKS))
    groups = group_by_rows(list(enumerate(rows)), target)
    return groups, [sum(rows[p] for p in group) for group in groups]
