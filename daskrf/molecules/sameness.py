"""Names that two molecules share if they are the same at a level, by RDKit, in the helpers of `isolation`."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable

from rdkit import Chem, rdBase
from rdkit.Chem import rdMolHash
from rdkit.Chem.MolStandardize import rdMolStandardize

from daskrf.molecules.counterions import COUNTERIONS
from daskrf.molecules.counts.costs import refusal_of_rings, refusal_of_text
from daskrf.molecules.stereogroups import canonical, written

_CARBON, _NITROGEN = 6, 7
_POSITIVE = (15, 16, 33, 34, 52)  # P, S, As, Se, Te, which have room for a further bond
_NEGATIVE = (8, 7, 16, 34, 6)  # O, N, S, Se, C: the first gets the bond where there are several


def parenter() -> Callable[[str], tuple[str, int]]:
    """Return a function from a SMILES to that of its parent, and to a number of the graph of its elements.

    The parent is the fragment with most atoms, metals cut off, without the charges that hydrogens, or double
    bonds of phosphorus, sulfur and their like, can neutralize. Fragments without carbon, and known
    counter-ions and solvents, are no parents while another one is there, however large. The number is the
    same for all tautomers, isotopes and stereoisomers of it; 0 if RDKit cannot read the text, which is its
    own parent.

    Examples
    --------
    >>> parent = parenter()
    >>> parent("C[NH3+].[Cl-]")[0], parent("CC(=O)O[Na]")[0], parent("C[N+](C)(C)CC(=O)[O-]")[0]
    ('CN', 'CC(=O)O', 'C[N+](C)(C)CC(=O)O')
    >>> parent("CN.Cc1ccc(S(=O)(=O)O)cc1")[0], parent("CC(=O)O.Cc1ccc(S(=O)(=O)O)cc1")[0]
    ('CN', 'Cc1ccc(S(=O)(=O)O)cc1')
    >>> parent("C[S@+]([O-])CC")[0], parent("C[S@](=O)CC")[0], parent("CN=[N+]=[N-]") == parent("C[N-][N+]#N")
    ('CC[S@](C)=O', 'CC[S@](C)=O', True)
    >>> parent("Oc1ccccn1")[1] == parent("O=c1cccc[nH]1")[1]
    True
    """
    metals, fragments = rdMolStandardize.MetalDisconnector(), rdMolStandardize.LargestFragmentChooser()
    charges = rdMolStandardize.Uncharger(canonicalOrder=True, force=True)
    silence = rdBase.BlockLogs()

    def parent(text: str) -> tuple[str, int]:
        assert silence is not None  # for the lifetime of the function
        refused = refusal_of_text(text, "keep") or refusal_of_rings(text)
        molecule = None if refused else Chem.MolFromSmiles(text)
        if molecule is None:
            return text, 0
        apart = _without_counterions(_joined(metals.Disconnect(molecule)), charges)
        bare = charges.uncharge(fragments.choose(apart))
        molecule = Chem.MolFromSmiles(written(bare)) or molecule  # read again, to perceive everything anew
        return canonical(molecule), _graph(molecule)

    return parent


def _joined(molecule: Chem.Mol) -> Chem.Mol:
    """Return a molecule with double bonds in place of opposite charges side by side.

    These are sulfoxides, sulfones, phosphine oxides, ylides and the like; azides and diazo compounds become
    N=[N+]=[N-] and C=[N+]=[N-].
    """
    if not any(atom.GetFormalCharge() > 0 for atom in molecule.GetAtoms()):
        return molecule
    ranks = list(Chem.CanonicalRankAtoms(molecule))
    pairs = [
        (_NEGATIVE.index(anion.GetAtomicNum()), ranks[anion.GetIdx()], cation.GetIdx(), anion.GetIdx())
        for bond in molecule.GetBonds()
        if bond.GetBondType() == Chem.BondType.SINGLE
        for cation, anion in itertools.permutations((bond.GetBeginAtom(), bond.GetEndAtom()))
        if cation.GetFormalCharge() > 0 > anion.GetFormalCharge() and anion.GetAtomicNum() in _NEGATIVE
        if cation.GetAtomicNum() in _POSITIVE or _end_of_diazo(cation) is not None
    ]
    if not pairs:
        return molecule
    joined = Chem.RWMol(molecule)
    Chem.Kekulize(joined, clearAromaticFlags=True)
    for *_, cation, anion in sorted(pairs):
        one, other = joined.GetAtomWithIdx(cation), joined.GetAtomWithIdx(anion)
        if one.GetFormalCharge() < 1:
            continue
        end = _end_of_diazo(one)
        joined.GetBondBetweenAtoms(cation, anion).SetBondType(Chem.BondType.DOUBLE)
        other.SetFormalCharge(other.GetFormalCharge() + 1)
        if end is None:
            one.SetFormalCharge(one.GetFormalCharge() - 1)
        else:
            joined.GetBondBetweenAtoms(cation, end.GetIdx()).SetBondType(Chem.BondType.DOUBLE)
            end.SetFormalCharge(-1)
    fits = Chem.SanitizeMol(joined, catchErrors=True) == Chem.SanitizeFlags.SANITIZE_NONE
    return joined.GetMol() if fits else molecule


def _end_of_diazo(atom: Chem.Atom) -> Chem.Atom | None:
    """Return the terminal nitrogen of X-[N+]#N for its middle atom; None for any other atom."""
    for bond in atom.GetBonds() if atom.GetAtomicNum() == _NITROGEN else ():
        end = bond.GetOtherAtom(atom)
        triple = bond.GetBondType() == Chem.BondType.TRIPLE
        if triple and end.GetAtomicNum() == _NITROGEN and end.GetFormalCharge() == 0:
            return end
    return None


