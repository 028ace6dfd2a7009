"""The direction of imports, who may import what, and how long functions may be."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import daskrf
from daskrf.features import known_maps

PACKAGE = Path(daskrf.__file__).parent
REPOSITORY = Path(__file__).resolve().parents[1]

# A module imports only from its own part and from parts before it.
LAYERS = [
    "exports",
    "errors",
    "quantities",
    "documents",
    "parameters",
    "sizes",
    "tokens",
    "files",
    "arrays",
    "estimators",
    "seeds",
    "blas",
    "engine",
    "kernels",
    "acquisition",
    "features",
    "gp",
    "molecules",
    "demo",
    "tables",
    "measurements",
    "spaces",
    "storage",
    "screening",
    "workers",
    "jobs",
    "sources",
    "models",
    "fitting",
    "screens",
    "campaigns",
    "report",
    "commands",
    "cli",
]

# The folders of a folder, in their order: the same rule holds there.
GROUPS = {
    "features": ["sketches", "bounds"],
    "gp": ["sums", "likelihoods", "solve", "processes", "choice", "validation"],
    "molecules": ["counts"],
    "screens": ["space"],
    "storage": ["stores"],
    "tables": ["values", "formats"],
}

# What runs on Dask.
ON_DASK = {"workers", "jobs", "sources", "models", "fitting", "screens", "campaigns", "commands"}

# Who may import these at all.
ONLY = {
    "rdkit": {"molecules", "demo", "tables", "spaces"},
    "zarr": {"storage"},
    "dask": ON_DASK,
    "distributed": ON_DASK,
    "matplotlib": {"report"},
    "numba": {"engine"},
    "llvmlite": {"engine"},
    "obstore": {"files"},
    "openpyxl": {"tables"},
    "pyarrow": {"molecules", "tables", "measurements", "storage", "report", *ON_DASK},
    "click": {"cli"},
    "rich": {"cli"},
}
# What may be imported by these, apart from the standard library and daskrf.
NOTHING_BUT = {
    "engine": {"numba", "llvmlite", "numpy", "scipy"},
    "gp": {"numpy", "scipy", "sklearn", "threadpoolctl"},
}

# What may be behind the interface in daskrf/engine/__init__.py, which nothing else sees.
ENGINES = {path.name for path in (PACKAGE / "engine").iterdir() if (path / "__init__.py").exists()}

MODULES = sorted(PACKAGE.rglob("*.py"))
CODE = [
    path
    for folder in ("daskrf", "tests", "examples", "benchmarks", "cluster")
    for path in sorted((REPOSITORY / folder).rglob("*.py"))
]


def code_of(path: Path) -> str:
    """Return the code of a file, for a package that has a list of its names with the imports of that."""
    listed = path.with_suffix(".pyi")
    return path.read_text() + (listed.read_text() if listed.exists() else "")


def relative(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield the dotted name of every import, and whether it is for the type checker only."""
    type_only = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If)
        and ast.unparse(branch.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in branch.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in type_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((name, id(node) in type_only) for name in names)


def layer_faults(part: str, source: str) -> list[str]:
    """Return what the imports of a module of `part` break."""
    faults = []
    for name, type_only in imported(ast.parse(source)):
        top, *rest = name.split(".")
        if top == "daskrf":
            target = rest[0] if rest else ""
            if target not in [*LAYERS, "__version__"]:
                faults.append(f"{name} is imported from where it is not at home")
            elif target == "engine" and part != "engine" and rest[1:2] and rest[1] in ENGINES:
                faults.append(f"{name}: what computes is chosen by daskrf.engine alone")
            elif target != "__version__" and LAYERS.index(target) > LAYERS.index(part):
                faults.append(f"{part} is above {target} and must not import {name}")
        elif not type_only:
            if part not in ONLY.get(top, {part}):
                faults.append(f"only {sorted(ONLY[top])} may import {top}, not {part}")
            if part in NOTHING_BUT and top in THIRD_PARTY - NOTHING_BUT[part]:
                faults.append(f"{part} must not import {top}")
    return faults


THIRD_PARTY = set(ONLY) | {
    "numpy",
    "scipy",
    "sklearn",
    "threadpoolctl",
    "sparse",
    "psutil",
    "zstandard",
    "llvmlite",
}


def asks_for_a_backend(source: str) -> bool:
    """Whether code asks what kind of storage it works with, or names one."""
    tree = ast.parse(source)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {name.rpartition(".")[2] for name, _ in imported(tree)}
    asked = {
        ast.unparse(node.args[1])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass")
    }
    return bool(names & {"Url", "obstore", "_FILES", "_OBJECTS", "_Files", "_Objects"} or asked & {"Path"})


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_the_kind_of_a_backend_is_known_to_it_alone(path):
    own = path.relative_to(PACKAGE).as_posix() == "files/backend.py"
    assert asks_for_a_backend(path.read_text()) == own


@pytest.mark.parametrize("code", ["isinstance(p, Path)", "from daskrf.files.backend import Url", "b.Url"])
def test_asking_for_a_backend_is_seen(code):
    assert asks_for_a_backend(code)


def test_every_part_has_a_layer():
    parts = {part_of(path) for path in MODULES} - {"__init__", "__main__"}
    assert parts <= set(LAYERS)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_imports_point_upwards(path):
    part = part_of(path)
    if part in LAYERS:
        assert layer_faults(part, code_of(path)) == []


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("molecules", "import zarr"),
        ("storage", "from rdkit import Chem"),
        ("gp", "import dask.array"),
        ("gp", "import pyarrow"),
        ("gp", "from daskrf.fitting import lazy"),
        ("features", "from daskrf import molecules"),
        ("engine", "def f():\n    import sklearn"),
        ("gp", "from daskrf.engine.cpu.popcount import bit_gram"),
        ("features", "from daskrf.engine import cpu"),
        ("kernels", "import numba"),
        ("kernels", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from daskrf.cli import main"),
        ("commands", "from daskrf import fit"),
        ("cli", "import matplotlib.pyplot"),
    ],
)
def test_a_wrong_import_is_found(part, source):
    assert layer_faults(part, source)


