"""Labels: what is read, what is refused by file and line, and which row a label goes to."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import itertools
import multiprocessing
import tempfile
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.measurements import Labels, label_words, read_labels
from daskrf.storage.labels import JoinedLabels, RowLabels, join_labels, library_keys, match_labels
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.tables.values import repeats as repeats_module
from tests.naive.stores import naive_join
from tests.storage.strategies import UNFOLDED, csr_of, new_store, random_counts, rejects_table, rows_table


def write(folder: Path, text: str, name: str = "labels.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def library(path: Path, ids: list[list[str]]) -> FingerprintStore:
    """A store with the given ids; the last row of each partition is a reject."""
    sizes = [len(part) + 1 for part in ids]
    starts = np.cumsum([0, *sizes])
    bounds = [{"start": int(a), "stop": int(b)} for a, b in itertools.pairwise(starts)]
    store = new_store(path, partitions=bounds)
    for p, part in enumerate(ids):
        start = int(starts[p])
        rows = rows_table(start, len(part), part)
        store.write_partition(p, random_counts(len(part)), rows, rejects_table([start + len(part)]))
    return store


def test_the_usual_files(tmp_path: Path) -> None:
    table = pa.table({"name": ["A", "B"], "score": [1.5, -2.0]})
    pq.write_table(table, tmp_path / "l.parquet")
    (tmp_path / "l.csv.gz").write_bytes(gzip.compress(b"name,score\nA,1.5\nB,-2\n"))
    (tmp_path / "l.tsv.zst").write_bytes(zstandard.compress(b"name\tscore\r\nA\t1.5\r\nB\t-2"))
    files = [
        write(tmp_path, "name,score\nA,1.5\nB,-2\n"),
        write(tmp_path, "\ufeffname,score\n\nA,1.5\n\n\nB,-2\n\n", "bom.csv"),
        write(tmp_path, 'score,"name"\n1.5,"A"\n-2.0,B\n', "quoted.csv"),
        write(tmp_path, "A 1.5\nB   -2\n", "plain.txt"),
        write(tmp_path, "A\t1.5\nB\t-2\n", "tabs.txt"),
        *(tmp_path / name for name in ("l.parquet", "l.csv.gz", "l.tsv.zst")),
    ]
    for path in files:
        labels = read_labels(path)
        assert labels.keys.to_pylist() == ["A", "B"], path
        assert labels.y.tolist() == [[1.5], [-2.0]]
        assert (labels.read, len(labels), labels.dropped) == (2, 2, 0)
    assert read_labels(files[0]).names == ("score",)
    assert read_labels(files[3]).names == ("column 1",)


def test_files_of_any_ending_and_delimiter(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["A", "B"], "score": [1.5, -2.0]}), tmp_path / "l.dat")
    files = [
        write(tmp_path, "name;score\nA;1.5\nB;-2\n"),
        write(tmp_path, "name\tscore\nA\t1.5\nB\t-2\n", "tabs.csv"),
        write(tmp_path, "Compound Name,score\nA,1.5\nB,-2\n", "commas.txt"),
        write(tmp_path, 'name|1;score\n"A";1.5\n"B";-2\n', "quoted.xls"),
        write(tmp_path, "A 1.5\nB -2\n", "no-ending"),
        tmp_path / "l.dat",
    ]
    for path in files:
        labels = read_labels(path)
        assert (labels.keys.to_pylist(), labels.y.tolist()) == (["A", "B"], [[1.5], [-2.0]]), path


def test_the_delimiter_is_no_part_of_a_name_or_a_number(tmp_path: Path) -> None:
    names = write(tmp_path, "Compound Name,dock,assay\nan A,1.5,2\na B,-2,3\n", "names.txt")
    assert read_labels(names, targets=["dock"]).keys.to_pylist() == ["an A", "a B"]
    for name, text in (("plain.txt", "A 1,5\nB 2,5\n"), ("x.csv", "id;y\nA;1,5\nB;2,5\n")):
        labels = read_labels(write(tmp_path, text, name))
        assert (labels.keys.to_pylist(), labels.y.ravel().tolist()) == (["A", "B"], [1.5, 2.5])


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("idx,CMPD_CHEMBLID,score", "CMPD_CHEMBLID"),
        ("compound_class,Compound Name,score", "Compound Name"),
        ("assay_id,catalog number,score", "catalog number"),
        ("batch,molecule-name,score", "molecule-name"),
    ],
)
def test_the_key_is_found_as_in_libraries(header: str, key: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"{header}\n" + "".join(f"{k % 2},Z{k},{k}\n" for k in range(8)))
    assert read_labels(path, targets=["score"]).keys.to_pylist() == [f"Z{k}" for k in range(8)]
    assert f"IDs in '{key}'" in label_words(path, targets=["score"])


def test_a_target_is_not_taken_for_the_key(tmp_path: Path) -> None:
    path = write(tmp_path, "dG,of\n" + "".join(f"{k},Z{k}\n" for k in range(8)))
    labels = read_labels(path, targets=["dG"])
    assert (labels.names, labels.keys.to_pylist()[:2]) == (("dG",), ["Z0", "Z1"])


def test_how_labels_are_read_in_words(tmp_path: Path) -> None:
    path = write(tmp_path, "id,dock,assay\nA,1,10\nB,2,20\n")
    csv = f"{path}: UTF-8 text, separated by commas, with a header; "
    assert label_words(path, targets=["assay"]) == f"{csv}IDs in 'id', target 'assay'"
    assert label_words(path, targets=[1, 2]) == f"{csv}IDs in 'id', targets 'dock', 'assay'"
    assert label_words(path, key="row", key_column="dock", targets=["assay"]).startswith(
        f"{csv}row numbers in "
    )
    plain = tmp_path / "scores.txt.gz"
    plain.write_bytes(gzip.compress(b"CCO -9\nCC -8\n"))
    assert label_words(plain, key="smiles") == (
        f"{plain}: UTF-8 text, gzip-compressed, separated by white space, without a header; SMILES in column "
        "0, target column 1"
    )
    pq.write_table(pa.table({"Ligand": ["A", "B"], "score": [1.0, 2.0]}), tmp_path / "l.parquet")
    assert (
        label_words(tmp_path / "l.parquet")
        == f"{tmp_path}/l.parquet: Parquet; IDs in 'Ligand', target 'score'"
    )


def test_many_columns_are_not_all_printed(tmp_path: Path) -> None:
    names = [f"x{k}" for k in range(5_000)]
    values = ",".join(["1.5"] * 5_000)
    path = write(tmp_path, f"id,{','.join(names)}\nA,{values}\nB,{values}\n")
    pq.write_table(pa.table({"id": ["A"], **{name: [1.5] for name in names}}), tmp_path / "l.parquet")
    for file in (path, tmp_path / "l.parquet"):
        for options in ({}, {"targets": ["y"]}, {"key_column": "y"}, {"targets": [0]}):
            with pytest.raises(InputError, match=r" and 4,99\d more") as error:
                read_labels(file, **options)
            assert len(str(error.value)) < 500
    assert len(label_words(path, targets=names)) < 500


def test_columns_are_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, "smiles,Compound_ID,dock,assay\nC,A,1,10\nCC,B,2,20\n")
    by_id = read_labels(path, targets=["assay", "DOCK"])
    assert by_id.keys.to_pylist() == ["A", "B"]
    assert by_id.y.tolist() == [[10, 1], [20, 2]]
    assert by_id.names == ("assay", "dock")
    by_smiles = read_labels(path, key="smiles", targets=[2])
    assert by_smiles.keys.to_pylist() == ["C", "CC"]
    assert read_labels(path, key_column=0, targets=[3]).keys.to_pylist() == ["C", "CC"]
    with pytest.raises(InputError, match=r"several numeric columns \(dock, assay\); name the target"):
        read_labels(path)
    with pytest.raises(
        InputError, match="no column 'potency'; its columns are smiles, Compound_ID, dock, assay"
    ):
        read_labels(path, targets=["potency"])
    with pytest.raises(InputError, match="4 columns, so there is no position 4"):
        read_labels(path, key_column=4)
    for bad in ([], ["Compound_ID"], ["dock", "dock"]):
        with pytest.raises(InputError, match="must be distinct columns other than the key"):
            read_labels(path, targets=bad)
    with pytest.raises(InputError, match="labels are joined by id, "):
        read_labels(path, key="name")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "", "NA", "1e400"])
def test_non_finite_labels_are_refused_by_file_and_line(tmp_path: Path, value: str) -> None:
    path = write(tmp_path, f"id,score\nA,1\n\nB,{value}\nC,3\n")
    with pytest.raises(
        InputError,
        match=r"labels\.csv, line 4: 'score' (is empty|holds .*not a finite number).*--drop-non-numbers",
    ):
        read_labels(path)
    labels = read_labels(path, drop_non_numbers=True)
    assert labels.keys.to_pylist() == ["A", "C"]
    assert (labels.read, labels.dropped) == (3, 1)


def test_parquet_names_the_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["A", "B"], "score": [1.0, None]}), tmp_path / "l.parquet")
    with pytest.raises(InputError, match=r"l\.parquet, row 2: 'score' is empty; fill it in"):
        read_labels(tmp_path / "l.parquet")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("id,score\n", "has a header but no rows"),
        ("id,score\nA,high\n", "no numeric column"),
        ("id,score\nA,1\nB,high\n", "line 3: 'score' holds 'high', which is not a number"),
        ("id,score\nA,1\nB\n", "line 3 cannot be read .1 columns where 2 are expected."),
        ("id,score\nA,nan\n", "line 2: 'score' holds 'nan'"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_labels(write(tmp_path, text))


def test_other_bad_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_labels(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"labels\.csv is JSON; save it as CSV or Parquet"):
        read_labels(write(tmp_path, '[{"id": "A", "score": 1}]'))
    (tmp_path / "labels.csv.bz2").write_bytes(bz2.compress(b"x\n\n@<TRIPOS>MOLECULE\n" * 9_999))
    with pytest.raises(InputError, match=r"labels\.csv\.bz2 is a MOL2 file"):
        read_labels(tmp_path / "labels.csv.bz2")
    (tmp_path / "mixed.csv").write_bytes("id,score\nA\xe9,1\n".encode("latin-1") + "\xe9,1\n".encode())
    with pytest.raises(InputError, match="not UTF-8"):
        read_labels(tmp_path / "mixed.csv")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="is damaged, or not a Parquet file"):
        read_labels(tmp_path / "bad.parquet")
    with pytest.raises(InputError, match="no labels left: none of its 2 rows"):
        read_labels(write(tmp_path, "id,score\nA,nan\nB,\n"), drop_non_numbers=True, targets=["score"])
    with pytest.raises(InputError, match=r"line 3 has the key '-1', which is not a row number"):
        read_labels(write(tmp_path, "row,score\n0,1\n-1,2\n"), key="row")


def test_join_counts_everything(tmp_path: Path) -> None:
    store = library(tmp_path / "s", [["A", "B", "A"], ["C", "B"], ["D", "A"]])
    path = write(tmp_path, "id,score\nC,1\nX,2\nA,3\nC,4\nB,5\nE,nan\n")
    joined = join_labels(read_labels(path, drop_non_numbers=True), store)
    assert joined.row.tolist() == [0, 1, 4, 4]
    assert joined.y.ravel().tolist() == [3, 5, 1, 4]
    assert (joined.matched, joined.unmatched, joined.repeats, joined.equal_repeats) == (4, 1, 1, 0)
    assert (joined.library_duplicates, joined.dropped, joined.unmatched_keys) == (3, 1, ("X",))
    assert "4 labels attached to 3 molecules" in str(joined)
    assert "repeat measurements among them: 1, and each counts" in str(joined)
    assert "such as X" in str(joined)


def test_join_by_row(tmp_path: Path) -> None:
    store = library(tmp_path / "s", [["A", "A"], ["A"]])
    path = write(tmp_path, "row,score\n3,1\n2,2\n0,3\n99,4\n")
    joined = join_labels(read_labels(path, key="row"), store)
    assert joined.row.tolist() == [0, 3], "row 2 was rejected, row 99 is not there"
    assert joined.y.ravel().tolist() == [3, 1]
    assert joined.unmatched_keys == ("2", "99")


def test_join_by_smiles(tmp_path: Path) -> None:
    store = library(tmp_path / "s", [["A", "B"], ["C"]])
    joined = join_labels(read_labels(write(tmp_path, "smiles,score\nCC,1\n"), key="smiles"), store)
    assert joined.row.tolist() == [1]


def test_nothing_in_common_is_an_error(tmp_path: Path) -> None:
    store = library(tmp_path / "s", [["A"]])
    with pytest.raises(InputError, match=r"none of the 1 labels .* no id 'Z9'"):
        join_labels(read_labels(write(tmp_path, "id,score\nZ9,1\n")), store)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    keys=st.lists(st.sampled_from("ABCDEFé"), min_size=1, max_size=12),
    ids=st.lists(st.lists(st.sampled_from("ABCDXé"), max_size=5), min_size=1, max_size=4),
)
def test_join_like_the_oracle(keys: list[str], ids: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = library(Path(folder) / "s", ids)
        starts = [entry["start"] for entry in store.partitions]
        rows = [(a + i, key) for a, part in zip(starts, ids, strict=True) for i, key in enumerate(part)]
        pairs, unmatched, repeated, library_repeated = naive_join(keys, rows)
        text = "id,score\n" + "".join(f"{key},{i}\n" for i, key in enumerate(keys))
        labels = read_labels(write(Path(folder), text))
        if not pairs:
            with pytest.raises(InputError):
                join_labels(labels, store)
            return
        joined = join_labels(labels, store)
        parts = [match_labels(labels, store, [p]) for p in reversed(range(store.n_partitions))]
        for part in parts[1:]:
            parts[0] = parts[0].combine(part)
        again = join_labels(labels, store, parts[0])
    assert list(zip(joined.row.tolist(), joined.y.ravel().tolist(), strict=True)) == pairs
    assert (joined.unmatched, joined.library_duplicates) == (unmatched, library_repeated)
    assert (joined.repeats, joined.n_molecules) == (repeated, len({row for row, _ in pairs}))
    assert np.array_equal(again.row, joined.row)
    assert again.library_duplicates == joined.library_duplicates


def test_equal_repeats_are_counted_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats_module, "_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    for n in (1, 2, 6, 7, 8, 60):
        for _ in range(20):
            row = np.sort(rng.integers(0, rng.integers(1, n + 2), n))
            y = rng.choice([1.0, 2.0, 0.0, -0.0, np.nan], (n, 2))
            side = np.where(np.isnan(y), rng.integers(-1, 2, (n, 2)), 0).astype(np.int8)
            bound = np.where(side == 0, np.nan, rng.choice([0.0, -0.0, 3.0], (n, 2)))
            for columns, limits in (([y], {}), ([y, side, bound], {"bound": bound, "side": side})):
                table = np.hstack([row[:, None], *columns]) + 0.0
                seen = {tuple(map(repr, values)) for values in table.tolist()}
                assert RowLabels(row, y, **limits).n_equal == n - len(seen)


def joined_within(most: int, folder: Path, name: str, n: int) -> tuple[int, int]:
    """Join n labels, half of which are in the library, in a process of its own; return what was counted.

    Python 3.11 may crash when memory is no longer traced while another thread allocates some.
    """
    number = np.random.default_rng(0).permutation(n)
    number[:500] = number[500:1000]
    lines = (f"{name.format(k)},{k % 97 / 8}\n" for k in number.tolist())
    path = write(folder, "id,score\n" + "".join(lines))
    ids = [name.format(k) for k in range(0, n, 2)]
    store = new_store(folder / "s", partitions=[{"start": 0, "stop": len(ids)}])
    store.write_partition(0, csr_of([{}] * len(ids), UNFOLDED), rows_table(0, len(ids), ids))
    labels = read_labels(write(folder, "id,score\nA,1\n", "small.csv"))  # loads and compiles
    match_labels(labels, store, [0])

    def check_peak(make: Callable[[], Any]) -> Any:
        tracemalloc.reset_peak()
        made = make()
        assert tracemalloc.get_traced_memory()[1] < most
        return made

    tracemalloc.start()
    labels = check_peak(lambda: read_labels(path))
    matches = check_peak(lambda: match_labels(labels, store, [0]))
    labels = labels.closed()
    joined = check_peak(lambda: join_labels(labels, store, matches))
    return joined.matched + joined.unmatched, joined.repeats


@pytest.mark.parametrize("name", ["M{:012d}", "CC(=O)Nc1ccc(cc1)S(=O)(=O)N{:012d}CC"])
def test_a_label_takes_sixty_bytes_however_long_its_key(tmp_path: Path, name: str) -> None:
    """At any time; half of the labels are in the library, and some are repeats."""
    n, fixed = 100_000, 10 << 20  # a block of rows as text, and buffers
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        n_joined, repeats = pool.submit(joined_within, 60 * n + fixed, tmp_path, name, n).result()
    assert n_joined == n
    assert repeats > 100


@pytest.mark.parametrize("key", ["id", "smiles"])
def test_text_keys_may_take_more_than_two_gib(tmp_path: Path, key: str) -> None:
    store = library(tmp_path / "s", [["A", "B"]])
    labels = read_labels(write(tmp_path, f"{key},score\nA,1\nCC,2\n"), key=key)
    ((_, keys),) = library_keys(labels.key, labels.table.kind, store, [0])
    # Offsets of 32 bits are what limits an array of type string.
    assert labels.keys.type == keys.type == pa.large_string()


def test_digest_is_of_the_labels_and_not_of_their_file(tmp_path: Path) -> None:
    store = library(tmp_path / "s", [["A", "B", "C"]])

    def joined(text: str, name: str = "labels.csv", **options: Any) -> JoinedLabels:
        return join_labels(read_labels(write(tmp_path, text, name), **options), store)

    plain = joined("id,y\nA,1\nB,-2.5\n")
    assert plain.digest == joined("id\ty\nB\t-2.5\nX\t9\nA\t1.0\n", "l.tsv").digest
    assert plain.digest == joined("y,id\n-2.5,B\n1.0,A\n9,X\n", "other.csv").digest
    others = [
        joined("B\t-2.5\nX\t9\nA\t1.0\n", "nameless.tsv"),
        joined("id,z\nA,1\nB,-2.5\n"),
        joined("id,y\nA,1\nB,-2.25\n"),
        joined("id,y\nA,1\nC,-2.5\n"),
        joined("id,y\nA,1\n"),
        joined("id,y,z\nA,1,0\nB,-2.5,0\n", targets=["y", "z"]),
    ]
    assert len({plain.digest, *(other.digest for other in others)}) == 7
    two = others[-1]
    assert two.digest == dataclasses.replace(two, y=np.asfortranarray(two.y), row=two.row[::1]).digest
    turned = dataclasses.replace(two, y=two.y.reshape(1, 4), names=("a", "b"))
    assert turned.digest != dataclasses.replace(two, names=("a", "b")).digest


def test_values_are_exact(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(200) * 10.0 ** np.arange(-100, 100)
    text = "id,score\n" + "".join(f"Z{i},{value!r}\n" for i, value in enumerate(values.tolist()))
    from_text = read_labels(write(tmp_path, text), accept_outliers=True)
    pq.write_table(pa.table({"id": [f"Z{i}" for i in range(200)], "y": values}), tmp_path / "l.parquet")
    from_parquet = read_labels(tmp_path / "l.parquet", accept_outliers=True)
    for labels in (from_text, from_parquet):
        assert isinstance(labels, Labels)
        assert np.array_equal(labels.y.ravel(), values)


def test_smiles_keys_lose_their_extensions(tmp_path: Path) -> None:
    path = tmp_path / "labels.tsv"
    path.write_text("smiles\ty\nCCO |&1:1|\t1\n CCN\t2\n")
    assert read_labels(path, key="smiles").keys.to_pylist() == ["CCO", "CCN"]
