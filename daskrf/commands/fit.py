"""Labels + features -> model: one pass over the labelled rows, a tree of sums, one solve."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, cast, get_args

from distributed import Client

from daskrf.commands.fingerprint import fingerprint
from daskrf.errors import InputError, OptionError, check_type, printable
from daskrf.estimators import defaults_of
from daskrf.features import FeatureMap
from daskrf.files.backend import are_small_files, as_path, is_file
from daskrf.fitting.fitjob import FitJob
from daskrf.fitting.ownmolecules import OwnMolecules
from daskrf.fitting.training import FitRequest, LibraryMolecules, Training, checkable, is_open
from daskrf.gp import gp_for
from daskrf.gp.choice.lengthscale import LengthScaleSearch
from daskrf.gp.choice.mapchoice import AutoMap, MapChoice
from daskrf.gp.choice.metricchoice import MetricChoice
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.kerneltrials import KernelChoice
from daskrf.gp.processes.processes import ProcessOptions
from daskrf.jobs.job import run
from daskrf.jobs.shards import current_share
from daskrf.kernels import Kernel, TanimotoMinMax
from daskrf.measurements.reading import BY_SMILES, Reading
from daskrf.models.classtargets import ClassTarget
from daskrf.models.directions import direction_of
from daskrf.molecules import FingerprintSpec
from daskrf.parameters import Command, Option
from daskrf.quantities import amount, features_words
from daskrf.report.notebook import Shown
from daskrf.sources.given import Data
from daskrf.sources.sources import (
    check_map_for,
    open_source,
)
from daskrf.storage.kinds import kind_of, stored_library
from daskrf.storage.labels import JoinedLabels
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.tables.values.repeats import Repeats
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
    values: dict[str, list[float]] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        try:
            values.setdefault(name, []).append(float(value))
        except ValueError:
            raise ValueError(f"{value!r} is not a number.") from None
    if "" in values and len(values) > 1:
        raise ValueError("give values for all targets, or NAME=... for each.")
    return values.get("", values)


def _directions(texts: Sequence[str]) -> str | dict[str, str]:
    """Return one direction for all targets, or one for each by name, from [NAME=]DIRECTION."""
    directions = _by_name(texts)
    for text in [directions] if isinstance(directions, str) else directions.values():
        direction_of(text)  # refuses what is none
    return directions


def _check_map(feature_map: FeatureMap | AutoMap | None, source: Paths, fold: int | None = None) -> None:
    """Refuse a map that does not support the fingerprint store `source`, if it is one."""
    check_map_for(checkable(feature_map), source, fold)


def _worth_workers(source: Paths, labels: Paths | None) -> bool:
    """Return whether workers save time: the molecules of a small file are read before they have started."""
    return labels is not None or (is_file(as_path(source)) and not are_small_files(source))


CLI = Command(
    "daskrf fit real.fingerprints docking.csv -o docking.model --target score --direction minimize",
    step=3,
    options={
        "direction": Option(metavar="[NAME=]maximize|minimize", repeated=True, convert=_directions),
        "drop_outside": Option(metavar="[NAME=]LOW:HIGH", repeated=True, convert=_by_name),
        "drop_value": Option(metavar="[NAME=]VALUE", repeated=True, convert=_values_to_drop),
        "positive": Option(metavar="WORD", repeated=True),
        "transform": Option(metavar="[NAME=]pIC50|log10|ln", repeated=True, convert=_by_name),
        "unit": Option(metavar="[NAME=]UNIT", repeated=True, convert=_by_name),
    },
    resumable=True,
    shards=True,
    check=_check_map,
    workers_for=_worth_workers,
)


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
        Whether the output already held the model, so nothing was compared again.
    classes : tuple of ClassTarget or None
        For each target that is two classes, these classes.
    together : str
        For several targets of an exact process: whether they are modelled together, and why.
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
    classes: tuple[ClassTarget | None, ...] = ()
    together: str = ""

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
            *([f"  {self.together}"] if self.together else []),
        ]
        for t, name in enumerate(printable(name, 60) for name in self.labels.names):
            toward = f" (to {self.directions[t]})" if self.directions and self.directions[t] else ""
            bound = f", bound {self.bound[t]:,.1f}" if self.bound else ""
            if (each := self.classes[t] if self.classes else None) is not None:
                lines.append(f"  {each.line(self.labels.names[t])}")
            evidence = self.log_marginal_likelihood[t]
            fit = "" if math.isnan(evidence) else f", log marginal likelihood {evidence:,.1f}{bound}"
            lines.append(
                f"  {name}{toward}: mean {self.mean[t]:.4g}, "
                f"signal std {self.signal_variance[t] ** 0.5:.3g}, "
                f"noise std {self.noise_variance[t] ** 0.5:.3g}{fit}"
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
    together: bool | None = None,
    fold: int | None = None,
    key: Key | None = None,
    key_column: str | int | None = None,
    target: str | int | Sequence[str | int] | None = None,
    transform: str | Mapping[str, str] | None = None,
    unit: str | Mapping[str, str] | None = None,
    censored: Literal["limit", "drop", "value"] | None = None,
    drop_non_numbers: bool = False,
    drop_outside: str | tuple[float, float] | Mapping[str, object] | None = None,
    drop_value: float | Sequence[float] | Mapping[str, object] | None = None,
    accept_outliers: bool = False,
    accept_rejects: bool = False,
    replicates: str | int | None = None,
    replicate_std: str | int | None = None,
    replicate_sem: str | int | None = None,
    repeats: Repeats | None = None,
    positive: str | Sequence[str] = (),
    classes: bool = True,
    mean: float | None = None,
    signal_variance: float | None = None,
    noise_variance: float | None = None,
    direction: Direction | Mapping[str, str] | None = None,
    confirm_direction: bool = False,
    client: Client | None = None,
    progress: Progress | None = None,
    **model_options: object,
) -> FitReport:
    """Fit a Gaussian process to labels.

    Chooses prior mean, signal variance and noise variance by the evidence (marginal likelihood) of all
    labels. A map may add options of its own: `daskrf maps NAME` shows them. To finish a job that was
    interrupted, run the same command again.

    Parameters
    ----------
    source : path
        A feature store, or a fingerprint store. The features of a fingerprint store are made as they are
        needed and not kept. With a dense map and M above 8,192 they are made many times, once for each strip
        of the sums and once more: run featurize first. Or only a file of labels with SMILES: then no library
        is needed, and the molecules get the default fingerprints.
    labels : path, optional
        CSV, TSV, Parquet or SD file with a column of keys and one or more target columns, or what a docking
        program wrote: PDBQT, logs of Vina and Gnina, OUTDOCK, scored MOL2, lists of GOLD; of these and of SD
        files also a folder, or a pattern such as ``docked/*_out.pdbqt``. In Python also a DataFrame, or a
        list of RDKit molecules with properties.
    output : path
        Directory of the model.
    spec : FingerprintSpec, optional
        What to count in the molecules of labels without a library. Default: as in `fingerprint`.
    feature_map : FeatureMap or AutoMap, optional
        For a fingerprint store. Default: `daskrf.features.default_map()`. With `daskrf.gp.AutoMap`, one of a
        few maps is chosen by how well it predicts labels; see `daskrf.gp.choose_map`. A length scale that is
        "auto" is found from the labels; see `daskrf.gp.choose_length_scale`. The report lists what was tried.
        A map that learns from the library and is not fitted yet is fitted to the store first, as `fit_map`
        does. The map also decides the model (`FeatureMap.process`), mostly `daskrf.gp.RandomFeatureGP`.
    process : {"auto", "exact", "features"}
        Whether the model is exact (for a fingerprint store and up to some 100,000 labels) or approximates its
        kernel by features. Default: exact if neither a map nor stored features are given, and the labels take
        no more than the memory and half an hour.
    kernel : Kernel, optional
        Kernel of an exact process. Default: the one of a short list that best predicts left-out labels; see
        `daskrf.gp.choose_kernel`. The report lists what was tried.
    quick : bool
        Take the Tanimoto (min-max) kernel for an exact process, without trying others.
    together : bool, optional
        Whether an exact process models several targets together, so that each learns from the labels of the
        others, by the correlations of the targets; or, with --no-together, each by its own labels alone.
        Default: together if the evidence of the labels grows enough; see `daskrf.gp.CoregionalizedGP`. The
        report says which.
    fold : int, optional
        For a process with features: number of columns to fold each kind of unfolded fingerprints to on
        reading. Default: as in `featurize`. The model predicts from fingerprints folded in the same way.
    key : {"id", "smiles", "structure", "parent", "tautomer", "skeleton", "inchikey", "row"}
        What joins a label to its molecule: the ID; the SMILES, character for character as in the library's
        files; the structure, however its SMILES is written; the parent, which is the largest fragment without
        charges, so that salts are stripped on both sides; the tautomer, which is the parent in any tautomer;
        the skeleton, which is the tautomer without stereochemistry and isotopes; the InChIKey, given or made
        from the SMILES; or the row number, counted from 0. Joining a million rows by structure takes a few
        minutes, in this process, and by InChIKey longer. Default: the ID, or the structure if no ID is in the
        library or the labels have none; without a library, SMILES.
    key_column : str or int, optional
        Column of the labels file that holds the key: a name, or a position counted from 0. Default: the
        column named like the key, else the first; without a library, that of the SMILES.
    target : str or int, or sequence of them, optional
        Column to predict, by name or position; give several for several targets. Default: the only other
        numeric column.
    transform : str, or dict of str to str, optional
        Learn logarithms of the values: log10, ln or log2; or pIC50, pKi, pEC50 or p with another name, which
        is the negative decimal logarithm of a concentration in mol/L. One for all targets, or one for each by
        name. The model predicts on this scale and knows it.
    unit : str, or dict of str to str, optional
        Unit of the values, such as nM. Default: that in a column of units or in the name of the column, as in
        "IC50 (nM)". Values in other units of concentration are converted. Mass per volume, such as ug/mL,
        becomes molar by the average molecular weight of each SMILES as written, salts included, where a
        molar unit or a transform such as pIC50 asks for it.
    censored : {"limit", "drop", "value"}, optional
        What to do with values such as >10000 and <0.1, and "no activity at 10 uM": take them as limits, leave
        them out, which loses what is known of inactive molecules, or take the number as if it were measured.
        A limit counts with the probability that a measurement lies beyond it (a censored, or Tobit,
        likelihood). Default: limits, for exact processes and random features. The signs may also be in a
        column named like "relation". Values with "~" count as measured, except with drop.
    drop_non_numbers : bool
        Leave out values that are not finite numbers, such as empty ones, NaN, "inactive" and "n.d.", and
        values that have no logarithm. Default: refuse them. Values left out are counted.
    drop_outside : str, or dict of str to str, optional
        Leave out values outside of a range LOW:HIGH, for all targets or for each by name. Either limit may be
        missing. Like those of `drop_value`, limits are numbers as they are in the file. The model keeps both,
        and `add` applies them.
    drop_value : float, or sequence of float, or dict of str to these, optional
        Leave out this value, which stands for a failure, such as 0 or 999 among docking scores. There may be
        several, or some for each target by name.
    accept_outliers : bool
        Take labels that are otherwise refused because they are too far from all others to be right.
    accept_rejects : bool
        Leave out rows of the labels that cannot be read, such as broken records of an SD file, and count
        them. Default: refuse them.
    replicates : str or int, optional
        Column with the number of measurements of which each value is the mean: the mean of more measurements
        has less noise. Rows that repeat a molecule count as its measurements anyway.
    replicate_std : str or int, optional
        Column with the standard deviation of these measurements, on the scale of the model. Needed unless the
        noise variance is given, because a mean alone says nothing about the noise.
    replicate_sem : str or int, optional
        Column with the standard error of each mean, in place of the standard deviation: it is the standard
        deviation divided by the root of the number of measurements.
    repeats : {"all", "best", "mean", "median"}, optional
        What to do with several labels of one molecule. With all, each counts as a measurement. With best, the
        best one is taken, as for poses and protomers (by `direction`, or by what is known of the target, for
        each target separately). With mean or median, that of the labels is taken. The key decides which
        labels are of one molecule; without a library, structures decide. The model keeps this choice, and
        `add` does the same with the labels that it adds. Default: best for scores that a docking program
        wrote, and for tables that number poses; else all.
    positive : str, or sequence of str
        Words of the positive class, in a column of words; all others there are the other class. Not needed
        for true and false, active and inactive, toxic and non-toxic, and others like these.
    classes : bool
        Take a column of 0 and 1, or of words, as two classes, whose probability is predicted; or, with
        --no-classes, as numbers.
    mean : float, optional
        Prior mean. Default: fitted.
    signal_variance : float, optional
        Prior variance of the objective. Default: fitted.
    noise_variance : float, optional
        Variance of the noise. Default: fitted.
    direction : {"maximize", "minimize"}, or dict of str to these, optional
        Whether large or small values are good, for all targets or for each by name. It does not change the
        fit; screen takes it as its default. To set or change it later, run the same command with another
        direction, or use `add`. A direction that would choose the worst molecules is refused, such as small
        pIC50.
    confirm_direction : bool
        Accept a direction that is otherwise refused because it contradicts what is known of the target.
    client, progress
        As in `fingerprint`. The calling process solves the equations in any case. For a file of labels of up
        to 2 MiB without a library the command starts no workers, unless they are requested.
    **model_options
        Options that only some models have: `criterion` of `daskrf.gp.SparseGP`; `rows` and `residual` of
        `daskrf.gp.LocalGaussianGP`; for an exact process, `n_draws` and others of `daskrf.gp.ExactGP`.
        Changing them for the model at `output` takes no further pass over the library.

    Returns
    -------
    FitReport

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
    training = training_of(
        as_path(source),
        None if labels is None else as_path(labels),
        as_path(output),
        spec=spec,
        feature_map=feature_map,
        process=process,
        kernel=kernel,
        quick=quick,
        together=together,
        fold=fold,
        reading=Reading(
            key=key or key_by_default(labels, repeats or "all"),
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
            repeats=repeats or "all",
            best=direction if repeats == "best" else None,
            positive=positive,
            classes=classes,
        ),
        any_key=key is None,
        poses=repeats is None and replicates is None,
        fixed=fixed,
        direction=direction,
        confirm_direction=confirm_direction,
        client=client,
        cut=not current_share().whole,
        model_options=model_options,
    )
    return run(FitJob(training, FitReport), client, progress)


def training_of(
    source: PurePath,
    labels: PurePath | None,
    output: PurePath,
    *,
    spec: FingerprintSpec | None = None,
    feature_map: FeatureMap | AutoMap | None,
    process: ProcessName,
    kernel: Kernel | None,
    quick: bool,
    reading: Reading,
    any_key: bool,
    poses: bool = False,
    fixed: dict[str, float | None],
    direction: Direction | Mapping[str, str] | None,
    confirm_direction: bool = False,
    client: Client | None,
    cut: bool = False,
    fold: int | None = None,
    together: bool | None = None,
    model_options: Mapping[str, object],
) -> Training:
    """Return what a fit with the arguments of `fit` is made from.

    `any_key` is whether labels may be joined by another key than that of `reading`, `poses` whether the best
    of the scores of poses counts, and `cut` whether the job is made in shards.
    """
    options = _checked(fixed, **model_options)
    has_noise = reading.replicate_std is not None or reading.replicate_sem is not None
    if reading.replicates is not None and not has_noise and fixed["noise_variance"] is None:
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
            "The fingerprints of a store are already made; leave out their options, such as --kind."
        )
    library = None if labels is None else stored_library(source)
    if process == "auto" and (feature_map is not None or isinstance(library, FeatureStore)):
        process = "features"
    exact = _exact_for(process, kernel, feature_map, options)
    if exact is not None and fold is not None:
        raise OptionError(
            "--fold goes with --map or --process features; an exact process needs no folding: leave it out."
        )
    request = FitRequest(
        output=output,
        reading=reading,
        any_key=any_key and labels is not None,
        poses=poses,
        fixed=fixed,
        options=options,
        direction=direction,
        confirmed=confirm_direction,
        exact=exact,
        kernel=kernel,
        auto=process == "auto",
        feature_map=feature_map,
        fold=fold,
        client=client,
        together=together,
    )
    if library is None or labels is None:
        return Training(request, source, OwnMolecules(source, spec, fingerprint))
    if is_open(feature_map) and isinstance(library, FeatureStore):
        raise InputError(f"{source} holds features of a known map; leave out the options of the map.")
    features = open_source(library, checkable(feature_map), raw=exact is not None, fold=fold)
    if exact is None:
        gp_for(features.feature_map, **options)  # refuses options of other models before reading labels
    return Training(request, labels, LibraryMolecules(features))


def key_by_default(labels: Paths | None, repeats: str) -> str:
    """Return the key that is tried first: without a library the SMILES, or structures if repeats merge."""
    if labels is not None:
        return "id"
    return "smiles" if repeats == "all" else "structure"


def _check_alone(source: PurePath, key: str, cut: bool) -> None:
    """Refuse what does not go with labels that bring their own molecules."""
    if kind_of(source, missing_ok=True) is not None:
        raise InputError(f"{source} is a store; give a file of labels for its molecules, too.")
    if key not in BY_SMILES:
        raise InputError(f"Labels without a library have SMILES, so they cannot be joined by {key}.")
    if cut:
        raise InputError("A fit without a library cannot be split into shards; fingerprint the file first.")


def _exact_for(
    process: str, kernel: Kernel | None, feature_map: FeatureMap | AutoMap | None, options: ProcessOptions
) -> ExactGP | None:
    """Return the requested exact process, not fitted yet, or None for features."""
    if process not in get_args(ProcessName):
        raise InputError(f"process is one of {', '.join(get_args(ProcessName))}, not {process!r}.")
    if process == "features":
        if kernel is not None:
            raise InputError("Features take the kernel of their map; give kernel only to an exact process.")
        return None
    if feature_map is not None:
        raise InputError("An exact process has no features; leave the map out, or take process='features'.")
    chosen_here = {"cache_bytes", "n_subset"}  # by the memory that there is; all labels count
    if unknown := set(options) - (set(defaults_of(ExactGP)) - chosen_here):
        raise InputError(f"An exact process has no option {', '.join(sorted(unknown))}; leave it out.")
    make: Callable[..., ExactGP] = ExactGP
    gp = make(TanimotoMinMax() if kernel is None else kernel, **options)
    gp.memory(1)  # refuses bad values
    return gp


def _quick(kernel: Kernel | None, feature_map: FeatureMap | AutoMap | None, process: str) -> Kernel:
    """Return the kernel that is taken without comparing others."""
    if kernel is not None or feature_map is not None or process == "features":
        raise OptionError("--quick goes with an exact process whose kernel is not given; leave it out.")
    return TanimotoMinMax()


def _checked(fixed: dict[str, float | None], **more: object) -> ProcessOptions:
    """Return the options of a model: `fixed`, and those of `more` that are set, which only some models have.

    Refuse values of `fixed` that the solve would refuse, before the pass over the library.
    """
    for name, value in fixed.items():
        if value is not None and not (math.isfinite(value) and (value > 0 or name == "mean")):
            what = "finite" if name == "mean" else "positive"
            flag = f"--{name.replace('_', '-')}"
            raise OptionError(f"{flag} must be {what}, not {value}; leave it out to have it fitted.")
    options = {**fixed, **{name: value for name, value in more.items() if value is not None}}
    return cast(ProcessOptions, options)
