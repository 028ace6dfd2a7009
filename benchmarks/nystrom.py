"""Nystroem features and SCISSORS: errors against bounds, LINGO in few dimensions, speed against scikit-learn.

bounds: the error of the kernel matrix of T_minmax on molecules of GuacaMol (Morgan radius 2 counts) against
that of the best matrix of the same rank, and theorems 1, 3 and 5 of Haque & Pande 2011 at 95 %.

lingo: their figure 1 on a library of ours: intersections of LINGOs by vectors of 64, 256 and 1,024 dimensions
on a basis of 3,072 molecules, for the two molecules of the figure and for 2,000 others.

speed: rows a second by CPU time of one thread, beside scikit-learn's Nystroem on the same rows, programs in
turn, in single precision: the Gaussian kernel on RDKit's descriptors, and T_minmax, which scikit-learn takes
as a function of pairs; its formula is run with our kernel matrix, too, which leaves it the product alone.

regression: R2 on real docking scores.

    python benchmarks/nystrom.py [--parts bounds lingo speed regression] [--rows 10000]
"""

from __future__ import annotations

import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    Stopwatch,
    cached_fingerprints,
    data_folder,
    enamine50k,
    merit,
    parser,
    print_header,
    table,
    write_results,
)
from figures import BLUE, GREEN, GREY, ORANGE, RED, error_axes, new_figure, save
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.kernel_approximation import Nystroem
from threadpoolctl import threadpool_limits

from daskrf.features import NystromFeatures
from daskrf.features.bounds import excess_2_norm, excess_rms, expected_product_error
from daskrf.features.scissors import SCISSORS
from daskrf.gp import RandomFeatureGP, SufficientStatistics
from daskrf.kernels import Gaussian, Intersection, TanimotoMinMax
from daskrf.molecules import FingerprintSpec, lingo_counts

PARTS = ("bounds", "lingo", "speed", "regression")
DELTA = 0.05
BASIS = 3072
DIMENSIONS = (64, 256, 1024)
FIGURE_1 = ("c1ccc(cc1)[C@@H](C(=O)[O-])O", "c1cc(ccc1OC[C@@H](CO)O)Cl")
PUBLISHED = {64: (12.451, 7.796, 4.425), 256: (17.423, 13.113, 7.115), 1024: (22.066, 17.135, 7.942)}

Array = np.ndarray[Any, np.dtype[np.float64]]


def molecules(n: int) -> list[str]:
    """Return the first n SMILES of GuacaMol."""
    with (data_folder() / "guacamol_10k.smiles").open() as file:
        return [line.split()[0] for line, _ in zip(file, range(n), strict=False)]


# Errors and bounds -----------------------------------------------------------------------------------------


def bounds(n: int, sizes: list[int], n_seeds: int) -> list[dict[str, Any]]:
    """Return, by the number of landmarks l = k, errors of the whole matrix, the best ones and the bounds."""
    X, _ = cached_fingerprints("guacamol", molecules(n), FingerprintSpec(radius=2))
    n = X.shape[0]
    K = TanimotoMinMax().against(X)(X, dtype=np.float32)
    nothing = without_features(K)
    spectrum = np.sort(np.abs(np.linalg.eigvalsh(K)))[::-1].astype(np.float64)
    tails = np.sqrt(np.cumsum(np.square(spectrum)[::-1])[::-1])
    print(f"  {n:,} molecules; the largest eigenvalues: {', '.join(f'{v:.0f}' for v in spectrum[:4])}")
    lines = []
    for k in sizes:
        found = [_errors(NystromFeatures(k, random_state=seed).fit(X), X, K) for seed in range(n_seeds)]
        basis = NystromFeatures(k).fit(X).landmarks_
        eigenvalues = np.linalg.eigvalsh(TanimotoMinMax()(basis))
        lines.append(
            {
                "l": k,
                **nothing,
                **{name: statistics.median(own[name] for own in found) for name in found[0]},
                "best_rms": tails[k] / n,
                "bound_rms": tails[k] / n + excess_rms(n, k, k, delta=DELTA),
                "best_2_norm": spectrum[k] / n,
                "bound_2_norm": (spectrum[k] + excess_2_norm(n, k, delta=DELTA)) / n,
                "bound_mean": expected_product_error(
                    eigenvalues, k, np.ones(k), delta=1 - np.sqrt(1 - DELTA)
                ),
            }
        )
        print(f"  l = {k}: RMS {lines[-1]['rms']:.4f}", flush=True)
    return lines


