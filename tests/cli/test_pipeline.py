"""The commands, one after the other, on a small library; and what they say to bad input."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from daskrf.acquisition.confidence import ConfidenceBound
from daskrf.cli.app import run
from daskrf.commands.screen import screen
from daskrf.demo import objective
from daskrf.demo.enumeration import enumerate_to_file
from daskrf.errors import InputError

HERE = ["--workers", "0"]  # in this process


def write_labels(
    path: Path, rows: list[tuple[str, object]], header: tuple[str, str] = ("id", "score")
) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A library of 300 molecules and a broken line, its store, labels of 120 of them, and a model."""
    folder = tmp_path_factory.mktemp("pipeline")
    library = enumerate_to_file(folder / "library.smi", 300)
    _, *lines = library.read_text().splitlines()
    library.write_text("\n".join(["smiles name", *lines[:50], "C1CC broken", *lines[50:]]) + "\n")
    smiles, names = zip(*(line.split() for line in lines[:120]), strict=True)
    scores = objective.score(smiles).tolist()
    write_labels(folder / "labels.csv", list(zip(names, scores, strict=True)))
    assert (
        run(["fingerprint", str(library), "-o", str(folder / "fps"), "--rows-per-partition", "100", *HERE])
        == 0
    )
    fit = ["fit", str(folder / "fps"), str(folder / "labels.csv"), "-o", str(folder / "model"), "-M", "256"]
    assert run([*fit, *HERE]) == 0
    return folder


def test_fingerprint_reports_rejects_and_resumes(made, capsys):
    again = ["fingerprint", str(made / "library.smi"), "-o", str(made / "fps"), "--rows-per-partition", "100"]
    assert run([*again, *HERE]) == 0
    shown = capsys.readouterr().out
    assert "300" in shown
    assert "301" in shown
    assert "1 row" in shown
    assert "already" in shown


def test_strict_stops_at_file_and_line(made, tmp_path, capsys):
    assert run(["fingerprint", str(made / "library.smi"), "-o", str(tmp_path / "f"), "--strict", *HERE]) == 1
    shown = capsys.readouterr().err
    assert "library.smi" in shown
    assert "52" in shown


def test_changed_options_are_refused(made, capsys):
    options = ["--rows-per-partition", "100", "--radius", "2"]
    assert run(["fingerprint", str(made / "library.smi"), "-o", str(made / "fps"), *options, *HERE]) == 1
    assert "--kind (was morgan:2 + morgan:2:features + atompair:4, now morgan:2)" in capsys.readouterr().err


def test_features_and_fingerprints_screen_alike(made, tmp_path, capsys):
    features = str(tmp_path / "features")
    assert run(["featurize", str(made / "fps"), "-o", features, "-M", "256", *HERE]) == 0
    tables = []
    for k, source in enumerate((features, str(made / "fps"), str(made / "library.smi"))):
        hits = tmp_path / f"hits-{k}.parquet"
        screen = ["screen", str(made / "model"), source, "-o", str(hits), "-k", "20", "--minimize"]
        assert run([*screen, *HERE]) == 0
        tables.append(pq.read_table(hits))
    first = tables[0]
    assert first.num_rows == 20
    assert {"row", "id", "smiles", "source", "line", "mean", "std"} <= set(first.column_names)
    assert first["mean"].to_pylist() == sorted(first["mean"].to_pylist())
    for other in tables[1:]:
        assert other["id"].to_pylist() == first["id"].to_pylist()
        np.testing.assert_allclose(other["mean"].to_numpy(), first["mean"].to_numpy(), rtol=1e-6)
        assert other["line"].to_pylist() == first["line"].to_pylist()


