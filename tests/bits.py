"""Packed bits for tests."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def pack_signs(signs: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Return packed bits (negative -> 1) of signs; the inverse of `daskrf.arrays.unpack_bits`."""
    return np.packbits(np.asarray(signs) < 0, axis=1, bitorder="little")
