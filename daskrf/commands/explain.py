"""Model + molecules -> the labels behind their means, and the effect of each atom."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.errors import InputError, OptionError, printable
from daskrf.files.backend import as_path, exists, is_file
from daskrf.gp.processes.coregionalized import CoregionalizedTarget
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.separate import process_of
from daskrf.models.contributions import contributions_of
from daskrf.models.directions import target_of
from daskrf.models.labelled import labelled_smiles
from daskrf.models.toolkits import check_toolkit
from daskrf.molecules.counts.environments import drawn_with_weights, painted_with_weights
from daskrf.molecules.counts.similarity import nearest
from daskrf.parameters import Command, Option
from daskrf.quantities import amount
from daskrf.report.explained import PAGE, ExplanationsReport, ToExplain, cell_text, explained, write_explained
from daskrf.report.notebook import Shown
from daskrf.report.tabulation import shorten, text_table
from daskrf.sources.given import Data, molecules_given
from daskrf.sources.wholefile import named_molecules_in
from daskrf.storage.hits import write_recorded
from daskrf.storage.kinds import kind_of
from daskrf.storage.outputs import guarded, refuse_others
from daskrf.storage.tablefiles import check_ending, holds_any_rows
from daskrf.workers.progress import Progress

if TYPE_CHECKING:
    from daskrf.models.views import Predictor

Paths = str | os.PathLike[str]
Array = npt.NDArray[np.float64]

CLI = Command(
    "daskrf explain docking.model 'CC(=O)Nc1ccc(O)cc1' -o why.svg",
    step=6,
    options={"target": Option(metavar="NAME"), "n": Option(least=1)},
    prints=True,
)

_SVG, _PNG = ".svg", ".png"
_LIKE_A_FILE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,9}$")
_UNLIKE = 0.9  # of the standard deviation without any label: above, the labels say little of a molecule
_SHOWN = 60  # characters of a SMILES in a table


@dataclass(frozen=True)
class ExplainReport(Shown):
    """The prediction of one molecule, explained.

    Attributes
    ----------
    smiles, target : str
    mean, std : float
        Of the predicted function.
    constant : float or None
        Mean of the exact process far from all labels; None for other models.
    labelled : pyarrow.Table
        The labelled molecules with the largest kernel values: smiles, label, limit (where any label is one:
        "<" or ">"), similarity (Tanimoto, ECFP4),
        and, for an exact process, kernel and share. The mean is the sum of `constant`, these shares and
        `rest`.
    rest : float or None
        Sum of the shares of all other labelled molecules.
    n_rest : int
        Their number.
    atoms : float64 array, shape (n_atoms,)
        The mean minus the mean without the features that contain an atom.
    unlike : bool
        Whether the standard deviation is more than 90 % of the prior one.
    drawing : str
        SVG: atoms that raise the mean are blue, those that lower it orange.
    output : Path or None
        Where the drawing is.
    notes : tuple of str
    probability : float or None
        Of the positive class, if the target is two classes.
    """

    smiles: str
    target: str
    mean: float
    std: float
    constant: float | None
    labelled: pa.Table = field(repr=False)
    rest: float | None
    n_rest: int
    atoms: Array = field(repr=False)
    unlike: bool
    drawing: str = field(repr=False)
    output: PurePath | None = None
    notes: tuple[str, ...] = ()
    probability: float | None = None

    @property
    def table(self) -> pa.Table:
        """The same as `labelled`, for `to_pandas`."""
        return self.labelled

    def __str__(self) -> str:
        lines = [f"{self.smiles}: {self.target} = {self.mean:.4g} ± {self.std:.2g}"]
        if self.probability is not None:
            lines.append(f"probability of the positive class: {self.probability:.3g}")
        rows = self.labelled.to_pylist()
        names = [name for name in self.labelled.column_names if name != "smiles"]
        if rows:
            cells = [[*(cell_text(row[n]) for n in names), shorten(row["smiles"], _SHOWN)] for row in rows]
            lines += ["nearest labelled molecules:", text_table([*names, "smiles"], cells)]
        if self.constant is not None:
            above = sum(self.labelled["share"].to_pylist())
            lines.append(
                f"mean = {self.constant:.4g} without any label, {above:+.4g} from those above, "
                f"{self.rest:+.4g} from {amount(self.n_rest, 'others')}"
            )
        where = f", in {self.output}" if self.output is not None else "; draw them with -o why.svg (output)"
        if len(self.atoms):
            lines.append(
                f"atoms: from {self.atoms.min():+.3g} to {self.atoms.max():+.3g}, the mean minus the mean "
                f"without the features that contain the atom{where}"
            )
        return "\n".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>{self.drawing}"


def explain(
    model: Paths,
    smiles: Data,
    output: Paths | None = None,
    *,
    target: str | int | None = None,
    n: int = 10,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ExplainReport | ExplanationsReport:
    """Explain the predictions of one molecule or of many.

    Shows the labelled molecules that are nearest by the kernel. For an exact process, the mean is exactly a
    constant plus the shares of all labels, k(x, x_i) alpha_i. Smooth kernels, such as those in a learned
    metric, have large shares that cancel; the report says so. It also shows the effect of each atom: the mean
    minus the mean without the features that contain the atom. No real molecule lacks just these features, so
    take the effect as a hint; the effects do not add up to the mean.

    Parameters
    ----------
    model : path
        Directory of the model, as written by fit.
    smiles : str, path, or other data
        A molecule, or a file of molecules. In Python also a list of SMILES or of RDKit molecules, or a
        DataFrame.
    output : path, optional
        Of one molecule: a drawing, a file that ends in .svg or .png; atoms that raise the mean are blue,
        those that lower it orange. Of many: a page of drawings that ends in .html, or a table with a row for
        each atom, such as .csv, .parquet or .xlsx.
    target : str or int, optional
        Target; needed only if the model has several.
    n : int
        Number of labelled molecules to show for one molecule; of many, the nearest one is shown.
    overwrite : bool
        Replace a file of daskrf at the output.
    progress : Progress, optional
        Receives messages.

    Returns
    -------
    ExplainReport or ExplanationsReport
        The latter of a file, or of other data than a SMILES.

    Raises
    ------
    InputError
        If the SMILES, or all of many, cannot be read, or the model's fingerprints have no features of atoms.

    Notes
    -----
    Source of the contributions of atoms: Riniker & Landrum 2013, Similarity maps (J. Cheminform. 5, 43).
    """
    path = None if output is None else as_path(output)
    several = not isinstance(smiles, str) or exists(as_path(smiles))
    if path is not None:
        _check_output(path, several=several, overwrite=overwrite)
    from daskrf.models.views import load  # with dask.array, which takes half a second

    fitted = load(model)
    check_toolkit(fitted)
    number = target_of(fitted, target)
    about = {
        "model": fitted.metadata["spec_hash"],
        "model_name": as_path(model).name,
        "target": fitted.targets[number],
    }
    if several:
        report = explained(_molecules(smiles, progress or Progress()), fitted, number, path)
        if path is not None:
            write_explained(report, about, overwrite=overwrite)
        return report
    return _of_one(str(smiles), fitted, number, n, path, about, overwrite=overwrite)


def _of_one(
    smiles: str,
    fitted: Predictor,
    number: int,
    n: int,
    path: PurePath | None,
    about: Mapping[str, Any],
    *,
    overwrite: bool,
) -> ExplainReport:
    """Explain the prediction of one molecule, and write its drawing if there is a path."""
    fragments = fitted.metadata["fragments"]
    (each,) = contributions_of(fitted, number, [smiles])
    if isinstance(each, InputError):
        if _LIKE_A_FILE.search(smiles):
            raise InputError(
                f"'{printable(smiles, _SHOWN)}' does not exist and is not a SMILES; check the path or the "
                "structure."
            )
        raise each
    std, atoms = each.std, each.atoms
    gp, _ = process_of(fitted.gp, number)
    prior = _prior_std(gp, each.row)
    report = ExplainReport(
        smiles=smiles,
        target=fitted.targets[number],
        mean=each.mean,
        std=std,
        constant=None,
        labelled=pa.table({}),
        rest=None,
        n_rest=0,
        atoms=atoms,
        unlike=prior is not None and std > _UNLIKE * prior,
        drawing=drawn_with_weights(smiles, fragments, atoms),
        output=path,
        probability=each.probability,
    )
    report = _with_labels(report, fitted, gp, number, each.row, n)
    if report.unlike:
        share = f"{std / (prior or 1):.0%}"
        note = f"this molecule is unlike all labelled ones: std is {share} of that without any label"
        report = replace(report, notes=(*report.notes, note))
    if path is not None:

        def write(file: Path) -> None:
            if path.suffix.lower() == _PNG:
                file.write_bytes(painted_with_weights(smiles, fragments, atoms))
            else:
                file.write_text(report.drawing)

        made = {"made": f"drawing of the prediction of {smiles}", **about}
        write_recorded(path, write, made, "drawing", guarded(path, overwrite=overwrite))
    return report


def _molecules(data: object, progress: Progress) -> ToExplain:
    """Return the molecules of a file, or of data in memory."""
    if isinstance(data, (str, os.PathLike)):
        path = as_path(data)
        if not is_file(path) and (kind := kind_of(path, missing_ok=True)) is not None:
            raise InputError(f"{path} is not a file of molecules, but daskrf's own ({kind}); give molecules.")
        file = named_molecules_in(path, progress)
        return ToExplain(file.names, file.smiles, file.rejects, path.name)
    texts, reasons = molecules_given(data)
    good = [row for row, why in enumerate(reasons) if why is None]
    return ToExplain(
        names=[f"row-{row}" for row in good],
        smiles=[texts[row] for row in good],
        rejects=[f"row {row}: {why}" for row, why in enumerate(reasons) if why is not None],
        words="the molecules given",
    )


def _check_output(path: PurePath, *, several: bool, overwrite: bool) -> None:
    """Refuse another ending, and a file that may not be replaced."""
    if several:
        if path.suffix.lower() != PAGE:
            if not holds_any_rows(path):
                raise OptionError(
                    f"Many molecules are explained by a page or a table of atoms; end {path} in {PAGE}, "
                    f".csv, .parquet or .xlsx, for example {path.parent / f'{path.stem}{PAGE}'}."
                )
            check_ending(path)
        refuse_others(path, overwrite=overwrite)
        return
    if path.suffix.lower() not in (_SVG, _PNG):
        example = path.parent / f"{path.stem}{_SVG}"
        raise OptionError(
            f"The drawing is an SVG or a PNG file; end its name in {_SVG} or {_PNG}, for example {example}."
        )
    refuse_others(path, overwrite=overwrite)


def _prior_std(gp: object, row: Any) -> float | None:
    """Return the standard deviation of an exact process at a row before any label, or None for others."""
    if not isinstance(gp, (ExactGP, CoregionalizedTarget)):
        return None
    return float(np.sqrt(gp.signal_variance_[0] * gp.kernel.diag(row)[0]))


def _with_labels(
    report: ExplainReport, model: Predictor, gp: object, target: int, row: Any, n: int
) -> ExplainReport:
    """Add the nearest labelled molecules, and for an exact process their shares of the mean."""
    labelled, reason = labelled_smiles(model)
    labels = model.arrays("labels")[0][:, target]
    side = np.zeros(len(labels), np.int8)
    if (limits := model.limits_of(target)) is not None:
        side = limits[1]
        labels = np.where(side != 0, limits[0], labels)
    there = np.flatnonzero(np.isfinite(labels))
    if not labelled:
        return replace(report, notes=(f"the labelled molecules are not shown: {reason}",))
    texts, y = [labelled[i] for i in there], labels[there]
    if not isinstance(gp, ExactGP) or len(gp.alpha_) != len(texts):
        similarity = _similarities(report.smiles, texts)
        order = np.argsort(-similarity, kind="stable")[:n]
        columns = {"label": y[order], **_limit_column(side[there[order]]), "similarity": similarity[order]}
        columns |= {"smiles": [texts[i] for i in order]}
        note = "only an exact process has shares of labels in the mean, and this model is not one"
        if isinstance(gp, CoregionalizedTarget):
            note = (
                "the targets are modelled together, so the mean has shares of labels of all; none are shown"
            )
        return replace(report, labelled=pa.table(columns), n_rest=len(texts) - len(order), notes=(note,))
    kernel = np.asarray(gp.kernel(row, gp.X_train_), np.float64)[0]
    shares = kernel * gp.alpha_
    order = np.argsort(-kernel, kind="stable")[:n]
    chosen = [texts[i] for i in order]
    columns = {
        "label": y[order],
        **_limit_column(side[there[order]]),
        "similarity": _similarities(report.smiles, chosen),
        "kernel": kernel[order],
        "share": shares[order],
        "smiles": chosen,
    }
    rest = float(shares.sum() - shares[order].sum())
    notes = report.notes
    if (largest := float(np.abs(shares).max())) > float(np.ptp(y)):
        cancel = f"shares reach {largest:.3g}, more than the range of the labels, and cancel each other"
        notes += (f"{cancel}: to this kernel many labelled molecules are near; ignore single shares",)
    return replace(
        report,
        constant=float(gp.mean_[0]),
        labelled=pa.table(columns),
        rest=rest,
        n_rest=len(texts) - len(order),
        notes=notes,
    )


def _limit_column(side: npt.NDArray[np.int8]) -> dict[str, object]:
    """Return the column that marks limits, if there are any."""
    signs = [{1: ">", -1: "<"}.get(each) for each in side.tolist()]
    return {"limit": pa.array(signs, pa.string())} if any(signs) else {}


def _similarities(smiles: str, others: list[str]) -> Array:
    """Return the similarity of a molecule to each of others."""
    return nearest(others, [smiles])[0]
