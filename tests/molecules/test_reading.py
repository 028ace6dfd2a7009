"""Molecules that the engine reads have RDKit's counts, and what it does not read is RDKit's to judge.

``DASKRF_FUZZ=20000`` tries as many mutants in place of a few hundred.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem, rdBase

import daskrf.engine.cpu.counting as counting_module
import daskrf.engine.cpu.smiles as smiles_module
import daskrf.molecules.counts.agreement as agreement_module
import daskrf.molecules.counts.fingerprints as fingerprints_module
import daskrf.molecules.counts.reading as reading_module
import daskrf.molecules.counts.ringsystems as ringsystems_module
from daskrf.engine import Molecules, engine
from daskrf.engine.cpu.jit import jit_disabled
from daskrf.errors import InputError
from daskrf.molecules import FingerprintBlock, Fingerprinter, FingerprintSpec
from daskrf.molecules.counts.agreement import agrees, built_in
from daskrf.molecules.counts.reading import is_read, read
from daskrf.molecules.counts.ringsystems import RingSystems, asker, parts_of, smiles_of
from daskrf.molecules.counts.spec import Fragments
from tests.molecules.invented import ring_system, sentence
from tests.molecules.mutants import garbage, mutant

N = int(os.environ.get("DASKRF_FUZZ", "600"))
REPOSITORY = Path(__file__).resolve().parents[2]
SPECS = [
    FingerprintSpec(),
    FingerprintSpec("morgan", radius=0),
    FingerprintSpec("morgan", radius=1),
    FingerprintSpec("morgan:3", size=100),
    FingerprintSpec("morgan:3:features", counts=False),
    FingerprintSpec("atompair"),
    FingerprintSpec(["morgan:1", "torsion"]),
    FingerprintSpec("torsion", size=64, counts=False),
    FingerprintSpec(["atompair:7", "morgan:2:features"], size=37, counts=False),
]
ALL = FingerprintSpec(["morgan:2", "morgan:2:features", "atompair:4", "torsion"])
ENVIRONMENTS_AND_PAIRS = FingerprintSpec(
    ["morgan:3", "morgan:3:features", "atompair:9"]
)  # of small rings, too
FORMS: dict[str, Callable[[Chem.Mol], str]] = {
    "another order": lambda molecule: Chem.MolToRandomSmilesVect(molecule, 1, randomSeed=5)[0],
    "Kekule form": lambda molecule: Chem.MolToSmiles(kekulized(molecule), kekuleSmiles=True),
    "bonds written": lambda molecule: Chem.MolToSmiles(molecule, allBondsExplicit=True),
    "hydrogens written": lambda molecule: Chem.MolToSmiles(molecule, allHsExplicit=True),
    "no stereochemistry": lambda molecule: Chem.MolToSmiles(molecule, isomericSmiles=False),
}
LEFT = """
    C[13CH3] [2H]OC [H][H] [CH3:1]C *C C* [Na+].[Cl-] [Fe] C$C C~C N->[Cu] [C@TH1](F)(Cl)(Br)I
    C%(100)CC%(100) CN(=O)=O C[N](C)(C)C FP(F)(F)(F)(F)F O=Cl(=O)(=O)O CI(Cl)Cl C1CC C1CC2 C( C) C(C)) C()C
    C((C))C (C)C C..C .C C. C11 C12CC12 C=1CC#1 =CC CC= C==C c1cccc1 cC C:C c1ccccc1(C)(C) CC(C)(C)(C)C
    C(.C)C C1.C1 [CH5] [C++++] [C+5] C%1CC%1 %11 C(C)1CC1 [nH3] [] [C [C@ [se] n1cccc1 O=[PH](C)C
    c1ccc2ccccc2c1=O C%01CC%01 C1CC%01 C%00CC0 n1/oN1 n1/nN1 Cé x
"""
READ = """
    C CC C=C C#N OCC CCN=O [CH4] [CH2] C[CH]C [OH-] [NH4+] C[N+](C)(C)C [O-]C=O [N-]=[N+]=NC C1CC1
    C%11CC%11 c1ccccc1 c1ccc2ccccc2c1 C1=CC=CC=C1 c1cc[nH]c1 c1ccncc1 O=c1cc[nH]cc1 c1cc[n+](C)cc1
    [O-][n+]1ccccc1 c1ccoc1 c1ccsc1 c1cc[se]c1 CS(=O)(=O)N CP(=O)(O)O C[C@H](N)C(=O)O C[C@@H](F)Cl
    F/C=C/F F\\C=C/F C12CC1C2 C1CC12CC2 O=C1NS(=O)(=O)c2ccccc12 c1ccc(-c2ccccc2)cc1 c1ccc(cc1)c1ccccc1
    c1ccc2c(c1)Cc1ccccc1-2 OB(O)c1ccccc1 C[Si](C)C CCO.CCN C(C)(C)(C)C BrI Cl ClBr N#Cc1ccccc1
    c1/c/c/c/c/c1 O=C1C=CC(=O)C=C1 c1cc2ccc3cccc4ccc(c1)c2c34 N1NN1
    O=c1/c(=C/c2ccco2)sc2nc3ccccc3n12 Cc1cs/c(=N\\C)n1C
"""


def kekulized(molecule: Chem.Mol) -> Chem.Mol:
    copy = Chem.Mol(molecule)
    Chem.Kekulize(copy, clearAromaticFlags=True)
    return copy


@pytest.fixture
def read_by(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FingerprintBlock]:
    """Return a function that counts with the engine, or by RDKit alone."""

    def count(
        texts: list[str], spec: FingerprintSpec, fragments: Fragments = "keep", *, rdkit: bool = False
    ) -> FingerprintBlock:
        monkeypatch.setattr(fingerprints_module, "is_due", lambda n_seen: not rdkit)
        return Fingerprinter(spec, fragments)(texts)

    return count


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    with rdBase.BlockLogs():
        yield


def assert_same(one: FingerprintBlock, other: FingerprintBlock) -> None:
    X, Y = one.fingerprints, other.fingerprints
    assert one.kept.tolist() == other.kept.tolist()
    assert one.rejects == other.rejects
    assert (one.saturated, one.empty, X.shape) == (other.saturated, other.empty, Y.shape)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(X, name), getattr(Y, name))
        assert getattr(X, name).dtype == getattr(Y, name).dtype


def written_as(texts: list[str], form: str) -> list[str]:
    molecules = [molecule for text in texts if (molecule := Chem.MolFromSmiles(text)) is not None]
    return [FORMS[form](molecule) for molecule in molecules]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.name} {spec.size}")
def test_counts_are_rdkit_s(spec: FingerprintSpec, read_by: Callable[..., FingerprintBlock]) -> None:
    texts = [*built_in(), *LEFT.split(), *READ.split()]
    assert_same(read_by(texts, spec), read_by(texts, spec, rdkit=True))


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_a_molecule_have_rdkit_s_counts(form: str, read_by: Callable[..., FingerprintBlock]) -> None:
    texts = written_as(built_in(), form)
    assert_same(read_by(texts, ALL), read_by(texts, ALL, rdkit=True))
    positions, _ = read(texts, FingerprintSpec(), dots=True)
    assert len(positions) > 0.6 * len(texts)


@pytest.mark.parametrize("name", ["enamine", "guacamol", "muv"])
@pytest.mark.parametrize("form", ["as it is", *FORMS])
def test_libraries_have_rdkit_s_counts(
    name: str, form: str, data_dir: Path, read_by: Callable[..., FingerprintBlock]
) -> None:
    texts = random.Random(form).sample(library(name, data_dir), 1500)
    texts = texts if form == "as it is" else written_as(texts, form)
    assert_same(read_by(texts, ALL), read_by(texts, ALL, rdkit=True))
    positions, _ = read(texts, FingerprintSpec(), dots=True)
    assert len(positions) >= 0.99 * len(texts)


def library(name: str, folder: Path) -> list[str]:
    import gzip

    if name == "guacamol":
        return (folder / "guacamol_10k.smiles").read_text().split()
    file = {"enamine": "Enamine50k_scores.csv.gz", "muv": "muv_smiles.csv.gz"}[name]
    lines = gzip.decompress((folder / file).read_bytes()).decode().split("\n")[1:]
    return [line.split(",")[0].strip() for line in lines if line.strip()]


@pytest.mark.parametrize("text", LEFT.split())
def test_what_is_in_doubt_is_left_to_rdkit(text: str) -> None:
    positions, _ = read([text], FingerprintSpec("morgan"), dots=True)
    assert positions.size == 0


@pytest.mark.parametrize("text", READ.split())
def test_what_is_known_is_read(text: str) -> None:
    assert read([text], FingerprintSpec("morgan"), dots=True)[0].tolist() == [0]


def test_torsions_around_rings_of_three_are_read(read_by: Callable[..., FingerprintBlock]) -> None:
    texts = ["C1CC1", "OCC1CO1", "C1OC1CO", "C12CC1C2", "C1CC12CC2", "N1=NC1C", "C1C2OC21", "FC1(F)C2NC21"]
    positions, _ = read(texts, FingerprintSpec("torsion"), dots=True)
    assert positions.tolist() == [*range(len(texts))]
    for size in (0, 64):
        spec = FingerprintSpec("torsion", size=size)
        assert_same(read_by(texts, spec), read_by(texts, spec, rdkit=True))


def test_what_is_too_large_is_left_to_rdkit() -> None:
    ladder = "C1CC1".join("" for _ in range(16)) + "C"
    for text, n_read in [("C" * 192, 1), ("C" * 193, 0), (ladder[: 5 * 14], 1), (ladder, 0)]:
        assert read([text], FingerprintSpec("morgan"), dots=True)[0].size == n_read, text
    assert read(["", " ", "C\nC", "CC"], FingerprintSpec("morgan"), dots=True)[0].size == 0


@pytest.mark.parametrize("fragments", ["keep", "largest", "reject"])
def test_fragments_are_rdkit_s(fragments: Fragments, read_by: Callable[..., FingerprintBlock]) -> None:
    texts = ["CCO.Cl", "CCO", "C1CC1CC", "c1ccccc1.c1ccccc1C", "[Na+].[O-]C=O", "C.C", "CC.", ""]
    spec = FingerprintSpec()
    assert_same(read_by(texts, spec, fragments), read_by(texts, spec, fragments, rdkit=True))


def test_mutants_and_garbage_are_rdkit_s(data_dir: Path, read_by: Callable[..., FingerprintBlock]) -> None:
    texts = mutants(data_dir)
    for spec in (
        FingerprintSpec("morgan:2"),
        FingerprintSpec(["morgan:1:features", "atompair:4", "torsion"]),
    ):
        assert_same(read_by(texts, spec), read_by(texts, spec, rdkit=True))
    positions, _ = read(texts, FingerprintSpec("morgan:2"), dots=True)
    assert 0.05 * len(texts) < len(positions) < 0.95 * len(texts)


@pytest.mark.parametrize("invent", [sentence, ring_system])
def test_invented_molecules_are_rdkit_s(
    invent: Callable[[random.Random], str], read_by: Callable[..., FingerprintBlock]
) -> None:
    draw = random.Random(4)
    texts = [invent(draw) for _ in range(2 * N)]
    for spec in (ENVIRONMENTS_AND_PAIRS, FingerprintSpec("torsion")):
        assert_same(read_by(texts, spec), read_by(texts, spec, rdkit=True))
    positions, _ = read(texts, FingerprintSpec(), dots=True)
    assert len(positions) > 0.05 * len(texts)


def mutants(folder: Path) -> list[str]:
    draw = random.Random(0)
    real = library("guacamol", folder)
    lines = [mutant(draw, real) for _ in range(N)]
    return [*lines, *(garbage(draw).decode(errors="surrogateescape") for _ in range(N // 3))]


def test_no_line_reads_or_writes_outside(data_dir: Path, tmp_path: Path) -> None:
    """numba checks every index, and the table is empty, full, and full of what leaves systems to RDKit."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.molecules.boundaries", str(data_dir), str(50 * N)],
        cwd=REPOSITORY,
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("read "), done.stdout


def cycle(size: int) -> list[int]:
    """Return the bonds of a ring, in lower case."""
    return [number for i in range(size) for number in (i, (i + 1) % size, 12)]


SYSTEMS = {
    "benzene": (bytes([6, *[13, 0, 0, 0] * 6, *cycle(6)]), 6),
    "pyrrole": (
        bytes([5, *[13, 0, 0, 0] * 4, 15, 177, 0, 0, *cycle(5)]),
        5,
    ),
    "cyclobutadiene": (bytes([4, *[12, 0, 0, 0] * 4, 0, 1, 2, 1, 2, 1, 2, 3, 2, 0, 3, 1]), 0),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_rdkit_says_what_is_aromatic(name: str) -> None:
    key, n_aromatic = SYSTEMS[name]
    value = asker()(key.hex())
    n_atoms, bonds = len(parts_of(key)[0]), parts_of(key)[1]
    assert value[0] == 0
    assert sum(byte >> 7 for byte in value[1 : 1 + n_atoms]) == n_aromatic
    assert len(value) == 1 + n_atoms + len(bonds)


def test_a_system_that_rdkit_changes_is_left_to_it() -> None:
    odd = bytes([5, *[13, 0, 0, 0] * 5, *cycle(5)])
    assert asker()(odd.hex()) == b"\1"
    assert smiles_of(odd).count("c") == 5
    positions, _ = read(["c1cccc1", "c1ccccc1"], FingerprintSpec("morgan"), dots=True)
    assert positions.tolist() == [1]


def test_what_a_ring_system_becomes_depends_on_it_alone(data_dir: Path) -> None:
    """Substituents, fused rings, charges and radicals around a system change nothing of it."""
    draw = random.Random(2)
    around = [
        "C",
        "N",
        "O",
        "F",
        "C(=O)O",
        "[N+](C)(C)C",
        "[O-]",
        "S(=O)(=O)C",
        "[CH2]",
        "C#N",
        "c1ccccc1",
        "C1CC1",
    ]
    texts = []
    for text in draw.sample(library("muv", data_dir), 400):
        for _ in range(3):
            places = [
                k for k, letter in enumerate(text, 1) if letter == "c" and text[k : k + 1] in ("c", ")")
            ]
            if places:
                at = draw.choice(places)
                texts.append(f"{text[:at]}({draw.choice(around)}){text[at:]}")
    spec = FingerprintSpec("morgan:2")
    positions, kinds = read(texts, spec, dots=True)
    counted = Fingerprinter(spec)
    expected = counted._ask([texts[at] for at in positions.tolist()], positions)
    assert expected[0].tolist() == positions.tolist()
    assert len(positions) > 0.8 * len(texts)
    for one, other in zip(kinds[0], expected[1][0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_atoms_of_any_bonds_have_rdkit_s_counts() -> None:
    """Elements, charges and hydrogens with up to four substituents, hypervalent ones, too."""
    draw = random.Random(3)
    centres = (
        "S P N C O B [Se] [Si] Cl Br I [S+] [P+] [N+] [N-] [O+] [C-] [S-] [B-] [SH] [PH] [NH+] [CH2] [C] [S]"
    )
    around = (
        "C N O =O =N =C =S c1ccccc1 C=O C=C C#N F [O-] [N+](C)(C)C #N S =NC =CC=C c1ccncc1 =P N=O =[N+](C)C"
    )
    texts = []
    for _ in range(6 * N):
        *branches, last = draw.choices(around.split(), k=draw.randint(1, 4))
        texts.append(draw.choice(centres.split()) + "".join(f"({branch})" for branch in branches) + last)
    texts.append("Cc1cccc(S(=O)([C@@H]=O)NNC(=O)c2cc3cc(Cl)ccc3[nH]2)c1")
    for spec in (
        FingerprintSpec("morgan:2"),
        FingerprintSpec(["morgan:0:features", "atompair:4", "torsion"]),
    ):
        positions, kinds = read(texts, spec, dots=True)
        assert len(positions) > 0.2 * len(texts)
        taken = [texts[at] for at in positions.tolist()]
        accepted, expected, _ = Fingerprinter(spec)._ask(taken, positions)
        assert accepted.tolist() == positions.tolist()
        for kind, other in zip(kinds, expected, strict=True):
            for one, two in zip(kind, other, strict=True):
                np.testing.assert_array_equal(one, two)


def test_the_table_begins_anew_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ringsystems_module, "_MOST", 2)
    systems = RingSystems()
    keys = [key for key, _ in SYSTEMS.values()]
    systems.learn(keys[:2])
    assert len(systems) == 2
    systems.learn(keys[2:])
    assert len(systems) == 1


@pytest.mark.parametrize("most", [30, 50_000])
def test_threads_share_a_table(
    most: int, monkeypatch: pytest.MonkeyPatch, read_by: Callable[..., FingerprintBlock]
) -> None:
    """The table is new, and, if it holds few systems, full again and again."""
    texts = built_in()
    expected = read_by(texts, FingerprintSpec("morgan"), rdkit=True)
    blocks: list[FingerprintBlock] = []
    read_by(["C"], FingerprintSpec("morgan"))
    systems = RingSystems()
    monkeypatch.setattr(reading_module, "_systems", lambda: systems)
    monkeypatch.setattr(ringsystems_module, "_MOST", most)
    threads = [
        threading.Thread(target=lambda: blocks.append(Fingerprinter(FingerprintSpec("morgan"))(texts)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(blocks) == 4
    for block in blocks:
        assert_same(block, expected)
    assert len(systems) > 0


@pytest.mark.parametrize("part", [1, 2])
def test_another_rdkit_reads_by_itself(
    part: int, monkeypatch: pytest.MonkeyPatch, read_by: Callable[..., FingerprintBlock]
) -> None:
    """One identifier, or one count, that differs in one molecule is enough."""
    spec = FingerprintSpec("morgan:2", size=2048 + part)
    real = agreement_module.read

    def other(*arguments: object, **options: bool) -> object:
        positions, kinds = real(*arguments, **options)  # type: ignore[arg-type]
        kinds[0][part][-1] += 1
        return positions, kinds

    monkeypatch.setattr(agreement_module, "read", other)
    agrees.cache_clear()
    assert not agrees(spec)
    assert_same(read_by(["CCO", "C"], spec), read_by(["CCO", "C"], spec, rdkit=True))
    agrees.cache_clear()
    monkeypatch.setattr(agreement_module, "read", real)
    assert agrees(spec)


@pytest.mark.parametrize(("compiled", "read"), [(False, [1, 2]), (True, [5, 1, 2])])
def test_the_engine_reads_when_a_process_has_counted_many(
    compiled: bool, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def counting(texts: list[str], *_: object, **__: object) -> object:
        calls.append(len(texts))
        return np.zeros(0, np.int64), [(np.zeros(1, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.int64))]

    monkeypatch.setattr(fingerprints_module, "read", counting)
    monkeypatch.setattr(fingerprints_module, "LEAST_READ", 10)
    monkeypatch.setattr(fingerprints_module, "LEAST_COMPILED", 6)
    monkeypatch.setattr(fingerprints_module, "starts_soon", lambda: compiled)
    monkeypatch.setattr(fingerprints_module._seen(), "number", 0)
    fingerprinter = Fingerprinter(FingerprintSpec("morgan"))
    for n in (4, 5, 1, 2):
        fingerprinter(["CCO"] * n)
    assert calls == read
    fingerprints_module._seen().number = 0
    fingerprinter.expect(fingerprints_module.MANY_COMPILED)
    fingerprinter(["CCO"])
    assert calls == [*read, 1][: len(read) + compiled]


@pytest.mark.skipif(jit_disabled(), reason="nothing is compiled")
def test_a_function_that_was_compiled_starts_soon(tmp_path: Path) -> None:
    """In a process of its own, whose cache is empty, then not."""
    (tmp_path / "module.py").write_text(
        "from daskrf.engine.cpu.jit import jit, was_compiled\n\n\n"
        "@jit\ndef other(x):\n    return x\n\n\n@jit\ndef twice(x):\n    return 2 * x\n\n\n"
        "print(was_compiled(twice), other(1) == 1, was_compiled(twice), twice(2) == 4, was_compiled(twice))\n"
    )
    lines = []
    for _ in range(2):
        command = [sys.executable, "module.py"]
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        lines.append(subprocess.check_output(command, cwd=tmp_path, env=environment, text=True).split())
    assert lines == [["False", "True", "False", "True", "True"], ["True"] * 5]


def test_molecules_larger_than_the_buffers_are_refused() -> None:
    def chain(n: int) -> Molecules:
        atoms = np.zeros((n, 6), np.int8)
        atoms[:, 0] = 6
        return Molecules(atoms, np.zeros((0, 3), np.int16), np.zeros(n, np.int64), np.array([0, n]))

    star = chain(12)
    star.atoms[0, 5] = 9
    assert len(engine().pair_counts(chain(smiles_module.MOST_ATOMS), 4, size=0).columns) == 0
    for molecules, radius in (
        (chain(smiles_module.MOST_ATOMS + 1), 1),
        (star, 1),
        (chain(2), 4),
        (chain(2), -1),
    ):
        with pytest.raises(InputError, match="Molecules may have 192 atoms"):
            engine().environment_counts(molecules, radius, classes=False, size=0)
    names = ("MOST_ATOMS", "MOST_BONDS")
    assert [getattr(counting_module, name) for name in names] == [
        getattr(smiles_module, name) for name in names
    ]


def test_kinds_that_the_engine_counts() -> None:
    assert all(is_read(spec) for spec in SPECS)
    for spec in ("rdkit", "lingo", "descriptors", "morgan:4", ["morgan", "lingo"]):
        assert not is_read(FingerprintSpec(spec))
    assert not is_read(FingerprintSpec("morgan", chirality=True))
