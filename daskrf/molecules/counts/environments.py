"""The atoms behind each feature of a fingerprint, and a molecule drawn with a number at each atom."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.errors import InputError
from daskrf.molecules.counts.fingerprints import Fingerprinter
from daskrf.molecules.counts.spec import FingerprintSpec
from daskrf.molecules.isolation import Lost, each
from daskrf.quantities import POSITIONS, SUBSTITUENTS
from daskrf.seeds import splitmix64

KINDS = ("morgan", "atompair", "torsion", SUBSTITUENTS, POSITIONS)
"""Kinds of fingerprints whose features have known atoms."""

Occurrence = tuple[int, tuple[int, ...]]


def without_atoms(smiles: str, spec: FingerprintSpec, fragments: str) -> sparse.csr_matrix:
    """Return the fingerprint of a molecule, then one for each atom without the features that contain it.

    A feature loses one count for each of its occurrences that contain the atom.

    Parameters
    ----------
    smiles : str
    spec : FingerprintSpec
        Of Morgan, atom-pair and torsion fingerprints, of substituents and of positions.
    fragments : {"keep", "largest", "reject"}
        As in `Fingerprinter`; atoms of other fragments have no rows.

    Returns
    -------
    csr_matrix of shape (1 + n_atoms, n_columns)

    Raises
    ------
    InputError
        RDKit cannot read the molecule, or does not report the atoms of a kind of fingerprint.

    Examples
    --------
    >>> rows = without_atoms("CO", FingerprintSpec("morgan", radius=1), "keep")
    >>> rows.shape[0], rows.sum(axis=1).ravel().tolist()
    (3, [[3, 1, 1]])
    """
    check_kinds(spec)
    block = Fingerprinter(spec, fragments)([smiles])
    if block.rejects:
        raise InputError(f"{smiles[:80]!r} is not a molecule: {block.rejects[0][1]}")
    (result,) = each("daskrf.molecules.counts.environments:finder", (spec, fragments), [smiles])
    if isinstance(result, Lost):
        raise InputError(f"RDKit finds no atoms for the features of {smiles[:80]!r}: it {result.reason}")
    n_atoms, kinds = result
    whole = block.fingerprints
    counts = np.zeros((1 + n_atoms, whole.nnz), np.int64)
    for number, (kind, occurrences) in enumerate(zip(spec.kinds, kinds, strict=True)):
        start = number * (spec.size or 2**32)
        for feature, atoms in occurrences:
            column = np.searchsorted(whole.indices, start + _column(kind, feature))
            rows = np.ones(1 + n_atoms, bool)
            rows[1 + np.array(atoms, np.int64)] = False
            counts[rows, column] += 1
    if not spec.counts:
        counts = np.minimum(counts, 1)
    if (counts[0] != whole.data).any():
        raise InputError(f"RDKit counts other features of {smiles[:80]!r} than it reports atoms for.")
    columns = np.tile(whole.indices, 1 + n_atoms)
    pointer = np.arange(2 + n_atoms) * whole.nnz
    rows = sparse.csr_matrix(
        (counts.ravel().astype(np.uint16), columns, pointer), (1 + n_atoms, whole.shape[1])
    )
    rows.eliminate_zeros()
    return rows


def check_kinds(spec: FingerprintSpec) -> None:
    """Refuse fingerprints with features whose atoms are not known."""
    unknown = [kind.name for kind in spec.kinds if kind.family not in KINDS]
    if unknown:
        raise InputError(f"contributions of atoms need the kinds {', '.join(KINDS)}, not {unknown[0]}.")


def _column(kind: FingerprintSpec, feature: int) -> int:
    """Return the column of a feature within its kind, as `Fingerprinter` places it."""
    if kind.kind == "torsion" and not kind.size:
        return int(splitmix64(np.array([feature], np.uint64))[0] >> np.uint64(32))
    return feature


def finder(spec: FingerprintSpec, fragments: str) -> Callable[[str], tuple[int, list[list[Occurrence]]]]:
    """Return the function from a SMILES to its number of atoms and the atoms of its features."""
    from rdkit.Chem import rdFingerprintGenerator

    from daskrf.molecules.counts.counter import generator_of, in_order
    from daskrf.molecules.counts.substituents import Substituents

    def find(text: str) -> tuple[int, list[list[Occurrence]]]:
        molecule = _molecule(text, fragments)
        features = []
        for kind in spec.kinds:
            if kind.family in (SUBSTITUENTS, POSITIONS):
                size, sides = kind.size or 2**32, Substituents(molecule)
                seen = sides.positions(frozenset(kind.blocks)) if kind.blocks else sides.occurrences()
                features.append([(identifier % size, atoms) for identifier, atoms in seen])
                continue
            output = rdFingerprintGenerator.AdditionalOutput()
            output.AllocateBitInfoMap()
            output.AllocateBitPaths()
            generator = generator_of(kind)
            count = generator.GetCountFingerprint if kind.size else generator.GetSparseCountFingerprint
            numbers = None
            counted = molecule
            if kind.kind == "torsion":
                counted, numbers = in_order(molecule, chirality=kind.chirality)
            count(counted, additionalOutput=output)
            places = _occurrences(kind.family, molecule, output)
            if numbers is not None:
                places = [(feature, tuple(numbers[atom] for atom in atoms)) for feature, atoms in places]
            features.append(places)
        return molecule.GetNumAtoms(), features

    return find


def _occurrences(kind: str, molecule: object, output: Any) -> list[Occurrence]:
    """Return each occurrence of a feature with its atoms."""
    if kind == "torsion":
        return [(int(bit), tuple(path)) for bit, paths in output.GetBitPaths().items() for path in paths]
    places = [(int(bit), place) for bit, several in output.GetBitInfoMap().items() for place in several]
    if kind == "atompair":
        return [(bit, tuple(pair)) for bit, pair in places]
    return [(bit, _within(molecule, *place)) for bit, place in places]


def _within(molecule: Any, centre: int, radius: int) -> tuple[int, ...]:
    """Return the atoms of a Morgan environment."""
    from rdkit import Chem

    bonds = Chem.FindAtomEnvironmentOfRadiusN(molecule, radius, centre) if radius else ()
    ends = [molecule.GetBondWithIdx(bond) for bond in bonds]
    return tuple({centre, *(b.GetBeginAtomIdx() for b in ends), *(b.GetEndAtomIdx() for b in ends)})


def _molecule(text: str, fragments: str) -> Any:
    """Return the molecule after the fragment rule, as `Counter` does."""
    from rdkit import Chem

    from daskrf.molecules.counts.counter import largest_fragment
    from daskrf.molecules.stereogroups import unspecified

    molecule = Chem.MolFromSmiles(text)
    if molecule is None:
        raise ValueError("RDKit cannot read it")
    molecule = unspecified(molecule)
    return largest_fragment(molecule) if fragments == "largest" and "." in text else molecule


def drawn_with_weights(
    smiles: str, fragments: str, weights: npt.NDArray[np.float64], width: int = 480, height: int = 360
) -> str:
    """Return an SVG of a molecule, with positive atom weights in blue and negative ones in orange.

    Examples
    --------
    >>> svg = drawn_with_weights("CO", "keep", np.array([0.5, -0.25]))
    >>> svg.startswith("<svg"), svg.rstrip().endswith("</svg>")
    (True, True)
    """
    options = (fragments, [float(weight) for weight in weights], width, height, False)
    (svg,) = each("daskrf.molecules.counts.environments:painter", options, [smiles])
    return "" if isinstance(svg, Lost) else str(svg)


def painted_with_weights(
    smiles: str, fragments: str, weights: npt.NDArray[np.float64], width: int = 1440, height: int = 1080
) -> bytes:
    """Return the drawing of `drawn_with_weights` as PNG; empty for a molecule that RDKit cannot draw.

    Examples
    --------
    >>> painted_with_weights("CO", "keep", np.array([0.5, -0.25]))[:4]
    b'\\x89PNG'
    """
    options = (fragments, [float(weight) for weight in weights], width, height, True)
    (png,) = each("daskrf.molecules.counts.environments:painter", options, [smiles])
    return b"" if isinstance(png, Lost) else base64.b64decode(png)


def symbols(smiles: Sequence[str], fragments: str) -> list[list[str]]:
    """Return the symbols of the atoms of each molecule, in the order in which they have weights.

    Examples
    --------
    >>> symbols(["CO", "[Na+].CCl"], "largest")
    [['C', 'O'], ['C', 'Cl']]
    """
    results = each("daskrf.molecules.counts.environments:speller", (fragments,), smiles)
    return [[] if isinstance(result, Lost) else list(result) for result in results]


def speller(fragments: str) -> Callable[[str], list[str]]:
    """Return the function from a SMILES to the symbols of its atoms; it runs in a helper process."""
    return lambda text: [atom.GetSymbol() for atom in _molecule(text, fragments).GetAtoms()]


def painter(
    fragments: str, weights: list[float], width: int, height: int, as_png: bool
) -> Callable[[str], str]:
    """Return the function that draws a molecule with a number at each atom; it runs in a helper process.

    It returns an SVG, or a PNG in base64.
    """
    from rdkit.Chem.Draw import rdMolDraw2D

    largest = max((abs(weight) for weight in weights), default=0.0) or 1.0

    def paint(text: str) -> str:
        molecule = _molecule(text, fragments)
        colours, radii = {}, {}
        for atom, weight in zip(molecule.GetAtoms(), weights, strict=True):
            share = abs(weight) / largest
            full = (0.12, 0.37, 0.66) if weight > 0 else (0.85, 0.45, 0.10)
            colours[atom.GetIdx()] = tuple(1 - 0.75 * share * (1 - channel) for channel in full)
            radii[atom.GetIdx()] = 0.2 + 0.25 * share
            if share >= 0.1:
                atom.SetProp("atomNote", f"{weight:+.2g}")
        canvas: Any = (rdMolDraw2D.MolDraw2DCairo if as_png else rdMolDraw2D.MolDraw2DSVG)(width, height)
        canvas.drawOptions().annotationFontScale = 0.6
        molecule = rdMolDraw2D.PrepareMolForDrawing(molecule)
        canvas.DrawMolecule(
            molecule,
            highlightAtoms=list(colours),
            highlightAtomColors=colours,
            highlightAtomRadii=radii,
            highlightBonds=[],
        )
        canvas.FinishDrawing()
        drawing = canvas.GetDrawingText()
        return base64.b64encode(drawing).decode() if as_png else str(drawing[drawing.index("<svg") :])

    return paint
