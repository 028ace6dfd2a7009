"""The exact process by conjugate gradients, on real docking scores (Enamine50k) and beside its peers.

40,000 molecules to fit, 9,706 to test; each fit in a fresh process. "default": what a user gets without
options, the default fingerprints and the kernel that is chosen for them. The others have the min-max Tanimoto
kernel, and Morgan counts of radius 1 unless said otherwise. "kept": tiles of the kernel matrix are kept in
memory. "anew": they are made anew for every product. "kinds": radius 2 and torsions side by side. "choice":
what comparing kernels costs before a fit, and what it takes, for radius 1 and for radius 2 and torsions.
"peers": 5,000 molecules, where a factorization serves, too: the same hyperparameters for conjugate gradients,
for the factorization, and for scikit-learn's process on the same kernel matrix. "gpytorch", which must be
installed for it: its conjugate gradients and ours on the same kernel matrix of 10,000 molecules.
"hundred-thousand": 100,000 molecules of Enamine50k and MUV with a computed score and noise.
"factorization": the same posterior as that of "kept", without any approximation, in 14 GiB. "million": a few
products for a million enumerated molecules on Dask; `daskrf plan` says what all of them would take.
"falkon": means by landmarks alone, solved for by conjugate gradients.

    python benchmarks/exact.py [--labels 40000] [--parts default large kinds choice peers rates gpytorch
                               hundred-thousand factorization million falkon]
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from rdkit import Chem
from rdkit.Chem import Crippen, rdMolDescriptors
from scipy.sparse import csr_matrix, vstack

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import (
    cached_fingerprints,
    data_folder,
    enamine50k,
    merit,
    parser,
    peak_gib,
    print_header,
    run_fresh,
    write_results,
)
from daskrf import ExactGP, fingerprint, fit, local_cluster
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.gp import choose_kernel
from daskrf.gp.solve.conjugategradients import solve
from daskrf.gp.solve.kernelmatrix import KernelMatrix
from daskrf.gp.solve.landmarkpreconditioner import LandmarkPreconditioner
from daskrf.kernels import Gaussian, Kernel, Mean, TanimotoMinMax
from daskrf.molecules import FingerprintSpec

PARTS = ["default", "large", "kinds", "choice", "peers", "rates"]
N_PEERS, N_SOLVED = 5000, 10_000
N_TEST = 10_000
NOISE = 0.4  # standard deviations of a computed score
RATIO = 0.2
TILE = 2048
PREDICTIONS = 5  # of the test molecules, of which the median is told


def large(
    n_labels: int, cache_bytes: int, kinds: list[str], seed: int, kernel: Kernel | None = None
) -> dict[str, Any]:
    """Fit to n_labels molecules and predict the test molecules; return figures."""
    data = enamine50k(spec=FingerprintSpec(kinds))
    train = data.train[:n_labels]
    start = time.perf_counter(), time.process_time()
    gp = ExactGP(kernel or TanimotoMinMax(), solver="cg", cache_bytes=cache_bytes, random_state=seed)
    gp.fit(data.X[train], data.y[train])
    fitted = time.perf_counter(), time.process_time()
    seconds = []
    for _ in range(PREDICTIONS):
        before = time.process_time()
        mean, std = gp.predict(data.X[data.test], return_std=True)
        seconds.append(time.process_time() - before)
    return {
        "fit_wall_s": fitted[0] - start[0],
        "fit_cpu_s": fitted[1] - start[1],
        "test_rows_a_cpu_s": len(data.test) / float(np.median(seconds)),
        "products": gp.n_iterations_,
        "residual": gp.residual_,
        "signal_variance": float(gp.signal_variance_[0]),
        "noise_variance": float(gp.noise_variance_[0]),
        **merit(data.y[data.test], mean, std),
    }


def factorization(n_labels: int, seed: int) -> dict[str, Any]:
    """Fit by conjugate gradients, and factorize the whole matrix for the same hyperparameters."""
    data = enamine50k(spec=FingerprintSpec(["morgan:1"]))
    train = data.train[:n_labels]
    X, y, new = data.X[train], data.y[train], data.X[data.test]
    found = ExactGP(TanimotoMinMax(), solver="cg", random_state=seed).fit(X, y)
    names = ("mean", "signal_variance", "noise_variance")
    given = {name: float(getattr(found, f"{name}_")[0]) for name in names}
    means = [found.predict(new, return_std=True)]
    del found
    start = time.perf_counter(), time.process_time()
    whole = ExactGP(TanimotoMinMax(), solver="cholesky", random_state=seed, **given).fit(X, y)
    means.append(whole.predict(new, return_std=True))
    figures = {
        f"{name}, {solver}": value
        for solver, (mean, std) in zip(("conjugate gradients", "factorization"), means, strict=True)
        for name, value in merit(data.y[data.test], mean, std).items()
    }
    times = {"wall_s": time.perf_counter() - start[0], "cpu_s": time.process_time() - start[1]}
    return {**given, **times, **figures}


def default(n_labels: int, seed: int) -> dict[str, Any]:
    """Choose a kernel for the default fingerprints of n_labels molecules and fit it; return figures."""
    kinds = [kind.name for kind in FingerprintSpec().kinds]
    chosen = choice(n_labels, kinds, seed)
    kernel = chosen.pop("kernel")
    fitted = large(n_labels, KernelMatrix.bytes_of(n_labels), kinds, seed, kernel)
    return {f"choice: {name}": value for name, value in chosen.items()} | fitted


def hundred_thousand(n_labels: int, kinds: list[str], cache_bytes: int, seed: int) -> dict[str, Any]:
    """Fit to n_labels molecules of two libraries with a computed score, and predict 10,000 others."""
    molecules = two_libraries()
    order = np.random.default_rng(seed).permutation(len(molecules))[: n_labels + N_TEST]
    smiles = [molecules[k] for k in order]
    X, kept = cached_fingerprints("two-libraries", smiles, FingerprintSpec(kinds))
    score = np.array([computed_score(smiles[k]) for k in kept])
    noise = NOISE * score.std()
    score += noise * np.random.default_rng(seed + 1).standard_normal(len(score))
    start = time.perf_counter(), time.process_time()
    gp = ExactGP(TanimotoMinMax(), solver="cg", cache_bytes=cache_bytes, random_state=seed)
    gp.fit(X[:-N_TEST], score[:-N_TEST])
    fitted = time.perf_counter(), time.process_time()
    mean, std = gp.predict(X[-N_TEST:], return_std=True)
    best = -0.5 * float(np.log(2 * np.pi * np.e * noise**2))
    return {
        "labels": len(score) - N_TEST,
        "fit_wall_s": fitted[0] - start[0],
        "fit_cpu_s": fitted[1] - start[1],
        "test_rows_a_cpu_s": N_TEST / (time.process_time() - fitted[1]),
        "products": gp.n_iterations_,
        "residual": gp.residual_,
        "noise std, found over true": float(gp.noise_variance_[0] ** 0.5 / noise),
        **merit(score[-N_TEST:], mean, std),
        "R2 of the noiseless score": 1 - float(noise / score[-N_TEST:].std()) ** 2,
        "log probability of it": best,
    }


def million(folder: Path, n_labels: int, n_products: int, seed: int) -> dict[str, Any]:
    """Take some products for n_labels enumerated molecules, on workers; return their time and the residual.

    The fit then ends with an error, as it should: so few do not solve the equations. What is in the folder
    stays, so that another run goes on where this one was stopped.
    """
    smiles = ReactionLibrary(seed).smiles(0, n_labels)
    noise = np.random.default_rng(seed).standard_normal(n_labels)
    scores = [f"{i},{len(text) / 10 + e}" for i, (text, e) in enumerate(zip(smiles, noise, strict=True))]
    (folder / "library.smi").write_text("".join(f"{text} {i}\n" for i, text in enumerate(smiles)))
    (folder / "scores.csv").write_text("\n".join(["id,score", *scores, ""]))
    with local_cluster(n_workers=3, dashboard=False) as client:
        fingerprint(folder / "library.smi", folder / "fp", spec=FingerprintSpec(["morgan:1"]), client=client)
        start = time.perf_counter(), sum(client.run(time.process_time).values())
        residual = "reached"
        try:
            fit(
                *(folder / "fp", folder / "scores.csv", folder / "model"),
                **{"process": "exact", "kernel": TanimotoMinMax(), "solver": "cg", "client": client},
                **{"signal_variance": 1.0, "noise_variance": 1.0, "max_iterations": n_products},
                **{"n_draws": 2, "n_landmarks": 500},
            )
        except InputError as error:
            residual = str(error)
        cpu = sum(client.run(time.process_time).values()) - start[1]
        return {
            "labels": n_labels,
            "right-hand sides": 4,
            "products": n_products,
            "wall_s": time.perf_counter() - start[0],
            "cpu_s_of_workers_a_product": cpu / n_products,
            "values_a_cpu_s": n_labels**2 / 2 * n_products / cpu,
            "largest_gib_of_a_worker": max(client.run(peak_gib).values()),
            "at the end": residual,
        }


def falkon(n_labels: int, seed: int) -> dict[str, Any]:
    """Solve for the weights of M landmarks by conjugate gradients (Rudi et al. 2017); means only.

    (K_MM ratio + K_Mn K_nM) w = K_Mn y, in the variables that make the expectation over rows of the matrix
    the identity; tiles of K_nM are made anew for each product.
    """
    data, kernel = enamine50k(), TanimotoMinMax()
    train = data.train[:n_labels]
    X, y, mean = data.X[train], data.y[train], float(data.y[train].mean())
    found: dict[str, Any] = {}
    for n_landmarks in (2048, 8192):
        start = time.process_time()
        landmarks = X[np.sort(np.random.default_rng(seed).permutation(n_labels)[:n_landmarks])]
        prepared = kernel.against(landmarks)
        own = np.array(prepared(landmarks))
        own.flat[:: n_landmarks + 1] += 1e-6  # repeated molecules
        T = scipy.linalg.cholesky(own, overwrite_a=True)  # K_MM = T^T T
        inner = T @ T.T * (n_labels / n_landmarks)
        inner.flat[:: n_landmarks + 1] += RATIO
        A = scipy.linalg.cholesky(inner, overwrite_a=True)
        factored = time.process_time()

        def solve_for(R: Any, v: Any, trans: int = 0) -> Any:
            return scipy.linalg.solve_triangular(R, v, trans=trans, check_finite=False)

        def over_rows(use: Any, landmarks: int = n_landmarks, prepared: Any = prepared) -> Any:
            total = np.zeros((landmarks, 1))
            for first in range(0, n_labels, TILE):
                tile = prepared(X[first : first + TILE], dtype=np.float32)
                total += tile.T @ use(tile, slice(first, first + TILE))
            return total

        def multiply(v: Any, T: Any = T, A: Any = A, over_rows: Any = over_rows) -> Any:
            scaled = solve_for(A, v)
            w = solve_for(T, scaled).astype(np.float32)
            both = solve_for(T, over_rows(lambda tile, rows: tile @ w), 1) + RATIO * scaled
            return solve_for(A, both, 1).astype(np.float32)

        right = over_rows(lambda tile, rows: (y[rows] - mean).astype(np.float32)[:, None])
        right = solve_for(A, solve_for(T, right, 1), 1).astype(np.float32)
        solution = solve(multiply, right, lambda v: v, tolerance=1e-3, max_iterations=100)
        weights = solve_for(T, solve_for(A, solution.x))
        ended = time.process_time()
        errors = data.y[data.test] - mean - (prepared(data.X[data.test], dtype=np.float32) @ weights)[:, 0]
        name = f"{n_landmarks:,} landmarks"
        found[f"{name}: R2"] = 1 - float(errors @ errors) / float(
            np.square(data.y[data.test] - data.y[data.test].mean()).sum()
        )
        found[f"{name}: CPU s, factors"] = factored - start
        found[f"{name}: CPU s, products"] = ended - factored
        found[f"{name}: products"] = solution.n_iterations
    return found


def two_libraries() -> list[str]:
    """Return the distinct SMILES of Enamine50k and of the MUV data, in file order."""
    found: dict[str, None] = {}
    for name in ("Enamine50k_library.csv.gz", "muv_smiles.csv.gz"):
        with gzip.open(data_folder() / name, "rt") as file:
            next(file)
            found |= dict.fromkeys(line.split(",")[0].strip() for line in file)
    return list(found)


def computed_score(smiles: str) -> float:
    """Return a score that is no sum of fragments: of logP, polar surface and bonds that rotate."""
    molecule = Chem.MolFromSmiles(smiles)
    surface, bonds = rdMolDescriptors.CalcTPSA(molecule), rdMolDescriptors.CalcNumRotatableBonds(molecule)
    return -abs(Crippen.MolLogP(molecule) - 3.0) - abs(surface - 80.0) / 40.0 - abs(bonds - 5.0) / 5.0


def choice(n_labels: int, kinds: list[str], seed: int) -> dict[str, Any]:
    """Choose a kernel for n_labels molecules; return what was tried, and the time."""
    data, spec = enamine50k(spec=FingerprintSpec(kinds)), FingerprintSpec(kinds)
    train = data.train[:n_labels]
    start = time.perf_counter(), time.process_time()
    columns = spec.columns if len(kinds) > 1 else {}
    found = choose_kernel(data.X[train], data.y[train], columns, random_state=seed)
    times = {"wall_s": time.perf_counter() - start[0], "cpu_s": time.process_time() - start[1]}
    tried = {trial.name: f"R2 {trial.r2:.4f}, {trial.log_probability:.4f}" for trial in found.trials}
    return {**times, **tried, "taken": found.kernel.words(), "kernel": found.kernel}


def peers(seed: int) -> dict[str, Any]:
    """Compare conjugate gradients, the factorization and scikit-learn at 5,000 labels."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Kernel as PeerKernel

    data = enamine50k()
    train, test = data.train[:N_PEERS], data.test[:2000]
    X, y, new = data.X[train], data.y[train], data.X[test]
    given = {"mean": -6.0, "signal_variance": 0.32, "noise_variance": 0.07}
    found: dict[str, Any] = {}
    for solver in ("cholesky", "cg"):
        start = time.process_time()
        gp = ExactGP(TanimotoMinMax(), solver=solver, random_state=seed, **given).fit(X, y)
        seconds = time.process_time() - start
        found[solver] = seconds, *gp.predict(new, return_std=True, of="f")

    class Given(PeerKernel):  # scikit-learn's process on our kernel values
        def __init__(self) -> None:
            pass

        def __call__(self, a: Any, b: Any = None, eval_gradient: bool = False) -> Any:
            rows = (X, new)
            left = rows[int(a[0, 0] >= N_PEERS)]
            right = left if b is None else rows[int(b[0, 0] >= N_PEERS)]
            return given["signal_variance"] * TanimotoMinMax()(left, right)

        def diag(self, a: Any) -> Any:
            return np.full(len(a), given["signal_variance"])

        def is_stationary(self) -> bool:
            return False

    start = time.process_time()
    numbers = np.arange(N_PEERS + len(test), dtype=float)[:, None]
    peer = GaussianProcessRegressor(Given(), alpha=given["noise_variance"], optimizer=None)
    peer.fit(numbers[:N_PEERS], y - given["mean"])
    seconds = time.process_time() - start
    mean, std = peer.predict(numbers[N_PEERS:], return_std=True)
    found["scikit-learn"] = seconds, mean + given["mean"], std
    _, exact_mean, exact_std = found["cholesky"]
    return {
        name: {
            "fit_cpu_s": own[0],
            "mean_error_over_noise_std": float(
                np.abs(own[1] - exact_mean).max() / given["noise_variance"] ** 0.5
            ),
            "log_variance_error_std": float(np.std(2 * np.log(own[2] / exact_std))),
            "log_variance_error_mean": float(np.mean(2 * np.log(own[2] / exact_std))),
        }
        for name, own in found.items()
    }


