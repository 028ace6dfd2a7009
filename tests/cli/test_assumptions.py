"""What a command assumed it prints, and what it cannot know it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from daskrf.cli.app import run
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score

HERE = ["--workers", "0"]
N = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of molecules with values of several kinds, its store, and models of one and of two targets."""
    folder = tmp_path_factory.mktemp("assumptions")
    smiles = ReactionLibrary(seed=3).smiles(0, N)
    values = score(smiles)
    lines = [
        f"{text};cmpd {k};{y:.4f};{-y:.4f}" for k, (text, y) in enumerate(zip(smiles, values, strict=True))
    ]
    (folder / "library.csv").write_text("\n".join(["SMILES;Compound Name;dock;pIC50", *lines]) + "\n")
    (folder / "labels.txt").write_text(
        "\n".join(["Compound Name,dock,pIC50", *(",".join(line.split(";")[1:]) for line in lines[:40])])
        + "\n"
    )
    store = str(folder / "fps")
    assert run(["fingerprint", str(folder / "library.csv"), "-o", store, *HERE]) == 0
    fit = ["fit", store, str(folder / "labels.txt"), "-M", "64", *HERE]
    assert run([*fit, "-o", str(folder / "one"), "--target", "pIC50"]) == 0
    assert run([*fit, "-o", str(folder / "two"), "--target", "dock", "--target", "pIC50"]) == 0
    return folder


READ = "UTF-8 text, separated by semicolons, with a header; SMILES in 'SMILES', IDs in 'Compound Name'"


