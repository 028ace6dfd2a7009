"""CPU time of each stage of the pipeline, in one process, files and stores included.

    python benchmarks/pipeline.py /path/to/smiles.smi

Prints molecules a CPU second by stage, and the cost of SMILES -> fingerprint store over that of
fingerprint store -> packed features on disk, each the median of the rounds of one run.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import processor_time
from threadpoolctl import threadpool_limits

from daskrf import FingerprintSpec, TanimotoMinMaxFeatures, featurize, fingerprint, fit, predict, screen
from daskrf.files.backend import as_path
from daskrf.molecules import Fingerprinter
from daskrf.molecules.isolation import end_idle
from daskrf.storage.stores.fingerprintstore import FingerprintStore


def cpu_seconds(call: Callable[[], object], *outputs: Path) -> float:
    """Return the CPU seconds of `call`, RDKit's helper included; its outputs are removed first."""
    for path in outputs:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    end_idle()  # a helper remembers its latest answers
    Fingerprinter()(["[Fe]"])  # starts another: the engine leaves metals to RDKit
    start = processor_time()
    call()
    return processor_time() - start


def one_round(smiles: str, directory: Path, n_components: int, n_labels: int) -> dict[str, float]:
    """Run every stage once and return its CPU seconds a molecule."""
    features = TanimotoMinMaxFeatures(n_components)
    fp, phi, model = directory / "fp", directory / "phi", directory / "model"
    pred, hits, labels = directory / "pred", directory / "hits.parquet", directory / "labels.csv"
    seconds = {
        "fingerprint": cpu_seconds(lambda: fingerprint(smiles, fp, spec=FingerprintSpec("morgan")), fp)
    }
    n = FingerprintStore.open(as_path(fp)).counts()["kept"]
    n_labels = min(n_labels, n // 2)
    rows = np.sort(np.random.default_rng(0).permutation(n)[:n_labels])
    y = np.random.default_rng(1).standard_normal(n_labels)
    labels.write_text("row,y\n" + "".join(f"{r},{v}\n" for r, v in zip(rows, y, strict=True)))
    seconds["featurize"] = cpu_seconds(lambda: featurize(fp, features, phi), phi)
    fixed = {"mean": 0.0, "signal_variance": 0.5, "noise_variance": 0.5}
    fit_seconds = cpu_seconds(lambda: fit(phi, labels, model, key="row", **fixed), model)
    seconds["screen, from features"] = cpu_seconds(
        lambda: screen(model, phi, hits, std="none", maximize=False), hits
    )
    seconds["screen, from fingerprints"] = cpu_seconds(
        lambda: screen(model, fp, hits, std="none", maximize=False), hits
    )
    seconds["predict with std"] = cpu_seconds(lambda: predict(model, phi, pred), pred)
    each = {name: value / n for name, value in seconds.items()}
    return {**each, "fit, hyperparameters given": fit_seconds / n_labels}


def main() -> None:
    """Parse the command line, run the rounds, print medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("smiles", help="file of SMILES, some thousand at least")
    parser.add_argument("-M", "--components", type=int, default=4096)
    parser.add_argument("--labels", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, threadpool_limits(limits=1):
        path = Path(directory)
        one_round(options.smiles, path, options.components, options.labels)  # compiles, loads RDKit's tables
        rounds = [
            one_round(options.smiles, path, options.components, options.labels) for _ in range(options.rounds)
        ]
    print(f"M = {options.components}, one process, one BLAS thread, {options.rounds} rounds, CPU time")
    for stage in rounds[0]:
        print(f"  {stage:<28}{1 / statistics.median(r[stage] for r in rounds):>12,.0f} molecules/s")
    ratio = statistics.median(r["fingerprint"] / r["featurize"] for r in rounds)
    print(f"  SMILES -> fingerprint store costs {ratio:.1f} times fingerprint store -> features on disk")


if __name__ == "__main__":
    main()
