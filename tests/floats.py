"""What agreement of floating-point features means: see "Bytes" in the design of the project."""

from __future__ import annotations

import numpy as np


def assert_agree(found: np.ndarray, expected: np.ndarray, tolerance: float = 1e-6) -> None:
    """Check that floats differ by at most `tolerance` of the largest one; bits and signs by nothing."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if found.dtype.kind != "f":
        assert found.tobytes() == expected.tobytes()
        return
    if np.unique(np.abs(expected)).size <= 1:  # bits, as signs
        assert (found == expected).all()
    largest = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * largest)
