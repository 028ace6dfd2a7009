"""Scan, partitions, samples and errors of the reader."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from daskrf.errors import InputError
from daskrf.files import disk
from daskrf.tables import Library, TableFormat, expand, read_partition, sample_rows, scan
from daskrf.tables.spool import SpoolWriter
from daskrf.tables.streams import compression_of, decompressed
from tests.molecules.helpers import COMPRESS, rejects_of, rows_of, write

SMILES = "CC(=O)Nc1ccc(O)cc1"


def numbered(n: int) -> bytes:
    return b"".join(b"%s ID%07d\n" % (SMILES.encode(), k) for k in range(n))


@pytest.mark.parametrize(("rows", "step"), [(1, 2_000), (2_000 * 64, 2_000), (2_000 * 64 + 1, 2_001)])
def test_default_partitions(rows: int, step: int, tmp_path: Path) -> None:
    library = scan(write(tmp_path / "a.smi", b"C\n" * rows))
    assert library.rows_per_partition == step
    assert [partition.start for partition in library.partitions] == list(range(0, rows, step))
    assert library.partitions[-1].stop == rows == library.n_rows


def test_sources_have_size_and_digest_of_the_bytes_on_disk(tmp_path: Path) -> None:
    seen: list[int] = []
    path = write(tmp_path / "a.smi.bz2", numbered(30_000), parts=3)
    (source,) = scan(path, on_bytes=seen.append).sources
    assert source.bytes == path.stat().st_size == sum(seen)
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("ending", ["", ".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("spooled", [False, True])
def test_any_partition_is_read_alone(ending: str, spooled: bool, tmp_path: Path) -> None:
    path = write(tmp_path / f"a.smi{ending}", numbered(120_000), parts=2)
    spool = tmp_path / "spool" if spooled else None
    library = scan(path, rows_per_partition=45_000, spool=spool)
    if spool and ending:
        path.write_bytes(bytes(path.stat().st_size))  # all rows are in the spool
    for p in (2, 0, 1):
        ids = [name for batch in read_partition(library, p, spool) for name in batch.id]
        partition = library.partitions[p]
        assert ids == [f"ID{k:07d}" for k in range(partition.start, partition.stop)]
    assert spool is None or len(list(spool.rglob("*.zst"))) == (6 if ending else 0)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_errors_of_reading_keep_their_number(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that whoever sent the task can tell a hiccup of the file system from a damaged file."""
    path = write(tmp_path / f"a.smi{ending}", numbered(20))
    library = scan(path)
    read = Path.open

    def failing(self: Path, *arguments: Any, **options: Any) -> Any:
        if self == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", failing)
    with pytest.raises(InputError, match="cannot be read") as caught:
        list(read_partition(library, 0))
    assert pickle.loads(pickle.dumps(caught.value)).errno == errno.EIO


def test_an_unfinished_spool_of_a_killed_process_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SpoolWriter(tmp_path):
        assert disk.remove_stale(tmp_path) == 0
        monkeypatch.setattr(disk, "is_gone", lambda host, pid: pid == os.getpid())
        assert disk.remove_stale(tmp_path) == 1


def test_a_file_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = Path(os.fsdecode(bytes(tmp_path) + b"/lib\xff\x1b.smi"))
    path.write_bytes(b"CCO\n")
    with pytest.raises(InputError) as caught:
        scan(path)
    assert str(caught.value) == (
        rf"the path {tmp_path}/lib\udcff\x1b.smi is not UTF-8 text; give another one, or a link to it"
    )


