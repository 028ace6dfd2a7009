"""Every command that writes is killed, or interrupted twice: the same command ends in the same bytes.

By default each is struck once, at a call by the seed, every other one by a signal of its own, and a worker
dies while it starts for one command. DASKRF_KILLS says how many times in each way, for all commands, and
prints a table; DASKRF_CHAOS_SEED says where the seeds begin.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import dask
import pandas as pd
import pytest

from daskrf import fingerprint, fit, screen
from daskrf.cli.app import run
from daskrf.cli.commands import commands
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
from tests.faults.injection import Fault, Injector
from tests.faults.test_chaos import FIRST_SEED
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, write_space

ROUNDS = int(os.environ.get("DASKRF_KILLS", "0"))
TARGETS = ("os:replace", "os:fsync", "shutil:rmtree")
ACTIONS = ("SIGKILL", "SIGINT twice")
FIT = "--quick --direction minimize"

# In a folder with the outputs of `made`; what they write has the name "out".
LINES = {
    "quickstart": "quickstart out -n 300 --labelled 60 -M 64",
    "fingerprint": "fingerprint lib.smi -o out --rows-per-partition 40",
    "featurize": "featurize fp -o out -M 64",
    "evaluate": "evaluate y.csv -o out.csv --picture out.png --folds 2 --quick",
    "fit": f"fit fp y.csv -o out --key smiles {FIT}",
    "fit of features": "fit fp y.csv -o out --key smiles --map minmax -M 64 --direction minimize",
    "predict": "predict model lib.smi -o out.parquet",
    "predict to a folder": "predict model fp -o out",
    "add": "add model new.csv",
    "add to another": "add model new.csv -o out",
    "screen": "screen model lib.smi -o out.parquet -k 20",
    "screen of a space": "screen model space -o out.csv -k 5",
    "suggest": "suggest model lib.smi -o out.html -n 6",
    "campaign": "campaign c.toml -o out",
    "explain": "explain model CCOC(=O)C -o out.svg",
    "page": "page hits.parquet -o out.html",
    "sample": "sample space -o out.csv -n 20",
    "build-space": "build-space reactions.smarts blocks.smi -o out",
    "search": "search space -o out.csv --similar-to CC(=O)NC -k 5",
}


def _has_workers(line: str) -> bool:
    return any(option.name == "workers" for option in commands()[line.split()[0]].params)


STRIKES = [
    (name, action)
    for place, name in enumerate(LINES)
    for action in (ACTIONS if ROUNDS else ACTIONS[place % 2 :][:1])
]
STARTS = [name for name, line in LINES.items() if _has_workers(line)] if ROUNDS else ["screen"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library, a space, labels, and one of everything that commands read."""
    at = tmp_path_factory.mktemp("kills")
    smiles = ReactionLibrary().smiles(0, 200)
    (at / "lib.smi").write_text("".join(f"{s} m{i}\n" for i, s in enumerate([*smiles, "no molecule"])))
    for name, molecules in (("y.csv", smiles[:120:3]), ("new.csv", smiles[150:160])):
        pd.DataFrame({"smiles": molecules, "y": score(molecules)}).to_csv(at / name, index=False)
    fingerprint(at / "lib.smi", at / "fp", rows_per_partition=40)
    fit(at / "fp", at / "y.csv", at / "model", key="smiles", quick=True, direction="minimize")
    screen(at / "model", at / "lib.smi", at / "hits.parquet", k=20)
    (at / "mine.py").write_text("def score(smiles):\n    return [float(len(text)) for text in smiles]\n")
    campaign = (
        'library = "lib.smi"\nfunction = "mine:score"\ndirection = "maximize"\nfirst = 6\nper_call = 3\n'
    )
    (at / "c.toml").write_text(
        f"{campaign}rounds = 2\nestimate = false\n[fit]\nquick = true\n[suggest]\nn = 4\n"
    )
    write_space(at / "space", {"amide": (AMIDE, [AMINES[3:], ACIDS])})
    (at / "reactions.smarts").write_text(f"{AMIDE} amide\n")
    blocks = dict.fromkeys([*AMINES, *ACIDS])
    (at / "blocks.smi").write_text("".join(f"{text} b{i}\n" for i, text in enumerate(blocks)))
    return at


def forgotten(lines: Iterable[str]) -> set[str]:
    """Return the commands that write an output, and stand in none of some lines."""
    writing = {name for name, each in commands().items() if any(p.name == "output" for p in each.params)}
    return writing - {line.split()[0] for line in lines}


def test_no_command_is_forgotten() -> None:
    missing = forgotten(LINES.values())
    assert not missing, (
        f"no test kills {', '.join(sorted(missing))}: add a line that writes to out to LINES in "
        "tests/faults/test_kills.py."
    )
    assert {"add", "screen"} <= forgotten(["fit fp y.csv -o out"])
    assert {line.split()[0] for line in LINES.values()} <= set(commands())


