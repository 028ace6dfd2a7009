"""Commit records: the only evidence that a partition is complete."""

from __future__ import annotations

import builtins
import json
from dataclasses import dataclass
from typing import NamedTuple

from daskrf.stores.files import canonical_json, crc32c_of
from daskrf.stores.plans import FORMAT_VERSION

__all__ = ["CommitRecord", "StoredObject", "Survey"]

_CHECKSUM_BYTES = len(',"crc32c":"00000000"}')


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
    """

    path: str
    bytes: int
    crc32c: str


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

    def to_json(self) -> builtins.bytes:
        """The record as text, guarded by its own CRC32C."""
        body = {
            "format_version": FORMAT_VERSION,
            "partition": self.partition,
            "spec_hash": self.spec_hash,
            "counts": self.counts,
            "objects": [[item.path, item.bytes, item.crc32c] for item in self.objects],
        }
        text = canonical_json(body)
        # The checksum is the last entry, so that a reader can check the text without writing it anew.
        return b'%s,"crc32c":"%s"}' % (text[:-1], crc32c_of(text).encode())

    @classmethod
    def from_json(cls, data: builtins.bytes) -> CommitRecord:
        """Read a record.

        Raises
        ------
        ValueError, KeyError, TypeError
            Where the text is no whole and undamaged record.
        """
        text = data[:-_CHECKSUM_BYTES] + b"}"
        if data != b'%s,"crc32c":"%s"}' % (text[:-1], crc32c_of(text).encode()):
            raise ValueError("its CRC32C does not match")
        body = json.loads(text)
        objects = tuple(map(StoredObject._make, body["objects"]))
        return cls(body["partition"], body["spec_hash"], body["counts"], objects)


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
