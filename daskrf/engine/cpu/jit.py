"""The one wrapper that owns the flags of numba: every compiled function of the package goes through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

__all__ = ["jit", "jit_disabled"]

F = TypeVar("F", bound=Callable[..., object])


def jit(function: F) -> F:
    """Compile `function` in nopython mode, cached on disk, without the GIL and with NumPy's error model.

    Fast-math is off: results must not depend on how a machine's vector units regroup a sum. numba notices a
    change of the file that a cached function stands in, not of other files: whatever a compiled function
    calls stands in its own file. After a change of the flags below delete the caches (``__pycache__/*.nb?``).
    """
    try:
        compiled = numba.njit(function, cache=True, nogil=True, error_model="numpy")
    except RuntimeError:
        # No directory to cache in can be written to (a read-only installation without a home directory).
        compiled = numba.njit(function, nogil=True, error_model="numpy")
    return cast(F, compiled)


def jit_disabled() -> bool:
    """Return True where NUMBA_DISABLE_JIT makes every compiled function run as plain Python."""
    return bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]
