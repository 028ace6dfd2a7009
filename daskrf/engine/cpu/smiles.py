"""Molecules from the bytes of SMILES: atoms, hydrogens, charges, rings, aromatic atoms and bonds.

The text is read once. Each atom but the first of a fragment has a parent, so that the atoms of a ring are
those on the way between the ends of its closure. What is aromatic depends on the conjugated ring systems
alone, and on what hangs on them: each is written as a key and looked up in a table of what RDKit makes of it.
Whatever this does not know for certain (elements, valences, unusual syntax, systems that RDKit changes) is
left to RDKit.

A key is, in bytes: the number of atoms; for each atom, in the order of the text, its atomic number times two
plus one if it is in lower case, its brackets (0, or 128 plus 16 times charge + 3 plus hydrogens), its single
bonds that leave the system plus 8 times the order of a multiple bond that leaves it, and the element at the
end of that; for each bond of the system its two atoms and its order. Hydrogens and substituents of carbon
without brackets are alike to RDKit's perception, as are those of amines; so such bonds are not in the key.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from daskrf.engine import ASK, DONE, UNKNOWN, Molecules, Readings, RingTable
from daskrf.engine.cpu.jit import jit, was_compiled

Array = npt.NDArray[np.number]
Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

MOST_ATOMS = 192
MOST_BONDS = 208
_MOST_NEIGHBOURS = 8
MOST_CLOSURES = 14
"""With more, RDKit's rings are bounded before they are looked for."""

_KEY_BYTES = 1 + 4 * MOST_ATOMS + 3 * MOST_BONDS
_MOST_KEYS = 1 << 12  # unknown ring systems that one call reports

# Columns of atoms; the first five are those of `Molecules`.
_NUMBER, _HYDROGENS, _CHARGE, _RING, _AROMATIC = 0, 1, 2, 3, 4
_LOWER, _BRACKET, _PARENT, _PARENT_BOND = 5, 6, 7, 8  # as written
_LINK, _NEXT, _DEGREE, _ORDERS, _MULTIPLE = 9, 10, 11, 12, 13  # first link, next one, and sums over bonds
_PLAIN, _SYSTEM, _BLOCK, _PLACE, _REGION = 14, 15, 16, 17, 18  # plain: in no aromatic ring
_TIME, _LOW, _CAME = 19, 20, 21  # of the search for bridges
_ATOM_COLUMNS = 22

# Columns of bonds.
_FIRST, _SECOND, _ORDER, _KIND, _CYCLIC, _JOINED = 0, 1, 2, 3, 4, 5  # order as written, kind as it becomes
_BOND_COLUMNS = 6

_DEFAULT, _SINGLE, _DOUBLE, _TRIPLE, _DIRECTED, _AROMATIC_BOND = 0, 1, 2, 3, 5, 12

# What was read last.
_START, _ATOM, _BOND, _OPEN, _CLOSE, _DOT, _CLOSURE = 0, 1, 2, 3, 4, 5, 6

# Columns of what is counted while a molecule is read.
_ATOMS, _BONDS_READ, _FRAGMENTS, _OPENED, _CLOSED, _CONJUGATED = 0, 1, 2, 3, 4, 5
_SIZES = 6

_LARGEST_CHARGE = 3


def _letters(text: str, numbers: tuple[int, ...]) -> npt.NDArray[np.int16]:
    table = np.zeros(256, np.int16)
    for letter, number in zip(text, numbers, strict=True):
        table[ord(letter)] = number
    return table


# Atomic numbers by letter; lower case is aromatic.
_ELEMENTS = _letters("BCNOPSFIcnos", (5, 6, 7, 8, 15, 16, 9, 53, 6, 7, 8, 16))
_BONDS = _letters("-=#:/\\", (_SINGLE, _DOUBLE, _TRIPLE, _AROMATIC_BOND, _DIRECTED, _DIRECTED))

# The largest valence, hydrogens included, of an element (row) with charge -1, 0 or 1 (column) that RDKit
# takes as it is; -1 if it is left to RDKit. Sulphur and phosphorus have others, see `_fits`.
_VALENCES = np.full((54, 3), -1, np.int16)
_VALENCES[[5, 6, 7, 8, 15, 16]] = [(4, 3, -1), (3, 4, 3), (2, 3, 4), (1, 2, 3), (-1, 3, 4), (1, 2, 3)]
_VALENCES[[9, 17, 35, 53]] = (0, 1, -1)
_VALENCES[[14, 34]] = [(-1, 4, -1), (-1, 2, -1)]


