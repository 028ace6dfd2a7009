"""The page of hits: their table, labelled molecules of the model, and how the hits were found."""

from __future__ import annotations

import io
import math
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa

from daskrf.acquisition import rules
from daskrf.errors import InputError
from daskrf.gp.processes.coregionalized import CoregionalizedTarget
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import Target, WeightedSum, values_of
from daskrf.gp.validation.calibration import coverage, r2, rmse
from daskrf.gp.validation.intervals import interval_factor
from daskrf.gp.validation.leaveoneout import leave_one_out
from daskrf.models.intervals import residuals_of
from daskrf.models.models import Model
from daskrf.models.targets import measured_of, ranked_target
from daskrf.quantities import amount, listed
from daskrf.report.annotation import Reference
from daskrf.report.plots import HeldOut, Panels, plot_evaluation
from daskrf.report.webpage import Words, write_page
from daskrf.storage.descriptions import words_of_model

_FEWEST_SHOWN = 10  # labels: a plot of fewer shows nothing
_PASSES = {
    "where": "",
    "smarts": "with ",
    "without_smarts": "without ",
    "alerts": "without alerts of ",
    "similar_to": "similar to ",
    "least_similarity": "a similarity of at least ",
    "nearest": "the nearest ",
}
_MOST_COMPARED = 100_000  # labelled molecules that are searched for the nearest


def write_hits_page(
    table: pa.Table,
    path: Path,
    about: Mapping[str, Any],
    model: Model | None = None,
    model_path: str | os.PathLike[str] = "",
    actives: Reference | None = None,
    title: str = "",
    command: str = "",
) -> None:
    """Write hits as one HTML file.

    Parameters
    ----------
    table : pyarrow.Table
    path : Path
    about : dict
        Record in the file of hits, see `daskrf.storage.hits`; entries that it lacks are not on the page.
    model : Model, optional
        Model that ranked the hits; its labelled molecules are compared with them.
    model_path : path
    actives : Reference, optional
    title, command : str
    """
    targets = about.get("target") or (model.targets[0] if model is not None else "")
    target = targets if isinstance(targets, str) else targets[0]
    summary, notes = [], [str(note) for note in about.get("notes", ())]
    if "acquisition" in about:
        summary.append(
            f"The best {table.num_rows:,} of {amount(about['rows'], 'molecules')} in {about['source']}, "
            f"ranked by {about['acquisition']['rule']}, {about['direction'].removesuffix('e')}ing '{target}'."
        )
    if passes := [f"{words}{text}" for name, words in _PASSES.items() for text in about.get(name, ())]:
        summary.append(f"Only molecules that pass these filters: {listed(passes)}.")
    summary += [str(about["chosen"])] if "chosen" in about else []
    summary.append(_made(model, model_path, targets))
    if about.get("rejected"):
        notes.append(f"{amount(about['rejected'], 'rows')} of the input could not be used and were left out")
    labelled = Reference()
    sections: dict[str, Any] = {"Assumptions and exclusions": notes}
    if model is not None:
        labelled, left_out = labelled_of(model, targets)
        notes += [left_out] if left_out else []
        sections["The model"] = [f"{Path(model_path).name}", *words_of_model(model.metadata)]
    picture, caption = (b"", "") if model is None else _goodness(model, target)
    bars = _bars(model, target) if model is not None and "std_y" in table.column_names else {}
    words = Words(
        title=title or _title(table, target),
        summary=summary,
        quantity=target,
        sections=sections,
        command=command,
        picture=picture,
        picture_words=caption,
        **bars,
    )
    write_page(table, path, words, labelled, actives)


def _bars(model: Model, target: str) -> dict[str, Any]:
    """Return how far error bars extend, and what they are, by the errors of labelled molecules if known."""
    place = _of_page(model, target)
    if isinstance(place, WeightedSum):
        return {}
    residuals = residuals_of(model)[place]
    factor = interval_factor(residuals, 95)
    if not math.isfinite(factor):
        return {}
    text = (
        f"Bars are 95 % intervals of a measurement, {factor:.3g} standard deviations to either side: of "
        f"{amount(len(residuals), 'labelled molecules')}, each predicted without its labels, 95 % have no "
        "larger error. For molecules unlike them no method can promise a level."
    )
    return {"factor": factor, "interval_words": text}


def _made(model: Model | None, path: str | os.PathLike[str], targets: str | Sequence[str]) -> str:
    """Return the line on the model, its targets, and the date."""
    day = f"Page made on {time.strftime('%Y-%m-%d')}."
    if model is None:
        return day
    shown = [targets] if isinstance(targets, str) else list(targets)
    directions = {name: model.directions.get(name) for name in shown}
    words = [f"'{name}'{f' (to {way})' if way else ''}" for name, way in directions.items() if name]
    return f"Model {Path(path).name}{f' of {listed(words)}' if words else ''}. {day}"


def _title(table: pa.Table, target: str) -> str:
    what = "hits" if "rank" in table.column_names else "molecules"
    return f"{amount(table.num_rows, what)}{f' for {target}' if target else ''}"


