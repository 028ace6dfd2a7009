"""Models and stores that somebody made by hand: every command ends in one sentence, or does what it says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daskrf import featurize, fingerprint, fit, predict, screen, status, verify
from daskrf.errors import DaskrfError, InputError, StoreError
from daskrf.jobs.shards import PLAN, Shard, Share, agree, run_shard
from daskrf.measurements import Reading
from daskrf.models.joinedlabels import labels_of
from daskrf.models.models import read_model
from daskrf.sources.smiles import planned_library
from daskrf.sources.sources import Block, open_source
from daskrf.storage.integrity import sealed, unsealed
from daskrf.storage.kinds import stored_library
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import ARRAYS_FILE, plan_hash
from tests.jobs.job import FEATURES

VALUES: list[Any] = [None, 10**30, "x", [], {"a": {"b": "\x1b[2J"}}]


@pytest.fixture(scope="module")
def job(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("foreign")
    lines = inputs[0].read_text().splitlines(keepends=True)[:60]
    (root / "library.smi").write_text("".join(lines))
    fingerprint(root / "library.smi", root / "fp", rows_per_partition=30)
    featurize(root / "fp", FEATURES, root / "phi")
    fit(root / "phi", inputs[1], root / "model")
    for solver in ("cholesky", "cg"):
        options: dict[str, Any] = {"solver": solver, "n_features": 256, "n_draws": 4}
        fit(root / "fp", inputs[1], root / solver, process="exact", **options)
    return root


def sentence(call: Callable[[], Any]) -> None:
    try:
        call()
    except DaskrfError as error:
        shown = str(error)
    else:
        return
    assert shown.isprintable()
    assert len(shown) < 3_000


def used(path: Path, block: Block) -> None:
    """Do what `predict` and `screen` do with a model."""
    model = read_model(path)
    model.gp.predict(block.phi, return_std=True, of="f")
    assert all(low <= high for low, high in model.metadata["range"])
    assert model.targets


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("model", ["model", "cholesky", "cg"])
def test_models_of_wrong_types(job: Path, tmp_path: Path, model: str, value: Any) -> None:
    path = shutil.copytree(job / model, tmp_path / "model") / ARRAYS_FILE
    record = unsealed(path.read_bytes())
    metadata = record["metadata"]
    exact = metadata["map"] is None
    source = open_source(stored_library(job / ("fp" if exact else "phi")), raw=exact)
    block = next(iter(source.blocks(0)))
    used(path.parent, block)
    gp = metadata["gp"]
    forged = [{**metadata, name: value} for name in metadata]
    forged += [{**metadata, "gp": {**gp, name: value}} for name in gp]
    inner = [(part, name) for part in gp if isinstance(gp[part], dict) for name in gp[part]]
    forged += [{**metadata, "gp": {**gp, part: {**gp[part], name: value}}} for part, name in inner]
    forged += [{**metadata, "map": {**metadata["map"], name: value}} for name in metadata["map"] or ()]
    forged += [{**metadata, "targets": [value]}, {**metadata, "range": [value]}]
    for changed in forged:
        path.write_bytes(sealed(json.dumps({**record, "metadata": changed}).encode()))
        sentence(lambda: used(path.parent, block))


@pytest.mark.parametrize("value", [None, "x", []], ids=repr)
@pytest.mark.parametrize("kind", ["fp", "phi"])
def test_stores_of_wrong_types(
    job: Path, inputs: tuple[Path, Path], tmp_path: Path, kind: str, value: Any
) -> None:
    path = shutil.copytree(job / kind, tmp_path / kind)
    plan = json.loads((path / "_plan.json").read_bytes())
    del plan["crc32c"]
    spec = plan["spec"]
    inner = {"fp": ("library", "fingerprint"), "phi": ("map",)}[kind]
    forged = [{**spec, name: value} for name in spec]
    forged += [{**spec, name: {**spec[name], key: value}} for name in inner for key in spec[name]]
    records = {record: record.read_bytes() for record in (path / "_commits").iterdir()}
    for changed in forged:
        forgery = {**plan, "spec": changed}
        forgery["spec_hash"] = plan_hash(forgery)
        (path / "_plan.json").write_bytes(sealed(json.dumps(forgery).encode()))
        for record, data in records.items():
            body = json.loads(data) | {"spec_hash": forgery["spec_hash"]}
            del body["crc32c"]
            record.write_bytes(sealed(json.dumps(body).encode()))
        sentence(lambda: str(verify(path)))
        sentence(lambda: list(open_source(stored_library(path), FEATURES).blocks(0)))
        if kind == "fp":
            sentence(lambda: run_shard(fingerprint, "0/2", job / "library.smi", path, rows_per_partition=30))
        else:
            sentence(lambda: open_source(stored_library(path)).feature_map)
            sentence(lambda: featurize(job / "fp", FEATURES, path))


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[" * 10**5, sealed(b'{"a":%s1%s}' % (b"[" * 10**5, b"]" * 10**5)), sealed(b"{}")]
)
def test_work_files_that_are_none(job: Path, inputs: tuple[Path, Path], tmp_path: Path, data: bytes) -> None:
    (tmp_path / "library.json").write_bytes(data)
    with pytest.raises(StoreError, match="delete the folder that it is in"):
        planned_library(tmp_path)
    (tmp_path / PLAN).write_bytes(data)
    for share in (Share(), Share(Shard(0, 2))):
        with pytest.raises(StoreError, match=r"delete that folder|with other options"):
            agree(share, tmp_path / PLAN, {"rows": 3})
    store = FingerprintStore.open(job / "fp")
    first = labels_of(inputs[1], store, tmp_path, Reading())
    first.keep()
    (first.folder / "joined.json").write_bytes(data)
    assert not labels_of(inputs[1], store, tmp_path, Reading()).there


@pytest.mark.parametrize("name", ["caf\udce9.model", "a\0b"])
def test_names_that_are_not_text_are_one_sentence(
    job: Path, inputs: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    output = f"{tmp_path}/{name}"
    for call in (
        lambda: fingerprint(job / "library.smi", output),
        lambda: fingerprint(output, tmp_path / "fp"),
        lambda: featurize(job / "fp", FEATURES, output),
        lambda: fit(job / "phi", inputs[1], output),
        lambda: predict(job / "model", job / "phi", output),
        lambda: screen(job / "model", job / "phi", f"{output}.parquet"),
        lambda: verify(output),
        lambda: status(output),
    ):
        with pytest.raises(InputError, match=r"is not UTF-8 text; give another one") as caught:
            call()
        assert str(caught.value).isprintable()
    assert list(tmp_path.iterdir()) == []
