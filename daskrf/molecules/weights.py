"""Molecular weights of SMILES as written, salts included."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from daskrf.molecules.isolation import each


def molecular_weights(smiles: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return average molecular weights in g/mol, of whole records with their salts and solvents.

    Parameters
    ----------
    smiles : sequence of str

    Returns
    -------
    float64 array, shape (n,)
        NaN for what RDKit does not read, and for records without an atom.

    Examples
    --------
    >>> molecular_weights(["CCO", "CCN.Cl", "C1CC"]).round(2).tolist()
    [46.07, 81.55, nan]
    """
    distinct = list(dict.fromkeys(smiles))
    results = each("daskrf.molecules.weights:weight_finder", (), distinct)
    weights = {
        text: result if isinstance(result, float) and result > 0 else math.nan
        for text, result in zip(distinct, results, strict=True)
    }
    return np.array([weights[text] for text in smiles], dtype=np.float64)


def weight_finder() -> Callable[[str], float | None]:
    """Return the function that helper processes call: the weight of a record, None if it is not read."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem.rdMolDescriptors import _CalcMolWt

    RDLogger.DisableLog("rdApp.*")  # type: ignore[attr-defined]

    def weight(text: str) -> float | None:
        molecule = Chem.MolFromSmiles(text)
        return None if molecule is None else float(_CalcMolWt(molecule))

    return weight
