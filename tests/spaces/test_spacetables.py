"""Tables of spaces, as they are found, and what is wrong with others in one sentence."""

from __future__ import annotations

import gzip

import pytest

from daskrf.errors import InputError
from daskrf.spaces.spacefiles import is_space, read_space
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, SPACES, write_space


@pytest.fixture
def folder(tmp_path):
    return write_space(tmp_path / "space", {"amide": (AMIDE, [AMINES, ACIDS])})


def test_tables_are_read(folder):
    space = read_space(folder)
    assert [reaction.name for reaction in space.reactions] == ["amide"]
    assert [[space.smiles[block] for block in slot] for slot in space.slots_of(0)] == [AMINES, ACIDS]
    assert space.blocks[:2] == ["b0", "b1"]


def test_commas_other_columns_and_gzip_are_the_same(folder):
    expected = read_space(folder)
    for name in ("reactions", "blocks", "slots"):
        path = folder / f"{name}.tsv"
        rows = [f"{i}," + line.replace("\t", ",") for i, line in enumerate(path.read_text().splitlines())]
        path.unlink()
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))
    space = read_space(folder)
    assert space.smiles == expected.smiles
    assert space.reactions == expected.reactions
    assert all((space.slots[key] == blocks).all() for key, blocks in expected.slots.items())
    assert space.digest != expected.digest


def test_a_space_is_known_by_its_reactions(folder, tmp_path):
    assert is_space(folder)
    assert not is_space(tmp_path)


@pytest.mark.parametrize(
    ("table", "old", "new", "message"),
    [
        ("blocks", "b1\t", "b0\t", "has block b0 twice"),
        ("blocks", "smiles", "structure", "has no column smiles; its columns are block, structure"),
        ("blocks", "b1\tCN", "b1", r"Line 3 of .*blocks.tsv has only 1 field"),
        ("reactions", "amide\t[", "amide\t[[", "Reaction amide: RDKit cannot read the SMARTS"),
        ("slots", "\tb1\n", "\tb77\n", "names block b77, which the other tables do not have"),
        ("slots", "\t0\tb0\n", "\t2\tb0\n", "names slot 2 of reaction amide, which the other tables"),
        ("slots", "\t0\tb0\n", "\t0\tb1\n", "repeats 1 block in slot 0 of reaction amide"),
        ("slots", "amide\t0", "amide\t1", "has no blocks for slot 0 of reaction amide"),
    ],
)
def test_what_is_wrong_is_said(folder, table, old, new, message):
    path = folder / f"{table}.tsv"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message):
        read_space(folder)


def test_two_tables_of_one_kind_are_refused(folder):
    (folder / "blocks.csv").write_text("block,smiles\n")
    with pytest.raises(InputError, match=r"blocks\.tsv and blocks\.csv; keep one"):
        read_space(folder)


def test_a_missing_table_and_no_folder_are_refused(folder):
    (folder / "slots.tsv").unlink()
    with pytest.raises(InputError, match=r"is not a space: it has no slots\.csv or slots\.tsv"):
        read_space(folder)
    with pytest.raises(InputError):
        read_space(folder / "nothing")


def test_a_reaction_twice_is_refused(folder):
    path = folder / "reactions.tsv"
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
    with pytest.raises(InputError, match="has reaction amide twice"):
        read_space(folder)


def test_a_damaged_file_is_refused(folder):
    path = folder / "blocks.tsv"
    data = gzip.compress(path.read_bytes())
    path.unlink()
    (folder / "blocks.tsv.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=r"blocks\.tsv\.gz is damaged"):
        read_space(folder)


def test_a_reaction_s_digest_depends_on_the_tables(folder, tmp_path):
    other = write_space(tmp_path / "other", {"amide": (AMIDE, [AMINES[:-1], ACIDS])})
    assert read_space(folder).digest != read_space(other).digest
    assert read_space(write_space(tmp_path / "again", SPACES)).digest
