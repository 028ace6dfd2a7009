"""The job of suggest: candidates of a library that pass, and the choice of a batch among them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.acquisition import Acquisition
from daskrf.acquisition.requirement import Requirement, weighed
from daskrf.blas import ONE_BLAS_THREAD
from daskrf.errors import InputError, OptionError, printable
from daskrf.files.backend import as_path
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import Target, WeightedSum
from daskrf.jobs.job import Need, Run
from daskrf.jobs.memory import PIECES, MemoryNeed, peak
from daskrf.models.models import Model, predictions_of
from daskrf.models.modelsource import source_for
from daskrf.models.targets import measured_of, names_in
from daskrf.molecules.counts.fingerprints import equal_fingerprints
from daskrf.molecules.counts.similarity import nearest
from daskrf.molecules.counts.spec import FingerprintSpec
from daskrf.molecules.diversity import REASONS, TAKEN, Diversity
from daskrf.molecules.filters import Limit, limits_of
from daskrf.molecules.structures import LEVEL_WORDS, LEVELS, Level
from daskrf.quantities import amount, listed
from daskrf.screening import TopK
from daskrf.screens.choosers import Believing, ByDraws, Chooser, Ranked
from daskrf.screens.libraryscreen import ScreenJob
from daskrf.screens.passing import Excluded, FilterTexts, Passing, columns_of, reason_of
from daskrf.screens.request import ScreenRequest
from daskrf.screens.searches import (
    Candidates,
    Found,
    Search,
    table_of_rows,
    tested_words,
)
from daskrf.screens.shortlist import n_candidates
from daskrf.sources.inputs import inputs_of, source_words
from daskrf.sources.sources import Source
from daskrf.sources.wholefile import smiles_in
from daskrf.storage.hits import refuse_foreign, rejects_of, write_hits, write_rejects
from daskrf.storage.outputs import guarded, refuse_others
from daskrf.storage.tablefiles import beside
from daskrf.tables import given_words

SIGNS = ("<", "<=", ">", ">=")
_TAKEN = ("mean", "std", "std_y", "acquisition")  # of the candidates, and given again for the batch
DEEPER = 4  # times as many candidates, where those there are do not make a batch
_MOST_DRAWS = 100  # of Thompson sampling: each costs additions at every molecule
_PER_DRAW = 8  # candidates of a draw for each of its picks: draws often agree on the best
_JOINT = 4000  # candidates whose covariance is computed, if 2 n are not more
_JOINT_SOLVED = 1000  # the same, where each takes a solution by conjugate gradients
_MOST_COMPARED = 100_000  # labelled molecules that a batch is compared with


@dataclass(frozen=True)
class Demands:
    """What the molecules of a batch have to meet."""

    filters: FilterTexts = field(default_factory=FilterTexts)
    exclude: tuple[str | os.PathLike[str], ...] = ()
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
    def of_batch(
        cls, request: SuggestRequest, made: Callable[..., Any], page: Callable[..., Any], **more: Any
    ) -> Self:
        """Return the job of a request for a batch."""
        return cls.of(
            request,
            made,
            page,
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
        self.measured = measured_of(self.model, self.target, source)
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
        return self.made(
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
        return words_of_rule(self.rule), self.model.name_of(self.target), direction

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
            self.k *= DEEPER
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
        return source_words(self.input.paths), self.features.spec_hash

    def _write(self, run: Run, table: pa.Table, about: dict[str, Any]) -> None:
        """Write the batch as its ending says."""
        title = f"{amount(self.n, 'molecules')} to measure next"
        page = self.page(self.output, about, self.model, self.path, title)
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
        columns["why"] = {}
        if len(columns["row"]):
            chosen = self.chooser.choose(columns, diverse, self.n)
            columns["acquisition"], columns["why"] = chosen.scores, chosen.why
        return diverse

    @property
    def chooser(self) -> Chooser:
        """How the batch is chosen of the candidates."""
        if self.rule.needs_sample and self.n_draws > 1:
            return ByDraws()
        if self.batch == "believer":
            usual = self.usual if self.requirements else None
            return Believing(self.model, self.target, self.rule, usual)
        return Ranked(self.rule)

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
        table = table.append_column("why", pa.array([columns["why"][i] for i in picks]))
        table = table.append_column("source", described["source"].cast(pa.string()))
        for name in ("line", "row"):
            table = table.append_column(name, described[name])
        return beside(table, described.drop_columns([*_TAKEN, "rank"])), words


def _is_slot(name: str) -> bool:
    """Return whether a column of products holds the blocks of a slot."""
    return name.startswith("block_") and name.removeprefix("block_").isdecimal()


def _requirements(texts: Sequence[str], model: Model, target: Target) -> Iterator[Requirement]:
    """Yield what is asked of targets other than the one that ranks."""
    there = listed(model.targets, "'")
    if texts and len(model.targets) < 2:
        raise InputError(
            f"--require asks for other targets than the one that ranks, and {there} is the only one of the "
            "model; --where asks for properties and columns."
        )
    for limit in (limit for text in texts for limit in limits_of_targets(text, model, there)):
        if not limit.column:
            raise InputError(
                f"'{limit.name}' is no target of the model, which has {there}; --where asks for properties "
                "and columns."
            )
        if model.targets.index(limit.name) == target:
            raise InputError(f"'{limit.name}' is the target that ranks, and cannot be required as well.")
        if limit.sign not in SIGNS:
            raise OptionError(f"A target is required to be above or below a number, not {limit}.")
        yield Requirement(model.targets.index(limit.name), limit.name, limit.sign[0] == ">", limit.number)


def limits_of_targets(text: str, model: Model, there: str) -> tuple[Limit, ...]:
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


def words_of_rule(rule: Acquisition) -> str:
    """Return a rule with its settings.

    Examples
    --------
    >>> from daskrf.acquisition import acquisition_for
    >>> words_of_rule(acquisition_for("ucb", kappa=0.5)), words_of_rule(acquisition_for("greedy"))
    ('ucb (kappa 0.5)', 'greedy')
    """
    state = {name: value for name, value in rule.state().items() if name not in ("rule", "maximize")}
    told = ", ".join(f"{name} {value:g}" for name, value in state.items() if value is not None)
    return f"{rule.name} ({told})" if told else rule.name
