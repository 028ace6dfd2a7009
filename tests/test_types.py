"""What type checkers are told: how often the package says Any, and that public signatures do not."""

import ast
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import daskrf

PACKAGE = Path(daskrf.__file__).parent

MOST = 454
"""Uses of Any that are left, aliases expanded; changes lower this number, and none raises it."""

MODULES = ("", ".acquisition", ".features", ".gp", ".kernels", ".screening", ".spaces")


def uses_of_any(tree: ast.AST) -> int:
    """Return how often a module says Any, in annotations, aliases and elsewhere, imports aside."""
    return sum(
        (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Attribute) and node.attr == "Any")
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and _quoted(node.value))
        for node in ast.walk(tree)
    )


def _quoted(text: str) -> bool:
    """Return whether a text is a type in quotes that says Any."""
    return text == "Any" or bool(re.fullmatch(r"[\w., |\[\]]*\[[\w., |\[\]]*\bAny\b[\w., |\[\]]*\]", text))


def aliases(tree: ast.Module) -> dict[str, int]:
    """Return the aliases that a module defines and that say Any, with how often each does."""
    values = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None and "TypeAlias" in ast.dump(node):
            target, value = node.target, node.value
        else:
            continue
        if isinstance(target, ast.Name) and (count := uses_of_any(value)):
            values[target.id] = count
    return values


def hidden_uses(tree: ast.Module, module: str, of_modules: dict[str, dict[str, int]]) -> int:
    """Return how often a module says Any through an alias that it defines or imports."""
    nodes = list(ast.walk(tree))
    counts = dict(of_modules.get(module, {}))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (there := of_modules.get(node.module or "")):
            counts |= {each.asname or each.name: there.get(each.name, 0) for each in node.names}
    read = (node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return sum(counts.get(node.id, 0) for node in read)


def test_any_becomes_rarer() -> None:
    paths = [path for suffix in ("py", "pyi") for path in PACKAGE.rglob(f"*.{suffix}")]
    sources = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path.read_text() for path in paths
    }
    trees = {module: ast.parse(source) for module, source in sources.items() if "Any" in source}
    of_modules = {module: counts for module, tree in trees.items() if (counts := aliases(tree))}
    names = "|".join(name for counts in of_modules.values() for name in counts)
    count = sum(map(uses_of_any, trees.values())) + sum(
        hidden_uses(trees.get(module) or ast.parse(source), module, of_modules)
        for module, source in sources.items()
        if re.search(rf"\b({names})\b", source)
    )
    assert count <= MOST, f"{count} uses of Any: give these values types, or object if they have none"


@pytest.mark.parametrize(
    "code",
    ["def f(x: Any) -> None: ...", "Json = dict[str, Any]", "x: 'list[Any]' = []", "x: typing.Any = 0"],
)
def test_a_use_of_any_is_counted(code: str) -> None:
    assert uses_of_any(ast.parse(code)) == 1


def test_a_use_behind_an_alias_is_counted() -> None:
    defining = ast.parse("Pairs: TypeAlias = dict[Any, Any]\nNames = list[str]\nx: Pairs = {}")
    of_modules = {"a.types": aliases(defining)}
    assert of_modules == {"a.types": {"Pairs": 2}}
    assert hidden_uses(defining, "a.types", of_modules) == 2
    importing = ast.parse("from a.types import Names, Pairs as P\nx: P\ny: Names")
    assert hidden_uses(importing, "b", of_modules) == 2


def test_imports_and_sentences_are_not() -> None:
    assert uses_of_any(ast.parse("from typing import Any\nx = 'Any name will do'")) == 0


def says_any(function: object) -> bool:
    """Return whether the signature of a function says Any."""
    return any(re.search(r"\bAny\b", str(each)) for each in getattr(function, "__annotations__", {}).values())


def _functions(member: object) -> Iterator[object]:
    """Yield the functions that a member of a class is made of."""
    if isinstance(member, property):
        yield from filter(None, (member.fget, member.fset))
    elif isinstance(member, (classmethod, staticmethod)):
        yield member.__func__
    else:
        yield getattr(member, "func", member)  # of a cached property


def signatures(value: object) -> Iterator[tuple[str, bool]]:
    """Yield the names that a public name brings along, and whether each says Any."""
    if not inspect.isclass(value):
        if isinstance(value, Callable):
            yield getattr(value, "__name__", ""), says_any(inspect.unwrap(value))
        return
    for cls in (each for each in value.__mro__ if each.__module__.startswith("daskrf")):
        fields = inspect.get_annotations(cls)
        for name, hint in fields.items():
            if not name.startswith("_"):
                yield f"{cls.__name__}.{name}", bool(re.search(r"\bAny\b", str(hint)))
        for name, member in vars(cls).items():
            if not name.startswith("_") or name in ("__init__", "__call__"):
                for function in _functions(member):
                    if inspect.isroutine(function):
                        yield f"{cls.__name__}.{name}", says_any(inspect.unwrap(function))


def public_values() -> list[object]:
    return [
        getattr(module, name)
        for module in (importlib.import_module(f"daskrf{each}") for each in MODULES)
        for name in module.__all__
    ]


def public_names_with_any() -> set[str]:
    return {name for value in public_values() for name, has_any in signatures(value) if has_any}


def test_public_signatures_do_not_say_any() -> None:
    assert not public_names_with_any()


def test_overloads_have_the_parameters_of_their_function() -> None:
    functions = [inspect.unwrap(value) for value in public_values() if inspect.isroutine(value)]
    overloaded = {each: typing.get_overloads(each) for each in functions}
    assert any(overloaded.values())
    for function, overloads in overloaded.items():
        names = list(inspect.signature(function).parameters)
        assert all(list(inspect.signature(each).parameters) == names for each in overloads), function


class Example:
    """Something public with one Any in each kind of place."""

    field: "list[Any]"  # noqa: F821
    safe: int

    def method(self, value: "Any") -> None:  # noqa: F821
        pass

    @property
    def prop(self) -> "Any":  # noqa: F821
        return 0


def test_any_is_seen_in_fields_methods_and_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Example, "__module__", "daskrf.example")
    found = {name for name, has_any in signatures(Example) if has_any}
    assert found == {"Example.field", "Example.method", "Example.prop"}
