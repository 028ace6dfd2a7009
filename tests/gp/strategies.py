"""Random problems for the tests of the Gaussian process."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def bit_problems(draw, max_rows=40, max_components=21, max_targets=3):
    """Packed bits, their number, and targets; duplicates, one row and constant columns included."""
    rng = np.random.default_rng(draw(SEEDS))
    n, m = draw(st.integers(1, max_rows)), draw(st.integers(1, max_components))
    t = draw(st.integers(1, max_targets))
    distinct = draw(st.integers(1, n))
    signs = rng.random((distinct, m)) < draw(st.sampled_from([0.0, 0.3, 0.5]))
    bits = np.packbits(signs[rng.integers(0, distinct, n)], axis=1, bitorder="little")
    y = rng.standard_normal((n, t)) * 10.0 ** rng.integers(-3, 4, t) + rng.integers(-5, 6, t)
    return bits, m, y


@st.composite
def dense_problems(draw, max_rows=30, max_components=24, max_targets=2):
    """Features, targets, new features and hyperparameters; more rows than features and fewer."""
    rng = np.random.default_rng(draw(SEEDS))
    n, m = draw(st.integers(1, max_rows)), draw(st.integers(1, max_components))
    t, distinct = draw(st.integers(1, max_targets)), draw(st.integers(1, n))
    phi = rng.standard_normal((distinct, m))[rng.integers(0, distinct, n)] / np.sqrt(m)
    y = rng.standard_normal((n, t)) + draw(st.sampled_from([0.0, -7.0]))
    hyperparameters = (
        draw(st.floats(-8, 2)),
        10.0 ** draw(st.floats(-2, 2)),
        10.0 ** draw(st.floats(-2, 1)),
    )
    return phi, y, rng.standard_normal((4, m)) / np.sqrt(m), hyperparameters
