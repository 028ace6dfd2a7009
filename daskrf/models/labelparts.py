"""Join more labels to a library than one process can hold: by parts of their keys, on the workers.

The labels are read in segments of their file, and the keys of the library in groups of its partitions. Both
are divided by a hash of the key, so that equal keys meet in one part. The labels of a part are attached to
rows as those of a small file are, and written by ranges of rows. At last the ranges are put together in the
order of the library: the arrays, the counts and the notes are those of a join in one process. Each step
leaves a store whose partitions have commit records, in the work folder of the job, and a second run goes on
there.

Memory is that of the labels of a segment, a part or a range. Only the look for labels that are probably wrong
takes all values of one target, in one task.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from daskrf.documents import JsonObject
from daskrf.errors import InputError, StoreError
from daskrf.files.backend import absolute
from daskrf.files.disk import file_errors
from daskrf.jobs.job import Disk, Need, Run
from daskrf.jobs.memory import MIB, ROW_BYTES, MemoryNeed, peak
from daskrf.jobs.pieces import Maker, Partitions, group_by_rows, opened, submit
from daskrf.jobs.shards import Shard, Share
from daskrf.measurements import LabelFile
from daskrf.measurements.blocks import CutRowError, Seen, label_blocks
from daskrf.measurements.doubts import Doubts, SeenValues, doubts_of, notes_on_labels
from daskrf.measurements.keys import MarkedKeys, marked_among, notes_on_keys
from daskrf.measurements.labeltable import LabelTable
from daskrf.measurements.tally import FarLimit, Tally
from daskrf.molecules.radicals import Radicals
from daskrf.seeds import splitmix64
from daskrf.sources.sources import planned_rows
from daskrf.storage.integrity import parsed
from daskrf.storage.labels import (
    Attached,
    JoinCounts,
    RowLabels,
    absent_keys,
    check_matches,
    first_rows,
    library_keys,
)
from daskrf.storage.stores.rowstore import RowStore
from daskrf.storage.stores.store import CommitRecord, Store, hash_of
from daskrf.tables.formats import BATCH_ROWS, Segment
from daskrf.tables.keytable import TEXT, HashTable, hashes_of
from daskrf.tables.scanning import segments_of
from daskrf.tables.spool import Spool
from daskrf.workers.execution import Task

KEYS_IN_PARTS = ("id", "smiles", "inchikey", "row")
"""Keys that can be divided by a hash; structures are compared with those of the labels, all in one place."""

# Of the file of labels, and labels of a part of their keys. Blocks of rows are those of the whole file, so
# that what is left out is named in the same order.
SEGMENT_ROWS = 200 * BATCH_ROWS
GROUP_ROWS = 1 << 22  # of the library, read by one task
_RANGE_ROWS, _MOST_RANGES = 1 << 21, 128  # rows of the library that are put in order at once
_AT_ONCE = 1 << 19  # labels, or rows of the library, divided at once
_READ_SECONDS, _LIBRARY_SECONDS, _JOIN_SECONDS = 4e-6, 1e-6, 1e-6  # a row
_FACTS = "facts.json"
_ADVICE = "run the same command again, which makes it anew"


@dataclass(frozen=True)
class Surveyed:
    """A file of labels that was read once.

    Attributes
    ----------
    identity : str
        Hash of the file, of how it is read, and of the library.
    n_rows : int
    index : list of int
        As `daskrf.tables.scanning.survey` returns it.
    spool : Spool or None
        Where the rows of a compressed file are.
    """

    identity: str
    n_rows: int
    index: list[int]
    spool: Spool | None


@dataclass(frozen=True)
class Division:
    """How labels and library are divided.

    Attributes
    ----------
    segments : list of Segment, or None
        Of the file of labels; None: it is read from end to end by one task.
    n_ways : int
        Parts of the keys.
    groups : list of tuple of int
        Partitions of the library that are read together.
    range_rows : int
        Rows of the library that are put in order at once.
    """

    segments: list[Segment] | None
    n_ways: int
    groups: list[tuple[int, ...]]
    range_rows: int

    @classmethod
    def of(cls, store: RowStore, n_rows: int, index: list[int]) -> Division:
        """Divide a file of `n_rows` labels, and the library."""
        rows = list(enumerate(planned_rows(store)))
        n_library = int(store.row_bounds[-1])
        return cls(
            segments_of(n_rows, index, SEGMENT_ROWS),
            max(1, -(-n_rows // SEGMENT_ROWS)),
            group_by_rows(rows, GROUP_ROWS),
            range_rows_of(n_library),
        )


@dataclass(frozen=True)
class Library:
    """A store of rows that labels are joined to, as tasks carry it."""

    kind: type[RowStore]
    path: str
    spec_hash: str

    @classmethod
    def of(cls, store: RowStore) -> Library:
        """Return the library that is a store."""
        return cls(type(store), absolute(store.path), store.spec_hash)

    @property
    def store(self) -> RowStore:
        """The store."""
        return opened(self.kind, self.path, self.spec_hash)


Column: TypeAlias = np.ndarray | pa.Array
"""A column of a table of labels."""


@dataclass(frozen=True)
class Parts:
    """A store of labels or keys in parts: a file for each part of the keys, or range of rows, and facts."""

    path: str
    spec_hash: str

    @classmethod
    def create(cls, path: PurePath, spec: Mapping[str, object], n_partitions: int) -> Parts:
        """Make the store, or go on with it."""
        return cls(absolute(path), Store.create(path, "labels", dict(spec), n_partitions).spec_hash)

    @property
    def store(self) -> Store:
        """The store."""
        return opened(Store, self.path, self.spec_hash)

    def write(
        self, p: int, files: Mapping[str, Path], folder: Path, facts: Mapping[str, object]
    ) -> CommitRecord:
        """Record a partition with its files, staged in `folder`, and its facts."""
        (folder / _FACTS).write_text(json.dumps(facts))
        place = self.store.partition_path(p)
        staged = {place / name: path for name, path in {**files, _FACTS: folder / _FACTS}.items()}
        return self.store.publish(p, staged, {})

    def facts(self, p: int) -> JsonObject:
        """Return the facts of a partition."""
        facts: JsonObject = parsed(self._read(p, _FACTS) or b"{}")
        return facts

    def read(self, p: int, name: str, columns: Sequence[str] | None = None) -> pa.Table | None:
        """Return a table of a partition, or None if it has none of this name."""
        data = self._read(p, f"{name}.parquet")
        return None if data is None else pq.read_table(pa.BufferReader(data), columns=columns)

    def _read(self, p: int, name: str) -> bytes | None:
        store = self.store
        record, path = store.record(p), f"data/{store.partition_name(p)}/{name}"
        if all(item.path != path for item in record.objects):
            return None
        with file_errors("read", store.path):
            try:
                return record.read(store.path, path)
            except ValueError as error:
                raise StoreError(f"{store.path} is damaged ({error}); delete it, and {_ADVICE}") from None


class Divider:
    """Writes the rows of tables to one file for each part of their keys, some hundred thousand at a time."""

    def __init__(self, folder: Path, n_ways: int, stack: ExitStack) -> None:
        self._folder, self._n_ways, self._stack = folder, n_ways, stack
        self._tables: list[pa.Table] = []
        self._others: dict[str, list[pa.Table]] = {}
        self._n = 0
        self._writers: dict[str, pq.ParquetWriter] = {}

    @property
    def files(self) -> dict[str, Path]:
        """The files by name; they are complete once the stack is closed."""
        return {f"{name}.parquet": self._folder / name for name in self._writers}

    def append(self, table: pa.Table) -> None:
        """Add rows with hashes in the columns low and high."""
        self._tables.append(table)
        self._n += table.num_rows
        if self._n >= _AT_ONCE:
            self.flush()

    def put(self, name: str, table: pa.Table) -> None:
        """Add rows of another table, which stay together in one file."""
        self._others.setdefault(name, []).append(table)

    def flush(self) -> None:
        """Write what has been added."""
        for name, tables in self._others.items():
            self._write(name, pa.concat_tables(tables).combine_chunks())
        self._others = {}
        if not self._n:
            return
        table = pa.concat_tables(self._tables).combine_chunks()
        self._tables, self._n = [], 0
        low, high = (table[name].to_numpy() for name in ("low", "high"))
        # The words of a row number are the number and 0: neither alone divides all keys evenly.
        way = (splitmix64(low ^ high) % np.uint64(self._n_ways)).astype(np.int64)
        order = np.argsort(way, kind="stable")
        table, ends = table.take(pa.array(order)), np.searchsorted(way[order], np.arange(self._n_ways + 1))
        for k in np.flatnonzero(np.diff(ends)).tolist():
            self._write(f"part-{k}", table.slice(int(ends[k]), int(ends[k + 1] - ends[k])))

    def _write(self, name: str, table: pa.Table) -> None:
        if name not in self._writers:
            texts = [field.name for field in table.schema if pa.types.is_large_string(field.type)]
            writer = pq.ParquetWriter(
                self._folder / name,
                table.schema,
                compression={
                    field.name: "zstd" if field.name not in ("low", "high") else "none"
                    for field in table.schema
                },
                use_dictionary=False,
                column_encoding=dict.fromkeys(texts, "DELTA_LENGTH_BYTE_ARRAY") or None,
            )
            self._writers[name] = self._stack.enter_context(writer)
        self._writers[name].write_table(table)


def _hashed(keys: pa.Array, **columns: Column) -> pa.Table:
    """Return the hashes of keys and further columns as a table."""
    hashes = hashes_of(keys)
    return pa.table({"low": hashes[:, 0].copy(), "high": hashes[:, 1].copy(), **columns})


@dataclass(frozen=True)
class ReadLabels(Maker):
    """Reads segments of a file of labels, and divides the labels by their keys."""

    parts: Parts
    table: LabelTable
    segments: list[Segment] | None
    n_ways: int
    spool: Spool | None

    name = "labels"
    seconds_per_row = _READ_SECONDS

    @property
    def path(self) -> str:
        return self.parts.path

    def make(self, partition: int) -> CommitRecord:
        """Write the labels of a segment; one that may not be left out is among the facts."""
        tally = Tally(self.table)
        with self.parts.store.staging(partition) as folder, file_errors("write", folder):
            with ExitStack() as stack:
                divider = Divider(folder, self.n_ways, stack)
                facts = {"cut": False, "refusal": ""}
                try:
                    self._read(partition, tally, divider)
                except CutRowError:
                    facts["cut"] = True
                except InputError as error:
                    if error.errno is not None:
                        raise
                    facts["refusal"] = str(error)
            record = self.parts.write(partition, divider.files, folder, {**facts, "tally": tally.state()})
        pa.default_memory_pool().release_unused()
        return record

    def _read(self, partition: int, tally: Tally, divider: Divider) -> None:
        """Divide the labels of a segment, and write the values that are judged in the order of the file."""
        segment, n = None if self.segments is None else self.segments[partition], 0
        is_last = self.segments is None or partition == len(self.segments) - 1
        for block in label_blocks(self.table, tally, segment, self.spool, is_last=is_last):
            columns: dict[str, Column] = {"at": n + np.arange(len(block.keys))}
            if self.table.reading.key != "row":
                columns["key"] = block.keys
            for t in range(block.y.shape[1]):
                columns |= {f"y{t}": block.y[:, t].copy(), f"side{t}": block.side[:, t].copy()}
            if block.times is not None:
                columns["times"] = block.times
            divider.append(_hashed(block.keys, **columns))
            n += len(block.keys)
            for t, seen in enumerate(block.seen):
                judged = {"line": seen.lines, "y": seen.y}
                if seen.values is not None:
                    judged["value"] = seen.values
                divider.put(f"seen-{t}", pa.table(judged))
        divider.flush()


@dataclass(frozen=True)
class ReadLibrary(Maker):
    """Reads the keys of groups of partitions of a library, and divides its rows by them."""

    parts: Parts
    library: Library
    key: str
    groups: list[tuple[int, ...]]
    n_ways: int

    name = "keys"
    seconds_per_row = _LIBRARY_SECONDS

    @property
    def path(self) -> str:
        return self.parts.path

    def make(self, partition: int) -> CommitRecord:
        """Write the keys of a group."""
        store, kind = self.library.store, pa.int64() if self.key == "row" else TEXT
        with self.parts.store.staging(partition) as folder, file_errors("write", folder):
            with ExitStack() as stack:
                divider = Divider(folder, self.n_ways, stack)
                for rows, keys in library_keys(self.key, kind, store, self.groups[partition]):
                    if keys.null_count:
                        there = keys.is_valid()
                        rows, keys = rows[there.to_numpy(zero_copy_only=False)], keys.filter(there)
                    divider.append(_hashed(keys, row=rows))
                divider.flush()
            record = self.parts.write(partition, divider.files, folder, {})
        pa.default_memory_pool().release_unused()
        return record


@dataclass(frozen=True)
class JoinPart(Maker):
    """Attaches the labels of one part of the keys to rows of the library."""

    parts: Parts
    labels: Parts
    library: Parts
    n_groups: int
    starts: list[int]
    table: LabelTable
    range_rows: int

    name = "join"
    seconds_per_row = _JOIN_SECONDS

    @property
    def path(self) -> str:
        return self.parts.path

    def make(self, partition: int) -> CommitRecord:
        """Write the labels that are in the library by ranges of its rows; count all."""
        name = f"part-{partition}"
        labels = self._labels(name)
        hashes = np.column_stack([labels.pop("low"), labels.pop("high")])
        place = labels.pop("at")
        keys = HashTable.of(hashes)
        matches = first_rows(keys.n_keys, self._numbers(name, keys))
        keys = keys.closed()
        firsts = place[np.unique(keys.number, return_index=True)[1]]
        absent = absent_keys(matches, firsts, lambda numbers: self._keys_at(name, firsts[numbers]))
        counts = JoinCounts.of(matches, absent)
        marked = marked_among((key for _, key in self._first_keys(name, firsts)), self.table.reading.key)
        at = marked.radicals.place
        attached = Attached.of(matches.first_row, keys.number)
        facts = {
            "matched": len(attached.row),
            "counts": vars(counts),
            "marked": asdict(marked),
            "radical": int(firsts[at]) if at >= 0 else -1,
        }
        del keys, matches, hashes
        with self.parts.store.staging(partition) as folder, file_errors("write", folder):
            files = {}
            ranges = attached.row // self.range_rows
            starts = np.flatnonzero(np.diff(ranges, prepend=-1))
            for start, stop in pairwise([*starts.tolist(), len(ranges)]):
                order = attached.order[start:stop]
                columns = {"row": attached.row[start:stop], "place": place[order]}
                columns |= {column: values[order] for column, values in labels.items()}
                file = f"range-{ranges[start]}.parquet"
                files[file] = folder / file
                pq.write_table(pa.table(columns), files[file], compression="zstd", use_dictionary=False)
            record = self.parts.write(partition, files, folder, facts)
        pa.default_memory_pool().release_unused()
        return record

    def _labels(self, name: str) -> dict[str, np.ndarray]:
        """Return hashes, places in the file, and the columns of labels, in their order there."""
        columns = {"low": np.uint64, "high": np.uint64, "at": np.int64, **label_columns(self.table)}
        tables = []
        for p, start in enumerate(self.starts):
            if (table := self.labels.read(p, name, list(columns))) is not None:
                at = pa.array(table["at"].to_numpy() + start)
                tables.append(table.set_column(2, "at", at))
        if not tables:
            return {column: np.zeros(0, dtype) for column, dtype in columns.items()}
        table = pa.concat_tables(tables)
        return {column: table[column].to_numpy() for column in columns}

    def _numbers(self, name: str, keys: HashTable) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows of the library and the numbers of their keys."""
        for p in range(self.n_groups):
            if (table := self.library.read(p, name)) is not None:
                hashes = np.column_stack([table["low"].to_numpy(), table["high"].to_numpy()])
                yield table["row"].to_numpy(), keys.find(hashes)

    def _first_keys(self, name: str, firsts: np.ndarray) -> Iterator[tuple[int, str]]:
        """Yield places and keys of the labels at some ascending places in the file."""
        column = "low" if self.table.reading.key == "row" else "key"
        for p, start in enumerate(self.starts):
            if (table := self.labels.read(p, name, ["at", column])) is not None:
                yield from _chosen(table["at"].to_numpy() + start, table[column], firsts)

    def _keys_at(self, name: str, places: np.ndarray) -> list[str]:
        """Return the keys of the labels at some ascending places in the file."""
        return [str(key) for _, key in self._first_keys(name, places)] if len(places) else []


