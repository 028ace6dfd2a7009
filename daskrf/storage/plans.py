"""The plan of a store: what it is to hold, written before any data, and the hash that guards it."""

from __future__ import annotations

import hashlib
import json
import platform
import socket
import zipfile
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Any

from daskrf import __version__
from daskrf.errors import StoreError, printable
from daskrf.storage.backend import atomic_write, backend, is_file, readable
from daskrf.storage.files import canonical_json, file_errors
from daskrf.storage.integrity import DAMAGE, believed, is_sealed, parsed, sealed, unsealed

__all__ = ["FORMAT", "FORMAT_VERSION", "make_plan", "provenance", "read_plan", "write_plan"]

FORMAT = "daskrf"
FORMAT_VERSION = 2
PLAN_FILE = "_plan.json"  # Arrow passes over names that begin so, when it reads a folder of Parquet files
_OLD_PLAN_FILE = "plan.json"  # of format version 1
ARRAYS_FILE = "_arrays.json"  # of a model
_OLD_MODEL_FILE = "model.zip"
HASHED = ("format", "format_version", "kind", "spec", "partitions")
PACKAGES = ("numpy", "scipy", "numba", "zarr", "pyarrow", "dask", "distributed")
_MOST_PARTITIONS = 10**6  # of a plan that gives their number alone: it need not be as long as its list
KIND_NAMES = {
    "fingerprints": "a fingerprint store",
    "features": "a feature store",
    "predictions": "a prediction store",
    "model": "a model",
    "checkpoint": "a checkpoint",
    "hits": "hits",
    "rejects": "rejected rows of a screen",
}
KIND_COMMANDS = {
    "fingerprints": "daskrf fingerprint",
    "features": "daskrf featurize",
    "predictions": "daskrf predict",
    "model": "daskrf fit",
    "hits": "daskrf screen",
}


