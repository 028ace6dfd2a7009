"""What the intervals of a model are made from: the errors of its molecules, each left out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf import seeds
from daskrf.arrays import Matrix, NamedArrays
from daskrf.errors import InputError, OptionError, printable
from daskrf.gp.processes.coregionalized import CoregionalizedGP
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.process import FeatureSpaceGP
from daskrf.gp.processes.separate import SeparateGP, process_of, processes_of
from daskrf.gp.processes.weightedsum import Process, Target
from daskrf.gp.validation.errordistribution import error_distribution
from daskrf.gp.validation.intervals import (
    MOST_MOLECULES,
    interval_factor,
    residuals_of_rows,
    residuals_of_targets,
    studentized_residuals,
)
from daskrf.kernels.metric import MetricGaussian
from daskrf.models.labelled import SMILES
from daskrf.models.models import Model
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.quantities import amount
from daskrf.sources.mapreference import rebuild
from daskrf.storage.model import OrderedBytes
from daskrf.storage.modelmetadata import ModelMetadata

RESIDUALS = "residuals"
"""Name of the array in a model that holds the studentized leave-one-out residuals of each target."""

Array = npt.NDArray[np.float64]

_MOST_FEATURES = (
    8192  # features; above, the factor that leaves molecules out takes as much memory and time as the fit
)
_LINE_BREAK, _BLOCK = ord("\n"), 1 << 24
_AT_ONCE = 1 << 20  # labels


def residual_arrays(
    gp: Process | SeparateGP, arrays: NamedArrays, metadata: ModelMetadata
) -> dict[str, Array]:
    """Return the array of residuals to store with a model: one row for each target, ascending, then NaN.

    `arrays` and `metadata` are what else is stored. There is no array of residuals if `why_none` says so.
    """
    if why_none(gp, arrays, metadata):
        return {}
    residuals = residuals_of_targets(gp) if isinstance(gp, CoregionalizedGP) else []
    for target in range(0 if residuals else len(gp.mean_)):
        process, place = process_of(gp, target)
        if isinstance(process, ExactGP):
            residuals.append(studentized_residuals(process))
            continue
        assert isinstance(process, FeatureSpaceGP)
        rows, y = _some_labels(arrays, metadata, target)
        before, feature_map = process.feature_map_, rebuild(metadata["map"])
        process.feature_map_ = feature_map
        if feature_map.one_bit and not process.one_bit_:  # its bits were stored as numbers
            rows, process.feature_map_ = feature_map.transform(rows), None
        residuals.append(residuals_of_rows(process, rows, y, place))
        process.feature_map_ = before
    stored = np.full((len(residuals), max(map(len, residuals))), np.nan)
    for row, sizes in zip(stored, residuals, strict=True):
        row[: len(sizes)] = sizes
    return {RESIDUALS: stored}


def why_none(gp: Process | SeparateGP, names: Container[str], metadata: ModelMetadata) -> str:
    """Return why molecules cannot be left out without fitting again; empty if they can.

    `names` are those of the arrays of the model.
    """
    if isinstance(gp, CoregionalizedGP):
        iterates = (
            "its targets were solved for together by conjugate gradients, which leave no molecule out of all "
            "of them (--no-together fits each to its own labels)"
        )
        return iterates if gp.solver_ == "cg" else ""
    if all(isinstance(each, ExactGP) for each in processes_of(gp)):
        return ""
    feature_map = rebuild(metadata["map"])
    if isinstance(getattr(feature_map, "kernel_", None), MetricGaussian):
        return "its metric was learned from all labels, so that none of them can be left out"
    if feature_map.n_components > _MOST_FEATURES:
        return f"it has more than {_MOST_FEATURES:,} features"
    if SMILES not in names:
        return "the SMILES of the labelled molecules are not stored with it"
    return ""


def _some_labels(arrays: NamedArrays, metadata: ModelMetadata, target: int) -> tuple[Matrix, Array]:
    """Return fingerprints and labels of some molecules that a target was fitted to.

    Labels are looked at some at a time: there may be hundreds of millions.
    """
    labels, rows = arrays["labels"], arrays["labelled_rows"]
    picked = _picked(labels, rows, target)
    picked_rows, numbers = rows[picked], [np.zeros(0, np.int64)]
    for there in _labelled(labels, target):
        near = rows[there]
        numbers.append(there[((near >= 0) & np.isin(near, picked_rows)) | np.isin(there, picked)])
    chosen = np.concatenate(numbers)
    spec = FingerprintSpec.from_state(metadata["fingerprint"])
    block = Fingerprinter(spec, metadata["fragments"])(_lines(arrays[SMILES], chosen))
    return block.fingerprints, labels[chosen[block.kept], target]


def _labelled(labels: npt.NDArray[np.number], target: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the numbers of the labels of a target, ascending, some at a time."""
    for start in range(0, len(labels), _AT_ONCE):
        yield start + np.flatnonzero(np.isfinite(labels[start : start + _AT_ONCE, target]))


