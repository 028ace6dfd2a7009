"""Which map to choose: R2 on real docking scores against CPU seconds and bytes a molecule, map by map.

Enamine50k: 40,000 molecules to fit, 9,706 to test, Morgan radius 1 counts, unfolded or, for the maps that
need it, folded to 1,024 columns. Mean, signal variance and noise variance by the evidence of all training
rows; the length scales are those that the evidence has found in fourier.py and maclaurin.py, whose search is
not in the times. CPU seconds of one thread for features, sums, evidence, and the predictions (mean and
deviation) of the test molecules.

    python benchmarks/maps_enamine.py [--components 512 1024 2048 4096] [--maps minmax landmarks ...]
    python benchmarks/maps_enamine.py --draw     # the picture of the figures that are there, and no more

One thread for linear algebra: OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from functools import partial
from typing import Any

from common import Stopwatch, enamine50k, merit, parser, print_header, table, write_results
from figures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, label_axes, new_figure, save
from matplotlib.ticker import NullFormatter
from threadpoolctl import threadpool_limits

from daskrf.features import (
    FastfoodFeatures,
    FeatureMap,
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    NystromFeatures,
    PolynomialSketch,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
    known_maps,
)
from daskrf.gp import choose_exponent, gp_for
from daskrf.gp.sums.chunks import sum_rows
from daskrf.kernels import Exponential, Gaussian

LEFT_OUT = {
    "composition": "power series of T were compared in compositional.py, and none beat its peers",
    "fastfood-dot-product": "those of the cosine were compared in maclaurin.py, and none beat its peers",
    "mean": "is of several fingerprints",
    "local-gaussian": "is for functions of few columns: local.py",
}
"""Maps that are not measured here, and why."""

# Name on the command line, then: columns of the fingerprints (0: unfolded), the map, and its words.
MAPS: dict[str, tuple[int, Any, str]] = {
    "minmax": (0, TanimotoMinMaxFeatures, "T, one bit"),
    "dot-product": (0, TanimotoDotProductFeatures, "T of dot products"),
    "landmarks": (0, LandmarkFeatures, "T, sparse GP"),
    "nystrom": (0, lambda M, **seed: NystromFeatures(M, kernel=Gaussian(16.0), **seed), "Gaussian, L = 16"),
    "fourier": (1024, lambda M, **seed: RandomFourierFeatures(Gaussian(25.0), M, **seed), "Gaussian, L = 25"),
    "fastfood": (1024, lambda M, **seed: FastfoodFeatures(Gaussian(25.0), M, **seed), "Gaussian, L = 25"),
    "gaussian-maclaurin": (
        0,
        lambda M, **seed: GaussianMaclaurinFeatures(M, length_scale=16.0, **seed),
        "Gaussian, L = 16",
    ),
    "polynomial": (
        0,
        lambda M, **seed: PolynomialSketch(2, M, method="tensorsketch", **seed),
        "(x.y)^2, TensorSketch",
    ),
    "maclaurin": (
        0,
        lambda M, **seed: RandomMaclaurinFeatures(Exponential(4.0, normalize=True), M, **seed),
        "exp(4 cos)",
    ),
}


def others(maps: Iterable[Any]) -> dict[str, tuple[int, Any, str]]:
    """Return lines of the maps that have none: with their defaults, on unfolded fingerprints."""
    new = (cls for cls in maps if cls.facts.name not in {*MAPS, *LEFT_OUT})
    return {cls.facts.name: (0, partial(_sized, cls), cls.facts.kernel) for cls in new}


def _sized(cls: Any, n_components: int, **seed: int) -> Any:
    return cls(n_components=n_components, **seed)


MAPS |= others(cls for cls in known_maps() if cls.__module__.startswith("daskrf."))
LOOKS = dict(
    zip(
        MAPS,
        itertools.cycle(
            (
                (BLUE, "o-"),
                (GREEN, "s-"),
                (RED, "^-"),
                (RED, "h--"),
                (ORANGE, "v-"),
                (PURPLE, "D--"),
                (SKY, "P-"),
                (GREY, "X-"),
                ("black", "*-"),
            )
        ),
        strict=False,
    )
)
FORMATS = {
    "map": "",
    "M": ",",
    "r2": ".4f",
    "mean_log_probability": ".4f",
    "coverage_95": ".3f",
    "features_and_sums_cpu_s": ".1f",
    "fit_cpu_s": ".1f",
    "predict_cpu_s": ".1f",
    "cpu_s": ".1f",
    "bytes_a_row": ",",
}


def run(data: Any, name: str, n_components: int, seed: int) -> dict[str, Any]:
    """Fit to all training rows and return the figures on the test rows, and what they cost."""
    make = MAPS[name][1]
    x, y = data.X[data.train], data.y[data.train, None]
    _fit(
        make(64, random_state=seed), x[:300], y[:300], mean=0.0, signal_variance=1.0, noise_variance=1.0
    )  # compiles
    feature_map, gp, parts = _fit(make(n_components, random_state=seed), x, y)
    watch = Stopwatch()
    mean, std = gp.predict(data.X[data.test], return_std=True)
    parts["predict_cpu_s"] = watch.lap()["cpu_s"]
    return {
        "map": name,
        "columns": MAPS[name][0],
        "M": n_components,
        **merit(data.y[data.test], mean, std),
        **parts,
        "cpu_s": sum(parts.values()),
        "bytes_a_row": -(-n_components // 8) if feature_map.one_bit else 4 * n_components,
    }


def _fit(feature_map: FeatureMap, x: Any, y: Any, **given: float) -> tuple[FeatureMap, Any, dict[str, float]]:
    """Return the fitted map, the model, and the CPU seconds of both; x has a few rows to predict, too."""
    watch = Stopwatch()
    sums = sum_rows(
        x, y, feature_map.fit(x), n_components=feature_map.n_components, exponents=choose_exponent(y)
    )
    parts = {"features_and_sums_cpu_s": watch.lap()["cpu_s"]}
    gp = gp_for(feature_map, **given).fit_statistics(sums, feature_map)
    gp.predict(x[:20], return_std=True)
    return feature_map, gp, {**parts, "fit_cpu_s": watch.lap()["cpu_s"]}


def draw(rows: list[dict[str, Any]], folder: Any) -> None:
    """Draw R2 and log probability against CPU seconds, and R2 against bytes a molecule."""
    figure, axes = new_figure(1, 3, width=15.0, height=4.8)
    for ax, x, y in (
        (axes[0], "cpu_s", "r2"),
        (axes[1], "cpu_s", "mean_log_probability"),
        (axes[2], "bytes_a_row", "r2"),
    ):
        for name, (color, line) in LOOKS.items():
            own = sorted((row for row in rows if row["map"] == name), key=lambda row: row["M"])
            if not own:
                continue
            label = f"{name}: {MAPS[name][2]}"
            ax.plot(
                [row[x] for row in own],
                [row[y] for row in own],
                line,
                color=color,
                markersize=5,
                linewidth=1.3,
                label=label,
            )
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        words = {
            "cpu_s": "CPU seconds: features, fit and test predictions",
            "bytes_a_row": "bytes a molecule, stored",
            "r2": "R² on the test molecules",
            "mean_log_probability": "mean log probability",
        }
        label_axes(ax, "", words[x], words[y])
    sizes = ", ".join(f"{size:,}" for size in sorted({row["M"] for row in rows}))
    figure.suptitle(f"Enamine50k, 40,000 molecules to fit; points of a line: M = {sizes}", fontsize=11)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncol=4, fontsize=9, frameon=False)
    save(figure, folder, "maps_enamine")


def main() -> None:
    """Run the maps asked for, print the table, and write the figures and the picture."""
    options = parser(__doc__)
    options.add_argument("--components", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    options.add_argument(
        "--maps",
        nargs="+",
        choices=list(MAPS),
        default=list(MAPS),
        help="measure only these, the others are as they were",
    )
    options.add_argument("--draw", action="store_true", help="draw what was measured before")
    given = options.parse_args()
    before = given.output / "maps_enamine.json"
    known = json.loads(before.read_text())["results"] if before.exists() else []
    if given.draw:
        draw(known, given.output)
        return
    print_header(given.seed)
    rows = [row for row in known if row["map"] not in given.maps]
    with threadpool_limits(1):
        for columns in sorted({MAPS[name][0] for name in given.maps}):
            data = enamine50k(size=columns)
            print(data.describe())
            for name in (name for name in given.maps if MAPS[name][0] == columns):
                for n_components in given.components:
                    rows.append(run(data, name, n_components, given.seed))
                    print(table(rows[-1:], FORMATS).splitlines()[-1], flush=True)
    print("\n" + table(rows, FORMATS))
    settings = {"components": given.components}
    write_results(given.output, "maps_enamine", seed=given.seed, settings=settings, results=rows)
    draw(rows, given.output)


if __name__ == "__main__":
    main()
