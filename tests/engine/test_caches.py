"""What numba's cache on disk cannot notice does not happen."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from daskrf.engine.cpu import jit

MODULES = sorted(path for path in Path(jit.__file__).parent.glob("*.py") if "@jit" in path.read_text())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_compiled_code_calls_nothing_of_another_file(path: Path) -> None:
    """An edit of that file would leave the old machine code in the cache."""
    modules = {
        node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
    }
    compiled = {module for module in modules if module and module.startswith("daskrf.engine.cpu")}
    assert compiled <= {"daskrf.engine.cpu.jit"}
