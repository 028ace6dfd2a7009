"""Cost of the Gaussian process by number of features: the two evidence routes, the factor, predictions.

One-bit features of random sets. "eigh" is the one eigendecomposition of that route, "cholesky" one evaluation
of the other route, which needs as many as are shown under "calls"; method="auto" changes over as they cross.
Standard deviations are in rows a second; the error is that of float32 against float64.

    OMP_NUM_THREADS=1 python benchmarks/evidence.py [--components 512 1024 2048 4096] [--no-eigh-above 4096]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from threadpoolctl import threadpool_info

from daskrf import seeds
from daskrf.features import TanimotoMinMaxFeatures
from daskrf.gp import RandomFeatureGP, SufficientStatistics
from daskrf.gp.processes.posterior import PosteriorFactor, as_features
from daskrf.gp.solve.solvers import CholeskySolver, EigenSolver, ShiftedCholesky

N_ROWS = 20_000


def seconds(function: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def problem(n_components: int) -> tuple[np.ndarray, np.ndarray]:
    """Return packed features of random sets of 40 out of 400 elements, and a noisy function of them."""
    rng = seeds.generator(0, "benchmarks/evidence")
    weights = rng.standard_normal(400) * np.exp(-np.arange(400) / 80)
    popular = 0.1 + np.exp(-np.arange(400) / 60)
    counts = (rng.random((N_ROWS, 400)) < 0.5 * popular).astype(np.uint16)
    y = counts @ weights + rng.standard_normal(N_ROWS)
    return TanimotoMinMaxFeatures(n_components).fit(counts).transform_bits(counts), y


def count_calls(statistics: SufficientStatistics) -> tuple[int, float]:
    """Return the Cholesky evaluations of a whole fit, and its seconds."""
    calls = 0
    plain = ShiftedCholesky.factorize

    def counted(self: ShiftedCholesky, shift: float) -> ShiftedCholesky:
        nonlocal calls
        calls += shift != self.shift
        return plain(self, shift)

    ShiftedCholesky.factorize = counted  # type: ignore[method-assign]
    try:
        took = seconds(lambda: RandomFeatureGP(method="cholesky").fit_statistics(statistics))
    finally:
        ShiftedCholesky.factorize = plain  # type: ignore[method-assign]
    return calls, took


def deviations(statistics: SufficientStatistics, bits: np.ndarray) -> tuple[float, float, float, str]:
    """Return seconds of the factor, rows a second, error of float32, and the type of the factor."""
    took = seconds(lambda: PosteriorFactor(statistics, 1.0))
    factor = PosteriorFactor(statistics, 1.0)
    block = bits[:2048]
    rate = len(block) / min(seconds(lambda: factor.whiten(block, statistics.n_components)) for _ in range(3))
    exact = np.triu(ShiftedCholesky(statistics.moments().gram).factorize(1.0).inverse_factor())
    variances = [
        np.square((as_features(bits[:200], len(exact), dtype) @ exact.astype(dtype)).astype(float)).sum(
            axis=1
        )
        for dtype in (np.float32, np.float64)
    ]
    return took, rate, float(np.abs(variances[0] / variances[1] - 1).max()), str(factor.root.dtype)


def main() -> None:
    """Print one line for each number of features."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--components", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--no-eigh-above", type=int, default=4096)
    options = parser.parse_args()
    print(
        f"BLAS threads: {[pool['num_threads'] for pool in threadpool_info() if pool['user_api'] == 'blas']}"
    )
    for n_components in options.components:
        bits, y = problem(n_components)
        statistics = SufficientStatistics.from_chunk(bits, y, n_components=n_components)
        cholesky = CholeskySolver(statistics.moments())
        one = min(seconds(partial(cholesky.quadratics, ratio)) for ratio in (1.0, 1.1, 1.2))
        calls, fit = count_calls(statistics)
        eigh = np.nan
        if n_components <= options.no_eigh_above:
            eigh = seconds(partial(EigenSolver, statistics.moments()))
        took, rate, error, dtype = deviations(statistics, bits)
        print(
            f"M = {n_components:5d}: eigh {eigh:7.3f} s; cholesky {one:6.3f} s an evaluation, {calls} calls, "
            f"whole fit {fit:6.2f} s; eigh / whole fit {eigh / fit:5.2f}; factor {took:6.2f} s ({dtype}); "
            f"deviations {rate:8.0f} rows/s; float32 error {error:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
