"""Does a power series of the Tanimoto kernel predict better than the kernel itself, at equal features?

One-bit features of T, of T^n, exp(gamma (T - 1)), T / (2 - T) and mixtures, on real docking scores
(Enamine50k: 40,000 molecules to fit, 9,706 to test), Morgan radius 1 counts. Each fit takes its mean,
signal variance and noise variance by the evidence on all rows. Powers below 1 have no series with
coefficients of at least 0 (their derivative at 0 is infinite), and so no such features.

    python benchmarks/compositional.py [--components 4096] [--seeds 0 1] [--exact 2000] [--full]

With --exact N, exact GPs on N random training rows show what the kernels themselves are worth, without the
error of random features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Stopwatch, enamine50k, merit, parser, print_header, table, write_results

from daskrf.features import CompositionFeatures
from daskrf.gp import ExactGP, RandomFeatureGP, SufficientStatistics, choose_exponent
from daskrf.kernels import Composition, DotProduct, Exponential, Polynomial, Ratio

SERIES = {
    "T": Polynomial(1, c=0.0),
    "1/4 + 3/4 T": DotProduct((1, 3)),
    "3/4 T + 1/4 T^2": DotProduct((0, 3, 1)),
    "1/2 T + 1/2 T^2": DotProduct((0, 1, 1)),
    "1/2 T + 1/2 T^4": DotProduct((0, 1, 0, 0, 1)),
    "T^2": Polynomial(2, c=0.0),
    "T^3": Polynomial(3, c=0.0),
    "T / (2 - T)": Ratio(),
    "exp(T - 1)": Exponential(1.0),
    "exp(2 (T - 1))": Exponential(2.0),
    "exp(4 (T - 1))": Exponential(4.0),
}
FORMATS = {
    "kernel": "",
    "features": ",",
    "seed": "",
    "r2": ".4f",
    "mean_log_probability": ".4f",
    "coverage_95": ".3f",
    "log_evidence": ",.0f",
    "signal_variance": ".4f",
    "noise_variance": ".4f",
    "features_cpu_s": ".1f",
    "fit_cpu_s": ".1f",
}


def run(data: Any, name: str, n_components: int, seed: int) -> dict[str, Any]:
    """Fit one kernel and return its figures on the test rows."""
    watch = Stopwatch()
    feature_map = CompositionFeatures(SERIES[name], None, n_components, random_state=seed)
    bits = feature_map.transform_bits(data.X)
    features = watch.lap()
    y = data.y[data.train]
    statistics = SufficientStatistics.from_chunk(
        bits[data.train], y, n_components=n_components, y_exponents=choose_exponent(y)
    )
    gp = RandomFeatureGP().fit_statistics(statistics)
    fit = watch.lap()
    mean, std = gp.predict(bits[data.test], return_std=True)
    return {
        "kernel": name,
        "features": n_components,
        "seed": seed,
        **merit(data.y[data.test], mean, std),
        "log_evidence": float(gp.log_marginal_likelihood_value_),
        "signal_variance": float(gp.signal_variance_[0]),
        "noise_variance": float(gp.noise_variance_[0]),
        "features_cpu_s": features["cpu_s"],
        "fit_cpu_s": fit["cpu_s"],
    }


def run_exact(data: Any, name: str, n_rows: int, seed: int) -> dict[str, Any]:
    """Fit an exact GP to random training rows and return its figures on the test rows."""
    gp = ExactGP(Composition(SERIES[name]), n_subset=n_rows, random_state=seed).fit(
        data.X[data.train], data.y[data.train]
    )
    mean, std = gp.predict(data.X[data.test], return_std=True)
    return {"kernel": name, "seed": seed, **merit(data.y[data.test], mean, std)}


def main() -> None:
    """Parse the arguments, run all kernels and print the table and the differences from T."""
    options = parser(__doc__, full="M = 2048, 4096 and 8192, seeds 0 to 2")
    options.add_argument("--components", type=int, nargs="+", default=[4096])
    options.add_argument("--exact", type=int, default=0, metavar="N", help="also exact GPs on N rows")
    options.add_argument("--seeds", type=int, nargs="+", default=[0], help="in place of --seed")
    given = options.parse_args()
    components = [2048, 4096, 8192] if given.full else given.components
    seeds = [0, 1, 2] if given.full else given.seeds
    print_header(seeds)
    data = enamine50k()
    print(data.describe())
    rows = []
    for n_components in components:
        for name in SERIES:
            for seed in seeds:
                rows.append(run(data, name, n_components, seed))
                r2, probability = rows[-1]["r2"], rows[-1]["mean_log_probability"]
                start = f"  {name:16s} M = {n_components}  seed {seed}"
                print(f"{start}  R2 {r2:.4f}  mean log probability {probability:.4f}", flush=True)
    print("\n" + table(rows, FORMATS))
    summary = []
    for n_components in components:
        plain = [row for row in rows if row["kernel"] == "T" and row["features"] == n_components]
        for name in SERIES:
            own = [row for row in rows if row["kernel"] == name and row["features"] == n_components]
            gain = {
                key: float(np.mean([row[key] for row in own]) - np.mean([row[key] for row in plain]))
                for key in ("r2", "mean_log_probability")
            }
            summary.append({"kernel": name, "features": n_components, **gain})
    print(f"\nDifference from T, mean of {len(seeds)} seeds:\n")
    print(table(summary, {"kernel": "", "features": ",", "r2": "+.4f", "mean_log_probability": "+.4f"}))
    exact = [run_exact(data, name, given.exact, seeds[0]) for name in SERIES] if given.exact else []
    if exact:
        print(f"\nExact GPs on {given.exact:,} random training rows:\n")
        print(table(exact, {"kernel": "", "r2": ".4f", "mean_log_probability": ".4f", "coverage_95": ".3f"}))
    settings = {"components": components, "seeds": seeds, "exact": given.exact}
    results = {"features": rows, "exact": exact}
    write_results(given.output, "compositional", seed=seeds, settings=settings, results=results)


if __name__ == "__main__":
    main()
