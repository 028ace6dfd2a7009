"""A format is one module, found by its being there: for libraries and labels, and named nowhere else."""

from __future__ import annotations

import ast
import gzip
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import daskrf
from daskrf.errors import InputError
from daskrf.measurements import label_words, read_labels
from daskrf.tables import check_first_lines, formats, lay_out, read_partition, sample_rows, scan, table_words
from tests.molecules.helpers import COMPRESS, rejects_of, rows_of, write

PACKAGE = Path(daskrf.__file__).parent

BARS = '''
    """Lines of fields between double bars."""

    from itertools import islice

    from daskrf.tables.formats import Head, Table
    from daskrf.tables.formats.streamed import Streamed


    class BarReader(Streamed):
        name = "bars"
        precedence = 30

        def sniff(self, head):
            return head.startswith(b"#bars")

        def words(self, table):
            return "bars"

        def open(self, path, compression, blocks, purpose):
            lines = b"".join(blocks).decode().split("\\n")[:27]
            names = tuple(lines[0].split("||")[1:])
            rows = [line.split("||") for line in lines[1:] if line]
            table = Table(self.name, compression, "", True, 1, names, len(names))
            columns = lambda wanted: [[row[k] for row in rows if k < len(row)] for k in wanted]
            return Head(table, len(rows), len(names), range(len(names)), columns)

        def records(self, lines, view):
            for at, line in enumerate(lines):
                fields = line.decode().split("||")
                right = len(fields) == view.table.n_columns
                yield at, [fields[k] for k in view.columns] if right else "wrong number of bars"
'''


@pytest.fixture
def bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A format whose module lies among the others."""
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "bars.py").write_text(textwrap.dedent(BARS))
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(folder)])
    formats.readers.cache_clear()
    yield
    formats.readers.cache_clear()


@pytest.mark.usefixtures("bars")
@pytest.mark.parametrize("ending", COMPRESS)
def test_a_new_format_is_one_module(ending: str, tmp_path: Path) -> None:
    text = "#bars||smiles||id||score\n" + "".join(
        "CC||N\n" if k == 7 else f"{'C' * (k % 5 + 1)}O||Z{k}||{k}.5\n" for k in range(70_000)
    )
    path, spool = write(tmp_path / f"a.smi{ending}", text), tmp_path / "spool"
    library = scan(path, rows_per_partition=30_000, spool=spool)
    check_first_lines(lay_out(path))
    assert table_words(lay_out(path)) == (f"{path}: bars; SMILES in 'smiles', IDs in 'id'",)
    rows = rows_of(library, spool)
    assert (len(rows), library.n_rows) == (69_999, 70_000)
    assert rows[7:9] == [(8, 0, 10, "Z8", "CCCCO"), (9, 0, 11, "Z9", "CCCCCO")]
    assert [(r.row, r.line, r.text, r.reason) for r in rejects_of(library)] == [
        (7, 9, "CC||N", "wrong number of bars")
    ]
    (batch,) = read_partition(library, 2, spool)
    assert batch.id[-1] == "Z69999"
    assert sum(batch.n_read for batch in sample_rows(library, 500)) == 500
    with pytest.raises(
        InputError, match=r"line 9 cannot be read \(wrong number of bars\); correct or delete it"
    ):
        read_labels(path)
    path = write(tmp_path / f"b{ending}", "#bars||id||score\nA||1\nB||2.5\n")
    assert read_labels(path).y.ravel().tolist() == [1, 2.5]
    assert label_words(path) == f"{path}: bars; IDs in 'id', target 'score'"


def test_a_plan_of_a_format_that_is_gone_is_refused() -> None:
    with pytest.raises(InputError, match="files of the format 'bars' cannot be read by this version"):
        formats.reader_of(formats.Table("bars", "", "", True, 0, None, 1))


def test_formats_have_names_of_their_own_and_text_is_asked_last() -> None:
    names = [reader.name for reader in formats.readers()]
    assert {"parquet", "text"} <= set(names)
    assert len(set(names)) == len(names)
    assert names[-1] == "text"


@pytest.mark.usefixtures("bars")
@pytest.mark.parametrize(("precedence", "place"), [(5, 0), (30, 2), (70, -2)])
def test_formats_are_asked_by_their_precedence(
    precedence: int, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the files and the formats are called."""
    monkeypatch.setattr(type(formats.readers()[2]), "precedence", precedence)
    formats.readers.cache_clear()
    order = [reader.precedence for reader in formats.readers()]
    assert order == sorted(order)
    assert formats.readers()[place].name == "bars"


