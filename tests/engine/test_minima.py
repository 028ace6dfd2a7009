"""The batched min-hash against an oracle that hashes every element for every feature."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf import seeds
from daskrf.engine import TILE, Hashes, Rows, engine
from daskrf.engine.cpu import hashes, minima, signs, tiles
from tests.jit import jit_disabled
from tests.naive import minhash as naive

ROWS = st.lists(
    st.dictionaries(
        st.one_of(st.integers(0, 5), st.sampled_from([2**31, 2**32 - 1, 2**40, 2**62])),
        st.integers(1, 4),
        max_size=4,
    ),
    max_size=6,
)


def minhash_words(
    indptr: np.ndarray,
    indices: np.ndarray,
    counts: np.ndarray,
    element_key: int,
    empty: np.ndarray,
    feature_keys: np.ndarray,
) -> np.ndarray:
    """Return the packed bits of min-wise hashing, as the feature map puts its parts together."""
    low, high = feature_keys.astype(np.uint32), (feature_keys >> np.uint64(32)).astype(np.uint32)

    keys = Hashes(False, np.uint64(element_key), low, high, empty)
    return engine().hash_bits(Rows(indptr, indices, counts), keys)


def to_csr(rows: list[dict[int, int]], index_dtype: type = np.int64) -> sp.csr_matrix:
    indptr = np.cumsum([0] + [len(row) for row in rows])
    indices = np.array([column for row in rows for column in sorted(row)], index_dtype)
    counts = np.array([row[column] for row in rows for column in sorted(row)], np.uint16)
    return indptr, indices, counts


def keys(n_components: int) -> tuple[int, np.ndarray, np.ndarray]:
    empty = seeds.words(1, "test/empty", n_components).astype(np.uint32)
    return seeds.key(1, "test/elements"), empty, seeds.words(1, "test/features", n_components)


def unpacked(words: np.ndarray) -> np.ndarray:
    return np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, bitorder="little")


@given(ROWS)
@settings(derandomize=True, deadline=None, max_examples=5 if jit_disabled() else 40)
def test_bits_agree_with_the_oracle(rows: list[dict[int, int]]) -> None:
    element_key, empty, feature_keys = keys(64 if jit_disabled() else 128)
    words = minhash_words(*to_csr(rows), element_key, empty, feature_keys)
    assert (unpacked(words) == naive.minhash_bits(rows, element_key, empty, feature_keys)).all()


def test_the_index_dtype_does_not_matter() -> None:
    rows = [{3: 2, 7: 1}, {3: 1}]
    wide = minhash_words(*to_csr(rows), *keys(64))
    narrow = minhash_words(*to_csr(rows, np.int32), *keys(64))
    assert (wide == narrow).all()


@pytest.mark.skipif(jit_disabled(), reason="65,535 levels: too slow without the JIT")
def test_the_largest_count() -> None:
    rows = [{9: 65_535}, {9: 65_535, 10: 1}, {9: 65_534}]
    words = minhash_words(*to_csr(rows), *keys(64))
    element_key, _, feature_keys = keys(64)
    level = np.arange(1, 65_536)
    bits = unpacked(words)
    for m in range(3):
        hashes = [naive.element_hash(9, int(i), element_key, int(feature_keys[m])) for i in level]
        assert bits[0, m] == min(hashes) & 1
        assert bits[2, m] == min(hashes[:-1]) & 1


def test_batches_do_not_show_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.poisson(0.3, (30, 40)).astype(np.uint16) * (np.arange(30) % 4 > 0)[:, None])
    whole = minhash_words(X.indptr, X.indices, X.data, *keys(64))
    for entries in (1, 5, 30):
        monkeypatch.setattr(tiles, "BATCH_ENTRIES", entries)
        assert (minhash_words(X.indptr, X.indices, X.data, *keys(64)) == whole).all()


def test_a_table_of_many_pairs_is_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{10 * i + j: 1 + j for j in range(5)} for i in range(9)]
    whole = minhash_words(*to_csr(rows), *keys(64))
    sizes = []
    batches = tiles._batches

    def noted(rows: Rows) -> Iterator[tuple]:
        for batch in batches(rows):
            sizes.append(batch[2].slot.size)
            yield batch

    monkeypatch.setattr(tiles, "_batches", noted)
    monkeypatch.setattr(tiles, "BATCH_BYTES", 12 * TILE * 4)
    assert (minhash_words(*to_csr(rows), *keys(64)) == whole).all()
    assert max(sizes) <= 12
    assert len(sizes) < 9
    # A row of more pairs than that is done all the same.
    one = to_csr([dict.fromkeys(range(40), 1)])
    assert minhash_words(*one, *keys(64)).shape == (1, 1)


@pytest.mark.parametrize("n_values", [3, 1 << 12, 1 << 32])
@pytest.mark.parametrize(("base", "shift"), [(0, 0), (0, 9), (0, 17), (1 << 31, 0), (1 << 31, 11)])
def test_words_do_not_depend_on_the_narrow_table(n_values: int, base: int, shift: int) -> None:
    """Few values make ties that differ in the lowest bit alone, small shifts numbers that do not fit."""
    rng = np.random.default_rng(shift)
    n_rows = 40 if jit_disabled() else 400
    table = (base + rng.integers(0, n_values, (50, TILE)) % ((1 << 32) - base)).astype(np.uint32)
    lengths = rng.integers(0, 12, n_rows) * (rng.random(n_rows) < 0.9)
    indptr, slots = np.concatenate([[0], np.cumsum(lengths)]), rng.integers(0, 49, lengths.sum())
    narrowed = np.empty(table.shape, np.uint16)
    minima.narrow(table, np.uint32(base), np.uint32(shift), narrowed)
    order = np.argsort(table[:, 0], kind="stable")
    assert (np.diff(narrowed[order, 0].astype(int) >> 1) >= 0).all()
    words = np.empty(n_rows, np.uint64)
    minima.row_words(indptr, slots.astype(np.int32), table, narrowed, words)
    for row, word in enumerate(words):
        entries = slots[indptr[row] : indptr[row + 1]]
        lowest = (table[entries] if entries.size else table[-1:]).min(axis=0) & 1
        assert (unpacked(word[None, None])[0] == lowest).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_few_words_need_the_wide_table(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of words of 64 features, 15 bits should leave few undetermined, else the narrow table costs time."""
    rng = np.random.default_rng(0)
    X = sp.random(300, 5_000, 0.02, format="csr", rng=rng)
    values = X.data + 0.5 if weighted else np.ones(X.nnz, np.uint16)
    element_key, empty, feature_keys = keys(64)
    low, high = feature_keys.astype(np.uint32), (feature_keys >> np.uint64(32)).astype(np.uint32)
    hashed = Hashes(weighted, np.uint64(element_key), low, high, empty)
    rows = Rows(X.indptr.astype(np.int64), X.indices, values)
    tables = []
    monkeypatch.setattr(tiles, "narrow", lambda *given: tables.append(given[-1]) or minima.narrow(*given))
    engine().hash_bits(rows, hashed)
    [(_, pointer, pairs)] = tiles._batches(tiles._hashed(rows, hashed))
    undetermined = [
        minima._narrow_minimum_bits_python(tables[0], pairs.slot_of, start, stop)[1] != 0
        for start, stop in pairwise(pointer)
    ]
    assert np.mean(undetermined) < 0.05


