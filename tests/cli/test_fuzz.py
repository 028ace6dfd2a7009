"""Odd values of options and odd input, for all commands: an answer or one sentence, never a defect.

``DASKRF_FUZZ=3000 pytest -s tests/cli/test_fuzz.py`` tries as many and prints how they ended.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import click
import pytest

from daskrf.cli.app import run
from daskrf.cli.commands import commands
from daskrf.cli.components import flags_of_any

COUNT = int(os.environ.get("DASKRF_FUZZ", "8"))
SEED = int(os.environ.get("DASKRF_FUZZ_SEED", "0"))
SECONDS = 120  # for one command, on a busy machine

NUMBERS = "nan NaN inf -inf 1e400 -1e400 1e-400 0 -1 -0.0 1e9 99999999999999999999 1e308 0x10 1_000 ½"
WORDS = [
    *NUMBERS.split(),
    *("\uff11\uff12", "\u0663"),  # digits, for Python
    *(
        "",
        " ",
        "\t",
        "\n",
        "\x1b[31mred\x1b[0m",
        "\x07",
        "\u202eabc",
        "\u200b",
        "💥",
        "é",
        "e\u0301",
        "\udcff",
    ),
    *(
        "a" * 300,
        "a" * 5000,
        "../..",
        "/dev/null",
        "/",
        ".",
        "~",
        "-",
        "--",
        "$$",
        "$\\frac{",
        "^_{}",
        "%s%n",
    ),
    *("{}", "{0}", "[]", "null", "None", "true", "1,2,3", ",", ",,", ":", "1:2", "nan:nan", "5:1", "=1+1"),
    *(
        "mw < ",
        "mw < nan",
        "logp<1e400",
        "x < 1 or",
        "*",
        "?",
        "[",
        "(",
        "CCO",
        "C1CC",
        "score",
        "smiles",
        "0/0",
    ),
    *("1/0", "5/3", "0-0", "9-1", "1-", "4GiB", "0GiB", "max", "morgan", "morgan:99", "morgan:-1", "auto"),
]
CELLS = [word for word in WORDS if "\udcff" not in word] + [
    "a\x00b",
    '"',
    '"open',
    "1,5",
    "> 3",
    "<0.1",
    "TRUE",
]
SMILES = [
    "CCO",
    "CCC",
    "CCN",
    "CCCl",
    "c1ccccc1",
    "CC(=O)O",
    "CCS",
    "CCF",
    "CCBr",
    "c1ccncc1",
    "CC#N",
    "C1CCCCC1",
    "CCOC",
    "CC=C",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library, labels, and one of everything that is made from them."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "a.smi").write_text("".join(f"{text} m{i}\n" for i, text in enumerate(SMILES)))
    rows = "".join(f"{text},{i % 5 + i / 10}\n" for i, text in enumerate(SMILES[:10]))
    (folder / "y.csv").write_text("smiles,score\n" + rows)
    at = [
        str(folder / name) for name in ("a.smi", "fp", "phi", "y.csv", "model", "hits.parquet", "batch.csv")
    ]
    library, fp, phi, y, model, hits, batch = at
    here = ["--workers", "0"]
    assert run(["fingerprint", library, "-o", fp, *here]) == 0
    assert run(["featurize", fp, "-o", phi, "-M", "64", *here]) == 0
    assert (
        run(["fit", fp, y, "-o", model, "-M", "64", "--key", "smiles", "--direction", "minimize", *here]) == 0
    )
    assert run(["screen", model, library, "-o", hits, "-k", "5", *here]) == 0
    assert run(["suggest", model, library, "-o", batch, "-n", "3", *here]) == 0
    return folder


# Lines that would run; "{fp}" is what `made` has of that name, and OUT is not there yet. A command without a
# line is given the files of its example, which are not there.
COMMANDS = {
    "fingerprint": ["{a.smi}", "-o", "OUT"],
    "featurize": ["{fp}", "-o", "OUT", "-M", "64"],
    "evaluate": ["{y.csv}", "-M", "64", "--folds", "2"],
    "fit": ["{y.csv}", "-o", "OUT", "-M", "64", "--direction", "minimize"],
    "predict": ["{model}", "{a.smi}", "-o", "OUT.csv"],
    "add": ["{model}", "{y.csv}", "-o", "OUT"],
    "found": ["{model}", "{a.smi}", "-k", "3", "--n-draws", "4"],
    "screen": ["{model}", "{a.smi}", "-o", "OUT.parquet", "-k", "3"],
    "suggest": ["{model}", "{a.smi}", "-o", "OUT.csv", "-n", "2"],
    "explain": ["{model}", "CCO", "-o", "OUT.html"],
    "page": ["{hits.parquet}", "-o", "OUT.html"],
    "status": ["{model}"],
    "verify": ["{fp}"],
    "maps": ["minmax"],
    "plan": ["{a.smi}"],
    "check-space": ["{y.csv}"],
    "sample": ["{y.csv}", "-o", "OUT.csv", "-n", "2"],
    "search": ["{y.csv}", "-o", "OUT.csv", "--similar-to", "CCO"],
}

NOT_TRIED = {"quickstart": "takes a minute, and reads nothing"}


def lines(by_name: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return a line of each command that is tried; without one in `COMMANDS`, the example of its help."""
    return {
        name: COMMANDS[name] if name in COMMANDS else shlex.split(command.example)[2:]
        for name, command in by_name.items()
        if name not in NOT_TRIED
    }