@jit
def _fits(number: int, charge: int, valence: int) -> bool:
    """Return whether RDKit leaves an atom of this valence, hydrogens included, as it is."""
    if charge < -1 or charge > 1:
        return False
    if charge == 0 and ((number == 16 and valence in (4, 6)) or (number == 15 and valence == 5)):
        return True
    return bool(valence <= _VALENCES[number, charge + 1])


@jit
def _implied(number: int, orders: int) -> int:
    """Return the hydrogens of an atom without brackets; negative if it has too many bonds."""
    full = int(_VALENCES[number, 1])
    if number == 16 and orders > 2:
        full = 4 if orders <= 4 else 6
    elif number == 15 and orders > 3:
        full = 5
    return full - orders


@jit
def _read_organic(text: Array, place: int, stop: int, atom: Array) -> int:
    """Read an atom without brackets, of which one letter was read; return the place after it."""
    letter = text[place - 1]
    atom[_NUMBER] = _ELEMENTS[letter]
    atom[_LOWER] = letter >= 97
    atom[_BRACKET] = atom[_HYDROGENS] = atom[_CHARGE] = 0
    if place < stop and text[place] == 108 and letter == 67:  # Cl
        atom[_NUMBER] = 17
        return place + 1
    if place < stop and text[place] == 114 and letter == 66:  # Br
        atom[_NUMBER] = 35
        return place + 1
    return place


@jit
def _read_boxed(text: Array, place: int, stop: int, atom: Array) -> int:
    """Read an atom in brackets, after the first; return the place after the second, or -1."""
    if place + 1 >= stop:
        return -1
    letter, other = text[place], text[place + 1]
    atom[_NUMBER] = _ELEMENTS[letter]
    atom[_LOWER] = letter >= 97
    atom[_BRACKET] = 1
    atom[_HYDROGENS] = atom[_CHARGE] = 0
    place += 1
    if other >= 97:  # a second letter
        place += 1
        if letter == 67 and other == 108:
            atom[_NUMBER] = 17
        elif letter == 66 and other == 114:
            atom[_NUMBER] = 35
        elif letter == 83 and other == 105:
            atom[_NUMBER] = 14
        elif (letter == 83 or letter == 115) and other == 101:
            atom[_NUMBER] = 34
        else:
            return -1
    if atom[_NUMBER] == 0:
        return -1
    for _ in range(2):  # chirality
        if place < stop and text[place] == 64:
            place += 1
    if place < stop and text[place] == 72:
        place += 1
        atom[_HYDROGENS] = 1
        if place < stop and 48 <= text[place] <= 57:
            atom[_HYDROGENS] = text[place] - 48
            place += 1
    if place < stop and (text[place] == 43 or text[place] == 45):
        place = _read_charge(text, place, stop, atom)
    if place >= stop or text[place] != 93 or abs(atom[_CHARGE]) > _LARGEST_CHARGE:
        return -1
    return place + 1


@jit
def _read_charge(text: Array, place: int, stop: int, atom: Array) -> int:
    """Read a charge; return the place after it."""
    sign = text[place]
    step = 1 if sign == 43 else -1
    place += 1
    atom[_CHARGE] = step
    if place < stop and 49 <= text[place] <= 57:
        atom[_CHARGE] = step * (int(text[place]) - 48)
        return place + 1
    while place < stop and text[place] == sign and abs(atom[_CHARGE]) <= _LARGEST_CHARGE:
        atom[_CHARGE] += step
        place += 1
    return place


@jit
def _order(bond: int, one: bool, other: bool) -> int:
    """Return the order of a bond as written between atoms in lower case or not; 0 if it is left to RDKit."""
    if bond in (_DEFAULT, _DIRECTED):
        return _AROMATIC_BOND if one and other else _SINGLE
    return 0 if bond == _AROMATIC_BOND and not (one and other) else bond


