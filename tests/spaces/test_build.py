"""Spaces built from reactions and blocks: slots as RDKit matches them, and all else in a sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from rdkit import Chem
from rdkit.Chem import rdChemReactions

import daskrf
from daskrf.cli.app import run
from daskrf.errors import InputError, StoreError
from daskrf.jobs.shards import run_shard
from daskrf.screens.space import assigning
from daskrf.spaces import read_space
from daskrf.spaces.reactionlists import read_reactions
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, BOC, CORES, HALIDES, SPACES, SULFONAMIDE, write_space

NOTHING = "[Xe:1][H].[N:2][H]>>[Xe:1][N:2]"
CAGE = "([N:1][H].[O:2][H].[S:3][H]).([C:4]Br.[C:5]Cl.[C:6]I)>>([N:1][C:4].[O:2][C:5].[S:3][C:6])"
REACTIONS = {"amide": AMIDE, "boc": BOC, "sulfonamide": SULFONAMIDE, "povarov": SPACES["povarov"][0]}
EXTRA = ["CS(=O)(=O)Cl", "Nc1ccccc1", "C1C=CCC1", "CC=O"]
BLOCKS = list(dict.fromkeys([*AMINES, *ACIDS, *CORES, *HALIDES, *EXTRA]))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A file of reactions and a file of blocks."""
    reactions, blocks = tmp_path / "reactions.smarts", tmp_path / "blocks.smi"
    lines = [f"{smarts} {name}" for name, smarts in {**REACTIONS, "nothing": NOTHING, "cage": CAGE}.items()]
    reactions.write_text("# of this test\n\n" + "\n".join(lines) + "\n")
    blocks.write_text("".join(f"{smiles} b{i}\n" for i, smiles in enumerate(BLOCKS)))
    return reactions, blocks


def blocks_by_rdkit(smarts: str) -> list[set[str]]:
    """Return the blocks that match each slot, by RDKit."""
    reaction = rdChemReactions.ReactionFromSmarts(smarts)
    matching: list[set[str]] = []
    for template in reaction.GetReactants():
        needed = any(atom.GetAtomicNum() == 1 for atom in template.GetAtoms())
        matching.append(set())
        for i, smiles in enumerate(BLOCKS):
            molecule = Chem.MolFromSmiles(smiles)
            if (Chem.AddHs(molecule) if needed else molecule).HasSubstructMatch(template):
                matching[-1].add(f"b{i}")
    return matching


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_slots_are_those_of_rdkit(files: tuple[Path, Path], tmp_path: Path) -> None:
    report = daskrf.build_space(*files, tmp_path / "space")
    space = read_space(tmp_path / "space")
    assert [reaction.name for reaction in space.reactions] == list(report.reactions) == list(REACTIONS)
    for r, smarts in enumerate(REACTIONS.values()):
        slots = [{space.blocks[block] for block in slot.tolist()} for slot in space.slots_of(r)]
        assert slots == blocks_by_rdkit(smarts)
        counts = [slot.blocks for slot in report.slots if slot.reaction == space.reactions[r].name]
        assert counts == list(map(len, slots))
    assert report.refused == {
        "nothing": "no block fits its slot 0, [#54:1][#1]",
        "cage": "two slots are joined by 3 bonds; one, or two of one pair of slots, are supported",
    }
    rows = gzip.decompress((tmp_path / "space" / "left-out.tsv.gz").read_bytes()).decode().splitlines()[1:]
    assert report.read == len(BLOCKS) == report.blocks + len(rows)
    assert {row.split("\t")[0] for row in rows}.isdisjoint(space.blocks)
    assert daskrf.check_space(tmp_path / "space", sample=5).exit_code == 0


def test_duplicates_salts_and_what_cannot_be_read_are_counted(tmp_path: Path) -> None:
    (tmp_path / "amide.smarts").write_text("[N:1]([H])[*:2].[OH][C:3]=[O:4]>>[*:2][N:1][C:3]=[O:4]\n")
    lines = [
        "CN a",
        "NC b",
        "CN a",
        "CC(=O)O c",
        "CC(=O)O.[Na] d",
        "OC(=O)CC.Cl e",
        "CCC f",
        "C1C g",
        "*C(=O)O h",
    ]
    (tmp_path / "blocks.smi").write_text("\n".join(lines))
    report = daskrf.build_space(tmp_path / "amide.smarts", tmp_path / "blocks.smi", tmp_path / "space")
    assert (report.blocks, report.read) == (2, 9)
    assert report.left_out == {
        "it has several fragments": 2,
        "it has the structure of an earlier block": 2,
        "it fits no slot": 1,
        "RDKit cannot read it": 1,
        "it has a dummy atom": 1,
    }
    assert (
        f"left out: 7 of 9 blocks, listed in {tmp_path / 'space' / 'left-out.tsv.gz'}: it has the structure "
        "of an earlier block (2), it has several fragments (2; --fragments largest takes the largest), it "
        "fits no slot (1), RDKit cannot read it (1), it has a dummy atom (1)\n"
    ) in str(report)
    report = daskrf.build_space(
        tmp_path / "amide.smarts", tmp_path / "blocks.smi", tmp_path / "other", fragments="largest"
    )
    space = read_space(tmp_path / "other")
    assert dict(zip(space.blocks, space.smiles, strict=True)) == {"a": "CN", "c": "CC(=O)O", "e": "CCC(=O)O"}
    assert report.left_out["it has the structure of an earlier block"] == 3


