"""Enhanced stereochemistry: racemates and molecules of unknown chirality are neither of their enantiomers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

import daskrf
from daskrf.measurements import read_labels
from daskrf.molecules import Fingerprinter, FingerprintSpec, clean_smiles
from daskrf.molecules.structures import LEVELS, KnownStructures, canonical_smiles, inchikeys, same_names
from daskrf.spaces import read_space
from daskrf.storage.labels import join_labels
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.tables.frames import molecule_table
from tests.naive.stereogroups import meant

RACEMATE, EITHER, PURE, OTHER = (
    "C[C@H](F)Cl |&1:1|",
    "C[C@H](F)Cl |o1:1|",
    "C[C@H](F)Cl",
    "C[C@@H](F)Cl",
)
SAME = {
    "a racemate drawn either way": (RACEMATE, "C[C@@H](F)Cl |&1:1|"),
    "one of two, drawn either way": ("C[C@@H](F)Cl |o7:1|", EITHER),
    "other order of atoms": (RACEMATE, "Cl[C@H](F)C |&1:1|"),
    "other numbers of groups": (
        "C[C@H](F)[C@H](Cl)Br |&1:1,o1:3|",
        "C[C@@H](F)[C@H](Cl)Br |$;;;;$,o3:3,&9:1|",
    ),
    "absolute groups say nothing": (PURE, "C[C@H](F)Cl |a:1|"),
    "an absolute centre beside a racemic one": (
        "C[C@H](F)[C@H](Cl)Br |a:1,&1:3|",
        "C[C@H](F)[C@@H](Cl)Br |&1:3|",
    ),
    "a meso compound": ("C[C@H](O)[C@@H](C)O |&1:1,3|", "C[C@H](O)[C@@H](C)O"),
    "a ring without chirality": ("C[C@H]1CC[C@@H](O)CC1 |&1:1,4|", "C[C@H]1CC[C@@H](O)CC1"),
    "centres that stand for each other": ("F[C@H](C)C[C@@H](C)F |&1:1|", "F[C@H](C)C[C@@H](C)F |&1:4|"),
}
DIFFERENT = {
    "racemate, unknown and both enantiomers": (RACEMATE, EITHER, PURE, OTHER, "CC(F)Cl"),
    "one group or two": (
        "C[C@H](F)[C@H](Cl)Br |&1:1,3|",
        "C[C@H](F)[C@H](Cl)Br |&1:1,&2:3|",
        "C[C@H](F)[C@@H](Cl)Br |&1:1,3|",
        "C[C@H](F)[C@H](Cl)Br |&1:1|",
        "C[C@H](F)[C@H](Cl)Br |&1:1,o1:3|",
    ),
}


def shuffled(smiles: str, seed: int) -> str:
    """Return another notation: other order of atoms, and groups drawn the other way round.

    RDKit writes the SMILES, and this function the groups, since RDKit turns them over again as it writes.
    """
    random_state, molecule = random.Random(seed), Chem.MolFromSmiles(smiles)
    groups = []
    for group in molecule.GetStereoGroups():
        sign = {"STEREO_AND": "&", "STEREO_OR": "o", "STEREO_ABSOLUTE": "a"}[group.GetGroupType().name]
        atoms = [atom.GetIdx() for atom in group.GetAtoms()]
        groups.append((sign, atoms))
        if sign != "a" and random_state.random() < 0.5:
            for atom in atoms:
                molecule.GetAtomWithIdx(atom).InvertChirality()
    bare = Chem.RWMol(molecule)
    bare.SetStereoGroups([])
    Chem.AssignStereochemistry(bare, cleanIt=True, force=True)
    order = list(range(bare.GetNumAtoms()))
    random_state.shuffle(order)
    mixed = Chem.RenumberAtoms(bare.GetMol(), order)
    text: str = Chem.MolToSmiles(mixed, canonical=False)
    written = [order[atom] for atom in mixed.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]]
    parts = [
        f"{sign}{number if sign != 'a' else ''}:{','.join(str(written.index(atom)) for atom in atoms)}"
        for number, (sign, atoms) in enumerate(groups, start=1)
    ]
    return f"{text} |{','.join(parts)}|" if parts else text


@pytest.mark.parametrize("texts", SAME.values(), ids=SAME)
def test_notations_of_one_molecule_are_the_same_molecule(texts: tuple[str, str]) -> None:
    for level in LEVELS:
        assert len(set(same_names(texts, level))) == 1
    assert KnownStructures.of(texts[:1]).among(texts[1:]) == [True]
    assert meant(texts[0]) == meant(texts[1])


@pytest.mark.parametrize("texts", DIFFERENT.values(), ids=DIFFERENT)
def test_groups_tell_molecules_apart_where_stereochemistry_counts(texts: Sequence[str]) -> None:
    for level in LEVELS:
        assert len(set(same_names(texts, level))) == (1 if level == "skeleton" else len(texts))
    assert KnownStructures.of(texts[:1]).among(texts) == [True] + [False] * (len(texts) - 1)
    assert len(set(map(meant, texts))) == len(texts)


def test_the_parent_and_the_tautomer_of_a_racemate_are_racemates() -> None:
    assert (
        same_names(["[Na+].C[C@H](F)C(=O)[O-] |&1:2|", "C[C@@H](F)C(=O)O |&1:1|"], "parent")
        == ["C[C@H](F)C(=O)O |&1:1|"] * 2
    )
    names = same_names(
        ["C[C@H](F)c1cccc(O)n1 |&1:1|", "C[C@@H](F)c1cccc(=O)[nH]1 |&1:1|", "C[C@H](F)c1cccc(O)n1"],
        "tautomer",
    )
    assert names[0] == names[1] != names[2]


PIECES = ("[C@H](F)", "[C@@H](F)", "[C@H](C)", "[C@@H](O)", "C", "[C@H]1CC[C@@H](CC1)")


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4),
    st.lists(st.sampled_from(["", "a", "&1", "&2", "o1"]), min_size=8, max_size=8),
    st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_names_are_equal_where_the_same_isomers_are_meant(
    pieces: list[str], marks: list[str], seed: int
) -> None:
    text = Chem.CanonSmiles("N" + "".join(pieces) + "Br")
    centres = [atom.GetIdx() for atom in Chem.MolFromSmiles(text).GetAtoms() if atom.GetChiralTag()]
    groups: dict[str, list[str]] = {}
    for centre, mark in zip(centres, marks, strict=False):
        groups.setdefault(mark, []).append(str(centre))
    extension = ",".join(f"{mark}:{','.join(members)}" for mark, members in groups.items() if mark)
    marked = f"{text} |{extension}|"
    one, other = canonical_smiles([clean_smiles(marked), clean_smiles(shuffled(marked, seed))])
    assert one == other
    assert canonical_smiles([one]) == [one]
    assert meant(one) == meant(marked)


def test_extensions_keep_groups_of_stereocentres_only() -> None:
    assert clean_smiles("C[C@H](F)[C@H](Cl)Br |(1,2,;3,&1:9,;),$&1:0;o1:3$,a:1,&1:3,r| name") == (
        "C[C@H](F)[C@H](Cl)Br |&1:3|"
    )
    assert clean_smiles("C[C@H](F)[C@H](Cl)Br |o2:1,3,&1:5,wU:3.1|") == "C[C@H](F)[C@H](Cl)Br |o2:1,3,&1:5|"
    assert clean_smiles("CCO |&1:1|") == "CCO"
    assert clean_smiles("C[C@H](F)Cl |r|") == PURE


@pytest.mark.parametrize("kind", ["morgan:2", "atompair", "torsion", "lingo"])
def test_fingerprints_take_marked_centres_as_not_specified(kind: str) -> None:
    block = Fingerprinter(FingerprintSpec(kind, chirality=True))(
        ["C[C@H](F)CO |&1:1|", "C[C@@H](F)CO |o1:1|", "CC(F)CO", "C[C@H](F)CO", "C[C@@H](F)CO"]
    )
    keys = [(tuple(row.indices), tuple(row.data)) for row in block.fingerprints]
    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys[2:])) == 3


def test_the_standard_inchikey_of_a_racemate_has_no_stereochemistry() -> None:
    racemate, flat, pure = inchikeys([RACEMATE, "CC(F)Cl", PURE])
    assert racemate == flat != pure


def test_molecules_in_memory_keep_their_groups() -> None:
    table = molecule_table([f"{RACEMATE} star", Chem.MolFromSmiles(EITHER), f"{PURE} pure"])
    assert table.to_pydict() == {"smiles": [RACEMATE, EITHER, PURE], "id": ["star", None, "pure"]}


def library(folder: Path, ending: str) -> Path:
    """Write a racemate, a molecule of unknown chirality and both enantiomers, with the IDs A to D."""
    texts = ["N[C@H](F)Cl |&1:1|", "N[C@H](F)Cl |o1:1|", "N[C@H](F)Cl", "N[C@@H](F)Cl"]
    rows = list(zip(texts, "ABCD", strict=True))
    path = folder / f"library{ending}"
    if ending == ".sdf":
        with Chem.SDWriter(str(path)) as writer:
            writer.SetForceV3000(True)
            for text, name in rows:
                molecule = Chem.MolFromSmiles(text)
                molecule.SetProp("_Name", name)
                writer.write(molecule)
    elif ending == ".parquet":
        pd.DataFrame(rows, columns=["smiles", "id"]).to_parquet(path)
    elif ending == ".csv":
        pd.DataFrame(rows, columns=["smiles", "id"]).to_csv(path, index=False)
    else:
        blank = "\t" if ending == ".cxsmiles" else " "
        path.write_text("".join(f"{text}{blank}{name}\n" for text, name in rows))
    return path


@pytest.mark.parametrize("ending", [".smi", ".cxsmiles", ".csv", ".parquet", ".sdf"])
def test_a_store_keeps_groups_and_counts_them(tmp_path: Path, ending: str) -> None:
    report = daskrf.fingerprint(
        library(tmp_path, ending), tmp_path / "s", spec=FingerprintSpec("morgan", chirality=True)
    )
    assert report.marked == 2
    words = "2 molecules with enhanced stereo groups (racemates, or enantiomers of unknown configuration)"
    assert words in str(report)
    rows = daskrf.open_library(tmp_path / "s").rows.to_table()
    assert rows["id"].to_pylist() == list("ABCD")
    assert rows["smiles"].to_pylist() == canonical_smiles(rows["smiles"].to_pylist())
    assert "molecules with enhanced stereo groups: 2" in str(daskrf.status(tmp_path / "s"))


LABELS = "smiles,score\nF[C@H](N)Cl |&1:1|,-1\nN[C@@H](F)Cl |o1:1|,-2\nN[C@H](F)Cl,-3\nN[C@@H](F)Cl,-4\n"


def test_labels_of_a_racemate_and_of_its_enantiomers_go_to_their_own_molecules(tmp_path: Path) -> None:
    daskrf.fingerprint(library(tmp_path, ".smi"), tmp_path / "s", spec=FingerprintSpec("morgan"))
    (tmp_path / "l.csv").write_text(LABELS)
    labels = read_labels(tmp_path / "l.csv", key="structure")
    joined = join_labels(labels, FingerprintStore.open(tmp_path / "s"))
    assert {int(row): float(y) for row, y in zip(joined.row, joined.y[:, 0], strict=True)} == {
        0: -1,
        1: -2,
        2: -3,
        3: -4,
    }
    assert labels.notes == (
        "2 molecules with enhanced stereo groups (racemates, or enantiomers of unknown configuration) among "
        "the labels, each distinct from either enantiomer",
    )
    assert len(read_labels(tmp_path / "l.csv", key="skeleton").keys) == 1


@pytest.mark.parametrize("blanks", ["\t", ","])
def test_blocks_with_groups_are_not_specified_in_products_and_counted(tmp_path: Path, blanks: str) -> None:
    path = tmp_path / "space.txt"
    rows = [
        ("SMILES", "synton_id", "synton#", "reaction_id"),
        ("C[C@H](F)[1*] |&1:1|", "a", "0", "r"),
        ("C[C@H](Cl)[1*]", "b", "0", "r"),
        ("O[1*]", "c", "1", "r"),
    ]
    path.write_text("".join(blanks.join(row) + "\n" for row in rows))
    space = read_space(path)
    assert canonical_smiles(space.smiles) == canonical_smiles(["CC(F)[1*]", "C[C@H](Cl)[1*]", "O[1*]"])
    assert space.blocks == ["a", "b", "c"]
    report = str(daskrf.check_space(path))
    assert "1 blocks with enhanced" not in report
    assert "1 block with enhanced stereo groups" in report
    assert "the marked centres are unspecified in products" in report


@pytest.mark.parametrize(
    "middle", ["[C@H](F)[C@H]1CC[C@@H](CC1)[C@H](F)[C@H](F)", "[C@H](F)[C@H](F)[C@H]1CC[C@@H](CC1)[C@H](F)"]
)
def test_groups_over_dependent_centres_of_a_ring(middle: str) -> None:
    text = Chem.CanonSmiles(f"N{middle}Br")
    centres = [atom.GetIdx() for atom in Chem.MolFromSmiles(text).GetAtoms() if atom.GetChiralTag()]
    marked = f"{text} |&1:{centres[2]},{centres[4]}|"
    assert meant(shuffled(marked, 0)) == meant(marked)
    one, other = canonical_smiles([clean_smiles(marked), clean_smiles(shuffled(marked, 0))])
    assert one == other
    assert meant(one) == meant(marked)


@pytest.mark.parametrize("kinds", ["&1:1,&2:{}", "o1:1,o2:{}"])
@pytest.mark.parametrize(
    "text", ["C[C@@H]1CC[C@H](O)CC1", "N[C@@H]1CC[C@H](C(=O)O)CC1", "C[C@@H]1C[C@H](O)C1"]
)
def test_of_groups_that_say_the_same_any_may_be_left_out(text: str, kinds: str) -> None:
    centres = [atom.GetIdx() for atom in Chem.MolFromSmiles(text).GetAtoms() if atom.GetChiralTag()]
    marked = f"{text} |{kinds.format(centres[1])}|"
    names = canonical_smiles([clean_smiles(marked), *(clean_smiles(shuffled(marked, k)) for k in range(8))])
    assert len(set(names)) == 1
    assert meant(names[0]) == meant(marked)
