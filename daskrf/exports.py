"""Package names that are imported on first use, and discovery of classes by where they are defined."""

from __future__ import annotations

import ast
import pkgutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any


def declared(package: str, kind: type) -> dict[str, Any]:
    """Return all classes derived from `kind`, by name.

    They are the classes in the modules of a package, which needs no list of them, and your own, as soon
    as they are defined.

    Examples
    --------
    >>> from daskrf.kernels import Kernel
    >>> declared("daskrf.kernels", Kernel)["Gaussian"].__module__
    'daskrf.kernels.radial'
    """
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
    return {cls.__name__: cls for cls in _derived(kind)}


def _derived(kind: Any) -> Iterator[Any]:
    for cls in kind.__subclasses__():
        yield cls
        yield from _derived(cls)


def attach_stub(
    package: str, file: str, ready: Callable[[str, object], object] = lambda home, value: value
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose names are listed in its stub.

    The stub is the file ``__init__.pyi``, with lines ``from module import name as name``. Type checkers read
    it too, so that there is one list. A name is imported when it is first used. So is any module of the
    package; those in the stub are known to type checkers, and none is in `__all__`.

    Parameters
    ----------
    package, file : str
        Name of the package, and its ``__init__.py``.
    ready : callable, optional
        Called with the module of a name in the stub, and with what the module has under this name; returns
        what the package has.

    Examples
    --------
    >>> import daskrf
    >>> find, names, exported = attach_stub("daskrf", daskrf.__file__)
    >>> find("Gaussian").__module__, "Gaussian" in names(), "Gaussian" in exported
    ('daskrf.kernels.radial', True, True)
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    listed = {alias.name: str(node.module) for node in imports for alias in node.names}
    homes = {name: home for name, home in listed.items() if home != package}

    def find(name: str) -> object:
        if name in homes:
            value = ready(homes[name], getattr(import_module(homes[name]), name))
        else:
            try:
                value = import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
                raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
        setattr(sys.modules[package], name, value)  # from now on Python finds it by itself
        return value

    return find, lambda: sorted({*vars(sys.modules[package]), *listed}), sorted(homes)
