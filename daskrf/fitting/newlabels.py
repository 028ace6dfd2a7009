"""New labels for a model: read as those of its fit were, with the fingerprints of their molecules."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from daskrf.errors import InputError, OptionError, printable
from daskrf.files.backend import as_path
from daskrf.jobs.job import Run
from daskrf.measurements import Labels, Reading, label_table, label_words, read_labels
from daskrf.models.directions import largest_best
from daskrf.models.joinedlabels import POSES, other_molecules
from daskrf.models.labelled import library_of_model, smiles_of_rows
from daskrf.models.models import Model
from daskrf.models.toolkits import check_toolkit
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.structures import level_of, same_names
from daskrf.quantities import listed
from daskrf.storage.labels import join_labels, match_labels
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.rowstore import RowStore
from daskrf.storage.stores.store import hash_of
from daskrf.tables.columns import smiles_position
from daskrf.tables.values.classes import ClassWords
from daskrf.tables.values.docking import hold_poses, known_score
from daskrf.tables.values.limits import limits_words, notes_on_limits, one_limit_of_each
from daskrf.tables.values.names import find_id, position_of
from daskrf.tables.values.repeats import notes_on_repeats, one_of_each
from daskrf.tables.values.values import BY_CELLS, Scale, limits_in, scales_in

Paths = str | os.PathLike[str]


@dataclass(frozen=True)
class LabelOptions:
    """The options for reading new labels."""

    key: str | None = None
    key_column: str | int | None = None
    target: Sequence[str | int] | None = None
    unit: str | Mapping[str, str] | None = None
    censored: Literal["limit", "drop", "value"] | None = None
    drop_non_numbers: bool = False
    drop_outside: str | tuple[float, float] | Mapping[str, object] | None = None
    drop_value: float | Sequence[float] | Mapping[str, object] | None = None
    accept_outliers: bool = False
    accept_rejects: bool = False
    replicates: str | int | None = None
    replicate_std: str | int | None = None
    replicate_sem: str | int | None = None
    repeats: str | None = None
    positive: str | Sequence[str] = ()

    def check(self) -> None:
        """Refuse numbers of measurements without the spread of each mean, and the other way round.

        Raises
        ------
        OptionError
        """
        if (self.replicates is None) != (self.replicate_std is None and self.replicate_sem is None):
            raise OptionError(
                "--replicates and --replicate-std or --replicate-sem go together; add the other one."
            )


@dataclass(frozen=True)
class NewLabels:
    """New labels with their molecules.

    Attributes
    ----------
    smiles : list of str
    row : int64 array, shape (n,)
        Rows of the library, -1 for molecules that were not looked up there.
    y : float64 array, shape (n, n_targets of the model)
        NaN where there is no label, or a limit.
    X : CSR array, shape (n, n_columns)
        Fingerprints; None until they are made.
    molecule : int64 array, shape (n,)
        The same for labels of the same molecule.
    place : int64 array, shape (n_read,)
        Number of each label as it was read among these, -1 where its molecule cannot be used.
    dropped, unmatched, rejected : int
        Rows without a number, labels of molecules that are not in the library, and unusable molecules.
    reason : str
        The first unusable molecule, and why it is.
    merged, merged_as : int and str
        Labels that were merged into one label of their molecule, and how.
    bound, side : arrays, shape (n, n_targets of the model), or None
        Limits, and 1 for lower and -1 for upper ones, as in `daskrf.measurements.Labels`.
    """

    smiles: list[str]
    row: npt.NDArray[np.int64]
    y: npt.NDArray[np.float64]
    X: sp.csr_matrix
    molecule: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]
    dropped: int = 0
    unmatched: int = 0
    rejected: int = 0
    reason: str = ""
    merged: int = 0
    merged_as: str = "all"
    bound: npt.NDArray[np.float64] | None = None
    side: npt.NDArray[np.int8] | None = None

    @property
    def digest(self) -> str:
        """The same for the same labels, whichever file they came from."""
        limits: list[object] = []
        if self.side is not None and self.bound is not None:
            limits = [_plain(self.bound), self.side.tolist()]
        return hash_of([self.smiles, _plain(self.y), *limits])

    @property
    def has_label(self) -> npt.NDArray[np.bool_]:
        """Whether there is a value or a limit, shape (n, n_targets)."""
        there = np.isfinite(self.y)
        return there if self.side is None else there | (self.side != 0)

    def limits_of(
        self, target: int, rows: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.float64] | None, npt.NDArray[np.int8] | None]:
        """Return limits and sides of a target for some labels; None if all of these are values."""
        if self.side is None or self.bound is None or not self.side[rows, target].any():
            return None, None
        return self.bound[rows, target], self.side[rows, target]

    def where(self, rows: npt.NDArray[np.intp]) -> LimitFields:
        """Return the limits of some labels, as fields."""
        if self.side is None or self.bound is None:
            return {}
        return {"bound": self.bound[rows], "side": self.side[rows]}


class LimitFields(TypedDict, total=False):
    """The fields of `NewLabels` that hold limits; none if all labels are values."""

    bound: npt.NDArray[np.float64]
    side: npt.NDArray[np.int8]


def _plain(values: npt.NDArray[np.float64]) -> list[list[float | None]]:
    """Return numbers for JSON, None for NaN."""
    return [[None if math.isnan(v) else v for v in row] for row in values.tolist()]


@dataclass
class LabelReader:
    """Reads labels with the targets, transforms, units and rules of the fit of a model.

    Attributes
    ----------
    model : Model
    labels : path
    options : LabelOptions
    library : path, optional
        Where IDs are looked up; by default in the library of the model.
    directions : dict of str to str
        Of targets, for `repeats` "best".
    notes : list of str
        What is unusual about the labels, after `read`.
    words : str
        How they were read, after `read`.
    target_indices : list of int
        Targets of the model that the file has, after `read`.
    reading : Reading
        How they were read, after `read`.
    lines : int64 array, shape (n_read,)
        Line of each label that was read, after `read`.
    id_column : int or None
        Column of IDs beside SMILES, after `read`.
    """

    model: Model
    labels: Paths
    options: LabelOptions
    library: Paths | None = None
    directions: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list, init=False)
    words: str = field(default="", init=False)
    target_indices: list[int] = field(default_factory=list, init=False)
    reading: Reading = field(init=False)
    lines: npt.NDArray[np.int64] = field(init=False)
    id_column: int | None = field(default=None, init=False)

    def read(self, run: Run) -> NewLabels:
        """Read the labels, and fingerprint their molecules.

        Raises
        ------
        InputError
            If the file lacks the targets of the model, labels cannot be read, or no molecule can be used.
        """
        path, options = as_path(self.labels), self.options
        head = label_table(path, options.key or "smiles")
        columns = head.names
        smiles = smiles_position(head)
        key = options.key or ("id" if smiles is None and options.key_column is None else "smiles")
        column = smiles if options.key_column is None and key == "smiles" else options.key_column
        if key == "smiles" and columns:
            taken = smiles if column is None else position_of(path, column, columns, len(columns))
            self.id_column = find_id(columns, head.values, [] if taken is None else [taken], head.title)
        reading = self._reading(path, key, column, columns)
        self.words = label_words(path, reading)
        run.progress.note(self.words)
        check_toolkit(self.model, note=run.progress.note)
        (old_labels,) = self.model.arrays("labels")
        labelled = read_labels(path, reading, existing=old_labels[:, self.target_indices], lines=True)
        self._check_classes(labelled)
        assert labelled.lines is not None
        self.reading, self.lines = reading, labelled.lines
        n_unread, unread = labelled.unread
        self.notes += [unread] if n_unread else []
        self.notes += [words] if (words := limits_words(labelled.unusual)) else []
        dropped = labelled.dropped - n_unread
        if key == "id":
            store = self._library()
            matches = match_labels(labelled, store, range(store.n_partitions))
            joined, row = join_labels(labelled, store, matches), matches.first_row[labelled.index]
            order = np.argsort(row, kind="stable")[np.count_nonzero(row < 0) :]  # as labels are joined
            place = np.full(len(row), -1)
            place[order] = np.arange(len(order))
            texts = smiles_of_rows(store, joined.row)
            if texts is None:
                raise InputError(f"{store.path} is too large to look up IDs; give SMILES in {path}.")
            groups, notes = joined.row, joined.notes
            leave_out = "leave out --key id to take the SMILES"
            if caution := other_molecules(path, reading, joined, store, sure=True, otherwise=leave_out):
                run.progress.note(f"{caution}.")
                self.notes.append(caution)
            y, limits = self._of_all_targets(joined.y), self._limits(joined.bound, joined.side)
            unmatched = joined.unmatched
            new = NewLabels(
                texts, joined.row, y, None, groups, place, dropped=dropped, unmatched=unmatched, **limits
            )
        else:
            groups, notes = self._molecules(labelled), labelled.notes
            keys = labelled.keys.take(pa.array(labelled.index)).to_pylist()
            y, limits = self._of_all_targets(labelled.y), self._limits(labelled.bound, labelled.side)
            row, place = np.full(len(keys), -1), np.arange(len(keys))
            new = NewLabels(keys, row, y, None, groups, place, dropped=dropped, **limits)
            if not labelled.means:
                notes += notes_on_repeats(groups, new.y, self.model.targets, new.smiles.__getitem__)
                if new.bound is not None and new.side is not None:
                    notes += notes_on_limits(groups, new.bound, new.side, self.model.targets)
        new, notes = self._merged(new, columns, notes, labelled.notes)
        for note in notes:
            run.progress.note(f"{note}.")
        self.notes += notes
        return self._fingerprinted(new)

    def _check_classes(self, labels: Labels) -> None:
        """Refuse numbers other than 0 and 1 for a target that is two classes."""
        for t, name, y in zip(self.target_indices, labels.names, labels.y.T, strict=True):
            there = y[np.isfinite(y)]
            wrong = there[~np.isin(there, (0.0, 1.0))]
            if (classes := self.model.classes[t]) is not None and len(wrong):
                raise InputError(
                    f"{self.labels}: '{printable(name, 60)}' has the label {wrong[0]:g}, but the model has "
                    f"two classes ({classes.words.words()}); write labels as these, or name another column "
                    "with --target."
                )

    def _molecules(self, labels: Labels) -> npt.NDArray[np.int64]:
        """Return the number of the molecule of each label, by the rule of the fit for equal molecules."""
        key = self.model.metadata.get("repeats", ["all", "structure"])[1]
        names = same_names(labels.keys.to_pylist(), level_of(key))
        return np.unique(names, return_inverse=True)[1].astype(np.int64)[labels.index]

    def _one_of_each(self, new: NewLabels, repeats: str) -> NewLabels:
        """Return one label for each molecule."""
        scales = scales_in(self.model.metadata) or [Scale(name, name) for name in self.model.targets]
        (labels,) = self.model.arrays("labels")
        largest: tuple[bool, ...] = ()
        if repeats == "best":
            largest = largest_best(self.directions, scales, labels, as_path(self.labels))
        groups = new.molecule
        first, y = one_of_each(groups, new.y, repeats, largest)
        if new.bound is not None and new.side is not None:
            bound, side = one_limit_of_each(groups, new.bound, new.side, np.isfinite(y))
            new = replace(new, bound=bound, side=side)
        smiles = [new.smiles[i] for i in first.tolist()]
        order = np.argsort(groups[first])
        merged = order[np.searchsorted(groups[first], groups, sorter=order)]
        place = _renumbered(new.place, merged)
        merged_labels = len(new.y) - len(first)
        return replace(
            new,
            smiles=smiles,
            row=new.row[first],
            y=y,
            molecule=groups[first],
            place=place,
            merged=merged_labels,
            merged_as=repeats,
        )

    def _merged(
        self, new: NewLabels, columns: Sequence[str], notes: tuple[str, ...], of_all: tuple[str, ...]
    ) -> tuple[NewLabels, tuple[str, ...]]:
        """Return one label for each molecule if labels are to be merged, and the notes that still hold."""
        repeats = repeats_of(self.model, self.options)
        if repeats != "all":
            if new.bound is not None and new.side is not None:
                of_all += notes_on_limits(new.molecule, new.bound, new.side, self.model.targets, y=new.y)
            return self._one_of_each(new, repeats), of_all
        if len(np.unique(new.molecule)) < len(new.molecule) and self._are_poses(columns, self.reading):
            with suppress(InputError):  # if it is not known which is the best, all count
                return self._one_of_each(new, "best"), (*of_all, POSES)
        return new, notes

    def _are_poses(self, columns: Sequence[str], reading: Reading) -> bool:
        """Return whether labels are scores of poses, and the user says nothing of several of a molecule."""
        if self.options.repeats is not None or reading.replicates is not None:
            return False
        path, n = as_path(self.labels), len(columns)
        targets = [columns[position_of(path, target, columns, n)] for target in reading.targets or ()]
        return hold_poses(columns, targets)

    def _reading(self, path: PurePath, key: str, column: str | int | None, columns: Sequence[str]) -> Reading:
        """Return how to read the file: with the targets, transforms and units of the fit."""
        scales = scales_in(self.model.metadata) or [Scale(name, name) for name in self.model.targets]
        pairs = self._columns(path, columns, scales)
        self.target_indices = [scales.index(scale) for _, scale in pairs]
        transform = {name: scale.transform for name, scale in pairs if scale.transform and name != scale.name}
        unit = {
            name: scale.unit
            for name, scale in pairs
            if name == scale.column and scale.unit and not scale.units and scale.found != BY_CELLS
        }
        options, limits = self.options, limits_in(self.model.metadata)
        if options.unit is not None:
            units = options.unit
            unit |= units if isinstance(units, Mapping) else {name: units for name, _ in pairs}
        return Reading(
            key=key,
            key_column=column,
            targets=[name for name, _ in pairs],
            drop_non_numbers=options.drop_non_numbers,
            censored=options.censored,
            transform=transform or None,
            unit=unit or None,
            drop_outside=options.drop_outside,
            drop_value=options.drop_value,
            accept_outliers=options.accept_outliers,
            scales=[scale for _, scale in pairs],
            limits=[limits[scales.index(scale)] for _, scale in pairs] if limits else None,
            replicates=options.replicates,
            replicate_std=options.replicate_std,
            replicate_sem=options.replicate_sem,
            repeats=repeats_of(self.model, self.options),
            accept_rejects=options.accept_rejects,
            positive=options.positive,
            existing_classes=self._classes([scale for _, scale in pairs], scales),
        )

    def _classes(self, chosen: Sequence[Scale], scales: Sequence[Scale]) -> list[ClassWords | None] | None:
        """Return the words of the classes of some targets of the model, if it has classes."""
        classes = [self.model.classes[scales.index(scale)] for scale in chosen]
        return [None if each is None else each.words for each in classes] if any(classes) else None

    def _columns(
        self, path: PurePath, columns: Sequence[str], scales: Sequence[Scale]
    ) -> list[tuple[str, Scale]]:
        """Return the columns of targets, each with its target: with the values of the fit, or its scale."""
        requested = [
            columns[position_of(path, name, columns, len(columns))] for name in self.options.target or []
        ]
        if len(requested) == len(scales):
            return list(zip(requested, scales, strict=True))
        named = [(name, scale) for scale in scales for name in (scale.column, scale.name) if name in columns]
        matches = list({scale.name: (name, scale) for name, scale in reversed(named)}.values())[::-1]
        if requested:
            matches = [(name, scale) for name, scale in matches if name in requested]
            if len(matches) != len(requested):
                raise InputError(
                    f"The model has the targets {listed(self.model.targets)}; give a column for each of "
                    "them, or columns that are named like some of them."
                )
        if not matches:
            wanted = listed([scale.column for scale in scales], "'")
            which = (
                f"no column {wanted}, the target" if len(scales) == 1 else f"none of {wanted}, the targets"
            )
            scores = {name: score for name in columns if (score := known_score(name, columns)) is not None}
            likely = next((f"'{name}' ({score.words()})" for name, score in scores.items()), "one of them")
            name = next((f"'{printable(name)}'" for name in scores), "")
            option = f"--target {name} (target={name})" if name else "--target (target=...)"
            raise InputError(
                f"{path} has {which} of the model {self.model.path}, but {listed(columns)}; if {likely} is "
                f"the same quantity, name it with {option}."
            )
        return matches

    def _of_all_targets(self, y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return labels with a column for each target of the model; NaN where the file has none."""
        values = np.full((len(y), len(self.model.targets)), math.nan)
        values[:, self.target_indices] = y
        return values

    def _limits(
        self, bound: npt.NDArray[np.float64] | None, side: npt.NDArray[np.int8] | None
    ) -> LimitFields:
        """Return limits and sides with a column for each target of the model, as fields."""
        if side is None or bound is None:
            return {}
        sides = np.zeros((len(side), len(self.model.targets)), np.int8)
        sides[:, self.target_indices] = side
        return {"bound": self._of_all_targets(bound), "side": sides}

    def _library(self) -> RowStore:
        """Return the library that IDs are looked up in."""
        if self.library is not None:
            return FingerprintStore.open(as_path(self.library))
        store = library_of_model(self.model)
        if store is None:
            raise InputError(
                f"{self.labels} has IDs and no SMILES, but {self.model.path} was fitted to molecules without "
                "a fingerprint store, or its store is not where it was; give the SMILES of the molecules, or "
                "name a store that has these IDs with --library."
            )
        return store

    def _fingerprinted(self, new: NewLabels) -> NewLabels:
        """Return the labels of molecules that have fingerprints."""
        metadata = self.model.metadata
        spec = FingerprintSpec.from_state(metadata["fingerprint"])
        block = Fingerprinter(spec, metadata["fragments"])(new.smiles)
        if not len(block.kept):
            raise InputError(
                f"None of the {len(new.smiles):,} molecules of {self.labels} can be used, such as "
                f"{new.smiles[0][:80]!r} ({block.rejects[0][1]}); name their column with --key-column."
            )
        first = block.rejects[0] if block.rejects else None
        reason = "" if first is None else f"{new.smiles[first[0]][:80]!r}: {first[1]}"
        number = np.full(len(new.smiles), -1)
        number[block.kept] = np.arange(len(block.kept))
        return replace(
            new,
            smiles=[new.smiles[i] for i in block.kept.tolist()],
            molecule=new.molecule[block.kept],
            place=_renumbered(new.place, number),
            row=new.row[block.kept],
            y=new.y[block.kept],
            **new.where(block.kept),
            X=block.fingerprints,
            rejected=len(block.rejects),
            reason=reason,
        )


def repeats_of(model: Model, options: LabelOptions) -> str:
    """Return how several labels of one molecule are merged: as requested, else as in the fit."""
    if options.replicates is not None and options.repeats is None:
        return "all"
    return str(options.repeats or model.metadata.get("repeats", ["all"])[0])


def _renumbered(place: npt.NDArray[np.int64], number: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the new numbers of some places; -1 stays."""
    return np.where(place >= 0, number[place], -1)
