"""Fit without a library: the SMILES in a file of labels become a library of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa

from daskrf import seeds
from daskrf.errors import InputError
from daskrf.files.backend import backend
from daskrf.fitting.costs import need_of_labels
from daskrf.fitting.training import FitRequest, Molecules, TrainingRows, checkable
from daskrf.gp import gp_for
from daskrf.jobs.job import Need, Run
from daskrf.measurements import label_table, read_labels
from daskrf.measurements.reader import read_columns
from daskrf.measurements.reading import Reading
from daskrf.molecules import FingerprintSpec
from daskrf.molecules.combinatorial import are_combinatorial, blocks_as_substituents
from daskrf.molecules.counts.spec import DEFAULT_KINDS, with_positions
from daskrf.quantities import SUBSTITUENTS, amount
from daskrf.sources.sources import open_source
from daskrf.storage.kinds import stored_library
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.rowstore import write_parquet
from daskrf.tables.columns import smiles_column
from daskrf.tables.scanning import survey
from daskrf.tables.values.names import PRODUCT_COLUMNS, find_id, position_of

_LOOKED_AT = 10_000  # labels, evenly spaced, of which some are looked at
_LEAST_PER_BLOCK = 4  # labels: of a slot with fewer a block, most blocks are not known as substituents
_DIFFERENT = 0.5  # share of the blocks of a reaction that differ as substituents: stereoisomers do not
_WITH_BLOCK = 0.9  # share of labels whose block is known as a substituent


@dataclass(frozen=True)
class OwnMolecules(Molecules):
    """The molecules of a file of labels.

    Attributes
    ----------
    labels : path
    spec : FingerprintSpec or None
        Their fingerprints; None: the default, with substituents and positions if these are products and
        an exact process chooses its kernel.
    fingerprint : callable
        The function that makes them, `daskrf.fingerprint`.
    """

    labels: PurePath
    spec: FingerprintSpec | None
    fingerprint: Callable[..., Any]

    def open(self, run: Run, request: FitRequest) -> TrainingRows:
        """Fingerprint the molecules in the folder of unfinished work."""
        path, column = self.labels, request.reading.key_column
        head = label_table(path, request.reading.key)
        names = head.names
        position = None if column is None else position_of(path, column, names, len(names))
        smiles = smiles_column(path, head, position)
        reading = replace(request.reading, key_column=smiles)
        id_column = find_id(names, head.values, (smiles,), head.title) if names else None
        run.check(Need(here=need_of_labels(survey(path, head.table)[2], key=reading.key)))
        keys = read_labels(path, reading).keys
        table, folder = run.work / "molecules.parquet", run.work / "molecules"
        backend(run.work).make(run.work)
        with backend(table).writing(table) as staged:
            write_parquet(pa.table({"smiles": keys}), staged)
        spec, notes = self.spec, list[str]()
        if spec is None and request.exact is not None and request.kernel is None:
            spec, notes = _spec_for(names, keys, partial(_columns, path, reading))
        report = self.fingerprint(table, folder, spec=spec, accept_rejects=True, client=request.client)
        if report.rejected:
            first = next(_rejects(folder))
            unusable = (
                f"{report.rejected:,} of the {amount(report.rows, 'molecules')} cannot be used, such as "
                f"{first['text']!r} ({first['reason']})"
            )
            if 2 * report.rejected > report.rows:
                raise InputError(f"{path}: {unusable}; name the column of the SMILES with --key-column")
            notes.append(f"{unusable}, and their labels are left out")
        feature_map, raw = checkable(request.feature_map), request.exact is not None
        features = open_source(stored_library(folder), feature_map, raw=raw, fold=request.fold)
        if request.exact is None:
            gp_for(features.feature_map, **request.options)
        return TrainingRows(features, reading, id_column, "; ".join(notes))


def _spec_for(
    names: Sequence[str], smiles: pa.Array, columns: Callable[[Sequence[str]], dict[str, list[str]]]
) -> tuple[FingerprintSpec | None, list[str]]:
    """Return the fingerprints for products of a space, and notes; of other molecules None: the default.

    Parameters
    ----------
    names : sequence of str
        Columns of the labels.
    smiles : pyarrow.Array of str
    columns : callable
        Returns the texts of some columns by name, with the SMILES of each row as "smiles".
    """
    some = smiles.take(np.arange(0, len(smiles), max(1, len(smiles) // _LOOKED_AT)))
    kinds, notes = [*DEFAULT_KINDS, SUBSTITUENTS], list[str]()
    if PRODUCT_COLUMNS.issubset(names):
        why = "the labels are of products of a space (columns reaction and block_0)"
        slots = [name for name in names if name.removeprefix("block_").isdecimal()]
        slot, blocks = _few_blocks(slots, columns(["reaction", *slots]))
        if blocks:
            kinds.append(with_positions(blocks.values()))
            notes.append(
                f"atoms are counted by their distances from the bond to the block of {slot} "
                f"({amount(len(set(blocks.values())), 'blocks')}), too, and weighed by the evidence"
            )
    elif are_combinatorial(some.to_pylist()):
        why = "nearly all molecules share a large substituent with others, as products of a space do"
    else:
        return None, []
    return FingerprintSpec(kinds), [
        f"{why}: substituents are counted, too, and weighed by the evidence",
        *notes,
    ]


def _few_blocks(slots: Sequence[str], rows: Mapping[str, list[str]]) -> tuple[str, dict[str, int]]:
    """Return the slot with the fewest blocks that nearly all products share as substituents, and these.

    Parameters
    ----------
    slots : sequence of str
        Columns of blocks.
    rows : dict of str to list of str
        The columns "smiles", "reaction" and these.
    """
    places = np.argsort(seeds.words(0, "fitting/blocks", len(rows["smiles"])), kind="stable")[:_LOOKED_AT]
    best, fewest = "", dict[str, int]()
    for slot in slots:
        named = [i for i in places.tolist() if rows[slot][i].strip()]
        # Blocks of different reactions may leave different substituents.
        blocks = [f"{rows['reaction'][i]} {rows[slot][i]}" for i in named]
        if not blocks or len(blocks) < _LEAST_PER_BLOCK * len(set(blocks)):
            continue
        substituents = blocks_as_substituents([rows["smiles"][i] for i in named], blocks)
        share = sum(block in substituents for block in blocks) / len(places)
        reaction_of = {block: rows["reaction"][i] for block, i in zip(blocks, named, strict=True)}
        different = {(reaction_of[block], identifier) for block, identifier in substituents.items()}
        if len(different) < _DIFFERENT * len(substituents):  # such as by wrong names: what all products share
            continue
        if share >= _WITH_BLOCK and (not fewest or len(substituents) < len(fewest)):
            best, fewest = slot, substituents
    return best, fewest


def _columns(path: PurePath, reading: Reading, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the texts of some columns of a file of labels, and the SMILES of each row as "smiles"."""
    rows, texts = read_columns(path, names, reading)
    return {"smiles": rows.keys.take(rows.index).to_pylist(), **dict(zip(names, texts, strict=True))}


def _rejects(folder: PurePath) -> Iterator[dict[str, object]]:
    """Yield the rejected rows of a store."""
    store = FingerprintStore.open(folder)
    for partition in range(store.n_partitions):
        yield from store.read_rejects(partition).to_pylist()
