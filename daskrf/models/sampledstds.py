"""Approximate standard deviations: posterior samples in a file, which tasks read once per process."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from daskrf.blas import ONE_BLAS_THREAD
from daskrf.errors import InputError, OptionError
from daskrf.files.backend import absolute, as_path
from daskrf.gp.processes.process import FeatureSpaceGP
from daskrf.gp.processes.sampledvariances import SampledVariances, samples_for
from daskrf.gp.processes.separate import SeparateGP, process_of, processes_of
from daskrf.gp.processes.weightedsum import Process
from daskrf.jobs.held import held
from daskrf.models.models import Model, open_model, read_model
from daskrf.quantities import amount
from daskrf.sources.sources import Block, Source
from daskrf.storage.model import Contents, made_once, needed_checkpoint

_MEASURED = 1024  # molecules, at most, whose exact standard deviations are compared


@dataclass(frozen=True)
class SampledStds:
    """Posterior samples of all targets of a model, and the errors of standard deviations from them.

    Attributes
    ----------
    path : str
        The file with the samples.
    n_samples : int
    error : float
        Relative error of the standard deviations of f.
    measured, largest : float
        Its root mean square, and the largest one, over `n_measured` molecules of the library.
    n_measured : int
    """

    path: str
    n_samples: int
    error: float
    measured: float
    largest: float
    n_measured: int

    def __str__(self) -> str:
        compared = (
            f"; of {amount(self.n_measured, 'molecules')} whose exact ones were computed, the error was "
            f"{self.measured:.1%} (root mean square), and {self.largest:.1%} at most"
            if self.n_measured
            else ""
        )
        return (
            f"standard deviations are approximate, from {self.n_samples:,} posterior samples: their relative "
            f"error is {self.error:.1%}{compared}"
        )


def n_samples_of(model: Model, error: float) -> int:
    """Return how many samples give the standard deviations of a model the given relative error.

    Raises
    ------
    InputError
        If they would be no cheaper than exact ones, or the model has no such samples.
    OptionError
        If the error is not a fraction between 0 and 1.
    """
    if not 0 < error < 1:
        raise OptionError(
            f"The relative error of standard deviations must be a fraction between 0 and 1, not {error:g}."
        )
    if not all(getattr(process, "samples_variances", False) for process in processes_of(model.gp)):
        raise InputError(
            f"{model.path.name} has standard deviations of one precision only: approximate ones are for "
            "models on features, without local ones; leave --std-error out (std_error)."
        )
    n_components = len(model.gp.weights_)
    n = samples_for(error, n_components)
    if 2 * n > n_components:
        raise InputError(
            f"A relative error of {error:.2%} takes {n:,} posterior samples, which cost more than exact "
            f"standard deviations by {n_components:,} features; leave --std-error out (std_error)."
        )
    return n


def leave_samples(model: Model, n_samples: int, library: Source, work: PurePath) -> SampledStds:
    """Write posterior samples to a file that all tasks can read, and compare some standard deviations."""
    path = work / f"variances-{model.metadata['spec_hash'][:16]}-{n_samples}"

    def make() -> Contents:
        whole = read_model(model.path)
        with ONE_BLAS_THREAD:  # the same on any number of processors: one shard samples for all
            sampled = {}
            for target in range(len(whole.targets)):
                process, place = process_of(whole.gp, target)
                assert isinstance(process, FeatureSpaceGP)
                sampled[target] = process.sampled_variances(n_samples, target=place)
            errors = _errors(whole.gp, _with(whole.gp, sampled), library)
        arrays = {str(target): each.root for target, each in sampled.items()}
        meta = {
            "error": max(each.error for each in sampled.values()),
            "measured": math.sqrt(float(np.mean(errors**2))) if errors.size else 0.0,
            "largest": float(np.abs(errors).max(initial=0.0)),
            "n_measured": len(errors),
        }
        return arrays, meta

    return SampledStds(absolute(path), n_samples, **made_once(path, path.name, make).metadata)


def open_sampled(path: str, spec_hash: str, samples: str) -> Model:
    """Return a model whose standard deviations are approximate, read once per process."""

    def make() -> Model:
        model = open_model(path, spec_hash, statistics=False)
        arrays = needed_checkpoint(samples, as_path(samples).name).arrays
        sampled = {target: SampledVariances(arrays[str(target)]) for target in range(len(model.targets))}
        return replace(model, gp=_with(model.gp, sampled))

    return held("approximate model", (path, spec_hash, samples), make)


def _with(gp: Process | SeparateGP, sampled: dict[int, SampledVariances]) -> FeatureSpaceGP | SeparateGP:
    """Return a model with approximate standard deviations of all targets."""
    if not isinstance(gp, SeparateGP):
        assert isinstance(gp, FeatureSpaceGP)
        return gp.with_sampled(sampled)
    parts = []
    for process, targets in zip(gp.parts, gp.targets, strict=True):
        assert isinstance(process, FeatureSpaceGP)
        parts.append(process.with_sampled({place: sampled[t] for place, t in enumerate(targets)}))
    return SeparateGP(parts, gp.targets)


def _errors(
    exact: Process | SeparateGP, approximate: Process | SeparateGP, library: Source
) -> npt.NDArray[np.float64]:
    """Return the relative errors of the standard deviations of f of some molecules, by target."""
    errors = [np.empty((0, len(exact.mean_)))]
    for block in _some(library):
        right, rough = (
            gp.predict(block.phi, return_std=True, of="f", diagonal=block.diagonal)[1]
            for gp in (exact, approximate)
        )
        right, rough = (np.reshape(each, (len(block.rows), -1)) for each in (right, rough))
        errors.append(np.divide(rough - right, right, out=np.zeros_like(right), where=right > 0))
    return np.concatenate(errors)


def _some(library: Source) -> Iterator[Block]:
    """Yield some molecules of the first partition that has any."""
    for partition, n_rows in enumerate(library.partition_rows):
        step, left = max(1, n_rows // _MEASURED), _MEASURED
        for block in library.blocks(partition):
            some = block.where(np.arange(0, len(block.rows), step)[:left])
            left -= len(some.rows)
            yield some
            if left <= 0:
                return
        if left < _MEASURED:
            return
