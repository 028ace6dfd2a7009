"""How many of the best products of the published space for Thompson sampling are found, by scores so far.

The space of Klarich, Goldman, Kramer, Riley & Walters 2024 (J. Chem. Inf. Model. 64) has 94,250,000
quinazolinones: 376 aminobenzoic acids, 500 amines and 500 acids in one reaction that makes a ring. Its score
is the Tanimoto similarity of ECFP4 (2,048 bits) to one product, and the authors give the best 100 of all.
Both are in their repository, PatWalters/TS, whose files are not repeated here. --space is a folder with the
reaction in a file .smarts and the reagents of each slot in files .smi, in the order of their names:

    1_aminobenzoic_ok.smi  2_primary_amines_500.smi  3_carboxylic_acids_500.smi     of data/
    quinazoline.smarts     "reaction_smarts" of examples/quinazoline_fp_sim.json

and --best their benchmark/benchmark_data/quinazoline_exhaustive.csv, SMILES and score of the best 100.

As in space_learning.py, daskrf begins with --first random products, fits a model to the scores so far, asks
for --batch more, and so on, up to --most, or until all of the best have been scored.

    python benchmarks/space_published.py --space FOLDER --best CSV [--query SMILES] [--seeds 0 1 2]
                                         [--models default metric] [--first 1000] [--batch 500] [--most 5000]
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from common import print_header, table, write_results
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator
from space_learning import FORMATS, Plan, campaign, campaign_parser, followed, summary

QUERY = "CCc1cccc2c(=O)n(C3CNC3)c([C@@H](C)N)nc12"


class Similarity:
    """Scores products by their similarity to a molecule, and knows the best of all.

    Attributes
    ----------
    folder : Path
        The space.
    n_best : int
        Number of the best molecules.
    hits : set of str
        The best molecules that have been scored.
    n : int
        Number of evaluations.
    """

    direction: Literal["maximize"] = "maximize"

    def __init__(self, folder: Path, best: Path, query: str) -> None:
        self.folder, self.n, self.hits = folder, 0, set[str]()
        self._generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
        self._query = self._fingerprint(query)
        with best.open(newline="") as file:
            rows = [(Chem.CanonSmiles(row["SMILES"]), float(row["score"])) for row in csv.DictReader(file)]
        self.best = {smiles for smiles, _ in rows}
        self.n_best = len(self.best)
        for smiles, score in rows:
            if abs(self.score(smiles) - score) > 1e-6:
                raise SystemExit(f"{smiles} has the score {self.score(smiles)}, and {score} in {best}.")

    def _fingerprint(self, smiles: str) -> DataStructs.ExplicitBitVect:
        return self._generator.GetFingerprint(Chem.MolFromSmiles(smiles))

    def score(self, smiles: str) -> float:
        """Return the score of a molecule."""
        return float(DataStructs.TanimotoSimilarity(self._query, self._fingerprint(smiles)))

    def scores_of(self, products: Mapping[str, Sequence[Any]]) -> npt.NDArray[np.float64]:
        """Return the scores of products, and count them."""
        smiles = [Chem.CanonSmiles(text) for text in products["smiles"]]
        self.n += len(smiles)
        self.hits |= self.best.intersection(smiles)
        return np.array([self.score(text) for text in smiles])


def main(arguments: list[str] | None = None) -> None:
    options = campaign_parser(__doc__, seeds=[0, 1, 2])
    options.add_argument("--space", type=Path, required=True, help="folder of the reaction and its reagents")
    options.add_argument("--best", type=Path, required=True, help="CSV file of the best: SMILES, score")
    options.add_argument("--query", default=QUERY, help="molecule that others are compared with")
    given = options.parse_args(arguments)
    print_header(given.seeds)
    rows: list[dict[str, Any]] = []
    for seed in given.seeds:
        for model in given.models:
            scores = Similarity(given.space, given.best, given.query)
            with tempfile.TemporaryDirectory() as folder:
                rounds = campaign(scores, model, Plan.of(given), seed, Path(folder))
                told = followed(rounds, f"{model}, seed {seed}", scores.n_best)
            rows.append({"space": "similarity", "way": f"daskrf, {model}", "seed": seed, "rounds": told})
    print(table(summary(rows, given.first), FORMATS))
    settings = {name: value for name, value in vars(given).items() if name not in ("output", "seed")}
    settings |= {"space": given.space.name, "best": given.best.name}
    write_results(given.output, "space_published", seed=given.seeds, settings=settings, results=rows)


if __name__ == "__main__":
    main()
