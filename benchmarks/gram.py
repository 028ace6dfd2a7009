"""Phi^T Phi of one-bit features: XOR-popcount against BLAS on the same matrix, on one thread.

    python benchmarks/gram.py [--rows 65536] [--components 4096] [--repeats 3] [--quick]

Multiply-adds are those of the upper triangle, n M (M + 1) / 2, for every program; ssyrk too computes that
triangle only. BLAS gets its float32 matrix ready made; unpacking is not timed.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
from scipy.linalg.blas import sgemm, ssyrk
from threadpoolctl import threadpool_limits

from daskrf import seeds
from daskrf.arrays import unpack_bits
from daskrf.engine import engine


def random_bits(n_rows: int, n_components: int) -> np.ndarray:
    """Return uniform packed bits; n_components a multiple of 8."""
    return seeds.generator(0, "benchmark/gram").integers(0, 256, (n_rows, n_components // 8), dtype=np.uint8)


def seconds(run: Callable[[], object]) -> float:
    """Return the CPU seconds of one call."""
    start = time.process_time()
    run()
    return time.process_time() - start


def measure(bits: np.ndarray, n_components: int, repeats: int, integers: int) -> dict[str, float]:
    """Return the median seconds of each program; they take turns, so that load hits all of them."""
    signs = unpack_bits(bits, n_components)
    out = np.zeros((n_components, n_components), np.int64)
    # NumPy has no fast integer product: a few rows stand for all.
    few = signs[:integers].astype(np.int32)
    programs: dict[str, Callable[[], object]] = {
        "XOR-popcount": lambda: engine().bit_gram(bits, n_components, out),
        "ssyrk": lambda: ssyrk(1.0, signs.T),
        "sgemm": lambda: sgemm(1.0, signs.T, signs.T, trans_b=True),
        "int32 product": lambda: few.T @ few,
    }
    engine().bit_gram(bits[:64], n_components, out)
    times: dict[str, list[float]] = {name: [] for name in programs}
    for repeat in range(repeats):
        for name, run in programs.items():
            if name == "int32 product" and repeat:
                continue
            times[name].append(seconds(run))
    result = {name: statistics.median(values) for name, values in times.items()}
    result["int32 product"] *= len(signs) / integers
    check(bits, signs, n_components)
    return result


def check(bits: np.ndarray, signs: np.ndarray, n_components: int) -> None:
    """Stop where the two disagree on up to 4,096 rows; float32 is exact there."""
    out = np.zeros((n_components, n_components), np.int64)
    engine().bit_gram(bits[:4096], n_components, out)
    if not (out == np.triu(signs[:4096].T @ signs[:4096])).all():
        raise SystemExit("The popcount Gram matrix differs from the float product: please report this.")


def main() -> None:
    """Parse the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=65_536)
    parser.add_argument("--components", type=int, default=4096, help="a multiple of 8")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="without BLAS; prints the peak memory")
    parser.add_argument("--quick", action="store_true", help="8,192 rows, 1,024 components")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.components = 8192, 1024
    n_rows, n_components = options.rows, options.components
    print(f"n = {n_rows:,}, M = {n_components:,}; one thread; median of {options.repeats}")
    bits = random_bits(n_rows, n_components)
    if options.alone:
        start = time.perf_counter()
        engine().bit_gram(bits, n_components, np.zeros((n_components, n_components), np.int64))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"XOR-popcount {time.perf_counter() - start:.1f} s, peak memory {peak:.1f} GiB")
        return
    with threadpool_limits(1):
        times = measure(bits, n_components, options.repeats, integers=min(32, n_rows))
    work = n_rows * n_components * (n_components + 1) / 2
    for name, value in times.items():
        ratio = value / times["XOR-popcount"]
        print(
            f"{name:14s} {value:9.3f} s  {work / value / 1e9:8.1f} G multiply-adds/s  {ratio:8.1f} x the time"
        )


if __name__ == "__main__":
    main()
