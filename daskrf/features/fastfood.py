"""Fastfood: random Fourier features by fast transforms, without a matrix of directions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy.fft
from scipy.special import ndtri

from daskrf import seeds
from daskrf.engine import Blocks, Rows, engine
from daskrf.errors import InputError
from daskrf.features.featuremap import MapFacts
from daskrf.features.fourier import FourierFeatures, Projection, scale_of, uniform
from daskrf.kernels import Gaussian, MetricGaussian, RadialKernel
from daskrf.seeds import RandomState

LEAST = 64
"""Least length of blocks of orthogonal directions: the directions of shorter blocks are less uniform."""

SCRATCH = 64
"""Bytes for each entry of a block while it is projected: eight rows at a time, before and after."""

_NUMBERS = 2**16  # numbers that SciPy transforms at a time, few enough to stay in the cache

LARGEST_WIDTH = 2**20
"""Most columns of the input: every row is transformed with all of them."""

Array = npt.NDArray[np.floating]


@dataclass(eq=False, repr=False)
class FastfoodFeatures(FourierFeatures):
    """Random Fourier features of a radial kernel, with directions that are products of fast transforms.

    Directions come in blocks of d, d being the number of columns rounded up to a power of two. A row takes
    O(M log d) time. The map holds O(M) memory, 16 bytes for each of the M / 2 frequencies, where
    `RandomFourierFeatures` holds four bytes for each frequency and column.

    Parameters
    ----------
    kernel : RadialKernel, default Gaussian()
        A radial kernel. In Python ``Gaussian(l)``, ``Matern(l, nu=...)``, ``UnitBalls(l, degree=...)``, or
        ``RadialSpectrum(radii, l)``.
    n_components : int, default 4096
        Number M of features, at least 2. The first features of a larger map are those of a smaller one with
        the same seed (up to their scale).
    projection : {"auto", "orthogonal", "hadamard", "fft"}, default "auto"
        How a block V of directions is made.

        - "hadamard": the paper's S H G Pi H B. B are random signs, H is the Walsh-Hadamard matrix, Pi a
          random permutation, G normal numbers, S the lengths that the kernel asks for. Each single direction
          is exactly uniform, so the features are unbiased. Directions of a block are not independent: for
          rows closer than two length scales, the variance is up to 2.3 times that of independent directions.
        - "orthogonal": S H C H B H A with random signs A, B and C. Directions are orthogonal in d dimensions,
          d at least 64. For rows closer than a length scale the variance is a tenth to a fiftieth of that of
          "hadamard"; for distant rows it is that of independent directions. Each direction is nearly uniform:
          its second moments are exactly those of a uniform direction, its fourth moments differ by at most 8
          / d^2, and values of a Gaussian kernel by at most the fourth digit. For kernels that are positive
          definite for any number of columns: Gaussian and Matern.
        - "auto": "orthogonal" where the kernel allows it, else "hadamard".
        - "fft": S Pi F B, with the real Fourier transform F = cos(2 pi j k / d) + sin(2 pi j k / d): one
          transform, and no G. The entries of a direction then have a fixed size, and the features are biased.
          This heuristic of the paper is accurate where a row has many values of similar size.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Notes
    -----
    Source: Le, Sarlos & Smola 2013, section 4 (equations 33 to 36); "FFT Fastfood" is section 6.1. Equation
    35 prints the factor |G|^(-1/2) (Frobenius norm) in S; the rows of H G Pi H B have the length |G| sqrt(d),
    so it must be |G|^-1. Where rows are padded to d, only the part of a direction that meets columns of the
    input counts, and it is divided by its own length: it is then uniform in as many dimensions as there are
    columns, as kernels of any spectrum need. Orthogonal directions ("SORF", Yu, Suresh, Choromanski,
    Holtmann-Rice & Kumar 2016) keep all d dimensions; padded rows have zeros there.

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
        use="for folded counts, descriptors or embeddings of several hundred columns or more, at any length "
        "scale; no other random features were more accurate on docking scores at M = 4096",
        example="--length-scale 25",
    )

    kernel: RadialKernel = Gaussian()  # noqa: RUF009, kernels are immutable
    n_components: int = 4096
    _: KW_ONLY
    projection: Literal["auto", "orthogonal", "hadamard", "fft"] = "auto"
    random_state: RandomState = 0

    def words(self) -> str:
        how = {"fft": " by FFT", "hadamard": " by the paper's directions"}.get(self.projection, "")
        return f"Fastfood features{how} of the {self.kernel.words()}, {self.size_words}: prior variance 1"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.kernel, MetricGaussian):
            raise InputError(
                "Fast transforms do not support a learned metric; use RandomFourierFeatures (--map fourier) "
                "for MetricGaussian (--kernel metric)."
            )
        if self.projection == "orthogonal" and not self.kernel.any_columns:
            raise InputError(
                f"{self.kernel!r} depends on the number of columns, which padding for orthogonal directions "
                'changes; use projection="hadamard".'
            )

    def check_columns(self, n_columns: int) -> None:
        """Raise InputError if rows of `n_columns` columns are too wide for the transforms."""
        super().check_columns(n_columns)
        check_width(n_columns)

    def table_bytes(self, n_columns: int) -> int:
        """Return the bytes that it takes to make the transforms' diagonals; see `FeatureMap`."""
        orthogonal = self._kind() == "orthogonal"
        n_blocks, length = _shape(n_columns, self.n_components // 2, LEAST)
        # Random words, their order, and doubles; if not orthogonal, also the rows whose lengths are measured.
        scratch = 0 if self._kind() == "fft" else SCRATCH * length
        return n_blocks * length * (56 if orthogonal else 80) + (0 if orthogonal else 4 * 2**20) + scratch

    def _kind(self) -> str:
        """Return the projection, with "auto" resolved."""
        if self.projection != "auto":
            return self.projection
        return "orthogonal" if self.kernel.any_columns else "hadamard"

    def _projection(self, n_columns: int) -> Projection:
        n_pairs, seed = self.n_components // 2, self.seed_
        return _made_projection(self._kind(), self.kernel, n_columns, n_pairs, seed)


class _BlockProjection:
    """Projection by blocks of Walsh-Hadamard transforms."""

    def __init__(self, n_pairs: int, blocks: Blocks) -> None:
        self.n_phases = n_pairs
        self._blocks = blocks

    def __call__(self, rows: Rows | npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None:
        engine().project_blocks(rows, self._blocks, out)


class _FourierProjection:
    """Projection S Pi F B, F the real Fourier transform; each of the three of shape (blocks, length)."""

    def __init__(self, n_pairs: int, signs: Array, places: npt.NDArray[np.int32], scales: Array) -> None:
        self.n_phases = n_pairs
        self._signs, self._places, self._scales = signs, places, scales

    def __call__(self, rows: Rows | npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None:
        n, length = len(out), self._signs.shape[1]
        step = max(1, _NUMBERS // length)
        for start in range(0, n, step):
            chunk = slice(start, min(start + step, n))
            x = _padded(rows, chunk, length)
            for block, signs in enumerate(self._signs):
                first = block * length
                target = out[chunk, first : first + length]
                columns = slice(target.shape[1])
                places, scales = self._places[block, columns], self._scales[block, columns]
                np.take(_hartley(x * signs), places, axis=1, out=target, mode="clip")
                target *= scales


def _hartley(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the product of every row with cos(2 pi j k / d) + sin(2 pi j k / d)."""
    spectrum, half = scipy.fft.rfft(x, axis=1), x.shape[1] // 2
    out = np.empty_like(x)
    out[:, : half + 1] = spectrum.real - spectrum.imag
    out[:, half + 1 :] = (spectrum.real + spectrum.imag)[:, half - 1 : 0 : -1]
    return out


def _padded(rows: Rows | npt.NDArray[np.float32], chunk: slice, length: int) -> npt.NDArray[np.float32]:
    """Return some of the rows as dense rows of `length` columns."""
    x = np.zeros((chunk.stop - chunk.start, length), np.float32)
    if isinstance(rows, Rows):
        pointer = rows.pointer[chunk.start : chunk.stop + 1]
        entries = slice(pointer[0], pointer[-1])
        x[np.repeat(np.arange(len(x)), np.diff(pointer)), rows.columns[entries]] = rows.values[entries]
    else:
        x[:, : rows.shape[1]] = rows[chunk]
    return x


def check_width(n_columns: int) -> None:
    """Raise InputError if rows have more columns than the transforms can take."""
    if n_columns > LARGEST_WIDTH:
        raise InputError(
            f"The rows have {n_columns:,} columns, but fast transforms take {LARGEST_WIDTH:,} at most; "
            "fold the fingerprints (--size 1024, say), or use a map without this limit: fourier or "
            "maclaurin."
        )


def _shape(d: int, n_pairs: int, least: int = 8) -> tuple[int, int]:
    """Return how many blocks are needed for this many columns and pairs, and their length."""
    length = max(least, 1 << (d - 1).bit_length())
    return -(-n_pairs // length), length


def _signs(seed: int, name: str, shape: tuple[int, int]) -> Array:
    """Return random signs as float32."""
    words = seeds.words(seed, f"fastfood/{name}", shape[0] * shape[1]).reshape(shape)
    return (1.0 - 2.0 * (words & np.uint64(1))).astype(np.float32)


def _diagonals(seed: int, n_blocks: int, length: int) -> tuple[Array, npt.NDArray[np.int32]]:
    """Return the random signs and permutations of all blocks."""
    order = seeds.words(seed, "fastfood/places", n_blocks * length).reshape(n_blocks, length)
    places = np.argsort(order, axis=1, kind="stable").astype(np.int32)
    return _signs(seed, "signs", (n_blocks, length)), places


def _scales(kernel: RadialKernel, d: int, seed: int, lengths: Array) -> Array:
    """Return the factors that turn rows of these lengths, shape (blocks, d), into frequencies, in turns."""
    radii = kernel.radii(lambda name: uniform(seed, f"fastfood/{name}", lengths.size), d)
    turns = radii / (2.0 * math.pi * scale_of(kernel)[1])
    return (turns.reshape(lengths.shape) / lengths).astype(np.float32)


def _lengths(projection: Projection, d: int, n_blocks: int, length: int) -> Array:
    """Return the lengths of the rows of all blocks, counting only the first d columns.

    This takes d transforms. Rows that the projection does not use get the length 1.
    """
    lengths = np.ones(n_blocks * length)
    squares = np.zeros(projection.n_phases)
    step = max(1, 2**20 // squares.size)
    out = np.empty((min(step, d), squares.size), np.float32)
    for first in range(0, d, step):
        count = min(step, d - first)
        # Unit vectors, as sparse rows.
        columns = np.arange(first, first + count, dtype=np.int32)
        rows = Rows(np.arange(count + 1), columns, np.ones(count, np.float32))
        projection(rows, out[:count])
        for row in out[:count]:
            squares += np.square(row, dtype=np.float64)
    lengths[: squares.size] = np.sqrt(squares)
    return lengths.reshape(n_blocks, length)


def orthogonal_blocks(seed: int, n_blocks: int, length: int) -> tuple[Blocks, Array]:
    """Return blocks H C H B H A and the lengths of their rows, which are all equal; shape (n, length)."""
    shape = n_blocks, length
    first, second, third = (_signs(seed, name, shape) for name in ("signs", "signs 2", "signs 3"))
    places = np.empty((n_blocks, 0), np.int32)
    blocks = Blocks(first, places, second, third, np.ones_like(first))
    return blocks, np.full(shape, length**1.5)


def gaussian_blocks(seed: int, n_blocks: int, length: int) -> tuple[Blocks, Array]:
    """Return blocks H G Pi H B and the lengths of their rows, which are equal within a block."""
    signs, places = _diagonals(seed, n_blocks, length)
    normals = ndtri(uniform(seed, "fastfood/normals", n_blocks * length)).reshape(n_blocks, length)
    normals = normals.astype(np.float32)
    squares = np.zeros(n_blocks)
    for column in normals.T:  # one by one: the same order on every machine
        squares += np.square(column, dtype=np.float64)
    blocks = Blocks(signs, places, signs[:, :0], normals, np.ones_like(signs))
    return blocks, np.repeat(np.sqrt(length * squares)[:, None], length, axis=1)


BLOCKS = {"orthogonal": orthogonal_blocks, "hadamard": gaussian_blocks}


@lru_cache(maxsize=8)
def _made_projection(kind: str, kernel: RadialKernel, d: int, n_pairs: int, seed: int) -> Projection:
    """Return a projection for d columns, its directions scaled to the kernel's frequencies."""
    padded = kind == "orthogonal"  # directions of as many dimensions as the blocks are long
    n_blocks, length = _shape(d, n_pairs, LEAST if padded else 8)
    if kind == "fft":
        signs, places = _diagonals(seed, n_blocks, length)
        project: Callable[[Array], Projection] = partial(_FourierProjection, n_pairs, signs, places)
        lengths = _lengths(project(np.ones_like(signs)), d, n_blocks, length)
    else:
        blocks, lengths = BLOCKS[kind](seed, n_blocks, length)

        def project(scales: Array) -> Projection:
            return _BlockProjection(n_pairs, blocks._replace(scales=scales))

        if d < length and not padded:
            lengths = _lengths(project(blocks.scales), d, n_blocks, length)
    return project(_scales(kernel, length if padded else d, seed, lengths))