def without_features(K: Any) -> dict[str, float]:
    """Return the errors of a matrix of zeros: a bound above them says nothing."""
    n = K.shape[0]
    rms = float(np.sqrt(np.mean(np.square(K), dtype=np.float64)))
    norm = float(eigsh(K, 1, which="LM", tol=1e-4, return_eigenvectors=False)[0])
    mean = (float(K.sum(dtype=np.float64)) - float(np.trace(K))) / (n * (n - 1))
    return {"none_rms": rms, "none_2_norm": norm / n, "none_mean": mean}


def _errors(feature_map: NystromFeatures, X: Any, K: Any) -> dict[str, float]:
    """Return the RMS and the mean error over all pairs, and the 2-norm over n."""
    n = X.shape[0]
    Phi = feature_map.transform(X)
    squares = total = own = 0.0
    for start in range(0, n, 500):
        difference = K[start : start + 500] - Phi[start : start + 500] @ Phi.T
        squares += float(np.square(difference, dtype=np.float64).sum())
        total += float(difference.sum(dtype=np.float64))
        own += float(np.trace(difference[:, start : start + 500]))
    operator = LinearOperator(
        (n, n),
        dtype=np.float32,
        matvec=lambda v: K @ v.astype(np.float32) - Phi @ (Phi.T @ v.astype(np.float32)),
    )
    norm = float(eigsh(operator, 1, which="LM", tol=1e-3, return_eigenvectors=False)[0])
    return {"rms": squares**0.5 / n, "mean": (total - own) / (n * (n - 1)), "2_norm": abs(norm) / n}


def draw_bounds(lines: list[dict[str, Any]], n: int, folder: Path) -> None:
    """Draw errors, best errors and bounds against the number of landmarks."""
    figure, axes = new_figure(1, 3, width=14, height=4.6, sharey=True)
    panels = (
        ("rms", "RMS over all pairs: theorem 5 (and 4)", "root mean square error of the kernel"),
        ("2_norm", "2-norm over n: theorem 3", "2-norm of the error / n"),
        ("mean", "mean over pairs: theorem 1", "mean error of the kernel"),
    )
    l = [line["l"] for line in lines]
    for ax, (name, title, label) in zip(axes, panels, strict=True):
        bound = [line[f"bound_{name}"] for line in lines]
        ax.plot(l, bound, color=RED, marker="v", markersize=4, label="bound, 95 %")
        ax.plot(l, [line[name] for line in lines], color=BLUE, marker="o", markersize=4, label="true error")
        if f"best_{name}" in lines[0]:
            best = [line[f"best_{name}"] for line in lines]
            ax.plot(l, best, color=GREEN, marker="s", markersize=4, label="best matrix of rank l")
        error_axes(ax, title, "landmarks l, and features k = l", label)
        ax.axhspan(lines[0][f"none_{name}"], 40.0, color=GREY, alpha=0.2, linewidth=0)
        ax.text(l[0], 22, "vacuous: a matrix of zeros errs by less", fontsize=8, va="center")
        times = bound[-1] / lines[-1][name]
        ax.annotate(
            f"{times:,.0f} times the error",
            (l[-1], bound[-1]),
            xytext=(-8, -14),
            textcoords="offset points",
            ha="right",
            fontsize=8,
            color=RED,
        )
        ax.set_ylim(2e-5, 40.0)
        ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(0.0, 0.6))
    figure.suptitle(f"T_minmax of {n:,} molecules of GuacaMol: the bounds hold, and are vacuous")
    save(figure, folder, "nystrom_bounds")


# LINGO -----------------------------------------------------------------------------------------------------


