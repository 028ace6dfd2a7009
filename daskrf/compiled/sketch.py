"""Count sketches of sparse rows and their Fourier transforms, eight rows side by side.

The Fourier transforms are written out here, and not taken from a library, for the promise that a row's bytes
depend on that row alone: each of the eight lanes of a vector does the same operations as any other, in single
precision, without fused or regrouped sums.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from daskrf.compiled.jit import jit, jit_disabled

__all__ = ["FourierPlan", "Rows", "add_first_term", "add_product_term", "prefactor_spectra"]

Array = npt.NDArray[Any]

LANES = 8
"""Rows that are transformed together: one 256-bit register of single precision."""

_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)


class Rows(NamedTuple):
    """Sparse rows of length one: `values` float32, `columns` int64, `pointer` int64 as of a CSR matrix."""

    pointer: Array
    columns: Array
    values: Array


class FourierPlan(NamedTuple):
    """How a transform of one length is done: radix (2 to 5) of each pass, and the passes' twiddle factors.

    A pass of radix p over n values has the p - 1 factors exp(-2 pi i j k / n), j = 1..p - 1, real and
    imaginary parts in turn, for each k < n / p; the next pass is over n / p values.
    """

    radices: Array
    twiddles: Array


# The arithmetic is written once, for NumPy arrays of eight lanes and for vectors of LLVM alike.


class _Vector:
    """A vector of LLVM with the operators of an array."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def __add__(self, other: _Vector) -> _Vector:
        return _Vector(self.builder, self.builder.fadd(self.value, other.value))

    def __sub__(self, other: _Vector) -> _Vector:
        return _Vector(self.builder, self.builder.fsub(self.value, other.value))

    def __mul__(self, other: _Vector | float) -> _Vector:
        if isinstance(other, float):
            other = _Vector(self.builder, ir.Constant(_VECTOR, [other] * LANES))
        return _Vector(self.builder, self.builder.fmul(self.value, other.value))


_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_HALF_ROOT_3 = float(np.float32(math.sqrt(0.75)))
_COS_1, _SIN_1 = (float(np.float32(f(0.4 * math.pi))) for f in (math.cos, math.sin))
_COS_2, _SIN_2 = (float(np.float32(f(0.8 * math.pi))) for f in (math.cos, math.sin))

Complex = tuple[Any, Any]


