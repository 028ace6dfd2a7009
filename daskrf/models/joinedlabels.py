"""Labels of a fit, joined to the library once; every task, shard and later run reads the same files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.errors import InputError, StoreError, printable
from daskrf.files.backend import backend, exists, is_file, remove_quietly
from daskrf.jobs.job import Run
from daskrf.measurements import (
    LabelFile,
    Reading,
    keys_of,
    label_table,
    read_column,
    read_labels,
)
from daskrf.measurements.opening import open_labels
from daskrf.models.directions import directions_of, largest_best
from daskrf.models.labelled import labelled_tables
from daskrf.models.labelparts import KEYS_IN_PARTS, Surveyed, join_in_parts
from daskrf.molecules.structures import others
from daskrf.storage.integrity import DAMAGE, array_writer, as_damage, load_array, read_sealed, write_sealed
from daskrf.storage.labels import JoinedLabels, RowLabels, join_labels, match_labels
from daskrf.storage.labels import joined as ordered
from daskrf.storage.stores.rowstore import RowStore
from daskrf.storage.stores.store import hash_of
from daskrf.tables.scanning import survey
from daskrf.tables.spool import Spool
from daskrf.tables.values.classes import ClassWords, are_classes
from daskrf.tables.values.docking import hold_poses, known_score
from daskrf.tables.values.limits import notes_on_limits
from daskrf.tables.values.values import Limits, Scale

_RECORD = "joined.json"
_ROWS, _LABELS, _BOUNDS, _SIDES = "rows.npy", "labels.npy", "bounds.npy", "sides.npy"
_ARRAYS = {"row": _ROWS, "y": _LABELS, "bound": _BOUNDS, "side": _SIDES}  # the last two only for limits
MOST_AT_ONCE = 1 << 22
"""Labels that are joined in one process, of the command; more are joined in parts, on the workers."""
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
        joined = self.joined
        labels = iter([joined.labels])
        has_limits = joined.side is not None
        keep = not self.damaged
        self.record(_written(self.folder, joined.y.shape, labels, has_limits=has_limits, keep=keep))

    def record(self, digests: dict[str, str]) -> None:
        """Write the record of labels whose arrays are in the folder."""
        rest = {
            field.name: getattr(self.joined, field.name)
            for field in dataclasses.fields(self.joined)
            if field.name not in _ARRAYS
        }
        for name in ("scales", "limits"):
            rest[name] = [each.state() for each in rest[name]]
        rest["classes"] = [each and each.state() for each in rest["classes"]]
        write_sealed(self.folder / _RECORD, {"digests": digests, "labels": rest}, keep=not self.damaged)


def _written(
    folder: PurePath, shape: tuple[int, ...], blocks: Iterator[RowLabels], *, has_limits: bool, keep: bool
) -> dict[str, str]:
    """Write labels, of which `blocks` gives some at a time, to a folder; return the digests of the files."""
    shapes: dict[str, tuple[tuple[int, ...], npt.DTypeLike]] = {
        _ROWS: (shape[:1], np.int64),
        _LABELS: (shape, np.float64),
    }
    if has_limits:
        shapes |= {_BOUNDS: (shape, np.float64), _SIDES: (shape, np.int8)}
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(array_writer(folder / name, *of_file, keep))
            for name, of_file in shapes.items()
        }
        for block in blocks:
            for field, name in _ARRAYS.items():
                if name in writers:
                    writers[name].append(getattr(block, field))
    return {name: writer.checksum for name, writer in writers.items()}


def labels_of(
    path: PurePath,
    store: RowStore,
    directory: PurePath,
    reading: Reading,
    check: Callable[[int, float], None] = lambda n_labels, key_bytes: None,
    *,
    run: Run | None = None,
    poses: bool = False,
    direction: str | Mapping[str, str] | None = None,
) -> LabelFiles:
    """Return labels attached to rows of `store`, read from `directory` if an earlier run saved them there.

    Nothing is written, unless there are many labels and a `run`, on whose workers they are joined in parts:
    then they are saved. `check` is called with the number of labels and the bytes per key, and may raise an
    error to refuse them: once before labels are read, with 0 bytes per key, and again before the join.

    With `poses`, the best score of each molecule counts where scores are those of poses, unless an earlier
    run saved them all; `direction` says which is the best, or else what is known of the docking program.
    """
    head = label_table(path, reading.key)
    _, digest, n_rows, index = survey(path, head.table)
    options = dataclasses.asdict(reading)
    for name, usual in _NEWER.items():  # what an earlier version left is read again
        if options[name] == usual:
            del options[name]
    folder = _folder(directory, [digest, options, store.spec_hash])
    of_poses = _folder(directory, [digest, {**options, "repeats": "poses"}, store.spec_hash])
    for place in (folder, of_poses) if poses else (folder,):
        if is_file(place / _RECORD) and (stored := _read(place)) is not None:
            return LabelFiles(stored, place, there=True)
    merging = _Merging(path=path, reading=reading, names=head.names, poses=poses, direction=direction)
    if run is not None and n_rows > MOST_AT_ONCE and reading.key in KEYS_IN_PARTS:
        run.progress.note(f"More than {MOST_AT_ONCE:,} labels: they are joined in parts, on the workers.")
        spool = None
        if head.table.compression:  # now that it is known to be long
            survey(path, head.table, directory / "spool")
            spool = Spool(directory / "spool", digest)
        surveyed = Surveyed(hash_of([digest, options, store.spec_hash]), n_rows, index, spool)
        return _of_parts(run, store, merging, surveyed, folder, of_poses)
    check(n_rows, 0.0)
    labels = read_labels(path, reading)
    check(len(labels), labels.table.bytes_per_key)
    matches = match_labels(labels, store, range(store.n_partitions))
    labels = labels.closed()
    joined, notes = join_labels(labels, store, matches), labels.notes
    del labels, matches
    merged = merging.of(joined)
    if merged is not None:
        # Notes on repeats would be about labels that are now merged.
        joined = dataclasses.replace(joined, notes=(*notes, *merged.notes(joined)))
        joined = joined.one_of_each(merged.repeats, merged.largest)
        folder = of_poses if merged.are_poses else folder
    there = is_file(folder / _RECORD)
    pa.default_memory_pool().release_unused()  # Arrow would keep up to three times what is still in use
    return LabelFiles(joined, folder, there=False, damaged=there)


def _folder(directory: PurePath, identity: list[object]) -> PurePath:
    """Return the folder of labels that are read in one way."""
    return directory / f"labels-{hash_of(identity)[:16]}"


@dataclass(frozen=True)
class _Merged:
    """How several labels of a molecule become one: see `JoinedLabels.one_of_each`."""

    repeats: str
    largest: tuple[bool, ...]
    are_poses: bool = False

    def notes(self, joined: JoinedLabels) -> tuple[str, ...]:
        """Return a line on each thing that is worth telling of labels about to be merged."""
        if self.are_poses:
            return (POSES,)
        if joined.bound is None or joined.side is None:
            return ()
        return notes_on_limits(joined.row, joined.bound, joined.side, joined.names, y=joined.y)


@dataclass(frozen=True, kw_only=True)
class _Merging:
    """What decides whether several labels of a molecule become one; `names` are those of all columns."""

    path: PurePath
    reading: Reading
    names: Sequence[str]
    poses: bool
    direction: str | Mapping[str, str] | None

    def may_be(self, file: LabelFile) -> bool:
        """Return whether repeats may be merged."""
        columns = [scale.column for scale in file.scales]
        return self.reading.repeats != "all" or (self.poses and hold_poses(self.names, columns))

    def of(self, joined: JoinedLabels) -> _Merged | None:
        """Return how labels are merged, or None if all count."""
        if self.reading.repeats != "all":
            largest: tuple[bool, ...] = ()
            if self.reading.repeats == "best":
                directions = directions_of(self.reading.best, joined.names)
                largest = largest_best(directions, joined.scales, joined.y, self.path)
            return _Merged(self.reading.repeats, largest)
        columns = [scale.column for scale in joined.scales]
        if not (self.poses and joined.repeats and hold_poses(self.names, columns)):
            return None
        by_program = {
            scale.name: "maximize" if score.larger else "minimize"
            for scale in joined.scales
            if (score := known_score(scale.column, self.names)) is not None
        }
        directions = {**by_program, **directions_of(self.direction, joined.names)}
        try:
            return _Merged(
                "best", largest_best(directions, joined.scales, joined.y, self.path), are_poses=True
            )
        except InputError:  # it is not known which is the best, so that all count
            return None


def _of_parts(
    run: Run,
    store: RowStore,
    merging: _Merging,
    surveyed: Surveyed,
    folder: PurePath,
    of_poses: PurePath,
) -> LabelFiles:
    """Return labels that are joined in parts, and saved in a folder a range of rows at a time."""
    parts = folder.parent / f"{folder.name}.parts"
    backend(parts).make(parts)
    join = join_in_parts(run, open_labels(merging.path, merging.reading), store, surveyed, parts)
    may_merge = merging.may_be(join.file)
    place = parts / "all" if may_merge else folder
    shape, has_limits = (join.n_matched, len(join.file.names)), join.file.has_limits
    backend(place).make(place)
    run.progress.start("order labels", join.n_matched, "labels")
    blocks = _advancing(run, join.blocks())
    keep = not may_merge and not exists(folder / _RECORD)  # a record that is there is damaged
    digests = _written(place, shape, blocks, has_limits=has_limits, keep=keep)
    run.progress.finish()
    labels = _arrays(place, digests)
    joined = ordered(join.file, join.counts, labels, join.elsewhere, None)
    merged = merging.of(joined)
    if merged is None:
        joined = ordered(join.file, join.counts, labels, join.elsewhere, join.key_of)
    elif merged.are_poses:
        folder = of_poses
    damaged = exists(folder / _RECORD)
    if may_merge:
        blocks = labels.blocks()
        if merged is not None:
            shape = (join.counts.n_keys, shape[1])
            blocks = (block.one_of_each(merged.repeats, merged.largest) for block in blocks)
        backend(folder).make(folder)
        digests = _written(folder, shape, blocks, has_limits=has_limits, keep=not damaged)
    if merged is not None:
        joined = dataclasses.replace(joined, notes=(*joined.notes, *merged.notes(joined)))
        joined = joined.merged_as(merged.repeats, _arrays(folder, digests))
    elif may_merge:
        joined = dataclasses.replace(joined, **vars(_arrays(folder, digests)))
    files = LabelFiles(joined, folder, there=True)
    dataclasses.replace(files, damaged=damaged).record(digests)
    if run.share.whole:  # else other shards may be reading there
        remove_quietly(parts)
    return files


def _advancing(run: Run, blocks: Iterator[RowLabels]) -> Iterator[RowLabels]:
    for block in blocks:
        yield block
        run.progress.advance(len(block.row))


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
        labels = _arrays(folder, {name: record["digests"][name] for name in (_ROWS, _LABELS)})
        return labels.row, labels.y


def _arrays(folder: PurePath, digests: dict[str, str]) -> RowLabels:
    """Return the labels in a folder, memory-mapped."""
    arrays = {
        field: load_array(folder / name, digests[name]) for field, name in _ARRAYS.items() if name in digests
    }
    if len({len(array) for array in arrays.values()}) != 1:
        raise ValueError("there are not as many rows as labels")
    return RowLabels(**arrays)


def kept_limits(folder: PurePath) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int8]] | None:
    """Return the limits and sides saved in `folder`, memory-mapped, or None if all labels were measured.

    Raises
    ------
    StoreError
        As `kept_arrays`.
    """
    record = read_sealed(folder / _RECORD, _ADVICE)
    with as_damage(folder / _RECORD, _ADVICE):
        labels = _arrays(folder, record["digests"])
        return None if labels.bound is None or labels.side is None else (labels.bound, labels.side)


def _read(folder: PurePath) -> JoinedLabels | None:
    """Return the labels saved in `folder`, or None if they are damaged."""
    try:
        record = read_sealed(folder / _RECORD, _ADVICE)
        labels = _arrays(folder, record["digests"])
        rest = dict(record["labels"])
        rest |= {name: tuple(rest[name]) for name in ("names", "unmatched_keys", "notes")}
        rest["scales"] = tuple(Scale(**state) for state in rest["scales"])
        rest["limits"] = tuple(map(Limits.from_state, rest["limits"]))
        classes = rest.get(
            "classes", [ClassWords().state() if are_classes(column) else None for column in labels.y.T]
        )
        rest["classes"] = tuple(each and ClassWords.from_state(each) for each in classes)
        rest["unusual"] = {kind: (count, example) for kind, (count, example) in rest["unusual"].items()}
        return JoinedLabels(**vars(labels), **rest)
    except (StoreError, *DAMAGE):
        return None