def test_every_command_is_tried() -> None:
    assert set(lines(commands())) == set(commands()) - set(NOT_TRIED)
    assert {*COMMANDS, *NOT_TRIED} <= set(commands())
    new = {"quickstart": None, "tally": SimpleNamespace(example="daskrf tally a.smi --by 'kept ones'")}
    assert lines(new) == {"tally": ["a.smi", "--by", "kept ones"]}


class TooLong(BaseException):
    """A command went on for too long."""


@pytest.fixture
def limited() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def table(rng: random.Random, path: Path) -> None:
    """Write a table that has SMILES and numbers, and something odd among them."""
    delimiter = rng.choice(",\t; ")
    names = ["smiles", "score", rng.choice(CELLS)]
    rows = [[text, f"{i / 7:.3f}", str(i)] for i, text in enumerate(SMILES)]
    for _ in range(rng.randrange(1, 4)):
        where = rng.choice([names, *rows])
        where[rng.randrange(len(where))] = rng.choice(CELLS)
    lines = [delimiter.join(row) for row in ([] if rng.random() < 0.1 else [names]) + rows]
    text = rng.choice(["\n", "\n", "\r\n", "\r"]).join(lines)
    path.write_bytes(text.encode(rng.choice(["utf-8", "utf-8", "utf-16", "utf-8-sig"]), "surrogatepass"))


def command_line(rng: random.Random, made: Path, work: Path) -> list[str]:
    """Return a command that would run, with one or two things that are odd."""
    lines_of = lines(commands())
    name = rng.choice(sorted(lines_of))
    words = [word.replace("OUT", str(work / "out")) for word in lines_of[name]]
    words = [re.sub(r"\{(.*)\}", lambda match: str(made / match[1]), word) for word in words]
    options = [each for each in commands()[name].params if isinstance(each, click.Option)]
    where = {"workers", "cluster", "scheduler", "scheduler_file", "memory_limit"}
    flags = [each for each in options if each.name not in where | {"debug"}]
    if any(each.name == "workers" for each in options):
        words += ["--workers", "0"]
    if name in ("page", "add", "predict", "screen", "explain") and rng.random() < 0.3:
        words = [word.replace("out.csv", "out.html").replace("out.parquet", "out.html") for word in words]
    for _ in range(rng.randrange(1, 3)):
        kind = rng.random()
        if kind < 0.35 and any(word.endswith((".csv", ".smi")) for word in words):
            odd = work / f"odd{rng.choice(['.csv', '.smi', '.txt', ''])}"
            table(rng, odd)
            places = [i for i, word in enumerate(words) if word in (str(made / "y.csv"), str(made / "a.smi"))]
            if places:
                words[rng.choice(places)] = str(odd)
        elif kind < 0.42 and words:
            words[rng.randrange(len(words))] = rng.choice(WORDS)
        elif kind < 0.5:
            words += [rng.choice(sorted(flags_of_any())), rng.choice(WORDS)]
        else:
            each = rng.choice(flags)
            words.append(rng.choice([*each.opts, *each.secondary_opts]))
            if not each.is_flag:
                words += [rng.choice(WORDS) for _ in range(each.nargs)]
    return [name, *words]


def ended(line: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str, bool]:
    """Run a command; return its exit code, what it printed, and whether that is as it should be."""
    signal.alarm(SECONDS)
    try:
        code: object = run(line)
    except TooLong:
        code = "too long"
    except BaseException as error:  # also SystemExit: a command must not leave by itself
        code = f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    printed = "".join(capsys.readouterr())
    faults = [line for line in printed.splitlines() if "Warning:" in line or "Traceback" in line]
    controls = re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", printed)
    return code, printed, code in (0, 1, 2) and not faults and controls is None


def report(what: str, codes: Counter[object], bad: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    if "DASKRF_FUZZ" in os.environ:
        with capsys.disabled():
            print(f"\n{codes.total()} {what}, by exit code: {dict(codes)}")
    assert not bad, "\n\n".join(map(str, bad))


def test_odd_values_of_options_are_refused_or_wait_for_files(
    tmp_path: Path, limited: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of these commands do not exist, so that they end before any work."""
    codes: Counter[object] = Counter()
    bad: list[object] = []
    monkeypatch.chdir(tmp_path)
    for i in range(10 * COUNT):
        line = command_line(random.Random(f"{SEED}-option-{i}"), tmp_path / "none", tmp_path)
        code, printed, good = ended(line, capsys)
        codes[code] += 1
        if not good:
            bad.append((i, code, line, printed[-600:]))
    report("values of options", codes, bad, capsys)


def test_no_command_has_a_defect(
    made: Path,
    tmp_path: Path,
    limited: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes: Counter[object] = Counter()
    bad: list[object] = []
    for i in range(COUNT):
        rng = random.Random(f"{SEED}-{i}")
        work = tmp_path / str(i)
        work.mkdir()
        monkeypatch.chdir(work)
        line = command_line(rng, made, work)
        code, printed, good = ended(line, capsys)
        codes[code] += 1
        if not good:
            bad.append((i, code, line, printed[-600:]))
        monkeypatch.chdir(tmp_path)
        if good:
            shutil.rmtree(work, ignore_errors=True)
    report("commands", codes, bad, capsys)


def test_bytes_that_are_no_text_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "fp", "\udcff"]) == 2
    assert "unexpected extra argument (\\udcff)" in capsys.readouterr().err
