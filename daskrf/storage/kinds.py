"""What kind of thing is at a path: a store, a model, or what no command has written."""

from __future__ import annotations

from pathlib import PurePath

from daskrf.errors import StoreError
from daskrf.files.backend import backend, is_file
from daskrf.files.disk import file_errors
from daskrf.storage.keptrounds import kept_rounds
from daskrf.storage.model import is_group
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import (
    ARRAYS_FILE,
    KIND_NAMES,
    has_plan,
    read_plan,
)


def kind_of(path: PurePath, missing_ok: bool = False) -> str | None:
    """Return the kind of the store or model at a path.

    Parameters
    ----------
    path : path
        Its directory.
    missing_ok : bool
        Return None if there is neither, instead of raising.

    Returns
    -------
    str or None

    Raises
    ------
    StoreError
        Nothing is there, the plan is damaged, or the format version is unknown.
    """
    with file_errors("read", path):
        if is_file(path / ARRAYS_FILE):
            return "model"
        if missing_ok and not has_plan(path):
            return None
    return str(read_plan(path)["kind"])


def stored_library(path: PurePath) -> FeatureStore | FingerprintStore:
    """Open the store of features or of fingerprints at a path; its plan is read once.

    Raises
    ------
    StoreError
        There is no such store, or it is damaged, or of an unknown format version.
    """
    plan = read_plan(path)
    if plan["kind"] == FeatureStore.needed_kind:
        return FeatureStore.of_plan(path, plan)
    return FingerprintStore.of_plan(path, plan)


def find_library(path: PurePath) -> FeatureStore | FingerprintStore | None:
    """Open the store of features or of fingerprints at a path; return None if no command has written there.

    Raises
    ------
    StoreError
        As `stored_library`.
    """
    with file_errors("read", path):
        if not is_file(path / ARRAYS_FILE) and not has_plan(path):
            return None
    return stored_library(path)


def check_output(path: PurePath, kind: str) -> None:
    """Raise an error if the path of an output of some kind holds something else, before any input is read.

    Raises
    ------
    StoreError
    """
    name = KIND_NAMES[kind]
    with file_errors("read", path):
        if is_file(path):
            raise StoreError(f"{path} is a file, and {name} is a directory; give another output path")
        others = [name for name in backend(path).names(path) if not name.startswith(".")]
    kind_there = kind_of(path, missing_ok=True)
    if kind_there is not None and kind_there != kind:
        there = KIND_NAMES.get(kind_there, "another store")
        raise StoreError(f"{path} is {there} already; give another output path, or delete that one")
    if kind == "model":  # a crash may have left arrays of a model, and records of its rounds
        rounds = kept_rounds(path).values()
        others = [name for name in others if not is_group(name) and name not in rounds]
    if kind_there is None and others:
        what = "model" if kind == "model" else "store"
        raise StoreError(f"{path} holds other files and is not a daskrf {what}; give another output path")
