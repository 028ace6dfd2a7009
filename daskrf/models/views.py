"""Python access to stores and models: Dask arrays, datasets of rows, and predictions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import dask.array as da
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem
from scipy import sparse

from daskrf.arrays import Matrix, MatrixLike, shape_of
from daskrf.errors import InputError, RejectWarning, StoreError, printable
from daskrf.files.backend import absolute, as_path, backend, readable
from daskrf.gp.validation.intervals import checked_levels
from daskrf.jobs.pieces import opened
from daskrf.models.countarray import CountArray
from daskrf.models.intervals import interval_factors
from daskrf.models.models import Model, feature_map_of, read_model
from daskrf.models.toolkits import check_toolkit
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.quantities import amount
from daskrf.sources.given import molecules_given
from daskrf.sources.sources import Block, feature_blocks
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.rowstore import RowStore

Of = Literal["y", "f", "both"]

_SHOWN = 80  # characters of a SMILES in a message


@dataclass(frozen=True)
class OpenLibrary:
    """A fingerprint store as a Dask array.

    Attributes
    ----------
    fingerprints : dask.array.Array of shape (n, n_columns), uint16
        Counts of the kept rows in library order, in blocks of `scipy.sparse.csr_matrix`. Sums, means,
        extremes and matrix products, such as ``x.sum(axis=0)`` and ``x.T @ x``, work and are exact. Their
        results are NumPy arrays; of unfolded fingerprints, those with a value for each column have blocks of
        `sparse.COO`.
    rows : pyarrow.dataset.Dataset
        row, id, smiles, source, line and further columns of the same rows.
    spec : dict
        What the store was made from: library, fingerprint, fragments and versions.
    """

    fingerprints: CountArray
    rows: ds.Dataset
    spec: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True)
class OpenFeatures:
    """A feature store as a Dask array.

    Attributes
    ----------
    phi : dask.array.Array of shape (n, ceil(M / 8)), uint8, or (n, M), float32 or float16
        Features of the kept rows in library order: packed bits (see `bits`) or floats (see `features`).
    rows : pyarrow.dataset.Dataset
        row, id, smiles, source, line and further columns of the same rows.
    spec : dict
        What the store was made from: the fingerprint, the map and the number of features.
    """

    phi: da.Array
    rows: ds.Dataset
    spec: Mapping[str, object] = field(repr=False)

    @property
    def bits(self) -> da.Array:
        """Packed bits, where 1 stands for a feature of -1/sqrt(M) and 0 for +1/sqrt(M).

        ``numpy.unpackbits(bits, axis=1, count=M, bitorder="little")`` has a column for each feature.

        Raises
        ------
        StoreError
            If the store holds floats.
        """
        return self._held(bits=True)

    @property
    def features(self) -> da.Array:
        """Features as floats.

        Raises
        ------
        StoreError
            If the store holds bits.
        """
        return self._held(bits=False)

    def _held(self, bits: bool) -> da.Array:
        if (self.spec["dtype"] == "bits") != bits:
            there, requested = ("features", "bits") if bits else ("bits", "features")
            raise StoreError(f"The store holds {self.spec['dtype']}: take its .{there}, not its .{requested}")
        return self.phi


def open_library(path: str | os.PathLike[str]) -> OpenLibrary:
    """Open a fingerprint store as a Dask array; every byte is checked against its digest when read.

    Parameters
    ----------
    path : path
        A complete fingerprint store.

    Returns
    -------
    OpenLibrary

    Raises
    ------
    StoreError
        If there is no fingerprint store, or it is incomplete.

    Examples
    --------
    >>> import tempfile, daskrf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/a.smi", "w") as file:
    ...         _ = file.write("CCO ethanol\\nCCC propane\\n")
    ...     _ = daskrf.fingerprint(f"{folder}/a.smi", f"{folder}/a.fp")
    ...     library = daskrf.open_library(f"{folder}/a.fp")
    ...     library.fingerprints.shape, library.rows.to_table()["id"].to_pylist()
    ((2, 12884901888), ['ethanol', 'propane'])
    """
    store = FingerprintStore.open(as_path(path))
    kept_rows = store.kept_rows()
    array = _array(
        store, _fingerprints, kept_rows, store.n_columns, sparse.csr_matrix((0, 0), dtype=np.uint16)
    )
    return OpenLibrary(CountArray.of(array), _rows(store), store.spec)


def open_features(path: str | os.PathLike[str]) -> OpenFeatures:
    """Open a feature store as a Dask array; every byte is checked against its digest when read.

    Parameters
    ----------
    path : path
        A complete feature store.

    Returns
    -------
    OpenFeatures

    Raises
    ------
    StoreError
        If there is no feature store, or it is incomplete.

    Examples
    --------
    >>> import tempfile, daskrf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/a.smi", "w") as file:
    ...         _ = file.write("CCO ethanol\\nCCC propane\\n")
    ...     _ = daskrf.fingerprint(f"{folder}/a.smi", f"{folder}/a.fp")
    ...     feature_map = daskrf.TanimotoMinMaxFeatures(64)
    ...     _ = daskrf.featurize(f"{folder}/a.fp", feature_map, f"{folder}/a.phi")
    ...     daskrf.open_features(f"{folder}/a.phi").bits.compute(scheduler="synchronous").shape
    (2, 8)
    """
    store = FeatureStore.open(as_path(path))
    store.require_complete()
    n, rows = store.shape[0], store.chunk_rows
    chunks = [min(rows, n - start) for start in range(0, n, rows)] or [0]
    array = _array(store, _features, chunks, store.n_stored_columns, np.zeros((0, 0), store.dtype))
    return OpenFeatures(array, _rows(store), store.spec)


def _array(
    store: RowStore, read: Callable[..., Matrix], rows: list[int], n_columns: int, empty: Matrix
) -> da.Array:
    """Return the Dask array whose blocks, of `rows` rows each, `read` reads from a store."""
    return da.map_blocks(
        read,
        absolute(store.path),
        store.spec_hash,
        chunks=(tuple(rows), (n_columns,)),
        dtype=empty.dtype,
        meta=empty,
    )


def _fingerprints(path: str, spec_hash: str, block_id: tuple[int, int] = (0, 0)) -> sparse.csr_matrix:
    return opened(FingerprintStore, path, spec_hash).read_fingerprints(block_id[0])


def _features(path: str, spec_hash: str, block_id: tuple[int, int] = (0, 0)) -> np.ndarray:
    store = opened(FeatureStore, path, spec_hash)
    partition, chunk = divmod(block_id[0], int(store.spec["partition_chunks"]))
    start = chunk * store.chunk_rows
    return store.read(partition, start, start + store.chunk_rows)


def _rows(store: RowStore) -> ds.Dataset:
    """Return the rows of a store as a dataset, whether in files or in object storage."""
    files = [store.rows_path(p) for p in range(store.n_partitions)]
    format_, places = ds.ParquetFileFormat(), LocalFileSystem()  # the file system of the file names
    fragments = [format_.make_fragment(readable(file), places) for file in files]
    with backend(files[0]).open(files[0]) as first:
        schema: pa.Schema = pq.read_schema(first)
    return ds.FileSystemDataset(fragments, schema, format_, places)


@dataclass(frozen=True)
class Predictor(Model):
    """A fitted model that predicts."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(targets={self.targets!r}, gp={self.gp!r})"

    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        *,
        of: Literal["y", "f"] = "y",
        diagonal: npt.ArrayLike | None = None,
        return_reasons: bool = False,
        intervals: Sequence[float] | None = None,
    ) -> Any:
        """Return predictions for molecules, like `daskrf.predict`.

        The result has an entry for each row of `X`. Predictions of molecules that cannot be read are NaN; a
        warning names the first of them, unless reasons are returned.

        Parameters
        ----------
        X : sequence of str or of molecules, DataFrame, sparse matrix of shape (n, n_columns), or ndarray
            SMILES, molecules of RDKit, a table or Series with them, sparse counts of the fingerprint that the
            model was fitted to, or dense features of its map, as packed bits (uint8 of shape (n,
            ceil(M / 8))) or floats (n, M). An exact process has no features.
        return_std : bool
            Also return standard deviations; the model must have been loaded with its statistics.
        of : {"y", "f"}
            Whether they are those of a new label, noise included, or of the function behind the labels.
        diagonal : array of shape (n,), optional
            k(x, x) for each row of features, if the features do not determine it.
        return_reasons : bool
            Also return, last, why rows have no prediction: a list of texts, None for a row that has one.
        intervals : sequence of float, optional
            Levels in percent, such as [50, 95]: also return, after means and standard deviations, a dict of
            each level to the ends (low, high) of intervals of a new label, as `daskrf.predict` does.

        Returns
        -------
        ndarray of shape (n,), or (n, n_targets) for several targets; or a tuple of the requested values

        Raises
        ------
        InputError
            If `X` holds no molecules, rows do not match this model's fingerprint or map, or it gives no
            intervals.
        """
        if hasattr(X, "dask") and hasattr(X, "chunks"):
            raise InputError(
                "A dask array is not computed here: X.map_blocks(model.predict, drop_axis=1, dtype=float) "
                "predicts lazily, block by block, for a model of one target."
            )
        levels = () if intervals is None else checked_levels(intervals)
        factors = interval_factors(self, levels)[0] if levels else None
        needs_std = return_std or factors is not None
        kind: Of = of if factors is None else "both"
        if _are_texts(X) or not (isinstance(X, np.ndarray) or sparse.issparse(X)):
            check_toolkit(self)
            smiles, reasons = molecules_given(X)
            predictions = self._of_smiles(smiles, reasons, needs_std, kind)
            if not return_reasons:
                _warn_of(smiles, reasons)
        else:
            predictions, reasons = self._of_rows(X, needs_std, kind, diagonal), [None] * shape_of(X)[0]
        if factors is not None:
            mean, std_f, std_y = predictions
            halves = [std_y * (row if mean.ndim > 1 else row[0]) for row in factors]
            ends = {level: (mean - half, mean + half) for level, half in zip(levels, halves, strict=True)}
            stds = ((std_y if of == "y" else std_f),) if return_std else ()
            whole: tuple[object, ...] = (mean, *stds, ends)
        else:
            whole = predictions
        whole = (*whole, reasons) if return_reasons else whole
        return whole if len(whole) > 1 else whole[0]

    def _of_smiles(
        self, smiles: list[str], reasons: list[str | None], return_std: bool, of: Of
    ) -> tuple[npt.NDArray[np.float64], ...]:
        """Return predictions for SMILES, NaN where there are none; fill in `reasons` for rejects."""
        there = [row for row, reason in enumerate(reasons) if reason is None]
        spec = FingerprintSpec.from_state(self.metadata["fingerprint"])
        block = Fingerprinter(spec, self.metadata["fragments"])([smiles[row] for row in there])
        for position, reason in block.rejects:
            reasons[there[position]] = reason
        places = [there[position] for position in block.kept.tolist()]
        whole = []
        for values in self._of_rows(block.fingerprints, return_std, of, None):
            whole.append(np.full((len(smiles), *values.shape[1:]), np.nan))
            whole[-1][places] = values
        return tuple(whole)

    def _of_rows(
        self, X: Matrix, return_std: bool, of: Of, diagonal: npt.ArrayLike | None
    ) -> tuple[npt.NDArray[np.float64], ...]:
        """Return predictions for fingerprints or features."""
        if not sparse.issparse(X) and self.metadata["map"] is None:
            raise InputError("This exact process takes SMILES or fingerprints, a sparse matrix.")
        if sparse.issparse(X):
            predictions = [
                self.gp.predict(block.phi, return_std=return_std, of=of, diagonal=block.diagonal)
                for block in _feature_blocks(X, self)
            ]
        else:
            predictions = [self.gp.predict(X, return_std=return_std, of=of, diagonal=diagonal)]
        parts = zip(*predictions, strict=True) if return_std else [predictions]
        return tuple(np.concatenate(arrays) for arrays in parts)