def drive(line: str, at: Path, injector: Injector, config: dict[str, object]) -> None:
    """Run a command in a folder, and leave what it said beside the folder."""
    os.chdir(at)
    with open(at.parent / "words", "a") as words:
        os.dup2(words.fileno(), 1)
        os.dup2(words.fileno(), 2)
    with dask.config.set(config), injector:
        os._exit(run(line.split()))


def ended(line: str, at: Path, injector: Injector, config: dict[str, object] | None = None) -> int | None:
    process = multiprocessing.get_context("forkserver").Process(
        target=drive, args=(line, at, injector, config or {})
    )
    process.start()
    process.join()
    return process.exitcode


def content(at: Path) -> dict[str, bytes]:
    """Return what is in a folder, but for logs and what holds the time of a run."""
    files = {path.relative_to(at).as_posix(): path for path in sorted(at.rglob("*")) if path.is_file()}
    return {
        name: _without_times(path.read_bytes())
        for name, path in files.items()
        if ".log/" not in name and not name.endswith("_plan.json")
    }


def _without_times(data: bytes) -> bytes:
    """Return a file without the time of the run in it, and so without the checksum of what holds the time."""
    masked, n = re.subn(rb"\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+00:00)?", b"time", data)
    return re.sub(rb'"crc32c":"[0-9a-f]{8}"}$', b"", masked) if n else masked


@pytest.fixture(scope="module")
def undisturbed(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple]:
    """The folder where commands run, what each leaves there, and how many calls it makes."""
    at = tmp_path_factory.mktemp("runs") / "at"
    expected: dict[str, tuple[Path, dict[str, bytes], dict[str, int]]] = {}

    def of(name: str) -> tuple[Path, dict[str, bytes], dict[str, int]]:
        if name not in expected:
            begin(made, at)
            counted = Injector(str(at.parent / f"marks-of-{name}"), counted=TARGETS)
            assert ended(f"{LINES[name]} {_here(name)}", at, counted) == 0, log_of(at)
            calls = {target: len(counted.calls(target)) for target in TARGETS}
            expected[name] = at, content(at), calls
        return expected[name]

    return of


def begin(made: Path, at: Path) -> None:
    shutil.rmtree(at, ignore_errors=True)
    shutil.copytree(made, at)


def log_of(at: Path) -> str:
    return (at.parent / "words").read_text()[-1000:]


def _here(name: str) -> str:
    return "--workers 0" if _has_workers(LINES[name]) else ""


@pytest.mark.parametrize(("name", "action"), STRIKES)
def test_the_same_command_goes_on(
    name: str,
    action: str,
    made: Path,
    undisturbed: Callable[[str], tuple],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at, whole, calls = undisturbed(name)
    line, codes = f"{LINES[name]} {_here(name)}", Counter[int | None]()
    for seed in range(FIRST_SEED, FIRST_SEED + max(1, ROUNDS)):
        chance = random.Random(f"{seed}-{name}")
        target = chance.choice([target for target, n in calls.items() if n])
        fault = Fault(target, action, call=chance.randint(1, calls[target]), after=chance.random() < 0.5)
        begin(made, at)
        code = ended(line, at, Injector(str(tmp_path / f"marks-{seed}"), (fault,), TARGETS))
        codes[code] += 1
        assert code in ((-signal.SIGKILL,) if action == "SIGKILL" else (130,)), (fault, log_of(at))
        assert ended(line, at, Injector(str(tmp_path / "no"), counted=())) == 0, (fault, log_of(at))
        assert content(at) == whole, fault
    if ROUNDS:
        with capsys.disabled():
            print(f"\n{name}: {action} {codes.total()} times, exit codes {dict(codes)}, then the same bytes")


@pytest.mark.parametrize("name", STARTS)
def test_a_worker_dies_while_it_starts(
    name: str, made: Path, undisturbed: Callable[[str], tuple], tmp_path: Path
) -> None:
    at, whole, _ = undisturbed(name)
    begin(made, at)
    (tmp_path / "die").touch()
    (tmp_path / "die.py").write_text(
        f"import os\nif os.path.exists({str(tmp_path / 'die')!r}):\n"
        f"    os.unlink({str(tmp_path / 'die')!r})\n    os.kill(os.getpid(), 9)\n"
    )
    config: dict[str, object] = {"distributed.worker.preload": [str(tmp_path / "die.py")]}
    line = f"{LINES[name]} --workers 1 --memory-limit 2GiB"
    assert ended(line, at, Injector(str(tmp_path / "no"), counted=()), config) == 0, log_of(at)
    assert not (tmp_path / "die").exists()
    assert content(at) == whole
