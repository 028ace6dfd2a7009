"""The feature maps that the contract tests run over: all that there are, and each of their choices.

A map is found because it is in `known_maps`, and made as its class says: by its defaults, once for each value
that a type hint lists. `FIRST_BYTES` has what no class can say, the first bytes of its features. `TABLE` has
cases with other parameters, or other promises beside the contract. `MISSING` says what these lack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from daskrf.features import (
    CompositionFeatures,
    FastfoodDotProductFeatures,
    FastfoodFeatures,
    FeatureMap,
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    LocalGaussianFeatures,
    MeanFeatures,
    NystromFeatures,
    PolynomialSketch,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
    known_maps,
)
from daskrf.kernels import (
    Exponential,
    Gaussian,
    Kernel,
    Matern,
    MetricGaussian,
    Polynomial,
    RadialSpectrum,
    Ratio,
    UnitBalls,
)
from tests.discovery import arguments, choices_of
from tests.kernels.values import METRIC


def counts(n: int = 12) -> np.ndarray:
    """Return small random counts of 40 columns; row 1 is empty, rows 2 and 3 are equal."""
    rng = np.random.default_rng(11)
    X = np.minimum(rng.poisson(0.6, (n, 40)), 3)
    X[1] = 0
    X[2] = X[3]
    return X


def weights(n: int = 12) -> np.ndarray:
    """Return real weights over about six orders of magnitude, zero where :func:`counts` is."""
    scale = np.exp(np.random.default_rng(12).uniform(-7, 7, 40) / 2)
    noise = np.exp(np.random.default_rng(13).normal(size=(n, 40)))
    noise[2] = noise[3]
    return counts(n) * scale * noise


def vectors(n: int = 12) -> np.ndarray:
    """Return real vectors with few zeros; row 1 is empty, rows 2 and 3 are equal."""
    rng = np.random.default_rng(14)
    X = rng.normal(size=(n, 40))
    X[:, 5] = 0.25
    X[1] = 0
    X[2] = X[3]
    return X


def reals(n: int = 12) -> np.ndarray:
    """Return real vectors of both signs, and some zeros; row 1 is zero, rows 2 and 3 are equal."""
    X = np.random.default_rng(14).normal(size=(n, 40)) * (counts(n) != 1)
    X[1] = 0
    X[2] = X[3]
    return X


@dataclass(frozen=True)
class Case:
    """A map and what it promises.

    Parameters
    ----------
    make : the class, or a partial of it: called with the number of components and ``random_state=``
    golden : the first bytes of its features of `rows` for seed 7, as hexadecimal digits; the test that lacks
        them prints them
    rows : gives the 12 rows of 40 columns to transform; the same rows are given to `fit`
    components : the number of components of all tests, for a map that cannot have any number of them
    kernel : gives the kernel of which the inner products of a fitted map are unbiased estimates, where it is
        not ``kernel_``; None where there is no such kernel
    least : the smallest number of components
    prefixes : the first features of a larger map are those of a smaller one, up to their scale
    independent : another seed gives features that are independent of the first ones, with random signs
    falls : the mean squared error falls like 1 / n_components
    """

    make: Callable[..., FeatureMap]
    golden: str
    rows: Callable[[], np.ndarray] = counts
    components: int | None = None
    least: int = 1
    kernel: Callable[[FeatureMap], Kernel] | None = lambda feature_map: feature_map.kernel_
    prefixes: bool = False
    independent: bool = True
    falls: bool = True

    def size(self, wanted: int) -> int:
        """Return the number of components for a test that would like to have `wanted`."""
        return self.components or wanted


TABLE = {
    "minmax": Case(TanimotoMinMaxFeatures, "76236f5374b9cb632ac4516241df9fd2", prefixes=True),
    "minmax gaussian": Case(
        partial(TanimotoMinMaxFeatures, distribution="gaussian"),
        "e59b1b3ec7384dbdd8e2873ef8b5d53b6c4f163e261b4abd8b6e6b3e92f406be",
        prefixes=True,
    ),
    "minmax cws": Case(
        partial(TanimotoMinMaxFeatures, hashing="cws"),
        "230d5d6d8b0164d4885907227a706c73",
        weights,
        prefixes=True,
    ),
    "minmax cws gaussian": Case(
        partial(TanimotoMinMaxFeatures, hashing="cws", distribution="gaussian"),
        "066835be11eec2bdb10618bd87b2d83dc6e1c0bd7ea1363e9899f33d8f852b3d",
        weights,
        prefixes=True,
    ),
    "composition of bits": Case(
        partial(CompositionFeatures, Exponential(1.5), None),
        "3d6228a93853012a195bb0c8015bb152",
        prefixes=True,
    ),
    "composition of cws bits": Case(
        partial(CompositionFeatures, Ratio(), TanimotoMinMaxFeatures(hashing="cws")),
        "48f032688bb16796649b06faea3e186d",
        weights,
        prefixes=True,
    ),
    "dot product": Case(
        partial(TanimotoDotProductFeatures, n_terms=2),
        "7a006a3b71320cbb6bc0f8bb2eead03b0000003e000000be000000be0000003e",
    ),
    "dot product normalized": Case(
        partial(TanimotoDotProductFeatures, n_terms=2, bias_correction="normalize"),
        "33b2913bc8942ebb34e11abc7f13023c0000003e000000be000000be0000003e",
        kernel=None,
        falls=False,
    ),
    "dot product residual": Case(
        partial(TanimotoDotProductFeatures, n_terms=2, bias_correction="residual"),
        "1d2b203e7c9c22be885639bbdd472f3b0000003e000000be000000be0000003e",
        kernel=None,
        falls=False,
    ),
    "landmarks": Case(
        LandmarkFeatures,
        "000000000000803f0000403eabaaaa3e0000803f000000000000000000000000",
        components=11,
        kernel=None,
        independent=False,
        falls=False,
    ),
    "landmarks farthest": Case(
        partial(LandmarkFeatures, selection="farthest"),
        "000000000000803f74a6aa3bd6caae3d0000803f000000000000000000000000",
        weights,
        components=11,
        kernel=None,
        independent=False,
        falls=False,
    ),
    "landmarks medoids": Case(
        partial(LandmarkFeatures, selection="kmedoids"),
        "000000000000803f0000403eabaaaa3e0000803f000000000000000000000000",
        components=11,
        kernel=None,
        independent=False,
        falls=False,
    ),
    **{
        name: Case(
            partial(NystromFeatures, n_landmarks=7, kernel=kernel, selection=selection),
            golden,
            rows,
            components=5,
            kernel=None,
            independent=False,
            falls=False,
        )
        for name, kernel, selection, golden, rows in (
            (
                "nystrom",
                Gaussian(4.0),
                "random",
                "1558a13edccc363fa886343ef70c513ef04f313fa328aa3d8dbc493ebb2d373e",
                counts,
            ),
            (
                "nystrom dense",
                Gaussian(8.0),
                "kmedoids",
                "b23be83eaefb383fafa420be40e02dbeba4d263fa502493db0ff33be247515be",
                vectors,
            ),
            (
                "nystrom means",
                Matern(6.0, nu=1.5),
                "kmeans",
                "88ef6f3ef866703f53f6b1bcf602b03d94932f3f7c2d3a3eebb6603de71f7b3e",
                vectors,
            ),
            (
                "nystrom products",
                Polynomial(1, c=1.0),
                "farthest",
                "61d02740cece70bfe460b4bfd0f7e8be6cb9d13ed7ba6e3dce24c93d2c6325bc",
                reals,
            ),
        )
    },
    "fourier": Case(
        partial(RandomFourierFeatures, Gaussian(4.0)),
        "b1c71d3e0777b1bdee3d213d5779303ef304353e00000000f304353e00000000",
        least=2,
        prefixes=True,
        independent=False,
    ),
    "fourier orthogonal": Case(
        partial(RandomFourierFeatures, Gaussian(8.0), orthogonal=True),
        "32a380bcc34d34bed80be13d2ccc0d3ef304353e00000000f304353e00000000",
        vectors,
        least=2,
        prefixes=True,
        independent=False,
        falls=False,
    ),
    "fourier matern": Case(
        partial(RandomFourierFeatures, Matern(6.0, nu=1.5)),
        "b17d27be0d5489bd6369803d0940293ef304353e00000000f304353e00000000",
        vectors,
        least=2,
        prefixes=True,
        independent=False,
    ),
    "fourier metric": Case(
        partial(RandomFourierFeatures, MetricGaussian(6.0, METRIC.text)),
        "27d5343e728203bc88261f3e2580ac3df304353e00000000f304353e00000000",
        vectors,
        least=2,
        prefixes=True,
        independent=False,
    ),
    "fastfood": Case(
        partial(FastfoodFeatures, Gaussian(4.0)),
        "c307f53d5f42053eb778f53d5d0e053ef304353e00000000f304353e00000000",
        least=2,
        prefixes=True,
        independent=False,
    ),
    "fastfood hadamard": Case(
        partial(FastfoodFeatures, Gaussian(4.0), projection="hadamard"),
        "9c6124be7e9d973d9002193ec173c13df304353e00000000f304353e00000000",
        least=2,
        prefixes=True,
        independent=False,
    ),
    "fastfood matern": Case(
        partial(FastfoodFeatures, Matern(6.0, nu=0.5)),
        "45e1283ebb5882bda2fecfbdf829143ef304353e00000000f304353e00000000",
        vectors,
        least=2,
        prefixes=True,
        independent=False,
    ),
    "fastfood unit balls": Case(
        partial(FastfoodFeatures, UnitBalls(2.0, degree=3)),
        "80ed343e7c41b8bb425fee3cd98c32bef304353e00000000f304353e00000000",
        vectors,
        least=2,
        prefixes=True,
        independent=False,
    ),
    "fastfood spectrum": Case(
        partial(FastfoodFeatures, RadialSpectrum([0.1, 0.5, 0.7, 2.0], 2.0)),
        "9e01353eb3ed0abb55ee283ef41482bdf304353e00000000f304353e00000000",
        vectors,
        least=2,
        prefixes=True,
        independent=False,
    ),
    "fastfood fft": Case(
        partial(FastfoodFeatures, Gaussian(8.0), projection="fft"),
        "2512273e3e5c8bbdc4462b3ea2586a3df304353e00000000f304353e00000000",
        vectors,
        least=2,
        kernel=None,
        prefixes=True,
        independent=False,
        falls=False,
    ),
    "fastfood polynomial": Case(
        partial(FastfoodDotProductFeatures, Polynomial(3, c=0.5, normalize=True)),
        "f304b53efe6c123f1c32383e5205253ef304b53e000000800000008000000080",
        reals,
        independent=False,
    ),
    "fastfood exponential": Case(
        partial(FastfoodDotProductFeatures, Exponential(0.02), projection="hadamard"),
        "0000803fae0ab03d27a05abd81f19f3d0000803f000000800000008000000080",
        reals,
        independent=False,
    ),
    "fastfood monomials": Case(
        partial(FastfoodDotProductFeatures, Polynomial(2, normalize=True), expansion="monomials"),
        "f304353fd7a73e3f1c0cb33d67a0683ef304353f000000000000000000000000",
        reals,
        kernel=None,
        independent=False,
        falls=False,
    ),
    "maclaurin": Case(
        partial(RandomMaclaurinFeatures, Polynomial(3, c=0.5, normalize=True)),
        "7e09633d1f472abe6c5fb1be0000008000000000000000000000000000000000",
        independent=False,
    ),
    "maclaurin geometric": Case(
        partial(RandomMaclaurinFeatures, Exponential(1.5, normalize=True), degree_measure="geometric"),
        "7bb5713cfd7a503abcfc30bc33e2e4bb00000000000000000000000000000000",
        reals,
        independent=False,
    ),
    "maclaurin lengths": Case(
        partial(RandomMaclaurinFeatures, Exponential(0.02), max_degree=3),
        "d1c404bd136f8c3b2a13afbc913279bd00000000000000000000000000000000",
        reals,
        independent=False,
    ),
    "maclaurin h01": Case(
        partial(RandomMaclaurinFeatures, Exponential(1.5, normalize=True), h01=True),
        "0000803f236a1b3e51dd5abe000000000000803f000000000000000000000000",
        reals,
        independent=False,
        falls=False,
    ),
    **{
        f"polynomial {method}": Case(
            partial(PolynomialSketch, 3, method=method, c=0.2, normalize=True), golden, reals
        )
        for method, golden in (
            ("rademacher", "d20bd13c81d1ab3d1b2f8d3c6dce533dbe2d373cbe2d373cbe2d373cbe2d37bc"),
            ("gaussian", "e0571fbdace162beef5bef3e34cad6bae4b7b93b6be71f39b338a33a85bfaf38"),
            ("tensorsrht", "afc11fb997fac93beb4d8dbc170e3a3cbe2d37bcbe2d373cbe2d373cbe2d37bc"),
            ("complex", "b3da383df312d6bca729b13e4585063ebe2d37bcbe2d37bcbe2d373cbe2d37bc"),
            ("tensorsketch", "ab48863d371599bcd2e791bd82d0983bbe2d37bcf63bf4bb0c7764bc2cec0f3c"),
        )
    },
    "gaussian maclaurin": Case(
        partial(GaussianMaclaurinFeatures, length_scale=6.0, explicit=False),
        "2005233f41a10a3e812c04bcf040093ec664763f061933bcd393443a854afd3c",
        reals,
        independent=False,
        falls=False,
    ),
    "gaussian maclaurin tensorsrht": Case(
        partial(GaussianMaclaurinFeatures, length_scale=3.0, method="tensorsrht", explicit=False),
        "f3ffdd3ec599a13da6e4463c37c15fbdc859043f093814bd71266d3ca065853d",
        independent=False,
        falls=False,
    ),
    "local gaussian": Case(
        partial(LocalGaussianFeatures, length_scale=6.0, n_centroids=3, explicit=False),
        "2005233f2e0b763ed7956abce299733ec664763ff9ee9ebcf771ae3a08c6603d",
        reals,
        kernel=None,
        independent=False,
        falls=False,
    ),
    "local gaussian kmeans": Case(
        partial(LocalGaussianFeatures, length_scale=3.0, n_centroids=3, selection="kmeans"),
        "bc62e73e814e02be4d4d193e4e4d19be86f50c3f1bc8ba3d47bf82bdb975cdbd",
        kernel=None,
        independent=False,
        falls=False,
    ),
    "composition": Case(
        partial(
            CompositionFeatures,
            Polynomial(2, c=0.5),
            PolynomialSketch(2, method="tensorsketch", normalize=True),
        ),
        "4a46d138da628f3e410ea43d1d49563d00000000000000000000000000000000",
        independent=False,
    ),
    "composition bits": Case(
        partial(CompositionFeatures, Exponential(1.5), TanimotoMinMaxFeatures()),
        "3d6228a93853012a195bb0c8015bb152",
        prefixes=True,
    ),
    "mean of bits": Case(
        partial(MeanFeatures, (0.7, 0.3), None, ((0, 25), (20, 40))),
        "be9760a33e50e163307ef98319e53d9c",
        prefixes=True,
    ),
    "mean of cws bits": Case(
        partial(
            MeanFeatures,
            (1, 0, 2),
            (
                TanimotoMinMaxFeatures(hashing="cws"),
                RandomFourierFeatures(),
                CompositionFeatures(Ratio(), TanimotoMinMaxFeatures(hashing="cws")),
            ),
            None,
        ),
        "2e263cc37f3f3f88ff00e1ec3cb59216",
        weights,
        prefixes=True,
    ),
    "mean of floats": Case(
        partial(
            MeanFeatures,
            (0.3, 0.7),
            (TanimotoMinMaxFeatures(), RandomFourierFeatures(Gaussian(4.0))),
            ((0, 20), (10, 99)),
        ),
        "03ac003e03ac00be03ac00be03ac00be03ac003e03ac003e03ac003e03ac003e",
        independent=False,
    ),
}


FIRST_BYTES = {
    "dot-product input_transform None": "0dba233c0d6618bceeb199bc4474883c0000003e000000be000000be0000003e",
    "fastfood projection orthogonal": "c307f53d5f42053eb778f53d5d0e053ef304353e00000000f304353e00000000",
    "gaussian-maclaurin explicit True": "2005233ff25fb83d572de0bdac56f1bbc664763f95b2c83cc95f08bc266236bc",
    "landmarks selection kmeans": "000000000000803f0000403eabaaaa3e0000803f000000000000000000000000",
    "local-gaussian selection random": "b6ddd73e2618453e9bb608be145d413eda81363f45682c3dbcbf55bebfbbbf3d",
    "local-gaussian method tensorsrht": "2005233f98d319bd9c7dc23d9c30b23dc664763fe1bc0bbd0d2d05bd66d4a23c",
    "polynomial normalize False": "5edfc5c001178441007611bffcf8bd41be2d373cbe2d373cbe2d373cbe2d37bc",
}
"""First bytes of the cases that are made as a class says, by name, as `Case.golden`."""


def derived(
    classes: Iterable[type[FeatureMap]], table: Mapping[str, Case]
) -> tuple[dict[str, Case], dict[str, str]]:
    """Return the cases of maps, and of their choices, that are in no case of a table.

    What cannot be made and fitted as its class says is in the second dictionary: what to write, and where.
    """
    listed = [(case, case.make()) for case in table.values()]
    cases: dict[str, Case] = {}
    missing: dict[str, str] = {}
    for cls in classes:
        name = cls.facts.name
        matching = [(case, made) for case, made in listed if type(made) is cls]
        try:
            if not matching:
                case = by_class(cls)
                case.make(case.size(8)).fit(case.rows())
                cases[name] = replace(case, golden=FIRST_BYTES.get(name, ""))
                matching = [(case, case.make())]
        except Exception as error:
            missing[name] = sentence(cls, name, error)
            continue
        like = matching[0][0]
        for parameter, values in choices_of(cls).items():
            held = [getattr(made, parameter) for _, made in matching]
            for value in (value for value in values if value not in held):
                label = f"{name} {parameter} {value}"
                golden = FIRST_BYTES.get(label, "")
                case = replace(like, make=partial(like.make, **{parameter: value}), golden=golden)
                try:
                    case.make(case.size(8)).fit(case.rows())
                    cases[label] = case
                except Exception as error:
                    missing[label] = sentence(cls, label, error)
    return cases, missing


def by_class(cls: type[FeatureMap]) -> Case:
    """Return the case of a map as its class says, without its first bytes."""
    defaults = arguments(cls)

    def make(n_components: int = 64, random_state: int = 0, **choice: object) -> FeatureMap:
        return cls(**{**defaults, **choice, "n_components": n_components, "random_state": random_state})

    feature_map = make()
    kinds = {"counts": counts, "weights": weights, "reals": reals}
    rows = kinds.get(cls.facts.rows.split(",")[0], counts)
    if feature_map.learns_from == "sample":  # rows, of which there are 11 different ones
        return Case(make, "", rows, components=11, kernel=None, independent=False, falls=False)
    if feature_map.projected_kernel is not None:
        return Case(make, "", rows, kernel=None, falls=False)
    return Case(make, "", rows)


def sentence(cls: type[FeatureMap], name: str, error: Exception) -> str:
    return (
        f"{name!r} cannot be made and fitted as {cls.__name__} says ({error}): add a Case of this name, with "
        "parameters that suit 12 rows of 40 columns, to TABLE in tests/features/maps.py."
    )


_DERIVED, MISSING = derived([cls for cls in known_maps() if cls.__module__.startswith("daskrf.")], TABLE)
MAPS = {**TABLE, **_DERIVED}
