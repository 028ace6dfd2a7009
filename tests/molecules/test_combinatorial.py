"""Products of few blocks are told from other molecules."""

from __future__ import annotations

import numpy as np

from daskrf.molecules.combinatorial import are_combinatorial
from daskrf.molecules.counts.agreement import built_in


def test_products_of_few_blocks_are_recognized() -> None:
    alphabet = ["C", "O", "c1ccccc1", "C(C)C", "C(=O)C", "N(C)C", "F", "S(C)(=O)=O"]
    large = [f"C({a})C({b})C{c}" for a in alphabet for b in alphabet for c in alphabet]
    small = ["NCc1ccccc1", "NCc1ccco1", "N1CCOCC1", "NCCCC", "NC(C)C1CC1"]
    rng = np.random.default_rng(0)
    products = [f"O=C({acid}){rng.choice(small)}" for acid in rng.permutation(large)[:300]]
    assert are_combinatorial(products)
    assert are_combinatorial([*products, "not a SMILES"])
    assert not are_combinatorial(products[:50])
    assert not are_combinatorial([text for text in built_in() if "." not in text])