def test_a_type_checking_import_of_a_library_is_no_import():
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from distributed import Client"
    assert layer_faults("features", source) == []


def dotted(path: Path) -> str:
    """Return the name under which a file of the package is imported."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def circle(sources: Mapping[str, str]) -> list[str]:
    """Return modules that import each other in a ring, or none, from the code of each by its name.

    Imports inside functions and for the type checker alone count, too.
    """
    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        graph[module] = set()
        for name, _ in imported(ast.parse(source)):
            while name and name not in sources:
                name = name.rpartition(".")[0]
            graph[module] |= {name} - {module, ""}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_files_import_each_other_in_a_circle():
    # The version is the one thing that everybody takes from the top, whose other names come from below.
    assert circle({dotted(path): code_of(path) for path in MODULES if dotted(path) != "daskrf"}) == []


@pytest.mark.parametrize(
    "late", ["import a.b", "def f():\n    from a.b import c", "if TYPE_CHECKING:\n    from a.b import C"]
)
def test_a_circle_of_files_is_found(late: str) -> None:
    assert len(circle({"a.b": "from a.d import e", "a.d": late, "a.f": "from a import b"})) > 2
    assert circle({"a.b": "from a.d import e", "a.d": "import numpy", "a.f": late}) == []


# How a job is shared, locked and checked is known to jobs and what they are made of alone.
OF_JOBS = {"Share", "Shard", "StoreLock", "check_disk"}
OF_MODULES = {"memory": "check", "job": "check_disk"}
EXCEPT = {"storage/lock.py"}  # where locks are defined


def names_of(source: str) -> set[str]:
    """Return the names that code takes or imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
    return found


