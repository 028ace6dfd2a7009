"""The one wrapper that sets numba's flags: every compiled function of the package goes through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def jit(function: F) -> F:
    """Compile `function` in nopython mode, cached on disk, without the GIL and with NumPy's error model.

    Fast-math is off: results must not depend on how a machine's vector units regroup a sum. numba invalidates
    its cache when the file of a cached function changes, not when other files do, so whatever a compiled
    function calls is in the same file. After changing the flags below, delete the caches
    (``__pycache__/*.nb?``).
    """
    try:
        compiled = numba.njit(function, cache=True, nogil=True, error_model="numpy")
    except RuntimeError:
        # No cache directory is writable (a read-only installation without a home directory).
        compiled = numba.njit(function, nogil=True, error_model="numpy")
    return cast(F, compiled)


def jit_disabled() -> bool:
    """Return whether NUMBA_DISABLE_JIT makes every compiled function run as plain Python."""
    return bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]
