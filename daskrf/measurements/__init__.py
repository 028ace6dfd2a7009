"""Measurements: labels of molecules, read from tables.

The names are listed in ``__init__.pyi`` and imported on first use, so a program that needs one module does
not load the others.
"""

from daskrf.exports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