def test_hits_name_the_line_they_stand_on(made, tmp_path):
    hits = tmp_path / "hits.parquet"
    options = ["-k", "300", "--maximize", "--acquisition", "ucb", "--std", "all"]
    assert run(["screen", str(made / "model"), str(made / "fps"), "-o", str(hits), *options, *HERE]) == 0
    lines = (made / "library.smi").read_text().splitlines()
    for hit in pq.read_table(hits).to_pylist():
        assert lines[hit["line"] - 1] == f"{hit['smiles']} {hit['id']}"


def test_rules_by_name_and_as_objects(made, tmp_path, capsys):
    hits = [tmp_path / f"hits-{k}.parquet" for k in range(2)]
    options = {"k": 20, "std": "all"}
    model, store = made / "model", made / "fps"
    named = screen(model, store, hits[0], acquisition="ucb", kappa=3.0, maximize=True, best=None, **options)
    rule = ConfidenceBound(kappa=3.0, maximize=True)
    assert screen(model, store, hits[1], acquisition=rule, **options).table.equals(named.table)
    options = ["-k", "20", "--std", "all", "--acquisition", "ucb", "--kappa", "3", "--maximize"]
    assert run(["screen", str(model), str(store), "-o", str(hits[1]), *options, *HERE]) == 0
    assert "already holds exactly these hits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"acquisition": "greedy", "kappa": 1.0, "maximize": True},
            "--kappa goes with --acquisition ucb",
        ),
        ({"acquisition": "greedy", "seed": 1, "maximize": True}, "--seed is for a random draw, but greedy"),
        ({"acquisition": "ucb", "kappa": -1.0, "maximize": True}, "kappa must not be negative, but is -1"),
        (
            {"acquisition": "ucb", "best": 1.0, "maximize": True},
            "--best goes with --acquisition ei or pi",
        ),
        ({"acquisition": "ucb", "depth": 1, "maximize": True}, "no acquisition rule has a setting 'depth'"),
        ({"acquisition": ConfidenceBound(), "kappa": 1.0, "maximize": True}, "to the acquisition itself"),
        ({"acquisition": ConfidenceBound(maximize=True), "maximize": False}, "leave one of them out"),
        ({"acquisition": ConfidenceBound()}, "maximize"),  # the default of a rule is no direction
        ({"acquisition": "ei", "std": "none", "maximize": True}, "do not set --std none"),
    ],
)
def test_rules_that_cannot_be_meant(options, words, made, tmp_path):
    with pytest.raises(InputError, match=words):
        screen(made / "model", made / "fps", tmp_path / "hits.parquet", **options)


def test_options_that_do_not_go_together_are_wrong_usage(made, tmp_path, capsys):
    command = ["screen", str(made / "model"), str(made / "fps"), "--maximize", *HERE]
    for options in (
        ["-o", "h.parquet", "--kappa", "2"],
        ["-o", "h.parquet", "--seed", "1"],
        ["-o", "h.parquet", "--acquisition", "ucb", "--kappa=-1"],
        ["-o", "h.parquet", "--acquisition", "ei", "--std", "none"],
        ["-o", "hits"],
    ):
        assert run([*command, options[0], str(tmp_path / options[1]), *options[2:]]) == 2
        assert capsys.readouterr().err.splitlines()[-1].startswith("daskrf: error: ")
    assert not list(tmp_path.iterdir())


def test_predict_writes_every_molecule(made, tmp_path, capsys):
    output = tmp_path / "predictions"
    assert run(["predict", str(made / "model"), str(made / "fps"), "-o", str(output), *HERE]) == 0
    assert "300 predictions" in capsys.readouterr().out


def test_status_speaks_of_every_kind(made, capsys):
    for store in ("fps", "model"):
        assert run(["status", str(made / store)]) == 0
        assert capsys.readouterr().out.strip()