def load(path: str | os.PathLike[str]) -> Predictor:
    """Open a model written by `fit`, for predictions in Python.

    Parameters
    ----------
    path : path
        Path of the model.

    Returns
    -------
    Predictor
        Its `Predictor.predict` takes SMILES, fingerprints or features.

    Raises
    ------
    StoreError
        If there is no model, or it is damaged or from another version.

    Examples
    --------
    >>> import tempfile, daskrf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/a.smi", "w") as file:
    ...         _ = file.write("".join(f"{'C' * n}O m{n}\\n" for n in range(1, 9)))
    ...     with open(f"{folder}/a.csv", "w") as file:
    ...         _ = file.write("id,y\\n" + "".join(f"m{n},{n}\\n" for n in range(1, 9)))
    ...     _ = daskrf.fingerprint(f"{folder}/a.smi", f"{folder}/a.fp")
    ...     _ = daskrf.fit(f"{folder}/a.fp", f"{folder}/a.csv", f"{folder}/a.model")
    ...     mean, std = daskrf.load(f"{folder}/a.model").predict(["CCCO", "CCCCCO"], return_std=True)
    >>> bool(mean[0] < mean[1]), std.shape
    (True, (2,))
    """
    model = read_model(as_path(path))
    return Predictor(**vars(model))


