"""Molecules per second of dot-product Tanimoto features, against the paper's way to make them, on one thread.

    python benchmarks/dotproduct.py [--components 1000 5000 10000] [--radius 1] [--repeats 5]

R = 4 terms, allocation exponent -1. The stand-in for the authors' program does what theirs does for each
term: scikit-learn's PolynomialCountSketch of the folded, dense fingerprints, 10,000 prefactor features, and
their count sketches multiplied by Fourier transforms; it is run with 64 prefactor features too, so that the
gain by the right grid and that by the program can be told apart. (The authors' own program, with 10,000, made
256 molecules a second at M = 5000 on one core of a machine like this: the stand-in is the faster one.) It
gets 300 molecules; more do not change its rate by much. "Distinct norms": real vectors, no two of one norm,
whose prefactors are never found in the cache, and the fit to them. Rates are medians, by CPU time; the
programs take turns, so that load hits all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from common import data_folder, parser, print_header, table, write_results
from scipy.special import gammaincinv, gammaln
from sklearn.base import clone
from sklearn.kernel_approximation import PolynomialCountSketch
from threadpoolctl import threadpool_limits

from daskrf.features import TanimotoDotProductFeatures
from daskrf.molecules import Fingerprinter, FingerprintSpec

N_TERMS = 4
STAND_IN_MOLECULES = 300
RECORDED = 256  # molecules a second of the authors' program at M = 5000, R = 4


def paper_program(X: np.ndarray, n_components: int, n_prefactor: int) -> Callable[[], np.ndarray]:
    """Return the features of dense rows of square roots, the way the paper's program makes them."""
    X = X / np.sqrt(np.max(np.sum(X**2, axis=1)))
    zeta = np.min(np.sum(X**2, axis=1))
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1, N_TERMS + 1)
    sizes = (n_components * share / share.sum()).astype(int)
    sizes[0] += n_components - sizes.sum()
    terms = []
    for r, size in enumerate(sizes, start=1):
        polynomial = PolynomialCountSketch(degree=r, n_components=size, random_state=r).fit(X)
        grid = np.mod(rng.uniform() + np.linspace(0.0, 1.0, n_prefactor), 1.0)
        gamma = np.maximum(gammaincinv(r * zeta, grid) / (2 * zeta**2), 1e-300)
        places, signs = rng.integers(0, size, n_prefactor), rng.choice([-1.0, 1.0], n_prefactor)
        sketch = sp.csr_matrix((signs, (np.arange(n_prefactor), places)), shape=(n_prefactor, size))
        terms.append((r, polynomial, gamma, sketch))

    def run() -> np.ndarray:
        norms = np.sum(X**2, axis=1)[:, None]
        blocks = []
        for r, polynomial, gamma, sketch in terms:
            s, c = r * zeta, 2 * zeta**2
            constant = (gammaln(s) - s * np.log(c) - gammaln(r) - np.log(n_prefactor)) / 2
            prefactor = np.exp(constant - (norms - c / 2) * gamma + (r - s) / 2 * np.log(gamma))
            spectra = np.fft.rfft(polynomial.transform(X)) * np.fft.rfft(prefactor @ sketch)
            blocks.append(np.fft.irfft(spectra, sketch.shape[1]))
        return np.hstack(blocks)

    return run


def molecules(number: int, radius: int) -> sp.csr_matrix:
    """Return unfolded Morgan counts of the first molecules of guacamol_10k.smiles."""
    with (data_folder() / "guacamol_10k.smiles").open() as file:
        smiles = [line.split()[0] for line in file][:number]
    return Fingerprinter(FingerprintSpec(radius=radius))(smiles).fingerprints


def folded_roots(X: sp.csr_matrix, width: int = 1024) -> np.ndarray:
    """Return the square roots of the counts, folded to `width` columns, dense."""
    columns = X.indices % width
    return np.sqrt(sp.csr_matrix((X.data.astype(float), columns, X.indptr), (X.shape[0], width)).toarray())


def distinct_norms(X: sp.csr_matrix) -> sp.csr_matrix:
    """Return the rows' square roots, each scaled by a factor of its own."""
    scale = np.random.default_rng(0).uniform(0.9, 1.1, X.shape[0])
    data = np.sqrt(X.data.astype(float)) * np.repeat(scale, np.diff(X.indptr))
    return sp.csr_matrix((data, X.indices, X.indptr), shape=X.shape)


def measure(X: sp.csr_matrix, n_components: int, repeats: int) -> dict[str, float]:
    """Return the median rate of each program, in molecules a second."""
    few = folded_roots(X[:STAND_IN_MOLECULES])
    programs: dict[str, tuple[int, Callable[[], object]]] = {}
    for correction in (None, "normalize", "residual"):
        feature_map = TanimotoDotProductFeatures(n_components, bias_correction=correction).fit(X)
        feature_map.transform(X[:10])
        programs[f"daskrf, {correction}"] = X.shape[0], lambda f=feature_map: f.transform(X)
    real = distinct_norms(X)
    real_map = TanimotoDotProductFeatures(n_components, input_transform=None)
    # A new map each time, which has no norm in its cache.
    programs["daskrf, None, distinct norms"] = real.shape[0], lambda: clone(real_map).fit_transform(real)
    for n_prefactor in (64, 10_000):
        name = f"stand-in, {n_prefactor:,} prefactor features"
        programs[name] = len(few), paper_program(few, n_components, n_prefactor)
    rates: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, (n_rows, run) in programs.items():
            start = time.process_time()
            run()
            rates[name].append(n_rows / (time.process_time() - start))
    return {name: statistics.median(values) for name, values in rates.items()}


def main() -> None:
    """Measure, print a table, and write the result file."""
    options = parser(__doc__)
    options.add_argument("--components", type=int, nargs="+", default=[1000, 5000, 10_000])
    options.add_argument("--molecules", type=int, default=10_000)
    options.add_argument("--radius", type=int, default=1)
    options.add_argument("--repeats", type=int, default=5)
    settings = options.parse_args()
    print_header(settings.seed)
    X = molecules(settings.molecules, settings.radius)
    entries = X.nnz / X.shape[0]
    print(f"{X.shape[0]:,} molecules, Morgan radius {settings.radius} counts, {entries:.1f} entries each")
    rows = []
    with threadpool_limits(1):
        for n_components in settings.components:
            rates = measure(X, n_components, settings.repeats)
            slowest = rates["stand-in, 10,000 prefactor features"]
            rows += [
                {
                    "M": n_components,
                    "program": name,
                    "molecules/s": rate,
                    "times the stand-in": rate / slowest,
                }
                for name, rate in rates.items()
            ]
    print(table(rows, {"M": "d", "program": "", "molecules/s": ",.0f", "times the stand-in": ".1f"}))
    for row in rows:
        if row["M"] == 5000 and row["program"] == "daskrf, None":
            print(
                f"Against the recorded {RECORDED} molecules/s of the authors' program at M = 5000 (another "
                f"run, on a machine like this): {row['molecules/s'] / RECORDED:.0f} times."
            )
    write_results(
        settings.output,
        f"dotproduct_radius{settings.radius}",
        seed=settings.seed,
        settings={"molecules": X.shape[0], "radius": settings.radius, "n_terms": N_TERMS},
        results=rows,
    )


if __name__ == "__main__":
    main()
