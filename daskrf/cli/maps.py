"""The options of feature maps, and the map that they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from daskrf.cli.options import option, stack
from daskrf.cli.wording import RENAMED

if TYPE_CHECKING:
    from daskrf.features.base import FeatureMap
    from daskrf.kernels import DotProductKernel

__all__ = ["FEATURES", "LOCAL", "feature_map", "map_is_given", "map_options"]

FEATURES = "Random features"
LOCAL = f"{FEATURES}, --map local-gaussian only"
# Options that belong to some maps alone.
_OWN = {
    "minmax": ("distribution", "hashing"),
    "dot-product": ("terms", "bias_correction", "norm_range"),
    "compositional": ("series", "hashing"),
    "landmarks": ("kernel", "selection", "length_scale", "nu"),
    "nystrom": ("kernel", "selection", "landmarks", "length_scale", "nu"),
    "fourier": ("kernel", "length_scale", "nu", "orthogonal"),
    "fastfood": ("kernel", "length_scale", "nu", "projection"),
    "fastfood-dot-product": ("series", "normalize", "projection", "expansion"),
    "maclaurin": ("series", "normalize", "degree_measure", "max_degree"),
    "polynomial": ("degree", "constant", "method", "normalize"),
    "gaussian-maclaurin": ("length_scale", "method"),
    "local-gaussian": ("length_scale", "method", "selection", "centroids", "threshold"),
    "composition": ("series", "inner"),
}
# Maps of random features, whose options go beside those of a composition.
_INNER = ("minmax", "dot-product", "fourier", "fastfood", "polynomial")
_TANIMOTO, _RADIAL = ("minmax", "dot-product"), ("gaussian", "matern")
_EXACT = ("landmarks", "nystrom")  # maps that take any exact kernel
_ALL = ("map", "components", "seed", *dict.fromkeys(name for names in _OWN.values() for name in names))


class _Series(click.ParamType[dict[str, Any]]):
    """A power series of the Tanimoto similarity T: `power:3`, `exponential:2.5`, `ratio` or `0,1,0.5`."""

    name = "series"

    def convert(
        self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        name, _, number = value.partition(":")
        try:
            if name == "power":
                return {"series": name, **({"degree": int(number)} if number else {})}
            if name == "exponential":
                return {"series": name, **({"gamma": float(number)} if number else {})}
            if value == "ratio":
                return {"series": value}
            return {"series": "coefficients", "coefficients": [float(text) for text in value.split(",")]}
        except ValueError:
            self.fail(
                f"{value!r} is no series; it is power:3, exponential:2.5, ratio, or coefficients such as "
                "0,1,0.5.",
                parameter,
                ctx,
            )


def _own(flag: str, of: str, text: str, **keywords: Any) -> Any:
    """Return an option of some maps, under a heading that names them."""
    return option(flag, section=f"{FEATURES}, --map {of} only", help=text, **keywords)


map_options = stack(
    option(
        "--map",
        type=click.Choice(list(_OWN)),
        section=FEATURES,
        help="The kernel, and how it is approximated. minmax: one-bit features of the Tanimoto similarity of "
        "counts. dot-product: dense features of the other Tanimoto similarity, x.y/(|x|^2+|y|^2-x.y). "
        "compositional: one-bit features of a power series of the first. landmarks: similarities to real "
        "molecules of the library, for the sparse Gaussian process. nystrom: dense features of any kernel by "
        "its values with such molecules (SCISSORS), for the ordinary one. fourier: dense features of a "
        "Gaussian or Matern kernel of the distance. fastfood: the same by fast transforms, without a matrix "
        "of directions. fastfood-dot-product: dense features of a power series of the cosine of counts by "
        "the same transforms. maclaurin: the same by products of projections. polynomial: dense features of "
        "a power of it. gaussian-maclaurin: dense features of the Gaussian kernel of counts, for length "
        "scales that are not small. local-gaussian: the same about several centroids, for those that are. "
        "composition: features of a power series of the kernel of another map, --inner. `daskrf maps` lists "
        "all with their costs.  [default: minmax]",
    ),
    option(
        "-M",
        "--components",
        metavar="N",
        type=click.IntRange(min=1),
        section=FEATURES,
        help="Number of features: more is more accurate and costs more.  [default: 4096, landmarks and "
        "nystrom 1024]",
    ),
    option(
        "--seed",
        metavar="N",
        type=click.IntRange(min=0),
        section=FEATURES,
        help="Seed of the map.  [default: 0]",
    ),
    _own(
        "--inner",
        "composition",
        "The map whose kernel the power series is of; its own options go with it.  [default: minmax]",
        type=click.Choice(_INNER),
    ),
    _own(
        "--distribution",
        "minmax",
        "Values of the features, signs (one bit) or floats.  [default: rademacher]",
        type=click.Choice(["rademacher", "gaussian"]),
    ),
    _own(
        "--hashing",
        "minmax or compositional",
        "Min-wise hashing for counts, or consistent weighted sampling for any weights.  [default: minwise]",
        type=click.Choice(["minwise", "cws"]),
    ),
    _own(
        "--terms",
        "dot-product",
        "Terms of the power series.  [default: 4]",
        metavar="N",
        type=click.IntRange(min=1),
    ),
    _own(
        "--bias-correction",
        "dot-product",
        "What is done about the terms left out.  [default: none]",
        type=click.Choice(["none", "normalize", "residual"]),
    ),
    _own(
        "--norm-range",
        "dot-product",
        "Smallest and largest squared norm (sum of counts) to serve; default: those of the library.",
        metavar="LOW HIGH",
        nargs=2,
        type=float,
    ),
    _own(
        "--series",
        "compositional, fastfood-dot-product, maclaurin or composition",
        "power:N for T^N, exponential:G for exp(G(T-1)), ratio for T/(2-T), or coefficients a0,a1,... of "
        "1, T, T^2, ...; with fastfood-dot-product and maclaurin T is the cosine, with composition the "
        "kernel of the inner map, and with these there is no ratio.  [default: power:2]",
        metavar="SERIES",
        type=_Series(),
    ),
    _own(
        "--kernel",
        "landmarks, nystrom, fourier or fastfood",
        "Which similarity; landmarks and nystrom take any, the others gaussian or matern. intersection is "
        "the sum of minima, of LINGOs say, for nystrom alone.  [default: landmarks and nystrom minmax, "
        "others gaussian]",
        type=click.Choice([*_TANIMOTO, *_RADIAL, "intersection"]),
    ),
    _own(
        "--nu",
        "landmarks, nystrom, fourier or fastfood",
        "Smoothness of a matern kernel.  [default: 1.5]",
        metavar="NU",
        type=float,
    ),
    _own(
        "--length-scale",
        "landmarks, nystrom, fourier, fastfood, gaussian-maclaurin or local-gaussian",
        "Of a gaussian or matern kernel, in units of the columns (counts); it must be given: try several, "
        "and compare the evidence that fit prints.",
        metavar="L",
        type=float,
    ),
    _own(
        "--orthogonal",
        "fourier",
        "Make directions orthogonal: more accurate, slower to begin.",
        is_flag=True,
        default=None,
    ),
    _own(
        "--projection",
        "fastfood or fastfood-dot-product",
        "Which directions: orthogonal ones, the paper's by hadamard, or (fastfood) fft.  [default: "
        "orthogonal]",
        type=click.Choice(["orthogonal", "hadamard", "fft"]),
    ),
    _own(
        "--expansion",
        "fastfood-dot-product",
        "Of the series, in polynomials of projections.  [default: legendre]",
        type=click.Choice(["legendre", "monomials"]),
    ),
    _own(
        "--selection",
        "landmarks, nystrom or local-gaussian",
        "How landmarks or centroids are chosen from the library: kmedoids for landmarks; kmeans takes means "
        "of clusters by Euclidean distance, for centroids, and landmarks of gaussian and matern kernels.  "
        "[default: landmarks random, centroids farthest]",
        type=click.Choice(["random", "kmedoids", "kmeans", "farthest"]),
    ),
    _own(
        "--landmarks",
        "nystrom",
        "How many landmarks, at least as many as features: more are more accurate.  [default: the features]",
        metavar="N",
        type=click.IntRange(min=1),
    ),
    _own(
        "--centroids",
        "local-gaussian",
        "How many, at most; they share the features.  [default: 16]",
        metavar="N",
        type=click.IntRange(min=1),
    ),
    _own(
        "--threshold",
        "local-gaussian",
        "Add no centroid nearer than so many length scales to another one.",
        metavar="T",
        type=float,
    ),
    _own(
        "--degree-measure",
        "maclaurin",
        "How the degrees of features are drawn.  [default: proportional]",
        type=click.Choice(["proportional", "geometric"]),
    ),
    _own(
        "--max-degree",
        "maclaurin",
        "Cut the power series after this power.",
        metavar="N",
        type=click.IntRange(min=0),
    ),
    _own("--degree", "polynomial", "Which power.  [default: 2]", metavar="N", type=click.IntRange(min=0)),
    _own("--constant", "polynomial", "C of (x.y + C)^N.  [default: 0]", metavar="C", type=float),
    _own(
        "--normalize/--no-normalize",
        "fastfood-dot-product, maclaurin or polynomial",
        "Cosines of counts, or plain products, whose powers are large.  [default: normalize]",
        default=None,
    ),
    _own(
        "--method",
        "polynomial, gaussian-maclaurin or local-gaussian",
        "Sketch: rademacher, tensorsrht (folded fingerprints), or, for polynomial, gaussian or "
        "tensorsketch.  [default: rademacher]",
        type=click.Choice(["rademacher", "tensorsrht", "gaussian", "tensorsketch"]),
    ),
)


def map_is_given(options: dict[str, Any]) -> bool:
    """Tell whether any option of the map is given."""
    return any(options[name] is not None for name in _ALL)


def feature_map(options: dict[str, Any]) -> FeatureMap:
    """Take the options of the map out of `options` and return the map, with the defaults of its class.

    Raises
    ------
    click.UsageError
        If an option of another map is given.
    """
    given = {name: options.pop(name) for name in _ALL}
    given = {name: value for name, value in given.items() if value is not None}
    chosen = given.pop("map", "minmax")
    own, of_map = set(_OWN[chosen]), f"--map {chosen}"
    if chosen == "composition":
        inner = given.setdefault("inner", "minmax")
        own, of_map = own | set(_OWN[inner]), f"{of_map} --inner {inner}"
    for name in given:
        owners = [owner for owner, names in _OWN.items() if name in names]
        if owners and name not in own:
            flag, of = f"--{name.replace('_', '-')}", " and --map ".join(owners)
            raise click.UsageError(f"{flag} is an option of --map {of}, not of {of_map}.")
    return _make(chosen, {RENAMED.get(name, name): value for name, value in given.items()})


def _make(name: str, parameters: dict[str, Any]) -> FeatureMap:
    """Return the map of a name, with these parameters of its class."""
    if name == "minmax":
        from daskrf.features import TanimotoMinMaxFeatures

        return TanimotoMinMaxFeatures(**parameters)
    if name == "dot-product":
        from daskrf.features import TanimotoDotProductFeatures

        if parameters.get("bias_correction") == "none":
            del parameters["bias_correction"]
        return TanimotoDotProductFeatures(**parameters)
    if name == "compositional":
        from daskrf.features import CompositionalTanimotoFeatures
        from daskrf.kernels import CompositionalTanimoto

        kernel = CompositionalTanimoto(**parameters.pop("series", {}))
        return CompositionalTanimotoFeatures(kernel=kernel, **parameters)
    if name == "fastfood-dot-product":
        from daskrf.features import FastfoodDotProductFeatures

        return FastfoodDotProductFeatures(_dot_product_kernel(name, parameters), **parameters)
    if name == "composition":
        from daskrf.features import CompositionFeatures

        outer = _dot_product_kernel(name, {"series": parameters.pop("series", None), "normalize": False})
        own = {key: parameters.pop(key) for key in ("n_components", "random_state") if key in parameters}
        return CompositionFeatures(outer, _make(parameters.pop("inner"), parameters), **own)
    if name == "maclaurin":
        from daskrf.features import RandomMaclaurinFeatures

        return RandomMaclaurinFeatures(_dot_product_kernel(name, parameters), **parameters)
    if name == "polynomial":
        from daskrf.features import PolynomialSketch

        return PolynomialSketch(**{"normalize": True, **parameters})
    if name in ("gaussian-maclaurin", "local-gaussian"):
        from daskrf.features import GaussianMaclaurinFeatures, LocalGaussianFeatures

        if "length_scale" not in parameters:
            raise click.UsageError(f"--map {name} needs --length-scale.")
        centred = GaussianMaclaurinFeatures if name == "gaussian-maclaurin" else LocalGaussianFeatures
        return centred(**parameters)
    from daskrf.features import FastfoodFeatures, LandmarkFeatures, NystromFeatures, RandomFourierFeatures

    kernel = _kernel(name, parameters)
    if name == "fourier":
        return RandomFourierFeatures(kernel, **parameters)
    if name == "fastfood":
        return FastfoodFeatures(kernel, **parameters)
    kind = NystromFeatures if name == "nystrom" else LandmarkFeatures
    return kind(kernel=kernel, **parameters)


def _dot_product_kernel(of: str, parameters: dict[str, Any]) -> DotProductKernel:
    """Take the series and `normalize` out of the parameters and return their kernel."""
    from daskrf.kernels import DotProduct, Exponential, Polynomial

    series = parameters.pop("series", None) or {"series": "power"}
    normalize = parameters.pop("normalize", True)
    if series["series"] == "power":
        return Polynomial(series.get("degree", 2), c=0.0, normalize=normalize)
    if series["series"] == "exponential":
        return Exponential(series.get("gamma", 1.0), normalize=normalize)
    if series["series"] == "coefficients":
        return DotProduct(series["coefficients"], normalize=normalize)
    raise click.UsageError(f"--series ratio is for --map compositional, not for --map {of}.")


def _kernel(of: str, parameters: dict[str, Any]) -> Any:
    """Take the options of the kernel out of `parameters` and return it.

    Counts enter the dot product as square roots, as in its features.
    """
    from daskrf.kernels import Gaussian, Intersection, Matern, TanimotoDotProduct, TanimotoMinMax

    name = parameters.pop("kernel", "minmax" if of in _EXACT else "gaussian")
    own = {key: parameters.pop(key) for key in ("length_scale", "nu") if key in parameters}
    if of not in _EXACT and name not in _RADIAL:
        raise click.UsageError(f"--map {of} takes --kernel gaussian or matern, not {name}.")
    if of == "landmarks" and name == "intersection":
        raise click.UsageError(
            "--map landmarks takes no --kernel intersection, which is not 1 between a molecule and itself: "
            "take --map nystrom."
        )
    if name not in _RADIAL:
        for key in own:
            flag = f"--{key.replace('_', '-')}"
            raise click.UsageError(f"{flag} is an option of --kernel gaussian or matern, not of {name}.")
        return {
            "minmax": TanimotoMinMax(),
            "dot-product": TanimotoDotProduct(transform="sqrt"),
            "intersection": Intersection(),
        }[name]
    if "length_scale" not in own:
        raise click.UsageError(f"--kernel {name} needs --length-scale.")
    if name == "matern":
        return Matern(**own)
    if "nu" in own:
        raise click.UsageError("--nu is an option of --kernel matern, not of gaussian.")
    return Gaussian(**own)
