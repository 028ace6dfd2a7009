"""What an exact process takes of a job: labelled fingerprints in one place, and products left in files.

Conjugate gradients ask for one product with the kernel matrix after the other, and follow from those alone.
So each product is left in a file: a run that was killed goes through the same steps again, finds the products
that are there, and makes the next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone

from daskrf.gp.exact import ExactGP
from daskrf.gp.kernelmatrix import KernelMatrix
from daskrf.jobs.clusters import worker_memory
from daskrf.jobs.job import Disk, Need, Run
from daskrf.jobs.memory import LIBRARIES, PIECES, STORED, Making, MemoryNeed, peak
from daskrf.jobs.progress import Progress
from daskrf.jobs.tree import Reduction
from daskrf.kernels import Kernel
from daskrf.storage.backend import backend
from daskrf.storage.model import read_checkpoint, write_checkpoint

__all__ = ["Fingerprints", "StoredProducts", "need_of_exact", "solve_exact"]

_SHARE = 0.5  # of the memory that kept tiles and all else may take: workers and others have some, too
_PRODUCTS = 60  # that a fit with a search of hyperparameters takes, mostly

Single = npt.NDArray[np.float32]


@dataclass
class _Rows:
    """Fingerprints of some labels, in the order of the labels."""

    n_columns: int
    parts: list[Any]

    def __iadd__(self, other: _Rows) -> _Rows:
        self.parts += other.parts
        return self

    def matrix(self) -> Any:
        """Return all of them as one CSR matrix."""
        if len(self.parts) != 1:
            empty = sparse.csr_matrix((0, self.n_columns), dtype=np.uint16)
            self.parts = [sparse.vstack([empty, *self.parts], format="csr", dtype=np.uint16)]
        return self.parts[0]

    def arrays(self) -> dict[str, np.ndarray]:
        """See `Partial`."""
        rows = self.matrix()
        return {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}


@dataclass(frozen=True)
class Fingerprints(Reduction):
    """The fingerprints of all labels, one below the other."""

    n_columns: int
    name: str = "fit"

    def zero(self) -> _Rows:
        return _Rows(self.n_columns, [])

    def add(self, total: _Rows, block: tuple[Any, ...]) -> None:
        total.parts.append(block[0])

    def restore(self, arrays: Mapping[str, np.ndarray]) -> _Rows:
        parts, n_rows = (arrays["data"], arrays["indices"], arrays["indptr"]), len(arrays["indptr"]) - 1
        return _Rows(self.n_columns, [sparse.csr_matrix(parts, shape=(n_rows, self.n_columns))])

    def finalize(self, total: _Rows, rest: Iterator[Any]) -> Any:
        return total.matrix()


class StoredProducts(KernelMatrix):
    """A kernel matrix whose products are left in files of a folder, and read where they are there.

    Parameters
    ----------
    kernel, X, keep_bytes : as of `KernelMatrix`
    folder : Path
        Where the products are left.
    progress : Progress
    """

    def __init__(
        self, kernel: Kernel, X: Any, folder: PurePath, *, keep_bytes: int, progress: Progress
    ) -> None:
        super().__init__(kernel, X, keep_bytes=keep_bytes)
        self.folder, self.progress, self.number = folder, progress, 0
        backend(folder).make(folder)

    def product(self, vectors: Single) -> Single:
        """See `KernelMatrix`; products are told apart by number and vectors."""
        if self.progress.stopping:
            raise KeyboardInterrupt
        self.number += 1
        key = hashlib.sha256(np.ascontiguousarray(vectors).data).hexdigest()
        path = self.folder / f"product-{self.number:04d}"
        found = read_checkpoint(path, key)
        if found is None:
            product = self._new_product(vectors)
            write_checkpoint(path, {"product": product}, {}, key)
        else:
            product = found.arrays["product"]
        self.progress.advance(1)
        return product

    def _new_product(self, vectors: Single) -> Single:
        return super().product(vectors)


def solve_exact(
    run: Run, asked: ExactGP, X: Any, y: npt.NDArray[np.float64], folder: PurePath, start: Any = None
) -> ExactGP:
    """Return a process as it is asked for, fitted to rows and labels of one target; see `StoredProducts`."""
    gp: ExactGP = clone(asked)
    if start is not None and not gp.begins_from(start):
        start = None
    gp.set_params(cache_bytes=_cache(gp, X.shape[0], X.nnz))
    run.progress.start("solve", gp.max_iterations, "products")
    matrix = None
    if gp.solver_for(len(y)) == "cg":
        matrix = StoredProducts(gp.kernel, X, folder, keep_bytes=gp.cache_bytes, progress=run.progress)
    return gp.fit(X, y, start=start, matrix=matrix)


def _cache(gp: ExactGP, n_rows: int, n_nonzeros: int) -> int:
    """Return the bytes for tiles of the kernel matrix: what the machine has beside all else, or all tiles."""
    room = int(_SHARE * worker_memory(None)) - LIBRARIES - gp.memory(n_rows, n_nonzeros) - 10 * n_nonzeros
    return max(0, min(room, KernelMatrix.bytes_of(n_rows)))


def need_of_exact(gp: ExactGP, making: Making, n_labels: int, folder: PurePath) -> Need:
    """Return what gathering labelled fingerprints and solving takes; tiles are kept where there is room."""
    entries = making.entries / max(1, making.rows)  # of a row

    def gather(making: Making) -> MemoryNeed:
        rows = int(STORED * entries * n_labels)
        return peak("fit", dict(making.decoding), {"labelled fingerprints": 3 * rows, "pieces": PIECES})

    def solve(n_labels: int) -> MemoryNeed:
        nonzeros = int(entries * n_labels)
        return peak(
            "solve",
            {
                "labelled fingerprints": 2 * STORED * nonzeros,
                "vectors, landmarks and tiles in the making": gp.memory(n_labels, nonzeros),
            },
        )

    size = 4 * n_labels * (2 + gp.n_draws) * _PRODUCTS if gp.solver_for(n_labels) == "cg" else 0
    return Need(
        worker=making.need(gather, "rows"),
        finish=replace(solve(n_labels), smaller={"labels": (n_labels, 1000, solve)}),
        disk=Disk(folder, "products with the kernel matrix", 0, size),
    )
