"""Properties of products are sums over their synthons."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors, rdMolDescriptors

from daskrf.molecules import FingerprintSpec
from daskrf.molecules.counts.descriptors import n_rings
from daskrf.spaces import cut, read_space
from daskrf.spaces.limits import SUMS, ranges_of_texts
from tests.spaces.helpers import SPACES, write_space


@pytest.mark.parametrize("name", SPACES)
def test_properties_of_all_products_are_sums(tmp_path, name: str) -> None:
    space = cut(read_space(write_space(tmp_path / "s", {name: SPACES[name]})), FingerprintSpec("morgan"))
    rows = np.array(list(itertools.product(*(np.unique(slot.synthon) for slot in space.entries[0]))))
    functions = {
        "heavy_atoms": lambda m: m.GetNumHeavyAtoms(),
        "weight": Descriptors.MolWt,
        "donors": rdMolDescriptors.CalcNumHBD,
        "rings": n_rings,
        "polar_surface": rdMolDescriptors.CalcTPSA,
    }
    assert tuple(functions) == SUMS
    for row, smiles in zip(rows, space.product_smiles(rows), strict=True):
        molecule = Chem.MolFromSmiles(smiles)
        expected = [function(molecule) for function in functions.values()]
        np.testing.assert_allclose(space.sums[row].sum(axis=0), expected, atol=1e-6, err_msg=smiles)


@pytest.mark.parametrize("text", ["weight", "weight=450", "weight=a:b", "weight=1:2:3"])
def test_other_texts_are_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="must be NAME=LOW:HIGH"):
        ranges_of_texts([text])
    with pytest.raises(ValueError, match="each name once"):
        ranges_of_texts(["rings=1:", "rings=:3"])
