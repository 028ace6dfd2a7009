"""bzip2 in several threads: the same content, and the same errors, as from first to last byte by bz2."""

import bz2
import itertools

import numpy as np
import pytest

from daskrf.errors import InputError
from daskrf.tables import bzip2blocks
from daskrf.tables.bzip2blocks import Contents, IrregularError
from daskrf.tables.streams import text_blocks


def content_of(path, threads):
    """Return the content of a file and the bytes that were watched, or the message that refuses it."""
    watched = []
    try:
        content = b"".join(text_blocks(path, "bzip2", watched.append, threads))
    except InputError as error:
        return str(error)
    return content, b"".join(watched)


def compare(path, data):
    path.write_bytes(data)
    plain = content_of(path, 1)
    assert content_of(path, 3) == plain
    return plain


def streams(rng):
    """Return some streams of several blocks (of 100 kB) and of none: lines, noise, runs."""
    lines = b"".join(b"C" * k + b"O\tZ%d\n" % k for k in rng.integers(1, 60, 8_000))
    noise = rng.integers(0, 256, 150_000, dtype=np.uint8).tobytes()
    contents = [b"", b"CCO\n", lines, noise, b"N" * 300_000, b"\0" * 10, lines[:99_000] + noise[:3_000]]
    chosen = [contents[k] for k in rng.integers(0, len(contents), rng.integers(1, 5))]
    return [bz2.compress(content, 1) for content in chosen]


@pytest.mark.parametrize("seed", range(6))
def test_content_is_that_of_bz2(tmp_path, seed):
    rng = np.random.default_rng(seed)
    data = b"".join(streams(rng))
    assert compare(tmp_path / "a.bz2", data) == (bz2.decompress(data), data)
    cuts = np.sort(rng.integers(0, len(data) + 1, 40)).tolist()
    raw = [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)])]
    pieces = list(Contents(iter(raw), 2))  # nothing is left to the plain reader
    assert b"".join(pieces) == bz2.decompress(data)
    assert max(map(len, pieces), default=0) <= 1 << 20


def test_streams_longer_than_what_is_searched_at_once(monkeypatch):
    rng = np.random.default_rng(7)
    content = rng.integers(0, 64, 700_000, dtype=np.uint8).tobytes()
    packed = bz2.compress(content, 1) + bz2.compress(content[:200_000], 2)
    for size in (1_000, 77_777):
        monkeypatch.setattr(bzip2blocks, "_READ", size)
        raw = (packed[at : at + 999] for at in range(0, len(packed), 999))
        assert b"".join(Contents(raw, 2)) == content + content[:200_000]


@pytest.mark.parametrize("seed", range(4))
def test_damage_is_found_as_by_bz2(tmp_path, seed):
    rng = np.random.default_rng(seed)
    lines = b"".join(b"C" * k + b"O\n" for k in rng.integers(1, 60, 6_000))
    whole = bz2.compress(lines, 1) + bz2.compress(lines[:5_000], 1)
    refused = 0
    for at in rng.integers(0, len(whole), 12).tolist():
        flipped = bytes([*whole[:at], whole[at] ^ (1 << int(rng.integers(8))), *whole[at + 1 :]])
        for data in (flipped, whole[:at], whole[:at] + whole[at + 1 :], whole + whole[:at]):
            refused += isinstance(compare(tmp_path / "a.bz2", data), str)
    assert refused > 40


@pytest.mark.parametrize("tail", [b"\0" * 5, b"\0" * 9_000, b"BZ", b"BZh9", b"CCO\n", b"BZh0" + b"\0" * 20])
def test_what_follows_the_last_stream(tmp_path, tail):
    plain = compare(tmp_path / "a.bz2", bz2.compress(b"CCO\n" * 50_000, 1) + tail)
    assert isinstance(plain, str) != (not tail.strip(b"\0"))


def test_a_mark_within_a_block_does_no_harm(tmp_path, monkeypatch):
    content = np.random.default_rng(3).integers(0, 64, 400_000, dtype=np.uint8).tobytes()
    path = tmp_path / "a.bz2"
    path.write_bytes(bz2.compress(content[:9]) + bz2.compress(content, 1))
    true_marks = bzip2blocks.marks
    for is_end in (False, True):
        with monkeypatch.context() as patch:
            mark = (900_003, is_end)
            patch.setattr(
                bzip2blocks, "marks", lambda data, first, mark=mark: sorted([*true_marks(data, first), mark])
            )
            with pytest.raises(IrregularError):
                list(Contents(iter([path.read_bytes()]), 2))
            assert content_of(path, 2) == (content[:9] + content, path.read_bytes())
