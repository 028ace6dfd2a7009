"""TensorSRHT: products of subsampled randomized Hadamard transforms."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.engine import engine
from daskrf.errors import InputError
from daskrf.features.sketches.projections import ScaledRows

MAX_WIDTH = 1 << 20
"""Most columns of a dense row: 4 MiB."""

_BATCH_BYTES = 1 << 18
"""Bytes of the dense rows that are transformed together; they stay in the second-level cache."""


def check_dense(n_columns: int) -> None:
    """Raise InputError if rows have too many columns to be made dense."""
    if n_columns > MAX_WIDTH:
        raise InputError(
            f"The fingerprints have {n_columns:,} columns, but tensorsrht makes rows dense and takes at most "
            f"{MAX_WIDTH:,} columns; fold the fingerprints, or use method='rademacher'."
        )


class SubsampledHadamard:
    """M features, each a product of n entries of H D_i x, with the Hadamard matrix H and random signs D_i.

    Features come in blocks of d, the width: one d-point Walsh-Hadamard transform for each factor, whose
    results are shuffled. The last block keeps only the first of its features.

    Parameters
    ----------
    n_components, degree : int
        M and n >= 1.
    width : int
        d, a power of two.
    seed : int
    name : str
        Prefix of the random streams.

    Notes
    -----
    Source: Wacker & Filippone 2022, algorithm 2. Signs and places take 3 bytes for each feature and factor,
    or 5 if d is above 65,536.
    """

    def __init__(self, n_components: int, degree: int, width: int, seed: int, name: str) -> None:
        self.width = width
        self.size = n_components
        self.degree = degree
        shape = -(-n_components // width), degree, width
        words = seeds.words(seed, f"{name}/tensorsrht", shape[0] * degree * width).reshape(shape)
        self._signs = 1 - 2 * (words & np.uint64(1)).astype(np.int8)
        # The other bits determine the order of the results.
        order = np.argsort(words >> np.uint64(1), axis=2, kind="stable")
        self._order = order.astype(np.uint16 if width <= 1 << 16 else np.uint32)

    @staticmethod
    def table_bytes(parts: Iterable[tuple[int, int]], width: int) -> int:
        """Return the bytes of the tables of objects with this many features and factors, made one by one.

        Signs and places come from 64-bit words and their order. After that, eight rows are transformed
        together.
        """
        numbers = [degree * width * -(-size // width) for size, degree in parts]
        return 5 * sum(numbers) + max(24 * max(numbers, default=0), 32 * width)

    def write(
        self,
        rows: ScaledRows,
        origin: npt.NDArray[np.float32],
        out: npt.NDArray[np.float32],
        scales: npt.NDArray[np.float64] | None = None,
    ) -> None:
        """Write the features of the rows less `origin`, of shape (d,), to `out`.

        With `scales`, the transforms of each factor are multiplied by a number.
        """
        values, weight = rows.scaled(), np.float32(1.0 / np.sqrt(self.size))
        batch = max(1, _BATCH_BYTES // (4 * self.width))
        for start in range(0, out.shape[0], batch):
            stop = min(start + batch, out.shape[0])
            entries = slice(rows.pointer[start], rows.pointer[stop])
            dense = np.zeros((stop - start, self.width), np.float32)
            row_of = np.repeat(np.arange(stop - start), np.diff(rows.pointer[start : stop + 1]))
            dense[row_of, rows.columns[entries]] = values[entries]
            dense -= origin
            buffer = np.empty_like(dense)
            for b in range(self._signs.shape[0]):
                target = out[start:stop, b * self.width : min((b + 1) * self.width, self.size)]
                target[:] = weight * rows.starts[start:stop, None]
                for i in range(self.degree):
                    factor = np.float32(1.0 if scales is None else scales[i])
                    np.multiply(dense, self._signs[b, i] * factor, out=buffer)
                    _transform(buffer)
                    with np.errstate(over="ignore", invalid="ignore"):
                        target *= buffer[:, self._order[b, i, : target.shape[1]]]


def _transform(x: npt.NDArray[np.float32]) -> None:
    """Multiply every row by the Walsh-Hadamard matrix, in place; short rows by NumPy."""
    n, width = x.shape
    if width >= 8:
        engine().hadamard_transform(x)
        return
    step = 1
    while step < width:
        pairs = x.reshape(n, -1, 2, step)
        x[:] = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(
            n, width
        )
        step *= 2
