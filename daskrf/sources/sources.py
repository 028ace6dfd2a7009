"""Where features come from, one partition at a time: a feature store, a fingerprint store, or SMILES files.

A source is a small frozen object sent with each task; stores are opened, and feature maps rebuilt, once per
process. `daskrf.sources.mapreference` describes how tasks carry maps.
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from daskrf.arrays import Matrix, row_slice
from daskrf.errors import ROW, InputError, OptionError
from daskrf.estimators import clone
from daskrf.features import FeatureMap, FoldedFeatures, default_map
from daskrf.features.featuremap import brief_state, check_feature_map, undecided
from daskrf.features.meanfeatures import map_on_first
from daskrf.files.backend import absolute, as_path
from daskrf.gp.processes.posterior import as_features
from daskrf.gp.sums.shapes import SumsShape
from daskrf.jobs.memory import NONZEROS, Making, block_rows
from daskrf.jobs.pieces import opened
from daskrf.kernels.kernel import UNDECIDED, UNLEARNED
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.extensions import GROUPS, GROUPS_COUNT
from daskrf.quantities import amount
from daskrf.sources.mapreference import MapReference, agrees, rebuild
from daskrf.storage.descriptions import map_words
from daskrf.storage.integrity import as_damage
from daskrf.storage.kinds import find_library
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.rowstore import REJECT_SCHEMA, RowStore
from daskrf.tables.formats import BATCH_ROWS

RAW_ROWS = 16_384  # rows per block of fingerprints
READ_SECONDS = 3e-6  # per row read from a disk
FINGERPRINT_SECONDS = 3e-4  # per molecule
_FOLDED = 2_048  # columns that a kind is folded to by default
_SHOWN = 80  # maximum characters of a SMILES in a message
_LEFT_OUT = "left out when the fingerprints were made"
_WAY_OUT = (
    "; leave that molecule out, or make the features and the model again with a range that includes it: "
    "--norm-range LOW HIGH, in Python norm_range (a wider one is less accurate)."
)


@dataclass(frozen=True)
class Block:
    """Features of some rows: `rows` are global row numbers, `phi` packed bits or float32 features.

    For an exact process, `phi` holds fingerprints, a CSR matrix.

    `diagonal` is k(x, x) of each row, if the features do not capture all of it and it is not 1.
    `fingerprints` are those of the rows, if features leave out a part of the kernel that samples include.
    """

    rows: npt.NDArray[np.int64]
    phi: Matrix
    diagonal: npt.NDArray[np.float64] | None = None
    fingerprints: sparse.csr_matrix | None = None

    def where(self, keep: npt.NDArray[np.bool_ | np.intp]) -> Block:
        """Return the block with some of its rows, selected by a mask or by position."""
        diagonal = None if self.diagonal is None else self.diagonal[keep]
        fingerprints = None if self.fingerprints is None else self.fingerprints[keep]
        return Block(self.rows[keep], self.phi[keep], diagonal, fingerprints)


@dataclass(frozen=True)
class Source(ABC):
    """Features of a library, by partition.

    Attributes
    ----------
    path : str
        The store, or the folder with the description of SMILES files.
    spec_hash : str
        Hash of everything the features depend on except the map.
    bits : bool
        Whether blocks are packed bits; otherwise they are float32.
    map : MapReference or None
        None if the store's plan holds the map, or if blocks hold fingerprints.
    """

    path: str
    spec_hash: str
    bits: bool
    map: MapReference | None = None

    @property
    def raw(self) -> bool:
        """Whether blocks hold raw fingerprints, for exact processes."""
        return self.map is None

    @property
    def brief_map(self) -> dict[str, Any] | None:
        """The map as recorded in a specification; None for fingerprints."""
        return None if self.raw else brief_state(self.feature_map.state())

    @property
    def block_size(self) -> int:
        """Features per row that a prediction needs; 0 for fingerprints."""
        return 0 if self.raw else self.feature_map.block_size

    @property
    def feature_map(self) -> FeatureMap:
        """The feature map, built once per process."""
        assert self.map is not None
        return self.map.feature_map

    def carried(self, directory: PurePath) -> Self:
        """Return what is sent with tasks: this, with a long map state moved to a file in `directory`."""
        return self if self.map is None else replace(self, map=self.map.carried(directory))

    @property
    @abstractmethod
    def partition_rows(self) -> list[int]:
        """Rows of each partition (as read, including rejected ones)."""

    @property
    def library_hash(self) -> str:
        """Spec hash of what row numbers refer to: the fingerprint store, or the SMILES file description."""
        return self.spec_hash

    @property
    def row_bounds(self) -> npt.NDArray[np.int64]:
        """Library row numbers at which partitions begin, and the end of the last one."""
        return np.cumsum([0, *self.partition_rows], dtype=np.int64)

    @abstractmethod
    def blocks(self, partition: int, rows: npt.NDArray[np.int64] | None = None) -> Iterator[Block]:
        """Yield the features of a partition, or of those of its rows that are in the sorted `rows`."""

    def rejects(self, partition: int) -> pa.Table:
        """Return the rows rejected while reading; none if they were left out when the store was made.

        Valid only after all blocks of the partition have been consumed.
        """
        return REJECT_SCHEMA.empty_table()

    def marked(self, partition: int) -> int:
        """Return how many molecules have groups of stereocentres; 0 for a store, which was reported before.

        Valid only after all blocks of the partition have been consumed.
        """
        return 0

    def note_on_groups(self) -> tuple[str, ...]:
        """Return a line on molecules with groups of stereocentres, if there are any."""
        marked = sum(map(self.marked, range(len(self.partition_rows))))
        return (f"{amount(marked, 'molecules')} {GROUPS}: {GROUPS_COUNT}",) if marked else ()

    @property
    @abstractmethod
    def table_bytes(self) -> int:
        """Maximum bytes of the map's tables in each process."""

    @property
    def nonzeros(self) -> int | None:
        """Largest number of non-zeros in a partition; None if not counted, 0 if none are read."""
        return None

    @property
    def usual_nonzeros(self) -> int:
        """Non-zeros per row to assume if they are not counted."""
        return NONZEROS

    @property
    @abstractmethod
    def seconds_per_row(self) -> float:
        """Rough cost of the features of a row on one core, used to size tasks."""

    @abstractmethod
    def describe(self, partition: int, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Return row, id, smiles, source, line and further columns of the sorted `rows` of a partition."""

    @abstractmethod
    def every(self, partition: int) -> EveryRow:
        """Return all rows of a partition, including those without features.

        Valid only after all blocks of the partition have been consumed.
        """


@dataclass(frozen=True)
class EveryRow:
    """All rows of a partition, in order.

    Attributes
    ----------
    table : pyarrow.Table
        Columns row, id, smiles, source, line and others, as far as their values are known.
    reasons : list of (str or None)
        Why a row has no features; None for one that has.
    rejects : pyarrow.Table
        The rows without features, as `REJECT_SCHEMA`.
    """

    table: pa.Table
    reasons: list[str | None]
    rejects: pa.Table


def feature_blocks(
    feature_map: FeatureMap | None,
    kept_rows: npt.NDArray[np.int64],
    fingerprints: Any,
    rows: npt.NDArray[np.int64] | None,
    *,
    bits: bool,
    predicts: bool,
    describe: Callable[[npt.NDArray[np.int64]], pa.Table],
) -> Iterator[Block]:
    """Yield the features of `kept_rows`, or of those in the sorted `rows`, in blocks of bounded size.

    Without a map, blocks hold the fingerprints themselves. By default they hold all features that sums need;
    with `predicts`, only those for predictions (`FeatureMap.transform_nearest`). `describe` returns id,
    smiles, source and line of rows, for the message about a row that the map rejects.
    """
    if rows is not None:
        chosen = positions(kept_rows, rows)
        kept_rows, fingerprints = kept_rows[chosen], fingerprints[chosen]
    if feature_map is None:
        for start in range(0, len(kept_rows), RAW_ROWS):
            stop = start + RAW_ROWS
            yield Block(kept_rows[start:stop], row_slice(fingerprints, start, min(stop, len(kept_rows))))
        return
    floats = feature_map.transform_nearest if predicts else feature_map.transform
    transform = feature_map.transform_bits if bits else floats

    def block(numbers: npt.NDArray[np.int64], counts: Any) -> Block:
        try:
            left_out = None if feature_map.projected_kernel is None else counts
            return Block(numbers, transform(counts), _diagonal(feature_map, counts), left_out)
        except InputError as error:
            raise _refusal(error, numbers, describe) from None

    size = block_rows(feature_map.n_components, one_bit=bits)
    for start in range(0, len(kept_rows), size):
        # The block has no name here, so it can be freed before the next one is made.
        yield block(kept_rows[start : start + size], row_slice(fingerprints, start, start + size))


def _diagonal(feature_map: FeatureMap, fingerprints: Any) -> npt.NDArray[np.float64] | None:
    """Return k(x, x) of each row, if the features do not capture all of it and it is not 1."""
    kernel = feature_map.projected_kernel
    return None if kernel is None or kernel.has_unit_diagonal else kernel.diag(fingerprints)


def _refusal(
    error: InputError, numbers: npt.NDArray[np.int64], describe: Callable[[npt.NDArray[np.int64]], pa.Table]
) -> InputError:
    """Return a map's error about one row of a block, with the molecule in place of the row number."""
    text = str(error)
    match = ROW.search(text)
    if match is None or int(match[2]) >= len(numbers):
        return error
    number = numbers[int(match[2])]
    molecule = describe(np.array([number])).to_pylist()[0]
    smiles, what = molecule["smiles"], text[match.end() :]
    shown = smiles if len(smiles) <= _SHOWN else f"{smiles[:_SHOWN]}..."
    if "norm_range" in what:  # the map's own advice is for maps that are not part of a model yet
        what = what.partition(";")[0] + _WAY_OUT
    return InputError(
        f"{text[: match.start()]}{match[1]} {number:,} of the library, from 0 ({shown}, ID {molecule['id']}, "
        f"line {molecule['line']:,} of {molecule['source']}){what}"
    )


def gathered(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """Yield blocks joined to at least `rows` rows, except the last: engines are slow on small blocks."""
    held: list[Block] = []
    for block in blocks:
        held.append(block)
        del block  # or it would stay in memory until the next one arrives
        if sum(len(b.rows) for b in held) >= rows:
            yield _joined(held)
    if held:
        yield _joined(held)


def _joined(held: list[Block]) -> Block:
    """Return the blocks joined into one, and empty the list: each block is freed once it is copied."""
    if len(held) == 1:
        return held.pop()
    rows = np.concatenate([block.rows for block in held])
    parts = [block.diagonal for block in held if block.diagonal is not None]
    diagonal = np.concatenate(parts) if parts else None
    phi = np.empty((len(rows), held[0].phi.shape[1]), held[0].phi.dtype)
    start = 0
    while held:
        piece = held.pop(0).phi
        phi[start : start + len(piece)] = piece
        start += len(piece)
    return Block(rows, phi, diagonal)


@dataclass(frozen=True)
class StoreSource(Source):
    """Features from a store, which has a record of its rows."""

    kind: ClassVar[type[RowStore]]

    @property
    def store(self) -> Any:
        """The store."""
        return opened(self.kind, self.path, self.spec_hash)

    @property
    def partition_rows(self) -> list[int]:
        return planned_rows(self.store)

    @property
    def library_hash(self) -> str:
        return self.store.library_hash

    @property
    def row_bounds(self) -> npt.NDArray[np.int64]:
        return self.store.row_bounds

    def describe(self, partition: int, rows: npt.NDArray[np.int64]) -> pa.Table:
        table = self.store.read_rows(partition)
        return table.take(pa.array(positions(table["row"].to_numpy(), rows)))

    def every(self, partition: int) -> EveryRow:
        """For rows that the store left out, the row number and perhaps the reason are known."""
        table = self.store.read_rows(partition)
        low, high = self.row_bounds[partition : partition + 2].tolist()
        lost = np.setdiff1d(np.arange(low, high), table["row"].to_numpy(), assume_unique=True)
        rejects = self._left_out(partition)
        rejects = rejects.filter(pc.is_in(rejects["row"], pa.array(lost)))
        unknown = np.setdiff1d(lost, rejects["row"].to_numpy(), assume_unique=True)
        more = {"row": unknown, "reason": [_LEFT_OUT] * len(unknown)}
        rejects = pa.concat_tables([rejects, _with_gaps(more, REJECT_SCHEMA)]).sort_by("row")
        rows = {"row": lost, "id": [f"row-{row}" for row in lost.tolist()]}
        whole = pa.concat_tables([table, _with_gaps(rows, table.schema)])
        order = pa.array(np.argsort(whole["row"].to_numpy(), kind="stable"))
        reasons = dict(zip(rejects["row"].to_pylist(), rejects["reason"].to_pylist(), strict=True))
        return EveryRow(whole.take(order), [reasons.get(row) for row in range(low, high)], rejects)

    def _left_out(self, partition: int) -> pa.Table:
        """Return the rows of a partition that the store left out, as far as they are recorded."""
        return REJECT_SCHEMA.empty_table()


def _with_gaps(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """Return a table of a schema with some columns given, and null in the others."""
    n_rows = len(next(iter(columns.values())))
    arrays = [
        pa.array(columns[column.name], column.type)
        if column.name in columns
        else pa.nulls(n_rows, column.type)
        for column in schema
    ]
    return pa.table(arrays, schema=schema)


@dataclass(frozen=True)
class FingerprintSource(StoreSource):
    """Features made on the fly from a fingerprint store; nothing is stored.

    With `predicts`, only the features needed for predictions are made: if a map has blocks of features, only
    the block for each row.
    """

    predicts: bool = False

    kind = FingerprintStore

    @classmethod
    def of(
        cls,
        store: FingerprintStore,
        feature_map: FeatureMap | None,
        bits: bool | None = None,
        *,
        predicts: bool = False,
    ) -> FingerprintSource:
        """Return the source of `store` under `feature_map`; by default with bits if the map has them."""
        if feature_map is None:
            return cls(absolute(store.path), store.spec_hash, False)
        bits = feature_map.one_bit if bits is None else bits
        reference = MapReference.of(feature_map.state())
        return cls(absolute(store.path), store.spec_hash, bits, reference, predicts)

    def blocks(self, partition: int, rows: npt.NDArray[np.int64] | None = None) -> Iterator[Block]:
        yield from feature_blocks(
            None if self.raw else self.feature_map,
            row_numbers(self.store, partition),
            self.store.read_fingerprints(partition),
            rows,
            bits=self.bits,
            predicts=self.predicts,
            describe=functools.partial(self.describe, partition),
        )

    def _left_out(self, partition: int) -> pa.Table:
        return self.store.read_rejects(partition)

    @property
    def table_bytes(self) -> int:
        return 0 if self.raw else self.feature_map.table_bytes(self.store.n_columns)

    @property
    def nonzeros(self) -> int:
        return most_nonzeros(self.store)

    @property
    def seconds_per_row(self) -> float:
        """The cost given by the map."""
        if self.raw:
            return READ_SECONDS
        made = self.feature_map.block_size if self.predicts else self.feature_map.n_components
        return self.feature_map.seconds_per_component * made


@dataclass(frozen=True)
class FeatureSource(StoreSource):
    """Features read from a feature store.

    With `with_fingerprints`, fingerprints are made again from the SMILES of the rows.
    """

    with_fingerprints: bool = False

    kind = FeatureStore
    raw = False

    @classmethod
    def of(cls, store: FeatureStore, bits: bool | None = None) -> FeatureSource:
        """Return the source of `store`: blocks as stored, unless floats are requested for stored bits."""
        return cls(absolute(store.path), store.spec_hash, store.spec["dtype"] == "bits" and bits is not False)

    @property
    def feature_map(self) -> FeatureMap:
        return rebuild(self.store.spec["map"])

    def blocks(self, partition: int, rows: npt.NDArray[np.int64] | None = None) -> Iterator[Block]:
        store, start = self.store, 0
        kept_rows = row_numbers(store, partition)
        whole = store.read_diagonal(partition) if store.spec["diagonal"] else None
        chosen = None if rows is None else np.isin(kept_rows, rows, assume_unique=True)
        for phi in store.blocks(partition):
            span = slice(start, start + len(phi))
            start = span.stop
            block = Block(kept_rows[span], phi, None if whole is None else whole[span])
            if chosen is not None:
                block = block.where(chosen[span])
            if self.with_fingerprints and len(block.rows):
                block = replace(block, fingerprints=self._fingerprints(partition, block.rows))
            if len(block.rows):
                floats = None if self.bits else as_features(block.phi, store.n_components, np.float32)
                yield block if floats is None else replace(block, phi=floats)

    def _fingerprints(self, partition: int, rows: npt.NDArray[np.int64]) -> sparse.csr_matrix:
        """Return the fingerprints of some rows, from their SMILES."""
        table, spec = self.store.read_rows(partition, ["row", "smiles"]), self.store.spec
        smiles = table["smiles"].take(pa.array(positions(table["row"].to_numpy(), rows))).to_pylist()
        counted = Fingerprinter(FingerprintSpec.from_state(spec["fingerprint"]), spec["fragments"])(smiles)
        if counted.rejects:
            bad, reason = counted.rejects[0]
            raise InputError(
                f"The molecule of row {rows[bad]:,} ({smiles[bad][:_SHOWN]}) has features in {self.path}, "
                f"but no fingerprint any more: {reason}; give the fingerprint store in place of the features."
            )
        return counted.fingerprints

    @property
    def table_bytes(self) -> int:
        """Tables are not made."""
        return 0

    @property
    def nonzeros(self) -> int:
        return 0

    @property
    def seconds_per_row(self) -> float:
        """The cost of reading from a disk, and of fingerprints if they are made again."""
        return READ_SECONDS + FINGERPRINT_SECONDS * self.with_fingerprints


def planned_rows(store: RowStore) -> list[int]:
    """Return the planned number of rows of each partition of a store."""
    return [store.partition_rows(p) for p in range(store.n_partitions)]


def making_of(source: Source) -> Making:
    """Return the memory parameters for making the features of a source's largest partition or batch."""
    rows = max(source.partition_rows, default=0)
    if source.raw:
        batch_rows = rows if isinstance(source, StoreSource) else min(rows, BATCH_ROWS)
        return Making(1, batch_rows, True, nonzeros=source.nonzeros)
    feature_map = source.feature_map
    return Making(
        feature_map.n_components,
        rows if isinstance(source, StoreSource) else min(rows, BATCH_ROWS),
        source.bits,
        SumsShape.of(feature_map),
        source.nonzeros,
        source.table_bytes,
        source.usual_nonzeros,
    )


def most_nonzeros(store: FingerprintStore) -> int:
    """Return the most non-zeros of any partition of a fingerprint store, from its commit records."""
    return max((record.counts.get("nonzeros", 0) for record in store.records().values()), default=0)


def row_numbers(store: RowStore, partition: int) -> npt.NDArray[np.int64]:
    """Return the global numbers of a partition's kept rows, ascending."""
    return store.read_rows(partition, ["row"])["row"].to_numpy()


def positions(kept_rows: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the positions in the ascending `kept_rows` of those sorted `rows` that it contains."""
    return np.flatnonzero(np.isin(kept_rows, rows, assume_unique=True))


def check_map(feature_map: FeatureMap, n_columns: int) -> None:
    """Refuse a map that does not support fingerprints with this many columns, before starting an output.

    Raises
    ------
    InputError
        If a parameter of the map is invalid, or there are too many columns.
    """
    if undecided(feature_map):
        raise InputError(UNLEARNED if undecided(feature_map, "metric") else UNDECIDED)
    clone(feature_map).fit(None)
    feature_map.check_columns(n_columns)
    if feature_map.learns_from != "nothing" and feature_map.is_fitted():
        feature_map.transform(sparse.csr_matrix((0, n_columns), dtype=np.uint16))


def map_for(feature_map: FeatureMap, spec: FingerprintSpec, fold: int | None = None) -> FeatureMap:
    """Return the map to use on fingerprints: the given one, or one that leaves out or folds columns first.

    Descriptors beside other kinds are left out, unless the map or its kernel is a mean. With `fold`, each
    kind is folded to that many columns. Without it, unfolded fingerprints are folded to 2,048 columns a kind
    if the map does not support them unfolded but does support them folded.

    Raises
    ------
    InputError
        If a parameter of the map is invalid, or it cannot be combined with `fold` or with descriptors; as an
        OptionError, if the fingerprints are folded already.
    """
    clone(feature_map).fit(None)
    if isinstance(feature_map, FoldedFeatures) and fold in (None, feature_map.size):
        return feature_map
    if spec.n_structural is not None:
        feature_map = map_on_first(feature_map, spec.n_structural)
    if fold is None:
        if spec.size or _serves(feature_map, spec.n_columns):
            return feature_map
        folded = FoldedFeatures.of(feature_map, _FOLDED, spec.hashed, not spec.counts)
        return folded if _serves(folded, spec.n_columns) else feature_map
    if spec.size:
        raise OptionError(
            f"--fold is for unfolded fingerprints, but these are folded already, to {spec.size:,} columns a "
            "kind; leave it out."
        )
    if isinstance(feature_map, FoldedFeatures):
        raise OptionError(f"--fold is {fold:,}, but the map folds to {feature_map.size:,}; leave it out.")
    return FoldedFeatures.of(feature_map, fold, spec.hashed, not spec.counts)


def _serves(feature_map: FeatureMap, n_columns: int) -> bool:
    try:
        clone(feature_map).fit(None)
        feature_map.check_columns(n_columns)
    except InputError:
        return False
    return True


def folding_words(source: Source) -> str:
    """Return a line for reports on a map that folds fingerprints as they are read; empty for other maps."""
    if source.raw or isinstance(source, FeatureSource) or not isinstance(source.feature_map, FoldedFeatures):
        return ""
    return (
        f"fingerprints are folded to {source.feature_map.size:,} columns a kind as they are read "
        "(--fold N sets another number)"
    )


def check_map_for(
    feature_map: FeatureMap | None, source: str | os.PathLike[str], fold: int | None = None
) -> None:
    """If `source` is a fingerprint store, refuse a map that does not support it, before workers start.

    The map is first replaced as by `map_for`.

    Raises
    ------
    InputError
        As :func:`check_map`.
    """
    store = find_library(as_path(source))
    if isinstance(store, FingerprintStore):
        check_map(map_for(feature_map or default_map(), _spec_of(store), fold), store.n_columns)


def _spec_of(store: FingerprintStore) -> FingerprintSpec:
    with as_damage("the fingerprints of a store"):
        return FingerprintSpec.from_state(store.spec["fingerprint"])


def open_source(
    store: FeatureStore | FingerprintStore,
    feature_map: FeatureMap | None = None,
    bits: bool | None = None,
    *,
    predicts: bool = False,
    raw: bool = False,
    fold: int | None = None,
) -> FeatureSource | FingerprintSource:
    """Return the source of a feature store, or of a fingerprint store under a map.

    The default map is `default_map()`. A map may be replaced by one that folds fingerprints first, to `fold`
    columns a kind; see `map_for`. With `raw`, blocks hold the fingerprints themselves. `bits=False` requests
    floats even for one-bit maps. With `predicts`, if features are made, only those that predictions need are.
    A map that is not fitted yet matches a feature store whose map was fitted from it.

    Raises
    ------
    InputError
        If a feature store was made with another map, or the map does not support the fingerprints.
    StoreError
        If there is no such store, or it is incomplete.
    """
    if feature_map is not None:
        check_feature_map(feature_map)
    if isinstance(store, FeatureStore):
        if raw:
            raise InputError(
                f"{store.path} holds features, but an exact process takes fingerprints; give the fingerprint "
                "store."
            )
        if fold is not None:
            raise OptionError(f"--fold is for fingerprints, and {store.path} holds features; leave it out.")
        if feature_map is not None and not agrees(_as_stored(feature_map, store), store.spec["map"]):
            raise InputError(
                f"{store.path} holds {map_words(store.spec['map'])}, but another map is needed here, "
                f"{map_words(feature_map.state())}; give the fingerprint store in its place."
            )
        store.require_complete()
        features = FeatureSource.of(store, bits)
        features.feature_map.check_dtype(store.spec["dtype"])
        return features
    store.require_complete()
    if raw:
        return FingerprintSource.of(store, None)
    feature_map = map_for(feature_map or default_map(), _spec_of(store), fold)
    check_map(feature_map, store.n_columns)
    return FingerprintSource.of(store, feature_map, bits, predicts=predicts)


def _as_stored(feature_map: FeatureMap, store: FeatureStore) -> FeatureMap:
    """Return the map as the store would hold it: without descriptors, and with the store's folding."""
    stored = rebuild(store.spec["map"])
    with as_damage("the fingerprints of a store"):
        spec = FingerprintSpec.from_state(store.spec["fingerprint"])
    return map_for(feature_map, spec, stored.size if isinstance(stored, FoldedFeatures) else None)
