"""Labels that are joined by structure: SMILES written differently, and salts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rdkit import Chem

from daskrf import TanimotoMinMaxFeatures, evaluate, fingerprint, fit
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.measurements import keys_of, label_words, read_labels
from daskrf.storage.labels import JoinedLabels, join_labels
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.workers.progress import Progress

N = 150
GIVEN: dict[str, Any] = {
    "feature_map": TanimotoMinMaxFeatures(64),
    "mean": 0.0,
    "signal_variance": 1.0,
    "noise_variance": 0.1,
}


class Heard(Progress):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


def joined(folder: Path, library: list[str], labels: list[str], key: str) -> JoinedLabels:
    (folder / "lib.smi").write_text("".join(f"{smiles} m{k}\n" for k, smiles in enumerate(library)))
    fingerprint(folder / "lib.smi", folder / "store", rows_per_partition=40)
    rows = "".join(f"{smiles},{k}\n" for k, smiles in enumerate(labels))
    (folder / "labels.csv").write_text(f"smiles,y\n{rows}")
    found = read_labels(folder / "labels.csv", key=key)
    return join_labels(found, FingerprintStore.open(folder / "store"))


@pytest.mark.parametrize("key", ["structure", "parent", "inchikey"])
def test_any_way_of_writing_meets_its_row(key: str, tmp_path: Path) -> None:
    library = list(ReactionLibrary().smiles(0, N))
    order = np.random.default_rng(0).permutation(N)
    molecules = [Chem.MolFromSmiles(library[k]) for k in order]
    labels = [Chem.MolToSmiles(m, doRandom=True, kekuleSmiles=bool(k % 2)) for k, m in enumerate(molecules)]
    labels = [Chem.MolToSmiles(Chem.MolFromSmiles(s), doRandom=True) for s in labels]
    assert len(set(labels) & set(library)) < N // 4
    found = joined(tmp_path, library, labels, key)
    assert (found.matched, found.unmatched) == (N, 0)
    first = {Chem.CanonSmiles(smiles): k for k, smiles in reversed(list(enumerate(library)))}
    expected = {(first[Chem.CanonSmiles(library[k])], float(at)) for at, k in enumerate(order)}
    assert set(zip(found.row.tolist(), found.y.ravel().tolist(), strict=True)) == expected


LIBRARY = ["CN", "CC(=O)O", "c1ccccc1O", "OCC.Cl", "C[C@H](F)Cl", "C[N+](C)(C)C", "OC1=CC=CC=C1", "C1CC"]
LABELS = [
    "C[NH3+].[Cl-]",
    "CC(=O)[O-].[Na+]",
    "OC1=CC=CC=C1",
    "CCO",
    "C[C@@H](F)Cl",
    "C[N+](C)(C)C.[Br-]",
    "C1CC",
]


@pytest.mark.parametrize(
    ("key", "rows"),
    [("structure", [(2, 2.0)]), ("parent", [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0), (5, 5.0)])],
)
def test_salts_are_stripped_if_asked(key: str, rows: list[tuple[int, float]], tmp_path: Path) -> None:
    found = joined(tmp_path, LIBRARY, LABELS, key)
    assert list(zip(found.row.tolist(), found.y.ravel().tolist(), strict=True)) == rows
    assert (found.unmatched, found.library_duplicates) == (len(LABELS) - len(rows), 1)


TAUTOMERS = ["Cc1c[nH]cn1", "CC(=O)O", "C[C@H](N)O", "CCO"]


def test_inchikeys_are_given_or_made(tmp_path: Path) -> None:
    """Tautomers have one InChIKey; labels may have keys, SMILES or both, and what has neither is counted."""
    labels = ["Cc1cnc[nH]1", "C[C@@H](N)O", Chem.MolToInchiKey(Chem.MolFromSmiles("OCC")), "?"]
    found = joined(tmp_path, TAUTOMERS, labels, "inchikey")
    assert list(zip(found.row.tolist(), found.y.ravel().tolist(), strict=True)) == [(0, 0.0), (3, 2.0)]
    assert (found.unmatched, found.unmatched_keys[1]) == (2, "?")
    assert "InChIKeys of the SMILES in 'smiles'" in label_words(tmp_path / "labels.csv", key="inchikey")
    keys = [Chem.MolToInchiKey(Chem.MolFromSmiles(text)) for text in TAUTOMERS[:2]]
    (tmp_path / "keys.csv").write_text(f"smiles,InChIKey,y\nC,{keys[0]},5\nC,{keys[1]},6\n")
    given = read_labels(tmp_path / "keys.csv", key="inchikey")
    again = join_labels(given, FingerprintStore.open(tmp_path / "store"))
    assert list(zip(again.row.tolist(), again.y.ravel().tolist(), strict=True)) == [(0, 5.0), (1, 6.0)]
    assert "; InChIKeys in 'InChIKey'" in label_words(tmp_path / "keys.csv", key="inchikey")


@pytest.mark.parametrize(
    ("header", "ids", "keys", "said"),
    [
        ("smiles,y", False, ["structure"], "SMILES, joined by structure, in 'smiles'"),
        ("molecule,y", False, ["structure"], "SMILES, joined by structure, in 'molecule'"),
        ("smiles,name,y", True, ["id", "structure"], "None of these IDs is in the library"),
        ("mol,code,y", True, ["id", "structure"], "None of these IDs is in the library"),
    ],
)
def test_the_key_is_found(header: str, ids: bool, keys: list[str], said: str, tmp_path: Path) -> None:
    """Labels without IDs, or none of whose IDs is in the library, are joined by structure, which is said."""
    library = list(ReactionLibrary().smiles(0, 40))
    labels = [Chem.MolToSmiles(Chem.MolFromSmiles(smiles), doRandom=True) for smiles in library]
    rows = "".join(f"{s},{f'X-{k},' if ids else ''}{k}\n" for k, s in enumerate(labels))
    (tmp_path / "other.csv").write_text(f"{header}\n{rows}")
    assert [key for key, _ in keys_of(tmp_path / "other.csv")] == keys
    (tmp_path / "lib.smi").write_text("".join(f"{smiles} m{k}\n" for k, smiles in enumerate(library)))
    fingerprint(tmp_path / "lib.smi", tmp_path / "store")
    progress = Heard()
    report = fit(tmp_path / "store", tmp_path / "other.csv", tmp_path / "model", progress=progress, **GIVEN)
    assert report.labels.row.tolist() == list(range(40))
    assert report.labels.y.ravel().tolist() == list(range(40))
    assert any(said in note for note in progress.notes)
    assert "joined by structure" in report.inputs[0]


def library_of(folder: Path, smiles: list[str]) -> Path:
    (folder / "lib.smi").write_text("".join(f"{text} m{k}\n" for k, text in enumerate(smiles)))
    fingerprint(folder / "lib.smi", folder / "store")
    return folder / "store"


def labelled(folder: Path, smiles: list[str], ids: list[int]) -> Path:
    rows = "".join(f"{text},m{k},{at}\n" for at, (text, k) in enumerate(zip(smiles, ids, strict=True)))
    (folder / "labels.csv").write_text(f"smiles,id,y\n{rows}")
    return folder / "labels.csv"


def test_ids_that_match_go_before_structures(tmp_path: Path) -> None:
    library = list(ReactionLibrary().smiles(0, 30))
    store = library_of(tmp_path, library)
    written = [Chem.MolToSmiles(Chem.MolFromSmiles(smiles), doRandom=True) for smiles in library[::-1]]
    labels = labelled(tmp_path, written, list(range(29, -1, -1)))
    report = fit(store, labels, tmp_path / "model", **GIVEN)
    assert report.labels.y.ravel().tolist() == list(range(29, -1, -1))
    assert "IDs mean the same molecules" not in str(report)
    (tmp_path / "none.csv").write_text("code,y\nX1,1\nX2,2\n")
    with pytest.raises(InputError, match=r"none of the 2 labels .* there is no id 'X1'"):
        fit(store, tmp_path / "none.csv", tmp_path / "other", **GIVEN)


@pytest.mark.parametrize("how", ["reversed", "shifted", "half shifted", "another library"])
@pytest.mark.parametrize("command", [fit, evaluate])
def test_ids_of_other_molecules_are_refused(command: Any, how: str, tmp_path: Path) -> None:
    """All of them are looked at, each beside the molecule of its row."""
    library = [f"{'C' * (k + 1)}O" for k in range(40)]
    numbers = list(range(40))
    smiles, ids, n = {
        "reversed": (library, numbers[::-1], 40),
        "shifted": (library, [*numbers[1:], 0], 40),
        "half shifted": (library, [*numbers[:20], *numbers[21:], 20], 20),
        "another library": (list(ReactionLibrary().smiles(1000, 1040)), numbers, 40),
    }[how]
    store, labels = library_of(tmp_path, library), labelled(tmp_path, smiles, ids)
    at = 40 - n
    said = (
        rf"{n} of 40 labels that are joined by ID have the SMILES of another molecule than the library "
        rf"has by that ID, such as 'm{ids[at]}': {re.escape(smiles[at])} in the labels, {library[ids[at]]} "
        r"in the library\. Join by structure with --key structure .*, or, if the IDs are right, say so with "
        r"--key id"
    )
    given = {**GIVEN, "output": tmp_path / "model"} if command is fit else {}
    with pytest.raises(InputError, match=said):
        command(store, labels, **given)
    if command is fit:
        report = fit(store, labels, tmp_path / "sure", key="id", **GIVEN)
        assert f"{n} of 40 labels that are joined by ID have the SMILES of another" in str(report)


def test_few_ids_of_other_molecules_are_said(tmp_path: Path) -> None:
    library = [f"{'C' * (k + 1)}O" for k in range(60)]
    labels = labelled(tmp_path, library, [1, 0, *range(2, 60)])
    report = fit(library_of(tmp_path, library), labels, tmp_path / "model", **GIVEN)
    assert (
        "2 of 60 labels that are joined by ID have the SMILES of another molecule than the library has by "
        "that ID, such as 'm1': CO in the labels, CCO in the library; check that the IDs mean"
    ) in str(report)
    labels = labelled(tmp_path, library, [1, 2, 0, 4, *range(4, 60)])
    with pytest.raises(InputError, match="4 of 60 labels that are joined by ID"):
        fit(tmp_path / "store", labels, tmp_path / "other", **GIVEN)


def test_salts_tautomers_and_stereoisomers_are_no_other_molecules(tmp_path: Path) -> None:
    store = library_of(tmp_path, ["Oc1ccccn1", "CC(N)C(=O)O", "CN", "C[C@H](F)Cl", "CCO", "CCCO"])
    smiles = ["O=c1cccc[nH]1", "C[C@H](N)C(=O)[O-].[Na+]", "C[NH3+].[Cl-]", "C[C@@H](F)Cl", "?", ""]
    report = fit(store, labelled(tmp_path, smiles, list(range(6))), tmp_path / "model", **GIVEN)
    assert (report.labels.matched, "SMILES of another" in str(report)) == (6, False)


def test_measurements_of_one_structure_are_repeats(tmp_path: Path) -> None:
    found = joined(tmp_path, ["CCO", "CN"], ["OCC", "C(C)O", "NC"], "structure")
    assert (found.row.tolist(), found.repeats) == ([0, 0, 1], 1)


def test_the_command_says_how_labels_are_joined(tmp_path: Path) -> None:
    library = list(ReactionLibrary().smiles(0, 60))
    labels = [Chem.MolToSmiles(Chem.MolFromSmiles(smiles), doRandom=True) for smiles in library]
    joined(tmp_path, library, labels, "structure")
    report = fit(tmp_path / "store", tmp_path / "labels.csv", tmp_path / "model", key="structure")
    assert (report.labels.matched, report.labels.unmatched) == (60, 0)
    assert "SMILES, joined by structure, in 'smiles'" in report.inputs[0]
    salts = "".join(f"{smiles}.Cl,{k}\n" for k, smiles in enumerate(labels))
    (tmp_path / "salts.csv").write_text(f"smiles,y\n{salts}")
    with pytest.raises(InputError, match=r"none of the 60 labels .* no structure"):
        fit(tmp_path / "store", tmp_path / "salts.csv", tmp_path / "other", key="structure")
    alone = fit(tmp_path / "salts.csv", output=tmp_path / "alone", key="parent")
    assert (alone.labels.matched, alone.labels.unmatched) == (60, 0)
    words = label_words(tmp_path / "salts.csv", key="parent")
    assert "SMILES, joined by structure without salts and charges, in 'smiles'" in words


NO_STEREO = ["CC(N)C(=O)O", "CC=CC(=O)NCC", "OC1CCCC1N", "c1ccccc1C=NO"]
PLAIN = ["CCO", "CCCN", "c1ccccc1O", "CCCCC(=O)O"]
STEREO = ["C[C@H](N)C(=O)O", "C/C=C/C(=O)NCC", "O[C@H]1CCC[C@@H]1N", "c1ccccc1/C=N/O"]


@pytest.mark.parametrize(("library", "labels"), [(NO_STEREO, STEREO), (STEREO, NO_STEREO)])
@pytest.mark.parametrize("key", ["smiles", "structure", None])
def test_what_would_join_without_stereochemistry_is_said(
    key: Any, library: list[str], labels: list[str], tmp_path: Path
) -> None:
    (tmp_path / "lib.smi").write_text("".join(f"{text} m{k}\n" for k, text in enumerate(library)))
    fingerprint(tmp_path / "lib.smi", tmp_path / "store")
    blocks = [Chem.MolToMolBlock(Chem.MolFromSmiles(text)) for text in labels]
    records = [f"{block}>  <y>\n{k}\n\n$$$$\n" for k, block in enumerate(blocks)]
    other = f"{Chem.MolToMolBlock(Chem.MolFromSmiles('CCSCC'))}>  <y>\n9\n\n$$$$\n"
    if labels is STEREO:  # without coordinates; else stereochemistry is in wedges, which the blocks lack
        records = [f"{text},{k}\n" for k, text in enumerate(labels)]
        (tmp_path / "labels.csv").write_text("".join(["smiles,y\n", *records, "CCSCC,9\n"]))
    else:
        (tmp_path / "labels.csv").write_text("".join([*records, other]))
    said = r"none of the 5 labels .* 4 of the 5 would match without stereochemistry: .* --key skeleton"
    with pytest.raises(InputError, match=said):
        fit(tmp_path / "store", tmp_path / "labels.csv", tmp_path / "model", key=key, **GIVEN)
    if key is None:  # the same name is free
        report = fit(tmp_path / "store", tmp_path / "labels.csv", tmp_path / "model", key="skeleton", **GIVEN)
        assert (report.labels.matched, report.labels.unmatched) == (4, 1)


def test_labels_that_would_join_without_stereochemistry_are_said_though_others_join(tmp_path: Path) -> None:
    """Most files have some molecules without stereochemistry: these join, and the rest would be lost."""
    library = [f"{text} m{k}\n" for k, text in enumerate([*NO_STEREO, *PLAIN])]
    (tmp_path / "lib.smi").write_text("".join(library))
    fingerprint(tmp_path / "lib.smi", tmp_path / "store")
    rows = [f"{text},{k}\n" for k, text in enumerate([*STEREO, *PLAIN, "CCSCC"])]
    (tmp_path / "labels.csv").write_text("".join(["smiles,y\n", *rows]))
    report = fit(tmp_path / "store", tmp_path / "labels.csv", tmp_path / "model", **GIVEN)
    assert report.labels.unmatched == 5
    said = "4 of the 5 would match without stereochemistry: join by that with --key skeleton (key='skeleton')"
    assert said in str(report)


def test_nothing_is_said_of_labels_that_are_other_molecules(tmp_path: Path) -> None:
    labels = joined(tmp_path, [*NO_STEREO, *PLAIN], [*PLAIN, "CCSCC"], "structure")
    assert (labels.unmatched, labels.elsewhere) == (1, "")


def test_no_other_level_is_named_where_none_joins(tmp_path: Path) -> None:
    said = r"there is no structure 'CCC' in it; choose the key and its column, or another library$"
    with pytest.raises(InputError, match=said):
        joined(tmp_path, NO_STEREO, ["CCC", "CCCC"], "structure")


def test_labels_that_do_not_join_are_named_before_their_values(tmp_path: Path) -> None:
    keys = [Chem.MolToInchiKey(Chem.MolFromSmiles(text)) for text in ("CCO", "CCN", "CCC", "CCS", "CCF")]
    (tmp_path / "lib.smi").write_text("CCO m0\nCCCCCCCO m1\n")
    fingerprint(tmp_path / "lib.smi", tmp_path / "store")
    rows = "".join(f"{key},{k}\n" for k, key in enumerate(keys))
    (tmp_path / "labels.csv").write_text(f"inchikey,y\n{rows}")
    with pytest.raises(InputError, match=rf"^4 of the 5 labels are not in the library \(such as {keys[1]}"):
        fit(tmp_path / "store", tmp_path / "labels.csv", tmp_path / "model", key="inchikey")
