"""Build of the documentation: ``python -m sphinx -W docs docs/_build``, with ``pip install '.[docs]'``."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import daskrf

sys.path.insert(0, str(Path(__file__).parent))
import commandpages

project = "daskrf"
author = "The daskrf developers"
copyright = author
version = release = daskrf.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"daskrf {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
myst_heading_anchors = 3
autodoc_typehints = "none"
default_role = "py:obj"
smartquotes = False  # what help quotes is copied into commands
numpydoc_show_class_members = False

# The reference is made from what the modules export, so that a new name needs no line here.
MODULES = [
    "daskrf",
    "daskrf.features",
    "daskrf.features.bounds",
    "daskrf.kernels",
    "daskrf.gp",
    "daskrf.acquisition",
    "daskrf.spaces",
    "daskrf.screening",
]
GROUPS = {
    **dict.fromkeys(["commands"], "Commands"),
    "features": "Feature maps",
    "kernels": "Exact kernels",
    "gp": "Gaussian processes",
    "jobs": "Clusters, shares and dask arrays",
    "molecules": "Molecules",
    "errors": "Errors",
}


def exports(module: str) -> dict[str, list[str]]:
    """Return the names that `module` exports, by group; what `daskrf` exports is listed there alone."""
    grouped: dict[str, list[str]] = {}
    for name in importlib.import_module(module).__all__:
        if module != "daskrf" and name in daskrf.__all__:
            continue
        home = getattr(getattr(importlib.import_module(module), name), "__module__", module).split(".")[1]
        title = GROUPS.get(home, "") if module == "daskrf" else ""
        grouped.setdefault(title, []).append(name)
    order = [*GROUPS.values(), ""]
    return {title: grouped[title] for title in sorted(grouped, key=order.index)}


autosummary_context = {"exports": {module: exports(module) for module in MODULES}}


def skip(app: Any, what: str, name: str, obj: object, skipped: bool, options: Any) -> bool | None:
    """Leave out what classes inherit from scikit-learn."""
    return True if (getattr(obj, "__module__", None) or "").startswith("sklearn.") else None


def plain_text(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Keep |x| and weights_ of docstrings as they stand: reStructuredText takes them for links."""
    for i, line in enumerate(lines):
        if ">>>" not in line:
            parts = re.split(r"(``.*?``)", line)
            parts[::2] = [re.sub(r"\||(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
            lines[i] = "".join(parts)


def write_commands(app: Any) -> None:
    """Make the pages of the commands before Sphinx looks for pages."""
    commandpages.write(Path(app.srcdir) / "commands")


def setup(app: Any) -> None:
    app.connect("builder-inited", write_commands)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", plain_text, priority=400)  # before numpydoc
