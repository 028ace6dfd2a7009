"""Tables as spreadsheets write them: encodings, byte order marks, semicolons, decimal commas."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from rdkit import Chem

from daskrf.errors import InputError
from daskrf.measurements import label_words, read_labels
from daskrf.tables import scan, table_words
from daskrf.tables.formats import open_table
from daskrf.tables.layout import molecules
from tests.molecules.helpers import rejects_of, rows_of

WORDS = {
    "utf-8": "UTF-8 text",
    "utf-8-sig": "UTF-8 text",
    "utf-16": "UTF-16 text",
    "utf-16-be": "UTF-16 text",
    "latin-1": "Windows-1252 (Latin-1) text",
    "cp1252": "Windows-1252 (Latin-1) text",
}


def put(path: Path, text: str, encoding: str) -> Path:
    content = (("\ufeff" if encoding == "utf-16-be" else "") + text).encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("encoding", WORDS)
@pytest.mark.parametrize("name", ["a.csv", "a.smi", "a.gz"])
def test_a_library_in_any_encoding(name: str, encoding: str, tmp_path: Path) -> None:
    dash = "\u2013" if encoding == "cp1252" else "\xe4"
    n = 21_000  # rows are sought in the middle of the text
    text = "smiles;name\r\n" + "".join(f"{'C' * (k % 9 + 1)};S{dash}{k}\r\n" for k in range(n))
    path, spool = put(tmp_path / name, text, encoding), tmp_path / "spool"
    library = scan(path, rows_per_partition=8_000, spool=spool)
    assert [row[3:] for row in rows_of(library, spool)] == [
        (f"S{dash}{k}", "C" * (k % 9 + 1)) for k in range(n)
    ]
    assert not rejects_of(library, spool)
    packed = ", gzip-compressed" if name == "a.gz" else ""
    layouts = library.sources[0].layout
    assert table_words([(path, layouts)])[0].startswith(
        f"{path}: {WORDS[encoding]}{packed}, separated by semi"
    )


@pytest.mark.parametrize("encoding", WORDS)
def test_labels_as_a_spreadsheet_saves_them(encoding: str, tmp_path: Path) -> None:
    text = (
        'Name;"IC50\r\n(\xb5M)";Note\r\nS\xe4ure;-7,25;"two\r\nlines; and more"\r\n'
        'B;8;\r\n"C;\xe4";1,5e1;x\r\n'
    )
    path = put(tmp_path / "labels.csv", text, encoding)
    labels = read_labels(path)
    assert (labels.keys.to_pylist(), labels.y.ravel().tolist()) == (
        ["S\xe4ure", "B", "C;\xe4"],
        [-7.25, 8, 15],
    )
    words = label_words(path)
    assert f"{WORDS[encoding]}, separated by semicolons, with a header; IDs in 'Name'" in words
    assert words.endswith("decimal commas, 'IC50\\n(\xb5M)' in uM (by its name)")


@pytest.mark.parametrize(
    "text",
    [
        "A;7,5\nB;8,1\n",
        "id;score, kcal/mol\nA;7,5\nB;8,1\n",
        "A\t7,5\nB\t8,1\n",
        'id,score\nA,"7,5"\nB,"8,1"\n',
        "id\tscore\nA\t7,500\nB\t8,1\n",
        "id score\nA 7,5\nB 8,1\n",
    ],
)
def test_decimal_commas(text: str, tmp_path: Path) -> None:
    labels = read_labels(put(tmp_path / "a.csv", text, "utf-8"))
    assert (labels.keys.to_pylist(), labels.y.ravel().tolist()) == (["A", "B"], [7.5, 8.1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id\tscore\nA\t1,234\nB\t2,345\n", "holds '1,234', which may mean 1.234 or 1234"),
        ("id;score\nA;7,5\nB;8.1\n", r"'score' of .* holds '8.1' and '7,5', with decimal points and commas"),
        ("id;score\nA;7.5\nB;1.234,5\n", r"'score' of .* holds '7.5' and '1.234,5', with decimal points"),
        ("id;score\nA;1\nB;1,23,567\n", r"line 3: 'score' holds '1,23,567', which is not a number"),
    ],
)
def test_numbers_that_may_mean_another_are_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        read_labels(put(tmp_path / "a.csv", text, "utf-8"))


def test_bytes_of_no_encoding_are_lost_lines(tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_bytes("CC ä\nCO ".encode() + b"\xe4\nCN n\n")
    assert [(r.line, r.reason) for r in rejects_of(scan(tmp_path / "a.smi"))] == [(2, "not UTF-8 text")]
    late = b"CC \xe4\n" + b"CN n\n" * 300_000 + b"CO \x81\n"
    (tmp_path / "b.smi").write_bytes(late)
    library = scan(tmp_path / "b.smi")
    assert [(r.line, r.reason) for r in rejects_of(library)] == [(300_002, "not UTF-8 text")]
    (tmp_path / "c.csv").write_bytes("smiles,id\nCC,a\n".encode("utf-16")[:-1])
    with pytest.raises(InputError, match="is damaged UTF-16 text"):
        scan(tmp_path / "c.csv")


def test_an_sd_file_in_another_encoding(tmp_path: Path) -> None:
    molecule = Chem.MolFromSmiles("CCO")
    molecule.SetProp("_Name", "S\xe4ure")
    text = Chem.MolToMolBlock(molecule) + "$$$$\n"
    for encoding in ("latin-1", "utf-16"):
        path = put(tmp_path / "a.sdf", text, encoding)
        assert [row[3:] for row in rows_of(scan(path))] == [("S\xe4ure", "CCO")]
        table = open_table(path, molecules()).table
        assert table.layers[0] == WORDS[encoding]
