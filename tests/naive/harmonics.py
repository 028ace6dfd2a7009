"""Features of dot-product kernels on the sphere, by quadrature and whole matrices, in float64."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.special import eval_gegenbauer, gammaln, roots_gegenbauer

from daskrf import seeds
from tests.naive.fourier import hadamard


def legendre(k: int, d: int, t: np.ndarray) -> np.ndarray:
    """Return the Legendre polynomial of degree k in d dimensions, 1 at t = 1."""
    order = (d - 2) / 2
    return eval_gegenbauer(k, order, t) / eval_gegenbauer(k, order, 1.0)


def multiplicity(k: int, d: int) -> int:
    """Return the number of spherical harmonics: homogeneous polynomials of degree k less those of k - 2."""
    return math.comb(d + k - 1, k) - (math.comb(d + k - 3, k - 2) if k > 1 else 0)


@cache
def _rule(d: int) -> tuple[np.ndarray, np.ndarray]:
    # The weight (1 - t^2)^((d - 3) / 2) is that of the first coordinate of a uniform direction.
    nodes, weights = roots_gegenbauer(40, (d - 2) / 2)
    return nodes, weights / weights.sum()


def mean(function, d: int) -> float:
    """Return the mean of a function of the first coordinate of a uniform direction in d dimensions."""
    nodes, weights = _rule(d)
    return float(weights @ function(nodes))


def coefficient(n: int, k: int, d: int) -> float:
    """Return that of L_k in t^n, by the orthogonality of the L_k."""
    return multiplicity(k, d) * mean(lambda t: t**n * legendre(k, d, t), d)


def monomial(p: int, d: int, t: float) -> float:
    """Return the mean of <x, v>^p <y, v>^p over v, x.y = t: equation 32, over the surface of the sphere.

    |S_{d-3}| / |S_{d-1}| = (d - 2) / (2 pi); odd i vanish.
    """
    total = 0.0
    for i in range(0, p + 1, 2):
        logarithm = gammaln((2 * p - i + 1) / 2) - gammaln((2 * p + d) / 2)
        logarithm += gammaln((i + 1) / 2) + gammaln((d - 2) / 2)
        total += math.comb(p, i) * t ** (p - i) * (1 - t * t) ** (i / 2) * math.exp(logarithm)
    return (d - 2) / (2 * math.pi) * total


def directions(seed: int, size: int, d: int) -> np.ndarray:
    """Return `size` orthogonal directions of blocks of d, one a row."""
    n_blocks = -(-size // d)
    signs = [
        np.array([1 - 2 * (int(word) % 2) for word in seeds.words(seed, f"fastfood/{name}", n_blocks * d)])
        for name in ("signs", "signs 2", "signs 3")
    ]
    H, found = hadamard(d), []
    for block in range(n_blocks):
        a, b, c = (np.diag(one[block * d : (block + 1) * d]) for one in signs)
        found.append(H @ c @ H @ b @ H @ a / d**1.5)
    return np.concatenate(found)[:size]


def features(
    X: np.ndarray, coefficients: list[float], n_components: int, seed: int, radius: float
) -> np.ndarray:
    """Return the features by Legendre polynomials of sum_n a_n t^n, a_0 > 0, of rows of lengths up to R."""
    d = max(64, 2 ** math.ceil(math.log2(X.shape[1])))
    cells = [
        (k, n, a * radius ** (2 * n) * coefficient(n, k, d))
        for k in range(len(coefficients))
        for n, a in enumerate(coefficients)
        if k <= n and (n - k) % 2 == 0 and a > 0
    ]
    constant, rest = cells[0][2], cells[1:]
    total = sum(share for _, _, share in rest)
    size = n_components - 1
    uniform = int(seeds.words(seed, "harmonics/degrees", 1)[0]) / 2**64
    edges = np.cumsum([share for _, _, share in rest]) / total
    drawn = [rest[int(np.searchsorted(edges, (uniform + i) / size, side="right"))] for i in range(size)][::-1]
    V = directions(seed, n_components, d)
    out = np.zeros((len(X), n_components))
    for i, x in enumerate(np.asarray(X, float)):
        length = math.sqrt(float(x @ x))
        out[i, 0] = math.sqrt(constant)
        for m, (k, n, _) in enumerate(drawn):
            cosine = float(V[m + 1][: x.size] @ x) / length if length else 0.0
            value = math.sqrt(multiplicity(k, d)) * legendre(k, d, cosine)
            out[i, m + 1] = math.sqrt(total / size) * (length / radius) ** n * value
    return out
