"""Add a new batch of scores to a model, without reading the old molecules again."""

from __future__ import annotations

import numpy as np
from scipy import sparse

import daskrf
from daskrf.demo import objective
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.gp import RandomFeatureGP
from daskrf.molecules import Fingerprinter, FingerprintSpec


def main() -> None:
    """Fit to 600 molecules, add 400, and compare with a fit to all of them."""
    smiles = [product.smiles for product in ReactionLibrary(seed=1).iterate(0, 1500)]
    fingerprints = Fingerprinter(FingerprintSpec(kind="morgan", radius=1))(smiles).fingerprints
    scores = objective.score(smiles)
    feature_map = daskrf.TanimotoMinMaxFeatures(n_components=1024)

    model = RandomFeatureGP(feature_map).fit(fingerprints[:600], scores[:600])
    before = error(model, fingerprints[1000:], scores[1000:])
    model.partial_fit(fingerprints[600:1000], scores[600:1000])
    after = error(model, fingerprints[1000:], scores[1000:])

    whole = RandomFeatureGP(feature_map).fit(fingerprints[:1000], scores[:1000])
    difference = np.abs(whole.predict(fingerprints[1000:]) - model.predict(fingerprints[1000:])).max()
    print(f"root mean squared error: {before:.3f} with 600 labels, {after:.3f} with 1,000")
    print(f"largest difference to a fit of all 1,000 at once: {difference:.1e}")


def error(model: RandomFeatureGP, fingerprints: sparse.csr_matrix, scores: np.ndarray) -> float:
    """Return the root mean squared error on molecules that the model has not seen."""
    return float(np.sqrt(np.mean((model.predict(fingerprints) - scores) ** 2)))


if __name__ == "__main__":
    main()
