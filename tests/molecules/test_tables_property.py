"""Reading of ugly files is the same as the slow reading of them, wherever blocks and partitions are cut."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daskrf.tables import Library, TableFormat, scan, spool, streams
from daskrf.tables import scanning as tables
from daskrf.tables.formats import streamed
from tests.molecules.helpers import rejects_of, rows_of, write
from tests.naive import tables as naive

GOOD = [
    b"CCO\tA1\t1.5",
    b"C[C@H](F)Cl |&1:1| A2 3",
    b"c1ccccc1 A3 x",
    b"CCO,A4,2",
    b'"CC",A5,"a,b"',
    b"C |a:0 b;| A6 1",
]
UGLY = [
    b"",
    b"  ",
    b"\t",
    b",",
    b"CC",
    b'"CC,A,1',
    b"CC |open A 1",
    b"\xff\xfe",
    "CC\tnäme\tß".encode(),
    b"C\0C\tx\t1",
]
UGLY += [
    b"C" * 9_995 + b"\tA\t1",
    b"C" * 9_996 + b"\tA\t1",
    b"C" * 20_000,
    b"| | |",
    b"C\rC A",
    b"CC,a\tb, ",
    b'"C""C",x,1',
]
ANY = st.text(alphabet='CNO(1)=| \t,"\r\0é\x1c', max_size=12).map(str.encode)
LINES = st.one_of(
    st.sampled_from(GOOD),
    st.sampled_from(UGLY),
    ANY,
    st.binary(max_size=6).map(lambda b: b.replace(b"\n", b"")),
)
FIELDS = st.sampled_from(
    [b"CC", b"N", b" C ", b"C |&1:1|", b"A b", b"x", b"C" * 9_994, b"C" * 9_998, b"1\t2", b""]
)
ENDS = st.sampled_from([b"\n", b"\r\n"])


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes, int]:
    """Return the ending of a file name, its content, and the number of compressed parts."""
    ending = draw(st.sampled_from([".smi", ".txt", ".csv", ".tsv"]))
    delimiter = {".csv": b",", ".tsv": b"\t"}.get(ending, draw(st.sampled_from([b"\t", b" "])))
    first = delimiter.join([b"CCO", b"first", b"0"])
    regular = st.tuples(FIELDS, FIELDS, FIELDS).map(delimiter.join)
    lines = [
        first,
        *draw(st.lists(draw(st.sampled_from([regular, LINES, st.one_of(regular, LINES)])), max_size=12)),
    ]
    data = b"".join(line + draw(ENDS) for line in lines)
    data = draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + data
    if draw(st.booleans()):
        data = data.rstrip(b"\r\n")
    compression = draw(st.sampled_from(["", ".gz", ".bz2", ".zst"]))
    return ending + compression, data, draw(st.integers(1, 3))


@contextlib.contextmanager
def small_blocks(block: int, batch: int) -> Iterator[None]:
    """Cut files, batches, index and spool so small that a few lines meet every boundary."""
    with contextlib.ExitStack() as stack:
        for module, name, value in [
            (streams, "_PLAIN_BLOCK", block),
            (streams, "_COMPRESSED_BLOCK", block),
            (streamed, "BATCH_ROWS", batch),
            (spool, "CHUNK_ROWS", 3 * batch),
            (streamed, "INDEX_STEP", 2),
            (tables, "INDEX_STEP", 2),
        ]:
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def expected(library: Library) -> tuple[list, list]:
    """Return rows and rejects by the slow reading."""
    accepted, rejected, row = [], [], 0
    for k, source in enumerate(library.sources):
        layout = source.layout
        for number, raw in enumerate(naive.data_lines(Path(source.path), layout.header)):
            line = layout.header + number + 1
            fields = naive.read_line(raw, layout)
            if isinstance(fields, str):
                rejected.append((row, k, line, fields))
            else:
                accepted.append((row, k, line, fields[1] or f"row-{row}", fields[0]))
            row += 1
    return accepted, rejected


@settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    inputs=st.lists(files(), min_size=1, max_size=3),
    header=st.booleans(),
    step=st.integers(1, 9),
    block=st.sampled_from([1, 7, 64, 1 << 16]),
    batch=st.integers(1, 4),
    use_spool=st.booleans(),
)
def test_reads_what_the_slow_reader_reads(
    inputs: list[tuple[str, bytes, int]], header: bool, step: int, block: int, batch: int, use_spool: bool
) -> None:
    with tempfile.TemporaryDirectory() as name, small_blocks(block, batch):
        folder = Path(name)
        paths = [
            write(folder / f"{k}{ending}", data, parts) for k, (ending, data, parts) in enumerate(inputs)
        ]
        cache = folder / "spool" if use_spool else None
        if header and not any(data.count(b"\n") - data.endswith(b"\n") for _, data, _ in inputs):
            return  # header lines alone
        library = scan(paths, TableFormat(smiles=0, id=1, header=header), step, spool=cache)
        accepted, rejected = expected(library)
        assert rows_of(library, cache) == accepted
        rejects = rejects_of(library, cache)
        assert [(r.row, r.source, r.line, r.reason) for r in rejects] == rejected
        assert library.n_rows == len(accepted) + len(rejected)
        assert Library.from_state(library.state()) == library