@jit
def _add_atom(atoms: Array, bonds: Array, sizes: Array, previous: int, bond: int) -> bool:
    """Count the atom that was read, and bind it to the one before; return whether that is possible."""
    n_atoms, n_bonds = sizes[_ATOMS], sizes[_BONDS_READ]
    atoms[n_atoms, _PARENT] = previous
    sizes[_ATOMS] += 1
    if previous < 0:
        sizes[_FRAGMENTS] += 1
        return bond == _DEFAULT
    order = _order(bond, atoms[n_atoms, _LOWER] > 0, atoms[previous, _LOWER] > 0)
    bonds[n_bonds, _FIRST], bonds[n_bonds, _SECOND] = previous, n_atoms
    bonds[n_bonds, _ORDER], bonds[n_bonds, _CYCLIC] = order, 0
    atoms[n_atoms, _PARENT_BOND] = n_bonds
    sizes[_BONDS_READ] += 1
    return order > 0


@jit
def _close(atoms: Array, bonds: Array, sizes: Array, one: int, other: int, bond: int) -> bool:
    """Add the bond that closes a ring, and mark those on the way between its ends as cyclic."""
    n_bonds = sizes[_BONDS_READ]
    order = _order(bond, atoms[one, _LOWER] > 0, atoms[other, _LOWER] > 0)
    if one == other or n_bonds == MOST_BONDS or order == 0:
        return False
    for b in range(n_bonds):
        if bonds[b, _FIRST] == one and bonds[b, _SECOND] == other:
            return False
        if bonds[b, _FIRST] == other and bonds[b, _SECOND] == one:
            return False
    bonds[n_bonds, _FIRST], bonds[n_bonds, _SECOND] = one, other
    bonds[n_bonds, _ORDER], bonds[n_bonds, _CYCLIC] = order, 1
    sizes[_BONDS_READ] += 1
    sizes[_CLOSED] += 1
    while one != other:
        if one > other:
            bonds[atoms[one, _PARENT_BOND], _CYCLIC] = 1
            one = int(atoms[one, _PARENT])
        else:
            bonds[atoms[other, _PARENT_BOND], _CYCLIC] = 1
            other = int(atoms[other, _PARENT])
    return True


@jit
def _read_closure(text: Array, place: int, stop: int) -> int:
    """Return the number of a ring closure whose first letter was read; -1 if it is left to RDKit."""
    if text[place - 1] != 37:  # %
        return int(text[place - 1]) - 48
    if place + 1 >= stop or not (49 <= text[place] <= 57 and 48 <= text[place + 1] <= 57):
        return -1
    return 10 * (int(text[place]) - 48) + int(text[place + 1]) - 48


@jit
def _add_closure(
    atoms: Array, bonds: Array, sizes: Array, opened: Array, number: int, atom: int, bond: int
) -> bool:
    """Open or close a ring at an atom; return whether that is possible."""
    if opened[number, 0] < 0:
        opened[number, 0], opened[number, 1] = atom, bond
        sizes[_OPENED] += 1
        return True
    other, written = int(opened[number, 0]), int(opened[number, 1])
    opened[number, 0] = -1
    sizes[_OPENED] -= 1
    if written != _DEFAULT and bond != _DEFAULT and written != bond:
        return False
    return _close(atoms, bonds, sizes, other, atom, max(written, bond))


