"""Limits that reject molecules before RDKit spends too long on them.

RDKit is fast on a molecule unless one of a few numbers grows without bound: smallest rings, when rings form a
ring of rings; branched paths; pairs of torsions; or atoms, for the matrix of all distances. All of them can
be counted or bounded quickly. Limits on them are the same on every machine, unlike a time limit; the time
limit (`daskrf.molecules.isolation`) covers unforeseen cases.

No drug, peptide, lipid or macrocycle of up to 1,000 heavy atoms comes near these limits, except rings of 19
or more sugars (cyclodextrins) or of 16 or more benzenes (cycloparaphenylenes).
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
from rdkit import Chem

from daskrf.molecules.counts.substituents import Substituents
from daskrf.quantities import POSITIONS, SUBSTITUENTS

MAX_HEAVY_ATOMS = 1000
"""Larger molecules are rejected: path and pair fingerprints of a polymer or a protein would take minutes."""

MAX_FRAGMENTS = 1000
"""Limit where one fragment is chosen, which takes quadratic time: 1,000 fragments 0.1 s, 5,000 4 s."""

MAX_RINGS = 300_000
"""Smallest rings (relevant cycles), which RDKit lists one by one: 2.4 s for those of 18 sugars in a ring."""

MAX_AROMATIC_RINGS = 50_000
"""The same for rings with double bonds, which are compared pairwise: 7 s for 15 benzenes in a ring."""

MAX_CLOSURES = 100
"""Ring closures; with more than this and than atoms, it is a lattice. 361 among 40 atoms: 11 s, 1.4 GiB."""

MAX_ATOMS_OF_PAIRS = 1_500
"""Atoms for atom pairs (cubic time), including hydrogens written as isotopes: 3 s."""

MAX_TORSIONS = 20_000
"""Chains of four atoms, which are compared pairwise: 1 s. 1,000 carbon atoms have at most 9,000."""

MAX_PATHS = 2_000_000
"""Branched paths of up to 7 bonds, at 0.9 microseconds and 300 bytes each; 1,000 C atoms have 700,000."""

MAX_STEPS_OF_SUBSTITUENTS = 1_000_000
"""Hashes of atoms in ring systems, at 3 microseconds; 250 bonds to a system of 700 atoms take 5,000,000."""

_DIGITS_OF_RINGS = 30  # of 15 closures: with fewer, a molecule has fewer than 2**14 smallest rings
_BONDS_OF_TORSIONS = 128  # with fewer, no graph has MAX_TORSIONS
_BONDS_OF_PATHS = 256  # with fewer, and at most four an atom, no graph has MAX_PATHS
_RING_ATOMS_OF_SUBSTITUENTS = 100  # with fewer, no molecule takes so many steps
_PATH_BONDS = 7

_BLANK = re.compile(r"[ \t]")
# Group 1 is a heavy atom; bracketed hydrogens, dummies and atomic numbers match but are not counted.
_ATOM = re.compile(r"\[\d*(?:H(?![a-z])|\*|#)[^\]]*\]|(\[[^\]]*\]|Br|Cl|[BCNOPSFIbcnops])")


def refusal_of_text(text: str, fragments: str) -> str:
    """Return why a SMILES is rejected before parsing, or an empty string.

    RDKit takes whatever follows a blank as a name and drops trailing characters that it does not know: "CCé"
    would be read as ethane.
    """
    if not (text.isascii() and text.isprintable()):
        smiles = _BLANK.split(text.strip(" \t"), maxsplit=1)[0]
        for position, character in enumerate(smiles, 1):
            if not (character.isascii() and character.isprintable()):
                return f"{character!a} at position {position} cannot be part of a SMILES"
    if len(text) <= MAX_HEAVY_ATOMS:
        return ""
    smiles = _BLANK.split(text.strip(" \t"), maxsplit=1)[0]
    parts = smiles.split(".")
    if fragments != "keep" and len(parts) > MAX_FRAGMENTS:
        return f"{len(parts):,} fragments are more than {MAX_FRAGMENTS:,}"
    if fragments == "largest":  # at least this large: a ring bond across a dot makes it larger
        parts = [max(parts, key=_heavy_atoms)]
    return refusal_of_size(sum(map(_heavy_atoms, parts)))


def _heavy_atoms(smiles: str) -> int:
    return sum(1 for match in _ATOM.finditer(smiles) if match[1])


def refusal_of_size(heavy_atoms: int) -> str:
    """Return why a molecule with this many heavy atoms is rejected, or an empty string."""
    if heavy_atoms <= MAX_HEAVY_ATOMS:
        return ""
    return f"{heavy_atoms:,} heavy atoms are more than {MAX_HEAVY_ATOMS:,}"


def refusal_of_rings(text: str) -> str:
    """Return why RDKit should not look for the rings of a SMILES, or an empty string."""
    letters = text.encode()
    if len(letters) - len(letters.translate(None, b"0123456789")) < _DIGITS_OF_RINGS:
        return ""
    molecule = Chem.MolFromSmiles(text, sanitize=False)
    if molecule is None:
        return ""
    atoms, bonds = molecule.GetNumAtoms(), molecule.GetNumBonds()
    closures = bonds - atoms + len(Chem.GetMolFrags(molecule))
    if closures > max(MAX_CLOSURES, atoms):
        return f"{closures:,} ring closures among {atoms:,} atoms are more than a molecule has"
    try:
        Chem.FindRingFamilies(molecule)
    except RuntimeError:  # RDKit may be built without it
        return ""
    rings = molecule.GetRingInfo()
    count, families = rings.NumRelevantCycles(), rings.NumRingFamilies()
    limit = MAX_RINGS
    if count > MAX_AROMATIC_RINGS and any(
        molecule.GetBondWithIdx(bond).GetBondType() != Chem.BondType.SINGLE
        for family in rings.BondRingFamilies()
        for bond in family
    ):
        limit = MAX_AROMATIC_RINGS
    if families <= count <= limit:  # RDKit's counter wraps around to 0 on overflow
        return ""
    return f"more than {limit:,} smallest rings, since its rings close to rings"


def refusal_of_counting(kind: str, molecule: Chem.Mol) -> str:
    """Return why the features of a molecule should not be counted, or an empty string."""
    if kind == "atompair":
        atoms = molecule.GetNumAtoms()
        if atoms > MAX_ATOMS_OF_PAIRS:
            return f"{atoms:,} atoms, with hydrogens, are too many for atom pairs ({MAX_ATOMS_OF_PAIRS:,})"
    elif kind == "torsion":
        if molecule.GetNumBonds() > _BONDS_OF_TORSIONS:
            torsions = sum(
                (bond.GetBeginAtom().GetDegree() - 1) * (bond.GetEndAtom().GetDegree() - 1)
                for bond in molecule.GetBonds()
            )
            if torsions > MAX_TORSIONS:
                return f"{torsions:,} torsions are more than {MAX_TORSIONS:,}"
    elif kind in (SUBSTITUENTS, POSITIONS):
        ring_atoms = len({atom for ring in molecule.GetRingInfo().AtomRings() for atom in ring})
        if ring_atoms > _RING_ATOMS_OF_SUBSTITUENTS:
            steps = Substituents(molecule).steps
            if steps > MAX_STEPS_OF_SUBSTITUENTS:
                return f"too many bonds to large ring systems for substituents ({steps:,} steps)"
    elif kind == "rdkit":
        degree = max(map(Chem.Atom.GetDegree, molecule.GetAtoms()))
        if degree > 4 or molecule.GetNumBonds() > _BONDS_OF_PATHS:
            bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
            if bonds and bound_of_paths(np.array(bonds)) > MAX_PATHS:
                return f"more than {MAX_PATHS:,} branched paths of up to {_PATH_BONDS} bonds"
    return ""


def bound_of_paths(bonds: npt.NDArray[np.int64]) -> float:
    """Return an upper bound on the number of connected sets of 1 to 7 bonds, exact if there are no rings.

    Parameters
    ----------
    bonds : ndarray of int64, shape (n_bonds, 2)
        The atoms of each bond.

    Returns
    -------
    float

    Notes
    -----
    A connected set of k bonds, cut open where it closes a ring, is a tree of k bonds that never turns back on
    the bond it came by. Trees that begin with the bond from u to v have the generating function
    T(u, v) = x prod_w (1 + T(v, w)), over the neighbours w of v other than u. Trees that contain atom v are
    counted by prod_w (1 + T(v, w)) over all w, and each tree of k bonds is found from all of its k + 1 atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from daskrf.molecules.counts.costs import bound_of_paths
    >>> bound_of_paths(np.array([(0, 1), (1, 2), (1, 3)]))  # isobutane: 3 + 3 + 1
    7.0
    """
    ends = np.concatenate([bonds, bonds[:, ::-1]])
    reverse = np.roll(np.arange(len(ends)), len(bonds))
    by_atom = np.argsort(ends[:, 0], kind="stable")
    degrees = np.bincount(ends[:, 0])
    first = np.cumsum(degrees) - degrees
    trees = np.zeros((len(ends), _PATH_BONDS + 1))
    for _ in range(_PATH_BONDS):
        grown = np.zeros_like(trees)
        grown[:, 0] = 1.0
        for place in range(degrees.max()):
            has = np.flatnonzero(degrees[ends[:, 1]] > place)
            following = by_atom[first[ends[has, 1]] + place]
            has, following = has[following != reverse[has]], following[following != reverse[has]]
            grown[has] += _product(grown[has], trees[following])
        trees[:, 1:] = grown[:, :-1]
    rooted = np.zeros((len(degrees), _PATH_BONDS + 1))
    rooted[:, 0] = 1.0
    for place in range(degrees.max()):
        has = np.flatnonzero(degrees > place)
        rooted[has] += _product(rooted[has], trees[by_atom[first[has] + place]])
    return float((rooted.sum(axis=0) / np.arange(1, _PATH_BONDS + 2))[1:].sum())


def _product(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the products of polynomials, one per row, truncated at the same power."""
    product = np.zeros_like(one)
    for power in range(one.shape[1]):
        product[:, power:] += one[:, power : power + 1] * other[:, : one.shape[1] - power]
    return product
