"""Exact processes in jobs: labelled fingerprints are gathered in one place, and products saved to files.

Conjugate gradients need one product with the kernel matrix after another and depend on nothing else. Each
product is therefore saved to a file: after a run is killed, the next one repeats the same steps, reads the
products that exist, and continues with the next one.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from distributed import Client
from scipy import sparse

from daskrf.arrays import Matrix
from daskrf.blas import ONE_BLAS_THREAD, processors
from daskrf.estimators import clone
from daskrf.files.backend import absolute, as_path, backend, remove_quietly
from daskrf.files.disk import crc32c_of
from daskrf.fitting.totals import LabelledBlock
from daskrf.gp.choice.kernelchoice import choose_kernel
from daskrf.gp.choice.limitchoice import choose_with_limits
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.kerneltrials import KernelChoice
from daskrf.gp.processes.together import fit_together
from daskrf.gp.solve.kernelmatrix import KernelMatrix, Terms
from daskrf.jobs.job import Disk, Need, Run
from daskrf.jobs.memory import LIBRARIES, PIECES, STORED, Making, MemoryNeed, peak
from daskrf.jobs.pieces import submit
from daskrf.jobs.tree import Reduction, parents
from daskrf.kernels import Kernel
from daskrf.quantities import format_bytes
from daskrf.storage.model import (
    Contents,
    find_checkpoint,
    made_once,
    needed_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from daskrf.storage.stores.store import hash_of
from daskrf.workers.clusters import worker_memory, worker_threads
from daskrf.workers.execution import Task
from daskrf.workers.progress import Within

_ROWS = "rows"
_LEAST_ROWS = 20_000  # from which a product is worth sending to workers
_LEAST_BLOCKS = 11  # of rows, if there are that many panels: 66 tasks per product
_TASK_VALUES = 3.5e9  # maximum kernel values per task, if it has several panels: some 15 s
_MOST_MINUTES = 30  # for an exact fit that was not explicitly requested
_SHARE = 0.5  # of memory, for kept tiles and everything else: workers and other processes need some too
_PRODUCTS, _WITH_LIMITS = 60, 300  # that a fit with a hyperparameter search usually takes

Single = npt.NDArray[np.float32]
Pair = tuple[tuple[int, int], tuple[int, int]]


@dataclass
class _Rows:
    """Fingerprints of some labels, in label order."""

    n_columns: int
    parts: list[sparse.csr_matrix]

    def __iadd__(self, other: _Rows) -> _Rows:
        self.parts += other.parts
        return self

    def matrix(self) -> sparse.csr_matrix:
        """Return all fingerprints as one CSR matrix."""
        if len(self.parts) != 1:
            empty = sparse.csr_matrix((0, self.n_columns), dtype=np.uint16)
            self.parts = [sparse.vstack([empty, *self.parts], format="csr", dtype=np.uint16)]
        return self.parts[0]

    def arrays(self) -> dict[str, np.ndarray]:
        rows = self.matrix()
        return {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}


@dataclass(frozen=True)
class Fingerprints(Reduction[LabelledBlock, _Rows, sparse.csr_matrix]):
    """The fingerprints of all labels, stacked row by row."""

    n_columns: int
    name: str = "fit"

    def zero(self) -> _Rows:
        return _Rows(self.n_columns, [])

    def add(self, total: _Rows, block: LabelledBlock) -> None:
        total.parts.append(block.phi)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> _Rows:
        parts, n_rows = (arrays["data"], arrays["indices"], arrays["indptr"]), len(arrays["indptr"]) - 1
        return _Rows(self.n_columns, [sparse.csr_matrix(parts, shape=(n_rows, self.n_columns))])

    def finalize(self, total: _Rows, rest: Iterator[_Rows]) -> sparse.csr_matrix:
        return total.matrix()


class StoredProducts(KernelMatrix):
    """A kernel matrix whose products are saved to files in a folder, and read if they exist.

    Parameters
    ----------
    kernel, X, keep_bytes : as of `KernelMatrix`
    run : Run
    folder : Path
        Where the products are saved.
    on_workers : bool
        Whether workers compute the products, instead of threads of this process.
    usual : float
        Number of products that a fit usually takes.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Matrix,
        *,
        keep_bytes: int,
        run: Run,
        folder: PurePath,
        on_workers: bool,
        usual: float,
    ) -> None:
        super().__init__(kernel, X, keep_bytes=0 if on_workers else keep_bytes)
        self.run, self.folder, self.on_workers, self.number = run, folder, on_workers, 0
        self.usual, self.begun = usual, time.monotonic()
        backend(folder).make(folder)

    def total(self, terms: Terms) -> Single:
        """Return the total, read from its file, or computed and saved.

        A file is identified by its number, the rows, the kernel and the terms.
        """
        self.number += 1
        name, vectors = type(terms).__name__, np.ascontiguousarray(terms.vectors)
        key = hash_of([self._rows_key, self.kernel.state(), name, hashlib.sha256(vectors.data).hexdigest()])
        path = self.folder / f"product-{self.number:04d}"
        checkpoint = read_checkpoint(path, key)
        if checkpoint is None:
            blocks = path.with_name(f"{path.name}-blocks")
            total = self._by_workers(terms, blocks, key) if self.on_workers else super().total(terms)
            write_checkpoint(path, {"total": total}, {}, key)
            remove_quietly(blocks)
        else:
            total = checkpoint.arrays["total"]
        each = (time.monotonic() - self.begun) / self.number
        self.run.progress.expect(each * max(1.0, self.usual - self.number), "solving")
        return total

    def _by_workers(self, terms: Terms, place: PurePath, key: str) -> Single:
        """Return a total computed by tasks that read the vectors and save what they find to files."""
        backend(place).make(place)
        write_checkpoint(place / "vectors", {"vectors": terms.vectors}, {}, key)
        rows = self.folder / _ROWS
        if find_checkpoint(rows, self._rows_key) is None:
            write_checkpoint(rows, self._row_parts, {"shape": list(self.X.shape)}, self._rows_key)
        blocks = Blocks(
            absolute(rows), self._rows_key, self.kernel, self.tile, type(terms), absolute(place), key
        )
        size = max(1, min(-(-self.n_panels // _LEAST_BLOCKS), int(_TASK_VALUES**0.5 / self.tile)))
        cuts = [(g.start, g.stop) for g in parents(self.n_panels, size)]
        pairs = [(left, right) for i, left in enumerate(cuts) for right in cuts[: i + 1]]
        done = {pair for pair in pairs if find_checkpoint(place / blocks.name(pair), key) is not None}
        name = f"daskrf-product-{hash_of([absolute(place), key])[:16]}"
        tasks = (Task(f"{name}-{i}", (blocks, pair)) for i, pair in enumerate(pairs) if pair not in done)
        submit(Blocks.leave, tasks, self.run.client, self.run.progress)
        result = terms.zero(self.n_rows)
        for pair in pairs:
            for panels, total in zip(pair, blocks.read(pair), strict=True):
                first = panels[0] * self.tile
                terms.add(terms.rows_of(result, slice(first, first + terms.n_rows(total))), total)
        return result

    @functools.cached_property
    def _rows_key(self) -> str:
        """The hash of the rows."""
        return hash_of([hashlib.sha256(values.data).hexdigest() for values in self._row_parts.values()])

    @property
    def _row_parts(self) -> dict[str, npt.NDArray[np.number]]:
        return {name: np.ascontiguousarray(getattr(self.X, name)) for name in ("data", "indices", "indptr")}


@dataclass(frozen=True)
class Blocks:
    """Computes what a block of a kernel matrix adds to a total; a small object sent with each task.

    Attributes
    ----------
    rows, rows_key : str
        The file of the rows, and its hash.
    kernel : Kernel
    tile : int
    terms : type of Terms
        Class that is made with the vectors.
    place, key : str
        The folder of the vectors, where the totals of blocks are saved too, and the vectors' hash.
    """

    rows: str
    rows_key: str
    kernel: Kernel
    tile: int
    terms: type[Terms]
    place: str
    key: str

    def name(self, pair: Pair) -> str:
        """Return the name of the file for a block, the panels of its rows and of its columns."""
        return f"block-{pair[0][0]:06d}-{pair[1][0]:06d}"

    def leave(self, pair: Pair) -> str:
        """Compute and save what a block adds to its rows and to its columns; return their digest."""
        path = as_path(self.place) / self.name(pair)
        with ONE_BLAS_THREAD:
            matrix = _opened(self.rows, self.rows_key, self.kernel, self.tile)
            terms = self.terms(_vectors(self.place, self.key))
            left, right = matrix.between(terms, range(*pair[0]), range(*pair[1]))
            write_checkpoint(path, {"left": left, "right": right}, {}, self.key)
        return crc32c_of(left.tobytes() + right.tobytes())

    def read(self, pair: Pair) -> tuple[Single, Single]:
        """Return what a block adds to its rows and to its columns, as it was saved."""
        arrays = needed_checkpoint(as_path(self.place) / self.name(pair), self.key).arrays
        return arrays["left"], arrays["right"]


@functools.lru_cache(maxsize=1)
def _opened(rows: str, key: str, kernel: Kernel, tile: int) -> KernelMatrix:
    """Return the kernel matrix of the rows in a file, read once per process."""
    checkpoint = needed_checkpoint(as_path(rows), key)
    parts = tuple(checkpoint.arrays[name] for name in ("data", "indices", "indptr"))
    return KernelMatrix(
        kernel, sparse.csr_matrix(parts, shape=tuple(checkpoint.metadata["shape"])), tile=tile
    )


@functools.lru_cache(maxsize=1)
def _vectors(place: str, key: str) -> Single:
    return needed_checkpoint(as_path(place) / "vectors", key).arrays["vectors"]


def kernel_choice(
    run: Run,
    gp: ExactGP,
    X: sp.csr_matrix,
    y: npt.NDArray[np.float64],
    columns: Mapping[str, tuple[int, int]],
    folder: PurePath,
) -> KernelChoice:
    """Return the kernel chosen for labelled fingerprints, and what was tried; saved for the next run.

    If the kernel of `gp` lacks a length scale, only that is chosen.
    """
    parts = (X.data, X.indices, X.indptr, y)
    digests = [hashlib.sha256(np.ascontiguousarray(values).data).hexdigest() for values in parts]
    kernel = gp.kernel if gp.kernel.undecided else None
    kernels = [kernel.state()] if kernel is not None else []

    def expect(words: str, seconds: float) -> None:
        run.progress.expect(seconds, f"trying {words}")

    def make() -> Contents:
        choice = choose_kernel(
            X,
            y,
            columns,
            kernel=kernel,
            random_state=gp.random_state,
            cache_bytes=gp.cache_bytes,
            on_progress=expect,
        )
        return {}, {"choice": choice.state()}

    key = hash_of([*digests, dict(columns), gp.random_state, *kernels])
    return KernelChoice.from_state(made_once(folder / "kernel", key, make).metadata["choice"])


def why_not_exact(gp: ExactGP, making: Making, n_labels: int, *, limits: bool = False) -> str:
    """Return why there are too many labels for an exact process here, or an empty string."""
    need, limit = need_of_solution(gp, making, n_labels, limits=limits), worker_memory(None)
    total = need.total + LIBRARIES
    if total > limit:
        return f"an exact one would take {format_bytes(total)}, and this machine has {format_bytes(limit)}"
    minutes = gp.seconds_to_fit(n_labels, processors()) / 60
    return f"an exact one would take about {minutes:,.0f} minutes here" if minutes > _MOST_MINUTES else ""


@dataclass(frozen=True)
class Equations:
    """Rows and labels of one target, where to save products and choices, and a fit to begin from, if any.

    `side` is 0 for measured labels, 1 for lower and -1 for upper limits; None if all are measured.
    """

    X: Matrix
    y: npt.NDArray[np.float64]
    folder: PurePath
    start: ExactGP | None = None
    side: npt.NDArray[np.int8] | None = None

    @property
    def measured(self) -> Equations:
        """The rows and labels that were measured."""
        if self.side is None:
            return self
        there = np.flatnonzero(self.side == 0)
        return replace(self, X=self.X[there], y=self.y[there], side=None)


@dataclass(frozen=True)
class FitSeconds:
    """Expected seconds of a fit on this machine, before anything is measured.

    Attributes
    ----------
    choice : float
        Of the kernel: 9.5 s for 1,000 labels and 44 s for 3,000 (docking scores, default fingerprints, one
        core).
    solution : float
    """

    choice: float
    solution: float

    @classmethod
    def of(cls, gp: ExactGP, n_labels: int, *, chooses: bool) -> FitSeconds:
        """Return the expected times of a fit to this many labels, which may also choose its kernel."""
        choice = 3.0 + 0.0125 * min(n_labels, 12_000) if chooses else 0.0
        return cls(choice, gp.seconds_to_fit(n_labels, processors()))


def solve_exact(
    run: Run,
    requested: ExactGP,
    targets: Sequence[Equations],
    *,
    columns: Mapping[str, tuple[int, int]] | None = None,
) -> list[ExactGP]:
    """Return the requested process, fitted to each target; see `StoredProducts`.

    Progress shows one stage, with the expected time of all choices of kernels and all solutions.

    If `columns` (of each kind of fingerprint) are given, the labels determine the kernel. Targets with the
    same kernel, and with the same object as rows, are solved together as far as memory allows.
    """
    fitted, choices, groups = [], [], dict[Hashable, list[int]]()
    run.progress.start("solve", 0, "")
    fits = [
        FitSeconds.of(requested, len(each.y), chooses=columns is not None and each.start is None)
        for each in targets
    ]
    solving = sum(each.solution for each in fits)
    for i, target in enumerate(targets):
        later = solving + sum(each.choice for each in fits[i + 1 :])
        within = replace(run, progress=Within(run.progress, later))
        gp: ExactGP = clone(requested)
        gp.set_params(cache_bytes=_cache(gp, target.X, limits=target.side is not None))
        choice, start = None, target.start
        if columns is not None:
            choice = _choice_of(within, gp, target, columns) if start is None else start.kernel_choice_
            if choice is not None:
                gp.set_params(kernel=choice.kernel)
            elif start is not None:
                gp.set_params(kernel=start.kernel)
            gp.set_params(**_variances(gp, choice, limits=target.side is not None))
        fitted.append(gp)
        choices.append(choice)
        begins = start is not None and gp.begins_from(start)
        alone = begins or target.side is not None or _solver(gp, target) != "cg"
        groups.setdefault(i if alone else (id(target.X), hash_of(gp.kernel.state())), []).append(i)
    for group in groups.values():
        at_once = _at_once(fitted[group[0]], targets[group[0]].X)
        for first in range(0, len(group), at_once):
            some = group[first : first + at_once]
            solving -= sum(fits[i].solution for i in some)
            within = replace(run, progress=Within(run.progress, solving))
            _solve(within, [fitted[i] for i in some], [targets[i] for i in some])
    for gp, choice in zip(fitted, choices, strict=True):
        gp.kernel_choice_ = choice
    return fitted


def _choice_of(
    run: Run, gp: ExactGP, target: Equations, columns: Mapping[str, tuple[int, int]]
) -> KernelChoice:
    """Return the kernel chosen for a target: by measured labels, and among the best of these by limits."""
    measured, side = target.measured, target.side
    choice = kernel_choice(run, gp, measured.X, measured.y, columns, target.folder)
    if side is None:
        return choice

    def make() -> Contents:
        chosen = choose_with_limits(choice, target.X, target.y, side, random_state=gp.random_state)
        return {}, {"choice": chosen.state()}

    digests = [hashlib.sha256(np.ascontiguousarray(values).data).hexdigest() for values in (target.y, side)]
    key = hash_of([choice.state(), *digests, gp.random_state])
    saved = made_once(target.folder / "kernel-with-limits", key, make)
    return KernelChoice.from_state(saved.metadata["choice"])


def _solver(gp: ExactGP, target: Equations) -> str:
    return gp.solver_for(len(target.y), limits=target.side is not None)


def _variances(gp: ExactGP, choice: KernelChoice | None, *, limits: bool) -> dict[str, float]:
    """Return the variances chosen together with a kernel, except those that the user gave.

    They are of measured labels, whose signal varies less than that of labels and `limits`.
    """
    chosen = dict({} if choice is None else choice.variances)
    if limits:
        chosen.pop("signal_variance", None)
    return {name: value for name, value in chosen.items() if getattr(gp, name) is None}


def _solve(run: Run, processes: Sequence[ExactGP], targets: Sequence[Equations]) -> None:
    """Fit processes with one kernel to targets of the same rows."""
    (gp, *others), (one, *_) = processes, targets
    start = one.start if one.start is not None and gp.begins_from(one.start) else None
    if _solver(gp, one) != "cg":
        gp.fit(one.X, one.y, side=one.side, start=start)
        return
    matrix = StoredProducts(
        gp.kernel,
        one.X,
        keep_bytes=_cache(gp, one.X, len(targets), limits=one.side is not None),
        run=run,
        folder=one.folder,
        on_workers=_on_workers(run.client, len(one.y)),
        usual=gp.usual_products(len(one.y)),
    )
    if others:
        fit_together(processes, one.X, [target.y for target in targets], matrix)
    else:
        gp.fit(one.X, one.y, side=one.side, start=start, matrix=matrix)


def _on_workers(client: Client | None, n_rows: int) -> bool:
    """Return whether workers compute the products: if they have more threads than this process has cores."""
    return n_rows >= _LEAST_ROWS and worker_threads(client) > processors()


def _cache(gp: ExactGP, X: sp.csr_matrix, n_targets: int = 1, *, limits: bool = False) -> int:
    """Return the bytes for kernel-matrix tiles: the memory left beside everything else, or all tiles."""
    size = n_targets * gp.memory(X.shape[0], X.nnz, limits=limits) + 10 * X.nnz
    return max(0, min(_room() - size, KernelMatrix.bytes_of(X.shape[0])))


def _at_once(gp: ExactGP, X: sp.csr_matrix) -> int:
    """Return how many targets are solved together."""
    return max(1, _room() // gp.memory(X.shape[0], X.nnz))


def _room() -> int:
    return int(_SHARE * worker_memory(None)) - LIBRARIES


def need_of_solution(gp: ExactGP, making: Making, n_labels: int, *, limits: bool = False) -> MemoryNeed:
    """Return the memory need of solving without kept tiles; `making` describes the fingerprints."""

    def solve(n_labels: int) -> MemoryNeed:
        nonzeros = int(_nonzeros(making, n_labels))
        size = gp.memory(n_labels, nonzeros, limits=limits)
        parts: dict[str, float] = {"labelled fingerprints": 2 * STORED * nonzeros}
        parts["vectors, landmarks and a few tiles"] = size
        return peak("solve exactly", parts)

    return replace(solve(n_labels), smaller={"labels": (n_labels, 1000, solve)})


def _nonzeros(making: Making, n_labels: int) -> float:
    """Return the number of non-zeros of labelled fingerprints; `making` describes those of the library."""
    return making.entries / max(1, making.rows) * n_labels


def need_of_gathering(making: Making, n_labels: int, *phases: Mapping[str, float]) -> MemoryNeed:
    """Return the memory need of gathering labelled fingerprints, and of these other phases."""

    def gather(making: Making) -> MemoryNeed:
        rows = int(STORED * _nonzeros(making, n_labels))
        gathered: dict[str, float] = {"labelled fingerprints": 3 * rows, "pieces": PIECES}
        return peak("fit", dict(making.decoding), gathered, *map(dict, phases))

    return making.need(gather, "rows")


def need_of_exact(
    gp: ExactGP,
    making: Making,
    n_labels: int,
    folder: PurePath,
    client: Client | None,
    *,
    limits: bool = False,
) -> Need:
    """Return the need of gathering labelled fingerprints and solving; tiles are kept if there is room."""
    more: dict[str, float] = {}
    if _on_workers(client, n_labels):
        nonzeros = _nonzeros(making, n_labels)
        share = min(1.0, _TASK_VALUES**0.5 / n_labels)  # the columns of a block
        block = KernelMatrix.memory(int(share * nonzeros), 1)
        more["labelled fingerprints"] = 2 * int(STORED * nonzeros) + block
        more["vectors"] = 8 * n_labels * gp.vectors_of(limits=limits)
    iterates = gp.solver_for(n_labels, limits=limits) == "cg"
    n_products = (_WITH_LIMITS if limits else _PRODUCTS) if iterates else 0
    size = 4 * n_labels * gp.vectors_of(limits=limits) * n_products
    return Need(
        worker=need_of_gathering(making, n_labels, more),
        finish=need_of_solution(gp, making, n_labels, limits=limits),
        disk=Disk(folder, "products with the kernel matrix", 0, size),
    )
