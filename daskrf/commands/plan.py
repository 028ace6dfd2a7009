"""Predict what a job will cost, by timing a random sample of its rows before anything big starts."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from daskrf import seeds
from daskrf.commands import READING
from daskrf.commands.featurize import need_of_features
from daskrf.commands.fingerprint import need_of_rows
from daskrf.errors import InputError, check_type
from daskrf.estimators import clone
from daskrf.features import FeatureMap, default_map
from daskrf.features.featuremap import check_feature_map
from daskrf.fitting.costs import need_of_labels, need_of_solve, need_of_sums
from daskrf.fitting.exactsolve import need_of_solution
from daskrf.fitting.learner import need_of_learning
from daskrf.gp import ExactGP, choose_exponent, gp_for
from daskrf.gp.choice.lengthscale import stand_in
from daskrf.gp.processes.sampledvariances import samples_for
from daskrf.gp.solve.kernelmatrix import KernelMatrix
from daskrf.gp.sums.shapes import SumsShape
from daskrf.gp.sums.sums import GramStrip, Summation, precision_for
from daskrf.jobs.job import Need, Run
from daskrf.jobs.memory import LIBRARIES, Making, MemoryNeed, need_of_scores
from daskrf.kernels import TanimotoMinMax
from daskrf.measurements import read_labels
from daskrf.models.joinedlabels import MOST_AT_ONCE
from daskrf.models.labelparts import need_of_order, need_of_part
from daskrf.molecules import Fingerprinter, FingerprintSpec, rdkit_version
from daskrf.molecules.counts.fingerprints import MANY
from daskrf.molecules.counts.reading import is_read
from daskrf.molecules.counts.spec import Fragments
from daskrf.parameters import Command, Option
from daskrf.quantities import amount, format_bytes
from daskrf.report.notebook import Shown
from daskrf.screens.searches import BOUNDING
from daskrf.sources.inputs import scan_inputs, tables_of
from daskrf.sources.smiles import rejects_table, rows_table
from daskrf.sources.sources import check_map, map_for
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import CommitRecord
from daskrf.tables import Library, TableFormat, sample_rows
from daskrf.workers.progress import Progress

CLI = Command(
    "daskrf plan 'REAL_*.cxsmiles.bz2' -M 8192 --labels 1000000",
    step=9,
    options={
        "fragments": READING,
        "accept_rejects": READING,
        "rows_per_partition": Option(least=1),
        "labels": Option(least=1),
        "sample": Option(least=100),
        "seed": Option(least=0),
    },
)

_GRAM_ROWS = 4_096
_MORE_BITS = 8  # times as many rows of bits: they sum so fast that a block's pass over M x M sums shows
_ID_BYTES = 16  # of a label
_LABELS = 50_000  # that are read and joined
_WRITING = 2.0  # times as long as reading and finding: parts are also written, read and put in order
_STD_ROWS = 256
_STD_ERROR = 0.03  # of approximate standard deviations
_EXACT_SHARE = 0.005  # of molecules that bounds do not rule out
_ROWS, _MORE_ROWS = 2_000, 20_000  # timed if no number is given


@dataclass(frozen=True)
class StageCost:
    """Seconds and bytes for one molecule in one stage, measured on one core."""

    stage: str
    seconds: float
    bytes: float
    rows: str
    note: str = ""


@dataclass(frozen=True)
class PlanReport(Shown):
    """What a job will cost.

    Attributes
    ----------
    rows : int
        Rows of the input files.
    input_bytes : int
    sampled, rejected : int
        Rows of the sample, and how many of them were rejected.
    n_components : int
    partitions : int
    n_labels : int
        Number of labelled rows that was assumed: all rows, unless it was given.
    stages : tuple of StageCost
    memory : tuple of MemoryNeed
    inputs : tuple of str
        How the files were read: one line for each layout.
    """

    rows: int
    input_bytes: int
    sampled: int
    rejected: int
    n_components: int
    partitions: int
    n_labels: int
    stages: tuple[StageCost, ...]
    memory: tuple[MemoryNeed, ...]
    inputs: tuple[str, ...] = ()

    def core_hours(self, stage: StageCost) -> float:
        """Return the core-hours of a stage."""
        return stage.seconds * (self.n_labels if stage.rows == "labels" else self.rows) / 3600

    def __str__(self) -> str:
        lines = [
            f"{amount(self.rows, 'rows')}, {format_bytes(self.input_bytes)} of input, "
            f"{amount(self.partitions, 'partitions')}, M = {self.n_components:,}",
            *self.inputs,
            f"measured on one core of this machine with {amount(self.sampled, 'random rows')}, of which "
            f"{self.rejected:,} rejected",
            "",
            f"  {'stage':<22}{'rows/s':>12}{'core-hours':>13}{'disk':>12}  ",
        ]
        for stage in self.stages:
            size = format_bytes(stage.bytes * self.rows) if stage.bytes else "-"
            rate, hours = 1 / stage.seconds, self.core_hours(stage)
            cost = f"{hours:,.3f}" if hours >= 0.001 else "<0.001"
            lines.append(f"  {stage.stage:<22}{rate:>12,.0f}{cost:>13}{size:>12}  {stage.note}")
        return "\n".join([*lines, "", "memory:", *(f"  {need}" for need in self.memory)])


def plan(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    spec: FingerprintSpec | None = None,
    format: TableFormat | None = None,
    fragments: Fragments = "keep",
    feature_map: FeatureMap | None = None,
    rows_per_partition: int | None = None,
    labels: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    accept_rejects: bool = False,
    progress: Progress | None = None,
) -> PlanReport:
    """Predict what a run would cost.

    Times a random sample of the lines on one core of this machine. Prints the number of rows, bytes on disk,
    memory of a worker, and core-hours for each stage.

    Parameters
    ----------
    inputs, spec, format, fragments, rows_per_partition, accept_rejects, progress
        As in `fingerprint`.
    feature_map : FeatureMap, optional
        As in `featurize`. A map that is not fitted yet is fitted to the sample here.
    labels : int, optional
        Number of labelled rows. Default: all rows.
    sample : int, optional
        Number of rows to time; at least twice the number of rows that a map chooses from the library. By
        default 2,000, or 20,000 from 100,000 molecules on if daskrf counts their fingerprints itself and
        features are bits: the rate then depends on how many molecules share their substructures.
    seed : int
        Seed of the sample.

    Returns
    -------
    PlanReport
        Rows and, for each stage, core-hours, bytes on disk and memory of a worker.

    Raises
    ------
    InputError
        If the files cannot be read, or no row of the sample can be used.
    """
    spec = spec or FingerprintSpec()
    by_itself = feature_map is None and labels is not None  # then fit chooses the process
    feature_map = default_map() if feature_map is None else feature_map
    check_feature_map(feature_map)
    feature_map = stand_in(feature_map)
    check_type("spec", spec, FingerprintSpec, "FingerprintSpec(radius=2)")
    feature_map = map_for(feature_map, spec)
    M = feature_map.n_components
    check_map(feature_map, spec.n_columns)
    unfitted = feature_map
    learns = feature_map.learns_from == "sample" and not feature_map.is_fitted()
    least = 2 * (getattr(feature_map, "n_landmarks", None) or M) if learns else 0
    more = is_read(spec) and feature_map.one_bit
    _check_memory(feature_map, spec.n_columns, max(sample or _ROWS, least), learns)
    with tempfile.TemporaryDirectory() as directory, threadpool_limits(limits=1):
        scratch = Path(directory)
        library = scan_inputs(
            inputs,
            format,
            rows_per_partition,
            None,
            progress or Progress(),
            accept_rejects=accept_rejects,
        )
        if sample is None:
            sample = _MORE_ROWS if more and library.n_rows >= MANY else _ROWS
        stages, fingerprints, sampled, rejected = _time_fingerprints(
            library, spec, fragments, min(max(sample, least), library.n_rows), seed, scratch
        )
        n_labels = library.n_rows if labels is None else labels
        exact = _time_exact(fingerprints[:_ROWS], n_labels) if by_itself else []
        feature_map, learning = _time_map(feature_map, fingerprints, library.n_rows)
        stages += _time_labels(scratch, n_labels, library.n_rows) + learning
        stages += _time_features(feature_map, fingerprints, n_labels, seed) + exact
    needs = _needs(unfitted, feature_map, library, fingerprints, n_labels, exact=by_itself)
    return PlanReport(
        rows=library.n_rows,
        input_bytes=library.n_bytes,
        sampled=sampled,
        rejected=rejected,
        n_components=M,
        partitions=len(library.partitions),
        n_labels=n_labels,
        stages=tuple(stages),
        memory=needs,
        inputs=tables_of(library),
    )


def _check_memory(feature_map: FeatureMap, n_columns: int, n_sample: int, learns: bool) -> None:
    """Check the memory for the sample's standard deviations: no stage needs more on one worker."""
    run = Run(Path(), here=LIBRARIES)
    making = _making(feature_map, n_sample, None, feature_map.table_bytes(n_columns))
    run.check(Need(here=need_of_solve(making)))
    run.check(Need(here=making.need(lambda making: need_of_scores(making, 0, std=True))))
    if learns:
        run.check(Need(here=need_of_learning(feature_map, n_sample, n_sample)))