def provenance() -> dict[str, Any]:
    """What made a store, beside its specification: versions, host and time; never hashed.

    Returns
    -------
    dict
        ``python``, ``host``, ``created`` (UTC, ISO 8601) and one version for each package installed.

    Examples
    --------
    >>> sorted(provenance())[:3]
    ['created', 'dask', 'daskrf']
    """
    found: dict[str, Any] = {
        "daskrf": __version__,
        "python": platform.python_version(),
        "host": socket.gethostname(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def hash_of(value: Any) -> str:
    """SHA-256 of the canonical JSON text of `value`, as hexadecimal digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def plan_hash(plan: dict[str, Any]) -> str:
    """Hash of the hashed part of a plan."""
    return hash_of({key: plan[key] for key in HASHED})


def make_plan(
    kind: str, spec: dict[str, Any], partitions: list[dict[str, Any]] | int, origin: dict[str, Any] | None
) -> dict[str, Any]:
    """Build the content of ``plan.json``.

    Parameters
    ----------
    kind : str
        One of the kinds of `KIND_NAMES`.
    spec : dict
        All that the bytes of the store depend on; made of JSON values.
    partitions : list of dict, or int
        One entry a partition, or only their number.
    origin : dict or None
        Added to `provenance`.

    Returns
    -------
    dict

    Raises
    ------
    StoreError
        Where `spec` or `partitions` hold something that JSON has no exact form for.
    """
    plan = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "spec": spec,
        "partitions": partitions,
    }
    try:
        # The round trip turns tuples into lists, so that a plan equals itself when read again.
        plan = json.loads(canonical_json(plan))
    except (TypeError, ValueError) as error:
        raise StoreError(f"the specification of {KIND_NAMES[kind]} is not plain JSON ({error})") from error
    plan["spec_hash"] = plan_hash(plan)
    plan["provenance"] = {**provenance(), **(origin or {})}
    return plan


def write_plan(path: PurePath, plan: dict[str, Any]) -> None:
    """Write ``plan.json`` atomically into the directory `path`, unless somebody else just did."""
    text = json.dumps(plan, indent=1, ensure_ascii=False).encode(errors="surrogatepass")
    atomic_write(path / PLAN_FILE, sealed(text), keep=True)


def has_plan(path: PurePath) -> bool:
    """Whether there is a plan, of whatever format version, which `read_plan` will say."""
    return any(is_file(path / name) for name in (PLAN_FILE, _OLD_PLAN_FILE, _OLD_MODEL_FILE))


def prepare_directory(path: PurePath) -> None:
    """Make the directory of a new store, or accept an empty one."""
    with file_errors("create", path):
        backend(path).make(path)
        refuse_old(path)
        others = any(not name.startswith(".") for name in backend(path).names(path))
        if others and not is_file(path / PLAN_FILE):  # a shard that began with this one may have made it
            raise StoreError(f"{path} holds other files and is not a daskrf store; give another output path")


def check_format(found: Any, path: PurePath) -> None:
    """Refuse what is not a daskrf file, and a format version that this daskrf does not know, by name.

    Raises
    ------
    StoreError
    """
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise StoreError(f"{path} was not made by daskrf; check the path")
    if found.get("format_version") != FORMAT_VERSION:
        origin = found.get("provenance")
        made_by = origin.get("daskrf") if isinstance(origin, dict) else None
        made_by = printable(made_by or "of an unknown version", 40)
        number = printable(found.get("format_version"), 20)
        raise StoreError(
            f"{path} has format version {number} (made by daskrf {made_by}), and this daskrf "
            f"{__version__} knows version {FORMAT_VERSION} only: use the daskrf that made it, or make "
            "it again"
        )


def refuse_old(path: PurePath) -> None:
    """Refuse the store or model of an older format at `path`, if there is one.

    Raises
    ------
    StoreError
    """
    found: Any = {}
    with suppress(*DAMAGE):
        if is_file(path / _OLD_PLAN_FILE):
            found = parsed(backend(path).read(path, _OLD_PLAN_FILE))
        elif is_file(path / _OLD_MODEL_FILE):
            with zipfile.ZipFile(readable(path / _OLD_MODEL_FILE)) as archive:
                found = parsed(archive.read("metadata.json"))
    if isinstance(found, dict) and found.get("format") == FORMAT:
        check_format({**found, "format_version": 1}, path)


def check_kind(found: str, wanted: str | None, path: PurePath) -> None:
    """Refuse a store of another kind in one sentence.

    Raises
    ------
    StoreError
    """
    if wanted is None or found == wanted:
        return
    name = KIND_NAMES.get(found, f"a store of kind {printable(found, 40)!r}")
    needed = KIND_NAMES.get(wanted, wanted)
    command = KIND_COMMANDS.get(wanted)
    advice = f": make one with `{command}`" if command else ""
    raise StoreError(f"{path} is {name}, but {needed} is needed here{advice}")


def read_plan(path: PurePath) -> dict[str, Any]:
    """Read and check the ``plan.json`` of a store.

    Parameters
    ----------
    path : Path
        Directory of the store.

    Returns
    -------
    dict

    Raises
    ------
    StoreError
        No store there, damaged, or of an unknown format version.
    """
    file = path / PLAN_FILE
    with file_errors("read", file):
        if not is_file(file):
            refuse_old(path)
            if is_file(path / ARRAYS_FILE):
                raise StoreError(
                    f"{path} is a model, and a store of partitions is needed here; check the path"
                )
            if not is_file(path) and not backend(path).names(path):
                raise StoreError(f"{path} does not exist, or is empty; check the path")
            raise StoreError(f"{path} is not a daskrf store (it has no {PLAN_FILE}); check the path")
    advice = "restore it from a copy, or make the store again"
    with file_errors("read", file), believed(file, advice):
        plan = read_headed(path, PLAN_FILE)
        missing = [key for key in (*HASHED, "spec_hash") if key not in plan]
        if missing or plan_hash(plan) != plan["spec_hash"]:
            raise StoreError(
                f"{file} is damaged or was edited (its content does not match its hash); {advice}"
            )
        _check_types(plan)
    return plan


def read_headed(path: PurePath, name: str) -> dict[str, Any]:
    """Read sealed JSON that begins with format and version, and has a kind and a provenance.

    Raises
    ------
    ValueError
        It is damaged.
    StoreError
        It is of an unknown format version.
    """
    data = backend(path).read(path, name)
    if not is_sealed(data):
        check_format(parsed(data), path)  # another version may have another way
    found = unsealed(data)
    check_format(found, path)
    origin = found.get("provenance", {})
    if not (isinstance(found.get("kind"), str) and isinstance(origin, dict)):
        raise ValueError("its kind or its provenance is of the wrong type")
    # It is shown, and may be anybody's.
    if not all(isinstance(value, (str, int, float, type(None))) for value in origin.values()):
        raise ValueError("its provenance is not made of texts and numbers")
    return found


def _check_types(plan: dict[str, Any]) -> None:
    """Refuse a plan that has its hash and yet is none: anybody can compute a hash.

    Raises
    ------
    ValueError
    """
    if not (isinstance(plan["spec"], dict) and isinstance(plan["spec_hash"], str)):
        raise ValueError("its spec or its hash is of the wrong type")
    partitions = plan["partitions"]
    if isinstance(partitions, list):
        for entry in partitions:
            rows, start, stop = entry.get("rows", 0), entry.get("start", 0), entry.get("stop", 0)
            if not (type(rows) is type(start) is type(stop) is int):
                raise ValueError("the rows of its partitions are not numbers")
            if not (0 <= start <= stop < 2**63 and 0 <= rows < 2**63):
                raise ValueError("the rows of its partitions are impossible")
    elif type(partitions) is not int or not 0 <= partitions <= _MOST_PARTITIONS:
        raise ValueError("its number of partitions is impossible")