def names_of_jobs(source: str) -> set[str]:
    """Return the names that a module takes or says of what only jobs/ may know."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
            if isinstance(node.value, ast.Name) and OF_MODULES.get(node.value.id) == node.attr:
                found.add("check_disk")
        elif isinstance(node, ast.ImportFrom):
            home = str(node.module).rpartition(".")[2]
            found |= {"check_disk" if OF_MODULES.get(home) == a.name else a.name for a in node.names}
    return found & OF_JOBS


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_only_jobs_know_of_shards_locks_and_limits(path):
    if part_of(path) not in ON_DASK - {"commands"} and path.relative_to(PACKAGE).as_posix() not in EXCEPT:
        assert names_of_jobs(path.read_text()) == set()


@pytest.mark.parametrize(
    "source",
    [
        "from daskrf.jobs.shards import Share",
        "from daskrf.jobs import shards\nshards.Shard(0, 2)",
        "from daskrf.storage.lock import StoreLock",
        "from daskrf.jobs import memory\nmemory.check(need, 1, 'here')",
        "from daskrf.jobs.memory import check",
        "from daskrf.jobs.job import check_disk",
        "def fit(shard: Shard | str | None = None): ...",
    ],
)
def test_a_name_of_jobs_is_found(source):
    assert names_of_jobs(source)


# What one map alone is like, nothing that runs, stores or shows a map asks for.
OF_MAPS = {"gram_block", "refuse_half", "LandmarkMap", *(cls.__name__ for cls in known_maps())}
WITHOUT_MAPS = ("storage", *ON_DASK, "cli", "report")


@pytest.mark.parametrize("path", [p for p in MODULES if part_of(p) in WITHOUT_MAPS], ids=relative)
def test_maps_are_known_by_their_interface_alone(path):
    assert names_of(path.read_text()) & OF_MAPS == set()


def groups_faults(folder: str, groups: list[str], sources: Mapping[str, str]) -> list[str]:
    """Return which imports among the folders of a folder run against their order."""
    faults = []
    for module, source in sources.items():
        own = next((group for group in groups if f"{module}.".startswith(f"daskrf.{folder}.{group}.")), None)
        for name, _ in imported(ast.parse(source)):
            target = next((group for group in groups if name.startswith(f"daskrf.{folder}.{group}.")), None)
            if own and target and groups.index(target) > groups.index(own):
                faults.append(f"{module} stands before {target} and must not import {name}")
    return faults


@pytest.mark.parametrize("folder", GROUPS)
def test_folders_of_a_folder_have_an_order(folder: str) -> None:
    modules = {dotted(path): code_of(path) for path in MODULES if part_of(path) == folder}
    assert groups_faults(folder, GROUPS[folder], modules) == []
    inside = {path.name for path in (PACKAGE / folder).iterdir() if (path / "__init__.py").exists()}
    assert inside <= set(GROUPS[folder])


def test_an_import_against_the_order_is_found() -> None:
    wrong = {"daskrf.gp.sums.folds": "def f():\n    from daskrf.gp.solve.solvers import Solver"}
    assert groups_faults("gp", GROUPS["gp"], wrong)
    assert not groups_faults("gp", GROUPS["gp"], {"daskrf.gp.solve.x": "from daskrf.gp.sums import folds"})


@pytest.mark.parametrize("path", CODE, ids=relative)
def test_functions_are_short(path):
    functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    long = {node.name: lines for node in functions if (lines := body_lines(node)) > 60}
    assert long == {}


def body_lines(function: ast.FunctionDef) -> int:
    """Count the lines of a function without signature and docstring, which are as long as they need to be."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = first.end_lineno - first.lineno + 1 if documented and first.end_lineno else 0
    assert function.end_lineno is not None
    return function.end_lineno - first.lineno + 1 - docstring


def test_thorough_tests_are_there():
    lines = (REPOSITORY / "tests" / "thorough.txt").read_text().splitlines()
    assert lines == sorted(set(lines))
    gone = []
    for line in lines:
        path, _, name = line.partition("::")
        there = (REPOSITORY / path).exists() and f"def {name}(" in (REPOSITORY / path).read_text()
        gone += [] if there else [line]
    assert gone == [], "remove these lines from tests/thorough.txt, or name the tests as they are called now"


