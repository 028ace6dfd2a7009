"""Evaluate, suggest and found are killed at random calls: the same command ends in the same files and words.

How long, and from which seed on, is said as for `tests.faults.test_chaos`.
"""

from __future__ import annotations

import multiprocessing
import random
import re
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import pytest

from daskrf import (
    Gaussian,
    RandomFourierFeatures,
    TanimotoMinMaxFeatures,
    evaluate,
    fingerprint,
    fit,
    found,
    suggest,
)
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
from daskrf.molecules import FingerprintSpec
from tests.faults.injection import CHECKPOINT, Fault, Injector
from tests.faults.test_chaos import FIRST_SEED, SECONDS
from tests.faults.test_workers import left_over
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, SPACES, write_space

SCORED = "daskrf.screens.searches:Candidates.add"  # blocks of a library
SEARCHED = "daskrf.screens.space.search:SpaceSearch.add"  # blocks of products
PREDICTED = "daskrf.fitting.heldout:ExactHeldOut.fitted"
MADE = "daskrf.storage.model:write_checkpoint"  # what is made once
PRODUCT = "daskrf.fitting.exactsolve:write_checkpoint"
TABLE = "daskrf.screens.space.bestproducts:write_molecules"
DURABLE = (CHECKPOINT, PREDICTED)  # what is done once, but for what was in hand
TARGETS = (SCORED, SEARCHED, MADE, PRODUCT, *DURABLE, TABLE, "os:replace", "os:fsync", "shutil:rmtree")

KILLS = 4  # of a command, unless it ends before

# A small library is scored in many pieces, and a small space is searched as a large one is.
SMALL = {
    "daskrf.screens.libraryranking._LEAST_ROWS": 1,
    "daskrf.screens.space.cutspaces.COMPARED": 2,
    "daskrf.screens.space.productranking.SAMPLE": 300,
    "daskrf.screens.space.productranking.LISTED": 0,
    "daskrf.screens.space.productranking.BELOW": 50,
    "daskrf.screens.space.productranking.LEAST_SHORTLIST": 30,
    "daskrf.screens.space.surrogate._TRIALS": 3,
    "daskrf.spaces.ranking.PIECE_FLOP": 1.0,
    "daskrf.spaces.ranking.LEAST_ROWS": 60,
}

