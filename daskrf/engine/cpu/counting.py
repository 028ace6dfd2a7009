"""Features of molecules that were read from SMILES, as RDKit counts them: environments, pairs and torsions.

Sources: Rogers & Hahn 2010 (circular environments), Carhart, Smith & Venkataraghavan 1985 (pairs of atoms),
Nilakantan et al. 1987 (topological torsions), and Gobbi & Poppinger 1998 (atom classes); identifiers are
those of RDKit's generators.
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

from daskrf.engine import Molecules, Rows
from daskrf.engine.cpu.jit import Intrinsic, jit, plain_or_compiled
from daskrf.errors import InputError

Array = npt.NDArray[np.number]

MOST_ATOMS = 192
MOST_BONDS = 208
MOST_RADIUS = 3

_NUMBER, _HYDROGENS, _CHARGE, _RING, _AROMATIC, _DEGREE = 0, 1, 2, 3, 4, 5
_SINGLE, _DOUBLE, _AROMATIC_BOND = 1, 2, 12
_CODE_BITS = 9
_MOST_BRANCHES = 7  # at an atom, besides the bond of a chain
_WORDS = 4  # of a set of bonds
_MOST_ENVIRONMENTS = MOST_ATOMS * (MOST_RADIUS + 1)
_SLOTS = 1 << 11  # for these: a hash table less than half full
_FEW = 1 << 10
"""Identifiers of a molecule that are compared with each other; more are sorted."""
_LANES, _VECTORS = 16, 2  # of identifiers that are compared at once
_SPARE = _LANES * _VECTORS  # numbers behind the last one that vectors may read or write
_DONOR, _ACCEPTOR, _AROMATIC_ATOM, _HALOGEN, _BASIC, _ACIDIC = 1, 2, 4, 8, 16, 32

# Of an atom's code in pairs: the number of its element in RDKit's list, and electrons of its valence shell.
_CODES, _ELECTRONS = np.full(54, 14, np.int64), np.full(54, 7, np.int64)
_CODES[[5, 6, 7, 8, 9, 14, 15, 16, 17, 34, 35]] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11]
_ELECTRONS[[5, 6, 7, 8, 14, 15, 16, 34]] = [3, 4, 5, 6, 4, 5, 6, 6]


@jit
def _combine(seed: np.uint32, value: np.uint32) -> np.uint32:
    """Return the 32-bit hash of a hash and a value, as boost::hash_combine."""
    mixed = (
        np.uint32(value) + np.uint32(0x9E3779B9) + np.uint32(seed << np.uint32(6)) + (seed >> np.uint32(2))
    )
    return np.uint32(seed ^ np.uint32(mixed))


@jit
def _atom_types(atoms: Array, out: Array) -> None:
    """Write the hash of element, neighbours, hydrogens, charge and being in a ring of each atom."""
    for i in range(out.size):
        hydrogens = np.uint32(atoms[i, _HYDROGENS])
        seed = _combine(np.uint32(0), np.uint32(atoms[i, _NUMBER]))
        seed = _combine(seed, np.uint32(atoms[i, _DEGREE]) + hydrogens)
        seed = _combine(seed, hydrogens)
        seed = _combine(seed, np.uint32(int(atoms[i, _CHARGE]) & 0xFFFFFFFF))
        seed = _combine(seed, np.uint32(0))  # no isotope
        out[i] = _combine(seed, np.uint32(1)) if atoms[i, _RING] else seed


@jit
def _valence(molecules: Molecules, i: int) -> int:
    """Return the total valence of an atom that is not aromatic."""
    valence = int(molecules.atoms[i, _HYDROGENS])
    for e in range(molecules.first_links[i], molecules.first_links[i] + molecules.atoms[i, _DEGREE]):
        valence += int(molecules.links[e, 2])
    return valence


@jit
def _doubly(molecules: Molecules, start: int, i: int, phosphorus_and_sulphur: bool, nitrogen: bool) -> bool:
    """Return whether an atom has a double bond to O, or to one of the other elements asked for."""
    for e in range(molecules.first_links[i], molecules.first_links[i] + molecules.atoms[i, _DEGREE]):
        j = start + molecules.links[e, 0]
        if molecules.links[e, 2] != _DOUBLE or molecules.atoms[j, _AROMATIC]:
            continue
        number = molecules.atoms[j, _NUMBER]
        if number == 8 or (nitrogen and number == 7):
            return True
        if phosphorus_and_sulphur and (number == 15 or number == 16):
            return True
    return False


@jit
def _beside_doubly(molecules: Molecules, start: int, i: int) -> bool:
    """Return whether an atom has a single bond to one with a double bond to O, N, P or S."""
    for e in range(molecules.first_links[i], molecules.first_links[i] + molecules.atoms[i, _DEGREE]):
        j = start + molecules.links[e, 0]
        if molecules.links[e, 2] == _SINGLE and _doubly(molecules, start, j, True, True):
            return True
    return False


@jit
def _near_aromatic_nitrogen(molecules: Molecules, start: int, i: int) -> bool:
    """Return whether an aromatic atom is bound to an aromatic nitrogen, or to a carbon that is."""
    for e in range(molecules.first_links[i], molecules.first_links[i] + molecules.atoms[i, _DEGREE]):
        j = start + molecules.links[e, 0]
        if molecules.links[e, 2] != _AROMATIC_BOND:
            continue
        if molecules.atoms[j, _NUMBER] == 7:
            return True
        if molecules.atoms[j, _NUMBER] != 6:
            continue
        for f in range(molecules.first_links[j], molecules.first_links[j] + molecules.atoms[j, _DEGREE]):
            k = start + molecules.links[f, 0]
            if k != i and molecules.links[f, 2] == _AROMATIC_BOND and molecules.atoms[k, _NUMBER] == 7:
                return True
    return False


@jit
def _is_amine(molecules: Molecules, start: int, i: int) -> bool:
    """Return whether a neutral aliphatic nitrogen is basic: bound to carbons that are no carbonyls."""
    hydrogens = molecules.atoms[i, _HYDROGENS]
    if hydrogens > 2:
        return False
    carbons = 0
    for e in range(molecules.first_links[i], molecules.first_links[i] + molecules.atoms[i, _DEGREE]):
        j = start + molecules.links[e, 0]
        aromatic = molecules.atoms[j, _AROMATIC]
        fits = aromatic and hydrogens if aromatic else molecules.atoms[j, _NUMBER] == 6
        if molecules.links[e, 2] == _SINGLE and fits and not _doubly(molecules, start, j, False, False):
            carbons += 1
    return bool(carbons >= 3 - hydrogens)


@jit
def _is_acid(molecules: Molecules, start: int, i: int) -> bool:
    """Return whether an aliphatic C or S has a double bond to O, S or P and a single one to OH or O-."""
    if not _doubly(molecules, start, i, True, False):
        return False
    for e in range(molecules.first_links[i], molecules.first_links[i] + molecules.atoms[i, _DEGREE]):
        j = start + molecules.links[e, 0]
        oxygen = molecules.atoms[j, _NUMBER] == 8 and not molecules.atoms[j, _AROMATIC]
        acid = molecules.atoms[j, _HYDROGENS] == 1 or molecules.atoms[j, _CHARGE] == -1
        if oxygen and acid and molecules.links[e, 2] == _SINGLE:
            return True
    return False


@jit
def _aromatic_class(molecules: Molecules, start: int, i: int) -> int:
    """Return the classes of an aromatic atom, as bits."""
    number, neutral = molecules.atoms[i, _NUMBER], molecules.atoms[i, _CHARGE] == 0
    hydrogens = molecules.atoms[i, _HYDROGENS]
    classes = _AROMATIC_ATOM
    if number == 7:
        if neutral and hydrogens == 1:
            classes |= _DONOR
        if neutral and hydrogens == 0:
            classes |= _ACCEPTOR
        if molecules.atoms[i, _CHARGE] == 1:
            classes |= _BASIC
    if (number == 8 or number == 16) and neutral and not _near_aromatic_nitrogen(molecules, start, i):
        classes |= _ACCEPTOR
    return classes


@jit
def _aliphatic_class(molecules: Molecules, start: int, i: int) -> int:
    """Return the classes of an atom that is not aromatic, as bits."""
    number, charge = molecules.atoms[i, _NUMBER], molecules.atoms[i, _CHARGE]
    hydrogens, classes = molecules.atoms[i, _HYDROGENS], 0
    if number == 7:
        valence = _valence(molecules, i)
        if hydrogens and (valence == 3 or (valence == 4 and charge == 1)):
            classes |= _DONOR
        if valence == 3 and not _beside_doubly(molecules, start, i):
            classes |= _ACCEPTOR
        if charge == 1 or (charge == 0 and _is_amine(molecules, start, i)):
            classes |= _BASIC
    elif number == 8 or number == 16:
        valence = _valence(molecules, i)
        if hydrogens == 1 and charge == 0:
            classes |= _DONOR
        free = hydrogens == 0 or (hydrogens == 1 and not _beside_doubly(molecules, start, i))
        if charge == -1 or (valence == 2 and free):
            classes |= _ACCEPTOR
    elif number == 9 or number == 17 or number == 35 or number == 53:
        classes = _HALOGEN
    if (number == 6 or number == 16) and _is_acid(molecules, start, i):
        classes |= _ACIDIC
    return classes


@jit
def _atom_classes(molecules: Molecules, out: Array) -> None:
    """Write the classes of each atom, one bit each: donor, acceptor, aromatic, halogen, basic, acidic."""
    for row in range(molecules.stops.size - 1):
        start = molecules.stops[row]
        for i in range(start, molecules.stops[row + 1]):
            if molecules.atoms[i, _AROMATIC]:
                out[i] = _aromatic_class(molecules, start, i)
            else:
                out[i] = _aliphatic_class(molecules, start, i)


@jit
def _pair_codes(molecules: Molecules, out: Array) -> None:
    """Write the code of each atom in pairs: neighbours, pi electrons and element."""
    for i in range(out.size):
        number, degree = molecules.atoms[i, _NUMBER], int(molecules.atoms[i, _DEGREE])
        if molecules.atoms[i, _AROMATIC]:
            pi = 1
        else:
            hydrogens = int(molecules.atoms[i, _HYDROGENS])
            valence = int(_valence(molecules, i))
            pi = valence - hydrogens - degree
            free = _ELECTRONS[number] - molecules.atoms[i, _CHARGE] - valence  # electrons in no bond
            if degree + hydrogens + (free + 1) // 2 == 4:  # sp3, as sulphur in a sulphone
                pi = 0
        out[i] = (degree % 7) | (pi % 3) << 3 | _CODES[number] << 5


@jit
def _sort(values: Array) -> None:
    """Sort a short array (Shell 1959)."""
    gap = 1
    while gap < values.size // 3:
        gap = 3 * gap + 1
    while gap:
        for i in range(gap, values.size):
            value = values[i]
            place = i - gap
            while place >= 0 and values[place] > value:
                values[place + gap] = values[place]
                place -= gap
            values[place + gap] = value
        gap //= 3


def _compare_python(numbers: Array, n: int, smaller: Array, equal: Array) -> None:
    smaller[:n] = (numbers[:n] < numbers[:n, None]).sum(axis=1)
    equal[:n] = (numbers[:n] == numbers[:n, None]).sum(axis=1)


@intrinsic
def _compare_compiled(
    typing_context: object, numbers: types.Array, n: types.Type, smaller: types.Array, equal: types.Array
) -> Intrinsic:
    """Write how many of the first n numbers are smaller than each of them, and how many are equal to it.

    `numbers` are uint32, `smaller` and `equal` int32, all contiguous and `_SPARE` longer than n. Each number
    is compared with vectors of others that stay in registers: a loop over an array would sum up each vector
    at its end.
    """

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        source, below, same = (
            context.make_array(signature.args[place])(context, builder, arguments[place]).data
            for place in (0, 2, 3)
        )
        int64, vector = ir.IntType(64), ir.VectorType(ir.IntType(32), _LANES)
        stop, entry = arguments[1], builder.block
        blocks = [builder.append_basic_block(f"compare.{name}") for name in ("head", "body", "each", "next")]
        head, body, each, following = blocks
        after, end = builder.append_basic_block("compare.after"), builder.append_basic_block("compare.end")

        def place_of(array: ir.Value, start: ir.Value, index: int) -> ir.Value:
            place = builder.gep(array, [builder.add(start, ir.Constant(int64, index * _LANES))])
            return builder.bitcast(place, vector.as_pointer())

        builder.branch(head)
        builder.position_at_end(head)
        start = builder.phi(int64)
        builder.cbranch(builder.icmp_signed("<", start, stop), body, end)
        builder.position_at_end(body)
        values = [builder.load(place_of(source, start, index), align=4) for index in range(_VECTORS)]
        builder.branch(each)
        builder.position_at_end(each)
        other = builder.phi(int64)
        sums = [builder.phi(vector) for _ in range(2 * _VECTORS)]
        builder.cbranch(builder.icmp_signed("<", other, stop), following, after)
        builder.position_at_end(following)
        number = builder.load(builder.gep(source, [other]))
        nothing = ir.Constant(vector, ir.Undefined)
        number = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
        number = builder.shuffle_vector(number, nothing, ir.Constant(vector, [0] * _LANES))
        for index, total in enumerate(sums):
            sign = "<" if index < _VECTORS else "=="
            holds = builder.icmp_unsigned(sign, number, values[index % _VECTORS])
            total.add_incoming(ir.Constant(vector, [0] * _LANES), body)
            total.add_incoming(builder.sub(total, builder.sext(holds, vector)), following)
        other.add_incoming(ir.Constant(int64, 0), body)
        other.add_incoming(builder.add(other, ir.Constant(int64, 1)), following)
        builder.branch(each)
        builder.position_at_end(after)
        for index, total in enumerate(sums):
            array = below if index < _VECTORS else same
            builder.store(total, place_of(array, start, index % _VECTORS), align=4)
        start.add_incoming(ir.Constant(int64, 0), entry)
        start.add_incoming(builder.add(start, ir.Constant(int64, _SPARE)), after)
        builder.branch(head)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(numbers, types.int64, smaller, equal), generate


# Vector code that numba cannot generate from Python; without the JIT the plain Python version is used.
_compare = plain_or_compiled(_compare_python, _compare_compiled)


@jit
def _add_counts(
    identifiers: Array, n: int, places: Array, counts: Array, start: int, columns: Array, values: Array
) -> int:
    """Write the distinct of n identifiers, ascending, and how often each occurs; return where they end.

    `identifiers` have room for `_SPARE` more; `places` and `counts` are buffers, int32 of shape
    (2, _FEW + _SPARE).
    """
    if n > _FEW:
        _sort(identifiers[:n])
        stop = start - 1
        for i in range(n):
            if i == 0 or identifiers[i] != identifiers[i - 1]:
                stop += 1
                columns[stop] = identifiers[i]
                values[stop] = 0
            values[stop] += 1
        return stop + 1
    # As many steps whatever the order is: the branches of a sort cannot be foreseen.
    _compare(identifiers, n, places[0], counts[0])
    places[1, :n] = -1
    for i in range(n):
        places[1, places[0, i]] = i
        counts[1, places[0, i]] = counts[0, i]
    stop = start
    for place in range(n):
        i = places[1, place]
        if i >= 0:
            columns[stop] = identifiers[i]
            values[stop] = counts[1, place]
            stop += 1
    return stop


@jit
def _grow(molecules: Molecules, start: int, i: int, sets: Array, grown: Array) -> None:
    """Write the bonds of an environment of one bond more."""
    for word in range(_WORDS):
        grown[i, word] = sets[i, word]
    first = molecules.first_links[start + i]
    for e in range(first, first + molecules.atoms[start + i, _DEGREE]):
        j, b = int(molecules.links[e, 0]), int(molecules.links[e, 1])
        for word in range(_WORDS):
            grown[i, word] |= sets[j, word]
        grown[i, b >> 6] |= np.uint64(1) << np.uint64(b & 63)


@jit
def _hash(molecules: Molecules, start: int, i: int, layer: int, current: Array, pairs: Array) -> np.uint32:
    """Return the hash of an atom's environment from those of its neighbours, one bond smaller."""
    first, degree = molecules.first_links[start + i], molecules.atoms[start + i, _DEGREE]
    for k in range(degree):
        pair = np.uint64(molecules.links[first + k, 2]) << np.uint64(32)
        pair |= np.uint64(current[molecules.links[first + k, 0]])
        place = k - 1
        while place >= 0 and pairs[place] > pair:
            pairs[place + 1] = pairs[place]
            place -= 1
        pairs[place + 1] = pair
    seed = _combine(np.uint32(layer), current[i])
    for k in range(degree):
        inner = _combine(np.uint32(0), np.uint32(pairs[k] >> np.uint64(32)))
        inner = _combine(inner, np.uint32(pairs[k] & np.uint64(0xFFFFFFFF)))
        seed = _combine(seed, inner)
    return seed


