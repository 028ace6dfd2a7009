"""The inner loops are vector code on a CPU with AVX2."""

from __future__ import annotations

import re
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite import binding

from daskrf.compiled import bits, minhash, projections, tiles
from daskrf.compiled.jit import jit_disabled
from daskrf.features import PolynomialSketch
from daskrf.features.hashing import TanimotoHash

pytestmark = [
    pytest.mark.skipif(bool(numba.config.CPU_NAME), reason="NUMBA_CPU_NAME names another CPU than this one"),
    pytest.mark.skipif(jit_disabled(), reason="nothing is compiled without the JIT"),
    pytest.mark.skipif(not binding.get_host_cpu_features().get("avx2"), reason="this CPU has no AVX2"),
]


def assembly(function: Any) -> str:
    """Compile a function anew for the types that it was called with: cached code shows no assembly."""
    fresh = numba.njit(function.py_func, nogil=True, error_model="numpy")
    fresh.compile(function.signatures[0])
    return next(iter(fresh.inspect_asm().values()))


def count(pattern: str, text: str) -> int:
    return len(re.findall(rf"^\s*{pattern}\b.*%[yz]mm", text, re.MULTILINE))


@pytest.fixture(autouse=True)
def compiled() -> None:
    bits._count_tile(np.zeros((4, 8), np.uint64), 0, 0, np.zeros((4, 4), np.int64))
    for hashing in ("minwise", "cws"):
        hashes = TanimotoHash(hashing, 64, 0)
        hashes.words(hashes.check([[1, 2]]))
        hashes.normals(hashes.check([[1, 2]]), 1.0)
    for method in ("rademacher", "gaussian"):
        PolynomialSketch(2, 64, method=method).transform([[1.0, 2.5]])
    # A caller from the cache on disk compiles nothing of what it calls.
    low, words, numbers = np.zeros(64, np.uint32), np.zeros((5, 64), np.uint32), np.ones((4, 64))
    minhash._column_words(np.uint64(1), np.uint64(2), low, low, words)
    minhash._column_numbers(words, numbers)
    minhash._pair_ranks(0.5, numbers, low)


def test_the_gram_tile_counts_bits_in_vectors() -> None:
    text = assembly(bits._count_tile)
    if binding.get_host_cpu_features().get("avx512vpopcntdq"):
        assert count("vpopcntq", text) >= bits.TILE**2
    else:
        # Without a vector popcount LLVM looks nibbles up in a register.
        assert count("vpshufb", text) >= bits.TILE**2


def test_the_hashes_are_multiplied_in_vectors() -> None:
    assert count("vpmulld", assembly(minhash.fill_minwise)) >= 6


def test_the_minima_are_vectors_in_registers() -> None:
    for function in (tiles._row_words, tiles._row_minima):
        assert count("vpminud", assembly(function)) >= tiles.TILE // 16


def test_the_numbers_of_weighted_sampling_are_made_in_vectors() -> None:
    assert count("vpmulld", assembly(minhash._column_words)) >= 6
    assert count("vdivpd", assembly(minhash._column_numbers)) >= 4
    assert count("vmulpd", assembly(minhash._pair_ranks)) >= 2
    assert count("vpmulld", assembly(minhash.draw_levels)) >= 4


def test_signs_meet_floats_in_registers() -> None:
    """Eight vectors an entry: a shift brings the sign's bit to where a float has its own."""
    text = assembly(projections.multiply_signs)
    assert count("vpsllvd", text) >= 8
    assert count("v(p?xord?|xorps|pternlogd)", text) >= 8
    assert count("vaddps", text) >= 8
    # Counts are added up as bytes, 32 to a register.
    assert count("vpaddb", text) >= 2
    assert not re.search(r"vfn?m(add|sub)", text)


def test_normal_numbers_are_added_in_vectors() -> None:
    text = assembly(projections.multiply_normals)
    assert count("vmulps", text) >= 1
    assert not re.search(r"vfn?m(add|sub)", text)


@pytest.mark.parametrize("name", ["_column_numbers", "_pair_ranks", "logarithms", "fill_weighted"])
def test_no_product_is_fused_with_a_sum(name: str) -> None:
    """A fused multiply-add rounds once where others round twice: a machine without it gives other bits."""
    text = assembly(getattr(minhash, name))
    assert re.search(r"vmul[sp]d", text)
    assert not re.search(r"vfn?m(add|sub)", text)
