"""Delimiter, header and columns are found in the files that users come with."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daskrf.errors import InputError
from daskrf.tables import TableFormat, lay_out, read_partition, scan, table_words
from tests.molecules.helpers import rejects_of, rows_of, write

ENAMINE = "smiles\tidnumber\tMW\nCCO\tZ1\t46\nC[C@H](F)Cl |&1:1|\tZ2\t82\n"

TABS = [("an A", "CCO"), ("row-1", "CC"), ("row-2", "C[C@H](F)Cl |&1:1|")]

TWO = [("A", "CCO"), ("B", "CC")]

LATE = [(f"row-{k}", "CC") for k in range(30)]

CASES = {
    # name: (file name, content, format, [(id, smiles)])
    "one column": ("a.smi", "CCO\nCC\n", {}, [("row-0", "CCO"), ("row-1", "CC")]),
    "smiles and id": ("a.smi", "CCO ZINC1\nCC\tZINC2\n", {}, [("ZINC1", "CCO"), ("ZINC2", "CC")]),
    "tabs, and SMILES alone": ("a.smi", "CCO\tan A\nCC\nC[C@H](F)Cl |&1:1|\n", {"id": 1}, TABS),
    "missing id": ("a.smi", "CCO A\nCC\n", {}, [("A", "CCO"), ("row-1", "CC")]),
    "enamine": ("a.cxsmiles", ENAMINE, {}, [("Z1", "CCO"), ("Z2", "C[C@H](F)Cl |&1:1|")]),
    "enamine compressed": ("a.cxsmiles.bz2", ENAMINE, {}, [("Z1", "CCO"), ("Z2", "C[C@H](F)Cl |&1:1|")]),
    "extension, white space": (
        "a.smi",
        "C[C@H](F)Cl |&1:1, a b| X\nCC Y\n",
        {},
        [("X", "C[C@H](F)Cl |&1:1|"), ("Y", "CC")],
    ),
    "extension, no id": ("a.smi", "C[C@H](F)Cl |&1:1|\n", {}, [("row-0", "C[C@H](F)Cl |&1:1|")]),
    "pubchem": ("CID-SMILES.txt.gz", "1\tCCO\n2\tCC\n", {}, [("1", "CCO"), ("2", "CC")]),
    "pubchem by position": ("a.txt", "1\tCCO\n2\tC\n", {"smiles": 1, "id": 0}, [("1", "CCO"), ("2", "C")]),
    "chembl": (
        "chemreps.txt",
        "chembl_id\tcanonical_smiles\tstandard_inchi\nCHEMBL1\tCCO\tInChI=1S/x\n",
        {},
        [("CHEMBL1", "CCO")],
    ),
    "docking dump": ("a.txt", "CCO A -9.5\nCC B -9.1\n", {}, [("A", "CCO"), ("B", "CC")]),
    "score is no id": ("a.csv", "smiles,score\nCCO,-9.5\n", {}, [("row-0", "CCO")]),
    "score without header": ("a.csv", "CCO,-9.5\nCC,-9.0\n", {}, [("row-0", "CCO"), ("row-1", "CC")]),
    "named": ("a.csv", "x,Mol,Key\n1,CCO,A\n", {"smiles": "mol", "id": "Key"}, [("A", "CCO")]),
    "quoted": ("a.csv", '"smiles","name"\n"CCO","a, b"\n', {}, [("a, b", "CCO")]),
    "blank line first": ("a.csv", "\nsmiles,id\nCC,A\n", {}, [("A", "CC")]),
    "first line with a lost quote": ("a.csv", '"smiles,id\nCC,A\n', {"smiles": 0, "id": 1}, [("A", "CC")]),
    "chlorine is no name": ("a.smi", "CCl id\nCC B\n", {}, [("id", "CCl"), ("B", "CC")]),
    "header by content": ("a.csv", "compound_id,mol\nA,CCO\nB,CCC\n", {}, [("A", "CCO"), ("B", "CCC")]),
    "columns called C and N": ("a.csv", "SMILES,C,N\nCCO,1,2\n", {}, [("row-0", "CCO")]),
    "columns called CNS": ("a.csv", "SMILES,CNS\nCCO,1\n", {}, [("row-0", "CCO")]),
    "names with digits": ("a.csv", "smiles_1,smiles_2\nCCO,C\n", {}, [("row-0", "CCO")]),
    "no SMILES is valid": ("a.csv", "my_smiles,id\nQq,A\n", {}, [("A", "Qq")]),
    "ids with the word smiles": (
        "a.smi",
        "CCO smiles_000001\nCC smiles_000002\n",
        {},
        [("smiles_000001", "CCO"), ("smiles_000002", "CC")],
    ),
    "ids with the word SMILES": (
        "a.csv",
        "CCO,SMILES-1\nCC,SMILES-2\n",
        {},
        [("SMILES-1", "CCO"), ("SMILES-2", "CC")],
    ),
    "one row, its id the word smiles": ("a.smi", "C smiles\n", {}, [("smiles", "C")]),
    "a bad row, its id with the word smiles": ("a.smi", "Qq smiles_1\n", {}, [("smiles_1", "Qq")]),
    "ids begin late": ("a.smi", "CC\n" * 30 + "CCO A\n", {}, [*LATE, ("A", "CCO")]),
    "ids begin late, header": ("a.smi", "smiles\n" + "CC\n" * 30 + "CCO A\n", {}, [*LATE, ("A", "CCO")]),
    "csv by semicolons": ("a.csv", "id;SMILES\nA;CCO\nB;CC\n", {}, [("A", "CCO"), ("B", "CC")]),
    "csv by tabs": ("a.csv.gz", "CCO\tA\nCC\tB\n", {}, [("A", "CCO"), ("B", "CC")]),
    "csv by blanks": ("a.csv", "CCO A\nCC B\n", {}, [("A", "CCO"), ("B", "CC")]),
    "tsv by commas": ("a.tsv", "CCO,A\nCC,B\n", {}, [("A", "CCO"), ("B", "CC")]),
    "txt by commas": (
        "a.txt",
        'smiles,name\nCCO,"an A, b"\nCC,B\n',
        {},
        [("an A, b", "CCO"), ("B", "CC")],
    ),
    "commas in names": ("a.txt", "CCO 1,2-x\nCC 1,1-x\n", {}, [("1,2-x", "CCO"), ("1,1-x", "CC")]),
    "semicolons in names": ("a.csv", "CCO,a;b\nQq,C;d\n", {}, [("a;b", "CCO"), ("C;d", "Qq")]),
    "a delimiter is given": ("a.smi", "CCO;a A\n", {"delimiter": " "}, [("A", "CCO;a")]),
    "first line is bad": ("a.smi", "Qq A\nCC B\n", {"header": False}, [("A", "Qq"), ("B", "CC")]),
    "header is forced": ("a.smi", "CC A\nCCO B\n", {"header": True}, [("B", "CCO")]),
    "semicolon": ("a.dat", "id;smiles\nA;CCO\n", {"delimiter": ";"}, [("A", "CCO")]),
    "unknown ending": ("a.dat", "id;smiles\nA;CCO\nB;CC\n", {}, TWO),
    "no ending": ("molecules", "CCO A\nCC B\n", {}, TWO),
    "no ending, commas": ("molecules", 'smiles,name\nCCO,"A, a"\nCC,B\n', {}, [("A, a", "CCO"), ("B", "CC")]),
    "a class is no id": ("a.smi", "CC 0\n" * 4, {}, [(f"row-{k}", "CC") for k in range(4)]),
    "ids by name": (
        "a.csv",
        "smiles,compound_class,Compound Name,idx\n" + "CCO,x,A,1\nCC,x,B,2\n" * 2,
        {},
        [("A", "CCO"), ("B", "CC")] * 2,
    ),
    "smiles by content": ("a.csv", "valid smiles,mol_smiles,id\nTrue,CCO,A\nFalse,CC,B\n", {}, TWO),
    "byte order mark": ("a.smi", "\ufeffCCO A\n", {}, [("A", "CCO")]),
    "byte order mark and header": ("a.csv", "\ufeffsmiles,id\r\nCCO,A\r\n", {}, [("A", "CCO")]),
    "no final newline": ("a.tsv", "smiles\tid\nCCO\tA", {}, [("A", "CCO")]),
    "name with a quote": ("a.smi", 'CCO\t5"-x\n', {}, [('5"-x', "CCO")]),
}


@pytest.mark.parametrize("case", CASES)
def test_columns_are_found(case: str, tmp_path: Path) -> None:
    name, content, fmt, expected = CASES[case]
    library = scan(write(tmp_path / name, content), TableFormat(**fmt))
    assert [(row[3], row[4]) for row in rows_of(library)] == expected
    assert len(rejects_of(library)) == (case == "first line with a lost quote")


def test_first_line_that_is_no_molecule_is_a_row(tmp_path: Path) -> None:
    library = scan(write(tmp_path / "a.smi", "garbage A\nCCO B\n"))
    assert [row[3:] for row in rows_of(library)] == [("A", "garbage"), ("B", "CCO")]


def test_later_parts_without_header_take_its_names(tmp_path: Path) -> None:
    write(tmp_path / "part1.tsv", "score\tsmiles\tidnumber\n1\tCCO\tA\n")
    write(tmp_path / "part2.tsv", "2\tCC\tB\n")
    library = scan(str(tmp_path / "part*.tsv"), TableFormat(smiles="smiles", id="idnumber", extra=("score",)))
    assert [row[3:] for row in rows_of(library)] == [("A", "CCO"), ("B", "CC")]
    assert library.extra == ("score",)


def test_a_file_of_another_layout_does_not_take_names(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "score\tsmiles\n1\tCCO\n")
    write(tmp_path / "b.txt", "CC\tZINC1\n")
    library = scan([tmp_path / "a.txt", tmp_path / "b.txt"])
    assert [row[4] for row in rows_of(library)] == ["CCO", "CC"]


def test_many_columns_are_not_all_printed(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "id," + ",".join(f"x{k}" for k in range(2_000)) + "\n")
    for fmt, message in ((TableFormat(smiles="mol"), "has no column 'mol'"), (TableFormat(), "no rows")):
        with pytest.raises(InputError, match=message) as error:
            scan(tmp_path / "a.csv", fmt)
        assert len(str(error.value)) < 400
    pq.write_table(pa.table({f"x{k}": [1] for k in range(2_000)}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="x9 and 1,990 more"):
        scan(tmp_path / "a.parquet")


def test_a_column_of_parquet_that_repeats_is_no_id(tmp_path: Path) -> None:
    table = {"smiles": ["CC"] * 9, "Name": ["x"] * 9, "compound": [f"c{k}" for k in range(9)]}
    pq.write_table(pa.table(table), tmp_path / "molecules")
    assert [row[3] for row in rows_of(scan(tmp_path / "molecules"))] == table["compound"]


LAYOUTS = {
    "columns by name": (
        ENAMINE,
        {"extra": ("MW",)},
        "UTF-8 text, separated by tabs, with a header; SMILES in 'smiles', IDs in 'idnumber', 'MW' is kept",
    ),
    "columns by position": (
        "CCO A\n",
        {},
        "UTF-8 text, separated by white space, without a header; SMILES in column 0, IDs in column 1 "
        "(columns are counted from 0)",
    ),
    "no IDs": (
        "smiles;MW\nCCO;46\n",
        {},
        "UTF-8 text, separated by semicolons, with a header; SMILES in 'smiles', no IDs found in its 2 "
        "columns ('smiles', 'MW'), so rows are named row-0, row-1, ...",
    ),
    "one column": (
        "smiles\nCCO\n",
        {"delimiter": ","},
        "UTF-8 text, separated by commas, with a header; SMILES in 'smiles', no IDs found in its only "
        "column ('smiles'), so rows are named row-0, row-1, ...",
    ),
    "one column that others may follow": (
        "CCO\n",
        {},
        "UTF-8 text, separated by white space, without a header; SMILES in column 0, IDs, if any, in column "
        "1, and other rows are named row-0, row-1, ... (columns are counted from 0)",
    ),
    "names that a terminal obeys": (
        "smiles,\x1b[2Jid\nCCO,A\n",
        {"id": 1},
        "UTF-8 text, separated by commas, with a header; SMILES in 'smiles', IDs in '\\x1b[2Jid'",
    ),
    "nothing": ("\n", {}, "UTF-8 text, without a header, in which no row was seen"),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_a_layout_in_words(case: str, tmp_path: Path) -> None:
    content, fmt, words = LAYOUTS[case]
    ((_, layout),) = lay_out(write(tmp_path / "a", content), TableFormat(**fmt))
    assert str(layout) == words


def test_files_of_one_layout_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "acd":
        write(tmp_path / f"{name}.smi", "CC A\n")
    write(tmp_path / "b.smi.gz", "CC A\n")
    write(tmp_path / "e.parquet", b"")
    pq.write_table(pa.table({"smiles": ["CC"], "id": ["A"]}), tmp_path / "e.parquet")
    position = "separated by white space, without a header; SMILES in column 0, IDs in column 1 (columns are"
    position += " counted from 0)"
    assert table_words(lay_out(sorted(tmp_path.iterdir()))) == (
        f"3 files such as a.smi: UTF-8 text, {position}",
        f"b.smi.gz: UTF-8 text, gzip-compressed, {position}",
        "e.parquet: Parquet; SMILES in 'smiles', IDs in 'id'",
    )


def test_many_layouts_are_counted(tmp_path: Path) -> None:
    for k in range(13):
        write(tmp_path / f"{k:02d}.csv", f"smiles,x{k}\nCC,1.5\n")
    *lines, last = table_words(lay_out(f"{tmp_path}/*.csv"))
    assert (len(lines), last) == (10, "and files with 3 other layouts")


def test_a_cxsmiles_extension_is_never_an_id(tmp_path: Path) -> None:
    library = scan(write(tmp_path / "a.smi", "CCO |open A\nCC B\n"))
    assert [row[3] for row in rows_of(library)] == ["B"]
    assert [reject.reason for reject in rejects_of(library)] == ["CXSMILES extension without end"]


def test_parquet(tmp_path: Path) -> None:
    smiles = ["CCO", None, " CC |x|", "", "C" * 10_001, "N"]
    table = pa.table({"n": [1, 2, 3, 4, 5, None], "SMILES": smiles, "zinc_id": ["a", "b", "", "d", "e", "f"]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    library = scan(tmp_path / "a.parquet", TableFormat(extra=("n",)), rows_per_partition=5)
    assert rows_of(library) == [
        (0, 0, 1, "a", "CCO"),
        (2, 0, 3, "row-2", "CC"),
        (5, 0, 6, "f", "N"),
    ]
    assert [(r.row, r.line, r.reason) for r in rejects_of(library)] == [
        (1, 2, "no SMILES"),
        (3, 4, "no SMILES"),
        (4, 5, "longer than 10,000 bytes"),
    ]


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_parquet_text_of_any_encoding(kind: pa.DataType, tmp_path: Path) -> None:
    smiles, names = (pa.array(values).cast(kind) for values in (["CCO", "CC", None], ["A", None, "C"]))
    pq.write_table(pa.table({"smiles": smiles, "id": names}), tmp_path / "a.parquet")
    assert pq.read_schema(tmp_path / "a.parquet").field("smiles").type == kind
    library = scan(tmp_path / "a.parquet", TableFormat(extra=("id",)))
    (batch,) = read_partition(library, 0)
    assert (batch.smiles, batch.id) == (["CCO", "CC"], ["A", "row-1"])
    assert batch.extra == {"id_input": ["A", None]}
    assert [reject.reason for reject in batch.rejects] == ["no SMILES"]


def test_extra_columns_are_text_and_may_be_missing(tmp_path: Path) -> None:
    library = scan(write(tmp_path / "a.smi", "CCO A 1.50\nCC B\n"), TableFormat(extra=(2,)))
    (batch,) = read_partition(library, 0)
    assert batch.extra == {"column_2": ["1.50", None]}


ERRORS = {
    "unknown name": (
        "a.csv",
        "smiles,id\nCC,A\n",
        {"smiles": "mol"},
        "has no column 'mol'; its columns are smiles, id",
    ),
    "name without header": ("a.csv", "CC,A\n", {"id": "key"}, "has no header to find column 'key' in"),
    "position": ("a.csv", "smiles,id\nCC,A\n", {"id": 2}, "has 2 columns, so there is no position 2"),
    "no column of SMILES": (
        "a.csv",
        "id,value\nA?,1\n",
        {},
        "has no column of SMILES; choose one of its columns: id, value",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_file_and_remedy(case: str, tmp_path: Path) -> None:
    name, content, fmt, message = ERRORS[case]
    with pytest.raises(InputError) as error:
        scan(write(tmp_path / name, content), TableFormat(**fmt))
    assert message in str(error.value)
    assert name in str(error.value)


@pytest.mark.parametrize(
    "fmt",
    [{"smiles": -1}, {"smiles": ""}, {"id": True}, {"delimiter": ";;"}, {"smiles": "x", "header": False}],
)
def test_formats_that_cannot_be(fmt: dict) -> None:
    with pytest.raises(InputError):
        TableFormat(**fmt)


def test_one_extra_column_may_stand_alone() -> None:
    assert TableFormat(extra="score").extra == ("score",)  # type: ignore[arg-type]


def test_cells_of_parquet_that_are_not_text_are_rejects(tmp_path: Path) -> None:
    smiles = pa.array([b"CC", b"CC\xff", None, b"CN", b"CO"], pa.binary()).view(pa.string())
    names = pa.array([b"a", b"b", b"c", b"\xed\xa0\x80", "ö\0\x1b".encode()], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"smiles": smiles, "id": names}), tmp_path / "a.parquet")
    library = scan(tmp_path / "a.parquet")
    assert [row[3:] for row in rows_of(library)] == [("a", "CC"), ("ö\0\x1b", "CO")]
    assert [(reject.line, reject.text, reject.reason) for reject in rejects_of(library)] == [
        (2, "CC\ufffd", "not UTF-8 text"),
        (3, "", "no SMILES"),
        (4, "CN", "not UTF-8 text"),
    ]


@pytest.mark.parametrize("columns", [["score"], ["smiles", "score"]])
def test_parquet_without_smiles_names_its_columns(columns: list[str], tmp_path: Path) -> None:
    pq.write_table(pa.table({name: [1.5] for name in columns}), tmp_path / "a.parquet")
    with pytest.raises(
        InputError, match=f"no column of SMILES; choose one of its columns: {', '.join(columns)}"
    ):
        scan(tmp_path / "a.parquet")


def test_a_column_with_a_comma_in_its_name_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('smiles,id,"Price, USD",note\nCCO,A,"1,200.50",x\nCCN,B,7,y\n')
    for columns in (("Price, USD", "note"), ("Price", "USD", "note")):  # as the command line cuts it
        layout = scan(path, TableFormat(extra=columns)).sources[0].layout
        assert layout.extra == (
            ("Price, USD", 2),
            ("note", 3),
        )
    convert = TableFormat.options["extra"].convert
    assert convert is not None
    assert convert(['"Price, USD",note']) == ("Price, USD", "note")
