"""Reports in notebooks: as HTML with structures, and as DataFrames."""

from __future__ import annotations

import dataclasses
import html
from typing import Any, Self

import pyarrow as pa

from daskrf.errors import InputError
from daskrf.molecules.drawings import drawings
from daskrf.quantities import amount
from daskrf.tables.frames import InputIndex

_ROWS = 10  # shown of a table
_HIDDEN = ("smiles", "row", "source", "line")  # columns that are not shown beside a drawing
_WIDTH, _HEIGHT = 180, 110


class Shown:
    """A report that notebooks show as HTML; its table of molecules, if any, is available as a DataFrame.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Hits(Shown):
    ...     table: pa.Table
    ...     def __str__(self):
    ...         return "1 molecule < 2"
    >>> hits = Hits(pa.table({"id": ["m1"], "smiles": ["CCO"], "mean": [-7.25]}))
    >>> hits.to_pandas()["mean"].tolist()
    [-7.25]
    >>> hits._repr_html_().startswith("<pre>1 molecule &lt; 2</pre>")
    True
    """

    def to_pandas(self) -> Any:
        """Return the table of molecules as a pandas DataFrame.

        Raises
        ------
        InputError
            If no table is in memory, as after predictions were written to disk, or pandas is not installed.
        """
        table = getattr(self, "table", None)
        if table is None:
            where = getattr(self, "store", None)
            place = f": read {where}" if where is not None else ""
            raise InputError(f"This report holds no table of molecules{place}.")
        try:
            return table.to_pandas()
        except ImportError:
            raise InputError(
                "A DataFrame needs pandas: pip install pandas, or take the Arrow table, report.table."
            ) from None

    def _repr_html_(self) -> str:
        """Return the report's text and the first molecules of its table, for Jupyter."""
        table = getattr(self, "table", None)
        text = f"<pre>{html.escape(str(self))}</pre>"
        return text if not isinstance(table, pa.Table) else f"{text}{_table(table)}"


class OfInput(Shown):
    """A report with a table of molecules, each of which is a row of the input.

    For a DataFrame or Series, the table also has its index, as one or several columns.
    """

    def with_index(self, index: InputIndex) -> Self:
        """Return the report with the index of data given in memory."""
        table = getattr(self, "table", None)
        if table is None:
            return self
        for name, values in index.columns(table["row"].to_numpy()).items():
            if name in table.column_names:
                table = table.set_column(table.column_names.index(name), name, values)
            else:
                table = table.append_column(name, values)
        return dataclasses.replace(self, table=table)  # type: ignore[type-var]


def _table(table: pa.Table) -> str:
    """Return the first rows of a table as HTML, with drawings."""
    first = table.slice(0, _ROWS)
    names = [name for name in first.column_names if name not in _HIDDEN]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ["structure", *names])
    lines = [
        f"<tr><td>{drawing}</td>{''.join(f'<td>{_cell(row[name])}</td>' for name in names)}</tr>"
        for drawing, row in zip(
            drawings(first["smiles"].to_pylist(), _WIDTH, _HEIGHT), first.to_pylist(), strict=True
        )
    ]
    more = table.num_rows - first.num_rows
    below = f"<p>and {amount(more, 'more')}; see to_pandas()</p>" if more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{below}"


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else html.escape("" if value is None else str(value))
