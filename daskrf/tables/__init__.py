"""Files of molecules and of labels: formats, layouts, columns, and the rows that they hold.

Names are imported on first use, so a process that needs one module does not load the others.
"""

from typing import TYPE_CHECKING

from daskrf.exports import lazy

if TYPE_CHECKING:
    from daskrf.tables.formats import Segment as Segment
    from daskrf.tables.formats import TableFormat as TableFormat
    from daskrf.tables.library import Library as Library
    from daskrf.tables.library import Partition as Partition
    from daskrf.tables.library import Reject as Reject
    from daskrf.tables.library import RowBatch as RowBatch
    from daskrf.tables.library import Source as Source
    from daskrf.tables.library import file_words as file_words
    from daskrf.tables.library import given_words as given_words
    from daskrf.tables.library import is_spooled as is_spooled
    from daskrf.tables.library import table_words as table_words
    from daskrf.tables.preview import check_first_lines as check_first_lines
    from daskrf.tables.scanning import every_row as every_row
    from daskrf.tables.scanning import expand as expand
    from daskrf.tables.scanning import lay_out as lay_out
    from daskrf.tables.scanning import read_partition as read_partition
    from daskrf.tables.scanning import sample_rows as sample_rows
    from daskrf.tables.scanning import scan as scan
    from daskrf.tables.scanning import scan_files as scan_files
    from daskrf.tables.scanning import usual_rows as usual_rows

__getattr__, __dir__ = lazy(__name__, __file__)
