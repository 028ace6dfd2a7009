"""Properties, patterns, alerts and scaffolds by RDKit, in the helpers of `daskrf.molecules.isolation`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rdkit import Chem, rdBase
from rdkit.Chem import Descriptors, rdMolDescriptors
from rdkit.Chem.Scaffolds import MurckoScaffold

from daskrf.molecules.alerts import catalog_of
from daskrf.molecules.comparisons import Comparison
from daskrf.molecules.counts.descriptors import n_acceptors, n_rings
from daskrf.molecules.similarto import SimilarTo

_PROPERTIES: dict[str, Callable[[Chem.Mol], float]] = {
    "weight": Descriptors.MolWt,  # type: ignore[attr-defined]
    "logp": lambda molecule: rdMolDescriptors.CalcCrippenDescriptors(molecule)[0],
    "tpsa": rdMolDescriptors.CalcTPSA,
    "rotatable bonds": rdMolDescriptors.CalcNumRotatableBonds,
    "donors": rdMolDescriptors.CalcNumHBD,
    "acceptors": n_acceptors,
    "rings": n_rings,
    "aromatic rings": rdMolDescriptors.CalcNumAromaticRings,
    "heavy atoms": lambda molecule: molecule.GetNumHeavyAtoms(),
    "charge": Chem.GetFormalCharge,
    "fraction sp3": rdMolDescriptors.CalcFractionCSP3,
}


def property_of(name: str, smiles: str) -> float:
    """Return a property of `daskrf.molecules.conditions.PROPERTIES`.

    Examples
    --------
    >>> round(property_of("weight", "CCO"), 2)
    46.07
    """
    return float(_PROPERTIES[name](_molecule(smiles)))


def tester(tests: Sequence[Comparison | SimilarTo | tuple[str, str]]) -> Callable[[str], int]:
    """Return a function from a SMILES to the index of the first test that it fails, or -1.

    Tests are those of `daskrf.molecules.filters.Filters.computed`.
    """
    silence = rdBase.BlockLogs()
    passes = [_test(test) for test in tests]

    def first_failed(text: str) -> int:
        assert silence is not None  # for the lifetime of the function
        molecule = _molecule(text)
        return next((i for i, test in enumerate(passes) if not test(molecule)), -1)

    return first_failed


def _test(test: Comparison | SimilarTo | tuple[str, str]) -> Callable[[Chem.Mol], bool]:
    """Return a function that tells whether a molecule passes one test."""
    if isinstance(test, SimilarTo):
        return test.test()
    if not isinstance(test, tuple):
        computed = _PROPERTIES[test.name]
        return lambda molecule: bool(test.holds(float(computed(molecule))))
    kind, what = test
    if kind == "alerts":
        catalog = catalog_of(what)
        return lambda molecule: not catalog.HasMatch(molecule)
    pattern = Chem.MolFromSmarts(what)
    return lambda molecule: molecule.HasSubstructMatch(pattern) == (kind == "smarts")


def pattern_reader() -> Callable[[str], bool]:
    """Return a function that tells whether a text is valid SMARTS."""
    silence = rdBase.BlockLogs()

    def reads(text: str) -> bool:
        assert silence is not None
        return bool(text) and Chem.MolFromSmarts(text) is not None

    return reads


def scaffolder() -> Callable[[str], str]:
    """Return a function from a SMILES to that of its Murcko scaffold, empty for a molecule without rings.

    Source: Bemis & Murcko 1996, The properties of known drugs (J. Med. Chem. 39).

    Examples
    --------
    >>> scaffolder()("CCc1ccccc1CCC1CC1")
    'c1ccc(CCC2CC2)cc1'
    """
    silence = rdBase.BlockLogs()

    def scaffold(text: str) -> str:
        assert silence is not None
        molecule = _molecule(text)
        Chem.RemoveStereochemistry(molecule)
        return str(Chem.MolToSmiles(MurckoScaffold.GetScaffoldForMol(molecule)))

    return scaffold


def _molecule(text: str) -> Chem.Mol:
    molecule = Chem.MolFromSmiles(text)
    if molecule is None:
        raise ValueError("RDKit cannot read it")
    return molecule
