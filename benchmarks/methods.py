"""The regression methods of the paper and of daskrf, each run in a fresh process on a labelled set.

A run sums the statistics of a method once and then fits and predicts by each protocol:

"paper": mean, signal variance and noise variance from an exact GP on a random subset, fixed for all methods;
"evidence": mean, signal variance and noise variance by the method's own evidence on all rows for training;
"bound": the same by Titsias' variational bound, for sparse GPs.

The stochastic sparse process of the paper takes the first protocol alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.csv
from common import Regression, Stopwatch, cached_fingerprints, enamine50k, merit, run_fresh
from svgp import StochasticSparseGP

from daskrf import seeds
from daskrf.errors import InputError
from daskrf.features import LandmarkFeatures, TanimotoDotProductFeatures, TanimotoMinMaxFeatures
from daskrf.gp import ExactGP, choose_exponent, gp_for
from daskrf.gp.sums.chunks import sum_rows
from daskrf.kernels import Kernel, TanimotoDotProduct, TanimotoMinMax
from daskrf.molecules import FingerprintSpec

CLIP = 5.0  # docking scores above it mean a failed docking; the paper's code clips them
KERNELS: dict[str, Kernel] = {"T_minmax": TanimotoMinMax(), "T_dp": TanimotoDotProduct(transform="sqrt")}


# Data ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Where labelled molecules come from; small, so that each process loads them itself.

    Attributes
    ----------
    path : Path or None
        Table of molecules; None is Enamine50k of the benchmarks' data.
    target : str
        Column of the labels.
    split : Path or None
        Table with the columns inchikey and split ("train" or "test"). Without it the split is random:
        80 % for training, numpy.random.default_rng(0).
    size : int
        Columns of the folded fingerprint; 0 is unfolded.
    radius : int
    """

    path: Path | None = None
    target: str = "score"
    split: Path | None = None
    size: int = 0
    radius: int = 1

    def load(self) -> Regression:
        """Read the molecules and make their fingerprints (kept in the temporary folder)."""
        if self.path is None:
            return enamine50k(self.radius, self.size)
        smiles, y, train = read_labelled(self.path, self.target, self.split)
        spec = FingerprintSpec(radius=self.radius, size=self.size)
        x, kept = cached_fingerprints(f"{self.path.stem}-{self.target}", smiles, spec)
        y, train = y[kept], train[kept]
        return Regression(
            f"{self.path.stem} {self.target}", x, y, np.nonzero(train)[0], np.nonzero(~train)[0]
        )


def read_table(path: Path, *columns: str) -> dict[str, list[Any]]:
    """Return columns of a table of text (tabs in .tsv and .tab, commas otherwise; may be compressed).

    Raises
    ------
    InputError
        If there is no such file or column.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist.")
    tabs = any(suffix in (".tsv", ".tab") for suffix in path.suffixes)
    table = pyarrow.csv.read_csv(
        path, parse_options=pyarrow.csv.ParseOptions(delimiter="\t" if tabs else ",", quote_char=False)
    )
    for name in columns:
        if name not in table.column_names:
            known = ", ".join(table.column_names[:12])
            raise InputError(f"{path.name} has no column {name!r}; it has {known}.")
    return {name: table.column(name).to_pylist() for name in columns}


def read_labelled(
    path: Path, target: str, split: Path | None
) -> tuple[list[str], npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return SMILES, labels and which rows are for training; rows without a label are left out.

    With a split file the table is read as the paper reads dockstring-dataset.tsv: rows are matched by
    inchikey, and scores above 5 become 5. Without one the labels stay as they are.

    Raises
    ------
    InputError
        If a column or an inchikey is missing, or the split has another word than train and test.
    """
    if split is None:
        table = read_table(path, "smiles", target)
        rows = [row for row, label in enumerate(table[target]) if label is not None]
        train = np.zeros(len(rows), bool)
        train[np.random.default_rng(0).permutation(len(rows))[: int(0.8 * len(rows))]] = True
    else:
        table = read_table(path, "smiles", target, "inchikey")
        parts = read_table(split, "inchikey", "split")
        part = dict(zip(parts["inchikey"], parts["split"], strict=True))
        rows = [row for row, label in enumerate(table[target]) if label is not None]
        words = [part.get(table["inchikey"][row]) for row in rows]
        for row, word in zip(rows, words, strict=True):
            if word not in ("train", "test"):
                raise InputError(
                    f"row {row + 1} of {path.name} ({table['inchikey'][row]}) is {word or 'missing'} in "
                    f"{split.name}; it must be train or test there."
                )
        train = np.array([word == "train" for word in words])
    y = np.array([table[target][row] for row in rows], dtype=np.float64)
    y = y if split is None else np.minimum(y, CLIP)
    return [table["smiles"][row] for row in rows], y, train


