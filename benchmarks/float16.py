"""What it costs to store features as float16 instead of float32: R2 and log probability on docking scores.

    python benchmarks/float16.py [--components 1024 2048]

Features of the rows are rounded, as a feature store of that type rounds them, before the sums, the fit by the
evidence on all training rows, and the prediction of the test rows (Enamine50k, the split of the other
benchmarks). The last column is the root mean square change of the predicted means, over their spread.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from common import Regression, enamine50k, merit, parser, print_header, table, write_results
from sklearn.base import clone

from daskrf.features import FeatureMap, LandmarkFeatures, TanimotoDotProductFeatures
from daskrf.gp import SufficientStatistics, gp_for

BLOCK = 4096


def fitted(
    data: Regression, feature_map: FeatureMap, dtype: type[np.floating]
) -> tuple[np.ndarray, np.ndarray]:
    """Return predicted means and deviations of the test rows, from features rounded to `dtype`."""

    def rounded(X: sp.csr_matrix) -> np.ndarray:
        return feature_map.transform(X).astype(dtype).astype(np.float32)

    statistics = SufficientStatistics.zero(
        feature_map.n_components, one_bit=False, precision=feature_map.gram_precision
    )
    for rows in np.split(data.train, range(BLOCK, len(data.train), BLOCK)):
        statistics.update(rounded(data.X[rows]), data.y[rows])
    gp = gp_for(feature_map).fit_statistics(statistics, feature_map)
    gp.feature_map_ = None  # it is shown features
    return gp.predict(rounded(data.X[data.test]), return_std=True)


def main() -> None:
    """Compare both types for both maps, print a table, and write the result file."""
    options = parser(__doc__)
    options.add_argument("--components", type=int, nargs="+", default=[1024, 2048])
    settings = options.parse_args()
    print_header(settings.seed)
    data = enamine50k()
    results = []
    for kind in (TanimotoDotProductFeatures, LandmarkFeatures):
        for n_components in settings.components:
            feature_map = clone(kind(n_components, random_state=settings.seed)).fit(data.X[data.train])
            single, half = (fitted(data, feature_map, dtype) for dtype in (np.float32, np.float16))
            row: dict[str, object] = {"map": kind.__name__, "M": n_components}
            for name, found in (("float32", single), ("float16", half)):
                merits = merit(data.y[data.test], *found)
                row[f"R2, {name}"] = merits["r2"]
                row[f"log probability, {name}"] = merits["mean_log_probability"]
            row["change of means"] = float(np.sqrt(np.mean((half[0] - single[0]) ** 2)) / np.std(single[0]))
            results.append(row)
    formats = {name: ".5f" for name in results[0] if "," in name}
    print(table(results, {"map": "", "M": "d", **formats, "change of means": ".1e"}))
    write_results(
        settings.output,
        "float16",
        seed=settings.seed,
        settings={"components": settings.components},
        results=results,
    )


if __name__ == "__main__":
    main()
