"""Kernels of the distance in single precision, against exponentials in double precision."""

from __future__ import annotations

import numpy as np

from daskrf.engine import engine


def test_exponentials_in_single_precision() -> None:
    z = np.concatenate([[0.0], np.logspace(-8, 2.5, 500)]).astype(np.float32)
    for form, exact in (
        ((False, 0.0, 0.0), lambda z: np.exp(-z)),
        ((True, 1.0, 0.0), lambda z: (1 + np.sqrt(z)) * np.exp(-np.sqrt(z))),
        ((True, 1.0, 1 / 3), lambda z: (1 + np.sqrt(z) + z / 3) * np.exp(-np.sqrt(z))),
    ):
        out = np.zeros((1, z.size), np.float32)
        engine().radial_values(np.zeros(1, np.float32), z, 1.0, form, out)
        assert out[0, 0] == 1.0
        np.testing.assert_allclose(out[0], exact(z.astype(float)), rtol=3e-7, atol=1.5e-7)
    out = np.zeros((1, 2), np.float32)
    engine().radial_values(
        np.full(1, np.inf, np.float32), np.ones(2, np.float32), 0.5, (False, 0.0, 0.0), out
    )
    assert (out == 0).all()
