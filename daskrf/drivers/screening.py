"""Model + library -> the best k molecules by an acquisition function."""

from __future__ import annotations

import copy
import functools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from distributed import Client

from daskrf.drivers import memory
from daskrf.drivers.cluster import worker_memory
from daskrf.drivers.folding import fold, fold_share
from daskrf.drivers.hits import described, search_of, write_hits, write_rejects
from daskrf.drivers.models import Model, open_model, read_model
from daskrf.drivers.partitions import group_by_rows
from daskrf.drivers.progress import Progress
from daskrf.drivers.scoring import source_for, std_seconds
from daskrf.drivers.shards import PLAN, Shard, ShardReport, Share, agree
from daskrf.drivers.sources import Block, Source, largest_partition
from daskrf.drivers.threads import ONE_BLAS_THREAD
from daskrf.drivers.watching import watched
from daskrf.errors import InputError, StoreError
from daskrf.gp.acquisition import Acquisition
from daskrf.gp.base import FeatureSpaceGP
from daskrf.molecules import TableFormat
from daskrf.paths import as_path
from daskrf.screening import TopK
from daskrf.stores.files import remove_quietly, work_folder
from daskrf.stores.model import load_model, read_checkpoint, write_checkpoint
from daskrf.stores.plans import hash_of

__all__ = ["ScreenReport", "screen"]

_TASK_SECONDS = 30.0  # a task's aim
_LEAST_ROWS = 10_000  # of a task: fewer are not worth a checkpoint
_MOST_TASKS = 4_096  # unless they would take longer
_SHORTLIST_NOTE = "ranked among the {:,} best means; standard deviations for all would rank every molecule"
_PIECES = "parts of the library"
_SHORTLIST = 10  # times k molecules of the best mean get a standard deviation, with std="candidates"


