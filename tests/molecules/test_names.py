"""The columns of SMILES and IDs are found under the names that they have in the wild."""

from __future__ import annotations

import pytest

from daskrf.quantities import listed
from daskrf.tables.values.names import find_id, find_smiles

HEADERS = {
    # source: (columns, SMILES, ID)
    "ChEMBL, chemreps": (["chembl_id", "canonical_smiles", "standard_inchi"], 1, 0),
    "ChEMBL, web": (["ChEMBL ID", "Name", "Synonyms", "Type", "Smiles"], 4, 0),
    "ChEMBL, activities": (["Document ChEMBL ID", "Assay ChEMBL ID", "Molecule ChEMBL ID", "Smiles"], 3, 2),
    "PubChem": (["cid", "isosmiles"], 1, 0),
    "PubChem, assay": (["PUBCHEM_RESULT_TAG", "PUBCHEM_CID", "PUBCHEM_EXT_DATASOURCE_SMILES"], 2, 1),
    "ZINC": (["smiles", "zinc_id"], 0, 1),
    "ZINC, tranche browser": (["smiles", "ZINC ID", "MWT"], 0, 1),
    "Enamine REAL": (["smiles", "idnumber", "MW"], 0, 1),
    "Enamine REAL, new": (["smiles", "id", "Type"], 0, 1),
    "Enamine, stock": (["SMILES", "Catalog_ID", "CAS"], 0, 1),
    "MolPort": (["SMILES", "SMILES_CANONICAL", "MOLPORTID", "INCHIKEY"], 0, 2),
    "Mcule": (["SMILES", "Mcule ID"], 0, 1),
    "MoleculeNet, ESOL": (["Compound ID", "ESOL predicted log solubility in mols per litre", "smiles"], 2, 0),
    "MoleculeNet, lipophilicity": (["CMPD_CHEMBLID", "exp", "smiles"], 2, 0),
    "MoleculeNet, Tox21": (["NR-AR", "SR-p53", "mol_id", "smiles"], 3, 2),
    "MoleculeNet, BACE": (["mol", "CID", "Class", "pIC50"], None, 1),
    "MoleculeNet, BBBP": (["num", "name", "p_np", "smiles"], 3, 1),
    "MoleculeNet, SIDER": (["smiles", "Hepatobiliary disorders", "Eye disorders"], 0, None),
    "BindingDB": (["BindingDB Reactant_set_id", "Ligand SMILES", "BindingDB MonomerID", "PubChem CID"], 1, 2),
    "DrugBank": (["DrugBank ID", "Name", "CAS Number", "SMILES"], 3, 0),
    "a data frame": (["idx", "smiles", "y"], 1, 0),
    "a spreadsheet": (["catalog number", "Compound Name", "structure"], 2, 0),
    "names": (["compound", "smiles"], 1, 0),
    "more names": (["molecule_name", "SMILES"], 1, 0),
    "an ID of our own": (["HTS-Id", "smiles"], 1, 0),
    "in camel case": (["smiles", "screeningPlate", "vialID"], 0, 2),
    "no IDs": (["smiles", "compound_class", "fatty_acid", "cluster_id", "idea", "Target Name"], 0, None),
}


@pytest.mark.parametrize("source", HEADERS)
def test_columns_of_the_wild(source: str) -> None:
    names, smiles, expected = HEADERS[source]
    assert find_smiles(names) == smiles
    assert find_id(names, lambda position: [], taken=(smiles,)) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["A", "B", "C", "D"], "name"),
        (["A", "A", "A", "B", "B", "B"], "name"),  # measured three times
        (["aspirin"] * 5, "code"),  # all of a batch
        (["0.5", "0.7", "1.5", "1.7"], "code"),
        (["2244", "2245", "", ""], "name"),
        ([], "name"),  # nothing at hand
    ],
)
def test_a_name_counts_if_its_values_tell_molecules_apart(values: list[str], expected: str) -> None:
    names = ["name", "code"]
    columns = [values, ["x1", "x2", "x3", "x4"]]
    position = find_id(names, lambda k: columns[k])
    assert position is not None
    assert names[position] == expected


def test_a_sure_name_may_repeat_and_be_a_float_of_pandas() -> None:
    names, columns = ["idx", "Compound ID"], [["0", "1", "2", "3", "4"], ["7.0", "7.0", "7.0", "7.0", "8.0"]]
    assert find_id(names, lambda k: columns[k]) == 1
    columns[1] = ["7.0"] * 5
    assert find_id(names, lambda k: columns[k]) == 0


def test_smiles_by_part_of_a_name_want_smiles_below() -> None:
    names = ["smiles is valid", "SMILES (Enamine)"]
    assert find_smiles(names, lambda position: position == 1) == 1
    assert find_smiles(names, lambda position: False) == 0


def test_long_lists_are_cut() -> None:
    assert listed(["a\x1b[2J", "b"]) == "a\\x1b[2J, b"
    assert (
        listed([f"x{k}" for k in range(10**6)]) == ", ".join(f"x{k}" for k in range(10)) + " and 999,990 more"
    )
