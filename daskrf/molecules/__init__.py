"""Molecules: files of SMILES, fingerprints, and a make-on-demand library; the only importer of RDKit."""

from daskrf.molecules.fingerprints import FingerprintBlock, Fingerprinter, FingerprintSpec, rdkit_version
from daskrf.molecules.first_lines import check_first_lines
from daskrf.molecules.library import file_words, table_words, text_words
from daskrf.molecules.lines import clean_smiles
from daskrf.molecules.lingo import lingo_counts
from daskrf.molecules.spool import is_spooled
from daskrf.molecules.tables import (
    Library,
    Partition,
    Reject,
    RowBatch,
    Segment,
    Source,
    TableFormat,
    expand,
    lay_out,
    read_partition,
    sample_rows,
    scan,
    scan_files,
    usual_rows,
)

__all__ = [
    "FingerprintBlock",
    "FingerprintSpec",
    "Fingerprinter",
    "Library",
    "Partition",
    "Reject",
    "RowBatch",
    "Segment",
    "Source",
    "TableFormat",
    "check_first_lines",
    "clean_smiles",
    "expand",
    "file_words",
    "is_spooled",
    "lay_out",
    "lingo_counts",
    "rdkit_version",
    "read_partition",
    "sample_rows",
    "scan",
    "scan_files",
    "table_words",
    "text_words",
    "usual_rows",
]
