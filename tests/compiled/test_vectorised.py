"""The inner loops are vector code on a CPU with AVX2."""

from __future__ import annotations

import re
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite import binding

from daskrf.compiled import bits, minhash
from daskrf.compiled.jit import jit_disabled

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
    pointer, column, counts = np.array([0, 1]), np.array([3]), np.array([1], np.uint16)
    minhash.minhash_words(pointer, column, counts, 1, np.zeros(64, np.uint32), np.zeros(64, np.uint64))


def test_the_gram_tile_counts_bits_in_vectors() -> None:
    text = assembly(bits._count_tile)
    if binding.get_host_cpu_features().get("avx512vpopcntdq"):
        assert count("vpopcntq", text) >= bits.TILE**2
    else:
        # Without a vector popcount LLVM looks nibbles up in a register.
        assert count("vpshufb", text) >= bits.TILE**2


def test_the_hashes_are_multiplied_in_vectors() -> None:
    assert count("vpmulld", assembly(minhash._fill_table)) >= 6


def test_the_minima_are_vectors_in_registers() -> None:
    assert count("vpminud", assembly(minhash._row_words)) >= minhash.TILE // 16
