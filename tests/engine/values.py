"""Results of every compiled function on small inputs, printed as JSON: run with and without the JIT."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from daskrf.engine import BondKind, engine
from daskrf.engine.cpu import hashes
from daskrf.features import (
    CompositionFeatures,
    PolynomialSketch,
    RandomMaclaurinFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.kernels import TanimotoDotProduct, TanimotoMinMax
from tests.bits import pack_signs


def digest(array: np.ndarray) -> str:
    """Return the shape, the dtype and a hash of the bytes of an array."""
    content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{array.shape} {array.dtype} {content}"


def sampling(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return what weighted sampling is made of: few of its bits alone would show how a number is rounded."""
    keys = rng.integers(0, 2**32, (2, 300), dtype=np.uint32)
    words, numbers = np.empty((5, 300), np.uint32), np.empty((4, 300))
    hashes._column_words(np.uint64(7), np.uint64(2**63 + 5), *keys, words)
    hashes._column_numbers(words, numbers)
    # A fused product and sum changes one logarithm of 20,000 near 0.73 and 1.39, those of the last four.
    weights, logarithms = np.exp(rng.normal(size=300, scale=50.0)), np.empty(300)
    weights[:3] = 5e-324, 1.0, 1.7e308
    weights[-4:] = 0.7271733278985442, 0.7293012123572182, 1.3933664861091315, 1.392478491452895
    hashes.logarithms(weights, logarithms)
    # If a product is rounded, its sum with another number is a whole number and a half, or a whole one.
    one, zero = np.ones(300), np.zeros(300)
    factors = 1.0 + rng.random(300)
    halves, wholes = 3.0 * factors + 0.5, np.ceil(3.0 * factors) - 3.0 * factors
    ranks = np.empty((3, 300), np.uint32)
    hashes._pair_ranks(logarithms[3], numbers, ranks[0])
    hashes._pair_ranks(3.0, np.stack([factors, one, zero, halves]), ranks[1])
    hashes._pair_ranks(3.0, np.stack([one, factors, wholes, zero]), ranks[2])
    return {"logarithms": logarithms, "numbers of weighted sampling": numbers, "ranks": ranks}


def reading() -> dict[str, str]:
    """Return what is read and counted of a few SMILES, with a table of two ring systems."""
    text = np.frombuffer(b"CC(=O)Oc1ccccc1C(=O)O[O-][n+]1ccccc1C1CC1C[N+](C)(C)CC[13CH3]c1cc[nH]c1", np.uint8)
    stops = np.array([0, 21, 36, 41, 53, 61, 71])
    table: dict[bytes, bytes] = {}
    for _ in range(2):
        read = engine().read_smiles(text, stops, engine().ring_table(table), dots=False)
        for key in read.unknown:
            n_bonds = (len(key) - 1 - 4 * key[0]) // 3
            table[key] = bytes([0, *[129] * key[0], *[12] * n_bonds])
    atoms, blocks = int(read.molecules.stops[-1]), np.array([0x9DEB0387], np.uint32)
    kinds = [BondKind("torsion", 0), BondKind("substituents", 0), BondKind("positions", 0, blocks)]
    of_bonds = engine().bond_counts(read.molecules, kinds)
    counts = {
        "types": engine().environment_counts(read.molecules, 3, classes=False, size=0),
        "classes": engine().environment_counts(read.molecules, 2, classes=True, size=1000),
        "pairs": engine().pair_counts(read.molecules, 4, size=0),
        **dict(zip(("torsions", "substituents", "positions"), of_bonds, strict=True)),
        "folded pairs": engine().pair_counts(read.molecules, 30, size=100),
    }
    return {
        "read status": digest(read.status),
        "read atoms": digest(read.molecules.atoms[:atoms]),
        "read keys": digest(np.frombuffer(b"".join(sorted(table)), np.uint8)),
        **{f"counted {name}": digest(np.concatenate(rows)) for name, rows in counts.items()},
    }


def values() -> dict[str, str]:
    """Return a digest by function: 70 rows and 70 components are more than one word, and odd."""
    rng = np.random.default_rng(4)
    X = np.minimum(rng.poisson(0.3, (9, 30)), 3) * (np.arange(9) != 4)[:, None]
    X[0, 0] = 300
    bits = pack_signs(rng.integers(0, 2, (70, 70)) * 2 - 1)
    y = rng.integers(-(2**54), 2**54, (70, 2))
    weights = rng.normal(size=(70, 2))
    gram = np.zeros((70, 70), np.int64)
    engine().bit_gram(bits, 70, gram)
    real = rng.normal(size=(3, 128)).astype(np.float32)
    engine().hadamard_transform(real)
    keys = engine().hash_texts(np.arange(200, dtype=np.uint8), np.array([0, 0, 1, 9, 42, 50, 200]))
    slots, numbers = np.full(7, -1, np.int32), np.empty(6, np.int32)
    engine().number_keys(keys[::-1].copy(), slots, numbers)
    return {
        **reading(),
        "hashes of texts": digest(keys),
        "table of keys": digest(slots),
        "found in a table of keys": digest(engine().find_keys(keys[::-1].copy(), slots, keys)),
        "minhash bits": digest(TanimotoMinMaxFeatures(70, random_state=3).transform_bits(X)),
        "minhash normals": digest(
            TanimotoMinMaxFeatures(70, distribution="gaussian", random_state=3).transform(X)
        ),
        "cws bits": digest(TanimotoMinMaxFeatures(70, hashing="cws", random_state=3).transform_bits(X * 0.3)),
        "cws normals": digest(
            TanimotoMinMaxFeatures(70, distribution="gaussian", hashing="cws").transform(X * 1e-300)
        ),
        "compositional bits": digest(CompositionFeatures(n_components=70).transform_bits(X)),
        "hadamard": digest(real),
        "maclaurin": digest(RandomMaclaurinFeatures(n_components=70).transform(X * 0.3)),
        **{
            f"polynomial {method}": digest(PolynomialSketch(3, 70, method=method, c=0.5).transform(X * 0.3))
            for method in ("rademacher", "gaussian", "tensorsrht")
        },
        "gram_bits": digest(gram),
        "phi_y": digest(engine().bit_sums(bits, y, 70)),
        "bit_means": digest(engine().bit_means(bits[:5], 70, weights)),
        "bit_means float32": digest(engine().bit_means(bits[:5], 70, weights.astype(np.float32))),
        "kernel of counts": digest(TanimotoMinMax()(X, X[:3])),
        "kernel of weights": digest(TanimotoMinMax()(X * 0.1, X[:3] * 1e9)),
        "kernel of products": digest(TanimotoDotProduct()(X * 0.1, X[:3] * 1.7)),
        **{name: digest(array) for name, array in sampling(rng).items()},
    }


if __name__ == "__main__":
    print(json.dumps(values()))
