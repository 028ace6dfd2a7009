"""The keys by which labels are joined to molecules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from daskrf.errors import InputError
from daskrf.measurements.labeltable import LabelTable
from daskrf.measurements.reading import BY_SMILES
from daskrf.molecules.extensions import GROUPS, clean_smiles, has_groups
from daskrf.molecules.radicals import Radicals, radicals_among, words_on_radicals
from daskrf.molecules.structures import LEVELS, canonical_smiles, inchikeys, parents, same_names
from daskrf.quantities import amount
from daskrf.tables.keytable import TEXT, KeyColumn, KeyTable, table_of


@dataclass(frozen=True)
class MarkedKeys:
    """Keys with enhanced stereo groups and radicals, among some distinct keys that are SMILES."""

    n_groups: int
    radicals: Radicals


def key_column(kind: str) -> KeyColumn:
    return KeyColumn(pa.int64() if kind == "row" else TEXT)


def keys_in(source: LabelTable, lines: list[int], keys: list[str]) -> pa.Array:
    """Return keys in the form of the library's: row numbers, stripped text, or SMILES as the key says."""
    if source.reading.key == "smiles":
        return pa.array(map(clean_smiles, keys), TEXT)
    if source.reading.key == "inchikey":
        return pa.array(inchikeys(map(clean_smiles, keys)), TEXT)
    if source.reading.key == "structure":
        return pa.array(canonical_smiles(map(clean_smiles, keys)), TEXT)
    if source.reading.key in LEVELS:
        return pa.array(parents([clean_smiles(key) for key in keys])[0], TEXT)
    texts = list(map(str.strip, keys))
    if source.reading.key == "id":
        return pa.array(texts, TEXT)
    for line, key, digits in zip(lines, keys, texts, strict=True):
        if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
            raise InputError(
                f"{source.place(line)} has the key {key!r}, which is not a row number (counted from 0); "
                "choose the key column, or join by id or smiles"
            )
    return pa.array(map(int, texts), pa.int64())


def encoded(table: KeyTable, kind: str) -> tuple[KeyTable, np.ndarray]:
    """Return the distinct keys, and the number of each label's key; tautomers are one key if asked."""
    level = next((level for level in LEVELS[2:] if level == kind), None)
    if level is None:
        return table, table.number
    merged = table_of(pa.array(same_names(table.keys().to_pylist(), level), TEXT))
    return merged, merged.number[table.number]


def marked_among(keys: Iterable[str], key: str) -> MarkedKeys:
    """Return what is worth telling of distinct keys of a kind, in the order in which they first appear."""
    if key not in BY_SMILES or key == "inchikey":
        return MarkedKeys(0, Radicals(0, 0, -1, ""))
    n_groups = 0

    def counted() -> Iterator[str]:
        nonlocal n_groups
        for text in keys:
            n_groups += key != "skeleton" and has_groups(text)
            yield text

    radicals = radicals_among(counted())
    return MarkedKeys(n_groups, radicals)


def notes_on_keys(keys: MarkedKeys) -> tuple[str, ...]:
    """Return a line on molecules with enhanced stereo groups among the keys, and one on radicals."""
    molecules = amount(keys.n_groups, "molecules")
    groups = f"{molecules} {GROUPS} among the labels, each distinct from either enantiomer"
    radicals = words_on_radicals(keys.radicals, f"of {keys.radicals.n_molecules:,} with labels")
    return (*([groups] if keys.n_groups else []), *([radicals] if radicals else []))
