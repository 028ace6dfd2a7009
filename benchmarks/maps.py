"""Every feature map on real molecules: errors of kernel matrices, rows/s and bytes, beside scikit-learn's.

7,000 molecules of guacamol_10k. Tanimoto and dot-product kernels on Morgan counts (radius 2, folded to 1,024
columns), Gaussian and Matern kernels on RDKit's descriptors (those that are finite and not constant,
standardized, clipped at 10 standard deviations), the length scale the median distance, or half of it. What a
map learns, it learns from 5,000 molecules; errors are those of the kernel matrix of the 2,000 others, against
the exact kernel of the panel: relative in the Frobenius norm, and the largest one. Landmarks are compared by
phi^T K_ZZ^-1 phi. Medians over seeds, with the range.

Rows a second by CPU time on one thread, in calls of 2,000 rows, medians of rounds in which the programs take
turns; each program gets the input that it is fastest with at the first M: CSR or dense, single or double
precision. Bits are left packed. Below the table, each map of ours over scikit-learn's of the same kind.

    python benchmarks/maps.py [--components 256 1024 4096] [--seeds 3] [--repeats 5]
"""

from __future__ import annotations

import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import cached_fingerprints, data_folder, parser, print_header, table, write_results
from figures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, new_figure, save
from matplotlib.ticker import LogLocator, NullFormatter
from rdkit import Chem, RDLogger, rdBase
from rdkit.Chem import Descriptors
from scipy.linalg import cholesky, solve_triangular
from sklearn.kernel_approximation import Nystroem, PolynomialCountSketch, RBFSampler
from threadpoolctl import threadpool_limits

from daskrf.features import (
    CompositionFeatures,
    FastfoodDotProductFeatures,
    FastfoodFeatures,
    FeatureMap,
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    MeanFeatures,
    NystromFeatures,
    PolynomialSketch,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
    known_maps,
)
from daskrf.kernels import (
    Composition,
    Exponential,
    Gaussian,
    Kernel,
    Matern,
    Mean,
    Polynomial,
    TanimotoDotProduct,
    TanimotoMinMax,
)
from daskrf.molecules import FingerprintSpec

N, N_FIT = 2000, 5000
FASTER = 3.0
"""At least so many times as fast as scikit-learn a map is to be."""

Make = Callable[..., Any]


@dataclass(frozen=True)
class Panel:
    """A kernel, the maps of it by name, and which of them stands beside which of scikit-learn's.

    Attributes
    ----------
    kernel : Kernel
    inputs : dict
        Rows by the name of their form, for the maps of ours and for scikit-learn's.
    maps, peers : dict
        Functions of (n_components=, random_state=) by name; peers are scikit-learn's.
    pairs : dict
        Name of a map and name of its peer.
    """

    kernel: Kernel
    inputs: dict[str, Any]
    maps: dict[str, Make]
    peers: dict[str, Make] = field(default_factory=dict)
    pairs: dict[str, str] = field(default_factory=dict)


# Data ------------------------------------------------------------------------------------------------------


def fingerprints(smiles: list[str]) -> sp.csr_matrix:
    """Return Morgan counts of radius 2, 1,024 columns."""
    return cached_fingerprints("guacamol", smiles, FingerprintSpec(radius=2, size=1024))[0]


def descriptors(smiles: list[str]) -> np.ndarray:
    """Return RDKit's descriptors, standardized, from a file of the temporary folder if there."""
    digest = hashlib.blake2b("\n".join(smiles).encode(), digest_size=6).hexdigest()
    cache = Path(tempfile.gettempdir()) / f"daskrf-descriptors-{rdBase.rdkitVersion}-{digest}.npy"
    if not cache.exists():
        RDLogger.DisableLog("rdApp.*")
        molecules = (Chem.MolFromSmiles(text) for text in smiles)
        rows = [list(Descriptors.CalcMolDescriptors(m).values()) for m in molecules if m is not None]
        np.save(cache, np.array(rows, dtype=np.float64))
    values = np.load(cache)
    values = values[:, np.isfinite(values).all(axis=0)]
    values = values[:, values.min(axis=0) < values.max(axis=0)]
    return np.clip((values - values.mean(axis=0)) / values.std(axis=0), -10.0, 10.0)


