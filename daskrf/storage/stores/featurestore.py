"""The feature store: one Zarr array of the features of all kept rows of a library, and the rows' identity.

Layout, in addition to that of every store::

    zarr.json, phi/zarr.json      for other readers; daskrf derives their content from the plan
    phi/c.12.0                    chunk 12 of the packed bits (uint8) or floats, followed by its CRC32C
    diagonal/zarr.json, c.12      k(x, x), if it cannot be derived from the features
    rows/000003.parquet           row, id, smiles, source and line of the rows of partition 3

A partition is a fixed number of whole chunks, written by a single task; no chunk is shared between tasks.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import ClassVar, Self, TypedDict

import numpy as np
import pyarrow as pa

from daskrf.errors import StoreError
from daskrf.files.backend import absolute, as_path
from daskrf.files.disk import file_errors
from daskrf.quantities import DTYPES
from daskrf.storage.integrity import as_damage
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.rowstore import RowStore, write_rows
from daskrf.storage.stores.store import ARRAY_METADATA, PLAN_FILE, CommitRecord, Plan
from daskrf.storage.stores.zarrays import METADATA, Layout, read_chunk, read_errors, write_chunk

CHUNK_BYTES = 16 << 20


class FeatureStore(RowStore):
    """Features of the kept rows of a fingerprint store, in the same order.

    The spec holds ``source`` (spec hash of the fingerprint store) and its ``fingerprint``, ``fragments``,
    ``n_columns`` and ``library``; ``map`` (state of the feature map), ``dtype`` and ``n_components``;
    ``diagonal`` (whether k(x, x) is stored) and ``chunk_rows``. Each partition of the plan has its ``rows``
    and ``parts``, the slices (partition, start, stop) of the fingerprint store that it consists of.
    Nothing is compressed, because random bits and mantissas are incompressible.
    """

    needed_kind: ClassVar[str | None] = "features"
    needed_spec: ClassVar[dict[str, type | tuple[object, ...]]] = {
        "source": str,
        "fingerprint": dict,
        "fragments": str,
        "n_columns": int,
        "map": dict,
        "dtype": DTYPES,
        "n_components": int,
        "diagonal": (True, False),
        "chunk_rows": int,
        "partition_chunks": int,
    }

    def __init__(self, path: PurePath, plan: Plan) -> None:
        super().__init__(path, plan)
        self.library_hash = self.spec["source"]
        self.library_path = str(self.provenance.get("source_path", ""))
        planned, whole = plan["partitions"], self.chunk_rows * int(self.spec["partition_chunks"])
        rows = [entry.get("rows", -1) for entry in planned] if isinstance(planned, list) else []
        if (
            not rows
            or any(n != whole for n in rows[:-1])
            or not (type(rows[-1]) is int and rows[-1] <= whole)
        ):
            raise StoreError(
                f"the plan of {path} is not that of a feature store (its partitions are not equally long); "
                "restore it from a copy, or make the store again"
            )

    @classmethod
    def new(
        cls,
        path: PurePath,
        source: FingerprintStore,
        feature_map: Mapping[str, object],
        n_components: int,
        dtype: str = "bits",
        provenance: Mapping[str, object] | None = None,
        *,
        diagonal: bool = False,
    ) -> Self:
        """Plan a feature store, or resume an existing one.

        Parameters
        ----------
        path : path
            Directory.
        source : FingerprintStore
            Source of the rows; it must be complete.
        feature_map : dict
            ``FeatureMap.state()``.
        n_components : int
            Number of features.
        dtype : {"bits", "float32", "float16"}
            Type in which they are stored.
        provenance : dict, optional
            See `Store.create`.
        diagonal : bool
            Store k(x, x) of each row, because it cannot be derived from the features.

        Returns
        -------
        FeatureStore

        Raises
        ------
        StoreError
            See `Store.create`; or the fingerprint store is not complete.
        """
        if dtype not in DTYPES:
            raise StoreError(f"features are stored as {', '.join(DTYPES)}, not as {dtype!r}")
        kept_rows = source.kept_rows()
        width = -(-n_components // 8) if dtype == "bits" else n_components * np.dtype(dtype).itemsize
        chunk_rows, chunks = _cut(max([1, *kept_rows]), max(1, CHUNK_BYTES // width))
        spec = {
            "source": source.spec_hash,
            "fingerprint": source.spec["fingerprint"],
            "fragments": source.spec["fragments"],
            "n_columns": source.n_columns,
            "map": feature_map,
            "dtype": dtype,
            "n_components": int(n_components),
            "diagonal": diagonal,
            "chunk_rows": chunk_rows,
            "partition_chunks": chunks,
        }
        counted = {"rdkit": source.spec["rdkit"], "counts": source.provenance.get("counts", "")}
        origin = {"source_path": absolute(source.path), **counted, **(provenance or {})}
        return cls.create(path, "features", spec, _partitions(kept_rows, chunk_rows * chunks), origin)

    @property
    def n_components(self) -> int:
        """Number of features per row."""
        return int(self.spec["n_components"])

    @property
    def dtype(self) -> np.dtype:
        """Type of the stored array: uint8 for bits."""
        return np.dtype(np.uint8 if self.spec["dtype"] == "bits" else self.spec["dtype"])

    @property
    def n_stored_columns(self) -> int:
        """Columns of the stored array: bytes for bits, features for floats."""
        return -(-self.n_components // 8) if self.spec["dtype"] == "bits" else self.n_components

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk of the array."""
        return int(self.spec["chunk_rows"])

    @functools.cached_property
    def shape(self) -> tuple[int, int]:
        """Shape of the whole array."""
        return sum(map(self.partition_rows, range(self.n_partitions))), self.n_stored_columns

    @functools.cached_property
    def row_bounds(self) -> np.ndarray:  # type: ignore[override]
        """A partition extends up to the first row of the next one."""
        records = self.records()
        first = [records[p].counts["first"] if p in records else 0 for p in range(1, self.n_partitions)]
        return np.array([0, *first, 2**62], dtype=np.int64)

    def first_row(self, p: int) -> int:
        """Return the position in the array of the first row of partition `p`."""
        self.partition_name(p)
        return p * self.chunk_rows * int(self.spec["partition_chunks"])

    def parts(self, p: int) -> list[tuple[int, slice]]:
        """Return the partitions of the fingerprint store, and their rows, that make up partition `p`."""
        self.partition_name(p)
        with as_damage(self.path / PLAN_FILE):
            assert not isinstance(self.partitions, int)
            entry = self.partitions[p]
            return [(int(number), slice(int(start), int(stop))) for number, start, stop in entry["parts"]]

    def source(self) -> FingerprintStore:
        """Open the fingerprint store that the rows come from, to compute features again.

        Raises
        ------
        StoreError
            It is no longer where it was, or cannot be read.
        """
        advice = "move it back, or run `daskrf featurize` into a new store"
        problem = "its path is not known"
        if self.library_path:
            try:
                store = FingerprintStore.open(as_path(self.library_path))
            except StoreError as error:
                if error.errno is not None:
                    raise
                problem = str(error)
            else:
                if store.spec_hash == self.library_hash:
                    return store
                problem = f"{store.path} is another fingerprint store"
        raise StoreError(
            f"the fingerprint store that {self.path} was made from is not where it was ({problem}); {advice}"
        )

    def object_paths(self, p: int) -> list[PurePath]:
        names = [self.table_name(p, "rows"), *(ARRAY_METADATA if p == 0 else ())]
        arrays = {"phi": "phi/c.{}.0", **({"diagonal": "diagonal/c.{}"} if self.spec["diagonal"] else {})}
        for chunk in range(self.first_row(p), self.first_row(p) + self.partition_rows(p), self.chunk_rows):
            names += [pattern.format(chunk // self.chunk_rows) for pattern in arrays.values()]
        return [self.path / name for name in names]

    def write_partition(
        self,
        p: int,
        features: np.ndarray | Iterable[np.ndarray],
        rows: pa.Table,
        diagonal: Sequence[np.ndarray] = (),
        counts: dict[str, int] | None = None,
    ) -> CommitRecord:
        """Write and record one partition.

        Parameters
        ----------
        p : int
            Partition.
        features : ndarray of shape (n, n_stored_columns), or an iterable of such blocks
            Values of type `dtype`; blocks may have any number of rows, so a partition need not fit in memory.
        rows : pyarrow.Table, n rows
            Columns of `ROW_SCHEMA`, and others.
        diagonal : sequence of ndarray
            k(x, x) of the rows, if the store holds it; the sequence may grow while blocks are consumed.
        counts : dict, optional
            Further counts for the record; ``kept`` and ``first`` are counted here.

        Returns
        -------
        CommitRecord

        Raises
        ------
        StoreError
            The shape or type is not as planned, or writing fails.
        """
        n_rows, start = self.partition_rows(p), self.first_row(p)
        blocks = [features] if isinstance(features, np.ndarray) else features
        with self.staging(p) as directory, file_errors("write", directory):
            position = start
            for block in _aligned(self._checked(p, blocks), self.chunk_rows):
                if position < start + n_rows:  # too many rows raise an error below
                    self._write_chunk(directory, "phi", position, block)
                position += len(block)
                del block  # freed before the next one is made
            held = np.concatenate([np.zeros(0), *diagonal])
            if position - start != n_rows or rows.num_rows != n_rows:
                raise self._defect(
                    p, f"got {position - start} features and {rows.num_rows} rows instead of {n_rows}"
                )
            if self.spec["diagonal"]:
                if len(held) != n_rows:
                    raise self._defect(p, f"got {len(held)} values of k(x, x) instead of {n_rows}")
                for i in range(0, n_rows, self.chunk_rows):
                    self._write_chunk(directory, "diagonal", start + i, held[i : i + self.chunk_rows])
            (directory / "rows").mkdir()
            write_rows(rows, directory / self.table_name(p, "rows"))
            if p == 0:
                self._write_metadata(directory)
            staged = {
                self.path / path.relative_to(directory): path
                for path in directory.rglob("*")
                if path.is_file()
            }
            first = int(rows["row"][0].as_py()) if n_rows else 0
            return self.publish(p, staged, {**(counts or {}), "kept": n_rows, "first": first})

    @functools.cached_property
    def _layouts(self) -> dict[str, Layout]:
        """Layouts of the whole arrays, derived from the plan."""
        bits, rows = self.spec["dtype"] == "bits", self.chunk_rows
        # Any bit may be data; see docs/storage.md.
        fill, second = (0, "byte") if bits else (math.nan, "feature")
        n, width = self.shape
        phi = Layout((n, width), (rows, width), self.dtype, dimension_names=("row", second), fill_value=fill)
        if not self.spec["diagonal"]:
            return {"phi": phi}
        number, names = np.dtype(np.float64), ("row",)
        diagonal = Layout((n,), (rows,), number, dimension_names=names, fill_value=math.nan)
        return {"phi": phi, "diagonal": diagonal}

    def _write_chunk(self, directory: Path, name: str, row: int, values: np.ndarray) -> None:
        layout = self._layouts[name]
        write_chunk(directory / name, layout, (row // self.chunk_rows, *(0,) * (values.ndim - 1)), values)

    def _write_metadata(self, directory: Path) -> None:
        """Write the metadata of the arrays, and of their group with all of it consolidated for xarray."""
        arrays = {name: layout.metadata() for name, layout in self._layouts.items()}
        for name, data in arrays.items():
            (directory / name).mkdir(exist_ok=True)
            (directory / name / METADATA).write_bytes(data)
        group = {
            "attributes": {"n_components": self.n_components},
            "zarr_format": 3,
            "node_type": "group",
            "consolidated_metadata": {
                "kind": "inline",
                "must_understand": False,
                "metadata": {name: json.loads(data) for name, data in arrays.items()},
            },
        }
        (directory / METADATA).write_text(json.dumps(group, indent=1))

    def _defect(self, p: int, what: str) -> StoreError:
        return StoreError(f"partition {p} of {self.path} {what}; this is a defect of the caller")

    def _checked(self, p: int, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Yield the blocks, raising an error for any whose shape or type is not as planned."""
        for block in blocks:
            if block.ndim != 2 or block.shape[1] != self.n_stored_columns or block.dtype != self.dtype:
                raise self._defect(
                    p,
                    f"got features of shape {block.shape} and type {block.dtype} instead of "
                    f"(rows, {self.n_stored_columns}) and {self.dtype}",
                )
            yield block
            del block

    def n_rows(self, p: int) -> int:
        """Return the number of rows of one partition, from its record."""
        return self.record(p).counts["kept"]

    def read(self, p: int, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Read the features of all or some rows of one partition.

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
        low, high, _ = slice(start, stop).indices(self.partition_rows(p))
        with read_errors(self.path, p):
            return self._read(self._whole(p), "phi", low, max(low, high))

    def blocks(self, p: int) -> Iterator[np.ndarray]:
        """Read one partition chunk by chunk, at most 16 MiB each.

        Yields
        ------
        ndarray of shape (rows, n_stored_columns)
            In order.
        """
        with read_errors(self.path, p):
            record, n = self._whole(p), self.partition_rows(p)
            for start in range(0, n, self.chunk_rows):
                yield self._read(record, "phi", start, min(n, start + self.chunk_rows))

    def read_diagonal(self, p: int) -> np.ndarray:
        """Read k(x, x) of the rows of one partition, from a store that holds it.

        Raises
        ------
        StoreError
            The partition is pending or damaged.
        """
        with read_errors(self.path, p):
            return self._read(self._whole(p), "diagonal", 0, self.partition_rows(p))

    def _whole(self, p: int) -> CommitRecord:
        """Return the record of a partition, checking that it has as many rows as planned."""
        record = self.record(p)
        if record.counts["kept"] != self.partition_rows(p):
            raise ValueError(f"its record counts {record.counts['kept']} rows")
        return record

    def _read(self, record: CommitRecord, name: str, start: int, stop: int) -> np.ndarray:
        """Read some rows of an array's partition."""
        layout, first = self._layouts[name], self.first_row(record.partition)
        values = np.empty((stop - start, *layout.shape[1:]), layout.dtype)
        while start < stop:
            number, inside = divmod(first + start, self.chunk_rows)
            chunk = read_chunk(self.path, name, layout, (number, *(0,) * (values.ndim - 1)), record)
            piece = chunk[inside : inside + stop - start]
            values[len(values) - (stop - start) :][: len(piece)] = piece
            start += len(piece)
        return values


def _cut(rows: int, most: int) -> tuple[int, int]:
    """Divide about `rows` rows into chunks of at most `most`; return rows per chunk and number of chunks.

    Examples
    --------
    >>> _cut(100_000, 16_384), _cut(101, 60)
    ((12500, 8), (51, 2))
    """
    least = -(-rows // most)
    # If chunks divide the rows evenly, partitions can begin at the same rows as those of the fingerprints.
    chunks = next((n for n in range(least, 2 * least) if rows % n == 0), least)
    return -(-rows // chunks), chunks


class PartitionOfFeatures(TypedDict):
    """A partition in the plan of a feature store."""

    rows: int
    parts: list[list[int]]


def _partitions(kept_rows: Sequence[int], rows: int) -> list[PartitionOfFeatures]:
    """Plan partitions of `rows` rows each (the last may be shorter) from partitions of `kept_rows` rows.

    Examples
    --------
    >>> _partitions([3, 0, 4], 5)
    [{'rows': 5, 'parts': [[0, 0, 3], [2, 0, 2]]}, {'rows': 2, 'parts': [[2, 2, 4]]}]
    """
    planned: list[PartitionOfFeatures] = [{"rows": 0, "parts": []}]
    for number, n in enumerate(kept_rows):
        start = 0
        while start < n:
            if planned[-1]["rows"] == rows:
                planned.append({"rows": 0, "parts": []})
            stop = min(n, start + rows - planned[-1]["rows"])
            planned[-1]["parts"].append([number, start, stop])
            planned[-1]["rows"] += stop - start
            start = stop
    return planned


def _aligned(blocks: Iterable[np.ndarray], rows: int) -> Iterator[np.ndarray]:
    """Regroup blocks into blocks of exactly `rows` rows, to fill whole chunks; the last may be shorter."""
    held: list[np.ndarray] = []
    n_held = 0
    for block in blocks:
        held.append(block)
        n_held += len(block)
        del block  # or it would stay in memory until the next one arrives
        if n_held >= rows:
            joined = held[0] if len(held) == 1 else np.concatenate(held)
            whole = n_held - n_held % rows
            for start in range(0, whole, rows):
                yield joined[start : start + rows]
            held, n_held = [joined[whole:].copy()] if n_held > whole else [], n_held - whole
            del joined
    if n_held:
        yield np.concatenate(held)