def by_place(source: str) -> list[str]:
    """Return what of some code travels by place: calls of tuples, long calls, parameters that are tuples."""
    faults = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = f"line {node.lineno}, {ast.unparse(node.func)}"
            starred = [arg.value for arg in node.args if isinstance(arg, ast.Starred)]
            if any(isinstance(value, ast.Tuple | ast.List) for value in starred):
                faults.append(f"{called}: name the arguments, in place of a tuple that is unpacked")
            if len(node.args) > 7:
                faults.append(f"{called}: name the {len(node.args)} arguments")
        elif isinstance(node, ast.FunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            faults += [
                f"{node.name}, {argument.arg}: make it a dataclass whose fields have names"
                for argument in arguments
                if argument.annotation is not None and "tuple[Any" in ast.unparse(argument.annotation)
            ]
    return faults


# Compiled functions take their arguments by place.
@pytest.mark.parametrize("path", [p for p in MODULES if part_of(p) != "engine"], ids=relative)
def test_arguments_have_names(path):
    assert by_place(path.read_text()) == []


@pytest.mark.parametrize(
    "code",
    [
        "f(*(a, b))",
        "f(a, *[b, c], d=1)",
        "Report(1, 2, 3, 4, 5, 6, 7, 8)",
        "def f(own: tuple[Any, ...]): pass",
        "def f(*, files: tuple[Any, str] | None = None): pass",
    ],
)
def test_arguments_without_names_are_found(code):
    assert len(by_place(code)) == 1


@pytest.mark.parametrize("code", ["f(*parts)", "f(1, 2, 3, 4, 5, 6, 7, h=8)", "x: tuple[Any, ...] = ()"])
def test_arguments_with_names_are_not(code):
    assert by_place(code) == []


# What these names hold, they do not say; CONTRIBUTING.md has the words in their place.
VAGUE = {
    "asked",
    "bar",
    "believed",
    "climb",
    "found",
    "given",
    "kept",
    "known",
    "own",
    "part",
    "said",
    "told",
}
# Public names, or names in files: the command, and fields of reports and records.
PUBLIC = {
    "commands/found.py": {"found"},
    "commands/fingerprint.py": {"FingerprintReport.kept"},
    "gp/processes/exact.py": {"ExactState.given"},
    "gp/processes/kerneltrials.py": {"KernelChoice.asked", "KernelChoiceState.asked"},
    "gp/processes/process.py": {"FeatureSpaceState.given"},
    "gp/sums/sums.py": {"StackedStatistics.own"},
    "jobs/shards.py": {"Counts.found", "ShardReport.found"},
    "molecules/counts/fingerprints.py": {"FingerprintBlock.kept"},
    "report/recovery.py": {"Recovery.found"},
    "spaces/cut.py": {"CutSpace.own"},
    "tables/values/values.py": {"Scale.found", "ScaleState.found"},
}


def vague_names(source: str, allowed: Collection[str] = ()) -> list[str]:
    """Return the variables, parameters, fields, functions and classes of some code that have a vague name."""
    tree = ast.parse(source)
    fields = {
        id(statement.target): node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    functions = {id(node) for node in tree.body if isinstance(node, ast.FunctionDef)}
    faults = []
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                allow = id(node) in fields and f"{fields[id(node)]}.{name}" in allowed
            case ast.FunctionDef(name=name):
                allow = id(node) in functions and name in allowed
            case ast.arg(arg=name) | ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                allow = False
            case _:
                continue
        if name.strip("_").lower() in VAGUE and not allow:
            faults.append(f"line {node.lineno}: {name}")
    return faults


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_constant_is_defined_once(path):
    """The second of two silently changes what stands between them."""
    nodes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
    inner = [each for node in nodes for target in node.targets for each in ast.walk(target)]
    names = [e.id for e in inner if isinstance(e, ast.Name) and isinstance(e.ctx, ast.Store)]
    assert [name for name, n in Counter(names).items() if n > 1] == []


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_names_say_what_they_hold(path):
    assert vague_names(path.read_text(), PUBLIC.get(str(path.relative_to(PACKAGE)), set())) == []


@pytest.mark.parametrize(
    "code",
    [
        "found = 1",
        "_own: int = 1",
        "a, (b, *kept) = rows",
        "for part in parts: pass",
        "with open(path) as given: pass",
        "if (told := text): pass",
        "try: pass\nexcept OSError as known: pass",
        "[asked for asked in options]",
        "def f(*, said): pass",
        "lambda bar: 1",
        "def _climb(): pass",
        "class _Believed: pass",
        "class Report:\n    found: int",
        "def f():\n    def found(): pass",
    ],
)
def test_a_vague_name_is_found(code):
    assert len(vague_names(code, {"found", "Other.found"})) == 1


@pytest.mark.parametrize(
    "code",
    [
        "def found(): pass",
        "class Report:\n    kept: int",
        "known_rows, parts = report.found, f(own=1)",
    ],
)
def test_other_names_and_public_ones_are_not(code):
    assert vague_names(code, {"found", "Report.kept"}) == []


def test_public_names_are_there():
    assert len(set(daskrf.__all__)) == len(daskrf.__all__)  # ruff sorts them
    for name in daskrf.__all__:
        assert getattr(daskrf, name).__doc__, name


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = daskrf.nonsense
