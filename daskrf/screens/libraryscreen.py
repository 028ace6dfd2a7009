"""The job of a screen: score a library, keep the best k that pass, and write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from daskrf.acquisition import Acquisition, acquisition_for
from daskrf.blas import ONE_BLAS_THREAD
from daskrf.errors import InputError
from daskrf.files.backend import absolute
from daskrf.files.disk import work_folder
from daskrf.fitting.learner import sampled_rows
from daskrf.gp.processes.separate import process_of, processes_of
from daskrf.gp.processes.weightedsum import Target, WeightedSum
from daskrf.jobs.job import Job, Need, Run
from daskrf.jobs.memory import MemoryNeed, held_by_model, need_of_scores
from daskrf.jobs.pieces import Done, Pieces, group_by_rows
from daskrf.jobs.tree import Root, Tree
from daskrf.models.directions import maximizes
from daskrf.models.duplicates import duplicates
from daskrf.models.models import Model, need_of_model, predictions_of, read_model, score_seconds
from daskrf.models.modelsource import source_for
from daskrf.models.targets import Measured, best_of, measured_of, names_in, ranked_target, words_of_sum
from daskrf.molecules.structures import LEVEL_WORDS, Level
from daskrf.quantities import amount
from daskrf.screening import TopK
from daskrf.screens.draws import leave_draws, source_of_draws
from daskrf.screens.passing import Excluded, FilterTexts, Passing, reason_of
from daskrf.screens.request import ScreenRequest
from daskrf.screens.searches import (
    Blocks,
    Found,
    Hits,
    PassingSearch,
    Search,
    table_of_rows,
    tested_words,
)
from daskrf.screens.shortlist import SAMPLE, SAMPLED_PARTITIONS, Cut, Sample, n_candidates
from daskrf.sources.inputs import Input, inputs_of, source_words
from daskrf.sources.sources import Source, making_of
from daskrf.storage.hits import Earlier, refuse_foreign, rejects_of, write_hits, write_rejects
from daskrf.storage.outputs import earlier_output
from daskrf.storage.stores.store import hash_of

_TASK_SECONDS = 30.0  # that a task should take
_LEAST_ROWS = 10_000  # in a task: fewer are not worth a checkpoint
_MOST_TASKS = 4_096  # unless they would take longer
_NOT_LABELLED = "is not a labelled molecule"
_MOST_LABELLED = 1_000_000  # labelled molecules excluded by structure: RDKit takes minutes for them
_MOST_COMPARED_WIDELY = 200_000  # by parent, tautomer or skeleton: 0.5 ms each
_SHORTLIST_NOTE = "ranked among the {:,} best means; standard deviations for all would rank every molecule"
_PIECES = "parts of the library"
_LEAST_LIBRARY = 100_000  # rows: an exact process ranks all of a smaller library


@dataclass
class ScreenJob(Job[Any]):
    """The job of `screen`; see `daskrf.jobs.job.Job`. `plan` sets `model` and the fields below it."""

    path: PurePath
    input: Input
    output: PurePath
    k: int
    std: str
    seed: int
    rule: Acquisition
    maximize: bool | None
    asked: Any  # a target; see `daskrf.models.targets.ranked_target`
    exclude_labelled: bool
    overwrite: bool
    made: Callable[..., Any]  # makes the report
    page: Callable[..., Any]  # returns what writes the output, if that is a page
    shortlist: float | None = None
    filters: FilterTexts = field(default_factory=FilterTexts)
    exclude_by: Level = "tautomer"
    level: Level = field(default="tautomer", init=False)  # by which labelled molecules are left out
    model: Model = field(init=False)
    features: Source = field(init=False)
    target: Target = 0
    measured: Measured | None = None  # of a sum
    notes: tuple[str, ...] = ()
    before: Earlier | None = None  # at the output, whatever it holds
    earlier: Earlier | None = None
    passing: Passing | None = None
    tree: Tree = field(init=False)

    name = "screen"
    n_draws = 1  # for rules that rank by draws

    @classmethod
    def of(
        cls,
        request: ScreenRequest,
        made: Callable[..., Any],
        page: Callable[..., Any] = lambda *_: None,
        **more: Any,
    ) -> Self:
        """Return the job of a request; `more` are fields of a class derived from this one."""
        return cls(
            path=request.model,
            input=request.input,
            output=request.output,
            k=request.k,
            std=request.std,
            seed=request.seed,
            rule=request.rule,
            maximize=request.maximize,
            asked=request.target,
            exclude_labelled=request.exclude_labelled,
            overwrite=request.overwrite,
            made=made,
            page=page,
            shortlist=request.shortlist,
            filters=request.filters,
            exclude_by=request.exclude_by,
            **more,
        )

    @property
    def locked(self) -> PurePath:
        """The output is a file."""
        return work_folder(self.output)

    @property
    def deviations(self) -> bool:
        """Whether all molecules get standard deviations."""
        return self.std == "all"

    @property
    def shortlisted(self) -> bool:
        """Whether only the molecules with the best means get the deviations that they are ranked by."""
        return self.rule.needs_std and not self.deviations

    @property
    def n_kept(self) -> int:
        """How many molecules are kept until all have been scored."""
        return n_candidates(self.k) if self.shortlisted else self.k

    @property
    def rough(self) -> bool:
        """Whether the model has a rough ranking, as a shortlist needs."""
        return process_of(self.model.gp, self.target)[0].rough() is not None

    def plan(self, run: Run) -> None:
        """Find out as early as possible whether the output holds these hits already, or others."""
        name, earlier = source_words(self.input.paths), earlier_output(self.output, overwrite=self.overwrite)
        refuse_foreign(rejects_of(self.output))
        self.before = earlier
        self.read()
        if earlier is not None and not self.overwrite:
            earlier.refuse_other(self._asked(), name)
        self.features = source_for(run, self.model, self.input, keep_columns=True)
        excluded = tuple(self._all_labelled(run)) if self.exclude_labelled else ()
        if self.filters.given or excluded:
            self.passing = Passing(self.features, self.filters.of_library(self.features), excluded)
        if earlier is not None and not self.overwrite:
            earlier.refuse_other(self.spec, name)
        if earlier is not None and earlier.is_of(self.spec):
            self.earlier = earlier

    @property
    def by_rows(self) -> bool:
        """Whether the labelled rows are rows of this library, and left out."""
        return self.exclude_labelled and self.features.library_hash == self.model.metadata["library"]

    def _all_labelled(self, run: Run) -> Iterator[Excluded]:
        """Yield the labelled molecules, to be left out."""
        measured = measured_of(self.model, self.target, self.features)
        if not measured.known and not self.by_rows:
            raise InputError(
                f"The labelled molecules cannot be left out: {measured.reason}; screen the fingerprint store "
                "that the model was fitted on, or drop --exclude-labelled (exclude_labelled)."
            )
        yield from self._excluded_labelled(run, measured.known, measured.reason, self.exclude_by)

    def _excluded_labelled(
        self, run: Run, smiles: Sequence[str], reason: str, asked: Level
    ) -> Iterator[Excluded]:
        """Yield the labelled molecules, to exclude by structure; `reason` says why some are not known."""
        many = len(smiles) > _MOST_LABELLED
        reason = f"there are {len(smiles):,}" if many else reason
        if reason:
            rows = "by their rows in this library" if self.by_rows else "as far as known"
            self._note(run, f"labelled molecules are left out {rows}, and not all by structure: {reason}")
        known = list(dict.fromkeys(filter(None, smiles)))
        self.level = asked
        if asked != "structure" and _MOST_COMPARED_WIDELY < len(known) <= _MOST_LABELLED:
            self.level = "structure"
            self._note(run, f"the {len(known):,} labelled molecules are too many to compare by {asked}")
        if known and not many:
            self._note(run, f"labelled molecules are left out by {LEVEL_WORDS[self.level]}")
            yield Excluded.of("a labelled molecule", known, run.work, self.level)

    def _note(self, run: Run, text: str) -> None:
        self.notes = (*self.notes, text)
        run.progress.note(text)

    def read(self) -> None:
        """Read the model, and find out what to rank by."""
        # Tasks read the model themselves.
        statistics = self.std == "candidates" or self.rule.needs_sample
        self.model = read_model(self.path, statistics=statistics)
        self.target = ranked_target(self.model, self.asked)
        if self.shortlist is not None and not self.rough:
            raise InputError(
                "A shortlist works only for an exact process fitted by conjugate gradients, that is, to "
                "many labels; leave it out."
            )
        up, notes = maximizes(self.model, self.target, self.maximize)
        self.notes = (*notes, *self.model.scales_of(names_in(self.model, self.target)))
        if isinstance(self.target, WeightedSum):
            self.measured = measured_of(self.model, self.target)
            self.notes = (*self.notes, *words_of_sum(self.model, self.target, self.measured))
        self.rule = best_of(self.model, self.target, self.measured, replace(self.rule, maximize=up))

    def _asked(self) -> dict[str, Any]:
        """Return what the hits depend on, but for the library."""
        return {
            "model": self.model.metadata["spec_hash"],
            "acquisition": self.rule.state(),
            "k": self.k,
            "std": self.std,
            **({"candidates": self.n_kept} if self.shortlisted else {}),
            "target": self.model.name_of(self.target),
            "seed": self.seed if self.rule.needs_sample else None,
            "exclude_labelled": self.exclude_labelled,
            **({"exclude_by": self.exclude_by} if self.exclude_labelled else {}),
            **({"shortlist": self.shortlist} if self.rough else {}),
            **self._filters,
        }

    @property
    def _filters(self) -> dict[str, list[str]]:
        """The filters: said only where there are some, or were, as older hits say nothing."""
        there = {} if self.before is None else self.before.about
        return {name: [] for name in vars(FilterTexts()) if name in there} | self.filters.given

    @property
    def spec(self) -> dict[str, Any]:
        """What the hits depend on, as shards must agree on it."""
        return self._asked() | {"library": self.features.spec_hash}

    def need(self) -> Need:
        # This process has statistics for draws and for deviations of the hits alone: tasks read the model
        # themselves, those of this process once more.
        if self.earlier is not None:
            return Need()
        making, n_sums = making_of(self.features), len(processes_of(self.model.gp))
        k, std = self.n_kept if self.std == "candidates" else 0, self.deviations

        def need_of(k: int) -> MemoryNeed:
            return making.need(lambda making: need_of_model(self.model, making, k, std=std), "rows")

        worker = need_of(k)
        worker = replace(worker, smaller={"hits": (k, 100, need_of), **worker.smaller})
        if self.model.gp.means_only:
            return Need(worker)
        if self.features.raw:
            return Need(worker, here=need_of_model(self.model, making, k, std=True))
        held = held_by_model(making, factors=self.rule.needs_sample, n_sums=n_sums)
        hits = replace(making, rows=k, nonzeros=0)
        return Need(
            worker,
            held=("the model for hits and draws", held),
            here=need_of_scores(hits, k, std=True, n_sums=n_sums),
        )

    def pieces(self, run: Run) -> list[Pieces]:
        """Leave the draw of "thompson" in a file, too."""
        if self.earlier is not None:
            return [Done(len(self.features.partition_rows), _PIECES)]
        run.agree(self.spec)
        self.tree = self.tree_of(run, self.search(run))
        return [self.tree]

    def search(self, run: Run) -> Search:
        """Return what scores the library."""
        draw = None
        if self.rule.needs_sample:
            draw = leave_draws(self.model, self.target, self.seed, run.work, self.n_draws)
        greedy = acquisition_for("greedy", maximize=self.rule.maximize)
        plain = Search(
            model=absolute(self.path),
            model_hash=self.model.metadata["spec_hash"],
            rule=greedy if self.shortlisted else self.rule,
            k=self.n_kept,
            target=self.target,
            draw=draw,
            exclude_labelled=self.by_rows,
            keep_features=self.std == "candidates" and not self.features.raw,
            std=self.deviations,
            seed=self.seed,
        )
        if self.passing is None:
            return plain
        return PassingSearch(**vars(plain), passing=self.passing, n_draws=self.n_draws)

    def tree_of(self, run: Run, search: Search) -> Tree:
        """Return the tree that scores the library."""
        features: Any = self.features
        if search.ranks_by_draws:
            features = source_of_draws(features, self.model, self.target)
        chunk = Blocks(features.carried(run.work)).of
        search, fraction = self._with_shortlist(run, search, chunk)
        groups, rows = _grouped(features, self.model, std=self.deviations, fraction=fraction)
        root = Root(search, chunk, run.work / "partials", hash_of(self.spec))
        return Tree([root], groups, rows, _PIECES)

    def _with_shortlist(self, run: Run, search: Search, chunk: Any) -> tuple[Search, float]:
        """Return the search with what a shortlist takes, and the fraction of the library that it ranks."""
        rows, asked = self.features.partition_rows, self.shortlist
        n_rows = sum(rows)
        if asked == 1 or not self.rough or (asked is None and n_rows < _LEAST_LIBRARY):
            return search, 1.0
        chosen = sampled_rows(len(rows), SAMPLED_PARTITIONS, 0).tolist()
        share = min(1.0, SAMPLE / max(1, sum(rows[p] for p in chosen)))
        sample = Sample(search, share, self.k / max(1, n_rows), asked)
        root = Root(sample, chunk, run.work / "sample", hash_of(self.spec))
        tree = Tree([root], [(p,) for p in chosen], [rows[p] for p in chosen], _PIECES)
        tree.make(client=run.client, progress=run.progress)
        found: Cut = tree.result()
        self.notes = (*self.notes, str(found))
        run.progress.note(str(found))
        return replace(search, least=found.least), found.fraction

    def finish(self, run: Run, made: int) -> Any:
        """Write the hits and what is known of them."""
        if self.earlier is not None:
            about, there = self.earlier.about, f"{self.output} already holds exactly these hits"
            rejects = rejects_of(self.output) if about["rejected"] else None
            return self._report(self.earlier.table, about, rejects, (*about["notes"], there), run.seconds)
        found: Hits = self.tree.result()
        top = found.top
        if isinstance(found, Found):
            found = self._passed(run, found)
            [top] = found.tops
            if not len(top) and self.filters.given:
                why = "; ".join(self._tested(found)[1:-1])
                raise InputError(
                    f"None of {amount(found.n_scored, 'molecules')} passes the filters ({why}); ask for less."
                )
        table = table_of_rows(self.features, self._ranked(top))
        labelled = not self.exclude_labelled
        copies = duplicates(table["smiles"], self.model, self.features, labelled=labelled)
        ranking = (_SHORTLIST_NOTE.format(self.n_kept),) if self.shortlisted else ()
        notes = (*self.notes, *self.features.note_on_groups(), *ranking, *self._tested(found), copies)
        rejected, rejects = write_rejects(
            map(self.features.rejects, range(len(self.features.partition_rows))), self.output
        )
        about = {
            **self.spec,
            "direction": "maximize" if self.rule.maximize else "minimize",
            "model_name": self.path.name,
            "source": source_words(self.input.paths),
            "rows": found.n_scored,
            "rejected": rejected,
            "notes": list(notes),
        }
        write_hits(table, self.output, about, self.page(self.output, about, self.model, self.path))
        return self._report(table, about, rejects, notes, run.seconds)

    def _passed(self, run: Run, found: Found) -> Found:
        """Return what passes, from the whole library if too few of a shortlist do."""
        if self.shortlist is not None or not self.rough or len(found.tops[0]) >= self.n_kept:
            return found
        self.shortlist = 1.0
        tree = self.tree_of(run, self.search(run))
        tree.make(client=run.client, progress=run.progress)
        self.shortlist = None
        whole: Found = tree.result()
        return whole

    def _tested(self, found: Hits) -> list[str]:
        """Return how many molecules were tested, and left out by which filter."""
        if not isinstance(found, Found) or self.passing is None:
            return []
        counts = dict(zip(self.passing.words, found.left_out.tolist(), strict=True))
        counts[_NOT_LABELLED] = counts.get(_NOT_LABELLED, 0) + found.n_labelled  # known by their rows
        left = [f"left out, {reason_of(word)}: {number:,}" for word, number in counts.items() if number]
        few = f"only {len(found.tops[0]):,} molecules pass" if len(found.tops[0]) < self.k else ""
        return [*tested_words(found, self.passing), *left, *([few] if few else [])]

    def _ranked(self, top: TopK) -> dict[str, Any]:
        """Return the columns of the k hits, best first; candidates get their standard deviations here."""
        columns = top.arrays()
        score = columns.pop("score")
        order = np.arange(len(score))
        if self.std == "candidates":
            phi, diagonal = columns.pop("phi", None), columns.pop("diagonal", None)
            if not len(score):
                columns |= dict.fromkeys(("mean", "std", "std_y"), np.empty(0))
            else:
                phi = self._fingerprints(columns["row"]) if self.features.raw else phi
                with ONE_BLAS_THREAD:  # as tasks do: hits have the same bytes on any number of processors
                    columns |= predictions_of(self.model, self.target, phi, diagonal, std=True)
            if self.rule.needs_std:
                score = self.rule(columns["mean"], columns["std"])
                order = np.lexsort((columns["row"], -score))[: self.k]
        columns["acquisition"] = score
        return {name: values[order] for name, values in columns.items()}

    def _fingerprints(self, rows: npt.NDArray[np.int64]) -> Any:
        """Read the fingerprints of some rows again."""
        features, wanted = source_of_draws(self.features, self.model, self.target), np.sort(rows)
        ends = np.searchsorted(wanted, self.features.row_bounds)
        parts = [
            block
            for p in np.flatnonzero(np.diff(ends)).tolist()
            for block in features.blocks(p, wanted[ends[p] : ends[p + 1]])
        ]
        found = np.concatenate([block.rows for block in parts])
        fingerprints = [block.phi if features.raw else block.fingerprints for block in parts]
        return sparse.vstack(fingerprints, format="csr")[np.searchsorted(found, rows)]

    def _report(
        self,
        table: pa.Table,
        about: dict[str, Any],
        rejects: PurePath | None,
        notes: tuple[str, ...],
        seconds: float,
    ) -> Any:
        """Return the report on hits, from what their file says."""
        return self.made(
            hits=self.output,
            table=table,
            rows=about["rows"],
            rejected=about["rejected"],
            rejects=rejects,
            acquisition=about["acquisition"]["rule"],
            seconds=seconds,
            target=about["target"],
            direction=about["direction"],
            notes=notes,
            inputs=inputs_of(self.features),
        )


def _grouped(
    source: Source, model: Model, *, std: bool, fraction: float
) -> tuple[list[tuple[int, ...]], list[int]]:
    """Cut the library into groups of partitions; return also the rows of each group.

    The groups depend only on the size of the job, so that a second run on other workers finds its
    checkpoints.
    """
    rows = source.partition_rows
    seconds = source.seconds_per_row + 2e-6 + fraction * score_seconds(model, source.block_size, std=std)
    target = min(int(_TASK_SECONDS / seconds), max(_LEAST_ROWS, sum(rows) // _MOST_TASKS))
    groups = group_by_rows(list(enumerate(rows)), target)
    return groups, [sum(rows[p] for p in group) for group in groups]
