"""A space from a long list of building blocks, half of them salts: seconds, memory, and what is left out.

The list has the building blocks of the real space, with random substituents at carbon atoms until there are
half of --blocks, and each of them once more with a counterion, in random order. `daskrf build-space` assigns
it to the slots of the 13 reactions. CPU seconds count all processes; the memory is that of all of them
together, looked at three times a second.

    python benchmarks/space_building.py [--blocks 1000000] [--workers 2]
"""

from __future__ import annotations

import csv
import gzip
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from rdkit import Chem, rdBase

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import data_folder, parser, print_header, write_results

COUNTERIONS = ("Cl", "Br", "OC(=O)C(F)(F)F", "OS(=O)(=O)O", "[Na+]", "OC(=O)C(=O)O", "CS(=O)(=O)O", "Cl.Cl")
SUBSTITUENTS = ("F", "Cl", "C", "OC", "C#N", "CC")
TIMES = 4  # substituents that are tried on each block


def variations(smiles: str, chance: random.Random) -> Iterator[str]:
    """Yield a block with one more substituent, in some places."""
    block = Chem.MolFromSmiles(smiles)
    places = [a.GetIdx() for a in block.GetAtoms() if a.GetAtomicNum() == 6 and a.GetTotalNumHs()]
    for place in chance.sample(places, min(TIMES, len(places))):
        larger = Chem.RWMol(block)
        larger.InsertMol(Chem.MolFromSmiles(chance.choice(SUBSTITUENTS)))
        larger.AddBond(place, block.GetNumAtoms(), Chem.BondType.SINGLE)
        atom = larger.GetAtomWithIdx(place)
        atom.SetNumExplicitHs(max(0, atom.GetNumExplicitHs() - 1))
        try:
            Chem.SanitizeMol(larger)
        except ValueError:
            continue
        yield Chem.MolToSmiles(larger)


def write_blocks(path: Path, n: int, seed: int) -> None:
    """Write n blocks, half of them salts."""
    chance = random.Random(seed)
    with gzip.open(data_folder() / "real_space" / "blocks.csv.gz", "rt") as file:
        real = [row["smiles"] for row in csv.DictReader(file)]
    plain = real[: n // 2]
    for smiles in real:
        if len(plain) >= n // 2:
            break
        plain += variations(smiles, chance)
    plain = plain[: n // 2]
    lines = plain + [f"{smiles}.{chance.choice(COUNTERIONS)}" for smiles in plain]
    chance.shuffle(lines)
    path.write_text("".join(f"{smiles} B{i}\n" for i, smiles in enumerate(lines)))


def watched(command: list[str]) -> dict[str, Any]:
    """Run a command; return its wall time, CPU time and largest memory, of all its processes together."""
    start, memory, cpu = time.perf_counter(), 0, dict[int, float]()
    process = psutil.Popen(command)
    while process.poll() is None:
        total = 0
        for one in (process, *process.children(recursive=True)):
            try:
                total += one.memory_full_info().uss
                cpu[one.pid] = sum(one.cpu_times()[:2])
            except psutil.Error:
                continue
        memory = max(memory, total)
        time.sleep(0.3)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} has failed.")
    seconds = time.perf_counter() - start
    return {"wall_s": seconds, "cpu_s": sum(cpu.values()), "memory_mib": memory / 2**20}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--blocks", type=int, default=1_000_000)
    arguments.add_argument("--workers", type=int, default=2)
    given = arguments.parse_args()
    print_header(given.seed)
    silence = rdBase.BlockLogs()
    with tempfile.TemporaryDirectory() as name:
        blocks = Path(name) / "blocks.smi"
        write_blocks(blocks, given.blocks, given.seed)
        del silence
        files = [str(data_folder() / "real_space" / "reactions.tsv"), str(blocks), "-o", f"{name}/space"]
        command = [sys.executable, "-m", "daskrf", "build-space", *files, "--workers", str(given.workers)]
        figures = watched(command)
    print(*(f"{key}: {value:.1f}" for key, value in figures.items()), sep="\n")
    settings = {"blocks": given.blocks, "workers": given.workers}
    write_results(given.output, "space_building", seed=given.seed, settings=settings, results=figures)


if __name__ == "__main__":
    main()
