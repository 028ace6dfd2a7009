"""Molecules and tables in memory, as tables of Arrow with the columns that files would have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rdkit import Chem

from daskrf.errors import InputError
from daskrf.molecules.stereogroups import written
from daskrf.tables.values.docking import scores_within

INDEX = "input_index"
"""Name of the column with the index of a DataFrame or Series in tables that are made from it."""

NOT_ARROW = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)
"""Raised by Arrow for values that it cannot hold or cast; a lack of memory, for one, is something else."""


@dataclass(frozen=True)
class InputIndex:
    """The index of rows that were given in memory, as pandas has it.

    Attributes
    ----------
    labels : pandas.Index
        Of all rows, in order.
    names : list of str
        Names of the columns in which it stands in tables: one for each of its levels.
    """

    labels: Any
    names: list[str]

    @classmethod
    def of(cls, labels: Any, taken: Collection[str]) -> InputIndex:
        """Return an index with names that are not among those `taken`."""
        name, number = INDEX, 2
        while any(each == name or each.startswith(f"{name}_") for each in taken):
            name, number = f"{INDEX}{number}", number + 1
        levels = [str(k if level is None else level) for k, level in enumerate(labels.names)]
        if len(set(levels)) < len(levels):
            levels = [str(k) for k in range(len(levels))]
        return cls(labels, [name] if len(levels) == 1 else [f"{name}_{level}" for level in levels])

    def at(self, rows: npt.NDArray[np.int64]) -> Any:
        """Return the labels of some rows."""
        return self.labels.take(rows)

    def columns(self, rows: npt.NDArray[np.int64]) -> dict[str, Any]:
        """Return the labels of some rows as columns of Arrow."""
        labels = self.at(rows)
        return {name: _column(labels.get_level_values(k).tolist()) for k, name in enumerate(self.names)}


def index_of(data: object) -> object:
    """Return the index of a DataFrame or Series of pandas; None of anything else."""
    index = getattr(data, "index", None)
    return index if hasattr(data, "reset_index") and hasattr(index, "nlevels") else None


def is_molecule(item: object) -> bool:
    """Return whether an object is a molecule of RDKit."""
    return isinstance(item, Chem.Mol)


def is_table(data: object) -> bool:
    """Return whether an object is a table: a DataFrame of any library, an Arrow table, or a dict of columns.

    Examples
    --------
    >>> is_table({"smiles": ["CCO"]}), is_table(["CCO"])
    (True, False)
    """
    return isinstance(data, Mapping) or (
        hasattr(data, "columns")
        and any(hasattr(data, name) for name in ("__arrow_c_stream__", "to_arrow", "iloc"))
    )


def is_partitioned(data: object) -> bool:
    """Return whether an object is a DataFrame or Series of Dask, which is computed partition by partition."""
    return hasattr(data, "dask") and hasattr(data, "partitions") and hasattr(data, "npartitions")


def table_of(data: Any) -> pa.Table:
    """Return a table with the columns of a DataFrame, an Arrow table or a dict of columns.

    Molecules of RDKit become SMILES, truth values 1 and 0, and columns of mixed types text. An index with a
    name, or of something else than consecutive numbers, becomes a column.

    Parameters
    ----------
    data : DataFrame, pyarrow.Table, or dict of str to sequence

    Raises
    ------
    InputError
        If it is a lazy table, columns differ in length, or two have the same name.

    Examples
    --------
    >>> from rdkit import Chem
    >>> table_of({"mol": [Chem.MolFromSmiles("OCC"), None], "active": [True, False]}).to_pydict()
    {'mol': ['CCO', None], 'active': [1, 0]}
    """
    if hasattr(data, "dask") or hasattr(data, "collect"):
        raise InputError(
            f"a {type(data).__name__} is lazy; compute it first, or write it as Parquet and give the files"
        )
    if hasattr(data, "index") and hasattr(data, "reset_index"):  # pandas
        columns = [(str(name), data.iloc[:, k].tolist()) for k, name in enumerate(data.columns)]
        columns = _index_columns(data.index, [name for name, _ in columns]) + columns
    elif isinstance(data, Mapping):
        columns = [(str(name), _values_of(str(name), values)) for name, values in data.items()]
    else:
        table = (
            data
            if isinstance(data, pa.Table)
            else data.to_arrow()
            if hasattr(data, "to_arrow")
            else pa.table(data)
        )
        columns = [(name, table.column(k)) for k, name in enumerate(table.column_names)]
    names = [name for name, _ in columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"a table has several columns {twice[0]!r}; rename them")
    lengths = {name: len(values) for name, values in columns}
    if len(set(lengths.values())) > 1:
        raise InputError(f"the columns of a table differ in length: {lengths}")
    return pa.table([_column(values) for _, values in columns], names=names)


def _values_of(name: str, values: object) -> list[object]:
    """Return a column as a list; a text would be a column of letters, and a set has no order."""
    if isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
        raise InputError(
            f"the column {name!r} of a table is of the type {type(values).__name__}; give a list with one "
            "value for each row"
        )
    return list(values)


def molecule_table(molecules: Iterable[Any]) -> pa.Table:
    """Return a table of molecules given as SMILES, with a name behind it or none, or as molecules of RDKit.

    The columns are smiles; id, if any has a name; and the properties of the molecules. Anything else,
    such as None, is a row without SMILES.

    Examples
    --------
    >>> from rdkit import Chem
    >>> ethanol = Chem.MolFromSmiles("CCO")
    >>> ethanol.SetProp("_Name", "ethanol")
    >>> molecule_table([ethanol, "c1ccccc1 benzene", "C"]).to_pydict()
    {'smiles': ['CCO', 'c1ccccc1', 'C'], 'id': ['ethanol', 'benzene', None]}
    """
    rows: list[dict[str, object]] = []
    for item in molecules:
        if isinstance(item, Chem.Mol):
            name = item.GetProp("_Name").strip() if item.HasProp("_Name") else ""
            properties = item.GetPropsAsDict(includePrivate=False, includeComputed=False)
            properties = (
                scores_within({k: v for k, v in properties.items() if isinstance(v, str)}) | properties
            )
            rows.append(
                {"smiles": _smiles(item), "id": name or None}
                | {k: v for k, v in properties.items() if k not in ("smiles", "id")}
            )
        else:
            smiles, name = _with_name(item.strip()) if isinstance(item, str) else ("", "")
            rows.append({"smiles": smiles or None, "id": name or None})
    names = dict.fromkeys(name for row in rows for name in row)
    if not any(row["id"] for row in rows):
        names.pop("id", None)
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names or ["smiles"]})


def _with_name(text: str) -> tuple[str, str]:
    """Return the SMILES in a text, with a CXSMILES extension, and the name behind it, if there is one."""
    smiles, _, rest = text.partition(" ")
    name = rest.strip()
    if name.startswith("|"):
        extension, end, name = name[1:].partition("|")
        smiles, name = f"{smiles} |{extension}{end}", name.strip()
    return smiles, name


def _index_columns(index: Any, taken: list[str]) -> list[tuple[str, list[object]]]:
    """Return the levels of an index as columns with their names, but for names that are taken."""
    if _is_plain(index):
        return []
    usual = ["index"] if index.nlevels == 1 else [f"level_{k}" for k in range(index.nlevels)]
    names = [
        str(level if level is not None else name) for level, name in zip(index.names, usual, strict=True)
    ]
    free = [k for k, name in enumerate(names) if name not in taken and names.index(name) == k]
    return [(names[k], index.get_level_values(k).tolist()) for k in free]


def _is_plain(index: Any) -> bool:
    """Return whether an index of pandas only counts rows, perhaps with gaps or in another order."""
    return (
        index.nlevels == 1
        and index.name is None
        and np.issubdtype(getattr(index.dtype, "type", object), np.integer)
    )


def _smiles(molecule: Chem.Mol) -> str | None:
    try:
        return written(molecule) or None
    except (RuntimeError, ValueError):  # one that was never sanitized
        return None


def _column(values: Any) -> object:
    """Return a column of Arrow that can be written and read as text."""
    if isinstance(values, pa.ChunkedArray):
        return values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    values = [None if type(value).__name__ == "NAType" else value for value in values]  # of pandas
    there = next((value for value in values if value is not None and value == value), None)
    if isinstance(there, Chem.Mol):
        return pa.array(
            [_smiles(value) if isinstance(value, Chem.Mol) else None for value in values], pa.string()
        )
    if isinstance(there, (bool, np.bool_)):
        values = [value if value is None or value != value else int(value) for value in values]
    try:
        column = pa.array(values, from_pandas=True)
        return column.cast(pa.string()) if pa.types.is_null(column.type) else column
    except NOT_ARROW:
        return pa.array(
            [None if value is None or value != value else str(value) for value in values], pa.string()
        )
