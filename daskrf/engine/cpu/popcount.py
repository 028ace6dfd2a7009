"""Packed bits: the XOR-popcount Gram matrix, sums and means of +1/-1 features, and parities of runs of bits.

A feature is one bit: 0 stands for +1 and 1 for -1 (the factor 1/sqrt(M) is left to the caller). Bits are
packed little-endian; padding bits are zero and are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from daskrf.arrays import check_bits, n_bytes
from daskrf.engine import Float
from daskrf.engine.cpu.jit import Intrinsic, jit, plain_or_compiled
from daskrf.errors import InputError

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.int64]
Reals = npt.NDArray[np.number]

TILE = 4
"""Columns on each side of a register tile: 16 counters and 8 words stay in registers."""

ROWS = 16_384
"""Rows per block: 256 words per column, so that the 8 columns of a tile (16 KiB) stay in the L1 cache."""

COLUMNS = 256
"""Columns of a cache block: 512 KiB at 256 words, for the L2 cache."""

MEAN_BYTES = 16
"""Bytes of bits whose tables of sums are held at a time in `bit_means`: 256 KiB, for the L2 cache."""

VECTOR_BYTES = 64
"""Bytes of the sums that `bit_means` holds in vector registers, so of 8 or 16 targets."""


@jit
def _transpose_words(words: Words, rows: int, columns: Words) -> None:
    """Transpose bits: words (rows, n_words) to columns (64 n_words, row words), 64 x 64 bits at a time.

    The butterfly of Warren, Hacker's Delight (2nd edition), section 7-3: swap successively smaller
    sub-blocks.
    """
    block = np.empty(64, np.uint64)
    for first in range(0, rows, 64):
        height = min(64, rows - first)
        for word in range(words.shape[1]):
            for i in range(height):
                block[i] = words[first + i, word]
            for i in range(height, 64):
                block[i] = np.uint64(0)
            mask = np.uint64(0x00000000FFFFFFFF)
            shift = 32
            while shift:
                for high in range(0, 64, 2 * shift):
                    for i in range(high, high + shift):
                        swap = ((block[i] >> np.uint64(shift)) ^ block[i + shift]) & mask
                        block[i] ^= swap << np.uint64(shift)
                        block[i + shift] ^= swap
                shift >>= 1
                mask ^= mask << np.uint64(shift)
            for i in range(64):
                columns[64 * word + i, first // 64] = block[i]


def _popcount_python(word: int) -> int:
    return int(word).bit_count()


@intrinsic
def _popcount_compiled(typing_context: object, word: types.Type) -> Intrinsic:
    """Return the number of set bits of a uint64 as int64, with llvm.ctpop, which LLVM vectorizes."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


# LLVM has an instruction that numba does not expose; without the JIT the plain Python version is used.
popcount = plain_or_compiled(_popcount_python, _popcount_compiled)


@jit
def _count_tile(columns: Words, j: int, k: int, counts: Counts) -> None:
    """Write the popcount of (column j+a XOR column k+b) to counts[a, b], for 4 x 4 columns."""
    a0, a1, a2, a3 = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
    b0, b1, b2, b3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
    c00 = c01 = c02 = c03 = c10 = c11 = c12 = c13 = 0
    c20 = c21 = c22 = c23 = c30 = c31 = c32 = c33 = 0
    for i in range(a0.size):
        x, y, z, w = b0[i], b1[i], b2[i], b3[i]
        u = a0[i]
        c00 += popcount(u ^ x)
        c01 += popcount(u ^ y)
        c02 += popcount(u ^ z)
        c03 += popcount(u ^ w)
        u = a1[i]
        c10 += popcount(u ^ x)
        c11 += popcount(u ^ y)
        c12 += popcount(u ^ z)
        c13 += popcount(u ^ w)
        u = a2[i]
        c20 += popcount(u ^ x)
        c21 += popcount(u ^ y)
        c22 += popcount(u ^ z)
        c23 += popcount(u ^ w)
        u = a3[i]
        c30 += popcount(u ^ x)
        c31 += popcount(u ^ y)
        c32 += popcount(u ^ z)
        c33 += popcount(u ^ w)
    counts[0, 0], counts[0, 1], counts[0, 2], counts[0, 3] = c00, c01, c02, c03
    counts[1, 0], counts[1, 1], counts[1, 2], counts[1, 3] = c10, c11, c12, c13
    counts[2, 0], counts[2, 1], counts[2, 2], counts[2, 3] = c20, c21, c22, c23
    counts[3, 0], counts[3, 1], counts[3, 2], counts[3, 3] = c30, c31, c32, c33