@dataclass(frozen=True)
class ScreenReport:
    """What `screen` found.

    Attributes
    ----------
    hits : Path
        Parquet file: rank, row, id, smiles, source, line, mean, std, std_y, acquisition.
    table : pyarrow.Table
        The same.
    rows, rejected : int
        Molecules scored, and rejected rows of SMILES files.
    rejects : Path or None
    acquisition : str
    seconds : float
    notes : tuple of str
    """

    hits: Path
    table: pa.Table
    rows: int
    rejected: int
    rejects: Path | None
    acquisition: str
    seconds: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"best {self.table.num_rows:,} of {self.rows:,} molecules by {self.acquisition} in {self.hits} "
            f"({self.seconds:.1f} s)"
        ]
        if self.rejected:
            lines.append(
                f"  {self.rejected:,} rows were rejected: file, line, text and reason are in {self.rejects}"
            )
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@watched
def screen(
    model: str | os.PathLike[str],
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    k: int = 1000,
    acquisition: str = "greedy",
    maximize: bool = False,
    kappa: float = 2.0,
    best: float | None = None,
    std: str = "candidates",
    seed: int = 0,
    target: str | int = 0,
    exclude_labelled: bool = False,
    format: TableFormat | None = None,
    fragments: str | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
    shard: Shard | str | None = None,
    prepare: bool = False,
) -> ScreenReport | ShardReport:
    """Find the k best molecules of a library; exact over any number of rows, in bounded memory.

    Parameters
    ----------
    model : path
        Directory that `fit` wrote.
    source : path, or sequence of paths
        A fingerprint store, a feature store, or SMILES files; features are not stored.
    output : path
        Parquet file of the hits, best first.
    k : int
        How many.
    acquisition : {"greedy", "ucb", "ei", "pi", "thompson"}
        Rank by the mean, the confidence bound, expected improvement, the probability of improvement, or
        one draw of the whole function from the posterior.
    maximize : bool
        Whether large values are good.
    kappa : float
        Standard deviations that "ucb" adds.
    best : float, optional
        What "ei" and "pi" improve on; default: the best label of the model.
    std : {"candidates", "all", "none"}
        Who gets a standard deviation, which costs M^2 / 2 multiply-adds a molecule. "all": every molecule,
        so that "ucb", "ei" and "pi" are exact. "candidates": the hits; "ucb", "ei" and "pi" then rank the
        10 k molecules of the best mean, an approximation. "none": nobody.
    seed : int
        Of the draw of "thompson".
    target : str or int
        Which target of the model.
    exclude_labelled : bool
        Leave out the molecules that the model was fitted to (same library only).
    format, fragments
        For SMILES files, as in `fingerprint`.
    client : distributed.Client, optional
        Where to run; default: this process.
    progress : Progress, optional
    shard : Shard or str, optional
        ``"i/n"``: score only every n-th part of the library, from the i-th on, here and without a client.
        Shards run at the same time on any hosts; a last call without `shard` scores what is missing, and
        ranks all.
    prepare : bool
        Only read SMILES files once, and draw the function of "thompson", so that shards start at once.

    Returns
    -------
    ScreenReport, or ShardReport with `shard` or `prepare`

    Raises
    ------
    InputError
        If options do not fit each other, or the library has other fingerprints or features than the model.
    """
    start, here = time.monotonic(), memory.libraries_of(None)
    progress = progress or Progress()
    output = as_path(output)
    share, work = Share.of(shard, prepare, client), work_folder(output)
    _check_options(k, std, output)
    earlier = search_of(output)
    fitted = read_model(
        model, statistics=std == "candidates" or acquisition == "thompson"
    )  # tasks read theirs
    t = _target(fitted, target)
    rule = _rule(acquisition, maximize, kappa, _best(fitted, t, maximize) if best is None else best, std)
    with share.lock(work, "screen", progress):
        features = source_for(
            fitted, source, work, format=format, fragments=fragments, progress=progress, share=share
        )
        n_kept = k * _SHORTLIST if (shortlist := rule.needs_std and std == "candidates") else k
        _check_memory(fitted, features, n_kept, std, client, here, drawn=rule.needs_sample)
        leave_out = exclude_labelled and _same_library(fitted, features)
        spec = _spec(fitted, features, rule, k, std, t, seed, leave_out)
        groups = _grouped(features, std == "all")
        if not share.whole and earlier == hash_of(spec):
            return share.report(output, _PIECES, share.pieces(len(groups[0])), start)
        agree(share, work / PLAN, spec)
        draw = _draw_weights(fitted, t, seed, work) if rule.needs_sample else None
        scored = Acquisition("greedy", maximize) if shortlist else rule
        place: Any = (features.carried(work), str(as_path(model).resolve()), fitted.metadata["spec_hash"])
        kept: Any = (scored, n_kept, t, draw, leave_out, std == "candidates", std == "all")
        reduction = ScreenFold(*place, *kept)
        tree = (reduction, *groups, work / "partials", hash_of(spec))
        if not share.whole:
            return share.report(output, _PIECES, fold_share(share, *tree, progress=progress), start)
        found = _searched(fold(*tree, client=client, progress=progress))
        table = described(features, _ranked(found.top, fitted, rule, reduction, k))
        write_hits(table, output, hash_of(spec))
        rejected, rejects = write_rejects(features, output, hash_of(spec))
        remove_quietly(work)
    notes = (_SHORTLIST_NOTE.format(n_kept),) if shortlist else ()
    seconds = time.monotonic() - start
    return ScreenReport(output, table, found.n_scored, rejected, rejects, acquisition, seconds, notes)


def _searched(found: Any) -> Hits:
    """Return what a search has found; refuse a library without any molecule."""
    assert isinstance(found, Hits)
    if not found.n_scored:
        raise InputError("There is nothing to screen: none of the rows of the library could be used.")
    return found


def _spec(
    model: Model,
    features: Source,
    rule: Acquisition,
    k: int,
    std: str,
    target: int,
    seed: int,
    exclude_labelled: bool,
) -> dict[str, Any]:
    """Return what the hits depend on, as the shards of a search must agree on it."""
    return {
        "library": features.spec_hash,
        "model": model.metadata["spec_hash"],
        "acquisition": rule.state(),
        "k": k,
        "std": std,
        "target": model.targets[target],
        "seed": seed if rule.needs_sample else None,
        "exclude_labelled": exclude_labelled,
    }


def _check_options(k: int, std: str, output: Path) -> None:
    """Refuse impossible options."""
    if k < 1:
        raise InputError(f"The number of hits must be at least 1, not {k}.")
    if std not in ("candidates", "all", "none"):
        raise InputError(f"std is one of candidates, all, none, not {std!r}.")
    if output.suffix != ".parquet":
        raise InputError(
            f"The hits are a Parquet file; name it so, for example {output.with_suffix('.parquet')}."
        )


def _rule(acquisition: str, maximize: bool, kappa: float, best: float, std: str) -> Acquisition:
    rule = Acquisition(acquisition, maximize, kappa, best)
    if rule.needs_std and std == "none":
        raise InputError(f"{acquisition} ranks by standard deviations, so that std cannot be none.")
    return rule


