"""Sketches of the power series of the dot-product Tanimoto kernel: TensorSketch times prefactor features."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.fft

from daskrf import seeds
from daskrf.engine import Rows, engine
from daskrf.features.sketches.prefactor import BLOCK, PrefactorFeatures

CACHE_BYTES = 64 * 2**20
"""Memory for the sketched prefactors of norms that a map has seen."""

MAX_ROWS = 2048
"""Rows in a block, whose norms are looked up together."""


def fast_length(length: int) -> int:
    """Return the largest number up to `length` whose prime factors are 2, 3 and 5.

    Examples
    --------
    >>> fast_length(1007)
    1000
    """
    while True:
        rest = length
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return length
        length -= 1


def spectra(
    weights: npt.NDArray[np.float32], places: npt.NDArray[np.int64], length: int
) -> npt.NDArray[np.float32]:
    """Return the Fourier transforms of count sketches, scaled to the coordinates of an orthonormal basis.

    Parameters
    ----------
    weights : float32 array, shape (n, P)
        Features, with their signs.
    places : int64 array, shape (P,)
        Bucket of each feature, below `length`.
    length : int

    Returns
    -------
    float32 array, shape (n, 2 (length // 2 + 1)), real and imaginary parts in turn
    """
    sketches = np.zeros((len(weights), length), np.float32)
    for place, column in zip(places, weights.T, strict=True):
        sketches[:, place] += column
    transforms = scipy.fft.rfft(sketches, axis=1)
    transforms *= np.float32(math.sqrt(2.0 / length))
    real = [0, -1] if length % 2 == 0 and length > 1 else [0]
    transforms[:, real] *= np.float32(math.sqrt(0.5))
    parts: npt.NDArray[np.float32] = transforms.view(np.float32)
    return parts


def allocate(n_components: int, n_terms: int, allocation: float) -> list[int]:
    """Return how many features each term r = 1..n_terms gets: in proportion to r^allocation.

    All but the first are rounded down to lengths for which Fourier transforms are fast. The first takes the
    remainder, because its sketch needs no transform.

    Examples
    --------
    >>> allocate(5000, 4, -1.0), allocate(4, 4, -1.0)
    ([2400, 1200, 800, 600], [1, 1, 1, 1])
    """
    # Beyond a million the shares no longer change, and the product with a logarithm would overflow.
    logarithms = min(max(allocation, -1e6), 1e6) * np.log(np.arange(1, n_terms + 1))
    shares = np.exp(logarithms - logarithms.max())
    # Cut to six digits, for a share that rounding puts slightly below a whole number.
    sizes = [max(1, int(size + 1e-6)) for size in n_components * shares / shares.sum()]
    while sum(sizes[1:]) >= n_components and n_terms > 1:
        largest = max(range(1, n_terms), key=sizes.__getitem__)
        sizes[largest] -= 1
    sizes[1:] = [fast_length(size) for size in sizes[1:]]
    sizes[0] = n_components - sum(sizes[1:])
    return sizes


@dataclass(frozen=True)
class _Term:
    """One block of features: the sketch of a power of x, its prefactor and, last, the features before it."""

    columns: slice
    length: int
    keys: npt.NDArray[np.uint64]
    places: npt.NDArray[np.int64]
    signs: npt.NDArray[np.float64]
    residual: bool


def _term(seed: int, degree: int, columns: slice, n_prefactor: int, residual: bool) -> _Term:
    length = columns.stop - columns.start
    names = [f"dotproduct/polynomial/{degree}/{j}" for j in range(degree)]
    if residual:
        names.append("dotproduct/residual")
    words = seeds.words(seed, f"dotproduct/prefactor/{degree}", n_prefactor)
    # No place repeats while there are enough places. Random signs alone make a sketch unbiased, but two
    # prefactor features in one place would scale the whole term by a common error.
    order = np.argsort(seeds.words(seed, f"dotproduct/places/{degree}", length), kind="stable")
    return _Term(
        columns=columns,
        length=length,
        keys=np.array([seeds.key(seed, name) for name in names], np.uint64),
        places=np.resize(order, n_prefactor).astype(np.int64),
        signs=1.0 - 2.0 * (words & np.uint64(1)).astype(np.float64),
        residual=residual,
    )


class _Table:
    """The sketched prefactors of up to `capacity` squared norms: one array a term, one row a norm."""

    def __init__(self, widths: list[int], capacity: int) -> None:
        self.slots: dict[float, int] = {}
        self.arrays = [np.empty((capacity, width), np.float32) for width in widths]


class TensorSketchSeries:
    """Features of sum_{r <= R} t^r, t = x . y / (|x|^2 + |y|^2), with the rest of the series on request.

    Term r is the circular convolution of r count sketches of x / |x| (TensorSketch, Pham & Pagh 2013) with
    one of the prefactor features of degree r. Term 1 is convolved directly, with 64 products for each entry
    of x. The other terms are products of Fourier transforms, and are not transformed back: in an orthonormal
    basis, the real coordinates of a transform have the same inner products as the sketch itself. The
    transformed prefactor sketch depends only on the norm, and is kept by norm.

    The sketches have independent random signs. These alone make the inner products unbiased, whatever the
    buckets and the offsets of the prefactor features: for two different entries of a tensor product the signs
    differ in one factor, and their product has mean 0.

    Parameters
    ----------
    sizes : list of int
        Features of each term and, if there is one, of the residual block.
    n_prefactor : int
    zeta : float
        Smallest squared norm; the largest is 1.
    seed : int
    residual : bool
        Whether the last block is a sketch of t^(R + 1) (1, Phi) instead of t^r.
    """

    def __init__(self, sizes: list[int], *, n_prefactor: int, zeta: float, seed: int, residual: bool) -> None:
        degrees = range(1, len(sizes) + 1)
        ends = np.cumsum([0, *sizes]).tolist()
        self._terms = [
            _term(seed, r, slice(ends[r - 1], ends[r]), n_prefactor, residual and r == len(sizes))
            for r in degrees
        ]
        words = [seeds.words(seed, f"dotproduct/offset/{r}", 1)[0] for r in degrees]
        offsets = [(int(word >> np.uint64(11)) + 0.5) / 2**53 for word in words]
        self.prefactor = PrefactorFeatures(degrees, n_prefactor, zeta, offsets)
        # Term 1 is convolved with the features themselves; the others are multiplied by spectra.
        self._widths = [n_prefactor] + [2 * (term.length // 2 + 1) for term in self._terms[1:]]
        self._capacity = max(64, CACHE_BYTES // (4 * sum(self._widths)))
        self._lock = threading.Lock()
        self._table = _Table(self._widths, self._capacity)

    def table_bytes(self, n_norms: int) -> int:
        """Return the most bytes that this many different norms take."""
        return 4 * sum(self._widths) * min(self._capacity, n_norms)

    def features(self, rows: Rows, norms: npt.NDArray[np.float64], out: npt.NDArray[np.float32]) -> None:
        """Write the features of `rows`, whose squared norms are `norms`, to `out`."""
        step = min(MAX_ROWS, self._capacity)
        for start in range(0, norms.size, step):
            stop = min(start + step, norms.size)
            block = Rows(rows.pointer[start : stop + 1], rows.columns, rows.values)
            arrays, slots = self._prefactors(norms[start:stop])
            self._write(block, arrays, slots, out[start:stop])

    def _write(
        self,
        rows: Rows,
        arrays: list[npt.NDArray[np.float32]],
        slots: npt.NDArray[np.int64],
        out: npt.NDArray[np.float32],
    ) -> None:
        first = self._terms[0]
        target = out[:, first.columns]
        engine().first_term(rows, int(first.keys[0]), first.places, arrays[0], slots, target)
        for term, array in zip(self._terms[1:], arrays[1:], strict=True):
            dense = out[:, : term.columns.start] if term.residual else None
            engine().product_term(rows, term.keys, array, slots, out[:, term.columns], dense)

    def _prefactors(
        self, norms: npt.NDArray[np.float64]
    ) -> tuple[list[npt.NDArray[np.float32]], npt.NDArray[np.int64]]:
        """Return the arrays of a table, and the row of each norm in it."""
        distinct, inverse = np.unique(norms, return_inverse=True)
        values = distinct.tolist()
        with self._lock:
            new = [value for value in values if value not in self._table.slots]
            if len(self._table.slots) + len(new) > self._capacity:
                # A new table, because another thread may still read the old one.
                self._table, new = _Table(self._widths, self._capacity), values
            table = self._table
            if new:
                self._extend(table, new)
            slots = np.array([table.slots[value] for value in values], np.int64)
        return table.arrays, slots[inverse]

    def _extend(self, table: _Table, norms: list[float]) -> None:
        for start in range(0, len(norms), BLOCK):
            chunk = norms[start : start + BLOCK]
            features = self.prefactor(np.array(chunk))
            first = len(table.slots)
            for index, term in enumerate(self._terms):
                weights = (features[:, index] * term.signs).astype(np.float32)
                if index:
                    weights = spectra(weights, term.places, term.length)
                table.arrays[index][first : first + len(chunk)] = weights
            table.slots.update((norm, first + i) for i, norm in enumerate(chunk))