def forms(rows: Any) -> dict[str, Any]:
    """Return rows in every form that a program may be fastest with."""
    if not sp.issparse(rows):
        return {"dense float64": rows, "dense float32": rows.astype(np.float32)}
    dense = forms(np.asarray(rows.todense(), dtype=np.float64))
    return {"CSR float64": rows.astype(np.float64), "CSR float32": rows.astype(np.float32), **dense}


# Maps: a new one has a panel of its own, with its defaults, unless it is a line of another ------------------

LEFT_OUT = {
    "local-gaussian": "its blocks about centroids, of which one serves a row, have no kernel matrix: local.py"
}
"""Maps that cannot be measured here, and why."""


def tanimoto_panels(counts: sp.csr_matrix) -> dict[str, Panel]:
    """Return the panels of the Tanimoto kernels and of their squares."""
    rows, d = {"CSR": counts}, counts.shape[1]
    halves = ((0, d // 2), (d // 2, d))  # of the identifiers, as if they were two kinds
    t_dp = TanimotoDotProduct(transform="sqrt")
    plain = TanimotoDotProductFeatures(bias_correction="normalize")
    return {
        "T (min-max)": Panel(
            TanimotoMinMax(),
            rows,
            {
                "minmax": TanimotoMinMaxFeatures,
                "minmax, Gaussian": partial(TanimotoMinMaxFeatures, distribution="gaussian"),
                "landmarks": LandmarkFeatures,
                "nystrom": NystromFeatures,
            },
        ),
        "T of dot products": Panel(
            t_dp,
            rows,
            {
                "dot-product": TanimotoDotProductFeatures,
                "dot-product, normalized": partial(TanimotoDotProductFeatures, bias_correction="normalize"),
                "landmarks": partial(LandmarkFeatures, kernel=t_dp),
                "nystrom": partial(NystromFeatures, kernel=t_dp),
            },
        ),
        "T^2": Panel(
            Composition(Polynomial(2, c=0.0)),
            rows,
            {"composition": partial(CompositionFeatures, Polynomial(2, c=0.0), None)},
        ),
        "T_dp^2": Panel(
            Composition(Polynomial(2, c=0.0), t_dp),
            rows,
            {"composition": partial(CompositionFeatures, Polynomial(2, c=0.0), plain)},
        ),
        "mean of T": Panel(
            Mean((3, 1), columns=halves), rows, {"mean": partial(MeanFeatures, (3, 1), columns=halves)}
        ),
    }


def product_panels(counts: sp.csr_matrix) -> dict[str, Panel]:
    """Return the panels of the dot-product kernels."""
    rows = {"CSR": counts}
    lengths = np.sqrt(counts.multiply(counts).sum(axis=1)).A1.clip(min=1e-9)
    unit = sp.csr_matrix(sp.diags_array(1.0 / lengths) @ counts.astype(np.float64))
    square, series = Polynomial(2, c=0.0, normalize=True), Exponential(2.0, normalize=True)
    return {
        "cos^2": Panel(
            square,
            {**rows, **forms(unit)},
            {
                **{
                    f"polynomial, {method}": partial(PolynomialSketch, 2, method=method, normalize=True)
                    for method in ("rademacher", "gaussian", "tensorsrht", "tensorsketch")
                },
                "maclaurin": partial(RandomMaclaurinFeatures, square),
                "fastfood-dot-product": partial(FastfoodDotProductFeatures, square),
                "landmarks": partial(LandmarkFeatures, kernel=square),
                "nystrom": partial(NystromFeatures, kernel=square),
            },
            {
                "PolynomialCountSketch": partial(PolynomialCountSketch, degree=2, coef0=0),
                "Nystroem": partial(Nystroem, kernel="poly", degree=2, gamma=1.0, coef0=0.0),
            },
            {"polynomial, tensorsketch": "PolynomialCountSketch", "nystrom": "Nystroem"},
        ),
        "exp(2 cos)": Panel(
            series,
            rows,
            {
                "maclaurin": partial(RandomMaclaurinFeatures, series),
                "maclaurin, geometric": partial(RandomMaclaurinFeatures, series, degree_measure="geometric"),
                "fastfood-dot-product": partial(FastfoodDotProductFeatures, series),
            },
        ),
    }


def radial_maps(kernel: Any) -> dict[str, Make]:
    """Return the maps of a radial kernel."""
    return {
        "fourier": partial(RandomFourierFeatures, kernel),
        "fourier, orthogonal": partial(RandomFourierFeatures, kernel, orthogonal=True),
        "fastfood": partial(FastfoodFeatures, kernel),
        "fastfood, paper's": partial(FastfoodFeatures, kernel, projection="hadamard"),
        "fastfood, FFT": partial(FastfoodFeatures, kernel, projection="fft"),
        "landmarks": partial(LandmarkFeatures, kernel=kernel),
        "nystrom": partial(NystromFeatures, kernel=kernel),
    }


def descriptor_panels(rows: np.ndarray) -> dict[str, Panel]:
    """Return the panels of the Gaussian and Matern kernels."""
    some = rows[:500]
    squares = np.square(some).sum(axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * some @ some.T, 0.0))
    median = float(np.median(distances[np.triu_indices(len(some), 1)]))
    found = {}
    for name, length in (("L = median distance", median), ("L = half of it", median / 2)):
        gamma = 1.0 / (2.0 * length**2)
        found[f"Gaussian, {name}"] = Panel(
            Gaussian(length),
            forms(rows),
            {
                **radial_maps(Gaussian(length)),
                "gaussian-maclaurin": partial(GaussianMaclaurinFeatures, length_scale=length),
                "gaussian-maclaurin, tensorsrht": partial(
                    GaussianMaclaurinFeatures, length_scale=length, method="tensorsrht"
                ),
            },
            {
                "RBFSampler": partial(RBFSampler, gamma=gamma),
                "Nystroem": partial(Nystroem, kernel="rbf", gamma=gamma),
            },
            {
                "fourier": "RBFSampler",
                "fastfood": "RBFSampler",
                "gaussian-maclaurin": "RBFSampler",
                "nystrom": "Nystroem",
            },
        )
    found["Matern 1.5, L = median distance"] = Panel(
        Matern(median, nu=1.5), forms(rows), radial_maps(Matern(median, nu=1.5))
    )
    return found


def other_panels(counts: Any, rows: Any, panels: Iterable[Panel], maps: Iterable[Any]) -> dict[str, Panel]:
    """Return a panel of each map that is in no other one, as its class makes it, beside its own kernel."""
    taken = {type(make(n_components=64)) for panel in panels for make in panel.maps.values()}
    found = {}
    for cls in maps:
        name = cls.facts.name
        if cls not in taken and name not in LEFT_OUT:
            inputs = forms(rows) if cls.facts.rows.startswith("reals") else {"CSR": counts}
            kernel = cls(n_components=64).fit(next(iter(inputs.values()))).kernel_
            found[f"k of {name}"] = Panel(kernel, inputs, {name: cls})
    return found


def all_panels(counts: Any, rows: Any) -> dict[str, Panel]:
    """Return the panels of all maps, for fingerprints and for descriptors of the same molecules."""
    panels = {**tanimoto_panels(counts), **product_panels(counts), **descriptor_panels(rows)}
    ours = (cls for cls in known_maps() if cls.__module__.startswith("daskrf."))
    return {**panels, **other_panels(counts, rows, panels.values(), ours)}


# Measurements ----------------------------------------------------------------------------------------------


def products(feature_map: Any, rows: Any) -> np.ndarray:
    """Return the kernel matrix that the features of some rows stand for."""
    phi = np.asarray(feature_map.transform(rows))
    if isinstance(feature_map, LandmarkFeatures):
        # The factor of K_ZZ needs no more of a ridge than rounding asks for.
        prior = feature_map.prior_precision()
        factor = cholesky(prior + 1e-8 * np.eye(len(prior)), lower=True)
        phi = solve_triangular(factor, phi.T.astype(np.float64), lower=True).T
    return phi @ phi.T


def errors(maps: Iterable[Any], rows: Any, exact: np.ndarray) -> dict[str, Any]:
    """Return relative Frobenius errors of fitted maps, and the median largest error."""
    norm, found = np.linalg.norm(exact), []
    for feature_map in maps:
        difference = products(feature_map, rows) - exact
        found.append((np.linalg.norm(difference) / norm, np.abs(difference).max() / exact.max()))
    values, largest = zip(*found, strict=True)
    return {
        "error": statistics.median(values),
        "least": min(values),
        "most": max(values),
        "seeds": len(values),
        "largest": statistics.median(largest),
    }


def rates(calls: dict[tuple[str, str], Callable[[], Any]], given: Any) -> dict[tuple[str, str], float]:
    """Return rows a second of each call: medians, the programs in turn."""
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
    for _ in range(given.repeats + 1):  # the first round compiles
        for key, call in calls.items():
            start = time.process_time()
            call()
            seconds[key].append(time.process_time() - start)
    return {key: N / statistics.median(own[1:]) for key, own in seconds.items()}


def measure(name: str, panel: Panel, M: int, best: dict[str, str], given: Any) -> list[dict[str, Any]]:
    """Return a line of every map of a panel; `best` holds the forms of input that maps are fastest with."""
    train = {form: rows[N:] for form, rows in panel.inputs.items()}
    rows = {form: rows[:N] for form, rows in panel.inputs.items()}
    exact = panel.kernel(next(iter(rows.values())))
    both = {**panel.maps, **panel.peers}
    fitted: dict[tuple[str, str], Any] = {}
    for label, make in both.items():
        # Counts are for our maps alone, which need no other form of them.
        own = [form for form in rows if "CSR" not in rows or (form == "CSR") == (label in panel.maps)]
        for form in [best[label]] if label in best else own:
            fitted[label, form] = make(n_components=M, random_state=0).fit(train[form])
    speeds = rates({key: partial(transform, found, rows[key[1]]) for key, found in fitted.items()}, given)
    lines = []
    for label, make in both.items():
        rate, form = max((rate, form) for (own, form), rate in speeds.items() if own == label)
        best[label] = form
        n_seeds = 1 if label == "Nystroem" and M > 2048 else given.seeds  # whose SVD takes a minute there
        others = (make(n_components=M, random_state=seed).fit(train[form]) for seed in range(1, n_seeds))
        result = transform(fitted[label, form], rows[form])
        lines.append(
            {
                "kernel": name,
                "map": label if label in panel.maps else f"scikit-learn {label}",
                "M": M,
                **errors(chain([fitted[label, form]], others), rows[form], exact),
                "input": form,
                "rows_s": rate,
                "bytes_a_row": result.nbytes // len(result),
            }
        )
        print(table(lines[-1:], FORMATS).splitlines()[-1], flush=True)
    return lines


def transform(feature_map: Any, rows: Any) -> Any:
    """Return the features of some rows, those of a one-bit map packed."""
    one_bit = isinstance(feature_map, FeatureMap) and feature_map.one_bit
    return feature_map.transform_bits(rows) if one_bit else feature_map.transform(rows)


def compared(lines: list[dict[str, Any]], panels: dict[str, Panel]) -> list[dict[str, Any]]:
    """Return each map of ours over its peer: errors, rates, and whether the thresholds hold."""
    by_key = {(line["kernel"], line["map"], line["M"]): line for line in lines}
    found = []
    for (kernel, label, M), own in by_key.items():
        peer = by_key.get((kernel, f"scikit-learn {panels[kernel].pairs.get(label)}", M))
        if peer is None:
            continue
        error, speed = own["error"] / peer["error"], own["rows_s"] / peer["rows_s"]
        overlap = own["least"] <= peer["most"]
        found.append(
            {
                "kernel": kernel,
                "map": label,
                "peer": peer["map"].removeprefix("scikit-learn "),
                "M": M,
                "error / peer's": error,
                "as accurate": "yes" if error <= 1 else "within seeds" if overlap else "no",
                "rate / peer's": speed,
                f"{FASTER:g} times": "yes" if speed >= FASTER else "no",
            }
        )
    return found


# Output ----------------------------------------------------------------------------------------------------

FORMATS = {
    "kernel": "",
    "map": "",
    "M": ",",
    "error": ".4f",
    "least": ".4f",
    "most": ".4f",
    "seeds": "",
    "largest": ".3f",
    "rows_s": ",.0f",
    "input": "",
    "bytes_a_row": ",",
}
RATIOS = {
    "kernel": "",
    "map": "",
    "peer": "",
    "M": ",",
    "error / peer's": ".2f",
    "as accurate": "",
    "rate / peer's": ".1f",
    f"{FASTER:g} times": "",
}
COLORS = (BLUE, GREEN, RED, ORANGE, PURPLE, SKY, "black", "#8C564B", "#BCBD22")
MARKERS = "os^vDPX*"


def looks(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return how the line of each map is drawn: scikit-learn's grey and broken."""
    names = dict.fromkeys(line["map"] for line in lines)
    ours = [name for name in names if not name.startswith("scikit")]
    peers = [name for name in names if name.startswith("scikit")]
    found = {
        name: {
            "color": COLORS[i % len(COLORS)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": "-" if i < len(COLORS) else "-.",
        }
        for i, name in enumerate(ours)
    }
    return found | {
        name: {"color": GREY, "marker": MARKERS[i], "linestyle": "--"} for i, name in enumerate(peers)
    }


def draw(lines: list[dict[str, Any]], folder: Path) -> None:
    """Draw the error of each map against the CPU time of a million rows, one panel a kernel."""
    kernels = list(dict.fromkeys(line["kernel"] for line in lines))
    columns = -(-len(kernels) // 2)
    figure, axes = new_figure(2, columns, width=3.6 * columns, height=8.6)
    styles, handles = looks(lines), {}
    for ax in axes.flat[len(kernels) :]:
        ax.set_visible(False)
    for ax, kernel in zip(axes.flat, kernels, strict=False):
        for name, style in styles.items():
            own = [line for line in lines if (line["kernel"], line["map"]) == (kernel, name)]
            if own:
                seconds, error = ([1e6 / line["rows_s"] for line in own], [line["error"] for line in own])
                (handles[name],) = ax.plot(seconds, error, markersize=5, linewidth=1.2, label=name, **style)
        ax.set(xscale="log", yscale="log")
        ax.set_title(kernel, fontsize=10)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
    for ax in axes.flat[len(kernels) - columns :]:
        ax.set_xlabel("CPU seconds for a million rows")
    for ax in axes[:, 0]:
        ax.set_ylabel("relative error of the kernel matrix")
    sizes = ", ".join(f"{size:,}" for size in sorted({line["M"] for line in lines}))
    figure.suptitle(f"Error of the kernel matrix against time; points of a line: M = {sizes}", fontsize=11)
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncol=columns, fontsize=9, frameon=False
    )
    save(figure, folder, "maps")


def main() -> None:
    """Measure every map, print the tables, and write the figures and the picture."""
    options = parser(__doc__)
    options.add_argument("--components", type=int, nargs="+", default=[256, 1024, 4096])
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument(
        "--kernels",
        nargs="+",
        help="measure only panels whose name has one of these words, the others are as they were",
    )
    given = options.parse_args()
    print_header(f"0 to {given.seeds - 1}")
    with (data_folder() / "guacamol_10k.smiles").open() as file:
        smiles = [line.split()[0] for line, _ in zip(file, range(N + N_FIT), strict=False)]
    counts, table_rows = fingerprints(smiles), descriptors(smiles)
    print(f"{counts.shape[0]:,} molecules, {counts.nnz / counts.shape[0]:.0f} non-zeros of 1,024 columns;")
    print(f"{table_rows.shape[1]} descriptors\n", flush=True)
    panels = all_panels(counts, table_rows)
    chosen = [name for name in panels if any(word in name for word in given.kernels or [""])]
    before = given.output / "maps.json"
    known = json.loads(before.read_text())["results"]["maps"] if given.kernels and before.exists() else []
    lines = []
    with threadpool_limits(1):
        for name, panel in panels.items():
            if name not in chosen:
                lines += [line for line in known if line["kernel"] == name]
                continue
            best: dict[str, str] = {}
            for M in given.components:
                lines += measure(name, panel, M, best, given)
    ratios = compared(lines, panels)
    print("\n" + table(lines, FORMATS))
    print("\nOver scikit-learn's, in this run:\n\n" + table(ratios, RATIOS))
    settings = {"components": given.components, "seeds": given.seeds, "rows": N, "fitted to": N_FIT}
    results = {"maps": lines, "ratios": ratios}
    write_results(given.output, "maps", seed=0, settings=settings, results=results)
    draw(lines, given.output)


if __name__ == "__main__":
    main()
