"""No text stops a fingerprint: it is counted or rejected, alone and in company, under any options.

``DASKRF_FUZZ=20000`` tries as many mutants in place of a few hundred.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from daskrf.molecules import FingerprintBlock, Fingerprinter, FingerprintSpec
from daskrf.molecules.counts.spec import FRAGMENTS, with_positions
from tests.molecules.mutants import garbage, mutant

N = int(os.environ.get("DASKRF_FUZZ", "400"))
SPECS = [
    FingerprintSpec(),
    FingerprintSpec(radius=3, size=512, counts=False, chirality=True, features=True),
    FingerprintSpec("atompair", chirality=True),
    FingerprintSpec("atompair", size=128),
    FingerprintSpec("torsion", counts=False),
    FingerprintSpec("torsion", chirality=True, size=128),
    FingerprintSpec("rdkit"),
    FingerprintSpec("rdkit", size=1024),
    FingerprintSpec("lingo"),
    FingerprintSpec("lingo", chirality=True, size=256),
    FingerprintSpec(["morgan:2", "torsion", "atompair"]),
    FingerprintSpec(["morgan:1", "substituents", with_positions([0x9DEB0387, 0x1F5F19E2])]),  # methyl, phenyl
]


@pytest.fixture(scope="module")
def texts(data_dir: Path) -> list[str]:
    draw = random.Random(0)
    real = (data_dir / "guacamol_10k.smiles").read_text().split()
    mutants = [mutant(draw, real) for _ in range(N)]
    return [*mutants, *(garbage(draw).decode(errors="surrogateescape") for _ in range(N // 10))]


def rows_of(block: FingerprintBlock, n: int) -> list[object]:
    """Return the features of each text, or why it has none; each of `n` has one or the other."""
    rows: list[object] = [None] * n
    matrix = block.fingerprints
    assert len(block.kept) + len(block.rejects) == n
    for place, position in enumerate(block.kept.tolist()):
        entries = slice(*matrix.indptr[place : place + 2])
        rows[position] = matrix.indices[entries].tobytes() + matrix.data[entries].tobytes()
    for position, reason in block.rejects:
        assert reason
        assert reason.isprintable()
        assert len(reason) < 300
        rows[position] = reason
    assert None not in rows
    return rows


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("fragments", FRAGMENTS)
def test_every_text_is_counted_or_rejected(spec: FingerprintSpec, fragments: str, texts: list[str]) -> None:
    few = texts if fragments == "keep" else texts[::5]
    fingerprinter = Fingerprinter(spec, fragments)
    rows = rows_of(fingerprinter(few), len(few))
    order = np.random.default_rng(0).permutation(len(few))[: len(few) // 4]
    chosen = [few[k] for k in order]
    assert rows_of(fingerprinter(chosen), len(chosen)) == [rows[k] for k in order]
    assert [rows_of(fingerprinter([text]), 1)[0] for text in chosen[:20]] == [rows[k] for k in order[:20]]
    reasons = Counter(re.sub(r"\d[\d,]*", "#", row)[:60] for row in rows if isinstance(row, str))
    print(f"\n{len(few)} texts, {len(few) - sum(reasons.values())} kept", *reasons.most_common(), sep="\n  ")
    assert 0 < sum(reasons.values()) < len(few)
