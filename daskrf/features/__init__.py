"""Feature maps, scikit-learn style: one file a family. The names are listed in ``__init__.pyi``."""

from daskrf.exports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
