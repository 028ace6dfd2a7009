"""The parts of a fit: for one set of labels, sum features or gather fingerprints, and solve."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.arrays import Matrix
from daskrf.errors import StoreError
from daskrf.features.featuremap import map_key
from daskrf.files.backend import absolute
from daskrf.fitting.costs import held_rows, need_of_solve, size_of_sums
from daskrf.fitting.exactsolve import (
    Equations,
    Fingerprints,
    solve_exact,
)
from daskrf.fitting.jointtargets import JointTargets, model_together
from daskrf.fitting.totals import Labelled, Sums
from daskrf.gp import choose_exponent, gp_for
from daskrf.gp.processes.coregionalized import CoregionalizedGP
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.process import FeatureSpaceGP
from daskrf.gp.processes.processes import ProcessOptions
from daskrf.gp.processes.separate import SeparateGP, processes_of
from daskrf.gp.processes.weightedsum import Process
from daskrf.gp.solve.roundoff import CoarseSumsError
from daskrf.gp.solve.solvers import check_eigen_size
from daskrf.gp.sums.shapes import SumsShape
from daskrf.gp.sums.statistics import Precision
from daskrf.gp.sums.sums import STRIP_BYTES, Statistics, Summation, precision_for
from daskrf.jobs.job import Disk, Need, Run
from daskrf.jobs.pieces import group_by_rows
from daskrf.jobs.tree import Root, Tree
from daskrf.models.joinedlabels import LabelFiles
from daskrf.sources.sources import (
    FeatureSource,
    FingerprintSource,
    Source,
    making_of,
)
from daskrf.storage.labels import JoinedLabels
from daskrf.storage.stores.store import hash_of

_GROUP_ROWS = (8_192, 1 << 20)  # labelled rows per task: few checkpoints, yet tasks for 1,000 cores
_STRIP_BYTES = STRIP_BYTES
PARTS = "parts of the sum"


@dataclass(frozen=True)
class Cut:
    """How a sum is cut: groups of partitions, labelled rows of each group, and strips of columns."""

    groups: list[tuple[int, ...]]
    rows: list[int]
    columns: list[tuple[int, int]]
    strip_bytes: int

    @property
    def n_roots(self) -> int:
        """Number of roots of the tree: one for the vectors and, with several strips, one for each strip."""
        return 1 if len(self.columns) == 1 else 1 + len(self.columns)


def grouped(features: Source, joined: JoinedLabels) -> Cut:
    """Cut the labelled rows into groups, independently of workers and shards."""
    labelled = np.diff(np.searchsorted(joined.row, features.row_bounds))
    smallest, largest = _GROUP_ROWS
    # A partition is decoded whole even for few labels: about a 20th of the cost of all its features.
    weight = labelled + np.asarray(features.partition_rows) // 20
    target = min(largest, max(smallest, int(weight[labelled > 0].sum()) // 1024))
    if features.raw:
        n_components, columns = 1, [(0, 1)]
    else:
        n_components = features.feature_map.n_components
        columns = SumsShape.of(features.feature_map).strips(n_components, _STRIP_BYTES)
    if len(columns) > 1:  # partial sums are large, and the bits of a group stay in memory
        target = min(max(target, 2 * smallest), held_rows(n_components))
    groups = group_by_rows([(int(p), int(weight[p])) for p in np.flatnonzero(labelled)], target)
    rows = [int(sum(labelled[p] for p in group)) for group in groups]
    return Cut(groups, rows, columns, _STRIP_BYTES)


@dataclass(frozen=True)
class FeatureSums:
    """The sums over one set of labelled rows, for the targets that have a value in each of these rows."""

    features: FeatureSource | FingerprintSource
    targets: tuple[int, ...]
    files: LabelFiles
    spec: Mapping[str, object]

    @functools.cached_property
    def cut(self) -> Cut:
        """How the sums are cut."""
        return grouped(self.features, self.files.joined)

    @property
    def precision(self) -> Precision:
        """Precision of the first sums; `solve` may make them again in double precision."""
        return precision_for(self.features.feature_map, len(self.files.joined.row))

    @property
    def held(self) -> bool:
        """Whether the bits of the labelled rows stay in memory until all roots are made."""
        return self.cut.n_roots > 1 and self.features.bits and isinstance(self.features, FingerprintSource)

    def solve(self, run: Run, statistics: Statistics | None, options: ProcessOptions) -> FeatureSpaceGP:
        """Return the process of the targets; sum again more precisely if rounding could change it.

        Without `statistics`, the sums of the tree are used.
        """
        feature_map = self.features.feature_map
        gp = gp_for(feature_map, **options)

        def check() -> None:  # if this fails, the sums stay for a run with more memory or with a given noise
            check_eigen_size(feature_map.n_components)
            run.check(Need(here=need_of_solve(making_of(self.features), eigen=True)))

        def fit(statistics: Statistics) -> None:
            run.progress.start("solve", 1, "models")
            gp.fit_statistics(statistics, feature_map, before_eigen=check)
            run.progress.advance(1)

        if statistics is None:
            statistics = self._counted(self.tree(self.precision))
        try:
            fit(statistics)
        except CoarseSumsError:
            run.progress.note(
                "These labels have so little noise that the sums are made again in double precision."
            )
            tree = self.tree("double")
            run.make(tree)
            fit(self._counted(tree))
        return gp

    def _counted(self, tree: Tree) -> Statistics:
        """Return the sums of a tree; refuse sums over another number of rows."""
        statistics = cast(Statistics, tree.result())
        if statistics.n_rows != (n := len(self.files.joined.row)):
            folder = self.files.folder.parent
            raise StoreError(
                f"The sums in {folder} are of {statistics.n_rows} rows, not {n}; delete it and fit again."
            )
        return statistics

    def tree(self, precision: Precision) -> Tree:
        """Return the tree of the sums, after writing labels and map to files for all tasks."""
        self.files.keep()
        feature_map, y, folder = self.features.feature_map, self.files.joined.y, self.files.folder.parent
        measured = y if self.files.joined.side is None else y[np.isfinite(y).all(axis=1)]
        source = self.features.carried(folder)
        digest, key, strips = map_key(feature_map.state()), hash_of([self.spec, precision]), self.cut.columns
        labels = absolute(self.files.folder)
        chunk = Labelled(source, labels, hash_of(self.spec), digest, self.held).of
        vectors = Summation.of_map(
            feature_map,
            y.shape[1],
            one_bit=source.bits,
            y_exponents=tuple(int(e) for e in choose_exponent(measured)) if source.bits else None,
            map_key=digest,
            precision=precision,
            gram=len(strips) == 1,
        )
        if len(strips) == 1:
            return Tree([Root(Sums(vectors), chunk, folder, key)], self.cut.groups, self.cut.rows, PARTS)
        roots = [Root(Sums(vectors), chunk, folder / "vectors", hash_of([key]))]
        for i, (first, stop) in enumerate(strips):
            strip = replace(vectors, gram=True, columns=(first, stop))
            sums = Sums(strip, f"fit-strip-{i + 1}-of-{len(strips)}")
            roots.append(Root(sums, chunk, folder / f"strip-{i:03d}", hash_of([key, first, stop])))
        return Tree(roots, self.cut.groups, self.cut.rows, PARTS)


@dataclass(frozen=True)
class ExactSolve:
    """The equations of an exact process for all targets, once the fingerprints are in one place."""

    features: FeatureSource | FingerprintSource
    files: LabelFiles
    spec: Mapping[str, object]
    exact: ExactGP
    columns: Mapping[str, tuple[int, int]] | None
    targets: tuple[int, ...] = ()
    precision: Precision = "double"
    together: bool | None = None  # whether targets are modelled together; None: by the evidence

    @functools.cached_property
    def cut(self) -> Cut:
        """How the fingerprints are gathered."""
        return grouped(self.features, self.files.joined)

    def tree(self, precision: Precision) -> Tree:
        """Return the tree that gathers the fingerprints of all labels."""
        self.files.keep()
        folder, key = self.files.folder.parent, hash_of(self.spec)
        chunk = Labelled(self.features, absolute(self.files.folder), key, "", held=False).of
        rows = Fingerprints(self.features.store.n_columns)
        return Tree([Root(rows, chunk, folder / "fingerprints", key)], self.cut.groups, self.cut.rows, PARTS)

    def solve(self, run: Run, earlier: Process | SeparateGP | None) -> JointTargets:
        """Return the process, or that of several targets; start from an earlier one if given."""
        joined = self.files.joined
        X: Matrix = self.tree(self.precision).result() if earlier is None else labelled_rows(earlier, joined)
        starts = () if earlier is None or isinstance(earlier, CoregionalizedGP) else processes_of(earlier)
        rows: dict[bytes, object] = {}  # targets with the same rows share one object, and are solved together
        targets = []
        for t in range(len(joined.names)):
            labels = joined.of_target(t)
            start = starts[t] if starts else None
            assert start is None or isinstance(start, ExactGP)
            there = joined.has_label[:, t]
            if start is None and there.tobytes() not in rows:
                rows[there.tobytes()] = X[there]
            X_of = rows[there.tobytes()] if start is None else start.X_train_
            targets.append(Equations(X_of, labels.y, run.work / f"target-{t}", start, labels.side))
        solved = solve_exact(run, self.exact, targets, columns=self.columns)
        if len(solved) == 1:
            return JointTargets(solved[0], "")
        return model_together(run, self.exact, solved, joined, X, together=self.together)


def labelled_rows(gp: Process | SeparateGP, joined: JoinedLabels) -> sparse.csr_matrix:
    """Return the fingerprints of all labels from an exact process that was fitted to them."""
    first = joined.has_label.argmax(axis=1)
    if isinstance(gp, CoregionalizedGP):
        ends = np.cumsum(joined.has_label.sum(axis=1))
        return gp.rows_of_labels_[np.concatenate([[0], ends[:-1]])]
    processes = processes_of(gp)
    blocks = [cast(ExactGP, process).X_train_ for process in processes]
    place = np.cumsum(joined.has_label, axis=0)[np.arange(len(first)), first] - 1
    starts = np.cumsum([0, *(block.shape[0] for block in blocks)])[:-1]
    return sparse.vstack(blocks, format="csr", dtype=blocks[0].dtype)[starts[first] + place]


def disk_of_sums(path: PurePath, sums: Iterable[FeatureSums | ExactSolve]) -> Disk:
    """Return the disk space that the partial sums take."""
    leaves, largest, held = 0, 0, 0
    for each in sums:
        if isinstance(each, ExactSolve):
            continue
        shape = SumsShape.of(each.features.feature_map)
        sizes = size_of_sums(each.cut.columns, each.cut.rows, one_bit=each.features.bits, shape=shape)
        bits = each.held * sum(each.cut.rows) * -(-each.features.feature_map.n_components // 8)
        leaves, largest, held = leaves + sizes[0] + bits, max(largest, sizes[1]), held + sizes[2] + bits
    return Disk(path, "the partial sums", leaves, largest + held)


def values_of_targets(joined: JoinedLabels) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    """Yield name and measured values of each target."""
    for name, y in zip(joined.names, joined.y.T, strict=True):
        there = np.isfinite(y)
        # There may be 10^8 labels, so those of a single target are not copied.
        yield name, np.ascontiguousarray(y) if there.all() else y[there]
