"""Labels of a fit, joined to the library once; every task, shard and later run reads the same files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.errors import InputError, StoreError, printable
from daskrf.files.backend import backend, is_file
from daskrf.models.directions import directions_of, largest_best
from daskrf.models.labelled import labelled_tables
from daskrf.molecules.structures import others
from daskrf.storage.integrity import DAMAGE, as_damage, load_array, read_sealed, save_array, write_sealed
from daskrf.storage.labels import JoinedLabels, join_labels, match_labels
from daskrf.storage.stores.rowstore import RowStore
from daskrf.storage.stores.store import hash_of
from daskrf.tables.measurements import Reading, keys_of, label_table, read_column, read_labels
from daskrf.tables.scanning import survey
from daskrf.tables.values.classes import ClassWords, are_classes
from daskrf.tables.values.docking import hold_poses, known_score
from daskrf.tables.values.limits import notes_on_limits
from daskrf.tables.values.values import Limits, Scale

_RECORD, _ROWS, _LABELS = "joined.json", "rows.npy", "labels.npy"
_LIMITS = {"bound": "bounds.npy", "side": "sides.npy"}  # only where some labels are limits
_MOST_LABELS = 200_000  # above, the molecules of labels are not compared
_COMPARED, _MOST_ROWS = 500, 20_000_000  # molecules compared if more rows than that would have to be read
_FEW, _FEW_OF = 2, 0.05  # number and share of labels that may have the IDs of other molecules
_NEWER = {
    "positive": (),
    "classes": True,
    "existing_classes": None,
}  # options that earlier versions did not have
POSES = (
    "several scores of a molecule are taken as those of poses, of which the best counts; --repeats all, mean "
    "or median takes another"
)
_ADVICE = "run the same command again, which makes it anew"


@dataclass(frozen=True)
class LabelFiles:
    """Labels attached to rows, and the folder that tasks read them from once they are saved."""

    joined: JoinedLabels
    folder: PurePath
    there: bool
    damaged: bool = False

    def parts(self) -> list[tuple[tuple[int, ...], LabelFiles]]:
        """Return groups of target numbers with values in the same rows, each with the labels of that group.

        If targets have gaps, each part has its own folder, which may hold more than labels.
        """
        separate = self.joined.separate()
        if len(separate) == 1:
            return [(separate[0][0], self)]
        parts = []
        for number, (targets, joined) in enumerate(separate):
            folder = self.folder / f"part-{number}" / "labels"
            there = is_file(folder / _RECORD)
            damaged = there and _read(folder) is None
            parts.append((targets, LabelFiles(joined, folder, there and not damaged, damaged)))
        return parts

    def keep(self) -> None:
        """Save the labels to the folder, to be memory-mapped so that a host holds them once.

        Existing files are not replaced, because another process may have mapped them.
        """
        if self.there:
            return
        backend(self.folder).make(self.folder)
        limits = {} if self.joined.side is None else {v: getattr(self.joined, k) for k, v in _LIMITS.items()}
        digests = {
            name: save_array(self.folder / name, values, keep=not self.damaged)
            for name, values in {_ROWS: self.joined.row, _LABELS: self.joined.y, **limits}.items()
        }
        rest = {
            field.name: getattr(self.joined, field.name)
            for field in dataclasses.fields(self.joined)
            if field.name not in ("row", "y", *_LIMITS)
        }
        for name in ("scales", "limits"):
            rest[name] = [each.state() for each in rest[name]]
        rest["classes"] = [each and each.state() for each in rest["classes"]]
        write_sealed(self.folder / _RECORD, {"digests": digests, "labels": rest}, keep=not self.damaged)


def labels_of(
    path: PurePath,
    store: RowStore,
    directory: PurePath,
    reading: Reading,
    check: Callable[[int, float], None] = lambda n_labels, key_bytes: None,
    *,
    poses: bool = False,
    direction: str | Mapping[str, str] | None = None,
) -> LabelFiles:
    """Return labels attached to rows of `store`, read from `directory` if an earlier run saved them there.

    Nothing is written. `check` is called with the number of labels and the bytes per key, and may raise an
    error to refuse them: once before labels are read, with 0 bytes per key, and again before the join.

    With `poses`, the best score of each molecule counts where scores are those of poses, unless an earlier
    run saved them all; `direction` says which is the best, or else what is known of the docking program.
    """
    head = label_table(path, reading.key)
    _, digest, n_rows, _ = survey(path, head.table)
    options = dataclasses.asdict(reading)
    for name, usual in _NEWER.items():  # what an earlier version left is read again
        if options[name] == usual:
            del options[name]
    folder = _folder(directory, [digest, options, store.spec_hash])
    of_poses = _folder(directory, [digest, {**options, "repeats": "poses"}, store.spec_hash])
    for place in (folder, of_poses) if poses else (folder,):
        if is_file(place / _RECORD) and (stored := _read(place)) is not None:
            return LabelFiles(stored, place, there=True)
    check(n_rows, 0.0)
    labels = read_labels(path, reading)
    check(len(labels), labels.table.bytes_per_key)
    matches = match_labels(labels, store, range(store.n_partitions))
    labels = labels.closed()
    joined, notes = join_labels(labels, store, matches), labels.notes
    del labels, matches
    if reading.repeats != "all":
        # Notes on repeats would be about labels that are now merged.
        if joined.bound is not None and joined.side is not None:
            notes += notes_on_limits(joined.row, joined.bound, joined.side, joined.names, y=joined.y)
        joined = dataclasses.replace(joined, notes=notes)
        largest: tuple[bool, ...] = ()
        if reading.repeats == "best":
            largest = largest_best(directions_of(reading.best, joined.names), joined.scales, joined.y, path)
        joined = joined.one_of_each(reading.repeats, largest)
    elif poses and joined.repeats:
        best = _best_poses(joined, path, head.names, direction)
        if best is not None:
            joined, folder = dataclasses.replace(best, notes=(*notes, POSES)), of_poses
    there = is_file(folder / _RECORD)
    pa.default_memory_pool().release_unused()  # Arrow would keep up to three times what is still in use
    return LabelFiles(joined, folder, there=False, damaged=there)


def _folder(directory: PurePath, identity: list[Any]) -> PurePath:
    """Return the folder of labels that are read in one way."""
    return directory / f"labels-{hash_of(identity)[:16]}"


def _best_poses(
    joined: JoinedLabels, path: PurePath, names: Sequence[str], direction: str | Mapping[str, str] | None
) -> JoinedLabels | None:
    """Return the best score of each molecule, or None if they may be measurements of it."""
    columns = [scale.column for scale in joined.scales]
    if not hold_poses(names, columns):
        return None
    by_program = {
        scale.name: "maximize" if score.larger else "minimize"
        for scale in joined.scales
        if (score := known_score(scale.column, names)) is not None
    }
    directions = {**by_program, **directions_of(direction, joined.names)}
    try:
        largest = largest_best(directions, joined.scales, joined.y, path)
    except InputError:  # it is not known which is the best, so that all count
        return None
    return joined.one_of_each("best", largest)


def other_molecules(
    path: PurePath,
    reading: Reading,
    joined: JoinedLabels,
    store: RowStore,
    *,
    sure: bool,
    otherwise: str = "join by structure with --key structure",
) -> str:
    """Return a caution if labels that are joined by ID have the SMILES of other molecules, or nothing.

    Each label is compared with the molecule of its row, or only some hundred labels if too much would have to
    be read. Salts, tautomers and stereoisomers count as the same molecule. `sure` is whether the user has
    asked to join by ID, and `otherwise` is the alternative to suggest.

    Raises
    ------
    InputError
        If more than a few are other molecules, and the user has not asked to join by ID.
    """
    position = next((column for key, column in keys_of(path) if key == "structure"), None)
    if position is None:
        return ""
    if joined.matched > _MOST_LABELS:
        return f"the SMILES of more than {_MOST_LABELS:,} labels were not compared with those of the library"
    rows, columns = np.unique(joined.row), ("id", "smiles")
    n_rows, tables = labelled_tables(store, rows, columns)
    if n_rows > _MOST_ROWS:
        _, tables = labelled_tables(store, rows[:: -(-len(rows) // _COMPARED)], columns)
    library_smiles: dict[str, str] = {}
    for table in tables:
        library_smiles.update(zip(table["id"].to_pylist(), table["smiles"].to_pylist(), strict=True))
    labels, texts = read_column(path, position, reading)
    ids = [str(key) for key in labels.keys.take(pa.array(labels.index)).to_pylist()]
    both = [
        (key, text, library_smiles[key])
        for key, text in zip(ids, texts, strict=True)
        if text and key in library_smiles
    ]
    other = np.flatnonzero(others([text for _, text, _ in both], [text for _, _, text in both]))
    if not len(other):
        return ""
    key, ours, theirs = (printable(text, 100) for text in both[other[0]])
    what = (
        f"{len(other):,} of {len(both):,} labels that are joined by ID have the SMILES of another molecule "
        f"than the library has by that ID, such as '{key}': {ours} in the labels, {theirs} in the library"
    )
    few = len(other) < len(both) and len(other) <= max(_FEW, _FEW_OF * len(both))
    if few or sure:
        return f"{what}; check that the IDs mean the same molecules, or {otherwise}"
    raise InputError(
        f"{path}: {what}. Join by structure with --key structure (key='structure'), or, if the IDs are "
        "right, say so with --key id (key='id')"
    )


def kept_arrays(folder: PurePath) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the rows and labels saved in `folder`, memory-mapped.

    Raises
    ------
    StoreError
        If they are missing, or not what was saved.
    """
    record = read_sealed(folder / _RECORD, _ADVICE)
    with as_damage(folder / _RECORD, _ADVICE):
        rows, y = (load_array(folder / name, record["digests"][name]) for name in (_ROWS, _LABELS))
        if len(rows) != len(y):
            raise ValueError("there are not as many rows as labels")
        return rows, y