def _goodness(model: Model, target: str) -> tuple[bytes, str]:
    """Return a picture of the leave-one-out predictions of the model, and its caption."""
    place = _of_page(model, target)
    name = model.name_of(place)
    process, _ = process_of(model.gp, place)
    if not _leaves_out(process) or isinstance(place, WeightedSum):
        return b"", "To see how good the model is, cross-validate it: daskrf evaluate."
    n_labels = process.n_labels_ if isinstance(process, CoregionalizedTarget) else process.n_rows_
    if n_labels < _FEWEST_SHOWN:
        return b"", f"Too few labels to tell: {n_labels:,}."
    left = leave_one_out(process)
    held_out = HeldOut(left.y, left.mean, left.std)
    if np.ptp(left.y) == 0:
        return b"", "All labels are equal."
    share, error = r2(left.y, left.mean), rmse(left.y, left.mean)
    held = float(coverage(left.y, left.mean, left.std, [0.95])[0])
    each = f"{len(left.y):,} of {n_labels:,} labels" if len(left.y) < n_labels else "Each label"
    text = (
        f"{each} of '{name}', predicted without the labels of its molecule: R2 {share:.2f}, RMSE "
        f"{error:.3g}; 1.96 standard deviations contain {held:.0%} of them. Kernel and variances were "
        "fitted to all labels. Errors are larger for molecules unlike any labelled one: see daskrf evaluate "
        "--split scaffold."
    )
    picture = io.BytesIO()
    plot_evaluation(picture, [Panels(held_out, share, name, what="labels, each left out of the fit")])
    return picture.getvalue(), text


def _leaves_out(process: object) -> TypeGuard[ExactGP | CoregionalizedTarget]:
    """Return whether labels can be left out: not if the kernel was learned from them, for small errors."""
    if not isinstance(process, (ExactGP, CoregionalizedTarget)) or process.solver_ != "cholesky":
        return False
    choice = process.kernel_choice_ if isinstance(process, ExactGP) else None
    return choice is None or not choice.variances


def _of_page(model: Model, target: str) -> Target:
    """Return the target of a page, or the first of the model if the page names no target of it."""
    try:
        return ranked_target(model, target)
    except InputError:
        return 0


def labelled_of(model: Model, target: str | Sequence[str]) -> tuple[Reference, str]:
    """Return the labelled molecules of a model with their labels, and a note if some are left out.

    Parameters
    ----------
    model : Model
    target : str, or sequence of str
        Molecules that lack a label of this target, or of any of these targets, are left out.
    """
    if isinstance(target, str):
        whole = _of_page(model, target)
        shown: list[Target] = [whole]
    else:
        shown = [model.targets.index(name) for name in target]
        whole = WeightedSum(tuple(map(model.targets.index, target)), (1.0,) * len(target))
    measured = measured_of(model, whole)
    smiles, reason, y = measured.smiles, measured.reason, measured.values
    labels = np.column_stack([values_of(measured.parts, each) for each in shown])
    if not smiles:
        return Reference(), f"the nearest labelled molecules are not shown: {reason}"
    there = np.flatnonzero(np.isfinite(y) & np.array([bool(text) for text in smiles]))
    note = f"of the labelled molecules, {reason}" if reason else ""
    if not isinstance(target, str):
        note = "; ".join(
            filter(None, [f"labels of the nearest molecules are those of {', '.join(target)}", note])
        )
    if len(there) > _MOST_COMPARED:
        note = (
            f"the nearest labelled molecule is the nearest of {_MOST_COMPARED:,} of the {len(there):,} "
            "labelled molecules, evenly spaced in their order"
        )
        there = there[np.linspace(0, len(there) - 1, _MOST_COMPARED).astype(np.int64)]
    values = [", ".join(f"{value:.4g}" for value in labels[i]) for i in there]
    return Reference([smiles[i] for i in there], values), note


def screen_command(about: Mapping[str, Any], output: str) -> str:
    """Return the command that finds the hits again, from the record in their file, with names of files only.

    Examples
    --------
    >>> rule = {"rule": "ucb", "kappa": 2.0, "maximize": False}
    >>> about = {"model_name": "m", "source": "a.smi", "k": 9, "acquisition": rule, "target": "y",
    ...          "direction": "minimize", "std": "candidates", "exclude_labelled": True}
    >>> screen_command(about, "hits.csv")
    'daskrf screen m a.smi -o hits.csv -k 9 --acquisition ucb --kappa 2.0 --minimize --exclude-labelled'
    """
    if not {"model_name", "source", "k", "acquisition", "direction"} <= about.keys():
        return ""
    rule = dict(about["acquisition"])
    words = ["daskrf", "screen", about["model_name"], about["source"], "-o", output, "-k", str(about["k"])]
    words += ["--acquisition", name := rule.pop("rule")]
    for each in ("maximize", *rules()[name].of_model):
        rule.pop(each, None)
    for name, value in rule.items():
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    words.append(f"--{about['direction']}")
    words += ["--std", about["std"]] if about.get("std", "candidates") != "candidates" else []
    words += ["--seed", str(about["seed"])] if about.get("seed") else []
    words += ["--shortlist", str(about["shortlist"])] if about.get("shortlist") else []
    for limit in (about.get("within") or "").split():  # of the products of a space
        words += ["--within", limit]
    for name in ("per_block", "rough", "rough_components"):
        words += [f"--{name.replace('_', '-')}", str(about[name])] if about.get(name) else []
    for name in _PASSES:
        for text in about.get(name) or ():
            words += [f"--{name.replace('_', '-')}", text]
    words += ["--exclude-labelled"] if about.get("exclude_labelled") else []
    words += (
        ["--exclude-by", about["exclude_by"]] if about.get("exclude_by", "tautomer") != "tautomer" else []
    )
    return shlex.join(words)
