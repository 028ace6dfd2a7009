"""Gaussian processes with random features over ultra-large molecular libraries, on Dask.

Every command of the command line is a function of the same name here. All names are listed in
``__init__.pyi`` and imported on first use, so that ``import daskrf`` costs nothing.

Examples
--------
>>> import daskrf
>>> daskrf.TanimotoMinMaxFeatures(n_components=256).n_components
256
"""

from daskrf.exports import attach_stub

__version__ = "0.2.0.dev0"


def _ready(home: str, value: object) -> object:
    """Return a command as Python calls it, with data in place of files, and anything else as it is."""
    if not home.startswith("daskrf.commands."):
        return value
    from daskrf.commands import public  # not needed before the first command

    return public(value)


__getattr__, __dir__, __all__ = attach_stub(__name__, __file__, _ready)
