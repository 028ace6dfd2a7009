"""What an output holds, and who is at work on it."""

from __future__ import annotations

import os

from daskrf.storage import inspection

__all__ = ["status"]


def status(store: str | os.PathLike[str]) -> inspection.StoreStatus:
    """Say what a store, a model or hits hold, who is at work on them, and how far they are.

    Raises
    ------
    StoreError
        If there is no store, or it is of an unknown format version.
    """
    return inspection.status(store)