COMMANDS: dict[str, Callable[[Path, Path], Any]] = {
    "evaluate": lambda made, out: evaluate(
        made / "y.csv", output=out / "predicted.csv", picture=out / "parity.png", folds=3, learning_curve=True
    ),
    "evaluate by conjugate gradients": lambda made, out: evaluate(
        *(made / "fp", made / "y.csv"),
        output=out / "predicted.parquet",
        **{"key": "smiles", "folds": 2, "process": "exact", "solver": "cg", "quick": True, "n_features": 256},
        noise_variance=0.1,
    ),
    "evaluate features": lambda made, out: evaluate(
        *(made / "fp", made / "y.csv"),
        output=out / "predicted.sdf",
        **{"key": "smiles", "folds": 3, "feature_map": TanimotoMinMaxFeatures(64)},
    ),
    "suggest": lambda made, out: suggest(
        *(made / "exact", made / "fp", out / "batch.csv"), n=15, where="logp < 3", max_similarity=0.5
    ),
    "suggest from a file by draws": lambda made, out: suggest(
        *(made / "features", made / "lib.smi", out / "batch.html"), n=8, acquisition="thompson"
    ),
    "suggest from a space": lambda made, out: suggest(
        *(made / "exact", made / "space", out / "batch.csv"), n=5, where="logp < 0.5", max_similarity=0.6
    ),
    "suggest from a space by means": lambda made, out: suggest(
        *(made / "fourier", made / "space", out / "batch.parquet"), n=6, acquisition="greedy"
    ),
    "found": lambda made, out: found(made / "exact", made / "fp", k=20, n_draws=8),
    "found of a space": lambda made, out: found(made / "exact", made / "space", k=6, n_draws=8),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library, a space, labels of some molecules of both, and models."""
    out = tmp_path_factory.mktemp("campaigns")
    smiles = ReactionLibrary().smiles(0, 300)
    (out / "lib.smi").write_text("".join(f"{s} m{i}\n" for i, s in enumerate([*smiles, "no molecule"])))
    pd.DataFrame({"smiles": smiles[:180:3], "y": score(smiles[:180:3])}).to_csv(out / "y.csv", index=False)
    fingerprint(out / "lib.smi", out / "fp", rows_per_partition=40)
    fingerprint(out / "lib.smi", out / "counts", spec=FingerprintSpec("morgan:1"))
    options: dict[str, Any] = {"key": "smiles", "direction": "minimize"}
    fit(out / "fp", out / "y.csv", out / "exact", quick=True, **options)
    fit(out / "fp", out / "y.csv", out / "features", feature_map=TanimotoMinMaxFeatures(128), **options)
    fourier = RandomFourierFeatures(Gaussian(5.0), n_components=64)
    fit(out / "counts", out / "y.csv", out / "fourier", feature_map=fourier, **options)
    write_space(out / "space", {"boc": SPACES["boc"], "amide": (AMIDE, [AMINES[3:], ACIDS])})
    return out


def drive(name: str, made: Path, out: Path, injector: Injector) -> None:
    """Do a command, and leave what it said, but for how long it took."""
    with ExitStack() as stack:
        for target, value in SMALL.items():
            stack.enter_context(patch(target, value))
        stack.enter_context(injector)
        report = COMMANDS[name](made, out)
    words = re.sub(r"\(\d[\d,]*\.\d s\)|; \d[\d,]*\.\d s\)", "", str(report)).replace(str(out), "")
    (out / "report.txt").write_text(words)


def run_in_process(name: str, made: Path, out: Path, injector: Injector) -> int | None:
    """Do a command in a process of its own; return its exit code."""
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=drive, args=(name, made, out, injector))
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.timeout(SECONDS + 600)
@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_is_killed_again_and_again(name: str, made: Path, tmp_path: Path) -> None:
    out, begun = tmp_path / "undisturbed", time.monotonic()
    out.mkdir()
    calls = Injector(str(tmp_path / "marks"), counted=TARGETS)
    assert run_in_process(name, made, out, calls) == 0
    whole = files(out)
    seed = FIRST_SEED
    while seed == FIRST_SEED or time.monotonic() - begun < SECONDS / len(COMMANDS):
        try:
            _round(random.Random(seed), name, calls, made, tmp_path / str(seed), whole)
        except BaseException as error:
            error.add_note(f"DASKRF_CHAOS_SEED={seed}")
            raise
        seed += 1
    assert left_over(made) == []


def _round(
    chance: random.Random, name: str, usual: Injector, made: Path, folder: Path, whole: dict[str, bytes]
) -> None:
    """Kill a command several times, let it end, and compare."""
    out, kills, code = folder / "out", 0, None
    out.mkdir(parents=True)
    n_calls = {target: n for target in TARGETS if (n := len(usual.calls(target)))}
    done: dict[str, list[str]] = {target: [] for target in DURABLE}
    while code != 0:
        target = chance.choice(list(n_calls))
        fault = Fault(target, call=chance.randint(1, n_calls[target]), after=chance.random() < 0.5)
        injector = Injector(str(folder / f"marks-{kills}"), (fault,) if kills < KILLS else (), TARGETS)
        code = run_in_process(name, made, out, injector)
        for target, calls in done.items():
            calls += injector.calls(target)
        kills += code == -signal.SIGKILL
        if code == 1 and kills:  # it had done all but say so, and the files that are there stay
            assert files(out) | {"report.txt": whole["report.txt"]} == whole, fault
            break
        assert code in (0, -signal.SIGKILL), fault
    else:
        assert files(out) == whole
    for target, calls in done.items():
        assert len(calls) - len(set(calls)) <= usual.redone(target) + kills, target
    assert [name for name in left_over(out) if not name.endswith(".record")] == []  # those of rejects stay


def files(out: Path) -> dict[str, bytes]:
    """Return what a command has left, but for its log."""
    files = {path.relative_to(out).as_posix(): path for path in out.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if ".log/" not in name}