@jit
def _parse(text: Array, atoms: Array, bonds: Array, stack: Array, opened: Array, sizes: Array) -> bool:
    """Read atoms and bonds as written; return whether all of the text was understood."""
    sizes[:] = 0
    opened[:, 0] = -1
    place, stop, depth = 0, text.size, 0
    last, before, bond, previous = _START, _START, _DEFAULT, -1
    while place < stop:
        letter = text[place]
        place += 1
        complete = last in (_ATOM, _CLOSURE, _CLOSE)
        if _ELEMENTS[letter] or letter == 91:
            atom = sizes[_ATOMS]
            if atom == MOST_ATOMS or sizes[_BONDS_READ] == MOST_BONDS:
                return False
            if letter == 91:
                place = _read_boxed(text, place, stop, atoms[atom])
            else:
                place = _read_organic(text, place, stop, atoms[atom])
            if place < 0 or not _add_atom(atoms, bonds, sizes, previous, bond):
                return False
            previous, bond, last = atom, _DEFAULT, _ATOM
        elif 48 <= letter <= 57 or letter == 37:
            number = _read_closure(text, place, stop)
            here = last in (_ATOM, _CLOSURE) or (last == _BOND and before == _ATOM)
            if number < 0 or not here:
                return False
            place += 2 if letter == 37 else 0
            if not _add_closure(atoms, bonds, sizes, opened, number, previous, bond):
                return False
            bond, last = _DEFAULT, _CLOSURE
        elif letter == 40 and complete and depth < MOST_ATOMS:
            stack[depth] = previous
            depth, last = depth + 1, _OPEN
        elif letter == 41 and complete and depth:
            previous = int(stack[depth - 1])
            depth, last = depth - 1, _CLOSE
        elif _BONDS[letter] and (complete or last == _OPEN):
            before = _ATOM if last in (_ATOM, _CLOSURE) else _OPEN
            bond, last = int(_BONDS[letter]), _BOND
        elif letter == 46 and complete and depth == 0 and sizes[_OPENED] == 0:
            previous, last = -1, _DOT
        else:
            return False
    complete = last in (_ATOM, _CLOSURE, _CLOSE)
    return complete and depth == 0 and sizes[_OPENED] == 0 and sizes[_CLOSED] <= MOST_CLOSURES


@jit
def _link(atoms: Array, bonds: Array, links: Array, sizes: Array) -> bool:
    """List the neighbours of each atom, and sum up its bonds; return whether none has too many."""
    n_atoms, n_bonds = sizes[_ATOMS], sizes[_BONDS_READ]
    for i in range(n_atoms):
        atoms[i, _RING] = atoms[i, _AROMATIC] = 0
        atoms[i, _DEGREE] = atoms[i, _ORDERS] = atoms[i, _MULTIPLE] = 0
    for b in range(n_bonds):
        order = bonds[b, _ORDER]
        single = order in (_AROMATIC_BOND, _SINGLE)
        bonds[b, _KIND] = _SINGLE if single else order
        bonds[b, _JOINED] = 0
        for end in range(2):
            i = bonds[b, end]
            atoms[i, _DEGREE] += 1
            atoms[i, _ORDERS] += bonds[b, _KIND]
            atoms[i, _MULTIPLE] += not single
            atoms[i, _RING] |= bonds[b, _CYCLIC]
    start = 0
    for i in range(n_atoms):
        atoms[i, _LINK] = atoms[i, _NEXT] = start
        atoms[i, _BLOCK] = -1
        start += atoms[i, _DEGREE]
    for b in range(n_bonds):
        for end in range(2):
            i = bonds[b, end]
            links[atoms[i, _NEXT], 0] = bonds[b, 1 - end]
            links[atoms[i, _NEXT], 1] = b
            atoms[i, _NEXT] += 1
    return bool(start == 0 or atoms[:n_atoms, _DEGREE].max() <= _MOST_NEIGHBOURS)


@jit
def _fill(atoms: Array, bonds: Array, sizes: Array) -> bool:
    """Fill in hydrogens, and mark what is in no aromatic ring; return whether RDKit changes no atom.

    Atoms in lower case wait for the table.
    """
    sizes[_CONJUGATED] = 0
    for i in range(sizes[_ATOMS]):
        number, orders = int(atoms[i, _NUMBER]), int(atoms[i, _ORDERS])
        atoms[i, _SYSTEM] = i
        parent = atoms[i, _PARENT]
        if parent >= 0 and bonds[atoms[i, _PARENT_BOND], _CYCLIC]:
            atoms[i, _SYSTEM] = atoms[parent, _SYSTEM]
        if atoms[i, _LOWER]:
            if not atoms[i, _RING]:
                return False
            atoms[i, _PLAIN] = 0
            sizes[_CONJUGATED] = 1
            continue
        if not atoms[i, _BRACKET]:
            atoms[i, _HYDROGENS] = _implied(number, orders)
        valence = orders + int(atoms[i, _HYDROGENS])
        if atoms[i, _HYDROGENS] < 0 or not _fits(number, int(atoms[i, _CHARGE]), valence):
            return False
        multiple = atoms[i, _MULTIPLE]
        if number == 15 and (multiple > 1 or (multiple == 1 and orders < 5)):
            return False
        saturated = number == 6 and multiple == 0 and atoms[i, _CHARGE] == 0 and valence == 4
        atoms[i, _PLAIN] = saturated or multiple > 1
        if atoms[i, _RING] and not atoms[i, _PLAIN]:
            sizes[_CONJUGATED] = 1
    return True


