"""Mutation testing: small faults are put into the package, one at a time, and the tests must notice.

    DASKRF_DATA=... python tests/mutants.py --count 120 --seed 0 --jobs 2
    python tests/mutants.py --only gp/sums --count 20

Every mutant is a copy of the tree with one expression replaced in the text of its file, on which the fast
tests of that file (`TESTS`) and its examples run. A test that fails kills it, and so does the time limit.
What is left alive is printed as a diff: either it changes no result (speed, memory, sizes of blocks, words),
or a test is missing.

A test that fails without a mutant kills them all: ``--control`` runs the same tests on copies that are not
changed, of which all must be alive.

Functions that numba compiles are those of the mutant: the copies of caches that travel with the tree know
the time and the size of their source file, so that those of the changed file, which holds all that they
call, are compiled anew.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
MEMORY = 24 << 30  # address space of a mutant, which may ask for any size

# The longest prefix of a file names its tests, in the folder of tests of the same name; areas are folders.
TESTS = {
    "features/": "contract",
    "features/sketches/allocation": "tanimotodot gaussian_maclaurin",
    "features/bounds": "bounds",
    "features/sketches/centroids": "contract ../gp/test_local",
    "features/composed": "composed contract",
    "features/tanimotodot": "tanimotodot contract",
    "features/fastfood": "fourier contract",
    "features/fourier": "fourier contract",
    "features/gaussianmaclaurin": "gaussian_maclaurin contract",
    "features/harmonics": "harmonics contract",
    "features/sketches/hashing": "cws minmax compositional",
    "features/landmarks": "landmarks contract",
    "features/localgaussian": "contract ../gp/test_local",
    "features/maclaurin": "maclaurin contract",
    "features/minmax": "minmax cws contract",
    "features/nystrom": "nystrom contract",
    "features/polynomial": "polynomial contract",
    "features/sketches/prefactor": "tanimotodot",
    "features/sketches/projections": "maclaurin polynomial",
    "features/scissors": "scissors",
    "features/sketches/selection": "landmarks nystrom",
    "features/sparserows": "landmarks nystrom",
    "features/sketches/spectrum": "nystrom scissors",
    "features/sketches/srht": "polynomial",
    "features/sketches/tensorsketch": "tanimotodot polynomial",
    "features/sketches/variances": "gaussian_maclaurin polynomial",
    "acquisition/": "rules",
    "gp/": "edges exact input local model precision sparse statistics separate sums",
    "gp/validation/calibration": "calibration",
    "gp/validation/crossvalidation": "crossvalidation",
    "gp/processes/exact": "exact edges input pathwise",
    "gp/solve/landmarkpreconditioner": "pathwise",
    "gp/choice/lengthscale": "lengthscale",
    "gp/processes/local": "local left_out input",
    "gp/processes/pathwise": "pathwise",
    "gp/processes/priordraws": "pathwise",
    "gp/solve/roundoff": "roundoff",
    "gp/validation/agreement": "agreement",
    "gp/choice/choicetime": "choicetime",
    "gp/processes/residual": "draws",
    "gp/validation/tailcounts": "tailcounts",
    "gp/sums/chunks": "left_out local model sparse separate",
    "gp/choice/kernelchoice": "kernelchoice",
    "gp/solve/kernelmatrix": "kernelmatrix",
    "gp/solve/variancemodel": "pathwise exact_edges",
    "gp/solve/conjugategradients": "pathwise",
    "commands/build_space": "../spaces/test_build",
    "commands/check_space": "../spaces/test_check",
    "commands/featurize": "../jobs/test_maps ../jobs/test_refusals ../jobs/test_variants",
    "commands/fingerprint": "../jobs/test_kinds ../jobs/test_lines ../jobs/test_refusals",
    "commands/fit": "../jobs/test_measurements ../jobs/test_alone ../jobs/test_directions",
    "commands/plan": "../jobs/test_kinds ../jobs/test_lines ../cli/test_commands",
    "commands/predict": "../jobs/test_variants ../jobs/test_exact ../cli/test_pipeline",
    "commands/quickstart": "../test_quickstart",
    "commands/screen": "../jobs/test_hits ../jobs/test_exact ../jobs/test_variants",
    "commands/verify": "../jobs/test_maps ../storage/test_inspection ../cli/test_pipeline",
    "spaces/": "cut reactions spacetables spacefiles check",
    "engine/cpu/popcount": "popcount ../features/test_composed",
    "engine/cpu/hadamard": "hadamard ../features/test_fourier",
    "engine/cpu/hashes": "minima without_jit ../features/test_cws ../features/test_minmax",
    "engine/cpu/minima": "minima without_jit",
    "engine/cpu/counting": "counting without_jit ../molecules/test_reading",
    "engine/cpu/smiles": "without_jit ../molecules/test_reading",
    "engine/cpu/signs": "without_jit ../features/test_polynomial ../features/test_maclaurin",
    "engine/cpu/reals": "exponentials fourier ../kernels/test_radial ../features/test_fourier",
    "engine/cpu/countsketch": "sketch ../features/test_polynomial",
    "engine/cpu/sharedcolumns": "../kernels/test_tanimoto ../kernels/test_index",
    "engine/cpu/tiles": "minima ../features/test_minmax ../features/test_maclaurin",
    "files/": "../objects/test_paths ../objects/test_stores ../storage/test_store ../storage/test_damage",
    "kernels/": "contract radial",
    "kernels/dotproduct": "dotproduct contract",
    "kernels/index": "index contract",
    "kernels/powerseries": "powerseries compositional contract",
    "kernels/radial": "radial contract ../features/test_fourier",
    "kernels/tanimoto": "tanimoto index contract",
    "kernels/truncated": "powerseries contract",
    **dict.fromkeys(("molecules/", "tables/"), "contents first_lines layout tables"),
    "demo/": "enumeration",
    "demo/building_blocks": "enumeration",
    "molecules/counts/costs": "costs",
    "tables/columns": "columns layout",
    "tables/values/conventions": "conventions",
    "tables/values/docking": "docking",
    "molecules/extensions": "tables stereogroups",
    "tables/values/notation": "values",
    "tables/values/repeats": "repeats ../jobs/test_repeats",
    "molecules/stereogroups": "stereogroups",
    "molecules/sameness": "sameness structures",
    "tables/spreadsheets": "spreadsheets",
    "tables/values/suspicious": "suspicious",
    "tables/values/units": "values conventions",
    "molecules/counts/counter": "fingerprints",
    "demo/enumeration": "enumeration names",
    "molecules/counts/fingerprints": "fingerprints lingo",
    "tables/formats/": "contents first_lines formats layout tables ../storage/test_labels",
    "molecules/isolation": "isolation",
    "molecules/counts/lingo": "lingo fingerprints",
    "tables/formats/excel": "excel",
    "tables/frames": "../jobs/test_given",
    "tables/beside": "values",
    "measurements/": "values ../storage/test_labels ../jobs/test_wronglabels",
    "tables/values/values": "values ../jobs/test_replicates",
    "tables/values/names": "names enumeration",
    "demo/objective": "objective",
    "tables/scanning": "tables tables_property layout",
    "molecules/counts/spec": "fingerprints lingo",
    "molecules/structures": "structures names",
    "storage/": "store featurestore fingerprintstore inspection damage errors",
    "storage/hits": "../jobs/test_hits",
    "storage/descriptions": "descriptions",
    "storage/inspection": "inspection",
    "storage/kinds": "inspection model foreign",
    "storage/labels": "labels",
    "storage/lock": "lock",
    "storage/keptrounds": "../jobs/test_wronglabels",
    "storage/outputs": "outputs",
    "storage/tablefiles": "../jobs/test_rows ../molecules/test_spreadsheets",
    "storage/model": "model",
    "storage/integrity": "store damage foreign model errors",
    "storage/stores/store": "store damage foreign crash errors descriptions",
    "storage/stores/zarrays": "model featurestore fingerprintstore damage",
    "storage/stores/predictions": "predictions inspection",
    "storage/runlog": "runlog activity",
    **dict.fromkeys(
        ("jobs/", "workers/", "sources/", "models/", "fitting/", "screens/"), "job shards_of_job variants"
    ),
    "workers/batch": "batch",
    "models/countarray": "lazy",
    "workers/clusters": "clusters preflight",
    "models/directions": "directions",
    "models/everylabel": "everylabel",
    "models/duplicates": "hits",
    "fitting/exactsolve": "exact",
    "workers/execution": "execution",
    "fitting/fitsahead": "fitsahead",
    "workers/heldsignals": "../cli/test_signals",
    "sources/given": "given",
    "models/joinedlabels": "measurements structure_key alone",
    "fitting/lazy": "lazy",
    "fitting/learner": "maps",
    "jobs/memory": "memory",
    "screens/passing": "passing screenfilters",
    "jobs/pieces": "tree",
    "workers/preflight": "preflight",
    "workers/progress": "progress",
    "report/pythonwords": "../jobs/test_pythonwords",
    "jobs/shards": "shards",
    "workers/security": "security",
    "screens/shortlist": "exact",
    "sources/smiles": "lines",
    "fitting/totals": "strips variants",
    "models/toolkits": "toolkits",
    "jobs/tree": "tree",
    "models/views": "views",
    "arrays": "arrays/test_arrays",
    "seeds": "seeds",
    "exports": "exports",
    "screening": "screening",
    "report/merit": "merit",
}

OPERATORS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"is": "is not", "is not": "is", "in": "not in", "not in": "in", "and": "or", "or": "and"},
    **{"+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "//", "**": "*"},
    **{"<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|"},
}
SYMBOL = re.compile(r"is\s+not|not\s+in|\b(?:is|in|and|or)\b|<<|>>|<=|>=|==|!=|\*\*|//|[-+*/%<>&|^]")
PAIRS = ["min max", "minimum maximum", "argmin argmax", "floor ceil", "any all", "zeros ones", "exp expm1"]
CALLS = {a: b for pair in map(str.split, PAIRS) for a, b in (pair, pair[::-1])} | {"sqrt": "square"}
SPEECH = re.compile(r"(log|logger|logging|warnings|progress|console|click)\.|print\(|warn\(|TYPE_CHECKING$")


@dataclass(frozen=True)
class Mutant:
    """A file of the package, and what its bytes from `start` to `end` become."""

    path: Path
    kind: str
    start: int
    end: int
    text: str

    @property
    def area(self) -> str:
        return self.path.relative_to(REPOSITORY / "daskrf").parts[0].removesuffix(".py")

    def content(self) -> bytes:
        """Return the changed file."""
        old = self.path.read_bytes()
        return old[: self.start] + self.text.encode() + old[self.end :]

    def difference(self) -> str:
        """Return the changed lines below the place where they stand."""
        old, new = self.path.read_bytes(), self.content()
        lines = difflib.unified_diff(old.decode().splitlines(), new.decode().splitlines(), n=0, lineterm="")
        line = old[: self.start].count(b"\n") + 1
        return "\n".join([f"{self.path.relative_to(REPOSITORY)}:{line}", *list(lines)[3:]])


class Finder(ast.NodeVisitor):
    """Collects the mutants of a file."""

    def __init__(self, path: Path) -> None:
        self.path, self.content = path, path.read_bytes()
        self.starts = [0]
        for line in self.content.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Mutant] = []
        self.visit(ast.parse(self.content))

    def span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first, last = self.starts[node.lineno - 1], self.starts[node.end_lineno - 1]
        return first + node.col_offset, last + node.end_col_offset

    def text(self, node: ast.expr) -> str:
        start, end = self.span(node)
        return self.content[start:end].decode()

    def replace(self, node: ast.expr, text: str) -> None:
        mutant = Mutant(self.path, type(node).__name__, *self.span(node), text)
        try:
            ast.parse(mutant.content())
        except SyntaxError:
            return
        self.found.append(mutant)

    def operator(self, left: ast.expr, right: ast.expr, kind: str) -> None:
        """Swap the operator between two expressions."""
        start = self.span(left)[1]
        symbol = SYMBOL.search(self.content[start : self.span(right)[0]].decode())
        if symbol and (other := OPERATORS.get(" ".join(symbol[0].split()))):
            self.found.append(Mutant(self.path, kind, start + symbol.start(), start + symbol.end(), other))

    def negate(self, node: ast.expr) -> None:
        if not isinstance(node, ast.Compare | ast.UnaryOp) and not SPEECH.search(self.text(node)):
            self.replace(node, f"not ({self.text(node)})")

    def visit(self, node: ast.AST) -> None:
        """Visit what runs and matters: no annotations, decorators, messages and checks of types."""
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
            return
        if isinstance(node, ast.Call) and SPEECH.match(self.text(node)):
            return
        if isinstance(node, ast.If) and SPEECH.match(self.text(node.test)):
            return
        skipped = ("annotation", "returns", "decorator_list", "bases")
        method: Callable[[ast.AST], None] = getattr(self, f"visit_{type(node).__name__}", lambda node: None)
        method(node)
        for name, value in ast.iter_fields(node):
            if name not in skipped:
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self.visit(child)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
            self.operator(left, right, "Compare")

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not any(
            isinstance(side, ast.JoinedStr)
            or (isinstance(side, ast.Constant) and isinstance(side.value, str))
            for side in (node.left, node.right)
        ):
            self.operator(node.left, node.right, "BinOp")

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.operator(node.values[0], node.values[1], "BoolOp")

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            self.replace(node, f"({self.text(node.operand)})")

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool():
                self.replace(node, str(not node.value))
            case int():
                self.replace(node, f"{node.value + 1}")
            case float():
                self.replace(node, f"{node.value * 2 or 1.0!r}")

    def visit_Call(self, node: ast.Call) -> None:
        name = self.text(node.func).rpartition(".")[2]
        if name in CALLS:
            self.replace(node.func, self.text(node.func).removesuffix(name) + CALLS[name])

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        self.negate(node.test)

    visit_IfExp = visit_If

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.negate(test)

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound in filter(None, (node.lower, node.upper)):
            self.replace(bound, "")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        other = {"0": "-1", "-1": "0"}.get(self.text(node.slice))
        if other:
            self.replace(node.slice, other)


# Where the tests of a part are, if not in a folder of its name.
HOMES = {
    **dict.fromkeys(("workers", "sources", "models", "fitting", "screens"), "jobs"),
    **dict.fromkeys(("demo", "tables"), "molecules"),
}


def tests_of(path: Path) -> list[str]:
    """Return the tests of a file of the package, with the examples in it; none where the table has none."""
    name = path.relative_to(REPOSITORY / "daskrf").as_posix()
    names = {key for key in TESTS if name == f"{key}.py" or (key.endswith("/") and name.startswith(key))}
    part = name.split("/")[0] if "/" in name else ""
    folder = REPOSITORY / "tests" / HOMES.get(part, part)
    tests = TESTS[max(names, key=len)].split() if names else []
    files = [Path(os.path.normpath(folder / (test if "/" in test else f"test_{test}"))) for test in tests]
    if missing := [f"{file}.py" for file in files if not Path(f"{file}.py").exists()]:
        raise FileNotFoundError(
            f"tests of {name}: {', '.join(missing)}"
        )  # else every mutant would be "killed"
    module = path.relative_to(REPOSITORY).with_suffix("").as_posix().replace("/", ".")
    examples = [f"tests/test_doctests.py::test_examples[{module.removesuffix('.__init__')}]"]
    return [os.path.relpath(f"{file}.py", REPOSITORY) for file in files] + examples * bool(files)


def draw(count: int, seed: int, only: str) -> list[Mutant]:
    """Draw mutants: each area in turn, then a file of it, then a kind, then a place."""
    rng = random.Random(seed)
    areas: dict[str, list[list[Mutant]]] = {}
    for path in sorted((REPOSITORY / "daskrf").rglob("*.py")):
        if only in path.as_posix() and tests_of(path) and (found := Finder(path).found):
            areas.setdefault(found[0].area, []).append(found)
    drawn: dict[Mutant, None] = {}
    most = sum(len(set(found)) for files in areas.values() for found in files)
    while len(drawn) < min(count, most):
        for files in areas.values():
            found = rng.choice(files)
            kind = rng.choice(sorted({mutant.kind for mutant in found}))
            drawn[rng.choice([mutant for mutant in found if mutant.kind == kind])] = None
    return list(drawn)[:count]


def run(folder: Path, tests: list[str], timeout: float) -> str:
    """Return whether the tests leave a copy of the tree "alive", "killed", or are "late"."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(folder.parent)}
    environment.setdefault("DASKRF_DATA", str(REPOSITORY.parent / "shared" / "data"))
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        return "killed" if process.wait(timeout) else "alive"
    except subprocess.TimeoutExpired:
        return "late"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.wait()


