"""After a failure of any command, or Ctrl-C, the corrected command works: nothing hidden is in its way."""

from __future__ import annotations

import importlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daskrf
from daskrf import FingerprintSpec, TanimotoMinMaxFeatures
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, StoreError
from daskrf.gp.processes.exact import ExactGP
from daskrf.jobs import job as jobs
from daskrf.models.labelled import SMILES as SMILES_ARRAY
from daskrf.models.models import read_model
from daskrf.storage import hits, inspection
from daskrf.storage.integrity import sealed, unsealed
from daskrf.storage.model import load_model, save_model
from daskrf.storage.stores import store
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.rowstore import RejectingStore
from daskrf.storage.stores.store import ARRAYS_FILE
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, write_space

N = 60
SMILES = list(ReactionLibrary().smiles(0, 2 * N))
MAP = TanimotoMinMaxFeatures(n_components=64)
OTHER = TanimotoMinMaxFeatures(n_components=64, random_state=1)
FIT: dict[str, Any] = {"process": "exact", "kernel": daskrf.TanimotoMinMax(), "direction": "maximize"}


def library(path: Path, first: int) -> Path:
    path.write_text("".join(f"{s} m{k}\n" for k, s in enumerate(SMILES[first : first + N], first)))
    return path


def labels(path: Path, seed: int, first: str = "1.5") -> Path:
    y = np.random.default_rng(seed).standard_normal(N).round(3)
    rows = [f"m{k},{s},{v}" for k, (s, v) in enumerate(zip(SMILES, y, strict=False))]
    rows[0] = f"m0,{SMILES[0]},{first}"
    path.write_text("\n".join(["id,smiles,y", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("corrections")
    daskrf.fingerprint(library(out / "lib.smi", 20), out / "fp", rows_per_partition=20)
    daskrf.fit(labels(out / "y.csv", 0), output=out / "m", **FIT)
    daskrf.screen(out / "m", out / "fp", out / "hits.csv", k=5)
    write_space(out / "space", {"amide": (AMIDE, [AMINES, ACIDS])})
    return out


# A command in a folder with the outputs above, with wrong input or options and with the right ones; where the
# wrong run fails; its output.
Case = tuple[Callable[[Path, bool], Any], tuple[Any, str], str]
RECORD = (hits, "_write_record")
COMMIT, FEATURES = (RejectingStore, "_write"), (FeatureStore, "write_partition")  # the second one fails


def _fit_alone(at: Path, right: bool) -> Any:
    return daskrf.fit(labels(at / "new.csv", int(right)), output=at / "out", **FIT)


def _fit(at: Path, right: bool) -> Any:
    return daskrf.fit(at / "fp", labels(at / "new.csv", int(right)), at / "out", key="smiles", **FIT)


def _fingerprint(at: Path, right: bool) -> Any:
    return daskrf.fingerprint(library(at / "new.smi", 10 * right), at / "out", rows_per_partition=20)


def _options(at: Path, right: bool) -> Any:
    spec = FingerprintSpec("morgan", radius=2 + right)
    return daskrf.fingerprint(at / "lib.smi", at / "out", spec=spec, rows_per_partition=20)


def _featurize(at: Path, right: bool) -> Any:
    return daskrf.featurize(at / "fp", OTHER if right else MAP, at / "out")


def _predict_file(at: Path, right: bool) -> Any:
    return daskrf.predict(at / "m", library(at / "new.smi", 10 * right), at / "out.csv")


def _predict_folder(at: Path, right: bool) -> Any:
    return daskrf.predict(at / "m", library(at / "new.smi", 10) if right else at / "fp", at / "out")


def _screen(at: Path, right: bool) -> Any:
    return daskrf.screen(at / "m", library(at / "new.smi", 10 * right), at / "out.csv", k=5 + right)


def _suggest(at: Path, right: bool) -> Any:
    return daskrf.suggest(at / "m", library(at / "new.smi", 40 + 10 * right), at / "out.csv", n=3 + right)


def _evaluate(at: Path, right: bool) -> Any:
    table = labels(at / "new.csv", int(right))
    return daskrf.evaluate(table, output=at / "out.csv", folds=2 + right, **FIT)


def _add(at: Path, right: bool) -> Any:
    table = labels(at / "new.csv", 2 + right)
    return daskrf.add(at / "m", table, output=at / "out")


def _page(at: Path, right: bool) -> Any:
    return daskrf.page(at / "hits.csv", at / "out.html", title=f"title {right}")


def _explain(at: Path, right: bool) -> Any:
    return daskrf.explain(at / "m", SMILES[int(right)], at / "out.svg")


def _sample(at: Path, right: bool) -> Any:
    return daskrf.sample(at / "space", at / "out.csv", n=5 + right, seed=int(right))


def _quickstart(at: Path, right: bool) -> Any:
    # Its folder is what she named: with other options it is refused, in a sentence.
    return daskrf.quickstart(at / "out", molecules=300, labelled=40, n_components=64)


CASES: dict[str, Case] = {
    "fit of labels alone": (_fit_alone, (ExactGP, "fit"), "out"),
    "fit": (_fit, (ExactGP, "fit"), "out"),
    "fingerprint": (_fingerprint, (jobs.Run, "make"), "out"),
    "fingerprint of some partitions": (_fingerprint, COMMIT, "out"),
    "fingerprint with other options": (_options, COMMIT, "out"),
    "featurize": (_featurize, FEATURES, "out"),
    "predict to a file": (_predict_file, RECORD, "out.csv"),
    "predict to a folder": (_predict_folder, COMMIT, "out"),
    "screen": (_screen, RECORD, "out.csv"),
    "suggest": (_suggest, RECORD, "out.csv"),
    "evaluate": (_evaluate, RECORD, "out.csv"),
    "add": (_add, (ExactGP, "fit"), "out"),
    "page": (_page, RECORD, "out.html"),
    "explain": (_explain, RECORD, "out.svg"),
    "sample": (_sample, RECORD, "out.csv"),
    "quickstart": (_quickstart, RECORD, "out"),
}


def content(path: Path) -> dict[str, Any]:
    """Return what an output holds, apart from times."""
    if path.is_file():
        return {path.name: path.read_bytes()}
    files = [p for p in path.rglob("*") if p.is_file() and p.name not in ("_plan.json", ARRAYS_FILE)]
    files = [p for p in files if p.parent.suffix != ".log"]
    names = (re.sub(r"arrays-\w+", "arrays", str(p.relative_to(path))) for p in files)  # depends on paths
    return dict(zip(names, (p.read_bytes() for p in files), strict=True))


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError], ids=["Ctrl-C", "refusal"])
@pytest.mark.parametrize("case", CASES)
def test_the_corrected_command_works(
    case: str, error: type[BaseException], made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, (where, name), output = CASES[case]
    at, fresh = (shutil.copytree(made, tmp_path / each) for each in ("at", "fresh"))
    real, calls = getattr(where, name), []

    def failing(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if (where, name) in (COMMIT, FEATURES) and len(calls) == 1:
            return real(*arguments, **options)
        raise error("it fails")

    with monkeypatch.context() as patched:
        patched.setattr(where, name, failing)
        with pytest.raises(error):
            command(at, False)
    assert calls
    assert not (at / output).is_file()
    if case == "quickstart":
        with pytest.raises(InputError, match=r"--labelled \(was 40, now 50\); name another directory"):
            daskrf.quickstart(at / output, molecules=300, labelled=50, n_components=64)
    command(at, True)
    command(fresh, True)
    if output != "out.html":  # which names the command that made it
        assert content(at / output).keys() == content(fresh / output).keys()
    assert [p.name for p in at.iterdir() if p.name.endswith((".daskrf", ".given"))] == []
    command(at, True) if (at / output).is_dir() else None  # it is complete: nothing refuses it


# Commands that write nothing: how they are called, and what they call when they fail.
ANSWERS: dict[str, tuple[Callable[[Path], Any], tuple[Any, str]]] = {
    "found": (lambda at: daskrf.found(at / "m", at / "lib.smi", k=5, n_draws=4), (jobs.Run, "make")),
    "found in a space": (lambda at: daskrf.found(at / "m", at / "space", k=5, n_draws=4), (jobs.Run, "make")),
    "check-space": (lambda at: daskrf.check_space(at / "space", sample=5), ("check_space", "_checked")),
    "plan": (lambda at: daskrf.plan(at / "lib.smi", sample=20), ("plan", "_time_fingerprints")),
    "status": (lambda at: daskrf.status(at / "m"), (inspection, "_model_status")),
    "verify": (lambda at: daskrf.verify(at / "m"), (inspection, "_model_problems")),
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError], ids=["Ctrl-C", "refusal"])
@pytest.mark.parametrize("case", ANSWERS)
def test_a_command_that_only_answers_leaves_nothing_when_it_fails(
    case: str, error: type[BaseException], made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, (where, name) = ANSWERS[case]
    at = shutil.copytree(made, tmp_path / "at")
    before = without_logs(at)

    def failing(*arguments: Any, **options: Any) -> Any:
        raise error("it fails")

    with monkeypatch.context() as patched:
        module = importlib.import_module(f"daskrf.commands.{where}") if isinstance(where, str) else where
        patched.setattr(module, name, failing)
        with pytest.raises(error):
            command(at)
    resumed = case.startswith("found")
    assert {
        path for path in without_logs(at) if not (resumed and path.parts[0] == ".m.daskrf")
    } == before.keys()
    if resumed:  # what it goes on from is in no other command's way
        daskrf.add(at / "m", labels(at / "more.csv", 3), output=at / "other")
        shutil.rmtree(at / "other")
        (at / "more.csv").unlink()
        daskrf.found(at / "m", at / "fp", k=6, n_draws=4)
    command(at)
    assert without_logs(at) == before


def without_logs(at: Path) -> dict[Path, bytes]:
    files = (path for path in at.rglob("*") if path.is_file() and path.parent.suffix != ".log")
    return {path.relative_to(at): path.read_bytes() for path in files}


def test_labels_that_cannot_be_fitted_are_corrected(tmp_path: Path) -> None:
    options: dict[str, Any] = {"output": tmp_path / "m", "quick": True, "direction": "maximize"}
    with pytest.raises((InputError, ValueError, ArithmeticError), match=r"\w"):
        daskrf.fit(labels(tmp_path / "y.csv", 0, "1e300"), **options)
    report = daskrf.fit(labels(tmp_path / "y.csv", 0), **options)
    assert report.labels.matched == N


def test_an_unfinished_store_of_much_work_is_kept(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daskrf.fingerprint(made / "lib.smi", tmp_path / "fp", rows_per_partition=20)
    store.Store.open(tmp_path / "fp").discard(1)
    before = content(tmp_path / "fp")
    monkeypatch.setattr(jobs, "_LITTLE_WORK", -1.0)
    other: dict[str, Any] = {"spec": FingerprintSpec("morgan"), "rows_per_partition": 20}
    with pytest.raises(StoreError, match="made from other input or with other options: --kind"):
        daskrf.fingerprint(made / "lib.smi", tmp_path / "fp", **other)
    assert content(tmp_path / "fp") == before
    monkeypatch.undo()
    daskrf.fingerprint(made / "lib.smi", tmp_path / "fp", **other)
    with pytest.raises(StoreError, match="made from other input"):  # a complete one
        daskrf.fingerprint(made / "lib.smi", tmp_path / "fp", rows_per_partition=20)


def test_everything_is_read_of_one_model(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shutil.copytree(made / "m", tmp_path / "m")
    model = read_model(path)
    daskrf.add(path, labels(tmp_path / "more.csv", 7))
    assert len(model.arrays("labels")[0]) == N  # of the record that was read: its round is kept
    other = daskrf.fit(labels(tmp_path / "other.csv", 3), output=tmp_path / "other", **FIT).model
    shutil.rmtree(path)
    shutil.copytree(other, path)
    with pytest.raises(StoreError, match="was changed during the run; run the same command again"):
        model.arrays(SMILES_ARRAY)
    assert len(read_model(path).arrays("labels")[0]) == N


@pytest.mark.parametrize("command", ["add", "suggest", "page", "explain", "screen"])
def test_a_model_that_changes_meanwhile_is_never_mixed(
    command: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = shutil.copytree(made, tmp_path / "at")
    other = daskrf.fit(labels(tmp_path / "more.csv", 7), output=tmp_path / "other", **FIT).model
    from daskrf.models import models, views

    real = models.read_model

    def swapped(*arguments: Any, **options: Any) -> Any:
        found = real(*arguments, **options)
        shutil.rmtree(at / "m")
        shutil.copytree(other, at / "m")
        return found

    where = "screens.aim" if command in ("screen", "suggest") else f"commands.{command}"
    module = __import__(f"daskrf.{where}", fromlist=["read_model"])
    monkeypatch.setattr(views if command == "explain" else module, "read_model", swapped)
    calls: dict[str, Callable[[], Any]] = {
        "add": lambda: daskrf.add(at / "m", labels(at / "new.csv", 9), output=at / "new"),
        "suggest": lambda: daskrf.suggest(at / "m", at / "fp", at / "b.csv", n=3),
        "page": lambda: daskrf.page(at / "hits.csv", at / "p.html", model=at / "m"),
        "explain": lambda: daskrf.explain(at / "m", SMILES[2], at / "e.svg"),
        "screen": lambda: daskrf.screen(at / "m", at / "fp", at / "h.csv", k=3, exclude_labelled=False),
    }
    with pytest.raises(StoreError, match=r"(was changed|was fitted again) during the run; run the same"):
        calls[command]()
    assert not [p for p in at.iterdir() if p.name in ("new", "b.csv", "p.html", "e.svg", "h.csv")]


def _forged(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    record = unsealed((path / ARRAYS_FILE).read_bytes())
    change(record["metadata"])
    import json

    (path / ARRAYS_FILE).write_bytes(sealed(json.dumps(record).encode()))


FORGERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "mean": lambda metadata: metadata["gp"].update(mean=[float("nan")]),
    "variance": lambda metadata: metadata["gp"].update(noise_variance=[float("inf")]),
    "kinds": lambda metadata: metadata["fingerprint"].update(kinds=[]),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_models_whose_numbers_make_no_sense_are_refused_by_name(
    name: str, made: Path, tmp_path: Path
) -> None:
    path = shutil.copytree(made / "m", tmp_path / "forged")
    _forged(path, FORGERIES[name])
    with pytest.raises(StoreError, match="forged is damaged"):
        daskrf.predict(path, ["CCO"])
    assert not daskrf.verify(path).sound
    if name != "kinds":
        with pytest.raises(StoreError, match="forged is damaged"):
            daskrf.status(path)


@pytest.mark.parametrize("name", ["rows/indices", "rows/indptr"])
def test_rows_that_are_none_are_refused_by_name(name: str, made: Path, tmp_path: Path) -> None:
    found = load_model(made / "m")
    values = found.arrays[name].copy()
    values[1] = -1 if name == "rows/indices" else values[-1]
    save_model(tmp_path / "forged", {**found.arrays, name: values}, found.metadata)
    with pytest.raises(StoreError, match="forged is damaged"):
        daskrf.predict(tmp_path / "forged", ["CCO"])
    assert not daskrf.verify(tmp_path / "forged").sound
