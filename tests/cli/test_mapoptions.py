"""Every map from the command line, and which options go with which."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from daskrf.cli import session
from daskrf.cli.app import run
from daskrf.cli.commands import commands
from daskrf.commands.fit import fit
from daskrf.demo import objective
from daskrf.demo.enumeration import enumerate_to_file
from daskrf.errors import InputError
from daskrf.features import (
    CompositionFeatures,
    FastfoodDotProductFeatures,
    FastfoodFeatures,
    FeatureMap,
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    LocalGaussianFeatures,
    NystromFeatures,
    PolynomialSketch,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
    known_maps,
)
from daskrf.gp import ExactGP, LocalGaussianGP
from daskrf.kernels import (
    Composition,
    DotProduct,
    Exponential,
    Gaussian,
    Intersection,
    Matern,
    Polynomial,
    Ratio,
    TanimotoDotProduct,
    TanimotoMinMax,
)
from daskrf.models.models import read_model

HERE = ["--workers", "0"]
RUNS = {
    "gaussian": "--distribution gaussian -M 40",
    "cws": "--map minmax --hashing cws -M 40",
    "dot-product": "--map dot-product --n-terms 2 --bias-correction normalize -M 40",
    "landmarks": "--map landmarks -M 40",
    "fourier": "--map fourier --kernel matern --nu 2.5 --length-scale 9 -M 41",
    "fastfood": "--map fastfood --length-scale 9 -M 40",
    "fastfood products": "--map fastfood-dot-product --kernel exponential --gamma 2 -M 40",
    "gaussian landmarks": "--map landmarks -M 40 --kernel gaussian --length-scale 9",
    "maclaurin": "--map maclaurin --kernel exponential --gamma 2 -M 40",
    "maclaurin lengths": "--map maclaurin --kernel exponential --gamma 0.01 --no-normalize --max-degree 3 "
    "-M 40",
    "polynomial": "--map polynomial --degree 3 --c 0.5 --method tensorsketch -M 40",
    "gaussian maclaurin": "--map gaussian-maclaurin --length-scale 12 -M 40",
    "nystrom": "--map nystrom --kernel intersection -M 20 --n-landmarks 40 --selection kmedoids",
    "nystrom means": "--map nystrom -M 40 --kernel gaussian --length-scale 9 --selection kmeans",
    "local gaussian": "--map local-gaussian --length-scale 12 --n-centroids 3 --threshold 0.3 -M 40",
    "composition": "--map composition --outer exponential --gamma 2 -M 40",
    "composition of dot products": "--map composition --inner dot-product --n-terms 3 --outer series "
    "--coefficients 0,1,0.5 -M 40",
    "composition of cosines": "--map composition --inner fourier --length-scale 9 -M 40",
    "farthest": "--map landmarks -M 30 --kernel dot-product --selection farthest",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of 120 molecules, its stores (one folded), and labels of 80 of them."""
    folder = tmp_path_factory.mktemp("cli-maps")
    library = enumerate_to_file(folder / "library.smi", 120)
    smiles, names = zip(*(line.split() for line in library.read_text().splitlines()[1:81]), strict=True)
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("id", "score"), *zip(names, objective.score(smiles).tolist(), strict=True)]
        )
    store = ["fingerprint", str(library), "-o", str(folder / "fps"), "--rows-per-partition", "50"]
    assert run([*store, *HERE]) == 0
    folded = ["-o", str(folder / "folded"), "--size", "256"]
    assert run([*store[:2], *folded, "--rows-per-partition", "50", *HERE]) == 0
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_every_map_runs(name: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = RUNS[name].split()
    centred = {"gaussian-maclaurin", "local-gaussian"} & set(options)
    folded = "fastfood" in name or ("--length-scale" in options and not centred)
    fps = str(made / ("folded" if folded else "fps"))
    criterion = ["--criterion", "bound"] if options[1] == "landmarks" else []
    model, hits, features = (str(tmp_path / x) for x in ("model", "hits.parquet", "features"))
    assert run(["fit", fps, str(made / "labels.csv"), "-o", model, *options, *criterion, *HERE]) == 0
    assert ("bound" in capsys.readouterr().out) == bool(criterion)
    assert run(["featurize", fps, "-o", features, *options, *HERE]) == 0
    screen = ["screen", model, features, "-o", hits, "-k", "7", "--acquisition", "ucb", "--minimize"]
    assert run([*screen, *HERE]) == 0
    assert pq.read_table(hits).num_rows == 7
    assert run(["predict", model, fps, "-o", str(tmp_path / "p"), *HERE]) == 0
    capsys.readouterr()
    assert run(["status", features]) == 0
    shown = capsys.readouterr().out
    assert f"M = {options[options.index('-M') + 1]}, seed 0" in shown
    assert len(shown) < 1_000
    assert run(["fit", features, str(made / "labels.csv"), "-o", str(tmp_path / "m"), *options, *HERE]) == 0
    assert run(["fit", features, str(made / "labels.csv"), "-o", str(tmp_path / "m"), *HERE]) == 0


def _map(arguments: str, command: str = "featurize") -> FeatureMap | None:
    files = ["a", "b", "-o", "c"] if command == "fit" else ["a", "-o", "b"]
    feature_map: Any = (
        commands()[command].make_context(command, [*files, *arguments.split()]).params["feature_map"]
    )
    return feature_map


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--map minmax", TanimotoMinMaxFeatures()),
        ("-M 64 --random-state 3", TanimotoMinMaxFeatures(64, random_state=3)),
        ("--map minmax --distribution gaussian", TanimotoMinMaxFeatures(distribution="gaussian")),
        ("--map dot-product", TanimotoDotProductFeatures()),
        ("--map dot-product --bias-correction none", TanimotoDotProductFeatures()),
        ("--map dot-product --n-terms 3", TanimotoDotProductFeatures(n_terms=3)),
        ("--map dot-product --input-transform none", TanimotoDotProductFeatures(input_transform=None)),
        ("--map dot-product --norm-range 1 90", TanimotoDotProductFeatures(norm_range=(1.0, 90.0))),
        ("--map landmarks", LandmarkFeatures()),
        ("--map maclaurin", RandomMaclaurinFeatures()),
        ("--map maclaurin --c 0", RandomMaclaurinFeatures(Polynomial(2, c=0.0, normalize=True))),
        (
            "--map maclaurin --kernel exponential --gamma 2 --degree-measure geometric --max-degree 4 "
            "--no-normalize",
            RandomMaclaurinFeatures(Exponential(2.0), degree_measure="geometric", max_degree=4),
        ),
        (
            "--map maclaurin --kernel series --coefficients 0,1,0.5 --degree-measure 0.5,1,2 --h01 "
            "--map-radius 3",
            RandomMaclaurinFeatures(
                DotProduct((0.0, 1.0, 0.5), normalize=True),
                degree_measure=(0.5, 1.0, 2.0),
                h01=True,
                radius=3.0,
            ),
        ),
        (
            "--map fastfood-dot-product --degree 3 --c 0 --no-normalize --projection hadamard -M 64",
            FastfoodDotProductFeatures(Polynomial(3, c=0.0), 64, projection="hadamard"),
        ),
        (
            "--map fastfood-dot-product --kernel series --coefficients 1,2,1 --expansion monomials",
            FastfoodDotProductFeatures(DotProduct((1, 2, 1), normalize=True), expansion="monomials"),
        ),
        ("--map polynomial", PolynomialSketch(normalize=True)),
        (
            "--map polynomial --degree 3 --c 1 --method tensorsrht --no-normalize",
            PolynomialSketch(3, c=1.0, method="tensorsrht"),
        ),
        (
            "--map gaussian-maclaurin --length-scale 15 --method tensorsrht -M 64 --no-explicit",
            GaussianMaclaurinFeatures(64, length_scale=15.0, method="tensorsrht", explicit=False),
        ),
        (
            "--map local-gaussian --length-scale 15 --n-centroids 4 --selection kmeans -M 64",
            LocalGaussianFeatures(64, length_scale=15.0, n_centroids=4, selection="kmeans"),
        ),
        (
            "--map landmarks --kernel dot-product --selection kmedoids --n-candidates 99",
            LandmarkFeatures(kernel=TanimotoDotProduct("sqrt"), selection="kmedoids", n_candidates=99),
        ),
        ("--map landmarks --kernel ratio --normalize", LandmarkFeatures(kernel=Ratio(normalize=True))),
        (
            "--map landmarks --kernel composition --outer exponential --gamma 2",
            LandmarkFeatures(kernel=Composition(Exponential(2.0))),
        ),
        ("--map nystrom", NystromFeatures()),
        (
            "--map nystrom --kernel intersection -M 64 --n-landmarks 99 --selection farthest",
            NystromFeatures(64, kernel=Intersection(), n_landmarks=99, selection="farthest"),
        ),
        (
            "--map nystrom --kernel matern --nu 2.5 --length-scale 7 --selection kmeans",
            NystromFeatures(kernel=Matern(7.0, nu=2.5), selection="kmeans"),
        ),
        ("--map fourier --length-scale 9", RandomFourierFeatures(Gaussian(9.0))),
        ("--map fourier", RandomFourierFeatures(Gaussian("auto"))),
        ("--map fourier --length-scale auto", RandomFourierFeatures(Gaussian("auto"))),
        ("--map nystrom --kernel matern --nu 2.5", NystromFeatures(kernel=Matern("auto", nu=2.5))),
        ("--map gaussian-maclaurin", GaussianMaclaurinFeatures(length_scale="auto")),
        ("--map local-gaussian --threshold 2", LocalGaussianFeatures(length_scale="auto", threshold=2.0)),
        (
            "--map composition --inner fourier",
            CompositionFeatures(inner=RandomFourierFeatures(Gaussian("auto"))),
        ),
        (
            "--map fourier --kernel matern --length-scale=9 --orthogonal",
            RandomFourierFeatures(Matern(9.0), orthogonal=True),
        ),
        (
            "--map=fastfood --kernel=matern --nu 0.5 --length-scale 9 --projection fft -M 64",
            FastfoodFeatures(Matern(9.0, nu=0.5), 64, projection="fft"),
        ),
        ("--map composition", CompositionFeatures()),
        (
            "--map composition -M 64 --random-state 3 --hashing cws --outer exponential --gamma 2",
            CompositionFeatures(Exponential(2.0), TanimotoMinMaxFeatures(hashing="cws"), 64, random_state=3),
        ),
        (
            "--map composition --inner polynomial --inner-degree 1 --inner-c 0.5 --degree 3",
            CompositionFeatures(Polynomial(3, c=0.0), PolynomialSketch(1, c=0.5, normalize=True)),
        ),
        (
            "--map composition --inner fastfood --length-scale 9 --degree 3",
            CompositionFeatures(Polynomial(3, c=0.0), FastfoodFeatures(Gaussian(9.0))),
        ),
        (
            "--map landmarks --kernel gaussian --length-scale 9",
            LandmarkFeatures(kernel=Gaussian(9.0)),
        ),
    ],
)
def test_options_make_the_map(arguments: str, expected: FeatureMap) -> None:
    feature_map = _map(arguments)
    assert feature_map is not None
    assert feature_map.state() == expected.state()


