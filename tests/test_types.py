"""What type checkers are told: how often the package says Any, and that public signatures do not."""

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import daskrf

PACKAGE = Path(daskrf.__file__).parent

MOST = 852
"""Uses of Any that are left; a change that needs fewer lowers this number, and none raises it."""

MODULES = ("", ".acquisition", ".features", ".gp", ".kernels", ".screening", ".spaces")

LEFT = {
    "ChoiceByLabelsLeftOut.trials": "each kind of choice has trials of its own",
    "FeatureSpaceGP.statistics_": "sums of one of three classes, or none",
    "FoldedFeatures.smaller": "a map of any class",
    "Regressor.feature_map_": "a map, or None, where each process knows which",
    "Regressor.kernel_choice_": "read by its own class only",
    "Regressor.statistics_": "sums of one of three classes, or none",
    "Regressor.weights_": "the shape and dtype differ by process",
    "SeparateGP.draw": "what the process of the target returns",
    "SeparateGP.feature_map_": "as in Regressor",
    "SeparateGP.statistics_": "as in Regressor",
    "Summation.of_map": "options are the fields of the class",
    "Summation.restore": "sums of one of three classes",
    "Summation.zero": "sums of one of three classes",
    "TopK.__init__": "columns have any dtype",
    "TopK.arrays": "columns have any dtype",
    "TopK.columns": "columns have any dtype",
    "TopK.from_chunk": "columns have any dtype",
    "acquisition_for": "settings are the fields of the rule",
    "featurize": "a path, or an array whose class only Dask knows",
    "gp_for": "options are those of the process",
}
"""Public names that say Any, with the reason; none is added."""


def uses_of_any(source: str) -> int:
    """Return how often a module says Any, in annotations, aliases and elsewhere, imports aside."""
    return sum(
        (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Attribute) and node.attr == "Any")
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and _quoted(node.value))
        for node in ast.walk(ast.parse(source))
    )


def _quoted(text: str) -> bool:
    """Return whether a text is a type in quotes that says Any."""
    return text == "Any" or bool(re.fullmatch(r"[\w., |\[\]]*\[[\w., |\[\]]*\bAny\b[\w., |\[\]]*\]", text))


def test_any_becomes_rarer() -> None:
    paths = [path for suffix in ("py", "pyi") for path in PACKAGE.rglob(f"*.{suffix}")]
    count = sum(uses_of_any(path.read_text()) for path in paths)
    assert count <= MOST, f"{count} uses of Any: give these values types, or object if they have none"


@pytest.mark.parametrize(
    "code",
    ["def f(x: Any) -> None: ...", "Json = dict[str, Any]", "x: 'list[Any]' = []", "x: typing.Any = 0"],
)
def test_a_use_of_any_is_counted(code: str) -> None:
    assert uses_of_any(code) == 1


def test_imports_and_sentences_are_not() -> None:
    assert uses_of_any("from typing import Any\nx = 'Any name will do'") == 0


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


def public_names_with_any() -> set[str]:
    values = [
        getattr(module, name)
        for module in (importlib.import_module(f"daskrf{each}") for each in MODULES)
        for name in module.__all__
    ]
    return {name for value in values for name, has_any in signatures(value) if has_any}


def test_public_signatures_do_not_say_any() -> None:
    names = public_names_with_any()
    assert names <= set(LEFT), f"these say Any: {sorted(names - set(LEFT))}"
    assert set(LEFT) <= names, f"these no longer do: {sorted(set(LEFT) - names)}"


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
