"""Whether molecules that are read without RDKit have RDKit's counts: every set, in many forms.

Each set is drawn at random, and written in other forms: by RDKit in random orders of atoms, as Kekule forms,
with all hydrogens in brackets, and with hydrogens as atoms; by Open Babel, Indigo and CDK, which decide for
themselves what is aromatic. "mutants" are faulty or changed lines of GuacaMol and random bytes, "sentences"
random texts of the grammar of SMILES, "rings" random conjugated ring systems; these are compared as they are.

RDKit counts each text that the engine reads, too: Morgan environments by atom types and by feature classes
(those of radius 3, which hold the smaller ones), pairs of atoms up to 30 bonds apart, and torsions. The first
thousand texts of each form, and all of the last three sets, are counted as a command does, too, folded,
binary and side by side, with the engine and without: the matrix, the rejects and their reasons must be the
same ("whole"). What differs is printed, and the exit status is 1.

    python benchmarks/reading.py [--sets enamine ...] [--forms written ...] [--molecules 2000]
                                 [--toolkits PYTHON] [--cdk JAR]

``--molecules 0`` takes whole sets, and 50,000 texts of those that have no end. ``--toolkits`` is the Python
of an environment with openbabel-wheel and epam.indigo, ``--cdk`` a jar of CDK with all it needs, such as that
of CDK-pywrapper, for Java 11 or later; without them, these forms are left out.
"""

from __future__ import annotations

import csv
import gzip
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rdkit import Chem, rdBase

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import daskrf.molecules.counts.fingerprints as fingerprints
from benchmarks.common import data_folder, parser, print_header, table, write_results
from benchmarks.space import sub_space
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.engine import ASK, engine
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.counts.features import Features
from daskrf.molecules.counts.reading import read
from daskrf.spaces import cut, read_space
from tests.molecules.invented import ring_system, sentence
from tests.molecules.mutants import garbage, mutant

ENDLESS = 50_000
WHOLE = 1_000  # texts of each form that are counted as a command does
AT_ONCE = 5_000
N_ORDERS = 5
KINDS = ["morgan:3", "morgan:3:features", "atompair:30"]
FOLDED = FingerprintSpec(["morgan:2", "morgan:2:features", "atompair:4", "torsion"], size=1000, counts=False)
OPEN_BABEL = """
import sys
from openbabel import openbabel
openbabel.obErrorLog.SetOutputLevel(0)
conversion = openbabel.OBConversion()
conversion.SetInAndOutFormats("smi", "smi")
for line in sys.stdin:
    molecule = openbabel.OBMol()
    print(conversion.WriteString(molecule).split("\\t")[0] if conversion.ReadString(molecule, line) else "")
"""
INDIGO = """
import sys
from indigo import Indigo, IndigoException
indigo = Indigo()
for line in sys.stdin:
    try:
        molecule = indigo.loadMolecule(line.strip())
        molecule.aromatize()
        print(molecule.canonicalSmiles().split(" ")[0])
    except IndigoException:
        print()
"""
CDK = """
import java.io.*;
import org.openscience.cdk.aromaticity.*;
import org.openscience.cdk.exception.CDKException;
import org.openscience.cdk.graph.Cycles;
import org.openscience.cdk.silent.SilentChemObjectBuilder;
import org.openscience.cdk.smiles.*;

public class Rewrite {
    public static void main(String[] arguments) throws IOException {
        var model = new Aromaticity(ElectronDonation.daylight(), Cycles.or(Cycles.all(), Cycles.all(6)));
        var parser = new SmilesParser(SilentChemObjectBuilder.getInstance());
        var writer = new SmilesGenerator(SmiFlavor.Isomeric | SmiFlavor.UseAromaticSymbols);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            try {
                var molecule = parser.parseSmiles(line);
                model.apply(molecule);
                System.out.println(writer.create(molecule));
            } catch (CDKException error) {
                System.out.println();
            }
        }
    }
}
"""