@jit
def _slot_of(grown: Array, i: int, seen: Array, digests: Array, digest: np.uint64, slots: Array) -> int:
    """Return the slot of a hash table in which a set of bonds is, or would be: it is negative then."""
    slot = np.int64(digest & np.uint64(_SLOTS - 1))
    while slots[slot] >= 0:
        place = slots[slot]
        if digests[place] == digest:
            equal = True
            for word in range(_WORDS):
                equal = equal and seen[place, word] == grown[i, word]
            if equal:
                return int(slot)
        slot = (slot + 1) & (_SLOTS - 1)
    return int(slot)


@jit
def _digest(grown: Array, i: int) -> np.uint64:
    digest = np.uint64(0)
    for word in range(_WORDS):
        digest = np.uint64((digest ^ grown[i, word]) * np.uint64(0x9E3779B97F4A7C15))
        digest ^= digest >> np.uint64(31)
    return digest


@jit
def _environments(
    molecules: Molecules,
    invariants: Array,
    radius: int,
    size: int,
    pointer: Array,
    columns: Array,
    values: Array,
) -> None:
    """Write the counts of environments of up to `radius` bonds.

    Of environments with the same bonds, that of the smallest radius counts, and of several of one radius the
    one with the smallest hash; an atom whose environment does not count is out of the game from then on.
    """
    current, following = np.zeros(MOST_ATOMS, np.uint32), np.zeros(MOST_ATOMS, np.uint32)
    dead, pairs = np.zeros(MOST_ATOMS, np.uint8), np.zeros(MOST_ATOMS, np.uint64)
    sets, grown = np.zeros((MOST_ATOMS, _WORDS), np.uint64), np.zeros((MOST_ATOMS, _WORDS), np.uint64)
    seen, digests = np.zeros((_MOST_ENVIRONMENTS, _WORDS), np.uint64), np.zeros(_MOST_ENVIRONMENTS, np.uint64)
    slots, taken = np.full(_SLOTS, -1, np.int16), np.zeros(_MOST_ENVIRONMENTS, np.int16)
    holders = np.zeros(_MOST_ENVIRONMENTS, np.int16)
    hashes = np.zeros(_MOST_ENVIRONMENTS + _SPARE, np.uint32)
    places, counts = np.zeros((2, _FEW + _SPARE), np.int32), np.zeros((2, _FEW + _SPARE), np.int32)
    for row in range(molecules.stops.size - 1):
        start = molecules.stops[row]
        n_atoms = molecules.stops[row + 1] - start
        for i in range(n_atoms):
            current[i] = hashes[i] = invariants[start + i]
            dead[i] = molecules.atoms[start + i, _DEGREE] == 0
            for word in range(_WORDS):  # all words, whose number is known to the compiler
                sets[i, word] = np.uint64(0)
        n_hashes, n_seen = n_atoms, 0
        for layer in range(radius):
            n_earlier = n_seen
            for i in range(n_atoms):
                following[i] = 0
                if dead[i]:
                    for word in range(_WORDS):
                        grown[i, word] = sets[i, word]
                    continue
                _grow(molecules, start, i, sets, grown)
                following[i] = _hash(molecules, start, i, layer, current, pairs)
                digest = _digest(grown, i)
                slot = _slot_of(grown, i, seen, digests, digest, slots)
                place = slots[slot]
                if place < 0:
                    for word in range(_WORDS):
                        seen[n_seen, word] = grown[i, word]
                    digests[n_seen], holders[n_seen] = digest, i
                    slots[slot], taken[n_seen] = n_seen, slot
                    n_seen += 1
                elif place < n_earlier or following[holders[place]] <= following[i]:
                    dead[i] = 1
                else:
                    dead[holders[place]] = 1
                    holders[place] = i
            for place in range(n_earlier, n_seen):
                hashes[n_hashes] = following[holders[place]]
                n_hashes += 1
            for i in range(n_atoms):
                current[i] = following[i]
                for word in range(_WORDS):
                    sets[i, word] = grown[i, word]
        for place in range(n_seen):
            slots[taken[place]] = -1
        if size:
            for k in range(n_hashes):
                hashes[k] %= np.uint32(size)
        pointer[row + 1] = _add_counts(hashes, n_hashes, places, counts, pointer[row], columns, values)


