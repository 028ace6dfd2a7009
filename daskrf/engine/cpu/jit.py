"""The one wrapper that sets numba's flags: every compiled function of the package goes through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import numba
from llvmlite import ir
from numba.core.base import BaseContext
from numba.core.dispatcher import Dispatcher
from numba.core.typing.templates import Signature

F = TypeVar("F", bound=Callable[..., object])

Intrinsic = tuple[Signature, Callable[[BaseContext, ir.IRBuilder, Signature, Sequence[ir.Value]], ir.Value]]
"""What a function decorated as `intrinsic` returns: its signature, and the function that emits its code."""


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


def was_compiled(compiled: object) -> bool:
    """Return whether a function by `jit` was compiled here before, in this process or another.

    Its source may have changed since; then it will be compiled again.
    """
    if not isinstance(compiled, Dispatcher):
        return False
    if compiled.signatures:
        return True
    folder, name = compiled.stats.cache_path, compiled.py_func.__name__
    return folder is not None and any(Path(folder).glob(f"*.{name}-*.nbi"))


def jit_disabled() -> bool:
    """Return whether NUMBA_DISABLE_JIT makes every compiled function run as plain Python."""
    return bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]


def plain_or_compiled(plain: F, compiled: object) -> F:
    """Return an intrinsic, which compiled code calls as it would call `plain`, or `plain` without the JIT."""
    return plain if jit_disabled() else cast(F, compiled)
