"""Spaces from tables of synthons and from files of reagents, and what is wrong with others in a sentence."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdSynthonSpaceSearch

import daskrf
from daskrf.errors import InputError
from daskrf.molecules import FingerprintSpec
from daskrf.molecules.counts.fingerprints import Fingerprinter
from daskrf.spaces import Coupling, CutSpace, cut, is_space, read_space
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, write_space

MORGAN = FingerprintSpec("morgan")
HEADER = ["SMILES", "synton_id", "synton#", "reaction_id", "release"]
TWO = {
    "1": ["O=C([1*])C", "O=C([1*])c1ccccc1", "[1*]C(=O)[C@H](C)O", "O=C([1*])/C=C/C"],
    "2": ["[1*]NC", "[1*]N1CCOCC1", "CN([1*])c1ncccn1"],
}
THREE = {
    "1": ["[1*]C(C)=O", "[1*]S(C)(=O)=O"],
    "2": ["[1*]N1CCN([2*])CC1", "[1*]NCCN[2*]", "[1*]NC1CC1[2*]"],
    "3": ["[2*]c1ccncc1", "[2*]CC#N"],
}
RING = {
    "1": ["[1*]CC([2*])=O", "[1*]CCC(C)C[2*]", "[1*]C1CCCC1[2*]", "[1*]c1ccccc1[2*]"],
    "2": ["[1*]NCC[2*]", "[1*]N(C)CC1CC1C[2*]", "[1*]CC1(C[2*])CCNC1"],
}
THREE_AND_RING = {
    "1": ["[1*]CC([3*])CC[2*]", "[1*]C1CC([3*])CC1[2*]"],
    "2": ["[1*]OCC[2*]", "[1*]N1CCC([2*])CC1"],
    "3": ["[3*]c1ccncc1", "[3*]CC#N"],
}


def write_table(path: Path, reactions: dict[str, dict[str, list[str]]], delimiter: str = "\t") -> Path:
    rows = [
        [smiles, f"{reaction}-{slot}-{i}", slot, reaction, "r1"]
        for reaction, slots in reactions.items()
        for slot, synthons in slots.items()
        for i, smiles in enumerate(synthons)
    ]
    path.write_text("".join(delimiter.join(row) + "\n" for row in [HEADER, *rows]))
    return path


def products(space: CutSpace, reaction: int) -> list[tuple[int, ...]]:
    return list(itertools.product(*(slot.synthon.tolist() for slot in space.entries[reaction])))


def rdkit_products(path: Path, tmp_path: Path) -> set[str]:
    space = rdSynthonSpaceSearch.SynthonSpace()
    space.ReadTextFile(str(path))
    space.WriteEnumeratedFile(str(tmp_path / "all.smi"))
    return {Chem.CanonSmiles(line.split()[0]) for line in (tmp_path / "all.smi").read_text().splitlines()}


@pytest.mark.parametrize("spec", [MORGAN, FingerprintSpec(["morgan:1", "morgan:2"])])
def test_products_of_a_table_are_those_of_rdkit(tmp_path: Path, spec: FingerprintSpec) -> None:
    reactions = {"amide": TWO, "three": THREE, "ring": RING, "three and ring": THREE_AND_RING}
    path = write_table(tmp_path / "space.txt", reactions)
    space = cut(read_space(path), spec)
    chosen = [np.array(products(space, reaction), np.int32) for reaction in range(4)]
    smiles = [one for synthons in chosen for one in space.product_smiles(synthons)]
    assert len(smiles) == len(set(smiles)) == 4 * 3 + 2 * 3 * 2 + 4 * 3 + 2 * 2 * 2
    assert set(smiles) == rdkit_products(path, tmp_path)
    whole = Fingerprinter(spec)(smiles).fingerprints
    start = 0
    for synthons in chosen:
        summed = space.fingerprints(synthons)
        assert (summed != whole[start : start + len(synthons)]).nnz == 0
        start += len(synthons)


def test_points_may_be_written_in_four_ways(tmp_path: Path) -> None:
    expected = cut(read_space(write_table(tmp_path / "a.tsv", {"three": THREE})), MORGAN)
    for one, two in (("[*:1]", "[*:2]"), ("[1*:1]", "[2*:2]"), ("[U]", "[Np]")):
        other = {
            slot: [text.replace("[1*]", one).replace("[2*]", two) for text in synthons]
            for slot, synthons in THREE.items()
        }
        space = cut(read_space(write_table(tmp_path / "b.csv", {"three": other}, ",")), MORGAN)
        assert space.smiles == expected.smiles
        assert space.entries[0][0].synthon.tolist() == expected.entries[0][0].synthon.tolist()


def test_tables_between_spaces_compressed_and_with_other_names(tmp_path: Path) -> None:
    expected = read_space(write_table(tmp_path / "a.tsv", {"amide": TWO}))
    path = write_table(tmp_path / "b.txt", {"amide": TWO}, " ")
    assert is_space(path)
    assert read_space(path).smiles == expected.smiles
    text = (tmp_path / "a.tsv").read_text().replace("\t", ",").replace("synton#", "synton_role")
    (tmp_path / "c.gz").write_bytes(gzip.compress(text.replace("synton_id", "synthon_id").encode()))
    assert is_space(tmp_path / "c.gz")
    space = read_space(tmp_path / "c.gz")
    assert space.smiles == expected.smiles
    assert space.reactions == expected.reactions == (Coupling("amide", ((1,), (1,))),)
    assert space.slots.keys() == expected.slots.keys()


def test_comments_before_the_header_are_passed_over(tmp_path: Path) -> None:
    text = write_table(tmp_path / "a.tsv", {"amide": TWO}, ",").read_text()
    (tmp_path / "b.csv").write_text("#\n# Copyright, of whom it may concern\n" + text)
    assert is_space(tmp_path / "b.csv")
    assert read_space(tmp_path / "b.csv").smiles == read_space(tmp_path / "a.tsv").smiles
    (tmp_path / "c.csv").write_text("# one line\n" + text + "CC\n")
    with pytest.raises(InputError, match=r"Line 10 of .*c\.csv has only 1 field"):
        read_space(tmp_path / "c.csv")


def test_doubled_separators_are_one(tmp_path: Path) -> None:
    expected = read_space(write_table(tmp_path / "a.tsv", {"amide": TWO}))
    lines = (tmp_path / "a.tsv").read_text().splitlines()
    lines[2:5] = [line.replace("\t", "\t\t", 1) for line in lines[2:5]]
    (tmp_path / "b.tsv").write_text("\n".join(lines) + "\n")
    space = read_space(tmp_path / "b.tsv")
    assert (space.smiles, space.blocks, space.reactions) == (
        expected.smiles,
        expected.blocks,
        expected.reactions,
    )


def test_ten_slots_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    slots = {str(n): [f"[{n}*]{'C' * n}[{n + 1}*]"] for n in (10, 9, 8)}
    space = read_space(write_table(tmp_path / "a.tsv", {"chain": slots}))
    assert space.reactions[0].slots == ((8, 9), (9, 10), (10, 11))


def test_odd_synthons_are_left_out_with_the_reason(tmp_path: Path) -> None:
    odd = {
        "1": [*TWO["1"], "CCO", "C[1*].Cl", "C(=[1*])C", "*C[1*]", "C([1*])[2*]", "not a SMILES", "[2H][1*]"],
        "2": TWO["2"],
    }
    report = daskrf.check_space(write_table(tmp_path / "a.tsv", {"amide": odd}), sample=1)
    slot = report.reactions[0].slots[0]
    assert (slot.blocks, slot.synthons) == (11, 4)
    assert slot.refused == {
        "its attachment points are not those of most of its slot (1)": ["amide-1-4", "amide-1-8"],
        "it has several fragments": ["amide-1-5"],
        "its attachment point 1 is not at the end of a single bond": ["amide-1-6"],
        "it has a dummy atom without a number": ["amide-1-7"],
        "RDKit cannot read it": ["amide-1-9"],
        "its attachment point 1 is at a hydrogen atom, which joins nothing": ["amide-1-10"],
    }
    assert report.exit_code == 0
    assert report.reactions[0].products == 12


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ({"1": ["C[1*]"]}, "it has 1 slot; two or three are supported"),
        ({"1": ["C[1*]"], "2": ["C[2*]"]}, "attachment point 1 stands in 1 slot, not in two"),
        ({"1": ["[1*]CC([3*])[2*]"], "2": ["[1*]CC([3*])[2*]"]}, "two slots are joined by 3 bonds"),
        ({"1": ["[1*]CC[1*]"], "2": ["[2*]C"], "3": ["[2*]C"]}, "a slot is joined to itself"),
        (
            {"1": ["[1*]CC(C[4*])C[3*]"], "2": ["[1*]CC(C[4*])C[2*]"], "3": ["[2*]CC[3*]"]},
            "two slots are joined by 2 bonds, and both to the third",
        ),
        ({"1": ["[1*]C[3*]"], "2": ["[1*]C[2*]"], "3": ["[2*]C[3*]"]}, "no block of slot 2 has a synthon"),
    ],
)
def test_reactions_that_do_not_compose_are_refused(tmp_path: Path, slots: object, message: str) -> None:
    path = write_table(tmp_path / "a.tsv", {"odd": slots, "amide": TWO})  # type: ignore[dict-item]
    report = daskrf.check_space(path, sample=1)
    assert message in report.reactions[0].refusal
    assert report.reactions[1].products == 12
    assert report.exit_code == 1


def test_three_slots_close_rings_of_more_than_three_atoms(tmp_path: Path) -> None:
    slots = {"1": ["[1*]C[3*]"], "2": ["[1*]C[2*]"], "3": ["[2*]C[3*]", "[2*]CC[3*]"]}
    report = daskrf.check_space(write_table(tmp_path / "a.tsv", {"ring": slots, "amide": TWO}), sample=9)
    (ring, _), blocks = report.reactions, report.reactions[0].slots[2]
    assert blocks.refused == {"it closes a ring of three atoms or fewer with other blocks": ["ring-3-0"]}
    assert (ring.refusal, ring.products, ring.compared, report.exit_code) == ("", 1, 9, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("smiles,id\nC,a\n", "is not a space: a table of synthons has the columns SMILES, synton_id"),
        ("\t".join(HEADER), "has no synthons"),
        ("\t".join(HEADER) + "\nC[1*]\ta\t1\n", "Line 2 of .* has only 3 fields"),
        (
            "\t".join(HEADER) + "\nC[1*]\ta\t1\tr\nC[1*]\ta\t1\tr\n",
            "repeats 1 synthon in slot 1 of reaction r",
        ),
    ],
)
def test_tables_that_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        read_space(tmp_path / "a.txt")


def test_ids_of_several_synthons_are_named(tmp_path: Path) -> None:
    rows = ["C[1*]\ta\t1\tr", "CC[1*]\ta\t1\tr", "O[1*]\tb\t2\tr", "O[1*]\ta\t2\tother", "C[1*]\ta\t1\tother"]
    (tmp_path / "a.tsv").write_text("\n".join(["SMILES\tsynton_id\tsynton#\treaction_id", *rows]))
    (note,) = read_space(tmp_path / "a.tsv").notes
    assert note.startswith(
        "1 ID with several synthons in one slot, such as a: their products have the same ID"
    )


def test_no_space(tmp_path: Path) -> None:
    assert not is_space(tmp_path)
    assert not is_space(tmp_path / "nothing")
    (tmp_path / "a.smi").write_text("CCO ethanol\n")
    assert not is_space(tmp_path / "a.smi")
    (tmp_path / "empty").write_text("")
    assert not is_space(tmp_path / "empty")
    with pytest.raises(InputError, match=r"neither a table of reactions .* nor the SMARTS of one reaction"):
        read_space(tmp_path)


@pytest.fixture
def reagents(tmp_path: Path) -> Path:
    folder = tmp_path / "reagents"
    folder.mkdir()
    (folder / "amide.smarts").write_text(AMIDE + "\n")
    (folder / "slot1_amines.smi").write_text("".join(f"{text} amine-{i}\n" for i, text in enumerate(AMINES)))
    (folder / "slot2_acids.smi.gz").write_bytes(gzip.compress("\n".join(ACIDS).encode()))
    return folder


def test_files_of_reagents_are_the_same_space(reagents: Path, tmp_path: Path) -> None:
    assert is_space(reagents)
    space = read_space(reagents)
    expected = read_space(write_space(tmp_path / "tables", {"amide": (AMIDE, [AMINES, ACIDS])}))
    assert [r.smarts for r in space.reactions] == [r.smarts for r in expected.reactions]
    for ours, theirs in zip(space.slots_of(0), expected.slots_of(0), strict=True):
        assert [space.smiles[b] for b in ours] == [expected.smiles[b] for b in theirs]
    assert space.blocks[:2] == ["amine-0", "amine-1"]
    assert space.blocks[len(AMINES)] == "slot2_acids-1"
    assert daskrf.check_space(reagents, sample=20).exit_code == 0


def test_reagents_that_a_file_repeats_are_merged(tmp_path: Path) -> None:
    acids = "CC(=O)O a\nOC=O b\nOC(=O)C1CC1 c\n"
    repeats = {  # q is merged with p in the first file, and stands alone in the second
        "1_amines.smi": "CN p\nNC q\nCCN r\nNCC r\nC[NH2] p\nNC q\nC[C@H](N)F s\nC[C@@H](N)F t\n",
        "2_acids.smi": acids.replace("c\n", "c\nOC(C)=O a\nCN q\n"),
    }
    distinct = {"1_amines.smi": "CN p\nCCN r\nC[C@H](N)F s\nC[C@@H](N)F t\n", "2_acids.smi": f"{acids}CN q\n"}
    for name, files in (("repeats", repeats), ("distinct", distinct)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "amide.smarts").write_text(AMIDE)
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
    space, expected = (read_space(tmp_path / name) for name in ("repeats", "distinct"))
    assert (space.blocks, space.smiles) == (expected.blocks, expected.smiles)
    assert [blocks.tolist() for blocks in space.slots_of(0)] == [b.tolist() for b in expected.slots_of(0)]
    assert space.digest != expected.digest
    assert space.notes == [
        "1_amines.smi repeats 4 reagents (2 with another ID, such as q for p): each structure counts once, "
        "by its first ID",
        "2_acids.smi repeats 1 reagent: each structure counts once, by its first ID",
    ]
    assert expected.notes == []
    checks = [daskrf.check_space(tmp_path / name, sample=5) for name in ("repeats", "distinct")]
    assert checks[0].reactions == checks[1].reactions
    assert checks[0].reactions[0].products == 4 * 2  # two of the second file are no acids
    assert set(space.notes) <= set(str(checks[0]).splitlines())
    samples = [daskrf.sample(tmp_path / n, tmp_path / f"{n}.csv", n=20) for n in ("repeats", "distinct")]
    assert samples[0].table.equals(samples[1].table)
    assert set(space.notes) <= set(samples[0].notes)


def test_the_digest_of_reagents_without_repeats_stays(tmp_path: Path) -> None:
    (tmp_path / "amide.smarts").write_text(AMIDE)
    (tmp_path / "1.smi").write_text("CN a\nCCN b\n")
    (tmp_path / "2.smi").write_text("CC(=O)O c\nCN a\n")
    space = read_space(tmp_path)
    assert (space.blocks, space.smiles) == (["a", "b", "c"], ["CN", "CCN", "CC(=O)O"])
    assert space.digest == "0d117634d35a131210279d34d429eed065ef740a575ecab9ae3bdf1fbd824d13"


def test_a_reagent_may_be_called_as_a_row_without_a_name_is(reagents: Path) -> None:
    (reagents / "slot2_acids.smi.gz").unlink()
    (reagents / "slot2_acids.smi").write_text("CC(=O)O row-0\nCCC(=O)O\nOC=O c\n")
    assert read_space(reagents).blocks[-3:] == ["row-0", "slot2_acids-2", "c"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("slot3.smi", "C", "has 2 slots, but .* has 3 files"),
        ("slot2_acids.smi.gz", "", "holds no rows"),
        ("slot2_acids.smi.gz", "CC(=O)O amine-0\n", "several reagents named amine-0; give each its own ID"),
        ("slot2_acids.smi.gz", "CC(=O)O a\nOC=O b\nCCC(=O)O a\n", "several reagents named a; give each its"),
        # b is refused although its structure is known by another ID
        ("slot2_acids.smi.gz", "OC=O a\nO=CO b\nCC(=O)O b\n", "several reagents named b; give each its"),
        ("slot2_acids.smi.gz", "C[C@H](F)C(=O)O a\nC[C@@H](F)C(=O)O a\n", "several reagents named a; give"),
        ("other.smarts", AMIDE, "amide.smarts and other.smarts; keep one reaction"),
        ("amide.smarts", "C.C", "must have one line, the SMARTS of the reaction"),
        ("amide.smarts", "[N:1>>", "RDKit cannot read the SMARTS"),
    ],
)
def test_files_of_reagents_that_cannot_be_read(reagents: Path, name: str, text: str, message: str) -> None:
    (reagents / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_space(reagents)
