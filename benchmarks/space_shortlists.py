"""Whether the estimate of what a shortlist lacks is right, on spaces whose products are all ranked.

A model of --labels random products ranks all products of a space (`daskrf screen -k`), and then a shortlist
of each length (`--shortlist`), which a surrogate chooses. The share of the best k of the first among the hits
of the second is the truth; beside it stands the estimate of the report, with its 95 % interval. Spaces are
those of `space_learning.py` whose scores are lists.

    python benchmarks/space_shortlists.py [--spaces pharmacophores-2 pharmacophores-3 peptides]
                                          [--seeds 0 1 2] [--labels 1000] [-k 100 1000]
                                          [--shortlists 2000 10000 40000] [--small]
"""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
from common import parser, print_header, table, write_results
from peptides import SMALL, peptide_space
from pharmacophores import SPACES as REAL
from pharmacophores import real_space
from spacetruth import Evaluations, ListedSpace

import daskrf

SPACES = *REAL, "peptides"


def space_of(name: str, folder: Path, *, small: bool) -> ListedSpace:
    """Write one of `SPACES`."""
    if name == "peptides":
        return peptide_space(folder, SMALL) if small else peptide_space(folder)
    return real_space(name, folder, small=small)


def compared(space: ListedSpace, seed: int, options: Any, folder: Path) -> list[dict[str, Any]]:
    """Return, for each number of hits and each shortlist, the share of the best k that it holds."""
    folder.mkdir()
    labels = daskrf.sample(space.blocks.folder, folder / "first.csv", n=options.labels, seed=seed).table
    scores = pa.array(Evaluations(space).scores_of(labels.to_pydict()))
    pa.csv.write_csv(labels.select(["smiles"]).append_column("score", scores), folder / "labels.csv")
    model = folder / "model"
    daskrf.fit(folder / "labels.csv", output=model, target="score", direction=space.direction)
    start = time.perf_counter()
    every = daskrf.screen(model, space.blocks.folder, folder / "all.csv", k=max(options.k), std="none")
    print(f"  all ranked in {time.perf_counter() - start:.0f} s", flush=True)
    assert any("ranked every product" in note for note in every.notes)
    best = every.table["smiles"].to_pylist()
    rows = []
    for k in options.k:
        for size in options.shortlists:
            if size < k:
                continue
            start, output = time.perf_counter(), folder / f"{k}-{size}.csv"
            report = daskrf.screen(model, space.blocks.folder, output, k=k, shortlist=size, std="none")
            share = len(set(report.table["smiles"].to_pylist()) & set(best[:k])) / k
            rows.append(
                {
                    "k": k,
                    "shortlist": size,
                    "share": share,
                    **estimate(report.notes),
                    "s": time.perf_counter() - start,
                }
            )
            print(f"  {rows[-1]}", flush=True)
    return rows


def estimate(notes: tuple[str, ...]) -> dict[str, float]:
    """Return the estimated share and its interval from the notes of a screen."""
    pattern = r"an estimated (\d+)% \(95 % interval (\d+)% - (\d+)%\) of the best"
    ((share, low, high),) = [found.groups() for note in notes if (found := re.search(pattern, note))]
    return {"estimate": int(share) / 100, "low": int(low) / 100, "high": int(high) / 100}


FORMATS = {
    "space": "",
    "seed": "",
    "k": ",",
    "shortlist": ",",
    "share": ".0%",
    "estimate": ".0%",
    "low": ".0%",
    "high": ".0%",
    "s": ".0f",
}


def main(arguments: list[str] | None = None) -> None:
    """Print what shortlists hold, and what they were estimated to hold."""
    reader = parser(__doc__)
    reader.add_argument(
        "--spaces", nargs="+", default=["pharmacophores-2", "pharmacophores-3", "peptides"], choices=SPACES
    )
    reader.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    reader.add_argument("--labels", type=int, default=1000)
    reader.add_argument("-k", type=int, nargs="+", default=[100, 1000])
    reader.add_argument("--shortlists", type=int, nargs="+", default=[2000, 10_000, 40_000])
    reader.add_argument("--small", action="store_true", help="small spaces")
    options = reader.parse_args(arguments)
    print_header(options.seeds)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.spaces:
            space = space_of(name, Path(folder) / name, small=options.small)
            for seed in options.seeds:
                print(f"{name}, seed {seed}", flush=True)
                about = {"space": name, "seed": seed}
                rows += [
                    about | row for row in compared(space, seed, options, Path(folder) / f"{name}-{seed}")
                ]
    print(table(rows, FORMATS))
    inside = [row["low"] <= row["share"] <= row["high"] for row in rows]
    print(f"within its interval: {sum(inside)} of {len(inside)}")
    settings = {name: value for name, value in vars(options).items() if name not in ("output", "seed")}
    write_results(options.output, "space_shortlists", seed=options.seeds, settings=settings, results=rows)


if __name__ == "__main__":
    main()