def _picked(
    labels: npt.NDArray[np.number], rows: npt.NDArray[np.int64], target: int
) -> npt.NDArray[np.int64]:
    """Return the numbers of the first labels of some molecules at random, ascending."""
    sample, before = seeds.RandomSample(0, "models/intervals", MOST_MOLECULES), -1
    for there in _labelled(labels, target):
        near = rows[there]  # repeated labels of a row of the library follow one another
        sample.offer(there[(np.concatenate([[before], near[:-1]]) != near) | (near < 0)])
        before = int(near[-1]) if len(near) else before
    return sample.chosen


def _lines(text: npt.NDArray[np.uint8] | OrderedBytes, numbers: npt.NDArray[np.int64]) -> list[str]:
    """Return some lines of a text in bytes, by ascending number; memory does not grow with the text.

    Examples
    --------
    >>> _lines(np.frombuffer(b"C\\nCC\\n\\nCCC", np.uint8), np.array([1, 3]))
    ['CC', 'CCC']
    """
    text = text.again() if isinstance(text, OrderedBytes) else text
    lines, passed, rest = list[bytes](), 0, b""
    for start in range(0, text.shape[0], _BLOCK):
        block = text[(slice(start, start + _BLOCK),)]
        breaks = np.flatnonzero(block == _LINE_BREAK)
        places = numbers[np.searchsorted(numbers, passed) : np.searchsorted(numbers, passed + len(breaks))]
        for place in (places - passed).tolist():
            begin = breaks[place - 1] + 1 if place else 0
            lines.append((b"" if place else rest) + block[begin : breaks[place]].tobytes())
        end = int(breaks[-1]) + 1 if len(breaks) else 0
        rest = (b"" if len(breaks) else rest) + block[end:].tobytes()
        passed += len(breaks)
    if len(numbers) and numbers[-1] == passed:  # the last line has no break
        lines.append(rest)
    return [line.decode() for line in lines]


def has_residuals(model: Model) -> bool:
    """Return whether intervals can be made from what is stored with a model."""
    return RESIDUALS in model.saved.entries


def residuals_of(model: Model) -> list[Array]:
    """Return the residuals of each target; empty without any."""
    if not has_residuals(model):
        return [np.empty(0)] * len(model.targets)
    (stored,) = model.arrays(RESIDUALS)
    return [row[np.isfinite(row)] for row in stored]