@jit
def _pairs(
    molecules: Molecules,
    codes: Array,
    distance: int,
    size: int,
    pointer: Array,
    columns: Array,
    values: Array,
) -> None:
    """Write the counts of pairs of atoms up to `distance` bonds apart."""
    queue, far = np.zeros(MOST_ATOMS, np.int16), np.full(MOST_ATOMS, -1, np.int16)
    identifiers = np.zeros(MOST_ATOMS * (MOST_ATOMS - 1) // 2 + _SPARE, np.uint32)
    places, counts = np.zeros((2, _FEW + _SPARE), np.int32), np.zeros((2, _FEW + _SPARE), np.int32)
    for row in range(molecules.stops.size - 1):
        start, n_pairs = molecules.stops[row], 0
        for root in range(molecules.stops[row + 1] - start):
            queue[0] = root
            far[root] = 0
            n_queued, place = 1, 0
            while place < n_queued:
                i = int(queue[place])
                place += 1
                if far[i] == distance:
                    break
                first = molecules.first_links[start + i]
                for e in range(first, first + molecules.atoms[start + i, _DEGREE]):
                    j = int(molecules.links[e, 0])
                    if far[j] >= 0:
                        continue
                    far[j] = far[i] + 1
                    queue[n_queued] = j
                    n_queued += 1
                    if j > root:
                        one, other = codes[start + root], codes[start + j]
                        identifiers[n_pairs] = _pair(
                            min(one, other), np.uint32(far[j]), max(one, other), size
                        )
                        n_pairs += 1
            for k in range(n_queued):
                far[queue[k]] = -1
        pointer[row + 1] = _add_counts(identifiers, n_pairs, places, counts, pointer[row], columns, values)


@jit
def _pair(low: np.uint32, distance: np.uint32, high: np.uint32, size: int) -> np.uint32:
    """Return the identifier of a pair, or its column among `size`."""
    if size == 0:
        return np.uint32(distance | low << np.uint32(5) | high << np.uint32(14))
    seed = _combine(_combine(_combine(np.uint32(0), low), distance), high)
    return np.uint32(seed % np.uint32(size))


@jit
def _mix64(x: np.uint64) -> np.uint64:
    """Mix a 64-bit word with the bijective finalizer of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@jit
def _torsion(path: Array, size: int) -> np.uint32:
    """Return the identifier of a chain of four atoms, mixed to 32 bits, or its column among `size`."""
    forward = path[0] < path[3] or (path[0] == path[3] and path[1] <= path[2])
    identifier, seed = np.uint64(0), np.uint32(0)
    for k in range(4):
        code = path[k] if forward else path[3 - k]
        identifier |= np.uint64(code) << np.uint64(_CODE_BITS * k)
        seed = _combine(seed, code)
    return np.uint32(seed % np.uint32(size)) if size else np.uint32(_mix64(identifier) >> np.uint64(32))


@jit
def _chain_code(code: np.uint32) -> np.uint32:
    """Return the code of an atom at the end of a chain, whose bond it leaves out; it is one less within."""
    return np.uint32(np.uint32(code - np.uint32(2)) % np.uint32(2**_CODE_BITS - 1) + np.uint32(1))


@jit
def _is_lower(codes: Array, i: int, j: int) -> bool:
    """Return whether an atom comes before another in the order of codes, and then of numbers."""
    return bool(codes[i] < codes[j] or (codes[i] == codes[j] and i < j))


@jit
def _torsions(
    molecules: Molecules, codes: Array, size: int, pointer: Array, columns: Array, values: Array
) -> None:
    """Write the counts of chains of four atoms.

    A ring of three atoms is one chain, which begins and ends at the atom of the lowest code; RDKit begins at
    the atom of the lowest number, and `daskrf.molecules.counts.counter.in_order` sorts by code.
    """
    path = np.zeros(4, np.uint32)
    most = MOST_BONDS * _MOST_BRANCHES**2
    identifiers = np.zeros(most + _SPARE, np.uint32)
    places, counts = np.zeros((2, _FEW + _SPARE), np.int32), np.zeros((2, _FEW + _SPARE), np.int32)
    for row in range(molecules.stops.size - 1):
        start, n_chains = molecules.stops[row], 0
        for i in range(start, molecules.stops[row + 1]):
            for e in range(molecules.first_links[i], molecules.first_links[i] + molecules.atoms[i, _DEGREE]):
                j = start + molecules.links[e, 0]
                if j < i:
                    continue
                path[1], path[2] = _chain_code(codes[i]) - 1, _chain_code(codes[j]) - 1
                for f in range(
                    molecules.first_links[i], molecules.first_links[i] + molecules.atoms[i, _DEGREE]
                ):
                    if start + molecules.links[f, 0] == j:
                        continue
                    begin = start + molecules.links[f, 0]
                    path[0] = _chain_code(codes[begin])
                    first = molecules.first_links[j]
                    for g in range(first, first + molecules.atoms[j, _DEGREE]):
                        end = start + molecules.links[g, 0]
                        if end == begin and not (
                            _is_lower(codes, end, i) and _is_lower(codes, end, j)  # each bond closes the ring
                        ):
                            continue
                        if end != i and n_chains < most:
                            path[3] = _chain_code(codes[end])
                            identifiers[n_chains] = _torsion(path, size)
                            n_chains += 1
        pointer[row + 1] = _add_counts(identifiers, n_chains, places, counts, pointer[row], columns, values)


def _check(molecules: Molecules, radius: int = 0) -> None:
    """Refuse what the buffers of compiled code do not hold; `read_smiles` makes no such molecules."""
    degrees = molecules.atoms[: molecules.stops[-1], _DEGREE].astype(np.int64)
    n_links = np.diff(np.concatenate([[0], np.cumsum(degrees)])[molecules.stops])
    too_large = (np.diff(molecules.stops) > MOST_ATOMS) | (n_links > 2 * MOST_BONDS)
    if too_large.any() or degrees.max(initial=0) > _MOST_BRANCHES + 1 or not 0 <= radius <= MOST_RADIUS:
        raise InputError(
            f"Molecules may have {MOST_ATOMS} atoms, {MOST_BONDS} bonds and {_MOST_BRANCHES + 1} neighbours "
            f"of an atom, and environments a radius of {MOST_RADIUS}."
        )


def environment_counts(molecules: Molecules, radius: int, *, classes: bool, size: int) -> Rows:
    """Count Morgan environments; see `Engine`."""
    _check(molecules, radius)
    n_atoms = int(molecules.stops[-1])
    invariants = np.empty(n_atoms, np.uint32)
    room = n_atoms * (radius + 1)
    pointer = np.zeros(molecules.stops.size, np.int64)
    columns, values = np.empty(room, np.uint32), np.empty(room, np.int64)
    with np.errstate(over="ignore"):
        if classes:
            _atom_classes(molecules, invariants)
        else:
            _atom_types(molecules.atoms, invariants)
        _environments(molecules, invariants, radius, size, pointer, columns, values)
    return Rows(pointer, columns[: pointer[-1]], values[: pointer[-1]])


def pair_counts(molecules: Molecules, distance: int, *, size: int) -> Rows:
    """Count pairs of atoms; see `Engine`."""
    _check(molecules)
    codes = np.empty(int(molecules.stops[-1]), np.uint32)
    pointer = np.zeros(molecules.stops.size, np.int64)
    n_atoms = np.diff(molecules.stops)
    room = int((n_atoms * (n_atoms - 1) // 2).sum())  # what is not written takes no memory
    columns, values = np.empty(room, np.uint32), np.empty(room, np.int64)
    with np.errstate(over="ignore"):
        _pair_codes(molecules, codes)
        _pairs(molecules, codes, distance, size, pointer, columns, values)
    return Rows(pointer, columns[: pointer[-1]], values[: pointer[-1]])


def torsion_counts(molecules: Molecules, *, size: int) -> Rows:
    """Count chains of four atoms; see `Engine`."""
    _check(molecules)
    codes = np.empty(int(molecules.stops[-1]), np.uint32)
    pointer = np.zeros(molecules.stops.size, np.int64)
    degrees = molecules.atoms[: codes.size, _DEGREE].astype(np.int64)
    room = int((degrees * np.maximum(degrees - 1, 0)).sum()) * _MOST_BRANCHES
    columns, values = np.empty(room, np.uint32), np.empty(room, np.int64)
    with np.errstate(over="ignore"):
        _pair_codes(molecules, codes)
        _torsions(molecules, codes, size, pointer, columns, values)
    return Rows(pointer, columns[: pointer[-1]], values[: pointer[-1]])