def _plus(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def _minus(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _scaled(a: Complex, factor: float) -> Complex:
    return a[0] * factor, a[1] * factor


def _turned(a: Complex, b: Complex) -> tuple[Complex, Complex]:
    """Return a - i b and a + i b."""
    return (a[0] + b[1], a[1] - b[0]), (a[0] - b[1], a[1] + b[0])


def _times(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _small_transform(x: list[Complex]) -> list[Complex]:
    """Return the discrete Fourier transform of 2, 3, 4 or 5 complex values."""
    if len(x) == 2:
        return [_plus(x[0], x[1]), _minus(x[0], x[1])]
    if len(x) == 3:
        total = _plus(x[1], x[2])
        rest = _minus(x[0], _scaled(total, 0.5))
        return [_plus(x[0], total), *_turned(rest, _scaled(_minus(x[1], x[2]), _HALF_ROOT_3))]
    if len(x) == 4:
        even, odd = _plus(x[0], x[2]), _plus(x[1], x[3])
        first, third = _turned(_minus(x[0], x[2]), _minus(x[1], x[3]))
        return [_plus(even, odd), first, _minus(even, odd), third]
    near, far = _plus(x[1], x[4]), _plus(x[2], x[3])
    near_odd, far_odd = _minus(x[1], x[4]), _minus(x[2], x[3])
    one = _plus(x[0], _plus(_scaled(near, _COS_1), _scaled(far, _COS_2)))
    two = _plus(x[0], _plus(_scaled(near, _COS_2), _scaled(far, _COS_1)))
    first, fourth = _turned(one, _plus(_scaled(near_odd, _SIN_1), _scaled(far_odd, _SIN_2)))
    second, third = _turned(two, _minus(_scaled(near_odd, _SIN_2), _scaled(far_odd, _SIN_1)))
    return [_plus(x[0], _plus(near, far)), first, second, third, fourth]


def _pair_product(z: Complex, mirrored: Complex, factor: Complex) -> Complex:
    """Return `factor` times both spectra that the transform z of (a + i b), a and b real, holds, times 4.

    Frequency k of a is (z_k + conj z_{-k}) / 2, that of b (z_k - conj z_{-k}) / 2i.
    """
    a = z[0] + mirrored[0], z[1] - mirrored[1]
    b = z[1] + mirrored[1], mirrored[0] - z[0]
    return _times(factor, _times(a, b))


_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


def _pointer(builder: Any, base: Any, position: Any, offset: int) -> Any:
    return builder.gep(base, [builder.add(position, ir.Constant(_INT64, offset))])


def _vector_pointers(builder: Any, base: Any, position: Any) -> list[Any]:
    places = [_pointer(builder, base, position, offset) for offset in (0, LANES)]
    return [builder.bitcast(place, _VECTOR.as_pointer()) for place in places]


def _load(builder: Any, base: Any, position: Any) -> Complex:
    real, imaginary = (builder.load(p, align=4) for p in _vector_pointers(builder, base, position))
    return _Vector(builder, real), _Vector(builder, imaginary)


def _store(builder: Any, base: Any, position: Any, value: Complex) -> None:
    for part, pointer in zip(value, _vector_pointers(builder, base, position), strict=True):
        builder.store(part.value, pointer, align=4)


def _broadcast(builder: Any, base: Any, position: Any) -> Complex:
    empty, zeros = ir.Constant(_VECTOR, ir.Undefined), ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES)
    scalars = (builder.load(_pointer(builder, base, position, offset)) for offset in (0, 1))
    firsts = [builder.insert_element(empty, scalar, ir.Constant(_INT32, 0)) for scalar in scalars]
    real, imaginary = (builder.shuffle_vector(first, empty, zeros) for first in firsts)
    return _Vector(builder, real), _Vector(builder, imaginary)


def _data(context: Any, builder: Any, signature: Any, arguments: Any, *numbers: int) -> list[Any]:
    """Return the pointers to the data of the arguments of these numbers, which are arrays."""
    return [context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in numbers]


def _make_butterfly(radix: int) -> Any:
    """Return the function that transforms `radix` groups of complex lanes and applies twiddle factors.

    Its arguments: source, first place and step between groups there; target, first place and step there;
    twiddle factors and the first place there.
    """

    def python(x: Any, a: int, da: int, y: Any, b: int, db: int, w: Any, c: int) -> None:
        groups = [x[a + j * da : a + j * da + 2 * LANES].reshape(2, LANES) for j in range(radix)]
        for j, value in enumerate(_small_transform([(g[0], g[1]) for g in groups])):
            if j:
                value = _times(value, (w[c + 2 * j - 2], w[c + 2 * j - 1]))
            y[b + j * db : b + j * db + 2 * LANES] = np.concatenate(value)

    @intrinsic
    def compiled(
        typing_context: Any, x: Any, a: Any, da: Any, y: Any, b: Any, db: Any, w: Any, c: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            bases = _data(context, builder, signature, arguments, 0, 3, 6)
            _, a, da, _, b, db, _, c = arguments

            def place(start: Any, step: Any, j: int) -> Any:
                return builder.add(start, builder.mul(step, ir.Constant(_INT64, j)))

            values = _small_transform([_load(builder, bases[0], place(a, da, j)) for j in range(radix)])
            for j, value in enumerate(values):
                if j:
                    position = builder.add(c, ir.Constant(_INT64, 2 * j - 2))
                    value = _times(value, _broadcast(builder, bases[2], position))
                _store(builder, bases[1], place(b, db, j), value)
            return context.get_dummy_value()

        i64 = types.int64
        return types.none(x, i64, i64, y, i64, i64, w, i64), generate

    return python if jit_disabled() else compiled


_butterfly_2 = _make_butterfly(2)
_butterfly_3 = _make_butterfly(3)
_butterfly_4 = _make_butterfly(4)
_butterfly_5 = _make_butterfly(5)


def _make_product(pair: bool) -> Any:
    """Return the function that multiplies eight complex numbers of `total` by the spectra that z holds.

    Its arguments: z, the places of a frequency and of its mirror image there; total, and the place there.
    """

    def product(value: Complex, mirrored: Complex, factor: Complex) -> Complex:
        return _pair_product(value, mirrored, factor) if pair else _times(factor, value)

    def python(z: Any, k: int, mirror: int, total: Any, at: int) -> None:
        value, mirrored, factor = (
            tuple(array[i : i + 2 * LANES].reshape(2, LANES))
            for array, i in ((z, k), (z, mirror), (total, at))
        )
        total[at : at + 2 * LANES] = np.concatenate(product(value, mirrored, factor))

    @intrinsic
    def compiled(typing_context: Any, z: Any, k: Any, mirror: Any, total: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            z, total = _data(context, builder, signature, arguments, 0, 3)
            _, k, mirror, _, at = arguments
            value, mirrored = _load(builder, z, k), _load(builder, z, mirror)
            _store(builder, total, at, product(value, mirrored, _load(builder, total, at)))
            return context.get_dummy_value()

        return types.none(z, types.int64, types.int64, total, types.int64), generate

    return python if jit_disabled() else compiled


_multiply_pair = _make_product(True)
_multiply_one = _make_product(False)


@jit
def _word(column: Any, key: Any) -> Any:
    """Return the random word of a column: the finalizer of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = np.uint64(column) ^ key
    x = (x ^ (x >> np.uint64(30))) * _MULTIPLIER_1
    x = (x ^ (x >> np.uint64(27))) * _MULTIPLIER_2
    return x ^ (x >> np.uint64(31))


@jit
def _bucket(word: Any, length: int) -> Any:
    """Return a number below `length` from the high half of a word."""
    return np.int64(((word >> np.uint64(32)) * np.uint64(length)) >> np.uint64(32))


@jit
def _transform(source: Array, target: Array, length: int, radices: Array, twiddles: Array) -> Array:
    """Transform eight complex sequences (Stockham's self-sorting algorithm); both arrays are written to.

    Value k of all lanes stands at 16 k (real parts) and 16 k + 8 (imaginary parts). The result is in the
    array that is returned.
    """
    group = 2 * LANES
    rest, stride, at = length, 1, 0
    for radix in radices:
        part = rest // radix
        step_in, step_out = group * stride * part, group * stride
        for k in range(part):
            for q in range(stride):
                a = group * (q + stride * k)
                b = group * (q + stride * radix * k)
                if radix == 4:
                    _butterfly_4(source, a, step_in, target, b, step_out, twiddles, at)
                elif radix == 5:
                    _butterfly_5(source, a, step_in, target, b, step_out, twiddles, at)
                elif radix == 3:
                    _butterfly_3(source, a, step_in, target, b, step_out, twiddles, at)
                else:
                    _butterfly_2(source, a, step_in, target, b, step_out, twiddles, at)
            at += 2 * (radix - 1)
        source, target = target, source
        rest = part
        stride *= radix
    return source


@jit
def _sketch_lanes(rows: Rows, first: int, count: int, key: Any, buffer: Array, offset: int) -> None:
    """Add the count sketches of `count` rows to the lanes of `buffer`, from `offset`."""
    group = 2 * LANES
    length = buffer.size // group
    for lane in range(count):
        for i in range(rows.pointer[first + lane], rows.pointer[first + lane + 1]):
            word = _word(rows.columns[i], key)
            place = group * _bucket(word, length) + offset + lane
            if word & np.uint64(1):
                buffer[place] -= rows.values[i]
            else:
                buffer[place] += rows.values[i]


@jit
def _sketch_dense_lanes(dense: Array, first: int, count: int, key: Any, buffer: Array, offset: int) -> None:
    """As `_sketch_lanes`, for the rows (1, dense[row])."""
    group = 2 * LANES
    length = buffer.size // group
    for column in range(dense.shape[1] + 1):
        word = _word(column, key)
        place = group * _bucket(word, length) + offset
        sign = np.float32(-1.0) if word & np.uint64(1) else np.float32(1.0)
        for lane in range(count):
            value = dense[first + lane, column - 1] if column else np.float32(1.0)
            buffer[place + lane] += sign * value


@jit
def _multiply_spectra(spectrum: Array, length: int, pair: bool, total: Array) -> None:
    """Multiply `total`, frequencies 0 to length // 2, by the spectra of one or two real sequences."""
    group = 2 * LANES
    for k in range(length // 2 + 1):
        mirror = length - k if k else 0
        if pair:
            _multiply_pair(spectrum, group * k, group * mirror, total, group * k)
        else:
            _multiply_one(spectrum, group * k, group * mirror, total, group * k)


@jit
def _write_features(total: Array, first: int, count: int, out: Array) -> None:
    """Write the real coordinates of the spectra of `count` lanes to rows of `out`."""
    length = out.shape[1]
    for lane in range(count):
        out[first + lane, 0] = total[lane]
        for k in range(1, (length + 1) // 2):
            out[first + lane, 2 * k - 1] = total[2 * LANES * k + lane]
            out[first + lane, 2 * k] = total[2 * LANES * k + LANES + lane]
        if length % 2 == 0:
            out[first + lane, length - 1] = total[LANES * length + lane]


@jit
def _product_term(
    rows: Rows, keys: Array, plan: FourierPlan, spectra: Array, slots: Array, dense: Array, out: Array
) -> None:
    length, group = out.shape[1], 2 * LANES
    n_sparse = keys.size - 1 if dense.shape[1] else keys.size
    buffer = np.empty(group * length, np.float32)
    scratch = np.empty(group * length, np.float32)
    total = np.empty(group * (length // 2 + 1), np.float32)
    for first in range(0, slots.size, LANES):
        count = min(LANES, slots.size - first)
        total[:] = 0
        for lane in range(count):
            for k in range(length // 2 + 1):
                total[group * k + lane] = spectra[slots[first + lane], 2 * k]
                total[group * k + LANES + lane] = spectra[slots[first + lane], 2 * k + 1]
        for j in range(0, keys.size, 2):
            buffer[:] = 0
            for part in range(min(2, keys.size - j)):
                if j + part < n_sparse:
                    _sketch_lanes(rows, first, count, keys[j + part], buffer, part * LANES)
                else:
                    _sketch_dense_lanes(dense, first, count, keys[j + part], buffer, part * LANES)
            found = _transform(buffer, scratch, length, plan.radices, plan.twiddles)
            _multiply_spectra(found, length, j + 1 < keys.size, total)
        _write_features(total, first, count, out)


def add_product_term(
    rows: Rows,
    keys: npt.NDArray[np.uint64],
    plan: FourierPlan,
    spectra: npt.NDArray[np.float32],
    slots: npt.NDArray[np.int64],
    out: npt.NDArray[np.float32],
    dense: npt.NDArray[np.float32] | None = None,
) -> None:
    """Write the sketches of x^{(tensor) r}, times a cached factor each, to the rows of `out`.

    Parameters
    ----------
    rows : Rows
        n sparse rows.
    keys : uint64 array, shape (r,) or, with `dense`, (r + 1,)
        Key of each count sketch.
    plan : FourierPlan
        For the length m.
    spectra : float32 array, shape (any, 2 (m // 2 + 1))
        As :func:`prefactor_spectra` gives them, for these keys' number.
    slots : int64 array, shape (n,)
        Row of `spectra` for each row.
    out : float32 array, shape (n, m)
        Real coordinates of the sketches' Fourier transforms in an orthonormal basis: their inner products are
        those of the sketches.
    dense : float32 array, shape (n, any but 0), optional
        One factor more: the count sketch of the dense vectors (1, dense[row]).
    """
    empty = np.empty((slots.size, 0), np.float32)
    with np.errstate(over="ignore"):
        _product_term(rows, keys, plan, spectra, slots, empty if dense is None else dense, out)


@jit
def _spectra(weights: Array, places: Array, plan: FourierPlan, scale: Array, length: int) -> Array:
    group = 2 * LANES
    buffer = np.empty(group * length, np.float32)
    scratch = np.empty(group * length, np.float32)
    spectra = np.empty((weights.shape[0], 2 * scale.size), np.float32)
    for first in range(0, weights.shape[0], LANES):
        buffer[:] = 0
        for lane in range(min(LANES, weights.shape[0] - first)):
            for i in range(places.size):
                buffer[group * places[i] + lane] += weights[first + lane, i]
        found = _transform(buffer, scratch, length, plan.radices, plan.twiddles)
        for lane in range(min(LANES, weights.shape[0] - first)):
            for k in range(scale.size):
                spectra[first + lane, 2 * k] = scale[k] * found[group * k + lane]
                spectra[first + lane, 2 * k + 1] = scale[k] * found[group * k + LANES + lane]
    return spectra


def prefactor_spectra(
    weights: npt.NDArray[np.float32],
    places: npt.NDArray[np.int64],
    plan: FourierPlan,
    length: int,
    n_factors: int,
) -> npt.NDArray[np.float32]:
    """Return the Fourier transforms of sketches of prefactor features, scaled for `add_product_term`.

    Parameters
    ----------
    weights : float32 array, shape (n, P)
        Prefactor features with their signs.
    places : int64 array, shape (P,)
        Bucket of each, below `length`.
    plan : FourierPlan
        For `length`.
    n_factors : int
        Number of count sketches that will be multiplied with each.

    Returns
    -------
    float32 array, shape (n, 2 (length // 2 + 1)), real and imaginary parts in turn
    """
    scale = np.full(length // 2 + 1, math.sqrt(2.0 / length))
    scale[0] = math.sqrt(1.0 / length)
    if length % 2 == 0:
        scale[-1] = math.sqrt(1.0 / length)
    scale *= 0.25 ** (n_factors // 2)  # what the products of pairs are too large by
    return _spectra(weights, places, plan, scale.astype(np.float32), length)


@jit
def _first_term(rows: Rows, key: Any, places: Array, weights: Array, slots: Array, out: Array) -> None:
    length = out.shape[1]
    # Twice the length, folded at the end: no wrapping of places in the inner loop.
    buffer = np.empty(2 * length, np.float32)
    for row in range(slots.size):
        buffer[:] = 0
        weight = weights[slots[row]]
        for i in range(rows.pointer[row], rows.pointer[row + 1]):
            word = _word(rows.columns[i], key)
            value = -rows.values[i] if word & np.uint64(1) else rows.values[i]
            start = _bucket(word, length)
            for p in range(places.size):
                buffer[start + places[p]] += value * weight[p]
        out[row] = buffer[:length] + buffer[length:]


def add_first_term(
    rows: Rows,
    key: int,
    places: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float32],
    slots: npt.NDArray[np.int64],
    out: npt.NDArray[np.float32],
) -> None:
    """Write the circular convolution of the rows' count sketches and their prefactor sketches to `out`.

    Parameters
    ----------
    rows : Rows
    key : int
        64-bit key of the count sketch.
    places : int64 array, shape (P,)
        Bucket of each prefactor feature, below m.
    weights : float32 array, shape (any, P)
        Prefactor features with their signs.
    slots : int64 array, shape (n,)
        Row of `weights` for each row.
    out : float32 array, shape (n, m)
    """
    with np.errstate(over="ignore"):
        _first_term(rows, np.uint64(key), places, weights, slots, out)
