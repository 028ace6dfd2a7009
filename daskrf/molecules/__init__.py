"""Molecules: SMILES, fingerprints, structures, properties and drawings of them.

The names are listed in ``__init__.pyi`` and imported on first use, so a program that needs one module does
not load the others. RDKit runs in the helper processes of `daskrf.molecules.isolation`; code that reads
files does not load it.
"""

from daskrf.exports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