def gpytorch(seed: int) -> dict[str, Any]:
    """Solve (K + lambda I) x = b for labels and 33 more vectors by gpytorch's solver and by ours.

    Both have K in single precision; the time to make it counts for neither.
    """
    import torch
    from linear_operator import settings, to_linear_operator

    data, kernel = enamine50k(), TanimotoMinMax()
    chosen = data.train[:N_SOLVED]
    X, y = data.X[chosen], data.y[chosen]
    right = np.random.default_rng(seed).standard_normal((N_SOLVED, 34), dtype=np.float32)
    right[:, 0] = y - y.mean()
    matrix = KernelMatrix(kernel, X, keep_bytes=KernelMatrix.bytes_of(N_SOLVED))

    def ours(n_landmarks: int) -> Any:
        preconditioner = LandmarkPreconditioner(kernel, X, n_landmarks, seed)
        preconditioner.set_ratio(RATIO)
        return solve(
            lambda v: matrix.product(v) + np.float32(RATIO) * v,
            right,
            preconditioner,
            tolerance=1e-3,
            max_iterations=300,
        ).x

    matrix.product(right)  # makes the tiles
    dense = np.asarray(kernel(X), dtype=np.float32)

    def theirs(rank: int) -> Any:
        operator = to_linear_operator(torch.from_numpy(dense)).add_diagonal(torch.tensor(RATIO))
        with (
            settings.max_cholesky_size(1),
            settings.min_preconditioning_size(1),
            settings.max_preconditioner_size(rank),
            settings.cg_tolerance(1e-3),  # of the mean over columns
            settings.max_cg_iterations(300),
        ):
            return operator.solve(torch.from_numpy(right)).numpy()

    found: dict[str, Any] = {}
    for name, way, size in (
        ("ours, 500 landmarks", ours, 500),
        ("gpytorch, rank 15", theirs, 15),
        ("gpytorch, rank 100", theirs, 100),
        ("gpytorch, rank 500", theirs, 500),
    ):
        start = time.perf_counter(), time.process_time()
        x = way(size)
        found[f"{name}: wall s"] = time.perf_counter() - start[0]
        found[f"{name}: CPU s"] = time.process_time() - start[1]
        rest = right - matrix.product(x) - np.float32(RATIO) * x
        found[f"{name}: residual"] = float(
            (np.linalg.norm(rest, axis=0) / np.linalg.norm(right, axis=0)).max()
        )
    return found


