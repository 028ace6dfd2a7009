"""From a Dask DataFrame of SMILES in Parquet to predictions in Parquet, in a graph of your own.

Each partition is read, predicted and written by one task, and no row is lost: one that cannot be read has NaN
and a reason. Where nothing else is to be done with the rows, `daskrf.predict(model, files, output)` is
simpler, and goes on where it was interrupted.

Dask DataFrames need pandas: pip install 'dask[dataframe]'.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import dask.dataframe as dd
import pandas as pd

import daskrf
from daskrf.demo import objective
from daskrf.demo.enumeration import enumerate_to_file
from daskrf.models.views import Predictor


def write_library(folder: Path) -> pd.DataFrame:
    """Write library/*.parquet (3,000 molecules and one line that is none), and return them."""
    text = enumerate_to_file(folder / "library.smi", 3000).read_text().splitlines()[1:]
    rows = pd.DataFrame([line.split() for line in text], columns=["smiles", "id"])
    rows.loc[len(rows)] = ["not a molecule", "note"]
    dd.from_pandas(rows, npartitions=4).to_parquet(folder / "library", write_index=False)
    return rows


@functools.cache
def model_at(path: str) -> Predictor:
    """Return a model, which each worker reads once."""
    return daskrf.load(path)


def predicted(rows: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return the rows of a partition with their predictions."""
    mean, std, reasons = model_at(model).predict(rows["smiles"], return_std=True, return_reasons=True)
    return rows.assign(mean=mean, std=std, reason=pd.array(reasons, dtype="string"))


def main() -> None:
    """Fit to the scores of every tenth molecule, predict all, and look at the best."""
    with tempfile.TemporaryDirectory() as name, daskrf.local_cluster(2) as client:
        folder = Path(name)
        scored = write_library(folder).iloc[:3000:10]
        scored = scored.assign(score=objective.score(scored["smiles"].tolist()))
        model = str(folder / "model")
        daskrf.fit(scored, output=model, target="score", direction="minimize", quick=True, client=client)

        library = dd.read_parquet(folder / "library")
        types = library.dtypes.to_dict() | {"mean": "f8", "std": "f8", "reason": "string"}
        predictions = library.map_partitions(predicted, model, meta=types)
        predictions.to_parquet(folder / "predictions", write_index=False)

        table = pd.read_parquet(folder / "predictions")
        print(table.nsmallest(5, "mean").drop(columns="reason").round(2).to_string(index=False))
        print(f"{len(table):,} rows, of which {table['mean'].isna().sum()} have no prediction:")
        print(table.loc[table["mean"].isna(), ["smiles", "reason"]].to_string(index=False))


if __name__ == "__main__":  # worker processes import this file
    main()
