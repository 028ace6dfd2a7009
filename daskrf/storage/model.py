"""Models and checkpoints: arrays that one atomic file holds."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from daskrf.errors import StoreError
from daskrf.storage.backend import as_path, backend, is_file
from daskrf.storage.container import Container, read_container, read_whole_metadata, write_container
from daskrf.storage.files import file_errors
from daskrf.storage.plans import MODEL_FILE, PLAN_FILE, check_kind, read_plan

__all__ = ["has_checkpoint", "load_model", "read_checkpoint", "save_model", "write_checkpoint"]


def save_model(
    path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]
) -> PurePath:
    """Write a model; one that is there is replaced in a single step.

    Parameters
    ----------
    path : path
        Directory of the model; made if need be.
    arrays : mapping of str to ndarray
        Weights, statistics and so on.
    metadata : mapping
        JSON values: state of the map, hyperparameters, names of the targets, spec hashes.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    StoreError
        A store of another kind is at `path`, or the disk does not take the model.
    """
    path = as_path(path)
    with file_errors("create", path):
        if is_file(path / PLAN_FILE):
            check_kind(read_plan(path)["kind"], "model", path)
        backend(path).make(path)
        backend(path).remove_stale(path, MODEL_FILE)
    write_container(path / MODEL_FILE, "model", arrays, metadata)
    return path / MODEL_FILE


def load_model(
    path: str | os.PathLike[str], names: Collection[str] | None = None, except_names: Collection[str] = ()
) -> Container:
    """Read a model, checking the digest of all that is read.

    Parameters
    ----------
    path : path
        Directory of the model.
    names : collection of str, optional
        Only these arrays; by default all of them.
    except_names : collection of str
        Not these: prediction does not need the Gram matrix.

    Returns
    -------
    Container
        Its ``arrays`` and ``metadata``.

    Raises
    ------
    StoreError
        No model there, another kind of store, damaged, or of an unknown format version.
    """
    return read_container(_model_file(as_path(path)), "model", names, except_names)


def _model_file(path: PurePath) -> PurePath:
    """The file of a model, refused in words where there is none."""
    with file_errors("read", path):
        if not is_file(path / MODEL_FILE):
            if is_file(path / PLAN_FILE):
                check_kind(read_plan(path)["kind"], "model", path)
            raise StoreError(f"{path} holds no model: check the path, or run `daskrf fit` first")
    return path / MODEL_FILE


def write_checkpoint(
    path: str | os.PathLike[str],
    arrays: Mapping[str, np.ndarray],
    meta: Mapping[str, Any],
    spec_hash: str,
    keep: bool = False,
) -> None:
    """Write a partial result durably; equal content gives equal bytes.

    Parameters
    ----------
    path : path
        File; its directory exists.
    arrays : mapping of str to ndarray
        The partial result.
    meta : mapping
        JSON values.
    spec_hash : str
        Of the work that it belongs to.
    keep : bool
        Leave a file alone that is there already, or comes there meanwhile.

    Raises
    ------
    StoreError
        The disk does not take it.
    """
    metadata = {"spec_hash": spec_hash, "meta": dict(meta)}
    write_container(as_path(path), "checkpoint", arrays, metadata, origin=False, keep=keep)


def has_checkpoint(path: str | os.PathLike[str], spec_hash: str) -> bool:
    """Whether a partial result is there in full length: cheap also where it takes gigabytes.

    Its digests are not checked; `read_checkpoint` does that, and gives None where they are wrong.

    Parameters
    ----------
    path : path
        File.
    spec_hash : str
        Of the work that asks for it.

    Returns
    -------
    bool
        False where it is absent, cut short, or belongs to other work.
    """
    try:
        header = read_whole_metadata(as_path(path))
    except StoreError:
        return False
    return header["kind"] == "checkpoint" and header["metadata"].get("spec_hash") == spec_hash


def read_checkpoint(path: str | os.PathLike[str], spec_hash: str) -> Container | None:
    """Read a partial result; its ``metadata`` are what `write_checkpoint` was given as `meta`.

    Parameters
    ----------
    path : path
        File.
    spec_hash : str
        Of the work that asks for it.

    Returns
    -------
    Container or None
        None where it is absent, damaged, or belongs to other work: it is then made again.
    """
    try:
        found = read_container(as_path(path), "checkpoint")
    except StoreError:
        return None
    if found.metadata.get("spec_hash") != spec_hash:
        return None
    return Container(found.metadata.get("meta", {}), found.arrays, found.provenance)