@jit
def _find_blocks(atoms: Array, bonds: Array, links: Array, stack: Array, sizes: Array) -> None:
    """Mark the cyclic bonds between conjugated atoms that are no bridges among these (Tarjan 1974)."""
    clock = 0
    for i in range(sizes[_ATOMS]):
        atoms[i, _TIME] = 0
    for root in range(sizes[_ATOMS]):
        if atoms[root, _TIME] or atoms[root, _PLAIN] or not atoms[root, _RING]:
            continue
        clock += 1
        atoms[root, _TIME] = atoms[root, _LOW] = clock
        atoms[root, _CAME] = -1
        atoms[root, _NEXT] = atoms[root, _LINK]
        stack[0] = root
        top = 0
        while top >= 0:
            i = stack[top]
            if atoms[i, _NEXT] < atoms[i, _LINK] + atoms[i, _DEGREE]:
                j, b = links[atoms[i, _NEXT], 0], links[atoms[i, _NEXT], 1]
                atoms[i, _NEXT] += 1
                if not bonds[b, _CYCLIC] or atoms[j, _PLAIN] or b == atoms[i, _CAME]:
                    continue
                if atoms[j, _TIME]:
                    bonds[b, _JOINED] = 1
                    atoms[i, _LOW] = min(atoms[i, _LOW], atoms[j, _TIME])
                    continue
                clock += 1
                atoms[j, _TIME] = atoms[j, _LOW] = clock
                atoms[j, _CAME] = b
                atoms[j, _NEXT] = atoms[j, _LINK]
                top += 1
                stack[top] = j
            else:
                top -= 1
                if top >= 0:
                    k = stack[top]
                    atoms[k, _LOW] = min(atoms[k, _LOW], atoms[i, _LOW])
                    if atoms[i, _LOW] <= atoms[k, _TIME]:
                        bonds[atoms[i, _CAME], _JOINED] = 1


@jit
def _collect(atoms: Array, bonds: Array, links: Array, members: Array, seed: int) -> int:
    """List the atoms that are joined to `seed`, in the order of the text; return how many there are."""
    members[0] = seed
    atoms[seed, _BLOCK] = seed
    size, place = 1, 0
    while place < size:
        i = members[place]
        place += 1
        for e in range(atoms[i, _LINK], atoms[i, _LINK] + atoms[i, _DEGREE]):
            j = links[e, 0]
            if bonds[links[e, 1], _JOINED] and atoms[j, _BLOCK] < 0:
                atoms[j, _BLOCK] = seed
                members[size] = j
                size += 1
    for place in range(1, size):
        i = members[place]
        earlier = place - 1
        while earlier >= 0 and members[earlier] > i:
            members[earlier + 1] = members[earlier]
            earlier -= 1
        members[earlier + 1] = i
    return size


@jit
def _attached(atoms: Array, bonds: Array, links: Array, stack: Array, first: int, seed: int) -> bool:
    """Return whether what is outside a block, from atom `first` on, hangs on one atom, or two bound ones."""
    one, other, top = -1, -1, 0
    stack[0] = first
    atoms[first, _REGION] = first
    while top >= 0:
        i = stack[top]
        top -= 1
        for e in range(atoms[i, _LINK], atoms[i, _LINK] + atoms[i, _DEGREE]):
            j = int(links[e, 0])
            if not bonds[links[e, 1], _CYCLIC]:
                continue
            if atoms[j, _BLOCK] != seed:
                if atoms[j, _REGION] < 0:
                    atoms[j, _REGION] = first
                    top += 1
                    stack[top] = j
            elif one < 0 or one == j:
                one = j
            elif other < 0 or other == j:
                other = j
            else:
                return False
    if other < 0:
        return True
    for e in range(atoms[one, _LINK], atoms[one, _LINK] + atoms[one, _DEGREE]):
        if links[e, 0] == other and bonds[links[e, 1], _JOINED]:
            return True
    return False


