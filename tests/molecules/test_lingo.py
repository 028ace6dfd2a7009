"""LINGO counts: figure 1 of Haque & Pande 2011, the oracle, and the texts that are not SMILES."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

from daskrf.errors import InputError
from daskrf.features import NystromFeatures
from daskrf.kernels import Intersection, TanimotoMinMax
from daskrf.molecules import Fingerprinter, FingerprintSpec, lingo_counts
from tests.naive import nystrom as naive

# As the names of figure 1 say, (S) and (2R); a '@' of each is missing from the SMILES printed there.
MANDELATE, DIOL = "c1ccc(cc1)[C@@H](C(=O)[O-])O", "c1cc(ccc1OC[C@@H](CO)O)Cl"


def as_counters(matrix) -> list[dict[str, int]]:
    rows = []
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        columns = matrix.indices[start:stop].tolist()
        assert columns == sorted(set(columns))
        texts = [column.to_bytes(4, "big").decode() for column in columns]
        rows.append(dict(zip(texts, matrix.data[start:stop].tolist(), strict=True)))
    return rows


def test_figure_1() -> None:
    """22 and 8 are those of the figure. Its 28 is the length of mandelate's SMILES, which has 25 windows."""
    chiral = [Chem.FindMolChiralCenters(Chem.MolFromSmiles(text))[0][1] for text in (MANDELATE, DIOL)]
    assert chiral == ["S", "R"]
    X = lingo_counts([MANDELATE, DIOL])
    assert Intersection()(X).tolist() == [[25, 8], [8, 22]]
    assert len(MANDELATE) == 28
    assert TanimotoMinMax()(X)[0, 1] == 8 / (25 + 22 - 8)
    as_printed = lingo_counts([text.replace("@@", "@") for text in (MANDELATE, DIOL)])
    assert Intersection()(as_printed).tolist() == [[24, 7], [7, 21]]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from([MANDELATE, "[13CH4]", "C1CC%12CC1", "", "CCO"]),
            st.text("C1[2H])(=", max_size=12),
        )
    )
)
def test_counts_are_those_of_the_oracle(smiles: list[str]) -> None:
    counts = lingo_counts(smiles)
    assert counts.shape == (len(smiles), 2**32)
    assert counts.dtype == np.uint16
    assert as_counters(counts) == [dict(naive.lingos(text)) for text in smiles]


def test_numbers_of_rings_do_not_matter_but_those_in_brackets_do() -> None:
    X = lingo_counts(["C1CCCC1", "C2CCCC2", "[13CH4]", "[14CH4]"])
    assert (X[0] != X[1]).nnz == 0
    assert (X[2] != X[3]).nnz > 0


def test_other_letters_are_refused() -> None:
    with pytest.raises(InputError, match="'näh' is not SMILES"):
        lingo_counts(["CCO", "näh"])


def test_fingerprints_are_of_canonical_smiles() -> None:
    texts = ["OCC", "C1=CC=CC=C1", MANDELATE, "CX"]
    block = Fingerprinter(FingerprintSpec("lingo"))(texts)
    assert [position for position, _ in block.rejects] == [3]
    flat = [Chem.MolToSmiles(Chem.MolFromSmiles(text), isomericSmiles=False) for text in texts[:3]]
    assert (block.fingerprints != lingo_counts(flat)).nnz == 0
    chiral = Fingerprinter(FingerprintSpec("lingo", chirality=True))([MANDELATE]).fingerprints
    assert (chiral != lingo_counts([Chem.MolToSmiles(Chem.MolFromSmiles(MANDELATE))])).nnz == 0
    folded = Fingerprinter(FingerprintSpec("lingo", size=64))(texts[1:3]).fingerprints
    assert folded.shape == (2, 64)
    assert folded.sum(axis=1).tolist() == block.fingerprints[1:3].sum(axis=1).tolist()


def test_vectors_of_lingos() -> None:
    smiles = ["C" * n + end for n in range(1, 12) for end in ("O", "N", "C(=O)O", "c1ccccc1")]
    X = lingo_counts(smiles)
    Phi = NystromFeatures(20, kernel=Intersection()).fit(X).transform(X).astype(float)
    K = Intersection()(X)
    assert np.linalg.norm(Phi @ Phi.T - K) < 0.1 * np.linalg.norm(K)
