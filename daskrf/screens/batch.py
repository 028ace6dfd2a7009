"""The job of `suggest`: find candidates that pass, and choose a batch from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TypedDict, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.errors import InputError
from daskrf.files.disk import work_folder
from daskrf.jobs.job import Job, Need, Report, Run
from daskrf.jobs.pieces import Pieces
from daskrf.models.intervals import append_intervals, check_intervals
from daskrf.molecules.counts.fingerprints import equal_fingerprints
from daskrf.molecules.counts.similarity import nearest
from daskrf.molecules.counts.spec import FingerprintSpec
from daskrf.molecules.diversity import REASONS, TAKEN, Diversity
from daskrf.quantities import amount
from daskrf.screens.aim import SCORES, Aim, Depth
from daskrf.screens.candidates import CandidateSource
from daskrf.screens.choosers import CandidateColumns, Columns
from daskrf.screens.front import FrontAim
from daskrf.screens.passing import reason_of
from daskrf.screens.request import SuggestRequest
from daskrf.screens.searches import PassingHits
from daskrf.storage.hits import TableWriter, refuse_foreign, rejects_of, write_hits
from daskrf.storage.outputs import guarded, refuse_others
from daskrf.storage.tablefiles import beside, holds_any_rows

_MOST_COMPARED = 100_000  # labelled molecules that a batch is compared with


class Costs(TypedDict, total=False):
    """The price of each candidate, and the budget; none without a budget."""

    prices: npt.NDArray[np.float64]
    budget: float


@dataclass
class SuggestJob(Job[Report]):
    """The job of `suggest`: an aim ranks candidates from a source, and a batch is chosen from them.

    Attributes
    ----------
    request : SuggestRequest
    candidates : CandidateSource
        A library or a space.
    made : callable
        Makes the report.
    page : callable
        Returns what writes the batch, if it is to be a page.
    """

    request: SuggestRequest
    candidates: CandidateSource
    made: Callable[..., Report]
    page: Callable[..., TableWriter | None]
    output: PurePath = field(init=False)
    notes: tuple[str, ...] = ()

    name = "suggest"

    def __post_init__(self) -> None:
        self.output = self.request.output

    @property
    def locked(self) -> PurePath:
        """The output is a file."""
        return work_folder(self.output)

    @property
    def n(self) -> int:
        """How many molecules are chosen."""
        return self.request.k

    @property
    def aim(self) -> Aim:
        """What the candidates are ranked by."""
        return self.candidates.aim

    def plan(self, run: Run) -> None:
        """Read the model, and open the library or space to choose from."""
        request = self.request
        refuse_others(self.output, run.work, overwrite=request.overwrite)
        refuse_foreign(rejects_of(self.output))
        aim: Aim = FrontAim.of_batch(request) if request.improves_several else Aim.of(request)
        check_intervals(aim.model, aim.target, request.intervals, request.std)
        aim = aim.with_requirements(request.demands.require)
        depth = aim.depth(request)
        self.candidates.open(run, request, aim, depth)
        opened = tuple(dict.fromkeys((*aim.notes, *self.candidates.notes)))
        self.notes = (*opened, *aim.notes_on(depth, request))

    def need(self) -> Need:
        return self.candidates.need()

    def pieces(self, run: Run) -> Sequence[Pieces]:
        return self.candidates.pieces(run)

    def finish(self, run: Run, made: int) -> Report:
        """Choose the batch, finding more candidates as needed, and write it."""
        candidates = self.candidates
        candidates.list_molecules(run)
        while True:
            hits = candidates.library.hits()
            columns = candidates.library.columns(hits)
            diverse = self._choose(columns)
            if len(diverse.picks) == self.n or diverse.is_spent or not candidates.deepen(hits):
                break
            so_far = f"{len(diverse.picks):,} of {self.n:,} could be chosen"
            run.progress.note(f"{so_far}; looking at {candidates.n_looked_at:,} candidates")
            run.check(candidates.need())
            candidates.look(run)
        left_out = self._left_out(hits, columns, diverse)
        if len(diverse.picks) < (self.n if self.request.demands.budget is None else 1):
            self._refuse(hits, len(diverse.picks), left_out)
        library = candidates.library
        rejected, _ = library.ranking.write_rejects(self.output)
        table, similar = self._table(columns, diverse.picks)
        counts = [f"left out, {name}: {number:,}" for name, number in left_out.items() if number]
        marked = library.features.note_on_groups()
        some = [*marked, *candidates.notes_on_ranking(hits), *library.notes_on_tests(hits)]
        batch = self.aim.notes_on_batch(table, Depth(library.k, library.ranking.n_draws))
        twins = self._twins(table)
        table, lacking = append_intervals(table, self.aim.model, self.aim.target, self.request.intervals)
        paid, plates = self._paid(diverse), self.request.plates
        if plates is not None:
            table = plates.filled(table)
            paid += plates.notes(table)
            if plates.controls and not holds_any_rows(self.output):
                paid.append(f"controls have no structures, and no rows in {self.output.name}")
        notes = (
            *self.notes,
            *library.ranking.notes,
            *some,
            *counts,
            *paid,
            *batch,
            *lacking,
            *twins,
            similar,
        )
        self._write(run, table, self._about(hits, rejected, notes, len(table)))
        return self.made(
            batch=self.output,
            table=table,
            rows=candidates.n_ranked(hits),
            rejected=rejected,
            acquisition=self.aim.rule_name,
            target=self.aim.target_name,
            direction=self.aim.direction,
            left_out=left_out,
            seconds=run.seconds,
            notes=notes,
            inputs=candidates.inputs,
        )

    def _paid(self, diverse: Diversity) -> list[str]:
        """Return what the batch costs, if there is a budget."""
        budget = self.request.demands.budget
        return (
            []
            if budget is None
            else [budget.note(len(diverse.picks), self.n, diverse.cost, spent=diverse.is_spent)]
        )

    def _about(self, hits: PassingHits, rejected: int, notes: Sequence[str], n: int) -> dict[str, object]:
        """Return the metadata of the file of the batch."""
        aim = self.aim
        source, library = self.candidates.chosen_from
        n_rows, several = self.candidates.n_ranked(hits), not isinstance(aim.improved, str)
        verb = f"{aim.direction.removesuffix('e')}ing"
        way = f"for {aim.target_name}" if several else f"{verb} '{aim.target_name}'"
        return {
            "made": f"batch of {amount(n, 'molecules')} from {n_rows:,} by {aim.rule_name}",
            "chosen": f"Chosen from {amount(n_rows, 'molecules')} of {source} by {aim.rule_name}, {way}.",
            "model": aim.model.metadata["spec_hash"],
            "model_name": aim.model.path.name,
            "library": library,
            "source": source,
            "target": aim.improved,
            "direction": None if aim.direction == "each" else aim.direction,
            "rejected": rejected,
            "notes": list(notes),
        }

    def _write(self, run: Run, table: pa.Table, about: dict[str, object]) -> None:
        """Write the batch in the format that the file's ending names."""
        title = f"{amount(len(table), 'molecules')} to measure next"
        page = self.page(self.output, about, self.aim.model, self.aim.model.path, title)
        before = guarded(self.output, run.work, overwrite=self.request.overwrite)
        plates = self.request.plates
        if plates is not None and holds_any_rows(self.output):
            table = plates.with_controls(table)
        write_hits(table, self.output, about, page, kind="batch", before=before)

    def _choose(self, columns: Columns) -> Diversity:
        """Return the picks and the molecules they rule out; add scores and reasons as columns."""
        demands = self.request.demands
        smiles = columns["smiles"].to_pylist()
        diverse = Diversity(
            smiles,
            max_similarity=demands.max_similarity,
            per_scaffold=demands.per_scaffold,
            caps=demands.caps(columns["described"]),
            level=demands.exclude_by,
            alike=None if demands.same_fingerprint else self._alike(smiles),
            **self._costs(columns["described"]),
        )
        columns["why"] = {}
        if len(columns["row"]):
            chooser = self.aim.chooser(self.request, self.candidates.library.ranking.n_draws)
            chosen = chooser.choose(cast(CandidateColumns, columns), diverse, self.n)
            columns["acquisition"], columns["why"] = chosen.scores, chosen.why
        return diverse

    def _costs(self, described: pa.Table) -> Costs:
        """Return the prices of the candidates and the budget, if there is one."""
        budget = self.request.demands.budget
        if budget is None:
            return {}
        features = self.candidates.library.features
        return {"prices": budget.prices(features, described), "budget": budget.total}

    def _twins(self, table: pa.Table) -> list[str]:
        """Return how many molecules of the batch the model cannot tell apart, if the batch may have such."""
        if not self.request.demands.same_fingerprint:
            return []
        _, times = np.unique(self._alike(table["smiles"].to_pylist()), return_counts=True)
        n = int(times[times > 1].sum())
        what = "the same fingerprint as another, so the model cannot tell them apart"
        return [f"{n:,} of the batch have {what}"] if n else []

    def _alike(self, smiles: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return numbers that are equal for molecules with the same fingerprint."""
        metadata = self.aim.model.metadata
        return equal_fingerprints(
            smiles, FingerprintSpec.from_state(metadata["fingerprint"]), metadata["fragments"]
        )

    def _left_out(self, hits: PassingHits, columns: Columns, diverse: Diversity) -> dict[str, int]:
        """Return how many molecules each demand left out; of candidates, those as good as the worst pick."""
        library = self.candidates.library
        counts = dict(zip(library.passing.words, hits.left_out.tolist(), strict=True))
        score, state = columns["acquisition"], diverse.state
        whole = len(diverse.picks) == self.n or diverse.is_spent
        worst = score[state == TAKEN].min(initial=np.inf) if whole else -np.inf
        for code, name in REASONS.items():
            counts[name] = int(((state == code) & (score >= worst)).sum())
        if library.ranking.exclude_labelled:
            word = "is not a labelled molecule"
            counts = {word: hits.n_labelled + counts.pop(word, 0), **counts}
        picked = REASONS.values()
        reasons = {name if name in picked else reason_of(name): number for name, number in counts.items()}
        return {**self.candidates.left_out(), **reasons}

    def _refuse(self, hits: PassingHits, n_picks: int, left_out: Mapping[str, int]) -> None:
        """Refuse, as too few molecules can be chosen."""
        why = "; ".join(f"{number:,} left out, {name}" for name, number in left_out.items() if number)
        budget, library = self.request.demands.budget, self.candidates.library
        if budget is not None and not hits.tops[0] and not any(hits.left_out[2:-2]):
            raise InputError(f"{budget.refusal(library.features)}; raise --budget.")
        there = f"only {n_picks:,} can" if n_picks else "none can"
        advice = f"ask for -n {n_picks}, or" if n_picks else "ask for"
        worst = "" if n_picks else library.passing.strictest(hits.left_out.tolist())
        raise InputError(
            f"{amount(self.n, 'molecules')} were asked for, but of {self.candidates.words_of_all(hits)} "
            f"{there} be chosen ({why or 'all of them'}){worst}; {advice} "
            f"{'demand less' if n_picks else 'less'}."
        )

    def _table(self, columns: Columns, picks: list[int]) -> tuple[pa.Table, str]:
        """Return the batch, and a sentence on how near it is to labelled molecules."""
        aim, take = self.aim, pa.array(picks)
        smiles, described = columns["smiles"].take(take), columns["described"].take(take)
        table = pa.table({"rank": np.arange(1, len(picks) + 1), "smiles": smiles})
        table = table.append_column("id", described["id"])
        further = (*aim.columns_of_class, *aim.columns_of_sum)
        for name in (*aim.columns, *further, *(["meets"] if aim.requirements else [])):
            table = table.append_column(name, pa.array(columns[name][picks]))
        table, words = self._compared(table)
        table = table.append_column("why", pa.array([columns["why"][i] for i in picks]))
        table = table.append_column("source", described["source"].cast(pa.string()))
        for name in ("line", "row"):
            table = table.append_column(name, described[name])
        described = described.drop_columns([*SCORES, *aim.columns_of_class, "rank"])
        return self.candidates.described(beside(table, described)), words

    def _compared(self, table: pa.Table) -> tuple[pa.Table, str]:
        """Add each pick's nearest labelled molecule; return also a sentence on how near these are."""
        assert self.aim.measured is not None
        labelled = list(dict.fromkeys(self.aim.measured.labelled_molecules))
        if not labelled:
            return table, "the labelled molecules are not known, so there is nothing to compare with"
        if len(labelled) > _MOST_COMPARED:
            return table, "there are too many labelled molecules to compare with"
        similarity, index = nearest(table["smiles"].to_pylist(), labelled)
        table = table.append_column("similarity_to_labelled", pa.array(similarity.round(4)))
        table = table.append_column("nearest_labelled", pa.array([labelled[i] for i in index.tolist()]))
        middle = float(np.median(similarity))
        return table, f"similarity to the nearest labelled molecule: median {middle:.2f} (Tanimoto, ECFP4)"