def test_an_interrupted_run_is_finished_and_shards_make_the_same_bytes(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assigning, "_ROWS", 20)

    def fail(*_: Any) -> None:
        raise InputError("no")

    with monkeypatch.context() as patch:
        patch.setattr(assigning, "publish", fail)
        with pytest.raises(InputError, match="no"):
            daskrf.build_space(*files, tmp_path / "space")
    assert not (tmp_path / "space").exists()
    words = str(daskrf.status(tmp_path / "space"))
    assert "space: a make-on-demand space, unfinished" in words
    assert "run `daskrf build-space` again with the same options to finish it" in words
    with monkeypatch.context() as patch:
        patch.setattr(assigning.Assignment, "add", fail)  # all is there
        daskrf.build_space(*files, tmp_path / "space")
    for shard in ("1/2", "0/2"):
        run_shard(daskrf.build_space, shard, *files, tmp_path / "by shards")
    daskrf.build_space(*files, tmp_path / "by shards")
    assert bytes_of(tmp_path / "by shards") == bytes_of(tmp_path / "space")
    with pytest.raises(StoreError, match="space exists; give another path"):
        daskrf.build_space(*files, tmp_path / "space")


@pytest.mark.parametrize(
    ("smarts", "blocks", "message"),
    [
        ("", "CN a", "has no reactions"),
        ("C.N a>>b c>>d", "CN a", "Line 1 of .* has 2 reactions; write one in each line"),
        ("name,text\na,b\n", "CN a", "is no list of reactions: it has neither lines of SMARTS"),
        ("[C:1>>[C:1] a", "CN a", "Reaction a: RDKit cannot read the SMARTS"),
        (f"{AMIDE} a\n{AMIDE} a", "CN a", "has reaction a twice; give each a name of its own"),
        (
            f"{AMIDE} a\n{NOTHING} n",
            "CCC a\nCCCC b",
            r"make no products: reaction a is left out, as no block fits its slot 0, .* \(and 1 other",
        ),
        (f"{AMIDE} a", "CN.Cl a\nCC(=O)O.Cl b", "2 blocks have several fragments: try --fragments largest"),
        (
            f"{AMIDE} a",
            "CN a\nCC(=O)O a\nCCN b",
            "1 ID of the blocks stands for different molecules, such as a;",
        ),
        (CAGE, "CN a", "reaction r is left out, as two slots are joined by 3 bonds"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, smarts: str, blocks: str, message: str) -> None:
    (tmp_path / "r.smarts").write_text(smarts)
    (tmp_path / "b.smi").write_text(blocks)
    with pytest.raises(InputError, match=message):
        daskrf.build_space(tmp_path / "r.smarts", tmp_path / "b.smi", tmp_path / "space")
    assert not (tmp_path / "space").exists()


def test_lists_of_reactions_in_several_forms(tmp_path: Path) -> None:
    plain = "[N:1]([H])[*:2].[OH][C:3]=[O:4]>>[*:2][N:1][C:3]=[O:4]"
    rxn = rdChemReactions.ReactionToRxnBlock(rdChemReactions.ReactionFromSmarts(SULFONAMIDE))
    texts = {
        "one.smarts": plain,
        "named.smarts": f"one {plain}",
        "agent.smarts": plain.replace(">>", ">[Na+]>") + "\tone",
        "table.csv": f'rxn_id,SMARTS\none,"{plain}"\n',
        "space.tsv": "reaction\treactants\tproduct\none\t" + plain.replace(">>", "\t") + "\n",
        "one.rxn": rxn,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (reaction,) = read_reactions(tmp_path / name)
        assert (reaction.name, len(reaction.slots)) == ("one", 2)
        if ".rxn" not in name:
            assert reaction.refusal == ""
            assert reaction.halves[1].cuts == (1,)
    (tmp_path / "two.smarts").write_text(f"{plain}\n{AMIDE}\n")
    assert [reaction.name for reaction in read_reactions(tmp_path / "two.smarts")] == ["two-1", "two-2"]


def test_the_command(files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["build-space", *map(str, files), "--workers", "0", "-o"]
    assert run([*command, str(tmp_path / "space"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {slot["reaction"] for slot in printed["slots"]} == {*REACTIONS, "nothing", "cage"}
    assert "a make-on-demand space, complete" in str(daskrf.status(tmp_path / "space"))
    assert daskrf.status(tmp_path / "space").bytes > 0
    again = write_space(tmp_path / "again", {"amide": (AMIDE, [AMINES, ACIDS])})
    assert run([*command, str(again)]) != 0
    assert "again exists; give another path, or delete it" in capsys.readouterr().err


def test_ids_are_kept_as_they_are(tmp_path: Path) -> None:
    """Also those that look like the names of rows without an ID."""
    (tmp_path / "amide.smarts").write_text(f"{AMIDE} amide\n")
    (tmp_path / "b.csv").write_text("smiles,id\nNCC,row-0\nCC(=O)O,row-1\nNCCC,row-7\nNCCCC,\n")
    daskrf.build_space(tmp_path / "amide.smarts", tmp_path / "b.csv", tmp_path / "space")
    assert read_space(tmp_path / "space").blocks == ["row-0", "row-1", "row-7", "row-3"]
