"""Specifications in words that a chemist understands."""

from __future__ import annotations

from typing import Any

from daskrf.storage.checked import DAMAGE

__all__ = ["fingerprint_words", "kernel_words", "map_words", "model_words"]

_SHOWN = 80  # characters of a value of a map that is not known here
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
    >>> state = {"class": "TanimotoMinMaxFeatures", "parameters": {"n_components": 64, "random_state": 0}}
    >>> map_words(state)
    'one-bit Tanimoto (min-max) features, M = 64, seed 0: unbiased, variance (1 - T^2)/M'
    >>> map_words(state, "bits").split(", ")[-1]
    '8 bytes a molecule'
    """
    try:
        return _map_words(state, dtype)
    except DAMAGE:  # of a store that daskrf has not written
        return f"an unknown feature map ({_short(state)})"


def _map_words(state: dict[str, Any], dtype: str | None) -> str:
    parameters = dict(state.get("parameters", {}))
    name = str(state.get("class", "unknown"))
    n_components, seed = parameters.get("n_components"), parameters.pop("random_state", None)
    size = f"M = {n_components}, seed {seed}"
    if name in _MAP_WORDS:
        words = _MAP_WORDS[name](parameters | _learned(state), size)
    else:
        parameters.pop("n_components", None)
        others = "".join(f", {key} = {_short(value)}" for key, value in sorted(parameters.items()))
        words = f"{name}, {size}{others}"
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


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def kernel_words(state: dict[str, Any]) -> str:
    """The state of a kernel in words.

    Examples
    --------
    >>> kernel_words({"kernel": "TanimotoMinMax", "parameters": {}})
    'Tanimoto (min-max)'
    >>> kernel_words({"kernel": "CompositionalTanimoto", "parameters": {"series": "power", "degree": 3}})
    'T^3, T the Tanimoto (min-max) similarity'
    >>> kernel_words({"kernel": "Matern", "parameters": {"length_scale": 9.5, "nu": 1.5}})
    'Matern kernel (length scale 9.5, nu 1.5)'
    """
    name, parameters = str(state.get("kernel", "unknown")), state.get("parameters", {})
    if name == "TanimotoMinMax":
        return "Tanimoto (min-max)"
    if name == "Intersection":
        return "intersection (sum of min)"
    if name == "TanimotoDotProduct":
        of = ", of square roots of counts" if parameters.get("transform") == "sqrt" else ""
        return f"Tanimoto (dot product{of})"
    if name == "CompositionalTanimoto":
        coefficients = _short(parameters.get("coefficients"))
        series = {
            "power": f"T^{parameters.get('degree')}",
            "exponential": f"exp({parameters.get('gamma')} (T - 1))",
            "ratio": "T / (2 - T)",
            "coefficients": f"the power series of T with coefficients {coefficients}",
        }
        return f"{series.get(parameters.get('series', ''), name)}, T the Tanimoto (min-max) similarity"
    if "length_scale" in parameters:
        own = {"nu": "nu", "degree": "degree"}
        more = "".join(f", {word} {parameters[key]:g}" for key, word in own.items() if key in parameters)
        return f"{name} kernel (length scale {parameters['length_scale']:g}{more})"
    return _series_words(state, _product_words(parameters))


def _series_words(state: dict[str, Any], of: str) -> str:
    """Return a dot-product kernel as a power series of `of`."""
    name, parameters = state.get("kernel"), state.get("parameters", {})
    if name == "Polynomial":
        return _power_words(of, parameters.get("degree"), parameters.get("c"))
    if name == "Exponential":
        return f"exp({parameters.get('gamma')} {of})"
    if name == "DotProduct":
        return f"the power series of {of} with coefficients {_short(parameters.get('coefficients'))}"
    return _short(state)


def _product_words(parameters: dict[str, Any]) -> str:
    return "cos(x, y)" if parameters.get("normalize") else "x.y"


def _power_words(of: str, degree: Any, c: Any) -> str:
    return f"({of} + {c})^{degree}" if c else f"{of}^{degree}"


def _learned(state: dict[str, Any]) -> dict[str, Any]:
    """Return what of a map's learned state is said: a range of norms, sizes of degrees, or a rank."""
    fitted = state.get("fitted", {})
    if "negative" in fitted:
        return {"rank": fitted["shape"][0], "negative": fitted["negative"]}
    if "allocation" in fitted:
        return {"sizes": fitted["allocation"]["sizes"]}
    return {"norm_range": (fitted["smallest"], fitted["largest"])} if "smallest" in fitted else {}


def _hashing(parameters: dict[str, Any]) -> str:
    return ", by consistent weighted sampling" if parameters.get("hashing") == "cws" else ""


def _minmax_words(parameters: dict[str, Any], size: str) -> str:
    if parameters.get("distribution", "rademacher") == "rademacher":
        kind, variance = "one-bit Tanimoto (min-max) features", "(1 - T^2)/M"
    else:
        kind, variance = "Gaussian Tanimoto (min-max) features", "(1 + 2T - T^2)/M"
    return f"{kind}{_hashing(parameters)}, {size}: unbiased, variance {variance}"


def _compositional_words(parameters: dict[str, Any], size: str) -> str:
    kernel = kernel_words(parameters.get("kernel", {}))
    return f"one-bit features of k = {kernel}{_hashing(parameters)}, {size}: unbiased, variance (1 - k^2)/M"


