"""Specifications in words that a chemist understands."""

from __future__ import annotations

from typing import Any

__all__ = ["byte_words", "fingerprint_words", "map_words"]

_UNITS = ("kB", "MB", "GB", "TB")
_FINGERPRINTS = {
    "morgan": "Morgan (circular)",
    "atompair": "atom-pair",
    "torsion": "topological-torsion",
    "rdkit": "RDKit path",
}


def byte_words(n_bytes: float) -> str:
    """A number of bytes in the unit that suits it.

    Examples
    --------
    >>> byte_words(999), byte_words(1234567)
    ('999 bytes', '1.2 MB')
    """
    if n_bytes < 1000:
        return f"{n_bytes:.0f} bytes"
    power = 1
    while n_bytes >= 1000 ** (power + 1) and power < len(_UNITS):
        power += 1
    return f"{n_bytes / 1000**power:.1f} {_UNITS[power - 1]}"


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
    >>> state = {"class": "TanimotoMinMaxFeatures", "parameters": {"n_components": 64, "random_state": 0}}
    >>> map_words(state)
    'one-bit Tanimoto (min-max) features, M = 64, seed 0: unbiased, variance (1 - T^2)/M'
    >>> map_words(state, "bits").split(", ")[-1]
    '8 bytes a molecule'
    """
    parameters = dict(state.get("parameters", {}))
    name = str(state.get("class", "unknown"))
    n_components = parameters.pop("n_components", None)
    seed = parameters.pop("random_state", None)
    if name == "TanimotoMinMaxFeatures":
        words = f"one-bit Tanimoto (min-max) features, M = {n_components}, seed {seed}: unbiased, "
        words += "variance (1 - T^2)/M"
    else:
        others = "".join(f", {key} = {value}" for key, value in sorted(parameters.items()))
        words = f"{name}, M = {n_components}, seed {seed}{others}"
    if dtype is None or not isinstance(n_components, int):
        return words
    per_row = {"bits": -(-n_components // 8), "float16": 2 * n_components, "float32": 4 * n_components}
    return f"{words}, {per_row[dtype]:,} bytes a molecule"
