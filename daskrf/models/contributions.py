"""What each atom contributes to the means of molecules: the mean minus that without the atom's features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.errors import InputError
from daskrf.molecules import FingerprintSpec
from daskrf.molecules.counts.environments import check_kinds, without_atoms

if TYPE_CHECKING:
    from daskrf.models.views import Predictor

Floats = npt.NDArray[np.float64]

_AT_ONCE = 64  # molecules whose rows are predicted together: some thousands


@dataclass(frozen=True)
class Contributions:
    """The prediction of a molecule, and what its atoms contribute.

    Attributes
    ----------
    smiles : str
    row : csr_matrix, shape (1, n_columns)
        Its fingerprint.
    mean, std : float
        Of the predicted function.
    atoms : float64 array, shape (n_atoms,)
        The mean minus the mean without the features that contain an atom, in the order of the atoms.
    probability : float or None
        Of the positive class, if the target is two classes.
    """

    smiles: str
    row: sparse.csr_matrix
    mean: float
    std: float
    atoms: Floats
    probability: float | None = None


def contributions_of(
    model: Predictor, target: int, smiles: Sequence[str]
) -> Iterator[Contributions | InputError]:
    """Yield the contributions of each molecule, or why there are none.

    Parameters
    ----------
    model : Predictor
    target : int
        Number of the target.
    smiles : sequence of str

    Raises
    ------
    InputError
        If the features of the model's fingerprints have no atoms.
    """
    spec, fragments = FingerprintSpec.from_state(model.metadata["fingerprint"]), model.metadata["fragments"]
    check_kinds(spec)
    for first in range(0, len(smiles), _AT_ONCE):
        some = smiles[first : first + _AT_ONCE]
        rows = [_rows(text, spec, fragments) for text in some]
        good = [each for each in rows if not isinstance(each, InputError)]
        if not good:
            yield from (each for each in rows if isinstance(each, InputError))
            continue
        means = _of(model.predict(sparse.vstack(good, format="csr")), target)
        whole = sparse.vstack([each[:1] for each in good], format="csr")
        std = iter(_of(model.predict(whole, return_std=True, of="f")[1], target).tolist())
        parts = iter(np.split(means, np.cumsum([each.shape[0] for each in good])[:-1]))
        for text, each in zip(some, rows, strict=True):
            yield (
                each
                if isinstance(each, InputError)
                else _contributions(model, target, text, row=each[:1], means=next(parts), std=next(std))
            )


def _rows(smiles: str, spec: FingerprintSpec, fragments: str) -> sparse.csr_matrix | InputError:
    """Return the fingerprints of a molecule with and without each atom, or why there are none."""
    try:
        return without_atoms(smiles, spec, fragments)
    except InputError as error:
        return error


def _contributions(
    model: Predictor, target: int, smiles: str, *, row: object, means: Floats, std: float
) -> Contributions:
    link = model.link_of(target)
    mean = float(means[0])
    probability = None if link is None else float(link(means[0], std))
    return Contributions(smiles, row, mean, std, mean - means[1:], probability)


def _of(values: object, target: int) -> Floats:
    """Return the values of one target."""
    array = np.asarray(values, np.float64)
    return array if array.ndim == 1 else array[:, target]
