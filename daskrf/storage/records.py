"""Commit records: the only evidence that a partition is complete."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from daskrf.storage.backend import backend
from daskrf.storage.files import canonical_json, digests_of, digests_of_stream
from daskrf.storage.integrity import sealed, unsealed
from daskrf.storage.plans import FORMAT_VERSION

__all__ = ["CommitRecord", "StoredObject", "Survey", "total_counts"]


class StoredObject(NamedTuple):
    """One file of a partition.

    Attributes
    ----------
    path : str
        Relative to the store, POSIX form.
    bytes : int
        Its size.
    crc32c : str
        Eight hexadecimal digits.
    body : str or None
        CRC32C of all but its last four bytes, which tells a chunk from another (see `digests_of_stream`);
        older records have none.
    """

    path: str
    bytes: int
    crc32c: str
    body: str | None = None

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
        if body is not None and body != (self.body or body):
            raise ValueError(f"{self.path} is another file (CRC32C {body} instead of {self.body})")


@dataclass(frozen=True)
class CommitRecord:
    """What a partition holds, written after its data.

    Attributes
    ----------
    partition : int
        Number of the partition.
    spec_hash : str
        Of the plan that it was made for.
    counts : dict of str to int
        Rows read, kept, rejected, and so on; they add up over partitions.
    objects : tuple of StoredObject
        Every file of the partition.
    """

    partition: int
    spec_hash: str
    counts: dict[str, int]
    objects: tuple[StoredObject, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all objects."""
        return sum(item.bytes for item in self.objects)

    def read(self, root: PurePath, name: str) -> builtins.bytes:
        """Return the file `name` of the partition, of the store at `root`; see `StoredObject.read`.

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
        raise ValueError(f"its commit record does not name {name}")

    def to_json(self) -> builtins.bytes:
        """The record as JSON text that is `sealed`."""
        body = {
            "format_version": FORMAT_VERSION,
            "partition": self.partition,
            "spec_hash": self.spec_hash,
            "counts": self.counts,
            "objects": [[item.path, item.bytes, item.crc32c] for item in self.objects],
            "bodies": [item.body for item in self.objects],  # by themselves, for readers that know of none
        }
        return sealed(canonical_json(body))

    @classmethod
    def from_json(cls, data: builtins.bytes) -> CommitRecord:
        """Read a record.

        Raises
        ------
        ValueError, KeyError, TypeError
            Where the text is no whole and undamaged record, or names files that are not its partition's.
        """
        body = unsealed(data)
        bodies = body.get("bodies", [None] * len(body["objects"]))
        named = zip(body["objects"], bodies, strict=True)
        objects = tuple(StoredObject._make([*item, digest]) for item, digest in named)
        record = cls(body["partition"], body["spec_hash"], body["counts"], objects)
        record._check()
        return record

    def _check(self) -> None:
        """Refuse what has its CRC32C and yet is no record."""
        if not (_is_count(self.partition) and isinstance(self.spec_hash, str)):
            raise ValueError("its partition or its hash is of the wrong type")
        if not all(map(_is_count, dict.values(self.counts))):
            raise ValueError("its counts are no numbers")
        for item in self.objects:
            if not isinstance(item.path, str):
                raise ValueError("its names are of the wrong type")
            if not (
                _is_count(item.bytes) and isinstance(item.crc32c, str) and isinstance(item.body, str | None)
            ):
                raise ValueError(f"what it says of {item.path} is of the wrong type")


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