@pytest.mark.usefixtures("bars")
def test_a_format_without_a_precedence_of_its_own_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    bars, sdf = (next(r for r in formats.readers() if r.name == name) for name in ("bars", "sdf"))
    monkeypatch.setattr(type(bars), "precedence", sdf.precedence)
    formats.readers.cache_clear()
    with pytest.raises(TypeError, match=r"needs a precedence of its own, and \w+ has 50, as (bars|sdf) does"):
        formats.readers()
    monkeypatch.delattr(type(bars), "precedence")
    with pytest.raises(TypeError, match=r"BarReader has none: see Reader.precedence, and set another than "):
        formats.readers()


def faults(source: str) -> list[str]:
    """Return what a module says of a format by its name."""
    names = {reader.name for reader in formats.readers()}
    modules = {type(reader).__module__ for reader in formats.readers()}
    classes = {type(reader).__name__ for reader in formats.readers()}
    uses = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom | ast.Import):
            imported = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                imported += [f"{node.module}", *(f"{node.module}.{name}" for name in imported)]
            uses += [name for name in imported if name in modules]
        elif isinstance(node, ast.Name | ast.Attribute):
            uses += {getattr(node, "id", ""), getattr(node, "attr", "")} & classes
        elif isinstance(node, ast.Compare | ast.MatchValue):
            parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.value]
            uses += [
                piece.value for piece in parts if isinstance(piece, ast.Constant) and piece.value in names
            ]
    return uses


def test_nothing_else_names_a_format() -> None:
    folder = PACKAGE / "tables" / "formats"
    assert folder.is_dir()
    others = [path for path in PACKAGE.rglob("*.py") if folder not in path.parents]
    assert {str(path): named for path in others if (named := faults(path.read_text()))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from daskrf.tables.formats.text import TextReader",
        "from daskrf.tables.formats import parquet",
        "import daskrf.tables.formats.parquet",
        "formats.parquet.ParquetReader()",
        "if layout.kind == 'parquet': pass",
        "match layout.kind:\n    case 'text': pass",
    ],
)
def test_a_named_format_is_found(source: str) -> None:
    assert faults(source)


def test_compressed_parquet_is_not_taken_for_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"smiles": ["CC"]}), tmp_path / "a.parquet")
    path = tmp_path / "a.parquet.gz"
    path.write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    for read in (scan, read_labels):
        with pytest.raises(InputError, match=r"is parquet compressed with gzip; decompress it"):
            read(path)


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx"])
def test_columns_of_one_name_are_refused(kind: str, tmp_path: Path) -> None:
    path, names = tmp_path / f"a.{kind}", ["smiles", "id", "score", "note", "score", "note", "", ""]
    cells = ["CC", "A", "1", "x", "2", "y", "", ""]
    if kind == "csv":
        path.write_text(f"{','.join(names)}\n{','.join(cells)}\n")
    elif kind == "parquet":
        pq.write_table(pa.table([[cell] for cell in cells], names=names), path)
    else:
        book = pytest.importorskip("openpyxl").Workbook()
        for row in (names, cells):
            book.active.append(row)
        book.save(path)
    for read in (scan, read_labels):
        with pytest.raises(
            InputError, match=r"several columns with the same name .'score', 'note'.; rename them"
        ):
            read(path)


def test_smiles_of_parquet_are_found_by_content(tmp_path: Path) -> None:
    table = {"n": [1, 2], "valid smiles": [True, False], "mol": ["x?", "CC"], "structure_": ["CCO", "CCN"]}
    pq.write_table(pa.table(table), tmp_path / "a")
    assert [row[4] for row in rows_of(scan(tmp_path / "a"))] == ["CCO", "CCN"]


