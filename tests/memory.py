"""How much memory a call takes at most."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

TIMES = 3


def least_peak(call: Callable[[], object]) -> int:
    """Return the most bytes that were taken during a call, in the least of some calls.

    A single one also counts what is compiled or imported at first, and what other threads of the process
    allocate meanwhile. What the call keeps for the next one has to be dropped by itself.
    """
    peaks = []
    for _ in range(TIMES):
        tracemalloc.start()
        try:
            call()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)
