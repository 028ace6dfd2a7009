"""The lists of names that packages export: complete, true, and what type checkers know."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

import daskrf
from daskrf.commands import summaries
from daskrf.exports import attach_stub, declared
from daskrf.features import known_maps
from daskrf.kernels import Kernel

PACKAGE = Path(daskrf.__file__).parent
STUBS = sorted(PACKAGE.rglob("*.pyi"))
LINE = re.compile(r"from (\S+) import (\w+) as (\w+)")


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE.parent))


def line(home: str, name: str) -> str:
    return f"from {home} import {name} as {name}"


def line_of(cls: type) -> str:
    return line(cls.__module__, cls.__name__)


def needed(stub: Path) -> set[str]:
    """Return the lines of what is found by its file: maps, kernels, commands."""
    maps = {line_of(cls) for cls in known_maps() if cls.__module__.startswith("daskrf.")}
    classes = declared("daskrf.kernels", Kernel).values()
    kernels = {line_of(cls) for cls in classes if cls.__module__.startswith("daskrf.kernels.")}
    names = [name.replace("-", "_") for name in summaries()]
    commands = {line(f"daskrf.commands.{name}", name) for name in names}
    by_file = {"features": maps, "kernels": kernels, "daskrf": maps | kernels | commands}
    return by_file.get(stub.parent.name, set())


def faults(file: str, text: str, needed: set[str]) -> list[str]:
    """Return what has to be done to a stub, a sentence for each line that is missing or wrong."""
    listed = [each for each in text.splitlines() if each.startswith(("from ", "import "))]
    missing = sorted(needed - set(listed))
    wrong = [each for each in listed if not is_true(each)]
    return [
        *(f"Add the line `{each}` to {file}." for each in missing),
        *(f"Remove the line `{each}` from {file}: nothing of this name is defined there." for each in wrong),
    ]


def is_true(line: str) -> bool:
    """Whether a line names something under its own name, and where it is defined."""
    match = LINE.fullmatch(line)
    if match is None or match[2] != match[3]:
        return False
    try:
        value = getattr(import_module(match[1]), match[2])
    except (ImportError, AttributeError):
        return False
    name = getattr(value, "__module__", None) or value.__name__.rpartition(".")[0]  # or that of a module
    return bool(name == match[1])


@pytest.mark.parametrize("stub", STUBS, ids=relative)
def test_the_list_of_names_is_complete_and_true(stub: Path) -> None:
    problems = faults(relative(stub), stub.read_text(), needed(stub))
    assert not problems, " ".join(problems)


def test_what_is_missing_or_wrong_is_named_with_its_file() -> None:
    stub = PACKAGE / "features" / "__init__.pyi"
    gone = "from daskrf.features.minmax import TanimotoMinMaxFeatures as TanimotoMinMaxFeatures\n"
    moved = "from daskrf.features.fastfood import TanimotoMinMaxFeatures as TanimotoMinMaxFeatures"
    renamed = "from daskrf.features.no_such_file import OldFeatures as OldFeatures"
    assert gone in stub.read_text()
    text = stub.read_text().replace(gone, f"{moved}\n{renamed}\n")
    ending = "from daskrf/features/__init__.pyi: nothing of this name is defined there."
    assert faults("daskrf/features/__init__.pyi", text, needed(stub)) == [
        f"Add the line `{gone.strip()}` to daskrf/features/__init__.pyi.",
        f"Remove the line `{moved}` {ending}",
        f"Remove the line `{renamed}` {ending}",
    ]


def test_names_and_modules_are_there_and_others_are_not() -> None:
    code = """
        import sys, daskrf
        assert "numpy" not in sys.modules
        assert {"gp", "Gaussian", "fit", "__version__"} <= set(dir(daskrf))
        assert "gp" not in daskrf.__all__ and "Gaussian" in daskrf.__all__
        assert daskrf.errors is sys.modules["daskrf.errors"]  # a module that the list does not name
        assert daskrf.InputError is daskrf.errors.InputError
        assert "numpy" not in sys.modules
        assert daskrf.features.bounds.__name__ == "daskrf.features.bounds"
        assert daskrf.features.FeatureMap is daskrf.FeatureMap
        for package in (daskrf, daskrf.features):
            try:
                package.nosuch
            except AttributeError as error:
                assert str(error) == f"module {package.__name__!r} has no attribute 'nosuch'"
            else:
                raise AssertionError(package)
    """
    subprocess.run([sys.executable, "-c", dedent(code)], check=True)


def test_commands_are_those_that_python_calls() -> None:
    for name in summaries():
        name = name.replace("-", "_")
        function = getattr(import_module(f"daskrf.commands.{name}"), name)
        called = getattr(daskrf, name)
        assert called is not function
        assert called.__wrapped__.__wrapped__ is function
        assert getattr(daskrf, name) is called


def test_a_module_that_lacks_a_package_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lame").mkdir()
    (tmp_path / "lame" / "__init__.py").write_text("")
    (tmp_path / "lame" / "__init__.pyi").write_text("from lame.part import thing as thing\n")
    (tmp_path / "lame" / "other.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / "lame" / "part.py").write_text("thing = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    find, names, exported = attach_stub("lame", import_module("lame").__file__ or "", lambda _, v: v + 1)
    assert (find("thing"), exported, "thing" in names()) == (2, ["thing"], True)
    with pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"):
        find("other")


def test_a_map_of_ones_own_needs_no_list() -> None:
    code = """
        from dataclasses import dataclass
        from daskrf.features import FeatureMap, from_state, known_maps
        from daskrf.features.featuremap import MapFacts

        @dataclass(repr=False)
        class Mine(FeatureMap):
            '''A map of one's own.'''
            facts = MapFacts("mine", "k", "reals", "floats", "z M", "M", "nothing", "Me 2026", "never")
            n_components: int = 4

        assert type(from_state(Mine(7).state())) is Mine
        assert from_state(Mine(7).state()).n_components == 7
        assert {"minmax", "mine"} <= {cls.facts.name for cls in known_maps()}
    """
    subprocess.run([sys.executable, "-c", dedent(code)], check=True)


SNIPPET = """
import daskrf
from daskrf.features import known_maps

reveal_type(daskrf.TanimotoMinMaxFeatures(n_components=256))
reveal_type(daskrf.Gaussian)
known_maps()
daskrf.nosuch
daskrf.features.nosuch
"""


def test_a_type_checker_knows_the_names_and_no_others(tmp_path: Path) -> None:
    """Of the package mypy reads the lists and two modules, which takes seconds and not minutes."""
    api = pytest.importorskip("mypy.api")
    (tmp_path / "snippet.py").write_text(SNIPPET)
    modules = ["__init__.pyi", "features/__init__.pyi", "features/minmax.py", "kernels/radial.py"]
    files = [str(PACKAGE / module) for module in modules]
    flags = ["--config-file=", "--follow-imports=skip", "--no-error-summary", "--hide-error-context"]
    report, trouble, _ = api.run([*flags, "--cache-dir", str(tmp_path), str(tmp_path / "snippet.py"), *files])
    assert not trouble
    assert [each.partition("snippet.py:")[2] for each in report.splitlines() if "snippet.py:" in each] == [
        '5: note: Revealed type is "daskrf.features.minmax.TanimotoMinMaxFeatures"',
        "6: note: Revealed type is "
        "\"def (length_scale: float | Literal['auto'] =) -> daskrf.kernels.radial.Gaussian\"",
        '8: error: Module has no attribute "nosuch"  [attr-defined]',
        '9: error: Module has no attribute "nosuch"  [attr-defined]',
    ]
