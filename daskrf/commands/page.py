"""Hits, a batch, predictions or any molecules -> one HTML page to look at."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa

from daskrf.errors import InputError, OptionError
from daskrf.files.backend import as_path, backend
from daskrf.models.models import Model, read_model
from daskrf.parameters import Command
from daskrf.quantities import amount, format_bytes
from daskrf.report.annotation import Reference
from daskrf.report.hitspage import screen_command, write_hits_page
from daskrf.report.notebook import Shown
from daskrf.report.webpage import ENDING, MOST
from daskrf.sources.wholefile import molecules_in
from daskrf.storage.hits import hits_at, write_recorded
from daskrf.storage.kinds import kind_of
from daskrf.storage.outputs import guarded, refuse_others
from daskrf.storage.stores.predictions import PredictionStore
from daskrf.workers.progress import Progress

Paths = str | os.PathLike[str]

_SHOWN = ("model", "model_name", "target", "direction", "source", "library")  # of the description of hits

CLI = Command("daskrf page hits.parquet -o hits.html --model docking.model --actives known.sdf", step=6)


@dataclass(frozen=True)
class PageReport(Shown):
    """What `page` wrote.

    Attributes
    ----------
    page : Path
    rows : int
        Molecules shown.
    bytes : int
        Size of the page.
    seconds : float
    notes : tuple of str
        Remarks on the molecules.
    """

    page: PurePath
    rows: int
    bytes: int
    seconds: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = f"{amount(self.rows, 'molecules')} in {self.page}, {format_bytes(self.bytes)}"
        return "\n".join([f"{what} ({self.seconds:.1f} s)", *(f"  {note}" for note in self.notes)])


def page(
    hits: Paths,
    output: Paths,
    *,
    model: Paths | None = None,
    actives: Paths | None = None,
    title: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PageReport:
    """Show molecules on one HTML page, which any browser opens offline.

    Shows structures, means with error bars, the nearest labelled molecule with its value and similarity, the
    nearest known active, Murcko scaffolds, and histograms of weight, logP and TPSA. The table can be sorted,
    filtered, and saved. Below the table, it says what was assumed, what was left out, and how to repeat the
    search.

    Parameters
    ----------
    hits : path
        A file that screen, suggest or predict wrote, or any file of molecules. The first 10,000 are shown.
    output : path
        File that ends in .html.
    model : path, optional
        Model of the hits, for the nearest labelled molecules.
    actives : path, optional
        File of molecules to compare with, of any format.
    title : str, optional
        Title of the page.
    overwrite : bool
        Replace a file of daskrf at the output.
    progress : Progress, optional
        Receives messages and progress.

    Returns
    -------
    PageReport

    Raises
    ------
    InputError
        If there are no molecules, or the model is not that of the hits.
    StoreError
        If there is a file of daskrf at `output`.
    """
    start, output = time.monotonic(), as_path(output)
    _check_output(output, overwrite=overwrite)
    progress = progress or Progress()
    table, about, notes = _molecules(as_path(hits), progress)
    fitted = None if model is None else read_model(as_path(model), statistics=False)
    if fitted is not None:
        _check_model(fitted, about, model)
    if table.num_rows > MOST:
        notes.append(f"the first {MOST:,} of {amount(table.num_rows, 'molecules')} are shown")
        table = table.slice(0, MOST)
    known_actives = None
    if actives is not None:
        molecules = molecules_in(as_path(actives), progress)
        known_actives = Reference(molecules["smiles"].to_pylist(), molecules["id"].to_pylist())
    description = {**about, "notes": [*about.get("notes", ()), *notes]}
    command = "\n".join(
        filter(None, [screen_command(about, as_path(hits).name), _command(hits, output, model, actives)])
    )

    def write(file: Path) -> None:
        write_hits_page(
            table=table,
            path=file,
            about=description,
            model=fitted,
            model_path=model or "",
            actives=known_actives,
            title=title or "",
            command=command,
        )

    shown = {
        **{name: about[name] for name in _SHOWN if name in about},
        "made": f"page of {amount(table.num_rows, 'molecules')} of {as_path(hits).name}",
        "notes": notes,
    }
    write_recorded(output, write, shown, "page", guarded(output, overwrite=overwrite))
    size = backend(output).size(output) or 0
    return PageReport(output, table.num_rows, size, time.monotonic() - start, tuple(notes))


def _check_output(output: PurePath, *, overwrite: bool) -> None:
    """Refuse another ending, and a file that may not be replaced."""
    if output.suffix.lower() != ENDING:
        example = output.parent / f"{output.stem}{ENDING}"
        raise OptionError(f"A page is an HTML file; end its name in {ENDING}, for example {example}.")
    refuse_others(output, overwrite=overwrite)


def _molecules(path: PurePath, progress: Progress) -> tuple[pa.Table, Mapping[str, Any], list[str]]:
    """Return the molecules in a file, its own description, and remarks on them."""
    earlier = hits_at(path)
    listed = earlier is not None and earlier.kind in ("hits", "batch") and bool(earlier.about)
    if earlier is not None and listed and not earlier.problems():
        return earlier.table, earlier.about, []
    if kind_of(path, missing_ok=True) == "predictions":
        store = PredictionStore.open(path)
        rows, parts = 0, []
        for p in range(store.n_partitions):
            parts.append(store.read(p))
            rows += parts[-1].num_rows
            if rows > MOST:
                break
        notes = [f"only the first {MOST:,} predictions are shown"] if rows > MOST else []
        return pa.concat_tables(parts).slice(0, MOST), {}, notes
    table = molecules_in(path, progress)
    if not table.num_rows:
        raise InputError(f"{path} holds no molecules to show.")
    changed = f"{path.name} was changed since it was written, and is shown as it is now"
    return table, {}, [changed] if listed else []


def _check_model(model: Model, about: Mapping[str, Any], path: Paths | None) -> None:
    """Refuse a model that is not that of the hits."""
    if "model" in about and about["model"] != model.metadata["spec_hash"]:
        raise InputError(
            f"The hits are from the model {about['model_name']} with hash {about['model'][:12]}, but {path} "
            f"is another model, with hash {model.metadata['spec_hash'][:12]}; give the model of the hits."
        )


def _command(hits: Paths, output: PurePath, model: Paths | None, actives: Paths | None) -> str:
    """Return the command that makes the page again; names are without folders."""
    words = ["daskrf", "page", Path(hits).name, "-o", output.name]
    words += ["--model", Path(model).name] if model is not None else []
    words += ["--actives", Path(actives).name] if actives is not None else []
    return shlex.join(words)
