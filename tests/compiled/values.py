"""Results of every compiled function on small inputs, printed as JSON: run with and without the JIT."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import scipy.sparse as sp

from daskrf.arrays import pack_signs
from daskrf.compiled import bits as engine
from daskrf.compiled.hadamard import hadamard_transform
from daskrf.features import (
    CompositionalTanimotoFeatures,
    FastfoodDotProductFeatures,
    FastfoodFeatures,
    GaussianMaclaurinFeatures,
    PolynomialSketch,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.kernels import Gaussian, TanimotoMinMax


def digest(array: np.ndarray) -> str:
    """Return the shape, the dtype and a hash of the bytes of an array."""
    content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{array.shape} {array.dtype} {content}"


def values() -> dict[str, str]:
    """Return a digest by function: 70 rows and 70 components are more than one word, and odd."""
    rng = np.random.default_rng(4)
    X = np.minimum(rng.poisson(0.3, (9, 30)), 3) * (np.arange(9) != 4)[:, None]
    X[0, 0] = 300
    bits = pack_signs(rng.integers(0, 2, (70, 70)) * 2 - 1)
    y = rng.integers(-(2**54), 2**54, (70, 2))
    weights = rng.normal(size=(70, 2))
    gram = np.zeros((70, 70), np.int64)
    engine.gram_bits(bits, 70, gram)
    real = rng.normal(size=(3, 128)).astype(np.float32)
    hadamard_transform(real)
    fourier = {
        "fourier": RandomFourierFeatures(Gaussian(3.0), 70),
        "orthogonal": RandomFourierFeatures(Gaussian(3.0), 70, orthogonal=True),
        "fastfood": FastfoodFeatures(Gaussian(3.0), 70),
        "fastfood of products": FastfoodDotProductFeatures(n_components=70),
        "fastfood by hadamard": FastfoodFeatures(Gaussian(3.0), 70, projection="hadamard"),
        "fastfood by fft": FastfoodFeatures(Gaussian(3.0), 70, projection="fft"),
    }
    return {
        "minhash bits": digest(TanimotoMinMaxFeatures(70, random_state=3).transform_bits(X)),
        "minhash normals": digest(
            TanimotoMinMaxFeatures(70, distribution="gaussian", random_state=3).transform(X)
        ),
        "cws bits": digest(TanimotoMinMaxFeatures(70, hashing="cws", random_state=3).transform_bits(X * 0.3)),
        "cws normals": digest(
            TanimotoMinMaxFeatures(70, distribution="gaussian", hashing="cws").transform(X * 1e-300)
        ),
        "compositional bits": digest(CompositionalTanimotoFeatures(n_components=70).transform_bits(X)),
        **{
            f"dot product {correction}": digest(
                TanimotoDotProductFeatures(70, n_terms=3, bias_correction=correction).fit_transform(X)
            )
            for correction in (None, "normalize", "residual")
        },
        "hadamard": digest(real),
        **{
            f"{name}, {kind.__name__}": digest(feature_map.transform(kind(X)))
            for name, feature_map in fourier.items()
            for kind in (np.array, sp.csr_matrix)
        },
        "maclaurin": digest(RandomMaclaurinFeatures(n_components=70).transform(X * 0.3)),
        **{
            f"polynomial {method}": digest(PolynomialSketch(3, 70, method=method, c=0.5).transform(X * 0.3))
            for method in ("rademacher", "gaussian", "tensorsrht", "tensorsketch")
        },
        "gaussian maclaurin": digest(GaussianMaclaurinFeatures(70, length_scale=3.0).fit_transform(X)),
        "gram_bits": digest(gram),
        "phi_y": digest(engine.phi_y(bits, y, 70)),
        "column_sums": digest(engine.column_sums(bits, 70)),
        "bit_means": digest(engine.bit_means(bits[:5], 70, weights)),
        "bit_means float32": digest(engine.bit_means(bits[:5], 70, weights.astype(np.float32))),
        "kernel of counts": digest(TanimotoMinMax()(X, X[:3])),
        "kernel of weights": digest(TanimotoMinMax()(X * 0.1, X[:3] * 1e9)),
    }


if __name__ == "__main__":
    print(json.dumps(values()))
