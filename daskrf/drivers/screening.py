"""Model + library -> the best k molecules by an acquisition function."""

from __future__ import annotations

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
from daskrf.drivers.folding import fold
from daskrf.drivers.models import Model, open_model, read_model
from daskrf.drivers.partitions import group_by_rows
from daskrf.drivers.progress import Progress
from daskrf.drivers.scoring import close_source, source_for
from daskrf.drivers.sources import Block, Source
from daskrf.errors import InputError
from daskrf.gp import RandomFeatureGP
from daskrf.gp.acquisition import Acquisition
from daskrf.molecules import TableFormat
from daskrf.screening import TopK
from daskrf.stores.fingerprints import write_parquet
from daskrf.stores.model import load_model
from daskrf.stores.plans import hash_of

__all__ = ["ScreenReport", "screen"]

_GROUP_ROWS = {"mean": 2_000_000, "std": 100_000}  # rows a task scores: some tens of seconds
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
) -> ScreenReport:
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

    Returns
    -------
    ScreenReport

    Raises
    ------
    InputError
        If options do not fit each other, or the library has other fingerprints or features than the model.
    """
    start = time.monotonic()
    progress = progress or Progress()
    if k < 1:
        raise InputError(f"The number of hits must be at least 1, not {k}.")
    if std not in ("candidates", "all", "none"):
        raise InputError(f"std is one of candidates, all, none, not {std!r}.")
    fitted = read_model(model, statistics=std != "none" or acquisition != "greedy")
    t = _target(fitted, target)
    rule = Acquisition(acquisition, maximize, kappa, _best(fitted, t, maximize) if best is None else best)
    if rule.needs_std and std == "none":
        raise InputError(f"{acquisition} ranks by standard deviations; ask for std='all' or 'candidates'.")
    output = Path(output)
    work = output.parent / f".{output.name}.work"
    features = source_for(fitted, source, work, format=format, fragments=fragments, progress=progress)
    shortlist = rule.needs_std and std == "candidates"
    reduction = ScreenFold(
        features,
        str(Path(model).resolve()),
        fitted.metadata["spec_hash"],
        Acquisition("greedy", maximize) if shortlist else rule,
        k * _SHORTLIST if shortlist else k,
        t,
        seed,
        exclude_labelled and _same_library(fitted, features),
        keep_features=std == "candidates",
        std=std == "all",
    )
    _check_memory(reduction, fitted, client)
    found = _search(reduction, work, client, progress)
    table = _described(features, _ranked(found.top, fitted, rule, reduction, k))
    output.parent.mkdir(parents=True, exist_ok=True)
    write_parquet(table, work / "hits.parquet")
    os.replace(work / "hits.parquet", output)
    rejected, rejects = close_source(features, output, work, made=1)
    seconds = time.monotonic() - start
    note = (f"ranked among the {k * _SHORTLIST:,} best means; std='all' ranks every molecule, exactly",)
    return ScreenReport(
        output, table, found.n_scored, rejected, rejects, acquisition, seconds, note if shortlist else ()
    )


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


def _check_memory(reduction: ScreenFold, model: Model, client: Client | None) -> None:
    need = memory.need_of_screen(
        len(model.gp.weights_),
        max(reduction.source.partition_rows),
        reduction.k if reduction.keep_features else 0,
        one_bit=model.gp.one_bit_,
        std=reduction.std,
    )
    memory.check(need, worker_memory(client), "a worker" if client else "this machine")


def _search(reduction: ScreenFold, work: Path, client: Client | None, progress: Progress) -> Hits:
    """Make the pass over the library."""
    rows = reduction.source.partition_rows
    # By the size of the job alone, so that a second run on other workers finds its checkpoints.
    target = min(_GROUP_ROWS["std" if reduction.std else "mean"], max(10_000, sum(rows) // 64))
    groups = group_by_rows(list(enumerate(rows)), target)
    spec = hash_of([reduction.source.spec_hash, reduction.model_hash, repr(reduction)])
    sizes = [sum(rows[p] for p in group) for group in groups]
    found = fold(reduction, groups, sizes, work / "partials", spec, client=client, progress=progress)
    assert isinstance(found, Hits)
    return found


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
    seed: int
    exclude_labelled: bool
    keep_features: bool
    std: bool
    name: str = "screen"

    def from_partitions(self, partitions: Sequence[int], directory: Path) -> Hits:
        """See `Fold`."""
        model = open_model(self.model, self.model_hash, statistics=self.std or self.rule.needs_sample)
        hits = Hits(TopK(self.k))
        for partition in partitions:
            for block in self.source.blocks(partition):
                hits.n_scored += len(block.rows)
                hits.top = hits.top.combine(self._score(model, *self._wanted(block)))
        return hits

    def _wanted(self, block: Block) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """Return rows and features without the labelled ones, if these are to be left out."""
        if not self.exclude_labelled:
            return block.rows, block.phi
        keep = ~np.isin(block.rows, _labelled_rows(self.model, self.model_hash), assume_unique=True)
        return block.rows[keep], block.phi[keep]

    def _score(self, model: Model, rows: npt.NDArray[np.int64], phi: npt.NDArray[Any]) -> TopK:
        columns: dict[str, Any] = {}
        columns["mean"], deviation = self.predict(model, phi, std=self.std)
        if deviation is not None:
            columns["std"] = deviation
        if self.keep_features:
            columns["phi"] = phi
        values = columns["mean"]
        if self.rule.needs_sample:
            values = _draw(self.model, self.model_hash, self.seed, self.target).predict(phi).reshape(-1)
        return TopK(self.k).from_chunk(self.rule(values, deviation), rows, **columns)

    def predict(
        self, model: Model, phi: npt.NDArray[Any], *, std: bool
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
        """Return mean and, if wanted, standard deviation of f for the target."""
        shape = (len(phi), len(model.targets))
        if not std:
            return model.gp.predict(phi).reshape(shape)[:, self.target], None
        mean, deviation = model.gp.predict(phi, return_std=True, of="f")
        return mean.reshape(shape)[:, self.target], deviation.reshape(shape)[:, self.target]

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Hits:
        """See `Fold`."""
        columns = dict(arrays)
        n_scored = int(columns.pop("n_scored"))
        return Hits(TopK(self.k, columns.pop("score"), columns.pop("row"), columns), n_scored)


@functools.lru_cache(maxsize=2)
def _labelled_rows(path: str, model_hash: str) -> npt.NDArray[np.int64]:
    return load_model(path, names=["labelled_rows"]).arrays["labelled_rows"]


@functools.lru_cache(maxsize=2)
def _draw(path: str, model_hash: str, seed: int, target: int) -> RandomFeatureGP:
    """Return a model whose mean is one draw of the whole function."""
    return open_model(path, model_hash, statistics=True).gp.draw(seed, target)


def _ranked(top: TopK, model: Model, rule: Acquisition, reduction: ScreenFold, k: int) -> dict[str, Any]:
    """Return the columns of the k hits, best first; candidates get their standard deviations here."""
    columns = top.arrays()
    score, std = columns.pop("score"), columns.get("std")
    order = np.arange(len(score))
    if "phi" in columns:
        columns["mean"], std = reduction.predict(model, columns.pop("phi"), std=True)
        if rule.needs_std:
            score = rule(columns["mean"], std)
            order = np.lexsort((columns["row"], -score))[:k]
    columns["acquisition"] = score
    if std is not None:
        columns["std"] = std
        columns["std_y"] = np.sqrt(std**2 + model.gp.noise_[reduction.target])
    return {name: values[order] for name, values in columns.items()}


def _described(features: Source, columns: dict[str, Any]) -> pa.Table:
    """Add rank, id, smiles, source file and line to the hits."""
    rows = columns["row"]
    bounds = np.concatenate([[0], np.cumsum(features.partition_rows)])
    partition = np.searchsorted(bounds, rows, side="right") - 1
    tables = [features.describe(int(p), np.sort(rows[partition == p])) for p in np.unique(partition)]
    names = ["id", "smiles", "source", "line"]
    table = pa.table({"rank": np.arange(1, len(rows) + 1), "row": rows})
    if tables:
        found = pa.concat_tables(tables).unify_dictionaries()
        order = np.argsort(found["row"].to_numpy())[np.searchsorted(np.sort(found["row"].to_numpy()), rows)]
        for name in names:
            table = table.append_column(name, found[name].take(pa.array(order)))
    for name in ("mean", "std", "std_y", "acquisition"):
        if name in columns:
            table = table.append_column(name, pa.array(columns[name]))
    return table