def lingo(seed: int) -> dict[str, Any]:
    """Return intersections of LINGOs by vectors, as figure 1, and their errors over other molecules."""
    smiles = molecules(10_000)
    order = np.random.default_rng(seed).permutation(len(smiles))
    basis = lingo_counts(smiles[i] for i in order[:BASIS])
    others = lingo_counts(smiles[i] for i in order[BASIS : BASIS + 2000])
    pair, kernel = lingo_counts(FIGURE_1), Intersection()
    true, exact = kernel(pair), kernel(others)
    tanimoto = TanimotoMinMax()(others)
    upper = np.triu_indices(exact.shape[0], 1)
    found: dict[str, Any] = {"figure_1": [_pair("LINGO", true)], "errors": [], "quantiles": {}}
    for k in DIMENSIONS:
        scissors = SCISSORS(k, similarity=kernel, measure="product").fit(basis)
        vectors = scissors.transform(others)
        G = vectors @ vectors.T
        own = scissors.transform(pair)
        found["figure_1"].append(_pair(f"SCISSORS-{k}", own @ own.T, PUBLISHED[k]))
        difference, diagonal = (exact - G)[upper], np.diag(exact - G)
        similarity = (tanimoto - scissors.similarities(vectors))[upper]
        found["errors"].append(
            {
                "dimensions": k,
                "pairs_mean": difference.mean(),
                "pairs_rms": np.sqrt(np.square(difference).mean()),
                "pairs_99_percent": np.quantile(np.abs(difference), 0.99),
                "self_mean": diagonal.mean(),
                "self_rms": np.sqrt(np.square(diagonal).mean()),
                "tanimoto_mean": similarity.mean(),
                "tanimoto_rms": np.sqrt(np.square(similarity).mean()),
            }
        )
        found["quantiles"][str(k)] = {
            "pairs": np.quantile(difference, np.linspace(0, 1, 101)),
            "self": np.quantile(diagonal, np.linspace(0, 1, 101)),
        }
    found["mean_pair"], found["mean_self"] = exact[upper].mean(), np.diag(exact).mean()
    return found


def _pair(name: str, G: Array, published: tuple[float, ...] = (28, 22, 8)) -> dict[str, Any]:
    values = (G[0, 0], G[1, 1], G[0, 1])
    keys = ("M1_M1", "M2_M2", "M1_M2")
    line = {"kernel": name, **dict(zip(keys, values, strict=True))}
    return line | {f"published {key}": value for key, value in zip(keys, published, strict=True)}


def draw_lingo(found: dict[str, Any], folder: Path) -> None:
    """Draw the distribution of the errors of intersections."""
    figure, axes = new_figure(1, 2, width=11, height=4.4)
    share = np.linspace(0, 1, 101)
    means = {"pairs": found["mean_pair"], "self": found["mean_self"]}
    titles = {"pairs": "different molecules", "self": "a molecule with itself"}
    for ax, kind in zip(axes, titles, strict=True):
        for k, color in zip(DIMENSIONS, (ORANGE, BLUE, GREEN), strict=True):
            ax.plot(found["quantiles"][str(k)][kind], share, color=color, label=f"{k:,} dimensions")
        ax.axvline(0.0, color=GREY, linewidth=0.8)
        ax.set_title(f"{titles[kind]}: {means[kind]:.1f} LINGOs in common on average", fontsize=10)
        ax.set_xlabel("true intersection less that of SCISSORS vectors")
        ax.set_ylabel("share of pairs with a smaller difference")
        ax.legend(fontsize=8, loc="lower right")
    axes[0].set_xlim(-3, 3)
    figure.suptitle(f"LINGO intersections, 2,000 molecules of GuacaMol, basis of {BASIS:,} others")
    save(figure, folder, "nystrom_lingo")


# Speed -----------------------------------------------------------------------------------------------------