@jit
def _stands_alone(
    atoms: Array, bonds: Array, links: Array, stack: Array, members: Array, sizes: Array
) -> bool:
    """Return whether the smallest rings of a block are those that it has without the rest of its system.

    They are if whatever else is in rings with it hangs on one atom or on two that are bound to each other:
    a ring through such a part is the sum of one through their bond and one within the part. A multiple bond
    that leaves the block must leave the rings, too, as RDKit asks for that.
    """
    seed = atoms[members[0], _BLOCK]
    inside = True
    for k in range(members.size):
        i = members[k]
        for e in range(atoms[i, _LINK], atoms[i, _LINK] + atoms[i, _DEGREE]):
            b = links[e, 1]
            if bonds[b, _CYCLIC] and atoms[links[e, 0], _BLOCK] != seed:
                inside = False
                if bonds[b, _KIND] != _SINGLE:
                    return False
    if inside:
        return True
    for i in range(sizes[_ATOMS]):
        atoms[i, _REGION] = -1
    for k in range(members.size):
        i = members[k]
        for e in range(atoms[i, _LINK], atoms[i, _LINK] + atoms[i, _DEGREE]):
            j = int(links[e, 0])
            outside = bonds[links[e, 1], _CYCLIC] and atoms[j, _BLOCK] != seed and atoms[j, _REGION] < 0
            if outside and not _attached(atoms, bonds, links, stack, j, seed):
                return False
    return True


@jit
def _take_system(atoms: Array, bonds: Array, members: Array, sizes: Array, seed: int) -> int:
    """List all atoms of the ring system of `seed`, and join them; return how many there are."""
    size, system = 0, atoms[seed, _SYSTEM]
    for i in range(sizes[_ATOMS]):
        if atoms[i, _RING] and atoms[i, _SYSTEM] == system:
            atoms[i, _BLOCK] = seed
            members[size] = i
            size += 1
    for b in range(sizes[_BONDS_READ]):
        if bonds[b, _CYCLIC] and atoms[bonds[b, _FIRST], _SYSTEM] == system:
            bonds[b, _JOINED] = 1
    return size


@jit
def _write_key(atoms: Array, bonds: Array, links: Array, members: Array, sizes: Array, key: Array) -> int:
    """Write the key of a ring system; return its length, or 0 if it is left to RDKit."""
    seed = atoms[members[0], _BLOCK]
    key[0] = members.size
    length = 1
    for k in range(members.size):
        i = members[k]
        atoms[i, _PLACE] = k
        singles, multiple, element = 0, 0, 0
        for e in range(atoms[i, _LINK], atoms[i, _LINK] + atoms[i, _DEGREE]):
            j, b = links[e, 0], links[e, 1]
            if bonds[b, _JOINED] and atoms[j, _BLOCK] == seed:
                continue
            if bonds[b, _KIND] == _SINGLE:
                singles += 1
                continue
            if multiple or atoms[j, _CHARGE]:
                return 0
            multiple, element = int(bonds[b, _KIND]), int(atoms[j, _NUMBER])
        number, lower, box = atoms[i, _NUMBER], atoms[i, _LOWER], atoms[i, _BRACKET]
        if not box and (number == 6 or (number == 7 and not lower)):
            singles = 0
        if box:
            box = 128 + 16 * (atoms[i, _CHARGE] + _LARGEST_CHARGE) + atoms[i, _HYDROGENS]
        if singles > 7 or (atoms[i, _PLAIN] and atoms[i, _MULTIPLE] > 1):
            return 0
        key[length], key[length + 1] = 2 * number + lower, box
        key[length + 2], key[length + 3] = singles + 8 * multiple, element
        length += 4
    for b in range(sizes[_BONDS_READ]):
        one, other = bonds[b, _FIRST], bonds[b, _SECOND]
        if bonds[b, _JOINED] and atoms[one, _BLOCK] == seed and atoms[other, _BLOCK] == seed:
            key[length], key[length + 1] = atoms[one, _PLACE], atoms[other, _PLACE]
            key[length + 2] = bonds[b, _ORDER]
            length += 3
    return length


