"""Header and columns are found by one code for libraries and labels, by names and by content."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.measurements import label_table, label_words, read_labels
from daskrf.tables import lay_out
from daskrf.tables.columns import smiles_position

SMILES = ["CCO", "c1ccccc1", "CC(=O)N", "OCC[NH3+]", "C[C@H](F)Cl"]


def put(folder: Path, text: str, name: str = "a.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    "names", ["smile,vina", "mol,vina", "lig,score", "compound,dG (kcal/mol)", "ligand,24h", "mol,2 uM"]
)
def test_names_that_nobody_knows_are_a_header(names: str, tmp_path: Path) -> None:
    path = put(tmp_path, f"{names}\nCCO,-7.1\nCCN,-8.2\nCCC,-9\n")
    (_, layout), column = lay_out(path)[0], names.split(",")
    assert (layout.names, layout.header, layout.smiles, layout.id) == (tuple(column), 1, 0, None)
    assert f"SMILES in '{column[0]}'," in str(layout).partition(" no IDs")[0]
    labels = read_labels(path, key="smiles")
    assert (labels.keys.to_pylist(), labels.names) == (["CCO", "CCN", "CCC"], (column[1],))


@pytest.mark.parametrize(
    ("text", "smiles", "names"),
    [
        ("CCO,-7.1\nCCN,-8\n", 0, None),
        ("garbage A\nCCO B\n", 0, None),
        ("CCO,inactive\nCCN,5.5\nCCC,6\n", 0, None),
        ("mol,active\nCCO,TRUE\nCCN,FALSE\n", 0, ("mol", "active")),
        ("structure,mol,score\na.png,CCO,7\nb.png,CCN,8\n", 1, ("structure", "mol", "score")),
        ("smiles,2020,2021\nCCO,1,2\nCCN,3,4\n", 0, ("smiles", "2020", "2021")),
    ],
)
def test_content_decides(text: str, smiles: int, names: tuple[str, ...] | None, tmp_path: Path) -> None:
    ((_, layout),) = lay_out(put(tmp_path, text, "a.csv" if "," in text else "a.smi"))
    assert (layout.smiles, layout.names) == (smiles, names)


@pytest.mark.parametrize(
    "text",
    [
        ",smiles,score,empty\n0,CCO,-7,\n1,CCN,-8,\n2,CCC,-9,\n",
        "Unnamed: 0,Unnamed: 0.1,smiles,score\n0,5,CCO,-7\n1,6,CCN,-8\n2,7,CCC,-9\n",
        "smiles,x,score\nCCO,1,-7\nCCO,2,-8\nCCN,1,-9\nCCN,2,-9\n",
        "smiles,model,score\nCCO,1,-7\nCCN,1,-8\nCCC,1,-9\n",
    ],
)
def test_counts_and_empty_columns_are_no_targets_and_no_ids(text: str, tmp_path: Path) -> None:
    path = put(tmp_path, text)
    assert read_labels(path, key="smiles").names == ("score",)
    assert lay_out(path)[0][1].id is None
    assert "IDs in 'smiles' (none of" in label_words(path)  # not in the column that counts


def test_a_column_that_only_counts_is_refused_as_target(tmp_path: Path) -> None:
    path = put(tmp_path, "id,pose\nA,1\nA,2\nB,1\n")
    with pytest.raises(InputError, match="no numeric column besides the key; name the target columns"):
        read_labels(path)
    assert read_labels(path, targets=["pose"]).y.ravel().tolist() == [1, 2, 1]


NAMES = st.sampled_from(
    [
        *("smiles", "SMILES", "mol", "lig", "structure", "id", "Compound ID", "name", "score", "vina", "x"),
        *("", "IC50 (nM)", "24h", "active", "pose", "note", "smile", "Unnamed: 0"),
    ]
)
COLUMNS = st.sampled_from(
    [
        SMILES,
        ["A1", "A2", "A3", "A4", "A5"],
        ["-7.1", "-8", "-9.25", "0", "1e3"],
        ["0", "1", "2", "3", "4"],
        ["1", "2", "1", "1", "2"],
        ["TRUE", "FALSE", "TRUE", "TRUE", "FALSE"],
        [""] * 5,
        ["12 nM", "3 uM", "", "1 nM", "n.d."],
        ["good", "bad", "", "-", "?"],
    ]
)


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    columns=st.lists(st.tuples(NAMES, COLUMNS), min_size=2, max_size=5, unique_by=lambda pair: pair[0]),
    with_header=st.booleans(),
    mark=st.sampled_from([("a.tsv", "\t"), ("a.csv", ",")]),
)
def test_libraries_and_labels_have_the_same_columns(
    columns: list[tuple[str, list[str]]], with_header: bool, mark: tuple[str, str]
) -> None:
    """In any table with SMILES: the same header, the same names, and the same column of SMILES."""
    columns = [*columns, ("more", SMILES)]
    rows = list(zip(*(values for _, values in columns), strict=True))
    lines = [tuple(name for name, _ in columns)] * with_header + rows
    with tempfile.TemporaryDirectory() as folder:
        path = put(Path(folder), "".join(mark[1].join(line) + "\n" for line in lines), mark[0])
        ((_, layout),) = lay_out(path)
        head = label_table(path, "structure")
        assert (layout.header, layout.names, layout.delimiter) == (
            head.table.header,
            head.table.names,
            head.table.delimiter,
        )
        assert smiles_position(head) == layout.smiles


@pytest.mark.parametrize("words", [["n.d."], ["ND", "NT", "inactive"]])
def test_numbers_among_words_may_be_the_target(words: list[str], tmp_path: Path) -> None:
    """They were overlooked, so that the weight was learned without a word."""
    cells = [f"{5 + k / 10}" if k % 3 == 0 else words[k % len(words)] for k in range(60)]
    rows = [f"{'C' * (k + 1)},{cell}" for k, cell in enumerate(cells)]
    path = put(tmp_path, "smiles,pIC50,MW\n" + "".join(f"{row},{300 + k}\n" for k, row in enumerate(rows)))
    with pytest.raises(InputError, match=r"several numeric columns \(pIC50, MW\); name the target columns"):
        read_labels(path, key="smiles", drop_non_numbers=True)
    path = put(tmp_path, "smiles,pIC50\n" + "".join(f"{row}\n" for row in rows))
    labels = read_labels(path, key="smiles", drop_non_numbers=True)
    assert (labels.names, len(labels), labels.dropped) == (("pIC50",), 20, 40)


@pytest.mark.parametrize("other", ["R", "A12", "high", "24h"])
def test_classes_and_codes_beside_numbers_are_no_targets(other: str, tmp_path: Path) -> None:
    texts = [other if k % 2 else f"X{k}" for k in range(30)]
    rows = "".join(f"{'C' * (k + 1)},{text},{k / 7}\n" for k, text in enumerate(texts))
    assert read_labels(put(tmp_path, f"smiles,which,y\n{rows}"), key="smiles").names == ("y",)
    rows = "".join(f"{'C' * (k + 1)},{'RS'[k % 2]},{k / 7}\n" for k in range(30))
    assert read_labels(put(tmp_path, f"smiles,which,y\n{rows}"), key="smiles").names == ("y",)


MISSED = "the target may be 'MW' or 'pIC50', which is empty in the first 25 rows"


@pytest.mark.parametrize("gap", [25, 40, 5000])
def test_a_column_that_begins_late_may_be_the_target(gap: int, tmp_path: Path) -> None:
    lines = "".join(f"CCO,{k + 40},,\n" for k in range(gap))
    path = put(tmp_path, f"smiles,MW,pIC50,note\n{lines}CCN,45,7.5,good\n")
    with pytest.raises(InputError, match=MISSED):
        read_labels(path, key="smiles")
    assert read_labels(path, key="smiles", targets=["pIC50"], drop_non_numbers=True).y.tolist() == [[7.5]]
    assert len(read_labels(path, key="smiles", targets=["MW"])) == gap + 1


@pytest.mark.parametrize("late", ["", "good", " "])
def test_a_column_without_numbers_is_no_target_however_late(late: str, tmp_path: Path) -> None:
    lines = "".join(f"CCO,{k + 40},\n" for k in range(40))
    path = put(tmp_path, f"smiles,MW,note\n{lines}CCN,45,{late}\n")
    assert read_labels(path, key="smiles").names == ("MW",)


@pytest.mark.parametrize("date", ["20240105", "2024"])
def test_dates_alone_are_no_target(date: str, tmp_path: Path) -> None:
    rows = [f"{'C' * (k + 1)},{date},{'' if k < 30 else 5 + k / 10}\n" for k in range(60)]
    path = put(tmp_path, "smiles,date,pIC50\n" + "".join(rows))
    message = r"only numeric column of .* in its first 25 rows is 'date', which holds dates or years; name"
    with pytest.raises(InputError, match=message):
        read_labels(path, key="smiles", drop_non_numbers=True)
    labels = read_labels(path, key="smiles", targets=["pIC50"], drop_non_numbers=True)
    assert (len(labels), labels.y[0].tolist()) == (30, [8.0])
    assert read_labels(path, key="smiles", targets=["date"]).y[0].tolist() == [float(date)]
    path = put(tmp_path, "smiles,y\nCC,2000\nCO,20240105\nCN,2001.5\n")
    assert read_labels(path, key="smiles").names == ("y",)


def test_labels_that_cannot_be_read_are_left_out_and_counted(tmp_path: Path) -> None:
    path = put(tmp_path, "id,score\nA,1.5\nB,2,3\nC,2.5\n")
    with pytest.raises(InputError, match=r"line 3 cannot be read .* leave out such lines with --accept-rej"):
        read_labels(path)
    labels = read_labels(path, accept_rejects=True)
    assert (labels.keys.to_pylist(), labels.read, labels.dropped) == (["A", "C"], 3, 1)
    assert labels.unusual == {"in lines that cannot be read": (1, "3: 3 columns where 2 are expected")}


def test_a_broken_row_does_not_hide_the_header(tmp_path: Path) -> None:
    path = put(tmp_path, "mol,vina\nCCO,-7\nCCN,-8\nCC,1,2\n")
    assert lay_out(path)[0][1].names == ("mol", "vina")
    assert read_labels(path, key="smiles", accept_rejects=True).names == ("vina",)


@pytest.mark.parametrize("first", ["", "id", "Compound ID"])
def test_columns_that_pandas_numbers_are_a_header(first: str, tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text(f"{first},0\nmol1,-7.5\nmol2,-8.5\nmol3,-6\n")
    labels = read_labels(tmp_path / "y.csv")
    assert labels.keys.to_pylist() == ["mol1", "mol2", "mol3"]
    assert labels.y.ravel().tolist() == [-7.5, -8.5, -6.0]


def test_numbers_without_a_header_stay_rows(tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text("mol0,0\nmol1,-7.5\nmol2,-8.5\n")
    assert read_labels(tmp_path / "y.csv").y.ravel().tolist() == [0.0, -7.5, -8.5]
