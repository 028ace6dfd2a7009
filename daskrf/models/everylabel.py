"""The rows of a table of labels: which label each row is, or why it is not a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daskrf.measurements import Reading, read_column, read_labels
from daskrf.molecules.structures import LEVELS
from daskrf.storage.labels import JoinedLabels, match_labels
from daskrf.storage.stores.rowstore import RowStore

_NO_LABEL = "it has no label"
_FIRST = "there are no earlier labels to learn from"
_TRAINED = "the model was fitted to labels of this molecule"
_NO_MOLECULE = "its molecule is not in the library, or cannot be read"


@dataclass(frozen=True)
class EveryLabel:
    """All rows of a table of labels, in order.

    Attributes
    ----------
    label : int64 array, shape (n,)
        Index of each row among the joined labels; the first one if a row has several, -1 if it has none.
    labelled : bool array, shape (n,)
        Whether each row has a label, whether or not its molecule is in the library.
    keys : list of str
        The key of the molecule of each row.
    column : str
        The column that the keys belong to: "smiles" or "id"; "" if they are neither.
    ids : list of str, optional
        The ID in each row of the table, if molecules have no other IDs.
    trained : bool array, shape (n,), optional
        Whether each row is left out since the model was fitted to its molecule.
    """

    label: npt.NDArray[np.int64]
    labelled: npt.NDArray[np.bool_]
    keys: list[str]
    column: str
    ids: list[str] | None = None
    trained: npt.NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls,
        path: PurePath,
        reading: Reading,
        joined: JoinedLabels,
        store: RowStore,
        id_column: int | None = None,
    ) -> EveryLabel:
        """Return the rows of a table whose labels were joined to a library.

        If repeated labels were merged into one per molecule, all labelled rows of a molecule have it.
        """
        every, texts = read_column(path, id_column or 0, reading)
        labels = read_labels(path, reading, lines=True)
        row = match_labels(labels, store, range(store.n_partitions)).first_row[labels.index]
        assert every.lines is not None
        assert labels.lines is not None
        labelled = np.isin(every.lines, labels.lines)
        order = np.argsort(row, kind="stable")[np.count_nonzero(row < 0) :]  # as labels are joined
        lines, row = labels.lines[order], row[order]
        number = np.arange(len(row)) if len(row) == len(joined.row) else np.searchsorted(joined.row, row)
        label = np.full(len(every.lines), -1, np.int64)
        label[np.searchsorted(every.lines, lines)[::-1]] = number[::-1]  # the first of several stays
        column = "smiles" if reading.key in ("smiles", *LEVELS) else "id" if reading.key == "id" else ""
        keys = every.keys.cast(pa.string()).take(pa.array(every.index)).to_pylist()
        return cls(label, labelled, keys, column, None if id_column is None else texts)

    def table(self, labels: pa.Table, folds: Sequence[str]) -> pa.Table:
        """Return the table of labels with a row for each row of the original table, and a column of reasons.

        Numbers of a row without a label are null. `folds` are the columns of folds, if there are any.
        Molecules without an ID are named after their row in the returned table.
        """
        there = self.label >= 0
        table = labels.take(pa.array(self.label, mask=~there))
        of_library, ids = table["row"].to_pylist(), table["id"].to_pylist()
        if self.ids is not None:
            ids = [text.strip() or None for text in self.ids]
        named = [
            f"row-{k}" if name is None or name == f"row-{row}" else name
            for k, (name, row) in enumerate(zip(ids, of_library, strict=True))
        ]
        columns = {name: table[name] for name in table.column_names}
        columns |= {"row": pa.array(np.arange(len(there))), "id": pa.array(named, pa.string())}
        if self.column:
            keys = pa.array(self.keys, pa.string())
            columns[self.column] = pc.if_else(pa.array(there), columns[self.column], keys)
        lost = np.where(self.labelled, _NO_MOLECULE, _NO_LABEL)
        if self.trained is not None:
            lost = np.where(self.trained, _TRAINED, lost)
        reason = pa.array(lost, pa.string(), mask=there)
        if not folds:
            return pa.table(columns | {"reason": reason})
        first = pc.and_(pa.array(there), pc.is_null(pc.coalesce(*(table[name] for name in folds))))
        return pa.table(columns | {"reason": pc.if_else(first, _FIRST, reason)})
