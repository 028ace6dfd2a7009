"""What RDKit makes of ring systems: which atoms and bonds become aromatic, and where hydrogens are.

The engine reads molecules from the bytes of SMILES (`daskrf.engine.cpu.smiles`), but does not decide what is
aromatic. Each conjugated ring system that it meets for the first time is written as a SMILES, with methyl
groups for what hangs on it, and RDKit is asked once. A system is left to RDKit whenever it is part of a
molecule if RDKit rejects it, or changes elements, charges or written hydrogens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from daskrf.engine import RingTable, engine
from daskrf.molecules.isolation import Lost, each

_ASK = b"\1"
_SYMBOLS = {5: "B", 6: "C", 7: "N", 8: "O", 9: "F", 14: "Si", 15: "P", 16: "S"}
_SYMBOLS |= {17: "Cl", 34: "Se", 35: "Br", 53: "I"}
_BONDS = {1: "-", 2: "=", 3: "#", 12: ""}
_KINDS = frozenset(_BONDS)  # of bonds, as RDKit numbers them
_MOST = 50_000  # systems in the table, beyond which it starts anew


class RingSystems:
    """A growing table of ring systems; threads may share it.

    Examples
    --------
    >>> systems = RingSystems()
    >>> len(systems)
    0
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[bytes, bytes] = {}
        self.table: RingTable = engine().ring_table({})

    def __len__(self) -> int:
        return len(self._entries)

    def learn(self, keys: Collection[bytes]) -> None:
        """Ask RDKit about ring systems."""
        unknown = sorted(keys)
        answers = each("daskrf.molecules.counts.ringsystems:asker", (), [key.hex() for key in unknown])
        values = [_ASK if isinstance(answer, Lost) else answer for answer in answers]
        with self._lock:
            if len(self._entries) + len(unknown) > _MOST:
                self._entries = {}
            self._entries.update(zip(unknown, values, strict=True))
            self.table = engine().ring_table(self._entries)


class _Atom(NamedTuple):
    """An atom of a key: what is written of it, and the bonds that leave the ring system."""

    number: int
    lower: bool
    box: int
    singles: int
    multiple: int
    element: int

    @property
    def charge(self) -> int:
        return (self.box >> 4 & 7) - 3 if self.box else 0

    @property
    def symbol(self) -> str:
        """The atom as it is written."""
        symbol = _SYMBOLS[self.number].lower() if self.lower else _SYMBOLS[self.number]
        if not self.box:
            return symbol
        hydrogens, sign = self.box & 15, "+" if self.charge > 0 else "-"
        return f"[{symbol}{f'H{hydrogens}' if hydrogens else ''}{sign * abs(self.charge)}]"


def parts_of(key: bytes) -> tuple[list[_Atom], list[tuple[int, int, int]]]:
    """Return the atoms of a key, and its bonds: two atoms and the order as written."""
    n_atoms = key[0]
    atoms = [
        _Atom(code >> 1, bool(code & 1), box, outside & 7, outside >> 3, element)
        for code, box, outside, element in _groups(key[1 : 1 + 4 * n_atoms], 4)
    ]
    return atoms, [(one, other, order) for one, other, order in _groups(key[1 + 4 * n_atoms :], 3)]


def _groups(data: bytes, size: int) -> Iterator[tuple[int, ...]]:
    return zip(*[iter(data)] * size, strict=True)


def smiles_of(key: bytes) -> str:
    """Return a ring system as a SMILES, with methyl groups and atoms in place of what hangs on it.

    Each bond is written as a ring closure, so that the atoms are in the order of the key.

    Examples
    --------
    >>> smiles_of(bytes([3, 12, 0, 0, 0, 13, 0, 0, 0, 13, 0, 16, 8, 0, 1, 1, 1, 2, 12, 0, 2, 1]))
    'C%(100)%(102).c-%(100)%(101).c%(101)-%(102)(=O)'
    """
    atoms, bonds = parts_of(key)
    closures = [""] * len(atoms)
    for number, (one, other, order) in enumerate(bonds, 100):
        closures[one] += f"%({number})"
        closures[other] += f"{_BONDS[order]}%({number})"
    texts = []
    for atom, closure in zip(atoms, closures, strict=True):
        multiple = f"({_BONDS[atom.multiple]}{_SYMBOLS[atom.element]})" if atom.multiple else ""
        texts.append(f"{atom.symbol}{closure}{'(-C)' * atom.singles}{multiple}")
    return ".".join(texts)


def asker() -> Callable[[str], bytes]:
    """Return the function from a key, in hexadecimal, to its value; it runs in a helper process.

    Examples
    --------
    >>> benzene = bytes([6, *[13, 0, 0, 0] * 6, 0, 1, 12, 1, 2, 12, 2, 3, 12, 3, 4, 12, 4, 5, 12, 0, 5, 12])
    >>> list(asker()(benzene.hex()))
    [0, 129, 129, 129, 129, 129, 129, 12, 12, 12, 12, 12, 12]
    """
    from rdkit import Chem, rdBase

    silence = rdBase.BlockLogs()

    def ask(text: str) -> bytes:
        assert silence is not None  # for the lifetime of the function
        key = bytes.fromhex(text)
        molecule = Chem.MolFromSmiles(smiles_of(key))
        return _ASK if molecule is None else _value(molecule, key)

    return ask


def _value(molecule: Any, key: bytes) -> bytes:
    """Return what the table holds for a key of which RDKit has made this molecule."""
    atoms, bonds = parts_of(key)
    places, place, value = [], 0, [0]
    for atom in atoms:
        places.append(place)
        read = molecule.GetAtomWithIdx(place)
        hydrogens = read.GetTotalNumHs()
        changed = (
            read.GetAtomicNum() != atom.number
            or read.GetFormalCharge() != atom.charge
            or read.GetDegree()
            != atom.singles + bool(atom.multiple) + sum(len(places) - 1 in b[:2] for b in bonds)
            or (atom.box and hydrogens != atom.box & 15)
        )
        if changed:
            return _ASK
        value.append(hydrogens | (128 if read.GetIsAromatic() else 0))
        place += 1 + atom.singles + bool(atom.multiple)
    for one, other, _ in bonds:
        kind = int(molecule.GetBondBetweenAtoms(places[one], places[other]).GetBondType())
        if kind not in _KINDS:
            return _ASK
        value.append(kind)
    return bytes(value)
