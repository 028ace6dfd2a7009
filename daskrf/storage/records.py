"""Records of files: the only evidence that a partition, a model or a checkpoint is complete."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from daskrf.storage.backend import backend, pairs, sizes_of
from daskrf.storage.files import canonical_json, digests_of, digests_of_file, digests_of_stream
from daskrf.storage.integrity import sealed, unsealed
from daskrf.storage.plans import FORMAT_VERSION

__all__ = [
    "CommitRecord",
    "FileList",
    "StoredObject",
    "Survey",
    "listed_objects",
    "staged_objects",
    "total_counts",
]


class StoredObject(NamedTuple):
    """One file of a partition, a model or a checkpoint.

    Attributes
    ----------
    path : str
        Relative to the store or model, POSIX form.
    bytes : int
        Its size.
    crc32c : str
        Eight hexadecimal digits.
    body : str
        CRC32C of all but its last four bytes, which tells a chunk from another (see `digests_of_stream`).
    """

    path: str
    bytes: int
    crc32c: str
    body: str

    def read(self, root: PurePath) -> builtins.bytes:
        """Return the file, of the store at `root`, if it is what was recorded.

        Raises
        ------
        OSError
            It cannot be read.
        ValueError
            It is gone, or not what was recorded.
        """
        try:
            data = backend(root).read(root, self.path, self.bytes)  # no more than its size tells
        except FileNotFoundError:
            raise ValueError(f"{self.path} is missing") from None
        self._check(*digests_of(data))
        return data

    def problem(self, root: PurePath) -> str | None:
        """Say what is wrong with the file, read piece by piece; None where it is what was recorded."""
        try:
            with backend(root).open(root, self.path) as file:
                self._check(*digests_of_stream(file))
        except FileNotFoundError:
            return f"{self.path} is missing"
        except ValueError as error:
            return str(error)
        return None

    def _check(self, size: int, checksum: str | None = None, body: str | None = None) -> None:
        if size != self.bytes:
            raise ValueError(f"{self.path} has {size} bytes instead of {self.bytes}")
        if checksum is not None and checksum != self.crc32c:
            raise ValueError(f"{self.path} has CRC32C {checksum} instead of {self.crc32c}")
        if body is not None and body != self.body:
            raise ValueError(f"{self.path} is another file (CRC32C {body} instead of {self.body})")


def staged_objects(root: PurePath, staged: dict[PurePath, Path]) -> tuple[StoredObject, ...]:
    """Return every file among staged files and directories (final name below `root` -> staged), sorted.

    Local ones are forced to the disk.
    """
    start, sync = len(str(root)) + 1, backend(root).is_local
    return tuple(
        sorted(
            StoredObject(str(final)[start:], *digests_of_file(file, sync)) for file, final in pairs(staged)
        )
    )


def listed_objects(items: list[Any]) -> tuple[StoredObject, ...]:
    """Return the files that a record lists.

    Raises
    ------
    ValueError, TypeError
        What it says of them is of the wrong type.
    """
    objects = tuple(StoredObject(*item) for item in items)
    for path, size, *digests in objects:
        if not (isinstance(path, str) and _is_count(size) and all(isinstance(text, str) for text in digests)):
            raise ValueError(f"what it says of {path} is of the wrong type")
    return objects


@dataclass(frozen=True)
class FileList:
    """All files of something that is written once.

    Attributes
    ----------
    objects : tuple of StoredObject
    """

    objects: tuple[StoredObject, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(item.bytes for item in self.objects)

    def read(self, root: PurePath, name: str) -> builtins.bytes:
        """Return the file `name`, below `root`; see `StoredObject.read`.

        Raises
        ------
        OSError
            It cannot be read.
        ValueError
            It is not in this record, is gone, or is not what was recorded.
        """
        for item in self.objects:
            if item.path == name:
                return item.read(root)
        raise ValueError(f"its record does not name {name}")

    def missing(self, root: PurePath, sizes: dict[str, int] | None = None) -> str | None:
        """Say which file is gone or of another size (by `sizes`, if given); None where all are there."""
        sizes = sizes_of(root, [item.path for item in self.objects]) if sizes is None else sizes
        for item in self.objects:
            size = sizes.get(item.path)
            if size is None:
                return f"{item.path} is missing"
            if size != item.bytes:
                return f"{item.path} has {size} bytes instead of {item.bytes}"
        return None

    def problems(self, root: PurePath) -> list[str]:
        """Check every digest, and say what is wrong."""
        return [problem for item in self.objects if (problem := item.problem(root))]


@dataclass(frozen=True)
class CommitRecord(FileList):
    """What a partition holds, written after its data.

    Attributes
    ----------
    partition : int
        Number of the partition.
    spec_hash : str
        Of the plan that it was made for.
    counts : dict of str to int
        Rows read, kept, rejected, and so on; they add up over partitions.
    """

    partition: int
    spec_hash: str
    counts: dict[str, int]

    def to_json(self) -> builtins.bytes:
        """The record as JSON text that is `sealed`."""
        return sealed(canonical_json({"format_version": FORMAT_VERSION, **vars(self)}))

    @classmethod
    def from_json(cls, data: builtins.bytes) -> CommitRecord:
        """Read a record.

        Raises
        ------
        ValueError, KeyError, TypeError
            Where the text is not a whole and undamaged record.
        """
        body = unsealed(data)
        record = cls(listed_objects(body["objects"]), body["partition"], body["spec_hash"], body["counts"])
        if not (_is_count(record.partition) and isinstance(record.spec_hash, str)):
            raise ValueError("its partition or its hash is of the wrong type")
        if not all(map(_is_count, dict.values(record.counts))):
            raise ValueError("its counts are not numbers")
        return record


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


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
        Partitions whose record is valid and whose objects are there in full size.
    damaged : dict of int to str
        Partitions with a record that does not hold, and why.
    missing : list of int
        Partitions without a record, ascending.
    """

    valid: dict[int, CommitRecord]
    damaged: dict[int, str]
    missing: list[int]