def test_white_space_around_ids_is_left_out_in_every_format(tmp_path: Path) -> None:
    ids = ["A\xa0", " B ", "C"]
    text = "smiles,id\n" + "".join(f"CC,{name}\n" for name in ids)
    pq.write_table(pa.table({"smiles": ["CC"] * 3, "id": ids}), tmp_path / "b")
    for path in (write(tmp_path / "a", text), tmp_path / "b"):
        assert [row[3] for row in rows_of(scan(path))] == ["A", "B", "C"]


def labels(tmp_path: Path, text: str, name: str = "labels.csv") -> list[tuple[str, float]]:
    labels = read_labels(write(tmp_path / name, text))
    keys = labels.keys.to_pylist()
    return [(keys[k], value) for k, value in zip(labels.index, labels.y.ravel().tolist(), strict=True)]


def test_quoted_fields_of_labels_may_go_over_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ['"id\n(ours)",score,"remark"\n']
    remarks = ('5 ""mM""', "first\n\nthird", "first\n\nthird")
    lines += [f'Z{k},{k},"{remarks[k % 3]}"\r\n' for k in range(40)]
    expected = [(f"Z{k}", float(k)) for k in range(40)]
    for rows in (1, 2, 7, 10_000):
        monkeypatch.setattr("daskrf.tables.formats.streamed.BATCH_ROWS", rows)
        assert labels(tmp_path, "".join(lines)) == expected
    broken = "".join([*lines, 'Z40,x,""\n'])
    with pytest.raises(InputError, match=r"line 95: 'score' holds 'x', which is not a number"):
        labels(tmp_path, broken)
    for end in ('Z40,1,"no end\n\n', 'Z40,1,"no end'):
        with pytest.raises(InputError, match=r"line 95 cannot be read \(row without end\)"):
            labels(tmp_path, "".join([*lines, end]))
    with pytest.raises(InputError, match=r"line 3 cannot be read \(unbalanced quote, or a line break"):
        labels(tmp_path, 'id,score\nA,1\nB,"2"x\n' + "C,3\n" * 60_000)


def test_a_quote_without_end_spoils_its_own_line_of_labels_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where lines may be left out, wherever batches end; good fields go over lines."""
    remarks = ('5 ""mM""', "first\n\nthird", "plain")
    for bad in ('Z9,9,"no end', '"Z9,9,x', 'Z9,9,"a"b', "Z9,9,x,y"):
        lines = ["id,score,remark\n", *(f'Z{k},{k},"{remarks[k % 3]}"\n' for k in range(8))]
        lines += [f"{bad}\n", *(f"Y{k},{k},x\n" for k in range(8))]
        path = write(tmp_path / "labels.csv", "".join(lines))
        for rows in (1, 2, 7, 10_000):
            monkeypatch.setattr("daskrf.tables.formats.streamed.BATCH_ROWS", rows)
            labels = read_labels(path, accept_rejects=True)
            assert labels.keys.to_pylist() == [f"{name}{k}" for name in "ZY" for k in range(8)], bad
            assert labels.unread[0] == 1
            assert labels.dropped == 1


def test_quoted_fields_of_libraries_may_go_over_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line is counted; a quote without an end spoils its own line alone, wherever batches end."""
    remarks = ('"5 ""mM"""', '"first\n\nCCCC,intruder,1"', '"first\r\nthird"', "none", '"no end')
    rows = [f"{'C' * (k + 1)},Z{k},{remarks[k % 5]}\r\n" for k in range(40)]
    (tmp_path / "a.csv").write_text("".join(["smiles,id,remark\n", *rows]), newline="")
    starts = np.cumsum([2, *(row.count("\n") for row in rows)])[:-1].tolist()
    good = [k for k in range(40) if k % 5 != 4]
    for n_rows in (1, 2, 7, 10_000):
        monkeypatch.setattr("daskrf.tables.formats.streamed.BATCH_ROWS", n_rows)
        library = scan(tmp_path / "a.csv")
        batches = list(read_partition(library, 0))
        assert [text for b in batches for text in b.smiles] == ["C" * (k + 1) for k in good]
        assert [text for b in batches for text in b.id] == [f"Z{k}" for k in good]
        assert [at for b in batches for at in b.line.tolist()] == [starts[k] for k in good]
        faults = sorted((fault.line, fault.reason) for b in batches for fault in b.rejects)
        n_within = sum(row.count("\n") - 1 for row in rows)
        assert len(faults) + len(good) == library.n_rows == len(rows) + n_within
        assert [at for at, reason in faults if "unbalanced" in reason] == [starts[k] for k in range(4, 40, 5)]
        assert sum(reason == "within the quotes of a row above" for _, reason in faults) == n_within


