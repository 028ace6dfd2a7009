"""A scikit-learn transformer from SMILES to fingerprints."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import numpy.typing as npt
from rdkit import Chem
from scipy import sparse

from daskrf.arrays import Matrix, MatrixLike
from daskrf.errors import InputError, printable
from daskrf.estimators import Transformer
from daskrf.molecules.counts.fingerprints import FingerprintBlock, Fingerprinter
from daskrf.molecules.counts.spec import FingerprintSpec
from daskrf.molecules.extensions import clean_smiles

if TYPE_CHECKING:
    from sklearn.utils import Tags


class SmilesFingerprints(Transformer):
    """Counts of the fingerprint features of molecules, for pipelines: one row for each SMILES.

    Parameters
    ----------
    kind, radius, counts, size, chirality, features
        As those of `FingerprintSpec`. By default the columns are not folded: maps and kernels of daskrf take
        them so, other packages need a size, such as 2048.
    fragments : {"keep", "largest", "reject"}
        As for `Fingerprinter`.
    rejects : {"raise", "empty"}
        What to do about SMILES that RDKit does not accept: raise an error, or give them rows without counts,
        and warn.

    Attributes
    ----------
    n_features_in_ : int
        1: the column of SMILES.

    Examples
    --------
    >>> from daskrf import RandomFeatureGP, SmilesFingerprints, TanimotoMinMaxFeatures
    >>> from sklearn.pipeline import make_pipeline
    >>> model = make_pipeline(SmilesFingerprints(), TanimotoMinMaxFeatures(64), RandomFeatureGP())
    >>> model.fit(["CCO", "CCN", "CCC", "c1ccccc1O"], [5.1, 5.3, 4.2, 6.0]).predict(["CCCO"]).shape
    (1,)
    """

    def __init__(
        self,
        kind: str | Sequence[str] | None = None,
        *,
        radius: int | None = None,
        counts: bool = True,
        size: int = 0,
        chirality: bool = False,
        features: bool = False,
        fragments: Literal["keep", "largest", "reject"] = "keep",
        rejects: Literal["raise", "empty"] = "raise",
    ) -> None:
        self.kind = kind
        self.radius = radius
        self.counts = counts
        self.size = size
        self.chirality = chirality
        self.features = features
        self.fragments = fragments
        self.rejects = rejects

    @property
    def needs_fit(self) -> bool:
        return False

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = tags.input_tags.sparse = False
        return tags

    @property
    def spec(self) -> FingerprintSpec:
        """What is counted.

        Raises
        ------
        InputError
            If a parameter is out of range or does not apply to the kind.
        """
        names = ("kind", "radius", "counts", "size", "chirality", "features")
        return FingerprintSpec(**{name: getattr(self, name) for name in names})

    def fit(self, X: MatrixLike, y: object = None) -> Self:
        """Check the parameters; nothing is learned.

        Raises
        ------
        InputError
            If a parameter is out of range, or X holds no column of SMILES.
        """
        self._fingerprinter()
        _smiles_of(X)
        self.n_features_in_ = 1
        return self

    def transform(self, X: MatrixLike) -> sparse.csr_matrix:
        """Return the fingerprints of molecules.

        Parameters
        ----------
        X : sequence of str or of RDKit molecules, or a column of a DataFrame
            An array, Series or list; or a DataFrame or array with this one column.

        Returns
        -------
        scipy.sparse.csr_matrix of uint16, shape (n, n_columns)

        Raises
        ------
        InputError
            As `fit`; or if RDKit does not accept a SMILES, and `rejects` is "raise".
        """
        smiles = _smiles_of(X)
        block = self._fingerprinter()(smiles)
        if not block.rejects:
            return block.fingerprints
        row, reason = block.rejects[0]
        some = f"{len(block.rejects):,} of {len(smiles):,} SMILES" if len(block.rejects) > 1 else "A SMILES"
        first = (
            f"row {row}, {printable(smiles[row], 60)!r}: {reason}" if smiles[row] else f"row {row}, missing"
        )
        if self.rejects == "raise":
            raise InputError(
                f"{some} cannot be used (the first is {first}); leave them out, or set rejects='empty' to "
                "give them rows without counts."
            )
        warnings.warn(f"{some} got rows without counts (the first is {first}).", stacklevel=2)
        return _with_empty_rows(block, len(smiles))

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return the names of the columns: the kind, and the number of the column among those of the kind.

        Raises
        ------
        InputError
            If the columns are not folded, so that there are 2**32 of each kind.

        Examples
        --------
        >>> SmilesFingerprints("morgan:1", size=4).get_feature_names_out().tolist()
        ['morgan:1-0', 'morgan:1-1', 'morgan:1-2', 'morgan:1-3']
        """
        if not self.size:
            raise InputError("The columns are not folded and have no names; set a size, such as size=2048.")
        return np.array([f"{kind.name}-{k}" for kind in self.spec.kinds for k in range(self.size)], object)

    def _fingerprinter(self) -> Fingerprinter:
        if self.rejects not in ("raise", "empty"):
            raise InputError(f"rejects must be 'raise' or 'empty', not {self.rejects!r}.")
        return Fingerprinter(self.spec, self.fragments)


def _smiles_of(X: Matrix) -> list[str]:
    """Return SMILES, one for each row."""
    if hasattr(X, "collect") and not hasattr(X, "shape"):
        raise InputError(f"X is a {type(X).__name__} without rows; give a DataFrame, such as X.collect().")
    if hasattr(X, "columns") or getattr(X, "ndim", 1) == 2:
        shape = X.shape
        if len(shape) != 2 or shape[1] != 1:
            raise InputError(f"X has {shape[-1]} columns: give the one with SMILES, such as frame['smiles'].")
        X = X.iloc[:, 0] if hasattr(X, "iloc") else np.asarray(X)[:, 0]
    is_none = isinstance(X, (str, bytes, Set, Mapping)) or getattr(X, "ndim", 1) != 1
    if is_none or not hasattr(X, "__len__"):
        raise InputError(f"X must be a sequence of SMILES, not {type(X).__name__}.")
    items: npt.NDArray[np.number] | list[object] = X if isinstance(X, list) else list(X)
    return [_text(item, row) for row, item in enumerate(items)]


def _text(item: object, row: int) -> str:
    """Return the SMILES of one row: what is before a name, of an RDKit molecule, or nothing if missing."""
    if isinstance(item, Chem.Mol):
        return str(Chem.MolToSmiles(item))
    item = item.as_py() if hasattr(item, "as_py") else item  # of Arrow
    if not isinstance(item, str) and _is_missing(item):
        return ""
    if not isinstance(item, str):
        raise InputError(f"Row {row} of X is of type {type(item).__name__}, not a SMILES or RDKit molecule.")
    return clean_smiles(item)


def _is_missing(item: object) -> bool:
    """Return whether an entry is None, NaN, or a missing value of pandas or NumPy."""
    return item is None or type(item).__name__ in ("NAType", "NaTType", "MaskedConstant") or item != item


def _with_empty_rows(block: FingerprintBlock, n_rows: int) -> sparse.csr_matrix:
    """Return the fingerprints with an empty row for each molecule that was rejected."""
    X = block.fingerprints
    lengths = np.zeros(n_rows, X.indptr.dtype)
    lengths[block.kept] = np.diff(X.indptr)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_matrix((X.data, X.indices, indptr), shape=(n_rows, X.shape[1]))
