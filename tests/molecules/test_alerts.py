"""Alerts one by one are those of RDKit's catalogs."""

from __future__ import annotations

import pytest
from rdkit import Chem

from daskrf.errors import OptionError
from daskrf.molecules.alerts import ALERTS, alerts_of, catalog_of, catalogs_of_texts

SMILES = [
    *("O=C1C=CC(=O)C=C1", "CCOC(=O)CC(=O)OCC", "N#CC(C#N)=C", "ICCI", "O=[N+]([O-])c1ccccc1N=Nc1ccccc1"),
    *("CC(=O)Cl", "C=CC(=O)C", "S=C1NC(=O)C(=Cc2ccccc2)S1", "c1ccc2c(c1)ccc1ccccc12", "CCCCCCCCCCCCCC" * 3),
    *("OC(=O)CCC(O)=O", "Clc1nccnc1C#N", "CN(C)c1ccc(C=O)cc1", "OO", "NN", "C1CO1", "[2H]C(F)(F)F", "O=CC=O"),
]


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_is_that_of_the_catalog(name: str) -> None:
    catalog, n_matches = catalog_of(name), 0
    molecules = [Chem.MolFromSmiles(text) for text in SMILES]
    for number, alert in enumerate(alerts_of(name)):
        entry, query = catalog.GetEntryWithIdx(number), Chem.MolFromSmarts(alert.smarts)
        assert alert.smarts
        for molecule in molecules:
            there = len(molecule.GetSubstructMatches(query)) >= alert.least
            assert there == entry.HasFilterMatch(molecule), (alert, Chem.MolToSmiles(molecule))
            n_matches += there
    assert n_matches


def test_catalogs_are_named_in_any_way() -> None:
    assert catalogs_of_texts(("NIH, zinc", "nih")) == ("nih", "zinc")
    with pytest.raises(OptionError, match=r"no alert catalog 'pain'; choose from pains, brenk, nih, zinc"):
        catalogs_of_texts(("pain",))
