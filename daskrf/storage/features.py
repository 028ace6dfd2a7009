"""The feature store: packed bits or floats of every kept row, in the order of a fingerprint store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any, ClassVar, Self

import numpy as np
import zarr

from daskrf.errors import StoreError
from daskrf.storage.backend import absolute, as_path, is_file
from daskrf.storage.files import file_errors
from daskrf.storage.fingerprints import FingerprintStore
from daskrf.storage.plans import PLAN_FILE
from daskrf.storage.records import CommitRecord
from daskrf.storage.store import Store
from daskrf.storage.zarrays import create_array, create_group, open_array, read_errors

__all__ = ["FeatureStore"]

CHUNK_BYTES = 16 << 20
DTYPES = ("bits", "float32", "float16")


class FeatureStore(Store):
    """Features of the kept rows of a fingerprint store.

    The spec holds ``source`` (spec hash of the fingerprint store), ``map`` (state of the feature map),
    ``dtype`` and ``n_components``; the path of the source, absolute and relative to this store, is in the
    provenance, because a store may move.
    Nothing is compressed: random bits and mantissas do not shrink.
    """

    needed_kind: ClassVar[str | None] = "features"
    needed_spec: ClassVar[dict[str, type | tuple[str, ...]]] = {
        "source": str,
        "map": dict,
        "dtype": DTYPES,
        "n_components": int,
    }

    @classmethod
    def new(
        cls,
        path: str | os.PathLike[str],
        source: FingerprintStore,
        feature_map: dict[str, Any],
        n_components: int,
        dtype: str = "bits",
        provenance: dict[str, Any] | None = None,
    ) -> Self:
        """Plan a feature store, or resume the one that is there.

        Parameters
        ----------
        path : path
            Directory.
        source : FingerprintStore
            Where the rows come from; it gives the partitions.
        feature_map : dict
            ``FeatureMap.state()``.
        n_components : int
            Number of features.
        dtype : {"bits", "float32", "float16"}
            How they are stored.
        provenance : dict, optional
            See `Store.create`.

        Returns
        -------
        FeatureStore

        Raises
        ------
        StoreError
            See `Store.create`.
        """
        if dtype not in DTYPES:
            raise StoreError(f"features are stored as {', '.join(DTYPES)}, not as {dtype!r}")
        spec = {
            "source": source.spec_hash,
            "map": feature_map,
            "dtype": dtype,
            "n_components": int(n_components),
        }
        origin = {
            "source_path": absolute(source.path),
            "source_relative": os.path.relpath(absolute(source.path), absolute(as_path(path))),
            **(provenance or {}),
        }
        partitions = [{"rows": source.partition_rows(p)} for p in range(source.n_partitions)]
        return cls.create(path, "features", spec, partitions, origin)

    @property
    def n_components(self) -> int:
        """Number of features of a row."""
        return int(self.spec["n_components"])

    @property
    def dtype(self) -> np.dtype:
        """Type of the stored array: uint8 for bits."""
        return np.dtype(np.uint8 if self.spec["dtype"] == "bits" else self.spec["dtype"])

    @property
    def n_stored_columns(self) -> int:
        """Columns of the stored array: bytes for bits, features for floats."""
        return -(-self.n_components // 8) if self.spec["dtype"] == "bits" else self.n_components

    def source(self) -> FingerprintStore:
        """Open the fingerprint store whose rows these are.

        It is looked for where it was, and then where it would be if both stores had moved together.

        Raises
        ------
        StoreError
            It is at neither place, or the file system fails.
        """
        origin = self.provenance
        places = [as_path(origin["source_path"])] if isinstance(origin.get("source_path"), str) else []
        if isinstance(origin.get("source_relative"), str):
            moved = _moved(absolute(self.path), origin["source_relative"])
            places += [moved] if moved not in places else []
        problems = []
        for place in places:
            try:
                store = FingerprintStore.open(place)
            except StoreError as error:
                if error.errno is not None:
                    raise
                problems.append(f"{place} ({_problem(place, error)})")
                continue
            if store.spec_hash == self.spec["source"]:
                return store
            problems.append(f"{place} (another fingerprint store)")
        raise StoreError(
            f"the fingerprint store that {self.path} was made from is not at {' nor at '.join(problems)}; "
            "move it back, or run `daskrf featurize` into a new store"
        )

    def write_partition(
        self,
        p: int,
        features: np.ndarray | Iterable[np.ndarray],
        n_rows: int | None = None,
        counts: dict[str, int] | None = None,
    ) -> CommitRecord:
        """Write and record one partition.

        Parameters
        ----------
        p : int
            Partition.
        features : ndarray of shape (n, n_stored_columns), or an iterable of such blocks
            Of `dtype`; blocks of any number of rows, so that a partition need not fit into memory.
        n_rows : int, optional
            Needed with blocks: their rows in total.
        counts : dict, optional
            Further counts for the record; ``kept`` is counted here.

        Returns
        -------
        CommitRecord

        Raises
        ------
        StoreError
            Another shape or type than planned, or a disk that does not take it.
        """
        if isinstance(features, np.ndarray):
            n_rows, features = len(features), [features]
        if n_rows is None:
            raise StoreError("blocks of features need n_rows; this is a defect of the caller")
        rows = max(1, CHUNK_BYTES // (self.n_stored_columns * self.dtype.itemsize))
        with self.staging(p) as directory, file_errors("write", directory):
            group = create_group(directory / "data", {"n_components": self.n_components})
            shape = (n_rows, self.n_stored_columns)
            array = create_array(group, "phi", shape, self.dtype, (min(rows, n_rows), shape[1]), level=0)
            written = 0
            for block in _aligned(self._checked(p, features), rows):
                array[written : written + len(block)] = block
                written += len(block)
                del block  # before the next one is made
            if written != n_rows:
                raise StoreError(
                    f"partition {p} of {self.path} got {written} rows instead of {n_rows}; this is a defect "
                    "of the caller"
                )
            return self.publish(
                p, {self.partition_path(p): directory / "data"}, {**(counts or {}), "kept": n_rows}
            )

    def _checked(self, p: int, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Refuse blocks of another shape or type than planned."""
        for block in blocks:
            if block.ndim != 2 or block.shape[1] != self.n_stored_columns or block.dtype != self.dtype:
                raise StoreError(
                    f"partition {p} of {self.path} got features of shape {block.shape} and type "
                    f"{block.dtype} instead of (rows, {self.n_stored_columns}) and {self.dtype}; this is a "
                    "defect of the caller"
                )
            yield block
            del block

    def n_rows(self, p: int) -> int:
        """Rows of one partition, from its record."""
        return self.record(p).counts["kept"]

    def read(self, p: int, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Read the features of one partition, or of some of its rows.

        Parameters
        ----------
        p : int
            Partition.
        start, stop : int
            Positions within the partition.

        Returns
        -------
        ndarray of shape (stop - start, n_stored_columns)

        Raises
        ------
        StoreError
            The partition is pending or damaged.
        """
        with read_errors(self.path, p):
            return np.asarray(self._array(p)[start:stop])

    def blocks(self, p: int) -> Iterator[np.ndarray]:
        """Read one partition chunk by chunk, at most 16 MiB each.

        Yields
        ------
        ndarray of shape (rows, n_stored_columns)
            In order.
        """
        with read_errors(self.path, p):
            array = self._array(p)
            for start in range(0, array.shape[0], array.chunks[0]):
                yield np.asarray(array[start : start + array.chunks[0]])

    def _array(self, p: int) -> zarr.Array[Any]:
        """The array of partition `p`, of the shape and type that its record and the plan say."""
        record = self.record(p)
        array = open_array(self.path, self.partition_path(p), "phi", record)
        shape = (record.counts["kept"], self.n_stored_columns)
        if array.shape != shape or array.dtype != self.dtype:
            raise ValueError(
                f"its array has shape {array.shape} and type {array.dtype}, not {shape} and {self.dtype}"
            )
        return array


def _moved(path: str, relative: str) -> PurePath:
    """The place that a relative path gives, as seen from where `path` is now."""
    return as_path(os.path.normpath(os.path.join(path, relative)).replace("s3:/", "s3://"))


def _problem(place: PurePath, error: StoreError) -> str:
    """Why there is no fingerprint store at a place, in few words where they do."""
    return "no store there" if not is_file(place / PLAN_FILE) else str(error)


def _aligned(blocks: Iterable[np.ndarray], rows: int) -> Iterator[np.ndarray]:
    """Cut and join blocks into ones of exactly `rows` rows, the last one shorter: each fills whole chunks."""
    held: list[np.ndarray] = []
    n_held = 0
    for block in blocks:
        held.append(block)
        n_held += len(block)
        del block  # or it would be in memory until the next one is there
        if n_held >= rows:
            joined = held[0] if len(held) == 1 else np.concatenate(held)
            whole = n_held - n_held % rows
            for start in range(0, whole, rows):
                yield joined[start : start + rows]
            held, n_held = [joined[whole:].copy()] if n_held > whole else [], n_held - whole
            del joined
    if n_held:
        yield np.concatenate(held)