# Sets ------------------------------------------------------------------------------------------------------


def column(name: str, number: int = 0) -> list[str]:
    """Return a column of a file of the data folder, without its header."""
    with gzip.open(data_folder() / name, "rt") as file:
        return [row[number] for row in csv.reader(file)][1:]


def guacamol() -> list[str]:
    """Return the molecules of GuacaMol."""
    return (data_folder() / "guacamol_10k.smiles").read_text().split()


def demo(n: int, seed: int) -> list[str]:
    """Return products of the demonstration library, as it writes them."""
    library, draw = ReactionLibrary(seed), random.Random(seed)
    starts = [draw.randrange(len(library) - 10) for _ in range(n // 10)]
    return [smiles for start in starts for smiles in library.smiles(start, start + 10)]


def products(n: int, seed: int) -> list[str]:
    """Return products of the make-on-demand space, of each 20th block: the same number of each reaction."""
    draw = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        space = cut(
            read_space(sub_space(Path(folder) / "space", 20, triples=False)), FingerprintSpec("morgan:0")
        )
        texts = []
        for slots in space.entries:
            synthons = [draw.choice(slot.synthon, n // len(space.entries) + 1) for slot in slots]
            texts += space.product_smiles(np.column_stack(synthons))
    return texts


def mutants(n: int, seed: int) -> list[str]:
    """Return mutants of GuacaMol, and one in twelve is random bytes."""
    draw, real = random.Random(seed), guacamol()
    lines = [mutant(draw, real) for _ in range(n - n // 12)]
    return [*lines, *(garbage(draw).decode(errors="surrogateescape") for _ in range(n // 12))]


def invented(invent: Callable[[random.Random], str]) -> Callable[[int, int], list[str]]:
    """Return a function that makes n texts."""

    def make(n: int, seed: int) -> list[str]:
        draw = random.Random(seed)
        return [invent(draw) for _ in range(n)]

    return make


FILES: dict[str, Callable[[], list[str]]] = {
    "enamine": lambda: column("Enamine50k_library.csv.gz"),
    "scores": lambda: column("Enamine50k_scores.csv.gz"),
    "guacamol": guacamol,
    "muv": lambda: column("muv_smiles.csv.gz"),
    "blocks": lambda: column("real_space/blocks.csv.gz", 2),
}
MADE: dict[str, Callable[[int, int], list[str]]] = {
    "demo": demo,
    "products": products,
    "mutants": mutants,
    "sentences": invented(sentence),
    "rings": invented(ring_system),
}
INVENTED = ("mutants", "sentences", "rings")


def texts_of(name: str, n: int, seed: int) -> list[str]:
    """Return `n` texts of a set, or all."""
    if name in MADE:
        return MADE[name](n or ENDLESS, seed)
    texts = [text.strip() for text in FILES[name]()]
    return random.Random(seed).sample(texts, min(n, len(texts))) if n else texts


# Forms -----------------------------------------------------------------------------------------------------


def kekule(molecule: Chem.Mol) -> list[str]:
    """Return a molecule as a Kekule form."""
    copy = Chem.Mol(molecule)
    Chem.Kekulize(copy, clearAromaticFlags=True)
    return [Chem.MolToSmiles(copy, kekuleSmiles=True)]


def orders(molecule: Chem.Mol) -> list[str]:
    """Return a molecule in random orders of its atoms."""
    return list(Chem.MolToRandomSmilesVect(molecule, N_ORDERS, randomSeed=1 + molecule.GetNumAtoms()))


FORMS: dict[str, Callable[[Chem.Mol], list[str]]] = {
    "orders": orders,
    "kekule": kekule,
    "hydrogens": lambda molecule: [Chem.MolToSmiles(molecule, allHsExplicit=True)],
    "hydrogen atoms": lambda molecule: [Chem.MolToSmiles(Chem.AddHs(molecule))],
}
TOOLKITS = ("openbabel", "indigo", "cdk")


def rewritten(molecules: list[Chem.Mol], form: str, python: str, jar: str) -> list[str]:
    """Return molecules in another form; those that a toolkit does not write are left out."""
    if form in FORMS:
        return [text for molecule in molecules for text in FORMS[form](molecule)]
    lines = "".join(f"{kekule(molecule)[0]}\n" for molecule in molecules)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "Rewrite.java"
        program.write_text(CDK)
        command = {
            "openbabel": [python, "-c", OPEN_BABEL],
            "indigo": [python, "-c", INDIGO],
            "cdk": ["java", "-cp", jar, str(program)],
        }[form]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{form} cannot write the molecules: {done.stderr.strip()}")
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


# Comparison ------------------------------------------------------------------------------------------------


def row_of(features: Features, row: int) -> tuple[list[int], list[int]]:
    """Return the identifiers and counts of one molecule."""
    pointer, identifiers, counts = features
    entries = slice(pointer[row], pointer[row + 1])
    return identifiers[entries].tolist(), counts[entries].tolist()


def faults_of(texts: list[str]) -> tuple[int, dict[str, list[str]]]:
    """Return how many texts the engine reads, and those that RDKit counts otherwise, or rejects."""
    faults: dict[str, list[str]] = {"counts": [], "rejects": []}
    spec, torsion = FingerprintSpec(KINDS), FingerprintSpec("torsion")
    positions, kinds = read(texts, spec, dots=True)
    few, torsions = read(texts, torsion, dots=True)
    taken = [texts[at] for at in positions.tolist()]
    accepted, expected, rejects = Fingerprinter(FingerprintSpec([*KINDS, "torsion"]))._ask(taken, positions)
    faults["rejects"] = [texts[position] for position, _ in rejects]
    rows = {position: row for row, position in enumerate(accepted.tolist())}
    wrong = set()
    for places, features, theirs in [(positions, kinds, expected), (few, torsions, expected[-1:])]:
        for row, position in enumerate(places.tolist()):
            if position in rows and any(
                row_of(one, row) != row_of(other, rows[position])
                for one, other in zip(features, theirs, strict=False)
            ):
                wrong.add(position)
    faults["counts"] = [texts[position] for position in sorted(wrong)]
    return len(positions), faults


def differs_as_a_whole(texts: list[str]) -> bool:
    """Return whether a matrix, or a reject, is another one than RDKit alone gives."""
    blocks = []
    for by_engine in (True, False):
        fingerprints.is_due = lambda n_seen, due=by_engine: due
        blocks.append(Fingerprinter(FOLDED)(texts))
    one, other = blocks
    same = (one.fingerprints != other.fingerprints).nnz == 0 if len(one.kept) == len(other.kept) else False
    return not (same and one.kept.tolist() == other.kept.tolist() and one.rejects == other.rejects)


REASONS = {
    "syntax or characters": re.compile(r"[^\x21-\x7e]|%\(|[~$>*{}|^&!?]|%0|%.?$"),
    "hydrogen atom, isotope or map": re.compile(r"\[\d|\[H[]+-]|:\d+\]"),
    "element": re.compile(r"\[(?!Cl|Br|Si|Se|se)(?:[A-Z][a-z]|[^BCNOPSFIcnos@]|[A-Za-z]{3})|[bp]"),
}


def reason_of(text: str, status: int) -> str:
    """Return why a text is left to RDKit, as far as can be said from outside."""
    for reason, pattern in REASONS.items():
        if pattern.search(text):
            return reason
    if status != ASK:
        return "ring system"
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(text, sanitize=False)
        if molecule is None:
            return "syntax or characters"
        closures = molecule.GetNumBonds() - molecule.GetNumAtoms() + len(Chem.GetMolFrags(molecule))
        if molecule.GetNumAtoms() > 192 or molecule.GetNumBonds() > 208 or closures > 14:
            return "size"
        return "rejected by RDKit" if Chem.MolFromSmiles(text) is None else "valence, charge or unusual"


def reasons_of(texts: list[str]) -> Counter[str]:
    """Count why texts are left to RDKit."""
    left = np.setdiff1d(np.arange(len(texts)), read(texts, FingerprintSpec("morgan"), dots=True)[0])
    lines = [texts[i] for i in left.tolist()]
    data = [line.encode("ascii", "replace") for line in lines]
    stops = np.concatenate([[0], np.cumsum([len(line) for line in data])]).astype(np.int64)
    nothing = engine().ring_table({})  # what asks for a ring system was understood
    readings = engine().read_smiles(np.frombuffer(b"".join(data), np.uint8), stops, nothing, dots=True)
    return Counter(reason_of(line, s) for line, s in zip(lines, readings.status.tolist(), strict=True))


def compared(name: str, form: str, texts: list[str]) -> dict[str, Any]:
    """Compare the texts of one set in one form; return a row of the table."""
    n_read, counts, rejects = 0, list[str](), list[str]()
    left = Counter[str]()
    for start in range(0, len(texts), AT_ONCE):
        batch = texts[start : start + AT_ONCE]
        n, faults = faults_of(batch)
        n_read, counts, rejects = n_read + n, counts + faults["counts"], rejects + faults["rejects"]
        left += reasons_of(batch)
    for word, lines in (("count", counts), ("reject", rejects)):
        for line in sorted(lines, key=len)[:20]:
            print(f"DIFFERENT {word}: {line!r}")
    return {
        "set": name,
        "form": form,
        "texts": len(texts),
        "read": n_read,
        "left to RDKit": ", ".join(f"{n:,} {reason}" for reason, n in left.most_common()),
        "counts": len(counts),
        "rejects": len(rejects),
        "whole": int(differs_as_a_whole(texts if name in INVENTED else texts[:WHOLE])),
    }


def main() -> int:
    arguments = parser(__doc__)
    sets, forms = [*FILES, *MADE], ["written", *FORMS, *TOOLKITS]
    arguments.add_argument("--sets", nargs="+", choices=sets, default=sets)
    arguments.add_argument("--forms", nargs="+", choices=forms, default=forms)
    arguments.add_argument("--molecules", type=int, default=2000, help="of each set; 0: all (%(default)s)")
    arguments.add_argument("--toolkits", default="", help="Python with openbabel-wheel and epam.indigo")
    arguments.add_argument("--cdk", default="", help="jar of CDK")
    settings = arguments.parse_args()
    print_header(settings.seed)
    rows = []
    missing = {"openbabel": not settings.toolkits, "indigo": not settings.toolkits, "cdk": not settings.cdk}
    for name in settings.sets:
        texts = texts_of(name, settings.molecules, settings.seed)
        molecules: list[Chem.Mol] = []
        if name not in INVENTED and settings.forms != ["written"]:  # 10 kB each
            with rdBase.BlockLogs():
                molecules = [m for text in texts if (m := Chem.MolFromSmiles(text)) is not None]
        for form in settings.forms:
            if missing.get(form) or (name in INVENTED and form != "written"):
                continue
            written = (
                texts if form == "written" else rewritten(molecules, form, settings.toolkits, settings.cdk)
            )
            rows.append(compared(name, form, written))
            print(*rows[-1].values(), sep="; ", flush=True)
    columns = dict.fromkeys(rows[0], "") | dict.fromkeys(("texts", "read", "counts", "rejects", "whole"), ",")
    print(table(rows, columns))
    write_results(
        settings.output,
        "reading",
        seed=settings.seed,
        settings={"molecules": settings.molecules},
        results={f"{row['set']}, {row['form']}": row for row in rows},
        keep=True,
    )
    return int(any(row["counts"] or row["rejects"] or row["whole"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
