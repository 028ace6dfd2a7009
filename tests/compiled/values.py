"""Results of every compiled function on small inputs, printed as JSON: run with and without the JIT."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import scipy.sparse as sp

from daskrf.arrays import pack_signs
from daskrf.compiled import bits as engine
from daskrf.compiled import harmonics, minhash, panels, radial, rows
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
from daskrf.kernels import Gaussian, TanimotoDotProduct, TanimotoMinMax


def digest(array: np.ndarray) -> str:
    """Return the shape, the dtype and a hash of the bytes of an array."""
    content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{array.shape} {array.dtype} {content}"


def sampling(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return what weighted sampling is made of: few of its bits alone would show how a number is rounded."""
    keys = rng.integers(0, 2**32, (2, 300), dtype=np.uint32)
    words, numbers = np.empty((5, 300), np.uint32), np.empty((4, 300))
    minhash._column_words(np.uint64(7), np.uint64(2**63 + 5), *keys, words)
    minhash._column_numbers(words, numbers)
    # A fused product and sum changes one logarithm of 20,000 near 0.73 and 1.39, those of the last four.
    weights, logarithms = np.exp(rng.normal(size=300, scale=50.0)), np.empty(300)
    weights[:3] = 5e-324, 1.0, 1.7e308
    weights[-4:] = 0.7271733278985442, 0.7293012123572182, 1.3933664861091315, 1.392478491452895
    minhash.logarithms(weights, logarithms)
    # If a product is rounded, its sum with another number is a whole number and a half, or a whole one.
    one, zero = np.ones(300), np.zeros(300)
    factors = 1.0 + rng.random(300)
    halves, wholes = 3.0 * factors + 0.5, np.ceil(3.0 * factors) - 3.0 * factors
    ranks = np.empty((3, 300), np.uint32)
    minhash._pair_ranks(logarithms[3], numbers, ranks[0])
    minhash._pair_ranks(3.0, np.stack([factors, one, zero, halves]), ranks[1])
    minhash._pair_ranks(3.0, np.stack([one, factors, wholes, zero]), ranks[2])
    return {"logarithms": logarithms, "numbers of weighted sampling": numbers, "ranks": ranks}


def products(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return sums of products: fused and rounded once where the code says so, and nowhere else."""
    real = rng.normal(size=(9, 70))
    single, out = real.astype(np.float32), np.empty((9, 9), np.float32)
    panels.multiply(single, panels.make_panels(np.ascontiguousarray(single.T)), out)
    lengths = panels.squared_lengths(single)
    found = {"products by panels": out, "squared lengths": lengths}
    for name, form in {"gaussian": (False, 0.0, 0.0), "matern": (True, 1.0, 1 / 3)}.items():
        found[f"radial {name}"] = out.copy()
        radial.radial_values(lengths, lengths, 0.013, form, found[f"radial {name}"])
    found["centred"], found["lengths of centred"] = radial.centred(real, real[0], 140.0)
    # Both roundings of this square and sum are ties, but for the digits that a product loses.
    near = np.zeros((2, 9))
    near[:, 0], near[0, 4], near[1, 8] = 1.0, *[2.0**-12 * (1.0 + 2.0**-30)] * 2
    found["lengths between two numbers"] = radial.centred(near, np.zeros(9), 140.0)[1]
    found["normalised"] = single.copy()
    rows.normalise(found["normalised"])
    pointer = np.arange(0, real.size + 1, 70)
    found["norms of unit rows"], found["unit rows"] = rows.unit_rows(pointer, real.ravel(), root=False)
    found["squared norms"] = rows.squared_norms(pointer, real.ravel())
    columns = np.tile(np.arange(70), 9)
    for name, subtract, side in (
        ("dense", rows.subtract_close, real),
        ("sparse", rows.subtract_close_sparse, (pointer, columns, real.ravel())),
    ):
        found[f"subtracted, {name}"] = np.zeros((9, 9))
        subtract(found["squared norms"], found["squared norms"], side, side, found[f"subtracted, {name}"])
    recurrence = rng.random((2, 5)).astype(np.float32)
    weights, powers = np.ones(1, np.float32), np.ones((9, 6), np.float32)
    found["polynomials"] = np.empty((9, 64), np.float32)
    tiles = np.array([[0, 64, 5, 2]])
    harmonics.add_polynomials(single, lengths, powers, tiles, weights, recurrence, found["polynomials"])
    return found


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
        "kernel of products": digest(TanimotoDotProduct()(X * 0.1, X[:3] * 1.7)),
        **{name: digest(array) for name, array in (sampling(rng) | products(rng)).items()},
    }


if __name__ == "__main__":
    print(json.dumps(values()))
