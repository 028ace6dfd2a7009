"""Features and sums of a dask array of fingerprints, without any store.

Nothing is computed until you call `compute`: `featurize` and `gram` only add tasks to your graph.
"""

from __future__ import annotations

import dask.array as da
import numpy as np
from scipy import sparse

import daskrf
from daskrf import seeds
from daskrf.gp import RandomFeatureGP

N, N_COLUMNS, N_COMPONENTS = 4000, 512, 1024


def fingerprint_block(block_info: dict[None, dict[str, list[tuple[int, int]]]]) -> sparse.csr_matrix:
    """Make the fingerprints of one block: any function that returns CSR, GCXS, COO or NumPy will do."""
    start, stop = block_info[None]["array-location"][0]
    generator = seeds.generator(0, "example/fingerprints", start)
    dense = generator.poisson(0.05, size=(stop - start, N_COLUMNS))
    return sparse.csr_matrix(dense.astype(np.float32))


def targets(block: sparse.csr_matrix) -> np.ndarray:
    """Return something to learn: a weighted sum of the first columns."""
    return np.asarray(block[:, :40] @ np.linspace(-1.0, 1.0, 40), dtype=np.float64)


def main() -> None:
    """Fit a Gaussian process to fingerprints that never exist all at once."""
    fingerprints = da.map_blocks(
        fingerprint_block,
        chunks=((1000,) * (N // 1000), (N_COLUMNS,)),
        dtype=np.float32,
        meta=sparse.csr_matrix((0, 0), dtype=np.float32),
    )
    feature_map = daskrf.TanimotoMinMaxFeatures(n_components=N_COMPONENTS, random_state=0)
    bits = daskrf.featurize(fingerprints, feature_map)
    print(f"lazy: {bits}")

    y = fingerprints.map_blocks(targets, drop_axis=1, dtype=np.float64, meta=np.empty(0)).compute()
    statistics = daskrf.gram(bits, y, n_components=N_COMPONENTS).compute()
    model = RandomFeatureGP(feature_map).fit_statistics(statistics)
    mean, std = model.predict(fingerprints.blocks[0].compute()[:3], return_std=True)
    print(f"{statistics.n} rows; first predictions {mean.round(2)} ± {std.round(2)}, truth {y[:3].round(2)}")


if __name__ == "__main__":
    main()
