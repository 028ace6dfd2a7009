"""No line stops a job: it is kept, or rejected with file, line, text and reason; no other line is touched."""

from __future__ import annotations

import itertools
import os
import random
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client

from daskrf import FingerprintSpec, TanimotoMinMaxFeatures, fingerprint, fit, plan, predict, screen
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.molecules import isolation
from daskrf.molecules.counts.spec import FRAGMENTS, KINDS
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from tests.jobs.job import data_digests
from tests.molecules.graphs import bipartite, paraphenylene, smiles_of
from tests.molecules.mutants import garbage, mutant

N = int(os.environ.get("DASKRF_FUZZ", "200"))
LINES = {
    b"[#119]": "RDKit cannot parse: Atomic number not found",
    b"[CH128]": "RDKit cannot parse: atom # 0 C has more than 127 bonds",
    b"[NaH200]": "RDKit cannot parse: atom # 0 Na has more than 127 bonds",
    b"[U]" + b"(C)" * 129: "RDKit cannot parse: atom # 0 U has more than 127 bonds",
    b"C=C" * 3_300: "6,600 heavy atoms are more than 1,000",
    paraphenylene(18).encode(): "more than 50,000 smallest rings, since its rings close to rings",
    smiles_of(bipartite(20), "[U]").encode(): "361 ring closures among 40 atoms are more than a molecule has",
    b"CC\x01": r"'\x01' at position 3 cannot be part of a SMILES",
    "CC\u202e".encode(): r"'\u202e' at position 3 cannot be part of a SMILES",
    b"CC\0": "NUL byte in the line",
    b"CC\xff": "not UTF-8 text",
    b"CC\xed\xa0\x80": "not UTF-8 text",
    b"C" * 10_001: "longer than 10,000 bytes",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of bad lines among good ones, the good ones alone, labels for them and a model."""
    folder = tmp_path_factory.mktemp("lines")
    good = [f"{text} m{k}".encode() for k, text in enumerate(ReactionLibrary().smiles(0, 100))]
    mixed = list(good)
    for place, line in enumerate(LINES):
        mixed.insert(5 * place, line)
    for name, lines in (("good", good), ("mixed", mixed)):
        (folder / f"{name}.smi").write_bytes(b"\n".join(lines) + b"\n")
    values = np.random.default_rng(0).standard_normal(100)
    (folder / "labels.csv").write_text("id,y\n" + "".join(f"m{k},{y}\n" for k, y in enumerate(values)))
    fingerprint(folder / "good.smi", folder / "good", rows_per_partition=30)
    features = TanimotoMinMaxFeatures(64)
    fit(folder / "good", folder / "labels.csv", folder / "model", feature_map=features)
    return folder


def limit(seconds: str) -> None:
    """Limit the time of a molecule, on a worker."""
    os.environ["DASKRF_MOLECULE_SECONDS"] = seconds


def rejects_of(store: FingerprintStore) -> pa.Table:
    return pa.concat_tables([store.read_rejects(p) for p in range(store.n_partitions)])


def kept_of(path: Path) -> list[tuple[str, bytes]]:
    """Return ID and features of each molecule of a store."""
    store, kept = FingerprintStore.open(path), []
    for p in range(store.n_partitions):
        rows, matrix = store.read_rows(p, ["id"])["id"].to_pylist(), store.read_fingerprints(p)
        for name, row in zip(rows, matrix, strict=True):
            kept.append((name, row.indices.tobytes() + row.data.tobytes()))
    return kept


def test_bad_lines_are_rejected_and_good_ones_are_the_same(
    files: Path, client: Client, tmp_path: Path
) -> None:
    path = files / "mixed.smi"
    for name, workers in (("fp", None), ("there", client)):
        report = fingerprint(path, tmp_path / name, rows_per_partition=30, client=workers)
        assert (report.rows, report.kept, report.rejected) == (100 + len(LINES), 100, len(LINES))
    for part in ("data", "_rejects"):
        assert data_digests(tmp_path / "fp" / part) == data_digests(tmp_path / "there" / part) != {}
    assert kept_of(tmp_path / "fp") == kept_of(files / "good")
    rejects = rejects_of(FingerprintStore.open(tmp_path / "fp")).to_pylist()
    assert [reject["reason"] for reject in rejects] == list(LINES.values())
    assert [reject["line"] for reject in rejects] == [5 * place + 1 for place in range(len(LINES))]
    assert {reject["source"] for reject in rejects} == {str(path)}
    texts = [line.decode(errors="replace")[:500] for line in LINES]
    assert [reject["text"] for reject in rejects] == texts


def test_predict_screen_and_plan_take_the_same_lines(files: Path, tmp_path: Path) -> None:
    counts = (100, len(LINES))
    hits = screen(files / "model", files / "mixed.smi", tmp_path / "hits.parquet", k=10, maximize=True)
    assert (hits.rows, hits.rejected) == counts
    alone = screen(files / "model", files / "good.smi", tmp_path / "alone.parquet", k=10, maximize=True)
    for column in ("id", "mean", "std"):
        assert hits.table[column].to_pylist() == alone.table[column].to_pylist()
    rejects = pq.read_table(hits.rejects).to_pylist()
    assert [reject["reason"] for reject in rejects] == list(LINES.values())
    predicted = predict(files / "model", files / "mixed.smi", tmp_path / "predicted")
    assert (predicted.rows, predicted.rejected) == counts
    assert PredictionStore.open(tmp_path / "predicted").counts()["read"] == sum(counts)
    planned = plan(files / "mixed.smi", labels=10, feature_map=TanimotoMinMaxFeatures(64))
    assert planned.rejected == len(LINES)


def test_a_molecule_that_takes_too_long_is_rejected(
    files: Path, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others take a thousandth of the limit, and this one ten times as much."""
    path = tmp_path / "slow.smi"
    good = (files / "good.smi").read_text().splitlines()
    good.insert(50, f"{paraphenylene(15)} hoop")
    path.write_text("\n".join(good) + "\n")
    monkeypatch.setenv("DASKRF_MOLECULE_SECONDS", "0.5")
    client.run(limit, "0.5")
    try:
        report = fingerprint(path, tmp_path / "fp", rows_per_partition=30, client=client)
    finally:
        client.run(limit, "30")
    assert (report.rows, report.kept, report.rejected) == (101, 100, 1)
    assert kept_of(tmp_path / "fp") == kept_of(files / "good")
    (reject,) = rejects_of(FingerprintStore.open(tmp_path / "fp")).to_pylist()
    assert (reject["line"], reject["text"]) == (51, paraphenylene(15))
    assert reject["reason"] == "RDKit took more than 0.5 s of processor time on this machine"
    screened = screen(files / "model", path, tmp_path / "hits.parquet", k=10, maximize=True)
    assert (screened.rows, screened.rejected) == (100, 1)


def test_helpers_that_are_killed_lose_no_molecule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "library.smi"
    path.write_text("\n".join(ReactionLibrary().smiles(0, 600)) + "\n")
    wait, requests, killed = isolation._Helper._wait, itertools.count(), []

    def struck(helper: isolation._Helper) -> bool:
        """Kill the process of each other request when it has begun a text, not while it starts."""
        if next(requests) % 2 == 0 and len(killed) < 3:
            while helper._begun() == isolation._NONE and helper._process.poll() is None:
                time.sleep(0.001)
            helper._process.kill()
            killed.append(helper._begun())
        return wait(helper)

    isolation.end_idle()
    monkeypatch.setattr(isolation._Helper, "_wait", struck)
    spec = FingerprintSpec("rdkit")
    report = fingerprint(path, tmp_path / "fp", spec=spec, rows_per_partition=400)
    assert len(killed) == 3
    assert isolation._NONE not in killed
    assert report.kept == 600
    fingerprint(path, tmp_path / "again", spec=spec, rows_per_partition=400)
    assert data_digests(tmp_path / "fp" / "data") == data_digests(tmp_path / "again" / "data")


@pytest.fixture(scope="module")
def wild(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of mutants of real SMILES, and of bytes of any kind."""
    draw = random.Random(1)
    real = (data_dir / "guacamol_10k.smiles").read_text().split()
    lines = [mutant(draw, real).encode(errors="replace").replace(b"\n", b"") for _ in range(N)]
    lines += [garbage(draw) for _ in range(N // 4)]
    path = tmp_path_factory.mktemp("wild") / "wild.smi"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.mark.parametrize(
    ("kind", "fragments"),
    [*((kind, "keep") for kind in KINDS), *(("morgan", rule) for rule in FRAGMENTS[1:])],
)
def test_any_line_is_kept_or_rejected(
    kind: str, fragments: str, wild: Path, files: Path, tmp_path: Path
) -> None:
    """``DASKRF_FUZZ=20000`` tries as many lines in place of a few hundred."""
    with pytest.raises(InputError, match=r"of the first .* lines of .* could not be read as molecules"):
        fingerprint(wild, tmp_path / "fp")
    options = {"fragments": fragments, "accept_rejects": True}
    report = fingerprint(wild, tmp_path / "fp", spec=FingerprintSpec(kind), **options)
    counts = FingerprintStore.open(tmp_path / "fp").counts()
    assert report.rows == counts["read"] == N + N // 4 == counts["kept"] + counts["rejected"]
    assert 0 < counts["kept"] < report.rows
    assert rejects_of(FingerprintStore.open(tmp_path / "fp")).num_rows == counts["rejected"]
    if (kind, fragments) == ("morgan", "keep"):
        default = fingerprint(wild, tmp_path / "default", **options)  # of the model's kinds
        hits = screen(
            files / "model", wild, tmp_path / "hits.parquet", k=5, maximize=True, accept_rejects=True
        )
        assert (hits.rows, hits.rejected) == (default.kept, default.rejected)
        predicted = predict(files / "model", wild, tmp_path / "predicted", accept_rejects=True)
        assert (predicted.rows, predicted.rejected) == (default.kept, default.rejected)
