"""MOL blocks of molecules with 2D coordinates, for SD files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from daskrf.molecules.isolation import Lost, each

_NO_STRUCTURE = "\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n"  # below the title and the program


def mol_blocks(smiles: Sequence[str]) -> list[str]:
    r"""Return the MOL block of each molecule, without its title and with 2D coordinates from RDKit.

    A molecule that RDKit cannot read or draw gets a block without atoms.

    Parameters
    ----------
    smiles : sequence of str

    Returns
    -------
    list of str
        Each begins with the line of the program, and ends in ``M  END\n``.

    Examples
    --------
    >>> ethanol, nothing = mol_blocks(["CCO", "?"])
    >>> ethanol.splitlines()[2].split()[:2], nothing.splitlines()[2].split()[:2]
    (['3', '2'], ['0', '0'])
    """
    blocks = each("daskrf.molecules.molblocks:mol_writer", (), smiles)
    return [f"  daskrf\n{_NO_STRUCTURE}" if isinstance(block, Lost) else block for block in blocks]


def mol_writer() -> Callable[[str], str]:
    """Return the function from a SMILES to its MOL block without the title; it runs in a helper process."""
    from rdkit import Chem, rdBase
    from rdkit.Chem import rdDepictor

    silence = rdBase.BlockLogs()

    def write(text: str) -> str:
        assert silence is not None  # for the lifetime of the function
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            raise ValueError("RDKit cannot read it")
        rdDepictor.Compute2DCoords(molecule)
        return str(Chem.MolToMolBlock(molecule)).partition("\n")[2]

    return write
