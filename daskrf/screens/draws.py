"""Posterior samples of the whole function: their weights are in a file, read once per process."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from daskrf.blas import ONE_BLAS_THREAD
from daskrf.files.backend import absolute, as_path
from daskrf.gp.processes.regressor import RowFunction
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import Target, WeightedSum, values_at
from daskrf.models.models import Model, open_model
from daskrf.sources.sources import Block, FeatureSource, Source
from daskrf.storage.model import Contents, made_once, needed_checkpoint
from daskrf.storage.stores.store import hash_of


def leave_draws(model: Model, target: Target, seed: int, work: PurePath, n_draws: int) -> str:
    """Write the weights of posterior samples to a file that all tasks can read; return the file."""
    several = f"-{n_draws}" if n_draws > 1 else ""
    which = hash_of([target.targets, target.weights])[:16] if isinstance(target, WeightedSum) else target
    kind = "residual-draw" if process_of(model.gp, target)[0].draws_take_rows else "draw"
    path = work / f"{kind}-{model.metadata['spec_hash'][:16]}-{which}-{seed}{several}"

    def make() -> Contents:
        with ONE_BLAS_THREAD:  # the same on any number of processors: one shard draws for all
            gp, place = process_of(model.gp, target)
            weights = (
                gp.weights_of_draws(n_draws, seed, place) if several else gp.weights_of_draw(seed, place)
            )
        return {"weights": weights}, {}

    made_once(path, path.name, make)
    return absolute(path)


@functools.lru_cache(maxsize=1)
def drawn_function(draw: str, path: str, model_hash: str, target: Target, seed: int) -> RowFunction:
    """Return a predictor of one posterior sample of the whole function, or of several."""
    gp, place = process_of(open_model(path, model_hash, statistics=False).gp, target)
    checkpoint = needed_checkpoint(draw, as_path(draw).name)
    return gp.drawn(checkpoint.arrays["weights"], seed, place)


def drawn_values(function: RowFunction, block: Block) -> npt.NDArray[np.float64]:
    """Return the values of a drawn function at the rows of a block, shape (m,), or (m, D) for D functions."""
    return values_at(function, block.phi, rows=block.fingerprints)


def source_of_draws(source: Source, model: Model, target: Target) -> Source:
    """Return a source whose blocks also hold fingerprints, if posterior samples need them."""
    if isinstance(source, FeatureSource) and process_of(model.gp, target)[0].draws_take_rows:
        return replace(source, with_fingerprints=True)
    return source