def descriptors(n: int) -> Array:
    """Return RDKit's descriptors of n molecules, standardized; constant and not finite ones left out."""
    from rdkit import Chem
    from rdkit.Chem import Descriptors

    smiles = molecules(n)
    digest = hashlib.blake2b("\n".join(smiles).encode(), digest_size=6).hexdigest()
    cache = Path(tempfile.gettempdir()) / f"daskrf-descriptors-{digest}.npy"
    if not cache.exists():
        rows = [
            [function(molecule) for _, function in Descriptors.descList]
            for molecule in map(Chem.MolFromSmiles, smiles)
        ]
        np.save(cache, np.array(rows))
    X = np.load(cache)
    X = X[:, np.isfinite(X).all(axis=0)]
    X = X[:, (X.std(axis=0) > 0) & (np.abs(X).max(axis=0) < 1e6)]
    return np.clip((X - X.mean(axis=0)) / X.std(axis=0), -10, 10)


def speed(sizes: list[int], repeats: int) -> list[dict[str, Any]]:
    """Return errors (medians of three seeds) and rates of ours and scikit-learn's on two kernels."""
    X = descriptors(4000).astype(np.float32)  # scikit-learn computes in the precision of its rows
    length = float(np.median(np.linalg.norm(X[:500, None] - X[None, 500:1000], axis=2)))
    print(f"  descriptors: {X.shape[1]} columns, length scale {length:.1f}")
    counts, _ = cached_fingerprints("guacamol", molecules(4000), FingerprintSpec(radius=2, size=1024))
    lines = []
    for name, rows, kernel in (("Gaussian", X, Gaussian(length)), ("T_minmax", counts, TanimotoMinMax())):
        exact = kernel(rows[:1000])
        for M in sizes:
            errors: dict[str, list[float]] = {}
            for seed in range(3):
                ours = NystromFeatures(M, kernel=kernel, random_state=seed).fit(rows)
                programs = {"daskrf": ours.transform}
                if name == "Gaussian":
                    other = Nystroem(gamma=1 / (2 * length**2), n_components=M, random_state=seed).fit(rows)
                    means = NystromFeatures(M, kernel=kernel, selection="kmeans", random_state=seed).fit(rows)
                    programs |= {"scikit-learn": other.transform, "daskrf, k-means": means.transform}
                else:
                    programs["scikit-learn's formula"] = _formula(kernel, ours)
                for program, transform in programs.items():
                    Phi = np.asarray(transform(rows[:1000]), np.float64)
                    error = np.linalg.norm(Phi @ Phi.T - exact) / np.linalg.norm(exact)
                    errors.setdefault(program, []).append(float(error))
            rates = _rates(programs, rows[:2000], repeats)
            for program in programs:
                own = {"rows_s": rates[program], "times": rates["daskrf"] / rates[program]}
                error = statistics.median(errors[program])
                lines.append({"kernel": name, "M": M, "program": program, "error": error, **own})
            print(f"  {name}, M = {M}: {max(line['times'] for line in lines[-2:]):.1f} times", flush=True)
    return lines


def _formula(kernel: Any, ours: NystromFeatures) -> Callable[[Any], Any]:
    """Return what scikit-learn's Nystroem makes of a kernel matrix, which is ours, on the same landmarks.

    scikit-learn 1.9 takes no finished matrix ("precomputed") of fewer landmarks than rows.
    """
    U, S, V = np.linalg.svd(kernel(ours.landmarks_))
    normalization = (U / np.sqrt(np.maximum(S, 1e-12)) @ V).astype(np.float32)
    against = kernel.against(ours.landmarks_)
    return lambda rows: against(rows, dtype=np.float32) @ normalization.T


def _rates(programs: dict[str, Callable[[Any], Any]], rows: Any, repeats: int) -> dict[str, float]:
    """Return rows a second by CPU time: medians of rounds in which the programs take turns."""
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats + 1):  # the first round compiles
        for name, call in programs.items():
            start = time.process_time()
            call(rows)
            found[name].append(rows.shape[0] / (time.process_time() - start))
    return {name: statistics.median(own[1:]) for name, own in found.items()}


