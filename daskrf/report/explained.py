"""The report of many explained predictions, its table of atoms and its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from daskrf.errors import InputError
from daskrf.models.contributions import Contributions, contributions_of
from daskrf.molecules.counts.environments import drawn_with_weights, symbols
from daskrf.molecules.counts.similarity import nearest
from daskrf.quantities import amount
from daskrf.report.explainpage import MOST, ExplainedCard, write_explain_page
from daskrf.report.hitspage import labelled_of
from daskrf.report.notebook import Shown
from daskrf.report.tabulation import shorten, text_table
from daskrf.storage.hits import write_hits, write_recorded
from daskrf.storage.outputs import guarded

if TYPE_CHECKING:
    from daskrf.models.views import Predictor

PAGE = ".html"
"""Ending of a page."""
_LISTED = 20  # molecules in the report
_SHOWN = 60  # characters of a SMILES in it


@dataclass(frozen=True)
class ToExplain:
    """Molecules to explain, and the rows of their file or list that hold none.

    Attributes
    ----------
    names, smiles : sequence of str
    rejects : sequence of str
        A line on each row without a molecule.
    words : str
        What they are, for messages.
    """

    names: Sequence[str]
    smiles: Sequence[str]
    rejects: Sequence[str]
    words: str


@dataclass(frozen=True)
class ExplanationsReport(Shown):
    """The predictions of many molecules, explained.

    Attributes
    ----------
    target : str
    molecules : pyarrow.Table
        A row for each molecule: id, smiles, mean, std (of the predicted function), probability (if the target
        is two classes), the most negative and the most positive contribution of an atom (lowest, highest),
        and the most similar labelled molecule (nearest_labelled, its_label, similarity).
    table : pyarrow.Table
        A row for each atom: id, smiles, atom (from 0, in the order of the SMILES), symbol, contribution.
    rejects : tuple of str
        A line on each molecule that is not explained.
    cards : tuple of ExplainedCard
        What a page shows of each molecule.
    output : Path or None
    notes : tuple of str
    """

    target: str
    molecules: pa.Table = field(repr=False)
    table: pa.Table = field(repr=False)
    rejects: tuple[str, ...]
    cards: tuple[ExplainedCard, ...] = field(repr=False, default=())
    output: PurePath | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        n = self.molecules.num_rows
        where = f" in {self.output}" if self.output is not None else ""
        names = [name for name in self.molecules.column_names if name not in ("smiles", "nearest_labelled")]
        rows = self.molecules.slice(0, _LISTED).to_pylist()
        cells = [[*(cell_text(row[name]) for name in names), shorten(row["smiles"], _SHOWN)] for row in rows]
        lines = [f"{amount(n, 'predictions')} of {self.target} explained{where}"]
        lines += [text_table([*names, "smiles"], cells)]
        lines += [f"and {n - _LISTED:,} more"] if n > _LISTED else []
        lines.append(
            "lowest and highest: of the contributions of atoms, the mean minus the mean without the features "
            "that contain the atom" + ("" if self.output is not None else "; -o why.html draws them")
        )
        if self.rejects:
            left_out = f"{amount(len(self.rejects), 'molecules')} left out, such as {self.rejects[0]}"
            lines.append(left_out)
        return "\n".join([*lines, *self.notes])


def explained(
    molecules: ToExplain, fitted: Predictor, number: int, path: PurePath | None
) -> ExplanationsReport:
    """Explain the predictions of many molecules."""
    results: list[Contributions] = []
    names: list[str] = []
    rejects = list(molecules.rejects)
    for name, each in zip(molecules.names, contributions_of(fitted, number, molecules.smiles), strict=True):
        if isinstance(each, InputError):
            rejects.append(f"{name}: {str(each).removesuffix('.')}")
        else:
            results.append(each)
            names.append(name)
    if not results:
        first = f", such as {rejects[0]}" if rejects else ""
        raise InputError(f"None of {molecules.words} can be explained{first}; give molecules.")
    texts = [each.smiles for each in results]
    fragments = fitted.metadata["fragments"]
    columns: dict[str, object] = {
        "id": names,
        "smiles": texts,
        "mean": [each.mean for each in results],
        "std": [each.std for each in results],
    }
    if results[0].probability is not None:
        columns["probability"] = [each.probability for each in results]
    columns["lowest"] = [float(each.atoms.min(initial=np.inf)) for each in results]
    columns["highest"] = [float(each.atoms.max(initial=-np.inf)) for each in results]
    nearest_columns, notes = _nearest_labelled(fitted, number, texts)
    sizes = [len(each.atoms) for each in results]
    atoms = {
        "id": np.repeat(np.array(names, object), sizes),
        "smiles": np.repeat(np.array(texts, object), sizes),
        "atom": np.concatenate([np.arange(size) for size in sizes]),
        "symbol": [
            symbol
            for some, size in zip(symbols(texts, fragments), sizes, strict=True)
            for symbol in (some or [""] * size)
        ],
        "contribution": np.concatenate([each.atoms for each in results]),
    }
    table = pa.table(columns | nearest_columns)
    drawn = path is not None and path.suffix.lower() == PAGE
    if drawn and len(texts) > MOST:
        notes.append(f"the page shows the first {MOST:,}; a table such as why.csv has all")
    return ExplanationsReport(
        target=fitted.targets[number],
        molecules=table,
        table=pa.table(atoms),
        rejects=tuple(rejects),
        cards=_cards(table, results[:MOST], fragments, fitted.targets[number]) if drawn else (),
        output=path,
        notes=tuple(notes),
    )


def _nearest_labelled(
    fitted: Predictor, number: int, texts: list[str]
) -> tuple[dict[str, object], list[str]]:
    """Return columns on the most similar labelled molecule of each, and notes on labels left out."""
    labelled, note = labelled_of(fitted, fitted.targets[number])
    notes = [note] if note else []
    if not labelled.smiles:
        return {}, notes
    similarity, index = nearest(texts, labelled.smiles)
    return {
        "nearest_labelled": [labelled.smiles[i] for i in index],
        "its_label": [labelled.values[i] for i in index],
        "similarity": similarity,
    }, notes


def _cards(
    table: pa.Table, explained: Sequence[Contributions], fragments: str, target: str
) -> tuple[ExplainedCard, ...]:
    """Return what the page shows of each molecule."""
    cards = []
    for row, each in zip(table.slice(0, len(explained)).to_pylist(), explained, strict=True):
        lines = [f"{target} = {each.mean:.4g} ± {each.std:.2g}"]
        lines += [] if each.probability is None else [f"probability {each.probability:.3g}"]
        lines += [f"atoms from {row['lowest']:+.3g} to {row['highest']:+.3g}"] if len(each.atoms) else []
        if "similarity" in row:
            lines.append(f"nearest label {row['its_label']}, similarity {row['similarity']:.2f}")
        cards.append(ExplainedCard(row["id"], drawn_with_weights(each.smiles, fragments, each.atoms), lines))
    return tuple(cards)


def write_explained(report: ExplanationsReport, about: Mapping[str, object], *, overwrite: bool) -> None:
    """Write the page, or the table of atoms."""
    path, n = report.output, amount(report.molecules.num_rows, "predictions")
    assert path is not None
    before = guarded(path, overwrite=overwrite)
    if path.suffix.lower() != PAGE:
        made = {"made": f"contributions of the atoms to {n}", **about}
        write_hits(report.table, path, made, kind="explanation", before=before)
        return
    summary = [
        f"{n} by {about['model_name']}: means, with standard deviations of the predicted function.",
        "Blue atoms raise the mean, orange ones lower it, each drawing on a scale of its own. The number at "
        "an atom is the mean minus the mean without the fingerprint features that contain the atom: a hint, "
        "as no molecule lacks just these features, and numbers do not add up to the mean.",
        *(
            [f"{amount(len(report.rejects), 'molecules')} left out, such as {report.rejects[0]}."]
            if report.rejects
            else []
        ),
        *report.notes,
    ]
    title = f"Why are these predicted so? ({report.target})"
    write_recorded(
        path,
        lambda file: write_explain_page(file, title, summary, report.cards),
        {"made": f"page of {n}, explained", **about},
        "page",
        before,
    )


def cell_text(value: float | str | None) -> str:
    """Return a value as a cell of a printed table."""
    return value or "" if value is None or isinstance(value, str) else f"{value:.4g}"