def rates(seed: int) -> dict[str, float]:
    """Return kernel values a second of one core, single precision, and SciPy's way with the minimum."""
    from sklearn.metrics.pairwise import manhattan_distances

    data = enamine50k()
    X, new = data.X[data.train], data.X[data.test[:2000]]
    prepared = TanimotoMinMax().against(X)
    prepared(new, dtype=np.float32)
    start = time.process_time()
    size = prepared(new, dtype=np.float32).size
    ours = size / (time.process_time() - start)
    theirs = vstack([new[:20], X]).tocsr().astype(float)
    theirs.indices = np.unique(theirs.indices, return_inverse=True)[1].astype(np.int32)  # that it takes
    theirs = csr_matrix((theirs.data, theirs.indices, theirs.indptr.astype(np.int32)))
    start = time.process_time()
    distances = manhattan_distances(theirs[:20], theirs[20:])
    both = np.add.outer(np.asarray(new[:20].sum(axis=1)).ravel(), np.asarray(X.sum(axis=1)).ravel())
    similarities = (both - distances) / (both + distances)
    peer = similarities.size / (time.process_time() - start)
    return {"daskrf": ours, "scikit-learn": peer, "ratio": ours / peer, **rates_of_kinds()}


def rates_of_kinds() -> dict[str, float]:
    """Return values a second of tiles as products take them, of Morgan radius 1 and torsions."""
    X = enamine50k(spec=FingerprintSpec(["morgan:1", "torsion"])).X[: 2 * TILE]
    mean = Mean((0.6, 0.4))
    kinds = mean.parts(X)
    cases = {
        "radius 1": (TanimotoMinMax(), kinds[0]),
        "torsions": (TanimotoMinMax(), kinds[1]),
        "side by side": (TanimotoMinMax(), X),
        "mean of both": (mean, X),
        "Gaussian, radius 1": (Gaussian(14.0), kinds[0]),
    }
    found = {}
    for name, (kernel, rows) in cases.items():
        prepared = kernel.against(rows[:TILE])
        seconds = []
        for _ in range(6):
            start = time.process_time()
            prepared(rows[TILE:], dtype=np.float32)
            seconds.append(time.process_time() - start)
        found[f"tile, {name}"] = TILE**2 / min(seconds)
    both = 1 / (1 / found["tile, radius 1"] + 1 / found["tile, torsions"])
    return {**found, "mean over its parts": found["tile, mean of both"] / both}