def test_verify_finds_and_repairs_damage(made, tmp_path, capsys):
    store = tmp_path / "f"
    assert run(["fingerprint", str(made / "library.smi"), "-o", str(store), *HERE]) == 0
    assert run(["verify", str(store)]) == 0
    victim = max(
        (path for path in store.rglob("*") if "/c/" in path.as_posix()), key=lambda path: path.stat().st_size
    )
    damaged = bytearray(victim.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    victim.write_bytes(damaged)
    assert run(["verify", str(store)]) == 1
    assert run(["verify", str(store), "--repair", *HERE]) == 0
    assert run(["verify", str(store)]) == 0
    shutil.rmtree(next(store.glob("**/_commits")))
    assert run(["verify", str(store)]) == 1  # nothing is damaged, but partitions are missing
    assert run(["verify", str(store), "--repair", *HERE]) == 0


def test_plan_says_what_it_costs(made, capsys):
    assert run(["plan", str(made / "library.smi"), "-M", "256"]) == 0
    shown = capsys.readouterr().out
    assert "301" in shown
    assert "hour" in shown


def test_columns_are_counted_from_zero(tmp_path, capsys):
    table = tmp_path / "table.csv"
    table.write_text("m1,3.5,CCO\nm2,1.5,CCN\n")
    options = ["--no-header", "--id-column", "0", "--smiles-column", "2", "--keep-columns", "1"]
    assert run(["fingerprint", str(table), "-o", str(tmp_path / "f"), *options, *HERE]) == 0
    assert "2 fingerprints of 2 rows" in capsys.readouterr().out


def test_label_columns_are_counted_from_zero(made, tmp_path, capsys):
    with (made / "labels.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    labels = tmp_path / "labels.csv"
    write_labels(labels, [(score, name) for name, score in rows], header=("score", "name"))
    options = ["--key-column", "1", "--target", "0", "-M", "64"]
    assert run(["fit", str(made / "fps"), str(labels), "-o", str(tmp_path / "m"), *options, *HERE]) == 0
    assert "120 labels attached" in capsys.readouterr().out
    assert run(["status", str(tmp_path / "m")]) == 0
    assert "targets: score" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["predict", "screen"])
@pytest.mark.parametrize(
    "options", [["--fragments", "keep"], ["--smiles-column", "0"], ["--delimiter", "tab"], ["--no-header"]]
)
def test_options_for_files_are_refused_with_a_store(command, options, made, tmp_path, capsys):
    output = str(tmp_path / "hits.parquet")
    assert run([command, str(made / "model"), str(made / "fps"), "-o", output, *options, *HERE]) == 2
    shown = capsys.readouterr().err
    assert options[0].removeprefix("--no-").removeprefix("--") in shown
    assert "fps is a store" in shown


def test_options_for_files_are_taken_with_files(made, tmp_path):
    output = str(tmp_path / "hits.parquet")
    source = [str(made / "library.smi"), "--smiles-column", "0", "--id-column", "1", "--header"]
    screen = ["screen", str(made / "model"), *source, "-o", output, "-k", "5", "--minimize"]
    assert run([*screen, *HERE]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fingerprint", "{tmp}/nothing-*.smi", "-o", "{tmp}/f"], "nothing-"),
        (["fingerprint", "{tmp}/empty.smi", "-o", "{tmp}/f"], "empty.smi"),
        (["fingerprint", "{made}/labels.csv", "-o", "{tmp}/f", "--smiles-column", "SMILES"], "SMILES"),
        (["featurize", "{tmp}/none", "-o", "{tmp}/f"], "none"),
        (["featurize", "{made}/model", "-o", "{tmp}/f"], "model"),
        (["fit", "{made}/fps", "{tmp}/none.csv", "-o", "{tmp}/m"], "none.csv"),
        (["fit", "{made}/fps", "{made}/labels.csv", "-o", "{tmp}/m", "--target", "pIC50"], "pIC50"),
        (["fit", "{made}/fps", "{tmp}/nan.csv", "-o", "{tmp}/m", "-M", "64"], "nan.csv"),
        (["fit", "{made}/fps", "{tmp}/foreign.csv", "-o", "{tmp}/m", "-M", "64"], "foreign.csv"),
        (["fit", "{made}/fps", "{made}/labels.csv", "-o", "{made}/model", "-M", "64"], "model"),
        (["fit", "{made}/fps", "{made}/labels.csv", "-o", "{tmp}/m", "-M", "4000000"], "GiB"),
        (["screen", "{tmp}/none", "{made}/fps", "-o", "{tmp}/h.parquet"], "none"),
        (["predict", "{made}/fps", "{made}/fps", "-o", "{tmp}/p"], "fps"),
        (["verify", "{tmp}/none"], "none"),
        (["plan", "{tmp}/none.smi"], "none.smi"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_1(arguments, words, made, tmp_path, capsys):
    (tmp_path / "empty.smi").write_text("")
    write_labels(tmp_path / "nan.csv", [("a", "1.0"), ("b", "nan")])
    write_labels(tmp_path / "foreign.csv", [("nobody-1", 1.0), ("nobody-2", 2.0)])
    here = [] if arguments[0] == "plan" else HERE
    assert run([text.format(tmp=tmp_path, made=made) for text in arguments] + here) == 1
    last = capsys.readouterr().err.rstrip().splitlines()[-1]
    assert last.startswith("daskrf: error: ")
    assert words in last
    assert last.endswith(".")


def test_status_of_nothing_is_an_error(tmp_path, capsys):
    assert run(["status", str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err


REFUSED = {
    "a missing column": ["fingerprint", "{made}/library.smi", "-o", "{tmp}/a/out", "--smiles-column", "foo"],
    "no header": ["predict", "{made}/model", "{made}/library.smi", "-o", "{tmp}/out", "--smiles-column", "9"],
    "a missing target": ["fit", "{made}/fps", "{made}/labels.csv", "-o", "{tmp}/out", "--target", "pIC50"],
    "too much memory": ["fit", "{made}/fps", "{made}/labels.csv", "-o", "{tmp}/a/b/out", "-M", "4000000"],
    "a dtype": ["featurize", "{made}/fps", "-o", "{tmp}/out", "--map", "landmarks", "--dtype", "bits"],
    "a kernel": [
        "featurize",
        "{made}/fps",
        "-o",
        "{tmp}/out",
        "--map",
        "landmarks",
        "--kernel",
        "polynomial",
    ],
    "no direction": ["screen", "{made}/model", "{made}/library.smi", "-o", "{tmp}/out.parquet"],
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_command_leaves_nothing(case, made, tmp_path):
    before = sorted(made.rglob("*"))
    assert run([text.format(tmp=tmp_path, made=made) for text in REFUSED[case]] + HERE) == 1
    assert not list(tmp_path.iterdir())
    assert sorted(made.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fingerprint", "{made}/library.smi", "-o", "{made}/model"], "model is a model already"),
        (
            ["fingerprint", "{made}/library.smi", "-o", "{made}"],
            "holds other files and is not a daskrf store",
        ),
        (
            ["fingerprint", "{made}/library.smi", "-o", "{made}/labels.csv"],
            "a file of that name already exists",
        ),
        (
            ["fingerprint", "{made}/library.smi", "-o", "{made}/fps", "--radius", "3"],
            "--kind (was morgan:2 + morgan:2:features + atompair:4, now morgan:3)",
        ),
        (
            ["predict", "{made}/model", "{made}/library.smi", "-o", "{made}/fps"],
            "is a fingerprint store already",
        ),
        (["fit", "{made}/fps", "{made}/labels.csv", "-o", "{made}/fps"], "is a fingerprint store already"),
    ],
)
def test_an_output_of_something_else_is_refused_before_anything_is_read(arguments, words, made, capsys):
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*") if path.is_file()}
    assert run([text.format(made=made) for text in arguments] + HERE) == 1
    (error,) = capsys.readouterr().err.splitlines()  # neither how files are read, nor a scan
    assert words in error
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*") if path.is_file()} == before