def _target(model: Model, target: str | int) -> int:
    names = model.targets
    if isinstance(target, str) and target in names:
        return names.index(target)
    if isinstance(target, int) and 0 <= target < len(names):
        return target
    raise InputError(f"The model has no target {target!r}; it has {', '.join(names)}.")


def _best(model: Model, target: int, maximize: bool) -> float:
    """Return the best label that the model was fitted to."""
    return float((max if maximize else min)(model.metadata["range"][target]))


def _same_library(model: Model, features: Source) -> bool:
    """Refuse to leave out labelled rows of a library whose row numbers mean something else."""
    library = getattr(features, "rows_spec_hash", features.spec_hash)
    if library != model.metadata["library"]:
        raise InputError(
            "The labelled molecules can be left out only of the fingerprint store that the model was fitted "
            "on; screen that store, or drop exclude_labelled."
        )
    return True


def _draw_weights(model: Model, target: int, seed: int, work: Path) -> str:
    """Leave the weights of one draw of the whole function where every task finds them; return the file."""
    path = work / f"draw-{model.metadata['spec_hash'][:16]}-{target}-{seed}"
    if read_checkpoint(path, path.name) is None:
        work.mkdir(parents=True, exist_ok=True)
        with ONE_BLAS_THREAD:  # whatever number of processors the one shard has that draws for all
            weights = model.gp.draw(seed, target).weights_
        for keep in (True, False):  # that of another shard may be there meanwhile, but not a damaged one
            write_checkpoint(path, {"weights": weights}, {}, path.name, keep=keep)
            if read_checkpoint(path, path.name) is not None:
                break
    return str(path.resolve())


def _check_memory(
    model: Model, features: Source, k: int, std: str, client: Client | None, here: int, *, drawn: bool
) -> None:
    """Check what a task needs, and what this process needs for draws and for deviations of the hits.

    It has statistics for these alone: tasks read the model themselves, those of this process once more.
    `here` is what libraries took in this process before the model was read.
    """
    k = k if std == "candidates" else 0
    n_components, one_bit = len(model.gp.weights_), model.gp.one_bit_
    double, blocks = features.feature_map.gram_precision == "double", features.feature_map.gram_columns
    rows, nonzeros = largest_partition(features)
    libraries = memory.libraries_of(client, here)
    held = 0
    if client is None and model.gp.statistics_ is not None:  # tasks run beside the model that was read here
        held = memory.held_by_model(n_components, double=double, factors=drawn, gram_columns=blocks)

    def need_of(k: int, rows: int = rows, nonzeros: int | None = nonzeros) -> memory.MemoryNeed:
        options: dict[str, Any] = {"one_bit": one_bit, "double": double, "nonzeros": nonzeros}
        options["gram_columns"] = blocks
        need = memory.need_of_screen(n_components, rows, k, std=std == "all", libraries=libraries, **options)
        need = need.plus("tables of the map", features.table_bytes)
        return need.plus("the model for hits and draws", held)

    fewer = {"hits": (k, 100, need_of), **memory.fewer_rows(rows, nonzeros, lambda r, n: need_of(k, r, n))}
    memory.check(need_of(k), worker_memory(client), "a worker" if client else "this machine", fewer)
    if model.gp.statistics_ is not None:
        need = memory.need_of_screen(
            n_components,
            k,
            k,
            one_bit=one_bit,
            std=True,
            double=double,
            nonzeros=0,
            libraries=here,
            gram_columns=blocks,
        )
        memory.check(need, worker_memory(None), "this machine")