@jit
def _apply(atoms: Array, bonds: Array, links: Array, members: Array, sizes: Array, value: Array) -> bool:
    """Make of a ring system what the table says; return whether that is possible."""
    seed = atoms[members[0], _BLOCK]
    if value[0]:
        return False
    for k in range(members.size):
        i = members[k]
        atoms[i, _AROMATIC] = value[1 + k] >> 7
        if not atoms[i, _LOWER]:
            continue
        if not atoms[i, _AROMATIC]:
            return False
        if not atoms[i, _BRACKET]:
            hydrogens = int(value[1 + k] & 127)
            if atoms[i, _NUMBER] == 6:
                for e in range(atoms[i, _LINK], atoms[i, _LINK] + atoms[i, _DEGREE]):
                    b = links[e, 1]
                    outside = not (bonds[b, _JOINED] and atoms[links[e, 0], _BLOCK] == seed)
                    hydrogens -= outside and bonds[b, _KIND] == _SINGLE
            if hydrogens < 0:
                return False
            atoms[i, _HYDROGENS] = hydrogens
    place = 1 + members.size
    for b in range(sizes[_BONDS_READ]):
        one, other = bonds[b, _FIRST], bonds[b, _SECOND]
        if bonds[b, _JOINED] and atoms[one, _BLOCK] == seed and atoms[other, _BLOCK] == seed:
            bonds[b, _KIND] = value[place]
            place += 1
    return True


@jit
def _digest(key: Array) -> np.uint64:
    """Return a 64-bit hash of a key (FNV-1a, with the upper half folded in)."""
    digest = np.uint64(0xCBF29CE484222325)
    for i in range(key.size):
        digest = np.uint64((digest ^ np.uint64(key[i])) * np.uint64(0x100000001B3))
    return np.uint64(digest ^ (digest >> np.uint64(32)))


@jit
def _find(key: Array, slots: Array, stops: Array, keys: Array) -> int:
    """Return which key of the table this is, or -1."""
    mask = slots.size - 1
    place = np.int64(_digest(key) & np.uint64(mask))
    while slots[place] >= 0:
        entry = slots[place]
        if stops[entry + 1] - stops[entry] == key.size:
            equal = True
            for i in range(key.size):
                if keys[stops[entry] + i] != key[i]:
                    equal = False
                    break
            if equal:
                return int(entry)
        place = (place + 1) & mask
    return -1


@jit
def _fill_slots(keys: Array, stops: Array, slots: Array) -> None:
    """Place distinct keys in an empty table."""
    mask = slots.size - 1
    for entry in range(stops.size - 1):
        place = np.int64(_digest(keys[stops[entry] : stops[entry + 1]]) & np.uint64(mask))
        while slots[place] >= 0:
            place = (place + 1) & mask
        slots[place] = entry


@jit
def _perceive(
    atoms: Array,
    bonds: Array,
    links: Array,
    sizes: Array,
    table: RingTable,
    work: tuple[Array, ...],
    unknown: tuple[Array, ...],
) -> int:
    """Find out what is aromatic; return DONE, ASK or UNKNOWN."""
    stack, members, key = work
    keys, stops, count = unknown
    status = DONE
    _find_blocks(atoms, bonds, links, stack, sizes)
    for seed in range(sizes[_ATOMS]):
        if atoms[seed, _BLOCK] >= 0 or atoms[seed, _PLAIN] or not atoms[seed, _RING]:
            continue
        size = _collect(atoms, bonds, links, members, seed)
        if size < 3:
            continue
        if not _stands_alone(atoms, bonds, links, stack, members[:size], sizes):
            size = _take_system(atoms, bonds, members, sizes, seed)
        length = _write_key(atoms, bonds, links, members[:size], sizes, key)
        if length == 0:
            return ASK
        entry = _find(key[:length], table.slots, table.key_stops, table.keys)
        if entry >= 0:
            value = table.values[table.value_stops[entry] : table.value_stops[entry + 1]]
            if not _apply(atoms, bonds, links, members[:size], sizes, value):
                return ASK
            continue
        status = UNKNOWN
        if count[0] < stops.size - 1 and stops[count[0]] + length <= keys.size:
            start = stops[count[0]]
            keys[start : start + length] = key[:length]
            count[0] += 1
            stops[count[0]] = start + length
    for i in range(sizes[_ATOMS]):
        if status == DONE and atoms[i, _LOWER] and not atoms[i, _AROMATIC]:
            return ASK
    return status