@pytest.mark.parametrize("command", ["fingerprint", "predict", "screen", "plan"])
def test_how_files_are_read_is_printed_once(
    command: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library, output = str(made / "library.csv"), str(tmp_path / "out.parquet")
    arguments = {
        "fingerprint": [library, "-o", output, *HERE],
        "predict": [str(made / "one"), library, "-o", output, *HERE],
        "screen": [str(made / "one"), library, "-o", output, "--maximize", *HERE],
        "plan": [library, "--sample", "100", "-M", "64"],
    }
    assert run([command, *arguments[command]]) == 0
    shown = capsys.readouterr()
    joined = ", 'dock' is kept, 'pIC50' is kept" if command in ("predict", "screen") else ""  # into one file
    assert shown.err.splitlines()[0] == f"{library}: {READ}{joined}"
    assert READ not in shown.out


def test_how_labels_are_read_is_printed(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ["fit", str(made / "fps"), str(made / "labels.txt"), "-o", str(tmp_path / "m"), "-M", "64", *HERE]
    assert run([*fit, "--target", "dock"]) == 0
    words = "UTF-8 text, separated by commas, with a header; IDs in 'Compound Name', target 'dock'"
    assert capsys.readouterr().err.splitlines()[0] == f"{made / 'labels.txt'}: {words}"


@pytest.mark.parametrize("command", ["fingerprint", "predict", "screen", "plan"])
def test_files_without_molecules_stop_before_an_output_is_made(
    command: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = tmp_path / "names.smi"
    library.write_text("water w1\nCCO e1\nmethane m1\n" * 5)
    output = tmp_path / "made" / "out.parquet"
    output.parent.mkdir()
    arguments = {
        "fingerprint": [str(library), "-o", str(output), *HERE],
        "predict": [str(made / "one"), str(library), "-o", str(output), *HERE],
        "screen": [str(made / "one"), str(library), "-o", str(output), "--maximize", *HERE],
        "plan": [str(library), "--sample", "100", "-M", "64"],
    }
    assert run([command, *arguments[command]]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(
        f"daskrf: error: 10 of the first 15 lines of {library} could not be read as molecules, such as"
    )
    assert error.endswith("or go on without such lines with --accept-rejects (accept_rejects=True).")
    assert not [path for path in output.parent.iterdir() if path.suffix != ".log"]
    assert run([command, *arguments[command], "--accept-rejects"]) == 0


def test_accept_rejects_is_about_files(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", str(made / "one"), str(made / "fps"), "-o", "x", "--accept-rejects", *HERE]) == 2
    assert "--accept-rejects is for reading SMILES files" in capsys.readouterr().err


def screened(*arguments: object) -> int:
    return run(["screen", *map(str, arguments), *HERE])


def test_a_screen_asks_for_direction_and_target(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hits = tmp_path / "hits.parquet"
    assert screened(made / "one", made / "fps", "-o", hits) == 1
    assert capsys.readouterr().err == (
        "daskrf: error: It is not known whether large or small values of 'pIC50' are good: give --maximize "
        "or --minimize (maximize=True or maximize=False), or fit with --direction.\n"
    )
    assert screened(made / "two", made / "fps", "-o", hits, "--maximize") == 1
    assert capsys.readouterr().err == (
        "daskrf: error: The model has several targets, 'dock', 'pIC50'; choose one by --target NAME "
        "(target=NAME), or a weighted sum, such as --target 'dock - 0.5 pIC50'.\n"
    )
    assert not hits.exists()
    assert screened(made / "two", made / "fps", "-o", hits, "--maximize", "--target", "pIC50", "-k", 7) == 0
    assert "best 7 of 60 molecules by greedy, maximizing 'pIC50', in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("twice", "name"),
    [
        (["-k", "5", "-k", "6"], "-k"),
        (["--maximize", "--minimize"], "--maximize/--minimize"),
        (["--no-header", "--header"], "--header/--no-header"),
    ],
)
def test_an_option_that_is_given_twice_is_refused(
    twice: list[str], name: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert screened(made / "two", made / "library.csv", "-o", tmp_path / "h.parquet", *twice) == 2
    assert f"{name} was given 2 times; give it once." in capsys.readouterr().err


def test_a_screen_is_by_one_target(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ("--target", "dock", "--target", "pIC50")
    assert screened(made / "two", made / "library.csv", "-o", "h.parquet", *both) == 2
    assert "a screen ranks by one target, and not by 'dock' and 'pIC50'" in capsys.readouterr().err


def test_options_that_may_be_given_twice(made: Path, tmp_path: Path) -> None:
    library, output = str(made / "library.csv"), str(tmp_path / "f")
    columns = ["--keep-columns", "dock", "--keep-columns", "pIC50"]
    assert run(["fingerprint", library, "-o", output, *columns, "--strict", "--strict", *HERE]) == 0


def test_directions_of_a_fit(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = ["fit", str(made / "fps"), str(made / "labels.txt"), "-M", "64", *HERE]
    both = [*fit, "-o", str(tmp_path / "m"), "--target", "dock", "--target", "pIC50"]
    assert run([*both, "--direction", "dock=min", "--direction", "pIC50=Maximise"]) == 0
    shown = capsys.readouterr().out
    assert "dock (to minimize): mean" in shown
    assert "pIC50 (to maximize): mean" in shown
    assert screened(tmp_path / "m", made / "fps", "-o", tmp_path / "h.parquet", "--target", "dock") == 0
    assert "minimizing 'dock'" in capsys.readouterr().out
    assert run([*both, "--direction", "maximize", "--direction", "minimize"]) == 2
    assert "give one for all targets, or NAME=... for each" in capsys.readouterr().err
    for wrong in ("up", "dock=up", "dock", "maximise=min"):
        assert run([*both, "--direction", wrong]) == (1 if "min" in wrong else 2)
        message = "There is no target 'maximise'" if "min" in wrong else "A direction is maximize or minimize"
        assert message in capsys.readouterr().err
    assert run([*both, "--direction", "pIC50=maximse"]) == 2
    assert "not 'maximse'; did you mean maximize?" in capsys.readouterr().err
    assert run([*both, "--direction", "logD=maximize"]) == 1
    assert "There is no target 'logD'" in capsys.readouterr().err


def test_hits_are_replaced_only_on_demand(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hits = tmp_path / "hits.parquet"
    run_it = (made / "one", made / "fps", "-o", hits, "--maximize", "-k")
    assert screened(*run_it, 5) == 0
    assert screened(*run_it, 6) == 1
    error = capsys.readouterr().err
    assert f"{hits} holds the hits of another search: -k (was 5, now 6); " in error
    assert error.endswith("give another output path, or replace them by --overwrite (overwrite=True).\n")
    assert screened(*run_it, 5) == 0
    assert "already holds exactly these hits" in capsys.readouterr().out
    assert screened(*run_it, 6, "--overwrite") == 0


def test_what_files_hold_cannot_steer_the_terminal(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In IDs and names of columns of labels, in SMILES and names of files."""
    evil = "\x1b]0;gone\x07\x9b31m\u202e"
    labels = tmp_path / f"{evil}.csv"
    rows = [f"cmpd {k},{k}.5" for k in range(30)]
    labels.write_text("\n".join([f"id,y{evil}", *rows, f"A{evil},1"]) + "\n")
    molecules = tmp_path / f"b{evil}.smi"
    molecules.write_text(f"Qq{evil} A{evil}\n" * 2)
    fit = ["fit", str(made / "fps"), str(labels), "-M", "64", "-o", str(tmp_path / "m"), *HERE]
    assert run([*fit, "--direction", "minimize"]) == 0
    assert run([*fit, "--direction", "maximize"]) == 0
    assert run(["status", str(tmp_path / "m")]) == 0
    assert screened(tmp_path / "m", made / "fps", "-o", tmp_path / "h.parquet") == 0
    assert screened(tmp_path / "m", made / "fps", "-o", tmp_path / "h.parquet", "--target", f"z{evil}") == 1
    assert run(["fingerprint", str(molecules), "-o", str(tmp_path / "f"), *HERE]) == 1
    output = capsys.readouterr()
    text = output.out + output.err
    assert not [c for c in text if not c.isprintable() and c != "\n"]
    assert text.count(r"y\x1b]0;gone\x07\x9b31m\u202e") > 3
    assert r"(such as A\x1b]0;gone\x07" in text
    assert r"('Qq\x1b]0;gone\x07" in text


def test_values_to_drop_are_given_for_all_targets_or_by_name(tmp_path, capsys):
    labels = tmp_path / "y.csv"
    rows = [f"C{'C' * n}O,{-5 - n / 3:.2f},{n / 5:.2f}" for n in range(14)]
    labels.write_text("\n".join(["smiles,dock,logp", *rows, "CCN,999,1.5", "CCS,-6,777"]) + "\n")
    line = ["fit", str(labels), "-o", str(tmp_path / "m"), "--target", "dock", "--map", "minmax", "-M", "16"]
    line += ["--workers", "0", "--signal-variance", "1", "--noise-variance", "1"]
    assert run([*line, "--drop-value", "999"]) == 0
    assert "1 to be dropped (such as '999')" in capsys.readouterr().out
    two = [*line[:3], str(tmp_path / "two"), *line[4:], "--target", "logp"]
    assert run([*two, "--drop-value", "dock=999", "--drop-value", "logp=777"]) == 0
    assert "2 to be dropped" in capsys.readouterr().out
    assert run([*line, "--drop-value", "x"]) == 2
    assert "'x' is not a number" in capsys.readouterr().err
    assert run([*line, "--drop-value", "nan"]) in (1, 2)
