"""A store: a directory with a plan, the data of each partition, and one commit record per partition.

Layout (docs/storage.md describes what each kind adds)::

    _plan.json            what the store will hold, and the spec hash; written first
    _commits/000012.json  the commit record of partition 12: without it the partition does not exist
    _rejects/000012.parquet
    .lock                 exists while a driver is running; see `daskrf.storage.lock`

Arrow skips names that begin with "_" or ".", so the data beside them can be plain Parquet.

Intermediate files that runs share until the store is complete are beside it, in ``.NAME.daskrf``.

A plan says what will be made, and is protected by its hash: a store is resumed only by a plan with the same
hash. A partition is written into a staging directory, moved to its final names, flushed to disk, and only
then recorded. It is complete once it has a valid record; a crash at any point before leaves it pending.

On object storage (``s3://bucket/key``) the staging directory is local, files are uploaded to their final
keys, and the record is created by a conditional PUT, which fails if another writer has created one.
"""

from __future__ import annotations

import builtins
import errno
import hashlib
import json
import platform
import re
import socket
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import ClassVar, NotRequired, Self, TypedDict, cast

from daskrf import __version__
from daskrf.documents import JsonObject
from daskrf.errors import StoreError, printable
from daskrf.files.backend import (
    atomic_write,
    backend,
    exists,
    is_file,
    link_in,
    publish,
    read_each,
    readable,
    remove_stale,
    staging,
    sync,
)
from daskrf.files.disk import canonical_json, file_errors
from daskrf.storage.differences import differences, made_with_others
from daskrf.storage.integrity import (
    DAMAGE,
    FileList,
    as_damage,
    is_count,
    is_sealed,
    listed_objects,
    parsed,
    sealed,
    staged_objects,
    unsealed,
)

STAGING = "_staging"
COMMITS = "_commits"
REJECTS = "_rejects"
# The only files that a partition may own: anybody can write a record that names other files.
_OWNED = re.compile(
    r"(?:(?:rows/|_rejects/)?([0-9]{6,})\.parquet|data/([0-9]{6,})(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)+)"
)
_CHUNK = re.compile(r"(?:phi|diagonal)/c\.([0-9]+)(?:\.0)?")  # of an array shared by partitions
ARRAY_METADATA = ("zarr.json", "phi/zarr.json", "diagonal/zarr.json")  # owned by partition 0
# Counts that readers use, and that records must therefore contain.
_COUNTS = {
    "fingerprints": ("read", "kept", "rejected", "nonzeros"),
    "features": ("kept", "first"),
    "predictions": ("read", "kept", "rejected"),
}
FORMAT = "daskrf"
FORMAT_VERSION = 2
PLAN_FILE = "_plan.json"  # Arrow skips such names when it reads a folder of Parquet files
_OLD_PLAN_FILE = "plan.json"  # of format version 1
ARRAYS_FILE = "_arrays.json"  # of a model
_OLD_MODEL_FILE = "model.zip"
HASHED = ("format", "format_version", "kind", "spec", "partitions")
PACKAGES = ("numpy", "scipy", "numba", "zarr", "pyarrow", "dask", "distributed")
_MOST_PARTITIONS = 10**6  # in a plan that gives only their number: a small file could claim any number
KIND_NAMES = {
    "fingerprints": "a fingerprint store",
    "features": "a feature store",
    "predictions": "a prediction store",
    "labels": "labels of a fit, in parts",
    "model": "a model",
    "checkpoint": "a checkpoint",
    "hits": "hits",
    "rejects": "rejected rows of a screen",
    "table": "predictions in one file",
    "batch": "a batch of molecules to measure",
    "sample": "random molecules of a space",
    "space": "a make-on-demand space",
    "search": "products that a search of a space found",
    "evaluation": "predictions of left-out labels",
    "picture": "a picture",
    "drawing": "a drawing of a molecule",
    "page": "a page of molecules",
    "quickstart": "a file of a quickstart",
    "scores": "scores of a batch",
}
KIND_COMMANDS = {
    "fingerprints": "daskrf fingerprint",
    "features": "daskrf featurize",
    "predictions": "daskrf predict",
    "model": "daskrf fit",
    "hits": "daskrf screen",
    "space": "daskrf build-space",
}