# Methods ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes
    ----------
    kernel : "T_minmax" or "T_dp"
    name : str
    published : str
        Its name in the published table, "" if it is not there.
    family : "subset", "features", "sparse" or "stochastic"
    options : dict
        Parameters of the feature map.
    """

    kernel: str
    name: str
    published: str
    family: str
    options: dict[str, Any] = field(default_factory=dict)

    def feature_map(self, n_components: int, seed: int) -> Any:
        """Return the unfitted map."""
        if self.family in ("sparse", "stochastic"):
            kernel = KERNELS[self.kernel]
            return LandmarkFeatures(n_components, kernel=kernel, random_state=seed, **self.options)
        cls = {"T_minmax": TanimotoMinMaxFeatures, "T_dp": TanimotoDotProductFeatures}[self.kernel]
        return cls(n_components, random_state=seed, **self.options)


METHODS = [
    Method("T_minmax", "random subset GP", "RSGP", "subset"),
    Method("T_minmax", "sparse GP, random", "", "sparse", {"selection": "random"}),
    Method("T_minmax", "sparse GP, k-medoids", "", "sparse", {"selection": "kmedoids"}),
    Method("T_minmax", "SVGP, k-means", "SVGP", "stochastic", {"selection": "kmeans"}),
    Method("T_minmax", "RFGP, Rademacher", "RFGP-Rademacher", "features"),
    Method("T_minmax", "RFGP, Gaussian", "RFGP-Gaussian", "features", {"distribution": "gaussian"}),
    Method("T_dp", "random subset GP", "RSGP", "subset"),
    Method("T_dp", "sparse GP, random", "", "sparse", {"selection": "random"}),
    Method("T_dp", "sparse GP, k-medoids", "", "sparse", {"selection": "kmedoids"}),
    Method("T_dp", "SVGP, k-means", "SVGP", "stochastic", {"selection": "kmeans"}),
    Method("T_dp", "RFGP, plain", "RFGP-none", "features"),
    Method("T_dp", "RFGP, normalize", "RFGP-normalize", "features", {"bias_correction": "normalize"}),
    Method("T_dp", "RFGP, residual", "RFGP-sketch_error", "features", {"bias_correction": "residual"}),
]

Given = dict[str, float]


def subset(data: Regression, n: int, seed: int, purpose: str) -> npt.NDArray[np.int64]:
    """Return n random rows for training, other ones for another purpose."""
    rng = seeds.generator(seed, f"benchmarks/{purpose}")
    return rng.choice(data.train, size=min(n, len(data.train)), replace=False)


def hyperparameters(gp: Any) -> Given:
    """Return mean, signal variance and noise variance of a fitted model of one target."""
    return {
        name: float(np.ravel(getattr(gp, f"{name}_"))[0])
        for name in ("mean", "signal_variance", "noise_variance")
    }


def fit_subset(source: Source, kernel: str, n: int, seed: int) -> Given:
    """Return the hyperparameters of an exact GP on n random rows, by its evidence (the paper's protocol)."""
    data = source.load()
    rows = subset(data, n, seed, "hyperparameters")
    return hyperparameters(ExactGP(KERNELS[kernel]).fit(data.X[rows], data.y[rows]))


def prepare(
    data: Regression, method: Method, n_components: int, seed: int
) -> tuple[Callable[[dict[str, Any]], Any], int | None]:
    """Return the function that fits by given options (what fits share is done), and bytes a molecule."""
    if method.family == "subset":
        rows = subset(data, n_components, seed, "subset GP")
        x, y = data.X[rows], data.y[rows]
        return lambda options: ExactGP(KERNELS[method.kernel], **options).fit(x, y), None
    x, y = data.X[data.train], data.y[data.train, None]
    if method.family == "stochastic":
        landmarks = method.feature_map(n_components, seed)
        return lambda options: StochasticSparseGP(landmarks, **options, seed=seed).fit(x, y), 4 * n_components
    feature_map = method.feature_map(n_components, seed).fit(x)
    statistics = sum_rows(x, y, feature_map, n_components=n_components, exponents=choose_exponent(y))
    width = -(-n_components // 8) if feature_map.one_bit else 4 * n_components
    return lambda options: gp_for(feature_map, **options).fit_statistics(statistics, feature_map), width


def warm_up(data: Regression, method: Method, seed: int) -> None:
    """Run a method once on few rows, so that compiling (at the very first run) is in no timing."""
    few = Regression("", data.X, data.y, data.train[:200], data.test[:0])
    fit, _ = prepare(few, method, min(32, len(few.train)), seed)
    gp = fit({"mean": 0.0, "signal_variance": 1.0, "noise_variance": 1.0})
    gp.predict(data.X[few.train[:20]], return_std=True)


def run_method(
    source: Source,
    method: Method,
    n_components: int,
    given: Given | None,
    protocols: tuple[str, ...],
    seed: int,
) -> list[dict[str, Any]]:
    """Return one row a protocol: figures of merit on the test rows, seconds by part, hyperparameters."""
    data = source.load()
    x, y = data.X[data.test], data.y[data.test]
    warm_up(data, method, seed)
    watch = Stopwatch()
    fit, width = prepare(data, method, n_components, seed)
    shared = watch.lap()
    found = []
    for protocol in protocols:
        options: dict[str, Any] = dict(given or {}) if protocol == "paper" else {}
        if method.family == "sparse" and protocol != "paper":
            options["criterion"] = protocol
        gp = fit(options)
        parts = {"features and sums": shared, "fit": watch.lap()}
        mean, std = gp.predict(x, return_std=True)
        parts["predict"] = watch.lap()
        found.append(
            {
                "kernel": method.kernel,
                "method": method.name,
                "M": n_components,
                "protocol": protocol,
                "seed": seed,
                **merit(y, mean, std),
                **{unit: sum(part[unit] for part in parts.values()) for unit in ("cpu_s", "wall_s")},
                "parts": parts,
                "bytes_per_molecule": width,
                "hyperparameters": hyperparameters(gp),
            }
        )
        watch.lap()
    return found


def measure(
    source: Source,
    method: Method,
    n_components: int,
    given: Given | None,
    protocols: tuple[str, ...],
    seed: int,
) -> list[dict[str, Any]]:
    """Run a method in a fresh process; its peak memory, data and libraries included, joins each row."""
    if method.family == "stochastic":
        protocols = tuple(name for name in protocols if name == "paper")
    elif method.family != "sparse":
        protocols = tuple(name for name in protocols if name != "bound")
    rows, cost = run_fresh(run_method, source, method, n_components, given, protocols, seed)
    return [{**row, "peak_gib": cost.peak_gib} for row in rows]
