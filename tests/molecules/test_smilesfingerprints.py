"""Fingerprints of SMILES in scikit-learn's pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from rdkit import Chem
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from daskrf import ExactGP, FingerprintSpec, RandomFeatureGP, SmilesFingerprints, TanimotoMinMaxFeatures
from daskrf.errors import InputError
from daskrf.molecules import Fingerprinter

SMILES = ["CCO", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1", "C", "CCN(CC)CC"]
MANY = ["C" * n + end for n in range(1, 9) for end in ("O", "N", "Cl", "c1ccccc1")]
Y = np.array([len(text) + 3.0 * ("O" in text) for text in MANY])


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.array,
        lambda texts: np.array(texts, dtype=object),
        lambda texts: np.array(texts)[:, None],
        pd.Series,
        lambda texts: pd.Series(texts, dtype="string"),
        lambda texts: pd.DataFrame({"smiles": texts}),
        pa.array,
        lambda texts: [Chem.MolFromSmiles(text) for text in texts],
        lambda texts: [f" {text} |c:1| " for text in texts],
    ],
)
def test_whatever_holds_smiles_is_taken(make: Any) -> None:
    spec = FingerprintSpec(["morgan:2", "torsion"], size=256)
    expected = Fingerprinter(spec)(SMILES).fingerprints
    found = SmilesFingerprints(["morgan:2", "torsion"], size=256).fit_transform(make(SMILES))
    assert found.dtype == np.uint16
    assert (found.shape, (found != expected).nnz) == (expected.shape, 0)


def test_smiles_that_are_none_are_refused_or_empty() -> None:
    texts = ["CCO", "C1CC", None, "CCN"]
    with pytest.raises(InputError, match=r"2 of 4 SMILES cannot be used \(the first is row 1, 'C1CC': RDKit"):
        SmilesFingerprints().transform(texts)
    with pytest.warns(UserWarning, match="2 of 4 SMILES got rows without counts"):
        X = SmilesFingerprints(rejects="empty").transform(texts)
    assert np.diff(X.indptr).tolist()[1:3] == [0, 0]
    assert (X[[0, 3]] != SmilesFingerprints().transform(["CCO", "CCN"])).nnz == 0


@pytest.mark.parametrize("dtype", [object, "string", pd.ArrowDtype(pa.string())])
def test_missing_values_are_rows_without_a_molecule(dtype: Any) -> None:
    texts = pd.Series(["CCO", None, "C"], dtype=dtype)
    for given in (texts, list(texts), [*texts[:1], np.nan, "C"], np.ma.masked_equal(["CCO", "x", "C"], "x")):
        with pytest.raises(InputError, match=r"A SMILES cannot be used \(the first is row 1, missing\)"):
            SmilesFingerprints().transform(given)
        with pytest.warns(UserWarning, match="A SMILES got rows without counts"):
            X = SmilesFingerprints(rejects="empty").fit(given).transform(given)
        assert np.flatnonzero(np.diff(X.indptr)).tolist() == [0, 2]


def test_folded_columns_have_names() -> None:
    kinds = ["morgan:1", "torsion"]
    names = SmilesFingerprints(kinds, size=4).get_feature_names_out()
    assert names.tolist() == [f"{kind}-{k}" for kind in kinds for k in range(4)]
    with pytest.raises(InputError, match="have no names; set a size"):
        SmilesFingerprints().get_feature_names_out()


class LazyFrame:
    """What polars calls a frame without rows: it has columns and `collect`, and no shape."""

    columns = ("smiles",)

    def collect(self) -> pd.DataFrame:
        return pd.DataFrame({"smiles": SMILES})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (LazyFrame(), r"X is a LazyFrame without rows; give a DataFrame, such as X\.collect\(\)"),
        ("CCO", "must be a sequence of SMILES, not str"),
        (pd.DataFrame({"smiles": SMILES, "y": 1}), "X has 2 columns: give the one with SMILES"),
        (np.zeros((5, 3)), "X has 3 columns"),
        ([1.5], "Row 0 of X is of type float, not a SMILES"),
        (iter(SMILES), "must be a sequence of SMILES, not list_iterator"),
        (set(SMILES), "must be a sequence of SMILES, not set"),
        ({"smiles": SMILES}, "must be a sequence of SMILES, not dict"),
        (np.array("CCO"), "must be a sequence of SMILES, not ndarray"),
    ],
)
def test_what_holds_no_smiles_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SmilesFingerprints().fit(given)


def test_parameters_are_checked() -> None:
    for parameters, message in (
        ({"rejects": "skip"}, "rejects must be 'raise' or 'empty', not 'skip'"),
        ({"kind": "morgam"}, "morgam"),
        ({"size": -1}, "size must be an integer"),
        ({"fragments": "none"}, "fragments must be one of"),
    ):
        with pytest.raises(InputError, match=message):
            SmilesFingerprints(**parameters).fit(SMILES)  # type: ignore[arg-type]


def test_pipelines_are_cross_validated_and_searched() -> None:
    exact = make_pipeline(SmilesFingerprints("morgan"), ExactGP())
    assert cross_val_score(exact, MANY, Y, cv=4).shape == (4,)
    features = make_pipeline(SmilesFingerprints(), TanimotoMinMaxFeatures(64), RandomFeatureGP())
    grid = {"smilesfingerprints__radius": [1, 2], "smilesfingerprints__kind": ["morgan"]}
    search = GridSearchCV(features, grid, cv=3, n_jobs=2).fit(MANY, Y)
    assert search.best_params_["smilesfingerprints__radius"] in (1, 2)
    assert search.predict(["CCO"]).shape == (1,)
    frame = pd.DataFrame({"smiles": MANY, "n": np.arange(len(MANY))})
    columns = make_column_transformer((SmilesFingerprints(size=64), "smiles"), ("passthrough", ["n"]))
    assert make_pipeline(columns, Ridge()).fit(frame, Y).score(frame, Y) > 0.9
    assert clone(SmilesFingerprints(size=64)).size == 64