def kept_limits(folder: PurePath) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int8]] | None:
    """Return the limits and sides saved in `folder`, memory-mapped, or None if all labels were measured.

    Raises
    ------
    StoreError
        As `kept_arrays`.
    """
    record = read_sealed(folder / _RECORD, _ADVICE)
    with as_damage(folder / _RECORD, _ADVICE):
        names = [_LIMITS["bound"], _LIMITS["side"]]
        if not record["digests"].keys() >= set(names):
            return None
        bound, side = (load_array(folder / name, record["digests"][name]) for name in names)
        return bound, side


def _read(folder: PurePath) -> JoinedLabels | None:
    """Return the labels saved in `folder`, or None if they are damaged."""
    try:
        rows, y = kept_arrays(folder)
        record = read_sealed(folder / _RECORD, _ADVICE)
        rest: dict[str, Any] = record["labels"]
        for field, name in _LIMITS.items():
            if name in record["digests"]:
                rest[field] = load_array(folder / name, record["digests"][name])
        rest |= {name: tuple(rest[name]) for name in ("names", "unmatched_keys", "notes")}
        rest["scales"] = tuple(Scale(**state) for state in rest["scales"])
        rest["limits"] = tuple(map(Limits.from_state, rest["limits"]))
        classes = rest.get(
            "classes", [ClassWords().state() if are_classes(column) else None for column in y.T]
        )
        rest["classes"] = tuple(each and ClassWords.from_state(each) for each in classes)
        rest["unusual"] = {kind: (count, example) for kind, (count, example) in rest["unusual"].items()}
        return JoinedLabels(row=rows, y=y, **rest)
    except (StoreError, *DAMAGE):
        return None