@jit
def _read_all(
    text: Array,
    stops: Array,
    dots: bool,
    table: RingTable,
    unknown: tuple[Array, ...],
    molecules: Molecules,
    status: Array,
) -> None:
    """Read each text; write the molecules of those that are done, one after another."""
    atoms, bonds = (
        np.zeros((MOST_ATOMS, _ATOM_COLUMNS), np.int16),
        np.zeros((MOST_BONDS, _BOND_COLUMNS), np.int16),
    )
    links, opened = np.zeros((2 * MOST_BONDS, 2), np.int16), np.zeros((100, 2), np.int16)
    stack, members = np.zeros(MOST_ATOMS, np.int16), np.zeros(MOST_ATOMS, np.int16)
    key, sizes = np.zeros(_KEY_BYTES, np.uint8), np.zeros(_SIZES, np.int64)
    n_atoms, n_links = 0, 0
    for row in range(stops.size - 1):
        status[row] = ASK
        letters = text[stops[row] : stops[row + 1]]
        is_parsed = _parse(letters, atoms, bonds, stack, opened, sizes) and (dots or sizes[_FRAGMENTS] == 1)
        if is_parsed and _link(atoms, bonds, links, sizes) and _fill(atoms, bonds, sizes):
            status[row] = DONE
            if sizes[_CONJUGATED]:
                work = (stack, members, key)
                status[row] = _perceive(atoms, bonds, links, sizes, table, work, unknown)
        if status[row] == DONE:
            for i in range(sizes[_ATOMS]):
                for column in range(_AROMATIC + 1):  # a slice would be copied by slower code
                    molecules.atoms[n_atoms + i, column] = atoms[i, column]
                molecules.atoms[n_atoms + i, 5] = atoms[i, _DEGREE]
                molecules.first_links[n_atoms + i] = n_links + atoms[i, _LINK]
            for e in range(2 * sizes[_BONDS_READ]):
                molecules.links[n_links + e, 0] = links[e, 0]
                molecules.links[n_links + e, 1] = links[e, 1]
                molecules.links[n_links + e, 2] = bonds[links[e, 1], _KIND]
            n_atoms += sizes[_ATOMS]
            n_links += 2 * sizes[_BONDS_READ]
        molecules.stops[row + 1] = n_atoms


def ring_table(entries: Mapping[bytes, bytes]) -> RingTable:
    """Return a table of ring systems; see `Engine`."""
    keys, values = list(entries), list(entries.values())
    slots = np.full(max(64, 1 << (4 * len(keys)).bit_length()), -1, np.int64)
    key_stops = np.concatenate([[0], np.cumsum([len(key) for key in keys])]).astype(np.int64)
    value_stops = np.concatenate([[0], np.cumsum([len(value) for value in values])]).astype(np.int64)
    packed = np.frombuffer(b"".join(keys) + b"\0", np.uint8)
    with np.errstate(over="ignore"):
        _fill_slots(packed, key_stops, slots)
    return RingTable(slots, key_stops, packed, value_stops, np.frombuffer(b"".join(values) + b"\0", np.uint8))


def starts_soon() -> bool:
    """Return whether reading was compiled here before; see `daskrf.engine.starts_soon`."""
    return was_compiled(_read_all)


def read_smiles(text: Bytes, stops: Integers, table: RingTable, *, dots: bool) -> Readings:
    """Read SMILES; see `Engine`."""
    size = text.size
    molecules = Molecules(
        atoms=np.empty((size, 6), np.int8),
        links=np.empty((2 * size, 3), np.int16),
        first_links=np.empty(size, np.int64),
        stops=np.zeros(stops.size, np.int64),
    )
    keys, key_stops = np.empty(_MOST_KEYS * 128, np.uint8), np.zeros(_MOST_KEYS + 1, np.int64)
    count, status = np.zeros(1, np.int64), np.empty(stops.size - 1, np.uint8)
    with np.errstate(over="ignore"):
        _read_all(text, stops, dots, table, (keys, key_stops, count), molecules, status)
    packed, bounds = keys.tobytes(), key_stops[: count[0] + 1].tolist()
    unknown = {packed[start:stop] for start, stop in itertools.pairwise(bounds)}
    return Readings(status=status, molecules=molecules, unknown=unknown)
