"""Molecules: files of SMILES, fingerprints, and a make-on-demand library; the only importer of RDKit.

Names are imported on first use, so that a process which needs one module has no other in its memory: RDKit is
in the helper processes of `daskrf.molecules.isolation`, and what reads files is not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daskrf.molecules.fingerprints import FingerprintBlock, Fingerprinter, rdkit_version
    from daskrf.molecules.first_lines import check_first_lines
    from daskrf.molecules.formats import TableFormat, expand
    from daskrf.molecules.library import (
        Library,
        Partition,
        Reject,
        RowBatch,
        Segment,
        Source,
        file_words,
        table_words,
        text_words,
    )
    from daskrf.molecules.lines import clean_smiles
    from daskrf.molecules.lingo import lingo_counts
    from daskrf.molecules.spec import FingerprintSpec
    from daskrf.molecules.spool import is_spooled
    from daskrf.molecules.tables import lay_out, read_partition, sample_rows, scan, scan_files, usual_rows

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

_NAMES = {
    "fingerprints": ("FingerprintBlock", "Fingerprinter", "rdkit_version"),
    "first_lines": ("check_first_lines",),
    "formats": ("TableFormat", "expand"),
    "library": (
        "Library",
        "Partition",
        "Reject",
        "RowBatch",
        "Segment",
        "Source",
        "file_words",
        "table_words",
        "text_words",
    ),
    "lines": ("clean_smiles",),
    "lingo": ("lingo_counts",),
    "spec": ("FingerprintSpec",),
    "spool": ("is_spooled",),
    "tables": ("lay_out", "read_partition", "sample_rows", "scan", "scan_files", "usual_rows"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
