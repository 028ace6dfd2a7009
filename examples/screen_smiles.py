"""From a SMILES file and a table of scores to the best molecules, in one script.

Run it anywhere: it writes its own small input first. Put your own files in its place.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import daskrf
from daskrf.demo import objective
from daskrf.demo.enumeration import enumerate_to_file


def write_inputs(folder: Path) -> None:
    """Write library.smi (3,000 molecules) and labels.csv (scores of every tenth of them)."""
    library = enumerate_to_file(folder / "library.smi", 3000)
    _, *lines = library.read_text().splitlines()
    smiles, names = zip(*(line.split() for line in lines[::10]), strict=True)
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "score"])
        writer.writerows(zip(names, objective.score(smiles).tolist(), strict=True))


def main() -> None:
    """Fingerprint, fit and screen, on the processors of this machine."""
    with tempfile.TemporaryDirectory() as name, daskrf.local_cluster() as client:
        folder = Path(name)
        write_inputs(folder)
        print(daskrf.fingerprint([folder / "library.smi"], folder / "fingerprints", client=client))
        print(
            daskrf.fit(
                folder / "fingerprints",
                folder / "labels.csv",
                folder / "model",
                feature_map=daskrf.TanimotoMinMaxFeatures(n_components=1024),
                target="score",
                direction="minimize",
                client=client,
            )
        )
        print(
            daskrf.screen(
                folder / "model",
                folder / "fingerprints",
                folder / "hits.parquet",
                k=20,
                acquisition="ucb",
                client=client,
            )
        )


if __name__ == "__main__":  # worker processes import this file
    main()
