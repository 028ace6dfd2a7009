"""Labels that bring their own molecules: a model without a library."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem

from daskrf import FingerprintSpec, add, explain, fingerprint, fit, load, predict, screen, status
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.features import TanimotoMinMaxFeatures
from daskrf.gp.processes.exact import ExactGP
from daskrf.jobs.shards import run_shard
from daskrf.storage.inspection import verify
from daskrf.storage.model import load_model
from tests.jobs.job import model_arrays

N = 60
SMILES = list(ReactionLibrary().smiles(0, N))
VALUES = np.random.default_rng(0).standard_normal(N).round(3)


def put(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    rows = [f"M{k},{s},{v}" for k, (s, v) in enumerate(zip(SMILES, VALUES, strict=True))]
    return put(tmp_path / "labels.csv", ["name,Structure,pIC50", *rows])


def test_the_model_is_that_of_a_library_of_the_labelled(labels: Path, tmp_path: Path) -> None:
    report = fit(labels, output=tmp_path / "alone")
    assert report.process == "exact"
    assert (report.labels.matched, report.labels.unmatched) == (N, 0)
    assert "SMILES in 'Structure', target 'pIC50'" in report.inputs[0]
    fingerprint(put(tmp_path / "lib.smi", SMILES), tmp_path / "store")
    fit(tmp_path / "store", labels, tmp_path / "joined", key="smiles")
    alone, joined = (model_arrays(tmp_path / name) for name in ("alone", "joined"))
    assert alone.keys() == joined.keys()
    for name, values in alone.items():
        np.testing.assert_array_equal(values, joined[name], err_msg=name)
    assert not verify(tmp_path / "alone").damaged
    assert not list(tmp_path.glob(".*.daskrf"))


def test_it_predicts_and_screens_and_is_found_again(labels: Path, tmp_path: Path) -> None:
    model, other = tmp_path / "model", put(tmp_path / "lib.smi", list(ReactionLibrary().smiles(50, 90)))
    fit(labels, output=model, direction="maximize")
    mean = load(model).predict(SMILES)
    mean = np.asarray(mean[0] if isinstance(mean, tuple) else mean).ravel()
    assert np.corrcoef(mean, VALUES)[0, 1] > 0.5
    predict(model, other, tmp_path / "predictions")
    screen(model, other, tmp_path / "hits.parquet", k=5)
    before = model_arrays(model)
    fit(labels, output=model, direction="maximize")
    for name, values in model_arrays(model).items():
        np.testing.assert_array_equal(values, before[name])
    with pytest.raises(StoreError, match="other"):
        fit(put(tmp_path / "b.csv", ["smiles,y", "CC,1", "CCO,2", "CCN,4"]), output=model)
    assert not list(tmp_path.glob(".*.daskrf"))


def test_other_fingerprints(labels: Path, tmp_path: Path) -> None:
    spec = FingerprintSpec(radius=1, size=512)
    fit(labels, output=tmp_path / "alone", spec=spec)
    fingerprint(put(tmp_path / "lib.smi", SMILES), tmp_path / "store", spec=spec)
    fit(tmp_path / "store", labels, tmp_path / "joined", key="smiles")
    assert load_model(tmp_path / "alone").metadata["fingerprint"] == spec.state()
    joined = model_arrays(tmp_path / "joined")
    for name, values in model_arrays(tmp_path / "alone").items():
        np.testing.assert_array_equal(values, joined[name], err_msg=name)
    with pytest.raises(StoreError, match=r"was made from other"):
        fit(labels, output=tmp_path / "alone", spec=FingerprintSpec(radius=2))
    with pytest.raises(OptionError, match="are already made; leave out their options"):
        fit(tmp_path / "store", labels, tmp_path / "none", spec=spec)


def test_features_and_sd_files(tmp_path: Path) -> None:
    records = []
    for k in range(N):
        block = Chem.MolToMolBlock(Chem.MolFromSmiles(SMILES[k]))
        records.append(f"{block}>  <pIC50>\n{VALUES[k]}\n\n$$$$")
    path = put(tmp_path / "labels.sdf", records)
    report = fit(path, output=tmp_path / "model", feature_map=TanimotoMinMaxFeatures(64))
    assert (report.process, report.n_components, report.labels.matched) == ("features", 64, N)


def test_molecules_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    rows = [f"{s};{str(v).replace('.', ',')}" for s, v in zip(SMILES, VALUES, strict=True)]
    path = put(tmp_path / "a.csv", ["smiles;y", *rows, "C1CC;1,5", "CCO;2", "CCO;3"])
    report = fit(path, output=tmp_path / "model")
    assert (report.labels.matched, report.labels.unmatched, report.labels.repeats) == (N + 2, 1, 1)
    assert "decimal commas; 1 of the 62 molecules cannot be used, such as 'C1CC' (RDKit" in report.inputs[0]


@pytest.mark.parametrize(
    ("lines", "options", "words"),
    [
        (["id,y", "M1,1", "M2,2"], {}, "has no SMILES in its columns id, y; name the SMILES column"),
        (["smiles,y", "M1,1", "M2,2"], {}, "has no SMILES in 'smiles', such as 'M1'; name the SMILES column"),
        (["id,smiles,y", "M1,CC,1", "M2,CO,2"], {"key_column": "id"}, "has no SMILES in 'id'"),
        (["smiles,y", "CC,1", "CO,2"], {"key": "id"}, "cannot be joined by id"),
        (["smiles,y,z", "CC,1,2", "CO,2,3"], {}, "several numeric columns"),
        (["smiles,y", "CC,1", "CO,1"], {}, "are the same"),
        (
            ["smiles,y", *["CC,1"] * 30, *[f"C{'(' * k},2" for k in range(1, 40)]],
            {},
            "39 of the 40 molecules",
        ),
    ],
)
def test_what_cannot_be_fitted_leaves_nothing(
    lines: list[str], options: dict, words: str, tmp_path: Path
) -> None:
    path = put(tmp_path / "a.csv", lines)
    with pytest.raises(InputError, match=re.escape(words)):
        fit(path, output=tmp_path / "model", **options)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.csv"]


def test_a_fit_without_a_library_has_no_shards(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", ["smiles,y", "CC,1", "CO,2"])
    with pytest.raises(InputError, match="cannot be split into shards"):
        run_shard(fit, "0/2", path, output=tmp_path / "model")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.csv"]


def test_a_store_alone_is_refused(labels: Path, tmp_path: Path) -> None:
    fingerprint(put(tmp_path / "lib.smi", SMILES), tmp_path / "store")
    with pytest.raises(InputError, match="store is a store; give a file of labels"):
        fit(tmp_path / "store", output=tmp_path / "model")
    with pytest.raises(InputError, match="Give output"):
        fit(labels)


def test_an_interrupted_fit_goes_on(labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ExactGP, "fit", lambda *arguments, **options: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fit(labels, output=tmp_path / "model")
    assert (tmp_path / ".model.daskrf" / "molecules").is_dir()
    assert fit(labels, output=tmp_path / "model").labels.matched == N
    assert not list(tmp_path.glob(".*.daskrf"))


def test_substituents_of_products_are_counted(tmp_path: Path) -> None:
    """The columns of `sample` and `suggest` say that molecules are products; a given kernel stays alone."""
    rows = [f"{s},amide,b{k},{v}" for k, (s, v) in enumerate(zip(SMILES, VALUES, strict=True))]
    labels = put(tmp_path / "labels.csv", ["smiles,reaction,block_0,score", *rows])
    report = fit(labels, output=tmp_path / "model", target="score")
    assert "columns reaction and block_0): substituents are counted, too" in str(report)
    spec = FingerprintSpec.from_state(load_model(tmp_path / "model").metadata["fingerprint"])
    assert spec.kinds[:-1] == FingerprintSpec().kinds
    assert spec.kinds[-1].name == "substituents"
    mean, std = load(tmp_path / "model").predict(["CCO", "c1ccccc1", SMILES[0]], return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert "substituents are" not in str(fit(labels, output=tmp_path / "quick", target="score", quick=True))
    given = fit(labels, output=tmp_path / "given", target="score", spec=FingerprintSpec("morgan:1"))
    assert "substituents are" not in str(given)


@pytest.mark.parametrize(
    ("blocks", "counted"),
    [
        ("{j}", "block_0 (4 blocks)"),
        ("", None),
        ("same", "block_0 (1 block)"),
        ("{i}{j}", None),
        ("wrong {k}", None),
        ("{some}", "block_0 (4 blocks)"),
    ],
    ids=["right", "empty", "one", "each its own", "wrong", "some empty"],
)
def test_positions_need_blocks_that_are_there_and_differ(
    blocks: str, counted: str | None, tmp_path: Path
) -> None:
    """Rows without a block are of no block, and what all products share is none of several."""
    amines = ["NCc1ccccc1", "N1CCOCC1", "NC1CCCCC1", "Nc1ccncc1"]
    acids = [f"CC(=O)NCC(=O)NC(C{'C' * n})C(=O)" for n in range(15)]
    rows = []
    for i, acid in enumerate(acids):
        for j, amine in enumerate(amines):
            some = "" if i == j else j
            block = blocks.format(i=i, j=j, k=(i + j * j) % 4, some=some)
            rows.append(f"{acid}{amine},amide,{block},{i * 0.1 + j}")
    labels = put(tmp_path / "labels.csv", ["smiles,reaction,block_0,score", *rows])
    report = str(fit(labels, output=tmp_path / "model", target="score"))
    assert ("distances from the bond" in report) == (counted is not None)
    assert counted is None or counted in report


def test_positions_of_products_are_counted_from_their_blocks(tmp_path: Path) -> None:
    """From the bond to a block of the slot that has few, which the SMILES of later molecules show."""
    amines = ["NCc1ccccc1", "N1CCOCC1", "NC1CCCCC1", "Nc1ccncc1"]
    near = {"C": 0, "CC": 4, "OC": -3, "F": 2, "C#N": -5}
    far = {"C": 3, "CC": -5, "OC": 4, "F": -4, "C#N": 2}
    rows = [
        f"O=C(C({a})C{b}){amine},amide,{a}{b},b{j},{near[a] + far[b] + j}"
        for a in near
        for b in far
        for j, amine in enumerate(amines)
    ]
    labels = put(tmp_path / "labels.csv", ["smiles,reaction,block_0,block_1,score", *rows])
    report = fit(labels, output=tmp_path / "model", target="score")
    assert "distances from the bond to the block of block_1 (4 blocks), too" in str(report)
    spec = FingerprintSpec.from_state(load_model(tmp_path / "model").metadata["fingerprint"])
    assert [kind.name for kind in spec.kinds[-2:]] == ["substituents", "positions"]
    assert len(spec.kinds[-1].blocks) == len(amines)
    assert "on positions" in str(status(tmp_path / "model"))
    new, other = "O=C(C(O)CBr)N1CCOCC1", "CCCCCCO"
    mean, std = load(tmp_path / "model").predict([new, other], return_std=True)
    assert np.isfinite(mean).all()
    assert 0 < std[0] < std[1]
    more = put(tmp_path / "more.csv", ["smiles,score", f"{new},-20.5"])
    add(tmp_path / "model", more, output=tmp_path / "next")
    assert "nearest" in str(explain(tmp_path / "next", new))
