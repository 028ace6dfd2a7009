"""Where the time of a molecule goes, from SMILES to mean and standard deviation: daskrf beside other ways.

Each way learns 5,000 docking scores of Enamine50k and predicts other molecules of the same file, on one core
and with one BLAS thread, all in turn:

- "script": what most scripts do. RDKit's Morgan bits of radius 2 in 2,048 columns as NumPy arrays, and
  scikit-learn's BayesianRidge, a Gaussian process with a linear kernel.
- "xGPR": the same bits and 4,096 random features of a Gaussian kernel (the package's own, if installed); its
  features are made with the means, and once more with the variances.
- "daskrf, RDKit reads": Morgan counts of radius 1, one-bit Tanimoto features, M = 4096, exact standard
  deviations: the way of version 0.1.0, in which RDKit read every molecule.
- "daskrf": the same features, read in compiled code; standard deviations from posterior samples with an error
  of 3 %.

Seconds are CPU seconds of the process and of the helper in which RDKit works for daskrf. The picture shows
microseconds a molecule by stage.

    OPENBLAS_NUM_THREADS=1 python benchmarks/breakdown.py [--molecules 5000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import statistics
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import data_folder, parser, print_header, table, write_results
from figures import BLUE, GREEN, GREY, ORANGE, new_figure, save
from fingerprint import processor_time
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from sklearn.linear_model import BayesianRidge

import daskrf.molecules.counts.fingerprints as fingerprints
from daskrf import RandomFeatureGP, TanimotoMinMaxFeatures
from daskrf.gp.processes.sampledvariances import samples_for
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.isolation import end_idle

STAGES = {"read and count": BLUE, "features": ORANGE, "means": GREEN, "standard deviations": GREY}
M, SIZE, LABELS, ERROR = 4096, 2048, 5_000, 0.03
Way = Callable[[list[str]], Iterator[str]]
"""Does the stages for some SMILES, and yields the name of each when it is done."""


def bits_of(smiles: list[str]) -> Any:
    """Return Morgan bits as most scripts make them."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=SIZE)
    return np.array([generator.GetFingerprintAsNumPy(Chem.MolFromSmiles(text)) for text in smiles])


def script(smiles: list[str], y: Any) -> Way:
    """Return RDKit, NumPy and scikit-learn."""
    model = BayesianRidge().fit(bits_of(smiles), y)

    def run(texts: list[str]) -> Iterator[str]:
        bits = bits_of(texts)
        yield "read and count"
        model.predict(bits)
        yield "means"
        model.predict(bits, return_std=True)
        yield "standard deviations"

    return run


def xgpr(smiles: list[str], y: Any) -> Way:
    """Return RDKit, NumPy and xGPR."""
    package = importlib.import_module("xGPR")
    data = package.build_regression_dataset(bits_of(smiles).astype(np.float32), y, chunk_size=2000)
    model = package.xGPRegression(num_rffs=M, variance_rffs=512, kernel_choice="RBF", verbose=False)
    model.set_hyperparams(np.array([0.0, -2.0]), data)
    model.fit(data)

    def run(texts: list[str]) -> Iterator[str]:
        bits = bits_of(texts).astype(np.float32)
        yield "read and count"
        model.predict(bits, get_var=False)
        yield "means"
        model.predict(bits, get_var=True)
        yield "standard deviations"

    return run


def ours(smiles: list[str], y: Any, *, read: bool) -> Way:
    """Return daskrf's stages; with `read` molecules are read without RDKit, and deviations are sampled."""
    count, feature_map = Fingerprinter(FingerprintSpec(radius=1)), TanimotoMinMaxFeatures(M)
    model = RandomFeatureGP(n_components=M).fit(feature_map.transform_bits(count(smiles).fingerprints), y)
    if read:
        model = model.with_sampled({0: model.sampled_variances(samples_for(ERROR, M))})

    def run(texts: list[str]) -> Iterator[str]:
        fingerprints.is_due = lambda n_seen: read
        rows = count(texts).fingerprints
        yield "read and count"
        bits = feature_map.transform_bits(rows)
        yield "features"
        model.predict(bits)
        yield "means"
        model.predict(bits, return_std=True)
        yield "standard deviations"

    return run


