"""Hits, batches, predictions and other molecules as a page, by the commands."""

from __future__ import annotations

import base64
import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

import daskrf
from daskrf import fingerprint, fit, page, predict, screen, status, verify
from daskrf.commands import page as page_module
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.gp.validation.intervals import interval_factor, studentized_residuals
from daskrf.gp.validation.leaveoneout import leave_one_out
from daskrf.models.intervals import residuals_of
from daskrf.models.models import read_model
from tests.jobs.job import FEATURES
from tests.report.test_webpage import Reader


@pytest.fixture(scope="module")
def made(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and hits of it."""
    out = tmp_path_factory.mktemp("page")
    fingerprint(inputs[0], out / "fp", rows_per_partition=150)
    fit(out / "fp", inputs[1], out / "model", feature_map=FEATURES, direction="minimize")
    screen(out / "model", inputs[0], out / "hits.parquet", k=30)
    return out


def data_of(path: Path) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of a page, and its text below the table."""
    text = path.read_text()
    data = json.loads(Reader(text).scripts["data"])
    names = [column["name"] for column in data["columns"]]
    return [dict(zip(names, row, strict=True)) for row in data["rows"]], text[text.index("<section") :]


def test_a_page_shows_how_good_the_model_is(made: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """Of an exact process, each label without its molecule, in a picture and in words; else where to look."""
    daskrf.fit(made / "fp", inputs[1], tmp_path / "exact", direction="minimize", quick=True)
    page(made / "hits.parquet", tmp_path / "none.html")
    hits = screen(tmp_path / "exact", inputs[0], tmp_path / "hits.html", k=5, std="none")
    daskrf.page(made / "hits.parquet", tmp_path / "features.html", model=made / "model")
    exact, features, none = ((tmp_path / f"{name}.html").read_text() for name in ("hits", "features", "none"))
    gp: Any = read_model(tmp_path / "exact").gp
    predictions = leave_one_out(gp)
    z = (predictions.y - predictions.mean) / predictions.std
    assert f"R2 {1 - np.var(predictions.y - predictions.mean) / np.var(predictions.y):.1f}" in exact
    assert f"contain {np.mean(abs(z) < 1.96):.0%} of them" in exact
    [png] = re.findall(r'<img id="picture" src="data:image/png;base64,([^"]+)" alt="Each label of', exact)
    assert base64.b64decode(png).startswith(b"\x89PNG")
    factor = interval_factor(studentized_residuals(gp), 95)
    assert (
        f"Bars are 95 % intervals of a measurement, {factor:.3g} standard deviations" not in exact
    )  # no std
    screen(tmp_path / "exact", inputs[0], tmp_path / "bars.html", k=5)
    bars = (tmp_path / "bars.html").read_text()
    assert f"Bars are 95 % intervals of a measurement, {factor:.3g} standard deviations" in bars
    assert json.loads(Reader(bars).scripts["data"])["factor"] == pytest.approx(factor)
    [residuals] = residuals_of(read_model(made / "model"))
    of_features = interval_factor(residuals, 95)
    assert json.loads(Reader(features).scripts["data"])["factor"] == pytest.approx(of_features)
    assert json.loads(Reader(none).scripts["data"])["factor"] == 1.96
    assert "daskrf evaluate" in features
    assert 'id="picture"' not in features
    assert "How good the model is" not in none
    assert hits.table.num_rows == 5


def test_a_page_shows_hits_with_the_nearest_labelled_molecules(
    made: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "known.csv").write_text("name,smiles\nlead,c1ccccc1C(=O)NC\n")
    report = page(
        made / "hits.parquet",
        tmp_path / "x.html",
        model=made / "model",
        actives=tmp_path / "known.csv",
        title="Mine",
    )
    assert (report.rows, report.bytes) == (30, (tmp_path / "x.html").stat().st_size)
    rows, text = data_of(tmp_path / "x.html")
    table = pq.read_table(made / "hits.parquet")
    for name in ("rank", "row", "id", "smiles", "mean", "std", "std_y", "acquisition"):
        assert [row[name] for row in rows] == table[name].to_pylist()
    lines = inputs[0].read_text().splitlines()
    smiles = {name: smiles for smiles, _, name in (line.partition(" ") for line in lines)}
    with inputs[1].open() as file:
        labels = {smiles[row["id"]]: f"{float(row['score']):.4g}" for row in csv.DictReader(file)}
    assert all(labels[row["nearest_labelled"]] == row["its_label"] for row in rows)
    labelled = [row for row in rows if row["smiles"] in labels]
    assert labelled
    assert all(row["similarity_to_labelled"] == 1 for row in labelled)
    assert {row["its_id"] for row in rows} == {"lead"}
    assert "rows of the input could not be used" in text
    assert "daskrf screen model library.smi -o hits.parquet -k 30 --acquisition greedy --minimize\n" in text
    assert "daskrf page hits.parquet -o x.html --model model --actives known.csv" in text
    assert status(made / "model").words[0].split(":")[0] in text
    html = (tmp_path / "x.html").read_text()
    assert "<title>Mine</title>" in html
    above = html[: html.index('id="table"')]  # what the table is of is said before it
    assert re.search(
        r"<p>Model model of &#x27;score&#x27; \(to minimize\)\. Page made on \d{4}-\d\d-\d\d", above
    )


def test_screen_writes_a_page(made: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "hits.html"
    report = screen(made / "model", inputs[0], path, k=30)
    rows, text = data_of(path)
    assert [row["mean"] for row in rows] == report.table["mean"].to_pylist()
    assert all(row["nearest_labelled"] for row in rows)
    assert "-o hits.html -k 30" in text
    before = path.read_bytes()
    assert (
        screen(made / "model", inputs[0], path, k=30).notes[-1].endswith("already holds exactly these hits")
    )
    assert path.read_bytes() == before
    assert status(path).kind == "hits"
    assert verify(path).sound
    with pytest.raises(StoreError, match="holds the hits of another search"):
        screen(made / "model", inputs[0], path, k=31)
    with pytest.raises(OptionError, match="at most 10,000 molecules"):
        screen(made / "model", inputs[0], tmp_path / "many.html", k=10_001)


def test_other_files_of_molecules_are_shown_too(
    made: Path, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits = pq.read_table(made / "hits.parquet")
    for ending in ("csv", "sdf"):
        path = tmp_path / f"h.{ending}"
        screen(made / "model", inputs[0], path, k=30)
        page(path, tmp_path / f"{ending}.html")
        assert [row["mean"] for row in data_of(tmp_path / f"{ending}.html")[0]] == hits["mean"].to_pylist()
        path.rename(tmp_path / f"moved.{ending}")  # away from its record
        page(tmp_path / f"moved.{ending}", tmp_path / f"moved-{ending}.html")
        rows, _ = data_of(tmp_path / f"moved-{ending}.html")
        assert [row["mean"] for row in rows] == hits["mean"].to_pylist()
        assert [row["id"] for row in rows] == hits["id"].to_pylist()
        assert [row["line"] for row in rows] == hits["line"].to_pylist()
    monkeypatch.setattr(page_module, "MOST", 100)
    for name in ("folder", "p.csv"):
        predict(made / "model", made / "fp", tmp_path / name)
        report = page(tmp_path / name, tmp_path / "p.html", overwrite=True)
        assert report.rows == 100
        assert "first 100" in report.notes[0]
    page(inputs[0], tmp_path / "p.html", overwrite=True)
    assert data_of(tmp_path / "p.html")[0][0]["id"] == "m0"


def test_a_changed_file_is_shown_as_it_is_and_says_so(
    made: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "h.csv"
    screen(made / "model", inputs[0], path, k=3)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    report = page(path, tmp_path / "x.html")
    assert report.rows == 1
    assert report.notes == ("h.csv was changed since it was written, and is shown as it is now",)
    assert report.notes[0] in data_of(tmp_path / "x.html")[1]


def test_what_cannot_be_shown_is_refused_and_nothing_is_replaced(
    made: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    hits = made / "hits.parquet"
    with pytest.raises(OptionError, match=r"end its name in \.html, for example .*x\.html"):
        page(hits, tmp_path / "x.pdf")
    (tmp_path / "mine.html").write_text("<html>precious")
    with pytest.raises(InputError, match="was not written by daskrf, and is never replaced"):
        page(hits, tmp_path / "mine.html")
    assert (tmp_path / "mine.html").read_text() == "<html>precious"
    fit(made / "fp", inputs[1], tmp_path / "other", feature_map=clone(FEATURES).set_params(random_state=9))
    with pytest.raises(
        InputError, match=r"The hits are from the model model with hash \w{12}, but .* is another"
    ):
        page(hits, tmp_path / "x.html", model=tmp_path / "other")
    with pytest.raises(InputError, match="does not exist"):
        page(tmp_path / "nothing.csv", tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()
    page(hits, tmp_path / "x.html")
    with pytest.raises(StoreError, match=r"exists; give another path, or replace it by --overwrite"):
        page(hits, tmp_path / "x.html", title="again")
    page(hits, tmp_path / "x.html", title="again", overwrite=True)
    assert "<title>again" in (tmp_path / "x.html").read_text()


def test_tables_in_memory_are_shown(made: Path, tmp_path: Path) -> None:
    hits = pq.read_table(made / "hits.parquet").to_pandas()
    report = page(hits[["id", "smiles", "mean"]].head(4), tmp_path / "x.html", actives=["CCO", "CCN"])
    assert report.rows == 4
    rows, _ = data_of(tmp_path / "x.html")
    assert [row["mean"] for row in rows] == hits["mean"].head(4).tolist()
    assert all(row["nearest_active"] in ("CCO", "CCN") for row in rows)
