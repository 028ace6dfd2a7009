"""Differences between two specifications, in terms of command-line options."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import cast

from daskrf.errors import InputError, OtherPlanError, StoreError, printable
from daskrf.exports import declared
from daskrf.molecules.counts.spec import FingerprintSpec, FingerprintState
from daskrf.storage.integrity import DAMAGE

_VECTOR = 8  # longest list of numbers that is shown whole, such as a range of norms
_SHOWN = 200  # characters of a value shown in an error message
_DIGEST = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
# Patterns of the end of a key, and its name for users. None: the option is named after the parameter.
_NAMES = (
    (r"map\.fitted.*", "what the map has learned"),
    (r"map\.(class|kernel\.kernel)", {"class": "--map", "kernel.kernel": "--kernel"}),
    (r"(?:parameters\.)?(\w+)\.(?:class|kernel)", None),
    (r"map\..*?(\w+)", None),
    (r"(?:acquisition)\.rule", "--acquisition"),
    (r"(?:acquisition)\.(\w+)", None),
    (r"(?:fingerprint|options)\.(\w+)", None),
    (r"sources\[\d+\]\.path", "the input files"),
    (r"sources\[\d+\]\.layout\.(smiles|id)", {"smiles": "--smiles-column", "id": "--id-column"}),
    (r"sources\[\d+\]\.layout\.(header|delimiter)", None),
    (r"sources\[\d+\].*", "the content of the input files"),
    (r"(?:library\.)?partitions.*|chunk_rows|partition_chunks|rows_per_partition", "--rows-per-partition"),
    (r"targets.*", "--target"),
    (
        r"(fragments|dtype|k|std|seed|target|exclude_labelled|n_components|molecules|labelled)",
        None,
    ),
    (r"(exclude_by|within|per_block|shortlist|rough|rough_components)", None),
    (r"(where|smarts|without_smarts|alerts|similar_to|least_similarity|nearest)(?:\[\d+\])?", None),
    (r"extra.*", "--keep-columns"),
    (r"rdkit", "the version of RDKit"),
    (r"source", "the library"),
    (r"(labels|model|library)", {"labels": "the labels", "model": "the model", "library": "the library"}),
    (r"rows", "the number of labels"),
    (r"n_columns|diagonal", ""),
)
# These follow from other options, and are named only if nothing else differs.
_FOLLOWS = ("--rows-per-partition", "what the map has learned", "the number of labels")


def made_with_others(path: PurePath, differing: str) -> StoreError:
    """Return the error for an output that was made from other input or with other options."""
    return OtherPlanError(
        f"{path} was made from other input or with other options: {differing}; give another output path, "
        "delete that one, or repeat what it was made with",
        path,
    )


def differences(old: Mapping[str, object], new: Mapping[str, object], limit: int = 6) -> str:
    """Return each option or input in which two specifications differ, with both values.

    Parameters
    ----------
    old, new : dict
        Plans, or any nested JSON values.
    limit : int
        Name at most this many; the rest are only counted.

    Returns
    -------
    str
        Empty if they are equal.

    Examples
    --------
    >>> specs = ({"map": {"parameters": {"n_components": n, "hashing": "cws"}}} for n in (8, 64))
    >>> differences(*specs)
    '--n-components (was 8, now 64)'
    >>> differences({"labels": 64 * "a", "k": 3}, {"labels": 64 * "b", "k": 3})
    'the labels are others'
    >>> differences({"where": ["price > 9"]}, {"where": []})
    '--where (was price > 9, now not given)'
    >>> differences({"k": 3, "shortlist": None}, {"k": 4})
    '-k (was 3, now 4)'
    """
    first, second = (dict(_leaves(spec)) for spec in _by_kind(old, new))
    keys = [*first, *(key for key in second if key not in first)]
    keys = [key for key in keys if first.get(key, second) != second.get(key, first)]
    # What is None in one and not in the other at all is not given in either. A missing kernel is one leaf,
    # None: only the parts of the kernel that is given are reported.
    keys = [key for key in keys if first.get(key) is not None or second.get(key) is not None]
    # Likewise for an empty list: only the items of the other list are reported.
    empty = {key for key in keys if first.get(key) == [] or second.get(key) == []}
    keys = [key for key in keys if key not in empty or not any(k.startswith(f"{key}[") for k in keys)]
    # If a class differs, its parameters are left out; if parameters differ, so is what a map has learned.
    classes = {key.rpartition(".")[0] for key in keys if key.endswith((".class", ".kernel"))}
    keys = [key for key in keys if _speaks(key, keys, classes)]
    named: dict[str, str] = {}
    # List items come last: a single option may change all of them.
    for key in sorted(keys, key=lambda name: name.count("[")):
        name = _name(key)
        named.setdefault(name, _both(name, first.get(key), second.get(key)))
    if "the input files" in named:
        named.pop("the content of the input files", None)
    reported = [words for name, words in named.items() if name and name not in _FOLLOWS] or list(
        named.values()
    )
    more = f" and {len(reported) - limit} more" if len(reported) > limit else ""
    return ", ".join(reported[:limit]) + more


def _name(key: str) -> str:
    """Return the user-facing name of a key; the key itself if it has none."""
    for pattern, name in _NAMES:
        if match := re.fullmatch(rf"(?:.*\.)?(?:{pattern})", key):
            if name is None:
                word = match[1].replace("_", "-")
                return f"--{word}" if len(word) > 1 else f"-{word}"
            return name if isinstance(name, str) else name[match[1]]
    return printable(key, _SHOWN)


def _both(name: str, was: object, now: object) -> str:
    digests = all(isinstance(value, str) and _DIGEST.fullmatch(value) for value in (was, now))
    if name.startswith(("the content", "what the map")):
        return f"{name} has changed"
    if digests:
        return f"{name} {'are others' if name == 'the labels' else 'is another'}"
    was, now = (
        "not given" if value is None and name.startswith("-") else _value(value) for value in (was, now)
    )
    return f"{name} (was {was}, now {now})"


def _value(value: object) -> str:
    """Return a value as on the command line, shortened: landmarks, for instance, may take a megabyte."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    from daskrf.features.featuremap import known_maps  # slow, and rarely needed
    from daskrf.kernels.kernel import Kernel

    names = {cls.__name__: cls.facts.name for cls in known_maps()}
    names |= {cls.__name__: cls.name for cls in declared("daskrf.kernels", Kernel).values() if cls.name}
    text = names.get(value, value) if isinstance(value, str) else json.dumps(value)
    if len(text) <= _SHOWN:
        return printable(text)
    return f"{len(text):,} characters with SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _by_kind(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield two specifications, with kinds of fingerprints by name if either has several kinds."""
    states = [spec.get("fingerprint") for spec in (old, new)]
    several = any(isinstance(state, dict) and "kinds" in state for state in states)
    for spec, state in zip((old, new), states, strict=True):
        if not (several and isinstance(state, dict)):
            yield spec
            continue
        try:
            kinds = FingerprintSpec.from_state(cast(FingerprintState, state))
        except (InputError, *DAMAGE):
            yield spec
            continue
        options = {name: getattr(kinds, name) for name in ("counts", "size", "chirality")}
        yield {**spec, "fingerprint": {"kind": kinds.name, **options}}


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield dotted path and value of each leaf; empty containers and short lists of numbers are leaves."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from _leaves(value[key], f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and value and not _is_vector(value):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{name}[{index}]")
    else:
        yield name, value


def _is_vector(value: list[object]) -> bool:
    return len(value) <= _VECTOR and all(isinstance(item, (int, float)) for item in value)


def _speaks(key: str, keys: list[str], classes: set[str]) -> bool:
    """Return whether a differing key is worth naming beside the other differing keys."""
    parent, _, name = key.rpartition(".")
    for owner in classes:
        if key.startswith(f"{owner}.") and not (parent == owner and name in ("class", "kernel")):
            return False
    head, learned, _ = key.partition(".fitted")
    return not (learned and any(other.startswith(f"{head}.parameters") for other in keys))
