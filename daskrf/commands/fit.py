"""Labels + features -> model: one pass over the labelled rows, a tree of sums, one solve."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from distributed import Client
from sklearn.base import clone

from daskrf.commands.fingerprint import FingerprintReport, fingerprint
from daskrf.errors import InputError, OptionError, check_type, printable
from daskrf.features import FeatureMap, default_map
from daskrf.features.featuremap import brief_state, check_feature_map, undecided
from daskrf.files.backend import as_path, backend
from daskrf.files.disk import work_folder
from daskrf.fitting.costs import need_of_labels, need_of_solve, need_of_sums
from daskrf.fitting.exactsolve import (
    need_of_exact,
    why_not_exact,
)
from daskrf.fitting.learner import prepared
from daskrf.fitting.mapsearch import Search, found_map
from daskrf.fitting.parts import PARTS, ExactSolve, FeatureSums, disk_of_sums, grouped, values_of_targets
from daskrf.gp import SparseGP, gp_for
from daskrf.gp.choice.lengthscale import LengthScaleSearch, stand_in
from daskrf.gp.choice.mapchoice import AutoMap, MapChoice
from daskrf.gp.choice.metricchoice import MetricChoice
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.kerneltrials import KernelChoice
from daskrf.gp.processes.priordraws import map_of
from daskrf.gp.processes.separate import SeparateGP, process_of, processes_of
from daskrf.gp.processes.weightedsum import Process
from daskrf.gp.sums.sums import precision_for
from daskrf.jobs.job import AnyShard, Job, Need, Run, ShardReport, run
from daskrf.jobs.memory import Making, MemoryNeed
from daskrf.jobs.pieces import Done, Pieces
from daskrf.jobs.tree import Tree
from daskrf.kernels import Kernel, TanimotoMinMax
from daskrf.kernels.weightedmean import kernel_on_first
from daskrf.models.directions import check_conventions, direction_of, directions_of
from daskrf.models.joinedlabels import LabelFiles, labels_of, other_molecules
from daskrf.models.labelled import SMILES, smiles_array, smiles_of_rows
from daskrf.models.models import Model, read_model
from daskrf.models.rounds import identity_after, redirected, rounds_of
from daskrf.models.toolkits import toolkit_of
from daskrf.molecules import FingerprintSpec
from daskrf.parameters import Command, Option
from daskrf.quantities import amount, features_words, listed
from daskrf.report.notebook import Shown
from daskrf.sources.given import Data
from daskrf.sources.sources import (
    FeatureSource,
    FingerprintSource,
    Source,
    check_map_for,
    folding_words,
    making_of,
    map_for,
    open_source,
)
from daskrf.storage.differences import differences, made_with_others
from daskrf.storage.kinds import check_output, kind_of
from daskrf.storage.labels import JoinedLabels, NoMatchError
from daskrf.storage.model import load_model, save_model
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.rowstore import write_parquet
from daskrf.storage.stores.store import hash_of
from daskrf.tables.columns import smiles_column
from daskrf.tables.measurements import BY_SMILES, Reading, keys_of, label_table, label_words, read_labels
from daskrf.tables.scanning import survey
from daskrf.tables.values.names import find_id, position_of
from daskrf.tables.values.repeats import Repeats
from daskrf.tables.values.values import Scale, is_concentration
from daskrf.workers.progress import Progress

Direction = Literal["maximize", "minimize"]
Key = Literal["id", "smiles", "structure", "parent", "tautomer", "skeleton", "inchikey", "row"]
ProcessName = Literal["auto", "exact", "features"]
Paths = str | os.PathLike[str]


def _by_name(texts: Sequence[str]) -> str | dict[str, str]:
    """Return one value for all targets, or one for each by name, from [NAME=]VALUE."""
    named = {name: value for name, mark, value in (text.rpartition("=") for text in texts) if mark}
    if len(named) != len(texts) and len(texts) > 1:
        raise ValueError("give one for all targets, or NAME=... for each.")
    return named or texts[0]


def _values_to_drop(texts: Sequence[str]) -> list[float] | dict[str, list[float]]:
    """Return values for all targets, or some for each by name, from [NAME=]VALUE."""
    found: dict[str, list[float]] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        try:
            found.setdefault(name, []).append(float(value))
        except ValueError:
            raise ValueError(f"{value!r} is not a number.") from None
    if "" in found and len(found) > 1:
        raise ValueError("give values for all targets, or NAME=... for each.")
    return found.get("", found)


def _directions(texts: Sequence[str]) -> str | dict[str, str]:
    """Return one direction for all targets, or one for each by name, from [NAME=]DIRECTION."""
    found = _by_name(texts)
    for text in [found] if isinstance(found, str) else found.values():
        direction_of(text)  # refuses what is none
    return found


def _check_map(feature_map: FeatureMap | AutoMap | None, source: Paths, fold: int | None = None) -> None:
    """Refuse a map that does not support the fingerprint store `source`, if it is one."""
    check_map_for(_checkable(feature_map), source, fold)


def _checkable(feature_map: FeatureMap | AutoMap | None) -> FeatureMap | None:
    """Return a map in place of one that labels have to determine, wholly or its length scale."""
    if feature_map is None or isinstance(feature_map, AutoMap):
        return None if feature_map is None else feature_map.stand_in
    check_feature_map(feature_map)
    return stand_in(feature_map)


def _is_open(feature_map: FeatureMap | AutoMap | None) -> bool:
    """Return whether labels have to determine the map or its length scale."""
    if feature_map is None or isinstance(feature_map, AutoMap):
        return feature_map is not None
    check_feature_map(feature_map)
    return undecided(feature_map)


CLI = Command(
    "daskrf fit real.fingerprints docking.csv -o docking.model --target score --direction minimize",
    step=3,
    options={
        "direction": Option(metavar="[NAME=]maximize|minimize", repeated=True, convert=_directions),
        "drop_outside": Option(metavar="[NAME=]LOW:HIGH", repeated=True, convert=_by_name),
        "drop_value": Option(metavar="[NAME=]VALUE", repeated=True, convert=_values_to_drop),
        "transform": Option(metavar="[NAME=]pIC50|log10|ln", repeated=True, convert=_by_name),
        "unit": Option(metavar="[NAME=]UNIT", repeated=True, convert=_by_name),
    },
    resumable=True,
    check=_check_map,
)

COUNTS = ("matched", "unmatched", "repeats", "equal_repeats", "library_duplicates", "dropped", "merged")

_CLASS_LABELS = 10  # fewer labels of two values may be chance
_UNKNOWN = (
    "the SMILES of the labelled molecules were not stored, since too much of the library would have to be "
    "read for them, so that copies of these molecules cannot be left out of hits and batches; to have them, "
    "fit to a file of labels with SMILES, without the library"
)
_FEATURES = 4096  # for a named kernel where an exact process would cost too much
_DECADES = 4.0  # quantities measured on a linear scale do not span more
_FEW_DECADES, _SKEWNESS = 1.5, 1.5  # together they hint at a quantity that is best seen as a logarithm
_USUAL_P = (3.0, 12.0)  # medians of pIC50, from mM to pM


@dataclass(frozen=True)
class FitReport(Shown):
    """What `fit` found.

    Attributes
    ----------
    model : Path
    labels : JoinedLabels
        Rows and labels that the model was fitted to, and counts of the labels left out.
    mean, signal_variance, noise_variance, log_marginal_likelihood : tuple of float
        One value for each target.
    n_components : int
        Number of features; 0 for an exact process.
    seconds : float
    warnings : tuple of str
    bound : tuple of float
        For a map of landmarks: Titsias' lower bound of the exact evidence, one for each target; else empty.
    inputs : tuple of str
        How the labels were read.
    directions : tuple of str or None
        Whether to "maximize" or to "minimize" each target; None where no direction was given.
    n_filled : int
        Number of features that differ from 0 in some row; see `FeatureMap.n_filled`.
    process : str
        "exact" or "features".
    kernel : str
        The kernel of an exact process, in words.
    solved : tuple of str
        For an exact process: how the equations of each target were solved, in words.
    choices : tuple of KernelChoice or None
        How the kernel of each target of an exact process was chosen; None if it was given.
    folded : str
        How fingerprints were folded as they were read, in words; empty if they were not.
    length_scale : LengthScaleSearch or None
        How the length scale of the map was found; None if it was given, or there is none.
    map_choice : MapChoice or None
        How the map was chosen; None if it was given.
    metric : MetricChoice or None
        How the metric of the kernel was learned; None if it was given, or there is none.
    was_there : bool
        Whether the model was at the output already, so that nothing was compared anew.
    """

    model: PurePath
    labels: JoinedLabels
    mean: tuple[float, ...]
    signal_variance: tuple[float, ...]
    noise_variance: tuple[float, ...]
    log_marginal_likelihood: tuple[float, ...]
    n_components: int
    seconds: float
    warnings: tuple[str, ...] = ()
    bound: tuple[float, ...] = ()
    inputs: tuple[str, ...] = ()
    directions: tuple[str | None, ...] = ()
    n_filled: int | None = None
    process: str = "features"
    kernel: str = ""
    solved: tuple[str, ...] = ()
    choices: tuple[KernelChoice | None, ...] = ()
    folded: str = ""
    length_scale: LengthScaleSearch | None = None
    map_choice: MapChoice | None = None
    metric: MetricChoice | None = None
    was_there: bool = False

    def __str__(self) -> str:
        kind = (
            f"exact process with {self.kernel}"
            if self.process == "exact"
            else features_words(
                self.n_components if self.n_filled is None else self.n_filled, self.n_components
            )
        )
        lines = [
            f"model of {amount(self.labels.n_molecules, 'labelled molecules')}, {kind}, in {self.model} "
            f"({self.seconds:.1f} s)",
            *(f"  {words}" for words in self.inputs),
            f"  {self.labels}",
            *([f"  {self.folded}"] if self.folded else []),
        ]
        for t, name in enumerate(printable(name, 60) for name in self.labels.names):
            toward = f" (to {self.directions[t]})" if self.directions and self.directions[t] else ""
            bound = f", bound {self.bound[t]:,.1f}" if self.bound else ""
            evidence = self.log_marginal_likelihood[t]
            found = "" if math.isnan(evidence) else f", log marginal likelihood {evidence:,.1f}{bound}"
            lines.append(
                f"  {name}{toward}: mean {self.mean[t]:.4g}, "
                f"signal std {self.signal_variance[t] ** 0.5:.3g}, "
                f"noise std {self.noise_variance[t] ** 0.5:.3g}{found}"
            )
            lines += [f"    {self.solved[t]}"] if self.solved else []
            choice = self.choices[t] if self.choices and not self.was_there else None
            lines += [f"    {line}" for line in str(choice).splitlines()] if choice else []
        for search in (self.map_choice, self.length_scale, self.metric):
            lines += [f"  {line}" for line in str(search).splitlines()] if search is not None else []
        return "\n".join([*lines, *(f"  {warning}" for warning in self.warnings)])


def fit(
    source: Data,
    labels: Data | None = None,
    output: Paths | None = None,
    *,
    spec: FingerprintSpec | None = None,
    feature_map: FeatureMap | AutoMap | None = None,
    process: ProcessName = "auto",
    kernel: Kernel | None = None,
    quick: bool = False,
    fold: int | None = None,
    key: Key | None = None,
    key_column: str | int | None = None,
    target: str | int | Sequence[str | int] | None = None,
    transform: str | Mapping[str, str] | None = None,
    unit: str | Mapping[str, str] | None = None,
    censored: Literal["drop", "value"] | None = None,
    drop_non_numbers: bool = False,
    drop_outside: str | tuple[float, float] | Mapping[str, Any] | None = None,
    drop_value: float | Sequence[float] | Mapping[str, Any] | None = None,
    accept_outliers: bool = False,
    accept_rejects: bool = False,
    replicates: str | int | None = None,
    replicate_std: str | int | None = None,
    replicate_sem: str | int | None = None,
    repeats: Repeats = "all",
    mean: float | None = None,
    signal_variance: float | None = None,
    noise_variance: float | None = None,
    direction: Direction | Mapping[str, str] | None = None,
    confirm_direction: bool = False,
    client: Client | None = None,
    progress: Progress | None = None,
    shard: AnyShard = None,
    prepare: bool = False,
    **model_options: Any,
) -> FitReport | ShardReport:
    """Fit a Gaussian process to labels.

    Chooses prior mean, signal variance and noise variance by the evidence (marginal likelihood) of all
    labels. A map may add options of its own: `daskrf maps NAME` shows them. To finish a job that was
    interrupted, run the same command again.

    Parameters
    ----------
    source : path
        A feature store, or a fingerprint store. The features of a fingerprint store are made as they are
        needed and not kept. With a dense map and M above 8,192 they are made many times, once for each strip
        of the sums and once more: featurize first. Or a file of labels with SMILES, alone: then no library
        is needed, and the molecules get the default fingerprints.
    labels : path, optional
        CSV, TSV, Parquet or SD file with a column of keys and one or more target columns. In Python also a
        DataFrame, or a list of RDKit molecules with properties.
    output : path
        Directory of the model.
    spec : FingerprintSpec, optional
        What to count in the molecules of labels without a library. Default: as in `fingerprint`.
    feature_map : FeatureMap or AutoMap, optional
        For a fingerprint store. Default: `daskrf.features.default_map()`. With `daskrf.gp.AutoMap` the labels
        choose among a few maps; see `daskrf.gp.choose_map`. A length scale that is "auto" is found by the
        labels; see `daskrf.gp.choose_length_scale`. The report lists what was tried. A map that learns from
        the library and is not fitted yet is fitted to the store first, as `fit_map` does. The map also
        decides the model (`FeatureMap.process`), mostly `daskrf.gp.RandomFeatureGP`.
    process : {"auto", "exact", "features"}
        Whether the model is exact, for a fingerprint store and up to some 100,000 labels, or approximates its
        kernel by features. Default: exact where neither a map nor stored features are given, and memory and
        half an hour are enough for as many labels.
    kernel : Kernel, optional
        Of an exact process. Default: the kernel that best predicts labels that are left out, of a short list;
        see `daskrf.gp.choose_kernel`. The report lists what was tried.
    quick : bool
        Take the Tanimoto (min-max) kernel for an exact process, without trying others.
    fold : int, optional
        Number of columns that each kind of unfolded fingerprints is folded to as they are read, for a process
        with features. Default: as in `featurize`. The model predicts from fingerprints folded alike.
    key : {"id", "smiles", "structure", "parent", "tautomer", "skeleton", "inchikey", "row"}
        What joins a label to its molecule: the ID; the SMILES, letter for letter as in the library's files;
        the structure, however its SMILES is written; its parent, the largest fragment without charges, so
        that salts are stripped on both sides; its tautomer, which is its parent whatever the tautomer; its
        skeleton, which is that without stereochemistry and isotopes; the InChIKey, given or made of the
        SMILES; or the row number, counted from 0. By structure takes a few minutes for a million rows, in
        this process, and by InChIKey longer. Default: the ID, or the structure if no ID is in the library or
        the labels have none; without a library, SMILES.
    key_column : str or int, optional
        Column of the labels file that holds the key: a name, or a position counted from 0. Default: the
        column named like the key, else the first; without a library, that of the SMILES.
    target : str or int, or sequence of them, optional
        Column to predict, by name or position; give several for several targets. Default: the only other
        numeric column.
    transform : str, or dict of str to str, optional
        Learn the logarithms of the values: log10, ln or log2; or pIC50, pKi, pEC50 or another p and a name,
        the negative decimal logarithm of a concentration in mol/L. For all targets or for each by name. The
        model predicts on this scale and knows it.
    unit : str, or dict of str to str, optional
        Unit of the values, such as nM. Default: that in a column of units or in the name of the column, as in
        "IC50 (nM)". Values in other units of concentration are converted.
    censored : {"drop", "value"}, optional
        What to do with values such as >10000 and <0.1: leave them out, which loses what is known of inactive
        molecules, or take the number as if it were measured. Default: refuse them. The signs may also stand
        in a column named like "relation".
    drop_non_numbers : bool
        Leave out values that are no finite numbers, such as empty ones, NaN, "inactive" and "n.d.", and those
        without a logarithm. Default: refuse them. All that is left out is counted.
    drop_outside : str, or dict of str to str, optional
        Leave out values outside of a range LOW:HIGH, for all targets or for each by name. One of the two is
        enough. Like those of `drop_value`, they are numbers as they stand in the file. The model keeps both,
        and `add` applies them.
    drop_value : float, or sequence of float, or dict of str to these, optional
        Leave out this value, which stands for a failure, such as 0 or 999 among scores of docking; several,
        or for each target by name.
    accept_outliers : bool
        Take labels that are refused because they are so far from all others that they cannot be right.
    accept_rejects : bool
        Leave out rows of the labels that cannot be read, such as broken records of an SD file, and count
        them. Default: refuse them.
    replicates : str or int, optional
        Column with the number of measurements of which each value is the mean: their mean has so much less
        noise. Rows that repeat a molecule count as its measurements anyway.
    replicate_std : str or int, optional
        Column with the standard deviation of these measurements, on the scale of the model. Needed unless
        the noise variance is given, because a mean alone says nothing of the noise.
    replicate_sem : str or int, optional
        Column with the standard error of each mean, in place of the standard deviation: that divided by the
        root of the number of measurements.
    repeats : {"all", "best", "mean", "median"}
        What several labels of one molecule are: measurements that all count, or poses, protomers and the
        like, of which the best is taken (by `direction`, or by what is known of the target, for each target
        by itself), or measurements in whose place their mean or median counts. The key says what one molecule
        is; without a library, it is its structure then. The model keeps it, and `add` does the same among the
        labels that it adds.
    mean : float, optional
        Prior mean. Default: fitted.
    signal_variance : float, optional
        Prior variance of the objective. Default: fitted.
    noise_variance : float, optional
        Variance of the noise. Default: fitted.
    direction : {"maximize", "minimize"}, or dict of str to these, optional
        Whether large or small values are good, for all targets or for each by name. It does not change the
        fit; screen takes it as its default. To set or change it later, run the same command with another
        direction, or use `add`. A direction is refused where it would choose the worst, such as small pIC50.
    confirm_direction : bool
        Take a direction that is refused as contrary to what is known of the target.
    client, progress, shard, prepare
        As in `fingerprint`. The calling process solves the equations in any case.
    **model_options
        Options that only some models have: `criterion` of `daskrf.gp.SparseGP`; `rows` and `residual` of
        `daskrf.gp.LocalGaussianGP`; for an exact process, `n_draws` and others of `daskrf.gp.ExactGP`.
        Changing them for the model at `output` takes no further pass over the library.

    Returns
    -------
    FitReport, or ShardReport with `shard` or `prepare`

    Raises
    ------
    InputError
        If labels cannot be read, match no molecule, or are all the same.
    StoreError
        If `output` holds a model of other labels or features.
    MemoryLimitError
        If M x M statistics do not fit into memory.
    """
    fixed = {"mean": mean, "signal_variance": signal_variance, "noise_variance": noise_variance}
    if output is None:
        raise InputError("Give output, the directory of the model.")
    targets = [target] if isinstance(target, (str, int)) else target
    job = job_of_fit(
        source,
        labels,
        as_path(output),
        spec=spec,
        feature_map=feature_map,
        process=process,
        kernel=kernel,
        quick=quick,
        fold=fold,
        reading=Reading(
            key=key or key_by_default(labels, repeats),
            key_column=key_column,
            targets=targets,
            drop_non_numbers=drop_non_numbers,
            censored=censored,
            transform=transform,
            unit=unit,
            replicates=replicates,
            replicate_std=replicate_std,
            replicate_sem=replicate_sem,
            drop_outside=drop_outside,
            drop_value=drop_value,
            accept_outliers=accept_outliers,
            accept_rejects=accept_rejects,
            repeats=repeats,
            best=direction if repeats == "best" else None,
        ),
        any_key=key is None,
        fixed=fixed,
        direction=direction,
        confirm_direction=confirm_direction,
        client=client,
        cut=shard is not None or prepare,
        model_options=model_options,
    )
    return run(job, client, progress, shard, prepare)


def job_of_fit(
    source: Paths,
    labels: Paths | None,
    output: PurePath,
    *,
    spec: FingerprintSpec | None = None,
    feature_map: FeatureMap | AutoMap | None,
    process: ProcessName,
    kernel: Kernel | None,
    quick: bool,
    reading: Reading,
    any_key: bool,
    fixed: dict[str, float | None],
    direction: Direction | Mapping[str, str] | None,
    confirm_direction: bool = False,
    client: Client | None,
    cut: bool = False,
    fold: int | None = None,
    model_options: Mapping[str, Any],
) -> _Fit:
    """Return the job of a fit with the arguments of `fit`.

    `any_key` is whether labels may be joined by another key than that of `reading`, and `cut` whether the
    job is made in shards.
    """
    options = _checked(fixed, **model_options)
    told = reading.replicate_std is not None or reading.replicate_sem is not None
    if reading.replicates is not None and not told and fixed["noise_variance"] is None:
        raise OptionError(
            "--replicates needs --replicate-std, --replicate-sem or --noise-variance; add one of them."
        )
    if quick:
        kernel = _quick(kernel, feature_map, process)
    if labels is None:
        check_type("spec", spec, FingerprintSpec, "FingerprintSpec(radius=2)")
        _check_alone(source, reading.key, cut=cut)
    elif spec is not None:
        raise OptionError(
            "The fingerprints of a store are as they were made; leave out their options, such as --kind."
        )
    if process == "auto" and (
        feature_map is not None or (labels is not None and kind_of(source) == "features")
    ):
        process = "features"
    exact = _exact_for(process, kernel, feature_map, options)
    if exact is not None and fold is not None:
        raise OptionError(
            "--fold goes with --map or --process features; an exact process needs no folding: leave it out."
        )
    asked: dict[str, Any] = {
        "reading": reading,
        "output": output,
        "fixed": fixed,
        "options": options,
        "direction": direction,
        "confirmed": confirm_direction,
        "exact": exact,
        "kernel": kernel,
        "auto": process == "auto",
        "feature_map": feature_map,
        "fold": fold,
        "client": client,
    }
    if labels is None:
        unmade = cast(FingerprintSource, None)  # `plan` makes it
        return _FitAlone(features=unmade, labels=source, counted=spec, **asked)
    if _is_open(feature_map) and kind_of(source) == "features":
        raise InputError(f"{source} holds features of a known map; leave out the options of the map.")
    features = open_source(source, _checkable(feature_map), raw=exact is not None, fold=fold)
    if exact is None:
        gp_for(features.feature_map, **options)  # refuses options of other models before reading labels
    return _Fit(features=features, labels=labels, any_key=any_key, **asked)


def key_by_default(labels: Paths | None, repeats: str) -> str:
    """Return the key that is tried first: without a library the SMILES, or structures if repeats merge."""
    if labels is not None:
        return "id"
    return "smiles" if repeats == "all" else "structure"


def _check_alone(source: Paths, key: str, cut: bool) -> None:
    """Refuse what does not go with labels that bring their own molecules."""
    if kind_of(source, missing_ok=True) is not None:
        raise InputError(f"{source} is a store; give a file of labels for its molecules, too.")
    if key not in BY_SMILES:
        raise InputError(f"Labels without a library have SMILES, so they cannot be joined by {key}.")
    if cut:
        raise InputError("A fit without a library is not cut into shards; fingerprint the file first.")


@dataclass
class _Fit(Job[FitReport]):
    """The job of a fit; see `daskrf.jobs.job.Job`. `plan` sets `given` and the fields below it."""

    features: FeatureSource | FingerprintSource
    labels: Paths
    reading: Reading
    output: PurePath
    fixed: dict[str, float | None]
    options: dict[str, Any]
    direction: str | Mapping[str, str] | None
    exact: ExactGP | None = None
    kernel: Kernel | None = None
    auto: bool = False
    id_column: int | None = field(default=None, init=False)  # of labels whose molecules have no other names
    client: Client | None = None
    any_key: bool = False
    feature_map: FeatureMap | AutoMap | None = None
    fold: int | None = None
    confirmed: bool = False
    words: str = ""
    cautions: list[str] = field(default_factory=list)
    given: LabelFiles = field(init=False)
    parts: list[tuple[tuple[int, ...], LabelFiles]] = field(init=False)
    spec: dict[str, Any] = field(init=False)
    stored: Model | None = None
    toward: dict[str, str] = field(default_factory=dict)
    sums: Sequence[FeatureSums | ExactSolve] = ()
    found: Search | None = None
    search: dict[str, Any] | None = None

    name = "fit"

    @property
    def joined(self) -> JoinedLabels:
        """The labels of all targets."""
        return self.given.joined

    @property
    def kinds(self) -> dict[str, tuple[int, int]]:
        """The columns of each kind of fingerprint."""
        return FingerprintSpec.from_state(self.features.store.spec["fingerprint"]).columns

    @property
    def n_structural(self) -> int | None:
        """As in `FingerprintSpec`."""
        return FingerprintSpec.from_state(self.features.store.spec["fingerprint"]).n_structural

    @property
    def found_words(self) -> str:
        """What of the map the labels determined, for a report on parts of them; empty if nothing."""
        if self.found is None:
            return ""
        chosen = "map was chosen" if isinstance(self.found, MapChoice) else "length scale was found"
        return f"the {chosen} on all labels; "

    @property
    def searches(self) -> bool:
        """Whether the labels determine the kernel of an exact process, or its length scale."""
        return self.kernel is None or self.kernel.undecided

    def plan(self, run: Run) -> None:
        """Join the labels, check that there is memory for the sums, and only then fit the map."""
        check_output(self.output, "model")
        self.given = self._join(run)
        self.parts = self.given.parts()
        _check_variance(self.joined, self.fixed)
        given = directions_of(self.direction, self.joined.names)
        self.cautions += check_conventions(
            given, self.joined.scales, self.joined.y, self.labels, confirmed=self.confirmed
        )
        if self.exact is not None and self.kernel is not None and self.n_structural is not None:
            self.kernel = kernel_on_first(self.kernel, self.n_structural)
            self.exact = clone(self.exact).set_params(kernel=self.kernel)
        if self.auto and self.exact is not None:
            self._choose_process(run, self.exact)
        if self.exact is None and _is_open(self.feature_map):
            self._find_map(run, cast("FeatureMap | AutoMap", self.feature_map))
        self.features = prepared(run, self.features, self.need)
        state = None if self.exact else self.features.feature_map.state()
        self.spec = _spec(self.features, state, self.joined, self.kernel)
        self.stored = _stored(self.output, self.spec, self.options)
        known = self.stored.directions if self.stored else {}
        self.toward = given or known
        if self.exact is not None:
            columns = self.kinds if self.searches else None
            self.sums = [ExactSolve(self.features, self.given, self.spec, self.exact, columns)]
            return
        if len(self.parts) == 1:
            ((targets, own),) = self.parts
            self.sums = [FeatureSums(self.features, targets, own, self.spec)]
            return
        run.progress.note(
            "Some molecules lack some targets, so each target is fitted to its own labels "
            f"({len(self.parts)} separate fits)."
        )
        self.sums = [
            FeatureSums(self.features, targets, own, _spec(self.features, state, own.joined))
            for targets, own in self.parts
        ]

    def gathering(self) -> Tree:
        """Return the tree that gathers the fingerprints of all labels, whatever the process."""
        raw = self.features if self.features.raw else open_source(self.features.path, raw=True)
        return ExactSolve(raw, self.given, self.spec, cast(ExactGP, self.exact), None).tree("double")

    def _join(self, run: Run) -> LabelFiles:
        """Return the labels at their rows of the library, joined by the first key by which any is there."""

        def check(n_labels: int, key_bytes: float) -> None:
            run.check(Need(here=need_of_labels(n_labels, key_bytes)))

        path, store, known = self.labels, self.features.store, (self.reading.key, self.reading.key_column)
        for last, (key, column) in enumerate(keys := keys_of(path, known[1]) if self.any_key else [known], 1):
            self.reading = replace(self.reading, key=key, key_column=column)
            self.words = label_words(path, self.reading)
            run.progress.note(self.words)
            try:
                found = labels_of(path, store, run.work, self.reading, check)
                for note in found.joined.notes:
                    run.progress.note(f"{note}.")
                self.cautions += found.joined.notes
                if key == "id":
                    sure = not self.any_key
                    if caution := other_molecules(path, self.reading, found.joined, store, sure=sure):
                        run.progress.note(f"{caution}.")
                        self.cautions.append(caution)
                return found
            except NoMatchError:
                if last == len(keys):
                    raise
                run.progress.note(
                    "None of these IDs is in the library, so the labels are joined by structure."
                )
        raise AssertionError("there is always a key")

    def _choose_process(self, run: Run, exact: ExactGP) -> None:
        """Take an exact process if it does not cost too much for the labels; say which, and why."""
        n_labels = len(self.joined.row)
        reason = why_not_exact(exact, making_of(self.features), n_labels)
        if not reason:
            compared = " Kernels are compared first; --quick takes the Tanimoto kernel at once."
            run.progress.note(
                f"The process is exact: {n_labels:,} labels are few enough for it (--process features takes "
                f"random features instead).{compared if self.searches else ''}"
            )
            return
        run.progress.note(f"The process has random features: for {n_labels:,} labels, {reason}.")
        seed = self.options.pop("random_state", 0)
        if self.kernel is None:
            self.feature_map = default_map().set_params(random_state=seed)
        else:
            self.feature_map = map_of(self.kernel, _FEATURES, seed)
        self.features, self.exact = open_source(self.features.path, _checkable(self.feature_map)), None
        gp_for(self.features.feature_map, **self.options)

    def _find_map(self, run: Run, asked: FeatureMap | AutoMap) -> None:
        """Take the map, or the length scale of the map, that a sample of the labels determines."""
        run.check(self.need())
        known = None
        if kind_of(self.output, missing_ok=True) is not None:
            known = read_model(self.output, statistics=False).metadata.get("search")
        store = self.features.store
        spec = FingerprintSpec.from_state(store.spec["fingerprint"])
        used = functools.partial(map_for, spec=spec, fold=self.fold)
        feature_map, self.found, self.search = found_map(
            run, asked, store=store, joined=self.joined, options=self.options, used=used, known=known
        )
        self.features = open_source(self.features.path, feature_map, fold=self.fold)

    @property
    def _not_stored(self) -> Sequence[FeatureSums | ExactSolve]:
        """What the model at the output does not hold already."""
        return self.sums if self.stored is None else ()

    def need(self) -> Need:
        cut, making = grouped(self.features, self.joined), making_of(self.features)
        n_labels = sum(cut.rows)
        if self.exact is not None:
            return need_of_exact(self.exact, making, n_labels, work_folder(self.output), self.client)
        precision = precision_for(self.features.feature_map, n_labels)

        def sums(making: Making) -> MemoryNeed:
            return need_of_sums(
                making, n_labels, max(cut.rows), precision=precision, strip_bytes=cut.strip_bytes
            )

        def solve(n_components: int) -> MemoryNeed:
            smaller = replace(making, n_components=n_components)
            return need_of_solve(smaller, n_labels, n_sums=len(self.parts))

        M = making.n_components
        return Need(
            worker=making.need(sums, "components", "rows"),
            finish=replace(solve(M), smaller={"components": (M, 64, solve)}),
            disk=disk_of_sums(work_folder(self.output), made) if (made := self._not_stored) else None,
        )

    def pieces(self, run: Run) -> list[Pieces]:
        """Make nothing if the model at the output already has the sums of these labels and features."""
        if self.stored is not None:
            return [Done(len(own.cut.groups), PARTS) for own in self.sums for _ in range(own.cut.n_roots)]
        run.agree(self.spec)
        if len(self.sums) > 1:
            self.given.keep()
        return [own.tree(own.precision) for own in self.sums]

    def finish(self, run: Run, made: int) -> FitReport:
        """Solve, and save the model with its sums."""
        identity, stored, toward = hash_of([self.spec, self.options]), self.stored, self.toward
        if stored is not None and stored.metadata["spec_hash"] == identity_after(identity, rounds_of(stored)):
            if more := rounds_of(stored)[1:]:
                n = sum(each["labels"] for each in more)
                self.cautions.append(f"with {amount(n, 'labels')} that were added since, which stay")
            metadata = self._metadata(stored.gp)
            described = {name: metadata[name] for name in ("scales", "limits", "repeats")}
            _leave(self.output, stored, toward, described, run.progress)
            return replace(self._report(stored.gp, run.seconds), was_there=True)
        held: Sequence[Any] = [None] * len(self.sums)
        if stored is not None:
            what = "fingerprints of" if self.exact else "sums over"
            run.progress.note(f"The model at the output already holds the {what} these labels.")
            held = [stored.gp] if self.exact else [gp.statistics_ for gp in processes_of(stored.gp)]
        solved = [
            own.solve(run, sums, self._options_of(own)) for own, sums in zip(self.sums, held, strict=True)
        ]
        gp = solved[0] if len(solved) == 1 else SeparateGP(solved, [own.targets for own in self.sums])
        arrays = {**gp.arrays(), "labelled_rows": self.joined.row, "labels": self.joined.y}
        if (smiles := smiles_of_rows(self.features.store, self.joined.row)) is not None:
            arrays[SMILES] = smiles_array(smiles)
        save_model(self.output, arrays, {**self._metadata(gp), "spec_hash": identity, "directions": toward})
        run.progress.finish()
        return self._report(gp, run.seconds)

    def _options_of(self, own: FeatureSums | ExactSolve) -> dict[str, Any]:
        """Return the options of some targets, with the noise that was found together with a metric."""
        if not isinstance(self.found, MetricChoice) or self.fixed["noise_variance"] is not None:
            return self.options
        noise = self.found.noise_variances(y for _, y in values_of_targets(self.joined))
        return {**self.options, "noise_variance": noise and [noise[t] for t in own.targets]}

    def _metadata(self, gp: Process | SeparateGP) -> dict[str, Any]:
        """Return what the model stores besides its arrays; see `Model`."""
        joined, store = self.joined, self.features.store
        return {
            "gp": {**gp.state(), "feature_map": None},  # "map" holds it
            "targets": list(joined.names),
            "labels": {name: getattr(joined, name) for name in COUNTS}
            | {kind: n for kind, (n, _) in joined.unusual.items()},
            "scales": [scale.state() for scale in joined.scales],
            "limits": [limits.state() for limits in joined.limits],
            "repeats": [joined.repeats_as, self.reading.key],
            "spec": self.spec,
            "range": np.column_stack([np.nanmin(joined.y, 0), np.nanmax(joined.y, 0)]).tolist(),
            "library": store.library_hash,
            "library_path": store.library_path,
            "fingerprint": store.spec["fingerprint"],
            "fragments": store.spec["fragments"],
            "toolkit": toolkit_of(store).state(),
            "map": None if self.exact else self.features.feature_map.state(),
            "search": self.search,
            "choices": self._choices(gp),
        }

    def _choices(self, gp: Process | SeparateGP) -> list[str | None]:
        """Return what was tried and taken, in words."""
        if self.exact:
            found = (each.kernel_choice_ for each in processes_of(gp))
            return [None if choice is None else str(choice) for choice in found]
        return [str(self.found)] if self.found is not None else []

    def _report(self, gp: Process | SeparateGP, seconds: float) -> FitReport:
        joined = self.joined
        names = [printable(name, 60) for name in joined.names]
        solved = [(each.kernel.words(), each.words()) for each in processes_of(gp) if each.kernel]
        warnings = [] if self.exact else [*self.features.feature_map.cautions()]
        warnings += self.cautions
        warnings += [f"{name}: {caution}" for t, name in enumerate(names) for caution in gp.cautions(t)]
        warnings += [
            advice
            for t, (name, (_, y)) in enumerate(zip(names, values_of_targets(joined), strict=True))
            if (advice := _advice(name, y, joined.scales[t] if joined.scales else None))
        ]
        if SMILES not in load_model(self.output, ()).entries:
            warnings.append(_UNKNOWN)
        if getattr(gp, "jitter_", 0.0):
            warnings.append(f"a jitter of {gp.jitter_:.1e} was needed to factorize an M x M matrix")
        return FitReport(
            model=self.output,
            labels=joined,
            mean=tuple(gp.mean_.tolist()),
            signal_variance=tuple(gp.signal_variance_.tolist()),
            noise_variance=tuple(gp.noise_variance_.tolist()),
            log_marginal_likelihood=tuple(
                (evidence + joined.evidence_of_means(noise)) if joined.n_further else evidence
                for evidence, noise in zip(
                    gp.log_marginal_likelihoods_.tolist(), gp.noise_variance_.tolist(), strict=True
                )
            ),
            n_components=0 if self.exact else self.features.feature_map.n_components,
            seconds=seconds,
            warnings=tuple(warnings),
            bound=tuple(
                float(own.bounds_[place]) + joined.evidence_of_means(float(own.noise_variance_[place]))
                for own, place in (process_of(gp, t) for t in range(len(names)))
                if isinstance(own, SparseGP)
            ),
            inputs=(self.words,),
            directions=tuple(self.toward.get(name) for name in joined.names),
            n_filled=None if self.exact else self.features.feature_map.n_filled,
            process="exact" if self.exact else "features",
            kernel=" and ".join(dict.fromkeys(kernel for kernel, _ in solved)),
            solved=tuple(way for _, way in solved),
            choices=tuple(each.kernel_choice_ for each in processes_of(gp)) if self.exact else (),
            folded=folding_words(self.features),
            length_scale=self.found if isinstance(self.found, LengthScaleSearch) else None,
            map_choice=self.found if isinstance(self.found, MapChoice) else None,
            metric=self.found if isinstance(self.found, MetricChoice) else None,
        )


@dataclass
class _FitAlone(_Fit):
    """The job of a fit to labels that bring their own SMILES, which become a library of their own."""

    counted: FingerprintSpec | None = None

    def plan(self, run: Run) -> None:
        """Fingerprint the molecules of the labels in the folder of unfinished work."""
        check_output(self.output, "model")
        path, column = as_path(self.labels), self.reading.key_column
        head = label_table(path, self.reading.key)
        names = head.names
        given = None if column is None else position_of(path, column, names, len(names))
        smiles = smiles_column(path, head, given)
        self.reading = replace(self.reading, key_column=smiles)
        self.id_column = find_id(names, head.values, (smiles,), head.title) if names else None
        run.check(Need(here=need_of_labels(survey(path, head.table)[2])))
        keys = read_labels(path, self.reading).keys
        table, folder = run.work / "molecules.parquet", run.work / "molecules"
        backend(run.work).make(run.work)
        with backend(table).writing(table) as staged:
            write_parquet(pa.table({"smiles": keys}), staged)
        made = fingerprint(table, folder, spec=self.counted, accept_rejects=True, client=self.client)
        assert isinstance(made, FingerprintReport)
        left = ""
        if made.rejected:
            first = next(self._rejects(folder))
            left = (
                f"{made.rejected:,} of the {amount(made.rows, 'molecules')} cannot be used, such as "
                f"{first['text']!r} ({first['reason']})"
            )
            if 2 * made.rejected > made.rows:
                raise InputError(f"{path}: {left}; name the column of the SMILES with --key-column")
            left = f"; {left}, and their labels are left out"
        raw = self.exact is not None
        self.features = open_source(folder, _checkable(self.feature_map), raw=raw, fold=self.fold)
        if self.exact is None:
            gp_for(self.features.feature_map, **self.options)
        super().plan(run)
        self.words += left
        if left:
            run.progress.note(f"{left[2:]}.")

    @staticmethod
    def _rejects(folder: PurePath) -> Iterator[dict[str, Any]]:
        store = FingerprintStore.open(folder)
        for partition in range(store.n_partitions):
            yield from store.read_rejects(partition).to_pylist()


def _leave(
    output: PurePath,
    stored: Model,
    directions: dict[str, str],
    described: dict[str, Any],
    progress: Progress,
) -> None:
    """Leave a model as it is, except for what it says of its targets, if that is other than before."""
    progress.note(f"{output} already holds exactly this model.")
    if directions != stored.directions or any(
        stored.metadata.get(name) != value for name, value in described.items()
    ):
        found = load_model(output)
        metadata = {**found.metadata, **described}
        save_model(output, found.arrays, redirected(metadata, found.arrays["labels"], directions))
    if directions != stored.directions:
        said = ", ".join(f"{direction} '{name}'" for name, direction in directions.items())
        progress.note(f"The directions of {output} were changed: {printable(said)}.")


def _exact_for(
    process: str, kernel: Kernel | None, feature_map: FeatureMap | AutoMap | None, options: dict[str, Any]
) -> ExactGP | None:
    """Return the exact process that is asked for, not fitted yet, or None for features."""
    if process not in get_args(ProcessName):
        raise InputError(f"process is one of {', '.join(get_args(ProcessName))}, not {process!r}.")
    if process == "features":
        if kernel is not None:
            raise InputError("The kernel of features is that of their map; give kernel to an exact process.")
        return None
    if feature_map is not None:
        raise InputError("An exact process has no features; leave the map out, or take process='features'.")
    chosen_here = {"cache_bytes", "n_subset"}  # by the memory that there is; all labels count
    if unknown := set(options) - (set(ExactGP._get_param_names()) - chosen_here):
        raise InputError(f"An exact process has no option {', '.join(sorted(unknown))}; leave it out.")
    gp = ExactGP(TanimotoMinMax() if kernel is None else kernel, **options)
    gp.memory(1)  # refuses bad values
    return gp


def _quick(kernel: Kernel | None, feature_map: FeatureMap | AutoMap | None, process: str) -> Kernel:
    """Return the kernel that is taken without comparing others."""
    if kernel is not None or feature_map is not None or process == "features":
        raise OptionError("--quick goes with an exact process whose kernel is not given; leave it out.")
    return TanimotoMinMax()


def _spec(
    features: Source, state: dict[str, Any] | None, joined: JoinedLabels, kernel: Kernel | None = None
) -> dict[str, Any]:
    """Return what the sums depend on; for an exact process, its fingerprints and kernel."""
    own = {"process": "exact", "kernel": None if kernel is None else kernel.state()}
    return {
        "source": features.spec_hash,
        **({"map": brief_state(state)} if state else own),
        "targets": list(joined.names),
        "rows": len(joined.row),
        "labels": joined.digest,
    }


def _checked(fixed: dict[str, float | None], **own: Any) -> dict[str, Any]:
    """Return the options of a model: `fixed`, and those of `own` that are given, which only some models have.

    Refuse values of `fixed` that the solve would refuse, before the pass over the library.
    """
    for name, value in fixed.items():
        if value is not None and not (math.isfinite(value) and (value > 0 or name == "mean")):
            what = "finite" if name == "mean" else "positive"
            flag = f"--{name.replace('_', '-')}"
            raise OptionError(f"{flag} must be {what}, not {value}; leave it out to have it fitted.")
    return fixed | {name: value for name, value in own.items() if value is not None}


def _check_variance(joined: JoinedLabels, fixed: dict[str, float | None]) -> None:
    """Refuse labels from which the variances cannot be fitted."""
    lost, n_labels = joined.unmatched, joined.matched + joined.unmatched
    for name, y in values_of_targets(joined):
        if None in (fixed["signal_variance"], fixed["noise_variance"]) and y.min() == y.max():
            if lost:
                raise InputError(
                    f"{lost:,} of the {n_labels:,} labels are not in the library (such as "
                    f"{listed(joined.unmatched_keys)}), and the values of {name} that are left are all the "
                    f"same ({y[0]:g}): choose another key (--key, key) or its column, or another library."
                )
            raise InputError(
                f"All labels of {name} are the same ({y[0]:g}), so signal and noise variance cannot be "
                "fitted: give labels that differ, or both --signal-variance and --noise-variance."
            )


def _stored(output: PurePath, spec: dict[str, Any], options: dict[str, Any]) -> Model | None:
    """Return an earlier model of the same labels and features, or None. Refuse any other model.

    A model of these options to which labels were added since is the same.
    """
    if kind_of(output, missing_ok=True) is None:
        return None
    found = read_model(output)
    if found.metadata["spec_hash"] == identity_after(hash_of([spec, options]), rounds_of(found)):
        return found
    if found.metadata["spec"] != spec:
        raise made_with_others(output, differences(found.metadata["spec"], spec))
    return found


def _advice(name: str, y: npt.NDArray[np.float64], scale: Scale | None) -> str:
    """Return advice on labels that do not suit a Gaussian process, or nothing."""
    low, high = float(y.min()), float(y.max())
    whole = low.is_integer() and high.is_integer() and len(y) >= _CLASS_LABELS
    if whole and low < high and bool(((y == low) | (y == high)).all()):
        return (
            f"{name}: all {len(y):,} labels are {low:g} or {high:g}; a Gaussian process regresses such "
            "classes, so read its predictions as scores, not as probabilities"
        )
    if scale is not None and scale.is_p and not _USUAL_P[0] <= (middle := float(np.median(y))) <= _USUAL_P[1]:
        return (
            f"{name}: the median is {middle:.1f}, which is {10 ** (9 - middle):.2g} nM and unusual; check "
            f"the unit ({scale.unit or scale.units}), or give it with --unit"
        )
    above = y[y > 0]
    if low < 0 or high <= 0 or (scale is not None and scale.transform):
        return ""
    decades, unit = math.log10(high / (low := float(above.min()))), scale.unit if scale else ""
    concentrations = is_concentration(name, unit)
    if (
        decades > _DECADES
        or (decades > 1 and concentrations)
        or (decades > _FEW_DECADES and _is_skewed(above))
    ):
        return (
            f"{name}: labels span {decades:.1f} decades, from {low:g} to {high:g}; fit their logarithm "
            f"instead, for example with --transform pIC50 --unit {unit or 'nM'} for concentrations, or with "
            "--transform log10"
        )
    return ""


def _is_skewed(y: npt.NDArray[np.float64]) -> bool:
    """Return whether positive values have a long tail, and their logarithms a much shorter one."""

    def skewness(values: npt.NDArray[np.float64]) -> float:
        centred = values - values.mean()
        return abs(float((centred**3).mean() / (centred**2).mean() ** 1.5))

    return len(y) >= _CLASS_LABELS and skewness(y) > max(_SKEWNESS, 2 * skewness(np.log(y)))
