"""Fingerprints against RDKit's dicts, one molecule at a time."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator

from daskrf.errors import InputError
from daskrf.molecules import FingerprintBlock, Fingerprinter, FingerprintSpec
from daskrf.molecules.counts.counter import explain, packed, sentence
from daskrf.molecules.counts.lingo import sum_equal
from tests.naive import fingerprints as naive

SPECS = [
    FingerprintSpec(),
    FingerprintSpec("morgan"),
    FingerprintSpec(radius=0, counts=False),
    FingerprintSpec(radius=3, size=1000),
    FingerprintSpec(chirality=True, features=True),
    FingerprintSpec("atompair"),
    FingerprintSpec("atompair", size=1),
    FingerprintSpec("atompair:4"),
    FingerprintSpec("atompair", chirality=True, counts=False),
    FingerprintSpec("torsion"),
    FingerprintSpec("torsion", chirality=True, size=37),
    FingerprintSpec("rdkit"),
    FingerprintSpec("rdkit", size=2048, counts=False),
    FingerprintSpec("lingo"),
    FingerprintSpec("lingo", chirality=True, size=50),
    FingerprintSpec(["morgan:1", "torsion"]),
    FingerprintSpec(["torsion", "lingo", "morgan:2:features", "atompair"], chirality=True, counts=False),
    FingerprintSpec(["morgan:2", "atompair:3"], size=100),
    FingerprintSpec(["rdkit", "lingo", "morgan"], radius=0, size=100),
]
MOLECULES = [
    "CCO",
    "C",
    "c1ccccc1C(=O)O",
    "C[C@H](F)Cl",
    "C[C@@H](F)Cl",
    "[Na+].[Cl-]",
    "[H][H]",
    "*",
    "C1.C1CC",
]
MOLECULES += [
    "O=C(Nc1ccccc1)[C@@H]1CCCN1",
    "CC(=O)[O-].[Na+]",
    "C" * 60,
    "[2H]C([2H])([2H])O",
    "F/C=C/F",
    "F/C=C\\F",
]
BROKEN = ["", "CX", "C1CC", "CC)", "C(C)(C)(C)(C)C", "c1cccc1", "näh", "C\0C", "C\nC(", "[Foo]", "%99", "CCé"]


def as_dicts(block: FingerprintBlock) -> list[dict[int, int]]:
    """Return the rows as dicts, after checks that the matrix is canonical."""
    matrix = block.fingerprints
    assert matrix.dtype == np.uint16
    assert matrix.indices.dtype == matrix.indptr.dtype
    assert matrix.indptr[-1] == len(matrix.data) == len(matrix.indices)
    rows = []
    for start, stop in zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True):
        columns = matrix.indices[start:stop].tolist()
        assert columns == sorted(set(columns))
        assert not columns or 0 <= columns[0] <= columns[-1] < matrix.shape[1]
        counts = matrix.data[start:stop].tolist()
        assert all(counts)
        rows.append(dict(zip(columns, counts, strict=True)))
    return rows


def check(smiles: list[str], spec: FingerprintSpec) -> None:
    block = Fingerprinter(spec)(smiles)
    expected = [naive.fingerprint(text, spec) for text in smiles]
    assert block.kept.tolist() == [k for k, row in enumerate(expected) if row is not None]
    assert [position for position, _ in block.rejects] == [k for k, row in enumerate(expected) if row is None]
    accepted = [row for row in expected if row is not None]
    assert as_dicts(block) == accepted
    assert block.empty == sum(not row for row in accepted)
    assert block.fingerprints.shape == (len(accepted), spec.n_columns)
    assert all(0 < len(reason) < 250 and "\n" not in reason for _, reason in block.rejects)


@pytest.mark.parametrize("spec", SPECS)
def test_every_kind_is_what_rdkit_counts(spec: FingerprintSpec) -> None:
    check(MOLECULES + BROKEN, spec)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.sampled_from(SPECS),
    st.lists(st.one_of(st.sampled_from(MOLECULES + BROKEN), st.text("CNcn1()=#[]+.", max_size=8))),
)
def test_any_mixture_of_good_and_bad(spec: FingerprintSpec, smiles: list[str]) -> None:
    check(smiles, spec)


@pytest.mark.parametrize(
    "spec",
    [
        FingerprintSpec(),
        FingerprintSpec("torsion"),
        FingerprintSpec("atompair", size=512),
        FingerprintSpec(["morgan", "torsion"]),
    ],
)
def test_real_molecules(spec: FingerprintSpec, data_dir: Path) -> None:
    lines = (data_dir / "guacamol_10k.smiles").read_text().split()
    check(lines[::40], spec)


def test_molecule_order_and_grouping_do_not_matter() -> None:
    together = as_dicts(Fingerprinter()(MOLECULES))
    assert together == [as_dicts(Fingerprinter()([text]))[0] for text in MOLECULES]


def test_stereoisomers_differ_only_with_chirality() -> None:
    pair = ["C[C@H](F)Cl", "C[C@@H](F)Cl"]
    assert len({str(row) for row in as_dicts(Fingerprinter(FingerprintSpec())(pair))}) == 1
    assert len({str(row) for row in as_dicts(Fingerprinter(FingerprintSpec(chirality=True))(pair))}) == 2


def test_counts_that_do_not_fit_saturate_and_are_counted() -> None:
    tree = "C"
    for _ in range(8):
        tree = f"C({tree}){tree}"  # 511 atoms, and 130,305 atom pairs in one column
    block = Fingerprinter(FingerprintSpec("atompair", size=1))(["CCO", tree])
    assert block.fingerprints.data.tolist() == [3, 65_535]
    assert block.saturated == 1
    binary = Fingerprinter(FingerprintSpec("atompair", size=1, counts=False))(["CCO", tree])
    assert (binary.fingerprints.data.tolist(), binary.saturated) == ([1, 1], 0)


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 70_000)), max_size=8), max_size=6))
def test_features_that_meet_in_a_column_add_up(rows: list[list[tuple[int, int]]]) -> None:
    """As hashed identifiers of torsions and folded LINGOs may."""
    indptr = np.cumsum([0, *map(len, rows)])
    entries = np.array([entry for row in rows for entry in row], dtype=np.int64).reshape(-1, 2)
    starts, columns, counts = sum_equal(indptr, entries[:, 0].astype(np.uint64), entries[:, 1])
    for k, row in enumerate(rows):
        expected: dict[int, int] = {}
        for column, count in row:
            expected[column] = expected.get(column, 0) + count
        span = slice(starts[k], starts[k + 1])
        assert list(zip(columns[span].tolist(), counts[span].tolist(), strict=True)) == sorted(
            expected.items()
        )


def test_rows_without_feature_are_kept_and_counted() -> None:
    block = Fingerprinter(FingerprintSpec("torsion"))(["CCO", "CCCCO"])
    assert (block.empty, block.kept.tolist(), np.diff(block.fingerprints.indptr).tolist()) == (
        1,
        [0, 1],
        [0, 2],
    )


def test_nothing_in_nothing_out() -> None:
    block = Fingerprinter()([])
    assert block.fingerprints.shape == (0, 3 * 2**32)
    assert (len(block.kept), block.rejects, block.empty) == (0, [], 0)
    assert Fingerprinter()(["CX"]).fingerprints.shape == (0, 3 * 2**32)


@pytest.mark.parametrize(
    "smiles", ["CC(=O)[O-].[Na+]", "[Na+].CC(=O)[O-]", "CC.CCO.C.OCC", "[H][H].C", "C1.C1.N"]
)
def test_fragments(smiles: str) -> None:
    keep, largest, reject = (
        Fingerprinter(fragments=rule)([smiles]) for rule in ("keep", "largest", "reject")
    )
    assert as_dicts(keep) == [naive.fingerprint(smiles, FingerprintSpec())]
    biggest = "CC" if smiles.startswith("C1.") else naive.largest_fragment(smiles)
    assert as_dicts(largest) == [naive.fingerprint(biggest, FingerprintSpec())]
    count = len(Chem.GetMolFrags(Chem.MolFromSmiles(smiles)))
    assert reject.rejects == [(0, f"{count} fragments")]


def test_a_ring_bond_over_a_dot_is_one_fragment() -> None:
    assert not Fingerprinter(fragments="reject")(["C1.C1"]).rejects


def test_too_large_molecules_are_rejected() -> None:
    block = Fingerprinter()(["C" * 1000, "C" * 1001, "[H]" + "C([H])" * 600 + "[H]"])
    assert block.rejects == [(1, "1,001 heavy atoms are more than 1,000")]


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("C(C)(C)(C)(C)C", "Explicit valence for atom # 0 C, 5, is greater than permitted"),
        ("c1cccc1", "Can't kekulize mol. Unkekulized atoms: 0 1 2 3 4"),
        ("C1CC", "unclosed ring"),
        ("CC)", "extra close parentheses at position 3"),
        ("CCX", "syntax error at position 3"),
    ],
)
def test_reasons_are_those_of_rdkit(smiles: str, reason: str) -> None:
    assert Fingerprinter()([smiles]).rejects == [(0, f"RDKit cannot parse: {reason}")]


def test_an_older_rdkit_gives_a_shorter_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(rdBase, "CaptureErrorLog", raising=False)
    assert explain("CCX") == "RDKit cannot parse: syntax error"


@pytest.mark.parametrize("enabled", [True, False])
def test_rdkit_is_silent_and_the_setting_of_the_user_is_back(
    enabled: bool, capfd: pytest.CaptureFixture
) -> None:
    (rdBase.EnableLog if enabled else rdBase.DisableLog)("rdApp.error")
    try:
        before = rdBase.LogStatus()
        Fingerprinter()(BROKEN)
        for text in BROKEN:
            explain(text)
        assert rdBase.LogStatus() == before
        assert capfd.readouterr() == ("", "")
        Chem.MolFromSmiles("CX")
        assert ("syntax error" in capfd.readouterr().err) is enabled
    finally:
        rdBase.EnableLog("rdApp.error")


def test_threads_that_fingerprint_at_once_reject_the_same() -> None:
    blocks: list[FingerprintBlock] = []
    work = threading.Thread(target=lambda: blocks.append(Fingerprinter()(BROKEN * 200)))
    work.start()
    while work.is_alive():
        Fingerprinter()(["CX"])
    work.join()
    assert blocks[0].rejects == Fingerprinter()(BROKEN * 200).rejects


class OtherVector:
    """A count vector as another version of RDKit might write it."""

    def __init__(self, vector: Any) -> None:
        self.GetNonzeroElements = vector.GetNonzeroElements
        self.ToBinary = lambda: b"\x02" + vector.ToBinary()[1:-1]


@pytest.mark.parametrize("size", [0, 512])
def test_vectors_of_another_version_are_read_through_dicts(size: int) -> None:
    generator = rdFingerprintGenerator.GetAtomPairGenerator(fpSize=size or 2048)
    count = generator.GetCountFingerprint if size else generator.GetSparseCountFingerprint
    vector = count(Chem.MolFromSmiles("CCOCCN"))
    width = FingerprintSpec(size=size).width
    assert packed(OtherVector(vector), width) == packed(vector, width) != b""


def test_fingerprinter_is_pickled_before_and_after_use() -> None:
    function = Fingerprinter(FingerprintSpec("torsion"), fragments="largest")
    expected = as_dicts(function(MOLECULES))
    copy = pickle.loads(pickle.dumps(function))
    assert (copy.spec, copy.fragments) == (function.spec, "largest")
    assert as_dicts(copy(MOLECULES)) == expected


@pytest.mark.parametrize("spec", SPECS)
def test_specification_goes_through_its_state(spec: FingerprintSpec) -> None:
    assert FingerprintSpec.from_state(spec.state()) == spec


@pytest.mark.parametrize(
    "state",
    [
        {"kind": "maccs"},
        {"radius": -1},
        {"radius": True},
        {"size": 2**31},
        {"size": 10.5},
        {"kind": "torsion", "radius": 2},
        {"kind": "atompair", "features": True},
        {"kind": "atompair:4", "features": True},
        {"kind": "atompair:4", "radius": 2},
        {"kind": "atompair:0"},
        {"kind": "atompair:31"},
        {"kind": "atompair:2:3"},
        {"kind": ["atompair:4", "atompair:04"]},
        {"kind": "rdkit", "chirality": True},
        {"bits": 3},
        {"kind": 3},
        {"kind": []},
        {"kind": ["morgan", "morgan:1"]},
        {"kind": ["torsion", "atompair"], "radius": 2},
        {"kind": ["torsion", "rdkit"], "features": True},
        {"kind": ["morgan", "rdkit"], "chirality": True},
        {"kind": "torsion:2"},
        {"kind": "torsion:features"},
        {"kind": "morgan:11"},
        {"kind": "morgan:-1"},
        {"kind": "morgan:2:more"},
        {"kind": "morgan:2", "radius": 3},
        {"kinds": [{"kind": "morgan"}, {"kind": "torsion", "size": 4}]},
        {"kinds": [{"kind": "morgan", "columns": [0, 4]}, {"kind": "torsion", "columns": [4, 8]}]},
    ],
)
def test_specifications_that_cannot_be(state: dict) -> None:
    with pytest.raises(InputError):
        FingerprintSpec.from_state(state)
    with pytest.raises(InputError):
        Fingerprinter(fragments="all")


def test_default_kinds_are_counted_unless_something_is_said_of_one() -> None:
    assert FingerprintSpec() == FingerprintSpec(["morgan:2", "morgan:2:features", "atompair:4"])
    assert FingerprintSpec(size=64).columns == {
        "morgan:2": (0, 64),
        "morgan:2:features": (64, 128),
        "atompair:4": (128, 192),
    }
    assert FingerprintSpec("morgan") == FingerprintSpec(radius=1) == FingerprintSpec("morgan:1")
    assert FingerprintSpec(features=True) == FingerprintSpec("morgan:1:features")
    assert FingerprintSpec(radius=2) == FingerprintSpec("morgan:2")
    for kinds in ("morgan:2", ["morgan:2", "morgan:2:features"], ["morgan:2", "torsion"]):
        with pytest.raises(InputError, match="radius"):
            FingerprintSpec(kinds, radius=1)


@pytest.mark.parametrize("farthest", [1, 3, 30])
def test_atom_pairs_up_to_a_distance(farthest: int) -> None:
    smiles = [text for text in MOLECULES if Chem.MolFromSmiles(text)]
    rows = Fingerprinter(FingerprintSpec(f"atompair:{farthest}"))(smiles).fingerprints
    all_rows = Fingerprinter(FingerprintSpec("atompair"))(smiles).fingerprints
    for text, row, every in zip(smiles, rows, all_rows, strict=True):
        distances = Chem.GetDistanceMatrix(Chem.MolFromSmiles(text))
        near = np.triu((distances >= 1) & (distances <= farthest))
        assert row.sum() == near.sum()
        counts = dict(zip(every.indices, every.data, strict=True))
        assert all(counts[c] == v for c, v in zip(row.indices, row.data, strict=True))
    assert (rows != all_rows).nnz == 0 or farthest < 30


def test_kinds_are_named_with_what_is_their_own() -> None:
    assert FingerprintSpec("morgan:2:features") == FingerprintSpec(radius=2, features=True)
    assert FingerprintSpec(["morgan:1"]).state() == FingerprintSpec("morgan").state()
    several = FingerprintSpec(("torsion", "morgan", "morgan:3:features"), radius=3, size=10)
    assert several.columns == {"torsion": (0, 10), "morgan:3": (10, 20), "morgan:3:features": (20, 30)}
    assert several.kinds == (
        FingerprintSpec("torsion", size=10),
        FingerprintSpec(radius=3, size=10),
        FingerprintSpec(radius=3, size=10, features=True),
    )
    assert several.nonzeros == 30
    assert several.name == "torsion + morgan:3 + morgan:3:features"


def test_a_molecule_that_one_kind_cannot_count_is_rejected() -> None:
    peptide = "[2H]" + "C([2H])([2H])" * 700 + "[2H]"
    assert not Fingerprinter(FingerprintSpec("morgan"))([peptide]).rejects
    several = Fingerprinter(FingerprintSpec(["morgan", "atompair"]))([peptide, "CCO"])
    assert several.rejects[0][0] == 0
    assert "too many for atom pairs" in several.rejects[0][1]
    assert several.kept.tolist() == [1]


def test_errors_are_told_by_their_first_line() -> None:
    assert sentence(RuntimeError("first\n second")) == "first"
    assert sentence(RuntimeError("Invariant Violation\n what is wrong")) == "what is wrong"
    assert sentence(RuntimeError("Violation")) == "Violation"
    assert sentence(RuntimeError()) == "RuntimeError"


def test_wide_stands_for_kinds_by_name() -> None:
    """So stores and models hold these names, and nothing else that a reader would have to know."""
    names = ["morgan:3", "morgan:3:features", "atompair", "rdkit", "descriptors"]
    assert FingerprintSpec("wide") == FingerprintSpec(names)
    assert FingerprintSpec("wide").state() == FingerprintSpec(names).state()
    assert [*FingerprintSpec(["wide", "torsion"]).columns] == [*names[:4], "torsion", "descriptors"]
    with pytest.raises(InputError, match="kinds must differ"):
        FingerprintSpec(["wide", "rdkit"])
    with pytest.raises(InputError, match="lingo, substituents, descriptors, wide"):
        FingerprintSpec("wider")