def _are_texts(X: MatrixLike) -> bool:
    """Return whether an array holds objects or texts, which are molecules, and not features."""
    return isinstance(X, np.ndarray) and X.dtype.kind in "OUT"


def _warn_of(smiles: list[str], reasons: list[str | None]) -> None:
    """Warn of molecules that have no predictions."""
    bad = [(row, reason) for row, reason in enumerate(reasons) if reason is not None]
    if bad:
        row, reason = bad[0]
        shown = f" ({printable(smiles[row], _SHOWN)!r})" if smiles[row] else ""
        first = "it is" if len(bad) == 1 else "the first is"
        warnings.warn(
            f"{len(bad):,} of {amount(len(reasons), 'molecules')} have no prediction and are NaN; {first} "
            f"number {row:,}, from 0{shown}: {reason} (return_reasons=True returns all reasons).",
            RejectWarning,
            stacklevel=3,
        )


def _feature_blocks(X: Matrix, model: Model) -> Iterator[Block]:
    """Yield features of fingerprints under a model's map, or the fingerprints for an exact process."""
    feature_map = feature_map_of(model)
    n_columns = FingerprintSpec.from_state(model.metadata["fingerprint"]).n_columns
    if X.shape[1] != n_columns:
        raise InputError(
            f"The fingerprints have {X.shape[1]:,} columns, but those of the model have {n_columns:,}."
        )
    rows = np.arange(X.shape[0])
    blocks = feature_blocks(
        feature_map,
        rows,
        sparse.csr_matrix(X),
        None,
        bits=model.gp.one_bit_,
        predicts=True,
        describe=_unnamed,
    )
    if len(rows):
        return blocks
    none = X if feature_map is None else np.zeros((0, feature_map.n_components), np.float32)
    return iter([Block(rows, none)])


def _unnamed(rows: npt.NDArray[np.int64]) -> pa.Table:
    """Describe rows for which only the number is known."""
    unknown = ["unknown"] * len(rows)
    return pa.table({"id": unknown, "smiles": unknown, "source": unknown, "line": rows})