def test_a_long_quote_of_a_library_is_no_row(tmp_path: Path) -> None:
    """Two quotes far apart, or that make a row of other columns, belong to names."""
    rows = ['CCO,"one\n', *(f"{'C' * (k + 1)},x\n" for k in range(200)), 'CCN,two"\n', 'C,"a\n', 'CC,b",c\n']
    (tmp_path / "a.csv").write_text("smiles,id\n" + "".join(rows))
    (batch,) = read_partition(scan(tmp_path / "a.csv"), 0)
    assert batch.smiles == [*("C" * (k + 1) for k in range(200)), "CCN"]
    assert [fault.line for fault in batch.rejects] == [2, 204, 205]


def test_a_quote_within_a_field_is_no_quote(tmp_path: Path) -> None:
    assert labels(tmp_path, 'id,score\n5"-A,1\nB,2\n') == [('5"-A', 1), ("B", 2)]


def test_tabs_go_before_white_space(tmp_path: Path) -> None:
    text = "".join(f"compound {k}\t{k}.5\n" for k in range(3))
    assert labels(tmp_path, text, "scores") == [(f"compound {k}", k + 0.5) for k in range(3)]


def test_damaged_lines_of_labels_are_refused(tmp_path: Path) -> None:
    good = "".join(f"Zä{k},1\n" for k in range(40))
    for bad, reason in ((b"A\0,1", "NUL byte"), (b"A\r,1", "carriage return"), (b"\xe9,1", "not UTF-8")):
        path = tmp_path / "labels.csv"
        path.write_bytes(b"id,score\n" + good.encode() + bad + b"\n")
        with pytest.raises(InputError, match=f"line 42 cannot be read .{reason}"):
            read_labels(path)
    path.write_bytes(b"id,score,r\nA,1,x\nB,1," + b"x" * (5 << 20) + b"\n")
    with pytest.raises(InputError, match=r"line 3 cannot be read .longer than 4,194,304 bytes"):
        read_labels(path)


def test_single_precision_labels_are_their_values(tmp_path: Path) -> None:
    values = np.float32([0.1, -7.3])
    pq.write_table(pa.table({"id": ["A", "B"], "score": values}), tmp_path / "l")
    assert np.array_equal(read_labels(tmp_path / "l").y.ravel(), values.astype(np.float64))


def test_smiles_with_extensions_are_keys_of_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "a.smi", "CCO |&1:1, a b| 1.5\nCC 2\n")
    labels = read_labels(path, key="smiles")
    assert (labels.keys.to_pylist(), labels.y.ravel().tolist()) == (["CCO", "CC"], [1.5, 2])


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.binary())),
        *(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.large_binary())),
    ],
)
def test_text_in_binary_columns_of_parquet_is_read(kind: pa.DataType, tmp_path: Path) -> None:
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    binary = not pa.types.is_string(values)
    cells = [b"CCO", b"CCN", b"\xff\xfe"] if binary else ["CCO", "CCN", "C(("]
    column = pa.array(cells, values)
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column
    pq.write_table(pa.table({"mol": column, "score": [1.0, 2.0, 3.0]}), tmp_path / "a")
    library = scan(tmp_path / "a")
    assert [row[4] for row in rows_of(library)][:2] == ["CCO", "CCN"]
    assert [reject.reason for reject in rejects_of(library)] == ["not UTF-8 text"] * binary
