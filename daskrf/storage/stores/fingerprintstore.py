"""The fingerprint store: sparse counts and the identity of every row of a library.

A partition holds ``lengths`` (non-zeros of each row), ``indices`` (sorted within a row) and ``counts``,
each in the smallest unsigned type that fits, as one Zstandard chunk with CRC32C. Plain CSR compresses to
less than two bytes per non-zero, because molecules of a library share fragments and thus runs of indices.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_matrix

from daskrf.errors import StoreError
from daskrf.files.backend import absolute, atomic_write, backend, is_file
from daskrf.files.disk import file_errors
from daskrf.storage.stores.rowstore import RejectingStore, RowStore, write_rows
from daskrf.storage.stores.store import FORMAT, CommitRecord, Plan
from daskrf.storage.stores.zarrays import (
    METADATA,
    create_group,
    group_metadata,
    read_array,
    read_errors,
    write_array,
)

LEVEL = 3


def smallest_unsigned(maximum: int) -> np.dtype:
    """Return the smallest unsigned integer type that holds `maximum`.

    Examples
    --------
    >>> smallest_unsigned(255), smallest_unsigned(256)
    (dtype('uint8'), dtype('uint16'))
    """
    return np.dtype(np.min_scalar_type(maximum).str)  # NumPy has two 64-bit types; Zarr knows this one


class FingerprintStore(RejectingStore, RowStore):
    """Fingerprints, rows and rejects of a library, one partition at a time.

    The spec holds ``library`` (files with digests and columns), ``fingerprint`` (kind, radius, ...,
    with ``n_columns``), ``fragments``, ``extra`` and ``rdkit`` (its version: the bytes depend on it).
    """

    needed_kind: ClassVar[str | None] = "fingerprints"
    needed_spec: ClassVar[dict[str, type | tuple[object, ...]]] = {
        "library": dict,
        "fingerprint": dict,
        "n_columns": int,
        "fragments": str,
        "extra": list,
        "rdkit": str,
    }

    def __init__(self, path: PurePath, plan: Plan) -> None:
        super().__init__(path, plan)
        self.library_hash, self.library_path = self.spec_hash, absolute(path)

    @classmethod
    def new(
        cls,
        path: PurePath,
        *,
        library: Mapping[str, object],
        fingerprint: Mapping[str, object],
        n_columns: int,
        partitions: Sequence[Mapping[str, object]],
        rdkit_version: str,
        fragments: str = "keep",
        extra: Sequence[str] = (),
        provenance: Mapping[str, object] | None = None,
    ) -> Self:
        """Plan a fingerprint store, or resume an existing one.

        Parameters
        ----------
        path : path
            Directory.
        library, fingerprint : dict
            ``Library.state()`` and ``FingerprintSpec.state()``.
        n_columns : int
            Columns of the fingerprint matrix: 2**32 for each unfolded kind.
        partitions : list of dict
            One entry per partition, with at least ``start`` and ``stop`` row numbers.
        rdkit_version : str
            Part of the spec, because another RDKit version may set other bits.
        fragments : str
            ``"keep"``, ``"largest"`` or ``"reject"``.
        extra : sequence of str
            Names of further columns of the rows table.
        provenance : dict, optional
            See `Store.create`.

        Returns
        -------
        FingerprintStore

        Raises
        ------
        StoreError
            See `Store.create`.
        """
        spec = {
            "library": library,
            "fingerprint": fingerprint,
            "n_columns": int(n_columns),
            "fragments": fragments,
            "extra": list(extra),
            "rdkit": rdkit_version,
        }
        store = cls.create(path, "fingerprints", spec, partitions, provenance)
        store._write_groups()
        return store

    def _write_groups(self) -> None:
        """Write the metadata by which Zarr finds all partitions from the root of the store.

        They follow from the plan, daskrf does not read them, and no record names them. What is missing or
        damaged is written again, but a store that has partitions and neither of the two stays as it is: it
        may be of a version that wrote none.
        """
        attributes = {"format": FORMAT, "kind": self.kind, "n_columns": self.n_columns}
        groups = {
            self.path: {**attributes, "fingerprint": self.spec["fingerprint"]},
            self.path / "data": {},
        }
        written = [folder for folder in groups if is_file(folder / METADATA)]
        if self._recorded() and not written:
            return
        for folder, values in groups.items():
            file, content = folder / METADATA, group_metadata(values)
            with file_errors("read", file):
                if folder in written and backend(file).read(file) == content:
                    continue
            with file_errors("create", folder):
                backend(folder).make(folder)
            atomic_write(file, content)

    @property
    def n_columns(self) -> int:
        """Number of columns of the fingerprint matrix."""
        return int(self.spec["n_columns"])

    @functools.cached_property
    def row_bounds(self) -> np.ndarray:  # type: ignore[override]
        return np.cumsum([0, *map(self.partition_rows, range(self.n_partitions))], dtype=np.int64)

    def kept_rows(self) -> list[int]:
        """Return the number of rows kept in each partition.

        Raises
        ------
        StoreError
            The store is not complete.
        """
        records = self.records()
        if len(records) < self.n_partitions:
            self.require_complete()
        return [records[p].counts["kept"] for p in range(self.n_partitions)]

    def write_partition(
        self,
        p: int,
        fingerprints: csr_matrix,
        rows: pa.Table,
        rejects: pa.Table | None = None,
        counts: dict[str, int] | None = None,
    ) -> CommitRecord:
        """Write and record one partition.

        Parameters
        ----------
        p : int
            Partition.
        fingerprints : csr_matrix, shape (n, n_columns)
            Sorted unique indices, integer counts from 1 to 65535.
        rows : pyarrow.Table, n rows
            Columns of `ROW_SCHEMA` and the extra columns.
        rejects : pyarrow.Table, optional
            Columns of `REJECT_SCHEMA`.
        counts : dict, optional
            Further counts for the record, such as ``saturated`` and ``empty``; ``read``, ``kept``,
            ``rejected`` and ``nonzeros`` are counted here, and must agree if given.

        Returns
        -------
        CommitRecord

        Raises
        ------
        StoreError
            Fingerprints and rows do not match, or writing fails.
        """
        n, n_columns = fingerprints.shape
        if n_columns != self.n_columns or rows.num_rows != n:
            raise StoreError(
                f"partition {p} of {self.path} got {n} fingerprints of {n_columns} columns and "
                f"{rows.num_rows} rows, and its plan says {self.n_columns} columns; this is a "
                "defect of the caller"
            )

        def stage(directory: Path) -> dict[PurePath, Path]:
            self._write_arrays(directory / "data", fingerprints)
            write_rows(rows, directory / "rows")
            return {self.partition_path(p): directory / "data", self.rows_path(p): directory / "rows"}

        return self._write(p, {"kept": n, "nonzeros": fingerprints.nnz}, rejects, counts, stage)

    def _write_arrays(self, path: Path, fingerprints: csr_matrix) -> None:
        """Write the three arrays of a partition as one group."""
        indices, counts = fingerprints.indices, fingerprints.data
        lengths = np.diff(fingerprints.indptr)
        group = create_group(path, {"shape": list(fingerprints.shape)})
        for name, values in (("lengths", lengths), ("counts", counts)):
            dtype = smallest_unsigned(int(values.max(initial=0)))
            write_array(group, name, values.astype(dtype))
        # The index type follows from the plan, not from the data.
        kind = smallest_unsigned(self.n_columns - 1)
        same = kind.itemsize == indices.itemsize  # several unfolded kinds: no copy
        write_array(group, "indices", indices.view(kind) if same else indices.astype(kind))

    def read_fingerprints(self, p: int) -> csr_matrix:
        """Read the fingerprints of one partition.

        Returns
        -------
        csr_matrix, shape (n, n_columns), uint16
            Indices are int64 if there are more than 2**31 - 1 columns or non-zeros, else int32.

        Raises
        ------
        StoreError
            The partition is pending or damaged.
        """
        record = self.record(p)
        with read_errors(self.path, p):
            lengths, indices, counts = (
                read_array(self.path, f"data/{self.partition_name(p)}/{name}", record)
                for name in ("lengths", "indices", "counts")
            )
            n, nonzeros = record.counts["kept"], record.counts["nonzeros"]
            if (lengths.shape, indices.shape, counts.shape) != ((n,), (nonzeros,), (nonzeros,)):
                raise ValueError("its arrays are not as long as its record counts")
            index_type = np.int32 if max(self.n_columns, len(indices)) < 2**31 else np.int64
            indptr = np.zeros(len(lengths) + 1, dtype=index_type)
            np.cumsum(lengths, out=indptr[1:])
            if indptr[-1] != len(indices):
                raise ValueError("the lengths of its rows do not add up")
            if indices.max(initial=0) >= self.n_columns:
                raise ValueError("it has more columns than its plan")
            if indices.itemsize == np.dtype(index_type).itemsize:  # no copy
                indices = indices.view(index_type)
            fingerprints = csr_matrix((len(lengths), self.n_columns), dtype=np.uint16)
            # Assigned, because the constructor would scan all indices for a smaller type.
            fingerprints.indptr = indptr
            fingerprints.indices = indices.astype(index_type, copy=False)
            fingerprints.data = counts.astype(np.uint16, copy=False)
        # True by construction; a check would scan all indices again.
        fingerprints.has_sorted_indices = True
        fingerprints.has_canonical_format = True
        return fingerprints