def main() -> None:
    """Run what the command line asks for."""
    options = parser(__doc__)
    options.add_argument("--labels", type=int, default=40_000, help="to fit (default: %(default)s)")
    options.add_argument("--million", type=int, default=10**6, help="of that part (default: %(default)s)")
    options.add_argument("--products", type=int, default=3, help="of that part (default: %(default)s)")
    options.add_argument("--folder", type=Path, help="of that part, to keep and go on with")
    options.add_argument("--parts", nargs="+", default=PARTS, metavar="PART")
    given = options.parse_args()
    print_header(given.seed)
    results: dict[str, Any] = {}
    if "default" in given.parts:
        found, cost = run_fresh(default, given.labels, given.seed)
        results["default"] = {**found, "peak_gib": cost.peak_gib}
    whole = KernelMatrix.bytes_of(given.labels)
    for part, name, cache, kinds in (
        ("large", "kept", whole, ["morgan:1"]),
        ("large", "anew", 0, ["morgan:1"]),
        ("kinds", "morgan:2 and torsion", whole, ["morgan:2", "torsion"]),
    ):
        if part in given.parts:
            found, cost = run_fresh(large, given.labels, cache, kinds, given.seed)
            results[name] = {**found, "peak_gib": cost.peak_gib}
    for kinds in (["morgan:1"], ["morgan:2", "torsion"]):
        if "choice" in given.parts:
            found, _ = run_fresh(choice, given.labels, kinds, given.seed)
            found.pop("kernel")
            results[f"choice, {' and '.join(kinds)}"] = found
    if "hundred-thousand" in given.parts:
        found, cost = run_fresh(hundred_thousand, 100_000, ["morgan:1"], 6 * 2**30, given.seed)
        results["hundred-thousand"] = {**found, "peak_gib": cost.peak_gib}
    if "factorization" in given.parts:
        found, cost = run_fresh(factorization, given.labels, given.seed)
        results["factorization"] = {**found, "peak_gib": cost.peak_gib}
    if "million" in given.parts:
        with tempfile.TemporaryDirectory() as folder:
            place = given.folder or Path(folder)
            found, cost = run_fresh(million, place, given.million, given.products, given.seed)
        results["million"] = {**found, "peak_gib": cost.peak_gib}
    if "falkon" in given.parts:
        results["falkon"], _ = run_fresh(falkon, given.labels, given.seed)
    for name, part in (("peers", peers), ("rates", rates), ("gpytorch", gpytorch)):
        if name in given.parts:
            results[name], _ = run_fresh(part, given.seed)
    for name, figures in results.items():
        print(name)
        for key, value in figures.items():
            print(f"  {key:28s} {value}")
    settings = {"labels": given.labels}
    write_results(given.output, "exact", seed=given.seed, settings=settings, results=results, keep=True)


if __name__ == "__main__":
    main()
