"""Specifications in words that a chemist understands."""

from __future__ import annotations

from typing import Any

from daskrf.errors import InputError
from daskrf.features.featuremap import from_state, parameter_words
from daskrf.kernels.kernel import short
from daskrf.storage.integrity import DAMAGE

__all__ = ["fingerprint_words", "map_words", "model_words"]

_FINGERPRINTS = {
    "morgan": "Morgan (circular)",
    "atompair": "atom-pair",
    "torsion": "topological-torsion",
    "rdkit": "RDKit path",
    "lingo": "LINGO (windows of four characters of SMILES)",
}


def fingerprint_words(state: dict[str, Any]) -> str:
    """A fingerprint specification in words.

    Examples
    --------
    >>> fingerprint_words({"kind": "morgan", "radius": 1, "counts": True, "size": 0})
    'Morgan (circular) fingerprints of radius 1, counts, unfolded (32-bit identifiers)'
    """
    kind = str(state.get("kind", "unknown"))
    words = f"{_FINGERPRINTS.get(kind, kind)} fingerprints"
    if kind == "morgan":
        words += f" of radius {state.get('radius')}"
    words += ", counts" if state.get("counts") else ", presence only"
    size = state.get("size")
    words += f", folded to {size:,} columns" if size else ", unfolded (32-bit identifiers)"
    words += ", with chirality" if state.get("chirality") else ""
    return words + (", pharmacophoric atom classes" if state.get("features") else "")


def map_words(state: dict[str, Any], dtype: str | None = None) -> str:
    """The state of a feature map in words.

    Parameters
    ----------
    state : dict
        ``FeatureMap.state()``.
    dtype : str, optional
        How the features are stored; it adds the bytes of a molecule.

    Returns
    -------
    str

    Examples
    --------
    >>> from daskrf.features import default_map
    >>> state = default_map().set_params(n_components=64).state()
    >>> map_words(state)
    'one-bit Tanimoto (min-max) features, M = 64, seed 0: unbiased, variance (1 - T^2)/M'
    >>> map_words(state, "bits").split(", ")[-1]
    '8 bytes a molecule'
    """
    try:
        return _map_words(state, dtype)
    except DAMAGE:  # of a store that daskrf has not written
        return f"an unknown feature map ({short(state)})"


def _map_words(state: dict[str, Any], dtype: str | None) -> str:
    try:
        words = from_state(state).words()
    except InputError:  # a map that is not known here, or of another version
        words = parameter_words(str(state.get("class", "unknown")), state.get("parameters", {}))
    n_components = state.get("parameters", {}).get("n_components")
    if dtype is None or not isinstance(n_components, int):
        return words
    per_row = {"bits": -(-n_components // 8), "float16": 2 * n_components, "float32": 4 * n_components}
    return f"{words}, {per_row[dtype]:,} bytes a molecule"


def model_words(state: dict[str, Any]) -> str | None:
    """The options that only some models have, of the state of one, in words; None of a model without.

    Examples
    --------
    >>> model_words({"class": "LocalGaussianGP", "rows": "nearest", "residual": True})
    'a posterior about each centroid (LocalGaussianGP): rows nearest, residual'
    >>> model_words({"class": "SparseGP", "criterion": "bound"})
    'a sparse Gaussian process (SparseGP): criterion bound'
    >>> model_words({"class": "SeparateGP", "parts": [{"class": "RandomFeatureGP"}] * 2})
    '2 models in one, of targets that have gaps (SeparateGP)'
    """
    if state.get("class") == "LocalGaussianGP":
        residual = "residual" if state.get("residual") else "no residual"
        return f"a posterior about each centroid (LocalGaussianGP): rows {state.get('rows')}, {residual}"
    if state.get("class") == "SparseGP":
        return f"a sparse Gaussian process (SparseGP): criterion {state.get('criterion')}"
    if state.get("class") == "SeparateGP":
        parts = state.get("parts") or [{}]
        kind = model_words(parts[0])
        each = f", each {kind}" if kind else ""
        return f"{len(parts)} models in one, of targets that have gaps (SeparateGP){each}"
    return None