def _making(feature_map: FeatureMap, rows: int, nonzeros: int | None, tables: int) -> Making:
    """Return what it takes to make the features of this many rows."""
    M, bits = feature_map.n_components, feature_map.one_bit
    return Making(M, rows, bits, SumsShape.of(feature_map), nonzeros, tables)


def _needs(
    feature_map: FeatureMap,
    fitted: FeatureMap,
    library: Library,
    fingerprints: Any,
    n_labels: int,
    *,
    exact: bool,
) -> tuple[MemoryNeed, ...]:
    """Return what all stages need, judged by the density of the sample's fingerprints.

    The tables are those of the `fitted` map: some maps know the size of their tables only when fitted.
    """
    largest = max(p.stop - p.start for p in library.partitions)
    precision = precision_for(feature_map, n_labels)
    learns = feature_map.learns_from == "sample" and not feature_map.is_fitted()
    nonzeros = -(-int(fingerprints.nnz) * largest // fingerprints.shape[0])
    making = _making(feature_map, largest, nonzeros, fitted.table_bytes(fingerprints.shape[1]))
    needs = (
        need_of_rows(largest, nonzeros),
        *([need_of_learning(feature_map, largest, library.n_rows, nonzeros)] if learns else []),
        making.need(need_of_features),
        *_need_of_labels(n_labels, library, largest),
        making.need(lambda making: need_of_sums(making, n_labels, precision=precision)),
        need_of_solve(making, n_labels, mapped=n_labels > MOST_AT_ONCE),
        making.need(lambda making: need_of_scores(making, 1000, std=False)),
        making.need(lambda making: need_of_scores(making, 0, std=True)),
    )
    if exact:
        needs += (need_of_solution(ExactGP(TanimotoMinMax()), making, n_labels),)
    return tuple(need.beside(LIBRARIES) for need in needs)


def _need_of_labels(n_labels: int, library: Library, largest: int) -> tuple[MemoryNeed, ...]:
    """Return what it takes to join labels by ID: in the command itself or, if they are many, in parts."""
    if n_labels <= MOST_AT_ONCE:
        return (need_of_labels(n_labels, _ID_BYTES),)
    return need_of_part(n_labels, 1, largest), need_of_order(library.n_rows, 1)


def _time_labels(folder: PurePath, n_labels: int, n_rows: int) -> list[StageCost]:
    """Time reading and joining many labels by ID; few are joined before a task is done."""
    if n_labels <= MOST_AT_ONCE:
        return []
    path = Path(folder) / "labels.csv"
    path.write_text("id,score\n" + "".join(f"M{k:012d},{-7 - k % 97 / 100}\n" for k in range(_LABELS)))
    read_labels(path)  # compiles, once a machine
    labels, reading = _timed(read_labels, path)
    _, finding = _timed(labels.table.find, labels.keys)
    each = (reading + finding * n_rows / n_labels) / _LABELS * _WRITING
    return [StageCost("join labels", each, 0, "labels", "by ID, from CSV, in parts on the workers")]


def _time_fingerprints(
    library: Library, spec: FingerprintSpec, fragments: str, n_sample: int, seed: int, scratch: PurePath
) -> tuple[list[StageCost], Any, int, int]:
    """Time reading, fingerprinting and writing; return the fingerprints of the sample."""
    fingerprinter = Fingerprinter(spec, fragments)
    # Only the sample has to seek; the job reads in order, at some million rows a second.
    batches = sample_rows(library, n_sample, seed)
    smiles = [text for batch in batches for text in batch.smiles]
    sampled = sum(batch.n_read for batch in batches)
    if library.n_rows >= MANY:
        fingerprinter.prepare(smiles)  # a job does this once in each worker
    else:
        fingerprinter(["CCO"])  # RDKit's first call loads its tables
    block, counting = _timed(fingerprinter, smiles)
    start = time.perf_counter()
    tables = [rows_table(batch, library, np.arange(len(batch.smiles))) for batch in batches]
    rows = pa.concat_tables(tables).combine_chunks().take(pa.array(block.kept))
    if not rows.num_rows:
        reason = block.rejects[0][1] if block.rejects else "unreadable lines"
        raise InputError(
            f"None of {sampled:,} random rows could be used ({reason}); "
            "most often the SMILES are in another column than the one that was read."
        )
    making = time.perf_counter() - start

    def write(number: int, n_rows: int) -> CommitRecord:
        store = FingerprintStore.new(
            scratch / f"sample{number}",
            library={},
            fingerprint=spec.state(),
            n_columns=spec.n_columns,
            partitions=[{"start": 0, "stop": n_rows}],
            rdkit_version=rdkit_version(),
        )
        return store.write_partition(
            0, block.fingerprints[:n_rows], rows[:n_rows], rejects_table([], library)
        )

    write(0, 1)  # loads what writes
    _, fixed = _timed(write, 1, 1)  # of a partition, whatever its rows
    record, writing = _timed(write, 2, rows.num_rows)
    of_partitions = fixed * len(library.partitions) / library.n_rows
    seconds = (counting + making + max(0.0, writing - fixed)) / max(1, sampled) + of_partitions
    cost = StageCost(
        "fingerprint", seconds, record.bytes / rows.num_rows, "library", "SMILES -> fingerprint store"
    )
    return [cost], block.fingerprints, sampled, sampled - rows.num_rows


def _time_map(feature_map: FeatureMap, fingerprints: Any, n_rows: int) -> tuple[FeatureMap, list[StageCost]]:
    """Return the map, fitted to the sample, and what it costs to fit it to the library if it must be."""
    if feature_map.is_fitted():
        return feature_map, []
    fitted = clone(feature_map)
    if feature_map.learns_from == "summary":
        fitted.fit(fingerprints[:2])  # compiles, once a machine
        _, seconds = _timed(fitted.fit, fingerprints)
        share, note = 1.0, "reads every molecule once"
    else:
        _, seconds = _timed(fitted.fit, fingerprints)
        share, note = feature_map.sample_size(n_rows) / n_rows, "chooses molecules, once"
    cost = StageCost("map", share * seconds / fingerprints.shape[0], 0, "library", note)
    return fitted, [cost]


def _time_features(
    feature_map: FeatureMap, fingerprints: np.ndarray, n_labels: int, seed: int
) -> list[StageCost]:
    """Time features, statistics and predictions on the fingerprints of the sample."""
    M, bits = feature_map.n_components, feature_map.one_bit
    transform = feature_map.transform_bits if bits else feature_map.transform
    transform(fingerprints[:2])  # compiles, once a machine
    phi, seconds = _timed(transform, fingerprints)
    size = phi.nbytes / len(phi)
    stages = [StageCost("featurize", seconds / len(phi), size, "library", "-> feature store (optional)")]
    if feature_map.block_size < M:
        nearest, seconds = _timed(feature_map.transform_nearest, fingerprints)
        note = "in predict and screen, instead of featurize: of the nearest centroid alone"
        stages.append(StageCost("nearest features", seconds / len(nearest), 0, "library", note))
    rng = seeds.generator(seed, "plan")
    phi = phi[rng.integers(len(phi), size=_GRAM_ROWS * (_MORE_BITS if bits else 1))]
    y = rng.standard_normal(len(phi))
    exponents = tuple(choose_exponent(y).tolist()) if bits else None
    precision = precision_for(feature_map, n_labels)
    summation = Summation.of_map(feature_map, one_bit=bits, y_exponents=exponents, precision=precision)
    statistics = summation.zero()
    assert not isinstance(statistics, GramStrip)
    statistics.update(phi[:64], y[:64])
    _, seconds = _timed(statistics.update, phi, y)
    note = "of a labelled molecule, besides its features"
    n_strips = len(SumsShape.of(feature_map).strips(M))
    if n_strips > 1 and not bits:  # see `daskrf.fitting.totals`
        note += f", which are made {n_strips + 1} times, or read as often if they are stored"
    stages.append(StageCost("fit", seconds / len(phi), 0, "labels", note))
    gp = gp_for(feature_map, mean=0.0, signal_variance=1.0, noise_variance=1.0).fit_statistics(
        statistics, feature_map
    )
    gp.feature_map_ = None  # it is given features
    gp.predict(phi[:2])
    _, seconds = _timed(lambda: gp.predict(phi))
    stages.append(
        StageCost("means", seconds / len(phi), 0, "library", "screen by greedy or thompson, besides features")
    )
    return stages + _time_stds(gp, phi)


def _time_stds(gp: Any, phi: np.ndarray) -> list[StageCost]:
    """Time standard deviations by features: exact ones, bounds, and approximate ones."""
    gp.predict(phi[:2], return_std=True)
    _, seconds = _timed(lambda: gp.predict(phi[:_STD_ROWS], return_std=True))
    exact = seconds / _STD_ROWS
    if not getattr(gp, "samples_variances", False):
        return [StageCost("standard deviations", exact, 0, "library", "predict, or screen --std all")]
    stages = [StageCost("standard deviations", exact, 0, "library", "predict")]
    n_components, n = phi.shape[1] * (8 if phi.dtype == np.uint8 else 1), len(phi)
    few = gp.sampled_variances(BOUNDING[0])
    gp.std_bounds(phi, few)  # compiles, once a machine
    _, seconds = _timed(lambda: gp.std_bounds(phi, few))
    note = f"screen --std all by ucb, ei or pi, besides means, if {_EXACT_SHARE:.1%} get exact ones"
    stages.append(StageCost("bounds", seconds / n + _EXACT_SHARE * exact, 0, "library", note))
    n_samples = samples_for(_STD_ERROR, n_components)
    if 2 * n_samples <= n_components:
        approximate = gp.with_sampled({0: gp.sampled_variances(n_samples)})
        _, seconds = _timed(lambda: approximate.predict(phi, return_std=True))
        note = f"predict --std-error {_STD_ERROR:g}, in place of exact ones"
        stages.append(StageCost("approximate ones", seconds / n, 0, "library", note))
    return stages


def _time_exact(fingerprints: Any, n_labels: int) -> list[StageCost]:
    """Time kernel values: an exact process needs one for each label to predict a molecule."""
    gp, n = ExactGP(TanimotoMinMax()), fingerprints.shape[0]
    matrix = KernelMatrix(gp.kernel, fingerprints, n_threads=1)

    def seconds(n_vectors: int) -> float:  # for each kernel value; the first call compiles and takes memory
        vectors = np.ones((n, n_vectors), np.float32)
        return min(_timed(matrix.cross_product, fingerprints, vectors)[1] for _ in range(3)) / n**2

    value, product = seconds(1), seconds(2 + gp.n_draws)
    # In a fit each value serves two rows.
    fit = n_labels * (product - value / 2) * gp.usual_products(n_labels)
    return [
        StageCost("exact fit", fit, 0, "labels", "instead of fit, if labels are few enough"),
        StageCost("exact means", n_labels * value, 0, "library", "of a molecule on the shortlist"),
    ]


def _timed(function, *arguments):  # type: ignore[no-untyped-def]
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start
