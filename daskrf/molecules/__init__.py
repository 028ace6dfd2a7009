"""Molecules: files of SMILES, fingerprints, and a make-on-demand library; the only importer of RDKit.

Names are imported on first use, so a process that needs one module does not load the others. RDKit runs in
the helper processes of `daskrf.molecules.isolation`; code that reads files does not load it.
"""

from typing import TYPE_CHECKING

from daskrf.exports import lazy

if TYPE_CHECKING:
    from daskrf.molecules.extensions import clean_smiles as clean_smiles
    from daskrf.molecules.fingerprints import FingerprintBlock as FingerprintBlock
    from daskrf.molecules.fingerprints import Fingerprinter as Fingerprinter
    from daskrf.molecules.fingerprints import rdkit_version as rdkit_version
    from daskrf.molecules.formats import Segment as Segment
    from daskrf.molecules.formats import TableFormat as TableFormat
    from daskrf.molecules.library import Library as Library
    from daskrf.molecules.library import Partition as Partition
    from daskrf.molecules.library import Reject as Reject
    from daskrf.molecules.library import RowBatch as RowBatch
    from daskrf.molecules.library import Source as Source
    from daskrf.molecules.library import file_words as file_words
    from daskrf.molecules.library import given_words as given_words
    from daskrf.molecules.library import is_spooled as is_spooled
    from daskrf.molecules.library import table_words as table_words
    from daskrf.molecules.lingo import lingo_counts as lingo_counts
    from daskrf.molecules.preview import check_first_lines as check_first_lines
    from daskrf.molecules.spec import FingerprintSpec as FingerprintSpec
    from daskrf.molecules.tables import every_row as every_row
    from daskrf.molecules.tables import expand as expand
    from daskrf.molecules.tables import lay_out as lay_out
    from daskrf.molecules.tables import read_partition as read_partition
    from daskrf.molecules.tables import sample_rows as sample_rows
    from daskrf.molecules.tables import scan as scan
    from daskrf.molecules.tables import scan_files as scan_files
    from daskrf.molecules.tables import usual_rows as usual_rows

__getattr__, __dir__ = lazy(__name__, __file__)
