"""Products of few blocks are told from other molecules."""

from __future__ import annotations

import numpy as np
from rdkit import Chem

from daskrf.molecules.combinatorial import are_combinatorial, blocks_as_substituents, sizer
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


def test_blocks_are_what_their_products_share() -> None:
    """As a whole, whatever else is alike; blocks that cannot be told are left out."""
    rng = np.random.default_rng(1)
    groups = ["C", "CC", "c1ccccc1", "C(C)C", "OC", "N(C)C", "Cc1ccccc1", "C1CC1"]
    acids = [f"O=C(C({a})C{b})" for a in groups for b in groups]
    amines = {"a": "NCc1ccccc1", "b": "NCCc1ccccc1", "c": "N1CCOCC1", "d": "NC"}
    rows = [(acid + amine, name) for acid in acids for name, amine in amines.items()]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    rows += [("not a SMILES", "a"), ("CCO", "rare"), ("O=C(CC)NCc1ccccc1", "rare")]
    blocks = blocks_as_substituents([smiles for smiles, _ in rows], [name for _, name in rows])
    assert blocks.keys() == amines.keys()
    for name, amine in amines.items():
        sizes = dict(map(tuple, sizer()(acids[0] + amine)))
        assert (
            sizes[blocks[name]] == 2 + Chem.MolFromSmiles(amine).GetNumAtoms()
        )  # all acids have the carbonyl group, too
    # Two names of one block: its substituent does not tell whose products these are.
    twice = [("b" if name == "a" and i % 2 else name) for i, (_, name) in enumerate(rows)]
    assert "a" not in blocks_as_substituents([smiles for smiles, _ in rows], twice)
    assert not blocks_as_substituents([smiles for smiles, _ in rows], [str(i % 90) for i in range(len(rows))])
    assert blocks_as_substituents([], []) == {}