def test_the_rows_of_a_table_are_whole_cache_lines() -> None:
    for n in (0, 1, 70, 5000):
        slot = np.zeros(n, np.int32)
        table = tiles._table(tiles.Pairs(slot, slot, slot, slot))
        assert table.shape == (n + 1, TILE)
        assert table.dtype == np.uint32
        assert table.ctypes.data % 64 == 0
        assert table.flags.c_contiguous


def test_a_slice_of_rows_reads_its_own_entries() -> None:
    """The first pointer of a sliced matrix need not be zero."""
    rows = [{1: 1}, {2: 2, 5: 1}, {}, {4: 1}]
    indptr, indices, counts = to_csr(rows)
    whole = minhash_words(indptr, indices, counts, *keys(64))
    some = minhash_words(indptr[1:4], indices, counts, *keys(64))
    assert (some == whole[1:3]).all()


def test_a_pointer_near_the_end_of_32_bits_does_not_cut_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{1: 1}, {2: 2}, {3: 1}]
    indptr, indices, counts = to_csr(rows)
    batches = []
    dictionary = tiles._dictionary
    monkeypatch.setattr(
        tiles, "_dictionary", lambda *arguments: batches.append(arguments) or dictionary(*arguments)
    )
    monkeypatch.setattr(tiles, "BATCH_ENTRIES", 2**31 - 1)
    words = minhash_words(indptr[1:].astype(np.int32), indices, counts, *keys(64))
    assert len(batches) == 1
    assert (words == minhash_words(indptr, indices, counts, *keys(64))[1:]).all()


@given(st.integers(0, 2**64 - 1))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_the_mixing_functions_are_the_same_everywhere(x: int) -> None:
    expected = int(seeds.splitmix64(np.array([x], np.uint64))[0])
    for module in (hashes, signs):
        with np.errstate(over="ignore"):
            mixed = module._mix64(np.uint64(x))
        assert int(mixed) == expected == naive.mix64(x)


def test_parities_of_runs_of_bits() -> None:
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2, (4, 192), np.uint8)
    starts = np.sort(rng.integers(0, 193, 71))
    starts[[0, 3, 20, -1]] = 0, starts[4], starts[21], 192
    words = rng.integers(0, 2**63, (4, 2), np.uint64)
    expected = unpacked(words)
    for m in range(70):
        expected[:, m] ^= bits[:, starts[m] : starts[m + 1]].sum(axis=1, dtype=np.uint8) & 1
    engine().add_parities(np.packbits(bits, axis=1, bitorder="little").view("<u8"), np.sort(starts), words)
    assert (unpacked(words) == expected).all()