@jit
def _accumulate_gram(columns: Words, rows: int, block: int, first: int, out: Reals) -> None:
    """Add rows - 2 popcount(column j XOR column k) to out[j, k - first] for j <= k, k from `first` on."""
    size = out.shape[0]
    counts = np.empty((TILE, TILE), np.int64)
    for k_block in range(first, size, block):
        k_stop = min(k_block + block, size)
        for j in range(0, k_stop, TILE):
            for k in range(max(j, k_block), k_stop, TILE):
                _count_tile(columns, j, k, counts)
                for a in range(min(TILE, size - j)):
                    for b in range(min(TILE, size - k)):
                        if j + a <= k + b:
                            out[j + a, k + b - first] += rows - 2 * counts[a, b]


def _as_words(bits: Bytes) -> Words:
    """Return rows of bytes as rows of little-endian 64-bit words, padded with zeros."""
    n_words = -(-bits.shape[1] // 8)
    if bits.shape[1] % 8 == 0 and bits.flags.c_contiguous and bits.ctypes.data % 8 == 0:
        return bits.view("<u8")
    padded = np.zeros((bits.shape[0], 8 * n_words), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view("<u8")


def bit_gram(bits: Reals, n_components: int, out: Reals, first: int = 0) -> None:
    """Add Phi^T Phi, or some of its columns, to `out`; see `Engine`."""
    bits = check_bits(bits, n_components)
    stop = len(out)
    if (
        first % 64
        or not 0 <= first < max(1, stop) <= max(1, n_components)
        or out.shape != (stop, stop - first)
        or out.dtype != np.int64
        or not out.flags.c_contiguous
    ):
        raise InputError(
            f"The Gram matrix of {n_components} components from column {first}, a multiple of 64, must be a "
            f"C-contiguous int64 array of shape (stop, stop - {first}), not {out.dtype} of shape {out.shape}."
        )
    words = -(-stop // 64)
    for start in range(0, bits.shape[0], ROWS):
        block = bits[start : start + ROWS, : n_bytes(stop)]
        columns = np.empty((64 * words, -(-block.shape[0] // 64)), np.uint64)
        with np.errstate(over="ignore"):
            _transpose_words(_as_words(block), block.shape[0], columns)
            _accumulate_gram(columns, block.shape[0], COLUMNS, first, out)


@jit
def _add_sums(bits: Bytes, y: Counts, out: Counts) -> None:
    """Add sum_i y_i over the rows whose bit m is 1 to out[m], for one target."""
    for i in range(bits.shape[0]):
        value = y[i]
        for byte in range(bits.shape[1]):
            b = np.int64(bits[i, byte])
            for m in range(8):
                out[8 * byte + m] += value & -((b >> m) & 1)


def bit_sums(bits: Reals, y: Counts, n_components: int) -> Counts:
    """Return Phi^T y of integers; see `Engine`."""
    bits = check_bits(bits, n_components)
    if y.ndim != 2 or y.shape[0] != bits.shape[0] or y.dtype != np.int64:
        raise InputError(
            f"y must be an int64 array of shape ({bits.shape[0]}, n_targets), "
            f"not {y.dtype} of shape {y.shape}."
        )
    out = np.empty((n_components, y.shape[1]), np.int64)
    for target in range(y.shape[1]):
        minus = np.zeros(8 * bits.shape[1], np.int64)
        _add_sums(bits, np.ascontiguousarray(y[:, target]), minus)
        out[:, target] = y[:, target].sum() - 2 * minus[:n_components]
    return out


@jit
def _fill_byte_tables(weights: Reals, tables: Reals) -> None:
    """Write to tables[b, v] the sum of +-weights[8 b + m] over the 8 signs encoded by byte value v."""
    for byte in range(tables.shape[0]):
        for value in range(256):
            for target in range(tables.shape[2]):
                total = weights.dtype.type(0)
                for m in range(8):
                    weight = weights[8 * byte + m, target]
                    total += -weight if (value >> m) & 1 else weight
                tables[byte, value, target] = total


def _add_entries_python(tables: Reals, values: Reals, row: Reals) -> None:
    for byte in range(len(values)):
        row += tables[byte, values[byte]]


@intrinsic
def _add_entries_compiled(
    typing_context: object, tables: types.Array, values: types.Array, row: types.Array
) -> Intrinsic:
    """Add the table entry of each byte to a row of sums, which stays in vector registers."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        arrays = [
            context.make_array(kind)(context, builder, argument)
            for kind, argument in zip(signature.args, arguments, strict=True)
        ]
        number = context.get_data_type(tables.dtype)
        align = context.get_abi_sizeof(number)
        lanes = ir.VectorType(number, VECTOR_BYTES // align).as_pointer()
        entries, sums = (builder.bitcast(arrays[i].data, lanes) for i in (0, 2))
        total = cgutils.alloca_once_value(builder, builder.load(sums, align=align))
        n_values = cgutils.unpack_tuple(builder, arrays[1].shape, 1)[0]
        with cgutils.for_range(builder, n_values) as loop:
            value = builder.zext(builder.load(builder.gep(arrays[1].data, [loop.index])), loop.index.type)
            place = builder.add(builder.shl(loop.index, loop.index.type(8)), value)
            entry = builder.load(builder.gep(entries, [place]), align=align)
            builder.store(builder.fadd(builder.load(total), entry), total)
        builder.store(builder.load(total), sums, align=align)
        return context.get_dummy_value()

    return types.void(tables, values, row), generate


# numba keeps a row in memory between additions, which takes three to four times as long.
_add_entries = plain_or_compiled(_add_entries_python, _add_entries_compiled)


@jit
def _add_byte_tables(bits: Reals, first: int, tables: Reals, out: Reals) -> None:
    """Add the table entries of bytes first, first + 1, ... of each row to its row of `out`."""
    for i in range(bits.shape[0]):
        _add_entries(tables, bits[i, first : first + tables.shape[0]], out[i])


def bit_means(bits: Reals, n_components: int, weights: npt.NDArray[Float]) -> npt.NDArray[Float]:
    """Return the product of features and weights; see `Engine`."""
    bits = np.ascontiguousarray(check_bits(bits, n_components))
    if weights.ndim != 2 or weights.shape[0] != n_components or weights.dtype.kind != "f":
        raise InputError(
            f"Weights must be a float array of shape ({n_components}, n_targets), "
            f"not {weights.dtype} of shape {weights.shape}."
        )
    lanes = VECTOR_BYTES // weights.dtype.itemsize
    padded = np.zeros((8 * bits.shape[1], -(-weights.shape[1] // lanes) * lanes), weights.dtype)
    padded[:n_components, : weights.shape[1]] = weights
    out = np.empty((bits.shape[0], weights.shape[1]), weights.dtype)
    for target in range(0, padded.shape[1], lanes):
        targets = slice(target, target + lanes)
        sums = np.zeros((bits.shape[0], lanes), weights.dtype)
        for byte in range(0, bits.shape[1], MEAN_BYTES):
            block = np.ascontiguousarray(padded[8 * byte : 8 * (byte + MEAN_BYTES), targets])
            tables = np.empty((block.shape[0] // 8, 256, lanes), weights.dtype)
            _fill_byte_tables(block, tables)
            _add_byte_tables(bits, byte, tables, sums)
        values = out[:, targets]
        values[:] = sums[:, : values.shape[1]]
    return out


@jit
def add_parities(bits: Words, starts: Counts, words: Words) -> None:
    """XOR the parities of runs of bits into words; see `Engine`."""
    one = np.uint64(1)
    parities = np.zeros(bits.shape[1] + 1, np.uint64)
    for row in range(bits.shape[0]):
        # Bit b of word w: the parity of all bits of the row before bit b of word w.
        carry = np.uint64(0)
        for w in range(bits.shape[1]):
            running = bits[row, w]
            for shift in (1, 2, 4, 8, 16, 32):
                running ^= running << np.uint64(shift)
            parities[w] = (running << one) ^ carry
            if running >> np.uint64(63):
                carry = ~carry
        parities[bits.shape[1]] = carry
        before = np.uint64(0)
        for m in range(starts.size - 1):
            stop = starts[m + 1]
            after = (parities[stop >> 6] >> np.uint64(stop & 63)) & one
            words[row, m >> 6] ^= (before ^ after) << np.uint64(m & 63)
            before = after