def test_no_option_is_no_map() -> None:
    for arguments, named in ("", False), ("--random-state 0", False), ("-M 9", True), ("--map minmax", True):
        assert (_map(arguments, "fit") is not None) == named


@pytest.mark.parametrize("cls", known_maps(), ids=lambda cls: cls.facts.name)
def test_the_example_of_a_map_makes_it(cls: type[FeatureMap]) -> None:
    assert type(_map(f"--map {cls.facts.name} {cls.facts.example}")) is cls


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            "--selection random",
            "--map minmax (the default) has no option --selection; it has --distribution, --hashing. "
            "--selection goes with --map landmarks, local-gaussian or nystrom.",
        ),
        ("--map landmarks --n-landmarks 9", "--map landmarks has no option --n-landmarks; it has --kernel,"),
        (
            "--map nystrom --length-scale 9",
            "--length-scale goes with --kernel gaussian, matern, unit-balls or metric, not with --kernel "
            "minmax (the default).",
        ),
        (
            "--map landmarks --kernel dot-product --length-scale 3",
            "--length-scale goes with --kernel gaussian, matern, unit-balls or metric, not with --kernel "
            "dot-product",
        ),
        (
            "--length-scale 3",
            "--map minmax (the default) has no option --length-scale; it has --distribution, --hashing. "
            "--length-scale goes with --map fastfood, fourier,",
        ),
        (
            "--map landmarks --no-normalize",
            "--normalize goes with --kernel polynomial, exponential, series, ratio or composition, not with",
        ),
        ("--map minmax --distribution uniform", "'uniform' is not one of 'rademacher', 'gaussian'"),
        (
            "--map maclaurin --kernel series --coefficients 0,x",
            "--coefficients takes numbers such as 0,1",
        ),
        ("--map maclaurin --degree-measure even", "takes proportional or geometric or numbers such as"),
        ("--map nothing", "'nothing' is not a map; the maps are composition, dot-product,"),
        ("--map fourier --kernel minmax", "'minmax' is not one of 'gaussian', 'matern'"),
        (
            "--map fastfood --length-scale 9 --nu 1",
            "--nu goes with --kernel matern, not with --kernel gaussian (the default).",
        ),
        (
            "--map composition --n-terms 3",
            "--n-terms goes with --inner dot-product, not with --inner minmax (the default).",
        ),
        ("--map composition --inner nothing", "'nothing' is not a map; the maps are"),
        ("--map minmax --distribution gaussian --distribution gaussian", "was given 2 times; give it once"),
        ("--components 9", "No such option"),
    ],
)
@pytest.mark.parametrize("command", ["featurize", "fit", "plan"])
def test_options_of_another_map_are_wrong_usage(
    command: str, arguments: str, words: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = {"featurize": ["fps"], "fit": ["fps", "labels.csv"], "plan": ["library.smi"]}[command]
    output = [] if command == "plan" else ["-o", str(tmp_path / "out"), *HERE]
    if command == "fit" and not arguments.startswith(("--map", "--components")):  # it may be exact
        words = f"An exact model with --kernel minmax has no option {arguments.split()[0]}; it has --solver,"
    assert run([command, *(str(made / name) for name in inputs), *output, *arguments.split()]) == 2
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert words in shown
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "kernel"),
    [
        ("--quick", TanimotoMinMax()),
        ("--process exact --kernel gaussian --length-scale 9 --random-state 3", Gaussian(9.0)),
        ("--kernel matern --length-scale 9 --nu 1.5", Matern(9.0, nu=1.5)),
        ("--n-draws 5 --solver cholesky --quick", TanimotoMinMax()),
        ("-M 64", None),
        ("--process features", None),
        ("--map minmax", None),
        ("--map auto -M 32", None),
    ],
)
def test_the_process_that_is_fitted(
    arguments: str, kernel: Any, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, hits = str(tmp_path / "m"), str(tmp_path / "hits.parquet")
    options = arguments.split()
    assert run(["fit", str(made / "fps"), str(made / "labels.csv"), "-o", model, *options, *HERE]) == 0
    output = capsys.readouterr()
    gp = read_model(tmp_path / "m").gp
    assert isinstance(gp, ExactGP) == (kernel is not None)
    if kernel is not None:
        assert gp.kernel == kernel
        assert "exact process with" in output.out
        assert ("The process is exact: 80 labels are few enough" in output.err) == ("exact" not in options)
        assert "--quick takes" not in output.err
    assert run(["screen", model, str(made / "fps"), "-o", hits, "-k", "5", "--maximize", *HERE]) == 0
    assert pq.read_table(hits).num_rows == 5


def test_the_way_round_the_comparison_of_kernels_is_said(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(tmp_path / "m")
    assert run(["fit", str(made / "fps"), str(made / "labels.csv"), "-o", model, *HERE]) == 0
    note = "Kernels are compared first; --quick takes the Tanimoto kernel at once."
    assert note in " ".join(capsys.readouterr().err.split())
    assert run(["evaluate", str(made / "fps"), str(made / "labels.csv"), "--folds", "2", *HERE]) == 0
    assert note in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--process exact --map minmax", "has no features"),
        ("--process exact -M 64", "An exact model has no option --n-components"),
        ("--process exact --degree 3", "An exact model with --kernel minmax has no option --degree"),
        ("--process exact --kernel minmax --length-scale 2", "has no option --length-scale"),
        ("--map auto --kernel gaussian", "--map auto tries each map with its default options, and takes no"),
        ("--kernel gaussian --length-scale long", "'long' is not a valid float, nor auto"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: str, words: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ["fit", str(made / "fps"), str(made / "labels.csv"), "-o", str(tmp_path / "m"), *HERE]
    assert run([*fit, *arguments.split()]) in (1, 2)
    assert words in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not (tmp_path / "m").exists()


def test_too_many_labels_take_features(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daskrf.fitting.exactsolve._MOST_MINUTES", 0)
    fit = ["fit", str(made / "fps"), str(made / "labels.csv"), "-o", str(tmp_path / "m"), *HERE]
    assert run([*fit, "--kernel", "dot-product"]) == 0
    assert "for 80 labels, an exact one would take about 0 minutes here" in capsys.readouterr().err
    assert read_model(tmp_path / "m").metadata["map"]["class"] == "TanimotoDotProductFeatures"


def test_a_criterion_needs_landmarks(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = ["fit", str(made / "fps"), str(made / "labels.csv"), "-o", str(tmp_path / "m"), *HERE]
    assert run([*fit, "--criterion", "bound", "--map", "minmax"]) == 2
    assert run([*fit, "--criterion", "bound"]) == 2
    shown = capsys.readouterr().err
    assert "--map minmax has no option --criterion; it has --distribution, --hashing." in shown
    assert "--criterion goes with --map landmarks." in shown
    assert "An exact model with --kernel minmax has no option --criterion; it has --solver" in shown
    assert run(["featurize", str(made / "fps"), "-o", str(tmp_path / "f"), "--criterion", "bound"]) == 2
    assert "--criterion is an option of fit." in " ".join(capsys.readouterr().err.split())


def test_options_of_the_local_process(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = ["fit", str(made / "fps"), str(made / "labels.csv"), "-o", str(tmp_path / "m"), *HERE]
    for option in (["--rows", "nearest"], ["--no-residual"]):
        assert run([*fit, *option, "--map", "minmax"]) == 2
        assert f"--map minmax has no option {option[0]}" in capsys.readouterr().err
        assert run([*fit, *option]) == 2
        assert f"An exact model with --kernel minmax has no option {option[0]}" in capsys.readouterr().err
    local = ["--map", "local-gaussian", "--length-scale", "12", "--n-centroids", "3", "-M", "40"]
    assert run([*fit, *local, "--rows", "nearest", "--no-residual"]) == 0
    gp = read_model(tmp_path / "m").gp
    assert isinstance(gp, LocalGaussianGP)
    assert (gp.rows, gp.residual) == ("nearest", False)


@pytest.mark.parametrize(
    "arguments",
    [
        "--map local-gaussian --length-scale 9 --method tensorsrht",
        "--map maclaurin --degree 3 -M 128 --h01",
    ],
)
def test_fingerprints_that_are_not_folded_are_refused_before_workers_start(
    arguments: str,
    made: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "client_of", lambda **_: pytest.fail("workers were started"))
    for command in (["fit", str(made / "fps"), str(made / "labels.csv")], ["featurize", str(made / "fps")]):
        assert run([*command, "-o", str(tmp_path / "out"), *arguments.split()]) == 1
        assert "fold the fingerprints" in capsys.readouterr().err.splitlines()[-1]
        assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="fold the fingerprints"):
        fit(made / "fps", made / "labels.csv", tmp_path / "out", feature_map=_map(arguments))
    assert not list(tmp_path.iterdir())


def test_bad_parameters_are_one_sentence(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ("--degree -1", "--outer series --coefficients=-1,2"):
        options = ["-o", str(tmp_path / "out"), *HERE, "--map", "composition", *arguments.split()]
        assert run(["featurize", str(made / "fps"), *options]) == 1


def test_reports_say_how_many_landmarks_there_are(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fps, labels = str(made / "fps"), str(made / "labels.csv")
    for name in ("landmarks", "nystrom"):
        features = str(tmp_path / name)
        assert run(["featurize", fps, "-o", features, "--map", name, *HERE]) == 0
        first, *_, last = capsys.readouterr().out.splitlines()
        match = re.fullmatch(
            r"there are (\d+) landmarks, not 1,024: the sample has no more distinct rows.*", last.strip()
        )
        assert match is not None
        assert first.startswith(f"{match[1]} features (1,024 requested) of 120 molecules in {features}: ")
        assert "4,096 bytes a molecule as float32" in first
        assert run(["fit", fps, labels, "-o", str(tmp_path / f"{name}.m"), "--map", name, *HERE]) == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert f"80 labelled molecules, {match[1]} features (1,024 requested), in " in first


def test_bytes_of_a_molecule_are_the_same_in_report_and_status(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features = str(tmp_path / "f")
    assert run(["featurize", str(made / "fps"), "-o", features, "-M", "256", *HERE]) == 0
    report = capsys.readouterr().out
    assert run(["status", features]) == 0
    shown = capsys.readouterr().out
    match = re.search(r": 32 bytes a molecule as bits, (\d+) with ID and SMILES", report)
    assert match is not None
    assert "32 bytes a molecule\n" in shown
    assert f", {match[1]} bytes a molecule with ID and SMILES\n" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--map dot-product -M 3 --n-terms 9", "n_components is 3, but 9 terms need at least one"),
        (
            "--map nystrom -M 64 --n-landmarks 9",
            "n_landmarks must be an integer of at least n_components",
        ),
        ("--map local-gaussian --length-scale -2", "length_scale must be"),
        ("--map local-gaussian", "The length scale is not known yet: fit chooses it from the labels"),
        ("--map local-gaussian --length-scale 2 -M 4", "n_centroids must be an integer from 1 to"),
        ("--map local-gaussian --length-scale 9 --method tensorsrht", "fold the fingerprints"),
        ("--map fastfood-dot-product --degree 3 --c 0 --expansion monomials", 'use expansion="legendre"'),
        ("--map fastfood-dot-product --expansion monomials --no-normalize", "needs a kernel with normalize"),
        ("--map maclaurin --degree 3 --c 0 --max-degree 2", "up to max_degree = 2; raise it"),
        (
            "--map composition --inner dot-product --n-terms 99",
            "but 99 terms need at least one feature each);",
        ),
        ("--map composition --inner landmarks", "inner must be a map of random features"),
        ("--map landmarks -M 16 --fold 200", "LandmarkFeatures is not a map for folded fingerprints"),
    ],
)
def test_bad_values_are_refused_before_workers_start(
    arguments: str,
    words: str,
    made: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "client_of", lambda **_: pytest.fail("workers were started"))
    store = str(made / ("folded" if "monomials" in arguments else "fps"))
    assert run(["featurize", store, "-o", str(tmp_path / "out"), *arguments.split()]) == 1
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cls", known_maps(), ids=lambda cls: cls.facts.name)
def test_the_page_of_a_map_is_for_the_command_line(
    cls: type[FeatureMap], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert run(["maps", cls.facts.name]) == 0
    title, *lines = capsys.readouterr().out.splitlines()
    default = ", the default" if cls.facts.is_default else ""
    assert title == f"{cls.facts.name}: {cls.__name__}{default}"
    assert all(len(line) <= 80 for line in lines)
    text = "\n".join(lines)
    for word in ("Features", "`", "set_params", "RadialSpectrum", "in Python", "In Python"):
        assert word not in text.replace("Features ", "").replace("Features:", "")


def test_the_table_marks_the_default_and_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["maps"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    (place,) = (i for i, line in enumerate(lines) if "the default" in line)
    assert lines[place - 1].startswith("minmax ")


def test_help_has_the_options_of_exact_models(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, has_them in (
        ([], True),
        (["--process", "exact"], True),
        (["--process", "features"], False),
    ):
        assert run(["fit", *arguments, "--help"]) == 0
        assert ("--solver [auto|cholesky|cg]" in capsys.readouterr().out) == has_them


@pytest.mark.parametrize("command", commands())
def test_help_is_for_the_command_line(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    for word in ("dask array", "In Python", "in Python", "``", "True", "None"):
        assert word not in shown