def _chosen(places: np.ndarray, keys: pa.ChunkedArray, chosen: np.ndarray) -> Iterator[tuple[int, str]]:
    at = np.flatnonzero(np.isin(places, chosen, assume_unique=True))
    return zip(places[at].tolist(), keys.take(pa.array(at)).to_pylist(), strict=True)


def label_columns(table: LabelTable) -> dict[str, npt.DTypeLike]:
    """Return names and dtypes of the columns of labels in parts.

    A limit stands in the column of values, and has a side of 1 or -1.
    """
    columns: dict[str, npt.DTypeLike] = {}
    for t in range(len(table.targets)):
        columns |= {f"y{t}": np.float64, f"side{t}": np.int8}
    return columns | ({"times": np.int64} if table.gives_times else {})


@dataclass(frozen=True)
class PartedJoin:
    """The labels of a file attached to a library, in parts that are still to be put in order.

    Attributes
    ----------
    file : LabelFile
    counts : JoinCounts
    elsewhere : str
        As in `JoinedLabels`.
    n_matched : int
        Labels whose key is in the library.
    """

    parts: Parts
    library: Library
    table: LabelTable
    file: LabelFile
    n_ways: int
    range_rows: int
    counts: JoinCounts
    elsewhere: str
    n_matched: int

    def blocks(self) -> Iterator[RowLabels]:
        """Yield the labels in the order of the library, and count them."""
        n_rows = int(self.library.store.row_bounds[-1])
        targets = range(len(self.table.targets))
        for k in range(-(-n_rows // self.range_rows)):
            read = (self.parts.read(q, f"range-{k}") for q in range(self.n_ways))
            if not (tables := [table for table in read if table is not None]):
                continue
            table = pa.concat_tables(tables)
            del tables
            row, place = table["row"].to_numpy(), table["place"].to_numpy()
            order = np.lexsort([place, row])
            columns = {name: table[name].to_numpy()[order] for name in label_columns(self.table)}
            y, side = (np.column_stack([columns[f"{what}{t}"] for t in targets]) for what in ("y", "side"))
            labels = RowLabels.of(row[order], y, side if self.file.has_limits else None)
            self.counts.see(labels, columns.get("times"))
            yield labels

    def key_of(self, row: int) -> str:
        """Return the key of a row of the library."""
        store = self.library.store
        p = int(np.searchsorted(store.row_bounds, row, side="right")) - 1
        kind = pa.int64() if self.file.key == "row" else TEXT
        ((rows, keys),) = library_keys(self.file.key, kind, store, [p])
        return str(keys[int(np.searchsorted(rows, row))])


def join_in_parts(
    run: Run, table: LabelTable, store: RowStore, surveyed: Surveyed, folder: PurePath
) -> PartedJoin:
    """Join labels to a library by parts of their keys, on the workers of a run.

    Parameters
    ----------
    run : Run
    table : LabelTable
    store : RowStore
        A complete store.
    surveyed : Surveyed
        What is known of the file.
    folder : Path
        Where the parts are kept; a second run goes on there.

    Raises
    ------
    InputError
        As `daskrf.measurements.read_labels`, and if no label is in the library.
    """
    division = Division.of(store, surveyed.n_rows, surveyed.index)
    library, carried = Library.of(store), table.carried()
    run.check(need_of_parts(surveyed.n_rows, len(table.targets), store, folder))
    labels, facts, division = _read_all(run, carried, surveyed, division, folder)
    tally, starts = Tally(table), [0]
    for each in facts:
        tally.merge(each["tally"])
        starts.append(tally.n_labels)
    file = tally.described(notes_on_labels(table, _all_doubts(run, labels, carried, tally, starts)))
    spec = {"labels": surveyed.identity, "ways": division.n_ways, "groups": division.groups}
    keys = Parts.create(folder / "keys", {**spec, "step": "keys"}, len(division.groups))
    reading = ReadLibrary(keys, library, file.key, division.groups, division.n_ways)
    rows = planned_rows(store)
    _make(run, reading, [sum(rows[p] for p in group) for group in division.groups])
    spec = {**spec, "starts": starts, "range_rows": division.range_rows, "step": "joined"}
    parts = Parts.create(folder / "joined", spec, division.n_ways)
    join = JoinPart(parts, labels, keys, len(division.groups), starts[:-1], carried, division.range_rows)
    _make(run, join, [-(-tally.n_labels // division.n_ways)] * division.n_ways)
    counts, marked, n_matched = _counted(parts, division.n_ways)
    file = replace(file, notes=file.notes + notes_on_keys(marked))
    elsewhere = check_matches(file, store, counts)
    return PartedJoin(
        parts=parts,
        library=library,
        table=carried,
        file=file,
        n_ways=division.n_ways,
        range_rows=division.range_rows,
        counts=counts,
        elsewhere=elsewhere,
        n_matched=n_matched,
    )


def _read_all(
    run: Run, table: LabelTable, surveyed: Surveyed, division: Division, folder: PurePath
) -> tuple[Parts, list[JsonObject], Division]:
    """Read all segments; return them, their facts, and how the labels are divided in the end."""
    while True:
        whole = division.segments is None
        n_segments = 1 if division.segments is None else len(division.segments)
        spec = {"labels": surveyed.identity, "ways": division.n_ways, "segments": n_segments}
        parts = Parts.create(folder / ("whole" if whole else "labels"), spec, n_segments)
        maker = ReadLabels(parts, table, division.segments, division.n_ways, surveyed.spool)
        rows = [each.n_rows for each in division.segments or ()] or [surveyed.n_rows]
        _make(run, maker, rows)
        facts = [parts.facts(p) for p in range(n_segments)]
        # What comes behind a row that was cut is not what the file says.
        first = next((each for each in facts if each["cut"] or each["refusal"]), None)
        if first is None:
            return parts, facts, division
        if not first["cut"]:
            raise InputError(first["refusal"])
        run.progress.note("Rows of the labels have line breaks within quotes, so one task reads all of them.")
        division = replace(division, segments=None)


class _PartsMaker(Maker, Protocol):
    """Makes a partition of parts of labels."""

    @property
    def parts(self) -> Parts: ...


def _make(run: Run, maker: _PartsMaker, rows: list[int]) -> None:
    """Make all partitions of a step; shards that run at once may all make them."""
    share = run.share if run.share.whole else Share(Shard(0, 1))
    Partitions(maker, maker.parts.store, rows).make(share, run.client, run.progress)


def _all_doubts(run: Run, labels: Parts, table: LabelTable, tally: Tally, starts: list[int]) -> list[Doubts]:
    """Return which labels of each target are probably wrong."""
    doubts: dict[int, Doubts] = {}
    n = starts[-1]
    name = hash_of([labels.path, labels.spec_hash])[:16]
    tasks = [
        Task(f"daskrf-doubts-{name}-{t}", (labels, len(starts) - 1, table, target.farthest, t), n)
        for t, target in enumerate(tally.targets)
    ]
    run.progress.start("judge labels", n * len(tasks), "labels")
    submit(
        _doubts_of,
        tasks,
        run.client,
        run.progress,
        lambda task, each: doubts.update({task.arguments[-1]: each}),
    )
    run.progress.finish()
    return [doubts[t] for t in range(len(tasks))]


def _doubts_of(
    labels: Parts, n_segments: int, table: LabelTable, limits: tuple[FarLimit, ...], t: int
) -> Doubts:
    """Return which labels of one target are probably wrong, judged by all of them."""
    values = SeenValues(table, t, alone=True)
    for seen in _seen(labels, n_segments, t):
        values.append(seen)
        del seen
    pa.default_memory_pool().release_unused()
    return doubts_of(table, t, values.finish(), np.zeros(0), limits=limits)


def _seen(labels: Parts, n_segments: int, t: int) -> Iterator[Seen]:
    """Yield the values of one target that are judged, in the order of the file."""
    for p in range(n_segments):
        table = labels.read(p, f"seen-{t}")
        for batch in [] if table is None else table.to_batches():  # whose columns are not copied
            columns = {name: batch[name].to_numpy() for name in batch.schema.names}
            yield Seen(columns["line"], columns.get("value"), columns["y"])


def _counted(parts: Parts, n_ways: int) -> tuple[JoinCounts, MarkedKeys, int]:
    """Return the counts of all parts, what is to tell of their keys, and how many labels are matched."""
    counts, n_groups, n_matched = JoinCounts(), 0, 0
    radicals, first = Radicals(0, 0, -1, ""), -1
    for q in range(n_ways):
        facts = parts.facts(q)
        absent = [(int(place), str(key)) for place, key in facts["counts"]["absent"]]
        counts.add(JoinCounts(**{**facts["counts"], "absent": absent, "times": Counter()}))
        n_matched += facts["matched"]
        n_groups += facts["marked"]["n_groups"]
        more, place = Radicals(**facts["marked"]["radicals"]), facts["radical"]
        is_first = place >= 0 and (first < 0 or place < first)
        first = place if is_first else first
        radicals = Radicals(
            radicals.n_molecules + more.n_molecules,
            radicals.n_radicals + more.n_radicals,
            first,
            more.example if is_first else radicals.example,
        )
    return counts, MarkedKeys(n_groups, radicals), n_matched


# Bytes of a label or row, at most. Those of values that are judged were measured with 6 x 10^6 values of
# several distributions: 27 to 31, and 34 where many are tied.
_READ_BYTES, _DIVIDED_BYTES, _PART_BYTES, _RANGE_BYTES, _JUDGED_BYTES = 150, 90, 130, 90, 34
_BUFFERS = 64 * MIB  # of the values of one segment, as a file and as a table
_DISK_BYTES, _KEY_DISK_BYTES = 75, 20  # of a label and of a row of the library


def need_of_parts(n_labels: int, n_targets: int, store: RowStore, folder: PurePath) -> Need:
    """Return what a join in parts needs, whose parts are kept in `folder`."""
    n_library, most = int(store.row_bounds[-1]), max(planned_rows(store), default=0)
    size = _DISK_BYTES * n_targets * n_labels + _KEY_DISK_BYTES * n_library
    return Need(
        worker=need_of_part(n_labels, n_targets, most),
        here=need_of_order(n_library, n_targets),
        disk=Disk(folder.parent, "the labels in parts", size, size),
    )


def need_of_part(n_labels: int, n_targets: int, most_rows: int) -> MemoryNeed:
    """Return the memory of a task that reads, joins or judges labels in parts.

    `most_rows` are those of the largest partition of the library.
    """
    each = min(n_labels, SEGMENT_ROWS)
    return peak(
        "labels",
        {"labels of a segment": _READ_BYTES * n_targets * min(each, _AT_ONCE)},
        {"a partition of the library": ROW_BYTES * most_rows, "its keys": _DIVIDED_BYTES * _AT_ONCE},
        {"labels of a part": _PART_BYTES * n_targets * each},
        {"values of all labels of a target": _JUDGED_BYTES * n_labels, "buffers of Parquet": _BUFFERS},
    )


def need_of_order(n_library: int, n_targets: int) -> MemoryNeed:
    """Return the memory of the command while it puts labels in the order of a library of so many rows."""
    size = _RANGE_BYTES * n_targets * min(n_library, range_rows_of(n_library))
    return peak("labels", {"labels as they are put in order": size}, compiled=False)


def range_rows_of(n_library: int) -> int:
    """Return how many rows of a library are put in order at once."""
    return max(_RANGE_ROWS, -(-n_library // _MOST_RANGES))
