"""A model refuses molecules that RDKit counts otherwise than those that it was fitted to."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import daskrf
from daskrf import FingerprintSpec, add, featurize, fingerprint, fit, predict, screen, status, suggest
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.features import TanimotoMinMaxFeatures
from daskrf.models.toolkits import check_toolkit, toolkit_of
from daskrf.molecules import rdkit_version
from daskrf.molecules.counts.toolkit import Toolkit
from daskrf.storage.model import load_model, save_model
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.workers.progress import Progress

SMILES = ReactionLibrary().smiles(0, 40)
LABELS = pd.DataFrame({"smiles": SMILES, "y": [len(text) % 7 for text in SMILES]})
OLD = {"rdkit": "2020.03.1", "counts": "morgan:1=0123456789abcdef"}


class Notes(Progress):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("toolkit")
    fingerprint(pd.DataFrame({"smiles": SMILES}), path / "fp", spec=FingerprintSpec("morgan:1"))
    labels = LABELS.assign(row=range(len(SMILES)))
    fit(path / "fp", labels, path / "model", key="row", target="y", direction="maximize", quick=True)
    for name, state in (("other", OLD), ("old", None)):
        shutil.copytree(path / "model", path / name)
        found = load_model(path / name)
        metadata = {key: value for key, value in found.metadata.items() if key != "toolkit"}
        save_model(path / name, found.arrays, metadata | ({"toolkit": state} if state else {}))
    return path


def test_models_and_stores_say_what_counted_them(made: Path, tmp_path: Path) -> None:
    spec = FingerprintSpec("morgan:1")
    here = Toolkit.here(spec)
    assert here.rdkit == rdkit_version()
    assert toolkit_of(FingerprintStore.open(made / "fp")) == here
    assert Toolkit.from_state(load_model(made / "model", ()).metadata["toolkit"]) == here
    featurize(made / "fp", TanimotoMinMaxFeatures(64), tmp_path / "phi")
    fit(tmp_path / "phi", LABELS.assign(row=range(40)), tmp_path / "m", key="row", target="y")
    assert Toolkit.from_state(load_model(tmp_path / "m", ()).metadata["toolkit"]) == here
    assert f"counted by RDKit {rdkit_version()}" in str(status(made / "model"))
    assert "counted by RDKit of an unknown version" in str(status(made / "old"))


def test_digests_tell_kinds_and_options_apart() -> None:
    kinds = ["morgan:1", "morgan:2", "morgan:2:features", "atompair:4", "torsion", "lingo", "descriptors"]
    specs = [FingerprintSpec(kind) for kind in kinds]
    specs += [FingerprintSpec("morgan:1", size=512), FingerprintSpec("morgan:1", chirality=True)]
    digests = [next(iter(Toolkit.here(spec).counts.values())) for spec in specs]
    assert len({*digests}) == len(digests)
    whole = Toolkit.here(FingerprintSpec(kinds))
    assert whole.counts == dict(zip(kinds, digests, strict=False))
    assert whole.differing(Toolkit("x", {**whole.counts, "torsion": "0"})) == ["torsion"]
    assert whole.differing(Toolkit()) is None
    assert Toolkit.from_state("nonsense") == Toolkit()


COMMANDS: dict[str, Any] = {
    "predict": lambda model, out: predict(model, ["CCO"]),
    "screen": lambda model, out: screen(model, pd.DataFrame({"smiles": SMILES}), out / "h.csv", k=3),
    "suggest": lambda model, out: suggest(model, pd.DataFrame({"smiles": ["CCCO"]}), out / "b.csv", n=1),
    "add": lambda model, out: add(model, pd.DataFrame({"smiles": ["CCCO"], "y": [3.0]}), output=out / "new"),
    "explain": lambda model, out: daskrf.explain(model, "CCO"),
    "load": lambda model, out: daskrf.load(model).predict(["CCO"]),
    "store": lambda model, out: predict(model, model.parent / "fp", out / "p"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_other_counts_are_refused(made: Path, tmp_path: Path, command: str) -> None:
    with pytest.raises(
        InputError, match=r"by RDKit 2020\.03\.1, and .* counts morgan:1 differently.*rdkit==2020\.3\.1"
    ):
        COMMANDS[command](made / "other", tmp_path)
    COMMANDS[command](made / "model", tmp_path)


def test_of_old_models_it_is_said_that_it_is_not_known(made: Path, tmp_path: Path) -> None:
    notes = Notes()
    predict(made / "old", ["CCO"], progress=notes)
    assert any("before models recorded how RDKit counts" in text for text in notes.said)
    notes = Notes()
    predict(made / "model", ["CCO"], progress=notes)
    assert not any("RDKit" in text for text in notes.said)


@pytest.mark.parametrize(("kinds", "version", "told"), [
    ("morgan:1", "same", False), ("morgan:1", "other", True), (("morgan:1", "torsion"), "same", True),
])  # fmt: skip
def test_of_old_stores_it_is_said_where_counts_may_have_changed(kinds: Any, version: str, told: bool) -> None:
    """Torsions were counted in another way by this RDKit, too."""
    spec = FingerprintSpec(kinds)
    metadata = {"fingerprint": spec.state(), "toolkit": Toolkit.here(spec).state()}
    model: Any = SimpleNamespace(metadata=metadata)
    rdkit = rdkit_version() if version == "same" else "2020.03.1"
    store: Any = SimpleNamespace(provenance={"rdkit": rdkit}, spec={}, path="fp")
    notes: list[str] = []
    check_toolkit(model, store, notes.append)
    assert any("fp do not say how RDKit" in text for text in notes) is told
    assert len(notes) == told