def test_a_spool_that_is_gone_is_not_missed(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    library = scan(write(tmp_path / "a.smi.gz", numbered(120_000)), rows_per_partition=60_000, spool=spool)
    next(iter(spool.rglob("*.zst"))).unlink()
    assert [row[3] for row in rows_of(library, spool)] == [f"ID{k:07d}" for k in range(120_000)]


def test_a_damaged_spool_is_not_read_and_is_zstandard_otherwise(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    library = scan(write(tmp_path / "a.smi.gz", numbered(120_000)), rows_per_partition=1_000, spool=spool)
    chunk = sorted(spool.rglob("*.zst"))[3]
    data = chunk.read_bytes()
    text = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    assert text.splitlines() == numbered(120_000).splitlines()[60_000:80_000]
    (batch,) = read_partition(library, 70, spool)
    for position in [*range(len(data) - 16, len(data)), *range(0, len(data), len(data) // 50)]:
        for bit in (1, 64):
            chunk.write_bytes(data[:position] + bytes([data[position] ^ bit]) + data[position + 1 :])
            with pytest.raises(InputError, match="is damaged; delete its folder"):
                list(read_partition(library, 70, spool))
    for size in (0, 5, len(data) - 12, len(data) - 1):
        chunk.write_bytes(data[:size])
        with pytest.raises(InputError, match="is damaged; delete its folder"):
            list(read_partition(library, 70, spool))
    chunk.write_bytes(data)
    (again,) = read_partition(library, 70, spool)
    assert again.smiles == batch.smiles


def test_state_goes_through_json(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "smiles,id,x\nCC,A,1\n")
    write(tmp_path / "b.csv", "")
    library = scan([tmp_path / "a.csv", tmp_path / "b.csv"], TableFormat(extra=("x", 1)))
    assert Library.from_state(json.loads(json.dumps(library.state()))) == library


@pytest.mark.parametrize("ending", COMPRESS)
def test_memory_does_not_grow_with_the_file(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daskrf.tables.scanning.processors", lambda: 2)  # each holds a block of bzip2

    def peak(rows: int) -> int:
        random = np.random.default_rng(0).integers(2**63, size=rows).tolist()
        lines = b"".join(b"%s %d\n" % (SMILES.encode(), number) for number in random)
        path = write(tmp_path / f"{rows}.smi{ending}", lines)
        tracemalloc.start()
        try:
            library = scan(path, rows_per_partition=rows, spool=tmp_path / "spool")
            for batch in read_partition(library, 0, tmp_path / "spool"):
                del batch
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # The larger file has 24 MB, the smaller one 12. How many blocks of bzip2 wait at once depends on threads.
    small = peak(300_000)
    assert peak(600_000) < small + 4_000_000


@pytest.mark.parametrize(
    ("ending", "lines", "size"),
    [*((ending, 1, 100_000_000) for ending in COMPRESS), ("", 200, 500_000), (".zst", 12_000, 9_000)],
)
def test_memory_does_not_grow_with_lines(ending: str, lines: int, size: int, tmp_path: Path) -> None:
    """A line of 2 GB is 60 kB in zstd, and 1,500 bytes in bzip2."""
    path = write(tmp_path / f"a.smi{ending}", (b"C" * size + b" long\n") * lines + b"CCO short\n")
    spool = tmp_path / "spool"
    tracemalloc.start()
    try:
        library = scan(path, TableFormat(smiles=0), rows_per_partition=lines + 1, spool=spool)
        reasons: Counter[str] = Counter()
        n_read = 0
        for batch in read_partition(library, 0, spool):
            reasons.update(reject.reason for reject in batch.rejects)
            n_read += len(batch.smiles)
        assert tracemalloc.get_traced_memory()[1] < 80_000_000
    finally:
        tracemalloc.stop()
    long = size > 10_000
    assert n_read == (1 if long else lines + 1)
    assert reasons == ({"longer than 10,000 bytes": lines} if long else {})


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("block", [1, 7, 4096, 1 << 20])
def test_content_comes_in_pieces_and_whole(ending: str, block: int, tmp_path: Path) -> None:
    random = np.random.default_rng(block)
    content = b"C" * (3 << 20) + random.bytes(50_000) + b"N" * ((1 << 20) - 50_000) + bytes(1 << 21)
    packed = COMPRESS[ending](content) + COMPRESS[ending](b"") + COMPRESS[ending](content[:1000])
    compression = compression_of(write(tmp_path / f"a{ending}", b"CCO"))
    blocks = (packed[at : at + block] for at in range(0, len(packed), block))
    pieces = list(decompressed(tmp_path, blocks, compression))
    assert b"".join(pieces) == content + content[:1000]
    assert max(map(len, pieces)) < 10_000_000
    cut = (packed[at : min(at + block, len(packed) - 3)] for at in range(0, len(packed) - 3, block))
    with pytest.raises(InputError, match="ends in the middle"):
        list(decompressed(tmp_path, cut, compression))


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
def test_many_small_members_and_padding_after_them(ending: str, tmp_path: Path) -> None:
    lines = [b"CCO line%d\n" % number for number in range(3000)]
    path = tmp_path / f"a.smi{ending}"
    path.write_bytes(b"".join(COMPRESS[ending](line) for line in lines) + bytes(70_000))
    assert [row[3] for row in rows_of(scan(path))] == [f"line{number}" for number in range(3000)]


def test_a_line_without_end_is_not_held(tmp_path: Path) -> None:
    path = write(tmp_path / "a.smi", b"CC A\n" + b"C" * 30_000_000 + b"\nCCO B\n")
    tracemalloc.start()
    try:
        library = scan(path)
        assert [row[3] for row in rows_of(library)] == ["A", "B"]
        (reject,) = rejects_of(library)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert (reject.line, reject.text, reject.reason) == (2, "C" * 500, "longer than 10,000 bytes")


def test_empty_files_beside_a_full_one_do_no_harm(tmp_path: Path) -> None:
    files = [("a.smi", ""), ("b.csv", "smiles,id\n"), ("c.smi.gz", "CC A\n"), ("d.smi.gz", "")]
    library = scan([write(tmp_path / name, content) for name, content in files])
    assert [row[:4] for row in rows_of(library)] == [(0, 2, 1, "A")]
    (tmp_path / "d.smi.gz").write_bytes(b"")
    assert library.n_rows == scan(sorted(tmp_path.iterdir())).n_rows


@pytest.mark.parametrize(
    "files", [{"a.smi": ""}, {"a.csv": "smiles,id\n"}, {"a.smi": "", "b.csv": "smiles\n", "c.smi.gz": ""}]
)
def test_no_rows_at_all_is_an_error(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no rows"):
        scan([write(tmp_path / name, content) for name, content in files.items()])


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
def test_truncated_and_damaged_files_are_named(ending: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"a.smi{ending}", numbered(200_000))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=f"{path} ends in the middle of its .* data"):
        scan(path)
    path.write_bytes(data[: len(data) // 2] + bytes(1000) + data[len(data) // 2 + 1000 :])
    with pytest.raises(InputError, match=f"{path} is damaged"):
        scan(path)


def test_the_content_decides_and_not_the_name(tmp_path: Path) -> None:
    plain = tmp_path / "plain.smi.gz"
    plain.write_bytes(b"CCO A\n")  # as browsers leave it that decompress what they fetch
    other = write(tmp_path / "other.gz", "CCO A\n").rename(tmp_path / "other.smi.bz2")
    table = tmp_path / "table.parquet"
    table.write_text("smiles,id\nCCO,A\n")
    frame = tmp_path / "frame.smi"  # pzstd begins so
    frame.write_bytes(b"\x50\x2a\x4d\x18\x01\0\0\0x" + COMPRESS[".zst"](b"CCO A\n"))
    for path in (plain, other, table, frame):
        assert [row[3:] for row in rows_of(scan(path))] == [("A", "CCO")], path


def test_parquet_that_is_none_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", "PAR1 and nothing else")
    with pytest.raises(InputError, match=f"{path} is damaged, or not a Parquet file"):
        scan(path)


def test_compressed_without_the_ending_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.smi.gz", "CC A\n").rename(tmp_path / "a.smi")
    assert [row[3] for row in rows_of(scan(path))] == ["A"]


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    library = scan(write(tmp_path / "a.smi", "CC A\n"))
    write(tmp_path / "a.smi", "CC A\nCC B\n")
    with pytest.raises(InputError, match="has changed since it was scanned"):
        list(read_partition(library, 0))
    (tmp_path / "a.smi").unlink()
    with pytest.raises(InputError, match="it was there at the scan"):
        list(read_partition(library, 0))


def test_expand(tmp_path: Path) -> None:
    for name in ("b.smi", "a.smi", "[x].smi"):
        write(tmp_path / name, "C\n")
    (tmp_path / "folder.smi").mkdir()
    names = [path.name for path in expand([tmp_path / "[x].smi", f"{tmp_path}/[ab].smi"])]
    assert names == ["[x].smi", "a.smi", "b.smi"]
    for name in ("folder.smi/deep/c.sdf", "folder.smi/b", ".cache/d.smi", "_rejects/e.smi", ".f.smi"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, "C\n")
    below = [str(path.relative_to(tmp_path)) for path in expand(tmp_path)]
    assert below == ["[x].smi", "a.smi", "b.smi", "folder.smi/b", "folder.smi/deep/c.sdf"]
    (tmp_path / "folder.smi/b").unlink()
    (tmp_path / "folder.smi/deep/c.sdf").unlink()
    for bad, message in [
        ([], "no input files"),
        ([tmp_path / "folder.smi"], "is a folder without files"),
        ([tmp_path / "c.smi"], "does not exist"),
        ([f"{tmp_path}/*.csv"], "no file matches"),
        ([tmp_path / "a.smi", f"{tmp_path}/*.smi"], "is given twice"),
    ]:
        with pytest.raises(InputError, match=message):
            expand(bad)


@pytest.mark.parametrize("step", [0, -1])
def test_partitions_have_rows(step: int, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 1"):
        scan(write(tmp_path / "a.smi", "CC A\n"), rows_per_partition=step)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_sample_is_uniform_over_rows_of_all_files(ending: str, tmp_path: Path) -> None:
    sizes = (900, 37, 1_063)
    starts = (0, 900, 937)
    paths = [write(tmp_path / f"{k}.smi{ending}", numbered(size)) for k, size in enumerate(sizes)]
    library = scan(paths, rows_per_partition=300)
    counts: Counter[int] = Counter()
    for seed in range(40):
        rows = [int(row) for batch in sample_rows(library, 500, seed) for row in batch.row]
        assert rows == sorted(set(rows))
        assert len(rows) == 500
        counts.update(rows)
    for batch in sample_rows(library, 500, 3):
        first = starts[batch.source[0]]
        assert batch.id == [f"ID{row - first:07d}" for row in batch.row]
    per_tenth = [sum(counts[row] for row in range(at, at + 200)) for at in range(0, 2_000, 200)]
    # A sample is 100 of 400 runs of 5 rows without replacement, and a tenth has 40 of these runs: the count
    # of 40 samples has the mean 2,000 and at most this standard deviation. By chance one of the tenths is
    # 4.5 of them away for one choice of the seeds in 15,000.
    deviation = 5 * np.sqrt(40 * 100 * 0.1 * 0.9 * (400 - 100) / (400 - 1))
    assert np.abs(np.array(per_tenth) - 2_000).max() < 4.5 * deviation


def test_sample_of_more_rows_than_there_are_is_all(tmp_path: Path) -> None:
    library = scan(write(tmp_path / "a.smi", "CC A\n\nC B\n"))
    (batch,) = sample_rows(library, 10)
    assert (batch.row.tolist(), len(batch.rejects)) == ([0, 2], 1)
    with pytest.raises(InputError, match="at least 1"):
        sample_rows(library, 0)


@pytest.mark.parametrize(
    ("name", "rows"),
    [("guacamol_10k.smiles", 10_000), ("Enamine50k_library.csv.gz", 50_240), ("muv_smiles.csv.gz", 93_087)],
)
def test_real_files_are_read_whole(name: str, rows: int, data_dir: Path) -> None:
    library = scan(data_dir / name)
    assert library.n_rows == len(rows_of(library)) == rows


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_lines_of_later_partitions_count_the_header(ending: str, tmp_path: Path) -> None:
    text = "smiles,id\n" + "".join(f"{'C' * (k % 9 + 1)},m{k}\n" for k in range(95))
    library = scan(write(tmp_path / f"a.{ending}", text), rows_per_partition=10)
    lines = [
        (int(batch.line[k]), batch.id[k])
        for p in range(len(library.partitions))
        for batch in read_partition(library, p)
        for k in range(len(batch.line))
    ]
    assert lines == [(k + 2, f"m{k}") for k in range(95)]
