"""Random numbers for the elements of weighted sets, whose minima over rows are the rows' random hashes.

Two hashes collide with probability T(x, y) = sum_k min(x_k, y_k) / sum_k max(x_k, y_k):

- min-wise hashing of counts: a row with count c in column k is the set of elements (k, 1), ..., (k, c);
  feature m ranks all elements by a 32-bit hash;
- consistent weighted sampling of real weights: each column has three random numbers per feature, which,
  with its weight, determine its rank; the 32-bit rank of the sample is the hash.

Each function fills a table for the distinct (column, value) pairs of a batch and 64 features, so that
whatever pairs share is computed once. All random numbers are determined by keys, column and feature: no table
by column is stored. The arithmetic is integer, or single float64 operations that round alike on every machine
(no libm, no fused multiply-add).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from daskrf.engine.cpu.jit import Intrinsic, jit, plain_or_compiled

Array = npt.NDArray[np.number]

TILE = 64
"""Features per tile: one 64-bit word of output, and eight 256-bit registers of running minima."""

_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

_MIX_1 = 0x21F0AAAD
_MIX_2 = 0xD35A2D97

_WORDS = 5
"""Random 32-bit words per column and feature: two for r, two for c, one for beta."""

_RANK_SCALE = 2.0**21
_RANK_SHIFT = 2.0**52 + 2.0**31
"""Adding it to 2^21 ln a, -1024 <= ln a < 1024, leaves 2^21 (ln a + 1024), rounded, in the low 32 bits."""

_SQRT_HALF_BITS = np.uint64(0x3FE6A09E00000000)
_ONE_BITS = np.uint64(0x3FF0000000000000)
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_EXPONENT_BITS = np.uint64(0x4330000000000000)  # of 2^52
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SMALLEST_NORMAL = 2.0**-1022


@jit
def _mix64(x: np.uint64) -> np.uint64:
    """Mix a 64-bit word with the bijective finalizer of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _MULTIPLIER_1
    x = (x ^ (x >> np.uint64(27))) * _MULTIPLIER_2
    return x ^ (x >> np.uint64(31))


def _mix32_python(x: np.uint32) -> np.uint32:
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(_MIX_1))
    x = np.uint32((x ^ (x >> np.uint32(15))) * np.uint32(_MIX_2))
    return np.uint32(x ^ (x >> np.uint32(15)))


@intrinsic
def _mix32_compiled(typing_context: object, x: types.Type) -> Intrinsic:
    """Mix a uint32 with a low-bias bijection (Wellons' hash prospector, constants of 2022).

    Emitted as 32-bit instructions: numba would widen every product to 64 bits, and vector products of 64 bits
    are several times slower.
    """

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        lane = ir.IntType(32)
        value = arguments[0]
        for shift, factor in ((16, _MIX_1), (15, _MIX_2)):
            value = builder.xor(value, builder.lshr(value, ir.Constant(lane, shift)))
            value = builder.mul(value, ir.Constant(lane, factor))
        return builder.xor(value, builder.lshr(value, ir.Constant(lane, 15)))

    return types.uint32(types.uint32), generate


# Vector code that numba cannot generate from Python; without the JIT the plain Python version is used.
mix32 = plain_or_compiled(_mix32_python, _mix32_compiled)


@jit
def fill_minwise(
    pair_column: Array,
    pair_count: Array,
    slot: Array,
    element_key: np.uint64,
    keys_low: Array,
    keys_high: Array,
    table: Array,
) -> None:
    """Write the smallest hash over levels 1..count of each pair, for each feature, to table[slot].

    Pairs come sorted by column, then count, so that the levels of a column are hashed once. Broder 1997; the
    lowest bit of a row's minimum is independent of which element is the smallest, and two distinct minima
    have the same lowest bit with probability 1/2.
    """
    running = np.empty(keys_low.size, np.uint32)
    column = np.uint64(0)
    level = 0
    for pair in range(pair_column.size):
        if pair == 0 or pair_column[pair] != pair_column[pair - 1]:
            running[:] = np.uint32(0xFFFFFFFF)
            column = _mix64(pair_column[pair] ^ element_key)
            level = 0
        while level < pair_count[pair]:
            level += 1
            element = _mix64(column + np.uint64(level) * _GOLDEN)
            low = np.uint32(element)
            high = np.uint32(element >> np.uint64(32))
            for m in range(keys_low.size):
                value = mix32(np.uint32(low ^ keys_low[m]))
                value = mix32(np.uint32(value ^ high))
                value = mix32(np.uint32(value ^ keys_high[m]))
                running[m] = min(running[m], value)
        table[slot[pair]] = running


