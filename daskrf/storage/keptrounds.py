"""Earlier rounds of a model: when labels are added, the old record is kept beside the new one.

`_round-0002.json` is a copy of the model's record after its second round, and the group of arrays that it
names stays where it was. So an earlier round is restored by copying its record back.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from daskrf.errors import StoreError
from daskrf.files.backend import atomic_write, backend, publish, remove_quietly, staging
from daskrf.files.disk import file_errors
from daskrf.storage.integrity import DAMAGE, FileList, as_damage, listed_objects
from daskrf.storage.stores.store import ARRAYS_FILE, read_headed

_ROUND_FILE = re.compile(r"_round-(\d{4,})\.json")


def kept_rounds(path: PurePath) -> dict[int, str]:
    """Return the names of the records that are kept, by the number of the round."""
    matches = (_ROUND_FILE.fullmatch(name) for name in backend(path).names(path))
    return {int(match[1]): match[0] for match in sorted(filter(None, matches), key=lambda match: match[0])}


def kept_groups(path: PurePath) -> set[str]:
    """Return the names of the groups of arrays that belong to rounds that are kept."""
    return {_group(path, name) for name in kept_rounds(path).values()}


def _group(path: PurePath, name: str) -> str:
    with as_damage(path / name):
        return str(read_headed(path, name)["group"])


def keep_round(path: PurePath, source: PurePath, number: int, group: str) -> None:
    """Keep all `number` rounds of the model at `source` for the model at `path`.

    `group` is the name of the group of arrays that the model had when it was read.

    Raises
    ------
    StoreError
        The model was replaced meanwhile, a record is damaged, or writing fails.
    """
    if _group(source, ARRAYS_FILE) != group:
        raise StoreError(f"The model {source} was changed during the run; run the same command again.")
    names = {round_: name for round_, name in kept_rounds(source).items() if round_ < number}
    names[number] = ARRAYS_FILE
    with file_errors("write", path):
        backend(path).make(path)
        for round_, name in kept_rounds(path).items():
            if round_ >= number:  # of rounds that were taken back
                remove_quietly(path / name)
        for round_, name in names.items():
            if source != path:
                _copy(path, source, name)
            if source != path or name == ARRAYS_FILE:
                atomic_write(path / f"_round-{round_:04}.json", backend(source).read(source, name))


def _copy(path: PurePath, source: PurePath, name: str) -> None:
    """Copy the files that a record names."""
    with as_damage(source / name):
        objects = listed_objects(read_headed(source, name)["objects"])
    with staging(path, "arrays") as directory:
        staged = {}
        for number, item in enumerate(objects):
            file = directory / str(number)
            file.write_bytes(backend(source).read(source, item.path))
            staged[path / item.path] = file
        publish(path, staged)


def problems_of_rounds(path: PurePath) -> list[str]:
    """Check every digest of the rounds that are kept, and return what is wrong."""
    problems = []
    for number, name in kept_rounds(path).items():
        try:
            files = FileList(listed_objects(read_headed(path, name)["objects"]))
            problems += [f"{problem} (of round {number})" for problem in files.problems(path)]
        except (StoreError, *DAMAGE) as error:
            problems.append(f"{name}: {error}")
    return problems


def is_restored(path: PurePath, number: int) -> bool:
    """Return whether a run restored this model of `number` rounds, but ended before it had tidied up."""
    return any(later > number for later in kept_rounds(path))


def restore_round(path: PurePath, number: int, last: int) -> None:
    """Restore a model of `last` rounds to what it was after round `number`, to the byte; delete later rounds.

    The record of the last round is deleted at the very end. So if a run is killed, the next one can tell
    whether it had restored the model.

    Raises
    ------
    StoreError
        The round was not kept, or is damaged.
    """
    rounds = kept_rounds(path)
    if number not in rounds:
        there = ", ".join(map(str, rounds)) or "none"
        raise StoreError(
            f"{path} has not kept round {number} (kept: {there}): an earlier version of daskrf added the "
            "round after it; fit again to the labels up to that round"
        )
    with as_damage(path / rounds[number]), file_errors("write", path):
        objects, sizes = (
            listed_objects(read_headed(path, rounds[number])["objects"]),
            backend(path).sizes(path),
        )
        if lost := [item.path for item in objects if sizes.get(item.path) != item.bytes]:
            raise StoreError(f"{path} has lost {lost[0]} of round {number}; restore it from a copy")
        atomic_write(path / f"_round-{last:04}.json", backend(path).read(path, ARRAYS_FILE))
        atomic_write(path / ARRAYS_FILE, backend(path).read(path, rounds[number]))
    tidy_rounds(path, number)


def tidy_rounds(path: PurePath, number: int) -> None:
    """Delete everything that belongs to rounds after `number`, the record of the last round at the end."""
    rounds = kept_rounds(path)
    needed = {_group(path, name) for round_, name in rounds.items() if round_ < number}
    needed.add(_group(path, ARRAYS_FILE))
    for name in backend(path).names(path):
        if name.startswith("arrays-") and name not in needed:
            remove_quietly(path / name)
    for round_ in sorted(rounds):
        if round_ >= number:
            remove_quietly(path / rounds[round_])
