"""A campaign: suggest a batch, have it scored by your own command, add the scores, and suggest again.

The command gets two file names: a batch to read, and the scores to write. If anything fails, run the
script again, and it goes on from there: files that exist are kept, and labels are added only once.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import daskrf
from daskrf.demo import objective
from daskrf.demo.enumeration import ReactionLibrary


def campaign(model: Path, library: Path, command: list[str], folder: Path, rounds: int, n: int) -> None:
    """Run some rounds of a campaign in a folder."""
    for number in range(1, rounds + 1):
        batch, scores = folder / f"batch-{number}.csv", folder / f"scores-{number}.csv"
        if not batch.exists():
            earlier = sorted(folder.glob("batch-*.csv"))  # with molecules that could not be scored
            print(daskrf.suggest(model, library, batch, n=n, exclude=earlier))
        if not scores.exists():
            subprocess.run([*command, batch, folder / "unfinished.csv"], check=True)
            (folder / "unfinished.csv").rename(scores)
        print(daskrf.add(model, scores, drop_non_numbers=True))


def score(batch: Path, scores: Path) -> None:
    """Stand in for a docking program: write the scores of a batch."""
    with batch.open(newline="") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    with scores.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["smiles", "score"])
        rows.writerows(zip(smiles, objective.score(smiles).tolist(), strict=True))


def main(folder: Path = Path("campaign")) -> None:
    """Score 100 of 2,000 products at random, and then two batches of 50."""
    folder.mkdir(exist_ok=True)
    library, first, model = folder / "library.smi", folder / "first.csv", folder / "model"
    if not first.exists():
        products = list(ReactionLibrary(seed=2).iterate(0, 2000))
        library.write_text("".join(f"{product.smiles} {product.name}\n" for product in products))
        (folder / "random.csv").write_text("smiles\n" + "".join(f"{p.smiles}\n" for p in products[::20]))
        score(folder / "random.csv", first)
    if not model.exists():
        daskrf.fit(first, output=model, direction="minimize", quick=True)
    campaign(model, library, [sys.executable, __file__], folder, rounds=2, n=50)
    print(daskrf.status(model))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        score(*map(Path, sys.argv[1:]))
    else:
        main()
