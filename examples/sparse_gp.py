"""Two ways to approximate a Tanimoto kernel: random bits, and similarities to landmarks of the library.

Both use the same stores and commands; a map of landmarks is fitted to the fingerprint store first.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import daskrf
from daskrf.demo import objective
from daskrf.demo.enumeration import ReactionLibrary


def main() -> None:
    """Fit both models to the same 800 molecules of 2,000, and compare their best five."""
    folder = Path(tempfile.mkdtemp(prefix="daskrf-sparse-"))
    smiles = [product.smiles for product in ReactionLibrary(seed=2).iterate(0, 2000)]
    scores = objective.score(smiles[:800])
    (folder / "library.smi").write_text("".join(f"{text} m{i}\n" for i, text in enumerate(smiles)))
    (folder / "labels.csv").write_text("id,y\n" + "".join(f"m{i},{y}\n" for i, y in enumerate(scores)))
    store = folder / "library.fingerprints"
    daskrf.fingerprint(folder / "library.smi", store)

    landmarks = daskrf.LandmarkFeatures(256, kernel=daskrf.TanimotoMinMax(), random_state=0)
    for feature_map in (daskrf.TanimotoMinMaxFeatures(512), landmarks):
        model = folder / type(feature_map).__name__
        labels = folder / "labels.csv"
        print(daskrf.fit(store, labels, model, feature_map=feature_map, direction="minimize"))
        best = daskrf.screen(model, store, folder / f"{model.name}.parquet", k=5, acquisition="ucb").table
        print("  best by ucb:", ", ".join(best["id"].to_pylist()))

    # The same landmarks for something else: a fitted copy, the object above stays as it was.
    fitted = daskrf.fit_map(landmarks, store)
    print(f"landmarks: {fitted.prior_precision().shape} similarities among themselves")


if __name__ == "__main__":
    main()
