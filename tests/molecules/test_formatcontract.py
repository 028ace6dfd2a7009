"""What every format of tables promises, over all formats that there are, each with an example of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rdkit import Chem

from daskrf.errors import InputError
from daskrf.measurements import label_words, read_labels
from daskrf.tables import Library, check_first_lines, lay_out, scan, table_words
from daskrf.tables.formats import HEAD_ROWS, Reader, Table, open_table, reader_of, readers
from daskrf.tables.layout import molecules
from daskrf.tables.streams import text_blocks
from tests.molecules.helpers import rejects_of, rows_of

N = 60
SMILES = [f"{'C' * (k % 7 + 1)}O" for k in range(N)]
NAMES = [f"Z{k}" for k in range(N)]
SCORES = [k + 0.5 for k in range(N)]


def _sdf(path: Path) -> None:
    with path.open("w") as file:
        for smiles, name, score in zip(SMILES, NAMES, SCORES, strict=True):
            molecule = Chem.MolFromSmiles(smiles)
            molecule.SetProp("_Name", name)
            file.write(f"{Chem.MolToMolBlock(molecule)}> <score>\n{score}\n\n$$$$\n")


def _excel(path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (("smiles", "id", "score"), *zip(SMILES, NAMES, SCORES, strict=True)):
        book.active.append(row)
    book.save(path.with_suffix(".xlsx"))
    path.with_suffix(".xlsx").rename(path)


def _text(path: Path) -> None:
    rows = zip(SMILES, NAMES, SCORES, strict=True)
    path.write_text("smiles,id,score\n" + "".join(f"{s},{n},{y}\n" for s, n, y in rows))


def _parquet(path: Path) -> None:
    pq.write_table(pa.table({"smiles": SMILES, "id": NAMES, "score": SCORES}), path)


def _pdbqt(path: Path) -> None:
    atom = "ATOM      1  C   UNL     1       1.000   2.000   3.000  1.00  0.00     0.100 C "
    path.write_text(
        "".join(
            f"MODEL 1\nREMARK VINA RESULT: {score:9.3f}      0.000      0.000\nREMARK  Name = {name}\n"
            f"REMARK SMILES {smiles}\nREMARK SMILES IDX 1 1\nROOT\n{atom}\nENDROOT\nTORSDOF 0\nENDMDL\n"
            for smiles, name, score in zip(SMILES, NAMES, SCORES, strict=True)
        )
    )


def _docking_log(path: Path) -> None:
    head = "mode |   affinity | dist from best mode\n     | (kcal/mol) | rmsd l.b.| rmsd u.b.\n"
    path.write_text(
        "".join(
            f"Ligand: lig/{name}.pdbqt\n{head}-----+------------+----------+----------\n"
            f"   1       {score:6.3f}      0.000      0.000\n\n"
            for name, score in zip(NAMES, SCORES, strict=True)
        )
    )


def _outdock(path: Path) -> None:
    terms = "  0.00" * 9
    rows = (
        f"{k:6d} {name:>16} {'1.1.1':>16} {120:8d} {2600:10d} {1.0:7.2f}  13 {7:9d} {41:9d} {1:6d}     1"
        f"{terms}{score:10.2f}\n"
        for k, (name, score) in enumerate(zip(NAMES, SCORES, strict=True), 1)
    )
    path.write_text("  mol#           id_num     flexiblecode  matched =    Total\n" + "".join(rows))


def _dock6(path: Path) -> None:
    rows = zip(NAMES, SCORES, strict=True)
    path.write_text(
        "".join(
            f"##########                                Name:  {name:>18}\n"
            f"##########                          Grid_Score:  {score:18.6f}\n\n@<TRIPOS>MOLECULE\n{name}\n\n"
            for name, score in rows
        )
    )


def _gold_list(path: Path) -> None:
    head = "# Format is:\n#\n#     Score     S(PLP)     time          File name          Ligand name\n\n"
    rows = zip(NAMES, SCORES, strict=True)
    path.write_text(
        head + "".join(f"{y:10.2f}     -40.00    1.000  './a b.sdf'      '{n}|sdf|1'\n" for n, y in rows)
    )


EXAMPLES: dict[str, Callable[[Path], None]] = {
    "dock6": _dock6,
    "docking log": _docking_log,
    "excel": _excel,
    "gold list": _gold_list,
    "outdock": _outdock,
    "parquet": _parquet,
    "pdbqt": _pdbqt,
    "sdf": _sdf,
    "text": _text,
}
"""By the name of a format, what writes `SMILES`, `NAMES` and a column of `SCORES` to a path."""
SCORE = {
    "dock6": "Grid_Score",
    "docking log": "Vina affinity",
    "gold list": "Gold.Fitness",
    "outdock": "OUTDOCK Total",
    "pdbqt": "REMARK VINA RESULT",
}
"""How the column of scores is called if not "score"."""
SCORES_ALONE = ("dock6", "docking log", "gold list", "outdock")
"""Formats without structures, which are read as labels and not as libraries."""


def without_example(kinds: list[str]) -> list[str]:
    """Return, for each format that has no example, what to write."""
    return [
        f"the format {name!r} has no example: add a function that writes SMILES, NAMES and SCORES as such a "
        f"file to EXAMPLES in tests/molecules/test_formatcontract.py."
        for name in kinds
        if name not in EXAMPLES
    ]


def test_every_format_has_an_example() -> None:
    assert without_example([reader.name for reader in readers()]) == []
    (words,) = without_example(["text", "not there"])
    assert words.startswith("the format 'not there' has no example: add a function")


@pytest.fixture(params=[reader.name for reader in readers()])
def reader(request: pytest.FixtureRequest) -> Reader:
    return next(each for each in readers() if each.name == request.param)


def example(reader: Reader, folder: Path) -> Path:
    """Write a file of a format, whose name says nothing."""
    if reader.name not in EXAMPLES:
        pytest.fail(without_example([reader.name])[0])
    EXAMPLES[reader.name](folder / "table")
    return folder / "table"


@pytest.fixture
def path(reader: Reader, tmp_path: Path) -> Path:
    return example(reader, tmp_path)


@pytest.fixture(params=[reader.name for reader in readers() if reader.name not in SCORES_ALONE])
def library_reader(request: pytest.FixtureRequest) -> Reader:
    return next(each for each in readers() if each.name == request.param)


@pytest.fixture
def library_path(library_reader: Reader, tmp_path: Path) -> Path:
    return example(library_reader, tmp_path)


def test_the_format_is_told_by_the_content(reader: Reader, path: Path) -> None:
    """None that is asked before takes the file; of those below 50, whose bytes are certain, no other does."""
    head = path.read_bytes()
    takes = [each for each in readers() if each.sniff(head)]
    assert takes[0].name == reader.name
    assert all(each.precedence >= 50 for each in takes[1:])
    if reader.precedence != readers()[-1].precedence:
        assert not reader.sniff(b"")
        assert not reader.sniff(b"smiles,id\nCCO,A\n")


def test_the_first_rows_are_what_head_says(reader: Reader, path: Path) -> None:
    head = open_table(path, molecules())
    table = head.table
    assert (table.kind, table.compression, reader_of(table)) == (reader.name, "", reader)
    assert head.names == table.names
    assert len(head.names) == table.n_columns == head.width
    assert 0 < head.n_rows <= N
    assert min(HEAD_ROWS, N) <= head.n_rows
    assert list(head.text) == sorted(set(head.text) & set(range(head.width)))
    score = head.names.index(SCORE.get(reader.name, "score"))
    names = head.names.index("id") if head.title is None else head.title
    assert names in head.text
    assert head.values(names)[:HEAD_ROWS] == NAMES[:HEAD_ROWS]
    if reader.name not in SCORES_ALONE:
        smiles = head.names.index("smiles") if head.structure is None else head.structure
        assert smiles in head.text
        assert head.columns([names, smiles])[1][:HEAD_ROWS] == SMILES[:HEAD_ROWS]
    assert [float(text) for text in head.values(score)] == SCORES[: len(head.values(score))]
    assert head.columns([]) == []


def test_scores_without_structures_are_no_library(tmp_path: Path) -> None:
    for reader in (each for each in readers() if each.name in SCORES_ALONE):
        with pytest.raises(InputError, match="has no column of SMILES"):
            scan(example(reader, tmp_path))


def test_a_plan_remembers_the_table(library_reader: Reader, library_path: Path) -> None:
    reader, path = library_reader, library_path
    table = open_table(path, molecules()).table
    state = json.loads(json.dumps(dataclasses.asdict(table)))
    again = Table(**{**state, "names": tuple(state["names"])})
    assert again == table
    assert reader.words(again) == reader.words(table) != ""
    (words,) = table_words(lay_out(path))
    assert words.startswith(f"{path}: {reader.words(table)}; SMILES in ")
    library = scan(path)
    assert Library.from_state(json.loads(json.dumps(library.state()))) == library
    assert rows_of(Library.from_state(library.state())) == rows_of(library)


def test_a_scan_counts_the_rows_and_reads_all_blocks(reader: Reader, path: Path) -> None:
    table, blocks = open_table(path, molecules()).table, text_blocks(path, "")
    assert reader.scan(path, table, blocks)[0] == N
    assert next(blocks, None) is None


@pytest.mark.parametrize("step", [1, 7, N])
def test_any_rows_are_those_of_the_whole(library_path: Path, step: int) -> None:
    path = library_path
    library = scan(path, rows_per_partition=step)
    check_first_lines(lay_out(path))
    assert len(library.partitions) == -(-N // step)
    rows = rows_of(library)
    assert [row[0] for row in rows] == list(range(N))
    assert [row[3] for row in rows] == NAMES
    assert [row[4] for row in rows] == SMILES
    lines = [row[2] for row in rows]
    assert lines == sorted(set(lines))
    assert lines[0] >= 1
    assert rejects_of(library) == []


def test_labels_are_read_too(reader: Reader, path: Path) -> None:
    score = SCORE.get(reader.name, "score")
    labels = read_labels(path, targets=[score])
    keys = labels.keys.to_pylist()
    assert [keys[k] for k in labels.index] == NAMES
    assert labels.y.ravel().tolist() == SCORES
    assert f"'{score}'" in label_words(path, targets=[score])


def test_compressed_files_are_read_or_refused(library_reader: Reader, library_path: Path) -> None:
    reader, path = library_reader, library_path
    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    if reader.streams:
        assert rows_of(scan(packed, rows_per_partition=7)) == rows_of(scan(path, rows_per_partition=7))
        assert open_table(packed, molecules()).table.compression == "gzip"
        return
    with pytest.raises(InputError, match=f"is {reader.name} compressed with gzip; decompress it"):
        scan(packed)


def test_a_file_cut_off_is_refused_or_has_no_other_rows(library_path: Path) -> None:
    """Never other rows than those of the file, and no error but one that a user can act on."""
    path = library_path
    content, piece = path.read_bytes(), path.with_name("part")
    for size in (len(content) // 3, len(content) // 2, len(content) - 9):
        piece.write_bytes(content[:size])
        names: list[str] = []
        with contextlib.suppress(InputError):
            names = [row[3] for row in rows_of(scan(piece))]
        assert len(names) <= N
        assert names[:-1] == NAMES[: max(0, len(names) - 1)]