def provenance() -> dict[str, object]:
    """Return the versions, host and time with which a store is made; they are never hashed.

    Returns
    -------
    dict
        ``python``, ``host``, ``created`` (UTC, ISO 8601) and the version of each installed package.

    Examples
    --------
    >>> sorted(provenance())[:3]
    ['created', 'dask', 'daskrf']
    """
    versions: dict[str, object] = {
        "daskrf": __version__,
        "python": platform.python_version(),
        "host": socket.gethostname(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def hash_of(value: object) -> str:
    """Return the SHA-256 of the canonical JSON text of `value`, as hexadecimal digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def plan_hash(plan: Mapping[str, object]) -> str:
    """Return the hash of a plan, over the entries in `HASHED`."""
    return hash_of({key: plan[key] for key in HASHED})


def make_plan(
    kind: str,
    spec: Mapping[str, object],
    partitions: Sequence[Mapping[str, object]] | int,
    origin: Mapping[str, object] | None,
) -> dict[str, object]:
    """Build the content of ``_plan.json``.

    Parameters
    ----------
    kind : str
        One of the kinds of `KIND_NAMES`.
    spec : dict
        Everything that the bytes of the store depend on, as JSON values.
    partitions : list of dict, or int
        One entry per partition, or only their number.
    origin : dict or None
        Added to `provenance`.

    Returns
    -------
    dict

    Raises
    ------
    StoreError
        `spec` or `partitions` contain a value without an exact JSON form.
    """
    plan = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "spec": spec,
        "partitions": partitions,
    }
    try:
        # The round trip turns tuples into lists, so that a plan equals itself when read again.
        plan = json.loads(canonical_json(plan))
    except (TypeError, ValueError) as error:
        raise StoreError(f"the specification of {KIND_NAMES[kind]} is not plain JSON ({error})") from error
    plan["spec_hash"] = plan_hash(plan)
    plan["provenance"] = {**provenance(), **(origin or {})}
    return plan


def write_plan(path: PurePath, plan: dict[str, object]) -> None:
    """Write ``_plan.json`` atomically into the directory `path`, unless another process just did."""
    text = json.dumps(plan, indent=1, ensure_ascii=False).encode(errors="surrogatepass")
    atomic_write(path / PLAN_FILE, sealed(text), keep=True)


def has_plan(path: PurePath) -> bool:
    """Return whether there is a plan of any format version; `read_plan` checks the version."""
    return any(is_file(path / name) for name in (PLAN_FILE, _OLD_PLAN_FILE, _OLD_MODEL_FILE))


def prepare_directory(path: PurePath) -> None:
    """Create the directory of a new store, or accept an empty one."""
    with file_errors("create", path):
        backend(path).make(path)
        refuse_old(path)
        others = any(not name.startswith(".") for name in backend(path).names(path))
        if others and not is_file(path / PLAN_FILE):  # a shard started at the same time may have made it
            raise StoreError(f"{path} holds other files and is not a daskrf store; give another output path")


def check_format(content: object, path: PurePath) -> None:
    """Raise an error for a file not made by daskrf, or of a format version unknown to this daskrf.

    Raises
    ------
    StoreError
    """
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise StoreError(f"{path} was not made by daskrf; check the path")
    if content.get("format_version") != FORMAT_VERSION:
        origin = content.get("provenance")
        made_by = origin.get("daskrf") if isinstance(origin, dict) else None
        made_by = printable(made_by or "of an unknown version", 40)
        number = printable(content.get("format_version"), 20)
        raise StoreError(
            f"{path} has format version {number} (made by daskrf {made_by}), but this daskrf "
            f"{__version__} knows version {FORMAT_VERSION} only: use the daskrf that made it, or make "
            "it again"
        )


def refuse_old(path: PurePath) -> None:
    """Raise an error if `path` holds a store or model of an older format.

    Raises
    ------
    StoreError
    """
    content: object = {}
    with suppress(*DAMAGE):
        if is_file(path / _OLD_PLAN_FILE):
            content = parsed(backend(path).read(path, _OLD_PLAN_FILE))
        elif is_file(path / _OLD_MODEL_FILE):
            with zipfile.ZipFile(readable(path / _OLD_MODEL_FILE)) as archive:
                content = parsed(archive.read("metadata.json"))
    if isinstance(content, dict) and content.get("format") == FORMAT:
        check_format({**content, "format_version": 1}, path)


def check_kind(kind: str, wanted: str | None, path: PurePath) -> None:
    """Raise an error for a store of another kind.

    Raises
    ------
    StoreError
    """
    if wanted is None or kind == wanted:
        return
    name = KIND_NAMES.get(kind, f"a store of kind {printable(kind, 40)!r}")
    needed = KIND_NAMES.get(wanted, wanted)
    command = KIND_COMMANDS.get(wanted)
    advice = f": make one with `{command}`" if command else ""
    raise StoreError(f"{path} is {name}, but {needed} is needed here{advice}")


class Plan(TypedDict):
    """What the ``_plan.json`` of a store holds.

    `spec` is what the bytes of the store depend on, and `partitions` what each partition consists of, or how
    many there are; both depend on the kind of store.
    """

    format: str
    format_version: int
    kind: str
    spec: JsonObject
    partitions: list[JsonObject] | int
    spec_hash: str
    provenance: NotRequired[JsonObject]


def read_plan(path: PurePath) -> Plan:
    """Read and check the ``_plan.json`` of a store.

    Parameters
    ----------
    path : Path
        Directory of the store.

    Returns
    -------
    dict

    Raises
    ------
    StoreError
        There is no store, or it is damaged or of an unknown format version.
    """
    file = path / PLAN_FILE
    with file_errors("read", file):
        if not is_file(file):
            refuse_old(path)
            if is_file(path / ARRAYS_FILE):
                raise StoreError(
                    f"{path} is a model, and a store of partitions is needed here; check the path"
                )
            if is_file(path):
                raise StoreError(
                    f"{path} is a file, and a store is needed here; `daskrf fingerprint` makes one"
                )
            if not backend(path).names(path):
                raise StoreError(f"{path} does not exist, or is empty; check the path")
            raise StoreError(f"{path} is not a daskrf store (it has no {PLAN_FILE}); check the path")
    advice = "restore it from a copy, or make the store again"
    with file_errors("read", file), as_damage(file, advice):
        plan = cast(Plan, read_headed(path, PLAN_FILE))
        missing = [key for key in (*HASHED, "spec_hash") if key not in plan]
        if missing or plan_hash(plan) != plan["spec_hash"]:
            raise StoreError(
                f"{file} is damaged or was edited (its content does not match its hash); {advice}"
            )
        _check_types(plan)
    return plan


def read_headed(path: PurePath, name: str) -> JsonObject:
    """Read sealed JSON that has a format, a format version, a kind and a provenance.

    Raises
    ------
    ValueError
        It is damaged.
    StoreError
        It is of an unknown format version.
    """
    data = backend(path).read(path, name)
    if not is_sealed(data):
        check_format(parsed(data), path)  # another version may not be sealed
    content = unsealed(data)
    check_format(content, path)
    origin = content.get("provenance", {})
    if not (isinstance(content.get("kind"), str) and isinstance(origin, dict)):
        raise ValueError("its kind or its provenance is of the wrong type")
    # It is displayed, and may come from anybody.
    if not all(isinstance(value, (str, int, float, type(None))) for value in origin.values()):
        raise ValueError("its provenance is not made of texts and numbers")
    return content


def _check_types(plan: Plan) -> None:
    """Reject a plan with a valid hash but invalid content: anybody can compute a hash."""
    if not (isinstance(plan["spec"], dict) and isinstance(plan["spec_hash"], str)):
        raise ValueError("its spec or its hash is of the wrong type")
    partitions = plan["partitions"]
    if isinstance(partitions, list):
        for entry in partitions:
            rows, start, stop = entry.get("rows", 0), entry.get("start", 0), entry.get("stop", 0)
            if not (type(rows) is type(start) is type(stop) is int):
                raise ValueError("the rows of its partitions are not numbers")
            if not (0 <= start <= stop < 2**63 and 0 <= rows < 2**63):
                raise ValueError("the rows of its partitions are impossible")
    elif type(partitions) is not int or not 0 <= partitions <= _MOST_PARTITIONS:
        raise ValueError("its number of partitions is impossible")


@dataclass(frozen=True)
class CommitRecord(FileList):
    """The commit record of a partition, written after its data.

    Attributes
    ----------
    partition : int
        Number of the partition.
    spec_hash : str
        Spec hash of the plan that it was made for.
    counts : dict of str to int
        Rows read, kept, rejected, and so on; they can be summed over partitions.
    """

    partition: int
    spec_hash: str
    counts: dict[str, int]

    def to_json(self) -> builtins.bytes:
        """Return the record as `sealed` JSON text."""
        return sealed(canonical_json({"format_version": FORMAT_VERSION, **vars(self)}))

    @classmethod
    def from_json(cls, data: builtins.bytes) -> CommitRecord:
        """Read a record.

        Raises
        ------
        ValueError, KeyError, TypeError
            The text is not a complete and undamaged record.
        """
        body = unsealed(data)
        record = cls(listed_objects(body["objects"]), body["partition"], body["spec_hash"], body["counts"])
        if not (is_count(record.partition) and isinstance(record.spec_hash, str)):
            raise ValueError("its partition or its hash is of the wrong type")
        if not all(map(is_count, dict.values(record.counts))):
            raise ValueError("its counts are not numbers")
        return record


def total_counts(records: Iterable[CommitRecord]) -> dict[str, int]:
    """Return the sums of the counts of some records; ``first``, the number of a row, is not summed."""
    total: Counter[str] = Counter()
    for record in records:
        total.update(record.counts)
    total.pop("first", None)
    return dict(total)


@dataclass(frozen=True)
class Survey:
    """State of every partition of a store.

    Attributes
    ----------
    valid : dict of int to CommitRecord
        Partitions whose record is valid and whose objects all exist in full size.
    damaged : dict of int to str
        Partitions with an invalid record, or with objects missing or of the wrong size, and the reason.
    missing : list of int
        Partitions without a record, ascending.
    """

    valid: dict[int, CommitRecord]
    damaged: dict[int, str]
    missing: list[int]


class Store:
    """A partitioned store; use `open` to read one, `create` to make or resume one.

    Attributes
    ----------
    path : Path
        Its directory.
    kind : str
        ``"fingerprints"``, ``"features"`` or ``"predictions"``.
    spec : dict
        Everything that its bytes depend on.
    spec_hash : str
        SHA-256 over format, version, kind, spec and partitions.
    partitions : list of dict, or int
        As planned.
    provenance : dict
        Versions, host and time with which it was made.
    """

    needed_kind: ClassVar[str | None] = None
    needed_spec: ClassVar[dict[str, type | tuple[object, ...]]] = {}  # types, or allowed values

    def __init__(self, path: PurePath, plan: Plan) -> None:
        for key, wanted in self.needed_spec.items():
            if not _is_one_of(plan["spec"].get(key), wanted):
                name = KIND_NAMES[plan["kind"]]
                raise StoreError(
                    f"{path / PLAN_FILE} is not the plan of {name} (its {key} is missing or wrong); "
                    "restore it from a copy, or make the store again"
                )
        self.path = path
        self.kind: str = plan["kind"]
        self.spec = plan["spec"]
        self.spec_hash = plan["spec_hash"]
        self.partitions = plan["partitions"]
        self.provenance = plan.get("provenance", {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, {self.n_partitions} partitions)"

    @classmethod
    def create(
        cls,
        path: PurePath,
        kind: str,
        spec: Mapping[str, object],
        partitions: Sequence[Mapping[str, object]] | int,
        provenance: Mapping[str, object] | None = None,
    ) -> Self:
        """Make a store, or open an existing one that was made for the same specification.

        Parameters
        ----------
        path : path
            Directory; absent or empty, or a store of the same specification, which is resumed.
        kind, spec, partitions
            See the attributes.
        provenance : dict, optional
            Added to the versions, host and time that are always recorded.

        Returns
        -------
        Store

        Raises
        ------
        StoreError
            Something else is there, or a store made from other input or with other options; the message
            names each difference with both values.
        """
        check_kind(kind, cls.needed_kind, path)
        plan = make_plan(kind, spec, partitions, provenance)
        with file_errors("read", path):
            planned = is_file(path / PLAN_FILE)
        if not planned:
            prepare_directory(path)
            write_plan(path, plan)
        stored_plan = read_plan(path)
        _refuse_links(path)
        if stored_plan["spec_hash"] != plan["spec_hash"]:
            check_kind(stored_plan["kind"], kind, path)
            with as_damage(path / PLAN_FILE):
                old, new = ({key: side[key] for key in HASHED} for side in (dict(stored_plan), plan))
                raise made_with_others(path, differences(old, new))
        store = cls(path, stored_plan)
        store.clean()
        return store

    @classmethod
    def open(cls, path: PurePath, kind: str | None = None) -> Self:
        """Open a store for reading or for resuming; nothing is written.

        Parameters
        ----------
        path : path
            Its directory.
        kind : str, optional
            Raise an error for any other kind.

        Returns
        -------
        Store

        Raises
        ------
        StoreError
            There is no store, or it is of another kind or an unknown format version, or its plan is damaged.
        """
        return cls.of_plan(path, read_plan(path), kind)

    @classmethod
    def of_plan(cls, path: PurePath, plan: Plan, kind: str | None = None) -> Self:
        """Open a store whose plan has been read; see `open`."""
        check_kind(plan["kind"], kind or cls.needed_kind, path)
        _refuse_links(path)
        return cls(path, plan)

    @property
    def n_partitions(self) -> int:
        """Number of planned partitions."""
        return self.partitions if isinstance(self.partitions, int) else len(self.partitions)

    def partition_rows(self, p: int) -> int:
        """Return how many rows partition `p` was planned to read: its ``rows``, or ``stop - start``.

        Raises
        ------
        StoreError
            The plan gives only the number of partitions.
        """
        self.partition_name(p)
        entry = {} if isinstance(self.partitions, int) else self.partitions[p]
        if "rows" in entry:
            return int(entry["rows"])
        if "start" in entry and "stop" in entry:
            return int(entry["stop"]) - int(entry["start"])
        raise StoreError(f"the plan of {self.path} does not say how many rows partition {p} has")

    def partition_name(self, p: int) -> str:
        """Return the name of partition `p`: six digits; raise an error if the plan has no such partition."""
        if not 0 <= p < self.n_partitions:
            raise StoreError(f"{self.path} has partitions 0 to {self.n_partitions - 1}, but not {p}")
        return f"{p:06d}"

    def partition_path(self, p: int) -> PurePath:
        """Return the directory of the Zarr group of partition `p`."""
        return self.path / "data" / self.partition_name(p)

    def record_path(self, p: int) -> PurePath:
        """Return the path of the commit record of partition `p`."""
        return self.path / COMMITS / f"{self.partition_name(p)}.json"

    def object_paths(self, p: int) -> list[PurePath]:
        """Return all files and directories that partition `p` may own, except its record."""
        name = self.partition_name(p)
        return [
            self.path / "data" / name,
            self.path / "rows" / f"{name}.parquet",
            self.path / f"{name}.parquet",
            self.path / REJECTS / f"{name}.parquet",
        ]

    def owns(self, p: int, name: str) -> bool:
        """Return whether a file of this name, relative to the store, may belong to partition `p`."""
        if (chunk := _CHUNK.fullmatch(name)) is not None:
            each = self.spec.get("partition_chunks")
            return type(each) is int and each > 0 and int(chunk[1]) // each == p
        match = _OWNED.fullmatch(name)
        return (p == 0 and name in ARRAY_METADATA) or (match is not None and f"{p:06d}" in match.groups())

    @contextmanager
    def staging(self, p: int) -> Iterator[Path]:
        """Yield a new directory for one writer of partition `p`, deleted when the block ends."""
        folder = self.path / STAGING
        with file_errors("write", folder), staging(folder, self.partition_name(p)) as path:
            yield path

    def publish(self, p: int, staged: dict[PurePath, Path], counts: dict[str, int]) -> CommitRecord:
        """Move finished files and directories to their final names, and record the partition.

        If another writer has already recorded the partition and it is intact, that one is kept.

        Parameters
        ----------
        p : int
            Partition.
        staged : dict of Path to Path
            Final path -> staged path; final paths are among `object_paths`.
        counts : dict of str to int
            Counts for the record.

        Returns
        -------
        CommitRecord
            The record of what is in the store.
        """
        with file_errors("write", self.partition_path(p)):
            if (record := self._committed_already(p)) is not None:
                return record
            self.discard(p)
            plain = {key: int(value) for key, value in counts.items()}
            record = CommitRecord(staged_objects(self.path, staged), p, self.spec_hash, plain)
            publish(self.path, staged)
            path, data = self.record_path(p), record.to_json()
            backend(path).make(path.parent)
            atomic_write(path, data, keep=True)
            return record if backend(path).read(path) == data else self._true_record(record)

    def _committed_already(self, p: int) -> CommitRecord | None:
        """Return the record of partition `p` if another writer has already committed it intact.

        A worker presumed lost may still be running; its late output must not remove files that readers
        already use. The first commit wins even if the bytes differ, as the last digits of dense features do
        on another type of processor.
        """
        record = self._valid_record(p)
        return None if isinstance(record, str) or self.verify(p) else record

    def discard(self, p: int) -> None:
        """Delete the record of partition `p`, then its data."""
        with file_errors("delete", self.partition_path(p)):
            files, record = backend(self.path), self.record_path(p)
            if exists(record):
                files.remove(record)
                sync(record.parent)
            for path in self.object_paths(p):
                files.remove(path)

    def _true_record(self, mine: CommitRecord) -> CommitRecord:
        """Return the record that matches the files, after another writer has recorded the partition first."""
        p = mine.partition
        other = self._valid_record(p)
        if isinstance(other, CommitRecord) and not other.problems(self.path):
            return other
        if not mine.problems(self.path):
            atomic_write(self.record_path(p), mine.to_json())
            return mine
        self.discard(p)
        raise StoreError(
            f"partition {p} of {self.path} was written by two processes at once, with different bytes; run "
            "it again",
            errno=errno.EIO,
        )

    def _valid_record(self, p: int) -> CommitRecord | str:
        """Return the valid record of partition `p`, or why there is none."""
        return next(record for _, record in self._read_records([p]))

    def _read_records(self, partitions: list[int]) -> Iterator[tuple[int, CommitRecord | str]]:
        """Yield the valid record of each partition, or why there is none."""
        names = (f"{self.partition_name(p)}.json" for p in partitions)
        read = read_each(self.path, COMMITS, names)
        yield from ((p, self._parsed(p, data)) for p, data in zip(partitions, read, strict=True))

    def _parsed(self, p: int, data: bytes | Exception) -> CommitRecord | str:
        """Return the valid record of partition `p` in some bytes, or why there is none."""
        if isinstance(data, FileNotFoundError):
            return "it was never finished"
        try:
            if isinstance(data, Exception):
                raise data
            record = CommitRecord.from_json(data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return f"its commit record is damaged ({error})"
        if record.spec_hash != self.spec_hash:
            return "its commit record belongs to a store made from other input or with other options"
        if record.partition != p:
            return f"its commit record belongs to partition {record.partition}"
        for item in record.objects:
            if not self.owns(p, item.path):
                what = f"it names {item.path!r}, which is not a file of its partition"
                return f"its commit record is damaged ({what})"
        if lacking := [name for name in _COUNTS.get(self.kind, ()) if name not in record.counts]:
            return f"its commit record is damaged (it does not count {lacking[0]})"
        return record

    def record(self, p: int) -> CommitRecord:
        """Return the valid record of one partition; its files are checked on reading (`StoredObject.read`).

        Raises
        ------
        StoreError
            The partition is pending.
        """
        with file_errors("read", self.record_path(p)):
            record = self._valid_record(p)
        if isinstance(record, CommitRecord):
            return record
        raise StoreError(
            f"partition {p} of {self.path} cannot be read: {record}; run the command that makes the store "
            f"again, or `daskrf verify --repair {self.path}`"
        )

    def committed(self, p: int) -> CommitRecord | None:
        """Return the valid record of partition `p` if all its objects exist; None if it is pending."""
        with file_errors("read", self.record_path(p)):
            record = self._valid_record(p)
            if isinstance(record, str) or record.missing(self.path) is not None:
                return None
        return record

    def records(self) -> dict[int, CommitRecord]:
        """Return the valid records by partition, from one directory scan without checking objects."""
        with file_errors("read", self.path):
            read = self._read_records(self._recorded())
            return {p: record for p, record in read if isinstance(record, CommitRecord)}

    def _recorded(self) -> list[int]:
        """Return the planned partitions that have a record file, valid or not."""
        directory = self.path / COMMITS
        with file_errors("read", directory):
            names = backend(directory).names(directory)
        stems = [name[:-5] for name in names if name.endswith(".json")]
        numbers = sorted(int(stem) for stem in stems if stem.isdigit() and len(stem) >= 6)
        return [p for p in numbers if p < self.n_partitions]

    def survey(self) -> Survey:
        """Check every record and the size of every object in a single pass, without computing digests."""
        recorded = self._recorded()
        survey = Survey({}, {}, sorted(set(range(self.n_partitions)).difference(recorded)))
        with file_errors("read", self.path):
            sizes = backend(self.path).sizes(self.path)
            for p, record in self._read_records(recorded):
                problem = record if isinstance(record, str) else record.missing(self.path, sizes)
                if problem is not None:
                    survey.damaged[p] = problem
                elif isinstance(record, CommitRecord):
                    survey.valid[p] = record
        return survey

    def pending(self) -> list[int]:
        """Return the partitions still to be made: no valid record, or an object missing or of the wrong size.

        Returns
        -------
        list of int
            Ascending; empty if the store is complete.
        """
        survey = self.survey()
        return sorted([*survey.missing, *survey.damaged])

    def counts(self) -> dict[str, int]:
        """Return the sums of the counts of all valid records."""
        return total_counts(self.records().values())

    def verify(self, p: int) -> list[str]:
        """Check every digest of one partition.

        Returns
        -------
        list of str
            Problems; empty if there are none.
        """
        with file_errors("read", self.path):
            record = self._valid_record(p)
            return [record] if isinstance(record, str) else record.problems(self.path)

    def require_complete(self) -> None:
        """Raise an error if the store is unfinished.

        Raises
        ------
        StoreError
        """
        if pending := self.pending():
            raise StoreError(
                f"{self.path} is not complete: {len(pending):,} of {self.n_partitions:,} partitions are "
                "missing; run the command that makes it again: it makes only those."
            )

    def clean(self, *, finished: bool = False) -> int:
        """Delete leftovers of dead writers, or of all writers if `finished`; return how many were deleted."""
        inner = (self.path / STAGING, self.path / COMMITS)
        with file_errors("clean", self.path):
            removed = [remove_stale(path, all_writers=finished) for path in inner]
            return remove_stale(self.path) + sum(removed)


def _is_one_of(value: object, wanted: type | tuple[object, ...]) -> bool:
    """Return whether a value is one of those wanted, or of the wanted type and, if an integer, positive."""
    if isinstance(wanted, tuple):
        return value in wanted
    return isinstance(value, wanted) and not (isinstance(value, int) and value < 1)


def _refuse_links(path: PurePath) -> None:
    """Raise an error if a folder of the store is a link: writes and deletions would go outside the store."""
    folder = link_in(path, ("data", "rows", "phi", "diagonal", REJECTS, COMMITS, STAGING))
    if folder is not None:
        raise StoreError(
            f"{path / folder} is a link, but a store must hold its files itself; move the whole store, and "
            "link to that"
        )