def pairwise(n: int) -> float:
    """Return the rows a second of scikit-learn's Nystroem with T_minmax as a function of pairs, M = 256."""
    counts, _ = cached_fingerprints("guacamol", molecules(4000), FingerprintSpec(radius=2, size=1024))
    X = np.asarray(counts[:256].todense(), np.float64)
    other = Nystroem(kernel=lambda x, y: np.minimum(x, y).sum() / np.maximum(x, y).sum(), n_components=256)
    other.fit(X)
    start = time.process_time()
    other.transform(X[:n])
    return n / (time.process_time() - start)


# Docking scores --------------------------------------------------------------------------------------------


def regression() -> list[dict[str, Any]]:
    """Return R2 and log probability on Enamine50k, hyperparameters by the evidence on all training rows."""
    data = enamine50k()
    print(data.describe())
    maps = {
        "T_minmax, l = k": NystromFeatures(2048),
        "T_minmax, l = 2 k": NystromFeatures(1024, n_landmarks=2048),
        "T_minmax, l = k = 1024": NystromFeatures(1024),
        "Gaussian, L = 16, l = k": NystromFeatures(2048, kernel=Gaussian(16.0)),
    }
    lines = []
    for name, feature_map in maps.items():
        watch = Stopwatch()
        Phi = feature_map.fit(data.X[data.train]).transform(data.X)
        features = watch.lap()["cpu_s"]
        sums = SufficientStatistics.from_chunk(Phi[data.train], data.y[data.train])
        gp = RandomFeatureGP().fit_statistics(sums)
        mean, std = gp.predict(Phi[data.test], return_std=True)
        line = {"map": name, "M": feature_map.n_components, **merit(data.y[data.test], mean, std)}
        lines.append(line | {"features_cpu_s": features, "fit_cpu_s": watch.lap()["cpu_s"]})
        print(f"  {name:26s} R2 {line['r2']:.4f}  {line['mean_log_probability']:.4f}", flush=True)
    return lines


def main() -> None:
    """Measure, print tables, and write the result files and the pictures."""
    options = parser(__doc__)
    options.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument(
        "--rows", type=int, default=10000, help="molecules of the bounds (default: %(default)s)"
    )
    options.add_argument("--landmarks", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048])
    options.add_argument("--components", type=int, nargs="+", default=[256, 1024, 4096 // 2])
    options.add_argument("--repeats", type=int, default=9)
    settings = options.parse_args()
    print_header(settings.seed)
    given = {name: getattr(settings, name) for name in ("rows", "landmarks", "components", "repeats")}

    def write(part: str, found: Any) -> None:
        write_results(settings.output, f"nystrom_{part}", seed=settings.seed, settings=given, results=found)

    with threadpool_limits(1):
        if "bounds" in settings.parts:
            lines = bounds(settings.rows, settings.landmarks, 3)
            print("\n" + table(lines, {name: "," if name == "l" else ".4f" for name in lines[0]}) + "\n")
            write("bounds", lines)
            draw_bounds(lines, settings.rows, settings.output)
        if "lingo" in settings.parts:
            found = lingo(settings.seed)
            for name in ("figure_1", "errors"):
                formats = dict.fromkeys(found[name][1], ".3f") | {"kernel": "", "dimensions": ","}
                print("\n" + table(found[name], {key: formats[key] for key in found[name][1]}) + "\n")
            write("lingo", found)
            draw_lingo(found, settings.output)
        if "speed" in settings.parts:
            lines = speed(settings.components, settings.repeats)
            formats = {
                "kernel": "",
                "M": ",",
                "program": "",
                "error": ".4f",
                "rows_s": ",.0f",
                "times": ".1f",
            }
            print("\n" + table(lines, formats))
            by_pairs = pairwise(40)
            print(f"scikit-learn with a function of pairs, M = 256: {by_pairs:.0f} rows/s\n")
            write("speed", {"maps": lines, "by_pairs_rows_s": by_pairs})
        if "regression" in settings.parts:
            lines = regression()
            formats = {"map": "", "M": ",", "r2": ".4f", "mean_log_probability": ".4f", "coverage_95": ".3f"}
            print("\n" + table(lines, formats | {"features_cpu_s": ".1f", "fit_cpu_s": ".1f"}))
            write("regression", lines)


if __name__ == "__main__":
    main()
