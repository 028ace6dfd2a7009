"""The table of keys of labels is like a dict, and gives the keys back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.arrays import GrowingArray
from daskrf.tables.keytable import TEXT, KeyColumn, KeyTable, table_of

TEXTS = st.one_of(st.text(max_size=20), st.sampled_from(["", "A", "B", "é", "C" * 70]))


def table_in_parts(keys: list[list[str]]) -> KeyTable:
    column = KeyColumn(TEXT)
    for block in keys:
        padded = pa.array(["before", *block, "behind"], TEXT)
        column.append(padded.slice(1, len(block)))
    return column.finish()


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.lists(TEXTS, max_size=6), max_size=5), st.lists(st.none() | TEXTS, max_size=9))
def test_like_a_dict(blocks: list[list[str]], wanted: list[str | None]) -> None:
    keys = [key for block in blocks for key in block]
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    table = table_in_parts(blocks)
    assert (len(table), table.n_keys) == (len(keys), len(number))
    assert table.number.tolist() == [number[key] for key in keys]
    assert table.keys().type == TEXT
    for kind in (TEXT, pa.string()):
        texts = pa.array([*wanted, *keys, "behind"], kind).slice(0, len(wanted) + len(keys))
        assert table.find(texts).tolist() == [
            number.get(key or "", -1) if key is not None else -1 for key in texts.to_pylist()
        ]
    closed = table.closed()
    backwards = np.arange(len(number))[::-1]
    assert closed.keys().to_pylist() == list(number)
    assert closed.keys_of(backwards) == list(number)[::-1]
    assert round(table.bytes_per_key * len(keys)) == sum(len(key.encode()) for key in keys)


def test_row_numbers_are_keys() -> None:
    table = table_of(pa.array([7, 2**62, 7, 0], pa.int64()))
    assert table.number.tolist() == [0, 1, 0, 2]
    assert table.find(pa.array([0, None, 2**62, -1, 1], pa.int64())).tolist() == [2, -1, 1, -1, -1]
    assert table.keys().to_pylist() == table.closed().keys_of(np.arange(3)) == [7, 2**62, 0]
    assert table.bytes_per_key == 0


def test_growing_like_concatenation() -> None:
    rng = np.random.default_rng(0)
    for shape in ((), (2,)):
        pieces = [rng.random((int(size), *shape)) for size in rng.integers(0, 50, 40)]
        rows = GrowingArray(np.float64, *shape)
        for piece in pieces:
            rows.append(piece)
        every = np.concatenate(pieces)
        assert len(rows) == len(every)
        assert np.array_equal(rows.values, every)
        assert np.array_equal(rows.finish(), every)
        assert rows.finish().shape == (0, *shape)
