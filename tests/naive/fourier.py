"""Walsh-Hadamard matrices, Fastfood and Fourier features, straight from their definitions, in float64."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaincinv, ndtri

from daskrf import seeds


def hadamard(d: int) -> np.ndarray:
    """Return the Walsh-Hadamard matrix: H_2d = [[H, H], [H, -H]]."""
    if d == 1:
        return np.ones((1, 1))
    half = hadamard(d // 2)
    return np.block([[half, half], [half, -half]])


def hartley(d: int) -> np.ndarray:
    """Return cos(2 pi j k / d) + sin(2 pi j k / d)."""
    angle = 2 * np.pi * np.outer(np.arange(d), np.arange(d)) / d
    return np.cos(angle) + np.sin(angle)


def stream(seed: int, name: str, count: int) -> np.ndarray:
    """Return uniform numbers of a stream."""
    return np.array([((int(word) >> 12) + 0.5) / 2**52 for word in seeds.words(seed, name, count)])


def gaussian_directions(seed: int, n_pairs: int, d: int) -> np.ndarray:
    """Return frequencies of a Gaussian kernel of length scale 1, one a row: directions times lengths."""
    normals = ndtri(stream(seed, "fourier/directions", n_pairs * d)).reshape(n_pairs, d)
    lengths = np.sqrt(2 * gammaincinv(d / 2, stream(seed, "fourier/length", n_pairs)))
    return normals / np.linalg.norm(normals, axis=1, keepdims=True) * lengths[:, None]


def metric_directions(
    seed: int, n_pairs: int, d: int, rest: float, columns: list[int], directions: np.ndarray
) -> np.ndarray:
    """Return frequencies of covariance rest I + B B^T, one a row; columns beyond the rows have no part."""
    rank = directions.shape[1]
    normals = ndtri(stream(seed, "fourier/metric", n_pairs * rank)).reshape(n_pairs, rank)
    found = math.sqrt(rest) * gaussian_directions(seed, n_pairs, d)
    for column, row in zip(columns, directions, strict=True):
        if column < d:
            found[:, column] += normals @ row.astype(float)
    return found


def orthogonal_directions(seed: int, n_pairs: int, d: int) -> np.ndarray:
    """Return the same with blocks of d orthogonal directions, by QR with a positive diagonal."""
    normals = ndtri(stream(seed, "fourier/directions", n_pairs * d)).reshape(n_pairs, d)
    lengths = np.sqrt(2 * gammaincinv(d / 2, stream(seed, "fourier/length", n_pairs)))
    found = []
    for first in range(0, n_pairs, d):
        q, r = np.linalg.qr(normals[first : first + d].T)
        found.append((q * np.sign(np.diag(r))).T)
    return np.concatenate(found) * lengths[:, None]


def fastfood_directions(seed: int, n_pairs: int, d: int, projection: str) -> np.ndarray:
    """Return the frequencies of a Gaussian kernel of length scale 1 by whole matrices, one a row."""
    size = max(64 if projection == "orthogonal" else 8, 2 ** math.ceil(math.log2(d)))
    n_blocks = -(-n_pairs // size)
    signs, signs_2, signs_3 = (
        [1 - 2 * (int(word) % 2) for word in seeds.words(seed, f"fastfood/{name}", n_blocks * size)]
        for name in ("signs", "signs 2", "signs 3")
    )
    order = seeds.words(seed, "fastfood/places", n_blocks * size).tolist()
    normals = ndtri(stream(seed, "fastfood/normals", n_blocks * size))
    dimension = size if projection == "orthogonal" else d
    lengths = np.sqrt(2 * gammaincinv(dimension / 2, stream(seed, "fastfood/length", n_blocks * size)))
    found = []
    for block in range(n_blocks):
        own = slice(block * size, (block + 1) * size)
        places = sorted(range(size), key=order[own].__getitem__)
        permutation, B, H = np.eye(size)[places], np.diag(signs[own]), hadamard(size)
        if projection == "hadamard":
            V = H @ np.diag(normals[own]) @ permutation @ H @ B
        elif projection == "orthogonal":
            V = H @ np.diag(signs_3[own]) @ H @ np.diag(signs_2[own]) @ H @ B
        else:
            V = permutation @ hartley(size) @ B
        rows = V if projection == "orthogonal" else V[:, :d]
        V = V / np.linalg.norm(rows, axis=1, keepdims=True) * lengths[own, None]
        found.append(V[:, :d])
    return np.concatenate(found)[:n_pairs]


def features(X: np.ndarray, directions: np.ndarray, n_components: int) -> np.ndarray:
    """Return cosines and sines in turn over the square root of their number; 0 in an odd last column."""
    out = np.zeros((len(X), n_components))
    for i, x in enumerate(np.asarray(X, float)):
        for j, w in enumerate(directions):
            angle = float(w @ x)
            out[i, 2 * j], out[i, 2 * j + 1] = math.cos(angle), math.sin(angle)
    return out / math.sqrt(len(directions))