def fate(mutant: Mutant, timeout: float) -> str:
    """Return what tests make of a copy of the tree with a mutant in it."""
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
        copy = Path(
            folder, "tree"
        )  # beside temporary files: paths below the current folder are told as relative
        shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(".git", ".hypothesis", ".*_cache"))
        (copy / mutant.path.relative_to(REPOSITORY)).write_bytes(mutant.content())
        return run(copy, tests_of(mutant.path), timeout)


def report(mutants: list[Mutant], jobs: int, timeout: float) -> Iterator[str]:
    """Yield a line or more for each mutant that is alive, and the totals."""
    fates: dict[str, Counter[str]] = {}
    with ThreadPoolExecutor(jobs) as pool:
        found = pool.map(lambda mutant: fate(mutant, timeout), mutants)
        for mutant, own in zip(mutants, found, strict=True):
            fates.setdefault(mutant.area, Counter())[own] += 1
            if own == "alive":
                yield f"alive: {mutant.difference()}"
    for area, counts in {**fates, "all": sum(fates.values(), Counter())}.items():
        yield (
            f"{area}: {counts.total()} mutants, {counts['killed']} killed, {counts['late']} stopped by the "
            f"time limit, {counts['alive']} alive"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Try whether tests notice small faults of the package.")
    parser.add_argument("--count", type=int, default=120, help="of mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants")
    parser.add_argument("--only", default="", help="a part of the paths of files, such as gp/sums")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for the tests of a mutant")
    parser.add_argument("--control", action="store_true", help="change nothing: all must be alive")
    options = parser.parse_args()
    mutants = draw(options.count, options.seed, options.only)
    if options.control:
        unchanged = (Mutant(mutant.path, "Control", 0, 0, "") for mutant in mutants)
        mutants = list({tuple(tests_of(mutant.path)[:-1]): mutant for mutant in unchanged}.values())
    for line in report(mutants, options.jobs, options.timeout):
        print(line, flush=True)


if __name__ == "__main__":
    main()