def interval_factors(model: Model, levels: Sequence[float]) -> tuple[Array, list[str]]:
    """Return the factors of intervals, shape (n_levels, n_targets), and what is lacking, in words.

    An interval is mean +- factor times the standard deviation of y. Its factor is NaN if a target has too few
    labelled molecules to determine it.

    Raises
    ------
    InputError
        If the model has no residuals, or too few of all targets.
    """
    if not has_residuals(model):
        if why := why_none(model.gp, model.saved.entries, model.metadata):
            why = f"{why}; leave --intervals out"
        else:
            why = "an older version fitted it, without the errors that intervals are made from; fit it again"
        raise InputError(f"{model.path} gives no intervals: {why} (intervals).")
    residuals = residuals_of(model)
    factors = np.array([[interval_factor(sizes, level) for sizes in residuals] for level in levels])
    few = [t for t in range(len(residuals)) if np.isinf(factors[:, t]).any()]
    notes = []
    for t in few:
        name, n = printable(model.targets[t], 60), len(residuals[t])
        lacking = [
            f"{level:g}" for level, factor in zip(levels, factors[:, t], strict=True) if factor == np.inf
        ]
        notes.append(
            f"{amount(n, 'labelled molecules')} of '{name}' do not determine intervals above "
            f"{_highest(n):g} %, so that of {' and '.join(lacking)} % is empty"
        )
    notes += [
        f"'{printable(name, 60)}' is two classes: its intervals are of the regression on 0 and 1, and may "
        "lie beyond these; read its probability"
        for name, classes in zip(model.targets, model.classes, strict=True)
        if classes is not None
    ]
    notes += [
        f"errors of '{printable(name, 60)}' have heavier tails than a normal distribution: a measurement is "
        f"{errors.words()}"
        for name, classes, sizes in zip(model.targets, model.classes, residuals, strict=True)
        if classes is None and not (errors := error_distribution(sizes)).is_normal
    ]
    if np.isinf(factors).all():
        n = max(map(len, residuals))
        if not n:
            raise InputError(
                f"{model.path} gives no intervals: none of its labelled molecules could be left out, since "
                "its features fit each label exactly, or all labels are limits; leave --intervals out."
            )
        raise InputError(
            f"{model.path}: {amount(n, 'labelled molecules')} determine no interval above {_highest(n):g} %; "
            "give lower --intervals (intervals)."
        )
    factors[np.isinf(factors)] = np.nan
    return factors, notes


def check_intervals(model: Model, target: Target, levels: Sequence[float], std: str) -> None:
    """Refuse intervals that a search cannot give: of several targets or a sum, without standard deviations.

    Raises
    ------
    OptionError
        For these.
    InputError
        As `interval_factors`.
    """
    if not levels:
        return
    if not isinstance(target, int):
        raise OptionError(
            "--intervals (intervals) are those of one target, not of a sum or of several; leave them out, "
            "and give the molecules to `daskrf predict --intervals`."
        )
    if std == "none":
        raise OptionError("--intervals (intervals) are made of standard deviations; leave --std none out.")
    interval_factors(model, levels)


def append_intervals(
    table: pa.Table, model: Model, target: Target, levels: Sequence[float]
) -> tuple[pa.Table, list[str]]:
    """Return a table of molecules with the ends of intervals behind "std_y", and what is lacking, in words.

    Parameters
    ----------
    table : pyarrow.Table
        With columns "mean" and "std_y" of the target.
    model : Model
    target : int
        Only without levels it may be a sum.
    levels : sequence of float
        In percent; without any, the table is returned as it is.
    """
    if not levels:
        return table, []
    assert isinstance(target, int)  # see `check_intervals`
    factors, notes = interval_factors(model, levels)
    mean, std_y = (table[name].to_numpy() for name in ("mean", "std_y"))
    place = table.column_names.index("std_y")
    for level, factor in zip(levels, factors[:, target], strict=True):
        ends = (mean - factor * std_y, mean + factor * std_y)
        for name, values in zip(ends_of([level]), ends, strict=True):
            place += 1
            table = table.add_column(place, name, pa.array(values, pa.float64()))
    return table, notes


def ends_of(levels: Iterable[float]) -> list[str]:
    """Return the names of the columns of intervals.

    Examples
    --------
    >>> ends_of([50, 97.5])
    ['low_50', 'high_50', 'low_97.5', 'high_97.5']
    """
    return [f"{end}_{level:g}" for level in levels for end in ("low", "high")]


def _highest(n: int) -> float:
    """Return the highest level that n molecules determine, in percent, rounded down to a tenth."""
    return float(np.floor(1000 * n / (n + 1)) / 10)
