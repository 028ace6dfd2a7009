"""Files of which most of the first lines are no molecules are refused, with what was seen and what to try."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daskrf.errors import InputError
from daskrf.tables import TableFormat, check_first_lines, lay_out
from tests.molecules.helpers import write

GOOD = "".join(f"{'C' * (k % 7 + 1)}O,m{k},{k}.5\n" for k in range(60))


def refusal(path: Path, fmt: TableFormat | None = None) -> str:
    with pytest.raises(InputError) as error:
        check_first_lines(lay_out(path, fmt), fmt)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_half_of_the_lines_may_be_bad(tmp_path: Path) -> None:
    for bad in (0, 10):
        check_first_lines(lay_out(write(tmp_path / "a.smi", "CC x1\n" * 10 + "Qq x2\n" * bad)))
    message = refusal(write(tmp_path / "a.smi", "CC x1\n" * 10 + "Qq x2\n\n" + "Qq\x1b[2J x3\n" * 9))
    assert message.startswith(
        f"11 of the first 21 lines of {tmp_path}/a.smi could not be read as molecules, such as line 11 "
    )
    assert "line 11 ('Qq': RDKit cannot parse: " in message
    assert "line 12 ('': empty line), line 13 ('Qq\\x1b[2J': " in message
    assert "accept_rejects=True" in message


def test_only_the_first_lines_count(tmp_path: Path) -> None:
    good, bad = "CC x1\n" * 501, "Qq x2\n" * 499
    check_first_lines(lay_out(write(tmp_path / "a.smi", bad + good + "Qq x3\n" * 9_000)))
    assert refusal(write(tmp_path / "a.smi", bad + "Qq x2\n" * 2 + good)).startswith(
        "501 of the first 1,000 lines"
    )


def test_every_file_counts(tmp_path: Path) -> None:
    for k in range(11):
        write(tmp_path / f"{k:02d}.smi", "CC x1\n" * 200)
    write(tmp_path / "05.smi", "Qq x3\n" * 51 + "CC x1\n" * 200)
    assert refusal(tmp_path / "*.smi").startswith("51 of the first 100 lines of")
    check_first_lines(lay_out(tmp_path / "05.smi"))


@pytest.mark.parametrize(
    ("fmt", "advice"),
    [
        (
            {"smiles": 1},
            "leave out the column that you gave, to read them from column 0 of UTF-8 text, separated",
        ),
        ({"delimiter": ";"}, "leave out the delimiter that you gave"),
        ({"smiles": 0, "delimiter": "\t"}, "leave out the column and delimiter that you gave"),
    ],
)
def test_what_the_user_said_may_be_the_fault(fmt: dict, advice: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", GOOD)
    check_first_lines(lay_out(path))
    assert advice in refusal(path, TableFormat(**fmt))


def test_where_nothing_helps_columns_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.smi", "".join(f"Z{k}-x -{k}.5\n" for k in range(50)))
    for fmt in (None, TableFormat(smiles=0)):
        message = refusal(path, fmt)
        assert "SMILES were read from column 0 of UTF-8 text, separated by white space" in message
        assert "say which column holds the SMILES and what separates the columns" in message


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"smiles": ["CC"] * 5 + ["Qq"] * 5, "name": ["Qq"] * 10}), path)
    check_first_lines(lay_out(path))
    fmt = TableFormat(smiles="name")
    message = refusal(path, fmt)
    assert message.startswith(
        f"10 of the first 10 rows of {path} could not be read as molecules, such as row 1 ('Qq': "
    )
    assert "leave out the column that you gave, to read them from 'smiles'" in message
    pq.write_table(pa.table({"smiles": pa.array([], pa.string())}), path)
    check_first_lines(lay_out(path))  # that there are no rows is told elsewhere


def test_an_sdf_of_which_nothing_tells_that_it_is_one(tmp_path: Path) -> None:
    atom = "    1.2990    0.7500    0.0000 {}   0  0  0  0  0  0  0  0  0  0  0  0\n"
    block = "m1\n     RDKit          2D\n\n" + atom.format("C") * 2 + atom.format("O") + "  1  2  1  0\n" * 2
    assert "not be read as molecules" in refusal(write(tmp_path / "a.smi", (block + ">  <IC50>\n3\n\n") * 30))