def _dot_product_words(parameters: dict[str, Any], size: str) -> str:
    of = " of square roots of counts" if parameters.get("input_transform") == "sqrt" else ""
    rest = {"normalize": ", rows scaled to length 1", "residual": " and a residual"}
    terms = f"{parameters.get('n_terms')} terms{rest.get(parameters.get('bias_correction') or '', '')}"
    ends = parameters.get("norm_range")
    norms = f", for squared norms of {ends[0]:.6g} to {ends[1]:.6g}" if ends else ""
    return f"Tanimoto (dot-product) features{of}, {size}, {terms}{norms}"


def _landmark_words(parameters: dict[str, Any], size: str) -> str:
    kernel = kernel_words(parameters.get("kernel", {}))
    return (
        f"{kernel} similarities to molecules of the library chosen {_chosen(parameters)} (landmarks), {size}"
    )


def _nystrom_words(parameters: dict[str, Any], size: str) -> str:
    kernel = kernel_words(parameters.get("kernel", {}))
    landmarks = parameters.get("n_landmarks") or parameters.get("n_components")
    words = f"Nystroem features of {kernel}, {landmarks} landmarks chosen {_chosen(parameters)}, {size}"
    rank, (two_norm, frobenius) = parameters.get("rank"), parameters.get("negative", (0.0, 0.0))
    if rank is not None and rank < parameters.get("n_components", rank):
        words += f", of rank {rank}"
    if two_norm > 0.0:
        words += f", negative eigenvalues down to -{two_norm:.3g} left out (Frobenius norm {frobenius:.3g})"
    return words


def _chosen(parameters: dict[str, Any]) -> str:
    how = {
        "random": "at random",
        "kmedoids": "as k-medoids",
        "kmeans": "as means of clusters",
        "farthest": "far from each other",
    }
    return how.get(parameters.get("selection", ""), "")


def _fourier_words(parameters: dict[str, Any], size: str) -> str:
    how = ", orthogonal directions" if parameters.get("orthogonal") else ""
    kernel = kernel_words(parameters.get("kernel", {}))
    return f"random Fourier features of the {kernel}{how}, {size}: unbiased, prior variance 1"


def _fastfood_words(parameters: dict[str, Any], size: str) -> str:
    ways = {"fft": " by FFT", "hadamard": " by the paper's directions"}
    how = ways.get(parameters.get("projection", ""), "")
    kernel = kernel_words(parameters.get("kernel", {}))
    return f"Fastfood features{how} of the {kernel}, {size}: prior variance 1"


def _fastfood_dot_product_words(parameters: dict[str, Any], size: str) -> str:
    how = "by monomials" if parameters.get("expansion") == "monomials" else "by Legendre polynomials"
    return f"Fastfood features of k = {kernel_words(parameters.get('kernel', {}))} {how}, {size}"


def _maclaurin_words(parameters: dict[str, Any], size: str) -> str:
    kernel, cut = kernel_words(parameters.get("kernel", {})), parameters.get("max_degree")
    rest = "" if cut is None else f", cut after power {cut}"
    rest += ", constant and linear term exact" if parameters.get("h01") else ""
    return f"random Maclaurin features of k = {kernel}{rest}, {size}"


def _polynomial_words(parameters: dict[str, Any], size: str) -> str:
    kernel = _power_words(_product_words(parameters), parameters.get("degree"), parameters.get("c"))
    return f"polynomial sketch ({parameters.get('method')}) of k = {kernel}, {size}"


def _gaussian_maclaurin_words(parameters: dict[str, Any], size: str) -> str:
    sizes = parameters.get("sizes")
    degrees = f", degrees 0 to {len(sizes)}" if sizes is not None else ""
    kernel = f"exp(-|x-y|^2 / (2 {parameters.get('length_scale')}^2))"
    return f"optimized Maclaurin features ({parameters.get('method')}) of k = {kernel}, {size}{degrees}"


def _local_gaussian_words(parameters: dict[str, Any], size: str) -> str:
    n, how = parameters.get("n_centroids"), parameters.get("selection")
    kernel = f"exp(-|x-y|^2 / (2 {parameters.get('length_scale')}^2))"
    return f"Maclaurin features of k = {kernel} about up to {n} centroids ({how}), {size}"


def _composition_words(parameters: dict[str, Any], size: str) -> str:
    outer, inner = parameters.get("outer", {}), parameters.get("inner") or {"class": "TanimotoMinMaxFeatures"}
    return f"features of f(K)/f(1), f(K) = {_series_words(outer, 'K')}, {size}, K by {inner.get('class')}"


_MAP_WORDS = {
    "RandomFourierFeatures": _fourier_words,
    "FastfoodFeatures": _fastfood_words,
    "FastfoodDotProductFeatures": _fastfood_dot_product_words,
    "TanimotoMinMaxFeatures": _minmax_words,
    "CompositionalTanimotoFeatures": _compositional_words,
    "TanimotoDotProductFeatures": _dot_product_words,
    "LandmarkFeatures": _landmark_words,
    "NystromFeatures": _nystrom_words,
    "RandomMaclaurinFeatures": _maclaurin_words,
    "PolynomialSketch": _polynomial_words,
    "GaussianMaclaurinFeatures": _gaussian_maclaurin_words,
    "LocalGaussianFeatures": _local_gaussian_words,
    "CompositionFeatures": _composition_words,
}
