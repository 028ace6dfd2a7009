"""The features of molecules from the bytes that helper processes send."""

from __future__ import annotations

import numpy as np

from daskrf.molecules.counts.features import Features
from daskrf.molecules.counts.lingo import lingos, sum_equal
from daskrf.molecules.counts.spec import FingerprintSpec
from daskrf.seeds import splitmix64


def unpacked(spec: FingerprintSpec, bodies: list[bytes]) -> Features:
    """Return the features of one kind from the bytes that the helpers sent."""
    if spec.kind == "lingo":
        indptr, ids, counts = lingos(body.decode() for body in bodies)
    else:
        entries = np.frombuffer(b"".join(bodies), [("id", f"<u{spec.width}"), ("count", "<i4")])
        sizes = np.fromiter(map(len, bodies), dtype=np.int64, count=len(bodies))
        indptr = np.concatenate([[0], np.cumsum(sizes // entries.itemsize)])
        ids, counts = entries["id"].astype(np.uint64), entries["count"].astype(np.int64)
    if (spec.kind, bool(spec.size)) in (("torsion", False), ("lingo", True)):
        hashed = splitmix64(ids) >> np.uint64(32)
        indptr, ids, counts = sum_equal(
            indptr, hashed % np.uint64(spec.size) if spec.size else hashed, counts
        )
    return indptr, ids, counts if spec.counts else np.minimum(counts, 1)
