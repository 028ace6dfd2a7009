"""Whether compiled functions run as plain Python in this process, which is too slow for large tests."""

from __future__ import annotations

import numba

__all__ = ["jit_disabled"]


def jit_disabled() -> bool:
    """Return True where NUMBA_DISABLE_JIT makes every compiled function run as plain Python."""
    return bool(numba.config.DISABLE_JIT)
