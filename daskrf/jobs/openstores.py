"""Stores as tasks open them: once per process, and no other ones than those that the driver meant."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any, TypeVar, cast

from daskrf.errors import StoreError
from daskrf.storage.store import Store

__all__ = ["opened"]

AnyStore = TypeVar("AnyStore", bound=Store)


def opened(kind: type[AnyStore], path: str, spec_hash: str) -> AnyStore:
    """Return the store at `path`, of which a process reads the plan once: with many partitions it is long.

    Raises
    ------
    StoreError
        Another store is there than that of `spec_hash`, or none.
    """
    store: AnyStore = _opened(cast(Hashable, kind), path, spec_hash)
    return store


@functools.lru_cache(maxsize=8)
def _opened(kind: Any, path: str, spec_hash: str) -> Any:
    store = kind.open(path)
    if store.spec_hash != spec_hash:
        raise StoreError(f"{path} was replaced while it was in use; run the same command again.")
    return store