WAYS: dict[str, Callable[[list[str], Any], Way]] = {
    "script": script,
    "xGPR": xgpr,
    "daskrf, RDKit reads": lambda smiles, y: ours(smiles, y, read=False),
    "daskrf": lambda smiles, y: ours(smiles, y, read=True),
}


def timed(way: Way, texts: list[str]) -> dict[str, float]:
    """Return the microseconds a molecule of each stage; deviations are those beyond the means."""
    end_idle()  # a helper remembers its latest answers
    Fingerprinter(FingerprintSpec(radius=1))(["[Fe]"])  # starts another
    found, start = dict.fromkeys(STAGES, 0.0), processor_time()
    for stage in way(texts):
        now = processor_time()
        found[stage] += (now - start) / len(texts) * 1e6
        start = now
    found["standard deviations"] = max(0.0, found["standard deviations"] - found["means"])
    return found


def draw(rows: list[dict[str, Any]], folder: Path) -> None:
    """Draw a bar of each way, on the right those of daskrf alone."""
    figure, axes = new_figure(1, 2, width=10, height=3.2, gridspec_kw={"width_ratios": [3, 2]})
    for ax, shown in zip(axes, (rows, rows[-1:]), strict=True):
        names, left = [row["way"] for row in shown], np.zeros(len(shown))
        for stage, color in STAGES.items():
            width = np.array([row[stage] for row in shown])
            ax.barh(names, width, left=left, color=color, label=stage)
            left += width
        for name, total in zip(names, left.tolist(), strict=True):
            ax.annotate(f" {total:,.0f}", (total, name), va="center", fontsize=8)
        ax.set_xlabel("CPU microseconds a molecule")
        ax.set_xlim(0, left.max() * 1.12)
        ax.invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    axes[1].set_title("daskrf alone", fontsize=10)
    save(figure, folder, "breakdown")


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = parser(__doc__)
    found.add_argument("--molecules", type=int, default=5_000, help="to predict (%(default)s)")
    found.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    return found


def main(argv: list[str] | None = None) -> None:
    """Print and write the table, and draw it."""
    options = arguments().parse_args(argv)
    print_header(options.seed)
    with gzip.open(data_folder() / "Enamine50k_scores.csv.gz", "rt") as file:
        lines = [line.rsplit(",", 1) for line in file.read().splitlines()[1:]]
    order = np.random.default_rng(options.seed).permutation(len(lines))
    learned, asked = order[:LABELS], order[LABELS : LABELS + options.molecules]
    smiles, y = [lines[i][0] for i in learned], np.array([float(lines[i][1]) for i in learned])
    texts = [lines[i][0] for i in asked]
    ways: dict[str, Way] = {}
    for name, make in WAYS.items():
        try:
            ways[name] = make(smiles, y)
        except ImportError as error:
            print(f"left out: {name} ({error})")
    Fingerprinter(FingerprintSpec(radius=1)).prepare(texts)
    times: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(options.rounds):
            for name in list(ways)[:: 1 if number % 2 else -1]:
                times[name].append(timed(ways[name], texts))
    rows: list[dict[str, Any]] = []
    for name, several in times.items():
        row = {stage: statistics.median(each[stage] for each in several) for stage in STAGES}
        rows.append({"way": name, **row, "all": sum(row.values())})
    print(f"\n{len(texts):,} molecules of Enamine50k, one core, CPU microseconds a molecule")
    print(table(rows, {"way": "", **dict.fromkeys([*STAGES, "all"], ".1f")}))
    settings = {"molecules": len(texts), "rounds": options.rounds}
    write_results(options.output, "breakdown", seed=options.seed, settings=settings, results=rows)
    draw(rows, Path(options.output))


if __name__ == "__main__":
    main()