def _grouped(source: Source, std: bool) -> tuple[list[tuple[int, ...]], list[int]]:
    """Cut the library into groups of partitions; return also the rows of each.

    By the size of the job alone, so that a second run on other workers finds its checkpoints.
    """
    rows = source.partition_rows
    seconds = source.seconds_per_row + 2e-6 + std * std_seconds(source.feature_map.block_size)
    target = min(int(_TASK_SECONDS / seconds), max(_LEAST_ROWS, sum(rows) // _MOST_TASKS))
    groups = group_by_rows(list(enumerate(rows)), target)
    return groups, [sum(rows[p] for p in group) for group in groups]


@dataclass
class Hits:
    """The best rows so far, and how many rows were scored: a commutative monoid."""

    top: TopK
    n_scored: int = 0

    def __iadd__(self, other: Hits) -> Hits:
        self.top = self.top.combine(other.top)
        self.n_scored += other.n_scored
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        """See `Partial`."""
        return {**self.top.arrays(), "n_scored": np.array(self.n_scored)}


@dataclass(frozen=True)
class ScreenFold:
    """Scores partitions and keeps the best k; see `daskrf.drivers.folding`."""

    source: Source
    model: str
    model_hash: str
    rule: Acquisition
    k: int
    target: int
    draw: str | None
    exclude_labelled: bool
    keep_features: bool
    std: bool
    name: str = "screen"

    def from_partitions(self, partitions: Sequence[int]) -> Hits:
        """See `Fold`."""
        model = open_model(self.model, self.model_hash, statistics=self.std)
        hits = Hits(TopK(self.k))
        for partition in partitions:
            for block in self.source.blocks(partition):
                hits.n_scored += len(block.rows)
                hits.top = hits.top.combine(self._score(model, self._wanted(block)))
                del block  # before the next one is made
        return hits

    def _wanted(self, block: Block) -> Block:
        """Return the block without the labelled rows, if these are to be left out."""
        if not self.exclude_labelled or not len(block.rows):
            return block
        labelled = _labelled_rows(self.model, self.model_hash)
        low, high = np.searchsorted(labelled, [block.rows[0], block.rows[-1] + 1])
        return block.where(~np.isin(block.rows, labelled[low:high], assume_unique=True))

    def _score(self, model: Model, block: Block) -> TopK:
        columns = self.predict(model, block.phi, block.diagonal, std=self.std)
        if self.keep_features:
            columns["phi"] = block.phi
            if block.diagonal is not None:
                columns["diagonal"] = block.diagonal
        values = columns["mean"]
        if self.draw is not None:
            values = _drawn(self.draw, self.model, self.model_hash, self.target).predict(block.phi)
        return TopK(self.k).from_chunk(self.rule(values, columns.get("std")), block.rows, **columns)

    def predict(
        self, model: Model, phi: npt.NDArray[Any], diagonal: npt.NDArray[np.float64] | None, *, std: bool
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the mean for the target and, if wanted, the standard deviations of f and of y."""
        if not std:
            return {"mean": model.gp.predict(phi, target=self.target)}
        options: dict[str, Any] = {"of": "both", "target": self.target, "diagonal": diagonal}
        found = model.gp.predict(phi, return_std=True, **options)
        return dict(zip(("mean", "std", "std_y"), found, strict=True))

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Hits:
        """See `Fold`."""
        columns = dict(arrays)
        n_scored = int(columns.pop("n_scored"))
        return Hits(TopK(self.k, columns.pop("score"), columns.pop("row"), columns), n_scored)


@functools.lru_cache(maxsize=1)
def _labelled_rows(path: str, model_hash: str) -> npt.NDArray[np.int64]:
    open_model(path, model_hash, statistics=False)  # refuses another model
    return load_model(path, names=["labelled_rows"]).arrays["labelled_rows"]


@functools.lru_cache(maxsize=1)
def _drawn(draw: str, path: str, model_hash: str, target: int) -> FeatureSpaceGP:
    """Return a model whose mean is one draw of the whole function."""
    drawn = copy.copy(open_model(path, model_hash, statistics=False).gp)
    found = read_checkpoint(as_path(draw), as_path(draw).name)
    if found is None:
        raise StoreError(f"{draw} is gone or damaged; run the same command again, which makes it anew")
    drawn.weights_, drawn.mean_ = found.arrays["weights"], drawn.mean_[[target]]
    return drawn


def _ranked(top: TopK, model: Model, rule: Acquisition, reduction: ScreenFold, k: int) -> dict[str, Any]:
    """Return the columns of the k hits, best first; candidates get their standard deviations here."""
    columns = top.arrays()
    score = columns.pop("score")
    order = np.arange(len(score))
    if "phi" in columns:
        phi, diagonal = columns.pop("phi"), columns.pop("diagonal", None)
        with ONE_BLAS_THREAD:  # as tasks do: hits have the same bytes on any number of processors
            columns |= reduction.predict(model, phi, diagonal, std=True)
        if rule.needs_std:
            score = rule(columns["mean"], columns["std"])
            order = np.lexsort((columns["row"], -score))[:k]
    columns["acquisition"] = score
    return {name: values[order] for name, values in columns.items()}