def _without_counterions(molecule: Chem.Mol, charges: rdMolStandardize.Uncharger) -> Chem.Mol:
    """Return a molecule without counter-ions and solvents, unless it consists of nothing else."""
    places = Chem.GetMolFrags(molecule)
    if len(places) < 2:
        return molecule
    counterions = _counterions()
    aside = [
        not any(atom.GetAtomicNum() == _CARBON for atom in fragment.GetAtoms())
        or Chem.MolToSmiles(_plain(charges.uncharge(fragment))) in counterions
        for fragment in Chem.GetMolFrags(molecule, asMols=True)
    ]
    if all(aside) or not any(aside):
        return molecule
    left = Chem.RWMol(molecule)
    left.BeginBatchEdit()
    for atom in (atom for atoms, out in zip(places, aside, strict=True) if out for atom in atoms):
        left.RemoveAtom(atom)
    left.CommitBatchEdit()
    return left.GetMol()


@functools.cache
def _counterions() -> frozenset[str]:
    """Return the names that counter-ions and solvents have without charges and stereochemistry."""
    return frozenset(Chem.MolToSmiles(_plain(Chem.MolFromSmiles(text))) for text in COUNTERIONS)


def _graph(molecule: Chem.Mol) -> int:
    """Return a hash of the elements of a molecule and their connectivity, from 1 to 2**63 - 1."""
    text = rdMolHash.MolHash(_plain(molecule), rdMolHash.HashFunction.ElementGraph)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "little") % (2**63 - 1)


def _plain(molecule: Chem.Mol) -> Chem.Mol:
    """Return a molecule without isotopes and stereochemistry."""
    bare = Chem.Mol(molecule)
    Chem.RemoveStereochemistry(bare)
    for atom in bare.GetAtoms():
        atom.SetIsotope(0)
    return Chem.MolFromSmiles(Chem.MolToSmiles(bare)) or bare


def tautomerizer(plain: bool) -> Callable[[str], str]:
    """Return a function from the SMILES of a parent to that of its canonical tautomer.

    Stereocentres stay, except at double bonds that move. With `plain`, isotopes and stereochemistry go first.

    Examples
    --------
    >>> tautomerizer(False)("Oc1ccccn1"), tautomerizer(True)("[2H]C[C@H](F)Cl")
    ('O=c1cccc[nH]1', 'CC(F)Cl')
    """
    parameters = rdMolStandardize.CleanupParameters()
    # Otherwise the enantiomers of any alpha-substituted acid would be the same molecule.
    parameters.tautomerRemoveSp3Stereo = False  # type: ignore[assignment]
    tautomers = rdMolStandardize.TautomerEnumerator(parameters)
    silence = rdBase.BlockLogs()

    def tautomer(text: str) -> str:
        assert silence is not None  # for the lifetime of the function
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            return text
        smiles = written(tautomers.Canonicalize(_plain(molecule) if plain else molecule))
        again = Chem.MolFromSmiles(smiles)
        return smiles if again is None else canonical(again)

    return tautomer
