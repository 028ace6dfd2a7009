"""Scores as a scorer writes them, joined to the molecules that it was called with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.files.backend import as_path
from daskrf.measurements import Labels, Reading, keys_of, label_words, read_labels
from daskrf.measurements.labels import without_numbers
from daskrf.molecules.structures import canonical_smiles, same_names
from daskrf.storage.tablefiles import write_molecules
from daskrf.tables.posefiles import pose_tables

NO_SCORE = "no score in the file that the scorer wrote"


@dataclass(frozen=True)
class CallScores:
    """The scores of one call of a scorer.

    Attributes
    ----------
    scores : dict of str to float
        By the name of the molecule; the best one of several.
    repeated : int
        Number of molecules with several scores.
    others : int
        Number of scores of molecules that the call was not asked for.
    words : str
        How the file was read.
    unread : int
        Number of rows or poses that cannot be read, such as those of a file that ends too early.
    no_numbers : str
        What stands in place of numbers in the column of scores, in words; empty if nothing does.
    """

    scores: Mapping[str, float] = field(default_factory=dict)
    repeated: int = 0
    others: int = 0
    words: str = ""
    unread: int = 0
    no_numbers: str = ""


def read_scores(
    path: Path, molecules: Mapping[str, str], *, target: str | int | None, maximize: bool
) -> CallScores:
    """Return the scores in a file of any format that labels may have, or in a folder of files of poses.

    They are joined by the names of molecules, or else by structure, or else by tautomers of the parent, as
    docking programs may change the protonation of what they dock.

    Parameters
    ----------
    path : Path
    molecules : mapping of str to str
        SMILES by name.
    target : str or int, optional
        Column of the scores. Default: the only one, or the one that a docking program ranks by.
    maximize : bool
        Whether the largest of several scores of a molecule is the best.

    Raises
    ------
    InputError
        If there is no file, it cannot be read, or none of its scores is of one of the molecules.
    """
    if path.is_dir():
        path = _table_of_poses(path)
    if not path.exists() or not path.stat().st_size:
        raise InputError("it wrote no scores")
    matches: list[CallScores] = []
    for key, column in keys_of(path):
        reading = Reading(
            key=key,
            key_column=column,
            targets=None if target is None else [target],
            drop_non_numbers=True,
            accept_outliers=True,
            accept_rejects=True,
        )
        labels, words = read_labels(as_path(path), reading), label_words(as_path(path), reading)
        for numbers in _numbers(labels, molecules, key):
            matches.append(_joined(labels, list(molecules), numbers, words, maximize=maximize))
            if len(matches[-1].scores) == len(molecules):
                return matches[-1]
    best = max(matches, key=lambda match: len(match.scores))
    if not best.scores:
        raise InputError(
            f"none of the {len(labels):,} scores that it wrote is of one of the molecules of the call"
        )
    return best


def _table_of_poses(folder: Path) -> Path:
    """Write the poses in a folder of files as one table beside it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    table = folder.with_suffix(".parquet")
    if files:
        write_molecules(pose_tables(files), table)
    return table


def _numbers(labels: Labels, molecules: Mapping[str, str], key: str) -> list[npt.NDArray[np.int64]]:
    """Return, for each way to join, the number of the molecule of each label, or -1."""
    keys = [str(each) for each in labels.keys.to_pylist()]
    smiles = list(molecules.values())
    if key == "id":
        return [_places(keys, list(molecules))[labels.index]]
    tautomers = same_names([*keys, *smiles], "tautomer")
    by_structure = _places(keys, canonical_smiles(smiles))
    by_tautomer = _places(tautomers[: len(keys)], tautomers[len(keys) :])
    return [by_structure[labels.index], by_tautomer[labels.index]]


def _places(keys: Sequence[str], names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the place of each key among names, or -1."""
    places = {name: place for place, name in reversed(list(enumerate(names)))}
    return np.array([places.get(key, -1) for key in keys], np.int64)


def _joined(
    labels: Labels, names: Sequence[str], numbers: npt.NDArray[np.int64], words: str, *, maximize: bool
) -> CallScores:
    """Return the best score of each molecule, and count the others."""
    y, scores = labels.y[:, 0], dict[str, float]()
    counts = np.bincount(numbers[numbers >= 0], minlength=len(names))
    for number, score in zip(numbers.tolist(), y.tolist(), strict=True):
        if number >= 0:
            name = names[number]
            better = max if maximize else min
            scores[name] = better(scores.get(name, score), score)
    unread, _ = labels.unread
    several, others = int((counts > 1).sum()), int((numbers < 0).sum())
    return CallScores(scores, several, others, words, unread, without_numbers(labels.unusual))