@jit
def _log(x: np.float64) -> np.float64:
    """Return ln x of a positive normal float64 within one unit in the last place.

    Method and constants are those of fdlibm (Sun Microsystems 1993): x = 2^k (1 + f) with 1 + f between
    sqrt(1/2) and sqrt(2), and a polynomial in s = f / (2 + f). The bits are separated without
    integer-to-float conversions, which few CPUs have for vectors.
    """
    shifted = np.float64(x).view(np.uint64) + (_ONE_BITS - _SQRT_HALF_BITS)
    exponent = np.uint64((shifted >> np.uint64(52)) | _EXPONENT_BITS).view(np.float64) - (2.0**52 + 1023.0)
    f = np.uint64((shifted & _MANTISSA) + _SQRT_HALF_BITS).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    odd = z * (
        6.666666666666735130e-01
        + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    half_square = 0.5 * f * f
    return exponent * _LN2_HIGH - (
        (half_square - (s * (half_square + (even + odd)) + exponent * _LN2_LOW)) - f
    )


@jit
def logarithms(x: Array, out: Array) -> None:
    """Write ln x of positive finite float64 numbers, subnormal ones included, to `out`."""
    for i in range(x.size):
        if x[i] < _SMALLEST_NORMAL:
            out[i] = _log(np.float64(x[i] * 2.0**54)) - 54.0 * (_LN2_HIGH + _LN2_LOW)
        else:
            out[i] = _log(x[i])


@jit
def _column_words(
    column: np.uint64, element_key: np.uint64, keys_low: Array, keys_high: Array, words: Array
) -> None:
    """Write five independent 32-bit words for each feature to `words`, shape (5, features)."""
    element = _mix64(column ^ element_key)
    low = np.uint32(element)
    high = np.uint32(element >> np.uint64(32))
    for m in range(keys_low.size):
        state = mix32(np.uint32(low ^ keys_low[m]))
        state = mix32(np.uint32(state ^ high))
        words[0, m] = mix32(np.uint32(state ^ keys_high[m]))
    for i in range(_WORDS - 1, -1, -1):
        counter = np.uint32(i * 0x9E3779B9 & 0xFFFFFFFF)
        for m in range(keys_low.size):
            # Mix in the column's own word again: 64 bits of state, so that no two columns share a whole
            # stream.
            words[i, m] = mix32(np.uint32(mix32(np.uint32(words[0, m] ^ counter)) ^ low))


@jit
def _column_numbers(words: Array, numbers: Array) -> None:
    """Write 2^21 r, 1 / r, beta and 2^21 (ln c - r + r beta) for each feature to `numbers`.

    r and c are Gamma(2, 1), the sum of two exponentials; beta is uniform in (0, 1).
    """
    for m in range(words.shape[1]):
        r = -_log((words[0, m] + 0.5) * 2.0**-32 * ((words[1, m] + 0.5) * 2.0**-32))
        c = -_log((words[2, m] + 0.5) * 2.0**-32 * ((words[3, m] + 0.5) * 2.0**-32))
        beta = (words[4, m] + 0.5) * 2.0**-32
        numbers[0, m] = r * _RANK_SCALE
        numbers[1, m] = 1.0 / r
        numbers[2, m] = beta
        numbers[3, m] = (_log(c) - r + r * beta) * _RANK_SCALE


@jit
def _pair_ranks(log_weight: np.float64, numbers: Array, ranks: Array) -> None:
    """Write 2^21 (ln a + 1024), rounded to 32 bits, for each feature to `ranks`.

    t = floor(ln w / r + beta) and ln a = ln c - ln y - r with ln y = r (t - beta).
    """
    for m in range(ranks.size):
        t = np.floor(log_weight * numbers[1, m] + numbers[2, m])
        rank = (numbers[3, m] - numbers[0, m] * t) + _RANK_SHIFT
        ranks[m] = np.uint32(np.float64(rank).view(np.uint64) & np.uint64(0xFFFFFFFF))


@jit
def fill_weighted(
    pair_column: Array,
    log_weight: Array,
    slot: Array,
    element_key: np.uint64,
    keys_low: Array,
    keys_high: Array,
    table: Array,
) -> None:
    """Write the rank ln a, as 32 bits, of each pair and feature to table[slot].

    A row's sample (column, t) is the pair with the smallest ln a, which is determined by column and t alone,
    so its rank represents it. Two samples have equal ranks by chance with a probability below 2^-21. The
    lowest bit of a rank is independent of which pair is the smallest, as ln a is smooth at that scale.

    Pairs come sorted by column, so that its random numbers are generated once. Ioffe 2010; Tripp et al. 2023,
    equations 29 - 31, the last of which has a misprint.
    """
    words = np.empty((_WORDS, keys_low.size), np.uint32)
    numbers = np.empty((4, keys_low.size))
    for pair in range(pair_column.size):
        if pair == 0 or pair_column[pair] != pair_column[pair - 1]:
            _column_words(pair_column[pair], element_key, keys_low, keys_high, words)
            _column_numbers(words, numbers)
        _pair_ranks(log_weight[pair], numbers, table[slot[pair]])


@jit
def draw_levels(
    minima: Array, keys_low: Array, keys_high: Array, levels: Array, first: int, out: Array
) -> None:
    """Write levels[16 bits of a keyed hash of the minimum] for each row and feature, as columns of `out`.

    Parameters
    ----------
    minima : uint32 array, shape (n, features)
        Hashed once more, since the smallest of many numbers is small.
    keys_low, keys_high : uint32 arrays, shape (features,)
    levels : float32 array, shape (65536,)
    first : int
        Column of the first feature.
    out : C-contiguous float32 array, shape (n, any); features beyond its columns are left out
    """
    places = np.empty(keys_low.size, np.uint32)
    width = min(keys_low.size, out.shape[1] - first)
    for row in range(out.shape[0]):
        for m in range(keys_low.size):
            value = mix32(np.uint32(minima[row, m] ^ keys_low[m]))
            places[m] = mix32(np.uint32(value ^ keys_high[m])) >> np.uint32(16)
        for m in range(width):
            out[row, first + m] = levels[places[m]]


@jit
def find_pairs(
    indices: Array, values: Array, pair_of: Array, pair_column: Array, pair_value: Array, frequency: Array
) -> int:
    """Number the distinct (column, value) pairs in order of appearance; return how many there are.

    Open addressing with linear probing in a table at most half full.
    """
    size = 16
    while size < 2 * indices.size:
        size *= 2
    mask = np.uint64(size - 1)
    table = np.full(size, -1, np.int32)
    n_pairs = 0
    for i in range(indices.size):
        column = np.uint64(indices[i])
        value = values[i]
        place = _mix64((column << np.uint64(16)) ^ np.uint64(value) ^ (column >> np.uint64(48))) & mask
        while True:
            pair = table[place]
            if pair < 0:
                pair = n_pairs
                table[place] = pair
                pair_column[pair] = column
                pair_value[pair] = value
                frequency[pair] = 0
                n_pairs += 1
                break
            if pair_column[pair] == column and pair_value[pair] == value:
                break
            place = (place + np.uint64(1)) & mask
        pair_of[i] = pair
        frequency[pair] += 1
    return n_pairs
