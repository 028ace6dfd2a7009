"""What Dask names tasks by: kernels and feature maps, by all that their results depend on."""

from __future__ import annotations

import sys


def token_of(value: object, *parts: object) -> object:
    """Return what Dask names the tasks of an object by: `parts`, or more if its class is of a user.

    Parameters
    ----------
    value : object
        Its class is part of the name.
    *parts : object
        All that it depends on besides its class, if that is one of daskrf. A class of a user may depend on
        any attribute, and another one may have its name, as one that a notebook defines again.
    """
    # Only Dask asks for it; this module does not import it, since few users of kernels need it.
    normalize = sys.modules["dask.base"].normalize_token
    cls = type(value)
    if not is_own(cls):
        foreign = [each for each in cls.__mro__ if not is_own(each) and each is not object]
        parts = (*([_defined(each) for each in foreign]), vars(value))
    return normalize((cls.__module__, cls.__qualname__, *parts))


def is_own(cls: type) -> bool:
    """Return whether a class is defined in this package, and not by its user.

    Examples
    --------
    >>> from daskrf.kernels import Gaussian
    >>> is_own(Gaussian), is_own(type("Mine", (Gaussian,), {"__module__": "notebook"}))
    (True, False)
    """
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]


def _defined(cls: type) -> dict[str, object]:
    """Return what a class defines, without what Python adds."""
    return {
        name: value
        for name, value in vars(cls).items()
        if name == "__call__" or not name.startswith(("__", "_abc_"))
    }
