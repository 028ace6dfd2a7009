"""Fastfood: random Fourier features by fast transforms, without a matrix of directions."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from daskrf import seeds
from daskrf.compiled import hadamard, hartley
from daskrf.errors import InputError
from daskrf.features.base import register
from daskrf.features.facts import MapFacts
from daskrf.features.fourier import FourierFeatures, Projection, Sparse, scale_of, uniform
from daskrf.kernels import Gaussian, RadialKernel

__all__ = ["FastfoodFeatures"]

TRANSFORMS = ("hadamard", "fft")

LARGEST_WIDTH = 2**20
"""Columns of the input, at most: a transform of all of them is made for every row."""

Array = npt.NDArray[Any]


@register
class FastfoodFeatures(FourierFeatures):
    """Random Fourier features of a radial kernel whose directions are products of fast transforms.

    Directions come in blocks V = S H G Pi H B of d of them, d the number of columns padded to a power of two
    of at least 8: B random signs, H the Walsh-Hadamard matrix, Pi a random permutation, G normal numbers, S
    the lengths that the kernel asks for. A row takes O(M log d) time, and the map O(M) memory: 16 bytes for
    each of the M / 2 frequencies, where those of `RandomFourierFeatures` take 4 d. Each direction by itself
    is exactly uniform, so that the features are unbiased; those of one block are not independent: for a
    Gaussian kernel of rows closer than two length scales the variance is 1.4 to 2.1 times that of independent
    ones (16 to 256 columns).

    Parameters
    ----------
    kernel : RadialKernel, default Gaussian()
        Gaussian(l), Matern(l, nu=...), UnitBalls(l, degree=...), or RadialSpectrum(radii, l).
    n_components : int, default 4096
        Number M of features, at least 2. The first features of a larger map are those of a smaller one with
        the same seed (up to their scale).
    projection : {"hadamard", "fft"}, default "hadamard"
        "fft": V = S Pi F B, F the real Fourier transform cos(2 pi j k / d) + sin(2 pi j k / d): one transform
        in place of two, without G. A direction then has entries of a fixed size, and the features are biased:
        a heuristic of the paper, close where a row has many values of similar size.
    random_state : int, default 0
        Seed of every random number of the map.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Notes
    -----
    Source: Le, Sarlos & Smola 2013, section 4 (equations 33 to 36), "FFT Fastfood" section 6.1. Equation 35
    prints the factor |G|^(-1/2) (Frobenius norm) of S; rows of H G Pi H B have the length |G| sqrt(d), so it
    is |G|^-1. Where d is padded, a direction is the part of such a row that meets columns of the input, and
    is divided by the length of this part: then it is uniform in as many dimensions as there are columns, as
    kernels of any spectrum need it.

    Examples
    --------
    >>> X = np.array([[2.0, 0.0, 1.0], [2.0, 0.0, 1.0], [0.0, 9.0, 0.0]])
    >>> Phi = FastfoodFeatures(Gaussian(length_scale=2.0), 2000).fit_transform(X)
    >>> np.abs(np.round(Phi @ Phi.T, 1)).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    facts = MapFacts(
        name="fastfood",
        kernel="Gaussian, Matern, any radial",
        rows="reals",
        features="floats",
        cost="M log d",
        holds="8 M + 32 d",
        learns="nothing",
        reference="Le, Sarlos & Smola 2013, section 4",
    )

    def __init__(
        self,
        kernel: RadialKernel = Gaussian(),  # noqa: B008, kernels are immutable
        n_components: int = 4096,
        *,
        projection: Literal["hadamard", "fft"] = "hadamard",
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.projection = projection
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.projection not in TRANSFORMS:
            raise InputError(f"projection must be one of {', '.join(TRANSFORMS)}, not {self.projection!r}.")

    def _check_columns(self, n_columns: int) -> None:
        super()._check_columns(n_columns)
        if n_columns > LARGEST_WIDTH:
            raise InputError(
                f"The rows have {n_columns:,} columns, but transforms serve {LARGEST_WIDTH:,} at most; "
                "fold the fingerprints (--size 1024, say)."
            )

    def _projection(self, n_columns: int) -> Projection:
        n_pairs = self.n_components // 2
        make = _hadamard_blocks if self.projection == "hadamard" else _fourier_blocks
        return make(self.kernel, n_columns, n_pairs, int(self.random_state))


class _Projection:
    """Projection by one kind of transform; `numbers` are the arguments of its compiled functions."""

    def __init__(self, engine: Any, n_pairs: int, *numbers: Any) -> None:
        self.n_phases = -(-n_pairs // hadamard.LANES) * hadamard.LANES
        self.numbers = numbers
        self._engine = engine

    def __call__(self, rows: Sparse | npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None:
        if isinstance(rows, Sparse):
            self._engine.project_sparse(*rows[:4], *self.numbers, out)
        else:
            self._engine.project_dense(rows, *self.numbers, out)


def _shape(d: int, n_pairs: int) -> tuple[int, int]:
    """Return how many blocks serve so many columns and pairs, and their length."""
    length = max(hadamard.LANES, 1 << (d - 1).bit_length())
    return -(-n_pairs // length), length


def _diagonals(seed: int, n_blocks: int, length: int) -> tuple[Array, Array]:
    """Return the random signs and permutations of all blocks."""
    words = seeds.words(seed, "fastfood/signs", n_blocks * length).reshape(n_blocks, length)
    order = seeds.words(seed, "fastfood/places", n_blocks * length).reshape(n_blocks, length)
    signs = (1.0 - 2.0 * (words & np.uint64(1))).astype(np.float32)
    return signs, np.argsort(order, axis=1, kind="stable").astype(np.int32)


def _scales(kernel: RadialKernel, d: int, seed: int, lengths: Array) -> Array:
    """Return by what rows of these lengths become frequencies, in turns; `lengths` of shape (blocks, d)."""
    radii = kernel.radii(lambda name: uniform(seed, f"fastfood/{name}", lengths.size), d)
    turns = radii / (2.0 * math.pi * scale_of(kernel)[1])
    return (turns.reshape(lengths.shape) / lengths).astype(np.float32)


def _lengths(projection: _Projection, d: int, n_blocks: int, length: int) -> Array:
    """Return the lengths of the rows of all blocks, of the part that meets the first d columns."""
    squares = np.zeros(n_blocks * length)
    step = max(1, 2**20 // squares.size)
    out = np.empty((min(step, d), squares.size), np.float32)
    for first in range(0, d, step):
        count = min(step, d - first)
        # Unit vectors, as sparse rows.
        columns = np.arange(first, first + count, dtype=np.int32)
        rows = Sparse(np.arange(count + 1), columns, np.ones(count, np.float32), 0, count)
        projection(rows, out[:count])
        for row in out[:count]:
            squares += np.square(row, dtype=np.float64)
    return np.sqrt(squares).reshape(n_blocks, length)


@lru_cache(maxsize=4)
def _hadamard_blocks(kernel: RadialKernel, d: int, n_pairs: int, seed: int) -> _Projection:
    """Return the projection S H G Pi H B."""
    n_blocks, length = _shape(d, n_pairs)
    signs, places = _diagonals(seed, n_blocks, length)
    normals = ndtri(uniform(seed, "fastfood/normals", n_blocks * length)).reshape(n_blocks, length)
    normals = normals.astype(np.float32)
    if d == length:
        squares = np.zeros(n_blocks)
        for column in normals.T:  # one by one, in an order that no machine changes
            squares += np.square(column, dtype=np.float64)
        lengths = np.repeat(np.sqrt(length * squares)[:, None], length, axis=1)
    else:
        plain = hadamard.Blocks(signs, places, normals, np.ones_like(signs))
        lengths = _lengths(_Projection(hadamard, signs.size, plain), d, n_blocks, length)
    blocks = hadamard.Blocks(signs, places, normals, _scales(kernel, d, seed, lengths))
    return _Projection(hadamard, n_pairs, blocks)


@lru_cache(maxsize=4)
def _fourier_blocks(kernel: RadialKernel, d: int, n_pairs: int, seed: int) -> _Projection:
    """Return the projection S Pi F B."""
    n_blocks, length = _shape(d, n_pairs)
    signs, places = _diagonals(seed, n_blocks, length)
    factors = hartley.twiddles(length)
    plain = signs, places, np.ones_like(signs)
    lengths = _lengths(_Projection(hartley, signs.size, plain, factors), d, n_blocks, length)
    return _Projection(hartley, n_pairs, (signs, places, _scales(kernel, d, seed, lengths)), factors)
