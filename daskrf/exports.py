"""Package names that are imported on first use, and discovery of classes by where they are defined."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
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
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    return {cls.__name__: cls for cls in _derived(kind)}


def _derived(kind: Any) -> Iterator[Any]:
    for cls in kind.__subclasses__():
        yield cls
        yield from _derived(cls)


def lazy(
    package: str, file: str, functions: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package, for the names imported in ``if TYPE_CHECKING:``.

    This way each name is declared once, for type checkers and for Python. For ``from ... import *`` the names
    are the classes and constants in `__all__` of that module, which is imported when a name is not found
    elsewhere. The package's `__all__` is one of the names, too.

    Parameters
    ----------
    package, file : str
        Name of the package, and its ``__init__.py``.
    functions : str
        A subpackage in which each file holds a function of the file's name; these are names, too, of what
        its function `public` makes of them.

    Examples
    --------
    >>> import daskrf
    >>> get, names = lazy("daskrf", daskrf.__file__)
    >>> get("Gaussian").__module__, "Gaussian" in names()
    ('daskrf.kernels.radial', True)
    """
    homes: dict[str, str] = {}
    whole: list[str] = []
    for branch in ast.parse(Path(file).read_text()).body:
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING":
            for node in branch.body:
                assert isinstance(node, ast.ImportFrom)
                assert node.module is not None
                names = [alias.name for alias in node.names]
                homes |= dict.fromkeys(names, node.module) if names != ["*"] else {}
                whole += [node.module] if names == ["*"] else []

    def one_a_file() -> dict[str, str]:
        folder = importlib.import_module(f"{package}.{functions}")
        return {each.name: f"{folder.__name__}.{each.name}" for each in pkgutil.iter_modules(folder.__path__)}

    def exported() -> list[str]:
        starred = (name for home in whole for name in importlib.import_module(home).__all__)
        classes = (name for name in starred if name[0].isupper())
        return sorted({*homes, *classes, *(one_a_file() if functions else ())})

    def find(name: str) -> Any:
        if name == "__all__":
            return exported()
        # Private names and names of modules are not worth an import.
        among = whole if name[0].isupper() else []
        home = homes.get(name) or next((h for h in among if name in importlib.import_module(h).__all__), None)
        if home is None and functions and name != functions:
            home = one_a_file().get(name)
        if home is None:
            try:
                return importlib.import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
                raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
        value = getattr(importlib.import_module(home), name)
        if functions and home == f"{package}.{functions}.{name}":
            value = importlib.import_module(f"{package}.{functions}").public(value)
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted({*vars(sys.modules[package]), *exported()})
