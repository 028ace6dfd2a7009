"""The page of hits: their table, with the labelled molecules of the model, and what the hits' file says."""

from __future__ import annotations

import io
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from daskrf.errors import InputError
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import Target, WeightedSum, values_of
from daskrf.gp.validation.calibration import coverage, r2, rmse
from daskrf.gp.validation.leaveoneout import leave_one_out
from daskrf.models.models import Model
from daskrf.models.targets import measured_of, ranked_target
from daskrf.quantities import amount, listed
from daskrf.report.annotation import Known
from daskrf.report.plots import HeldOut, Panels, plot_evaluation
from daskrf.report.webpage import Words, write_page
from daskrf.storage.descriptions import words_of_model

_FEWEST_SHOWN = 10  # labels of which pictures are shown
_PASSES = {"where": "", "smarts": "with ", "without_smarts": "without ", "alerts": "without alerts of "}
_MOST_COMPARED = 100_000  # labelled molecules, in which the nearest is looked for


def write_hits_page(
    table: pa.Table,
    path: Path,
    about: Mapping[str, Any],
    model: Model | None = None,
    model_path: str | os.PathLike[str] = "",
    actives: Known | None = None,
    title: str = "",
    command: str = "",
) -> None:
    """Write hits as one HTML file.

    Parameters
    ----------
    table : pyarrow.Table
    path : Path
    about : dict
        What the file of hits says of itself; see `daskrf.storage.hits`. What is not there is not said.
    model : Model, optional
        Of the hits; its labelled molecules are compared with them.
    model_path : path
    actives : Known, optional
    title, command : str
    """
    targets = about.get("target") or (model.targets[0] if model is not None else "")
    target = targets if isinstance(targets, str) else targets[0]
    summary, notes = [], [str(note) for note in about.get("notes", ())]
    if "acquisition" in about:
        summary.append(
            f"The best {table.num_rows:,} of {amount(about['rows'], 'molecules')} of {about['source']} by "
            f"{about['acquisition']['rule']}, {about['direction'].removesuffix('e')}ing '{target}'."
        )
    if passes := [f"{words}{text}" for name, words in _PASSES.items() for text in about.get(name, ())]:
        summary.append(f"Others than these were left out: {listed(passes)}.")
    summary += [str(about["chosen"])] if "chosen" in about else []
    summary.append(_made(model, model_path, targets))
    if about.get("rejected"):
        notes.append(f"{amount(about['rejected'], 'rows')} of the input could not be used and were left out")
    labelled = Known()
    sections: dict[str, Any] = {"What was assumed, counted and left out": notes}
    if model is not None:
        labelled, left_out = labelled_of(model, targets)
        notes += [left_out] if left_out else []
        sections["The model"] = [f"{Path(model_path).name}", *words_of_model(model.metadata)]
    picture, caption = (b"", "") if model is None else _goodness(model, target)
    words = Words(
        title=title or _title(table, target),
        summary=summary,
        quantity=target,
        sections=sections,
        command=command,
        picture=picture,
        picture_words=caption,
    )
    write_page(table, path, words, labelled, actives)


def _made(model: Model | None, path: str | os.PathLike[str], targets: str | Sequence[str]) -> str:
    """Return which model and targets a page is of, and when it was made."""
    day = f"Page made on {time.strftime('%Y-%m-%d')}."
    if model is None:
        return day
    shown = [targets] if isinstance(targets, str) else list(targets)
    known = {name: model.directions.get(name) for name in shown}
    words = [f"'{name}'{f' (to {way})' if way else ''}" for name, way in known.items() if name]
    return f"Model {Path(path).name}{f' of {listed(words)}' if words else ''}. {day}"


def _title(table: pa.Table, target: str) -> str:
    what = "hits" if "rank" in table.column_names else "molecules"
    return f"{amount(table.num_rows, what)}{f' for {target}' if target else ''}"


def _goodness(model: Model, target: str) -> tuple[bytes, str]:
    """Return a picture of how well labels are predicted from the others, and what it shows."""
    place = _of_page(model, target)
    name = model.name_of(place)
    process, _ = process_of(model.gp, place)
    if not isinstance(process, ExactGP) or process.solver_ != "cholesky" or _in_metric(process):
        return b"", "To see how good the model is, predict labels that are left out: daskrf evaluate."
    if process.n_rows_ < _FEWEST_SHOWN:
        return b"", f"There are too few labels to tell, {process.n_rows_:,}."
    left = leave_one_out(process)
    held_out = HeldOut(left.y, left.mean, left.std)
    if np.ptp(left.y) == 0:
        return b"", "All labels are equal."
    share, error = r2(left.y, left.mean), rmse(left.y, left.mean)
    held = float(coverage(left.y, left.mean, left.std, [0.95])[0])
    each = f"{len(left.y):,} of {process.n_rows_:,} labels" if len(left.y) < process.n_rows_ else "Each label"
    text = (
        f"{each} of '{name}', predicted without its molecule's labels: R2 {share:.2f}, RMSE {error:.3g}; "
        f"the 95 % intervals hold {held:.0%} of them. Kernel and variances "
        "are those of all labels. Molecules unlike any labelled one are harder: daskrf evaluate --split "
        "scaffold."
    )
    picture = io.BytesIO()
    plot_evaluation(picture, [Panels(held_out, share, name, what="labels, each left out of the fit")])
    return picture.getvalue(), text


def _in_metric(process: ExactGP) -> bool:
    """Return whether the kernel was learned from labels, which it then fits too well to tell."""
    return process.kernel_choice_ is not None and bool(process.kernel_choice_.variances)


def _of_page(model: Model, target: str) -> Target:
    """Return the target of a page, or the first of the model if it is not known."""
    try:
        return ranked_target(model, target)
    except InputError:
        return 0


def labelled_of(model: Model, target: str | Sequence[str]) -> tuple[Known, str]:
    """Return the labelled molecules of a model with their labels, and what is to be said if some lack.

    Parameters
    ----------
    model : Model
    target : str, or sequence of str
        Molecules without a label of this target, or of one of these targets, are left out.
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
        return Known(), f"the nearest labelled molecules are not shown: {reason}"
    there = np.flatnonzero(np.isfinite(y) & np.array([bool(text) for text in smiles]))
    said = f"of the labelled molecules, {reason}" if reason else ""
    if not isinstance(target, str):
        said = "; ".join(filter(None, [f"labels of the nearest molecules are {', '.join(target)}", said]))
    if len(there) > _MOST_COMPARED:
        said = (
            f"the nearest labelled molecule is looked for among {_MOST_COMPARED:,} of {len(there):,} "
            "labelled ones, evenly spaced in their order"
        )
        there = there[np.linspace(0, len(there) - 1, _MOST_COMPARED).astype(np.int64)]
    values = [", ".join(f"{value:.4g}" for value in labels[i]) for i in there]
    return Known([smiles[i] for i in there], values), said


def screen_command(about: Mapping[str, Any], output: str) -> str:
    """Return the command that finds hits again, from what their file says; names are without folders.

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
    words += ["--acquisition", rule.pop("rule")]
    rule.pop("maximize", None)
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
    for name in ("where", "smarts", "without_smarts", "alerts"):
        for text in about.get(name) or ():
            words += [f"--{name.replace('_', '-')}", text]
    words += ["--exclude-labelled"] if about.get("exclude_labelled") else []
    words += (
        ["--exclude-by", about["exclude_by"]] if about.get("exclude_by", "tautomer") != "tautomer" else []
    )
    return shlex.join(words)
