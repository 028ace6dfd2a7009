"""Molecules and tables in memory, as tables of Arrow with the columns that files would have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from rdkit import Chem

from daskrf.errors import InputError

__all__ = ["NOT_ARROW", "is_molecule", "is_table", "molecule_table", "table_of"]

NOT_ARROW = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)
"""Raised by Arrow for values that it cannot hold or cast; a lack of memory, for one, is something else."""


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
            f"a {type(data).__name__} is lazy; compute it first, or write it as Parquet and give the folder"
        )
    if hasattr(data, "index") and hasattr(data, "reset_index"):  # pandas
        index = data.index
        data = data if _is_plain(index) else data.reset_index()
        columns = [(str(name), data.iloc[:, k].tolist()) for k, name in enumerate(data.columns)]
    elif isinstance(data, Mapping):
        columns = [(str(name), list(values)) for name, values in data.items()]
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


def molecule_table(molecules: Iterable[Any]) -> pa.Table:
    """Return a table of molecules given as SMILES, with a name behind it or none, or as molecules of RDKit.

    The columns are smiles; id, if any has a name; and the properties of the molecules. What is neither, as
    None, is a row without SMILES.

    Examples
    --------
    >>> from rdkit import Chem
    >>> ethanol = Chem.MolFromSmiles("CCO")
    >>> ethanol.SetProp("_Name", "ethanol")
    >>> molecule_table([ethanol, "c1ccccc1 benzene", "C"]).to_pydict()
    {'smiles': ['CCO', 'c1ccccc1', 'C'], 'id': ['ethanol', 'benzene', None]}
    """
    rows: list[dict[str, Any]] = []
    for item in molecules:
        if isinstance(item, Chem.Mol):
            name = item.GetProp("_Name").strip() if item.HasProp("_Name") else ""
            own = item.GetPropsAsDict(includePrivate=False, includeComputed=False)
            rows.append(
                {"smiles": _smiles(item), "id": name or None}
                | {k: v for k, v in own.items() if k not in ("smiles", "id")}
            )
        else:
            text, _, name = item.strip().partition(" ") if isinstance(item, str) else ("", "", "")
            named = name.strip() and not name.strip().startswith("|")
            rows.append({"smiles": text or None, "id": name.strip() if named else None})
    names = dict.fromkeys(name for row in rows for name in row)
    if not any(row["id"] for row in rows):
        names.pop("id", None)
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names or ["smiles"]})


def _is_plain(index: Any) -> bool:
    """Return whether an index of pandas only counts rows, perhaps with gaps or in another order."""
    return (
        index.nlevels == 1
        and index.name is None
        and np.issubdtype(getattr(index.dtype, "type", object), np.integer)
    )


def _smiles(molecule: Chem.Mol) -> str | None:
    try:
        return Chem.MolToSmiles(molecule) or None
    except (RuntimeError, ValueError):  # one that was never sanitized
        return None


def _column(values: Any) -> Any:
    """Return a column of Arrow that can be written and read as text."""
    if isinstance(values, pa.ChunkedArray):
        return values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    there = next((value for value in values if value is not None and value == value), None)
    if isinstance(there, Chem.Mol):
        return pa.array(
            [_smiles(value) if isinstance(value, Chem.Mol) else None for value in values], pa.string()
        )
    if isinstance(there, (bool, np.bool_)):
        values = [value if value is None or value != value else int(value) for value in values]
    try:
        return pa.array(values, from_pandas=True)
    except NOT_ARROW:
        return pa.array(
            [None if value is None or value != value else str(value) for value in values], pa.string()
        )
